//! Maximisation against servers whose best load and setting are known.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod servers;

use decide::capacity::{
    Ask, Criterion, Finished, Halt, Look, Next, Over, ProbeTrust, Recorded, Replay, Runner, Settings,
    Simulated, Verdict, VirtualRunner,
};
use decide::json::CapacityDocument;
use decide::maximize::{Binds, Goal, Maximum, Outcome, maximize};
use servers::{Delay, Queue};
use spec::{Burstiness, Dial, Nanos, Slo, Turn};

/// A simulated server whose lengths the knobs set, and which remembers its probes.
struct Tunable {
    server: fn(u64) -> Box<dyn Simulated>,
    lengths: (u32, u32),
    recorded: Vec<Recorded>,
}

impl Tunable {
    fn new(server: fn(u64) -> Box<dyn Simulated>) -> Self {
        Self { server, lengths: (100, 100), recorded: Vec::new() }
    }
}

impl Runner for Tunable {
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        let (server, lengths) = (self.server, self.lengths);
        let finished = VirtualRunner::new(|seed, _| server(seed), move |_, _| lengths).probe(ask, look)?;
        self.recorded.push(Recorded { ask: ask.clone(), finished: finished.clone() });
        Ok(finished)
    }
    fn turn(&mut self, setting: &[Turn]) -> Result<(), Halt> {
        let (mut input, mut output) = (100, 100);
        for turn in setting {
            match turn.dial {
                Dial::Isl => input = turn.value,
                Dial::Osl => output = turn.value,
            }
        }
        self.lengths = (input, output);
        Ok(())
    }
}

fn settings(over: Over, limits: &[&str], seed: u64) -> Settings {
    let slo = Slo { marginal: limits.iter().map(|l| l.parse().unwrap()).collect(), ..Slo::default() };
    let criteria =
        if limits.is_empty() { Vec::new() } else { Criterion::of(&slo, Nanos::from_secs(300)).unwrap() };
    Settings::new(over, criteria, seed)
}

fn goal(objective: &str, knobs: &[&str]) -> Goal {
    Goal { objective: objective.parse().unwrap(), knobs: knobs.iter().map(|k| k.parse().unwrap()).collect() }
}

fn poisson() -> Over {
    Over::Rate { burstiness: Burstiness::POISSON }
}

fn found(settings: &Settings, goal: &Goal, server: fn(u64) -> Box<dyn Simulated>) -> Outcome {
    maximize(settings, goal, &mut Tunable::new(server), &mut |_| {})
}

/// One second each up to 32 in flight, from there on slower with the square: 32 requests a second at
/// most, and 16 at 64. Sixty seconds are reached at 248.
fn thrashing(seed: u64) -> Box<dyn Simulated> {
    Delay::boxed(seed, |met| {
        let crowd = f64::from(met.others + 1) / 32.0;
        crowd.max(1.0).powi(2) * (0.05 * met.luck).exp()
    })
}

#[test]
fn a_peak_below_the_capacity_is_the_answer() {
    for seed in 0..5 {
        let settings = settings(Over::Concurrency, &["p95(e2e)<=60s"], seed);
        let outcome = found(&settings, &goal("request_throughput", &[]), thrashing);
        let best = outcome.maximum.best.clone().unwrap();
        let said = &outcome.maximum.sentence;
        assert_eq!((best.binds, outcome.maximum.verdict), (Some(Binds::Peak), Verdict::Resolved), "{said}");
        assert!(best.low.unwrap() <= 32.0 && 32.0 <= best.high.unwrap(), "{said}");
        assert!(best.high.unwrap() / best.low.unwrap() < 1.6, "{said}");
        assert!((best.per_s.unwrap() / 32.0 - 1.0).abs() < 0.08, "{said}");
        assert!(best.per_s_low < best.per_s && best.per_s < best.per_s_high);
        // The capacity is far beyond it, and told beside it.
        let held = outcome.capacity.unwrap().value.unwrap();
        assert!((200.0..260.0).contains(&held), "{held}");
        assert!(
            outcome.maximum.notes.iter().any(|n| n.contains("hold further")),
            "{:?}",
            outcome.maximum.notes
        );
    }
}

