//! One load of a sweep: its repeats, pooled, and whether they may be believed.

use std::collections::BTreeMap;

use measure::repeats::{Completed, joined, throughput};
use measure::{Defined, Estimate, Measures, Undefined, Window, measure};
use record::Run;
use spec::{Analysis, Load, Metric, Nanos, Spec};

use crate::caps::apply_caps;
use crate::checks::samples::samples;
use crate::facts::Facts;
use crate::report::SloReport;
use crate::slo;
use crate::trust::{self, Check, CheckId, CheckState, Trust, TrustVerdict, must_know};

/// Checks that ask whether this side, or somebody else at the server, was in the way. Whatever a run
/// shows that fails one is not known to be the server's doing: neither its latencies nor its
/// throughput say what the server can do.
const NOT_THE_SERVERS: [CheckId; 6] = [
    CheckId::SendLag,
    CheckId::LaneStall,
    CheckId::Machine,
    CheckId::LaneBusy,
    CheckId::Arrivals,
    CheckId::Foreign,
];

/// A run as it was recorded, with the name of its folder.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Folder inside the folder of the whole.
    pub name: String,
    /// Its records.
    pub run: Run,
}

/// One of the runs of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct Repeat {
    /// Folder inside the folder of the whole.
    pub name: String,
    /// May it be believed?
    pub trust: TrustVerdict,
    /// Requests that ended well.
    pub ok: u64,
    /// Why it is not part of the load's figures; `None`: it is.
    pub left_out: Option<String>,
}

/// What is known at one load.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Users, or requests per second.
    pub load: f64,
    /// The spec of its runs.
    pub spec: Spec,
    /// Its runs, in the order in which they were made.
    pub repeats: Vec<Repeat>,
    /// Figures of the repeats that count, pooled, or why there are none.
    pub pooled: Result<Box<Pooled>, String>,
}

/// Repeats of one load taken together.
#[derive(Debug, Clone, PartialEq)]
pub struct Pooled {
    /// Worst state of each check; that of the samples is of the pooled requests.
    pub trust: Trust,
    /// The numbers, withheld ones replaced by their reason.
    pub measures: Measures,
    /// Metrics that carry a mark, and why.
    pub flags: BTreeMap<Metric, Vec<String>>,
    /// The limits.
    pub slo: SloReport,
    /// Completed requests per second with its interval; withheld where a check takes it away.
    pub throughput: Defined<Estimate>,
    /// Standard error of the throughput over the throughput: from batches, else from the count.
    pub relative_error: f64,
}

/// The load of a spec: users, or requests per second.
pub fn load_of(spec: &Spec) -> f64 {
    match &spec.load {
        Load::Closed(closed) => f64::from(closed.concurrency),
        Load::Open(open) => open.rate.per_second(),
    }
}

/// A run with what was made of it alone.
struct Judged {
    run: Run,
    name: String,
    measures: Measures,
    trust: Trust,
}

impl Point {
    /// From the runs of one load, at least one; they differ in nothing but their seeds.
    pub fn new(runs: Vec<Recorded>, analysis: &Analysis) -> Option<Self> {
        let spec = runs.first()?.run.header.spec.clone();
        let judged: Vec<Judged> = runs
            .into_iter()
            .map(|Recorded { name, run }| {
                let measures = measure(&run, analysis);
                let trust = trust::judge(&run, &measures);
                Judged { run, name, measures, trust }
            })
            .collect();
        let reasons: Vec<Option<String>> = judged.iter().map(left_out).collect();
        let repeats = judged
            .iter()
            .zip(&reasons)
            .map(|(judged, why)| Repeat {
                name: judged.name.clone(),
                trust: judged.trust.verdict,
                ok: judged.measures.counts.ok,
                left_out: why.clone(),
            })
            .collect();
        // Told where no repeat counts: what was wrong with the first of them.
        let why = reasons.iter().flatten().next().cloned().unwrap_or_default();
        let counted: Vec<Judged> = judged
            .into_iter()
            .zip(&reasons)
            .filter(|(_, why)| why.is_none())
            .map(|(judged, _)| judged)
            .collect();
        let load = load_of(&spec);
        Some(Self { load, spec, repeats, pooled: pool(counted, analysis).map(Box::new).ok_or(why) })
    }

    /// The pooled figures, where there are any.
    pub fn known(&self) -> Option<&Pooled> {
        self.pooled.as_deref().ok()
    }

    /// What became of limit `index` (the joint one first, then each marginal one), and why where that
    /// needs a word.
    pub fn met(&self, index: usize) -> (Option<bool>, Option<String>) {
        match &self.pooled {
            Err(why) => (None, Some(why.clone())),
            Ok(pooled) => {
                let joint = pooled.slo.joint.iter().map(|j| (j.met, j.reason.clone()));
                let marginal = pooled.slo.marginal.iter().map(|m| (m.met, m.reason.clone()));
                joint.chain(marginal).nth(index).unwrap_or((None, None))
            }
        }
    }
}

