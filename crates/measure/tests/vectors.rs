//! Worked vectors of the statistics: intervals, autocorrelation, change, growth, survival. Reference
//! values of distribution functions were computed with SciPy 1.17.1.

mod common;

use common::close;
use measure::correlation::{cautious, tau, tau_of_percentile};
use measure::interval::{Size, level_interval, mean_interval, ranks, shrunk};
use measure::special::{beta_quantile, binomial_cdf, incomplete_beta, t_95};
use measure::survival::{Lifetime, kaplan_meier};
use measure::trend::speed_change;
use measure::{Suspect, client_error_bound, growth};
use spec::PercentileRule;

#[test]
fn distribution_functions_agree_with_scipy() {
    for (a, b, x, expected) in [
        (2.0, 3.0, 0.4, 0.5248),
        (0.5, 0.5, 0.3, 0.36901011956554536),
        (35.5, 2.25, 0.9, 0.1406304471715741),
        (9500.3, 500.7, 0.951, 0.6836424501612333),
        (100_000.0, 1000.0, 0.99, 0.3717821455135547),
        (0.3, 40.0, 0.01, 0.7757445280124585),
    ] {
        close(incomplete_beta(a, b, x), expected, 1e-9);
    }
    assert_eq!((incomplete_beta(2.0, 3.0, 0.0), incomplete_beta(2.0, 3.0, 1.0)), (0.0, 1.0));
    for (q, a, b, expected) in [
        (0.025, 190.0, 11.0, 0.9099724622986486),
        (0.975, 191.0, 10.0, 0.9757658345278915),
        (0.975, 990.2, 9.7, 0.995395835888386),
        (0.05, 3.7, 0.5, 0.5749481253028998),
        (0.025, 0.4, 1.2, 7.844008088031136e-05),
    ] {
        close(beta_quantile(q, a, b), expected, 1e-9);
    }
    for (df, expected) in [
        (1.0, 12.706204736174694),
        (2.5, 3.5746548420036817),
        (19.0, 2.0930240544083087),
        (100.3, 1.983898854287923),
        (1e6, 1.959966356814107),
    ] {
        close(t_95(df), expected, 1e-6);
    }
    for (k, n, p, expected) in [
        (0, 6, 0.5, 0.015625),
        (18, 20, 0.95, 0.2641604750561504),
        (340, 368, 0.9, 0.951496769653305),
        (4950, 5000, 0.99, 0.5190915868050648),
    ] {
        close(binomial_cdf(k, n, p), expected, 1e-9);
    }
}

#[test]
fn levels() {
    for (p, m, low, high) in [(0.95, 200.0, 0.90997, 0.97577), (0.99, 1000.0, 0.98169, 0.99519)] {
        let (l, u) = level_interval(p, m);
        close(l, low, 5e-6);
        close(u, high, 5e-6);
    }
    close(shrunk(60.0), 52.6137, 5e-5);
    let (l, u) = level_interval(0.5, shrunk(60.0));
    close(l, 0.35896, 5e-6);
    close(u, 0.64104, 5e-6);
    close(shrunk(100.0), 87.6895, 5e-5);
    let (l, u) = level_interval(0.95, shrunk(100.0));
    close(l, 0.88134, 5e-6);
    close(u, 0.98512, 5e-6);
}

#[test]
fn exact_ranks_of_independent_draws() {
    for (n, p, expected) in [
        (6, 0.5, (Some(1), Some(6))),
        (5, 0.5, (None, None)),
        (36, 0.9, (Some(29), Some(36))),
        (35, 0.9, (Some(28), None)),
        (72, 0.95, (Some(64), Some(72))),
        (100, 0.5, (Some(40), Some(61))),
        (1000, 0.99, (Some(983), Some(997))),
        (368, 0.99, (Some(360), Some(368))),
        (200, 0.95, (Some(184), Some(197))),
    ] {
        assert_eq!(ranks(n, p, Size::Independent), expected, "{n} {p}");
    }
}

