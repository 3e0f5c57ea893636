//! The checks on a synthetic healthy run, and on the same run with one fault put in.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use decide::checks::{clock::step, load::active};
use decide::{Cap, Capped, CheckId, CheckState, Trust, TrustVerdict};
use measure::measure;
use record::{ClockSample, FailureClass, PromptIdentity, Run, ServerSample, State, TimeoutKind};
use spec::{Analysis, Load, Metric, Nanos, Phase, View};

fn judge(run: &Run) -> Trust {
    decide::trust::judge(run, &measure(run, &Analysis::default()))
}

#[track_caller]
fn expect(trust: &Trust, id: CheckId, state: CheckState) -> decide::Check {
    let check = trust.check(id).unwrap_or_else(|| panic!("{id:?} missing"));
    assert_eq!(check.state, state, "{check:#?}");
    check.clone()
}

/// The only failed checks are these.
#[track_caller]
fn only(trust: &Trust, ids: &[CheckId]) {
    let failed: Vec<CheckId> = trust.in_state(CheckState::Fail).map(|c| c.id).collect();
    assert_eq!(failed, ids, "{:#?}", trust.in_state(CheckState::Fail).collect::<Vec<_>>());
}

#[test]
fn a_short_healthy_run_is_valid() {
    for run in [healthy_open(6.0, 30), healthy_closed(4, 30), healthy_open(40.0, 60), healthy_open(2.0, 12)] {
        let trust = judge(&run);
        only(&trust, &[]);
        assert_eq!(trust.verdict, TrustVerdict::Valid, "{trust:#?}");
        assert_eq!(trust.checks.len(), 25);
        // Unknown is never passed: nobody read the server's metrics.
        expect(&trust, CheckId::Foreign, CheckState::Unknown);
        expect(&trust, CheckId::Cache, CheckState::Unknown);
        for check in &trust.checks {
            assert_eq!(check.advice.is_none(), check.state == CheckState::Pass, "{check:?}");
            assert!(!check.figure.is_empty() && !check.limit.is_empty(), "{check:?}");
        }
    }
}

#[test]
fn every_check_is_made_once_and_failures_come_first() {
    let mut run = healthy_open(6.0, 30);
    for r in measured(&mut run).take(10) {
        r.state = State::Failed { class: FailureClass::Http5xx, detail: "500".to_owned() };
    }
    let trust = judge(&run);
    let mut ids: Vec<CheckId> = trust.checks.iter().map(|c| c.id).collect();
    let order: Vec<u8> = trust
        .checks
        .iter()
        .map(|c| match c.state {
            CheckState::Fail => 0,
            CheckState::Unknown => 1,
            CheckState::Pass => 2,
        })
        .collect();
    assert!(order.is_sorted());
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 25);
}

#[test]
fn late_sends_are_seen() {
    // One in five late by 10 ms, open loop.
    let mut run = healthy_open(6.0, 30);
    for r in measured(&mut run).step_by(5) {
        shift(r, ms(10.0));
    }
    let trust = judge(&run);
    let check = expect(&trust, CheckId::SendLag, CheckState::Fail);
    assert_eq!(trust.verdict, TrustVerdict::Limited);
    assert_eq!(
        check.advice.as_deref(),
        Some("Requests left late: use more lanes (--lanes), a less busy machine, or a lower rate (--rate).")
    );
    assert!(check.figure.contains("10.1"), "{}", check.figure);
    // TTFT is about 100 ms, so 10 ms are above 5 % of it and below 20 %.
    assert!(check.caps.iter().all(|c| matches!(c, Cap::Flag(Capped::Percentile(..)))), "{:?}", check.caps);
    assert!(check.caps.iter().any(|c| matches!(c, Cap::Flag(Capped::Percentile(Metric::Ttft, _)))));
    // One late send proves nothing.
    let mut run = healthy_open(6.0, 30);
    if let Some(r) = measured(&mut run).nth(20) {
        shift(r, ms(10.0));
    }
    expect(&judge(&run), CheckId::SendLag, CheckState::Pass);
    // The late limit is 2 ms or a twentieth of the mean gap: at 6 requests/s that is 8.3 ms.
    let mut run = healthy_open(6.0, 30);
    for r in measured(&mut run).step_by(5) {
        shift(r, ms(7.0));
    }
    let late = judge(&run);
    assert!(!late.check(CheckId::SendLag).unwrap().figure.contains("late"));
}

#[test]
fn a_handshake_or_a_cap_is_not_a_late_send() {
    let mut run = healthy_open(6.0, 30);
    for r in measured(&mut run) {
        shift(r, ms(50.0));
        r.dispatched = Some(r.intended);
        if let Some(c) = &mut r.connection {
            (c.reused, c.connect, c.tls) = (false, Some(ms(20.0)), Some(ms(30.0)));
        }
    }
    expect(&judge(&run), CheckId::SendLag, CheckState::Pass);
    let mut run = healthy_open(6.0, 30);
    if let Load::Open(open) = &mut run.header.spec.load {
        open.cap = Some(4);
    }
    for r in measured(&mut run).step_by(3) {
        let intended = r.intended;
        shift(r, ms(50.0));
        r.admitted = Some(intended + ms(50.0));
    }
    watch_lanes(&mut run);
    let trust = judge(&run);
    expect(&trust, CheckId::SendLag, CheckState::Pass);
    expect(&trust, CheckId::Arrivals, CheckState::Pass);
    let check = expect(&trust, CheckId::InFlight, CheckState::Fail);
    assert!(check.figure.contains("delayed by the cap of 4"), "{}", check.figure);
    // Every request waited, the last half a minute: the plan was sent all the same, as the cap let it.
    let mut run = healthy_open(10.0, 30);
    if let Load::Open(open) = &mut run.header.spec.load {
        open.cap = Some(2);
    }
    for r in &mut run.requests {
        let by = ms(1.0) + r.intended;
        shift(r, by);
        r.dispatched = Some(r.intended + Nanos(20_000));
        r.admitted = Some(r.intended + by);
    }
    run.footer.ended = run.requests.iter().filter_map(|r| r.closed).max().unwrap();
    watch_lanes(&mut run);
    let n = measured(&mut run).count();
    let trust = judge(&run);
    let check = expect(&trust, CheckId::Arrivals, CheckState::Pass);
    let all = format!("{n} of {n}\u{a0}requests sent by the end, counted from when the cap let them go");
    assert_eq!(check.figure, all);
    // Those who still waited at the end were never due; one that never left the pacer was.
    measured(&mut run).step_by(4).for_each(|r| {
        let dispatched = r.dispatched;
        unsend(r);
        r.dispatched = dispatched;
    });
    watch_lanes(&mut run);
    let check = expect(&judge(&run), CheckId::Arrivals, CheckState::Pass);
    assert!(check.figure.starts_with(&format!("{0} of {0}", n - n.div_ceil(4))), "{}", check.figure);
    measured(&mut run).step_by(4).for_each(unsend);
    expect(&judge(&run), CheckId::Arrivals, CheckState::Fail);
}

