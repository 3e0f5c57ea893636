//! The table of metrics as wide as the terminal, and the lines that explain its gaps.

use std::collections::{BTreeMap, BTreeSet};

use decide::words::{NBSP, TimeUnit, count, decimals, fixed, number};
use decide::{CheckId, RunReport};
use measure::{Figure, MetricSummary, PERCENTILES, Undefined, needed, percentile_name};
use spec::Metric;

use super::table::{Cell, Table};
use crate::label;
use crate::stands;
use crate::style::Style;

/// From this width on, intervals stand beside their values where they fit.
const WIDE: u16 = 110;
/// Columns that may go when the terminal is narrow, the first to go first.
const SPARE: [&str; 5] = ["max", "mean", "p90", "p99.9", "p95"];

/// What the section shows.
pub(super) struct Shown {
    /// The table; none when no latency has a value.
    pub(super) table: Option<Table>,
    /// Why cells are empty, and how to read the rest.
    pub(super) below: Vec<String>,
}

/// One metric, ready for a table of any layout.
struct Row {
    name: String,
    unit: &'static str,
    n: String,
    /// mean, percentiles, max.
    values: Vec<Value>,
}

#[derive(Default)]
struct Value {
    text: String,
    interval: Option<String>,
    known: bool,
}

impl Shown {
    pub(super) fn of(style: &Style, report: &RunReport) -> Self {
        let measures = &report.measures;
        let mut notes = Notes::default();
        let mut rows = Vec::new();
        for metric in shown(report) {
            let Some(summary) = measures.metrics.get(&metric) else { continue };
            notes.undefined(metric, summary);
            if has_value(summary) {
                let mark = notes.mark(style, stands::markers(&report.trust, metric));
                rows.push(row(style, metric, summary, &mark, &mut notes));
            }
        }
        let mut below = Vec::new();
        let table = (!rows.is_empty()).then(|| fit(style, &rows));
        if table.is_some() {
            let rule = label::rule_name(measures.rule);
            below.push(format!("{}Percentiles by `{rule}` with 95{NBSP}% intervals.", notes.few()));
            below.extend(notes.open());
            below.extend(notes.marks.iter().map(|(mark, by)| format!("{mark} in doubt: {by}, see above")));
        }
        below.extend(notes.gaps());
        Self { table, below }
    }
}

/// Figures that stand in a limited measurement, in words.
pub(super) fn believed(report: &RunReport) -> Vec<String> {
    let m = &report.measures;
    let mut out: Vec<String> = shown(report)
        .into_iter()
        .filter(|metric| {
            m.metrics.get(metric).is_some_and(|s| has_value(s) && !partly_withheld(s))
                && stands::markers(&report.trust, *metric).is_empty()
        })
        .map(|metric| label::metric(metric).to_owned())
        .collect();
    if m.throughput.requests_per_s.is_ok() && !stands::throughput_in_doubt(&report.trust) {
        out.push("throughput".to_owned());
    }
    out.push("the counts of requests".to_owned());
    out
}

fn partly_withheld(summary: &MetricSummary) -> bool {
    let withheld = |f: &Figure| *f == Figure::Undefined(Undefined::Withheld);
    withheld(&summary.mean) || summary.percentiles.iter().any(|(_, f)| withheld(f))
}

/// Whether a row would show anything; what a check leaves of a withheld metric (its mean, its
/// largest value) is for the page.
fn has_value(summary: &MetricSummary) -> bool {
    let some = |f: &Figure| !matches!(f, Figure::Undefined(_));
    let percentiles = summary.percentiles.iter().any(|(_, f)| some(f));
    percentiles || (!partly_withheld(summary) && (summary.max.is_ok() || some(&summary.mean)))
}

/// The metrics of the table: the headline ones, and those that add something in this run.
fn shown(report: &RunReport) -> Vec<Metric> {
    let mut list = vec![Metric::Ttft];
    let metrics = &report.measures.metrics;
    let differs = |a: Metric, b: Metric| match (metrics.get(&a), metrics.get(&b)) {
        (Some(a), Some(b)) => a.n > 0 && a.percentiles != b.percentiles,
        _ => false,
    };
    if differs(Metric::Ttfat, Metric::Ttft) {
        list.push(Metric::Ttfat);
    }
    list.extend([Metric::Tpot, Metric::Itl]);
    if differs(Metric::Icl, Metric::Itl) {
        list.push(Metric::Icl);
    }
    list.extend([Metric::MaxGap, Metric::E2e]);
    // A client that was on time is one line among the checks.
    if report.trust.check(CheckId::SendLag).is_some_and(decide::Check::failed) {
        list.push(Metric::ScheduleLag);
    }
    list
}

fn row(style: &Style, metric: Metric, summary: &MetricSummary, mark: &str, notes: &mut Notes) -> Row {
    let typical = summary.percentiles.iter().find_map(|(_, f)| f.value()).or(summary.mean.value());
    let unit = TimeUnit::of(typical.or(summary.max.ok()).unwrap_or(1e6));
    let plain = |text: String| style.plain(&text);
    let mut values = Vec::new();
    let figures = std::iter::once((None, &summary.mean))
        .chain(summary.percentiles.iter().map(|(share, figure)| (Some(*share), figure)));
    for (share, figure) in figures {
        values.push(match figure {
            Figure::Known(e) => {
                let places = decimals(e.value / unit.ns());
                let interval = label::interval(e.interval, unit.ns(), places).map(plain);
                notes.open |= share.is_some() && (e.interval.low.is_none() || e.interval.high.is_none());
                Value { text: plain(fixed(e.value / unit.ns(), places)), interval, known: true }
            }
            Figure::Exceeds(bound) => {
                notes.exceeds = true;
                let text = plain(format!(">{NBSP}{}", number(bound / unit.ns())));
                Value { text, interval: None, known: true }
            }
            Figure::Undefined(Undefined::TooFewSamples { .. }) => {
                notes.few.extend(share.map(share_key));
                Value { text: "few".to_owned(), ..Value::default() }
            }
            Figure::Undefined(_) => Value { text: plain("–".to_owned()), ..Value::default() },
        });
    }
    values.push(match summary.max {
        Ok(max) => Value { text: plain(number(max / unit.ns())), interval: None, known: true },
        Err(_) => Value { text: plain("–".to_owned()), ..Value::default() },
    });
    Row {
        name: format!("{}{mark}", label::metric(metric)),
        unit: if style.ascii && unit == TimeUnit::Micro { "us" } else { unit.symbol() },
        n: plain(count(summary.n)),
        values,
    }
}

