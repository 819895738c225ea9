//! The machines that stand out from their group.
//!
//! In each cell, a machine's distance is the difference of the logarithm of its rate from the group's median, in units
//! of the group's spread (1.4826 times the median of all absolute differences, which is the standard deviation if they
//! are normally distributed). A machine that is slow in everything is found by the median of its distances over all
//! cells, and one that is odd in a single cell by its distance there. Probabilities are those of Student's t, corrected
//! for the number of machines and cells (Bonferroni): where all machines are alike, the probability that any is named
//! is at most one in twenty.

use super::Summary;
use crate::statistics::median;
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::collections::BTreeMap;

/// The chance that any machine is named where all are alike.
const ERRORS: f64 = 0.05;
/// The least number of machines in a group; of a smaller group no machine is named.
pub(super) const LEAST: usize = 8;
/// The standard deviation of a normal distribution, as a multiple of the median of absolute distances.
const DEVIATION: f64 = 1.4826;
/// The efficiency of the median of absolute distances as an estimate of the spread: its variance is that of a standard
/// deviation which is computed from only this share of the values.
const EFFICIENCY: f64 = 0.37;
/// The least spread that is assumed, as rates of different machines are never more alike than this.
const LEAST_SPREAD: f64 = 0.001;

/// A machine that stands out from its group.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlier {
    /// The name of the machine: host and device.
    pub machine: String,
    /// The name of its group.
    pub group: String,
    /// The machine's rate as a multiple of the group's median: over all cells, or in the one cell.
    pub ratio: f64,
    /// The machine's distance from the group's median, in units of the group's spread.
    pub distance: f64,
    /// The cell in which the machine stands out; `None` if it stands out over all cells.
    pub cell: Option<super::Cell>,
}

/// Returns the distance of each value from the median of all, in units of their spread.
fn distances(values: &[f64]) -> Vec<f64> {
    let middle = median(values);
    let away: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let spread = (median(&away) * DEVIATION).max(LEAST_SPREAD);
    values.iter().map(|value| (value - middle) / spread).collect()
}

/// The two-sided probability of a distance at least as large as this in a group of so many machines.
fn chance(distance: f64, machines: usize) -> f64 {
    let freedom = EFFICIENCY * (machines - 1) as f64;
    let student = StudentsT::new(0.0, 1.0, freedom).expect("a group has several machines");
    2.0 * student.sf(distance.abs())
}

impl Summary {
    /// The machines that stand out from their groups, the slowest first.
    pub fn outliers(&self) -> Vec<Outlier> {
        let judged: usize =
            self.groups.iter().map(|group| group.machines).filter(|machines| *machines >= LEAST).sum();
        // Half of the error probability is for machines over all cells, half for machines in single cells.
        let whole = ERRORS / 2.0 / judged.max(1) as f64;
        let single = whole / self.cells.len().max(1) as f64;
        let mut found = Vec::new();
        for group in self.groups.iter().filter(|group| group.machines >= LEAST) {
            let mut logs: BTreeMap<u32, Vec<(u32, f64, f64)>> = BTreeMap::new();
            for of_cell in group.figures.chunk_by(|a, b| a.cell == b.cell) {
                if of_cell.len() < LEAST {
                    continue;
                }
                let values: Vec<f64> = of_cell.iter().map(|figure| figure.rate.ln()).collect();
                let middle = median(&values);
                for ((figure, value), distance) in of_cell.iter().zip(&values).zip(distances(&values)) {
                    logs.entry(figure.machine).or_default().push((figure.cell, distance, value - middle));
                }
            }
            let measured: Vec<u32> = logs.keys().copied().collect();
            let over = |machine: u32, of: fn(&(u32, f64, f64)) -> f64| {
                median(&logs[&machine].iter().map(of).collect::<Vec<f64>>())
            };
            let typical: Vec<f64> = measured.iter().map(|&machine| over(machine, |cell| cell.1)).collect();
            for (&machine, distance) in measured.iter().zip(distances(&typical)) {
                let outlier = |ratio: f64, distance: f64, cell: Option<u32>| Outlier {
                    machine: self.machines[machine as usize].clone(),
                    group: group.name.clone(),
                    ratio,
                    distance,
                    cell: cell.map(|cell| self.cells[cell as usize].clone()),
                };
                if chance(distance, measured.len()) < whole {
                    found.push(outlier(over(machine, |cell| cell.2).exp(), distance, None));
                    continue;
                }
                let odd = logs[&machine].iter().filter(|cell| chance(cell.1, measured.len()) < single);
                found.extend(odd.map(|&(cell, distance, log)| outlier(log.exp(), distance, Some(cell))));
            }
        }
        found.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        found
    }
}
