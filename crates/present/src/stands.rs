//! Which figures do not stand, in words: the caps of the failed checks, grouped by who sets them.

use std::collections::BTreeMap;

use decide::caps::LATENCIES;
use decide::{Cap, Capped, Check, CheckId, CheckState, Trust};
use measure::percentile_name;
use spec::Metric;

use crate::label;

/// Figures that share the checks which put them in doubt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// The figures: `every latency, throughput`.
    pub(crate) what: String,
    /// The checks: `machine, send lag`.
    pub(crate) by: String,
}

/// What is taken away.
pub(crate) fn withheld(trust: &Trust) -> Vec<Doubt> {
    group(trust.caps().filter(|(_, cap)| cap.withholds()))
}

/// What is shown and marked. Too few samples mark themselves: the word `few`, an open interval.
pub(crate) fn marked(trust: &Trust) -> Vec<Doubt> {
    group(trust.caps().filter(|(id, cap)| !cap.withholds() && *id != CheckId::Samples))
}

/// What one failed check does to the figures, as a sentence.
pub(crate) fn consequence(check: &Check) -> Option<String> {
    if check.state != CheckState::Fail || check.caps.is_empty() {
        return None;
    }
    let part = |withholds: bool, word: &str| {
        let caps = check.caps.iter().filter(|cap| cap.withholds() == withholds);
        let doubts = group(caps.map(|cap| (check.id, *cap)));
        (!doubts.is_empty())
            .then(|| format!("{word}: {}", doubts.into_iter().map(|d| d.what).collect::<Vec<_>>().join(", ")))
    };
    let parts: Vec<String> = [part(true, "withheld"), part(false, "marked")].into_iter().flatten().collect();
    Some(parts.join("; "))
}

/// The checks, except that on samples, which mark figures of this metric.
pub(crate) fn markers(trust: &Trust, metric: Metric) -> Vec<CheckId> {
    let touches = |capped: Capped| match capped {
        Capped::Metric(m) | Capped::Percentile(m, _) => m == metric,
        Capped::Latencies | Capped::Completed => LATENCIES.contains(&metric),
        Capped::Everything => true,
        Capped::Throughput | Capped::Slo => false,
    };
    let mut out: Vec<CheckId> = trust
        .caps()
        .filter(|(id, cap)| *id != CheckId::Samples && !cap.withholds() && touches(cap.capped()))
        .map(|(id, _)| id)
        .collect();
    out.dedup();
    out
}

/// Whether a failed check marks or withholds throughput.
pub(crate) fn throughput_in_doubt(trust: &Trust) -> bool {
    trust.caps().any(|(_, cap)| matches!(cap.capped(), Capped::Throughput | Capped::Everything))
}

/// A thing in doubt, widest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Everything,
    Latencies,
    Throughput,
    Slo,
    Completed,
    Metric(Metric),
    Percentile(Metric, u16),
}

fn group(caps: impl Iterator<Item = (CheckId, Cap)>) -> Vec<Doubt> {
    let mut things: BTreeMap<Thing, Vec<CheckId>> = BTreeMap::new();
    for (id, cap) in caps {
        let thing = match cap.capped() {
            Capped::Everything => Thing::Everything,
            Capped::Latencies => Thing::Latencies,
            Capped::Throughput => Thing::Throughput,
            Capped::Slo => Thing::Slo,
            Capped::Completed => Thing::Completed,
            Capped::Metric(m) => Thing::Metric(m),
            Capped::Percentile(m, share) => Thing::Percentile(m, share),
        };
        let by = things.entry(thing).or_default();
        if !by.contains(&id) {
            by.push(id);
        }
    }
    // What a wider one covers needs no mention.
    let has = |thing: &Thing| things.contains_key(thing);
    let covered = |thing: &Thing| match thing {
        Thing::Everything => false,
        _ if has(&Thing::Everything) => true,
        Thing::Metric(m) => has(&Thing::Latencies) && LATENCIES.contains(m),
        Thing::Percentile(m, _) => {
            has(&Thing::Metric(*m)) || (has(&Thing::Latencies) && LATENCIES.contains(m))
        }
        _ => false,
    };
    let mut groups: BTreeMap<Vec<CheckId>, Vec<Thing>> = BTreeMap::new();
    for (thing, by) in things.iter().filter(|(thing, _)| !covered(thing)) {
        groups.entry(by.clone()).or_default().push(thing.clone());
    }
    let mut doubts: Vec<(Thing, Doubt)> = groups
        .into_iter()
        .filter_map(|(by, things)| {
            let by = by.into_iter().map(CheckId::label).collect::<Vec<_>>().join(", ");
            Some((things.first()?.clone(), Doubt { what: words(&things), by }))
        })
        .collect();
    doubts.sort_by(|a, b| a.0.cmp(&b.0));
    doubts.into_iter().map(|(_, doubt)| doubt).collect()
}

