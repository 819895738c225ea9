//! Opening a volume: from the boot sector to the metadata in memory.

use crate::core::{Core, data_runs, read_pieces};
use crate::file::{Attr, Body};
use crate::layout::bytes::{u16_at, u64_at};
use crate::layout::{
    AttributeContent, BootSector, Geometry, Kind, ListEntry, NonResident, Record, Run, VolumeInformation,
    fixup, index, journal, quota, record_number, runs, volume_flags,
};
use crate::log::{Log, LogPlace, LogState};
use crate::shadow::ShadowCopies;
use crate::space::Space;
use crate::taken;
use platter_device::{Device, OverlayDevice, read_any, write_any};
use platter_vfs::{Error, Health, OpenOptions, Result, windows_upper};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An opened volume's parts.
pub(crate) struct Opened {
    /// The device to work on: the one given, or one over it that shows the replayed log.
    pub device: Arc<dyn Device>,
    /// The boot sector.
    pub boot: BootSector,
    /// The metadata.
    pub core: Core,
    /// The log; `None` if it is not written to.
    pub log: Option<Log>,
    /// Whether the volume had not been closed.
    pub was_open: bool,
    /// The volume's version and flags.
    pub information: VolumeInformation,
    /// The dates of the shadow copies that Windows keeps of the volume, if it does.
    pub shadow_copies: Option<String>,
}

/// The boot sector, or its copy at the end of the device if the first one is not valid.
pub(crate) fn boot(device: &dyn Device) -> Result<(BootSector, Geometry)> {
    let mut first = vec![0; 512.min(device.len() as usize)];
    read_any(device, 0, &mut first)?;
    let error = match BootSector::from_bytes(&first).and_then(|boot| Ok((boot.geometry(device.len())?, boot)))
    {
        Ok((geometry, boot)) => return Ok((boot, geometry)),
        Err(error) => error,
    };
    for sector in [512u64, 4096] {
        let Some(at) = device.len().checked_sub(sector) else { continue };
        let mut copy = vec![0; 512];
        read_any(device, at, &mut copy)?;
        if let Ok(boot) = BootSector::from_bytes(&copy)
            && let Ok(geometry) = boot.geometry(device.len())
        {
            return Ok((boot, geometry));
        }
    }
    Err(error)
}

/// One of the first records, from `$MFT` or, if it is damaged there, from `$MFTMirr`.
fn first_record(device: &dyn Device, geometry: &Geometry, number: u64) -> Result<Record> {
    let read = |cluster: u64| -> Result<Record> {
        let at = cluster * geometry.cluster + number * u64::from(geometry.record);
        let mut bytes = vec![0; geometry.record as usize];
        read_any(device, at, &mut bytes)?;
        if bytes.get(..4) == Some(Record::SIGNATURE) {
            fixup::remove(&mut bytes, "file record", at)?;
        }
        Record::from_bytes(&bytes, at)
    };
    read(geometry.mft).or_else(|error| read(geometry.mirror).map_err(|_| error))
}

/// Called after a replay: brings `$MFTMirr` up to date with the first records, as the log has no changes of it.
pub(crate) fn refresh_mirror(device: &dyn Device, geometry: &Geometry) -> Result<()> {
    let base = first_record(device, geometry, record_number::MFT)?;
    let runs = base.attributes.iter().find_map(|attribute| match &attribute.content {
        AttributeContent::NonResident(outside) if attribute.kind == Kind::DATA => Some(outside),
        _ => None,
    });
    let Some(outside) = runs else { return Ok(()) };
    let at = geometry.mft * geometry.cluster;
    let runs = runs::unpack(&outside.pairs, outside.first, outside.end, geometry.clusters, at)?;
    let length = (4 * u64::from(geometry.record)).max(geometry.cluster);
    if runs.first().is_none_or(|run| run.length * geometry.cluster < length) {
        return Ok(());
    }
    let (mut first, mut copy) = (vec![0; length as usize], vec![0; length as usize]);
    read_any(device, at, &mut first)?;
    read_any(device, geometry.mirror * geometry.cluster, &mut copy)?;
    let before = copy.clone();
    let size = geometry.record as usize;
    for (record, copy) in first.chunks_exact(size).zip(copy.chunks_exact_mut(size)) {
        // The copy of a damaged record may be the only good one.
        if fixup::remove(&mut record.to_vec(), "file record", at).is_ok() {
            copy.copy_from_slice(record);
        }
    }
    if before != copy {
        write_any(device, geometry.mirror * geometry.cluster, &copy)?;
        device.flush()?;
    }
    Ok(())
}

