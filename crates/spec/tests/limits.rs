//! The grammar of limits, by value.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use spec::{AnyLimit, JointLimit, MarginalLimit, Metric, Op, Slo, Statistic};

fn joint(text: &str) -> JointLimit {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}
fn marginal(text: &str) -> MarginalLimit {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}
fn fault(text: &str) -> (String, String) {
    let error = text.parse::<AnyLimit>().unwrap_err();
    (error.message, error.hint.unwrap_or_default())
}

#[test]
fn limits_on_each_request() {
    for (text, metric, op, value, canonical) in [
        ("ttft<=500ms", Metric::Ttft, Op::LessEq, 500e6, "ttft<=500ms"),
        (" TTFT < 0.5 s ", Metric::Ttft, Op::Less, 500e6, "ttft<0.5s"),
        ("max_gap<=1s", Metric::MaxGap, Op::LessEq, 1e9, "max_gap<=1s"),
        ("user_tps>=20", Metric::UserTps, Op::GreaterEq, 20.0, "user_tps>=20"),
        ("user_tps > 20.5 tokens/s", Metric::UserTps, Op::Greater, 20.5, "user_tps>20.5tokens/s"),
        ("e2el<=2m", Metric::E2e, Op::LessEq, 120e9, "e2e<=2m"),
        ("time-to-first-token≤500ms", Metric::Ttft, Op::LessEq, 500e6, "ttft<=500ms"),
        ("schedule_lag<1ms", Metric::ScheduleLag, Op::Less, 1e6, "schedule_lag<1ms"),
    ] {
        let limit = joint(text);
        assert_eq!((limit.metric, limit.op, limit.text.as_str()), (metric, op, canonical));
        assert!((limit.value - value).abs() < 1e-9, "{text}: {}", limit.value);
        // The canonical text says the same.
        assert_eq!(joint(&limit.text), limit);
    }
}

#[test]
fn limits_on_a_statistic() {
    for (text, statistic, metric, value, canonical) in [
        ("p99(tpot)<=50ms", Statistic::Percentile(0.99), Metric::Tpot, 50e6, "p99(tpot)<=50ms"),
        ("p99.9( ttft ) < 2s", Statistic::Percentile(0.999), Metric::Ttft, 2e9, "p99.9(ttft)<2s"),
        ("P50(itl)<=20ms", Statistic::Percentile(0.5), Metric::Itl, 20e6, "p50(itl)<=20ms"),
        ("median(ttft)<=1s", Statistic::Percentile(0.5), Metric::Ttft, 1e9, "p50(ttft)<=1s"),
        ("mean(e2e)<2s", Statistic::Mean, Metric::E2e, 2e9, "mean(e2e)<2s"),
        ("max(max_gap)<=1s", Statistic::Max, Metric::MaxGap, 1e9, "max(max_gap)<=1s"),
        ("error_rate<=1%", Statistic::Whole, Metric::ErrorRate, 0.01, "error_rate<=1%"),
        ("error_rate<0.001", Statistic::Whole, Metric::ErrorRate, 0.001, "error_rate<0.001"),
        (
            "output_token_throughput>=500",
            Statistic::Whole,
            Metric::OutputTokenThroughput,
            500.0,
            "output_token_throughput>=500",
        ),
        (
            "request_throughput>=10/s",
            Statistic::Whole,
            Metric::RequestThroughput,
            10.0,
            "request_throughput>=10/s",
        ),
        ("p5(user_tps)>=20", Statistic::Percentile(0.05), Metric::UserTps, 20.0, "p5(user_tps)>=20"),
    ] {
        let limit = marginal(text);
        assert_eq!(
            (limit.statistic, limit.metric, limit.text.as_str()),
            (statistic, metric, canonical),
            "{text}"
        );
        assert!((limit.value - value).abs() < 1e-12 * value.max(1.0), "{text}: {}", limit.value);
        assert_eq!(marginal(&limit.text), limit);
    }
}

