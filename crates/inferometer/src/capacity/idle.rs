//! Between two probes: the server works off what the last one left, and a short request shows when it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;
use clock::Clock;
use corpus::{Corpus, Tokenizer};
use decide::capacity::{Ask, Kind, Waited};
use spec::{CacheProtocol, Lengths, Limit, Nanos, Source, Spec, TokenizerChoice, Workload};
use wire::dialect::PromptRef;
use wire::{AskError, ProbeError, Session};

use crate::failure::Failure;
use crate::run::Site;

/// A server that is busy for longer is taken as it is: what keeps it busy does not end by itself.
const PATIENCE: Nanos = Nanos::from_secs(60);
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(100);
/// Tokens of a question and of its answer.
const TOKENS: (u32, u32) = (64, 16);
/// Questions that tell how long an idle server takes: their median does.
const FIRST: usize = 3;
/// An idle server takes at most so much of its usual time, and this much more.
const SLOWER: (u64, u64) = (3, 2);
const SLACK: Nanos = Nanos::from_millis(2);

/// Knows when a server is idle.
pub struct Idle {
    spec: Spec,
    stop: Arc<AtomicBool>,
    asking: Option<(Session, Corpus)>,
    asked: u64,
    usual: Option<Nanos>,
}

/// What became of a question.
enum Heard {
    After(Nanos),
    /// No place, or not in time.
    Busy,
    /// Nothing can be said: the probe itself will tell.
    Nothing,
}

impl Idle {
    /// For the server of a search.
    pub fn new(spec: &Spec, stop: &Arc<AtomicBool>) -> Self {
        let workload = Workload {
            source: Source::Synthetic,
            isl: Lengths::Fixed(TOKENS.0),
            osl: Lengths::Fixed(TOKENS.1),
            cache: CacheProtocol::Unique,
            tokenizer: TokenizerChoice::None,
        };
        let spec = Spec { workload, ..spec.clone() };
        Self { spec, stop: Arc::clone(stop), asking: None, asked: 0, usual: None }
    }

    /// Waits until the server has nothing left to do, within bounds. The first time, after a single user, it is taken to
    /// be idle, and shows how long it takes then.
    pub fn before(&mut self, ask: &Ask, site: &Site) -> Waited {
        if ask.kind == Kind::Warm {
            return Waited::default();
        }
        // Prompts that no earlier question had, also of the search that this one goes on with.
        self.asked = self.asked.max(u64::from(ask.number) << 10);
        let clock = Clock::start();
        let still_busy = match self.usual {
            Some(usual) => {
                let stop = Arc::clone(&self.stop);
                is_busy(usual, PATIENCE, &stop, |left| self.ask(site, left))
            }
            None => {
                self.usual = self.measured(site);
                false
            }
        };
        Waited { time: clock.now(), still_busy }
    }

    /// The usual time of an answer.
    fn measured(&mut self, site: &Site) -> Option<Nanos> {
        let mut times = Vec::with_capacity(FIRST);
        for _ in 0..FIRST {
            match self.ask(site, PATIENCE) {
                Heard::After(time) => times.push(time),
                Heard::Busy | Heard::Nothing => return None,
            }
        }
        times.sort_unstable();
        times.get(FIRST / 2).copied()
    }

    fn ask(&mut self, site: &Site, limit: Nanos) -> Heard {
        let number = self.asked;
        self.asked += 1;
        self.spec.timeouts.total = Limit(Some(limit));
        if self.asking.is_none() {
            self.asking = self.opened(site).ok();
        }
        let Some((session, corpus)) = &mut self.asking else { return Heard::Nothing };
        let Ok(prompt) = corpus.prompt(number, Some(TOKENS.0)) else { return Heard::Nothing };
        match session.probe(&self.spec, PromptRef::from(&prompt.content), TOKENS.1, &self.stop) {
            Ok(probe) => Heard::After(probe.answer),
            Err(ProbeError::Ask(AskError::Late(_)) | ProbeError::Refused { .. }) => Heard::Busy,
            Err(_) => Heard::Nothing,
        }
    }

    fn opened(&self, site: &Site) -> Result<(Session, Corpus)> {
        let session = site.session(&self.spec, &self.stop)?;
        let tokenizer = Tokenizer::open(&TokenizerChoice::None, None).map_err(Failure::request)?;
        // Prompts that no probe has.
        let seed = spec::seed::mix(self.spec.seed ^ 0x1d1e);
        let corpus =
            Corpus::with_tokenizer(&self.spec.workload, tokenizer, seed).map_err(Failure::request)?;
        Ok((session, corpus))
    }
}

/// Asks until an answer takes as long as on an idle server; `true`: none did while `patience` lasted.
fn is_busy(usual: Nanos, patience: Nanos, stop: &AtomicBool, mut ask: impl FnMut(Nanos) -> Heard) -> bool {
    let clock = Clock::start();
    let quick = Nanos(usual.0 / SLOWER.1 * SLOWER.0) + SLACK;
    while !stop.load(Relaxed) {
        let left = patience.saturating_since(clock.now());
        if left == Nanos::ZERO {
            return true;
        }
        match ask(left) {
            Heard::After(time) if time > quick => {}
            Heard::Busy => std::thread::sleep(PAUSE.min(left.duration())),
            Heard::After(_) | Heard::Nothing => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Nanos = Nanos::from_millis(100);

    /// How often it asks a server that answers so, and whether it goes on with a busy one.
    fn asks(answers: impl Fn(usize) -> Heard, patience: Nanos) -> (usize, bool) {
        let mut asked = 0;
        let busy = is_busy(USUAL, patience, &AtomicBool::new(false), |_| {
            asked += 1;
            answers(asked)
        });
        (asked, busy)
    }

    #[test]
    fn it_asks_until_the_answer_is_as_quick_as_usual() {
        let ms = |n: u64| Heard::After(Nanos::from_millis(n));
        let slower = |n: usize| if n < 3 { ms(153) } else { ms(151) };
        assert_eq!(asks(slower, PATIENCE), (3, false));
        assert_eq!(asks(|_| Heard::Nothing, PATIENCE), (1, false));
        let (asked, busy) = asks(|_| Heard::Busy, Nanos::from_millis(20));
        assert!(busy && asked >= 1);
        assert!(!is_busy(USUAL, PATIENCE, &AtomicBool::new(true), |_| Heard::Busy));
    }
}
