//! `inferometer self-check`: how well this machine measures. It makes short runs against the simulated
//! engine, which is a process of its own as in any `sim://` run, and lets them be judged as any run is.

mod against;
pub mod state;
mod trials;
mod truth;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use decide::json::SelfCheckDocument;
use decide::self_check::{Judged, Ladder, Rung, Seen, first_rung, self_check};
use decide::words::count;
use measure::instrument::Steal;
use measure::{StampErrors, stamp_errors};
use record::{Ceiling, Machine, SelfCheck};
use spec::Nanos;

use crate::cli::SelfCheckArgs;
use crate::failure::Failure;
use crate::printer::Printer;
use trials::{Trial, Trials};

/// Requests per second at which lateness is measured.
const SEND_RATE: u64 = 1_000;
/// Streams in which stamps are compared.
const STREAMS: u64 = 64;
/// Time between two events of a stream.
const TPOT: Nanos = Nanos::from_millis(20);
/// The ladders end here.
const TOP_RATE: u64 = 64_000;
const TOP_STREAMS: u64 = 8_192;

/// How long the parts take.
struct Pace {
    sending: Nanos,
    streaming: Nanos,
    rung: Nanos,
    /// Rungs between the last load that holds and the first that does not.
    between: u32,
}

/// About 20 s.
const FULL: Pace = Pace {
    sending: Nanos::from_secs(4),
    streaming: Nanos::from_secs(3),
    rung: Nanos::from_secs(1),
    between: 2,
};
/// About half of that, with fewer percentiles and coarser ceilings.
const QUICK: Pace = Pace {
    sending: Nanos::from_secs(1),
    streaming: Nanos::from_secs(1),
    rung: Nanos::from_millis(500),
    between: 0,
};

/// Measures this machine, or looks up what is known of it, and says what it can do.
pub fn command(args: &SelfCheckArgs, printer: &Printer) -> Result<u8> {
    let stop = crate::signal::stop_flag()?;
    let load = against::Load::asked(args)?;
    // The server first: one that is not there needs no measurement of this machine.
    let load = load.map(|load| load.probed(&stop, printer)).transpose()?;
    let known = state::known(printer);
    let (check, kept) = match (&load, known.check) {
        // What a machine can do was measured before: the server's question needs no more.
        (Some(_), Some(check)) => (check, known.file),
        _ => {
            let check = measured(args.quick, &stop, printer)?;
            let file = if check.is_quiet() { state::keep(&check, printer) } else { None };
            (check, file)
        }
    };
    let against = match load {
        Some(load) if check.is_quiet() => Some(against::offered(&load, &check, &stop, printer)?),
        _ => None,
    };
    let document = SelfCheckDocument::new(check, kept.map(|path| path.display().to_string()), against);
    printer.say(&present::terminal::self_check(&printer.style, &document));
    if args.json {
        printer.data(&serde_json::to_string_pretty(&document.to_json())?)?;
    }
    Ok(document.verdict.exit_code)
}

/// Every part, one after the other.
fn measured(quick: bool, stop: &Arc<AtomicBool>, printer: &Printer) -> Result<SelfCheck> {
    let pace = if quick { QUICK } else { FULL };
    let trials = Trials::new(stop, printer)?;
    let measured = record::folder::rfc3339(crate::run::wall_ns())?;
    printer.say(if quick { "self-check, quick: about 10 s" } else { "self-check: about 20 s" });
    let mut steal = Vec::new();

    printer.say(&format!("  sending {} requests/s", count(SEND_RATE)));
    let sending = twice(|| {
        let judged = trials.judged(&Trial::rate(SEND_RATE, pace.sending))?;
        steal.extend(judged.steal.iter().copied());
        Ok((judged, ()))
    })?
    .0;
    printer.say(&format!("  hearing {STREAMS} streams, against the engine's own log"));
    let (streaming, errors) = twice(|| {
        let (judged, errors) = compared(&trials, &Trial::streams(STREAMS, TPOT, pace.streaming))?;
        steal.extend(judged.steal.iter().copied());
        Ok((judged, errors))
    })?;
    let quiet = [&sending, &streaming].iter().all(|judged| judged.rung == Rung::Holds);
    // Where not even a small load holds, a ceiling would say nothing.
    let mut climb = |what: &str, from: &Judged, load: u64, top: u64, trial: &dyn Fn(u64) -> Trial| {
        if !quiet {
            return Ok(first_rung(&from.rung, load));
        }
        printer.say(&format!("  {what}: how many"));
        ladder(&trials, Ladder::new(load, top, pace.between), trial, &mut steal, printer)
    };
    let rate = climb("requests/s", &sending, SEND_RATE, TOP_RATE, &|rate| Trial::rate(rate, pace.rung))?;
    let streams = climb("streams", &streaming, STREAMS, TOP_STREAMS, &|streams| {
        Trial::streams(streams, TPOT, pace.rung)
    })?;
    Ok(self_check(Seen {
        measured,
        machine: this_machine(),
        quick,
        server: "the simulated engine with no latency of its own, in a process of its own on this machine"
            .to_owned(),
        send_rate_per_s: SEND_RATE as f64,
        tokens_per_s: 1.0 / TPOT.as_secs_f64(),
        sending,
        streaming,
        errors,
        rate,
        streams,
        steal,
    }))
}

/// A small load that does not hold is tried once more: a machine is disturbed now and then.
fn twice<T>(mut trial: impl FnMut() -> Result<(Judged, T)>) -> Result<(Judged, T)> {
    let first = trial()?;
    if first.0.rung == Rung::Holds { Ok(first) } else { trial() }
}

fn ladder(
    trials: &Trials<'_>,
    mut ladder: Ladder,
    trial: &dyn Fn(u64) -> Trial,
    steal: &mut Vec<Steal>,
    printer: &Printer,
) -> Result<Ceiling> {
    while let Some(load) = ladder.next_load() {
        let rung = match trials.judged(&trial(load)) {
            Ok(judged) => {
                steal.extend(judged.steal);
                judged.rung
            }
            Err(error) if trials.stopped() => return Err(error),
            // Too few open files, for example: a limit of this side as any other.
            Err(error) => Rung::Client(format!("{error:#}")),
        };
        let word = match &rung {
            Rung::Holds => "holds".to_owned(),
            Rung::Client(why) | Rung::Machine(why) | Rung::Server(why) => why.clone(),
        };
        printer.say(&format!("    {:>7}  {}", count(load), printer.style.plain(&word)));
        ladder.note(rung);
    }
    Ok(ladder.ceiling())
}

/// One run against an engine that keeps its own log, and what the two make of the same events.
fn compared(trials: &Trials<'_>, trial: &Trial) -> Result<(Judged, StampErrors)> {
    let log = trials.file("truth.jsonl");
    let run = trials.run(trial, Some(&log))?;
    let errors = stamp_errors(&run, &truth::read(&log, &run)?);
    Ok((trial.judge(&run), errors))
}

/// The machine that this program runs on.
pub fn this_machine() -> Machine {
    Machine::of(&record::client::facts(), env!("CARGO_PKG_VERSION"))
}

/// Ctrl-C came.
fn unless_stopped(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) {
        Err(Failure::stopped("the self-check was stopped; nothing of it is kept").into())
    } else {
        Ok(())
    }
}
