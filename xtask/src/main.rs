//! Development tasks: `cargo xtask help`.

mod bench;
mod engines;
mod peers;
mod tools;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

const HELP: &str = "\
cargo xtask TASK

  test       everything that must hold before a commit lands: format, lints, licences, all tests, the real engine,
             the release binary's size and start-up. Installs what it needs into .cache/
  test-fast  unit and property tests only
  engines    install the real engine, LoadGen and lm-evaluation-harness into .cache/ and print their paths
  schema     write the JSON Schemas in docs/ again
  bench [NAME…]
             measures and writes the tables of docs/performance.md (on a quiet machine), all or those named:
BENCHES
  calibrate [SEEDS] [ROW…]
             how often the brackets of `capacity` hold the truth: 200 seeds of each simulated server, into
             docs/calibration.md; with rows or `--truth` it only prints
  peers [--install]
             the comparison with other clients (those installed in .cache/peers), into docs/performance.md
  fuzz       run every fuzz target for a minute (needs cargo-fuzz and a nightly toolchain)
";

fn main() -> ExitCode {
    let task = std::env::args().nth(1);
    let result = match task.as_deref() {
        Some("test") => test(),
        Some("test-fast") => nextest(&["--workspace", "--lib"], &[]),
        Some("engines") => engines::install().map(|e| say(&format!("{e:#?}"))),
        Some("schema") => schema(),
        Some("bench") => bench::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        Some("calibrate") => bench::calibrate(&std::env::args().skip(2).collect::<Vec<_>>()),
        Some("peers") => peers::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        Some("fuzz") => fuzz(),
        _ => {
            say(&HELP.replace("BENCHES\n", &bench::list()));
            return ExitCode::from(if task.is_none_or(|t| t == "help") { 0 } else { 2 });
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Progress goes to stderr; the tests' own output is theirs.
fn say(text: &str) {
    use std::io::Write;
    // A closed stderr is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The workspace's root.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    command
}

/// Runs a command, shows what it is, and fails with its name.
fn run(mut command: Command) -> Result<()> {
    let shown = format!("{command:?}").replace('"', "");
    say(&format!("--- {shown}"));
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

fn test() -> Result<()> {
    // Downloads while the compiler works.
    let engines = std::thread::spawn(engines::install);
    run(cargo(&["fmt", "--all", "--check"]))?;
    run(tools::deny(&["check", "licenses", "bans", "sources"])?)?;
    run(cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"]))?;
    let Ok(engines) = engines.join() else { bail!("the installation of the engines panicked") };
    let engines = engines?;
    // The tests of the whole start the engine themselves, from these paths.
    nextest(&["--workspace", "--locked"], &engines.environment())?;
    run(cargo(&["test", "--workspace", "--locked", "--doc", "--quiet"]))?;
    bench::instructions::gate()?;
    release_binary()
}

/// Runs tests by nextest where it is installed (a process and a time limit for each), else by cargo.
fn nextest(args: &[&str], environment: &[(&str, PathBuf)]) -> Result<()> {
    let has_nextest = cargo(&["nextest", "--version"]).output().is_ok_and(|out| out.status.success());
    let mut command = cargo(if has_nextest { &["nextest", "run"] } else { &["test"] });
    command.args(args);
    for (key, value) in environment {
        command.env(key, value);
    }
    run(command)
}

/// What a user downloads: at most 40 MB; `--help` at most 20 ms; a request at most 200 ms.
fn release_binary() -> Result<()> {
    run(cargo(&["build", "--release", "--locked"]))?;
    let binary = root().join("target/release/inferometer");
    let size = std::fs::metadata(&binary).with_context(|| format!("{}", binary.display()))?.len();
    say(&format!("release binary: {:.1} MB (at most 40)", size as f64 / 1e6));
    if size > 40_000_000 {
        bail!("the release binary has {size} bytes, more than 40 MB");
    }
    let help = best_of(10, || {
        let mut command = Command::new(&binary);
        command.arg("--help");
        command
    })?;
    say(&format!("--help: {:.1} ms (at most 20)", help.as_secs_f64() * 1e3));
    if help > Duration::from_millis(20) {
        bail!("--help takes {help:?}, more than 20 ms");
    }
    let one = one_request(&binary)?;
    say(&format!(
        "one request to a ready server, start to exit: {:.0} ms (at most 200)",
        one.as_secs_f64() * 1e3
    ));
    if one > Duration::from_millis(200) {
        bail!("one request takes {one:?} from start to exit, more than 200 ms");
    }
    Ok(())
}

/// The best of several times: a shared machine only ever adds to them.
fn best_of(times: u32, mut command: impl FnMut() -> Command) -> Result<Duration> {
    let all = (0..times).map(|_| tools::time_of(&mut command())).collect::<Result<Vec<_>>>()?;
    Ok(all.into_iter().min().unwrap_or_default())
}

/// The address that a simulated engine says on its standard output.
fn address(engine: &mut std::process::Child) -> Result<String> {
    let mut line = String::new();
    if let Some(out) = engine.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    let url = line.split('"').find(|part| part.starts_with("http://"));
    url.map(str::to_owned).context("the engine gave no address")
}

/// One request to a simulated engine that is ready, from the start of the process to its exit, its vocabulary and its
/// journal included.
fn one_request(binary: &Path) -> Result<Duration> {
    let mut engine = Command::new(binary)
        .args(["sim", "serve", "sim://llama-3.1-8b@h100", "--port", "0", "--until-stdin-closes"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let url = address(&mut engine)?;
    let runs = root().join("target/start-up");
    let best = best_of(10, || {
        let mut command = Command::new(binary);
        command.args([
            "run",
            &url,
            "--requests",
            "1",
            "--concurrency",
            "1",
            "--warmup",
            "none",
            "--isl",
            "16",
        ]);
        command.args(["--osl", "2", "--quiet", "--out"]).arg(&runs);
        command
    });
    engine.kill()?;
    engine.wait()?;
    std::fs::remove_dir_all(&runs)?;
    best
}

fn schema() -> Result<()> {
    let mut command = cargo(&["nextest", "run", "-p", "spec", "-p", "decide", "schema"]);
    command.env("UPDATE_SCHEMA", "1");
    run(command)
}

fn fuzz() -> Result<()> {
    let list = Command::new("cargo").args(["+nightly", "fuzz", "list"]).current_dir(root()).output()?;
    for target in String::from_utf8_lossy(&list.stdout).lines() {
        let mut command = Command::new("cargo");
        command.args(["+nightly", "fuzz", "run", target, "--", "-max_total_time=60"]).current_dir(root());
        run(command)?;
    }
    Ok(())
}
