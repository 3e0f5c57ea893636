//! A real engine with a model, and with a coarser copy of it: which is which has to come out, and by how much.
//! On two free cores these take about a minute together.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use quality::builtin::TEXT;
use serde_json::{Value, json};

use super::quality;
use crate::harness::{Run, file};
use crate::llama::Llama;

/// Documents of the task below: without a flip a PASS takes 66.
const DOCUMENTS: usize = 80;

/// Reads the little that is needed of a GGUF file.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn number(&mut self, width: usize) -> usize {
        let bytes = &self.bytes[self.at..self.at + width];
        self.at += width;
        bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    }

    fn skip_string(&mut self) {
        let length = self.number(8);
        self.at += length;
    }

    fn skip_value(&mut self, kind: usize) {
        match kind {
            8 => self.skip_string(),
            9 => {
                let (inner, count) = (self.number(4), self.number(8));
                (0..count).for_each(|_| self.skip_value(inner));
            }
            0 | 1 | 7 => self.at += 1,
            2 | 3 => self.at += 2,
            4..=6 => self.at += 4,
            _ => self.at += 8,
        }
    }
}

/// Rounds every weight of type Q4_1 (blocks of 32: scale, minimum, four bits each) to every other of its 16 values:
/// three bits. The file keeps its form. Returns how many tensors that were.
fn coarsen(gguf: &mut [u8]) -> usize {
    const Q4_1: usize = 3;
    let mut tensors = Vec::new();
    let mut reader = Reader { bytes: gguf, at: 8 };
    let (count, pairs) = (reader.number(8), reader.number(8));
    for _ in 0..pairs {
        reader.skip_string();
        let kind = reader.number(4);
        reader.skip_value(kind);
    }
    for _ in 0..count {
        reader.skip_string();
        let dimensions = reader.number(4);
        let weights: usize = (0..dimensions).map(|_| reader.number(8)).product();
        let (kind, offset) = (reader.number(4), reader.number(8));
        if kind == Q4_1 {
            tensors.push((offset, weights / 32 * 20));
        }
    }
    let data = reader.at.next_multiple_of(32);
    // Halves go to a multiple of four, so that nothing is shifted on average.
    let rounded = |four: u8| if four % 4 == 3 { (four + 1).min(15) } else { four & !1 };
    for (offset, length) in &tensors {
        for block in gguf[data + offset..data + offset + length].chunks_exact_mut(20) {
            for byte in &mut block[4..] {
                *byte = rounded(*byte & 15) | rounded(*byte >> 4) << 4;
            }
        }
    }
    tensors.len()
}

/// Which two words come next in the bundled text: those that do, or others of it.
fn task(folder: &Path) -> String {
    let words: Vec<&str> = TEXT.split_whitespace().collect();
    let some = |at: usize, n: usize| words[at..at + n].join(" ");
    let lines: String = (0..DOCUMENTS)
        .map(|i| 500 + i * 100)
        .map(|at| {
            json!({ "before": some(at, 10), "right": some(at + 10, 2), "wrong": some(at + 85, 2) })
                .to_string()
                + "\n"
        })
        .collect();
    file(folder, "next.jsonl", &lines);
    let yaml = "task: next\ndataset_path: json\ndataset_kwargs: {data_files: {test: next.jsonl}}\ntest_split: test\n\
                output_type: multiple_choice\ndoc_to_text: '{{before}}'\ndoc_to_choice: '{{[right, wrong]}}'\n\
                doc_to_target: 0\nmetric_list: [{metric: acc}]\n";
    file(folder, "next.yaml", yaml).display().to_string()
}

fn ran(args: &[&str]) -> Run {
    let run = quality(args);
    assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
    run
}

#[test]
fn a_coarser_quantisation_is_found_worse_and_the_model_itself_passes() {
    let Some((python, model)) = Llama::paths() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let mut gguf = std::fs::read(&model).expect("the model");
    assert!(coarsen(&mut gguf) > 100, "the model has other types of weights");
    std::fs::write(at("coarse.gguf"), &gguf).expect("written");
    drop(gguf);
    let (fine, coarse) = (Llama::serve(&python, &model), Llama::serve(&python, at("coarse.gguf").as_ref()));
    let suite = task(folder.path());
    let (base, again, new) = (at("base"), at("again"), at("new"));
    ran(&["kl", &fine.url(), "--out", &base, "--tokens", "64"]);
    for (server, out) in [(&fine, &again), (&coarse, &new)] {
        ran(&["kl", &server.url(), "--base", &base, "--out", out]);
    }
    for (server, out) in [(&fine, &base), (&fine, &again), (&coarse, &new)] {
        ran(&["run", &server.url(), "--suite", &suite, "--out", out]);
    }
    let kl = |compared: &Run, task: &str| {
        let all = compared.json["divergence"].as_array().unwrap_or_else(|| panic!("{}", compared.stderr));
        let one = all.iter().find(|one| one["task"] == task).unwrap_or_else(|| panic!("{all:?}"));
        one["divergence"]["kl"]["mean"].as_f64().unwrap_or_else(|| panic!("{one}"))
    };
    let same = ran(&["compare", &base, &again, "--kl-limit", "0.05", "--json"]);
    let worse = quality(&["compare", &base, &new, "--again", &again, "--kl-limit", "0.05", "--json"]);
    assert_eq!(worse.code, 1, "{}", worse.stderr);
    for task in ["divergence_text", "divergence_answers"] {
        assert!((0.0..1e-3).contains(&kl(&same, task)), "{task}: {}", kl(&same, task));
        assert!(kl(&worse, task) > 0.2, "{task}: {}", kl(&worse, task));
    }
    // By the answers alone, too.
    for folder in [&base, &again, &new] {
        std::fs::remove_file(format!("{folder}/divergence.jsonl")).expect("removed");
    }
    ran(&["compare", &base, &again]);
    let worse = quality(&["compare", &base, &new]);
    assert_eq!(worse.code, 1, "{}", worse.stderr);
    assert!(worse.stderr.contains("on next the new server keeps at most"), "{}", worse.stderr);
}

/// The same weights multiplied by numpy; the Python of lm-evaluation-harness has it.
#[test]
fn a_perplexity_by_the_walk_is_that_of_the_weights() {
    let Some((python, model)) = Llama::paths() else { return };
    let Some(numpy) = super::lm_eval::python() else { return };
    let llama = Llama::serve(&python, &model);
    let folder = tempfile::tempdir().expect("a folder");
    let text = &TEXT[..2_600];
    let page: Value = llama.post("/tokenize", &json!({ "content": text }));
    let ids = &page["tokens"].as_array().expect("tokens")[..512];
    let mut reference = Command::new(numpy)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/whole/engine/reference.py"))
        .arg(model)
        .env("OMP_NUM_THREADS", "1")
        .env("OPENBLAS_NUM_THREADS", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let mut stdin = reference.stdin.take().expect("piped");
    stdin.write_all(json!(ids).to_string().as_bytes()).expect("sent");
    drop(stdin);
    let told = reference.wait_with_output().expect("ended");
    let mean: f64 = String::from_utf8_lossy(&told.stdout).trim().parse().expect("a number");
    let path = file(folder.path(), "text.txt", text).display().to_string();
    let ppl = ran(&["ppl", &llama.url(), "--text", &path, "--window", "512", "--windows", "1", "--json"]);
    assert_eq!(ppl.json["perplexity"]["scored"], 511);
    let (ours, exact) = (ppl.number("perplexity/value"), mean.exp());
    assert!((ours / exact - 1.0).abs() < 0.005, "{ours} by the walk, {exact} of the weights");
}
