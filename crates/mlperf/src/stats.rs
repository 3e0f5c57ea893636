//! LoadGen's statistics, in whole nanoseconds.
//!
//! A percentile is `sorted[trunc(n·p)]`, a mean the sum over `n` without its fraction. LoadGen knows no
//! request that fails: it waits without end. Here a sample without an answer stands above every other
//! latency, so that it never improves a number; what rests on it is not defined.

use spec::Nanos;

use crate::Scenario;
use crate::effective::Effective;

/// The percentiles of the logs.
pub const PERCENTILES: [f64; 6] = [0.5, 0.9, 0.95, 0.97, 0.99, 0.999];

/// One sample as it went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sample {
    /// Which query it was part of, from 0 on; samples stand in the order of queries.
    pub query: u64,
    /// Which sample of the data set.
    pub index: u32,
    /// When it was due, from the start of the run. Where the next waits for an answer: when it went out.
    pub scheduled: Nanos,
    /// How long after that it went out.
    pub issue_delay: Nanos,
    /// From due to complete; `None`: it failed, or time ran out.
    pub latency: Option<Nanos>,
    /// From due to the first token.
    pub first_token: Option<Nanos>,
    /// Tokens of the answer.
    pub tokens: Option<u64>,
}

/// What to do with an answer of one token or none, which has no time per output token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShortAnswers {
    /// It counts in no time per output token.
    #[default]
    Exclude,
    /// LoadGen takes 0 tokens and divides by −1: a negative time.
    LikeLoadGen,
}

/// What stands above every latency: no answer.
const NEVER: i64 = i64::MAX;

/// Order statistics of some latencies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spread {
    /// The smallest.
    pub min: Option<i64>,
    /// The largest; `None` if one never came.
    pub max: Option<i64>,
    /// The mean; `None` if one never came.
    pub mean: Option<i64>,
    /// At [`PERCENTILES`].
    pub percentiles: [Option<i64>; 6],
    /// At the percentile of the settings.
    pub target: Option<i64>,
    sorted: Vec<i64>,
}

impl Spread {
    fn new(mut values: Vec<i64>, target: f64) -> Self {
        values.sort_unstable();
        let came = |value: &i64| (*value != NEVER).then_some(*value);
        let at = |p: f64| {
            let place = (values.len() as f64 * p) as usize;
            values.get(place.min(values.len().saturating_sub(1))).and_then(came)
        };
        let all_came = values.last().is_some_and(|last| *last != NEVER);
        // As LoadGen: a signed sum over an unsigned count.
        let sum = values.iter().fold(0_i64, |sum, value| sum.wrapping_add(*value));
        let mean = all_came.then(|| (sum as u64 / values.len() as u64) as i64);
        Self {
            min: values.first().and_then(came),
            max: values.last().and_then(came),
            mean,
            percentiles: PERCENTILES.map(at),
            target: at(target),
            sorted: values,
        }
    }

    /// How many are above `limit`, those that never came among them.
    pub fn over(&self, limit: u64) -> u64 {
        let limit = i64::try_from(limit).unwrap_or(NEVER - 1);
        (self.sorted.len() - self.sorted.partition_point(|value| *value <= limit)) as u64
    }

    /// The `rank`th largest, from 1 on.
    pub fn largest(&self, rank: u64) -> Option<i64> {
        let place = self.sorted.len().checked_sub(usize::try_from(rank).ok()?)?;
        self.sorted.get(place).copied().filter(|value| *value != NEVER)
    }
}

/// The statistics of a timed run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Results {
    /// Queries that went out.
    pub queries_issued: u64,
    /// Samples that went out.
    pub samples_issued: u64,
    /// Samples that were answered.
    pub completed: u64,
    /// Latencies of samples.
    pub latency: Spread,
    /// MultiStream: latencies of queries, each that of its slowest sample.
    pub query_latency: Option<Spread>,
    /// Times to first token, where tokens are timed.
    pub first_token: Option<Spread>,
    /// Times per output token, where tokens are timed.
    pub per_token: Option<Spread>,
    /// Tokens of all answers.
    pub tokens: u64,
    /// Answers of one token or none.
    pub short_answers: u64,
    /// Server: samples over the limit of the latency.
    pub over_latency: Option<u64>,
    /// When the last query that went out was due, s from the start.
    pub last_scheduled_s: f64,
    /// When it went out.
    pub last_issued_s: f64,
    /// When its last sample was complete; `None` if one never was.
    pub last_done_s: Option<f64>,
    /// The longest latency of a sample that was answered, s.
    pub max_latency_s: f64,
    /// When the last of all answers was complete, from the start.
    pub ended: Nanos,
}

