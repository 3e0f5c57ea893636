//! LoadGen's verdict: VALID if the run was long enough, of enough queries, within the limits, and if early
//! stopping lets the percentile be believed.

use crate::Scenario;
use crate::early;
use crate::effective::Effective;
use crate::stats::{Results, Spread};

/// What early stopping says of one kind of latency.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EarlyStopping {
    /// Whether the percentile may be believed.
    pub met: bool,
    /// LoadGen's words, lines parted by `\n`.
    pub text: String,
    /// SingleStream: the estimate of the percentile of the settings.
    pub single_stream: Option<i64>,
    /// SingleStream and MultiStream: the estimate of the percentile of MultiStream.
    pub multi_stream: Option<i64>,
}

/// LoadGen's verdict and the conditions that make it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The run lasted long enough.
    pub min_duration: bool,
    /// Enough queries went out.
    pub min_queries: bool,
    /// Enough samples were completed.
    pub min_samples: bool,
    /// Server: the percentiles kept their limits. `None` where there is no limit.
    pub latency: Option<bool>,
    /// Early stopping of the latency, where tokens are not timed.
    pub early: EarlyStopping,
    /// Of the time to first token and the time per output token, where tokens are timed.
    pub early_tokens: Option<(EarlyStopping, EarlyStopping)>,
    /// What LoadGen advises about the limits, lines parted by `\n * `.
    pub latency_advice: String,
    /// What LoadGen advises about the duration.
    pub duration_advice: &'static str,
}

/// What LoadGen says if too few queries or samples went by.
pub const QUERIES_ADVICE: &str = "The test exited early, before enough queries were issued.";

impl Verdict {
    /// Of a timed run.
    pub fn new(effective: &Effective, results: &Results) -> Self {
        let early_of = |spread: &Spread, limit: u64| early_stopping(effective, results, spread, limit);
        let asked = &effective.asked;
        let (early, early_tokens) = if !asked.use_token_latencies {
            (early_of(&results.latency, effective.target_latency.0), None)
        } else {
            let none = Spread::default();
            // Its second half is worked out only if the first one is met.
            let per_token = early_of(results.per_token.as_ref().unwrap_or(&none), asked.server_tpot_latency);
            let first = match per_token.met {
                true => early_of(results.first_token.as_ref().unwrap_or(&none), asked.server_ttft_latency),
                false => EarlyStopping::default(),
            };
            let both = EarlyStopping { met: per_token.met && first.met, ..EarlyStopping::default() };
            (both, Some((first, per_token)))
        };
        let (latency, latency_advice) = within_limits(effective, results);
        Self {
            min_duration: lasted_s(effective.scenario, results) >= effective.min_duration.as_secs_f64(),
            min_queries: results.queries_issued >= effective.min_query_count,
            min_samples: results.completed >= effective.min_sample_count,
            latency,
            early,
            early_tokens,
            latency_advice,
            duration_advice: duration_advice(effective.scenario),
        }
    }

    /// Whether early stopping is met by all kinds of latency.
    pub fn early_stopping(&self) -> bool {
        self.early.met
    }

    /// Whether the run is VALID. Errors in the log do not count, as in LoadGen.
    pub fn valid(&self) -> bool {
        let enough = self.min_duration && self.min_queries && self.min_samples;
        enough && self.latency != Some(false) && self.early_stopping()
    }

    /// The estimate of the percentile of the settings: in token runs that of the first token.
    pub fn single_stream_ns(&self) -> Option<i64> {
        self.estimates().single_stream
    }

    /// The estimate of the percentile of MultiStream: in token runs that of the first token.
    pub fn multi_stream_ns(&self) -> Option<i64> {
        self.estimates().multi_stream
    }

    fn estimates(&self) -> &EarlyStopping {
        self.early_tokens.as_ref().map_or(&self.early, |(first, _)| first)
    }
}

/// What LoadGen holds against `min_duration`, s.
fn lasted_s(scenario: Scenario, results: &Results) -> f64 {
    match scenario {
        Scenario::Offline => results.max_latency_s,
        Scenario::Server => results.last_scheduled_s,
        Scenario::SingleStream | Scenario::MultiStream => results.last_issued_s,
    }
}

fn duration_advice(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::SingleStream | Scenario::MultiStream => {
            "Decrease the expected latency so the loadgen pre-generates more queries."
        }
        Scenario::Server => "Increase the target QPS so the loadgen pre-generates more queries.",
        Scenario::Offline => "Increase expected QPS so the loadgen pre-generates a larger (coalesced) query.",
    }
}