#[test]
fn a_queue_at_the_cap_is_a_queue() {
    // Two in flight all the time, and behind them ever more who wait.
    let mut run = healthy_open(4.0, 60);
    if let Load::Open(open) = &mut run.header.spec.load {
        open.cap = Some(2);
    }
    let mut free = [Nanos::ZERO; 2];
    for r in &mut run.requests {
        let slot = usize::from(free[1] < free[0]);
        let from = r.intended.max(free[slot]);
        if from > r.intended {
            r.admitted = Some(from);
        }
        shift(r, Nanos(from.0 - r.intended.0));
        r.dispatched = Some(r.intended + Nanos(20_000));
        free[slot] = r.closed.unwrap();
    }
    run.footer.ended = run.requests.iter().filter_map(|r| r.closed).max().unwrap();
    watch_lanes(&mut run);
    assert!(measure(&run, &Analysis::default()).throughput.in_flight_peak <= 2);
    let trust = judge(&run);
    only(&trust, &[CheckId::InFlight, CheckId::Overload]);
    let advice = trust.check(CheckId::Overload).unwrap().advice.clone().unwrap();
    assert!(
        advice.ends_with("what the server holds with 2 in flight. Raise --cap or lower --rate."),
        "{advice}"
    );
    // Missed is missed, as without a cap: the wait at it is by plan.
    run.header.spec.slo.marginal = vec![marginal(0.9, Metric::Ttft, spec::Op::LessEq, 2_000.0)];
    let report = decide::RunReport::build(&run, &Analysis::default());
    assert_eq!((report.slo.marginal[0].met, report.verdict.exit_code), (Some(false), 1));
    run.header.spec.slo.marginal = vec![marginal(0.9, Metric::Ttft, spec::Op::LessEq, 200_000.0)];
    let report = decide::RunReport::build(&run, &Analysis::default());
    assert_eq!((report.slo.marginal[0].met, report.verdict.exit_code), (None, 3));
}

#[test]
fn a_user_has_no_timetable_and_one_late_send_invalidates_nothing() {
    // A single request of a single user, which left 10 ms after its time.
    let mut run = healthy_closed(1, 12);
    run.requests.truncate(1);
    let at = run.requests[0].intended;
    run.requests[0].phase = Phase::Measure;
    shift(&mut run.requests[0], ms(10.0));
    (run.footer.measure_from, run.footer.measure_to) = (at, at);
    watch_lanes(&mut run);
    expect(&judge(&run), CheckId::Arrivals, CheckState::Pass);
    // The same on a timetable: late, but one late send proves nothing.
    run.header.spec.load = open(6.0);
    run.requests[0].user = None;
    let trust = judge(&run);
    assert!(trust.check(CheckId::Arrivals).is_some_and(|c| !c.is_grave()), "{trust:#?}");
}

#[test]
fn a_slipping_timetable_fails_arrivals() {
    let mut run = healthy_open(6.0, 30);
    // Each send is later than the one before, up to 300 ms.
    let n = measured(&mut run).count() as f64;
    for (i, r) in measured(&mut run).enumerate() {
        shift(r, ms(300.0 * i as f64 / n));
    }
    watch_lanes(&mut run);
    let trust = judge(&run);
    let check = expect(&trust, CheckId::Arrivals, CheckState::Fail);
    assert!(check.advice.unwrap().starts_with("The plan was not sent: the client's ceiling is "));
    assert!(check.caps.contains(&Cap::Withhold(Capped::Slo)));
    expect(&trust, CheckId::SendLag, CheckState::Fail);
}

#[test]
fn a_late_last_quarter_names_no_ceiling_when_all_was_sent() {
    // 8 ms late from three quarters on: beyond 5 % of the gap, and every request is sent in time for the end.
    let mut run = healthy_open(20.0, 30);
    let n = measured(&mut run).count();
    for r in measured(&mut run).skip(n * 3 / 4 - 1).take(n / 4) {
        shift(r, ms(8.0));
    }
    watch_lanes(&mut run);
    let check = expect(&judge(&run), CheckId::Arrivals, CheckState::Fail);
    assert!(check.figure.starts_with(&format!("{n} of {n}")), "{}", check.figure);
    assert!(
        check.advice.unwrap().starts_with("The plan was not sent in time: every request left, but late.")
    );
}

