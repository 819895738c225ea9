//! Parses a command line of DiskSpd.

use super::profile::{Caches, Length, Profile, Target, Throughput, TimeSpan, WriteContent};
use std::path::Path;

type Parsed<T> = Result<T, String>;

/// The upper limit of counts.
const MOST: u64 = u32::MAX as u64;

/// The options that override a profile read from a file (`-X`).
#[derive(Default)]
struct Overrides {
    duration: Option<u32>,
    warmup: Option<u32>,
    cooldown: Option<u32>,
    seed: Option<u32>,
    xml: Option<bool>,
    verbose: bool,
}

impl Profile {
    /// Reads a command line, without the name of the program.
    ///
    /// # Errors
    /// A sentence that names the option.
    pub fn from_arguments(arguments: &[String]) -> Parsed<Profile> {
        let mut line = Line::default();
        let mut paths = Vec::new();
        // The block size is parsed first, wherever it stands, because other sizes may be given in blocks.
        for argument in arguments {
            if let Some(size) = option(argument).and_then(|option| option.strip_prefix('b')) {
                line.target.block = size_of(size, 1).map_err(|reason| format!("{argument}: {reason}"))?;
            }
        }
        for argument in arguments {
            refuse_typography(argument)?;
            match option(argument) {
                Some(option) => line.take(option).map_err(|reason| format!("{argument}: {reason}"))?,
                None => paths.push(argument.clone()),
            }
        }
        let command = std::iter::once("diskspd").chain(arguments.iter().map(String::as_str));
        line.finish(command.collect::<Vec<_>>().join(" "), paths)
    }
}

/// Refuses an argument that begins with a dash of typography, as a page on the web or a text processor makes of a
/// hyphen: taken for the name of a file, it would run another load without a word.
fn refuse_typography(argument: &str) -> Parsed<()> {
    const DASHES: &[char] = &[
        '\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2014}', '\u{2015}', '\u{2212}', '\u{FE63}',
        '\u{FF0D}',
    ];
    match argument.chars().next().filter(|first| DASHES.contains(first)) {
        Some(dash) => Err(format!(
            "{argument}: it begins with a dash of typography (U+{:04X}); an option begins with a hyphen: -{}",
            u32::from(dash),
            argument.trim_start_matches(DASHES)
        )),
        None => Ok(()),
    }
}

/// The text of an argument after the dash, if the argument is an option.
fn option(argument: &str) -> Option<&str> {
    argument.strip_prefix('-').filter(|option| !option.is_empty())
}

/// The options parsed so far.
#[derive(Default)]
struct Line {
    span: TimeSpan,
    target: Target,
    overrides: Overrides,
    only_profile: bool,
    /// The path of a file with a profile (`-X`).
    file: Option<String>,
    /// The first option that may not be combined with `-X`, because the profile in the file states it.
    own: Option<String>,
    has_threads: bool,
    progress: u32,
}

