//! Speed and quality in one answer: a load counts as held if the server is still the same model there.

use quality::gate::Report;
use quality::stats::Decision;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::capacity::{CapacityAnswer, ProbeVerdict};
use crate::words::{count, counted};

/// Questions in flight at most; the rest of the load is that of the search.
const MOST_QUESTIONS: u32 = 4;

/// How the requests in flight at a load are shared between the questions and the load beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InFlight {
    /// Questions of the suite.
    pub questions: u32,
    /// Requests as the search sends them, each user one after another without a pause; 0: there is none beside the
    /// questions.
    pub beside: u32,
}

impl InFlight {
    /// At the load of an answer: as many as it held there, half of them questions and at most four. `None`: no load is
    /// held, or what was in flight is not known.
    pub fn at(answer: &CapacityAnswer) -> Option<Self> {
        let load = answer.value.or(answer.low).filter(|load| *load > 0.0)?;
        let in_flight = if answer.over == "concurrency" {
            Some(load.floor())
        } else {
            nearest(answer, load).map(f64::round)
        };
        // More than a client holds would be no load of ours.
        let all = in_flight.filter(|n| n.is_finite())?.clamp(1.0, f64::from(u16::MAX)) as u32;
        let questions = (all / 2).clamp(1, MOST_QUESTIONS);
        Some(Self { questions, beside: all - questions })
    }
    /// All of them.
    pub fn all(self) -> u32 {
        self.questions + self.beside
    }
}

/// Mean requests in flight of the probe nearest to a load.
fn nearest(answer: &CapacityAnswer, load: f64) -> Option<f64> {
    let speaks = |verdict: &ProbeVerdict| {
        !matches!(verdict, ProbeVerdict::ClientLimited { .. } | ProbeVerdict::Divergent)
    };
    let probes = answer.probes.iter().filter(|probe| speaks(&probe.verdict) && probe.load > 0.0);
    let known = probes.filter_map(|probe| Some(((probe.load / load).ln().abs(), probe.measured.in_flight?)));
    known.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, in_flight)| in_flight)
}

/// What became of the load beside the questions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Beside {
    /// Requests that ended well.
    pub ok: u64,
    /// Requests that did not; those that were cut when the questions were over are neither.
    pub failed: u64,
    /// Its run folder, within that of the search.
    pub folder: String,
}

/// A baseline's questions, asked again at the load of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtLoad {
    /// What was in flight meanwhile.
    pub in_flight: InFlight,
    /// The load beside the questions; `null`: the questions were the load.
    pub beside: Option<Beside>,
    /// Both sets of answers, compared.
    pub report: Report,
}

/// Of a load with fewer requests than this share ended well, nothing is known.
const LEAST_OK: f64 = 0.9;

impl AtLoad {
    /// Why the load was not what it should have been.
    fn no_load(&self) -> Option<String> {
        let beside = self.beside.as_ref().filter(|_| self.in_flight.beside > 0)?;
        let all = beside.ok + beside.failed;
        let share = if all == 0 { 0.0 } else { beside.ok as f64 / all as f64 };
        (share < LEAST_OK).then(|| {
            format!("of {} beside the questions {} ended well", counted(all, "request"), count(beside.ok))
        })
    }
}

/// Is it still the same model at this load?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quality {
    /// Folder of the baseline.
    pub base: String,
    /// Suite of its questions.
    pub suite: String,
    /// The questions at the load; `null`: they were not asked, `why` says why.
    pub at_load: Option<AtLoad>,
    /// Why they were not asked, or not to the end; `null`: they were.
    pub why: Option<String>,
}

impl Quality {
    /// PASS, FAIL or INCONCLUSIVE; `None`: there was no load to ask at. A worse model is worse at a lower load, too; an
    /// equal one was equal only if the load was there.
    pub fn verdict(&self) -> Option<Decision> {
        let Some(at_load) = &self.at_load else {
            return self.why.is_some().then_some(Decision::Inconclusive);
        };
        match at_load.report.verdict {
            Decision::Pass if at_load.no_load().is_some() => Some(Decision::Inconclusive),
            verdict => Some(verdict),
        }
    }

    /// Why there is no PASS; `None`: there is one.
    pub fn reason(&self) -> Option<String> {
        let Some(at_load) = &self.at_load else {
            return Some(self.why.clone().unwrap_or_else(|| "no load is known to be held".to_owned()));
        };
        match at_load.report.verdict {
            Decision::Pass => at_load.no_load(),
            Decision::Fail => Some("at this load the server is not the same model".to_owned()),
            Decision::Inconclusive => Some("whether it is the same model is not decided".to_owned()),
        }
    }

    /// What follows the sentence of the search.
    pub fn words(&self) -> String {
        let base = &self.base;
        let Some(verdict) = self.verdict() else {
            return format!("quality: not asked against {base}, since no load is known to be held");
        };
        let mut text = format!("quality at this load: {} against {base}", verdict.word());
        if let Some(at_load) = &self.at_load {
            text.push_str(&format!(
                " ({}, {} in flight, {} of them questions)",
                counted(at_load.report.pairing.base, "document"),
                count(u64::from(at_load.in_flight.all())),
                count(u64::from(at_load.in_flight.questions))
            ));
        }
        let unknown = verdict == Decision::Inconclusive;
        let why = self.why.clone().or_else(|| self.at_load.as_ref().and_then(AtLoad::no_load));
        text.extend(why.filter(|_| unknown).map(|why| format!(", {why}")));
        if verdict != Decision::Pass {
            text.push_str(", so no qualified goodput");
        }
        text
    }
}
