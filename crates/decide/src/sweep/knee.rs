//! The knee: where more load stops giving more throughput.
//!
//! A continuous line of two pieces through log throughput over log load, by weighted least squares,
//! against one straight line, by the Bayesian information criterion.

use measure::special::t_95;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fit::{Line, two_pieces};

/// Fewest loads: two pieces have four numbers, and one more is needed to see how well they fit.
pub const FEWEST: usize = 5;
/// Two pieces must be better than one by this much: very strong evidence (Kass and Raftery 1995 call
/// 6 strong).
const EVIDENCE: f64 = 6.0;
/// Below the knee throughput grows nearly in proportion …
const HEAD: f64 = 0.7;
/// … and above it nearly not: the slope, and the upper end of its interval.
const TAIL: f64 = 0.25;
const TAIL_HIGH: f64 = 0.5;
/// Throughput at the knee over the largest that was seen.
const REACHED: f64 = 0.85;
/// A fall from the peak to the largest load that is no plateau any more.
const FALL: f64 = 0.10;
/// Two-sided 95 % point of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// One load and what it gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rung {
    /// Users, or requests per second.
    pub load: f64,
    /// Completed requests per second, positive.
    pub throughput: f64,
    /// Standard error of the throughput over the throughput.
    pub relative_error: f64,
}

/// What the curve of throughput looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KneeState {
    /// It has a knee.
    Found,
    /// It has none that the data carry; the reason says why.
    None,
    /// It still grows at the largest load.
    NotReached,
    /// It falls behind its peak.
    Collapse,
}

/// The knee of a curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Knee {
    /// What was found.
    pub state: KneeState,
    /// The load of the knee with its 95 % profile interval; only where it was found.
    pub at: Option<Located>,
    /// The load with the largest throughput, and that throughput; `None`: no load is known.
    pub peak: Option<(f64, f64)>,
    /// The two pieces, where there were loads enough to fit them.
    pub fit: Option<Fit>,
    /// Why there is no knee.
    pub reason: Option<String>,
}

/// Where the knee lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Located {
    /// The load.
    pub load: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Throughput of the fitted curve there.
    pub throughput: f64,
}

/// The two pieces: slopes of log throughput over log load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// Below the break.
    pub head: f64,
    /// Above it.
    pub tail: f64,
    /// 95 % interval of the slope above.
    pub tail_low: f64,
    /// The same, upper end.
    pub tail_high: f64,
    /// Bayesian information criterion of one line less that of two pieces: evidence for the break.
    pub evidence: f64,
}

/// Looks for the knee. Loads in any order, each once.
pub fn knee(rungs: &[Rung]) -> Knee {
    let mut rungs = rungs.to_vec();
    rungs.sort_by(|a, b| a.load.total_cmp(&b.load));
    let peak = rungs.iter().max_by(|a, b| a.throughput.total_cmp(&b.throughput)).copied();
    let none = |reason: String, fit: Option<Fit>| Knee {
        state: KneeState::None,
        at: None,
        peak: peak.map(|p| (p.load, p.throughput)),
        fit,
        reason: Some(reason),
    };
    let (Some(peak), Some(last)) = (peak, rungs.last().copied()) else {
        return none("there is none to look at".to_owned(), None);
    };
    if rungs.len() < FEWEST {
        return none(format!("{} loads are known, and a knee takes {FEWEST}", rungs.len()), None);
    }
    if fell(peak, last) {
        return Knee { state: KneeState::Collapse, reason: None, ..none(String::new(), None) };
    }
    let one = Line::through(&rungs);
    let two = two_pieces(&rungs);
    let fit = Fit {
        head: two.head,
        tail: two.tail,
        tail_low: two.tail - two.tail_half,
        tail_high: two.tail + two.tail_half,
        evidence: one.criterion() - two.criterion(),
    };
    let broken = fit.evidence >= EVIDENCE;
    if if broken { fit.tail } else { one.slope } > TAIL {
        return Knee { state: KneeState::NotReached, reason: None, ..none(String::new(), Some(fit)) };
    }
    let throughput = two.at_break.exp();
    let failed = if !broken {
        Some(
            "one straight line describes the curve as well: it was flat from the smallest load on".to_owned(),
        )
    } else if two.at_edge {
        Some("the break lies at the last load but one on a side: two loads beyond it are needed".to_owned())
    } else if fit.head < HEAD {
        Some(format!(
            "below the break throughput grows with load to the power {:.2}, less than {HEAD}",
            fit.head
        ))
    } else if fit.tail_high >= TAIL_HIGH {
        Some(
            "beyond the break there are too few loads, or they are too noisy, to say that it stays flat"
                .to_owned(),
        )
    } else if throughput < REACHED * peak.throughput {
        Some(format!(
            "at the break throughput is only {:.0} % of the largest: it goes on growing slowly",
            100.0 * throughput / peak.throughput
        ))
    } else {
        None
    };
    match failed {
        Some(reason) => none(reason, Some(fit)),
        None => Knee {
            state: KneeState::Found,
            at: Some(Located {
                load: two.position.exp(),
                low: two.low.exp(),
                high: two.high.exp(),
                throughput,
            }),
            peak: Some((peak.load, peak.throughput)),
            fit: Some(fit),
            reason: None,
        },
    }
}

/// Whether the largest load gives clearly less than the peak.
fn fell(peak: Rung, last: Rung) -> bool {
    let fall = 1.0 - last.throughput / peak.throughput;
    let noise = peak.relative_error.hypot(last.relative_error * last.throughput / peak.throughput);
    fall > FALL && fall > Z * noise
}

/// Two-sided 95 % quantile of F with 1 and `df` degrees of freedom.
pub(super) fn f_95(df: f64) -> f64 {
    t_95(df).powi(2)
}
