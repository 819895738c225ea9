//! Line charts and column charts: SVG that stretches to any width, with labels in HTML so that their size does not
//! change.

use crate::report::table::escape;
use std::fmt::Write;

/// Size of the drawing in its own units; the page stretches it.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 400.0;

/// One line of a chart: a CSS class for its colour, a name, and its points.
pub(crate) struct Series {
    pub class: String,
    pub name: String,
    pub points: Vec<Point>,
}

/// A point in fractions of the chart's width and height (0 to 1, upwards), with the tooltip that describes it.
pub(crate) struct Point {
    pub x: f64,
    pub y: f64,
    pub title: String,
}

/// A labelled position on an axis, as a fraction of the axis.
pub(crate) struct Tick {
    pub at: f64,
    pub label: String,
}

/// A highlighted range of the x axis, in fractions of the axis.
pub(crate) struct Band {
    pub class: String,
    pub from: f64,
    pub to: f64,
    pub title: String,
}

/// A chart with its axes.
pub(crate) struct Plot {
    /// The description for screen readers.
    pub label: String,
    pub x: Vec<Tick>,
    pub y: Vec<Tick>,
    /// Whether the chart is low, for one that only accompanies another.
    pub low: bool,
    body: String,
}

impl Plot {
    pub(crate) fn new(label: String, x: Vec<Tick>, y: Vec<Tick>) -> Self {
        Plot { label, x, y, low: false, body: String::new() }
    }

    /// Highlights ranges of the x axis over the full height.
    pub(crate) fn bands(&mut self, bands: &[Band]) {
        for Band { class, from, to, title } in bands {
            let _ = write!(
                self.body,
                "<rect class=\"band {class}\" x={:.1} y=0 width={:.1} height={HEIGHT}><title>{}</title></rect>",
                from * WIDTH,
                ((to - from) * WIDTH).max(2.0),
                escape(title)
            );
        }
    }

    /// Draws lines; with `dots` every point is marked and has a tooltip.
    pub(crate) fn lines(&mut self, series: &[Series], dots: bool) {
        for Series { class, name, points } in series {
            let mut path = String::new();
            for (index, point) in points.iter().enumerate() {
                let start = if index == 0 { 'M' } else { 'L' };
                let _ = write!(path, "{start}{:.1} {:.1}", point.x * WIDTH, (1.0 - point.y) * HEIGHT);
            }
            let _ = write!(
                self.body,
                "<path class=\"line {class}\" d=\"{path}\"><title>{}</title></path>",
                escape(name)
            );
            if dots {
                for point in points {
                    // A line of length 0 with round ends is a dot that is not deformed by stretching.
                    let _ = write!(
                        self.body,
                        "<path class=\"dot {class}\" d=\"M{:.1} {:.1}h0\"><title>{}</title></path>",
                        point.x * WIDTH,
                        (1.0 - point.y) * HEIGHT,
                        escape(&point.title)
                    );
                }
            }
        }
    }

    /// Draws a column that stands on the x axis: `left` and `width` in fractions of the chart's width.
    pub(crate) fn column(&mut self, class: &str, left: f64, width: f64, height: f64, title: &str) {
        let height = (height * HEIGHT).max(1.5);
        let _ = write!(
            self.body,
            "<rect class=\"column {class}\" x={:.1} y={:.1} width={:.1} height={height:.1}><title>{}</title></rect>",
            left * WIDTH,
            HEIGHT - height,
            width * WIDTH,
            escape(title)
        );
    }

    /// Renders the chart with its labels.
    pub(crate) fn html(&self) -> String {
        let mut html = format!(
            "<div class=\"plot{}\"><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=none role=img aria-label=\"{}\">",
            if self.low { " low" } else { "" },
            escape(&self.label)
        );
        for tick in &self.y {
            let y = (1.0 - tick.at) * HEIGHT;
            let _ = write!(html, "<path class=grid d=\"M0 {y:.1}H{WIDTH}\"/>");
        }
        html.push_str(&self.body);
        html.push_str("</svg><div class=y aria-hidden=true>");
        for tick in &self.y {
            let _ =
                write!(html, "<span style=\"bottom:{:.1}%\">{}</span>", tick.at * 100.0, escape(&tick.label));
        }
        html.push_str("</div><div class=x aria-hidden=true>");
        for (index, tick) in self.x.iter().enumerate() {
            let class = if index % 2 == 1 { " class=odd" } else { "" };
            let _ = write!(
                html,
                "<span{class} style=\"left:{:.1}%\">{}</span>",
                tick.at * 100.0,
                escape(&tick.label)
            );
        }
        html + "</div></div>"
    }
}

/// Returns a round number that is at least `value`, and at most six ticks from zero up to it.
pub(crate) fn linear_ticks(value: f64, show: impl Fn(f64) -> String) -> (f64, Vec<Tick>) {
    let value = if value.is_finite() && value > 0.0 { value } else { 1.0 };
    let magnitude = 10f64.powf((value / 5.0).log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|step| step * magnitude)
        .find(|step| step * 5.0 >= value * 0.999);
    let step = step.unwrap_or(10.0 * magnitude);
    let count = (value / step - 0.001).ceil().max(1.0);
    let top = count * step;
    let tick = |index: u32| Tick { at: f64::from(index) / count, label: show(f64::from(index) * step) };
    (top, (0..=count as u32).map(tick).collect())
}

/// Powers of ten around positive values, as exponents, and a tick for each.
pub(crate) fn log_ticks(low: f64, high: f64, show: impl Fn(f64) -> String) -> (f64, f64, Vec<Tick>) {
    let from = low.max(1e-3).log10().floor();
    let to = high.clamp(1e-3, 1e15).log10().ceil().max(from + 1.0);
    let count = (to - from) as u32;
    let tick = |index: u32| Tick {
        at: f64::from(index) / f64::from(count),
        label: show(10f64.powf(from + f64::from(index))),
    };
    (from, to, (0..=count).map(tick).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_the_top() {
        for value in [0.0, 1e-9, 0.7, 1.0, 3.3, 99.0, 100.0, 101.0, 499_999.0, 1e300, f64::NAN, f64::INFINITY]
        {
            let (top, ticks) = linear_ticks(value, |value| format!("{value}"));
            assert!((1..=7).contains(&ticks.len()), "{value}: {} ticks", ticks.len());
            assert!(!value.is_finite() || top >= value * 0.998, "{value}: {top}");
        }
        assert_eq!(linear_ticks(101.0, |value| format!("{value}")).0, 125.0);
        let (from, to, ticks) = log_ticks(86.0, 12_000.0, |value| format!("{value}"));
        assert_eq!((from, to, ticks.len()), (1.0, 5.0, 5));
        assert!(log_ticks(0.0, f64::INFINITY, |value| format!("{value}")).2.len() < 25);
    }
}
