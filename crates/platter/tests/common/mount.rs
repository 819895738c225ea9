//! Real mounts. Each needs root, `/dev/fuse` and fusermount3.

use super::Place;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub const FORMATS: [&str; 4] = ["fat32", "exfat", "ntfs", "refs"];
/// The same, and with checksums of data.
pub const KINDS: [&str; 5] = ["fat32", "exfat", "ntfs", "refs", "refs+integrity"];
/// The same for a campaign: all, or the one that `PLATTER_VOLUME` names, of which one found something.
pub fn campaign_kinds() -> Vec<&'static str> {
    let Ok(wanted) = std::env::var("PLATTER_VOLUME") else { return KINDS.to_vec() };
    let kind = KINDS.into_iter().find(|kind| *kind == wanted);
    vec![kind.unwrap_or_else(|| panic!("{wanted} is none of {KINDS:?}"))]
}

/// Those that keep what POSIX knows of a file.
pub const WITH_OWNERS: [&str; 2] = ["ntfs", "refs"];

/// A volume at a directory, and a directory beside it.
pub struct Mount {
    pub place: Place,
    pub format: String,
}

impl Mount {
    /// A new volume, mounted.
    pub fn new(test: &str, format: &str) -> Mount {
        let place = Place::new(&format!("mount-{test}-{format}"));
        place.works(&format!("mkfs {format} disk.img --size 768M"));
        fs::create_dir(place.path("m")).unwrap();
        let mount = Mount { place, format: format.into() };
        mount.mount("");
        mount
    }

    pub fn mount(&self, options: &str) {
        let line = format!("mount disk.img m {options}");
        self.place.works(line.trim());
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.place.path("m").join(name)
    }

    /// A line for the shell, which must succeed.
    pub fn shell(&self, line: &str) -> String {
        self.place.tool("sh", &["-ec", line])
    }

    /// fsx, which does everything to one file, mapped into memory too, and knows what must be in it.
    pub fn exercise(&self, operations: u64, seed: u64) {
        let output = self.exerciser(operations, seed).output();
        let output = output.unwrap_or_else(|error| panic!("fsx is needed for this test: {error}"));
        assert!(output.status.success(), "{}: seed {seed}: {output:?}", self.format);
    }

    /// The same, to be run on the file m/file.
    pub fn exerciser(&self, operations: u64, seed: u64) -> Command {
        let space = match self.format.contains("fat") {
            true => "",
            false => "punch_hole = 1\nposix_fallocate = 1\ncopy_file_range = 1\n",
        };
        let weights = "close_open = 0.2\ninvalidate = 0.2\nfsync = 0.2\nfdatasync = 0.2\nsendfile = 1\n";
        fs::write(self.place.path("fsx.toml"), format!("[weights]\n{weights}{space}")).unwrap();
        let (operations, seed) = (operations.to_string(), seed.to_string());
        self.place.command("fsx", &["-q", "-N", &operations, "-S", &seed, "-f", "fsx.toml", "m/file"])
    }

    /// Unmounts, and returns what was said.
    fn unmount(&self) -> String {
        // A program that another test starts has this one's open files for a moment, until it is executed.
        let began = Instant::now();
        loop {
            let output = self.place.platter("umount m");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() {
                return said;
            }
            let is_used = said.contains("is used by");
            assert!(is_used && began.elapsed() < Duration::from_secs(10), "umount m: {output:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Unmounts, and nothing may be wrong with the volume.
    pub fn end(&self) {
        self.unmount();
        let report = self.place.works("check disk.img");
        assert!(report.contains("no damage"), "{report}");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // After a failure, which the test has said.
        let _ = Command::new("umount").arg("-l").arg(self.at("")).stderr(Stdio::null()).status();
    }
}

/// The process that serves the mount at `at`.
fn server(at: &Path) -> u32 {
    let mut found = fs::read_dir("/proc").unwrap().flatten().filter_map(|process| {
        let arguments = fs::read(process.path().join("cmdline")).ok()?;
        let words: Vec<&[u8]> = arguments.split(|byte| *byte == 0).collect();
        let directory = fs::read(process.path().join("environ")).ok()?;
        let serves = words.contains(&b"--serve".as_slice());
        let here = format!("PWD_OF_TEST={}", at.display());
        let ours = directory.split(|byte| *byte == 0).any(|one| one == here.as_bytes());
        (serves && ours).then(|| process.file_name().to_string_lossy().parse().ok())?
    });
    found.next().expect("a process serves the mount")
}

/// Mounts so that [`server`] finds the process.
pub fn mount_known(mount: &Mount, options: &[&str]) -> u32 {
    let arguments = [&["mount", "disk.img", "m"], options].concat();
    let mut command = mount.place.command(env!("CARGO_BIN_EXE_platter"), &arguments);
    let output = command.env("PWD_OF_TEST", mount.at("")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    server(&mount.at(""))
}

/// After the process that served a mount was killed: the volume is found without damage, or on formats without a log made so,
/// and mounted again.
pub fn recover(mount: &Mount) {
    let format = &mount.format;
    let told = mount.unmount();
    assert!(told.contains("what was not synced is lost"), "{told}");
    if format.contains("fat") {
        let code = mount.place.platter("check --repair disk.img").status.code();
        assert!(matches!(code, Some(0 | 1)), "{format}: {code:?}");
    } else {
        let report = mount.place.works("check disk.img");
        assert!(report.contains("no damage"), "{format}: {report}");
    }
}

pub fn kill(signal: &str, process: u32) {
    let status = Command::new("kill").args([signal, &process.to_string()]).status().unwrap();
    assert!(status.success());
}

/// A campaign: rounds of something random until its time is over, at least one.
pub struct Campaign {
    seed: u64,
    until: Instant,
}

impl Campaign {
    /// One that lasts `PLATTER_SECONDS`, or a minute, from `PLATTER_SEED` on, or from the time, which it prints.
    pub fn new() -> Campaign {
        let given = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = given("PLATTER_SEED").unwrap_or(since.as_secs());
        println!("PLATTER_SEED={seed}");
        Campaign { seed, until: Instant::now() + Duration::from_secs(given("PLATTER_SECONDS").unwrap_or(60)) }
    }

    /// What is random in each of the rounds.
    pub fn rounds(&self) -> impl Iterator<Item = Random> + '_ {
        let numbers = (0..).take_while(|number| *number == 0 || Instant::now() < self.until);
        numbers.map(|number| Random(self.seed.wrapping_mul(1_000_003).wrapping_add(number)))
    }
}

/// Numbers that follow from a seed.
pub struct Random(u64);

impl Random {
    /// The next number. Source: the generator that its author, Sebastiano Vigna, calls SplitMix64.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// One below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
