//! Second by second: what limited this side, in runs with one fault put in.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use decide::{Cause, CheckId, CheckState, ClientWindows, Trust, TrustVerdict};
use measure::measure;
use record::Run;
use spec::{Analysis, Nanos};

fn judge(run: &Run) -> Trust {
    decide::trust::judge(run, &measure(run, &Analysis::default()))
}

/// The seconds of the measurement (which begins at 2 s) that this cause limited.
fn seconds(client: &ClientWindows, cause: Cause) -> Vec<u64> {
    let hit = client.limited.iter().filter(|w| w.causes.contains(&cause));
    hit.map(|w| w.from_ns.0 / 1_000_000_000).collect()
}

fn only_cause(run: &Run, cause: Cause) -> Vec<u64> {
    let client = judge(run).client;
    assert_eq!(client.windows, 30);
    for other in Cause::ALL.into_iter().filter(|c| *c != cause) {
        assert_eq!(seconds(&client, other), Vec::<u64>::new(), "{other:?}");
    }
    seconds(&client, cause)
}

#[test]
fn a_clean_run_is_limited_in_no_second() {
    for run in [healthy_open(6.0, 30), healthy_closed(4, 30)] {
        let client = judge(&run).client;
        assert_eq!(client, ClientWindows { windows: 30, limited: Vec::new() });
        assert_eq!(client.words(), "kept up in all 30\u{a0}seconds");
    }
}

#[test]
fn each_cause_marks_its_own_seconds() {
    // Requests of two seconds leave 50 ms late: each of them, and each second, is told.
    let mut run = healthy_open(6.0, 30);
    let late = |r: &&mut record::Request| (10..12).contains(&(r.intended.0 / 1_000_000_000));
    measured(&mut run).filter(late).for_each(|r| shift(r, ms(50.0)));
    assert_eq!(only_cause(&run, Cause::SendLag), [10, 11]);
    // Late by 20 ms: no bound is raised by it, but it is not kept from the reader.
    let mut run = healthy_open(6.0, 30);
    measured(&mut run).filter(late).for_each(|r| shift(r, ms(20.0)));
    assert_eq!(only_cause(&run, Cause::SendLag), [10, 11]);

    // A lane that stood still for 50 ms across the border of two seconds touches both.
    let mut run = healthy_open(6.0, 30);
    let sample = run.lanes.iter_mut().find(|s| s.from == ms(6_750.0)).unwrap();
    (sample.heartbeat_max, sample.to) = (ms(50.0), ms(7_010.0));
    assert_eq!(only_cause(&run, Cause::LaneStall), [6, 7]);

    // A lane that used 60 % of its core in the fifth second.
    let mut run = healthy_open(6.0, 30);
    let in_fifth = |s: &&mut record::LaneSample| s.from >= ms(5_000.0) && s.to <= ms(6_000.0);
    run.lanes.iter_mut().filter(in_fifth).for_each(|s| s.busy = ms(150.0));
    assert_eq!(only_cause(&run, Cause::LaneBusy), [5]);

    // Everything heard in the eighth second was seen 12 ms late.
    let mut run = healthy_open(6.0, 30);
    let in_eighth = |c: &&mut record::Chunk| (8_000.0..8_980.0).contains(&(c.seen.0 as f64 / 1e6));
    for r in run.requests.iter_mut() {
        r.chunks.edit().iter_mut().filter(in_eighth).for_each(|c| c.seen += ms(12.0));
    }
    assert_eq!(only_cause(&run, Cause::ClientLag), [8]);
}

/// Cumulative counters of the machine that grow by `each` in second `at` and by `usual` in the others.
fn counter(at: u64, each: u64, usual: u64, second: u64) -> Nanos {
    Nanos(second * usual + if second > at { each.saturating_sub(usual) } else { 0 })
}

