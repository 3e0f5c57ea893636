//! The page of a sweep.

mod curves;
mod points;
mod trade;

use decide::sweep::{CrossingState, Over, Point, SweepReport};
use decide::words::{self, NBSP, counted, decimals, fixed, number, percent, plain};
use decide::{CheckState, TrustVerdict};
use maud::{Markup, html};

use super::chart::{Sign, figure};
use super::curve::{Curve, LimitLine, Mark, Picture};
use super::scale::Scale;
use super::{Head, judged, notes, page};
use curves::{axis_words, bands, loads, throughput_marks};

const SECTIONS: [(&str, &str); 9] = [
    ("trust", "Trust"),
    ("answer", "Answer"),
    ("slo", "Limits"),
    ("curves", "Curves"),
    ("trade", "Trade"),
    ("points", "Loads"),
    ("notes", "Notes"),
    ("spec", "Spec"),
    ("defs", "Definitions"),
];

/// The page of one sweep. `command` is what would measure it again; `links`: whether the pages of its
/// runs lie in the folders beside it.
pub fn sweep(report: &SweepReport, command: &str, links: bool) -> String {
    let spec = &report.asked.spec;
    let mut brand = vec![spec.target.to_string()];
    brand.extend(spec.labels.iter().map(|(key, value)| format!("{key} {value}")));
    let body = html! {
        (trust(report))
        (answer(report))
        (limits(report))
        (curves::section(report))
        (trade::section(report))
        (points::section(report, links))
        (notes(&report.notes))
        (points::spec(report))
        (points::definitions())
    };
    let title = title(report);
    let head = Head { kind: "sweep", title: &title, brand: &brand, command, sections: &SECTIONS };
    page(&head, &report.asked.tool_version, &body)
}

fn title(report: &SweepReport) -> String {
    let spec = &report.asked.spec;
    let name = spec.api.model.clone().unwrap_or_else(|| spec.target.to_string());
    let lengths =
        format!("{} in / {} out", words::lengths(&spec.workload.isl), words::lengths(&spec.workload.osl));
    let loads = counted(report.points.len() as u64, "load");
    match (report.points.first(), report.points.last()) {
        (Some(first), Some(last)) if report.points.len() > 1 => {
            format!(
                "{name}, {loads} from {} to {}, {lengths}",
                plain(first.load),
                report.over.words(last.load)
            )
        }
        _ => format!("{name}, {loads}, {lengths}"),
    }
}

fn trust(report: &SweepReport) -> Markup {
    let verdicts: Vec<Option<TrustVerdict>> =
        report.points.iter().map(|p| p.known().map(|pooled| pooled.trust.verdict)).collect();
    let of = |wanted: Option<TrustVerdict>| verdicts.iter().filter(|v| **v == wanted).count();
    let (valid, limited, unknown) =
        (of(Some(TrustVerdict::Valid)), of(Some(TrustVerdict::Limited)), of(None));
    let total = verdicts.len();
    let (class, word) = match (valid, unknown) {
        (valid, _) if valid == total => ("valid", "Valid"),
        (_, unknown) if unknown == total => ("invalid", "Invalid"),
        _ => ("limited", "Limited"),
    };
    let tally = format!("{valid} of {total} loads are valid, {limited} limited, {unknown} unknown");
    let meaning = match class {
        "valid" => "Every figure that is shown may be believed within its interval.",
        "invalid" => "Nothing may be concluded from the figures of this sweep.",
        _ => {
            "A limited load keeps the figures that its failed checks leave alone; of an unknown one nothing is concluded, and it is never taken for the server’s limit."
        }
    };
    html! {
        section id="trust" {
            h2 { "Can this measurement be believed?" }
            div class={ "verdict " (class) } role="status" {
                span.w { (word) ": " (tally) }
                p { (meaning) }
            }
            ul.checks {
                @for point in &report.points { (doubts(report.over, point)) }
            }
        }
    }
}

/// A load that is not valid, with what was wrong.
fn doubts(over: Over, point: &Point) -> Markup {
    let (class, sign, word, text, advice) = match &point.pooled {
        Err(why) => ("unknown", "?", "unknown", why.clone(), None),
        Ok(pooled) if pooled.trust.verdict == TrustVerdict::Valid => return html! {},
        Ok(pooled) => {
            let wrong: Vec<_> = pooled.trust.in_state(CheckState::Fail).collect();
            let list: Vec<String> =
                wrong.iter().map(|check| format!("{}: {}", check.id.label(), check.figure)).collect();
            let advice = wrong.first().and_then(|check| check.advice.clone());
            let text = if list.is_empty() {
                "a check on which the figures rest could not be made".to_owned()
            } else {
                list.join("; ")
            };
            ("unknown", "◇", "limited", text, advice)
        }
    };
    html! {
        li class={ (class) " wide" } {
            span.s role="img" title=(word) aria-label=(word) { (sign) }
            b { (over.words(point.load)) }
            span.f { (text) }
            @if let Some(advice) = advice { span.a { (advice) } }
        }
    }
}

