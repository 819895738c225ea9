//! Which comparisons are refused before anything is written, and which values the checks compute.

use super::{CheckedComparison, check, distinct};
use crate::{Comparison, Stand, Target, Workload};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

/// A comparison of one fio job on these targets in memory.
fn comparison(keys: &str, targets: &str, memory: u64) -> Comparison {
    let text = format!("[probe]\ndirect=1\nioengine=io_uring\n{}\n", keys.replace(' ', "\n"));
    let targets = targets.split(',').map(|name| Target::parse(name).unwrap()).collect();
    let workloads = vec![Workload::from_fio("job", &text, None).unwrap()];
    Comparison::new(Stand::Memory(memory), targets, workloads)
}

fn checked(comparison: &Comparison) -> Result<CheckedComparison, String> {
    check(comparison).map_err(|error| error.to_string())
}

fn refused(comparison: &Comparison) -> String {
    checked(comparison).err().expect("it is refused")
}

/// The span, the count and the seconds of the first case after the checks.
fn outcome(comparison: &Comparison) -> (u64, Option<u64>, f64) {
    let plan = checked(comparison).unwrap();
    let workload = &plan.comparison.workloads[0];
    (workload.span, workload.cases[0].count, workload.cases[0].time.as_secs_f64())
}

const M: u64 = 1 << 20;

#[test]
fn what_is_alike_gets_different_names() {
    let names = |names: &[&str]| distinct(names.iter().map(|name| name.to_string()));
    assert_eq!(names(&["a", "b", "a", "a"]), ["a", "b", "a #2", "a #3"]);
    assert_eq!(names(&["a", "a", "a #2"]), ["a", "a #3", "a #2"]);
    let mut twice = comparison("size=1m", "fat16,raw,fat16", 64 * M);
    twice.workloads.push(twice.workloads[0].clone());
    let case = twice.workloads[0].cases[0].clone();
    twice.workloads[0].cases.push(case);
    let plan = checked(&twice).unwrap();
    assert_eq!(plan.names, ["fat16", "raw", "fat16 #2"]);
    let [first, second] = [0, 1].map(|index| &plan.comparison.workloads[index]);
    assert_eq!((&*first.name, &*second.name, &*second.title), ("job", "job #2", "job #2"));
    let cases: Vec<&str> = first.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(cases, ["probe", "probe #2"]);
}

#[test]
fn a_job_by_size_ends_with_the_span() {
    let job = |keys: &str| comparison(keys, "raw", 64 * M);
    assert_eq!(outcome(&job("size=4m bs=64k filename=x numjobs=2 loops=3")), (4 * M, Some(384), 0.0));
    // Each job has its own part of the span.
    assert_eq!(outcome(&job("size=4m bs=64k numjobs=2")), (8 * M, Some(128), 0.0));
    assert_eq!(outcome(&job("size=4m bs=64k number_ios=5")), (4 * M, Some(5), 0.0));
    assert_eq!(outcome(&job("size=4m bs=64k runtime=9")), (4 * M, Some(64), 9.0));
}

#[test]
fn the_command_lines_span_and_time_hold_for_a_job_by_size() {
    let mut job = comparison("size=4m bs=64k", "raw", 64 * M);
    job.span = Some(8 * M);
    assert_eq!(outcome(&job), (8 * M, Some(128), 0.0));
    job.time = Some(Duration::from_millis(500));
    assert_eq!(outcome(&job), (8 * M, None, 0.5));
    let mut share = comparison("size=50%", "raw", 64 * M);
    share.span = Some(M);
    assert_eq!(outcome(&share).0, M);
}

#[test]
fn a_share_is_one_of_what_every_target_has() {
    assert_eq!(outcome(&comparison("size=25%", "raw", 64 * M)).0, 16 * M);
    assert_eq!(outcome(&comparison("bs=4k", "raw", 64 * M)).0, 64 * M);
    let (span, ..) = outcome(&comparison("bs=4k", "raw,fat16,exfat", 64 * M));
    assert!((16 * M..21 * M).contains(&span), "{span}");
    let here = tempfile::tempdir().unwrap();
    let mut image = comparison("size=25%", "raw", M);
    image.stand = Stand::TemporaryImage(here.path().into());
    assert!(refused(&image).contains("--span"));
    image.span = Some(M);
    assert_eq!(outcome(&image).0, M);
}

