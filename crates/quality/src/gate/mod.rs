//! The gate: two journals of items, and whether the new server is still the same model.

pub(crate) mod pairs;
mod positions;
mod report;
mod scores;
mod settings;
mod task;
mod words;

pub use pairs::Pairing;
pub use report::{Noise, Report, Score, TaskDivergence, TaskIdentity, TaskReport};
pub use settings::{Choice, Rule, Settings, SettingsError};
pub use words::broken;

use crate::Item;
use crate::breakage::{self, Breakage, State};
use crate::stats::{Decision, holm};
use pairs::{Pair, pair};
use scores::{judged, metrics};

/// Compares a new journal with a baseline. `noise`: two journals of one and the same server, ideally the
/// baseline's.
///
/// Items are paired by task, hash of the document and repeat. What the new server failed at or misses
/// counts as a score of 0; what the baseline has no score of counts for nothing.
///
/// - PASS: every judged task passes, nothing is broken, every limit is kept, nothing is in doubt.
/// - FAIL: a task fails after Holm's adjustment over all tasks, or something is broken after Holm's
///   adjustment over all kinds of breakage, or the divergence is over its limit.
/// - INCONCLUSIVE otherwise, with what would decide.
///
/// # Errors
/// A setting lies where it cannot.
pub fn compare(
    base: &[Item],
    new: &[Item],
    noise: Option<(&[Item], &[Item])>,
    settings: &Settings,
) -> Result<Report, SettingsError> {
    settings.check()?;
    let (pairs, pairing) = pair(base, new);
    let again = noise.map(|(first, second)| pair(first, second).0).unwrap_or_default();
    let mut report = Report {
        verdict: Decision::Inconclusive,
        exit_code: 0,
        answer: String::new(),
        settings: settings.clone(),
        pairing,
        tasks: Vec::new(),
        breakage: Vec::new(),
        lengths: Vec::new(),
        divergence: Vec::new(),
        identity: Vec::new(),
        doubts: Vec::new(),
        decides: Vec::new(),
        warnings: Vec::new(),
    };
    for (name, pairs) in &pairs {
        one_task(&mut report, name, pairs, again.get(name).map(Vec::as_slice));
    }
    adjust(&mut report);
    for (name, pairs) in &pairs {
        let all = metrics(pairs, settings);
        for task in report.tasks.iter_mut().filter(|task| task.task == **name) {
            if let Some(metric) = all.iter().find(|m| m.filter == task.filter && m.metric == task.metric) {
                task::set_needed(task, metric, settings);
            }
        }
    }
    words::doubts(&mut report);
    report.verdict = verdict(&report);
    report.exit_code = report.verdict.exit_code();
    words::write(&mut report, noise.is_some());
    Ok(report)
}

fn one_task(report: &mut Report, name: &str, pairs: &[Pair<'_>], again: Option<&[Pair<'_>]>) {
    let settings = report.settings.clone();
    let all = metrics(pairs, &settings);
    let place = judged(name, &all, &settings);
    let mut tasks: Vec<TaskReport> = Vec::new();
    for (i, metric) in all.iter().enumerate() {
        if let Some(why) = metric.why_not() {
            report.warnings.push(words::not_judged(name, metric.filter, metric.metric, &why));
            continue;
        }
        tasks.extend(task::task(name, metric, place == Some(i), &settings));
    }
    tasks.sort_by_key(|task| !task.judged);
    if let Some(again) = again {
        for metric in metrics(again, &settings) {
            let same = |task: &&mut TaskReport| task.filter == metric.filter && task.metric == metric.metric;
            if let Some(task) = tasks.iter_mut().find(same) {
                task.noise = task::noise(&metric, &settings);
            }
        }
    }
    match place.and_then(|place| all.get(place)) {
        Some(metric) => {
            let only_paired = settings.only_paired;
            report.breakage.extend(breakage::shares(name, pairs, metric.filter, only_paired));
            report.breakage.extend(breakage::constants(name, pairs, metric.filter, metric.metric));
        }
        None => {
            report.breakage.extend(breakage::shares(name, pairs, "", settings.only_paired));
            if !all.is_empty() {
                report.warnings.push(words::nothing_judged(name, &settings));
            }
        }
    }
    report.lengths.extend(breakage::lengths(name, pairs, settings.alpha));
    report.divergence.extend(positions::diverges(name, pairs, again, &settings, &mut report.warnings));
    report.identity.extend(positions::identical(name, pairs, again));
    report.tasks.extend(tasks);
}

/// Adjusts the p-values of each family, and the decisions with them.
fn adjust(report: &mut Report) {
    let alpha = report.settings.alpha;
    let mut judged: Vec<&mut TaskReport> = report.tasks.iter_mut().filter(|task| task.judged).collect();
    let adjusted = holm(&judged.iter().map(|task| task.p_fail).collect::<Vec<_>>());
    for (task, p) in judged.iter_mut().zip(adjusted) {
        task.p_fail_holm = p;
        if report.settings.rule == Rule::NonInferiority && task.decision == Decision::Fail && p > alpha {
            task.decision = Decision::Inconclusive;
        }
    }
    let adjusted = holm(&report.breakage.iter().map(|b| b.p).collect::<Vec<_>>());
    for (breakage, p) in report.breakage.iter_mut().zip(adjusted) {
        breakage.p_holm = p;
        if breakage.state != State::Blind && p <= alpha {
            let is_share = breakage.kind.is_share();
            let small = is_share && breakage.rise() < report.settings.breakage_margin;
            breakage.state = if small { State::Risen } else { State::Broken };
        }
    }
}

fn verdict(report: &Report) -> Decision {
    let broken = |b: &Breakage| b.state == State::Broken;
    let mut limits = report.divergence.iter().filter_map(|d| d.decision);
    let mut decisions: Vec<Decision> = report.judged().map(|task| task.decision).collect();
    // A baseline that fails against itself says nothing of another server.
    let unsteady = report.judged().any(|task| task.noise.is_some_and(|n| n.decision == Decision::Fail));
    decisions.extend(&mut limits);
    if report.breakage.iter().any(broken) || (decisions.contains(&Decision::Fail) && !unsteady) {
        Decision::Fail
    } else if decisions.is_empty()
        || !report.doubts.is_empty()
        || decisions.iter().any(|decision| *decision != Decision::Pass)
    {
        Decision::Inconclusive
    } else {
        Decision::Pass
    }
}
