//! Which sample goes out when.

use spec::Nanos;

use crate::Scenario;
use crate::draw::Draws;
use crate::effective::Effective;

/// Which sample goes out when.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// The loaded set in its order; in MultiStream its first samples again at its end.
    pub loaded: Vec<u32>,
    /// When each query is due, from the first. Nominal where the next one waits for an answer.
    pub at: Vec<Nanos>,
    /// Samples, query after query.
    pub samples: Vec<u32>,
    /// Samples of each query.
    pub samples_per_query: usize,
    /// When one more query would be due: one number that checks all moments.
    pub duration: Nanos,
}

/// A loaded set and how many of its places can be drawn.
struct LoadedSet {
    samples: Vec<u32>,
    drawable: u32,
}

impl Effective {
    /// The schedule of a timed run.
    pub fn performance(&self) -> Schedule {
        let mut sets = self.loaded_sets(self.performance_sample_count);
        self.queries(sets.swap_remove(0), false)
    }

    /// The schedules of an accuracy run, one for each set that is loaded.
    pub fn accuracy(&self) -> Vec<Schedule> {
        let sets = self.loaded_sets(self.accuracy_sample_count);
        sets.into_iter().map(|set| self.queries(set, true)).collect()
    }

    fn loaded_sets(&self, count: u64) -> Vec<LoadedSet> {
        let mut all: Vec<u32> = (0..count.min(self.total_sample_count) as u32).collect();
        Draws::new(self.asked.qsl_rng_seed).shuffle(&mut all);
        let padding = match self.scenario {
            Scenario::MultiStream => self.samples_per_query - 1,
            _ => 0,
        };
        all.chunks(self.performance_sample_count.max(1) as usize)
            .map(|set| {
                let samples = set.iter().cycle().take(set.len() + padding as usize).copied().collect();
                LoadedSet { samples, drawable: set.len() as u32 }
            })
            .collect()
    }

    fn queries(&self, set: LoadedSet, accuracy: bool) -> Schedule {
        let asked = &self.asked;
        let LoadedSet { samples: loaded, drawable } = set;
        let epoch = loaded.len() as u64;
        let offline = self.scenario == Scenario::Offline;
        let per_query = if accuracy && offline { u64::from(drawable) } else { self.samples_per_query };
        let whole_set = accuracy || asked.performance_issue_unique;
        let mut wanted = if whole_set { epoch / per_query } else { self.min_query_count };
        let until = match (whole_set, self.scenario) {
            (true, _) => Nanos::ZERO,
            (false, Scenario::Server) => self.target_duration,
            (false, _) => self.target_duration + self.target_duration,
        };
        let mut index = Draws::new(asked.sample_index_rng_seed);
        let stride = if self.scenario == Scenario::MultiStream { per_query as usize } else { 1 };
        let fresh = || (0..drawable).step_by(stride).collect::<Vec<u32>>();
        let (mut once, mut unique) = (fresh(), fresh());
        if accuracy {
            index.shuffle(&mut once);
        }
        // Drawn in every mode, used or not: what follows depends on it.
        index.shuffle(&mut unique);
        let mut turns: Vec<u32> = (0..epoch as u32).collect();
        let mut equal = Vec::new();
        for _ in 0..wanted.div_ceil(epoch) {
            index.shuffle(&mut turns);
            equal.extend_from_slice(&turns);
        }
        let mut gap = self.gaps();
        if offline {
            return Schedule { duration: gap(), ..self.one_query(loaded, per_query, accuracy, index) };
        }
        let equal_issue = asked.sample_concatenate_permutation;
        if equal_issue && !accuracy {
            wanted = wanted.next_multiple_of(epoch);
        }
        let multi = self.scenario == Scenario::MultiStream;
        let (mut at, mut samples): (Vec<Nanos>, Vec<u32>) = (Vec::new(), Vec::new());
        let (mut due, mut before) = (Nanos::ZERO, Nanos::ZERO);
        while before < until || (at.len() as u64) < wanted {
            let k = at.len();
            let drawn = if asked.performance_issue_unique {
                unique[k % unique.len()]
            } else if asked.performance_issue_same {
                asked.performance_issue_same_index as u32
            } else if equal_issue && !multi {
                equal[k % equal.len()]
            } else if accuracy {
                once[k % once.len()]
            } else {
                index.below(drawable)
            } % drawable;
            samples.extend_from_slice(&loaded[drawn as usize..][..per_query as usize]);
            at.push(due);
            before = due;
            due += gap();
            // Whole epochs only.
            if equal_issue && at.len() as u64 >= wanted && before < until {
                wanted += epoch;
            }
        }
        Schedule { loaded, at, samples, samples_per_query: per_query as usize, duration: due }
    }

    fn gaps(&self) -> impl FnMut() -> Nanos {
        let rate = self.target_qps;
        let mut clock = (self.scenario == Scenario::Server).then(|| Draws::new(self.asked.schedule_rng_seed));
        let nominal = Nanos(((1.0 / rate) * 1e9) as u64);
        move || clock.as_mut().map_or(nominal, |clock| Nanos(clock.exponential_ns(rate)))
    }

    /// One query with the whole set again and again; nothing is drawn but the order of each turn.
    fn one_query(&self, loaded: Vec<u32>, per_query: u64, accuracy: bool, mut index: Draws) -> Schedule {
        let permuted = self.asked.sample_concatenate_permutation;
        let epoch = loaded.len();
        let mut count = per_query as usize;
        if permuted && !accuracy {
            count = count.next_multiple_of(epoch);
        }
        let mut samples = Vec::with_capacity(count);
        if self.asked.performance_issue_same {
            samples.resize(count, loaded[self.asked.performance_issue_same_index as usize % epoch]);
        }
        while samples.len() < count {
            let mut turn = loaded.clone();
            if permuted {
                index.shuffle(&mut turn);
            }
            turn.truncate(count - samples.len());
            samples.extend(turn);
        }
        let duration = Nanos::ZERO;
        Schedule { loaded, at: vec![Nanos::ZERO], samples, samples_per_query: count, duration }
    }
}
