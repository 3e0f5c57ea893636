//! A sweep: the curve over the loads that were measured, its knee, where each limit is crossed, and
//! the trade between all users and each of them. Pure: somebody else makes the runs.

mod answer;
mod crossing;
mod fit;
mod front;
mod knee;
mod point;

use measure::Figure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{Load, Metric, Source, Spec, Statistic};

use crate::report::Verdict;
use crate::words::{NBSP, counted, plain};

pub use crossing::{Crossing, CrossingState, crossing};
pub use front::{Trade, front};
pub use knee::{FEWEST, Fit, Knee, KneeState, Located, Rung, knee};
pub use point::{Point, Pooled, Recorded, Repeat, load_of};

/// What varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Users of a closed loop.
    Concurrency,
    /// Arrivals per second of an open loop.
    Rate,
}

impl Over {
    /// What a spec's load varies in.
    pub fn of(spec: &Spec) -> Self {
        match spec.load {
            Load::Closed(_) => Over::Concurrency,
            Load::Open(_) => Over::Rate,
        }
    }

    /// `64 users`, `8.2 requests/s`.
    pub fn words(self, load: f64) -> String {
        match self {
            Over::Concurrency => counted(load.round() as u64, "user"),
            Over::Rate => format!("{}{NBSP}requests/s", plain(load)),
        }
    }
}

/// The order in which the runs were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Drawn from the seed, so that a drift of the server falls on no load more than on another.
    Shuffled,
    /// As the loads were given, one repeat of all of them after the other.
    AsGiven,
}

/// What was asked of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The spec of one of its runs.
    pub spec: Spec,
    /// The seed of the whole, from which each run has its own.
    pub seed: u64,
    /// Every load, in the order given.
    pub loads: Vec<f64>,
    /// Runs of each load.
    pub repeats: u32,
    /// The order in which they were made.
    pub order: Order,
    /// Accelerators behind the server, all alike; `None`: not stated.
    pub accelerators: Option<u32>,
    /// Runs that are missing, by load.
    pub missing: Vec<f64>,
    /// Why runs are missing.
    pub ended: Option<String>,
    /// This tool's version.
    pub tool_version: String,
}

/// A limit and where it is crossed.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitCrossing {
    /// The limit as written; the joint ones with their target.
    pub limit: String,
    /// Where it is crossed.
    pub crossing: Crossing,
    /// The same as a part of a sentence.
    pub words: String,
}

/// The knee as Little's law has it: throughput at the peak × time in the system at the smallest load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Little {
    /// Users with whom a server that serves as fast as its peak, and answers as fast as at the
    /// smallest load, is just busy.
    pub users: f64,
    /// The load at which the latency was taken.
    pub at: f64,
    /// Whether it and the knee differ by more than a factor of 1.5.
    pub differs: bool,
}

/// The whole answer of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepReport {
    /// What was asked.
    pub asked: Asked,
    /// What varies.
    pub over: Over,
    /// Every load that was measured, ascending.
    pub points: Vec<Point>,
    /// The knee of throughput over load.
    pub knee: Knee,
    /// What throughput does, as a part of a sentence.
    pub knee_words: String,
    /// The same by Little's law, where it applies.
    pub little: Option<Little>,
    /// Each limit.
    pub limits: Vec<LimitCrossing>,
    /// Every load in the plane of the trade.
    pub trades: Vec<Trade>,
    /// Those on the front.
    pub front: Vec<Trade>,
    /// The end of it.
    pub verdict: Verdict,
    /// What a reader should know beside it.
    pub notes: Vec<String>,
}

impl SweepReport {
    /// From what was asked and the points that were measured.
    pub fn build(asked: Asked, mut points: Vec<Point>) -> Self {
        points.sort_by(|a, b| a.load.total_cmp(&b.load));
        let over = Over::of(&asked.spec);
        let knee = knee(&rungs(&points));
        let little = little(&asked.spec, &points, &knee);
        let limits = limits(&asked.spec, over, &points);
        let trades = trades(&points, asked.accelerators);
        let front = front(&trades);
        let knee_words = answer::knee_words(over, &knee);
        let verdict = answer::verdict(&asked, &points, &knee_words, &limits);
        let notes = notes(&asked, &points);
        Self { over, knee, knee_words, little, limits, trades, front, verdict, notes, asked, points }
    }
}