#[test]
fn ranks_of_an_effective_size() {
    // Levels 0.88134 and 0.98512 of 200 values: ranks ⌈176.27⌉ and ⌈197.02⌉.
    assert_eq!(ranks(200, 0.95, Size::Effective(100.0)), (Some(177), Some(198)));
    // Too few effective draws: the upper side is open.
    assert_eq!(ranks(200, 0.99, Size::Effective(20.0)).1, None);
}

#[test]
fn autocorrelation_times() {
    let twice: Vec<f64> = (0..20).map(|i| f64::from(i % 10 + 1)).collect();
    close(tau(&twice), 2.472727, 5e-7);
    let below: Vec<f64> = twice.iter().map(|&x| if x <= 5.5 { 1.0 } else { 0.0 }).collect();
    close(tau(&below), 2.8, 1e-9);
    let used = tau_of_percentile(tau(&twice), &below);
    close(used, 5.6, 1e-9);
    close(20.0 / used, 3.571, 5e-4);
    let mixed = [5., 1., 4., 2., 3., 9., 8., 7., 6., 10., 12., 11., 3., 2., 4., 1., 6., 5., 8., 7.];
    close(tau(&mixed), 2.035847, 5e-7);
    close(tau(&[7.1; 50]), 1.0, 1e-12);
    assert_eq!((tau(&[]), tau(&[3.0])), (1.0, 1.0));
    assert_eq!((cautious(2.0), cautious(2.5)), (2.0, 5.0));
    // Long enough for the transform to take over from the direct sums.
    let wave: Vec<f64> = (0..1000)
        .map(|i| f64::from(i) / 80.0)
        .map(f64::sin)
        .zip((0..1000).map(|i| f64::from(i * i).cos()))
        .map(|(a, b)| a + 0.1 * b)
        .collect();
    close(tau(&wave), 164.4794413772111, 1e-6);
}

#[test]
fn mean_interval_agrees_with_scipy() {
    // 12, 15, 11, 19, 14, 13
    let interval = mean_interval(14.0, 2.8284271247461903, 6.0);
    close(interval.low.unwrap(), 11.031747770442824, 1e-6);
    close(interval.high.unwrap(), 16.968252229557176, 1e-6);
}

#[test]
fn client_error() {
    let mut suspects: Vec<Suspect> =
        (0..9).map(|i| Suspect { value: 40.0 + 2.0 * f64::from(i), lag: 0.0, touched: i == 8 }).collect();
    suspects.push(Suspect { value: 250.0, lag: 190.0, touched: true });
    let bound = |p| client_error_bound(&suspects, p, PercentileRule::Linear, 0.0).unwrap();
    close(bound(0.9).pair, 19.0, 1e-9);
    close(bound(0.5).pair, 0.0, 1e-9);
    close(bound(0.9).window, 23.2, 1e-9);
    close(bound(0.5).window, 4.0, 1e-9);
    close(bound(0.9).bound, 23.2, 1e-9);
    close(client_error_bound(&suspects, 0.9, PercentileRule::Linear, 0.5).unwrap().bound, 24.2, 1e-9);
    assert_eq!(client_error_bound(&[], 0.9, PercentileRule::Linear, 0.0), None);
}

fn alternating(i: usize, by: f64) -> f64 {
    if i.is_multiple_of(2) { by } else { -by }
}

#[test]
fn a_step_of_speed() {
    let y: Vec<f64> = (0..20).map(|i| if i >= 10 { 0.2 } else { 0.0 } + alternating(i, 0.01)).collect();
    let change = speed_change(&y, &[]).unwrap();
    close(change.step_t, 42.4264, 5e-4);
    assert_eq!(change.at, 10);
    close(change.step, 0.2, 1e-9);
    close(change.trend_t, 3.8731, 5e-5);
    close(change.trend, 0.2977, 5e-5);
    assert!(change.fails());
}

#[test]
fn no_change_of_speed() {
    let y: Vec<f64> = (0..20).map(|i| alternating(i, 0.01)).collect();
    let change = speed_change(&y, &[]).unwrap();
    close(change.step_t, 0.6, 5e-5);
    close(change.trend_t, 0.3693, 5e-5);
    assert!(!change.fails());
}

