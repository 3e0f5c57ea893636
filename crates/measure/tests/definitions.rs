//! The worked cases of the definitions, by value.

mod common;

use common::*;
use measure::interval::{population_stddev, sample_stddev, wilson, wilson_at};
use measure::request::{decode_tpot, e2e, for_each_gap, max_gap, tpot, ttfat, ttft, user_tps};
use measure::tokens::{chunk_tokens, output_tokens};
use measure::*;
use record::{Kind, Request};
use spec::{Analysis, JointLimit, MarginalLimit, Metric, Nanos, Op, PercentileRule, Slo, Statistic, View};

const RULES: [PercentileRule; 3] =
    [PercentileRule::Linear, PercentileRule::NearestRank, PercentileRule::Loadgen];

fn gaps(request: &Request) -> (Vec<f64>, Vec<f64>) {
    let mut tokens = Vec::new();
    chunk_tokens(request, &mut tokens);
    let (mut itl, mut icl) = (Vec::new(), Vec::new());
    for_each_gap(request, &tokens, |gap| {
        icl.push(gap.chunk.as_millis_f64());
        if let Some(per_token) = gap.per_token() {
            itl.extend(std::iter::repeat_n(per_token / 1e6, gap.tokens as usize));
        }
    });
    (itl, icl)
}

fn value(figure: Option<&Figure>) -> Option<f64> {
    figure.and_then(Figure::value)
}

#[test]
fn percentiles_under_three_rules() {
    let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
    let cases: [(&[f64], f64, [f64; 3]); 18] = [
        (&[10.0, 20.0, 30.0, 100.0], 0.5, [25.0, 20.0, 30.0]),
        (&[1.0, 1.0, 1.0, 1.0, 6.0], 0.95, [5.0, 6.0, 6.0]),
        (&hundred, 0.5, [50.5, 50.0, 51.0]),
        (&hundred, 0.9, [90.1, 90.0, 91.0]),
        (&hundred, 0.95, [95.05, 95.0, 96.0]),
        (&hundred, 0.99, [99.01, 99.0, 100.0]),
        (&[1.0, 2.0], 0.5, [1.5, 1.0, 2.0]),
        (&[1.0, 2.0], 0.9, [1.9, 2.0, 2.0]),
        (&[1.0, 2.0], 0.99, [1.99, 2.0, 2.0]),
        (&[5.0], 0.5, [5.0; 3]),
        (&[5.0], 0.99, [5.0; 3]),
        (&[100.0, 600.0, 1100.0, 1600.0], 0.5, [850.0, 600.0, 1100.0]),
        (&[100.0, 600.0, 1100.0, 1600.0], 0.9, [1450.0, 1600.0, 1600.0]),
        (&[100.0, 600.0, 1100.0, 1600.0], 0.95, [1525.0, 1600.0, 1600.0]),
        (&[100.0, 600.0, 1100.0, 1600.0], 0.99, [1585.0, 1600.0, 1600.0]),
        (&[10.0, 20.0, 30.0, 40.0], 0.9, [37.0, 40.0, 40.0]),
        (&[10.0, 20.0, 30.0, 40.0], 0.95, [38.5, 40.0, 40.0]),
        (&[10.0, 20.0, 30.0, 40.0], 0.99, [39.7, 40.0, 40.0]),
    ];
    for (values, p, expected) in cases {
        for (rule, expected) in RULES.into_iter().zip(expected) {
            close(percentile(values, p, rule).unwrap(), expected, 1e-9);
        }
    }
    for rule in RULES {
        assert_eq!(percentile(&[], 0.5, rule), None);
    }
}

#[test]
fn ranks_are_right_where_p_times_n_is_whole() {
    let upto = |n: u32| (1..=n).map(f64::from).collect::<Vec<_>>();
    // In binary 0.07 × 100 is a little more than 7, 0.95 × 20 a little less than 19.
    for (n, p, rank) in
        [(20, 0.95, 19.0), (100, 0.07, 7.0), (10, 0.9, 9.0), (1000, 0.999, 999.0), (100, 0.29, 29.0)]
    {
        assert_eq!(percentile(&upto(n), p, PercentileRule::NearestRank), Some(rank), "{p} of {n}");
    }
    // The LoadGen rule is the product in f64: 0.29 × 100 is 28.999999999999996 and truncates to 28.
    assert_eq!(percentile(&upto(100), 0.29, PercentileRule::Loadgen), Some(29.0));
    assert_eq!(percentile(&upto(100), 0.07, PercentileRule::Loadgen), Some(8.0));
}

