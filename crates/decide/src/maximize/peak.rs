//! Where a throughput is largest, from what was measured: nothing but that it rises up to one load and
//! does not rise again behind it is taken for granted.

use super::point::Point;
use crate::capacity::Z95;
use crate::sweep::Rung;

/// Throughputs that differ by less count as the same.
pub(super) const SAME: f64 = 0.02;
/// A level is one where throughput grows by less than load to this power, beyond doubt …
const TAIL: f64 = 0.5;
/// … over at least this factor of load.
const STRETCH: f64 = 1.2;
/// No throughput is known better than this.
const FLOOR: f64 = 0.003;
/// Loads within this distance in ln(load) tell the throughput of the load between them.
const NEAR: f64 = 0.3;
/// They count the less the further away, with this width.
const REACH: f64 = 0.1;

/// What the curve does at its top.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Top {
    /// Nothing is known.
    Unknown,
    /// It rises up to the largest load that was tried.
    Rising,
    /// It falls behind its peak. The peak lies between `low` (0: nothing below was tried) and `high`.
    Peak { low: f64, best: Rung, high: f64 },
    /// It stays level from `best` on, and began to between `low` and that.
    Level { low: f64, best: Rung },
}

/// What is known of each load, in order of load. Probes of the same load are taken together.
pub(super) fn rungs<'a>(points: impl Iterator<Item = &'a Point>) -> Vec<Rung> {
    let mut known: Vec<Rung> = points
        .filter(|point| point.client_limited.is_none())
        .filter_map(|point| {
            let throughput = point.per_s.filter(|per_s| *per_s > 0.0)?;
            Some(Rung { load: point.load?, throughput, relative_error: point.error?.max(FLOOR) })
        })
        .collect();
    known.sort_by(|a, b| a.load.total_cmp(&b.load));
    known.chunk_by(|a, b| (a.load / b.load - 1.0).abs() < 1e-9).map(together).collect()
}

fn together(same: &[Rung]) -> Rung {
    let weight = |rung: &Rung| rung.relative_error.powi(-2);
    let sum = |f: &dyn Fn(&Rung) -> f64| same.iter().map(f).sum::<f64>();
    let total = sum(&weight);
    Rung {
        load: same[0].load,
        throughput: sum(&|r| weight(r) * r.throughput) / total,
        relative_error: total.powf(-0.5),
    }
}

/// Whether `a` is less than `b` beyond doubt.
pub(super) fn less(a: &Rung, b: &Rung) -> bool {
    (b.throughput / a.throughput).ln() > SAME + Z95 * a.relative_error.hypot(b.relative_error)
}

/// The largest throughput; of several that cannot be told apart the one that is known best.
pub(super) fn largest(rungs: &[Rung]) -> Option<&Rung> {
    let at_least = |rung: &&Rung| rung.throughput.ln() - rung.relative_error;
    rungs.iter().max_by(|a, b| at_least(a).total_cmp(&at_least(b)))
}

/// The shape of the top. `rungs` in order of load.
pub(super) fn top(rungs: &[Rung]) -> Top {
    let Some(best) = largest(rungs) else { return Top::Unknown };
    let below = rungs.iter().rev().find(|rung| rung.load < best.load && less(rung, best));
    let low = below.map_or(0.0, |rung| rung.load);
    if let Some(above) = rungs.iter().find(|rung| rung.load > best.load && less(rung, best)) {
        return Top::Peak { low, best: *best, high: above.load };
    }
    let level: Vec<&Rung> = rungs.iter().filter(|rung| rung.load > low && !less(rung, best)).collect();
    let stays = |from: &Rung, to: &Rung| {
        let stretch = (to.load / from.load).ln();
        let growth =
            (to.throughput / from.throughput).ln() + Z95 * from.relative_error.hypot(to.relative_error);
        stretch > STRETCH.ln() && growth < TAIL * stretch
    };
    match level.iter().find(|from| level.iter().any(|to| stays(from, to))) {
        Some(best) => Top::Level { low, best: **best },
        None => Top::Rising,
    }
}

/// The load whose throughput would narrow the top most, and the width in ln(load) of the gap that it
/// lies in: the middle of the wider one of the outermost gaps. `None`: nothing is left to narrow.
pub(super) fn next(rungs: &[Rung], top: Top) -> Option<(f64, f64)> {
    let gap = |low: f64, high: f64| Some(((low * high).sqrt(), (high / low).ln())).filter(|_| low > 0.0);
    let above = |load: f64| rungs.iter().map(|r| r.load).find(|l| *l > load);
    let below = |load: f64| rungs.iter().rev().map(|r| r.load).find(|l| *l < load);
    let wider = |a: Option<(f64, f64)>, b: Option<(f64, f64)>| {
        [a, b].into_iter().flatten().max_by(|a, b| a.1.total_cmp(&b.1))
    };
    match top {
        Top::Unknown | Top::Rising => None,
        Top::Level { low, best } => gap(low, best.load),
        Top::Peak { low, high, .. } => wider(
            above(low).and_then(|inner| gap(low, inner)),
            below(high).and_then(|inner| gap(inner, high)),
        ),
    }
}