/// Half a second and 50 ms for each in flight: throughput only rises. Nineteen of twenty answer within
/// 2 s while (0.5 + 0.05 (c − 1)) e^(1.645 · 0.05) ≤ 2, up to c = 27.8.
fn rising(seed: u64) -> Box<dyn Simulated> {
    Delay::boxed(seed, |met| (0.5 + 0.05 * f64::from(met.others)) * (0.05 * met.luck).exp())
}

#[test]
fn where_a_limit_binds_first_the_answer_is_the_capacity() {
    for seed in 0..5 {
        let settings = settings(Over::Concurrency, &["p95(e2e)<=2s"], seed);
        let outcome = found(&settings, &goal("output_token_throughput", &[]), rising);
        let (best, capacity) = (outcome.maximum.best.unwrap(), outcome.capacity.unwrap());
        assert_eq!((best.load, best.low, best.high), (capacity.value, capacity.low, capacity.high));
        assert_eq!(best.binds, Some(Binds::Limit), "{}", outcome.maximum.sentence);
        assert_eq!(best.limited_by.as_deref(), Some("p95(e2e)<=2s"));
        let load = best.load.unwrap();
        assert!(best.low.unwrap() <= 28.0 && best.high.unwrap() >= 27.0, "{load}");
        // 100 tokens each: c / (0.5 + 0.05 (c − 1)) requests a second.
        let truth = 100.0 * load / (0.5 + 0.05 * (load - 1.0));
        let (low, high) = (best.per_s_low.unwrap(), best.per_s_high.unwrap());
        assert!(low <= truth * 1.01 && truth * 0.99 <= high && high / low < 1.15, "{truth}: {low}–{high}");
    }
}

/// M/D/1 with 20 ms: up to 42.43 requests a second wait less than 200 ms in nineteen of twenty.
fn queue(_: u64) -> Box<dyn Simulated> {
    Queue::boxed(|_, _| 0.02)
}

#[test]
fn over_rates_the_throughput_is_that_of_the_capacity() {
    let settings = settings(poisson(), &["p95(ttft)<=200ms"], 3);
    let outcome = found(&settings, &goal("output_token_throughput", &[]), queue);
    let best = outcome.maximum.best.unwrap();
    assert!(best.low.unwrap() <= 42.43 && 42.43 <= best.high.unwrap(), "{}", outcome.maximum.sentence);
    let wanted = 100.0 * best.load.unwrap();
    assert!((best.per_s.unwrap() / wanted - 1.0).abs() < 0.03, "{}", outcome.maximum.sentence);
    assert!(best.per_s_low.unwrap() < wanted && wanted < best.per_s_high.unwrap());
}

#[test]
fn without_limits_the_peak_the_level_or_a_lower_bound_is_told() {
    let whole = |over, server, seed, most| {
        let settings = Settings { max_load: most, ..settings(over, &[], seed) };
        let outcome = found(&settings, &goal("request_throughput", &[]), server);
        assert!(outcome.capacity.is_none());
        outcome.maximum
    };
    for seed in 0..3 {
        let peak = whole(Over::Concurrency, thrashing, seed, None);
        let best = peak.best.unwrap();
        assert_eq!((best.binds, peak.verdict), (Some(Binds::Peak), Verdict::Resolved), "{}", peak.sentence);
        assert!(best.low.unwrap() <= 32.0 && 32.0 <= best.high.unwrap(), "{}", peak.sentence);
        // 50 requests a second and no more, whatever is offered.
        let level = whole(poisson(), queue, seed, None);
        let best = level.best.unwrap();
        assert_eq!(
            (best.binds, level.verdict),
            (Some(Binds::Level), Verdict::Resolved),
            "{}",
            level.sentence
        );
        assert!(best.low.unwrap() < 50.0 && 45.0 < best.high.unwrap(), "{}", level.sentence);
        assert!((best.per_s.unwrap() / 50.0 - 1.0).abs() < 0.06, "{}", level.sentence);
    }
    let bound = whole(Over::Concurrency, rising, 1, Some(6.0));
    assert_eq!(bound.best.as_ref().unwrap().binds, Some(Binds::LargestLoad), "{}", bound.sentence);
    assert_eq!((bound.verdict, bound.best.unwrap().load), (Verdict::NotReached, Some(6.0)));
    assert!(bound.sentence.contains("at least"), "{}", bound.sentence);
}

