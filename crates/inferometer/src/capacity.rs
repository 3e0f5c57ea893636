//! `inferometer capacity`: how much a server holds. The search itself is `decide::capacity`; here are its probes, as
//! runs over HTTP or in virtual time, and the folder that they lie in.

mod http;
mod idle;
mod kept;
mod maximize;
mod page;
mod quality;
mod sensitivity;
mod simulated;

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Result, anyhow};
use decide::capacity::{
    CapacityAnswer, Criterion, Fleet, Replay, Runner, Sensitivity, Settings, Verdict, search_tiers,
};
use decide::json::CapacityDocument;
use decide::maximize::{Binds, Maximum, Told, setting_words};
use decide::qualified::Quality;
use record::folder::write_json_file;
use record::{Environment, RunFolder};
use spec::{Burstiness, Nanos, Rate, Slo, Span, Spec, SpecError, Tier};

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

/// An answer for each tier, or one without tiers; and what was maximised.
struct Searched {
    answers: Vec<CapacityAnswer>,
    maximum: Option<Maximum>,
}

/// What a search found.
pub struct Answered {
    asked: Asked,
    found: Searched,
    sensitivity: Option<Sensitivity>,
    quality: Option<Quality>,
    /// Where and against what.
    at: Found,
}

impl Answered {
    fn document(&self) -> CapacityDocument {
        let document = self.speed();
        match &self.quality {
            Some(quality) => document.with_quality(quality.clone()),
            None => document,
        }
    }

    fn speed(&self) -> CapacityDocument {
        let environment = &self.at.environment;
        let mut spec = self.asked.spec.clone();
        spec.api.model = self.at.model.clone();
        let (asked, spec) = (&self.asked, &spec);
        let fleet =
            |answer| Fleet::of(answer, asked.accelerators, asked.demand.as_ref().map(|d| d.per_second()));
        let answers = &self.found.answers;
        if let Some(maximum) = &self.found.maximum {
            // Servers are counted by what one holds, where that is what ends the throughput.
            let by_limit = maximum.best.as_ref().is_some_and(|best| best.binds == Some(Binds::Limit));
            let fleet = fleet(&answers[0]).filter(|_| by_limit);
            return CapacityDocument::new(&answers[0], fleet, spec, environment)
                .with_maximum(maximum.clone());
        }
        let tiers: Vec<(Tier, CapacityAnswer, Option<Fleet>)> = asked
            .tiers
            .iter()
            .zip(answers)
            .map(|(tier, answer)| (tier.clone(), answer.clone(), fleet(answer)))
            .collect();
        let document = CapacityDocument::of_tiers(&tiers, spec, environment)
            .unwrap_or_else(|| CapacityDocument::new(&answers[0], fleet(&answers[0]), spec, environment));
        CapacityDocument { sensitivity: self.sensitivity.clone(), ..document }
    }

    /// Whether more probes could resolve it, or questions are left to be asked.
    fn is_open(&self) -> bool {
        if self.quality.as_ref().is_some_and(|quality| quality.at_load.is_none() && quality.why.is_some()) {
            return true;
        }
        let open = |verdict: Verdict| matches!(verdict, Verdict::Unresolved);
        match &self.found.maximum {
            Some(maximum) => open(maximum.verdict),
            None => self.found.answers.iter().any(|answer| open(answer.verdict)),
        }
    }
}

