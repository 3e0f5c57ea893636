//! Second by second: was this side the bottleneck, and by what.

use std::collections::{BTreeMap, BTreeSet};

use record::{MachineSample, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::Nanos;

use crate::facts::{Facts, median};
use crate::limits;
use crate::trust::CheckId;
use crate::words::{count, counted};

/// Why this side limited what was measured. A cause stands before its effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Other work used the cores of this machine.
    OtherWork,
    /// The hypervisor took CPU time.
    Steal,
    /// A sending thread waited for a core.
    RunQueue,
    /// A sending thread used more than half of its core.
    LaneBusy,
    /// A sending thread stood still.
    LaneStall,
    /// Requests left late.
    SendLag,
    /// Data was seen late.
    ClientLag,
    /// Several events were found in one read, because reading was late.
    Coalesced,
}

impl Cause {
    /// Every cause, in the order in which they are told.
    pub const ALL: [Cause; 8] = [
        Cause::OtherWork,
        Cause::Steal,
        Cause::RunQueue,
        Cause::LaneBusy,
        Cause::LaneStall,
        Cause::SendLag,
        Cause::ClientLag,
        Cause::Coalesced,
    ];

    /// The check that judges it over the whole run.
    pub fn check(self) -> CheckId {
        match self {
            Cause::OtherWork | Cause::Steal | Cause::RunQueue => CheckId::Machine,
            Cause::LaneBusy => CheckId::LaneBusy,
            Cause::LaneStall => CheckId::LaneStall,
            Cause::SendLag => CheckId::SendLag,
            Cause::ClientLag => CheckId::ClientLag,
            Cause::Coalesced => CheckId::Coalesced,
        }
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Cause::OtherWork => "other work took the cores",
            Cause::Steal => "the hypervisor took CPU time",
            Cause::RunQueue => "sending threads waited for a core",
            Cause::LaneBusy => "a sending thread was near its limit",
            Cause::LaneStall => "a sending thread stood still",
            Cause::SendLag => "requests left late",
            Cause::ClientLag => "data was seen late",
            Cause::Coalesced => "events were read in bundles",
        }
    }
}

/// The seconds of the measurement in which this side was the bottleneck.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ClientWindows {
    /// Windows of one second that the measurement has.
    pub windows: u64,
    /// Those that are limited, in the order of time.
    pub limited: Vec<LimitedWindow>,
}

/// A second in which this side was the bottleneck.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitedWindow {
    /// Since the run's origin.
    pub from_ns: Nanos,
    /// Since the run's origin.
    pub to_ns: Nanos,
    /// Why, causes before effects.
    pub causes: Vec<Cause>,
}

impl ClientWindows {
    /// Limited windows of each cause, most frequent first.
    pub fn by_cause(&self) -> Vec<(Cause, u64)> {
        let mut count: BTreeMap<Cause, u64> = BTreeMap::new();
        for cause in self.limited.iter().flat_map(|w| &w.causes) {
            *count.entry(*cause).or_insert(0) += 1;
        }
        let mut list: Vec<(Cause, u64)> = count.into_iter().collect();
        list.sort_by_key(|(cause, n)| (std::cmp::Reverse(*n), *cause));
        list
    }
}

impl ClientWindows {
    /// In one line: `kept up in all 30 seconds`, `the bottleneck in 7 of 30 seconds: requests left late in 5, …`.
    pub fn words(&self) -> String {
        let limited = self.limited.len() as u64;
        match (self.windows, limited) {
            (0, _) => "too short to tell second by second".to_owned(),
            (1, 0) => "kept up".to_owned(),
            (n, 0) => format!("kept up in all {}", counted(n, "second")),
            (n, limited) => {
                let causes: Vec<String> = self
                    .by_cause()
                    .into_iter()
                    .map(|(cause, n)| format!("{} in {}", cause.words(), count(n)))
                    .collect();
                format!(
                    "the bottleneck in {} of {}: {}",
                    count(limited),
                    counted(n, "second"),
                    causes.join(", ")
                )
            }
        }
    }
}

