//! Quality at the load of a search's answer: the comparison, and what was in flight meanwhile.

use decide::capacity::figure;
use decide::json::{CapacityDocument, QualityDoc};
use decide::qualified::{AtLoad, InFlight};
use decide::words::{count, counted};

use super::{INDENT, Screen};

impl Screen<'_> {
    pub(super) fn qualified(&mut self, document: &CapacityDocument) {
        let Some(quality) = &document.quality else { return };
        self.hanging(INDENT, INDENT.len(), &qualified_goodput(quality));
        let Some(at_load) = &quality.at_load else { return };
        self.hanging(INDENT, INDENT.len(), &format!("quality, {} against {}", quality.suite, quality.base));
        self.hanging(INDENT, INDENT.len(), &in_flight(at_load));
        self.line("");
        self.gate_tasks(&at_load.report);
        self.gate_findings(&at_load.report);
        self.line("");
    }
}

/// `12 in flight: 4 questions, 8 requests as in the search (210 ended well, none badly)`.
pub(crate) fn in_flight(at_load: &AtLoad) -> String {
    let InFlight { questions, beside } = at_load.in_flight;
    let asked = counted(u64::from(questions), "question");
    match &at_load.beside {
        Some(ended) if beside > 0 => format!(
            "{} in flight: {asked}, {} as in the search ({} ended well, {} badly)",
            count(u64::from(at_load.in_flight.all())),
            counted(u64::from(beside), "request"),
            count(ended.ok),
            if ended.failed == 0 { "none".to_owned() } else { count(ended.failed) }
        ),
        _ => format!("{asked} in flight, nothing beside"),
    }
}

/// `qualified goodput 12.3 req/s`, or why there is none.
pub(crate) fn qualified_goodput(quality: &QualityDoc) -> String {
    match (&quality.reason, quality.qualified_goodput_per_s) {
        (Some(why), _) => format!("no qualified goodput: {why}"),
        (None, Some(good)) => format!("qualified goodput {} req/s", figure(good.0)),
        (None, None) => "qualified goodput is not known: the search has no goodput here".to_owned(),
    }
}
