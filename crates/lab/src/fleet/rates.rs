//! The part of a saved report that a fleet needs: environment and rates. All other content is skipped while parsing.

use crate::document::{Case, Direction, Environment, SCHEMA};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The rates of a saved report, and the properties by which it can be grouped.
#[derive(Deserialize)]
pub struct Rates {
    schema: String,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    pub(super) environment: Environment,
    pub(super) results: Vec<Rate>,
}

// The fields of a case are beside those of its result. They are listed here instead of being flattened, because serde's
// flattening would keep everything that is skipped, slices too, and take three times as long.
#[derive(Deserialize)]
pub(super) struct Rate {
    pub target: String,
    pub workload: String,
    case: String,
    direction: Direction,
    #[serde(default)]
    program: Option<String>,
    pub iops: f64,
}

impl Rate {
    pub(super) fn label(&self) -> String {
        let (name, direction, program) = (self.case.clone(), self.direction, self.program.clone());
        Case { name, direction, program, ..Case::default() }.label()
    }
}

impl Rates {
    /// Parses the text of a saved report.
    ///
    /// # Errors
    /// The reason why the text is not a report.
    pub fn of(json: &[u8]) -> Result<Rates, String> {
        let rates: Rates = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        match rates.schema == SCHEMA {
            true => Ok(rates),
            false => Err(format!("its schema is {:?}; this version reads {SCHEMA:?}", rates.schema)),
        }
    }
}
