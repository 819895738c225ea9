//! What a check passes, a repair does not write to: sound volumes, and those of which a check tells something that sound
//! volumes of Windows, of earlier versions of Platter or after a power cut have too.

use crate::check::{check, populated};
use crate::common::{VOLUMES, Volume};
use crate::damaged::{Did, Of, Surgeon, is_name, units};
use platter_device::{Device, OverlayDevice};
use platter_refs::layout::attribute::DATA;
use platter_refs::layout::bytes::put;
use platter_refs::layout::{BootRecord, Version};
use platter_testing::model::told;
use std::sync::Arc;

const ROOT: Of = Of::Object(0x600);

/// Something that a check tells of as a notice.
struct Notice {
    name: &'static str,
    code: &'static str,
    /// Whether it is about files with several names, which only 3.14 has.
    of_links: bool,
    make: fn(&mut Surgeon<'_>),
}

const fn notice(name: &'static str, code: &'static str, make: fn(&mut Surgeon<'_>)) -> Notice {
    Notice { name, code, of_links: false, make }
}

const NOTICES: &[Notice] = &[
    notice("times of a directory's entry", "entry-stale", |surgeon| {
        surgeon.edit_value(ROOT, |row| is_name(&units("many"), row), |value| put(value, 0x18, 12_345u64));
    }),
    Notice {
        of_links: true,
        ..notice("size of a hard link's entry", "entry-stale", |surgeon| {
            surgeon.edit_value(ROOT, |row| is_name(&units("small"), row), |value| put(value, 0x38, 7u64));
        })
    },
    notice("no rows that lead from numbers to files", "number-row-missing", |surgeon| {
        while surgeon.rows(ROOT).iter().any(|(row, _)| row[0] == 0x20) {
            surgeon.remove_row(ROOT, |row| row[0] == 0x20);
        }
    }),
    notice("a descriptor that is not there", "security", |surgeon| {
        surgeon.edit_record(
            ROOT,
            |row| is_name(&units("empty"), row),
            |record| record.security = 0x77_0000_1234,
        );
    }),
    notice("runs of a kind that no source explains", "run-kind", |surgeon| {
        surgeon.edit_record(
            ROOT,
            |row| is_name(&units("checked later"), row),
            |record| {
                let data = record.rows.iter_mut().find(|row| row.kind() == DATA && row.value.len() > 0xB0);
                put(&mut data.expect("runs in the record").value, 0xB8, 0x54u16);
            },
        );
    }),
    notice("a checkpoint that a power cut left half written", "checkpoint", |surgeon| {
        let at = surgeon.superblock.checkpoints[surgeon.slot ^ 1] * surgeon.cluster;
        let size = surgeon.boot.sector as usize;
        let mut sector = surgeon.read(at, size);
        sector[size.min(0x140) - 8..].fill(0x5A);
        surgeon.device.write_at(at, &sector).unwrap();
    }),
    notice("an inner node without the mark of its last child", "node-mark", |surgeon| {
        if surgeon.boot.version != Version::V3_14 || surgeon.boot.checksum == 0 {
            return;
        }
        let many = surgeon.directory(&["many"]);
        surgeon.edit(Of::Object(many), &mut |bytes| {
            let end = bytes.len();
            assert_eq!(bytes[end - 2..], [0, 0], "an inner node");
            bytes[end - 2..].fill(0xFF);
            Did::Sealed
        });
    }),
    notice("a boot record's copy from before an upgrade", "boot-copy", |surgeon| {
        let older = match surgeon.boot.version {
            Version::V3_14 => BootRecord { version: Version::V3_10, ..surgeon.boot.clone() },
            _ => return,
        };
        let sector = u64::from(surgeon.boot.sector);
        let at = (surgeon.boot.sectors - 1) * sector;
        let mut bytes = surgeon.read(at, sector as usize);
        bytes[..BootRecord::SIZE].copy_from_slice(&older.to_bytes());
        surgeon.device.write_at(at, &bytes).unwrap();
    }),
];

/// Returns what is wrong with a repair of a volume that a check passes.
fn wrong(device: Arc<dyn Device>, code: Option<&str>) -> Option<String> {
    let before = check(&*device, false);
    let codes: Vec<&str> = before.findings.iter().map(|found| found.code).collect();
    if !before.is_clean() || codes.is_empty() != code.is_none() || codes.iter().any(|one| Some(*one) != code)
    {
        return Some(format!("expected only {code:?}\n{}", told(&before)));
    }
    let repaired = OverlayDevice::new(device);
    let report = check(&repaired, true);
    let is_left = repaired.kept() == 0 && (report.exit_code(), report.repaired) == (0, 0);
    let is_left = is_left && report.findings == before.findings;
    (!is_left).then(|| format!("{} bytes are written\n{}", repaired.kept(), told(&report)))
}

#[test]
fn a_repair_of_a_sound_volume_writes_nothing() {
    for volume in VOLUMES {
        for device in [volume.make(), populated(&volume)] {
            assert_eq!(wrong(device, None), None, "{volume:?}");
        }
    }
}

/// A volume of this kind with what a notice tells of.
fn noticed(volume: &Volume, sound: &Arc<dyn Device>, notice: &Notice) -> Arc<OverlayDevice> {
    assert!(!notice.of_links || volume.version == "3.14");
    let device = Arc::new(OverlayDevice::new(sound.clone()));
    (notice.make)(&mut Surgeon::new(&*device));
    device
}

#[test]
fn a_repair_of_a_volume_with_notices_writes_nothing() {
    let mut failures = Vec::new();
    for volume in VOLUMES {
        let sound: Arc<dyn Device> = populated(&volume);
        for notice in NOTICES.iter().filter(|notice| !notice.of_links || volume.version == "3.14") {
            let device = noticed(&volume, &sound, notice);
            let code = (device.kept() > 0).then_some(notice.code);
            failures.extend(wrong(device, code).map(|what| format!("{}, {volume:?}: {what}", notice.name)));
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}