#[test]
fn limits_that_hold_nowhere_leave_no_throughput() {
    let settings = settings(Over::Concurrency, &["p95(e2e)<=100ms"], 1);
    let outcome = found(&settings, &goal("goodput", &[]), rising);
    assert_eq!(outcome.maximum.verdict, Verdict::Unmet);
    assert!(outcome.maximum.best.is_none() && outcome.maximum.sentence.contains("does not hold"));
}

/// (0.5 s + osl · 2.5 ms) (1 + c/100) with 10 % spread; nineteen of twenty within 2 s. Up to
/// c = 100 (X / s − 1) with s = 0.5 + 0.0025 osl and X = 2 e^(−0.1645) = 1.697, and tokens/s =
/// c · osl / mean time. That is most at s = √(0.5 X) = 0.921, osl = 168, c = 84: 8,300 tokens/s.
fn surface(seed: u64) -> Box<dyn Simulated> {
    Delay::boxed(seed, |met| {
        (0.5 + 0.0025 * met.output) * (1.0 + f64::from(met.others) / 100.0) * (0.1 * met.luck).exp()
    })
}

/// Tokens per second of `surface` at its capacity.
fn of_surface(output: f64) -> f64 {
    let held = 2.0 * (-0.1645_f64).exp();
    let users = 100.0 * (held / (0.5 + 0.0025 * output) - 1.0) + 1.0;
    users * output / (held * (0.1_f64.powi(2) / 2.0).exp())
}

#[test]
fn two_knobs_find_the_best_of_a_known_surface() {
    let (mut held, mut in_range) = (0, 0);
    let best_of_all = (16..=512).map(|n| of_surface(f64::from(n))).fold(0.0, f64::max);
    for seed in 0..20 {
        // Other seeds than those that the constants were chosen with.
        let settings = settings(Over::Concurrency, &["p95(e2e)<=2s"], 7_000 + seed);
        let outcome = found(&settings, &goal("output_token_throughput", &["osl=16..512"]), surface);
        let (maximum, said) = (&outcome.maximum, &outcome.maximum.sentence);
        let best = maximum.best.as_ref().unwrap();
        let output = f64::from(best.setting[0].value);
        let users = 100.0 * (2.0 * (-0.1645_f64).exp() / (0.5 + 0.0025 * output) - 1.0) + 1.0;
        held += u32::from(best.low.unwrap() <= users + 0.5 && users - 0.5 <= best.high.unwrap());
        assert!(of_surface(output) > 0.96 * best_of_all, "seed {seed}: {said}");
        assert!((best.per_s.unwrap() / best_of_all - 1.0).abs() < 0.05, "seed {seed}: {said}");
        let knob = maximum.knobs[0];
        assert!(knob.low <= knob.value && knob.value <= knob.high);
        in_range += u32::from(knob.low <= 168 && 168 <= knob.high);
        assert!(maximum.survey.len() >= 6 && maximum.survey.len() <= 18, "{}", maximum.survey.len());
    }
    // 95 % are meant to hold: fewer than 17 of 20 is what a right method comes to in 1 of 60 tries.
    assert!(held >= 17, "{held} of 20 brackets hold the truth");
    assert!(in_range >= 17, "{in_range} of 20 ranges hold the best length");
}

