//! Compressed data: deflate, in zlib's frame or without it, and zstd.
//!
//! Sources: RFC 1950, RFC 1951, RFC 8878. The crates do the work; here is what they are told of a place that has as many
//! bytes as the content may have.

use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};
use ruzstd::decoding::StreamingDecoder;
use std::io::Read;

/// The checksum of zlib (Adler-32, RFC 1950), which evidence has of its structures too.
pub(crate) fn adler(bytes: &[u8]) -> u32 {
    adler2::adler32_slice(bytes)
}

/// The most bytes that so many bytes of content may have when they are compressed. What cannot be compressed is stored in
/// blocks, each with a head of 5 bytes (RFC 1951, 3.2.4): by every program in blocks of far more than 1 KiB.
pub(crate) fn most_packed(content: u64) -> u64 {
    content + content / 128 + 4096
}

/// Decompresses a zlib stream, checksum included. `content` has a byte more than the content may have. Returns its length.
pub(crate) fn zlib(bytes: &[u8], content: &mut [u8]) -> Result<usize, String> {
    let flags = inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER | inflate_flags::TINFL_FLAG_COMPUTE_ADLER32;
    match inflate(bytes, content, flags) {
        (true, length) => Ok(length),
        (false, length) => Err(format!("a zlib stream that cannot be decompressed behind {length} bytes")),
    }
}

/// Decompresses a deflate stream to exactly as many bytes as `content` has. What follows is not looked at.
pub(crate) fn deflate(bytes: &[u8], content: &mut [u8]) -> Result<(), String> {
    match inflate(bytes, content, 0) {
        (_, length) if length == content.len() => Ok(()),
        (_, length) => Err(format!("a deflate stream of {length} bytes")),
    }
}

/// Returns whether the stream came to its end, and the number of bytes that it gave.
fn inflate(bytes: &[u8], content: &mut [u8], flags: u32) -> (bool, usize) {
    let flags = flags | inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let mut decompressor = Box::<DecompressorOxide>::default();
    let (status, _, written) = decompress(&mut decompressor, bytes, content, 0, flags);
    (status == miniz_oxide::inflate::TINFLStatus::Done, written)
}

/// The most memory that a zstd frame may ask for, the 8 MiB that every decoder is to have (RFC 8878, 3.1.1.1.2).
const MOST_WINDOW: u64 = 8 << 20;

/// Decompresses a zstd frame to exactly as many bytes as `content` has. What follows is not looked at.
pub(crate) fn zstd(bytes: &[u8], content: &mut [u8]) -> Result<(), String> {
    match window(bytes) {
        None => return Err("no zstd frame".into()),
        Some(window) if window > MOST_WINDOW => {
            return Err(format!("a zstd frame that needs {window} bytes of memory"));
        }
        Some(_) => {}
    }
    let wrong = |error: &dyn std::fmt::Display| format!("a zstd frame that cannot be decompressed ({error})");
    let mut decoder = StreamingDecoder::new(bytes).map_err(|error| wrong(&error))?;
    decoder.read_exact(content).map_err(|error| wrong(&error))
}

/// The memory that a zstd frame asks for (RFC 8878, 3.1.1.1); `None` if it is none.
fn window(bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(b"\x28\xB5\x2F\xFD")?;
    let descriptor = *rest.first()?;
    let is_single = descriptor & 0x20 != 0;
    if !is_single {
        let window = *rest.get(1)?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // The window of a single segment is its content.
    let id = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let width = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let mut size = [0; 8];
    size[..width].copy_from_slice(rest.get(1 + id..1 + id + width)?);
    Some(u64::from_le_bytes(size) + if width == 2 { 256 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "a" 1000 times, as zlib and zstd of other projects compress it.
    const ZLIB: &[u8] = b"\x78\x9c\x4b\x4c\x1c\x05\xa3\x60\x14\x0c\x77\x00\x00\xf9\xd8\x7a\xf8";

    #[test]
    fn what_is_compressed_comes_back_or_is_an_error() {
        let mut content = [0; 1001];
        assert_eq!(zlib(ZLIB, &mut content), Ok(1000));
        assert_eq!(content[..1000], [b'a'; 1000]);
        let mut exact = [0; 1000];
        deflate(&ZLIB[2..], &mut exact).unwrap();
        assert_eq!(exact, [b'a'; 1000]);
        assert!(deflate(&ZLIB[2..], &mut content).is_err(), "a byte is missing");
        assert!(zlib(ZLIB, &mut [0; 999]).is_err(), "there is more");
        for at in 0..ZLIB.len() {
            assert!(zlib(&ZLIB[..at], &mut content).is_err());
        }
        let mut wrong = ZLIB.to_vec();
        *wrong.last_mut().unwrap() ^= 1;
        assert!(zlib(&wrong, &mut content).is_err(), "another checksum");
    }

    #[test]
    fn a_zstd_frame_says_how_much_memory_it_needs() {
        assert_eq!(window(b"\x28\xB5\x2F\xFD\x00\x58"), Some(2 << 20));
        assert_eq!(window(b"\x28\xB5\x2F\xFD\x60\x00\xFF"), Some(256 + 0xFF00));
        assert_eq!(window(b"\x28\xB5\x2F\xFD"), None);
        assert_eq!(window(b"none"), None);
        assert!(
            zstd(b"\x28\xB5\x2F\xFD\x00\xFF\x01\0\0", &mut [0; 4]).unwrap_err().contains("bytes of memory")
        );
    }
}
