//! What all users get against what each of them gets.

use decide::sweep::{SweepReport, Trade};
use decide::words::{number, plain};
use maud::{Markup, html};

use crate::html::chart::{Chart, Sign, Vertical, figure};
use crate::html::scale::Scale;

pub(super) fn section(report: &SweepReport) -> Markup {
    let all = if report.asked.accelerators.is_some() {
        "output tokens/s an accelerator"
    } else {
        "output tokens/s of the whole server"
    };
    html! {
        section id="trade" {
            h2 { "What all get against what each gets" }
            @if report.trades.is_empty() {
                p.lead { "No load has both speeds: answers were not streamed, or the figures are withheld." }
            } @else {
                p.lead {
                    "Up: " (all) ". Right: median output speed of one user. ● on the Pareto front: no other load gives at least as much of \
                     both and more of one. ○ another load gives more of both. Nothing between the marks was measured."
                }
                (figure("Pareto front", &format!("{all}, over output tokens/s of one user; numbers are loads"), &front(report, all)))
            }
        }
    }
}

fn front(report: &SweepReport, all: &str) -> Chart {
    let x = Scale::of_spread(report.trades.iter().map(|t| t.per_user).collect::<Vec<_>>().into_iter());
    // Room above for the words.
    let together: Vec<f64> = report.trades.iter().flat_map(|t| [t.together, 1.2 * t.together]).collect();
    let y = Scale::of_latencies(together.into_iter());
    let words = |t: &Trade| {
        format!(
            "{}: {} {all}, {} tokens/s a user",
            report.over.words(t.load),
            number(t.together),
            number(t.per_user)
        )
    };
    let sentence: Vec<String> = report.front.iter().map(words).collect();
    let mut chart = Chart::new(
        format!("Pareto front: {}", sentence.join("; ")),
        260,
        x,
        Vertical::Values(y),
        plain,
        plain,
    );
    // Words below marks: a word's halo must not hide one.
    for trade in &report.trades {
        chart.word(trade.per_user, trade.together, &plain(trade.load));
    }
    for trade in &report.trades {
        let on = report.front.iter().any(|f| f.load.total_cmp(&trade.load).is_eq());
        let sign = if on { Sign::Plain } else { Sign::Hollow };
        chart.mark(trade.per_user, trade.together, (None, None), sign, &words(trade));
    }
    chart
}
