//! What many reports need of one: who measured, and its rates. All else of the text is passed over without being kept.

use crate::report::document::{Case, Direction, Environment, SCHEMA};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The rates of a saved report, and what it can be put into a group by.
#[derive(Deserialize)]
pub struct Rates {
    schema: String,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    pub(super) environment: Environment,
    pub(super) results: Vec<Rate>,
}

// The names of a case stand beside those of its result. They are written out, as flattening would keep all that is passed
// over, slices too, and take three times as long.
#[derive(Deserialize)]
pub(super) struct Rate {
    pub target: String,
    pub workload: String,
    case: String,
    direction: Direction,
    pub iops: f64,
}

impl Rate {
    pub fn label(&self) -> String {
        let (name, direction) = (self.case.clone(), self.direction);
        Case { name, direction, ..Case::default() }.label()
    }
}

impl Rates {
    /// Takes them from the text of a saved report.
    ///
    /// # Errors
    /// Why the text is none.
    pub fn of(json: &[u8]) -> Result<Rates, String> {
        let rates: Rates = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        match rates.schema == SCHEMA {
            true => Ok(rates),
            false => Err(format!("its schema is {:?}; this version reads {SCHEMA:?}", rates.schema)),
        }
    }
}
