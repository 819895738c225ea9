//! What the value of an argument may be, by what the argument means.

use super::Candidate;
use crate::command::volume::is_image;
use clap::{Arg, Command};
use platter::{Held, Source};
use platter_device::host::{HostBytes, host_string};
use platter_device::{FileDevice, FileOptions, PartitionTable, show_size};
use platter_lab::Target;
use platter_lab::model::Model;
use platter_lab::naspt::Set;
use platter_lab::workload::built_in;
use platter_vfs::Kind;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

/// The most files of a directory that are looked into, to see whether they are images.
const MOST_LOOKED_INTO: usize = 200;

/// Returns what may come as the value of an argument, of which this much is typed. `before` are the words of the command
/// line before it.
pub(super) fn of(command: &Command, argument: &Arg, typed: &OsStr, before: &[OsString]) -> Vec<Candidate> {
    let name = argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    let id = argument.get_id().as_str();
    let possible = argument.get_possible_values();
    if !possible.is_empty() {
        let is_upper = typed.as_bytes().iter().any(u8::is_ascii_uppercase);
        let shown = possible.iter().filter(|value| !value.is_hide_set());
        return shown
            .map(|value| {
                let name = value.get_name();
                let name = if is_upper { name.to_ascii_uppercase() } else { name.to_string() };
                Candidate::new(name, value.get_help().map(ToString::to_string).unwrap_or_default())
            })
            .collect();
    }
    match (command.get_name(), name) {
        (_, "TARGET,...") => after_comma(typed, b',', targets),
        (_, "TARGET") => targets(typed),
        (_, "WORKLOAD,...") => after_comma(typed, b',', workloads),
        ("run", "WORKLOAD") => workloads(typed),
        (_, "RULE") => words(&[
            ("direct", "volatile until a flush"),
            ("write-through", "durable when it returns"),
            ("fsync_every=", "a sync after so many writes"),
        ]),
        #[cfg(target_os = "linux")]
        ("mount", "OPTIONS") => after_comma(typed, b',', mount_option),
        (_, "on|off") => words(&[("on", ""), ("off", "")]),
        (_, "ALGORITHM") => words(&[("crc64", "the default"), ("sha256", ""), ("none", "")]),
        (_, "WHAT") => words(&[
            ("stream:", "a named stream"),
            ("snapshot:", "the content kept under a name"),
            ("ea:", "an extended attribute"),
            ("reparse", "the reparse point"),
            ("security", "the security descriptor"),
        ]),
        ("mkfs", "VERSION") => {
            words(&[("3.14", "ReFS"), ("3.4", "ReFS"), ("12", "FAT"), ("16", "FAT"), ("32", "FAT")])
        }
        (_, "N") if id == "partition" => partition_numbers(before),
        (_, "IMAGE|DEVICE|mem:SIZE|model:NAME") => files(typed, &|_| true)
            .into_iter()
            .chain([Candidate::new("mem:", "a device in memory of this size")])
            .chain(Model::names().map(|name| Candidate::new(format!("model:{name}"), "in virtual time")))
            .collect(),
        (_, "DIR" | "DIRECTORY" | "IMAGE|DIR") => directories(typed),
        ("man", _) => directories(typed),
        (_, "IMAGE:/PATH" | "IMAGE[:/PATH]" | "IMAGE:/PATH|FILE" | "PATH|IMAGE:/PATH" | "ONE" | "OTHER") => {
            place(typed, name)
        }
        (_, "IMAGE" | "IMAGES" | "MIRROR" | "IMAGE|DEVICE") => image(typed),
        (_, "SIZE" | "NAME" | "LABEL" | "TIME" | "PERCENT" | "NUMBER" | "N" | "SERIAL" | "NAME=VALUE") => {
            Vec::new()
        }
        _ => files(typed, &|_| true),
    }
}

fn words(words: &[(&str, &str)]) -> Vec<Candidate> {
    words.iter().map(|(word, help)| Candidate::new(*word, *help)).collect()
}

/// Completes the last part of a list.
fn after_comma(typed: &OsStr, separator: u8, of: impl Fn(&OsStr) -> Vec<Candidate>) -> Vec<Candidate> {
    let bytes = typed.as_bytes();
    let start = bytes.iter().rposition(|&byte| byte == separator).map_or(0, |at| at + 1);
    let (list, last) = bytes.split_at(start);
    let found = of(&host_string(last)).into_iter();
    found.map(|found| Candidate { value: [list, &found.value].concat(), ..found }).collect()
}

