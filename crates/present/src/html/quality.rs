//! The page of a comparison of two servers' answers: is it still the same model?

mod broken;
mod forest;
mod terms;

use maud::{Markup, html};
use quality::gate::{Report, Rule, TaskReport};
use quality::stats::{Bounds, Decision};
use spec::words::{NBSP, count, number, percent, percent_number};

use super::{Head, Tile, notes, page, tile_row};

/// What a comparison is of.
#[derive(Debug, Clone, Copy)]
pub struct Compared<'a> {
    /// The baseline: a model, a server or a folder.
    pub base: &'a str,
    /// The new server.
    pub new: &'a str,
    /// What would compare again.
    pub command: &'a str,
    /// Of the program.
    pub version: &'a str,
}

const SECTIONS: [(&str, &str); 7] = [
    ("answer", "Answer"),
    ("tasks", "Tasks"),
    ("breakage", "Breakage"),
    ("divergence", "Divergence"),
    ("decides", "What would decide"),
    ("notes", "Notes"),
    ("defs", "Definitions"),
];

/// The page of one comparison.
pub fn quality(report: &Report, of: &Compared<'_>) -> String {
    let has_divergence = !report.divergence.is_empty() || !report.identity.is_empty();
    let body = html! {
        (answer(report))
        (tasks(report))
        (broken::section(report))
        @if has_divergence { (broken::divergence(report)) }
        @if !report.decides.is_empty() { (decides(report)) }
        (notes(&report.warnings))
        (terms::section(report))
    };
    let is_there = |(id, _): &&(&str, &str)| match *id {
        "divergence" => has_divergence,
        "decides" => !report.decides.is_empty(),
        _ => true,
    };
    let sections: Vec<(&str, &str)> = SECTIONS.iter().filter(is_there).copied().collect();
    let title = format!("Is {} still the same model as {}?", of.new, of.base);
    let head = Head { kind: "quality", title: &title, brand: &[], command: of.command, sections: &sections };
    page(&head, of.version, &body)
}

/// Tasks and breakage of a comparison, as sections of another page.
pub(super) fn comparison(report: &Report) -> Markup {
    html! { (tasks(report)) (broken::section(report)) }
}

fn answer(report: &Report) -> Markup {
    let (class, box_class) = match report.verdict {
        Decision::Pass => ("yes", "valid"),
        Decision::Fail => ("no", "invalid"),
        Decision::Inconclusive => ("open", "limited"),
    };
    let word = report.verdict.word();
    let rest = report.answer.strip_prefix(word).unwrap_or(&report.answer);
    html! {
        section id="answer" {
            h2 { "Answer" }
            p.answer { strong class=(class) { (word) } (rest) "." }
            (tile_row(&tiles(report)))
            @if !report.doubts.is_empty() {
                div class={ "verdict " (box_class) } role="status" style="margin-top:18px" {
                    span.w { "No PASS can be given" }
                    @for doubt in &report.doubts { p { (doubt) "." } }
                }
            }
        }
    }
}

fn tiles(report: &Report) -> Vec<Tile> {
    let judged: Vec<&TaskReport> = report.judged().collect();
    let of = |decision: Decision| judged.iter().filter(|task| task.decision == decision).count();
    let mut out = Vec::new();
    if !judged.is_empty() {
        out.push(Tile {
            name: "Tasks that pass".to_owned(),
            value: format!("{} of {}", of(Decision::Pass), judged.len()),
            unit: "",
            below: format!("{} fail, {} inconclusive", of(Decision::Fail), of(Decision::Inconclusive)),
        });
    }
    let least = judged.iter().filter(|task| task.ratio.is_some());
    let least = least.min_by(|a, b| a.ratio.unwrap_or(0.0).total_cmp(&b.ratio.unwrap_or(0.0)));
    if let Some((task, ratio)) = least.and_then(|task| Some((task, task.ratio?))) {
        out.push(Tile {
            name: "Least kept of a score".to_owned(),
            value: percent(ratio),
            unit: "",
            below: format!(
                "{}{}",
                within(task.bounds).map_or_else(String::new, |b| format!("{b}, ")),
                task.task
            ),
        });
    }
    let (lost, gained) = judged.iter().fold((0, 0), |sum, t| (sum.0 + t.flips.lost, sum.1 + t.flips.gained));
    let documents: u64 = judged.iter().map(|task| task.n).sum();
    if documents > 0 {
        out.push(Tile {
            name: "Worse, better".to_owned(),
            value: format!("{}, {}", count(lost), count(gained)),
            unit: "",
            below: format!("of {} documents", count(documents)),
        });
    }
    if let Some(kl) = report
        .divergence
        .iter()
        .filter_map(|d| d.divergence.kl.as_ref())
        .max_by(|a, b| a.mean.total_cmp(&b.mean))
    {
        let below = if kl.left_over > 0.0 { "at least, a token" } else { "a token" };
        out.push(Tile {
            name: "Divergence".to_owned(),
            value: number(kl.mean),
            unit: "nats",
            below: below.to_owned(),
        });
    }
    out
}