/// Why a run does not count: nothing may be concluded from it, or not of the server.
fn left_out(judged: &Judged) -> Option<String> {
    if judged.trust.verdict == TrustVerdict::Invalid {
        return Some(cause(judged));
    }
    judged.trust.in_state(CheckState::Fail).find(|check| NOT_THE_SERVERS.contains(&check.id)).map(words)
}

/// Why nothing may be concluded from a run.
fn cause(judged: &Judged) -> String {
    if judged.measures.counts.offered == 0 {
        return "no request was due in the measurement".to_owned();
    }
    let grave = judged.trust.checks.iter().find(|check| check.is_grave());
    grave.map_or_else(|| "the measurement is invalid".to_owned(), words)
}

fn words(check: &Check) -> String {
    format!("{}: {}", check.id.label(), check.figure)
}

/// The runs that count, as one.
fn pool(judged: Vec<Judged>, analysis: &Analysis) -> Option<Pooled> {
    let trusts: Vec<Trust> = judged.iter().map(|judged| judged.trust.clone()).collect();
    let completed: Vec<Completed> =
        judged.iter().map(|j| Completed::of(&j.run, &j.measures.window, j.measures.counts.ok)).collect();
    let levels: Vec<(Nanos, Defined<f64>, u64)> = judged
        .iter()
        .map(|Judged { measures, .. }| {
            let throughput = &measures.throughput;
            (measures.window.duration, throughput.in_flight_mean, throughput.in_flight_peak)
        })
        .collect();
    let several = judged.len() > 1;
    let runs: Vec<(Run, Window)> = judged.into_iter().map(|j| (j.run, j.measures.window)).collect();
    let run = joined(runs)?;
    let mut measures = measure(&run, analysis);
    // At the seams of joined runs the level is not that of any run.
    measures.throughput.in_flight_mean = mean_level(&levels);
    measures.throughput.in_flight_peak = levels.iter().map(|(_, _, peak)| *peak).max().unwrap_or_default();
    let rate = throughput(&completed);
    measures.throughput.requests_per_s = rate;
    let of_pooled = several.then(|| samples(&Facts::new(&run, &measures)));
    let trust = worst(&trusts, of_pooled, &must_know(&run));
    let spec = &run.header.spec;
    let mut slo = slo::judge(&run, &measures, &spec.slo);
    slo::withhold(&mut slo, &trust, spec);
    let flags = apply_caps(&mut measures, &trust);
    Some(Pooled {
        relative_error: relative_error(&completed),
        throughput: measures.throughput.requests_per_s,
        trust,
        measures,
        flags,
        slo,
    })
}

/// Mean in flight over the time of all runs.
fn mean_level(levels: &[(Nanos, Defined<f64>, u64)]) -> Defined<f64> {
    let (mut area, mut time) = (0.0, 0.0);
    for (duration, level, _) in levels {
        let seconds = duration.as_secs_f64();
        area += (*level)? * seconds;
        time += seconds;
    }
    if time > 0.0 { Ok(area / time) } else { Err(Undefined::NoSpan) }
}

/// As [`throughput`] has it, as one standard error; where batches are too few, that of a count.
fn relative_error(completed: &[Completed]) -> f64 {
    let ok: f64 = completed.iter().map(|run| run.ok as f64).sum();
    let of_batches: Option<f64> = completed
        .iter()
        .map(|run| Some((run.ok as f64 * run.relative_error.ok()?).powi(2)))
        .sum::<Option<f64>>();
    match of_batches {
        Some(sum) if ok > 0.0 => sum.sqrt() / ok,
        _ => 1.0 / ok.max(1.0).sqrt(),
    }
}

/// Each check in its worst state over the runs, with the caps of all that failed.
fn worst(trusts: &[Trust], samples: Option<Check>, must_know: &[CheckId]) -> Trust {
    let rank = |state: CheckState| match state {
        CheckState::Fail => 2,
        CheckState::Unknown => 1,
        CheckState::Pass => 0,
    };
    let mut checks: Vec<Check> = Vec::new();
    for check in trusts.iter().flat_map(|trust| &trust.checks) {
        match checks.iter_mut().find(|known| known.id == check.id) {
            None => checks.push(check.clone()),
            Some(known) => {
                let (worse, other) = if rank(check.state) > rank(known.state) {
                    (check.clone(), std::mem::replace(known, check.clone()))
                } else {
                    (known.clone(), check.clone())
                };
                *known = worse;
                // A check that passed caps nothing.
                for cap in other.caps.into_iter().filter(|_| other.state == CheckState::Fail) {
                    if !known.caps.contains(&cap) {
                        known.caps.push(cap);
                    }
                }
            }
        }
    }
    if let Some(samples) = samples {
        checks.retain(|check| check.id != CheckId::Samples);
        checks.push(samples);
    }
    Trust::of(checks, must_know)
}
