//! The overload guard: a queue that grows without end needs no percentile to be called a failure.

use spec::Nanos;

use super::runner::Seen;
use super::stats::{mean, median};

/// Arrivals without which nothing is said.
const ARRIVALS: usize = 100;
/// In-flight is taken as the mean over so many successive arrivals.
const AROUND: usize = 11;

/// Standard deviations of the arrivals' own count that growth must exceed: below its limit too a queue
/// has its waves, and the guard looks often.
const SURE: f64 = 4.0;

/// Whether the requests in flight grow with no end in sight, as known at `now`.
///
/// The filling of an empty server looks alike, so the first quarter of the arrivals and three median
/// latencies do not count. What has ended so far came when the server was emptier, so its median is too
/// low; `full` is what is in flight in equilibrium at this load by the ramp, and Little's law makes a
/// latency of that. Beyond that the growth must be a share of what arrived, larger than chance
/// makes it (the arrivals' own spread, `cv` of the gaps), present in both halves, large against
/// where it began, and go beyond what fills the server.
pub(super) fn diverges(requests: &[Seen], now: Nanos, cv: f64, full: f64) -> bool {
    let arrived = requests.partition_point(|r| r.intended <= now);
    let requests = &requests[..arrived];
    let mut latencies: Vec<f64> = requests
        .iter()
        .filter_map(|r| {
            r.end.filter(|end| *end <= now).map(|end| end.saturating_since(r.intended).as_secs_f64())
        })
        .collect();
    let Some(latency) = median(&mut latencies) else { return false };
    let settled = Nanos::from_secs_f64(3.0 * latency);
    let from = (arrived / 4)
        .max(requests.partition_point(|r| r.intended <= settled))
        // Three latencies, in arrivals.
        .max((3.0 * full).ceil() as usize);
    let arrivals = arrived - from.min(arrived);
    if arrivals < ARRIVALS {
        return false;
    }
    let found = found_in_flight(requests, now);
    let around = |middle: usize| {
        let low = middle.saturating_sub(AROUND / 2).min(arrived - AROUND);
        mean(&found[low..low + AROUND])
    };
    let (begin, middle, end) = (around(from + AROUND / 2), around(from + arrivals / 2), around(arrived));
    let (a, growth) = (arrivals as f64, end - begin);
    growth > 0.04 * a
        && growth > SURE * (a * (cv * cv).max(1.0)).sqrt()
        && middle - begin >= growth / 4.0
        && end - middle >= growth / 4.0
        && end > 1.5 * begin.max(full)
}

/// What each request found in flight when it was intended.
fn found_in_flight(requests: &[Seen], now: Nanos) -> Vec<f64> {
    let mut ends: Vec<Nanos> = requests.iter().filter_map(|r| r.end).filter(|end| *end <= now).collect();
    ends.sort_unstable();
    let mut gone = 0;
    requests
        .iter()
        .enumerate()
        .map(|(i, r)| {
            while ends.get(gone).is_some_and(|end| *end <= r.intended) {
                gone += 1;
            }
            (i - gone.min(i)) as f64
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A single server of 20 ms, constant arrivals at `rate`.
    fn fifo(rate: f64, n: usize) -> Vec<Seen> {
        let mut free = 0.0_f64;
        (0..n)
            .map(|i| {
                let at = i as f64 / rate;
                free = free.max(at) + 0.02;
                let end = Some(Nanos::from_secs_f64(free));
                Seen { intended: Nanos::from_secs_f64(at), end, ok: true, ..Seen::default() }
            })
            .collect()
    }

    fn at_last(requests: &[Seen]) -> Nanos {
        requests.last().map_or(Nanos::ZERO, |r| r.intended)
    }

    #[test]
    fn above_the_limit_the_queue_diverges_and_below_it_does_not() {
        let over = fifo(75.0, 1500);
        assert!(diverges(&over, at_last(&over), 1.0, 1.0));
        let under = fifo(49.0, 1500);
        assert!(!diverges(&under, at_last(&under), 1.0, 1.0));
    }

    #[test]
    fn too_few_arrivals_say_nothing() {
        let over = fifo(100.0, 120);
        assert!(!diverges(&over, at_last(&over), 1.0, 1.0));
    }

    /// Latency 10 s at 100/s: in flight climbs to 1,000 and stays.
    #[test]
    fn filling_an_empty_server_is_no_overload() {
        let requests: Vec<Seen> = (0..900)
            .map(|i| Nanos::from_millis(10 * i))
            .map(|at| Seen { intended: at, end: Some(at + Nanos::from_secs(4)), ok: true, ..Seen::default() })
            .collect();
        for n in [200, 400, 600, 900] {
            assert!(!diverges(&requests[..n], requests[n - 1].intended, 1.0, 0.0), "{n}");
        }
    }

    /// 40/s; the latency climbs from 1 s to 5 s within 7 s and stays there, as a batch does that fills:
    /// 200 are in flight then, and that is where it ends.
    #[test]
    fn a_batch_that_fills_slowly_is_no_overload() {
        let requests: Vec<Seen> = (0..1500)
            .map(|i| f64::from(i) / 40.0)
            .map(|at| (at, at + (1.0 + 0.6 * (at - 5.0)).clamp(1.0, 5.0)))
            .map(|(at, end)| Seen {
                intended: Nanos::from_secs_f64(at),
                end: Some(Nanos::from_secs_f64(end)),
                ok: true,
                ..Seen::default()
            })
            .collect();
        let alarm = |full: f64| {
            let mut looks = (200..1500).step_by(50);
            looks.any(|n| diverges(&requests[..n], requests[n - 1].intended, 1.0, full))
        };
        assert!(!alarm(200.0));
        // Without the ramp's word it looks like overload.
        assert!(alarm(0.0));
    }
}
