//! A self-check: whether each of its short runs stayed within the limits of a run, where the ceiling
//! lies, and what that means in words. Pure: somebody else makes the runs.

use measure::instrument::{Instrument, Steal, steal};
use measure::{Measures, StampErrors, measure};
use record::{Ceiling, EndedBy, Machine, MachineSample, Run, SELF_CHECK_VERSION, SelfCheck};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{Load, Metric, Nanos};

use crate::checks::machine::busiest_share;
use crate::facts::Facts;
use crate::limits;
use crate::report::Verdict;
use crate::trust::{self, CheckId, CheckState};
use crate::verdict::exit;
use crate::words::{NBSP, count, counted, number, percent, plain, time};

/// The checks that ask whether this side was the bottleneck, a cause before its effects. Events that
/// came in one read are judged by the lag of the program, which joins them where this side does.
const CLIENT: [CheckId; 6] = [
    CheckId::LaneBusy,
    CheckId::LaneStall,
    CheckId::Machine,
    CheckId::ClientLag,
    CheckId::SendLag,
    CheckId::Arrivals,
];
/// Share of the requests that a server must answer to count as one that could deliver.
const DELIVERED: f64 = 0.99;
/// How much longer than planned an answer, or the run, may take until the server is called late.
const SERVER_LATE: f64 = 1.05;
/// The end of a run may lag this far behind its last send.
const SERVER_TAIL: Nanos = Nanos::from_millis(100);
/// A server of one thread that used more than this share of a core could not have done more.
const SERVER_BUSY: f64 = 0.85;

/// What became of one load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rung {
    /// Sent and heard within the limits, and the server delivered.
    Holds,
    /// This side failed a check: which, in words.
    Client(String),
    /// Other work, the server's among it, took the cores: what was seen.
    Machine(String),
    /// This side passed, or could not be judged, because the server did not deliver: why.
    Server(String),
}

/// One short run, judged.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The outcome.
    pub rung: Rung,
    /// What the lanes did.
    pub instrument: Instrument,
    /// Busiest lane in the busiest window, as a share of its core; `None`: not observed.
    pub busiest_lane: Option<f64>,
    /// What the hypervisor took.
    pub steal: Vec<Steal>,
}

/// Judges one run by the checks of any run. `tpot` is what the server was told to keep.
pub fn judge(run: &Run, tpot: Option<Nanos>) -> Judged {
    let measures = measure(run, &run.header.spec.analysis);
    let trust = trust::judge(run, &measures);
    let failed: Vec<CheckId> = CLIENT
        .into_iter()
        .filter(|id| trust.check(*id).is_some_and(|check| check.state == CheckState::Fail))
        .collect();
    let short = undelivered(&measures, &run.header.spec.load, tpot);
    let full = server_share(&run.machine).is_some_and(|share| share > SERVER_BUSY);
    let busiest_lane = busiest_share(&Facts::new(run, &measures));
    let words = |id: CheckId| {
        let figure = trust.check(id).map_or_else(String::new, |check| format!(": {}", check.figure));
        format!("{}{figure}", id.label())
    };
    let rung = match (failed.first(), short) {
        // The time that a lane used itself is nobody else's doing.
        (Some(CheckId::LaneBusy), _) => Rung::Client(words(CheckId::LaneBusy)),
        // A server that used up its core may be the cause of all the rest.
        (_, Some(why)) if full => Rung::Server(why),
        (Some(_), _) if failed.contains(&CheckId::Machine) => Rung::Machine(words(CheckId::Machine)),
        (Some(first), _) => Rung::Client(words(*first)),
        (None, Some(why)) => Rung::Server(why),
        (None, None) => Rung::Holds,
    };
    Judged { rung, busiest_lane, steal: steal(&run.machine), instrument: measures.instrument }
}

/// Why the server did not deliver what was asked of it; `None`: it did.
fn undelivered(measures: &Measures, load: &Load, tpot: Option<Nanos>) -> Option<String> {
    let counts = &measures.counts;
    if (counts.ok as f64) < DELIVERED * counts.offered as f64 || counts.ok == 0 {
        return Some(format!(
            "the server answered {} of {}",
            count(counts.ok),
            counted(counts.offered, "request")
        ));
    }
    if let (Some(asked), Some(figure)) = (tpot, measures.metrics.get(&Metric::Tpot)) {
        let median = figure.percentile(0.5).and_then(|figure| figure.value());
        if let Some(median) = median.filter(|median| *median > SERVER_LATE * asked.0 as f64) {
            return Some(format!(
                "the server needed {} for a token in place of {}",
                time(median),
                time(asked.0 as f64)
            ));
        }
    }
    let window = &measures.window;
    let late = window.duration.saturating_since(SERVER_TAIL).0 as f64;
    (matches!(load, Load::Open(_)) && tpot.is_none() && late > SERVER_LATE * window.planned_span.0 as f64)
        .then(|| {
            format!(
                "the server needed {} for the requests of {}",
                time(window.duration.0 as f64),
                time(window.planned_span.0 as f64)
            )
        })
}