#[test]
fn smallest_samples() {
    let pairs = [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3688)];
    for (p, n) in pairs {
        assert_eq!(needed(p), n, "{p}");
    }
    assert_eq!(needed(0.1), 36);
    assert_eq!(needed(0.75), 13);
    // One sample less and the figure is withheld, with the numbers that say why.
    for (n, p50) in [(5, None), (6, Some(100e6))] {
        let measures = measure(&run(repeated(n, 10, &[(100, 1)])), &Analysis::default());
        let p = measures.metrics[&Metric::Ttft].percentile(0.5).unwrap();
        assert_eq!(p.value(), p50);
        if p50.is_none() {
            assert_eq!(*p, Figure::Undefined(Undefined::TooFewSamples { n, needed: 6 }));
        }
    }
}

#[test]
fn standard_deviations() {
    let values = [1.0, 2.0, 3.0, 4.0];
    close(sample_stddev(&values).unwrap(), 1.290994, 1e-6);
    close(population_stddev(&values).unwrap(), 1.118034, 1e-6);
    assert_eq!(sample_stddev(&[1.0]), None);
    assert_eq!(population_stddev(&[1.0]), Some(0.0));
}

#[test]
fn wilson_to_five_digits() {
    for (good, of, low, high) in [
        (95.0, 100.0, 0.88825, 0.97846),
        (20.0, 20.0, 0.83887, 1.0),
        (19.0, 20.0, 0.76387, 0.99112),
        (0.0, 20.0, 0.0, 0.16113),
        (950.0, 1000.0, 0.93469, 0.96187),
    ] {
        let interval = wilson(good / of, of);
        close(interval.low.unwrap(), low, 5e-6);
        close(interval.high.unwrap(), high, 5e-6);
    }
    // Against a target of 0.95, 70/100 is resolved.
    assert!(wilson(0.7, 100.0).high.unwrap() < 0.95);
    assert_eq!(wilson(0.5, 0.0), Interval::default());
    // 0 of 100 at 3.5 standard errors: z²/(n + z²) = 12.25/112.25.
    assert!((wilson_at(0.0, 100.0, 3.5).high.unwrap() - 0.109_131).abs() < 1e-6);
}

#[test]
fn three_chunks_of_one_token() {
    let mut r = request(&[(100, 1), (150, 1), (200, 1)]);
    r.closed = Some(ms(250));
    assert_eq!(ttft(&r, View::User), Ok(ms(100)));
    assert_eq!(gaps(&r), (vec![50.0, 50.0], vec![50.0, 50.0]));
    close(tpot(&r).unwrap(), 50e6, 1e-3);
    assert_eq!(e2e(&r, View::User), Ok(ms(200)));
    close(user_tps(&r).unwrap(), 20.0, 1e-9);
}

#[test]
fn chunks_of_several_tokens() {
    let r = request(&[(100, 1), (160, 3), (180, 1)]);
    assert_eq!(gaps(&r), (vec![20.0; 4], vec![60.0, 20.0]));
    close(tpot(&r).unwrap(), 20e6, 1e-3);
    assert_eq!(max_gap(&r), Ok(ms(60)));
    let measures = measure(&run(vec![r]), &Analysis::default());
    close(measures.tokens.per_chunk.unwrap(), 1.667, 5e-4);
    close(measures.metrics[&Metric::Icl].mean.value().unwrap(), 40e6, 1e-3);
    close(measures.metrics[&Metric::Itl].mean.value().unwrap(), 20e6, 1e-3);
    assert_eq!((measures.metrics[&Metric::Icl].n, measures.metrics[&Metric::Itl].n), (2, 4));
}

