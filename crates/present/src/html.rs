//! The self-contained HTML report: one file, no network, no script needed.

mod capacity;
mod chart;
mod curve;
mod definitions;
mod instrument;
mod metrics;
mod pictures;
mod quality;
mod record;
mod scale;
mod slo;
mod strip;
mod sweep;
mod trust;

use decide::words::{TimeUnit, count, counted, decimals, fixed, number, percent, plain};
use decide::{RunReport, TrustVerdict};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use measure::{Defined, Estimate, Figure, Pictures, percentile_name};
use spec::Metric;

use crate::label::harmless;

pub use capacity::capacity;
pub use quality::{Compared, quality};
pub use sweep::sweep;

const CSS: &str = include_str!("html/page.css");
/// On paper everything is open. Nothing else needs a script.
const OPEN_ON_PAPER: &str =
    "addEventListener('beforeprint',()=>document.querySelectorAll('details').forEach(d=>d.open=true))";

/// The page of one run. `command` is what would measure it again.
pub fn run(report: &RunReport, pictures: &Pictures, command: &str) -> String {
    let mut brand = vec![report.environment.started.clone(), report.spec.target.to_string()];
    brand.extend(report.spec.labels.iter().map(|(key, value)| format!("{key} {value}")));
    let body = html! {
        (trust::section(report))
        (answer(report))
        (slo::section(report))
        (metrics::section(report))
        (pictures::distributions(report, pictures))
        (pictures::timeline(report, pictures))
        (record::failures(report))
        (pictures::instrument(report, pictures))
        (notes(&crate::label::notes(report)))
        (record::spec(report))
        (definitions::section(report))
    };
    let head = Head { kind: "run", title: &title(report), brand: &brand, command, sections: &SECTIONS };
    page(&head, &report.environment.tool_version, &body)
}

/// What stands above the sections of a page.
struct Head<'a> {
    kind: &'a str,
    title: &'a str,
    brand: &'a [String],
    command: &'a str,
    sections: &'a [(&'a str, &'a str)],
}

/// A whole page.
fn page(head: &Head<'_>, version: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                title { "inferometer " (head.kind) ": " (head.title) }
                style { (PreEscaped(CSS)) }
            }
            body {
                header {
                    div.brand {
                        b { "inferometer" } span { (head.kind) }
                        @for text in head.brand { span { (text) } }
                    }
                    h1 { (head.title) }
                    code.cmd { (head.command) }
                    nav aria-label="Sections" {
                        @for (id, name) in head.sections { a href={ "#" (id) } { (name) } }
                    }
                }
                main { (body) }
                footer {
                    "Made by inferometer " (version)
                    ". Everything on this page can be rebuilt from its folder: "
                    code { "inferometer show DIR --json" }
                }
                script { (PreEscaped(OPEN_ON_PAPER)) }
            }
        }
    };
    // Characters that steer a terminal are no HTML either.
    harmless(&page.into_string())
}

const SECTIONS: [(&str, &str); 11] = [
    ("trust", "Trust"),
    ("answer", "Answer"),
    ("slo", "Limits"),
    ("metrics", "Metrics"),
    ("dist", "Distributions"),
    ("time", "Timeline"),
    ("failures", "Requests"),
    ("instrument", "Instrument"),
    ("notes", "Notes"),
    ("spec", "Spec"),
    ("defs", "Definitions"),
];

/// Target, load and lengths in one line.
fn title(report: &RunReport) -> String {
    let spec = &report.spec;
    let target = spec.target.to_string();
    let name = spec.api.model.clone().unwrap_or_else(|| target.clone());
    let load = match &spec.load {
        spec::Load::Closed(c) => counted(u64::from(c.concurrency), "user"),
        spec::Load::Open(o) if o.rate.is_infinite() => "all at once".to_owned(),
        spec::Load::Open(o) => format!("{} requests/s", plain(o.rate.per_second())),
    };
    let tokens = &report.measures.tokens;
    let lengths = match (tokens.input_mean, tokens.output_mean) {
        (Ok(input), Ok(output)) => format!(", {} in / {} out", fixed(input, 0), fixed(output, 0)),
        _ => String::new(),
    };
    format!("{name}, {load}{lengths}")
}

fn answer(report: &RunReport) -> Markup {
    let c = &report.measures.counts;
    let tiles = tiles(report);
    html! {
        section id="answer" {
            h2 { "Answer" }
            p.answer { (judged(&report.verdict.answer)) }
            (tile_row(&tiles))
            p.note {
                b { "Requests. " }
                (count(c.offered)) " offered = " (count(c.ok)) " ok + " (count(c.failed)) " failed + "
                (count(c.timed_out)) " timed out + " (count(c.cancelled)) " cut + " (count(c.shed)) " shed."
                @if report.measures.warmup.offered > 0 {
                    " Warm-up (" (count(report.measures.warmup.offered)) " requests) is not counted."
                }
            }
        }
    }
}

