//! The truth of a row, from runs that no user would wait for. The rows cache what this finds.

use decide::capacity::{Ask, Kind, Look, Next, Over, Runner};
use spec::{Load, Nanos, Open, Rate, Span};

use super::rows::Row;

/// Share of misses in the long run at a load, of the criterion that misses most against its target,
/// as log-odds beyond the target.
pub fn beyond(row: &Row, load: f64, requests: u64, seed: u64) -> f64 {
    let mut runner = row.virtual_time();
    let load = match row.over() {
        Over::Rate { burstiness } => {
            Load::Open(Open { rate: Rate::new(load).expect("a rate"), burstiness, cap: None, ramp: None })
        }
        Over::Concurrency => closed(load, Nanos::ZERO),
        Over::Users { think } => closed(load, think),
    };
    let ask = Ask {
        number: 0,
        kind: Kind::Main,
        load,
        seed,
        max_requests: requests,
        max_time: Nanos(u64::MAX / 4),
    };
    let finished = runner
        .probe(&ask, &mut |_: Look<'_>| Next::Again { requests: u64::MAX, horizon: Nanos::from_secs(1) })
        .expect("a virtual server does not die");
    let kept = &finished.requests[requests as usize / 20..];
    let logit = |p: f64| (p.clamp(1e-9, 1.0 - 1e-9) / (1.0 - p.clamp(1e-9, 1.0 - 1e-9))).ln();
    row.criteria()
        .iter()
        .map(|c| {
            let values: Vec<f64> = kept.iter().filter_map(|r| c.verdict(r)).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            c.target().map_or(mean.ln(), |q| logit(mean) - logit(q))
        })
        .fold(f64::NEG_INFINITY, f64::max)
}

fn closed(load: f64, think: Nanos) -> Load {
    Load::Closed(spec::Closed { concurrency: load as u32, think: Span(think), start_over: Span(think) })
}

/// The crossing between two loads by bisection, the last steps each with another seed; of whole
/// loads the largest that holds.
pub fn crossing(row: &Row, mut low: f64, mut high: f64, requests: u64) -> f64 {
    if row.over().is_whole() {
        while high - low > 1.0 {
            let middle = ((low + high) / 2.0).floor();
            if beyond(row, middle, requests.min(20_000 + 200 * middle as u64), 7) <= 0.0 {
                low = middle
            } else {
                high = middle
            }
        }
        return low;
    }
    for step in 0..7 {
        let middle = (low * high).sqrt();
        if beyond(row, middle, requests / 4, 100 + step) <= 0.0 { low = middle } else { high = middle }
    }
    // A line through log-odds around it: no single run decides.
    let (a, b) = ((low * high).sqrt() * 0.97, (low * high).sqrt() * 1.03);
    let points: Vec<(f64, f64)> = (0..6)
        .map(|i| a * (b / a).powf(f64::from(i) / 5.0))
        .enumerate()
        .map(|(i, x)| (x.ln(), beyond(row, x, requests, 900 + i as u64)))
        .collect();
    let n = points.len() as f64;
    let (mx, my) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let slope = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum::<f64>()
        / points.iter().map(|p| (p.0 - mx).powi(2)).sum::<f64>();
    (mx - my / slope).exp()
}