#[test]
fn a_first_chunk_of_several_tokens() {
    let r = request(&[(100, 4), (120, 1), (140, 1)]);
    close(tpot(&r).unwrap(), 8e6, 1e-3);
    close(decode_tpot(&r).unwrap(), 20e6, 1e-3);
}

#[test]
fn ten_chunks_of_four_tokens() {
    let chunks: Vec<(u64, u32)> = (0..10).map(|i| (100 + 20 * i, 4)).collect();
    let told = request(&chunks);
    // The same stream when only the usage is known: it is spread over the chunks.
    let mut untold = told.clone();
    untold.chunks.edit().iter_mut().for_each(|chunk| chunk.tokens = None);
    for (r, source) in [(told, TokenSource::Server), (untold, TokenSource::Tokenizer)] {
        assert_eq!(gaps(&r).1, vec![20.0; 9]);
        assert_eq!(gaps(&r).0, vec![5.0; 36]);
        close(tpot(&r).unwrap() / 1e6, 4.615, 5e-4);
        close(decode_tpot(&r).unwrap(), 5e6, 1e-3);
        assert_eq!(chunk_tokens(&r, &mut Vec::new()), source);
    }
}

#[test]
fn two_hundred_and_fifty_six_tokens() {
    let chunks: Vec<(u64, u32)> = (0..256).map(|i| (200 + i * 1000 / 255, 1)).collect();
    let r = request(&chunks);
    assert_eq!(e2e(&r, View::User), Ok(ms(1200)));
    close(tpot(&r).unwrap() / 1e6, 3.92, 5e-3);
}

#[test]
fn what_is_not_defined_has_a_reason() {
    let one = request(&[(200, 1)]);
    assert_eq!(tpot(&one), Err(Undefined::SingleToken));
    assert_eq!(user_tps(&one), Err(Undefined::SingleToken));
    assert_eq!(max_gap(&one), Err(Undefined::SingleChunk));
    // All tokens in one late block: the time between them is not observable, and not 0.
    let block = request(&[(200, 200)]);
    assert_eq!(tpot(&block), Err(Undefined::SingleChunk));
    assert_eq!(decode_tpot(&block), Err(Undefined::AllInFirstChunk));
    let nothing = request(&[]);
    assert_eq!(ttft(&nothing, View::User), Err(Undefined::NoOutput));
    assert_eq!(e2e(&nothing, View::User), Err(Undefined::NoOutput));
    assert_eq!(ttft(&shed(), View::Server), Err(Undefined::NotSent));
    let mut plain = request(&[(200, 5)]);
    plain.streamed = false;
    assert_eq!(ttft(&plain, View::User), Err(Undefined::NotStreamed));
    assert_eq!(tpot(&plain), Err(Undefined::NotStreamed));
    assert_eq!(e2e(&plain, View::User), Ok(ms(200)));
    let mut thinking = request(&[(200, 1), (210, 1)]);
    thinking.chunks.edit().iter_mut().for_each(|chunk| chunk.kind = Kind::Reasoning);
    assert_eq!(ttfat(&thinking, View::User), Err(Undefined::ReasoningOnly));
    // Chunks that change hands within one read, at one moment: no speed is known.
    assert_eq!(user_tps(&request(&[(200, 1), (200, 1)])), Err(Undefined::NoSpan));
}

#[test]
fn thinking_and_answer_have_their_own_first_token() {
    let mut r = request(&[(50, 1), (900, 1)]);
    r.chunks.edit()[0].kind = Kind::Reasoning;
    assert_eq!(ttft(&r, View::User), Ok(ms(50)));
    assert_eq!(ttfat(&r, View::User), Ok(ms(900)));
}

#[test]
fn views_start_at_the_plan_or_at_the_wire() {
    let mut r = request(&[(500, 1)]);
    r.write_begin = Some(ms(400));
    assert_eq!(ttft(&r, View::User), Ok(ms(500)));
    assert_eq!(ttft(&r, View::Server), Ok(ms(100)));
    assert_eq!(measure::request::schedule_lag(&r), Ok(ms(400)));
}

