//! A model fitted to a real device: reads and writes of several sizes with several outstanding, of which one half decides the
//! parameters and the other half says what the model is worth.
//!
//! The model is an array behind a link ([`Curve`]), the simplest that has a latency, a greatest number of operations and a
//! greatest rate in each direction. What has a head, a cache that fills or cells to erase is not told by it.

use crate::model::Model;
use crate::{Comparison, Error, Observer, Preset, Result, Stand, Target, Workload, compare};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// KiB of a request, and requests outstanding.
const BLOCKS: [u64; 4] = [4, 16, 64, 256];
const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// One measurement: requests of a size at random places, so many outstanding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Bytes of a request.
    pub block: u64,
    /// Whether the requests are writes.
    pub is_write: bool,
    /// Requests that are outstanding all the time.
    pub outstanding: u32,
    /// Whether the parameters are fitted to it; of the others the model knows nothing.
    pub is_fitted: bool,
    /// Requests a second of the device.
    pub iops: f64,
}

/// The parameters of a model that are fitted. Times are in microseconds, the rates in MB/s (10^6 bytes).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    /// Operations at the same time.
    pub servers: u32,
    /// What an operation keeps its server for: reads, writes.
    pub service_us: [f64; 2],
    /// What an operation takes beside that: reads, writes.
    pub latency_us: [f64; 2],
    /// The rate of the link in each direction.
    pub link_mb_s: f64,
}

impl Curve {
    /// Requests a second of a closed loop whose operations take the same time each.
    pub fn iops(&self, cell: &Cell) -> f64 {
        let which = usize::from(cell.is_write);
        let transfer = cell.block as f64 / self.link_mb_s;
        let alone = COMMAND_US + transfer + self.service_us[which] + self.latency_us[which];
        let loop_rate = f64::from(cell.outstanding) / alone;
        let of_servers = f64::from(self.servers) / self.service_us[which];
        1e6 * loop_rate.min(of_servers).min(1.0 / (COMMAND_US + transfer))
    }

    /// The mean of the squares of how far it is from the cells that it is fitted to, as logarithms.
    fn error(&self, cells: &[Cell]) -> f64 {
        let fitted = cells.iter().filter(|cell| cell.is_fitted);
        let (sum, count) = fitted.fold((0.0, 0), |(sum, count), cell| {
            (sum + (self.iops(cell) / cell.iops).ln().powi(2), count + 1)
        });
        sum / f64::from(count.max(1))
    }

    /// The parameters that are searched, in one row.
    fn numbers(&self) -> [f64; 5] {
        let ([read, write], [read_beside, write_beside]) = (self.service_us, self.latency_us);
        [read, write, read_beside, write_beside, self.link_mb_s]
    }

    fn of(servers: u32, [read, write, read_beside, write_beside, link_mb_s]: [f64; 5]) -> Curve {
        Curve { servers, service_us: [read, write], latency_us: [read_beside, write_beside], link_mb_s }
    }

    /// The model's file: an array of this curve.
    pub fn toml(&self, about: &str, capacity: u64, source: &str) -> String {
        let mut text = format!("about = {about:?}\n");
        let mut add = |name: &str, value: &str, source: &str, certainty: &str| {
            let _ = write!(
                text,
                "\n[{name}]\nvalue = {value}\nsource = {source:?}\ncertainty = \"{certainty}\"\n"
            );
        };
        add("kind", "\"array\"", "what is fitted is a curve of service", "assumed");
        add("capacity_bytes", &capacity.to_string(), "the length of the device", "measured");
        add("servers", &self.servers.to_string(), source, "fitted");
        add("block_bytes", "1048576", "one operation is one of a server, whatever its size", "assumed");
        for (kind, which) in [("read", 0), ("write", 1)] {
            add(&format!("{kind}_us"), &format!("{:.3}", self.service_us[which]), source, "fitted");
            add(&format!("{kind}_latency_us"), &format!("{:.3}", self.latency_us[which]), source, "fitted");
        }
        add("flush_us", "0", "no cell of the fit flushes", "assumed");
        add("link", "\"fc\"", "a link of both directions, whose rate and depth are set", "assumed");
        add("link_command_us", &COMMAND_US.to_string(), "that of the link", "assumed");
        add("link_depth", "1024", "more than is ever outstanding", "assumed");
        add("link_mb_s", &format!("{:.3}", self.link_mb_s), source, "fitted");
        text
    }
}

/// The time of a command on the link, in microseconds.
const COMMAND_US: f64 = 2.0;

/// Fits a curve to the cells that are marked for it.
///
/// # Errors
/// [`Error::Job`] if none is marked, or one has no rate.
pub fn fit(cells: &[Cell]) -> Result<Curve> {
    let mut fitted = cells.iter().filter(|cell| cell.is_fitted).peekable();
    if fitted.peek().is_none() || fitted.any(|cell| !(cell.iops.is_finite() && cell.iops > 0.0)) {
        return Err(Error::Job("a curve is fitted to at least one cell, and each has a rate".into()));
    }
    let searched = (0..8).map(|power| search(1 << power, cells));
    let best = searched.min_by(|one, two| one.error(cells).total_cmp(&two.error(cells)));
    Ok(best.expect("there are eight"))
}

