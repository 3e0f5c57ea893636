//! Lists of loads: `1,2,8`, `1,2,4..256`, `10,20..100`, `1..256:9`, `aiperf`.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ParseError;
use crate::units::Rate;

/// The loads of a sweep, without duplicates, in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Loads {
    /// Users of a closed loop.
    Concurrency(Vec<u32>),
    /// Arrivals per second of an open loop, finite.
    Rate(Vec<f64>),
}

/// More loads than anybody measures: a slip of the pen.
const MOST: usize = 1000;
/// A progression ends at its end, not a rounding error before it.
const NEARLY: f64 = 1e-9;
/// The preset: AIPerf's concurrency ramp, eight points over three decades.
const PRESET: (&str, &str) = ("aiperf", "1..1000:8");
const FORMS: &str = "a list of loads: `1,2,8`; continued by example, `1,2,4..256` or `10,20..100`; or `1..256:9`, nine points at equal ratios";

impl Loads {
    /// Users, whole numbers from 1 on; points of a grid are rounded.
    ///
    /// # Errors
    /// The text is no list of loads; the message says which part, the hint how to write it.
    pub fn concurrency(text: &str) -> Result<Self, ParseError> {
        let text = if text.trim() == PRESET.0 { PRESET.1 } else { text };
        let mut users = Vec::new();
        for point in points(text, user)? {
            let rounded = point.value.round().max(1.0) as u32;
            if !users.contains(&rounded) {
                users.push(rounded);
            }
        }
        Ok(Loads::Concurrency(users))
    }

    /// Rates in requests per second; points of a grid are rounded to three significant digits.
    ///
    /// # Errors
    /// As [`Loads::concurrency`].
    pub fn rate(text: &str) -> Result<Self, ParseError> {
        if text.trim() == PRESET.0 {
            return Err(ParseError::new(format!("`{}` is a list of users, not of rates", PRESET.0))
                .hint(format!("--concurrency {}, or --rate {} for the same numbers", PRESET.0, PRESET.1)));
        }
        let mut rates: Vec<f64> = Vec::new();
        for point in points(text, rate)? {
            let value = if point.on_grid { significant(point.value, 3) } else { point.value };
            if !rates.iter().any(|rate| (rate / value - 1.0).abs() < NEARLY) {
                rates.push(value);
            }
        }
        Ok(Loads::Rate(rates))
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Loads::Concurrency(users) => users.len(),
            Loads::Rate(rates) => rates.len(),
        }
    }

    /// Never the case for a list that was read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One load of a list.
pub(crate) struct Point {
    pub(crate) value: f64,
    /// Computed between two ends, so that its digits mean nothing beyond the first few.
    on_grid: bool,
}

/// The loads that a text names, in its order, duplicates included.
pub(crate) fn points(
    text: &str,
    read: impl Fn(&str) -> Result<f64, ParseError>,
) -> Result<Vec<Point>, ParseError> {
    let mut points: Vec<Point> = Vec::new();
    // What stands before `..` and shows how to go on.
    let mut example: Vec<f64> = Vec::new();
    for part in text.split(',').map(str::trim) {
        if part.is_empty() {
            let what = if text.trim().is_empty() { "nothing" } else { "an empty place" };
            return Err(ParseError::new(format!("`{}` has {what} where a load should be", text.trim()))
                .hint(format!("give {FORMS}")));
        }
        match part.split_once("..") {
            None => {
                let value = read(part)?;
                example.push(value);
                points.push(Point { value, on_grid: false });
            }
            Some((from, to)) => {
                let from = read(from)?;
                match to.rsplit_once(':') {
                    Some((to, n)) => grid(part, from, read(to)?, n, &mut points)?,
                    None => {
                        example.push(from);
                        progression(part, &example, read(to)?, &mut points)?;
                    }
                }
                example.clear();
            }
        }
        if points.len() > MOST {
            return Err(ParseError::new(format!("`{part}` leads to more than {MOST} loads"))
                .hint("take larger steps, or a number of points: `1..256:9`"));
        }
    }
    Ok(points)
}