#[test]
fn a_chunk_without_tokens_carries_no_gap() {
    let r = request(&[(100, 1), (110, 0), (120, 1), (130, 1)]);
    assert_eq!(gaps(&r), (vec![20.0, 10.0], vec![10.0, 10.0, 10.0]));
}

#[test]
fn choices_have_timelines_of_their_own() {
    let mut r = request(&[(100, 1), (105, 1), (150, 1), (165, 1)]);
    r.chunks.edit()[1].choice = 1;
    r.chunks.edit()[3].choice = 1;
    assert_eq!(gaps(&r).1, vec![50.0, 60.0]);
    assert_eq!(ttft(&r, View::User), Ok(ms(100)));
    assert_eq!(e2e(&r, View::User), Ok(ms(165)));
    // (50 + 60) ms over the two tokens after the first of each.
    close(tpot(&r).unwrap(), 55e6, 1e-3);
    assert_eq!(max_gap(&r), Ok(ms(60)));
}

#[test]
fn token_sources_in_order() {
    let mut r = request(&[(100, 1), (110, 2), (120, 4)]);
    assert_eq!(output_tokens(&r), Ok((7, TokenSource::Server)));
    r.output.usage = None;
    r.output.retokenised = Some(6);
    assert_eq!(output_tokens(&r), Ok((6, TokenSource::Tokenizer)));
    r.output.retokenised = None;
    assert_eq!(output_tokens(&r), Ok((7, TokenSource::Chunks)));
    // Nothing is credited for what was only asked.
    let mut empty = failed(2);
    empty.output.asked = Some(1024);
    assert_eq!(output_tokens(&empty), Err(Undefined::NoOutput));

    // Spread by text length, one token at least, sum exact.
    r.chunks.edit().iter_mut().for_each(|chunk| chunk.tokens = None);
    r.output.retokenised = Some(10);
    let mut k = Vec::new();
    assert_eq!(chunk_tokens(&r, &mut k), TokenSource::Tokenizer);
    assert_eq!(k, [2, 3, 5]);
    r.output.retokenised = Some(2);
    chunk_tokens(&r, &mut k);
    assert_eq!(k.iter().sum::<u32>(), 2);
    // As many tokens as chunks: one each, whatever their length.
    r.output.retokenised = Some(3);
    chunk_tokens(&r, &mut k);
    assert_eq!(k, [1, 1, 1]);
    r.output.retokenised = None;
    assert_eq!(chunk_tokens(&r, &mut k), TokenSource::Chunks);
    assert_eq!(k, [1, 1, 1]);
    // Thinking that was never sent has no chunk to go to.
    r.output.usage = Some(103);
    r.output.reasoning = Some(100);
    chunk_tokens(&r, &mut k);
    assert_eq!(k, [1, 1, 1]);
}

#[test]
fn a_disagreement_of_counts_is_a_number() {
    let mut r = request(&[(100, 105)]);
    r.output.retokenised = Some(100);
    close(measure::tokens::disagreement(&r).unwrap(), 0.05, 1e-12);
    close(measure(&run(vec![r]), &Analysis::default()).tokens.usage_vs_retokenised.unwrap(), 0.05, 1e-12);
}

#[test]
fn one_slow_and_one_fast_request_pool_differently() {
    // Two tokens 100 ms apart; a hundred tokens 1 ms apart.
    let slow = request(&[(100, 1), (200, 1)]);
    let fast: Vec<(u64, u32)> = (0..100).map(|i| (100 + i, 1)).collect();
    let measures = measure(&run(vec![slow, request(&fast)]), &Analysis::default());
    // ITL: (100 + 99 × 1) / 100; TPOT: (100 + 1) / 2.
    close(measures.metrics[&Metric::Itl].mean.value().unwrap(), 1.99e6, 1.0);
    close(measures.metrics[&Metric::Tpot].mean.value().unwrap(), 50.5e6, 1.0);
}

