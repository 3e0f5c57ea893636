//! A quantity over load: what was measured as marks with their intervals, each limit as a line, the
//! crossing and the knee as bands. Lines between marks guide the eye and claim nothing.

use super::chart::{Chart, Sign, Vertical};
use super::scale::Scale;

/// One load of a curve.
pub(super) struct Mark {
    /// The load.
    pub load: f64,
    /// The value in the unit of the axis.
    pub value: f64,
    /// Ends of its interval in the same unit.
    pub interval: (Option<f64>, Option<f64>),
    /// What it is.
    pub sign: Sign,
    /// The load and the value in words.
    pub title: String,
}

/// A line of marks: its class of colour, and whether it has marks or is but a line.
pub(super) struct Curve {
    /// `b`, `p` or `g`.
    pub class: &'static str,
    /// Ascending in load.
    pub marks: Vec<Mark>,
    /// Without signs and whiskers.
    pub bare: bool,
}

/// A limit on the quantity.
pub(super) struct LimitLine {
    /// In the unit of the axis.
    pub value: f64,
    /// On the line.
    pub label: String,
}

/// A span of loads over the whole height.
pub(super) struct Band {
    /// `cx` a crossing, `kn` a knee, `unk` a load of which nothing is known.
    pub class: &'static str,
    /// From this load …
    pub from: f64,
    /// … to this one.
    pub to: f64,
}

/// Everything that one picture shows.
pub(super) struct Picture {
    /// For those who cannot see it.
    pub sentence: String,
    /// Every load of the whole, so that all pictures share their axis.
    pub loads: Vec<f64>,
    /// The lines.
    pub curves: Vec<Curve>,
    /// Limits that are near enough to be drawn.
    pub limits: Vec<LimitLine>,
    /// Bands, the first below.
    pub bands: Vec<Band>,
    /// The load of the knee, with a word.
    pub knee: Option<(f64, String)>,
    /// The vertical axis; `None`: as the values ask.
    pub vertical: Option<Scale>,
}

/// Pixels.
const HEIGHT: u32 = 210;

impl Picture {
    /// Draws it; the second value says whether the vertical axis is logarithmic.
    pub(super) fn draw(&self, y_name: impl Fn(f64) -> String) -> (Chart, bool) {
        let x = Scale::of_loads(self.loads.iter().copied());
        let values: Vec<f64> = self
            .curves
            .iter()
            .flat_map(|curve| &curve.marks)
            .flat_map(|mark| [Some(mark.value), mark.interval.0, mark.interval.1])
            .flatten()
            .chain(self.limits.iter().map(|limit| limit.value))
            .filter(|value| *value > 0.0)
            .collect();
        let y = self.vertical.unwrap_or_else(|| Scale::of_latencies(values.into_iter()));
        let mut chart =
            Chart::new(self.sentence.clone(), HEIGHT, x, Vertical::Values(y), decide::words::plain, y_name)
                .with_x_labels(self.loads.iter().map(|load| (*load, decide::words::plain(*load))));
        for band in &self.bands {
            chart.span(band.class, band.from, band.to, "");
        }
        if let Some((load, word)) = &self.knee {
            chart.place_at_x(*load, word);
        }
        for limit in &self.limits {
            chart.limit_at_y(limit.value, &limit.label);
        }
        for curve in &self.curves {
            let thin = if curve.bare { "thin dash" } else { "thin" };
            chart.line(&format!("{} {thin}", curve.class), curve.marks.iter().map(|m| (m.load, m.value)));
            for mark in curve.marks.iter().filter(|_| !curve.bare) {
                chart.mark(mark.load, mark.value, mark.interval, mark.sign, &mark.title);
            }
        }
        (chart, y.is_log())
    }
}
