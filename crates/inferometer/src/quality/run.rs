//! `inferometer quality run`: a suite is asked, every answer kept.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, anyhow};
use quality::engine::{Client, Mode, Probed, State};
use quality::task::files;
use quality::{Answer, Hash, Item};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::journal::{self, Journal, Kept};
use super::report::Report;
use super::server::{Fingerprint, Http, Site};
use super::suite::{self, Needs, Suite, Tasks, Unit};
use super::work::{Bar, each};
use crate::cli::{Progress, QualityQuestionArgs, QualityRunArgs};
use crate::failure::Failure;
use crate::printer::Printer;

/// In the folder of the answers.
pub const FILE: &str = "journal.jsonl";
/// Of the shape of journal and report.
pub const VERSION: u32 = 1;

/// What was asked, of whom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Of this shape.
    pub schema_version: u32,
    /// Version of inferometer.
    pub tool: String,
    /// As the user named it.
    pub suite: String,
    /// Of all that is asked.
    pub questions: Hash,
    /// How they are made.
    pub asked: QualityQuestionArgs,
    /// Who answers.
    pub server: Fingerprint,
    /// How log-probabilities are got.
    pub mode: Mode,
    /// What stands before every scored text.
    pub prefix: Vec<u32>,
    /// Most tokens of an answer where the task sets no limit.
    pub max_tokens: u32,
    /// Fields added to requests that generate; values that sound secret are left out.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// Asks what is not there yet.
pub fn command(args: &QualityRunArgs, printer: &Printer, progress: Progress) -> Result<u8> {
    let questions = &args.questions;
    let named = suite::named(questions);
    let of_files = named.is_none().then(|| Suite::of_files(questions)).transpose()?;
    if args.server.dry_run {
        let asked = match (&of_files, named) {
            (Some(suite), _) => {
                json!({ "suite": suite.name, "documents": suite.units(questions.limit).len() })
            }
            (None, named) => json!({ "suite": named }),
        };
        return super::probe::dry(&args.server, asked, printer);
    }
    let wall = clock::wall_now_ns();
    let clock = clock::Clock::start();
    let site = Site::open(&args.server, crate::signal::stop_flag()?)?;
    let probed = site.probe(&args.server, args.max_tokens)?;
    let asking = Asking::prepare(questions, of_files, site, probed)?;
    for note in &asking.suite.notes {
        printer.warn(note);
    }
    let header = asking.header(questions, args.max_tokens);
    let (header, items) =
        asking.answers(&args.out, header, usize::from(args.concurrency), printer, progress)?;
    let seconds = clock.now().as_secs_f64();
    let report = Report::new(&asking.suite, &header, &items, asking.site.retried());
    harness_files(args, &asking.suite, &items, &asking.site, (wall, seconds))?;
    if args.server.json {
        printer.data(&serde_json::to_string_pretty(&report)?)?;
    }
    report.tell(printer);
    printer.say(&format!(
        "\n{}     compare:  inferometer quality compare {} NEW",
        args.out.display(),
        args.out.display()
    ));
    Ok(report.exit_code)
}

/// Questions, and a server that can answer them.
pub struct Asking {
    /// The server.
    pub site: Site,
    /// What can be asked of it.
    pub probed: Probed,
    /// The suite, made for it.
    pub suite: Suite,
    /// Its questions.
    pub units: Vec<Unit>,
}

impl Asking {
    /// Makes the questions; `of_files`: where they are read already. A server that cannot answer them is refused.
    pub fn prepare(
        questions: &QualityQuestionArgs,
        of_files: Option<Suite>,
        site: Site,
        probed: Probed,
    ) -> Result<Self> {
        let suite = match (of_files, suite::named(questions)) {
            (Some(suite), _) => suite,
            (None, Some(named)) => Suite::builtin(named, questions, &site, &probed)?,
            (None, None) => Suite::of_files(questions)?,
        };
        let units = suite.units(questions.limit);
        can_answer(&site, &probed, &suite, &units)?;
        Ok(Self { site, probed, suite, units })
    }

