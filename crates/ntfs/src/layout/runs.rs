//! Mapping pairs: how a run list is packed.
//!
//! For each run there is a byte whose low half says how many bytes of length follow, and whose high half how many bytes
//! of place; then the length in clusters; then the place as a signed distance in clusters from the place of the run
//! before. A run without a place is a hole. A byte 0 ends the list.

use platter_vfs::{Error, Result};

/// Clusters that follow one another, in a file and on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First virtual cluster, in the file.
    pub vcn: u64,
    /// First logical cluster, on the volume; `None` for a hole.
    pub lcn: Option<u64>,
    /// The number of clusters, at least 1.
    pub length: u64,
}

impl Run {
    /// The virtual cluster after the run's last one.
    pub fn end(&self) -> u64 {
        self.vcn + self.length
    }
}

/// Unpacks the mapping pairs of a piece with virtual clusters from `first` to before `end`, on a volume of `clusters`
/// clusters.
///
/// # Errors
/// [`Error::Damaged`] if the pairs end early, lead outside the volume, or give other virtual clusters than the piece
/// has.
pub fn unpack(pairs: &[u8], first: u64, end: u64, clusters: u64, at: u64) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    unpack_into(&mut runs, pairs, first, end, clusters, at)?;
    Ok(runs)
}

/// [`unpack`] that keeps what is readable: `runs` gets the runs before the damage.
///
/// # Errors
/// As [`unpack`].
pub fn unpack_into(
    runs: &mut Vec<Run>,
    pairs: &[u8],
    first: u64,
    end: u64,
    clusters: u64,
    at: u64,
) -> Result<()> {
    let (mut vcn, mut place, mut position) = (first, 0i64, 0usize);
    let damaged = |position: usize, expected: String, found: String| {
        Error::damaged("mapping pairs", at + position as u64, expected, found)
    };
    loop {
        // A list that fills its attribute may lack the byte that ends it: see [`has_end`].
        let head = pairs.get(position).copied().unwrap_or(0);
        if head == 0 {
            break;
        }
        let (length_bytes, place_bytes) = (usize::from(head & 0xF), usize::from(head >> 4));
        let next = position + 1 + length_bytes + place_bytes;
        if length_bytes == 0 || length_bytes > 8 || place_bytes > 8 || next > pairs.len() {
            let expected = "1 to 8 bytes of length and at most 8 of place, inside the attribute".into();
            return Err(damaged(position, expected, format!("{head:#04x}")));
        }
        let length = signed(&pairs[position + 1..position + 1 + length_bytes]);
        if length <= 0 || length as u64 > end.saturating_sub(vcn) {
            let expected = format!("a run of 1 to {} clusters", end.saturating_sub(vcn));
            return Err(damaged(position + 1, expected, length.to_string()));
        }
        let length = length as u64;
        let lcn = match place_bytes {
            0 => None,
            _ => {
                let distance = signed(&pairs[position + 1 + length_bytes..next]);
                place = place.wrapping_add(distance);
                let inside =
                    place >= 0 && (place as u64).checked_add(length).is_some_and(|end| end <= clusters);
                if !inside {
                    let expected = format!("{length} clusters below {clusters}");
                    return Err(damaged(position + 1 + length_bytes, expected, place.to_string()));
                }
                Some(place as u64)
            }
        };
        push(runs, Run { vcn, lcn, length });
        vcn += length;
        position = next;
    }
    if vcn != end {
        return Err(damaged(position, format!("runs up to virtual cluster {end}"), format!("up to {vcn}")));
    }
    Ok(())
}

/// Whether a 0 ends the mapping pairs. Windows always writes it, and ntfs-3g refuses an attribute without it.
pub fn has_end(pairs: &[u8]) -> bool {
    let mut position = 0;
    loop {
        match pairs.get(position) {
            None => return false,
            Some(0) => return true,
            Some(head) => position += 1 + usize::from(head & 0xF) + usize::from(head >> 4),
        }
    }
}

