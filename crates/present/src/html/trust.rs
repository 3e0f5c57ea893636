//! May the numbers be believed? The first section of the page.

use decide::{Check, CheckState, RunReport, TrustVerdict};
use maud::{Markup, html};

use crate::terminal::check_name;

pub(super) fn section(report: &RunReport) -> Markup {
    let checks = &report.trust.checks;
    let of = |state| checks.iter().filter(move |c| c.state == state);
    let (failed, unknown) = (of(CheckState::Fail).count(), of(CheckState::Unknown).count());
    let (class, word, meaning) = match report.trust.verdict {
        TrustVerdict::Valid => {
            ("valid", "Valid", "Every figure that is shown may be believed within its interval.")
        }
        TrustVerdict::Limited => (
            "limited",
            "Limited",
            "The failed checks below say which figures do not stand, and why. The others do.",
        ),
        TrustVerdict::Invalid => {
            ("invalid", "Invalid", "Nothing may be concluded from the figures of this run.")
        }
    };
    html! {
        section id="trust" {
            h2 { "Can this measurement be believed?" }
            div class={ "verdict " (class) } role="status" {
                span.w { (word) ": " (failed) " of " (checks.len()) " checks failed, " (unknown) " unknown" }
                p { (meaning) }
            }
            ul.checks {
                @for check in of(CheckState::Fail).chain(of(CheckState::Unknown)) { (item(check)) }
                @for check in of(CheckState::Pass).filter(|c| c.note.is_some()) { (item(check)) }
                @for check in of(CheckState::Pass).filter(|c| c.note.is_none()) { (item(check)) }
            }
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
            span.s title=(word) aria-label=(word) { (sign) }
            b { (sentence_case(&check_name(check))) }
            span.f { (check.figure) @if !check.limit.is_empty() { " " small { "limit " (check.limit) } } }
            @if let Some(advice) = &check.advice { span.a { (advice) } }
            @if let Some(note) = &check.note { span.a { (note) } }
        }
    }
}

fn sentence_case(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
