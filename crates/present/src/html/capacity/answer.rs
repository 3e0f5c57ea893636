//! May the answer be believed, and the answer itself.

use decide::TrustVerdict;
use decide::capacity::{Kind, ProbeReport, ProbeVerdict, Verdict, figure as load_figure};
use decide::json::CapacityDocument;
use decide::words::{NBSP, clock_time, count, counted, percent};
use maud::{Markup, html};
use spec::Nanos;

use super::{Load, around_bracket, bracket, name, sign, speaks, state};
use crate::html::scale::Scale;
use crate::html::{Tile, judged, tile_row};
use crate::label;

pub(super) fn trust(document: &CapacityDocument, load: Load) -> Markup {
    let (class, word) = standing(document);
    let spoilt = document.probes.iter().filter(|probe| !speaks(probe));
    html! {
        section id=(load.id("trust")) {
            h2 { "Can this measurement be believed?" }
            div class={ "verdict " (class) } role="status" {
                span.w { (word) }
                p { (tally(document)) " " (meaning(document)) }
            }
            ul.checks {
                @for probe in spoilt { (set_aside(probe, load)) }
                @if !document.probes.is_empty() && document.answer.verdict != Verdict::Unmet { (checks(document, load)) }
            }
        }
    }
}

/// Class and words of the verdict.
fn standing(document: &CapacityDocument) -> (&'static str, String) {
    if document.probes.is_empty() {
        return ("invalid", "Nothing was measured".to_owned());
    }
    let (found, is_answer) = match document.answer.verdict {
        Verdict::Resolved => ("resolved", true),
        Verdict::Unmet => ("the limits hold at no load that was tried", true),
        Verdict::NotReached => ("a lower bound, no higher load was allowed", true),
        Verdict::ClientLimited => ("a lower bound, this client was the limit", false),
        Verdict::Unresolved => ("not resolved", false),
        Verdict::Unstable => ("not resolved, there is no single limit", false),
    };
    match document.trust.verdict {
        TrustVerdict::Valid => (if is_answer { "valid" } else { "limited" }, format!("Valid: {found}")),
        TrustVerdict::Limited if document.trust.client_limited_probes == 0 => {
            ("limited", format!("Limited: {found}"))
        }
        TrustVerdict::Limited => {
            let spoilt = counted(document.trust.client_limited_probes, "probe");
            ("limited", format!("Limited: {found}, with {spoilt} set aside"))
        }
        TrustVerdict::Invalid => ("invalid", format!("Invalid: {found}")),
    }
}

fn tally(document: &CapacityDocument) -> String {
    if document.probes.is_empty() {
        return String::new();
    }
    if document.answer.verdict == Verdict::Unmet {
        return format!("{} at ever lower loads missed.", counted(document.probes.len() as u64, "probe"));
    }
    let of = |kinds: &[Kind]| {
        document.probes.iter().filter(|probe| speaks(probe) && kinds.contains(&probe.kind)).count() as u64
    };
    let (carry, check) = (of(&[Kind::Main, Kind::Repeat]), of(&[Kind::Below, Kind::Above]));
    let mut parts =
        vec![format!("{} {} the answer", count(carry), if carry == 1 { "carries" } else { "carry" })];
    if check > 0 {
        parts.push(format!(
            "{} {} it from below and above",
            count(check),
            if check == 1 { "checks" } else { "check" }
        ));
    }
    let spoilt = document.trust.client_limited_probes;
    if spoilt > 0 {
        let was = if spoilt == 1 { "was" } else { "were" };
        parts.push(format!("{} {was} limited by this client and set aside", count(spoilt)));
    }
    format!("Of {}, {}.", counted(document.probes.len() as u64, "probe"), parts.join(", "))
}

fn meaning(document: &CapacityDocument) -> String {
    let confidence = percent(document.answer.confidence.0);
    match document.answer.verdict {
        Verdict::Resolved => {
            format!(
                "The bracket is as narrow as asked: such a bracket is meant to hold the truth in {confidence} of all searches."
            )
        }
        Verdict::Unresolved if document.answer.value.is_some() => {
            format!("The bracket is wider than asked; it stands as it is, at {confidence} confidence.")
        }
        Verdict::Unresolved => "Nothing may be concluded yet.".to_owned(),
        Verdict::Unmet => "A limit is broken at every load, however low.".to_owned(),
        Verdict::NotReached => {
            "Every limit holds up to the largest load; what lies beyond is not known.".to_owned()
        }
        Verdict::ClientLimited => "What this client could not send says nothing of the server.".to_owned(),
        Verdict::Unstable => "The limits hold above loads at which they are broken, twice each.".to_owned(),
    }
}

