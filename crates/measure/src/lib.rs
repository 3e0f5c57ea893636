//! Numbers from rows: percentiles, intervals, metrics, goodput, windows, censoring. Pure.

pub mod estimate;
pub mod summary;

pub use estimate::{
    Defined, Estimate, Figure, Interval, Method, MetricSummary, PERCENTILES, Undefined, Unit, percentile_name,
};
pub use summary::{Counts, Little, Measures, Throughput, TokenSource, Tokens, Window};
