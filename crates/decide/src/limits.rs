//! Every threshold of the checks, each with where it comes from.
//!
//! "Calibrated" means that false alarms and misses were counted on simulated runs; "judged" means
//! that it rests on reasoning. Nothing else in this crate holds a threshold of a check.

use spec::Nanos;

/// Windows in which causes are judged.
pub const WINDOW: Nanos = Nanos::from_secs(1);

// Verdict: judged.
/// Sent / offered below this: invalid.
pub const INVALID_SENT: f64 = 0.90;
/// Share of limited windows above this: invalid.
pub const INVALID_WINDOWS: f64 = 0.50;
/// Mean in flight / plan below this: invalid.
pub const INVALID_IN_FLIGHT: f64 = 0.80;
/// Share of requests that did not end well above this: invalid.
pub const INVALID_FAILURES: f64 = 0.50;
/// Share of the server's tokens that were not ours above this: invalid.
pub const INVALID_FOREIGN: f64 = 0.50;

// send_lag: calibrated (quiet machine: p99 0.02–1.5 ms, worst 2–23 ms).
/// A send is late beyond this …
pub const LATE_MIN: Nanos = Nanos::from_millis(2);
/// … or beyond this share of the mean gap, whichever is larger.
pub const LATE_SHARE_OF_GAP: f64 = 0.05;
/// Share of late sends.
pub const LATE_SHARE: f64 = 0.02;
/// One late send proves nothing.
pub const LATE_AT_LEAST: u64 = 2;
/// Longest lag; also the lag that makes a window limited.
pub const LAG_MAX: Nanos = Nanos::from_millis(35);
/// Error bound of a percentile below which it is never a fault.
pub const BOUND_MIN: Nanos = Nanos::from_millis(1);
/// Error bound / percentile beyond which the percentile is flagged.
pub const BOUND_FLAG: f64 = 0.05;
/// Error bound / percentile beyond which it is withheld.
pub const BOUND_WITHHOLD: f64 = 0.20;

// lane_stall: calibrated (a 50 ms stop answers 45–50 ms late; quiet machine up to 23 ms).
/// Longest delay of a heartbeat.
pub const STALL: Nanos = Nanos::from_millis(35);

/// Or this many times the worst of the machine's own self-check, where that is more: judged.
pub const STALL_OWN: f64 = 1.5;
/// A limit beyond this lets a stop of 50 ms slip through.
pub const STALL_BLIND: Nanos = Nanos::from_millis(45);

// floor: judged.
/// A value below this many times the instrument's own error is its as much as the server's.
pub const FLOOR_TIMES: f64 = 10.0;

// client_lag: calibrated.
/// p99 of a window.
pub const CLIENT_LAG: Nanos = Nanos::from_millis(10);
/// Share of windows.
pub const CLIENT_LAG_WINDOWS: f64 = 0.05;

// machine: calibrated on two cores, both burnt.
/// Other processes' share of all cores.
pub const OTHERS: f64 = 0.80;
/// Share of all cores taken by the hypervisor.
pub const STEAL: f64 = 0.05;
/// Lanes' wait / (run + wait) …
pub const LANE_WAIT: f64 = 0.25;
/// … together with this wait per slice.
pub const LANE_WAIT_SLICE: Nanos = Nanos::from_millis(1);
/// Share of windows.
pub const MACHINE_WINDOWS: f64 = 0.20;

// lane_busy: judged.
/// Busy share of a lane in a window.
pub const LANE_BUSY: f64 = 0.50;
/// Share of windows.
pub const LANE_BUSY_WINDOWS: f64 = 0.05;

// coalesced: calibrated with user stamps.
/// Share of reads with more than one output event.
pub const COALESCED: f64 = 0.02;

// arrivals: injected faults only.
/// Sent / offered.
pub const SENT: f64 = 0.99;
/// Windows in which sent / offered is looked at.
pub const SENT_WINDOW: Nanos = Nanos::from_secs(5);

// in_flight: injected faults only.
/// Mean in flight / plan.
pub const IN_FLIGHT: f64 = 0.97;
/// Share of requests delayed by a cap.
pub const DELAYED_BY_CAP: f64 = 0.01;

// bookkeeping: arithmetic.
/// Relative difference of two integrals of the same thing.
pub const BOOKS: f64 = 0.001;
/// Sampled in flight against records, as a share …
pub const SAMPLED_SHARE: f64 = 0.01;
/// … or as a number, whichever is larger.
pub const SAMPLED_ABS: f64 = 0.5;
/// Share of requests lost by a killed run beyond which the books do not balance: judged.
pub const LOST: f64 = 0.01;
/// … and beyond which nothing may be concluded from the rest: judged.
pub const LOST_GRAVE: f64 = 0.05;
/// Shorter spans between two samples of the machine tell nothing: judged.
pub const SLICE: Nanos = Nanos::from_millis(200);
/// Share of a closed loop's time in which a lane stood still, beyond which its throughput is the client's: judged.
pub const STALLED_LOOP: f64 = 0.01;

