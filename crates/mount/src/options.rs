//! How a mount shows a volume: the mount options.

/// How a mount shows the named streams of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streams {
    /// Not at all.
    #[default]
    Hidden,
    /// As extended attributes: `user.NAME` is the stream NAME. Extended attributes of the format whose names begin so are
    /// not shown then.
    Attributes,
    /// As files: `FILE:NAME` is the stream NAME, or the snapshot NAME, of FILE.
    Files,
}

use platter_vfs::LocalTime;

/// When a read changes the access time of a file, in the words of mount(8). No read does on a format that cannot store
/// access times, or does not recover by itself after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTimes {
    /// Never: `noatime`.
    Never,
    /// If the access time is older than the last change of the file, or older than a day: `relatime`.
    #[default]
    Relative,
    /// Each time: `strictatime`.
    Strict,
}

/// Where absolute links of Windows lead on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowsLinks {
    /// The drive letter of the volume, so that links to other drives are known; `None` takes each drive for the volume.
    pub drive: Option<char>,
    /// The path of the volume's root on this machine, without a slash at its end; whoever mounts sets it.
    pub at: Vec<u8>,
}

/// The mount options.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// The owner of files for which the volume stores no owner.
    pub uid: u32,
    /// The group of files for which the volume stores no group.
    pub gid: u32,
    /// Permissions that are taken from files without stored ones. `None` takes the permissions in `directory_mask` and,
    /// on a format that can store permissions, the permission to execute.
    pub file_mask: Option<u32>,
    /// Permissions that are taken from directories without stored ones.
    pub directory_mask: u32,
    /// Whether users other than the one who mounts may use the mount.
    pub allow_other: bool,
    /// Whether names are found whatever their case on a format that can tell them apart by case, as NTFS can. The volume
    /// has to be opened with this too.
    pub ignores_case: bool,
    /// Whether new names are refused that Windows gives to devices.
    pub windows_names: bool,
    /// How named streams are shown.
    pub streams: Streams,
    /// Whether junctions and other absolute links of Windows lead to what they name on the volume.
    pub windows_links: Option<WindowsLinks>,
    /// When reads change access times.
    pub access_times: AccessTimes,
    /// Whether every sync is a commit in the structures of the format itself, and never an entry in a log that only
    /// Platter reads.
    pub commits_syncs: bool,
    /// The local time of a volume whose format keeps local time.
    pub local_time: LocalTime,
    /// Whether a volume of which Windows keeps shadow copies is written to, so that they show something else.
    pub lose_shadow_copies: bool,
    /// The shadow copy of the volume that is mounted for reading in place of the volume; 1 is the oldest.
    pub shadow: Option<u32>,
    /// The number of threads that answer requests.
    pub threads: usize,
    /// The source of the mount, as `/proc/mounts` shows it.
    pub source: String,
    /// Options that the kernel carries out, such as `noexec`.
    pub kernel: Vec<String>,
}

/// Options that are passed to the kernel.
const KERNEL: &[&str] = &["dev", "nodev", "suid", "nosuid", "exec", "noexec", "sync", "async", "dirsync"];
/// Options without an effect: they ask for the default, or are meant for `mount`, `/etc/fstab` or other programs.
const NOTHING: &[&str] = &[
    "default_permissions",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "_netdev",
    "nofail",
    "defaults",
    "norelatime",
    "diratime",
    "nodiratime",
    "iversion",
    "noiversion",
    "nostrictatime",
    "lazytime",
    "nolazytime",
    "big_writes",
    "permissions",
    "silent",
    "loud",
    // What these ask other drivers for is always so here.
    "utf8",
    "iocharset=utf8",
    "nls=utf8",
    "errors=remount-ro",
    "nonempty",
];

