//! Where a run is in its course, in words.

use decide::words::{clock_time, count, number};
use plan::Plan;
use spec::{Extent, Load, Nanos, Spec, Warmup};
use wire::Snapshot;

/// What is known of a run's course before it begins.
pub struct Course {
    /// Target, load and lengths.
    pub title: String,
    warmup: Span,
    measure: Span,
}

/// The length of a phase: by time, by requests, or none.
#[derive(Clone, Copy)]
enum Span {
    None,
    Time(Nanos),
    Requests(u64),
}

impl Course {
    /// Of a spec and its plan.
    pub fn new(spec: &Spec, plan: &Plan) -> Self {
        let load = match &spec.load {
            Load::Closed(closed) => format!("{} concurrent", closed.concurrency),
            Load::Open(open) if open.rate.is_infinite() => "all at once".to_owned(),
            Load::Open(open) => format!("{} req/s", number(open.rate.per_second())),
        };
        let lengths = |l: &spec::Lengths| l.to_string();
        Self {
            title: format!(
                "{} · {load} · {} in / {} out",
                spec.target,
                lengths(&spec.workload.isl),
                lengths(&spec.workload.osl)
            ),
            warmup: match spec.phases.warmup {
                Warmup::None => Span::None,
                Warmup::Requests(n) => Span::Requests(n),
                Warmup::Duration(span) => Span::Time(span.0),
            },
            measure: match (spec.phases.measure, plan.planned().measure) {
                (Extent::Duration(span), _) => Span::Time(span.0),
                (Extent::Requests(n), _) => Span::Requests(n),
            },
        }
    }

    /// Share of the measurement that is over, and where the run is, in words.
    pub fn place(&self, s: &Snapshot) -> (f64, String) {
        if let (None, (open, wanted @ 1..)) = (s.now, s.ahead) {
            let share = f64::from(open) / f64::from(wanted);
            return (
                share,
                format!("opening connections {} of {}", count(u64::from(open)), count(u64::from(wanted))),
            );
        }
        let now = s.now.unwrap_or_default();
        let warm_until = match self.warmup {
            Span::Time(t) => t,
            _ => Nanos::ZERO,
        };
        if now < warm_until {
            return (
                now.0 as f64 / warm_until.0 as f64,
                format!("warm-up {} of {}", clock_time(now), clock_time(warm_until)),
            );
        }
        match self.measure {
            Span::Time(whole) => {
                let gone = now.saturating_since(warm_until);
                if gone >= whole {
                    return (1.0, format!("drain, {} open", count(u64::from(s.in_flight))));
                }
                (
                    gone.0 as f64 / whole.0 as f64,
                    format!("measure {} of {}", clock_time(gone), clock_time(whole)),
                )
            }
            Span::Requests(whole) => {
                let warming = s.measured == 0 && !matches!(self.warmup, Span::None);
                let word = if warming { "warm-up" } else { "measure" };
                let share = if whole == 0 { 1.0 } else { s.measured as f64 / whole as f64 };
                (share.min(1.0), format!("{word} {} of {} requests", count(s.measured), count(whole)))
            }
            Span::None => (1.0, String::new()),
        }
    }
}
