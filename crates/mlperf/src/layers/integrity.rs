//! L1: the run did what it was asked to do.

use serde_json::Value;

use super::{Check, Findings, said};
use crate::read::{Detail, Logs};

const SOURCE: &str = "own rule: LoadGen's verdict takes no notice of errors, and its checker lets them pass";

pub(super) fn checks(logs: &Logs) -> Vec<Check> {
    vec![no_errors(logs), complete(logs), logs_agree(logs)]
}

fn no_errors(logs: &Logs) -> Check {
    let mut found = Findings::default();
    let errors = logs.detail.errors();
    match errors.first() {
        Some(first) => found.wrong(format!("{} errors in the detail log, the first: {first}", errors.len())),
        None => found.fine("no error in the detail log"),
    }
    if let Some(count) = logs.summary.as_ref().and_then(|summary| summary.errors).filter(|count| *count > 0) {
        found.wrong(format!("the summary counts {count} errors"));
    }
    if let Some(first) = logs.detail.warnings().first() {
        found.unknown(format!("a warning whose bearing is not known: {first}"));
    }
    found.check("no_errors", SOURCE)
}

/// Everything that was made went out, or the run ended of itself.
fn complete(logs: &Logs) -> Check {
    let mut found = Findings::default();
    let detail = &logs.detail;
    let last = |key: &str| detail.last(key).and_then(Value::as_u64);
    if detail.is_timed() {
        let (issued, made) = (detail.int("result_query_count"), last("generated_query_count"));
        match detail.text("effective_scenario") {
            Some("SingleStream" | "MultiStream") => {
                let ended = detail.all("generic_message").any(|text| *text == crate::log::ENDED);
                found
                    .must(Some(ended), format!("{} queries; the run ended of itself: {ended}", said(issued)));
            }
            _ if detail.text("effective_test_mode") == Some("FindPeakPerformance") => {
                found.fine("a search for the peak: its result is of one of several runs");
            }
            _ => {
                let all = issued.zip(made).map(|(issued, made)| issued == made);
                found.must(all, format!("{} of {} queries went out", said(issued), said(made)));
            }
        }
    } else {
        let queries = detail.all("generated_query_count").filter_map(Value::as_u64);
        let each = detail.all("generated_samples_per_query").filter_map(Value::as_u64);
        let sent = queries.zip(each).map(|(queries, each)| queries.saturating_mul(each));
        let made = sent.fold(0_u64, u64::saturating_add);
        let all = logs.answers.map(|answers| answers == made);
        found.must(all, format!("{} answers of {made} samples are in the accuracy log", said(logs.answers)));
    }
    found.check("complete", SOURCE)
}

fn logs_agree(logs: &Logs) -> Check {
    let mut found = Findings::default();
    let detail = &logs.detail;
    let Some(summary) = &logs.summary else {
        found.unknown("there is no mlperf_log_summary.txt");
        return found.check("logs_agree", SOURCE);
    };
    for (name, key) in [
        ("Result is", "result_validity"),
        ("Scenario", "effective_scenario"),
        ("Mode", "effective_test_mode"),
        ("SUT name", "sut_name"),
    ] {
        if !detail.is_timed() {
            break;
        }
        let (here, there) = (summary.get(name), detail.text(key));
        found.must(Some(here == there), format!("{name}: summary {}, detail {}", said(here), said(there)));
    }
    let counted = summary.errors.map(|count| count == detail.errors().len() as u64);
    found
        .must(counted, format!("errors: summary {}, detail {}", said(summary.errors), detail.errors().len()));
    if let Some(valid) = detail.text("result_validity") {
        let holds = conditions_hold(detail).map(|hold| hold == (valid == "VALID"));
        found.must(holds, format!("{valid}, as its conditions say"));
    }
    found.check("logs_agree", SOURCE)
}

fn conditions_hold(detail: &Detail) -> Option<bool> {
    let mut all = true;
    for key in ["result_min_duration_met", "result_min_queries_met", "early_stopping_met"] {
        all &= detail.yes(key)?;
    }
    Some(all && detail.yes("result_perf_constraints_met").unwrap_or(true))
}
