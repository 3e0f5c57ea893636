//! From the state of a search to its answer.

use measure::interval::wilson_at;

use super::answer::{CapacityAnswer, Curve, LimitAtProbe, Needs, ProbeReport, ProbeVerdict, Verdict};
use super::evidence::Probe;
use super::fit::{Fit, One, sample, scale};
use super::posterior::Scale;
use super::runner::Kind;
use super::search::Search;
use super::settings::{Over, Z_MAIN};
use super::state::{Bracket, Ending};
use super::stats::{Z95, expit, logit};
use super::words;
use crate::words::percent;

/// A check that misses less than this share of what the curve foretells contradicts it. Far above a crossing
/// misses often stay short of the line that log-odds are near by.
const FLATTER: f64 = 0.7;
/// Points of a drawn curve.
const POINTS: usize = 41;

impl Search<'_> {
    /// The answer with what is known.
    pub(super) fn answer(&self, ending: Ending) -> CapacityAnswer {
        let verdict = match ending {
            Ending::Resolved => Verdict::Resolved,
            Ending::UnderWay | Ending::Exhausted | Ending::Halted => Verdict::Unresolved,
            Ending::Unmet => Verdict::Unmet,
            Ending::NotReached => Verdict::NotReached,
            Ending::ClientLimited => Verdict::ClientLimited,
            Ending::NotMonotone { .. } => Verdict::Unstable,
        };
        let (value, low, high) = self.numbers(ending);
        let binding = self.fit.as_ref().map(Fit::binding);
        let limited_by =
            binding.filter(|_| !verdict.is_lower_bound()).map(|c| self.settings.criteria[c].text.clone());
        let mut answer = CapacityAnswer {
            over: self.settings.over.name().to_owned(),
            value,
            low,
            high,
            confidence: 0.95,
            verdict,
            limited_by,
            goodput_per_s: value.and_then(|v| self.goodput(v)),
            sentence: String::new(),
            needs: None,
            notes: self.notes.iter().chain(&self.asker.notes).cloned().collect(),
            requests: self.asker.requests,
            duration_ns: self.asker.time.0,
            unloaded_ttft_ns: self.ramp.as_ref().and_then(|r| r.ttft).map(|s| s * 1e9),
            ramp: self.ramp.iter().flat_map(|r| &r.stages).map(|s| s.report()).collect(),
            curves: self.curves(),
            probes: self.probes.iter().map(|p| self.report(p)).collect(),
        };
        if let Some((limit, why)) = &self.client_limit {
            let load = words::load(self.settings.over, *limit);
            answer.notes.push(format!("this client cannot load the server with {load}: {why}"));
        }
        if ending == Ending::Exhausted {
            answer.needs = self.needs(&answer);
        }
        if verdict.is_lower_bound() {
            // What the fit says of loads that nobody tried is its prior.
            answer.curves.clear();
            answer.probes.iter_mut().for_each(|p| p.bracket = None);
        }
        answer.sentence = words::sentence(self.settings, &answer);
        answer
    }

    fn numbers(&self, ending: Ending) -> (Option<f64>, Option<f64>, Option<f64>) {
        let known = |x: f64| Some(x).filter(|x| x.is_finite() && *x > 0.0);
        match ending {
            Ending::Unmet => {
                let failed = self.probes.iter().filter(|p| p.verdict.failed()).map(|p| p.load);
                (None, None, failed.reduce(f64::min))
            }
            Ending::NotReached | Ending::ClientLimited => (self.held(), self.held(), None),
            Ending::NotMonotone { below } => {
                // The highest load below which everything held.
                let held = self.probes.iter().filter(|p| p.verdict == ProbeVerdict::Pass && p.load < below);
                let low = held.map(|p| p.load).reduce(f64::max);
                let (_, high) = self.bracket().ends();
                (None, low, known(high.max(below)))
            }
            _ => {
                let bracket = self.bracket();
                let (low, high) = bracket.ends();
                let whole = self.settings.over.is_whole();
                let value = match (&self.fit, bracket) {
                    (None, _) | (_, Bracket::None) => None,
                    (Some(_), Bracket::Cliff { low, .. }) if whole => Some(low),
                    (Some(_), Bracket::Cliff { low, high }) => Some((low * high).sqrt()),
                    (Some(fit), _) if whole => Some(fit.centre().floor().clamp(low.max(1.0), high)),
                    (Some(fit), _) => Some(fit.centre().clamp(low, high)),
                };
                (value, value.and(known(low)), value.and(known(high)))
            }
        }
    }

    /// Good requests per second at a load: throughput there times the share of good ones.
    fn goodput(&self, load: f64) -> Option<f64> {
        let share = self.fit.as_ref().map_or(1.0, |fit| {
            let each = fit.each.iter().zip(&self.settings.criteria);
            each.filter(|(_, c)| c.target().is_some())
                .map(|(one, c)| 1.0 - curve_at(one, scale(c), load))
                .fold(1.0, f64::min)
        });
        if matches!(self.settings.over, Over::Rate { .. }) {
            return Some(load * share);
        }
        let nearest = self
            .probes
            .iter()
            .filter(|p| p.speaks())
            .filter_map(|p| Some((p.load, p.measured.requests_per_s?)))
            .min_by(|a, b| (a.0 / load).ln().abs().total_cmp(&(b.0 / load).ln().abs()))?;
        Some(nearest.1 * share)
    }

    fn curves(&self) -> Vec<Curve> {
        let Some(fit) = &self.fit else { return Vec::new() };
        let each = fit.each.iter().zip(&self.settings.criteria).zip(&fit.smallest.chance);
        each.map(|((one, criterion), binds)| {
            let at = |share: f64| one.posterior.quantile(share).exp();
            let (low, crossing, high) = (at(0.025), at(0.5), at(0.975));
            let point = |i: usize| {
                let load = crossing * (2.0_f64).powf(2.0 * i as f64 / (POINTS - 1) as f64 - 1.0);
                (load, curve_at(one, scale(criterion), load))
            };
            Curve {
                limit: criterion.text.clone(),
                target: criterion.target(),
                crossing,
                low,
                high,
                slope: one.posterior.slope,
                run_noise: one.posterior.spread,
                points: (0..POINTS).map(point).collect(),
                binds: *binds,
            }
        })
        .collect()
    }

    fn report(&self, probe: &Probe) -> ProbeReport {
        let limits = self.settings.criteria.iter().enumerate().map(|(c, criterion)| {
            let empty = LimitAtProbe {
                limit: criterion.text.clone(),
                value: None,
                corrected: None,
                low: None,
                high: None,
                n_eff: None,
            };
            let Some(one) = self.fit.as_ref().and_then(|f| f.each.get(c)) else { return empty };
            let sample = sample(&self.model, c, probe, one.centre);
            if sample.m == 0 {
                return empty;
            }
            let corrected = sample.corrected(one.pool.b).max(0.0);
            let n_eff = sample.m as f64 / one.pool.inflation.max(1e-12);
            let (low, high) = match criterion.target() {
                Some(_) => {
                    let interval = wilson_at(corrected.min(1.0), n_eff, Z95);
                    (interval.low, interval.high)
                }
                None => {
                    let half = Z95 * corrected / n_eff.sqrt();
                    (Some((corrected - half).max(0.0)), Some(corrected + half))
                }
            };
            LimitAtProbe {
                value: Some(sample.y),
                corrected: Some(corrected),
                low,
                high,
                n_eff: criterion.target().map(|_| n_eff),
                ..empty
            }
        });
        let bracket = self.brackets.iter().find(|(n, _)| *n == probe.number).map(|(_, b)| *b);
        ProbeReport {
            number: probe.number,
            kind: probe.kind,
            load: probe.load,
            verdict: probe.verdict.clone(),
            borrowed: probe.borrowed,
            measured: probe.measured.clone(),
            limits: limits.collect(),
            bracket: bracket.filter(|(low, high)| low.is_finite() && high.is_finite()),
        }
    }

    /// A check above the bracket that misses far less than the curve of the probes near it foretells: where the
    /// server differs from run to run, they may have agreed by chance.
    pub(super) fn flatter_above(&self) -> Option<String> {
        let fit = self.fit.as_ref()?;
        let (c, one) = (fit.binding(), fit.each.get(fit.binding())?);
        let criterion = &self.settings.criteria[c];
        criterion.target()?;
        let spoilt = |p: &Probe| matches!(p.verdict, ProbeVerdict::ClientLimited { .. });
        let mut checks = self.probes.iter().filter(|p| p.kind == Kind::Above && !spoilt(p) && !p.borrowed);
        checks.find_map(|probe| {
            let sample = sample(&self.model, c, probe, one.centre);
            let n_eff = sample.m as f64 / one.pool.inflation.max(1.0);
            let (seen, foretold) = (sample.y, curve_at(one, scale(criterion), probe.load));
            let most = wilson_at(seen.clamp(0.0, 1.0), n_eff, Z_MAIN).high.filter(|_| sample.m > 0)?;
            (most < FLATTER * foretold).then(|| {
                format!(
                    "at {} {} miss {} where the probes near the bracket foretell {}: they may agree by chance, \
                     as runs of a server that differs from run to run do",
                    words::load(self.settings.over, probe.load),
                    percent(seen),
                    criterion.text,
                    percent(foretold)
                )
            })
        })
    }

    /// What it would take to be as narrow as asked.
    fn needs(&self, answer: &CapacityAnswer) -> Option<Needs> {
        let fit = self.fit.as_ref()?;
        let one = fit.each.get(fit.binding())?;
        let (tau, beta) = (one.posterior.spread, one.posterior.slope);
        if tau * tau > one.sampling {
            let repeats = (4.0 * tau / (beta * self.settings.width)).powi(2).ceil().max(1.0);
            return Some(Needs::Repeats { repeats: repeats as u64 });
        }
        let requests = answer.requests as f64 * (answer.width()? / self.settings.width).powi(2);
        Some(Needs::Requests { requests: requests.max(answer.requests as f64).ceil() as u64 })
    }
}

/// The fitted share of misses, or mean over limit, at a load.
fn curve_at(one: &One, scale: Scale, load: f64) -> f64 {
    let eta = one.posterior.slope * (load.ln() - one.posterior.quantile(0.5));
    match scale {
        Scale::Share { q } => expit(logit(q) + eta),
        Scale::Mean => eta.min(50.0).exp(),
    }
}
