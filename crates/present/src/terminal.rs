//! The screen after a run: trust, answer, table, limits, requests, notes.

mod table;
mod text;

use decide::words::{NBSP, clock_time, count, decimals, fixed, number, percent, time};
use decide::{Check, CheckState, RunReport, TrustVerdict};
use measure::{Figure, MetricSummary, Undefined, percentile_name};
use spec::Metric;

use crate::style::{Style, Tone};
use table::{Cell, Table};
use text::wrap;

/// Indentation of everything below the headline.
const INDENT: &str = "  ";

/// An error as shown: the word in red, hints in yellow on lines of their own.
pub fn error(style: &Style, message: &str) -> String {
    let mut out = String::new();
    for (i, line) in message.lines().enumerate() {
        let line = style.plain(line);
        if i == 0 {
            out.push_str(&format!("{} {line}", style.paint(Tone::Error, "error:")));
        } else if let Some(hint) = line.strip_prefix("hint:") {
            out.push_str(&format!("\n{}{hint}", style.paint(Tone::Unsure, "hint:")));
        } else {
            out.push('\n');
            out.push_str(&line);
        }
    }
    out
}

/// The whole screen after a run.
pub fn run(style: &Style, report: &RunReport) -> String {
    let mut screen = Screen { style, out: String::new() };
    screen.trust(report);
    screen.answer(report);
    screen.metrics(report);
    screen.limits(report);
    screen.requests(report);
    screen.notes(report);
    style.plain(screen.out.trim_end())
}

struct Screen<'a> {
    style: &'a Style,
    out: String,
}

