//! Two journals through the gate: simulated servers that are the same, worse, broken.
#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use quality::breakage::{Kind, State};
use quality::divergence::{KlKind, Position, TopK, put_positions};
use quality::gate::{Choice, Report, Rule, Settings, compare};
use quality::stats::Decision;
use quality::{Answer, Ask, Generate, Generated, Hash, Item, Outcome, Prompt, Scored};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng as _;
use serde_json::{Value, json};

fn quick() -> Settings {
    Settings { resamples: 200, ..Settings::default() }
}

/// A question whose answer is one of A to D.
fn item(task: &str, doc: u64, right: bool) -> Item {
    let gold = ["A", "B", "C", "D"][(doc % 4) as usize];
    let given = if right { gold } else { ["B", "C", "D", "A"][(doc % 4) as usize] };
    let generated = Generated {
        text: format!("The answer is {given}."),
        finish_reason: Some("stop".to_owned()),
        output_tokens: Some(20 + doc % 7),
        ..Generated::default()
    };
    let score = f64::from(u8::from(right));
    Item {
        task: task.to_owned(),
        doc,
        repeat: 0,
        doc_hash: Hash(format!("{task}-{doc}")),
        prompt_hash: Hash(format!("p{doc}")),
        target_hash: Hash(gold.to_owned()),
        category: Some(format!("c{}", doc % 3)),
        asks: vec![Ask::Generate(Generate {
            prompt: Prompt::Text("?".to_owned()),
            max_tokens: None,
            stop: Vec::new(),
            temperature: 0.0,
            extra: serde_json::Map::new(),
        })],
        answers: vec![Answer::Generated(generated)],
        outcomes: BTreeMap::from([(
            "none".to_owned(),
            Outcome {
                extracted: Some(json!(given)),
                scores: BTreeMap::from([("exact_match".to_owned(), score)]),
                parts: serde_json::Map::new(),
            },
        )]),
    }
}

fn failed(mut item: Item) -> Item {
    item.answers = vec![Answer::Failed { reason: "500".to_owned() }];
    item.outcomes.clear();
    item
}

fn generated(item: &mut Item) -> &mut Generated {
    match &mut item.answers[0] {
        Answer::Generated(generated) => generated,
        _ => panic!("not generated"),
    }
}

/// Right on the first `right` of `n` documents.
fn journal(task: &str, n: u64, right: u64) -> Vec<Item> {
    (0..n).map(|doc| item(task, doc, doc < right)).collect()
}

fn gate(base: &[Item], new: &[Item]) -> Report {
    compare(base, new, None, &quick()).unwrap()
}

fn unit(rng: &mut ChaCha8Rng) -> f64 {
    rng.next_u64() as f64 / u64::MAX as f64
}

/// A pair of journals whose truth is `base` and `ratio × base`, with this discordance.
fn drawn(rng: &mut ChaCha8Rng, task: &str, n: u64, truth: (f64, f64, f64)) -> (Vec<Item>, Vec<Item>) {
    let (base, discordance, ratio) = truth;
    let drop = base * (1.0 - ratio);
    let (lost, gained) = (0.5 * (discordance + drop), 0.5 * (discordance - drop));
    (0..n)
        .map(|doc| {
            let u = unit(rng);
            let (b, x) = if u < lost {
                (true, false)
            } else if u < lost + gained {
                (false, true)
            } else {
                (u < base + gained, u < base + gained)
            };
            (item(task, doc, b), item(task, doc, x))
        })
        .unzip()
}

#[test]
fn a_server_against_itself_passes() {
    let base = journal("gsm8k", 500, 350);
    let report = gate(&base, &base);
    assert_eq!((report.verdict, report.exit_code), (Decision::Pass, 0), "{}", report.answer);
    let task = &report.tasks[0];
    assert_eq!((task.n, task.flips.lost, task.flips.gained, task.ratio), (500, 0, 0, Some(1.0)));
    assert!(report.breakage.iter().all(|b| b.state == State::Fine));
    assert!(
        report.answer.starts_with("PASS: the new server keeps at least 95\u{a0}% of"),
        "{}",
        report.answer
    );
    // The order of a journal means nothing.
    let turned: Vec<Item> = base.iter().rev().cloned().collect();
    assert_eq!(gate(&base, &turned), report);
    // With batching's noise of 4 % on both journals of the baseline it still passes, and the noise is told.
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let (first, second) = drawn(&mut rng, "gsm8k", 1000, (0.8, 0.04, 1.0));
    let report = compare(&first, &second, Some((&first, &second)), &quick()).unwrap();
    let noise = report.tasks[0].noise.unwrap();
    assert_eq!((report.verdict, noise.decision), (Decision::Pass, Decision::Pass));
    assert!(noise.lost > 5 && !report.warnings.iter().any(|w| w.contains("not measured twice")));
}