/// Appends a run, joined with the last one if the two are adjacent.
pub fn push(runs: &mut Vec<Run>, run: Run) {
    if let Some(last) = runs.last_mut()
        && last.end() == run.vcn
        && match (last.lcn, run.lcn) {
            (None, None) => true,
            (Some(before), Some(after)) => before + last.length == after,
            _ => false,
        }
    {
        last.length += run.length;
        return;
    }
    runs.push(run);
}

/// Bytes that runs take when packed, with the 0 at the end; if that is more than `most`, only a number above `most`.
pub fn packed_length<'r>(runs: impl IntoIterator<Item = &'r Run>, most: usize) -> usize {
    let (mut length, mut place) = (1, 0i64);
    for run in runs {
        length += 1 + signed_length(run.length as i64);
        if let Some(lcn) = run.lcn {
            length += signed_length(lcn as i64 - place);
            place = lcn as i64;
        }
        if length > most {
            break;
        }
    }
    length
}

/// Packs runs into at most `most` bytes, with the 0 at the end, and returns how many of the runs fitted.
pub fn pack(runs: &[Run], most: usize) -> (Vec<u8>, usize) {
    let mut pairs = Vec::with_capacity(runs.len().min(64) * 4 + 1);
    let mut place = 0i64;
    for (index, run) in runs.iter().enumerate() {
        let length = (run.length as i64).to_le_bytes();
        let length_bytes = signed_length(run.length as i64);
        let distance = run.lcn.map(|lcn| lcn as i64 - place);
        let place_bytes = distance.map_or(0, signed_length);
        if pairs.len() + 1 + length_bytes + place_bytes + 1 > most {
            pairs.push(0);
            return (pairs, index);
        }
        pairs.push(length_bytes as u8 | (place_bytes as u8) << 4);
        pairs.extend(&length[..length_bytes]);
        if let (Some(distance), Some(lcn)) = (distance, run.lcn) {
            pairs.extend(&distance.to_le_bytes()[..place_bytes]);
            place = lcn as i64;
        }
    }
    pairs.push(0);
    (pairs, runs.len())
}

fn signed(bytes: &[u8]) -> i64 {
    let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut whole = if negative { [0xFF; 8] } else { [0; 8] };
    whole[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(whole)
}

/// Bytes that hold a signed value, at least 1.
fn signed_length(value: i64) -> usize {
    let significant = 65 - if value < 0 { (!value).leading_zeros() } else { value.leading_zeros() };
    significant.div_ceil(8).max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_and_unpacks() {
        let runs = [
            Run { vcn: 5, lcn: Some(0x1234), length: 0x80 },
            Run { vcn: 0x85, lcn: None, length: 7 },
            Run { vcn: 0x8C, lcn: Some(1), length: 0x7F },
            Run { vcn: 0x10B, lcn: Some(0x12_3456_7890), length: 1 },
        ];
        let (pairs, all) = pack(&runs, 1000);
        assert_eq!(all, 4);
        assert_eq!(packed_length(&runs, 1000), pairs.len());
        assert!((4..1000).contains(&packed_length(&runs, 3)));
        assert_eq!(unpack(&pairs, 5, 0x10C, 1 << 40, 0).unwrap(), runs);
        let (pairs, some) = pack(&runs, 10);
        assert_eq!(some, 2);
        assert_eq!(unpack(&pairs, 5, 0x8C, 1 << 40, 0).unwrap(), runs[..2]);
        assert!(unpack(&pairs, 5, 0x8D, 1 << 40, 0).is_err());
    }

    #[test]
    fn the_example_of_the_linux_ntfs_documentation() {
        // 21 18 34 56 00: 0x18 clusters at 0x5634.
        let runs = unpack(&[0x21, 0x18, 0x34, 0x56, 0], 0, 0x18, 0x10000, 0).unwrap();
        assert_eq!(runs, [Run { vcn: 0, lcn: Some(0x5634), length: 0x18 }]);
    }
}
