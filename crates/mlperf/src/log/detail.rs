//! `mlperf_log_detail.txt`: an object a line.

use std::fmt::Write;

use spec::Nanos;

use super::{Level, Pass, RunLog, general};
use crate::Scenario;
use crate::settings::{FIELDS, Value};
use crate::stats::{PERCENTILES, Results, Spread};
use crate::verdict::{QUERIES_ADVICE, Verdict};

/// The detail log. A number that is not defined, because samples failed, is left out.
pub fn detail(run: &RunLog<'_>) -> String {
    let mut log = Lines { out: String::new(), now: Nanos::ZERO, level: Level::Plain, pid: run.labels.pid };
    log.text("loadgen_version", &run.labels.build);
    log.text("test_datetime", &run.labels.datetime);
    log.text("sut_name", &run.labels.system);
    log.int("get_sut_name_duration_ns", run.labels.system_asked.0);
    log.text("qsl_name", &run.library.name);
    log.int("qsl_reported_total_count", run.library.total);
    log.int("qsl_reported_performance_count", run.library.performance);
    requested(&mut log, run);
    effective(&mut log, run);
    let mut errors = 0;
    for pass in &run.passes {
        errors += pass.notes.iter().filter(|note| note.level == Level::Error).count();
        set_sent(&mut log, pass);
        if let Some((results, verdict)) = pass.outcome {
            results_of(&mut log, run, results, verdict);
            log.int("num_errors", errors as u64);
        }
    }
    log.out
}

struct Lines {
    out: String,
    now: Nanos,
    level: Level,
    pid: u64,
}

impl Lines {
    fn raw(&mut self, key: &str, value: &str) {
        let (ms, ns) = (self.now.0 / 1_000_000, self.now.0 % 1_000_000);
        let (error, warning) = (self.level == Level::Error, self.level == Level::Warning);
        let pid = self.pid;
        // Writing to a string does not fail.
        let _ = writeln!(
            self.out,
            ":::MLLOG {{\"key\": \"{key}\", \"value\": {value}, \"time_ms\": {ms}.{ns:06}, \
             \"namespace\": \"mlperf::logging\", \"event_type\": \"POINT_IN_TIME\", \"metadata\": \
             {{\"is_error\": {error}, \"is_warning\": {warning}, \"file\": \"inferometer\", \"line_no\": 0, \
             \"pid\": {pid}, \"tid\": {pid}}}}}"
        );
    }
    fn text(&mut self, key: &str, value: &str) {
        self.raw(key, &serde_json::Value::from(value).to_string());
    }
    fn int(&mut self, key: &str, value: u64) {
        self.raw(key, &value.to_string());
    }
    fn ns(&mut self, key: &str, value: Option<i64>) {
        if let Some(value) = value {
            self.raw(key, &value.to_string());
        }
    }
    fn real(&mut self, key: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.raw(key, &general(value));
        }
    }
    fn yes(&mut self, key: &str, value: bool) {
        self.raw(key, if value { "true" } else { "false" });
    }
    fn value(&mut self, key: &str, value: Value) {
        match value {
            Value::Bool(yes) => self.yes(key, yes),
            Value::Int(n) => self.int(key, n),
            Value::Real(x) => self.real(key, Some(x)),
        }
    }
}

/// What was asked for: the fields of the scenario, then those of every run.
fn requested(log: &mut Lines, run: &RunLog<'_>) {
    let asked = &run.effective.asked;
    log.text("requested_scenario", asked.scenario.name());
    log.text("requested_test_mode", asked.mode.name());
    let of_scenario: &[&str] = match asked.scenario {
        Scenario::SingleStream => {
            &["single_stream_expected_latency_ns", "single_stream_target_latency_percentile"]
        }
        Scenario::MultiStream => &[
            "multi_stream_expected_latency_ns",
            "multi_stream_target_latency_percentile",
            "multi_stream_samples_per_query",
        ],
        Scenario::Server => &[
            "server_target_qps",
            "server_target_latency_ns",
            "server_target_latency_percentile",
            "server_coalesce_queries",
            "server_find_peak_qps_decimals_of_precision",
            "server_find_peak_qps_boundary_step_size",
            "server_max_async_queries",
            "server_num_issue_query_threads",
        ],
        Scenario::Offline => &["offline_expected_qps"],
    };
    let of_every_run = [
        "min_duration_ms",
        "max_duration_ms",
        "min_query_count",
        "max_query_count",
        "qsl_rng_seed",
        "sample_index_rng_seed",
        "schedule_rng_seed",
        "accuracy_log_rng_seed",
        "accuracy_log_probability",
        "accuracy_log_sampling_target",
        "print_timestamps",
        "performance_issue_unique",
        "performance_issue_same",
        "performance_issue_same_index",
        "performance_sample_count_override",
        "accuracy_sample_count_override",
        "sample_concatenate_permutation",
    ];
    let of_tokens: &[&str] = match (asked.use_token_latencies, asked.scenario) {
        (false, _) => &[],
        (true, Scenario::Offline) => &["use_token_latencies"],
        (true, _) => &["use_token_latencies", "server_ttft_latency", "server_tpot_latency"],
    };
    for name in of_scenario.iter().chain(&of_every_run).chain(of_tokens) {
        if let Some(field) = FIELDS.iter().find(|field| field.name == *name) {
            log.value(&format!("requested_{name}"), (field.get)(asked));
        }
    }
}

