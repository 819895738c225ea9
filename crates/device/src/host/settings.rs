//! Settings of Windows that decide figures: its power plan, and whether Defender looks at files.
//!
//! They are asked through [`Settings`], so that tests have a Windows that answers and refuses.

use std::io;

/// A Windows that is asked for its settings.
pub(crate) trait Settings {
    /// The identifier of the active power scheme, as a `GUID` lies in memory (Microsoft, "PowerGetActiveScheme").
    ///
    /// # Errors
    /// The error code of Windows.
    fn active_plan(&self) -> io::Result<[u8; 16]>;

    /// What the system calls a power scheme, in its own language (Microsoft, "PowerReadFriendlyName").
    ///
    /// # Errors
    /// The error code of Windows.
    fn name_of_plan(&self, plan: [u8; 16]) -> io::Result<String>;

    /// A number (`REG_DWORD`) of a key below `HKEY_LOCAL_MACHINE`; `None` if the key is there and has no such value
    /// (Microsoft, "RegOpenKeyExW", "RegGetValueW").
    ///
    /// # Errors
    /// The error code of Windows: that the key is missing, cannot be read, or that the value is no number.
    fn number(&self, key: &str, value: &str) -> io::Result<Option<u32>>;
}

/// What is said of a setting that cannot be read.
const UNKNOWN: &str = "unknown";

/// The schemes that every Windows has, by names that are the same in every language: `GUID_TYPICAL_POWER_SAVINGS`,
/// `GUID_MIN_POWER_SAVINGS`, `GUID_MAX_POWER_SAVINGS` (Microsoft, "Power Setting GUIDs", and `winnt.h`).
const PLANS: [(&str, &str); 3] = [
    ("381b4222-f694-41f0-9685-ff5bb260df2e", "Balanced"),
    ("8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c", "High performance"),
    ("a1841308-3541-4fab-bc81-f71556f20b4a", "Power saver"),
];

/// The active power plan: its name, of one that somebody made also its identifier; `unknown` where it cannot be read.
pub(crate) fn power_plan(settings: &dyn Settings) -> String {
    let Ok(plan) = settings.active_plan() else { return UNKNOWN.into() };
    let text = identifier(plan);
    match PLANS.iter().find(|(known, _)| *known == text) {
        Some((_, name)) => (*name).into(),
        None => match settings.name_of_plan(plan) {
            Ok(name) if !name.trim().is_empty() => format!("{} ({text})", name.trim()),
            _ => text,
        },
    }
}

/// An identifier as text: its first three fields are numbers of 4, 2 and 2 bytes, little-endian, the others are bytes
/// (Microsoft, "GUID").
fn identifier(bytes: [u8; 16]) -> String {
    let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let fields = [&[d, c, b, a][..], &[f, e], &[h, g], &rest[..2], &rest[2..]];
    fields.map(digits).join("-")
}

/// The key of Defender's own settings.
const DEFENDER: &str = r"SOFTWARE\Microsoft\Windows Defender";
/// The key in which it notes what of its protection is turned off.
const REAL_TIME: &str = r"SOFTWARE\Microsoft\Windows Defender\Real-Time Protection";
/// The key of the policy that turns it off (Microsoft, "Policy CSP - ADMX_MicrosoftDefenderAntivirus",
/// `DisableRealtimeMonitoring`: if it is 1 the protection is off, otherwise on).
const POLICY: &str = r"SOFTWARE\Policies\Microsoft\Windows Defender\Real-Time Protection";
const IS_OFF: &str = "DisableRealtimeMonitoring";
/// The value that is 1 where another scanner has taken Defender's place. Microsoft documents it nowhere.
const HAS_NO_DEFENDER: &str = "DisableAntiVirus";

