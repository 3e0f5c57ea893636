//! The screen of a search for capacity: the answer, what it means for a fleet, each limit's crossing, the ladder of
//! probes, what was not resolved.

use decide::capacity::{Kind, Latency, Needs, Over, ProbeReport, ProbeVerdict, figure, load_words};
use decide::json::CapacityDocument;
use decide::words::{count, counted, percent, time};

use super::table::{Cell, Table};
use super::{INDENT, Screen};
use crate::style::{Style, Tone};

/// The whole screen.
pub fn capacity(style: &Style, document: &CapacityDocument) -> String {
    let mut screen = Screen { style, out: String::new() };
    if document.tiers.is_empty() {
        screen.found(document, "");
        screen.sensitivity(document);
        screen.probes(document);
    } else {
        screen.tiers(document);
        screen.sensitivity(document);
        screen.probes_of_tiers(document);
    }
    screen.qualified(document);
    screen.unresolved(document);
    screen.out.trim_end().to_owned()
}

/// A probe as soon as it is over: `  probe 7   41.2 req/s   ✓ holds   1,200 requests   bracket 38.1–43`.
pub fn probe(style: &Style, over: Over, probe: &ProbeReport) -> String {
    let load = load_words(over, probe.load);
    let what = purpose(probe.kind);
    let requests = counted(probe.measured.intended, "request");
    let bracket = probe.bracket.map(|(low, high)| format!("bracket {}–{}", figure(low), figure(high)));
    let parts: Vec<String> = [Some(load), Some(requests), bracket].into_iter().flatten().collect();
    let text = style.plain(&parts.join("   "));
    format!("{INDENT}{:<3} {what:<7} {}   {text}", probe.number, verdict(style, &probe.verdict))
}

pub(super) fn purpose(kind: Kind) -> &'static str {
    match kind {
        Kind::Warm => "warm-up",
        Kind::Ramp => "ramp",
        Kind::Main => "probe",
        Kind::Below => "below",
        Kind::Above => "above",
        Kind::Repeat => "again",
        Kind::Peak => "peak",
        Kind::Survey => "survey",
    }
}

pub(super) fn words(verdict: &ProbeVerdict) -> (Tone, &'static str, &'static str) {
    match verdict {
        ProbeVerdict::Pass => (Tone::Pass, "✓", "holds"),
        ProbeVerdict::Fail => (Tone::Fail, "✕", "misses"),
        ProbeVerdict::Divergent => (Tone::Fail, "✕", "grows"),
        ProbeVerdict::Undecided => (Tone::Unsure, "◇", "undecided"),
        ProbeVerdict::ClientLimited { .. } => (Tone::Unsure, "□", "client"),
    }
}

fn verdict(style: &Style, verdict: &ProbeVerdict) -> String {
    let (tone, sign, word) = words(verdict);
    let text = if style.ascii { word.to_owned() } else { format!("{sign} {word}") };
    style.paint(tone, &format!("{text:<11}"))
}

impl Screen<'_> {
    /// The answer and each limit's crossing; `name`: of the tier.
    pub(super) fn found(&mut self, document: &CapacityDocument, name: &str) {
        self.answer(&format!("{name}{}.", document.verdict.answer));
        self.maximum(document);
        self.crossings(document);
    }

    fn crossings(&mut self, document: &CapacityDocument) {
        for curve in &document.curves {
            let binds = if document.curves.len() > 1 {
                format!("; limits in {}", percent(curve.binds))
            } else {
                String::new()
            };
            let crossing = format!(
                "crossed at {} ({}–{}){binds}",
                figure(curve.crossing),
                figure(curve.low),
                figure(curve.high)
            );
            self.hanging(INDENT, INDENT.len() + 2, &format!("{}   {crossing}", curve.limit));
        }
        if !document.curves.is_empty() {
            self.line("");
        }
    }

    fn probes(&mut self, document: &CapacityDocument) {
        if document.probes.is_empty() {
            return;
        }
        let load = if document.answer.over == "rate" { "req/s" } else { "users" };
        let mut table =
            Table::new(&["probe", "", load, "", "requests", "done/s", "TTFT p95", "TPOT p95", "missing"]);
        for probe in &document.probes {
            let (tone, sign, word) = words(&probe.verdict);
            let sign = if self.style.ascii { word.to_owned() } else { format!("{sign} {word}") };
            let p95 =
                |latency: &Option<Latency>| latency.map_or("–".to_owned(), |latency| time(latency.p95_ns));
            let misses: Vec<String> = probe
                .limits
                .iter()
                .map(|limit| limit.corrected.or(limit.value).map_or("–".to_owned(), percent))
                .collect();
            let cells = [
                count(probe.measured.requests),
                probe.measured.requests_per_s.map_or("–".to_owned(), figure),
                p95(&probe.measured.ttft),
                p95(&probe.measured.tpot),
                misses.join(" · "),
            ];
            let mut row = vec![
                Cell::right(probe.number.to_string()),
                Cell::left(purpose(probe.kind).to_owned()).dim(),
                Cell::right(figure(probe.load)),
                Cell::left(sign).toned(tone),
            ];
            row.extend(cells.iter().map(|text| Cell::right(self.style.plain(text))));
            table.row(row);
        }
        self.out.push_str(&table.render(self.style, INDENT));
        self.line("");
    }

    fn unresolved(&mut self, document: &CapacityDocument) {
        for part in document.each() {
            let tier = part.tier.as_ref().map_or(String::new(), |name| format!("{name}: "));
            for note in open(&part) {
                self.hanging(&format!("{INDENT}- "), 4, &format!("{tier}{note}"));
            }
        }
        let search = format!(
            "{} in {}",
            counted(document.answer.requests, "request"),
            time(document.answer.duration_ns as f64)
        );
        self.hanging(INDENT, INDENT.len(), &search);
    }
}

/// What a reader should know of an answer.
fn open(document: &CapacityDocument) -> Vec<String> {
    let needs = match document.answer.needs {
        Some(Needs::Requests { requests }) => {
            Some(format!("a narrower bracket takes about {} in all", counted(requests, "request")))
        }
        Some(Needs::Repeats { repeats }) => Some(format!(
            "the server differs from run to run: a narrower bracket takes about {}",
            counted(repeats, "probe")
        )),
        None => None,
    };
    let spoilt = document.trust.client_limited_probes;
    let spoilt =
        (spoilt > 0).then(|| format!("{} set aside: this client was the limit", counted(spoilt, "probe")));
    needs.into_iter().chain(spoilt).chain(document.notes.iter().cloned()).collect()
}
