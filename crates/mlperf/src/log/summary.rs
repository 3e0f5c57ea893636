//! `mlperf_log_summary.txt`.

use std::fmt::Write;

use super::{Level, RunLog, general};
use crate::Scenario;
use crate::effective::Effective;
use crate::stats::{PERCENTILES, Results, Spread};
use crate::verdict::{QUERIES_ADVICE, Verdict};

const RULE: &str = "================================================";

/// The summary. A run without a timed pass says no more than how many warnings and errors there were.
pub fn summary(run: &RunLog<'_>) -> String {
    let mut text = Text(String::new());
    for pass in &run.passes {
        if let Some((results, verdict)) = pass.outcome {
            text.head(run, results);
            text.verdict(run.effective.scenario, verdict);
            text.line(&format!("\n{RULE}\nAdditional Stats\n{RULE}"));
            text.statistics(run.effective, results);
            text.line(&format!("\n{RULE}\nTest Parameters Used\n{RULE}"));
            text.parameters(run.effective);
        }
    }
    text.line(&match run.count(Level::Warning) {
        0 => "\nNo warnings encountered during test.".to_owned(),
        1 => "\n1 warning encountered. See detailed log.".to_owned(),
        n => format!("\n{n} warnings encountered. See detailed log."),
    });
    text.line(&match run.count(Level::Error) {
        0 => "\nNo errors encountered during test.".to_owned(),
        1 => "\n1 ERROR encountered. See detailed log.".to_owned(),
        n => format!("\n{n} ERRORS encountered. See detailed log."),
    });
    text.0
}

struct Text(String);

fn whole(value: Option<i64>) -> String {
    value.map_or_else(|| "not defined".to_owned(), |value| value.to_string())
}

fn two_places(value: Option<f64>) -> String {
    value.map_or_else(|| "not defined".to_owned(), |value| format!("{value:.2}"))
}

fn six_digits(value: Option<f64>) -> String {
    value.map_or_else(|| "not defined".to_owned(), general)
}

impl Text {
    fn line(&mut self, line: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{line}");
    }

    fn head(&mut self, run: &RunLog<'_>, results: &Results) {
        let by = run.effective;
        self.line(&format!("{RULE}\nMLPerf Results Summary\n{RULE}"));
        self.line(&format!("SUT name : {}", run.labels.system));
        self.line(&format!("Scenario : {}", by.scenario.name()));
        self.line(&format!("Mode     : {}", by.mode.name()));
        let percentile = by.target_latency_percentile * 100.0;
        match by.scenario {
            Scenario::SingleStream => {
                let value = whole(results.latency.target);
                self.line(&format!("{percentile:.1}th percentile latency (ns) : {value}"));
            }
            Scenario::MultiStream => {
                let value = whole(results.query_latency.as_ref().and_then(|spread| spread.target));
                self.line(&format!("{percentile:.1}th percentile latency (ns) : {value}"));
            }
            Scenario::Server => {
                let rate = two_places(results.completed_per_s());
                self.line(&format!("Completed samples per second    : {rate}"));
            }
            Scenario::Offline => {
                self.line(&format!("Samples per second: {}", six_digits(results.offline_per_s())));
            }
        }
        let per = |seconds: Option<f64>| results.tokens_per(seconds?);
        if by.asked.use_token_latencies {
            self.line(&match by.scenario {
                Scenario::SingleStream | Scenario::MultiStream => {
                    let value = whole(results.first_token.as_ref().and_then(|spread| spread.target));
                    format!("{percentile:.1}th first token percentile latency (ns) : {value}")
                }
                Scenario::Offline => {
                    format!("Tokens per second: {}", six_digits(per(Some(results.max_latency_s))))
                }
                Scenario::Server => {
                    format!("Completed tokens per second: {}", two_places(per(results.last_done_s)))
                }
            });
        }
        if by.asked.infer_token_latencies {
            let times = |rate: Option<f64>| Some(rate? * by.asked.token_latency_scaling_factor as f64);
            match by.scenario {
                Scenario::Offline => {
                    let rate = six_digits(times(results.offline_per_s()));
                    self.line(&format!("Tokens per second (inferred): {rate}"));
                }
                Scenario::Server => {
                    let rate = two_places(times(results.completed_per_s()));
                    self.line(&format!("Completed tokens per second (inferred): {rate}"));
                }
                Scenario::SingleStream | Scenario::MultiStream => {}
            }
        }
    }

    fn verdict(&mut self, scenario: Scenario, verdict: &Verdict) {
        let yes = |yes: bool| if yes { "Yes" } else { "NO" };
        let enough = verdict.min_queries && verdict.min_samples;
        self.line(&format!("Result is : {}", if verdict.valid() { "VALID" } else { "INVALID" }));
        if let Some(kept) = verdict.latency {
            self.line(&format!("  Performance constraints satisfied : {}", yes(kept)));
        }
        self.line(&format!("  Min duration satisfied : {}", yes(verdict.min_duration)));
        self.line(&format!("  Min queries satisfied : {}", yes(enough)));
        self.line(&format!("  Early stopping satisfied: {}", yes(verdict.early_stopping())));
        if !verdict.valid() {
            self.line("Recommendations:");
            if verdict.latency == Some(false) {
                self.line(&format!(" * {}", verdict.latency_advice));
            }
            if !verdict.min_duration {
                self.line(&format!(" * {}", verdict.duration_advice));
            }
            if !enough {
                self.line(&format!(
                    " * {QUERIES_ADVICE}\n   See the detailed log for why this may have occurred."
                ));
            }
        }
        if scenario == Scenario::Offline {
            return;
        }
        match &verdict.early_tokens {
            None => self.line(&format!("Early Stopping Result:\n{}", verdict.early.text)),
            Some((first, per_token)) => {
                self.line(&format!("TTFT Early Stopping Result:\n{}", first.text));
                self.line(&format!("TPOT Early Stopping Result:\n{}", per_token.text));
            }
        }
    }

