//! All probes in one fit for each limit, and the smallest crossing of them.

use spec::Burstiness;

use super::answer::ProbeVerdict;
use super::criterion::Criterion;
use super::evidence::{Controls, Pool, Probe, Sample};
use super::posterior::{Datum, Expected, Posterior, Scale, Smallest};
use super::queue::{Expectation, Process, USEFUL, VirtualQueue};
use super::ramp::Ramp;
use super::settings::{NEAR, Over, Settings};

/// Requests of a probe as independent draws are worth this share of what their variance says: the
/// variance is an estimate, and stopping looks at it.
const CAUTION: f64 = 0.65;
/// Far probes lose weight with this width in ln(load), since log-odds are a line only near by.
const REACH: f64 = 0.25;
const LEAST_WEIGHT: f64 = 0.02;
/// The noise of requests is taken from probes within this width: near saturation it grows as
/// 1/(1 − utilisation)².
const POOLED: f64 = 0.1;
/// The least that burstiness may fall to below the crossing on the word of the virtual queue.
const LEAST_EASE: f64 = 0.2;

/// The virtual queue of a search over rate, for each criterion.
pub(super) struct Model {
    queue: Option<VirtualQueue>,
    /// For each criterion: crowd at which it is hit, expectation, and guess of the crossing.
    criteria: Vec<Option<(f64, Expectation, f64)>>,
}

impl Model {
    /// No queue at all.
    pub(super) fn none(settings: &Settings) -> Self {
        Self { queue: None, criteria: vec![None; settings.criteria.len()] }
    }

    /// Calibrated by the ramp; empty over users, where queues hardly form, for equal gaps, and where it is not
    /// wanted.
    pub(super) fn new(settings: &Settings, ramp: &Ramp) -> Self {
        let none = Self::none(settings);
        let (Over::Rate { burstiness }, true) = (settings.over, settings.control.used) else { return none };
        // Of equal gaps no timetable is lucky, and no crowd comes and goes by chance.
        if burstiness.shape().is_infinite() {
            return none;
        }
        let Some(places) = ramp.places() else { return none };
        let control = settings.control;
        let stages: Vec<(u32, f64)> =
            ramp.stages.iter().map(|s| (s.users, s.throughput * control.speed)).collect();
        let queue = VirtualQueue::new(&stages, places * control.places);
        let process = Process::new(burstiness, spec::seed::mix(settings.seed ^ 0x5eed));
        let top = ramp.ceiling * control.speed;
        let criteria = settings.criteria.iter().map(|c| {
            let crowd = ramp.crowd(c)?;
            let expectation = Expectation::new(&queue, crowd, &process, 0.05 * top, 1.2 * top)?;
            let guess = expectation.crossing(c.target().unwrap_or(0.2));
            Some((crowd, expectation, guess))
        });
        Self { criteria: criteria.collect(), queue: Some(queue) }
    }

    /// First guess of the smallest crossing.
    pub(super) fn guess(&self) -> Option<f64> {
        self.criteria.iter().flatten().map(|(_, _, guess)| *guess).reduce(f64::min)
    }

    /// What the virtual queue says of a probe, when the crossing is thought to lie at `centre`.
    pub(super) fn controls(
        &self,
        criterion: usize,
        load: f64,
        intended: &[f64],
        centre: f64,
    ) -> Option<Controls> {
        let (crowd, expectation, guess) = self.criteria.get(criterion)?.as_ref()?;
        let speed = centre / guess;
        let expected = expectation.at(load / speed).filter(|e| *e > USEFUL.0 && *e < USEFUL.1)?;
        let each = self.queue.as_ref()?.controls(intended.iter().map(|t| t * speed), *crowd);
        Some(Controls { each, expected })
    }

    /// What the virtual queue expects of the crossing and the slope, for the prior.
    fn prior(&self, criterion: usize, is_share: bool) -> Option<Expected> {
        let (_, expectation, guess) = self.criteria.get(criterion)?.as_ref()?;
        Some(Expected { theta: guess.ln(), slope: is_share.then(|| expectation.slope(*guess)) })
    }

    /// How much less bursty crowding is at a load below the crossing than there; 1 above it.
    fn ease(&self, criterion: usize, load: f64, centre: f64) -> f64 {
        let at = |x: f64| self.inflation(criterion, x, centre);
        match (at(load), at(centre)) {
            (Some(here), Some(there)) if load < centre => (here / there).clamp(LEAST_EASE, 1.0),
            _ => 1.0,
        }
    }

    /// How bursty crowding is at a load in the virtual queue, when the crossing lies at `centre`.
    pub(super) fn inflation(&self, criterion: usize, load: f64, centre: f64) -> Option<f64> {
        let (_, expectation, guess) = self.criteria.get(criterion)?.as_ref()?;
        Some(expectation.inflation(load * guess / centre))
    }
}

/// The fit of one limit.
#[derive(Debug, Clone)]
pub(super) struct One {
    pub posterior: Posterior,
    pub pool: Pool,
    pub centre: f64,
    /// Variance that sampling alone leaves in a near probe, mean.
    pub sampling: f64,
}

/// The fit of all.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    pub each: Vec<One>,
    pub smallest: Smallest,
}

