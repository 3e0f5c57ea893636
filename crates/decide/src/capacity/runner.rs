//! How the search asks for probes, and what it is told.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::{Load, Nanos, Turn};

/// What a probe is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One user at a time, until the server answers steadily.
    Warm,
    /// One stage of the closed-loop ramp.
    Ramp,
    /// A probe of the search proper.
    Main,
    /// A check that lower loads hold.
    Below,
    /// A check that higher loads do not hold.
    Above,
    /// An earlier load again, because two results contradict each other.
    Repeat,
    /// A load near the peak of a throughput that is maximised.
    Peak,
    /// A load and a setting of the knobs beside it, for the surface of a maximisation.
    Survey,
}

/// One probe as the search wants it: a drained server, fresh prompts, a fresh timetable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// Position among the probes of the search, from 0.
    pub number: u32,
    /// What it is for.
    pub kind: Kind,
    /// The load model and its size.
    pub load: Load,
    /// Seed of everything that is drawn for this probe (timetable, prompts, lengths).
    pub seed: u64,
    /// No more requests than this are intended.
    pub max_requests: u64,
    /// Nothing is intended later than this after the probe's origin.
    pub max_time: Nanos,
}

/// A request of a probe as far as it is known. Times are since the probe's origin; latencies start
/// where the view of the report has them start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Intended send (closed loop: when the user became free).
    pub intended: Nanos,
    /// When it ended, well or not; `None`: in flight.
    pub end: Option<Nanos>,
    /// It ended well.
    pub ok: bool,
    /// Time to first token, from the moment at which it is known.
    pub ttft: Option<Nanos>,
    /// Time per output token after the first, ns; `None` too where it does not exist.
    pub tpot: Option<f64>,
    /// End-to-end latency.
    pub e2e: Option<Nanos>,
    /// Output tokens so far.
    pub output_tokens: u32,
    /// Output tokens asked for; `None`: natural length.
    pub asked: Option<u32>,
    /// Input tokens; `None`: nobody counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u32>,
}

/// What is known of a probe at a moment.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// The moment, since the probe's origin.
    pub now: Nanos,
    /// Every request that was intended so far, in the order of the plan.
    pub requests: &'a [Seen],
}

/// How a probe goes on after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Enough is known: send no more, cut what is in flight or let it end, drain.
    Stop,
    /// Go on. Look again once each of the first `requests` has been intended and has either ended or
    /// is `horizon` old. A look that comes too early or too late does no harm: decisions rest on the
    /// first `requests` as they stood then, however much more is known.
    Again {
        /// How many.
        requests: u64,
        /// The age at which nothing more is expected of a request.
        horizon: Nanos,
    },
}

/// May a probe speak?
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeTrust {
    /// The client did what was asked of it.
    Trusted,
    /// It did not, for this reason: the probe says nothing about the server.
    ClientLimited(String),
}

/// A probe that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// Every request that was intended.
    pub requests: Vec<Seen>,
    /// When it was over, since its origin: nothing later is known.
    pub now: Nanos,
    /// May it speak?
    pub trust: ProbeTrust,
    /// What was waited for before it began.
    #[serde(default)]
    pub waited: Waited,
}

/// How long a server was given to work off what came before a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Waited {
    /// For so long.
    pub time: Nanos,
    /// It was not done then, and the probe began all the same.
    pub still_busy: bool,
}

/// Why no probe came back; the search ends with what it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halt {
    /// The target is gone, for this reason.
    TargetDied(String),
    /// The recorded probes are those of another search.
    OtherSearch(String),
    /// The runner cannot set the workload as asked.
    NoSuchKnob,
    /// The user stopped the search.
    Interrupted,
}

impl std::fmt::Display for Halt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Halt::TargetDied(why) => write!(f, "the target could no longer be measured: {why}"),
            Halt::OtherSearch(why) => write!(f, "the recorded probes are those of another search: {why}"),
            Halt::NoSuchKnob => f.write_str("the lengths of these requests cannot be set"),
            Halt::Interrupted => f.write_str("the search was stopped"),
        }
    }
}

/// Whoever can put a load on a server and tell what became of it.
///
/// The search is a function of its settings and of what the runner gives back: the same probes give
/// the same answer, so a search goes on from recorded probes ([`super::Replay`]).
pub trait Runner {
    /// Runs one probe on a drained server. All that a look has seen comes back in
    /// [`Finished::requests`], in the same order. `look` is first called when the first request has been
    /// intended or earlier, and then as its answer says.
    ///
    /// # Errors
    /// The target died, or the user stopped the search.
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt>;

    /// Sets the knobs beside the load for every probe from here on. A runner without knobs has none to
    /// set.
    ///
    /// # Errors
    /// The runner has no such knob.
    fn turn(&mut self, setting: &[Turn]) -> Result<(), Halt> {
        if setting.is_empty() { Ok(()) } else { Err(Halt::NoSuchKnob) }
    }
}
