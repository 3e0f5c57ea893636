//! Quality at the load that a search finds: the same model passes, one that answers otherwise when it is full fails, and who
//! cannot be asked is refused before the search.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;

use super::answers::{arguments, tasks};
use super::model::{Model, Scores, Served};
use super::quality;
use crate::harness::{Run, Started, inferometer, only_run};

/// A search of a second or two: four in flight at most, and a limit that all of them keep.
fn capacity(url: &str, folder: &Path, more: &[&str]) -> Run {
    let mut command = inferometer(&["capacity", url, "--api", "completions", "--no-stream", "--isl", "8"]);
    command.args(["--osl", "2", "--over", "concurrency", "--max", "4", "--slo", "p90(e2e)<=5s"]);
    command.args(more).args(["--json", "--progress", "off", "--out"]).arg(folder);
    Started::start(&mut command).end()
}

fn resumed(search: &Path, more: &[&str]) -> Run {
    let mut command = inferometer(&["capacity", "--resume"]);
    Started::start(command.arg(search).args(more).args(["--json", "--progress", "off"])).end()
}

/// The same to its end on a machine that is busy with other work: what that spoils is believed, since this is not about the
/// speed.
fn searched(url: &str, folder: &Path, more: &[&str]) -> Run {
    let mut ran = capacity(url, folder, more);
    for _ in 0..12 {
        if ran.code != 3 {
            break;
        }
        let path = only_run(folder).join("probes.jsonl");
        let text = std::fs::read_to_string(&path).expect("probes");
        let mut probes: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        // What came after it came of it.
        let spoilt = probes.iter().position(|probe| probe["finished"]["trust"] != "trusted");
        let spoilt = spoilt.expect("a probe that this client spoilt");
        probes.truncate(spoilt + 1);
        probes[spoilt]["finished"]["trust"] = "trusted".into();
        let believed: String = probes.iter().map(|probe| format!("{probe}\n")).collect();
        std::fs::write(&path, believed).expect("written");
        let html: Vec<&str> = more.iter().copied().filter(|arg| *arg == "--html").collect();
        ran = resumed(&only_run(folder), &html);
    }
    ran
}

/// Answers to 150 sums as choices, of an empty server.
fn baseline(url: &str, folder: &Path, name: &str) -> String {
    let suite = folder.join("choose.yaml").display().to_string();
    let out = folder.join(name).display().to_string();
    let mut args = arguments(url, &suite, &out);
    args.extend(["--concurrency", "1"]);
    let asked = quality(&args);
    assert_eq!(asked.code, 0, "{}", asked.stderr);
    out
}

fn sentence(found: &Run) -> String {
    found.at("verdict/answer").as_str().expect("a sentence").replace('\u{a0}', " ")
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("a file")).expect("JSON")
}

#[test]
fn the_same_model_at_its_load_gives_a_qualified_goodput() {
    let folder = tempfile::tempdir().expect("a folder");
    tasks(folder.path(), 150);
    let server = Served::start(Model { delay: Duration::from_millis(2), ..Model::new(Scores::Echo) });
    let base = baseline(&server.url, folder.path(), "base");
    let searches = folder.path().join("searches");
    let found = searched(&server.url, &searches, &["--quality", &base, "--html"]);
    assert_eq!(found.code, 0, "{}", found.stderr);
    assert_eq!(found.at("quality/verdict"), "pass", "{}", found.stderr);
    assert_eq!(found.at("quality/reason"), &Value::Null);
    let (qualified, good) =
        (found.number("quality/qualified_goodput_per_s"), found.number("answer/goodput_per_s"));
    assert!((qualified - good).abs() < 1e-12 && good > 0.0);
    // Four in flight: half of them questions.
    let in_flight = found.at("quality/at_load/in_flight");
    assert_eq!((&in_flight["questions"], &in_flight["beside"]), (&2.into(), &2.into()));
    assert_eq!(found.at("quality/at_load/report/pairing/paired"), 150);
    assert_eq!(found.at("quality/at_load/beside/failed"), 0);
    assert!(found.number("quality/at_load/beside/ok") > 0.0);
    let sentence = sentence(&found);
    let said = format!(
        "; quality at this load: PASS against {base} (150 documents, 4 in flight, 2 of them questions)"
    );
    assert!(sentence.ends_with(&said), "{sentence}");
    assert!(
        found.stderr.contains("qualified goodput") && found.stderr.contains("choose"),
        "{}",
        found.stderr
    );

    // All of it lies in the folder of the search, and is told again from there.
    let search = only_run(&searches);
    let kept = read(&search.join("capacity.json"));
    assert_eq!(kept["quality"], found.json["quality"]);
    let beside = search.join(found.at("quality/at_load/beside/folder").as_str().expect("a folder"));
    assert_eq!(read(&beside.join("run.json"))["spec"]["load"]["concurrency"], 2);
    let page = std::fs::read_to_string(search.join("report.html")).expect("a page");
    assert!(page.contains("Quality at this load") && page.contains("--quality "), "the page tells of it");
    let shown = Run::of(inferometer(&["show", "--json"]).arg(&search).output().expect("starts"));
    assert_eq!((shown.code, &shown.json["quality"]), (0, &found.json["quality"]));

    // Gone on with, nothing is asked again but what the server can.
    let before = server.requests.load(Ordering::SeqCst);
    let again = resumed(&search, &[]);
    assert_eq!((again.code, &again.json["quality"]), (0, &found.json["quality"]), "{}", again.stderr);
    assert!(server.requests.load(Ordering::SeqCst) < before + 60, "the probe of the server alone");
}

