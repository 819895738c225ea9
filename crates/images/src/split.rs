//! Raw images in several files, `.001`, `.002` and so on, or `.aa`, `.ab`.

use crate::bytes::unusable;
use crate::image::why_read_only;
use platter_device::{
    Device, Error, FileDevice, FileOptions, Growing, Immediate, Operation, Queue, Result, Sectors,
    check_transfer,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The most parts of an image.
const MOST: usize = 999;

/// The ending of the part with this number, counted from 0, in an image whose first part ends with `first`.
fn ending(first: &str, number: usize) -> Option<String> {
    match first {
        "001" if number < MOST => Some(format!("{:03}", number + 1)),
        "aa" if number < 26 * 26 => {
            Some([number / 26, number % 26].map(|letter| (b'a' + letter as u8) as char).iter().collect())
        }
        _ => None,
    }
}

/// The ending of a path that may be the first part of several.
fn first_ending(path: &Path) -> Option<&str> {
    path.extension()?.to_str().filter(|ending| ["001", "aa"].contains(ending))
}

/// The parts of the image whose first part is at `path`, in order; `None` if it is an image by itself.
///
/// # Errors
/// If a part between others is missing.
pub(crate) fn parts(path: &Path) -> Result<Option<Vec<PathBuf>>> {
    let Some(first) = first_ending(path) else { return Ok(None) };
    let part = |number: usize| ending(first, number).map(|ending| path.with_extension(ending));
    let is_there = |number: usize| part(number).is_some_and(|path| path.is_file());
    let count = (0..MOST).find(|&number| !is_there(number)).unwrap_or(MOST);
    // Parts behind a gap are those of an incomplete image.
    if let Some(later) = (count + 1..count + 10).find(|&number| is_there(number)) {
        let [missing, later] = [count, later].map(|number| part(number).unwrap_or_default());
        let reason = format!("is missing, and {} is there: the image is not complete", later.display());
        return Err(unusable(&missing.display().to_string(), reason));
    }
    Ok((count > 1).then(|| (0..count).filter_map(part).collect()))
}

/// The first part of the image of which the file at `path` is a later part, if there is such an image.
pub(crate) fn first_of(path: &Path) -> Option<PathBuf> {
    let own = path.extension()?.to_str()?;
    let first = ["001", "aa"]
        .into_iter()
        .find(|first| (1..MOST).any(|at| ending(first, at).as_deref() == Some(own)))?;
    Some(path.with_extension(first)).filter(|first| first.is_file())
}

/// Several files, one after the other, as one device.
pub(crate) struct Split {
    name: String,
    parts: Vec<Arc<dyn Device>>,
    /// The offset at which each part ends.
    ends: Vec<u64>,
    why_read_only: Option<String>,
}

impl Split {
    /// Opens the parts; `between` returns what is used in the place of each file.
    pub(crate) fn open(
        paths: &[PathBuf],
        options: FileOptions,
        between: &dyn Fn(FileDevice) -> Arc<dyn Growing>,
    ) -> Result<Split> {
        let parts: Vec<FileDevice> =
            paths.iter().map(|path| FileDevice::open(path, options)).collect::<Result<_>>()?;
        let first = parts[0].len();
        for (number, (part, path)) in parts.iter().zip(paths).enumerate() {
            let is_last = number + 1 == parts.len();
            let length = std::fs::metadata(path).map_or(part.len(), |data| data.len());
            if length > first || length < first && !is_last || !length.is_multiple_of(512) {
                let reason = format!(
                    "is part {} of {} of an image and has {length} bytes, where the first part has {first}",
                    number + 1,
                    parts.len()
                );
                return Err(unusable(part.name(), reason));
            }
        }
        let read_only = parts.iter().any(|part| part.read_only());
        let parts = parts.into_iter().map(|part| between(part) as Arc<dyn Device>).collect();
        Ok(Split::new(paths[0].display().to_string(), parts, why_read_only(read_only)))
    }

    /// Devices of at least one, one after the other.
    pub(crate) fn new(name: String, parts: Vec<Arc<dyn Device>>, why_read_only: Option<String>) -> Split {
        let ends = parts.iter().scan(0, |end, part| {
            *end += part.len();
            Some(*end)
        });
        let ends = ends.collect();
        Split { name, parts, ends, why_read_only }
    }

    /// Calls `each` with the parts of a transfer: the file, the offset in it, and the range of the buffer.
    fn each(
        &self,
        operation: Operation,
        offset: u64,
        length: usize,
        mut each: impl FnMut(&dyn Device, u64, std::ops::Range<usize>) -> Result<()>,
    ) -> Result<()> {
        check_transfer(self, operation, offset, length as u64)?;
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let part = self.ends.partition_point(|&end| end <= at);
            let start = self.ends[part] - self.parts[part].len();
            let piece = ((self.ends[part] - at) as usize).min(length - done);
            each(&*self.parts[part], at - start, done..done + piece)?;
            done += piece;
        }
        Ok(())
    }
}

impl Device for Split {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn sectors(&self) -> Sectors {
        self.parts[0].sectors()
    }

    fn read_only(&self) -> bool {
        self.why_read_only.is_some()
    }

    fn why_read_only(&self) -> Option<String> {
        self.why_read_only.clone()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.each(Operation::Read, offset, buffer.len(), |part, at, range| {
            part.read_at(at, &mut buffer[range])
        })
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        if self.read_only() {
            return Err(Error::ReadOnly { device: self.name().into() });
        }
        self.each(Operation::Write, offset, data.len(), |part, at, range| part.write_at(at, &data[range]))
    }

    fn next_data(&self, offset: u64) -> u64 {
        let mut at = offset;
        while at < self.len() {
            let part = self.ends.partition_point(|&end| end <= at);
            let start = self.ends[part] - self.parts[part].len();
            let next = start + self.parts[part].next_data(at - start);
            if next < self.ends[part] {
                return next;
            }
            at = self.ends[part];
        }
        self.len()
    }

    fn flush(&self) -> Result<()> {
        self.parts.iter().try_for_each(|part| part.flush())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<()> {
        let discard =
            |part: &dyn Device, at, range: std::ops::Range<usize>| part.discard(at, range.len() as u64);
        self.each(Operation::Discard, offset, length as usize, discard)
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue + '_>> {
        Ok(Box::new(Immediate::new(self, depth)))
    }

    fn now(&self) -> Duration {
        self.parts[0].now()
    }
}
