//! The machine output: the only place that knows its shape. Strict JSON, no NaN, no infinity; a
//! number that does not exist is `null` with its reason in `undefined` beside it.

mod capacity;
mod capacity_quality;
mod capacity_tiers;
mod self_check;
mod shape;
mod sweep;

use std::collections::BTreeMap;

use measure::{Defined, Estimate, Figure, MetricSummary, PERCENTILES, Undefined, Unit, percentile_name};
use spec::Metric;

use crate::report::{MarginalReport, RunReport, Share, SloReport};
use crate::slo::reason_words;
use crate::trust::{Cap, Capped, Check, Trust};
use crate::verdict::is_time;
use crate::words::time;

pub use capacity::CapacityDocument;
pub use capacity_quality::QualityDoc;
pub use capacity_tiers::TierDoc;
pub use self_check::SelfCheckDocument;
pub use shape::Document;
use shape::{
    Alone, Bounded, CheckDoc, CompletedDoc, ConnectionsDoc, CountsDoc, FloorDoc, InstrumentDoc, JointDoc,
    MarginalDoc, MetricDoc, Num, Reason, SloDoc, Steady, TargetDoc, ThroughputDoc, TokensDoc, Tool, TrustDoc,
    WindowDoc,
};
pub use sweep::SweepDocument;

/// Metrics that are always in the output, in the order of the contract.
const ALWAYS: [Metric; 5] = [Metric::Ttft, Metric::Tpot, Metric::Itl, Metric::Icl, Metric::E2e];

impl RunReport {
    /// The machine output (`run.json`, `--json`).
    pub fn to_json(&self) -> serde_json::Value {
        // Every key is a string and every number finite, so this cannot fail.
        serde_json::to_value(self.document()).unwrap_or(serde_json::Value::Null)
    }

    /// The same, typed.
    pub fn document(&self) -> Document {
        let m = &self.measures;
        let mut spec = self.spec.redacted();
        spec.analysis.percentile = m.rule;
        Document {
            schema_version: record::SCHEMA_VERSION,
            tool: Tool { name: "inferometer".to_owned(), version: self.environment.tool_version.clone() },
            seed: spec.seed,
            spec,
            environment: self.environment.clone(),
            trust: trust(&self.trust),
            requests: counts(&m.counts),
            window: WindowDoc {
                duration_ns: m.window.duration.0,
                steady: m.window.steady.zip(m.window.steady_rates).map(|((from, to), rates)| Steady {
                    from_ns: from.0,
                    to_ns: to.0,
                    requests_per_s: Num(rates.completions_per_s),
                    output_tokens_per_s: Num(rates.output_tokens_per_s),
                    in_flight: Num(rates.in_flight),
                }),
                from_ns: m.window.from.0,
                to_ns: m.window.to.0,
                planned_span_ns: m.window.planned_span.0,
            },
            metrics: self.metrics(),
            throughput: self.throughput(),
            slo: slo(&self.slo, &self.spec),
            verdict: self.verdict.clone(),
            other_view: m
                .other_view
                .iter()
                .map(|(metric, summary)| {
                    let flags = self.flags.get(metric).cloned().unwrap_or_default();
                    (metric.name().to_owned(), metric_doc(summary, flags, None))
                })
                .collect(),
            warmup: counts(&m.warmup),
            tokens: self.tokens(),
            connections: connections(&m.connections),
            targets: m.targets.iter().map(target).collect(),
            instrument: self.instrument(),
            little: m.little.ok().map(|l| shape::LittleDoc {
                in_flight: Num(l.in_flight),
                lambda_w: Num(l.lambda_w),
                tolerance: Num(l.tolerance),
            }),
            notes: self.notes.clone(),
            stopped: self.footer.stopped,
            missing: self.missing.clone(),
        }
    }

    fn metrics(&self) -> BTreeMap<shape::MetricKey, MetricDoc> {
        let streamless = empty(self.measures.view, self.measures.rule);
        Metric::ALL
            .into_iter()
            .filter_map(|metric| {
                let summary = match self.measures.metrics.get(&metric) {
                    Some(summary) => summary,
                    None if ALWAYS.contains(&metric) => &streamless,
                    None => return None,
                };
                let flags = self.flags.get(&metric).cloned().unwrap_or_default();
                Some((
                    shape::MetricKey::of(metric, &ALWAYS),
                    metric_doc(summary, flags, self.floor_notes.get(&metric).cloned()),
                ))
            })
            .collect()
    }

