//! The search: warm, ramp, probes near the crossing until the bracket is narrow, checks.

use super::answer::{CapacityAnswer, ProbeVerdict};
use super::evidence::{Pool, Probe};
use super::fit::{Fit, Model, fit, near};
use super::probe::{Rule, run};
use super::ramp::{Asker, Ramp};
use super::runner::{Halt, Kind};
use super::settings::{LEAST_NEAR, Over, Settings, Z_CHECK, Z_MAIN, cap};
use super::state::{Bracket, Ending};
use crate::words::counted;

/// A probe keeps this share of the known span, in ln(load), away from its ends.
const INSIDE: f64 = 0.25;
/// Above this share of a load that the client could not offer nothing is tried.
const CLOSE: f64 = 0.95;
/// Loads that hold up to this share of it show that the client is what ends the search.
const NEARLY: f64 = 0.85;
/// The largest step beyond the only side that is known.
const STRIDE: f64 = 1.6;

/// The state of a search.
pub(super) struct Search<'a> {
    pub asker: Asker<'a>,
    pub settings: &'a Settings,
    told: &'a mut dyn FnMut(&CapacityAnswer),
    pub ramp: Option<Ramp>,
    pub model: Model,
    pub probes: Vec<Probe>,
    /// The bracket after each probe, by its number.
    pub brackets: Vec<(u32, (f64, f64))>,
    pub fit: Option<Fit>,
    pub guess: f64,
    /// ln(load) of the prior.
    range: (f64, f64),
    /// No crossing lies above this.
    ceiling: f64,
    /// No load above this may be tried, because of the user or the client.
    pub most: Option<f64>,
    /// The client could not reach this load.
    pub client_limit: Option<(f64, String)>,
    pub notes: Vec<String>,
    side: f64,
}

/// What became of one step.
pub(super) enum Step {
    /// A probe was made.
    Probed,
    /// The bracket is as narrow as asked.
    Narrow,
    /// It is over.
    Ended(Ending),
}

impl<'a> Search<'a> {
    pub(super) fn new(asker: Asker<'a>, told: &'a mut dyn FnMut(&CapacityAnswer)) -> Self {
        let settings = asker.settings;
        Self {
            asker,
            settings,
            told,
            ramp: None,
            model: Model::none(settings),
            probes: Vec::new(),
            brackets: Vec::new(),
            fit: None,
            guess: 1.0,
            range: (0.0, 0.0),
            ceiling: f64::INFINITY,
            most: settings.max_load,
            client_limit: None,
            notes: Vec::new(),
            side: -1.0,
        }
    }

    /// Takes the ramp in: prior, first guess, virtual queue.
    pub(super) fn begin(&mut self, ramp: Ramp) {
        self.notes.extend(ramp.notes.iter().cloned());
        let (good, bad) = ramp.bracket(&self.settings.criteria);
        let is_rate = matches!(self.settings.over, Over::Rate { .. });
        let of = |s: &super::ramp::Stage| if is_rate { s.throughput } else { f64::from(s.users) };
        let top = ramp.stages.last().map_or(1.0, of).max(f64::MIN_POSITIVE);
        let first = ramp.stages.first().map_or(1.0, of).max(f64::MIN_POSITIVE);
        let low = good.map_or(first, of).max(f64::MIN_POSITIVE);
        let high = bad.map_or(top, of).max(low);
        if let Some((users, why)) = &ramp.client_limit {
            self.notes.push(format!(
                "this client could not keep {} busy: {why}",
                counted(u64::from(*users), "user")
            ));
            if !is_rate {
                self.limit_client(f64::from(*users), why.clone());
            }
        }
        if is_rate && ramp.saturated && ramp.ceiling > 0.0 {
            self.ceiling = ramp.ceiling * (1.08 + 3.0 * ramp.ceiling_error);
            self.range = ((0.05 * ramp.ceiling).ln(), self.ceiling.ln());
        } else {
            self.range = ((0.15 * low).ln(), (1.5 * high).ln());
        }
        self.model = Model::new(self.settings, &ramp);
        self.guess = match self.model.guess() {
            Some(guess) if is_rate => guess,
            _ if is_rate && ramp.saturated => 0.7 * ramp.ceiling,
            _ => (low * high).sqrt(),
        };
        self.ramp = Some(ramp);
    }

    pub(super) fn unloaded_fails(&self) -> bool {
        let Some(first) = self.ramp.as_ref().and_then(|r| r.stages.first()) else { return true };
        first.worst() < 0.5
    }

