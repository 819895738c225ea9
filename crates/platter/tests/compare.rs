//! `platter compare`, `run` and `report`, run as from a shell.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Makes an empty directory for one test.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn platter(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_platter")).args(arguments).current_dir(directory).output().unwrap()
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Reads the JSON report that a comparison wrote.
fn report_in(here: &Path) -> Value {
    let text = std::fs::read_to_string(here.join("platter-report/report.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// An image's space is allocated in full before the first target is measured, and stays allocated, so that no target
/// pays for the allocation.
#[test]
fn an_image_is_provided_in_full_before_it_is_measured_on() {
    let here = directory("provided");
    let image = here.join("image.img");
    let blocks = |path: &Path| std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).unwrap());
    std::fs::File::create(&image).unwrap().set_len(96 << 20).unwrap();
    assert_eq!(blocks(&image), 0);
    let common =
        ["compare", "--device", "image.img", "--force", "--targets", "raw,ntfs,raw", "--span", "16M"];
    let rest = ["--time", "0.05", "--repeat", "1", "--workloads", "iometer"];
    succeeded(&platter(&here, &[&common[..], &rest].concat()));
    assert!(blocks(&image) >= (96 << 20) / 512, "{} blocks", blocks(&image));
}

#[test]
fn a_report_tells_volumes_with_integrity_from_those_without() {
    let here = directory("titles");
    let common = ["compare", "--device", "mem:512M", "--targets", "refs,refs+integrity", "--span", "16M"];
    let rest = ["--time", "0.02", "--repeat", "1", "--workloads", "overhead"];
    succeeded(&platter(&here, &[&common[..], &rest].concat()));
    let report = report_in(&here);
    let titles: Vec<&str> = report["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|target| target["title"].as_str().unwrap())
        .collect();
    assert_eq!(titles, ["ReFS 3.14, 4 KiB clusters", "ReFS 3.14, 4 KiB clusters, integrity on"]);

    let shown = |path: &str| succeeded(&platter(&here, &["report", path]));
    assert_eq!(shown("platter-report"), shown("platter-report/report.json"));
    let above = platter(&here, &["report", "."]);
    let said = String::from_utf8_lossy(&above.stderr);
    assert!(!above.status.success() && said.contains("--group-by"), "{said}");
}

#[test]
fn the_first_command_asks_the_question_of_all_file_systems_under_both_workloads() {
    let here = directory("first");
    let text = succeeded(&platter(&here, &["compare", "--time", "0.12", "--span", "16M"]));
    for name in ["report.json", "report.html", "report.md", "report.csv"] {
        assert!(text.contains(&format!("wrote platter-report/{name}")), "{text}");
    }
    assert!(text.starts_with("Which file system here, and what does integrity cost?\n"), "{text}");
    // The temporary image and the file of the directory target were removed.
    let mut left: Vec<_> = std::fs::read_dir(here.join("platter-report"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["report.csv", "report.html", "report.json", "report.md"]);
    let report = report_in(&here);
    assert!(report["partial"].is_null() && report["settings"]["own_regions"] == true);
    let results = report["results"].as_array().unwrap();
    let targets = ["raw", "ntfs", "refs", "refs+integrity", "exfat", "fat32", "dir:platter-report"];
    for target in targets {
        for (workload, cases) in [("iometer", 3), ("crystaldiskmark", 8)] {
            let rows: Vec<&Value> =
                results.iter().filter(|row| row["target"] == target && row["workload"] == workload).collect();
            assert_eq!(rows.len(), cases, "{target} {workload}");
            for row in rows {
                assert!(
                    row["iops"].as_f64().unwrap() > 0.0 && row["latency_us"]["p50"].as_f64().unwrap() > 0.0
                );
                let slices = row["runs"][0]["slices"].as_array().unwrap();
                assert!(row["runs"].as_array().unwrap().len() == 1 && !slices.is_empty());
                let bases: Vec<&str> = row["estimates"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|estimate| estimate["base"].as_str().unwrap())
                    .collect();
                let expected: &[&str] = match target {
                    "raw" => &[],
                    "refs" => &["raw", "ntfs"],
                    "refs+integrity" => &["raw", "refs"],
                    _ => &["raw"],
                };
                assert_eq!(bases, expected, "{target}");
            }
        }
    }
    let again = succeeded(&platter(&here, &["report", "platter-report/report.json", "--markdown"]));
    assert_eq!(again, std::fs::read_to_string(here.join("platter-report/report.md")).unwrap());
    let based = succeeded(&platter(&here, &["report", "platter-report/report.json", "--base", "ntfs"]));
    assert!(based.contains("% of ntfs"), "{based}");
    let diff = ["report", "platter-report/report.json", "platter-report/report.json"];
    assert!(!succeeded(&platter(&here, &diff)).is_empty());
}

/// A device without room for a region of each target is formatted anew for each target in turn, and the report says
/// so.
#[test]
fn a_small_device_is_shared_in_turns() {
    let here = directory("turns");
    std::fs::File::create(here.join("small.img")).unwrap().set_len(96 << 20).unwrap();
    let common =
        ["compare", "--device", "small.img", "--force", "--targets", "raw,ntfs,exfat", "--span", "16M"];
    let rest = ["--time", "0.05", "--repeat", "4", "--workloads", "overhead"];
    let text = succeeded(&platter(&here, &[&common[..], &rest].concat()));
    assert!(text.contains("no room for every target at once"), "{text}");
    let report = report_in(&here);
    assert_eq!(report["settings"]["own_regions"], false);
    for row in report["results"].as_array().unwrap() {
        assert_eq!(row["runs"].as_array().unwrap().len(), 4);
        let estimates = row["estimates"].as_array().unwrap();
        assert!(estimates.iter().all(|estimate| estimate["passes"] == 4 && estimate["low"].is_number()));
    }
}

#[test]
fn every_block_of_a_verified_run_reads_back() {
    let here = directory("verified");
    let arguments =
        "run iometer --target fat16:16k --device mem:128M --span 16M --time 0.05 --repeat 1 --verify --json";
    let report: Value =
        serde_json::from_str(&succeeded(&platter(&here, &arguments.split(' ').collect::<Vec<_>>()))).unwrap();
    let runs: Vec<&Value> = report["results"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|row| row["runs"].as_array().unwrap())
        .collect();
    assert_eq!(runs.len(), 3);
    assert!(runs.iter().any(|run| run["verified_blocks"].as_u64().unwrap() > 0));
    assert!(runs.iter().all(|run| run["corrupted_blocks"] == 0));
}

/// Slices verify the blocks that earlier slices wrote.
#[test]
fn every_block_reads_back_over_slices() {
    let here = directory("verified-slices");
    let arguments = "compare --workloads overhead --targets raw,ntfs,refs+integrity --device mem:1152M --span 16M \
                     --time 0.7 --verify";
    succeeded(&platter(&here, &arguments.split_whitespace().collect::<Vec<_>>()));
    let report = report_in(&here);
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 12);
    for row in results {
        let run = &row["runs"][0];
        // On a slow machine a slice takes longer, up to a third of the measured time.
        assert!(run["slices"].as_array().unwrap().len() >= 3);
        let reads = row["direction"] == "read";
        assert_eq!(run["verified_blocks"].as_u64().unwrap() > 0, reads);
        assert_eq!(run["corrupted_blocks"], 0);
    }
}

#[test]
fn a_mirror_is_a_device_too() {
    let here = directory("mirror");
    let arguments = "run iometer --target fat16:16k --device mirror:a.img,b.img --span 16M --time 0.1 --repeat 1 \
                     --verify --json";
    let run = || platter(&here, &arguments.split_whitespace().collect::<Vec<_>>());
    let report: Value = serde_json::from_str(&succeeded(&run())).unwrap();
    assert_eq!(report["environment"]["device"]["kind"], "mirror");
    assert_eq!(report["environment"]["device"]["name"], "mirror:a.img,b.img");
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    assert!(results.iter().all(|row| row["runs"][0]["corrupted_blocks"] == 0));
    let [one, two] = ["a.img", "b.img"].map(|name| std::fs::read(here.join(name)).unwrap());
    assert!(one == two && one.len() > 16 << 20);
    // What an earlier run left is nobody's data. An image with a file system that somebody made there since is refused as a
    // copy of the mirror, the first as well as the second.
    succeeded(&run());
    let is_refused = |name: &str| {
        succeeded(&platter(&here, &["mkfs", "fat16", name, "--force"]));
        let refused = run();
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && error.contains(&format!("{name}: holds a FAT")), "{error}");
    };
    is_refused("a.img");
    std::fs::write(here.join("a.img"), []).unwrap();
    is_refused("b.img");
}

#[test]
fn a_file_system_is_not_overwritten_without_force() {
    let here = directory("protected");
    succeeded(&platter(&here, &["mkfs", "fat32", "disk.img", "--size", "64M", "--label", "PRECIOUS"]));
    let before = std::fs::read(here.join("disk.img")).unwrap();
    let arguments =
        ["run", "iometer", "--device", "disk.img", "--span", "8M", "--time", "0.01", "--repeat", "1"];
    let refused = platter(&here, &arguments);
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && error.contains("FAT") && error.contains("--force"), "{error}");
    assert!(std::fs::read(here.join("disk.img")).unwrap() == before);
    succeeded(&platter(&here, &[&arguments[..], &["--force"]].concat()));
}