/// Loads whose throughput is known.
fn rungs(points: &[Point]) -> Vec<Rung> {
    let rung = |point: &Point| {
        let pooled = point.known()?;
        let throughput = pooled.throughput.ok()?.value;
        (throughput > 0.0).then_some(Rung {
            load: point.load,
            throughput,
            relative_error: pooled.relative_error,
        })
    };
    points.iter().filter_map(rung).collect()
}

/// Little's law at the knee; a closed loop only, since an open one has its knee at the rate itself.
fn little(spec: &Spec, points: &[Point], knee: &Knee) -> Option<Little> {
    let Load::Closed(closed) = &spec.load else { return None };
    let (_, peak) = knee.peak?;
    let (at, latency) = points.iter().find_map(|point| {
        let mean = point.known()?.measures.metrics.get(&Metric::E2e)?.mean.value()?;
        Some((point.load, mean))
    })?;
    let users = peak * (latency + closed.think.0.0 as f64) / 1e9;
    let ratio = knee.at.map_or(1.0, |found| (found.load / users).max(users / found.load));
    Some(Little { users, at, differs: ratio > 1.5 })
}

/// Every limit, the joint one first.
fn limits(spec: &Spec, over: Over, points: &[Point]) -> Vec<LimitCrossing> {
    let slo = &spec.slo;
    let joint = (!slo.joint.is_empty()).then(|| {
        let limits: Vec<&str> = slo.joint.iter().map(|limit| limit.text.as_str()).collect();
        format!("{} for {}", limits.join(" and "), crate::words::percent(slo.attain))
    });
    let names = joint.into_iter().chain(slo.marginal.iter().map(|limit| limit.text.clone()));
    names
        .zip(answer::limit_names(spec))
        .enumerate()
        .map(|(index, (limit, name))| {
            let loads: Vec<_> = points.iter().map(|point| (point.load, point.met(index).0)).collect();
            let crossing = crossing(&loads);
            LimitCrossing { limit, words: answer::crossing_words(&name, &crossing, over), crossing }
        })
        .collect()
}

/// Where both speeds are known.
fn trades(points: &[Point], accelerators: Option<u32>) -> Vec<Trade> {
    let devices = f64::from(accelerators.unwrap_or(1).max(1));
    let trade = |point: &Point| {
        let measures = &point.known()?.measures;
        let per_user = measures.metrics.get(&Metric::UserTps)?.percentile(0.5).and_then(Figure::value)?;
        let together = measures.throughput.output_tokens_per_s.ok()?.value / devices;
        Some(Trade { load: point.load, per_user, together })
    };
    points.iter().filter_map(trade).collect()
}

/// What a reader should know.
fn notes(asked: &Asked, points: &[Point]) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = &asked.ended {
        notes.push(format!("Not every run was made: {why}."));
    }
    if !asked.missing.is_empty() {
        notes.push(format!(
            "{} of {} are missing.",
            asked.missing.len(),
            counted(asked.loads.len() as u64 * u64::from(asked.repeats), "run")
        ));
    }
    let left_out = points.iter().flat_map(|point| &point.repeats).filter(|r| r.left_out.is_some()).count();
    if left_out > 0 {
        notes.push(format!(
            "{} left out of the figures: {}.",
            if left_out == 1 { "1 run is".to_owned() } else { format!("{left_out} runs are") },
            "nothing may be concluded from such a run, or this side or somebody else was in its way"
        ));
    }
    if asked.spec.workload.source != Source::Synthetic {
        notes.push(
            "Prompts come from a data set, so the server has met those of one load at the loads before: \
             where it keeps a prefix cache, only the first load was cold."
                .to_owned(),
        );
    }
    if asked.accelerators.is_none() {
        notes.push(
            "How many accelerators serve is not stated (--accelerators): throughput is that of the whole server."
                .to_owned(),
        );
    }
    let relied = |p: &Statistic| matches!(p, Statistic::Percentile(_));
    if asked.repeats < 3 && asked.spec.slo.marginal.iter().any(|limit| relied(&limit.statistic)) {
        notes.push(
            "With fewer than three runs of a load the noise from run to run is not seen (--repeats 3)."
                .to_owned(),
        );
    }
    notes
}
