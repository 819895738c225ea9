//! Parquet, for query engines and data frames: one file for each report, with a row for each target and case.
//!
//! The columns are documented in `docs/machines.md`. [`SCHEMA`] is the version of the columns, and is stored in each
//! file's metadata; columns may be added to it, but none changes its meaning.

use crate::document::{CaseResult, Document, Estimate, Round};
use crate::statistics::total;
use ::parquet::column::writer::ColumnWriter;
use ::parquet::data_type::ByteArray;
use ::parquet::errors::Result;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The value of the key `platter.schema` in a file's metadata.
pub const SCHEMA: &str = "platter-parquet/1";

/// The data from which a row's columns are computed.
struct ParquetRow<'a> {
    document: &'a Document,
    result: &'a CaseResult,
    /// The comparison with the report's base.
    estimate: Option<&'a Estimate>,
}

/// The function that gives a column's value for a row; a value that was not measured is null.
enum Column {
    Text(fn(&ParquetRow) -> Option<String>),
    Count(fn(&ParquetRow) -> Option<u64>),
    Figure(fn(&ParquetRow) -> Option<f64>),
}

use Column::{Count, Figure, Text};

const COLUMNS: &[(&str, Column)] = &[
    ("created", Text(|row| Some(row.document.created.clone()))),
    ("partial", Text(|row| row.document.partial.clone())),
    ("host", Text(|row| Some(row.document.environment.host.clone()))),
    ("cpu", Text(|row| Some(row.document.environment.cpu.clone()))),
    ("cores", Count(|row| Some(row.document.environment.cores.into()))),
    ("memory_bytes", Count(|row| Some(row.document.environment.memory_bytes))),
    ("kernel", Text(|row| Some(row.document.environment.kernel.clone()))),
    ("os", Text(|row| Some(row.document.environment.os.clone()))),
    ("version", Text(|row| Some(row.document.environment.platter_version.clone()))),
    ("device_name", Text(|row| Some(row.document.environment.device.name.clone()))),
    ("device_kind", Text(|row| Some(row.document.environment.device.kind.clone()))),
    ("device_size_bytes", Count(|row| Some(row.document.environment.device.size_bytes))),
    ("device_model", Text(|row| row.document.environment.device.model.clone())),
    ("device_firmware", Text(|row| row.document.environment.device.firmware.clone())),
    ("preset", Text(|row| Some(row.document.settings.preset.clone()))),
    ("seed", Count(|row| Some(row.document.settings.seed))),
    ("target", Text(|row| Some(row.result.target.clone()))),
    ("target_kind", Text(|row| row.target(|target| target.kind.clone()))),
    ("target_details", Text(|row| row.target(|target| target.details.clone()))),
    ("workload", Text(|row| Some(row.result.case.workload.clone()))),
    ("case", Text(|row| Some(row.result.case.label()))),
    ("direction", Text(|row| Some(row.result.case.direction.name().into()))),
    ("block_bytes", Count(|row| Some(row.result.case.block_bytes))),
    ("queue_depth", Count(|row| Some(row.result.case.queue_depth.into()))),
    ("workers", Count(|row| Some(row.result.case.workers.into()))),
    ("random_percent", Count(|row| Some(row.result.case.random_percent.into()))),
    ("read_percent", Count(|row| Some(row.result.case.read_percent.into()))),
    ("durability", Text(|row| Some(row.result.case.durability.clone()))),
    ("rounds", Count(|row| Some(row.result.runs.len() as u64))),
    ("seconds", Figure(|row| Some(row.result.runs.iter().map(|run| run.seconds).sum()))),
    ("iops", Figure(|row| Some(row.result.iops))),
    ("mb_per_s", Figure(|row| Some(row.result.mb_per_s))),
    ("latency_mean_us", Figure(|row| Some(row.result.latency_us.mean))),
    ("latency_p50_us", Figure(|row| Some(row.result.latency_us.p50))),
    ("latency_p90_us", Figure(|row| row.result.latency_us.p90)),
    ("latency_p95_us", Figure(|row| row.result.latency_us.p95)),
    ("latency_p99_us", Figure(|row| row.result.latency_us.p99)),
    ("latency_p99_9_us", Figure(|row| row.result.latency_us.p99_9)),
    ("latency_p99_99_us", Figure(|row| row.result.latency_us.p99_99)),
    ("latency_max_us", Figure(|row| Some(row.result.latency_us.max))),
    ("cpu_us_per_io", Figure(|row| Some(row.result.cpu.us_per_io))),
    ("stalled_seconds", Figure(|row| Some(row.result.runs.iter().map(|run| run.stalled_seconds).sum()))),
    ("requested_reads", Count(|row| Some(row.sum(|run| run.requested.reads)))),
    ("requested_writes", Count(|row| Some(row.sum(|run| run.requested.writes)))),
    ("device_reads", Count(|row| row.seen(|run| run.device.as_ref().map(|device| device.reads)))),
    ("device_writes", Count(|row| row.seen(|run| run.device.as_ref().map(|device| device.writes)))),
    ("device_flushes", Count(|row| row.seen(|run| run.device.as_ref().map(|device| device.flushes)))),
    ("amplification", Figure(|row| row.result.amplification)),
    ("errors", Count(|row| Some(row.sum(|run| run.errors)))),
    ("corrupted_blocks", Count(|row| Some(row.sum(|run| run.corrupted_blocks)))),
    ("base", Text(|row| row.estimate.map(|estimate| estimate.base.clone()))),
    ("ratio", Figure(|row| row.estimate.map(|estimate| estimate.ratio))),
    ("ratio_low", Figure(|row| row.estimate.and_then(|estimate| estimate.low))),
    ("ratio_high", Figure(|row| row.estimate.and_then(|estimate| estimate.high))),
    ("verdict", Text(|row| row.estimate.map(|estimate| estimate.verdict.name().into()))),
];

