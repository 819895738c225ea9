//! The script and the workflow that run on Windows, as far as they can be judged without one.

use crate::common::Place;
use std::fs;
use std::path::Path;

/// Names every place where a grammar of PowerShell finds an error.
const PARSE: &str = "
import sys
from tree_sitter_language_pack import get_parser
source = open(sys.argv[1], 'rb').read()
assert source.startswith(b'\\xef\\xbb\\xbf'), 'PowerShell 5.1 takes it for UTF-8 by this mark only'
source = source[3:]
def walk(node):
    if node.type == 'ERROR' or node.is_missing:
        print(node.start_point, source[node.start_byte:node.end_byte][:100])
    for child in node.children:
        walk(child)
walk(get_parser('powershell').parse(source).root_node)
";

/// Calls the packer of the helper class, for the test below.
const CALLER: &str = "
using System.IO;
public static class Caller
{
    public static void Main(string[] arguments)
    {
        using (var from = File.OpenRead(arguments[0]))
        using (var to = new FileStream(arguments[2], FileMode.CreateNew))
        {
            Platter.Kit.Pack(from, long.Parse(arguments[1]), to);
        }
    }
}
";

fn parse(place: &Place, script: &str) -> String {
    let path = place.path("parsed.ps1");
    fs::write(&path, script).unwrap();
    place.tool("python3", &["-c", PARSE, path.to_str().unwrap()])
}

/// The script of the comparison is PowerShell to the same parser, and what it says to the program is understood. A disk
/// is cleared only where its number was given and that everything on it is lost.
#[test]
fn a_parser_reads_the_comparison() {
    let place = Place::new("compare-script");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../windows/compare.ps1");
    let script = fs::read_to_string(path).unwrap();
    assert_eq!(parse(&place, &script), "");
    assert_ne!(parse(&place, &script.replacen("if ($isThere) {", "if ($isThere {", 1)), "");
    let quoted: Vec<&str> = script.split('\'').collect();
    let help = place.works("compare --help");
    let options: Vec<&&str> = quoted.iter().filter(|word| word.starts_with("--")).collect();
    assert!(options.len() >= 6 && options.iter().all(|option| help.contains(**option)), "{options:?}");
    for (list, name) in
        [("[string[]]$Targets = @(", "--targets"), ("[string[]]$Workloads = @(", "--workloads")]
    {
        let words = script.split(list).nth(1).and_then(|rest| rest.split(')').next()).unwrap();
        for word in words.split(", ").map(|word| word.trim_matches('\'')) {
            assert!(help.contains(word), "{name} {word}");
        }
    }
    let clears =
        script.match_indices("Clear-Disk").map(|(at, _)| script[..at].rsplit("if (").next().unwrap());
    let clears: Vec<&str> = clears.collect();
    assert!(clears.len() == 2 && clears[0].starts_with("$found.PartitionStyle"), "{clears:?}");
    assert!(clears[1].starts_with("$DiskNumber -ge 0"), "{clears:?}");
    assert!(script.contains("if (($DiskNumber -ge 0) -ne [bool]$EraseDisk)"));
}

/// The script is PowerShell to a parser that is not PowerShell's, and the parser would notice if it were not.
#[test]
fn a_parser_reads_the_script() {
    let place = Place::new("kit-script");
    place.works("windows-kit kit --only fat12");
    let script = fs::read_to_string(place.path("kit/kit.ps1")).unwrap();
    assert_eq!(parse(&place, &script), "");
    assert_ne!(parse(&place, &script.replacen("if ($Fresh) {", "if ($Fresh {", 1)), "");
    // Every step of the script is one that the verdict knows, and the other way round.
    let named = script.match_indices("Invoke-Step $judged '").map(|(at, text)| {
        let name = &script[at + text.len()..];
        &name[..name.find('\'').unwrap()]
    });
    let of_fresh = ["format", "pack-live"];
    let mut named: Vec<&str> = named.filter(|name| !of_fresh.contains(name)).collect();
    named.sort_unstable();
    named.dedup();
    let table = include_str!("../src/command/windows_kit/verdict.rs");
    let wanted = table.lines().filter_map(|line| line.trim().strip_prefix("wanted(\"")?.split('"').next());
    let mut wanted: Vec<&str> = wanted.collect();
    wanted.sort_unstable();
    assert_eq!(named, wanted);
}

/// Volumes that the script packs are unpacked here, byte for byte, and a pack is small: the contents are not in it.
#[test]
fn what_the_script_packs_is_unpacked() {
    let place = Place::new("kit-pack");
    let helper = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/command/windows_kit/helper.cs");
    fs::write(place.path("caller.cs"), CALLER).unwrap();
    // The version of C# is that of Windows PowerShell 5.1.
    place.tool("mcs", &["-langversion:5", "-out:caller.exe", "caller.cs", helper.to_str().unwrap()]);
    place.works("windows-kit kit --only ntfs --only refs-3.14-integrity");
    for name in ["ntfs", "refs-3.14-integrity"] {
        let vhd = format!("kit/{name}.vhd");
        let length = (fs::metadata(place.path(&vhd)).unwrap().len() - 512).to_string();
        place.tool("mono", &["caller.exe", &vhd, &length, &format!("{name}.pack")]);
        place.works(&format!("windows-kit {name}.img --unpack {name}.pack"));
        place.tool("cmp", &["-n", &length, &vhd, &format!("{name}.img")]);
        let size = fs::metadata(place.path(&format!("{name}.pack"))).unwrap().len();
        assert!(size < 5 << 20, "{name}: {size} bytes");
        let data = fs::metadata(place.path(&format!("kit/{name}.json"))).unwrap().len();
        assert!(size > data / 100, "{name}: the metadata is in it");
    }
}

#[test]
fn the_workflow_fits_its_schema() {
    let place = Place::new("kit-workflow");
    let workflow = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.github/workflows/windows.yml");
    let judge = |path: &Path| {
        let arguments =
            ["-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", path.to_str().unwrap()];
        place.command("python3", &arguments).output().unwrap()
    };
    let output = judge(&workflow);
    assert!(output.status.success(), "{output:?}");
    let wrong =
        fs::read_to_string(workflow).unwrap().replace("runs-on: ubuntu-latest", "run-on: ubuntu-latest");
    fs::write(place.path("wrong.yml"), wrong).unwrap();
    assert!(!judge(&place.path("wrong.yml")).status.success());
}
