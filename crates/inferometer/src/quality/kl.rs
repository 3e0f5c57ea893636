//! `inferometer quality kl`: how far a server's distributions over the next token are from a baseline's, on the same
//! tokens.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use decide::verdict::exit;
use quality::builtin::TEXT;
use quality::divergence::{Divergence, Position, TopK, divergence, positions, put_positions};
use quality::engine::{Client, Fault, Mode, Row};
use quality::{Answer, Ask, Generate, Hash, Item, Outcome, Prompt, Scored};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::journal::{self, Journal, Kept};
use super::ppl::scoring;
use super::server::{Fingerprint, Http, Site, failure};
use super::work::{Bar, each};
use crate::cli::{Progress, QualityKlArgs};
use crate::failure::Failure;
use crate::printer::Printer;

/// In a folder of answers.
pub const FILE: &str = "divergence.jsonl";
/// Bytes of the bundled text that are used at most.
const OPENING: usize = 32_768;
/// Tokens of a passage: so much is before the last of them.
const PASSAGE: usize = 256;
/// Characters of the text that the server goes on from, and tokens that it writes.
const BEGINNING: usize = 160;
const ANSWER: u32 = 64;
const VERSION: u32 = 1;

/// What was recorded, of whom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Header {
    schema_version: u32,
    tool: String,
    server: Fingerprint,
    mode: Mode,
    /// Likeliest tokens kept of each position.
    top: u32,
    /// Of the token ids of the bundled text: another tokenizer has another.
    cut: Hash,
}

/// Tokens to score, those from `from` on; what is before is their context.
struct Passage {
    task: &'static str,
    doc: u64,
    text: String,
    ids: Vec<u32>,
    from: usize,
}

/// Records, compares, or both.
pub fn command(args: &QualityKlArgs, printer: &Printer, progress: Progress) -> Result<u8> {
    let base = args.base.as_ref().map(|folder| recorded(folder)).transpose()?;
    if let Some(folder) = args.out.as_ref().filter(|folder| folder.join(FILE).exists()) {
        return Err(Failure::request(anyhow!(
            "{} holds a recording already\nhint: compare with it by --base {}, or name another folder by --out",
            folder.display(),
            folder.display()
        ))
        .into());
    }
    if args.server.dry_run {
        let asked = json!({ "tokens": args.tokens, "top": args.top, "base": args.base, "out": args.out });
        return super::probe::dry(&args.server, asked, printer);
    }
    let site = Site::open(&args.server, crate::signal::stop_flag()?)?;
    let probed = site.probe(&args.server, ANSWER)?;
    scoring(&site, &probed)?;
    let manner = &probed.manner;
    let server = site.client()?;
    let client = Client::new(&server, manner);
    let told = |fault: Fault| match fault.ends_the_run() {
        true => failure(&fault),
        false => Failure::target(anyhow!(
            "a divergence needs token ids from the server: {fault}\nhint: vLLM, SGLang and llama-server give them"
        )),
    };
    // The first chapter does: the whole text takes a tokenizer a while.
    let opening = TEXT.get(..OPENING).unwrap_or(TEXT);
    let text = client.encode(opening).map_err(told)?;
    let cut = Hash::of(json!(text).to_string().as_bytes());
    let (passages, top) = match &base {
        None => (passages(&client, &text, args.tokens as usize, &manner.prefix).map_err(told)?, args.top),
        Some(base) if base.header.cut != cut => {
            return Err(Failure::request(anyhow!(
                "this server cuts text into other tokens than {} did: a divergence is between distributions over one \
                 vocabulary\nhint: perplexities compare in bits a byte: inferometer quality ppl",
                base.header.server.model
            ))
            .into());
        }
        Some(base) => (again(&base.entries)?, base.header.top),
    };
    let bar = Bar::new(printer, progress, "passages", passages.len(), 0);
    let mut items: Vec<Option<Item>> = vec![None; passages.len()];
    let job = |server: &Http, passage: &Passage| {
        let rows = Client::new(server, manner).rows(&passage.ids, passage.from, top)?;
        item(passage, &rows).map_err(Fault::Unusable)
    };
    let done = each(&site, &passages, usize::from(args.concurrency), &bar, job, |place, item| {
        items[place] = Some(item);
        Ok(())
    });
    bar.end();
    done?;
    let items: Vec<Item> = items.into_iter().flatten().collect();
    if let Some(folder) = &args.out {
        let header = Header {
            schema_version: VERSION,
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            server: site.fingerprint(),
            mode: manner.mode,
            top,
            cut,
        };
        let (journal, kept) = Journal::open::<Header, Item>(&folder.join(FILE), header, |_, _| Ok(()))?;
        journal.finish(&kept.header, &items)?;
        printer.say(&format!("{} positions recorded in {}", count(&items), folder.join(FILE).display()));
    }
    match base {
        Some(base) => compare(args, &site, &base, &items, printer),
        None => Ok(exit::HOLDS),
    }
}

