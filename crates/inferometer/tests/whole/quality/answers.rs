//! Answers that are kept: runs, kills, resumption, comparison.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::model::{Model, Scores, Served};
use super::quality;
use crate::harness::{Started, file, inferometer, signal, wait_until, with_limits};

/// Sums as choices, and the same to be written.
pub fn tasks(folder: &Path, documents: u32) {
    // What the undamaged model thinks is right nine times out of ten.
    let model = Model::new(Scores::Echo);
    let likes = |question: &str, answer: u32| -> f64 {
        let ids: Vec<u32> = format!("{question} {answer}").bytes().map(u32::from).collect();
        (question.len()..ids.len()).map(|at| model.row(&ids[..at])[ids[at] as usize]).sum()
    };
    let docs: String = (0..documents)
        .map(|i| {
            let (a, b) = (10 + i % 37, 10 + i / 37);
            let question = format!("What is {a} and {b}?");
            let first = likes(&question, a + b) > likes(&question, a + b + 1);
            let (right, wrong) = if first == (i % 10 > 0) { (a + b, a + b + 1) } else { (a + b + 1, a + b) };
            format!("{{\"a\": {a}, \"b\": {b}, \"right\": \"{right}\", \"wrong\": \"{wrong}\"}}\n")
        })
        .collect();
    file(folder, "sums.jsonl", &docs);
    let common = "dataset_path: json\ndataset_kwargs: {data_files: {test: sums.jsonl}}\ntest_split: test\n\
                  doc_to_text: 'What is {{a}} and {{b}}?'\n";
    file(
        folder,
        "choose.yaml",
        &format!(
            "task: choose\n{common}output_type: multiple_choice\ndoc_to_choice: '{{{{[right, wrong]}}}}'\n\
             doc_to_target: 0\nmetric_list: [{{metric: acc}}]\n"
        ),
    );
    file(
        folder,
        "write.yaml",
        &format!(
            "task: write\n{common}output_type: generate_until\ndoc_to_target: right\n\
             generation_kwargs: {{until: [\"\\n\"], max_gen_toks: 8}}\nmetric_list: [{{metric: exact_match}}]\n"
        ),
    );
    file(folder, "both.yaml", "group: both\ntask: [choose, write]\n");
}

pub fn arguments<'a>(url: &'a str, suite: &'a str, out: &'a str) -> Vec<&'a str> {
    vec!["run", url, "--suite", suite, "--out", out, "--json"]
}

#[test]
fn a_run_that_is_killed_twenty_times_ends_with_the_same_journal() {
    let folder = tempfile::tempdir().expect("a folder");
    tasks(folder.path(), 150);
    let suite = folder.path().join("both.yaml").display().to_string();
    let server = Served::start(Model::new(Scores::Echo));
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (whole, killed) = (at("whole"), at("killed"));
    let once = quality(&arguments(&server.url, &suite, &whole));
    assert_eq!(once.code, 0, "{}", once.stderr);
    assert_eq!(once.json["breakage"]["documents"], 300);
    let asked = server.requests.load(Ordering::SeqCst);

    let journal = folder.path().join("killed/journal.jsonl");
    let lines = || std::fs::read_to_string(&journal).map_or(0, |text| text.lines().count());
    let mut wanted = 0;
    for kill in 0..20_usize {
        // Where it ends differs from time to time, also in the middle of a line.
        wanted += 1 + kill * 7 % 13;
        let mut command = inferometer(&["quality"]);
        command.args(arguments(&server.url, &suite, &killed)).args(["--progress", "off"]);
        let started = Started::start(&mut command);
        wait_until("some answers are kept", Duration::from_secs(60), || lines() > wanted);
        std::thread::sleep(Duration::from_micros(kill as u64 * 313 % 3_000));
        signal(started.pid(), "KILL");
        drop(started);
    }
    let before = lines();
    assert!(before < 300, "killed before its end: {before}");
    // A line that was cut.
    let text = std::fs::read_to_string(&journal).expect("a journal");
    std::fs::write(&journal, &text[..text.len() - 7]).expect("cut");
    let last = quality(&arguments(&server.url, &suite, &killed));
    assert_eq!(last.code, 0, "{}", last.stderr);
    assert!(last.stderr.contains("of 300 documents are there already"), "{}", last.stderr);
    let read = |folder: &str| std::fs::read_to_string(format!("{folder}/journal.jsonl")).expect("a journal");
    assert_eq!(read(&whole), read(&killed));
    assert_eq!(once.json["numbers"], last.json["numbers"]);
    // Nothing was asked for twice but what a kill had cut off, and the probe of each start.
    let probe = asked - 300 - 150;
    let all = server.requests.load(Ordering::SeqCst);
    assert!(all < asked + 22 * (probe + 40), "{all} requests");
    // A run that is complete asks nothing more.
    let again = quality(&arguments(&server.url, &suite, &killed));
    assert_eq!((again.code, &again.json["numbers"]), (0, &once.json["numbers"]));
}

