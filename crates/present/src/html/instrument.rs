//! What the instrument did in this run, and what a self-check knows of this machine.

use decide::RunReport;
use decide::instrument::spread_words;
use decide::words::{count, number, percent, time};
use maud::{Markup, html};
use record::{Ceiling, EndedBy};

/// Rows of a list: the run's own figures, then those of the self-check.
pub(super) fn own_figures(report: &RunReport) -> Markup {
    let i = &report.instrument;
    let plain = |value: measure::Defined<f64>| value.map(time).ok();
    let [p50, p99] = i.client_lag.map(|figure| figure.value().map(time));
    html! {
        @if let Ok(lag) = i.send_lag { dt { "send lag" } dd { (spread_words(&lag)) } }
        @if let Some(p50) = p50 {
            dt { "client lag" } dd { "p50 " (p50) @if let Some(p99) = p99 { ", p99 " (p99) } }
        }
        @if let Some(cpu) = plain(i.cpu_per_event_ns) { dt { "CPU per event" } dd { (cpu) " of the lanes, sending included" } }
        @if let Some(cpu) = plain(i.cpu_per_request_ns) { dt { "CPU per request" } dd { (cpu) " of the lanes, streaming included" } }
        @if let Ok(share) = i.busiest_lane { dt { "busiest lane" } dd { (percent(share)) " of its core in the busiest second" } }
        dt { "own error" }
        dd {
            @if let Some(floor) = i.floor {
                (time(floor.latency_ns as f64)) " in a latency, " (time(floor.gap_ns as f64)) " in a gap; " (i.floor_source)
            } @else {
                "unknown; " (i.floor_source)
            }
        }
        @if let Some(check) = &report.environment.self_check {
            @if let Some(lag) = &check.send_lag {
                dt { "self-check: send lag" } dd { (spread_words(lag)) " at " (number(check.send_rate_per_s)) " requests/s" }
            }
            @if let Some(stamp) = &check.stamp_error.kernel { dt { "self-check: kernel stamp" } dd { "off by " (spread_words(stamp)) } }
            @if let Some(stamp) = &check.stamp_error.user { dt { "self-check: own stamp" } dd { "off by " (spread_words(stamp)) } }
            @if let (Some(event), Some(request)) = (check.cpu_per_event_ns, check.cpu_per_request_ns) {
                dt { "self-check: CPU" } dd { (time(event)) " an event, " (time(request)) " a request" }
            }
            dt { "self-check: one lane" }
            dd {
                (ceiling(&check.rate)) " requests/s; " (ceiling(&check.streams)) " streams of "
                (number(check.tokens_per_s)) " tokens/s"
            }
        }
    }
}

/// `1,400`, or `at least 1,400` where something else ended first.
fn ceiling(ceiling: &Ceiling) -> String {
    let least = if ceiling.ended_by == EndedBy::Client { "" } else { "at least " };
    format!("{least}{}", count(ceiling.holds))
}