/// What was heard in one window.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Heard {
    /// Events with a kernel stamp.
    pub(crate) stamped: u64,
    /// Those seen later than [`limits::CLIENT_LAG`] after their stamp.
    pub(crate) late: u64,
    /// Reads that carried output.
    reads: u64,
    /// Reads that held several events.
    bundles: u64,
}

impl Heard {
    fn is_bundled(&self) -> bool {
        self.bundles >= limits::LATE_AT_LEAST && self.bundles as f64 > limits::COALESCED * self.reads as f64
    }
}

/// Whether the p99 of `n` values, by nearest rank, is among the `beyond` of them that exceed a limit.
pub(crate) fn is_p99_beyond(beyond: u64, n: u64) -> bool {
    n > 0 && beyond > n - (0.99 * n as f64).ceil() as u64
}

/// The windows of a run with what limited each.
pub struct LimitedWindows {
    windows: Vec<Window>,
    pub(crate) heard: Vec<Heard>,
}

#[derive(Default)]
struct Window {
    from: Nanos,
    to: Nanos,
    causes: BTreeSet<Cause>,
    /// It may have raised latencies: of its requests and of those after it.
    touches: bool,
}

impl LimitedWindows {
    /// Gathers the causes in every window.
    pub fn new(facts: &Facts) -> Self {
        let windows = facts.windows.iter().map(|w| Window { from: w.0, to: w.1, ..Window::default() });
        let heard = vec![Heard::default(); facts.windows.len()];
        let mut out = Self { windows: windows.collect(), heard };
        out.machine(facts);
        out.lanes(facts);
        out.sends(facts);
        out.reads(facts);
        out
    }

    fn machine(&mut self, facts: &Facts) {
        // A server on these cores cannot be told from other work: then only what happens to the lanes counts.
        let attributable = !facts.unknown_local_target();
        for slice in machine_slices(facts) {
            // A sample and a window never start together: a slice marks the window of its middle.
            let Some(i) = facts.window_of(slice.middle()) else { continue };
            slice.causes(attributable).for_each(|cause| self.mark(i, cause, true));
        }
    }

    fn lanes(&mut self, facts: &Facts) {
        for (i, shares) in lane_shares(facts).iter().enumerate() {
            if shares.iter().any(|share| *share > limits::LANE_BUSY) {
                self.mark(i, Cause::LaneBusy, true);
            }
        }
        let stall = facts.stall_limit();
        for sample in facts.run.lanes.iter().filter(|s| s.heartbeat_max > stall) {
            for i in 0..self.windows.len() {
                if self.windows[i].from < sample.to && sample.from < self.windows[i].to {
                    self.mark(i, Cause::LaneStall, true);
                }
            }
        }
    }

    fn sends(&mut self, facts: &Facts) {
        let mut sends = vec![(0_u64, 0_u64); self.windows.len()];
        for (request, lag) in facts.measured.iter().zip(&facts.lags) {
            let (Some(lag), Some(i)) = (lag, facts.window_of(request.intended)) else { continue };
            sends[i].0 += 1;
            sends[i].1 += u64::from(*lag > facts.late_limit);
            if *lag > limits::LAG_MAX {
                self.mark(i, Cause::SendLag, true);
            }
        }
        // A burst has no timetable to be late against.
        for (i, (sent, late)) in sends.into_iter().enumerate().filter(|_| !facts.is_burst()) {
            if late >= limits::LATE_AT_LEAST && late as f64 > limits::LATE_SHARE * sent as f64 {
                self.mark(i, Cause::SendLag, false);
            }
        }
    }

