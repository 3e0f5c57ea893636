//! Are there samples enough for what is claimed: `samples`.

use measure::percentile::needed;
use measure::{Figure, PERCENTILES, percentile_name};
use spec::{Metric, Statistic};

use crate::facts::Facts;
use crate::limits;
use crate::slo::metric_words;
use crate::trust::{Cap, Capped, Check, CheckId};
use crate::words::{NBSP, count, counted, number, plain, time};

/// Samples enough for each percentile that somebody relies on.
pub fn samples(facts: &Facts) -> Check {
    let relied: Vec<(Metric, f64)> = facts
        .run
        .header
        .spec
        .slo
        .marginal
        .iter()
        .filter_map(|limit| match limit.statistic {
            Statistic::Percentile(p) => Some((limit.metric, p)),
            _ => None,
        })
        .collect();
    let n = facts.measures.counts.offered;
    let limit = format!(
        "{} for {}",
        PERCENTILES.iter().map(|p| count(needed(*p))).collect::<Vec<_>>().join(", "),
        PERCENTILES.iter().map(|p| percentile_name(*p)).collect::<Vec<_>>().join(", ")
    );
    if n < limits::SAMPLES_MIN {
        return Check::unknown(
            CheckId::Samples,
            counted(n, "request"),
            limit,
            format!("Measure at least {0} requests (-n {0}).", limits::SAMPLES_MIN),
        );
    }
    let carried = |p: f64| n >= needed(p);
    let names = |wanted: bool| {
        let list: Vec<String> =
            PERCENTILES.iter().filter(|p| carried(**p) == wanted).map(|p| percentile_name(*p)).collect();
        list.join(", ")
    };
    let mut figure = format!("{} carry {}", counted(n, "request"), names(true));
    if PERCENTILES.iter().any(|p| !carried(*p)) {
        figure.push_str(&format!("; too few for {}", names(false)));
    }
    let short = relied.iter().filter(|(_, p)| !carried(*p)).max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((metric, p)) = short {
        let more = needed(*p) - n;
        let advice = format!(
            "{} needs {} more independent requests: run about {} longer (-n {} or more).",
            percentile_name(*p),
            count(more),
            duration(more as f64 * facts.span().0 as f64 / n as f64),
            needed(*p)
        );
        let mut check = Check::unknown(
            CheckId::Samples,
            format!(
                "{} of {} for {} {}",
                count(n),
                count(needed(*p)),
                percentile_name(*p),
                metric_words(*metric)
            ),
            limit,
            advice,
        );
        check.caps = open_intervals(facts);
        return check;
    }
    let waves = facts.measures.metrics.values().any(|m| m.tau > 10.0);
    let note = waves
        .then(|| "waiting comes in long waves: only repeated runs can settle the tail".to_owned())
        .or_else(|| effective_note(facts));
    let mut check = Check::judged(CheckId::Samples, false, figure, limit).with_note(note);
    check.caps = open_intervals(facts);
    check
}

/// Percentiles that exist but whose interval is open for want of independent requests.
fn open_intervals(facts: &Facts) -> Vec<Cap> {
    let mut caps = Vec::new();
    for (metric, summary) in &facts.measures.metrics {
        for (share, figure) in &summary.percentiles {
            if let Figure::Known(e) = figure
                && (e.n_eff as u64) < needed(*share)
            {
                caps.push(Cap::Flag(Capped::Percentile(*metric, (share * 10_000.0).round() as u16)));
            }
        }
    }
    caps
}

/// Says that requests depend on each other, where that takes something away.
fn effective_note(facts: &Facts) -> Option<String> {
    let ttft = facts.measures.metrics.get(&Metric::Ttft)?;
    let (share, short) = ttft.percentiles.iter().find_map(|(share, figure)| match figure {
        Figure::Known(e) if (e.n_eff as u64) < needed(*share) => Some((*share, *e)),
        _ => None,
    })?;
    Some(format!(
        "requests depend on each other: {} of {} count as independent, {} needs {}",
        number(short.n_eff),
        count(short.n),
        percentile_name(share),
        count(needed(share))
    ))
}

/// A length of a run: whole seconds, or minutes above two.
fn duration(ns: f64) -> String {
    let seconds = (ns / 1e9).ceil();
    if ns < 1e9 {
        time(ns)
    } else if seconds < 120.0 {
        format!("{}{NBSP}s", plain(seconds))
    } else {
        format!("{}{NBSP}min", plain((seconds / 60.0).ceil()))
    }
}