fn recorded(folder: &Path) -> Result<Kept<Header, Item>> {
    let path: PathBuf = folder.join(FILE);
    if !path.exists() {
        return Err(Failure::request(anyhow!(
            "{} holds no recording of the baseline's distributions\n\
             hint: inferometer quality kl BASELINE --out {} makes one",
            folder.display(),
            folder.display()
        ))
        .into());
    }
    journal::read(&path)
}

/// Half of the tokens are those of the bundled text, the others what the server writes by itself.
fn passages(client: &Client<'_>, text: &[u32], tokens: usize, prefix: &[u32]) -> Result<Vec<Passage>, Fault> {
    let mut all: Vec<Passage> = Vec::new();
    let mut left = tokens.div_ceil(2);
    for part in text.chunks(PASSAGE) {
        let part = &part[..part.len().min(left + 1)];
        if part.len() < 2 || left == 0 {
            break;
        }
        left -= part.len() - 1;
        let ids = prefix.iter().chain(part).copied().collect();
        let text = client.decode(part)?;
        all.push(Passage { task: "divergence_text", doc: all.len() as u64, text, ids, from: 1 });
    }
    let (mut left, mut doc) = (tokens / 2, 0);
    // From its end, where the model does not meet the passages above.
    let mut rest = TEXT.get(OPENING..).unwrap_or(TEXT);
    while left > 0 && !rest.is_empty() {
        let at = rest.char_indices().nth(BEGINNING).map_or(rest.len(), |(at, _)| at);
        let (beginning, after) = rest.split_at(at);
        rest = after;
        let ask = Generate::greedy(Prompt::Text(beginning.to_owned()), ANSWER);
        let answer = client.generate(&ask)?.text;
        if answer.is_empty() {
            continue;
        }
        let text = format!("{beginning}{answer}");
        let mut ids: Vec<u32> = prefix.iter().copied().chain(client.encode(&text)?).collect();
        // What was given is context. At the seam a token may reach into the answer: it is the answer's.
        let given = client.encode(beginning)?;
        let same = ids.iter().skip(prefix.len()).zip(&given).take_while(|(a, b)| a == b).count();
        let from = (prefix.len() + same).max(1);
        ids.truncate(from + left);
        if ids.len() <= from {
            continue;
        }
        left -= ids.len() - from;
        all.push(Passage { task: "divergence_answers", doc, text, ids, from });
        doc += 1;
    }
    Ok(all)
}

/// The passages of a recording.
fn again(items: &[Item]) -> Result<Vec<Passage>> {
    let one = |item: &Item| {
        let ids = item.outcomes.values().find_map(|outcome| outcome.parts.get(IDS))?;
        let ids = Vec::<u32>::deserialize(ids).ok()?;
        let from =
            ids.len().checked_sub(positions(item)?.len()).filter(|from| (1..ids.len()).contains(from))?;
        let task = if item.task == "divergence_text" { "divergence_text" } else { "divergence_answers" };
        let text = match item.asks.first() {
            Some(Ask::Rolling { text }) => text.clone(),
            _ => String::new(),
        };
        Some(Passage { task, doc: item.doc, text, ids, from })
    };
    let all: Option<Vec<Passage>> = items.iter().map(one).collect();
    all.ok_or_else(|| {
        Failure::request(anyhow!("an entry of the recording holds no tokens: record it again")).into()
    })
}

/// Where an item keeps the tokens that were sent.
const IDS: &str = "ids";