/// What a survey asked for is asked again, probe by probe, and a folder of recorded probes gives the
/// same answer; with other knobs it is another search.
#[test]
fn a_survey_is_replayed_from_its_recorded_probes() {
    let settings = settings(Over::Concurrency, &["p95(e2e)<=2s"], 7);
    let knobs = goal("output_token_throughput", &["osl=16..512"]);
    let mut live = Tunable::new(surface);
    let first = maximize(&settings, &knobs, &mut live, &mut |_| {});
    let mut replay = Replay::new(live.recorded.clone(), None);
    assert_eq!(maximize(&settings, &knobs, &mut replay, &mut |_| {}), first);
    // Half of it goes on live and comes to the same.
    let half = live.recorded[..live.recorded.len() / 2].to_vec();
    let mut rest = Tunable::new(surface);
    let outcome = maximize(&settings, &knobs, &mut Replay::new(half.clone(), Some(&mut rest)), &mut |_| {});
    assert_eq!(outcome, first);
    // Alone it says that it is not all.
    let cut = maximize(&settings, &knobs, &mut Replay::new(half.clone(), None), &mut |_| {});
    assert_eq!(cut.maximum.verdict, Verdict::Unresolved);
    let other = goal("output_token_throughput", &["osl=16..500"]);
    let refused = maximize(&settings, &other, &mut Replay::new(half, None), &mut |_| {});
    assert!(
        refused.maximum.notes.iter().any(|n| n.contains("another search")),
        "{:?}",
        refused.maximum.notes
    );
}

/// Over rates: one server, first come first served, with a service of 10 ms + 0.05 ms of each output
/// token squared over 100: most tokens a second where both parts are alike, at 141.
fn served(_: u64) -> Box<dyn Simulated> {
    Queue::boxed(|_, output| 0.01 + 0.000_05 * output * output / 100.0)
}

/// Tokens per second of `served` when it is never idle.
fn of_served(output: f64) -> f64 {
    output / (0.01 + 0.000_05 * output * output / 100.0)
}

#[test]
fn two_knobs_over_rates_find_the_best_length() {
    for seed in 0..4 {
        // Loose against the service, so that nearly all of the ceiling is held at any length.
        let settings = settings(poisson(), &["p95(e2e)<=500ms"], 40 + seed);
        let outcome = found(&settings, &goal("output_token_throughput", &["osl=16..1000"]), served);
        let best = outcome.maximum.best.clone().unwrap();
        let output = f64::from(best.setting[0].value);
        assert!(of_served(output) > 0.93 * of_served(141.0), "{}", outcome.maximum.sentence);
        let share = best.per_s.unwrap() / of_served(141.0);
        assert!((0.8..1.0).contains(&share), "{share}: {}", outcome.maximum.sentence);
    }
}

/// Three lengths of a list are searched one by one, without a survey.
#[test]
fn few_settings_are_searched_one_by_one() {
    let settings = settings(Over::Concurrency, &["p95(e2e)<=2s"], 5);
    let outcome = found(&settings, &goal("output_token_throughput", &["osl=32,168,800"]), surface);
    let maximum = outcome.maximum;
    assert!(maximum.survey.is_empty() && maximum.settings.len() == 3);
    let best = maximum.best.unwrap();
    assert_eq!(best.setting, [Turn { dial: Dial::Osl, value: 168 }], "{}", maximum.sentence);
    // The longest takes 2.5 s unloaded.
    assert_eq!(maximum.settings[2].verdict, Verdict::Unmet);
    assert_eq!((maximum.knobs[0].low, maximum.knobs[0].high), (168, 168));
    assert!(maximum.points.iter().all(|p| p.setting == best.setting));
}

/// Input and output lengths at once: 8 µs of each input token squared over 1,000 beside 2.5 ms of each
/// output token; short prompts are best for output tokens, long ones for all tokens.
fn both(seed: u64) -> Box<dyn Simulated> {
    Delay::boxed(seed, |met| {
        let alone = 0.4 + 0.000_008 * met.input * met.input / 100.0 + 0.0025 * met.output;
        alone * (1.0 + f64::from(met.others) / 100.0) * (0.1 * met.luck).exp()
    })
}

fn of_both(input: f64, output: f64, total: bool) -> f64 {
    let held = 2.0 * (-0.1645_f64).exp();
    let alone = 0.4 + 0.000_008 * input * input / 100.0 + 0.0025 * output;
    let users = (100.0 * (held / alone - 1.0) + 1.0).max(0.0);
    users * (output + if total { input } else { 0.0 }) / held
}

