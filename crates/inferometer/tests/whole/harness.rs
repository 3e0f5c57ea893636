//! Starting the binary, engines, and reading what they leave.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

/// Longer than any run of these tests takes on a busy machine: what has not ended by then hangs.
const HANGS: Duration = Duration::from_secs(60);

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_inferometer");

/// A command of the binary that writes its runs into `folder`.
pub fn inferometer(args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(args).env("NO_COLOR", "1").env_remove("INFEROMETER_API_KEY");
    // What the user's machine knows of itself is no part of a test.
    command.env("INFEROMETER_STATE_DIR", "/nonexistent/inferometer");
    command
}

/// The binary, started by a shell that has set its limits.
pub fn with_limits(limits: &str, args: &[&str]) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{limits}; exec \"$0\" \"$@\""), BINARY]).args(args);
    command.env("NO_COLOR", "1");
    command
}

/// The output of `inferometer run ARGS --json --out FOLDER`.
pub fn run(folder: &Path, args: &[&str]) -> Run {
    Started::run(folder, args).end()
}

/// A run that is repeated, a few times, while other work on this machine takes the CPU from it: such a run is rightly
/// not trusted, and says nothing about what the test is after.
pub fn quiet_run(args: &[&str]) -> (Run, tempfile::TempDir) {
    let mut attempts = 0;
    loop {
        let folder = tempfile::tempdir().expect("a folder");
        let ran = run(folder.path(), args);
        attempts += 1;
        if !ran.is_disturbed() || attempts == 5 {
            return (ran, folder);
        }
    }
}

/// Checks that fail when other work takes the CPU.
const DISTURBED: [&str; 7] =
    ["machine", "send_lag", "lane_stall", "client_lag", "lane_busy", "coalesced", "in_flight"];