#[test]
fn a_worse_server_fails_and_a_task_says_which() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let (mut base, mut new) = drawn(&mut rng, "arc", 600, (0.8, 0.05, 1.0));
    let (b, n) = drawn(&mut rng, "gsm8k", 600, (0.7, 0.25, 0.75));
    base.extend(b);
    new.extend(n);
    let report = gate(&base, &new);
    assert_eq!((report.verdict, report.exit_code), (Decision::Fail, 1));
    assert!(report.answer.starts_with("FAIL: on gsm8k the new server keeps at most"), "{}", report.answer);
    let of = |name: &str| report.judged().find(|t| t.task == name).unwrap();
    assert_eq!((of("arc").decision, of("gsm8k").decision), (Decision::Pass, Decision::Fail));
    assert!(of("gsm8k").p_fail_holm >= of("gsm8k").p_fail);
    let bootstrap = of("gsm8k").bootstrap.unwrap();
    assert!(bootstrap.excess.high.unwrap() < 0.0 && bootstrap.strata == 3);
    assert!(of("gsm8k").flips.exact < 1e-6);
    // A server that is no worse than its own noise fails against nothing.
    let bad_noise = (base.as_slice(), new.as_slice());
    let report = compare(&base, &new, Some(bad_noise), &quick()).unwrap();
    assert_eq!((report.verdict, report.exit_code), (Decision::Inconclusive, 5));
    assert!(report.answer.contains("fails against itself on gsm8k"), "{}", report.answer);
}

#[test]
fn too_little_is_inconclusive_and_says_what_would_decide() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (base, new) = drawn(&mut rng, "gsm8k", 200, (0.45, 0.15, 0.96));
    let report = gate(&base, &new);
    assert_eq!((report.verdict, report.exit_code), (Decision::Inconclusive, 5), "{}", report.answer);
    let task = &report.tasks[0];
    // About the 1,748 of the tables, at the shares that were drawn.
    let equal = task.needed_if_equal.unwrap();
    assert!((800..4000).contains(&equal), "{equal}");
    assert!(report.decides[0].contains("to show an equal server to be equal"), "{:?}", report.decides);
    let small = gate(&base[..20], &base[..20]);
    assert_eq!(small.verdict, Decision::Inconclusive);
    assert!(small.answer.contains("even without a flip a PASS takes"), "{}", small.answer);
    let nothing = gate(&journal("x", 50, 0), &journal("x", 50, 10));
    assert_eq!(nothing.verdict, Decision::Inconclusive);
    assert!(nothing.answer.contains("the baseline scores 0"), "{}", nothing.answer);
    let empty = gate(&[], &[]);
    assert_eq!((empty.verdict, empty.exit_code), (Decision::Inconclusive, 5));
    assert!(empty.answer.contains("nothing in common"), "{}", empty.answer);
}

