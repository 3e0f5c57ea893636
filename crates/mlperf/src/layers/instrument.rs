//! L1, of the program that sent: whether it sent on time, kept up, and had a clock that ran even.

use super::{Check, Findings};

/// What is known of the program that sent, beyond what logs hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Instrument {
    /// Queries went out when they were due.
    pub schedule_lag: Option<Finding>,
    /// The sending side was not what limited the run.
    pub client: Option<Finding>,
    /// Time was measured by a clock that nobody set.
    pub clock: Option<Finding>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whether it is as it must be; `None`: not known.
    pub holds: Option<bool>,
    /// What was found.
    pub words: String,
}

const SOURCE: &str = "own rule: no official tool judges its own lateness";

pub(super) fn checks(instrument: &Instrument) -> Vec<Check> {
    let unknown = [
        (
            "schedule_lag",
            &instrument.schedule_lag,
            "how late queries went out is in no record beside these logs",
        ),
        ("client", &instrument.client, "whether the sending side kept up is in no record beside these logs"),
        (
            "clock",
            &instrument.clock,
            "LoadGen measures by the wall clock and holds it against itself: whether it was set shows nowhere",
        ),
    ];
    let check = |(id, finding, otherwise): (&'static str, &Option<Finding>, &str)| {
        let mut found = Findings::default();
        match finding {
            Some(finding) => found.must(finding.holds, finding.words.clone()),
            None => found.unknown(otherwise),
        }
        found.check(id, SOURCE)
    };
    unknown.into_iter().map(check).collect()
}