impl Results {
    /// Of the samples that went out, in the order of their queries.
    pub fn new(effective: &Effective, samples: &[Sample], short: ShortAnswers) -> Self {
        let target = effective.target_latency_percentile;
        let whole = |ns: Nanos| i64::try_from(ns.0).unwrap_or(NEVER - 1);
        let or_never = |ns: Option<Nanos>| ns.map_or(NEVER, whole);
        let latency = Spread::new(samples.iter().map(|s| or_never(s.latency)).collect(), target);
        let queries: Vec<&[Sample]> = samples.chunk_by(|a, b| a.query == b.query).collect();
        let slowest = |query: &&[Sample]| query.iter().map(|s| or_never(s.latency)).max().unwrap_or(NEVER);
        let multi = effective.scenario == Scenario::MultiStream;
        let done = |s: &Sample| s.latency.map(|latency| s.scheduled + latency);
        let last = queries.last().copied().unwrap_or_default();
        let mut this = Self {
            queries_issued: queries.len() as u64,
            samples_issued: samples.len() as u64,
            completed: samples.iter().filter(|s| s.latency.is_some()).count() as u64,
            query_latency: multi.then(|| Spread::new(queries.iter().map(slowest).collect(), target)),
            last_scheduled_s: last.first().map_or(0.0, |s| s.scheduled.as_secs_f64()),
            last_issued_s: last.first().map_or(0.0, |s| (s.scheduled + s.issue_delay).as_secs_f64()),
            last_done_s: last
                .iter()
                .map(done)
                .min()
                .flatten()
                .and_then(|_| last.iter().filter_map(done).max().map(Nanos::as_secs_f64)),
            max_latency_s: samples.iter().filter_map(|s| s.latency).max().unwrap_or_default().as_secs_f64(),
            ended: samples.iter().filter_map(done).max().unwrap_or_default(),
            latency,
            ..Self::default()
        };
        if effective.scenario == Scenario::Server {
            this.over_latency = Some(this.latency.over(effective.target_latency.0));
        }
        if effective.asked.use_token_latencies {
            this.count_tokens(samples, effective, short);
        }
        this
    }

    fn count_tokens(&mut self, samples: &[Sample], effective: &Effective, short: ShortAnswers) {
        let target = effective.target_latency_percentile;
        let answered = samples.iter().filter(|s| s.latency.is_some());
        let (many, few): (Vec<&Sample>, Vec<&Sample>) = answered.partition(|s| s.tokens.unwrap_or(0) > 1);
        self.short_answers = few.len() as u64;
        self.tokens = many.iter().filter_map(|s| s.tokens).sum();
        if short == ShortAnswers::Exclude {
            self.tokens += few.iter().filter_map(|s| s.tokens).sum::<u64>();
        }
        if effective.scenario == Scenario::Offline {
            return;
        }
        let signed = |ns: Option<Nanos>| ns.map_or(NEVER, |ns| ns.0 as i64);
        self.first_token = Some(Spread::new(samples.iter().map(|s| signed(s.first_token)).collect(), target));
        let per_token = |s: &Sample| {
            let (Some(latency), Some(first)) = (s.latency, s.first_token) else { return Some(NEVER) };
            let tokens = s.tokens.unwrap_or(0);
            let gaps = match short {
                _ if tokens > 1 => tokens as i64 - 1,
                ShortAnswers::Exclude => return None,
                ShortAnswers::LikeLoadGen => -1,
            };
            Some((latency.0 as i64 - first.0 as i64) / gaps)
        };
        self.per_token = Some(Spread::new(samples.iter().filter_map(per_token).collect(), target));
    }

    /// SingleStream: samples per second, LoadGen's own work counted in.
    pub fn qps_with_overhead(&self) -> Option<f64> {
        ratio(self.completed.checked_sub(1)? as f64, self.last_issued_s)
    }

    /// SingleStream: the inverse of the mean latency.
    pub fn qps_without_overhead(&self) -> Option<f64> {
        ratio(1.0, self.latency.mean? as f64 / 1e9)
    }

