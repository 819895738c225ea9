//! Keys to encrypted volumes: options that every command has, and a question on the terminal.
//!
//! No secret is an argument, since arguments are for everybody to see: options name files.

use crate::command::failure::{About, Failure, shown, tell};
use crate::command::host;
use crate::command::interrupt;
use clap::Args;
use platter::Keys;
use platter::bitlocker::{Encrypted, Protection, RecoveryKey, Secret, UnlockError};
use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use zeroize::Zeroizing;

/// Options that every command has.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Encrypted volumes")]
pub(super) struct KeyOptions {
    /// Open volumes of BitLocker with the password in the first line of this file; - is standard input
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) password_file: Option<PathBuf>,
    /// The same with a recovery key of 48 digits
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) recovery_key_file: Option<PathBuf>,
    /// The same with a key file (.BEK)
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) key_file: Option<PathBuf>,
}

/// The keys of this process.
static KEYS: OnceLock<Keys> = OnceLock::new();

/// Returns the keys that were given, and who asks for others. All devices of the process share them.
pub(super) fn keys() -> Keys {
    KEYS.get_or_init(asking).clone()
}

/// Keys that are asked for where there is a terminal.
fn asking() -> Keys {
    Keys::new().stopped_by(interrupt::is_asked).asking(ask)
}

impl KeyOptions {
    /// Reads the keys. From now on [`keys`] returns them.
    pub(super) fn read(&self) -> Result<(), Failure> {
        let mut all = asking();
        if let Some(file) = &self.password_file {
            all = all.password(&first_line(file)?);
        }
        if let Some(file) = &self.recovery_key_file {
            all = all.recovery_key(&first_line(file)?)?;
        }
        if let Some(file) = &self.key_file {
            all = all.key_file(file)?;
        }
        if !all.is_empty() {
            host::keep_memory();
        }
        // A second mount option of the same process does not come here.
        let _ = KEYS.set(all);
        Ok(())
    }

    /// Whether there is a key to read.
    pub(super) fn is_empty(&self) -> bool {
        self.password_file.is_none() && self.recovery_key_file.is_none() && self.key_file.is_none()
    }

    /// Whether a key is to come from standard input.
    fn reads_input(&self) -> bool {
        [&self.password_file, &self.recovery_key_file]
            .into_iter()
            .flatten()
            .any(|file| file == Path::new("-"))
    }

    /// Returns the options for a process in the background, which has no terminal and no standard input of the user's, and
    /// what it is to read from its own.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(super) fn again(
        &self,
        asked: Option<&Secret>,
    ) -> Result<(Vec<OsString>, Zeroizing<Vec<u8>>), Failure> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut input = Zeroizing::new(Vec::new());
        let mut lines: Vec<(&str, Zeroizing<String>)> = Vec::new();
        match asked {
            Some(Secret::Password(password)) => lines.push(("--password-file", password.clone())),
            Some(Secret::RecoveryKey(key)) => lines.push(("--recovery-key-file", key.digits())),
            _ => {}
        }
        for (option, file) in
            [("--password-file", &self.password_file), ("--recovery-key-file", &self.recovery_key_file)]
        {
            match file {
                Some(file) if file == Path::new("-") => lines.push((option, first_line(file)?)),
                Some(file) => arguments.extend([option.into(), file.into()]),
                None => {}
            }
        }
        for (option, line) in &lines {
            arguments.extend([option.into(), "-".into()]);
            input.extend(line.bytes().chain([b'\n']));
        }
        if let Some(file) = &self.key_file {
            arguments.extend(["--key-file".into(), file.into()]);
        }
        Ok((arguments, input))
    }

    /// Asks for a key of the volume in an image if one is needed and none is given.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(super) fn ask_for(&self, encrypted: &Encrypted, name: &str) -> Option<Secret> {
        if !self.is_empty() || self.reads_input() || encrypted.clear_key().is_some() {
            return None;
        }
        let mut why = None;
        loop {
            let secret = ask(encrypted, name, why.as_ref())?;
            match encrypted.key(&secret, &interrupt::is_asked) {
                Ok(_) => return Some(secret),
                Err(error) => why = Some(error),
            }
        }
    }
}

/// The first line of a file, without its end. Of standard input no more is read, since the rest may be for somebody else.
fn first_line(path: &Path) -> Result<Zeroizing<String>, Failure> {
    const MOST: usize = 4096;
    let mut input: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(File::open(path).about(shown(path))?),
    };
    let mut line = Zeroizing::new(Vec::with_capacity(MOST));
    let mut byte = Zeroizing::new([0]);
    while line.len() < MOST && input.read(&mut byte[..]).about(shown(path))? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    match std::str::from_utf8(&line) {
        _ if line.is_empty() => Err(Failure::new(shown(path), "its first line is empty, and no key")),
        Ok(text) => Ok(Zeroizing::new(text.to_string())),
        Err(_) => Err(Failure::new(shown(path), "its first line is no text in UTF-8")),
    }
}

/// Asks on the terminal, without showing what is typed; `None` if there is no terminal, after an empty answer, and after
/// three that open nothing.
fn ask(encrypted: &Encrypted, name: &str, why: Option<&UnlockError>) -> Option<Secret> {
    const MOST: u32 = 3;
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let kinds = [Protection::Password, Protection::RecoveryKey];
    let kinds: Vec<String> =
        kinds.into_iter().filter(|kind| encrypted.has(*kind)).map(|kind| kind.to_string()).collect();
    // Who reads the messages of a program elsewhere does not see a question.
    if !std::io::stderr().is_terminal() || kinds.is_empty() || ASKED.fetch_add(1, Ordering::Relaxed) >= MOST {
        return None;
    }
    if let Some(why) = why {
        tell(format_args!("platter: {name}: {why}"));
    }
    // Where nobody can be asked, the command says which options there are.
    let typed = rpassword::prompt_password(format!("{} of {name}: ", kinds.join(" or "))).ok();
    let typed = Zeroizing::new(typed.filter(|typed| !typed.is_empty())?);
    host::keep_memory();
    Some(match RecoveryKey::parse(&typed) {
        Ok(key) => Secret::RecoveryKey(key),
        Err(_) => Secret::Password(typed),
    })
}
