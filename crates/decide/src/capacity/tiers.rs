//! Several classes of service searched together: one set of probes, a fit for each tier, and the next
//! probe for the tier that knows least. A search without tiers is one with a single tier.

use std::cell::RefCell;
use std::ops::Range;

use super::answer::{CapacityAnswer, ProbeVerdict};
use super::probe::borrow;
use super::ramp::{Asker, Ramp};
use super::runner::{Ask, Finished, Halt, Kind, Look, Next, Runner};
use super::search::{Search, Step};
use super::settings::Settings;
use super::state::Ending;

/// A probe of another tier within this distance in ln(load) serves as a check of this one.
const SERVES: f64 = 0.15;

/// Searches the largest load at which every limit holds.
///
/// `told` hears of the answer so far after each probe, for progress.
pub fn search(
    settings: &Settings,
    runner: &mut dyn Runner,
    told: &mut dyn FnMut(&CapacityAnswer),
) -> CapacityAnswer {
    let mut answers = search_tiers(std::slice::from_ref(settings), runner, &mut |_, answer| told(answer));
    answers.pop().expect("one tier has one answer")
}

/// Searches, for each tier, the largest load at which its limits hold. The settings of the tiers
/// differ in nothing but their criteria. Each probe enters the fit of every tier; gives an answer for
/// each tier, in their order.
///
/// `told` hears after each probe of the tier that it was made for, and of its answer so far.
pub fn search_tiers(
    settings: &[Settings],
    runner: &mut dyn Runner,
    told: &mut dyn FnMut(usize, &CapacityAnswer),
) -> Vec<CapacityAnswer> {
    let Some(first) = settings.first() else { return Vec::new() };
    let shared = RefCell::new(Shared { runner, keeps: settings.len() > 1, kept: Vec::new() });
    let told = RefCell::new(told);
    let mut handles: Vec<Handle<'_, '_>> = settings.iter().map(|_| Handle(&shared)).collect();
    let mut tellers: Vec<_> = (0..settings.len())
        .map(|tier| {
            let told = &told;
            move |answer: &CapacityAnswer| (told.borrow_mut())(tier, answer)
        })
        .collect();
    let parts = settings.iter().zip(&mut handles).zip(&mut tellers);
    let searches =
        parts.map(|((settings, handle), teller)| Search::new(Asker::new(settings, handle), teller));
    let mut tiers = Tiers {
        searches: searches.collect(),
        endings: vec![None; settings.len()],
        counted: (0, 0, spec::Nanos::ZERO),
        shared: &shared,
    };
    let criteria: Vec<_> = settings.iter().flat_map(|s| s.criteria.iter().cloned()).collect();
    let of_all = Settings { criteria, ..first.clone() };
    if let Err(halt) = tiers.whole(&of_all) {
        for (search, ending) in tiers.searches.iter_mut().zip(&mut tiers.endings) {
            if ending.is_none() {
                search.notes.push(halt.to_string());
                *ending = Some(Ending::Halted);
            }
        }
    }
    tiers.answers()
}

/// The one runner behind all tiers.
struct Shared<'r> {
    runner: &'r mut dyn Runner,
    /// Whether anybody else wants to see what comes back.
    keeps: bool,
    kept: Vec<Finished>,
}

/// The runner as one tier sees it.
struct Handle<'s, 'r>(&'s RefCell<Shared<'r>>);

impl Runner for Handle<'_, '_> {
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        let mut shared = self.0.borrow_mut();
        let finished = shared.runner.probe(ask, look)?;
        if shared.keeps {
            shared.kept.push(finished.clone());
        }
        Ok(finished)
    }
}

/// The searches of all tiers.
struct Tiers<'a, 's, 'r> {
    searches: Vec<Search<'a>>,
    endings: Vec<Option<Ending>>,
    /// Probes, requests and time so far, of all together.
    counted: (u32, u64, spec::Nanos),
    shared: &'s RefCell<Shared<'r>>,
}

