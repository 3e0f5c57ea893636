//! The logs of 27 runs, made again from the moments of their samples.

use mlperf::log::{
    ACCURACY, Answer, ENDED, Kept, Labels, Level, Note, PERFORMANCE, Pass, RAN_OUT, RunLog, accuracy, detail,
    max_queries_reached, summary, too_many_open, trace,
};
use mlperf::peak::{Next, Peak};
use mlperf::{Effective, Mode, Results, Sample, Scenario, Schedule, ShortAnswers, Verdict};
use serde_json::Value;
use spec::Nanos;

use crate::oracle::{Case, cases, fields};

/// A run as it went.
pub struct Run {
    samples: Vec<Sample>,
    effective: Effective,
    schedules: Vec<Schedule>,
    timed: Option<(Results, Verdict)>,
    notes: Vec<Note>,
}

/// What is made of the moments of its samples.
pub fn run(case: &Case, all: Vec<Sample>) -> Run {
    let settings = case.settings();
    let effective = Effective::new(&settings, &case.library()).expect("settings");
    let accuracy = matches!(settings.mode, Mode::AccuracyOnly | Mode::SubmissionRun);
    let mut schedules = if accuracy { effective.accuracy() } else { Vec::new() };
    let untimed: usize = schedules.iter().map(|schedule| schedule.samples.len()).sum();
    let mut samples = all[if accuracy { untimed } else { 0 }..].to_vec();
    let mut timed = None;
    if settings.mode != Mode::AccuracyOnly {
        schedules.push(effective.performance());
        from_start(case, &mut samples);
        let results = Results::new(&effective, &samples, ShortAnswers::LikeLoadGen);
        let verdict = Verdict::new(&effective, &results);
        timed = Some((results, verdict));
    }
    let notes = notes(case);
    Run { effective, schedules, timed, notes, samples: all }
}

/// What happened is what LoadGen says, if it says so in our words.
fn notes(case: &Case) -> Vec<Note> {
    let detail = case.file("mlperf_log_detail.txt");
    let issued = fields(detail).into_iter().find(|(key, _)| key == "result_query_count");
    let issued = issued.and_then(|(_, count)| count.as_u64()).unwrap_or(0);
    let known = [
        (Level::Plain, ENDED.to_owned()),
        (Level::Error, RAN_OUT.to_owned()),
        (Level::Error, too_many_open(issued, issued)),
        (Level::Error, max_queries_reached(issued)),
    ];
    let note = |(level, text): (Level, String)| Note { at: Nanos::ZERO, level, text };
    known.into_iter().filter(|(_, text)| detail.contains(text.as_str())).map(note).collect()
}

/// Moments are kept from the first query on; where a query is due when it goes out, LoadGen counts from a
/// little before. How little is what its own rates over that time say, as far as their digits go;
/// everything else must follow.
fn from_start(case: &Case, samples: &mut [Sample]) {
    let zero = samples[0].scheduled;
    let last = samples[samples.len() - 1].scheduled.saturating_since(zero);
    let detail = fields(case.file("mlperf_log_detail.txt"));
    let tokens: u64 = samples.iter().filter_map(|sample| sample.tokens).sum();
    let (queries, tokens) = ((samples.len() - 1) as f64, tokens as f64);
    let query = samples[samples.len() - 1].query;
    let answered = samples.iter().filter(|sample| sample.query == query).filter_map(|sample| sample.latency);
    let after = answered.max().unwrap_or_default().as_secs_f64();
    let (mut low, mut high) = (0.0, f64::INFINITY);
    // `rate` of `count` over the time up to `after` the last query went out, known to `half`.
    let mut narrow = |count: f64, rate: f64, half: f64, after: f64| {
        if rate > half && count > 0.0 {
            low = f64::max(low, count / (rate + half) - after);
            high = f64::min(high, count / (rate - half) - after);
        }
    };
    for (key, count, after) in [
        ("result_qps_with_loadgen_overhead", queries, 0.0),
        ("result_token_throughput_with_loadgen_overhead", tokens, 0.0),
        ("result_completed_tokens_per_second", tokens, after),
    ] {
        let rate = detail.iter().find(|(name, _)| name == key).and_then(|(_, rate)| rate.as_f64());
        let rate = rate.filter(|rate| *rate > 0.0).unwrap_or(f64::NAN);
        narrow(count, rate, 0.5 * 10_f64.powf(rate.log10().floor() - 5.0), after);
    }
    for (name, count) in [("QPS w/ loadgen overhead", queries), ("TPS w/ loadgen overhead", tokens)] {
        let line = case.file("mlperf_log_summary.txt").lines().find(|line| line.starts_with(name));
        let rate = line.and_then(|line| line.rsplit_once(": ")?.1.parse().ok()).unwrap_or(f64::NAN);
        narrow(count, rate, 0.005, 0.0);
    }
    let waits = case.settings().scenario != Scenario::Server && high.is_finite();
    let before =
        if waits { Nanos::from_secs_f64((low + high) / 2.0).saturating_since(last) } else { Nanos::ZERO };
    assert!(before < Nanos::from_micros(500) + Nanos(last.0 / 100_000), "{}: {before:?}", case.name);
    for sample in samples {
        sample.scheduled = sample.scheduled.saturating_since(zero) + before;
    }
}

