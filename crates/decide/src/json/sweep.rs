//! The machine output of a sweep: `sweep.json`, `--json`.

use std::collections::BTreeMap;

use measure::Figure;
use schemars::JsonSchema;
use serde::Serialize;
use spec::{Metric, Spec};

use super::shape::{Bounded, CountsDoc, MetricDoc, MetricKey, Num, Reason, SloDoc, Tool};
use super::{bounded, counts, metric_doc, number, slo};
use crate::report::Verdict;
use crate::sweep::{CrossingState, KneeState, Order, Over, Point, Pooled, SweepReport, Trade};
use crate::trust::TrustVerdict;

/// Metrics of a load, in the order of the output.
const METRICS: [Metric; 4] = [Metric::Ttft, Metric::Tpot, Metric::E2e, Metric::UserTps];

/// A sweep and what it came to. Loads are users or requests per second, as `over` says.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SweepDocument {
    /// Version of this shape.
    pub schema_version: u32,
    /// What measured.
    pub tool: Tool,
    /// The end of it; the answer in one sentence.
    pub verdict: Verdict,
    /// What varies.
    pub over: Over,
    /// The loads asked for, in the order given.
    pub loads: Vec<Num>,
    /// Runs of each load.
    pub repeats: u32,
    /// The order in which they were made.
    pub order: Order,
    /// The seed of the whole.
    pub seed: u64,
    /// Accelerators behind the server; `null`: not stated.
    pub accelerators: Option<u32>,
    /// Whether every run was made.
    pub complete: bool,
    /// The loads of runs that are missing.
    pub missing: Vec<Num>,
    /// Why runs are missing; `null`: none are, or it was not this program that left them out.
    pub ended: Option<String>,
    /// The spec of one of its runs, every default written out; load and seed are each run's own.
    pub spec: Spec,
    /// Where throughput stops growing with load.
    pub knee: KneeDoc,
    /// Where each limit is crossed.
    pub limits: Vec<CrossingDoc>,
    /// Every load that was measured, ascending.
    pub points: Vec<PointDoc>,
    /// The loads on the Pareto front, by ascending speed of one user.
    pub front: Vec<TradeDoc>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// The knee.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct KneeDoc {
    /// What was found.
    pub state: KneeState,
    /// Its load with the 95 % interval; `null`: not found.
    pub load: Option<Bounded>,
    /// Requests per second of the fitted curve there; `null`: not found.
    pub requests_per_s: Option<Num>,
    /// The largest throughput that was seen; `null`: none is known.
    pub peak: Option<PeakDoc>,
    /// Slopes of log throughput over log load below and above the break; `null`: too few loads.
    pub fit: Option<FitDoc>,
    /// The same load by Little's law; `null`: it does not apply.
    pub little: Option<LittleKneeDoc>,
    /// Why none was found.
    pub reason: Option<String>,
}

/// The largest throughput.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PeakDoc {
    /// At this load.
    pub load: Num,
    /// So many.
    pub requests_per_s: Num,
}

/// The two pieces of the fit.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FitDoc {
    /// Slope below the break.
    pub head_slope: Num,
    /// Slope above it with its 95 % interval.
    pub tail_slope: Bounded,
    /// Bayesian information criterion of one line less that of two.
    pub delta_bic: Num,
}

/// The knee by Little's law: peak throughput × mean e2e at the smallest load (with the think time).
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LittleKneeDoc {
    /// Users.
    pub load: Num,
    /// The load at which the latency was taken.
    pub latency_at: Num,
    /// Whether it differs from the knee by more than a factor of 1.5.
    pub differs: bool,
}

/// A limit over all loads.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CrossingDoc {
    /// As written.
    pub limit: String,
    /// What became of it.
    pub state: CrossingState,
    /// The largest load at which it holds.
    pub holds_up_to: Option<Num>,
    /// The smallest load at which it is missed.
    pub missed_from: Option<Num>,
    /// Loads between the two that are undecided or unknown.
    pub open: Vec<Num>,
}

