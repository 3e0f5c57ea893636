//! What requests went over and where they went: connections, and each target's share.

use record::{Run, Spread};

use crate::estimate::{Defined, Undefined};
use crate::instrument::spread;
use crate::measures::counts;
use crate::samples::Samples;
use crate::summary::Counts;

/// The connections of a whole run, warm-up included: it opens most of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connections {
    /// Connections that carried a request.
    pub opened: u64,
    /// Of these, opened ahead of the first request.
    pub ahead: u64,
    /// Requests on a connection that had carried another before.
    pub reused: u64,
    /// Requests that went out again because an idle connection turned out dead.
    pub stale: u64,
    /// Until a connection could be used, TLS apart.
    pub connect: Defined<Spread>,
    /// TLS handshakes.
    pub tls: Defined<Spread>,
}

/// From the records of a run.
pub fn connections(run: &Run) -> Connections {
    let all = || run.requests.iter().filter_map(|request| request.connection);
    let opened = || all().filter(|connection| !connection.reused);
    let times = |values| spread(values).ok_or(Undefined::NotApplicable);
    Connections {
        opened: opened().count() as u64,
        ahead: opened().filter(|connection| connection.ahead).count() as u64,
        reused: all().filter(|connection| connection.reused).count() as u64,
        stale: all().filter(|connection| connection.stale > 0).count() as u64,
        connect: times(opened().filter_map(|connection| connection.connect).collect()),
        tls: times(opened().filter_map(|connection| connection.tls).collect()),
    }
}

/// What one of several targets did with its share of the measured requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetShare {
    /// The target, without secrets.
    pub target: String,
    /// States of its requests.
    pub counts: Counts,
    /// Output tokens of those that ended well.
    pub output_tokens: u64,
}

/// Each target's share, in the order of the spec; none where there is only one.
pub fn targets(run: &Run, samples: &Samples<'_>) -> Vec<TargetShare> {
    let spec = &run.header.spec;
    let targets = &spec.target;
    if !targets.are_several() {
        return Vec::new();
    }
    let share = |(place, target): (usize, &spec::Target)| {
        let mine = |seq: u64| targets.dealt(seq) == place;
        let done = samples.observed.iter().filter(|o| o.request.state.is_ok() && mine(o.request.seq));
        TargetShare {
            target: target.to_string(),
            counts: counts(samples.requests().filter(|request| mine(request.seq))),
            output_tokens: done.filter_map(|o| o.output.ok()).map(|(tokens, _)| u64::from(tokens)).sum(),
        }
    };
    // Addresses may hold secrets, and this is printed.
    spec.redacted().target.iter().enumerate().map(share).collect()
}
