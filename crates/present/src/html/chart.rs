//! Charts: SVG stretched by the page, text at its own size, data in a 1000 × 1000 box.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::scale::{BOX, Nines, Scale};

/// What lies on the vertical axis.
#[derive(Debug, Clone, Copy)]
pub(super) enum Vertical {
    /// Values.
    Values(Scale),
    /// Shares on the scale of nines.
    Nines(Nines),
}

impl Vertical {
    fn y(&self, value: f64) -> f64 {
        match self {
            Vertical::Values(scale) => scale.y(value),
            Vertical::Nines(nines) => nines.y(value),
        }
    }
    fn ticks(&self) -> Vec<f64> {
        match self {
            Vertical::Values(scale) => scale.ticks(),
            Vertical::Nines(nines) => nines.ticks(),
        }
    }
}

/// What a measured value is; the shape says it without colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// Nothing is judged.
    Plain,
    /// Not on the front, or otherwise beside the point.
    Hollow,
    /// Met.
    Pass,
    /// Not met.
    Fail,
    /// Undecided.
    Undecided,
    /// The client was the limit: nothing is said of the server.
    Client,
}

impl Sign {
    /// Of a limit.
    pub(super) fn of(met: Option<bool>) -> Self {
        match met {
            Some(true) => Sign::Pass,
            Some(false) => Sign::Fail,
            None => Sign::Undecided,
        }
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Sign::Plain => "plain",
            Sign::Hollow => "hollow",
            Sign::Pass => "pass",
            Sign::Fail => "fail",
            Sign::Undecided => "undecided",
            Sign::Client => "client",
        }
    }

    pub(super) fn shape(self) -> Markup {
        match self {
            Sign::Plain | Sign::Hollow | Sign::Pass => html! { circle r="5" {} },
            Sign::Fail => html! { path d="M-5-5 5 5M5-5-5 5" {} },
            Sign::Undecided => html! { path d="M0-6 6 0 0 6-6 0Z" {} },
            Sign::Client => html! { path d="M-4.5-4.5H4.5V4.5H-4.5Z" {} },
        }
    }

    /// For a key, beside its word.
    pub(super) fn in_text(self) -> Markup {
        html! { svg class={ "mk in " (self.class()) } viewBox="-8 -8 16 16" width="14" height="14" aria-hidden="true" { (self.shape()) } }
    }
}

/// One chart: axes, marks, and a sentence for those who cannot see it.
pub(super) struct Chart {
    x: Scale,
    y: Vertical,
    height: u32,
    sentence: String,
    x_labels: Vec<(f64, String)>,
    y_labels: Vec<(f64, String)>,
    back: Vec<Markup>,
    data: Vec<Markup>,
    front: Vec<Markup>,
    /// Something stands above the plot.
    headed: bool,
}

impl Chart {
    /// An empty chart; `x_name` and `y_name` turn tick values into text.
    pub(super) fn new(
        sentence: String,
        height: u32,
        x: Scale,
        y: Vertical,
        x_name: impl Fn(f64) -> String,
        y_name: impl Fn(f64) -> String,
    ) -> Self {
        Self {
            x,
            y,
            height,
            sentence,
            x_labels: x.ticks().into_iter().map(|t| (t, x_name(t))).collect(),
            y_labels: y.ticks().into_iter().map(|t| (t, y_name(t))).collect(),
            back: Vec::new(),
            data: Vec::new(),
            front: Vec::new(),
            headed: false,
        }
    }

    /// Labels on the horizontal axis at these places, as far as they stand apart.
    pub(super) fn with_x_labels(mut self, places: impl Iterator<Item = (f64, String)>) -> Self {
        let mut last = f64::NEG_INFINITY;
        self.x_labels = places
            .filter(|(value, label)| {
                let share = self.x.share(*value);
                // A digit takes about a fiftieth of a narrow chart.
                let apart = share - last > 0.02 * (label.chars().count() as f64 + 2.0);
                if apart {
                    last = share;
                }
                apart
            })
            .collect();
        self
    }

