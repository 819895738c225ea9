//! Volumes that Linux used, in an emulated machine.

use super::{PROGRAMS, device, name};
use platter_device::Device;
use platter_testing::model::{ImageFile, Random, linux};
use std::fmt::Write;
use std::sync::Arc;

/// Returns a volume that mkntfs or mkfs.exfat made, and that was used with ntfs3 or exfat of Linux.
pub(crate) fn volume(random: &mut Random) -> (String, Arc<dyn Device>) {
    let image = ImageFile::empty(24 << 20);
    let cluster = (512u64 << random.below(7)).to_string();
    let (format, system, options) =
        *random.pick(&[("ntfs", "ntfs3", "rw"), ("exfat", "exfat", "rw,iocharset=utf8")]);
    match format {
        "ntfs" => PROGRAMS.run("mkntfs", &["-F", "-q", "-c", &cluster, "-L", "Healthy", image.path()]),
        _ => PROGRAMS.run("mkfs.exfat", &["-c", &cluster, "-L", "Healthy", image.path()]),
    };
    let used = linux(system, options, &image, &script(format == "ntfs", random));
    assert!(used.output.is_some() && used.unmounted, "{format}: {}", used.messages);
    (format.into(), device(&image))
}

/// Returns a shell script of random changes. Commands that fail, as the volume is full or a file is gone, do no harm.
fn script(has_links: bool, random: &mut Random) -> String {
    let (mut script, mut directories, mut files) =
        (String::new(), vec![".".to_owned()], Vec::<String>::new());
    for number in 0..250 {
        let above = random.pick(&directories).clone();
        let new = format!("{above}/{}", name(number, random));
        let what = random.below(15);
        let size = *random.pick(&[0, 30, 700, 5000, 70_000]);
        let noise = |place: &str| format!("head -c {size} /dev/urandom {place}");
        let line = if what < 5 || files.is_empty() {
            files.push(new.clone());
            noise(&format!("> \"{new}\""))
        } else if what == 5 {
            directories.push(new.clone());
            format!("mkdir \"{new}\"")
        } else {
            let index = random.below(files.len() as u64) as usize;
            let file = files[index].clone();
            match what {
                6..=8 => noise(&format!(">> \"{file}\"")),
                9 => noise(&format!(
                    "| dd of=\"{file}\" bs=512 seek={} conv=notrunc 2> /dev/null",
                    random.below(200)
                )),
                10 => format!("truncate -s {} \"{file}\"", random.below(50_000)),
                11 | 12 => format!("rm \"{}\"", files.swap_remove(index)),
                13 if has_links => format!("ln \"{file}\" \"{new}\""),
                _ => {
                    files[index] = new.clone();
                    format!("mv \"{file}\" \"{new}\"")
                }
            }
        };
        writeln!(script, "{line}").expect("a string");
    }
    script
}