#[test]
fn three_knobs_find_the_best_of_a_known_surface() {
    let lengths = || (0..=40).map(|i| 64.0 * 32.0_f64.powf(f64::from(i) / 40.0));
    let best_of_all = lengths()
        .flat_map(|i| (0..=40).map(move |o| of_both(i, 16.0 * 32.0_f64.powf(f64::from(o) / 40.0), true)));
    let best_of_all = best_of_all.fold(0.0, f64::max);
    for seed in 0..3 {
        let settings = settings(Over::Concurrency, &["p95(e2e)<=2s"], 60 + seed);
        let outcome =
            found(&settings, &goal("total_token_throughput", &["isl=64..2048", "osl=16..512"]), both);
        let best = outcome.maximum.best.clone().unwrap();
        let value = |i: usize| f64::from(best.setting[i].value);
        let share = of_both(value(0), value(1), true) / best_of_all;
        assert!(share > 0.9, "{share}: {}", outcome.maximum.sentence);
    }
}

/// A runner that cannot turn a knob says so.
#[test]
fn a_runner_without_knobs_ends_the_search_with_the_reason() {
    struct Fixed(Tunable);
    impl Runner for Fixed {
        fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
            self.0.probe(ask, look)
        }
    }
    let settings = settings(Over::Concurrency, &["p95(e2e)<=2s"], 1);
    let goal = goal("request_throughput", &["osl=16..512"]);
    let outcome = maximize(&settings, &goal, &mut Fixed(Tunable::new(surface)), &mut |_| {});
    assert_eq!(outcome.maximum.verdict, Verdict::Unresolved);
    assert!(outcome.maximum.notes.iter().any(|n| n.contains("cannot be set")), "{:?}", outcome.maximum.notes);
}

/// A client that is late whenever more than four are in flight.
struct Late(Tunable);

impl Runner for Late {
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        let mut finished = self.0.probe(ask, look)?;
        if matches!(&ask.load, spec::Load::Closed(closed) if closed.concurrency > 4) {
            finished.trust = ProbeTrust::ClientLimited("send-lag".to_owned());
        }
        Ok(finished)
    }
}

#[test]
fn what_the_client_spoilt_is_no_throughput() {
    let settings = settings(Over::Concurrency, &[], 1);
    let goal = goal("request_throughput", &[]);
    let maximum = maximize(&settings, &goal, &mut Late(Tunable::new(rising)), &mut |_| {}).maximum;
    let best = maximum.best.unwrap();
    assert_eq!((best.binds, maximum.verdict), (Some(Binds::Client), Verdict::ClientLimited));
    assert_eq!(best.load, Some(4.0), "{}", maximum.sentence);
    assert!(maximum.sentence.contains("at least"), "{}", maximum.sentence);
    // Made once more before it is believed.
    assert_eq!(maximum.points.iter().filter(|p| p.client_limited.is_some()).count(), 2);
}

#[test]
fn every_answer_fits_the_schema() {
    let validator = jsonschema::validator_for(&decide::json::capacity_schema()).unwrap();
    let limits: [&[&str]; 3] = [&["p95(e2e)<=2s"], &[], &["p95(e2e)<=100ms"]];
    for (limits, knobs) in limits.into_iter().zip([&["osl=16..512"][..], &[], &["osl=16,32"]]) {
        let settings = Settings { max_load: Some(64.0), ..settings(Over::Concurrency, limits, 2) };
        let outcome = found(&settings, &goal("output_token_throughput", knobs), surface);
        let json = serde_json::to_string(&outcome.maximum).unwrap();
        // Values that are not finite would have become null without being optional.
        assert_eq!(serde_json::from_str::<Maximum>(&json).unwrap(), outcome.maximum);
        let header = common::healthy_open(6.0, 30).header;
        let document =
            CapacityDocument::new(&outcome.answer(settings.over), None, &header.spec, &header.environment);
        let out = document.with_maximum(outcome.maximum).to_json();
        let errors: Vec<String> =
            validator.iter_errors(&out).map(|e| format!("{e} at {}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        assert_eq!(out["verdict"]["answer"], out["maximum"]["sentence"]);
    }
}
