//! Laws that hold for any record.

mod common;

use common::*;
use measure::request::{e2e, for_each_gap, ttft};
use measure::tokens::chunk_tokens;
use measure::*;
use proptest::prelude::*;
use record::{Request, State};
use spec::{Analysis, Metric, Nanos, Op, PercentileRule, Slo, View};

fn rules() -> impl Strategy<Value = PercentileRule> {
    prop_oneof![
        Just(PercentileRule::Linear),
        Just(PercentileRule::NearestRank),
        Just(PercentileRule::Loadgen)
    ]
}

/// Any request: any state, any number of chunks, any kind of token count, stamps that may even run
/// backwards.
fn any_request() -> impl Strategy<Value = Request> {
    let chunk = (0_u64..400, 0_u32..5, any::<bool>(), 0_u16..2, any::<bool>());
    (
        0_u64..5000,
        proptest::option::of(0_u64..500),
        proptest::collection::vec(chunk, 0..8),
        0_u8..10,
        any::<bool>(),
        proptest::option::of(0_u32..40),
        proptest::option::of(0_u32..40),
    )
        .prop_map(|(intended, write, chunks, state, streamed, usage, own)| {
            let list: Vec<(u64, u32)> = chunks.iter().map(|c| (c.0, c.1)).collect();
            let mut r = shifted(request(&list), ms(intended));
            for (chunk, (_, _, told, choice, kernel)) in r.chunks.edit().iter_mut().zip(chunks) {
                chunk.choice = choice;
                chunk.kernel = kernel;
                if !told {
                    chunk.tokens = None;
                }
            }
            r.write_begin = write.map(|lag| ms(intended + lag));
            r.streamed = streamed;
            r.output.usage = usage;
            r.output.retokenised = own;
            r.state = match state {
                0 => failed(0).state,
                1 => timed_out(0).state,
                2 => State::Cancelled,
                3 => State::Shed,
                _ => State::Ok,
            };
            if r.state == State::Shed {
                r.chunks.edit().clear();
                r.write_begin = None;
                r.closed = None;
            }
            r
        })
}

/// A plain request: a TTFT, then chunks at non-negative distances.
fn plain_request() -> impl Strategy<Value = Request> {
    (0_u64..20_000, 1_u64..900, proptest::collection::vec((0_u64..300, 1_u32..5), 0..10), 0_u8..12).prop_map(
        |(intended, first, gaps, state)| {
            let mut at = first;
            let mut chunks = vec![(at, 1)];
            for (gap, k) in gaps {
                at += gap;
                chunks.push((at, k));
            }
            let mut r = shifted(request(&chunks), ms(intended));
            r.state = match state {
                0 => failed(0).state,
                1 => timed_out(0).state,
                2 => State::Cancelled,
                _ => State::Ok,
            };
            r
        },
    )
}

fn numbers(figure: &Figure) -> Vec<f64> {
    match figure {
        Figure::Known(e) => {
            [Some(e.value), e.interval.low, e.interval.high, Some(e.n_eff)].into_iter().flatten().collect()
        }
        Figure::Exceeds(bound) => vec![*bound],
        Figure::Undefined(_) => Vec::new(),
    }
}

fn analysis(percentile: PercentileRule) -> Analysis {
    Analysis { percentile, view: None }
}