    fn throughput(&self) -> ThroughputDoc {
        let t = &self.measures.throughput;
        let mut undefined = BTreeMap::new();
        let mut plain = |name: &str, value: Defined<f64>| number(name, value, &mut undefined);
        let of = |value: Defined<Estimate>| value.map(|e| e.value);
        ThroughputDoc {
            requests_per_s: plain("requests_per_s", of(t.requests_per_s)),
            output_tokens_per_s: plain("output_tokens_per_s", of(t.output_tokens_per_s)),
            input_tokens_per_s: plain("input_tokens_per_s", of(t.input_tokens_per_s)),
            offered_per_s: plain("offered_per_s", t.offered_per_s),
            sent_per_s: plain("sent_per_s", t.sent_per_s),
            in_flight_mean: plain("in_flight_mean", t.in_flight_mean),
            in_flight_peak: t.in_flight_peak,
            gap_cv: plain("gap_cv", t.gap_cv),
            cap_wait_mean_ns: plain("cap_wait_mean_ns", t.cap_wait_mean.map(|n| n.0 as f64)),
            capped_share: Num(t.capped_share),
            flags: [Metric::RequestThroughput, Metric::OutputTokenThroughput]
                .iter()
                .filter_map(|m| self.flags.get(m))
                .flatten()
                .fold(Vec::new(), |mut list, flag| {
                    if !list.contains(flag) {
                        list.push(flag.clone());
                    }
                    list
                }),
            undefined,
        }
    }

    fn instrument(&self) -> InstrumentDoc {
        let i = &self.instrument;
        let mut undefined = BTreeMap::new();
        if let Err(why) = i.send_lag {
            undefined.insert("send_lag".to_owned(), Reason::Words(reason_words(why)));
        }
        if i.floor.is_none() {
            undefined.insert("floor".to_owned(), Reason::Words(i.floor_source.clone()));
        }
        let [p50, p99] = i.client_lag;
        InstrumentDoc {
            send_lag: i.send_lag.ok(),
            client_lag_p50: bounded("client_lag_p50", &p50, &mut undefined),
            client_lag_p99: bounded("client_lag_p99", &p99, &mut undefined),
            cpu_per_request_ns: number("cpu_per_request_ns", i.cpu_per_request_ns, &mut undefined),
            cpu_per_event_ns: number("cpu_per_event_ns", i.cpu_per_event_ns, &mut undefined),
            busiest_lane: number("busiest_lane", i.busiest_lane, &mut undefined),
            floor: i.floor.map(|f| FloorDoc { latency_ns: f.latency_ns, gap_ns: f.gap_ns }),
            floor_source: i.floor_source.clone(),
            undefined,
        }
    }

    fn tokens(&self) -> TokensDoc {
        let t = &self.measures.tokens;
        let mut undefined = BTreeMap::new();
        let mut plain = |name: &str, value: Defined<f64>| number(name, value, &mut undefined);
        let (output_mean, input_mean) =
            (plain("output_mean", t.output_mean), plain("input_mean", t.input_mean));
        let per_chunk = plain("per_chunk", t.per_chunk);
        let usage_vs_retokenised = plain("usage_vs_retokenised", t.usage_vs_retokenised);
        let cold_ttft_ns = plain("cold_ttft_ns", self.measures.cold_ttft.map(|n| n.0 as f64));
        TokensDoc {
            output: t.output,
            input: t.input,
            output_mean,
            input_mean,
            output_source: t.output_source.clone(),
            chunk_source: t.chunk_source.clone(),
            output_of_failed: t.output_of_failed,
            per_chunk,
            forced: t.forced,
            forced_missed: t.forced_missed,
            usage_vs_retokenised,
            cached: t.cached,
            cold_ttft_ns,
            undefined,
        }
    }
}

/// JSON Schema (draft 2020-12) of the machine output of a run.
pub fn schema() -> serde_json::Value {
    schema_of::<Document>("run.json of inferometer")
}

/// JSON Schema (draft 2020-12) of the output of a self-check.
pub fn self_check_schema() -> serde_json::Value {
    schema_of::<SelfCheckDocument>("output of inferometer self-check --json")
}

/// JSON Schema (draft 2020-12) of the machine output of a sweep.
pub fn sweep_schema() -> serde_json::Value {
    schema_of::<SweepDocument>("sweep.json of inferometer")
}

