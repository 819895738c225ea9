//! Tests mounts that the test process serves itself. Needs root, `/dev/fuse` and umount(8).

use platter_device::{Device, Immediate, MemoryDevice, Queue, Sectors};
use platter_mount::{Mounted, Options, Served};
use platter_vfs::{FormatOptions, OpenOptions, Silent};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A new volume that is mounted at a directory and served by threads of this process.
struct Mount {
    device: Arc<MemoryDevice>,
    format: &'static str,
    at: PathBuf,
    log: Arc<Mutex<Vec<String>>>,
    server: Option<JoinHandle<platter_vfs::Result<()>>>,
}

impl Mount {
    fn new(test: &str, format: &'static str) -> Mount {
        let at = std::env::temp_dir().join(format!("platter-{test}-{format}-{}", std::process::id()));
        fs::create_dir(&at).unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = log.clone();
        let (device, served) = served(format, format!("{test}-{format}"), move |line| {
            lines.lock().unwrap().push(line.to_string());
        });
        let mounted = Mounted::new(served, &at).unwrap();
        let server = Some(thread::spawn(move || mounted.run()));
        Mount { device, format, at, log, server }
    }

    /// Waits until the mount has ended without an error, and verifies that a check of the device finds nothing.
    fn ended(&mut self) {
        self.server.take().unwrap().join().unwrap().unwrap();
        let (format, _) = platter_formats::recognise(&*self.device).unwrap().unwrap();
        let report = format.check(&*self.device, Default::default(), &Silent).unwrap();
        assert!(report.is_clean(), "{}: {:?}", self.format, report.findings);
    }
}

/// Returns a new volume, ready to be mounted from `source`, and its device.
fn served(
    format: &str,
    source: String,
    log: impl Fn(&str) + Send + Sync + 'static,
) -> (Arc<MemoryDevice>, Arc<Served>) {
    let device = made(format);
    (device.clone(), serving(device, source, log))
}

/// Returns a device with a new volume.
fn made(format: &str) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(512 << 20, Sectors::SMALL));
    let made = platter_formats::by_name(format).unwrap();
    made.make(&*device, &FormatOptions::default(), &Silent).unwrap();
    device
}

/// Returns the volume of a device, ready to be mounted from `source`.
fn serving(
    device: Arc<dyn Device>,
    source: String,
    log: impl Fn(&str) + Send + Sync + 'static,
) -> Arc<Served> {
    let system = platter_formats::open(device, OpenOptions::default()).unwrap();
    let options = Options { source, ..Options::of(0, 0, 0o022) };
    Arc::new(Served::new(system, options, Arc::new(log)))
}

/// A device whose flushes are counted, and wait while its gate is closed.
struct Gated {
    below: Arc<MemoryDevice>,
    is_closed: Mutex<bool>,
    opens: Condvar,
    flushes: AtomicU64,
}

