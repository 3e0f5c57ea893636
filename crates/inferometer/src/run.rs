//! One measurement, from a spec to its records: engine, session, plan, prompts, lanes, journal.

mod course;
mod endpoint;
mod journal;
mod progress;
mod prompts;
mod view;
mod watch;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

use anyhow::{Context, Result};
use corpus::{Corpus, Tokenizer};
use plan::{Lists, Plan};
use record::{Environment, Request, Run, RunFolder, Scrubber, SelfCheck};
use spec::{KeySource, Lengths, Load, Nanos, Source, Spec, Target, TokenizerChoice};
use wire::{Drive, EndpointError, Live, Secret, Session, SessionError};

use crate::cli::{IfBusy, Progress};
use crate::embedded::Embedded;
use crate::failure::Failure;
use crate::printer::Printer;
use endpoint::Claim;
use watch::Watch;

pub use prompts::{RowLengths, Scripted};

/// A measurement that was made.
pub struct Measured {
    /// Where it lies.
    pub folder: RunFolder,
    /// What was recorded, as read back from the journal: the report is made from nothing else.
    pub run: Run,
}

/// The plan of a spec that can be run, as far as that shows without its server: engine, files, plan.
pub fn check(spec: &Spec) -> Result<Plan> {
    if let Target::Sim(target) = spec.target.first() {
        sim::SimConfig::from_target(target).map_err(Failure::request)?;
    }
    for (path, what) in named_files(spec) {
        crate::files::check(path, what)?;
    }
    Plan::with_lists(spec, lists(spec)?).map_err(|error| Failure::request(error).into())
}

