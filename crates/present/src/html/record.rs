//! What happened to the requests, and under which conditions.

use decide::RunReport;
use decide::traffic::{connection_words, target_words};
use decide::words::{self, clock_time, count, number, percent};
use maud::{Markup, html};

use super::share;

pub(super) fn failures(report: &RunReport) -> Markup {
    let c = &report.measures.counts;
    let of = |n: u64| if c.offered == 0 { share(None) } else { percent(n as f64 / c.offered as f64) };
    html! {
        section id="failures" {
            h2 { "What became of the requests" }
            p.lead {
                "Every scheduled request has exactly one state. Failed and cut requests stay in every denominator; their tokens \
                 are in no throughput."
            }
            div.two {
                div {
                    h3 { "Failures and time-outs" }
                    @if c.failed + c.timed_out + c.cancelled + c.shed == 0 {
                        p.note { "None." }
                    } @else {
                        div.tw { table {
                            thead { tr { th { "Class" } th { "n" } th { "of offered" } th.l { "First" } } }
                            tbody {
                                @for (class, n) in &c.failed_by_class {
                                    tr {
                                        td { code { (class.name()) } } td { (count(*n)) } td { (of(*n)) }
                                        td.l.wrap { (c.first_failure.get(class).map_or("", String::as_str)) }
                                    }
                                }
                                @for (kind, n) in &c.timed_out_by_kind {
                                    tr {
                                        td { code { "timed out: " (kind.name()) } } td { (count(*n)) } td { (of(*n)) }
                                        td.l.wrap { "longer than the limit; counts as larger than any value" }
                                    }
                                }
                                @if c.cancelled > 0 {
                                    tr {
                                        td { code { "cut at the end" } } td { (count(c.cancelled)) } td { (of(c.cancelled)) }
                                        td.l.wrap { "still open when the run ended" }
                                    }
                                }
                                @if c.shed > 0 {
                                    tr {
                                        td { code { "never sent" } } td { (count(c.shed)) } td { (of(c.shed)) }
                                        td.l.wrap { "the plan wanted them; the cap or the end of the run prevented them" }
                                    }
                                }
                            }
                        } }
                    }
                }
                div {
                    h3 { "Finish reasons of completed answers" }
                    @if c.finish.is_empty() {
                        p.note { "None completed." }
                    } @else {
                        div.tw { table {
                            thead { tr { th { "Reason" } th { "n" } } }
                            tbody {
                                @for (reason, n) in &c.finish { tr { td.wrap { code { (reason) } } td { (count(*n)) } } }
                            }
                        } }
                    }
                    (tokens(report))
                }
            }
            (traffic(report))
        }
    }
}

/// Connections of the run, and what each of several targets did.
fn traffic(report: &RunReport) -> Markup {
    let m = &report.measures;
    let connections = connection_words(&m.connections);
    html! {
        @if connections.is_some() || !m.targets.is_empty() {
            h3 style="margin-top:18px" { "Connections of the whole run, warm-up included" }
            dl.kv {
                @if let Some(words) = connections { dt { "connections" } dd { (words) } }
                @for share in &m.targets { dt { (share.target) } dd { (target_words(share)) } }
            }
        }
    }
}

fn tokens(report: &RunReport) -> Markup {
    let t = &report.measures.tokens;
    let mean = |x: &measure::Defined<f64>| x.as_ref().map_or("–".to_owned(), |v| number(*v));
    html! {
        h3 style="margin-top:18px" { "Tokens" }
        dl.kv {
            dt { "Output" } dd { (count(t.output)) ", mean " (mean(&t.output_mean)) " per answer" }
            dt { "Input" } dd { (count(t.input)) ", mean " (mean(&t.input_mean)) " per prompt" }
            dt { "Per chunk" } dd { (mean(&t.per_chunk)) }
            @if !t.output_source.is_empty() { dt { "Counted by" }
            dd {
                @for (i, (source, n)) in t.output_source.iter().enumerate() {
                    @if i > 0 { ", " }
                    @match source {
                        measure::TokenSource::Server => "the server’s usage",
                        measure::TokenSource::Tokenizer => "the tokenizer",
                        measure::TokenSource::Chunks => "chunks",
                    }
                    " (" (count(*n)) ")"
                }
            } }
            @if t.forced > 0 {
                dt { "Forced length" } dd { (count(t.forced)) " asked, " (count(t.forced_missed)) " delivered differently" }
            }
            @if t.output_of_failed > 0 {
                dt { "Of failed" } dd { (count(t.output_of_failed)) " output tokens, in no throughput" }
            }
            @if let Some(cached) = t.cached { dt { "From cache" } dd { (count(cached)) " input tokens" } }
        }
    }
}

/// The spec's leaves with their paths: `timeouts.idle` and its value.
fn settings(report: &RunReport) -> Vec<(String, String)> {
    let mut out = Vec::new();
    leaves("", &serde_json::to_value(&report.spec).unwrap_or_default(), &mut out);
    out
}

fn leaves(path: &str, value: &serde_json::Value, out: &mut Vec<(String, String)>) {
    let joined = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        serde_json::Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                leaves(&joined(name), value, out);
            }
        }
        serde_json::Value::String(text) => out.push((path.to_owned(), text.clone())),
        other => out.push((path.to_owned(), other.to_string())),
    }
}

pub(super) fn spec(report: &RunReport) -> Markup {
    let e = &report.environment;
    let text = serde_json::to_string_pretty(&report.spec).unwrap_or_default();
    let rows = settings(report);
    html! {
        section id="spec" {
            h2 { "Spec and environment" }
            p.lead { "Every default is written out: the same text is accepted by " code { "inferometer run -f" } "." }
            dl.kv {
                dt { "Target" } dd { (report.spec.target.to_string()) }
                dt { "Load" } dd { (words::load(&report.spec)) }
                dt { "Lengths" } dd { (words::lengths(&report.spec.workload.isl)) " in, " (words::lengths(&report.spec.workload.osl)) " out" }
                dt { "Prompts" } dd { (words::cache(&report.spec.workload.cache)) }
                dt { "Seed" } dd { (report.spec.seed) }
            }
            details style="margin-top:14px" {
                summary { "Every setting" }
                dl.kv.cols { @for (name, value) in &rows { div { dt { (name) } dd { code { (value) } } } } }
            }
            details.screen { summary { "The same as text for " code { "-f" } } code.cmd { (text) } }
            details open {
                summary { "Environment" }
                dl.kv {
                    dt { "Started" } dd { (e.started) }
                    dt { "Ran for" } dd { (clock_time(report.footer.ended)) }
                    dt { "Tokenizer" } dd { (e.tokenizer) }
                    @if !e.workload_hash.is_empty() { dt { "Workload" } dd { code { (e.workload_hash) } } }
                    dt { "Addresses" } dd { (e.addresses.join(", ")) }
                    @for (key, value) in &e.server { dt { "server " (key) } dd { (value) } }
                    @for (key, value) in &e.client { dt { "client " (key) } dd { (value) } }
                    @for text in &e.negotiated { dt { "negotiated" } dd { (text) } }
                    @if !e.unknown.is_empty() { dt { "still unknown" } dd { (e.unknown.join(", ")) } }
                }
            }
        }
    }
}
