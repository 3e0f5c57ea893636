//! The screen after a self-check: what it means, then what was measured.

use decide::instrument::spread_words;
use decide::json::SelfCheckDocument;
use decide::self_check::why_ended;
use decide::words::{NBSP, count, number, percent, time};

use super::Screen;
use crate::style::{Style, Tone};

/// The whole screen.
pub fn self_check(style: &Style, document: &SelfCheckDocument) -> String {
    let mut screen = Screen { style, out: String::new() };
    let tone = match document.verdict.exit_code {
        decide::verdict::exit::HOLDS => Tone::Pass,
        decide::verdict::exit::MISSED | decide::verdict::exit::NOT_TRUSTED => Tone::Fail,
        _ => Tone::Unsure,
    };
    screen.line("");
    for line in screen.wrapped(&document.verdict.answer, 0) {
        screen.line(&style.paint(tone, &line));
    }
    screen.line("");
    let check = &document.self_check;
    if let Some(against) = &document.against {
        let shape = &against.shape;
        screen.named(
            "the server",
            &format!(
                "{} events of {} bytes and {} tokens in {}; a handshake takes {}",
                count(u64::from(shape.events)),
                number(shape.bytes_per_event),
                number(shape.tokens_per_event),
                time(shape.answer_ns as f64),
                time(shape.round_trip_ns as f64)
            ),
        );
        screen.named(
            "the load",
            &format!(
                "{} answers under way, {} events/s, as long as the server answers as fast",
                number(against.in_flight),
                number(against.events_per_s)
            ),
        );
        screen.line("");
    }
    let unknown = || "not measured".to_owned();
    let spread = |spread: &Option<record::Spread>| spread.as_ref().map_or_else(unknown, spread_words);
    screen.named(
        "send lag",
        &format!("{} at {} requests/s", spread(&check.send_lag), number(check.send_rate_per_s)),
    );
    screen.named(
        "stamps",
        &format!(
            "off by {} with the kernel's, {} with our own",
            spread(&check.stamp_error.kernel),
            spread(&check.stamp_error.user)
        ),
    );
    let floor = document.floor.as_ref().map_or_else(unknown, |floor| {
        format!("{} in a latency, {} in a gap", time(floor.latency_ns as f64), time(floor.gap_ns as f64))
    });
    screen.named("own error", &floor);
    let cost = |ns: Option<f64>| ns.map_or_else(unknown, time);
    screen.named(
        "CPU",
        &format!("{} a request, {} an event", cost(check.cpu_per_request_ns), cost(check.cpu_per_event_ns)),
    );
    screen.named("requests/s", &format!("{} hold; {}", count(check.rate.holds), why_ended(&check.rate)));
    screen.named(
        "streams",
        &format!(
            "{} of {} tokens/s hold; {}",
            count(check.streams.holds),
            number(check.tokens_per_s),
            why_ended(&check.streams)
        ),
    );
    let steal = check.steal_share.map_or_else(unknown, |share| {
        format!("steal {} of all cores, {}{NBSP}spells above the limit", percent(share), check.steal_spells)
    });
    let delay = check.heartbeat_max_ns.map_or_else(unknown, |ns| time(ns as f64));
    screen.named("threads", &format!("longest delay {delay}; {steal}"));
    let quick = if check.quick { ", quick" } else { "" };
    let kept = document.kept.as_deref().unwrap_or("not kept");
    screen.named("measured", &format!("{}{quick}; {kept}", check.measured));
    screen.out.trim_end().to_owned()
}
