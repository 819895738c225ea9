//! Dynamic disks, made from the documented layout, as ldmtool and this program see them.

use crate::common::{Folder, Random};
use platter_device::{Device, FileDevice, FileOptions, MemoryDevice, Sectors};
use platter_images::making::{
    DATA, FIRST, GPT_DATA, GPT_PRIVATE, Made, Part, disk, disk_for_gpt, identifier, records,
};
use platter_images::{DiskGroup, VolumeKind, disk_group};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

const SECTOR: usize = 512;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Makes a disk of its number, its data and the records of its group.
type Make = dyn Fn(u64, &[u8], &[Vec<u8>]) -> Vec<u8>;

/// Writes the disks of a group with the volumes, whose data areas are random; returns the paths and the data.
fn group(folder: &Folder, count: u64, volumes: &[Made]) -> (Vec<PathBuf>, Vec<Vec<u8>>) {
    group_of(folder, count, volumes, &disk)
}

fn group_of(folder: &Folder, count: u64, volumes: &[Made], make: &Make) -> (Vec<PathBuf>, Vec<Vec<u8>>) {
    let records = records(count, volumes);
    let data = |number: u64| {
        let mut random = Random(number);
        (0..DATA as usize * SECTOR / 8)
            .flat_map(|_| random.below(u64::MAX).to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let data: Vec<Vec<u8>> = (1..=count).map(data).collect();
    let paths = (1..=count).zip(&data).map(|(number, data)| {
        let path = folder.path(&format!("disk{number}"));
        std::fs::write(&path, make(number, data, &records)).unwrap();
        path
    });
    (paths.collect(), data)
}

fn opened(paths: &[PathBuf]) -> platter_device::Result<DiskGroup> {
    let reading = FileOptions { read_only: true, ..FileOptions::default() };
    disk_group(
        paths
            .iter()
            .map(|path| Arc::new(FileDevice::open(path, reading).unwrap()) as Arc<dyn Device>)
            .collect(),
    )
}

fn content(device: &dyn Device) -> Vec<u8> {
    let mut all = vec![0; device.len() as usize];
    // Pieces of a length that no stripe and no part has.
    for (number, piece) in all.chunks_mut(7 * SECTOR).enumerate() {
        device.read_at((number * 7 * SECTOR) as u64, piece).unwrap();
    }
    all
}

/// The sectors of a disk's data.
fn sectors(data: &[u8], start: u64, count: u64) -> Vec<u8> {
    data[start as usize * SECTOR..(start + count) as usize * SECTOR].to_vec()
}

fn five_volumes() -> Vec<Made> {
    let parts = |parts: &[Part]| parts.to_vec();
    let gen_ = |size, components| Made { size, components };
    vec![
        gen_(1000, vec![(2, None, parts(&[(1, 1, 0, 1000, 0)]))]),
        gen_(3000, vec![(2, None, parts(&[(2, 2000, 0, 1000, 0), (1, 2000, 1000, 2000, 1)]))]),
        gen_(3840, vec![(1, Some(128), parts(&[(2, 4000, 0, 1920, 0), (1, 5000, 0, 1920, 1)]))]),
        gen_(900, vec![(2, None, parts(&[(1, 8000, 0, 900, 0)])), (2, None, parts(&[(3, 8100, 0, 900, 0)]))]),
        Made {
            size: 2048,
            components: vec![(
                3,
                Some(128),
                parts(&[(1, 9000, 0, 1024, 0), (2, 9000, 0, 1024, 1), (3, 9000, 0, 1024, 2)]),
            )],
        },
    ]
}

#[test]
fn volumes_on_dynamic_disks_are_read_as_their_group_says() {
    let folder = Folder::new("ldm");
    let (mut paths, mut data) = group(&folder, 3, &five_volumes());
    // A mirror is the same on both disks.
    let copy = sectors(&data[0], 8000, 900);
    put(&mut data[2], 8100 * SECTOR, &copy);
    std::fs::write(&paths[2], disk(3, &data[2], &records(3, &five_volumes()))).unwrap();
    // In any order.
    paths.rotate_left(1);
    let group = opened(&paths).unwrap();
    assert_eq!(group.name, "Group-Dg0");
    let kinds: Vec<VolumeKind> = group.volumes.iter().map(|volume| volume.kind).collect();
    use VolumeKind::{Mirrored, Parity, Simple, Spanned, Striped};
    assert_eq!(kinds, [Simple, Spanned, Striped, Mirrored, Parity]);
    let read = |number: u32| content(&*group.open(Some(number)).unwrap());
    assert!(read(1) == sectors(&data[0], 1, 1000));
    assert!(read(2) == [sectors(&data[1], 2000, 1000), sectors(&data[0], 2000, 2000)].concat());
    let stripes: Vec<Vec<u8>> = (0..15)
        .flat_map(|row| [sectors(&data[1], 4000 + row * 128, 128), sectors(&data[0], 5000 + row * 128, 128)])
        .collect();
    assert!(read(3) == stripes.concat());
    assert!(read(4) == copy);
    assert!(group.open(Some(5)).err().unwrap().to_string().contains("RAID-5"));
    assert!(group.open(Some(6)).err().unwrap().to_string().contains("no volume 6"));
    assert!(group.open(None).err().unwrap().to_string().contains("4 volumes that can be read"));
    assert!(group.open(Some(1)).unwrap().write_at(0, &[0; 512]).is_err());
}

#[test]
fn what_is_missing_has_a_name() {
    let folder = Folder::new("ldm-missing");
    let (paths, data) = group(&folder, 3, &five_volumes());
    // Only the second half of the mirror is there.
    let group = opened(&paths[2..]).unwrap();
    assert_eq!(group.disks.iter().map(|disk| disk.is_there()).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(group.volumes[3].missing, ["Disk1"]);
    assert!(content(&*group.open(None).unwrap()) == sectors(&data[2], 8100, 900));
    let said = group.open(Some(2)).err().unwrap().to_string();
    assert!(said.contains("lacks Disk1 {") && said.contains("and Disk2 {"), "{said}");
    let plain = folder.path("plain");
    std::fs::write(&plain, vec![0; 1 << 20]).unwrap();
    let said = opened(&[paths[0].clone(), plain]).err().unwrap().to_string();
    assert!(said.contains("is no dynamic disk"), "{said}");
}

/// Any byte of the private region may be anything: an error, and no panic.
#[test]
fn damaged_databases_are_errors() {
    let folder = Folder::new("ldm-damage");
    let (paths, _) = group(&folder, 1, &five_volumes()[..1]);
    let sound = std::fs::read(&paths[0]).unwrap();
    let private = (FIRST + DATA) as usize * SECTOR;
    let mut random = Random(59);
    let device = Arc::new(MemoryDevice::from_image(&sound, Sectors::SMALL));
    for _ in 0..1000 {
        let at = match random.below(3) {
            0 => 6 * SECTOR + random.below(0x180) as usize,
            1 => private + SECTOR + random.below(0x70) as usize,
            _ => private + 17 * SECTOR + random.below(1600) as usize,
        };
        let sector = at / SECTOR * SECTOR;
        let mut bytes = sound[sector..sector + SECTOR].to_vec();
        bytes[at - sector] ^= 1 << random.below(8);
        device.write_at(sector as u64, &bytes).unwrap();
        if let Ok(group) = disk_group(vec![device.clone()]) {
            for number in 0..3 {
                if let Ok(volume) = group.open(Some(number)) {
                    let _ = volume.read_at(0, &mut [0; 4096]);
                    let _ = volume.read_at(volume.len().saturating_sub(512), &mut [0; 512]);
                }
            }
        }
        device.write_at(sector as u64, &sound[sector..sector + SECTOR]).unwrap();
    }
}

#[test]
fn ldmtool_sees_the_same_volumes() {
    let folder = Folder::new("ldm-judge");
    let (paths, _) = group(&folder, 3, &five_volumes());
    judge(&paths);
}

/// Disks with a GPT have their private header in its partition alone. sfdisk makes the table.
#[test]
fn disks_with_a_gpt_are_read_as_those_with_an_mbr() {
    let folder = Folder::new("ldm-gpt");
    let (paths, data) = group_of(&folder, 3, &five_volumes(), &disk_for_gpt);
    let mut script = "label: gpt\nfirst-lba: 34\n".to_string();
    for (sectors, kind) in [
        (GPT_PRIVATE, "5808C8AA-7E8F-42E0-85D2-E1E90434CFB3"),
        (GPT_DATA, "AF9B60A0-1431-4F62-BC68-3311714A69AD"),
    ] {
        let (start, size) = (sectors.start, sectors.end - sectors.start);
        script += &format!("start={start}, size={size}, type={kind}\n");
    }
    std::fs::write(folder.path("table"), script).unwrap();
    for disk in ["disk1", "disk2", "disk3"] {
        folder.tool("sh", &["-c", &format!("sfdisk -q {disk} < table")]);
    }
    let group = opened(&paths).unwrap();
    let read = |number: u32| content(&*group.open(Some(number)).unwrap());
    assert!(read(1) == sectors(&data[0], 1, 1000));
    assert!(read(2) == [sectors(&data[1], 2000, 1000), sectors(&data[0], 2000, 2000)].concat());
    assert!(read(4) == sectors(&data[0], 8000, 900));
    judge(&paths);
}

/// ldmtool knows the same volumes, with the same kinds and sizes.
fn judge(paths: &[PathBuf]) {
    let group = opened(paths).unwrap();
    let mut names: Vec<&str> = Vec::new();
    for path in paths {
        names.extend(["-d", path.to_str().unwrap()]);
    }
    let show = |arguments: &[&str]| {
        let output = Command::new("ldmtool").args(&names).args(arguments).output().expect("ldmtool");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().replace([' ', '\n'], "")
    };
    let id = identifier(0xFF).0;
    assert!(show(&["show", "diskgroup", &id]).contains("\"name\":\"Group-Dg0\""));
    for volume in &group.volumes {
        let seen = show(&["show", "volume", &id, &volume.name]);
        let kind = match volume.kind {
            VolumeKind::Parity => "RAID5".into(),
            kind => kind.to_string(),
        };
        let expected = format!("\"type\":\"{kind}\",\"size\":{},", volume.size / 512);
        assert!(seen.contains(&expected), "{seen}, not {expected}");
    }
}

/// Disks that Windows made: those of libldm's own tests, in the directory `PLATTER_LDM`.
#[test]
#[ignore = "needs disks that are not distributed with this project"]
fn disks_of_windows() {
    let folder = PathBuf::from(std::env::var("PLATTER_LDM").unwrap());
    for system in ["2003r2", "2008r2"] {
        for (kind, count) in [("simple", 1), ("spanned", 2), ("striped", 2), ("mirrored", 2), ("raid5", 3)] {
            let paths: Vec<PathBuf> =
                (1..=count).map(|number| folder.join(format!("ldm-{system}-{kind}-{number}.img"))).collect();
            if !paths[0].exists() {
                continue;
            }
            let group = opened(&paths).unwrap();
            println!("{system} {kind}: {:?}", group.volumes);
            match group.open(None) {
                Ok(volume) => {
                    let mut boot = [0; 512];
                    volume.read_at(0, &mut boot).unwrap();
                    assert!(&boot[3..7] == b"NTFS" && kind != "raid5", "{:02x?}", &boot[..16]);
                    std::fs::write(folder.join(format!("{system}-{kind}.raw")), content(&*volume)).unwrap();
                }
                Err(error) => println!("{error}"),
            }
        }
    }
}
