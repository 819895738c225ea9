//! Command lines and profiles of DiskSpd, and the workloads that are made of them.

use super::*;
use crate::workload::Workload;
use crate::{Begin, Durability, PartLength, Rate, Spread};
use std::time::Duration;

fn profile(line: &str) -> Result<Profile, String> {
    let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    Profile::from_arguments(&arguments)
}

fn workload(line: &str) -> Workload {
    let made = profile(line).and_then(|profile| profile.workloads());
    made.unwrap_or_else(|error| panic!("{line}: {error}")).remove(0)
}

fn refused(line: &str) -> String {
    let made = profile(line).and_then(|profile| profile.workloads());
    made.err().unwrap_or_else(|| panic!("{line} is not refused"))
}

const MINUTE: Duration = Duration::from_secs(60);

/// The examples of DiskSpd's usage text, and one as found in people's scripts.
#[test]
fn documented_command_lines_are_taken_as_they_are() {
    let simple = workload("-c8192K -d1 testfile.dat");
    let case = &simple.cases[0];
    assert_eq!((simple.span, simple.buffered, case.name.as_str()), (8 << 20, true, "testfile.dat"));
    assert_eq!((case.pattern.block, case.pattern.queue_depth, case.pattern.workers), (65536, 2, 1));
    assert_eq!((case.time, case.ramp_up), (Duration::from_secs(1), Duration::from_secs(5)));
    let random = workload("-b4K -t2 -r -o32 -d10 -Sh -c1G testfile.dat");
    let pattern = &random.cases[0].pattern;
    assert_eq!((pattern.block, pattern.workers, pattern.queue_depth), (4096, 2, 32));
    assert_eq!((pattern.random_percent, pattern.read_percent), (100, 100));
    assert_eq!((random.buffered, random.durability), (false, Durability::WriteThrough));
    let scripted = workload("-b4K -o32 -t4 -r -w25 -d60 -Sh -L -c1G FILE");
    assert_eq!((scripted.cases[0].pattern.read_percent, scripted.cases[0].pattern.workers), (75, 4));
    // The samples of DiskSpd's documentation ("Sample command lines").
    for (begins, own) in [
        ("-c2G", "-F8 -r -o32"),
        ("-c2G -w100", "-F8 -r -o32"),
        ("-c2G", "-r -o1"),
        ("-c2G -w100", "-r -o1"),
        ("-c2G", "-F8 -T1b -s8b -o32"),
        ("-c2G -w100", "-F8 -T1b -s8b -o32"),
        ("-c2G", "-o1"),
        ("-c2G -w100", "-o1"),
        ("-c100b", "-o32 -F8 -T1b -s8b"),
        ("-c100b -w100", "-o32 -F8 -T1b -s8b"),
    ] {
        let sample = workload(&format!("{begins} -b4K {own} -W60 -d60 -Sh testfile.dat"));
        let case = &sample.cases[0];
        assert_eq!(sample.span, if begins.contains("100b") { 409_600 } else { 2 << 30 });
        assert_eq!(case.pattern.read_percent, if begins.contains("-w100") { 0 } else { 100 });
        assert_eq!(case.pattern.random_percent, if own.contains("-r") { 100 } else { 0 });
        assert_eq!(case.pattern.workers, if own.contains("-F8") { 8 } else { 1 });
        assert_eq!((case.pattern.block, case.ramp_up, case.time), (4096, MINUTE, MINUTE));
        if own.contains("-s8b") {
            let shape = &case.pattern.shape;
            assert_eq!((shape.stride, shape.begin), (Some(32768), Begin::Every(4096)));
        }
    }
    // Two files are used at the same time, each with its own threads.
    let two = workload("-c1G -b4K -t2 -d10 one.dat two.dat");
    assert_eq!((two.span, two.cases.len(), two.cases[1].beside), (2 << 30, 2, true));
    assert_eq!(two.cases[1].range(two.span), 1 << 30..2 << 30);
}

/// Options that are honoured, some with another option that they need.
#[rustfmt::skip]
const TAKEN: [&str; 58] = [
    "-:1", "-ag", "-b4K", "-B1M", "-B1M:2M", "-C0", "-C5", "-D", "-D500", "-d1", "-f4M", "-frs", "-ft", "-F2",
    "-g100", "-g100i", "-h", "-i5 -j2", "-I3", "-l", "-L", "-n", "-o4", "-F2 -O4", "-P", "-P100", "-r",
    "-r8K", "-rdpct90/10:0/10:5/20", "-rdabs90/1M:5/2M", "-rs50", "-Rtext", "-Rxml", "-Rpxml", "-R", "-s",
    "-s128K", "-si", "-s2b", "-S", "-Sb", "-Sh", "-Su", "-Sw", "-Suw", "-Sbw", "-t2", "-t2 -T1M", "-v", "-vs",
    "-w", "-w100", "-W0", "-x", "-z", "-z5", "-Zr", "-Z1M",
];

