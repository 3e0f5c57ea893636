//! `inferometer quality` against servers that score in every way, that lie, and a real one.

mod answers;
mod at_load;
mod coarser;
mod lm_eval;
mod model;

use serde_json::Value;

use crate::harness::{Run, Started, file, inferometer};
use crate::llama::Llama;
use model::{Model, Scores, Served};

fn quality(args: &[&str]) -> Run {
    let mut command = inferometer(&["quality"]);
    command.args(args).args(["--progress", "off"]);
    Started::start(&mut command).end()
}

fn state(probed: &Run, id: &str) -> String {
    let findings = probed.json["findings"].as_array().unwrap_or_else(|| panic!("{}", probed.stderr));
    let finding = findings.iter().find(|f| f["id"] == id).unwrap_or_else(|| panic!("no finding {id}"));
    finding["state"].as_str().expect("a state").to_owned()
}

#[test]
fn a_probe_proves_a_mode_and_believes_no_lie() {
    for (scores, mode, echo) in [
        (Scores::PromptLogprobs, "prompt_logprobs", "no"),
        (Scores::Echo, "echo", "yes"),
        (Scores::Sglang, "sglang", "no"),
        (Scores::Walk, "walk", "no"),
        (Scores::EmptyEcho, "generate_only", "no"),
        (Scores::IgnoredEcho, "generate_only", "no"),
        (Scores::ZeroEcho, "generate_only", "no"),
        (Scores::Nothing, "generate_only", "no"),
    ] {
        let server = Served::start(Model::new(scores));
        let probed = quality(&["probe", &server.url, "--json"]);
        assert_eq!(probed.code, 0, "{scores:?}: {}", probed.stderr);
        assert_eq!(probed.json["manner"]["mode"], mode, "{scores:?}: {}", probed.stderr);
        assert_eq!(state(&probed, "echo"), echo, "{scores:?}");
        assert_eq!(state(&probed, "determinism"), "yes", "{scores:?}");
        assert_eq!(state(&probed, "seeds"), "yes", "{scores:?}");
        let same = if mode == "generate_only" { "unknown" } else { "yes" };
        assert_eq!(state(&probed, "same_scores"), same, "{scores:?}");
        assert_eq!(probed.json["manner"]["context"], 2048);
    }
}

/// What the four ways say of one text is the same, and what the model says itself.
#[test]
fn every_mode_gives_the_models_own_perplexity() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = "It was the best of times, it was the worst of times. ".repeat(3);
    let text = file(folder.path(), "text.txt", &words);
    let ids: Vec<u32> = words.bytes().map(u32::from).collect();
    let plain = Model::new(Scores::Walk);
    // Two windows of 64 of 159 bytes, all but the first of each.
    let nll = |at: usize, begin: usize| -plain.row(&ids[begin..at])[ids[at] as usize];
    let sum: f64 = (1..64).map(|at| nll(at, 0)).chain((65..128).map(|at| nll(at, 64))).sum();
    for scores in [Scores::PromptLogprobs, Scores::Echo, Scores::Sglang, Scores::Walk] {
        let server = Served::start(Model::new(scores));
        let text = text.to_str().expect("a path");
        let ppl = quality(&["ppl", &server.url, "--text", text, "--window", "64", "--json"]);
        assert_eq!(ppl.code, 0, "{scores:?}: {}", ppl.stderr);
        assert_eq!(ppl.json["perplexity"]["scored"], 126);
        let (ours, exact) = (ppl.number("perplexity/value"), (sum / 126.0).exp());
        assert!((ours / exact - 1.0).abs() < 1e-9, "{scores:?}: {ours} against {exact}");
        let bits = sum / 126.0 / std::f64::consts::LN_2;
        assert!((ppl.number("perplexity/bits_per_byte") / bits - 1.0).abs() < 1e-9, "a token is a byte");
    }
}

#[test]
fn a_server_that_cannot_score_is_refused_with_the_reason_and_a_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = file(folder.path(), "text.txt", &"word ".repeat(100));
    let server = Served::start(Model::new(Scores::IgnoredEcho));
    let ppl = quality(&["ppl", &server.url, "--text", text.to_str().expect("a path"), "--window", "32"]);
    assert_eq!(ppl.code, 4, "{}", ppl.stderr);
    for part in ["cannot score", "1 values came for the", "hint:", "llama-server"] {
        assert!(ppl.stderr.contains(part), "{part}: {}", ppl.stderr);
    }
}

/// The row of one token over the whole vocabulary, asked for by hand, and the same by the walk.
#[test]
fn a_real_engine_is_walked_to_its_own_log_probabilities() {
    let Some(llama) = Llama::start() else { return };
    let probed = quality(&["probe", &llama.url(), "--json"]);
    assert_eq!(probed.json["manner"]["mode"], "walk", "{}", probed.stderr);
    assert_eq!(state(&probed, "determinism"), "yes");
    let folder = tempfile::tempdir().expect("a folder");
    let text = "The quick brown fox jumps over the lazy dog, and the dog does not mind it at all.";
    let path = file(folder.path(), "text.txt", text);
    let path = path.to_str().expect("a path");
    let ids: Vec<u64> = {
        let page: Value = llama.post("/tokenize", &serde_json::json!({ "content": text }));
        page["tokens"].as_array().expect("tokens").iter().filter_map(Value::as_u64).collect()
    };
    let window = 8;
    assert!(ids.len() >= window);
    let mut sum = 0.0;
    for at in 1..window {
        let row = llama.post(
            "/completion",
            &serde_json::json!({ "prompt": ids[..at], "n_predict": 1, "n_probs": 60_000, "temperature": 0 }),
        );
        let all = row["completion_probabilities"][0]["top_logprobs"].as_array().expect("a row");
        let total: f64 = all.iter().filter_map(|entry| Some(entry["logprob"].as_f64()?.exp())).sum();
        assert!((total - 1.0).abs() < 1e-3, "the whole vocabulary: {total}");
        let of = all.iter().find(|entry| entry["id"] == ids[at]).expect("every token is there");
        sum -= of["logprob"].as_f64().expect("a number");
    }
    let ppl = quality(&["ppl", &llama.url(), "--text", path, "--window", "8", "--windows", "1", "--json"]);
    assert_eq!(ppl.code, 0, "{}", ppl.stderr);
    let (ours, exact) = (ppl.number("perplexity/value"), (sum / 7.0).exp());
    assert!((ours / exact - 1.0).abs() < 1e-3, "{ours} by the walk, {exact} by whole rows");
    assert!((1.0..200.0).contains(&ours), "{ours}");
}

#[test]
fn a_real_engine_diverges_from_itself_by_nothing() {
    let Some(llama) = Llama::start() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let base = folder.path().join("base");
    let base = base.to_str().expect("a path");
    let recorded = quality(&["kl", &llama.url(), "--out", base, "--tokens", "32", "--top", "50"]);
    assert_eq!(recorded.code, 0, "{}", recorded.stderr);
    let kl = quality(&["kl", &llama.url(), "--base", base, "--json"]);
    assert_eq!(kl.code, 0, "{}", kl.stderr);
    assert_eq!(kl.at("divergence/all/positions"), 32);
    let mean = kl.number("divergence/all/kl/mean");
    assert!((0.0..1e-3).contains(&mean), "KL of the model with itself: {mean}");
    assert!(kl.number("divergence/all/same_top/share") > 0.98, "{}", kl.json);
}
