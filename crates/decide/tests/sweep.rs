//! A sweep from recorded runs: pooling, what counts, limits, the exit code, the machine output.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use decide::TrustVerdict;
use decide::sweep::*;
use record::{FailureClass, Run, State};
use serde_json::Value;
use spec::{Analysis, Metric, Nanos, Op, Phase};

/// A closed loop at this many users. From 8 users on the server has no more: first tokens come later.
fn at(users: u32, seed: u64) -> Run {
    let mut run = healthy_closed(users, 30);
    let wait = ms(700.0 * f64::from(users.saturating_sub(8)) / 8.0);
    slow(&mut run, wait);
    run.header.spec.seed = seed;
    run.header.spec.slo.marginal = vec![marginal(0.95, Metric::Ttft, Op::LessEq, 500.0)];
    run
}

/// Every answer comes later by `wait`, and so every user sends less often.
fn slow(run: &mut Run, wait: Nanos) {
    let mut of_user = std::collections::BTreeMap::<u32, u64>::new();
    for r in &mut run.requests {
        let sent = of_user.entry(r.user.unwrap()).or_default();
        let lag = Nanos(*sent * wait.0);
        *sent += 1;
        r.intended += lag;
        shift(r, lag);
        r.headers = r.headers.map(|t| t + wait);
        r.done = r.done.map(|t| t + wait);
        r.closed = r.closed.map(|t| t + wait);
        for chunk in r.chunks.edit().iter_mut() {
            chunk.arrival += wait;
            chunk.seen += wait;
            chunk.earliest += wait;
        }
    }
    let to = run.footer.measure_to;
    run.requests.retain(|r| r.intended < to);
    for r in &mut run.requests {
        r.phase = if r.intended < run.footer.measure_from { Phase::Warmup } else { Phase::Measure };
    }
    run.requests.sort_by_key(|r| (r.intended, r.seq));
    run.footer.ended = run.requests.iter().filter_map(|r| r.closed).max().unwrap().max(to);
    watch_lanes(run);
}

/// Its sends came too late, by this side's fault.
fn disturbed(mut run: Run) -> Run {
    for r in measured(&mut run).filter(|r| r.seq.is_multiple_of(6)) {
        shift(r, ms(180.0));
    }
    watch_lanes(&mut run);
    run
}

fn refused(mut run: Run) -> Run {
    for r in &mut run.requests {
        r.state = State::Failed { class: FailureClass::Connect, detail: "refused".to_owned() };
        r.chunks.edit().clear();
    }
    run
}

fn point(runs: Vec<Run>) -> Point {
    let recorded =
        runs.into_iter().enumerate().map(|(i, run)| Recorded { name: format!("run-{i}"), run }).collect();
    Point::new(recorded, &Analysis::default()).unwrap()
}

fn asked(loads: &[f64], repeats: u32) -> Asked {
    Asked {
        spec: at(1, 7).header.spec,
        seed: 7,
        loads: loads.to_vec(),
        repeats,
        order: Order::Shuffled,
        accelerators: Some(2),
        missing: Vec::new(),
        ended: None,
        tool_version: "0.1.0".to_owned(),
    }
}

const USERS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

fn whole() -> SweepReport {
    let loads: Vec<f64> = USERS.iter().map(|u| f64::from(*u)).collect();
    SweepReport::build(asked(&loads, 1), USERS.iter().rev().map(|users| point(vec![at(*users, 1)])).collect())
}

#[test]
fn the_curve_the_knee_and_the_crossing() {
    let report = whole();
    let loads: Vec<f64> = report.points.iter().map(|p| p.load).collect();
    assert_eq!(loads, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0], "ascending");
    assert_eq!(report.knee.state, KneeState::Found, "{:?}", report.knee);
    let knee = report.knee.at.unwrap();
    assert!((6.0..14.0).contains(&knee.load), "{knee:?}");
    let crossing = &report.limits[0].crossing;
    assert_eq!((crossing.holds_up_to, crossing.missed_from), (Some(8.0), Some(16.0)));
    assert_eq!(report.verdict.exit_code, 0, "a crossing is a result");
    let answer = report.verdict.answer.replace('\u{a0}', " ");
    assert!(
        answer.contains("p95 TTFT ≤ 500 ms holds up to 8 users and is missed from 16 users on"),
        "{answer}"
    );
    assert!(answer.starts_with("Throughput grows up to a knee at"), "{answer}");
    // By Little's law: e2e at one user is about 700 ms, and the peak about 8 / 0.7 s.
    let little = report.little.unwrap();
    assert!(!little.differs && (little.at - 1.0).abs() < 1e-9, "{little:?}");
    // A user is as fast at every load here, so the one with the most for all is the front.
    assert!(!report.front.is_empty() && report.trades.len() == 7);
}

