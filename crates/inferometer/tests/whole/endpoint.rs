//! One measurement at a time: runs of this machine against one endpoint know of each other.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::harness::{Run, Sim, inferometer, only_run, signal, wait_until};

const ARGS: [&str; 8] = ["--rate", "20", "--isl", "16", "--osl", "4", "--warmup", "none"];

/// A run of a minute that has begun to send.
fn long_run(url: &str, runs: &Path) -> Child {
    let child = inferometer(&["run", url, "--duration", "60s", "--out"])
        .arg(runs)
        .args(ARGS)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    wait_until("a journal", Duration::from_secs(30), || {
        let folder = std::fs::read_dir(runs).ok().and_then(|mut runs| runs.next()?.ok());
        folder.is_some_and(|run| run.path().join("journal.jsonl.zst").exists())
    });
    child
}

fn second(url: &str, folder: &Path, busy: &[&str]) -> Run {
    let mut command = inferometer(&["run", url, "--json", "--duration", "1s", "--out"]);
    command.arg(folder.join("second")).args(ARGS).args(busy);
    Run::of(command.output().expect("starts"))
}

#[test]
fn a_second_run_on_one_endpoint_is_refused_unless_it_is_to_be_shared() {
    let folder = tempfile::tempdir().expect("a folder");
    let truth = folder.path().join("truth.jsonl");
    let runs = folder.path().join("first");
    let sim = Sim::start("sim://fixed?ttft=5ms&tpot=1ms", Some(&truth));
    let mut first = long_run(&sim.url, &runs);

    // By another name of the same address.
    let url = sim.url.replace("127.0.0.1", "localhost");
    let refused = second(&url, folder.path(), &[]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let run = only_run(&runs).display().to_string();
    for part in [first.id().to_string().as_str(), run.as_str(), "--if-busy wait", "--if-busy share"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    assert!(!folder.path().join("second").exists() || only_none(&folder.path().join("second")));

    let shared = second(&sim.url, folder.path(), &["--if-busy", "share"]);
    assert_eq!(shared.check("foreign"), "fail", "{}", shared.stderr);
    assert!(shared.json["trust"].to_string().contains(&run), "{}", shared.json["trust"]);

    // The first one is told as well, although the other has ended by now.
    signal(first.id(), "INT");
    assert!(first.wait().expect("ends").code().is_some());
    let shown = inferometer(&["show", "--json"]).arg(&run).output().expect("starts");
    assert_eq!(Run::of(shown).check("foreign"), "fail");
}

fn only_none(folder: &Path) -> bool {
    std::fs::read_dir(folder).expect("a folder").next().is_none()
}

#[test]
fn a_killed_run_blocks_nobody_and_one_that_waits_begins_then() {
    let folder = tempfile::tempdir().expect("a folder");
    let sim = Sim::start("sim://fixed?ttft=5ms&tpot=1ms", None);
    let mut first = long_run(&sim.url, &folder.path().join("first"));
    let waits = std::thread::scope(|scope| {
        let waits = scope.spawn(|| second(&sim.url, folder.path(), &["--if-busy", "wait"]));
        std::thread::sleep(Duration::from_millis(600));
        assert!(!waits.is_finished(), "it waits");
        signal(first.id(), "KILL");
        first.wait().expect("ended");
        waits.join().expect("a run")
    });
    assert!(waits.stderr.contains("waiting for the end of another run"), "{}", waits.stderr);
    assert_ne!(waits.code, 2, "{}", waits.stderr);
    assert!(waits.number("requests/ok") >= 1.0);
    assert_ne!(waits.check("foreign"), "fail", "it began when the other was gone");
}