/// Processor time of the server, as a share of one core.
fn server_share(machine: &[MachineSample]) -> Option<f64> {
    let (first, last) = (machine.first()?, machine.last()?);
    let elapsed = last.at.since(first.at).filter(|d| d.0 > 0)?;
    Some(last.target?.saturating_since(first.target?).0 as f64 / elapsed.0 as f64)
}

/// Looks for the largest load that holds: doubles until one does not, then goes between.
#[derive(Debug, Clone)]
pub struct Ladder {
    holds: u64,
    fails: Option<u64>,
    top: u64,
    between: u32,
    tried: Option<u64>,
    ended: Option<(EndedBy, String)>,
    why: String,
}

impl Ladder {
    /// From a load that holds already up to `top`, with so many rungs between the last that holds and
    /// the first that does not.
    pub fn new(holds: u64, top: u64, between: u32) -> Self {
        Self { holds, fails: None, top, between, tried: None, ended: None, why: String::new() }
    }

    /// The next load to try.
    pub fn next_load(&self) -> Option<u64> {
        if self.ended.is_some() {
            return None;
        }
        match (self.tried, self.fails) {
            // A machine is disturbed now and then: one failure proves nothing.
            (Some(again), _) => Some(again),
            (None, None) => Some((2 * self.holds).min(self.top)).filter(|load| *load > self.holds),
            (None, Some(fails)) => {
                let middle = ((self.holds as f64 * fails as f64).sqrt().round()) as u64;
                Some(middle).filter(|load| self.between > 0 && *load > self.holds && *load < fails)
            }
        }
    }

    /// What became of it.
    pub fn note(&mut self, rung: Rung) {
        let Some(load) = self.next_load() else { return };
        let again = self.tried.take().is_some();
        let failed = matches!(rung, Rung::Client(_) | Rung::Machine(_));
        if self.fails.is_some() && (again || !failed) {
            self.between = self.between.saturating_sub(1);
        }
        match rung {
            Rung::Holds => self.holds = load,
            Rung::Client(_) | Rung::Machine(_) if !again => self.tried = Some(load),
            Rung::Client(why) => {
                self.fails = Some(load);
                self.why = why;
            }
            Rung::Machine(why) => self.ended = Some((EndedBy::Machine, why)),
            Rung::Server(why) => self.ended = Some((EndedBy::Server, why)),
        }
    }

    /// Where the ceiling lies.
    pub fn ceiling(self) -> Ceiling {
        let (ended_by, why) = match (self.ended, self.fails) {
            (Some(ended), _) => ended,
            (None, Some(_)) => (EndedBy::Client, self.why),
            (None, None) => (EndedBy::Ladder, "no larger load was tried".to_owned()),
        };
        Ceiling { holds: self.holds, fails: self.fails, ended_by, why }
    }
}

/// What is known of a ceiling where only its first load was tried.
pub fn first_rung(rung: &Rung, load: u64) -> Ceiling {
    let (ended_by, why) = match rung {
        Rung::Holds => (EndedBy::Ladder, "no larger load was tried".to_owned()),
        Rung::Client(why) => (EndedBy::Client, why.clone()),
        Rung::Machine(why) => (EndedBy::Machine, why.clone()),
        Rung::Server(why) => (EndedBy::Server, why.clone()),
    };
    let holds = *rung == Rung::Holds;
    Ceiling { holds: if holds { load } else { 0 }, fails: (!holds).then_some(load), ended_by, why }
}

/// Everything that a self-check saw.
#[derive(Debug)]
pub struct Seen {
    /// When it began, RFC 3339, UTC.
    pub measured: String,
    /// On which machine.
    pub machine: Machine,
    /// Whether it took the short way.
    pub quick: bool,
    /// What answered.
    pub server: String,
    /// Requests per second of the run that lateness was measured in.
    pub send_rate_per_s: f64,
    /// Events per second of a stream.
    pub tokens_per_s: f64,
    /// That run.
    pub sending: Judged,
    /// The run of streams that stamps were measured in.
    pub streaming: Judged,
    /// Its stamps against the server's log.
    pub errors: StampErrors,
    /// The ladder of rates.
    pub rate: Ceiling,
    /// The ladder of streams.
    pub streams: Ceiling,
    /// What the hypervisor took in all runs.
    pub steal: Vec<Steal>,
}

