//! The lab overwrites nothing that the user did not name.

use crate::common::{Place, content};
use std::fs;
use std::process::Command;

const JOB: &str =
    "[a]\ndirect=1\nsize=1m\ntime_based\nruntime=0.05\nrw=randwrite\nbs=4k\nioengine=io_uring\n";

/// Temporary files were once named after the process's number, which can be predicted, and a link of that name was
/// followed.
#[test]
fn a_link_of_a_temporary_files_name_is_not_written_through() {
    let here = Place::new("temporary-link");
    fs::create_dir(here.path("d")).unwrap();
    fs::write(here.path("victim"), content(1, 5000)).unwrap();
    fs::write(here.path("j.fio"), JOB).unwrap();
    let script = "ln -s ../victim d/platter-$$.tmp; exec \"$0\" run j.fio --device mem:64M --target dir:d";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_platter")]).current_dir(&here.0);
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(fs::read(here.path("victim")).unwrap() == content(1, 5000));
}

/// Runs a command that must fail with one line of error message, and returns that line.
fn refused(here: &Place, line: &str) -> String {
    let output = here.platter(line);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(1 | 2)), "platter {line}: {output:?}");
    assert!(words.starts_with("platter: ") && words.lines().count() == 1, "platter {line}: {words}");
    words
}

fn job(here: &Place) {
    fs::write(here.path("j.fio"), JOB).unwrap();
}

#[test]
fn what_is_no_device_is_called_by_its_name() {
    let here = Place::new("no-device");
    job(&here);
    here.tool("mkfifo", &["fifo"]);
    fs::create_dir(here.path("directory")).unwrap();
    let _listening = std::os::unix::net::UnixListener::bind(here.path("socket")).unwrap();
    for (device, words) in [
        ("fifo", "fifo: expected an image file or a block device, found a FIFO"),
        ("directory", "found a directory"),
        ("socket", "found a socket"),
        ("/dev/null", "found a character device"),
        ("mirror:fifo,fifo2", "found a FIFO"),
    ] {
        for force in ["", " --force"] {
            let error = refused(&here, &format!("run j.fio --device {device}{force}"));
            assert!(error.contains(words) && !error.contains("--force"), "{error}");
        }
        if !device.starts_with("mirror") {
            assert!(refused(&here, &format!("mkfs exfat {device} --force")).contains(words));
        }
    }
}

#[test]
fn a_link_is_no_name_for_what_it_leads_to() {
    let here = Place::new("device-link");
    job(&here);
    let before = content(2, 1 << 20);
    fs::write(here.path("victim"), &before).unwrap();
    std::os::unix::fs::symlink("victim", here.path("link")).unwrap();
    std::os::unix::fs::symlink("elsewhere", here.path("dangling")).unwrap();
    for line in ["--device link --force", "--device dangling", "--device mirror:link,new"] {
        let error = refused(&here, &format!("run j.fio {line}"));
        assert!(error.contains("a symbolic link to"), "{error}");
    }
    assert!(fs::read(here.path("victim")).unwrap() == before);
    assert!(!here.path("elsewhere").exists() && !here.path("new").exists());
}

#[test]
fn force_is_offered_where_it_helps_and_nowhere_else() {
    let here = Place::new("force");
    job(&here);
    here.works("mkfs exfat i.img --size 64M");
    assert!(refused(&here, "run j.fio --device i.img").contains("use --force"));
    assert!(!refused(&here, "run j.fio --device fresh.img --span 5000 --force").contains("--force"));
}

/// Commands that write are refused while another program has locked the image, in either of the ways there are.
#[test]
fn no_force_passes_over_the_lock_of_another_process() {
    use rustix::fs::{FlockOperation, fcntl_lock, flock};
    let here = Place::new("locks");
    job(&here);
    fs::write(here.path("x"), content(3, 5000)).unwrap();
    here.works("mkfs exfat mirror:i.img,j.img --size 64M");
    let before = fs::read(here.path("i.img")).unwrap();
    let this = format!("process {}", std::process::id());
    for (way, who) in [("flock", "another process"), ("fcntl", &this)] {
        let file = fs::File::options().read(true).write(true).open(here.path("i.img")).unwrap();
        match way {
            "flock" => flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap(),
            _ => fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap(),
        }
        // Each command waits a while before it fails, in case a mount is just being closed.
        let lines = match way {
            "flock" => &["cp x i.img:/ --force", "run j.fio --device i.img --force"][..],
            _ => &["cp x mirror:i.img,j.img:/ --force", "mkfs fat32 i.img --size 32M --force"],
        };
        for line in lines {
            let output = here.platter(line);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "{way}, platter {line}: {output:?}");
            assert!(said.contains(who) && said.contains("works on it"), "{way}, platter {line}: {said}");
            assert!(!said.contains("--force"), "{way}, platter {line}: {said}");
        }
        // Who holds the lock of fcntl writes: what is on the image may be half of it.
        match way {
            "flock" => drop(here.works("ls i.img")),
            _ => assert!(here.fails("ls i.img").contains("has it open for writing")),
        }
        drop(file);
    }
    assert!(fs::read(here.path("i.img")).unwrap() == before);
    here.works("mkdir mirror:i.img,j.img:/d");
}