    /// The unloaded server breaks a limit. That says nothing of higher loads (a server that waits to
    /// fill its batches is slow when idle): unmet is said only when several loads fail.
    pub(super) fn anywhere(&mut self) -> Result<Option<Ending>, Halt> {
        let ceiling = self.ramp.as_ref().map_or(0.0, |r| r.ceiling);
        if ceiling <= 0.0 {
            // What the client could not offer, or had no time for, says nothing of the server.
            let spoilt = self.ramp.as_ref().is_some_and(|r| r.client_limit.is_some());
            return Ok(Some(match spoilt {
                true => Ending::ClientLimited,
                false if self.out_of_time() => Ending::Exhausted,
                false => Ending::Unmet,
            }));
        }
        let loads = match self.settings.over {
            Over::Rate { .. } => vec![0.8 * ceiling, 0.5 * ceiling, 0.25 * ceiling],
            _ => vec![4.0, 2.0, 1.0],
        };
        for load in loads {
            let Some(load) = self.allowed(load) else { continue };
            let verdict = self.probe(Kind::Below, load)?;
            if verdict.failed() {
                continue;
            }
            self.notes.push("the unloaded server breaks the limits".to_owned());
            // The search goes on from here; the failures below are no part of its curve.
            self.guess = load;
            if let Some(probe) = self.probes.last_mut() {
                probe.kind = Kind::Main;
            }
            self.refit();
            return Ok(None);
        }
        Ok(Some(Ending::Unmet))
    }

    /// Makes the next probe, unless the bracket is narrow or nothing more can be learned.
    pub(super) fn step(&mut self) -> Result<Step, Halt> {
        if let Some(ending) = self.contradiction()? {
            return Ok(Step::Ended(ending));
        }
        if self.fit.is_some() {
            if let Some(ending) = self.out_of_reach() {
                return Ok(Step::Ended(ending));
            }
            if self.narrow() {
                return Ok(Step::Narrow);
            }
        }
        if self.main_probes() >= self.settings.max_probes || self.out_of_time() {
            // What would narrow the bracket is what the client cannot offer.
            let (_, high) = self.bracket().ends();
            let limited = self.client_limit.as_ref().is_some_and(|(limit, _)| *limit <= high);
            return Ok(Step::Ended(if limited { Ending::ClientLimited } else { Ending::Exhausted }));
        }
        let Some(load) = self.next() else { return Ok(Step::Ended(Ending::ClientLimited)) };
        self.probe(Kind::Main, load)?;
        Ok(Step::Probed)
    }

    fn out_of_time(&self) -> bool {
        self.asker.left().is_some_and(|left| left.0 == 0)
    }

    fn main_probes(&self) -> u32 {
        // One that the client spoilt is half a probe: it is done again.
        let weight = |p: &Probe| if p.speaks() { 2 } else { 1 };
        let of_main = |p: &&Probe| matches!(p.kind, Kind::Main | Kind::Repeat) && !p.borrowed;
        self.probes.iter().filter(of_main).map(weight).sum::<u32>() / 2
    }

    /// The load within what may be tried; `None`: not one that is worth trying.
    fn allowed(&self, load: f64) -> Option<f64> {
        let mut load = self.most.map_or(load, |most| load.min(most));
        if let Some((limit, _)) = self.client_limit.as_ref().filter(|(limit, _)| load > CLOSE * limit) {
            // Up to the client's limit in halves from what it could do.
            let done = self.probes.iter().filter(|p| p.speaks()).map(|p| p.load).reduce(f64::max);
            load = done.filter(|d| d < limit).map_or(limit / STRIDE, |d| (d * limit).sqrt());
        }
        if self.settings.over.is_whole() {
            let most = self.client_limit.as_ref().map_or(f64::INFINITY, |(limit, _)| limit - 1.0);
            load = load.round().max(1.0).min(most);
            return (load >= 1.0).then_some(load);
        }
        (load > 0.0 && load.is_finite()).then_some(load)
    }

    /// Where the next probe says most.
    fn next(&mut self) -> Option<f64> {
        let Some(fit) = &self.fit else { return self.allowed(self.guess) };
        let (low, high) = fit.interval();
        let centre = fit.centre();
        let load = match self.bracket() {
            Bracket::Cliff { low, high } => self.inside(low, high)?,
            _ if high / low > 1.5 => self.afield(self.between(centre), (low, high)),
            _ => {
                self.side = -self.side;
                centre * (self.side * (0.7 * fit.smallest.sd()).max(0.03)).exp()
            }
        };
        self.allowed(load)
    }