/// JSON Schema (draft 2020-12) of the output of a search for capacity.
pub fn capacity_schema() -> serde_json::Value {
    schema_of::<CapacityDocument>("output of inferometer capacity --json")
}

fn schema_of<T: schemars::JsonSchema>(title: &str) -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema.to_value()
}

fn trust(trust: &Trust) -> TrustDoc {
    TrustDoc {
        verdict: trust.verdict,
        checks: trust.checks.iter().map(check).collect(),
        client: trust.client.clone(),
    }
}

fn check(check: &Check) -> CheckDoc {
    CheckDoc {
        id: check.id,
        state: check.state,
        figure: check.figure.clone(),
        limit: check.limit.clone(),
        advice: check.advice.clone(),
        note: check.note.clone(),
        caps: check.caps.iter().map(|cap| cap_words(*cap)).collect(),
    }
}

/// `flag ttft p99`, `withhold latencies`.
pub fn cap_words(cap: Cap) -> String {
    let what = match cap.capped() {
        Capped::Metric(metric) => metric.name().to_owned(),
        Capped::Percentile(metric, share) => {
            format!("{} {}", metric.name(), percentile_name(f64::from(share) / 10_000.0))
        }
        Capped::Latencies => "latencies".to_owned(),
        Capped::Completed => "figures of completed requests only".to_owned(),
        Capped::Throughput => "throughput".to_owned(),
        Capped::Slo => "limits".to_owned(),
        Capped::Everything => "everything".to_owned(),
    };
    format!("{} {what}", if cap.withholds() { "withhold" } else { "flag" })
}

fn connections(c: &measure::Connections) -> ConnectionsDoc {
    ConnectionsDoc {
        opened: c.opened,
        ahead: c.ahead,
        reused: c.reused,
        stale: c.stale,
        connect: c.connect.ok(),
        tls: c.tls.ok(),
    }
}

fn target(share: &measure::TargetShare) -> TargetDoc {
    TargetDoc {
        target: share.target.clone(),
        requests: counts(&share.counts),
        output_tokens: share.output_tokens,
    }
}

fn counts(c: &measure::Counts) -> CountsDoc {
    CountsDoc {
        offered: c.offered,
        ok: c.ok,
        failed: c.failed,
        timed_out: c.timed_out,
        cancelled: c.cancelled,
        shed: c.shed,
        failed_by_class: c.failed_by_class.clone(),
        timed_out_by_kind: c.timed_out_by_kind.clone(),
        first_failure: c.first_failure.clone(),
        finish: c.finish.clone(),
        stale_connections: c.stale_connections,
        retries: c.retries,
    }
}

/// A metric that the run could not have.
fn empty(view: spec::View, estimator: spec::PercentileRule) -> MetricSummary {
    let none = Figure::Undefined(Undefined::NoneCompleted);
    let percentiles: Vec<(f64, Figure)> = PERCENTILES.into_iter().map(|p| (p, none)).collect();
    MetricSummary {
        unit: Unit::Nanoseconds,
        view: Some(view),
        estimator,
        n: 0,
        mean: none,
        stddev: Err(Undefined::NoneCompleted),
        min: Err(Undefined::NoneCompleted),
        max: Err(Undefined::NoneCompleted),
        completed: percentiles.clone(),
        percentiles,
        undefined: BTreeMap::new(),
        tau: 1.0,
    }
}

/// A plain number, or `null` with its reason.
fn number(name: &str, value: Defined<f64>, undefined: &mut BTreeMap<String, Reason>) -> Option<Num> {
    match value {
        Ok(value) if value.is_finite() => Some(Num(value)),
        Ok(_) => {
            undefined.insert(name.to_owned(), Reason::Words("not finite".to_owned()));
            None
        }
        Err(reason) => {
            undefined.insert(name.to_owned(), Reason::Words(reason_words(reason)));
            None
        }
    }
}

