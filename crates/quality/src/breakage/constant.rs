//! Is everything the same? A server that cannot score gives every choice the same log-probability, and so
//! exactly the score of chance; one that always answers "A" does no better.

use std::collections::BTreeMap;

use super::{Breakage, Kind, State};
use crate::gate::pairs::Pair;
use crate::{Answer, Item};

/// The constants of a task, judged by this filter and metric.
pub(crate) fn constants(task: &str, pairs: &[Pair<'_>], filter: &str, metric: &str) -> Vec<Breakage> {
    let score = |item: &Item| {
        let score = item.outcomes.get(filter).and_then(|o| o.scores.get(metric)).copied();
        score.map(|score| vec![score.to_string()])
    };
    let answer = |item: &Item| {
        let extracted = item.outcomes.get(filter).and_then(|o| o.extracted.as_ref());
        extracted.map(|value| vec![value.to_string()])
    };
    let logprobs = |item: &Item| {
        let scored = item.answers.iter().filter_map(|answer| match answer {
            Answer::Scored(scored) => Some(scored.logprob.to_string()),
            _ => None,
        });
        Some(scored.collect::<Vec<_>>()).filter(|all| !all.is_empty())
    };
    [
        constant(task, Kind::ConstantScore, pairs, &score),
        constant(task, Kind::ConstantAnswer, pairs, &answer),
        constant(task, Kind::ConstantLogprob, pairs, &logprobs),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `None`: there are fewer than two values on either side.
fn constant(
    task: &str,
    kind: Kind,
    pairs: &[Pair<'_>],
    of: &dyn Fn(&Item) -> Option<Vec<String>>,
) -> Option<Breakage> {
    let (mut base, mut new): (BTreeMap<String, u64>, BTreeMap<String, u64>) = Default::default();
    for pair in pairs.iter().filter(|pair| !pair.base.failed()) {
        let Some(partner) = pair.new.filter(|item| !item.failed()) else { continue };
        // Where one has no value, neither counts.
        let Some((ours, theirs)) = of(pair.base).zip(of(partner)) else { continue };
        ours.into_iter().for_each(|value| *base.entry(value).or_insert(0) += 1);
        theirs.into_iter().for_each(|value| *new.entry(value).or_insert(0) += 1);
    }
    let (base_n, n): (u64, u64) = (base.values().sum(), new.values().sum());
    if base_n < 2 || n < 2 {
        return None;
    }
    let is_constant = new.len() == 1;
    let p = match is_constant {
        // That as many draws from what the baseline gave would all be the same.
        true => base.values().map(|k| (*k as f64 / base_n as f64).powf(n as f64)).sum::<f64>().min(1.0),
        false => 1.0,
    };
    let blind = is_constant && base.len() == 1 && kind == Kind::ConstantLogprob;
    let most = |values: &BTreeMap<String, u64>| values.values().copied().max().unwrap_or(0);
    let state = if blind { State::Blind } else { State::Fine };
    Some(Breakage { task: task.to_owned(), kind, n, base: most(&base), new: most(&new), p, p_holm: p, state })
}