#[test]
fn unsent_requests_limit_or_invalidate() {
    for (every, verdict) in [(20, TrustVerdict::Limited), (5, TrustVerdict::Invalid)] {
        let mut run = healthy_open(6.0, 30);
        for r in measured(&mut run).step_by(every) {
            unsend(r);
        }
        watch_lanes(&mut run);
        let trust = judge(&run);
        expect(&trust, CheckId::Arrivals, CheckState::Fail);
        assert_eq!(trust.verdict, verdict, "one in {every} not sent");
    }
}

fn unsend(r: &mut record::Request) {
    r.state = State::Shed;
    r.chunks.edit().clear();
    (r.dispatched, r.write_begin, r.write_end) = (None, None, None);
    (r.headers, r.done, r.closed, r.connection) = (None, None, None, None);
}

#[test]
fn a_lane_that_stood_still() {
    let mut run = healthy_open(6.0, 30);
    run.lanes[40].heartbeat_max = ms(48.0);
    let trust = judge(&run);
    let check = expect(&trust, CheckId::LaneStall, CheckState::Fail);
    assert_eq!(
        check.advice.as_deref(),
        Some(
            "A sending thread stood still for 48.0\u{a0}ms: stop what else runs here, or give the client cores of its \
             own (taskset)."
        )
    );
    only(&trust, &[CheckId::LaneStall]);
    // 34 ms happen on quiet machines.
    let mut run = healthy_open(6.0, 30);
    run.lanes[40].heartbeat_max = ms(34.0);
    expect(&judge(&run), CheckId::LaneStall, CheckState::Pass);
    // No heartbeat: unknown, never passed, and not something that must be known.
    let mut run = healthy_open(6.0, 30);
    run.lanes.iter_mut().for_each(|s| s.heartbeats = 0);
    let trust = judge(&run);
    expect(&trust, CheckId::LaneStall, CheckState::Unknown);
    assert_eq!(trust.verdict, TrustVerdict::Valid);
}

#[test]
fn other_work_on_the_machine() {
    // Both cores burnt by somebody else, and the server is another machine.
    let mut run = healthy_open(6.0, 30);
    run.header.spec.target = spec::Target::Http("http://10.0.4.17:8000".to_owned()).into();
    for m in &mut run.machine {
        m.busy = Nanos(m.at.0 * 2);
    }
    let trust = judge(&run);
    let check = expect(&trust, CheckId::Machine, CheckState::Fail);
    assert!(check.is_grave() && check.caps.contains(&Cap::Flag(Capped::Latencies)), "most seconds: invalid");
    assert_eq!(trust.verdict, TrustVerdict::Invalid);
    // On these cores it may be the server itself: limited, and said so.
    run.header.spec.target = spec::Target::Http("http://localhost:8000".to_owned()).into();
    let trust = judge(&run);
    assert!(expect(&trust, CheckId::Machine, CheckState::Fail).note.is_some());
    assert_eq!(trust.verdict, TrustVerdict::Limited);
    only(&trust, &[CheckId::Machine]);
    // The same load is the server's own, and known: nothing is wrong.
    for m in &mut run.machine {
        m.target = Some(Nanos(m.at.0 * 19 / 10));
    }
    only(&judge(&run), &[]);
    // A third of the time: limited, latencies flagged.
    let mut run = healthy_open(6.0, 30);
    run.header.spec.target = spec::Target::Http("http://10.0.4.17:8000".to_owned()).into();
    let mut busy = 0;
    for m in &mut run.machine {
        m.busy = Nanos(busy);
        let s = m.at.0 / 1_000_000_000;
        busy += if s.is_multiple_of(3) { 2_000_000_000 } else { 600_000_000 };
    }
    let trust = judge(&run);
    let check = expect(&trust, CheckId::Machine, CheckState::Fail);
    assert_eq!(check.caps, vec![Cap::Flag(Capped::Latencies)]);
    assert_eq!(trust.verdict, TrustVerdict::Limited);
    // Steal.
    let mut run = healthy_open(6.0, 30);
    run.machine.iter_mut().for_each(|m| m.steal = Nanos(m.at.0 * 12 / 100));
    expect(&judge(&run), CheckId::Machine, CheckState::Fail);
    // Lanes that wait for a core: 60 % of their time and 7 ms each time.
    let mut run = healthy_open(6.0, 30);
    for m in &mut run.machine {
        let s = m.at.0 / 1_000_000_000;
        (m.lane_run, m.lane_wait, m.lane_slices) = (Nanos(s * 200_000_000), Nanos(s * 300_000_000), s * 43);
    }
    expect(&judge(&run), CheckId::Machine, CheckState::Fail);
    // Off Linux nothing is known, and the run stays valid.
    let mut run = healthy_open(6.0, 30);
    run.machine.clear();
    let trust = judge(&run);
    expect(&trust, CheckId::Machine, CheckState::Unknown);
    assert_eq!(trust.verdict, TrustVerdict::Valid);
}

#[test]
fn a_lane_at_its_limit() {
    let mut run = healthy_open(6.0, 30);
    for s in run.lanes.iter_mut().filter(|s| s.from >= Nanos::from_secs(10) && s.to <= Nanos::from_secs(13)) {
        s.busy = Nanos(180_000_000);
    }
    let check = expect(&judge(&run), CheckId::LaneBusy, CheckState::Fail);
    assert!(check.caps.is_empty(), "kernel stamps keep gaps true");
    assert!(check.figure.contains("72\u{a0}%"), "{}", check.figure);
    for r in measured(&mut run) {
        r.chunks.edit().iter_mut().for_each(|c| c.kernel = false);
    }
    let check = expect(&judge(&run), CheckId::LaneBusy, CheckState::Fail);
    assert!(check.caps.contains(&Cap::Flag(Capped::Metric(Metric::Itl))));
}

