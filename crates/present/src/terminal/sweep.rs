//! The screen after a sweep: the answer, the loads as a table, limits, knee, what is unknown.

use decide::sweep::{Over, Point, SweepReport};
use decide::words::{NBSP, TimeUnit, count, decimals, fixed, number, percent, plain};
use decide::{RunReport, TrustVerdict};
use measure::Figure;
use spec::Metric;

use super::table::{Cell, Table};
use super::{INDENT, Screen};
use crate::label;
use crate::style::{Style, Tone};

/// The whole screen.
pub fn sweep(style: &Style, report: &SweepReport) -> String {
    let mut screen = Screen { style, out: String::new() };
    screen.answer(&report.verdict.answer);
    screen.loads(report);
    screen.limits_of_sweep(report);
    screen.knee(report);
    screen.front(report);
    screen.unknown(report);
    screen.line("");
    for note in &report.notes {
        screen.hanging(&format!("{INDENT}- "), 4, note);
    }
    screen.out.trim_end().to_owned()
}

/// A run among others, as soon as it has ended.
pub fn run_in_a_line(style: &Style, report: &RunReport) -> String {
    let mut parts = vec![style.verdict(report.trust.verdict)];
    if let Ok(rate) = report.measures.throughput.requests_per_s {
        parts.push(style.plain(&format!("{}{NBSP}req/s", number(rate.value))));
    }
    for metric in [Metric::Ttft, Metric::Tpot] {
        let figure = report.measures.metrics.get(&metric).and_then(|summary| summary.percentile(0.5));
        if let Some(Figure::Known(e)) = figure {
            let text = format!("{} p50 {}", label::metric(metric), decide::words::time(e.value));
            parts.push(style.plain(&text));
        }
    }
    let slo = &report.slo;
    let met = slo.joint.iter().map(|j| j.met).chain(slo.marginal.iter().map(|m| m.met));
    let signs: Vec<String> = met.map(|met| style.met(met)).collect();
    if !signs.is_empty() {
        parts.push(format!("limits {}", signs.join(" ")));
    }
    format!("{INDENT}{}", parts.join("   "))
}

/// A column of the table of loads.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    Rate,
    Tokens,
    InFlight,
    Latency(Metric, f64),
    Attained,
}

/// Sets of columns from the richest to the barest; the first that fits is shown.
const SETS: [&[Column]; 4] = [
    &[
        Column::Rate,
        Column::Tokens,
        Column::InFlight,
        Column::Latency(Metric::Ttft, 0.5),
        Column::Latency(Metric::Ttft, 0.95),
        Column::Latency(Metric::Tpot, 0.5),
        Column::Latency(Metric::Tpot, 0.95),
        Column::Latency(Metric::E2e, 0.95),
        Column::Attained,
    ],
    &[
        Column::Rate,
        Column::Tokens,
        Column::InFlight,
        Column::Latency(Metric::Ttft, 0.5),
        Column::Latency(Metric::Ttft, 0.95),
        Column::Latency(Metric::Tpot, 0.5),
        Column::Latency(Metric::Tpot, 0.95),
        Column::Attained,
    ],
    &[
        Column::Rate,
        Column::Tokens,
        Column::Latency(Metric::Ttft, 0.95),
        Column::Latency(Metric::Tpot, 0.95),
        Column::Attained,
    ],
    &[Column::Rate, Column::Latency(Metric::Ttft, 0.95), Column::Latency(Metric::Tpot, 0.95)],
];

