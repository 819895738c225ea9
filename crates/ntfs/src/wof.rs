//! Files that Windows Overlay Filter keeps packed (`compact /exe`, CompactOS): their unnamed stream has the size and
//! nothing else, and the stream `WofCompressedData` has the content, in chunks of which each is packed by itself.
//!
//! The stream begins with a table: for each chunk but the first, where it begins, counted from the end of the table. A
//! number of the table has 4 bytes, or 8 if the file has 4 GiB or more. A chunk that has its full length is not packed.
//!
//! Sources: \[MS-FSCC\] 2.1.2.1; Microsoft, `WOF_EXTERNAL_INFO` and `FILE_PROVIDER_EXTERNAL_INFO_V1`; the libfsntfs
//! project's documentation ("Windows Overlay Filter (WOF) compressed data"); images that wimlib packed, which have their
//! files in the same form.

use crate::layout::bytes::{u32_at, u64_at};
use crate::{lzx, xpress};
use platter_vfs::{Error, Reparse, Result};

/// The reparse tag of such a file.
pub(crate) const TAG: u32 = 0x8000_0017;
/// The stream that has the content.
pub(crate) const STREAM: &str = "WofCompressedData";

/// [`STREAM`] in the units of names.
pub(crate) fn stream() -> Vec<u16> {
    STREAM.encode_utf16().collect()
}

/// How the chunks of a file are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// With Huffman codes, in chunks of this many bytes.
    Xpress(u64),
    /// In chunks of 32 KiB.
    Lzx,
}

impl Packing {
    /// How the content of a file with this reparse point is packed; `None` if it is not in a stream of the file, or
    /// in a form that is not known.
    pub(crate) fn of(point: &Reparse) -> Option<Packing> {
        // Version and provider of the filter, and version and algorithm of the provider: 2 is the one that keeps content
        // in the file itself.
        let fields: [u32; 4] = std::array::from_fn(|index| u32_at(&point.data, 4 * index));
        match fields {
            _ if point.tag != TAG || point.data.len() < 16 => None,
            [1, 2, 1, 0] => Some(Packing::Xpress(4096)),
            [1, 2, 1, 1] => Some(Packing::Lzx),
            [1, 2, 1, 2] => Some(Packing::Xpress(8192)),
            [1, 2, 1, 3] => Some(Packing::Xpress(16384)),
            _ => None,
        }
    }

    /// Bytes of a chunk, unpacked.
    pub(crate) fn chunk(self) -> u64 {
        match self {
            Packing::Xpress(chunk) => chunk,
            Packing::Lzx => 0x8000,
        }
    }

    fn unpack(self, packed: &[u8], out: &mut [u8]) -> std::result::Result<(), &'static str> {
        match self {
            Packing::Xpress(_) => xpress::decompress(packed, out),
            Packing::Lzx => lzx::decompress(packed, out),
        }
    }
}

/// Reads bytes of the packed stream: all that are asked for, or fails.
pub(crate) type ReadPacked<'r> = &'r mut dyn FnMut(u64, &mut [u8]) -> Result<()>;

