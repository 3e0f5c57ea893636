//! Lists of loads, by value and by law.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use proptest::prelude::*;
use spec::Loads;

fn users(text: &str) -> Vec<u32> {
    match Loads::concurrency(text).unwrap_or_else(|e| panic!("{text}: {e}")) {
        Loads::Concurrency(users) => users,
        Loads::Rate(_) => panic!("{text}: rates"),
    }
}

fn rates(text: &str) -> Vec<f64> {
    match Loads::rate(text).unwrap_or_else(|e| panic!("{text}: {e}")) {
        Loads::Rate(rates) => rates,
        Loads::Concurrency(_) => panic!("{text}: users"),
    }
}

#[test]
fn lists_progressions_and_grids_of_users() {
    for (text, expected) in [
        ("1", &[1][..]),
        ("1,2,8", &[1, 2, 8]),
        (" 8 , 1 ", &[8, 1]),
        ("4,4,4", &[4]),
        // Two numbers show a difference, three whichever they have.
        ("10,20..100", &[10, 20, 30, 40, 50, 60, 70, 80, 90, 100]),
        ("1,2..5", &[1, 2, 3, 4, 5]),
        ("1,2,4..256", &[1, 2, 4, 8, 16, 32, 64, 128, 256]),
        ("1,2,3..6", &[1, 2, 3, 4, 5, 6]),
        ("4,6,9..31", &[4, 6, 9, 14, 20, 30]),
        // The end belongs to it only if it is hit.
        ("1,2,4..100", &[1, 2, 4, 8, 16, 32, 64]),
        ("100,90..70", &[100, 90, 80, 70]),
        ("64,32,16..4", &[64, 32, 16, 8, 4]),
        ("1,3..7,100,200..400", &[1, 3, 5, 7, 100, 200, 300, 400]),
        ("10,20..40,1", &[10, 20, 30, 40, 1]),
        ("1..256:9", &[1, 2, 4, 8, 16, 32, 64, 128, 256]),
        // Rounded points that fall together are one.
        ("1..4:7", &[1, 2, 3, 4]),
        ("aiperf", &[1, 3, 7, 19, 52, 139, 373, 1000]),
    ] {
        assert_eq!(users(text), expected, "{text}");
    }
}

#[test]
fn lists_progressions_and_grids_of_rates() {
    for (text, expected) in [
        ("0.42", &[0.42][..]),
        ("30/min,1/s", &[0.5, 1.0]),
        ("0.1,0.2..0.5", &[0.1, 0.2, 0.3, 0.4, 0.5]),
        ("0.1,0.2,0.4..1.6", &[0.1, 0.2, 0.4, 0.8, 1.6]),
        ("1..40:8", &[1.0, 1.69, 2.87, 4.86, 8.23, 13.9, 23.6, 40.0]),
        // Ends stay as they are written.
        ("1.2345..40:2", &[1.2345, 40.0]),
        ("60/min..240/min:3", &[1.0, 2.0, 4.0]),
        ("2,2.0", &[2.0]),
    ] {
        assert_eq!(rates(text), expected, "{text}");
    }
}

#[test]
fn what_is_no_list_says_how_to_write_one() {
    for (text, message, hint) in [
        ("", "nothing where a load should be", "1,2,8"),
        ("1,,2", "an empty place", "1,2,8"),
        ("1..256", "does not say how", "`1..256:8`"),
        ("1,2,5..100", "neither one difference nor one ratio", "behind"),
        ("1,10,20..100", "neither one difference nor one ratio", "`10,20..100,1`"),
        ("10,20..5", "do not lead to 5", "falls"),
        ("10,10..100", "do not lead to 100", "rises"),
        ("1..256:1", "no number of points", "`1..256:9`"),
        ("1..256:x", "no number of points", "`1..256:9`"),
        ("8..8:3", "begins where it ends", "two different"),
        ("2.5", "no number of users", "1,2,8"),
        ("0", "no number of users", "1,2,8"),
        ("-3", "no number of users", "1,2,8"),
        ("1,2..", "no number of users", "1,2,8"),
        ("1,2..4000000000", "more than 1000 loads", "larger steps"),
        ("banana", "no number of users", "1,2,8"),
    ] {
        let error = Loads::concurrency(text).expect_err(text);
        let given = error.hint.unwrap_or_default();
        assert!(error.message.contains(message), "{text}: {}", error.message);
        assert!(given.contains(hint), "{text}: {given}");
    }
    let error = Loads::rate("1,inf").unwrap_err();
    assert!(error.hint.unwrap().contains("--rate inf"), "{}", error.message);
    assert!(Loads::rate("aiperf").unwrap_err().hint.unwrap().contains("1..1000:8"));
    assert!(Loads::rate("0..40:8").is_err());
}

