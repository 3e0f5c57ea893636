//! Five tasks and a group, as lm-evaluation-harness 0.4.13 ran them against a mock server
//! (`data/lmeval_e2e.json`): the same prompts, requests in the same order, hashes, scores and result files.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use quality::task::files::{self, About, Judged};
use quality::task::{
    Asked, BOOTSTRAP_REPLICATES, Index, Library, Options, Ports, Suite, Task, TaskResults, Tokenize,
    documents, encode_pair, rolling_windows,
};
use quality::{Answer, Ask, Generated, Item, Prompt, Scored, python};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;

const NAMES: [&str; 5] = ["o_gen", "o_ll", "o_ppl", "o_mc", "o_mcb"];
/// The length given to the harness was 130, of which it keeps one token for what is generated.
const LONGEST: usize = 129;
const BOS: u32 = 1;
/// As that run had them.
const REPLICATES: u32 = 1000;

fn oracle() -> Value {
    serde_json::from_str(include_str!("data/lmeval_e2e.json")).unwrap()
}

fn suite(oracle: &Value) -> Suite {
    let read = |path: &str| {
        oracle["tasks"][path].as_str().map(str::to_owned).ok_or_else(|| format!("no file {path}"))
    };
    let mut index = Index::default();
    for (path, text) in oracle["tasks"].as_object().unwrap() {
        index.add(path, text.as_str().unwrap());
    }
    let ports = Ports::default();
    let library = Library { read: &read, index: &index, ports: &ports, port: None };
    let mut suite = Suite::default();
    for name in ["o_gen", "o_ll", "o_ppl", "o_group"] {
        let one = library.load(name).unwrap();
        suite.tasks.extend(one.tasks);
        suite.groups.extend(one.groups);
    }
    suite
}

fn tasks(oracle: &Value, suite: &Suite) -> Vec<Task> {
    let with_data = |config: &quality::task::Config| {
        let mut splits = BTreeMap::new();
        for (split, paths) in &config.data_files {
            let name = paths[0].strip_prefix("DATA/").unwrap();
            let rows = oracle["data"][name].as_array().unwrap();
            let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
            let format = documents::Format::of(name, config.dataset_path.as_deref()).unwrap();
            splits.insert(split.clone(), documents::read(name, &lines, format).unwrap());
        }
        Task::new(config.clone(), &splits).unwrap()
    };
    suite.tasks.iter().map(with_data).collect()
}

/// The mock: bytes are tokens, and a token's likelihood depends on the one before it.
struct Mock<'a> {
    canned: Vec<&'a str>,
    requests: Vec<Value>,
}

struct Bytes;

impl Tokenize for Bytes {
    type Error = Infallible;
    fn encode(&self, text: &str) -> Result<Vec<u32>, Infallible> {
        Ok(text.bytes().map(|byte| u32::from(byte) + 3).collect())
    }
}

impl Mock<'_> {
    fn note(&mut self, ids: &[u32], mut rest: Value) {
        let sha = sha1(python::repr(&json!(ids)).as_bytes());
        let hex: String = sha.iter().map(|byte| format!("{byte:02x}")).collect();
        rest["prompt"] = json!([{"n_tokens": ids.len(), "first": &ids[..ids.len().min(3)], "sha1": hex}]);
        self.requests.push(rest);
    }

    fn score(&mut self, context: &[u32], scored: &[u32]) -> Scored {
        let whole = [context, scored].concat();
        let ids = &whole[whole.len().saturating_sub(LONGEST)..];
        self.note(
            ids,
            json!({"model": "mock", "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": true}),
        );
        let mut sum = 0.0;
        let mut greedy = true;
        for at in ids.len() - scored.len()..ids.len() {
            let scores: Vec<f64> =
                (0..259).map(|t| f64::from((ids[at - 1] * 31 + t * 17) % 101) / 40.0).collect();
            let most = scores.iter().copied().fold(0.0, f64::max);
            let logs: f64 = scores.iter().map(|score| (score - most).exp()).sum();
            let own = scores[ids[at] as usize];
            sum += own - (most + logs.ln());
            greedy &= own >= most;
        }
        Scored { logprob: sum, greedy: Some(greedy), tokens: scored.len() as u64 }
    }

    fn generate(&mut self, text: &str, stop: &[String], max_tokens: u32) -> Generated {
        let ids = Bytes.encode(text).unwrap();
        let ids = &ids[ids.len().saturating_sub(LONGEST - max_tokens as usize)..];
        let mut stops = stop.to_vec();
        // One request at a time, the harness adds the end-of-text token's name.
        stops.push("</s>".to_owned());
        self.note(
            ids,
            json!({"model": "mock", "max_tokens": max_tokens, "temperature": 0, "stop": stops, "seed": 1234}),
        );
        let bytes: Vec<u8> = ids.iter().map(|id| (id - 3) as u8).collect();
        let mut answer =
            self.canned[sha1(String::from_utf8_lossy(&bytes).as_bytes())[0] as usize % 7].to_owned();
        for stop in &stops {
            answer.truncate(answer.find(stop.as_str()).unwrap_or(answer.len()));
        }
        Generated { text: answer, ..Generated::default() }
    }
}