#[test]
fn a_span_that_does_not_fit_is_refused_with_the_numbers() {
    let error = refused(&comparison("size=64m", "raw,exfat", 64 * M));
    assert!(
        error.contains("probe on exfat") && error.contains("64 MiB") && error.contains("free"),
        "{error}"
    );
    let error = refused(&comparison("size=65m", "raw", 64 * M));
    assert!(error.contains("mem:64M has 64 MiB (67108864 bytes)"), "{error}");
    for (span, words) in [
        (0, "no block"),
        (1, "no multiple of the 512-byte sector"),
        (512, "holds no block"),
        (5000, "no multiple"),
        (15 << 60, "does not fit"),
        (u64::MAX, "no multiple"),
    ] {
        let mut job = comparison("size=1m bs=4k", "raw", 64 * M);
        job.span = Some(span);
        let error = refused(&job);
        assert!(error.contains(words), "{span}: {error}");
        let here = tempfile::tempdir().unwrap();
        job.stand = Stand::TemporaryImage(here.path().into());
        assert!(checked(&job).is_err(), "{span}");
        job.stand = Stand::Path { path: here.path().join("new.img"), force: false };
        assert!(checked(&job).is_err(), "{span}");
        assert!(std::fs::read_dir(here.path()).unwrap().next().is_none());
    }
    let mut own = comparison("size=1m bs=4k numjobs=4", "raw", 64 * M);
    own.span = Some(8192);
    assert!(refused(&own).contains("span of each worker"));
}

#[test]
fn a_volume_that_cannot_be_made_is_refused_before() {
    let error = refused(&comparison("size=1m", "raw,fat32", 8 * M));
    assert!(error.contains("fat32 on mem:8M (8 MiB)"), "{error}");
    let error = refused(&comparison("size=1m", "refs:3k", 512 * M));
    assert!(error.contains("refs:3k on mem:512M"), "{error}");
}

