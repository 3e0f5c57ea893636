//! lm-evaluation-harness itself beside us: the same server, the same task files, the same prompts and scores.
//! `INFEROMETER_LM_EVAL` names a Python that has `lm-eval[api]==0.4.13`; without it the test says so and passes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::answers::{arguments, tasks};
use super::model::{Model, Scores, Served};
use super::quality;
use crate::harness::file;

/// `cargo xtask test` installs it. `None`, with a word on stderr: it is not in the environment.
pub fn python() -> Option<OsString> {
    let python = std::env::var_os("INFEROMETER_LM_EVAL");
    if python.is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: INFEROMETER_LM_EVAL names no Python with lm-eval; run `cargo xtask test`"
        );
    }
    python
}

/// Beside the sums: shots that are drawn, two filters, a last word, whole pages. Of each document there is something
/// that the model gets right, and something that it does not.
fn more_tasks(folder: &Path) {
    let model = Model::new(Scores::Echo);
    let bytes = |text: &str| -> Vec<u32> { text.bytes().map(u32::from).collect() };
    let json = |name: &str| {
        format!("dataset_path: json\ndataset_kwargs: {{data_files: {{{name}}}}}\ntest_split: test\n")
    };
    let lines =
        |of: &dyn Fn(usize) -> Value, n: usize| (0..n).map(|i| of(i).to_string() + "\n").collect::<String>();
    file(folder, "shots.jsonl", &lines(&|i| json!({ "q": format!("Shot {i}"), "a": format!("is #{i}") }), 9));
    // Every other document wants the first letter of a to m that the model writes, the others the last.
    let letter = |i: usize| {
        let written = model.write(&bytes(&format!("{i}:")), 12, 0.0, 0);
        let mut found =
            written.iter().filter_map(|id| char::from_u32(*id)).filter(|c| ('a'..='m').contains(c));
        let wanted = if i.is_multiple_of(2) { found.next() } else { found.next_back() };
        json!({ "q": format!("Question {i}"), "a": format!("is #{}", wanted.unwrap_or('z')) })
    };
    file(folder, "letters.jsonl", &lines(&letter, 30));
    file(
        folder,
        "letters.yaml",
        &format!(
            "task: letters\n{}output_type: generate_until\nfewshot_split: train\nnum_fewshot: 2\n\
             description: \"Letters.\\n\\n\"\ndoc_to_text: \"Q: {{{{q}}}}:\"\ndoc_to_target: '{{{{a}}}}'\n\
             generation_kwargs: {{until: [\"Q:\"], max_gen_toks: 12, do_sample: false}}\n\
             filter_list:\n\
             - {{name: first, filter: [{{function: regex, regex_pattern: '([a-m])'}}, {{function: take_first}}]}}\n\
             - {{name: last, filter: [{{function: regex, group_select: -1, regex_pattern: '([a-m])'}}, {{function: take_first}}]}}\n\
             metric_list:\n- {{metric: exact_match, ignore_case: true, regexes_to_ignore: ['(?s).*#']}}\n",
            json("train: shots.jsonl, test: letters.jsonl")
        ),
    );
    let last = |i: usize| {
        let context = format!("A sentence that ends with number {i}");
        let written = model.write(&bytes(&context), 3, 0.0, 0);
        let written: String = written.iter().filter_map(|id| char::from_u32(*id)).collect();
        json!({ "context": context, "end": if i.is_multiple_of(2) { written } else { format!("word{i}") } })
    };
    file(folder, "ends.jsonl", &lines(&last, 20));
    file(
        folder,
        "ends.yaml",
        &format!(
            "task: ends\n{}output_type: loglikelihood\ndoc_to_text: '{{{{context}}}}'\ndoc_to_target: '{{{{end}}}}'\n\
             target_delimiter: ''\nmetric_list: [{{metric: perplexity, aggregation: perplexity, higher_is_better: false}}, \
             {{metric: acc, aggregation: mean, higher_is_better: true}}]\n",
            json("test: ends.jsonl")
        ),
    );
    let page = |i: usize| json!({ "page": "A sentence of some words. ".repeat((i + 1) * 8).trim_end() });
    file(folder, "pages.jsonl", &lines(&page, 3));
    file(
        folder,
        "read.yaml",
        &format!(
            "task: read\n{}output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: '{{{{page}}}}'\n\
             metric_list: [{{metric: word_perplexity}}, {{metric: byte_perplexity}}, {{metric: bits_per_byte}}]\n",
            json("test: pages.jsonl")
        ),
    );
    file(folder, "all.yaml", "group: all\ntask: [choose, letters, ends, read]\n");
}

