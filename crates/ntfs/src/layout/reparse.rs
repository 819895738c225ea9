//! `$REPARSE_POINT`, and its entry in the index `$R` of `$Reparse` ([MS-FSCC] 2.1.2).

use super::bytes::{put, u16_at, u32_at};
use super::{Reference, Run};
use platter_vfs::reparse::header;
use platter_vfs::{Error, Reparse, Result};

/// Reads a value. Tags that are not Microsoft's are followed by a GUID, which stays in front of the data.
///
/// # Errors
/// [`Error::Damaged`] if the data is not inside.
pub fn reparse_from_bytes(bytes: &[u8], at: u64) -> Result<Reparse> {
    let (tag, length) = (u32_at(bytes, 0), usize::from(u16_at(bytes, 4)));
    let header = header(tag);
    if bytes.len() < header {
        return Err(Error::damaged("$REPARSE_POINT", at, format!("a header of {header} bytes"), bytes.len()));
    }
    match bytes.get(8..header + length) {
        Some(data) => Ok(Reparse { tag, data: data.to_vec() }),
        None => {
            let expected = format!("at most {} bytes of data", bytes.len() - header);
            Err(Error::damaged("$REPARSE_POINT", at + 4, expected, length))
        }
    }
}

/// The entry of a file in `$R`.
pub fn reparse_entry(tag: u32, file: Reference) -> Vec<u8> {
    super::index::view_entry(&reparse_key(tag, file), &[])
}

/// The key of `$R`: tag and file.
pub fn reparse_key(tag: u32, file: Reference) -> [u8; 12] {
    let mut key = [0; 12];
    put(&mut key, 0, tag);
    put(&mut key, 4, file.0);
    key
}

/// The reason why a file with this reparse tag may have its content elsewhere than in its unnamed stream, if it may.
///
/// Such a file keeps its size, but what its unnamed stream lacks is kept by a filter driver of Windows, which hands it
/// out when the file is read: in another stream (Windows Overlay Filter), in other files (deduplication,
/// single-instance storage), in an image, or on another machine. Source: \[MS-FSCC\] 2.1.2.1, and Microsoft's
/// descriptions of the features that it names.
pub fn elsewhere(tag: u32) -> Option<&'static str> {
    // A cloud service has a tag of its own, which differs from the others in one digit.
    const CLOUD: u32 = 0x9000_001A;
    const CLOUD_DIGIT: u32 = 0x0000_F000;
    Some(match tag {
        0xC000_0004 | 0x8000_0006 => "Hierarchical Storage Management keeps its content elsewhere",
        0x8000_0007 => "Single Instance Storage keeps its content in its common store",
        0x8000_0008 => "its content is in a Windows image (WIM)",
        0x8000_0013 => "Data Deduplication keeps its content in its chunk store",
        0x8000_0015 | 0x8000_0021 => "OneDrive keeps its content; this is a placeholder",
        0x8000_0017 => "Windows Overlay Filter keeps its content packed, and it is only read",
        0x8000_0018 | 0x9000_1018 => "Windows Container Isolation keeps its content in another layer",
        0x9000_001C => "a program keeps its content (Projected File System); this is a placeholder",
        0x8000_001E => "Azure File Sync keeps its content in the cloud",
        0xA000_0028 => "its content is in a composite image (CIM)",
        tag if tag & !CLOUD_DIGIT == CLOUD => "a cloud service keeps its content; this is a placeholder",
        _ => return None,
    })
}

/// Whether an unnamed stream lacks a part of its content, so that the reason of [`elsewhere`] applies: a part of it is
/// a hole, or nothing was ever written to it.
///
/// It does not apply to a file whose content is there as a whole: a cloud file that was fetched keeps its tag, and so
/// does a deduplicated file whose content was written anew. Flags such as `FILE_ATTRIBUTE_OFFLINE` are not asked: not
/// every filter sets them, and a file that has all of its clusters holds its content whatever they say. In a compressed
/// stream holes are usual: it lacks content only if it has no clusters.
///
/// `size` is the stream's size and `valid` its valid length, `runs` are its runs from virtual cluster 0 on, with holes,
/// and `cluster` is the size of a cluster. Clusters past the size do not count: in a sparse stream holes may follow it.
pub fn lacks_content(
    size: u64,
    valid: u64,
    is_compressed: bool,
    runs: impl Iterator<Item = Run>,
    cluster: u64,
) -> bool {
    let mut runs = runs.take_while(|run| run.vcn < size.div_ceil(cluster));
    let is_lacking = match is_compressed {
        true => runs.all(|run| run.lcn.is_none()),
        false => runs.any(|run| run.lcn.is_none()),
    };
    size > 0 && (valid == 0 || is_lacking)
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_vfs::reparse::to_bytes;

    #[test]
    fn the_length_counts_the_data_without_the_guid() {
        for (tag, length) in [(0x8000_0017, 20), (0x0000_0017, 4)] {
            let point = Reparse { tag, data: vec![7; 20] };
            let bytes = to_bytes(&point);
            assert_eq!((bytes.len(), usize::from(u16_at(&bytes, 4))), (28, length), "{tag:#x}");
            assert_eq!(reparse_from_bytes(&bytes, 0).unwrap(), point, "{tag:#x}");
        }
        // The header of a tag that is not Microsoft's has 24 bytes.
        let error = reparse_from_bytes(&[7; 16], 0).unwrap_err().to_string();
        assert!(error.contains("a header of 24 bytes, found 16"), "{error}");
    }

    #[test]
    fn tags_of_content_that_is_elsewhere() {
        // Every cloud service's tag, and the others that a filter driver of Windows hands content out for.
        assert!((0..16).all(|digit| elsewhere(0x9000_001A | digit << 12).is_some()));
        for tag in [0x8000_0013, 0x8000_0017, 0x8000_0007, 0xC000_0004, 0x8000_001E] {
            assert!(elsewhere(tag).is_some(), "{tag:#x}");
        }
        // Symbolic links, junctions, files of the Windows Subsystem for Linux, and tags that are not Microsoft's.
        for tag in
            [0xA000_000C, 0xA000_0003, 0xA000_001D, 0x8000_0023, 0x8000_0024, 0x8000_001B, 0x0000_0017, 1, 0]
        {
            assert_eq!(elsewhere(tag), None, "{tag:#x}");
        }
    }

    #[test]
    fn a_stream_lacks_content_where_it_has_holes() {
        let there = Run { vcn: 0, lcn: Some(9), length: 2 };
        let hole = Run { vcn: 2, lcn: None, length: 2 };
        let lacks = |size, valid, is_compressed, runs: &[Run]| {
            lacks_content(size, valid, is_compressed, runs.iter().copied(), 4096)
        };
        assert!(!lacks(8000, 8000, false, &[there]));
        assert!(!lacks(8000, 5000, false, &[there]), "the rest reads as zeroes");
        assert!(lacks(16000, 8000, false, &[there, hole]));
        assert!(lacks(8193, 8000, false, &[there, hole]));
        assert!(!lacks(8192, 8000, false, &[there, hole]), "the hole is past the end");
        assert!(lacks(8000, 0, false, &[there]), "nothing was ever written");
        assert!(!lacks(16000, 16000, true, &[there, hole]), "a compressed stream has holes");
        assert!(lacks(8000, 8000, true, &[hole]));
        assert!(!lacks(0, 0, false, &[]), "an empty file has no content to lack");
    }
}
