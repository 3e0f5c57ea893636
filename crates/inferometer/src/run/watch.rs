//! Whether this side keeps up, while the run goes on: from samples that pass by on their way to the journal and
//! from counters that lanes never wait for.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use decide::words::{count, percent, time};
use decide::{Cause, limits, windows::Slice};
use record::{Entry, LaneSample, MachineSample, ServerSample, Waiting};
use spec::Nanos;
use wire::{Live, Snapshot};

/// What is told is of this last while.
const SPELL: Nanos = Nanos::from_secs(2);
/// The machine is sampled once a second: its last slice is told for a little longer than that.
const MACHINE_SPELL: Nanos = Nanos::from_millis(2_500);
/// So many entries that wait for the disk are worth a word.
const DEEP: u64 = 20_000;

/// The last samples of a run. Written by the relay, read by whoever draws; no lane ever takes its lock.
pub struct Watch {
    seen: Mutex<Seen>,
    attributable: bool,
}

/// The last of each.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    lanes: VecDeque<LaneSample>,
    machine: Option<MachineSample>,
    /// What the machine did between its last two samples.
    pub slice: Option<Slice>,
    /// The last scrape of the server.
    pub server: Option<ServerSample>,
    /// What waits for the disk.
    pub waiting: Waiting,
}

impl Watch {
    /// Nothing is known. `attributable`: other work on this machine cannot be the server's.
    pub fn new(attributable: bool) -> Self {
        Self { seen: Mutex::default(), attributable }
    }

    /// A sample passes by.
    pub fn note(&self, entry: &Entry, waiting: Waiting) {
        let mut seen = self.seen();
        seen.waiting = waiting;
        match entry {
            Entry::Lane(sample) => {
                let until = sample.to;
                seen.lanes.push_back(*sample);
                while seen.lanes.front().is_some_and(|s| s.to + SPELL < until) {
                    seen.lanes.pop_front();
                }
            }
            Entry::Machine(sample) => {
                if let Some(before) = seen.machine.replace(*sample) {
                    seen.slice = Slice::between(&before, sample);
                }
            }
            Entry::Server(sample) => seen.server = Some(*sample),
            _ => {}
        }
    }

    /// A copy of what was seen.
    pub fn last(&self) -> Seen {
        self.seen().clone()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// Longest delay of a heartbeat in the last while.
    pub fn heartbeat(&self) -> Option<Nanos> {
        self.lanes.iter().map(|s| s.heartbeat_max).max()
    }

    /// Share of its core that the busiest lane used in the last while.
    pub fn busiest(&self) -> Option<f64> {
        let lanes = self.lanes.iter().map(|s| s.lane).max()?;
        let share = |lane: u16| {
            let of = || self.lanes.iter().filter(move |s| s.lane == lane);
            let whole: u64 = of().map(|s| s.to.saturating_since(s.from).0).sum();
            of().map(|s| s.busy.0).sum::<u64>() as f64 / whole.max(1) as f64
        };
        (0..=lanes).map(share).reduce(f64::max)
    }
}

/// Sends in the last while, by looking at the counters again and again.
#[derive(Default)]
pub struct Sends {
    looks: VecDeque<Look>,
}

#[derive(Clone, Copy)]
struct Look {
    at: Nanos,
    begun: u64,
    late: u64,
    worst: Nanos,
}

impl Sends {
    /// One look.
    pub fn look(&mut self, snapshot: &Snapshot, worst: Nanos) {
        let at = snapshot.now.unwrap_or_default();
        self.looks.push_back(Look { at, begun: snapshot.sent, late: snapshot.late, worst });
        // The last look that is older than the spell is where it begins.
        while self.looks.get(1).is_some_and(|second| second.at + SPELL <= at) {
            self.looks.pop_front();
        }
    }

