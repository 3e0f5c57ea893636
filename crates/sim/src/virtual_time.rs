//! Engines driven in virtual time: exact, as fast as the processor allows, no clock.

use spec::Nanos;

use crate::engine::{Emission, Engine, Event, Job, JobId, Rejection};

/// What became of one job.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The job.
    pub job: Job,
    /// When the load model wanted it sent (closed loop: when its user became free).
    pub intended: Nanos,
    /// When it reached the engine; later than intended only at a cap. `None`: never (the run ended).
    pub submitted: Option<Nanos>,
    /// When it left the engine's queue.
    pub started: Option<Nanos>,
    /// Prompt tokens that came from the prefix cache.
    pub cached: u32,
    /// Moments and token counts, in order.
    pub emissions: Vec<(Nanos, u32)>,
    /// When the last token was out; `None`: it never was.
    pub finished: Option<Nanos>,
    /// When and why the engine turned it away.
    pub rejected: Option<(Nanos, Rejection)>,
}

impl Outcome {
    fn new(job: Job, intended: Nanos) -> Self {
        Self {
            job,
            intended,
            submitted: None,
            started: None,
            cached: 0,
            emissions: Vec::new(),
            finished: None,
            rejected: None,
        }
    }
    /// When it ended, either way.
    pub fn ended(&self) -> Option<Nanos> {
        self.finished.or(self.rejected.map(|(at, _)| at))
    }
    /// Tokens that came out.
    pub fn tokens(&self) -> u64 {
        self.emissions.iter().map(|(_, n)| u64::from(*n)).sum()
    }
    /// Writes an emission down; `true` when the job has ended with it.
    fn note(&mut self, e: &Emission) -> bool {
        match e.event {
            Event::Started { cached } => {
                self.started = Some(e.at);
                self.cached = cached;
                false
            }
            Event::Tokens(n) => {
                self.emissions.push((e.at, n));
                false
            }
            Event::Finished => {
                self.finished = Some(e.at);
                true
            }
            Event::Rejected(why) => {
                self.rejected = Some((e.at, why));
                true
            }
        }
    }
}

/// Runs an engine and keeps the books: which outcome belongs to which job.
struct Driver<'a> {
    engine: &'a mut dyn Engine,
    outcomes: Vec<Outcome>,
    /// Outcome index by job id minus `first_id`; engines count ids upwards.
    index: Vec<usize>,
    first_id: Option<u64>,
    buffer: Vec<Emission>,
}

impl<'a> Driver<'a> {
    fn new(engine: &'a mut dyn Engine) -> Self {
        Self { engine, outcomes: Vec::new(), index: Vec::new(), first_id: None, buffer: Vec::new() }
    }

    fn submit(&mut self, now: Nanos, outcome: usize) {
        self.outcomes[outcome].submitted = Some(now);
        let id = self.engine.submit(now, self.outcomes[outcome].job.clone());
        let first = *self.first_id.get_or_insert(id.0);
        let slot = (id.0 - first) as usize;
        if self.index.len() <= slot {
            self.index.resize(slot + 1, usize::MAX);
        }
        self.index[slot] = outcome;
    }

    /// Advances to `to`; gives the outcomes that ended, with their moments, in order.
    fn advance(&mut self, to: Nanos) -> Vec<(Nanos, usize)> {
        self.buffer.clear();
        self.engine.advance(to, &mut self.buffer);
        let mut ended = Vec::new();
        let first = self.first_id.unwrap_or(0);
        for e in &self.buffer {
            let outcome = self.lookup(e.job, first);
            if let Some(outcome) = outcome
                && self.outcomes[outcome].note(e)
            {
                ended.push((e.at, outcome));
            }
        }
        ended
    }

    fn lookup(&self, id: JobId, first: u64) -> Option<usize> {
        let slot = id.0.checked_sub(first)? as usize;
        self.index.get(slot).copied().filter(|o| *o != usize::MAX)
    }
}

/// Open loop: jobs arrive on a timetable (in order of time). With a cap, a job that finds `cap`
/// others in flight waits at the client, first come first served. Runs until everything has ended.
pub fn virtual_open(engine: &mut dyn Engine, arrivals: &[(Nanos, Job)], cap: Option<usize>) -> Vec<Outcome> {
    let mut driver = Driver::new(engine);
    driver.outcomes = arrivals.iter().map(|(at, job)| Outcome::new(job.clone(), *at)).collect();
    let cap = cap.unwrap_or(usize::MAX).max(1);
    // Arrivals become due in order, and the client sends in that order: one cursor each.
    let (mut due, mut sent, mut in_flight) = (0, 0, 0usize);
    loop {
        let arrival = arrivals.get(due).map(|(at, _)| *at);
        let engine_next = driver.engine.next_event();
        let now = match (arrival, engine_next) {
            (None, None) => break,
            (Some(a), Some(e)) => a.min(e),
            (Some(a), None) => a,
            (None, Some(e)) => e,
        };
        // The engine first: a slot freed at this moment serves an arrival of the same moment.
        in_flight -= driver.advance(now).len();
        while arrivals.get(due).is_some_and(|(at, _)| *at <= now) {
            due += 1;
        }
        while sent < due && in_flight < cap {
            driver.submit(now, sent);
            sent += 1;
            in_flight += 1;
        }
    }
    driver.outcomes
}

/// Closed loop: `users` send, wait for the end, think, send again, taking the next job each time.
/// All start at 0. No job is sent at or after `until`; those in flight run to their end.
pub fn virtual_closed(
    engine: &mut dyn Engine,
    users: usize,
    think: Nanos,
    jobs: impl IntoIterator<Item = Job>,
    until: Nanos,
) -> Vec<Outcome> {
    let mut driver = Driver::new(engine);
    let mut jobs = jobs.into_iter();
    // With one think time for all, users become free in the order in which they are put here.
    let mut free: std::collections::VecDeque<Nanos> = std::iter::repeat_n(Nanos::ZERO, users).collect();
    loop {
        let user = free.front().copied().filter(|at| *at < until);
        let now = match (user, driver.engine.next_event()) {
            (None, None) => break,
            (Some(a), Some(e)) => a.min(e),
            (Some(a), None) => a,
            (None, Some(e)) => e,
        };
        for (at, _) in driver.advance(now) {
            free.push_back(at + think);
        }
        while let Some(at) = free.front().copied().filter(|at| *at <= now && *at < until) {
            let Some(job) = jobs.next() else {
                free.clear();
                break;
            };
            free.pop_front();
            driver.outcomes.push(Outcome::new(job, at));
            let last = driver.outcomes.len() - 1;
            driver.submit(now, last);
        }
    }
    driver.outcomes
}