#[test]
fn wrong_names_are_answered_with_what_there_is() {
    let here = directory("wrong");
    let error = |arguments: &[&str]| {
        let output = platter(&here, arguments);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(error(&["run", "iometr"]).contains("crystaldiskmark"));
    assert!(error(&["run", "iometer", "--target", "hfs"]).contains("fat32"));
    assert!(error(&["run", "iometer", "--target", "dir:/nowhere"]).contains("No such file"));
    assert!(error(&["run", "iometer", "--durability", "perhaps"]).contains("write-through"));
    std::fs::write(here.join("odd.fio"), "[a]\nrw=read\nsize=1m\ndirect=1\nzonemode=zbd\n").unwrap();
    assert!(error(&["run", "odd.fio"]).contains("zonemode=zbd"));
    assert!(error(&["report"]).contains("Usage"));
}

/// Names and values of a file of others reach the terminal without their control characters.
#[test]
fn messages_hold_no_control_characters() {
    let here = directory("escapes");
    std::fs::write(here.join("odd.fio"), "[a]\nrw=re\x1b]0\x07ad\nsize=1m\n").unwrap();
    let output = platter(&here, &["run", "odd.fio", "--device", "mem:64M"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("line 2: rw=re?]0?ad: expected read"), "{error:?}");
}

/// Sends a signal to a comparison once its report can tell something, and returns the exit code.
fn ended_by(signal: &str, here: &Path, before: &[&str]) -> Option<i32> {
    std::fs::write(
        here.join("long.fio"),
        "[a]\nrw=randread\nbs=4k\nsize=8m\ntime_based\nruntime=60\ndirect=1\n",
    )
    .unwrap();
    let own = [env!("CARGO_BIN_EXE_platter"), "compare", "--workloads", "long.fio", "--device", "mem:64M"];
    // The tests themselves may run under nohup(1).
    let heard = ["env", "--default-signal=HUP"];
    let all: Vec<&str> =
        heard.iter().chain(before).chain(&own).chain(&["--targets", "raw"]).copied().collect();
    let mut child = Command::new(all[0])
        .args(&all[1..])
        .current_dir(here)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    let process = child.id().to_string();
    let kill = |signal: &str| Command::new("kill").args([signal, &process]).status().unwrap();
    assert!(kill(signal).success());
    if !before.is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(1500));
        assert!(child.try_wait().unwrap().is_none(), "{signal} ended it though it was ignored");
        assert!(kill("-TERM").success());
    }
    child.wait().unwrap().code()
}

