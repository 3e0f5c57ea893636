//! `inferometer sweep`: several loads, each an ordinary run in the sweep's own folder.

mod plan;

use std::path::Path;

use anyhow::{Result, anyhow};
use decide::RunReport;
use decide::sweep::{Asked, Point, Recorded, SweepReport, load_of};
use decide::words::counted;
use record::RunFolder;
use record::folder::write_json_file;
use spec::{Analysis, Spec};

use crate::asked;
use crate::cli::{AnalysisArgs, Progress, ReportArgs, ShowArgs, SloArgs, SweepArgs};
use crate::commands::write_page;
use crate::derived;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::run::{self, Around, Site};
use crate::series::{self, Ended, Made, Series};
use plan::{MOST_RUNS, Settings};

/// The answer of a sweep, in its folder.
const ANSWER: &str = "sweep.json";

/// Whether a folder is that of a sweep.
pub fn is_one(path: &Path) -> bool {
    series::exists(path)
}

/// Measures several loads, or goes on with a sweep that was interrupted.
pub fn command(args: &SweepArgs, printer: &Printer, progress: Progress) -> Result<u8> {
    let record = &args.settings.record;
    let (mut series, specs, around) = match &args.load.resume {
        Some(folder) => {
            let series: Series<Settings> = Series::open(folder)?;
            let specs = asked::resumed(args, &series.specs(), folder)?;
            if record.dry_run {
                return dry_run(printer, series.settings(), &specs);
            }
            prepare(&specs, series.path())?;
            (series, specs, Around::this_program(printer)?)
        }
        None => {
            let (settings, specs) = planned(args)?;
            if record.dry_run {
                specs.first().map_or(Ok(()), |spec| run::check(spec).map(drop))?;
                return dry_run(printer, &settings, &specs);
            }
            prepare(&specs, &record.out)?;
            let around = Around::this_program(printer)?;
            let seed = specs.first().map_or(spec::DEFAULT_SEED, |spec| spec.seed);
            let series = Series::create(&record.out, &folder_name(&specs), seed, settings, &specs)?;
            (series, specs, around)
        }
    };
    let ended = measured(&mut series, &specs, args, &around, (printer, progress));
    if ended.is_err() {
        series.discard_if_empty();
    }
    let ended = ended?;
    if series.missing().len() == specs.len() {
        let path = series.path().display().to_string();
        series.discard_if_empty();
        return Err(match ended {
            Some(Ended::Failed(error)) => error,
            _ if is_one(series.path()) => Failure::stopped(&format!(
                "the sweep was stopped before its first run had ended\nhint: inferometer sweep --resume {path}"
            ))
            .into(),
            _ => Failure::stopped("the sweep was stopped before its first run").into(),
        });
    }
    let why = match &ended {
        None => None,
        Some(Ended::Interrupted) => Some("it was interrupted".to_owned()),
        Some(Ended::Failed(error)) => {
            printer.warn(&format!("not every run was made: {error:#}"));
            Some(format!("{error:#}").lines().next().unwrap_or_default().to_owned())
        }
    };
    let report = answered(&series, why, None)?;
    let json = report.to_json();
    let mut kept = series.is_whole() & keep(series.path(), &json, printer);
    if record.html {
        kept &= pages(&series, &report, printer)?;
    }
    if report.verdict.exit_code >= decide::verdict::exit::NOT_TRUSTED && printer.quiet {
        // "Errors only" still says why there is nothing to rely on.
        printer.warn(&report.verdict.answer);
    }
    tell(&series, &report, printer);
    if record.json {
        printer.data(&serde_json::to_string_pretty(&json)?)?;
    }
    Ok(derived::exit_code(report.verdict.exit_code, kept))
}

