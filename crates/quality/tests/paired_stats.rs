//! The statistics against SciPy and statsmodels, and by simulation.
#![allow(clippy::unwrap_used, missing_docs)]

use measure::interval::{clopper_pearson, wilson};
use proptest::prelude::*;
use quality::stats::*;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng as _;
use serde_json::Value;

/// Made by SciPy and statsmodels.
const ORACLE: &str = include_str!("data/stats.json");

fn oracle(name: &str) -> Value {
    serde_json::from_str::<Value>(ORACLE).unwrap()[name].clone()
}

fn rows(of: &Value) -> Vec<Value> {
    of.as_array().unwrap().clone()
}

fn close(got: f64, want: &Value, what: &str) {
    let want = want.as_f64().unwrap_or_else(|| panic!("{what}: no number"));
    assert!((got - want).abs() <= 1e-10 * want.abs().max(1e-3), "{what}: {got} is not {want}");
}

fn u(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap()
}

fn f(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap()
}

#[test]
fn mcnemar_as_scipy() {
    let cases = rows(&oracle("mcnemar"));
    assert_eq!(cases.len(), 9);
    for row in cases {
        let got = mcnemar(u(&row, "n10_base_right_new_wrong"), u(&row, "n01_base_wrong_new_right"));
        close(got.exact, &row["exact_one_sided_degradation"], "exact");
        close(got.mid_p, &row["mid_p_one_sided"], "mid-p");
        close(got.two_sided, &row["exact_two_sided"], "two-sided");
        match got.chi2 {
            Some(chi2) => close(chi2, &row["chi2_continuity"], "chi2"),
            None => assert!(row["chi2_continuity"].is_null()),
        }
    }
}

#[test]
fn intervals_of_a_share_as_statsmodels() {
    for row in rows(&oracle("wilson95")) {
        let n = f(&row, "n");
        let got = wilson(f(&row, "k") / n, n);
        close(got.low.unwrap(), &row["lo"], "low");
        close(got.high.unwrap(), &row["hi"], "high");
    }
    for row in rows(&oracle("clopper_pearson95")) {
        let n = f(&row, "n");
        let (low, high) = clopper_pearson(f(&row, "k") / n, n);
        close(low, &row["lo"], "low");
        close(high, &row["hi"], "high");
    }
}

#[test]
fn the_ratio_with_the_variance_of_the_data_as_scipy() {
    let cases = rows(&oracle("noninferiority_ratio")["cases"]);
    assert_eq!(cases.len(), 5);
    for row in cases {
        let (n, base, lost, gained) = (u(&row, "n"), u(&row, "base_correct"), u(&row, "n10"), u(&row, "n01"));
        let cells = Cells { both: base - lost, lost, gained, neither: n - base - gained };
        let paired = Paired::of_cells(cells).unwrap();
        let got = wald(&paired, 0.95, 0.05);
        close(got.difference, &row["diff"], "difference");
        close(got.difference_se, &row["se"], "se");
        close(got.difference_low, &row["one_sided_95_lower_bound_of_diff"], "bound");
        close(got.z.unwrap(), &row["z_ratio_noninferiority"], "z");
        close(got.p.unwrap(), &row["p_ratio_noninferiority"], "p");
        let bare = BareRatio::of(&paired, 0.95);
        close(bare.ratio.unwrap(), &row["ratio_point"], "ratio");
        assert_eq!(Some(bare.passes), row["ratio_gate_pass"].as_bool());
        // The same from the scores themselves.
        let pairs = scores(&cells);
        let again = Paired::of(&pairs).unwrap();
        assert_eq!(again.cells, Some(cells));
        let other = wald(&again, 0.95, 0.05);
        assert!((other.z.unwrap() - got.z.unwrap()).abs() < 1e-9);
    }
}