fn answer(report: &SweepReport) -> Markup {
    let tiles = tiles(report);
    html! {
        section id="answer" {
            h2 { "Answer" }
            p.answer { (judged(&report.verdict.answer)) }
            @if !tiles.is_empty() {
                div.tiles style=(format!("--n:{}", tiles.len())) {
                    @for (name, value, unit, below) in &tiles {
                        div {
                            span.k { (name) }
                            span.v { (value) " " small { (unit) } }
                            span.c { (below) }
                        }
                    }
                }
            }
        }
    }
}

/// A load that was computed: whole users, rates with three digits.
fn load_words(over: Over, load: f64) -> String {
    let places = if over == Over::Concurrency { 0 } else { decimals(load) };
    fixed(load, places)
}

/// Name, value, unit, companion; five at most.
fn tiles(report: &SweepReport) -> Vec<(String, String, &'static str, String)> {
    let mut tiles = Vec::new();
    let unit = match report.over {
        Over::Concurrency => "users",
        Over::Rate => "requests/s",
    };
    if let Some(at) = report.knee.at {
        let shown = |load: f64| load_words(report.over, load);
        let below = format!("{}–{}, 95{NBSP}% interval", shown(at.low), shown(at.high));
        tiles.push(("Knee".to_owned(), shown(at.load), unit, below));
    }
    if let Some((load, peak)) = report.knee.peak {
        tiles.push((
            "Peak".to_owned(),
            number(peak),
            "requests/s",
            format!("at {}", report.over.words(load)),
        ));
    }
    for limit in report.limits.iter().take(3) {
        let crossing = &limit.crossing;
        if let Some(holds) = crossing.holds_up_to.filter(|_| crossing.state != CrossingState::NotMonotone) {
            let below = match crossing.missed_from {
                Some(missed) => format!("missed from {}", plain(missed)),
                None if crossing.open.is_empty() => "the largest load".to_owned(),
                None => "undecided above".to_owned(),
            };
            tiles.push((format!("{} holds up to", limit.limit), plain(holds), unit, below));
        }
    }
    tiles
}

fn limits(report: &SweepReport) -> Markup {
    html! {
        section id="slo" {
            h2 { "Limits" }
            @if report.limits.is_empty() {
                p.lead { "No limit was set. " code { "--slo 'p95(ttft)<=500ms'" } " sets one." }
            } @else {
                p.lead {
                    "Each limit is judged at each load that was measured, on all requests of its runs. It is crossed somewhere between \
                     two of these loads; where between them, a sweep does not say."
                }
                div.tw { table {
                    thead { tr {
                        th { "Limit" }
                        @for point in &report.points { th { (plain(point.load)) } }
                        th.l { "Crossed" }
                    } }
                    tbody {
                        @for (index, limit) in report.limits.iter().enumerate() {
                            tr {
                                td.wrap { b { (limit.limit) } }
                                @for point in &report.points { td { (points::sign(point, index)) } }
                                td.l.wrap { (limit.words) }
                            }
                        }
                    }
                } }
                (attainment(report))
            }
        }
    }
}

/// Attainment and goodput over load.
fn attainment(report: &SweepReport) -> Markup {
    let joint = |point: &Point| point.known().and_then(|pooled| pooled.slo.joint.clone());
    let Some(target) = report.points.iter().find_map(|point| joint(point).map(|j| j.target)) else {
        return html! {};
    };
    let shares: Vec<Mark> = report
        .points
        .iter()
        .filter_map(|point| {
            let joint = joint(point)?;
            let value = joint.attainment.value.or(joint.attainment.high)?;
            let title = format!("{}: {} within the limits", report.over.words(point.load), percent(value));
            let interval = (joint.attainment.low, joint.attainment.high);
            Some(Mark { load: point.load, value, interval, sign: Sign::of(joint.met), title })
        })
        .collect();
    let goodput: Vec<Mark> = report
        .points
        .iter()
        .filter_map(|point| {
            let joint = joint(point)?;
            let value = joint.goodput_per_s?;
            let title = format!("{}: {} good requests/s", report.over.words(point.load), number(value));
            Some(Mark { load: point.load, value, interval: (None, None), sign: Sign::of(joint.met), title })
        })
        .collect();
    let done = throughput_marks(report);
    let most = done.iter().map(|mark| mark.value).fold(0.0, f64::max);
    let first = report.limits.first().into_iter().collect::<Vec<_>>();
    let picture = |sentence: &str, curves: Vec<Curve>, limits, vertical| Picture {
        sentence: sentence.to_owned(),
        loads: loads(report),
        curves,
        limits,
        bands: bands(report, &first),
        knee: None,
        vertical,
    };
    let (attained, _) = picture(
        "Share of offered requests within the joint limits, over load",
        vec![Curve { class: "b", marks: shares, bare: false }],
        vec![LimitLine { value: target, label: format!("target {}", percent(target)) }],
        Some(Scale::linear(0.0, 1.04)),
    )
    .draw(percent);
    let (good, log) = picture(
        "Good requests per second over load",
        vec![
            Curve { class: "g", marks: done, bare: true },
            Curve { class: "b", marks: goodput, bare: false },
        ],
        Vec::new(),
        Some(Scale::linear(0.0, 1.06 * most)),
    )
    .draw(plain);
    html! {
        div.four style="margin-top:22px" {
            (figure("Attainment", &axis_words(report, "share of offered requests", false), &attained))
            (figure("Goodput", &axis_words(report, "good requests/s, dashed all completed", log), &good))
        }
    }
}
