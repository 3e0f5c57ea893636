//! What LoadGen makes of the settings that a caller asks for.

use spec::Nanos;

use crate::Scenario;
use crate::settings::{Mode, TestSettings};

/// A data set as LoadGen sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleLibrary {
    /// Its name.
    pub name: String,
    /// All samples.
    pub total: u64,
    /// Samples that fit into memory at a time.
    pub performance: u64,
}

/// More samples than this in one run are refused: they would fill the memory before the first is sent.
pub const MAX_SAMPLES: u64 = 100_000_000;

/// The settings that a run goes by.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// How queries follow each other.
    pub scenario: Scenario,
    /// What the run is for.
    pub mode: Mode,
    /// Samples of one query.
    pub samples_per_query: u64,
    /// Queries (Offline: samples) per second.
    pub target_qps: f64,
    /// Server: the limit of the latency percentile; else 0.
    pub target_latency: Nanos,
    /// The percentile that is judged or reported, as a share.
    pub target_latency_percentile: f64,
    /// More queries than this at once end a Server run; 0 never. Elsewhere 1, and nothing goes by it.
    pub max_async_queries: u64,
    /// Queries are made for so long.
    pub target_duration: Nanos,
    /// The run must last so long to be valid.
    pub min_duration: Nanos,
    /// The run ends after so long; 0 never.
    pub max_duration: Nanos,
    /// Queries that must be issued.
    pub min_query_count: u64,
    /// The run ends after so many; 0 never.
    pub max_query_count: u64,
    /// Samples that must be completed.
    pub min_sample_count: u64,
    /// Samples that are loaded for a timed run.
    pub performance_sample_count: u64,
    /// Samples of an accuracy run.
    pub accuracy_sample_count: u64,
    /// Samples that the data set has.
    pub total_sample_count: u64,
    /// All that is taken over as it was asked for.
    pub asked: TestSettings,
}

impl Effective {
    /// From what was asked for and the data set.
    ///
    /// # Errors
    /// What LoadGen would log as an error, divide by or wait for without end.
    pub fn new(asked: &TestSettings, library: &SampleLibrary) -> Result<Self, String> {
        let asked = with_test05(asked);
        let or = |count: u64, other: u64| if count == 0 { other } else { count };
        let mut this = Self {
            scenario: asked.scenario,
            mode: asked.mode,
            samples_per_query: 1,
            target_qps: 1.0,
            target_latency: Nanos::ZERO,
            target_latency_percentile: 0.99,
            max_async_queries: 1,
            target_duration: millis(asked.min_duration_ms)?,
            min_duration: millis(asked.min_duration_ms)?,
            max_duration: millis(asked.max_duration_ms)?,
            min_query_count: asked.min_query_count,
            max_query_count: asked.max_query_count,
            min_sample_count: 0,
            performance_sample_count: or(asked.performance_sample_count_override, library.performance),
            accuracy_sample_count: or(asked.accuracy_sample_count_override, library.total),
            total_sample_count: library.total,
            asked,
        };
        this.scenario_settings();
        this.check(library)?;
        this.counts(library)?;
        Ok(this)
    }

    fn scenario_settings(&mut self) {
        let asked = &self.asked;
        match self.scenario {
            Scenario::SingleStream => {
                self.target_qps = 1e9 / asked.single_stream_expected_latency_ns;
                self.target_latency_percentile = asked.single_stream_target_latency_percentile;
            }
            Scenario::MultiStream => {
                self.target_qps = 1e9 / asked.multi_stream_expected_latency_ns;
                self.target_latency_percentile = asked.multi_stream_target_latency_percentile;
                self.samples_per_query = asked.multi_stream_samples_per_query;
            }
            Scenario::Server => {
                self.target_qps = asked.server_target_qps;
                self.target_latency = Nanos(asked.server_target_latency_ns);
                self.target_latency_percentile = asked.server_target_latency_percentile;
                self.max_async_queries = asked.server_max_async_queries;
            }
            Scenario::Offline => self.target_qps = asked.offline_expected_qps,
        }
    }

    fn counts(&mut self, library: &SampleLibrary) -> Result<(), String> {
        let made_in = |slack: f64, duration: Nanos| (slack * duration.as_secs_f64() * self.target_qps) as u64;
        let asked = &self.asked;
        if self.scenario == Scenario::Offline {
            self.samples_per_query = if asked.performance_issue_unique {
                self.performance_sample_count
            } else {
                self.min_query_count.max(made_in(1.1, self.target_duration))
            };
            self.min_query_count = 1;
            self.target_duration = Nanos::ZERO;
        }
        if self.scenario == Scenario::SingleStream && asked.sample_concatenate_permutation {
            // Up to the next multiple of what the data set says it can load, and one more if it is one.
            let count = self.min_query_count.max(made_in(2.0, self.target_duration));
            let more = library.performance - count % library.performance;
            self.min_query_count = count.saturating_add(more);
        }
        let made = match self.scenario {
            Scenario::Server => made_in(1.0, self.target_duration),
            _ => made_in(2.0, self.target_duration),
        };
        if self.samples_per_query == 0 || self.min_query_count.max(made) == 0 {
            return Err("these settings make no query: raise min_query_count or min_duration".to_owned());
        }
        self.min_sample_count = self.min_query_count.saturating_mul(self.samples_per_query);
        if self.min_query_count.max(made).saturating_mul(self.samples_per_query) > MAX_SAMPLES {
            return Err(format!(
                "these settings make more than {MAX_SAMPLES} samples: lower the expected rate (raise the \
                 expected latency), min_duration or min_query_count"
            ));
        }
        Ok(())
    }

