//! The moment when this side is the bottleneck: told every time, never told of a machine that was idle, and never
//! charged to a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spec::seed::mix;

use crate::harness::{BINARY, Run, Sim, Started, recorded, run, signal};
use crate::scripted::{After, DONE, HEAD, Scripted, chunk, finish, token};
use crate::witness::Witness;

const RUNS: usize = 20;

/// Makes runs, some at once; gives all of them.
fn repeat(runs: usize, at_once: usize, one: impl Fn(usize) -> Run + Sync) -> Vec<Run> {
    let numbers: Vec<usize> = (0..runs).collect();
    let batch = |numbers: &[usize]| {
        std::thread::scope(|scope| {
            let runs: Vec<_> = numbers.iter().map(|n| scope.spawn(|| one(*n))).collect();
            runs.into_iter().map(|run| run.join().expect("no panic")).collect::<Vec<_>>()
        })
    };
    numbers.chunks(at_once).flat_map(batch).collect()
}

/// Said to be limited by this side; a server that was slower than its limit all the while is not blamed.
fn assert_limited(number: usize, ran: &Run, by: &[&str]) {
    let trust = &ran.json["trust"];
    assert_ne!(trust["verdict"], "valid", "run {number}: {trust}\n{}", ran.stderr);
    assert!(by.iter().any(|id| ran.check(id) == "fail"), "run {number}, none of {by:?}: {trust}");
    assert_eq!(ran.code, 3, "run {number}: {}\n{trust}", ran.json["verdict"]);
    ran.assert_books_balance();
}

#[test]
fn a_client_that_stood_still_for_50_ms_says_so_every_time() {
    const SEED: u64 = 11;
    let runs = repeat(RUNS, 2, |number| {
        let folder = tempfile::tempdir().expect("a folder");
        let args = [
            "sim://fixed?ttft=20ms&tpot=2ms",
            "--rate",
            "50",
            "--duration",
            "1500ms",
            "--isl",
            "16",
            "--osl",
            "8",
        ];
        let more = ["--warmup", "none", "--slo", "p90(ttft)<=10ms"];
        let started = Started::run(folder.path(), &[&args[..], &more].concat());
        crate::interrupt::wait_for_requests(folder.path(), 5);
        std::thread::sleep(Duration::from_millis(mix(SEED ^ mix(number as u64)) % 600));
        signal(started.pid(), "STOP");
        std::thread::sleep(Duration::from_millis(50));
        signal(started.pid(), "CONT");
        started.end()
    });
    for (number, ran) in runs.iter().enumerate() {
        assert_eq!(ran.check("lane_stall"), "fail", "seed {SEED}, run {number}: {}", ran.json["trust"]);
        let verdict = &ran.json["trust"]["verdict"];
        assert_ne!(verdict, "valid", "seed {SEED}, run {number}: {}", ran.json["trust"]);
    }
}

/// Threads that burn the processors until dropped.
struct Burners(Arc<AtomicBool>);