impl Options {
    /// The options for a person to choose from: the name of each, values that it may have (an empty one where any value of
    /// its kind will do), and a few words about it.
    pub const KNOWN: &[(&str, &[&str], &str)] = &[
        ("ro", &[], "for reading"),
        ("rw", &[], "for writing, the default"),
        ("uid", &[""], "the owner of files without one"),
        ("gid", &[""], "the group of files without one"),
        ("umask", &["022", "077"], "permissions that are taken away"),
        ("fmask", &["133", "177"], "permissions that are taken from files"),
        ("dmask", &["022", "077"], "permissions that are taken from directories"),
        ("allow_other", &[], "other users may use the mount"),
        ("noexec", &[], "no programs are run"),
        ("nodev", &[], "no devices"),
        ("nosuid", &[], "no set-user-id bits"),
        ("sync", &[], "every write is durable at once"),
        ("sync", &["commit"], "every sync is a commit that others can read (ReFS)"),
        ("noatime", &[], "reads change no access times"),
        ("relatime", &[], "reads change old access times, the default"),
        ("strictatime", &[], "every read changes the access time"),
        ("ignore_case", &[], "names are found in any case (NTFS)"),
        ("windows_names", &[], "no names that Windows gives to devices"),
        ("windows_links", &[], "absolute links of Windows lead into the volume"),
        ("streams_interface", &["none", "xattr", "windows"], "how named streams are shown"),
        ("lose_shadow_copies", &[], "write although Windows keeps shadow copies"),
        ("shadow", &["1"], "this shadow copy, for reading (NTFS)"),
        ("tz", &["UTC"], "local times on the volume are UTC"),
        ("time_offset", &["0", "60"], "minutes that local times are ahead of UTC"),
        ("threads", &["8"], "threads that answer requests"),
        ("nofail", &[], "for /etc/fstab"),
        ("noauto", &[], "for /etc/fstab"),
    ];

    /// Returns the default options for the user `uid` in the group `gid`, whose new files lack the permissions in
    /// `umask`.
    pub fn of(uid: u32, gid: u32, umask: u32) -> Options {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Options {
            read_only: false,
            uid,
            gid,
            file_mask: None,
            directory_mask: umask & 0o777,
            allow_other: uid == 0,
            ignores_case: false,
            windows_names: false,
            streams: Streams::Hidden,
            windows_links: None,
            access_times: AccessTimes::default(),
            commits_syncs: false,
            local_time: LocalTime::System,
            lose_shadow_copies: false,
            shadow: None,
            threads: (4 * processors).clamp(8, 32),
            source: String::new(),
            kernel: Vec::new(),
        }
    }

    /// Reads a list of options, separated by commas, as `-o` has it.
    ///
    /// # Errors
    /// A sentence about an option that is unknown or has an invalid value.
    pub fn take(&mut self, list: &str) -> Result<(), String> {
        for option in list.split(',').filter(|option| !option.is_empty()) {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            self.take_one(option, name, value)?;
        }
        Ok(())
    }

    fn take_one(&mut self, option: &str, name: &str, value: Option<&str>) -> Result<(), String> {
        let number = |radix: u32| {
            let text = value.unwrap_or_default();
            u32::from_str_radix(text, radix).map_err(|_| format!("option {option}: expected {name}=NUMBER"))
        };
        let mask = || match number(8)? {
            mask if mask <= 0o777 => Ok(mask),
            _ => Err(format!("option {option}: a mask is at most 0777")),
        };
        match name {
            "ro" | "rw" => self.read_only = name == "ro",
            "uid" => self.uid = number(10)?,
            "gid" => self.gid = number(10)?,
            "umask" => {
                self.directory_mask = mask()?;
                self.file_mask = Some(self.directory_mask);
            }
            "fmask" => self.file_mask = Some(mask()?),
            "dmask" => self.directory_mask = mask()?,
            "allow_other" => self.allow_other = true,
            "windows_links" => {
                let letter = value.map(|value| value.trim_end_matches(':').as_bytes());
                let drive = match letter {
                    None => None,
                    Some([letter]) if letter.is_ascii_alphabetic() => Some(char::from(*letter)),
                    Some(_) => return Err(format!("option {option}: expected {name} or {name}=DRIVE")),
                };
                self.windows_links = Some(WindowsLinks { drive, at: Vec::new() });
            }
            "lose_shadow_copies" | "lose-shadow-copies" => self.lose_shadow_copies = true,
            "shadow" => {
                self.shadow = Some(number(10)?);
                self.read_only = true;
            }
            "ignore_case" => self.ignores_case = true,
            "windows_names" => self.windows_names = true,
            "noatime" => self.access_times = AccessTimes::Never,
            "atime" | "relatime" => self.access_times = AccessTimes::Relative,
            "strictatime" => self.access_times = AccessTimes::Strict,
            "threads" => self.threads = number(10)?.clamp(1, 256) as usize,
            "streams_interface" | "streams" => {
                self.streams = match value {
                    Some("none") => Streams::Hidden,
                    Some("xattr") => Streams::Attributes,
                    Some("windows") => Streams::Files,
                    _ => return Err(format!("option {option}: expected {name}=none, xattr or windows")),
                }
            }
            "tz" => match value {
                Some("UTC") => self.local_time = LocalTime::Ahead(0),
                _ => return Err(format!("option {option}: expected tz=UTC")),
            },
            "time_offset" => {
                const DAY: i32 = 24 * 60;
                let minutes = value.and_then(|value| value.parse().ok());
                let minutes = minutes.filter(|minutes| (-DAY..=DAY).contains(minutes));
                let wrong = || format!("option {option}: expected time_offset=MINUTES, from -1440 to 1440");
                self.local_time = LocalTime::Ahead(minutes.ok_or_else(wrong)?);
            }
            "sync" if value.is_some() => match value {
                Some("commit") => self.commits_syncs = true,
                _ => return Err(format!("option {option}: expected sync or sync=commit")),
            },
            "fsname" if value.is_some() => self.source = value.unwrap_or_default().to_string(),
            _ if KERNEL.contains(&option) => {
                // Of two contrary options, such as "dev" and "nodev", the later one counts.
                let word = |option: &str| option.trim_start_matches("no").to_string();
                self.kernel.retain(|other| word(other) != word(option));
                self.kernel.push(option.to_string());
            }
            _ if NOTHING.contains(&option)
                || name.starts_with("x-")
                // mount(8) would make a loop device; an image file is mounted without one.
                || name == "loop"
                || name == "comment"
                || name == "subtype" => {}
            _ => return Err(format!("option {option} is not known; `platter help mount` has the list")),
        }
        Ok(())
    }