    fn check(&self, library: &SampleLibrary) -> Result<(), String> {
        let asked = &self.asked;
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let percentile = self.target_latency_percentile;
        let wrong = if library.total == 0 || library.performance == 0 || self.performance_sample_count == 0 {
            "the data set has no samples".to_owned()
        } else if library.total.max(self.samples_per_query) > MAX_SAMPLES {
            format!("more than {MAX_SAMPLES} samples in the data set or in a query")
        } else if !positive(self.target_qps) {
            format!("the expected rate or latency must be above 0: {} queries per second", self.target_qps)
        } else if !(percentile > 0.0 && percentile < 1.0) {
            format!("the percentile must be above 0 and below 100: {}", percentile * 100.0)
        } else if self.samples_per_query == 0 {
            "samples_per_query must be at least 1".to_owned()
        } else if asked.performance_issue_unique && asked.performance_issue_same {
            "performance_issue_unique and performance_issue_same exclude each other: take one out".to_owned()
        } else if asked.performance_issue_same
            && asked.performance_issue_same_index >= self.performance_sample_count.min(library.total)
        {
            format!(
                "performance_issue_same_index {} is not below the {} samples that are loaded",
                asked.performance_issue_same_index,
                self.performance_sample_count.min(library.total)
            )
        } else if asked.performance_issue_unique && self.performance_sample_count > library.total {
            "performance_issue_unique needs a data set of performance_sample_count samples".to_owned()
        } else if asked.performance_issue_unique
            && asked.sample_concatenate_permutation
            && self.samples_per_query > 1
        {
            // LoadGen ends in an exception: it wants more queries than there are.
            "performance_issue_unique and sample_concatenate_permutation exclude each other in MultiStream: take \
             one out"
                .to_owned()
        } else {
            return Ok(());
        };
        Err(wrong)
    }

    /// The share of answers that the accuracy log of a timed run keeps.
    pub fn accuracy_log_share(&self) -> f64 {
        let target = self.asked.accuracy_log_sampling_target;
        if target == 0 {
            return self.asked.accuracy_log_probability;
        }
        let least = self.min_sample_count;
        let made = (self.target_qps * (self.min_duration.0 / 1_000_000) as f64 / 1000.0) as u64;
        let made = if self.scenario == Scenario::Offline { made } else { made * self.samples_per_query };
        target as f64 / made.max(least) as f64
    }
}

fn millis(ms: u64) -> Result<Nanos, String> {
    let most = u64::MAX / 4_000_000;
    if ms > most {
        return Err(format!("{ms} ms is too long: at most {most} ms"));
    }
    Ok(Nanos::from_millis(ms))
}

/// The test of other seeds, which LoadGen knows as TEST05.
fn with_test05(asked: &TestSettings) -> TestSettings {
    let mut settings = asked.clone();
    if asked.test05 {
        settings.mode = Mode::PerformanceOnly;
        settings.qsl_rng_seed = asked.test05_qsl_rng_seed;
        settings.sample_index_rng_seed = asked.test05_sample_index_rng_seed;
        settings.schedule_rng_seed = asked.test05_schedule_rng_seed;
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library() -> SampleLibrary {
        SampleLibrary { name: "d".into(), total: 64, performance: 32 }
    }

    #[test]
    fn counts_by_hand() {
        let mut asked = TestSettings { scenario: Scenario::Offline, ..TestSettings::default() };
        asked.offline_expected_qps = 40.0;
        // 1.1 × 10 s × 40 per second, in one query.
        let offline = Effective::new(&asked, &library()).expect("settings");
        assert_eq!(
            (offline.samples_per_query, offline.min_query_count, offline.min_sample_count),
            (440, 1, 440)
        );
        assert_eq!((offline.target_duration, offline.min_duration), (Nanos::ZERO, Nanos::from_secs(10)));
        // A multiple of the 32 that are loaded, and a whole epoch on top.
        asked = TestSettings {
            sample_concatenate_permutation: true,
            min_duration_ms: 0,
            ..TestSettings::default()
        };
        asked.min_query_count = 64;
        assert_eq!(Effective::new(&asked, &library()).expect("settings").min_query_count, 96);
    }

    #[test]
    fn settings_that_would_hang_or_divide_by_nothing_are_refused() {
        let refused = |change: fn(&mut TestSettings), words: &str| {
            let mut asked = TestSettings { scenario: Scenario::Server, ..TestSettings::default() };
            change(&mut asked);
            let error = Effective::new(&asked, &library()).expect_err(words);
            assert!(error.contains(words), "{error}");
        };
        refused(|s| s.server_target_qps = 0.0, "above 0");
        refused(|s| s.server_target_qps = f64::NAN, "above 0");
        refused(|s| s.server_target_latency_percentile = 1.0, "below 100");
        refused(|s| s.min_query_count = u64::MAX, "more than");
        refused(|s| s.min_duration_ms = u64::MAX, "too long");
        refused(|s| (s.min_duration_ms, s.min_query_count) = (0, 0), "no query");
        refused(
            |s| (s.scenario, s.multi_stream_samples_per_query) = (Scenario::MultiStream, u64::MAX),
            "in a query",
        );
        refused(
            |s| {
                (s.scenario, s.sample_concatenate_permutation) = (Scenario::SingleStream, true);
                s.min_query_count = u64::MAX;
            },
            "more than",
        );
        refused(
            |s| {
                s.performance_issue_same = true;
                s.performance_issue_same_index = 32;
            },
            "not below the 32",
        );
        let none = SampleLibrary { total: 0, ..library() };
        assert!(Effective::new(&TestSettings::default(), &none).is_err());
    }
}