    fn statistics(&mut self, by: &Effective, results: &Results) {
        match by.scenario {
            Scenario::SingleStream => {
                self.line(&format!(
                    "QPS w/ loadgen overhead         : {}",
                    two_places(results.qps_with_overhead())
                ));
                let without = two_places(results.qps_without_overhead());
                self.line(&format!("QPS w/o loadgen overhead        : {without}\n"));
            }
            Scenario::Server => {
                self.line(&format!(
                    "Scheduled samples per second : {}",
                    two_places(results.scheduled_per_s())
                ));
            }
            Scenario::MultiStream => self.line("Per-query latency:  "),
            Scenario::Offline => {}
        }
        let shown = results.query_latency.as_ref().unwrap_or(&results.latency);
        self.spread(shown, "latency (ns)                ", "percentile latency (ns)   ");
        if !by.asked.use_token_latencies {
            return;
        }
        self.line("");
        let per = |seconds: Option<f64>| results.tokens_per(seconds?);
        if by.scenario == Scenario::SingleStream {
            let with = two_places(per(Some(results.last_issued_s)));
            self.line(&format!("TPS w/ loadgen overhead         : {with}"));
            let all = results.latency.mean.map(|mean| mean as f64 / 1e9 * results.completed as f64);
            self.line(&format!("TPS w/o loadgen overhead        : {}", two_places(per(all))));
        } else if by.scenario == Scenario::Server {
            let rate = two_places(per(results.last_done_s));
            self.line(&format!("Completed tokens per second                 : {rate}"));
        }
        if let (Some(first), Some(per_token)) = (&results.first_token, &results.per_token) {
            self.spread(
                first,
                "First Token latency (ns)                ",
                "percentile first token latency (ns)   ",
            );
            self.line("");
            let (ends, places) =
                ("Time per Output Token (ns)                ", "percentile time to output token (ns)   ");
            self.spread(per_token, ends, places);
        }
    }

    fn spread(&mut self, spread: &Spread, ends: &str, places: &str) {
        // All three stand in one column, that of the longest word.
        self.line(&format!("Min {ends}: {}", whole(spread.min)));
        self.line(&format!("Max {ends}: {}", whole(spread.max)));
        self.line(&format!("Mean {}: {}", &ends[..ends.len() - 1], whole(spread.mean)));
        for (p, value) in PERCENTILES.iter().zip(spread.percentiles) {
            self.line(&format!("{:.2} {places}: {}", p * 100.0, whole(value)));
        }
    }

    fn parameters(&mut self, by: &Effective) {
        let asked = &by.asked;
        self.line(&format!("samples_per_query : {}", by.samples_per_query));
        self.line(&format!("target_qps : {}", general(by.target_qps)));
        if asked.use_token_latencies {
            self.line(&format!("ttft_latency (ns): {}", asked.server_ttft_latency));
            self.line(&format!("tpot_latency (ns): {}", asked.server_tpot_latency));
        } else {
            self.line(&format!("target_latency (ns): {}", by.target_latency.0));
        }
        self.line(&format!("max_async_queries : {}", by.max_async_queries));
        self.line(&format!("min_duration (ms): {}", by.min_duration.0 / 1_000_000));
        self.line(&format!("max_duration (ms): {}", by.max_duration.0 / 1_000_000));
        let probability = general(asked.accuracy_log_probability);
        for (name, value) in [
            ("min_query_count", by.min_query_count.to_string()),
            ("max_query_count", by.max_query_count.to_string()),
            ("qsl_rng_seed", asked.qsl_rng_seed.to_string()),
            ("sample_index_rng_seed", asked.sample_index_rng_seed.to_string()),
            ("schedule_rng_seed", asked.schedule_rng_seed.to_string()),
            ("accuracy_log_rng_seed", asked.accuracy_log_rng_seed.to_string()),
            ("accuracy_log_probability", probability),
            ("accuracy_log_sampling_target", asked.accuracy_log_sampling_target.to_string()),
            ("print_timestamps", u8::from(asked.print_timestamps).to_string()),
            ("performance_issue_unique", u8::from(asked.performance_issue_unique).to_string()),
            ("performance_issue_same", u8::from(asked.performance_issue_same).to_string()),
            ("performance_issue_same_index", asked.performance_issue_same_index.to_string()),
            ("performance_sample_count", by.performance_sample_count.to_string()),
            ("accuracy_sample_count", by.accuracy_sample_count.to_string()),
        ] {
            self.line(&format!("{name} : {value}"));
        }
        if asked.sample_concatenate_permutation {
            self.line(
                "WARNING: sample_concatenate_permutation was set to true. \nGenerated samples per query might be \
                 different as the one in the setting.\nCheck the generated_samples_per_query line in the \
                 detailed log for the real\nsamples_per_query value",
            );
        }
    }
}
