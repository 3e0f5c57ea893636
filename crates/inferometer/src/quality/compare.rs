//! `inferometer quality compare`: two folders of answers, and whether the new server is still the same model.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use quality::Item;
use quality::gate::{self, Rule, Settings};
use quality::task::files;

use super::{journal, kl, run};
use crate::cli::QualityCompareArgs;
use crate::failure::Failure;
use crate::printer::Printer;

/// PASS, FAIL or INCONCLUSIVE.
pub fn command(args: &QualityCompareArgs, printer: &Printer) -> Result<u8> {
    let mut folders = vec![&args.base, &args.new];
    folders.extend(&args.again);
    let rows = folders.iter().filter(|folder| folder.join(kl::FILE).is_file()).count();
    // Distributions that one side lacks are not answers that it owes.
    let with_rows = rows == folders.len();
    if rows > 0 && !with_rows {
        printer.warn("not every folder holds distributions over tokens: divergence is left out");
    }
    let (base, new) = (items(&args.base, with_rows)?, items(&args.new, with_rows)?);
    let again = args.again.as_ref().map(|folder| items(folder, with_rows)).transpose()?;
    let settings = Settings {
        ratio: args.ratio,
        kl_limit: args.kl_limit,
        rule: if args.bare_ratio { Rule::BareRatio } else { Rule::NonInferiority },
        only_paired: args.only_paired,
        ..Settings::default()
    };
    let noise = again.as_deref().map(|again| (base.as_slice(), again));
    let report = gate::compare(&base, &new, noise, &settings).map_err(Failure::request)?;
    for words in asked_otherwise(&args.base, &args.new)? {
        printer.warn(&words);
    }
    if args.json {
        printer.data(&serde_json::to_string_pretty(&report)?)?;
    }
    printer.say(&present::terminal::quality(&printer.style, &report));
    if let Some(path) = &args.html {
        let (base, new) = (args.base.display().to_string(), args.new.display().to_string());
        let command = format!("inferometer quality compare {base} {new}");
        let of = present::html::Compared {
            base: &base,
            new: &new,
            command: &command,
            version: env!("CARGO_PKG_VERSION"),
        };
        std::fs::write(path, present::html::quality(&report, &of))
            .with_context(|| format!("cannot write {}", path.display()))
            .map_err(Failure::request)?;
    }
    Ok(report.exit_code)
}

/// What the two were asked with that is not the same.
fn asked_otherwise(base: &Path, new: &Path) -> Result<Vec<String>> {
    if !(base.join(run::FILE).is_file() && new.join(run::FILE).is_file()) {
        return Ok(Vec::new());
    }
    let (base, new) = (run::kept(base)?.header, run::kept(new)?.header);
    let (base, new) = (serde_json::to_value(base)?, serde_json::to_value(new)?);
    let differ =
        ["max_tokens", "extra", "prefix", "mode"].into_iter().filter(|name| base[*name] != new[*name]);
    Ok(differ
        .map(|name| format!("{name} was {} for the measure and {} for the new one", base[name], new[name]))
        .collect())
}

/// The answers in a folder of ours, in one of lm-evaluation-harness, or in one of its sample files.
fn items(path: &Path, with_rows: bool) -> Result<Vec<Item>> {
    let ours = path.join(run::FILE);
    let mut all = Vec::new();
    if ours.is_file() {
        let kept = run::kept(path)?;
        if !kept.complete {
            return Err(Failure::request(anyhow!(
                "{} is not complete: {} answers are there\nhint: repeat the command that began it, it goes on",
                path.display(),
                kept.entries.len()
            ))
            .into());
        }
        all.extend(kept.entries);
    } else if path.is_file() {
        all.extend(imported(path)?);
    } else if path.is_dir() {
        for file in samples(path)? {
            all.extend(imported(&file)?);
        }
    }
    if with_rows {
        let rows = path.join(kl::FILE);
        all.extend(journal::read::<serde_json::Value, Item>(&rows)?.entries);
    }
    if all.is_empty() {
        return Err(Failure::request(anyhow!(
            "{} holds no answers\nhint: inferometer quality run URL --out {}",
            path.display(),
            path.display()
        ))
        .into());
    }
    Ok(all)
}

fn samples(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))
        .map_err(Failure::request)?;
    let mut all: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "jsonl"))
        .filter(|path| files::task_of(&path.display().to_string()).is_some())
        .collect();
    all.sort();
    Ok(all)
}

fn imported(path: &Path) -> Result<Vec<Item>> {
    let name = path.display().to_string();
    let Some(task) = files::task_of(&name) else {
        return Err(Failure::request(anyhow!(
            "{name} is no sample file of lm-evaluation-harness: those are named samples_TASK_TIME.jsonl\n\
             hint: name a folder that `inferometer quality run --out` has made"
        ))
        .into());
    };
    let text = super::ppl::text(path, "samples")?;
    files::import(task, &text).map_err(|error| Failure::request(anyhow!("{error}")).into())
}
