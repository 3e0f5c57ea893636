//! The page of a search for capacity.

mod answer;
mod crossing;
mod ladder;
mod loads;
mod maximum;
mod probes;
mod quality;
mod terms;
mod tiers;
mod unresolved;

use decide::capacity::{Kind, ProbeReport, ProbeVerdict, figure as load_figure};
use decide::json::CapacityDocument;
use decide::words::{NBSP, fixed};
use maud::{Markup, html};

use super::chart::Sign;
use super::{Head, notes, page};

const SECTIONS: [(&str, &str); 12] = [
    ("maximum", "Maximum"),
    ("trust", "Trust"),
    ("answer", "Answer"),
    ("quality", "Quality"),
    ("limits", "Limits"),
    ("curves", "Curves"),
    ("probes", "Probes"),
    ("ramp", "Ramp"),
    ("open", "Not resolved"),
    ("notes", "Notes"),
    ("spec", "Spec"),
    ("defs", "Definitions"),
];
/// Those of a maximisation without limits: no search was made.
const WITHOUT_LIMITS: [&str; 4] = ["maximum", "notes", "spec", "defs"];

/// The page of one search. `command` is what would search again.
pub fn capacity(document: &CapacityDocument, command: &str) -> String {
    let spec = &document.spec;
    let load = Load::of(document);
    let mut brand = vec![document.environment.started.clone(), spec.target.to_string()];
    brand.extend(spec.labels.iter().map(|(key, value)| format!("{key} {value}")));
    brand.retain(|text| !text.is_empty());
    let (body, sections) =
        if document.tiers.is_empty() { whole(document, load) } else { tiers::body(document, load) };
    let body = html! {
        (body)
        (terms::spec(document))
        (terms::definitions())
    };
    let name = spec.api.model.clone().unwrap_or_else(|| spec.target.to_string());
    let title = match &document.maximum {
        None => format!("How many {} does {name} hold?", load.asked),
        Some(maximum) => format!("How many {} does {name} give at most?", maximum.unit),
    };
    let sections: Vec<(&str, &str)> =
        sections.iter().map(|(id, name)| (id.as_str(), name.as_str())).collect();
    let head = Head { kind: "capacity", title: &title, brand: &brand, command, sections: &sections };
    page(&head, &document.tool.version, &body)
}

/// The body of a page without tiers, and its sections.
fn whole(document: &CapacityDocument, load: Load) -> (Markup, Vec<(String, String)>) {
    let has_search = document.maximum.is_none() || !document.probes.is_empty();
    let body = html! {
        (maximum::section(document, load))
        @if has_search {
            (part(document, load, &html! { (quality::section(document)) (tiers::sensitivity(document, load)) }))
            (probes::ramp(document))
            (unresolved::section(document, load))
        }
        (notes(&document.notes))
    };
    let is_there = |(id, _): &(&str, &str)| match *id {
        "maximum" => document.maximum.is_some(),
        "quality" => document.quality.is_some(),
        other => has_search || WITHOUT_LIMITS.contains(&other),
    };
    let sections = SECTIONS.into_iter().filter(is_there);
    (body, sections.map(|(id, name)| (id.to_owned(), name.to_owned())).collect())
}

/// What is told of one answer; `after`: what stands behind its figures.
fn part(document: &CapacityDocument, load: Load, after: &Markup) -> Markup {
    html! {
        (answer::trust(document, load))
        (answer::section(document, load))
        (after)
        (crossing::section(document, load))
        (loads::section(document, load))
        (probes::section(document, load))
    }
}

/// The load that was searched, in words.
#[derive(Clone, Copy)]
struct Load {
    /// Behind a number.
    unit: &'static str,
    /// Of axes and heads of tables.
    axis: &'static str,
    /// In the question of the title.
    asked: &'static str,
    /// Loads are whole numbers.
    whole: bool,
    /// The tier that is told of, from 1: sections of several stand on one page.
    tier: Option<usize>,
}

impl Load {
    fn of(document: &CapacityDocument) -> Self {
        match document.answer.over.as_str() {
            "rate" => Self {
                unit: "requests/s",
                axis: "offered requests/s",
                asked: "requests per second",
                whole: false,
                tier: None,
            },
            "concurrency" => Self {
                unit: "in flight",
                axis: "requests in flight",
                asked: "requests in flight",
                whole: true,
                tier: None,
            },
            _ => Self { unit: "users", axis: "users", asked: "users", whole: true, tier: None },
        }
    }

    /// The anchor of a section.
    fn id(self, section: &str) -> String {
        self.tier.map_or_else(|| section.to_owned(), |tier| format!("{section}-{tier}"))
    }

    /// `16.7`, `120`.
    fn bare(self, load: f64) -> String {
        if self.whole { fixed(load, 0) } else { load_figure(load) }
    }

