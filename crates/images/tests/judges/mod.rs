//! qemu-img, libvhdi and dissect.hypervisor against this crate, in both directions.

use crate::common::{Folder, Random, change, content, open, random_options, same};
use platter_images::{Container, MakeOptions, make};

fn name_of(container: Container) -> &'static str {
    match container {
        Container::Vhdx => "vhdx",
        Container::Qcow2 => "qcow2",
        _ => "vpc",
    }
}

/// The content of an image as dissect.hypervisor has it.
pub(crate) fn by_dissect(folder: &Folder, kind: &str, image: &str) -> Vec<u8> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/judges/dissect_disk.py");
    folder.tool("python3", &[script, kind, image, "dissected"]);
    std::fs::read(folder.path("dissected")).unwrap()
}

/// Whether everything is compared that other programs can be asked for.
#[derive(Clone, Copy, PartialEq)]
enum Judges {
    /// What takes little time.
    Few,
    All,
}

/// What libvhdi and dissect.hypervisor read of an image without a parent, or with one if they know that.
fn others(folder: &Folder, container: Container, model: &[u8], judges: Judges, what: &str) {
    let kind = match container {
        Container::Vhd => "vhd",
        container => name_of(container),
    };
    same(&by_dissect(folder, kind, "disk"), model, &format!("{what}, by dissect.hypervisor"));
    if container != Container::Qcow2 && judges == Judges::All {
        same(&by_libvhdi(folder, "disk"), model, &format!("{what}, by libvhdi"));
    }
}

/// An image that this crate makes and fills, read by others.
fn ours(seed: u64, judges: Judges) {
    let mut random = Random(seed);
    let options = random_options(&mut random);
    let what = format!("seed {seed}, {options:?}");
    let folder = Folder::new("ours");
    make(&folder.path("disk"), &options).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut model = vec![0; options.size as usize];
    let device = open(&folder.path("disk"), false);
    (0..20).for_each(|_| change(&mut random, &*device, &mut model));
    drop(device);
    let format = name_of(options.container);
    // QEMU 7.2 reads no VHDX with sectors of 4096 bytes.
    if options.sector == 512 {
        folder.tool("qemu-img", &["convert", "-f", format, "-O", "raw", "disk", "raw"]);
        same(&std::fs::read(folder.path("raw")).unwrap(), &model, &what);
        if options.container != Container::Vhd {
            folder.tool("qemu-img", &["check", "-q", "-f", format, "disk"]);
        }
    }
    others(&folder, options.container, &model, judges, &what);
    if options.container == Container::Qcow2 {
        return;
    }
    let said = folder.tool("vhdiinfo", &["disk"]);
    assert!(said.contains(&options.size.to_string()), "{what}: {said}");
}

/// An image that qemu-img makes, read here, then written to here and read by qemu-img.
fn theirs(seed: u64, judges: Judges) {
    let mut random = Random(seed);
    let container = [Container::Vhdx, Container::Vhd][random.below(2) as usize];
    let mut model = vec![0; (1 + random.below(40 << 11) as usize) << 9];
    for _ in 0..12 {
        let at = random.below(model.len() as u64) as usize;
        let length = (random.below(1 << 20) as usize).min(model.len() - at);
        let bytes = random.bytes(length);
        model[at..at + length].copy_from_slice(&bytes);
    }
    let folder = Folder::new("theirs");
    std::fs::write(folder.path("raw"), &model).unwrap();
    let kind = ["dynamic", "fixed"][random.below(2) as usize];
    let mut options = format!("subformat={kind}");
    match container {
        Container::Vhdx => {
            options += &format!(",block_size={}", 1 << 20 << random.below(6));
            options += &format!(",block_state_zero={}", ["on", "off"][random.below(2) as usize]);
        }
        _ => options += ",force_size=on",
    }
    let what = format!("seed {seed}, {container:?}, {options}");
    let format = name_of(container);
    folder.tool("qemu-img", &["convert", "-f", "raw", "-O", format, "-o", &options, "raw", "disk"]);
    let device = open(&folder.path("disk"), true);
    let found = content(&*device);
    drop(device);
    assert!(found.len() >= model.len(), "{what}");
    same(&found[..model.len()], &model, &what);
    let device = open(&folder.path("disk"), false);
    let mut model = found;
    (0..12).for_each(|_| change(&mut random, &*device, &mut model));
    drop(device);
    folder.tool("qemu-img", &["convert", "-f", format, "-O", "raw", "disk", "after"]);
    same(&std::fs::read(folder.path("after")).unwrap(), &model, &what);
    others(&folder, container, &model, judges, &what);
}

