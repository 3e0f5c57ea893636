//! What the instrument itself did, by values worked out by hand.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use measure::instrument::{instrument, send_lag, spread, steal};
use measure::{Truth, Undefined, stamp_errors};
use record::{Connection, LaneSample, MachineSample, Request, Run};
use spec::{Nanos, Phase};

/// A run of these requests with one lane that used `busy_ms` in all.
fn run_of(requests: Vec<Request>, busy_ms: u64) -> Run {
    let mut run = run(requests);
    run.lanes = vec![LaneSample {
        lane: 0,
        from: ms(0),
        to: ms(250),
        busy: ms(busy_ms),
        heartbeat_max: ms(3),
        heartbeats: 50,
        in_flight: 0,
    }];
    run
}

#[test]
fn lag_is_this_sides_alone() {
    let mut late = shifted(request(&[(10, 1)]), ms(100));
    late.write_begin = Some(ms(109));
    assert_eq!(send_lag(&late), Some(ms(9)));
    // A cap let it go at 102, and 4 of the 7 ms since then went into handshakes.
    late.admitted = Some(ms(102));
    late.connection = Some(Connection {
        id: 0,
        reused: false,
        connect: Some(ms(1)),
        tls: Some(ms(3)),
        ahead: false,
        stale: 0,
    });
    assert_eq!(send_lag(&late), Some(ms(3)));
    assert_eq!(send_lag(&shed()), None);
}

#[test]
fn percentiles_need_their_samples() {
    assert_eq!(spread(Vec::new()), None);
    let five = spread((1..=5).map(Nanos).collect()).unwrap();
    assert_eq!((five.n, five.p50_ns, five.max_ns), (5, None, 5));
    // 1..=401 by the linear rule: rank p · 400 + 1.
    let many = spread((1..=401).rev().map(Nanos).collect()).unwrap();
    assert_eq!((many.p50_ns, many.p99_ns, many.p99_9_ns, many.max_ns), (Some(201), Some(397), None, 401));
}

#[test]
fn processor_time_is_shared_out_over_requests_and_events() {
    let streamed = || request(&[(10, 1), (20, 1), (30, 1)]);
    let mut warm = streamed();
    warm.phase = Phase::Warmup;
    // 6 ms over three requests, nine events; one that was never sent costs nothing.
    let seen = instrument(&run_of(vec![warm, streamed(), streamed(), shed()], 6));
    assert_eq!(seen.cpu_per_request_ns, Ok(2e6));
    assert!((seen.cpu_per_event_ns.unwrap() - 6e6 / 9.0).abs() < 1e-6);
    assert_eq!(seen.heartbeat_max, Ok(ms(3)));
    assert_eq!(seen.send_lag.unwrap().n, 2);
    // In one piece there are no events; a system that tells nothing is not a system that needs nothing.
    let mut whole = request(&[(10, 1)]);
    whole.streamed = false;
    assert_eq!(instrument(&run_of(vec![whole], 6)).cpu_per_event_ns, Err(Undefined::NotStreamed));
    assert_eq!(instrument(&run_of(vec![streamed()], 0)).cpu_per_request_ns, Err(Undefined::NotApplicable));
    let mut unwatched = run_of(vec![shed()], 0);
    unwatched.lanes.clear();
    let seen = instrument(&unwatched);
    assert_eq!(seen.send_lag, Err(Undefined::NotSent));
    assert_eq!(seen.heartbeat_max, Err(Undefined::NotApplicable));
}

#[test]
fn stamps_are_held_against_the_servers_log() {
    let us = Nanos::from_micros;
    // Written at 10.000, 20.000, 30.000 ms; the kernel stamps 20, 30, 25 µs later, the program sees
    // them 50, 90, 40 µs later. Sent at 0, received 15 µs later.
    let mut one = request(&[(10, 1), (20, 1), (30, 1)]);
    for (chunk, (kernel, user)) in one.chunks.edit().iter_mut().zip([(20, 50), (30, 90), (25, 40)]) {
        chunk.seen = chunk.arrival + us(user);
        chunk.arrival += us(kernel);
    }
    let truth = Truth { seq: 0, received: us(15), writes: vec![ms(10), ms(20), ms(30)] };
    let run = run_of(vec![one.clone()], 1);
    let errors = stamp_errors(&run, std::slice::from_ref(&truth));
    assert_eq!(errors.compared, 1);
    let (kernel, user) = (errors.stamp.kernel.unwrap(), errors.stamp.user.unwrap());
    assert_eq!((kernel.n, kernel.max_ns, user.n, user.max_ns), (3, 30_000, 3, 90_000));
    // 10.020 − (10.000 − 0.015) = 35 µs; the program's own 10.050 gives 65 µs.
    assert_eq!(errors.latency.kernel.unwrap().max_ns, 35_000);
    assert_eq!(errors.latency.user.unwrap().max_ns, 65_000);
    // Gaps: +10 and −5 µs; +40 and −50 µs.
    assert_eq!((errors.gap.kernel.unwrap().n, errors.gap.kernel.unwrap().max_ns), (2, 10_000));
    assert_eq!(errors.gap.user.unwrap().max_ns, 50_000);
    // Without kernel stamps there is no kernel error; joined events and unknown requests are left out.
    let mut plain = one.clone();
    plain.chunks.edit().iter_mut().for_each(|chunk| chunk.kernel = false);
    let errors = stamp_errors(&run_of(vec![plain], 1), std::slice::from_ref(&truth));
    assert!(errors.stamp.kernel.is_none() && errors.stamp.user.is_some());
    let joined = Truth { writes: vec![ms(10), ms(20)], ..truth.clone() };
    assert_eq!(stamp_errors(&run, &[joined]).compared, 0);
    assert_eq!(stamp_errors(&run, &[Truth { seq: 9, ..truth }]).compared, 0);
}

#[test]
fn steal_is_a_share_of_all_cores() {
    let at = |s: u64, steal_ms: u64| MachineSample {
        at: Nanos::from_secs(s),
        cores: 2,
        steal: ms(steal_ms),
        ..MachineSample::default()
    };
    // 0 and 200 ms taken of 2 s each.
    let shares: Vec<f64> = steal(&[at(0, 500), at(1, 500), at(2, 700)]).iter().map(|s| s.share()).collect();
    assert_eq!(shares, [0.0, 0.1]);
    assert!(steal(&[at(0, 0)]).is_empty());
}
