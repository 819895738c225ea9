//! What takes long: checking a volume, and looking for what is deleted or damaged on it.

use super::View;
use crate::command::failure::Failure;
use crate::command::image::listener;
use crate::command::keys::keys;
use crate::command::output::grouped;
use crate::command::verdict;
use crate::command::volume::refuse_any_mounted;
use platter::{CheckOptions, Pattern, RecoverOptions, RecoveredTo, recover_source, recover_to};
use platter_device::show_size;
use platter_vfs::{Kind, Name, Progress, Recovered, Timestamp};
use std::path::Path;

/// The most deleted and damaged files that are listed. Of a large disk there are millions, and all of them are copied.
pub(in crate::command) const MOST_LOST: usize = 100_000;

/// A file or directory that is not in the tree, or not as it was: deleted, or with damaged metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::command) struct Lost {
    pub(in crate::command) path: Vec<Name>,
    pub(in crate::command) stream: Option<Name>,
    pub(in crate::command) kind: Kind,
    pub(in crate::command) size: u64,
    pub(in crate::command) modified: Timestamp,
    /// How sure it is that the content is the file's.
    pub(in crate::command) sureness: &'static str,
}

impl Lost {
    /// The path as text, with the name of the stream.
    pub(in crate::command) fn shown(&self) -> String {
        let path = super::Shown(&self.path).to_string();
        match &self.stream {
            Some(stream) => format!("{path}:{stream}"),
            None => path,
        }
    }

    /// The pattern that matches this path.
    pub(in crate::command) fn pattern(&self) -> Option<Pattern> {
        let literally = |c: char| match c {
            '*' | '?' | '[' => format!("[{c}]"),
            c => c.to_string(),
        };
        let part = |name: &Name| name.to_string().chars().map(literally).collect::<String>();
        let parts: Vec<String> = self.path.iter().map(part).collect();
        Pattern::parse(&format!("/{}", parts.join("/"))).ok()
    }
}

/// How sure it is that what was found is the file's content.
pub(in crate::command) fn sureness(found: &Recovered) -> &'static str {
    match (found.damaged, found.certain) {
        (true, _) => "damaged",
        (false, true) => "certain",
        (false, false) => "likely",
    }
}

impl View {
    /// Checks the volume. Returns the findings, a line each, and a last line with the verdict.
    pub(in crate::command) fn check(&self, progress: &dyn Progress) -> Result<Vec<String>, Failure> {
        refuse_any_mounted(&self.source)?;
        // Nobody can be asked for a key here; the one that opened the volume is known.
        let options =
            CheckOptions { listener: listener(), keys: keys().given_only(), ..CheckOptions::default() };
        let checked = platter::check_source(&self.source, &options, progress)?;
        Ok(verdict::lines(&checked.device, &checked.format, &checked.report))
    }

    /// Looks for what is deleted or damaged, and gives each file and directory to `each` as soon as it is found. Returns
    /// a line that sums up.
    pub(in crate::command) fn lost(
        &self,
        progress: &dyn Progress,
        each: &mut dyn FnMut(Lost),
    ) -> Result<String, Failure> {
        let options =
            RecoverOptions { listener: listener(), keys: keys().given_only(), ..RecoverOptions::default() };
        let (mut count, mut left) = (0u64, 0u64);
        let (_, report) = recover_source(&self.source, &options, progress, &mut |found, _| {
            if found.path.is_empty() || !(found.deleted || found.damaged) {
                return Ok(());
            }
            count += 1;
            if count > MOST_LOST as u64 {
                left += 1;
                return Ok(());
            }
            each(Lost {
                path: found.path.clone(),
                stream: found.stream.clone(),
                kind: found.kind,
                size: found.size,
                modified: found.modified,
                sureness: sureness(found),
            });
            Ok(())
        })?;
        let more =
            if left > 0 { format!("; {} of them are not listed", grouped(left)) } else { String::new() };
        Ok(format!(
            "{} deleted or damaged{more}; {} more deleted files are overwritten",
            grouped(count),
            grouped(report.overwritten)
        ))
    }

    /// Copies what is found of the volume to a directory of the host: all of it, or what the patterns choose. Returns lines
    /// that say how it went.
    pub(in crate::command) fn recover(
        &self,
        directory: &Path,
        patterns: Vec<Pattern>,
        progress: &dyn Progress,
    ) -> Result<Vec<String>, Failure> {
        let options = RecoverOptions {
            patterns,
            listener: listener(),
            keys: keys().given_only(),
            ..RecoverOptions::default()
        };
        let RecoveredTo { report, troubles, saved, there_before, bytes, failed, stopped, .. } =
            recover_to(&self.source, directory, &options, progress)?;
        let mut lines: Vec<String> = report.lost.iter().map(|(path, why)| format!("{path}: {why}")).collect();
        lines.extend(troubles.iter().map(ToString::to_string));
        let some = |count: u64, what: &str| match count {
            0 => String::new(),
            _ => format!("; {} {what}", grouped(count)),
        };
        let directory = directory.display();
        let mut last = format!("{} files with {} are in {directory}", grouped(saved), show_size(bytes));
        last += &some(there_before, "of them were there already");
        last += &some(failed, "are not copied");
        if stopped {
            last += "; interrupted: the same directory goes on from there";
        }
        lines.push(last);
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_chooses_what_it_is_of() {
        let lost = |names: &[&str]| Lost {
            path: names.iter().map(|name| Name::from(*name)).collect(),
            stream: None,
            kind: Kind::File,
            size: 0,
            modified: Timestamp::default(),
            sureness: "certain",
        };
        for name in ["gone.txt", "a[1]*?.txt", "]", "[", "ä b"] {
            let one = lost(&["d", name]);
            let pattern = one.pattern().unwrap();
            assert!(pattern.matches(&one.path), "{name}");
            assert!(!pattern.matches(&lost(&["d", "a1xy.txt"]).path), "{name}");
            assert!(!pattern.matches(&lost(&[name]).path), "{name}");
        }
    }
}
