//! Tiers: searched together, each is answered as it would be alone, for less.

use decide::capacity::{
    Ask, CapacityAnswer, Finished, Halt, Kind, Look, Next, Recorded, Replay, Runner, Settings, Verdict,
    search, search_tiers,
};

use super::least;
use super::row;
use super::rows::Row;
use super::table::{holds, sound};

/// Rows that differ in their limits alone, as tiers of one search.
fn tiers(rows: &[&Row], seed: u64) -> Vec<CapacityAnswer> {
    let settings: Vec<Settings> = rows.iter().map(|row| row.settings(seed)).collect();
    let answers = search_tiers(&settings, &mut rows[0].runner(), &mut |_, _| {});
    assert_eq!(answers.len(), rows.len());
    answers.iter().for_each(sound);
    answers
}

/// Probes of all searches together, the ramp of each as one.
fn probes(answers: &[CapacityAnswer]) -> usize {
    answers.iter().map(|a| 1 + a.probes.iter().filter(|p| !p.borrowed).count()).sum()
}

/// How many brackets hold the truth, and probes of tiers and of single searches, over seeds.
fn compared(names: &[&str], seeds: std::ops::Range<u64>, singles: u64) -> (u64, usize, usize) {
    let rows: Vec<&Row> = names.iter().map(|name| row(name)).collect();
    let (mut held, mut together, mut apart) = (0, 0, 0);
    let compared = seeds.start..seeds.start + singles;
    for seed in seeds {
        let answers = tiers(&rows, seed);
        held += rows.iter().zip(&answers).filter(|(row, a)| holds(a, row.truth.unwrap())).count() as u64;
        // Every tier has seen what was made for the others while its own search went on.
        assert!(answers.iter().any(|a| a.probes.iter().any(|p| p.borrowed)));
        if compared.contains(&seed) {
            // The ramp is one.
            together += probes(&answers) + 1 - answers.len();
            let alone = rows.iter().map(|row| search(&row.settings(seed), &mut row.runner(), &mut |_| {}));
            apart += probes(&alone.collect::<Vec<_>>());
        }
    }
    (held, together, apart)
}

#[test]
fn tiers_of_a_queue_are_answered_as_if_alone_for_less() {
    let names = ["others: fifo, p90", "fifo, Poisson, p95"];
    let (held, together, apart) = compared(&names, 8_000..8_024, 4);
    assert!(held >= least(48, 0.92), "{held} of 48 brackets hold the truth");
    assert!(together < apart, "{together} probes against {apart}");
}

// Twenty seeds on a batching engine, ten of each load: an engine that steps through every token costs half a second for
// each search.

#[test]
fn tiers_of_a_batching_engine_are_answered_as_if_alone_for_less() {
    let names = ["batching, Poisson, joint", "batching, Poisson, p95"];
    let (held, together, apart) = compared(&names, 8_100..8_110, 1);
    assert!(held >= least(20, 0.92), "{held} of 20 brackets hold the truth");
    assert!(together < apart, "{together} probes against {apart}");
}

#[test]
fn tiers_of_users_of_a_batching_engine_are_answered_as_if_alone_for_less() {
    let names = ["batching, closed, joint", "batching, closed, p95"];
    let (held, together, apart) = compared(&names, 8_200..8_210, 1);
    assert!(held >= least(20, 0.92), "{held} of 20 brackets hold the truth");
    assert!(together < apart, "{together} probes against {apart}");
}

/// A tier that no load satisfies ends as such and takes nothing from the other.
#[test]
fn a_tier_that_cannot_be_met_leaves_the_others_alone() {
    let rows = [row("others: a limit below the service time"), row("fifo, Poisson, p95")];
    for seed in 0..4 {
        let answers = tiers(&rows, seed);
        assert_eq!(answers[0].verdict, Verdict::Unmet, "{}", answers[0].sentence);
        assert_eq!(answers[1].verdict, Verdict::Resolved, "{}", answers[1].sentence);
        assert!(answers[1].low.is_some_and(|low| low > 37.0), "{}", answers[1].sentence);
    }
}

/// Keeps what it ran, and dies after so many probes.
struct Dying<R> {
    inner: R,
    kept: Vec<Recorded>,
    after: u32,
}

impl<R: Runner> Runner for Dying<R> {
    fn probe(&mut self, ask: &Ask, look: &mut dyn FnMut(Look<'_>) -> Next) -> Result<Finished, Halt> {
        if ask.number >= self.after {
            return Err(Halt::TargetDied("connection refused".to_owned()));
        }
        let finished = self.inner.probe(ask, look)?;
        self.kept.push(Recorded { ask: ask.clone(), finished: finished.clone() });
        Ok(finished)
    }
}

#[test]
fn a_search_of_tiers_goes_on_from_recorded_probes() {
    let rows = [row("others: fifo, p90"), row("fifo, Poisson, p95")];
    let settings: Vec<Settings> = rows.iter().map(|row| row.settings(3)).collect();
    let whole = tiers(&rows, 3);
    let mut all = Dying { inner: rows[0].runner(), kept: Vec::new(), after: u32::MAX };
    assert_eq!(search_tiers(&settings, &mut all, &mut |_, _| {}), whole);
    let count = all.kept.len() as u32;
    for after in [2, count / 2] {
        let mut dying = Dying { inner: rows[0].runner(), kept: Vec::new(), after };
        let cut = search_tiers(&settings, &mut dying, &mut |_, _| {});
        assert!(cut.iter().any(|a| a.verdict == Verdict::Unresolved), "cut at {after}");
        assert!(cut.iter().any(|a| a.notes.iter().any(|n| n.contains("refused"))), "cut at {after}");
        let mut live = rows[0].runner();
        let mut replay = Replay::new(dying.kept, Some(&mut live));
        assert_eq!(search_tiers(&settings, &mut replay, &mut |_, _| {}), whole, "cut at {after}");
    }
}

/// Whoever listens hears of each probe once, from the tier that it was made for.
#[test]
fn each_probe_is_told_once() {
    let rows = [row("others: fifo, p90"), row("fifo, Poisson, p95")];
    let settings: Vec<Settings> = rows.iter().map(|row| row.settings(5)).collect();
    let mut told = Vec::new();
    let answers = search_tiers(&settings, &mut rows[0].runner(), &mut |tier, so_far| {
        let last = so_far.probes.last().unwrap();
        assert!(!last.borrowed);
        told.push((last.number, tier));
    });
    assert!(told.windows(2).all(|two| two[0].0 < two[1].0), "{told:?}");
    let own =
        |tier: usize| answers[tier].probes.iter().filter(|p| !p.borrowed).map(move |p| (p.number, tier));
    let mut all: Vec<(u32, usize)> = own(0).chain(own(1)).collect();
    all.sort_unstable();
    assert_eq!(told, all);
    let kinds = [Kind::Warm, Kind::Ramp];
    assert!(answers.iter().flat_map(|a| &a.probes).all(|p| !kinds.contains(&p.kind)));
}