/// Searches, or goes on with a search that was interrupted.
pub fn command(args: &CapacityArgs, printer: &Printer, progress: Progress) -> Result<u8> {
    let record = &args.settings.record;
    let (asked, spec) = match &args.load.resume {
        Some(folder) => {
            refuse_tiers(args)?;
            let mut asked = kept::asked(folder)?;
            let spec = asked::resumed_search(args, &asked.spec, folder)?;
            asked.sensitivity |= args.load.sensitivity;
            asked.quality = args.load.quality.clone().or(asked.quality);
            (asked, spec)
        }
        None => {
            let spec = asked::capacity(args)?;
            (asked(args, &spec)?, spec)
        }
    };
    settings(&asked, &spec)?;
    let baseline = quality::baseline(args, &asked)?;
    if record.dry_run {
        run::check(&spec)?;
        printer.data(&serde_json::to_string_pretty(&asked)?)?;
        return Ok(0);
    }
    if args.load.in_virtual_time {
        let search = |asked: &Asked, spec: &Spec| {
            let mut runner = simulated::runner(spec)?;
            searched(asked, spec, &mut runner, printer)
        };
        let found = search(&asked, &spec)?;
        let sensitivity =
            sensitivity::table(&asked, &spec, &found.answers, printer, &mut |_, asked, spec| {
                search(asked, spec).map(|found| Some(found.answers))
            })?;
        let at = simulated_on(&spec)?;
        return told(&Answered { asked, found, sensitivity, quality: None, at }, None, args, printer);
    }
    run::prepare(&spec, &record.out)?;
    let kept = match &args.load.resume {
        Some(folder) => Kept::open(folder)?,
        None => Kept::create(&record.out, &folder_name(&spec), &asked)?,
    };
    let around = Around::this_program(printer)?;
    let mut site = Site::take(&spec, args.settings.client.if_busy, None, printer, &around.stop)?;
    let again = baseline.map(|baseline| baseline.at(&spec, &around.stop, printer)).transpose();
    let again = again.inspect_err(|_| kept.discard_if_empty())?;
    printer.say(&printer.style.plain(&format!(
        "inferometer capacity  {} · over {} · in {}",
        spec.target,
        asked.over.searched().name(),
        kept.path().display()
    )));
    sensitivity::announce(&asked, printer);
    let mut search = |kept: &Kept, asked: &Asked, spec: &Spec| {
        let recorded = kept.probes()?;
        let mut live = Probes::new(spec, kept, &mut site, &around, (printer, progress));
        let found = searched(asked, spec, &mut Replay::new(recorded, Some(&mut live)), printer)?;
        match live.failed() {
            Some(error) if found.is_empty() => {
                kept.discard_if_empty();
                Err(error)
            }
            _ => Ok(found),
        }
    };
    let found = search(&kept, &asked, &spec)?;
    let mut whole = true;
    let sensitivity =
        sensitivity::table(&asked, &spec, &found.answers, printer, &mut |change, asked, spec| {
            if around.stop.load(Relaxed) {
                return Ok(None);
            }
            let below = Kept::at(&kept.path().join(change.slug()), asked)?;
            match search(&below, asked, spec) {
                Ok(found) => {
                    whole &= below.is_whole();
                    Ok(Some(found.answers))
                }
                // What is known by now is told all the same.
                Err(error) => {
                    printer.warn(&format!("{}: {error:#}", change.words()));
                    Ok(None)
                }
            }
        })?;
    let quality = match again {
        Some(again) => {
            let place = quality::Place { kept: &kept, site: &mut site, around: &around, printer, progress };
            let quality = quality::ask(&again, &found.answers[0], &spec, place);
            if let Err(error) = kept.note_quality(&quality) {
                printer.warn(&format!("the quality could not be written down: {error:#}"));
            }
            Some(quality)
        }
        None => kept.quality()?,
    };
    let at = searched_at(&kept, &spec);
    told(&Answered { asked, found, sensitivity, quality, at }, Some((&kept, whole)), args, printer)
}

impl Searched {
    /// No probe came back.
    fn is_empty(&self) -> bool {
        self.answers.iter().all(|answer| answer.probes.is_empty())
            && self.maximum.as_ref().is_none_or(|maximum| maximum.requests == 0)
    }
}