    /// What stands above its answers.
    pub fn header(&self, questions: &QualityQuestionArgs, max_tokens: u32) -> Header {
        header(questions, max_tokens, &self.site, &self.probed, &self.suite, &self.units)
    }

    /// Asks what is not there yet, so many at a time, and gives all answers with what stands above them.
    pub fn answers(
        &self,
        out: &Path,
        header: Header,
        concurrency: usize,
        printer: &Printer,
        progress: Progress,
    ) -> Result<(Header, Vec<Item>)> {
        let Self { site, probed, suite, units } = self;
        let (mut journal, kept) = Journal::open(&out.join(FILE), header, |old, new| same(old, new, out))?;
        let mut items: BTreeMap<(String, u64), Item> =
            kept.entries.into_iter().map(|item: Item| ((item.task.clone(), item.doc), item)).collect();
        let open: Vec<&Unit> =
            units.iter().filter(|unit| !items.contains_key(&(unit.name.clone(), unit.doc))).collect();
        if open.len() < units.len() {
            printer.say(&format!(
                "{} of {} documents are there already",
                units.len() - open.len(),
                units.len()
            ));
        }
        let bar = Bar::new(printer, progress, "documents", units.len(), units.len() - open.len());
        let manner = &probed.manner;
        let job = |server: &Http, unit: &&Unit| {
            let client = Client::new(server, manner);
            unit.asks.iter().map(|ask| client.answer(ask)).collect::<Result<Vec<Answer>, _>>()
        };
        let done = each(site, &open, concurrency, &bar, job, |place, answers| {
            let Some(unit) = open.get(place) else { return Ok(()) };
            let item = suite.judge(unit, answers)?;
            journal.add(&item)?;
            items.insert((unit.name.clone(), unit.doc), item);
            Ok(())
        });
        bar.end();
        done.map_err(|error| match error.downcast::<Failure>() {
            Ok(failure) => {
                let kept = format!(
                    "{} of {} documents are kept in {}; the same command goes on with them",
                    items.len(),
                    units.len(),
                    out.display()
                );
                failure.hint(&kept).into()
            }
            Err(error) => error,
        })?;
        let items: Vec<Item> =
            units.iter().filter_map(|unit| items.remove(&(unit.name.clone(), unit.doc))).collect();
        journal.finish(&kept.header, &items)?;
        Ok((kept.header, items))
    }
}

/// The answers in a folder.
pub fn kept(folder: &Path) -> Result<Kept<Header, Item>> {
    journal::read(&folder.join(FILE))
}

fn can_answer(site: &Site, probed: &Probed, suite: &Suite, units: &[Unit]) -> Result<()> {
    let needs = Needs::of(units.iter().flat_map(|unit| &unit.asks));
    let url = site.fingerprint().url;
    if needs.scores
        && let Some(why) = probed.cannot_score()
    {
        let (mut scored, mut written) = (BTreeSet::new(), BTreeSet::new());
        for unit in units {
            let set = if Needs::of(&unit.asks).scores { &mut scored } else { &mut written };
            set.insert(unit.name.as_str());
        }
        let names = |set: &BTreeSet<&str>| set.iter().copied().collect::<Vec<_>>().join(",");
        let rest = match written.is_empty() {
            true => String::new(),
            false => format!(
                "\nhint: the tasks that it can answer: --suite {} --tasks {}",
                suite.name,
                names(&written)
            ),
        };
        return Err(Failure::target(anyhow!("{url} cannot answer {}: {why}{rest}", names(&scored))).into());
    }
    for (needed, id, path, hint) in [
        (needs.completions, "completions", "/v1/completions", "--chat lays prompts out as turns"),
        (needs.chat, "chat", "/v1/chat/completions", "without --chat prompts are plain text"),
    ] {
        if needed && probed.state(id) != State::Yes {
            let seen = probed.findings.iter().find(|f| f.id == id).map_or("", |f| f.words.as_str());
            return Err(Failure::target(anyhow!("{url} has no working {path}: {seen}\nhint: {hint}")).into());
        }
    }
    Ok(())
}