impl ParquetRow<'_> {
    fn target(&self, of: fn(&crate::document::Target) -> String) -> Option<String> {
        self.document.targets.iter().find(|target| target.name == self.result.target).map(of)
    }

    fn sum(&self, of: fn(&Round) -> u64) -> u64 {
        total(self.result.runs.iter().map(of))
    }

    /// Sums a count over all rounds; `None` if it is unknown for a round.
    fn seen(&self, of: fn(&Round) -> Option<u64>) -> Option<u64> {
        self.result.runs.iter().map(of).collect::<Option<Vec<u64>>>().map(|counts| total(counts.into_iter()))
    }
}

/// The schema in Parquet's own notation.
fn message() -> String {
    let mut text = String::from("message platter {\n");
    for (name, column) in COLUMNS {
        let (kind, meaning) = match column {
            Text(_) => ("binary", " (STRING)"),
            Count(_) => ("int64", " (INTEGER(64,false))"),
            Figure(_) => ("double", ""),
        };
        text += &format!("  optional {kind} {name}{meaning};\n");
    }
    let label = |name: &str| format!("required binary {name} (STRING);");
    text += &format!(
        "  required group labels (MAP) {{ repeated group key_value {{ {} {} }} }}\n}}\n",
        label("key"),
        label("value")
    );
    text
}

/// Writes the document as a new file in a directory, which is made if it does not exist; returns the file's path.
///
/// The file appears under its name only when it is complete, so a program that reads the directory never sees a part of
/// it.
///
/// # Errors
/// The reason why the file cannot be written.
pub fn append(document: &Document, directory: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(directory)?;
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '-' };
    let name = |text: &str| text.chars().take(60).map(plain).collect::<String>();
    let stem = format!("{}-{}", name(&document.created), name(&document.environment.host));
    for number in 1u64.. {
        let path = directory.join(format!("{stem}-{number}.parquet"));
        let unfinished = directory.join(format!(".{stem}-{number}.unfinished"));
        // Another process that writes a report of the same second has this number.
        match File::create_new(&unfinished) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
            Ok(_) if path.symlink_metadata().is_ok() => fs::remove_file(&unfinished)?,
            Ok(file) => {
                let written = write(document, file).map_err(io::Error::other);
                let written = written.and_then(|()| fs::rename(&unfinished, &path));
                if written.is_err() {
                    let _ = fs::remove_file(&unfinished);
                }
                return written.map(|()| path);
            }
        }
    }
    unreachable!("numbers do not end")
}

fn write(document: &Document, file: File) -> Result<()> {
    let rows: Vec<ParquetRow> = (document.results.iter())
        .map(|result| ParquetRow { document, result, estimate: result.against(&document.settings.base) })
        .collect();
    let schema = Arc::new(parse_message_type(&message())?);
    let about = vec![KeyValue::new("platter.schema".into(), SCHEMA.to_string())];
    let properties = WriterProperties::builder().set_key_value_metadata(Some(about)).build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for (_, column) in COLUMNS {
        let mut out = group.next_column()?.expect("the schema has this column");
        match (column, out.untyped()) {
            (Text(of), ColumnWriter::ByteArrayColumnWriter(out)) => {
                let (values, levels) =
                    present(&rows, |row| of(row).map(|text| ByteArray::from(text.as_str())));
                out.write_batch(&values, Some(&levels), None)?;
            }
            (Count(of), ColumnWriter::Int64ColumnWriter(out)) => {
                // The schema declares these integers unsigned; their bits are stored as they are.
                let (values, levels) = present(&rows, |row| of(row).map(u64::cast_signed));
                out.write_batch(&values, Some(&levels), None)?;
            }
            (Figure(of), ColumnWriter::DoubleColumnWriter(out)) => {
                let (values, levels) = present(&rows, of);
                out.write_batch(&values, Some(&levels), None)?;
            }
            _ => unreachable!("the schema is made of the columns"),
        }
        out.close()?;
    }
    // The columns of the labels: first the keys, then the values. They are the same in every row.
    let labels = &document.labels;
    for part in [|(key, _): (&String, &String)| key.clone(), |(_, value): (&String, &String)| value.clone()] {
        let mut out = group.next_column()?.expect("the schema has this column");
        let ColumnWriter::ByteArrayColumnWriter(writer) = out.untyped() else {
            unreachable!("labels are text");
        };
        let of_row: Vec<ByteArray> = labels.iter().map(part).map(|text| text.as_str().into()).collect();
        let values: Vec<ByteArray> = rows.iter().flat_map(|_| of_row.clone()).collect();
        // A row without labels has one entry that is undefined. The repetition level is 0 for the first entry of a row
        // and 1 for the others.
        let places = of_row.len().max(1);
        let defined = vec![i16::from(!of_row.is_empty()); places * rows.len()];
        let repeated: Vec<i16> = (0..defined.len()).map(|at| i16::from(at % places > 0)).collect();
        writer.write_batch(&values, Some(&defined), Some(&repeated))?;
        out.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}

/// Returns the values of the rows that have one, and for each row 1 if it has a value and 0 if not.
fn present<T>(rows: &[ParquetRow], of: impl Fn(&ParquetRow) -> Option<T>) -> (Vec<T>, Vec<i16>) {
    let all: Vec<Option<T>> = rows.iter().map(of).collect();
    let levels = all.iter().map(|value| i16::from(value.is_some())).collect();
    (all.into_iter().flatten().collect(), levels)
}
