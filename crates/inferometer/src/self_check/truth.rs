//! The engine's own log of what it received and wrote, and when.

use std::path::Path;

use anyhow::{Context, Result};
use measure::Truth;
use record::Run;
use sim::TruthRow;
use spec::Nanos;

/// The rows of a run's requests, on the run's clock. The last line may be cut: the engine ends with
/// its run.
pub fn read(log: &Path, run: &Run) -> Result<Vec<Truth>> {
    let text = std::fs::read_to_string(log)
        .with_context(|| format!("cannot read the engine's log in {}", log.display()))?;
    let origin = run.header.environment.monotonic_origin_ns;
    Ok(text
        .lines()
        .filter_map(|line| serde_json::from_str::<TruthRow>(line).ok())
        .filter_map(|row| on_our_clock(&row, origin))
        .collect())
}

fn on_our_clock(row: &TruthRow, origin: u64) -> Option<Truth> {
    // Our ids end in the position in the plan.
    let seq = row.request_id.rsplit('-').next()?.parse().ok()?;
    let at = |ns: u64| Nanos(ns.saturating_sub(origin));
    // A write of several tokens is so many events in one.
    let writes =
        row.writes.iter().flat_map(|(ns, tokens)| std::iter::repeat_n(at(*ns), *tokens as usize)).collect();
    Some(Truth { seq, received: at(row.received_ns), writes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_put_on_the_runs_clock() {
        let row = TruthRow {
            request_id: "2026-11-30T10-15-00Z-fixed-c64-17".to_owned(),
            received_ns: 1_500,
            writes: vec![(1_600, 0), (2_000, 1), (3_000, 2), (3_100, 0)],
            ..TruthRow::default()
        };
        let writes = vec![Nanos(1_000), Nanos(2_000), Nanos(2_000)];
        assert_eq!(on_our_clock(&row, 1_000), Some(Truth { seq: 17, received: Nanos(500), writes }));
        assert_eq!(on_our_clock(&TruthRow { request_id: "probe".to_owned(), ..row }, 0), None);
    }
}
