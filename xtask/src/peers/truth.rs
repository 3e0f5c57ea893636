//! What the server's own log says of a load.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Pair;

/// Of all requests of one load.
pub struct Truth {
    pub requests: usize,
    /// From the reception of the request to the first token's write.
    pub ttft: Pair,
    /// Time for each token after the first, of each request.
    pub tpot: Pair,
    /// Requests a second, between the first and the last.
    pub rate: f64,
    /// Coefficient of variation of the gaps between receptions.
    pub gap_cv: f64,
}

impl Truth {
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let rows = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
        Self::of(&rows.with_context(|| path.display().to_string())?)
    }

    fn of(rows: &[Value]) -> Result<Self> {
        let (mut ttft, mut tpot, mut received) = (Vec::new(), Vec::new(), Vec::new());
        // A client's own warm-up or probe of one token is no part of the load.
        for row in rows.iter().filter(|row| row["status"] == 200 && row["output_tokens"].as_u64() > Some(1)) {
            let at = row["received_ns"].as_f64().context("a moment")?;
            let writes = row["writes"].as_array().context("a list")?;
            let written: Vec<(f64, f64)> = writes
                .iter()
                .filter_map(|w| Some((w[0].as_f64()?, w[1].as_f64()?)))
                .filter(|(_, tokens)| *tokens > 0.0)
                .collect();
            let (Some(first), Some(last)) = (written.first(), written.last()) else { continue };
            let tokens: f64 = written.iter().map(|(_, tokens)| tokens).sum();
            received.push(at);
            ttft.push((first.0 - at) / 1e6);
            tpot.push((last.0 - first.0) / 1e6 / (tokens - 1.0));
        }
        if received.len() < 2 {
            bail!("the server got {} requests", received.len());
        }
        received.sort_by(f64::total_cmp);
        let gaps: Vec<f64> = received.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        Ok(Self {
            requests: received.len(),
            ttft: pair(ttft),
            tpot: pair(tpot),
            rate: 1e9 / mean,
            gap_cv: variance.sqrt() / mean,
        })
    }
}

/// Median and 99th percentile, by nearest rank.
fn pair(mut values: Vec<f64>) -> Pair {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() as f64 * share).ceil() as usize).max(1) - 1];
    Pair { p50: at(0.5), p99: at(0.99) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_three_requests_and_a_probe() {
        let row = |at: u64, first: u64, tokens: u64| {
            serde_json::json!({"status": 200, "received_ns": at, "output_tokens": tokens,
                "writes": [[at, 0], [at + first, 1], [at + first + 10_000_000 * (tokens - 1), tokens - 1], [at, 0]]})
        };
        let rows = [
            row(0, 5, 1),
            row(0, 100_000_000, 3),
            row(10_000_000, 101_000_000, 3),
            row(20_000_000, 102_000_000, 3),
        ];
        let truth = Truth::of(&rows).expect("three requests");
        assert_eq!(truth.requests, 3);
        assert!((truth.ttft.p50 - 101.0).abs() < 1e-9 && (truth.ttft.p99 - 102.0).abs() < 1e-9);
        assert!((truth.tpot.p50 - 10.0).abs() < 1e-9);
        assert!((truth.rate - 100.0).abs() < 1e-9 && truth.gap_cv.abs() < 1e-9);
    }
}