/// A command under way, which is killed when the test gives it up.
pub struct Started {
    child: Child,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Started {
    /// `inferometer run ARGS --json --out FOLDER`.
    pub fn run(folder: &Path, args: &[&str]) -> Self {
        let mut command = inferometer(&["run"]);
        command.args(args).args(["--json", "--progress", "off", "--out"]).arg(folder);
        Self::start(&mut command)
    }

    /// Any command; what it prints is collected.
    pub fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
        let stdout = child.stdout.take().map(collect);
        let stderr = child.stderr.take().map(collect);
        Self { child, stdout, stderr }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end; the test fails if it does not come, or comes with a panic.
    pub fn end(mut self) -> Run {
        let mut peak_bytes = 0;
        let mut code = None;
        wait_until("the end of the command", HANGS, || {
            peak_bytes = peak_memory(self.pid()).unwrap_or(0).max(peak_bytes);
            code = self.child.try_wait().expect("a child of this test").map(|s| s.code().unwrap_or(-1));
            code.is_some()
        });
        let read = |pipe: Option<JoinHandle<Vec<u8>>>| {
            pipe.and_then(|reader| reader.join().ok()).unwrap_or_default()
        };
        let (stdout, stderr) = (read(self.stdout.take()), read(self.stderr.take()));
        let run = Run::read(code.unwrap_or(-1), &stdout, &stderr, peak_bytes);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        run
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

/// The most memory that a process has held so far.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}

/// What a run printed and how it ended.
#[derive(Debug, Clone)]
pub struct Run {
    pub code: i32,
    pub json: Value,
    pub stderr: String,
    /// The most memory that it held, as far as it was watched.
    pub peak_bytes: u64,
}

impl Run {
    pub fn of(output: Output) -> Self {
        Self::read(output.status.code().unwrap_or(-1), &output.stdout, &output.stderr, 0)
    }

    fn read(code: i32, stdout: &[u8], stderr: &[u8], peak_bytes: u64) -> Self {
        let stderr = String::from_utf8_lossy(stderr).into_owned();
        Self { code, json: serde_json::from_slice(stdout).unwrap_or(Value::Null), stderr, peak_bytes }
    }

    /// The number at a path such as `metrics/ttft/p50/value`.
    pub fn number(&self, path: &str) -> f64 {
        self.at(path)
            .as_f64()
            .unwrap_or_else(|| panic!("{path} is no number: {}\n{}", self.at(path), self.stderr))
    }

    pub fn at(&self, path: &str) -> &Value {
        path.split('/').fold(&self.json, |value, key| &value[key])
    }

    /// The state of a trust check.
    pub fn check(&self, id: &str) -> &str {
        self.json["trust"]["checks"]
            .as_array()
            .and_then(|checks| checks.iter().find(|c| c["id"] == id))
            .and_then(|c| c["state"].as_str())
            .unwrap_or_else(|| panic!("no check {id}: {}\n{}", self.json["trust"], self.stderr))
    }

    /// What a trust check found, in words.
    pub fn figure(&self, id: &str) -> String {
        let checks = self.json["trust"]["checks"].as_array().map_or(&[][..], Vec::as_slice);
        let check = checks.iter().find(|c| c["id"] == id).unwrap_or_else(|| panic!("no check {id}"));
        check["figure"].as_str().unwrap_or_default().replace('\u{a0}', " ")
    }

    /// Other work on this machine took the CPU, and the run says so.
    pub fn is_disturbed(&self) -> bool {
        DISTURBED.iter().any(|id| self.check(id) == "fail")
    }

    /// The verdict is the expected one, unless the machine was disturbed all the time: then it is "not trusted".
    pub fn assert_ends(&self, code: i32) {
        let expected = if self.is_disturbed() { 3 } else { code };
        assert_eq!(self.code, expected, "{}\n{}", self.stderr, self.json["trust"]);
    }

    /// The states add up to what was offered.
    pub fn assert_books_balance(&self) {
        let of = |state: &str| self.at(&format!("requests/{state}")).as_u64().expect("a count");
        let sum = of("ok") + of("failed") + of("timed_out") + of("cancelled") + of("shed");
        assert_eq!(of("offered"), sum, "{}", self.json["requests"]);
    }
}

/// What the journal of the only run below `folder` holds.
pub fn recorded(folder: &Path) -> record::Run {
    record::read(&only_run(folder).join("journal.jsonl.zst")).expect("the journal")
}

/// The only run folder below `folder`.
pub fn only_run(folder: &Path) -> PathBuf {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of runs")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.is_dir())
        .collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries.remove(0)
}

/// A simulated engine served by the binary.
pub struct Sim {
    child: Child,
    pub url: String,
}

impl Sim {
    pub fn start(uri: &str, truth: Option<&Path>) -> Self {
        let mut command = inferometer(&["sim", "serve", uri, "--port", "0", "--until-stdin-closes"]);
        if let Some(truth) = truth {
            command.arg("--truth").arg(truth);
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the simulated engine starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        Self { child, url: said["listening"].as_str().expect("an address").to_owned() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it at once.
    pub fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal.
pub fn signal(pid: u32, signal: &str) {
    let status =
        Command::new("kill").arg(format!("-{signal}")).arg(pid.to_string()).status().expect("kill runs");
    assert!(status.success());
}

/// A port that nothing listens on.
pub fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port()
}

/// Waits until `done` or panics after `limit`.
pub fn wait_until(what: &str, limit: Duration, mut done: impl FnMut() -> bool) {
    let clock = clock::Clock::start();
    while !done() {
        assert!(clock.now().duration() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Writes a file below `folder`.
pub fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::File::create(&path).and_then(|mut f| f.write_all(text.as_bytes())).expect("written");
    path
}

/// The percentile by nearest rank of unsorted values.
pub fn percentile(values: &mut [f64], share: f64) -> f64 {
    assert!(!values.is_empty());
    values.sort_by(f64::total_cmp);
    values[((values.len() as f64 * share).ceil() as usize).clamp(1, values.len()) - 1]
}

/// The percentile by interpolation between ranks (definitions §4, `linear`).
pub fn linear(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = share * (values.len() - 1) as f64;
    let (below, above) = (values[rank.floor() as usize], values[rank.ceil() as usize]);
    below + (above - below) * rank.fract()
}
