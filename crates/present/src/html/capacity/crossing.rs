//! Each limit: where it is crossed, and the share of misses over load.

use decide::capacity::{Curve, LimitAtProbe, ProbeReport};
use decide::json::CapacityDocument;
use decide::words::{NBSP, number, percent, percent_number, plain};
use maud::{Markup, html};

use super::{Load, bracket, enlarged, fitted, key, largest, name, sign, speaks, state};
use crate::html::chart::{Chart, Vertical, figure};
use crate::html::scale::Scale;

/// Pixels.
const HEIGHT: u32 = 230;

pub(super) fn section(document: &CapacityDocument, load: Load) -> Markup {
    html! {
        section id=(load.id("limits")) {
            h2 { "Where the limits are crossed" }
            @if document.answer.verdict.is_lower_bound() {
                p.lead { "No crossing was seen: every limit held as far as loads could be tried, and what lies beyond is not known." }
            } @else if document.curves.is_empty() {
                p.lead { "No probe could be fitted, so no crossing is known." }
            } @else {
                p.lead {
                    "Marks: probes, with the 95" (NBSP) "% interval of what they saw, corrected for the luck of their timetable; \
                     the sign is the verdict under all limits. Line: the curve fitted through the probes of the search. Checks below \
                     and above are no part of it: each is decided by its own sample and has no interval here. All axes of load are linear."
                }
                (key(document, load))
                div.four {
                    @for (index, curve) in document.curves.iter().enumerate() {
                        @let whole = (0.0, 1.06 * largest(document));
                        (picture(document, load, (index, curve), whole, false))
                        @if let Some(near) = enlarged(document) { (picture(document, load, (index, curve), near, true)) }
                    }
                }
                (table(document, load))
            }
        }
    }
}

fn picture(
    document: &CapacityDocument,
    load: Load,
    (index, curve): (usize, &Curve),
    (from, to): (f64, f64),
    is_enlarged: bool,
) -> Markup {
    let x = Scale::linear(from, to);
    let seen: Vec<(&ProbeReport, &LimitAtProbe, f64)> = document
        .probes
        .iter()
        .filter(|probe| speaks(probe) && x.holds(probe.load))
        .filter_map(|probe| {
            let limit = probe.limits.get(index)?;
            Some((probe, limit, limit.corrected.filter(|value| value.is_finite())?))
        })
        .collect();
    let curve_here: Vec<(f64, f64)> =
        curve.points.iter().copied().filter(|(at, y)| x.holds(*at) && y.is_finite()).collect();
    let target = curve.target.unwrap_or(1.0);
    let is_share = curve.target.is_some();
    let y = axis(&seen, &curve_here, target, is_share);
    let what = if is_share { "share of requests that miss it" } else { "mean over the limit" };
    let range = format!("{}–{}", load.bare(curve.low), load.bare(curve.high));
    let sentence = format!(
        "{what}, {}{}: crossed at {} ({range}); {}",
        curve.limit,
        if is_enlarged { ", near the bracket" } else { "" },
        load.words(curve.crossing),
        in_words(&seen, load, is_share)
    );
    let y_name = |value: f64| if is_share { percent(value) } else { plain(value) };
    let mut chart = Chart::new(sentence, HEIGHT, x, Vertical::Values(y), |v| load.bare(v), y_name);
    if let Some((low, high)) = bracket(document) {
        chart.span("kn", low, high, "");
    }
    let on_line = if is_share { format!("{} may miss", percent(target)) } else { "the limit".to_owned() };
    chart.limit_at_y_left(target, &on_line);
    if x.holds(curve.crossing) {
        chart.crossing_at_x(curve.crossing, &format!("{} ({range})", load.bare(curve.crossing)));
    }
    chart.line("b", curve_here.into_iter());
    for (probe, limit, value) in &seen {
        let whisker = if fitted(probe) { (limit.low, limit.high) } else { (None, None) };
        let range = interval(probe, limit, is_share).map_or_else(String::new, |range| format!(" ({range})"));
        let verdict = state(&probe.verdict).2;
        let title = format!("{}: {}{range}, {verdict}", name(probe, load), self::value(*value, is_share));
        chart.mark(probe.load, *value, whisker, sign(&probe.verdict), &title);
    }
    for probe in document.probes.iter().filter(|probe| !speaks(probe) && x.holds(probe.load)) {
        let title = format!("{}: client-limited, no figure", name(probe, load));
        chart.mark(probe.load, 0.0, (None, None), sign(&probe.verdict), &title);
    }
    let title = if is_enlarged { format!("Enlarged: {}", curve.limit) } else { curve.limit.clone() };
    figure(&title, &format!("{what}, over {}", load.axis), &chart)
}

/// From zero as far as the values go.
fn axis(
    seen: &[(&ProbeReport, &LimitAtProbe, f64)],
    curve: &[(f64, f64)],
    target: f64,
    is_share: bool,
) -> Scale {
    let most = if is_share { 1.04 } else { f64::INFINITY };
    let marks =
        seen.iter().map(|(probe, limit, value)| limit.high.filter(|_| fitted(probe)).unwrap_or(*value));
    let all = marks.chain(curve.iter().map(|(_, y)| *y)).chain([2.0 * target]);
    let high = all.filter(|value| value.is_finite()).fold(0.0, f64::max);
    Scale::linear(0.0, (1.08 * high).min(most))
}

fn value(value: f64, is_share: bool) -> String {
    if is_share { percent(value) } else { format!("{}{NBSP}×", number(value)) }
}

/// The ends of the interval of a corrected value; a check is no part of the fit, whose noise it rests on.
pub(super) fn interval(probe: &ProbeReport, limit: &LimitAtProbe, is_share: bool) -> Option<String> {
    let end = |x: f64| if is_share { percent_number(x) } else { number(x) };
    let (low, high) = (limit.low?, limit.high?);
    fitted(probe).then(|| format!("{}–{}", end(low), end(high)))
}

fn in_words(seen: &[(&ProbeReport, &LimitAtProbe, f64)], load: Load, is_share: bool) -> String {
    let each: Vec<String> = seen
        .iter()
        .map(|(probe, _, y)| format!("{} at {}", value(*y, is_share), load.bare(probe.load)))
        .collect();
    if each.is_empty() { "no probe here".to_owned() } else { each.join(", ") }
}

fn table(document: &CapacityDocument, load: Load) -> Markup {
    let several = document.curves.len() > 1;
    html! {
        div.tw tabindex="0" style="margin-top:22px" { table {
            thead { tr {
                th { "Limit" }
                th { "may miss" }
                th { "crossed at," br; (load.unit) }
                @if several { th { "is crossed first," br; "chance" } }
                th { "steepness" }
                th { "noise between" br; "runs" }
            } }
            tbody {
                @for curve in &document.curves {
                    tr {
                        td.wrap { b { (curve.limit) } }
                        td { (curve.target.map_or("–".to_owned(), percent)) }
                        td { b { (load.bare(curve.crossing)) } small { (load.bare(curve.low)) "–" (load.bare(curve.high)) } }
                        @if several { td { (percent(curve.binds)) } }
                        td { (number(curve.slope)) }
                        td { (number(curve.run_noise)) }
                    }
                }
            }
        } }
        p.note {
            b { "Crossed at" } ": median and 95" (NBSP) "% interval of the fit of this limit alone. "
            b { "Steepness" } ": growth of the log-odds of a miss (of a mean: of its logarithm) when the load grows e-fold. "
            b { "Noise between runs" } ": what two probes of the same load differ by beyond their samples, in the same unit."
        }
    }
}