impl Line {
    fn take(&mut self, option: &str) -> Parsed<()> {
        let mut letters = option.chars();
        let letter = letters.next().unwrap_or_default();
        let rest = letters.as_str();
        let block = self.target.block;
        let size = || size_of(rest, block);
        let number = |least: u64, most: u64| number_of(rest, least, most).map(|number| number as u32);
        let seconds = || number_of(rest, 0, MOST).map(|seconds| seconds as u32);
        if !matches!(letter, 'W' | 'd' | 'C' | 'R' | 'v' | 'z' | 'X' | 'P' | 'c') {
            self.own.get_or_insert_with(|| format!("-{option}"));
        }
        let (span, target) = (&mut self.span, &mut self.target);
        match letter {
            '?' => return Err("the options are in docs/diskspd.md".into()),
            ':' => match number_of(rest, 0, MOST)? {
                0 | 1 => {}
                _ => {
                    return Err(
                        "of the experimental behaviours only 1 is known, which makes no other load".into()
                    );
                }
            },
            'a' if rest == "g" => {}
            'a' => return Err("start platter itself with taskset".into()),
            'b' => match target.block {
                1..=0xFFFF_FFFF => {}
                _ => return Err("expected a block of 1 byte to 4 GiB".into()),
            },
            'B' => {
                let (base, length) = rest.split_once(':').map_or((rest, None), |(base, l)| (base, Some(l)));
                target.base = size_of(base, block)?;
                if let Some(length) = length {
                    target.max = target.base.saturating_add(size_of(length, block)?);
                }
            }
            'c' => target.size = size()?,
            'C' => self.overrides.cooldown = Some(seconds()?),
            'd' => self.overrides.duration = Some(number(1, MOST)?),
            'D' => {
                span.iops_deviation = true;
                span.bucket = if rest.is_empty() { 1000 } else { number(1, MOST)? };
            }
            'f' if rest.starts_with(|c: char| c.is_ascii_digit()) => target.max = size()?,
            'f' => {
                for hint in rest.chars() {
                    match hint {
                        'r' => target.random_access = true,
                        's' => target.sequential_scan = true,
                        't' => target.temporary = true,
                        _ => return Err("expected a size, or the hints r, s and t".into()),
                    }
                }
            }
            'F' => span.threads = number(1, 4096)?,
            'g' => {
                target.throughput = Some(match rest.strip_suffix('i') {
                    Some(iops) => Throughput::Iops(number_of(iops, 1, MOST)?),
                    None => Throughput::BytesPerMs(number_of(rest, 1, MOST)?),
                });
            }
            'h' => target.caches = Caches { no_buffering: true, write_through: true },
            'i' => target.burst = number(1, MOST)?,
            'j' => target.think = number(1, MOST)?,
            'I' => match number(1, 3)? {
                3 => {}
                _ => return Err("start platter itself with ionice".into()),
            },
            // Only noted for the profile: buffers use huge pages in any case, if the system has some.
            'l' => target.large_pages = true,
            'L' => span.latency = true,
            'n' => span.affinity = false,
            'N' => return Err("I/O through mapped memory is not measured".into()),
            'o' => target.requests = number(1, crate::workload::MOST_DEPTH.into())?,
            'O' => span.requests = number(1, crate::workload::MOST_DEPTH.into())?,
            'p' => {
                return Err("outstanding I/Os follow each other; they do not all begin at one offset".into());
            }
            'P' => self.progress = if rest.is_empty() { 65536 } else { number(1, MOST)? },
            'r' => self.random(rest)?,
            'R' => {
                let form = rest.strip_prefix('p').unwrap_or(rest);
                self.only_profile = rest.starts_with('p');
                self.overrides.xml = Some(match form {
                    "xml" => true,
                    "text" | "" => false,
                    _ => return Err("expected text or xml".into()),
                });
            }
            's' => {
                let (interlocked, stride) = rest.strip_prefix('i').map_or((false, rest), |rest| (true, rest));
                target.interlocked = interlocked;
                target.stride = match stride {
                    "" => None,
                    stride => Some(nonzero(size_of(stride, block)?)?),
                };
            }
            'S' => target.caches = caches(rest, target.caches)?,
            't' => {
                target.threads = number(1, 4096)?;
                self.has_threads = true;
            }
            'T' => target.thread_stride = size()?,
            'v' => match rest {
                "" | "s" => self.overrides.verbose = true,
                _ => return Err("expected -v or -vs".into()),
            },
            'w' => target.write_ratio = if rest.is_empty() { 0 } else { number(0, 100)? as u8 },
            'W' => self.overrides.warmup = Some(seconds()?),
            'x' => span.completion_routines = true,
            'X' => self.file = Some(path(rest)?),
            'y' => return Err("events between programs are those of Windows".into()),
            'e' => return Err("event tracing is that of Windows".into()),
            'z' => {
                self.overrides.seed = Some(if rest.is_empty() { of_the_clock() } else { number(0, MOST)? })
            }
            'Z' => match rest {
                "" => return Err("writes are never zeros here, as devices may not store those".into()),
                "r" => span.random_data = true,
                rest if rest.contains(',') => {
                    return Err("the content of writes is random, and not taken from a file".into());
                }
                rest => target.content = WriteContent::Random(nonzero(size_of(rest, block)?)?),
            },
            _ => return Err("this option is not understood".into()),
        }
        Ok(())
    }

    fn random(&mut self, rest: &str) -> Parsed<()> {
        let (block, target) = (self.target.block, &mut self.target);
        if let Some(parts) = rest.strip_prefix("dpct") {
            target.distribution =
                distribution(parts, |length| Ok(Length::Percent(number_of(length, 0, 100)? as f64)))?;
        } else if let Some(parts) = rest.strip_prefix("dabs") {
            target.distribution = distribution(parts, |length| size_of(length, block).map(Length::Bytes))?;
        } else if let Some(percent) = rest.strip_prefix('s') {
            let percent = number_of(percent, 0, 100)? as u8;
            target.random_ratio = Some(percent).filter(|&percent| percent > 0 && percent < 100);
            target.random = match percent {
                0 => None,
                _ => target.random.or(Some(block)),
            };
        } else {
            target.random = Some(if rest.is_empty() { block } else { nonzero(size_of(rest, block)?)? });
        }
        Ok(())
    }