#[test]
fn every_option_is_taken_or_refused_by_name() {
    for taken in TAKEN {
        workload(&format!("-c8M {taken} file"));
    }
    for (option, words) in [
        ("-?", "docs"),
        (":", ""),
        ("-:2", "experimental"),
        ("-a0,1", "taskset"),
        ("-I1", "ionice"),
        ("-Nv", "mapped"),
        ("-p", "one offset"),
        ("-Sm", "mapped"),
        ("-Sr", "remote"),
        ("-Sx", "expected"),
        ("-Sbu", "cache"),
        ("-ysready", "Windows"),
        ("-eDISK_IO", "Windows"),
        ("-Z", "zeros"),
        ("-Z1M,data", "file"),
        ("-q", "not understood"),
        ("-b0", "block"),
        ("-w101", "0 to 100"),
        ("-o0", "1 to"),
        ("-d0", "1 to"),
        ("-t2 -F2", "-t and -F"),
        ("-O4", "-F"),
        ("-i5", "-i and -j"),
        ("-si -r", "sequential"),
        ("-si -T1M", "-si and -T"),
        ("-g5 -x", "-g and -x"),
        ("-rdpct90/10:20/20", "110 %"),
        ("-B16M", "no block"),
        ("-Rhtml", "text or xml"),
    ] {
        if option != ":" {
            let error = refused(&format!("-c8M {option} file"));
            assert!(error.contains(words), "{option}: {error}");
        }
    }
    assert!(refused("-c8M").contains("target is missing"));
    assert!(refused("-b4K /no/such/file").contains("-c gives the size"));
}

/// The options of DiskSpd 2.2's usage text, each by the shortest beginning that distinguishes it from the others. The
/// table in the documentation must list each of them.
#[test]
fn the_table_of_the_documentation_is_complete() {
    let page = include_str!("../../../../docs/diskspd.md");
    let table = page.split("## Options").nth(1).and_then(|rest| rest.split("## Results").next()).unwrap();
    for option in [
        "?",
        ":1",
        ":2",
        "ag",
        "a#,#",
        "b",
        "B",
        "c",
        "C",
        "D",
        "d",
        "f<size>",
        "fr",
        "fs",
        "ft",
        "F",
        "g<value>[i]",
        "h",
        "i",
        "j",
        "I1",
        "I2",
        "I3",
        "l",
        "L",
        "n",
        "N",
        "o",
        "O",
        "p",
        "P",
        "r[align]",
        "rdpct…",
        "rdabs…",
        "rs<percent>",
        "R[p]text",
        "R[p]xml",
        "s[align]",
        "si",
        "S",
        "Sb",
        "Sh",
        "Sm",
        "Su",
        "Sr",
        "Sw",
        "t",
        "T",
        "v",
        "vs",
        "w",
        "W",
        "x",
        "X",
        "z",
        "Z",
        "Zr",
        "Z<size>",
        "Z<size>,<file>",
        "ys",
        "yf",
        "yr",
        "yp",
        "ye",
        "eq",
        "ec",
        "es",
        "ep",
        "ePROCESS",
        "eTHREAD",
        "eIMAGE_LOAD",
        "eDISK_IO",
        "eMEMORY_PAGE_FAULTS",
        "eMEMORY_HARD_FAULTS",
        "eNETWORK",
        "eREGISTRY",
    ] {
        assert!(table.contains(&format!("`-{option}`")), "-{option} is not in the table");
    }
}

#[test]
fn a_device_is_told_from_a_file() {
    let device = |paths: &str| profile(&format!("-c1M {paths}")).unwrap().device().map(str::to_owned);
    for name in ["#1", "D:", "/dev/null", "/dev/no-such-disk"] {
        assert_eq!(device(&format!("x.dat {name}")).as_deref(), Some(name));
    }
    assert_eq!(device("x.dat D:\\x.dat /tmp /no/such/file"), None);
}