fn header(
    questions: &QualityQuestionArgs,
    max_tokens: u32,
    site: &Site,
    probed: &Probed,
    suite: &Suite,
    units: &[Unit],
) -> Header {
    Header {
        schema_version: VERSION,
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        suite: suite.name.clone(),
        questions: suite::hash(units),
        asked: questions.clone(),
        server: site.fingerprint(),
        mode: probed.manner.mode,
        prefix: probed.manner.prefix.clone(),
        max_tokens,
        extra: site.spec.redacted().api.extra_body,
    }
}

/// Whether answers may be added to those that are there.
fn same(old: &Header, new: &Header, folder: &Path) -> Result<()> {
    let (old_json, new_json) = (serde_json::to_value(old)?, serde_json::to_value(new)?);
    let mut differ: Vec<String> = Vec::new();
    for (name, value) in old_json.as_object().into_iter().flatten() {
        if *value != new_json[name] {
            differ.push(format!("{name}: {value} there, {} now", new_json[name]));
        }
    }
    if differ.is_empty() {
        return Ok(());
    }
    Err(Failure::request(anyhow!(
        "{} holds other answers than these would be ({})\nhint: name another folder by --out, or repeat the command that began it",
        folder.display(),
        differ.join("; ")
    ))
    .into())
}

/// Result and sample files in the form of lm-evaluation-harness, beside the journal.
fn harness_files(
    args: &QualityRunArgs,
    suite: &Suite,
    items: &[Item],
    site: &Site,
    (wall_ns, seconds): (i64, f64),
) -> Result<()> {
    let Tasks::Harness(suite) = &suite.tasks else { return Ok(()) };
    let model = site.session.model.clone();
    let about = files::About {
        producer: format!("inferometer {}", env!("CARGO_PKG_VERSION")),
        source: if args.questions.chat { "local-chat-completions" } else { "local-completions" }.to_owned(),
        model: model.clone(),
        config: serde_json::Map::from_iter([("limit".to_owned(), json!(args.questions.limit))]),
        date: wall_ns as f64 / 1e9,
        seconds,
        system_instruction: None,
        multiturn: args.questions.chat,
    };
    let own: Vec<Vec<Item>> = suite
        .tasks
        .iter()
        .map(|task| items.iter().filter(|item| item.task == task.config().name).cloned().collect())
        .collect();
    let judged: Vec<files::Judged<'_>> = suite
        .tasks
        .iter()
        .zip(&own)
        .map(|(task, own)| files::Judged {
            task,
            results: task.results(items, &suite.options, REPLICATES),
            items: own,
        })
        .collect();
    let results: Vec<_> = judged.iter().map(|one| one.results.clone()).collect();
    let groups: Vec<_> = suite.groups.iter().map(|group| (group, group.results(&results))).collect();
    let folder = args.out.join("lm-eval").join(files::sanitized_model(&model));
    let write = |name: String, text: String| {
        let path = folder.join(name);
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|source| Failure::request(record::RecordError::Io { action: "write", path, source }))
    };
    // Names without a time: a run that goes on writes them again.
    write(
        "results.json".to_owned(),
        serde_json::to_string_pretty(&files::results(&about, &judged, &groups))?,
    )?;
    for (task, asked) in suite.tasks.iter().zip(&suite.asked) {
        let text =
            files::samples(task, asked, items).map_err(|error| Failure::request(anyhow!("{error}")))?;
        write(files::samples_name(&task.config().name, "run"), text)?;
    }
    Ok(())
}

/// Bootstrap samples for standard errors that need them.
const REPLICATES: u32 = 1000;