/// What is asked for, before anything is made.
fn planned(args: &SweepArgs) -> Result<(Settings, Vec<Spec>)> {
    let (loads, of_loads) = asked::sweep(args)?;
    let of_target = of_loads.first().and_then(|spec| spec.target.first().accelerators());
    let settings = Settings::new(loads, &args.load, of_target);
    let runs = settings.runs();
    if runs > MOST_RUNS {
        return Err(Failure::request(anyhow!(
            "{} of {} are {runs} runs, and a sweep makes at most {MOST_RUNS}\nhint: fewer loads, for example 1..256:9",
            counted(u64::from(settings.repeats), "repeat"),
            counted(of_loads.len() as u64, "load")
        ))
        .into());
    }
    let seed = of_loads.first().map_or(spec::DEFAULT_SEED, |spec| spec.seed);
    let specs = settings.order(seed).into_iter().filter_map(|load| of_loads.get(load).cloned()).collect();
    Ok((settings, specs))
}

/// What would be measured.
fn dry_run(printer: &Printer, settings: &Settings, specs: &[Spec]) -> Result<u8> {
    let order: Vec<f64> = specs.iter().map(load_of).collect();
    let spec = specs.first().map(Spec::redacted);
    let json = serde_json::json!({ "sweep": settings, "order": order, "spec": spec });
    printer.data(&serde_json::to_string_pretty(&json)?)?;
    Ok(0)
}

/// Every load can be run, as far as that shows without the server.
fn prepare(specs: &[Spec], folder: &Path) -> Result<()> {
    specs.iter().try_for_each(|spec| run::prepare(spec, folder))
}

/// `llama-3.1-8b-sweep`.
fn folder_name(specs: &[Spec]) -> String {
    let model = specs.first().and_then(run::known_model);
    format!("{}-sweep", model.as_deref().unwrap_or("model"))
}

/// Makes the runs that are missing.
fn measured(
    series: &mut Series<Settings>,
    specs: &[Spec],
    args: &SweepArgs,
    around: &Around,
    (printer, progress): (&Printer, Progress),
) -> Result<Option<Ended>> {
    let total = specs.len();
    if series.missing().is_empty() {
        return Ok(None);
    }
    let Some(first) = specs.first() else { return Ok(None) };
    let mut site = Site::take(first, args.settings.client.if_busy, None, printer, &around.stop)?;
    let over = decide::sweep::Over::of(first);
    printer.say(&printer.style.plain(&format!(
        "inferometer sweep  {} · {} · {} to make, in {}",
        first.target,
        counted(series.settings().loads.len() as u64, "load"),
        counted(series.missing().len() as u64, "run"),
        series.path().display()
    )));
    let before = |index: usize| {
        let load = specs.get(index).map_or(0.0, load_of);
        printer.say(&printer.style.plain(&format!("\n[{}/{total}] {}", index + 1, over.words(load))));
    };
    let after = |made: &Made| printer.say(&present::terminal::run_in_a_line(&printer.style, &made.report));
    Ok(series.make(specs, &mut site, around, (printer, progress), before, after))
}

/// From the records in the folder to the answer; under another analysis or other limits where they
/// are given.
fn answered(
    series: &Series<Settings>,
    ended: Option<String>,
    again: Option<(&AnalysisArgs, Option<&SloArgs>)>,
) -> Result<SweepReport> {
    let specs = series.specs();
    let missing = series.missing();
    let mut spec =
        specs.first().cloned().ok_or_else(|| Failure::request(anyhow!("a sweep without a run")))?;
    if let Some((analysis, limits)) = again {
        asked::reanalysis(&mut spec, analysis, limits)?;
    }
    let analysis: Analysis = spec.analysis;
    let mut loads: Vec<f64> = specs.iter().map(load_of).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let mut points = Vec::new();
    for load in loads {
        let of_load = specs.iter().enumerate().filter(|(_, spec)| load_of(spec).total_cmp(&load).is_eq());
        let mut runs = Vec::new();
        for name in of_load.filter_map(|(index, _)| series.name(index)) {
            let mut run = series.read(name)?;
            run.header.spec.slo = spec.slo.clone();
            runs.push(Recorded { name: name.to_owned(), run });
        }
        points.extend(Point::new(runs, &analysis));
    }
    let settings = series.settings();
    let asked = Asked {
        seed: series.seed(),
        loads: settings.numbers(),
        repeats: settings.repeats,
        order: settings.order,
        accelerators: settings.accelerators,
        missing: missing.iter().filter_map(|index| specs.get(*index)).map(load_of).collect(),
        ended,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        // The model's name is known once a run was made.
        spec: points.first().map_or(spec.clone(), |point| Spec { seed: series.seed(), ..point.spec.clone() }),
    };
    Ok(SweepReport::build(asked, points))
}

