//! The search against simulated servers whose limit is known.
#![allow(missing_docs, clippy::unwrap_used)]

mod client;
mod gaps;
mod rows;
mod servers;
mod table;
mod tiers;
mod truth;

use std::sync::Mutex;

use decide::capacity::{Needs, Verdict, search};
use rows::{Expect, ROWS, Row};
use table::run;

fn row(name: &str) -> &'static Row {
    ROWS.iter().find(|row| row.name == name).unwrap()
}

/// How the names of the second half of the rows begin.
const OTHERS: &str = "others:";
/// Seeds of each row here; the whole table has more (docs/calibration.md).
const SEEDS: u64 = 6;

/// The smallest count out of `n` that a method with a true share of `p` reaches in 99 of 100 tries.
fn least(n: u64, p: f64) -> u64 {
    (0..=n).find(|k| measure::special::binomial_cdf(*k, n, p) > 0.01).unwrap_or(n)
}

/// Searches rows on two threads and holds each against what it must show, and all together.
fn hold(rows: &[&'static Row]) {
    let next = Mutex::new(rows.iter());
    let totals = Mutex::new((0, 0));
    let worker = || {
        while let Some(row) = { next.lock().unwrap().next() } {
            // Other seeds than those that the constants were chosen with.
            let o = run(row, 5_000..5_000 + SEEDS);
            let said =
                format!("{}: {} of {} hold, {} narrow, {} off", row.name, o.held, o.seeds, o.narrow, o.off);
            let wanted = match row.expect {
                Expect::Bracket { coverage, .. } => coverage,
                Expect::Unstable(share) => share,
                Expect::Unmet | Expect::NotReached => 0.98,
            };
            assert!(o.expected >= least(o.seeds, wanted), "{said}");
            if let Expect::Bracket { narrow, .. } = row.expect {
                assert!(o.off <= 1 && o.narrow >= least(o.seeds, narrow), "{said}");
                let mut totals = totals.lock().unwrap();
                totals.0 += o.held;
                totals.1 += o.seeds;
            }
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(worker);
        worker();
        other.join().unwrap();
    });
    let (held, all) = *totals.lock().unwrap();
    assert!(held >= least(all, 0.94), "{held} of {all} brackets hold the truth");
}

#[test]
fn brackets_hold_the_truth() {
    let rows: Vec<&Row> = ROWS.iter().filter(|r| !r.name.starts_with(OTHERS)).collect();
    hold(&rows);
}

#[test]
fn brackets_hold_the_truth_of_other_servers() {
    let rows: Vec<&Row> = ROWS.iter().filter(|r| r.name.starts_with(OTHERS)).collect();
    hold(&rows);
}

#[test]
fn brackets_are_narrow_and_cheap() {
    // (row, share of narrow brackets, probes, requests): medians.
    let wanted = [
        ("fifo, Poisson, p95", 0.9, 11.0, 12e3),
        ("fifo, Poisson, p99", 0.9, 11.0, 30e3),
        ("batching, closed, p95", 0.9, 9.0, 8e3),
        ("batching, Poisson, p95", 0.8, 14.0, 25e3),
        ("cliff at 300, closed", 0.9, 9.0, 15e3),
        ("tiny, 0.39/s", 0.9, 11.0, 12e3),
    ];
    for (name, narrow, probes, requests) in wanted {
        let o = run(row(name), 6_000..6_006);
        assert!(o.narrow >= least(6, narrow), "{name}: {} of 6 narrow", o.narrow);
        assert!(o.probes <= probes && o.requests <= requests, "{name}: {} probes, {}", o.probes, o.requests);
    }
}

/// 15 % noise between runs on a flat curve: no honest search of a dozen probes resolves it.
#[test]
fn noise_between_runs_is_told_with_what_it_would_take() {
    let row = row("flat, 15 % noise between runs");
    let mut told = 0;
    for seed in 0..4 {
        let answer = search(&row.settings(seed), &mut row.runner(), &mut |_| {});
        assert_eq!(answer.verdict, Verdict::Unresolved, "{}", answer.sentence);
        told += u32::from(matches!(answer.needs, Some(Needs::Repeats { repeats }) if repeats > 30));
    }
    assert!(told >= 3, "{told} of 4 say that it takes repeats");
}

/// Two limits at once: each has its own crossing, and the smaller one is the answer.
#[test]
fn the_limit_that_is_crossed_first_is_named() {
    let row = row("others: batching, p95 of TTFT and of TPOT");
    let answer = search(&row.settings(1), &mut row.runner(), &mut |_| {});
    assert_eq!(answer.limited_by.as_deref(), Some("p95(tpot)<=12ms"), "{}", answer.sentence);
    assert_eq!(answer.curves.len(), 2);
    // TTFT alone is crossed at 33.84.
    assert!(answer.curves[0].low < 33.84 && answer.curves[0].crossing > answer.curves[1].crossing);
    assert!(answer.curves[1].binds > 0.9);
}

/// The truths of the rows come from `truth`: a cheap one is found again.
#[test]
fn a_cached_truth_is_found_again() {
    let row = row("fifo, Poisson, p95");
    let found = truth::crossing(row, 10.0, 60.0, 200_000);
    assert!((found / row.truth.unwrap() - 1.0).abs() < 0.01, "{found}");
}
