//! Tests of reports in other programs: Parquet in DuckDB and Polars, fio's JSON in fio-plot.

use crate::command::{Scratch, cargo, run, said, write};
use crate::{Outcome, bindings};
use std::path::Path;
use std::process::Command;

/// The programs that read reports, with the versions that the tests were written for.
const READERS: [&str; 3] = ["duckdb==2.0.1", "polars==2.1.0", "fio-plot==1.1.21"];

/// Builds the program with Parquet, and tests that these programs read its reports.
pub(crate) fn judge() -> Outcome {
    let program = program()?;
    let environment = bindings::target_directory()?.join("readers");
    let python = bindings::environment(&environment, &READERS)?;
    let here = Scratch::new("tables")?;
    run(
        &python,
        &["xtask/judges/parquet.py", &program, &here.folder("parquet")?.display().to_string()],
        &[],
    )?;
    fio_plot(&environment.join("bin/fio-plot"), &program, &here)
}

/// Builds the release program with Parquet, and returns its path.
pub(crate) fn program() -> Result<String, String> {
    cargo(&["build", "--release", "--package", "platterfs", "--features", "parquet"])?;
    let path = bindings::target_directory()?.join("release/platter");
    path.into_os_string().into_string().map_err(|path| format!("{}: not text", path.display()))
}

/// Tests that fio-plot draws a chart from the JSON report of a load.
fn fio_plot(fio_plot: &Path, program: &str, here: &Scratch) -> Outcome {
    let folder = here.folder("charts")?;
    let job = folder.join("job.fio");
    let load =
        "[load]\nrw=randread\nbs=4k\niodepth=4\nnumjobs=1\nsize=64m\nruntime=1\ntime_based\ndirect=1\n";
    write(&job, load)?;
    let job = job.display().to_string();
    let arguments = ["run", &job, "--target", "refs", "--device", "mem:1G", "--fio-json"];
    let json = said(Command::new(program).args(arguments))?;
    let _ = std::fs::remove_file(&job);
    write(&folder.join("randread-4-1.json"), &json)?;
    let chart = folder.join("chart.png");
    let charts = folder.display().to_string();
    let arguments =
        ["-i", &charts, "-T", "a load", "-l", "-r", "randread", "-o", &chart.display().to_string()];
    run(&fio_plot.display().to_string(), &arguments, &[("MPLBACKEND", "Agg")])?;
    let drawn = std::fs::read(&chart).map_err(|error| format!("{}: {error}", chart.display()))?;
    match drawn.starts_with(b"\x89PNG") {
        true => Ok(()),
        false => Err(format!("{}: no picture", chart.display())),
    }
}
