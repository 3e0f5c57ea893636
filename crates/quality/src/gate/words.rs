//! Every sentence of a comparison, in one place. Nothing is decided here but what to say.

use spec::words::{count, counted, number, percent, percent_number};

use super::report::{Report, TaskDivergence, TaskReport};
use super::{Rule, Settings};
use crate::breakage::{Breakage, Kind, State};
use crate::divergence::{Identity, IdentityUnit, KlKind};
use crate::stats::Decision;

/// Fewer names than this are all told.
const FEW: usize = 3;

fn list(names: &[String]) -> String {
    let told = names.iter().take(FEW).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > FEW { format!("{told} and {} more", names.len() - FEW) } else { told }
}

fn confidence(settings: &Settings) -> String {
    format!("{} confidence", percent(1.0 - settings.alpha))
}

pub(super) fn not_judged(task: &str, filter: &str, metric: &str, why: &str) -> String {
    format!("{task}: {metric} ({filter}) is not compared: {why}")
}

pub(super) fn nothing_judged(task: &str, settings: &Settings) -> String {
    match settings.judge.is_empty() {
        true => format!("{task} is not judged: none of its metrics can be"),
        false => format!("{task} is not judged: no filter and metric is there that was chosen for it"),
    }
}

pub(super) fn unlike(task: &str, items: u64) -> String {
    format!(
        "{task}: {} with log-probabilities of another text or other tokens on the two servers, not compared",
        counted(items, "item")
    )
}

/// Why no PASS can be given, whatever the scores say.
pub(super) fn doubts(report: &mut Report) {
    let mut out = Vec::new();
    let pairing = &report.pairing;
    if pairing.targets_differ > 0 {
        out.push(format!(
            "{} with other wanted answers in the two journals: their scores are not compared, so run both on the same data",
            counted(pairing.targets_differ, "item")
        ));
    }
    if !pairing.tasks_unlike.is_empty() {
        out.push(format!(
            "the two journals share not one document of {}: they are of other data, or of another way to hash it",
            list(&pairing.tasks_unlike)
        ));
    }
    for b in report.breakage.iter().filter(|b| b.state == State::Blind) {
        out.push(format!(
            "{}: every log-probability is the same on both servers, so neither was scored; probe them",
            b.task
        ));
    }
    let failing = |task: &&TaskReport| task.noise.is_some_and(|noise| noise.decision == Decision::Fail);
    let unsteady: Vec<String> = report.judged().filter(failing).map(|task| task.task.clone()).collect();
    if !unsteady.is_empty() {
        out.push(format!(
            "the server that was measured twice fails against itself on {}: nothing can be told from such noise",
            list(&unsteady)
        ));
    }
    if report.settings.kl_limit.is_some() && report.divergence.iter().all(|d| d.divergence.kl.is_none()) {
        out.push(
            "a limit on the divergence was set, and the journals carry no likeliest tokens of both"
                .to_owned(),
        );
    }
    report.doubts = out;
}

/// The sentences of tasks, what would decide, warnings and the answer.
pub(super) fn write(report: &mut Report, noise: bool) {
    let settings = report.settings.clone();
    for task in &mut report.tasks {
        task.words = one(task, &settings);
    }
    report.decides = report.judged().filter_map(|task| decides(task, &settings)).collect();
    let mut warnings = pairing(report);
    warnings.append(&mut report.warnings);
    for b in report.breakage.iter().filter(|b| b.state == State::Risen) {
        warnings.push(format!(
            "{}: {}, which is more than chance and less than the margin of {}",
            b.task,
            broken(b),
            percent(settings.breakage_margin)
        ));
    }
    for l in report.lengths.iter().filter(|l| l.notable) {
        let what = if l.new < l.base { "shorter" } else { "longer" };
        warnings.push(format!(
            "{}: answers are {what}, {} tokens on average against {}",
            l.task,
            number(l.new),
            number(l.base)
        ));
    }
    if settings.rule == Rule::BareRatio {
        warnings.push(format!(
            "decided by InferenceBench's bare ratio, which has no interval: {}",
            error_rates(report)
        ));
    }
    if !noise && !report.tasks.is_empty() {
        warnings.push(
            "the baseline was not measured twice: how much of the difference is its own noise is not known"
                .to_owned(),
        );
    }
    report.warnings = warnings;
    report.answer = answer(report);
}