/// The answer with its judging words in the colour of what they say.
fn judged(answer: &str) -> Markup {
    let class = |word: &str| match word.trim_end_matches([',', ';', '.', ':']) {
        "holds" => Some("yes"),
        "misses" | "missed" => Some("no"),
        "undecided" => Some("open"),
        _ => None,
    };
    html! {
        @for (i, word) in answer.split(' ').enumerate() {
            @if i > 0 { " " }
            @if let Some(class) = class(word) { strong class=(class) { (word) } } @else { (word) }
        }
    }
}

struct Tile {
    name: String,
    value: String,
    unit: &'static str,
    below: String,
}

fn tile_row(tiles: &[Tile]) -> Markup {
    html! {
        @if !tiles.is_empty() {
            div.tiles style=(format!("--n:{}", tiles.len())) {
                @for tile in tiles {
                    div {
                        span.k { (tile.name) }
                        span.v { (tile.value) " " small { (tile.unit) } }
                        span.c { (tile.below) }
                    }
                }
            }
        }
    }
}

/// What exists and was not taken away, five at most; none where nothing may be concluded.
fn tiles(report: &RunReport) -> Vec<Tile> {
    let m = &report.measures;
    let mut out = Vec::new();
    if report.trust.verdict == TrustVerdict::Invalid {
        return out;
    }
    let has = |metric: Metric| m.metrics.get(&metric).is_some_and(|s| s.n > 0);
    let latencies: &[Metric] = if has(Metric::Ttft) { &[Metric::Ttft, Metric::Tpot] } else { &[Metric::E2e] };
    out.extend(latencies.iter().filter_map(|metric| latency(report, *metric)));
    let rate = |x: &Defined<Estimate>| x.as_ref().map(|e| number(e.value)).ok();
    if let Some(value) = rate(&m.throughput.output_tokens_per_s) {
        let below = rate(&m.throughput.input_tokens_per_s)
            .map_or_else(String::new, |input| format!("input {input} tokens/s"));
        out.push(Tile { name: "Output".to_owned(), value, unit: "tokens/s", below });
    }
    if let Some(value) = rate(&m.throughput.requests_per_s) {
        let mut below: Vec<String> = Vec::new();
        below.extend(m.throughput.offered_per_s.ok().map(|x| format!("{} offered", number(x))));
        let good = report.slo.joint.as_ref().and_then(|j| j.goodput_per_s);
        below.extend(good.map(|x| format!("{} good", number(x))));
        out.push(Tile { name: "Completed".to_owned(), value, unit: "requests/s", below: below.join(", ") });
    }
    if let Ok(mean) = m.throughput.in_flight_mean {
        let below = format!("peak {}", count(m.throughput.in_flight_peak));
        out.push(Tile { name: "In flight".to_owned(), value: number(mean), unit: "mean", below });
    }
    out
}

/// The highest percentile up to p95 that exists, or else the mean.
fn latency(report: &RunReport, metric: Metric) -> Option<Tile> {
    let summary = report.measures.metrics.get(&metric)?;
    let known = |figure: &&Figure| !matches!(figure, Figure::Undefined(_));
    let (what, figure) = [0.95, 0.9, 0.5]
        .into_iter()
        .find_map(|share| Some((percentile_name(share), summary.percentile(share).filter(known)?)))
        .or_else(|| known(&&summary.mean).then(|| ("mean".to_owned(), &summary.mean)))?;
    let (value, below) = match figure {
        Figure::Known(e) => {
            let scale = TimeUnit::of(e.value).ns();
            let below = crate::label::interval(e.interval, scale, decimals(e.value / scale));
            (e.value, below.unwrap_or_else(|| "no interval: too few independent samples".to_owned()))
        }
        Figure::Exceeds(bound) => (*bound, "among those cut or failed".to_owned()),
        Figure::Undefined(_) => return None,
    };
    let unit = TimeUnit::of(value);
    let name = format!("{} {what}", crate::label::metric(metric));
    Some(Tile { name, value: crate::label::figure(figure, unit.ns()), unit: unit.symbol(), below })
}

fn notes(notes: &[String]) -> Markup {
    html! {
        section id="notes" {
            h2 { "What else to know" }
            @if notes.is_empty() {
                p.lead { "Nothing." }
            } @else {
                ul.out { @for note in notes { li { (note) } } }
            }
        }
    }
}

/// A share or a dash.
fn share(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), percent)
}
