//! Tiers beside each other, each in full below; and the answer under other conditions.

use decide::capacity::{SensitivityRow, Verdict, figure as load_figure};
use decide::json::{CapacityDocument, TierDoc};
use decide::words::{NBSP, fixed};
use maud::{Markup, html};

use super::terms::outcome;
use super::{Load, part, probes, unresolved};

/// The body of a page with tiers, and its sections.
pub(super) fn body(document: &CapacityDocument, load: Load) -> (Markup, Vec<(String, String)>) {
    let parts: Vec<(CapacityDocument, Load)> = document
        .each()
        .into_iter()
        .enumerate()
        .map(|(i, part)| (part, Load { tier: Some(i + 1), ..load }))
        .collect();
    let name = |part: &CapacityDocument| part.tier.clone().unwrap_or_default();
    let mut sections = vec![("tiers".to_owned(), "Tiers".to_owned())];
    sections.extend(parts.iter().map(|(part, load)| (load.id("tier"), name(part))));
    sections.extend(
        [("ramp", "Ramp"), ("spec", "Spec"), ("defs", "Definitions")].map(|(a, b)| (a.into(), b.into())),
    );
    let body = html! {
        (summary(document, load))
        (sensitivity(document, load))
        @for (part, load) in &parts {
            div id=(load.id("tier")) {
                h2 style="margin-top:56px" { "Tier " (name(part)) }
                (self::part(part, *load, &html! {}))
                (unresolved::section(part, *load))
                (notes_of(part))
            }
        }
        (probes::ramp(document))
    };
    (body, sections)
}

/// Notes, without a section of their own.
fn notes_of(document: &CapacityDocument) -> Markup {
    html! { @for note in &document.notes { p.note { (note) } } }
}

fn summary(document: &CapacityDocument, load: Load) -> Markup {
    let has_fleet =
        document.tiers.iter().any(|tier| tier.fleet.is_some_and(|fleet| fleet.demand_per_s.is_some()));
    let each =
        document.tiers.iter().any(|tier| tier.fleet.is_some_and(|fleet| fleet.per_accelerator.is_some()));
    html! {
        section id="tiers" {
            h2 { "What each tier gets" }
            p.lead {
                "All tiers were searched together: each probe says something about every one of them. A row is the load that this server holds "
                "with the limits of that tier alone."
            }
            div.tw tabindex="0" { table {
                thead { tr {
                    th.l { "Tier" } th.l { "Limits" } th { "holds," br; (load.unit) } th.l { "Verdict" } th.l { "limited by" }
                    th { "goodput" br; "there, /s" }
                    @if each { th { "per accel-" br; "erator, /s" } }
                    @if has_fleet { th { "servers for" br; "the demand" } }
                } }
                tbody {
                    @for tier in &document.tiers { (row(tier, load, each, has_fleet)) }
                }
            } }
        }
    }
}

fn row(tier: &TierDoc, load: Load, each: bool, has_fleet: bool) -> Markup {
    let answer = &tier.answer;
    let (low, high) = (answer.low.map(|x| x.0), answer.high.map(|x| x.0));
    let dash = || "–".to_owned();
    let servers = tier.fleet.map_or_else(dash, |fleet| match (fleet.servers_low, fleet.servers_high) {
        (Some(low), Some(high)) if low == high => low.to_string(),
        (Some(low), Some(high)) => format!("{low}–{high}"),
        (None, Some(high)) => format!("≤{NBSP}{high}"),
        (Some(low), None) => format!("≥{NBSP}{low}"),
        (None, None) => dash(),
    });
    let limits: Vec<&str> = tier.slo.limits().map(|(_, text)| text).collect();
    html! {
        tr {
            td.l { b { (tier.name) } }
            td.l.wrap {
                (limits.join(", "))
                @if !tier.slo.joint.is_empty() { small { "for " (decide::words::percent(tier.slo.attain)) " of requests" } }
            }
            td { b { (answer.value.map_or_else(dash, |x| load.bare(x.0))) } small { (load.bracket(low, high).unwrap_or_default()) } }
            td.l { (verdict(answer.verdict)) }
            td.l.wrap { (answer.limited_by.clone().unwrap_or_else(dash)) }
            td { (answer.goodput_per_s.map_or_else(dash, |x| load_figure(x.0))) }
            @if each { td { (tier.fleet.and_then(|fleet| fleet.per_accelerator).map_or_else(dash, load_figure)) } }
            @if has_fleet { td { (servers) } }
        }
    }
}

fn verdict(verdict: Verdict) -> Markup {
    let (class, sign) = match verdict {
        Verdict::Resolved => ("pass", "✓"),
        Verdict::Unmet => ("fail", "✕"),
        Verdict::NotReached | Verdict::ClientLimited => ("undecided", "□"),
        Verdict::Unresolved | Verdict::Unstable => ("undecided", "◇"),
    };
    html! { span class={ "bd " (class) } { i aria-hidden="true" { (sign) } (outcome(verdict)) } }
}

/// The answer under other conditions; nothing where nobody asked.
pub(super) fn sensitivity(document: &CapacityDocument, load: Load) -> Markup {
    let Some(sensitivity) = &document.sensitivity else { return html! {} };
    let has_tiers = sensitivity.rows.iter().any(|row| row.tier.is_some());
    html! {
        section id="sensitivity" {
            h2 { "What the answer hangs on" }
            p.lead {
                "The same search with arrivals that are burstier or more even, and with input and output a fifth shorter and longer. "
                "Who does not know these better than that does not know the capacity better either."
            }
            div.tw tabindex="0" { table {
                thead { tr {
                    th.l { "Condition" }
                    @if has_tiers { th.l { "Tier" } }
                    th { "holds," br; (load.unit) } th { "bracket" } th.l { "Verdict" } th { "against" br; "the base" }
                } }
                tbody {
                    @for row in &sensitivity.rows { (condition(row, load, has_tiers)) }
                }
            } }
            @for text in &sensitivity.notes { p.note { (text) } }
        }
    }
}

fn condition(row: &SensitivityRow, load: Load, has_tiers: bool) -> Markup {
    let dash = || "–".to_owned();
    html! {
        tr {
            td.l { @if row.is_base { b { (row.condition) } } @else { (row.condition) } }
            @if has_tiers { td.l { (row.tier.clone().unwrap_or_else(dash)) } }
            td { b { (row.value.map_or_else(dash, |x| load.bare(x))) } }
            td { (load.bracket(row.low, row.high).unwrap_or_else(dash)) }
            td.l { (verdict(row.verdict)) }
            td {
                @match (row.ratio, row.ratio_low, row.ratio_high) {
                    _ if row.is_base => "the base",
                    (Some(ratio), Some(low), Some(high)) => {
                        "×" (NBSP) (fixed(ratio, 2)) small { (fixed(low, 2)) "–" (fixed(high, 2)) }
                    }
                    _ => "–",
                }
            }
        }
    }
}
