//! `inferometer mlperf`: runs, files and screen of crate `mlperf`.

mod answer;
mod check;
mod data;
mod endpoints;
mod heard;
mod instrument;
mod logs;
mod pass;
mod run;
mod settings;

use anyhow::{Result, anyhow};
use decide::verdict::exit;
use mlperf::Round;

use crate::cli::{MlperfCommand, MlperfRulesArgs, Progress};
use crate::failure::Failure;
use crate::printer::Printer;

/// From its arguments to the exit code.
pub fn command(command: &MlperfCommand, printer: &Printer, progress: Progress) -> Result<u8> {
    match command {
        MlperfCommand::Run(args) => run::command(args, None, printer, progress),
        MlperfCommand::FindPeak(args) => {
            let search = run::Search { decimals: args.decimals, step: args.step };
            run::command(&args.run, Some(search), printer, progress)
        }
        MlperfCommand::Check(args) => check::command(args, printer),
        MlperfCommand::Rules(args) => rules(args, printer),
        MlperfCommand::Endpoints(args) => endpoints::command(args, printer),
    }
}

/// A wrong request, in the words of crate `mlperf`.
fn wrong(words: impl std::fmt::Display) -> anyhow::Error {
    Failure::request(anyhow!("{words}")).into()
}

fn rules(args: &MlperfRulesArgs, printer: &Printer) -> Result<u8> {
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
