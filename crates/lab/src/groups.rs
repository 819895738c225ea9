//! Whether memory suffices, and the processor time that the control groups of this process give it.

use crate::{Error, Result};
use platter_device::host::{memory, memory_left};
use platter_device::show_size;
use std::path::{Path, PathBuf};

/// Fails if a device of `bytes` in memory and the buffers of its I/Os do not fit into the memory that this process may
/// use: otherwise the kernel would end it, or another program.
pub(crate) fn memory_is_there(name: &str, bytes: u64, buffers: u64) -> Result<()> {
    let needed = bytes.saturating_add(buffers);
    let there = memory().1.min(crate::host::memory_limit_of_process()).min(memory_left());
    if there > 0 && needed > there {
        return Err(Error::Job(format!(
            "{name} needs {} of memory with its I/Os, of which {} are free",
            show_size(needed),
            show_size(there)
        )));
    }
    Ok(())
}

/// A control group that this process is in, which limits its processor time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CpuGroup {
    /// The processors that the group may use at a time, on average over a period.
    pub processors: f64,
    /// The path of the group's `cpu.stat`.
    statistics: PathBuf,
}

/// How often and how long a group stopped its processes since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Throttled {
    /// Periods in which it stopped them.
    pub periods: u64,
    /// Seconds for which it stopped them, of all processors together.
    pub seconds: f64,
}

impl CpuGroup {
    /// The groups that limit the processor time of this process, as a container has them.
    pub(crate) fn all() -> Vec<CpuGroup> {
        if !cfg!(target_os = "linux") {
            return Vec::new();
        }
        let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        cpu_groups(&text, Path::new("/sys/fs/cgroup"))
    }

    /// How often and how long the group stopped its processes so far.
    pub(crate) fn throttled(&self) -> Throttled {
        let text = std::fs::read_to_string(&self.statistics).unwrap_or_default();
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(key, _)| *key == name).and_then(|(_, value)| value.trim().parse::<u64>().ok())
        };
        // Version 2 counts microseconds, version 1 nanoseconds.
        let seconds = match (value("throttled_usec"), value("throttled_time")) {
            (Some(micros), _) => micros as f64 / 1e6,
            (_, nanos) => nanos.unwrap_or(0) as f64 / 1e9,
        };
        Throttled { periods: value("nr_throttled").unwrap_or(0), seconds }
    }
}

/// As [`CpuGroup::all`], with the content of `/proc/self/cgroup` and the directory in which the groups are mounted
/// (cgroups(7); Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst).
fn cpu_groups(text: &str, mounted: &Path) -> Vec<CpuGroup> {
    let mut all: Vec<CpuGroup> = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let top = match controllers {
            "" if mounted.join("unified").is_dir() => mounted.join("unified"),
            "" => mounted.to_owned(),
            _ if controllers.split(',').any(|name| name == "cpu") => [controllers, "cpu"]
                .map(|name| mounted.join(name))
                .into_iter()
                .find(|path| path.is_dir())
                .unwrap_or_default(),
            _ => continue,
        };
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let group = top.join(group);
            let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
            let limit = match read("cpu.max") {
                Some(text) => {
                    text.trim().split_once(' ').map(|(quota, period)| (quota.to_owned(), period.to_owned()))
                }
                None => read("cpu.cfs_quota_us").zip(read("cpu.cfs_period_us")),
            };
            // Without a limit the quota is `max` or -1.
            let number = |text: String| text.trim().parse::<f64>().ok().filter(|number| *number > 0.0);
            let Some((quota, period)) = limit else { continue };
            if let (Some(quota), Some(period)) = (number(quota), number(period)) {
                all.push(CpuGroup { processors: quota / period, statistics: group.join("cpu.stat") });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_of_processors_and_what_they_stopped_are_read_in_both_versions() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let of = |text: &str| {
            let groups = cpu_groups(text, folder.path());
            groups.iter().map(|group| (group.processors, group.throttled())).collect::<Vec<_>>()
        };
        assert_eq!(of("0::/a/b\n"), []);
        put("a/b/cpu.max", "50000 100000\n");
        put("a/b/cpu.stat", "usage_usec 7\nnr_periods 9\nnr_throttled 4\nthrottled_usec 1500000\n");
        put("a/cpu.max", "max 100000\n");
        assert_eq!(of("0::/a/b\n"), [(0.5, Throttled { periods: 4, seconds: 1.5 })]);
        put("cpu/job/cpu.cfs_quota_us", "15000\n");
        put("cpu/job/cpu.cfs_period_us", "100000\n");
        put("cpu/job/cpu.stat", "nr_periods 9\nnr_throttled 3\nthrottled_time 2000000000\n");
        put("cpu/cpu.cfs_quota_us", "-1\n");
        put("cpu/cpu.cfs_period_us", "100000\n");
        assert_eq!(of("4:cpu,cpuacct:/job\n"), [(0.15, Throttled { periods: 3, seconds: 2.0 })]);
        assert_eq!(of("nonsense\n::\n7:cpu:/none\n"), []);
    }
}