    /// Returns the permissions that are taken from files without stored ones. On a format that can store permissions,
    /// such a file is not executable; on any other format all files are, since otherwise no program on the volume could
    /// be run.
    pub fn file_mask(&self, has_modes: bool) -> u32 {
        self.file_mask.unwrap_or(if has_modes { self.directory_mask | 0o111 } else { self.directory_mask })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_chosen_is_taken() {
        for (name, values, _) in Options::KNOWN {
            let of = |value: &&str| format!("{name}={}", if value.is_empty() { "1" } else { value });
            let all =
                if values.is_empty() { vec![name.to_string()] } else { values.iter().map(of).collect() };
            all.iter().for_each(|option| Options::of(0, 0, 0o022).take(option).unwrap());
        }
    }

    #[test]
    fn options_are_taken_in_the_words_of_other_drivers() {
        let mut options = Options::of(1000, 100, 0o022);
        options.take("rw,uid=5,gid=6,umask=077,noexec,x-systemd.automount,,streams_interface=xattr").unwrap();
        assert_eq!((options.uid, options.gid, options.file_mask(true)), (5, 6, 0o077));
        assert_eq!((options.directory_mask, options.streams), (0o077, Streams::Attributes));
        assert_eq!(options.kernel, ["noexec"]);
        assert!(!options.read_only && !options.allow_other);
        assert!(!options.ignores_case);
        options.take("ro,allow_other,ignore_case,windows_names,fmask=0133,dmask=22").unwrap();
        assert!(options.read_only && options.allow_other && options.ignores_case && options.windows_names);
        assert_eq!((options.file_mask(false), options.directory_mask), (0o133, 0o022));
        options.take("rw,streams_interface=windows").unwrap();
        assert_eq!(options.streams, Streams::Files);
        assert!(!options.read_only);
        options.take("sync=commit").unwrap();
        assert!(options.commits_syncs && options.kernel == ["noexec"]);
        options.take("dev,suid,exec,nodev").unwrap();
        assert_eq!(options.kernel, ["suid", "exec", "nodev"]);
        assert_eq!(options.local_time, LocalTime::System);
        options.take("time_offset=-90").unwrap();
        assert_eq!(options.local_time, LocalTime::Ahead(-90));
        options.take("tz=UTC").unwrap();
        assert_eq!(options.local_time, LocalTime::Ahead(0));
        for wrong in [
            "tz=CET",
            "time_offset",
            "time_offset=1441",
            "time_offset=x",
            "sync=x",
            "uid=x",
            "uid",
            "umask=1777",
            "umask=9",
            "streams_interface=files",
            "no-such-option",
        ] {
            assert!(options.take(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn without_a_mask_files_are_programs_only_where_nothing_says_which_are() {
        let options = Options::of(0, 0, 0o022);
        assert_eq!((options.file_mask(true), options.file_mask(false)), (0o133, 0o022));
    }
}
