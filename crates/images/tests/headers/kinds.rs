//! Good images of every kind, with little content, so that most of what they have is structures.

use platter_device::FileOptions;
use platter_images::fuzzing::GoodFile;
use platter_images::making::{self, Made};
use platter_images::{Container, MakeOptions, make};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// All kinds.
pub(crate) const KINDS: [&str; 7] = ["vhdx", "vhd", "qcow2", "vmdk", "evidence", "split", "dynamic"];

/// How an image is opened, and whose checksums it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    In(Container),
    Split,
    Dynamic,
}

/// A good image: its files, of which the first is opened.
pub(crate) struct Good {
    pub name: String,
    pub kind: Kind,
    pub files: Vec<(String, GoodFile)>,
}

/// A temporary directory, which is removed when the test ends.
pub(crate) struct Place(pub PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("platter-headers-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs a tool that must succeed; the test also fails if the tool is not installed.
    pub(crate) fn tool(&self, line: &str) {
        let mut words = line.split(' ');
        let program = words.next().expect("a program");
        let output = Command::new(program).args(words).current_dir(&self.0).output();
        let output = output.unwrap_or_else(|error| panic!("{program} is needed for this test: {error}"));
        assert!(output.status.success(), "{line}: {output:?}");
    }

    /// The files, which are then removed, as an image.
    fn take(&self, name: &str, kind: Kind, files: &[&str]) -> Good {
        let files =
            files.iter().map(|name| (name.to_string(), GoodFile::new(fs::read(self.path(name)).unwrap())));
        let good = Good { name: name.into(), kind, files: files.collect() };
        for entry in fs::read_dir(&self.0).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        good
    }

    /// Writes a little to the disk in an image.
    fn fill(&self, name: &str) {
        let disk = platter_images::open(&self.path(name), FileOptions::default()).unwrap().device;
        let size = disk.len();
        // In the first and in the last block, and in a large disk, whose blocks are large, in the first one only.
        let places = [0, size / 3 / 4096 * 4096, size / 4096 * 4096 - 4096];
        for at in places.into_iter().take(if size > 1 << 30 { 1 } else { 3 }) {
            disk.write_at(at, &[7; 4096]).unwrap();
            disk.flush().unwrap();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The good images of a kind.
pub(crate) fn good(kind: &str) -> Vec<Good> {
    let place = Place::new(&format!("good-{kind}"));
    match kind {
        "vhdx" => vhdx(&place),
        "vhd" => vhd(&place),
        "qcow2" => qcow2(&place),
        "vmdk" => vmdk(&place),
        "evidence" => evidence(&place),
        "split" => split(&place),
        _ => dynamic(&place),
    }
}

fn vhdx(place: &Place) -> Vec<Good> {
    let kind = Kind::In(Container::Vhdx);
    let usual = MakeOptions { block: Some(1 << 20), ..MakeOptions::new(Container::Vhdx, 8 << 20) };
    let mut all = Vec::new();
    for (name, options) in [
        ("VHDX", usual.clone()),
        ("VHDX, sectors of 4096 bytes", MakeOptions { sector: 4096, ..usual.clone() }),
        ("VHDX, fixed", MakeOptions { is_fixed: true, size: 2 << 20, ..usual.clone() }),
        ("VHDX, large", MakeOptions { size: 1 << 40, block: None, ..usual.clone() }),
    ] {
        make(&place.path("disk"), &options).unwrap();
        place.fill("disk");
        all.push(place.take(name, kind, &["disk"]));
    }
    make(&place.path("parent"), &usual).unwrap();
    place.fill("parent");
    make(&place.path("disk"), &MakeOptions { parent: Some(place.path("parent")), ..usual.clone() }).unwrap();
    all.push(place.take("VHDX, a new child", kind, &["disk", "parent"]));
    make(&place.path("disk"), &usual).unwrap();
    place.fill("disk");
    let mut image = fs::read(place.path("disk")).unwrap();
    replayable(&mut image);
    fs::write(place.path("disk"), image).unwrap();
    all.push(place.take("VHDX, with a log", kind, &["disk"]));
    all
}

/// Makes the entries of the log count again that were carried out.
fn replayable(image: &mut [u8]) {
    let mut entries = (1 << 20..2 << 20).step_by(4096).filter(|&at| &image[at..at + 4] == b"loge");
    let entry = entries.next_back().expect("a log with entries");
    let id = image[entry + 32..entry + 48].to_vec();
    for header in [64 << 10, 128 << 10] {
        image[header + 48..header + 64].copy_from_slice(&id);
        image[header + 4..header + 8].fill(0);
        let sum = crc32c::crc32c(&image[header..header + 4096]);
        image[header + 4..header + 8].copy_from_slice(&sum.to_le_bytes());
    }
}

fn vhd(place: &Place) -> Vec<Good> {
    let kind = Kind::In(Container::Vhd);
    let usual = MakeOptions { block: Some(512 << 10), ..MakeOptions::new(Container::Vhd, 4 << 20) };
    let mut all = Vec::new();
    for (name, options) in [
        ("VHD", usual.clone()),
        ("VHD, fixed", MakeOptions { is_fixed: true, size: 1 << 20, ..usual.clone() }),
        ("VHD, large", MakeOptions { size: 100 << 30, block: None, ..usual.clone() }),
    ] {
        make(&place.path("disk"), &options).unwrap();
        place.fill("disk");
        all.push(place.take(name, kind, &["disk"]));
    }
    make(&place.path("parent"), &usual).unwrap();
    place.fill("parent");
    make(&place.path("disk"), &MakeOptions { parent: Some(place.path("parent")), ..usual }).unwrap();
    all.push(place.take("VHD, a new child", kind, &["disk", "parent"]));
    all
}

fn qcow2(place: &Place) -> Vec<Good> {
    let kind = Kind::In(Container::Qcow2);
    let mut all = Vec::new();
    for options in [
        "cluster_size=512,refcount_bits=64",
        "cluster_size=512,refcount_bits=1",
        "cluster_size=64k",
        "compat=0.10",
    ] {
        place.tool(&format!("qemu-img create -q -f qcow2 -o {options} disk 8M"));
        place.fill("disk");
        all.push(place.take(&format!("qcow2, {options}"), kind, &["disk"]));
    }
    let mut content = vec![0; 1 << 20];
    (0..200_000).for_each(|at| content[at] = (at / 900) as u8);
    for compression in ["zlib", "zstd"] {
        fs::write(place.path("raw"), &content).unwrap();
        let options = format!("compression_type={compression},cluster_size=64k");
        place.tool(&format!("qemu-img convert -c -f raw -O qcow2 -o {options} raw disk"));
        all.push(place.take(&format!("qcow2, {options}"), kind, &["disk"]));
    }
    place.tool("qemu-img create -q -f qcow2 parent 4M");
    place.fill("parent");
    place.tool("qemu-img create -q -f qcow2 -F qcow2 -b parent disk");
    place.fill("disk");
    all.push(place.take("qcow2, a child", kind, &["disk", "parent"]));
    all
}

fn vmdk(place: &Place) -> Vec<Good> {
    let kind = Kind::In(Container::Vmdk);
    let mut all = Vec::new();
    let mut content = vec![0; 1 << 20];
    content[70_000..90_000].fill(7);
    for (form, files) in [
        ("monolithicSparse", &["disk.vmdk"][..]),
        ("streamOptimized", &["disk.vmdk"]),
        ("monolithicFlat", &["disk.vmdk", "disk-flat.vmdk"]),
        ("twoGbMaxExtentSparse", &["disk.vmdk", "disk-s001.vmdk"]),
    ] {
        fs::write(place.path("raw"), &content).unwrap();
        place.tool(&format!("qemu-img convert -f raw -O vmdk -o subformat={form} raw disk.vmdk"));
        all.push(place.take(&format!("VMDK, {form}"), kind, files));
    }
    all
}

fn evidence(place: &Place) -> Vec<Good> {
    let kind = Kind::In(Container::E01);
    let mut all = Vec::new();
    let mut content = vec![0; 3 << 20];
    content[70_000..90_000].fill(7);
    content[2 << 20..].fill(9);
    for (name, options, files) in [
        ("E01", "-f encase6 -c best", &["image.E01"][..]),
        ("E01, large chunks", "-f encase6 -c fast -b 32768", &["image.E01"]),
        (
            "E01, segments",
            "-f encase6 -c none -S 1048576",
            &["image.E01", "image.E02", "image.E03", "image.E04"],
        ),
        ("E01 of SMART", "-f smart -c best", &["image.s01"]),
    ] {
        fs::write(place.path("disk.raw"), &content).unwrap();
        place.tool(&format!("ewfacquire -u -q -t image {options} disk.raw"));
        all.push(place.take(name, kind, files));
    }
    all
}

fn split(place: &Place) -> Vec<Good> {
    ["disk.001", "disk.002", "disk.003"]
        .iter()
        .for_each(|name| fs::write(place.path(name), [7; 8192]).unwrap());
    vec![place.take("split", Kind::Split, &["disk.001", "disk.002", "disk.003"])]
}

/// A group of two disks with a volume of each layout.
fn dynamic(place: &Place) -> Vec<Good> {
    let volumes = [
        Made { size: 1000, components: vec![(2, None, vec![(1, 1, 0, 1000, 0)])] },
        Made {
            size: 3000,
            components: vec![(2, None, vec![(2, 2000, 0, 1000, 0), (1, 2000, 1000, 2000, 1)])],
        },
        Made {
            size: 3840,
            components: vec![(1, Some(128), vec![(2, 4000, 0, 1920, 0), (1, 5000, 0, 1920, 1)])],
        },
        Made {
            size: 900,
            components: vec![(2, None, vec![(1, 8000, 0, 900, 0)]), (2, None, vec![(2, 8100, 0, 900, 0)])],
        },
    ];
    let records = making::records(2, &volumes);
    for number in 1..3 {
        let data = vec![0; making::DATA as usize * 512];
        fs::write(place.path(&format!("disk{number}")), making::disk(number, &data, &records)).unwrap();
    }
    vec![place.take("a group of dynamic disks", Kind::Dynamic, &["disk1", "disk2"])]
}