#[test]
fn the_error_rates_of_the_bare_ratio() {
    let cases = rows(&oracle("gate_500_tau095_pass_probability")["rows"]);
    assert_eq!(cases.len(), 24);
    for row in cases {
        let (base, d) = (f(&row, "p_base"), f(&row, "discordance"));
        for (name, ratio) in
            [("1.0", 1.0), ("0.98", 0.98), ("0.95", 0.95), ("0.92", 0.92), ("0.9", 0.9), ("0.85", 0.85)]
        {
            let want = &row[format!("pass@ratio{name}").as_str()];
            let got = bare_ratio_passes(base, d, ratio, 0.95, 500);
            match (got, want.is_null()) {
                (Some(got), false) => close(got, want, "pass"),
                (None, true) => {}
                // A pair at the edge of the possible, lost to rounding there: a cell is 0 by its decimals.
                (Some(_), true) => assert!(least_cell(base, ratio * base, d) < 1e-12, "{base} {d} {ratio}"),
                (None, false) => panic!("{base} {d} {ratio}: not defined"),
            }
        }
    }
}

fn least_cell(base: f64, new: f64, d: f64) -> f64 {
    let (lost, gained) = (0.5 * (d + base - new), 0.5 * (d - base + new));
    [lost, gained, base - lost, 1.0 - base - gained].into_iter().fold(f64::INFINITY, f64::min).abs()
}

#[test]
fn sample_sizes() {
    for row in rows(&oracle("n_needed_noninferiority_tau095")["rows"]) {
        let (base, d) = (f(&row, "p_base"), f(&row, "discordance"));
        for (name, power) in [("n_alpha05_power80", 0.8), ("n_alpha05_power90", 0.9)] {
            let got = needed_paired(base, d, 0.95, 0.05, power);
            if row[name].is_null() {
                assert!(got.is_none() || least_cell(base, base, d) < 1e-12);
            } else {
                assert_eq!(got, row[name].as_u64(), "{base} {d}");
            }
        }
    }
    for row in rows(&oracle("n_unpaired_tau095_alpha05_power80")) {
        assert_eq!(needed_unpaired(f(&row, "p_base"), 0.95, 0.05, 0.8), row["n_per_arm"].as_u64());
    }
}

#[test]
fn speculative_numbers() {
    let all = oracle("spec_decode");
    for row in rows(&all["E_tokens_per_step"]) {
        close(speculative::expected_length(f(&row, "alpha"), u(&row, "k") as u32), &row["E"], "E");
    }
    for row in rows(&all["from_counters"]) {
        let counts = speculative::Counts {
            steps: row["drafts"].as_u64(),
            proposed: row["draft_tokens"].as_u64(),
            accepted: row["accepted"].as_u64(),
            accepted_at: rows(&row["per_pos"]).iter().map(|v| v.as_u64().unwrap()).collect(),
            output: None,
        };
        let got = counts.acceptance();
        close(got.rate.unwrap(), &row["acceptance_rate"], "rate");
        close(got.mean_length.unwrap(), &row["mean_acceptance_length_with_bonus"], "length");
        for (got, want) in [(got.at, &row["per_pos_rate"]), (got.conditional, &row["conditional_per_pos"])] {
            assert_eq!(got.len(), 3);
            for (got, want) in got.iter().zip(rows(want)) {
                close(*got, &want, "at a position");
            }
        }
    }
}

/// By hand: three p-values, 0.01 × 3, then 0.02 × 2, then 0.5.
#[test]
fn holm_by_hand() {
    assert_eq!(holm(&[0.5, 0.01, 0.02]), [0.5, 0.03, 0.04]);
    // Never below the one before: 0.03 × 2 = 0.06, and 0.05 × 1 stays at it.
    assert_eq!(holm(&[0.03, 0.05]), [0.06, 0.06]);
    assert_eq!(holm(&[]), Vec::<f64>::new());
    assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
}

fn scores(cells: &Cells) -> Vec<Scores> {
    let of = |base, new, n| std::iter::repeat_n(Scores { base, new }, n as usize);
    of(1.0, 1.0, cells.both)
        .chain(of(1.0, 0.0, cells.lost))
        .chain(of(0.0, 1.0, cells.gained))
        .chain(of(0.0, 0.0, cells.neither))
        .collect()
}

