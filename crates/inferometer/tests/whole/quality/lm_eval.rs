//! lm-evaluation-harness itself beside us: the same server, the same task files, the same scores.
//! `INFEROMETER_LM_EVAL` names a Python that has `lm-eval[api]==0.4.13`; without it the test says so and passes.

use std::io::Write;
use std::process::Command;

use serde_json::Value;

use super::answers::{arguments, tasks};
use super::model::{Model, Scores, Served};
use super::quality;
use crate::harness::file;

#[test]
fn lm_eval_and_we_score_the_same() {
    let Some(python) = std::env::var_os("INFEROMETER_LM_EVAL") else {
        let _ = writeln!(std::io::stderr(), "skipped: INFEROMETER_LM_EVAL names no Python with lm-eval");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    tasks(folder.path(), 40);
    let pages: String = (1..4)
        .map(|n| format!("{{\"page\": \"{}\"}}\n", "A sentence of some words. ".repeat(n * 50).trim_end()))
        .collect();
    file(folder.path(), "pages.jsonl", &pages);
    file(
        folder.path(),
        "read.yaml",
        "task: read\ndataset_path: json\ndataset_kwargs: {data_files: {test: pages.jsonl}}\ntest_split: test\n\
         output_type: loglikelihood_rolling\ndoc_to_text: ''\ndoc_to_target: '{{page}}'\n\
         metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]\n",
    );
    file(folder.path(), "all.yaml", "group: all\ntask: [choose, write, read]\n");
    let server = Served::start(Model::new(Scores::Echo));
    let model = format!(
        "base_url={}/v1/completions,model=bytes,tokenizer_backend=remote,max_length=2048,num_concurrent=1",
        server.url
    );
    let theirs = Command::new(python)
        .args(["-m", "lm_eval", "--model", "local-completions", "--model_args", &model])
        .args(["--include_path", ".", "--tasks", "choose,write,read", "--output_path", "theirs"])
        .env("HF_HUB_OFFLINE", "1")
        .env("HF_DATASETS_CACHE", folder.path().join("cache"))
        .current_dir(folder.path())
        .output()
        .expect("it starts");
    assert!(theirs.status.success(), "{}", String::from_utf8_lossy(&theirs.stderr));
    let results = std::fs::read_dir(folder.path().join("theirs/bytes"))
        .expect("their results")
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|e| e == "json"))
        .expect("a results file");
    let theirs: Value =
        serde_json::from_slice(&std::fs::read(results).expect("a results file")).expect("JSON");

    let (suite, out) = (folder.path().join("all.yaml").display().to_string(), folder.path().join("ours"));
    let out = out.display().to_string();
    let mut args = arguments(&server.url, &suite, &out);
    // The byte that stands for BOS and EOS above.
    args.extend(["--prefix-token", "1"]);
    let ours = quality(&args);
    assert_eq!(ours.code, 0, "{}", ours.stderr);
    let ours = std::fs::read(format!("{out}/lm-eval/bytes/results.json")).expect("our results");
    let ours: Value = serde_json::from_slice(&ours).expect("JSON");
    for (task, names) in [
        ("choose", &["acc,none", "acc_stderr,none"][..]),
        ("write", &["exact_match,none"][..]),
        ("read", &["word_perplexity,none", "byte_perplexity,none", "bits_per_byte,none"][..]),
    ] {
        for name in names {
            let (one, other) = (&theirs["results"][task][name], &ours["results"][task][name]);
            assert!(one.is_number(), "{task} {name}: {}", theirs["results"][task]);
            let (one, other) = (one.as_f64().unwrap_or(f64::NAN), other.as_f64().unwrap_or(f64::NAN));
            assert!((one - other).abs() <= 1e-12 * other.abs(), "{task} {name}: {one} theirs, {other} ours");
        }
    }
}
