//! What a search is asked, and the constants that it rests on.

use spec::{Burstiness, Load, Nanos, Open, Rate, Span};

use super::criterion::Criterion;

/// The load that is searched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Over {
    /// Requests per second of an open loop.
    Rate {
        /// Gamma shape of the gaps between arrivals.
        burstiness: Burstiness,
    },
    /// Users of a closed loop without think time: requests in flight.
    Concurrency,
    /// Users of a closed loop who think between an answer and the next request.
    Users {
        /// For how long.
        think: Nanos,
    },
}

impl Over {
    /// `rate`, `concurrency`, `users`.
    pub fn name(self) -> &'static str {
        match self {
            Over::Rate { .. } => "rate",
            Over::Concurrency => "concurrency",
            Over::Users { .. } => "users",
        }
    }
    /// The load is a whole number.
    pub fn is_whole(self) -> bool {
        !matches!(self, Over::Rate { .. })
    }
    /// The load model at this size. Users who think begin over one cycle of theirs, `e2e` being the
    /// unloaded end-to-end latency: all at once they would stay in step.
    pub(crate) fn load(self, x: f64, e2e: Option<f64>) -> Load {
        let closed = |think: Nanos, start_over: Nanos| {
            Load::Closed(spec::Closed {
                concurrency: x.clamp(1.0, f64::from(u32::MAX)) as u32,
                think: Span(think),
                start_over: Span(start_over),
            })
        };
        match self {
            Over::Rate { burstiness } => {
                // A load of the search is positive and finite.
                let rate = Rate::new(x).unwrap_or_else(|| Rate::new(1.0).expect("one per second is a rate"));
                Load::Open(Open { rate, burstiness, cap: None, ramp: None })
            }
            Over::Concurrency => closed(Nanos::ZERO, Nanos::ZERO),
            Over::Users { think } => closed(think, think + Nanos::from_secs_f64(e2e.unwrap_or(0.0))),
        }
    }
}

/// What is searched, and how far the search may go.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The load that is searched.
    pub over: Over,
    /// The limits; each is fitted on its own, and the smallest crossing is the answer.
    pub criteria: Vec<Criterion>,
    /// Seed of every probe.
    pub seed: u64,
    /// No load above this is tried (of the user, or of what the client can send).
    pub max_load: Option<f64>,
    /// Wanted width of the bracket as a share of its middle.
    pub width: f64,
    /// Probes of the search proper, without the ramp and the checks.
    pub max_probes: u32,
    /// A probe lasts at least so long, so that cycles of the server and hiccups of the client
    /// average out.
    pub least_time: Nanos,
    /// Time for the whole search, as the probes count it.
    pub budget: Option<Nanos>,
    /// How the virtual queue is used.
    pub control: Control,
    /// The requests, for the sentence of the answer: `1024/256 tokens`; empty: not said.
    pub workload: String,
}

impl Settings {
    /// The defaults for a search of `criteria` over a load.
    pub fn new(over: Over, criteria: Vec<Criterion>, seed: u64) -> Self {
        Self {
            over,
            criteria,
            seed,
            max_load: None,
            width: 0.1,
            max_probes: 12,
            least_time: Nanos::from_secs(2),
            budget: None,
            control: Control::default(),
            workload: String::new(),
        }
    }
}

/// How the virtual queue is used. Anything but the default exists to show that answers stay right
/// when the queue is absent or wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Control {
    /// Correct for the luck of the timetable at all.
    pub used: bool,
    /// Factor on the places in the queue's engine.
    pub places: f64,
    /// Factor on its speed.
    pub speed: f64,
}

impl Default for Control {
    fn default() -> Self {
        Self { used: true, places: 1.0, speed: 1.0 }
    }
}

/// Stopping rule of a probe: standard errors between its share of misses and the target. The fit
/// carries the confidence, so this only says when more requests are a waste.
pub(super) const Z_MAIN: f64 = 3.5;
/// The same for the checks below and above.
pub(super) const Z_CHECK: f64 = 2.2;
/// Determined requests at the first look; each further look needs half as many again.
pub(super) const FIRST_LOOK: u64 = 100;
/// The largest closed loop that the ramp tries.
pub(super) const MAX_USERS: u32 = 4096;
/// Requests of a stage of the ramp that count as a check of that load: where one request in ten breaks
/// a limit, none does in 50 in one of 200 tries.
pub(super) const CHECKED: usize = 50;
/// Probes within this distance in ln(load) of the centre are near: about ±30 %.
pub(super) const NEAR: f64 = 0.3;
/// Near probes that a resolved answer needs: noise between runs shows in no single one.
pub(super) const LEAST_NEAR: usize = 4;
/// A bracket is never narrower than this share of its middle on either side: pays for stopping by
/// luck, and for the error of the expectation of the virtual queue.
pub(super) const FLOOR: f64 = 0.03;

/// Requests after which a probe that decides nothing ends: a rarer miss needs more of them.
pub(super) fn cap(q: f64) -> f64 {
    1500.0 * (0.05 / q).powf(0.45)
}