#[test]
fn options_make_the_load_that_they_describe() {
    let of = |options: &str| workload(&format!("-c64M {options} file")).cases.remove(0);
    let shape = |options: &str| of(options).pattern.shape;
    assert_eq!((shape("-s").begin, shape("-si").begin), (Begin::Together, Begin::Shared));
    assert_eq!(
        (shape("-t2 -T1M").begin, shape("-s128K -b64K").stride),
        (Begin::Every(1 << 20), Some(128 << 10))
    );
    // Threads begin at each multiple of -T, also between multiples of the block.
    assert_eq!((of("-t2 -T4K -b64K -s").pattern.align, of("-t2 -T1M -b64K -s").pattern.align), (4096, 0));
    let mixed = of("-rs30 -w50");
    assert_eq!((mixed.pattern.random_percent, mixed.pattern.shape.steady_runs), (30, true));
    assert_eq!((of("-r4K").pattern.align, of("-r").pattern.align), (4096, 0));
    assert_eq!(shape("-g100").pace.limits[2], Some(Rate::Bytes(100_000.0)));
    assert_eq!(shape("-g100i").pace.limits[2], Some(Rate::Ios(100.0)));
    let pause = shape("-i5 -j20").pace.pause.unwrap();
    assert_eq!((pause.after, pause.time, pause.drained), (5, Duration::from_millis(20), false));
    let Spread::Parts(parts) = shape("-rdabs90/1M:5/2M").spread else { panic!() };
    assert_eq!((parts[0].percent, parts[1].length), (90.0, PartLength::Bytes(2 << 20)));
    assert_eq!(of("-B1M:2M").range(64 << 20), 1 << 20..3 << 20);
    assert_eq!(of("-f2M").range(64 << 20), 0..2 << 20);
    assert_eq!(
        (of("-Sw").durability, of("-S").durability),
        (Some(Durability::WriteThrough), Some(Durability::Direct))
    );
    assert_eq!(of("-D250").interval, Some(Duration::from_millis(250)));
    // With `-F` each target has all three threads.
    let both = workload("-c64M -F3 -o5 one two");
    assert_eq!((both.cases[1].pattern.workers, both.cases[1].pattern.queue_depth), (3, 5));
    assert!(both.notes.concat().contains("-F3"));
    let notes = workload("-c64M -w10 -C5 file").notes.concat();
    assert!(notes.contains("0 to 255") && notes.contains("cool down"), "{notes}");
}

/// A profile written as XML is read back as the same profile, and a file with it works as the command line does.
#[test]
fn profiles_read_back() {
    let line = "-b4K -o8 -t2 -r8K -rs40 -w30 -d7 -W1 -C2 -Su -L -D500 -z9 -g50i -i3 -j4 -Z2M -rdpct90/10 -c64M one.dat two.dat";
    let written = profile(line).unwrap();
    let read = Profile::from_xml(&written.to_xml(), &[]).unwrap();
    assert_eq!(Profile { command: written.command.clone(), ..read }, written);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.xml");
    let text = written.to_xml().replace("one.dat", "*1").replace("two.dat", "*2");
    std::fs::write(&path, text).unwrap();
    let run = profile(&format!("-X{} -d60 -Rxml first second", path.display())).unwrap();
    assert_eq!(run.paths().collect::<Vec<_>>(), ["first", "second"]);
    assert_eq!((run.time_spans[0].duration, run.xml), (60, true));
    assert!(profile(&format!("-X{} first", path.display())).unwrap_err().contains("no target 2"));
    assert!(profile(&format!("-X{} -b4K first second", path.display())).unwrap_err().contains("-b4K"));
    assert!(profile("-X/no/such/profile").unwrap_err().contains("/no/such/profile"));
}

/// A profile as the documentation shows one, with only the elements that differ from the defaults.
#[test]
fn a_short_profile_has_the_defaults() {
    let text = "<?xml version=\"1.0\"?><!-- of two runs --><Profile><TimeSpans>\
        <TimeSpan><Duration>5</Duration><Targets><Target><Path>a&amp;b.dat</Path><FileSize>1048576</FileSize></Target></Targets></TimeSpan>\
        <TimeSpan><Targets><Target><Path>c.dat</Path><FileSize>1048576</FileSize><WriteRatio>50</WriteRatio></Target></Targets></TimeSpan>\
        </TimeSpans></Profile>";
    let profile = Profile::from_xml(text, &[]).unwrap();
    let workloads = profile.workloads().unwrap();
    assert_eq!((workloads.len(), workloads[1].name.as_str()), (2, "diskspd timespan 2"));
    assert_eq!(
        (workloads[0].cases[0].name.as_str(), workloads[0].cases[0].pattern.block),
        ("a&b.dat", 65536)
    );
    assert_eq!((workloads[0].cases[0].time.as_secs(), workloads[1].cases[0].time.as_secs()), (5, 10));
}