    /// `16.7 requests/s`.
    fn words(self, load: f64) -> String {
        format!("{}{NBSP}{}", self.bare(load), self.unit)
    }

    /// `16.6–17.4`, `at least 16.6`.
    fn bracket(self, low: Option<f64>, high: Option<f64>) -> Option<String> {
        match (low, high) {
            (Some(low), Some(high)) => Some(format!("{}–{}", self.bare(low), self.bare(high))),
            (Some(low), None) => Some(format!("at least {}", self.bare(low))),
            (None, Some(high)) => Some(format!("at most {}", self.bare(high))),
            (None, None) => None,
        }
    }
}

/// The limits as the search judges them: all joint ones as one.
fn limit_texts(document: &CapacityDocument) -> Vec<&str> {
    let first = document.probes.first().map(|probe| probe.limits.iter().map(|l| l.limit.as_str()).collect());
    first.unwrap_or_else(|| document.spec.slo.limits().map(|(_, text)| text).collect())
}

/// Both ends of the answer's bracket.
fn bracket(document: &CapacityDocument) -> Option<(f64, f64)> {
    let ends = (document.answer.low?.0, document.answer.high?.0);
    (ends.0.is_finite() && ends.1.is_finite() && ends.0 < ends.1).then_some(ends)
}

/// Loads around the bracket: twice its width on either side, as far as loads were tried.
fn around_bracket(document: &CapacityDocument) -> Option<(f64, f64)> {
    let (low, high) = bracket(document)?;
    let beside = 2.0 * (high - low);
    Some(((low - beside).max(0.0), (high + beside).min(1.06 * largest(document).max(high))))
}

/// The same where it is worth an enlarged picture.
fn enlarged(document: &CapacityDocument) -> Option<(f64, f64)> {
    around_bracket(document).filter(|(from, to)| to - from < 0.6 * largest(document))
}

/// The largest load that was tried.
fn largest(document: &CapacityDocument) -> f64 {
    document.probes.iter().map(|probe| probe.load).filter(|load| load.is_finite()).fold(0.0, f64::max)
}

/// Class, sign and word of a verdict.
fn state(verdict: &ProbeVerdict) -> (&'static str, &'static str, &'static str) {
    match verdict {
        ProbeVerdict::Pass => ("pass", "✓", "holds"),
        ProbeVerdict::Fail => ("fail", "✕", "misses"),
        ProbeVerdict::Divergent => ("fail", "✕", "queue grows"),
        ProbeVerdict::Undecided => ("undecided", "◇", "undecided"),
        ProbeVerdict::ClientLimited { .. } => ("undecided", "□", "client-limited"),
    }
}

fn badge(verdict: &ProbeVerdict) -> Markup {
    let (class, sign, word) = state(verdict);
    html! { span class={ "bd " (class) } { i aria-hidden="true" { (sign) } (word) } }
}

fn sign(verdict: &ProbeVerdict) -> Sign {
    match verdict {
        ProbeVerdict::Pass => Sign::Pass,
        ProbeVerdict::Fail | ProbeVerdict::Divergent => Sign::Fail,
        ProbeVerdict::Undecided => Sign::Undecided,
        ProbeVerdict::ClientLimited { .. } => Sign::Client,
    }
}

/// It says something of the server.
fn speaks(probe: &ProbeReport) -> bool {
    !matches!(probe.verdict, ProbeVerdict::ClientLimited { .. })
}

/// It is a part of the fit.
fn fitted(probe: &ProbeReport) -> bool {
    speaks(probe) && matches!(probe.kind, Kind::Main | Kind::Repeat)
}

/// `Probe 7, 16.6 requests/s`.
fn name(probe: &ProbeReport, load: Load) -> String {
    format!("Probe {}, {}", probe.number, load.words(probe.load))
}

fn purpose(kind: Kind) -> &'static str {
    match kind {
        Kind::Warm => "warm-up",
        Kind::Ramp => "ramp",
        Kind::Main => "search",
        Kind::Below => "check below",
        Kind::Above => "check above",
        Kind::Repeat => "once more",
        Kind::Peak => "near the peak",
        Kind::Survey => "survey",
    }
}

/// The key to the marks of all pictures.
fn key(document: &CapacityDocument, load: Load) -> Markup {
    let all = [Sign::Pass, Sign::Fail, Sign::Undecided, Sign::Client];
    let words =
        ["all limits hold", "a limit is missed", "undecided", "client-limited: says nothing of the server"];
    let shown = |sign: &Sign| document.probes.iter().any(|probe| self::sign(&probe.verdict) == *sign);
    html! {
        div.key {
            @for (sign, word) in all.into_iter().zip(words).filter(|(sign, _)| shown(sign)) {
                span { (sign.in_text()) (word) }
            }
            @if let Some((low, high)) = bracket(document) {
                span { i.sw.kn {} "bracket " (load.bracket(Some(low), Some(high)).unwrap_or_default()) }
            }
        }
    }
}
