//! Laws of whole plans.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]
use proptest::prelude::*;
use spec::{
    Analysis, Api, Burstiness, CacheProtocol, Client, Closed, Dialect, Extent, Force, LengthControl, Lengths,
    Load, MaxField, Nanos, Open, Phase, Phases, Ramp, Rate, Readiness, Sampling, Slo, Source, Span, Spec,
    Target, Timeouts, Tls, TokenizerChoice, Warmup, Workload, seed,
};

use plan::{Intent, Lists, Plan, PlanError};

fn secs(s: f64) -> Span {
    Span(Nanos::from_secs_f64(s))
}

fn spec(load: Load, warmup: Warmup, measure: Extent, seed: u64) -> Spec {
    Spec {
        target: Target::Http("http://127.0.0.1:8000".to_owned()).into(),
        api: Api {
            dialect: Dialect::Chat,
            stream: true,
            model: None,
            path: None,
            headers: Default::default(),
            key: None,
            extra_body: Default::default(),
            sampling: Sampling::default(),
            length: LengthControl { field: MaxField::MaxTokens, force: Force::Auto },
            ask_usage: true,
            readiness: Readiness { check: true, path: "/v1/models".to_owned(), wait: secs(10.0) },
            tls: Tls::default(),
        },
        workload: Workload {
            source: Source::Synthetic,
            isl: Lengths::Uniform { min: 100, max: 500 },
            osl: Lengths::Fixed(128),
            cache: CacheProtocol::Unique,
            tokenizer: TokenizerChoice::Auto,
        },
        load,
        phases: Phases { warmup, measure, drain: secs(30.0) },
        timeouts: Timeouts::default(),
        client: Client::default(),
        slo: Slo::default(),
        analysis: Analysis::default(),
        labels: Default::default(),
        seed,
    }
}

fn open(rate: f64, shape: f64) -> Open {
    Open {
        rate: Rate::new(rate).unwrap(),
        burstiness: Burstiness::new(shape).unwrap(),
        cap: None,
        ramp: None,
    }
}
fn closed(concurrency: u32, think: f64) -> Load {
    Load::Closed(Closed { concurrency, think: secs(think), start_over: secs(0.0) })
}
fn intents(plan: &Plan) -> Vec<Intent> {
    plan.open_intents().into_iter().flatten().collect()
}

#[test]
fn a_number_of_requests_is_measured_after_the_warmup() {
    let spec = spec(Load::Open(open(5.0, 1.0)), Warmup::Requests(10), Extent::Requests(100), 42);
    let plan = Plan::new(&spec).unwrap();
    let all = intents(&plan);
    assert_eq!(all.len(), 110);
    assert!(all.iter().all(|i| (i.phase == Phase::Warmup) == (i.seq < 10)));
    assert_eq!(plan.planned().warmup, Some(10));
    assert_eq!(plan.planned().measure, Some(100));
    assert_eq!(plan.measure_from(), Some(all[10].at));
    assert_eq!(plan.planned().last, Some(all[109].at));
    assert_eq!(plan.ends_at(), None);
    assert_eq!(plan.phase_at(Nanos::ZERO), Some(Phase::Warmup));
    assert_eq!(plan.phase_at(all[10].at), Some(Phase::Measure));
    assert_eq!(plan.phase_at(all[109].at + Nanos(1)), None);
}

#[test]
fn constant_arrivals_fill_a_duration_exactly() {
    // 2/s, 5 s of warm-up, 30 s measured: 10 and 60 arrivals, offered exactly 2/s.
    let spec = spec(
        Load::Open(open(2.0, f64::INFINITY)),
        Warmup::Duration(secs(5.0)),
        Extent::Duration(secs(30.0)),
        42,
    );
    let plan = Plan::new(&spec).unwrap();
    let planned = plan.planned();
    assert_eq!((planned.warmup, planned.measure), (Some(10), Some(60)));
    assert_eq!(planned.span, Some(Nanos::from_secs(30)));
    assert_eq!(planned.offered_per_second(), Some(2.0));
    assert_eq!(plan.measure_from(), Some(Nanos::from_secs(5)));
    assert_eq!(plan.ends_at(), Some(Nanos::from_secs(35)));
    assert_eq!(plan.phase_at(Nanos::from_secs(35)), None);
    assert_eq!(planned.last, Some(Nanos(34_500_000_000)));
}