fn effective(log: &mut Lines, run: &RunLog<'_>) {
    let by = run.effective;
    let asked = &by.asked;
    log.text("effective_scenario", by.scenario.name());
    log.text("effective_test_mode", by.mode.name());
    log.int("effective_samples_per_query", by.samples_per_query);
    log.real("effective_target_qps", Some(by.target_qps));
    log.int("effective_target_latency_ns", by.target_latency.0);
    log.real("effective_target_latency_percentile", Some(by.target_latency_percentile));
    log.int("effective_max_async_queries", by.max_async_queries);
    log.int("effective_target_duration_ms", by.target_duration.0 / 1_000_000);
    log.int("effective_min_duration_ms", by.min_duration.0 / 1_000_000);
    log.int("effective_max_duration_ms", by.max_duration.0 / 1_000_000);
    log.int("effective_min_query_count", by.min_query_count);
    log.int("effective_max_query_count", by.max_query_count);
    log.int("effective_min_sample_count", by.min_sample_count);
    log.int("effective_qsl_rng_seed", asked.qsl_rng_seed);
    log.int("effective_sample_index_rng_seed", asked.sample_index_rng_seed);
    log.int("effective_schedule_rng_seed", asked.schedule_rng_seed);
    log.int("effective_accuracy_log_rng_seed", asked.accuracy_log_rng_seed);
    log.real("effective_accuracy_log_probability", Some(asked.accuracy_log_probability));
    log.int("effective_accuracy_log_sampling_target", asked.accuracy_log_sampling_target);
    log.yes("effective_print_timestamps", asked.print_timestamps);
    log.yes("effective_performance_issue_unique", asked.performance_issue_unique);
    log.yes("effective_performance_issue_same", asked.performance_issue_same);
    log.int("effective_performance_issue_same_index", asked.performance_issue_same_index);
    log.int("effective_performance_sample_count", by.performance_sample_count);
    log.int("effective_accuracy_sample_count", by.accuracy_sample_count);
    log.yes("effective_sample_concatenate_permutation", asked.sample_concatenate_permutation);
}

/// Counters of LoadGen's own logger: how often its threads had to try again. Nothing here ever tries again.
const LOGGER: [&str; 6] = [
    "logger_swap_request_slots_retry_count",
    "logger_swap_request_slots_retry_retry_count",
    "logger_swap_request_slots_retry_reencounter_count",
    "logger_start_reading_entries_retry_count",
    "logger_tls_total_log_cas_fail_count",
    "logger_tls_total_swap_buffers_slot_retry_count",
];

fn set_sent(log: &mut Lines, pass: &Pass<'_>) {
    log.now = pass.began;
    if let Some(opening) = pass.opening {
        log.text("generic_message", opening);
    }
    let schedule = pass.schedule;
    let loaded: Vec<String> = schedule.loaded.iter().map(u32::to_string).collect();
    log.raw("loaded_qsl_set", &format!("[{}]", loaded.join(",")));
    log.int("generated_query_count", schedule.at.len() as u64);
    log.int("generated_samples_per_query", schedule.samples_per_query as u64);
    log.int("generated_query_duration", schedule.duration.0);
    for note in &pass.notes {
        (log.now, log.level) = (note.at, note.level);
        let key = match note.level {
            Level::Plain => "generic_message",
            Level::Warning => "warning_generic_message",
            Level::Error => "error_runtime",
        };
        log.text(key, &note.text);
    }
    (log.now, log.level) = (pass.ended, Level::Plain);
    for counter in LOGGER {
        log.int(counter, 0);
    }
    log.text("power_begin", &pass.power.0);
    log.text("power_end", &pass.power.1);
}

