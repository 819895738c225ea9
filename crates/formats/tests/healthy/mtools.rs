//! Volumes that mkfs.fat made and mtools used.

use super::{PROGRAMS, device};
use platter_device::Device;
use platter_testing::model::{ImageFile, Random};
use std::sync::Arc;

/// Returns a volume of FAT12, FAT16 or FAT32, chosen at random.
pub(crate) fn fat(random: &mut Random) -> (String, Arc<dyn Device>) {
    let (format, width, megabytes, sectors) = *random.pick(&[
        ("fat12", "12", 2, ["2", "4"]),
        ("fat16", "16", 12, ["2", "4"]),
        ("fat32", "32", 70, ["1", "2"]),
    ]);
    let image = ImageFile::empty(megabytes << 20);
    let mut arguments = vec!["-F", width, "-s", *random.pick(&sectors)];
    if random.chance(70) {
        arguments.extend(["-n", "HEALTHY"]);
    }
    arguments.push(image.path());
    PROGRAMS.run("mkfs.fat", &arguments);
    use_it(&image, random);
    (format.into(), device(&image))
}

/// Makes random changes with mtools, to which a path on the image is given after `::`.
fn use_it(image: &ImageFile, random: &mut Random) {
    let (mut directories, mut files) = (vec!["::".to_owned()], Vec::<String>::new());
    // Names are unique, so that no command has a question for the user.
    let run = |program: &str, arguments: &[&str]| {
        let all: Vec<&str> = ["-i", image.path()].into_iter().chain(arguments.iter().copied()).collect();
        PROGRAMS.run(program, &all)
    };
    for number in 0..30 {
        let above = random.pick(&directories).clone();
        let new = match random.below(3) {
            0 => format!("{above}/F{number}.TXT"),
            1 => format!("{above}/a somewhat longer name {number}.text"),
            _ => format!("{above}/Mixed{number}.Name"),
        };
        let what = random.below(10);
        if what < 4 || files.is_empty() {
            let length = *random.pick(&[0, 30, 700, 5000, 30_000]);
            let content = ImageFile::new(&random.bytes(length));
            run("mcopy", &[content.path(), &new]);
            files.push(new);
            continue;
        }
        let index = random.below(files.len() as u64) as usize;
        match what {
            4 | 5 => {
                run("mmd", &[&new]);
                directories.push(new);
            }
            6 | 7 => {
                run("mdel", &[&files.swap_remove(index)]);
            }
            8 => {
                // With a long new name, mren 4.0.32 can end in a failed assertion.
                let inside = files[index].rsplit_once('/').map_or("", |(inside, _)| inside);
                let new = format!("{inside}/N{number}.TXT");
                run("mren", &[&files[index], &new]);
                files[index] = new;
            }
            _ => {
                run("mattrib", &["+h", "+s", &files[index]]);
                run("mattrib", &["-s", &files[index]]);
            }
        }
    }
}
