//! Probes over HTTP: each is an ordinary run in a run folder of its own, ended as soon as the search knows enough.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use clock::Clock;
use decide::capacity::{Ask, Finished, Halt, Kind, Look, Next, ProbeTrust, Recorded, Runner, Seen, Waited};
use decide::words::decimals;
use decide::{CheckId, RunReport};
use measure::request;
use plan::{Intent, Plan};
use record::{FailureClass, Request, Run, State};
use spec::{Extent, Load, Nanos, Span, Spec, Turn, View, Warmup};

use super::idle::Idle;
use super::kept::{Found, Kept};
use super::maximize::turned;
use crate::cli::Progress;
use crate::derived::keep_files;
use crate::failure::{Failure, NO_TARGET, STOPPED};
use crate::printer::Printer;
use crate::run::{Around, Heard, Measured, Site, measure_at};

/// What is known of a probe is looked at so often.
const LOOK_UP: Duration = Duration::from_millis(10);
/// Where all requests of a probe were sent, their answers are waited for at least so long.
const DRAIN: Nanos = Nanos::from_secs(2);

/// Checks that say that the client did not do what was asked of it.
const OF_THE_CLIENT: [CheckId; 6] = [
    CheckId::SendLag,
    CheckId::LaneStall,
    CheckId::ClientLag,
    CheckId::Machine,
    CheckId::LaneBusy,
    CheckId::Arrivals,
];

/// Makes the probes of a search.
pub struct Probes<'a> {
    spec: Spec,
    asked: &'a Spec,
    kept: &'a Kept,
    site: &'a mut Site,
    around: &'a Around,
    printer: &'a Printer,
    progress: Progress,
    failed: Option<anyhow::Error>,
    idle: Idle,
}