/// Whether Defender's real-time protection is on, according to the registry: `on`, `off`, `off by policy`, or `unknown`
/// where Windows has no Defender or does not let its settings be read. Folders that are excluded are not known, and
/// neither are other scanners.
pub(crate) fn real_time_protection(settings: &dyn Settings) -> &'static str {
    // There is no such key where no policy was ever set.
    if let Ok(Some(off)) = settings.number(POLICY, IS_OFF) {
        return if off == 1 { "off by policy" } else { "on" };
    }
    match (settings.number(DEFENDER, HAS_NO_DEFENDER), settings.number(REAL_TIME, IS_OFF)) {
        (Ok(Some(1)), _) | (_, Ok(Some(1))) => "off",
        (_, Ok(_)) => "on",
        _ => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOT_FOUND: i32 = 2;
    const ACCESS_DENIED: i32 = 5;
    /// `ERROR_UNSUPPORTED_TYPE`: `RegGetValueW` was asked for a number, and the value is none.
    const NO_NUMBER: i32 = 1630;

    /// A Windows that answers and refuses as it is documented.
    ///
    /// * Keys that are not there: `ERROR_FILE_NOT_FOUND`; values that are not there are `None`.
    /// * Keys that this user may not read: `ERROR_ACCESS_DENIED` ("Registry Key Security and Access Rights").
    /// * `PowerGetActiveScheme`, `PowerReadFriendlyName`: "a non-zero value if the call failed".
    #[derive(Default)]
    struct Fake {
        plan: Option<[u8; 16]>,
        name: Option<&'static str>,
        /// Keys with their values.
        keys: Vec<(&'static str, Vec<(&'static str, Value)>)>,
        closed: Vec<&'static str>,
    }

    #[derive(Clone, Copy)]
    enum Value {
        Number(u32),
        Text,
    }

    fn failed<T>(code: i32) -> io::Result<T> {
        Err(io::Error::from_raw_os_error(code))
    }

    impl Settings for Fake {
        fn active_plan(&self) -> io::Result<[u8; 16]> {
            self.plan.map_or_else(|| failed(NOT_FOUND), Ok)
        }

        fn name_of_plan(&self, plan: [u8; 16]) -> io::Result<String> {
            assert_eq!(Some(plan), self.plan);
            self.name.map_or_else(|| failed(NOT_FOUND), |name| Ok(name.into()))
        }

        fn number(&self, key: &str, value: &str) -> io::Result<Option<u32>> {
            if self.closed.contains(&key) {
                return failed(ACCESS_DENIED);
            }
            let Some((_, values)) = self.keys.iter().find(|(name, _)| *name == key) else {
                return failed(NOT_FOUND);
            };
            match values.iter().find(|(name, _)| *name == value) {
                None => Ok(None),
                Some((_, Value::Number(number))) => Ok(Some(*number)),
                Some((_, Value::Text)) => failed(NO_NUMBER),
            }
        }
    }

    /// `{0x381b4222, 0xf694, 0x41f0, {0x96, 0x85, 0xff, 0x5b, 0xb2, 0x60, 0xdf, 0x2e}}`, as it is in memory.
    const BALANCED: [u8; 16] =
        [0x22, 0x42, 0x1b, 0x38, 0x94, 0xf6, 0xf0, 0x41, 0x96, 0x85, 0xff, 0x5b, 0xb2, 0x60, 0xdf, 0x2e];

    #[test]
    fn a_power_plan_has_the_same_name_in_every_language() {
        let german = Fake { plan: Some(BALANCED), name: Some("Ausbalanciert"), ..Fake::default() };
        assert_eq!(power_plan(&german), "Balanced");
    }

    #[test]
    fn a_plan_that_somebody_made_has_its_name_and_identifier() {
        let plan = Some(*b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10");
        let made = Fake { plan, name: Some("Quiet fans "), ..Fake::default() };
        assert_eq!(power_plan(&made), "Quiet fans (04030201-0605-0807-090a-0b0c0d0e0f10)");
        for name in [None, Some(" ")] {
            let unnamed = Fake { plan, name, ..Fake::default() };
            assert_eq!(power_plan(&unnamed), "04030201-0605-0807-090a-0b0c0d0e0f10");
        }
        assert_eq!(power_plan(&Fake::default()), "unknown");
    }

    #[test]
    fn what_the_registry_says_of_defender_is_told() {
        let of = |keys: &[(&'static str, &[(&'static str, u32)])], closed: &[&'static str]| {
            let numbers = |values: &[(&'static str, u32)]| {
                values.iter().map(|(name, number)| (*name, Value::Number(*number))).collect()
            };
            let keys = keys.iter().map(|(key, values)| (*key, numbers(values))).collect();
            real_time_protection(&Fake { keys, closed: closed.to_vec(), ..Fake::default() })
        };
        let (own, none): (_, &[(&str, u32)]) = ((DEFENDER, &[][..]), &[]);
        assert_eq!(of(&[own, (REAL_TIME, none)], &[]), "on", "what is not noted as off is on");
        assert_eq!(of(&[own, (REAL_TIME, &[(IS_OFF, 0)])], &[]), "on");
        assert_eq!(of(&[own, (REAL_TIME, &[(IS_OFF, 1)])], &[]), "off");
        assert_eq!(of(&[(DEFENDER, &[(HAS_NO_DEFENDER, 1)]), (REAL_TIME, none)], &[]), "off");
        // A policy stands above what the user chose.
        let chosen = |policy, own| {
            of(&[(POLICY, &[(IS_OFF, policy)]), (DEFENDER, none), (REAL_TIME, &[(IS_OFF, own)])], &[])
        };
        assert_eq!((chosen(1, 0), chosen(0, 1)), ("off by policy", "on"));
        assert_eq!(of(&[(POLICY, none), own, (REAL_TIME, &[(IS_OFF, 1)])], &[]), "off");
    }

    #[test]
    fn what_cannot_be_read_of_defender_is_unknown() {
        assert_eq!(real_time_protection(&Fake::default()), "unknown", "no Defender");
        let closed = Fake { closed: vec![DEFENDER, REAL_TIME, POLICY], ..Fake::default() };
        assert_eq!(real_time_protection(&closed), "unknown");
        let odd = Fake { keys: vec![(REAL_TIME, vec![(IS_OFF, Value::Text)])], ..Fake::default() };
        assert_eq!(real_time_protection(&odd), "unknown");
    }
}
