//! Opening a file as the disk that it holds.

use crate::bytes::unusable;
use crate::container::{Container, VHD};
use crate::evidence::{self, OpenedEvidence, StoredHash};
use crate::guid::Guid;
use crate::parent::{Opened, ParentLink, Source, Wanted};
use crate::split::{self, Split, parts};
use crate::{qcow2, vhd, vhdx, vmdk};
use platter_device::{Caching, Device, FileDevice, FileOptions, Growing, Result, read_any};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An image that is open.
pub struct Image {
    /// The disk in it.
    pub device: Arc<dyn Device>,
    /// What the file is, for example "VHDX, dynamic"; `None` for a file or block device whose bytes are those of the disk.
    pub kind: Option<String>,
    /// The container, if it is one.
    pub container: Option<Container>,
    /// The hashes of the disk that were stored when it was made, which [`verify`](crate::verify) compares; E01 has some.
    pub hashes: Vec<StoredHash>,
    /// What children know it by.
    pub(crate) identity: Option<Guid>,
}

/// Opens a file or block device as the disk that it holds: the virtual disk in a container, the parts of a split image as
/// one, and everything else as it is.
///
/// The parents of a differencing image are looked for beside it, by the names that it has for them, and are read only.
/// They are opened with the same options otherwise.
///
/// # Errors
/// [`Error::Unusable`](platter_device::Error::Unusable) for a container that is damaged, that needs something that is not
/// known here, or whose parent is not there; and the errors of [`FileDevice::open`].
pub fn open(path: &Path, options: FileOptions) -> Result<Image> {
    open_over(path, options, &|file| Arc::new(file))
}

/// Opens an image as [`open`] does, with something between its files and the disk, for example a recorder: `between` gets
/// each file of an image that can be written, and those of its parents, and returns what is used in its place.
///
/// # Errors
/// Those of [`open`].
pub fn open_over(path: &Path, options: FileOptions, between: &Between<'_>) -> Result<Image> {
    let mut chain = Chain { files: Vec::new(), between };
    let Opened { device, kind, identity, container, hashes } =
        open_in_chain(path, options, Wanted::Any, &mut chain)?;
    Ok(Image { device, kind: (!kind.is_empty()).then_some(kind), container, hashes, identity })
}

/// What is put between the files of an image and the disk in them.
pub type Between<'b> = dyn Fn(FileDevice) -> Arc<dyn Growing> + 'b;

/// The image that is being opened, and its children.
struct Chain<'b> {
    /// The real paths of the children.
    files: Vec<PathBuf>,
    between: &'b Between<'b>,
}

/// The first part of the split image of which the file at `path` is a later part, if there is one.
pub fn later_part(path: &Path) -> Option<PathBuf> {
    split::first_of(path)
}

/// What changes whenever a container is opened and written to, where that is more than the time of the last write of its
/// file: closing a VHDX, which changes nothing of its disk, writes to the file too. `None` for every other file.
pub fn stamp(path: &Path) -> Option<String> {
    let file = FileDevice::open(path, FileOptions { read_only: true, ..FileOptions::default() }).ok()?;
    let is_vhdx = !file.is_block_device() && Container::of_content(&file).ok()? == Some(Container::Vhdx);
    if is_vhdx { vhdx::stamp(&file).ok() } else { None }
}

/// The most parents of an image, each of which is the parent of the one before.
const MOST_PARENTS: usize = 64;

/// Opens an image; `wanted` is the kind that a parent must have, and `chain` has its children.
fn open_in_chain(path: &Path, options: FileOptions, wanted: Wanted, chain: &mut Chain<'_>) -> Result<Opened> {
    let plain = FileOptions { caching: Caching::Buffered, ..options };
    let file = FileDevice::open(path, plain)?;
    let container = match wanted {
        Wanted::Raw => None,
        _ if file.is_block_device() => None,
        _ => Container::of_content(&file)?,
    };
    if let Wanted::Is(wanted) = wanted
        && container != Some(wanted)
    {
        return Err(unusable(file.name(), format!("is the parent of a {wanted:?}, and is none itself")));
    }
    let Some(container) = container else {
        return raw(path, file, options, chain.between);
    };
    if container == Container::E01 {
        drop(file);
        return evidence(path, options);
    }
    if container == Container::Vmdk {
        drop(file);
        return vmdk::open(path, options);
    }
    chain.files.push(std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()));
    let file = (chain.between)(with_caching(path, file, options, container)?);
    let between = chain.between;
    let chain = std::cell::RefCell::new(chain);
    let open_parent = |link: &ParentLink| open_parent(path, link, options, &mut chain.borrow_mut());
    let source = Source { read_only: options.read_only, file };
    match container {
        Container::Vhdx => vhdx::open(source, &open_parent),
        // The claim on the file ends before it is opened again.
        Container::Vhd => match vhd::open(source, &open_parent) {
            // The bytes of a fixed disk are those of the disk, whatever follows them.
            Err(_) if wanted == Wanted::Any && !begins_as_vhd(path)? => {
                raw(path, FileDevice::open(path, plain)?, options, between)
            }
            opened => opened,
        },
        Container::Qcow2 => qcow2::open(source, &open_parent),
        Container::Vmdk | Container::E01 => unreachable!("they were opened above"),
    }
}

/// Opens the set of segments that begins with this file.
fn evidence(path: &Path, options: FileOptions) -> Result<Opened> {
    let OpenedEvidence { device, hashes, count } = evidence::open(evidence::opener(path, options))?;
    let kind = match count {
        1 => "E01 evidence".into(),
        count => format!("E01 evidence, in {count} segments"),
    };
    Ok(Opened { device, identity: None, kind, container: Some(Container::E01), hashes })
}