/// The likeliest cells under `new = τ × base`, by brute force over the two that are free.
fn constrained_variance(cells: &Cells, tau: f64) -> f64 {
    let n = cells.n() as f64;
    let neither = cells.neither as f64 / n;
    let term = |count: u64, p: f64| if count == 0 { 0.0 } else { count as f64 * p.max(1e-300).ln() };
    let steps = 200_000;
    let mut best = (f64::NEG_INFINITY, 0.0);
    for i in 0..=steps {
        // both + lost + gained = 1 − neither and both + gained = τ (both + lost) leave one free.
        let gained = (1.0 - neither) * f64::from(i) / f64::from(steps);
        let lost = tau * gained + (1.0 - tau) * (1.0 - neither);
        let both = 1.0 - neither - gained - lost;
        if both < 0.0 {
            break;
        }
        let likely = term(cells.both, both) + term(cells.lost, lost) + term(cells.gained, gained);
        if likely > best.0 {
            best = (likely, tau * (gained + lost));
        }
    }
    best.1
}

#[test]
fn the_variance_of_the_score_test_is_that_of_the_likeliest_cells() {
    for (both, lost, gained, neither) in [(110, 40, 40, 310), (380, 20, 18, 82), (60, 9, 8, 9), (7, 4, 6, 2)]
    {
        let cells = Cells { both, lost, gained, neither };
        let paired = Paired::of_cells(cells).unwrap();
        let want = constrained_variance(&cells, 0.95);
        let z = paired.excess(0.95) / (want / paired.n as f64).sqrt();
        let got = non_inferiority(&paired, 0.95, 0.05);
        let p = measure::special::normal_cdf(-z);
        assert!((got.p_pass - p).abs() < 1e-4, "{cells:?}: {} {p}", got.p_pass);
        assert!(got.p_pass + got.p_fail >= 1.0 - 1e-12);
    }
}

/// With few gains the exact binomial is the more careful: of 60 documents 50 are right, so at the limit
/// 0.0417 of them turn wrong on average; 4 more turned wrong than right.
#[test]
fn few_flips_are_counted_exactly() {
    let paired = Paired::of_cells(Cells { both: 45, lost: 5, gained: 1, neither: 9 }).unwrap();
    let q: f64 = 0.05 * 50.0 / 60.0;
    let (mut term, mut sum) = ((1.0 - q).powi(60), 0.0);
    for k in 0..=4 {
        sum += term;
        term *= f64::from(60 - k) / f64::from(k + 1) * q / (1.0 - q);
    }
    let got = non_inferiority(&paired, 0.95, 0.05);
    assert!((got.p_pass - sum).abs() < 1e-12, "{} {sum}", got.p_pass);
    assert!(got.p_fail > 0.2);
}

/// Without flips PASS needs 0.95^n ≤ 0.05 at an accuracy of 1: 59 questions; of three nothing follows.
#[test]
fn few_questions_prove_nothing() {
    let of = |n| Paired::of_cells(Cells { both: n, lost: 0, gained: 0, neither: 0 }).unwrap();
    for (n, want) in [(3, Decision::Inconclusive), (58, Decision::Inconclusive), (59, Decision::Pass)] {
        let got = non_inferiority(&of(n), 0.95, 0.05);
        assert_eq!(got.decision, want, "{n}");
        assert_eq!(got.fewest, Some(59));
        assert_eq!(got.ratio.low.unwrap() > 0.95, want == Decision::Pass);
    }
    // Scores between 0 and 1 that are all the same are no better: (1 − 0.05 × 0.5)^n ≤ 0.05 from 119 on.
    let half = |n: usize| Paired::of(&vec![Scores { base: 0.5, new: 0.5 }; n]).unwrap();
    assert_eq!(non_inferiority(&half(118), 0.95, 0.05).decision, Decision::Inconclusive);
    assert_eq!(non_inferiority(&half(119), 0.95, 0.05).decision, Decision::Pass);
    let nothing = Paired::of_cells(Cells { both: 0, lost: 0, gained: 9, neither: 900 }).unwrap();
    let got = non_inferiority(&nothing, 0.95, 0.05);
    assert_eq!((got.fewest, got.ratio.low), (None, None));
}

