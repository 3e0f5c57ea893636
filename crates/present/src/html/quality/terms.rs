//! What the words of the page mean.

use maud::{Markup, html};
use quality::gate::Report;
use spec::words::percent;

const TERMS: [(&str, &str); 9] = [
    (
        "PASS, FAIL",
        "PASS: every judged task passes and nothing is broken. FAIL: a task fails after Holm’s adjustment over all tasks, or something is broken after Holm’s adjustment over all kinds of breakage, or the divergence is over its limit. Everything else is INCONCLUSIVE, which is no proof of anything.",
    ),
    (
        "bounds",
        "those shares of the baseline’s score that the data do not reject, each side on its own: by the score test for the ratio of paired proportions (Nam and Blackwelder 2002) for right and wrong answers, by Student’s t on new − share × baseline else",
    ),
    (
        "worse, better",
        "documents whose score fell and rose; p is McNemar’s exact one-sided test of them. Not significant is no proof of equality",
    ),
    (
        "missing or failed",
        "documents that the new server failed at or that its journal misses: they count as a score of 0. What the baseline has no score of is not compared",
    ),
    ("noise", "documents whose score differs when one and the same server is measured twice"),
    (
        "broken",
        "a kind of broken answer whose share rose by the margin or more, and by more than chance (McNemar on documents with more against documents with fewer); or one value everywhere, where the baseline’s values would hardly give that by chance",
    ),
    (
        "divergence",
        "Σ p ln(p/q) a position, p the baseline’s, q the new server’s. Where only the likeliest tokens are kept, all others are one: a lower bound",
    ),
    (
        "bare ratio",
        "InferenceBench’s gate: new ≥ limit × baseline as it stands, with the chance that it fails a server of equal quality and that it passes one that lost twice the margin",
    ),
    (
        "bootstrap",
        "percentile bounds of the mean of new − limit × baseline, documents drawn within their category",
    ),
];

pub(super) fn section(report: &Report) -> Markup {
    let settings = &report.settings;
    html! {
        section id="defs" {
            h2 { "How to read this" }
            details {
                summary { "Verdicts, bounds, flips, breakage" }
                dl.kv { @for (name, text) in TERMS { dt { (name) } dd { (text) } } }
            }
            details {
                summary { "What was asked" }
                dl.kv {
                    dt { "share to keep" } dd { (percent(settings.ratio)) }
                    dt { "chance of a false verdict" } dd { (percent(settings.alpha)) " for PASS, for FAIL by scores, for FAIL by breakage, each" }
                    dt { "margin of breakage" } dd { (percent(settings.breakage_margin)) }
                    dt { "limit of the divergence" } dd { (settings.kl_limit.map_or("none".to_owned(), |limit| format!("{limit} nats a token"))) }
                    dt { "bootstrap" } dd { (settings.resamples) " samples, seed " (settings.seed) }
                    dt { "items" } dd { (report.pairing.base) " of the baseline, " (report.pairing.new) " new, " (report.pairing.paired) " paired" }
                }
            }
        }
    }
}
