//! Breakage, output tokens, divergence and identity.

use maud::{Markup, html};
use quality::breakage::{Breakage, Kind, State};
use quality::divergence::KlKind;
use quality::gate::{Report, TaskDivergence, broken};
use spec::words::{count, fixed, number, percent};

use super::{badge, p_value};

pub(super) fn section(report: &Report) -> Markup {
    let found: Vec<&Breakage> = report.breakage.iter().filter(|b| b.state != State::Fine).collect();
    html! {
        section id="breakage" {
            h2 { "What scores hide" }
            @if report.breakage.is_empty() {
                p.lead { "Nothing could be looked at." }
            } @else if found.is_empty() {
                p.lead { "No more answers failed, were cut, were empty, could not be read or were all the same than on the baseline." }
            }
            @if !found.is_empty() {
                ul.checks {
                    @for b in &found { (item(b)) }
                }
            }
            @if !report.breakage.is_empty() { (shares(report)) }
            @if !report.lengths.is_empty() {
                h3 style="margin-top:22px" { "Output tokens, mean" }
                div.tw tabindex="0" { table {
                    thead { tr { th { "Task" } th { "Baseline" } th { "New" } th { "Documents" } th { "p" } } }
                    tbody {
                        @for l in &report.lengths {
                            tr {
                                td { (l.task) } td { (number(l.base)) }
                                td { (number(l.new)) @if l.notable { small { (if l.new < l.base { "shorter" } else { "longer" }) } } }
                                td { (count(l.n)) } td { (l.p.map_or("–".to_owned(), p_value)) }
                            }
                        }
                    }
                } }
            }
        }
    }
}

fn item(b: &Breakage) -> Markup {
    let (class, sign, word) = match b.state {
        State::Broken => ("fail", "✕", "broken"),
        State::Risen | State::Blind => ("unknown", "?", "in doubt"),
        State::Fine => ("pass", "✓", "fine"),
    };
    html! {
        li class={ (class) " wide" } {
            span.s role="img" title=(word) aria-label=(word) { (sign) }
            b { (b.task) }
            span.f { (broken(b)) }
        }
    }
}

/// The shares of a task in one row, each with the baseline's below it.
fn shares(report: &Report) -> Markup {
    const KINDS: [(Kind, &str); 4] = [
        (Kind::Failed, "failed or missing"),
        (Kind::Truncated, "cut"),
        (Kind::Empty, "empty"),
        (Kind::Unparsed, "cannot be read"),
    ];
    let mut tasks: Vec<&str> = report.breakage.iter().map(|b| b.task.as_str()).collect();
    tasks.dedup();
    let of = |task: &str, kind: Kind| report.breakage.iter().find(|b| b.task == task && b.kind == kind);
    html! {
        div.tw tabindex="0" style="margin-top:14px" { table {
            thead { tr { th { "Share of answers" } @for (_, name) in KINDS { th { (name) } } } }
            tbody {
                @for task in tasks {
                    tr {
                        td.wrap { b { (task) } }
                        @for (kind, _) in KINDS {
                            @match of(task, kind) {
                                Some(b) => td { (share(b, b.new)) small { "baseline " (share(b, b.base)) @if b.p < 0.5 { ", p " (p_value(b.p_holm)) } } },
                                None => td { span.na { "–" } },
                            }
                        }
                    }
                }
            }
        } }
        p.note { "p is that of McNemar’s exact one-sided test after Holm’s adjustment over all kinds and tasks; it is told where the share rose." }
    }
}

fn share(b: &Breakage, k: u64) -> String {
    percent(k as f64 / b.n.max(1) as f64)
}

pub(super) fn divergence(report: &Report) -> Markup {
    html! {
        section id="divergence" {
            h2 { "Divergence" }
            @if !report.divergence.is_empty() {
                p.lead { "Both servers scored the same tokens. Divergence is that of the new distribution from the baseline’s; it says how much changed, not whether for the worse." }
                div.tw tabindex="0" { table {
                    thead { tr {
                        th { "Task" } th { "Positions" } th { "KL, nats" br; "mean" } th { br; "median" } th { br; "p99" } th { "Left over" }
                        th { "Same likeliest" } th { "Δp of the text" br; "mean" } th { br; "RMS" } th { "Perplexity" br; "baseline" } th { br; "new" } th { "ln ratio" } th.l { "Limit" }
                    } }
                    tbody { @for d in &report.divergence { (positions(d)) } }
                } }
            }
            @if !report.identity.is_empty() {
                h3 style="margin-top:22px" { "Greedy answers, token by token" }
                ul.out { @for identity in &report.identity { li { (identity.words) } } }
            }
        }
    }
}

fn positions(d: &TaskDivergence) -> Markup {
    let of = &d.divergence;
    let se = |se: Option<f64>| se.map(|se| format!("± {}", number(se)));
    let kl =
        |f: fn(&quality::divergence::Kl) -> f64| of.kl.as_ref().map_or("–".to_owned(), |kl| number(f(kl)));
    html! {
        tr {
            td { (d.task) }
            td { (count(of.positions)) }
            td {
                @if of.kl.as_ref().is_some_and(|kl| kl.kind == KlKind::LowerBound) { "≥ " }
                (kl(|kl| kl.mean))
                @if let Some(text) = of.kl.as_ref().and_then(|kl| se(kl.mean_se)) { small { (text) } }
                @if let Some(noise) = d.noise.as_ref().and_then(|n| n.kl.as_ref()) { small { "noise " (number(noise.mean)) } }
            }
            td { (kl(|kl| kl.median)) } td { (kl(|kl| kl.p99)) }
            td { (of.kl.as_ref().map_or("–".to_owned(), |kl| percent(kl.left_over))) }
            td {
                (of.same_top.map_or("–".to_owned(), |same| percent(same.share)))
                @if let Some(se) = of.same_top.and_then(|same| same.se) { small { "± " (fixed(100.0 * se, 2)) } }
            }
            td { (fixed(100.0 * of.delta.mean, 2)) " %" } td { (fixed(100.0 * of.delta.rms, 2)) " %" }
            td { (number(of.perplexity.base)) } td { (number(of.perplexity.new)) }
            td { (number(of.perplexity.value)) @if let Some(text) = se(of.perplexity.se) { small { (text) } } }
            td.l { @match d.decision { Some(decision) => (badge(decision)), None => span.na { "none" } } }
        }
    }
}
