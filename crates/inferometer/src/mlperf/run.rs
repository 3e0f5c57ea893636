//! `inferometer mlperf run` and `find-peak`: passes, logs, answer.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Result;
use decide::verdict::exit;
use mlperf::layers::{Evidence, Layers};
use mlperf::log::{Answer, Kept, Labels, Level, Note};
use mlperf::peak::{Next, Peak};
use mlperf::{Effective, Mode};
use record::RunFolder;
use spec::Nanos;

use super::logs::{Beside, Written};
use super::pass::{self, Made, Maker};
use super::settings::Asked;
use super::{answer, check, heard, instrument, wrong};
use crate::cli::{MlperfRunArgs, MlperfScenario, Progress};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::run::{Around, wall_ns};

/// How the peak is searched.
pub struct Search {
    /// The rate is told to so many decimals.
    pub decimals: u64,
    /// The share by which it is raised.
    pub step: f64,
}

/// All passes of a run.
#[derive(Default)]
struct Course {
    passes: Vec<Made>,
    /// The one whose outcome is the result.
    result: Option<usize>,
    /// Settings of the result, where they are not those that were asked for.
    result_by: Option<Effective>,
    /// What came of a search.
    peak: Option<Peaked>,
}

/// How a search ended.
enum Peaked {
    /// At the highest rate that kept the limits, queries per second.
    Found(f64),
    /// The first rate did not keep them.
    TooHigh(f64),
    /// By a signal.
    Stopped,
}

impl std::fmt::Display for Peaked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Peaked::Found(rate) => write!(f, "peak: {rate} queries/s keep the latency limits"),
            Peaked::TooHigh(rate) => write!(
                f,
                "no peak: {rate} queries/s do not keep the latency limits already; begin lower, by --target-qps"
            ),
            Peaked::Stopped => f.write_str("no peak: the search was ended before it had found it"),
        }
    }
}

/// From the flags to the exit code.
pub fn command(
    args: &MlperfRunArgs,
    search: Option<Search>,
    printer: &Printer,
    progress: Progress,
) -> Result<u8> {
    let asked = Asked::new(args, search.as_ref())?;
    let searches = asked.effective.mode == Mode::FindPeakPerformance;
    // What cannot be searched is refused before a server is troubled.
    let peak = searches.then(|| Peak::new(&asked.effective).map_err(wrong)).transpose()?;
    if args.dry_run {
        printer.data(&plan(args, &asked)?)?;
        asked.warn(printer);
        return Ok(exit::HOLDS);
    }
    asked.lines().iter().for_each(|line| printer.say(line));
    asked.warn(printer);
    let around = Around::this_program(printer)?;
    let name = format!(
        "mlperf-{}-{}",
        args.benchmark.as_deref().or(args.model.as_deref()).unwrap_or("model"),
        clap::ValueEnum::to_possible_value(&args.scenario)
            .map(|v| v.get_name().to_owned())
            .unwrap_or_default()
    );
    let folder = RunFolder::create(&args.out, wall_ns(), &name).map_err(Failure::request)?;
    let path = folder.path();
    let mut maker = Maker {
        args,
        asked: &asked,
        site: None,
        folder: path,
        around,
        clock: clock::Clock::start(),
        wall_ns: wall_ns(),
        printer,
        progress,
    };
    let course = match peak {
        Some(peak) => found(&mut maker, peak),
        None => course(&mut maker),
    };
    let course = course.inspect_err(|_| {
        // What was refused before it began leaves nothing to look at; a folder that holds something stays.
        let _ = std::fs::remove_dir(path.join(pass::RUNS));
        let _ = std::fs::remove_dir(path);
    })?;
    finish(args, &asked, &maker, course, path, printer)
}

/// What would go out, for a dry run.
fn plan(args: &MlperfRunArgs, asked: &Asked) -> Result<String> {
    let by = &asked.effective;
    let accuracy = if by.mode.is_accurate() { by.accuracy() } else { Vec::new() };
    let timed = by.mode.is_timed().then(|| by.performance());
    let mut lines = asked.lines();
    for (schedule, timed) in accuracy.into_iter().map(|s| (s, false)).chain(timed.map(|s| (s, true))) {
        crate::run::check(&pass::spec(args, by, &pass::script(by, &schedule, timed), false)?)?;
        lines.push(format!(
            "generated_query_count {}, generated_samples_per_query {}, generated_query_duration {}",
            schedule.at.len(),
            schedule.samples_per_query,
            schedule.duration.0
        ));
    }
    Ok(lines.join("\n"))
}

/// Accuracy, performance, or the one after the other.
fn course(maker: &mut Maker<'_>) -> Result<Course> {
    let by = &maker.asked.effective;
    let mut course = Course::default();
    if by.mode.is_accurate() {
        for (i, schedule) in (1..).zip(by.accuracy()) {
            course.passes.push(maker.make(by, schedule, &format!("accuracy-{i}"), false)?);
            if maker.around.stop.load(Relaxed) {
                return Ok(course);
            }
        }
    }
    if by.mode.is_timed() {
        course.passes.push(maker.make(by, by.performance(), "performance", true)?);
        course.result = Some(course.passes.len() - 1);
    }
    Ok(course)
}