impl Device for Gated {
    fn name(&self) -> &str {
        self.below.name()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    fn below(&self) -> Option<&dyn Device> {
        Some(&*self.below)
    }

    fn sectors(&self) -> Sectors {
        self.below.sectors()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> platter_device::Result<()> {
        self.below.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> platter_device::Result<()> {
        self.below.write_at(offset, data)
    }

    fn flush(&self) -> platter_device::Result<()> {
        drop(self.opens.wait_while(self.is_closed.lock().unwrap(), |is_closed| *is_closed).unwrap());
        self.flushes.fetch_add(1, SeqCst);
        self.below.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> platter_device::Result<()> {
        self.below.discard(offset, length)
    }

    fn queue(&self, depth: usize) -> platter_device::Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-i", "-l"]).arg(&self.at).output();
        let _ = fs::remove_dir(&self.at);
    }
}

fn umount(at: &Path, options: &[&str]) -> bool {
    let output = Command::new("umount").arg("-i").args(options).arg(at).output();
    output.expect("umount is needed for this test").status.success()
}

#[test]
fn a_mount_whose_requests_end_before_it_is_unmounted_is_taken_away() {
    for format in ["exfat", "ntfs", "refs"] {
        let mut mount = Mount::new("cut", format);
        fs::write(mount.at.join("file"), "content").unwrap();
        let held = File::open(mount.at.join("file")).unwrap();
        // `umount -f` ends all requests, and then fails because the mount is in use.
        assert!(!umount(&mount.at, &["-f"]), "{format}: it is in use");
        mount.ended();
        assert_eq!(fs::read_dir(&mount.at).unwrap().count(), 0, "{format}: the directory below");
        let log = mount.log.lock().unwrap().join("\n");
        assert!(log.contains("the mount was taken away"), "{format}: {log}");
        drop(held);
    }
}

#[test]
fn one_mount_of_several_at_a_place_is_taken_away_alone() {
    let mut below = Mount::new("stacked", "ntfs");
    fs::write(below.at.join("below"), "x").unwrap();
    // It looks the same in the table of mounts as the one below.
    let (_, above) = served("exfat", "stacked-ntfs".into(), |_| {});
    let above = Mounted::new(above, &below.at).unwrap();
    let above = thread::spawn(move || above.run());
    assert_eq!(fs::read_dir(&below.at).unwrap().count(), 0);
    assert!(umount(&below.at, &[]));
    above.join().unwrap().unwrap();
    assert_eq!(fs::read(below.at.join("below")).unwrap(), b"x");
    assert!(umount(&below.at, &[]));
    below.ended();
    assert!(below.log.lock().unwrap().is_empty(), "{:?}", below.log);
}

/// Returns how many pools of memory the allocator of this process has besides its first one. Each of these pools is a
/// region of 64 MiB of which the first part is in use.
fn pools() -> usize {
    const POOL: u64 = 64 << 20;
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let regions: Vec<(u64, u64, &str)> = maps
        .lines()
        .map(|line| {
            let (range, rest) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            (number(start), number(end), rest.split(' ').next().unwrap())
        })
        .collect();
    let is_pool = |pair: &&[(u64, u64, &str)]| {
        let (used, free) = (pair[0], pair[1]);
        let fits = used.0.is_multiple_of(POOL) && used.1 == free.0 && free.1 == used.0 + POOL;
        fits && used.2 == "rw-p" && free.2 == "---p"
    };
    regions.windows(2).filter(is_pool).count()
}

/// All threads of a process that serves a mount share one pool of memory. With several pools, memory that was freed to
/// one could not be used by the others, and a tree of many files would take as much memory as all pools ever held.
#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn threads_that_serve_share_their_memory() {
    let mut mount = Mount::new("pools", "refs");
    thread::scope(|scope| {
        for thread in 0..8 {
            let at = &mount.at;
            scope.spawn(move || {
                for number in 0..50 {
                    fs::write(at.join(format!("{thread} {number}")), vec![7; 3000]).unwrap();
                }
            });
        }
    });
    // If pools were not shared, each of the 8 or more threads that serve, and each of the 8 that write, would have one.
    // Threads of the test harness may have got pools before the first volume was mounted.
    assert!(pools() <= 4, "{} pools", pools());
    let began = Instant::now();
    while !umount(&mount.at, &[]) {
        assert!(began.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(20));
    }
    mount.ended();
}

#[test]
fn the_end_of_the_requests_is_told_before_the_volume_is_closed() {
    let at = std::env::temp_dir().join(format!("platter-told-{}", std::process::id()));
    fs::create_dir(&at).unwrap();
    let (device, served) = served("fat32", "told".into(), |_| ());
    let mut mounted = Mounted::new(served, &at).unwrap();
    let (told, seen) = (Arc::new(Mutex::new(None)), device.clone());
    let tells = told.clone();
    mounted.at_end(move || {
        let system = platter_formats::open(seen, OpenOptions { read_only: true, ..OpenOptions::default() });
        *tells.lock().unwrap() = Some(platter_vfs::is_in_doubt(&*system.unwrap()).unwrap());
    });
    let server = thread::spawn(move || mounted.run());
    fs::write(at.join("file"), "x").unwrap();
    File::open(&at).unwrap().sync_all().unwrap();
    assert_eq!(*told.lock().unwrap(), None);
    assert!(Command::new("umount").arg(&at).status().unwrap().success());
    server.join().unwrap().unwrap();
    assert_eq!(*told.lock().unwrap(), Some(true), "it was not closed yet");
    let system = platter_formats::open(device, OpenOptions { read_only: true, ..OpenOptions::default() });
    assert!(!platter_vfs::is_in_doubt(&*system.unwrap()).unwrap());
    fs::remove_dir(&at).unwrap();
}

/// Returns how many threads of this process with this name sleep.
fn sleeping(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let states = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    states.filter(|state| state.contains(&format!("({name}) S"))).count()
}

/// More programs sync than threads answer requests, on a device that is slow to make anything durable: one commit serves
/// them all, and other requests are answered meanwhile.
#[test]
fn syncs_of_many_programs_share_a_commit_and_hold_nobody_up() {
    const CLIENTS: usize = 64;
    for format in ["exfat", "ntfs", "refs", "refs+integrity"] {
        let memory = match format {
            "refs+integrity" => {
                let device = Arc::new(MemoryDevice::new(512 << 20, Sectors::SMALL));
                let options = FormatOptions { integrity: Some(true), ..FormatOptions::default() };
                platter_formats::by_name("refs").unwrap().make(&*device, &options, &Silent).unwrap();
                device
            }
            format => made(format),
        };
        let device = Arc::new(Gated {
            below: memory,
            is_closed: Mutex::new(false),
            opens: Condvar::new(),
            flushes: AtomicU64::new(0),
        });
        let at = std::env::temp_dir().join(format!("platter-gate-{format}-{}", std::process::id()));
        fs::create_dir(&at).unwrap();
        let mounted = Mounted::new(serving(device.clone(), format!("gate-{format}"), |_| ()), &at).unwrap();
        let server = thread::spawn(move || mounted.run());
        let files: Vec<File> =
            (0..CLIENTS).map(|client| File::create(at.join(client.to_string())).unwrap()).collect();
        File::open(&at).unwrap().sync_all().unwrap();
        for (client, file) in files.iter().enumerate() {
            std::os::unix::fs::FileExt::write_all_at(file, &[client as u8; 4096], 0).unwrap();
        }
        *device.is_closed.lock().unwrap() = true;
        let before = device.flushes.load(SeqCst);
        let asked = thread::scope(|scope| {
            files.iter().for_each(|file| drop(scope.spawn(|| file.sync_all().unwrap())));
            let expected = CLIENTS - Options::of(0, 0, 0).threads / 2;
            let since = Instant::now();
            while sleeping("sync") < expected && since.elapsed() < Duration::from_secs(60) {
                thread::sleep(Duration::from_millis(5));
            }
            let began = sleeping("sync") == expected;
            // The kernel asks for this each time. If no thread is left to answer, it would wait even when it is killed.
            let asked = began.then(|| {
                let asked = Command::new("timeout").args(["20", "stat", "-f"]).arg(&at).output();
                asked.unwrap().status.success()
            });
            *device.is_closed.lock().unwrap() = false;
            device.opens.notify_all();
            asked
        });
        assert_eq!(asked, Some(true), "{format}: not all syncs had begun, or nobody was left to answer");
        let flushes = device.flushes.load(SeqCst) - before;
        assert!(flushes <= 12, "{format}: {flushes} flushes for {CLIENTS} syncs");
        drop(files);
        assert!(umount(&at, &[]), "{format}");
        server.join().unwrap().unwrap();
        fs::remove_dir(&at).unwrap();
        let (found, _) = platter_formats::recognise(&*device.below).unwrap().unwrap();
        let report = found.check(&*device.below, Default::default(), &Silent).unwrap();
        assert!(report.is_clean(), "{format}: {:?}", report.findings);
    }
}