/// Steps of each number up and down by a factor that becomes smaller, as long as the error does.
fn search(servers: u32, cells: &[Cell]) -> Curve {
    let mut best = Curve::of(servers, [50.0, 50.0, 50.0, 50.0, 1000.0]);
    let mut factor = 4.0_f64;
    while factor > 1.0005 {
        let mut is_better = false;
        for place in 0..5 {
            for step in [factor, 1.0 / factor] {
                let mut numbers = best.numbers();
                numbers[place] = (numbers[place] * step).clamp(1e-2, 1e6);
                let other = Curve::of(servers, numbers);
                if other.error(cells) < best.error(cells) {
                    (best, is_better) = (other, true);
                }
            }
        }
        if !is_better {
            factor = factor.sqrt();
        }
    }
    best
}

/// Measures all cells on a device, whose content is lost, each for `time`; returns them, and the length of the device in bytes.
///
/// Every second cell is to be fitted, as the fields of one colour of a chess board: of sizes and numbers outstanding.
///
/// # Errors
/// As [`compare`]; [`Error::Job`] if the device failed before all was measured.
pub fn measure(
    stand: &Stand,
    span: u64,
    time: Duration,
    observer: &dyn Observer,
) -> Result<(Vec<Cell>, u64)> {
    let mut cells = Vec::new();
    for (row, block) in BLOCKS.into_iter().enumerate() {
        for (column, outstanding) in DEPTHS.into_iter().enumerate() {
            for is_write in [false, true] {
                let is_fitted = (row + column + usize::from(is_write)).is_multiple_of(2);
                cells.push(Cell { block: block << 10, is_write, outstanding, is_fitted, iops: 0.0 });
            }
        }
    }
    let (rates, length) = rates(stand, &cells, span, time, observer)?;
    cells.iter_mut().zip(rates).for_each(|(cell, iops)| cell.iops = iops);
    Ok((cells, length))
}

/// What the model of a file has in these cells, in virtual time.
///
/// # Errors
/// As [`compare`].
pub fn predicted(model: &Path, cells: &[Cell], span: u64, observer: &dyn Observer) -> Result<Vec<f64>> {
    let model = Model { name: model.display().to_string(), settings: Vec::new() };
    Ok(rates(&Stand::Model(model), cells, span, Duration::from_millis(100), observer)?.0)
}

fn rates(
    stand: &Stand,
    cells: &[Cell],
    span: u64,
    time: Duration,
    observer: &dyn Observer,
) -> Result<(Vec<f64>, u64)> {
    let workload = workload(cells, span, time)?;
    let comparison = Comparison {
        repeats: Some(1),
        time: Some(time),
        ..Comparison::new(stand.clone(), vec![Target::Raw], vec![workload])
    };
    let document = compare(&comparison, observer)?;
    let rate = |cell: &Cell| {
        let mut results = document.results.iter();
        let found = results.find(|result| result.case.name == name(cell)).map(|result| result.iops);
        found.ok_or_else(|| Error::Job(format!("{} was not measured", name(cell))))
    };
    let rates = cells.iter().map(rate).collect::<Result<_>>()?;
    Ok((rates, document.environment.device.size_bytes))
}

fn name(cell: &Cell) -> String {
    let kind = if cell.is_write { "write" } else { "read" };
    format!("{}K {kind} ×{}", cell.block >> 10, cell.outstanding)
}

fn workload(cells: &[Cell], span: u64, time: Duration) -> Result<Workload> {
    let seconds = time.as_secs_f64();
    let mut text = String::from(
        "title = \"Cells of a model\"\ndescription = \"random I/Os of one size\"\nseed = 8664\ndurability = \"direct\"\n",
    );
    for preset in ["quick", "full"] {
        let _ = writeln!(
            text,
            "[{preset}]\nspan = \"{span}\"\nseconds = {seconds}\nramp_up = {}",
            seconds / 10.0
        );
    }
    for cell in cells {
        let direction = if cell.is_write { "write" } else { "read" };
        let _ = writeln!(
            text,
            "[[case]]\nname = {:?}\ndirections = [\"{direction}\"]\nblock = \"{}\"\nrandom_percent = 100\nqueue_depth = {}\nworkers = 1",
            name(cell),
            cell.block,
            cell.outstanding
        );
    }
    Workload::from_toml("model-cells", &text, Preset::Quick)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cells that a known curve has, of which half is fitted, give the curve back, and the model in virtual time has the
    /// other half.
    #[test]
    fn a_known_curve_is_found_again_and_predicts_what_it_was_not_fitted_to() {
        let known =
            Curve { servers: 8, service_us: [80.0, 200.0], latency_us: [60.0, 20.0], link_mb_s: 900.0 };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("known.toml");
        std::fs::write(&path, known.toml("a known curve", 1 << 30, "made up")).unwrap();
        let model = Model { name: path.display().to_string(), settings: Vec::new() };
        let span = 64 << 20;
        let (cells, _) = measure(&Stand::Model(model), span, Duration::from_millis(100), &()).unwrap();
        assert_eq!(cells.iter().filter(|cell| cell.is_fitted).count() * 2, cells.len());
        let fitted = fit(&cells).unwrap();
        let again = directory.path().join("fitted.toml");
        std::fs::write(&again, fitted.toml("fitted", 1 << 30, "24 cells of a known curve")).unwrap();
        let predicted = predicted(&again, &cells, span, &()).unwrap();
        for (cell, iops) in cells.iter().zip(predicted).filter(|(cell, _)| !cell.is_fitted) {
            assert!((0.9..1.1).contains(&(iops / cell.iops)), "{cell:?}: {iops}, {fitted:?}");
        }
    }

    #[test]
    fn nothing_is_fitted_to_nothing() {
        assert!(fit(&[]).is_err());
        let cell = Cell { block: 4096, is_write: false, outstanding: 1, is_fitted: true, iops: 0.0 };
        assert!(fit(&[cell]).is_err());
    }
}
