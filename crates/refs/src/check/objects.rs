//! The object table, and the objects that are not directories.

use super::known::{DOUBLED, SECURITY, TRASH, is_directory, own_cursor};
use super::noted::Mend;
use super::order::Order;
use super::page::{Subject, plain};
use super::tree::TreeRow;
use super::{Check, copies, log, security};
use crate::container::Tier;
use crate::core::FIRST_OBJECT;
use crate::format::file_time;
use crate::layout::system;
use crate::layout::{ObjectRow, PageReference, Root, header};
use platter_vfs::Severity;

/// An object, as its row in the object table describes it.
pub(super) struct Object {
    /// The root of its tree.
    pub root: PageReference,
    /// The number last given to a child, if the object is a directory.
    pub last_child: Option<u64>,
    /// The offset of the row's value on the device, in bytes.
    pub at: u64,
}

/// The most rows of one object that are kept in memory; the tables whose rows are looked at have fewer.
const MOST_ROWS: usize = 1 << 16;

/// Reads both object tables.
pub(super) fn read_table(check: &mut Check<'_>) {
    let (first, second) = (check.root_cursor(Root::Objects), check.root_cursor(Root::ObjectsCopy));
    let headers = [first.again(), second.again()];
    copies::walk(check, first, second, &leads_somewhere, &mut row);
    let last = check.objects.keys().next_back().copied().unwrap_or(0);
    for mut cursor in headers {
        check.is_again = true;
        cursor.next(check);
        check.is_again = false;
        let (header, at) = cursor.header();
        let given = header::LAST_OBJECT.of(header);
        let at = at + header::LAST_OBJECT.at() as u64;
        if !header.is_empty() && given < last {
            let name = &cursor.subject().name;
            let message = format!(
                "{name}: highest number given out, at offset {at}: expected at least {last:#x}, found {given:#x}"
            );
            check.find("object-number", Severity::Inconsistent, None, message);
            check.repair.raise_counter();
        }
    }
}

/// Whether an object row leads to a good page that is the root of the object's tree.
fn leads_somewhere(check: &mut Check<'_>, row: &TreeRow) -> bool {
    let Ok(found) = ObjectRow::from_bytes(&row.value, row.value_at) else { return false };
    let subject = Subject {
        name: String::new(),
        path: None,
        table: ObjectRow::number_of(&row.key),
        order: Order::Unknown,
        tier: Tier::Medium,
        severity: Severity::Notice,
        renewable: true,
    };
    let role = super::page::Role { level: None, stream: false, embedded: false };
    check.page(&subject, &found.root, role, row.value_at).is_some()
}

fn row(check: &mut Check<'_>, row: TreeRow) {
    let number = ObjectRow::number_of(&row.key);
    let found = match ObjectRow::from_bytes(&row.value, row.value_at) {
        Ok(found) if row.key == ObjectRow::key(number) => found,
        outcome => {
            let error = outcome.err().map_or_else(|| format!("key {:02x?}", row.key), |error| plain(&error));
            let message = format!("object table: row of object {number:#x} at offset {}: {error}", row.at);
            check.find("object-row", Severity::DataLoss, None, message);
            check.is_incomplete = true;
            check.is_content_lost = true;
            return;
        }
    };
    if u64::from(found.clock) > check.anchors.checkpoint.clock {
        let expected = check.anchors.checkpoint.clock;
        let message = format!(
            "object table: clock of object {number:#x} at offset {}: expected at most {expected}, found {}",
            row.value_at + ObjectRow::CLOCK.at() as u64,
            found.clock
        );
        check.find("page-clock", Severity::Inconsistent, None, message);
        check.repair.raise_clock(u64::from(found.clock));
    }
    if let Err((at, expected, found)) = ObjectRow::form(&row.value) {
        let at = row.value_at + at as u64;
        let message = format!(
            "object table: row of object {number:#x} at offset {at}: expected {expected:#x}, found {found:#x}"
        );
        check.find("object-row", Severity::Inconsistent, None, message);
        check.repair.add(super::Task::Row { object: number });
    }
    let object = Object { root: found.root, last_child: found.last_child, at: row.value_at };
    check.objects.insert(number, object);
}

