//! Units: integer nanoseconds inside, text such as `500ms`, `6/s`, `inf` outside.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length of time, or a moment as the time since the run's origin, in whole nanoseconds.
///
/// There is no subtraction operator on purpose: [`Nanos::since`] says what happens when the order
/// is wrong, so no negative duration can arise.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all; also the run's origin.
    pub const ZERO: Nanos = Nanos(0);
    /// The largest representable moment.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// From whole microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Nanos(us * 1_000)
    }
    /// From whole milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Nanos(ms * 1_000_000)
    }
    /// From whole seconds.
    pub const fn from_secs(s: u64) -> Self {
        Nanos(s * 1_000_000_000)
    }
    /// From seconds, rounded to the nearest nanosecond; negative and NaN give zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Nanos((s * 1e9).round() as u64)
    }
    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// In milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// The time from `earlier` to `self`, `None` if the order is wrong.
    pub fn since(self, earlier: Nanos) -> Option<Nanos> {
        self.0.checked_sub(earlier.0).map(Nanos)
    }
    /// The time from `earlier` to `self`, zero if the order is wrong.
    pub fn saturating_since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
    /// As a standard duration.
    pub fn duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

impl From<std::time::Duration> for Nanos {
    fn from(d: std::time::Duration) -> Self {
        Nanos(d.as_nanos() as u64)
    }
}
impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}
impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}
impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(iter: I) -> Nanos {
        iter.fold(Nanos::ZERO, Add::add)
    }
}

/// A text that names no value of the unit; says what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{got}` is not {expected}")]
pub struct ParseUnitError {
    /// The text as given.
    pub got: String,
    /// What would have been accepted, with an example.
    pub expected: &'static str,
}

const SPAN: &str = "a duration (number and unit: ns, us, ms, s, m, h; for example 500ms or 1.5s)";
const RATE: &str = "a rate (requests per second, for example 6, 0.42, 6/s, 30/min, or inf)";
const BURST: &str = "a burstiness (a positive number, 1 for Poisson, or inf for constant gaps)";

/// A duration in a spec, written as text: `30s`, `500ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub Nanos);

impl FromStr for Span {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseUnitError { got: text.to_owned(), expected: SPAN };
        let t = text.trim();
        let cut = t.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(bad)?;
        let (number, unit) = t.split_at(cut);
        let scale: u128 = match unit.trim() {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(bad()),
        };
        // In whole numbers, so that what is printed reads back to the nanosecond.
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let digits = whole.len() + part.len();
        if digits == 0 || digits > 25 {
            return Err(bad());
        }
        let all: u128 = format!("{whole}{part}").parse().map_err(|_| bad())?;
        let divisor = 10u128.pow(part.len() as u32);
        let ns = (all * scale + divisor / 2) / divisor;
        Ok(Span(Nanos(u64::try_from(ns).map_err(|_| bad())?)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.0;
        let units: [(u64, &str); 6] = [
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
            (1, "ns"),
        ];
        let (size, name) = units
            .into_iter()
            .find(|(size, _)| ns != 0 && ns.is_multiple_of(*size))
            .unwrap_or((1_000_000_000, "s"));
        write!(f, "{}{name}", ns / size)
    }
}

/// A time limit that can be off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Limit(pub Option<Nanos>);

impl FromStr for Limit {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "off" | "none" => Ok(Limit(None)),
            other => Ok(Limit(Some(other.parse::<Span>()?.0))),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(limit) => Span(limit).fmt(f),
            None => f.write_str("off"),
        }
    }
}

/// A finite number, or infinity where it is written out: a number too large for a double is none.
fn finite_or_inf(text: &str) -> Option<f64> {
    match text.trim() {
        "inf" | ".inf" | "infinity" => Some(f64::INFINITY),
        number => number.parse().ok().filter(|x: &f64| x.is_finite()),
    }
}

/// Requests per second; `inf` means all at once. Always positive.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// A rate from requests per second; `None` unless positive (infinity is allowed).
    pub fn new(per_second: f64) -> Option<Self> {
        (per_second > 0.0).then_some(Rate(per_second))
    }
    /// Requests per second.
    pub fn per_second(self) -> f64 {
        self.0
    }
    /// Whether all requests leave at once.
    pub fn is_infinite(self) -> bool {
        self.0.is_infinite()
    }
}

impl FromStr for Rate {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseUnitError { got: text.to_owned(), expected: RATE };
        let t = text.trim();
        let (number, per) = t.split_once('/').unwrap_or((t, "s"));
        let seconds = match per.trim() {
            "s" | "sec" => 1.0,
            "min" | "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(bad()),
        };
        let value = finite_or_inf(number).ok_or_else(bad)?;
        Rate::new(value / seconds).ok_or_else(bad)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Shape α of the gamma gaps: 1 is Poisson, infinity constant (definitions §7).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Burstiness(f64);

impl Burstiness {
    /// Exponential gaps.
    pub const POISSON: Burstiness = Burstiness(1.0);
    /// Equal gaps.
    pub const CONSTANT: Burstiness = Burstiness(f64::INFINITY);
    /// A shape; `None` unless positive (infinity is allowed).
    pub fn new(shape: f64) -> Option<Self> {
        (shape > 0.0).then_some(Burstiness(shape))
    }
    /// The shape α.
    pub fn shape(self) -> f64 {
        self.0
    }
}

impl FromStr for Burstiness {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseUnitError { got: text.to_owned(), expected: BURST };
        finite_or_inf(text).and_then(Burstiness::new).ok_or_else(bad)
    }
}