#[test]
fn repeats_are_pooled_and_the_interval_gets_narrower() {
    let one = point(vec![at(4, 1)]);
    let three = point(vec![at(4, 1), at(4, 2), at(4, 3)]);
    let (one, three) = (one.known().unwrap(), three.known().unwrap());
    assert_eq!(three.measures.counts.offered, 3 * one.measures.counts.offered);
    let rate = |p: &Pooled| p.throughput.unwrap();
    assert!((rate(one).value / rate(three).value - 1.0).abs() < 1e-9, "the same three times");
    let level = |p: &Pooled| p.measures.throughput.in_flight_mean.unwrap();
    assert!((level(one) - level(three)).abs() < 1e-9);
    let width = |p: &Pooled| {
        let e = p.measures.metrics[&Metric::Ttft].percentile(0.5).unwrap();
        let measure::Figure::Known(e) = e else { panic!("{e:?}") };
        e.interval.high.unwrap() - e.interval.low.unwrap()
    };
    assert!(width(three) < width(one));
    assert!(three.relative_error < one.relative_error);
}

#[test]
fn a_disturbed_repeat_is_left_out() {
    let point = point(vec![disturbed(at(4, 1)), at(4, 2)]);
    assert!(point.repeats[0].left_out.as_ref().unwrap().contains("send lag"), "{:?}", point.repeats);
    assert_eq!(point.repeats[1].left_out, None);
    let pooled = point.known().unwrap();
    assert_eq!(pooled.trust.verdict, TrustVerdict::Valid);
    assert_eq!(pooled.measures.counts.offered, measured(&mut at(4, 2)).count() as u64);
}

#[test]
fn a_load_that_cannot_be_believed_is_unknown_and_never_a_limit() {
    let bad = point(vec![disturbed(at(32, 1))]);
    // This side was in the way: whatever the server did, no limit is judged and no throughput taken.
    assert_eq!((bad.met(0).0, bad.known()), (None, None), "{:?}", bad.repeats);
    let mut points: Vec<Point> = USERS[..4].iter().map(|u| point(vec![at(*u, 1)])).collect();
    points.push(bad);
    points.push(point(vec![refused(at(64, 1))]));
    let report = SweepReport::build(asked(&[1.0, 2.0, 4.0, 8.0, 32.0, 64.0], 1), points);
    let crossing = &report.limits[0].crossing;
    assert_eq!(crossing.state, CrossingState::Open);
    assert_eq!((crossing.holds_up_to, crossing.missed_from), (Some(8.0), None));
    assert_eq!(crossing.open, [32.0, 64.0]);
    assert_eq!(report.verdict.exit_code, 5);
    let unknown = report.points.last().unwrap();
    assert!(unknown.known().is_none() && unknown.pooled.as_ref().unwrap_err().contains("failures"));
    assert!(report.verdict.answer.contains("undecided at"), "{}", report.verdict.answer);
}

#[test]
fn exit_codes() {
    let code = |points: Vec<Point>| SweepReport::build(asked(&[1.0], 1), points).verdict.exit_code;
    assert_eq!(code(vec![point(vec![at(2, 1)])]), 0, "it holds at every load");
    assert_eq!(code(vec![point(vec![at(32, 1)]), point(vec![at(64, 1)])]), 1, "it holds at none");
    assert_eq!(code(vec![point(vec![at(32, 1)]), point(vec![at(2, 1)])]), 0, "crossed");
    assert_eq!(code(vec![point(vec![refused(at(2, 1))])]), 4, "no request ended well");
    assert_eq!(code(Vec::new()), 4);
    let mut half = at(2, 1);
    for (i, r) in measured(&mut half).enumerate() {
        if i % 4 != 0 {
            r.state = State::Failed { class: FailureClass::Http5xx, detail: "500".to_owned() };
            r.chunks.edit().clear();
        }
    }
    assert_eq!(code(vec![point(vec![half])]), 3, "nothing may be concluded");
    let without = |mut run: Run| {
        run.header.spec.slo.marginal.clear();
        run
    };
    let mut no_limits = asked(&[64.0], 1);
    no_limits.spec.slo.marginal.clear();
    let report = SweepReport::build(no_limits, vec![point(vec![without(at(64, 1))])]);
    assert_eq!((report.verdict.exit_code, report.limits.len()), (0, 0));
}

