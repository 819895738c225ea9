//! Copying out what is left: files that were deleted, volumes without boot sectors or without `$MFT`'s first records.

mod filled;
mod judges;

use filled::filled;
use judges::{Content, Mount, sum};
use platter_device::{Device, MemoryDevice, Sectors};
use platter_vfs::{Kind, RecoverReport, Silent};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What was recovered: for each path, whether it was deleted, and its content.
type Harvest = BTreeMap<String, (bool, Content)>;

fn recover(device: Arc<dyn Device>) -> (RecoverReport, Harvest) {
    let mut harvest = Harvest::new();
    let report = platter_ntfs::recover(device, &Silent, &mut |found, data| {
        if found.kind != Kind::File {
            return Ok(());
        }
        let mut path: String = found.path.iter().map(|name| format!("/{name}")).collect();
        if let Some(stream) = &found.stream {
            path += &format!(":{stream}");
        }
        let mut bytes = vec![0; found.size as usize];
        let content = data.read(0, &mut bytes).map(|length| sum(&bytes[..length]));
        // What was deleted may have the name of something that is there.
        harvest.entry(path).or_insert((found.deleted, content.map_err(|error| error.to_string())));
        Ok(())
    });
    (report.expect("something is found"), harvest)
}

/// Files, by path, that are there in both with the same content; those that are not there are the answer.
fn missing(before: &BTreeMap<String, Content>, harvest: &Harvest) -> Vec<String> {
    let is_lost = |(path, content): (&String, &Content)| {
        let found = harvest.get(path).map(|(_, content)| content);
        (found != Some(content)).then(|| format!("{path}: {content:?}, recovered {found:?}"))
    };
    before.iter().filter_map(is_lost).collect()
}

#[test]
fn files_that_are_there_and_files_that_were_deleted() {
    for cluster in [512, 4096] {
        let image = filled(24 << 20, cluster, 150);
        let before = Mount::reading(&image).unwrap().tree();
        let mount = Mount::writing(&image).unwrap();
        mount.script("rm -r gone deep z large sparse links");
        drop(mount);
        let bytes = std::fs::read(image.path()).unwrap();
        let (report, harvest) = recover(Arc::new(MemoryDevice::from_image(&bytes, Sectors::SMALL)));
        // Names in records that extend a file are gone with these.
        let all: BTreeSet<&Content> = harvest.values().map(|(_, content)| content).collect();
        let is_link =
            |path: &String| path.starts_with("/links/") || ["/large", "/deep/level 1/f"].contains(&&**path);
        let (links, others): (BTreeMap<_, _>, _) = before.into_iter().partition(|(path, _)| is_link(path));
        assert!(links.values().all(|content| all.contains(content)), "{report:?}");
        let gone = missing(&others, &harvest);
        assert!(
            gone.is_empty(),
            "clusters of {cluster}: {} lost: {:#?}\n{report:?}",
            gone.len(),
            &gone[..gone.len().min(5)]
        );
        assert!(report.deleted >= 30 && report.lost.is_empty(), "{report:?}");
        assert!(harvest["/gone/1"].0 && !harvest["/many/file number 2.txt"].0);
        assert!(all.contains(&Ok(sum(b"a named stream"))));
    }
}

#[test]
fn volumes_that_cannot_be_opened() {
    for cluster in [512, 4096] {
        let image = filled(24 << 20, cluster, 150);
        let before = Mount::reading(&image).unwrap().tree();
        let sound = std::fs::read(image.path()).unwrap();
        let length = sound.len();
        let mft = 4 * 4096;
        let damages: [(&str, &[std::ops::Range<usize>]); 3] = [
            ("the boot sector", &[0..256, 256..512]),
            ("both boot sectors", &[0..8192, length - 4096..length]),
            ("both, and the first record", &[0..512, length - 4096..length, mft..mft + 1024]),
        ];
        for (what, ranges) in damages {
            let mut bytes = sound.clone();
            ranges.iter().for_each(|range| bytes[range.clone()].fill(0));
            println!("without {what}, clusters of {cluster}");
            let (report, harvest) = recover(Arc::new(MemoryDevice::from_image(&bytes, Sectors::SMALL)));
            let gone = missing(&before, &harvest);
            assert!(
                gone.is_empty(),
                "{what}, clusters of {cluster}: {:#?}\n{report:?}",
                &gone[..gone.len().min(5)]
            );
        }
    }
}

#[test]
fn nothing_is_found_where_nothing_is() {
    let device = Arc::new(MemoryDevice::new(1 << 20, Sectors::SMALL));
    assert!(platter_ntfs::recover(device, &Silent, &mut |_, _| Ok(())).is_err());
}
