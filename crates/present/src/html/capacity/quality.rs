//! Quality at the load of the answer.

use ::quality::stats::Decision;
use decide::json::CapacityDocument;
use maud::{Markup, html};

use crate::html::quality;
use crate::terminal::{in_flight, qualified_goodput};

pub(super) fn section(document: &CapacityDocument) -> Markup {
    let Some(quality) = &document.quality else { return html! {} };
    let class = match quality.verdict {
        Some(Decision::Pass) => "yes",
        Some(Decision::Fail) => "no",
        Some(Decision::Inconclusive) | None => "open",
    };
    let word = quality.verdict.map_or("Not asked", Decision::word);
    html! {
        section id="quality" {
            h2 { "Quality at this load" }
            p.answer {
                strong class=(class) { (word) } " against " (quality.base) ", " (quality.suite) ". "
                (capital(&qualified_goodput(quality))) "."
            }
            @if let Some(at_load) = &quality.at_load {
                p.lead { (capital(&at_load.report.answer)) "." }
                p.note { (in_flight(at_load)) "." }
                @for doubt in at_load.report.doubts.iter().chain(&at_load.report.warnings) { p.note { (doubt) } }
            }
        }
        @if let Some(at_load) = &quality.at_load { (quality::comparison(&at_load.report)) }
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
