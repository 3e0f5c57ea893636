//! Can this machine offer a load to that server? The server gets one request; the load goes to the
//! simulated engine, which answers in the same shape.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, anyhow};
use corpus::{Corpus, Tokenizer};
use decide::self_check::{Against, Asked, CORES_CERTAIN, Can, Shape, cores_needed, replayed};
use decide::words::{number, plain};
use record::SelfCheck;
use spec::{Draft, Force, Nanos, Span, Spec, TokenizerChoice};
use wire::dialect::PromptRef;
use wire::{Probe, Secret, Session};

use super::trials::{Engine, Trial, Trials};
use crate::cli::SelfCheckArgs;
use crate::failure::Failure;
use crate::printer::Printer;

/// The load is replayed for this long once all its streams are open.
const REPLAY: Nanos = Nanos::from_secs(3);
/// Answers longer than this are opened all at once and heard for [`LONG_HEARD`].
const LONG: Nanos = Nanos::from_secs(15);
const LONG_HEARD: Nanos = Nanos::from_secs(5);
/// The largest event that the engine can be told to send.
const EVENT_MOST: f64 = 65_536.0;

/// A load for a server.
pub struct Load {
    spec: Spec,
    target: String,
    asked: Asked,
}

impl Load {
    /// From the flags; `None` without `--against`.
    pub fn asked(args: &SelfCheckArgs) -> Result<Option<Self>> {
        let Some(target) = &args.against else { return Ok(None) };
        let asked =
            Asked { rate_per_s: args.rate, concurrency: args.concurrency, isl: args.isl, osl: args.osl };
        match (asked.rate_per_s, asked.concurrency) {
            (Some(rate), None) if rate.is_finite() && rate > 0.0 => {}
            (None, Some(users)) if users > 0 => {}
            (None, None) => {
                return Err(Failure::request(anyhow!(
                    "how large a load is meant?\nhint: --rate 400 for requests per second, --concurrency 64 for users"
                ))
                .into());
            }
            (Some(_), Some(_)) => {
                return Err(
                    Failure::request(anyhow!("--rate and --concurrency name two loads; give one")).into()
                );
            }
            _ => return Err(Failure::request(anyhow!("the load must be a number above 0")).into()),
        }
        if asked.osl == 0 || asked.isl == 0 {
            return Err(Failure::request(anyhow!("--isl and --osl are numbers of tokens from 1")).into());
        }
        let mut draft = Draft::default();
        let key = match (&args.key_env, &args.key_file) {
            (Some(name), _) => Some(format!("env:{name}")),
            (None, Some(path)) => Some(format!("file:{}", path.display())),
            (None, None) => None,
        };
        for (name, value) in [
            ("target", Some(target.clone())),
            ("api.model", args.model.clone()),
            ("api.key", key),
            ("workload.isl", Some(asked.isl.to_string())),
            ("workload.osl", Some(asked.osl.to_string())),
            ("workload.tokenizer", Some("none".to_owned())),
        ] {
            if let Some(value) = value {
                draft.set(name, &value).map_err(|error| Failure::wrong_request(&[error]))?;
            }
        }
        let spec = draft.resolve().map_err(|errors| Failure::wrong_request(&errors))?;
        match spec.target.first() {
            spec::Target::Http(url) => {
                let target = spec::secret::redact_url(url);
                Ok(Some(Self { spec, target, asked }))
            }
            spec::Target::Sim(_) => Err(Failure::request(anyhow!(
                "`{target}` is simulated on this machine: --against is for a server (http://…)\n\
                 hint: inferometer sim serve {target} listens on a port"
            ))
            .into()),
        }
    }
}

/// A load for a server that has answered.
pub struct Probed {
    load: Load,
    probe: Probe,
}

impl Load {
    /// Asks the server once.
    pub fn probed(self, stop: &Arc<AtomicBool>, printer: &Printer) -> Result<Probed> {
        printer.say(&format!("one request to {}", self.target));
        let probe = probe(&self, stop)?;
        super::unless_stopped(stop)?;
        Ok(Probed { load: self, probe })
    }
}