fn pair(ask: &Ask) -> (Vec<u32>, Vec<u32>) {
    let Ask::Score { context, continuation } = ask else { panic!("{ask:?} is no pair") };
    encode_pair(&Bytes, BOS, context, continuation).unwrap()
}

/// All answers, asked in the harness's order: texts by falling length, then pairs by falling tokens, then windows.
fn answers(mock: &mut Mock, asked: &[Vec<Asked>]) -> Vec<Vec<Vec<Answer>>> {
    let mut all: Vec<Vec<Vec<Answer>>> = asked.iter().map(|some| vec![Vec::new(); some.len()]).collect();
    let mut asks: Vec<(usize, usize, usize, &Ask)> = Vec::new();
    for (task, some) in asked.iter().enumerate() {
        for (doc, one) in some.iter().enumerate() {
            all[task][doc] = vec![Answer::Failed { reason: String::new() }; one.asks.len()];
            asks.extend(one.asks.iter().enumerate().map(|(i, ask)| (task, doc, i, ask)));
        }
    }
    asks.sort_by_cached_key(|(.., ask)| match ask {
        Ask::Generate(generate) => {
            let Prompt::Text(text) = &generate.prompt else { panic!("a chat") };
            (0, -(text.chars().count() as i64), Vec::new())
        }
        Ask::Score { .. } => {
            let (context, scored) = pair(ask);
            let whole = [context, scored].concat();
            (1, -(whole.len() as i64), whole)
        }
        Ask::Rolling { .. } => (2, 0, Vec::new()),
    });
    for (task, doc, i, ask) in asks {
        all[task][doc][i] = match ask {
            Ask::Generate(generate) => {
                let Prompt::Text(text) = &generate.prompt else { panic!("a chat") };
                assert_eq!((generate.temperature, generate.extra.len()), (0.0, 0));
                Answer::Generated(mock.generate(text, &generate.stop, generate.max_tokens.unwrap()))
            }
            Ask::Score { .. } => {
                let (context, scored) = pair(ask);
                Answer::Scored(mock.score(&context, &scored))
            }
            Ask::Rolling { text } => {
                let windows = rolling_windows(&Bytes.encode(text).unwrap(), BOS, LONGEST - 1, 1);
                // A document's windows are sent by falling length too, and added up in their order.
                let mut order: Vec<usize> = (0..windows.len()).collect();
                order.sort_by_cached_key(|at| {
                    let whole = [windows[*at].0.as_slice(), &windows[*at].1].concat();
                    (-(whole.len() as i64), whole)
                });
                let mut parts = vec![None; windows.len()];
                for at in order {
                    parts[at] = Some(mock.score(&windows[at].0, &windows[at].1));
                }
                let parts: Vec<Scored> = parts.into_iter().flatten().collect();
                Answer::Scored(Scored {
                    logprob: parts.iter().map(|part| part.logprob).sum(),
                    greedy: None,
                    tokens: parts.iter().map(|part| part.tokens).sum(),
                })
            }
        };
    }
    all
}

struct Run {
    oracle: Value,
    suite: Suite,
    tasks: Vec<Task>,
    asked: Vec<Vec<Asked>>,
    items: Vec<Vec<Item>>,
    results: Vec<TaskResults>,
    requests: Vec<Value>,
}