/// A probe that this client spoilt.
fn set_aside(probe: &ProbeReport, load: Load) -> Markup {
    let ProbeVerdict::ClientLimited { why } = &probe.verdict else { return html! {} };
    html! {
        li.unknown.wide {
            span.s role="img" title="client-limited" aria-label="client-limited" { "□" }
            b { (name(probe, load)) }
            span.f { (why) }
            span.a { "Set aside: it says nothing of the server, is in no figure, and counts neither as held nor as missed." }
        }
    }
}

/// The loads below and above the bracket that were tried to see whether they agree with it.
fn checks(document: &CapacityDocument, load: Load) -> Markup {
    let of = |kind: Kind| -> Vec<&ProbeReport> {
        document.probes.iter().filter(|probe| probe.kind == kind && speaks(probe)).collect()
    };
    let list = |probes: &[&ProbeReport]| -> String {
        let each: Vec<String> =
            probes.iter().map(|p| format!("{}{NBSP}{}", state(&p.verdict).1, load.bare(p.load))).collect();
        format!("{} {}", each.join(", "), load.unit)
    };
    let (below, above) = (of(Kind::Below), of(Kind::Above));
    html! {
        @if below.is_empty() && load.whole && document.answer.verdict == Verdict::Resolved {
            (check("pass", "Lower loads hold", "the stages of the ramp below the bracket", None))
        } @else if below.is_empty() {
            (check("unknown", "Lower loads", "none was checked", Some("The search ended before it looked whether every lower load holds.")))
        } @else if below.iter().all(|probe| !probe.verdict.failed()) {
            (check("pass", "Lower loads hold", &list(&below), None))
        } @else {
            (check("fail", "A lower load is missed", &list(&below), Some("A load that failed was tried once more; where it failed twice, there is no single limit.")))
        }
        @if above.is_empty() && document.answer.verdict == Verdict::Resolved {
            (check("pass", "Higher loads", "the ramp’s ceiling of throughput lies below them", None))
        } @else if above.is_empty() {
            (check("unknown", "Higher loads", "none was checked", Some("The search ended before it looked whether a higher load holds.")))
        } @else if above.iter().all(|probe| probe.verdict != ProbeVerdict::Pass) {
            (check("pass", "Higher loads do not hold", &list(&above), None))
        } @else {
            (check("fail", "A higher load holds", &list(&above), Some("A load that held was tried once more; where it held twice, there is no single limit.")))
        }
    }
}

fn check(class: &str, name: &str, figure: &str, advice: Option<&str>) -> Markup {
    let (sign, word) = match class {
        "pass" => ("✓", "passed"),
        "fail" => ("✕", "failed"),
        _ => ("?", "unknown"),
    };
    html! {
        li class={ (class) @if advice.is_some() { " wide" } } {
            span.s role="img" title=(word) aria-label=(word) { (sign) }
            b { (name) }
            span.f { (figure) }
            @if let Some(advice) = advice { span.a { (advice) } }
        }
    }
}

pub(super) fn section(document: &CapacityDocument, load: Load) -> Markup {
    html! {
        section id=(load.id("answer")) {
            h2 { "Answer" }
            // Where nothing is held, the word is no verdict.
            p.answer {
                @if document.answer.value.is_some() { (judged(&document.verdict.answer)) } @else { (document.verdict.answer) }
                "."
            }
            (line(document, load))
            (tile_row(&tiles(document, load)))
            @if servers(document).is_some() {
                p.note { b { "Servers" } " are the demand over both ends of the bracket, without reserve, for a load that is spread evenly between them." }
            }
        }
    }
}

/// The bracket on a line of loads, with the probes around it.
fn line(document: &CapacityDocument, load: Load) -> Markup {
    let (Some((low, high)), Some((from, to))) = (bracket(document), around_bracket(document)) else {
        return html! {};
    };
    let scale = Scale::linear(from, to);
    let left = |value: f64| format!("{:.2}%", scale.share(value) * 100.0);
    let near = document.probes.iter().filter(|p| p.load >= from && p.load <= to);
    let value = document.answer.value.map(|value| value.0);
    let of = value.map_or_else(String::new, |value| format!("{} in ", load.bare(value)));
    let sentence = format!("The answer: {of}a bracket from {} to {}", load.bare(low), load.words(high));
    html! {
        div.pw style="padding:24px 18px 26px 18px" {
            svg.plot role="img" aria-label=(sentence) height="40" {
                title { (sentence) }
                rect class="kn" x=(left(low)) y="0" height="100%" width=(format!("{:.2}%", (scale.share(high) - scale.share(low)) * 100.0)) {}
                line class="gr" x1="0" x2="100%" y1="70%" y2="70%" {}
                @if let Some(value) = value {
                    line class="cross" x1=(left(value)) x2=(left(value)) y1="0" y2="100%" {}
                    text class="lb knee" x=(left(value)) y="-8" text-anchor="middle" { (load.bare(value)) }
                }
                @for probe in near {
                    svg class={ "mk " (sign(&probe.verdict).class()) } x=(left(probe.load)) y="70%" overflow="visible" {
                        title { (name(probe, load)) ": " (state(&probe.verdict).2) }
                        (sign(&probe.verdict).shape())
                    }
                }
                text class="lb" x=(left(low)) y="14" dx="-6" text-anchor="end" { (load.bare(low)) }
                text class="lb" x=(left(high)) y="14" dx="6" { (load.bare(high)) }
                @for tick in scale.ticks() {
                    text class="tk" x=(left(tick)) y="100%" dy="18" text-anchor="middle" { (load.bare(tick)) }
                }
            }
        }
    }
}

