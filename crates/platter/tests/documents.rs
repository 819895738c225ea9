//! Every command in the documents works as it is written there.

mod common;

use common::Place;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Parts of commands that this machine cannot run, or that take long, and what the test runs instead.
const INSTEAD: [(&str, &str); 21] = [
    // On a model of a disk, all files of all loads take minutes of the processor.
    ("exfat:128k,ntfs:4k,fat32:32k", "ntfs:4k"),
    ("--policy quick-removal --full", "--policy quick-removal"),
    ("--target raw --span 1000204886016 --time 12h", "--target raw --span 1000204886016 --time 10s"),
    ("--target refs --span 500G --time 12h", "--target refs --span 1G --time 10s"),
    (
        "endurance --device /dev/sdX --full 90 --time 12h",
        "endurance --device lasts.img --size 512M --full 50 --time 1s",
    ),
    (
        "--device /dev/sdX --targets raw,ext4,xfs,btrfs,ntfs-3g,exfat-fuse,ntfs,exfat,fat32,refs,refs+integrity",
        "--device few.img --targets raw,ext4",
    ),
    ("ntfs:64k,refs:64k,refs+integrity:64k", "ntfs:64k"),
    ("ext4,xfs,btrfs,ntfs,refs,dir:. ", "dir:. "),
    ("compare --targets ext4,ntfs --command", "compare --targets dir:. --command"),
    // These workloads need space for their data twice: a new backup is beside the file that it is made of, and data
    // written after a snapshot beside the old data. So the device has 1 GiB.
    ("--device /dev/sdX --targets ntfs,refs --workloads", "--device mem:1G --targets ntfs,refs --workloads"),
    ("ext4,ntfs-3g,mount:ntfs --workloads small-files,naspt", "ext4 --workloads small-files"),
    ("cargo run --release -- compare", "platter compare"),
    ("--device /dev/sdX", "--device mem:4G"),
    ("platter compare --full", "platter compare --quick"),
    ("dir:/mnt/xfs", "dir:."),
    ("fat32:32k,", "fat32:4k,"),
    ("--repeat 11", "--repeat 2"),
    ("--repeat 5", "--repeat 2"),
    // This command runs all tests, this one among them.
    ("cargo xtask test", "grep -q '\"test\"' \"$ROOT/xtask/src/main.rs\""),
    (
        "cargo test --release -p platterfs-fat --test suite -- --ignored --nocapture the_campaign",
        "grep -rq 'fn the_campaign' \"$ROOT/crates/fat/tests/check\"*",
    ),
    (
        "cargo +nightly fuzz run fat_check -- -max_total_time=600 -rss_limit_mb=1024 -timeout=10",
        "test -e \"$ROOT/fuzz/fuzz_targets/fat_check.rs\"",
    ),
];

/// Programs of other projects that no package contains: blocks beginning with these words are not run.
const OF_OTHERS: [&str; 1] = ["python3 forefst.py"];

/// Commands to run before a block of a document, which is counted from 0.
const BEFORE: [(&str, usize, &str); 7] = [
    ("iometer.md", 0, "cp \"$ROOT/crates/lab/tests/sample/two-specifications.icf\" test.icf"),
    ("diskspd.md", 0, "platter run diskspd -- -Rpxml -d1 -W0 -c1M -b4K first.dat second.dat > profile.xml"),
    (
        "programs.md",
        0,
        "git init -q project && printf 'all:\\n\\techo made > made\\nclean:\\n\\trm -f made\\n' > project/Makefile
         git -C project add . && git -C project -c user.name=a -c user.email=a@b commit -q -m first
         tar -cf project.tar project",
    ),
    (
        "replay.md",
        0,
        "(echo fio version 3 iolog; for n in $(seq 200); do echo $n /tmp/f read $((n * 8192)) 4096; done) > trace.log",
    ),
    (
        "rescue.md",
        0,
        "platter mkfs exfat disk.img --size 64M && echo content > a.txt
         platter cp a.txt disk.img:/kept.txt && platter cp a.txt disk.img:/gone.jpg && platter rm disk.img:/gone.jpg",
    ),
    (
        "README.md",
        2,
        "mkdir before after jobs reports && cp platter-report/report.json before && cp platter-report/report.json after
         cp platter-report/report.json reports
         printf '[a]\\nsize=1m\\ndirect=1\\n' > jobs/mine.fio
         cp \"$ROOT/crates/lab/workloads/overhead.toml\" mine.toml",
    ),
    (
        "README.md",
        4,
        "mkdir photos && echo a.jpg > photos/list.txt
         platter mkfs refs broken.img --size 512M && platter cp photos/list.txt broken.img:/
         dd if=/dev/zero of=broken.img bs=4096 seek=30 count=1 conv=notrunc",
    ),
];