/// Every file that a spec names, with what is expected in it.
fn named_files(spec: &Spec) -> Vec<(&Path, &'static str)> {
    let mut files: Vec<(&Path, &'static str)> = Vec::new();
    if let Source::Jsonl(path) | Source::Sharegpt(path) = &spec.workload.source {
        files.push((path, "the prompts"));
    }
    for lengths in [&spec.workload.isl, &spec.workload.osl] {
        if let Lengths::File(path) = lengths {
            files.push((path, "the lengths"));
        }
    }
    if let TokenizerChoice::File(path) = &spec.workload.tokenizer {
        files.push((path, "the tokenizer"));
    }
    if let Some(KeySource::File(path)) = &spec.api.key {
        files.push((path, "the API key"));
    }
    if let Some(path) = &spec.api.tls.cacert {
        files.push((path, "the TLS roots"));
    }
    files
}

/// What a run is told beside its spec.
#[derive(Clone)]
pub struct Around {
    /// Set it to end the run early.
    pub stop: Arc<AtomicBool>,
    /// What is known of this machine.
    pub self_check: Option<SelfCheck>,
    /// Which self-check that is, or why there is none.
    pub floor: String,
    /// Is told of the run while it goes on.
    pub heard: Option<Sender<Heard>>,
    /// What its folder is called; `None`: by time, model and load.
    pub name: Option<String>,
    /// Moments and rows that somebody else has drawn, in place of the plan's own.
    pub script: Option<Scripted>,
}

/// What is heard of a run while it goes on.
pub enum Heard {
    /// It has begun, at this moment of `CLOCK_MONOTONIC`.
    Began {
        /// In nanoseconds.
        monotonic_origin_ns: u64,
    },
    /// A request has ended.
    Row(Box<Request>),
}

impl Around {
    /// With signals handled and what is known of this machine looked up: once for each program.
    pub fn this_program(printer: &Printer) -> Result<Self> {
        let stop = crate::signal::stop_flag()?;
        let known = crate::self_check::state::known(printer);
        Ok(Self { stop, self_check: known.check, floor: known.source, heard: None, name: None, script: None })
    }
}

/// Where runs are made: the endpoint, kept for whoever holds this, and the engine of a simulated
/// target.
pub struct Site {
    claim: Claim,
    engine: Option<Embedded>,
}

impl Site {
    /// Takes the endpoint of a spec, and starts the engine of a simulated one; `truth` is where that
    /// writes its log.
    pub fn take(
        spec: &Spec,
        busy: IfBusy,
        truth: Option<&Path>,
        printer: &Printer,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let claim = Claim::take(spec, busy, printer, stop)?;
        let engine = match spec.target.first() {
            Target::Sim(target) => Some(Embedded::start(target, truth)?),
            Target::Http(_) => None,
        };
        Ok(Self { claim, engine })
    }

    /// Gets to know the server of a spec.
    pub fn session(&self, spec: &Spec, stop: &Arc<AtomicBool>) -> Result<Session> {
        let key = key(spec)?.map(Secret::new);
        let address = self.engine.as_ref().map(Embedded::url);
        Session::open_until(spec, address, key, stop).map_err(|error| session_failure(error).into())
    }

    /// Lets an engine end by itself, so that its log is whole.
    pub fn end(self) {
        if let Some(engine) = self.engine {
            engine.end();
        }
    }
}

/// Measures one load point.
pub fn measure(
    spec: Spec,
    runs: &Path,
    busy: IfBusy,
    printer: &Printer,
    progress: Progress,
) -> Result<Measured> {
    let around = Around::this_program(printer)?;
    measure_within(spec, runs, (busy, None), printer, progress, around)
}

/// The same, within what somebody else knows and decides: what to do when another run is at the same
/// endpoint, and where an engine of the run's own writes its log of the truth.
pub fn measure_within(
    spec: Spec,
    runs: &Path,
    (busy, truth): (IfBusy, Option<&Path>),
    printer: &Printer,
    progress: Progress,
    around: Around,
) -> Result<Measured> {
    prepare(&spec, runs)?;
    let mut site = Site::take(&spec, busy, truth, printer, &around.stop)?;
    let measured = measure_at(&mut site, spec, runs, printer, progress, around);
    if truth.is_some() {
        site.end();
    }
    measured
}

/// What must be right before a server is troubled: the plan, the files, the key, a folder that can be
/// written.
pub fn prepare(spec: &Spec, runs: &Path) -> Result<()> {
    check(spec)?;
    key(spec)?;
    std::fs::create_dir_all(runs)
        .with_context(|| format!("cannot create the folder {}", runs.display()))
        .map_err(Failure::request)?;
    Ok(())
}

/// Measures one load point at a place that is taken already.
pub fn measure_at(
    site: &mut Site,
    mut spec: Spec,
    runs: &Path,
    printer: &Printer,
    progress: Progress,
    around: Around,
) -> Result<Measured> {
    let stop = Arc::clone(&around.stop);
    let plan = match &around.script {
        Some(script) => check(&spec)?.following(&spec, script.moments.clone()).map_err(Failure::request)?,
        None => check(&spec)?,
    };
    let key = key(&spec)?;

    // A vocabulary loads on a thread of its own: where the model's name is known, while the server is asked.
    let guess = known_model(&spec);
    let early = guess
        .as_deref()
        .map(|model| Tokenizer::open(&spec.workload.tokenizer, Some(model)))
        .transpose()
        .map_err(Failure::request)?;
    let session = site.session(&spec, &stop)?;
    let Site { claim, engine } = site;
    spec.api.model = Some(session.model.clone());
    let tokenizer = match early {
        Some(tokenizer) if guess.as_ref() == Some(&session.model) => tokenizer,
        _ => Tokenizer::open(&spec.workload.tokenizer, Some(&session.model)).map_err(Failure::request)?,
    };
    let corpus = match &around.script {
        Some(_) => Corpus::in_file_order(&spec.workload, tokenizer, spec.seed),
        None => Corpus::with_tokenizer(&spec.workload, tokenizer, spec.seed),
    };
    let corpus = corpus.map_err(Failure::request)?;

    let folder = match &around.name {
        Some(name) => RunFolder::create_named(runs, name),
        None => RunFolder::create(runs, wall_ns(), &folder_name(&spec)),
    };
    let folder = folder.map_err(Failure::request)?;
    claim.name(folder.path());
    let scrubber = Scrubber::new(secrets(&spec, key.as_deref()));
    let header = record::Header {
        schema_version: record::SCHEMA_VERSION,
        spec: spec.redacted(),
        environment: Environment {
            self_check: around.self_check,
            floor: around.floor,
            ..environment(&spec, &session, &plan, &corpus)
        },
    };

    let live = Arc::new(Live::new());
    // A simulated engine is a process whose share is known.
    let attributable = engine.is_some() || !decide::facts::is_local(&spec, &session.addresses());
    let watch = Arc::new(Watch::new(attributable));
    let journal = journal::Journal::start(
        &folder,
        header,
        &corpus,
        spec.client.keep_text,
        scrubber.clone(),
        journal::Told { stop: Arc::clone(&stop), watch: Arc::clone(&watch), heard: around.heard },
    )?;
    let scene = progress::Scene { live: Arc::clone(&live), watch, stop: Arc::clone(&stop) };
    let screen = progress::start(&spec, &plan, scene, printer, progress);
    let target_cpu = engine.as_ref().map(|engine| {
        let pid = engine.pid();
        Box::new(move || clock::cpu::of_process(pid)) as Box<dyn Fn() -> Option<Nanos> + Send>
    });
    let drive = Drive {
        run_id: run_id(&folder, around.name.is_some()),
        source: Box::new(
            prompts::Prompts::new(corpus, &spec, &session, folder.clone(), scrubber).scripted(around.script),
        ),
        stop: Arc::clone(&stop),
        sink: journal.sink(),
        live,
        target_cpu,
    };
    let driven = wire::drive(&session, &spec, &plan, drive);
    screen.end();
    let mut footer = driven.map_err(|error| {
        // What was refused before it began leaves nothing to look at; a folder that holds something stays.
        let _ = std::fs::remove_dir(folder.path());
        Failure::request(error)
    })?;
    footer.others = claim.others();
    let run = journal.finish(footer, printer)?;
    Ok(Measured { folder, run })
}

/// The model's name, where it is known before the server is asked.
pub fn known_model(spec: &Spec) -> Option<String> {
    match (&spec.api.model, spec.target.first()) {
        (Some(model), _) => Some(model.clone()),
        (None, Target::Sim(target)) => Some(target.engine.clone()),
        (None, Target::Http(_)) => None,
    }
}

pub fn session_failure(error: SessionError) -> Failure {
    match error {
        SessionError::Header { .. }
        | SessionError::WhichModel { .. }
        | SessionError::OtherModels { .. }
        | SessionError::Tls(_)
        | SessionError::Endpoint(EndpointError::Malformed { .. })
        | SessionError::Stopped => Failure::request(error),
        error => Failure::target(error),
    }
}

/// The numbers of length files.
pub fn lists(spec: &Spec) -> Result<Lists> {
    let read = |lengths: &Lengths| match lengths {
        Lengths::File(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the lengths in {}", path.display()))
                .map_err(Failure::request)?;
            let list = Lengths::parse_list(&text)
                .with_context(|| path.display().to_string())
                .map_err(Failure::request)?;
            Ok::<_, anyhow::Error>(Some(list))
        }
        _ => Ok(None),
    };
    Ok(Lists { isl: read(&spec.workload.isl)?, osl: read(&spec.workload.osl)? })
}

/// The API key, from where the spec says.
pub fn key(spec: &Spec) -> Result<Option<String>> {
    let key = match &spec.api.key {
        None => return Ok(None),
        Some(KeySource::Env(name)) => std::env::var(name)
            .map_err(|_| {
                anyhow::anyhow!("the environment variable {name} that should hold the API key is not set")
            })
            .map_err(Failure::request)?,
        Some(KeySource::File(path)) => std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the API key in {}", path.display()))
            .map_err(Failure::request)?
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned(),
    };
    if key.trim().is_empty() {
        return Err(Failure::request(anyhow::anyhow!("the API key is empty")).into());
    }
    Ok(Some(key.trim().to_owned()))
}

/// Everything that must stand in no artefact.
pub fn secrets(spec: &Spec, key: Option<&str>) -> Vec<String> {
    let headers = spec.api.headers.iter().filter(|(name, _)| spec::secret::secret_header(name));
    headers.map(|(_, value)| value.clone()).chain(key.map(str::to_owned)).collect()
}

/// What is known of a measurement without a server.
pub fn on_this_side() -> Environment {
    Environment {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        client: record::client::facts(),
        ..Environment::default()
    }
}

fn environment(spec: &Spec, session: &Session, plan: &Plan, corpus: &Corpus) -> Environment {
    let mut environment = Environment {
        server: session.server.clone(),
        addresses: session.addresses(),
        kernel_stamps: session.kernel_stamps() && spec.client.kernel_stamps,
        negotiated: session.negotiated.clone(),
        tokenizer: corpus
            .tokenizer()
            .map_or("none: the server counts".to_owned(), |t| t.describe().to_owned()),
        workload: corpus.describe(),
        workload_hash: format!("{:016x}-{}", plan.fingerprint(), corpus.fingerprint()),
        ..on_this_side()
    };
    environment.note_unknown(&spec.labels);
    environment
}

/// `llama-3.1-8b-r6` or `…-c16`: model and load.
fn folder_name(spec: &Spec) -> String {
    let model = spec.api.model.as_deref().unwrap_or("model");
    match &spec.load {
        Load::Closed(closed) => format!("{model}-c{}", closed.concurrency),
        Load::Open(open) => format!("{model}-r{}", open.rate),
    }
}

/// What the run's requests are marked with. A folder with a name of its own has that only among the runs beside it.
fn run_id(folder: &RunFolder, is_named: bool) -> String {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let own = name(folder.path()).unwrap_or_else(|| "run".to_owned());
    match folder.path().parent().and_then(name).filter(|_| is_named) {
        Some(series) => format!("{series}-{own}"),
        None => own,
    }
}

/// The wall clock, for labels: nanoseconds since 1970.
pub fn wall_ns() -> u64 {
    u64::try_from(clock::wall_now_ns()).unwrap_or_default()
}
