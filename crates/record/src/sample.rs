//! What the instrument, the machine and the server did while the requests ran.

use serde::{Deserialize, Serialize};
use spec::Nanos;

/// One lane over one window (250 ms by default; `from` to `to`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneSample {
    /// Which lane.
    pub lane: u16,
    /// Window.
    pub from: Nanos,
    /// Window.
    pub to: Nanos,
    /// CPU time of the lane's thread inside the window.
    pub busy: Nanos,
    /// Longest delay between a heartbeat asked by the pacer and answered by the lane.
    pub heartbeat_max: Nanos,
    /// Heartbeats answered.
    pub heartbeats: u32,
    /// Requests in flight at `to`, from the lane's own counter.
    pub in_flight: u32,
}

/// The machine, once a second. Cumulative counters since boot or process start, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MachineSample {
    /// When.
    pub at: Nanos,
    /// Cores.
    pub cores: u32,
    /// CPU time of all cores that was not idle or waiting for a disk.
    pub busy: Nanos,
    /// CPU time taken by the hypervisor.
    pub steal: Nanos,
    /// CPU time of this process.
    pub own: Nanos,
    /// CPU time of the target's processes where they are known (embedded engine).
    pub target: Option<Nanos>,
    /// Run-queue wait of the lanes' threads.
    pub lane_wait: Nanos,
    /// Run time of the lanes' threads.
    pub lane_run: Nanos,
    /// Times a lane's thread was put on a core.
    pub lane_slices: u64,
}

/// A pair of readings of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockSample {
    /// Monotonic, since the run's origin.
    pub at: Nanos,
    /// Wall clock minus monotonic, in nanoseconds since the Unix epoch at the run's origin.
    pub offset_ns: i64,
    /// Uncertainty of the pair.
    pub width: Nanos,
}

/// One scrape of the server's metrics.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ServerSample {
    /// When.
    pub at: Nanos,
    /// Requests running.
    pub running: Option<f64>,
    /// Requests waiting.
    pub waiting: Option<f64>,
    /// Tokens generated since start.
    pub generated_tokens: Option<f64>,
    /// Prompt tokens since start.
    pub prompt_tokens: Option<f64>,
    /// Prompt tokens found in the prefix cache since start.
    pub cached_tokens: Option<f64>,
    /// Share of the KV cache in use.
    pub kv_usage: Option<f64>,
    /// Preemptions since start.
    pub preemptions: Option<f64>,
    /// Ours in flight at that moment.
    pub ours_in_flight: u32,
}
