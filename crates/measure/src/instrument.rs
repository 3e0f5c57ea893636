//! What the instrument itself does in a run: how late it sends, what a lane's processor does for a
//! request and for an event, and, against a server's own log, how far its stamps are off
//! (definitions §10).

use std::collections::BTreeMap;

use record::{ByStamp, MachineSample, Request, Run, Spread};
use spec::{Nanos, PercentileRule, Phase};

use crate::estimate::{Defined, Undefined};
use crate::percentile::{needed, percentile};

/// What the lanes of one run did.
#[derive(Debug, Clone, PartialEq)]
pub struct Instrument {
    /// How late measured requests left ([`send_lag`]).
    pub send_lag: Defined<Spread>,
    /// Processor time of all lanes for each request sent, nanoseconds, streaming included.
    pub cpu_per_request_ns: Defined<f64>,
    /// Processor time of all lanes for each streamed event with output, nanoseconds, sending included.
    pub cpu_per_event_ns: Defined<f64>,
    /// Longest delay of a heartbeat on any lane.
    pub heartbeat_max: Defined<Nanos>,
}

/// From the records of a run.
pub fn instrument(run: &Run) -> Instrument {
    let measured = || run.requests.iter().filter(|request| request.phase == Phase::Measure);
    let lags = measured().filter_map(send_lag).collect();
    let busy: u64 = run.lanes.iter().map(|sample| sample.busy.0).sum();
    let sent = run.requests.iter().filter(|request| request.write_begin.is_some()).count();
    let streamed = run.requests.iter().filter(|request| request.streamed);
    let events: usize = streamed.map(|request| request.chunks.len()).sum();
    // A lane that runs at all uses some time: none means that the system does not tell.
    let per = |n: usize, none: Undefined| match (busy, n) {
        (0, _) => Err(Undefined::NotApplicable),
        (_, 0) => Err(none),
        (busy, n) => Ok(busy as f64 / n as f64),
    };
    let beats = run.lanes.iter().filter(|sample| sample.heartbeats > 0);
    Instrument {
        send_lag: spread(lags).ok_or(Undefined::NotSent),
        cpu_per_request_ns: per(sent, Undefined::NotSent),
        cpu_per_event_ns: per(events, Undefined::NotStreamed),
        heartbeat_max: beats.map(|s| s.heartbeat_max).max().ok_or(Undefined::NotApplicable),
    }
}

/// How late a request left for which this side is to blame: from the moment it was due (or a cap
/// let it go) to its first byte, without the handshakes, which are the server's and the network's.
pub fn send_lag(request: &Request) -> Option<Nanos> {
    let due = request.intended.max(request.admitted.unwrap_or(Nanos::ZERO));
    let handshake: Nanos = request.connection.and_then(|c| c.waited()).unwrap_or(Nanos::ZERO);
    let late = request.write_begin?.saturating_since(due);
    Some(late.saturating_since(handshake))
}

/// Five figures of a list; percentiles from as many values as definitions §4 asks for.
pub fn spread(values: Vec<Nanos>) -> Option<Spread> {
    let mut values: Vec<f64> = values.into_iter().map(|value| value.0 as f64).collect();
    values.sort_unstable_by(f64::total_cmp);
    let max = *values.last()?;
    let n = values.len() as u64;
    let at = |p: f64| {
        let value = (n >= needed(p)).then(|| percentile(&values, p, PercentileRule::Linear))?;
        value.map(|ns| ns.round() as u64)
    };
    Some(Spread { n, p50_ns: at(0.5), p99_ns: at(0.99), p99_9_ns: at(0.999), max_ns: max as u64 })
}

/// What a server's own log says of one request, on the run's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truth {
    /// Position in the plan.
    pub seq: u64,
    /// When the request had arrived.
    pub received: Nanos,
    /// Just before each event with output was written, in order.
    pub writes: Vec<Nanos>,
}

/// How far a run's stamps are off from the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StampErrors {
    /// |receive stamp − write|, one value for each event.
    pub stamp: ByStamp,
    /// |time to first token from the first byte written − the server's|, one value for each request.
    pub latency: ByStamp,
    /// |gap − the server's gap|, one value for each pair of events.
    pub gap: ByStamp,
    /// Requests compared.
    pub compared: u64,
}

/// Compares measured requests that ended well with the truth. A request whose events were joined or
/// split on the way cannot be compared and is left out.
pub fn stamp_errors(run: &Run, truths: &[Truth]) -> StampErrors {
    let truths: BTreeMap<u64, &Truth> = truths.iter().map(|truth| (truth.seq, truth)).collect();
    let mut errors = StampErrors::default();
    let mut lists: [Vec<Nanos>; 6] = Default::default();
    let [stamp, user_stamp, latency, user_latency, gap, user_gap] = &mut lists;
    let measured = run.requests.iter().filter(|r| r.phase == Phase::Measure && r.state.is_ok());
    for request in measured {
        let (Some(truth), Some(sent)) = (truths.get(&request.seq), request.write_begin) else { continue };
        if truth.writes.len() != request.chunks.len() || truth.writes.is_empty() {
            continue;
        }
        errors.compared += 1;
        let kernel: Option<Vec<Nanos>> =
            request.chunks.iter().map(|chunk| chunk.kernel.then_some(chunk.arrival)).collect();
        let user: Vec<Nanos> = request.chunks.iter().map(|chunk| chunk.seen).collect();
        compare(&user, sent, truth, user_stamp, user_latency, user_gap);
        if let Some(kernel) = kernel {
            compare(&kernel, sent, truth, stamp, latency, gap);
        }
    }
    let [stamp, user_stamp, latency, user_latency, gap, user_gap] = lists;
    let of = |kernel, user| ByStamp { kernel: spread(kernel), user: spread(user) };
    errors.stamp = of(stamp, user_stamp);
    errors.latency = of(latency, user_latency);
    errors.gap = of(gap, user_gap);
    errors
}

fn compare(
    stamps: &[Nanos],
    sent: Nanos,
    truth: &Truth,
    stamp: &mut Vec<Nanos>,
    latency: &mut Vec<Nanos>,
    gap: &mut Vec<Nanos>,
) {
    let apart = |a: Nanos, b: Nanos| Nanos(a.0.abs_diff(b.0));
    stamp.extend(stamps.iter().zip(&truth.writes).map(|(ours, theirs)| apart(*ours, *theirs)));
    latency.push(apart(stamps[0].saturating_since(sent), truth.writes[0].saturating_since(truth.received)));
    for (ours, theirs) in stamps.windows(2).zip(truth.writes.windows(2)) {
        gap.push(apart(ours[1].saturating_since(ours[0]), theirs[1].saturating_since(theirs[0])));
    }
}

/// What the hypervisor took between two samples of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steal {
    /// Processor time taken.
    pub taken: Nanos,
    /// Processor time that all cores had.
    pub capacity: Nanos,
}

impl Steal {
    /// Taken / capacity.
    pub fn share(&self) -> f64 {
        self.taken.0 as f64 / self.capacity.0.max(1) as f64
    }
}

/// Between each two samples, in order.
pub fn steal(machine: &[MachineSample]) -> Vec<Steal> {
    machine
        .windows(2)
        .filter_map(|pair| {
            let elapsed = pair[1].at.since(pair[0].at).filter(|d| d.0 > 0)?;
            Some(Steal {
                taken: pair[1].steal.saturating_since(pair[0].steal),
                capacity: Nanos(elapsed.0.saturating_mul(u64::from(pair[1].cores.max(1)))),
            })
        })
        .collect()
}
