//! One number of many items, and its standard error.

use super::metric::Aggregation;
use super::port::Score;
use crate::python::Random;

/// Replicates that share one generator.
const CHUNK: u32 = 1000;

/// Numbers of what items gave, in the shape that an aggregation wants.
enum Column {
    Numbers(Vec<f64>),
    /// Log-prob and units.
    Pairs(Vec<(f64, f64)>),
    /// Gold and predicted class.
    Labels(Vec<(i64, i64)>),
    /// Gold class and probability of each class.
    Classes(Vec<(usize, Vec<f64>)>),
}

impl Aggregation {
    /// The metric over all items; `None` where it has no value.
    pub fn value(self, scores: &[Score]) -> Option<f64> {
        let value = match self {
            Self::Function(function) => function(scores),
            _ => self.column(scores).and_then(|column| self.of(&column)),
        };
        value.filter(|value| value.is_finite())
    }

    /// Its standard error: of a mean by the sample's standard deviation, of others by `replicates` bootstrap
    /// samples, which are drawn by CPython's generator, seeded anew for each thousand. `None` where there is
    /// none: one item, no replicates, or an aggregation for which the harness has no method.
    pub fn stderr(self, scores: &[Score], replicates: u32) -> Option<f64> {
        if scores.len() < 2 || replicates == 0 {
            return None;
        }
        let value = match (self, self.column(scores)?) {
            (Self::Mean, Column::Numbers(list)) => sample_sd(&list) / (list.len() as f64).sqrt(),
            (Self::NanMean | Self::Median | Self::Perplexity | Self::F1 | Self::Mcc, column) => {
                self.bootstrap(&column, replicates)?
            }
            _ => return None,
        };
        Some(value).filter(|value| value.is_finite())
    }

    fn bootstrap(self, column: &Column, replicates: u32) -> Option<f64> {
        let chunk = CHUNK.min(replicates);
        let mut values = Vec::with_capacity(replicates as usize);
        for seed in 0..replicates / chunk {
            let mut random = Random::new(u64::from(seed));
            for _ in 0..chunk {
                values.push(self.of(&column.drawn(&mut random))?);
            }
        }
        Some(sample_sd(&values))
    }

    fn column(self, scores: &[Score]) -> Option<Column> {
        let number = |score: &Score| match score {
            Score::Number(x) => Some(*x),
            Score::Parts(_) => None,
        };
        let parts = |score: &Score| match score {
            Score::Parts(value) => value.as_array().filter(|list| list.len() == 2).cloned(),
            Score::Number(_) => None,
        };
        match self {
            Self::F1 | Self::Mcc => scores
                .iter()
                .map(|score| parts(score).and_then(|two| Some((two[0].as_i64()?, two[1].as_i64()?))))
                .collect::<Option<_>>()
                .map(Column::Labels),
            Self::WeightedPerplexity | Self::BitsPerByte => scores
                .iter()
                .map(|score| parts(score).and_then(|two| Some((two[0].as_f64()?, two[1].as_f64()?))))
                .collect::<Option<_>>()
                .map(Column::Pairs),
            Self::Brier => scores
                .iter()
                .map(|score| {
                    let two = parts(score)?;
                    let shares: Option<Vec<f64>> =
                        two[1].as_array()?.iter().map(serde_json::Value::as_f64).collect();
                    Some((usize::try_from(two[0].as_u64()?).ok()?, shares?))
                })
                .collect::<Option<_>>()
                .map(Column::Classes),
            _ => scores.iter().map(number).collect::<Option<_>>().map(Column::Numbers),
        }
    }

    fn of(self, column: &Column) -> Option<f64> {
        match (self, column) {
            (_, Column::Numbers(list)) if list.is_empty() => None,
            (Self::Mean, Column::Numbers(list)) => Some(mean(list)),
            (Self::NanMean, Column::Numbers(list)) => {
                let known: Vec<f64> = list.iter().copied().filter(|x| !x.is_nan()).collect();
                (!known.is_empty()).then(|| numpy_sum(&known) / known.len() as f64)
            }
            (Self::Median, Column::Numbers(list)) => {
                let mut sorted = list.clone();
                sorted.sort_by(f64::total_cmp);
                sorted.get(list.len() / 2).copied()
            }
            (Self::Perplexity, Column::Numbers(list)) => Some((-mean(list)).exp()),
            (Self::WeightedPerplexity, Column::Pairs(pairs)) => Some((-weighted_mean(pairs)?).exp()),
            (Self::BitsPerByte, Column::Pairs(pairs)) => {
                Some(-weighted_mean(pairs)? / std::f64::consts::LN_2)
            }
            (Self::F1, Column::Labels(pairs)) => f1(pairs),
            (Self::Mcc, Column::Labels(pairs)) => Some(mcc(pairs)),
            (Self::Brier, Column::Classes(list)) => brier(list),
            _ => None,
        }
    }
}