#[test]
fn nothing_is_made_for_a_comparison_that_cannot_be() {
    let here = Place::new("refused-plan");
    job(&here);
    fs::write(here.path("odd.fio"), format!("{JOB}[b]\nstonewall\nbs=1000\n")).unwrap();
    for line in [
        "compare --workloads odd.fio --targets raw --device i.img --out o",
        "compare --workloads j.fio --targets raw,fat32:3k --device i.img --out o",
        "compare --workloads j.fio --span 100E --device i.img --out o",
        "compare --workloads j.fio --span 15E --device i.img --out o",
        "compare --workloads j.fio --targets raw --device mem:0 --out o",
        "compare --workloads none.fio --out o",
    ] {
        let output = here.platter(line);
        assert_eq!(output.status.code(), Some(2), "platter {line}: {output:?}");
        assert!(!here.path("i.img").exists() && !here.path("o").exists(), "platter {line}");
    }
    // A new file on which no volume could be made is removed; a file that existed before is kept.
    assert!(here.fails("mkfs fat32 f.img --size 1M").contains("f.img"));
    assert!(!here.path("f.img").exists());
    fs::write(here.path("f.img"), []).unwrap();
    here.fails("mkfs fat32 f.img --size 1M");
    assert!(here.path("f.img").exists());
}

/// If the volume cannot be made, an existing image keeps its length as well as its content.
#[test]
fn a_volume_that_could_not_be_made_leaves_the_image_as_it_was() {
    let here = Place::new("failed-mkfs");
    for (there, size) in [(3 << 20, "1M"), (1 << 20, "2M"), (0, "1M")] {
        let image = content(7, there);
        fs::write(here.path("f.img"), &image).unwrap();
        assert!(here.fails(&format!("mkfs fat32 f.img --size {size} --force")).contains("f.img"));
        assert!(fs::read(here.path("f.img")).unwrap() == image, "{there} bytes, --size {size}");
    }
    // A size that the host does not hold.
    fs::remove_file(here.path("f.img")).unwrap();
    here.fails("mkfs ntfs f.img --size 9223372036854775296");
    here.fails("mkfs ntfs mirror:f.img,g.img --size 9223372036854775296");
    assert!(!here.path("f.img").exists() && !here.path("g.img").exists());
    for size in [8 << 20, 64 << 20] {
        fs::write(here.path("f.img"), content(7, 32 << 20)).unwrap();
        here.works(&format!("mkfs exfat f.img --size {size} --force"));
        assert_eq!(fs::metadata(here.path("f.img")).unwrap().len(), size);
    }
}

/// A limit on the size of files, as `ulimit -f` sets it, shows that no temporary image is made.
#[test]
fn directories_alone_need_no_image() {
    let here = Place::new("directories");
    job(&here);
    fs::create_dir(here.path("d")).unwrap();
    fs::write(here.path("i.img"), []).unwrap();
    for (device, words) in
        [("", "directories of the host"), (" --device i.img --force", "i.img was left alone")]
    {
        // The limit is in units of 512 bytes: it allows the job's file of 1 MiB, but not a temporary image.
        let line = format!("ulimit -f 4096; exec \"$0\" run j.fio --target dir:d{device}");
        let output = here.command("sh", &["-c", &line, env!("CARGO_BIN_EXE_platter")]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains(words), "{output:?}");
    }
    assert!(fs::read(here.path("i.img")).unwrap().is_empty());
}

#[test]
fn a_file_that_may_not_become_so_large_is_an_error_and_no_signal() {
    let here = Place::new("largest-file");
    fs::write(here.path("f.bin"), content(1, 4 << 20)).unwrap();
    here.works("mkfs fat16 i.img --size 16M");
    here.works("cp f.bin i.img:/");
    for command in ["cp i.img:/f.bin out.bin", "mkfs ntfs n.img --size 16M", "cp f.bin i.img:/again"] {
        let line = format!("ulimit -f 4096; exec \"$0\" {command}");
        let output = here.command("sh", &["-c", &line, env!("CARGO_BIN_EXE_platter")]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("File too large"), "{command}: {output:?}");
    }
    assert!(!here.path("out.bin").exists());
    assert!(here.works("check i.img").contains("no damage"));
}

