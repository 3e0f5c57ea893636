//! Each judged task's share of the baseline's score with its bounds, against the limit.

use maud::{Markup, html};
use quality::gate::{Report, TaskReport};
use spec::words::percent;

use super::within;
use crate::html::chart::Sign;
use crate::html::scale::Scale;

/// Pixels of a row: a line of words and a bar below it.
const ROW: usize = 44;

pub(super) fn picture(report: &Report) -> Markup {
    let tasks: Vec<(&TaskReport, f64)> = report.judged().filter_map(|t| Some((t, t.ratio?))).collect();
    if tasks.is_empty() {
        return html! {};
    }
    let limit = report.settings.ratio;
    let x = axis(&tasks, limit);
    let left = |value: f64| format!("{:.2}%", x.share(value) * 100.0);
    let bar = |row: usize| row * ROW + 30;
    let each = tasks.iter().map(|(task, ratio)| format!("{} {}", task.task, words(task, *ratio)));
    let sentence = format!(
        "Share of the baseline’s score that is kept, limit {}: {}",
        percent(limit),
        each.collect::<Vec<_>>().join("; ")
    );
    html! {
        figure.fig {
            figcaption { b { "Share of the baseline’s score that is kept" } span { "each task with its bounds; the dashed line is the limit" } }
            div.pw style="padding:22px 20px 26px 20px" {
                svg.plot role="img" aria-label=(sentence) height=(tasks.len() * ROW) {
                    title { (sentence) }
                    @for tick in x.ticks() {
                        line class="gr" x1=(left(tick)) x2=(left(tick)) y1="0" y2="100%" {}
                        text class="tk" x=(left(tick)) y="100%" dy="18" text-anchor="middle" { (percent(tick)) }
                    }
                    line class="ref" x1=(left(1.0)) x2=(left(1.0)) y1="0" y2="100%" {}
                    line class="lim" x1=(left(limit)) x2=(left(limit)) y1="0" y2="100%" {}
                    text class="lbl" x=(left(limit)) y="-7" text-anchor="middle" { (percent(limit)) }
                    @for (row, (task, ratio)) in tasks.iter().enumerate() {
                        line class="wh" x1=(left(task.bounds.low.unwrap_or(f64::NEG_INFINITY))) x2=(left(task.bounds.high.unwrap_or(f64::INFINITY))) y1=(bar(row)) y2=(bar(row)) {}
                        svg class={ "mk " (Sign::of(task.decision.met()).class()) } x=(left(*ratio)) y=(bar(row)) overflow="visible" {
                            title { (task.task) " " (words(task, *ratio)) }
                            (Sign::of(task.decision.met()).shape())
                        }
                        text class="lb" x="0" y=(row * ROW + 15) { (task.task) tspan class="tk" dx="8" { (words(task, *ratio)) } }
                    }
                }
            }
        }
    }
}

fn words(task: &TaskReport, ratio: f64) -> String {
    let range = within(task.bounds).map_or_else(String::new, |range| format!(" ({range})"));
    format!("{}{range}", percent(ratio))
}

/// Over everything that is finite, the limit and equality, with room beside them.
fn axis(tasks: &[(&TaskReport, f64)], limit: f64) -> Scale {
    let ends = tasks.iter().flat_map(|(task, ratio)| {
        // A ratio far above the baseline's would squeeze what matters.
        [Some(*ratio), task.bounds.low, task.bounds.high.map(|high| high.min(2.0 * ratio.max(1.0)))]
    });
    let all: Vec<f64> = ends.flatten().chain([limit, 1.0]).filter(|v| v.is_finite()).collect();
    let low = all.iter().copied().fold(f64::INFINITY, f64::min);
    let high = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let room = (0.06 * (high - low)).max(0.01);
    Scale::linear((low - room).max(0.0), high + room)
}