fn words(things: &[Thing]) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut percentiles: BTreeMap<Metric, Vec<u16>> = BTreeMap::new();
    for thing in things {
        match thing {
            Thing::Everything => out.push("every figure".to_owned()),
            Thing::Latencies => out.push("every latency".to_owned()),
            Thing::Throughput => out.push("throughput and goodput".to_owned()),
            Thing::Slo => out.push("attainment and every limit".to_owned()),
            Thing::Completed => out.push("means and percentiles of completed requests".to_owned()),
            Thing::Metric(m) => out.push(label::metric(*m).to_owned()),
            Thing::Percentile(m, share) => percentiles.entry(*m).or_default().push(*share),
        }
    }
    // Metrics in doubt at the same percentiles share a phrase.
    let mut shared: Vec<(Vec<u16>, Vec<&'static str>)> = Vec::new();
    for (metric, shares) in percentiles {
        let name = label::metric(metric);
        match shared.iter_mut().find(|(s, _)| *s == shares) {
            Some((_, names)) => names.push(name),
            None => shared.push((shares, vec![name])),
        }
    }
    for (shares, mut names) in shared {
        // Without thinking the two are the same; with thinking both are in doubt.
        if names.contains(&label::metric(Metric::Ttft)) {
            names.retain(|name| *name != label::metric(Metric::Ttfat));
        }
        let shares: Vec<String> =
            shares.iter().map(|share| percentile_name(f64::from(*share) / 10_000.0)).collect();
        out.push(format!("{} of {}", shares.join("/"), names.join(", ")));
    }
    out.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(id: CheckId, caps: &[Cap]) -> Check {
        Check { caps: caps.to_vec(), ..Check::new(id, CheckState::Fail, "figure", "limit") }
    }

    #[test]
    fn a_wider_cap_hides_a_narrower_one_and_equal_percentiles_share_a_phrase() {
        let narrow = |m, share| Cap::Withhold(Capped::Percentile(m, share));
        let trust = Trust::of(
            vec![
                failed(
                    CheckId::SendLag,
                    &[
                        narrow(Metric::Ttft, 5_000),
                        narrow(Metric::Ttft, 9_000),
                        narrow(Metric::E2e, 5_000),
                        narrow(Metric::E2e, 9_000),
                    ],
                ),
                failed(CheckId::Failures, &[Cap::Flag(Capped::Completed)]),
            ],
            &[],
        );
        assert_eq!(
            withheld(&trust),
            [Doubt { what: "p50/p90 of TTFT, E2E".to_owned(), by: "send lag".to_owned() }]
        );
        assert_eq!(marked(&trust)[0].by, "failures");
        assert_eq!(markers(&trust, Metric::Tpot), [CheckId::Failures]);

        let mut checks = trust.checks.clone();
        checks.push(failed(CheckId::Machine, &[Cap::Withhold(Capped::Latencies)]));
        let wide = withheld(&Trust::of(checks, &[]));
        assert_eq!(wide, [Doubt { what: "every latency".to_owned(), by: "machine".to_owned() }]);
    }
}
