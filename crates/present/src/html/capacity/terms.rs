//! What was asked, and how to read the page.

use decide::capacity::Verdict;
use decide::json::{CapacityDocument, TierDoc};
use decide::words::{self, percent};
use maud::{Markup, html};

use super::limit_texts;

pub(super) fn spec(document: &CapacityDocument) -> Markup {
    let spec = &document.spec;
    let text = serde_json::to_string_pretty(spec).unwrap_or_default();
    let accelerators = document.fleet.and_then(|fleet| fleet.accelerators);
    html! {
        section id="spec" {
            h2 { "What was asked" }
            dl.kv {
                dt { "Target" } dd { (spec.target.to_string()) }
                dt { "Searched over" } dd { (document.answer.over) }
                @if document.tiers.is_empty() {
                    dt { "Limits" } dd { (limit_texts(document).join(", ")) }
                } @else {
                    dt { "Tiers" }
                    dd { @for (i, tier) in document.tiers.iter().enumerate() { @if i > 0 { br; } (tier_words(tier)) } }
                }
                dt { "Confidence" } dd { (percent(document.answer.confidence.0)) }
                dt { "Lengths" } dd { (words::lengths(&spec.workload.isl)) " in, " (words::lengths(&spec.workload.osl)) " out" }
                dt { "Prompts" } dd { (words::cache(&spec.workload.cache)) }
                dt { "Accelerators" } dd { (accelerators.map_or("not stated".to_owned(), |n| n.to_string())) }
                dt { "Seed" } dd { (document.seed) "; each probe has one of its own, so no prompt is sent twice" }
                dt { "Outcome" }
                dd {
                    @if document.tiers.is_empty() { (outcome(document.answer.verdict)) ", " }
                    "exit code " (document.verdict.exit_code)
                }
            }
            details.screen {
                summary { "The spec of a probe" }
                code.cmd { (text) }
            }
        }
    }
}

/// `fast: p95(ttft)<=200ms`.
fn tier_words(tier: &TierDoc) -> String {
    spec::Tier { name: tier.name.clone(), slo: tier.slo.clone() }.to_string()
}

pub(super) fn outcome(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Resolved => "resolved",
        Verdict::Unresolved => "unresolved",
        Verdict::Unmet => "unmet",
        Verdict::NotReached => "not reached",
        Verdict::Unstable => "unstable",
        Verdict::ClientLimited => "client-limited",
    }
}

const DEFINITIONS: [(&str, &str); 10] = [
    ("capacity", "the largest load at which every limit holds"),
    (
        "limit on a percentile",
        "a share: p95(ttft) ≤ 500 ms holds where at least 95 % of the requests that were meant to be sent have it; those that failed, timed out or were never sent are misses",
    ),
    (
        "bracket",
        "the 95 % interval of the crossing from one fit through all probes, never narrower than ±3 %; where the curve is a cliff, from the largest load that holds to the smallest that does not",
    ),
    (
        "holds, misses",
        "the interval of the probe’s share of misses lies on one side of the target; the fit carries the confidence, the verdict only ends the probe",
    ),
    (
        "undecided",
        "the target lies within that interval at the largest number of requests that a probe may have",
    ),
    ("queue grows", "the number of requests in the server grows without end; no longer run would end it"),
    (
        "client-limited",
        "a check of the probe’s own run failed: late sends, stalled lanes, a busy machine. It is never taken for the server’s limit",
    ),
    (
        "corrected",
        "a timetable may be lucky: a queue with the places and speeds of the ramp is run through each timetable, and what luck explains is taken off",
    ),
    (
        "n_eff",
        "misses come in bursts, so a request near the limit tells less than an independent one; this many independent ones would tell as much",
    ),
    ("goodput", "requests per second that are within every limit"),
];

pub(super) fn definitions() -> Markup {
    html! {
        section id="defs" {
            h2 { "How to read this" }
            details {
                summary { "Verdicts, bracket, correction, effective requests" }
                dl.kv { @for (name, text) in DEFINITIONS { dt { (name) } dd { (text) } } }
            }
        }
    }
}
