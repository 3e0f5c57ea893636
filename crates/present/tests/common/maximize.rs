//! Maximisations over a simulated server, made in virtual time.

use decide::capacity::{
    Ask, Criterion, Finished, Halt, Look, Next, Over, Runner, Settings, Simulated, VirtualRunner,
};
use decide::json::CapacityDocument;
use decide::maximize::{Goal, maximize};
use record::Environment;
use spec::{Dial, Nanos, Slo, Turn};

use super::capacity::{Batching, latencies, over_rate};
use super::open;

/// The server of the searches, with an output length that can be set.
struct Tunable(u32);

impl Runner for Tunable {
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        let output = self.0;
        let server = |_, _| Box::<Batching>::default() as Box<dyn Simulated>;
        VirtualRunner::new(server, |_, _| (1024, output)).probe(ask, look)
    }
    fn turn(&mut self, setting: &[Turn]) -> Result<(), Halt> {
        let output = setting.iter().find(|turn| turn.dial == Dial::Osl);
        self.0 = output.map_or(48, |turn| turn.value);
        Ok(())
    }
}

fn document(over: Over, slo: Slo, max_load: Option<f64>, knobs: &[&str]) -> CapacityDocument {
    let criteria =
        if slo.marginal.is_empty() { Vec::new() } else { Criterion::of(&slo, Nanos::from_secs(60)).unwrap() };
    let settings = Settings { max_load, ..Settings::new(over, criteria, 7) };
    let goal = Goal {
        objective: "output_token_throughput".parse().unwrap(),
        knobs: knobs.iter().map(|knob| knob.parse().unwrap()).collect(),
    };
    let outcome = maximize(&settings, &goal, &mut Tunable(48), &mut |_| {});
    let mut spec = super::spec(open(1.0));
    spec.slo = slo;
    let environment = Environment {
        started: "2026-11-30T10:15:00Z".to_owned(),
        tool_version: "0.1.0".to_owned(),
        ..Environment::default()
    };
    CapacityDocument::new(&outcome.answer(over), None, &spec, &environment).with_maximum(outcome.maximum)
}

/// A limit binds.
pub fn limited() -> CapacityDocument {
    document(over_rate(), latencies(250.0, 40.0), None, &[])
}

/// No limits: more users give no more.
pub fn level() -> CapacityDocument {
    document(Over::Concurrency, Slo::default(), None, &[])
}

/// A survey over the output length.
pub fn surveyed() -> CapacityDocument {
    document(Over::Concurrency, latencies(2000.0, 30.0), None, &["osl=8..128"])
}

/// Three lengths, one by one, as far as eight users.
pub fn listed() -> CapacityDocument {
    document(Over::Concurrency, latencies(2000.0, 30.0), Some(8.0), &["osl=8,32,128"])
}

/// Every one with its name.
pub fn all() -> Vec<(&'static str, CapacityDocument)> {
    vec![
        ("maximize-limited", limited()),
        ("maximize-level", level()),
        ("maximize-surveyed", surveyed()),
        ("maximize-listed", listed()),
    ]
}
