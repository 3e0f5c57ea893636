//! Numbers as C++ streams print them.

/// `%g`: six significant digits, the shorter of plain and exponent form, no zeros behind the last digit.
/// Only for finite numbers.
pub fn general(x: f64) -> String {
    if x == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{x:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return trim(&format!("{x:.*}", (5 - exponent) as usize)).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(digits), exponent.abs())
}

fn trim(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn as_printf_does() {
        for (x, text) in [
            (0.0, "0"),
            (1e6, "1e+06"),
            (999_999.0, "999999"),
            (999_999.5, "1e+06"),
            (1419.9163, "1419.92"),
            (8.351_59e-7, "8.35159e-07"),
            (0.000_1, "0.0001"),
            (0.000_012_345_67, "1.23457e-05"),
            (287.385, "287.385"),
            (0.9, "0.9"),
            (300.0, "300"),
            (-2.5, "-2.5"),
            (1e100, "1e+100"),
        ] {
            assert_eq!(general(x), text);
        }
    }
}