fn within(bounds: Bounds) -> Option<String> {
    match (bounds.low, bounds.high) {
        (Some(low), Some(high)) => Some(format!("{}–{}", percent_number(low), percent(high))),
        (Some(low), None) => Some(format!("≥{NBSP}{}", percent(low))),
        (None, Some(high)) => Some(format!("≤{NBSP}{}", percent(high))),
        (None, None) => None,
    }
}

fn badge(decision: Decision) -> Markup {
    let (class, sign, word) = match decision {
        Decision::Pass => ("pass", "✓", "pass"),
        Decision::Fail => ("fail", "✕", "fail"),
        Decision::Inconclusive => ("undecided", "◇", "inconclusive"),
    };
    html! { span class={ "bd " (class) } { i aria-hidden="true" { (sign) } (word) } }
}

fn tasks(report: &Report) -> Markup {
    let settings = &report.settings;
    let asked = match settings.rule {
        Rule::NonInferiority => format!(
            "Asked: at least {} of the baseline’s score on each task. The bars are one-sided bounds at {} confidence: to the right of the limit passes, to the left of it fails, across it is inconclusive.",
            percent(settings.ratio),
            percent(1.0 - settings.alpha)
        ),
        Rule::BareRatio => format!(
            "Decided by InferenceBench’s bare ratio: new ≥ {} × baseline as it stands. The bars show what the data would carry.",
            settings.ratio
        ),
    };
    html! {
        section id="tasks" {
            h2 { "Tasks" }
            @if report.tasks.is_empty() {
                p.lead { "The two journals share no document with a score that can be compared." }
            } @else {
                p.lead { (asked) }
                (forest::picture(report))
                div.tw tabindex="0" style="margin-top:14px" { table {
                    thead { tr {
                        th { "Task" } th { "Documents" } th { "Baseline" } th { "New" } th { "New / baseline" }
                        th.l { "Verdict" } th { "Worse" } th { "Better" } th { "Differ" }
                    } }
                    tbody { @for task in &report.tasks { (row(task)) } }
                } }
                (evidence(report))
            }
        }
    }
}

fn row(task: &TaskReport) -> Markup {
    let score = |s: &quality::gate::Score| {
        let range = s.interval.low.zip(s.interval.high);
        html! {
            td {
                (percent(s.value))
                @if let Some((low, high)) = range { small { (percent_number(low)) "–" (percent_number(high)) } }
            }
        }
    };
    let lost = task.missing + task.unscored;
    html! {
        tr class=(if task.judged { "" } else { "sub" }) {
            td.wrap { @if task.judged { b { (task.task) } } @else { (task.task) } small { (task.metric) ", " (task.filter) } }
            td { (count(task.n)) @if lost > 0 { small { (count(lost)) " missing or failed" } } }
            (score(&task.base)) (score(&task.new))
            td { (task.ratio.map_or("–".to_owned(), percent)) @if let Some(range) = within(task.bounds) { small { (range) } } }
            td.l { @if task.judged { (badge(task.decision)) } @else { span.na { "not judged" } } }
            td { (count(task.flips.lost)) small { "p " (p_value(task.flips.exact)) } }
            td { (count(task.flips.gained)) }
            td {
                (percent(task.discordance))
                @if let Some(noise) = &task.noise { small { "noise " (percent(noise.discordance)) } }
            }
        }
    }
}

fn p_value(p: f64) -> String {
    if p < 1e-4 { "< 0.0001".to_owned() } else { number(p) }
}

/// Other tests of the same pairs, for who wants to compare with other tools.
fn evidence(report: &Report) -> Markup {
    let bounds = |b: Bounds| {
        b.low.zip(b.high).map_or("–".to_owned(), |(low, high)| format!("{}…{}", points(low), points(high)))
    };
    html! {
        details {
            summary { "The same pairs by other tests" }
            div.tw tabindex="0" { table {
                thead { tr {
                    th { "Task" } th { "p, at most" br; "the limit" } th { "p, at least" br; "the limit" } th { "after Holm" }
                    th { "z (Wald)" } th { "new − limit ×" br; "baseline, points" } th { "bootstrap" }
                    th { "bare" br; "ratio" } th { "fails an" br; "equal one" } th { "passes" br; "a worse one" }
                } }
                tbody {
                    @for task in report.judged() {
                        tr {
                            td { (task.task) }
                            td { (p_value(task.p_pass)) } td { (p_value(task.p_fail)) } td { (p_value(task.p_fail_holm)) }
                            td { (task.wald.z.map_or("–".to_owned(), number)) }
                            td { (points(task.wald.excess)) small { (bounds(task.wald.excess_bounds)) } }
                            td { (task.bootstrap.map_or("–".to_owned(), |b| bounds(b.excess))) }
                            td { (if task.bare_ratio.passes { "passes" } else { "fails" }) }
                            td { (super::share(task.bare_ratio.fails_equal)) }
                            td { (super::share(task.bare_ratio.passes_worse)) }
                        }
                    }
                }
            } }
        }
    }
}

/// Percentage points.
fn points(share: f64) -> String {
    spec::words::fixed(100.0 * share, 2)
}

fn decides(report: &Report) -> Markup {
    html! {
        section id="decides" {
            h2 { "What would decide" }
            ul.out { @for text in &report.decides { li { (text) } } }
        }
    }
}
