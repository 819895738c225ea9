//! LZNT1: how the clusters of a compressed file are packed.
//!
//! A stream is a row of chunks, each of which is unpacked to 4,096 bytes without the others. A chunk begins with two
//! bytes: its length, and whether it is compressed. In a compressed chunk eight items follow each byte of flags: a
//! literal byte, or a copy of bytes that the chunk gave before. The more bytes a chunk has given, the more of a copy's
//! 16 bits say how far back the copied bytes are, and the fewer how many they are.
//!
//! Source: Microsoft, \[MS-XCA\] 2.5 (LZNT1 Algorithm Details); libfwnt, "Compression methods".

use platter_vfs::{Error, Result};

/// Bytes that a chunk is unpacked to.
pub const CHUNK: usize = 4096;

/// Bytes of a chunk's header.
const HEADER: usize = 2;

/// The bits that every header has: signature 3 in bits 12 to 14.
const SIGNATURE: u16 = 0x3000;

/// The bit of a header that says that the chunk is compressed.
const COMPRESSED: u16 = 0x8000;

/// The bits of a header that give the length of the chunk, header included, less 3.
const LENGTH: u16 = 0x0FFF;

// The length of a chunk, less 1, fits its field.
const _: () = assert!(CHUNK - 1 <= LENGTH as usize);
// A header has its flags and length in different bits.
const _: () = assert!(SIGNATURE & LENGTH == 0 && COMPRESSED & LENGTH == 0 && SIGNATURE & COMPRESSED == 0);

/// The length of the shortest copy in bytes.
const SHORTEST: usize = 3;

/// Unpacks a stream into the whole of `out`: bytes that the stream does not reach become zeroes. `offset` is the device
/// offset of the stream in bytes, for errors.
///
/// # Errors
/// [`Error::Damaged`] if the stream is not valid. `out` then holds a part of its content.
pub fn decompress(stream: &[u8], out: &mut [u8], offset: u64) -> Result<()> {
    let mut at = 0;
    let mut chunks = out.chunks_mut(CHUNK);
    // A stream that ends before its last chunk has a header of zeroes, unless it fills its clusters.
    while let Some(header) = word(stream, at).filter(|header| *header != 0) {
        let length = usize::from(header & LENGTH) + 1;
        let start = at + HEADER;
        let Some(body) = stream.get(start..start + length) else {
            let expected = format!("{length} bytes of a chunk");
            return Err(damaged(offset + at as u64, expected, format!("{}", stream.len() - start)));
        };
        let Some(chunk) = chunks.next() else {
            return Err(damaged(offset + at as u64, "the end", "another chunk"));
        };
        let filled = if header & COMPRESSED != 0 {
            unpack(body, chunk, offset + start as u64)?
        } else {
            let room = chunk.len().min(body.len());
            chunk[..room].copy_from_slice(&body[..room]);
            room
        };
        chunk[filled..].fill(0);
        at = start + length;
    }
    chunks.for_each(|chunk| chunk.fill(0));
    Ok(())
}

/// Unpacks a chunk and returns how many bytes it gave. Bytes past the end of `out` are left out, since the last chunk
/// of a file may have been packed with bytes that lay behind the file.
fn unpack(body: &[u8], out: &mut [u8], offset: u64) -> Result<usize> {
    let (mut at, mut filled) = (0, 0);
    while at < body.len() && filled < out.len() {
        let flags = body[at];
        at += 1;
        for bit in 0..8 {
            if at >= body.len() || filled >= out.len() {
                break;
            }
            if flags >> bit & 1 == 0 {
                out[filled] = body[at];
                (at, filled) = (at + 1, filled + 1);
                continue;
            }
            let place = offset + at as u64;
            let copy = word(body, at).ok_or_else(|| damaged(place, "two bytes of a copy", "one"))?;
            let lengths = length_bits(filled);
            let back = usize::from(copy >> lengths) + 1;
            let length = usize::from(copy & ((1 << lengths) - 1)) + SHORTEST;
            if back > filled {
                return Err(damaged(place, format!("a copy from at most {filled} bytes back"), back));
            }
            if length > CHUNK - filled {
                return Err(damaged(place, format!("a copy of at most {} bytes", CHUNK - filled), length));
            }
            // Source and target may overlap: what was just written is read again.
            let length = length.min(out.len() - filled);
            for to in filled..filled + length {
                out[to] = out[to - back];
            }
            (at, filled) = (at + 2, filled + length);
        }
    }
    Ok(filled)
}

/// How many of a copy's bits give its length, in a chunk that gave `before` bytes before.
fn length_bits(before: usize) -> u32 {
    let distance = usize::BITS - before.saturating_sub(1).leading_zeros();
    16 - distance.clamp(4, 12)
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_le_bytes(*bytes))
}