    fn finish(self, command: String, paths: Vec<String>) -> Parsed<Profile> {
        let Line { span, target, overrides, only_profile, file, own, has_threads, progress } = self;
        let mut profile = match file {
            Some(file) => {
                if let Some(own) = own {
                    return Err(format!(
                        "{own}: with -X the file says it; beside it are -d, -W, -C, -R, -v, -z, -P and -c"
                    ));
                }
                let mut profile = Profile::from_file(Path::new(&file), &paths)?;
                // The size to make files with, for targets of which the profile gives none.
                let targets = profile.time_spans.iter_mut().flat_map(|span| &mut span.targets);
                targets.filter(|other| other.size == 0).for_each(|other| other.size = target.size);
                profile.command = command;
                profile
            }
            None => {
                if paths.is_empty() {
                    return Err("a target is missing: a file, whose size -c gives if it is not there".into());
                }
                if has_threads && span.threads > 0 {
                    return Err("-t and -F: threads are of each target, or of all together".into());
                }
                let is_random = target.random.is_some() || !target.distribution.is_empty();
                if is_random && (target.interlocked || target.thread_stride > 0) {
                    return Err("-si and -T are for sequential I/O, and conflict with -r".into());
                }
                let mut target = target;
                if !target.distribution.is_empty() && target.random.is_none() {
                    target.random = Some(target.block);
                }
                if target.interlocked && target.thread_stride > 0 {
                    return Err("-si and -T: threads share one place, or begin apart".into());
                }
                if (target.burst == 0) != (target.think == 0) {
                    return Err("-i and -j: a burst and the pause behind it need each other".into());
                }
                if target.throughput.is_some() && span.completion_routines {
                    return Err("-g and -x: as in DiskSpd they are not for each other".into());
                }
                let targets = paths.into_iter().map(|path| Target { path, ..target.clone() }).collect();
                let mut profile = Profile::new(command);
                profile.time_spans.push(TimeSpan { targets, ..span });
                profile
            }
        };
        profile.only_profile = only_profile;
        profile.xml = overrides.xml.unwrap_or(profile.xml);
        profile.verbose |= overrides.verbose;
        profile.progress = progress.max(profile.progress);
        for span in &mut profile.time_spans {
            span.duration = overrides.duration.unwrap_or(span.duration);
            span.warmup = overrides.warmup.unwrap_or(span.warmup);
            span.cooldown = overrides.cooldown.unwrap_or(span.cooldown);
            span.seed = overrides.seed.unwrap_or(span.seed);
        }
        Ok(profile)
    }
}

/// Parses the letters of `-S`.
fn caches(rest: &str, before: Caches) -> Parsed<Caches> {
    let mut caches = before;
    for letter in if rest.is_empty() { "u" } else { rest }.chars() {
        match letter {
            'b' => caches.no_buffering = false,
            'u' => caches.no_buffering = true,
            'w' => caches.write_through = true,
            'h' => caches = Caches { no_buffering: true, write_through: true },
            'm' => return Err("I/O through mapped memory is not measured".into()),
            'r' => return Err("the caches of a remote file system are its own".into()),
            _ => return Err("expected b, h, m, r, u or w".into()),
        }
    }
    match rest.contains('b') && rest.contains(['u', 'h']) {
        true => Err("with the system's cache, or without it".into()),
        false => Ok(caches),
    }
}

/// Parses a distribution: `IO%/LENGTH:IO%/LENGTH`.
fn distribution(text: &str, length: impl Fn(&str) -> Parsed<Length>) -> Parsed<Vec<(f64, Length)>> {
    let part = |part: &str| {
        let (share, size) = part.split_once('/').ok_or("expected IO%/LENGTH:IO%/LENGTH")?;
        Ok((number_of(share, 0, 100)? as f64, length(size)?))
    };
    let parts = text.split(':').map(part).collect::<Parsed<Vec<(f64, Length)>>>()?;
    let all: f64 = parts.iter().map(|(share, _)| share).sum();
    match all <= 100.0 {
        true => Ok(parts),
        false => Err(format!("the shares are {all} % together")),
    }
}

fn path(rest: &str) -> Parsed<String> {
    match rest {
        "" => Err("expected the path of a profile behind it".into()),
        path => Ok(path.to_owned()),
    }
}

fn nonzero(bytes: u64) -> Parsed<u64> {
    if bytes == 0 { Err("expected more than 0 bytes".into()) } else { Ok(bytes) }
}

fn number_of(text: &str, least: u64, most: u64) -> Parsed<u64> {
    let number: Option<u64> = text.parse().ok();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("expected a number from {least} to {most}"))
}

/// Parses a size: bytes, a number with K, M, G or T (powers of 1,024), or a number of blocks with b.
fn size_of(text: &str, block: u64) -> Parsed<u64> {
    let wrong = || "expected a size such as 4096, 64K, 1G or 8b".to_string();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let factor = match unit {
        "" => 1,
        "b" | "B" => block,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        "t" | "T" => 1 << 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(|| "the size is too large".into())
}

/// Returns a seed for a profile without one; DiskSpd uses the time since the system started.
fn of_the_clock() -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |time| time.subsec_nanos() ^ time.as_secs() as u32)
}
