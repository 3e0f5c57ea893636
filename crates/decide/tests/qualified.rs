//! Speed and quality in one answer: what is in flight, which goodput counts, and how the process ends.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::healthy_open;
use decide::capacity::{CapacityAnswer, Kind, Measured, ProbeReport, ProbeVerdict, Verdict as Found};
use decide::json::{CapacityDocument, capacity_schema};
use decide::qualified::{AtLoad, Beside, InFlight, Quality};
use quality::gate::{Settings, compare};
use quality::stats::Decision;

fn probe(number: u32, load: f64, in_flight: f64, verdict: ProbeVerdict) -> ProbeReport {
    ProbeReport {
        number,
        kind: Kind::Main,
        load,
        verdict,
        borrowed: false,
        measured: Measured { in_flight: Some(in_flight), ..Measured::default() },
        limits: Vec::new(),
        bracket: None,
    }
}

/// 20 requests a second are held; the probe at 21 had 11.6 in flight.
fn answer(over: &str) -> CapacityAnswer {
    let client = ProbeVerdict::ClientLimited { why: "late".to_owned() };
    CapacityAnswer {
        over: over.to_owned(),
        value: Some(20.0),
        low: Some(19.0),
        high: Some(21.5),
        confidence: 0.95,
        verdict: Found::Resolved,
        limited_by: None,
        goodput_per_s: Some(19.2),
        sentence: "It holds 20 req/s".to_owned(),
        needs: None,
        requests: 1000,
        duration_ns: 1,
        unloaded_ttft_ns: None,
        ramp: Vec::new(),
        curves: Vec::new(),
        probes: vec![
            probe(0, 10.0, 3.0, ProbeVerdict::Pass),
            probe(1, 21.0, 11.6, ProbeVerdict::Fail),
            probe(2, 20.1, 99.0, client),
            probe(3, 19.9, 500.0, ProbeVerdict::Divergent),
        ],
        notes: Vec::new(),
    }
}

fn quality(verdict: Decision, ok: u64, failed: u64) -> Quality {
    let mut report = compare(&[], &[], None, &Settings::default()).unwrap();
    report.verdict = verdict;
    report.exit_code = verdict.exit_code();
    let beside = Some(Beside { ok, failed, folder: "beside".to_owned() });
    let at_load = Some(AtLoad { in_flight: InFlight { questions: 4, beside: 8 }, beside, report });
    Quality { base: "base".to_owned(), suite: "smoke".to_owned(), at_load, why: None }
}

fn joined(answer: &CapacityAnswer, quality: Quality) -> serde_json::Value {
    let header = healthy_open(6.0, 30).header;
    let document = CapacityDocument::new(answer, None, &header.spec, &header.environment);
    let json = document.with_quality(quality).to_json();
    let validator = jsonschema::validator_for(&capacity_schema()).unwrap();
    let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    json
}

#[test]
fn as_many_are_in_flight_as_at_the_nearest_probe_that_speaks_of_the_server() {
    let shared = |answer: &CapacityAnswer| InFlight::at(answer).map(|n| (n.questions, n.beside));
    assert_eq!(shared(&answer("rate")), Some((4, 8)), "11.6 is 12");
    assert_eq!(shared(&answer("users")), Some((4, 8)));
    assert_eq!(shared(&answer("concurrency")), Some((4, 16)), "a concurrency is its own number");
    for (held, wanted) in [(1.0, (1, 0)), (2.0, (1, 1)), (3.0, (1, 2)), (7.9, (3, 4)), (1e9, (4, 65_531))] {
        let one = CapacityAnswer { value: Some(held), ..answer("concurrency") };
        assert_eq!(shared(&one), Some(wanted), "{held}");
    }
    let lower = CapacityAnswer { value: None, low: Some(6.0), ..answer("concurrency") };
    assert_eq!(shared(&lower), Some((3, 3)), "a lower bound is held, too");
    assert_eq!(shared(&CapacityAnswer { value: None, low: None, ..answer("rate") }), None);
    assert_eq!(shared(&CapacityAnswer { probes: Vec::new(), ..answer("rate") }), None);
}

#[test]
fn goodput_is_claimed_for_a_pass_alone_and_the_worse_code_ends_the_process() {
    let unresolved = CapacityAnswer { verdict: Found::Unresolved, ..answer("rate") };
    let limited = CapacityAnswer { verdict: Found::ClientLimited, ..answer("rate") };
    for (verdict, ok, failed, word, code) in [
        (Decision::Pass, 100, 0, "pass", 0),
        (Decision::Pass, 90, 10, "pass", 0),
        // Without its load a PASS says nothing of it; a FAIL does.
        (Decision::Pass, 89, 11, "inconclusive", 5),
        (Decision::Pass, 0, 0, "inconclusive", 5),
        (Decision::Fail, 0, 0, "fail", 1),
        (Decision::Fail, 100, 0, "fail", 1),
        (Decision::Inconclusive, 100, 0, "inconclusive", 5),
    ] {
        let json = joined(&answer("rate"), quality(verdict, ok, failed));
        let case = format!("{verdict:?} {ok}/{failed}");
        assert_eq!(json["quality"]["verdict"], word, "{case}");
        assert_eq!(json["verdict"]["exit_code"], code, "{case}");
        let qualified = if word == "pass" { serde_json::json!(19.2) } else { serde_json::Value::Null };
        assert_eq!(json["quality"]["qualified_goodput_per_s"], qualified, "{case}");
        assert_eq!(json["quality"]["reason"].is_null(), word == "pass", "{case}");
        assert_eq!(json["answer"]["goodput_per_s"], 19.2, "the speed stands");
        for (search, least) in [(&unresolved, 5), (&limited, 3)] {
            let json = joined(search, quality(verdict, ok, failed));
            assert_eq!(json["verdict"]["exit_code"], code.max(least), "{case}");
        }
    }
}

#[test]
fn what_was_not_asked_is_no_verdict() {
    let none = |why: Option<&str>| Quality {
        base: "base".to_owned(),
        suite: "smoke".to_owned(),
        at_load: None,
        why: why.map(str::to_owned),
    };
    let unmet = CapacityAnswer {
        verdict: Found::Unmet,
        value: None,
        low: None,
        goodput_per_s: None,
        ..answer("rate")
    };
    let json = joined(&unmet, none(None));
    assert_eq!((&json["quality"]["verdict"], &json["verdict"]["exit_code"]), (&().into(), &1.into()));
    assert!(
        json["verdict"]["answer"].as_str().unwrap().ends_with("since no load is known to be held"),
        "{json}"
    );
    let json = joined(&answer("rate"), none(Some("the server went away")));
    assert_eq!(
        (&json["quality"]["verdict"], &json["verdict"]["exit_code"]),
        (&"inconclusive".into(), &5.into())
    );
    let sentence = json["verdict"]["answer"].as_str().unwrap();
    assert!(
        sentence.ends_with(
            "; quality at this load: INCONCLUSIVE against base, the server went away, so no qualified goodput"
        ),
        "{sentence}"
    );
}
