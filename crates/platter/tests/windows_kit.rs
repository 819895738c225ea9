//! The kit for Windows: its images in front of other programs, and verdicts, one of them made with the mounts that
//! Linux has.

use crate::common::{Place, content};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most bytes that a whole kit takes on the host.
const MOST: u64 = 600 << 20;

fn read(path: impl AsRef<Path>) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap()
}

/// The names of the steps, as the program's own table has them.
fn steps(place: &Place) -> Vec<String> {
    let verdict = verdict(&[json!({ "name": "x", "file_system": "ReFS" })]);
    fs::write(place.path("steps.json"), verdict.to_string()).unwrap();
    let (table, _) = place.ends(1, "windows-verdict steps.json");
    let head = table.lines().find(|line| line.starts_with("| image")).unwrap();
    head.split('|').map(str::trim).skip(2).filter(|name| !name.is_empty()).map(str::to_string).collect()
}

fn verdict(images: &[Value]) -> Value {
    json!({
        "schema": "platter-windows-verdict",
        "version": 1,
        "kit": { "platter": env!("CARGO_PKG_VERSION"), "seed": 1 },
        "system": { "product": "a test", "build": "1" },
        "images": images,
    })
}

fn passed(steps: &[String]) -> Vec<Value> {
    steps.iter().map(|step| json!({ "step": step, "outcome": "pass" })).collect()
}

/// The marks of an image's row in the table, by step.
fn row(table: &str, image: &str) -> Vec<(String, String)> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect()
    };
    let head = cells(table.lines().find(|line| line.starts_with("| image")).unwrap());
    let start = format!("| {image} |");
    let row = cells(table.lines().find(|line| line.starts_with(&start)).unwrap());
    head.into_iter().zip(row).skip(1).collect()
}

/// Every image is a fixed VHD for others, has a partition of the right type, passes the check and has what its manifest
/// says.
#[test]
fn the_whole_kit_is_what_its_manifest_says() {
    let place = Place::new("kit");
    place.works("windows-kit kit");
    let names = place.works("windows-kit --list");
    let names: Vec<&str> = names.lines().map(|line| line.split(' ').next().unwrap()).collect();
    let kit = read(place.path("kit/manifest.json"));
    let images = kit["images"].as_array().unwrap();
    assert_eq!(images.iter().map(|image| text(image, "name")).collect::<Vec<_>>(), names);
    let files = fs::read_dir(place.path("kit")).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
    let taken: u64 = files.map(|data| data.blocks() * 512).sum();
    assert!(taken < MOST, "the kit takes {taken} bytes");

    let steps = steps(&place);
    let mut judged = Vec::new();
    let mut kinds = BTreeSet::new();
    for image in images {
        let (name, disk) = (text(image, "name"), image["disk"].as_u64().unwrap());
        let vhd = place.path(&format!("kit/{name}.vhd"));
        let path = vhd.to_str().unwrap();
        let info: Value =
            serde_json::from_str(&place.tool("qemu-img", &["info", "--output=json", "-f", "vpc", path]))
                .unwrap();
        assert_eq!(info["virtual-size"].as_u64(), Some(disk), "{name}");
        assert_eq!(info["format"], "vpc");
        let info = place.tool("vhdiinfo", &[path]);
        assert!(info.contains("Fixed") && info.contains(&format!("({disk} bytes)")), "{name}: {info}");
        let table: Value = serde_json::from_str(&place.tool("sfdisk", &["-J", path])).unwrap();
        let (label, system) = (&table["partitiontable"]["label"], text(image, "file_system"));
        let kind = text(&table["partitiontable"]["partitions"][0], "type");
        let right: &[&str] = match (label.as_str().unwrap(), system) {
            ("gpt", _) => &["EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"],
            (_, "FAT") => &["1", "e"],
            (_, "FAT32") => &["c"],
            _ => &["7"],
        };
        assert!(right.contains(&kind), "{name}: {label} {kind}");
        kinds.insert((label.to_string(), system.to_string()));
        // The manifest of one image is its part of the whole.
        assert_eq!(read(place.path(&format!("kit/{name}.json"))), *image, "{name}");
        let entries = image["entries"].as_array().unwrap();
        assert!(entries.len() > 1500, "{name}: {}", entries.len());
        if image["closed"] == true {
            place.works(&format!("check kit/{name}.vhd"));
        } else if system == "NTFS" || system == "ReFS" {
            // These recover by themselves when they are next opened for writing.
            place.works(&format!("mkdir kit/{name}.vhd:/opened"));
            place.works(&format!("rm -r kit/{name}.vhd:/opened"));
        } else {
            let (said, _) = place.ends(4, &format!("check kit/{name}.vhd"));
            assert!(said.contains("not closed") || said.contains("dirty"), "{name}: {said}");
            place.ends(1, &format!("check --repair --no-undo kit/{name}.vhd"));
        }
        fs::hard_link(&vhd, place.path(&format!("kit/{name}.written.vhd"))).unwrap();
        judged.push(json!({ "name": name, "file_system": system, "steps": passed(&steps) }));
    }
    assert_eq!(kinds.len(), 9, "{kinds:?}");
    // What is in each, by its manifest: the program compares it here.
    fs::write(place.path("verdict.json"), verdict(&judged).to_string()).unwrap();
    let (table, _) = place.ends(0, "windows-verdict verdict.json kit");
    assert!(table.contains(&format!(
        "\n{} steps passed, 0 failed, 0 were not run.\n",
        (steps.len() + 1) * images.len()
    )));

    // The content of a VHD is what is before its footer, to others too.
    for name in ["fat12", "refs-3.14-64k"] {
        let vhd = place.path(&format!("kit/{name}.vhd"));
        place.tool("qemu-img", &["convert", "-f", "vpc", "-O", "raw", vhd.to_str().unwrap(), "raw.img"]);
        let length = fs::metadata(place.path("raw.img")).unwrap().len();
        assert_eq!(length + 512, fs::metadata(&vhd).unwrap().len());
        place.tool("cmp", &["-n", &length.to_string(), "raw.img", vhd.to_str().unwrap()]);
    }
    let said = place.fails("windows-kit kit");
    assert!(said.contains("is not empty"), "{said}");
}