#[test]
fn memory_that_is_not_there_is_refused() {
    for memory in [0, 100, 511] {
        assert!(refused(&comparison("size=1m", "raw", memory)).contains("does not fit"), "{memory}");
    }
    for memory in [15 << 60, 1 << 50, u64::MAX] {
        let error = refused(&comparison("size=1m", "raw", memory));
        assert!(error.contains("of memory") && error.contains("are free"), "{error}");
    }
    let mut many = comparison("size=1m bs=1m", "raw", 64 * M);
    for (workers, depth, words) in [
        (1, 32_768, "32 GiB of memory"),
        (5000, 1, "5000 workers"),
        (4096, 4096, "262144 at the same time"),
        (0, 1, "at least 1"),
    ] {
        let pattern = &mut many.workloads[0].cases[0].pattern;
        (pattern.workers, pattern.queue_depth) = (workers, depth);
        let error = refused(&many);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_block_that_is_no_multiple_of_a_sector_needs_a_buffered_directory() {
    let error = refused(&comparison("size=1m bs=2300", "raw", 64 * M));
    assert!(error.contains("2300 bytes is no multiple of the 512-byte sector"), "{error}");
    let here = tempfile::tempdir().unwrap();
    let on = |keys: &str, targets: &str| {
        let mut job = comparison(keys, targets, 64 * M);
        job.targets.push(Target::Directory { path: here.path().into(), integrity: false });
        job
    };
    let mut only = on("size=1m bs=2300 direct=0", "raw");
    assert!(refused(&only).contains("directory of the host"));
    only.targets.remove(0);
    assert!(checked(&only).is_ok());
    let error = refused(&on("size=1m bs=4k offset=1000", "raw"));
    assert!(error.contains("begins at 1000 bytes, which is no multiple of the 512-byte sector"), "{error}");
    assert!(refused(&on("size=1m bs=4k blockalign=1000 rw=randread", "raw")).contains("alignment of 1000"));
}

#[test]
fn a_base_is_one_of_the_targets() {
    let mut job = comparison("size=1m", "raw,fat16,fat16", 64 * M);
    job.base = Some("ntfs".into());
    assert_eq!(refused(&job), "--base: \"ntfs\" is not among raw, fat16, fat16 #2");
    job.base = Some("fat16 #2".into());
    assert!(checked(&job).is_ok());
}

/// A block that does not begin at a multiple of the cells would be compared with the wrong cells, and its writes would
/// leave cells behind that are partly another's.
#[test]
fn only_whole_cells_are_verified() {
    let verified = |keys: &str| {
        let job = comparison(keys, "raw", 64 * M);
        assert!(checked(&job).is_ok(), "{keys}");
        checked(&Comparison { verify: true, ..job }).map(drop)
    };
    for (keys, words) in [
        ("size=1m bs=512", "a block of 512 bytes is no multiple of 4096"),
        ("size=1m bs=4k offset=1536", "begin at 1536 bytes"),
        ("size=1m bs=4k rw=randrw blockalign=512", "every multiple of 512 bytes"),
        ("size=1m bs=4k rw=rw:512", "every multiple of 512 bytes"),
    ] {
        let error = verified(keys).unwrap_err();
        assert!(error.contains(words) && error.contains("--verify"), "{keys}: {error}");
    }
    for keys in
        ["size=1m bs=8k offset=4k rw=randrw blockalign=4k", "size=1m bs=4k rw=rw:8k", "size=1m bs=12k"]
    {
        assert_eq!(verified(keys), Ok(()), "{keys}");
    }
    let spd = |line: &str| {
        let words: Vec<String> = line.split(' ').map(String::from).collect();
        let workloads = crate::diskspd::Profile::from_arguments(&words).unwrap().workloads().unwrap();
        let targets = vec![Target::parse("raw").unwrap()];
        let job = Comparison::new(Stand::Memory(64 * M), targets, workloads);
        checked(&Comparison { verify: true, ..job }).map(drop)
    };
    assert!(spd("-b4K -c4M -Su -r512 a").unwrap_err().contains("every multiple of 512"));
    assert!(spd("-b4K -c4M -Su -B512 a").unwrap_err().contains("begin at 512 bytes"));
    assert!(spd("-b4K -c4M -Su -s6K a").unwrap_err().contains("every multiple of 2048"));
    assert_eq!(spd("-b4K -c4M -Su -r a"), Ok(()));
}

/// Blocks that may begin at every sector are whole cells all the same if one worker puts them one after the other.
#[test]
fn blocks_in_a_row_are_whole_cells() {
    let mut job = comparison("size=1m bs=8k", "raw", 64 * M);
    job.verify = true;
    let pattern = &mut job.workloads[0].cases[0].pattern;
    let mut portion = pattern.portions()[0];
    portion.align = crate::Portion::SECTOR;
    pattern.shape.mix = vec![portion];
    assert!(checked(&job).is_ok());
    job.workloads[0].cases[0].pattern.workers = 2;
    assert!(refused(&job).contains("every multiple of 512"));
}

#[test]
fn a_span_is_cut_to_the_largest_file_of_all() {
    let mut job = comparison("size=5g", "raw,fat32", 64 * M);
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().set_len(16 << 30).unwrap();
    job.stand = Stand::Path { path: image.path().into(), force: false };
    match checked(&job) {
        Ok(plan) => {
            assert_eq!(plan.comparison.workloads[0].span, (4 << 30) - M);
            assert!(plan.warnings[0].contains("fat32 holds no larger file"), "{:?}", plan.warnings);
        }
        // Where the tests' directory has no room for an image, the error must say so.
        Err(error) => assert!(error.contains("are needed for the image"), "{error}"),
    }
}

#[test]
fn room_is_that_of_the_image_and_the_files_together() {
    let here = tempfile::tempdir().unwrap();
    let free = crate::target::free_space(here.path()).unwrap();
    let span = free / 2 / M * M;
    let mut job = comparison("size=1m", "raw", M);
    job.stand = Stand::TemporaryImage(here.path().into());
    job.targets.push(Target::Directory { path: here.path().into(), integrity: false });
    job.span = Some(span);
    assert!(refused(&job).contains("bytes") && refused(&job).contains("are needed"));
}

#[test]
fn links_are_followed_to_block_devices_only() {
    let here = tempfile::tempdir().unwrap();
    let path = |name: &str| here.path().join(name);
    std::fs::write(path("victim"), [1; 4096]).unwrap();
    symlink("victim", path("link")).unwrap();
    symlink("nothing", path("dangling")).unwrap();
    let error = |name: &str| {
        let mut job = comparison("size=1m", "raw", M);
        job.stand = Stand::Path { path: path(name), force: true };
        refused(&job)
    };
    assert!(error("link").contains("symbolic link to") && error("link").contains("victim"));
    assert!(error("dangling").contains("symbolic link to nothing"));
    assert!(!path("nothing").exists());
    assert_eq!(crate::device_path(Path::new("/no/such")).unwrap(), None);
    // Below /dev no image is made: the device that was meant is not there.
    symlink("/dev", path("devices")).unwrap();
    for missing in ["/dev/no-such-disk", "/dev/no-such-folder/disk", "/tmp/../dev/no-such-disk"] {
        assert!(crate::device_path(Path::new(missing)).unwrap_err().to_string().contains("no such device"));
    }
    assert!(error("devices/no-such-disk").contains("there is no such device"));
    assert_eq!(crate::device_path(&path("victim")).unwrap(), Some(path("victim")));
}

#[test]
fn sizes_stand_as_they_are_typed() {
    use crate::stand::typed;
    let shown = [1 << 30, 1536 << 20, 64 << 10, 1000, 0, 3 << 40].map(typed);
    assert_eq!(shown, ["1G", "1536M", "64k", "1000", "0", "3T"]);
}

/// A device in memory is as large as it says, whatever the number of targets; each has its share where it can be made
/// there, and all of it in turn where not.
#[test]
fn memory_is_shared_where_every_target_fits() {
    let share =
        |keys: &str, targets: &str, memory: u64| checked(&comparison(keys, targets, memory)).unwrap().share;
    assert_eq!(share("size=8m", "raw,exfat", 64 * M), Some(32 * M));
    assert_eq!(share("size=8m", "raw,fat16,raw", 64 * M), Some(21 * M));
    assert_eq!(share("size=40m", "raw,exfat", 64 * M), Some(64 * M));
    // The smallest volume of ReFS takes 320 MiB.
    assert_eq!(share("size=8m", "raw,refs", 512 * M), Some(512 * M));
    assert_eq!(share("size=8m", "raw,refs", 768 * M), Some(384 * M));
}
