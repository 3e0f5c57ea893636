//! `inferometer capacity`: how much a server holds. The search itself is `decide::capacity`; here are its probes, as
//! runs over HTTP or in virtual time, and the folder that they lie in.

mod http;
mod idle;
mod kept;
mod page;
mod simulated;

use std::path::Path;

use anyhow::{Result, anyhow};
use decide::capacity::{CapacityAnswer, Criterion, Fleet, Over, Replay, Runner, Settings, Verdict, search};
use decide::json::CapacityDocument;
use record::Environment;
use record::folder::write_json_file;
use spec::{Burstiness, Nanos, Rate, Span, Spec};

use crate::asked;
use crate::cli::{AnalysisArgs, CapacityArgs, Progress, SearchOver, ShowArgs};
use crate::derived;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::run::{self, Around, Site};
use http::Probes;
use kept::{Asked, Found, Kept};
pub use page::report;

/// The answer, in the folder of the search.
const ANSWER: &str = "capacity.json";
/// A request without its first token counts as lost after this, where no limit says so.
const PATIENCE: Nanos = Nanos::from_secs(300);

/// Whether a folder is that of a search.
pub fn is_one(path: &Path) -> bool {
    kept::exists(path)
}

/// Searches, or goes on with a search that was interrupted.
pub fn command(args: &CapacityArgs, printer: &Printer, progress: Progress) -> Result<u8> {
    let record = &args.settings.record;
    let (asked, spec) = match &args.load.resume {
        Some(folder) => {
            let asked = kept::asked(folder)?;
            let spec = asked::resumed_search(args, &asked.spec, folder)?;
            (asked, spec)
        }
        None => {
            let spec = asked::capacity(args)?;
            (asked(args, &spec)?, spec)
        }
    };
    let settings = settings(&asked, &spec)?;
    if record.dry_run {
        run::check(&spec)?;
        printer.data(&serde_json::to_string_pretty(&asked)?)?;
        return Ok(0);
    }
    if args.load.in_virtual_time {
        let mut runner = simulated::runner(&spec)?;
        let answer = searched(&settings, &mut runner, printer);
        return told(&asked, &spec, &answer, None, args, printer);
    }
    run::prepare(&spec, &record.out)?;
    let kept = match &args.load.resume {
        Some(folder) => Kept::open(folder)?,
        None => Kept::create(&record.out, &folder_name(&spec), &asked)?,
    };
    let around = Around::this_program(printer)?;
    let mut site = Site::take(&spec, args.settings.client.if_busy, None, printer, &around.stop)?;
    printer.say(&printer.style.plain(&format!(
        "inferometer capacity  {} · over {} · in {}",
        spec.target,
        settings.over.name(),
        kept.path().display()
    )));
    let recorded = kept.probes()?;
    let mut live = Probes::new(&spec, &kept, &mut site, &around, (printer, progress));
    let answer = searched(&settings, &mut Replay::new(recorded, Some(&mut live)), printer);
    if let Some(error) = live.failed()
        && answer.probes.is_empty()
    {
        kept.discard_if_empty();
        return Err(error);
    }
    told(&asked, &spec, &answer, Some(&kept), args, printer)
}

/// Runs the search and tells of each probe.
fn searched(settings: &Settings, runner: &mut dyn Runner, printer: &Printer) -> CapacityAnswer {
    let mut said = 0;
    search(settings, runner, &mut |so_far| {
        for probe in so_far.probes.iter().skip(said) {
            printer.say(&present::terminal::probe(&printer.style, settings.over, probe));
        }
        said = so_far.probes.len();
    })
}

/// Shows and keeps the answer; gives the exit code.
fn told(
    asked: &Asked,
    spec: &Spec,
    answer: &CapacityAnswer,
    kept: Option<&Kept>,
    args: &CapacityArgs,
    printer: &Printer,
) -> Result<u8> {
    let found = match kept {
        Some(kept) => kept.found(),
        None => Some(simulated_on(spec)?),
    };
    let document = document(asked, spec, answer, found);
    let json = document.to_json();
    let mut whole = true;
    if let Some(kept) = kept {
        let written = write_json_file(&kept.path().join(ANSWER), &json);
        whole = derived::is_written(written, printer) && kept.is_whole();
        if args.settings.record.html {
            whole &= derived::is_written(page::write(kept.path(), asked, &document), printer);
        }
    } else if args.settings.record.html {
        printer.warn("no page was written: a search in virtual time keeps no folder");
    }
    let code = answer.verdict.exit_code();
    if code >= decide::verdict::exit::NOT_TRUSTED && printer.quiet {
        printer.warn(&answer.sentence);
    }
    printer.say(&format!("\n{}", present::terminal::capacity(&printer.style, &document)));
    if let Some(kept) = kept {
        let path = kept.path().display();
        printer.say(&format!("\n{path}     again:  inferometer show {path}"));
        if matches!(answer.verdict, Verdict::Unresolved) {
            printer.say(&format!("go on where it ended:  inferometer capacity --resume {path}"));
        }
    }
    if args.settings.record.json {
        printer.data(&serde_json::to_string_pretty(&json)?)?;
    }
    Ok(derived::exit_code(code, whole))
}

/// Where a search in virtual time is made: on this side alone.
fn simulated_on(spec: &Spec) -> Result<Found> {
    let started = record::folder::rfc3339(run::wall_ns())?;
    let environment = Environment { started, ..run::on_this_side() };
    Ok(Found { model: run::known_model(spec), environment })
}