    fn reads(&mut self, facts: &Facts) {
        for request in facts.measured.iter().filter(|r| r.streamed) {
            self.hear(facts, request);
        }
        for i in 0..self.windows.len() {
            if is_p99_beyond(self.heard[i].late, self.heard[i].stamped) {
                self.mark(i, Cause::ClientLag, false);
            }
        }
        // The path joins events as well: ours are those that lateness of reading explains.
        if !self.heard.iter().any(Heard::is_bundled) {
            return;
        }
        let Some(half_gap) = median_gap(facts).map(|gap| Nanos(gap.0 / 2)) else { return };
        let mut slow = vec![0_u64; self.windows.len()];
        for chunk in facts.measured.iter().flat_map(|r| &r.chunks).filter(|c| c.kernel) {
            if chunk.seen.saturating_since(chunk.arrival) > half_gap
                && let Some(i) = facts.window_of(chunk.seen)
            {
                slow[i] += 1;
            }
        }
        for (i, slow) in slow.into_iter().enumerate() {
            if self.heard[i].is_bundled() && is_p99_beyond(slow, self.heard[i].stamped) {
                self.mark(i, Cause::Coalesced, false);
            }
        }
    }

    fn hear(&mut self, facts: &Facts, request: &Request) {
        // Chunks of one read were seen at one moment.
        for (chunk, place) in request.chunks.within_reads() {
            let Some(i) = facts.window_of(chunk.seen) else { continue };
            let heard = &mut self.heard[i];
            heard.reads += u64::from(place == 1);
            heard.bundles += u64::from(place == 2);
            if chunk.kernel {
                heard.stamped += 1;
                heard.late += u64::from(chunk.seen.saturating_since(chunk.arrival) > limits::CLIENT_LAG);
            }
        }
    }

    fn mark(&mut self, window: usize, cause: Cause, touches: bool) {
        self.windows[window].causes.insert(cause);
        self.windows[window].touches |= touches;
    }

    /// For the report.
    pub fn report(&self) -> ClientWindows {
        let limited = self.windows.iter().filter(|w| !w.causes.is_empty());
        ClientWindows {
            windows: self.windows.len() as u64,
            limited: limited
                .map(|w| LimitedWindow {
                    from_ns: w.from,
                    to_ns: w.to,
                    causes: w.causes.iter().copied().collect(),
                })
                .collect(),
        }
    }

    /// Windows that may have raised latencies / windows.
    pub fn share(&self) -> f64 {
        self.windows.iter().filter(|w| w.touches).count() as f64 / self.windows.len().max(1) as f64
    }

    /// The check that a limited measurement is charged to: the one with most windows; of equals, the cause
    /// before its effects.
    pub fn culprit(&self) -> CheckId {
        let hits = |id: CheckId| {
            self.windows.iter().filter(|w| w.touches && w.causes.iter().any(|c| c.check() == id)).count()
        };
        Cause::ALL.iter().rev().map(|c| c.check()).max_by_key(|id| hits(*id)).unwrap_or(CheckId::Machine)
    }

    /// The spans that may have raised latencies, each with the window after it.
    pub fn touched(&self) -> Vec<(Nanos, Nanos)> {
        let mut out: Vec<(Nanos, Nanos)> = Vec::new();
        for (i, window) in self.windows.iter().enumerate().filter(|(_, w)| w.touches) {
            let to = self.windows.get(i + 1).map_or(window.to, |next| next.to);
            match out.last_mut() {
                Some(last) if last.1 >= window.from => last.1 = last.1.max(to),
                _ => out.push((window.from, to)),
            }
        }
        out
    }
}

/// What the machine did between two samples, as shares.
#[derive(Debug, Clone, Copy)]
pub struct Slice {
    /// The earlier sample.
    pub from: Nanos,
    /// The later one.
    pub to: Nanos,
    /// Of all cores, by other processes than this one and a known target.
    pub others: f64,
    /// Of all cores, by the hypervisor.
    pub steal: f64,
    /// Of the time in which lanes were ready to run: waiting for a core.
    pub wait: f64,
    wait_per_slice: Nanos,
}