impl Tiers<'_, '_, '_> {
    fn whole(&mut self, of_all: &Settings) -> Result<(), Halt> {
        self.ramp(of_all)?;
        for tier in 0..self.searches.len() {
            if self.searches[tier].unloaded_fails() {
                self.endings[tier] = self.turn(tier, |search| search.anywhere())?;
            }
        }
        let mut narrow = vec![false; self.searches.len()];
        while let Some(tier) = self.widest(&narrow) {
            match self.turn(tier, |search| search.step())? {
                // What was learned changes every bracket.
                Step::Probed => narrow.fill(false),
                Step::Narrow => narrow[tier] = true,
                Step::Ended(ending) => self.endings[tier] = Some(ending),
            }
        }
        for tier in 0..self.searches.len() {
            if self.endings[tier].is_none() {
                self.endings[tier] = Some(self.turn(tier, |search| search.checks())?);
            }
        }
        Ok(())
    }

    /// One ramp for all.
    fn ramp(&mut self, of_all: &Settings) -> Result<(), Halt> {
        let mut end = 0;
        let ranges: Vec<Range<usize>> = self
            .searches
            .iter()
            .map(|search| {
                let start = end;
                end += search.settings.criteria.len();
                start..end
            })
            .collect();
        let mut handle = Handle(self.shared);
        let mut asker = Asker::new(of_all, &mut handle);
        let climbed = Ramp::climb(&mut asker, &ranges);
        self.counted = (asker.number, asker.requests, asker.time);
        let notes = std::mem::take(&mut asker.notes);
        self.shared.borrow_mut().kept.clear();
        for search in &mut self.searches {
            search.asker.notes.clone_from(&notes);
        }
        let ramp = climbed?;
        for (search, range) in self.searches.iter_mut().zip(&ranges) {
            search.begin(ramp.of(range));
        }
        Ok(())
    }

    /// The tier that is under way and has the widest bracket.
    fn widest(&self, narrow: &[bool]) -> Option<usize> {
        let width = |tier: &usize| {
            let (low, high) = self.searches[*tier].bracket().ends();
            // Of nothing: infinitely wide.
            if low > 0.0 { high / low } else { f64::INFINITY }
        };
        let open = (0..self.searches.len()).filter(|tier| self.endings[*tier].is_none() && !narrow[*tier]);
        // Of equally wide ones the first.
        open.rev().max_by(|a, b| width(a).total_cmp(&width(b)))
    }

    /// Lets one tier act, and the others learn from its probes.
    fn turn<T>(
        &mut self,
        tier: usize,
        act: impl FnOnce(&mut Search<'_>) -> Result<T, Halt>,
    ) -> Result<T, Halt> {
        let search = &mut self.searches[tier];
        (search.asker.number, search.asker.requests, search.asker.time) = self.counted;
        let (before, noted) = (search.probes.len(), search.asker.notes.len());
        let done = act(search);
        self.counted = (search.asker.number, search.asker.requests, search.asker.time);
        let kept = std::mem::take(&mut self.shared.borrow_mut().kept);
        let made: Vec<(Kind, f64, u32)> =
            search.probes[before..].iter().map(|p| (p.kind, p.load, p.number)).collect();
        let (limit, notes) = (search.client_limit.clone(), search.asker.notes[noted..].to_vec());
        for (other, search) in self.searches.iter_mut().enumerate().filter(|(other, _)| *other != tier) {
            search.asker.notes.extend(notes.iter().cloned());
            if let Some((load, why)) = &limit {
                search.limit_client(*load, why.clone());
            }
            let told = made.iter().zip(&kept).filter(|_| self.endings[other].is_none());
            told.for_each(|(probe, finished)| search.learn(*probe, finished));
        }
        done
    }

    fn answers(mut self) -> Vec<CapacityAnswer> {
        let ended = self.searches.iter_mut().zip(&self.endings);
        ended
            .map(|(search, ending)| {
                (search.asker.number, search.asker.requests, search.asker.time) = self.counted;
                search.answer(ending.unwrap_or(Ending::Halted))
            })
            .collect()
    }
}

impl Search<'_> {
    /// Takes in a probe that was made for another tier.
    fn learn(&mut self, (kind, load, number): (Kind, f64, u32), finished: &Finished) {
        let probe = borrow(self.settings, &self.model, &self.rule(kind, load), load, number, finished);
        self.probes.push(probe);
        if matches!(kind, Kind::Main | Kind::Repeat) {
            self.refit();
            self.brackets.push((number, self.bracket().ends()));
        }
    }

    /// Whether a probe of another tier answers a check at this load already as it should be answered.
    pub(super) fn is_served(&self, kind: Kind, load: f64) -> bool {
        let agrees = |verdict: &ProbeVerdict| match kind {
            Kind::Below => *verdict == ProbeVerdict::Pass,
            _ => verdict.failed(),
        };
        let near = |at: f64| (at / load).ln().abs() < SERVES;
        self.probes.iter().any(|p| p.borrowed && near(p.load) && agrees(&p.verdict))
    }
}
