//! How far the answer hangs on what nobody knows exactly: how bursty arrivals are, and how long
//! requests. Each condition is a search of its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use spec::Burstiness;

use super::answer::{CapacityAnswer, Verdict};
use super::settings::Over;

/// Gamma shapes of the gaps between arrivals: bursts of four, Poisson, equal gaps.
const SHAPES: [f64; 3] = [0.25, 1.0, f64::INFINITY];
/// Factors on the lengths of input and output.
const FACTORS: [f64; 2] = [0.8, 1.2];

/// What is changed against the base.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// The gaps between arrivals.
    Burstiness(Burstiness),
    /// The lengths of input and output, times this.
    Lengths(f64),
}

impl Change {
    /// `burstiness 0.25`, `constant gaps`, `lengths −20 %`.
    pub fn words(self) -> String {
        match self {
            Change::Burstiness(burstiness) if burstiness.shape().is_infinite() => "constant gaps".to_owned(),
            Change::Burstiness(shape) if shape == Burstiness::POISSON => "Poisson arrivals".to_owned(),
            Change::Burstiness(burstiness) => format!("burstiness {burstiness}"),
            Change::Lengths(factor) => {
                let sign = if factor < 1.0 { "−" } else { "+" };
                format!("lengths {sign}{:.0} %", ((factor - 1.0) * 100.0).abs())
            }
        }
    }
    /// The same as the name of a folder.
    pub fn slug(self) -> String {
        match self {
            Change::Burstiness(burstiness) => format!("burstiness-{burstiness}"),
            Change::Lengths(factor) => format!("lengths-{:.0}%", factor * 100.0),
        }
    }
}

/// The changes that make sense for a load, in the order in which they are told, and what is left out
/// and why. A change to what the base has already needs no search and is not among them.
pub fn changes(over: Over, lengths_are_numbers: bool) -> (Vec<Change>, Vec<String>) {
    let (mut all, mut left_out) = (Vec::new(), Vec::new());
    match over {
        Over::Rate { burstiness } => all.extend(
            SHAPES
                .into_iter()
                .filter_map(Burstiness::new)
                .filter(|shape| *shape != burstiness)
                .map(Change::Burstiness),
        ),
        Over::Concurrency | Over::Users { .. } => {
            left_out.push("burstiness does not apply: users wait for their answers".to_owned());
        }
    }
    if lengths_are_numbers {
        all.extend(FACTORS.map(Change::Lengths));
    } else {
        left_out.push("lengths are those of the data: they were not changed".to_owned());
    }
    (all, left_out)
}

/// The answer under one condition, against the base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SensitivityRow {
    /// `burstiness 0.25`, `constant gaps`, `lengths +20 %`.
    pub condition: String,
    /// The tier; `null`: there are none.
    pub tier: Option<String>,
    /// It is the base itself.
    pub is_base: bool,
    /// What became of its search.
    pub verdict: Verdict,
    /// The crossing; `null`: none was found.
    pub value: Option<f64>,
    /// Lower end of the bracket.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// The crossing over that of the base; `null`: one of them is not known.
    pub ratio: Option<f64>,
    /// The least that the ratio is, as far as both brackets hold.
    pub ratio_low: Option<f64>,
    /// The most.
    pub ratio_high: Option<f64>,
}

/// How far the answer hangs on burstiness and lengths.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Sensitivity {
    /// Conditions in order, the base among them; tiers in theirs.
    pub rows: Vec<SensitivityRow>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// The answers under a change, one for each tier.
pub type Changed = (Change, Vec<CapacityAnswer>);

impl Sensitivity {
    /// `tiers`: their names, in the order of the answers; of a search without tiers one `None`.
    pub fn new(
        over: Over,
        tiers: &[Option<String>],
        base: &[CapacityAnswer],
        changed: &[Changed],
        notes: Vec<String>,
    ) -> Self {
        let shape = |change: &Change| match change {
            Change::Burstiness(burstiness) => burstiness.shape(),
            // Behind every burstiness.
            Change::Lengths(_) => f64::INFINITY,
        };
        let (words, place) = match over {
            Over::Rate { burstiness } => {
                let place = changed.iter().take_while(|(c, _)| shape(c) < burstiness.shape()).count();
                (Change::Burstiness(burstiness).words(), place)
            }
            Over::Concurrency | Over::Users { .. } => ("as asked".to_owned(), 0),
        };
        let mut conditions: Vec<(String, bool, &[CapacityAnswer])> =
            changed.iter().map(|(change, answers)| (change.words(), false, answers.as_slice())).collect();
        conditions.insert(place, (words, true, base));
        let rows =
            conditions.into_iter().flat_map(|(words, is_base, answers)| {
                tiers.iter().zip(answers).zip(base).map(move |((tier, answer), base)| {
                    row(words.clone(), tier.clone(), is_base, answer, base)
                })
            });
        Self { rows: rows.collect(), notes }
    }
}

