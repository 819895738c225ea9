//! Power cuts: encryption tears nothing that a plain device does not.

use crate::common::{MIB, expected, made, making, open};
use platter_bitlocker::{Layout, Method};
use platter_device::Device;

/// Of a write that was cut off after any number of sectors, each sector is whole: the old one or the new one.
#[test]
fn each_sector_of_a_torn_write_is_the_old_or_the_new_one() {
    for method in Method::ALL {
        let making = making(Layout::Seven, method);
        let (device, file) = made(&making, 8 * MIB);
        let file = file.unwrap();
        let old = expected(&making, 8 * MIB);
        let before = device.to_image();
        let new = [0xC3; 4096];
        // In the first sectors, across their end, and behind them.
        for offset in [0, 8192 - 2048, MIB] {
            device.write_at(0, &before).unwrap();
            open(device.clone(), &file).write_at(offset, &new).unwrap();
            let after = device.to_image();
            let sector = |image: &[u8], at: usize| image[at * 512..][..512].to_vec();
            let is_changed = |at: &usize| sector(&before, *at) != sector(&after, *at);
            let changed: Vec<usize> = (0..before.len() / 512).filter(is_changed).collect();
            assert_eq!(changed.len(), 8, "as many sectors as were written");
            device.write_at(0, &before).unwrap();
            for cut in changed {
                device.write_at(cut as u64 * 512, &sector(&after, cut)).unwrap();
                let from = offset.saturating_sub(4096);
                let mut read = [0; 12288];
                open(device.clone(), &file).read_at(from, &mut read).unwrap();
                for (place, read) in (from..).step_by(512).zip(read.chunks(512)) {
                    let is_written = (offset..offset + 4096).contains(&place);
                    let is_old = read == &old[place as usize..][..512];
                    assert!(is_old || is_written && *read == new[..512], "{method}: sector at {place}");
                }
            }
        }
    }
}
