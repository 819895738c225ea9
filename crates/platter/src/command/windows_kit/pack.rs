//! Packs: volumes without what can be made again, a few MiB each.
//!
//! A pack has the magic, the length of the image (8 bytes, little-endian like all numbers here), and records of
//! increasing offsets: a kind (1 byte), an offset and a length (8 bytes each), and by kind
//! - 0: the bytes themselves;
//! - 1: one byte, which fills the range;
//! - 2: the number of a content and the index of its first sector (8 bytes each): see [`filler`](super::filler).
//!
//! The record of kind 255 is the last one. What no record has is zero.

use super::filler;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// What a pack begins with.
pub(crate) const MAGIC: [u8; 16] = *b"PLATTER-PACK-1\n\0";
/// The longest image that a pack may be of: a length in a damaged pack makes no file that fills a disk.
const LONGEST: u64 = 1 << 40;
const PIECE: u64 = 1 << 20;

/// Makes the image of a pack; `image` is empty, and gets holes where nothing is.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if it is no pack or damaged, and the errors of reading and writing.
pub(crate) fn unpack(pack: &mut impl Read, image: &mut std::fs::File) -> io::Result<()> {
    let wrong = |what: String| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    if array::<16>(pack)? != MAGIC {
        return wrong("is no pack of a volume".into());
    }
    let size = number(pack)?;
    if size > LONGEST {
        return wrong(format!("says that the image has {size} bytes, more than {LONGEST}"));
    }
    image.set_len(size)?;
    let mut reached = 0;
    loop {
        let [kind] = array(pack)?;
        if kind == 255 {
            return Ok(());
        }
        let (offset, length) = (number(pack)?, number(pack)?);
        let end = offset.checked_add(length).filter(|&end| offset >= reached && end <= size);
        let Some(end) = end else {
            return wrong(format!("has a record of {length} bytes at {offset}, behind {reached} of {size}"));
        };
        image.seek(SeekFrom::Start(offset))?;
        match kind {
            0 => {
                let copied = io::copy(&mut pack.by_ref().take(length), image)?;
                if copied < length {
                    return wrong(format!("ends in a record of {length} bytes"));
                }
            }
            1 => {
                let [byte] = array(pack)?;
                fill(length, image, |_, piece| piece.fill(byte))?;
            }
            2 => {
                let (content, index) = (number(pack)?, number(pack)?);
                let Some(from) = index.checked_mul(512).filter(|from| from.checked_add(length).is_some())
                else {
                    return wrong(format!("has the content of sector {index}"));
                };
                fill(length, image, |at, piece| filler::fill(content, from + at, piece))?;
            }
            other => return wrong(format!("has a record of the unknown kind {other}")),
        }
        reached = end;
    }
}

/// Writes `length` bytes in pieces, each made from its offset.
fn fill(length: u64, image: &mut impl Write, make: impl Fn(u64, &mut [u8])) -> io::Result<()> {
    let mut piece = vec![0; PIECE.min(length) as usize];
    for at in (0..length).step_by(PIECE as usize) {
        let piece = &mut piece[..PIECE.min(length - at) as usize];
        make(at, piece);
        image.write_all(piece)?;
    }
    Ok(())
}

fn array<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    match from.read_exact(&mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "ends before its last record"))
        }
        read => read.map(|()| bytes),
    }
}

fn number(from: &mut impl Read) -> io::Result<u64> {
    Ok(u64::from_le_bytes(array(from)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(pack: &[u8]) -> io::Result<Vec<u8>> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("platter-pack-{}-{number}", std::process::id()));
        let mut image = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let done = unpack(&mut &pack[..], &mut image);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        done.map(|()| bytes)
    }

    fn record(kind: u8, offset: u64, length: u64, rest: &[u8]) -> Vec<u8> {
        [&[kind][..], &offset.to_le_bytes(), &length.to_le_bytes(), rest].concat()
    }

    #[test]
    fn all_kinds_of_records_are_made_again() {
        let start = [&MAGIC[..], &8192_u64.to_le_bytes()].concat();
        let content = [7_u64.to_le_bytes(), 3_u64.to_le_bytes()].concat();
        let records = [
            record(0, 512, 4, b"abcd"),
            record(1, 1024, 1000, &[0xFF]),
            record(2, 4096, 1536, &content),
            vec![255],
        ];
        let pack = [start.clone(), records.concat()].concat();
        let mut wanted = vec![0; 8192];
        wanted[512..516].copy_from_slice(b"abcd");
        wanted[1024..2024].fill(0xFF);
        filler::fill(7, 3 * 512, &mut wanted[4096..5632]);
        assert_eq!(unpacked(&pack).unwrap(), wanted);
        for cut in 0..pack.len() {
            assert_eq!(unpacked(&pack[..cut]).unwrap_err().kind(), io::ErrorKind::InvalidData, "{cut}");
        }
        for wrong in [
            record(0, 8190, 3, b"abc"),
            record(1, u64::MAX, 2, &[0]),
            record(2, 0, 512, &[0xFF; 16]),
            record(9, 0, 0, &[]),
            [record(1, 512, 1, &[1]), record(1, 512, 1, &[1])].concat(),
        ] {
            let pack = [start.clone(), wrong, vec![255]].concat();
            assert_eq!(unpacked(&pack).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
