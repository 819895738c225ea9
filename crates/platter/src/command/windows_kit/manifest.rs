//! What is in an image, and how it is compared with what a volume has.

use chrono::{DateTime, SecondsFormat};
use platter::{Attributes, DosFlags, Kind, Timestamp, Volume};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// The version of the manifests and of the verdict; a reader refuses others.
pub(crate) const VERSION: u32 = 1;

/// The whole kit.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct KitManifest {
    /// Always `platter-windows-kit`.
    pub schema: String,
    /// [`VERSION`].
    pub version: u32,
    /// The version of the program that made it.
    pub platter: String,
    /// What all contents follow from.
    pub seed: u64,
    /// The images, in order.
    pub images: Vec<ImageManifest>,
}

/// One image: `NAME.vhd`, with its manifest in `NAME.json`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct ImageManifest {
    /// The name, without an ending.
    pub name: String,
    /// The file system as Windows calls it: `FAT`, `FAT32`, `exFAT`, `NTFS`, `ReFS`.
    pub file_system: String,
    /// What is special about it, in a sentence.
    pub about: String,
    /// The label of the volume.
    pub label: String,
    /// Bytes per cluster.
    pub cluster: u64,
    /// The size of the disk in bytes, without the footer of the VHD.
    pub disk: u64,
    /// Whether the volume was closed. Windows cannot read one that was not where it must not write.
    pub closed: bool,
    /// Whether times are kept as local time.
    pub local_times: bool,
    /// Everything in the volume, by path; the root is left out.
    pub entries: Vec<Listed>,
}

/// A file, directory or link.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct Listed {
    /// The path from the root, with `/` between names and none before.
    pub path: String,
    /// `file`, `directory` or `link`.
    pub kind: String,
    /// Bytes of content.
    pub size: u64,
    /// SHA-256 of the content in hexadecimal; absent for directories and links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The letters of its attributes: `r`, `h`, `s`, `a`; absent where they are left to the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<String>,
    /// When it was last modified (RFC 3339); absent where that is left to the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
    /// Where a link leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Its number of names, where it has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<u32>,
    /// Whether its data has checksums (ReFS).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub integrity: Option<bool>,
    /// Named streams.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<ListedStream>,
    /// It was not synced before the crash: it may be there, with this content or in part, or not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub uncertain: bool,
}

/// A named stream.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub(crate) struct ListedStream {
    /// The name.
    pub name: String,
    /// Bytes of content.
    pub size: u64,
    /// SHA-256 of the content in hexadecimal.
    pub sha256: String,
}

/// The most differences that a comparison names.
const MOST: usize = 20;

/// Differences between what is wanted and what is there.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    /// The first of them, as sentences.
    pub first: Vec<String>,
    /// How many there are.
    pub count: u64,
    /// How many entries were compared.
    pub compared: u64,
}

impl Differences {
    fn add(&mut self, path: &str, what: impl std::fmt::Display) {
        self.count += 1;
        if self.first.len() < MOST {
            self.first.push(format!("{path}: {what}"));
        }
    }
}

/// Directories that Windows makes by itself, at the root.
const OF_WINDOWS: [&str; 3] = ["System Volume Information", "$RECYCLE.BIN", "RECYCLER"];