/// The piece of `$MFT`'s own runs in a record; if `first` is given, only a piece that begins at this virtual cluster.
fn mft_piece(record: &Record, first: Option<u64>) -> Option<&NonResident> {
    record.attributes.iter().find_map(|attribute| match &attribute.content {
        AttributeContent::NonResident(outside)
            if attribute.kind == Kind::DATA
                && attribute.name.is_empty()
                && first.is_none_or(|first| outside.first == first) =>
        {
            Some(outside)
        }
        _ => None,
    })
}

/// The runs of `$MFT`, found from its own record on: each further piece is in a record that the pieces before it
/// lead to.
fn mft_runs(device: &Arc<dyn Device>, geometry: Geometry) -> Result<Vec<Run>> {
    let base = first_record(&**device, &geometry, record_number::MFT)?;
    let at = geometry.mft * geometry.cluster;
    let missing = |end: u64| {
        let expected = format!("runs of $MFT from virtual cluster {end}");
        Error::damaged("file record", at, expected, "none")
    };
    let first = mft_piece(&base, Some(0)).ok_or_else(|| missing(0))?;
    let whole = first.allocated / geometry.cluster;
    let mut all = runs::unpack(&first.pairs, 0, first.end, geometry.clusters, at)?;
    let Some(list) = base.attributes.iter().find(|attribute| attribute.kind == Kind::ATTRIBUTE_LIST) else {
        return Ok(all);
    };
    let value = match &list.content {
        AttributeContent::Resident { value, .. } => value.clone(),
        AttributeContent::NonResident(outside) if outside.size > ListEntry::LONGEST => {
            let expected = format!("at most {} bytes", ListEntry::LONGEST);
            return Err(Error::damaged("$ATTRIBUTE_LIST", at, expected, outside.size));
        }
        AttributeContent::NonResident(outside) => {
            let runs = runs::unpack(&outside.pairs, outside.first, outside.end, geometry.clusters, at)?;
            Core::new(device.clone(), geometry, Vec::new()).read_runs(&runs, 0, outside.size)?
        }
    };
    let entries = ListEntry::read_all(&value, at)?;
    let is_further = |entry: &&ListEntry| {
        entry.kind == Kind::DATA && entry.name.is_empty() && entry.record.number() != record_number::MFT
    };
    let mut waiting: Vec<u64> =
        entries.iter().filter(is_further).map(|entry| entry.record.number()).collect();
    // The pieces that were read and not yet joined, each with its record's device offset, by the first virtual cluster
    // that the piece itself gives: this one counts, whatever the entry of the list says.
    let mut known: BTreeMap<u64, (NonResident, u64)> = BTreeMap::new();
    loop {
        let end = all.last().map_or(0, Run::end);
        let records = end * geometry.cluster / u64::from(geometry.record);
        let (near, far): (Vec<u64>, Vec<u64>) = waiting.iter().partition(|number| **number < records);
        waiting = far;
        // Each record is read once, as soon as the known runs lead to it.
        let mut core =
            Core::new(device.clone(), geometry, if near.is_empty() { Vec::new() } else { all.clone() });
        for number in near {
            let place = core.record_place(number)?;
            let record = core.record(number).and_then(|bytes| Record::from_bytes(&bytes, place));
            if let Some(piece) = record.as_ref().ok().and_then(|record| mft_piece(record, None)) {
                known.entry(piece.first).or_insert((piece.clone(), place));
            }
        }
        let Some((piece, place)) = known.remove(&end).filter(|(piece, _)| piece.end > end) else { break };
        for run in runs::unpack(&piece.pairs, end, piece.end, geometry.clusters, place)? {
            runs::push(&mut all, run);
        }
    }
    match all.last().map_or(0, Run::end) {
        end if end < whole && !(waiting.is_empty() && known.is_empty()) => Err(missing(end)),
        _ => Ok(all),
    }
}