fn document(asked: &Asked, spec: &Spec, answer: &CapacityAnswer, found: Option<Found>) -> CapacityDocument {
    // Without a probe nothing was found.
    let Found { model, environment } =
        found.unwrap_or_else(|| Found { model: run::known_model(spec), environment: run::on_this_side() });
    let mut spec = spec.clone();
    spec.api.model = model;
    let spec = &spec;
    let fleet = Fleet::of(answer, asked.accelerators, asked.demand.map(Rate::per_second));
    CapacityDocument::new(answer, fleet, spec, &environment)
}

/// The answer of a folder again, from its recorded probes, and what was asked.
fn replayed(folder: &Path, analysis: &AnalysisArgs) -> Result<(Asked, CapacityDocument)> {
    let mut asked = kept::asked(folder)?;
    asked::reanalysis(&mut asked.spec, analysis, None)?;
    let settings = settings(&asked, &asked.spec)?;
    let kept = Kept::open(folder)?;
    let answer = search(&settings, &mut Replay::new(kept.probes()?, None), &mut |_| {});
    let document = document(&asked, &asked.spec, &answer, kept.found());
    Ok((asked, document))
}

/// Shows the answer of a folder.
pub fn show(args: &ShowArgs, printer: &Printer) -> Result<u8> {
    if !(args.slo.slo.is_empty() && args.slo.attain.is_none()) {
        return Err(Failure::request(anyhow!(
            "a search cannot be judged by other limits than its own: its loads were chosen for these\n\
             hint: search again with the other limits, or see one of its probes: inferometer show {}/PROBE",
            args.dir.display()
        ))
        .into());
    }
    let (_, document) = replayed(&args.dir, &args.analysis)?;
    if args.json {
        printer.data(&serde_json::to_string_pretty(&document.to_json())?)?;
    } else {
        printer.say(&present::terminal::capacity(&printer.style, &document));
    }
    Ok(document.verdict.exit_code)
}

/// What flags ask of the search.
fn asked(args: &CapacityArgs, spec: &Spec) -> Result<Asked> {
    let load = &args.load;
    let wrong = |flag: &str, expected: &str, came: &str| {
        Failure::request(anyhow!("{flag}: expected {expected}, came `{came}`"))
    };
    let span = |flag: &str, text: &Option<String>| -> Result<Option<Span>> {
        let read = |text: &String| text.parse().map_err(|_| wrong(flag, "a time such as 8s", text));
        Ok(text.as_ref().map(read).transpose()?)
    };
    let think = span("--think", &load.think)?;
    let burstiness = match &load.burstiness {
        Some(text) => text
            .parse::<Burstiness>()
            .map_err(|_| wrong("--burstiness", "a positive number, or inf", text))?,
        None => Burstiness::POISSON,
    };
    let over = match (load.over, think) {
        (SearchOver::Rate, None) => kept::Over::Rate { burstiness },
        (SearchOver::Concurrency, None) => kept::Over::Concurrency,
        (SearchOver::Users, think) => kept::Over::Users { think: think.unwrap_or(Span(Nanos::ZERO)) },
        (SearchOver::Rate | SearchOver::Concurrency, Some(_)) => {
            return Err(Failure::request(anyhow!(
                "only users think between requests\nhint: inferometer capacity … --over users --think 8s"
            ))
            .into());
        }
    };
    if load.burstiness.is_some() && load.over != SearchOver::Rate {
        return Err(Failure::request(anyhow!(
            "--burstiness shapes the gaps of an open loop\nhint: inferometer capacity … --over rate"
        ))
        .into());
    }
    let width = match load.width.as_deref() {
        None => 0.1,
        Some(text) => share(text).ok_or_else(|| wrong("--width", "a share such as 10%", text))?,
    };
    let demand = match &load.demand {
        None => None,
        Some(text) => {
            Some(text.parse::<Rate>().map_err(|_| wrong("--demand", "a rate such as 900/s", text))?)
        }
    };
    Ok(Asked {
        over,
        max_load: load.max,
        width,
        max_probes: load.probes,
        budget: span("--budget", &load.budget)?,
        accelerators: load.accelerators.or(spec.target.first().accelerators()),
        demand,
        spec: spec.redacted(),
    })
}

/// `10%` or `0.1`, above 0 and at most 1.
fn share(text: &str) -> Option<f64> {
    let (number, of) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().ok()? / of;
    (share > 0.0 && share <= 1.0).then_some(share)
}

fn settings(asked: &Asked, spec: &Spec) -> Result<Settings> {
    let patience = spec.timeouts.first_token.0.unwrap_or(PATIENCE);
    let criteria = Criterion::of(&spec.slo, patience).map_err(|error| {
        Failure::request(anyhow!("{error}\nhint: --slo 'p95(ttft)<=500ms' --slo 'p95(tpot)<=40ms'"))
    })?;
    let over = match asked.over {
        kept::Over::Rate { burstiness } => Over::Rate { burstiness },
        kept::Over::Concurrency => Over::Concurrency,
        kept::Over::Users { think } => Over::Users { think: think.0 },
    };
    let mut settings = Settings::new(over, criteria, spec.seed);
    settings.max_load = asked.max_load;
    settings.width = asked.width;
    settings.max_probes = asked.max_probes.unwrap_or(settings.max_probes);
    settings.budget = asked.budget.map(|span| span.0);
    Ok(settings)
}

/// `llama-3.1-8b-capacity`.
fn folder_name(spec: &Spec) -> String {
    let model = run::known_model(spec);
    format!("{}-capacity", model.as_deref().unwrap_or("model"))
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_are_read_with_and_without_a_sign() {
        assert_eq!(["10%", "0.1", "100 %"].map(share), [Some(0.1), Some(0.1), Some(1.0)]);
        assert_eq!(["0", "-1%", "101%", "x", "", "nan"].map(share), [None; 6]);
    }
}
