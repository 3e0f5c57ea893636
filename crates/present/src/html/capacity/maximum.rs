//! The most of a throughput: the answer, the throughput over the load, each setting and the survey.

use decide::capacity::figure as load_figure;
use decide::json::CapacityDocument;
use decide::maximize::{AtSetting, Binds, Maximum, Point, setting_words};
use decide::words::{self, clock_time, count, counted, plain};
use maud::{Markup, html};
use spec::Nanos;

use super::{Load, purpose};
use crate::html::chart::{Chart, Sign, Vertical, figure};
use crate::html::scale::Scale;
use crate::html::{Tile, tile_row};
use crate::terminal::{chance, why};

/// Pixels.
const HEIGHT: u32 = 260;

pub(super) fn section(document: &CapacityDocument, load: Load) -> Markup {
    let Some(maximum) = &document.maximum else { return html! {} };
    html! {
        section id="maximum" {
            h2 { "Maximum" }
            p.answer { (maximum.sentence) "." }
            (tile_row(&tiles(maximum, load)))
            (curve(maximum, load))
            @if maximum.settings.len() > 1 { (settings(maximum, load)) }
            @if !maximum.survey.is_empty() { (survey(maximum, load)) }
            @if !maximum.notes.is_empty() { ul.out { @for note in &maximum.notes { li { (note) } } } }
        }
    }
}

fn interval(low: Option<f64>, high: Option<f64>) -> String {
    low.zip(high).map_or("its spread is not known".to_owned(), |(low, high)| {
        format!("{}–{}, 95 % confidence", load_figure(low), load_figure(high))
    })
}

fn tiles(maximum: &Maximum, load: Load) -> Vec<Tile> {
    let mut out = Vec::new();
    let Some(best) = &maximum.best else { return out };
    if let Some(per_s) = best.per_s {
        let unit = maximum.objective.unit();
        let below = interval(best.per_s_low, best.per_s_high);
        let name = match best.binds {
            Some(Binds::LargestLoad | Binds::Client) => "Gives at least",
            _ => "Gives at most",
        };
        out.push(Tile { name: name.to_owned(), value: load_figure(per_s), unit, below });
    }
    if let Some(at) = best.load {
        let below = load.bracket(best.low, best.high).unwrap_or_else(|| "without a bracket".to_owned());
        out.push(Tile { name: "Best load".to_owned(), value: load.bare(at), unit: load.unit, below });
    }
    for knob in &maximum.knobs {
        let below = match knob.low == knob.high {
            true => "no other is as good".to_owned(),
            false => format!("{}–{} may be as good", count(u64::from(knob.low)), count(u64::from(knob.high))),
        };
        let (name, value) = (format!("Best {}", knob.dial.name()), count(u64::from(knob.value)));
        out.push(Tile { name, value, unit: "tokens", below });
    }
    out.push(Tile {
        name: "Spent in all".to_owned(),
        value: clock_time(Nanos(maximum.duration_ns)),
        unit: if maximum.duration_ns < 3_600_000_000_000 { "min" } else { "h" },
        below: format!("{}; ends by: {}", counted(maximum.requests, "request"), why(best)),
    });
    out
}

/// The throughput at each load that was tried at the best setting.
fn curve(maximum: &Maximum, load: Load) -> Markup {
    let known = |point: &Point| {
        let per_s = point.per_s.filter(|per_s| per_s.is_finite() && point.client_limited.is_none())?;
        Some((point.load?, per_s))
    };
    let seen: Vec<(&Point, f64, f64)> =
        maximum.points.iter().filter_map(|p| known(p).map(|(x, y)| (p, x, y))).collect();
    if seen.is_empty() {
        return html! { p.note { "No probe tells its throughput." } };
    }
    let largest = seen.iter().map(|(_, x, _)| *x).fold(0.0, f64::max);
    let highest = seen.iter().map(|(_, _, y)| *y).fold(0.0, f64::max);
    let (x, y) = (Scale::linear(0.0, 1.06 * largest), Scale::linear(0.0, 1.12 * highest));
    let unit = &maximum.unit;
    let each: Vec<String> =
        seen.iter().map(|(_, x, y)| format!("{} at {}", words::number(*y), load.bare(*x))).collect();
    let sentence = format!("{unit} over {}: {}", load.axis, each.join(", "));
    let mut chart = Chart::new(sentence, HEIGHT, x, Vertical::Values(y), |v| load.bare(v), plain);
    if let Some((low, high)) = maximum.best.as_ref().and_then(|best| best.low.zip(best.high)) {
        chart.span("kn", low, high, "");
    }
    for (point, x, y) in &seen {
        let range = point.interval().map_or((None, None), |(low, high)| (Some(low), Some(high)));
        let text = format!("Probe {}, {}: {} {unit}", point.number, load.words(*x), words::number(*y));
        chart.mark(*x, *y, range, Sign::Hollow, &text);
    }
    let below = format!("{unit}, over {}; the band is the bracket of the best load", load.axis);
    html! { div style="margin-top:18px" { (figure("Throughput", &below, &chart)) } }
}

fn settings(maximum: &Maximum, load: Load) -> Markup {
    let cell = |value: Option<f64>| value.map_or("–".to_owned(), load_figure);
    let row = |at: &AtSetting| {
        html! {
            tr {
                td.l { b { (setting_words(&at.setting)) } }
                td { (at.load.map_or("–".to_owned(), |x| load.bare(x))) small { (load.bracket(at.low, at.high).unwrap_or_default()) } }
                td { (cell(at.per_s)) @if at.per_s.is_some() { small { (interval(at.per_s_low, at.per_s_high)) } } }
                td { (cell(at.goodput_per_s)) }
                td.l { (why(at)) }
            }
        }
    };
    html! {
        div.tw tabindex="0" style="margin-top:18px" { table {
            thead { tr { th.l { "Setting" } th { (load.unit) } th { (maximum.unit) } th { "good/s" } th.l { "Ends by" } } }
            tbody { @for at in &maximum.settings { (row(at)) } }
        } }
    }
}

fn survey(maximum: &Maximum, load: Load) -> Markup {
    html! {
        p.note {
            "The survey spreads probes over loads and settings and fits a surface through them; the last column is the chance, by that surface, that the limits hold.              The load at the best setting was then searched on its own."
        }
        div.tw tabindex="0" { table {
            thead { tr { th { "Probe" } th.l { "Setting" } th.l { "for" } th { (load.unit) } th { (maximum.unit) } th { "limits hold" } } }
            tbody {
                @for surveyed in &maximum.survey {
                    @let point = &surveyed.point;
                    tr {
                        td { (point.number) }
                        td.l { (setting_words(&point.setting)) }
                        td.l { (purpose(point.kind)) @if let Some(why) = &point.client_limited { small.why { (why) } } }
                        td { (point.load.map_or("–".to_owned(), |x| load.bare(x))) }
                        td { (point.per_s.map_or("–".to_owned(), load_figure)) }
                        td { (surveyed.holds.map_or("–".to_owned(), chance)) }
                    }
                }
            }
        } }
    }
}