/// One load.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PointDoc {
    /// Users, or requests per second.
    pub load: Num,
    /// Its runs, in the order in which they were made.
    pub runs: Vec<RunDoc>,
    /// Why nothing is known at this load; `null`: something is.
    pub unknown: Option<String>,
    /// Figures of the runs that count, pooled; `null`: none counts.
    pub figures: Option<FiguresDoc>,
}

/// One run of a load.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RunDoc {
    /// Its folder inside that of the sweep.
    pub folder: String,
    /// The verdict on the measurement.
    pub trust: TrustVerdict,
    /// Why it is no part of the figures; `null`: it is.
    pub left_out: Option<String>,
}

/// Pooled figures.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FiguresDoc {
    /// The verdict over the runs that count: the worst state of each check.
    pub trust: TrustVerdict,
    /// The checks that failed, with their figures.
    pub failed_checks: Vec<String>,
    /// States of the measured requests.
    pub requests: CountsDoc,
    /// Completed requests / duration, with a 95 % interval from batch means and from the runs.
    pub requests_per_s: Option<Bounded>,
    /// Output tokens / duration.
    pub output_tokens_per_s: Option<Num>,
    /// The same for each accelerator; `null`: their number is not stated.
    pub output_tokens_per_s_per_accelerator: Option<Num>,
    /// Median output speed of one user, tokens per second.
    pub output_tokens_per_s_per_user: Option<Num>,
    /// Planned sends / planned span.
    pub offered_per_s: Option<Num>,
    /// Time-weighted mean.
    pub in_flight_mean: Option<Num>,
    /// True peak.
    pub in_flight_peak: u64,
    /// Latencies and speeds.
    pub metrics: BTreeMap<MetricKey, MetricDoc>,
    /// The limits at this load.
    pub slo: SloDoc,
    /// The reason of every figure that is `null`.
    pub undefined: BTreeMap<String, Reason>,
}

/// A load in the plane of the trade.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TradeDoc {
    /// The load.
    pub load: Num,
    /// Median output speed of one user, tokens per second.
    pub per_user: Num,
    /// Output tokens per second of all, for each accelerator where their number is stated.
    pub together: Num,
}

impl SweepReport {
    /// The machine output (`sweep.json`, `--json`).
    pub fn to_json(&self) -> serde_json::Value {
        // Every key is a string and every number finite, so this cannot fail.
        serde_json::to_value(self.document()).unwrap_or(serde_json::Value::Null)
    }

    /// The same, typed.
    pub fn document(&self) -> SweepDocument {
        let asked = &self.asked;
        let numbers = |list: &[f64]| list.iter().copied().map(Num).collect();
        SweepDocument {
            schema_version: record::SCHEMA_VERSION,
            tool: Tool { name: "inferometer".to_owned(), version: asked.tool_version.clone() },
            verdict: self.verdict.clone(),
            over: self.over,
            loads: numbers(&asked.loads),
            repeats: asked.repeats,
            order: asked.order,
            seed: asked.seed,
            accelerators: asked.accelerators,
            complete: asked.missing.is_empty(),
            missing: numbers(&asked.missing),
            ended: asked.ended.clone(),
            spec: asked.spec.redacted(),
            knee: self.knee_doc(),
            limits: self
                .limits
                .iter()
                .map(|limit| CrossingDoc {
                    limit: limit.limit.clone(),
                    state: limit.crossing.state,
                    holds_up_to: limit.crossing.holds_up_to.map(Num),
                    missed_from: limit.crossing.missed_from.map(Num),
                    open: numbers(&limit.crossing.open),
                })
                .collect(),
            points: self.points.iter().map(|point| self.point(point)).collect(),
            front: self.front.iter().map(trade).collect(),
            notes: self.notes.clone(),
        }
    }