fn targets(typed: &OsStr) -> Vec<Candidate> {
    if let Some(path) = typed.as_bytes().strip_prefix(b"dir:") {
        let found = directories(&host_string(path)).into_iter();
        return found
            .map(|found| Candidate { value: [b"dir:", &found.value[..]].concat(), ..found })
            .collect();
    }
    let formats =
        platter_formats::registry().iter().map(|format| Candidate::new(format.name(), "a volume of Platter"));
    let others = Target::peers().map(|name| Candidate::new(name, "made on the device and mounted (root)"));
    let by_windows =
        Target::peers_of_windows().map(|name| Candidate::new(name, "made by Windows in a virtual disk"));
    let ours = platter_formats::registry().iter().map(|format| format!("mount:{}", format.name()));
    let ours = ours.map(|name| Candidate::new(name, "a volume of Platter through platter mount (root)"));
    [Candidate::new("raw", "the device itself")]
        .into_iter()
        .chain(formats)
        .chain([Candidate::new("dir:", "a directory of a mounted file system")])
        .chain(others)
        .chain(by_windows.filter(|_| cfg!(windows)))
        .chain(ours)
        .collect()
}

fn workloads(typed: &OsStr) -> Vec<Candidate> {
    let sets = Set::ALL.map(Set::name);
    let all = built_in().chain(sets).chain([
        "crystaldiskmark:default",
        "crystaldiskmark:nvme",
        "jetstress",
        "diskspd",
    ]);
    let is_load = |path: &Path| {
        path.extension().is_some_and(|own| {
            ["toml", "fio", "icf", "xml"].iter().any(|known| own.eq_ignore_ascii_case(known))
        })
    };
    all.map(|name| Candidate::new(name, "a workload")).chain(files(typed, &is_load)).collect()
}

#[cfg(target_os = "linux")]
fn mount_option(typed: &OsStr) -> Vec<Candidate> {
    let typed = typed.to_string_lossy();
    let known = platter_mount::Options::KNOWN.iter();
    match typed.split_once('=') {
        None => known
            .map(|(name, values, help)| {
                Candidate::new(if values.is_empty() { name.to_string() } else { format!("{name}=") }, *help)
            })
            .collect(),
        Some((name, _)) => {
            let values = known.filter(|known| known.0 == name).flat_map(|(_, values, _)| values.iter());
            values
                .filter(|value| !value.is_empty())
                .map(|value| Candidate::new(format!("{name}={value}"), ""))
                .collect()
        }
    }
}

/// Returns the files and directories of the host whose path begins as typed; of the files those that are wanted.
/// Directories end with a slash.
fn files(typed: &OsStr, is_wanted: &dyn Fn(&Path) -> bool) -> Vec<Candidate> {
    let bytes = typed.as_bytes();
    let start = bytes.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let (above, begun) = bytes.split_at(start);
    let folder = PathBuf::from(if above.is_empty() { ".".into() } else { host_string(above) });
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<Candidate> = entries
        .flatten()
        .filter(|entry| entry.file_name().as_bytes().starts_with(begun))
        .filter(|entry| !begun.is_empty() || !entry.file_name().as_bytes().starts_with(b"."))
        .filter_map(|entry| {
            let path = entry.path();
            let mut value = [above, entry.file_name().as_bytes()].concat();
            if path.is_dir() {
                value.push(b'/');
            } else if !is_wanted(&path) {
                return None;
            }
            Some(Candidate::new(value, ""))
        })
        .collect();
    found.sort_by(|one, other| one.value.cmp(&other.value));
    found
}

fn directories(typed: &OsStr) -> Vec<Candidate> {
    files(typed, &|_| false)
}

/// An image, a partition of one, or the copies of a mirror.
fn image(typed: &OsStr) -> Vec<Candidate> {
    if names_several(typed.as_bytes()) > 0 {
        let separator = if typed.as_bytes().contains(&b',') { b',' } else { b':' };
        return after_comma(typed, separator, |typed| files(typed, &|_| true));
    }
    let partitions = partitions(typed);
    if partitions.is_empty() { files(typed, &|_| true) } else { partitions }
}

