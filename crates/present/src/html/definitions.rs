//! The definitions that the page's figures follow, in the reader's reach.

use decide::RunReport;
use maud::{Markup, html};
use spec::View;

const METRICS: [(&str, &str); 11] = [
    ("TTFT", "time to first token: arrival of the first chunk with output of any kind − start"),
    ("TTFAT", "the same for the first chunk of answer text or a tool call (differs for reasoning models)"),
    ("E2E", "arrival of the last chunk with output − start"),
    ("TPOT", "(E2E − TTFT) / (n − 1), n output tokens; not defined for n ≤ 1"),
    ("ITL", "gap between chunks / tokens of the later chunk, counted once for each of its tokens, pooled"),
    ("ICL", "gap between chunks, counted once, pooled"),
    ("decode TPOT", "(last − first chunk) / (n − tokens of the first chunk)"),
    ("largest gap", "the longest wait between two chunks of a request: the stall that a user sees"),
    ("send lag", "first byte written − intended send"),
    ("client lag", "moment at which the program saw a read − kernel receive time"),
    (
        "own error",
        "median difference between this machine’s figures and a server’s own log, from `inferometer self-check`",
    ),
];

pub(super) fn section(report: &RunReport) -> Markup {
    let start = match report.measures.view {
        View::User => {
            "User view: a latency starts when the plan wanted the request to leave, so waiting caused by a slow server or a cap counts."
        }
        View::Server => "Server view: a latency starts at the first byte written.",
    };
    html! {
        section id="defs" {
            h2 { "Definitions used" }
            details {
                summary { "Metrics" }
                dl.kv { @for (name, text) in METRICS { dt { (name) } dd { (text) } } }
                p { (start) " Receive times are the kernel’s where it gives them." }
            }
            details {
                summary { "Percentiles and intervals" }
                p {
                    "Percentiles are exact, from sorted nanoseconds. A percentile is shown from 6 (p50), 36 (p90), 72 (p95), 368 (p99) and \
                     3,688 (p99.9) samples. Intervals are 95 % order-statistic intervals on the effective sample size: successive requests of one \
                     server are correlated."
                }
            }
            details {
                summary { "Window, throughput, goodput" }
                p {
                    "The window runs from the first intended send of the measurement to the last output of its requests. Throughput counts what \
                     completed inside it. A request is good when it ended well within every limit on requests; attainment is good / offered, goodput \
                     is good / duration. Neither is the server’s capacity: that is the largest load at which the limits hold, found by measuring several."
                }
            }
        }
    }
}