fn item(passage: &Passage, rows: &[Row]) -> Result<Item, String> {
    if rows.iter().any(|row| row.top.is_empty()) {
        return Err("the server names no likeliest tokens by their ids, so distributions cannot be compared"
            .to_owned());
    }
    let scored: Vec<Position> = rows
        .iter()
        .zip(passage.ids.iter().skip(passage.from))
        .map(|(row, target)| Position {
            target: *target,
            logprob: row.logprob,
            top: TopK::new(row.top.clone()),
        })
        .collect();
    let mut outcome = Outcome::default();
    put_positions(&mut outcome.parts, &scored);
    outcome.parts.insert(IDS.to_owned(), json!(passage.ids));
    let hash = Hash::of(json!(passage.ids).to_string().as_bytes());
    Ok(Item {
        task: passage.task.to_owned(),
        doc: passage.doc,
        repeat: 0,
        doc_hash: hash.clone(),
        prompt_hash: hash.clone(),
        target_hash: hash,
        category: None,
        asks: vec![Ask::Rolling { text: passage.text.clone() }],
        answers: vec![Answer::Scored(Scored {
            logprob: rows.iter().map(|row| row.logprob).sum(),
            greedy: rows.iter().map(|row| row.greedy).try_fold(true, |all, one| Some(all && one?)),
            tokens: rows.len() as u64,
        })],
        outcomes: BTreeMap::from([("none".to_owned(), outcome)]),
    })
}

fn count(items: &[Item]) -> usize {
    items.iter().filter_map(positions).map(|all| all.len()).sum()
}

fn between(base: &[Item], new: &[Item], task: Option<&str>) -> Option<Divergence> {
    let of = |items: &[Item]| -> Vec<Position> {
        let own = items.iter().filter(|item| task.is_none_or(|task| item.task == task));
        own.filter_map(positions).flatten().collect()
    };
    let (base, new) = (of(base), of(new));
    divergence(base.iter().zip(&new))
}

fn compare(
    args: &QualityKlArgs,
    site: &Site,
    base: &Kept<Header, Item>,
    items: &[Item],
    printer: &Printer,
) -> Result<u8> {
    // What was written down is rounded; both sides are read the same way.
    let items: Vec<Item> = serde_json::from_value(serde_json::to_value(items)?)?;
    let parts: Vec<(&str, Option<Divergence>)> = vec![
        ("all", between(&base.entries, &items, None)),
        ("bundled text", between(&base.entries, &items, Some("divergence_text"))),
        ("the baseline's own answers", between(&base.entries, &items, Some("divergence_answers"))),
    ];
    if args.server.json {
        let named: serde_json::Map<String, Value> = parts
            .iter()
            .map(|(name, value)| ((*name).replace(' ', "_").replace('\'', ""), json!(value)))
            .collect();
        let report = json!({
            "divergence": named, "top": base.header.top, "base": base.header.server, "new": site.fingerprint(),
            "retried": site.retried(),
        });
        printer.data(&serde_json::to_string_pretty(&report)?)?;
    }
    let mut told = false;
    for (name, found) in &parts {
        let Some(found) = found else { continue };
        told = true;
        let kl = found.kl.as_ref().map_or_else(
            || "divergence not known".to_owned(),
            |kl| {
                let error = kl.mean_se.map_or_else(String::new, |se| format!(" ± {se:.6}"));
                format!("KL {:.6}{error} nats a token (p99 {:.4}, most {:.4})", kl.mean, kl.p99, kl.max)
            },
        );
        let same = found
            .same_top
            .map_or_else(String::new, |same| format!(", same likeliest token {:.2} %", same.share * 100.0));
        printer.say(&format!("{name}, {} positions: {kl}{same}", found.positions));
        let (shift, ratio) = (found.delta, found.perplexity);
        printer.say(&format!(
            "  probability of the text's token: {:+.3} % on average, {:.3} % root mean square; perplexity {:.4} to {:.4}",
            shift.mean * 100.0,
            shift.rms * 100.0,
            ratio.base,
            ratio.new
        ));
    }
    if !told {
        return Err(Failure::request(anyhow!("the recording holds no positions: record it again")).into());
    }
    printer.say(&format!(
        "KL over the {} likeliest tokens of each side and all others as one: a lower bound",
        base.header.top
    ));
    Ok(exit::HOLDS)
}