/// The partitions of the image before an `@` at which is typed.
fn partitions(typed: &OsStr) -> Vec<Candidate> {
    let bytes = typed.as_bytes();
    let Some(at) = bytes.iter().rposition(|&byte| byte == b'@') else { return Vec::new() };
    let image = &bytes[..at];
    let found = table_of(Path::new(&host_string(image))).into_iter();
    found
        .map(|(number, help)| Candidate::new([image, b"@", number.to_string().as_bytes()].concat(), help))
        .collect()
}

/// The numbers of the partitions of the first word that names an image.
fn partition_numbers(words: &[OsString]) -> Vec<Candidate> {
    let tables = words.iter().map(|word| {
        let bytes = word.as_bytes();
        let end = bytes.windows(2).position(|pair| pair == b":/").unwrap_or(bytes.len());
        table_of(Path::new(&host_string(&bytes[..end])))
    });
    let table = { tables }.find(|table| !table.is_empty()).unwrap_or_default();
    table.into_iter().map(|(number, help)| Candidate::new(number.to_string(), help)).collect()
}

/// The partitions of an image: the number of each, and what is known of it.
fn table_of(image: &Path) -> Vec<(u32, String)> {
    let options = FileOptions { read_only: true, ..FileOptions::default() };
    let table = FileDevice::open(image, options).and_then(|device| PartitionTable::read(&device));
    let Ok(Some(table)) = table else { return Vec::new() };
    let told = |kind: &str, length| format!("{kind}, {}", show_size(length));
    table.partitions.iter().map(|entry| (entry.number, told(&entry.kind, entry.length))).collect()
}

/// The length of the prefix of a source of several images; 0 if it is a single one.
fn names_several(typed: &[u8]) -> usize {
    let prefix =
        [Source::MIRROR, Source::DYNAMIC].into_iter().find(|name| typed.starts_with(name.as_bytes()));
    prefix.map_or(0, str::len)
}

/// A path on a volume, or where the argument takes them, of the host.
fn place(typed: &OsStr, name: &str) -> Vec<Candidate> {
    let bytes = typed.as_bytes();
    let from = names_several(bytes);
    let is_mirror = from > 0;
    if let Some(colon) = bytes[from..].windows(2).position(|pair| pair == b":/") {
        return inside(bytes, from + colon);
    }
    if is_mirror {
        return image(typed);
    }
    let found = partitions(typed);
    if !found.is_empty() {
        let into = |found: Candidate| Candidate { value: [&found.value[..], b":/"].concat(), ..found };
        return found.into_iter().map(into).collect();
    }
    let takes_host = name != "IMAGE:/PATH" && name != "IMAGE[:/PATH]";
    let mut looked = 0;
    let mut all = Vec::new();
    for found in files(typed, &|_| true) {
        let path = &PathBuf::from(host_string(&found.value));
        if found.value.ends_with(b"/") {
            all.push(found);
            continue;
        }
        looked += 1;
        if looked <= MOST_LOOKED_INTO && is_image(path) {
            all.push(Candidate::new([&found.value[..], b":/"].concat(), "a volume"));
        } else if looked <= MOST_LOOKED_INTO && !table_of(path).is_empty() {
            all.push(Candidate::new([&found.value[..], b"@"].concat(), "a partition table"));
        }
        if takes_host {
            all.push(found);
        }
    }
    all
}

/// The entries of a directory on a volume; `colon` is where the path on it begins.
fn inside(typed: &[u8], colon: usize) -> Vec<Candidate> {
    let start = typed.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let (above, begun) = typed.split_at(start);
    let image = &PathBuf::from(host_string(&typed[..colon]));
    let Ok(volume) = platter::OpenOptions::new().beside_writer(true).open(image) else { return Vec::new() };
    let names = platter::names(&above[colon + 1..]);
    let Ok(held) = Held::find(volume.system(), &names) else { return Vec::new() };
    let (entries, _) = held.entries();
    let mut found: Vec<Candidate> = entries
        .iter()
        .filter_map(|entry| {
            let mut value = entry.name.to_bytes().to_vec();
            // A shell would carry out what a hostile name says on its next line.
            if !value.starts_with(begun) || value.iter().any(u8::is_ascii_control) {
                return None;
            }
            if entry.attributes.kind == Kind::Directory {
                value.push(b'/');
            }
            Some(Candidate::new([above, &value].concat(), ""))
        })
        .collect();
    found.sort_by(|one, other| one.value.cmp(&other.value));
    found
}
