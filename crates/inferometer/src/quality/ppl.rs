//! `inferometer quality ppl`: the perplexity of a text.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use decide::verdict::exit;
use quality::Hash;
use quality::divergence::{Bos, Definition, Unit, Window, Windows, perplexity};
use quality::engine::{Client, Lead, Probed};
use serde_json::json;

use super::server::{Http, Site, failure};
use super::work::{Bar, each};
use crate::cli::{PplDefinition, Progress, QualityPplArgs};
use crate::failure::Failure;
use crate::printer::Printer;

/// Tokens of a window where nobody says and the server takes as many: the usual of papers.
const WINDOW: usize = 2048;

/// The windows that flags ask for.
fn windows(args: &QualityPplArgs, size: usize) -> Result<Windows> {
    let stride = args.stride.map_or(size / 2, |n| n as usize);
    if args.stride.is_some() && args.definition != PplDefinition::Strided {
        return Err(Failure::request(anyhow!(
            "--stride belongs to the definition `strided`\nhint: --definition strided --stride {stride}"
        ))
        .into());
    }
    if args.definition == PplDefinition::Strided && !(1..=size).contains(&stride) {
        return Err(Failure::request(anyhow!(
            "a stride of {stride} tokens leaves holes between windows of {size}\nhint: --stride {}",
            (size / 2).max(1)
        ))
        .into());
    }
    Ok(match args.definition {
        PplDefinition::Papers => Windows::Disjoint { size },
        PplDefinition::Llama => Windows::SecondHalf { size },
        PplDefinition::Strided => Windows::Strided { size, stride },
        PplDefinition::LmEval => Windows::Rolling { size },
    })
}

/// A server that scores; one that does not is refused, with the way out.
pub fn scoring(site: &Site, probed: &Probed) -> Result<()> {
    match probed.cannot_score() {
        None => Ok(()),
        Some(why) => Err(Failure::target(anyhow!("{} cannot score: {why}", site.fingerprint().url)).into()),
    }
}

/// A text of the user's.
pub fn text(path: &Path, what: &str) -> Result<String> {
    crate::files::check(path, what)?;
    let bytes = std::fs::read(path)
        .with_context(|| format!("cannot read {what} in {}", path.display()))
        .map_err(Failure::request)?;
    String::from_utf8(bytes)
        .with_context(|| format!("{} is no text in UTF-8", path.display()))
        .map_err(|error| Failure::request(error).into())
}

