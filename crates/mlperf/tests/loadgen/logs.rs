//! The logs of 27 runs, made again from the moments of their samples.

use mlperf::log::{
    ACCURACY, Answer, ENDED, Kept, Labels, Level, Note, PERFORMANCE, Pass, RAN_OUT, RunLog, accuracy, detail,
    max_queries_reached, summary, too_many_open, trace,
};
use mlperf::{Effective, Mode, Results, Sample, Scenario, Schedule, ShortAnswers, Verdict};
use serde_json::Value;
use spec::Nanos;

use crate::oracle::{Case, cases, fields};

/// A run as it went.
struct Run {
    effective: Effective,
    schedules: Vec<Schedule>,
    timed: Option<(Results, Verdict)>,
    notes: Vec<Note>,
}

fn run(case: &Case) -> Run {
    let settings = case.settings();
    let effective = Effective::new(&settings, &case.library()).expect("settings");
    let accuracy = matches!(settings.mode, Mode::AccuracyOnly | Mode::SubmissionRun);
    let mut schedules = if accuracy { effective.accuracy() } else { Vec::new() };
    let untimed: usize = schedules.iter().map(|schedule| schedule.samples.len()).sum();
    let mut samples = case.samples().split_off(if accuracy { untimed } else { 0 });
    let mut timed = None;
    if settings.mode != Mode::AccuracyOnly {
        schedules.push(effective.performance());
        from_start(case, &mut samples);
        let results = Results::new(&effective, &samples, ShortAnswers::LikeLoadGen);
        let verdict = Verdict::new(&effective, &results);
        timed = Some((results, verdict));
    }
    let (level, text) = match (case.name.as_str(), settings.scenario) {
        ("ss_ran_out", _) => (Level::Error, RAN_OUT.to_owned()),
        ("server_max_async", _) => (Level::Error, too_many_open(21, 21)),
        ("server_max_query", _) => (Level::Error, max_queries_reached(470)),
        (_, Scenario::Server) => (Level::Plain, String::new()),
        _ => (Level::Plain, ENDED.to_owned()),
    };
    let notes = if text.is_empty() { Vec::new() } else { vec![Note { at: Nanos::ZERO, level, text }] };
    Run { effective, schedules, timed, notes }
}

/// Moments are kept from the first query on; where a query is due when it goes out, LoadGen counts from a
/// little before. How little is what its own rate says, to six digits; everything else must follow.
fn from_start(case: &Case, samples: &mut [Sample]) {
    let zero = samples[0].scheduled;
    let last = samples[samples.len() - 1].scheduled.saturating_since(zero);
    let rate = fields(case.file("mlperf_log_detail.txt"))
        .into_iter()
        .find(|(key, _)| key == "result_qps_with_loadgen_overhead")
        .and_then(|(_, value)| value.as_f64());
    let before = rate.map_or(Nanos::ZERO, |rate| {
        let issued = Nanos::from_secs_f64((samples.len() - 1) as f64 / rate);
        // Half a unit of the sixth digit at most below; never more than the first query took to go out.
        let before = issued.saturating_since(last);
        assert!(before < Nanos::from_micros(100) + Nanos(last.0 / 100_000), "{}: {before:?}", case.name);
        before
    });
    for sample in samples {
        sample.scheduled = sample.scheduled.saturating_since(zero) + before;
    }
}

fn written(run: &Run, case: &Case) -> (String, String) {
    let labels = Labels { build: "test".into(), system: "PySUT".into(), ..Labels::default() };
    let library = case.library();
    let count = run.schedules.len();
    let mut passes = Vec::new();
    for (i, schedule) in run.schedules.iter().enumerate() {
        let timed = if i + 1 == count { run.timed.as_ref() } else { None };
        let opening = match (timed, i) {
            (Some(_), _) => Some(PERFORMANCE),
            (None, 0) => Some(ACCURACY),
            _ => None,
        };
        passes.push(Pass {
            opening,
            schedule,
            notes: if timed.is_some() { run.notes.clone() } else { Vec::new() },
            began: Nanos::ZERO,
            ended: Nanos::ZERO,
            power: (String::new(), String::new()),
            outcome: timed.map(|(results, verdict)| (results, verdict)),
        });
    }
    let log = RunLog { labels: &labels, library: &library, effective: &run.effective, passes };
    (summary(&log), detail(&log))
}

