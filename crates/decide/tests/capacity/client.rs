//! Clients that are the limit, targets that die, searches that go on.

use decide::capacity::{
    Ask, CapacityAnswer, Finished, Halt, Happened, Look, Next, ProbeTrust, Recorded, Replay, Runner,
    Settings, Simulated, Verdict, Waited, What, search,
};
use spec::{Load, Nanos};

use super::row;
use super::rows::Row;
use super::servers::{Delay, fifo};
use super::table::{holds, sound};

/// Calls the probes for which `limited` says so client-limited, and spoils what they show.
struct Limited<R, F> {
    inner: R,
    limited: F,
}

impl<R: Runner, F: FnMut(&Ask) -> bool> Runner for Limited<R, F> {
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        let mut finished = self.inner.probe(ask, look)?;
        if (self.limited)(ask) {
            finished.trust = ProbeTrust::ClientLimited("both cores were held by another process".to_owned());
            for request in &mut finished.requests {
                request.ok = false;
            }
        }
        Ok(finished)
    }
}

fn rate(ask: &Ask) -> Option<f64> {
    match &ask.load {
        Load::Open(open) => Some(open.rate.per_second()),
        Load::Closed(_) => None,
    }
}

fn searched(row: &Row, seed: u64, runner: &mut dyn Runner) -> CapacityAnswer {
    let answer = search(&row.settings(seed), runner, &mut |_| {});
    sound(&answer);
    answer
}

#[test]
fn a_client_that_cannot_go_on_gives_a_lower_bound() {
    let row = row("fifo, Poisson, p95");
    for seed in 0..4 {
        let mut runner =
            Limited { inner: row.runner(), limited: |ask: &Ask| rate(ask).is_some_and(|r| r > 25.0) };
        let answer = searched(row, seed, &mut runner);
        assert_eq!(answer.verdict, Verdict::ClientLimited, "{}", answer.sentence);
        assert!(answer.low.is_some_and(|low| low > 15.0 && low <= 25.0), "{}", answer.sentence);
        assert_eq!(answer.high, None, "nothing above it is known: {}", answer.sentence);
        // No bracket anywhere else either, and the reason.
        assert!(answer.curves.is_empty() && answer.probes.iter().all(|p| p.bracket.is_none()));
        assert!(answer.notes.iter().any(|note| note.contains("both cores")), "{:?}", answer.notes);
        assert_eq!((answer.limited_by, answer.needs), (None, None));
    }
}

#[test]
fn a_client_that_can_do_nothing_says_nothing_of_the_server() {
    let row = row("fifo, Poisson, p95");
    for first in [0, 1, 2] {
        let mut runner = Limited { inner: row.runner(), limited: |ask: &Ask| ask.number >= first };
        let answer = searched(row, 1, &mut runner);
        assert_eq!(answer.verdict, Verdict::ClientLimited, "{}", answer.sentence);
        assert_eq!(answer.high, None, "{}", answer.sentence);
    }
}

/// One probe in four is spoilt by the client: it counts for nothing, and the answer is as without.
#[test]
fn probes_that_the_client_spoils_never_lower_the_answer() {
    let row = row("fifo, Poisson, p95");
    let mut held = 0;
    for seed in 0..6 {
        let mut n = 0;
        let limited = |ask: &Ask| {
            n += 1;
            rate(ask).is_some() && n % 4 == 0
        };
        let answer = searched(row, seed, &mut Limited { inner: row.runner(), limited });
        assert_eq!(answer.verdict, Verdict::Resolved, "{}", answer.sentence);
        held += u32::from(holds(&answer, 42.43));
    }
    assert!(held >= 5, "{held} of 6");
}

/// A server that is not idle before its sixth probe.
struct Busy<R>(R);

impl<R: Runner> Runner for Busy<R> {
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        let finished = self.0.probe(ask, look)?;
        let waited = Waited { time: Nanos::from_secs(60), still_busy: true };
        Ok(if ask.number == 5 { Finished { waited, ..finished } } else { finished })
    }
}

#[test]
fn a_server_that_was_still_busy_is_told_and_the_wait_counted() {
    let row = row("fifo, Poisson, p95");
    let idle = searched(row, 1, &mut row.runner());
    let busy = searched(row, 1, &mut Busy(row.runner()));
    assert_eq!(busy.duration_ns - idle.duration_ns, 60_000_000_000);
    let told = |note: &&String| note.contains("probe 5 began on a server that was still busy");
    assert_eq!((idle.notes.iter().filter(told).count(), busy.notes.iter().filter(told).count()), (0, 1));
}

struct Dies<R> {
    inner: R,
    after: u32,
}

impl<R: Runner> Runner for Dies<R> {
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        if ask.number >= self.after {
            return Err(Halt::TargetDied("connection refused".to_owned()));
        }
        self.inner.probe(ask, look)
    }
}

#[test]
fn a_target_that_dies_leaves_what_is_known() {
    let row = row("fifo, Poisson, p95");
    for after in 0..12 {
        let answer = searched(row, 1, &mut Dies { inner: row.runner(), after });
        if answer.verdict != Verdict::Resolved {
            assert_eq!(answer.verdict, Verdict::Unresolved);
            assert!(answer.notes.iter().any(|n| n.contains("connection refused")), "{:?}", answer.notes);
        }
    }
}