fn share_key(share: f64) -> u64 {
    (share * 1e6).round() as u64
}

/// The richest layout that is not wider than the terminal.
fn fit(style: &Style, rows: &[Row]) -> Table {
    let mut heads: Vec<(usize, String)> = std::iter::once("mean".to_owned())
        .chain(PERCENTILES.iter().map(|p| percentile_name(*p)))
        .chain(["max".to_owned()])
        .enumerate()
        .collect();
    // A column without a single value is told in one line below.
    heads.retain(|(i, _)| rows.iter().any(|row| row.values.get(*i).is_some_and(|v| v.known)));
    let room = usize::from(style.width).saturating_sub(2);
    if style.width >= WIDE {
        let mut heads = heads.clone();
        for name in SPARE.iter().take(2) {
            let table = lay_out(rows, &heads, true);
            if table.width() <= room {
                return table;
            }
            heads.retain(|(_, head)| head != name);
        }
    }
    let mut spare = SPARE.iter();
    loop {
        let table = lay_out(rows, &heads, false);
        if table.width() <= room {
            return table;
        }
        match spare.next() {
            Some(name) => heads.retain(|(_, head)| head != name),
            None => return table,
        }
    }
}

fn lay_out(rows: &[Row], heads: &[(usize, String)], beside: bool) -> Table {
    let mut head = vec!["", "", "n"];
    for (_, name) in heads {
        head.push(name);
        if beside && name.starts_with('p') {
            head.push("");
        }
    }
    let mut table = Table::new(&head);
    for row in rows {
        let mut values = vec![
            Cell::left(row.name.clone()),
            Cell::left(row.unit.to_owned()).dim(),
            Cell::right(row.n.clone()),
        ];
        let mut intervals = vec![Cell::empty(); 3];
        let mut below = false;
        for (i, name) in heads {
            let value = row.values.get(*i);
            values.push(Cell::right(value.map(|v| v.text.clone()).unwrap_or_default()));
            let interval = value.and_then(|v| v.interval.clone()).unwrap_or_default();
            if !beside {
                below |= !interval.is_empty();
                intervals.push(Cell::right(interval).dim());
            } else if name.starts_with('p') {
                values.push(Cell::left(interval).dim().glued());
            }
        }
        table.row(values);
        if below {
            table.row(intervals);
        }
    }
    table
}

/// What the lines below the table say; each thing once.
#[derive(Default)]
struct Notes {
    few: BTreeSet<u64>,
    open: bool,
    exceeds: bool,
    /// Mark and the checks behind it.
    marks: Vec<(String, String)>,
    /// Reason → metrics.
    undefined: BTreeMap<String, Vec<&'static str>>,
}

impl Notes {
    /// The mark of a set of checks; empty for none.
    fn mark(&mut self, style: &Style, checks: Vec<CheckId>) -> String {
        const MARKS: [&str; 4] = ["¹", "²", "³", "⁴"];
        if checks.is_empty() {
            return String::new();
        }
        let by = checks.into_iter().map(CheckId::label).collect::<Vec<_>>().join(", ");
        if let Some((mark, _)) = self.marks.iter().find(|(_, known)| *known == by) {
            return mark.clone();
        }
        let at = self.marks.len();
        let mark = match MARKS.get(at) {
            Some(mark) if !style.ascii => (*mark).to_owned(),
            _ => format!("[{}]", at + 1),
        };
        self.marks.push((mark.clone(), by));
        mark
    }

    fn undefined(&mut self, metric: Metric, summary: &MetricSummary) {
        for (why, n) in &summary.undefined {
            let reason = match n {
                1 => format!("1 request {}", label::phrase(*why)),
                n => format!("{} requests {}", count(*n), label::phrase(*why)),
            };
            self.undefined.entry(reason).or_default().push(label::metric(metric));
        }
        if summary.n == 0 && summary.undefined.is_empty() {
            let reason = "no request completed".to_owned();
            self.undefined.entry(reason).or_default().push(label::metric(metric));
        }
    }

    fn few(&self) -> String {
        let needs: Vec<String> = self
            .few
            .iter()
            .map(|key| *key as f64 / 1e6)
            .map(|share| format!("{} needs {}", percentile_name(share), count(needed(share))))
            .collect();
        if needs.is_empty() { String::new() } else { format!("few: too few samples, {}. ", needs.join(", ")) }
    }

    fn open(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.open {
            parts.push("Open or absent interval: too few samples count as independent.");
        }
        if self.exceeds {
            parts.push("> x: it lies among requests that did not end well; x is the most that is known.");
        }
        (!parts.is_empty()).then(|| parts.join(" "))
    }

    fn gaps(&self) -> Vec<String> {
        self.undefined
            .iter()
            .map(|(reason, metrics)| format!("Not defined: {}, {reason}.", metrics.join(", ")))
            .collect()
    }
}
