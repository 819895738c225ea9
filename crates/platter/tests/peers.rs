//! Comparisons with other file systems on the same device. Each test needs root, loop devices, `/dev/fuse` and the
//! programs that make those file systems.

mod common;

use common::Place;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Returns the mounts of the comparisons of this place: others may run at the same time.
fn mounts(place: &Place) -> Vec<String> {
    let all = fs::read_to_string("/proc/self/mounts").unwrap();
    let at = format!("{}/platter-mounts-", place.path("").to_str().unwrap().trim_end_matches('/'));
    all.lines().filter(|line| line.contains(&at)).map(str::to_owned).collect()
}

/// Returns everything that a comparison may have left behind: mounts, loop devices of the image, directories to mount
/// at.
fn left(place: &Place, image: &Path) -> Vec<String> {
    let mut left = mounts(place);
    let loops = Command::new("losetup").arg("--associated").arg(image).output().unwrap();
    left.extend(String::from_utf8(loops.stdout).unwrap().lines().map(str::to_owned));
    let directories = fs::read_dir(place.path("")).unwrap().flatten();
    let names = directories.map(|entry| entry.file_name().into_string().unwrap_or_default());
    left.extend(names.filter(|name| name.starts_with("platter-mounts-")));
    left
}

fn report(place: &Place) -> Value {
    serde_json::from_str(&fs::read_to_string(place.path("platter-report/report.json")).unwrap()).unwrap()
}

/// Returns target and case of each row that has a rate.
fn measured(report: &Value) -> Vec<(String, String)> {
    let rows = report["results"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let has_rate = |row: &&Value| row["runs"][0]["iops"].as_f64().unwrap() > 0.0;
    rows.iter().filter(has_rate).map(|row| (text(&row["target"]), text(&row["case"]))).collect()
}

const SHORT: &str = "--workloads overhead --span 8M --time 0.2 --repeat 1";

/// One after the other in one function, because leftovers of each are searched for.
#[test]
fn others_are_made_mounted_measured_and_unmounted() {
    let place = Place::new("peers");
    let image = place.path("disk.img");
    let targets = ["raw", "ext4", "xfs", "btrfs", "ntfs-3g", "exfat-fuse", "mount:refs", "ntfs"];
    let line = format!("compare --device disk.img --targets {} {SHORT}", targets.join(","));
    let (text, _) = place.ends(0, &line);
    let report_of = report(&place);
    assert!(report_of["partial"].is_null(), "{}", report_of["partial"]);
    for target in targets {
        let rows = measured(&report_of).into_iter().filter(|(name, _)| name == target).count();
        assert_eq!(rows, 4, "{target}: {text}");
    }
    assert!(text.contains("one after the other"), "{text}");
    assert_eq!(left(&place, &image), [""; 0]);

    // Programs run on all of them, ours through the mount; cold ones read from the device.
    let cold = [
        "compare",
        "--device",
        "disk.img",
        "--force",
        "--targets",
        "ext4,ntfs,refs",
        "--repeat",
        "4",
        "--cold",
    ];
    let setup =
        ["--setup", "seq 100000 > text", "--command", "cat text", "--span", "330M", "--out", "programs"];
    let output =
        place.command(env!("CARGO_BIN_EXE_platter"), &[&cold[..], &setup].concat()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(place.path("programs/report.json")).unwrap();
    let programs: Value = serde_json::from_str(&text).unwrap();
    for result in programs["results"].as_array().unwrap() {
        let read = result["runs"][0]["device"]["read_bytes"].as_u64().unwrap();
        assert!(read >= 4 * 588_895, "{}: {read} bytes read in four runs", result["target"]);
    }
    assert_eq!(programs["results"].as_array().unwrap().len(), 3);
    assert_eq!(left(&place, &image), [""; 0]);

    // Loads on files run on other file systems too.
    let (json, _) = place.ends(0, "run small-files --target ext4 --device disk.img --force --json");
    assert_eq!(measured(&serde_json::from_str(&json).unwrap()).len(), 6);
    assert_eq!(left(&place, &image), [""; 0]);

    stopped_and_killed(&place, &image);
}

/// A comparison that is interrupted, or killed, leaves nothing mounted.
fn stopped_and_killed(place: &Place, image: &Path) {
    let line = "compare --device disk.img --targets ext4,ntfs-3g,raw --workloads overhead --span 8M --time 60 --force";
    for signal in ["-INT", "-KILL"] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut command = place.command(env!("CARGO_BIN_EXE_platter"), &arguments);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait("both are mounted", || mounts(place).len() == 2);
        common::mount::kill(signal, process.id());
        process.wait().unwrap();
        wait("nothing is left", || left(place, image).is_empty());
    }
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_is_missing_is_named() {
    let place = Place::new("peers-missing");
    let refused = |line: &str| place.ends(2, line).1;
    let memory = refused(&format!("compare --device mem:1G --targets ext4 {SHORT}"));
    assert!(memory.contains("a block device or an image"), "{memory}");
    let known = fs::read_to_string("/proc/filesystems").unwrap();
    if !known.contains("\tntfs3") {
        let kernel = refused(&format!("compare --targets ntfs3 {SHORT}"));
        assert!(kernel.contains("ntfs3") && kernel.contains("kernel"), "{kernel}");
    }
    let arguments: Vec<&str> = "run overhead --target xfs --span 8M".split(' ').collect();
    let mut command = place.command(env!("CARGO_BIN_EXE_platter"), &arguments);
    let output = command.env("PATH", place.path("")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("mkfs.xfs") && said.contains("xfsprogs"), "{said}");
    assert!(place.ends(2, "compare --targets mount:hfs").1.contains("expected one of"));
}

/// All targets on a loop device that another program set up. Takes some minutes.
#[test]
#[ignore = "a campaign"]
fn all_on_a_loop_device() {
    let place = Place::new("peers-all");
    let image = place.path("disk.img");
    fs::File::create(&image).unwrap().set_len(6 << 30).unwrap();
    let device = place.tool("losetup", &["--find", "--show", "disk.img"]).trim().to_owned();
    let all = "raw,ext4,xfs,btrfs,ntfs-3g,exfat-fuse,ntfs,exfat,fat32,refs,refs+integrity";
    let blocks = format!("compare --device {device} --targets {all} --workloads iometer --span 64M --time 1");
    let done = place.platter(&blocks);
    let of_blocks = report(&place);
    let files = format!(
        "compare --device {device} --force --targets {},mount:ntfs --workloads small-files",
        all.trim_start_matches("raw,")
    );
    let and_files = place.platter(&files);
    let of_files = report(&place);
    place.tool("losetup", &["--detach", &device]);
    assert!(done.status.success(), "{done:?}");
    assert!(and_files.status.success(), "{and_files:?}");
    println!("{}", String::from_utf8_lossy(&done.stdout));
    println!("{}", String::from_utf8_lossy(&and_files.stdout));
    assert_eq!(measured(&of_blocks).len() % 11, 0);
    assert_eq!(measured(&of_files).len(), 11 * 6);
    assert_eq!(left(&place, &image), [""; 0]);
}