#[test]
fn one_failure_of_three() {
    // Two good answers with TTFT 100 and 200 ms, one failure, over 2 s.
    let a = request(&[(100, 1), (2000, 1)]);
    let b = request(&[(200, 1), (2000, 1)]);
    let slo = Slo { joint: vec![limit(Metric::Ttft, Op::LessEq, 150e6)], ..Slo::default() };
    let run = run_with(vec![a, b, failed(5)], (Nanos::ZERO, ms(2000)), open(1.0), slo);
    let measures = measure(&run, &Analysis::default());
    let ttft = &measures.metrics[&Metric::Ttft];
    close(ttft.mean.value().unwrap(), 150e6, 1e-3);
    assert_eq!(ttft.n, 2);
    assert_eq!((measures.counts.ok, measures.counts.failed, measures.counts.offered), (2, 1, 3));
    assert_eq!(measures.window.duration, ms(2000));
    close(measures.throughput.requests_per_s.unwrap().value, 1.0, 1e-12);
    let samples = Samples::new(&run);
    let result = joint(&samples, &run.header.spec.slo, measures.view, &measures.window, |_| None);
    assert_eq!((result.good, result.offered), (1, 3));
    close(result.goodput_per_s.unwrap(), 0.5, 1e-12);
    close(result.attainment.unwrap().value, 1.0 / 3.0, 1e-12);
}

#[test]
fn a_wrong_answer_is_throughput_but_no_goodput() {
    let mut requests = vec![request(&[(100, 1), (2000, 1)]), request(&[(100, 1), (2000, 1)]), failed(5)];
    requests[1].seq = 1;
    let run = run(requests);
    let measures = measure(&run, &Analysis::default());
    let passed = |r: &Request| Some(r.seq != 1);
    let result = joint(&Samples::new(&run), &Slo::default(), View::User, &measures.window, passed);
    close(result.goodput_per_s.unwrap(), 0.5, 1e-12);
    close(measures.throughput.requests_per_s.unwrap().value, 1.0, 1e-12);
    close(result.attainment.unwrap().value, 1.0 / 3.0, 1e-12);
}

#[test]
fn margins_do_not_give_the_joint_rate() {
    // TTFT within 150 ms: a, b. TPOT within 50 ms: b, c. Both: b.
    let a = request(&[(100, 1), (900, 1)]);
    let b = request(&[(100, 1), (150, 1)]);
    let c = request(&[(960, 1), (1000, 1)]);
    let slo = Slo {
        joint: vec![limit(Metric::Ttft, Op::LessEq, 150e6), limit(Metric::Tpot, Op::LessEq, 50e6)],
        ..Slo::default()
    };
    let run = run_with(vec![a, b, c], (Nanos::ZERO, ms(1000)), open(3.0), slo);
    let measures = measure(&run, &Analysis::default());
    assert_eq!(measures.window.duration, ms(1000));
    let result = joint(&Samples::new(&run), &run.header.spec.slo, View::User, &measures.window, |_| None);
    close(result.attainment.unwrap().value, 1.0 / 3.0, 1e-12);
    close(result.goodput_per_s.unwrap(), 1.0, 1e-12);
    close(result.bounds.0, 1.0 / 3.0, 1e-12);
    close(result.bounds.1, 2.0 / 3.0, 1e-12);
    let (low, high) = measure::slo::joint_bounds(&[0.9, 0.9]);
    close(low, 0.8, 1e-12);
    close(high, 0.9, 1e-12);
}

#[test]
fn limits_mean_what_they_say() {
    let slo = |limit: JointLimit| Slo { joint: vec![limit], ..Slo::default() };
    let r = request(&[(500, 1), (520, 1)]);
    assert!(good(&r, &slo(limit(Metric::Ttft, Op::LessEq, 500e6)), View::User));
    assert!(!good(&r, &slo(limit(Metric::Ttft, Op::Less, 500e6)), View::User));
    // A limit between tokens does not apply to one token; a limit on a token that never came fails.
    let single = request(&[(500, 1)]);
    assert!(good(&single, &slo(limit(Metric::Tpot, Op::LessEq, 1.0)), View::User));
    let mut nothing = request(&[]);
    nothing.state = record::State::Ok;
    assert!(!good(&nothing, &slo(limit(Metric::Ttft, Op::LessEq, 1e18)), View::User));
    let mut plain = request(&[(500, 3)]);
    plain.streamed = false;
    assert!(!good(&plain, &slo(limit(Metric::Ttft, Op::LessEq, 1e18)), View::User));
    assert!(!good(&failed(1), &Slo::default(), View::User));
    assert!(good(&r, &Slo::default(), View::User));
}

