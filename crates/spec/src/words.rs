//! Numbers as words: the one place where a value becomes text for a person.
//!
//! Three significant digits, digits before the point are never rounded away, commas for thousands,
//! a no-break space before a unit, an en dash in ranges, a true minus sign. No decision is made on
//! a text.

use crate::{CacheProtocol, Lengths, Load, Spec};

/// No-break space: stands between a number and its unit.
pub const NBSP: char = '\u{a0}';

/// Decimals that give `value` three significant digits, without touching digits before the point.
pub fn decimals(value: f64) -> usize {
    let size = value.abs();
    if size < 1e-9 || !size.is_finite() {
        return 0;
    }
    let places = 2 - size.log10().floor() as i32;
    // Rounding may carry into another digit: 9.996 is 10.0, not 10.00.
    let rounded = format!("{size:.*}", places.clamp(0, 9) as usize).parse::<f64>().unwrap_or(size);
    (2 - rounded.log10().floor() as i32).clamp(0, 9) as usize
}

/// `value` with this many decimals, commas for thousands and a true minus sign.
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
    let mut out = String::new();
    if value < 0.0 && text.chars().any(|c| c.is_ascii_digit() && c != '0') {
        out.push('\u{2212}');
    }
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if let Some(rest) = rest {
        out.push('.');
        out.push_str(rest);
    }
    out
}

/// Three significant digits: `68.6`, `3,378`, `0.0123`.
pub fn number(value: f64) -> String {
    fixed(value, decimals(value))
}

/// An exact count: `1,008,305`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A count with its noun: `1 request`, `2 requests`.
pub fn counted(value: u64, noun: &str) -> String {
    format!("{}{NBSP}{noun}{}", count(value), if value == 1 { "" } else { "s" })
}

/// Units in which a time is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeUnit {
    /// Microseconds.
    Micro,
    /// Milliseconds.
    Milli,
    /// Seconds.
    Second,
}

impl TimeUnit {
    /// µs below 1 ms, ms below 1 s, s above.
    pub fn of(ns: f64) -> Self {
        match ns.abs() {
            x if x < 1e6 && x > 0.0 => TimeUnit::Micro,
            x if x < 1e9 => TimeUnit::Milli,
            _ => TimeUnit::Second,
        }
    }
    /// The symbol.
    pub fn symbol(self) -> &'static str {
        match self {
            TimeUnit::Micro => "µs",
            TimeUnit::Milli => "ms",
            TimeUnit::Second => "s",
        }
    }
    /// Nanoseconds of one.
    pub fn ns(self) -> f64 {
        match self {
            TimeUnit::Micro => 1e3,
            TimeUnit::Milli => 1e6,
            TimeUnit::Second => 1e9,
        }
    }
}

/// A time with its unit: `68.6 ms`, `310 µs`, `1.50 s`.
pub fn time(ns: f64) -> String {
    let unit = TimeUnit::of(ns);
    format!("{}{NBSP}{}", number(ns / unit.ns()), unit.symbol())
}

/// A time in a given unit, without the unit: for table rows that name it once.
pub fn time_in(ns: f64, unit: TimeUnit) -> String {
    number(ns / unit.ns())
}

/// A time as the user would write a limit: no digits that carry nothing (`500 ms`, `1.5 s`).
pub fn limit_time(ns: f64) -> String {
    let unit = TimeUnit::of(ns);
    format!("{}{NBSP}{}", plain(ns / unit.ns()), unit.symbol())
}

/// A number without trailing zeros: `1,200`, `0.42`, `6`.
pub fn plain(value: f64) -> String {
    let text = fixed(value, 6);
    match text.split_once('.') {
        Some((whole, rest)) => {
            let rest = rest.trim_end_matches('0');
            if rest.is_empty() { whole.to_owned() } else { format!("{whole}.{rest}") }
        }
        None => text,
    }
}

/// A time that missed a limit, in its own unit as everywhere: with as many digits as it takes to
/// differ from the limit on paper.
pub fn time_beside(ns: f64, limit_ns: f64) -> String {
    let unit = TimeUnit::of(ns);
    let (value, limit) = (ns / unit.ns(), limit_ns / unit.ns());
    let mut places = decimals(value);
    // Exactly equal values never differ, however many digits: stop at the nanosecond.
    while places < 9 && fixed(value, places) == fixed(limit, places) && (ns - limit_ns).abs() > 1e-9 {
        places += 1;
    }
    format!("{}{NBSP}{}", fixed(value, places), unit.symbol())
}

/// A share in per cent, three significant digits: `99.4 %`, `0.123 %`, `100 %`. A share that is
/// not whole is never shown as 100 % or 0 %.
pub fn percent(share: f64) -> String {
    format!("{}{NBSP}%", percent_number(share))
}

/// A share in per cent without the sign.
pub fn percent_number(share: f64) -> String {
    let value = share * 100.0;
    let mut places = if value.abs() >= 1.0 { decimals(value).min(2) } else { decimals(value).min(4) };
    if value > 99.0 && value < 100.0 {
        places = places.max(1);
        while places < 6 && fixed(value, places) == fixed(100.0, places) {
            places += 1;
        }
        return fixed(value, places);
    }
    plain_zero(value, places)
}

fn plain_zero(value: f64, places: usize) -> String {
    if (value - value.round()).abs() < 1e-9 { fixed(value.round(), 0) } else { fixed(value, places) }
}

/// A range in one unit, en dash without spaces, with the decimals of its value: `64.7–74.2`.
/// An open side is `…`.
pub fn range(value: f64, low: Option<f64>, high: Option<f64>) -> String {
    let places = decimals(value);
    let side = |x: Option<f64>| x.map_or_else(|| "…".to_owned(), |x| fixed(x, places));
    format!("{}–{}", side(low), side(high))
}

