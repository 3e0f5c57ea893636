//! What several checks need from a run, computed once: windows, lags, the measured requests.

use std::net::{IpAddr, SocketAddr};

use measure::Measures;
use measure::instrument::send_lag;
use record::{Request, Run};
use spec::{Load, Metric, Nanos, Phase, Spec, Target, View};

use crate::limits;

/// What several checks need from a run.
pub struct Facts<'a> {
    /// The records.
    pub run: &'a Run,
    /// The numbers, not capped.
    pub measures: &'a Measures,
    /// Requests of the measurement phase, by `seq`.
    pub measured: Vec<&'a Request>,
    /// Start of the span in which measured requests were intended.
    pub from: Nanos,
    /// End of that span.
    pub to: Nanos,
    /// A send later than this after its time is late.
    pub late_limit: Nanos,
    /// Lag of every measured request that was sent, in the order of `measured`.
    pub lags: Vec<Option<Nanos>>,
    /// One-second windows of the span.
    pub windows: Vec<(Nanos, Nanos)>,
    /// Every chunk carries a kernel stamp, and there is one.
    pub kernel_stamped: bool,
}

impl<'a> Facts<'a> {
    /// Gather.
    pub fn new(run: &'a Run, measures: &'a Measures) -> Self {
        let measured: Vec<&Request> = run.requests.iter().filter(|r| r.phase == Phase::Measure).collect();
        let from = run.footer.measure_from;
        let to = run.footer.measure_to.max(from);
        let span = to.saturating_since(from);
        // A user's own gap, in a closed loop: users do not wait for each other.
        let users = match &run.header.spec.load {
            Load::Closed(closed) => u64::from(closed.concurrency),
            Load::Open(_) => 1,
        };
        let gap = mean_gap(&measured).saturating_mul(users);
        let late_limit = limits::LATE_MIN.max(Nanos((gap as f64 * limits::LATE_SHARE_OF_GAP) as u64));
        let lags = measured.iter().map(|r| send_lag(r)).collect();
        let kernel_stamped = kernel_stamped(&measured);
        let windows = windows(from, span);
        Self { run, measures, measured, from, to, late_limit, lags, windows, kernel_stamped }
    }

    /// Delay of a heartbeat from which a lane stood still: half more than the worst that this machine
    /// shows when it has little to do, where that is known and more than the usual limit.
    pub fn stall_limit(&self) -> Nanos {
        let floor = self.run.header.environment.self_check.as_ref().and_then(|check| check.heartbeat_max_ns);
        let own = floor.map_or(0.0, |worst| worst as f64 * limits::STALL_OWN);
        limits::STALL.max(Nanos(own as u64))
    }

    /// Length of the span.
    pub fn span(&self) -> Nanos {
        self.to.saturating_since(self.from)
    }

    /// Index of the window that holds this moment.
    pub fn window_of(&self, at: Nanos) -> Option<usize> {
        let offset = at.since(self.from)?;
        let index = (offset.0 / limits::WINDOW.0) as usize;
        (index < self.windows.len()).then_some(index)
    }

    /// Open loop with a timetable, as against users or one burst.
    pub fn has_timetable(&self) -> bool {
        matches!(&self.run.header.spec.load, Load::Open(open) if !open.rate.is_infinite())
    }

    /// Everything at once.
    pub fn is_burst(&self) -> bool {
        matches!(&self.run.header.spec.load, Load::Open(open) if open.rate.is_infinite())
    }

    /// The server runs on this machine and its share of the CPU is not known, so that it cannot be
    /// told from other work.
    pub fn unknown_local_target(&self) -> bool {
        let header = &self.run.header;
        if self.run.machine.iter().any(|m| m.target.is_some()) {
            return false;
        }
        is_local(&header.spec, &header.environment.addresses)
    }

    /// Whether latencies that have a start begin at the intended send.
    pub fn user_view(&self) -> bool {
        self.measures.view == View::User
    }

    /// Whether any measured answer was a stream.
    pub fn streamed(&self) -> bool {
        self.measured.iter().any(|r| r.streamed && !r.chunks.is_empty())
    }

    /// Requests that did not end well.
    pub fn not_ok(&self) -> u64 {
        self.measures.counts.offered.saturating_sub(self.measures.counts.ok)
    }
}

/// Whether a run's server is on this machine, by its names or its addresses.
pub fn is_local(spec: &Spec, addresses: &[String]) -> bool {
    let loopback = |text: &str| {
        text.parse::<SocketAddr>()
            .map(|a| a.ip())
            .or_else(|_| text.parse::<IpAddr>())
            .is_ok_and(|ip| ip.is_loopback())
    };
    let local = |target: &Target| {
        let Target::Http(url) = target else { return false };
        let host = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        let host = host.split(['/', ':']).next().unwrap_or(host);
        host == "localhost" || url.contains("://[::1]") || loopback(host)
    };
    spec.client.unix.is_some() || spec.target.iter().any(local) || addresses.iter().any(|a| loopback(a))
}

/// Latencies that start at the intended send in user view.
pub const STARTED: [Metric; 3] = [Metric::Ttft, Metric::Ttfat, Metric::E2e];

fn kernel_stamped(requests: &[&Request]) -> bool {
    let mut chunks = requests.iter().flat_map(|request| &request.chunks).peekable();
    chunks.peek().is_some() && chunks.all(|chunk| chunk.kernel)
}

/// Mean gap of the intended sends in nanoseconds.
fn mean_gap(requests: &[&Request]) -> u64 {
    let first = requests.iter().map(|r| r.intended).min().unwrap_or_default();
    let last = requests.iter().map(|r| r.intended).max().unwrap_or_default();
    match requests.len() as u64 {
        0 | 1 => 0,
        n => last.saturating_since(first).0 / (n - 1),
    }
}

/// Windows of one second; a rest of at least half a window counts as one, and so does a whole
/// span shorter than that.
fn windows(from: Nanos, span: Nanos) -> Vec<(Nanos, Nanos)> {
    let width = limits::WINDOW.0;
    let mut out: Vec<(Nanos, Nanos)> =
        (0..span.0 / width).map(|k| (from + Nanos(k * width), from + Nanos((k + 1) * width))).collect();
    let rest = span.0 % width;
    if rest * 2 >= width || (out.is_empty() && rest > 0) {
        out.push((from + Nanos(span.0 - rest), from + span));
    }
    out
}

/// Middle of a list, the lower one of two.
pub fn median<T: Copy + Ord>(values: &mut [T]) -> Option<T> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable(middle).1)
}

/// The value that the share `p` of the list does not exceed (nearest rank).
pub fn quantile<T: Copy + Ord>(values: &mut [T], p: f64) -> Option<T> {
    let rank = (p * values.len() as f64).ceil().max(1.0) as usize;
    (rank <= values.len()).then(|| *values.select_nth_unstable(rank - 1).1)
}
