//! Disks that are full, folders that cannot be written or vanish, pipes that are closed.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::{BINARY, Run, Started, inferometer, only_run, wait_until, with_limits};

/// A run that writes some hundred kilobytes.
const LARGE: [&str; 12] = [
    "run",
    "sim://fixed?ttft=20ms&tpot=2ms",
    "--rate",
    "200",
    "--duration",
    "20s",
    "--isl",
    "16",
    "--osl",
    "32",
    "--warmup",
    "none",
];

/// The run stopped early, kept what it had, and said why.
fn assert_stopped_by(ran: &Run, why: &str) {
    assert!([2, 3].contains(&ran.code), "{}: {}", ran.code, ran.stderr);
    assert_eq!(ran.at("stopped"), "write_error", "{}", ran.stderr);
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    let offered = ran.number("requests/offered");
    assert!(offered < 3000.0, "it went on for {offered} requests");
    assert!(ran.number("requests/ok") > 20.0, "{}", ran.json["requests"]);
    ran.assert_books_balance();
}

#[test]
fn a_limit_on_the_size_of_files_ends_the_run_with_what_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_string_lossy();
    let mut command = with_limits("ulimit -f 64", &[&LARGE[..], &["--json", "--out", &out]].concat());
    let ran = Started::start(&mut command).end();
    assert_stopped_by(&ran, "ulimit -f");
    let shown = inferometer(&["show", "--json"]).arg(only_run(folder.path())).output().expect("starts");
    assert_eq!(Run::of(shown).json["requests"]["ok"], ran.json["requests"]["ok"]);
}

/// In a file system of its own, where the system lets a test have one.
#[test]
fn a_full_disk_ends_the_run_with_what_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = folder.path().display();
    let may = ["-rm", "mount", "-t", "tmpfs", "none", &disk.to_string()];
    if !Command::new("unshare").args(may).output().is_ok_and(|out| out.status.success()) {
        return;
    }
    let words: Vec<String> = LARGE.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "mount -t tmpfs -o size=64k none {disk} && exec {BINARY} {} --json --out {disk}/runs",
        words.join(" ")
    );
    let ran = Started::start(Command::new("unshare").args(["-rm", "bash", "-c", &script])).end();
    assert_stopped_by(&ran, "The disk is full");
}

#[test]
fn a_folder_that_cannot_be_written_is_named_before_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = crate::harness::file(folder.path(), "a-file", "");
    for place in ["/proc/no-such-place", "/sys", &file.to_string_lossy()] {
        let run = Run::of(
            inferometer(&["run", "sim://fixed", "-n", "1", "--out", place]).output().expect("starts"),
        );
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains(place), "{}", run.stderr);
    }
}

#[test]
fn a_run_folder_that_vanishes_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let args = ["sim://fixed?ttft=20ms&tpot=2ms", "--rate", "50", "--duration", "2s", "--warmup", "none"];
    let started = Started::run(folder.path(), &args);
    let is_there = || std::fs::read_dir(folder.path()).is_ok_and(|mut runs| runs.next().is_some());
    wait_until("the run folder", Duration::from_secs(30), is_there);
    std::thread::sleep(Duration::from_millis(800));
    let dir = only_run(folder.path());
    std::fs::remove_dir_all(&dir).expect("removed");
    let ran = started.end();
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains(&*dir.to_string_lossy()), "{}", ran.stderr);
    assert!(ran.stderr.contains("was there when the run began"), "{}", ran.stderr);
}

/// Standard output that nobody reads, that is closed, or that has no room.
#[test]
fn where_the_output_cannot_go_there_is_no_panic_and_no_loss() {
    for (way, code) in [("| head -c 1 >/dev/null", 0), (">&-", 0), ("2>&- >/dev/null", 0), (">/dev/full", 2)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let script = format!(
            "{BINARY} run 'sim://fixed?ttft=1ms&tpot=1ms' -n 8 --osl 2 --warmup none --json --out {} {way}; \
             exit ${{PIPESTATUS[0]}}",
            folder.path().display()
        );
        let ended = Command::new("bash").args(["-c", &script]).stdin(Stdio::null()).output().expect("bash");
        let said = String::from_utf8_lossy(&ended.stderr);
        let ended = ended.status.code().expect("ended by itself");
        // On a busy machine so short a run may not be trusted.
        assert!(ended == code || (code == 0 && ended == 3), "{way}: {ended}\n{said}");
        assert!(!said.contains("panicked"), "{way}: {said}");
        assert!(only_run(folder.path()).join("run.json").exists(), "{way}: {said}");
        if way == ">/dev/full" {
            assert!(said.contains("standard output"), "{said}");
        }
    }
}
