//! Divergence and identity of what two journals carry for the same items.

use measure::special::normal_quantile;

use super::pairs::Pair;
use super::report::{TaskDivergence, TaskIdentity};
use super::{Settings, words};
use crate::breakage::generated;
use crate::divergence::{Divergence, Identity, Position, divergence, identity, positions};
use crate::stats::Decision;
use crate::{Ask, Item};

/// Of a task whose items carry positions on both sides.
pub(super) fn diverges(
    name: &str,
    pairs: &[Pair<'_>],
    again: Option<&[Pair<'_>]>,
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> Option<TaskDivergence> {
    let (found, unlike) = compared(pairs);
    if unlike > 0 {
        warnings.push(words::unlike(name, unlike));
    }
    let divergence = found?;
    let noise = again.and_then(|again| compared(again).0);
    let decision = settings.kl_limit.map(|limit| within(&divergence, limit, settings.alpha));
    let mut out = TaskDivergence { task: name.to_owned(), divergence, noise, decision, words: String::new() };
    out.words = words::diverges(&out, settings);
    Some(out)
}

/// All positions of pairs that carry the same text, and how many carry another.
fn compared(pairs: &[Pair<'_>]) -> (Option<Divergence>, u64) {
    let mut unlike = 0;
    let mut all: Vec<(Position, Position)> = Vec::new();
    for pair in pairs {
        let Some((base, new)) = positions(pair.base).zip(pair.new.and_then(positions)) else { continue };
        let same = base.len() == new.len() && base.iter().zip(&new).all(|(b, n)| b.target == n.target);
        match same {
            true => all.extend(base.into_iter().zip(new)),
            false => unlike += 1,
        }
    }
    (divergence(all.iter().map(|(base, new)| (base, new))), unlike)
}

/// One-sided normal bounds of the mean divergence against a limit.
fn within(divergence: &Divergence, limit: f64, alpha: f64) -> Decision {
    let Some((kl, se)) = divergence.kl.as_ref().and_then(|kl| Some((kl, kl.mean_se?))) else {
        return Decision::Inconclusive;
    };
    let half = normal_quantile(1.0 - alpha) * se;
    if kl.mean - half > limit {
        Decision::Fail
    } else if kl.mean + half <= limit {
        Decision::Pass
    } else {
        Decision::Inconclusive
    }
}

/// Of a task with greedy answers.
pub(super) fn identical(name: &str, pairs: &[Pair<'_>], again: Option<&[Pair<'_>]>) -> Option<TaskIdentity> {
    let identity = same_answers(pairs)?;
    let noise = again.and_then(same_answers);
    let words = words::identical(name, &identity, noise.as_ref());
    Some(TaskIdentity { task: name.to_owned(), identity, noise, words })
}

fn same_answers(pairs: &[Pair<'_>]) -> Option<Identity> {
    let greedy = |item: &Item| {
        item.asks.iter().all(|ask| matches!(ask, Ask::Generate(generate) if generate.temperature <= 0.0))
    };
    let comparable = |pair: &Pair<'_>| {
        pair.new.is_some_and(|new| {
            new.prompt_hash == pair.base.prompt_hash && !new.failed() && !pair.base.failed() && greedy(new)
        }) && greedy(pair.base)
    };
    let both = pairs.iter().filter(|pair| comparable(pair)).filter_map(|pair| Some((pair.base, pair.new?)));
    identity(both.flat_map(|(base, new)| generated(base).zip(generated(new))))
}
