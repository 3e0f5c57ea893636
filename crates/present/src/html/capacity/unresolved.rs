//! What the search does not say, each with what would settle it or why nothing does.

use decide::capacity::{Kind, Needs, ProbeReport, ProbeVerdict, Verdict};
use decide::json::CapacityDocument;
use decide::words::{count, counted};
use maud::{Markup, html};

use super::{Load, speaks};

pub(super) fn section(document: &CapacityDocument, load: Load) -> Markup {
    html! {
        section id=(load.id("open")) {
            h2 { "What is not resolved" }
            ul.out {
                (verdict(document, load))
                (undecided(document, load))
                (spoilt(document))
                (unchecked(document))
                li {
                    b { "What only a restart changes" } " is not seen: all probes had the same server. "
                    code { "inferometer capacity …" } " after a restart, with another " code { "--seed" } ", shows it."
                }
                li {
                    b { "Holes between the loads that were tried" } " are not seen: a server that fails only between two of them passes for steady. A "
                    code { "inferometer sweep" } " with a fine grid shows them."
                }
            }
        }
    }
}

fn verdict(document: &CapacityDocument, load: Load) -> Markup {
    let beyond = document.answer.low.map(|low| load.words(low.0));
    html! {
        @match document.answer.verdict {
            Verdict::Resolved => {},
            Verdict::Unresolved => (needs(document)),
            Verdict::Unmet => li {
                b { "No load holds the limits." } " Loosen them, or shorten the prompts: the unloaded server already misses. "
                code { "inferometer run … --concurrency 1" } " shows what it does for one user."
            },
            Verdict::NotReached => li {
                b { "The upper end" } " is not known: no load above "
                (beyond.as_deref().unwrap_or("the largest")) " was allowed. A larger " code { "--max" } " lets the search go on."
            },
            Verdict::Unstable => li {
                b { "There is no single limit:" } " a load failed twice below one that held twice. "
                code { "inferometer sweep … --repeats 3" } " shows where."
            },
            Verdict::ClientLimited => li {
                b { "The upper end" } " is not known: this client could not send more"
                @if let Some(load) = &beyond { " than " (load) " unspoilt" }
                ". More cores for it, or " code { "inferometer self-check" } ", which says what it can send."
            },
        }
    }
}

fn needs(document: &CapacityDocument) -> Markup {
    let wider = html! { " by " code { "--probes" } ", or a wider " code { "--width" } };
    html! {
        li {
            b { "The bracket is wider than asked." } " "
            @match document.answer.needs {
                Some(Needs::Requests { requests }) => {
                    "As narrow as asked it takes about " (counted(requests, "request")) " in all; this search had "
                    (count(document.answer.requests)) ". Allow more probes" (wider) "."
                },
                Some(Needs::Repeats { repeats }) => {
                    "The server differs from run to run by more than its samples explain: it takes about "
                    (counted(repeats, "probe")) ". Allow them" (wider) "."
                },
                None => {
                    "The search ended before that: " code { "inferometer capacity --resume DIR" } " goes on where it stopped."
                },
            }
        }
    }
}

fn undecided(document: &CapacityDocument, load: Load) -> Markup {
    let list: Vec<&ProbeReport> =
        document.probes.iter().filter(|probe| probe.verdict == ProbeVerdict::Undecided).collect();
    let loads: Vec<String> = list.iter().map(|probe| load.bare(probe.load)).collect();
    html! {
        @if !list.is_empty() {
            li {
                b { (loads.join(", ")) " " (load.unit) } @if list.len() == 1 { " stayed" } @else { " each stayed" }
                " undecided at the cap of requests: the limit lies within the interval there. Such a probe is information: it shapes the fit and is \
                 neither held nor missed. Longer probes would not help more than further ones."
            }
        }
    }
}

fn spoilt(document: &CapacityDocument) -> Markup {
    let count = document.probes.iter().filter(|probe| !speaks(probe)).count() as u64;
    html! {
        @if count > 0 {
            li {
                b { (counted(count, "probe")) } @if count == 1 { " was" } @else { " were" }
                " set aside, because this client was late or its machine busy. An idle machine with more cores spares them; "
                code { "inferometer self-check" } " says how much it can send."
            }
        }
    }
}

fn unchecked(document: &CapacityDocument) -> Markup {
    let has = |kind: Kind| document.probes.iter().any(|probe| probe.kind == kind && speaks(probe));
    html! {
        @if document.answer.verdict == Verdict::Resolved && !has(Kind::Above) {
            li {
                b { "Higher loads" } " were not tried beyond the probes of the search: the ramp shows a ceiling of throughput below them, above which no queue is stable."
            }
        }
    }
}
