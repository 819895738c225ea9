//! The reports of a comparison on disk.

use crate::command::failure::{About, Failure, tell};
use platter_device::{FileDevice, FileOptions};
use platter_lab::report::{Document, csv, html, markdown};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The file name extensions of the forms in which a report is written.
const FORMS: [&str; 4] = ["json", "html", "md", "csv"];

/// A directory that reports can be written to.
pub(crate) struct Reports {
    directory: PathBuf,
    /// Whether the directory was made for the reports.
    is_new: bool,
}

/// Removes a directory that was made for reports if none were written.
impl Drop for Reports {
    fn drop(&mut self) {
        if self.is_new {
            // `remove_dir` fails if the directory is not empty, as it should.
            let _ = fs::remove_dir(&self.directory);
        }
    }
}

impl Reports {
    /// Makes the directory if it is missing, and finds out whether reports can be written there.
    pub(crate) fn prepare(directory: &Path) -> Result<Reports, Failure> {
        let is_new = !directory.exists();
        fs::create_dir_all(directory).about(directory.display())?;
        let reports = Reports { directory: directory.to_owned(), is_new };
        FileDevice::temporary(directory, 0, FileOptions::default())?;
        for path in FORMS.map(|form| reports.path("report", form)) {
            match fs::symlink_metadata(&path) {
                Ok(data) if !data.is_file() => {
                    return Err(Failure::new(
                        path.display(),
                        "a report cannot be written there: it is no file",
                    ));
                }
                _ => {}
            }
        }
        Ok(reports)
    }

    fn path(&self, stem: &str, form: &str) -> PathBuf {
        self.directory.join(format!("{stem}.{form}"))
    }

    /// Writes a report in every form; returns the paths. An older report is kept under another name.
    ///
    /// An error in one form does not keep the other forms from being written.
    pub(crate) fn save(&self, document: &Document, published: bool) -> Result<Vec<PathBuf>, Failure> {
        self.keep_older(document)?;
        let write = |form: &str| {
            let text = match form {
                "json" => document.to_json(),
                "html" => html::render(document, published),
                "md" => markdown::render(document, published),
                _ => csv::render(document),
            };
            let path = self.path("report", form);
            write(&path, &text)?;
            Ok(path)
        };
        let written: Vec<Result<PathBuf, Failure>> = FORMS.map(write).into();
        written.into_iter().collect()
    }

    /// Renames an older report, so that its name has the time at which it was made.
    fn keep_older(&self, document: &Document) -> Result<(), Failure> {
        let there: Vec<&str> =
            FORMS.into_iter().filter(|form| self.path("report", form).symlink_metadata().is_ok()).collect();
        let Some(first) = there.first() else { return Ok(()) };
        let json = fs::read_to_string(self.path("report", "json")).unwrap_or_default();
        if json == document.to_json() {
            // The report on disk is this same report, which is being rendered again.
            return Ok(());
        }
        let created = Document::from_json(&json).ok().map(|older| older.created).filter(|time| is_time(time));
        let created = match created {
            Some(created) => created.replace(':', "-"),
            None => modified(&self.path("report", first)),
        };
        let stems = (1..).map(|number| match number {
            1 => format!("report-{created}"),
            _ => format!("report-{created}-{number}"),
        });
        let is_free =
            |stem: &String| FORMS.iter().all(|form| self.path(stem, form).symlink_metadata().is_err());
        let stem = stems.into_iter().find(is_free).expect("numbers do not end");
        for form in &there {
            let (from, to) = (self.path("report", form), self.path(&stem, form));
            fs::rename(&from, &to).about(from.display())?;
        }
        let kept = self.path(&stem, first);
        let others: String = there[1..].iter().map(|form| format!(", .{form}")).collect();
        tell(format_args!("platter: an older report is kept as {}{others}", kept.display()));
        Ok(())
    }
}

/// Writes a file whole or not at all: a report that is cut off where the disk was full would look like one that is
/// damaged, or not be noticed.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = path.with_file_name(format!(".{name}.{}", std::process::id()));
    // A new file: what somebody else has put under this name, such as a link, is not followed.
    let mut file = File::create_new(&part).about(part.display())?;
    let written = file.write_all(text.as_bytes()).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        // What there is of it takes room on a full disk; the error is returned.
        let _ = fs::remove_file(&part);
    }
    written.about(path.display())
}

/// Whether text from a file is safe as part of a file name: the report may come from anywhere.
fn is_time(text: &str) -> bool {
    !text.is_empty()
        && text.len() < 40
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-:.+".contains(c))
}

/// Returns the time of a file's last change, as a part of a file name.
fn modified(path: &Path) -> String {
    let time = fs::metadata(path).and_then(|data| data.modified());
    let time = time.map(chrono::DateTime::<chrono::Utc>::from);
    time.map_or_else(
        |_: std::io::Error| ErrorKind::Other.to_string(),
        |time| time.format("%Y-%m-%dT%H-%M-%SZ").to_string(),
    )
}
