//! Numbers from rows: percentiles, intervals, metrics, goodput, windows, censoring. Pure.

pub mod client_error;
pub mod correlation;
pub mod distribution;
pub mod estimate;
mod fft;
pub mod instrument;
pub mod interval;
pub mod level;
pub mod measures;
pub mod percentile;
pub mod pictures;
pub mod pooled;
mod ranks;
pub mod rates;
pub mod repeats;
pub mod request;
pub mod samples;
mod series;
pub mod slo;
pub mod special;
pub mod stalls;
pub mod steady;
pub mod summary;
pub mod survival;
pub mod tokens;
pub mod traffic;
pub mod trend;

pub use client_error::{ClientError, Suspect, client_error_bound};
pub use distribution::Distribution;
pub use estimate::{
    Defined, Estimate, Figure, Interval, Method, MetricSummary, PERCENTILES, Undefined, Unit, percentile_name,
};
pub use instrument::{Instrument, StampErrors, Truth, stamp_errors};
pub use level::{Bins, Levels, in_flight_series};
pub use measures::{counts, measure};
pub use percentile::{needed, percentile};
pub use pictures::{Pictures, pictures};
pub use rates::{Rates, rates_in};
pub use samples::Samples;
pub use slo::{Joint, good, joint, marginal};
pub use summary::{Counts, Little, Measures, Throughput, TokenSource, Tokens, Window};
pub use traffic::{Connections, TargetShare, connections};
pub use trend::{Growth, MannKendall, growth, mann_kendall};
