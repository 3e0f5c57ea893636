//! What a run of questions came to: scores, and what they hide.

use std::collections::BTreeMap;

use decide::verdict::exit;
use decide::words::counted;
use quality::{Answer, Item, Unit};
use serde::Serialize;

use super::run::{Header, VERSION};
use super::suite::{Number, Suite};
use crate::printer::Printer;

/// What a run came to.
#[derive(Debug, Serialize)]
pub struct Report {
    schema_version: u32,
    answer: String,
    /// The process's.
    pub exit_code: u8,
    header: Header,
    numbers: Vec<Number>,
    breakage: Breakage,
    retried: u64,
}

/// Breakage that scores hide, over all answers. Shares are `None` where no answer could show it.
#[derive(Debug, Default, Serialize)]
struct Breakage {
    documents: u64,
    /// Documents without an answer.
    failed: u64,
    /// Why, and how often.
    reasons: BTreeMap<String, u64>,
    written: u64,
    /// Answers that ended at their limit of tokens.
    truncated: u64,
    /// Answers of white space alone.
    empty: u64,
    /// Documents with a filter that found nothing.
    unparsed: u64,
    mean_output_tokens: Option<f64>,
}

impl Breakage {
    fn of(items: &[Item]) -> Self {
        let mut all = Self { documents: items.len() as u64, ..Self::default() };
        let (mut tokens, mut counted) = (0, 0_u64);
        for item in items {
            all.failed += u64::from(item.failed());
            all.unparsed +=
                u64::from(!item.failed() && item.outcomes.values().any(|o| o.extracted.is_none()));
            for answer in &item.answers {
                match answer {
                    Answer::Generated(made) => {
                        all.written += 1;
                        all.truncated += u64::from(made.finish_reason.as_deref() == Some("length"));
                        all.empty += u64::from(made.text.trim().is_empty());
                        if let Some(n) = made.output_tokens {
                            tokens += n;
                            counted += 1;
                        }
                    }
                    Answer::Failed { reason } => *all.reasons.entry(reason.clone()).or_default() += 1,
                    Answer::Scored(_) => {}
                }
            }
        }
        all.mean_output_tokens = (counted > 0).then(|| tokens as f64 / counted as f64);
        all
    }
}

impl Report {
    /// Of all items.
    pub fn new(suite: &Suite, header: &Header, items: &[Item], retried: u64) -> Self {
        let breakage = Breakage::of(items);
        let (all, failed) = (breakage.documents, breakage.failed);
        let exit_code = match failed {
            0 if all > 0 => exit::HOLDS,
            n if n == all => exit::NOTHING,
            _ => exit::NOT_TRUSTED,
        };
        let tasks = suite.count();
        let of = format!(
            "{} on {}: {}, {}",
            header.suite,
            header.server.model,
            counted(tasks as u64, "task"),
            counted(all, "document")
        );
        let answer = match exit_code {
            exit::HOLDS => format!("{of}, all answered."),
            exit::NOTHING => format!("{of}, none answered: there is no score."),
            _ => format!(
                "{of}, {failed} without an answer: the scores are of the others and hide what failed."
            ),
        };
        let numbers = suite.numbers(items);
        Self {
            schema_version: VERSION,
            answer,
            exit_code,
            header: header.clone(),
            numbers,
            breakage,
            retried,
        }
    }

    /// On the screen.
    pub fn tell(&self, printer: &Printer) {
        let say = |text: &str| printer.say(&printer.style.plain(text));
        say(&self.answer);
        let width = self.numbers.iter().map(|n| n.task.chars().count()).max().unwrap_or(0);
        // Parts are in the machine output.
        for number in self.numbers.iter().filter(|number| number.part.is_none()) {
            let value = number.value.map_or_else(
                || "not defined".to_owned(),
                |value| match number.unit {
                    Some(Unit::Percent) => format!("{value} %"),
                    Some(Unit::Share) => format!("{:.1} %", value * 100.0),
                    Some(Unit::BitsPerByte) | None => format!("{value:.4}"),
                },
            );
            let error = number.stderr.map_or_else(String::new, |error| format!(" ± {error:.4}"));
            say(&format!(
                "  {:<width$}  {} ({}): {value}{error}  of {}",
                number.task, number.metric, number.filter, number.items
            ));
        }
        let broken = &self.breakage;
        if broken.written > 0 {
            let share = |n: u64| n as f64 / broken.written as f64 * 100.0;
            let tokens =
                broken.mean_output_tokens.map_or_else(String::new, |n| format!(", {n:.1} tokens on average"));
            say(&format!(
                "  answers: {:.1} % cut at their limit, {:.1} % empty, {} documents without an extracted answer{tokens}",
                share(broken.truncated),
                share(broken.empty),
                broken.unparsed
            ));
        }
        for (reason, n) in &broken.reasons {
            say(&format!("  failed {n} times: {reason}"));
        }
        if self.retried > 0 {
            say(&format!("  {} requests were sent again, where no answer came", self.retried));
        }
    }
}