/// A share with its interval: `99.4 % (98.4–99.8)`.
pub fn share(value: f64, low: Option<f64>, high: Option<f64>) -> String {
    let side = |x: Option<f64>| x.map_or_else(|| "…".to_owned(), percent_number);
    format!("{} ({}–{})", percent(value), side(low), side(high))
}

/// A length distribution in a few characters: `512`, `100–200`, `about 512`.
pub fn lengths(lengths: &Lengths) -> String {
    match lengths {
        Lengths::Fixed(n) => count(u64::from(*n)),
        Lengths::Uniform { min, max } => format!("{}–{}", count(u64::from(*min)), count(u64::from(*max))),
        Lengths::Normal { mean, .. } | Lengths::LogNormal { mean, .. } => format!("about {}", number(*mean)),
        Lengths::File(path) => {
            path.file_name().map_or_else(|| "from a file".to_owned(), |n| n.to_string_lossy().into_owned())
        }
        Lengths::Data => "as in the data".to_owned(),
    }
}

/// The load model in words: `24 requests/s (Poisson`, without lengths: `24 requests/s, Poisson`.
pub fn load(spec: &Spec) -> String {
    match &spec.load {
        Load::Closed(closed) => {
            let think = if closed.think.0.0 > 0 {
                format!(" with {} of thinking", limit_time(closed.think.0.0 as f64))
            } else {
                String::new()
            };
            let start = if closed.start_over.0.0 > 0 {
                format!(", begun over {}", limit_time(closed.start_over.0.0 as f64))
            } else {
                String::new()
            };
            let users = u64::from(closed.concurrency);
            format!("{}{think} in a closed loop{start}", counted(users, "user"))
        }
        Load::Open(open) if open.rate.is_infinite() => "all requests at once".to_owned(),
        Load::Open(open) => {
            let arrivals = arrivals(open.burstiness.shape());
            let cap =
                open.cap.map_or_else(String::new, |n| format!(", at most {} in flight", count(u64::from(n))));
            format!("{}{NBSP}requests/s, {arrivals}{cap}", plain(open.rate.per_second()))
        }
    }
}

/// Name of the arrival process by its gamma shape.
pub fn arrivals(shape: f64) -> String {
    if (shape - 1.0).abs() < 1e-12 {
        "Poisson".to_owned()
    } else if shape.is_infinite() {
        "constant gaps".to_owned()
    } else {
        format!("gamma {}", plain(shape))
    }
}

/// The cache protocol in words.
pub fn cache(protocol: &CacheProtocol) -> String {
    match protocol {
        CacheProtocol::Unique => "every prompt is unique from its first tokens on".to_owned(),
        CacheProtocol::SharedPrefix { tokens, groups } => format!(
            "prompts share their first {} in {}",
            counted(u64::from(*tokens), "token"),
            counted(u64::from(*groups), "group")
        ),
        CacheProtocol::Repeat { prompts } => {
            format!("only {} used in turn", counted(u64::from(*prompts), "prompt"))
        }
    }
}

/// A moment or a length of time as minutes and seconds: `2:47`, `1:02:03`.
pub fn clock_time(t: crate::Nanos) -> String {
    let s = t.0 / 1_000_000_000;
    if s >= 3600 {
        format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
    } else {
        format!("{}:{:02}", s / 60, s % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_nothing_before_the_point_is_lost() {
        for (value, text) in [
            (1_008_305.0, "1,008,305"),
            (3378.4, "3,378"),
            (68.64, "68.6"),
            (8.787, "8.79"),
            (0.01234, "0.0123"),
            (9.996, "10.0"),
            (99.96, "100"),
            (0.0, "0"),
            (-23.0, "−23.0"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(count(1_008_305), "1,008,305");
        assert_eq!(count(999), "999");
    }

    #[test]
    fn times_change_their_unit() {
        assert_eq!(time(68_640_000.0), "68.6\u{a0}ms");
        assert_eq!(time(310_000.0), "310\u{a0}µs");
        assert_eq!(time(1.5e9), "1.50\u{a0}s");
        assert_eq!(limit_time(500e6), "500\u{a0}ms");
        assert_eq!(limit_time(1.5e9), "1.5\u{a0}s");
        assert_eq!(time(0.0), "0\u{a0}ms");
    }

    #[test]
    fn a_value_that_missed_its_limit_never_looks_equal_to_it() {
        assert_eq!(time_beside(500_000_400.0, 500e6), "500.0004\u{a0}ms");
        assert_eq!(time_beside(512e6, 500e6), "512\u{a0}ms");
        assert_eq!(time_beside(500e6, 500e6), "500\u{a0}ms");
        // The unit is that of the value, as in every table.
        assert_eq!(time_beside(28.331e9, 500e6), "28.3\u{a0}s");
        assert_eq!(time_beside(1.0000004e9, 1e9), "1.0000004\u{a0}s");
        assert_eq!(time_beside(999_999_600.0, 1e9), "999.9996\u{a0}ms");
    }

    #[test]
    fn shares() {
        assert_eq!(percent(0.994), "99.4\u{a0}%");
        assert_eq!(percent(1.0), "100\u{a0}%");
        assert_eq!(percent(0.99999), "99.999\u{a0}%");
        assert_eq!(percent(0.0), "0\u{a0}%");
        assert_eq!(percent(0.0125), "1.25\u{a0}%");
        assert_eq!(percent(0.001), "0.100\u{a0}%");
        assert_eq!(share(0.994, Some(0.984), Some(0.998)), "99.4\u{a0}% (98.4–99.8)");
        assert_eq!(range(68.64, Some(64.71), None), "64.7–…");
    }
}
