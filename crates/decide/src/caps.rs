//! What failed checks do to numbers: a value is flagged or replaced by the reason; the strongest
//! cap on a number counts.

use std::collections::BTreeMap;

use measure::{Defined, Figure, Measures, MetricSummary, Undefined};
use spec::{Metric, Slo, Statistic};

use crate::trust::{Cap, Capped, CheckId, CheckState, Trust};

/// Metrics that are latencies or made from them; `Capped::Latencies` means these.
pub const LATENCIES: [Metric; 9] = [
    Metric::Ttft,
    Metric::Ttfat,
    Metric::E2e,
    Metric::Tpot,
    Metric::DecodeTpot,
    Metric::Itl,
    Metric::Icl,
    Metric::MaxGap,
    Metric::UserTps,
];

/// Throughputs; `Capped::Throughput` means these and goodput.
pub const THROUGHPUTS: [Metric; 2] = [Metric::RequestThroughput, Metric::OutputTokenThroughput];

impl Cap {
    /// What is capped.
    pub fn capped(self) -> Capped {
        match self {
            Cap::Flag(c) | Cap::Withhold(c) => c,
        }
    }
    /// Whether the value is taken away.
    pub fn withholds(self) -> bool {
        matches!(self, Cap::Withhold(_))
    }
}

impl Capped {
    /// Whether the metric as a whole is meant.
    fn covers(self, metric: Metric) -> bool {
        match self {
            Capped::Metric(m) => m == metric,
            Capped::Percentile(..) | Capped::Completed | Capped::Slo => false,
            Capped::Latencies => LATENCIES.contains(&metric),
            Capped::Throughput => THROUGHPUTS.contains(&metric),
            Capped::Everything => LATENCIES.contains(&metric) || THROUGHPUTS.contains(&metric),
        }
    }

    /// Whether a joint limit on this metric reads what is capped.
    pub fn read_by_joint(self, metric: Metric) -> bool {
        match self {
            Capped::Percentile(m, _) => m == metric,
            Capped::Slo | Capped::Everything => true,
            other => other.covers(metric),
        }
    }

    /// Whether a marginal limit reads what is capped.
    pub fn read_by_marginal(self, metric: Metric, statistic: Statistic) -> bool {
        match (self, statistic) {
            (Capped::Percentile(m, share), Statistic::Percentile(p)) => {
                m == metric && (p * 10_000.0).round() as u16 == share
            }
            // The largest value lies above every percentile that is in doubt, and the mean reads them all.
            (Capped::Percentile(m, _), Statistic::Max | Statistic::Mean) => m == metric,
            (Capped::Percentile(..), _) => false,
            (Capped::Completed, Statistic::Mean) => LATENCIES.contains(&metric),
            (Capped::Slo | Capped::Everything, _) => true,
            (other, _) => other.covers(metric),
        }
    }
}

/// The failed checks that cap a number which one of the limits reads: these limits are not judged
/// by this measurement.
pub fn blocking(trust: &Trust, slo: &Slo) -> Vec<CheckId> {
    let reads = |capped: Capped| {
        slo.joint.iter().any(|l| capped.read_by_joint(l.metric))
            || slo.marginal.iter().any(|l| capped.read_by_marginal(l.metric, l.statistic))
    };
    trust
        .in_state(CheckState::Fail)
        .filter(|check| check.caps.iter().any(|cap| reads(cap.capped())))
        .map(|check| check.id)
        .collect()
}

/// Applies every cap to the numbers; gives the marks, by metric, in the order of the checks. A
/// number that is withheld says by which check as well.
pub fn apply_caps(measures: &mut Measures, trust: &Trust) -> BTreeMap<Metric, Vec<String>> {
    let mut flags: BTreeMap<Metric, Vec<String>> = BTreeMap::new();
    for check in &trust.checks {
        for cap in &check.caps {
            let capped = cap.capped();
            let mut marked: Vec<Metric> = Metric::ALL.into_iter().filter(|m| capped.covers(*m)).collect();
            let mut what = String::new();
            match capped {
                Capped::Percentile(metric, share) => {
                    marked.push(metric);
                    what = format!("{} ", measure::percentile_name(f64::from(share) / 10_000.0));
                }
                Capped::Completed => {
                    marked.extend(LATENCIES);
                    what = "means of completed requests only, ".to_owned();
                }
                _ => {}
            }
            let verb = if cap.withholds() { "withheld" } else { "flagged" };
            for metric in marked {
                let present =
                    measures.metrics.get(&metric).is_some_and(|m| m.n > 0) || THROUGHPUTS.contains(&metric);
                if present {
                    let text = format!("{what}{verb}: {}: {}", check.id.label(), check.figure);
                    let list = flags.entry(metric).or_default();
                    if !list.contains(&text) {
                        list.push(text);
                    }
                }
            }
            if cap.withholds() {
                withhold(measures, capped);
            }
        }
    }
    flags
}

fn withhold(measures: &mut Measures, capped: Capped) {
    if let Capped::Percentile(metric, share) = capped {
        if let Some(summary) = measures.metrics.get_mut(&metric) {
            for (p, figure) in summary.percentiles.iter_mut().chain(&mut summary.completed) {
                if (*p * 10_000.0).round() as u16 == share {
                    hide(figure);
                }
            }
            // What shifts a percentile beyond use shifts the mean and the largest value as well.
            hide(&mut summary.mean);
            hide_defined(&mut summary.stddev);
            hide_defined(&mut summary.max);
        }
        return;
    }
    for (_, summary) in
        measures.metrics.iter_mut().chain(&mut measures.other_view).filter(|(m, _)| capped.covers(**m))
    {
        withhold_summary(summary);
    }
    if capped.covers(Metric::RequestThroughput) {
        let throughput = &mut measures.throughput;
        for figure in [
            &mut throughput.requests_per_s,
            &mut throughput.output_tokens_per_s,
            &mut throughput.input_tokens_per_s,
        ] {
            hide_defined(figure);
        }
    }
}

fn withhold_summary(summary: &mut MetricSummary) {
    hide(&mut summary.mean);
    for (_, figure) in summary.percentiles.iter_mut().chain(&mut summary.completed) {
        hide(figure);
    }
    hide_defined(&mut summary.stddev);
    hide_defined(&mut summary.min);
    hide_defined(&mut summary.max);
}

/// A number that exists is replaced; a reason stays.
fn hide(figure: &mut Figure) {
    if !matches!(figure, Figure::Undefined(_)) {
        *figure = Figure::Undefined(Undefined::Withheld);
    }
}

fn hide_defined<T>(value: &mut Defined<T>) {
    if value.is_ok() {
        *value = Err(Undefined::Withheld);
    }
}