/// A figure as something that can be compared: known values, then what exceeds all of them.
fn order(figure: &Figure) -> Option<(u8, f64)> {
    match figure {
        Figure::Known(e) => Some((0, e.value)),
        Figure::Exceeds(bound) => Some((1, *bound)),
        Figure::Undefined(_) => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_figure_is_a_finite_number(
        requests in proptest::collection::vec(any_request(), 0..80), rule in rules(),
    ) {
        let run = run(requests);
        let measures = measure(&run, &analysis(rule));
        let c = &measures.counts;
        prop_assert_eq!(c.offered, c.ok + c.failed + c.timed_out + c.cancelled + c.shed);
        prop_assert_eq!(c.offered, run.requests.len() as u64);
        prop_assert_eq!(c.failed_by_class.values().sum::<u64>(), c.failed);
        prop_assert_eq!(c.timed_out_by_kind.values().sum::<u64>(), c.timed_out);
        prop_assert_eq!(c.finish.values().sum::<u64>(), c.ok);
        for (metric, summary) in measures.metrics.iter().chain(&measures.other_view) {
            let mut all: Vec<f64> = numbers(&summary.mean);
            all.extend([summary.stddev, summary.min, summary.max].into_iter().flatten());
            all.extend(summary.percentiles.iter().chain(&summary.completed).flat_map(|(_, f)| numbers(f)));
            all.push(summary.tau);
            for number in all {
                prop_assert!(number.is_finite(), "{metric:?}: {number}");
            }
            for duration in [summary.min, summary.max].into_iter().flatten() {
                prop_assert!(duration >= 0.0);
            }
        }
        let t = &measures.throughput;
        for rate in [&t.requests_per_s, &t.output_tokens_per_s, &t.input_tokens_per_s].into_iter().flatten() {
            prop_assert!(rate.value.is_finite() && rate.value >= 0.0);
        }
        for level in [t.offered_per_s, t.sent_per_s, t.in_flight_mean, t.gap_cv].into_iter().flatten() {
            prop_assert!(level.is_finite() && level >= 0.0);
        }
        prop_assert!(t.in_flight_mean.unwrap_or(0.0) <= t.in_flight_peak as f64 + 1e-9);
        let pictures = pictures(&run, &measures);
        for bin in &pictures.timeline.bins {
            for rate in [bin.arrivals_per_s, bin.sends_per_s, bin.completions_per_s,
                         bin.output_tokens_per_s, bin.in_flight] {
                prop_assert!(rate.is_finite() && rate >= 0.0);
            }
        }
        // Strict JSON: serde_json writes null for what is no number.
        let json = serde_json::to_string(&pictures).unwrap();
        prop_assert!(!json.contains("\"value\":null") && !json.contains("\"nines\":null"));
        if let (Ok(peak), Ok(mean)) = (pictures.peak_output_tokens_per_s, t.output_tokens_per_s) {
            prop_assert!(peak >= mean.value * (1.0 - 1e-9), "peak {peak} mean {}", mean.value);
        }
    }

    #[test]
    fn percentiles_rise_and_exceed_only_after_known(
        requests in proptest::collection::vec(any_request(), 0..120), rule in rules(),
    ) {
        let run = run(requests);
        let samples = Samples::new(&run);
        for metric in Metric::ALL {
            let mut last = (0, 0.0);
            for step in 50..100 {
                let p = f64::from(step) / 100.0;
                let figure = samples.percentile(metric, View::User, p, rule);
                if let Some(now) = order(&figure) {
                    prop_assert!(now >= last, "{metric:?} p{step}: {last:?} {now:?}");
                    last = now;
                }
                if let Figure::Known(e) = figure {
                    prop_assert!(e.interval.low.is_none_or(|low| low <= e.value), "{metric:?} p{step} {e:?}");
                    prop_assert!(e.interval.high.is_none_or(|high| high >= e.value), "{metric:?} p{step} {e:?}");
                }
            }
        }
    }

    #[test]
    fn gaps_add_up(r in plain_request()) {
        let mut tokens = Vec::new();
        chunk_tokens(&r, &mut tokens);
        let mut sum = Nanos::ZERO;
        for_each_gap(&r, &tokens, |gap| sum += gap.chunk);
        let whole = e2e(&r, View::User).unwrap().since(ttft(&r, View::User).unwrap()).unwrap();
        prop_assert_eq!(sum, whole);
    }

    #[test]
    fn chunk_tokens_add_up(r in any_request()) {
        let mut tokens = Vec::new();
        let source = chunk_tokens(&r, &mut tokens);
        prop_assert_eq!(tokens.len(), r.chunks.len());
        if source == TokenSource::Tokenizer {
            let total = r.output.retokenised.filter(|&n| n > 0).or(r.output.usage).unwrap();
            prop_assert_eq!(tokens.iter().sum::<u32>(), total);
        }
    }

    #[test]
    fn a_failure_never_improves_a_run(
        requests in proptest::collection::vec(plain_request(), 6..100),
        at in 0_u64..20_000, kind in 0_u8..3, rule in rules(),
    ) {
        let slo = || Slo { joint: vec![limit(Metric::Ttft, Op::LessEq, 400e6)], ..Slo::default() };
        let with = |requests: Vec<Request>| run_with(requests, (Nanos::ZERO, ms(20_000)), open(1.0), slo());
        let bad = match kind { 0 => failed(3), 1 => timed_out(50), _ => shed() };
        let mut worse = requests.clone();
        worse.push(shifted(bad, ms(at)));
        let (before, after) = (with(requests), with(worse));
        let (a, b) = (Samples::new(&before), Samples::new(&after));
        for metric in Metric::ALL {
            if matches!(metric, Metric::ScheduleLag | Metric::UserTps) {
                continue;
            }
            for p in [0.5, 0.6, 0.75, 0.9, 0.95] {
                let was = order(&a.percentile(metric, View::User, p, rule));
                let is = order(&b.percentile(metric, View::User, p, rule));
                if let (Some(was), Some(is)) = (was, is) {
                    prop_assert!(is.0 >= was.0, "{metric:?} {p}: {was:?} {is:?}");
                    if is.0 == was.0 && was.0 == 0 {
                        prop_assert!(is.1 >= was.1, "{metric:?} {p}: {was:?} {is:?}");
                    }
                }
            }
        }
        // For a speed the bad end is the low one.
        let (was, is) = (a.percentile(Metric::UserTps, View::User, 0.5, rule), b.percentile(Metric::UserTps, View::User, 0.5, rule));
        if let (Some(was), Some(is)) = (was.value(), is.value()) {
            prop_assert!(is <= was, "{was} {is}");
        }
        let window = measure(&before, &analysis(rule)).window;
        let of = |s: &Samples<'_>| joint(s, &slo(), View::User, &window, |_| None).attainment.unwrap().value;
        prop_assert!(of(&b) <= of(&a));
    }

    #[test]
    fn the_order_of_rows_does_not_matter(
        requests in proptest::collection::vec(any_request(), 1..40), rule in rules(),
    ) {
        let mut forward = run(requests);
        let measures = measure(&forward, &analysis(rule));
        forward.requests.reverse();
        let reversed = measure(&forward, &analysis(rule));
        // The first message of a class is that of the first row.
        prop_assert_eq!(&measures.counts.failed_by_class, &reversed.counts.failed_by_class);
        prop_assert_eq!(measures.metrics, reversed.metrics);
        prop_assert_eq!(measures.throughput, reversed.throughput);
        prop_assert_eq!(measures.tokens, reversed.tokens);
        prop_assert_eq!(measures.window, reversed.window);
    }

    #[test]
    fn percentile_lies_among_the_values(
        mut values in proptest::collection::vec(0.0..1e12_f64, 1..50), p in 0.0..1.0_f64, rule in rules(),
    ) {
        values.sort_by(f64::total_cmp);
        let q = percentile(&values, p, rule).unwrap();
        prop_assert!(q >= values[0] && q <= *values.last().unwrap());
        // Weights are the same as writing a value down several times.
        let pairs: Vec<(f64, u32)> = values.iter().map(|&v| (v, 3)).collect();
        let thrice: Vec<f64> = values.iter().flat_map(|&v| [v; 3]).collect();
        let weighted = measure::percentile::Weighted::new(pairs);
        prop_assert_eq!(weighted.percentile(p, rule), percentile(&thrice, p, rule));
    }
}
