//! The calibration of the search for capacity: `cargo xtask calibrate [SEEDS] [ROW…]`.
//!
//! Prints the table as Markdown; progress goes to stderr. With `--truth` it finds the truths of the
//! rows again instead (minutes for each).
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, missing_docs)]

#[path = "../tests/capacity/baseline.rs"]
mod baseline;
#[path = "../tests/capacity/rows.rs"]
mod rows;
#[path = "../tests/capacity/servers.rs"]
mod servers;
#[path = "../tests/capacity/table.rs"]
mod table;
#[path = "../tests/capacity/truth.rs"]
mod truth;

use std::sync::Mutex;

use rows::{Expect, ROWS, Row};
use table::{Outcome, run};

/// The first seed; the tests and the choice of constants use others.
const FIRST: u64 = 10_000;

fn main() {
    // Cargo adds a flag of its own.
    let words: Vec<String> = std::env::args().skip(1).filter(|w| w != "--bench").collect();
    let seeds = words.iter().find_map(|w| w.parse().ok()).unwrap_or(200_u64).max(1);
    let names: Vec<&String> = words.iter().filter(|w| w.parse::<u64>().is_err() && *w != "--truth").collect();
    let wanted: Vec<&Row> = ROWS
        .iter()
        .filter(|r| names.is_empty() || names.iter().any(|n| r.name.contains(n.as_str())))
        .collect();
    if words.iter().any(|w| w == "--truth") {
        for row in wanted.iter().filter(|r| matches!(r.expect, Expect::Bracket { .. })) {
            let most = if row.over().is_whole() { 1_500.0 } else { 6_000.0 };
            let least = if row.over().is_whole() { 1.0 } else { 0.05 };
            println!(
                "{}: {:.4} (kept: {:?})",
                row.name,
                truth::crossing(row, least, most, 400_000),
                row.truth
            );
        }
        return;
    }
    let next = Mutex::new(wanted.iter().enumerate());
    let done: Mutex<Vec<(usize, Row, Outcome)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                while let Some((at, row)) = { next.lock().unwrap().next() } {
                    let outcome = run(row, FIRST..FIRST + seeds);
                    eprintln!("{}: {} of {seeds}", row.name, outcome.expected);
                    done.lock().unwrap().push((at, **row, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(at, _, _)| *at);
    let bracketed: Vec<&Outcome> = done
        .iter()
        .filter(|(_, row, _)| matches!(row.expect, Expect::Bracket { .. }))
        .map(|(_, _, outcome)| outcome)
        .collect();
    let held: u64 = bracketed.iter().map(|o| o.held).sum();
    let all: u64 = bracketed.iter().map(|o| o.seeds).sum();
    let off: u64 = bracketed.iter().map(|o| o.off).sum();
    let lines: Vec<(Row, Outcome)> = done.into_iter().map(|(_, row, outcome)| (row, outcome)).collect();
    let compared = compared(&lines, (seeds / 4).max(1));
    println!(
        "{seeds} seeds for each row, seeds {FIRST} and up. {:.1} % of {all} brackets hold the truth; {off} of {all} \
         answers are called resolved and lie more than 10 % away from it.\n\n{}\n{compared}",
        100.0 * held as f64 / all.max(1) as f64,
        markdown(&lines)
    );
}

/// As many as there are cores; `CALIBRATE_THREADS` leaves some to others.
fn threads() -> usize {
    let asked = std::env::var("CALIBRATE_THREADS").ok().and_then(|n| n.parse().ok());
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Rows that are held against doubling and bisection too.
const COMPARED: [&str; 4] =
    ["fifo, Poisson, p95", "fifo, Poisson, p99", "batching, closed, p95", "batching, Poisson, p95"];

/// The second table: doubling and bisection with long probes, and what the search takes of its requests.
fn compared(lines: &[(Row, Outcome)], seeds: u64) -> String {
    let mut out = format!(
        "Doubling and bisection with probes of {} requests, two that agree at each load; {seeds} seeds for each row:\n\n\
         | server and limit | holds the truth | its requests | requests of the search | ratio |\n|---|---|---|---|---|\n",
        decide::words::count(baseline::REQUESTS)
    );
    for (row, outcome) in lines.iter().filter(|(row, _)| COMPARED.contains(&row.name)) {
        let found: Vec<baseline::Found> =
            (FIRST..FIRST + seeds).map(|seed| baseline::search(row, seed)).collect();
        eprintln!("{}: baseline", row.name);
        let holds = |f: &&baseline::Found| row.truth.is_some_and(|truth| f.low <= truth && truth <= f.high);
        let held = found.iter().filter(holds).count();
        let mut requests: Vec<u64> = found.iter().map(|f| f.requests).collect();
        requests.sort_unstable();
        let middle = requests[requests.len() / 2] as f64;
        out += &format!(
            "| {} | {:.0} % | {:.0} k | {:.1} k | {:.2} |\n",
            row.name,
            100.0 * held as f64 / seeds as f64,
            middle / 1e3,
            outcome.requests / 1e3,
            outcome.requests / middle
        );
    }
    out
}

/// The table as Markdown.
fn markdown(lines: &[(Row, Outcome)]) -> String {
    let mut out = String::from(
        "| server and limit | truth | holds the truth | width | ≤ 10 % | resolved | wrong | > 10 % off | probes | requests | server time |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (row, o) in lines {
        let percent = |k: u64| format!("{:.0} %", 100.0 * k as f64 / o.seeds as f64);
        let truth = row.truth.map_or("–".to_owned(), decide::capacity::figure);
        let holds = match row.expect {
            Expect::Bracket { .. } => percent(o.held),
            Expect::Unstable(_) => format!("`unstable` {}", percent(o.expected)),
            Expect::Unmet => format!("`unmet` {}", percent(o.expected)),
            Expect::NotReached => format!("`not_reached` {}", percent(o.expected)),
        };
        let is_bracket = matches!(row.expect, Expect::Bracket { .. });
        let of = |text: String| if is_bracket { text } else { "–".to_owned() };
        out += &format!(
            "| {} | {truth} | {holds} | {} | {} | {} | {} | {} | {:.0} | {:.1} k | {:.0} s |\n",
            row.name,
            of(format!("{:.1} %", 100.0 * o.width)),
            of(percent(o.narrow)),
            percent(o.resolved),
            of(percent(o.wrong)),
            of(percent(o.off)),
            o.probes,
            o.requests / 1e3,
            o.seconds,
        );
    }
    out
}