#[test]
fn an_older_report_is_kept_under_the_time_at_which_it_was_made() {
    let here = Place::new("older-report");
    job(&here);
    let compare = |out: &str| {
        let line = format!("compare --workloads j.fio --targets raw --device mem:8M --out {out}");
        let output = here.platter(&line);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(compare("o"), "");
    let read = |name: &str| fs::read_to_string(here.path("o").join(name)).unwrap();
    let [json, html] = ["report.json", "report.html"].map(read);
    let created: serde_json::Value = serde_json::from_str(&json).unwrap();
    let stamp = created["created"].as_str().unwrap().replace(':', "-");
    let said = compare("o");
    assert!(said.contains(&format!("o/report-{stamp}.json, .html, .md, .csv")), "{said}");
    assert!(read(&format!("report-{stamp}.json")) == json && read(&format!("report-{stamp}.html")) == html);
    assert!(read("report.json") != json);
    // Rendering the same report again does not count as a new report.
    here.works("report o/report.json --out o");
    assert_eq!(fs::read_dir(here.path("o")).unwrap().count(), 8);
    // The existing file may not be a report.
    fs::write(here.path("o/report.json"), "mine").unwrap();
    compare("o");
    let kept = fs::read_dir(here.path("o")).unwrap().map(|entry| entry.unwrap().path());
    assert!(kept.into_iter().any(|path| fs::read(path).unwrap() == b"mine"));
}

#[test]
fn reports_that_cannot_be_written_are_known_before() {
    let here = Place::new("no-report");
    job(&here);
    fs::create_dir_all(here.path("o/report.html")).unwrap();
    let line = "compare --workloads j.fio --targets raw --device i.img --out";
    assert!(refused(&here, &format!("{line} o")).contains("o/report.html"));
    assert!(refused(&here, &format!("{line} j.fio")).contains("j.fio"));
    assert!(refused(&here, &format!("{line} /proc/nowhere")).contains("/proc/nowhere"));
    assert!(!here.path("i.img").exists());
}

#[test]
fn names_need_not_be_text() {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt;
    let here = Place::new("no-text");
    let folder = here.0.join(OsStr::from_bytes(b"b\xe9la"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("j.fio"), JOB).unwrap();
    let inside = |name: &str| folder.join(name).into_os_string();
    let mut target = OsString::from("raw,dir:");
    target.push(&folder);
    let arguments: [OsString; 9] = [
        "compare".into(),
        "--workloads".into(),
        inside("j.fio"),
        "--targets".into(),
        target,
        "--device".into(),
        inside("i.img"),
        "--out".into(),
        inside("o"),
    ];
    let output = here.command(env!("CARGO_BIN_EXE_platter"), &arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("o/report.json")).unwrap()).unwrap();
    assert!(json["command"].as_str().unwrap().contains(r"b\xe9la/o'"), "{}", json["command"]);
}

#[test]
fn the_same_target_twice_is_two_targets() {
    let here = Place::new("twice");
    job(&here);
    fs::create_dir(here.path("other")).unwrap();
    fs::write(here.path("other/j.fio"), JOB).unwrap();
    let output = here.platter(
        "compare --workloads j.fio,other/j.fio --targets fat16,fat16 --device mem:64M --repeat 1 --out o",
    );
    assert!(output.status.success(), "{output:?}");
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(here.path("o/report.json")).unwrap()).unwrap();
    let results = json["results"].as_array().unwrap();
    let mut rows: Vec<[&str; 2]> =
        results.iter().map(|row| ["target", "workload"].map(|key| row[key].as_str().unwrap())).collect();
    rows.sort_unstable();
    assert_eq!(rows, [["fat16", "j"], ["fat16", "j #2"], ["fat16 #2", "j"], ["fat16 #2", "j #2"]]);
    assert!(results.iter().all(|row| row["runs"].as_array().unwrap().len() == 1));
}

/// A comparison that is interrupted keeps what it has measured.
#[test]
fn an_interrupted_comparison_keeps_what_it_has() {
    let here = Place::new("interrupted");
    fs::write(here.path("j.fio"), JOB.replace("0.05", "0.2")).unwrap();
    let line = "compare --workloads j.fio --targets raw,fat16 --device i.img --repeat 500 --span 8M --out o";
    let arguments: Vec<&str> = line.split(' ').collect();
    let mut running = here.command(env!("CARGO_BIN_EXE_platter"), &arguments);
    let running = running.stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    here.tool("kill", &["-INT", &running.id().to_string()]);
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(!output.stdout.is_empty());
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(here.path("o/report.json")).unwrap()).unwrap();
    assert!(!json["results"].as_array().unwrap().is_empty());
    let partial = json["partial"].to_string();
    assert!(partial.contains("interrupted"), "{partial}");
}