/// The files of a folder whose names begin so.
fn found(folder: &Path, beginning: &str) -> PathBuf {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning)))
        .unwrap_or_else(|| panic!("no {beginning}* in {}", folder.display()))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The hashes of each document's data, prompt and target, and what each filter took out, by document and filter.
fn samples(path: &Path) -> BTreeMap<(u64, String), Value> {
    let line = |text: &str| {
        let sample: Value = serde_json::from_str(text).expect("JSON");
        let kept = ["doc_hash", "prompt_hash", "target_hash"].map(|name| sample[name].clone());
        let key = (sample["doc_id"].as_u64().expect("an id"), sample["filter"].to_string());
        // Log-probabilities are compared by what is made of them.
        let said =
            if sample["exact_match"].is_number() { sample["filtered_resps"].clone() } else { Value::Null };
        (key, json!([kept, said]))
    };
    read(path).lines().map(line).collect()
}

#[test]
fn lm_eval_and_we_score_the_same() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    tasks(folder.path(), 40);
    more_tasks(folder.path());
    let server = Served::start(Model::new(Scores::Echo));
    let model = format!(
        "base_url={}/v1/completions,model=bytes,tokenizer_backend=remote,max_length=512,num_concurrent=1",
        server.url
    );
    let theirs = Command::new(python)
        .args(["-m", "lm_eval", "--model", "local-completions", "--model_args", &model])
        .args(["--include_path", ".", "--tasks", "choose,letters,ends,read"])
        .args(["--output_path", "theirs", "--log_samples"])
        .env("HF_HUB_OFFLINE", "1")
        .env("HF_DATASETS_CACHE", folder.path().join("cache"))
        .current_dir(folder.path())
        .output()
        .expect("it starts");
    assert!(theirs.status.success(), "{}", String::from_utf8_lossy(&theirs.stderr));
    let suite = folder.path().join("all.yaml").display().to_string();
    let out = folder.path().join("ours").display().to_string();
    let mut args = arguments(&server.url, &suite, &out);
    // The byte that stands for BOS and EOS above.
    args.extend(["--prefix-token", "1"]);
    let ours = quality(&args);
    assert_eq!(ours.code, 0, "{}", ours.stderr);
    let theirs = folder.path().join("theirs/bytes");
    let ours = folder.path().join("ours/lm-eval/bytes");
    let [one, other] = [&theirs, &ours]
        .map(|folder| -> Value { serde_json::from_str(&read(&found(folder, "results"))).expect("JSON") });
    for (task, names) in [
        ("choose", &["acc,none", "acc_stderr,none"][..]),
        ("letters", &["exact_match,first", "exact_match,last", "exact_match_stderr,last"][..]),
        ("ends", &["perplexity,none", "acc,none", "acc_stderr,none"][..]),
        ("read", &["word_perplexity,none", "byte_perplexity,none", "bits_per_byte,none"][..]),
    ] {
        for name in names {
            let [one, other] = [&one, &other].map(|results| {
                let value = results["results"][task][name].as_f64();
                value.unwrap_or_else(|| panic!("{task} {name}: {}", results["results"][task]))
            });
            let told = format!("{task} {name}: {one} theirs, {other} ours");
            assert!((one - other).abs() <= 1e-12 * other.abs(), "{told}");
            assert!(
                one > 0.0 && (name.contains("perplexity") || name.contains("bits") || one < 1.0),
                "{told}"
            );
        }
        let beginning = format!("samples_{task}_");
        let [one, other] = [&theirs, &ours].map(|folder| samples(&found(folder, &beginning)));
        assert_eq!(one, other, "{task}");
    }
}