#[test]
fn a_server_that_always_says_the_same_is_caught() {
    let base = journal("arc", 100, 60);
    // It always answers A, and so is right on a quarter.
    let mut new = journal("arc", 100, 60);
    for item in &mut new {
        let outcome = item.outcomes.get_mut("none").unwrap();
        outcome.extracted = Some(json!("A"));
        outcome.scores.insert("exact_match".to_owned(), f64::from(u8::from(item.doc % 4 == 0)));
    }
    let report = gate(&base, &new);
    let found = |report: &Report, kind: Kind| report.breakage.iter().find(|b| b.kind == kind).cloned();
    let constant = found(&report, Kind::ConstantAnswer).unwrap();
    assert_eq!((constant.state, report.verdict), (State::Broken, Decision::Fail));
    assert!(
        report.answer.contains("every one of 100\u{a0}documents has the same answer"),
        "{}",
        report.answer
    );
    // Every score is the same, though half of them are right before and after.
    let half: Vec<Item> = new
        .iter()
        .cloned()
        .map(|mut item| {
            let outcome = item.outcomes.get_mut("none").unwrap();
            (outcome.extracted, _) = (None, outcome.scores.insert("exact_match".to_owned(), 0.6));
            item
        })
        .collect();
    assert_eq!(found(&gate(&base, &half), Kind::ConstantScore).unwrap().state, State::Broken);
    // A server without log-probabilities gives every choice 0: against a good one it is broken, against
    // another such it is no PASS.
    let scored = |logprob: &dyn Fn(u64) -> f64| -> Vec<Item> {
        let mut items = journal("arc", 100, 25);
        for item in &mut items {
            let choice = |i: u64| {
                Answer::Scored(Scored { logprob: logprob(4 * item.doc + i), greedy: None, tokens: 1 })
            };
            item.answers = (0..4).map(choice).collect();
        }
        items
    };
    let (good, silent) = (scored(&|i| -0.1 * i as f64), scored(&|_| 0.0));
    assert_eq!(found(&gate(&good, &silent), Kind::ConstantLogprob).unwrap().state, State::Broken);
    let report = gate(&silent, &silent);
    assert_eq!(report.verdict, Decision::Inconclusive);
    assert!(report.answer.contains("neither was scored"), "{}", report.answer);
}

#[test]
fn truncated_empty_and_unread_answers_are_caught_before_scores_can_tell() {
    let base = journal("gsm8k", 80, 40);
    let break_some = |change: &dyn Fn(&mut Item)| {
        let mut new = base.clone();
        new.iter_mut().filter(|item| item.doc % 5 == 0 && item.doc >= 40).for_each(change);
        gate(&base, &new)
    };
    let cut = break_some(&|item| generated(item).finish_reason = Some("length".to_owned()));
    let empty = break_some(&|item| generated(item).text = " \n".to_owned());
    let unread = break_some(&|item| item.outcomes.get_mut("none").unwrap().extracted = None);
    for (report, kind) in [(cut, Kind::Truncated), (empty, Kind::Empty), (unread, Kind::Unparsed)] {
        let b = report.breakage.iter().find(|b| b.kind == kind).unwrap();
        // 8 of 80, none on the baseline: 1/2^8 by McNemar.
        assert_eq!((b.n, b.base, b.new, b.state), (80, 0, 8, State::Broken), "{kind:?}");
        assert!((b.p - 1.0 / 256.0).abs() < 1e-12 && b.p_holm > b.p);
        assert_eq!((report.verdict, report.exit_code), (Decision::Fail, 1));
        assert!(report.answer.contains("10\u{a0}% against 0\u{a0}% on the baseline"), "{}", report.answer);
    }
    // More than chance and less than the margin is told, and fails nothing.
    let base = journal("gsm8k", 1000, 900);
    let mut new = base.clone();
    new.iter_mut().take(12).for_each(|item| generated(item).finish_reason = Some("length".to_owned()));
    let report = gate(&base, &new);
    assert_eq!(report.verdict, Decision::Pass);
    assert!(report.warnings.iter().any(|w| w.contains("less than the margin")), "{:?}", report.warnings);
    // Half as long answers are a warning.
    new.iter_mut().for_each(|item| generated(item).output_tokens = Some(10));
    let report = gate(&base, &new);
    assert!(report.lengths[0].notable && report.warnings.iter().any(|w| w.contains("shorter")));
}