#[test]
fn the_machine_is_told_apart_by_what_it_did() {
    let remote = || {
        let mut run = healthy_open(6.0, 30);
        run.header.spec.target = spec::Target::Http("http://10.0.4.17:8000".to_owned()).into();
        run
    };
    let s = |at: Nanos| at.0 / 1_000_000_000;
    // 1.9 of two cores used by others in the second from 12 s on.
    let mut run = remote();
    run.machine.iter_mut().for_each(|m| m.busy = counter(12, 1_900_000_000, 300_000_000, s(m.at)));
    assert_eq!(only_cause(&run, Cause::OtherWork), [12]);
    // The same beside a server on these cores may be the server.
    run.header.spec.target = spec::Target::Http("http://127.0.0.1:8000".to_owned()).into();
    assert!(judge(&run).client.limited.is_empty());
    // 6 % of two cores stolen.
    let mut run = remote();
    run.machine.iter_mut().for_each(|m| m.steal = counter(12, 120_000_000, 0, s(m.at)));
    assert_eq!(only_cause(&run, Cause::Steal), [12]);
    // Lanes that wait 60 % of their time, 3 ms a turn, are limited whoever has the core.
    let mut run = healthy_open(6.0, 30);
    for m in &mut run.machine {
        m.lane_run = counter(12, 200_000_000, 80_000_000, s(m.at));
        m.lane_wait = counter(12, 300_000_000, 0, s(m.at));
        m.lane_slices = 100 * s(m.at);
    }
    assert_eq!(only_cause(&run, Cause::RunQueue), [12]);
}

#[test]
fn bundles_are_ours_only_where_reading_was_late() {
    // Four events in each read of the eighth second.
    let bundled = |late: f64| {
        let mut run = healthy_open(6.0, 30);
        for r in run.requests.iter_mut() {
            for group in r
                .chunks
                .edit()
                .chunks_mut(4)
                .filter(|g| (8_000.0..8_900.0).contains(&(g[0].seen.0 as f64 / 1e6)))
            {
                let (read, arrival) = (group[0].read, group[0].arrival);
                for chunk in group {
                    (chunk.read, chunk.arrival, chunk.seen) = (read, arrival, arrival + ms(late));
                }
            }
        }
        judge(&run).client
    };
    // The server or the path joined them.
    assert_eq!(seconds(&bundled(0.1), Cause::Coalesced), Vec::<u64>::new());
    // Reading was 9 ms late, with gaps of 10 ms.
    assert_eq!(seconds(&bundled(9.0), Cause::Coalesced), [8]);
}

#[test]
fn offered_twice_what_can_be_sent_names_the_ceiling_and_blames_no_server() {
    // 40 requests/s wanted, one leaves each 50 ms: 20/s. The queue is on this side.
    let mut run = healthy_open(40.0, 60);
    let mut free = Nanos::ZERO;
    for r in &mut run.requests {
        let at = r.intended.max(free);
        let lag = at.saturating_since(r.intended);
        shift(r, lag);
        free = at + ms(50.0);
    }
    run.footer.ended = run.requests.iter().filter_map(|r| r.closed).max().unwrap();
    watch_lanes(&mut run);
    let trust = judge(&run);
    assert_eq!(trust.verdict, TrustVerdict::Invalid);
    let arrivals = trust.check(CheckId::Arrivals).unwrap();
    assert!(arrivals.failed());
    let advice = arrivals.advice.clone().unwrap();
    assert!(advice.contains("ceiling is ") && advice.contains("req/s"), "{advice}");
    let said: f64 = advice.split("ceiling is ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((18.0..22.0).contains(&said), "{advice}");
    let lag = trust.check(CheckId::SendLag).unwrap();
    assert!(lag.failed() && lag.figure.contains("late"), "{lag:?}");
    assert_eq!(trust.check(CheckId::Overload).unwrap().state, CheckState::Unknown);
    assert!(seconds(&trust.client, Cause::SendLag).len() > 50);
    let words = trust.client.words();
    assert!(words.starts_with("the bottleneck in ") && words.contains("requests left late"), "{words}");
    // Nobody is said to have dropped anything or to be overloaded.
    let told = trust.checks.iter().filter(|c| c.failed()).map(|c| c.id).collect::<Vec<_>>();
    for id in [CheckId::Overload, CheckId::Failures, CheckId::Censored, CheckId::Bookkeeping] {
        assert!(!told.contains(&id), "{told:?}");
    }
}
