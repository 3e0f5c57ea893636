//! Over several knobs: probes spread over loads and settings, two surfaces through them, and further
//! probes where the best may lie.

use spec::{Knob, Turn};

use super::acquire::{SURE, Surfaces, along, around, everywhere, next};
use super::answer::{KnobRange, Surveyed};
use super::bench::{Bench, Care};
use super::gp::{Gp, Observation};
use super::ladder;
use super::space::{Space, spread};
use crate::capacity::{Halt, Kind, Over, Z95};

/// Loads as shares of the largest that is worth trying at a setting.
const SHARES: (f64, f64) = (0.05, 1.1);
/// Further probes, for each dimension.
const FURTHER: u32 = 6;
/// An expected improvement by less, as a share, is none; twice in a row ends the survey.
const WORTH: f64 = 0.003;
/// A ladder of users ends where the limits are broken beyond doubt: about half of the requests miss a
/// 95 % limit.
const BROKEN: f64 = 2.5;
/// Further beyond or within the limits than this only says "far".
const FAR: f64 = 4.0;
/// Variance of such a value.
const OF_FAR: f64 = 0.25;
/// Places of the knobs that are compared at the end.
const PLACES: usize = 60;
/// Values of a knob that are held against its best.
const RANGE: u32 = 30;
/// A setting may be as good as the best at a load at which its limits may hold with this chance.
const PERHAPS: f64 = 0.25;
const CARE: Care = Care { least: 100, most: 600, error: 0.05 };

/// What a survey comes to.
pub(super) struct Survey {
    /// The best setting; `None`: nothing was measured that tells one from another.
    pub setting: Option<Vec<Turn>>,
    pub knobs: Vec<KnobRange>,
    pub surveyed: Vec<Surveyed>,
    /// Why it ended early.
    pub halted: Option<Halt>,
}

/// Surveys the surface over the load and the knobs.
pub(super) fn survey(bench: &mut Bench<'_>, knobs: &[Knob]) -> Survey {
    let mut survey = Survey { setting: None, knobs: Vec::new(), surveyed: Vec::new(), halted: None };
    if let Err(halt) = steps(bench, knobs, &mut survey) {
        survey.halted = Some(halt);
    }
    survey
}

fn steps(bench: &mut Bench<'_>, knobs: &[Knob], survey: &mut Survey) -> Result<(), Halt> {
    let mut largest = Vec::new();
    for anchor in Space::anchors(knobs) {
        bench.set(&anchor)?;
        largest.push(worth_trying(bench)?);
    }
    let Some(top) = largest.iter().flatten().copied().reduce(f64::max) else { return Ok(()) };
    let is_whole = bench.settings.over.is_whole();
    let bounded = |own: &Option<f64>| match own {
        // Where limits hold at few users, more may be held not far from there.
        Some(own) if is_whole => (own * top).sqrt(),
        Some(own) => *own,
        None => top,
    };
    let largest: Vec<f64> = largest.iter().map(bounded).collect();
    let space = Space::new(knobs, &largest, SHARES);
    let d = space.dimensions();
    let seed = bench.settings.seed;
    let mut tried: Vec<Vec<f64>> = Vec::new();
    let mut data = Data::default();
    for k in 0..2 * d as u32 + 2 {
        let x = spread(k, d, seed);
        probe(bench, &space, &x, (&mut tried, &mut data, survey))?;
    }
    let mut idle = 0;
    for k in 0..FURTHER * d as u32 {
        let Some(surfaces) = data.surfaces(bench) else { break };
        let best = surfaces.best(tried.iter(), SURE).map(|(x, value)| (x.clone(), value));
        let Some((x, worth)) = next(&space, &surfaces, seed ^ u64::from(2 * k + 2), best.as_ref()) else {
            break;
        };
        idle = if best.is_some() && worth < WORTH { idle + 1 } else { 0 };
        if idle >= 2 || bench.out_of_time() {
            break;
        }
        probe(bench, &space, &x, (&mut tried, &mut data, survey))?;
    }
    if let Some(surfaces) = data.surfaces(bench) {
        conclude(&space, &surfaces, seed, &tried, survey);
    }
    Ok(())
}

/// The largest load that is worth trying at the setting of the bench: an open loop's ceiling; of users
/// the first stage whose limits are broken. `None`: not even one user tells.
fn worth_trying(bench: &mut Bench<'_>) -> Result<Option<f64>, Halt> {
    if matches!(bench.settings.over, Over::Rate { .. }) {
        let climbed = ladder::users(bench, &|_| false)?;
        return Ok(Some(climbed.requests_per_s).filter(|rate| *rate > 0.0));
    }
    let broken = |bench: &Bench<'_>| bench.excess.is_some_and(|(excess, _)| excess > BROKEN);
    let climbed = ladder::users(bench, &broken)?;
    Ok(Some(climbed.users).filter(|users| *users > 1.0))
}

