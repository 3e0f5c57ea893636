//! Many searches of one row, and what they come to.

use decide::capacity::{CapacityAnswer, Verdict, search};

use super::rows::{Expect, Row};

/// What many searches of a row came to. Shares are of seeds.
pub struct Outcome {
    pub seeds: u64,
    /// Brackets that hold the truth.
    pub held: u64,
    /// Brackets of at most 10 %, or two whole loads.
    pub narrow: u64,
    /// Called resolved without the truth inside.
    pub wrong: u64,
    /// Called resolved, the value more than 10 % away from the truth.
    pub off: u64,
    /// Ended with the verdict that the row expects, where it expects one.
    pub expected: u64,
    pub resolved: u64,
    pub width: f64,
    pub probes: f64,
    pub requests: f64,
    pub seconds: f64,
}

/// Searches the row with each seed.
pub fn run(row: &Row, seeds: std::ops::Range<u64>) -> Outcome {
    let (mut widths, mut probes, mut requests, mut seconds) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut out = Outcome {
        seeds: seeds.end - seeds.start,
        held: 0,
        narrow: 0,
        wrong: 0,
        off: 0,
        expected: 0,
        resolved: 0,
        width: 0.0,
        probes: 0.0,
        requests: 0.0,
        seconds: 0.0,
    };
    for seed in seeds {
        let answer = search(&row.settings(seed), &mut row.runner(), &mut |_| {});
        sound(&answer);
        let held = row.truth.is_some_and(|truth| holds(&answer, truth));
        let resolved = answer.verdict == Verdict::Resolved;
        let value = answer.value.filter(|_| resolved);
        out.held += u64::from(held);
        out.resolved += u64::from(resolved);
        out.narrow += u64::from(is_narrow(&answer));
        out.wrong += u64::from(resolved && row.truth.is_some() && !held);
        out.off += u64::from(row.truth.zip(value).is_some_and(|(t, v)| (v / t - 1.0).abs() > 0.1));
        out.expected += u64::from(match row.expect {
            Expect::Bracket { .. } => held,
            Expect::Unstable(_) => answer.verdict == Verdict::Unstable,
            Expect::Unmet => answer.verdict == Verdict::Unmet,
            Expect::NotReached => answer.verdict == Verdict::NotReached,
        });
        widths.push(answer.width().unwrap_or(f64::INFINITY));
        // The ramp counts as one.
        probes.push(answer.probes.len() as f64 + 1.0);
        requests.push(answer.requests as f64);
        seconds.push(answer.duration_ns as f64 / 1e9);
    }
    out.width = median(&mut widths);
    out.probes = median(&mut probes);
    out.requests = median(&mut requests);
    out.seconds = median(&mut seconds);
    out
}

/// Whether the bracket holds the truth. Of whole loads it does when the truth lies within it.
pub fn holds(answer: &CapacityAnswer, truth: f64) -> bool {
    answer.low.is_some_and(|low| low <= truth) && answer.high.is_some_and(|high| truth <= high)
}

fn is_narrow(answer: &CapacityAnswer) -> bool {
    let whole = answer.over != "rate";
    answer.width().is_some_and(|w| w <= 0.1)
        || whole && answer.low.zip(answer.high).is_some_and(|(low, high)| high - low <= 2.0)
}

/// What holds of every answer, whatever the server.
pub fn sound(answer: &CapacityAnswer) {
    if let Some(value) = answer.value {
        assert!(value.is_finite() && value > 0.0, "{answer:?}");
        assert!(answer.low.is_none_or(|low| low <= value), "{answer:?}");
        assert!(answer.high.is_none_or(|high| value <= high), "{answer:?}");
    }
    let json = serde_json::to_string(answer).expect("an answer is JSON");
    // serde_json writes what is not finite as null; none of these may be.
    let numbers =
        answer.curves.iter().flat_map(|c| [c.crossing, c.low, c.high, c.slope, c.run_noise, c.binds]);
    let points = answer.curves.iter().flat_map(|c| &c.points).flat_map(|p| [p.0, p.1]);
    assert!(numbers.chain(points).all(f64::is_finite), "{json}");
    assert!(answer.probes.iter().all(|p| p.load.is_finite() && p.load > 0.0), "{json}");
    assert!(!answer.sentence.is_empty());
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