#[test]
fn the_end_of_the_terminal_keeps_what_was_measured() {
    let here = directory("hangup");
    assert_eq!(ended_by("-HUP", &here, &[]), Some(130));
    assert!(report_in(&here)["partial"].as_str().unwrap().contains("interrupted"));
    // A program that nohup(1) starts goes on.
    let here = directory("no-hangup");
    assert_eq!(ended_by("-HUP", &here, &["nohup"]), Some(130));
}

/// A refused endurance run leaves no image behind in which the command without the mistake would stumble.
#[test]
fn a_refused_endurance_run_leaves_no_image() {
    let here = directory("no-image");
    let run = |size: &str| {
        let own = ["endurance", "--device", "d.img", "--target", "raw", "--time", "0.3s", "--every", "0.1s"];
        platter(&here, &[&own[..], &["--size", size, "--out", "run"]].concat())
    };
    assert!(!run("100").status.success() && !here.join("d.img").exists());
    assert!(!run("8k").status.success() && !here.join("d.img").exists());
    succeeded(&run("32M"));
    assert!(here.join("d.img").exists());
    // What was there before stays, also after a refusal.
    assert!(!run("32M").status.success() && here.join("d.img").exists());
}

/// DiskSpd's options follow `--`; the named file is not changed, and the output has DiskSpd's form.
#[test]
fn a_command_line_of_diskspd_runs_as_it_is() {
    let here = directory("diskspd");
    std::fs::write(here.join("data"), vec![7; 1 << 20]).unwrap();
    let text = succeeded(&platter(
        &here,
        &["run", "diskspd", "--", "-b4K", "-o2", "-r", "-w50", "-d1", "-W0", "-L", "data"],
    ));
    assert!(text.contains("Results for timespan 1:") && text.contains("data (1MiB)"), "{text}");
    assert!(std::fs::read(here.join("data")).unwrap().iter().all(|&byte| byte == 7));
    let profile = succeeded(&platter(&here, &["run", "diskspd", "--", "-Rpxml", "-b4K", "-c1M", "other"]));
    std::fs::write(here.join("profile.xml"), profile).unwrap();
    let memory = [
        "run",
        "diskspd",
        "--target",
        "refs",
        "--device",
        "mem:1G",
        "--",
        "-Xprofile.xml",
        "-d1",
        "-W0",
        "-Rxml",
    ];
    let xml = succeeded(&platter(&here, &memory));
    assert!(xml.starts_with("<Results>") && xml.contains("<Path>other</Path>"), "{xml}");
    let compared = ["run", "profile.xml", "--device", "mem:64M", "--time", "0.1", "--json"];
    succeeded(&platter(&here, &compared));
    let refused = platter(&here, &["run", "diskspd", "--", "-Sm", "-c1M", "x"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("-Sm: I/O through mapped memory"), "{said}");
    assert_eq!(platter(&here, &["run", "overhead", "--", "-b4K"]).status.code(), Some(2));
}

/// A configuration that Iometer saved runs unchanged, and its results do not overwrite an existing file.
#[test]
fn a_configuration_of_iometer_runs_as_it_is() {
    let here = directory("iometer");
    let text = include_str!("../../lab/tests/sample/two-specifications.icf");
    std::fs::write(here.join("test.icf"), text).unwrap();
    let run = ["run", "test.icf", "--device", "mem:128M", "--time", "0.1", "--results", "results.csv"];
    assert!(succeeded(&platter(&here, &run)).contains("75% Read"));
    let csv = std::fs::read_to_string(here.join("results.csv")).unwrap();
    assert!(csv.contains("\nALL,All,4 KiB aligned; 75% Read; 100% random,1,4,1,"), "{csv}");
    let again = platter(&here, &run);
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("exists"));
    assert_eq!(std::fs::read_to_string(here.join("results.csv")).unwrap(), csv);
    let other = platter(&here, &["run", "overhead", "--results", "x.csv"]);
    assert_eq!(other.status.code(), Some(2));
}

