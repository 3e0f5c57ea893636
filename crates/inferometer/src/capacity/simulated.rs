//! Probes in virtual time: a simulated engine as fast as the processor allows.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::{Result, anyhow};
use decide::capacity::{Ask, Finished, Halt, Happened, Look, Next, Runner, Simulated, VirtualRunner, What};
use plan::{Intent, Plan};
use sim::{Emission, Engine, Event, Job, SimConfig};
use spec::{Nanos, Spec, Target, Turn};

use super::maximize::turned;
use crate::failure::Failure;

/// An engine of `sim` as the search sees it.
struct OfSim {
    engine: Box<dyn Engine>,
    buffer: Vec<Emission>,
}

impl Simulated for OfSim {
    fn submit(&mut self, now: Nanos, input_tokens: u32, output_tokens: u32) -> u64 {
        self.engine.submit(now, Job::new(input_tokens, output_tokens)).0
    }
    fn next_event(&self) -> Option<Nanos> {
        self.engine.next_event()
    }
    fn advance(&mut self, to: Nanos, out: &mut Vec<Happened>) {
        self.buffer.clear();
        self.engine.advance(to, &mut self.buffer);
        out.extend(self.buffer.iter().filter_map(|emission| {
            let what = match emission.event {
                Event::Started { .. } => return None,
                Event::Tokens(n) => What::Tokens(n),
                Event::Finished => What::Finished,
                Event::Rejected(_) => What::Refused,
            };
            Some(Happened { request: emission.job.0, at: emission.at, what })
        }));
    }
}

/// The lengths of a plan, request after request, of one seed after the other.
struct LengthsOf {
    spec: Spec,
    drawn: Option<(u64, Box<dyn Iterator<Item = Intent>>)>,
}

impl LengthsOf {
    fn next(&mut self, seed: u64) -> (u32, u32) {
        if self.drawn.as_ref().is_none_or(|(of, _)| *of != seed) {
            let spec = Spec { seed, ..self.spec.clone() };
            let intents = Plan::new(&spec).ok().and_then(|plan| plan.closed_intents());
            self.drawn = intents.map(|intents| (seed, Box::new(intents) as Box<dyn Iterator<Item = Intent>>));
        }
        let intent = self.drawn.as_mut().and_then(|(_, intents)| intents.next());
        // Both lengths are numbers: `runner` has looked.
        intent.map_or((1, 1), |i| (i.isl.unwrap_or(1), i.osl.unwrap_or(1)))
    }
}

/// Probes of the simulated engine that the spec names.
pub fn runner(spec: &Spec) -> anyhow::Result<impl Runner> {
    let Target::Sim(target) = spec.target.first() else {
        return Err(Failure::request(anyhow!(
            "only a simulated engine runs in virtual time\nhint: inferometer capacity sim://llama-3.1-8b@h100 --virtual …"
        ))
        .into());
    };
    let config = SimConfig::from_target(target).map_err(Failure::request)?;
    let plan = Plan::new(spec).map_err(Failure::request)?;
    let first = plan.closed_intents().and_then(|mut intents| intents.next());
    if first.is_none_or(|intent| intent.isl.is_none() || intent.osl.is_none()) {
        return Err(Failure::request(anyhow!(
            "virtual time has no prompts to read lengths from\nhint: give --isl and --osl"
        ))
        .into());
    }
    let lengths = Rc::new(RefCell::new(LengthsOf { spec: spec.clone(), drawn: None }));
    let drawn = Rc::clone(&lengths);
    let runner = VirtualRunner::new(
        move |_, _| {
            Box::new(OfSim { engine: config.engine.build(), buffer: Vec::new() }) as Box<dyn Simulated>
        },
        move |seed, _| drawn.borrow_mut().next(seed),
    );
    Ok(Tuned { runner, lengths, asked: spec.clone() })
}

/// A runner whose lengths the knobs set.
struct Tuned<R> {
    runner: R,
    lengths: Rc<RefCell<LengthsOf>>,
    asked: Spec,
}

impl<R: Runner> Runner for Tuned<R> {
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        self.runner.probe(ask, look)
    }

    fn turn(&mut self, setting: &[Turn]) -> Result<(), Halt> {
        *self.lengths.borrow_mut() = LengthsOf { spec: turned(&self.asked, setting), drawn: None };
        Ok(())
    }
}
