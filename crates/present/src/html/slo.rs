//! Limits: the joint rate, its margins, and each marginal limit.

use decide::words::{count, number, percent};
use decide::{JointReport, MarginalReport, RunReport};
use maud::{Markup, html};

use super::share;
use crate::terminal::limit_value;

pub(super) fn section(report: &RunReport) -> Markup {
    let slo = &report.slo;
    html! {
        section id="slo" {
            h2 { "Limits" }
            @if slo.joint.is_none() && slo.marginal.is_empty() {
                p.lead { "No limit was set. " code { "--slo 'ttft<=500ms' --slo 'p99(tpot)<=50ms'" } " sets them." }
            } @else {
                p.lead {
                    "A joint limit counts a request only if it is within every limit on requests; failures and time-outs \
                     count against it. A marginal limit judges one statistic. Both are tested on raw nanoseconds."
                }
                div.slo {
                    @if let Some(joint) = &slo.joint { (joint_part(joint)) }
                    @if !slo.marginal.is_empty() { (marginal_part(&slo.marginal)) }
                }
            }
        }
    }
}

fn badge(met: Option<bool>) -> Markup {
    let (class, sign, word) = match met {
        Some(true) => ("pass", "✓", "met"),
        Some(false) => ("fail", "✕", "not met"),
        None => ("undecided", "◇", "undecided"),
    };
    html! { span class={ "bd " (class) } { i aria-hidden="true" { (sign) } (word) } }
}

fn joint_part(joint: &JointReport) -> Markup {
    let interval = match (joint.attainment.low, joint.attainment.high) {
        (Some(low), Some(high)) => format!("({}–{})", number(low * 100.0), percent(high)),
        _ => String::new(),
    };
    html! {
        div {
            h3 { "Joint: " (joint.limits.join(" and ")) ", for " (percent(joint.target)) " of offered" }
            div.big { (share(joint.attainment.value)) " " small { (interval) } }
            dl.kv style="margin-top:12px" {
                dt { "Verdict" } dd { (badge(joint.met)) }
                dt { "Good" } dd { (count(joint.good)) " of " (count(joint.offered)) " offered" }
                dt { "Goodput" } dd { (joint.goodput_per_s.map_or("–".to_owned(), number)) " requests/s" }
                dt { "Each alone" }
                dd {
                    @for (i, (limit, alone)) in joint.alone.iter().enumerate() {
                        @if i > 0 { ", " } (limit) " " (percent(*alone))
                    }
                }
                dt { "Bounds" }
                dd { "the margins alone allow " (number(joint.bounds.0 * 100.0)) "–" (percent(joint.bounds.1)) }
            }
        }
    }
}

fn marginal_part(limits: &[MarginalReport]) -> Markup {
    html! {
        div {
            h3 { "Marginal: one statistic, one limit" }
            div.tw {
                table {
                    thead { tr { th.l { "Limit" } th { "Measured" } th.l { "Verdict" } } }
                    tbody {
                        @for limit in limits {
                            tr {
                                td { code { (limit.limit) } }
                                td {
                                    (limit.value.map_or("–".to_owned(), |v| limit_value(&limit.limit, v)))
                                    @if let (Some(low), Some(high)) = (limit.low, limit.high) {
                                        small { (limit_value(&limit.limit, low)) " – " (limit_value(&limit.limit, high)) }
                                    }
                                }
                                td.l {
                                    (badge(limit.met))
                                    @if let Some(reason) = &limit.reason { span.few { (reason) } }
                                }
                            }
                        }
                    }
                }
            }
            p.note { b { "Undecided" } " means that the data do not exclude either side; a longer run would settle it." }
        }
    }
}
