//! `$EA`: extended attributes, one after another ([MS-FSCC] 2.4.15 `FILE_FULL_EA_INFORMATION`), and `$EA_INFORMATION`.

use super::bytes::{put, u16_at, u32_at};
use platter_vfs::{Error, Result};
use std::borrow::Cow;

/// One extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendedAttribute {
    /// 0x80 if a program that does not know the attribute must not touch the file.
    pub flags: u8,
    /// The attribute's name, at most 255 bytes, in the form that Windows keeps: upper case ASCII.
    pub name: Vec<u8>,
    /// The attribute's value, at most 65,535 bytes.
    pub value: Vec<u8>,
}

impl ExtendedAttribute {
    /// Returns the name as it is shown. Bytes that are not UTF-8 become U+FFFD.
    pub fn shown_name(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.name)
    }

    /// Returns the index of the attribute with this name, or else of the first one that is shown with this name, so
    /// that every listed attribute can be read and removed, even if its name is not UTF-8.
    pub fn find(all: &[ExtendedAttribute], name: &str) -> Option<usize> {
        let exact = all.iter().position(|one| one.name == name.as_bytes());
        exact.or_else(|| all.iter().position(|one| one.shown_name() == name))
    }

    /// Flag: a program that does not know the attribute must not touch the file.
    pub const NEEDED: u8 = 0x80;
    /// The most bytes of `$EA`: Windows gives all extended attributes of a file together 64 KiB
    /// (<https://learn.microsoft.com/windows/win32/fileio/file-attributes-and-extended-attributes>, `EaSize` and the
    /// 16-bit size in `$FILE_NAME`).
    pub const LONGEST: u64 = 0xFFFF;
    /// Bytes before the name.
    const HEADER: usize = 8;

    /// Reads the whole value of `$EA`.
    ///
    /// # Errors
    /// [`Error::Damaged`] if an attribute is not inside `bytes`, or an offset leads back.
    pub fn read_all(bytes: &[u8], at: u64) -> Result<Vec<ExtendedAttribute>> {
        let mut attributes = Vec::new();
        ExtendedAttribute::read_into(&mut attributes, bytes, at)?;
        Ok(attributes)
    }

    /// [`ExtendedAttribute::read_all`] that keeps what is readable: `attributes` gets the attributes before the damage,
    /// and those after it if only the offset that leads to them is damaged.
    ///
    /// # Errors
    /// As [`ExtendedAttribute::read_all`].
    pub fn read_into(attributes: &mut Vec<ExtendedAttribute>, bytes: &[u8], at: u64) -> Result<()> {
        let mut position = 0;
        let mut cut_short = None;
        while position < bytes.len() {
            let rest = &bytes[position..];
            // The offset in the last attribute may lead to its own end, and padding follow there.
            if position > 0 && rest.iter().all(|&byte| byte == 0) {
                break;
            }
            let next = u32_at(rest, 0) as usize;
            let (name, value) =
                (usize::from(rest.get(5).copied().unwrap_or(0)), usize::from(u16_at(rest, 6)));
            let value_at = ExtendedAttribute::HEADER + name + 1;
            let end = value_at + value;
            if rest.len() < end || next != 0 && next < end {
                let expected = format!("an extended attribute inside {} bytes", rest.len());
                let found = format!("{end} bytes, the next after {next}");
                return Err(Error::damaged("$EA", at + position as u64, expected, found));
            }
            attributes.push(ExtendedAttribute {
                flags: rest[4],
                name: rest[ExtendedAttribute::HEADER..value_at - 1].to_vec(),
                value: rest[value_at..end].to_vec(),
            });
            // An offset of zero says that this attribute is the last. Where more than padding follows, that is damage:
            // the next one begins where this one ends, at a multiple of four bytes.
            let padded = end.next_multiple_of(4).min(rest.len());
            if next == 0 && rest[padded..].iter().all(|&byte| byte == 0) {
                break;
            }
            if next == 0 {
                let (at, left) = (at + position as u64, rest.len() - padded);
                let error = || {
                    Error::damaged("$EA", at, "nothing behind the last attribute", format!("{left} bytes"))
                };
                cut_short.get_or_insert_with(error);
            }
            position += if next == 0 { padded } else { next };
        }
        cut_short.map_or(Ok(()), Err)
    }

    /// The value of `$EA` for these attributes.
    pub fn write_all(attributes: &[ExtendedAttribute]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for attribute in attributes {
            let start = bytes.len();
            bytes.extend([0; 4]);
            bytes.extend([attribute.flags, attribute.name.len() as u8]);
            bytes.extend((attribute.value.len() as u16).to_le_bytes());
            bytes.extend(&attribute.name);
            bytes.push(0);
            bytes.extend(&attribute.value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            let length = (bytes.len() - start) as u32;
            put(&mut bytes, start, length);
        }
        bytes
    }

    /// The value of `$EA_INFORMATION` for these attributes.
    pub fn information(attributes: &[ExtendedAttribute]) -> Vec<u8> {
        let packed: usize = attributes.iter().map(|one| 5 + one.name.len() + one.value.len()).sum();
        let needed = attributes.iter().filter(|one| one.flags & ExtendedAttribute::NEEDED != 0).count();
        let whole = ExtendedAttribute::write_all(attributes).len();
        let mut bytes = vec![0; 8];
        put(&mut bytes, 0, packed.min(usize::from(u16::MAX)) as u16);
        put(&mut bytes, 2, needed as u16);
        put(&mut bytes, 4, whole as u32);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Vec<ExtendedAttribute> {
        let one =
            |name: &str, value: &[u8]| ExtendedAttribute { flags: 0, name: name.into(), value: value.into() };
        vec![one("NAME", b"val"), one("OTHER", b"and another")]
    }

    #[test]
    fn what_stands_behind_a_last_one_that_is_not_the_last_is_told_and_kept() {
        let mut bytes = ExtendedAttribute::write_all(&two());
        assert_eq!(ExtendedAttribute::read_all(&bytes, 0).unwrap(), two());
        bytes[..4].fill(0);
        let mut found = Vec::new();
        let error = ExtendedAttribute::read_into(&mut found, &bytes, 0).unwrap_err();
        assert!(error.to_string().contains("nothing behind the last attribute"), "{error}");
        assert_eq!(found, two());
    }

    #[test]
    fn a_name_is_found_as_it_is_shown() {
        let mut all = two();
        all[1].name[0] = 0xCF;
        assert_eq!(ExtendedAttribute::find(&all, "NAME"), Some(0));
        assert_eq!(ExtendedAttribute::find(&all, &all[1].shown_name()), Some(1));
        assert_eq!(ExtendedAttribute::find(&all, "OTHER"), None);
    }

    #[test]
    fn zero_in_the_last_one_and_padding_behind_it_are_no_damage() {
        let mut bytes = ExtendedAttribute::write_all(&two());
        let last = u32_at(&bytes, 0) as usize;
        bytes[last..last + 4].fill(0);
        assert_eq!(ExtendedAttribute::read_all(&bytes, 0).unwrap(), two());
        bytes.extend([0; 8]);
        assert_eq!(ExtendedAttribute::read_all(&bytes, 0).unwrap(), two());
        let mut bytes = ExtendedAttribute::write_all(&two());
        bytes.extend([0; 8]);
        assert_eq!(ExtendedAttribute::read_all(&bytes, 0).unwrap(), two());
        assert!(ExtendedAttribute::read_all(&[0; 8], 0).is_err());
    }
}
