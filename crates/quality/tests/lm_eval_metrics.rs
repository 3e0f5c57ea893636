//! Metrics, standard errors, windows and filters with the values of lm-evaluation-harness 0.4.13
//! (`data/lm_eval_metrics.json`, `data/extraction_filters.json`).

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use quality::task::{
    ExactMatch, Index, Library, Options, Ports, Task, TaskResults, argmax, choice_scores, group_mean,
    pooled_stderr, rolling_windows, softmax, unweighted_stderr, wikitext_detokenize,
};
use quality::{Answer, Generated, Item, Scored, python};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn oracle() -> Value {
    serde_json::from_str(include_str!("data/lm_eval_metrics.json")).unwrap()
}

fn filters() -> Value {
    serde_json::from_str(include_str!("data/extraction_filters.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// A task of one YAML text over a split `test`.
fn task(yaml: &str, documents: Value) -> Task {
    let read = |_: &str| Ok(yaml.to_owned());
    let (index, ports) = (Index::default(), Ports::default());
    let suite = Library { read: &read, index: &index, ports: &ports, port: None }.load("t.yaml").unwrap();
    let splits = BTreeMap::from([("test".to_owned(), documents.as_array().unwrap().clone())]);
    Task::new(suite.tasks.into_iter().next().unwrap(), &splits).unwrap()
}

fn generated(text: &str) -> Answer {
    Answer::Generated(Generated { text: text.to_owned(), ..Generated::default() })
}

fn scored(logprob: f64, greedy: bool) -> Answer {
    Answer::Scored(Scored { logprob, greedy: Some(greedy), tokens: 1 })
}

fn judged(task: &Task, answers: Vec<Vec<Answer>>) -> (Vec<Item>, TaskResults) {
    let asked = task.items(&Options::default()).unwrap();
    let items: Vec<Item> =
        asked.iter().zip(answers).map(|(a, answers)| task.judge(a, answers).unwrap()).collect();
    let results = task.results(&items, &Options::default(), 2000);
    (items, results)
}

fn value(results: &TaskResults, metric: &str) -> (Option<f64>, Option<f64>) {
    let found = results.metrics.iter().find(|m| m.metric == metric).unwrap();
    (found.value, found.stderr)
}

#[test]
fn choices() {
    for case in oracle()["multiple_choice"].as_array().unwrap() {
        let lls = numbers(&case["lls"]);
        let choices: Vec<String> = serde_json::from_value(case["choices"].clone()).unwrap();
        let gold = case["gold"].as_u64().unwrap() as usize;
        let greedy = vec![Some(false); choices.len()];
        let scores: BTreeMap<_, _> =
            choice_scores(&lls, &greedy, None, &choices, &[Some(gold)]).unwrap().into_iter().collect();
        for metric in ["acc", "acc_norm", "acc_bytes"] {
            let quality::task::Score::Number(score) = &scores[metric] else { panic!("{metric}") };
            assert_eq!(json!(score), case[metric], "{metric} of {case}");
        }
        assert_eq!(json!(argmax(&lls)), case["pred"]);
        assert_eq!(json!(softmax(&lls)), case["prob_norm"], "{case}");
    }
}

#[test]
fn perplexities() {
    let oracle = oracle();
    let items = oracle["perplexity"]["items"].as_array().unwrap();
    // Texts with as many words and bytes as the items have.
    let text = |words: u64, bytes: u64| {
        let filler = "x".repeat((bytes - 2 * (words - 1)) as usize);
        format!("{}{filler}", "x ".repeat(words as usize - 1))
    };
    let documents: Value = items
        .iter()
        .map(|item| json!({"page": text(item["words"].as_u64().unwrap(), item["bytes"].as_u64().unwrap())}))
        .collect();
    let rolling = "task: t\noutput_type: loglikelihood_rolling\ntest_split: test\ndoc_to_text: ''\ndoc_to_target: page\n";
    let answers =
        |greedy| items.iter().map(|i| vec![scored(i["loglik"].as_f64().unwrap(), greedy)]).collect();
    let (_, results) = judged(&task(rolling, documents.clone()), answers(false));
    for metric in ["word_perplexity", "byte_perplexity", "bits_per_byte"] {
        assert_eq!(json!(value(&results, metric).0), oracle["perplexity"][metric], "{metric}");
        assert_eq!(value(&results, metric).1, None);
    }
    let single =
        "task: t\noutput_type: loglikelihood\ntest_split: test\ndoc_to_text: a\ndoc_to_target: page\n";
    let (_, results) = judged(&task(single, documents), answers(false));
    assert_eq!(json!(value(&results, "perplexity").0), oracle["perplexity"]["perplexity_over_docs(lambada)"]);
}

#[test]
fn words_and_pages() {
    let oracle = oracle();
    for case in oracle["count_words"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        assert_eq!(python::split_runs(text).count() as u64, case["words"], "{text:?}");
        assert_eq!(text.len() as u64, case["bytes"], "{text:?}");
    }
    for case in oracle["wikitext_detokenizer"].as_array().unwrap() {
        let page = case["page"].as_str().unwrap();
        assert_eq!(wikitext_detokenize(page).unwrap(), case["out"].as_str().unwrap());
        assert_eq!(python::split_runs(page).count() as u64, case["words"]);
        assert_eq!(page.len() as u64, case["bytes"]);
    }
}

#[test]
fn windows() {
    for case in oracle()["rolling_windows"].as_array().unwrap() {
        let count = |key: &str| case[key].as_u64().unwrap() as usize;
        let tokens: Vec<u32> = (0..count("n_tokens")).map(|i| (count("tokens_start") + i) as u32).collect();
        let windows = rolling_windows(
            &tokens,
            count("prefix_token") as u32,
            count("max_seq_len"),
            count("context_len"),
        );
        assert_eq!(json!(windows), case["disjoint"], "{case}");
    }
}

#[test]
fn standard_errors() {
    let oracle = oracle();
    let own = &oracle["stderr"];
    let yaml = "task: t\noutput_type: loglikelihood\ntest_split: test\ndoc_to_text: a\ndoc_to_target: b\nmetric_list: [{metric: acc}]\n";
    let xs = own["xs"].as_array().unwrap();
    let (_, results) = judged(
        &task(yaml, xs.iter().map(|_| json!({"b": "x", "a": "y"})).collect()),
        xs.iter().map(|x| vec![scored(-1.0, x.as_u64() == Some(1))]).collect(),
    );
    assert_eq!(json!(value(&results, "acc").0), own["mean"]);
    assert_eq!(json!(value(&results, "acc").1), own["mean_stderr"]);

    for (name, aggregation) in [("perplexity", "perplexity"), ("median", "median")] {
        let case = &oracle["bootstrap_stderr"][name];
        assert_eq!(case["iters"], 2000);
        let yaml = format!(
            "task: t\noutput_type: loglikelihood\ntest_split: test\ndoc_to_text: a\ndoc_to_target: b\nmetric_list: [{{metric: perplexity, aggregation: {aggregation}}}]\n"
        );
        let xs = numbers(&case["xs"]);
        let (_, results) = judged(
            &task(&yaml, xs.iter().map(|_| json!({"b": "x", "a": "y"})).collect()),
            xs.iter().map(|x| vec![scored(*x, false)]).collect(),
        );
        assert_eq!(json!(value(&results, "perplexity").1), case["out"], "{name}");
    }

    let pooled = &own["pooled_sample_stderr"];
    let sizes: Vec<u64> = serde_json::from_value(pooled["sizes"].clone()).unwrap();
    assert_eq!(json!(pooled_stderr(&numbers(&pooled["stderrs"]), &sizes)), pooled["out"]);
    let plain = &own["unweighted_mean_stderr"];
    assert_eq!(json!(unweighted_stderr(&numbers(&plain["stderrs"]))), plain["out"]);
    let whole = &own["aggregate_weighted"];
    let metrics = numbers(&whole["metrics"]);
    assert_eq!(json!(group_mean(&metrics, &sizes, true)), whole["out"]);
    assert_eq!(json!(group_mean(&metrics, &sizes, false)), whole["unweighted"]);
    assert_eq!(pooled_stderr(&[0.1, 0.2], &[1, 1]), None);
}

/// By scikit-learn's definitions, worked out by hand: gold 1 1 0 0 1, predicted 1 0 0 1 1: two true positives,
/// one false one, one missed; MCC = (2·1 − 1·1) / √(3·3·2·2).
#[test]
fn f1_and_correlation() {
    let yaml = "task: t\noutput_type: multiple_choice\ntest_split: test\ndoc_to_text: q\ndoc_to_target: gold\ndoc_to_choice: ['no', 'yes']\nmetric_list: [{metric: f1}, {metric: mcc}, {metric: brier_score}]\n";
    let gold = [1, 1, 0, 0, 1];
    let predicted = [1, 0, 0, 1, 1];
    let documents = gold.iter().map(|gold| json!({"q": "?", "gold": gold})).collect();
    let answers =
        predicted.iter().map(|p| (0..2).map(|i| scored(if i == *p { -1.0 } else { -2.0 }, false)).collect());
    let (_, results) = judged(&task(yaml, documents), answers.collect());
    let near = |metric: &str, wanted: f64| (value(&results, metric).0.unwrap() - wanted).abs() < 1e-12;
    assert!(near("f1", 4.0 / 6.0) && near("mcc", 1.0 / 6.0));
    let share = 1.0 / (1.0 + (-1.0_f64).exp());
    let (right, wrong) = (2.0 * (1.0 - share).powi(2), 2.0 * share.powi(2));
    assert!(near("brier_score", (3.0 * right + 2.0 * wrong) / 5.0));
}

const GSM8K: &str = r######"
task: t
test_split: test
doc_to_text: q
doc_to_target: gold
metric_list:
  - {metric: exact_match, ignore_case: true, regexes_to_ignore: [",", "\\$", "(?s).*#### ", "\\.$"]}
filter_list:
  - name: strict
    filter: [{function: regex, regex_pattern: "#### (\\-?[0-9\\.\\,]+)"}, {function: take_first}]
  - name: flexible
    filter: [{function: regex, group_select: -1, regex_pattern: "(-?[$0-9.,]{2,})|(-?[0-9]+)"}, {function: take_first}]
  - name: cot_strict
    filter: [{function: regex, regex_pattern: "The answer is (\\-?[0-9\\.\\,]+)."}, {function: take_first}]
"######;

#[test]
fn gsm8k_filters() {
    let cases = filters()["gsm8k"].as_array().unwrap().clone();
    let documents = cases.iter().map(|case| json!({"q": "?", "gold": case["gold"]})).collect();
    let answers = cases.iter().map(|case| vec![generated(case["response"].as_str().unwrap())]).collect();
    let (items, _) = judged(&task(GSM8K, documents), answers);
    for (item, case) in items.iter().zip(&cases) {
        for filter in ["strict", "flexible", "cot_strict"] {
            let outcome = &item.outcomes[filter];
            let found = outcome.extracted.clone().unwrap_or("[invalid]".into());
            assert_eq!(found, case[filter], "{filter} of {case}");
            assert_eq!(
                json!(outcome.scores["exact_match"]),
                case[format!("{filter}_em")],
                "{filter} of {case}"
            );
        }
    }
}

#[test]
fn mmlu_pro_filter() {
    let yaml = r"
task: t
test_split: test
doc_to_text: q
doc_to_target: gold
metric_list: [{metric: exact_match, ignore_case: true, ignore_punctuation: true}]
filter_list:
  - name: custom-extract
    filter: [{function: regex, regex_pattern: 'answer is \(?([ABCDEFGHIJ])\)?'}, {function: take_first}]
";
    let cases = filters()["mmlu_pro"].as_array().unwrap().clone();
    let documents = cases.iter().map(|_| json!({"q": "?", "gold": "C"})).collect();
    let answers = cases.iter().map(|case| vec![generated(case["response"].as_str().unwrap())]).collect();
    let (items, _) = judged(&task(yaml, documents), answers);
    for (item, case) in items.iter().zip(&cases) {
        let outcome = &item.outcomes["custom-extract"];
        assert_eq!(
            outcome.extracted.clone().unwrap_or("[invalid]".into()),
            case["lm_eval_custom_extract"],
            "{case}"
        );
        assert_eq!(json!(outcome.scores["exact_match"]), case["lm_eval_em_vs_C"], "{case}");
    }
}

#[test]
fn multi_choice_regex() {
    for case in filters()["multi_choice_regex"].as_array().unwrap() {
        let step = json!({
            "function": "multi_choice_regex",
            "regex_pattern": case["pattern"],
            "group_select": case["group_select"],
            "ignore_case": case["ignore_case"],
            "ignore_punctuation": case["ignore_punctuation"],
        });
        let yaml = json!({
            "task": "t", "test_split": "test", "doc_to_text": "q", "doc_to_target": "gold",
            "filter_list": [{"name": "f", "filter": [step, {"function": "take_first"}]}],
        });
        let document = json!([{"q": "?", "gold": "(A)", "choices": case["choices"]}]);
        let answer = vec![vec![generated(case["response"].as_str().unwrap())]];
        let (items, _) = judged(&task(&yaml.to_string(), document), answer);
        let found = items[0].outcomes["f"].extracted.clone().unwrap_or("[invalid]".into());
        assert_eq!(found, case["out"], "{case}");
    }
}

#[test]
fn exact_match() {
    for case in filters()["exact_match"].as_array().unwrap() {
        let exact = ExactMatch::new(case["kwargs"].as_object().unwrap()).unwrap();
        let same =
            exact.same(case["prediction"].as_str().unwrap(), case["reference"].as_str().unwrap()).unwrap();
        assert_eq!(json!(f64::from(u8::from(same))), case["exact_match"], "{case}");
    }
}

#[test]
fn several_answers_to_one_request() {
    let yaml = r"
task: t
test_split: test
repeats: 3
doc_to_text: q
doc_to_target: gold
filter_list:
  - name: vote
    filter: [{function: remove_whitespace}, {function: lowercase}, {function: majority_vote}, {function: take_first}]
  - name: first
    filter: [{function: take_first}]
  - name: two
    filter: [{function: take_first_k, k: 2}, {function: uppercase}, {function: map, mapping_dict: {A: x}, default_value: z}, {function: take_first}]
";
    let task = task(yaml, json!([{"q": "?", "gold": "b"}]));
    assert_eq!(task.items(&Options::default()).unwrap()[0].asks.len(), 3);
    let (items, _) = judged(&task, vec![vec![generated("a"), generated(" B"), generated("b\n")]]);
    let outcomes = &items[0].outcomes;
    assert_eq!(
        (outcomes["vote"].extracted.clone(), outcomes["vote"].scores["exact_match"]),
        (Some(json!("b")), 1.0)
    );
    assert_eq!(
        (outcomes["first"].extracted.clone(), outcomes["first"].scores["exact_match"]),
        (Some(json!("a")), 0.0)
    );
    assert_eq!(outcomes["two"].extracted, Some(json!("x")));
}

#[test]
fn a_failed_answer_is_no_score() {
    let documents = json!([{"q": "?", "gold": "1"}, {"q": "?", "gold": "1"}, {"q": "?", "gold": "1"}]);
    let task = task("task: t\ntest_split: test\ndoc_to_text: q\ndoc_to_target: gold\n", documents);
    let failed = Answer::Failed { reason: "timeout".to_owned() };
    let (items, results) = judged(&task, vec![vec![generated("1")], vec![failed], vec![generated("2")]]);
    assert!(items[1].failed() && items[1].outcomes.is_empty());
    assert_eq!((results.items, results.failed, value(&results, "exact_match").0), (2, 1, Some(0.5)));
    let asked = task.items(&Options::default()).unwrap();
    assert!(task.judge(&asked[0], vec![]).is_err());
    assert!(task.judge(&asked[0], vec![scored(-1.0, true)]).is_err());
}

#[test]
fn an_answer_on_which_a_pattern_gives_up_is_a_failure() {
    let yaml = r"
task: t
test_split: test
doc_to_text: q
doc_to_target: gold
filter_list:
  - name: first
    filter: [{function: take_first}]
  - name: slow
    filter: [{function: regex, regex_pattern: '(?:(?=x)x+)+(?!x)y'}, {function: take_first}]
";
    let task = task(yaml, json!([{"q": "?", "gold": "1"}]));
    let (items, results) = judged(&task, vec![vec![generated(&"x".repeat(60))]]);
    let Answer::Failed { reason } = &items[0].answers[0] else { panic!("it was judged") };
    assert!(reason.contains("slow") && reason.contains("60 characters"), "{reason}");
    assert_eq!((results.items, results.failed, value(&results, "exact_match").0), (0, 1, None));
    let nan = Answer::Scored(Scored { logprob: f64::NAN, greedy: None, tokens: 1 });
    let asked = task.items(&Options::default()).unwrap();
    assert!(task.judge(&asked[0], vec![nan]).unwrap_err().message.contains("kind"));
}