impl Burners {
    fn start(each_core: usize) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..each_core * cores {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(stop)
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Many others want each core, or one that goes before the client does.
#[test]
fn a_client_whose_cores_are_burnt_says_so_every_time() {
    let one = |nice: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = std::process::Command::new("nice");
        command.args(["-n", nice, BINARY, "run", "sim://fixed?ttft=20ms&tpot=2ms", "--rate", "50"]);
        command.args(["--duration", "2s", "--isl", "16", "--osl", "8", "--warmup", "none"]);
        command.args(["--slo", "ttft<=10ms", "--json", "--progress", "off", "--out"]).arg(folder.path());
        Started::start(&mut command).end()
    };
    let burnt = |each_core: usize, nice: &str| {
        let _burners = Burners::start(each_core);
        repeat(RUNS / 2, 5, |_| one(nice))
    };
    let runs = [burnt(4, "0"), burnt(1, "10")].concat();
    for (number, ran) in runs.iter().enumerate() {
        assert_limited(number, ran, &["machine", "lane_stall", "send_lag"]);
    }
}

/// More events than a lane can take: a server that does nothing but write them.
#[test]
fn a_lane_that_is_full_says_so_every_time() {
    let block: String = (0..2000).map(|_| chunk(&token(0, "on "))).collect();
    let server = Scripted::answering(move |link, _| {
        link.send(HEAD);
        for _ in 0..40 {
            if !link.send(&block) {
                return After::Close;
            }
        }
        link.send(chunk(&finish()) + &chunk(DONE) + "0\r\n\r\n");
        After::Keep
    });
    let runs = repeat(RUNS, 1, |_| {
        let folder = tempfile::tempdir().expect("a folder");
        let args = [&server.url, "--model", "m", "--no-check", "--tokenizer", "none", "-c", "4"];
        let more = [
            "--duration",
            "400ms",
            "--warmup",
            "none",
            "--osl",
            "8",
            "--drain",
            "0s",
            "--slo",
            "p50(itl)<=1ns",
        ];
        run(folder.path(), &[&args[..], &more].concat())
    });
    for (number, ran) in runs.iter().enumerate() {
        let trust = &ran.json["trust"];
        assert_ne!(trust["verdict"], "valid", "run {number}: {trust}\n{}", ran.stderr);
        let full = ran.check("lane_busy") == "fail";
        // On a busy machine the lane may not get half a core at all, and then that is said.
        assert!(full || ran.check("machine") == "fail", "run {number}: {trust}");
    }
}

/// The most requests a second that this machine can send, as a run says that is asked for too many.
fn ceiling(sim: &Sim) -> f64 {
    let mut rate = 8_000;
    loop {
        let folder = tempfile::tempdir().expect("a folder");
        let ran = run(folder.path(), &overload(&sim.url, &rate.to_string()));
        if let Some(ceiling) = named_ceiling(&ran) {
            return ceiling;
        }
        rate *= 2;
        assert!(rate < 1_000_000, "{}", ran.json["trust"]);
    }
}

fn overload<'a>(url: &'a str, rate: &'a str) -> Vec<&'a str> {
    let load = [url, "--rate", rate, "--duration", "1s", "--isl", "16", "--osl", "2"];
    [&load[..], &["--warmup", "none", "--slo", "ttft<=4ms", "--slo", "error_rate<=1%"]].concat()
}

/// "… the client's ceiling is 3,111 req/s …"
fn named_ceiling(ran: &Run) -> Option<f64> {
    let checks = ran.json["trust"]["checks"].as_array()?;
    let advice = checks.iter().find(|c| c["id"] == "arrivals")?["advice"].as_str()?;
    let figure = advice.split("ceiling is ").nth(1)?.split(" req/s").next()?;
    figure.replace([',', '\u{a0}'], "").trim().parse().ok()
}

#[test]
fn twice_what_the_machine_can_send_names_the_ceiling_and_drops_nothing() {
    let sim = Sim::start("sim://fixed?ttft=5ms&tpot=1ms", None);
    let mut ceiling = ceiling(&sim);
    // A ceiling that was found while other work had the machine is none: look again from what was reached.
    let (ran, folder, rate) = loop {
        let rate = 2.0 * ceiling;
        let folder = tempfile::tempdir().expect("a folder");
        let ran = run(folder.path(), &overload(&sim.url, &format!("{rate:.0}")));
        match named_ceiling(&ran) {
            Some(named) if named < 0.9 * rate => break (ran, folder, rate),
            named => ceiling = named.unwrap_or(rate),
        }
        assert!(rate < 1e6, "no ceiling: {}", ran.json["trust"]);
    };
    let recorded = recorded(folder.path());
    let requests = &ran.json["requests"];
    // A Poisson draw of that many requests, each with a row, none given up.
    assert!((ran.number("requests/offered") / rate - 1.0).abs() < 0.2, "{rate}: {requests}");
    assert_eq!(recorded.requests.len() as u64, recorded.footer.planned, "{requests}");
    assert_eq!(requests["offered"], recorded.footer.planned, "{requests}");
    assert_eq!(requests["ok"], requests["offered"], "{requests}");
    // Late ones are counted; handshakes, which are the server's, are not lateness.
    let limit = spec::Nanos::from_millis(2);
    let late = recorded.requests.iter().filter(|r| r.write_begin > Some(r.intended + limit)).count() as f64;
    let figure = ran.figure("send_lag");
    let told = figure.split_once(" sends late").and_then(|(before, _)| before.rsplit("; ").next());
    let told = told.and_then(|told| told.split(" of ").next()?.replace(',', "").parse::<f64>().ok());
    let told = told.unwrap_or_else(|| panic!("{figure}"));
    assert!(told <= late && told > 0.9 * late && late * 10.0 > rate, "{late} of {requests}: {figure}");
    // Whatever the limits on the server are, they are not judged.
    assert_eq!((ran.code, &ran.json["trust"]["verdict"]), (3, &"invalid".into()), "{}", ran.json["verdict"]);
    assert!(ran.json["slo"]["joint"]["met"].is_null(), "{}", ran.json["slo"]);
    assert!(ran.json["slo"]["marginal"][0]["met"].is_null(), "{}", ran.json["slo"]);
    let answer = ran.json["verdict"]["answer"].as_str().unwrap_or_default();
    assert!(answer.ends_with("What the server would have done at this load is unknown."), "{answer}");
}

fn yield_to_others(pid: u32) {
    let renice = std::process::Command::new("renice").args(["-n", "10", "-p", &pid.to_string()]).output();
    assert!(renice.expect("renice runs").status.success());
}

/// At a tenth of the ceiling a run is valid. Where it is not, something else must have taken the machine, and then a
/// thread of this test has seen it as well.
#[test]
fn a_tenth_of_the_ceiling_is_never_called_limited_on_an_idle_machine() {
    // A twentieth of this TTFT, which a valid run may be off by, is the longest delay that a witness lets pass.
    let sim = Sim::start("sim://fixed?ttft=200ms&tpot=2ms", None);
    // A server has a machine of its own; this one must share two cores, and a turn of it is no fault of the client.
    yield_to_others(sim.pid());
    let rate = format!("{:.0}", (ceiling(&sim) / 10.0).max(20.0));
    let mut judged = 0;
    // A machine that is never idle lets this test say nothing, and it ends.
    for number in 0..RUNS + RUNS / 2 {
        let folder = tempfile::tempdir().expect("a folder");
        let witness = Witness::start(sim.pid());
        // Requests of the size that the ceiling was found with; opening hundreds of connections is no tenth of it.
        let load = [&sim.url, "--rate", &rate, "--duration", "800ms", "--isl", "16", "--osl", "2"];
        let ran = run(folder.path(), &[&load[..], &["--warmup", "300ms"]].concat());
        let seen = witness.end();
        let trust = &ran.json["trust"];
        if trust["verdict"] == "valid" {
            judged += 1;
        } else {
            assert!(seen.is_disturbed(), "run {number} at {rate}/s: {seen:?}\n{trust:#}");
        }
        if judged == RUNS {
            return;
        }
    }
}