    /// A load near `load`, but well inside of what is known on either side.
    fn between(&self, load: f64) -> f64 {
        let whole = self.settings.over.is_whole();
        let ramp = || self.ramp.iter().flat_map(|r| &r.stages).filter(|_| whole);
        let clean = self.probes.iter().filter(|p| p.speaks() && !p.verdict.failed() && self.is_within(p));
        let good = ramp().filter(|s| s.worst() >= 1.0).map(|s| f64::from(s.users));
        let low = clean.map(|p| p.load).chain(good).reduce(f64::max);
        let failed = self.probes.iter().filter(|p| p.speaks() && p.verdict.failed()).map(|p| p.load);
        let broken = ramp().filter(|s| s.worst() < 0.5).map(|s| f64::from(s.users));
        let above = |x: &f64| low.is_none_or(|l| *x > l);
        let high = failed.chain(broken).filter(above).reduce(f64::min);
        match (low, high) {
            (Some(low), Some(high)) => {
                let at = |share: f64| low * (high / low).powf(share);
                load.clamp(at(INSIDE), at(1.0 - INSIDE))
            }
            (Some(low), None) => load.min(low * STRIDE),
            (None, Some(high)) => load.max(high / STRIDE),
            (None, None) => load,
        }
    }

    /// Where several probes stand already, the slope is what is not known: a step to the side of the
    /// longer tail says more than another one in the same place.
    fn afield(&self, load: f64, (low, high): (f64, f64)) -> f64 {
        let close = |p: &&Probe| p.speaks() && (p.load / load).ln().abs() < 0.04;
        if self.probes.iter().filter(close).count() < 2 {
            return load;
        }
        let step = (0.5 * (high / low).ln()).clamp(0.1, 0.25);
        if load / low > high / load { load * (-step).exp() } else { load * step.exp() }
    }

    /// Fewer misses than allowed, as far as this probe goes.
    fn is_within(&self, probe: &Probe) -> bool {
        let mean = |series: &[Option<f64>]| {
            let known: Vec<f64> = series.iter().skip(probe.dropped).filter_map(|v| *v).collect();
            super::stats::mean(&known)
        };
        probe.series.iter().zip(&self.settings.criteria).all(|(s, c)| mean(s) < c.target().unwrap_or(1.0))
    }

    /// Strictly between the largest pass and the smallest fail.
    fn inside(&self, low: f64, high: f64) -> Option<f64> {
        let middle = (low * high).sqrt();
        if !self.settings.over.is_whole() {
            return Some(middle);
        }
        let middle = middle.round().clamp(low + 1.0, (high - 1.0).max(low + 1.0));
        Some(middle)
    }

    /// Runs a probe of the search proper or a check; once more if the client was the limit. Fits.
    pub(super) fn probe(&mut self, kind: Kind, load: f64) -> Result<ProbeVerdict, Halt> {
        let mut verdict = self.once(kind, load)?;
        if let ProbeVerdict::ClientLimited { .. } = &verdict {
            verdict = self.once(kind, load)?;
        }
        if let ProbeVerdict::ClientLimited { why } = &verdict {
            self.limit_client(load, why.clone());
        }
        Ok(verdict)
    }

    pub(super) fn limit_client(&mut self, load: f64, why: String) {
        if self.client_limit.as_ref().is_none_or(|(limit, _)| load < *limit) {
            self.client_limit = Some((load, why));
        }
    }

    fn once(&mut self, kind: Kind, load: f64) -> Result<ProbeVerdict, Halt> {
        let is_main = matches!(kind, Kind::Main | Kind::Repeat);
        let rule = self.rule(kind, load);
        let e2e = self.ramp.as_ref().and_then(|r| r.e2e);
        let probe = run(&mut self.asker, &self.model, &rule, load, e2e)?;
        let (verdict, number) = (probe.verdict.clone(), probe.number);
        self.probes.push(probe);
        if is_main {
            self.refit();
            let (low, high) = self.bracket().ends();
            self.brackets.push((number, (low, high)));
        }
        let answer = self.answer(Ending::UnderWay);
        (self.told)(&answer);
        Ok(verdict)
    }

    pub(super) fn rule(&self, kind: Kind, load: f64) -> Rule {
        let q = self.settings.criteria.iter().map(|c| c.target().unwrap_or(0.05)).fold(0.5, f64::min);
        let is_main = matches!(kind, Kind::Main | Kind::Repeat);
        let centre = self.fit.as_ref().map_or(self.guess, Fit::centre);
        let known = near(&self.probes, centre).next().is_some();
        let pools: Vec<Option<Pool>> = (0..self.settings.criteria.len())
            .map(|c| self.fit.as_ref().filter(|_| is_main && known).map(|f| f.each[c].pool))
            .collect();
        let inflation = pools.iter().flatten().map(|p| p.inflation).fold(1.0, f64::max);
        let full = self.ramp.as_ref().map_or(0.0, |r| r.in_flight(load));
        let cap = cap(q) * if is_main { (inflation / 6.0).clamp(1.0, 3.0) } else { 1.0 };
        Rule { kind, z: if is_main { Z_MAIN } else { Z_CHECK }, cap: cap as u64, pools, centre, full }
    }