/// Summary and detail.
pub fn written(run: &Run, case: &Case) -> (String, String) {
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
        let order: Vec<u32> = run(case, case.samples())
            .schedules
            .iter()
            .flat_map(|schedule| schedule.samples.clone())
            .collect();
        let sent: Vec<u32> = case.samples().iter().map(|sample| sample.index).collect();
        // A run whose next query waits for an answer has more made than it sends.
        assert_eq!(sent, order[..sent.len()], "{}", case.name);
    }
}

#[test]
fn summaries_are_loadgens_byte_for_byte() {
    let mut count = 0;
    for case in cases().iter().filter(|case| same_case(case)) {
        let (ours, _) = written(&run(case, case.samples()), case);
        assert_eq!(ours, case.file("mlperf_log_summary.txt"), "{}", case.name);
        count += 1;
    }
    assert_eq!(count, 27);
}

#[test]
fn details_are_loadgens_field_for_field() {
    for case in cases().iter().filter(|case| same_case(case)) {
        let (_, ours) = written(&run(case, case.samples()), case);
        same_logs(case, &ours);
    }
}

/// Field for field.
pub fn same_logs(case: &Case, ours: &str) {
    let (ours, theirs) = (fields(ours), fields(case.file("mlperf_log_detail.txt")));
    let keys = |list: &[(String, Value)]| list.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&ours), keys(&theirs), "{}", case.name);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs, "{}", case.name);
    }
}

/// What the driver answers: whole numbers from 1000 + sample on.
fn payload(case: &Case, index: u32) -> Vec<u32> {
    let count = case.delay("tok_base", 5) + u64::from(index) % case.delay("tok_mod", 7);
    (0..count as u32).map(|k| 1000 + index + k).collect()
}

/// The accuracy log, made again.
pub fn answers_of(case: &Case, run: &Run) -> String {
    let everything: usize = match run.effective.mode {
        Mode::AccuracyOnly => usize::MAX,
        Mode::SubmissionRun => {
            run.schedules.iter().rev().skip(1).map(|schedule| schedule.samples.len()).sum()
        }
        _ => 0,
    };
    let mut kept = Kept::new(&run.effective);
    let mut done: Vec<(Nanos, Answer)> = Vec::new();
    for (sequence, sample) in run.samples.iter().enumerate() {
        let chosen = kept.next_sample();
        if sequence >= everything && !chosen {
            continue;
        }
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
    accuracy(&run.effective, &answers)
}

#[test]
fn accuracy_logs_are_loadgens_byte_for_byte() {
    for case in cases().iter().filter(|case| same_case(case)) {
        let run = run(case, case.samples());
        assert_eq!(answers_of(case, &run), case.file("mlperf_log_accuracy.json"), "{}", case.name);
    }
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

/// The rates, the words and the moments of every run of a search.
#[test]
fn a_search_for_the_peak_tries_loadgens_rates() {
    let all = cases();
    let case = all.iter().find(|case| case.name == "find_peak").expect("the case");
    let detail = fields(case.file("mlperf_log_detail.txt"));
    let of =
        |name: &str| detail.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect();
    let said: Vec<Value> = of("generic_message");
    let durations: Vec<Value> = of("generated_query_duration");
    let counts: Vec<Value> = of("generated_query_count");
    let mut effective = Effective::new(&case.settings(), &case.library()).expect("settings");
    let mut peak = Peak::new(&effective).expect("a search");
    let mut next = Next::Try(peak.first());
    let mut runs = 0;
    while let Next::Try(rate) = next {
        effective.target_qps = rate;
        let schedule = effective.performance();
        assert_eq!(schedule.duration.0, durations[runs], "{rate}");
        assert_eq!(schedule.at.len() as u64, counts[runs], "{rate}");
        // Its server holds a little more than 445.3 queries per second.
        next = peak.after(rate < 446.0);
        runs += 1;
    }
    assert_eq!((next, runs), (Next::Found(445.3125), durations.len()));
    let said: Vec<&str> = said.iter().skip(1).filter_map(Value::as_str).collect();
    assert_eq!(peak.notes, said);
}