/// Walks the objects that are not directories.
pub(super) fn read_own(check: &mut Check<'_>) {
    for (name, first, second) in DOUBLED {
        let mut rows: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut keep = |_: &mut Check<'_>, row: TreeRow| {
            if rows.len() < MOST_ROWS {
                rows.push((row.key, row.value));
            }
        };
        match (own_cursor(check, name, first), own_cursor(check, name, second)) {
            (Some(one), Some(other)) => {
                let known = match first {
                    0x07 => system::upcase_rows(check.geometry.cluster, system::windows_upper),
                    _ => Vec::new(),
                };
                let valid = |check: &mut Check<'_>, row: &TreeRow| match first {
                    0x09 if system::LogArea::is_place(&row.key) => {
                        log::sound(check, system::LogArea::from_rows([(&row.key[..], &row.value[..])]))
                            .is_some()
                    }
                    _ => super::is_known(&known, row),
                };
                let lost = (check.is_directory_lost, check.is_content_lost);
                let is_there = copies::walk(check, one, other, &valid, &mut keep);
                let are_known = first != 0x07 || rows.iter().all(|row| known.contains(row));
                if !is_there && are_known {
                    // No row of these tables leads to a directory or to clusters of files.
                    (check.is_directory_lost, check.is_content_lost) = lost;
                    remake(check, [first, second], &rows);
                }
            }
            (None, None) => {
                let message = format!("{name}: expected objects {first:#x} and {second:#x}, found neither");
                check.find("object-missing", Severity::Inconsistent, None, message);
                remake(check, [first, second], &rows);
            }
            (one, other) => {
                let missing = if one.is_none() { first } else { second };
                let message = format!("{name}: expected object {missing:#x}, found none");
                check.find("object-missing", Severity::Inconsistent, None, message);
                let from = if one.is_none() { second } else { first };
                check.repair.mend(Mend {
                    from,
                    to: vec![missing],
                    rows: Vec::new(),
                    without: Vec::new(),
                    is_whole: false,
                });
                if let Some(mut cursor) = one.or(other) {
                    while let Some(row) = cursor.next(check) {
                        keep(check, row);
                    }
                }
            }
        }
        let borrowed = rows.iter().map(|(key, value)| (&key[..], &value[..]));
        match first {
            0x07 => upcase(check, system::read_upcase(borrowed)),
            0x09 => log::walk(check, system::LogArea::from_rows(borrowed)),
            0x500 => information(check, &rows),
            _ => {}
        }
    }
    if let Some(mut cursor) = own_cursor(check, "security descriptors", SECURITY) {
        while let Some(row) = cursor.next(check) {
            security::row(check, &row);
        }
    }
    let doubled = |number| DOUBLED.iter().any(|(_, first, second)| number == *first || number == *second);
    let others: Vec<u64> =
        check.objects.keys().copied().take_while(|&number| number < FIRST_OBJECT).collect();
    for number in
        others.into_iter().filter(|&number| !doubled(number) && number != SECURITY && !is_directory(number))
    {
        if let Some(mut cursor) = own_cursor(check, "object", number) {
            while cursor.next(check).is_some() {}
            if cursor.is_damaged && number == TRASH {
                check.repair.salvage(TRASH, Vec::new());
            }
        }
    }
}

/// Has a table and its copy, none of which is whole, made anew. `rows` are those that can be read.
fn remake(check: &mut Check<'_>, tables: [u64; 2], rows: &[(Vec<u8>, Vec<u8>)]) {
    match tables[0] {
        0x07 => {
            let rows = system::upcase_rows(check.geometry.cluster, system::windows_upper);
            check.repair.remake(tables, 0xE090, rows);
        }
        0x500 => {
            let now = file_time(check.device.now());
            let mut all = system::volume_information_rows(&[], check.geometry.version, now, now);
            for (key, value) in &mut all {
                let kept = rows.iter().find(|(kept, old)| kept == key && !old.is_empty());
                if let Some((_, old)) = kept {
                    value.clone_from(old);
                }
            }
            check.repair.remake(tables, 0x150, all);
        }
        // The rows of the others follow from what is found on the volume later.
        _ => {}
    }
}

fn upcase(check: &mut Check<'_>, table: Option<Box<[u16]>>) {
    match table {
        Some(table) => check.upper = table,
        None => {
            let message =
                "upcase table: expected 65536 units, found fewer; names are compared as Windows does";
            check.find("upcase", Severity::Inconsistent, None, message.into());
        }
    }
}

/// Compares the rows of the volume information with what is known of them: their lengths, the version of the volume and
/// the number that is the same on every volume.
fn information(check: &mut Check<'_>, rows: &[(Vec<u8>, Vec<u8>)]) {
    let wrong = system::wrong_information(rows, check.geometry.version);
    if let Some((message, rows)) = wrong {
        let message = format!("volume information: {message}");
        check.find("volume-information", Severity::Inconsistent, None, message);
        let rows = rows.into_iter().map(|(key, value)| (key, 0, value)).collect();
        check.repair.mend(Mend {
            from: 0x500,
            to: vec![0x500, 0x501],
            rows,
            without: Vec::new(),
            is_whole: false,
        });
    }
}
