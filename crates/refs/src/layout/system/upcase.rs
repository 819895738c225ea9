//! The upcase table: 65,536 UTF-16 units by which names are compared, in the rows of a tree.
//!
//! Row 0 is the table's name, row 1 the number of units, and the rows from 2 on are the units' bytes, cut into pieces
//! of a twelfth of a cluster: at 4 KiB clusters 384 rows of 341 bytes and one of 128, 387 rows altogether.
//!
//! Source: forefst `docs/structures/upcase_table.md` and its reports on volumes made by Windows 11. That no zero ends
//! the name is inferred from the table of the log, which has the same schema.

use super::SystemRow;
use crate::layout::bytes::u32_at;

/// The number of units in the table.
const UNITS: u32 = 0x1_0000;
/// The length of all units in bytes.
const BYTES: usize = 2 * UNITS as usize;

/// Makes the rows of a table that maps each unit to `upper` of it, on a volume with clusters of `cluster` bytes.
pub(crate) fn upcase_rows(cluster: u32, upper: impl Fn(u16) -> u16) -> Vec<SystemRow> {
    let bytes: Vec<u8> = (0..=u16::MAX).flat_map(|unit| upper(unit).to_le_bytes()).collect();
    let pieces = bytes.chunks((cluster as usize / 12).max(1)).map(<[u8]>::to_vec);
    let values = [b"Upcase Table".to_vec(), UNITS.to_le_bytes().to_vec()].into_iter().chain(pieces);
    (0u32..).map(|index| index.to_le_bytes().to_vec()).zip(values).collect()
}

/// Reads the table from its rows, which are in the order of their keys; `None` if it is not whole.
pub(crate) fn read_upcase<'a>(rows: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Option<Box<[u16]>> {
    let mut bytes = Vec::with_capacity(BYTES);
    for (index, (key, value)) in (0u32..).zip(rows) {
        if key.len() < 4 || u32_at(key, 0) != index {
            return None;
        }
        match index {
            0 => {}
            1 if value.len() >= 4 && u32_at(value, 0) == UNITS => {}
            2.. if !value.is_empty() && value.len() <= BYTES - bytes.len() => bytes.extend(value),
            _ => return None,
        }
    }
    let units = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    (bytes.len() == BYTES).then(|| units.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::system::windows_upper;

    fn read(rows: &[SystemRow]) -> Option<Box<[u16]>> {
        read_upcase(rows.iter().map(|(key, value)| (&key[..], &value[..])))
    }

    #[test]
    fn rows_of_4_and_64_kib_clusters() {
        for (cluster, count, piece, last) in [(4096, 387, 341, 128), (65536, 27, 5461, 8)] {
            let rows = upcase_rows(cluster, windows_upper);
            assert_eq!(rows.len(), count);
            assert_eq!(rows[0], (vec![0; 4], b"Upcase Table".to_vec()));
            assert_eq!(rows[1], (vec![1, 0, 0, 0], vec![0, 0, 1, 0]));
            assert!(rows[2..count - 1].iter().all(|(_, value)| value.len() == piece));
            assert_eq!(rows[count - 1].1.len(), last);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for cluster in [4096, 65536] {
            let table = read(&upcase_rows(cluster, windows_upper)).expect("a whole table");
            assert_eq!(table.len(), 65536);
            assert!(table.iter().zip(0..=u16::MAX).all(|(&upper, unit)| upper == windows_upper(unit)));
        }
    }

    #[test]
    fn damaged_tables_are_refused() {
        let whole = upcase_rows(4096, windows_upper);
        let damages: [fn(&mut Vec<SystemRow>); 8] = [
            |rows| rows.clear(),
            |rows| rows.truncate(2),
            |rows| drop(rows.pop()),
            |rows| drop(rows.remove(7)),
            |rows| rows.swap(7, 8),
            |rows| rows[1].1[0] = 1,
            |rows| rows[0].0.truncate(3),
            |rows| rows.push((387u32.to_le_bytes().to_vec(), vec![0])),
        ];
        for (index, damage) in damages.iter().enumerate() {
            let mut rows = whole.clone();
            damage(&mut rows);
            assert_eq!(read(&rows), None, "damage {index}");
        }
    }
}
