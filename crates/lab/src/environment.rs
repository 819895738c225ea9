//! A description of the machine and the device of a comparison, for readers who want to repeat it.

use crate::report::document::{DeviceInfo, Environment};
use crate::stand::NO_DEVICE;
use platter_device::Device;
use std::path::Path;

/// Describes the machine, as far as Linux reports it to an ordinary user; unknown fields stay empty.
pub fn environment(device: DeviceInfo) -> Environment {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let after = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim_start_matches([' ', '\t', ':', '=']).trim_matches('"').trim().to_owned())
    };
    Environment {
        host: host(),
        cpu: after(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| std::env::consts::ARCH.into()),
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        memory_bytes: memory_bytes(),
        kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        os: after(&read("/etc/os-release"), "PRETTY_NAME=").unwrap_or_else(|| std::env::consts::OS.into()),
        platter_version: env!("CARGO_PKG_VERSION").into(),
        device,
    }
}

/// The machine's memory in bytes; 0 if it is unknown.
pub(crate) fn memory_bytes() -> u64 {
    memory_info("MemTotal:")
}

/// The memory that is available to programs, in bytes; 0 if it is unknown.
pub(crate) fn memory_available() -> u64 {
    memory_info("MemAvailable:")
}

/// Returns the value of a line of `/proc/meminfo` in bytes: proc_meminfo(5).
fn memory_info(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes = text.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_suffix(" kB"));
    kilobytes.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0) << 10
}

/// The memory in bytes that is left in the control groups of this process, as a container has them; [`u64::MAX`] where no
/// group has a limit.
pub(crate) fn memory_of_group() -> u64 {
    let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    memory_of_groups(&text, Path::new("/sys/fs/cgroup"))
}

/// As [`memory_of_group`], with the content of `/proc/self/cgroup` and the directory in which the groups are mounted
/// (cgroups(7)). A process is held by the limits of all groups above its own; pages of files that it only read or wrote
/// are given back before a limit is reached.
fn memory_of_groups(text: &str, mounted: &Path) -> u64 {
    let mut least = u64::MAX;
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
            let used = used.unwrap_or(0).saturating_sub(of_files.fold(0, u64::saturating_add));
            least = least.min(limit.saturating_sub(used));
        }
    }
    least
}

/// Describes the device under test: `name` is how people call it, `place` its path or the directory that it is in.
pub fn device_info(device: &dyn Device, name: &str, kind: &str, place: &Path) -> DeviceInfo {
    let on_host = !matches!(kind, "memory" | NO_DEVICE);
    let hardware = on_host.then(|| platter_device::hardware(place)).flatten();
    DeviceInfo {
        name: name.into(),
        kind: kind.into(),
        size_bytes: device.len(),
        logical_sector: device.sectors().logical,
        physical_sector: device.sectors().physical,
        model: hardware.as_ref().and_then(|hardware| hardware.model.clone()),
        firmware: hardware.as_ref().and_then(|hardware| hardware.firmware.clone()),
        rotational: hardware.as_ref().and_then(|hardware| hardware.rotational),
        host_file_system: if kind == "image" { platter_device::host_file_system(place) } else { None },
    }
}

/// The name of this machine.
pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_of_all_groups_above_counts() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let left = |text: &str| memory_of_groups(text, folder.path());
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
    }
}