#[test]
fn a_counted_span_reaches_to_the_arrival_after_the_last() {
    // Constant 4/s, 8 requests: 2 s, so that 8 / 2 s is the rate again.
    let spec = spec(Load::Open(open(4.0, f64::INFINITY)), Warmup::Requests(3), Extent::Requests(8), 1);
    let planned = Plan::new(&spec).unwrap().planned();
    assert_eq!(planned.span, Some(Nanos::from_secs(2)));
    assert_eq!(planned.offered_per_second(), Some(4.0));
    // Half a request a second for a minute: 30.
    let slow = spec_half();
    assert_eq!(Plan::new(&slow).unwrap().planned().measure, Some(30));
}
fn spec_half() -> Spec {
    spec(Load::Open(open(0.5, f64::INFINITY)), Warmup::None, Extent::Duration(secs(60.0)), 1)
}

#[test]
fn all_at_once() {
    let spec = spec(Load::Open(open(f64::INFINITY, 1.0)), Warmup::None, Extent::Requests(7), 42);
    let plan = Plan::new(&spec).unwrap();
    let all = intents(&plan);
    assert!(all.len() == 7 && all.iter().all(|i| i.at == Nanos::ZERO));
    assert_eq!(plan.planned().span, None);
    assert_eq!(plan.planned().offered_per_second(), None);
}

#[test]
fn closed_loops_count_think_and_end() {
    let by_count = Plan::new(&spec(closed(3, 8.0), Warmup::Requests(6), Extent::Requests(9), 42)).unwrap();
    let all: Vec<_> = by_count.closed_intents().unwrap().collect();
    assert_eq!(all.len(), 15);
    // Every user's first request leaves at once, the others after the think time.
    assert!(all.iter().all(|i| i.at == if i.seq < 3 { Nanos::ZERO } else { Nanos::from_secs(8) }));
    assert_eq!(all.iter().filter(|i| i.phase == Phase::Warmup).count(), 6);
    assert!(by_count.open_intents().is_none());
    assert_eq!(by_count.measure_from(), None);

    let by_time =
        Plan::new(&spec(closed(3, 0.0), Warmup::Duration(secs(2.0)), Extent::Duration(secs(3.0)), 42))
            .unwrap();
    assert_eq!(by_time.closed_intents().unwrap().take(1_000).count(), 1_000);
    assert_eq!(by_time.planned().measure, None);
    assert_eq!(by_time.phase_at(Nanos::from_secs(1)), Some(Phase::Warmup));
    assert_eq!(by_time.phase_at(Nanos::from_secs(2)), Some(Phase::Measure));
    assert_eq!(by_time.phase_at(Nanos::from_secs(5)), None);
}

#[test]
fn closed_lanes_make_up_the_whole_with_the_same_lengths() {
    let plan = Plan::new(&spec(closed(5, 1.0), Warmup::Requests(4), Extent::Requests(33), 42)).unwrap();
    let whole: Vec<_> = plan.closed_intents().unwrap().collect();
    let mut parts: Vec<_> = (0..3).flat_map(|lane| plan.closed_intents_of(lane, 3).unwrap()).collect();
    parts.sort_by_key(|i| i.seq);
    assert_eq!(whole, parts);
    // More lanes than users: the surplus lanes are empty, also without an end.
    let endless = Plan::new(&spec(closed(2, 0.0), Warmup::None, Extent::Duration(secs(1.0)), 42)).unwrap();
    assert_eq!(endless.closed_intents_of(2, 4).unwrap().count(), 0);
}

#[test]
fn one_concern_does_not_disturb_another() {
    let base = spec(Load::Open(open(5.0, 1.0)), Warmup::None, Extent::Requests(50), 42);
    let mut longer = base.clone();
    longer.workload.osl = Lengths::Normal { mean: 100.0, sd: 30.0, max: None };
    let mut burstier = base.clone();
    burstier.load = Load::Open(open(5.0, 0.25));
    let (a, b, c) = (
        intents(&Plan::new(&base).unwrap()),
        intents(&Plan::new(&longer).unwrap()),
        intents(&Plan::new(&burstier).unwrap()),
    );
    assert!(a.iter().zip(&b).all(|(a, b)| (a.at, a.isl) == (b.at, b.isl)));
    assert!(a.iter().zip(&c).all(|(a, c)| a.isl == c.isl));
    assert_ne!(a.iter().map(|i| i.at).collect::<Vec<_>>(), c.iter().map(|i| i.at).collect::<Vec<_>>());
}