/// Writes the answer. A full disk must not take it away: it is told, and shown all the same.
/// `false`: it could not be written.
fn keep(folder: &Path, json: &serde_json::Value, printer: &Printer) -> bool {
    derived::is_written(write_json_file(&folder.join(ANSWER), json), printer)
}

/// The page of the sweep, and one of each run that it links to. `false`: one could not be written.
fn pages(series: &Series<Settings>, report: &SweepReport, printer: &Printer) -> Result<bool> {
    let mut kept = true;
    for repeat in report.points.iter().flat_map(|point| &point.repeats) {
        let folder = RunFolder::open(&series.path().join(&repeat.name)).map_err(Failure::request)?;
        let run = series.read(&repeat.name)?;
        let of_run = RunReport::build(&run, &run.header.spec.analysis);
        kept &=
            derived::is_written(folder.write_report(&derived::page(&run, &of_run, folder.path())), printer);
    }
    let folder = RunFolder::open(series.path()).map_err(Failure::request)?;
    kept &= derived::is_written(folder.write_report(&page(series, report, true)), printer);
    Ok(kept)
}

fn page(series: &Series<Settings>, report: &SweepReport, links: bool) -> String {
    let command = format!("inferometer sweep {}", series.settings().flags(&report.asked.spec));
    present::html::sweep(report, &command, links)
}

fn tell(series: &Series<Settings>, report: &SweepReport, printer: &Printer) {
    printer.say("");
    printer.say(&present::terminal::sweep(&printer.style, report));
    let path = series.path().display();
    printer.say(&format!("\n{path}     report:  inferometer report {path}"));
    if !report.asked.missing.is_empty() {
        printer.say(&format!("the missing runs:  inferometer sweep --resume {path}"));
    }
}

/// Analyses the folder of a sweep again.
pub fn show(args: &ShowArgs, printer: &Printer) -> Result<u8> {
    let series: Series<Settings> = Series::open(&args.dir)?;
    let report = reread(&series, &args.analysis, Some(&args.slo))?;
    if args.json {
        printer.data(&serde_json::to_string_pretty(&report.to_json())?)?;
    } else {
        tell(&series, &report, printer);
    }
    Ok(report.verdict.exit_code)
}

/// Writes the page of a sweep, and those of its runs where it lies among them.
pub fn report(args: &ReportArgs, printer: &Printer) -> Result<u8> {
    let series: Series<Settings> = Series::open(&args.dir)?;
    let report = reread(&series, &args.analysis, None)?;
    match &args.out {
        None => {
            let kept = keep(series.path(), &report.to_json(), printer) & pages(&series, &report, printer)?;
            printer.data(&series.path().join("report.html").display().to_string())?;
            return Ok(derived::exit_code(0, kept));
        }
        Some(path) => write_page(path, page(&series, &report, false), printer)?,
    }
    Ok(0)
}

fn reread(
    series: &Series<Settings>,
    analysis: &AnalysisArgs,
    limits: Option<&SloArgs>,
) -> Result<SweepReport> {
    let report = answered(series, None, Some((analysis, limits)))?;
    if report.points.is_empty() {
        return Err(Failure::request(anyhow!(
            "no run of the sweep in {0} was made to its end\nhint: inferometer sweep --resume {0}",
            series.path().display()
        ))
        .into());
    }
    Ok(report)
}
