//! The best load at one setting: the smaller of the capacity and the throughput's peak.

use super::answer::{AtSetting, Binds};
use super::bench::{Bench, Care, Told};
use super::ladder;
use super::peak::{Top, at, largest, less, next, rungs, top};
use super::point::{Point, interval};
use crate::capacity::{CapacityAnswer, Halt, Kind, Over, Verdict, Z95, search};
use crate::sweep::Rung;

/// Probes near a peak: the first is at the best load so far, the others narrow it.
const PROBES: (u32, u32) = (3, 5);
/// They are precise, since near a peak there is little to see.
const CARE: Care = Care { least: 200, most: 3000, error: 0.01 };

/// The best load at the setting of the bench.
pub(super) struct AtLoad {
    pub at: AtSetting,
    pub capacity: Option<CapacityAnswer>,
    /// The throughput at every load that was tried, with its closed loops.
    pub points: Vec<Point>,
    pub notes: Vec<String>,
}

/// Finds the best load. What a halt leaves is told as it stands.
pub(super) fn best(bench: &mut Bench<'_>) -> AtLoad {
    let first = bench.points.len();
    match bench.settings.criteria.is_empty() {
        true => without_limits(bench, first),
        false => within_limits(bench, first),
    }
}

/// What is known of loads up to `most` since the probe `first`.
fn known(bench: &Bench<'_>, first: usize, most: f64) -> Vec<Rung> {
    let tried = bench.points.iter().skip(first);
    rungs(tried.filter(|point| point.load.is_some_and(|load| load <= most * (1.0 + 1e-9))))
}

fn within_limits(bench: &mut Bench<'_>, first: usize) -> AtLoad {
    let settings = bench.search_settings();
    let is_rate = matches!(settings.over, Over::Rate { .. });
    let mut told = bench.told.take();
    let answer = search(&settings, bench, &mut |so_far| {
        if let Some(told) = &mut told {
            told(Told::Search(so_far));
        }
    });
    bench.told = told;
    let mut notes = Vec::new();
    let held = answer.value.or(answer.low).filter(|load| *load > 0.0);
    let mut found = nothing(bench, &answer);
    if let Some(load) = held {
        let most = answer.high.unwrap_or(load);
        let low = answer.low.unwrap_or(load);
        let tried = known(bench, first, most);
        let there = at(&tried, load, is_rate);
        let below: Vec<Rung> = tried.iter().filter(|rung| rung.load < low).copied().collect();
        let falls = largest(&below).zip(there).is_some_and(|(peak, (throughput, relative_error))| {
            less(&Rung { load, throughput, relative_error }, peak)
        });
        found = if falls {
            notes.extend(narrow(bench, first, most).err().map(|halt| halt.to_string()));
            of_top(bench, &known(bench, first, most))
        } else {
            of_limit(bench, &answer, load, there)
        };
    }
    AtLoad { at: found, capacity: Some(answer), points: bench.points[first..].to_vec(), notes }
}

fn without_limits(bench: &mut Bench<'_>, first: usize) -> AtLoad {
    let mut notes = Vec::new();
    let climbed = ladder::whole(bench);
    let mut client = false;
    match &climbed {
        Err(halt) => notes.push(halt.to_string()),
        Ok(climbed) => {
            client = climbed.client;
            if !client {
                notes.extend(narrow(bench, first, f64::INFINITY).err().map(|halt| halt.to_string()));
            }
        }
    }
    let mut found = of_top(bench, &known(bench, first, f64::INFINITY));
    let is_over = bench.halted.is_some() || bench.out_of_time();
    if found.binds.is_none() && !is_over {
        // Still rising where it had to end.
        (found.binds, found.verdict) = match client {
            true => (Some(Binds::Client), Verdict::ClientLimited),
            false if found.load.is_some() => (Some(Binds::LargestLoad), Verdict::NotReached),
            false => (None, Verdict::Unresolved),
        };
        found.high = None;
    }
    AtLoad { at: found, capacity: None, points: bench.points[first..].to_vec(), notes }
}

