//! A self-check: rungs, ladders, words.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::*;
use decide::json::SelfCheckDocument;
use decide::self_check::*;
use measure::StampErrors;
use proptest::prelude::*;
use record::{ByStamp, Ceiling, EndedBy, Run, SelfCheck, Spread, State};
use spec::Nanos;

fn rung(run: &Run) -> Rung {
    judge(run, Some(ms(10.0))).rung
}

/// The engine's processor time is known: a run against a simulated target.
fn with_server(mut run: Run, share: f64) -> Run {
    for sample in &mut run.machine {
        sample.target = Some(Nanos((sample.at.0 as f64 * share) as u64));
    }
    run
}

#[test]
fn a_load_that_was_sent_heard_and_answered_holds() {
    let judged = judge(&healthy_open(6.0, 30), Some(ms(10.0)));
    assert_eq!(judged.rung, Rung::Holds);
    assert!((judged.busiest_lane.unwrap() - 0.048).abs() < 1e-9);
    assert_eq!(judged.instrument.heartbeat_max, Ok(ms(1.5)));
    assert!(!judged.steal.is_empty());
}

#[test]
fn who_was_the_bottleneck() {
    // A lane that used more than half of its core is this side's, whatever the server did.
    let mut busy = with_server(healthy_open(6.0, 30), 0.95);
    busy.lanes.iter_mut().for_each(|sample| sample.busy = ms(140.0));
    assert!(matches!(rung(&busy), Rung::Client(why) if why.starts_with("lane busy: busiest second 56")));
    // Other work on both cores.
    let mut noisy = with_server(healthy_open(6.0, 30), 0.1);
    noisy.machine.iter_mut().for_each(|sample| sample.busy = Nanos(sample.at.0 * 2));
    assert!(matches!(rung(&noisy), Rung::Machine(why) if why.starts_with("machine: others ")));
    // A lane that stood still, on a machine with time to spare.
    let mut stalled = with_server(healthy_open(6.0, 30), 0.1);
    stalled.lanes[40].heartbeat_max = ms(60.0);
    assert!(matches!(rung(&stalled), Rung::Client(why) if why.starts_with("lane stall: ")));
    // The engine was told 5 ms and needed 10: the stall may be its doing if it used up its core.
    let slow = |share: f64| {
        let mut run = with_server(healthy_open(6.0, 30), share);
        run.lanes[40].heartbeat_max = ms(60.0);
        judge(&run, Some(ms(5.0))).rung
    };
    assert!(matches!(slow(0.95), Rung::Server(why) if why.ends_with("for a token in place of 5.00\u{a0}ms")));
    assert!(matches!(slow(0.2), Rung::Client(_)));
    // Nobody of this side failed, and the engine did not answer.
    let mut lost = healthy_open(6.0, 30);
    let n = measured(&mut lost).count();
    for request in measured(&mut lost).take(5) {
        request.state = State::Cancelled;
    }
    assert_eq!(rung(&lost), Rung::Server(format!("the server answered {} of {n}\u{a0}requests", n - 5)));
}

/// Climbs a ladder on which loads up to `truth` hold.
fn climb(mut ladder: Ladder, truth: u64) -> (Ceiling, Vec<u64>) {
    let mut tried = Vec::new();
    while let Some(load) = ladder.next_load() {
        assert!(tried.len() < 64, "{tried:?}");
        tried.push(load);
        ladder.note(if load <= truth { Rung::Holds } else { Rung::Client("lane busy".to_owned()) });
    }
    (ladder.ceiling(), tried)
}

#[test]
fn a_ladder_doubles_then_goes_between() {
    let (ceiling, tried) = climb(Ladder::new(1_000, 64_000, 2), 5_000);
    // What fails is tried twice; √(4,000 · 8,000) = 5,657, √(4,000 · 5,657) = 4,757.
    assert_eq!(tried, [2_000, 4_000, 8_000, 8_000, 5_657, 5_657, 4_757]);
    let why = "lane busy".to_owned();
    assert_eq!(ceiling, Ceiling { holds: 4_757, fails: Some(5_657), ended_by: EndedBy::Client, why });
    let (ceiling, tried) = climb(Ladder::new(64, 200, 2), 1_000);
    assert_eq!((tried, ceiling.holds, ceiling.ended_by), (vec![128, 200], 200, EndedBy::Ladder));
}

