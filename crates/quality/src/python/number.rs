/// `round(x)`: to the nearest whole number, halves to the even one. `numpy.round` does the same.
#[must_use]
pub fn round_half_even(x: f64) -> f64 {
    x.round_ties_even()
}

/// `round(x, digits)`: to the nearest decimal by the exact value of `x`, which Rust's formatting does too.
#[must_use]
pub fn round_to(x: f64, digits: usize) -> f64 {
    format!("{x:.digits$}").parse().unwrap_or(x)
}