/// A chain of images of random kinds and sizes, each with changes of its own, whose newest state others read.
fn chains(seed: u64) {
    let mut random = Random(seed);
    let folder = Folder::new("chains");
    let mut options = random_options(&mut random);
    let ending = match options.container {
        Container::Vhdx => "vhdx",
        Container::Vhd => "vhd",
        _ => "qcow2",
    };
    let what = format!("seed {seed}, {options:?}");
    let mut model = vec![0; options.size as usize];
    let mut newest = String::new();
    for number in 0..2 + random.below(3) {
        let name = format!("{number}.{ending}");
        match (options.container, number) {
            // The sizes of a chain's clusters may differ.
            (Container::Qcow2, 1..) => {
                let cluster = format!("cluster_size={}", 512 << random.below(13));
                let create =
                    ["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", &newest, "-o", &cluster, &name];
                folder.tool("qemu-img", &create);
            }
            _ => make(&folder.path(&name), &options).unwrap_or_else(|error| panic!("{what}: {error}")),
        }
        let device = open(&folder.path(&name), false);
        (0..8).for_each(|_| change(&mut random, &*device, &mut model));
        drop(device);
        (options.parent, options.is_fixed) = (Some(folder.path(&name)), false);
        newest = name;
        same(&content(&*open(&folder.path(&newest), true)), &model, &what);
    }
    match options.container {
        Container::Qcow2 => {
            folder.tool("qemu-img", &["check", "-q", "-f", "qcow2", &newest]);
            folder.tool("qemu-img", &["convert", "-f", "qcow2", "-O", "raw", &newest, "after"]);
            same(&std::fs::read(folder.path("after")).unwrap(), &model, &format!("{what}, by qemu-img"));
        }
        _ => same(&by_libvhdi(&folder, &newest), &model, &format!("{what}, by libvhdi")),
    }
    // It knows no VHD with a parent.
    if options.container != Container::Vhd {
        let found = by_dissect(&folder, ending, &newest);
        same(&found, &model, &format!("{what}, by dissect.hypervisor"));
    }
}

#[test]
fn others_read_what_is_made_here() {
    (0..12).for_each(|seed| ours(seed, Judges::Few));
}

#[test]
fn what_qemu_makes_is_read_and_written_here() {
    (100..108).for_each(|seed| theirs(seed, Judges::Few));
}

#[test]
#[ignore = "a campaign"]
fn campaign_of_images_both_ways() {
    let seed = std::env::var("PLATTER_SEED").map_or(1 << 20, |seed| seed.parse().unwrap());
    for seed in seed..seed + 70 {
        println!("PLATTER_SEED={seed}");
        ours(seed, Judges::All);
        theirs(seed, Judges::All);
        chains(seed);
    }
}

/// The content of an image as libvhdi has it, which knows differencing images, and sectors of 4096 bytes.
fn by_libvhdi(folder: &Folder, image: &str) -> Vec<u8> {
    std::fs::create_dir_all(folder.path("m")).unwrap();
    folder.tool("vhdimount", &[image, "m"]);
    // The newest state is the last of the files, one for each image of the chain.
    let mut states: Vec<_> =
        std::fs::read_dir(folder.path("m")).unwrap().map(|entry| entry.unwrap().path()).collect();
    states.sort();
    let content = std::fs::read(states.last().unwrap());
    // A program that looks at every mount may keep this one busy for a moment.
    let is_ended = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let mut end = std::process::Command::new("fusermount");
        let end = end.args(["-u", "m"]).current_dir(folder.path("")).status();
        end.unwrap_or_else(|error| panic!("fusermount is needed for this test: {error}")).success()
    });
    assert!(is_ended, "fusermount cannot unmount what vhdimount mounted");
    content.unwrap()
}