#[test]
fn small_files_are_counted_by_the_second() {
    let here = directory("small-files");
    let text = succeeded(&platter(
        &here,
        &["run", "small-files", "--target", "exfat", "--device", "mem:1G", "--json"],
    ));
    let report: Value = serde_json::from_str(&text).unwrap();
    let results = report["results"].as_array().unwrap();
    let names: Vec<&str> = results.iter().map(|result| result["case"].as_str().unwrap()).collect();
    assert_eq!(names, ["create", "list", "stat", "read", "rename", "delete"]);
    for result in results {
        let run = &result["runs"][0];
        let files = run["iops"].as_f64().unwrap() * run["seconds"].as_f64().unwrap();
        assert_eq!(files.round(), 6250.0, "{}", result["case"]);
        assert_eq!(result["warnings"].as_array().unwrap().len(), 0, "{}", result["case"]);
    }
}

/// NTFS has no clones, so the base has no row of them; the row of ReFS is then shown in MB/s.
#[test]
fn a_backup_of_clones_is_a_row_where_there_are_clones() {
    let here = directory("backup");
    let common = ["compare", "--device", "mem:1G", "--targets", "ntfs,refs", "--workloads"];
    let text = succeeded(&platter(&here, &[&common[..], &["synthetic-full"]].concat()));
    let row = text.lines().find(|line| line.contains("synthetic full by block clone")).unwrap();
    assert!(row.trim_end().ends_with(" MB/s") && row.contains('–'), "{row}");
    assert!(text.contains("ntfs has no row synthetic full by block clone"), "{text}");
    for wrong in [&["synthetic-full,overhead"][..], &["overhead", "--age"]] {
        assert_eq!(platter(&here, &[&common[..], wrong].concat()).status.code(), Some(2), "{wrong:?}");
    }
}

