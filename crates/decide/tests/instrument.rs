//! The floor of the instrument in a report: in the bound, in the limit of a stall, in notes.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use decide::{CheckId, CheckState, RunReport};
use record::{ByStamp, Ceiling, EndedBy, Run, SELF_CHECK_VERSION, SelfCheck, Spread};
use spec::{Analysis, Metric, Nanos, View};

/// A self-check whose errors are these; the program's own stamps are ten times worse.
fn checked(latency_ns: u64, gap_ns: u64, heartbeat: Nanos) -> SelfCheck {
    let spread = |ns: u64| {
        Some(Spread { n: 500, p50_ns: Some(ns), p99_ns: Some(4 * ns), p99_9_ns: None, max_ns: 9 * ns })
    };
    let both = |ns: u64| ByStamp { kernel: spread(ns), user: spread(10 * ns) };
    let ceiling =
        Ceiling { holds: 2_000, fails: Some(4_000), ended_by: EndedBy::Client, why: "lane busy".to_owned() };
    SelfCheck {
        schema_version: SELF_CHECK_VERSION,
        measured: "2026-11-30T09:00:00.000Z".to_owned(),
        machine: a_machine(),
        quick: false,
        server: "the simulated engine, in a process of its own".to_owned(),
        noise: Vec::new(),
        send_lag: spread(20_000),
        send_rate_per_s: 1_000.0,
        stamp_error: both(latency_ns / 2),
        latency_error: both(latency_ns),
        gap_error: both(gap_ns),
        cpu_per_request_ns: Some(40_000.0),
        cpu_per_event_ns: Some(8_000.0),
        heartbeat_max_ns: Some(heartbeat.0),
        steal_share: Some(0.0),
        steal_spells: 0,
        rate: ceiling.clone(),
        streams: ceiling,
        tokens_per_s: 50.0,
    }
}

/// In the server view no bound applies, so that nothing is withheld.
fn seen(run: &Run) -> RunReport {
    RunReport::build(run, &Analysis { view: Some(View::Server), ..Analysis::default() })
}

fn report(run: &Run) -> RunReport {
    RunReport::build(run, &Analysis::default())
}

fn with(check: SelfCheck) -> Run {
    let mut run = healthy_open(6.0, 30);
    run.header.environment.self_check = Some(check);
    run
}

#[test]
fn without_a_self_check_the_floor_is_unknown_and_never_nothing() {
    let report = report(&healthy_open(6.0, 30));
    assert_eq!(report.instrument.floor, None);
    assert!(report.floor_notes.is_empty());
    let json = report.to_json();
    assert!(json["instrument"]["floor"].is_null());
    assert_eq!(json["instrument"]["undefined"]["floor"], "no self-check: run `inferometer self-check`");
    assert!(
        report.instrument.line().contains("own error unknown (no self-check: run `inferometer self-check`)")
    );
}

#[test]
fn values_below_ten_times_the_floor_carry_a_note() {
    // TTFT of about 100 ms and gaps of about 10 ms: 11 ms and 0.9 ms of error.
    let report = seen(&with(checked(11_000_000, 900_000, ms(3.0))));
    let ttft = &report.floor_notes[&Metric::Ttft];
    assert!(
        ttft.starts_with("TTFT p50\u{a0}98.9")
            && ttft.ends_with("below ten times this instrument's error of 11.0\u{a0}ms."),
        "{ttft}"
    );
    assert!(!report.floor_notes.contains_key(&Metric::E2e), "730 ms are far above it");
    assert!(!report.floor_notes.contains_key(&Metric::Itl), "10 ms are above 9 ms");
    assert!(report.notes.contains(ttft));
    let json = report.to_json();
    assert_eq!(json["metrics"]["ttft"]["note"], ttft.as_str());
    assert!(json["metrics"]["e2e"]["note"].is_null());
    assert_eq!(json["instrument"]["floor"]["latency_ns"], 11_000_000);
    // The gap's own floor: twelve milliseconds are below ten times 1.3 ms.
    let gaps = seen(&with(checked(1_000, 1_300_000, ms(3.0))));
    assert!(gaps.floor_notes.contains_key(&Metric::Itl) && !gaps.floor_notes.contains_key(&Metric::Ttft));
    // Without kernel stamps the program's own count, ten times worse here.
    let mut own = with(checked(1_100_000, 1_000, ms(3.0)));
    assert!(seen(&own).floor_notes.is_empty());
    own.header.environment.kernel_stamps = false;
    assert!(seen(&own).floor_notes.contains_key(&Metric::Ttft));
}

