//! The whole: the load at each setting where settings are few, else a survey and the load at its best.

use spec::{Dial, Knob, Objective, Turn};

use super::answer::{AtSetting, KnobRange, Maximum};
use super::bench::{Bench, Told};
use super::load::{AtLoad, best};
use super::space::all;
use super::survey::survey;
use super::words;
use crate::capacity::{CapacityAnswer, Over, Runner, Settings, Verdict};

/// So many settings are searched one after the other.
const FEW: usize = 3;

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// Most of this.
    pub objective: Objective,
    /// Over these knobs beside the load; each dial once.
    pub knobs: Vec<Knob>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The most.
    pub maximum: Maximum,
    /// The search for the limits at the best setting; `None`: there are no limits.
    pub capacity: Option<CapacityAnswer>,
}

impl Outcome {
    /// The search for the limits; without limits the best load in its place.
    pub fn answer(&self, over: Over) -> CapacityAnswer {
        let best = self.maximum.best.as_ref();
        self.capacity.clone().unwrap_or_else(|| CapacityAnswer {
            over: over.name().to_owned(),
            value: best.and_then(|b| b.load),
            low: best.and_then(|b| b.low),
            high: best.and_then(|b| b.high),
            confidence: 0.95,
            verdict: self.maximum.verdict,
            limited_by: None,
            goodput_per_s: None,
            sentence: self.maximum.sentence.clone(),
            needs: None,
            notes: Vec::new(),
            requests: self.maximum.requests,
            duration_ns: self.maximum.duration_ns,
            unloaded_ttft_ns: None,
            ramp: Vec::new(),
            curves: Vec::new(),
            probes: Vec::new(),
        })
    }
}

/// Finds the most of a throughput under the limits of `settings`, of which there may be none.
pub fn maximize(
    settings: &Settings,
    goal: &Goal,
    runner: &mut dyn Runner,
    told: &mut dyn FnMut(Told<'_>),
) -> Outcome {
    let mut bench = Bench::new(settings, goal.objective, runner, told);
    let mut notes = Vec::new();
    let (mut surveyed, mut knobs) = (Vec::new(), Vec::new());
    let settings_of_knobs = match all(&goal.knobs, FEW) {
        Some(list) => list,
        None => {
            let survey = survey(&mut bench, &goal.knobs);
            notes.extend(survey.halted.map(|halt| halt.to_string()));
            (surveyed, knobs) = (survey.surveyed, survey.knobs);
            if survey.setting.is_none() && bench.halted.is_none() {
                notes
                    .push("the survey tells no setting from another: too little of it ended well".to_owned());
            }
            survey.setting.into_iter().collect()
        }
    };
    let mut found: Vec<AtLoad> = Vec::new();
    for setting in &settings_of_knobs {
        if bench.halted.is_some() || bench.set(setting).is_err() {
            break;
        }
        if !setting.is_empty() {
            bench.tell(Told::Setting(setting));
        }
        found.push(best(&mut bench));
    }
    let is_whole = found.len() == settings_of_knobs.len() && bench.halted.is_none();
    let at: Vec<AtSetting> = found.iter().map(|f| f.at.clone()).collect();
    let chosen = choose(&at);
    if let (Some(i), true) = (chosen, knobs.is_empty()) {
        knobs = ranges(&at, &at[i]);
    }
    notes.extend(words::at_ends(&goal.knobs, &knobs));
    let verdict = match chosen {
        Some(i) if is_whole => at[i].verdict,
        None if is_whole && !at.is_empty() && at.iter().all(|a| a.verdict == at[0].verdict) => at[0].verdict,
        _ => Verdict::Unresolved,
    };
    let mut points = Vec::new();
    let mut capacity = None;
    if let Some(kept) = chosen.or(found.len().checked_sub(1)).and_then(|i| found.into_iter().nth(i)) {
        notes.extend(kept.notes);
        notes.extend(words::beside(settings, kept.capacity.as_ref(), &kept.at));
        notes.extend(words::unknown(goal.objective, &kept.at));
        (points, capacity) = (kept.points, kept.capacity);
    }
    let halted = bench.halted.as_ref().map(ToString::to_string);
    notes.extend(
        halted.filter(|why| !notes.contains(why) && capacity.as_ref().is_none_or(|c| !c.notes.contains(why))),
    );
    let mut maximum = Maximum {
        objective: goal.objective,
        unit: goal.objective.unit().to_owned(),
        verdict,
        sentence: String::new(),
        best: chosen.map(|i| at[i].clone()),
        knobs,
        settings: at,
        points,
        survey: surveyed,
        notes,
        requests: bench.requests,
        duration_ns: bench.time.0,
    };
    maximum.sentence = words::sentence(settings, &maximum);
    Outcome { maximum, capacity }
}

/// The setting with the largest throughput.
fn choose(at: &[AtSetting]) -> Option<usize> {
    let value = |i: &usize| at[*i].per_s.unwrap_or(f64::NEG_INFINITY);
    (0..at.len()).filter(|i| at[*i].load.is_some()).max_by(|a, b| value(a).total_cmp(&value(b)))
}

/// Of settings that were searched one by one: which values may be as good as the best.
fn ranges(at: &[AtSetting], best: &AtSetting) -> Vec<KnobRange> {
    let may_be_as_good = |other: &&AtSetting| match (other.per_s_high, best.per_s_low) {
        (Some(high), Some(low)) => high >= low,
        // What is not known cannot be told apart, but a setting that holds at no load is none.
        _ => other.verdict != Verdict::Unmet,
    };
    let rivals: Vec<&AtSetting> = at.iter().filter(may_be_as_good).collect();
    let value = |setting: &[Turn], dial: Dial| setting.iter().find(|t| t.dial == dial).map(|t| t.value);
    best.setting
        .iter()
        .map(|turn| {
            let values = || rivals.iter().filter_map(|r| value(&r.setting, turn.dial)).chain([turn.value]);
            let (low, high) = (values().min().unwrap_or(turn.value), values().max().unwrap_or(turn.value));
            KnobRange { dial: turn.dial, value: turn.value, low, high }
        })
        .collect()
}