/// An aged volume is a target of its own, and the report says how fragmented it is.
#[test]
fn a_load_on_an_aged_volume_stands_beside_the_fresh_one() {
    let here = directory("aged");
    let line =
        ["compare", "--device", "mem:384M", "--targets", "exfat", "--workloads", "database-commit", "--age"];
    succeeded(&platter(&here, &line));
    let report = report_in(&here);
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("exfat aged: ") && warnings.contains("a file of 16 MiB lies in"), "{warnings}");
    let names: Vec<&str> =
        report["targets"].as_array().unwrap().iter().map(|target| target["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["exfat", "exfat aged"]);
    assert_eq!(report["results"].as_array().unwrap().len(), 2);
}

/// Databases and logs may be on separate volumes, and the report says what the storage did for each.
#[test]
fn jetstress_tells_databases_and_logs_apart() {
    let here = directory("jetstress");
    let common = ["compare", "--device", "mem:3G", "--workloads", "jetstress", "--time", "0.3"];
    let both = ["--volumes", "db=ntfs:64k,log=ntfs:4k", "--volumes", "refs:64k"];
    let text = succeeded(&platter(&here, &[&common[..], &both].concat()));
    assert!(text.contains("all databases whole") && text.contains("passed with 16 threads"), "{text}");
    let report = report_in(&here);
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 2 * 3 * 4);
    for result in results {
        let case = result["case"].as_str().unwrap();
        let run = &result["runs"][0];
        let [reads, writes] = ["reads", "writes"].map(|way| run["requested"][way].as_u64().unwrap());
        match case.split_once(": ") {
            Some((_, "database reads")) => assert!(reads > 0 && writes == 0, "{case}"),
            Some((_, "database writes" | "log writes")) => assert!(writes > 0 && reads == 0, "{case}"),
            _ => {
                assert!(reads > 0 && writes > 0, "{case}");
                // Each write is durable when it returns, so it needs a flush.
                assert!(run["device"]["flushes"].as_u64().unwrap() >= writes, "{case}");
            }
        }
    }
    for wrong in
        [&["--volumes", "db=ntfs"][..], &["--targets", "refs", "--volumes", "ntfs"], &["--span", "1M"]]
    {
        assert_eq!(platter(&here, &[&common[..], wrong].concat()).status.code(), Some(2), "{wrong:?}");
    }
    let elsewhere = ["compare", "--device", "mem:64M", "--workloads", "overhead", "--volumes", "refs"];
    assert_eq!(platter(&here, &elsewhere).status.code(), Some(2));
}

