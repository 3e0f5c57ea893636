//! The screen after a run: trust, answer, table, limits, requests, notes.

mod capacity;
mod capacity_quality;
mod capacity_tiers;
mod maximize;
mod metrics;
mod quality;
mod self_check;
mod sweep;
mod table;
mod text;

use decide::traffic::{connection_words, target_words};
use decide::words::{NBSP, clock_time, count, number, percent, percent_number, time};
use decide::{Check, CheckState, JointReport, RunReport, TrustVerdict};
use measure::{Defined, Estimate, Undefined};

use crate::label::{harmless, limit_figure, limit_interval, notes};
use crate::stands;
use crate::style::{Style, Tone};
pub use capacity::{capacity, probe};
pub(crate) use capacity_quality::{in_flight, qualified_goodput};
pub use maximize::throughput;
pub(crate) use maximize::{chance, why};
pub use quality::quality;
pub use self_check::self_check;
pub use sweep::{run_in_a_line, sweep};
use text::wrap;

/// Indentation of everything below the headline.
const INDENT: &str = "  ";
/// Running text is at most this wide, however wide the terminal is.
const WIDEST_TEXT: usize = 100;

/// An error as shown: the word in red, hints in yellow on lines of their own. Lines are not broken,
/// so that a command can be copied.
pub fn error(style: &Style, message: &str) -> String {
    let mut out = String::new();
    for (i, line) in harmless(message).lines().enumerate() {
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
    screen.answer(&report.verdict.answer);
    screen.doubts(report);
    screen.metrics(report);
    screen.limits(report);
    screen.requests(report);
    screen.notes(report);
    screen.out.trim_end().to_owned()
}

struct Screen<'a> {
    style: &'a Style,
    out: String,
}