fn damaged(offset: u64, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> Error {
    Error::damaged("compression unit", offset, expected, found)
}

/// The hash tables for packing, kept so that one packer can serve for many units.
pub struct Packer {
    /// For each hash the last place of three bytes that have it, plus one; 0 if there is none.
    heads: Box<[u16; HASHES]>,
    /// For each place the last place before it whose three bytes have the same hash, plus one.
    before: Box<[u16; CHUNK]>,
}

const HASHES: usize = 1 << 12;

// Hashes are found by a mask.
const _: () = assert!(HASHES.is_power_of_two());

/// How many places are tried for a copy. More packs a little tighter and takes longer.
const TRIED: usize = 24;

impl Default for Packer {
    fn default() -> Packer {
        Packer { heads: Box::new([0; HASHES]), before: Box::new([0; CHUNK]) }
    }
}

impl Packer {
    /// Packs `data` into `out` and returns how many bytes that takes, or `None` if they are more than `out` has. Where
    /// there is room, a header of zeroes ends the stream, which the length does not count.
    pub fn compress(&mut self, data: &[u8], out: &mut [u8]) -> Option<usize> {
        let mut at = 0;
        for chunk in data.chunks(CHUNK) {
            let room = out.get_mut(at..)?;
            at += match self.pack(chunk, room) {
                Some(length) => length,
                None => keep(chunk, room)?,
            };
        }
        let end = out.len().min(at + HEADER);
        out[at..end].fill(0);
        Some(at)
    }

    /// Packs one chunk, header included, if that makes it smaller and `out` is large enough.
    fn pack(&mut self, chunk: &[u8], out: &mut [u8]) -> Option<usize> {
        self.heads.fill(0);
        // A chunk that does not become smaller is better kept as it is.
        let limit = out.len().min(HEADER + chunk.len().min(CHUNK - 1));
        let out = out.get_mut(..limit)?;
        let (mut at, mut done) = (HEADER, 0);
        while done < chunk.len() {
            let flags = at;
            *out.get_mut(flags)? = 0;
            at += 1;
            for bit in 0..8 {
                if done == chunk.len() {
                    break;
                }
                let lengths = length_bits(done);
                let (back, length) = self.longest(chunk, done, lengths);
                let step = if length >= SHORTEST {
                    let copy = ((back - 1) << lengths | (length - SHORTEST)) as u16;
                    out.get_mut(at..at + 2)?.copy_from_slice(&copy.to_le_bytes());
                    out[flags] |= 1 << bit;
                    at += 2;
                    length
                } else {
                    *out.get_mut(at)? = chunk[done];
                    at += 1;
                    1
                };
                (done..done + step).for_each(|place| self.remember(chunk, place));
                done += step;
            }
        }
        let header = COMPRESSED | SIGNATURE | (at - HEADER - 1) as u16;
        out[..HEADER].copy_from_slice(&header.to_le_bytes());
        Some(at)
    }

    /// The longest copy that can begin at a place: how far back its source is, and how long it is.
    fn longest(&self, chunk: &[u8], place: usize, lengths: u32) -> (usize, usize) {
        let here = &chunk[place..];
        let Some(hash) = hash(here) else { return (0, 0) };
        let most = here.len().min((1 << lengths) - 1 + SHORTEST);
        let farthest = 1usize << (16 - lengths);
        let (mut best, mut at) = ((0, 0), usize::from(self.heads[hash]));
        for _ in 0..TRIED {
            let Some(from) = at.checked_sub(1).filter(|from| place - from <= farthest) else { break };
            let length = here[..most].iter().zip(&chunk[from..]).take_while(|(a, b)| a == b).count();
            if length > best.1 {
                best = (place - from, length);
                if length == most {
                    break;
                }
            }
            at = usize::from(self.before[from]);
        }
        best
    }

    fn remember(&mut self, chunk: &[u8], place: usize) {
        if let Some(hash) = hash(&chunk[place..]) {
            self.before[place] = self.heads[hash];
            self.heads[hash] = place as u16 + 1;
        }
    }
}

/// Stores a chunk uncompressed. Such a chunk always has its full length: a shorter one is filled up with zeroes.
fn keep(chunk: &[u8], out: &mut [u8]) -> Option<usize> {
    let out = out.get_mut(..HEADER + CHUNK)?;
    out[..HEADER].copy_from_slice(&(SIGNATURE | LENGTH).to_le_bytes());
    out[HEADER..HEADER + chunk.len()].copy_from_slice(chunk);
    out[HEADER + chunk.len()..].fill(0);
    Some(out.len())
}

fn hash(bytes: &[u8]) -> Option<usize> {
    let &[a, b, c] = bytes.first_chunk()?;
    let word = u32::from(a) | u32::from(b) << 8 | u32::from(c) << 16;
    Some((word.wrapping_mul(0x9E37_79B1) >> 20) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_testing::model::Random;

    /// Data of many kinds: noise, text, runs, periods, and mixtures.
    fn sample(random: &mut Random, length: usize) -> Vec<u8> {
        let mut data = Vec::with_capacity(length);
        while data.len() < length {
            let piece = 1 + random.below(3000) as usize;
            match random.below(5) {
                0 => data.extend((0..piece).map(|_| random.number() as u8)),
                1 => data.extend((0..piece).map(|_| b"etaoin shrdlu"[random.below(13) as usize])),
                2 => data.resize(data.len() + piece, random.number() as u8),
                3 => {
                    let period: Vec<u8> = (0..1 + random.below(40)).map(|_| random.number() as u8).collect();
                    data.extend(period.iter().cycle().take(piece));
                }
                _ if !data.is_empty() => {
                    let from = random.below(data.len() as u64) as usize;
                    data.extend_from_within(from..data.len().min(from + piece));
                }
                _ => {}
            }
        }
        data.truncate(length);
        data
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let mut packer = Packer::default();
        for seed in 0..400 {
            let mut random = Random::new(seed);
            let length = if seed % 2 == 0 { 1 + random.below(70_000) as usize } else { 65536 };
            let data = sample(&mut random, length);
            let mut packed = vec![0xEE; 80_000];
            let end = packer.compress(&data, &mut packed).expect("room for all");
            assert!(end <= length.div_ceil(CHUNK) * (CHUNK + HEADER));
            let mut again = vec![0xDD; length.next_multiple_of(CHUNK)];
            decompress(&packed[..end + HEADER], &mut again, 0).unwrap();
            assert!(again[..length] == data, "seed {seed}");
            assert!(again[length..].iter().all(|&byte| byte == 0));
            // A stream need not have an end, and need not have more room than it takes.
            assert_eq!(packer.compress(&data, &mut packed[..end]), Some(end));
            decompress(&packed[..end], &mut again, 0).unwrap();
            assert!(again[..length] == data, "seed {seed}");
            if end > 0 {
                assert_eq!(packer.compress(&data, &mut packed[..end - 1]), None);
            }
        }
    }

    /// The crate `lznt1` is another implementation.
    #[test]
    fn another_implementation_unpacks_what_is_packed_and_the_other_way_round() {
        let mut packer = Packer::default();
        for seed in 0..200 {
            let data = sample(&mut Random::new(seed), 65536);
            let mut packed = vec![0; 80_000];
            let end = packer.compress(&data, &mut packed).unwrap();
            let mut again = Vec::new();
            lznt1::decompress(&packed[..end], &mut again).unwrap();
            assert!(again == data, "seed {seed}");
            let mut theirs = Vec::new();
            lznt1::compress(&data, &mut theirs);
            let mut again = vec![0; data.len()];
            decompress(&theirs, &mut again, 0).unwrap();
            assert!(again == data, "seed {seed}");
            assert!(end <= theirs.len() + theirs.len() / 20, "{end} for {}", theirs.len());
        }
    }

    #[test]
    fn the_example_of_the_specification() {
        let packed = [
            0x38, 0xb0, 0x88, 0x46, 0x23, 0x20, 0x00, 0x20, 0x47, 0x20, 0x41, 0x00, 0x10, 0xa2, 0x47, 0x01,
            0xa0, 0x45, 0x20, 0x44, 0x00, 0x08, 0x45, 0x01, 0x50, 0x79, 0x00, 0xc0, 0x45, 0x20, 0x05, 0x24,
            0x13, 0x88, 0x05, 0xb4, 0x02, 0x4a, 0x44, 0xef, 0x03, 0x58, 0x02, 0x8c, 0x09, 0x16, 0x01, 0x48,
            0x45, 0x00, 0xbe, 0x00, 0x9e, 0x00, 0x04, 0x01, 0x18, 0x90, 0x00,
        ];
        let text = "F# F# G A A G F# E D D E F# F# E E F# F# G A A G F# E D D E F# E D D E E F# D E F# G F# D E \
                    F# G F# E D E A F# F# G A A G F# E D D E F# E D D\0";
        let mut out = [1; CHUNK];
        decompress(&packed, &mut out, 0).unwrap();
        assert_eq!(&out[..text.len()], text.as_bytes());
        assert!(out[text.len()..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn damage_is_refused_with_its_place() {
        let refused = |stream: &[u8]| decompress(stream, &mut [0; 2 * CHUNK], 1000).unwrap_err().to_string();
        assert!(refused(&[0x03, 0xB0, 1, 0, 0, 0]).contains("offset 1003: expected a copy from at most 0"));
        assert!(refused(&[0x10, 0xB0, 0]).contains("offset 1000: expected 17 bytes of a chunk, found 1"));
        assert!(refused(&[0x02, 0xB0, 2, b'a', 0]).contains("two bytes of a copy"));
        assert!(refused(&[0, 0xB0, 0].repeat(3)).contains("offset 1006: expected the end"));
    }

    #[test]
    fn any_bytes_are_unpacked_or_refused() {
        for seed in 0..3000 {
            let mut random = Random::new(seed);
            let mut stream = vec![0; 1 + random.below(9000) as usize];
            random.fill(&mut stream);
            if random.chance(70) {
                let data = sample(&mut random, 65536);
                stream.resize(80_000, 0);
                Packer::default().compress(&data, &mut stream).unwrap();
                for _ in 0..1 + random.below(20) {
                    let at = random.below(stream.len() as u64) as usize;
                    stream[at] = random.number() as u8;
                }
            }
            let mut out = vec![0; random.below(70_000) as usize];
            let _ = decompress(&stream, &mut out, u64::MAX >> 8);
        }
    }
}