// overload and steady: calibrated. The rules themselves live beside the statistics, in crate
// `measure`; these are what is said of them, and what is left unclear.
/// Growth that a window of at least 50 s may have.
pub const OVERLOAD_LONG_GROWTH: f64 = 0.03;
/// Growth that a shorter one may have.
pub const OVERLOAD_SHORT_GROWTH: f64 = 0.05;
/// The shortest window.
pub const OVERLOAD_SHORTEST: Nanos = Nanos::from_secs(25);
/// Growth and z above which nothing is said, below the rule's own limits.
pub const OVERLOAD_UNCLEAR: (f64, f64) = (0.03, 2.0);
/// Smallest step that counts.
pub const STEP_SHARE: f64 = 0.08;
/// Smallest trend over the window that counts.
pub const TREND_SHARE: f64 = 0.05;

// stalls: calibrated.
/// Pauses not of this side's making that are worth a note.
pub const SILENCES: usize = 3;

// samples.
/// Fewest samples for anything.
pub const SAMPLES_MIN: u64 = 6;

// failures, censored: calibrated.
/// Share that did not end well.
pub const FAILURES: f64 = 0.01;
/// One failure proves nothing.
pub const FAILURES_AT_LEAST: u64 = 2;
/// Share timed out or cut.
pub const CENSORED: f64 = 0.01;

// Lengths and counts: injected faults only.
/// Share of forced answers delivered with another length.
pub const OUT_LENGTH: f64 = 0.01;
/// Median of (server − planned) / planned.
pub const IN_LENGTH: f64 = 0.10;
/// Share of requests off the median difference.
pub const IN_LENGTH_OFF: f64 = 0.05;
/// Off the median difference by more than this many tokens …
pub const IN_LENGTH_TOKENS: f64 = 2.0;
/// … or this share of the planned length.
pub const IN_LENGTH_SHARE: f64 = 0.02;
/// A constant difference up to this many tokens is a chat template, however short the prompt: judged.
pub const TEMPLATE_TOKENS: i64 = 64;
/// Two counts of the output.
pub const TOKEN_COUNT: f64 = 0.01;
/// Distinct prompts / prompts.
pub const UNIQUE: f64 = 0.99;
/// Share of input tokens found in the cache beyond the plan.
pub const CACHE: f64 = 0.01;
/// Share of repeated or cached prompts beyond which TTFT and throughput are withheld.
pub const CACHE_WITHHOLD: f64 = 0.20;
/// A server's cache works in blocks of this many tokens.
pub const CACHE_BLOCK: i64 = 16;

// Stream shapes: judged, no false alarm on 63 recorded streams of four engines.
/// Fewest output tokens for a stream to be judged.
pub const BUFFERED_TOKENS: u32 = 8;
/// Output within this share of the smallest e2e of the run …
pub const BUFFERED_SHARE: f64 = 0.02;
/// … or this long per token.
pub const BUFFERED_PER_TOKEN: Nanos = Nanos::from_micros(200);
/// Share of requests.
pub const BUFFERED: f64 = 0.50;
/// Fewest requests.
pub const BUFFERED_AT_LEAST: u64 = 5;
/// Fewest chunks of a stream.
pub const CUMULATIVE_CHUNKS: usize = 4;
/// Share of chunks that extend the one before.
pub const CUMULATIVE: f64 = 0.50;
/// In one run of at least this many.
pub const CUMULATIVE_RUN: u32 = 4;
/// In at least this many streams.
pub const CUMULATIVE_STREAMS: u64 = 3;
/// Tokens of the prompt repeated by the answer, at most this share of the prompt …
pub const ECHO_SHARE: f64 = 0.50;
/// … or this many, whichever is fewer …
pub const ECHO_TOKENS: u32 = 64;
/// … but at least this many.
pub const ECHO_MIN: u32 = 8;
/// Share of requests.
pub const ECHO: f64 = 0.05;

// foreign: calibrated.
/// Requests on the server that are not ours …
pub const FOREIGN_REQUESTS: f64 = 2.0;
/// … or this share of ours, whichever is larger …
pub const FOREIGN_SHARE: f64 = 0.10;
/// … in this share of scrapes.
pub const FOREIGN_SCRAPES: f64 = 0.50;
/// Tokens beyond ours.
pub const FOREIGN_TOKENS: f64 = 0.02;

// clock: calibrated.
/// Drift that the wall clock may have.
pub const DRIFT: f64 = 500e-6;
/// A step.
pub const CLOCK_STEP: Nanos = Nanos::from_millis(1);