impl Screen<'_> {
    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    /// Columns for text behind an indentation.
    fn room(&self, indent: usize) -> usize {
        usize::from(self.style.width).min(WIDEST_TEXT).saturating_sub(indent).max(8)
    }

    /// Text behind `first`, which is `taken` columns wide; the following lines are indented as far.
    fn hanging(&mut self, first: &str, taken: usize, text: &str) {
        for (i, line) in self.wrapped(text, taken).into_iter().enumerate() {
            let indent = " ".repeat(taken);
            self.line(&format!("{}{line}", if i == 0 { first } else { &indent }));
        }
    }

    fn wrapped(&self, text: &str, taken: usize) -> Vec<String> {
        wrap(&self.style.plain(&harmless(text)), self.room(taken))
    }

    /// A named paragraph: `  requests   …`.
    fn named(&mut self, name: &str, text: &str) {
        self.hanging(&format!("{INDENT}{name:<11} "), 14, text);
    }

    fn trust(&mut self, report: &RunReport) {
        let checks = &report.trust.checks;
        let of = |state| checks.iter().filter(move |c: &&Check| c.state == state);
        let (failed, unknown) = (of(CheckState::Fail).count(), of(CheckState::Unknown).count());
        let total = checks.len();
        let summary = match (failed, unknown) {
            (0, 0) => format!("all {total} checks passed"),
            (0, u) => format!("{} of {total} checks passed, {u} unknown", total - u),
            (f, 0) => format!("{f} of {total} checks failed"),
            (f, u) => format!("{f} of {total} checks failed, {u} unknown"),
        };
        self.line(&format!("{}   {summary}", self.style.verdict(report.trust.verdict)));
        self.line("");
        for check in of(CheckState::Fail) {
            self.check(check, true);
        }
        // Where an unknown check is the reason of the verdict it says what to do; elsewhere a name
        // and a reason do, and the page has the rest.
        let decisive = failed == 0 && report.trust.verdict != TrustVerdict::Valid;
        for check in of(CheckState::Unknown).filter(|_| decisive) {
            self.check(check, true);
        }
        // Where nothing was measured, what could not be checked is no news.
        if !decisive && unknown > 0 && report.measures.counts.ok > 0 {
            let list: Vec<String> =
                of(CheckState::Unknown).map(|c| format!("{} ({})", c.id.label(), c.figure)).collect();
            let sign = self.style.check_column(CheckState::Unknown);
            let taken = INDENT.len() + self.style.sign_width() + 1;
            self.hanging(&format!("{INDENT}{sign} "), taken, &format!("unknown: {}", list.join("; ")));
        }
        if failed + unknown > 0 {
            self.line("");
        }
    }

    fn check(&mut self, check: &Check, advise: bool) {
        let limit = if check.limit.is_empty() { String::new() } else { format!(", limit {}", check.limit) };
        let first = format!("{INDENT}{} {:<12} ", self.style.check_column(check.state), check.id.label());
        let taken = INDENT.len() + self.style.sign_width() + 14;
        self.hanging(&first, taken, &format!("{}{limit}", check.figure));
        if let Some(advice) = check.advice.as_ref().filter(|_| advise) {
            self.hanging(&" ".repeat(taken), taken, advice);
        }
    }

    fn answer(&mut self, answer: &str) {
        for line in self.wrapped(answer, 0) {
            let words: Vec<String> = line.split(' ').map(|word| self.judgement(word)).collect();
            self.line(&words.join(" "));
        }
        self.line("");
    }

    /// The words that judge, in the colour of what they say.
    fn judgement(&self, word: &str) -> String {
        let bare = word.trim_end_matches([',', ';', '.', ':']);
        let tone = match bare {
            "holds" => Tone::Pass,
            "misses" | "missed" => Tone::Fail,
            "undecided" => Tone::Unsure,
            _ => return word.to_owned(),
        };
        format!("{}{}", self.style.paint(tone, bare), &word[bare.len()..])
    }

    /// Which figures do not stand, each group with the checks that say so.
    fn doubts(&mut self, report: &RunReport) {
        if report.measures.counts.ok == 0 {
            return;
        }
        let withheld = stands::withheld(&report.trust);
        let marked = stands::marked(&report.trust);
        if !withheld.is_empty() && report.trust.verdict == TrustVerdict::Limited {
            let believed = metrics::believed(report);
            if !believed.is_empty() {
                self.named("believe", &believed.join(", "));
            }
        }
        for (name, doubts) in [("withheld", &withheld), ("marked", &marked)] {
            let list: Vec<String> =
                doubts.iter().map(|doubt| format!("{} ({})", doubt.what, doubt.by)).collect();
            if !list.is_empty() {
                self.named(name, &list.join("; "));
            }
        }
        if !withheld.is_empty() || !marked.is_empty() {
            self.line("");
        }
    }

    fn metrics(&mut self, report: &RunReport) {
        let shown = metrics::Shown::of(self.style, report);
        if let Some(table) = &shown.table {
            self.out.push_str(&table.render(self.style, INDENT));
        }
        for text in &shown.below {
            self.hanging(INDENT, INDENT.len(), text);
        }
        if shown.table.is_some() || !shown.below.is_empty() {
            self.line("");
        }
    }

    fn limits(&mut self, report: &RunReport) {
        let taken = INDENT.len() + self.style.sign_width() + 1;
        if let Some(joint) = &report.slo.joint {
            let first = format!("{INDENT}{} ", self.style.met_column(joint.met));
            self.hanging(&first, taken, &joint_words(joint));
            if joint.attainment.value.is_some() {
                self.hanging(&" ".repeat(taken), taken, &good_words(joint));
            }
        }
        let width = report.slo.marginal.iter().map(|m| m.limit.chars().count()).max().unwrap_or(0);
        for (limit, marginal) in report.spec.slo.marginal.iter().zip(&report.slo.marginal) {
            let mut text = format!("{:<width$}  ", marginal.limit).replace(' ', "\u{a0}");
            text.push_str(&limit_figure(limit.metric, marginal));
            if marginal.value.is_some()
                && let Some(interval) = limit_interval(limit.metric, marginal.low, marginal.high)
            {
                text.push_str(&format!(" ({})", interval.replace(' ', "\u{a0}")));
            }
            text.push_str(&format!(":{}", outcome(marginal.met, marginal.reason.as_deref())));
            let first = format!("{INDENT}{} ", self.style.met_column(marginal.met));
            self.hanging(&first, taken, &text);
        }
        if let Some(words) = report.slo.together.as_ref().and_then(|together| together.words()) {
            self.hanging(&format!("{INDENT}- "), 4, &words);
        }
        if report.slo.joint.is_some() || !report.slo.marginal.is_empty() {
            self.line("");
        }
    }

    fn requests(&mut self, report: &RunReport) {
        let m = &report.measures;
        let c = &m.counts;
        self.named(
            "requests",
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
            let first = c.first_failure.get(class).filter(|text| !text.is_empty());
            let first = first.map_or_else(String::new, |text| format!(", first: {text}"));
            let sign = self.style.check_column(CheckState::Fail);
            let taken = 15 + self.style.sign_width();
            let head = format!("{:14}{sign} ", "");
            self.hanging(&head, taken, &format!("{} {}{first}", count(*n), class.name()));
        }
        if !c.timed_out_by_kind.is_empty() {
            let kinds: Vec<String> = c
                .timed_out_by_kind
                .iter()
                .map(|(kind, n)| format!("{} {}", count(*n), kind.name()))
                .collect();
            self.named("", &format!("timed out: {}", kinds.join(", ")));
        }
        self.named(
            "rate",
            &format!(
                "offered {}, completed {} over {}",
                with_unit(&m.throughput.offered_per_s.map(number), "req/s"),
                with_unit(&value(&m.throughput.requests_per_s), "req/s"),
                time(m.window.duration.0 as f64),
            ),
        );
        self.named(
            "tokens",
            &format!(
                "output {}, mean {}; input {}, mean {}",
                with_unit(&value(&m.throughput.output_tokens_per_s), "tokens/s"),
                dash(m.tokens.output_mean),
                with_unit(&value(&m.throughput.input_tokens_per_s), "tokens/s"),
                dash(m.tokens.input_mean),
            ),
        );
        let steady = m.window.steady.zip(m.window.steady_rates).map_or(
            "no steady window found".to_owned(),
            |((from, to), rates)| {
                format!(
                    "steady {}–{} with {} in flight, {} req/s, {} tokens/s",
                    clock_time(from),
                    clock_time(to),
                    number(rates.in_flight),
                    number(rates.completions_per_s),
                    number(rates.output_tokens_per_s),
                )
            },
        );
        self.named(
            "in flight",
            &format!(
                "mean {}, peak {}; {steady}",
                dash(m.throughput.in_flight_mean),
                count(m.throughput.in_flight_peak)
            ),
        );
        if let Some(words) = connection_words(&m.connections) {
            self.named("connections", &words);
        }
        for share in &m.targets {
            self.named("target", &format!("{} {}", share.target, target_words(share)));
        }
        self.named("client", &report.trust.client.words());
        self.named("instrument", &report.instrument.line());
        self.line("");
    }

    fn notes(&mut self, report: &RunReport) {
        let passed = report.trust.in_state(CheckState::Pass);
        let of_checks =
            passed.filter_map(|c| c.note.as_ref().map(|note| format!("{}: {note}", c.id.label())));
        for note in notes(report).into_iter().chain(of_checks).collect::<Vec<_>>() {
            self.hanging(&format!("{INDENT}- "), 4, &note);
        }
    }
}

