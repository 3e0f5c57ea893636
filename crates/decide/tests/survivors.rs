//! What was lost, never sent, or held up here must not make a number better, nor the server worse.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use decide::{Cap, Capped, Check, CheckId, CheckState, Trust, TrustVerdict};
use measure::measure;
use record::{FailureClass, Run, State, Stopped};
use spec::{Analysis, Extent};

fn judge(run: &Run) -> Trust {
    decide::trust::judge(run, &measure(run, &Analysis::default()))
}

fn check(trust: &Trust, id: CheckId) -> &Check {
    trust.check(id).unwrap()
}

#[test]
fn requests_that_a_kill_or_a_full_disk_lost_are_missing() {
    for stopped in [Stopped::Killed, Stopped::WriteError] {
        // 180 requests are there. One more is below 1 %, two are beyond it, ten beyond 5 %.
        for (lost, state, verdict) in [
            (1, CheckState::Pass, TrustVerdict::Valid),
            (2, CheckState::Fail, TrustVerdict::Limited),
            (10, CheckState::Fail, TrustVerdict::Invalid),
        ] {
            let mut run = healthy_open(6.0, 30);
            let there = measured(&mut run).count();
            assert!((170..190).contains(&there), "{there}");
            run.footer.stopped = stopped;
            run.footer.lost = lost;
            let trust = judge(&run);
            let books = check(&trust, CheckId::Bookkeeping);
            assert_eq!((books.state, trust.verdict), (state, verdict), "{lost} lost: {books:#?}");
            assert!(books.figure.starts_with(&format!("{lost}\u{a0}request")), "{}", books.figure);
            assert_eq!(books.caps.contains(&Cap::Withhold(Capped::Slo)), lost > 1);
        }
    }
}

#[test]
fn fewer_requests_than_users_never_make_the_load() {
    let mut run = healthy_closed(4, 30);
    run.header.spec.phases.measure = Extent::Requests(3);
    let trust = judge(&run);
    let users = check(&trust, CheckId::InFlight);
    assert_eq!(users.state, CheckState::Fail);
    assert!(users.advice.as_ref().unwrap().contains("at least 16 requests (-n)"), "{users:#?}");
    assert!(users.caps.contains(&Cap::Flag(Capped::Throughput)));
}

#[test]
fn a_frozen_client_takes_throughput_from_a_closed_loop_only() {
    let caps = |mut run: Run, stall: f64| {
        run.lanes[40].heartbeat_max = ms(stall);
        let trust = judge(&run);
        let stalled = check(&trust, CheckId::LaneStall);
        assert_eq!(stalled.state, CheckState::Fail);
        stalled.caps.contains(&Cap::Flag(Capped::Throughput))
    };
    // 1 % of 30 s is 300 ms.
    assert!(caps(healthy_closed(4, 30), 2_000.0) && caps(healthy_closed(4, 30), 301.0));
    assert!(!caps(healthy_closed(4, 30), 299.0) && !caps(healthy_open(6.0, 30), 2_000.0));
}

#[test]
fn users_whose_requests_fail_at_once_are_not_this_client_s_fault() {
    let mut run = healthy_closed(4, 30);
    for request in measured(&mut run).filter(|r| r.seq % 2 == 0) {
        request.state = State::Failed { class: FailureClass::Connect, detail: "refused".to_owned() };
        request.chunks = Vec::new().into();
        (request.headers, request.done) = (None, None);
        request.closed = request.write_begin;
    }
    let trust = judge(&run);
    let users = check(&trust, CheckId::InFlight);
    assert_eq!(users.state, CheckState::Fail, "{users:#?}");
    assert!(
        users.advice.as_ref().unwrap().contains("requests that failed left the rest without one"),
        "{users:#?}"
    );
    assert_eq!(users.caps, [Cap::Flag(Capped::Throughput)]);
}