#[test]
fn the_program_sees_late() {
    let mut run = healthy_open(6.0, 30);
    for r in measured(&mut run) {
        r.chunks.edit().iter_mut().for_each(|c| c.seen = c.arrival + ms(12.0));
    }
    let check = expect(&judge(&run), CheckId::ClientLag, CheckState::Fail);
    assert!(check.caps.is_empty());
    // User stamps: only the bound is known.
    let mut run = healthy_open(6.0, 30);
    for r in measured(&mut run) {
        for c in r.chunks.edit().iter_mut() {
            (c.kernel, c.arrival, c.earliest) = (false, c.seen, Nanos(c.seen.0 - 100_000));
        }
    }
    expect(&judge(&run), CheckId::ClientLag, CheckState::Unknown);
    for r in measured(&mut run) {
        r.chunks.edit().iter_mut().for_each(|c| c.earliest = Nanos(c.seen.0 - 5_000_000));
    }
    let check = expect(&judge(&run), CheckId::ClientLag, CheckState::Fail);
    assert!(check.caps.contains(&Cap::Flag(Capped::Metric(Metric::MaxGap))));
}

#[test]
fn reads_with_several_events() {
    // Seven of eight tokens share a read.
    let mut run = healthy_open(6.0, 30);
    for r in measured(&mut run) {
        let mut chunks = r.chunks.edit();
        for i in 0..chunks.len() {
            chunks[i].read = i as u32 / 8;
            chunks[i].arrival = chunks[i / 8 * 8 + 7].arrival;
        }
        drop(chunks);
        r.output_reads = 8;
    }
    let check = expect(&judge(&run), CheckId::Coalesced, CheckState::Fail);
    assert!(check.figure.starts_with("100"), "{}", check.figure);
    assert_eq!(
        check.advice.as_deref(),
        Some("Tokens were read in bundles: gaps between tokens are not observable here.")
    );
}

#[test]
fn users_in_flight_worked_vector() {
    // Closed 32: 31.2 passes, 30.9 fails, 25 is invalid.
    for (mean, fails) in [(31.2, false), (30.9, true), (25.0, true)] {
        let (check, share) = active(mean, 32.0, String::new());
        assert_eq!(check.failed(), fails, "{mean}");
        assert_eq!(share < decide::limits::INVALID_IN_FLIGHT, mean < 25.6);
    }
    // Half the users never send.
    let mut run = healthy_closed(8, 30);
    run.requests.retain(|r| r.user.is_some_and(|u| u % 2 == 0));
    for (seq, r) in run.requests.iter_mut().enumerate() {
        r.seq = seq as u64;
    }
    watch_lanes(&mut run);
    let trust = judge(&run);
    let check = expect(&trust, CheckId::InFlight, CheckState::Fail);
    let advice = check.advice.unwrap();
    assert!(
        advice.starts_with("Only 4 of 8\u{a0}users were really active: use more lanes (--lanes)"),
        "{advice}"
    );
    assert_eq!(trust.verdict, TrustVerdict::Invalid);
}

#[test]
fn users_who_start_together_are_not_late() {
    // 32 users at one moment leave one after the other within 5 ms: a twentieth of a user's own
    // cycle of about 730 ms is more.
    let mut run = healthy_closed(32, 12);
    for (i, r) in run.requests.iter_mut().enumerate().take(32) {
        shift(r, Nanos(i as u64 * 150_000));
    }
    run.requests.iter_mut().for_each(|r| r.phase = Phase::Measure);
    run.footer.measure_from = Nanos::ZERO;
    watch_lanes(&mut run);
    only(&judge(&run), &[]);
    // Each user once, at one moment.
    let mut run = healthy_closed(8, 12);
    run.requests.truncate(8);
    for r in &mut run.requests {
        (r.phase, r.intended) = (Phase::Measure, Nanos::from_millis(10));
    }
    (run.footer.measure_from, run.footer.measure_to) = (Nanos::from_millis(10), Nanos::from_millis(10));
    watch_lanes(&mut run);
    expect(&judge(&run), CheckId::InFlight, CheckState::Pass);
}

#[test]
fn a_burst_has_no_timetable() {
    let mut run = healthy_open(6.0, 30);
    run.header.spec.load = open(f64::INFINITY);
    run.requests.retain(|r| r.phase == Phase::Measure);
    let at = Nanos::from_secs(2);
    for (i, r) in run.requests.iter_mut().enumerate() {
        let by = r.intended.0 - at.0;
        r.intended = at;
        // One after the other within 4 ms.
        let later = i as u64 * 20_000;
        for stamp in [
            &mut r.dispatched,
            &mut r.write_begin,
            &mut r.write_end,
            &mut r.headers,
            &mut r.done,
            &mut r.closed,
        ]
        .into_iter()
        .flatten()
        {
            *stamp = Nanos(stamp.0 - by + later);
        }
        for c in r.chunks.edit().iter_mut() {
            (c.arrival, c.seen) = (Nanos(c.arrival.0 - by + later), Nanos(c.seen.0 - by + later));
        }
    }
    (run.footer.measure_from, run.footer.measure_to) = (at, at);
    watch_lanes(&mut run);
    let trust = judge(&run);
    expect(&trust, CheckId::Arrivals, CheckState::Pass);
    expect(&trust, CheckId::SendLag, CheckState::Pass);
    assert_eq!(trust.verdict, TrustVerdict::Valid, "{trust:#?}");
    // What was never sent still counts.
    run.requests.iter_mut().step_by(5).for_each(unsend);
    expect(&judge(&run), CheckId::Arrivals, CheckState::Fail);
}

#[test]
fn a_hole_in_the_journal_is_invalid_unless_the_run_was_killed() {
    let mut run = healthy_open(6.0, 30);
    run.requests.remove(60);
    watch_lanes(&mut run);
    let trust = judge(&run);
    expect(&trust, CheckId::Bookkeeping, CheckState::Fail);
    assert_eq!(trust.verdict, TrustVerdict::Invalid);
    run.footer.stopped = record::Stopped::Killed;
    let trust = judge(&run);
    let check = expect(&trust, CheckId::Bookkeeping, CheckState::Pass);
    assert!(check.note.is_some());
}