/// Opens the volume on a device.
pub(crate) fn open(device: Arc<dyn Device>, options: OpenOptions) -> Result<Opened> {
    let (boot, geometry) = boot(&*device)?;
    if geometry.cluster < u64::from(device.sectors().logical) {
        let (cluster, sector) = (geometry.cluster, device.sectors().logical);
        let reason =
            format!("its clusters of {cluster} bytes are smaller than the device's sectors of {sector}");
        return Err(Error::NotThisFormat { format: "NTFS", reason });
    }
    let mut device = device;
    // An obstacle in the volume itself is a more useful reason than that the volume was opened read-only.
    let of_device = device.why_read_only();
    let mut reason = of_device.clone().filter(|_| device.end() < device.len());
    let is_read = options.read_only || device.read_only();
    let health = Health::new(is_read.then(|| Health::OPENED_SO.into()));
    health.settle(&*device);
    let is_read_only = health.writable().is_err();
    reason = reason.or_else(|| health.obstacle().map(String::from));
    let (mut log, was_open) = match open_log(&device, geometry) {
        Ok((log, LogState::Clean)) => (Some(log), false),
        Ok((log, LogState::Foreign(why))) => {
            reason = reason.or(Some(format!("it was not closed, and its log cannot be replayed: {why}")));
            (Some(log), true)
        }
        Ok((log, LogState::Unclean(replay))) => {
            if is_read_only {
                device = Arc::new(OverlayDevice::new(device));
            }
            replay.apply(&*device)?;
            refresh_mirror(&*device, &geometry)?;
            (Some(log), true)
        }
        Err(error @ Error::Damaged(_)) => {
            reason = reason.or(Some(format!("its log is damaged ({error})")));
            (None, true)
        }
        Err(error) => return Err(error),
    };
    let mut core = Core::new(device.clone(), geometry, mft_runs(&device, geometry)?);
    core.load_record_bits()?;
    let mut without = |what: &str, loaded: Result<()>| -> Result<()> {
        match loaded {
            Err(error @ (Error::Damaged(_) | Error::Device(_) | Error::NotFound)) => {
                reason.get_or_insert(format!("{what} ({error}); see check"));
                Ok(())
            }
            loaded => loaded,
        }
    };
    // Reading can do without the structures loaded from here on: damage in them makes the volume read-only.
    let upcase = load_upcase(&mut core);
    if upcase.is_err() {
        core.upcase = (0..=u16::MAX).map(windows_upper).collect();
    }
    without("its table of upper-case letters is damaged", upcase)?;
    without("what is free is not known", load_space(&mut core))?;
    let found = information(&mut core);
    let information = match &found {
        Ok(information) => *information,
        Err(_) => VolumeInformation { version: (3, 1), flags: 0 },
    };
    without("its version is not known", found.map(drop))?;
    if information.version.0 != 3 {
        let (major, minor) = information.version;
        reason = reason.or(Some(format!("version {major}.{minor} is only read")));
    }
    if information.flags & volume_flags::DIRTY != 0 {
        reason = reason.or(Some("it is marked as dirty; check --repair puts that right".into()));
    }
    if let Some(why) = hibernated(&mut core) {
        reason = reason.or(Some(why));
    }
    let shadow_copies = ShadowCopies::find(&*device);
    if let Some(copies) = shadow_copies.as_ref().filter(|_| !is_read && !options.lose_shadow_copies) {
        reason = reason.or(Some(copies.why_kept()));
    }
    load_extend(&mut core);
    // Of a volume that is only read, nothing is given away.
    if reason.is_none() && !is_read_only {
        reason = taken::find_free(&mut core)?.map(|error| format!("{error}; see check"));
    }
    let opened_so = || options.read_only.then(|| Health::OPENED_SO.into());
    let reason = reason.or_else(opened_so).or(of_device);
    if let Some(reason) = reason {
        core.health.close(reason);
        log = None;
    }
    let shadow_copies = shadow_copies.map(|copies| copies.to_string());
    Ok(Opened { device, boot, core, log, was_open, information, shadow_copies })
}

fn open_log(device: &Arc<dyn Device>, geometry: Geometry) -> Result<(Log, LogState)> {
    let mut core = Core::new(device.clone(), geometry, mft_runs(device, geometry)?);
    let file = core.file(record_number::LOG_FILE)?;
    let place = LogPlace::of_runs(&data_runs(&file), &geometry)
        .ok_or_else(|| Error::damaged("$LogFile", 0, "clusters", "a hole"))?;
    Log::open(&**device, place)
}

fn load_upcase(core: &mut Core) -> Result<()> {
    let file = core.file(record_number::UPCASE)?;
    let data = file.find(Kind::DATA, &[]).ok_or(Error::NotFound);
    let bytes = match data.map(|data| &data.body) {
        Ok(Body::Outside(outside)) => core.read_runs(&outside.runs, 0, outside.size.min(0x20000))?,
        _ => Vec::new(),
    };
    let mut upcase: Vec<u16> =
        bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
    // Units that the table lacks are their own upper case.
    upcase.extend((upcase.len()..0x10000).map(|unit| unit as u16));
    core.upcase = upcase.into();
    Ok(())
}

fn load_space(core: &mut Core) -> Result<()> {
    let file = core.file(record_number::BITMAP)?;
    let total = core.geometry.clusters;
    let at = core.record_place(record_number::BITMAP)?;
    let runs = match file.find(Kind::DATA, &[]).map(|data| &data.body) {
        Some(Body::Outside(outside)) if outside.size >= total.div_ceil(8) => outside.runs.to_vec(),
        Some(Body::Resident { value, .. }) if value.len() as u64 >= total.div_ceil(8) => {
            return Err(Error::damaged("$Bitmap", at, "clusters", "a resident value"));
        }
        _ => return Err(Error::damaged("$Bitmap", at, format!("bits for {total} clusters"), "fewer")),
    };
    let (device, cluster) = (core.device.clone(), core.geometry.cluster);
    let read = move |at: u64, bytes: &mut [u8]| read_pieces(&*device, cluster, &runs, at, bytes);
    core.space = Space::open(total, Box::new(read))?;
    let mft = core.file(record_number::MFT)?;
    let end = data_runs(&mft).last().and_then(|run| run.lcn.map(|lcn| lcn + run.length)).unwrap_or(0);
    core.space.zone = end.min(total)..(end + total / 8).min(total);
    Ok(())
}

