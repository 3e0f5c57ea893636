//! When requests leave: never early, hardly late, at the asked rate, by the asked law, and never held back by answers.

use sim::engine::fixed::{Fixed, FixedConfig};
use sim::engine::{Emission, Engine, Gauges, Job, JobId};
use spec::{Metric, Nanos};

use crate::harness::{linear, only_run, percentile, run};
use crate::large;
use crate::sends::{INSTANT, Ramp, critical, distance_from_exponential, lateness, measured, worst_rate};
use crate::truth::{Attempt, best_of_three};

/// T1, T2, T3: 500 requests a second for 10 s.
#[test]
fn five_hundred_a_second_leave_on_time() {
    let args = [INSTANT, "--rate", "500", "-d", "10s", "--warmup", "none", "--isl", "16", "--osl", "1"];
    best_of_three("pacing", || {
        let folder = tempfile::tempdir().expect("a folder");
        let ran = run(folder.path(), &args);
        let run = record::read(&only_run(folder.path())).expect("the journal");
        let requests = measured(&run);
        let late = lateness(&requests);
        assert!(late.iter().all(|late| *late >= 0.0), "a request left early");
        let [p50, p99] = [0.5, 0.99].map(|p| percentile(&mut late.clone(), p) / 1e3);
        let rate = worst_rate(&requests);
        let third = late.len() / 3;
        let middle = |part: &[f64]| percentile(&mut part.to_vec(), 0.5) / 1e3;
        let drift = middle(&late[2 * third..]) - middle(&late[..third]);
        Attempt {
            disturbed: ran.is_disturbed(),
            good: p50 <= 100.0 && p99 <= 3_000.0 && rate <= 0.005 && drift.abs() <= 50.0,
            figures: format!(
                "late p50 {p50}, p99 {p99} us; sent/planned off by {rate} in 5 s; drift {drift} us"
            ),
        }
    });
}

/// T4: the gaps between real sends are exponential: at least 8 of 10 seeds pass Kolmogorov's test at 1 %.
#[test]
fn real_gaps_follow_the_asked_law() {
    const RATE: f64 = 300.0;
    let mut passed = 0;
    let mut distances = Vec::new();
    for seed in 1..=10 {
        let seed = seed.to_string();
        let args = [INSTANT, "--rate", "300", "-n", "500", "--warmup", "none", "--isl", "16", "--osl", "1"];
        let args: Vec<&str> = args.into_iter().chain(["--seed", &seed]).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let ran = run(folder.path(), &args);
        let run = record::read(&only_run(folder.path())).expect("the journal");
        let (distance, n) = distance_from_exponential(&measured(&run), RATE);
        // The critical value at 1 %; a run that other work disturbed proves nothing.
        passed += u32::from(distance <= critical(n) || ran.is_disturbed());
        distances.push(distance);
    }
    assert!(passed >= 8, "{passed} of 10: {distances:?}");
}

/// T10: the server stands still for 1.4 s; those who came meanwhile waited for the rest of it, each one. Uniform
/// arrivals make the ramp: the share of requests that waited longer than x is rate · (pause − x) / all.
#[test]
fn a_pause_of_the_server_is_felt_by_everyone_who_came_meanwhile() {
    best_of_three("the ramp of a pause", || {
        let ramp = Ramp::measure();
        // The pause itself, then the ramp: the slope of waiting is that of the arrivals, plus what the engine took to
        // catch up, which its log has.
        let far = |(_, ours, truth): &(f64, f64, f64)| (ours - truth).abs() > (0.02 * truth).max(0.002);
        let waited = |(share, ours, _): &(f64, f64, f64)| *ours >= ramp.stood - (1.0 - share) * 6.0 - 0.05;
        let good = !ramp.points.iter().any(far) && ramp.points.iter().all(waited) && ramp.middle <= 0.05;
        Attempt { disturbed: ramp.disturbed, good, figures: format!("{ramp:?}") }
    });
}

/// An engine that gives nothing off in a span; what was due then comes at its end.
struct Paused {
    engine: Fixed,
    from: Nanos,
    to: Nanos,
}

impl Paused {
    fn after(&self, at: Nanos) -> Nanos {
        if at >= self.from && at < self.to { self.to } else { at }
    }
}

impl Engine for Paused {
    fn submit(&mut self, now: Nanos, job: Job) -> JobId {
        self.engine.submit(now, job)
    }
    fn cancel(&mut self, now: Nanos, id: JobId) {
        self.engine.cancel(now, id);
    }
    fn next_event(&self) -> Option<Nanos> {
        self.engine.next_event().map(|at| self.after(at))
    }
    fn advance(&mut self, to: Nanos, out: &mut Vec<Emission>) {
        let stands = to >= self.from && to < self.to;
        self.engine.advance(if stands { Nanos(self.from.0 - 1) } else { to }, out);
        for emission in out {
            emission.at = self.after(emission.at);
        }
    }
    fn gauges(&self) -> Gauges {
        self.engine.gauges()
    }
}

/// T10 in virtual time: each percentile of TTFT is that of the ramp, to the nanosecond.
#[test]
fn in_virtual_time_a_pause_is_the_ramp_exactly() {
    let (ttft, from, to) = (Nanos::from_millis(10), Nanos::from_millis(3_000), Nanos::from_millis(4_400));
    let mut run = large::run(1, 1);
    let args = ["load.rate=500/s", "phases.measure=10s", "phases.warmup=none", "workload.osl=1"];
    let mut draft = spec::Draft::default();
    for (key, value) in args.iter().filter_map(|arg| arg.split_once('=')) {
        draft.set(key, value).expect("a setting");
    }
    draft.set("target", "sim://fixed").expect("a target");
    let spec = draft.resolve().expect("a spec");
    let plan = plan::Plan::new(&spec).expect("a plan");
    let arrivals: Vec<(Nanos, Job)> =
        plan.open_intents().expect("open loop").map(|intent| (intent.at, Job::new(16, 1))).collect();
    let engine = Fixed::new(FixedConfig { ttft, tpot: ttft, noise: 0.0, seed: 1 });
    let outcomes = sim::virtual_open(&mut Paused { engine, from, to }, &arrivals, None);

    let model = run.requests.remove(0);
    let chunk = model.chunks.first().expect("output");
    run.requests = (0..)
        .zip(&outcomes)
        .map(|(seq, outcome)| {
            let out = outcome.finished.expect("it ended");
            let mut request = model.clone();
            (request.seq, request.intended) = (seq, outcome.intended);
            (request.write_begin, request.closed) = (outcome.submitted, Some(out));
            request.chunks =
                [record::Chunk { arrival: out, seen: out, earliest: out, ..chunk }].into_iter().collect();
            request
        })
        .collect();
    (run.footer.measure_to, run.footer.planned) = (Nanos::from_secs(10), run.requests.len() as u64);

    let mut ramp: Vec<f64> = arrivals
        .iter()
        .map(|(at, _)| {
            let due = *at + ttft;
            let felt = if due >= from && due < to { to } else { due };
            felt.saturating_since(*at).0 as f64
        })
        .collect();
    assert!(ramp.len() > 4_500 && ramp.iter().filter(|felt| **felt > 11e6).count() > 500);
    let measured = measure::measure(&run, &run.header.spec.analysis);
    assert_eq!(measured.view, spec::View::User);
    for (share, figure) in &measured.metrics[&Metric::Ttft].percentiles {
        let expected = linear(&mut ramp, *share);
        let value = figure.value().expect("enough samples");
        assert!((value - expected).abs() < 1.0, "p{}: {value}, not {expected}", share * 100.0);
    }
}