#[test]
fn one_disturbance_and_the_end_of_the_server() {
    let mut ladder = Ladder::new(100, 10_000, 1);
    ladder.note(Rung::Machine("machine: others 90 %".to_owned()));
    assert_eq!(ladder.next_load(), Some(200), "again");
    ladder.note(Rung::Holds);
    assert_eq!(ladder.next_load(), Some(400));
    ladder.note(Rung::Server("late".to_owned()));
    assert_eq!(ladder.next_load(), None);
    let ceiling = ladder.ceiling();
    assert_eq!((ceiling.holds, ceiling.fails, ceiling.ended_by), (200, None, EndedBy::Server));
    assert_eq!(why_ended(&ceiling), "the server ended first: late");
    let mut twice = Ladder::new(100, 10_000, 1);
    twice.note(Rung::Machine("a".to_owned()));
    twice.note(Rung::Machine("b".to_owned()));
    assert_eq!((twice.next_load(), twice.ceiling().ended_by), (None, EndedBy::Machine));
    assert_eq!(first_rung(&Rung::Holds, 64).holds, 64);
    assert_eq!(first_rung(&Rung::Client("x".to_owned()), 64).fails, Some(64));
}

proptest! {
    #[test]
    fn a_ladder_ends_and_brackets_the_truth(start in 1_u64..2_000, truth in 1_u64..200_000, between in 0_u32..6) {
        let truth = truth.max(start);
        let (ceiling, _) = climb(Ladder::new(start, 64_000, between), truth);
        prop_assert!(ceiling.holds <= truth && ceiling.holds >= start);
        match ceiling.fails {
            Some(fails) => prop_assert!(fails > truth && ceiling.ended_by == EndedBy::Client),
            None => prop_assert!(ceiling.holds >= 64_000.min(truth) && ceiling.ended_by == EndedBy::Ladder),
        }
    }
}

fn spread(p50_ns: u64) -> Option<Spread> {
    Some(Spread { n: 500, p50_ns: Some(p50_ns), p99_ns: None, p99_9_ns: None, max_ns: 9 * p50_ns })
}

fn seen(sending: &Run) -> Seen {
    let errors = StampErrors {
        stamp: ByStamp { kernel: spread(10_000), user: spread(50_000) },
        latency: ByStamp { kernel: spread(30_000), user: spread(90_000) },
        gap: ByStamp { kernel: spread(5_000), user: spread(40_000) },
        compared: 64,
    };
    Seen {
        measured: "2026-11-30T09:00:00.000Z".to_owned(),
        machine: a_machine(),
        quick: false,
        server: "the simulated engine".to_owned(),
        send_rate_per_s: 1_000.0,
        tokens_per_s: 50.0,
        sending: judge(sending, None),
        streaming: judge(&healthy_open(6.0, 30), Some(ms(10.0))),
        errors,
        rate: Ceiling {
            holds: 5_657,
            fails: Some(8_000),
            ended_by: EndedBy::Client,
            why: "lane busy".to_owned(),
        },
        streams: Ceiling { holds: 512, fails: None, ended_by: EndedBy::Server, why: "late".to_owned() },
        steal: judge(sending, None).steal,
    }
}

#[test]
fn a_quiet_machine_in_words() {
    let check = self_check(seen(&healthy_open(6.0, 30)));
    assert!(check.is_quiet());
    assert_eq!(
        (check.heartbeat_max_ns, check.steal_share, check.steal_spells),
        (Some(1_500_000), Some(0.0), 0)
    );
    assert_eq!(believes_above(&check), Some(300_000));
    let verdict = verdict(&check);
    assert_eq!(verdict.exit_code, 0);
    assert_eq!(
        verdict.answer.replace('\u{a0}', " "),
        "This machine can believe latencies above 300 µs. With one lane it sends up to 5,657 requests/s on time \
         and hears at least 512 streams of 50 tokens/s on time."
    );
}

#[test]
fn a_noisy_machine_is_not_to_be_believed() {
    let mut run = healthy_open(6.0, 30);
    run.machine.iter_mut().for_each(|sample| {
        sample.busy = Nanos(sample.at.0 * 2);
        sample.steal = Nanos(sample.at.0 / 5);
    });
    let check = self_check(seen(&run));
    // A fifth of a core in every second is a tenth of two.
    assert!((check.steal_share.unwrap() - 0.1).abs() < 1e-9 && check.steal_spells >= 30);
    let verdict = verdict(&check);
    assert_eq!(verdict.exit_code, 3);
    assert!(verdict.answer.contains("a small rate does not hold (machine: others "), "{}", verdict.answer);
    // Nothing to compare is noise as well.
    let blind = self_check(Seen { errors: StampErrors::default(), ..seen(&healthy_open(6.0, 30)) });
    assert!(!blind.is_quiet());
    assert_eq!(believes_above(&blind), None);
}