/// The throughput at a load from those near it, with its relative standard error. `in_proportion`: near
/// by it grows with the load (an open loop that is not overloaded completes what it is offered), else
/// it is a line in the logarithms.
pub(super) fn at(rungs: &[Rung], load: f64, in_proportion: bool) -> Option<(f64, f64)> {
    let distance = |rung: &Rung| (rung.load / load).ln();
    let near: Vec<(f64, f64, f64)> = rungs
        .iter()
        .filter(|rung| distance(rung).abs() <= NEAR)
        .map(|rung| {
            let x = distance(rung);
            let weight = rung.relative_error.powi(-2) * (-0.5 * (x / REACH).powi(2)).exp();
            let y = rung.throughput.ln() - if in_proportion { x } else { 0.0 };
            (x, y, weight)
        })
        .collect();
    let sum = |f: &dyn Fn(&(f64, f64, f64)) -> f64| near.iter().map(f).sum::<f64>();
    let total = sum(&|p| p.2);
    if total <= 0.0 {
        return None;
    }
    let (x, y) = (sum(&|p| p.2 * p.0) / total, sum(&|p| p.2 * p.1) / total);
    let square = sum(&|p| p.2 * (p.0 - x).powi(2));
    let is_line = !in_proportion && near.len() >= 3 && square > 0.0;
    let slope = if is_line { sum(&|p| p.2 * (p.0 - x) * (p.1 - y)) / square } else { 0.0 };
    let lever = if is_line { 1.0 / total + x * x / square } else { 1.0 / total };
    let freedom = near.len() as f64 - if is_line { 2.0 } else { 1.0 };
    // Where they differ by more than their errors explain, that widens the interval.
    let scatter = sum(&|p| p.2 * (p.1 - y - slope * (p.0 - x)).powi(2));
    let inflation = if freedom > 0.0 { (scatter / freedom).max(1.0) } else { 1.0 };
    Some(((y - slope * x).exp(), (lever * inflation).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(list: &[(f64, f64)]) -> Vec<Rung> {
        list.iter()
            .map(|(load, throughput)| Rung { load: *load, throughput: *throughput, relative_error: 0.01 })
            .collect()
    }

    #[test]
    fn a_peak_lies_between_the_nearest_loads_that_give_less() {
        let rungs = curve(&[(1.0, 10.0), (2.0, 20.0), (4.0, 39.0), (8.0, 40.0), (16.0, 25.0), (32.0, 12.0)]);
        let found = top(&rungs);
        // 39 and 40 cannot be told apart.
        assert!(
            matches!(found, Top::Peak { low, high, .. } if (low - 2.0).abs() < 1e-9 && (high - 16.0).abs() < 1e-9),
            "{found:?}"
        );
        // Both outer gaps are a factor of two wide.
        let (load, gap) = next(&rungs, found).unwrap();
        assert!((gap - 2.0_f64.ln()).abs() < 1e-9 && (load - 128.0_f64.sqrt()).abs() < 1e-9, "{load}");
    }

    #[test]
    fn a_level_begins_where_less_was_last_seen() {
        let rungs = curve(&[(1.0, 10.0), (2.0, 20.0), (4.0, 30.0), (8.0, 30.3), (16.0, 30.2)]);
        let found = top(&rungs);
        assert!(
            matches!(found, Top::Level { low, best } if (low - 2.0).abs() < 1e-9 && (best.load - 4.0).abs() < 1e-9),
            "{found:?}"
        );
        assert!((next(&rungs, found).unwrap().0 - 8.0_f64.sqrt()).abs() < 1e-9);
        assert_eq!(top(&curve(&[(1.0, 10.0), (2.0, 20.0), (4.0, 38.0)])), Top::Rising);
        assert_eq!(top(&[]), Top::Unknown);
    }

    /// 10 % of error: neither a fall nor a level can be claimed of these.
    #[test]
    fn noise_is_neither_a_peak_nor_a_level() {
        let mut rungs = curve(&[(1.0, 10.0), (2.0, 20.0), (2.4, 19.0), (3.0, 21.0)]);
        rungs.iter_mut().for_each(|r| r.relative_error = 0.1);
        assert_eq!(top(&rungs), Top::Rising);
    }

    #[test]
    fn the_throughput_at_a_load_comes_from_those_near_it() {
        let rungs = curve(&[(9.0, 90.0), (10.0, 100.0), (11.0, 110.0), (40.0, 1.0)]);
        for in_proportion in [true, false] {
            let (value, error) = at(&rungs, 10.5, in_proportion).unwrap();
            assert!((value - 105.0).abs() < 0.2 && error < 0.011, "{value} ± {error}");
        }
        assert_eq!(at(&rungs, 100.0, true), None);
        // A single one far off says less than one near by.
        let one = curve(&[(10.0, 100.0)]);
        assert!((at(&one, 10.0, true).unwrap().1 - 0.01).abs() < 1e-9);
        assert!(at(&one, 11.0, true).unwrap().1 > 0.012);
    }
}