proptest! {
    /// Whatever is typed: a list without duplicates, or an error that says what to do.
    #[test]
    fn any_text_is_a_list_or_an_error_with_a_hint(text in "[0-9.,:a-z/ -]{0,24}") {
        match Loads::concurrency(&text) {
            Ok(Loads::Concurrency(list)) => {
                prop_assert!(!list.is_empty() && list.iter().all(|users| *users > 0));
                let mut once = list.clone();
                once.sort_unstable();
                once.dedup();
                prop_assert_eq!(once.len(), list.len());
            }
            Ok(Loads::Rate(_)) => prop_assert!(false),
            Err(error) => prop_assert!(!error.message.is_empty() && error.hint.is_some()),
        }
        match Loads::rate(&text) {
            Ok(Loads::Rate(list)) => prop_assert!(list.iter().all(|rate| rate.is_finite() && *rate > 0.0)),
            Ok(Loads::Concurrency(_)) => prop_assert!(false),
            Err(error) => prop_assert!(!error.message.is_empty() && error.hint.is_some()),
        }
    }

    /// A list of numbers is itself.
    #[test]
    fn plain_lists_are_taken_as_written(list in prop::collection::hash_set(1_u32..100_000, 1..20)) {
        let list: Vec<u32> = list.into_iter().collect();
        let text = list.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        prop_assert_eq!(users(&text), list);
    }

    /// A progression by differences holds every step and nothing beyond its end.
    #[test]
    fn differences_go_on_to_the_end(first in 1_u32..50, step in 1_u32..50, more in 1_u32..40, rest in 0_u32..50) {
        let end = first + step * (1 + more) + rest % step;
        let expected: Vec<u32> = (0..=1 + more).map(|k| first + k * step).collect();
        prop_assert_eq!(users(&format!("{first},{}..{end}", first + step)), expected);
    }

    /// A progression by ratios holds every step and nothing beyond its end.
    #[test]
    fn ratios_go_on_to_the_end(first in 1_u32..8, ratio in 2_u32..5, more in 0_u32..6) {
        let at = |k: u32| first * ratio.pow(k);
        let end = at(3 + more);
        let expected: Vec<u32> = (0..=3 + more).map(at).collect();
        prop_assert_eq!(users(&format!("{first},{},{}..{end}", at(1), at(2))), expected);
    }

    /// A grid has its ends, as many points as asked for, and one ratio, up to rounding.
    #[test]
    fn grids_have_one_ratio(from in 0.01_f64..100.0, factor in 1.5_f64..1000.0, n in 2_usize..30) {
        let to = from * factor;
        let list = rates(&format!("{from}..{to}:{n}"));
        prop_assert!(list[0].total_cmp(&from).is_eq());
        prop_assert!(list.last().unwrap().total_cmp(&to).is_eq());
        if factor > 1.1_f64.powi(n as i32) {
            prop_assert_eq!(list.len(), n);
            let ratio = factor.powf(1.0 / (n - 1) as f64);
            for pair in list.windows(2) {
                prop_assert!((pair[1] / pair[0] / ratio - 1.0).abs() < 0.011, "{:?}", list);
            }
        }
    }
}
