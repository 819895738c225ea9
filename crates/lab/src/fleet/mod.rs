//! Many machines: what many saved reports say together, by groups, and which machines fall out of theirs.
//!
//! Of each report only its rates are kept, so that thousands take little memory.

mod outliers;
mod show;

pub use outliers::Outlier;

use crate::report::document::{Case, DeviceInfo, Environment, SCHEMA};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A property of a report that it is put into a group by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// `label.NAME`: what `--label NAME=VALUE` said.
    Label(String),
    /// A fact of the machine or its device.
    Fact(&'static str),
}

/// A fact of a report, as text.
type Fact = fn(&Environment) -> String;

/// Facts by name.
const FACTS: [(&str, Fact); 9] = [
    ("host", |from| from.host.clone()),
    ("cpu", |from| from.cpu.clone()),
    ("kernel", |from| from.kernel.clone()),
    ("os", |from| from.os.clone()),
    ("version", |from| from.platter_version.clone()),
    ("device.model", |from| from.device.model.clone().unwrap_or_default()),
    ("device.firmware", |from| from.device.firmware.clone().unwrap_or_default()),
    ("device.kind", |from| from.device.kind.clone()),
    ("device.name", |from| from.device.name.clone()),
];

impl Key {
    /// Reads a key.
    ///
    /// # Errors
    /// A sentence that lists what there is.
    pub fn parse(text: &str) -> Result<Key, String> {
        if let Some(name) = text.strip_prefix("label.").filter(|name| !name.is_empty()) {
            return Ok(Key::Label(name.into()));
        }
        let names = FACTS.map(|(name, _)| name);
        match names.into_iter().find(|name| *name == text) {
            Some(name) => Ok(Key::Fact(name)),
            None => Err(format!("expected label.NAME or one of {}", names.join(", "))),
        }
    }

    fn of(&self, report: &Slim) -> String {
        let value = match self {
            Key::Label(name) => report.labels.get(name).cloned().unwrap_or_default(),
            Key::Fact(name) => {
                let fact = FACTS.iter().find(|(other, _)| other == name);
                fact.map_or_else(String::new, |(_, fact)| fact(&report.environment))
            }
        };
        if value.is_empty() { "(not told)".into() } else { value }
    }
}

/// What is read of a report; all else is passed over.
#[derive(Deserialize)]
struct Slim {
    schema: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    environment: Environment,
    results: Vec<SlimResult>,
}

#[derive(Deserialize)]
struct SlimResult {
    target: String,
    #[serde(flatten)]
    case: Case,
    iops: f64,
}

/// What was measured of what: the same on every machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// The load.
    pub workload: String,
    /// Its case, with the direction.
    pub case: String,
    /// On what.
    pub target: String,
}

/// One machine: the reports of one device of one host.
pub(crate) struct Machine {
    pub name: String,
    /// For each cell, by number, what its reports have.
    pub rates: BTreeMap<u32, Vec<f64>>,
}

impl Machine {
    /// The median over its reports.
    pub fn rate(&self, cell: u32) -> Option<f64> {
        self.rates.get(&cell).map(|rates| crate::statistics::median(rates))
    }
}

/// Reports put together.
pub struct Fleet {
    keys: Vec<Key>,
    groups: Vec<String>,
    /// Of each group its machines, by number.
    members: Vec<Vec<usize>>,
    cells: Vec<Cell>,
    machines: Vec<Machine>,
    known: BTreeMap<(String, usize), usize>,
    known_groups: BTreeMap<String, usize>,
    numbers: BTreeMap<Cell, u32>,
    reports: u64,
}

impl Fleet {
    /// Nothing yet; reports go into groups by these.
    pub fn new(keys: Vec<Key>) -> Fleet {
        Fleet {
            keys,
            groups: Vec::new(),
            members: Vec::new(),
            cells: Vec::new(),
            machines: Vec::new(),
            known: BTreeMap::new(),
            known_groups: BTreeMap::new(),
            numbers: BTreeMap::new(),
            reports: 0,
        }
    }

    /// Reports that were added.
    pub fn reports(&self) -> u64 {
        self.reports
    }

    /// Adds a saved report.
    ///
    /// # Errors
    /// Why the text is none.
    pub fn add(&mut self, json: &str) -> Result<(), String> {
        let report: Slim = serde_json::from_str(json).map_err(|error| error.to_string())?;
        if report.schema != SCHEMA {
            return Err(format!("its schema is {:?}; this version reads {SCHEMA:?}", report.schema));
        }
        let values: Vec<String> = self.keys.iter().map(|key| key.of(&report)).collect();
        let named = values.join(", ");
        let next = self.groups.len();
        let group = *self.known_groups.entry(named.clone()).or_insert(next);
        if group == next {
            self.groups.push(named);
            self.members.push(Vec::new());
        }
        let Environment { host, device: DeviceInfo { name: device, .. }, .. } = &report.environment;
        let name = if host.is_empty() { device.clone() } else { format!("{host} {device}") };
        let next = self.machines.len();
        let number = *self.known.entry((name.clone(), group)).or_insert(next);
        if number == next {
            self.machines.push(Machine { name, rates: BTreeMap::new() });
            self.members[group].push(number);
        }
        for result in report.results.into_iter().filter(|result| result.iops > 0.0 && result.iops.is_finite())
        {
            let case = result.case.label();
            let cell = Cell { workload: result.case.workload, case, target: result.target };
            let next = self.cells.len() as u32;
            let number_of_cell = *self.numbers.entry(cell.clone()).or_insert(next);
            if number_of_cell == next {
                self.cells.push(cell);
            }
            self.machines[number].rates.entry(number_of_cell).or_default().push(result.iops);
        }
        self.reports += 1;
        Ok(())
    }

    /// Machines of a group that have a cell, with its rate.
    fn rates(&self, group: usize, cell: u32) -> Vec<(usize, f64)> {
        let rate = |&number: &usize| Some((number, self.machines[number].rate(cell)?));
        self.members[group].iter().filter_map(rate).collect()
    }
}
