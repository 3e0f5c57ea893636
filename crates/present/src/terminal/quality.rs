//! The screen of a comparison: the answer, each task against the limit, what is broken, what would decide.

use quality::breakage::State;
use quality::gate::{Report, TaskReport, broken};
use quality::stats::Decision;
use spec::words::{count, percent, percent_number};

use super::table::{Cell, Table};
use super::{INDENT, Screen};
use crate::label::harmless;
use crate::style::{Style, Tone};

/// The whole screen.
pub fn quality(style: &Style, report: &Report) -> String {
    let mut screen = Screen { style, out: String::new() };
    screen.gate_answer(report);
    screen.gate_tasks(report);
    screen.gate_findings(report);
    screen.out.trim_end().to_owned()
}

fn tone(decision: Decision) -> Tone {
    match decision {
        Decision::Pass => Tone::Pass,
        Decision::Fail => Tone::Fail,
        Decision::Inconclusive => Tone::Unsure,
    }
}

fn bounds(task: &TaskReport) -> String {
    match (task.bounds.low, task.bounds.high) {
        (Some(low), Some(high)) => format!("{}–{}", percent_number(low), percent_number(high)),
        (Some(low), None) => format!("≥ {}", percent_number(low)),
        (None, Some(high)) => format!("≤ {}", percent_number(high)),
        (None, None) => "–".to_owned(),
    }
}

impl Screen<'_> {
    fn gate_answer(&mut self, report: &Report) {
        let word = report.verdict.word();
        let rest = report.answer.strip_prefix(word).unwrap_or(&report.answer);
        // The word is painted after the lines are broken, so that its colour takes no room.
        let lines = self.wrapped(&format!("{word}{rest}."), 0);
        for (i, line) in lines.into_iter().enumerate() {
            match line.strip_prefix(word).filter(|_| i == 0) {
                Some(rest) => self.line(&format!("{}{rest}", self.style.paint(tone(report.verdict), word))),
                None => self.line(&line),
            }
        }
        self.line("");
    }

    pub(super) fn gate_tasks(&mut self, report: &Report) {
        if report.tasks.is_empty() {
            return;
        }
        let mut table =
            Table::new(&["", "task", "n", "base", "new", "new/base", "bounds", "worse", "better"]);
        for task in &report.tasks {
            let name = if task.judged { task.task.clone() } else { format!("{} {}", task.task, task.metric) };
            let sign = match task.judged {
                true => Cell::left(self.style.met(task.decision.met())),
                false => Cell::empty(),
            };
            let plain = |text: String| self.style.plain(&harmless(&text));
            table.row(vec![
                sign,
                Cell::left(plain(name)),
                Cell::right(count(task.n)),
                Cell::right(plain(percent(task.base.value))),
                Cell::right(plain(percent(task.new.value))),
                Cell::right(plain(task.ratio.map_or("–".to_owned(), percent))),
                Cell::left(plain(bounds(task))).dim(),
                Cell::right(count(task.flips.lost)),
                Cell::right(count(task.flips.gained)),
            ]);
        }
        self.out.push_str(&table.render(self.style, INDENT));
        let asked = format!(
            "asked: at least {} of the baseline’s score; bounds at {} confidence on each side",
            percent(report.settings.ratio),
            percent(1.0 - report.settings.alpha)
        );
        self.hanging(INDENT, INDENT.len(), &asked);
        self.line("");
    }

    pub(super) fn gate_findings(&mut self, report: &Report) {
        for b in report.breakage.iter().filter(|b| b.state == State::Broken) {
            let sign = self.style.met_column(Some(false));
            let taken = INDENT.len() + self.style.sign_width() + 1;
            self.hanging(&format!("{INDENT}{sign} "), taken, &format!("{}: {}", b.task, broken(b)));
        }
        if !report.breakage.is_empty() && report.breakage.iter().all(|b| b.state == State::Fine) {
            self.hanging(INDENT, INDENT.len(), "nothing is broken that scores would hide");
        }
        for d in &report.divergence {
            self.named("divergence", &format!("{}, {}", d.task, d.words));
        }
        for identity in &report.identity {
            self.named("greedy", &identity.words);
        }
        for text in &report.decides {
            self.named("decides", text);
        }
        self.line("");
        for note in report.doubts.iter().chain(&report.warnings) {
            self.hanging(&format!("{INDENT}- "), 4, note);
        }
    }
}