#[test]
fn joint_limits_have_attainment_and_goodput_at_each_load() {
    let of = |users: u32| {
        let mut run = at(users, 1);
        run.header.spec.slo.marginal.clear();
        run.header.spec.slo.joint = vec![joint(Metric::Ttft, 500.0), joint(Metric::Tpot, 20.0)];
        point(vec![run])
    };
    let mut all = asked(&[4.0, 32.0], 1);
    all.spec = of(4).spec;
    let report = SweepReport::build(all, vec![of(4), of(32)]);
    assert_eq!(report.limits.len(), 1);
    assert_eq!(report.limits[0].crossing.state, CrossingState::Crossed);
    let good = |i: usize| report.points[i].known().unwrap().slo.joint.clone().unwrap();
    assert!(good(0).attainment.value.unwrap() > 0.99 && good(0).goodput_per_s.unwrap() > 1.0);
    assert!(good(1).attainment.value.unwrap() < 0.01);
    assert!(report.limits[0].limit.starts_with("ttft<=500ms and tpot<=20ms for 95"), "{:?}", report.limits);
}

fn outputs() -> Vec<(&'static str, Value)> {
    let mut partial = asked(&[1.0, 2.0], 2);
    partial.missing = vec![2.0];
    partial.ended = Some("it was interrupted".to_owned());
    partial.accelerators = None;
    vec![
        ("whole", whole().to_json()),
        ("partial", SweepReport::build(partial, vec![point(vec![at(1, 1), at(1, 2)])]).to_json()),
        ("nothing", SweepReport::build(asked(&[1.0], 1), vec![point(vec![refused(at(1, 1))])]).to_json()),
        ("empty", SweepReport::build(asked(&[], 1), Vec::new()).to_json()),
    ]
}

#[test]
fn the_committed_schema_of_a_sweep_is_the_generated_one() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sweep.schema.json");
    let generated = format!("{}\n", serde_json::to_string_pretty(&decide::json::sweep_schema()).unwrap());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == generated, "docs/sweep.schema.json is stale: run this test with UPDATE_SCHEMA=1");
}

#[test]
fn every_output_of_a_sweep_fits_its_schema() {
    let validator = jsonschema::validator_for(&decide::json::sweep_schema()).unwrap();
    for (name, out) in outputs() {
        let errors: Vec<String> =
            validator.iter_errors(&out).map(|e| format!("{e} at {}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
    }
    let mut broken = whole().to_json();
    broken["knee"]["state"] = "sharp".into();
    assert!(!validator.is_valid(&broken));
}

#[test]
fn the_output_says_what_is_missing_and_what_is_not_defined() {
    let outputs = outputs();
    let of = |name: &str| &outputs.iter().find(|(n, _)| *n == name).unwrap().1;
    let whole = of("whole");
    assert_eq!(whole["complete"], true);
    let first = &whole["points"][0]["figures"];
    let all = first["output_tokens_per_s"].as_f64().unwrap();
    assert!((first["output_tokens_per_s_per_accelerator"].as_f64().unwrap() * 2.0 - all).abs() < 1e-9);
    assert!(first["output_tokens_per_s_per_user"].as_f64().unwrap() > 50.0);
    let partial = of("partial");
    assert_eq!((&partial["complete"], &partial["missing"][0]), (&false.into(), &2.into()));
    assert_eq!(partial["ended"], "it was interrupted");
    assert_eq!(partial["points"][0]["runs"].as_array().unwrap().len(), 2);
    let figures = &partial["points"][0]["figures"];
    assert!(figures["output_tokens_per_s_per_accelerator"].is_null());
    assert!(figures["undefined"]["output_tokens_per_s_per_accelerator"].is_string());
    assert_eq!(partial["knee"]["state"], "none");
    assert!(partial["knee"]["reason"].as_str().unwrap().contains("takes 5"));
    assert!(of("nothing")["points"][0]["unknown"].is_string());
}