/// Whether a file begins with the copy of a VHD's footer.
fn begins_as_vhd(path: &Path) -> Result<bool> {
    let file = FileDevice::open(path, FileOptions { read_only: true, ..FileOptions::default() })?;
    let mut bytes = [0; 8];
    read_any(&file, 0, &mut bytes)?;
    Ok(bytes == VHD)
}

/// Returns the file with the caching that is asked for, if its sectors then are small enough for every container, and
/// none of its bytes is left out.
fn with_caching(
    path: &Path,
    file: FileDevice,
    options: FileOptions,
    container: Container,
) -> Result<FileDevice> {
    // The last compressed cluster of a qcow2 may end within a sector.
    let bytewise = container == Container::Qcow2;
    if options.caching == Caching::Buffered && !bytewise {
        return Ok(file);
    }
    // Two claims on a file would exclude each other.
    drop(file);
    let buffered = FileOptions { caching: Caching::Buffered, bytewise, ..options };
    if options.caching == Caching::Buffered {
        return FileDevice::open(path, buffered);
    }
    let direct = FileDevice::open(path, options)?;
    let is_whole = std::fs::metadata(path).is_ok_and(|data| data.len() == direct.len());
    if direct.sectors().logical <= 512 && (is_whole || !bytewise) {
        return Ok(direct);
    }
    drop(direct);
    FileDevice::open(path, buffered)
}

/// Opens what is no container.
fn raw(path: &Path, file: FileDevice, options: FileOptions, between: &Between<'_>) -> Result<Opened> {
    let opened = |device: Arc<dyn Device>, kind: String| {
        Ok(Opened { device, identity: None, kind, container: None, hashes: Vec::new() })
    };
    if !file.is_block_device()
        && let Some(parts) = parts(path)?
    {
        drop(file);
        let split = Split::open(&parts, FileOptions { caching: Caching::Buffered, ..options }, between)?;
        return opened(Arc::new(split), format!("raw, in {} files", parts.len()));
    }
    if options.caching == Caching::Buffered {
        return opened(between(file), String::new());
    }
    // With direct I/O, an image may have larger sectors than its volume was made for.
    let sectors = file.sectors();
    drop(file);
    let direct = FileDevice::open(path, options)?;
    if direct.sectors() == sectors {
        return opened(between(direct), String::new());
    }
    drop(direct);
    let plain = FileOptions { caching: Caching::Buffered, ..options };
    opened(between(FileDevice::open(path, plain)?), String::new())
}

/// Fails for a parent whose last bytes are in no whole sector, and would be missing.
fn whole(path: &Path, opened: Opened) -> Result<Opened> {
    let length = std::fs::metadata(path).map_or(0, |data| if data.is_file() { data.len() } else { 0 });
    if opened.container.is_none() && opened.kind.is_empty() && !length.is_multiple_of(512) {
        let reason = format!("is a parent of {length} bytes, which are not whole sectors of 512");
        return Err(unusable(opened.device.name(), reason));
    }
    Ok(opened)
}

/// Opens the parent of the image at `child`. The names of parents are taken from the image, whose maker may not be who
/// reads it: so only files beside the image are opened, and links there are whatever the user has put there.
fn open_parent(
    child: &Path,
    link: &ParentLink,
    options: FileOptions,
    chain: &mut Chain<'_>,
) -> Result<Opened> {
    let name = child.display().to_string();
    if chain.files.len() > MOST_PARENTS {
        return Err(unusable(&name, format!("has more than {MOST_PARENTS} parents")));
    }
    let beside = child.parent().unwrap_or(Path::new(""));
    let mut names: Vec<&str> = Vec::new();
    for path in &link.paths {
        let last = path.rsplit(['/', '\\']).next().unwrap_or_default();
        if !["", ".", ".."].contains(&last) && !last.contains('\0') && !names.contains(&last) {
            names.push(last);
        }
    }
    let options = FileOptions { read_only: true, ..options };
    let mut why = None;
    for candidate in names.iter().map(|name| beside.join(name)) {
        let Ok(real) = std::fs::canonicalize(&candidate) else { continue };
        if chain.files.contains(&real) {
            why = Some(unusable(&name, format!("is its own parent, through {}", candidate.display())));
            continue;
        }
        let depth = chain.files.len();
        match open_in_chain(&candidate, options, link.wanted, chain)
            .and_then(|opened| whole(&candidate, opened))
        {
            Err(error) => why = why.or(Some(error)),
            Ok(opened) if link.identities.is_empty() => return Ok(opened),
            Ok(opened) if opened.identity.is_some_and(|own| link.identities.contains(&own)) => {
                return Ok(opened);
            }
            Ok(opened) => {
                let own = opened.identity.map_or("nothing".into(), |own| own.to_string());
                let expected = link.identities[0];
                let reason = format!(
                    "{} is not the parent that it was made from, or was changed since: expected {expected}, found {own}",
                    candidate.display()
                );
                why = why.or(Some(unusable(&name, reason)));
            }
        }
        chain.files.truncate(depth);
    }
    Err(why.unwrap_or_else(|| {
        let recorded: Vec<String> = link.paths.iter().filter(|path| !path.is_empty()).map(|path| format!("{path:?}")).collect();
        let reason = format!(
            "has a parent, {}, that is not beside it: parents are read from the directory of the image only, so put the \
             parent there, or a link to it",
            if recorded.is_empty() { "which it does not name".into() } else { recorded.join(" or ") }
        );
        unusable(&name, reason)
    }))
}
