//! L5: what may be said of the result in public.

use super::declared::Division;
use super::{Check, Evidence, Findings, said};

const SOURCE: &str = "MLCommons inference_policies at ac93e89, and the MLPerf results guidelines";

pub(super) fn checks(evidence: &Evidence) -> Vec<Check> {
    vec![official_loadgen(evidence), division(evidence), availability(evidence), review()]
}

/// The rules ask for an unmodified tagged build of LoadGen.
fn official_loadgen(evidence: &Evidence) -> Check {
    let mut found = Findings::default();
    let detail = &evidence.performance.detail;
    let version = detail.text("loadgen_version");
    match version {
        None => found.unknown("the log does not say what made it"),
        // LoadGen says its version and commit: `6.0.17 @ d6147c7eb7`.
        Some(text) if text.split_once(" @ ").is_some_and(|(version, _)| is_version(version)) => {
            let status = detail.text("loadgen_git_status_message");
            let clean = status.map(str::is_empty);
            found.must(
                clean,
                format!("LoadGen {text}, built without changes: {}, as the log says", said(clean)),
            );
        }
        Some(text) => found.wrong(format!(
            "the log was made by `{text}`, not by an unmodified LoadGen: for comparison, not to be submitted"
        )),
    }
    found.check("official_loadgen", SOURCE)
}

fn is_version(text: &str) -> bool {
    text.split('.').count() >= 2 && text.split('.').all(|part| part.parse::<u32>().is_ok())
}

fn division(evidence: &Evidence) -> Check {
    let mut found = Findings::default();
    match evidence.declared.division {
        None => found.unknown("no division is declared"),
        Some(Division::Closed) => found.fine("closed: may be compared with closed results of the same round"),
        Some(Division::Network) => found.fine("network: compared with network results alone, and named so"),
        Some(Division::Open) => found.fine("open: compared with nothing, and named so"),
    }
    found.check("division", SOURCE)
}

fn availability(evidence: &Evidence) -> Check {
    let mut found = Findings::default();
    match evidence.declared.availability {
        None => found.unknown("no availability is declared: available, preview or rdi"),
        Some(availability) => {
            found.fine(format!("{availability:?}: to be said with the result").to_lowercase());
        }
    }
    found.check("availability", SOURCE)
}

/// No check of a folder can stand for a review.
fn review() -> Check {
    let mut found = Findings::default();
    found.unknown(
        "not reviewed by MLCommons: the result is unverified and may not be called an MLPerf result without \
         saying so",
    );
    found.check("review", SOURCE)
}
