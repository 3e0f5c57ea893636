//! How a run went, once it is over.

use std::sync::{Mutex, PoisonError};

use clock::Clock;
use plan::Plan;
use record::{Footer, Stopped};
use spec::{Extent, Spec};

use super::{Fleet, Sent};
use crate::sample::Noticed;

impl Fleet {
    /// What the record says of the run as a whole. A plan that was cut holds what was due by then.
    pub(super) fn footer(
        mut self,
        clock: Clock,
        spec: &Spec,
        plan: &Plan,
        sent: &Sent,
        noticed: &Mutex<Noticed>,
    ) -> Footer {
        let planned = plan.planned();
        let (began, counts) = match &self.queue {
            Some(queue) => queue.progress(),
            None => (plan.measure_from(), (0, 0)),
        };
        let measure_from = began.or(plan.measure_from()).unwrap_or(sent.last);
        let span_end = match (&spec.phases.measure, planned.span) {
            (Extent::Duration(span), _) => Some(measure_from + span.0),
            (Extent::Requests(_), Some(span)) => Some(measure_from + span),
            (Extent::Requests(_), None) => None,
        };
        let end = span_end.unwrap_or(sent.last).max(measure_from);
        let measure_to = sent.cut.map_or(end, |cut| cut.min(end)).max(measure_from);
        let expected = match sent.offered {
            Some(offered) => offered,
            None => counts.0 + counts.1,
        };
        let rows = self.live.rows();
        if rows < expected {
            self.warnings
                .push(format!("{} requests left no row: {expected} were due, {rows} ended", expected - rows));
        }
        for step in &noticed.lock().unwrap_or_else(PoisonError::into_inner).steps {
            self.warnings.push(format!(
                "the wall clock was set by {:.3} ms during the run; kernel stamps around it were not used",
                *step as f64 / 1e6
            ));
        }
        let measured = match sent.offered {
            Some(offered) => offered.saturating_sub(planned.warmup.unwrap_or(0)),
            None => counts.1,
        };
        Footer {
            measure_from,
            measure_to,
            ended: clock.now(),
            planned: measured,
            stopped: if sent.cut.is_some() || self.stopped() {
                Stopped::Interrupted
            } else {
                Stopped::Finished
            },
            lost: 0,
            warnings: std::mem::take(&mut self.warnings),
            others: Vec::new(),
        }
    }
}