/// The bounds are those ratios at which the verdict turns.
#[test]
fn bounds_turn_the_verdict() {
    let cells = Cells { both: 360, lost: 40, gained: 20, neither: 80 };
    let paired = Paired::of_cells(cells).unwrap();
    let bounds = non_inferiority(&paired, 0.95, 0.05).ratio;
    let (low, high) = (bounds.low.unwrap(), bounds.high.unwrap());
    let at = |tau: f64| non_inferiority(&paired, tau, 0.05).decision;
    assert!(low < 0.95 && high > 0.95 && high < 1.0, "{low} {high}");
    assert_eq!(at(low - 1e-6), Decision::Pass);
    assert_eq!(at(low + 1e-6), Decision::Inconclusive);
    assert_eq!(at(high - 1e-6), Decision::Inconclusive);
    assert_eq!(at(high + 1e-6), Decision::Fail);
}

struct Truth {
    base: f64,
    discordance: f64,
    ratio: f64,
    n: u32,
}

fn draw(rng: &mut ChaCha8Rng, truth: &Truth) -> Cells {
    let drop = truth.base * (1.0 - truth.ratio);
    let (lost, gained) = (0.5 * (truth.discordance + drop), 0.5 * (truth.discordance - drop));
    let mut cells = Cells { both: 0, lost: 0, gained: 0, neither: 0 };
    for _ in 0..truth.n {
        let u = rng.next_u64() as f64 / u64::MAX as f64;
        let cell = if u < lost {
            &mut cells.lost
        } else if u < lost + gained {
            &mut cells.gained
        } else if u < truth.base + gained {
            &mut cells.both
        } else {
            &mut cells.neither
        };
        *cell += 1;
    }
    cells
}

/// At the limit itself PASS and FAIL are both wrong: each may come in 5 % of 500 pairs of journals. The
/// allowance is what 500 draws of 5 % stay below in all but 1 in 1000.
#[test]
fn error_rates_at_the_limit() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let allowed = 41;
    for (base, discordance, n) in [
        (0.3, 0.15, 500),
        (0.3, 0.03, 500),
        (0.6, 0.08, 200),
        (0.8, 0.08, 500),
        (0.9, 0.06, 120),
        (0.95, 0.05, 80),
    ] {
        let truth = Truth { base, discordance, ratio: 0.95, n };
        let (mut passed, mut failed) = (0, 0);
        for _ in 0..500 {
            let paired = Paired::of_cells(draw(&mut rng, &truth)).unwrap();
            match non_inferiority(&paired, 0.95, 0.05).decision {
                Decision::Pass => passed += 1,
                Decision::Fail => failed += 1,
                Decision::Inconclusive => {}
            }
        }
        assert!(passed <= allowed && failed <= allowed, "{base} {discordance} {n}: {passed} {failed}");
        // The tests are not idle either: an equal server passes with the planned power.
        let n = needed_paired(0.8, 0.08, 0.95, 0.05, 0.8).unwrap() as u32;
        let truth = Truth { base: 0.8, discordance: 0.08, ratio: 1.0, n };
        let passes = (0..100).filter(|_| {
            let paired = Paired::of_cells(draw(&mut rng, &truth)).unwrap();
            non_inferiority(&paired, 0.95, 0.05).decision == Decision::Pass
        });
        assert!(passes.count() >= 65);
    }
}

/// Scores between 0 and 1 at the limit: most stay, few are lost whole.
#[test]
fn error_rates_of_fractions_at_the_limit() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let mut unit = || rng.next_u64() as f64 / u64::MAX as f64;
    let (mut passed, mut failed) = (0, 0);
    for _ in 0..500 {
        let pairs: Vec<Scores> = (0..200)
            .map(|_| {
                // Means: 0.5 and 0.05 × 1 + 0.85 × 0.5 = 0.475.
                let (base, u) = (0.25 + 0.5 * unit(), unit());
                let new = if u < 0.10 {
                    0.0
                } else if u < 0.15 {
                    1.0
                } else {
                    base
                };
                Scores { base, new }
            })
            .collect();
        match non_inferiority(&Paired::of(&pairs).unwrap(), 0.95, 0.05).decision {
            Decision::Pass => passed += 1,
            Decision::Fail => failed += 1,
            Decision::Inconclusive => {}
        }
    }
    assert!(passed <= 41 && failed <= 41, "{passed} {failed}");
}

