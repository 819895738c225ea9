//! Volumes that Platter made, read by forefst and refsprogs. Neither is in a package registry, so these tests are a campaign
//! of their own, and environment variables name the folders: `PLATTER_FOREFST` the one with `forefst.py`,
//! `PLATTER_REFSPROGS` the one with `refsls` and `refscat`.
//! `cargo test --release -p platterfs-refs --test suite judges_by_path -- --ignored --nocapture`

use crate::common::{V3_14, VOLUMES, Volume, content, open, tested};
use platter_device::{Device, MemoryDevice};
use platter_testing::model::{Make, seed, verify};
use platter_vfs::{FileSystem, Kind, Name, Node, RenameFlags};
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The files of the directory `plain`: names and lengths.
const PLAIN: [(&str, usize); 5] =
    [("empty", 0), ("in the record", 1500), ("one run", 70_000), ("more", 500_000), ("Ünïcödé", 4096)];

/// A program in the folder that the variable names.
fn program(variable: &str, name: &str) -> PathBuf {
    let folder =
        std::env::var_os(variable).unwrap_or_else(|| panic!("{variable} names the folder of {name}"));
    let path = PathBuf::from(folder).join(name);
    assert!(path.is_file(), "there is no {}", path.display());
    path
}

/// Every kind of volume, with sectors of 512 bytes: forefst looks for the copies of the boot record and superblock in
/// multiples of these, and refsprogs refuses clusters of one sector.
fn kinds() -> impl Iterator<Item = Volume> {
    let all = VOLUMES.into_iter().chain([Volume { checksum: "none", ..V3_14 }]);
    all.map(|volume| Volume { sector: 512, ..volume })
}

/// Makes plain files, and beside them what a record can hold: a moved file, several names, snapshots, holes, a link.
fn populate(volume: &impl FileSystem) {
    let new = |above, name: &str, bytes: &[u8]| {
        let node = volume.create(above, &Name::from(name), Kind::File).unwrap();
        volume.write(node, 0, bytes).unwrap();
        node
    };
    let plain = volume.create(Node::ROOT, &Name::from("plain"), Kind::Directory).unwrap();
    for (index, (name, length)) in PLAIN.into_iter().enumerate() {
        new(plain, name, &content(index as u64, length));
    }
    let other = volume.create(Node::ROOT, &Name::from("other"), Kind::Directory).unwrap();
    new(Node::ROOT, "moved", &content(7, 30_000));
    let (moved, flags) = (Name::from("moved"), RenameFlags::default());
    volume.rename(Node::ROOT, &moved, other, &Name::from("moved away"), flags).unwrap();
    let node = new(other, "changed", &content(8, 90_000));
    if volume.capabilities().hard_links {
        volume.link(node, Node::ROOT, &Name::from("second name")).unwrap();
        volume.snapshots().unwrap().create(node, &Name::from("before")).unwrap();
        volume.write(node, 8192, &content(9, 20_000)).unwrap();
    }
    let holes = new(other, "holes", &[1; 4096]);
    volume.write(holes, 3 << 20, &[2; 4096]).unwrap();
    volume.symlink(other, &Name::from("leads away"), "elsewhere").unwrap();
    for index in 0..500 {
        new(other, &format!("one of many {index}"), &[3; 300]);
    }
}

/// An image file, which is removed at the end.
struct Image(PathBuf);