#[test]
fn three_quarters_within_the_limit() {
    let mut requests = repeated(150, 10, &[(100, 1), (110, 1)]);
    requests.extend(repeated(50, 40, &[(900, 1), (910, 1)]));
    let slo = Slo { joint: vec![limit(Metric::Ttft, Op::LessEq, 500e6)], ..Slo::default() };
    let run = run_with(requests, (Nanos::ZERO, ms(2000)), open(100.0), slo);
    let measures = measure(&run, &Analysis::default());
    let samples = Samples::new(&run);
    let result = joint(&samples, &run.header.spec.slo, View::User, &measures.window, |_| None);
    close(result.attainment.unwrap().value, 0.75, 1e-12);
    // First intended send 0, last output 49 × 40 + 910 ms.
    assert_eq!(measures.window.duration, ms(2870));
    close(result.goodput_per_s.unwrap(), 150.0 / 2.87, 1e-9);
    close(result.good_tokens_per_s.unwrap(), 300.0 / 2.87, 1e-9);
}

#[test]
fn statistics_over_offered_requests() {
    let marginal_of = |run: &spec::Slo, requests: Vec<Request>| {
        let run = run_with(requests, (Nanos::ZERO, ms(1000)), open(1.0), run.clone());
        let measures = measure(&run, &Analysis::default());
        marginal(&run, &measures, &run.header.spec.slo.marginal[0])
    };
    let slo = |metric, statistic| Slo {
        marginal: vec![MarginalLimit { statistic, metric, op: Op::LessEq, value: 0.0, text: String::new() }],
        ..Slo::default()
    };
    let mut requests = repeated(9, 100, &[(100, 1), (110, 1)]);
    requests.push(shifted(timed_out(30_000), ms(900)));
    let error = marginal_of(&slo(Metric::ErrorRate, Statistic::Whole), requests.clone());
    close(error.value().unwrap(), 0.1, 1e-12);
    let p75 = marginal_of(&slo(Metric::Ttft, Statistic::Percentile(0.75)), requests.clone());
    assert_eq!(p75, Figure::Undefined(Undefined::TooFewSamples { n: 10, needed: 13 }));
    let p60 = marginal_of(&slo(Metric::Ttft, Statistic::Percentile(0.6)), requests.clone());
    assert_eq!(p60.value(), Some(100e6));
    let max = marginal_of(&slo(Metric::Ttft, Statistic::Max), requests.clone());
    assert_eq!(max, Figure::Exceeds(30_000e6));
    let mean = marginal_of(&slo(Metric::Ttft, Statistic::Mean), requests.clone());
    assert_eq!(mean.value(), Some(100e6));
    let rate = marginal_of(&slo(Metric::RequestThroughput, Statistic::Whole), requests);
    // 9 done between 0 and 0.8 + 0.11 s.
    close(rate.value().unwrap(), 9.0 / 0.91, 1e-9);
}

#[test]
fn censored_requests_stay_in_every_denominator() {
    // 36 requests: 32 at 100 ms, 4 cut by a limit of 30 s. p50 is known, p90 lies among the cut.
    let mut requests = repeated(32, 10, &[(100, 1), (110, 1)]);
    requests.extend((0..4).map(|i| shifted(timed_out(30_000), ms(i * 10))));
    let measures = measure(&run(requests), &Analysis::default());
    let ttft = &measures.metrics[&Metric::Ttft];
    assert_eq!(value(ttft.percentile(0.5)), Some(100e6));
    match ttft.percentile(0.9) {
        // Rank 0.9 × 35 = 31.5: half way from the last finite value into the cut ones.
        Some(Figure::Exceeds(bound)) => close(*bound, 0.5 * (100e6 + 30_000e6), 1.0),
        other => panic!("{other:?}"),
    }
    // Beside it, of completed requests, there are too few for p90.
    assert_eq!(ttft.completed[1].1, Figure::Undefined(Undefined::TooFewSamples { n: 32, needed: 36 }));
    assert_eq!(value(Some(&ttft.completed[0].1)), Some(100e6));
    // A failed request's speed is 0: the slow end, not the fast one.
    let speed = &measures.metrics[&Metric::UserTps];
    close(value(speed.percentile(0.5)).unwrap(), 100.0, 1e-9);
    close(value(speed.percentile(0.9)).unwrap(), 100.0, 1e-9);
}

