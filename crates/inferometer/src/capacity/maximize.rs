//! A maximisation: what flags ask of it, and the knobs of its probes.

use anyhow::{Result, anyhow};
use decide::capacity::{Runner, Settings};
use decide::maximize::{Goal, Told, maximize};
use spec::{Dial, Draft, Knob, Lengths, Objective, ParseError, Source, Spec, Turn};

use super::Searched;
use super::kept::Maximize;
use crate::cli::CapacityArgs;
use crate::failure::Failure;

/// Searches for the most of a throughput within the limits. `told` hears of it as it goes on.
pub fn find(
    wanted: &Maximize,
    settings: &Settings,
    runner: &mut dyn Runner,
    told: &mut dyn FnMut(Told<'_>),
) -> Searched {
    let goal = Goal { objective: wanted.objective, knobs: wanted.knobs.clone() };
    let outcome = maximize(settings, &goal, runner, told);
    Searched { answers: vec![outcome.answer(settings.over)], maximum: Some(outcome.maximum) }
}

/// What flags ask to be maximised; `None`: nothing.
pub fn asked(args: &CapacityArgs, spec: &Spec) -> Result<Option<Maximize>> {
    let Some(text) = &args.maximize.maximize else { return Ok(None) };
    for (given, flag) in [(!args.load.tier.is_empty(), "--tier"), (args.load.sensitivity, "--sensitivity")] {
        if given {
            return Err(Failure::request(anyhow!(
                "--maximize asks for one best load, {flag} for several answers\nhint: give one of them, and ask again for the other"
            ))
            .into());
        }
    }
    let wrong = |flag: &str, error: ParseError| {
        let hint = error.hint.map_or(String::new(), |hint| format!("\nhint: {hint}"));
        Failure::request(anyhow!("{flag}: {}{hint}", error.message))
    };
    let objective: Objective = text.parse().map_err(|error| wrong("--maximize", error))?;
    let has_limits = !(spec.slo.joint.is_empty() && spec.slo.marginal.is_empty());
    if objective == Objective::Goodput && !has_limits {
        return Err(Failure::request(anyhow!(
            "goodput is what ends within the limits, and there is none\nhint: --subject-to 'p95(ttft)<=500ms'"
        ))
        .into());
    }
    let mut knobs: Vec<Knob> = Vec::new();
    for text in &args.maximize.knob {
        let knob: Knob = text.parse().map_err(|error| wrong("--knob", error))?;
        check(&knob, &knobs, args, spec)?;
        knobs.push(knob);
    }
    let lowest = knobs.iter().map(|knob| Turn { dial: knob.dial, value: knob.values.ends().0 });
    let highest = knobs.iter().map(|knob| Turn { dial: knob.dial, value: knob.values.ends().1 });
    for setting in [lowest.collect::<Vec<_>>(), highest.collect()] {
        can_be_asked(&turned(&spec.redacted(), &setting))?;
    }
    Ok(Some(Maximize { objective, knobs }))
}

/// Whether a spec with its knobs turned is one that could have been asked for.
fn can_be_asked(spec: &Spec) -> Result<()> {
    let draft = Draft::from_json(&serde_json::to_value(spec)?);
    draft.and_then(Draft::resolve).map_err(|errors| Failure::wrong_request(&errors))?;
    Ok(())
}

/// Whether a knob can be turned beside those before it.
fn check(knob: &Knob, before: &[Knob], args: &CapacityArgs, spec: &Spec) -> Result<()> {
    let name = knob.dial.name();
    if before.iter().any(|other| other.dial == knob.dial) {
        return Err(Failure::request(anyhow!(
            "--knob {name} is given twice\nhint: one range or list holds all of its values: --knob {name}=128..2048"
        ))
        .into());
    }
    let workload = &args.settings.workload;
    let fixed = match knob.dial {
        Dial::Isl => &workload.isl,
        Dial::Osl => &workload.osl,
    };
    if let Some(value) = fixed {
        return Err(Failure::request(anyhow!(
            "--{name} {value} sets what --knob {knob} is to search\nhint: give one of them"
        ))
        .into());
    }
    if knob.dial == Dial::Isl && spec.workload.source != Source::Synthetic {
        return Err(Failure::request(anyhow!(
            "the prompts of a data set have lengths of their own\nhint: --knob osl=64..512, or made-up prompts without --data"
        ))
        .into());
    }
    Ok(())
}

/// The spec with its knobs turned.
pub fn turned(spec: &Spec, setting: &[Turn]) -> Spec {
    let mut spec = spec.clone();
    for turn in setting {
        let lengths = Lengths::Fixed(turn.value);
        match turn.dial {
            Dial::Isl => spec.workload.isl = lengths,
            Dial::Osl => spec.workload.osl = lengths,
        }
    }
    spec
}

/// The flags that ask for it again.
pub fn flags(maximize: &Maximize) -> String {
    let knobs = maximize.knobs.iter().map(|knob| format!(" --knob {knob}"));
    format!(" --maximize {}{}", maximize.objective, knobs.collect::<String>())
}
