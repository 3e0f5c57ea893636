//! May the numbers be believed? The first section of the page.

use decide::{Check, CheckState, RunReport, TrustVerdict};
use maud::{Markup, html};

use crate::label::check_name;
use crate::stands;

pub(super) fn section(report: &RunReport) -> Markup {
    let trust = &report.trust;
    let of = |state| trust.checks.iter().filter(move |c| c.state == state);
    let (failed, unknown) = (of(CheckState::Fail).count(), of(CheckState::Unknown).count());
    let (class, word) = match trust.verdict {
        TrustVerdict::Valid => ("valid", "Valid"),
        TrustVerdict::Limited => ("limited", "Limited"),
        TrustVerdict::Invalid => ("invalid", "Invalid"),
    };
    let total = trust.checks.len();
    let unknown_words = if unknown > 0 { format!(", {unknown} unknown") } else { String::new() };
    let tally = if failed == 0 {
        format!("{} of {total} checks passed{unknown_words}", total - unknown)
    } else {
        format!("{failed} of {total} checks failed{unknown_words}")
    };
    html! {
        section id="trust" {
            h2 { "Can this measurement be believed?" }
            div class={ "verdict " (class) } role="status" {
                span.w { (word) ": " (tally) }
                p { (meaning(report, failed)) }
            }
            ul.checks {
                @for check in of(CheckState::Fail).chain(of(CheckState::Unknown)) { (item(check)) }
                @for check in of(CheckState::Pass).filter(|c| c.note.is_some()) { (item(check)) }
                @for check in of(CheckState::Pass).filter(|c| c.note.is_none()) { (item(check)) }
            }
        }
    }
}

/// Which figures stand and which do not.
fn meaning(report: &RunReport, failed: usize) -> String {
    match report.trust.verdict {
        TrustVerdict::Valid => "Every figure that is shown may be believed within its interval.".to_owned(),
        TrustVerdict::Invalid => "Nothing may be concluded from the figures of this run.".to_owned(),
        TrustVerdict::Limited if failed == 0 => {
            "A check on which the figures rest could not be made: they stand as far as it would have passed."
                .to_owned()
        }
        TrustVerdict::Limited => {
            let list = |doubts: Vec<stands::Doubt>| {
                let parts: Vec<String> =
                    doubts.into_iter().map(|d| format!("{} ({})", d.what, d.by)).collect();
                parts.join("; ")
            };
            let withheld = list(stands::withheld(&report.trust));
            let marked = list(stands::marked(&report.trust));
            let mut out = String::new();
            if !withheld.is_empty() {
                out.push_str(&format!("Withheld: {withheld}. "));
            }
            if !marked.is_empty() {
                out.push_str(&format!("Shown, but in doubt: {marked}. "));
            }
            out.push_str("The other figures stand.");
            out
        }
    }
}

fn item(check: &Check) -> Markup {
    let (class, sign, word) = match check.state {
        CheckState::Pass => ("pass", "✓", "passed"),
        CheckState::Fail => ("fail", "✕", "failed"),
        CheckState::Unknown => ("unknown", "?", "unknown"),
    };
    let wide = check.state != CheckState::Pass || check.note.is_some();
    html! {
        li class={ (class) @if wide { " wide" } } {
            span.s role="img" title=(word) aria-label=(word) { (sign) }
            b { (sentence_case(&check_name(check))) }
            span.f { (check.figure) @if !check.limit.is_empty() { " " small { "limit " (check.limit) } } }
            @if let Some(advice) = &check.advice { span.a { (advice) } }
            @if let Some(text) = stands::consequence(check) { span.a.why { (sentence_case(&text)) "." } }
            @if let Some(note) = &check.note { span.a { (sentence_case(note)) "." } }
        }
    }
}

fn sentence_case(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