fn error_rates(report: &Report) -> String {
    let rates: Vec<String> = report
        .judged()
        .filter_map(|task| {
            let (fails, passes) = task.bare_ratio.fails_equal.zip(task.bare_ratio.passes_worse)?;
            Some(format!(
                "on {} an equal server fails {} of the time, and one that keeps {} passes {} of the time",
                task.task,
                percent(fails),
                percent(2.0 * report.settings.ratio - 1.0),
                percent(passes)
            ))
        })
        .collect();
    if rates.is_empty() { "its error rates are not known here".to_owned() } else { rates.join("; ") }
}

fn pairing(report: &Report) -> Vec<String> {
    let p = &report.pairing;
    let mut out = Vec::new();
    let counts_as = match report.settings.only_paired {
        true => "not compared, as asked",
        false => "counted as lost; if the new run is a part on purpose, compare the pairs only",
    };
    if p.missing > 0 {
        out.push(format!(
            "{} of the baseline missing from the new journal: {counts_as}",
            counted(p.missing, "item")
        ));
    }
    if p.new_failed > 0 {
        out.push(format!("{} failed on the new server: counted as lost", counted(p.new_failed, "item")));
    }
    if p.base_failed > 0 {
        out.push(format!("{} failed on the baseline: not compared", counted(p.base_failed, "item")));
    }
    if p.extra > 0 {
        out.push(format!("{} of the new journal without a partner: not compared", counted(p.extra, "item")));
    }
    if !p.tasks_missing.is_empty() {
        out.push(format!("tasks that only the baseline has: {}", list(&p.tasks_missing)));
    }
    if !p.tasks_extra.is_empty() {
        out.push(format!("tasks that only the new journal has, not compared: {}", list(&p.tasks_extra)));
    }
    if p.prompts_differ > 0 {
        out.push(format!(
            "{} with other prompts: the difference is then of the prompts (a template, the shots) as much as of the servers",
            counted(p.prompts_differ, "pair")
        ));
    }
    out
}

/// `97.1–102 %`, from the bounds.
fn bounds(task: &TaskReport) -> String {
    match (task.bounds.low, task.bounds.high) {
        (Some(low), Some(high)) => format!("{}–{}", percent_number(low), percent(high)),
        (Some(low), None) => format!("at least {}", percent(low)),
        (None, Some(high)) => format!("at most {}", percent(high)),
        (None, None) => "an unknown share".to_owned(),
    }
}

fn one(task: &TaskReport, settings: &Settings) -> String {
    let limit = percent(settings.ratio);
    if task.ratio.is_none() {
        return "the baseline scores 0: there is nothing to lose, and nothing to tell".to_owned();
    }
    if settings.rule == Rule::BareRatio {
        let ratio = task.ratio.map_or_else(String::new, percent);
        return match task.decision {
            Decision::Pass => format!("keeps {ratio} of the baseline's score as it stands (asked: {limit})"),
            _ => format!("keeps only {ratio} of the baseline's score as it stands (asked: {limit})"),
        };
    }
    match task.decision {
        Decision::Pass => format!(
            "keeps at least {} of the baseline's score (asked: {limit})",
            task.bounds.low.map_or_else(|| limit.clone(), |low| percent(low.max(settings.ratio)))
        ),
        Decision::Fail => format!(
            "keeps at most {} of the baseline's score (asked: {limit})",
            task.bounds.high.map_or_else(|| limit.clone(), |high| percent(high.min(settings.ratio)))
        ),
        Decision::Inconclusive if task.fewest.is_some_and(|fewest| fewest > task.n) => format!(
            "keeps {} of the baseline's score as far as {} tell; even without a flip a PASS takes {}",
            bounds(task),
            counted(task.n, "document"),
            task.fewest.map_or_else(String::new, count)
        ),
        Decision::Inconclusive => {
            format!("keeps {} of the baseline's score, which includes the {limit} asked", bounds(task))
        }
    }
}

