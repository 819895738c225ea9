//! The text that names the extents.

use crate::bytes::unusable;
use platter_device::Result;

/// The most extents of a disk.
const MOST: usize = 4096;

/// Where the content of an extent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExtentKind {
    /// At this offset of its file, as it is.
    Flat(u64),
    /// In grains.
    Sparse,
}

/// A line of the descriptor.
#[derive(Clone, Debug)]
pub(super) struct ExtentLine {
    /// The bytes of the disk that it has.
    pub length: u64,
    pub kind: ExtentKind,
    /// The name of its file, beside the descriptor.
    pub file: String,
}

/// The descriptor of a disk that has no parent.
#[derive(Debug)]
pub(super) struct Descriptor {
    pub extents: Vec<ExtentLine>,
}

impl Descriptor {
    pub(super) fn parse(name: &str, bytes: &[u8]) -> Result<Descriptor> {
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let text = String::from_utf8_lossy(&bytes[..end]);
        let mut extents = Vec::new();
        for (number, line) in text.lines().map(str::trim).enumerate() {
            if let Some((key, value)) = line.split_once('=')
                && key.trim().eq_ignore_ascii_case("parentCID")
                && !value.trim().eq_ignore_ascii_case("ffffffff")
            {
                let reason =
                    "has a parent, which is not supported: `qemu-img convert` makes one disk of both";
                return Err(unusable(name, reason));
            }
            let is_extent = ["RW ", "RDONLY ", "NOACCESS "].iter().any(|access| line.starts_with(access));
            if !is_extent {
                continue;
            }
            match extent(line) {
                Some(extent) if extents.len() < MOST => extents.push(extent),
                _ => {
                    let line: String = line.chars().take(100).collect();
                    let reason = format!("has an extent that is not supported, line {}: {line}", number + 1);
                    return Err(unusable(name, reason));
                }
            }
        }
        if extents.is_empty() {
            return Err(unusable(name, "is a VMDK whose descriptor names no extent"));
        }
        Ok(Descriptor { extents })
    }
}

/// Parses a line as `RW 4192256 SPARSE "disk-s001.vmdk"` or `RW 2048 FLAT "disk-flat.vmdk" 0`.
fn extent(line: &str) -> Option<ExtentLine> {
    let (front, rest) = line.split_once('"')?;
    let (path, behind) = rest.split_once('"')?;
    let mut words = front.split_whitespace().skip(1);
    let sectors: u64 = words.next()?.parse().ok()?;
    let length = sectors.checked_mul(512).filter(|length| (1..=1 << 56).contains(length))?;
    let kind = match words.next()? {
        "FLAT" | "VMFS" => {
            let at: u64 = behind.split_whitespace().next().map_or(Some(0), |at| at.parse().ok())?;
            ExtentKind::Flat(at.checked_mul(512)?)
        }
        "SPARSE" => ExtentKind::Sparse,
        _ => return None,
    };
    // The text comes with the image, whose maker may be somebody else: files beside it only.
    let file = path.rsplit(['/', '\\']).next().filter(|file| !["", ".", ".."].contains(file))?;
    Some(ExtentLine { length, kind, file: file.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_or_refused() {
        let one = |line: &str| extent(line).map(|extent| (extent.length, extent.kind, extent.file));
        assert_eq!(one("RW 8 SPARSE \"a b.vmdk\""), Some((4096, ExtentKind::Sparse, "a b.vmdk".into())));
        assert_eq!(one("RW 8 FLAT \"/etc/x\" 2"), Some((4096, ExtentKind::Flat(1024), "x".into())));
        for wrong in
            ["RW 8 SESPARSE \"a\"", "RW x FLAT \"a\"", "RW 8 FLAT \"..\"", "RW 8 FLAT a", "RW 0 FLAT \"a\""]
        {
            assert_eq!(one(wrong), None);
        }
        let said = |text: &str| Descriptor::parse("d", text.as_bytes()).unwrap_err().to_string();
        assert!(said("parentCID = 12345678\n").contains("has a parent"));
        assert!(said("\nRW 8 ZERO\n").contains("line 2: RW 8 ZERO"));
        assert!(said("").contains("names no extent"));
    }
}