/// What the surfaces are fitted to.
#[derive(Default)]
struct Data {
    throughput: Vec<Observation>,
    excess: Vec<Observation>,
}

impl Data {
    fn surfaces(&self, bench: &Bench<'_>) -> Option<Surfaces> {
        let excess = match bench.settings.criteria.is_empty() {
            true => None,
            false => Some(Gp::fit(&self.excess)?),
        };
        Some(Surfaces { throughput: Gp::fit(&self.throughput)?, excess })
    }
}

fn probe(
    bench: &mut Bench<'_>,
    space: &Space<'_>,
    x: &[f64],
    (tried, data, survey): (&mut Vec<Vec<f64>>, &mut Data, &mut Survey),
) -> Result<(), Halt> {
    let (setting, load) = space.decode(x);
    bench.set(&setting)?;
    let load = bench.offered(load);
    let point = bench.throughput(Kind::Survey, load, CARE)?;
    let x = space.encode(&setting, load);
    let excess = bench.excess.filter(|_| point.client_limited.is_none());
    if let Some((value, variance)) = excess {
        // That it is far is sure, however little is known of how far.
        let noise = if value.abs() > FAR { OF_FAR } else { variance.min(4.0) };
        data.excess.push(Observation { x: x.clone(), y: value.clamp(-FAR, FAR), noise });
    }
    if let (Some(per_s), Some(error), None) =
        (point.per_s.filter(|v| *v > 0.0), point.error, &point.client_limited)
    {
        data.throughput.push(Observation { x: x.clone(), y: per_s.ln(), noise: error * error });
    }
    tried.push(x);
    survey.surveyed.push(Surveyed { point, excess: excess.map(|(value, _)| value), holds: None });
    Ok(())
}

/// The best setting, and those that cannot be told from it: of each place of the knobs its best load.
fn conclude(space: &Space<'_>, surfaces: &Surfaces, seed: u64, tried: &[Vec<f64>], survey: &mut Survey) {
    let throughput = |x: &Vec<f64>| surfaces.throughput.at(x).0;
    let best_along = |x: &Vec<f64>| {
        let loads = along(space, x);
        surfaces.best(loads.iter(), SURE).map(|(x, value)| (x.clone(), value))
    };
    let places: Vec<Vec<f64>> = everywhere(space, seed ^ 1).into_iter().take(PLACES).collect();
    let mut found: Vec<(Vec<f64>, f64)> = places.iter().chain(tried).filter_map(best_along).collect();
    let by_value = |a: &&(Vec<f64>, f64), b: &&(Vec<f64>, f64)| a.1.total_cmp(&b.1);
    if let Some((x, _)) = found.iter().max_by(by_value) {
        let closer: Vec<_> = around(space, seed ^ 3, x).iter().take(PLACES).filter_map(best_along).collect();
        found.extend(closer);
    }
    // Where nothing is sure to hold, the place that is surest.
    let surest = || places.iter().max_by(|a, b| surfaces.holds(a).total_cmp(&surfaces.holds(b)));
    let Some(best) = found.iter().max_by(by_value).map(|(x, _)| x).or_else(surest) else { return };
    let (setting, _) = space.decode(best);
    let least = throughput(best);
    let may_be_as_good = |x: &Vec<f64>| {
        along(space, x).iter().any(|x| {
            let (mean, sd) = surfaces.throughput.at(x);
            mean + Z95 * sd >= least && surfaces.holds(x) >= PERHAPS
        })
    };
    // One knob after the other, with the others at their best.
    let range = |(i, turn): (usize, &Turn)| {
        let at = |k: u32| {
            let mut x = best.clone();
            x[i + 1] = f64::from(k) / f64::from(RANGE);
            x
        };
        let rivals: Vec<u32> =
            (0..=RANGE).map(at).filter(may_be_as_good).map(|x| space.decode(&x).0[i].value).collect();
        let values = || rivals.iter().copied().chain([turn.value]);
        let (low, high) = (values().min().unwrap_or(turn.value), values().max().unwrap_or(turn.value));
        KnobRange { dial: turn.dial, value: turn.value, low, high }
    };
    survey.knobs = setting.iter().enumerate().map(range).collect();
    for (surveyed, x) in survey.surveyed.iter_mut().zip(tried) {
        surveyed.holds = surfaces.excess.as_ref().map(|_| surfaces.holds(x));
    }
    survey.setting = Some(setting);
}