#[test]
fn one_ctrl_c_ends_a_run_soon_and_the_same_command_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    tasks(folder.path(), 40);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (suite, out) = (at("choose.yaml"), at("out"));
    let server = Served::start(Model { delay: Duration::from_millis(20), ..Model::new(Scores::Echo) });
    let mut command = inferometer(&["quality"]);
    command.args(arguments(&server.url, &suite, &out)).args(["--progress", "off", "--concurrency", "2"]);
    let started = Started::start(&mut command);
    let journal = folder.path().join("out/journal.jsonl");
    wait_until("some answers are kept", Duration::from_secs(60), || {
        std::fs::read_to_string(&journal).is_ok_and(|text| text.lines().count() > 5)
    });
    signal(started.pid(), "INT");
    let stopped = started.end();
    assert_eq!(stopped.code, 130, "{}", stopped.stderr);
    assert!(stopped.stderr.contains("the same command goes on"), "{}", stopped.stderr);
    let rest = quality(&arguments(&server.url, &suite, &out));
    assert_eq!((rest.code, &rest.json["breakage"]["failed"]), (0, &0.into()), "{}", rest.stderr);
}

#[test]
fn answers_of_another_server_or_suite_are_not_mixed() {
    let folder = tempfile::tempdir().expect("a folder");
    tasks(folder.path(), 4);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (choose, write, out) = (at("choose.yaml"), at("write.yaml"), at("out"));
    let (server, other) = (Served::start(Model::new(Scores::Echo)), Served::start(Model::new(Scores::Echo)));
    assert_eq!(quality(&arguments(&server.url, &choose, &out)).code, 0);
    for (url, suite) in [(&server.url, &write), (&other.url, &choose)] {
        let refused = quality(&arguments(url, suite, &out));
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(
            refused.stderr.contains("holds other answers") && refused.stderr.contains("--out"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn tasks_that_need_scores_are_refused_where_there_are_none_and_the_others_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    tasks(folder.path(), 4);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let server = Served::start(Model::new(Scores::IgnoredEcho));
    let refused = quality(&arguments(&server.url, &at("both.yaml"), &at("out")));
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(refused.stderr.contains("--tasks write"), "{}", refused.stderr);
    assert!(!folder.path().join("out").exists(), "nothing is begun");
    let mut args = vec!["--tasks", "write"];
    let (suite, out) = (at("both.yaml"), at("out"));
    args.splice(0..0, arguments(&server.url, &suite, &out));
    let written = quality(&args);
    assert_eq!(written.code, 0, "{}", written.stderr);
    assert_eq!(written.json["numbers"].as_array().map(Vec::len), Some(1), "{}", written.json["numbers"]);
}

#[test]
fn a_full_disk_is_named_and_what_was_kept_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    tasks(folder.path(), 150);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (suite, out) = (at("choose.yaml"), at("out"));
    let server = Served::start(Model::new(Scores::Echo));
    let mut args = vec!["quality"];
    args.extend(arguments(&server.url, &suite, &out));
    // In units of 1,024 bytes.
    let full = Started::start(&mut with_limits("ulimit -f 40", &args)).end();
    assert_eq!(full.code, 2, "{}", full.stderr);
    assert!(full.stderr.contains("journal.jsonl") && full.stderr.contains("ulimit -f"), "{}", full.stderr);
    let rest = quality(&arguments(&server.url, &suite, &out));
    assert_eq!(rest.code, 0, "{}", rest.stderr);
    assert_eq!(rest.json["breakage"]["documents"], 150);
}

#[test]
fn a_server_passes_against_itself_and_a_damaged_one_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    tasks(folder.path(), 400);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let suite = at("choose.yaml");
    let model = Model::new(Scores::PromptLogprobs);
    let answered = |name: &str, model: Model| {
        let server = Served::start(model);
        let out = at(name);
        let ran = quality(&arguments(&server.url, &suite, &out));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let value = ran.json["numbers"][0]["value"].as_f64().expect("a score");
        let kl = quality(&["kl", &server.url, "--out", &out, "--tokens", "64", "--json"]);
        assert_eq!(kl.code, 0, "{}", kl.stderr);
        (out, value)
    };
    let (base, score) = answered("base", model);
    let (twin, _) = answered("twin", model);
    let (bad, damaged) = answered("bad", Model { damage: 90, ..model });
    let same = quality(&["compare", &base, &twin, "--json"]);
    assert_eq!(same.code, 0, "{score}: {}", same.stderr);
    assert_eq!(same.json["verdict"], "pass");
    assert_eq!(same.json["divergence"][0]["divergence"]["kl"]["mean"], 0.0, "{}", same.json["divergence"]);
    let worse = quality(&["compare", &base, &bad, "--json"]);
    assert!(damaged < score * 0.8, "{damaged} after {score}: the test needs a bad server");
    assert_eq!(worse.code, 1, "{}", worse.stderr);
    // The sample file of lm-evaluation-harness says the same.
    let samples = format!("{base}/lm-eval/bytes/samples_choose_run.jsonl");
    let theirs = quality(&["compare", &samples, &twin, "--json", "--only-paired"]);
    assert_eq!(theirs.json["tasks"][0]["base"], same.json["tasks"][0]["base"], "{}", theirs.stderr);
}
