//! Many machines: what many saved reports say together, by groups, and which machines fall out of theirs.
//!
//! Of each report only its rates are kept, 16 bytes each, so that thousands take little memory.

mod outliers;
mod rates;
mod show;

pub use outliers::Outlier;
pub use rates::Rates;

use crate::report::document::{DeviceInfo, Environment};
use std::collections::HashMap;

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

    fn of(&self, report: &Rates) -> String {
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

/// What was measured of what: the same on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cell {
    /// The load.
    pub workload: String,
    /// Its case, with the direction.
    pub case: String,
    /// On what.
    pub target: String,
}

/// A rate of a machine in a cell, both by number.
#[derive(Clone, Copy)]
struct Figure {
    cell: u32,
    machine: u32,
    rate: f64,
}

/// Machines that have the same values of the keys.
#[derive(Default)]
struct Group {
    name: String,
    machines: usize,
    figures: Vec<Figure>,
}

/// Reports that are being put together.
pub struct Fleet {
    keys: Vec<Key>,
    groups: Vec<Group>,
    known_groups: HashMap<String, usize>,
    cells: Vec<Cell>,
    known_cells: HashMap<Cell, u32>,
    /// The names of devices of hosts.
    machines: Vec<String>,
    known_machines: HashMap<(String, usize), u32>,
    reports: u64,
}

impl Fleet {
    /// Nothing yet; reports go into groups by these.
    pub fn new(keys: Vec<Key>) -> Fleet {
        Fleet {
            keys,
            groups: Vec::new(),
            known_groups: HashMap::new(),
            cells: Vec::new(),
            known_cells: HashMap::new(),
            machines: Vec::new(),
            known_machines: HashMap::new(),
            reports: 0,
        }
    }

    /// Reports that were added.
    pub fn reports(&self) -> u64 {
        self.reports
    }

    /// Adds what a report has.
    pub fn add(&mut self, report: Rates) {
        let values: Vec<String> = self.keys.iter().map(|key| key.of(&report)).collect();
        let name = values.join(", ");
        let group = *self.known_groups.entry(name.clone()).or_insert_with(|| {
            self.groups.push(Group { name, ..Group::default() });
            self.groups.len() - 1
        });
        let Environment { host, device: DeviceInfo { name: device, .. }, .. } = &report.environment;
        let name = if host.is_empty() { device.clone() } else { format!("{host} {device}") };
        let machine = *self.known_machines.entry((name, group)).or_insert_with_key(|(name, _)| {
            self.machines.push(name.clone());
            self.groups[group].machines += 1;
            self.machines.len() as u32 - 1
        });
        for rate in report.results.into_iter().filter(|rate| rate.iops > 0.0 && rate.iops.is_finite()) {
            let cell = Cell { case: rate.label(), workload: rate.workload, target: rate.target };
            let cell = *self.known_cells.entry(cell).or_insert_with_key(|cell| {
                self.cells.push(cell.clone());
                self.cells.len() as u32 - 1
            });
            self.groups[group].figures.push(Figure { cell, machine, rate: rate.iops });
        }
        self.reports += 1;
    }

    /// What they say together.
    pub fn summary(self) -> Summary {
        let Fleet { mut groups, cells, machines, reports, .. } = self;
        groups.iter_mut().for_each(Group::settle);
        Summary { groups, cells, machines, reports }
    }
}

impl Group {
    /// Sorts the figures by cell, and keeps one for each machine and cell: the median of what it measured.
    fn settle(&mut self) {
        self.figures.sort_by_key(|figure| (figure.cell, figure.machine));
        let mut kept: Vec<Figure> = Vec::new();
        let same = |a: &Figure, b: &Figure| (a.cell, a.machine) == (b.cell, b.machine);
        // A group of machines with one report each, as most are, stays as it is.
        if self.figures.windows(2).any(|pair| same(&pair[0], &pair[1])) {
            for of_one in self.figures.chunk_by(same) {
                let rates: Vec<f64> = of_one.iter().map(|figure| figure.rate).collect();
                kept.push(Figure { rate: crate::statistics::median(&rates), ..of_one[0] });
            }
            self.figures = kept;
        }
    }

    /// What the machines have of a cell.
    fn of(&self, cell: u32) -> &[Figure] {
        let begin = self.figures.partition_point(|figure| figure.cell < cell);
        let length = self.figures[begin..].partition_point(|figure| figure.cell == cell);
        &self.figures[begin..begin + length]
    }
}

/// Reports put together.
pub struct Summary {
    groups: Vec<Group>,
    cells: Vec<Cell>,
    machines: Vec<String>,
    reports: u64,
}