fn run() -> Run {
    let oracle = oracle();
    let suite = suite(&oracle);
    let tasks = tasks(&oracle, &suite);
    assert_eq!(tasks.iter().map(|task| task.config().name.as_str()).collect::<Vec<_>>(), NAMES);
    let options = Options::default();
    let asked: Vec<Vec<Asked>> = tasks.iter().map(|task| task.items(&options).unwrap()).collect();
    let canned =
        oracle["mock"]["canned"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let mut mock = Mock { canned, requests: Vec::new() };
    let answers = answers(&mut mock, &asked);
    let items: Vec<Vec<Item>> = (0..tasks.len())
        .map(|t| {
            asked[t]
                .iter()
                .zip(answers[t].clone())
                .map(|(a, answers)| tasks[t].judge(a, answers).unwrap())
                .collect()
        })
        .collect();
    let results = tasks.iter().zip(&items).map(|(t, i)| t.results(i, &options, REPLICATES)).collect();
    let requests = mock.requests;
    Run { oracle, suite, tasks, asked, items, results, requests }
}

/// As JSON, but numbers by value: 0 is 0.0.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// All leaves as text, as the harness writes answers into its files.
fn as_texts(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(as_texts).collect(),
        other => python::str(other).into(),
    }
}

#[test]
fn requests_are_sent_in_the_same_words_and_order() {
    let run = run();
    let wanted = run.oracle["requests_in_order_concurrency_1"].as_array().unwrap();
    assert_eq!(run.requests.len(), wanted.len());
    for (i, (ours, theirs)) in run.requests.iter().zip(wanted).enumerate() {
        assert!(same(ours, theirs), "request {i}: {ours} is not {theirs}");
    }
}