/// Runs what is asked for and tells of each probe.
fn searched(asked: &Asked, spec: &Spec, runner: &mut dyn Runner, printer: &Printer) -> Result<Searched> {
    let settings = settings(asked, spec)?;
    let width = asked.tiers.iter().map(|tier| tier.name.len()).max().unwrap_or(0);
    let mut said = 0;
    if let Some(wanted) = &asked.maximize {
        let (settings, style) = (&settings[0], &printer.style);
        return Ok(maximize::find(wanted, settings, runner, &mut |told| match told {
            Told::Setting(setting) => {
                // Each has a search of its own.
                said = 0;
                printer.say(&style.plain(&format!("  {}", setting_words(setting))));
            }
            Told::Search(so_far) => {
                for probe in so_far.probes.iter().filter(|probe| probe.number >= said) {
                    printer.say(&present::terminal::probe(style, settings.over, probe));
                }
                said = so_far.probes.last().map_or(said, |probe| probe.number + 1);
            }
            Told::Point(point) => printer.say(&present::terminal::throughput(style, settings.over, point)),
        }));
    }
    let answers = search_tiers(&settings, runner, &mut |tier, so_far| {
        let name = asked.tiers.get(tier).map_or(String::new(), |tier| format!("  {:<width$}", tier.name));
        let new = so_far.probes.iter().rev().take_while(|probe| probe.number >= said && !probe.borrowed);
        for probe in new.collect::<Vec<_>>().into_iter().rev() {
            let line = present::terminal::probe(&printer.style, settings[tier].over, probe);
            printer.say(&format!("{name}{line}"));
        }
        said = so_far.probes.last().map_or(said, |probe| probe.number + 1);
    });
    Ok(Searched { answers, maximum: None })
}

