//! Divergence and perplexity against the formulas of llama-perplexity, and by hand.
#![allow(clippy::unwrap_used, missing_docs)]

use proptest::prelude::*;
use quality::divergence::*;
use quality::{Generated, Hash};
use serde_json::Value;

/// A transcription of the formulas of `llama-perplexity` into NumPy, in 64 bits; not that program's own
/// output, which keeps the baseline in 16 bits.
const ORACLE: &str = include_str!("data/kld_derived.json");

fn oracle() -> Value {
    serde_json::from_str(ORACLE).unwrap()
}

fn row(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn positions(all: &Value, name: &str) -> Vec<Position> {
    let targets = row(&all["target_tokens"]);
    let rows = all[name].as_array().unwrap().iter().map(row);
    rows.zip(targets)
        .map(|(logits, target)| {
            let top = TopK::of_logits(&logits);
            let target = target as u32;
            let logprob = top.entries.iter().find(|(id, _)| *id == target).unwrap().1;
            Position { target, logprob, top }
        })
        .collect()
}

fn close(got: f64, want: &Value) {
    let want = want.as_f64().unwrap();
    assert!((got - want).abs() <= 1e-11 * want.abs().max(1.0), "{got} is not {want}");
}

fn definition(windows: Windows) -> Definition {
    Definition { windows, bos: windows.bos(), corpus: Hash::of(b"x"), tokens: 40, bytes: None, words: None }
}

#[test]
fn every_figure_of_the_oracle() {
    let all = oracle();
    let (base, new) = (positions(&all, "base_logits"), positions(&all, "q_logits"));
    assert_eq!(base.len(), 20);
    let got = divergence(base.iter().zip(&new)).unwrap();
    close(got.perplexity.new, &all["ppl_q"]);
    close(got.perplexity.new_se.unwrap(), &all["ppl_q_unc"]);
    close(got.perplexity.base, &all["ppl_base"]);
    close(got.perplexity.value, &all["ln_ppl_ratio"]);
    close(got.perplexity.se.unwrap(), &all["ln_ppl_ratio_unc"]);
    close(got.perplexity.correlation.unwrap(), &all["corr"]);
    let kl = got.kl.unwrap();
    assert_eq!((kl.kind, kl.fewest, kl.most, kl.left_over), (KlKind::Full, 12, 12, 0.0));
    close(kl.mean, &all["kld_mean"]);
    close(kl.mean_se.unwrap(), &all["kld_unc"]);
    close(kl.median, &all["kld_median"]);
    close(kl.p99, &all["kld_p99"]);
    close(kl.p95, &all["kld_p95"]);
    close(kl.max, &all["kld_max"]);
    close(got.delta.mean, &all["dp_mean"]);
    close(got.delta.rms, &all["dp_rms"]);
    close(got.delta.rms_se.unwrap(), &all["dp_rms_unc"]);
    let same = got.same_top.unwrap();
    close(same.share, &all["same_top"]);
    close(same.se.unwrap(), &all["same_top_unc"]);
    let nll: Vec<f64> = new.iter().map(|p| p.logprob).collect();
    let ppl = perplexity(&nll, definition(Windows::SecondHalf { size: 512 })).unwrap();
    close(ppl.value, &all["ppl_q"]);
    close(ppl.se.unwrap(), &all["ppl_q_unc"]);
}

#[test]
fn windows_as_llama_perplexity_cuts_them() {
    for case in oracle()["chunking"].as_array().unwrap() {
        let u = |name: &str| case[name].as_u64().unwrap() as usize;
        let windows = Windows::SecondHalf { size: u("n_ctx") };
        let cut = windows.over(u("n_tokens"));
        assert_eq!(cut.len(), u("n_chunk"));
        assert!(cut.iter().all(|w| w.to - w.scored == u("scored_per_chunk")));
        assert!(cut.iter().all(|w| w.scored - w.from == u("first_scored_index_in_chunk")));
        assert_eq!(cut.iter().map(|w| w.to - w.scored).sum::<usize>(), u("scored_total"));
        assert_eq!(windows.bos(), Bos::ReplacesFirst);
    }
}

/// By hand, for a text of 10 tokens.
#[test]
fn other_windows_by_hand() {
    let cut = |windows: Windows| -> Vec<(usize, usize, usize)> {
        windows.over(10).iter().map(|w| (w.from, w.scored, w.to)).collect()
    };
    assert_eq!(cut(Windows::Disjoint { size: 4 }), [(0, 1, 4), (4, 5, 8)]);
    assert_eq!(cut(Windows::Strided { size: 4, stride: 2 }), [(0, 1, 4), (2, 4, 6), (4, 6, 8), (6, 8, 10)]);
    // Blocks 0–4, 4–8, 8–10; the last is filled up to the left.
    assert_eq!(cut(Windows::Rolling { size: 4 }), [(0, 0, 4), (3, 4, 8), (5, 8, 10)]);
    for nothing in [
        Windows::Disjoint { size: 0 },
        Windows::SecondHalf { size: 11 },
        Windows::Strided { size: 4, stride: 0 },
        Windows::Strided { size: 4, stride: 5 },
        Windows::Rolling { size: 0 },
    ] {
        assert!(cut(nothing).is_empty(), "{nothing:?}");
    }
}

/// Two tokens of ¼ and ½ are −ln of 1.386 and 0.693: a perplexity of √8, 3 bits over 6 bytes.
#[test]
fn a_perplexity_says_by_what() {
    let mut of = definition(Windows::Disjoint { size: 2048 });
    (of.bytes, of.words) = (Some(6), Some(1));
    let got = perplexity(&[0.25_f64.ln(), 0.5_f64.ln()], of).unwrap();
    assert!((got.value - 8.0_f64.sqrt()).abs() < 1e-12);
    assert!((got.bits_per_byte.unwrap() - 0.5).abs() < 1e-12);
    assert!((got.by(Unit::Word).unwrap() - 8.0).abs() < 1e-12);
    assert!((got.by(Unit::Byte).unwrap() - 2.0_f64.sqrt()).abs() < 1e-12);
    assert_eq!(perplexity(&[], definition(Windows::Disjoint { size: 8 })), None);
    assert_eq!(perplexity(&[f64::NEG_INFINITY], definition(Windows::Disjoint { size: 8 })), None);
    assert_eq!(perplexity(&[-1.0], definition(Windows::Disjoint { size: 8 })).unwrap().by(Unit::Word), None);
}

fn at(target: u32, top: &[(u32, f64)], all: &[f64]) -> Position {
    let top = TopK::new(top.iter().map(|(id, p)| (*id, p.ln())).collect());
    Position { target, logprob: all[target as usize].ln(), top }
}

/// p = (½, ¼, ⅛, ⅛), q = (¼, ½, ⅛, ⅛): KL = ½ ln 2 − ¼ ln 2 = 0.173. Of the two likeliest and the rest it is
/// the same; of the likeliest alone and its rest it is ½ ln 2 + ½ ln ⅔ = 0.144.
#[test]
fn a_part_of_the_tokens_gives_a_lower_bound_by_hand() {
    let (p, q) = ([0.5, 0.25, 0.125, 0.125], [0.25, 0.5, 0.125, 0.125]);
    let (base, new) = (at(0, &[(0, 0.5), (1, 0.25)], &p), at(0, &[(1, 0.5), (0, 0.25)], &q));
    let kl = divergence([(&base, &new)]).unwrap().kl.unwrap();
    assert_eq!((kl.kind, kl.fewest), (KlKind::LowerBound, 2));
    assert!((kl.mean - 0.25 * 2.0_f64.ln()).abs() < 1e-9, "{}", kl.mean);
    assert!((kl.left_over - 0.25).abs() < 1e-9);
    // The new server tells another token: what is shared is the text's own.
    let (base, new) = (at(0, &[(0, 0.5)], &p), at(0, &[(1, 0.5)], &q));
    let got = divergence([(&base, &new)]).unwrap();
    let kl = got.kl.unwrap();
    assert!((kl.mean - (0.5 * 2.0_f64.ln() + 0.5 * (2.0_f64 / 3.0).ln())).abs() < 1e-9, "{}", kl.mean);
    assert!(got.same_top.unwrap().share < 1e-12);
    // Another text is no pair; no likeliest tokens, no divergence.
    assert_eq!(divergence([(&at(0, &[], &p), &at(1, &[], &q))]), None);
    assert_eq!(divergence([(&at(0, &[], &p), &at(0, &[], &q))]).unwrap().kl, None);
    assert_eq!(divergence([]), None);
}

#[test]
fn a_position_is_kept_in_few_bytes() {
    let entries: Vec<(u32, f64)> = (0..10_u32).map(|i| (1000 * i, -1.0 - f64::from(i))).collect();
    let position = Position { target: 9000, logprob: -10.0, top: TopK::new(entries) };
    let text = serde_json::to_string(&position).unwrap();
    assert!(text.len() < 160, "{text}");
    let back: Position = serde_json::from_str(&text).unwrap();
    assert_eq!(back.top.entries, position.top.entries);
    assert!((back.top.tail.unwrap() - position.top.tail.unwrap()).abs() < 1e-5);
    for wrong in ["[]", "[1,2]", "[1,-2,-1]", "[1,2,-1,3]", "[-1,2,-1]", "[1,2,-1,4,-5]", "{}"] {
        assert!(serde_json::from_str::<Position>(wrong).is_err(), "{wrong}");
    }
    // What is impossible is kept as very unlikely, never as NaN or infinity.
    let never = Position { target: 0, logprob: f64::NEG_INFINITY, top: TopK::default() };
    assert_eq!(serde_json::to_string(&never).unwrap(), "[0,999900000,-1]");
}

#[test]
fn where_two_answers_part() {
    assert_eq!(first_difference([1, 2, 3], [1, 2, 3]), None);
    assert_eq!(first_difference([1, 2, 3], [1, 9, 3]), Some(1));
    assert_eq!(first_difference([1, 2], [1, 2, 3]), Some(2));
    let answer = |text: &str, token_ids: &[u32]| Generated {
        text: text.to_owned(),
        token_ids: token_ids.to_vec(),
        ..Generated::default()
    };
    let (a, b, c) = (answer("one two", &[1, 2]), answer("one too", &[1, 3]), answer("one", &[]));
    let got = identity([(&a, &a), (&a, &b)]).unwrap();
    assert_eq!((got.pairs, got.identical, got.unit, got.earliest), (2, 1, IdentityUnit::Tokens, Some(1)));
    let got = identity([(&a, &b), (&a, &c)]).unwrap();
    assert_eq!((got.unit, got.earliest, got.median), (IdentityUnit::Characters, Some(3), Some(5)));
    assert_eq!(identity([]), None);
}

proptest! {
    /// The bound never exceeds the whole, and a model lies at 0 from itself, in whatever part it is kept.
    #[test]
    fn the_lower_bound_is_one(
        logits in prop::collection::vec((-8.0_f64..8.0, -8.0_f64..8.0), 2..40),
        k in 1_usize..10,
        target in 0_usize..40,
    ) {
        let target = target % logits.len();
        let of = |which: &dyn Fn(&(f64, f64)) -> f64| TopK::of_logits(&logits.iter().map(which).collect::<Vec<_>>());
        let position = |top: &TopK, k: usize| {
            let logprob = top.entries.iter().find(|(id, _)| *id == target as u32).unwrap().1;
            let part = TopK::new(top.entries.iter().copied().take(k).collect());
            Position { target: target as u32, logprob, top: if k < top.entries.len() { part } else { top.clone() } }
        };
        let (p, q) = (of(&|x| x.0), of(&|x| x.1));
        let whole = divergence([(&position(&p, 99), &position(&q, 99))]).unwrap().kl.unwrap();
        let part = divergence([(&position(&p, k), &position(&q, k))]).unwrap().kl.unwrap();
        prop_assert!(whole.kind == KlKind::Full && whole.mean.is_finite());
        prop_assert!(part.mean <= whole.mean + 1e-7, "{} {}", part.mean, whole.mean);
        let itself = divergence([(&position(&p, k), &position(&p, k))]).unwrap();
        prop_assert!(itself.kl.unwrap().mean.abs() < 1e-9);
        prop_assert!(itself.perplexity.value.abs() < 1e-12);
        // Kept and read again it is the same to a hundredth of a thousandth of a nat.
        let kept: Position = serde_json::from_str(&serde_json::to_string(&position(&q, k)).unwrap()).unwrap();
        let again = divergence([(&position(&p, k), &kept)]).unwrap().kl.unwrap();
        prop_assert!((again.mean - part.mean).abs() < 1e-4);
    }
}
