//! Parses fio's `random_distribution`.
//!
//! Facts: fio's `HOWTO`. A second number gives the position of the most likely place, from 0 to 1; without it, the
//! places of `zipf` and `pareto` are scattered over the file, and the centre of `normal` is the middle of the file.

use super::values::{KbBase, number, real};
use crate::{PartLength, Spread, SpreadPart};

pub(super) fn spread(text: &str, base: KbBase) -> Result<Spread, String> {
    let (kind, rest) = text.split_once(':').map_or((text, ""), |(kind, rest)| (kind, rest));
    let spread = match kind {
        "random" => Spread::Uniform,
        "zipf" => {
            let (theta, at) = numbers(rest, 1.1)?;
            if theta == 1.0 {
                return Err("zipf takes any theta above 0 but 1".into());
            }
            Spread::Zipf { theta, at }
        }
        "pareto" => {
            let (hot, at) = numbers(rest, 0.2)?;
            Spread::Pareto { hot, at }
        }
        "normal" => {
            let (deviation, at) = numbers(rest, 0.0)?;
            Spread::Normal { deviation, at: at.unwrap_or(0.5) }
        }
        "zoned" => Spread::Parts(parts(rest, |length| real(length).map(PartLength::Percent))?),
        "zoned_abs" => Spread::Parts(parts(rest, |length| number(length, base).map(PartLength::Bytes))?),
        _ => return Err("expected random, zipf, pareto, normal, zoned or zoned_abs".into()),
    };
    spread.check().map_err(|_| "its numbers are out of their range")?;
    Ok(spread)
}

/// Parses one number, or two with a colon between them; an empty first number is `default`.
fn numbers(text: &str, default: f64) -> Result<(f64, Option<f64>), String> {
    let (first, second) = text.split_once(':').map_or((text, None), |(first, second)| (first, Some(second)));
    let first = if first.is_empty() { default } else { real(first)? };
    Ok((first, second.map(real).transpose()?))
}

/// Parses `SHARE/LENGTH:SHARE/LENGTH`; the last part may have no length. Lists for reads and writes must be equal.
fn parts(text: &str, length: impl Fn(&str) -> Result<PartLength, String>) -> Result<Vec<SpreadPart>, String> {
    let mut sides = text.split(',');
    let first = sides.next().unwrap_or_default();
    if sides.any(|side| side != first) {
        return Err("zones are the same for reads and writes".into());
    }
    let part = |part: &str| {
        let (share, size) = part.split_once('/').ok_or("expected SHARE/LENGTH:SHARE/LENGTH")?;
        let length = if size.is_empty() { PartLength::Rest } else { length(size)? };
        Ok(SpreadPart { percent: real(share)?, length })
    };
    let parts = first.split(':').map(part).collect::<Result<Vec<SpreadPart>, String>>()?;
    let shares: f64 = parts.iter().map(|part| part.percent).sum();
    if (shares - 100.0).abs() > 1e-6 {
        return Err(format!("the shares of the zones are 100 together, and not {shares}"));
    }
    let lengths = parts.iter().filter_map(|part| match part.length {
        PartLength::Percent(percent) => Some(percent),
        _ => None,
    });
    match lengths.sum::<f64>() {
        lengths if lengths > 100.0 + 1e-6 => {
            Err(format!("the zones are {lengths} % of the file together, which are more than there are"))
        }
        _ => Ok(parts),
    }
}
