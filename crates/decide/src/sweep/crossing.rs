//! Where a limit is crossed: between which two loads that were measured. Nothing between them is
//! claimed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of one limit over all loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CrossingState {
    /// It holds up to one load and is missed from another on.
    Crossed,
    /// It holds at every load.
    Holds,
    /// It is missed at every load, the smallest one included.
    Missed,
    /// Loads that are undecided or unknown leave it open where it is crossed, or whether.
    Open,
    /// It holds at a load above one at which it is missed.
    NotMonotone,
}

/// Where one limit is crossed.
#[derive(Debug, Clone, PartialEq)]
pub struct Crossing {
    /// What became of it.
    pub state: CrossingState,
    /// The largest load at which it holds.
    pub holds_up_to: Option<f64>,
    /// The smallest load at which it is missed.
    pub missed_from: Option<f64>,
    /// Loads between the two (or beyond the one) that are undecided or unknown.
    pub open: Vec<f64>,
}

/// From what became of the limit at each load, ascending: `None` is undecided or unknown.
pub fn crossing(loads: &[(f64, Option<bool>)]) -> Crossing {
    let with = |met: bool| loads.iter().filter(move |(_, m)| *m == Some(met)).map(|(load, _)| *load);
    let (holds_up_to, missed_from) = (with(true).next_back(), with(false).next());
    let undecided = loads.iter().filter(|(_, met)| met.is_none()).map(|(load, _)| *load);
    // What is undecided below a load that holds, or above one that is missed, moves no bound.
    let open: Vec<f64> = undecided
        .filter(|load| holds_up_to.is_none_or(|holds| *load > holds))
        .filter(|load| missed_from.is_none_or(|missed| *load < missed))
        .collect();
    let state = match (holds_up_to, missed_from) {
        (Some(holds), Some(missed)) if holds > missed => CrossingState::NotMonotone,
        (Some(_), Some(_)) => CrossingState::Crossed,
        (Some(_), None) if open.is_empty() => CrossingState::Holds,
        (None, Some(_)) if open.is_empty() => CrossingState::Missed,
        _ => CrossingState::Open,
    };
    Crossing { state, holds_up_to, missed_from, open }
}