#[test]
fn the_bootstrap_agrees_with_the_formula_and_repeats() {
    let cells = Cells { both: 330, lost: 30, gained: 25, neither: 115 };
    let pairs = scores(&cells);
    let x: Vec<f64> = pairs.iter().map(|p| p.new - 0.95 * p.base).collect();
    let wald = wald(&Paired::of(&pairs).unwrap(), 0.95, 0.05);
    let got = bootstrap(std::slice::from_ref(&x), 2000, 5, 0.05).unwrap();
    let (low, high) = (got.excess.low.unwrap(), got.excess.high.unwrap());
    let (t_low, t_high) = (wald.excess_bounds.low.unwrap(), wald.excess_bounds.high.unwrap());
    let width = t_high - t_low;
    assert!(
        (low - t_low).abs() < 0.08 * width && (high - t_high).abs() < 0.08 * width,
        "{low} {high} {wald:?}"
    );
    assert_eq!(bootstrap(std::slice::from_ref(&x), 2000, 5, 0.05), Some(got));
    assert_ne!(bootstrap(std::slice::from_ref(&x), 2000, 6, 0.05), Some(got));
    // Strata of equal values do not vary.
    let strata = bootstrap(&[vec![0.5; 10], vec![-0.5; 30]], 100, 5, 0.05).unwrap();
    assert_eq!((strata.excess.low, strata.excess.high, strata.strata), (Some(-0.25), Some(-0.25), 2));
    assert!(bootstrap(&[], 100, 5, 0.05).is_none() && bootstrap(&[x], 0, 5, 0.05).is_none());
}

fn rank(decision: Decision) -> u8 {
    match decision {
        Decision::Fail => 0,
        Decision::Inconclusive => 1,
        Decision::Pass => 2,
    }
}

proptest! {
    /// A question more that the new server gets right never makes the verdict worse.
    #[test]
    fn verdicts_are_monotone(both in 0_u64..400, lost in 0_u64..60, gained in 0_u64..60, neither in 0_u64..400) {
        let cells = Cells { both, lost, gained, neither };
        let at = |cells: Cells| Paired::of_cells(cells).map(|p| non_inferiority(&p, 0.95, 0.05));
        if let Some(before) = at(cells) {
            prop_assert!((0.0..=1.0).contains(&before.p_pass) && (0.0..=1.0).contains(&before.p_fail));
            let better = [
                (lost > 0).then(|| Cells { both: both + 1, lost: lost - 1, ..cells }),
                (neither > 0).then(|| Cells { gained: gained + 1, neither: neither - 1, ..cells }),
            ];
            for better in better.into_iter().flatten() {
                let after = at(better).unwrap();
                prop_assert!(rank(after.decision) >= rank(before.decision), "{cells:?} {better:?}");
            }
        }
    }

    #[test]
    fn verdicts_of_fractions_are_monotone(
        pairs in prop::collection::vec((0.0_f64..=1.0, -0.3_f64..=0.2), 2..300),
        which in 0_usize..300,
        rise in 0.0_f64..=1.0,
    ) {
        let mut pairs: Vec<Scores> =
            pairs.iter().map(|(base, by)| Scores { base: *base, new: (base + by).clamp(0.001, 0.999) }).collect();
        let before = non_inferiority(&Paired::of(&pairs).unwrap(), 0.95, 0.05);
        let at = which % pairs.len();
        pairs[at].new += rise * (0.999 - pairs[at].new);
        let after = non_inferiority(&Paired::of(&pairs).unwrap(), 0.95, 0.05);
        prop_assert!(rank(after.decision) >= rank(before.decision), "{before:?} {after:?}");
        for bound in [after.ratio.low, after.ratio.high].into_iter().flatten() {
            prop_assert!(bound.is_finite() && bound >= 0.0);
        }
    }
}
