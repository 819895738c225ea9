//! The power plan of this Windows, and what its registry says of Defender.

use crate::host::settings::{self, Settings};
use std::io;
use windows_sys::Win32::Foundation::{ERROR_FILE_NOT_FOUND, LocalFree};
use windows_sys::Win32::System::Power::{PowerGetActiveScheme, PowerReadFriendlyName};
use windows_sys::Win32::System::Registry::{
    HKEY, HKEY_LOCAL_MACHINE, KEY_QUERY_VALUE, KEY_WOW64_64KEY, RRF_RT_REG_DWORD, RegCloseKey, RegGetValueW,
    RegOpenKeyExW,
};
use windows_sys::core::GUID;

/// The name of the active power plan, or `unknown`.
pub fn power_plan() -> String {
    settings::power_plan(&ThisWindows)
}

/// Whether Defender's real-time protection is on, according to the registry: `on`, `off`, `off by policy` or `unknown`.
pub fn real_time_protection() -> &'static str {
    settings::real_time_protection(&ThisWindows)
}

/// The Windows that this program runs on.
struct ThisWindows;

fn done(code: u32) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code as i32)) }
}

/// A text as the system takes it: with a zero at its end.
fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

fn identifier(plan: [u8; 16]) -> GUID {
    let [a, b, c, d, e, f, g, h, rest @ ..] = plan;
    GUID {
        data1: u32::from_le_bytes([a, b, c, d]),
        data2: u16::from_le_bytes([e, f]),
        data3: u16::from_le_bytes([g, h]),
        data4: rest,
    }
}

impl Settings for ThisWindows {
    fn active_plan(&self) -> io::Result<[u8; 16]> {
        let mut plan: *mut GUID = std::ptr::null_mut();
        // SAFETY: the first argument is reserved, and the system stores a pointer in the second, which is live.
        done(unsafe { PowerGetActiveScheme(std::ptr::null_mut(), &raw mut plan) })?;
        if plan.is_null() {
            return Err(io::Error::other("the system names no power plan"));
        }
        // SAFETY: the call succeeded, so the pointer is to an identifier, which belongs to the caller until it is freed.
        let found = unsafe { plan.read() };
        // SAFETY: it was allocated by the system, is to be freed so, and is not used any more.
        unsafe { LocalFree(plan.cast()) };
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&found.data1.to_le_bytes());
        bytes[4..6].copy_from_slice(&found.data2.to_le_bytes());
        bytes[6..8].copy_from_slice(&found.data3.to_le_bytes());
        bytes[8..].copy_from_slice(&found.data4);
        Ok(bytes)
    }

    fn name_of_plan(&self, plan: [u8; 16]) -> io::Result<String> {
        let (plan, mut name) = (identifier(plan), [0_u16; 256]);
        let mut bytes = size_of_val(&name) as u32;
        // SAFETY: the identifier is live, what is not wanted is null, and the buffer is of the length that is named.
        done(unsafe {
            PowerReadFriendlyName(
                std::ptr::null_mut(),
                &raw const plan,
                std::ptr::null(),
                std::ptr::null(),
                name.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        })?;
        let end = name.iter().position(|&unit| unit == 0).unwrap_or(name.len());
        Ok(String::from_utf16_lossy(&name[..end]))
    }

    fn number(&self, key: &str, value: &str) -> io::Result<Option<u32>> {
        let (key, value) = (wide(key), wide(value));
        let mut open: HKEY = std::ptr::null_mut();
        let access = KEY_QUERY_VALUE | KEY_WOW64_64KEY;
        // SAFETY: the name ends with a zero, and the system stores a handle in what is live.
        done(unsafe { RegOpenKeyExW(HKEY_LOCAL_MACHINE, key.as_ptr(), 0, access, &raw mut open) })?;
        let (mut number, mut bytes) = (0_u32, size_of::<u32>() as u32);
        // SAFETY: the key is open, the name ends with a zero, what is not wanted is null, and the number is live and of the
        // length that is named.
        let read = unsafe {
            RegGetValueW(
                open,
                std::ptr::null(),
                value.as_ptr(),
                RRF_RT_REG_DWORD,
                std::ptr::null_mut(),
                (&raw mut number).cast(),
                &raw mut bytes,
            )
        };
        // SAFETY: the key is open, and not used any more.
        unsafe { RegCloseKey(open) };
        if read == ERROR_FILE_NOT_FOUND {
            return Ok(None);
        }
        done(read).map(|()| Some(number))
    }
}