/// Puts it together.
pub fn self_check(seen: Seen) -> SelfCheck {
    let mut noise = Vec::new();
    for (what, judged) in [("a small rate", &seen.sending), ("a small number of streams", &seen.streaming)] {
        match &judged.rung {
            Rung::Holds => {}
            Rung::Client(why) | Rung::Machine(why) | Rung::Server(why) => {
                noise.push(format!("{what} does not hold ({why})"));
            }
        }
    }
    if seen.errors.compared == 0 {
        noise.push("no stream could be compared with the server's own log".to_owned());
    }
    let (taken, capacity) = seen.steal.iter().fold((0, 0), |(t, c), s| (t + s.taken.0, c + s.capacity.0));
    // What two ticks of the system's accounting could make up is no spell.
    let spells = seen.steal.iter().filter(|s| s.share() > limits::STEAL && s.capacity >= limits::WINDOW);
    let beats = [&seen.sending, &seen.streaming].map(|judged| judged.instrument.heartbeat_max.ok());
    SelfCheck {
        schema_version: SELF_CHECK_VERSION,
        measured: seen.measured,
        machine: seen.machine,
        quick: seen.quick,
        server: seen.server,
        noise,
        send_lag: seen.sending.instrument.send_lag.ok(),
        send_rate_per_s: seen.send_rate_per_s,
        stamp_error: seen.errors.stamp,
        latency_error: seen.errors.latency,
        gap_error: seen.errors.gap,
        cpu_per_request_ns: seen.sending.instrument.cpu_per_request_ns.ok(),
        cpu_per_event_ns: seen.streaming.instrument.cpu_per_event_ns.ok(),
        heartbeat_max_ns: beats.into_iter().flatten().map(|delay| delay.0).max(),
        steal_share: (capacity > 0).then(|| taken as f64 / capacity as f64),
        steal_spells: spells.count() as u64,
        rate: seen.rate,
        streams: seen.streams,
        tokens_per_s: seen.tokens_per_s,
    }
}

/// Latencies above this are the server's: ten times the error of this machine's best stamps.
pub fn believes_above(check: &SelfCheck) -> Option<u64> {
    let floor = check.floor(true).or_else(|| check.floor(false))?;
    Some((floor.latency_ns as f64 * limits::FLOOR_TIMES) as u64)
}

/// The answer in words, and the exit code.
pub fn verdict(check: &SelfCheck) -> Verdict {
    if !check.is_quiet() {
        return Verdict {
            exit_code: exit::NOT_TRUSTED,
            answer: format!(
                "This machine is too noisy to be believed now: {}. Stop what else runs here, or use another machine, and repeat.",
                check.noise.join("; ")
            ),
        };
    }
    let believe = believes_above(check).map_or_else(
        || "What this machine adds to a latency could not be measured".to_owned(),
        |above| format!("This machine can believe latencies above {}", time(above as f64)),
    );
    Verdict {
        exit_code: exit::HOLDS,
        answer: format!(
            "{believe}. With one lane it sends {}{NBSP}requests/s on time and hears {} of {} tokens/s on time.",
            at_most(&check.rate),
            streams(&check.streams),
            plain(check.tokens_per_s)
        ),
    }
}

/// `up to 1,400`, or `at least 1,400 (…)` where something else ended first.
fn at_most(ceiling: &Ceiling) -> String {
    match ceiling.ended_by {
        EndedBy::Client => format!("up to {}", count(ceiling.holds)),
        EndedBy::Machine | EndedBy::Server | EndedBy::Ladder => format!("at least {}", count(ceiling.holds)),
    }
}

fn streams(ceiling: &Ceiling) -> String {
    format!("{}{NBSP}streams", at_most(ceiling))
}

/// Why a ladder ended, as a sentence.
pub fn why_ended(ceiling: &Ceiling) -> String {
    match (ceiling.ended_by, ceiling.fails) {
        (EndedBy::Client, Some(fails)) => format!("{} failed: {}", count(fails), ceiling.why),
        (EndedBy::Machine, _) => format!("the cores were taken: {}", ceiling.why),
        (EndedBy::Server, _) => format!("the server ended first: {}", ceiling.why),
        _ => ceiling.why.clone(),
    }
}

