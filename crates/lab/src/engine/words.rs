//! A load in words, for reports.

use super::pattern::{NextFile, Pattern, Portion, Rate};
use super::places::{PartLength, Spread};
use platter_device::show_size;

/// The greatest number of kinds of I/O that are described one by one.
const TOLD: usize = 6;

impl Pattern {
    /// Describes everything about the load but its block size, its percentages and its depth; `None` if there is
    /// nothing.
    pub fn words(&self) -> Option<String> {
        let shape = &self.shape;
        let mut parts = Vec::new();
        parts.extend(shape.script.as_ref().map(|script| script.words()));
        if shape.mix.len() > TOLD {
            parts.push(format!(
                "{} kinds of I/O, {:.0} bytes in the mean",
                shape.mix.len(),
                self.mean_block()
            ));
        } else if !shape.mix.is_empty() {
            let all: f64 = shape.mix.iter().map(|portion| f64::from(portion.weight)).sum();
            parts.extend(shape.mix.iter().map(|portion| portion_words(portion, all)));
        }
        parts.extend(spread_words(&shape.spread));
        if shape.run > 1 {
            parts.push(format!("{} in a row from each place", shape.run));
        }
        if shape.own_positions {
            parts.push("reads and writes each in their own order".into());
        }
        parts.extend(shape.stride.map(|stride| format!("{stride} bytes from one to the next")));
        if shape.files > 1 {
            let order = match shape.next_file {
                NextFile::RoundRobin => "in turns",
                NextFile::Random => "at random",
                NextFile::Sequential => "one after the other",
            };
            parts.push(format!("{} files {order}", shape.files));
        }
        if shape.same_seed {
            parts.push("the same places for every worker".into());
        }
        for (limit, what) in shape.pace.limits.iter().zip(["reads", "writes", "both"]) {
            parts.extend(limit.map(|limit| match limit {
                Rate::Ios(rate) => format!("at most {rate:.0} I/Os/s of {what} a worker"),
                Rate::Bytes(rate) => format!("at most {rate:.0} bytes/s of {what} a worker"),
            }));
        }
        if shape.pace.poisson {
            parts.push("as a Poisson process".into());
        }
        parts.extend(shape.pace.pause.map(|pause| {
            format!("{} ms of pause after every {}", pause.time.as_secs_f64() * 1e3, pause.after)
        }));
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

fn portion_words(portion: &Portion, all: f64) -> String {
    let least = show_size(portion.least.into());
    let size = match portion.least == portion.most {
        true => least,
        false => format!("{least} to {}", show_size(portion.most.into())),
    };
    let direction = match portion.read_percent {
        100 => "reads".into(),
        0 => "writes".into(),
        percent => format!("{percent} % read"),
    };
    format!("{size} {direction} {:.3} %", f64::from(portion.weight) * 100.0 / all).replace(".000 %", " %")
}

fn spread_words(spread: &Spread) -> Option<String> {
    Some(match spread {
        Spread::Uniform => return None,
        Spread::Zipf { theta, .. } => format!("places by Zipf's law with {theta}"),
        Spread::Pareto { hot, .. } => {
            format!("{:.0} % of I/Os in {:.0} % of the places", (1.0 - hot) * 100.0, hot * 100.0)
        }
        Spread::Normal { deviation, .. } => format!("places in a bell of {deviation} % around the middle"),
        Spread::Parts(parts) => {
            let words = parts.iter().map(|part| match part.length {
                PartLength::Percent(length) => format!("{} % in {length} %", part.percent),
                PartLength::Rest => format!("{} % in the rest", part.percent),
                PartLength::Bytes(length) => format!("{} % in {}", part.percent, show_size(length)),
            });
            format!("I/Os by parts of the span: {}", words.collect::<Vec<_>>().join(", "))
        }
    })
}