    /// No labels on the horizontal axis: the chart below has them.
    pub(super) fn without_x_labels(mut self) -> Self {
        for (_, label) in &mut self.x_labels {
            label.clear();
        }
        self
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.x.x(x), self.y.y(y))
    }

    fn path(&self, points: impl Iterator<Item = (f64, f64)>) -> String {
        let mut d = String::new();
        for (i, (x, y)) in points.enumerate() {
            let (x, y) = self.at(x, y);
            d.push_str(&format!("{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' }));
        }
        d
    }

    /// A line through points.
    pub(super) fn line(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let d = self.path(points);
        if !d.is_empty() {
            self.data.push(html! { path class={ "ln " (class) } d=(d) {} });
        }
    }

    /// Steps: each value holds from its x to the next.
    pub(super) fn steps(&mut self, class: &str, points: &[(f64, f64)], end: f64, filled: bool) {
        let Some(first) = points.first() else { return };
        let mut corners = vec![*first];
        for pair in points.windows(2) {
            corners.push((pair[1].0, pair[0].1));
            corners.push(pair[1]);
        }
        if let Some(last) = points.last() {
            corners.push((end, last.1));
        }
        if filled {
            let (x0, x1) = (self.x.x(first.0), self.x.x(end));
            let d = format!("{}L{x1:.1} {BOX}L{x0:.1} {BOX}Z", self.path(corners.iter().copied()));
            self.data.push(html! { path class={ "ar " (class) } d=(d) {} });
        }
        let d = self.path(corners.into_iter());
        self.data.push(html! { path class={ "ln thin " (class) } d=(d) {} });
    }

    /// The area between two curves over the same points.
    pub(super) fn band(&mut self, lower: &[(f64, f64)], upper: &[(f64, f64)]) {
        if lower.is_empty() || upper.is_empty() {
            return;
        }
        let there = self.path(lower.iter().copied());
        let back = self.path(upper.iter().rev().copied()).replacen('M', "L", 1);
        self.data.push(html! { path class="band" d=(format!("{there}{back}Z")) {} });
    }

    /// Many dots in one path of zero-length strokes; dots on the same spot are drawn once.
    pub(super) fn dots(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let mut d = String::new();
        let mut drawn = BTreeSet::new();
        for (x, y) in points {
            let (x, y) = self.at(x, y);
            if drawn.insert((x.round() as i64, y.round() as i64)) {
                d.push_str(&format!("M{x:.0} {y:.0}h0"));
            }
        }
        if !d.is_empty() {
            self.data.push(html! { path class={ "dot " (class) } d=(d) {} });
        }
    }

    /// A cross with a title, above the plot: requests without a place on the axis.
    pub(super) fn cross(&mut self, x: f64, title: &str) {
        self.headed = true;
        let left = format!("{:.2}%", self.x.share(x) * 100.0);
        self.front.push(html! {
            svg class="mk x" x=(left) y="-8" overflow="visible" { title { (title) } path d="M-4 -4L4 4M-4 4L4 -4" {} }
        });
    }

    /// The limit of one percentile: a short line at its share, with a word.
    pub(super) fn limit_at(&mut self, x: f64, y: f64, label: &str) {
        let share = self.x.share(x) * 100.0;
        let (left, top) = (format!("{share:.2}%"), self.y.y(y) / BOX * 100.0);
        let (anchor, shift) = if share > 62.0 { ("end", "-6") } else { ("start", "6") };
        let at = |percent: f64| format!("{:.2}%", percent.clamp(0.0, 100.0));
        self.front.push(html! {
            line class="lim solid" x1=(left) x2=(left) y1=(at(top - 6.0)) y2=(at(top + 6.0)) {}
            text class="tk lb" x=(left) y=(at(top)) dx=(shift) dy="4" text-anchor=(anchor) { (label) }
        });
    }

    /// A shaded span over the whole height, with a word at its top.
    pub(super) fn span(&mut self, class: &str, from: f64, to: f64, label: &str) {
        let (a, b) = (self.x.share(from) * 100.0, self.x.share(to) * 100.0);
        if b - a < 0.01 {
            return;
        }
        self.back.push(html! {
            rect class=(class) x=(format!("{a:.2}%")) y="0" width=(format!("{:.2}%", b - a)) height="100%" {}
        });
        if !label.is_empty() && b - a > 6.0 {
            self.headed = true;
            self.front.push(html! {
                text class="tk lb" x=(format!("{:.2}%", (a + b) / 2.0)) y="-5" text-anchor="middle" { (label) }
            });
        }
    }

    /// A vertical limit with its value on it.
    pub(super) fn limit_at_x(&mut self, value: f64, label: &str, note: &str) {
        let share = self.x.share(value) * 100.0;
        let left = format!("{share:.2}%");
        // The label stands on the emptier side: a rising curve leaves the lower right free.
        let (anchor, shift) = if share > 62.0 { ("end", "-7") } else { ("start", "7") };
        self.back.push(html! { line class="lim" x1=(left) x2=(left) y1="0" y2="100%" {} });
        self.front.push(html! {
            text class="lbl" x=(left) y="80%" dx=(shift) text-anchor=(anchor) { (label) }
            text class="tk lb" x=(left) y="80%" dx=(shift) dy="15" text-anchor=(anchor) { (note) }
        });
    }

    /// A vertical line with its value on it that is no limit.
    pub(super) fn place_at_x(&mut self, value: f64, label: &str) {
        let share = self.x.share(value) * 100.0;
        let left = format!("{share:.2}%");
        let (anchor, shift) = if share > 62.0 { ("end", "-6") } else { ("start", "6") };
        self.back.push(html! { line class="cross" x1=(left) x2=(left) y1="0" y2="100%" {} });
        self.front.push(html! {
            text class="lb knee" x=(left) y="94%" dx=(shift) text-anchor=(anchor) { (label) }
        });
    }

    /// Where a rising curve crosses: a vertical line, its word at the top on the empty side.
    pub(super) fn crossing_at_x(&mut self, value: f64, label: &str) {
        let share = self.x.share(value) * 100.0;
        let left = format!("{share:.2}%");
        let (anchor, shift) = if share > 42.0 { ("end", "-7") } else { ("start", "7") };
        self.back.push(html! { line class="cross" x1=(left) x2=(left) y1="0" y2="100%" {} });
        self.front.push(html! {
            text class="lb knee" x=(left) y="0" dx=(shift) dy="12" text-anchor=(anchor) { (label) }
        });
    }

    /// A measured value: its interval as a whisker (an open end is at the edge) and a sign of what it is.
    pub(super) fn mark(
        &mut self,
        x: f64,
        y: f64,
        interval: (Option<f64>, Option<f64>),
        sign: Sign,
        title: &str,
    ) {
        let percent = |v: f64| format!("{:.2}%", v / BOX * 100.0);
        let (left, top) = (percent(self.x.x(x)), percent(self.y.y(y)));
        if let (Some(low), Some(high)) = interval {
            self.front.push(html! {
                line class="wh" x1=(left) x2=(left) y1=(percent(self.y.y(high))) y2=(percent(self.y.y(low))) {}
            });
        }
        self.front.push(html! {
            svg class={ "mk " (sign.class()) } x=(left) y=(top) overflow="visible" { title { (title) } (sign.shape()) }
        });
    }

    /// A word beside a place in the plot.
    pub(super) fn word(&mut self, x: f64, y: f64, text: &str) {
        let share = self.x.share(x) * 100.0;
        let (anchor, shift) = if share > 62.0 { ("end", "-8") } else { ("start", "8") };
        self.front.push(html! {
            text class="tk lb" x=(format!("{share:.2}%")) y=(format!("{:.2}%", self.y.y(y) / BOX * 100.0))
                dx=(shift) dy="-6" text-anchor=(anchor) { (text) }
        });
    }

    /// A horizontal limit with its value on it, at its right end.
    pub(super) fn limit_at_y(&mut self, value: f64, label: &str) {
        self.level("100%", "end", value, label);
    }

    /// The same with its value at its left end: where the right is crowded.
    pub(super) fn limit_at_y_left(&mut self, value: f64, label: &str) {
        self.level("1%", "start", value, label);
    }

    fn level(&mut self, x: &str, anchor: &str, value: f64, label: &str) {
        let top = format!("{:.2}%", self.y.y(value) / BOX * 100.0);
        self.back.push(html! { line class="lim" x1="0" x2="100%" y1=(top) y2=(top) {} });
        if !label.is_empty() {
            self.front
                .push(html! { text class="lbl" x=(x) y=(top) dy="-5" text-anchor=(anchor) { (label) } });
        }
    }

    pub(super) fn render(&self) -> Markup {
        let labelled = self.x_labels.iter().any(|(_, label)| !label.is_empty());
        let percent = |v: f64| format!("{:.2}%", v / BOX * 100.0);
        html! {
            div.pw style=(format!("padding:{}px 14px {}px 54px", if self.headed { 18 } else { 8 }, if labelled { 26 } else { 6 })) {
                svg.plot role="img" aria-label=(self.sentence) height=(self.height) {
                    title { (self.sentence) }
                    @for (value, label) in &self.y_labels {
                        @let top = percent(self.y.y(*value));
                        line class="gr" x1="0" x2="100%" y1=(top) y2=(top) {}
                        text class="tk" x="-8" y=(top) dy="4" text-anchor="end" { (label) }
                    }
                    @for (value, label) in &self.x_labels {
                        @let left = percent(self.x.x(*value));
                        line class="gr" x1=(left) x2=(left) y1="0" y2="100%" {}
                        @if !label.is_empty() {
                            text class="tk" x=(left) y="100%" dy="18" text-anchor="middle" { (label) }
                        }
                    }
                    @for part in &self.back { (part) }
                    svg viewBox="0 0 1000 1000" preserveAspectRatio="none" width="100%" height="100%" overflow="hidden" {
                        @for part in &self.data { (part) }
                    }
                    @for part in &self.front { (part) }
                }
            }
        }
    }
}

/// A figure with its title and what it shows.
pub(super) fn figure(title: &str, subtitle: &str, chart: &Chart) -> Markup {
    html! {
        figure.fig {
            figcaption { b { (title) } span { (subtitle) } }
            (chart.render())
        }
    }
}