fn decides(task: &TaskReport, settings: &Settings) -> Option<String> {
    if task.decision != Decision::Inconclusive {
        return None;
    }
    let name = &task.task;
    if task.fewest.is_none() {
        return Some(format!("{name}: a task that the baseline can do"));
    }
    let seen = task.needed.map(|needed| {
        let end = if needed.pass { "PASS" } else { "FAIL" };
        format!("about {} for a {end} if the truth is what was seen", counted(needed.questions, "document"))
    });
    let equal =
        task.needed_if_equal.map(|n| format!("about {} to show an equal server to be equal", count(n)));
    let parts: Vec<String> = seen.into_iter().chain(equal).collect();
    let have = count(task.n);
    Some(match parts.is_empty() {
        true => format!("{name}: more than the {have} there are; how many is not known"),
        false => format!(
            "{name}: {}, each with {} chance; there are {have}",
            parts.join("; "),
            percent(settings.power)
        ),
    })
}

/// A kind of breakage in words, with its figures.
pub fn broken(b: &Breakage) -> String {
    let share = |k: u64| if b.n == 0 { percent(0.0) } else { percent(k as f64 / b.n as f64) };
    let shares = format!("{} against {} on the baseline", share(b.new), share(b.base));
    match b.kind {
        Kind::Failed => format!("failed or missing answers: {shares}"),
        Kind::Truncated => format!("answers cut at the limit of tokens: {shares}"),
        Kind::Empty => format!("empty answers: {shares}"),
        Kind::Unparsed => format!("answers without a result that can be read: {shares}"),
        Kind::ConstantScore => format!("every one of {} has the same score", counted(b.n, "document")),
        Kind::ConstantAnswer => format!("every one of {} has the same answer", counted(b.n, "document")),
        Kind::ConstantLogprob => {
            format!("all {} log-probabilities are the same: the server does not score", count(b.n))
        }
    }
}

pub(super) fn diverges(d: &TaskDivergence, settings: &Settings) -> String {
    let of = &d.divergence;
    let mut parts = Vec::new();
    if let Some(kl) = &of.kl {
        let how = match kl.kind {
            KlKind::Full => String::new(),
            KlKind::LowerBound => format!(
                " (a lower bound: {} to {} tokens compared, {} left over)",
                kl.fewest,
                kl.most,
                percent(kl.left_over)
            ),
        };
        let limit = settings.kl_limit.map_or_else(String::new, |limit| format!(", limit {limit}"));
        let noise = d.noise.as_ref().and_then(|n| n.kl.as_ref());
        let noise =
            noise.map_or_else(String::new, |n| format!(", against {} of one server twice", number(n.mean)));
        parts.push(format!("a divergence of {} nats a token{noise}{limit}{how}", number(kl.mean)));
    }
    if let Some(same) = of.same_top {
        parts.push(format!("the same likeliest token at {} of positions", percent(same.share)));
    }
    parts.push(format!(
        "a perplexity of {} against {} of the baseline",
        number(of.perplexity.new),
        number(of.perplexity.base)
    ));
    format!("{}: {}", counted(of.positions, "position"), parts.join("; "))
}

/// The divergence against its limit.
fn over_limit(d: &TaskDivergence, settings: &Settings) -> String {
    let kl = d.divergence.kl.as_ref();
    let bound = if kl.is_some_and(|kl| kl.kind == KlKind::LowerBound) { "at least " } else { "" };
    let mean = kl.map_or("not known".to_owned(), |kl| format!("{bound}{} nats a token", number(kl.mean)));
    let limit = settings.kl_limit.map_or_else(String::new, |limit| format!(" (limit {limit})"));
    format!("on {} the divergence is {mean}{limit}", d.task)
}