/// The value of `$VOLUME_INFORMATION`.
pub(crate) fn information(core: &mut Core) -> Result<VolumeInformation> {
    let at = core.record_place(record_number::VOLUME)?;
    let volume = core.file(record_number::VOLUME)?;
    VolumeInformation::from_bytes(volume.value(Kind::VOLUME_INFORMATION).unwrap_or(&[]), at)
}

/// The volume's label.
pub(crate) fn label(core: &mut Core) -> Result<String> {
    let volume = core.file(record_number::VOLUME)?;
    let units = volume.value(Kind::VOLUME_NAME).unwrap_or(&[]);
    let units: Vec<u16> = units.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
    Ok(String::from_utf16_lossy(&units))
}

/// Why a volume on which Windows is hibernated is not written to.
pub(crate) const HIBERNATED: &str = "Windows is hibernated or was shut down for a fast start (hiberfil.sys)";

/// Why the volume must not be written to, if Windows is hibernated on it or may be: `hiberfil.sys` begins with "hibr"
/// then.
fn hibernated(core: &mut Core) -> Option<String> {
    let name: Vec<u16> = "hiberfil.sys".encode_utf16().collect();
    let Ok(Some(entry)) = core.find_name(record_number::ROOT, &name) else { return None };
    let reference = index::IndexEntry { bytes: &entry, offset: 0 }.head();
    let unknown = |error| Some(format!("whether Windows is hibernated is not known: {error} (hiberfil.sys)"));
    let file = match core.file_at(crate::layout::Reference(reference)) {
        Ok(file) => file,
        Err(error) => return unknown(error),
    };
    let data = file.find(Kind::DATA, &[]).and_then(Attr::outside)?;
    let start = match core.read_runs(&data.runs, 0, data.size.min(4)) {
        Ok(start) => start,
        Err(error) => return unknown(error),
    };
    let is_hibernated = start.eq_ignore_ascii_case(b"hibr") && data.valid >= 4;
    is_hibernated.then(|| HIBERNATED.into())
}

/// Finds the indexes in `$Extend`, if they are there, and the change journal.
fn load_extend(core: &mut Core) {
    let mut find = |name: &str, index: crate::layout::Index| -> Option<u64> {
        let units: Vec<u16> = name.encode_utf16().collect();
        let entry = core.find_name(record_number::EXTEND, &units).ok()??;
        let number = u64_at(&entry, 0) & 0xFFFF_FFFF_FFFF;
        core.index_is_empty(number, index).ok()?;
        Some(number)
    };
    let reparse = find("$Reparse", crate::layout::Index::Reparse);
    let ids = find("$ObjId", crate::layout::Index::ObjectIds);
    let quotas = find(quota::NAME, crate::layout::Index::Quotas);
    (core.reparse_index, core.object_ids) = (reparse, ids);
    core.quota = quotas.filter(|number| {
        let defaults = core.index_find(*number, crate::layout::Index::Quotas, &quota::DEFAULTS.to_le_bytes());
        defaults.ok().flatten().is_some_and(|mut entry| quota::mark(&mut entry))
    });
    let units: Vec<u16> = journal::NAME.encode_utf16().collect();
    let journal = core.find_name(record_number::EXTEND, &units).ok().flatten();
    core.journal = journal.map(|entry| u64_at(&entry, 0) & 0xFFFF_FFFF_FFFF);
    core.has_journal = core.journal.is_some();
}

/// The device offset of `$MFTMirr`, and how many records it has.
pub(crate) fn mirrored(core: &mut Core) -> (u64, u64) {
    let size = core
        .file(record_number::MFT_MIRROR)
        .map_or(0, |file| file.find(Kind::DATA, &[]).map_or(0, Attr::size));
    (core.geometry.mirror * core.geometry.cluster, (size / u64::from(core.geometry.record)).max(4))
}

/// The greatest log sequence number (LSN) in the system's records.
pub(crate) fn greatest_lsn(core: &mut Core) -> u64 {
    (0..record_number::FIRST_FREE)
        .filter_map(|number| core.record(number).ok())
        .map(|bytes| u64_at(&bytes, 8))
        .max()
        .unwrap_or(0)
}

/// The key of an entry, which begins at 0x10.
pub(crate) fn key_of(entry: &[u8]) -> &[u8] {
    let length = usize::from(u16_at(entry, 0x0A));
    entry.get(0x10..0x10 + length).unwrap_or(&[])
}