/// A few probes more around the top, as long as there is a gap to narrow.
fn narrow(bench: &mut Bench<'_>, first: usize, most: f64) -> Result<(), Halt> {
    for made in 0..PROBES.1 {
        let tried = known(bench, first, most);
        let found = top(&tried);
        let (Top::Peak { best, .. } | Top::Level { best, .. }) = found else { return Ok(()) };
        let load = if made == 0 {
            best.load
        } else {
            let Some((load, gap)) = next(&tried, found) else { return Ok(()) };
            let load = bench.offered(load);
            let is_new = tried.iter().all(|rung| (rung.load / load - 1.0).abs() > 1e-9);
            if !is_new || made >= PROBES.0 && gap <= bench.settings.width {
                return Ok(());
            }
            load
        };
        if bench.out_of_time() {
            return Ok(());
        }
        bench.throughput(Kind::Peak, load, CARE)?;
    }
    Ok(())
}

/// Where the throughput itself says that more load gives no more.
fn of_top(bench: &Bench<'_>, tried: &[Rung]) -> AtSetting {
    let (best, low, high, binds) = match top(tried) {
        Top::Peak { low, best, high } => (Some(best), low, Some(high), Some(Binds::Peak)),
        Top::Level { low, best } => (Some(best), low, Some(best.load), Some(Binds::Level)),
        Top::Rising => (tried.last().copied(), tried.last().map_or(0.0, |rung| rung.load), None, None),
        Top::Unknown => (None, 0.0, None, None),
    };
    let resolved =
        binds.is_some() && best.is_some_and(|b| 2.0 * Z95 * b.relative_error <= bench.settings.width);
    let ends = best.map(|b| interval(b.throughput, b.relative_error));
    AtSetting {
        setting: bench.setting().to_vec(),
        verdict: if resolved { Verdict::Resolved } else { Verdict::Unresolved },
        binds,
        limited_by: None,
        load: best.map(|b| b.load),
        // Below the smallest load there is none.
        low: best.map(|b| {
            if low > 0.0 { low } else { tried.first().map_or(b.load, |rung| rung.load.min(b.load)) }
        }),
        high,
        per_s: best.map(|b| b.throughput),
        per_s_low: ends.map(|e| e.0),
        per_s_high: ends.map(|e| e.1),
        goodput_per_s: best.and_then(|b| goodput(bench, b.load)),
    }
}

/// Good requests per second in the probes at a load.
fn goodput(bench: &Bench<'_>, load: f64) -> Option<f64> {
    let there = |point: &&Point| {
        point.client_limited.is_none()
            && point.setting == bench.setting()
            && point.load.is_some_and(|l| (l / load - 1.0).abs() < 1e-9)
    };
    // The last is the one that was made with most care.
    bench.points.iter().rev().find(there)?.goodput_per_s
}

/// Where a limit, or the largest load that may be tried, says that there is no more.
fn of_limit(bench: &Bench<'_>, answer: &CapacityAnswer, load: f64, there: Option<(f64, f64)>) -> AtSetting {
    let binds = match answer.verdict {
        Verdict::NotReached => Some(Binds::LargestLoad),
        Verdict::ClientLimited => Some(Binds::Client),
        Verdict::Resolved | Verdict::Unresolved => Some(Binds::Limit),
        Verdict::Unstable | Verdict::Unmet => None,
    };
    let ends = there.map(|(value, error)| interval(value, error));
    let only = bench.settings.criteria.first().map(|c| c.text.clone());
    AtSetting {
        setting: bench.setting().to_vec(),
        verdict: if there.is_some() { answer.verdict } else { Verdict::Unresolved },
        binds,
        limited_by: answer.limited_by.clone().or(only).filter(|_| binds == Some(Binds::Limit)),
        load: Some(load),
        low: answer.low,
        high: answer.high,
        per_s: there.map(|t| t.0),
        per_s_low: ends.map(|e| e.0),
        per_s_high: ends.map(|e| e.1),
        goodput_per_s: answer.goodput_per_s,
    }
}

/// No load is known to hold the limits.
fn nothing(bench: &Bench<'_>, answer: &CapacityAnswer) -> AtSetting {
    AtSetting {
        setting: bench.setting().to_vec(),
        verdict: answer.verdict,
        binds: None,
        limited_by: answer.limited_by.clone(),
        load: None,
        low: None,
        high: answer.high,
        per_s: None,
        per_s_low: None,
        per_s_high: None,
        goodput_per_s: None,
    }
}