/// Scores a text in windows.
pub fn command(args: &QualityPplArgs, printer: &Printer, progress: Progress) -> Result<u8> {
    let text = text(&args.text, "the text")?;
    let asked = args.window.map_or(WINDOW, |n| n as usize);
    let plan = windows(args, asked)?;
    if args.server.dry_run {
        let corpus = json!({ "sha256": Hash::of(text.as_bytes()), "bytes": text.len() });
        return super::probe::dry(&args.server, json!({ "windows": plan, "corpus": corpus }), printer);
    }
    let site = Site::open(&args.server, crate::signal::stop_flag()?)?;
    let probed = site.probe(&args.server, 1)?;
    scoring(&site, &probed)?;
    let manner = &probed.manner;
    let server = site.client()?;
    let client = Client::new(&server, manner);
    let mut ids = client.encode(&text).map_err(|fault| match fault.ends_the_run() {
        true => failure(&fault),
        false => Failure::target(anyhow!(
            "a perplexity is of tokens, and this server tells none: {fault}\n\
             hint: vLLM, SGLang and llama-server have /tokenize"
        )),
    })?;
    let tokens = ids.len();
    // Room for the token that the server adds, and for the one before a rolling block.
    let beside = 1 + usize::from(args.definition == PplDefinition::LmEval);
    let room = manner.context.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let room = room.saturating_sub(beside);
    let size = args.window.map_or(WINDOW.min(room), |n| n as usize);
    if size > room {
        return Err(Failure::request(anyhow!(
            "a window of {size} tokens does not fit: with {beside} more, the server takes {}\nhint: --window {room}",
            room + beside
        ))
        .into());
    }
    let plan = windows(args, size)?;
    let rolling = args.definition == PplDefinition::LmEval;
    let bos = if manner.prefix.is_empty() && !rolling { Bos::Never } else { plan.bos() };
    if bos == Bos::Once || bos == Bos::ReplacesFirst {
        ids.splice(0..0, manner.prefix.iter().copied());
    }
    let mut parts = plan.over(ids.len());
    let all = parts.len();
    if all == 0 || (args.definition == PplDefinition::Llama && all < 2) {
        return Err(Failure::request(anyhow!(
            "the text has {tokens} tokens, too few for {}\nhint: a longer text, or a smaller --window",
            plan.name()
        ))
        .into());
    }
    parts.truncate(args.windows.map_or(all, |n| n as usize));
    let lead = match rolling {
        true => client.empty_context().map_err(|fault| Failure::request(anyhow!(fault)))?,
        false => manner.prefix.first().copied().unwrap_or_default(),
    };
    let bar = Bar::new(printer, progress, "windows", parts.len(), 0);
    let mut found: Vec<(Vec<f64>, u64)> = vec![Default::default(); parts.len()];
    let job = |server: &Http, window: &Window| {
        let client = Client::new(server, manner);
        let rows = client.window(&ids, *window, Lead::of(bos, *window, lead), 1)?;
        // What was scored, in bytes: a token's length is not known otherwise.
        let scored = ids.get(window.scored..window.to).unwrap_or_default();
        Ok((rows.into_iter().map(|row| row.logprob).collect(), client.decode(scored)?.len() as u64))
    };
    let done = each(&site, &parts, usize::from(args.concurrency), &bar, job, |place, window| {
        found[place] = window;
        Ok(())
    });
    bar.end();
    // A window that cannot be scored leaves a hole that no number may hide.
    done?;
    // In the order of the text, so that the sum does not depend on who answered first.
    let logprobs: Vec<f64> = found.iter().flat_map(|(logprobs, _)| logprobs).copied().collect();
    let whole = rolling && parts.len() == all;
    let definition = Definition {
        windows: plan,
        bos,
        corpus: Hash::of(text.as_bytes()),
        tokens: tokens as u64,
        bytes: Some(if whole { text.len() as u64 } else { found.iter().map(|(_, bytes)| bytes).sum() }),
        words: whole.then(|| quality::python::split_runs(&text).count() as u64),
    };
    let Some(value) = perplexity(&logprobs, definition) else {
        return Err(Failure::target(anyhow!("a log-probability of the text is no number")).into());
    };
    if args.server.json {
        let report = json!({
            "perplexity": value, "per_word": value.by(Unit::Word), "per_byte": value.by(Unit::Byte),
            "windows": parts.len(), "of_windows": all, "mode": manner.mode, "prefix": manner.prefix,
            "server": site.fingerprint(), "retried": site.retried(),
        });
        printer.data(&serde_json::to_string_pretty(&report)?)?;
    }
    let error = value.se.map_or_else(String::new, |error| format!(" ± {error:.4}"));
    let bits = value.bits_per_byte.map_or_else(String::new, |bits| format!(", {bits:.4} bits a byte"));
    printer.say(&format!("perplexity {:.4}{error} a token{bits}", value.value));
    if let (Some(word), Some(byte)) = (value.by(Unit::Word).filter(|_| whole), value.by(Unit::Byte)) {
        printer.say(&format!("{word:.4} a word, {byte:.4} a byte"));
    }
    let place = match bos {
        Bos::Never => "no BOS",
        Bos::Once => "BOS once, before the text",
        Bos::ReplacesFirst => "BOS in place of each window's first token",
        Bos::FirstWindow => "BOS (or EOS) before the first block",
    };
    let name = value.definition.windows.name();
    printer.say(&printer.style.plain(&format!(
        "{name}; {place}; {} tokens scored in {} of {all} windows, by {}",
        value.scored,
        parts.len(),
        manner.mode.words()
    )));
    Ok(exit::HOLDS)
}