impl fmt::Display for Burstiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A share of a whole, from 0 to 1; as text `95%` or `0.95`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Share(f64);

impl Share {
    /// A share; `None` unless from 0 to 1.
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Share(value))
    }
    /// The share, from 0 to 1.
    pub fn value(self) -> f64 {
        self.0
    }
}

impl FromStr for Share {
    type Err = crate::error::ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let t = text.trim();
        let bad = || crate::error::ParseError::new(format!("`{t}` is not a share (for example 95% or 0.95)"));
        let (number, percent) = match t.strip_suffix('%') {
            Some(number) => (number.trim_end(), true),
            None => (t, false),
        };
        if !number.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return Err(bad());
        }
        // Divided as text, so that 99.9% is the double nearest to 0.999.
        let digits = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let value: f64 = match percent {
            true if digits => format!("{number}e-2").parse().map_err(|_| bad())?,
            true => return Err(bad()),
            false => number.parse().map_err(|_| bad())?,
        };
        Share::new(value).ok_or_else(|| match (1.0..=100.0).contains(&value) && !percent {
            true => bad().hint(format!("`{t}%`")),
            false => bad(),
        })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Text units in files: a string, or a bare number where the unit needs no suffix.
macro_rules! text_unit {
    ($type:ty, $name:literal, $numeric:expr, $pattern:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($pattern)
                    }
                    fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<$type, E> {
                        v.parse().map_err(E::custom)
                    }
                    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<$type, E> {
                        v.to_string().parse().map_err(E::custom)
                    }
                    fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<$type, E> {
                        v.to_string().parse().map_err(E::custom)
                    }
                    fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<$type, E> {
                        v.to_string().parse().map_err(E::custom)
                    }
                    // YAML reads a bare `off` as false.
                    fn visit_bool<E: serde::de::Error>(self, v: bool) -> Result<$type, E> {
                        (if v { "on" } else { "off" }).parse().map_err(E::custom)
                    }
                }
                d.deserialize_any(Visitor)
            }
        }
        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                if $numeric {
                    json_schema!({ "type": ["string", "number"], "description": $pattern })
                } else {
                    json_schema!({ "type": "string", "description": $pattern })
                }
            }
        }
    };
}
text_unit!(Span, "Span", false, "a duration, for example 30s or 500ms");
text_unit!(Limit, "Limit", false, "a duration, for example 30s, or off");
text_unit!(Rate, "Rate", true, "requests per second, for example 6, 0.42, 30/min, or inf");
text_unit!(Burstiness, "Burstiness", true, "gamma shape of the gaps: 1 Poisson, inf constant");

text_unit!(Share, "Share", true, "a share from 0 to 1, for example 95% or 0.95");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_parse_and_print_exactly() {
        for (text, ns, canonical) in [
            ("500ms", 500_000_000, "500ms"),
            ("1.5s", 1_500_000_000, "1500ms"),
            ("30s", 30_000_000_000, "30s"),
            ("90s", 90_000_000_000, "90s"),
            ("2m", 120_000_000_000, "2m"),
            ("0s", 0, "0s"),
            ("7µs", 7_000, "7us"),
            (".5s", 500_000_000, "500ms"),
            ("1.0000000005s", 1_000_000_001, "1000000001ns"),
            ("36474346099255465ns", 36_474_346_099_255_465, "36474346099255465ns"),
            ("18446744073709551615ns", u64::MAX, "18446744073709551615ns"),
        ] {
            let span: Span = text.parse().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(span.0, Nanos(ns), "{text}");
            assert_eq!(span.to_string(), canonical);
        }
        for bad in [
            "",
            "5",
            "ms",
            "1.2.3s",
            "-1s",
            "1 fortnight",
            "1e99s",
            "9999999999999h",
            ".s",
            "18446744073709551616ns",
        ] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_are_fractional_and_can_be_infinite() {
        for (text, rate) in [("6", 6.0), ("0.42/s", 0.42), ("30/min", 0.5), ("inf", f64::INFINITY)] {
            let parsed: Rate = text.parse().unwrap_or_else(|e| panic!("{e}"));
            assert!((parsed.per_second() - rate).abs() < 1e-12 || parsed.is_infinite() && rate.is_infinite());
        }
        for bad in ["0", "-1", "nan", "6/fortnight", "", "1e999", "-inf"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_limit_can_be_off() {
        assert_eq!("off".parse::<Limit>(), Ok(Limit(None)));
        assert_eq!(Limit(None).to_string(), "off");
    }
}