/// Shows and keeps the answer; gives the exit code. `kept`: the folder, and whether those below it are
/// whole.
fn told(found: &Answered, kept: Option<(&Kept, bool)>, args: &CapacityArgs, printer: &Printer) -> Result<u8> {
    let document = found.document();
    let json = document.to_json();
    let mut whole = true;
    if let Some((kept, below)) = kept {
        let written = write_json_file(&kept.path().join(ANSWER), &json);
        whole = derived::is_written(written, printer) && kept.is_whole() && below;
        if args.settings.record.html {
            whole &= derived::is_written(page::write(kept.path(), found), printer);
        }
    } else if args.settings.record.html {
        // Made again in seconds, its probes are not kept; the page is what was asked for.
        let folder =
            RunFolder::create(&args.settings.record.out, run::wall_ns(), &folder_name(&found.asked.spec));
        let folder = folder.map_err(Failure::request)?;
        whole = derived::is_written(write_json_file(&folder.path().join(ANSWER), &json), printer);
        whole &= derived::is_written(page::write(folder.path(), found), printer);
        printer.say(&format!("page:  {}", folder.report().display()));
    }
    let code = document.verdict.exit_code;
    if code >= decide::verdict::exit::NOT_TRUSTED && printer.quiet {
        printer.warn(&document.verdict.answer);
    }
    printer.say(&format!("\n{}", present::terminal::capacity(&printer.style, &document)));
    if let Some((kept, _)) = kept {
        let path = kept.path().display();
        printer.say(&format!("\n{path}     again:  inferometer show {path}"));
        if found.is_open() {
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

/// Where the search of a folder is made. Without a probe nothing was found.
fn searched_at(kept: &Kept, spec: &Spec) -> Found {
    let unknown = || Found { model: run::known_model(spec), environment: run::on_this_side() };
    kept.found().unwrap_or_else(unknown)
}

/// The answers of a folder again, from its recorded probes, and what was asked.
fn replayed(folder: &Path, analysis: &AnalysisArgs) -> Result<Answered> {
    let again = |folder: &Path| -> Result<(Asked, Searched)> {
        let mut asked = kept::asked(folder)?;
        asked::reanalysis(&mut asked.spec, analysis, None)?;
        let recorded = Kept::open(folder)?.probes()?;
        let settings = settings(&asked, &asked.spec)?;
        let mut runner = Replay::new(recorded, None);
        let found = match &asked.maximize {
            Some(wanted) => maximize::find(wanted, &settings[0], &mut runner, &mut |_| {}),
            None => Searched { answers: search_tiers(&settings, &mut runner, &mut |_, _| {}), maximum: None },
        };
        Ok((asked, found))
    };
    let (asked, found) = again(folder)?;
    let sensitivity = sensitivity::again(&asked, &found.answers, folder, &|folder| {
        again(folder).map(|(asked, found)| (asked, found.answers))
    })?;
    let kept = Kept::open(folder)?;
    let (quality, at) = (kept.quality()?, searched_at(&kept, &asked.spec));
    Ok(Answered { asked, found, sensitivity, quality, at })
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
    let document = replayed(&args.dir, &args.analysis)?.document();
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
    // Of users and requests in flight there is at least one.
    let least = if matches!(over, kept::Over::Rate { .. }) { f64::MIN_POSITIVE } else { 1.0 };
    if let Some(max) = load.max.filter(|max| !(max.is_finite() && *max >= least)) {
        return Err(wrong("--max", "a positive load", &max.to_string()).into());
    }
    Ok(Asked {
        over,
        max_load: load.max,
        width,
        max_probes: load.probes,
        budget: span("--budget", &load.budget)?,
        accelerators: load.accelerators.or(spec.target.first().accelerators()),
        demand,
        tiers: tiers(args, spec)?,
        sensitivity: load.sensitivity,
        maximize: maximize::asked(args, spec)?,
        quality: load.quality.clone(),
        spec: spec.redacted(),
    })
}

/// The tiers that flags ask for.
fn tiers(args: &CapacityArgs, spec: &Spec) -> Result<Vec<Tier>> {
    let load = &args.load;
    let refused = |error: SpecError| Failure::wrong_request(&[error]);
    let share = args.settings.slo.attain.as_ref().map(|text| text.parse());
    let share = share.transpose().map_err(|error: spec::ParseError| refused(error.into()))?;
    let tiers = Tier::read_all(&load.tier, share).map_err(|error| {
        refused(SpecError { message: format!("--tier: {}", error.message), ..error.into() })
    })?;
    if let (Some(tier), false) = (tiers.first(), spec.slo.is_empty()) {
        let limits: Vec<&str> = spec.slo.limits().map(|(_, text)| text).collect();
        return Err(refused(
            SpecError::new(format!("the limits {} belong to no tier", limits.join(", "))).hint(format!(
                "--tier '{tier}, {}', or a tier of their own: --tier 'NAME: {}'",
                limits.join(", "),
                limits.join(", ")
            )),
        )
        .into());
    }
    for tier in &tiers {
        let mut metrics = tier.slo.limits().map(|(metric, _)| metric);
        if let Some(metric) = metrics.find(|metric| !spec.api.stream && metric.needs_stream()) {
            return Err(refused(
                SpecError::new(format!(
                    "tier `{}`: without a stream there is no {}",
                    tier.name,
                    metric.name()
                ))
                .hint("leave --no-stream away, or limit e2e"),
            )
            .into());
        }
    }
    Ok(tiers)
}

/// A search that goes on has its tiers in its folder.
fn refuse_tiers(args: &CapacityArgs) -> Result<()> {
    if args.load.tier.is_empty() {
        return Ok(());
    }
    Err(Failure::wrong_request(&[SpecError::new("a search that goes on keeps its tiers")
        .hint("give --resume alone; for other tiers search again without it")])
    .into())
}

/// `10%` or `0.1`, above 0 and at most 1.
fn share(text: &str) -> Option<f64> {
    let (number, of) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().ok()? / of;
    (share > 0.0 && share <= 1.0).then_some(share)
}

/// The settings of each tier's search; of one without tiers a single one.
fn settings(asked: &Asked, spec: &Spec) -> Result<Vec<Settings>> {
    let patience = spec.timeouts.first_token.0.unwrap_or(PATIENCE);
    // What is maximised may go without limits.
    let is_free = asked.maximize.is_some() && spec.slo.is_empty();
    let flag = if asked.maximize.is_some() { "--subject-to" } else { "--slo" };
    let of = |slo: &Slo| -> Result<Settings> {
        let criteria = if is_free { Ok(Vec::new()) } else { Criterion::of(slo, patience) };
        let criteria = criteria.map_err(|error| {
            Failure::request(anyhow!("{error}\nhint: {flag} 'p95(ttft)<=500ms' {flag} 'p95(tpot)<=40ms'"))
        })?;
        let mut settings = Settings::new(asked.over.searched(), criteria, spec.seed);
        settings.workload = decide::capacity::workload_words(&spec.workload.isl, &spec.workload.osl);
        settings.max_load = asked.max_load;
        settings.width = asked.width;
        settings.max_probes = asked.max_probes.unwrap_or(settings.max_probes);
        settings.budget = asked.budget.map(|span| span.0);
        Ok(settings)
    };
    if asked.tiers.is_empty() {
        return Ok(vec![of(&spec.slo)?]);
    }
    asked.tiers.iter().map(|tier| of(&tier.slo)).collect()
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