/// After a flush there is no log to replay, and closing changes nothing: so a killed program leaves an image that all
/// others read.
#[test]
fn a_flushed_image_is_read_by_others_while_it_is_open() {
    let folder = Folder::new("open");
    let options = MakeOptions { block: Some(1 << 20), ..MakeOptions::new(Container::Vhdx, 700 << 20) };
    make(&folder.path("disk"), &options).unwrap();
    let device = open(&folder.path("disk"), false);
    for block in (0..700).step_by(9) {
        device.write_at(block << 20, &[block as u8 | 1; 4096]).unwrap();
    }
    device.flush().unwrap();
    let before = std::fs::read(folder.path("disk")).unwrap();
    std::fs::write(folder.path("copy"), &before).unwrap();
    folder.tool("qemu-img", &["check", "-q", "-f", "vhdx", "copy"]);
    let copy = open(&folder.path("copy"), true);
    for block in (0..700).step_by(9) {
        let mut found = [0; 4096];
        copy.read_at(block << 20, &mut found).unwrap();
        assert_eq!(found, [block as u8 | 1; 4096]);
    }
    drop(device);
    assert!(std::fs::read(folder.path("disk")).unwrap() == before);
}

#[test]
fn libvhdi_reads_chains_and_large_sectors() {
    let mut random = Random(40);
    for (container, sector) in [(Container::Vhdx, 512), (Container::Vhdx, 4096), (Container::Vhd, 512)] {
        let folder = Folder::new("libvhdi");
        let mut options = MakeOptions::new(container, (7 << 20) + 3 * 4096);
        (options.block, options.sector) = (Some(1 << 20), sector);
        let mut model = vec![0; options.size as usize];
        for name in ["oldest.vhd", "middle.vhd", "newest.vhd"] {
            make(&folder.path(name), &options).unwrap();
            let device = open(&folder.path(name), false);
            (0..5).for_each(|_| change(&mut random, &*device, &mut model));
            drop(device);
            same(&by_libvhdi(&folder, name), &model, &format!("{container:?}, {sector}, {name}"));
            options.parent = Some(folder.path(name));
        }
    }
}

/// A log that qemu has written and, as if it had been killed, not played back: here it is replayed in memory for reading,
/// where the file stays as it is, and in the file for writing; and qemu comes to the same.
#[test]
fn the_log_of_another_program_is_replayed() {
    let folder = Folder::new("log");
    folder.tool("qemu-img", &["create", "-q", "-f", "vhdx", "-o", "block_size=1M", "disk", "64M"]);
    let writes = ["-c", "write -q -P 0x5a 3M 2M", "-c", "write -q -P 0x33 40M 64k", "disk"];
    folder.tool("qemu-io", &[&["-f", "vhdx"][..], &writes].concat());
    let mut expected = vec![0; 64 << 20];
    expected[3 << 20..5 << 20].fill(0x5A);
    expected[40 << 20..(40 << 20) + (64 << 10)].fill(0x33);
    // The newest entry of the log counts again, and what it changed is undone.
    let mut image = std::fs::read(folder.path("disk")).unwrap();
    let number = |image: &[u8], at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
    let entries = (1 << 20..2 << 20).step_by(4096).filter(|&at| &image[at..at + 4] == b"loge");
    let entry = entries.max_by_key(|&at| number(&image, at + 16)).unwrap();
    assert_eq!(
        (&image[entry + 64..entry + 68], &image[entry + 24..entry + 28]),
        (&b"desc"[..], &[1, 0, 0, 0][..])
    );
    let changed = number(&image, entry + 64 + 16) as usize;
    assert!(image[changed..changed + 4096].iter().any(|&byte| byte != 0));
    image[changed..changed + 4096].fill(0);
    for header in [64 << 10, 128 << 10] {
        let id = image[entry + 32..entry + 48].to_vec();
        image[header + 48..header + 64].copy_from_slice(&id);
        image[header + 4..header + 8].fill(0);
        let sum = crc32c::crc32c(&image[header..header + 4096]);
        image[header + 4..header + 8].copy_from_slice(&sum.to_le_bytes());
    }
    std::fs::write(folder.path("disk"), &image).unwrap();
    std::fs::write(folder.path("qemus"), &image).unwrap();
    same(&content(&*open(&folder.path("disk"), true)), &expected, "for reading");
    assert!(std::fs::read(folder.path("disk")).unwrap() == image, "reading has changed the file");
    same(&content(&*open(&folder.path("disk"), false)), &expected, "for writing");
    folder.tool("qemu-img", &["check", "-q", "-f", "vhdx", "disk"]);
    folder.tool("qemu-img", &["check", "-q", "-r", "all", "-f", "vhdx", "qemus"]);
    same(&content(&*open(&folder.path("qemus"), true)), &expected, "by qemu");
    // Half an entry is none: then the table is as it was before.
    image[entry + 4096 + 100] ^= 1;
    std::fs::write(folder.path("disk"), &image).unwrap();
    assert!(content(&*open(&folder.path("disk"), true)).iter().all(|&byte| byte == 0));
}