pub(super) fn identical(task: &str, identity: &Identity, noise: Option<&Identity>) -> String {
    let unit = match identity.unit {
        IdentityUnit::Tokens => "token",
        IdentityUnit::Characters => "character",
    };
    let parts = match (identity.earliest, identity.median) {
        (Some(earliest), Some(median)) => {
            format!(
                "; the earliest difference is at {unit} {}, the median at {}",
                count(earliest),
                count(median)
            )
        }
        _ => String::new(),
    };
    let share = |i: &Identity| percent(i.identical as f64 / i.pairs.max(1) as f64);
    let noise = noise.map_or_else(String::new, |n| format!("; of one server twice {}", share(n)));
    format!(
        "{task}: {} of {} are the same{parts}{noise}",
        share(identity),
        counted(identity.pairs, "greedy answer")
    )
}

fn answer(report: &Report) -> String {
    let settings = &report.settings;
    let limit = percent(settings.ratio);
    let word = report.verdict.word();
    let in_state = |decision: Decision| report.judged().filter(move |task| task.decision == decision);
    let all = report.judged().count();
    match report.verdict {
        Decision::Pass => {
            let worst = report.judged().min_by(|a, b| {
                let low = |t: &TaskReport| t.bounds.low.unwrap_or(0.0);
                low(a).total_cmp(&low(b))
            });
            let on = match (all, worst) {
                (0, _) | (_, None) => {
                    return format!(
                        "{word}: the divergence keeps its limit, as far as the log-probs that were told go"
                    );
                }
                (1, Some(task)) => task.task.clone(),
                (n, _) => format!("each of {}", counted(n as u64, "task")),
            };
            match settings.rule {
                Rule::BareRatio => {
                    format!("{word}: at least {limit} of the baseline's score on {on}, as it stands")
                }
                Rule::NonInferiority => format!(
                    "{word}: the new server keeps at least {limit} of the baseline's score on {on} ({}), and nothing is broken",
                    confidence(settings)
                ),
            }
        }
        Decision::Fail => {
            let mut parts: Vec<String> = report
                .breakage
                .iter()
                .filter(|b| b.state == State::Broken)
                .map(|b| format!("on {}, {}", b.task, broken(b)))
                .collect();
            parts.extend(
                in_state(Decision::Fail)
                    .map(|task| format!("on {} the new server {}", task.task, task.words)),
            );
            let limits = report.divergence.iter().filter(|d| d.decision == Some(Decision::Fail));
            parts.extend(limits.map(|d| over_limit(d, settings)));
            format!("{word}: {}", short(parts))
        }
        Decision::Inconclusive => {
            if let Some(doubt) = report.doubts.first() {
                return format!("{word}: {doubt}");
            }
            let mut parts: Vec<String> = in_state(Decision::Inconclusive)
                .map(|task| format!("on {} the new server {}", task.task, task.words))
                .collect();
            let limits = report.divergence.iter().filter(|d| d.decision == Some(Decision::Inconclusive));
            parts.extend(limits.map(|d| over_limit(d, settings)));
            if parts.is_empty() && !report.divergence.is_empty() {
                return format!(
                    "{word}: a divergence is told, but no limit to judge it by (--kl-limit NATS)"
                );
            }
            if parts.is_empty() {
                return format!("{word}: the two journals have nothing in common that can be judged");
            }
            format!("{word}: {}", short(parts))
        }
    }
}

/// The first findings, and how many more there are.
fn short(parts: Vec<String>) -> String {
    let more = parts.len().saturating_sub(FEW);
    let told = parts.into_iter().take(FEW).collect::<Vec<_>>().join("; ");
    if more > 0 { format!("{told}; and {more} more") } else { told }
}
