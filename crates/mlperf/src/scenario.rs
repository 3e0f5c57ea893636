//! How queries follow each other.

/// How queries follow each other. What MLPerf calls Interactive is Server with limits of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// One sample; the next one after its answer.
    SingleStream,
    /// Several samples at once; the next ones after the last answer. The latency is the slowest's.
    MultiStream,
    /// Poisson arrivals of one sample; the latency starts when it was due.
    Server,
    /// All samples in one query.
    Offline,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Scenario; 4] =
        [Scenario::SingleStream, Scenario::MultiStream, Scenario::Server, Scenario::Offline];

    /// As conf files and logs spell it.
    pub fn name(self) -> &'static str {
        match self {
            Scenario::SingleStream => "SingleStream",
            Scenario::MultiStream => "MultiStream",
            Scenario::Server => "Server",
            Scenario::Offline => "Offline",
        }
    }

    /// From [`Scenario::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name() == name)
    }
}