/// Loads on files have reports like other loads, and each removal policy is a target of its own.
#[test]
fn naspt_tells_what_a_removal_policy_costs() {
    let here = directory("naspt");
    let common = ["compare", "--device", "mem:1G", "--targets", "fat32", "--workloads", "naspt"];
    let text = succeeded(&platter(
        &here,
        &[&common[..], &["--policy", "quick-removal,better-performance"]].concat(),
    ));
    assert!(text.contains("NASPerf-APP fat32 quick-removal"), "{text}");
    let report = report_in(&here);
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 24);
    let commands = |policy: &str| {
        let of = |result: &&Value| result["case"] == "Dir copy to NAS" && result["durability"] == policy;
        let device = &results.iter().find(of).unwrap()["runs"][0]["device"];
        device["writes"].as_u64().unwrap() + device["flushes"].as_u64().unwrap()
    };
    assert!(commands("quick-removal") >= 3 * commands("better-performance"));
    assert!(results.iter().all(|result| result["shape"].as_str().unwrap().starts_with(['V', 'R'])));
    let tables: Vec<_> = std::fs::read_dir(here.join("platter-report"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().contains("NASPerf-APP"))
        .collect();
    assert_eq!(tables.len(), 2);
    // Rows 3 to 14 are the loads.
    let rows: Vec<String> = std::fs::read_to_string(&tables[0]).unwrap().lines().map(str::to_owned).collect();
    assert!(
        rows.len() == 14 && rows[2].starts_with("HD Video Playback,") && rows[13].starts_with("Photo Album,")
    );
    for wrong in [&["--time", "1"][..], &["--workloads", "naspt,iometer"], &["--policy", "fast"]] {
        let base = ["compare", "--device", "mem:1G", "--targets", "fat32"];
        let workload: &[&str] = if wrong[0] == "--workloads" { &[] } else { &["--workloads", "naspt"] };
        assert_eq!(
            platter(&here, &[&base[..], workload, wrong].concat()).status.code(),
            Some(2),
            "{wrong:?}"
        );
    }
}