#[test]
fn lanes_and_records_disagree() {
    let mut run = healthy_open(6.0, 30);
    run.lanes.iter_mut().for_each(|s| s.in_flight += 1);
    expect(&judge(&run), CheckId::Bookkeeping, CheckState::Fail);
    // A lane that stood still could not count: what it did not do is no fault of the books.
    run.lanes[20].heartbeat_max = ms(1_000.0);
    let trust = judge(&run);
    expect(&trust, CheckId::LaneStall, CheckState::Fail);
    expect(&trust, CheckId::Bookkeeping, CheckState::Pass);
}

#[test]
fn the_queue_grows() {
    // Half of what arrives is served: each request waits longer than the one before.
    let mut run = healthy_open(6.0, 60);
    for r in &mut run.requests {
        let by = Nanos(r.intended.0 / 2);
        for stamp in [&mut r.headers, &mut r.done, &mut r.closed].into_iter().flatten() {
            *stamp += by;
        }
        for c in r.chunks.edit().iter_mut() {
            (c.arrival, c.seen, c.earliest) = (c.arrival + by, c.seen + by, c.earliest + by);
        }
    }
    run.footer.ended = run.requests.iter().filter_map(|r| r.closed).max().unwrap();
    watch_lanes(&mut run);
    let trust = judge(&run);
    let check = expect(&trust, CheckId::Overload, CheckState::Fail);
    assert!(check.caps.contains(&Cap::Withhold(Capped::Latencies)));
    assert!(
        !check.caps.contains(&Cap::Withhold(Capped::Slo)),
        "failures are counted whatever the queue does"
    );
    assert_eq!(trust.verdict, TrustVerdict::Limited);
    // Too short: the length that it says is long enough.
    let short = healthy_open(6.0, 20);
    let check = expect(&judge(&short), CheckId::Overload, CheckState::Unknown);
    assert_eq!(check.advice.as_deref(), Some("Measure for at least 40\u{a0}s (--duration)."));
    expect(&judge(&healthy_open(6.0, 40)), CheckId::Overload, CheckState::Pass);
}

#[test]
fn speed_changes_during_the_run() {
    let mut run = healthy_open(6.0, 60);
    for r in &mut run.requests {
        let cold = r.intended < Nanos::from_secs(32);
        let first = r.chunks.first().unwrap().arrival;
        for c in r.chunks.edit().iter_mut() {
            let stretched =
                if cold { Nanos((c.arrival.0 - first.0) * 14 / 10) } else { Nanos(c.arrival.0 - first.0) };
            c.arrival = first + stretched;
            c.seen = c.arrival + Nanos(20_000);
        }
        r.done = r.chunks.last().map(|c| c.arrival + Nanos(30_000));
        r.closed = r.done.map(|d| d + Nanos(20_000));
    }
    watch_lanes(&mut run);
    let check = expect(&judge(&run), CheckId::Steady, CheckState::Fail);
    assert!(check.advice.unwrap().starts_with("Speed changed by "));
    assert_eq!(check.caps, vec![Cap::Flag(Capped::Latencies)]);
    // Ten seconds are too few to tell, which is said.
    let check = expect(&judge(&healthy_open(6.0, 8)), CheckId::Steady, CheckState::Unknown);
    assert_eq!(check.figure, "too short to judge steadiness");
}

#[test]
fn common_pauses_are_noted_and_never_fail() {
    let mut run = healthy_open(12.0, 60);
    // Nothing arrives in [5k, 5k + 0.4) s.
    for r in &mut run.requests {
        for c in r.chunks.edit().iter_mut() {
            let inside = c.arrival.0 % 5_000_000_000;
            if inside < 400_000_000 {
                let moved = Nanos(c.arrival.0 - inside + 400_000_000);
                (c.arrival, c.seen) = (moved, moved + Nanos(20_000));
            }
        }
        let last = r.chunks.last().unwrap().arrival;
        (r.done, r.closed) = (Some(last + Nanos(1_000)), Some(last + Nanos(2_000)));
    }
    watch_lanes(&mut run);
    let check = expect(&judge(&run), CheckId::Stalls, CheckState::Pass);
    let note = check.note.unwrap();
    assert!(note.starts_with("All streams paused together every 5.0"), "{note}");
}

#[test]
fn failures_worked_vectors() {
    // 1 of 80 passes, 2 of 80 fail, 2 of 500 pass.
    for (n, bad, fails) in [(80, 1, false), (80, 2, true), (500, 2, false)] {
        let mut run = healthy_open(20.0, 30);
        let mut kept = 0;
        run.requests.retain(|r| {
            kept += u64::from(r.phase == Phase::Measure);
            r.phase == Phase::Measure && kept <= n
        });
        run.footer.measure_to = run.requests.last().unwrap().intended;
        assert_eq!(run.requests.len() as u64, n);
        for r in run.requests.iter_mut().take(bad) {
            r.state = State::Failed { class: FailureClass::Truncated, detail: String::new() };
        }
        watch_lanes(&mut run);
        let check = judge(&run).check(CheckId::Failures).unwrap().clone();
        assert_eq!(check.failed(), fails, "{bad} of {n}");
        if fails {
            let advice = "2 of 80\u{a0}requests failed (2 truncated): fix these before reading latencies.";
            assert_eq!(check.advice.as_deref(), Some(advice));
        }
    }
}

#[test]
fn most_requests_failed() {
    let mut run = healthy_open(6.0, 30);
    let n = measured(&mut run).count();
    for r in measured(&mut run).take(n / 2 + 1) {
        r.state = State::Failed { class: FailureClass::Http429, detail: "busy".to_owned() };
    }
    let trust = judge(&run);
    assert_eq!(trust.verdict, TrustVerdict::Invalid);
    assert!(trust.check(CheckId::Failures).unwrap().is_grave());
}

