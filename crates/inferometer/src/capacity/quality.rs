//! Quality at the load of the answer: a baseline's questions, while the search's own requests keep the server as full as it
//! was there.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Result, anyhow};
use decide::RunReport;
use decide::capacity::CapacityAnswer;
use decide::qualified::{AtLoad, Beside, InFlight, Quality};
use record::State;
use spec::{Closed, Extent, Load, Nanos, Span, Spec, Target, Warmup};

use super::PATIENCE;
use super::kept::{Asked, Kept};
use crate::cli::{CapacityArgs, Progress};
use crate::derived::keep_files;
use crate::failure::{Failure, STOPPED};
use crate::printer::Printer;
use crate::quality::{Again, Baseline};
use crate::run::{Around, Heard, Measured, Site, measure_at};

/// The load beside the questions ends when they do; no suite takes as long as this.
const LONGEST: Nanos = Nanos::from_secs(7 * 86_400);
/// The stop flag is looked at so often.
const LOOK: Duration = Duration::from_millis(20);
/// Prompts beside the questions are not those of a probe: these would be in the server's cache.
const SEED: u64 = 0x7175_616c_6974_7921;

/// The baseline that is asked for, read before anything is sent.
pub fn baseline(args: &CapacityArgs, asked: &Asked) -> Result<Option<Baseline>> {
    let Some(folder) = &asked.quality else { return Ok(None) };
    let refuse = |why: &str, hint: &str| {
        Err(Failure::request(anyhow!("--quality {}: {why}\nhint: {hint}", folder.display())).into())
    };
    if args.load.in_virtual_time || matches!(asked.spec.target.first(), Target::Sim(_)) {
        return refuse("a simulated engine has no model to be compared", "name a server, http://HOST:PORT");
    }
    if asked.maximize.is_some() {
        return refuse("what is maximised has no one load to ask at", "search for limits with --slo");
    }
    if !asked.tiers.is_empty() {
        return refuse("tiers are held at different loads", "search the tier in question with --slo");
    }
    Baseline::read(folder).map(Some)
}

/// Where the questions are asked.
pub struct Place<'a> {
    pub kept: &'a Kept,
    pub site: &'a mut Site,
    pub around: &'a Around,
    pub printer: &'a Printer,
    pub progress: Progress,
}

/// Asks at the load of an answer. What keeps the questions from being asked to their end is a part of the result.
pub fn ask(again: &Again, answer: &CapacityAnswer, spec: &Spec, place: Place<'_>) -> Quality {
    let (base, suite) = (again.baseline.name(), again.baseline.suite().to_owned());
    let quality = |at_load, why| Quality { base: base.clone(), suite: suite.clone(), at_load, why };
    let holds = answer.value.or(answer.low).is_some();
    let Some(in_flight) = InFlight::at(answer) else {
        let why = "how many requests were in flight at this load is not known";
        return quality(None, holds.then(|| why.to_owned()));
    };
    let is_same = |known: &Quality| {
        known.base == base && known.at_load.as_ref().is_some_and(|at_load| at_load.in_flight == in_flight)
    };
    if let Some(known) = place.kept.quality().ok().flatten().filter(is_same) {
        return known;
    }
    if place.around.stop.load(Relaxed) {
        return quality(None, Some("stopped before it was asked".to_owned()));
    }
    match at_load(again, in_flight, spec, place) {
        Ok(at_load) => quality(Some(at_load), None),
        Err(error) if Failure::code_of(&error) == STOPPED => {
            quality(None, Some("stopped before all questions were answered".to_owned()))
        }
        Err(error) => {
            let why = format!("{error:#}");
            quality(None, Some(why.lines().next().unwrap_or_default().to_owned()))
        }
    }
}

fn at_load(again: &Again, in_flight: InFlight, spec: &Spec, place: Place<'_>) -> Result<AtLoad> {
    let Place { kept, site, around, printer, progress } = place;
    printer.say(&printer.style.plain(&format!(
        "\nquality: {} against {}, with {} requests in flight beside",
        again.baseline.suite(),
        again.baseline.name(),
        in_flight.beside
    )));
    // Answers at another load are others.
    let name = format!("quality-{}-in-flight", in_flight.all());
    let out = kept.path().join(&name);
    let questions = || again.ask(&out, in_flight.questions as usize, printer, progress);
    if in_flight.beside == 0 {
        return Ok(AtLoad { in_flight, beside: None, report: questions()? });
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (heard, rows) = channel();
    let own = Around {
        stop: Arc::clone(&stop),
        heard: Some(heard),
        name: Some(format!("{name}-beside")),
        ..around.clone()
    };
    let load = beside(spec, in_flight.beside);
    let folder = kept.path();
    let (report, measured) = std::thread::scope(|scope| {
        let run = scope.spawn(move || measure_at(site, load, folder, printer, Progress::Off, own));
        let report =
            if has_begun(&rows, &around.stop) { questions() } else { Err(anyhow!("no load came about")) };
        stop.store(true, Relaxed);
        (report, run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    // Why the load failed says more than that there was none.
    let measured = match (report, measured) {
        (_, Err(error)) | (Err(error), Ok(_)) => return Err(error),
        (Ok(report), Ok(measured)) => (report, measured),
    };
    let (report, measured) = measured;
    Ok(AtLoad { in_flight, beside: Some(tally(&measured, printer)), report })
}

/// The load beside the questions: users who do not think, and so a server that is never fuller than it was.
fn beside(spec: &Spec, users: u32) -> Spec {
    let mut spec = spec.clone();
    spec.load =
        Load::Closed(Closed { concurrency: users, think: Span(Nanos::ZERO), start_over: Span(Nanos::ZERO) });
    spec.seed = spec::seed::mix(spec.seed ^ SEED);
    spec.phases.warmup = Warmup::None;
    spec.phases.measure = Extent::Duration(Span(LONGEST));
    spec.client.lanes = spec.client.lanes.min(users.try_into().unwrap_or(u16::MAX)).max(1);
    spec
}

/// Waits for the first answer of the load; `false`: it ended without one, or nobody waits any more.
fn has_begun(rows: &Receiver<Heard>, stopped: &AtomicBool) -> bool {
    let clock = clock::Clock::start();
    while clock.now() < PATIENCE && !stopped.load(Relaxed) {
        match rows.recv_timeout(LOOK) {
            Ok(Heard::Row(_)) => return true,
            Ok(Heard::Began { .. }) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
    false
}

/// What became of the load; its folder gets what every run folder has.
fn tally(measured: &Measured, printer: &Printer) -> Beside {
    let run = &measured.run;
    let report = RunReport::build(run, &run.header.spec.analysis);
    keep_files(&measured.folder, run, &report.to_json(), printer);
    let ended: Vec<bool> = run
        .requests
        .iter()
        .filter(|row| !matches!(row.state, State::Cancelled | State::Shed))
        .map(|row| row.state.is_ok())
        .collect();
    let ok = ended.iter().filter(|ok| **ok).count() as u64;
    Beside { ok, failed: ended.len() as u64 - ok, folder: name_of(measured.folder.path()) }
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