/// Replaces `platter` to shorten comparisons: they run in memory where they name no device, with few cases where they
/// name no load, and on two targets where they name none.
const SHORT: &str = r#"#!/bin/sh
short='--time 0.01 --span 1M'
case " $* " in *' --repeat '*) ;; *) short="$short --repeat 1" ;; esac
case " $* " in *' --device '*) ;; *) short="$short --device mem:2G" ;; esac
case " $* " in *' --workloads '* | *' run '*) ;; *) short="$short --workloads overhead" ;; esac
case " $* " in *' --targets '* | *' --volumes '* | *' run '*) ;; *) short="$short --targets raw,refs" ;; esac
case $1 in compare | run) ;; *) short= ;; esac
case " $* " in *' naspt '* | *' small-files '* | *vm-images* | *synthetic-full* | *database-commit*) short=${short#--time 0.01 --span 1M} ;; esac
case " $* " in *' --command '*) short='--repeat 1 --warmup 0' ;; esac
# Virtual time passes quickly, and a device of its own is the same however often it is measured.
case " $* " in *' --device model:'*) short= ;; esac
case " $* " in *' --post '*) short='--time 0.05' ;; esac
case " $* " in *' jetstress '*) short="--time 0.1 ${short#--time 0.01 --span 1M}" ;; esac
case "$1 $2" in
# What is behind -- is not for platter.
'run diskspd') shift 2 && exec "$PLATTER" run diskspd $short "$@" ;;
esac
exec "$PLATTER" "$@" $short
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn documents() -> Vec<PathBuf> {
    let markdown = |folder: PathBuf| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "md"))
    };
    let mut documents: Vec<PathBuf> = markdown(root()).chain(markdown(root().join("docs"))).collect();
    documents.sort();
    documents
}

/// Returns the fenced code blocks of a text: the language of each and its content.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(mark), None) => open = Some((mark.to_string(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some((_, block))) => *block += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    blocks
}

fn run(here: &Place, script: &str, about: &str) {
    let path = format!("{}:{}", here.path("bin").display(), std::env::var("PATH").unwrap());
    let mut shell = here.command("sh", &["-e", "-c", script]);
    shell.env("PATH", path).env("ROOT", root()).env("PLATTER", env!("CARGO_BIN_EXE_platter"));
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{about}\n{script}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_command_block_runs() {
    let mut unused: Vec<&str> = INSTEAD.iter().map(|(what, _)| *what).chain(OF_OTHERS).collect();
    let mut count = 0;
    for document in documents() {
        let name = document.file_name().unwrap().to_str().unwrap();
        let here = Place::new(&format!("document-{name}"));
        fs::create_dir(here.path("bin")).unwrap();
        fs::write(here.path("bin/platter"), SHORT).unwrap();
        fs::set_permissions(here.path("bin/platter"), fs::Permissions::from_mode(0o755)).unwrap();
        let text = fs::read_to_string(&document).unwrap();
        let commands = blocks(&text).into_iter().filter(|(mark, block)| {
            let is_command = |line: &str| line.starts_with("platter ") || line.starts_with("cargo ");
            assert!(
                mark == "sh" || !block.lines().any(is_command),
                "{name}: commands are marked sh:\n{block}"
            );
            mark == "sh"
        });
        for (number, (_, mut block)) in commands.enumerate() {
            count += 1;
            let about = format!("{name}, command block {number}");
            if let Some(other) = OF_OTHERS.iter().find(|other| block.starts_with(**other)) {
                unused.retain(|what| what != other);
                continue;
            }
            for (what, instead) in INSTEAD {
                if block.contains(what) {
                    unused.retain(|unused| *unused != what);
                    block = block.replace(what, instead);
                }
            }
            for (.., script) in BEFORE.iter().filter(|(document, at, _)| (*document, *at) == (name, number)) {
                run(&here, script, &about);
            }
            run(&here, &block, &about);
        }
    }
    assert!(count >= 8, "{count} blocks were found");
    assert!(unused.is_empty(), "these are in no document any more: {unused:?}");
}