#[test]
fn censored_requests() {
    let mut run = healthy_open(6.0, 30);
    for r in measured(&mut run).take(4) {
        r.state = State::TimedOut { limit: TimeoutKind::Total };
    }
    let check = expect(&judge(&run), CheckId::Censored, CheckState::Fail);
    assert!(check.figure.starts_with("4 of "), "{}", check.figure);
}

#[test]
fn lengths_delivered_and_counted() {
    // One in five cut short.
    let mut run = healthy_open(6.0, 30);
    for r in measured(&mut run).step_by(5) {
        r.output.usage = Some(40);
        r.output.retokenised = Some(40);
    }
    let check = expect(&judge(&run), CheckId::OutLength, CheckState::Fail);
    assert_eq!(
        check.advice.as_deref(),
        Some(
            "Answers have another length than asked: force the length (--force min_tokens) or use another field (--max-field)."
        )
    );
    // Natural lengths: unknown.
    let mut run = healthy_open(6.0, 30);
    measured(&mut run).for_each(|r| r.output.forced = false);
    expect(&judge(&run), CheckId::OutLength, CheckState::Unknown);
    // Another tokenizer: 31 % more.
    let mut run = healthy_open(6.0, 30);
    measured(&mut run).for_each(|r| r.input.server = Some(671));
    let check = expect(&judge(&run), CheckId::InLength, CheckState::Fail);
    assert!(check.advice.unwrap().starts_with("The server counted 31.1\u{a0}% more input tokens"));
    // A chat template on short prompts is a constant few tokens.
    let mut run = healthy_open(6.0, 30);
    for r in measured(&mut run) {
        (r.input.planned, r.input.counted, r.input.server) = (Some(64), Some(64), Some(82));
    }
    let check = expect(&judge(&run), CheckId::InLength, CheckState::Pass);
    assert_eq!(check.note.as_deref(), Some("the constant 18\u{a0}tokens are the chat template"));
    // Two counts of the output 5 % apart.
    let mut run = healthy_open(6.0, 30);
    measured(&mut run).for_each(|r| r.output.retokenised = Some(61));
    let check = expect(&judge(&run), CheckId::TokenCount, CheckState::Fail);
    assert!(check.advice.unwrap().ends_with("per-token numbers use the server's usage."));
    measured(&mut run).for_each(|r| r.output.retokenised = None);
    expect(&judge(&run), CheckId::TokenCount, CheckState::Unknown);
}

#[test]
fn prompts_repeat_or_are_cached() {
    // Twelve prompts over and over.
    let mut run = healthy_open(6.0, 30);
    for r in &mut run.requests {
        let id = r.seq % 12 + 1;
        r.prompt = PromptIdentity { first16: id, first64: id, whole: id };
    }
    let check = expect(&judge(&run), CheckId::Unique, CheckState::Fail);
    assert!(check.caps.contains(&Cap::Withhold(Capped::Metric(Metric::Ttft))));
    // Declared, they are no fault.
    run.header.spec.workload.cache = spec::CacheProtocol::Repeat { prompts: 12 };
    expect(&judge(&run), CheckId::Unique, CheckState::Pass);
    // Worked vector: 16 of 530 cached in each, planned 512, server 530: passes.
    let mut run = healthy_open(6.0, 30);
    measured(&mut run).for_each(|r| r.input.cached = Some(16));
    expect(&judge(&run), CheckId::Cache, CheckState::Pass);
    // One in five with 424: 0.2 × (424 − 18 − 16) / 530 = 14.7 %.
    for (i, r) in measured(&mut run).enumerate() {
        r.input.cached = Some(if i % 5 == 0 { 424 } else { 16 });
    }
    let n = measured(&mut run).count();
    let fifth = n.div_ceil(5) as f64 / n as f64;
    let check = expect(&judge(&run), CheckId::Cache, CheckState::Fail);
    let share = decide::words::percent(fifth * 390.0 / 530.0);
    assert!(check.figure.ends_with(&format!("{share} beyond the plan")), "{} {share}", check.figure);
    assert!(share.starts_with("14."));
    assert!(check.caps.contains(&Cap::Flag(Capped::Metric(Metric::Ttft))));
}

