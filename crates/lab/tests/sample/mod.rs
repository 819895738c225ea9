//! Documents that look like real ones, the same on every run, for tests and for looking at the pages.

use platter_lab::report::document::*;
use std::time::{Duration, UNIX_EPOCH};

/// Pseudo-random numbers: splitmix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    }

    /// Returns a number around 1, at most `share` above or below it.
    fn about(&mut self, share: f64) -> f64 {
        1.0 + share * ((self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    }
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A comparison of the seven default targets under both workloads.
pub(crate) fn full() -> Document {
    document(
        "platter compare --full --device /dev/nvme0n1",
        &[
            ("raw", "Raw device", "raw", "", 1.0),
            ("ntfs", "NTFS 3.1, 4 KiB clusters", "volume", "a fresh volume", 0.97),
            ("refs", "ReFS 3.14, 4 KiB clusters", "volume", "a fresh volume", 0.96),
            ("refs+integrity", "ReFS 3.14, 4 KiB clusters, integrity on", "volume", "a fresh volume", 0.78),
            ("exfat", "exFAT, 32 KiB clusters", "volume", "a fresh volume", 0.98),
            ("fat32", "FAT32, 4 KiB clusters", "volume", "a fresh volume", 0.94),
            ("dir:/tmp", "ext4 of the host", "directory", "ext4, rw,relatime on /dev/nvme0n1p2", 0.81),
        ],
        2,
        8664,
    )
}

/// A comparison of few targets.
pub(crate) fn quick() -> Document {
    document(
        "platter compare --targets raw,fat32,dir:/tmp",
        &[
            ("raw", "Raw device", "raw", "", 1.0),
            ("fat32", "FAT32, 4 KiB clusters", "volume", "a fresh volume", 0.97),
            ("dir:/tmp", "ext4 of the host", "directory", "ext4, rw,relatime on /dev/vda1", 0.7),
        ],
        1,
        1,
    )
}

/// A comparison without the raw device: ratios are relative to the first target.
pub(crate) fn two_volumes() -> Document {
    document(
        "platter compare --targets fat32,refs",
        &[
            ("fat32", "FAT32, 4 KiB clusters", "volume", "a fresh volume", 1.0),
            ("refs", "ReFS 3.14, 4 KiB clusters", "volume", "a fresh volume", 0.9),
        ],
        1,
        2,
    )
}

fn cases() -> Vec<(Case, f64)> {
    let case =
        |workload: &str, name: &str, read_percent, block_bytes, queue_depth, workers, random_percent| Case {
            workload: workload.into(),
            name: name.into(),
            direction: match read_percent {
                100 => Direction::Read,
                0 => Direction::Write,
                _ => Direction::Mix,
            },
            block_bytes,
            program: None,
            shape: None,
            queue_depth,
            workers,
            random_percent,
            read_percent,
            durability: if workload == "iometer" { "direct" } else { "write-through" }.into(),
            scoring: (workload == "crystaldiskmark").then_some(Scoring::Best),
            beside: Vec::new(),
        };
    let mut all = vec![
        (case("iometer", "4K QD32 ×8", 100, 4096, 32, 8, 100), 2040.0),
        (case("iometer", "4K QD64 ×4", 0, 4096, 64, 4, 100), 960.0),
        (case("iometer", "4K 75/25 QD16 ×4", 75, 4096, 16, 4, 100), 580.0),
        (case("iometer", "4K endurance QD16 ×4", 0, 4096, 16, 4, 100), 410.0),
    ];
    for (read, factor) in [(100, 1.0), (0, 0.7), (70, 0.85)] {
        for (name, block, depth, workers, random, rate) in [
            ("SEQ1M Q8T1", MIB, 8, 1, 0, 7004.0),
            ("SEQ1M Q1T1", MIB, 1, 1, 0, 2698.0),
            ("SEQ128K Q32T1", 128 << 10, 32, 1, 0, 6982.0),
            ("RND4K Q32T16", 4096, 32, 16, 100, 2039.0),
            ("RND4K Q32T1", 4096, 32, 1, 100, 558.0),
            ("RND4K Q1T1", 4096, 1, 1, 100, 43.4),
        ] {
            all.push((case("crystaldiskmark", name, read, block, depth, workers, random), rate * factor));
        }
    }
    all
}

fn document(command: &str, targets: &[(&str, &str, &str, &str, f64)], rounds: u32, seed: u64) -> Document {
    let mut dice = Dice(seed);
    let environment = Environment {
        host: "storage-7".into(),
        machine_id: Some("0123456789abcdef".into()),
        cpu: "AMD EPYC 9354P 32-Core Processor".into(),
        cores: 8,
        memory_bytes: 32 * GIB,
        kernel: "Linux 6.12.48".into(),
        os: "Debian GNU/Linux 13 (trixie)".into(),
        platter_version: "0.1.0".into(),
        io: Some("io_uring".into()),
        cpu_quota: Some(2.0),
        throttled_periods: Some(0),
        other_load: Some(0.4),
        memory_limit_bytes: Some(4 * GIB),
        governor: Some("performance".into()),
        power_plan: None,
        real_time_protection: None,
        device: DeviceInfo {
            name: "/dev/nvme0n1".into(),
            kind: "block device".into(),
            size_bytes: 64 * GIB,
            logical_sector: 512,
            physical_sector: 4096,
            model: Some("INTEL SSDPF2KE064T1".into()),
            firmware: Some("9CV10200".into()),
            rotational: Some(false),
            host_file_system: None,
            host_ways: None,
            in_memory: None,
            write_cache: Some("write back".into()),
        },
    };
    let workload = |name: &str, title: &str, durability: &str| WorkloadSettings {
        name: name.into(),
        title: title.into(),
        durability: durability.into(),
        span_bytes: 32 * GIB,
        seconds: 60.0,
    };
    let settings = Settings {
        preset: "full".into(),
        base: String::new(),
        rounds,
        seed: 8664,
        direct: true,
        own_regions: true,
        span_bytes: 32 * GIB,
        discarded: Some(false),
        programs: None,
        until_percent: None,
        preconditioning: Some(Preconditioning {
            filled_bytes: 32 * GIB,
            round_seconds: 60.0,
            rounds_mb_per_s: vec![900.0, 610.0, 600.0, 605.0, 598.0, 602.0],
            is_steady: true,
        }),
        workloads: vec![
            workload("iometer", "Iometer", "direct"),
            workload("crystaldiskmark", "CrystalDiskMark", "write-through"),
        ],
    };
    let described = targets.iter().map(|&(name, title, kind, details, _)| Target {
        name: name.into(),
        title: title.into(),
        short: if kind == "directory" { "dir:ext4".into() } else { name.into() },
        kind: kind.into(),
        details: details.into(),
    });
    let started = UNIX_EPOCH + Duration::from_secs(1_763_750_000);
    let mut document = Document::new(started, command, environment, settings, described.collect());
    let mut clock = 0.0;
    for (case, rate) in cases() {
        for &(name, _, kind, _, factor) in targets {
            let lean = if name == "raw" { 1.0 } else { dice.about(0.06) };
            let slow = if name.contains("integrity") && case.block_bytes == 4096 { 0.8 } else { 1.0 };
            let runs = (1..=rounds).map(|round| {
                clock += 66.0;
                run(&case, name, kind, rate * factor * lean * slow, round, clock, &mut dice)
            });
            let runs: Vec<Round> = runs.collect();
            let of_all = runs[0].clone();
            document.results.push(CaseResult {
                target: name.into(),
                case: case.clone(),
                latency_us: of_all.latency_us,
                sync_latency_us: of_all.sync_latency_us,
                cpu: of_all.cpu,
                runs,
                ..CaseResult::default()
            });
        }
    }
    let has = |name: &str| targets.iter().any(|target| target.0 == name);
    for (target, base) in [("refs", "ntfs"), ("refs+integrity", "refs")] {
        if has(target) && has(base) {
            document.pairs.push(Pair { target: target.into(), base: base.into() });
        }
    }
    document.machine.push(
        "another load used 0.4 processors meanwhile: end it, or give the comparison more --time".into(),
    );
    document.conclude();
    document
}

fn run(case: &Case, target: &str, kind: &str, rate: f64, repeat: u32, clock: f64, dice: &mut Dice) -> Round {
    let seconds = 60u32;
    let garbage_collects = target.contains("integrity") && case.name.contains("endurance");
    let timeline: Vec<Second> = (0..seconds)
        .map(|second| {
            let stopped = garbage_collects && (38..44).contains(&second);
            let falling = if garbage_collects && second < 38 { 1.6 - f64::from(second) / 38.0 } else { 1.0 };
            let mb = if stopped { 0.0 } else { rate * falling * dice.about(0.06) };
            let used = if garbage_collects { u64::from(second % 22) * 45 * MIB } else { 0 };
            Second {
                second: f64::from(second),
                iops: (mb * 1e6 / case.block_bytes as f64).round(),
                mb_per_s: mb,
                latency_us: if mb > 0.0 { mean(case, mb) } else { 0.0 },
                free_bytes: (kind == "volume").then_some(30 * GIB - used),
            }
        })
        .collect();
    let mb_per_s = timeline.iter().map(|second| second.mb_per_s).sum::<f64>() / f64::from(seconds);
    let iops = mb_per_s * 1e6 / case.block_bytes as f64;
    let latency = latency(mean(case, mb_per_s), (iops * f64::from(seconds)) as u64, dice);
    let slices = (0..20_u32)
        .map(|pass| {
            let slice = dice.about(if case.queue_depth == 1 { 0.2 } else { 0.04 });
            Slice {
                pass: pass + 1,
                started_at_seconds: clock + f64::from(pass) * 3.0,
                seconds: 3.0,
                iops: iops * slice,
                latency_us: latency.mean / slice,
                exit_code: None,
            }
        })
        .collect();
    let requests = (iops * f64::from(seconds)) as u64;
    let reads = requests * u64::from(case.read_percent) / 100;
    let writes = requests - reads;
    let side = |share: f64, factor: f64| Side {
        iops: iops * share,
        mb_per_s: mb_per_s * share,
        latency_us: scaled(&latency, factor),
    };
    let share = f64::from(case.read_percent) / 100.0;
    let mixed = case.direction == Direction::Mix;
    let per_io = match kind {
        "raw" => 4.1,
        "directory" => 6.3,
        _ if target.contains("integrity") => 7.2,
        _ => 4.5,
    } * dice.about(0.03);
    let busy = per_io * requests as f64 / 1e6;
    Round {
        repeat,
        started_at_seconds: clock,
        seconds: f64::from(seconds),
        iops,
        mb_per_s,
        latency_us: latency,
        reads: mixed.then(|| side(share, 0.8)),
        writes: mixed.then(|| side(1.0 - share, 1.5)),
        sync_latency_us: (case.durability == "write-through" && writes > 0).then(|| scaled(&latency, 2.0)),
        response_times: bins(&latency, requests),
        slices,
        background_seconds: 0.0,
        stalled_seconds: timeline.iter().filter(|second| second.iops == 0.0).count() as f64,
        timeline,
        cpu: Cpu {
            user_s: busy * 0.3,
            system_s: busy * 0.7,
            us_per_io: per_io,
            percent: busy / f64::from(seconds) * 100.0,
        },
        workers: (0..case.workers)
            .map(|_| {
                let part = dice.about(0.02) / f64::from(case.workers);
                Worker { iops: iops * part, mb_per_s: mb_per_s * part, latency_us: latency.mean }
            })
            .collect(),
        requested_together: None,
        requested: Requested {
            reads,
            writes,
            read_bytes: reads * case.block_bytes,
            write_bytes: writes * case.block_bytes,
        },
        device: (kind != "directory").then(|| traffic(case, target, reads, writes)),
        errors: 0,
        verified_blocks: 0,
        corrupted_blocks: 0,
    }
}

/// The mean latency in microseconds by Little's law: requests in flight divided by requests per second.
fn mean(case: &Case, mb_per_s: f64) -> f64 {
    f64::from(case.queue_depth * case.workers) * case.block_bytes as f64 / mb_per_s
}

fn latency(mean: f64, count: u64, dice: &mut Dice) -> Latency {
    let mut of = |factor: f64| mean * factor * dice.about(0.04);
    Latency {
        count,
        mean,
        stddev: Some(mean * 0.8),
        min: Some(mean * 0.3),
        p50: of(0.92),
        p90: Some(of(1.35)),
        p95: Some(of(1.7)),
        p99: Some(of(2.9)),
        p99_interval: Some([mean * 2.7, mean * 3.2]),
        p99_9: Some(of(6.2)),
        p99_99: (count >= 50_000).then(|| of(14.0)),
        max: of(38.0),
    }
}

fn scaled(latency: &Latency, factor: f64) -> Latency {
    let Latency { count, mean, stddev, min, p50, p90, p95, p99, p99_interval, p99_9, p99_99, max } = *latency;
    let of = |figure: Option<f64>| figure.map(|figure| figure * factor);
    Latency {
        count,
        mean: mean * factor,
        stddev: of(stddev),
        min: of(min),
        p50: p50 * factor,
        p90: of(p90),
        p95: of(p95),
        p99: of(p99),
        p99_interval: p99_interval.map(|ends| ends.map(|end| end * factor)),
        p99_9: of(p99_9),
        p99_99: of(p99_99),
        max: max * factor,
    }
}

/// Distributes the requests over the bins according to the percentiles.
fn bins(latency: &Latency, requests: u64) -> Vec<u64> {
    let mut bins = vec![0; RESPONSE_TIME_BINS_US.len()];
    let steps = [
        (latency.p50 * 0.6, 0.05),
        (latency.p50 * 0.9, 0.45),
        (latency.p50 * 1.1, 0.3),
        (latency.p90.unwrap_or_default(), 0.1),
        (latency.p95.unwrap_or_default(), 0.05),
        (latency.p99.unwrap_or_default(), 0.04),
        (latency.p99_9.unwrap_or_default(), 0.009),
        (latency.max, 0.001),
    ];
    for (at, share) in steps {
        bins[response_time_bin(at as u64)] += (requests as f64 * share) as u64;
    }
    bins
}

fn traffic(case: &Case, target: &str, reads: u64, writes: u64) -> Traffic {
    let same = |count| {
        let sizes = if count > 0 { vec![SizeCount { bytes: case.block_bytes, count }] } else { Vec::new() };
        (count, count * case.block_bytes, sizes)
    };
    let (reads, read_bytes, read_sizes) = same(reads);
    let (writes, write_bytes, write_sizes) =
        if target.contains("integrity") && case.block_bytes == 4096 && writes > 0 {
            // Allocate-on-write joins small writes, and adds writes of metadata.
            let sizes = vec![
                SizeCount { bytes: 4096, count: writes / 40 },
                SizeCount { bytes: 16 << 10, count: writes / 6 },
                SizeCount { bytes: 64 << 10, count: writes / 28 },
            ];
            let bytes = sizes.iter().map(|size| size.bytes * size.count).sum();
            (sizes.iter().map(|size| size.count).sum(), bytes, sizes)
        } else {
            same(writes)
        };
    let sequential = 100.0 - f64::from(case.random_percent);
    Traffic {
        reads,
        writes,
        read_bytes,
        write_bytes,
        read_sizes,
        write_sizes,
        sequential_read_percent: if reads > 0 { sequential } else { 0.0 },
        sequential_write_percent: if writes > 0 { sequential.max(4.0) } else { 0.0 },
        flushes: if target == "raw" { 0 } else { 12 },
        discards: 0,
    }
}
