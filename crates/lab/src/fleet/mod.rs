//! A fleet: the rates of many machines' reports, in groups, and the machines that stand out from their group.
//!
//! Only the rates of each report are kept, 16 bytes each, so that thousands of reports take little memory.

mod outliers;
mod rates;
mod show;
mod spread;

pub use outliers::Outlier;
pub use rates::Rates;

use crate::document::{DeviceInfo, Environment};
use std::collections::HashMap;

/// A property of reports by which they are grouped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// `label.NAME`: the value that `--label NAME=VALUE` gave the report.
    Label(String),
    /// A fact about the machine or its device.
    Fact(&'static str),
}

/// Returns a fact of a report as text.
type Fact = fn(&Environment) -> String;

/// The facts that reports can be grouped by, with their names.
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
    /// Parses a key.
    ///
    /// # Errors
    /// A sentence that lists the possible keys.
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

/// A case on a target: measured in the same way on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cell {
    /// The name of the workload.
    pub workload: String,
    /// The name of the case, with the direction.
    pub case: String,
    /// The name of the target.
    pub target: String,
}

/// The rate of one machine in one cell; both are given by their index.
#[derive(Clone, Copy)]
struct Figure {
    cell: u32,
    machine: u32,
    rate: f64,
}

/// The machines whose reports have the same values of all keys.
#[derive(Default)]
struct Group {
    name: String,
    machines: usize,
    figures: Vec<Figure>,
}

/// The reports that have been added so far.
pub struct Fleet {
    keys: Vec<Key>,
    /// The properties that tell machines apart; empty for the usual ones.
    identity: Vec<Key>,
    groups: Vec<Group>,
    known_groups: HashMap<String, usize>,
    cells: Vec<Cell>,
    known_cells: HashMap<Cell, u32>,
    /// The name of each machine: the host and its device. Every device of a host counts as a machine.
    machines: Vec<String>,
    known_machines: HashMap<(String, String, usize), u32>,
    reports: u64,
}

impl Fleet {
    /// Makes an empty fleet, in which reports are grouped by these keys.
    pub fn new(keys: Vec<Key>) -> Fleet {
        Fleet {
            keys,
            identity: Vec::new(),
            groups: Vec::new(),
            known_groups: HashMap::new(),
            cells: Vec::new(),
            known_cells: HashMap::new(),
            machines: Vec::new(),
            known_machines: HashMap::new(),
            reports: 0,
        }
    }

    /// Reports are of one machine if they agree in these properties and in the device, instead of the usual ones: the
    /// label `machine` or else `node`, or without them the name of the host and its identifier.
    pub fn identified_by(self, identity: Vec<Key>) -> Fleet {
        Fleet { identity, ..self }
    }

    /// The name of a report's machine, and what tells it from another machine of the same name.
    fn machine(&self, report: &Rates) -> (String, String) {
        if !self.identity.is_empty() {
            let values: Vec<String> = self.identity.iter().map(|key| key.of(report)).collect();
            return (values.join(" "), String::new());
        }
        // A pod, a container and a live system have another host's name each time; what starts them knows the node.
        let mut labels = ["machine", "node"].into_iter().filter_map(|name| report.labels.get(name));
        if let Some(name) = labels.find(|name| !name.is_empty()) {
            return (name.clone(), String::new());
        }
        let Environment { host, machine_id, .. } = &report.environment;
        (host.clone(), machine_id.clone().unwrap_or_default())
    }

    /// The number of reports that were added.
    pub fn reports(&self) -> u64 {
        self.reports
    }

    /// Adds the rates of a report.
    pub fn add(&mut self, report: Rates) {
        let values: Vec<String> = self.keys.iter().map(|key| key.of(&report)).collect();
        let name = values.join(", ");
        let group = *self.known_groups.entry(name.clone()).or_insert_with(|| {
            self.groups.push(Group { name, ..Group::default() });
            self.groups.len() - 1
        });
        let Environment { device: DeviceInfo { name: device, .. }, .. } = &report.environment;
        let (host, id) = self.machine(&report);
        let name = if host.is_empty() { device.clone() } else { format!("{host} {device}") };
        let machine = *self.known_machines.entry((name, id, group)).or_insert_with_key(|(name, id, _)| {
            // Two machines of one name are told apart by their identifiers.
            let short = |id: &str| id.chars().take(8).collect::<String>();
            let is_taken = self.machines.contains(name);
            self.machines.push(if is_taken { format!("{name} ({})", short(id)) } else { name.clone() });
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

    /// Combines the reports into a summary.
    pub fn summary(self) -> Summary {
        let Fleet { mut groups, cells, machines, reports, .. } = self;
        groups.iter_mut().for_each(Group::settle);
        Summary { groups, cells, machines, reports }
    }
}

impl Group {
    /// Sorts the figures by cell, and keeps one figure for each machine and cell: the median of its rates.
    fn settle(&mut self) {
        self.figures.sort_by_key(|figure| (figure.cell, figure.machine));
        let mut kept: Vec<Figure> = Vec::new();
        let same = |a: &Figure, b: &Figure| (a.cell, a.machine) == (b.cell, b.machine);
        // In most groups each machine has one report, so there is nothing to combine.
        if self.figures.windows(2).any(|pair| same(&pair[0], &pair[1])) {
            for of_one in self.figures.chunk_by(same) {
                let rates: Vec<f64> = of_one.iter().map(|figure| figure.rate).collect();
                kept.push(Figure { rate: crate::statistics::median(&rates), ..of_one[0] });
            }
            self.figures = kept;
        }
    }

    /// The figures of all machines in a cell.
    fn of(&self, cell: u32) -> &[Figure] {
        let begin = self.figures.partition_point(|figure| figure.cell < cell);
        let length = self.figures[begin..].partition_point(|figure| figure.cell == cell);
        &self.figures[begin..begin + length]
    }
}

/// The combined reports of a fleet.
pub struct Summary {
    groups: Vec<Group>,
    cells: Vec<Cell>,
    machines: Vec<String>,
    reports: u64,
}