/// A figure with its interval; `null`, or a lower bound without a value, with its reason.
fn bounded(name: &str, figure: &Figure, undefined: &mut BTreeMap<String, Reason>) -> Option<Bounded> {
    match figure {
        Figure::Known(e) if e.value.is_finite() => Some(Bounded {
            value: Some(Num(e.value)),
            low: finite(e.interval.low),
            high: finite(e.interval.high),
        }),
        Figure::Known(_) => {
            undefined.insert(name.to_owned(), Reason::Words("not finite".to_owned()));
            None
        }
        Figure::Exceeds(bound) => {
            let words = format!("> {}: it lies among requests that did not end well", time(*bound));
            undefined.insert(name.to_owned(), Reason::Words(words));
            Some(Bounded { value: None, low: finite(Some(*bound)), high: None })
        }
        Figure::Undefined(reason) => {
            undefined.insert(name.to_owned(), Reason::Words(reason_words(*reason)));
            None
        }
    }
}

fn finite(value: Option<f64>) -> Option<Num> {
    value.filter(|v| v.is_finite()).map(Num)
}

/// The five percentiles that are always reported.
fn percentiles(
    figures: &[(f64, Figure)],
    undefined: &mut BTreeMap<String, Reason>,
) -> [Option<Bounded>; PERCENTILES.len()] {
    PERCENTILES.map(|p| {
        let name = percentile_name(p);
        match figures.iter().find(|(share, _)| (share - p).abs() < 1e-9) {
            Some((_, figure)) => bounded(&name, figure, undefined),
            None => {
                undefined.insert(name, Reason::Words("not computed".to_owned()));
                None
            }
        }
    })
}

fn metric_doc(summary: &MetricSummary, flags: Vec<String>, note: Option<String>) -> MetricDoc {
    let mut undefined: BTreeMap<String, Reason> =
        summary.undefined.iter().map(|(reason, n)| (reason.name().to_owned(), Reason::Count(*n))).collect();
    let mean = bounded("mean", &summary.mean, &mut undefined);
    let stddev = number("stddev", summary.stddev, &mut undefined);
    let min = number("min", summary.min, &mut undefined);
    let max = number("max", summary.max, &mut undefined);
    let [p50, p90, p95, p99, p99_9] = percentiles(&summary.percentiles, &mut undefined);
    let mut of_completed = BTreeMap::new();
    let [c50, c90, c95, c99, c99_9] = percentiles(&summary.completed, &mut of_completed);
    MetricDoc {
        unit: summary.unit,
        view: summary.view,
        estimator: summary.estimator,
        n: summary.n,
        mean,
        stddev,
        min,
        max,
        p50,
        p90,
        p95,
        p99,
        p99_9,
        undefined,
        completed: CompletedDoc {
            p50: c50,
            p90: c90,
            p95: c95,
            p99: c99,
            p99_9: c99_9,
            undefined: of_completed,
        },
        tau: Num(summary.tau),
        flags,
        note,
    }
}

fn share(share: &Share) -> Bounded {
    Bounded { value: finite(share.value), low: finite(share.low), high: finite(share.high) }
}

fn slo(report: &SloReport, spec: &spec::Spec) -> SloDoc {
    let metric = |i: usize| spec.slo.marginal.get(i).map(|l| l.metric);
    SloDoc {
        joint: report.joint.as_ref().map(|j| JointDoc {
            limits: j.limits.clone(),
            good: j.good,
            offered: j.offered,
            attainment: share(&j.attainment),
            goodput_per_s: finite(j.goodput_per_s),
            bounds: j.bounds.map(|(low, high)| [Num(low), Num(high)]),
            target: Num(j.target),
            met: j.met,
            alone: (!j.alone.is_empty()).then(|| {
                j.alone.iter().map(|(limit, s)| Alone { limit: limit.clone(), share: Num(*s) }).collect()
            }),
            reason: j.reason.clone(),
        }),
        marginal: report.marginal.iter().enumerate().map(|(i, m)| marginal(m, metric(i))).collect(),
        together: report.together.clone(),
    }
}

fn marginal(report: &MarginalReport, metric: Option<Metric>) -> MarginalDoc {
    let timed = metric.is_none_or(is_time);
    let value = finite(report.value);
    MarginalDoc {
        limit: report.limit.clone(),
        value_ns: if timed { value } else { None },
        value,
        low: finite(report.low),
        high: finite(report.high),
        unit: match metric {
            Some(Metric::ErrorRate) => "share",
            Some(Metric::UserTps | Metric::OutputTokenThroughput) => "tokens/s",
            Some(Metric::RequestThroughput) => "requests/s",
            _ => "ns",
        }
        .to_owned(),
        met: report.met,
        reason: report.reason.clone(),
    }
}