#[test]
fn lists_are_drawn_and_missing_ones_refused() {
    let mut spec = spec(Load::Open(open(5.0, 1.0)), Warmup::None, Extent::Requests(50), 42);
    spec.workload.isl = Lengths::File("isl.txt".into());
    assert!(matches!(Plan::new(&spec), Err(PlanError::Lengths { which: "isl", .. })));
    let lists = Lists { isl: Some(vec![17, 19]), osl: None };
    let all = intents(&Plan::with_lists(&spec, lists).unwrap());
    assert!(all.iter().all(|i| matches!(i.isl, Some(17 | 19))));
}

#[test]
fn what_no_machine_could_run_is_refused() {
    let refused = |load, warmup, measure| Plan::new(&spec(load, warmup, measure, 1)).unwrap_err();
    let inf = || Load::Open(open(f64::INFINITY, 1.0));
    assert!(matches!(
        refused(inf(), Warmup::None, Extent::Duration(secs(1.0))),
        PlanError::AtOnceForATime { phase: "measurement" }
    ));
    assert!(matches!(
        refused(inf(), Warmup::Duration(secs(1.0)), Extent::Requests(1)),
        PlanError::AtOnceForATime { phase: "warm-up" }
    ));
    let hour = Extent::Duration(secs(3600.0));
    assert_eq!(refused(Load::Open(open(1e9, 1.0)), Warmup::None, hour), PlanError::TooMany);
    assert_eq!(
        refused(closed(1, 0.0), Warmup::Requests(u64::MAX), Extent::Requests(u64::MAX)),
        PlanError::TooMany
    );
    assert!(matches!(
        refused(Load::Open(open(1e-9, 1.0)), Warmup::None, Extent::Requests(10)),
        PlanError::TooLong { .. }
    ));
    assert!(matches!(refused(closed(0, 0.0), Warmup::None, hour), PlanError::Load { .. }));
}

#[test]
fn fingerprints_tell_plans_apart() {
    let base = spec(Load::Open(open(5.0, 1.0)), Warmup::None, Extent::Requests(50), 42);
    let of = |s: &Spec| Plan::new(s).unwrap().fingerprint();
    let mut other = base.clone();
    other.seed = 43;
    assert_ne!(of(&base), of(&other));
    let mut other = base.clone();
    other.workload.osl = Lengths::Fixed(129);
    assert_ne!(of(&base), of(&other));
    // Who is measured and how it is judged is no part of the plan.
    let mut other = base.clone();
    other.target = Target::Http("http://other:1".to_owned()).into();
    other.slo.attain = 0.5;
    assert_eq!(of(&base), of(&other));
    // The same on every machine.
    assert_eq!(of(&base), 1_308_272_792_507_681_970);
}

/// T13: one seed gives the same intents, to the byte, in every run and on every platform.
#[test]
fn a_seed_gives_the_same_bytes_everywhere() {
    let hash = |plan: &Plan| {
        let mut hash = seed::Fnv::default();
        let all =
            plan.open_intents().into_iter().flatten().chain(plan.closed_intents().into_iter().flatten());
        for intent in all {
            hash.word(intent.seq);
            hash.word(intent.at.0);
            hash.word(u64::from(intent.phase == Phase::Measure));
            hash.word(intent.isl.map_or(u64::MAX, u64::from));
            hash.word(intent.osl.map_or(u64::MAX, u64::from));
        }
        hash.value()
    };
    let mut poisson = spec(Load::Open(open(50.0, 1.0)), Warmup::Requests(100), Extent::Requests(20_000), 42);
    poisson.workload.osl = Lengths::Normal { mean: 200.0, sd: 60.0, max: Some(500) };
    let mut bursty = spec(Load::Open(open(7.0, 0.3)), Warmup::None, Extent::Duration(secs(600.0)), 7);
    bursty.workload.osl = Lengths::Uniform { min: 1, max: 9 };
    let users = spec(closed(32, 0.5), Warmup::Requests(64), Extent::Requests(5_000), u64::MAX);
    let hashes = || [&poisson, &bursty, &users].map(|spec| hash(&Plan::new(spec).unwrap()));
    assert_eq!(hashes(), [16_089_808_732_260_733_988, 6_282_459_007_545_540_451, 2_888_202_357_774_398_797]);
    assert_eq!(hashes(), hashes());
}

