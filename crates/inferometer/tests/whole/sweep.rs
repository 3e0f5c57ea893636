//! A sweep from the command line to its folder: points, order, interruption, going on, a server that dies.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Run, Sim, Started, inferometer, only_run, signal, wait_until, with_limits};

/// A short sweep of an engine of known timing.
fn sweep(folder: &Path, args: &[&str]) -> Started {
    let mut command = inferometer(&["sweep"]);
    command.args(args).args([
        "--isl",
        "16",
        "--osl",
        "8",
        "--warmup",
        "none",
        "--json",
        "--progress",
        "off",
        "--out",
    ]);
    Started::start(command.arg(folder))
}

fn resumed(folder: &Path, args: &[&str]) -> Run {
    let mut command = inferometer(&["sweep", "--resume"]);
    Started::start(command.arg(folder).args(["--json", "--progress", "off"]).args(args)).end()
}

fn json(path: &Path) -> Value {
    let text = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).expect("JSON")
}

/// The folders of runs in that of a sweep.
fn runs(sweep: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(sweep).expect("the folder").map(|e| e.expect("an entry").path());
    let mut runs: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    runs.sort();
    runs
}

fn loads(list: &Value) -> Vec<f64> {
    list.as_array().expect("a list").iter().map(|p| p["load"].as_f64().expect("a load")).collect()
}

#[test]
fn every_load_is_a_run_of_its_own_with_fresh_prompts() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = ["--slo", "p50(ttft)<=500ms", "--repeats", "2", "--html", "--accelerators", "4"];
    let args = ["sim://fixed?ttft=20ms&tpot=2ms", "--concurrency", "1,2,4", "--duration", "1s"];
    let ran = sweep(folder.path(), &[&args[..], &limits].concat()).end();
    // On a machine that is busy with other tests nothing may be concluded, which is an answer too.
    assert!([0, 3, 5].contains(&ran.code), "{}\n{}", ran.code, ran.stderr);
    let dir = only_run(folder.path());
    assert_eq!(json(&dir.join("sweep.json")), ran.json, "--json prints sweep.json");
    assert_eq!(loads(&ran.json["points"]), [1.0, 2.0, 4.0], "{}", ran.stderr);
    assert_eq!((&ran.json["complete"], &ran.json["repeats"]), (&true.into(), &2.into()));
    assert_eq!(ran.json["over"], "concurrency");
    assert_eq!(ran.json["limits"].as_array().map(Vec::len), Some(1));
    let made = runs(&dir);
    assert_eq!(made.len(), 6);
    let (mut seeds, mut prompts, mut bodies) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for run in &made {
        let record = record::read(run).expect("a journal");
        seeds.insert(record.header.spec.seed);
        bodies.insert(json(&run.join("first-request.json"))["body"].to_string());
        let before = prompts.len();
        prompts.extend(record.requests.iter().map(|r| r.prompt.whole));
        assert_eq!(prompts.len(), before + record.requests.len(), "no prompt is sent twice");
        for name in ["run.json", "requests.parquet", "report.html"] {
            assert!(run.join(name).is_file(), "{name}");
        }
        let port = &record.header.environment.addresses;
        let first = record::read(&made[0]).expect("a journal").header.environment.addresses;
        assert_eq!(*port, first, "one engine serves all of them");
    }
    assert_eq!((seeds.len(), bodies.len()), (6, 6));
    let page = std::fs::read_to_string(dir.join("report.html")).expect("a page");
    for run in &made {
        let name = run.file_name().expect("a name").to_string_lossy();
        assert!(page.contains(&format!("href=\"{name}/report.html\"")), "{name}");
    }
    // What the folder holds says the same again, and other limits another thing.
    let shown = inferometer(&["show", "--json"]).arg(&dir).output().expect("starts");
    let shown = Run::of(shown);
    assert_eq!(shown.json["points"], ran.json["points"], "{}", shown.stderr);
    let other = Run::of(
        inferometer(&["show", "--json", "--slo", "p50(ttft)<=1ms"]).arg(&dir).output().expect("starts"),
    );
    assert_eq!(other.json["limits"][0]["limit"], "p50(ttft)<=1ms");
    if ran.code == 0 {
        assert_eq!(ran.json["limits"][0]["state"], "holds", "{}", ran.json["limits"]);
        assert_eq!((other.code, &other.json["limits"][0]["state"]), (1, &"missed".into()));
    }
}

#[test]
fn the_order_is_drawn_from_the_seed_or_as_given() {
    let order = |args: &[&str]| -> Vec<f64> {
        let target = ["sweep", "sim://fixed", "--concurrency", "8,4,2,1,16,32", "--dry-run"];
        let out = inferometer(&[&target[..], args].concat()).output().expect("starts");
        let json: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        json["order"].as_array().expect("a list").iter().map(|l| l.as_f64().expect("a load")).collect()
    };
    assert_eq!(order(&["--order", "as-given"]), [8.0, 4.0, 2.0, 1.0, 16.0, 32.0]);
    assert_eq!(order(&["--seed", "1"]), order(&["--seed", "1"]));
    let orders: BTreeSet<String> =
        ["1", "2", "3", "4"].iter().map(|seed| format!("{:?}", order(&["--seed", seed]))).collect();
    assert!(orders.len() > 1, "{orders:?}");
}