#[test]
fn what_is_wrong_in_a_profile_is_named() {
    let target = |inside: &str| {
        let text = format!(
            "<Profile><TimeSpans><TimeSpan><Targets><Target><Path>a</Path>{inside}</Target></Targets></TimeSpan>\
             </TimeSpans></Profile>"
        );
        Profile::from_xml(&text, &[]).map(drop)
    };
    assert_eq!(target("<MemoryMappedIo>false</MemoryMappedIo>"), Ok(()));
    for (inside, words) in [
        ("<MemoryMappedIo>true</MemoryMappedIo>", "<MemoryMappedIo>"),
        ("<ParallelAsyncIO>true</ParallelAsyncIO>", "<ParallelAsyncIO>"),
        ("<BlockSize>many</BlockSize>", "many"),
        ("<BlockSize>0</BlockSize>", "<BlockSize>"),
        ("<Colour>red</Colour>", "<Colour>"),
        ("<WriteRatio>101</WriteRatio>", "up to 100"),
        ("<ThreadTargets></ThreadTargets>", "<ThreadTargets>"),
        ("<WriteBufferContent><Pattern>zero</Pattern></WriteBufferContent>", "zeros"),
        ("<Distribution><Percent><Range IO=\"x\">1</Range></Percent></Distribution>", "IO="),
        ("<BurstSize>4</BurstSize>", "<ThinkTime>"),
        ("<BlockSize>", "byte"),
    ] {
        let error = target(inside).unwrap_err();
        assert!(error.contains(words), "{inside}: {error}");
    }
    for text in ["", "<Profile>", "<Other/>", "<Profile/>", "plain", &"<Profile>".repeat(50)] {
        assert!(Profile::from_xml(text, &[]).is_err(), "{text}");
    }
}

/// The XML profiles that this crate writes are valid by DiskSpd's own schema. The variable `DISKSPD_XSD` is the path of
/// `XmlProfileParser/diskspd.xsd` from DiskSpd's source; this project has no copy of it.
#[test]
#[ignore = "needs DiskSpd's schema, and xmllint of libxml2-utils"]
fn profiles_are_valid_by_diskspds_schema() {
    let schema = std::env::var("DISKSPD_XSD").expect("DISKSPD_XSD names DiskSpd's diskspd.xsd");
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    let mut judged = |text: &str| {
        count += 1;
        let path = folder.path().join(format!("{count}.xml"));
        std::fs::write(&path, text).unwrap();
        let mut lint = std::process::Command::new("xmllint");
        let output =
            lint.args(["--noout", "--schema", &schema]).arg(&path).output().expect("xmllint is there");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for options in TAKEN {
        let xml = profile(&format!("-c8M {options} one.dat two.dat")).unwrap().to_xml();
        let (is_valid, said) = judged(&xml);
        assert!(is_valid, "{options}: {said}{xml}");
        // Make sure that the validation works: an element that is not in the schema is refused.
        assert!(!judged(&xml.replacen("<Duration>", "<Colour/><Duration>", 1)).0);
    }
    let combined = "-b4K -o8 -t2 -r8K -rs40 -w30 -d7 -W1 -C2 -Su -L -D500 -z9 -g50i -i3 -j4 -Z2M -rdpct90/10 -c64M one.dat";
    let (is_valid, said) = judged(&profile(combined).unwrap().to_xml());
    assert!(is_valid, "{said}");
    println!("{count} files judged");
}

#[test]
fn dashes_of_typography_are_refused() {
    for dash in ['\u{2013}', '\u{2014}', '\u{2212}', '\u{2011}'] {
        let line = ["-b8K".to_string(), format!("{dash}o32"), "-c1M".into(), "a".into()];
        let error = Profile::from_arguments(&line).unwrap_err();
        assert!(error.contains("dash of typography") && error.ends_with("-o32"), "{error}");
    }
}

/// A profile whose target has no size takes that of the command line, as the refusal says.
#[test]
fn a_profile_takes_the_size_of_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.xml");
    let text = "<Profile><TimeSpans><TimeSpan><Duration>1</Duration><Targets><Target><Path>*1</Path>\
                <BlockSize>4096</BlockSize></Target></Targets></TimeSpan></TimeSpans></Profile>";
    std::fs::write(&path, text).unwrap();
    let line = |more: &[&str]| {
        let file = format!("-X{}", path.display());
        let all = [&[&*file], more, &["/no/such/a.dat"]].concat();
        let words: Vec<String> = all.into_iter().map(String::from).collect();
        Profile::from_arguments(&words).and_then(|profile| profile.workloads())
    };
    assert!(line(&[]).unwrap_err().contains("-c gives the size"));
    assert_eq!(line(&["-c16M"]).unwrap()[0].span, 16 << 20);
    assert!(line(&["-b4K"]).unwrap_err().contains("with -X the file says it"));
}