#[test]
fn a_trend_of_speed() {
    let y: Vec<f64> = (0..20).map(|i| 0.01 * i as f64 + alternating(i, 0.005)).collect();
    let change = speed_change(&y, &[]).unwrap();
    close(change.step_t, 3.5494, 5e-5);
    close(change.step, 0.099, 5e-5);
    close(change.trend_t, 48.7442, 5e-5);
    close(change.trend, 0.1985, 5e-5);
    assert!(change.fails());
}

#[test]
fn a_covariate_uncovers_a_step() {
    let c: Vec<f64> = (0..20).map(|i| (i % 5) as f64 - 2.0).collect();
    let y: Vec<f64> =
        (0..20).map(|i| 0.1 * c[i] + if i >= 12 { 0.15 } else { 0.0 } + alternating(i, 0.01)).collect();
    let change = speed_change(&y, &[&c]).unwrap();
    close(change.step_t, 29.5799, 5e-5);
    assert_eq!(change.at, 12);
    close(change.step, 0.15, 1e-9);
    close(speed_change(&y, &[]).unwrap().step_t, 2.7211, 5e-5);
    // A covariate without variation is left out, and does no harm.
    assert_eq!(speed_change(&y, &[&[3.0; 20]]), speed_change(&y, &[]));
    assert_eq!(speed_change(&y[..7], &[]), None);
}

#[test]
fn a_growing_queue() {
    let levels: Vec<f64> = (0..20).map(|i| 10.0 + 2.0 * f64::from(i)).collect();
    let g = growth(&levels, 3.0, 10.0).unwrap();
    close(g.slope_per_s, 0.6667, 5e-5);
    close(g.share, 0.06667, 5e-6);
    assert_eq!(g.s, 190);
    close(g.z, 6.13197, 5e-6);
    assert!(measure::steady::is_overload(&g, spec::Nanos::from_secs(60)));
}

#[test]
fn a_queue_that_only_flutters() {
    let levels: Vec<f64> = (0..20).map(|i| f64::from(10 + i % 2)).collect();
    let g = growth(&levels, 3.0, 10.0).unwrap();
    close(g.slope_per_s, 0.002506, 5e-7);
    assert_eq!(g.s, 10);
    close(g.z, 0.2920, 5e-5);
    assert!(!measure::steady::is_overload(&g, spec::Nanos::from_secs(60)));
    assert_eq!(growth(&levels, 3.0, 0.0), None);
    assert_eq!(growth(&levels[..1], 3.0, 1.0), None);
}

#[test]
fn survival_with_cut_requests() {
    let lifetime = |(time, cut): (f64, bool)| Lifetime { time, cut };
    let mut lifetimes: Vec<Lifetime> = [
        (1.0, false),
        (2.0, false),
        (2.5, true),
        (3.0, false),
        (4.0, false),
        (5.0, true),
        (6.0, false),
        (7.0, false),
        (8.0, true),
        (10.0, false),
    ]
    .map(lifetime)
    .to_vec();
    let survival = kaplan_meier(&lifetimes);
    let expected = [0.9, 0.8, 0.8, 0.68571, 0.57143, 0.57143, 0.42857, 0.28571, 0.28571, 0.0];
    for (lifetime, expected) in lifetimes.iter().zip(expected) {
        close(survival.at(lifetime.time), expected, 5e-6);
    }
    assert_eq!((survival.percentile(0.5), survival.percentile(0.9)), (Some(6.0), Some(10.0)));
    lifetimes[9].cut = true;
    assert_eq!(kaplan_meier(&lifetimes).percentile(0.9), None);
    assert_eq!(kaplan_meier(&[]).percentile(0.5), None);
}

/// Two very different values: the t interval would reach below zero, where no duration lies.
#[test]
fn the_interval_of_a_mean_duration_never_reaches_below_zero() {
    let interval = measure::interval::mean_interval(140.0, 264.0, 6.0);
    assert_eq!(interval.low, Some(0.0));
    assert!(interval.high.is_some_and(|high| high > 400.0));
}