/// `n` points at equal ratios, both ends among them.
fn grid(part: &str, from: f64, to: f64, n: &str, points: &mut Vec<Point>) -> Result<(), ParseError> {
    let n: usize = n.trim().parse().ok().filter(|n| (2..=MOST).contains(n)).ok_or_else(|| {
        ParseError::new(format!("`{part}`: `{}` is no number of points from 2 to {MOST}", n.trim()))
            .hint("`1..256:9` takes nine points at equal ratios, both ends among them")
    })?;
    if (from / to - 1.0).abs() < NEARLY {
        return Err(ParseError::new(format!("`{part}` begins where it ends"))
            .hint("give two different ends, or the load alone"));
    }
    let step = (to / from).ln() / (n - 1) as f64;
    points.extend((0..n).map(|k| match k {
        0 => Point { value: from, on_grid: false },
        k if k == n - 1 => Point { value: to, on_grid: false },
        k => Point { value: from * (step * k as f64).exp(), on_grid: true },
    }));
    Ok(())
}

/// How a list goes on.
#[derive(Clone, Copy)]
enum Step {
    Difference(f64),
    Ratio(f64),
}

impl Step {
    /// From numbers that show it: two show a difference, three or more whichever all of them have.
    fn of(example: &[f64]) -> Option<Step> {
        let (first, second) = (*example.first()?, *example.get(1)?);
        let (difference, ratio) = (second - first, second / first);
        let scale = example.iter().fold(0.0_f64, |m, x| m.max(*x));
        let all = |fits: &dyn Fn(f64, f64) -> bool| example.windows(2).all(|pair| fits(pair[0], pair[1]));
        if all(&|a, b| (b - a - difference).abs() < NEARLY * scale) {
            Some(Step::Difference(difference))
        } else if all(&|a, b| (b / a / ratio - 1.0).abs() < 1e-6) {
            Some(Step::Ratio(ratio))
        } else {
            None
        }
    }

    fn rises(self) -> bool {
        match self {
            Step::Difference(d) => d > 0.0,
            Step::Ratio(r) => r > 1.0,
        }
    }

    /// The number `k` places behind `first`.
    fn at(self, first: f64, k: usize) -> f64 {
        let value = match self {
            Step::Difference(d) => first + d * k as f64,
            Step::Ratio(r) => first * r.powi(k as i32),
        };
        // Sums and powers of decimal numbers end in noise.
        significant(value, 12)
    }
}

/// Continues an example to its end, which belongs to it if it is hit.
fn progression(part: &str, example: &[f64], end: f64, points: &mut Vec<Point>) -> Result<(), ParseError> {
    let shown: Vec<String> = example.iter().map(f64::to_string).collect();
    let (Some(&first), Some(&last)) = (example.first(), example.last()) else { return Ok(()) };
    if example.len() < 2 {
        return Err(ParseError::new(format!("`{part}` does not say how to get from {last} to {end}")).hint(
            format!("`{last}..{end}:8` takes eight points; or show the step: `10,20..100`, `1,2,4..256`"),
        ));
    }
    let step = Step::of(example).ok_or_else(|| {
        ParseError::new(format!(
            "`{part}`: {} have neither one difference nor one ratio, so they do not say how to go on",
            shown.join(", ")
        ))
        .hint("put the loads that do not belong to it behind: `10,20..100,1`")
    })?;
    // Equal numbers have the difference 0 before they have the ratio 1.
    let still = matches!(step, Step::Difference(d) if d == 0.0);
    let towards = if step.rises() { end > last } else { end < last };
    if still || !towards {
        return Err(ParseError::new(format!("`{part}`: {} do not lead to {end}", shown.join(", ")))
            .hint("`10,20..100` rises to 100, `100,90..10` falls to 10"));
    }
    points.push(Point { value: last, on_grid: false });
    for k in example.len().. {
        let value = step.at(first, k);
        let beyond = if step.rises() { value > end * (1.0 + NEARLY) } else { value < end * (1.0 - NEARLY) };
        if beyond || points.len() > MOST {
            return Ok(());
        }
        points.push(Point { value, on_grid: false });
    }
    Ok(())
}

/// A number with so many significant digits.
fn significant(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value)
}

fn user(text: &str) -> Result<f64, ParseError> {
    let text = text.trim();
    match text.parse::<u32>() {
        Ok(users) if users > 0 => Ok(f64::from(users)),
        _ => Err(ParseError::new(format!("`{text}` is no number of users, a whole number from 1 on"))
            .hint(format!("give {FORMS}"))),
    }
}

fn rate(text: &str) -> Result<f64, ParseError> {
    let text = text.trim();
    let rate = Rate::from_str(text).map_err(|error| ParseError::from(error).hint(format!("give {FORMS}")))?;
    if rate.is_infinite() {
        return Err(ParseError::new("`inf` sends everything at once, which is no load of a sweep")
            .hint("measure it apart: inferometer run … --rate inf --requests 500"));
    }
    Ok(rate.per_second())
}