/// The limit as a word of two, and in full.
pub(super) fn limit_name(document: &CapacityDocument, limit: &str) -> String {
    let alone = document.spec.slo.marginal.iter().find(|marginal| marginal.text == limit);
    alone.map_or_else(|| "joint".to_owned(), |marginal| label::metric(marginal.metric).to_owned())
}

fn tiles(document: &CapacityDocument, load: Load) -> Vec<Tile> {
    let answer = &document.answer;
    let mut out = Vec::new();
    let (low, high) = (answer.low.map(|x| x.0), answer.high.map(|x| x.0));
    let confidence = percent(answer.confidence.0);
    let lower_bound = answer.verdict.is_lower_bound();
    match (answer.value, low, high) {
        (Some(value), _, _) => {
            let name = match answer.verdict {
                _ if lower_bound => "Holds at least",
                Verdict::Unresolved => "Holds about",
                _ => "Holds",
            };
            let below = match load.bracket(low, high) {
                Some(_) if lower_bound => "the upper end is not known".to_owned(),
                Some(range) => format!("{range}, {confidence} confidence"),
                None => "without a bracket".to_owned(),
            };
            out.push(Tile { name: name.to_owned(), value: load.bare(value.0), unit: load.unit, below });
        }
        (None, Some(low), _) => out.push(Tile {
            name: "Everything held up to".to_owned(),
            value: load.bare(low),
            unit: load.unit,
            below: "no single limit above".to_owned(),
        }),
        (None, None, Some(high)) => out.push(Tile {
            name: "Missed already at".to_owned(),
            value: load.bare(high),
            unit: load.unit,
            below: "the lowest load that failed".to_owned(),
        }),
        (None, None, None) => {}
    }
    if let Some(limit) = &answer.limited_by {
        let binds = document.curves.iter().find(|curve| curve.limit == *limit).map(|curve| curve.binds);
        let below = match binds.filter(|_| document.curves.len() > 1) {
            Some(binds) => format!("{limit}, at {} chance", percent(binds)),
            None => limit.clone(),
        };
        out.push(Tile { name: "Limited by".to_owned(), value: limit_name(document, limit), unit: "", below });
    }
    if let Some(good) = answer.goodput_per_s {
        out.push(Tile {
            name: "Goodput there".to_owned(),
            value: load_figure(good.0),
            unit: "requests/s",
            below: match &document.quality {
                Some(quality) if quality.qualified_goodput_per_s.is_some() => {
                    "within every limit, by the same model".to_owned()
                }
                Some(_) => "within every limit; not qualified".to_owned(),
                None => "within every limit".to_owned(),
            },
        });
    }
    out.extend(servers(document).or_else(|| per_accelerator(document)));
    if answer.requests > 0 {
        out.push(Tile {
            name: "Spent on the search".to_owned(),
            value: clock_time(Nanos(answer.duration_ns)),
            unit: if answer.duration_ns < 3_600_000_000_000 { "min" } else { "h" },
            below: counted(answer.requests, "request"),
        });
    }
    out
}

/// Servers for the demand; none where no load is held, since no number of servers would do.
fn servers(document: &CapacityDocument) -> Option<Tile> {
    document.answer.low?;
    let fleet = document.fleet?;
    let value = match (fleet.servers_low, fleet.servers_high) {
        (Some(low), Some(high)) if low == high => count(low),
        (Some(low), Some(high)) => format!("{}–{}", count(low), count(high)),
        (None, Some(high)) => format!("≤{NBSP}{}", count(high)),
        (Some(low), None) => format!("≥{NBSP}{}", count(low)),
        (None, None) => return None,
    };
    let each = fleet.per_accelerator.map(|each| format!("{} requests/s per accelerator", load_figure(each)));
    Some(Tile {
        name: format!("Servers for {} requests/s", load_figure(fleet.demand_per_s?)),
        value,
        unit: "",
        below: each.unwrap_or_else(|| "demand over the bracket".to_owned()),
    })
}

fn per_accelerator(document: &CapacityDocument) -> Option<Tile> {
    let fleet = document.fleet?;
    Some(Tile {
        name: "Per accelerator".to_owned(),
        value: load_figure(fleet.per_accelerator?),
        unit: "requests/s",
        below: format!("of {}", counted(u64::from(fleet.accelerators?), "accelerator")),
    })
}