#[test]
fn the_floor_is_part_of_the_bound() {
    // Every send is 60 µs late: far below the limit of 5 % of 100 ms.
    let quiet = report(&with(checked(30_000, 10_000, ms(3.0))));
    assert_eq!(quiet.trust.check(CheckId::SendLag).unwrap().state, CheckState::Pass);
    // 2 × 3 ms + 60 µs are 6 % of it, so the percentile is marked; 2 × 11 ms withhold it.
    let marked = report(&with(checked(3_000_000, 10_000, ms(3.0))));
    let check = marked.trust.check(CheckId::SendLag).unwrap();
    assert_eq!(check.state, CheckState::Fail);
    assert!(check.figure.contains("adds at most 6.06\u{a0}ms to"), "{}", check.figure);
    assert!(
        check.advice.as_ref().unwrap().contains("own error (3.00\u{a0}ms by its self-check)"),
        "{check:?}"
    );
    assert!(marked.measures.metrics[&Metric::Ttft].percentile(0.5).unwrap().value().is_some());
    let withheld = report(&with(checked(11_000_000, 10_000, ms(3.0))));
    assert!(withheld.measures.metrics[&Metric::Ttft].percentile(0.5).unwrap().value().is_none());
    // In the server view a late send is part of no latency.
    let server = seen(&with(checked(3_000_000, 10_000, ms(3.0))));
    assert_eq!(server.trust.check(CheckId::SendLag).unwrap().state, CheckState::Pass);
}

#[test]
fn a_machine_that_delays_threads_by_itself_moves_the_limit_of_a_stall() {
    let stall = |own: f64, seen: f64| {
        let mut run = with(checked(30_000, 10_000, ms(own)));
        run.lanes[40].heartbeat_max = ms(seen);
        report(&run).trust.check(CheckId::LaneStall).unwrap().clone()
    };
    // max(35 ms, 1.5 × own): 35 for 3 ms, 42 for 28 ms.
    assert_eq!(stall(3.0, 36.0).state, CheckState::Fail);
    assert_eq!(stall(28.0, 36.0).state, CheckState::Pass);
    assert_eq!(stall(28.0, 43.0).state, CheckState::Fail);
    // 1.5 × 31 = 46.5 ms: a stop of 50 ms may answer after 45, so nothing can be said below the limit.
    let blind = stall(31.0, 20.0);
    assert_eq!(blind.state, CheckState::Unknown);
    assert!(blind.figure.contains("50\u{a0}ms") && blind.advice.is_some(), "{blind:?}");
    assert_eq!(stall(31.0, 47.0).state, CheckState::Fail);
}

#[test]
fn a_report_shows_what_the_lanes_did() {
    let report = report(&healthy_open(6.0, 30));
    let json = report.to_json();
    // Lanes use 12 ms in each 250 ms; every send is 60 µs late, every read seen 20 µs later.
    let number = |name: &str| json["instrument"][name].as_f64().unwrap();
    assert!((number("busiest_lane") - 0.048).abs() < 1e-9, "{json}");
    assert_eq!(json["instrument"]["send_lag"]["p50_ns"], 60_000);
    assert_eq!(json["instrument"]["client_lag_p50"]["value"], 20_000);
    let (requests, events) = (number("cpu_per_request_ns"), number("cpu_per_event_ns"));
    assert!((requests / events - 64.0).abs() < 1e-6, "64 events each");
    let line = report.instrument.line();
    assert!(
        line.starts_with("send lag p50\u{a0}60.0\u{a0}µs") && line.contains("busiest lane 4.80\u{a0}%"),
        "{line}"
    );
}