/// Run after run, as the search asks for them.
fn found(maker: &mut Maker<'_>, mut peak: Peak) -> Result<Course> {
    let mut course = Course::default();
    let mut next = Next::Try(peak.first());
    let mut said = 0;
    while let Next::Try(rate) = next {
        let by = Effective { target_qps: rate, ..maker.asked.effective.clone() };
        for note in &peak.notes[said..] {
            maker.printer.say(note);
        }
        let before = peak.notes.len();
        let mut made =
            maker.make(&by, by.performance(), &format!("peak-{}", course.passes.len() + 1), true)?;
        // What the search says stands before the run that it asks for.
        let plain = |text: &String| Note { at: made.began, level: Level::Plain, text: text.clone() };
        let told: Vec<Note> = peak.notes[said..before].iter().map(plain).collect();
        said = before;
        made.notes.splice(0..0, told);
        let kept = made.outcome.as_ref().is_some_and(|(_, verdict)| verdict.latency == Some(true));
        course.passes.push(made);
        let this = course.passes.len() - 1;
        if kept || course.result.is_none() {
            course.result = Some(this);
            course.result_by = Some(by);
        }
        if maker.around.stop.load(Relaxed) {
            course.peak = Some(Peaked::Stopped);
            return Ok(course);
        }
        next = peak.after(kept);
    }
    let (level, peaked) = match next {
        Next::Found(rate) => (Level::Plain, Peaked::Found(rate)),
        _ => (Level::Error, Peaked::TooHigh(peak.first())),
    };
    if let Some(last) = course.passes.last_mut() {
        let note = |level, text| Note { at: last.ended, level, text };
        let mut told: Vec<Note> =
            peak.notes[said..].iter().map(|text| note(Level::Plain, text.clone())).collect();
        if level == Level::Error {
            told.push(note(level, peaked.to_string()));
        }
        last.notes.extend(told);
    }
    course.peak = Some(peaked);
    Ok(course)
}

/// Writes the logs and says what they are worth.
fn finish(
    args: &MlperfRunArgs,
    asked: &Asked,
    maker: &Maker<'_>,
    course: Course,
    folder: &Path,
    printer: &Printer,
) -> Result<u8> {
    let result_by = course.result_by.as_ref().unwrap_or(&asked.effective);
    let datetime = record::folder::rfc3339(maker.wall_ns)?;
    let labels = Labels {
        build: format!("inferometer {}", env!("CARGO_PKG_VERSION")),
        datetime: format!("{}Z", datetime.split('.').next().unwrap_or_default()),
        system: course.passes.first().map(system).unwrap_or_default(),
        system_asked: Nanos::ZERO,
        pid: u64::from(std::process::id()),
    };
    let written = Written {
        asked,
        result_by,
        labels,
        passes: &course.passes,
        result: course.result,
        answers: answers(&course, result_by)?,
    };
    written.write(folder)?;
    let of_result = course.result.or(course.passes.len().checked_sub(1)).and_then(|i| course.passes.get(i));
    let mut declared = asked.declared.clone();
    if let (Some(cache), Some(made)) = (&mut declared.cache, of_result) {
        cache.cached_tokens = heard::cached_tokens(&made.run);
    }
    let run = of_result.map(|made| made.folder.clone());
    Beside::new(asked, declared.clone(), run).write(folder)?;
    let evidence = Evidence {
        performance: check::read(folder)?,
        accuracy: None,
        declared,
        instrument: of_result.map(|made| instrument::of(&made.run)).unwrap_or_default(),
    };
    let layers = evidence.layers().map_err(wrong)?;
    tell(args, &layers, &course, folder, printer)?;
    let answered = course.passes.iter().flat_map(|made| &made.samples);
    let answered = answered.filter(|sample| sample.latency.is_some()).count() as u64;
    let code = answer::code_of_run(&layers, answered);
    let missed = matches!(course.peak, Some(Peaked::TooHigh(_) | Peaked::Stopped));
    Ok(if code == exit::HOLDS && missed { exit::MISSED } else { code })
}

/// What answered, as a log calls the system under test.
fn system(made: &Made) -> String {
    let spec = &made.run.header.spec;
    format!("{} at {}", spec.api.model.as_deref().unwrap_or("model"), spec.redacted().target.first())
}

/// All answers of accuracy passes; of the timed one those that the settings choose.
fn answers(course: &Course, by: &Effective) -> Result<Vec<Answer>> {
    let mut all = Vec::new();
    let mut first = 0;
    let mut choice = Kept::new(by);
    for made in &course.passes {
        // One draw for each sample that was made, whether it is kept or not.
        let chosen: Vec<bool> = made.samples.iter().map(|_| choice.next_sample()).collect();
        if !made.texts.is_empty() || made.outcome.is_none() {
            let kept = |place: usize| made.outcome.is_none() || chosen[place];
            all.extend(heard::answers(&made.run, &made.samples, first, &made.texts, kept)?);
        }
        first += made.samples.len() as u64;
    }
    Ok(all)
}

fn tell(
    args: &MlperfRunArgs,
    layers: &Layers,
    course: &Course,
    folder: &Path,
    printer: &Printer,
) -> Result<()> {
    printer.say("");
    answer::tell(layers, printer);
    if let Some(peaked) = &course.peak {
        printer.say(&peaked.to_string());
    }
    if args.scenario == MlperfScenario::Interactive {
        printer.say(
            "Interactive: LoadGen's logs call it Server; the layers judge it by the limits of Interactive.",
        );
    }
    let shown = folder.display();
    printer.say(&format!("\n{shown}     again:  inferometer mlperf check {shown}"));
    if args.json {
        let mut json = serde_json::to_value(layers)?;
        json["folder"] = folder.display().to_string().into();
        if let Some(Peaked::Found(rate)) = course.peak {
            json["peak_qps"] = rate.into();
        }
        printer.data(&serde_json::to_string_pretty(&json)?)?;
    }
    Ok(())
}
