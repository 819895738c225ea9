//! Helpers for tests with real mounts. Such tests need root, `/dev/fuse` and fusermount3.

use super::Place;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const FORMATS: [&str; 4] = ["fat32", "exfat", "ntfs", "refs"];
/// [`FORMATS`], and ReFS with checksums of data.
pub(crate) const KINDS: [&str; 5] = ["fat32", "exfat", "ntfs", "refs", "refs+integrity"];
/// The formats of a campaign: [`KINDS`], or the one that `PLATTER_VOLUME` names, to repeat a failure.
pub(crate) fn campaign_kinds() -> Vec<&'static str> {
    let Ok(wanted) = std::env::var("PLATTER_VOLUME") else { return KINDS.to_vec() };
    let kind = KINDS.into_iter().find(|kind| *kind == wanted);
    vec![kind.unwrap_or_else(|| panic!("{wanted} is none of {KINDS:?}"))]
}

/// The formats that keep owners and permissions.
pub(crate) const WITH_OWNERS: [&str; 2] = ["ntfs", "refs"];

/// A volume mounted at the directory `m`, in a temporary directory that also holds the image.
pub(crate) struct Mount {
    pub place: Place,
    pub format: String,
    /// Where the volume is: the image, or a disk that shows it.
    pub source: &'static str,
}

impl Mount {
    /// Makes a new volume and mounts it.
    pub(crate) fn new(test: &str, format: &str) -> Mount {
        Mount::made(test, format, "disk.img", "768M")
    }

    /// Makes a new volume on a source of this size and mounts it.
    pub(crate) fn made(test: &str, format: &str, source: &'static str, size: &str) -> Mount {
        let place = Place::new(&format!("mount-{test}-{format}"));
        place.works(&format!("mkfs {format} {source} --size {size}"));
        fs::create_dir(place.path("m")).unwrap();
        let mount = Mount { place, format: format.into(), source };
        mount.mount("");
        mount
    }

    pub(crate) fn mount(&self, options: &str) {
        let line = format!("mount {} m {options}", self.source);
        let said = self.place.ends(0, line.trim()).1;
        // On a busy machine the process that had it before may take more than the second after which this is said.
        let waits = format!("platter: waiting until {} is written and closed\n", self.source);
        assert!(said.is_empty() || said == waits, "{said}");
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.place.path("m").join(name)
    }

    /// Runs a shell script, which must succeed, and returns its output.
    pub(crate) fn shell(&self, line: &str) -> String {
        self.place.tool("sh", &["-ec", line])
    }

    /// Runs fsx, which changes one file in random ways, through memory maps too, and compares its content.
    pub(crate) fn exercise(&self, operations: u64, seed: u64) {
        let output = self.exerciser(operations, seed).output();
        let output = output.unwrap_or_else(|error| panic!("fsx is needed for this test: {error}"));
        assert!(output.status.success(), "{}: seed {seed}: {output:?}", self.format);
    }

    /// Returns the fsx command of [`exercise`](Mount::exercise), which works on the file `m/file`.
    pub(crate) fn exerciser(&self, operations: u64, seed: u64) -> Command {
        let space = match self.format.contains("fat") {
            true => "",
            false => "punch_hole = 1\nposix_fallocate = 1\ncopy_file_range = 1\n",
        };
        let weights = "close_open = 0.2\ninvalidate = 0.2\nfsync = 0.2\nfdatasync = 0.2\nsendfile = 1\n";
        // fsx takes the refusal of posix_fallocate(3) for a length of 0, which POSIX asks for, for a missing feature.
        let sizes = "[opsize]\nmin = 1\n";
        fs::write(self.place.path("fsx.toml"), format!("{sizes}[weights]\n{weights}{space}")).unwrap();
        let (operations, seed) = (operations.to_string(), seed.to_string());
        self.place.command("fsx", &["-q", "-N", &operations, "-S", &seed, "-f", "fsx.toml", "m/file"])
    }