#[test]
fn an_interrupted_sweep_is_whole_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["sim://fixed?ttft=20ms&tpot=2ms", "--rate", "20,40,60", "--duration", "1500ms"];
    let started = sweep(folder.path(), &[&args[..], &["--order", "as-given"]].concat());
    // In the second run.
    wait_until("a second run", Duration::from_secs(40), || {
        std::fs::read_dir(folder.path())
            .ok()
            .and_then(|mut list| Some(list.next()?.ok()?.path()))
            .is_some_and(|dir| runs(&dir).len() == 2 && runs(&dir)[1].join("journal.jsonl.zst").exists())
    });
    signal(started.pid(), "INT");
    let ran = started.end();
    assert!([0, 3, 5].contains(&ran.code), "{}\n{}", ran.code, ran.stderr);
    assert_eq!(loads(&ran.json["points"]), [20.0], "{}", ran.stderr);
    assert_eq!(ran.json["complete"], false);
    assert_eq!(ran.json["missing"], serde_json::json!([40, 60]));
    assert_eq!(ran.json["ended"], "it was interrupted");
    assert!(ran.stderr.contains("--resume"), "{}", ran.stderr);

    let dir = only_run(folder.path());
    let other = resumed(&dir, &["--isl", "32"]);
    assert_eq!(other.code, 2, "{}", other.stderr);
    assert!(other.stderr.contains("other settings"), "{}", other.stderr);
    let whole = resumed(&dir, &[]);
    assert!([0, 3, 5].contains(&whole.code), "{}\n{}", whole.code, whole.stderr);
    assert_eq!(loads(&whole.json["points"]), [20.0, 40.0, 60.0]);
    assert_eq!((&whole.json["complete"], &whole.json["ended"]), (&true.into(), &Value::Null));
    assert_eq!(whole.json["points"][0], ran.json["points"][0], "what was measured stays");
    // The interrupted run is kept, is no part of it, and its prompts were not sent again.
    let made = runs(&dir);
    assert_eq!(made.len(), 4);
    let seeds: BTreeSet<u64> =
        made.iter().map(|run| record::read(run).expect("a journal").header.spec.seed).collect();
    assert_eq!(seeds.len(), 4);
    // Nothing is missing any more: nothing is measured.
    let again = resumed(&dir, &[]);
    assert_eq!(again.json["points"], whole.json["points"]);
    assert_eq!(runs(&dir).len(), 4);
}

#[test]
fn a_server_that_dies_leaves_the_points_so_far() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut sim = Sim::start("sim://fixed?ttft=20ms&tpot=2ms", None);
    let args = [&sim.url, "--rate", "20,40,60", "--duration", "1s", "--order", "as-given", "--wait", "500ms"];
    let started = sweep(folder.path(), &args);
    wait_until("a first run", Duration::from_secs(40), || {
        std::fs::read_dir(folder.path())
            .ok()
            .and_then(|mut list| Some(list.next()?.ok()?.path()))
            .and_then(|dir| runs(&dir).first().map(|run| run.join("run.json").exists()))
            .unwrap_or(false)
    });
    sim.kill();
    let ran = started.end();
    assert!([0, 3, 5].contains(&ran.code), "{}\n{}", ran.code, ran.stderr);
    let points = loads(&ran.json["points"]);
    assert!(points.first() == Some(&20.0) && points.len() < 3, "{points:?}\n{}", ran.stderr);
    assert_eq!(ran.json["complete"], false);
    assert!(
        ran.json["ended"].as_str().is_some_and(|why| why.contains("nothing answered")),
        "{}",
        ran.json["ended"]
    );
    assert!(ran.stderr.contains("not every run was made"), "{}", ran.stderr);
}

/// What this side cannot carry is left out; the other loads are measured.
#[test]
fn a_load_that_this_side_cannot_carry_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let args =
        ["sweep", "sim://fixed?ttft=5ms&tpot=1ms", "--concurrency", "200,2", "-n", "20", "--isl", "16"];
    let more = ["--osl", "4", "--order", "as-given", "--json", "--progress", "off", "--out"];
    let out = folder.path().to_string_lossy().into_owned();
    let mut command = with_limits("ulimit -n 100", &[&args[..], &more, &[&out]].concat());
    let ran = Started::start(&mut command).end();
    assert!([0, 3, 5].contains(&ran.code), "{}\n{}", ran.code, ran.stderr);
    assert_eq!(loads(&ran.json["points"]), [2.0], "{}", ran.stderr);
    assert_eq!(ran.json["missing"], serde_json::json!([200]));
    assert!(
        ran.stderr.contains("this run is left out") && ran.stderr.contains("ulimit -n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn where_nothing_answers_there_is_no_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("http://127.0.0.1:{}", crate::harness::closed_port());
    let ran = sweep(folder.path(), &[&url, "--rate", "20,40", "--duration", "1s", "--wait", "200ms"]).end();
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0, "{}", ran.stderr);
}

#[test]
fn what_is_wrong_says_how_to_ask() {
    let folder = tempfile::tempdir().expect("a folder");
    for (args, words) in [
        (&["sim://fixed"][..], "--concurrency 1,2,4..256"),
        (&["sim://fixed", "--concurrency", "1..256"], "`1..256:8` takes eight points"),
        (&["sim://fixed", "--rate", "1,inf"], "no load of a sweep"),
        (&["sim://fixed", "--rate", "1..40:8", "--repeats", "900"], "at most 1000"),
        (&["sim://fixed", "--rate", "1", "--concurrency", "1"], "cannot be used with"),
        (&["sim://fixxed", "--rate", "1,2"], "fixxed"),
        (&["--resume", "/nonexistent"], "series.json cannot be read"),
    ] {
        let out =
            inferometer(&["sweep"]).args(args).arg("--out").arg(folder.path()).output().expect("starts");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
    // A plan that leads out of its folder is not followed.
    let bad = folder.path().join("bad");
    std::fs::create_dir(&bad).expect("a folder");
    std::fs::write(bad.join("series.json"), r#"{"schema_version":9}"#).expect("written");
    let out = inferometer(&["show"]).arg(&bad).output().expect("starts");
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("another version"));
}