fn same_case(case: &Case) -> bool {
    case.name != "find_peak"
}

#[test]
fn samples_went_out_in_the_order_of_the_schedule() {
    for case in cases().iter().filter(|case| same_case(case)) {
        let order: Vec<u32> =
            run(case).schedules.iter().flat_map(|schedule| schedule.samples.clone()).collect();
        let sent: Vec<u32> = case.samples().iter().map(|sample| sample.index).collect();
        // A run whose next query waits for an answer has more made than it sends.
        assert_eq!(sent, order[..sent.len()], "{}", case.name);
    }
}

#[test]
fn summaries_are_loadgens_byte_for_byte() {
    let mut count = 0;
    for case in cases().iter().filter(|case| same_case(case)) {
        let (ours, _) = written(&run(case), case);
        assert_eq!(ours, case.file("mlperf_log_summary.txt"), "{}", case.name);
        count += 1;
    }
    assert_eq!(count, 27);
}

#[test]
fn details_are_loadgens_field_for_field() {
    for case in cases().iter().filter(|case| same_case(case)) {
        let (_, ours) = written(&run(case), case);
        let (ours, theirs) = (fields(&ours), fields(case.file("mlperf_log_detail.txt")));
        let keys = |list: &[(String, Value)]| list.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
        assert_eq!(keys(&ours), keys(&theirs), "{}", case.name);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{}", case.name);
        }
    }
}

/// What the driver answers: whole numbers from 1000 + sample on.
fn payload(case: &Case, index: u32) -> Vec<u32> {
    let count = case.delay("tok_base", 5) + u64::from(index) % case.delay("tok_mod", 7);
    (0..count as u32).map(|k| 1000 + index + k).collect()
}

#[test]
fn accuracy_logs_are_loadgens_byte_for_byte() {
    let mut kept_in_timed = 0;
    for case in cases().iter().filter(|case| same_case(case)) {
        let run = run(case);
        let everything: usize = match run.effective.mode {
            Mode::AccuracyOnly => usize::MAX,
            Mode::SubmissionRun => run.schedules[0].samples.len(),
            _ => 0,
        };
        let mut kept = Kept::new(&run.effective);
        let mut done: Vec<(Nanos, Answer)> = Vec::new();
        for (sequence, sample) in case.samples().iter().enumerate() {
            let chosen = kept.next_sample();
            // LoadGen's zero offset of unseeded runs would keep a sample of share 0 by accident alone.
            if sequence >= everything && !chosen {
                continue;
            }
            kept_in_timed += usize::from(sequence >= everything);
            let bytes: Vec<u8> = payload(case, sample.index).iter().flat_map(|n| n.to_le_bytes()).collect();
            let answer = Answer {
                sequence: sequence as u64,
                index: sample.index,
                first_token: bytes[..4].to_vec(),
                tokens: sample.tokens.unwrap_or(0),
                data: bytes,
            };
            done.push((sample.scheduled + sample.latency.expect("answered"), answer));
        }
        done.sort_by_key(|(at, answer)| (*at, answer.sequence));
        let answers: Vec<Answer> = done.into_iter().map(|(_, answer)| answer).collect();
        assert_eq!(
            accuracy(&run.effective, &answers),
            case.file("mlperf_log_accuracy.json"),
            "{}",
            case.name
        );
    }
    assert!(kept_in_timed > 10, "{kept_in_timed}");
}

#[test]
fn traces_hold_loadgens_events_of_samples() {
    let all = cases();
    let case = all.iter().find(|case| case.name == "ss_tiny_trace").expect("the case");
    let ours = trace(Scenario::SingleStream, &case.samples(), Nanos::from_micros(50), "test", 1);
    let _: Value = serde_json::from_str(&ours).expect("valid JSON");
    let events = |text: &str| -> Vec<Value> {
        let of_sample = |line: &&str| line.contains("\"name\":\"Sample\"");
        let read = |line: &str| {
            let mut event: Value = serde_json::from_str(line.trim_end_matches(',')).expect(line);
            (event["ts"], event["pid"]) = (Value::Null, Value::Null);
            event
        };
        text.lines().filter(of_sample).map(read).collect()
    };
    let ours = events(&ours);
    assert_eq!(ours.len(), 10);
    assert_eq!(ours, events(case.file("mlperf_log_trace.json")));
}