#[test]
fn what_fails_or_is_missing_counts_as_lost() {
    let base = journal("gsm8k", 500, 400);
    let some_failed: Vec<Item> =
        base.iter().cloned().map(|item| if item.doc % 10 == 0 { failed(item) } else { item }).collect();
    let report = gate(&base, &some_failed);
    assert_eq!((report.verdict, report.tasks[0].unscored, report.tasks[0].n), (Decision::Fail, 50, 500));
    assert!((report.tasks[0].new.value - 0.72).abs() < 1e-12);
    assert!(report.warnings.iter().any(|w| w.contains("failed on the new server: counted as lost")));
    let most: Vec<Item> = base.iter().filter(|item| item.doc % 5 != 0).cloned().collect();
    let report = gate(&base, &most);
    assert_eq!((report.verdict, report.tasks[0].missing), (Decision::Fail, 100));
    let said = "failed or missing answers: 20\u{a0}% against 0\u{a0}% on the baseline";
    assert!(report.answer.contains(said), "{}", report.answer);
    // A part on purpose.
    let settings = Settings { only_paired: true, ..quick() };
    let report = compare(&base, &most, None, &settings).unwrap();
    assert_eq!((report.verdict, report.tasks[0].n, report.pairing.missing), (Decision::Pass, 400, 100));
    // What the baseline failed at says nothing.
    let report = gate(&some_failed, &base);
    assert_eq!((report.tasks[0].n, report.pairing.base_failed), (450, 50));
    assert!(report.tasks[0].ratio.unwrap() <= 1.0);
}

#[test]
fn other_prompts_are_told_and_other_targets_are_no_pass() {
    let base = journal("gsm8k", 500, 400);
    let mut new = base.clone();
    new.iter_mut().for_each(|item| item.prompt_hash = Hash("other".to_owned()));
    let report = gate(&base, &new);
    assert_eq!((report.verdict, report.pairing.prompts_differ), (Decision::Pass, 500));
    assert!(report.warnings.iter().any(|w| w.contains("500\u{a0}pairs with other prompts")));
    new[7].target_hash = Hash("other".to_owned());
    let report = gate(&base, &new);
    assert_eq!((report.verdict, report.pairing.targets_differ), (Decision::Inconclusive, 1));
    // Other documents are other data, and no loss.
    let other: Vec<Item> = base
        .iter()
        .cloned()
        .map(|item| Item { doc_hash: Hash(format!("v2-{}", item.doc)), ..item })
        .collect();
    let report = gate(&base, &other);
    assert_eq!((report.verdict, report.tasks.len()), (Decision::Inconclusive, 0));
    assert!(report.answer.contains("share not one document of gsm8k"), "{}", report.answer);
    let extra = [base.clone(), journal("arc", 3, 1)].concat();
    let report = gate(&base, &extra);
    assert_eq!(
        (report.pairing.extra, report.pairing.tasks_extra.as_slice()),
        (3, ["arc".to_owned()].as_slice())
    );
}

#[test]
fn repeats_are_one_document_and_a_document_may_come_twice() {
    let repeated = |right: &dyn Fn(u64, u32) -> bool| -> Vec<Item> {
        let each = |doc| (0..4).map(move |repeat| (doc, repeat));
        (0..150)
            .flat_map(each)
            .map(|(doc, repeat)| Item { repeat, ..item("t", doc, right(doc, repeat)) })
            .collect()
    };
    let base = repeated(&|doc, _| doc < 120);
    let new = repeated(&|doc, repeat| doc < 120 && (doc > 0 || repeat > 0));
    let task = &gate(&base, &new).tasks[0];
    assert_eq!((task.n, task.answers, task.flips.lost, task.cells), (150, 600, 1, None));
    assert!((task.new.value - (119.0 + 0.75) / 150.0).abs() < 1e-12);
    let mut twice = journal("t", 100, 50);
    twice[99].doc_hash = twice[0].doc_hash.clone();
    let report = gate(&twice, &twice);
    assert_eq!((report.pairing.paired, report.tasks[0].n, report.tasks[0].discordance), (100, 100, 0.0));
}

#[test]
fn a_choice_names_what_is_judged() {
    let with = |strict: bool| -> Vec<Item> {
        let mut items = journal("gsm8k", 500, 400);
        for item in &mut items {
            let mut outcome = item.outcomes["none"].clone();
            outcome.scores.insert("exact_match".to_owned(), f64::from(u8::from(strict && item.doc < 300)));
            outcome.scores.insert("word_perplexity".to_owned(), 17.0);
            item.outcomes.insert("strict".to_owned(), outcome);
        }
        items
    };
    let (base, new) = (with(true), with(false));
    let report = gate(&base, &new);
    assert_eq!((report.tasks.len(), report.judged().count()), (2, 1));
    assert_eq!((report.tasks[0].filter.as_str(), report.tasks[0].decision), ("none", Decision::Pass));
    assert!(report.warnings.iter().any(|w| w.contains("word_perplexity (strict) is not compared")));
    let choose = |filter: &str| Choice { filter: Some(filter.to_owned()), ..Choice::default() };
    let settings = Settings { judge: vec![choose("strict")], ..quick() };
    assert_eq!(compare(&base, &new, None, &settings).unwrap().verdict, Decision::Fail);
    let settings = Settings { judge: vec![choose("other")], ..quick() };
    let report = compare(&base, &new, None, &settings).unwrap();
    assert_eq!((report.verdict, report.judged().count()), (Decision::Inconclusive, 0));
}

