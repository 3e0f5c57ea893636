//! L2: LoadGen's verdict, worked out again from the numbers of the log as far as they reach.

use serde_json::Value;

use super::{Check, Findings, Status, said};
use crate::early;
use crate::read::Detail;

const SOURCE: &str = "LoadGen 6.0.17, results.cc and early_stopping.cc";

/// Of more queries than this early stopping is not worked out again: no run has so many.
const MOST_QUERIES: u64 = 1_000_000_000;

pub(super) fn checks(detail: &Detail) -> Vec<Check> {
    let checks = [
        ("min_duration", min_duration as fn(&Detail, &mut Findings)),
        ("min_queries", min_queries),
        ("min_samples", min_samples),
        ("latency", latency),
        ("early_stopping", early_stopping),
    ];
    checks
        .into_iter()
        .map(|(id, of)| {
            let mut found = Findings::default();
            if detail.is_timed() {
                of(detail, &mut found);
            } else {
                found.unknown("no timed run in this log");
            }
            found.check(id, SOURCE)
        })
        .collect()
}

fn min_duration(detail: &Detail, found: &mut Findings) {
    let asked = detail.int("effective_min_duration_ms");
    let met = detail.yes("result_min_duration_met");
    found.must(met, format!("at least {} ms: {}", said(asked), said(met)));
    if scenario(detail) == "Offline"
        && let (Some(asked), Some(longest)) = (asked, detail.int("result_max_latency_ns"))
    {
        let lasted = longest as f64 / 1e9 >= asked as f64 / 1e3;
        agree(found, met, lasted, &format!("the last sample came after {longest} ns"));
    }
}

fn min_queries(detail: &Detail, found: &mut Findings) {
    let (issued, least) = (detail.int("result_query_count"), detail.int("effective_min_query_count"));
    let enough = issued.zip(least).map(|(issued, least)| issued >= least);
    found.must(enough, format!("{} queries went out, at least {} were asked for", said(issued), said(least)));
}

fn min_samples(detail: &Detail, found: &mut Findings) {
    let issued = detail.int("result_query_count");
    let each = detail.last("generated_samples_per_query").and_then(Value::as_u64);
    let least = detail.int("effective_min_sample_count");
    let sent = issued.zip(each).map(|(issued, each)| issued.saturating_mul(each));
    let enough = sent.zip(least).map(|(sent, least)| sent >= least);
    found.must(enough, format!("{} samples, at least {} were asked for", said(sent), said(least)));
    // LoadGen keeps one answer for queries and samples. Enough queries and still no: samples failed.
    let queries =
        issued.zip(detail.int("effective_min_query_count")).is_some_and(|(got, least)| got >= least);
    if detail.yes("result_min_queries_met") == Some(false) && queries && enough != Some(false) {
        found.wrong("the log says that too few samples were completed");
    }
}

fn latency(detail: &Detail, found: &mut Findings) {
    if scenario(detail) != "Server" {
        found.fine(format!("{} has no limit", scenario(detail)));
        return;
    }
    let logged = detail.yes("result_perf_constraints_met");
    let percentile = detail.real("effective_target_latency_percentile").unwrap_or(f64::NAN) * 100.0;
    let of_tokens = detail.yes("requested_use_token_latencies") == Some(true);
    let pairs = if of_tokens {
        vec![
            (
                format!("result_first_token_{percentile:.2}_percentile_latency_ns"),
                "requested_server_ttft_latency",
            ),
            (
                format!("result_time_per_output_token_{percentile:.2}_percentile_ns"),
                "requested_server_tpot_latency",
            ),
        ]
    } else {
        vec![(format!("result_{percentile:.2}_percentile_latency_ns"), "effective_target_latency_ns")]
    };
    let mut within = Some(true);
    for (got, limit) in &pairs {
        let (value, limit) = (detail.get(got).and_then(Value::as_i64), detail.int(limit));
        let holds = value.zip(limit).map(|(value, limit)| i128::from(value) <= i128::from(limit));
        within = within.zip(holds).map(|(a, b)| a && b);
        if let (Some(holds), Some(value), Some(limit)) = (holds, value, limit) {
            found.must(Some(holds), format!("{got} {value}, limit {limit} (equal is within it)"));
        }
    }
    match within {
        Some(within) => agree(found, logged, within, "limits kept"),
        None => found.must(logged, format!("within the limits, as the log says: {}", said(logged))),
    }
}

fn early_stopping(detail: &Detail, found: &mut Findings) {
    let logged = detail.yes("early_stopping_met");
    let issued = detail.int("result_query_count");
    let percentile = detail.real("effective_target_latency_percentile").filter(|p| *p > 0.0 && *p < 1.0);
    let of_tokens = detail.yes("requested_use_token_latencies") == Some(true);
    found.must(logged, format!("met, as the log says: {}", said(logged)));
    let (Some(issued), Some(p)) = (issued.filter(|issued| *issued <= MOST_QUERIES), percentile) else {
        return;
    };
    match scenario(detail) {
        "Server" if !of_tokens => {
            let Some(over) = detail.int("result_overlatency_query_count") else { return };
            let needed = early::min_queries(over.min(issued), p);
            agree(
                found,
                logged,
                issued >= needed,
                &format!("{issued} queries, {over} over the limit need {needed}"),
            );
        }
        "SingleStream" | "MultiStream" => {
            let needed = early::min_queries(1, p);
            if logged == Some(false) && issued >= needed {
                found.wrong(format!(
                    "{issued} queries are enough, and yet there is no estimate: samples failed"
                ));
                return;
            }
            agree(
                found,
                logged,
                issued >= needed,
                &format!("{issued} queries, at least {needed} are needed"),
            );
        }
        _ => {}
    }
}

fn scenario(detail: &Detail) -> &str {
    detail.text("effective_scenario").unwrap_or("a log without scenario")
}

/// What the log says and what its numbers say must be the same.
fn agree(found: &mut Findings, logged: Option<bool>, holds: bool, what: &str) {
    match logged {
        Some(logged) if logged != holds => {
            found.wrong(format!("the log contradicts itself: {what}: {holds}, logged {logged}"));
        }
        _ => found
            .found
            .push((if holds { Status::Passed } else { Status::Failed }, format!("{what}: {holds}"))),
    }
}