    fn knee_doc(&self) -> KneeDoc {
        let knee = &self.knee;
        let closed = |value, low, high| Bounded {
            value: Some(Num(value)),
            low: Some(Num(low)),
            high: Some(Num(high)),
        };
        KneeDoc {
            state: knee.state,
            load: knee.at.map(|at| closed(at.load, at.low, at.high)),
            requests_per_s: knee.at.map(|at| Num(at.throughput)),
            peak: knee.peak.map(|(load, rate)| PeakDoc { load: Num(load), requests_per_s: Num(rate) }),
            fit: knee.fit.map(|fit| FitDoc {
                head_slope: Num(fit.head),
                tail_slope: closed(fit.tail, fit.tail_low, fit.tail_high),
                delta_bic: Num(fit.evidence),
            }),
            little: self.little.map(|little| LittleKneeDoc {
                load: Num(little.users),
                latency_at: Num(little.at),
                differs: little.differs,
            }),
            reason: knee.reason.clone(),
        }
    }

    fn point(&self, point: &Point) -> PointDoc {
        PointDoc {
            load: Num(point.load),
            runs: point
                .repeats
                .iter()
                .map(|repeat| RunDoc {
                    folder: repeat.name.clone(),
                    trust: repeat.trust,
                    left_out: repeat.left_out.clone(),
                })
                .collect(),
            unknown: point.pooled.as_ref().err().cloned(),
            figures: point.known().map(|pooled| self.figures(pooled, &point.spec)),
        }
    }

    fn figures(&self, pooled: &Pooled, spec: &Spec) -> FiguresDoc {
        let mut undefined = BTreeMap::new();
        let measures = &pooled.measures;
        let rates = &measures.throughput;
        let rate = pooled.throughput.map_or_else(Figure::Undefined, Figure::Known);
        let requests_per_s = bounded("requests_per_s", &rate, &mut undefined);
        let mut plain = |name: &str, value| number(name, value, &mut undefined);
        let tokens = rates.output_tokens_per_s.map(|e| e.value);
        let devices = self.asked.accelerators.ok_or(measure::Undefined::NotApplicable);
        let speed = measures.metrics.get(&Metric::UserTps).and_then(|summary| summary.percentile(0.5));
        let speed = match speed {
            Some(Figure::Known(e)) => Ok(e.value),
            Some(Figure::Undefined(why)) => Err(*why),
            // A speed has no bound; without the metric nothing was streamed.
            Some(Figure::Exceeds(_)) | None => Err(measure::Undefined::NotApplicable),
        };
        FiguresDoc {
            trust: pooled.trust.verdict,
            failed_checks: pooled
                .trust
                .checks
                .iter()
                .filter(|check| check.failed())
                .map(|check| format!("{}: {}", check.id.name(), check.figure))
                .collect(),
            requests: counts(&measures.counts),
            requests_per_s,
            output_tokens_per_s: plain("output_tokens_per_s", tokens),
            output_tokens_per_s_per_accelerator: plain(
                "output_tokens_per_s_per_accelerator",
                devices.and_then(|n| tokens.map(|t| t / f64::from(n))),
            ),
            output_tokens_per_s_per_user: plain("output_tokens_per_s_per_user", speed),
            offered_per_s: plain("offered_per_s", rates.offered_per_s),
            in_flight_mean: plain("in_flight_mean", rates.in_flight_mean),
            in_flight_peak: rates.in_flight_peak,
            metrics: METRICS
                .into_iter()
                .filter_map(|metric| {
                    let summary = measures.metrics.get(&metric)?;
                    let flags = pooled.flags.get(&metric).cloned().unwrap_or_default();
                    Some((MetricKey::of(metric, &METRICS), metric_doc(summary, flags, None)))
                })
                .collect(),
            slo: slo(&pooled.slo, spec),
            undefined,
        }
    }
}

fn trade(trade: &Trade) -> TradeDoc {
    TradeDoc { load: Num(trade.load), per_user: Num(trade.per_user), together: Num(trade.together) }
}