#[test]
fn the_bare_ratio_says_how_often_it_is_wrong() {
    let base = journal("mmlu_pro", 500, 150);
    // 143 of 150 is 0.953: it passes as it stands, where nothing can be told.
    let mut new = journal("mmlu_pro", 500, 110);
    new.iter_mut()
        .filter(|item| (300..333).contains(&item.doc))
        .for_each(|i| *i = item("mmlu_pro", i.doc, true));
    assert_eq!(gate(&base, &new).verdict, Decision::Inconclusive);
    let settings = Settings { rule: Rule::BareRatio, ..quick() };
    let report = compare(&base, &new, None, &settings).unwrap();
    assert_eq!((report.verdict, report.exit_code), (Decision::Pass, 0));
    let bare = report.tasks[0].bare_ratio;
    // Of the tables at 0.30 and a discordance of 0.15: 19 % and 19 %.
    assert!(
        (bare.fails_equal.unwrap() - 0.19).abs() < 0.01 && (bare.passes_worse.unwrap() - 0.19).abs() < 0.01
    );
    let said =
        report.warnings.iter().any(|w| w.contains("an equal server fails 18.") || w.contains("fails 19."));
    assert!(said, "{:?}", report.warnings);
}

/// Positions over five tokens; `shift` makes the first less likely.
fn with_positions(shift: f64) -> Vec<Item> {
    let mut items = journal("text", 100, 90);
    for item in &mut items {
        let positions: Vec<Position> = (0..10_u32)
            .map(|i| {
                let tilt = 0.1 * f64::from(i % 3);
                let top = TopK::of_logits(&[2.0 - shift - tilt, 1.0, 0.5, 0.0, -1.0 + tilt]);
                let logprob = top.entries.iter().find(|(id, _)| *id == i % 5).unwrap().1;
                Position { target: i % 5, logprob, top }
            })
            .collect();
        put_positions(&mut item.outcomes.get_mut("none").unwrap().parts, &positions);
    }
    items
}

#[test]
fn divergence_and_identity_of_what_journals_carry() {
    let (base, new) = (with_positions(0.0), with_positions(1.2));
    let settings = Settings { kl_limit: Some(0.05), ..quick() };
    let itself = compare(&base, &base, None, &settings).unwrap();
    assert_eq!((itself.verdict, itself.divergence[0].decision), (Decision::Pass, Some(Decision::Pass)));
    let kl = itself.divergence[0].divergence.kl.clone().unwrap();
    assert!(kl.kind == KlKind::Full && kl.mean == 0.0 && itself.divergence[0].divergence.positions == 1000);
    let report = compare(&base, &new, Some((&base, &base)), &settings).unwrap();
    assert_eq!((report.verdict, report.divergence[0].decision), (Decision::Fail, Some(Decision::Fail)));
    assert!(report.answer.contains("on text the divergence is 0."), "{}", report.answer);
    assert!(report.answer.ends_with("nats a token (limit 0.05)"), "{}", report.answer);
    let words = &report.divergence[0].words;
    assert!(words.contains("nats a token, against 0 of one server twice, limit 0.05;"), "{words}");
    // Without a limit it is told.
    assert_eq!(gate(&base, &new).verdict, Decision::Pass);
    // Without positions a limit is not kept.
    let bare = journal("text", 100, 90);
    let report = compare(&bare, &bare, None, &settings).unwrap();
    assert_eq!(report.verdict, Decision::Inconclusive);
    let mut other = base.clone();
    generated(&mut other[0]).text = "The cat".to_owned();
    let identity = &gate(&base, &other).identity[0];
    assert_eq!(
        (identity.identity.pairs, identity.identity.identical, identity.identity.earliest),
        (100, 99, Some(4))
    );
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let refused = |settings: Settings| compare(&[], &[], None, &settings).unwrap_err().to_string();
    for ratio in [0.0, 1.0, -1.0, f64::NAN] {
        assert!(refused(Settings { ratio, ..quick() }).contains("0.95: at least 95 %"));
    }
    for alpha in [0.0, 0.5, f64::NAN] {
        assert!(refused(Settings { alpha, ..quick() }).starts_with("alpha is"));
    }
    refused(Settings { power: 1.0, ..quick() });
    refused(Settings { breakage_margin: 1.0, ..quick() });
    refused(Settings { kl_limit: Some(0.0), ..quick() });
}