impl Screen<'_> {
    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn paragraph(&mut self, first: &str, indent: &str, text: &str) {
        let width = usize::from(self.style.width).clamp(40, 100) - indent.chars().count();
        for (i, line) in wrap(text, width).into_iter().enumerate() {
            self.line(&format!("{}{line}", if i == 0 { first } else { indent }));
        }
    }

    fn trust(&mut self, report: &RunReport) {
        let checks = &report.trust.checks;
        let of = |state| checks.iter().filter(|c| c.state == state).count();
        let (failed, unknown) = (of(CheckState::Fail), of(CheckState::Unknown));
        let summary = match (failed, unknown) {
            (0, 0) => format!("all {} checks passed", checks.len()),
            (0, u) => format!("{} of {} checks passed, {u} unknown", checks.len() - u, checks.len()),
            (f, 0) => format!("{f} of {} checks failed", checks.len()),
            (f, u) => format!("{f} of {} checks failed, {u} unknown", checks.len()),
        };
        self.line(&format!("{}   {summary}", self.style.verdict(report.trust.verdict)));
        self.line("");
        for check in checks.iter().filter(|c| c.state == CheckState::Fail) {
            self.check(check);
        }
        for check in checks.iter().filter(|c| c.state == CheckState::Unknown) {
            // A long list of unknowns hides the failures: the page and the JSON have the advice.
            self.check(&Check {
                advice: if failed == 0 { check.advice.clone() } else { None },
                ..check.clone()
            });
        }
        for check in checks.iter().filter(|c| c.state == CheckState::Pass && c.note.is_some()) {
            self.check(check);
        }
        if failed + unknown > 0 {
            self.line("");
        }
    }

    fn check(&mut self, check: &Check) {
        let name = check_name(check);
        let limit = if check.limit.is_empty() { String::new() } else { format!(", limit {}", check.limit) };
        let first = format!("{INDENT}{} {name:<16} ", self.style.check(check.state));
        let indent = " ".repeat(21);
        self.paragraph(&first, &indent, &format!("{}{limit}", check.figure));
        if let Some(advice) = &check.advice {
            self.paragraph(&indent, &indent, advice);
        }
        if let Some(note) = &check.note {
            self.paragraph(&indent, &indent, note);
        }
    }

    fn answer(&mut self, report: &RunReport) {
        self.paragraph("", "", &report.verdict.answer);
        self.line("");
    }

    fn metrics(&mut self, report: &RunReport) {
        let measures = &report.measures;
        let mut table = Table::new(["", "", "n", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"]);
        let mut reasons = Reasons::default();
        let view = match measures.view {
            spec::View::User => "from the intended send",
            spec::View::Server => "from the first byte written",
        };
        for metric in shown(report) {
            let Some(summary) = measures.metrics.get(&metric) else { continue };
            rows(&mut table, &mut reasons, metric, summary, report);
        }
        self.out.push_str(&table.render(self.style, INDENT));
        for (mark, reason) in reasons.list() {
            self.paragraph(&format!("{INDENT}{mark} "), "    ", &reason);
        }
        self.paragraph(
            INDENT,
            INDENT,
            &format!(
                "Latencies {view}; percentiles by `{}`, 95{NBSP}% intervals below.",
                rule_name(measures.rule)
            ),
        );
        self.line("");
    }

    fn limits(&mut self, report: &RunReport) {
        if let Some(joint) = &report.slo.joint {
            let share = joint.attainment.value.map_or("–".to_owned(), percent);
            let interval = match (joint.attainment.low, joint.attainment.high) {
                (Some(low), Some(high)) => {
                    format!(" ({}–{})", number(low * 100.0), number(high * 100.0))
                }
                _ => String::new(),
            };
            self.line(&format!(
                "{INDENT}{} {}   {share}{interval} of {} offered, target {}",
                self.style.met(joint.met),
                joint.limits.join(" and "),
                count(joint.offered),
                percent(joint.target),
            ));
            let alone: Vec<String> = joint
                .alone
                .iter()
                .map(|(limit, share)| format!("{limit} alone {}", percent(*share)))
                .collect();
            let goodput = joint.goodput_per_s.map_or("–".to_owned(), number);
            self.paragraph(
                "    ",
                "    ",
                &format!("good {}, goodput {goodput}{NBSP}req/s; {}", count(joint.good), alone.join(", ")),
            );
        }
        for marginal in &report.slo.marginal {
            let reason = marginal.reason.as_ref().map_or(String::new(), |r| format!("   {r}"));
            let value = marginal.value.map_or("–".to_owned(), |v| limit_value(&marginal.limit, v));
            let word = match marginal.met {
                Some(true) => "met",
                Some(false) => "not met",
                None => "undecided",
            };
            self.line(&format!(
                "{INDENT}{} {}   {value}   {word}{reason}",
                self.style.met(marginal.met),
                marginal.limit
            ));
        }
        if report.slo.joint.is_some() || !report.slo.marginal.is_empty() {
            self.line("");
        }
    }

    fn requests(&mut self, report: &RunReport) {
        let m = &report.measures;
        let c = &m.counts;
        self.paragraph(
            &format!("{INDENT}requests   "),
            "             ",
            &format!(
                "{} offered = {} ok + {} failed + {} timed out + {} cut + {} shed",
                count(c.offered),
                count(c.ok),
                count(c.failed),
                count(c.timed_out),
                count(c.cancelled),
                count(c.shed)
            ),
        );
        for (class, n) in &c.failed_by_class {
            let first = c.first_failure.get(class).map_or("", String::as_str);
            self.paragraph(
                &format!(
                    "{INDENT}  {} {:<12} {:>6}   ",
                    self.style.check(CheckState::Fail),
                    class.name(),
                    count(*n)
                ),
                "                           ",
                &format!("first: {first}"),
            );
        }
        for (kind, n) in &c.timed_out_by_kind {
            self.line(&format!("{INDENT}  timed out: {} {}", kind.name(), count(*n)));
        }
        let rate = |x: &measure::Defined<measure::Estimate>| {
            x.as_ref().map_or("–".to_owned(), |e| number(e.value))
        };
        self.line(&format!(
            "{INDENT}rate       offered {} req/s, completed {} req/s over {}",
            m.throughput.offered_per_s.map_or("–".to_owned(), number),
            rate(&m.throughput.requests_per_s),
            time(m.window.duration.0 as f64),
        ));
        self.line(&format!(
            "{INDENT}tokens     output {} tokens/s (mean {} per answer), input {} tokens/s (mean {})",
            rate(&m.throughput.output_tokens_per_s),
            m.tokens.output_mean.map_or("–".to_owned(), number),
            rate(&m.throughput.input_tokens_per_s),
            m.tokens.input_mean.map_or("–".to_owned(), number),
        ));
        let steady = m.window.steady.map_or("no steady window found".to_owned(), |(from, to)| {
            format!("steady {}–{}", clock_time(from), clock_time(to))
        });
        self.line(&format!(
            "{INDENT}in flight  {} mean, {} peak; {steady}",
            m.throughput.in_flight_mean.map_or("–".to_owned(), number),
            count(m.throughput.in_flight_peak),
        ));
        self.line("");
    }

    fn notes(&mut self, report: &RunReport) {
        for note in report.missing.iter().chain(&report.notes) {
            self.paragraph(&format!("{INDENT}- "), "    ", note);
        }
        if report.trust.verdict == TrustVerdict::Invalid {
            self.paragraph(INDENT, INDENT, "Nothing may be concluded from the figures above.");
        }
    }
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
    list.extend([Metric::MaxGap, Metric::E2e, Metric::ScheduleLag]);
    list
}

fn rows(
    table: &mut Table,
    reasons: &mut Reasons,
    metric: Metric,
    summary: &MetricSummary,
    report: &RunReport,
) {
    let scale = summary
        .percentiles
        .iter()
        .find_map(|(_, f)| f.value())
        .or_else(|| summary.mean.value())
        .unwrap_or(1e6);
    let unit = decide::words::TimeUnit::of(scale);
    let flags = report.flags.get(&metric).cloned().unwrap_or_default();
    let mark = reasons.mark_all(&flags);
    let mut values = vec![
        Cell::left(format!("{}{mark}", crate::label::metric(metric))),
        Cell::left(unit.symbol().to_owned()).dim(),
        Cell::right(count(summary.n)),
    ];
    let mut intervals = vec![Cell::empty(); 3];
    let shares = summary.percentiles.iter().map(|(share, f)| (Some(*share), f));
    for (share, figure) in std::iter::once((None, &summary.mean)).chain(shares) {
        match figure {
            Figure::Known(e) => {
                let places = decimals(e.value / unit.ns());
                values.push(Cell::right(fixed(e.value / unit.ns(), places)));
                intervals.push(
                    crate::label::interval(e.interval, unit.ns(), places)
                        .map_or_else(Cell::empty, |text| Cell::right(text).dim()),
                );
            }
            Figure::Exceeds(bound) => {
                values.push(Cell::right(format!(">{NBSP}{}", number(bound / unit.ns()))));
                intervals.push(Cell::empty());
            }
            Figure::Undefined(why) => {
                let name = share.map_or("mean".to_owned(), percentile_name);
                let (word, reason) = undefined_words(*why, &name, summary);
                let mark = reasons.mark(reason);
                values.push(Cell::right(format!("{word}{mark}")));
                intervals.push(Cell::empty());
            }
        }
    }
    values.push(match summary.max {
        Ok(max) => Cell::right(number(max / unit.ns())),
        Err(_) => Cell::right("–".to_owned()),
    });
    intervals.push(Cell::empty());
    table.row(values);
    if intervals.iter().any(|cell| !cell.is_empty()) {
        table.row(intervals);
    }
}

/// The word in the cell and the reason below the table.
fn undefined_words(why: Undefined, name: &str, summary: &MetricSummary) -> (&'static str, String) {
    let missing: Vec<String> =
        summary.undefined.iter().map(|(why, n)| format!("{} {}", count(*n), phrase(*why))).collect();
    match why {
        Undefined::TooFewSamples { n, needed } => {
            ("few", format!("few: too few samples; {name} needs {} ({} here).", count(needed), count(n)))
        }
        Undefined::Withheld => ("–", "withheld: a failed check above caps it.".to_owned()),
        _ if !missing.is_empty() => ("–", format!("not defined: {}.", missing.join(", "))),
        why => ("–", format!("not defined: {}.", phrase(why))),
    }
}

/// A reason in words, after a count of requests.
pub(crate) fn phrase(why: Undefined) -> &'static str {
    match why {
        Undefined::NoOutput => "without output",
        Undefined::NotStreamed => "not streamed",
        Undefined::SingleToken => "with a single token",
        Undefined::SingleChunk => "with a single chunk",
        Undefined::ReasoningOnly => "with thinking only",
        Undefined::AllInFirstChunk => "with all tokens in the first chunk",
        Undefined::NoKernelStamp => "without kernel receive stamps",
        Undefined::NotSent => "never sent",
        Undefined::NoTokenCount => "without a token count",
        Undefined::NoneCompleted => "no request completed",
        Undefined::TooFewSamples { .. } => "too few samples",
        Undefined::NoSpan => "without a span of time",
        Undefined::NotApplicable => "does not apply",
        Undefined::Withheld => "withheld",
    }
}

