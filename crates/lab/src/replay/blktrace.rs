//! blktrace's binary records.
//!
//! Facts: `struct blk_io_trace` and the values in `include/uapi/linux/blktrace_api.h` of Linux: 48 bytes, in the byte order of
//! the machine that recorded them, then as many bytes of payload as the record says.

use super::{Log, Malformed, SECTOR};
use crate::What;
use std::io::{BufRead, ErrorKind, Read};
use std::time::Duration;

const LENGTH: usize = 48;
/// The magic is `0x65617400` and the version, which has been 7 since 2007.
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;

/// The low half of an action: a request was queued.
const QUEUED: u32 = 1;
/// The categories in the high half of an action.
const READ: u32 = 1;
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const NOTIFY: u32 = 1 << 10;
const DISCARD: u32 = 1 << 13;

/// The byte order of a record, by its magic.
#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn of(magic: [u8; 4]) -> Option<Order> {
        let is_magic = |word: u32| word & !0xFF == MAGIC;
        match magic {
            magic if is_magic(u32::from_le_bytes(magic)) => Some(Order::Little),
            magic if is_magic(u32::from_be_bytes(magic)) => Some(Order::Big),
            _ => None,
        }
    }

    fn word<const N: usize>(self, record: &[u8; LENGTH], at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&record[at..at + N]);
        if let Order::Big = self {
            bytes.reverse();
        }
        bytes
    }
}

pub(super) fn is_one(head: &[u8]) -> bool {
    head.first_chunk().is_some_and(|magic| Order::of(*magic).is_some())
}

pub(super) fn parse(reader: &mut dyn BufRead, log: &mut Log) -> Result<(), Malformed> {
    let mut offset = 0u64;
    loop {
        let about = |what: String| Malformed { at: format!("record at byte {offset}"), what };
        if reader.fill_buf().map_err(|error| about(error.to_string()))?.is_empty() {
            return Ok(());
        }
        let mut record = [0; LENGTH];
        reader.read_exact(&mut record).map_err(|error| about(cut_off(&error)))?;
        let payload = entry(&record, log).map_err(about)?;
        let skipped = std::io::copy(&mut (&mut *reader).take(payload), &mut std::io::sink());
        let skipped = skipped.map_err(|error| about(error.to_string()))?;
        if skipped < payload {
            return Err(about(format!("expected {payload} bytes of payload behind it, found {skipped}")));
        }
        offset += LENGTH as u64 + payload;
    }
}

fn cut_off(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => format!("expected {LENGTH} bytes; the file ends inside of it"),
        _ => error.to_string(),
    }
}

/// Adds what a record says; returns the length of its payload.
fn entry(record: &[u8; LENGTH], log: &mut Log) -> Result<u64, String> {
    let magic = [record[0], record[1], record[2], record[3]];
    let order = Order::of(magic).ok_or_else(|| format!("expected its magic, found {magic:02x?}"))?;
    let word = |at: usize| u32::from_le_bytes(order.word(record, at));
    let long = |at: usize| u64::from_le_bytes(order.word(record, at));
    let version = word(0) & 0xFF;
    if version != VERSION {
        return Err(format!("expected version {VERSION}, found {version}"));
    }
    let (time, sector, bytes) = (Duration::from_nanos(long(8)), long(16), u64::from(word(24)));
    let (action, device) = (word(28), word(36));
    let payload = u64::from(u16::from_le_bytes(order.word(record, 46)));
    let categories = action >> 16;
    if categories & NOTIFY != 0 || action & 0xFFFF != QUEUED {
        return Ok(payload);
    }
    let file = log.file(format!("{},{}", device >> 20, device & 0xF_FFFF).as_bytes())?;
    let offset = sector.checked_mul(SECTOR).ok_or_else(|| format!("sector {sector} is on no device"))?;
    match categories {
        all if bytes > 0 && all & DISCARD != 0 => log.discards += 1,
        all if bytes > 0 && all & WRITE != 0 => log.add(time, file, What::Write, offset, bytes)?,
        all if bytes > 0 && all & READ != 0 => log.add(time, file, What::Read, offset, bytes)?,
        all if all & FLUSH != 0 => log.add(time, file, What::Sync, 0, 0)?,
        _ => {}
    }
    Ok(payload)
}