#[test]
fn shapes_of_streams() {
    let mut run = healthy_open(6.0, 30);
    for r in measured(&mut run) {
        let last = r.chunks.last().unwrap().arrival;
        r.chunks.edit().iter_mut().for_each(|c| (c.arrival, c.seen) = (last, last));
    }
    let check = expect(&judge(&run), CheckId::Buffered, CheckState::Fail);
    assert!(check.caps.contains(&Cap::Withhold(Capped::Metric(Metric::Ttft))));
    assert!(!check.caps.contains(&Cap::Withhold(Capped::Metric(Metric::E2e))), "e2e is kept");

    // Short answers may come at once: only those of eight tokens and more can tell.
    let cut = |r: &mut record::Request, tokens: u32| {
        let first = r.chunks.first().unwrap().arrival;
        r.chunks.edit().truncate(tokens as usize);
        r.chunks.edit().iter_mut().for_each(|c| (c.arrival, c.seen) = (first, first + Nanos(20_000)));
        (r.output.usage, r.output.asked, r.output.retokenised) = (Some(tokens), Some(tokens), Some(tokens));
    };
    let mut run = healthy_open(6.0, 30);
    measured(&mut run).for_each(|r| cut(r, 7));
    let check = expect(&judge(&run), CheckId::Buffered, CheckState::Unknown);
    assert_eq!(check.figure, "every answer is too short to tell");
    let mut run = healthy_open(6.0, 30);
    let n = measured(&mut run).count();
    measured(&mut run).step_by(2).for_each(|r| cut(r, 7));
    let check = expect(&judge(&run), CheckId::Buffered, CheckState::Pass);
    assert_eq!(check.figure, format!("0 of {}\u{a0}streams in one piece", n / 2));
    measured(&mut run).step_by(2).for_each(|r| r.output.usage = Some(8));
    expect(&judge(&run), CheckId::Buffered, CheckState::Fail);
    // A long wait in the queue before a stream does not make it one piece: 630 ms of output are below
    // 2 % of 40 s, but not of the shortest answer.
    let mut run = healthy_open(6.0, 30);
    for r in measured(&mut run).skip(1) {
        for stamp in [&mut r.headers, &mut r.done, &mut r.closed].into_iter().flatten() {
            *stamp += Nanos::from_secs(40);
        }
        for c in r.chunks.edit().iter_mut() {
            (c.arrival, c.seen) = (c.arrival + Nanos::from_secs(40), c.seen + Nanos::from_secs(40));
        }
    }
    expect(&judge(&run), CheckId::Buffered, CheckState::Pass);

    let mut run = healthy_open(6.0, 30);
    measured(&mut run).take(3).for_each(|r| (r.cumulative_chunks, r.cumulative_run) = (60, 60));
    expect(&judge(&run), CheckId::Cumulative, CheckState::Fail);
    measured(&mut run).take(1).for_each(|r| (r.cumulative_chunks, r.cumulative_run) = (0, 0));
    expect(&judge(&run), CheckId::Cumulative, CheckState::Pass);

    let mut run = healthy_open(6.0, 30);
    measured(&mut run).step_by(10).for_each(|r| r.echo_tokens = Some(64));
    expect(&judge(&run), CheckId::Echo, CheckState::Fail);
    measured(&mut run).for_each(|r| r.echo_tokens = r.echo_tokens.map(|_| 63));
    expect(&judge(&run), CheckId::Echo, CheckState::Pass);
    measured(&mut run).for_each(|r| r.echo_tokens = None);
    expect(&judge(&run), CheckId::Echo, CheckState::Unknown);
}

/// Scrapes once a second in which `extra` requests and `factor` × our tokens are seen.
fn scraped(run: &mut Run, extra: f64, factor: f64) {
    let levels = measure::in_flight_series(&run.requests);
    run.server = (2..=32)
        .map(|s| {
            let at = Nanos::from_secs(s);
            let tokens = run.requests.iter().flat_map(|r| &r.chunks).filter(|c| c.arrival <= at).count();
            ServerSample {
                at,
                running: Some(levels.at(at) as f64 + extra),
                waiting: Some(0.0),
                generated_tokens: Some(tokens as f64 * factor),
                ours_in_flight: levels.at(at) as u32,
                ..ServerSample::default()
            }
        })
        .collect();
}

/// A killed run loses what was open: neither the lanes' own count nor the server's tokens can agree with
/// the records then, and nobody is to blame.
#[test]
fn a_killed_run_accuses_nobody() {
    let mut run = healthy_open(6.0, 30);
    scraped(&mut run, 0.0, 1.15);
    run.lanes.iter_mut().for_each(|s| s.in_flight += 1);
    run.footer.stopped = record::Stopped::Killed;
    let trust = judge(&run);
    expect(&trust, CheckId::Bookkeeping, CheckState::Pass);
    expect(&trust, CheckId::Foreign, CheckState::Pass);
}

/// A server that gives no connection is a failure of the server, not of the timetable.
#[test]
fn a_refused_connection_left_in_time() {
    let mut run = healthy_open(6.0, 30);
    for request in run.requests.iter_mut().step_by(3) {
        request.write_begin = None;
        request.chunks.edit().clear();
        request.state =
            record::State::Failed { class: record::FailureClass::Connect, detail: "refused".to_owned() };
    }
    let trust = judge(&run);
    expect(&trust, CheckId::Arrivals, CheckState::Pass);
    expect(&trust, CheckId::Failures, CheckState::Fail);
}

/// One without a connection because this machine had no file left: not sent, and no limit on failures is judged by it.
#[test]
fn a_limit_of_this_machine_is_not_the_servers() {
    let mut run = healthy_open(6.0, 30);
    run.header.spec.slo.marginal = vec!["error_rate<=0.1%".parse().unwrap()];
    let request = measured(&mut run).nth(40).unwrap();
    request.write_begin = None;
    request.chunks.edit().clear();
    request.state =
        record::State::Failed { class: record::FailureClass::Connect, detail: "files".to_owned() };
    request.oddities = vec![record::Oddity::OwnLimit];
    let n = measured(&mut run).count();
    let check = expect(&judge(&run), CheckId::Arrivals, CheckState::Fail);
    let figure =
        format!("{} of {n}\u{a0}requests sent by the end; no file or port was left here for 1", n - 1);
    assert_eq!(check.figure, figure);
    assert!(check.advice.unwrap().contains("ran out of open files (ulimit -n) or ports"));
    let report = decide::RunReport::build(&run, &Analysis::default());
    assert_eq!((report.slo.marginal[0].met, report.verdict.exit_code), (None, 3));
}

#[test]
fn somebody_else_on_the_server() {
    let mut run = healthy_open(6.0, 30);
    scraped(&mut run, 0.0, 1.0);
    expect(&judge(&run), CheckId::Foreign, CheckState::Pass);
    // Worked vector: one foreign stream is below two, but its tokens show: x = 6.25 %.
    scraped(&mut run, 1.0, 1.0625);
    let trust = judge(&run);
    let check = expect(&trust, CheckId::Foreign, CheckState::Fail);
    assert!(check.figure.starts_with("6.25\u{a0}% more tokens than ours"), "{}", check.figure);
    assert_eq!(
        check.advice.as_deref(),
        Some("Someone else used this endpoint: 5.88\u{a0}% of its tokens were not ours.")
    );
    assert_eq!(trust.verdict, TrustVerdict::Limited);
    // Two requests in every scrape.
    scraped(&mut run, 2.0, 1.0);
    expect(&judge(&run), CheckId::Foreign, CheckState::Fail);
    // More than half is foreign.
    scraped(&mut run, 9.0, 2.1);
    assert_eq!(judge(&run).verdict, TrustVerdict::Invalid);
}

