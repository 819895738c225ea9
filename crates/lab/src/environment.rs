//! A description of the machine and the device of a comparison, for readers who want to repeat it.

use crate::document::{DeviceInfo, Environment};
use crate::groups::CpuGroup;
use crate::host::{Beneath, system};
use crate::stand::{MODEL, NO_DEVICE};
use platter_device::Device;
use std::path::Path;

/// Describes the machine, as far as the system reports it to an ordinary user; unknown fields stay empty.
pub fn environment(device: DeviceInfo) -> Environment {
    if device.kind == MODEL {
        return in_virtual_time(device);
    }
    let system = system();
    Environment {
        host: system.host,
        machine_id: machine_id(&system.machine_id),
        cpu: system.cpu.unwrap_or_else(|| std::env::consts::ARCH.into()),
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        memory_bytes: platter_device::host::memory().0,
        kernel: system.kernel,
        os: system.os.unwrap_or_else(|| std::env::consts::OS.into()),
        platter_version: env!("CARGO_PKG_VERSION").into(),
        io: Some(if device.kind == "memory" { "memory".into() } else { Beneath::this().way_of_io() }),
        cpu_quota: CpuGroup::all().iter().map(|group| group.processors).min_by(f64::total_cmp),
        throttled_periods: None,
        other_load: None,
        memory_limit_bytes: platter_device::host::memory_limit(),
        governor: Beneath::this().governor(),
        power_plan: Beneath::this().power_plan(),
        real_time_protection: Beneath::this().real_time_protection(),
        device,
    }
}

/// Describes no machine: what runs in virtual time is the same on each.
fn in_virtual_time(device: DeviceInfo) -> Environment {
    Environment {
        host: "virtual time".into(),
        machine_id: None,
        cpu: "none: processors take no time, but what the model says".into(),
        cores: 1,
        memory_bytes: 0,
        kernel: "none".into(),
        os: "none".into(),
        platter_version: env!("CARGO_PKG_VERSION").into(),
        io: Some("virtual time".into()),
        cpu_quota: None,
        throttled_periods: None,
        other_load: None,
        memory_limit_bytes: None,
        governor: None,
        power_plan: None,
        real_time_protection: None,
        device,
    }
}

/// Describes the device under test: `name` is how people call it, `place` its path or the directory that it is in.
pub fn device_info(device: &dyn Device, name: &str, kind: &str, place: &Path) -> DeviceInfo {
    let on_host = !matches!(kind, "memory" | NO_DEVICE | MODEL);
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
        host_ways: if kind == "image" { Beneath::this().ways_of_host(place) } else { None },
        in_memory: if on_host { Beneath::this().memory(place) } else { None },
        write_cache: if on_host { Beneath::this().write_cache(place) } else { None },
    }
}

/// An identifier that follows from the content of `/etc/machine-id`, which is confidential: machine-id(5) asks for a
/// hash with a key of the program's own where it is shown.
fn machine_id(text: &str) -> Option<String> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let id = text.trim();
    let is_id = id.len() == 32 && id.chars().all(|letter| letter.is_ascii_hexdigit());
    is_id.then(|| {
        let mut hasher = DefaultHasher::new();
        ("platter-report", id).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    })
}

/// The name of this machine.
pub(crate) fn host() -> String {
    system().host
}