fn results_of(log: &mut Lines, run: &RunLog<'_>, results: &Results, verdict: &Verdict) {
    let scenario = run.effective.scenario;
    conditions(log, verdict);
    log.int("result_query_count", results.queries_issued);
    if let Some(over) = results.over_latency {
        log.int("result_overlatency_query_count", over);
    }
    match scenario {
        Scenario::SingleStream => {
            log.real("result_qps_with_loadgen_overhead", results.qps_with_overhead());
            log.real("result_qps_without_loadgen_overhead", results.qps_without_overhead());
            log.ns("early_stopping_latency_ss", verdict.single_stream_ns().or(Some(0)));
            log.ns("early_stopping_latency_ms", verdict.multi_stream_ns().or(Some(0)));
        }
        Scenario::MultiStream => {
            if let Some(query) = &results.query_latency {
                ends(log, query, "result_", "_query_latency_ns");
                percentiles(log, query, "result_", "_percentile_per_query_latency_ns");
            }
            log.ns("early_stopping_latency_ms", verdict.multi_stream_ns().or(Some(0)));
        }
        Scenario::Server => {
            log.real("result_scheduled_samples_per_sec", results.scheduled_per_s());
            log.real("result_completed_samples_per_sec", results.completed_per_s());
        }
        Scenario::Offline => log.real("result_samples_per_second", results.offline_per_s()),
    }
    ends(log, &results.latency, "result_", "_latency_ns");
    percentiles(log, &results.latency, "result_", "_percentile_latency_ns");
    tokens(log, scenario, run, results);
}

fn conditions(log: &mut Lines, verdict: &Verdict) {
    log.text("result_validity", if verdict.valid() { "VALID" } else { "INVALID" });
    if let Some(kept) = verdict.latency {
        log.yes("result_perf_constraints_met", kept);
    }
    log.yes("result_min_duration_met", verdict.min_duration);
    let enough = verdict.min_queries && verdict.min_samples;
    log.yes("result_min_queries_met", enough);
    log.yes("early_stopping_met", verdict.early_stopping());
    let one_line = |text: &str| text.replace('\n', " ");
    if !verdict.valid() {
        let mut reason = String::new();
        if verdict.latency == Some(false) {
            reason += &format!("{} ", verdict.latency_advice);
        }
        if !verdict.min_duration {
            reason += &format!("{} ", verdict.duration_advice);
        }
        if !enough {
            reason += QUERIES_ADVICE;
        }
        log.text("result_invalid_reason", &one_line(&reason));
    }
    match &verdict.early_tokens {
        None => log.text("early_stopping_result", &one_line(&verdict.early.text)),
        Some((first, per_token)) => {
            log.text("early_stopping_ttft_result", &one_line(&first.text));
            log.text("early_stopping_tpot_result", &one_line(&per_token.text));
        }
    }
}

fn ends(log: &mut Lines, spread: &Spread, before: &str, after: &str) {
    log.ns(&format!("{before}min{after}"), spread.min);
    log.ns(&format!("{before}max{after}"), spread.max);
    log.ns(&format!("{before}mean{after}"), spread.mean);
}

fn percentiles(log: &mut Lines, spread: &Spread, before: &str, after: &str) {
    for (p, value) in PERCENTILES.iter().zip(spread.percentiles) {
        log.ns(&format!("{before}{:.2}{after}", p * 100.0), value);
    }
}

fn tokens(log: &mut Lines, scenario: Scenario, run: &RunLog<'_>, results: &Results) {
    let per = |seconds: Option<f64>| results.tokens_per(seconds?);
    if let (Some(first), Some(per_token)) = (&results.first_token, &results.per_token) {
        ends(log, first, "result_first_token_", "_latency_ns");
        percentiles(log, first, "result_first_token_", "_percentile_latency_ns");
        log.real("result_token_throughput_with_loadgen_overhead", per(Some(results.last_issued_s)));
        // LoadGen divides by nanoseconds here: tokens per nanosecond.
        let all_ns = results.latency.mean.map(|mean| mean as f64 * results.completed as f64);
        log.real("result_token_throughput", per(all_ns));
        percentiles(log, per_token, "result_time_per_output_token_", "_percentile_ns");
        ends(log, per_token, "result_time_to_output_token_", "");
        log.real("result_completed_tokens_per_second", per(results.last_done_s));
    } else if run.effective.asked.use_token_latencies {
        log.real("result_tokens_per_second", per(Some(results.max_latency_s)));
    }
    if run.effective.asked.infer_token_latencies {
        let times = |rate: Option<f64>| Some(rate? * run.effective.asked.token_latency_scaling_factor as f64);
        match scenario {
            Scenario::Server => {
                log.real("result_inferred_completed_tokens_per_second", times(results.completed_per_s()));
            }
            Scenario::Offline => {
                log.real("result_inferred_tokens_per_second", times(results.offline_per_s()))
            }
            Scenario::SingleStream | Scenario::MultiStream => {}
        }
    }
}