/// The content of a file of `size` bytes from `offset` on, which must be inside the file with its `length` bytes.
/// `packed` is the length of the packed stream.
///
/// # Errors
/// [`Error::Damaged`], with the offset in the stream, if the stream is not valid, and the errors of reading it.
pub(crate) fn read(
    packing: Packing,
    (size, packed): (u64, u64),
    (offset, length): (u64, usize),
    read: ReadPacked<'_>,
) -> Result<Vec<u8>> {
    let chunk = packing.chunk();
    let end = offset + length as u64;
    let mut content = Vec::with_capacity(length);
    if length == 0 {
        return Ok(content);
    }
    let count = size.div_ceil(chunk);
    let entry = if size < 1 << 32 { 4 } else { 8 };
    let table = (count - 1) * entry;
    if table >= packed {
        return Err(Error::damaged(STREAM, 0, format!("more than {table} bytes"), packed));
    }
    let numbers = offset / chunk..end.div_ceil(chunk);
    // The places of the chunks, and the one behind the last: the first and the last place are not in the table.
    let (from, to) = (numbers.start.max(1), (numbers.end + 1).min(count));
    let mut places = vec![0; (to.saturating_sub(from) * entry) as usize];
    if !places.is_empty() {
        read((from - 1) * entry, &mut places)?;
    }
    let place = |number: u64| match number {
        0 => 0,
        number if number >= count => packed - table,
        number if entry == 4 => u64::from(u32_at(&places, ((number - from) * entry) as usize)),
        number => u64_at(&places, ((number - from) * entry) as usize),
    };
    for number in numbers {
        let (start, stop) = (place(number), place(number + 1));
        let bytes = chunk.min(size - number * chunk);
        if start >= stop || stop > packed - table || stop - start > bytes {
            let at = number.saturating_sub(1) * entry;
            let expected = format!("chunk {number} of 1 to {bytes} bytes before {}", packed - table);
            return Err(Error::damaged(STREAM, at, expected, format!("{start} to {stop}")));
        }
        let mut stored = vec![0; (stop - start) as usize];
        read(table + start, &mut stored)?;
        let whole = if stop - start == bytes {
            stored
        } else {
            let mut whole = vec![0; bytes as usize];
            packing
                .unpack(&stored, &mut whole)
                .map_err(|why| Error::damaged(STREAM, table + start, format!("chunk {number}"), why))?;
            whole
        };
        let first = offset.saturating_sub(number * chunk);
        let last = (end - number * chunk).min(bytes);
        content.extend_from_slice(&whole[first as usize..last as usize]);
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(fields: [u32; 4]) -> Reparse {
        Reparse { tag: TAG, data: fields.iter().flat_map(|field| field.to_le_bytes()).collect() }
    }

    /// Content whose chunks are not packed.
    fn plain(size: u64) -> (Vec<u8>, Vec<u8>) {
        let content: Vec<u8> = (0..size).map(|at| (at / 7 % 251) as u8).collect();
        let table = (1..size.div_ceil(4096)).flat_map(|number| (number as u32 * 4096).to_le_bytes());
        (table.chain(content.iter().copied()).collect(), content)
    }

    fn reads(stream: &[u8], size: u64, offset: u64, length: usize) -> Result<Vec<u8>> {
        read(Packing::Xpress(4096), (size, stream.len() as u64), (offset, length), &mut |at, buffer| {
            let bytes = stream.get(at as usize..at as usize + buffer.len());
            buffer.copy_from_slice(bytes.expect("inside the stream"));
            Ok(())
        })
    }

    #[test]
    fn the_reparse_point_says_how() {
        let packings: Vec<_> = (0..5).map(|algorithm| Packing::of(&point([1, 2, 1, algorithm]))).collect();
        let known = [Packing::Xpress(4096), Packing::Lzx, Packing::Xpress(8192), Packing::Xpress(16384)];
        assert_eq!(packings[..4], known.map(Some));
        assert_eq!(packings[4], None);
        for other in [[1, 1, 1, 0], [2, 2, 1, 0], [1, 2, 2, 0]] {
            assert_eq!(Packing::of(&point(other)), None, "{other:?}");
        }
        assert_eq!(Packing::of(&Reparse { data: vec![1; 15], ..point([1, 2, 1, 0]) }), None);
        assert_eq!(Packing::of(&Reparse { tag: 0x8000_0013, ..point([1, 2, 1, 0]) }), None);
    }

    #[test]
    fn any_part_is_read() {
        for size in [1, 4095, 4096, 4097, 8192, 30_000] {
            let (stream, content) = plain(size);
            for offset in [0, 1, 4095, 4096, 4097, 8191, 29_999] {
                for length in [0, 1, 4096, 9000, 30_000] {
                    let Some(expected) = content.get(offset..offset + length) else { continue };
                    let found = reads(&stream, size, offset as u64, length).unwrap();
                    assert!(found == expected, "{size}: {length} bytes at {offset}");
                }
            }
        }
    }

    #[test]
    fn a_damaged_table_is_named() {
        let (good, _) = plain(30_000);
        let fails = |stream: &[u8], at: u64| {
            let error = reads(stream, 30_000, at, 1).unwrap_err().to_string();
            assert!(error.contains(STREAM) && error.contains("chunk"), "{error}");
        };
        for bytes in [[0; 4], [0xFF; 4], 4095u32.to_le_bytes(), 4097u32.to_le_bytes(), 8192u32.to_le_bytes()]
        {
            let mut stream = good.clone();
            stream[..4].copy_from_slice(&bytes);
            if bytes == 4097u32.to_le_bytes() {
                fails(&stream, 0);
            } else {
                fails(&stream, if u32::from_le_bytes(bytes) == 4095 { 0 } else { 5000 });
            }
        }
        assert!(reads(&good[..28], 30_000, 0, 1).unwrap_err().to_string().contains("more than 28 bytes"));
        assert!(reads(&[], 1, 0, 1).is_err());
        // A table of a size that no stream has.
        assert!(reads(&good, u64::MAX / 2, 0, 1).is_err());
    }
}