    /// Sends, late ones among them, and the longest lag.
    pub fn recent(&self) -> (u64, u64, Nanos) {
        let (Some(first), Some(last)) = (self.looks.front(), self.looks.back()) else {
            return (0, 0, Nanos::ZERO);
        };
        // The lag of the first look is of the time before it.
        let worst = self.looks.iter().skip(1).map(|l| l.worst).max().unwrap_or(last.worst);
        (last.begun.saturating_sub(first.begun), last.late.saturating_sub(first.late), worst)
    }
}

/// Why this side is behind at this moment, each cause with its figure; nothing where it keeps up.
pub fn behind(live: &Live, watch: &Watch, sends: &mut Sends) -> Vec<(Cause, String)> {
    let snapshot = live.snapshot();
    sends.look(&snapshot, live.take_lag());
    causes(&watch.last(), watch.attributable, sends, snapshot.now.unwrap_or_default())
}

fn causes(seen: &Seen, attributable: bool, sends: &Sends, now: Nanos) -> Vec<(Cause, String)> {
    let mut out = Vec::new();
    if let Some(slice) = seen.slice.filter(|s| s.to + MACHINE_SPELL >= now) {
        out.extend(slice.causes(attributable).map(|cause| {
            let text = match cause {
                Cause::OtherWork => format!("other work takes {} of the cores", percent(slice.others)),
                Cause::Steal => format!("the hypervisor takes {} of the cores", percent(slice.steal)),
                _ => format!("sending threads wait for a core {} of the time", percent(slice.wait)),
            };
            (cause, text)
        }));
    }
    if let Some(share) = seen.busiest().filter(|share| *share > limits::LANE_BUSY) {
        out.push((Cause::LaneBusy, format!("a sending thread uses {} of its core", percent(share))));
    }
    if let Some(longest) = seen.heartbeat().filter(|h| *h > limits::STALL) {
        out.push((Cause::LaneStall, format!("a sending thread stood still for {}", time(longest.0 as f64))));
    }
    let (begun, late, worst) = sends.recent();
    let many = late >= limits::LATE_AT_LEAST && late as f64 > limits::LATE_SHARE * begun as f64;
    if many || worst > limits::LAG_MAX {
        let text = format!(
            "{} of {} sends late, worst {}",
            count(late),
            count(begun.max(late)),
            time(worst.0 as f64)
        );
        out.push((Cause::SendLag, text));
    }
    out
}

/// What waits for the disk, where that is worth a word.
pub fn journal_words(waiting: Waiting) -> Option<String> {
    (waiting.entries >= DEEP).then(|| {
        format!(
            "the journal is {} entries behind ({} MiB)",
            count(waiting.entries),
            waiting.bytes.div_ceil(1 << 20)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    fn lane(from: u64, busy: u64, heartbeat: u64) -> Entry {
        Entry::Lane(LaneSample {
            lane: 0,
            from: ms(from),
            to: ms(from + 250),
            busy: ms(busy),
            heartbeat_max: ms(heartbeat),
            heartbeats: 50,
            in_flight: 1,
        })
    }

    fn machine(at_s: u64, busy_ms: u64, steal_ms: u64) -> Entry {
        Entry::Machine(MachineSample {
            at: Nanos::from_secs(at_s),
            cores: 2,
            busy: ms(busy_ms),
            steal: ms(steal_ms),
            ..MachineSample::default()
        })
    }

    fn told(watch: &Watch, sends: &Sends, now: u64) -> Vec<Cause> {
        causes(&watch.last(), watch.attributable, sends, ms(now))
            .into_iter()
            .map(|(cause, _)| cause)
            .collect()
    }

    #[test]
    fn a_lane_that_stood_still_is_told_for_two_seconds() {
        let watch = Watch::new(true);
        watch.note(&lane(0, 10, 1), Waiting::default());
        assert!(told(&watch, &Sends::default(), 250).is_empty());
        watch.note(&lane(250, 10, 50), Waiting::default());
        let seen = causes(&watch.last(), true, &Sends::default(), ms(500));
        assert_eq!(seen, [(Cause::LaneStall, "a sending thread stood still for 50.0\u{a0}ms".to_owned())]);
        // Two seconds of samples later it is forgotten.
        (2..12).for_each(|i| watch.note(&lane(i * 250, 10, 1), Waiting::default()));
        assert!(told(&watch, &Sends::default(), 3_000).is_empty());
    }

    #[test]
    fn the_machine_is_told_from_its_last_second() {
        let watch = Watch::new(true);
        watch.note(&machine(0, 0, 0), Waiting::default());
        watch.note(&machine(1, 1_900, 0), Waiting::default());
        assert_eq!(told(&watch, &Sends::default(), 1_100), [Cause::OtherWork]);
        assert!(told(&watch, &Sends::default(), 9_000).is_empty(), "an old sample says nothing of now");
        // A server on these cores may be that work; steal is nobody's.
        let shared = Watch::new(false);
        shared.note(&machine(0, 0, 0), Waiting::default());
        shared.note(&machine(1, 1_900, 200), Waiting::default());
        assert_eq!(told(&shared, &Sends::default(), 1_100), [Cause::Steal]);
    }

    #[test]
    fn late_sends_are_those_of_the_last_two_seconds() {
        let snapshot =
            |at: u64, sent: u64, late: u64| Snapshot { now: Some(ms(at)), sent, late, ..Snapshot::default() };
        let mut sends = Sends::default();
        let watch = Watch::new(true);
        sends.look(&snapshot(0, 0, 0), Nanos::ZERO);
        sends.look(&snapshot(500, 50, 5), ms(12));
        assert_eq!(sends.recent(), (50, 5, ms(12)));
        assert_eq!(told(&watch, &sends, 500), [Cause::SendLag]);
        // One late send of hundreds proves nothing, unless it was very late.
        let mut one = Sends::default();
        one.look(&snapshot(0, 0, 0), Nanos::ZERO);
        one.look(&snapshot(500, 500, 1), ms(12));
        assert!(told(&watch, &one, 500).is_empty());
        one.look(&snapshot(1_000, 900, 2), ms(36));
        assert_eq!(told(&watch, &one, 1_000), [Cause::SendLag]);
        // Forgotten once the spell is over.
        for at in 2..=6 {
            sends.look(&snapshot(at * 500, 50 * at, 5), Nanos::ZERO);
        }
        assert_eq!(sends.recent(), (200, 0, Nanos::ZERO));
    }

    #[test]
    fn the_journal_is_told_when_it_is_far_behind() {
        assert_eq!(journal_words(Waiting { entries: 19_999, bytes: 1 }), None);
        let text = journal_words(Waiting { entries: 40_000, bytes: 30 << 20 }).unwrap();
        assert!(text.contains("40,000 entries") && text.contains("(30 MiB)"), "{text}");
    }
}