    pub(super) fn refit(&mut self) {
        for _ in 0..6 {
            let fitted =
                fit(self.settings, &self.model, &self.probes, self.fit.as_ref(), self.guess, self.range);
            let (low, high) = self.range;
            let edge = 0.03 * (high - low);
            let mass = |from: f64, to: f64| {
                let above = |x: f64| fitted.each.iter().map(|o| o.posterior.above(x)).product::<f64>();
                above(from) - above(to)
            };
            let at_low = mass(low - 1.0, low + edge) > 0.05;
            let at_high = mass(high - edge, high + 1.0) > 0.05 && high < self.ceiling.ln() - 1e-9;
            self.fit = Some(fitted);
            if !at_low && !at_high || self.most.is_some_and(|m| at_high && high > m.ln() + 0.7 && !at_low) {
                return;
            }
            let step = std::f64::consts::LN_2;
            self.range = (
                if at_low { low - step } else { low },
                if at_high { (high + step).min(self.ceiling.ln()) } else { high },
            );
        }
    }

    /// A pass well above a fail: both again; still so: the server is not monotone.
    fn contradiction(&mut self) -> Result<Option<Ending>, Halt> {
        let Some((pass, fail)) = self.crossed() else { return Ok(None) };
        if self.probes.iter().any(|p| p.kind == Kind::Repeat && !p.borrowed) {
            return Ok(None);
        }
        let again_fail = self.probe(Kind::Repeat, fail)?;
        if !again_fail.failed() {
            return Ok(None);
        }
        let again_pass = self.probe(Kind::Repeat, pass)?;
        if again_pass == ProbeVerdict::Pass {
            self.notes.push(format!(
                "the limits were broken at {} and held at {}, both twice",
                super::words::load(self.settings.over, fail),
                super::words::load(self.settings.over, pass)
            ));
            return Ok(Some(Ending::NotMonotone { below: fail }));
        }
        Ok(None)
    }

    /// A decided pass more than 10 % above a decided fail.
    fn crossed(&self) -> Option<(f64, f64)> {
        let main = || self.probes.iter().filter(|p| p.speaks());
        let pass = main().filter(|p| p.verdict == ProbeVerdict::Pass).map(|p| p.load).reduce(f64::max)?;
        let fail = main().filter(|p| p.verdict.failed()).map(|p| p.load).reduce(f64::min)?;
        (pass > 1.1 * fail).then_some((pass, fail))
    }

    /// The crossing lies above what may be tried.
    fn out_of_reach(&self) -> Option<Ending> {
        let fit = self.fit.as_ref()?;
        let (low, _) = fit.interval();
        let passed = self.passed();
        let whole = self.settings.over.is_whole();
        if let Some((limit, _)) = &self.client_limit
            && fit.centre() > CLOSE * limit
            && self.held().is_some_and(|h| h > NEARLY * limit || whole && h >= limit - 1.0)
        {
            return Some(Ending::ClientLimited);
        }
        let most = self.most?;
        let is_most = |x: f64| x >= most * (1.0 - 1e-9);
        let tried = self.probes.iter().any(|p| p.speaks() && is_most(p.load));
        (passed.is_some_and(is_most) || tried && low > most).then_some(Ending::NotReached)
    }

    /// The largest load known to hold: one that passed, or one tried below the whole posterior.
    pub(super) fn held(&self) -> Option<f64> {
        let low = self.fit.as_ref().map_or(0.0, |f| f.interval().0);
        let tried = self.probes.iter().filter(|p| p.speaks() && !p.verdict.failed() && p.load <= low);
        tried.map(|p| p.load).chain(self.passed()).reduce(f64::max)
    }

    /// The largest load that passed.
    pub(super) fn passed(&self) -> Option<f64> {
        self.probes
            .iter()
            .filter(|p| p.speaks() && p.verdict == ProbeVerdict::Pass)
            .map(|p| p.load)
            .reduce(f64::max)
    }

    fn narrow(&self) -> bool {
        let Some(fit) = &self.fit else { return false };
        let bracket = self.bracket();
        let (low, high) = bracket.ends();
        let enough = match bracket {
            Bracket::Cliff { .. } => self.probes.iter().filter(|p| p.speaks()).count() >= LEAST_NEAR,
            _ => near(&self.probes, fit.centre()).count() >= LEAST_NEAR,
        };
        let width = 2.0 * (high - low) / (high + low);
        let adjacent = self.settings.over.is_whole() && high - low <= 2.0;
        enough && (width <= self.settings.width || adjacent)
            || adjacent && matches!(bracket, Bracket::Cliff { .. }) && high - low <= 1.0
    }
}