/// Compares a volume with what is wanted. Where `others` may be there too, entries that are not wanted are no
/// difference.
pub(crate) fn compare(volume: &Volume, wanted: &[Listed], others: bool) -> platter::Result<Differences> {
    let mut differences = Differences::default();
    let mut unseen: BTreeMap<&str, &Listed> = wanted.iter().map(|one| (one.path.as_str(), one)).collect();
    let parents: BTreeSet<&str> =
        wanted.iter().flat_map(|one| one.path.match_indices('/').map(|(at, _)| &one.path[..at])).collect();
    for entry in volume.walk("/")? {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                differences.add("", error);
                continue;
            }
        };
        let path = entry.path().to_string_lossy().trim_start_matches('/').to_string();
        let root = path.split('/').next().unwrap_or_default();
        let Some(one) = unseen.remove(path.as_str()) else {
            let known = OF_WINDOWS.iter().any(|name| name.eq_ignore_ascii_case(root));
            if !known && !others && !parents.contains(path.as_str()) {
                differences.add(&path, "is there and not in the manifest");
            }
            continue;
        };
        if !one.uncertain {
            differences.compared += 1;
            if let Err(error) = compare_one(volume, entry.metadata(), one, &mut differences) {
                differences.add(&path, error);
            }
        }
    }
    for one in unseen.into_values().filter(|one| !one.uncertain) {
        differences.add(&one.path, "is missing");
    }
    Ok(differences)
}

fn compare_one(
    volume: &Volume,
    attributes: &Attributes,
    one: &Listed,
    differences: &mut Differences,
) -> platter::Result<()> {
    let path = one.path.as_str();
    let kind = kind_name(attributes.kind);
    if kind != one.kind {
        differences.add(path, format_args!("is a {kind} where a {} is expected", one.kind));
        return Ok(());
    }
    if let Some(wanted) = &one.sha256 {
        let (size, sha256) = digest(&volume.open_file(path)?)?;
        if (size, &sha256) != (one.size, wanted) {
            let why = format!(
                "has {size} bytes with SHA-256 {sha256} where {} with {wanted} are expected",
                one.size
            );
            differences.add(path, why);
        }
    }
    if let Some(wanted) = &one.target {
        let target = volume.read_link(path)?;
        if target != *wanted {
            differences.add(path, format_args!("leads to {target:?} where {wanted:?} is expected"));
        }
    }
    if let Some(wanted) = &one.attributes {
        let letters = letters(attributes.flags);
        if letters != *wanted {
            differences
                .add(path, format_args!("has the attributes {letters:?} where {wanted:?} are expected"));
        }
    }
    if let Some(wanted) = &one.modified {
        let modified = time(attributes.modified);
        if modified != *wanted {
            differences.add(path, format_args!("was modified {modified} where {wanted} is expected"));
        }
    }
    if let Some(wanted) = one.links.filter(|&links| links != attributes.links) {
        differences.add(path, format_args!("has {} names where {wanted} are expected", attributes.links));
    }
    if let Some(wanted) = one.integrity {
        let enabled = volume.integrity(path)?.enabled;
        if enabled != wanted {
            differences.add(path, format_args!("has integrity {enabled} where {wanted} is expected"));
        }
    }
    for stream in &one.streams {
        let (size, sha256) = digest(&volume.open_stream(path, &stream.name)?)?;
        if (size, &sha256) != (stream.size, &stream.sha256) {
            differences.add(path, format_args!("stream {} has other content", stream.name));
        }
    }
    Ok(())
}

/// The size and the SHA-256 of a file's content.
fn digest(file: &platter::File) -> platter::Result<(u64, String)> {
    let mut buffer = vec![0; 1 << 20];
    let (mut hash, mut size) = (Sha256::new(), 0);
    loop {
        let got = file.read_at(size, &mut buffer)?;
        hash.update(&buffer[..got]);
        size += got as u64;
        if got < buffer.len() {
            return Ok((size, hex(&hash.finalize())));
        }
    }
}

/// The SHA-256 of bytes in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The word for a kind.
pub(crate) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Directory => "directory",
        Kind::SymbolicLink => "link",
        _ => "file",
    }
}

/// The letters of flags that are set.
pub(crate) fn letters(flags: DosFlags) -> String {
    crate::command::output::flag_letters(flags).replace('-', "")
}

/// A time as manifests have it.
pub(crate) fn time(time: Timestamp) -> String {
    let utc = DateTime::from_timestamp(time.seconds, time.nanoseconds).unwrap_or_default();
    utc.to_rfc3339_opts(SecondsFormat::Secs, true)
}
