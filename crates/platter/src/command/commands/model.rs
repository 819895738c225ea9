//! `platter model`: models of devices.

use super::lab::{Meter, parse_time, stand};
use crate::command::failure::{About, Failure, Outcome};
use crate::command::output::Output;
use clap::{Args, Subcommand};
use platter_device::parse_size;
use platter_lab::fit::{self, Cell};
use platter_lab::model::Model;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Show models of devices, or fit one to a device
///
/// A model is what --device model:NAME runs on in virtual time: a file of parameters, each with its source.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List all models, or show the parameters of one with their sources
    Show {
        /// Its name, or the path of a .toml file
        name: Option<String>,
    },
    /// Measure a device, fit a model to half of the measurements, and show how well it predicts the other half
    ///
    /// Measured are reads and writes of 4 to 256 KiB at random places with 1 to 32 outstanding. The model is an array: so
    /// many operations at the same time, a time for each and a latency beside it, and a rate of the link. It knows nothing
    /// of heads, of caches that fill and of cells that are erased.
    Fit {
        /// The device, as for `platter compare`; its content is lost [default: a temporary image file]
        #[arg(long, value_name = "IMAGE|DEVICE|mem:SIZE|model:NAME")]
        device: Option<OsString>,
        /// Overwrite a device that holds something; never one that is in use
        #[arg(long)]
        force: bool,
        /// Bytes that I/Os are spread over
        #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
        span: u64,
        /// Measured time of each of the 48 cells
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
        time: Duration,
        /// The model's file, which must not exist
        #[arg(value_name = "MODEL.toml")]
        out: PathBuf,
    },
}

impl Arguments {
    pub(crate) fn run(self) -> Outcome {
        match self.command {
            Command::Show { name: None } => list(),
            Command::Show { name: Some(name) } => show(name),
            Command::Fit { device, force, span, time, out } => {
                let stand = stand(device.as_deref(), &[], force, Path::new("."))?;
                if out.extension().is_none_or(|extension| extension != "toml") {
                    return Err(Failure::new(out.display(), "the name of a model's file ends in .toml"));
                }
                // Made first, so that a path that cannot be written costs no measurement.
                let file = File::create_new(&out).about(out.display())?;
                let fitted = fitted(&stand, span, time, file, &out);
                if fitted.is_err() {
                    // An empty file would be no model; the returned error is printed.
                    let _ = std::fs::remove_file(&out);
                }
                fitted
            }
        }
    }
}

fn list() -> Outcome {
    let mut output = Output::new();
    for name in Model::names() {
        let about = Model { name: name.into(), settings: Vec::new() }.about()?;
        output.line(format!("{name:<12} {about}"))?;
    }
    output.finish()?;
    Ok(0)
}

fn show(name: String) -> Outcome {
    let model = Model { name, settings: Vec::new() };
    let mut output = Output::new();
    output.line(model.about()?)?;
    for (name, (value, parameter)) in model.parameters()? {
        output.line(format!("{name} = {value}  ({}: {})", parameter.certainty, parameter.source))?;
    }
    output.finish()?;
    Ok(0)
}

/// Measures, fits, writes the model and prints how far it is from each cell.
fn fitted(stand: &platter_lab::Stand, span: u64, time: Duration, mut file: File, out: &Path) -> Outcome {
    let meter = Meter::new();
    let measured = fit::measure(stand, span, time, &meter);
    meter.finish();
    let (cells, length) = measured?;
    let curve = fit::fit(&cells)?;
    let count = cells.iter().filter(|cell| cell.is_fitted).count();
    let source = format!("fitted to {count} cells of a measurement of {span} bytes of the device");
    file.write_all(curve.toml("a device that was measured", length, &source).as_bytes())
        .about(out.display())?;
    file.flush().about(out.display())?;
    let predicted = fit::predicted(out, &cells, span, &())?;
    let mut output = Output::new();
    output.line("KiB  requests  outstanding    measured       model  apart, %")?;
    for (cell, model) in cells.iter().zip(&predicted) {
        output.line(line(cell, *model))?;
    }
    for (what, is_fitted) in [("fitted to", true), ("held out", false)] {
        output.line(summary(what, is_fitted, &cells, &predicted))?;
    }
    output.line(format!("wrote {}", out.display()))?;
    output.finish()?;
    Ok(0)
}

fn apart(cell: &Cell, model: f64) -> f64 {
    (model / cell.iops - 1.0) * 100.0
}

fn line(cell: &Cell, model: f64) -> String {
    format!(
        "{:>3}  {:<8}  {:>11}  {:>10.0}  {model:>10.0}  {:>+8.0}  {}",
        cell.block >> 10,
        if cell.is_write { "writes" } else { "reads" },
        cell.outstanding,
        cell.iops,
        apart(cell, model),
        if cell.is_fitted { "fitted to" } else { "held out" },
    )
}

/// How far the model is from the cells of one half: typically, at most, and how many are near.
fn summary(what: &str, is_fitted: bool, cells: &[Cell], predicted: &[f64]) -> String {
    let half = cells.iter().zip(predicted).filter(|(cell, _)| cell.is_fitted == is_fitted);
    let mut all: Vec<f64> = half.map(|(cell, model)| apart(cell, *model).abs()).collect();
    all.sort_by(f64::total_cmp);
    let near = all.iter().filter(|apart| **apart <= 20.0).count();
    format!(
        "{what}: {near} of {} within 20 %, the middle one {:.0} % apart, the worst {:.0} %",
        all.len(),
        all.get(all.len() / 2).unwrap_or(&0.0),
        all.last().unwrap_or(&0.0)
    )
}
