//! `inferometer mlperf check`: a folder of logs, and what is declared beside them.

use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use mlperf::layers::{Declared, Evidence, Instrument};
use mlperf::read::{Logs, is_answer};
use serde::de::DeserializeOwned;

use super::logs::{self, Beside, DETAIL, SUMMARY};
use super::{answer, instrument, wrong};
use crate::cli::{DeclaredArgs, MlperfCheckArgs};
use crate::failure::Failure;
use crate::files;
use crate::printer::Printer;

/// Looks at the folder.
pub fn command(args: &MlperfCheckArgs, printer: &Printer) -> Result<u8> {
    let evidence = evidence(args).map_err(Failure::request)?;
    let mut all = evidence.layers().map_err(wrong)?;
    if !args.layer.eq_ignore_ascii_case("all") {
        all.layers.retain(|layer| layer.id.eq_ignore_ascii_case(&args.layer));
    }
    if args.json {
        printer.data(&serde_json::to_string_pretty(&all)?)?;
    } else {
        answer::tell(&all, printer);
    }
    Ok(answer::code_of_all(&all.layers))
}

fn evidence(args: &MlperfCheckArgs) -> Result<Evidence> {
    let nested = args.dir.join("performance/run_1");
    let folder = if nested.is_dir() { &nested } else { &args.dir };
    let accuracy = args.dir.join("accuracy");
    let accuracy = accuracy.join(DETAIL).is_file().then(|| read(&accuracy)).transpose()?;
    let beside = Beside::read(folder)?;
    let own = beside.as_ref().map(|beside| beside.declared.clone());
    let mut declared = declared(&args.declared, own)?;
    // A flag says it last.
    let or = |flag: &Option<String>, file: Option<String>| flag.clone().or(file);
    declared.round = or(&args.round, declared.round);
    declared.model = or(&args.benchmark, declared.model);
    declared.scenario = or(&args.scenario, declared.scenario);
    let measurements = args.dir.join("measurements.json");
    if declared.measurements.is_none() && measurements.is_file() {
        declared.measurements = Some(json(&measurements, "the measurements")?);
    }
    let run = beside.and_then(|beside| beside.run).map(|run| folder.join(run));
    let instrument = match run.filter(|run| run.is_dir()) {
        Some(run) => instrument::of(&record::read(&run)?),
        None => Instrument::default(),
    };
    Ok(Evidence { performance: read(folder)?, accuracy, declared, instrument })
}

/// What flags declare, over a file of theirs, over `own`.
pub fn declared(args: &DeclaredArgs, own: Option<Declared>) -> Result<Declared> {
    let mut declared = match &args.declared {
        Some(path) => json(path, "what is declared")?,
        None => own.unwrap_or_default(),
    };
    declared.division = args.division.or(declared.division);
    declared.availability = args.availability.or(declared.availability);
    if let Some(path) = &args.system {
        declared.system = Some(json(path, "the description of the system")?);
    }
    Ok(declared)
}

/// The logs of one folder.
pub fn read(folder: &Path) -> Result<Logs> {
    let read = |name: &str| {
        let path = folder.join(name);
        files::check(&path, "a log of LoadGen")?;
        std::fs::read(&path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .with_context(|| format!("cannot read {}", path.display()))
    };
    let detail = read(DETAIL)?;
    let summary = folder.join(SUMMARY).is_file().then(|| read(SUMMARY));
    let answers = answers(&folder.join(logs::ACCURACY))?;
    Logs::parse(&detail, summary.transpose()?.as_deref(), answers)
        .map_err(|words| anyhow!("{}: {words}", folder.display()))
}

/// The accuracy log may be larger than the memory: only its lines are counted.
fn answers(path: &Path) -> Result<Option<u64>> {
    if !path.is_file() {
        return Ok(None);
    }
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut count = 0;
    for line in BufReader::new(file).split(b'\n') {
        count += u64::from(is_answer(&line.with_context(|| format!("cannot read {}", path.display()))?));
    }
    Ok(Some(count))
}

fn json<T: DeserializeOwned>(path: &Path, what: &str) -> Result<T> {
    files::check(path, what)?;
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} does not hold {what}", path.display()))
}