/// Footnotes: the same reason has the same mark.
#[derive(Default)]
struct Reasons(Vec<String>);

impl Reasons {
    const MARKS: [&str; 9] = ["¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"];

    fn mark(&mut self, reason: String) -> &'static str {
        let at = self.0.iter().position(|r| *r == reason).unwrap_or_else(|| {
            self.0.push(reason);
            self.0.len() - 1
        });
        Self::MARKS.get(at).copied().unwrap_or("*")
    }
    fn mark_all(&mut self, reasons: &[String]) -> String {
        reasons.iter().map(|r| self.mark(r.clone())).collect()
    }
    fn list(self) -> Vec<(&'static str, String)> {
        self.0
            .into_iter()
            .enumerate()
            .map(|(i, reason)| (Self::MARKS.get(i).copied().unwrap_or("*"), reason))
            .collect()
    }
}

/// A limit's value in the limit's own unit: times in ms, shares in per cent, the rest as is.
pub(crate) fn limit_value(limit: &str, value: f64) -> String {
    if limit.contains("error_rate") {
        percent(value)
    } else if limit.contains("throughput") || limit.contains("tps") {
        number(value)
    } else {
        time(value)
    }
}

/// A check's name as shown.
pub(crate) fn check_name(check: &Check) -> String {
    serde_json::to_value(check.id)
        .ok()
        .and_then(|v| v.as_str().map(|s| s.replace('_', " ")))
        .unwrap_or_default()
}

/// The rule's name as written in flags.
pub(crate) fn rule_name(rule: spec::PercentileRule) -> &'static str {
    match rule {
        spec::PercentileRule::Linear => "linear",
        spec::PercentileRule::NearestRank => "nearest-rank",
        spec::PercentileRule::Loadgen => "loadgen",
    }
}