fn against(can: Can, headroom: Option<f64>) -> Against {
    Against {
        target: "http://server:8000".to_owned(),
        asked: Asked { rate_per_s: Some(400.0), concurrency: None, isl: 512, osl: 256 },
        shape: Shape {
            events: 256,
            tokens_per_event: 1.0,
            bytes_per_event: 268.0,
            answer_ns: 2_000_000_000,
            round_trip_ns: 200_000,
        },
        in_flight: 800.0,
        events_per_s: 102_400.0,
        can,
        headroom,
        limited_by: "the lane comes next".to_owned(),
    }
}

#[test]
fn can_it_offer_that() {
    let mut check = self_check(seen(&healthy_open(6.0, 30)));
    check.cpu_per_request_ns = Some(40_000.0);
    check.cpu_per_event_ns = Some(8_000.0);
    // 400 × 40 µs + 102,400 × 8 µs = 0.016 + 0.8192 s of each second.
    assert!((cores_needed(&check, 400.0, 102_400.0).unwrap() - 0.8352).abs() < 1e-9);
    let holds = judge(&healthy_open(6.0, 30), Some(ms(10.0)));
    let (can, headroom, words) = replayed(&holds, 400.0);
    // The limit is half a core, the busiest second took 4.8 %.
    assert!(can == Can::Yes && (headroom.unwrap() - 0.5 / 0.048).abs() < 1e-6, "{words}");
    let of = |rung: Rung| Judged { rung, ..holds.clone() };
    assert_eq!(replayed(&of(Rung::Client("send lag".to_owned())), 400.0).0, Can::No);
    assert_eq!(replayed(&of(Rung::Machine("others".to_owned())), 400.0).0, Can::CannotTell);
    let late = of(Rung::Server("late".to_owned()));
    assert_eq!(replayed(&late, 400.0).0, Can::CannotTell);
    // At what an event cost even then, a thousand times as many take more than the core there is.
    let cost = late.instrument.cpu_per_event_ns.unwrap();
    assert_eq!(replayed(&late, 1.1e9 / cost).0, Can::No);
    for (can, headroom, code, answer) in [
        (
            Can::Yes,
            Some(3.0),
            0,
            "Yes: this machine can offer 400 requests/s × 256 tokens to http://server:8000 with room for 3.00 times that; the lane comes next.",
        ),
        (
            Can::No,
            None,
            1,
            "No: this machine cannot offer 400 requests/s × 256 tokens to http://server:8000; the lane comes next.",
        ),
        (
            Can::CannotTell,
            None,
            5,
            "It cannot be told whether this machine can offer 400 requests/s × 256 tokens to http://server:8000; the lane comes next.",
        ),
    ] {
        let verdict = verdict_against(&against(can, headroom));
        assert_eq!((verdict.exit_code, verdict.answer.replace('\u{a0}', " ").as_str()), (code, answer));
    }
}

fn schema_path() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/self-check.schema.json")
}

#[test]
fn the_committed_schema_of_a_self_check_is_the_generated_one() {
    let generated =
        format!("{}\n", serde_json::to_string_pretty(&decide::json::self_check_schema()).unwrap());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(schema_path(), &generated).unwrap();
    }
    let committed = std::fs::read_to_string(schema_path()).unwrap_or_default();
    assert!(
        committed == generated,
        "docs/self-check.schema.json is stale: run this test with UPDATE_SCHEMA=1"
    );
}

#[test]
fn every_document_fits_the_schema_and_the_kept_file_reads_back() {
    let validator = jsonschema::validator_for(&decide::json::self_check_schema()).unwrap();
    let quiet = self_check(seen(&healthy_open(6.0, 30)));
    let blind = self_check(Seen { errors: StampErrors::default(), ..seen(&healthy_open(6.0, 30)) });
    for (check, load) in [(&quiet, None), (&blind, None), (&quiet, Some(against(Can::Yes, Some(3.0))))] {
        let out = SelfCheckDocument::new(check.clone(), Some("/x".to_owned()), load).to_json();
        let errors: Vec<String> =
            validator.iter_errors(&out).map(|e| format!("{e} at {}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        // The document holds all of what is kept.
        assert_eq!(serde_json::from_value::<SelfCheck>(out).unwrap(), *check);
    }
    let mut broken = SelfCheckDocument::new(quiet, None, None).to_json();
    broken["rate"]["ended_by"] = "luck".into();
    assert!(!validator.is_valid(&broken), "a schema that accepts anything would prove nothing");
}