#[test]
fn results_are_the_same_to_the_last_digit() {
    let run = run();
    let judged: Vec<Judged> = (0..run.tasks.len())
        .map(|t| Judged { task: &run.tasks[t], results: run.results[t].clone(), items: &run.items[t] })
        .collect();
    let groups: Vec<_> = run.suite.groups.iter().map(|group| (group, group.results(&run.results))).collect();
    let config: serde_json::Map<String, Value> = run.oracle["config_keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| (key.as_str().unwrap().to_owned(), Value::Null))
        .filter(|(key, _)| key != "model")
        .collect();
    let about = About { model: "a/b:c".to_owned(), config, ..About::default() };
    let file = files::results(&about, &judged, &groups);
    for part in ["results", "groups", "n-shot", "n-samples"] {
        let theirs = &run.oracle[part];
        assert!(same(&file[part], theirs), "{part}:\n{}\nis not\n{theirs}", file[part]);
    }
    for key in run.oracle["result_top_level_keys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap())
    {
        // Samples have files of their own.
        assert!(key == "samples" || file.get(key).is_some(), "{key} is missing");
    }
    for key in run.oracle["config_keys"].as_array().unwrap() {
        assert!(file["config"].get(key.as_str().unwrap()).is_some(), "config.{key} is missing");
    }
    assert_eq!(file["group_subtasks"], json!({"o_group": ["o_mc", "o_mcb"]}));
    assert_eq!(
        file["higher_is_better"]["o_group"],
        json!({"acc": true, "acc_norm": true, "acc_bytes": true})
    );
    assert_eq!(file["model_name_sanitized"], "a__b__c");
    assert!(!file.to_string().contains("NaN"));

    // By CPython 3.11: chunks of a thousand with `Random(chunk).choices`, as the harness draws them by default.
    let more = run.tasks[1].results(&run.items[1], &Options::default(), BOOTSTRAP_REPLICATES);
    assert_eq!(more.metrics[0].stderr, Some(2.417_948_182_902_922e16));
}

#[test]
fn samples_are_the_same_and_are_read_back() {
    let run = run();
    for (t, name) in NAMES.into_iter().enumerate() {
        let text = files::samples(&run.tasks[t], &run.asked[t], &run.items[t]).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let wanted = run.oracle["samples"][name].as_array().unwrap();
        assert_eq!(lines.len(), wanted.len());
        for (ours, theirs) in lines.iter().zip(wanted) {
            for (key, theirs) in theirs.as_object().unwrap() {
                let theirs = match key.as_str() {
                    // The file numbers arguments and holds answers as text; the oracle has them before that.
                    "arguments" => theirs
                        .as_array()
                        .unwrap()
                        .iter()
                        .enumerate()
                        .map(|(i, list)| {
                            let list = list.as_array().unwrap().iter().enumerate();
                            (
                                format!("gen_args_{i}"),
                                list.map(|(j, arg)| (format!("arg_{j}"), arg.clone())).collect::<Value>(),
                            )
                        })
                        .collect(),
                    "target" | "resps" | "filtered_resps" => as_texts(theirs),
                    _ => theirs.clone(),
                };
                assert!(same(&ours[key], &theirs), "{} {key}:\n{}\nis not\n{theirs}", name, ours[key]);
            }
        }
        let file = files::samples_name(name, "2026-01-02T03:04:05.678901");
        assert_eq!(files::task_of(&format!("out/model/{file}")), Some(name));
        let read = files::import(name, &text).unwrap();
        assert_eq!(read.len(), run.items[t].len());
        for (read, own) in read.iter().zip(&run.items[t]) {
            let key = |item: &Item| {
                (
                    item.doc,
                    item.doc_hash.clone(),
                    item.prompt_hash.clone(),
                    item.target_hash.clone(),
                    item.asks.clone(),
                )
            };
            assert_eq!(key(read), key(own));
            for (filter, outcome) in &own.outcomes {
                assert_eq!(
                    (&read.outcomes[filter].scores, &read.outcomes[filter].parts),
                    (&outcome.scores, &outcome.parts)
                );
                assert_eq!(read.outcomes[filter].extracted, outcome.extracted);
            }
        }
        // A task's results need no more than what the file keeps.
        let again = run.tasks[t].results(&read, &Options::default(), 1000);
        let values = |results: &TaskResults| results.metrics.iter().map(|m| m.value).collect::<Vec<_>>();
        assert_eq!(values(&again), values(&run.results[t]));
    }
    let line = json!({
        "doc_id": 0, "arguments": {"gen_args_0": {"arg_0": "x", "arg_1": {}}}, "resps": [["a"]], "filter": "f",
        "filtered_resps": ["a"], "metrics": [], "doc_hash": "", "prompt_hash": "", "target_hash": "",
    });
    assert_eq!(files::import("t", &line.to_string()).unwrap().len(), 1);
    let wrong = [
        ("doc_id", json!(-1)),
        ("arguments", json!([])),
        ("arguments", json!({"gen_args_0": {"arg_0": "x", "arg_1": 5}})),
        ("arguments", json!({"gen_args_0": {"arg_0": "x", "arg_1": "y"}})),
        ("resps", json!([["a"], ["b"]])),
        ("resps", json!([[1]])),
        ("filter", Value::Null),
        ("doc_hash", json!(7)),
    ];
    for (key, value) in wrong {
        let mut line = line.clone();
        line[key] = value;
        assert!(files::import("t", &line.to_string()).is_err(), "{line}");
    }
    assert!(files::import("t", "{}\n").is_err());
    assert!(files::import("t", "x\n").unwrap_err().to_string().starts_with("t, line 1"));
}

/// SHA-1 (FIPS 180-4), by which the mock names prompts.
fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut h: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend((bytes.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks(64) {
        let mut w: Vec<u32> =
            block.chunks(4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]])).collect();
        for t in 16..80 {
            let next: u32 = w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16];
            w.push(next.rotate_left(1));
        }
        let [mut a, mut b, mut c, mut d, mut e] = h;
        for (t, word) in w.iter().enumerate() {
            let (f, k) = match t {
                0..20 => (b & c | !b & d, 0x5a82_7999),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => (b & c | b & d | c & d, 0x8f1b_bcdc_u32),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let next = a.rotate_left(5).wrapping_add(f).wrapping_add(e).wrapping_add(k).wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (sum, part) in h.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(part);
        }
    }
    let mut out = [0; 20];
    out.chunks_mut(4).zip(h).for_each(|(four, word)| four.copy_from_slice(&word.to_be_bytes()));
    out
}
