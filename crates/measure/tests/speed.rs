//! Large records are measured in seconds.

mod common;

use common::*;
use measure::{measure, pictures};
use spec::{Analysis, Nanos, Slo};

/// 100,000 requests of 64 chunks must take at most 3 s in an optimised build; here a tenth of them,
/// in a queue that grows, where autocorrelations reach far. The limit on time is that of the test
/// runner: the sums below are what is checked. `MEASURE_REQUESTS` sets another size.
#[test]
fn many_requests() {
    let count: u64 = std::env::var("MEASURE_REQUESTS").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let chunks: Vec<(u64, u32)> = (0..64).map(|i| (100 + 10 * i, 1)).collect();
    let mut requests = repeated(count, 10, &chunks);
    for (i, r) in requests.iter_mut().enumerate() {
        let late = Nanos((i as u64 * 1_000_003) % 7_000_000 + i as u64 * 20_000);
        for chunk in r.chunks.edit().iter_mut() {
            chunk.arrival += late;
        }
        r.closed = r.closed.map(|at| at + late);
    }
    let to = ms(10 * count);
    let run = run_with(requests, (Nanos::ZERO, to), open(100.0), Slo::default());
    let measures = measure(&run, &Analysis::default());
    assert_eq!(measures.counts.ok, count);
    assert_eq!(measures.tokens.output, 64 * count);
    assert_eq!(measures.metrics[&spec::Metric::Itl].n, 63 * count);
    assert!(!pictures(&run, &measures).quantiles.is_empty());
}
