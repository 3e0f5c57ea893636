//! Going on from recorded probes.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use spec::Turn;

use super::runner::{Ask, Finished, Halt, Look, Next, Runner};

/// A probe as it was asked for and as it came back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// What was asked.
    pub ask: Ask,
    /// What came back.
    pub finished: Finished,
}

/// Gives recorded probes back as long as the search asks for the same ones, and then asks `live`.
pub struct Replay<'a> {
    recorded: VecDeque<Recorded>,
    live: Option<&'a mut dyn Runner>,
}

impl<'a> Replay<'a> {
    /// `live`: who makes the probes that are not recorded; `None`: the search ends there.
    pub fn new(recorded: Vec<Recorded>, live: Option<&'a mut dyn Runner>) -> Self {
        Self { recorded: recorded.into(), live }
    }
}

impl Runner for Replay<'_> {
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        if let Some(front) = self.recorded.front() {
            if front.ask.load != ask.load || front.ask.kind != ask.kind || front.ask.seed != ask.seed {
                return Err(Halt::OtherSearch(format!(
                    "probe {} was made at another load or with another seed than is asked for now; search again from \
                     the start",
                    front.ask.number
                )));
            }
            let Some(Recorded { finished, .. }) = self.recorded.pop_front() else {
                return Err(Halt::Interrupted);
            };
            // Everything is known at once, and the search decides by the first requests alone.
            let _ = look(Look { now: finished.now, requests: &finished.requests });
            return Ok(finished);
        }
        match &mut self.live {
            Some(live) => live.probe(ask, look),
            None => Err(Halt::Interrupted),
        }
    }

    /// The seeds of the recorded probes tell one setting from another.
    fn turn(&mut self, setting: &[Turn]) -> Result<(), Halt> {
        self.live.as_mut().map_or(Ok(()), |live| live.turn(setting))
    }
}
