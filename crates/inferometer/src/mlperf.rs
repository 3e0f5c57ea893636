//! `inferometer mlperf`: the files and the screen of crate `mlperf`.

use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use decide::verdict::exit;
use mlperf::Round;
use mlperf::layers::{Declared, Evidence, Layers, Status};
use mlperf::read::{Logs, is_answer};
use serde::de::DeserializeOwned;

use crate::cli::{MlperfCheckArgs, MlperfCommand, MlperfRulesArgs};
use crate::failure::Failure;
use crate::files;
use crate::printer::Printer;

/// From its arguments to the exit code.
pub fn command(command: &MlperfCommand, printer: &Printer) -> Result<u8> {
    match command {
        MlperfCommand::Check(args) => check(args, printer),
        MlperfCommand::Rules(args) => rules(args, printer),
    }
}

fn check(args: &MlperfCheckArgs, printer: &Printer) -> Result<u8> {
    let evidence = evidence(args).map_err(Failure::request)?;
    let mut all = evidence.layers().map_err(|words| Failure::request(anyhow!(words)))?;
    if !args.layer.eq_ignore_ascii_case("all") {
        all.layers.retain(|layer| layer.id.eq_ignore_ascii_case(&args.layer));
    }
    if args.json {
        printer.data(&serde_json::to_string_pretty(&all)?)?;
    } else {
        tell(&all, printer);
    }
    Ok(match all.layers.iter().map(|layer| layer.status).max() {
        Some(Status::Passed) => exit::HOLDS,
        Some(Status::Failed) => exit::MISSED,
        _ => exit::UNDECIDED,
    })
}

fn evidence(args: &MlperfCheckArgs) -> Result<Evidence> {
    let nested = args.dir.join("performance/run_1");
    let folder = if nested.is_dir() { &nested } else { &args.dir };
    let accuracy = args.dir.join("accuracy");
    let accuracy = accuracy.join(DETAIL).is_file().then(|| logs(&accuracy)).transpose()?;
    let mut declared: Declared = match &args.declared {
        Some(path) => json(path, "what is declared")?,
        None => Declared::default(),
    };
    // A flag says it last.
    let or = |flag: &Option<String>, file: Option<String>| flag.clone().or(file);
    declared.round = or(&args.round, declared.round);
    declared.model = or(&args.benchmark, declared.model);
    declared.scenario = or(&args.scenario, declared.scenario);
    declared.division = args.division.or(declared.division);
    declared.availability = args.availability.or(declared.availability);
    if let Some(path) = &args.system {
        declared.system = Some(json(path, "the description of the system")?);
    }
    let measurements = args.dir.join("measurements.json");
    if declared.measurements.is_none() && measurements.is_file() {
        declared.measurements = Some(json(&measurements, "the measurements")?);
    }
    Ok(Evidence { performance: logs(folder)?, accuracy, declared })
}

const DETAIL: &str = "mlperf_log_detail.txt";

fn logs(folder: &Path) -> Result<Logs> {
    let read = |name: &str| {
        let path = folder.join(name);
        files::check(&path, "a log of LoadGen")?;
        std::fs::read(&path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .with_context(|| format!("cannot read {}", path.display()))
    };
    let detail = read(DETAIL)?;
    let summary = folder.join("mlperf_log_summary.txt").is_file().then(|| read("mlperf_log_summary.txt"));
    let answers = answers(&folder.join("mlperf_log_accuracy.json"))?;
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

fn tell(all: &Layers, printer: &Printer) {
    use present::Tone;
    let word = |status: Status| match status {
        Status::Passed => printer.style.paint(Tone::Pass, "passed"),
        Status::Failed => printer.style.paint(Tone::Fail, "failed"),
        Status::Incomplete => printer.style.paint(Tone::Unsure, "incomplete"),
    };
    for layer in &all.layers {
        printer.say(&format!("{} {}: {}", layer.id, layer.title, word(layer.status)));
        for check in &layer.checks {
            let words = printer.style.plain(&check.words);
            printer.say(&format!("  {}: {}: {words}", check.id, word(check.status)));
            if let Some(hole) = &check.hole {
                printer.say(&format!("    hole of the reference checker: {}", printer.style.plain(hole)));
            }
        }
    }
}

fn rules(args: &MlperfRulesArgs, printer: &Printer) -> Result<u8> {
    let wrong = |words: String| Failure::request(anyhow!(words));
    let round = Round::named(&args.round).map_err(wrong)?;
    let Some(name) = &args.model else {
        let names: Vec<&str> = round.models.iter().map(|model| model.name.as_str()).collect();
        printer.data(&match args.json {
            true => serde_json::to_string_pretty(round)?,
            false => names.join("\n"),
        })?;
        return Ok(exit::HOLDS);
    };
    let model = round.model(name).map_err(wrong)?;
    // The model's numbers with those of the round that they stand in.
    let all = serde_json::json!({
        "round": round.round,
        "source": round.source,
        "seeds": round.seeds,
        "min_duration_ms": round.min_duration_ms,
        "model": model,
    });
    if args.json {
        printer.data(&serde_json::to_string_pretty(&all)?)?;
    } else {
        let mut lines = Vec::new();
        flatten("", &all, &mut lines);
        printer.data(&lines.join("\n"))?;
    }
    Ok(exit::HOLDS)
}

/// `name.of.the.value  value`, a line each.
fn flatten(name: &str, value: &serde_json::Value, lines: &mut Vec<String>) {
    use serde_json::Value;
    let inner = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| flatten(&inner(key), value, lines)),
        // A target is a line: the metric and its number.
        Value::Array(list) if list.iter().all(|one| one["metric"].is_string()) && !list.is_empty() => {
            for target in list {
                flatten(&inner(target["metric"].as_str().unwrap_or_default()), &target["value"], lines);
            }
        }
        Value::Array(list) => {
            let words: Vec<String> =
                list.iter().map(|one| one.as_str().unwrap_or_default().to_owned()).collect();
            lines.push(format!("{name}  {}", words.join(", ")));
        }
        Value::String(text) => lines.push(format!("{name}  {text}")),
        other => lines.push(format!("{name}  {other}")),
    }
}
