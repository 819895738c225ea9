//! The parameters of a model by name, as a file or a command line gives them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The value of one parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number, in the unit that the parameter's name ends with.
    Number(f64),
    /// A word: `on`, `off`, the name of a kind.
    Word(String),
    /// Points of a curve.
    Curve(Vec<[f64; 2]>),
}

/// The parameters of one model.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    values: BTreeMap<String, Value>,
    /// The names that were asked for, to tell which ones nobody knows.
    asked: RefCell<BTreeSet<String>>,
}

/// Why parameters are none of a device, in a sentence.
type Outcome<T> = std::result::Result<T, String>;

impl Parameters {
    /// Gives a parameter a value, instead of the one that it had.
    pub fn set(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_owned(), value);
    }

    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// All names and values, in the order of the names.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value))
    }

    fn asked(&self, name: &str) -> Option<&Value> {
        self.asked.borrow_mut().insert(name.to_owned());
        self.values.get(name)
    }

    /// A number from `least` to `most`; `usual` if it is not given, or else it must be.
    pub(super) fn number(&self, name: &str, usual: Option<f64>, least: f64, most: f64) -> Outcome<f64> {
        let number = match (self.asked(name), usual) {
            (Some(Value::Number(number)), _) => *number,
            (Some(other), _) => return Err(format!("{name} is a number, not {other:?}")),
            (None, Some(usual)) => usual,
            (None, None) => return Err(format!("{name} is missing")),
        };
        match (least..=most).contains(&number) {
            true => Ok(number),
            false => Err(format!("{name} is {number}, and from {least} to {most} are possible")),
        }
    }

    /// A time in nanoseconds; the parameter is in units of `unit` nanoseconds.
    pub(super) fn time(&self, name: &str, unit: f64, usual: Option<f64>) -> Outcome<f64> {
        Ok(self.number(name, usual, 0.0, 1e12 / unit)? * unit)
    }

    /// A rate in bytes per nanosecond; the parameter is in MB/s (10^6 bytes).
    pub(super) fn rate(&self, name: &str, usual: Option<f64>) -> Outcome<f64> {
        Ok(self.number(name, usual, 1e-3, 1e6)? * 1e6 / 1e9)
    }

    /// A whole number.
    pub(super) fn count(&self, name: &str, usual: Option<f64>, least: f64, most: f64) -> Outcome<u64> {
        match self.number(name, usual, least, most)? {
            number if number.fract() == 0.0 => Ok(number as u64),
            number => Err(format!("{name} is {number}, and must be a whole number")),
        }
    }

    /// One of the words.
    pub(super) fn word<'w>(&self, name: &str, usual: Option<&'w str>, words: &[&'w str]) -> Outcome<&'w str> {
        let given = match (self.asked(name), usual) {
            (Some(Value::Word(word)), _) => word.as_str(),
            (Some(other), _) => return Err(format!("{name} is one of {}, not {other:?}", words.join(", "))),
            (None, Some(usual)) => usual,
            (None, None) => return Err(format!("{name} is missing")),
        };
        let known = words.iter().find(|word| **word == given).copied();
        known.ok_or_else(|| format!("{name} is {given:?}, and must be one of {}", words.join(", ")))
    }

    pub(super) fn is_on(&self, name: &str, usual: bool) -> Outcome<bool> {
        Ok(self.word(name, Some(if usual { "on" } else { "off" }), &["on", "off"])? == "on")
    }

    /// The points of a curve, whose first numbers grow from 0 to 1.
    pub(super) fn curve(&self, name: &str) -> Outcome<Vec<[f64; 2]>> {
        let Some(Value::Curve(points)) = self.asked(name) else {
            return Err(format!("{name} is a list of pairs of numbers"));
        };
        let grows = points.windows(2).all(|pair| pair[0][0] < pair[1][0]);
        let is_good = |point: &[f64; 2]| (0.0..=1.0).contains(&point[0]) && (0.0..=1e6).contains(&point[1]);
        match points.len() >= 2 && grows && points.iter().all(is_good) {
            true => Ok(points.clone()),
            false => Err(format!("{name} has at least two points that grow from 0 to 1")),
        }
    }

    /// Fails if a parameter was given that nobody has asked for.
    pub(super) fn refuse_unknown(&self) -> Outcome<()> {
        let asked = self.asked.borrow();
        match self.values.keys().find(|name| !asked.contains(*name)) {
            None => Ok(()),
            Some(name) => {
                let known: Vec<&str> = asked.iter().map(String::as_str).collect();
                Err(format!("{name} is no parameter of this model; it has {}", known.join(", ")))
            }
        }
    }
}