impl<'a> Probes<'a> {
    /// `spec`: that of every probe but for its load, length and seed.
    pub fn new(
        spec: &'a Spec,
        kept: &'a Kept,
        site: &'a mut Site,
        around: &'a Around,
        (printer, progress): (&'a Printer, Progress),
    ) -> Self {
        let idle = Idle::new(spec, &around.stop);
        Self { spec: spec.clone(), asked: spec, kept, site, around, printer, progress, failed: None, idle }
    }

    /// Why a probe could not be made.
    pub fn failed(self) -> Option<anyhow::Error> {
        self.failed
    }

    fn spec_of(&self, ask: &Ask) -> Spec {
        let mut spec = Spec { load: ask.load.clone(), seed: ask.seed, ..self.spec.clone() };
        spec.phases.warmup = Warmup::None;
        spec.phases.measure = Extent::Requests(ask.max_requests);
        spec.phases.drain = Span(spec.phases.drain.0.max(DRAIN));
        if let Load::Closed(closed) = &spec.load {
            // A lane without a user would be refused.
            spec.client.lanes =
                spec.client.lanes.min(closed.concurrency.try_into().unwrap_or(u16::MAX)).max(1);
        }
        spec
    }

    /// The run of a probe, told to end when `look` has seen enough.
    fn run(
        &mut self,
        spec: &Spec,
        ask: &Ask,
        look: &mut dyn FnMut(Look<'_>) -> Next,
    ) -> anyhow::Result<Measured> {
        let stop = Arc::new(AtomicBool::new(false));
        let (heard, rows) = channel();
        let around = Around {
            stop: Arc::clone(&stop),
            heard: Some(heard),
            name: Some(name(ask)),
            ..self.around.clone()
        };
        let (site, folder) = (&mut *self.site, self.kept.path());
        let (printer, progress) = (self.printer, self.progress);
        std::thread::scope(|scope| {
            let run = scope.spawn(move || measure_at(site, spec.clone(), folder, printer, progress, around));
            let mut watched = Watched::new(spec, ask);
            watch(&mut watched, ask, &rows, &self.around.stop, &stop, look);
            run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Runner for Probes<'_> {
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        let spec = self.spec_of(ask);
        let waited = self.idle.before(ask, self.site);
        let measured = self.run(&spec, ask, look);
        if self.around.stop.load(Relaxed) {
            return Err(Halt::Interrupted);
        }
        let measured = match measured {
            Ok(measured) => measured,
            Err(error) => {
                let why = format!("{error:#}").lines().next().unwrap_or_default().to_owned();
                let code = Failure::code_of(&error);
                self.failed = Some(error);
                return match code {
                    STOPPED => Err(Halt::Interrupted),
                    NO_TARGET => Err(Halt::TargetDied(why)),
                    // What this side cannot send says nothing of the server.
                    _ => Ok(Finished {
                        requests: Vec::new(),
                        now: Nanos::ZERO,
                        trust: ProbeTrust::ClientLimited(why),
                        waited,
                    }),
                };
            }
        };
        let report = RunReport::build(&measured.run, &measured.run.header.spec.analysis);
        keep_files(&measured.folder, &measured.run, &report.to_json(), self.printer);
        if let Some(why) = gone(&measured.run) {
            return Err(Halt::TargetDied(why));
        }
        let finished = Finished { waited, ..finished(&measured.run, &report) };
        let recorded = Recorded { ask: ask.clone(), finished: finished.clone() };
        let header = &measured.run.header;
        let found = Found { model: header.spec.api.model.clone(), environment: header.environment.clone() };
        if let Err(error) = self.kept.note(&found) {
            self.printer.warn(&format!("where this search is made could not be written down: {error:#}"));
        }
        if let Err(error) = self.kept.add(&recorded) {
            self.printer.warn(&format!("this probe could not be written down: {error:#}"));
        }
        Ok(finished)
    }

    fn turn(&mut self, setting: &[Turn]) -> Result<(), Halt> {
        self.spec = turned(self.asked, setting);
        Ok(())
    }
}

/// `000-warm-up`, `003-users-8`, `012-rate-215.7`.
fn name(ask: &Ask) -> String {
    let number = ask.number;
    match &ask.load {
        _ if ask.kind == Kind::Warm => format!("{number:03}-warm-up"),
        Load::Closed(closed) => format!("{number:03}-users-{}", closed.concurrency),
        Load::Open(open) => {
            let rate = open.rate.per_second();
            format!("{number:03}-rate-{rate:.*}", 1 + decimals(rate))
        }
    }
}

/// Tells the search what is known, as often as it asks, and ends the run when it has seen enough.
fn watch(
    watched: &mut Watched,
    ask: &Ask,
    rows: &Receiver<Heard>,
    interrupted: &AtomicBool,
    stop: &AtomicBool,
    look: &mut dyn FnMut(Look<'_>) -> Next,
) {
    let mut next = look(Look { now: Nanos::ZERO, requests: &[] });
    loop {
        loop {
            match rows.try_recv() {
                Ok(heard) => watched.note(heard),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        let Next::Again { requests, horizon } = next else {
            stop.store(true, Relaxed);
            // The run ends by itself now; what still comes is in its records.
            std::thread::sleep(LOOK_UP);
            continue;
        };
        let now = watched.now();
        if interrupted.load(Relaxed) || now > ask.max_time {
            next = Next::Stop;
            continue;
        }
        if let Some(seen) = watched.determined(now, requests, horizon) {
            let asked_again = look(Look { now, requests: &seen });
            // Nothing more can be known of these: the same question again would be asked for ever.
            let stuck = asked_again == next && seen.len() as u64 >= ask.max_requests;
            next = if stuck { Next::Stop } else { asked_again };
        }
        std::thread::sleep(LOOK_UP);
    }
}

/// What is known of a run while it goes on.
struct Watched {
    view: View,
    clock: Option<Clock>,
    /// Rows so far, by their position in the plan.
    rows: BTreeMap<u64, Seen>,
    sends: Sends,
    most: u64,
}

/// What was sent and has not ended.
enum Sends {
    /// The timetable, as far as it was looked at.
    Timetable { plan: Box<dyn Iterator<Item = Intent>>, due: Vec<(u64, Nanos)>, ahead: Option<Intent> },
    /// When each user was free for its present request.
    Users { free: BTreeMap<u32, Nanos>, think: Nanos },
}

impl Watched {
    fn new(spec: &Spec, ask: &Ask) -> Self {
        let sends = match &spec.load {
            Load::Open(_) => {
                let intents = Plan::new(spec).ok().and_then(|plan| plan.open_intents());
                let plan: Box<dyn Iterator<Item = Intent>> = match intents {
                    Some(intents) => Box::new(intents),
                    // A plan that cannot be drawn ends the run before anything is sent.
                    None => Box::new(std::iter::empty()),
                };
                Sends::Timetable { plan, due: Vec::new(), ahead: None }
            }
            Load::Closed(closed) => Sends::Users {
                free: (0..closed.concurrency).map(|user| (user, closed.start_of(user))).collect(),
                think: closed.think.0,
            },
        };
        Self { view: spec.view(), clock: None, rows: BTreeMap::new(), sends, most: ask.max_requests }
    }

    fn now(&self) -> Nanos {
        self.clock.map_or(Nanos::ZERO, |clock| clock.now())
    }

    fn note(&mut self, heard: Heard) {
        match heard {
            Heard::Began { monotonic_origin_ns } => {
                self.clock = Some(Clock::with_origin(monotonic_origin_ns))
            }
            Heard::Row(row) => {
                if let (Sends::Users { free, think }, Some(user)) = (&mut self.sends, row.user) {
                    free.insert(user, row.closed.unwrap_or(row.intended) + *think);
                }
                self.rows.insert(row.seq, seen(&row, self.view));
            }
        }
    }

    /// Intended sends up to `now` without a row.
    fn open(&mut self, now: Nanos) -> Vec<Nanos> {
        match &mut self.sends {
            Sends::Timetable { plan, due, ahead } => {
                loop {
                    match ahead.take().or_else(|| plan.next()) {
                        Some(intent) if intent.at <= now => due.push((intent.seq, intent.at)),
                        later => {
                            *ahead = later;
                            break;
                        }
                    }
                }
                due.retain(|(seq, _)| !self.rows.contains_key(seq));
                due.iter().map(|(_, at)| *at).collect()
            }
            Sends::Users { free, .. } => {
                let left = self.most.saturating_sub(self.rows.len() as u64) as usize;
                free.values().copied().filter(|at| *at <= now).take(left).collect()
            }
        }
    }

    fn seen(&mut self, now: Nanos) -> Vec<Seen> {
        let open = self.open(now).into_iter().map(|intended| Seen { intended, ..Seen::default() });
        let mut all: Vec<Seen> = self.rows.values().copied().chain(open).collect();
        all.sort_by_key(|seen| seen.intended);
        all
    }

    /// All that is known, once each of the first `wanted` requests was intended and has ended or is
    /// `horizon` old.
    fn determined(&mut self, now: Nanos, wanted: u64, horizon: Nanos) -> Option<Vec<Seen>> {
        self.clock?;
        let seen = self.seen(now);
        let first = seen.get(..wanted as usize)?;
        first.iter().all(|s| s.end.is_some() || s.intended + horizon <= now).then_some(seen)
    }
}

/// A row as the search sees it. One that we cut was in flight when the probe was over.
fn seen(row: &Request, view: View) -> Seen {
    let cut = matches!(row.state, State::Cancelled | State::Shed);
    Seen {
        intended: row.intended,
        end: row.closed.filter(|_| !cut),
        ok: row.state.is_ok(),
        ttft: request::ttft(row, view).ok(),
        tpot: request::tpot(row).ok(),
        e2e: request::e2e(row, view).ok(),
        output_tokens: measure::tokens::output_tokens(row).map_or(0, |(tokens, _)| tokens),
        asked: row.output.asked,
        input_tokens: measure::tokens::input_tokens(row),
    }
}

fn finished(run: &Run, report: &RunReport) -> Finished {
    let view = run.header.spec.view();
    let sent = run.requests.iter().filter(|row| row.state != State::Shed);
    let mut requests: Vec<Seen> = sent.map(|row| seen(row, view)).collect();
    requests.sort_by_key(|seen| seen.intended);
    let spoilt = report.trust.checks.iter().find(|check| check.failed() && OF_THE_CLIENT.contains(&check.id));
    let trust = spoilt.map_or(ProbeTrust::Trusted, |check| {
        ProbeTrust::ClientLimited(format!("{}: {}", check.id.name(), check.figure))
    });
    Finished { requests, now: run.footer.ended, trust, waited: Waited::default() }
}

/// Nobody answers any more: every request failed to connect.
fn gone(run: &Run) -> Option<String> {
    let refused = |row: &Request| match &row.state {
        State::Failed { class: FailureClass::Connect, detail } => Some(detail.clone()),
        _ => None,
    };
    let first = run.requests.iter().find_map(refused)?;
    let tried = run.requests.iter().filter(|row| !matches!(row.state, State::Cancelled | State::Shed));
    tried.clone().all(|row| refused(row).is_some()).then_some(first)
}