/// A look before the first send shows what ran there already, though never what ran beside us.
#[test]
fn what_ran_there_before_ours_and_another_run_beside_it_are_foreign() {
    let look = |running: f64, waiting: f64| {
        let sample =
            ServerSample { running: Some(running), waiting: Some(waiting), ..ServerSample::default() };
        vec![sample]
    };
    let mut run = healthy_open(6.0, 30);
    run.server = look(0.0, 0.0);
    let check = expect(&judge(&run), CheckId::Foreign, CheckState::Unknown);
    assert!(check.figure.starts_with("nothing ran there before ours"), "{check:?}");
    run.server = look(2.0, 1.0);
    let check = expect(&judge(&run), CheckId::Foreign, CheckState::Fail);
    assert_eq!(check.figure, "3\u{a0}requests ran there before ours began");
    run.server.clear();
    run.footer.others = vec!["process 7, /runs/a".to_owned()];
    let check = expect(&judge(&run), CheckId::Foreign, CheckState::Fail);
    assert_eq!(check.figure, "this machine measured it at the same time: process 7, /runs/a");
    // The scraper's own first reading, beside requests of ours, is no look before.
    let mut run = healthy_open(6.0, 30);
    scraped(&mut run, 1.0, 1.0);
    run.server[0].ours_in_flight = 0;
    expect(&judge(&run), CheckId::Foreign, CheckState::Pass);
}

#[test]
fn clock_steps_worked_vectors() {
    let at =
        |s: f64, offset_ns: i64| ClockSample { at: Nanos::from_secs_f64(s), offset_ns, width: Nanos::ZERO };
    // 0.2 ms after 1 s are within 500 ppm; 6 ms after 0.1 s are a step.
    assert!(step(&at(0.0, 0), &at(1.0, 200_000)) < 1.0);
    assert!((step(&at(0.0, 0), &at(0.1, 6_000_000)) - 5_950_000.0).abs() < 1.0);
    let mut run = healthy_open(6.0, 30);
    run.clock.iter_mut().skip(100).for_each(|c| c.offset_ns += 6_000_000);
    let trust = judge(&run);
    let check = expect(&trust, CheckId::Clock, CheckState::Fail);
    assert!(check.advice.unwrap().ends_with("only labels are affected."));
    assert_eq!(trust.verdict, TrustVerdict::Limited);
    // Both clocks must have been compared.
    let mut run = healthy_open(6.0, 30);
    run.clock.clear();
    let trust = judge(&run);
    expect(&trust, CheckId::Clock, CheckState::Unknown);
    assert_eq!(trust.verdict, TrustVerdict::Limited);
    // Time that runs backwards is no measurement.
    let mut run = healthy_open(6.0, 30);
    if let Some(r) = measured(&mut run).nth(9) {
        let before = r.chunks.get(2).unwrap().arrival;
        r.chunks.edit()[3].arrival = Nanos(before.0 - 1);
    }
    assert_eq!(judge(&run).verdict, TrustVerdict::Invalid);
}

#[test]
fn samples_must_be_known_only_where_a_limit_relies_on_them() {
    let mut run = healthy_open(6.0, 30);
    let check = expect(&judge(&run), CheckId::Samples, CheckState::Pass);
    assert!(check.figure.ends_with("carry p50, p90, p95; too few for p99, p99.9"), "{}", check.figure);
    run.header.spec.slo.marginal.push(marginal(0.99, Metric::Ttft, spec::Op::LessEq, 500.0));
    let trust = judge(&run);
    let check = expect(&trust, CheckId::Samples, CheckState::Unknown);
    assert!(check.advice.unwrap().starts_with("p99 needs "));
    assert_eq!(trust.verdict, TrustVerdict::Limited);
}

#[test]
fn server_view_is_not_hurt_by_late_sends() {
    let mut run = healthy_open(6.0, 30);
    // In the last eight seconds, so that most windows stay clean.
    for r in measured(&mut run).filter(|r| r.intended > Nanos::from_secs(24)) {
        shift(r, ms(60.0));
    }
    let analysis = Analysis { view: Some(View::Server), ..Analysis::default() };
    let trust = decide::trust::judge(&run, &measure(&run, &analysis));
    let check = trust.check(CheckId::SendLag).unwrap();
    assert!(check.failed() && check.caps.is_empty(), "{check:?}");
    // In user view 60 ms on 100 ms are too much to show.
    let caps = judge(&run).check(CheckId::SendLag).unwrap().caps.clone();
    assert!(
        caps.iter().any(|c| matches!(c, Cap::Withhold(Capped::Percentile(Metric::Ttft, 9_500)))),
        "{caps:?}"
    );
}

#[test]
fn an_empty_run_panics_nowhere_and_passes_nothing_that_must_be_known() {
    let mut run = healthy_open(6.0, 30);
    run.requests.clear();
    run.lanes.clear();
    run.machine.clear();
    run.clock.clear();
    run.footer.measure_to = run.footer.measure_from;
    let trust = judge(&run);
    assert_eq!(trust.verdict, TrustVerdict::Invalid);
    for id in [CheckId::SendLag, CheckId::Arrivals, CheckId::Failures, CheckId::Clock] {
        expect(&trust, id, CheckState::Unknown);
    }
}
