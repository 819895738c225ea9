//! Volumes that Platter made and used.

use platter_device::{Device, MemoryDevice, Sectors};
use platter_formats::by_name;
use platter_testing::model::Random;
use platter_vfs::{
    Change, DosFlags, Error, FileSystem, FormatOptions, Kind, Name, Node, OpenOptions, RenameFlags, Result,
    Silent, SyncScope,
};
use std::sync::Arc;

/// Returns the size of a volume in bytes, and that of its clusters.
fn size(format: &str, random: &mut Random) -> (u64, Option<u64>) {
    let cluster = 512 << random.below(4);
    match format {
        "fat12" => (2 << 20, Some(cluster.max(1024))),
        "fat16" => (5000 * cluster + (1 << 20), Some(cluster)),
        "fat32" => (67_000 * cluster + (2 << 20), Some(cluster)),
        "exfat" => (8 << 20, Some(cluster)),
        "ntfs" => (8 << 20, Some(512 << random.below(8))),
        _ => (320 << 20, Some(if random.chance(20) { 64 << 10 } else { 4096 })),
    }
}

/// Returns a volume that was made, used, unmounted and opened again a few times.
pub(crate) fn volume(format: &str, random: &mut Random) -> (String, Arc<dyn Device>) {
    let made = by_name(format).expect("a format of the list");
    let (bytes, cluster) = size(format, random);
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(bytes, Sectors::SMALL));
    let options = FormatOptions {
        cluster,
        label: random.chance(50).then(|| "HEALTHY".into()),
        serial: Some(random.below(1 << 32)),
        ..FormatOptions::default()
    };
    made.make(&*device, &options, &Silent).unwrap_or_else(|error| panic!("{format} {options:?}: {error}"));
    for _ in 0..random.below(4) {
        let system = made.open(device.clone(), OpenOptions::default()).expect("a volume that is well");
        let mut user =
            User { system: &*system, directories: vec![Node::ROOT], files: Vec::new(), random, made: 0 };
        for _ in 0..200 {
            match user.act() {
                Ok(()) => {}
                Err(error @ (Error::Damaged(_) | Error::Device(_) | Error::ReadOnly(_))) => {
                    panic!("{format}: {error}")
                }
                // The format cannot do this, the volume or a record is full, or the name exists.
                Err(_) => {}
            }
        }
        system.unmount().expect("a device that does not fail");
    }
    (format.into(), device)
}

/// A user who makes random changes to a volume.
struct User<'a> {
    system: &'a dyn FileSystem,
    directories: Vec<Node>,
    /// The files: node, directory and name of each.
    files: Vec<(Node, Node, Name)>,
    random: &'a mut Random,
    made: u64,
}

impl User<'_> {
    fn name(&mut self) -> Name {
        self.made += 1;
        let number = self.made * 100 + self.random.below(100);
        Name::from(super::name(number, self.random).as_str())
    }

    fn act(&mut self) -> Result<()> {
        let above = *self.random.pick(&self.directories);
        let what = self.random.below(20);
        if what < 5 || self.files.is_empty() {
            let name = self.name();
            let node = self.system.create(above, &name, Kind::File)?;
            self.files.push((node, above, name));
            return self.write(node);
        }
        if what == 5 {
            let name = self.name();
            let node = self.system.create(above, &name, Kind::Directory)?;
            self.directories.push(node);
            return Ok(());
        }
        let index = self.random.below(self.files.len() as u64) as usize;
        let (node, inside, name) = self.files[index].clone();
        match what {
            6..=9 => self.write(node),
            10 => {
                let size = Some(self.random.below(60_000));
                self.system.set_attributes(node, &Change { size, ..Change::default() }).map(drop)
            }
            11 => {
                let flags = Some(DosFlags(self.random.below(64) as u32 & DosFlags::SETTABLE.0 & !1));
                self.system.set_attributes(node, &Change { flags, ..Change::default() }).map(drop)
            }
            12..=13 => {
                self.files.swap_remove(index);
                self.system.unlink(inside, &name)?;
                self.system.forget(node, 1);
                Ok(())
            }
            14 => {
                let new_name = self.name();
                self.system.rename(inside, &name, above, &new_name, RenameFlags::default())?;
                self.files[index] = (node, above, new_name);
                Ok(())
            }
            15 => {
                let name = self.name();
                self.system.link(node, above, &name)
            }
            16 => {
                let name = self.name();
                self.system.symlink(above, &name, "../some/where").map(drop)
            }
            17 => {
                let stream = self.system.streams()?.open(node, &Name::from("a stream"), true)?;
                let outcome = self.write(stream);
                self.system.forget(stream, 1);
                outcome
            }
            18 => {
                let value = self.random.bytes(30);
                self.system.extended_attributes()?.set(node, "AN.ATTRIBUTE", Some(&value))
            }
            _ => self.system.sync(node, SyncScope::All),
        }
    }

    fn write(&mut self, node: Node) -> Result<()> {
        let most = *self.random.pick(&[600, 5000, 70_000]);
        let from = if self.random.chance(50) { 0 } else { self.random.below(most) };
        let length = self.random.below(most) as usize;
        let bytes = self.random.bytes(length);
        self.system.write(node, from, &bytes)
    }
}
