//! Tiers and sensitivity on the screen of a search for capacity.

use decide::capacity::{Latency, SensitivityRow, Verdict, figure};
use decide::json::CapacityDocument;
use decide::words::{count, fixed, time};

use super::capacity::{purpose, words};
use super::table::{Cell, Table};
use super::{INDENT, Screen};

impl Screen<'_> {
    /// Each tier with its answer and the crossings of its limits.
    pub(super) fn tiers(&mut self, document: &CapacityDocument) {
        for tier in document.each() {
            let name = tier.tier.as_ref().map_or(String::new(), |name| format!("{name}: "));
            self.found(&tier, &name);
        }
    }

    /// The ladder of probes, with the verdict on each tier.
    pub(super) fn probes_of_tiers(&mut self, document: &CapacityDocument) {
        if document.probes.is_empty() {
            return;
        }
        let load = if document.answer.over == "rate" { "req/s" } else { "users" };
        let mut head = vec!["probe", "", load];
        head.extend(document.tiers.iter().map(|tier| tier.name.as_str()));
        head.extend(["requests", "done/s", "TTFT p95", "TPOT p95"]);
        let mut table = Table::new(&head);
        let dash = || "–".to_owned();
        let p95 = |latency: &Option<Latency>| latency.map_or_else(dash, |latency| time(latency.p95_ns));
        for probe in &document.probes {
            let mut row = vec![
                Cell::right(probe.number.to_string()),
                Cell::left(purpose(probe.kind).to_owned()).dim(),
                Cell::right(figure(probe.load)),
            ];
            for tier in &document.tiers {
                // A tier whose search was over does not look at further probes.
                let seen = tier.probes.iter().find(|other| other.number == probe.number);
                row.push(seen.map_or(Cell::left(self.style.plain("–")), |seen| {
                    let (tone, sign, word) = words(&seen.verdict);
                    let text = if self.style.ascii { word.to_owned() } else { format!("{sign} {word}") };
                    Cell::left(text).toned(tone)
                }));
            }
            let cells = [
                count(probe.measured.intended),
                probe.measured.requests_per_s.map_or_else(dash, figure),
                p95(&probe.measured.ttft),
                p95(&probe.measured.tpot),
            ];
            row.extend(cells.iter().map(|text| Cell::right(self.style.plain(text))));
            table.row(row);
        }
        self.out.push_str(&table.render(self.style, INDENT));
        self.line("");
    }

    /// The answer under other conditions, against the base.
    pub(super) fn sensitivity(&mut self, document: &CapacityDocument) {
        let Some(sensitivity) = &document.sensitivity else { return };
        let over = document.answer.over.as_str();
        let unit = match over {
            "rate" => "req/s",
            "concurrency" => "in flight",
            _ => "users",
        };
        let has_tiers = !document.tiers.is_empty();
        let mut head = vec!["condition"];
        head.extend(has_tiers.then_some("tier"));
        head.extend([unit, "bracket", "against the base"]);
        let mut table = Table::new(&head);
        for row in &sensitivity.rows {
            let mut cells = vec![Cell::left(self.style.plain(&row.condition))];
            cells.extend(row.tier.as_ref().map(|tier| Cell::left(tier.clone())));
            let load = |x: f64| if over == "rate" { figure(x) } else { fixed(x, 0) };
            cells.extend([
                Cell::right(row.value.map_or_else(|| self.style.plain("–"), load)),
                Cell::right(self.style.plain(&bracket(row, load))),
                Cell::right(self.style.plain(&against(row))),
            ]);
            table.row(cells);
        }
        self.out.push_str(&table.render(self.style, INDENT));
        for note in &sensitivity.notes {
            self.hanging(&format!("{INDENT}- "), 4, note);
        }
        self.line("");
    }
}

fn bracket(row: &SensitivityRow, load: impl Fn(f64) -> String) -> String {
    match (row.low, row.high) {
        (Some(low), Some(high)) => format!("{}–{}", load(low), load(high)),
        (Some(low), None) => format!("at least {}", load(low)),
        (None, Some(high)) => format!("at most {}", load(high)),
        (None, None) => match row.verdict {
            Verdict::ClientLimited => "this client was the limit".to_owned(),
            _ => "not known".to_owned(),
        },
    }
}

/// `× 0.58 (0.55–0.61)`.
fn against(row: &SensitivityRow) -> String {
    match (row.ratio, row.ratio_low, row.ratio_high) {
        _ if row.is_base => "the base".to_owned(),
        (Some(ratio), Some(low), Some(high)) => {
            format!("× {} ({}–{})", fixed(ratio, 2), fixed(low, 2), fixed(high, 2))
        }
        _ => "–".to_owned(),
    }
}