impl Screen<'_> {
    fn loads(&mut self, report: &SweepReport) {
        let room = usize::from(self.style.width).saturating_sub(INDENT.len());
        let tables = SETS.iter().map(|columns| self.table(report, columns));
        let tables: Vec<Table> = tables.collect();
        if let Some(table) = tables.iter().find(|table| table.width() <= room).or(tables.last()) {
            self.out.push_str(&table.render(self.style, INDENT));
        }
        let several = report.limits.len() > 1 && report.points.iter().any(|point| point.known().is_some());
        let numbers = if several { "the numbered columns are the limits below; " } else { "" };
        let text = format!(
            "latencies in ms; {numbers}{} {} ? the measurement and each limit",
            self.style.plain("✓ ◇"),
            self.style.plain("✕")
        );
        self.hanging(INDENT, INDENT.len(), &text);
        self.line("");
    }

    fn table(&self, report: &SweepReport, columns: &[Column]) -> Table {
        let load = match report.over {
            Over::Concurrency => "users",
            Over::Rate => "req/s",
        };
        let joint = report.points.iter().any(|p| p.known().is_some_and(|p| p.slo.joint.is_some()));
        let columns: Vec<Column> =
            columns.iter().copied().filter(|column| joint || *column != Column::Attained).collect();
        let mut head = vec![load.to_owned(), String::new()];
        head.extend(columns.iter().map(|column| match column {
            Column::Rate => "done/s".to_owned(),
            Column::Tokens => "tokens/s".to_owned(),
            Column::InFlight => "in flight".to_owned(),
            Column::Latency(metric, share) => {
                format!("{} {}", label::metric(*metric), measure::percentile_name(*share))
            }
            Column::Attained => "good".to_owned(),
        }));
        head.extend(
            (1..=report.limits.len())
                .map(|n| if report.limits.len() > 1 { n.to_string() } else { String::new() }),
        );
        let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
        for point in &report.points {
            let mut row = vec![Cell::right(plain(point.load)), self.standing(point)];
            row.extend(columns.iter().map(|column| Cell::right(self.style.plain(&value(point, *column)))));
            row.extend((0..report.limits.len()).map(|limit| self.met(point, limit)));
            table.row(row);
        }
        table
    }

    /// May the load's figures be believed?
    fn standing(&self, point: &Point) -> Cell {
        let (text, ascii, tone) = match point.known().map(|pooled| pooled.trust.verdict) {
            Some(TrustVerdict::Valid) => ("✓", "ok", Tone::Pass),
            Some(_) => ("◇", "~", Tone::Unsure),
            None => ("?", "?", Tone::Unsure),
        };
        Cell::left(if self.style.ascii { ascii } else { text }.to_owned()).toned(tone).glued()
    }

    fn met(&self, point: &Point, limit: usize) -> Cell {
        let (text, ascii, tone) = match (point.known().is_some(), point.met(limit).0) {
            (false, _) => ("?", "?", Tone::Unsure),
            (true, Some(true)) => ("✓", "ok", Tone::Pass),
            (true, Some(false)) => ("✕", "FAIL", Tone::Fail),
            (true, None) => ("◇", "~", Tone::Unsure),
        };
        Cell::right(if self.style.ascii { ascii } else { text }.to_owned()).toned(tone)
    }

    /// Which limit each numbered column is; a single one is named in the answer, and where nothing is
    /// known there is nothing to say of any.
    fn limits_of_sweep(&mut self, report: &SweepReport) {
        if report.points.iter().all(|point| point.known().is_none()) {
            return;
        }
        for (number, limit) in (1..).zip(&report.limits).filter(|_| report.limits.len() > 1) {
            self.named(&format!("limit {number}"), &limit.words);
        }
    }

    /// What the answer does not say of the knee.
    fn knee(&mut self, report: &SweepReport) {
        let knee = &report.knee;
        let mut parts = Vec::new();
        parts.extend(knee.reason.as_ref().filter(|_| knee.peak.is_some()).map(|why| format!("none: {why}")));
        if let Some(fit) = knee.fit.filter(|_| knee.at.is_some()) {
            parts.push(format!(
                "throughput grows with load to the power {} below it and {} (95{NBSP}%: {} to {}) above",
                fixed(fit.head, 2),
                fixed(fit.tail, 2),
                fixed(fit.tail_low, 2),
                fixed(fit.tail_high, 2)
            ));
        }
        if let Some(little) = report.little.filter(|little| knee.at.is_some() && little.differs) {
            parts.push(format!(
                "by Little's law it would be at {}{NBSP}users (latency at {})",
                fixed(little.users, decimals(little.users).min(1)),
                report.over.words(little.at)
            ));
        }
        if !parts.is_empty() {
            self.named("knee", &parts.join("; "));
        }
    }

    fn front(&mut self, report: &SweepReport) {
        let (Some(slowest), Some(fastest)) = (report.front.first(), report.front.last()) else { return };
        let unit = if report.asked.accelerators.is_some() { "tokens/s an accelerator" } else { "tokens/s" };
        let of = |trade: &decide::sweep::Trade| {
            format!(
                "{} {unit} with {} tokens/s a user at {}",
                number(trade.together),
                number(trade.per_user),
                report.over.words(trade.load)
            )
        };
        let text = if report.front.len() == 1 {
            of(slowest)
        } else {
            format!("{} loads, from {} to {}", count(report.front.len() as u64), of(fastest), of(slowest))
        };
        self.named("front", &text);
    }

    /// Loads of which nothing is known: those with one cause together, with the figure of the first.
    fn unknown(&mut self, report: &SweepReport) {
        let cause = |why: &str| why.split(':').next().unwrap_or(why).to_owned();
        let mut told: Vec<(String, String, Vec<String>)> = Vec::new();
        for point in &report.points {
            let Err(why) = &point.pooled else { continue };
            match told.iter_mut().find(|(of, ..)| *of == cause(why)) {
                Some((.., loads)) => loads.push(plain(point.load)),
                None => told.push((cause(why), why.clone(), vec![plain(point.load)])),
            }
        }
        let unit = match report.over {
            Over::Concurrency => "users",
            Over::Rate => "requests/s",
        };
        for (_, why, loads) in told {
            self.named("unknown", &format!("at {} {unit}: {why}", loads.join(", ")));
        }
    }
}

/// A figure of a load, or a dash.
fn value(point: &Point, column: Column) -> String {
    let dash = || "–".to_owned();
    let Some(pooled) = point.known() else { return dash() };
    let rates = &pooled.measures.throughput;
    match column {
        Column::Rate => pooled.throughput.map_or_else(|_| dash(), |e| number(e.value)),
        Column::Tokens => rates.output_tokens_per_s.map_or_else(|_| dash(), |e| number(e.value)),
        Column::InFlight => rates.in_flight_mean.map_or_else(|_| dash(), number),
        Column::Latency(metric, share) => {
            let figure = pooled.measures.metrics.get(&metric).and_then(|summary| summary.percentile(share));
            figure.map_or_else(dash, |figure| label::figure(figure, TimeUnit::Milli.ns()))
        }
        Column::Attained => match &pooled.slo.joint {
            Some(joint) => match (joint.attainment.value, joint.attainment.high) {
                (Some(share), _) => percent(share),
                (None, Some(most)) => format!("≤{NBSP}{}", percent(most)),
                (None, None) => dash(),
            },
            None => dash(),
        },
    }
}