#[test]
fn a_model_that_answers_otherwise_when_it_is_full_has_no_qualified_goodput() {
    let folder = tempfile::tempdir().expect("a folder");
    tasks(folder.path(), 150);
    let model = Model { delay: Duration::from_millis(4), damage: 100, ..Model::new(Scores::Echo) };
    let server = Served::start(Model { crowd: 1, ..model });
    let base = baseline(&server.url, folder.path(), "base");
    // Asked while it is empty it is the same model.
    let again = baseline(&server.url, folder.path(), "again");
    assert_eq!(quality(&["compare", &base, &again]).code, 0);
    let found = searched(&server.url, &folder.path().join("searches"), &["--quality", &base]);
    assert_eq!(found.code, 1, "{}", found.stderr);
    assert_eq!(found.at("quality/verdict"), "fail");
    assert_eq!(found.at("quality/qualified_goodput_per_s"), &Value::Null);
    assert_eq!(found.at("quality/reason"), "at this load the server is not the same model");
    assert_eq!(found.at("answer/verdict"), "not_reached", "the speed stands as it is");
    let sentence = sentence(&found);
    assert!(sentence.ends_with("2 of them questions), so no qualified goodput"), "{sentence}");
    assert!(found.stderr.contains("no qualified goodput: at this load"), "{}", found.stderr);
}

#[test]
fn who_cannot_be_asked_is_refused_before_the_search() {
    let folder = tempfile::tempdir().expect("a folder");
    tasks(folder.path(), 10);
    let server = Served::start(Model::new(Scores::Echo));
    let base = baseline(&server.url, folder.path(), "base");
    let blind = Served::start(Model::new(Scores::IgnoredEcho));
    let searches = folder.path().join("searches");
    let refused = capacity(&blind.url, &searches, &["--quality", &base]);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    assert!(refused.stderr.contains("cannot answer choose"), "{}", refused.stderr);
    assert_eq!(std::fs::read_dir(&searches).expect("the folder").count(), 0, "nothing was searched");
    let nothing = folder.path().join("nothing").display().to_string();
    for (more, said) in [
        (&["--quality", &nothing][..], "inferometer quality run URL --out"),
        (&["--quality", &base, "--maximize", "request_throughput"], "no one load"),
    ] {
        let refused = capacity(&server.url, &searches, more);
        assert_eq!(refused.code, 2, "{more:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(said), "{more:?}: {}", refused.stderr);
    }
    // The questions that were asked are those that are asked again, or none.
    let text = std::fs::read_to_string(folder.path().join("sums.jsonl")).expect("documents");
    let (first, _) = text.split_once('\n').expect("lines");
    std::fs::write(folder.path().join("sums.jsonl"), first).expect("written");
    let refused = capacity(&server.url, &searches, &["--quality", &base]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("the task files have changed"), "{}", refused.stderr);
}