    /// Has fsx change the file `m/file` in all ways until [`Noise::end`]; its content is not checked afterwards.
    pub(crate) fn noise(&self, seed: u64) -> Noise {
        let mut fsx = self.exerciser(1 << 40, seed);
        let fsx = fsx.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Noise(fsx.expect("fsx is needed for this test"))
    }

    /// Unmounts, and returns what `platter umount` printed on standard error.
    fn unmount(&self) -> String {
        // A program that another test is starting holds this test's open files for a moment, between fork(2) and
        // execve(2).
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

    /// Unmounts, and checks that the volume has no damage.
    pub(crate) fn end(&self) {
        self.unmount();
        let report = self.place.works(&format!("check {}", self.source));
        assert!(report.contains("no damage"), "{report}");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Unmounts after a failed test, which has reported its failure; errors are ignored.
        let _ = Command::new("umount").arg("-l").arg(self.at("")).stderr(Stdio::null()).status();
    }
}

/// fsx at work on a mount.
pub(crate) struct Noise(Child);

impl Noise {
    /// Kills fsx: it reads what its own sendfile(2) puts into a socket, and waits forever when that fails.
    pub(crate) fn end(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Returns the number of the process that serves the mount at `at`.
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

/// Mounts with an environment variable by which [`server`] finds the serving process, and returns that process's number.
pub(crate) fn mount_known(mount: &Mount, options: &[&str]) -> u32 {
    let arguments = [&["mount", mount.source, "m"], options].concat();
    let mut command = mount.place.command(env!("CARGO_BIN_EXE_platter"), &arguments);
    let output = command.env("PWD_OF_TEST", mount.at("")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    server(&mount.at(""))
}

/// Makes the volume usable after the process that served its mount was killed. It must have no damage, or on formats
/// without a log the damage must be repaired.
pub(crate) fn recover(mount: &Mount) {
    let format = &mount.format;
    let told = mount.unmount();
    assert!(told.contains("what was not synced is lost"), "{told}");
    if format.contains("fat") {
        let repair = format!("check --repair --no-undo {}", mount.source);
        let code = mount.place.platter(&repair).status.code();
        assert!(matches!(code, Some(0 | 1)), "{format}: {code:?}");
    } else {
        let report = mount.place.works(&format!("check {}", mount.source));
        assert!(report.contains("no damage"), "{format}: {report}");
    }
}

/// Returns the most memory that a process had in use so far, in kilobytes.
pub(crate) fn memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

pub(crate) fn kill(signal: &str, process: u32) {
    let status = Command::new("kill").args([signal, &process.to_string()]).status().unwrap();
    assert!(status.success());
}

/// A campaign: rounds of random work until its time is over, at least one round.
pub(crate) struct Campaign {
    seed: u64,
    until: Instant,
}

impl Campaign {
    /// Starts a campaign of `PLATTER_SECONDS` (or a minute) from the seed `PLATTER_SEED` (or the current time).
    /// Prints the seed.
    pub(crate) fn new() -> Campaign {
        let given = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = given("PLATTER_SEED").unwrap_or(since.as_secs());
        println!("PLATTER_SEED={seed}");
        Campaign { seed, until: Instant::now() + Duration::from_secs(given("PLATTER_SECONDS").unwrap_or(60)) }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// The time that is left.
    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Returns the random numbers of each round.
    pub(crate) fn rounds(&self) -> impl Iterator<Item = Random> + '_ {
        let numbers = (0..).take_while(|number| *number == 0 || Instant::now() < self.until);
        numbers.map(|number| Random(self.seed.wrapping_mul(1_000_003).wrapping_add(number)))
    }
}

/// Random numbers that depend on a seed alone.
pub(crate) struct Random(pub u64);

impl Random {
    /// The next number. Source: the generator that its author, Sebastiano Vigna, calls SplitMix64.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// Returns the next number, reduced to below a limit.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