fn row(
    condition: String,
    tier: Option<String>,
    is_base: bool,
    answer: &CapacityAnswer,
    base: &CapacityAnswer,
) -> SensitivityRow {
    let over = |a: Option<f64>, b: Option<f64>| Some(a? / b.filter(|b| *b > 0.0)?);
    // Of a lower bound there is no crossing to compare with.
    let found = |answer: &CapacityAnswer| answer.value.filter(|_| answer.high.is_some());
    let ratio = if is_base { found(base).map(|_| 1.0) } else { over(found(answer), found(base)) };
    let known = ratio.is_some() && !is_base;
    SensitivityRow {
        condition,
        tier,
        is_base,
        verdict: answer.verdict,
        value: answer.value,
        low: answer.low,
        high: answer.high,
        ratio,
        ratio_low: over(answer.low, base.high).filter(|_| known),
        ratio_high: over(answer.high, base.low).filter(|_| known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(value: Option<f64>, low: f64, high: Option<f64>) -> CapacityAnswer {
        CapacityAnswer {
            over: "rate".to_owned(),
            value,
            low: Some(low),
            high,
            confidence: 0.95,
            verdict: if high.is_some() { Verdict::Resolved } else { Verdict::NotReached },
            limited_by: None,
            goodput_per_s: None,
            sentence: String::new(),
            needs: None,
            notes: Vec::new(),
            requests: 0,
            duration_ns: 0,
            unloaded_ttft_ns: None,
            ramp: Vec::new(),
            curves: Vec::new(),
            probes: Vec::new(),
        }
    }

    #[test]
    fn what_changes_depends_on_the_load() {
        let rate = |shape: f64| Over::Rate { burstiness: Burstiness::new(shape).unwrap() };
        let words = |over: Over, numbers: bool| -> Vec<String> {
            changes(over, numbers).0.into_iter().map(Change::words).collect()
        };
        let lengths = ["lengths −20 %", "lengths +20 %"];
        assert_eq!(words(rate(1.0), true), ["burstiness 0.25", "constant gaps", lengths[0], lengths[1]]);
        assert_eq!(words(rate(0.5), false), ["burstiness 0.25", "Poisson arrivals", "constant gaps"]);
        assert_eq!(words(Over::Concurrency, true), lengths);
        assert!(changes(Over::Concurrency, true).1[0].contains("does not apply"));
        assert!(changes(rate(1.0), false).1[0].contains("data"));
        let slugs: Vec<String> = changes(rate(1.0), true).0.into_iter().map(Change::slug).collect();
        assert_eq!(slugs, ["burstiness-0.25", "burstiness-inf", "lengths-80%", "lengths-120%"]);
    }

    /// 24 against 40: 0.6, at least 23/42, at most 25/38.
    #[test]
    fn ratios_lie_between_the_ends_of_both_brackets() {
        let over = Over::Rate { burstiness: Burstiness::POISSON };
        let base = [answer(Some(40.0), 38.0, Some(42.0))];
        let (all, _) = changes(over, true);
        let changed: Vec<Changed> = all
            .into_iter()
            .zip([
                answer(Some(24.0), 23.0, Some(25.0)),
                answer(Some(50.0), 48.0, Some(52.0)),
                answer(None, 0.0, Some(1.0)),
                answer(Some(60.0), 60.0, None),
            ])
            .map(|(change, answer)| (change, vec![answer]))
            .collect();
        let table = Sensitivity::new(over, &[None], &base, &changed, Vec::new());
        let names: Vec<&str> = table.rows.iter().map(|r| r.condition.as_str()).collect();
        assert_eq!(
            names,
            ["burstiness 0.25", "Poisson arrivals", "constant gaps", "lengths −20 %", "lengths +20 %"]
        );
        let bursty = &table.rows[0];
        let near = |a: Option<f64>, b: f64| a.is_some_and(|a| (a - b).abs() < 1e-12);
        assert!(near(bursty.ratio, 0.6) && near(bursty.ratio_low, 23.0 / 42.0));
        assert!(near(bursty.ratio_high, 25.0 / 38.0));
        let itself = &table.rows[1];
        assert!(itself.is_base && near(itself.ratio, 1.0) && itself.ratio_low.is_none());
        // Nothing is held, or only a lower bound is known: no ratio.
        assert!(table.rows[3..].iter().all(|r| r.ratio.is_none() && r.ratio_low.is_none()));
    }
}