/// A percentile that is not defined, because a sample never came, keeps no limit.
fn within_limits(effective: &Effective, results: &Results) -> (Option<bool>, String) {
    if effective.scenario != Scenario::Server {
        return (None, String::new());
    }
    let keeps = |spread: Option<&Spread>, limit: u64| {
        let got = spread.and_then(|spread| spread.target);
        got.is_some_and(|got| i64::try_from(limit).is_ok_and(|limit| got <= limit))
    };
    let asked = &effective.asked;
    let mut advice = Vec::new();
    if asked.use_token_latencies {
        if !keeps(results.first_token.as_ref(), asked.server_ttft_latency) {
            advice.push("TTFT constrain not met: Reduce target QPS to improve latency.");
        }
        if !keeps(results.per_token.as_ref(), asked.server_tpot_latency) {
            advice.push("TPOT constrain not met: Reduce target QPS to improve latency.");
        }
    } else if !keeps(Some(&results.latency), effective.target_latency.0) {
        advice.push("Reduce target QPS to improve latency.");
    }
    (Some(advice.is_empty()), advice.join("\n * "))
}

fn early_stopping(effective: &Effective, results: &Results, spread: &Spread, limit: u64) -> EarlyStopping {
    let n = results.queries_issued;
    let p = effective.target_latency_percentile;
    match effective.scenario {
        Scenario::Offline => EarlyStopping { met: true, ..EarlyStopping::default() },
        Scenario::Server => server(n, spread.over(limit), p),
        Scenario::MultiStream => {
            let spread = results.query_latency.as_ref().unwrap_or(spread);
            let (met, text, estimate) = stream(n, spread, p);
            EarlyStopping { met, text, single_stream: None, multi_stream: estimate }
        }
        Scenario::SingleStream => {
            let (met, mut text, single_stream) = stream(n, spread, p);
            let mut multi_stream = None;
            // The percentile that a result of MultiStream is inferred from.
            let inferred = 0.99;
            if met && let Some(rank) = early::estimate_rank(n, inferred) {
                multi_stream = spread.largest(rank);
                let value = spelled(multi_stream);
                text +=
                    &format!("\n * Early stopping {:.1}th percentile estimate: {value}", inferred * 100.0);
            } else if met {
                let least = early::min_queries(1, inferred);
                text += &format!(
                    "\n * Not enough queries processed for {:.1}th percentile\n early stopping estimate (would \
                     need to process at\n least {least} total queries).",
                    inferred * 100.0
                );
            }
            EarlyStopping { met, text, single_stream, multi_stream }
        }
    }
}

fn server(n: u64, over: u64, p: f64) -> EarlyStopping {
    let needed = early::min_queries(over, p);
    let met = n >= needed;
    let text = if met {
        " * Run successful.".to_owned()
    } else {
        format!(
            " * Run unsuccessful.\n * Processed {n} queries.\n * Would need to run at least {} more queries,\n \
             with the run being successful if every additional\n query were under latency.",
            needed - n
        )
    };
    EarlyStopping { met, text, ..EarlyStopping::default() }
}

fn stream(n: u64, spread: &Spread, p: f64) -> (bool, String, Option<i64>) {
    let least = early::min_queries(1, p);
    let Some(rank) = early::estimate_rank(n, p) else {
        let text = format!(
            " * Only processed {n} queries.\n * Need to process at least {least} queries for early stopping."
        );
        return (false, text, None);
    };
    let estimate = spread.largest(rank);
    let text = format!(
        " * Processed at least {least} queries ({n}).\n * Would discard {} highest latency queries.\n * Early \
         stopping {:.1}th percentile estimate: {}",
        rank - 1,
        p * 100.0,
        spelled(estimate)
    );
    // A percentile that is not defined is not believed.
    (estimate.is_some(), text, estimate)
}

fn spelled(estimate: Option<i64>) -> String {
    estimate.map_or_else(|| "not defined, samples failed".to_owned(), |ns| ns.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Sample, ShortAnswers};
    use crate::{SampleLibrary, TestSettings};
    use spec::Nanos;

    fn run(limit: u64, count: u64, failed: u64) -> Verdict {
        let asked = TestSettings {
            scenario: Scenario::Server,
            server_target_latency_ns: limit,
            min_duration_ms: 0,
            min_query_count: 1,
            ..TestSettings::default()
        };
        let library = SampleLibrary { name: "d".into(), total: 4, performance: 4 };
        let effective = Effective::new(&asked, &library).expect("settings");
        let sample = |query: u64| Sample {
            query,
            latency: (query >= failed).then_some(Nanos(100)),
            ..Sample::default()
        };
        let samples: Vec<Sample> = (0..count).map(sample).collect();
        Verdict::new(&effective, &Results::new(&effective, &samples, ShortAnswers::Exclude))
    }

    #[test]
    fn equal_to_the_limit_is_within_it() {
        assert!(run(100, 459, 0).valid());
        let over = run(99, 459, 0);
        assert!(!over.valid() && over.latency == Some(false) && !over.early_stopping());
    }

    #[test]
    fn a_failed_sample_counts_as_over_the_limit() {
        // One over the limit of 459 queries needs 662.
        let one = run(100, 459, 1);
        assert!(one.latency == Some(true) && !one.early_stopping());
        assert!(one.early.text.contains("at least 203 more queries"));
        assert_eq!(run(100, 100, 100).latency, Some(false));
    }
}