#[test]
fn a_sweep_makes_a_target_of_each_cluster_size() {
    let here = directory("sweep");
    let common = [
        "compare",
        "--device",
        "mem:512M",
        "--targets",
        "raw,ntfs,refs,exfat:8k",
        "--sweep",
        "cluster=4k,64k",
    ];
    let short = ["--workloads", "overhead", "--time", "0.01", "--span", "1M", "--repeat", "1"];
    succeeded(&platter(&here, &[&common[..], &short].concat()));
    let report = report_in(&here);
    let names: Vec<&str> =
        report["targets"].as_array().unwrap().iter().map(|target| target["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["raw", "ntfs:4k", "ntfs:64k", "refs:4k", "refs:64k", "exfat:8k"]);
    for wrong in [
        &["--sweep", "cluster=x"][..],
        &["--sweep", "block=4k"],
        &["--targets", "raw", "--sweep", "cluster=4k,8k"],
    ] {
        let output = platter(&here, &[&["compare", "--device", "mem:64M"], wrong, &short].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

/// A program of the user's on two directories: a real run, short, in all forms of the report.
#[test]
fn a_program_is_compared_in_two_directories() {
    let here = directory("programs");
    std::fs::create_dir(here.join("one")).unwrap();
    std::fs::create_dir(here.join("two")).unwrap();
    std::fs::write(here.join("text"), "what is read\n").unwrap();
    let common = ["compare", "--targets", "dir:one,dir:two", "--repeat", "4", "--warmup", "0"];
    let setup = ["--setup", "cp \"$PLATTER_FROM/text\" ."];
    let rest = ["--command", "cat text", "--command", "cp text other", "--conclude", "rm -f other"];
    let text = succeeded(&platter(&here, &[&common[..], &setup, &rest].concat()));
    assert!(text.contains("cat text") && text.contains("dir:one time"), "{text}");
    let report = report_in(&here);
    let results = report["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    for result in results {
        assert_eq!(result["runs"][0]["slices"].as_array().unwrap().len(), 4);
        assert_eq!(result["estimates"].as_array().unwrap().len(), usize::from(result["target"] == "dir:two"));
    }
    let csv = std::fs::read_to_string(here.join("platter-report/report.csv")).unwrap();
    assert!(csv.contains("dir:two,programs,cp text other,"), "{csv}");
    for form in ["html", "md"] {
        let page = std::fs::read_to_string(here.join(format!("platter-report/report.{form}"))).unwrap();
        assert!(page.contains("cp text other"), "{form}");
    }
    assert!(["one", "two"].iter().all(|name| std::fs::read_dir(here.join(name)).unwrap().count() == 0));

    let refused = |arguments: &[&str], code: i32| {
        let output = platter(&here, &[&["compare"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        said
    };
    let failing = ["--targets", "dir:one", "--out", "failing", "--command", "echo no such thing; exit 5"];
    assert!(
        refused(&failing, 1).contains("`echo no such thing; exit 5` ended with exit code 5: no such thing")
    );
    assert!(!here.join("failing").exists(), "nothing was measured");
    assert!(refused(&["--targets", "raw", "--command", "true"], 2).contains("raw: it has no files"));
    refused(&["--targets", "dir:one", "--prepare", "true"], 2);
    refused(&["--targets", "dir:one", "--command", "true", "--workloads", "overhead"], 2);
    refused(&["--targets", "dir:one", "--command", "true", "--verify"], 2);
    refused(&["--targets", "dir:one", "--command", " "], 2);
    let uneven = ["--targets", "dir:one", "--command", "a", "--command", "b", "--command", "c"];
    refused(&[&uneven[..], &["--prepare", "x", "--prepare", "y"]].concat(), 2);
}

#[test]
fn a_recorded_load_is_replayed_and_a_malformed_one_refused_with_its_line() {
    let here = directory("replay");
    let lines: String =
        (0..200).map(|number| format!("{number} /f read {} 4096\n", number % 50 * 8192)).collect();
    std::fs::write(here.join("log"), format!("fio version 3 iolog\n0 /f add\n{lines}")).unwrap();
    let compare = ["compare", "--device", "mem:96M", "--targets", "raw,exfat", "--workloads"];
    let text = succeeded(&platter(&here, &[&compare[..], &["replay-fast@4:log"]].concat()));
    assert!(text.contains("Replay of log"), "{text}");
    let report = report_in(&here);
    for result in report["results"].as_array().unwrap() {
        assert_eq!(result["runs"][0]["requested"]["reads"], 200);
        assert_eq!((&result["queue_depth"], &result["direction"]), (&4.into(), &"read".into()));
    }
    std::fs::write(here.join("wrong"), "fio version 3 iolog\n0 /f add\n1 /f read many 4096\n").unwrap();
    let output = platter(&here, &[&compare[..], &["replay:wrong"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("line 3: expected an offset"), "{said}");
    let output = platter(&here, &[&compare[..], &["replay:log", "--verify"]].concat());
    assert!(!output.status.success(), "what was not written in these blocks cannot be verified");
}

#[test]
fn a_difference_that_is_to_be_told_is_in_the_report() {
    let here = directory("until");
    let common = [
        "compare",
        "--device",
        "mem:96M",
        "--targets",
        "raw,exfat",
        "--span",
        "8M",
        "--workloads",
        "overhead",
    ];
    succeeded(&platter(
        &here,
        &[&common[..], &["--until", "60%", "--time", "0.8", "--repeat", "1"]].concat(),
    ));
    let report = report_in(&here);
    assert_eq!(report["settings"]["until_percent"], 60.0);
    let answer = report["answer"].to_string();
    assert!(answer.contains("difference of 60\u{a0}%"), "{answer}");
    // No case is longer than its time, in slices of at least 30 ms.
    for result in report["results"].as_array().unwrap() {
        assert!(result["runs"][0]["slices"].as_array().unwrap().len() <= 27);
    }
    let output = platter(&here, &[&common[..], &["--until", "0"]].concat());
    assert_eq!(output.status.code(), Some(2));
}
