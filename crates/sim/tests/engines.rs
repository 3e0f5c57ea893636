//! The engine models against theory and against their own laws, in virtual time.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use sim::config::EngineConfig;
use sim::engine::batching::BatchingConfig;
use sim::{Engine, Event, Job, Outcome, SimConfig, virtual_closed, virtual_open};
use spec::Nanos;

fn config(target: &str) -> SimConfig {
    match target.parse() {
        Ok(spec::Target::Sim(sim)) => SimConfig::from_target(&sim).unwrap_or_else(|e| panic!("{e}")),
        other => panic!("{target}: {other:?}"),
    }
}

fn engine(target: &str) -> Box<dyn Engine> {
    config(target).engine.build()
}

fn ms(t: Nanos) -> f64 {
    t.as_millis_f64()
}

/// Exponential gaps of this test's own making.
fn poisson(rate: f64, n: usize, seed: u64) -> Vec<(Nanos, Job)> {
    let mut state = seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
    let mut t = 0.0;
    (0..n)
        .map(|_| {
            // xorshift64*
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            let u = (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64;
            t += -(1.0 - u).ln() / rate;
            (Nanos::from_secs_f64(t), Job::new(10, 1))
        })
        .collect()
}

#[test]
fn fifo_waits_as_long_as_m_d_1_says() {
    // W = ρ / (2 μ (1 − ρ)) with μ = 10/s: 50 ms at ρ = 0.5, 200 ms at ρ = 0.8.
    for (rho, expected) in [(0.5, 50.0), (0.8, 200.0)] {
        let means: Vec<f64> = (1..=10)
            .map(|seed| {
                let arrivals = poisson(rho * 10.0, 20_000, seed);
                let mut e = engine("sim://fifo?service=100ms");
                let outcomes = virtual_open(e.as_mut(), &arrivals, None);
                let waits = outcomes.iter().map(|o| ms(o.started.unwrap()) - ms(o.intended));
                waits.sum::<f64>() / outcomes.len() as f64
            })
            .collect();
        let mean = means.iter().sum::<f64>() / 10.0;
        let sd = (means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / 9.0).sqrt();
        // Student's t with 9 degrees of freedom, 99.9 %: 4.781.
        let half = 4.781 * sd / 10f64.sqrt();
        assert!((mean - expected).abs() < half, "ρ = {rho}: {mean} ± {half}, expected {expected}");
        assert!(half < 0.1 * expected, "the test decides: ± {half}");
    }
}

#[test]
fn a_capped_client_waits_where_the_user_sees_it() {
    // definitions §7: service 0.5 s, arrivals 0.1·i s for i = 1..8, cap 1.
    let arrivals: Vec<(Nanos, Job)> =
        (1..=8).map(|i| (Nanos::from_millis(100 * i), Job::new(10, 5))).collect();
    let mut e = engine("sim://fifo?service=500ms&tokens=end");
    let outcomes = virtual_open(e.as_mut(), &arrivals, Some(1));
    let end = |o: &Outcome| o.finished.unwrap();
    let user: Vec<f64> = outcomes.iter().map(|o| ms(end(o).since(o.intended).unwrap())).collect();
    let server: Vec<f64> = outcomes.iter().map(|o| ms(end(o).since(o.submitted.unwrap()).unwrap())).collect();
    assert_eq!(user, [500., 900., 1300., 1700., 2100., 2500., 2900., 3300.]);
    assert!((user.iter().sum::<f64>() / 8.0 - 1900.0).abs() < 1e-9);
    assert_eq!(server, [500.0; 8]);
    // Without the cap, the same wait is in the engine's queue: the user sees no difference.
    let mut e = engine("sim://fifo?service=500ms&tokens=end");
    let open = virtual_open(e.as_mut(), &arrivals, None);
    let open: Vec<f64> = open.iter().map(|o| ms(end(o).since(o.intended).unwrap())).collect();
    assert_eq!(open, user);
}

#[test]
fn fifo_spreads_serves_side_by_side_and_sheds() {
    let arrivals: Vec<(Nanos, Job)> = (0..4).map(|_| (Nanos::ZERO, Job::new(1, 4))).collect();
    let mut e = engine("sim://fifo?service=100ms&servers=2");
    let outcomes = virtual_open(e.as_mut(), &arrivals, None);
    let at: Vec<f64> = outcomes[3].emissions.iter().map(|(t, _)| ms(*t)).collect();
    assert_eq!(at, [125.0, 150.0, 175.0, 200.0]);
    let mut e = engine("sim://fifo?service=100ms&queue=1");
    let outcomes = virtual_open(e.as_mut(), &arrivals, None);
    let kept: Vec<bool> = outcomes.iter().map(|o| o.finished.is_some()).collect();
    assert_eq!(kept, [true, true, false, false]);
    assert!(outcomes[2].rejected.unwrap().1.to_string().contains("1 requests wait"));
}

#[test]
fn closed_loop_users_come_back_after_thinking() {
    // Two users, 100 ms service each by one server, think 50 ms: u1 0–100, u2 0–200, u1 again at
    // 150, served 200–300, u2 at 250, served 300–400, …
    let mut e = engine("sim://fifo?service=100ms&tokens=end");
    let jobs = std::iter::repeat_with(|| Job::new(1, 1));
    let outcomes = virtual_closed(e.as_mut(), 2, Nanos::from_millis(50), jobs, Nanos::from_millis(300));
    let got: Vec<(f64, f64)> = outcomes.iter().map(|o| (ms(o.intended), ms(o.finished.unwrap()))).collect();
    assert_eq!(got, [(0.0, 100.0), (0.0, 200.0), (150.0, 300.0), (250.0, 400.0)]);
}

#[test]
fn a_single_stream_runs_near_the_bandwidth_wall() {
    // 70.6 B in 8 bits on 4.8 TB/s: r_max = 68.0 tokens/s. At 80 % of the bandwidth a step takes
    // 70.6 / 3.84 = 18.385 ms, and 0.5 ms of overhead: 52.95 tokens/s, 0.779 of the wall.
    let mut e = engine("sim://llama-3.1-70b@h200?precision=fp8");
    let outcomes = virtual_open(e.as_mut(), &[(Nanos::ZERO, Job::new(16, 101))], None);
    let (first, last) = (outcomes[0].emissions[0].0, outcomes[0].finished.unwrap());
    let tpot = last.since(first).unwrap().as_secs_f64() / 100.0;
    assert!((1.0 / tpot - 52.95).abs() < 0.1, "{} tok/s", 1.0 / tpot);
}

#[test]
fn throughput_saturates_below_the_roofline() {
    // 8B on H100, 512 in, 128 out. At concurrency c the decode step reads the weights once for all.
    let rate = |users: usize| {
        let mut e = engine("sim://llama-3.1-8b@h100?prefix_cache=off");
        let jobs = std::iter::repeat_with(|| Job::new(512, 128)).take(users * 4);
        let outcomes = virtual_closed(e.as_mut(), users, Nanos::ZERO, jobs, Nanos::MAX);
        let end = outcomes.iter().filter_map(|o| o.finished).max().unwrap();
        outcomes.iter().map(Outcome::tokens).sum::<u64>() as f64 / end.as_secs_f64()
    };
    let rates: Vec<f64> = [1, 8, 64, 256, 512].into_iter().map(rate).collect();
    assert!(rates.windows(2).take(3).all(|w| w[1] > 1.3 * w[0]), "grows with the batch: {rates:?}");
    assert!((rates[4] / rates[3] - 1.0).abs() < 0.1, "256 sequences are the limit: {rates:?}");
    // Arithmetic alone (60 % of 989.4 TFLOP/s) bounds it: 640 tokens of 2 · 8.03 GFLOP for 128 out.
    let bound = 0.6 * 989.4e12 / (640.0 * 2.0 * 8.03e9) * 128.0;
    assert!(rates[4] < bound && rates[4] > 0.4 * bound, "{rates:?} of {bound}");
}

fn prefixed(group: u64, tail: u64, blocks: usize, shared: usize) -> Job {
    let hashes: Vec<u64> = (0..blocks as u64)
        .map(|b| if (b as usize) < shared { (group << 32) | b } else { (1 << 60) | (tail << 32) | b })
        .collect();
    Job { input_tokens: blocks as u32 * 16, output_tokens: 8, blocks: Arc::from(hashes) }
}

#[test]
fn the_prefix_cache_shortens_the_wait_for_the_first_token() {
    let arrivals: Vec<(Nanos, Job)> =
        (0..10).map(|i| (Nanos::from_secs(i), prefixed(1, i, 256, 240))).collect();
    let ttft = |target: &str| {
        let mut e = engine(target);
        let outcomes = virtual_open(e.as_mut(), &arrivals, None);
        let cached: Vec<u32> = outcomes.iter().map(|o| o.cached).collect();
        let ttft: Vec<f64> = outcomes.iter().map(|o| ms(o.emissions[0].0) - ms(o.intended)).collect();
        (cached, ttft, e.gauges())
    };
    let (cached, on, gauges) = ttft("sim://llama-3.1-8b@h100");
    assert_eq!(cached[0], 0);
    assert_eq!(cached[1..], [240 * 16; 9]);
    assert_eq!((gauges.prefix_queries, gauges.prefix_hits), (10 * 4096, 9 * 3840));
    let (cached, off, _) = ttft("sim://llama-3.1-8b@h100?prefix_cache=off");
    assert_eq!(cached, [0; 10]);
    assert!((on[0] - off[0]).abs() < 1e-9);
    assert!(on[1..].iter().zip(&off[1..]).all(|(a, b)| *a < 0.3 * b), "{on:?} {off:?}");
    // The same prompt again: all but its last block, which must be computed to have an answer.
    let again = [(Nanos::ZERO, prefixed(1, 7, 4, 4)), (Nanos::from_secs(1), prefixed(1, 7, 4, 4))];
    let mut e = engine("sim://llama-3.1-8b@h100");
    assert_eq!(virtual_open(e.as_mut(), &again, None)[1].cached, 48);
}

#[test]
fn preemption_happens_and_recovers() {
    // 4,096 tokens of KV for 8 requests of 256 + 768: they fit at first and outgrow it later.
    let mut e = engine("sim://llama-3.1-8b@h100?kv_tokens=4096&context=2048");
    let arrivals: Vec<(Nanos, Job)> = (0..8).map(|_| (Nanos::ZERO, Job::new(256, 768))).collect();
    let outcomes = virtual_open(e.as_mut(), &arrivals, None);
    assert!(outcomes.iter().all(|o| o.tokens() == 768 && o.finished.is_some()));
    let gauges = e.gauges();
    assert!(gauges.preemptions > 0, "{gauges:?}");
    assert_eq!((gauges.running, gauges.waiting, gauges.kv_blocks_used), (0, 0, 0));
    // The oldest never loses its place.
    assert_eq!(outcomes.iter().filter_map(|o| o.finished).min(), outcomes[0].finished);
    // With room for all there is none, and it is quicker.
    let mut roomy = engine("sim://llama-3.1-8b@h100");
    let free = virtual_open(roomy.as_mut(), &arrivals, None);
    assert_eq!(roomy.gauges().preemptions, 0);
    let end = |o: &[Outcome]| o.iter().filter_map(|o| o.finished).max();
    assert!(end(&free) < end(&outcomes));
}

#[test]
fn a_long_prompt_is_computed_in_pieces_beside_running_streams() {
    let run = |chunk: u32| {
        let mut e = engine(&format!("sim://llama-3.1-8b@h100?chunk={chunk}"));
        let arrivals = [(Nanos::ZERO, Job::new(16, 200)), (Nanos::from_millis(100), Job::new(30_000, 2))];
        let outcomes = virtual_open(e.as_mut(), &arrivals, None);
        let gaps = outcomes[0].emissions.windows(2).map(|w| w[1].0.since(w[0].0).unwrap());
        (ms(gaps.max().unwrap()), ms(outcomes[1].emissions[0].0))
    };
    let ((small_gap, small_ttft), (large_gap, large_ttft)) = (run(512), run(16_384));
    assert!(small_gap < 0.2 * large_gap, "a smaller piece stalls others less: {small_gap} {large_gap}");
    assert!(small_ttft > large_ttft, "and takes longer itself: {small_ttft} {large_ttft}");
}

#[test]
fn too_long_a_request_is_turned_away() {
    let mut e = engine("sim://llama-3.1-8b@h100?context=1024");
    let arrivals = [(Nanos::ZERO, Job::new(1000, 25)), (Nanos::ZERO, Job::new(1000, 24))];
    let outcomes = virtual_open(e.as_mut(), &arrivals, None);
    assert!(outcomes[0].rejected.unwrap().1.to_string().contains("needs 1025 tokens"));
    assert!(outcomes[1].finished.is_some());
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |target: &str| {
        let arrivals: Vec<(Nanos, Job)> = poisson(40.0, 60, 3)
            .into_iter()
            .enumerate()
            .map(|(i, (t, _))| (t, Job::new(200 + 7 * i as u32, 20 + (i as u32 * 13) % 40)))
            .collect();
        let outcomes = virtual_open(engine(target).as_mut(), &arrivals, None);
        outcomes.iter().fold(0u64, |h, o| {
            o.emissions.iter().fold(h, |h, (t, n)| sim::draw::mix(h ^ t.0 ^ (u64::from(*n) << 60)))
        })
    };
    let a = run("sim://llama-3.1-8b@h100?noise=0.1&seed=5");
    assert_eq!(a, run("sim://llama-3.1-8b@h100?noise=0.1&seed=5"));
    assert_ne!(a, run("sim://llama-3.1-8b@h100?noise=0.1&seed=6"));
    assert_ne!(a, run("sim://llama-3.1-8b@h100"));
    // Golden: a change of the model changes what every user's sim:// run says, so it is announced.
    assert_eq!(run("sim://llama-3.1-8b@h100"), GOLDEN);
}
const GOLDEN: u64 = 17_007_469_242_994_255_293;

fn small_batching(kv_blocks: u32, chunk: u32, max_seqs: u32, cache: bool) -> BatchingConfig {
    let EngineConfig::Batching(base) = config("sim://llama-3.1-8b@h100?noise=0.2").engine else {
        panic!("a batching engine")
    };
    BatchingConfig { kv_blocks, chunk, max_seqs, prefix_cache: cache, ..base }
}

/// Not a test of the code but of the machine: prints the cost of a request in virtual time.
#[test]
#[ignore = "measures the machine"]
fn virtual_cost() {
    for (target, rate, n, output) in
        [("sim://fifo?service=10ms", 80.0, 100_000, 1), ("sim://llama-3.1-8b@h100", 20.0, 2_000, 200)]
    {
        let mut arrivals = poisson(rate, n, 1);
        arrivals.iter_mut().for_each(|a| a.1 = Job::new(500, output));
        let clock = clock::Clock::start();
        let outcomes = virtual_open(engine(target).as_mut(), &arrivals, None);
        let spent = clock.now().as_secs_f64() * 1e6 / n as f64;
        println!(
            "{target}: {spent:.2} us a request, {} tokens",
            outcomes.iter().map(Outcome::tokens).sum::<u64>()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn batching_keeps_its_laws(
        work in prop::collection::vec((0u64..400, 1u32..300, 1u32..80, 0u64..3, any::<bool>()), 1..40),
        kv_blocks in 24u32..120,
        chunk in 1u32..300,
        max_seqs in 1u32..16,
        cache in any::<bool>(),
    ) {
        let mut e = EngineConfig::Batching(small_batching(kv_blocks, chunk, max_seqs, cache)).build();
        let mut arrivals: Vec<(Nanos, Job, bool)> = work.iter().map(|(at, input, output, group, cancel)| {
            let blocks = prefixed(*group, *at, (*input / 16) as usize, 6).blocks;
            let job = Job { input_tokens: *input, output_tokens: *output, blocks };
            (Nanos::from_millis(*at), job, *cancel)
        }).collect();
        arrivals.sort_by_key(|a| a.0);
        let mut tokens = vec![0u32; arrivals.len()];
        let mut done = vec![false; arrivals.len()];
        let mut last = vec![Nanos::ZERO; arrivals.len()];
        let mut cancelled = vec![false; arrivals.len()];
        let (mut next, mut rounds, mut out) = (0, 0, Vec::new());
        loop {
            let due = arrivals.get(next).map(|a| a.0);
            let now = match (due, e.next_event()) {
                (None, None) => break,
                (Some(a), Some(b)) => a.min(b),
                (a, b) => a.or(b).unwrap_or_default(),
            };
            rounds += 1;
            prop_assert!(rounds < 200_000, "it never ends");
            out.clear();
            e.advance(now, &mut out);
            for em in &out {
                let i = em.job.0 as usize;
                prop_assert!(em.at <= now && em.at >= arrivals[i].0, "not before it was submitted");
                prop_assert!(em.at >= last[i] && !done[i] && !cancelled[i]);
                last[i] = em.at;
                match em.event {
                    Event::Tokens(n) => tokens[i] += n,
                    Event::Finished => {
                        prop_assert_eq!(tokens[i], arrivals[i].1.output_tokens);
                        done[i] = true;
                    }
                    Event::Rejected(_) => {
                        prop_assert!(arrivals[i].1.input_tokens + arrivals[i].1.output_tokens > kv_blocks * 16);
                        done[i] = true;
                    }
                    Event::Started { cached } => prop_assert!(cached < arrivals[i].1.input_tokens),
                }
            }
            let g = e.gauges();
            prop_assert!(g.kv_blocks_used <= kv_blocks && g.running <= max_seqs);
            while let Some((at, job, cancel)) = arrivals.get(next).filter(|a| a.0 <= now) {
                let id = e.submit(*at, job.clone());
                prop_assert_eq!(id.0 as usize, next);
                // Some clients go away at once, others two arrivals later.
                if *cancel && next % 3 == 0 {
                    let back = next.saturating_sub(next % 2 * 2);
                    e.cancel(now, sim::JobId(back as u64));
                    cancelled[back] = true;
                }
                next += 1;
            }
        }
        for i in 0..arrivals.len() {
            prop_assert!(done[i] || cancelled[i], "job {} never ended", i);
        }
        let g = e.gauges();
        prop_assert_eq!((g.running, g.waiting, g.kv_blocks_used), (0, 0, 0));
    }

    #[test]
    fn fixed_and_fifo_lose_nothing(
        work in prop::collection::vec((0u64..500, 1u32..20), 1..40),
        servers in 1u32..4,
        spread in any::<bool>(),
    ) {
        let mut arrivals: Vec<(Nanos, Job)> =
            work.iter().map(|(at, n)| (Nanos::from_millis(*at), Job::new(1, *n))).collect();
        arrivals.sort_by_key(|a| a.0);
        let tokens = if spread { "spread" } else { "end" };
        for target in ["sim://fixed?noise=0.5".to_owned(),
                       format!("sim://fifo?servers={servers}&tokens={tokens}&noise=0.5")] {
            let outcomes = virtual_open(engine(&target).as_mut(), &arrivals, None);
            for o in &outcomes {
                prop_assert_eq!(o.tokens(), u64::from(o.job.output_tokens));
                prop_assert!(o.emissions.is_sorted_by_key(|(t, _)| *t));
                prop_assert!(o.emissions[0].0 >= o.intended);
                prop_assert_eq!(o.finished, o.emissions.last().map(|(t, _)| *t));
            }
        }
    }
}
