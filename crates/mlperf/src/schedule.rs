//! Which sample goes out when.

use spec::Nanos;

use crate::draw::Draws;

/// How queries follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scenario {
    /// The next one after the answer before; moments are nominal, this far apart.
    SingleStream {
        /// Expected latency.
        every: Nanos,
    },
    /// Poisson arrivals.
    Server {
        /// Queries per second.
        target_qps: f64,
    },
    /// All samples in one query.
    Offline {
        /// Samples per second that are expected.
        expected_qps: f64,
    },
}

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Timed.
    Performance,
    /// Every sample once.
    Accuracy,
}

/// LoadGen's three seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seeds {
    /// Of the loaded set.
    pub qsl: u64,
    /// Of the order of samples.
    pub sample_index: u64,
    /// Of arrivals.
    pub schedule: u64,
}

/// What decides a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How queries follow each other.
    pub scenario: Scenario,
    /// What the run is for.
    pub mode: Mode,
    /// Queries go on for at least so long.
    pub min_duration: Nanos,
    /// And there are at least so many.
    pub min_queries: u64,
    /// Every sample as often as any other: `sample_concatenate_permutation`.
    pub equal_issue: bool,
    /// Samples of the data set.
    pub total: u32,
    /// Samples that are loaded at a time.
    pub performance_count: u32,
    /// The seeds.
    pub seeds: Seeds,
}

/// Which sample goes out when.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// The loaded set in its order.
    pub loaded: Vec<u32>,
    /// When each query is due, from the first.
    pub at: Vec<Nanos>,
    /// Samples, query after query; each query has as many.
    pub samples: Vec<u32>,
    /// When one more query would be due: one number that checks all moments.
    pub duration: Nanos,
}

impl Settings {
    /// The schedule.
    pub fn schedule(&self) -> Schedule {
        let loaded = self.loaded_set();
        let size = loaded.len() as u32;
        let mut index = Draws::new(self.seeds.sample_index);
        let accuracy = self.mode == Mode::Accuracy;
        let fresh = || (0..size).collect::<Vec<u32>>();
        let (mut once, mut unique, mut turns) = (fresh(), fresh(), fresh());
        if accuracy {
            index.shuffle(&mut once);
        }
        // Drawn in every mode, used or not: what follows depends on it.
        index.shuffle(&mut unique);
        let offline = matches!(self.scenario, Scenario::Offline { .. });
        let least = match (accuracy, offline) {
            (true, _) => u64::from(size),
            (false, true) => 1,
            (false, false) => self.min_queries,
        };
        let mut equal = Vec::new();
        for _ in 0..least.div_ceil(u64::from(size.max(1))) {
            index.shuffle(&mut turns);
            equal.extend_from_slice(&turns);
        }
        if let Scenario::Offline { expected_qps } = self.scenario {
            return self.offline(loaded, expected_qps, index);
        }
        let mut clock = Draws::new(self.seeds.schedule);
        let mut gap = || match self.scenario {
            Scenario::Server { target_qps } => Nanos(clock.exponential_ns(target_qps)),
            Scenario::SingleStream { every } => every,
            Scenario::Offline { .. } => Nanos::ZERO,
        };
        let until = match (accuracy, self.scenario) {
            (true, _) => Nanos::ZERO,
            (false, Scenario::Server { .. }) => self.min_duration,
            (false, _) => self.min_duration + self.min_duration,
        };
        let epoch = u64::from(size.max(1));
        let mut wanted = if self.equal_issue && !accuracy { least.next_multiple_of(epoch) } else { least };
        let (mut at, mut samples) = (Vec::new(), Vec::new());
        let (mut due, mut before) = (Nanos::ZERO, Nanos::ZERO);
        while before < until || (at.len() as u64) < wanted {
            let k = at.len();
            let drawn = if accuracy {
                once[k % once.len()]
            } else if self.equal_issue {
                equal[k % equal.len()]
            } else {
                index.below(size)
            };
            samples.push(loaded[drawn as usize]);
            at.push(due);
            before = due;
            due += gap();
            // Whole epochs only.
            if self.equal_issue && !accuracy && at.len() as u64 == wanted && before < until {
                wanted += epoch;
            }
        }
        Schedule { loaded, at, samples, duration: due }
    }

    fn loaded_set(&self) -> Vec<u32> {
        let count = match self.mode {
            Mode::Performance => self.performance_count,
            Mode::Accuracy => self.total,
        };
        let mut set: Vec<u32> = (0..count.min(self.total)).collect();
        Draws::new(self.seeds.qsl).shuffle(&mut set);
        set
    }

    /// One query with the whole set again and again; nothing is drawn but the order of each turn.
    fn offline(&self, loaded: Vec<u32>, expected_qps: f64, mut index: Draws) -> Schedule {
        let asked = (1.1 * self.min_duration.as_secs_f64() * expected_qps) as u64;
        let epoch = loaded.len() as u64;
        let count = match self.mode {
            Mode::Accuracy => epoch,
            Mode::Performance if self.equal_issue => {
                self.min_queries.max(asked).next_multiple_of(epoch.max(1))
            }
            Mode::Performance => self.min_queries.max(asked),
        };
        let mut samples = Vec::with_capacity(count as usize);
        while (samples.len() as u64) < count && !loaded.is_empty() {
            let mut turn = loaded.clone();
            if self.equal_issue && self.mode == Mode::Performance {
                index.shuffle(&mut turn);
            }
            turn.truncate((count as usize) - samples.len());
            samples.extend(turn);
        }
        Schedule { loaded, at: vec![Nanos::ZERO], samples, duration: Nanos::ZERO }
    }
}