    /// Server: samples per second as they were due.
    pub fn scheduled_per_s(&self) -> Option<f64> {
        ratio(self.samples_issued.checked_sub(1)? as f64, self.last_scheduled_s)
    }

    /// Server: samples per second as they were completed, up to the end of the last query that went out.
    pub fn completed_per_s(&self) -> Option<f64> {
        ratio(self.completed.checked_sub(1)? as f64, self.last_done_s?)
    }

    /// Offline: samples per second.
    pub fn offline_per_s(&self) -> Option<f64> {
        ratio(self.completed as f64, self.max_latency_s)
    }

    /// Tokens over a time in seconds.
    pub fn tokens_per(&self, seconds: f64) -> Option<f64> {
        ratio(self.tokens as f64, seconds)
    }
}

/// LoadGen divides by zero where nothing took time; here such a rate is not defined.
pub(crate) fn ratio(count: f64, seconds: f64) -> Option<f64> {
    Some(count / seconds).filter(|rate| rate.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SampleLibrary, TestSettings};

    fn effective(tokens: bool) -> Effective {
        let asked = TestSettings {
            scenario: Scenario::Server,
            use_token_latencies: tokens,
            server_target_latency_ns: 20,
            ..TestSettings::default()
        };
        let library = SampleLibrary { name: "d".into(), total: 4, performance: 4 };
        Effective::new(&asked, &library).expect("settings")
    }

    fn sample(query: u64, latency: Option<u64>) -> Sample {
        Sample { query, scheduled: Nanos(query * 100), latency: latency.map(Nanos), ..Sample::default() }
    }

    #[test]
    fn percentiles_and_means_by_hand() {
        let samples: Vec<Sample> = (0..10).map(|i| sample(i, Some(10 + i))).collect();
        let got = Results::new(&effective(false), &samples, ShortAnswers::Exclude);
        // trunc(10 × 0.9) = 9, trunc(10 × 0.5) = 5; 145 / 10 without its fraction.
        assert_eq!(got.latency.percentiles[..2], [Some(15), Some(19)]);
        assert_eq!((got.latency.mean, got.latency.min, got.latency.max), (Some(14), Some(10), Some(19)));
        assert_eq!((got.over_latency, got.latency.over(18), got.latency.largest(2)), (Some(0), 1, Some(18)));
        assert_eq!(got.last_done_s, Some(919e-9));
    }

    #[test]
    fn a_failure_never_improves_a_number() {
        let mut samples: Vec<Sample> = (0..9).map(|i| sample(i, Some(10))).collect();
        let before = Results::new(&effective(false), &samples, ShortAnswers::Exclude);
        samples.push(sample(9, None));
        let got = Results::new(&effective(false), &samples, ShortAnswers::Exclude);
        assert_eq!((got.latency.percentiles[0], got.latency.percentiles[1]), (Some(10), None));
        assert_eq!((got.latency.mean, got.latency.max, got.latency.largest(1)), (None, None, None));
        assert_eq!((got.over_latency, got.completed, before.completed), (Some(1), 9, 9));
        // The last query never ended: no rate.
        assert_eq!((got.completed_per_s(), before.completed_per_s().is_some()), (None, true));
        let nothing = Results::new(&effective(true), &[], ShortAnswers::Exclude);
        assert_eq!((nothing.latency.min, nothing.scheduled_per_s(), nothing.last_done_s), (None, None, None));
    }

    #[test]
    fn a_short_answer_is_excluded_or_divided_by_minus_one() {
        let mut samples = vec![sample(0, Some(100)), sample(1, Some(50))];
        (samples[0].first_token, samples[0].tokens) = (Some(Nanos(40)), Some(5));
        (samples[1].first_token, samples[1].tokens) = (Some(Nanos(40)), Some(1));
        let per_token =
            |short| Results::new(&effective(true), &samples, short).per_token.expect("timed").sorted;
        assert_eq!(per_token(ShortAnswers::Exclude), [15]);
        assert_eq!(per_token(ShortAnswers::LikeLoadGen), [-10, 15]);
        let got = Results::new(&effective(true), &samples, ShortAnswers::Exclude);
        assert_eq!((got.tokens, got.short_answers), (6, 1));
    }
}