impl Column {
    /// As many as there are, drawn with replacement.
    fn drawn(&self, random: &mut Random) -> Self {
        fn draw<T: Clone>(list: &[T], random: &mut Random) -> Vec<T> {
            (0..list.len()).map(|_| list[random.floor_of(list.len())].clone()).collect()
        }
        match self {
            Self::Numbers(list) => Self::Numbers(draw(list, random)),
            Self::Pairs(list) => Self::Pairs(draw(list, random)),
            Self::Labels(list) => Self::Labels(draw(list, random)),
            Self::Classes(list) => Self::Classes(draw(list, random)),
        }
    }
}

/// Not a number of nothing.
fn mean(list: &[f64]) -> f64 {
    measure::interval::mean(list).unwrap_or(f64::NAN)
}

fn weighted_mean(pairs: &[(f64, f64)]) -> Option<f64> {
    let units: f64 = pairs.iter().map(|pair| pair.1).sum();
    (units > 0.0).then(|| pairs.iter().map(|pair| pair.0).sum::<f64>() / units)
}

/// Standard deviation with n − 1; not a number below two values.
fn sample_sd(list: &[f64]) -> f64 {
    measure::interval::sample_stddev(list).unwrap_or(f64::NAN)
}

/// F1 of class 1 against class 0, and 0 where class 1 is neither gold nor predicted; `None` with other classes.
fn f1(pairs: &[(i64, i64)]) -> Option<f64> {
    let class = |class: i64| match class {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    };
    let (mut both, mut wrong) = (0.0, 0.0);
    for (gold, predicted) in pairs {
        match (class(*gold)?, class(*predicted)?) {
            (true, true) => both += 1.0,
            (false, false) => {}
            _ => wrong += 1.0,
        }
    }
    Some(if both + wrong == 0.0 { 0.0 } else { 2.0 * both / (2.0 * both + wrong) })
}

/// Matthews' correlation of several classes (Gorodkin 2004), 0 where one side has a single class.
fn mcc(pairs: &[(i64, i64)]) -> f64 {
    let mut classes: Vec<i64> = pairs.iter().flat_map(|pair| [pair.0, pair.1]).collect();
    classes.sort_unstable();
    classes.dedup();
    let n = pairs.len() as f64;
    let right = pairs.iter().filter(|pair| pair.0 == pair.1).count() as f64;
    let (mut across, mut gold, mut predicted) = (0.0, 0.0, 0.0);
    for class in classes {
        let golden = pairs.iter().filter(|pair| pair.0 == class).count() as f64;
        let found = pairs.iter().filter(|pair| pair.1 == class).count() as f64;
        across += golden * found;
        gold += golden * golden;
        predicted += found * found;
    }
    let (gold, predicted) = (n * n - gold, n * n - predicted);
    if gold * predicted == 0.0 { 0.0 } else { (right * n - across) / (predicted * gold).sqrt() }
}

fn brier(list: &[(usize, Vec<f64>)]) -> Option<f64> {
    let row = |(gold, shares): &(usize, Vec<f64>)| {
        let errors: Vec<f64> = shares
            .iter()
            .enumerate()
            .map(|(i, share)| (share - f64::from(u8::from(i == *gold))).powi(2))
            .collect();
        (*gold < shares.len()).then(|| numpy_sum(&errors))
    };
    let rows: Vec<f64> = list.iter().map(row).collect::<Option<_>>()?;
    (!rows.is_empty()).then(|| numpy_sum(&rows) / rows.len() as f64)
}

/// `numpy.sum` of a contiguous array: pairwise, with eight accumulators in a block of 128.
pub(super) fn numpy_sum(list: &[f64]) -> f64 {
    if list.len() < 8 {
        return list.iter().sum();
    }
    if list.len() > 128 {
        let half = list.len() / 2;
        let (left, right) = list.split_at(half - half % 8);
        return numpy_sum(left) + numpy_sum(right);
    }
    let eights = list.chunks_exact(8);
    let rest: &[f64] = eights.remainder();
    let mut sums = [0.0; 8];
    for eight in eights {
        sums.iter_mut().zip(eight).for_each(|(sum, x)| *sum += x);
    }
    let whole = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    rest.iter().fold(whole, |sum, x| sum + x)
}
