//! The self-contained HTML report: one file, no network, no script needed.

mod chart;
mod definitions;
mod metrics;
mod pictures;
mod record;
mod scale;
mod slo;
mod trust;

use decide::RunReport;
use decide::words::{count, number, percent};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use measure::{Figure, Pictures};
use spec::Metric;

const CSS: &str = include_str!("html/page.css");

/// The page of one run. `command` is what would measure it again.
pub fn run(report: &RunReport, pictures: &Pictures, command: &str) -> String {
    let title = title(report);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                title { "inferometer run: " (title) }
                style { (PreEscaped(CSS)) }
            }
            body {
                header {
                    div.brand {
                        b { "inferometer" } span { "run" }
                        span { (report.environment.started) }
                        @for (key, value) in &report.spec.labels { span { (key) " " (value) } }
                    }
                    h1 { (title) }
                    code.cmd { (command) }
                    nav aria-label="Sections" {
                        @for (id, name) in SECTIONS { a href={ "#" (id) } { (name) } }
                    }
                }
                main {
                    (trust::section(report))
                    (answer(report))
                    (slo::section(report))
                    (metrics::section(report))
                    (pictures::distributions(report, pictures))
                    (pictures::timeline(report, pictures))
                    (record::failures(report))
                    (record::spec(report))
                    (definitions::section(report))
                }
                footer {
                    "Made by inferometer " (report.environment.tool_version)
                    ". Everything on this page can be rebuilt from the run folder: "
                    code { "inferometer show DIR --json" }
                }
            }
        }
    };
    page.into_string()
}

const SECTIONS: [(&str, &str); 9] = [
    ("trust", "Trust"),
    ("answer", "Answer"),
    ("slo", "Limits"),
    ("metrics", "Metrics"),
    ("dist", "Distributions"),
    ("time", "Timeline"),
    ("failures", "Requests"),
    ("spec", "Spec"),
    ("defs", "Definitions"),
];

/// Target, load and lengths in one line.
fn title(report: &RunReport) -> String {
    let spec = &report.spec;
    let target = spec.target.to_string();
    let name = spec.api.model.clone().unwrap_or_else(|| target.clone());
    let load = match &spec.load {
        spec::Load::Closed(c) => format!("{} concurrent", count(u64::from(c.concurrency))),
        spec::Load::Open(o) if o.rate.is_infinite() => "all at once".to_owned(),
        spec::Load::Open(o) => format!("{} requests/s", number(o.rate.per_second())),
    };
    let tokens = &report.measures.tokens;
    let mean = |x: &measure::Defined<f64>| x.as_ref().map_or("–".to_owned(), |v| number(*v));
    format!("{name}, {load}, {} in / {} out", mean(&tokens.input_mean), mean(&tokens.output_mean))
}

fn answer(report: &RunReport) -> Markup {
    let m = &report.measures;
    let rate =
        |x: &measure::Defined<measure::Estimate>| x.as_ref().map_or("–".to_owned(), |e| number(e.value));
    let latency = |metric: Metric| {
        let summary = m.metrics.get(&metric)?;
        let figure = summary.percentile(0.95)?;
        let scale = figure.value().map_or(1e6, |v| decide::words::TimeUnit::of(v).ns());
        let unit = figure.value().map_or("ms", |v| decide::words::TimeUnit::of(v).symbol());
        let below = match figure {
            Figure::Known(e) => {
                let places = decide::words::decimals(e.value / scale);
                crate::label::interval(e.interval, scale, places)
                    .unwrap_or_else(|| "interval open: too few independent samples".to_owned())
            }
            Figure::Exceeds(_) => "cut requests lie above".to_owned(),
            Figure::Undefined(why) => crate::terminal::phrase(*why).to_owned(),
        };
        Some((crate::label::figure(figure, scale), unit, below))
    };
    let tile = |name: &str, value: &str, unit: &str, below: &str| {
        html! { div { span.k { (name) } span.v { (value) " " small { (unit) } } span.c { (below) } } }
    };
    let c = &m.counts;
    html! {
        section id="answer" {
            h2 { "Answer" }
            p.answer { (report.verdict.answer) }
            div.tiles {
                @for metric in [Metric::Ttft, Metric::Tpot] {
                    @if let Some((value, unit, below)) = latency(metric) {
                        (tile(&format!("{} p95", crate::label::metric(metric)), &value, unit, &below))
                    }
                }
                (tile("Output", &rate(&m.throughput.output_tokens_per_s), "tokens/s",
                    &format!("input {} tokens/s", rate(&m.throughput.input_tokens_per_s))))
                (tile("Completed", &rate(&m.throughput.requests_per_s), "requests/s",
                    &format!("{} offered", m.throughput.offered_per_s.map_or("–".to_owned(), number))))
                (tile("In flight", &m.throughput.in_flight_mean.map_or("–".to_owned(), number), "mean",
                    &format!("peak {}", count(m.throughput.in_flight_peak))))
            }
            p.note {
                b { "Requests. " }
                (count(c.offered)) " offered = " (count(c.ok)) " ok + " (count(c.failed)) " failed + "
                (count(c.timed_out)) " timed out + " (count(c.cancelled)) " cut + " (count(c.shed)) " shed."
                @if m.warmup.offered > 0 {
                    " Warm-up (" (count(m.warmup.offered)) " requests) is not counted."
                }
            }
            @if !report.notes.is_empty() || !report.missing.is_empty() {
                ul.out style="margin-top:14px" {
                    @for note in report.missing.iter().chain(&report.notes) { li.note { (note) } }
                }
            }
        }
    }
}

/// A share or a dash.
fn share(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), percent)
}