/// Offers the load to the server's likeness.
pub fn offered(
    probed: &Probed,
    check: &SelfCheck,
    stop: &Arc<AtomicBool>,
    printer: &Printer,
) -> Result<Against> {
    let Probed { load, probe } = probed;
    let asked = load.asked;
    let seconds = probe.answer.as_secs_f64().max(1e-6);
    let rate = asked.rate_per_s.unwrap_or_else(|| f64::from(asked.concurrency.unwrap_or(1)) / seconds);
    let events_per_s = rate * f64::from(probe.events);
    let shape = Shape {
        events: probe.events,
        tokens_per_event: f64::from(probe.tokens.unwrap_or(probe.events)) / f64::from(probe.events),
        bytes_per_event: probe.bytes as f64 / f64::from(probe.events),
        answer_ns: probe.answer.0,
        round_trip_ns: probe.round_trip.0,
    };
    let in_flight = asked.concurrency.map_or(rate * seconds, f64::from);
    let (can, headroom, limited_by) = match cores_needed(check, rate, events_per_s) {
        Some(cores) if cores > CORES_CERTAIN => (
            Can::No,
            None,
            format!("a lane has one core, and this takes about {} by the self-check", number(cores)),
        ),
        _ => {
            printer
                .say(&format!("  the same to the simulated engine, {} in flight", plain(in_flight.ceil())));
            let trials = Trials::new(stop, printer)?;
            match trials.judged(&replay(asked, shape, in_flight)) {
                Ok(judged) => replayed(&judged, events_per_s),
                Err(error) if trials.stopped() => return Err(error),
                // The pre-flight of the run: files, ports, memory.
                Err(error) => (Can::No, None, format!("{error:#}")),
            }
        }
    };
    Ok(Against {
        target: load.target.clone(),
        asked,
        shape,
        in_flight,
        events_per_s,
        can,
        headroom,
        limited_by,
    })
}

/// One request, after questions for readiness and the model's name that generate nothing.
fn probe(load: &Load, stop: &Arc<AtomicBool>) -> Result<Probe> {
    let spec = &load.spec;
    let key = crate::run::key(spec)?;
    // No optional field, no probe of the session's own.
    let mut plain = spec.clone();
    plain.api.ask_usage = false;
    plain.api.length.force = Force::None;
    let mut session =
        Session::open_until(&plain, None, key.map(Secret::new), stop).map_err(crate::run::session_failure)?;
    let tokenizer = Tokenizer::open(&TokenizerChoice::None, None).map_err(Failure::request)?;
    let corpus = Corpus::with_tokenizer(&spec.workload, tokenizer, spec.seed).map_err(Failure::request)?;
    let prompt = corpus.prompt(0, Some(load.asked.isl)).map_err(Failure::request)?;
    session
        .probe(spec, PromptRef::from(&prompt.content), load.asked.osl, stop)
        .map_err(|error| Failure::target(error).into())
}

/// The load against an engine that answers in this shape, evenly over the answer's time.
fn replay(asked: Asked, shape: Shape, in_flight: f64) -> Trial {
    let answer = Nanos(shape.answer_ns.max(1));
    let tokens_per_event = shape.tokens_per_event.round().max(1.0) as u32;
    let gap = Nanos(answer.0 / u64::from(shape.events));
    let engine = Engine {
        ttft: gap,
        tpot: Nanos(gap.0 / u64::from(tokens_per_event)),
        tokens_per_event,
        event_bytes: shape.bytes_per_event.min(EVENT_MOST) as u32,
    };
    let open = in_flight.ceil().max(1.0) as u64;
    let long = answer > LONG;
    let events = if long { (LONG_HEARD.0 / gap.0.max(1)).max(1) } else { u64::from(shape.events) };
    let tokens = events * u64::from(tokens_per_event);
    let mut settings = vec![
        ("workload.osl", tokens.to_string()),
        ("workload.isl", asked.isl.to_string()),
        ("client.connections", format!("prewarmed:{open}")),
    ];
    match asked.rate_per_s {
        Some(rate) if !long => settings.extend([
            ("load.rate", rate.to_string()),
            // Twice what is expected: enough for Poisson's bunches, and a number for the pre-flight.
            ("load.cap", (2 * open + 64).to_string()),
            ("phases.warmup", Span(answer).to_string()),
            ("phases.measure", Span(REPLAY).to_string()),
            ("phases.drain", Span(answer + REPLAY).to_string()),
        ]),
        // All streams at once: their events come at the rate of the load from the first moment on.
        _ => {
            let measure = if answer < REPLAY { Span(REPLAY).to_string() } else { format!("{open} requests") };
            settings.extend([
                ("load.concurrency", open.to_string()),
                ("phases.measure", measure),
                ("phases.drain", Span(answer + REPLAY).to_string()),
            ]);
        }
    }
    Trial { engine, settings, tpot: (events > 1).then_some(Nanos(gap.0 / u64::from(tokens_per_event))) }
}