fn any_open() -> impl Strategy<Value = Open> {
    let shape = prop_oneof![0.05f64..5.0, Just(1.0), Just(f64::INFINITY)];
    let ramp = proptest::option::of((0.1f64..50.0, 0.0f64..20.0));
    (0.1f64..50.0, shape, ramp).prop_map(|(rate, shape, ramp)| {
        let mut load = open(rate, shape);
        load.ramp = ramp.map(|(from, over)| Ramp { from: Rate::new(from).unwrap(), over: secs(over) });
        load
    })
}
fn any_warmup() -> impl Strategy<Value = Warmup> {
    prop_oneof![
        Just(Warmup::None),
        (0u64..50).prop_map(Warmup::Requests),
        (0.0f64..10.0).prop_map(|s| Warmup::Duration(secs(s)))
    ]
}
fn any_extent() -> impl Strategy<Value = Extent> {
    prop_oneof![
        (1u64..300).prop_map(Extent::Requests),
        (0.1f64..20.0).prop_map(|s| Extent::Duration(secs(s)))
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_open_plan_is_sorted_begins_at_zero_and_keeps_its_counts(
        load in any_open(), warmup in any_warmup(), measure in any_extent(), seed: u64, lanes in 1u16..5,
    ) {
        let plan = Plan::new(&spec(Load::Open(load), warmup, measure, seed)).unwrap();
        let all = intents(&plan);
        let planned = plan.planned();
        prop_assert!(all.windows(2).all(|w| w[0].at <= w[1].at && w[0].seq + 1 == w[1].seq));
        prop_assert!(all.windows(2).all(|w| !(w[0].phase == Phase::Measure && w[1].phase == Phase::Warmup)));
        if let Some(first) = all.first() {
            prop_assert_eq!((first.seq, first.at), (0, Nanos::ZERO));
        }
        let measured: Vec<_> = all.iter().filter(|i| i.phase == Phase::Measure).collect();
        prop_assert_eq!(planned.measure, Some(measured.len() as u64));
        prop_assert_eq!(planned.warmup, Some((all.len() - measured.len()) as u64));
        prop_assert_eq!(planned.last, all.last().map(|i| i.at));
        match measure {
            Extent::Requests(n) => prop_assert_eq!(measured.len() as u64, n),
            Extent::Duration(d) => {
                let from = plan.measure_from().unwrap();
                prop_assert_eq!(plan.ends_at(), Some(from + d.0));
                prop_assert!(measured.iter().all(|i| from <= i.at && i.at < from + d.0));
            }
        }
        // Lanes partition the plan.
        let mut of_lanes = vec![0usize; usize::from(lanes)];
        for intent in &all {
            of_lanes[usize::from(plan.lane_of(intent.seq, lanes))] += 1;
        }
        prop_assert!(of_lanes.iter().max().unwrap() - of_lanes.iter().min().unwrap() <= 1);
        // And the same plan again.
        prop_assert_eq!(all, intents(&plan));
    }

    #[test]
    fn the_count_is_rate_times_duration(rate in 1.0f64..200.0, shape in 0.25f64..20.0, seed: u64) {
        let plan = Plan::new(&spec(
            Load::Open(open(rate, shape)), Warmup::None, Extent::Duration(secs(100.0)), seed,
        )).unwrap();
        let expected = rate * 100.0;
        // Renewal theory: variance of the count is its mean over α; the arrival at 0 adds up to
        // (1 + 1/α)/2. Six deviations.
        let slack = 6.0 * (expected / shape).sqrt() + 1.0 + 1.0 / shape;
        let count = plan.planned().measure.unwrap() as f64;
        prop_assert!((count - expected).abs() < slack, "{count} of {expected}");
    }
}