#[test]
fn when_nothing_completed_no_number_is_made_up() {
    let measures = measure(&run((0..10).map(|_| failed(5)).collect()), &Analysis::default());
    let ttft = &measures.metrics[&Metric::Ttft];
    assert_eq!(ttft.percentiles[0].1, Figure::Undefined(Undefined::NoneCompleted));
    assert_eq!(ttft.mean, Figure::Undefined(Undefined::NoneCompleted));
    assert_eq!(measures.throughput.requests_per_s, Err(Undefined::NoSpan));
    let empty = measure(&run(Vec::new()), &Analysis::default());
    assert_eq!(empty.counts, Counts::default());
    // All timed out at 30 s: more is known.
    let measures = measure(&run((0..10).map(|_| timed_out(30_000)).collect()), &Analysis::default());
    assert_eq!(measures.metrics[&Metric::Ttft].percentiles[0].1, Figure::Exceeds(30_000e6));
}

#[test]
fn tokens_of_cut_requests_count_and_of_failed_ones_do_not() {
    // 10 s window; one request half done when it is cut, one that failed after 7 tokens.
    let whole = request(&[(100, 1), (5000, 99)]);
    let mut cut = request(&[(100, 1), (10_000, 49)]);
    cut.state = record::State::Cancelled;
    cut.output.usage = None;
    let mut broken = request(&[(100, 7)]);
    broken.output.usage = None;
    broken.state =
        record::State::Failed { class: record::FailureClass::Truncated, detail: "closed".to_owned() };
    let run = run(vec![whole, cut, broken]);
    let measures = measure(&run, &Analysis::default());
    assert_eq!(measures.window.duration, ms(10_000));
    close(measures.throughput.output_tokens_per_s.unwrap().value, 15.0, 1e-9);
    close(measures.throughput.requests_per_s.unwrap().value, 0.1, 1e-9);
    assert_eq!(measures.tokens.output, 100);
    assert_eq!(measures.tokens.output_of_failed, 7);
    assert_eq!(measure::tokens::cut_output(&run.requests), 50);
    assert_eq!(measures.counts.cancelled, 1);
}

#[test]
fn touching_requests_never_overlap() {
    let span = |from: u64, to: u64| {
        let mut r = request(&[(to, 1)]);
        r.write_begin = Some(ms(from));
        r.intended = ms(from);
        r
    };
    let apart = in_flight_series(&[span(900, 1100), span(1200, 1400)]);
    assert_eq!(apart.peak(ms(0), ms(2000)), 1);
    let touching = in_flight_series(&[span(0, 1000), span(1000, 2000)]);
    assert_eq!(touching.peak(ms(0), ms(3000)), 1);
    close(touching.mean(ms(0), ms(2000)).unwrap(), 1.0, 1e-12);
    close(touching.mean(ms(500), ms(4500)).unwrap(), 1500.0 / 4000.0, 1e-12);
    assert_eq!(touching.mean(ms(5), ms(5)), None);
    let both = in_flight_series(&[span(0, 1000), span(500, 2000)]);
    assert_eq!((both.at(ms(499)), both.at(ms(500)), both.at(ms(1000))), (1, 2, 1));
}

#[test]
fn peak_tokens_count_tokens() {
    // Two requests of 10 chunks of 3 tokens each within the same second.
    let chunks: Vec<(u64, u32)> = (0..10).map(|i| (100 + 100 * i, 3)).collect();
    let run = run(vec![request(&chunks), request(&chunks)]);
    let measures = measure(&run, &Analysis::default());
    close(pictures(&run, &measures).peak_output_tokens_per_s.unwrap(), 60.0, 1e-9);
    assert_eq!(measures.throughput.in_flight_peak, 2);
}

