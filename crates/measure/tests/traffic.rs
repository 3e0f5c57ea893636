//! Connections and targets, counted by hand.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::*;
use measure::{Undefined, connections, measure};
use record::Connection;
use spec::{Nanos, Phase, Targets};

/// Numbers 0 to 4, of 3, 4, 5, 6 and 7 tokens.
fn five() -> record::Run {
    let numbered = |seq: u64| {
        let mut request = shifted(request(&[(10, 1), (20, 2 + seq as u32)]), ms(100 * seq));
        request.seq = seq;
        request
    };
    run((0..5).map(numbered).collect())
}

fn connection(
    reused: bool,
    connect: Option<u64>,
    tls: Option<u64>,
    ahead: bool,
    stale: u32,
) -> Option<Connection> {
    Some(Connection { id: 0, reused, connect: connect.map(Nanos), tls: tls.map(Nanos), ahead, stale })
}

#[test]
fn connections_are_counted_over_the_whole_run() {
    let mut run = five();
    run.requests[0].phase = Phase::Warmup;
    run.requests[0].connection = connection(false, Some(100), Some(900), false, 0);
    run.requests[1].connection = connection(true, None, None, false, 0);
    run.requests[2].connection = connection(false, Some(300), None, true, 0);
    run.requests[3].connection = connection(false, Some(200), None, false, 1);
    run.requests[4].connection = None;
    let c = connections(&run);
    assert_eq!((c.opened, c.ahead, c.reused, c.stale), (3, 1, 1, 1));
    let connect = c.connect.unwrap();
    assert_eq!((connect.n, connect.max_ns), (3, 300));
    assert_eq!(c.tls.unwrap().max_ns, 900);
    run.requests[0].connection = None;
    assert_eq!(connections(&run).tls, Err(Undefined::NotApplicable));
}

#[test]
fn each_target_has_the_requests_of_its_turn() {
    let mut run = five();
    assert!(measure(&run, &run.header.spec.analysis).targets.is_empty());
    let two = ["http://a:1/?api_key=secret", "http://b:2"].map(|t| t.parse().unwrap());
    run.header.spec.target = Targets::new(two).unwrap();
    run.requests[3].state = record::State::Cancelled;
    let shares = measure(&run, &run.header.spec.analysis).targets;
    // Numbers 0, 2 and 4; 1 and 3.
    let counted = |i: usize| (shares[i].counts.offered, shares[i].counts.ok, shares[i].counts.cancelled);
    assert_eq!((counted(0), counted(1)), ((3, 3, 0), (2, 1, 1)));
    assert_eq!((shares[0].output_tokens, shares[1].output_tokens), (3 + 5 + 7, 4));
    assert!(!shares[0].target.contains("secret") && shares[1].target == "http://b:2");
}