/// The tree follows from the seed alone.
#[test]
fn a_seed_gives_the_same_tree_again() {
    let place = Place::new("kit-seed");
    let listed = |directory: &str, seed: u32| {
        place.works(&format!("windows-kit {directory} --only exfat --seed {seed}"));
        read(place.path(directory).join("exfat.json"))
    };
    assert_eq!(listed("a", 5), listed("b", 5));
    assert_ne!(listed("c", 6)["entries"], listed("d", 5)["entries"]);
    let (_, said) = place.ends(2, "windows-kit e --only ext4");
    assert!(said.contains("no image of this name"), "{said}");
    assert!(!place.path("e").exists());
}

/// A mount of one image by a program of Linux, which ends when this is dropped.
struct Mounted<'p> {
    place: &'p Place,
    at: PathBuf,
    loop_device: Option<String>,
}

impl<'p> Mounted<'p> {
    fn new(place: &'p Place, image: &str, disk: u64, by: &str) -> Mounted<'p> {
        let at = place.path("m");
        fs::create_dir_all(&at).unwrap();
        let directory = at.to_str().unwrap();
        if by == "platter" {
            place.works(&format!("mount {image} m"));
            return Mounted { place, at, loop_device: None };
        }
        // The partition begins at 1 MiB and ends 1 MiB before the disk does.
        let length = (disk - (2 << 20)).to_string();
        let arguments = ["-f", "--show", "-o", "1048576", "--sizelimit", &length, image];
        let device = place.tool("losetup", &arguments).trim().to_string();
        match by {
            "ntfs-3g" => place.tool("ntfs-3g", &["-o", "streams_interface=windows", &device, directory]),
            _ => place.tool("mount.exfat-fuse", &[&device, directory]),
        };
        Mounted { place, at, loop_device: Some(device) }
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let directory = self.at.to_str().unwrap();
        match &self.loop_device {
            None => drop(self.place.works("umount m")),
            Some(device) => {
                self.place.tool("umount", &[directory]);
                self.place.tool("losetup", &["-d", device]);
            }
        }
    }
}

/// Compares files with what they should be, by the program of coreutils.
fn sums(mounted: &Mounted, entries: &[Value]) {
    let files = entries.iter().filter(|entry| entry["kind"] == "file");
    let lines = files.map(|entry| format!("{}  {}\n", text(entry, "sha256"), text(entry, "path")));
    let list = mounted.place.path("sums");
    fs::write(&list, lines.collect::<String>()).unwrap();
    let mut command =
        mounted.place.command("sha256sum", &["--check", "--strict", "--quiet", list.to_str().unwrap()]);
    let output = command.current_dir(&mounted.at).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Writes a few files, and returns what a verdict says of them.
fn written(mounted: &Mounted) -> Vec<Value> {
    let directory = "written by windows";
    fs::create_dir(mounted.at.join(directory)).unwrap();
    let mut written = vec![json!({ "path": directory, "kind": "directory", "size": 0 })];
    for number in 0..30 {
        let (path, bytes) =
            (format!("{directory}/file {number}.bin"), content(number, 7000 * number as usize));
        fs::write(mounted.at.join(&path), &bytes).unwrap();
        let said = mounted.place.tool("sha256sum", &[mounted.at.join(&path).to_str().unwrap()]);
        let sum = said.split(' ').next().unwrap();
        written.push(json!({ "path": path, "kind": "file", "size": bytes.len(), "sha256": sum }));
    }
    written
}

/// What Windows would do, done by ntfs-3g, exfat-fuse and the program's own mount.
#[test]
fn a_verdict_made_on_mounts_of_linux_is_judged() {
    let place = Place::new("kit-verdict");
    let judges = [
        ("ntfs", "ntfs-3g"),
        ("exfat", "exfat-fuse"),
        ("fat32", "platter"),
        ("refs-3.14-integrity", "platter"),
    ];
    let only: Vec<String> = judges.iter().map(|(name, _)| format!("--only {name}")).collect();
    place.works(&format!("windows-kit kit {}", only.join(" ")));
    fs::create_dir(place.path("out")).unwrap();
    fs::copy(place.path("kit/manifest.json"), place.path("out/manifest.json")).unwrap();
    let kit = read(place.path("kit/manifest.json"));
    let steps = steps(&place);
    let done = ["attach", "read", "write", "detach", "read-again"];
    let mut images = Vec::new();
    for (name, by) in judges {
        let image = kit["images"].as_array().unwrap().iter().find(|image| image["name"] == name).unwrap();
        let (disk, entries) = (image["disk"].as_u64().unwrap(), image["entries"].as_array().unwrap());
        let copy = format!("out/{name}.written.vhd");
        place.tool("cp", &["--sparse=always", &format!("kit/{name}.vhd"), &copy]);
        let mounted = Mounted::new(&place, &copy, disk, by);
        sums(&mounted, entries);
        let written = written(&mounted);
        drop(mounted);
        sums(&Mounted::new(&place, &copy, disk, by), &[&entries[..], &written].concat());
        let outcome = |step: &String| match done.contains(&step.as_str()) {
            true => json!({ "step": step, "outcome": "pass" }),
            false => json!({ "step": step, "outcome": "not-run", "reason": "this is no Windows" }),
        };
        let steps: Vec<Value> = steps.iter().map(outcome).collect();
        let file_system = text(image, "file_system");
        images.push(json!({ "name": name, "file_system": file_system, "steps": steps, "written": written }));
    }
    let judge = |images: &[Value], code: i32| {
        // PowerShell 5.1 writes a mark of the byte order before its texts.
        fs::write(place.path("verdict.json"), format!("\u{FEFF}{}", verdict(images))).unwrap();
        place.ends(code, "windows-verdict verdict.json out").0
    };
    let table = judge(&images, 1);
    for (name, _) in judges {
        for (step, mark) in row(&table, name) {
            let is_done = done.contains(&step.as_str()) || step == "check-here";
            let right: &[&str] = if is_done { &["pass"] } else { &["not run", "–"] };
            assert!(right.contains(&mark.as_str()), "{name}, {step}: {mark}\n{table}");
        }
    }
    assert!(table.contains("- ntfs, chkdsk: not run: this is no Windows\n"), "{table}");

    // With every step passed the verdict passes; a single other one shows.
    for image in &mut images {
        image["steps"] = passed(&steps).into();
    }
    judge(&images, 0);
    let all = images.clone();
    images[0]["written"][2]["sha256"] = json!("00");
    assert!(
        judge(&images, 1)
            .contains("- ntfs, check-here: **fail**: written by windows/file 1.bin: has 7000 bytes")
    );
    images = all.clone();
    images[1]["steps"][2] = json!({ "step": "chkdsk", "outcome": "fail", "reason": "a | b\n<c>" });
    assert!(judge(&images, 1).contains("- exfat, chkdsk: **fail**: a \\| b \\<c\\>\n"));
    images = all.clone();
    let gone = images.remove(3);
    assert_eq!(row(&judge(&images, 1), text(&gone, "name"))[0].1, "not run");
    images = all;
    fs::remove_file(place.path("out/fat32.written.vhd")).unwrap();
    assert!(judge(&images, 1).contains("- fat32, check-here: not run: neither "));
}

#[test]
fn what_is_no_verdict_is_refused() {
    let place = Place::new("kit-no-verdict");
    let image = json!({ "name": "ntfs", "file_system": "NTFS", "steps": [] });
    let good = verdict(std::slice::from_ref(&image));
    let with = |key: &str, value: Value| {
        let mut wrong = good.clone();
        wrong[key] = value;
        wrong.to_string()
    };
    for (wrong, said) in [
        (String::new(), "is no verdict"),
        ("[1]".into(), "is no verdict"),
        (with("schema", json!("other")), "is \"other\" of version 1"),
        (with("version", json!(2)), "of version 2"),
        (with("images", json!([])), "judges no image"),
    ] {
        fs::write(place.path("wrong.json"), wrong).unwrap();
        let (_, error) = place.ends(2, "windows-verdict wrong.json");
        assert!(error.contains(said), "{error}");
    }
    place.ends(2, "windows-verdict missing.json");
    // A list of one element is that element, as PowerShell may write it.
    fs::write(place.path("one.json"), with("images", image)).unwrap();
    let (table, _) = place.ends(1, "windows-verdict one.json");
    assert_eq!(row(&table, "ntfs")[0], ("attach-read-only".into(), "not run".into()));
}
