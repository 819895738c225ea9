//! Models of devices by name: their parameters, each with its source, and what a user sets otherwise.
//!
//! A model is a TOML file with a table for each parameter: its value, where that is from, and how sure it is. Those of
//! this crate are in `src/models`; a path to a file of the same form is a model too.

use crate::{Error, Result};
use platter_device::model::{ModelDevice, Parameters, Value};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The models of this crate.
const MODELS: [(&str, &str); 7] = [
    ("wd1003fzex", include_str!("models/wd1003fzex.toml")),
    ("usb2-hdd", include_str!("models/usb2-hdd.toml")),
    ("sata-ssd", include_str!("models/sata-ssd.toml")),
    ("d7-p5620", include_str!("models/d7-p5620.toml")),
    ("xtremio", include_str!("models/xtremio.toml")),
    ("nutanix", include_str!("models/nutanix.toml")),
    ("sd-a1", include_str!("models/sd-a1.toml")),
];

/// A model, and the parameters that a user sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// The name of one of [`Model::names`], or the path of a `.toml` file.
    pub name: String,
    /// Parameters and their values, as on a command line: `write_cache` and `off`.
    pub settings: Vec<(String, String)>,
}

/// A model's file.
#[derive(Deserialize)]
struct File {
    /// What it is a model of.
    about: String,
    #[serde(flatten)]
    parameters: BTreeMap<String, Parameter>,
}

/// One parameter in a model's file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    value: toml::Value,
    /// Where the value is from.
    #[serde(default)]
    pub source: String,
    /// How sure the value is: `published`, `measured`, `derived` from such, `fitted`, or `assumed`.
    #[serde(default)]
    pub certainty: String,
}

impl Model {
    /// The names of the models of this crate.
    pub fn names() -> impl Iterator<Item = &'static str> {
        MODELS.into_iter().map(|(name, _)| name)
    }

    /// The model's name in messages and reports, with what is set.
    pub fn shown(&self) -> String {
        let settings: Vec<String> =
            self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        match settings.is_empty() {
            true => format!("model:{}", self.name),
            false => format!("model:{} with {}", self.name, settings.join(", ")),
        }
    }

    fn wrong(&self, reason: impl Into<String>) -> Error {
        Error::Input { name: format!("model:{}", self.name), reason: reason.into() }
    }

    fn file(&self) -> Result<File> {
        let known = MODELS.iter().find(|(name, _)| *name == self.name).map(|(_, text)| (*text).to_owned());
        let text = match known {
            Some(text) => text,
            None if self.name.ends_with(".toml") => {
                std::fs::read_to_string(&self.name).map_err(|error| self.wrong(error.to_string()))?
            }
            None => {
                let names: Vec<&str> = Model::names().collect();
                let names = names.join(", ");
                return Err(self.wrong(format!("expected one of {names}, or the path of a .toml file")));
            }
        };
        toml::from_str(&text).map_err(|error| self.wrong(error.to_string()))
    }

    /// What it is a model of, in a line.
    ///
    /// # Errors
    /// As [`Model::device`].
    pub fn about(&self) -> Result<String> {
        Ok(self.file()?.about)
    }

    /// The model's parameters with their values, sources and certainty, as the model's file has them.
    ///
    /// # Errors
    /// As [`Model::device`].
    pub fn parameters(&self) -> Result<BTreeMap<String, (String, Parameter)>> {
        let shown = |(name, parameter): (String, Parameter)| (name, (parameter.value.to_string(), parameter));
        Ok(self.file()?.parameters.into_iter().map(shown).collect())
    }

    /// A device of this model, of which nothing is written yet.
    ///
    /// # Errors
    /// [`Error::Input`]: that there is no such model, or which parameter is wrong and why.
    pub fn device(&self) -> Result<ModelDevice> {
        let mut parameters = Parameters::default();
        for (name, parameter) in self.file()?.parameters {
            let value = value_of(&parameter.value).ok_or_else(|| self.wrong(unreadable(&name)))?;
            parameters.set(&name, value);
        }
        for (name, text) in &self.settings {
            let value = match text.parse::<f64>() {
                Ok(number) => Value::Number(number),
                Err(_) => Value::Word(text.clone()),
            };
            parameters.set(name, value);
        }
        ModelDevice::new(&self.shown(), &parameters).map_err(|reason| self.wrong(reason))
    }
}

fn unreadable(name: &str) -> String {
    format!("{name} is no number, word or list of pairs of numbers")
}

fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|number| number as f64))
}

fn value_of(value: &toml::Value) -> Option<Value> {
    let pair = |point: &toml::Value| match point.as_array()?.as_slice() {
        [x, y] => Some([number(x)?, number(y)?]),
        _ => None,
    };
    match value {
        toml::Value::String(word) => Some(Value::Word(word.clone())),
        toml::Value::Boolean(is_on) => Some(Value::Word(if *is_on { "on" } else { "off" }.into())),
        toml::Value::Array(points) => points.iter().map(pair).collect::<Option<_>>().map(Value::Curve),
        other => number(other).map(Value::Number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_device::Device;

    #[test]
    fn every_model_is_a_device_and_says_where_each_parameter_is_from() {
        for name in Model::names() {
            let model = Model { name: name.into(), settings: Vec::new() };
            let device = model.device().unwrap();
            assert!(device.len() > 1 << 20 && !model.about().unwrap().is_empty());
            for (parameter, (_, Parameter { source, certainty, .. })) in model.parameters().unwrap() {
                let is_certain = ["published", "measured", "derived", "fitted", "assumed"];
                assert!(!source.is_empty(), "{name}: {parameter} has no source");
                assert!(is_certain.contains(&certainty.as_str()), "{name}: {parameter} is {certainty:?}");
            }
        }
    }

    #[test]
    fn a_setting_replaces_a_parameter_and_a_wrong_one_is_named() {
        let model = |name: &str, settings: &[(&str, &str)]| Model {
            name: name.into(),
            settings: settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        };
        let set = model("wd1003fzex", &[("capacity_bytes", "1048576"), ("write_cache", "off")]);
        assert_eq!(set.device().unwrap().len(), 1 << 20);
        assert_eq!(set.shown(), "model:wd1003fzex with capacity_bytes=1048576, write_cache=off");
        let why = |model: Model| model.device().err().unwrap().to_string();
        assert!(why(model("wd9", &[])).contains("expected one of wd1003fzex"));
        assert!(why(model("wd1003fzex", &[("rmp", "1")])).contains("rmp is no parameter of this model"));
    }
}
