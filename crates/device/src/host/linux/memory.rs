//! Memory, of the machine and of the control groups of this process.

use std::path::Path;

/// The memory of the machine and what of it is available to programs, in bytes; 0 for what is unknown.
pub fn memory() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    (of_line(&text, "MemTotal:"), of_line(&text, "MemAvailable:"))
}

/// Returns the value of a line of `/proc/meminfo` in bytes: proc_meminfo(5).
fn of_line(text: &str, key: &str) -> u64 {
    let kilobytes = text.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_suffix(" kB"));
    kilobytes.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0) << 10
}

/// The smallest limit on memory of the control groups of this process, in bytes; `None` where there is none below the
/// machine's memory.
pub fn memory_limit() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = limits_of_groups(&text, Path::new("/sys/fs/cgroup")).map(|(limit, _)| limit).min()?;
    (limit < memory().0).then_some(limit)
}

/// The memory in bytes that is left in the control groups of this process, as a container has them; [`u64::MAX`] where no
/// group has a limit.
pub fn memory_left() -> u64 {
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    left_in_groups(&text, Path::new("/sys/fs/cgroup"))
}

/// As [`memory_left`], with the content of `/proc/self/cgroup` and the directory in which the groups are mounted.
/// Pages of files that a process only read or wrote are given back before a limit is reached.
fn left_in_groups(text: &str, mounted: &Path) -> u64 {
    limits_of_groups(text, mounted).map(|(limit, used)| limit.saturating_sub(used)).min().unwrap_or(u64::MAX)
}

/// The limit in bytes of each group that the process is in, and what of it is used: a process is held by the limits of
/// all groups above its own (cgroups(7)).
fn limits_of_groups(text: &str, mounted: &Path) -> impl Iterator<Item = (u64, u64)> {
    let mut limits = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let version_2 = (["memory.max", "memory.current"], ["inactive_file", "active_file"]);
        let version_1 = (
            ["memory.limit_in_bytes", "memory.usage_in_bytes"],
            ["total_inactive_file", "total_active_file"],
        );
        let (top, (names, cached)) = match controllers {
            "" if mounted.join("unified").is_dir() => (mounted.join("unified"), version_2),
            "" => (mounted.to_owned(), version_2),
            _ if controllers.split(',').any(|name| name == "memory") => (mounted.join("memory"), version_1),
            _ => continue,
        };
        // In a container the path may be that of the host, of which only the last group is mounted: at the top.
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            let group = top.join(group);
            let number =
                |name: &str| std::fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
            let [limit, used] = names.map(number);
            let Some(limit) = limit else { continue };
            let statistics = std::fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
            let of_files = statistics.lines().filter_map(|line| {
                let (name, bytes) = line.split_once(' ')?;
                bytes.trim().parse::<u64>().ok().filter(|_| cached.contains(&name))
            });
            limits.push((limit, used.unwrap_or(0).saturating_sub(of_files.fold(0, u64::saturating_add))));
        }
    }
    limits.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let text = "MemTotal:       24689764 kB\nMemFree: 7 kB\nHugePages_Total:       0\n";
        assert_eq!(
            ["MemTotal:", "MemFree:", "MemAvailable:", "HugePages_Total:"].map(|key| of_line(text, key)),
            [24_689_764 << 10, 7 << 10, 0, 0]
        );
        assert!(memory().0 >= memory().1 && memory().1 > 0);
    }

    #[test]
    fn the_smallest_limit_of_all_groups_above_counts() {
        let folder = std::env::temp_dir().join(format!("platter-groups-{}", std::process::id()));
        let put = |path: &str, text: &str| {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let left = |text: &str| left_in_groups(text, &folder);
        assert_eq!(left("0::/a/b\n"), u64::MAX);
        put("a/memory.max", "1000\n");
        put("a/memory.current", "700\n");
        put("a/memory.stat", "anon 300\nactive_file 250\ninactive_file 150\nfile 500\n");
        put("a/b/memory.max", "max\n");
        assert_eq!((left("0::/a/b\n"), left("0::/a\n"), left("0::/c\n")), (700, 700, u64::MAX));
        // The group at the top is that of a container, whatever its path on the host is.
        put("memory.max", "400\n");
        assert_eq!(left("0::/a/b\n"), 400);
        assert_eq!(left("0::/docker/5c2a\n"), 400);
        put("memory/job/memory.limit_in_bytes", "300\n");
        put("memory/job/memory.usage_in_bytes", "100\n");
        put("memory/job/memory.stat", "cache 90\ntotal_inactive_file 60\ntotal_active_file 20\n");
        put("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(left("12:cpu,cpuacct:/job\n5:memory:/job\n"), 280);
        assert_eq!(left("not one of them\n::\n5:memory\n"), 400.min(left("::\n")));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