impl Slice {
    /// `None` where too little time has passed: the kernel counts processor time in steps of 10 ms.
    pub fn between(a: &MachineSample, b: &MachineSample) -> Option<Self> {
        let elapsed = b.at.since(a.at).filter(|d| *d >= limits::SLICE)?;
        let capacity = elapsed.0 as f64 * f64::from(b.cores.max(1));
        let ours = b.own.saturating_since(a.own)
            + b.target.unwrap_or_default().saturating_since(a.target.unwrap_or_default());
        let (wait, run) =
            (b.lane_wait.saturating_since(a.lane_wait), b.lane_run.saturating_since(a.lane_run));
        let slices = b.lane_slices.saturating_sub(a.lane_slices).max(1);
        Some(Self {
            from: a.at,
            to: b.at,
            others: b.busy.saturating_since(a.busy).saturating_since(ours).0 as f64 / capacity,
            steal: b.steal.saturating_since(a.steal).0 as f64 / capacity,
            wait: wait.0 as f64 / (wait + run).0.max(1) as f64,
            wait_per_slice: Nanos(wait.0 / slices),
        })
    }
    fn middle(&self) -> Nanos {
        Nanos(self.from.0 + (self.to.0 - self.from.0) / 2)
    }
    fn crowded(&self) -> bool {
        self.others > limits::OTHERS
    }
    fn robbed(&self) -> bool {
        self.steal > limits::STEAL
    }
    /// Lanes waited for a core.
    pub(crate) fn starved(&self) -> bool {
        self.wait > limits::LANE_WAIT && self.wait_per_slice > limits::LANE_WAIT_SLICE
    }
    /// What of it limits this side; `attributable`: other work cannot be the target's own.
    pub fn causes(&self, attributable: bool) -> impl Iterator<Item = Cause> + use<> {
        let found = [
            (Cause::OtherWork, self.crowded() && attributable),
            (Cause::Steal, self.robbed()),
            (Cause::RunQueue, self.starved()),
        ];
        found.into_iter().filter_map(|(cause, found)| found.then_some(cause))
    }
    /// Beyond any limit.
    pub(crate) fn fails(&self) -> bool {
        self.crowded() || self.robbed() || self.starved()
    }
}

/// Slices whose middle lies in the span; all of them when the span is shorter than that.
pub(crate) fn machine_slices(facts: &Facts) -> Vec<Slice> {
    let all: Vec<Slice> =
        facts.run.machine.windows(2).filter_map(|pair| Slice::between(&pair[0], &pair[1])).collect();
    let inside = |s: &&Slice| (facts.from..=facts.to).contains(&s.middle());
    let inside: Vec<Slice> = all.iter().filter(inside).copied().collect();
    if inside.is_empty() { all } else { inside }
}

/// Busy share of every lane in every window: `[window][lane]`, only lanes with samples.
pub(crate) fn lane_shares(facts: &Facts) -> Vec<Vec<f64>> {
    let lanes = facts.run.lanes.iter().map(|s| usize::from(s.lane) + 1).max().unwrap_or(0);
    let mut sums = vec![vec![(0_u64, 0_u64); lanes]; facts.windows.len()];
    for sample in &facts.run.lanes {
        let middle = Nanos(sample.from.0 + sample.to.saturating_since(sample.from).0 / 2);
        if let Some(window) = facts.window_of(middle) {
            let cell = &mut sums[window][usize::from(sample.lane)];
            cell.0 += sample.busy.0;
            cell.1 += sample.to.saturating_since(sample.from).0;
        }
    }
    sums.iter().map(|row| row.iter().filter(|c| c.1 > 0).map(|c| c.0 as f64 / c.1 as f64).collect()).collect()
}

/// Median gap between reads that carried output.
pub(crate) fn median_gap(facts: &Facts) -> Option<Nanos> {
    let mut gaps: Vec<Nanos> = facts
        .measured
        .iter()
        .flat_map(|r| r.chunks.pairs())
        .filter(|(before, after)| after.read != before.read)
        .map(|(before, after)| after.arrival.saturating_since(before.arrival))
        .collect();
    median(&mut gaps)
}
