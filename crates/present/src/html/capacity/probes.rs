//! Every probe in a table, and the ramp before them.

use decide::capacity::{Latency, LimitAtProbe, ProbeReport, ProbeVerdict, figure as load_figure};
use decide::json::CapacityDocument;
use decide::words::{self, NBSP, TimeUnit, clock_time, count, number, percent};
use maud::{Markup, html};
use spec::Nanos;

use super::answer::limit_name;
use super::crossing::interval;
use super::{Load, badge, fitted, ladder, limit_texts, purpose, speaks};

pub(super) fn section(document: &CapacityDocument, load: Load) -> Markup {
    html! {
        section id=(load.id("probes")) {
            h2 { "Probes, in order" }
            @if document.probes.is_empty() {
                p.lead { "None was made." }
            } @else {
                p.lead {
                    "Each probe has a drained server, fresh prompts and a timetable of its own, and ends as soon as it is decided. \
                     The next load is where the fit learns most."
                }
                (ladder::picture(document, load))
                (table(document, load))
            }
        }
    }
}

fn table(document: &CapacityDocument, load: Load) -> Markup {
    let limits: &[LimitAtProbe] = document.probes.first().map_or(&[], |probe| &probe.limits);
    let letters: Vec<String> = ('a'..='z').map(String::from).collect();
    let marked = || limits.iter().zip(letters.iter());
    let target =
        |limit: &LimitAtProbe| document.curves.iter().find(|c| c.limit == limit.limit).map(|c| c.target);
    html! {
        div.tw tabindex="0" style="margin-top:18px" { table {
            thead { tr {
                th { (load.unit) }
                th.l { "Verdict" }
                th.l { "for" }
                th { "bracket" br; "after it" }
                th { "requests" br; "counted" }
                th { "time" }
                th { "done/s" }
                th { "good/s" }
                th { "TTFT, ms" br; "p50" }
                th { br; "p95" }
                th { "TPOT, ms" br; "p50" }
                th { br; "p95" }
                @for (limit, letter) in marked() {
                    th { (limit_name(document, &limit.limit)) @if limits.len() > 1 { sup { (letter) } } br; "misses" }
                }
            } }
            tbody {
                @for probe in &document.probes {
                    (row(probe, load, &|limit| target(limit).is_none_or(|target| target.is_some())))
                }
            }
        } }
        p.note {
            @if limits.len() > 1 { @for (limit, letter) in marked() { sup { (letter) } " " (limit.limit) ". " } }
            @else { @for limit in limits { (limit.limit) ". " } }
            b { "Misses" } ": share of the requests that count, corrected for the luck of the timetable, with its 95" (NBSP) "% interval, and n"
            sub { "eff" } ", the independent requests that they are worth; of a limit on a mean, the mean over the limit. \
             Requests counted leave out the start of the probe and those that were not determined. Checks are no part of the fit and have neither. A dash: nothing ended well, or nothing is known."
        }
    }
}

fn row(probe: &ProbeReport, load: Load, is_share: &dyn Fn(&LimitAtProbe) -> bool) -> Markup {
    let m = &probe.measured;
    let rate = |x: Option<f64>| x.filter(|_| speaks(probe)).map_or("–".to_owned(), number);
    html! {
        tr {
            td { b { (load.bare(probe.load)) } small { "probe " (probe.number) } }
            td.l {
                (badge(&probe.verdict))
                @if let ProbeVerdict::ClientLimited { why } = &probe.verdict { small.why { (why) } }
            }
            td.l { (purpose(probe.kind)) }
            td { (probe.bracket.filter(|_| fitted(probe)).and_then(|(low, high)| load.bracket(Some(low), Some(high))).unwrap_or_else(|| "–".to_owned())) }
            td { (count(m.requests)) small { "of " (count(m.intended)) } @if m.failed > 0 { small { (count(m.failed)) " failed" } } }
            td { (clock_time(Nanos(m.duration_ns))) }
            td { (rate(m.requests_per_s)) }
            td { (rate(m.goodput_per_s)) }
            (latency(m.ttft.filter(|_| speaks(probe))))
            (latency(m.tpot.filter(|_| speaks(probe))))
            @for limit in &probe.limits {
                @match limit.corrected.filter(|x| speaks(probe) && x.is_finite()) {
                    None => td.na { "–" },
                    Some(value) => td {
                        @if is_share(limit) { (percent(value)) } @else { (number(value)) (NBSP) "×" }
                        @if let Some(range) = interval(probe, limit, is_share(limit)) { small { (range) } }
                        @if let Some(n) = limit.n_eff.filter(|_| fitted(probe)) { small { "n" sub { "eff" } " " (number(n)) } }
                    },
                }
            }
        }
    }
}

fn latency(latency: Option<Latency>) -> Markup {
    let shown = |ns: f64| words::time_in(ns, TimeUnit::Milli);
    html! {
        @match latency {
            Some(l) => { td { (shown(l.p50_ns)) } td { (shown(l.p95_ns)) } }
            None => { td.na { "–" } td.na { "–" } }
        }
    }
}

pub(super) fn ramp(document: &CapacityDocument) -> Markup {
    let limits = limit_texts(document);
    let time = |ns: Option<f64>| ns.map_or("–".to_owned(), |ns| words::time_in(ns, TimeUnit::Milli));
    let columns = document.ramp.iter().map(|stage| stage.attained.len()).max().unwrap_or(0);
    html! {
        section id="ramp" {
            h2 { "The ramp before the search" }
            @if document.ramp.is_empty() {
                p.lead { "None was made: the loads of this search need none, or it ended before." }
            } @else {
                p.lead {
                    "Users in a closed loop without pauses, each stage with twice as many. It shows the ceiling of throughput and how many requests are served at once."
                    @if let Some(ttft) = document.unloaded_ttft_ns { " The unloaded server sends its first token after " (words::time(ttft.0)) "." }
                }
                div.tw tabindex="0" { table {
                    thead { tr {
                        th { "Users" } th { "done/s" } th { "TTFT, ms" br; "p50" } th { "TPOT, ms" br; "p50" } th { "E2E, ms" br; "p50" }
                        @for column in 0..columns {
                            th { "within" br; (limits.get(column).map_or("limit".to_owned(), |limit| limit_name(document, limit))) }
                        }
                    } }
                    tbody {
                        @for stage in &document.ramp {
                            tr {
                                td { b { (count(u64::from(stage.users))) } }
                                td { (load_figure(stage.requests_per_s)) }
                                td { (time(stage.ttft_ns)) } td { (time(stage.tpot_ns)) } td { (time(stage.e2e_ns)) }
                                @for column in 0..columns { td { (stage.attained.get(column).map_or("–".to_owned(), |share| percent(*share))) } }
                            }
                        }
                    }
                } }
            }
        }
    }
}
