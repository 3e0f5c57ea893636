//! Benchmarks: each program prints its table, which takes its place on a page of `docs/`.

pub mod instructions;
mod machine;
mod page;

use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::{cargo, root, say};

/// One benchmark and its part of the page.
struct Bench {
    name: &'static str,
    about: &'static str,
    page: &'static str,
    run: fn() -> Result<String>,
}

/// The page of all benchmarks but one.
pub const PERFORMANCE: &str = "docs/performance.md";

const BENCHES: [Bench; 6] = [
    Bench {
        name: "events",
        about: "what a streamed event and a plain request cost, beside a bare reader",
        page: PERFORMANCE,
        run: || program("event_cost"),
    },
    Bench {
        name: "instructions",
        about: "counted instructions of one event (valgrind)",
        page: PERFORMANCE,
        run: instructions::table,
    },
    Bench {
        name: "accuracy",
        about: "stamps, pacing and rates against the engine's own log",
        page: PERFORMANCE,
        run: || program("accuracy"),
    },
    Bench {
        name: "observer",
        about: "whether watching a run moves its stamps",
        page: PERFORMANCE,
        run: || program("observer"),
    },
    Bench {
        name: "scale",
        about: "10,000 streams at once, 100,000 requests, 1,000,000 requests from tables",
        page: PERFORMANCE,
        run: || program("scale"),
    },
    Bench {
        name: "capacity",
        about: "the search over HTTP against engines of known limit, and a real engine (half an hour)",
        page: "docs/capacity.md",
        run: || program("capacity"),
    },
];

/// The benchmarks, for the help.
pub fn list() -> String {
    BENCHES.iter().map(|bench| format!("               {:<13} {}\n", bench.name, bench.about)).collect()
}

/// Runs the named benchmarks, or all, and writes their tables.
pub fn run(names: &[String]) -> Result<()> {
    if let Some(unknown) = names.iter().find(|name| BENCHES.iter().all(|bench| bench.name != **name)) {
        bail!("there is no benchmark `{unknown}`; there are\n{}", list());
    }
    let wanted = BENCHES.iter().filter(|bench| names.is_empty() || names.iter().any(|n| n == bench.name));
    let mut failed = Vec::new();
    for bench in wanted {
        say(&format!("--- bench {}", bench.name));
        // One that fails takes no table of the others away.
        if let Err(error) = tabulate(bench.page, bench.name, bench.run) {
            say(&format!("error: {error:#}"));
            failed.push(bench.name);
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Makes a table and puts it, and the machine that it was made on, in its place on a page.
pub fn tabulate(page: &str, name: &str, make: impl FnOnce() -> Result<String>) -> Result<()> {
    let before = machine::load();
    let table = make()?;
    let told = format!("{}\n\n{}", machine::line(&before)?, table.trim());
    say(&told);
    page::put(&root().join(page), name, &told)
}

/// The calibration of the search for capacity. It counts, and measures no time: any machine will do.
pub fn calibrate(words: &[String]) -> Result<()> {
    let mut command = cargo(&["bench", "--locked", "--package", "decide", "--bench", "calibrate", "--"]);
    let out = command.args(words).stderr(Stdio::inherit()).output().context("cannot start calibrate")?;
    if !out.status.success() {
        bail!("calibrate: {}\n{}", out.status, String::from_utf8_lossy(&out.stdout));
    }
    let table = String::from_utf8(out.stdout).context("a table is text")?;
    say(&table);
    if words.iter().any(|word| word.parse::<u64>().is_err()) {
        return Ok(());
    }
    page::put(&root().join("docs/calibration.md"), "calibrate", &table)
}

/// What a benchmark program prints; it tells of its progress on stderr.
fn program(bench: &str) -> Result<String> {
    let mut command = cargo(&["bench", "--locked", "--workspace", "--bench", bench]);
    command.envs(crate::engines::install()?.environment());
    let out = command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {bench}"))?;
    if !out.status.success() {
        bail!("{bench}: {}\n{}", out.status, String::from_utf8_lossy(&out.stdout));
    }
    String::from_utf8(out.stdout).context("a table is text")
}
