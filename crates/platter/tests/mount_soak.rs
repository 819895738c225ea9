//! A mixed load for hours on a mounted mirror, of which one copy is damaged all the time and scrubbed now and then.

mod common;

use common::Place;
use common::mount::{Campaign, Mount, Random, memory, mount_known};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The most memory that may be in use at the end, compared with that after a tenth of the time.
const GROWTH: u64 = 64 << 10;

/// Each of these loads is repeated until the time is over. A round must end without an error, and checks what it read.
const LOADS: [(&str, &str); 4] = [
    (
        "fio",
        "fio --name=load --filename=m/fio --size=192m --bs=4k-64k --rw=randwrite --ioengine=io_uring --direct=1 \
         --iodepth=16 --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=$ROUND --output=fio.log",
    ),
    (
        "dbench",
        "mkdir -p m/dbench && dbench -c /usr/share/dbench/client.txt -D m/dbench -t 15 4 > dbench.log && \
         ! grep -q ERROR dbench.log && rm -r m/dbench",
    ),
    (
        "git",
        "git clone -q --no-hardlinks \"$REPOSITORY\" m/clone && git -C m/clone fsck --full 2> git.log && \
         git -C m/clone gc -q && git -C m/clone status --porcelain > git.log && ! test -s git.log && rm -r m/clone",
    ),
    (
        "sqlite",
        "sqlite3 m/base 'pragma journal_mode=wal; create table if not exists t (round, text); \
         insert into t select $ROUND, hex(randomblob(200)) from generate_series(1, 2000); \
         update t set text = hex(randomblob(200)) where random() % 3 = 0; delete from t where round < $ROUND - 20; \
         pragma wal_checkpoint(truncate);' > sqlite.log && \
         test \"$(sqlite3 m/base 'pragma integrity_check; select count(*) from t where round = $ROUND')\" = \"ok\n2000\"",
    ),
];

/// For the time of the campaign, programs work on ReFS with integrity over a mirror, bits of one copy are flipped every
/// minute, and every half hour (or five times, if that is more often) the volume is scrubbed. No program meets an error
/// or other data than it wrote, everything is repaired, and memory does not grow.
#[test]
#[ignore = "a campaign"]
fn programs_notice_nothing_while_one_copy_is_damaged_and_scrubbed() {
    let campaign = Campaign::new();
    let seconds = campaign.left();
    let mount = Mount::made("soak", "refs+integrity", "mirror:a.img,b.img", "4G");
    mount.end();
    let process = mount_known(&mount, &[]);
    let is_over = AtomicBool::new(false);
    let (mut flipped, mut repaired, mut scrubs, mut early) = (0, 0, 0, None);
    let rounds = thread::scope(|scope| {
        let loads = LOADS.map(|(name, line)| {
            let (place, is_over) = (&mount.place, &is_over);
            scope.spawn(move || repeat(place, name, line, is_over))
        });
        let _over = Over(&is_over);
        let between = Duration::from_secs(1800).min(seconds / 6);
        let mut random = Random(campaign.seed());
        let (begun, mut next) = (Instant::now(), between);
        while begun.elapsed() < seconds && !loads.iter().any(|load| load.is_finished()) {
            flipped += flip(&mount.place.path("b.img"), &mut random);
            thread::sleep(Duration::from_secs(60).min(seconds / 30));
            if begun.elapsed() > seconds / 10 {
                early.get_or_insert_with(|| memory(process));
            }
            if begun.elapsed() >= next {
                next += between;
                scrubs += 1;
                repaired += scrub(&mount.place, "scrub --json m");
            }
        }
        is_over.store(true, Ordering::Relaxed);
        loads.map(|load| load.join().unwrap())
    });
    repaired += scrub(&mount.place, "scrub --json m");
    let (early, late) = (early.unwrap_or_else(|| memory(process)), memory(process));
    mount.place.ends(0, "umount m");
    repaired += scrub(&mount.place, "scrub --json --checksums-only mirror:a.img,b.img");
    for copy in ["mirror:a.img,b.img", "a.img", "b.img"] {
        let (report, _) = mount.place.ends(0, &format!("check {copy}"));
        assert!(report.contains("no damage"), "{copy}: {report}");
    }
    println!(
        "{rounds:?} rounds of fio, dbench, git and SQLite; {flipped} bits flipped, {scrubs} scrubs, {repaired} places \
         repaired by scrubs; {early} KiB in memory after a tenth of the time, {late} KiB at the end"
    );
    assert!(late <= early + GROWTH, "memory grows: {early} KiB, {late} KiB");
    assert!(repaired > 0, "nothing was repaired");
}

/// Ends the loads also if an assertion fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Repeats a load, and returns the number of rounds.
fn repeat(place: &Place, name: &str, line: &str, is_over: &AtomicBool) -> u64 {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut round = 0;
    while !is_over.load(Ordering::Relaxed) {
        round += 1;
        let mut command = place.command("sh", &["-ec", &line.replace("$ROUND", &round.to_string())]);
        let output = command.env("REPOSITORY", &repository).output().unwrap();
        assert!(output.status.success(), "{name}, round {round}: {output:?}");
    }
    round
}

/// Flips some bits of an image where it holds something, and returns their number.
fn flip(image: &Path, random: &mut Random) -> u64 {
    let file = File::options().read(true).write(true).open(image).unwrap();
    let length = file.metadata().unwrap().len();
    let count = 1 + random.below(8);
    for _ in 0..count {
        // The first sectors too: they have copies.
        let at = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(random.below(length))).unwrap_or(0);
        let at = (at + random.below(1 << 20)).min(length - 1);
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1 << random.below(8)], at).unwrap();
    }
    count
}

/// Scrubs, and returns how many places were repaired: everything that was damaged.
fn scrub(place: &Place, line: &str) -> u64 {
    let output = place.platter(line);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["lost_bytes"], 0, "{report}");
    report["repaired"].as_u64().unwrap()
}
