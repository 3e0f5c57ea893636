//! The bracket, the checks around it, and how a search ends.

use super::answer::ProbeVerdict;
use super::evidence::Probe;
use super::runner::{Halt, Kind};
use super::search::Search;
use super::settings::{CHECKED, FLOOR, Over};

/// Shares of the lower end at which lower loads are checked.
const BELOW: [f64; 3] = [0.7, 0.5, 0.35];
/// Multiples of the upper end at which higher loads are checked.
const ABOVE: [f64; 2] = [1.3, 2.0];

/// Distance in ln(load) within which a stage of the ramp, which doubles, is like a load.
const ALIKE: f64 = 0.36;

/// From this share of the ceiling on no load is checked for holding again.
const NO_MORE: f64 = 0.8;

/// What is known of the crossing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bracket {
    /// 95 % of the posterior.
    Interval { low: f64, high: f64 },
    /// The curve is a cliff: largest pass and smallest fail.
    Cliff { low: f64, high: f64 },
    /// Nothing yet.
    None,
}

impl Bracket {
    /// Both ends; of nothing (0, ∞).
    pub(super) fn ends(self) -> (f64, f64) {
        match self {
            Bracket::Interval { low, high } | Bracket::Cliff { low, high } => (low, high),
            Bracket::None => (0.0, f64::INFINITY),
        }
    }
}

/// How a search ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Ending {
    /// Not yet.
    UnderWay,
    /// Narrow, and the checks agree.
    Resolved,
    /// No probe or no time is left.
    Exhausted,
    /// The limits are broken everywhere.
    Unmet,
    /// They hold as far as one may go.
    NotReached,
    /// The client cannot go further.
    ClientLimited,
    /// They are broken at a load below one at which they hold.
    NotMonotone {
        /// The smallest load known to break them.
        below: f64,
    },
    /// The target died or the user stopped.
    Halted,
}

impl Search<'_> {
    /// The bracket as it stands.
    pub(super) fn bracket(&self) -> Bracket {
        let Some(fit) = &self.fit else { return Bracket::None };
        let whole = self.settings.over.is_whole();
        if fit.each[fit.binding()].posterior.cliff > 0.5
            && let Some((low, high)) = self.around()
        {
            return Bracket::Cliff { low, high };
        }
        let (low, high) = fit.interval();
        let middle = 0.5 * (low + high);
        let (low, high) = (low.min(middle * (1.0 - FLOOR)), high.max(middle * (1.0 + FLOOR)));
        match whole {
            true => Bracket::Interval { low: low.floor().max(0.0), high: high.ceil() },
            false => Bracket::Interval { low, high },
        }
    }

    /// The largest pass below the smallest fail, and that.
    fn around(&self) -> Option<(f64, f64)> {
        let main = || self.probes.iter().filter(|p| p.speaks());
        let fail = main().filter(|p| p.verdict.failed()).map(|p| p.load).reduce(f64::min)?;
        let passes = main().filter(|p| p.verdict == ProbeVerdict::Pass && p.load < fail);
        Some((passes.map(|p| p.load).reduce(f64::max)?, fail))
    }

    /// Lower loads hold, higher ones do not: the bracket is the only crossing.
    pub(super) fn checks(&mut self) -> Result<Ending, Halt> {
        let (low, high) = self.bracket().ends();
        for share in BELOW {
            let Some(load) = self.rounded(share * low) else { continue };
            let tried = |p: &Probe| p.kind == Kind::Below && !p.borrowed && (p.load - load).abs() < 1e-9;
            if self.probes.iter().any(tried) || self.ramp_held(load) || self.is_served(Kind::Below, load) {
                continue;
            }
            if self.probe(Kind::Below, load)?.failed() && self.probe(Kind::Below, load)?.failed() {
                self.notes.push(format!(
                    "the limits are broken at {}, below the bracket",
                    super::words::load(self.settings.over, load)
                ));
                return Ok(Ending::NotMonotone { below: load });
            }
        }
        let saturated = self.ramp.as_ref().is_some_and(|r| r.saturated);
        let diverged = self.probes.iter().any(|p| p.verdict == ProbeVerdict::Divergent);
        // Of users, the ramp has shown a stage that fails.
        let broken =
            self.ramp.iter().flat_map(|r| &r.stages).any(|s| s.worst() < 0.5 && f64::from(s.users) > high);
        let ceiling = self.ramp.as_ref().map_or(f64::INFINITY, |r| r.ceiling);
        for factor in ABOVE {
            let Some(load) = self.rounded(factor * high) else { continue };
            // Nothing above it can hold.
            let has_ceiling = match self.settings.over {
                Over::Rate { .. } => diverged || saturated && load > NO_MORE * ceiling,
                _ => broken,
            };
            if has_ceiling || self.failed_near(load) || self.is_served(Kind::Above, load) {
                continue;
            }
            if self.most.is_some_and(|m| load > m)
                || self.client_limit.as_ref().is_some_and(|(l, _)| load >= *l)
            {
                continue;
            }
            let passes = |v: ProbeVerdict| v == ProbeVerdict::Pass;
            if passes(self.probe(Kind::Above, load)?) && passes(self.probe(Kind::Above, load)?) {
                self.notes.push(format!(
                    "the limits hold again at {}, above the bracket",
                    super::words::load(self.settings.over, load)
                ));
                return Ok(Ending::NotMonotone { below: high });
            }
        }
        if let Some(note) = self.flatter_above() {
            self.notes.push(note);
            return Ok(Ending::Exhausted);
        }
        let limited = |p: &Probe| matches!(p.verdict, ProbeVerdict::ClientLimited { .. });
        let inside = |p: &Probe| p.load >= low && p.load <= high;
        if self.client_limit.as_ref().is_some_and(|(limit, _)| *limit >= low && *limit <= high)
            && self.probes.iter().any(|p| limited(p) && inside(p))
        {
            return Ok(Ending::ClientLimited);
        }
        Ok(Ending::Resolved)
    }

    /// Of users the ramp has shown already that a load like this one holds.
    fn ramp_held(&self, load: f64) -> bool {
        let stages = self.ramp.iter().flat_map(|r| &r.stages).filter(|_| self.settings.over.is_whole());
        let like = |users: f64| (users / load).ln().abs() <= ALIKE;
        stages.filter(|s| like(f64::from(s.users))).any(|s| s.worst() >= 1.0 && s.requests >= CHECKED)
    }

    /// A probe of the search has shown already that a load like this one does not hold.
    fn failed_near(&self, load: f64) -> bool {
        let failed = |p: &&Probe| p.speaks() && p.verdict.failed();
        self.probes.iter().filter(failed).any(|p| (p.load / load).ln().abs() <= 0.5 * ALIKE)
    }

    fn rounded(&self, load: f64) -> Option<f64> {
        match self.settings.over.is_whole() {
            true => Some(load.round()).filter(|l| *l >= 1.0),
            false => Some(load).filter(|l| *l > 0.0 && l.is_finite()),
        }
    }
}
