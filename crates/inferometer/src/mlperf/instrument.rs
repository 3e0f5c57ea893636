//! What the journal beside the logs says of the program that sent.

use decide::{Check, CheckId, CheckState, RunReport};
use mlperf::layers::{Finding, Instrument};
use record::Run;

/// From the records of a run.
pub fn of(run: &Run) -> Instrument {
    let checks = RunReport::build(run, &run.header.spec.analysis).trust.checks;
    let finding = |ids: &[CheckId]| {
        let of: Vec<&Check> = checks.iter().filter(|check| ids.contains(&check.id)).collect();
        let states = || of.iter().map(|check| check.state);
        let holds = if of.is_empty() || states().any(|state| state == CheckState::Unknown) {
            None
        } else {
            Some(true)
        };
        let holds = if states().any(|state| state == CheckState::Fail) { Some(false) } else { holds };
        let words = of.iter().map(|check| format!("{}: {}", check.id.label(), check.figure));
        Some(Finding { holds, words: words.collect::<Vec<_>>().join("; ") })
    };
    Instrument {
        schedule_lag: finding(&[CheckId::SendLag, CheckId::Arrivals]),
        client: finding(&[CheckId::LaneStall, CheckId::ClientLag, CheckId::Machine, CheckId::LaneBusy]),
        clock: finding(&[CheckId::Clock]),
    }
}