fn joint_words(joint: &JointReport) -> String {
    let limits = joint.limits.join(" and ");
    let target = percent(joint.target);
    let kept = match (joint.attainment.value, joint.attainment.low, joint.attainment.high) {
        (Some(share), Some(low), Some(high)) => {
            format!("{} ({}–{})", percent(share), percent_number(low), percent_number(high))
        }
        (Some(share), ..) => percent(share),
        (None, _, Some(most)) => format!("at most {}", percent(most)),
        (None, _, None) => "–".to_owned(),
    };
    format!("{limits}  {kept}, target {target}:{}", outcome(joint.met, joint.reason.as_deref()))
}

/// What became of a limit, and why: ` not met, overload: …`.
fn outcome(met: Option<bool>, reason: Option<&str>) -> String {
    match (met, reason) {
        (Some(met), reason) => {
            let why = reason.map_or_else(String::new, |reason| format!(", {reason}"));
            format!(" {}{why}", if met { "met" } else { "not met" })
        }
        (None, Some(reason)) => format!(" {reason}"),
        (None, None) => " undecided".to_owned(),
    }
}

fn good_words(joint: &JointReport) -> String {
    let good = joint.good.map_or("–".to_owned(), count);
    let mut text = format!("good {good} of {} offered", count(joint.offered));
    if let Some(goodput) = joint.goodput_per_s {
        text.push_str(&format!(", goodput {}{NBSP}req/s", number(goodput)));
    }
    text
}

fn value(rate: &Defined<Estimate>) -> Defined<String> {
    rate.as_ref().map(|e| number(e.value)).map_err(|why| *why)
}

fn dash(value: Defined<f64>) -> String {
    value.map_or("–".to_owned(), number)
}

/// `633 tokens/s`, `withheld`, or a dash.
fn with_unit(value: &Defined<String>, unit: &str) -> String {
    match value {
        Ok(value) => format!("{value}{NBSP}{unit}"),
        Err(Undefined::Withheld) => "withheld".to_owned(),
        Err(_) => "–".to_owned(),
    }
}
