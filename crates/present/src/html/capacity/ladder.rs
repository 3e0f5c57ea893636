//! The probes one below the other, each with the bracket after it: how the answer became narrow.

use decide::capacity::ProbeReport;
use decide::json::CapacityDocument;
use maud::{Markup, html};

use super::{Load, bracket, fitted, name, sign, state};
use crate::html::scale::Scale;

/// Pixels of a row.
const ROW: usize = 22;

pub(super) fn picture(document: &CapacityDocument, load: Load) -> Markup {
    let probes: Vec<&ProbeReport> = document.probes.iter().filter(|p| p.load.is_finite()).collect();
    if probes.is_empty() {
        return html! {};
    }
    let x = Scale::of_loads(probes.iter().map(|probe| probe.load).collect::<Vec<_>>().into_iter());
    let left = |value: f64| format!("{:.2}%", x.share(value) * 100.0);
    let top = |row: usize| row * ROW + ROW / 2;
    let width = |low: f64, high: f64| format!("{:.2}%", ((x.share(high) - x.share(low)) * 100.0).max(0.2));
    let sentence = format!("Probes in order: {}", in_words(&probes, load));
    let log = if x.is_log() { ", log scale" } else { "" };
    html! {
        figure.fig {
            figcaption {
                b { "How the bracket became narrow" }
                span { "from top to bottom, each probe at its load, with the bracket after it as a bar; " (load.axis) (log) }
            }
            div.pw style="padding:6px 14px 26px 54px" {
                svg.plot role="img" aria-label=(sentence) height=(probes.len() * ROW) {
                    title { (sentence) }
                    @for tick in x.ticks() {
                        line class="gr" x1=(left(tick)) x2=(left(tick)) y1="0" y2="100%" {}
                        text class="tk" x=(left(tick)) y="100%" dy="18" text-anchor="middle" { (load.bare(tick)) }
                    }
                    @if let Some((low, high)) = bracket(document) {
                        rect class="kn" x=(left(low)) width=(width(low, high)) y="0" height="100%" {}
                    }
                    @for (row, probe) in probes.iter().enumerate() {
                        text class="tk" x="-8" y=(top(row)) dy="4" text-anchor="end" { (probe.number) }
                        @if let Some((low, high)) = probe.bracket.filter(|_| fitted(probe)) {
                            rect class="bar" x=(left(low)) width=(width(low, high)) y=(top(row) - 3) height="6" {}
                        }
                        svg class={ "mk " (sign(&probe.verdict).class()) } x=(left(probe.load)) y=(top(row)) overflow="visible" {
                            title { (name(probe, load)) ": " (state(&probe.verdict).2) }
                            (sign(&probe.verdict).shape())
                        }
                    }
                }
            }
        }
    }
}

fn in_words(probes: &[&ProbeReport], load: Load) -> String {
    let each = |probe: &&ProbeReport| {
        let bracket = probe
            .bracket
            .filter(|_| fitted(probe))
            .and_then(|(low, high)| load.bracket(Some(low), Some(high)));
        let bracket = bracket.map_or_else(String::new, |range| format!(", bracket {range}"));
        format!("{} {}{bracket}", load.bare(probe.load), state(&probe.verdict).2)
    };
    probes.iter().map(each).collect::<Vec<_>>().join("; ")
}
