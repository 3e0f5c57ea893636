//! A wall clock that is set while a run goes on: stamps of that spell fall back to the program's own, no duration
//! runs backwards, and the verdict says so. The run is a real one, heard again by clocks that jump.

use std::sync::Arc;

use clock::{Clock, ClockSource, OffsetPair, VirtualClock, WallMap};
use decide::{CheckId, CheckState, RunReport, TrustVerdict};
use record::{Chunk, ClockSample, Run};
use spec::Nanos;
use wire::io::LaneTime;

use crate::harness::{recorded, run};

/// Between two comparisons of the clocks, as in a run.
const COMPARED: Nanos = Nanos::from_millis(100);
const WALL: i64 = 1_700_000_000_000_000_000;

/// The run with every read stamped again; at `at` the wall clock is set by `by` nanoseconds.
fn heard_again(run: &Run, at: Nanos, by: i64) -> Run {
    let source = VirtualClock::new(WALL);
    let clock = Clock::with_origin(0);
    let map = Arc::new(WallMap::new(OffsetPair::measure(&source)));
    let time = LaneTime::new(clock, Arc::clone(&map), true);

    let mut reads: Vec<(Nanos, usize, usize, Chunk)> = Vec::new();
    for (i, request) in run.requests.iter().enumerate() {
        reads.extend(request.chunks.iter().enumerate().map(|(k, chunk)| (chunk.arrival, i, k, chunk)));
    }
    reads.sort_by_key(|(arrival, ..)| *arrival);
    let end = reads.last().map(|read| read.0 + COMPARED).expect("reads");
    let mut out = run.clone();
    let mut heard: Vec<Vec<Chunk>> = run.requests.iter().map(|_| Vec::new()).collect();
    out.clock.clear();

    let (mut reads, mut compare, mut stepped) = (reads.into_iter().peekable(), Nanos::ZERO, false);
    loop {
        let next = reads.peek().map_or(Nanos::MAX, |read| read.0);
        let due = next.min(compare).min(if stepped { Nanos::MAX } else { at });
        if due > end {
            break;
        }
        source.advance(due.saturating_since(source.now()));
        if !stepped && due == at {
            stepped = true;
            source.step_wall(by);
        } else if due == compare {
            let pair = OffsetPair::measure(&source);
            map.observe(pair);
            let offset_ns = pair.origin_wall_ns(&clock);
            out.clock.push(ClockSample { at: pair.at(&clock), offset_ns, width: pair.width });
            compare += COMPARED;
        } else if let Some((arrival, i, _, chunk)) = reads.next() {
            // The socket was empty half a millisecond before, and the poll before it ended then.
            let empty = arrival.0.saturating_sub(500_000);
            let stamp = time.stamp(chunk.seen.0, Some(source.realtime_ns()), empty, empty, chunk.read);
            let (arrival, seen) = (stamp.arrival, stamp.seen);
            heard[i].push(Chunk { arrival, seen, earliest: stamp.earliest, kernel: stamp.kernel, ..chunk });
        }
    }
    for (request, chunks) in out.requests.iter_mut().zip(heard) {
        request.chunks = chunks.into();
    }
    out
}

#[test]
fn a_wall_clock_that_is_set_costs_the_kernel_stamps_of_a_moment_and_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    run(
        folder.path(),
        &[
            "sim://fixed?ttft=20ms&tpot=4ms",
            "--rate",
            "20",
            "--duration",
            "4s",
            "--osl",
            "16",
            "--warmup",
            "none",
        ],
    );
    let original = recorded(folder.path());
    // In the middle of an answer, so that its reads lie on both sides.
    let middle = &original.requests[original.requests.len() / 2];
    let at = middle.chunks.get(4).expect("a long answer").arrival + Nanos(1);

    let calm = heard_again(&original, at, 0);
    assert!(calm.requests.iter().flat_map(|r| r.chunks.iter()).all(|c| c.kernel));
    let report = |run: &Run| RunReport::build(run, &run.header.spec.analysis);
    let before = report(&calm);
    let state = |report: &RunReport, id| report.trust.check(id).expect("a check").state;
    assert_eq!(state(&before, CheckId::Clock), CheckState::Pass);

    for by in [5_000_000_000_i64, -5_000_000_000, 3_000_000, -300_000_000] {
        let run = heard_again(&original, at, by);
        let mut own = 0;
        for (request, calm) in run.requests.iter().zip(&calm.requests) {
            let written = request.write_begin.expect("sent");
            let mut last = written;
            assert_eq!(request.chunks.len(), calm.chunks.len());
            for (chunk, calm) in request.chunks.iter().zip(calm.chunks.iter()) {
                assert!(chunk.arrival >= last, "step of {by}: {chunk:?} before {last:?}");
                assert!(chunk.earliest <= chunk.arrival && chunk.arrival <= chunk.seen, "{chunk:?}");
                // A stamp that the step could have spoilt is the program's own, late by its lag alone.
                assert!(chunk.arrival == calm.arrival || chunk.arrival == chunk.seen, "{chunk:?}");
                if !chunk.kernel {
                    own += 1;
                    assert!(
                        chunk.seen >= at && calm.arrival <= at + COMPARED + COMPARED,
                        "{chunk:?} at {at:?}"
                    );
                }
                last = chunk.arrival;
            }
        }
        assert!(own > 0, "a step of {by} must not go unnoticed");
        let after = report(&run);
        assert_eq!(state(&after, CheckId::Clock), CheckState::Fail, "step of {by}");
        let check = after.trust.check(CheckId::Clock).expect("a check");
        assert!(check.figure.starts_with("1\u{a0}step"), "{}", check.figure);
        assert!(!check.is_grave(), "durations do not come from the wall clock: {check:?}");
        assert_ne!(after.trust.verdict, TrustVerdict::Valid);
        // The numbers before any check takes them away: other work may have disturbed the run itself.
        let ttft = |run: &Run| {
            let measures = measure::measure(run, &run.header.spec.analysis);
            let median =
                measures.metrics[&spec::Metric::Ttft].percentile(0.5).and_then(measure::Figure::value);
            median.expect("a median")
        };
        let moved = (ttft(&run) - ttft(&calm)).abs();
        assert!(moved < 0.02 * ttft(&calm), "step of {by} moved the median TTFT by {moved} ns");
    }
}
