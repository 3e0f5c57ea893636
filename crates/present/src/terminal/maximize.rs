//! The most of a throughput on the screen: each setting, the throughput over the load, the survey.

use decide::capacity::{Kind, Over, Verdict, figure, load_words};
use decide::json::CapacityDocument;
use decide::maximize::{AtSetting, Binds, Maximum, Point, setting_words};
use decide::words::{count, time};

use super::capacity::purpose;
use super::table::{Cell, Table};
use super::{INDENT, Screen};
use crate::style::Style;

/// A probe of the throughput as soon as it is over: `  12  peak   64 in flight   2,110/s (2,080–2,140)`.
pub fn throughput(style: &Style, over: Over, point: &Point) -> String {
    let load = point.load.map(|load| load_words(over, load));
    let at = Some(setting_words(&point.setting)).filter(|words| !words.is_empty());
    let amount = match (&point.client_limited, point.per_s) {
        (Some(_), _) => "client".to_owned(),
        (None, Some(per_s)) => format!("{}/s{}", figure(per_s), range(point.interval())),
        (None, None) => "too little ended".to_owned(),
    };
    let requests = format!("{} requests", count(point.requests));
    let parts: Vec<String> = [load, at, Some(amount), Some(requests)].into_iter().flatten().collect();
    format!("{INDENT}{:<3} {:<7} {}", point.number, purpose(point.kind), style.plain(&parts.join("   ")))
}

/// A chance, without digits that no surface knows.
pub(crate) fn chance(share: f64) -> String {
    match share {
        _ if share < 0.001 => "< 0.1 %".to_owned(),
        _ if share > 0.999 => "> 99.9 %".to_owned(),
        _ => format!("{:.1} %", share * 100.0),
    }
}

fn range(ends: Option<(f64, f64)>) -> String {
    ends.map_or(String::new(), |(low, high)| format!(" ({}–{})", figure(low), figure(high)))
}

/// Why there is no more, in a word or two.
pub(crate) fn why(at: &AtSetting) -> String {
    match at.binds {
        Some(Binds::Limit) => at.limited_by.clone().unwrap_or_else(|| "a limit".to_owned()),
        Some(Binds::Peak) => "falls".to_owned(),
        Some(Binds::Level) => "level".to_owned(),
        Some(Binds::LargestLoad) => "no more allowed".to_owned(),
        Some(Binds::Client) => "this client".to_owned(),
        None if at.verdict == Verdict::Unmet => "holds nowhere".to_owned(),
        None => "not known".to_owned(),
    }
}

impl Screen<'_> {
    pub(super) fn maximum(&mut self, document: &CapacityDocument) {
        let Some(maximum) = &document.maximum else { return };
        if maximum.settings.len() > 1 {
            self.settings(maximum);
        }
        self.points(document, maximum);
        self.survey(maximum);
        for note in &maximum.notes {
            self.hanging(&format!("{INDENT}- "), 4, note);
        }
        if maximum.requests == document.answer.requests {
            return;
        }
        let cost =
            format!("{} requests in {} in all", count(maximum.requests), time(maximum.duration_ns as f64));
        self.hanging(INDENT, INDENT.len(), &cost);
        self.line("");
    }

    fn settings(&mut self, maximum: &Maximum) {
        let mut table = Table::new(&["setting", "load", "bracket", &maximum.unit, "", "ends by"]);
        for at in &maximum.settings {
            let pair =
                at.low.zip(at.high).map_or("–".to_owned(), |(l, h)| format!("{}–{}", figure(l), figure(h)));
            let cells = [
                at.load.map_or("–".to_owned(), figure),
                pair,
                at.per_s.map_or("–".to_owned(), figure),
                range(at.per_s_low.zip(at.per_s_high)),
            ];
            let mut row = vec![Cell::left(setting_words(&at.setting))];
            row.extend(cells.iter().map(|text| Cell::right(self.style.plain(text))));
            row.push(Cell::left(self.style.plain(&why(at))).dim());
            table.row(row);
        }
        self.out.push_str(&table.render(self.style, INDENT));
        self.line("");
    }

    /// The throughput where it was looked for by itself; the probes of a search stand in its own table.
    fn points(&mut self, document: &CapacityDocument, maximum: &Maximum) {
        let is_alone = |point: &&Point| document.probes.is_empty() || point.kind == Kind::Peak;
        let alone: Vec<&Point> =
            maximum.points.iter().filter(|p| p.load.is_some()).filter(is_alone).collect();
        if alone.is_empty() {
            return;
        }
        let load = if document.answer.over == "rate" { "req/s" } else { "users" };
        let mut table = Table::new(&["probe", "", load, &maximum.unit, "", "requests"]);
        for point in alone {
            let spoilt = point.client_limited.is_some();
            table.row(vec![
                Cell::right(point.number.to_string()),
                Cell::left(purpose(point.kind).to_owned()).dim(),
                Cell::right(point.load.map_or("–".to_owned(), figure)),
                Cell::right(if spoilt {
                    "client".to_owned()
                } else {
                    point.per_s.map_or("–".to_owned(), figure)
                }),
                Cell::right(if spoilt { String::new() } else { self.style.plain(&range(point.interval())) }),
                Cell::right(count(point.requests)),
            ]);
        }
        self.out.push_str(&table.render(self.style, INDENT));
        self.line("");
    }

    fn survey(&mut self, maximum: &Maximum) {
        if maximum.survey.is_empty() {
            return;
        }
        let mut table = Table::new(&["survey", "setting", "load", &maximum.unit, "limits hold"]);
        for surveyed in &maximum.survey {
            let point = &surveyed.point;
            table.row(vec![
                Cell::right(point.number.to_string()),
                Cell::left(setting_words(&point.setting)),
                Cell::right(point.load.map_or("–".to_owned(), figure)),
                Cell::right(point.per_s.map_or("–".to_owned(), figure)),
                Cell::right(surveyed.holds.map_or("–".to_owned(), chance)),
            ]);
        }
        self.out.push_str(&table.render(self.style, INDENT));
        self.line("");
    }
}