impl Drop for Image {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Makes a volume of this kind with files, and stores it in an image file that takes room only for what was written.
fn image(volume: Volume, judge: &str) -> Image {
    let device = volume.make();
    let system = open(device.clone());
    populate(&system);
    system.sync_all().unwrap();
    system.unmount().unwrap();
    let image = Image(std::env::temp_dir().join(format!("platter-{judge}-{}.img", std::process::id())));
    store(&device, &image.0);
    image
}

fn store(device: &MemoryDevice, path: &Path) {
    const PIECE: u64 = 1 << 20;
    let file = File::create(path).unwrap();
    file.set_len(device.len()).unwrap();
    let mut piece = vec![0; PIECE as usize];
    for at in (0..device.len()).step_by(PIECE as usize) {
        device.read_at(at, &mut piece).unwrap();
        if piece.iter().any(|&byte| byte != 0) {
            file.write_all_at(&piece, at).unwrap();
        }
    }
}

/// Runs a program, which must succeed, and returns what it printed.
fn printed(command: &mut Command) -> Vec<u8> {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {status}\n{}", String::from_utf8_lossy(&stderr));
    stdout
}

/// Verifies the checksum of every page and of the log with forefst.
fn judge_by_forefst(volume: Volume, image: &Path) {
    let run = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.arg(program("PLATTER_FOREFST", "forefst.py")).arg(image);
        command.args(arguments).args(["--partition-start", "0"]);
        String::from_utf8_lossy(&printed(&mut command)).into_owned()
    };
    let integrity = run(&["integrity", "--fullchecksums"]);
    assert!(integrity.contains("Verdict: PASS"), "{volume:?}:\n{integrity}");
    // Versions from August 2026 on also verify the checksums of the log's blocks.
    let log = run(&["mlog", "--stats"]);
    assert!(log.contains("LSN oldest:") && log.contains("0x1."), "{volume:?}:\n{log}");
    assert!(!log.to_uppercase().contains("FAIL") && !log.contains("MISMATCH"), "{volume:?}:\n{log}");
}

/// Lists a volume with refsprogs. With clusters of 64 KiB it reads four clusters for a page of one.
fn list_by_refsprogs(image: &Path) -> String {
    let refsls = program("PLATTER_REFSPROGS", "refsls");
    let listed = printed(Command::new(refsls).args(["-R", "-l", "-a"]).arg(image));
    String::from_utf8_lossy(&listed).into_owned()
}

#[test]
#[ignore = "a campaign: needs forefst"]
fn forefst_verifies_every_page_and_the_log() {
    for volume in kinds() {
        judge_by_forefst(volume, &image(volume, "forefst").0);
    }
}

#[test]
#[ignore = "a campaign: needs refsprogs"]
fn refsprogs_lists_and_reads_files() {
    let refscat = program("PLATTER_REFSPROGS", "refscat");
    for volume in kinds().filter(|volume| volume.cluster == 4096) {
        let image = image(volume, "refsprogs");
        let listed = list_by_refsprogs(&image.0);
        for name in ["plain", "moved away", "changed", "holes", "one of many 499"] {
            assert!(listed.contains(name), "{volume:?}: {name} in\n{listed}");
        }
        for (index, (name, length)) in PLAIN.into_iter().enumerate() {
            assert!(listed.contains(name), "{volume:?}: {name} in\n{listed}");
            // On 3.4 it takes the content of an empty file for missing.
            if length > 0 {
                let read =
                    printed(Command::new(&refscat).arg("-p").arg(format!("/plain/{name}")).arg(&image.0));
                assert!(read == content(index as u64, length), "{volume:?}: {name}: {} bytes", read.len());
            }
        }
    }
}

/// A million operations on all kinds of volume together, each of which is read by both programs at the end.
#[test]
#[ignore = "a campaign: takes minutes, and needs forefst and refsprogs"]
fn both_read_what_a_million_operations_leave() {
    let kinds: Vec<Volume> = kinds().collect();
    let each = 1_000_000 / kinds.len();
    for (number, volume) in kinds.into_iter().enumerate() {
        let made = RefCell::new(None);
        let make: Make<'_> = &|clock| {
            let device = volume.make();
            *made.borrow_mut() = Some(device.clone());
            tested(device, clock)
        };
        verify(seed() + number as u64, each, 5_000, &volume.shape(300_000), make);
        let device = made.take().expect("a volume was made");
        open(device.clone()).unmount().unwrap();
        let name = format!("platter-million-{}-{number}.img", std::process::id());
        let image = Image(std::env::temp_dir().join(name));
        store(&device, &image.0);
        judge_by_forefst(volume, &image.0);
        let listed = match volume.cluster {
            4096 => list_by_refsprogs(&image.0).lines().count(),
            _ => 0,
        };
        println!("{volume:?}: {each} operations, judged; {listed} lines listed");
    }
}
