//! When to send what: pure functions of a [`spec::Spec`] and its seed.

use serde::{Deserialize, Serialize};
use spec::{Nanos, Phase};

/// One request that the plan wants sent. Times are relative to the run's origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Position in the plan, from 0, over warm-up and measurement.
    pub seq: u64,
    /// Open loop: when it should leave. Closed loop: think time to add to the moment at which the
    /// user's slot became free.
    pub at: Nanos,
    /// The phase that it counts in. In closed loop with a duration the driver decides by the clock.
    pub phase: Phase,
    /// Input tokens asked of the corpus; `None`: as the data set has it.
    pub isl: Option<u32>,
    /// Output tokens asked of the server; `None`: natural length.
    pub osl: Option<u32>,
}
