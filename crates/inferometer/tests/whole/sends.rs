//! When requests really left, against when and how the plan wanted them to.

use record::Request;
use spec::{Nanos, Phase};

use crate::harness::{Sim, only_run, percentile, run, signal};
use crate::truth::truth;

/// An engine that answers at once.
pub const INSTANT: &str = "sim://fixed?ttft=1ms&tpot=1ms";

/// Requests of the measurement.
pub fn measured(run: &record::Run) -> Vec<&Request> {
    run.requests.iter().filter(|r| r.phase == Phase::Measure).collect()
}

/// Nanoseconds from the intended send to the first byte written.
pub fn lateness(requests: &[&Request]) -> Vec<f64> {
    let late = |r: &&Request| r.write_begin.expect("sent").0 as f64 - r.intended.0 as f64;
    requests.iter().map(late).collect()
}

/// The largest distance of sent / planned from 1 in any window of 5 s.
pub fn worst_rate(requests: &[&Request]) -> f64 {
    let window = Nanos::from_secs(5);
    let mut sent: Vec<Nanos> = requests.iter().filter_map(|r| r.write_begin).collect();
    sent.sort_unstable();
    let count = |list: &[Nanos], from: Nanos| {
        list.partition_point(|at| *at < from + window) - list.partition_point(|at| *at < from)
    };
    let intended: Vec<Nanos> = requests.iter().map(|r| r.intended).collect();
    let last = intended.last().copied().unwrap_or_default().saturating_since(window);
    let starts = (0..).map(|i| Nanos::from_millis(250 * i)).take_while(|from| *from <= last);
    starts
        .map(|from| (count(&sent, from) as f64 / count(&intended, from) as f64 - 1.0).abs())
        .fold(0.0, f64::max)
}

/// Kolmogorov's distance of the gaps between real sends from Exp(rate), and how many gaps there are.
pub fn distance_from_exponential(requests: &[&Request], rate: f64) -> (f64, f64) {
    let mut sent: Vec<f64> = requests.iter().map(|r| r.write_begin.expect("sent").as_secs_f64()).collect();
    sent.sort_by(f64::total_cmp);
    let mut gaps: Vec<f64> = sent.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let off = |(i, gap): (usize, &f64)| {
        let law = 1.0 - (-rate * gap).exp();
        (law - i as f64 / n).max((i as f64 + 1.0) / n - law)
    };
    (gaps.iter().enumerate().map(off).fold(0.0, f64::max), n)
}

/// Its critical value at 1 %.
pub fn critical(n: f64) -> f64 {
    1.628 / n.sqrt()
}

/// What requests at a constant 500 a second felt of a server that stood still for 1.4 s, in seconds.
#[derive(Debug)]
pub struct Ramp {
    pub disturbed: bool,
    /// Share, the percentile that we report, and the truth: from the moment that a constant rate gives each request to
    /// the engine's own write of its answer.
    pub points: Vec<(f64, f64, f64)>,
    /// Nobody waited less than the rest of the pause: the longest truth is no shorter than the pause.
    pub stood: f64,
    /// The median: nobody waits without the pause.
    pub middle: f64,
}

impl Ramp {
    pub fn measure() -> Ramp {
        const RATE: f64 = 500.0;
        const ALL: f64 = 3_000.0;
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("truth.jsonl");
        let sim = Sim::start(INSTANT, Some(&log));
        let pid = sim.pid();
        // Stopped and woken from another thread, which knows how long it really stood.
        let pauser = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_secs(2));
            let clock = clock::Clock::start();
            signal(pid, "STOP");
            std::thread::sleep(std::time::Duration::from_millis(1_400));
            signal(pid, "CONT");
            clock.now().as_secs_f64()
        });
        let args = ["--rate", "500", "--burstiness", "inf", "-n", "3000", "--warmup", "none", "--isl", "16"];
        let all: Vec<&str> = [sim.url.as_str()].into_iter().chain(args).chain(["--osl", "1"]).collect();
        let runs = folder.path().join("runs");
        let ran = run(&runs, &all);
        let stood = pauser.join().expect("stopped and woken");
        sim.end();
        let run = record::read(&only_run(&runs)).expect("the journal");
        let requests = measured(&run);
        assert_eq!(requests.len(), ALL as usize);
        assert!(requests.iter().all(|r| r.state.is_ok()), "{}", ran.json["requests"]);
        let last = |r: &&Request| r.chunks.last().expect("output").arrival;
        let mut e2e: Vec<f64> =
            requests.iter().map(|r| last(r).saturating_since(r.intended).as_secs_f64()).collect();
        let origin = run.header.environment.monotonic_origin_ns as f64;
        let answered =
            |row: &sim::TruthRow| row.writes.iter().rfind(|(_, tokens)| *tokens > 0).expect("output").0;
        let mut truth: Vec<f64> = truth(&log)
            .iter()
            .map(|(seq, row)| (answered(row) as f64 - origin) / 1e9 - *seq as f64 / RATE)
            .collect();
        assert_eq!(truth.len(), requests.len());
        let mut point = |share: f64| (share, percentile(&mut e2e, share), percentile(&mut truth, share));
        let points = [0.85, 0.9, 0.95, 0.99, 0.999].map(&mut point).to_vec();
        Ramp { disturbed: ran.is_disturbed(), points, stood, middle: point(0.5).1 }
    }
}
