//! Short runs against the simulated engine: the same way through the program as any run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use decide::self_check::{Judged, judge};
use record::Run;
use spec::{Draft, Nanos, Span, Spec};
use tempfile::TempDir;

use crate::cli::{IfBusy, Progress};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::run::{self, Around};

/// What a streamed event of vLLM comes to; the engine pads to it.
const EVENT_BYTES: u32 = 268;
/// Connections that stand before requests of one token leave.
const STANDING: u64 = 64;
/// A server may end this much later than it should before it is left behind.
const DRAIN: Nanos = Nanos::from_secs(2);

/// One load, and what the engine is told.
pub struct Trial {
    /// The engine's options.
    pub engine: Engine,
    /// Keys and values of the spec.
    pub settings: Vec<(&'static str, String)>,
    /// Time between two events, where answers are streams.
    pub tpot: Option<Nanos>,
}

/// How the engine answers.
pub struct Engine {
    /// To the first token.
    pub ttft: Nanos,
    /// Between two events.
    pub tpot: Nanos,
    /// Tokens of an event.
    pub tokens_per_event: u32,
    /// Bytes of an event.
    pub event_bytes: u32,
}

impl Trial {
    /// Requests of one token, answered at once and in one piece.
    pub fn rate(per_s: u64, duration: Nanos) -> Self {
        Self {
            engine: Engine { ttft: Nanos::ZERO, tpot: Nanos::ZERO, tokens_per_event: 1, event_bytes: 0 },
            settings: vec![
                ("load.rate", per_s.to_string()),
                ("phases.measure", Span(duration).to_string()),
                ("phases.drain", Span(DRAIN).to_string()),
                ("workload.osl", "1".to_owned()),
                ("api.stream", "false".to_owned()),
                ("client.connections", format!("prewarmed:{STANDING}")),
            ],
            tpot: None,
        }
    }

    /// Streams that begin together and get their events together, as a batching engine's steps give them.
    pub fn streams(streams: u64, tpot: Nanos, duration: Nanos) -> Self {
        let tokens = (duration.0 / tpot.0.max(1)).max(2);
        Self {
            engine: Engine { ttft: tpot, tpot, tokens_per_event: 1, event_bytes: EVENT_BYTES },
            settings: vec![
                // A burst has no timetable to be late against, and in the server's view the time that it
                // takes to send them all is in no latency: what is judged is hearing.
                ("load.rate", "inf".to_owned()),
                ("analysis.view", "server".to_owned()),
                ("phases.measure", format!("{streams} requests")),
                ("phases.drain", Span(duration + DRAIN).to_string()),
                ("workload.osl", tokens.to_string()),
                ("client.connections", format!("prewarmed:{streams}")),
            ],
            tpot: Some(tpot),
        }
    }

    /// By the checks of any run.
    pub fn judge(&self, run: &Run) -> Judged {
        judge(run, self.tpot)
    }

    fn spec(&self) -> Result<Spec> {
        let Engine { ttft, tpot, tokens_per_event, event_bytes } = &self.engine;
        let target = format!(
            "sim://fixed?ttft={}&tpot={}&tokens_per_chunk={tokens_per_event}&event_bytes={event_bytes}&count=bytes",
            Span(*ttft),
            Span(*tpot)
        );
        let common = [
            ("target", target),
            ("workload.isl", "16".to_owned()),
            ("workload.tokenizer", "none".to_owned()),
            ("phases.warmup", "none".to_owned()),
            ("api.readiness.check", "false".to_owned()),
        ];
        let mut draft = Draft::default();
        for (key, value) in common.iter().chain(&self.settings) {
            draft.set(key, value).map_err(|error| Failure::wrong_request(&[error]))?;
        }
        draft.resolve().map_err(|errors| Failure::wrong_request(&errors).into())
    }
}

/// Makes runs in a folder that vanishes with this.
pub struct Trials<'a> {
    folder: TempDir,
    stop: &'a Arc<AtomicBool>,
    printer: &'a Printer,
}

impl<'a> Trials<'a> {
    /// None made yet.
    pub fn new(stop: &'a Arc<AtomicBool>, printer: &'a Printer) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("inferometer-self-check-").tempdir()?;
        Ok(Self { folder, stop, printer })
    }

    /// A place for a file beside the runs.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Ctrl-C came.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Makes one run; `truth` is where the engine writes its log.
    pub fn run(&self, trial: &Trial, truth: Option<&Path>) -> Result<Run> {
        super::unless_stopped(self.stop)?;
        let around = Around {
            stop: Arc::clone(self.stop),
            self_check: None,
            floor: "a self-check itself".to_owned(),
            heard: None,
            name: None,
            script: None,
        };
        let measured = run::measure_within(
            trial.spec()?,
            &self.folder.path().join("runs"),
            (IfBusy::Share, truth),
            self.printer,
            Progress::Off,
            around,
        );
        super::unless_stopped(self.stop)?;
        Ok(measured?.run)
    }

    /// Makes one run and judges it.
    pub fn judged(&self, trial: &Trial) -> Result<Judged> {
        Ok(trial.judge(&self.run(trial, None)?))
    }
}