#[test]
fn littles_law() {
    // 10 requests/s of 2.5 s each: 25 in flight.
    let requests = repeated(600, 100, &[(1000, 1), (2500, 1)]);
    let measures = measure(&run(requests), &Analysis::default());
    let little = measures.little.unwrap();
    close(little.lambda_w, 25.0, 25.0 * 0.05);
    // Every request lies inside the window, so both sides are the same number.
    close(little.in_flight, little.lambda_w, 1e-9);
    close(little.tolerance, 1.25 * 2.5 / 62.4 + 0.01, 1e-9);
    assert_eq!(measures.throughput.in_flight_peak, 25);
    close(measures.throughput.gap_cv.unwrap(), 0.0, 1e-12);
    close(measures.throughput.offered_per_s.unwrap(), 600.0 / 59.9, 1e-9);
}

#[test]
fn coordinated_omission_is_seen_from_the_schedule() {
    // One server of 0.5 s, arrivals at 0.1·i for i = 1..8, one in flight at most.
    let requests: Vec<Request> = (1..=8)
        .map(|i| {
            let mut r = request(&[(100 + 500 * i, 1)]);
            r.intended = ms(100 * i);
            r.write_begin = Some(ms(100 + 500 * (i - 1)));
            r
        })
        .collect();
    let measures = measure(&run(requests), &Analysis::default());
    let user = &measures.metrics[&Metric::E2e];
    assert_eq!(measures.view, View::User);
    close(user.mean.value().unwrap(), 1900e6, 1e-3);
    assert_eq!(user.max, Ok(3300e6));
    let server = &measures.other_view[&Metric::E2e];
    assert_eq!((server.min, server.max), (Ok(500e6), Ok(500e6)));
    assert_eq!(server.stddev, Ok(0.0));
}

#[test]
fn warm_up_is_apart() {
    let mut requests = repeated(20, 100, &[(100, 1), (200, 1)]);
    for r in requests.iter_mut().take(5) {
        r.phase = spec::Phase::Warmup;
        r.chunks.edit()[0].arrival += ms(50);
    }
    let run = run_with(requests, (ms(500), ms(1900)), open(10.0), Slo::default());
    let measures = measure(&run, &Analysis::default());
    assert_eq!((measures.warmup.offered, measures.counts.offered), (5, 15));
    assert_eq!(measures.cold_ttft, Ok(ms(150)));
    assert_eq!(measures.metrics[&Metric::Ttft].max, Ok(100e6));
    assert_eq!(measures.window.from, ms(500));
    assert_eq!(measures.window.to, ms(2100));
    assert_eq!(measures.window.planned_span, ms(1400));
}

#[test]
fn client_lag_is_counted_once_a_read() {
    let mut r = request(&[(100, 1), (100, 1), (150, 1)]);
    for (chunk, (read, lag)) in r.chunks.edit().iter_mut().zip([(0, 2), (0, 2), (1, 4)]) {
        chunk.read = read;
        chunk.seen = chunk.arrival + ms(lag);
    }
    let mut blind = request(&[(100, 1)]);
    blind.chunks.edit()[0].kernel = false;
    let measures = measure(&run(vec![r, blind]), &Analysis::default());
    let lag = &measures.metrics[&Metric::ClientLag];
    assert_eq!(lag.n, 2);
    close(lag.mean.value().unwrap(), 3e6, 1e-3);
    assert_eq!(lag.undefined[&Undefined::NoKernelStamp], 1);
}

#[test]
fn steady_output_shows_its_rate() {
    // One token every 10 ms for 10 s.
    let chunks: Vec<(u64, u32)> = (1..=1000).map(|i| (10 * i, 1)).collect();
    let measures = measure(&run(vec![request(&chunks)]), &Analysis::default());
    close(measures.throughput.output_tokens_per_s.unwrap().value, 100.0, 1.0);
}
