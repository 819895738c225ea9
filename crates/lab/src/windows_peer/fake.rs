//! A Windows that makes volumes and refuses to, as it is documented.
//!
//! * `diskpart` is started by administrators only: `ERROR_ELEVATION_REQUIRED` otherwise ("System Error Codes").
//! * A script ends at the first command that fails, with an exit code that is not 0 ("diskpart scripts and examples").
//! * `create vdisk` fails where the file is there; `select vdisk` where it is not; `attach`, `convert` and `create partition` need a
//!   selected disk, `format` and `assign` a selected partition ("create vdisk", "format", "assign").
//! * Editions without ReFS volumes do not format any ("ReFS overview", feature availability).
//! * `assign` fails if the letter is in use ("assign").

use super::Windows;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What the fake has, and what it refuses.
pub(crate) struct Fake {
    pub is_elevated: bool,
    pub makes_refs: bool,
    pub has_room: bool,
    /// Whether files on the volumes are open, so that no virtual disk is detached.
    pub has_open_files: bool,
    /// Letters that are listed, and those that something has although they are not.
    pub letters: u32,
    pub hidden: u32,
    /// Where the drives are: a directory for each letter.
    pub drives: PathBuf,
    /// All scripts.
    pub scripts: Mutex<Vec<String>>,
    disks: Mutex<Vec<Disk>>,
}

#[derive(Default)]
struct Disk {
    file: PathBuf,
    is_attached: bool,
    has_partition: bool,
    system: Option<String>,
    letter: Option<char>,
}

impl Fake {
    pub(crate) fn new(drives: &Path) -> Fake {
        Fake {
            is_elevated: true,
            makes_refs: true,
            has_room: true,
            has_open_files: false,
            // C, and Z of the network.
            letters: 1 << 2 | 1 << 25,
            hidden: 0,
            drives: drives.to_owned(),
            scripts: Mutex::default(),
            disks: Mutex::default(),
        }
    }

    /// The file systems that are attached, each with its letter.
    pub(crate) fn attached(&self) -> Vec<(String, char)> {
        let disks = self.disks.lock().unwrap();
        disks.iter().filter_map(|disk| Some((disk.system.clone()?, disk.letter?))).collect()
    }

    fn command(&self, line: &str, selected: &mut Selected) -> Result<(), String> {
        let mut disks = self.disks.lock().unwrap();
        let file = line.split('"').nth(1).map(PathBuf::from);
        let value = |key: &str| line.split(' ').find_map(|word| word.strip_prefix(key));
        let used = self.letters | self.hidden;
        if line.starts_with("create vdisk") {
            let file = file.unwrap();
            if !self.has_room || file.exists() || value("maximum=").unwrap().parse::<u64>().unwrap() < 3 {
                return Err("There is not enough space on the disk.".into());
            }
            std::fs::write(&file, "a virtual disk").unwrap();
            disks.push(Disk { file, ..Disk::default() });
            return Ok(());
        }
        if line.starts_with("select vdisk") {
            selected.disk = disks.iter().position(|disk| Some(&disk.file) == file.as_ref());
            return selected.disk.map(drop).ok_or("The system cannot find the file specified.".into());
        }
        let disk = selected.disk.and_then(|at| disks.get_mut(at)).ok_or("There is no disk selected.")?;
        match line.split(' ').next().unwrap() {
            "attach" => disk.is_attached = true,
            "detach" if self.has_open_files => return Err("The process cannot access the file.".into()),
            "detach" => {
                let at = selected.disk.take().unwrap();
                disks.remove(at);
            }
            _ if !disk.is_attached => return Err("The disk is not attached.".into()),
            "convert" => {}
            "create" => disk.has_partition = true,
            "select" if disk.has_partition => selected.has_partition = true,
            _ if !selected.has_partition => return Err("There is no partition selected.".into()),
            "format" if value("fs=") == Some("refs") && !self.makes_refs => {
                return Err("The file system is incompatible.".into());
            }
            "format" => disk.system = value("fs=").map(str::to_owned),
            "assign" => {
                let letter = value("letter=").unwrap().chars().next().unwrap();
                if super::is_used(used, letter) {
                    return Err("The specified drive letter is not free to be assigned.".into());
                }
                disk.letter = Some(letter);
                std::fs::create_dir_all(self.root(letter)).unwrap();
            }
            _ => return Err("The arguments specified for this command are not valid.".into()),
        }
        Ok(())
    }
}

/// What a script has selected so far.
#[derive(Default)]
struct Selected {
    disk: Option<usize>,
    has_partition: bool,
}

impl Windows for Fake {
    fn letters(&self) -> u32 {
        let disks = self.disks.lock().unwrap();
        let ours = disks.iter().filter_map(|disk| disk.letter);
        ours.fold(self.letters, |all, letter| all | 1 << (letter as u32 - 'A' as u32))
    }

    fn diskpart(&self, script: &str, _file: &Path) -> io::Result<(i32, String)> {
        const FAILED: i32 = 4;
        if !self.is_elevated {
            return Err(io::Error::from_raw_os_error(super::refusals::NOT_ELEVATED));
        }
        self.scripts.lock().unwrap().push(script.to_owned());
        let mut selected = Selected::default();
        for line in script.lines() {
            if let Err(why) = self.command(line, &mut selected) {
                return Ok((FAILED, format!("Microsoft DiskPart version 10.0\n\n{why}\n")));
            }
        }
        Ok((0, String::new()))
    }

    fn root(&self, letter: char) -> PathBuf {
        self.drives.join(letter.to_string())
    }
}