#[test]
fn a_percentile_is_the_nearest_double_of_its_text() {
    for (text, want) in [("p99.9", 0.999), ("p99.99", 0.9999), ("p7", 0.07), ("p29", 0.29)] {
        let parsed: Statistic = text.parse().unwrap();
        assert_eq!(parsed, Statistic::Percentile(want));
        assert_eq!(parsed.to_string(), text);
    }
    for bad in ["p0", "p100", "p", "p-1", "p1e1", "p99%", "q99", "", "p1.2.3"] {
        assert!(bad.parse::<Statistic>().is_err(), "{bad}");
    }
}

#[test]
fn a_limit_is_sorted_by_its_text() {
    let mut slo = Slo::default();
    assert!(slo.is_empty());
    for text in ["ttft<=500ms", "p99(tpot)<=50ms", "error_rate<=1%", "e2e<10s"] {
        slo.add(text).unwrap();
    }
    let joint: Vec<_> = slo.joint.iter().map(|l| l.text.as_str()).collect();
    let marginal: Vec<_> = slo.marginal.iter().map(|l| l.text.as_str()).collect();
    assert_eq!(joint, ["ttft<=500ms", "e2e<10s"]);
    assert_eq!(marginal, ["p99(tpot)<=50ms", "error_rate<=1%"]);
}

#[test]
fn faults_say_what_to_write() {
    for (text, message, hint) in [
        ("p99(tpott)<=50ms", "`p99(tpott)<=50ms` names no metric", "did you mean `p99(tpot)<=50ms`?"),
        ("ttft<=500", "is a time and needs a unit", "`ttft<=500ms` or `ttft<=500s`"),
        ("p99(e2e)<2", "is a time and needs a unit", "`p99(e2e)<2ms` or `p99(e2e)<2s`"),
        ("latency<=2s", "names no metric", "`e2e` is the time to the last output"),
        ("goodput>=2", "names no metric", "`attain`"),
        ("itl<=50ms", "pooled over all requests", "`p99(itl)<=50ms`"),
        ("itl<=50ms", "no limit on each request", "`max_gap<=50ms`"),
        ("client_lag<=1ms", "pooled", "`p99(client_lag)<=1ms`"),
        ("p99(error_rate)<=1%", "one number of the whole run", "`error_rate<=1%`"),
        ("ttft>=500ms", "an upper one", "`ttft<=500ms`"),
        ("request_throughput<10", "a lower one", "`request_throughput>10`"),
        ("ttft_p95<=1s", "names no metric", "`p95(ttft)<=1s`"),
        ("p95_max_gap<=1s", "names no metric", "`p95(max_gap)<=1s`"),
        ("error_rate<=5", "is not a share", "`5%`"),
        ("error_rate<=200%", "is not a share", ""),
        ("ttft=500ms", "is not a limit", "< <= > >="),
        ("ttft<<500ms", "is not a limit", "< <= > >="),
        ("ttft", "is not a limit", ""),
        ("p101(ttft)<=1s", "no statistic", "`max`"),
        ("p99(ttft<=1s", "is not a limit", ""),
        ("user_tps>=20ms", "not a number per second", ""),
        ("user_tps>=-1", "not a number per second", ""),
        ("user_tps>=inf", "not a number per second", ""),
        ("ttft<=-5ms", "is not a duration", ""),
        ("ttft<=", "is not a duration", ""),
        ("", "is not a limit", ""),
    ] {
        let (got, advice) = fault(text);
        assert!(got.contains(message), "{text}: {got}");
        assert!(advice.contains(hint), "{text}: {advice}");
    }
}

#[test]
fn a_limit_in_the_wrong_list_is_named() {
    assert!("p99(ttft)<=1s".parse::<JointLimit>().unwrap_err().message.contains("statistic"));
    assert!("ttft<=1s".parse::<MarginalLimit>().unwrap_err().hint.unwrap().contains("joint"));
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,40}", head in "(p99|max|x)?[(]?(ttft|itl|µ|e2e)?[)]?(<|<=|≥|>|=)?") {
        let _ = text.parse::<AnyLimit>();
        let _ = format!("{head}{text}").parse::<AnyLimit>();
        let _ = format!("{text}{head}").parse::<AnyLimit>();
    }
}