impl Fit {
    /// Median of the crossing.
    pub(super) fn centre(&self) -> f64 {
        self.smallest.quantile(0.5).exp()
    }
    /// 95 % interval of the crossing.
    pub(super) fn interval(&self) -> (f64, f64) {
        (self.smallest.quantile(0.025).exp(), self.smallest.quantile(0.975).exp())
    }
    /// The criterion that is crossed first, most likely.
    pub(super) fn binding(&self) -> usize {
        let chance = &self.smallest.chance;
        (0..chance.len()).max_by(|a, b| chance[*a].total_cmp(&chance[*b])).unwrap_or(0)
    }
}

pub(super) fn scale(criterion: &Criterion) -> Scale {
    criterion.target().map_or(Scale::Mean, |q| Scale::Share { q })
}

/// The sample of a probe under a criterion.
pub(super) fn sample(model: &Model, criterion: usize, probe: &Probe, centre: f64) -> Sample {
    let controls = model.controls(criterion, probe.load, &probe.intended, centre);
    Sample::new(&probe.series[criterion], probe.dropped, controls.as_ref())
}

fn is_near(load: f64, centre: f64) -> bool {
    (load / centre).ln().abs() <= NEAR
}

/// Probes near a load that enter the fit.
pub(super) fn near(probes: &[Probe], centre: f64) -> impl Iterator<Item = &Probe> {
    probes.iter().filter(move |p| p.speaks() && is_near(p.load, centre))
}

/// The fit of one criterion around `centre`, within `range` of ln(load).
fn one(
    criterion: usize,
    settings: &Settings,
    model: &Model,
    probes: &[Probe],
    centre: f64,
    range: (f64, f64),
) -> One {
    let scale = scale(&settings.criteria[criterion]);
    let is_share = matches!(scale, Scale::Share { .. });
    let usable: Vec<&Probe> =
        probes.iter().filter(|p| p.speaks() && p.verdict != ProbeVerdict::Divergent).collect();
    let samples: Vec<Sample> = usable.iter().map(|p| sample(model, criterion, p, centre)).collect();
    let local = |load: f64| (-0.5 * ((load / centre).ln() / POOLED).powi(2)).exp().max(LEAST_WEIGHT);
    let weighted: Vec<(Sample, f64)> = usable
        .iter()
        .zip(&samples)
        .filter(|(_, s)| s.m > 0)
        .map(|(p, s)| (s.clone(), local(p.load)))
        .collect();
    let pool = Pool::of(
        &weighted,
        settings.criteria[criterion].target(),
        model.inflation(criterion, centre, centre),
    );
    let (mut sampling, mut count) = (0.0, 0.0);
    let mut data: Vec<Datum> = Vec::with_capacity(probes.len());
    for (probe, sample) in usable.iter().zip(&samples).filter(|(_, s)| s.m > 0) {
        let x = probe.load.ln();
        let distance = (probe.load / centre).ln() / REACH;
        let weight = (-0.5 * distance * distance).exp().max(LEAST_WEIGHT);
        let value = sample.corrected(pool.b);
        let datum = if is_share {
            // Further from saturation crowds dissolve sooner.
            let ease = model.ease(criterion, probe.load, centre);
            let n = weight * CAUTION * sample.m as f64 / (pool.inflation * ease).max(1.0);
            Datum::Misses { x, k: value.clamp(0.0, 1.0) * n, n }
        } else {
            let variance = pool.inflation / (weight * CAUTION * sample.m as f64);
            Datum::Mean { x, ln: value.max(1e-9).ln(), variance }
        };
        if is_near(probe.load, centre) {
            count += 1.0;
            sampling += match datum {
                Datum::Misses { k, n, .. } => 1.0 / (k + 0.5) + 1.0 / (n - k + 0.5),
                Datum::Mean { variance, .. } => variance,
                Datum::Divergent { .. } => 0.0,
            };
        }
        data.push(datum);
    }
    let divergent = probes.iter().filter(|p| p.speaks() && p.verdict == ProbeVerdict::Divergent);
    data.extend(divergent.map(|p| Datum::Divergent { x: p.load.ln() }));
    let posterior = Posterior::new(scale, &data, range, model.prior(criterion, is_share));
    One { posterior, pool, centre, sampling: if count > 0.0 { sampling / count } else { 0.0 } }
}

/// The fit of every criterion. `before`: the last fit, whose crossings are the first centres.
pub(super) fn fit(
    settings: &Settings,
    model: &Model,
    probes: &[Probe],
    before: Option<&Fit>,
    guess: f64,
    range: (f64, f64),
) -> Fit {
    let each: Vec<One> = (0..settings.criteria.len())
        .map(|c| {
            let own = model.criteria[c].as_ref().map_or(guess, |(_, _, g)| *g);
            let mut centre =
                before.and_then(|f| f.each.get(c)).map_or(own, |o| o.posterior.quantile(0.5).exp());
            let mut fitted = one(c, settings, model, probes, centre, range);
            // The centre weighs probes by distance and sets the speed of the virtual queue.
            for _ in 0..2 {
                let next = fitted.posterior.quantile(0.5).exp();
                if (next / centre).ln().abs() < 0.01 {
                    break;
                }
                centre = next;
                fitted = one(c, settings, model, probes, centre, range);
            }
            fitted
        })
        .collect();
    let posteriors: Vec<Posterior> = each.iter().map(|o| o.posterior.clone()).collect();
    Fit { smallest: Smallest::of(&posteriors), each }
}

/// Coefficient of variation of the planned gaps.
pub(super) fn gap_cv(burstiness: Burstiness) -> f64 {
    let shape = burstiness.shape();
    if shape.is_finite() { 1.0 / shape.sqrt() } else { 0.0 }
}
