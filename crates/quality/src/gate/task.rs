//! One metric of one task, compared.

use std::collections::BTreeMap;

use measure::Interval;
use measure::interval::{mean_interval, wilson};

use super::report::{Noise, Score, TaskReport};
use super::scores::{Document, Metric};
use super::{Rule, Settings};
use crate::stats::{
    BareRatio, Decision, Needed, Paired, Scores, bootstrap, mcnemar, needed_as_observed, needed_if_equal,
    non_inferiority, wald,
};

/// The figures of a metric. The verdict of the whole family and the words come later. `None`: no
/// document has scores that can be compared.
pub(super) fn task(name: &str, metric: &Metric<'_>, judged: bool, settings: &Settings) -> Option<TaskReport> {
    let scores: Vec<Scores> = metric.documents.iter().map(|d| d.scores).collect();
    let paired = Paired::of(&scores)?;
    let test = non_inferiority(&paired, settings.ratio, settings.alpha);
    let bare_ratio = BareRatio::of(&paired, settings.ratio);
    let strata = strata(&metric.documents, settings.ratio);
    let resamples = if judged { settings.resamples } else { 0 };
    let mut out = TaskReport {
        task: name.to_owned(),
        filter: metric.filter.to_owned(),
        metric: metric.metric.to_owned(),
        judged,
        n: paired.n,
        answers: metric.answers,
        missing: metric.missing,
        unscored: metric.unscored,
        base: score(&paired, paired.base, paired.base_squares),
        new: score(&paired, paired.new, paired.new_squares),
        cells: paired.cells,
        flips: mcnemar(paired.lost, paired.gained),
        discordance: paired.discordance(),
        ratio: paired.ratio(),
        bounds: test.ratio,
        p_pass: test.p_pass,
        p_fail: test.p_fail,
        p_fail_holm: test.p_fail,
        fewest: test.fewest,
        wald: wald(&paired, settings.ratio, settings.alpha),
        bootstrap: bootstrap(&strata, resamples, settings.seed, settings.alpha),
        bare_ratio,
        decision: test.decision,
        needed: None,
        needed_if_equal: None,
        noise: None,
        words: String::new(),
    };
    if settings.rule == Rule::BareRatio {
        out.decision = match (bare_ratio.ratio, bare_ratio.passes) {
            (None, _) => Decision::Inconclusive,
            (_, true) => Decision::Pass,
            (_, false) => Decision::Fail,
        };
    }
    Some(out)
}

/// Sets what would decide, once it is known whether the metric is decided.
pub(super) fn set_needed(task: &mut TaskReport, metric: &Metric<'_>, settings: &Settings) {
    let scores: Vec<Scores> = metric.documents.iter().map(|d| d.scores).collect();
    let Some(paired) = Paired::of(&scores).filter(|_| task.decision == Decision::Inconclusive) else {
        return;
    };
    let (ratio, alpha, power) = (settings.ratio, settings.alpha, settings.power);
    let at_least = |n: u64| n.max(task.fewest.unwrap_or(0));
    task.needed_if_equal = needed_if_equal(&paired, ratio, alpha, power).map(at_least);
    task.needed = needed_as_observed(&paired, ratio, alpha, power)
        .map(|needed| match needed.pass {
            true => Needed { questions: at_least(needed.questions), ..needed },
            false => needed,
        })
        // As many as there are did not do: Holm's adjustment asks for more.
        .filter(|needed| needed.questions > task.n);
}

pub(super) fn noise(metric: &Metric<'_>, settings: &Settings) -> Option<Noise> {
    let scores: Vec<Scores> = metric.documents.iter().map(|d| d.scores).collect();
    let paired = Paired::of(&scores)?;
    let decision = non_inferiority(&paired, settings.ratio, settings.alpha).decision;
    let (lost, gained) = (paired.lost, paired.gained);
    Some(Noise {
        n: paired.n,
        lost,
        gained,
        discordance: paired.discordance(),
        ratio: paired.ratio(),
        decision,
    })
}

fn score(paired: &Paired, value: f64, squares: f64) -> Score {
    let n = paired.n as f64;
    let interval = match paired.cells {
        Some(_) => wilson(value, n),
        None => {
            let of = mean_interval(value, (squares / (n - 1.0).max(1.0)).sqrt(), n);
            Interval { low: of.low, high: of.high.map(|high| high.min(1.0)) }
        }
    };
    Score { value, interval }
}

/// x = new − ratio × baseline, by category.
fn strata(documents: &[Document<'_>], ratio: f64) -> Vec<Vec<f64>> {
    let mut out: BTreeMap<Option<&str>, Vec<f64>> = BTreeMap::new();
    for document in documents {
        let x = document.scores.new - ratio * document.scores.base;
        out.entry(document.category).or_default().push(x);
    }
    out.into_values().collect()
}