/// A load that is meant for a server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// Requests per second; `null`: users instead.
    pub rate_per_s: Option<f64>,
    /// Users that each wait for their answer; `null`: a rate instead.
    pub concurrency: Option<u32>,
    /// Input tokens.
    pub isl: u32,
    /// Output tokens.
    pub osl: u32,
}

/// How the server answered one request.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shape {
    /// Events with output.
    pub events: u32,
    /// Output tokens for each of them.
    pub tokens_per_event: f64,
    /// Bytes for each of them, the protocol's frame included.
    pub bytes_per_event: f64,
    /// From sending to the end of the answer.
    pub answer_ns: u64,
    /// Median time of a TCP handshake with it.
    pub round_trip_ns: u64,
}

/// Whether this machine can offer a load to a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Against {
    /// The server.
    pub target: String,
    /// The load.
    pub asked: Asked,
    /// The server's one answer.
    pub shape: Shape,
    /// Answers under way at once at this load, as fast as the one.
    pub in_flight: f64,
    /// Events per second at this load.
    pub events_per_s: f64,
    /// The answer.
    pub can: Can,
    /// How many times the load this machine could offer, by the busiest lane; `null`: not measured.
    pub headroom: Option<f64>,
    /// What limits it, in words.
    pub limited_by: String,
}

/// Yes, no, or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Can {
    /// It can.
    Yes,
    /// It cannot.
    No,
    /// The simulated server was no match for the load, or other work took the cores.
    CannotTell,
}

/// Cores that one lane would need at a load, by what a request and an event cost in the self-check.
/// The cost falls as the load grows, so this says no only far beyond one core.
pub fn cores_needed(check: &SelfCheck, requests_per_s: f64, events_per_s: f64) -> Option<f64> {
    let per_request = check.cpu_per_request_ns? * requests_per_s;
    Some((per_request + check.cpu_per_event_ns.unwrap_or(0.0) * events_per_s) / 1e9)
}

/// The lane has one core; a prediction must miss by this factor to be enough for a no.
pub const CORES_CERTAIN: f64 = 4.0;

/// What a replay of a load of so many events per second says: the answer, the headroom, and what limits.
pub fn replayed(judged: &Judged, events_per_s: f64) -> (Can, Option<f64>, String) {
    let headroom = judged.busiest_lane.filter(|share| *share > 0.0).map(|share| limits::LANE_BUSY / share);
    match &judged.rung {
        Rung::Holds => {
            let lane = judged.busiest_lane.map_or_else(
                || "the lanes were not observed".to_owned(),
                |share| {
                    format!(
                        "the lane comes next: {} of its core, limit {}",
                        percent(share),
                        percent(limits::LANE_BUSY)
                    )
                },
            );
            (Can::Yes, headroom, lane)
        }
        Rung::Client(why) => (Can::No, headroom.filter(|times| *times < 1.0), why.clone()),
        Rung::Machine(why) => (Can::CannotTell, None, format!("other work took the cores here: {why}")),
        // What an event costs is least when the lane is never idle, as here.
        Rung::Server(why) => match judged.instrument.cpu_per_event_ns.map(|ns| ns * events_per_s / 1e9) {
            Ok(cores) if cores > 1.0 => (
                Can::No,
                None,
                format!("a lane has one core, and this takes {} by what an event cost", number(cores)),
            ),
            _ => (Can::CannotTell, None, format!("the simulated server was no match: {why}")),
        },
    }
}

/// The answer in words, and the exit code.
pub fn verdict_against(against: &Against) -> Verdict {
    let asked = &against.asked;
    let load = match (asked.rate_per_s, asked.concurrency) {
        (Some(rate), _) => format!("{}{NBSP}requests/s", plain(rate)),
        (None, users) => counted(u64::from(users.unwrap_or(1)), "user"),
    };
    let load = format!("{load} × {} tokens to {}", count(u64::from(asked.osl)), against.target);
    let (exit_code, can) = match against.can {
        Can::Yes => (exit::HOLDS, "Yes: this machine can offer"),
        Can::No => (exit::MISSED, "No: this machine cannot offer"),
        Can::CannotTell => (exit::UNDECIDED, "It cannot be told whether this machine can offer"),
    };
    let headroom = against
        .headroom
        .filter(|times| against.can == Can::Yes && *times >= 1.0)
        .map_or_else(String::new, |times| format!(" with room for {} times that", number(times)));
    Verdict { exit_code, answer: format!("{can} {load}{headroom}; {}.", against.limited_by) }
}
