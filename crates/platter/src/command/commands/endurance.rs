//! `platter endurance`: one load for hours.

use super::lab::{Meter, command_line, may_be_overwritten, parse_time};
use crate::command::failure::{About, FAILED, Failure, INTERRUPTED, Outcome, USAGE};
use crate::command::interrupt;
use crate::command::output::Output;
use clap::Args;
use platter_device::{FileDevice, FileOptions, parse_size};
use platter_lab::endurance::{Endurance, Goal, Record, html, resume, summary};
use platter_lab::{Pattern, Target};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Keep one load on one volume for hours, and see whether it lasts
///
/// The device is formatted, its volume is filled with a file to the given share, and the load runs on that file.
/// Every few seconds a line is added to DIR/samples.csv: rates, response times, seconds without progress, free space,
/// the number of the file's fragments, requests to the device, memory. At the end, and after Ctrl-C, the findings are
/// printed and DIR/endurance.html shows them as curves. --resume goes on after any stop, also after kill -9, on the
/// volume as it is.
///
/// Without options the load is that of a published run: twelve hours, four workers with 16 random writes of 4 KiB each.
/// The exit code is 1 if the load failed.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The image file or block device; its content is lost
    #[arg(long, value_name = "IMAGE|DEVICE", required_unless_present = "resume")]
    device: Option<PathBuf>,

    /// Size of the image, if it does not exist and has to be made
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Option<u64>,

    /// Overwrite a device that holds a file system or a partition table, or an image file that holds anything; never one
    /// that is in use
    #[arg(long)]
    force: bool,

    /// What the load is on: raw (the device itself), or a volume: fat32, exfat, ntfs, refs, refs+integrity and the
    /// others that mkfs makes, each with an optional cluster size (refs:64k)
    #[arg(long, default_value = "refs+integrity")]
    target: OsString,

    /// Part of the volume that is in use when the load begins, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=99))]
    full: u32,

    /// End after this long under load, all parts together: 30s, 45m, 12h [default: 12h, if --until is not given]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    time: Option<Duration>,

    /// End when this many times the size of the volume was written: 20x. With --time, whichever comes first
    #[arg(long, value_name = "Nx", value_parser = parse_volumes)]
    until: Option<f64>,

    /// Bytes of an I/O
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = parse_size)]
    block: u64,

    /// Share of reads, in percent; the others are writes
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    read: u8,

    /// Share of I/Os at a random place, in percent; the others continue where the previous one ended
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u8).range(0..=100))]
    random: u8,

    /// Threads
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    workers: u32,

    /// I/Os that each worker keeps outstanding
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    queue_depth: u32,

    /// Length of a sample
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    every: Duration,

    /// Where the run is recorded; made if it is missing
    #[arg(long, value_name = "DIR", default_value = "platter-endurance")]
    out: PathBuf,

    /// Go on with the run that is recorded in DIR; --time or --until change when it ends
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["device", "size", "target", "full", "block", "read", "random", "workers", "queue_depth",
            "every", "out"]
    )]
    resume: Option<PathBuf>,
}

fn parse_volumes(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('x').and_then(|number| number.parse::<f64>().ok());
    number.filter(|times| *times > 0.0 && *times < 1e9).ok_or_else(|| "expected a multiple like 20x".into())
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        let meter = Meter::new();
        let record = match &self.resume {
            Some(directory) => {
                let goal = (self.time.is_some() || self.until.is_some()).then(|| self.goal());
                resume(directory, goal, self.force, &meter)
            }
            None => self.begin(&meter)?,
        };
        meter.finish();
        show(&record?)
    }

    fn goal(&self) -> Goal {
        Goal { seconds: self.time.map(|time| time.as_secs_f64()), volumes: self.until }
    }

    /// Begins a run. An image that is made for it does not stay if the run ends before anything is recorded: the
    /// command with its mistake put right would find it in its way.
    fn begin(&self, meter: &Meter) -> Result<platter_lab::Result<Record>, Failure> {
        let (endurance, is_made) = self.endurance()?;
        let record = endurance.begin(&self.out, meter);
        if record.is_err() && is_made && Record::refuse_existing(&self.out).is_ok() {
            // The error of the run is the one to tell.
            let _ = std::fs::remove_file(&endurance.device);
        }
        Ok(record)
    }

    /// Returns the run, and whether its image was made for it.
    fn endurance(&self) -> Result<(Endurance, bool), Failure> {
        let wrong = |option: &str, why: &str| Failure::new(option, why).with_code(USAGE);
        let device = self.device.clone().unwrap_or_default();
        let target = Target::parse(&self.target)?;
        let block = u32::try_from(self.block).ok().filter(|block| *block > 0 && *block <= 64 << 20);
        let block = block.ok_or_else(|| wrong("--block", "expected 512 bytes to 64 MiB"))?;
        if self.read == 100 && self.until.is_some() {
            return Err(wrong("--until", "nothing is written by reads alone"));
        }
        let goal = match self.goal() {
            goal if goal == Goal::default() => Goal { seconds: Some(12.0 * 3600.0), volumes: None },
            goal => goal,
        };
        Record::refuse_existing(&self.out)?;
        let (device, is_made) = self.provide(&device)?;
        let endurance = Endurance {
            device,
            force: self.force,
            target,
            full_percent: self.full,
            pattern: Pattern {
                block,
                read_percent: self.read,
                random_percent: self.random,
                workers: self.workers,
                queue_depth: self.queue_depth,
                ..Pattern::default()
            },
            seed: 8664,
            sample: self.every,
            goal,
            command: command_line(),
        };
        Ok((endurance, is_made))
    }

    /// Returns the path of the named device, if it may be overwritten, and whether it is an image that was made here
    /// because there was none.
    fn provide(&self, device: &Path) -> Result<(PathBuf, bool), Failure> {
        match may_be_overwritten(device, self.force)? {
            Some(real) => Ok((real, false)),
            None => {
                let Some(size) = self.size else {
                    let why = "there is nothing; --size says how large an image is to be made";
                    return Err(Failure::new(device.display(), why).with_code(USAGE));
                };
                FileDevice::create_new(device, size, FileOptions::default())?;
                Ok((device.to_owned(), true))
            }
        }
    }
}

/// Prints the findings, writes the HTML page, and returns the exit code.
fn show(record: &Record) -> Outcome {
    let path = record.directory().join("endurance.html");
    std::fs::write(&path, html(record)).about(path.display())?;
    let mut output = Output::new();
    let colour = super::lab::has_colours(&output);
    output.bytes(summary(record, colour).as_bytes())?;
    output.bytes(format!("\n{}\n", path.display()).as_bytes())?;
    output.finish()?;
    Ok(match interrupt::is_asked() {
        true => INTERRUPTED,
        false if record.plan.failed => FAILED,
        false => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_multiples_are_read() {
        assert_eq!(parse_time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_volumes("20x"), Ok(20.0));
        for wrong in ["", "h", "-1s", "0s", "1e30h", "nans", "5 weeks"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "20", "x", "-1x", "0x", "infx", "nanx"] {
            assert!(parse_volumes(wrong).is_err(), "{wrong}");
        }
    }
}