/// At the limit on both tasks a PASS is false, and so is a FAIL: of 500 pairs of journals each may come
/// 25 times; the allowance is what 5 % stay below in all but 1 of 1000.
#[test]
fn false_verdicts_at_the_limit_are_as_rare_as_stated() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let settings = Settings { resamples: 0, ..Settings::default() };
    let (mut passed, mut failed, mut one_passed) = (0, 0, 0);
    for _ in 0..500 {
        let (mut base, mut new) = drawn(&mut rng, "a", 150, (0.8, 0.08, 0.95));
        let (b, n) = drawn(&mut rng, "b", 150, (0.6, 0.12, 0.95));
        one_passed += u32::from(compare(&base, &new, None, &settings).unwrap().verdict == Decision::Pass);
        base.extend(b);
        new.extend(n);
        match compare(&base, &new, None, &settings).unwrap().verdict {
            Decision::Pass => passed += 1,
            Decision::Fail => failed += 1,
            Decision::Inconclusive => {}
        }
    }
    assert!(one_passed <= 41 && failed <= 41 && passed <= 10, "{one_passed} {passed} {failed}");
    // The level is used, not only kept.
    assert!(one_passed >= 8 && failed >= 8, "{one_passed} {failed}");
}

fn rank(report: &Report) -> u8 {
    match report.verdict {
        Decision::Fail => 0,
        Decision::Inconclusive => 1,
        Decision::Pass => 2,
    }
}

/// Every number of a report is one: what is not is written as null, and read back as nothing.
fn assert_whole(report: &Report) {
    let text = serde_json::to_string(report).unwrap();
    let back: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(&back, report);
    fn words(value: &Value, out: &mut Vec<String>) {
        match value {
            Value::String(text) => out.push(text.clone()),
            Value::Array(all) => all.iter().for_each(|v| words(v, out)),
            Value::Object(all) => all.values().for_each(|v| words(v, out)),
            _ => {}
        }
    }
    let mut said = Vec::new();
    words(&serde_json::from_str(&text).unwrap(), &mut said);
    for text in said {
        assert!(!text.contains("NaN") && !text.contains("inf ") && !text.contains("None"), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Right instead of wrong never makes the verdict worse; failed or missing instead of an answer never
    /// makes it better.
    #[test]
    fn verdicts_follow_the_answers(
        answers in prop::collection::vec((any::<bool>(), 0_u8..12), 1..160),
        which in 0_usize..160,
    ) {
        let base: Vec<Item> = (0..).zip(&answers).map(|(doc, (right, _))| item("t", doc, *right)).collect();
        let new: Vec<Item> =
            (0..).zip(&answers).map(|(doc, (right, flip))| item("t", doc, *right != (*flip == 0))).collect();
        let at = which % answers.len();
        let settings = Settings { resamples: 20, ..Settings::default() };
        let of = |new: &[Item]| compare(&base, new, None, &settings).unwrap();
        let now = of(&new);
        assert_whole(&now);
        let mut better = new.clone();
        better[at] = item("t", at as u64, true);
        prop_assert!(rank(&of(&better)) >= rank(&now));
        let mut worse = new.clone();
        worse[at] = failed(worse[at].clone());
        let of_failed = of(&worse);
        assert_whole(&of_failed);
        prop_assert!(rank(&of_failed) <= rank(&now));
        worse.remove(at);
        let of_missing = of(&worse);
        assert_whole(&of_missing);
        prop_assert!(rank(&of_missing) <= rank(&now));
    }
}