/// Keeps what it ran.
struct Recorder<R> {
    inner: R,
    kept: Vec<Recorded>,
}

impl<R: Runner> Runner for Recorder<R> {
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        let finished = self.inner.probe(ask, look)?;
        self.kept.push(Recorded { ask: ask.clone(), finished: finished.clone() });
        Ok(finished)
    }
}

#[test]
fn a_search_goes_on_from_recorded_probes() {
    for name in ["fifo, Poisson, p95", "batching, closed, p95"] {
        let row = row(name);
        let mut recorder = Recorder { inner: row.runner(), kept: Vec::new() };
        let whole = searched(row, 3, &mut recorder);
        let kept = recorder.kept;
        // Through JSON, as a folder keeps them.
        let kept: Vec<Recorded> = serde_json::from_str(&serde_json::to_string(&kept).unwrap()).unwrap();
        assert_eq!(searched(row, 3, &mut Replay::new(kept.clone(), None)), whole);
        for cut in [1, kept.len() / 2, kept.len() - 1] {
            let mut live = row.runner();
            let mut replay = Replay::new(kept[..cut].to_vec(), Some(&mut live));
            assert_eq!(searched(row, 3, &mut replay), whole, "{name} cut at {cut}");
        }
    }
}

#[test]
fn probes_of_another_search_are_refused() {
    let row = row("fifo, Poisson, p95");
    let mut recorder = Recorder { inner: row.runner(), kept: Vec::new() };
    searched(row, 3, &mut recorder);
    let answer = searched(row, 4, &mut Replay::new(recorder.kept, None));
    assert_eq!((answer.verdict, answer.value), (Verdict::Unresolved, None));
    assert!(answer.notes.iter().any(|n| n.contains("another search")), "{:?}", answer.notes);
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let row = row("batching, Poisson, joint");
    let [a, b, c] = [1, 1, 2].map(|seed| searched(row, seed, &mut row.runner()));
    assert_eq!(a, b);
    assert_ne!(a, c);
}

/// All times doubled: half the rate, the same probes.
#[test]
fn time_has_no_unit() {
    let quick = Row {
        server: |_, _| fifo(1.0, 1, None, 0.0, 1),
        limits: &["p95(ttft)<=10s"],
        ..*row("fifo, Poisson, p95")
    };
    let slow = Row { server: |_, _| fifo(2.0, 1, None, 0.0, 1), limits: &["p95(ttft)<=20s"], ..quick };
    let (a, b) = (searched(&quick, 7, &mut quick.runner()), searched(&slow, 7, &mut slow.runner()));
    assert_eq!(a.probes.len(), b.probes.len());
    for (x, y) in [(a.value, b.value), (a.low, b.low), (a.high, b.high)] {
        assert!((x.unwrap() / y.unwrap() - 2.0).abs() < 1e-3, "{x:?} against {y:?}");
    }
}

#[test]
fn a_budget_ends_the_search_with_what_it_would_take() {
    let row = row("batching, Poisson, p99");
    let whole = searched(row, 1, &mut row.runner());
    let settings = Settings { budget: Some(Nanos(whole.duration_ns / 3)), ..row.settings(1) };
    let answer = search(&settings, &mut row.runner(), &mut |_| {});
    sound(&answer);
    assert_eq!(answer.verdict, Verdict::Unresolved);
    assert!(
        answer.duration_ns <= whole.duration_ns * 2 / 3,
        "{} of {}",
        answer.duration_ns,
        whole.duration_ns
    );
    assert!(answer.needs.is_some(), "{}", answer.sentence);
}

#[test]
fn a_server_that_never_answers_or_refuses_everything_holds_nothing() {
    let silent = Row { server: |seed, _| Delay::boxed(seed, |_, _| 1e9), ..*row("fifo, Poisson, p95") };
    let refuses = Row { server: |_, _| Box::new(Refuses::default()), ..silent };
    for row in [silent, refuses] {
        for over in [super::rows::Load::Rate(1.0), super::rows::Load::Concurrency] {
            let row = Row { over, ..row };
            let answer = searched(&row, 1, &mut row.runner());
            assert_eq!(answer.verdict, Verdict::Unmet, "{}", answer.sentence);
            assert_eq!((answer.value, answer.low), (None, None));
        }
    }
}

/// Refuses every request at once.
#[derive(Default)]
struct Refuses {
    next_id: u64,
    due: Vec<(u64, Nanos)>,
}

impl Simulated for Refuses {
    fn submit(&mut self, now: Nanos, _: u32, _: u32) -> u64 {
        self.due.push((self.next_id, now));
        self.next_id += 1;
        self.next_id - 1
    }
    fn next_event(&self) -> Option<Nanos> {
        self.due.first().map(|d| d.1)
    }
    fn advance(&mut self, _: Nanos, out: &mut Vec<Happened>) {
        out.extend(self.due.drain(..).map(|(request, at)| Happened { request, at, what: What::Refused }));
    }
}
