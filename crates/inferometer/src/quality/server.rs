//! The server behind the questions: found and reached as for a run, asked one question at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use quality::engine::{self, Fault, Probed, Reply, Server};
use record::Scrubber;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use spec::{Nanos, Spec};
use wire::{AskError, Asker, Secret, Session};

use crate::asked;
use crate::cli::QualityServerArgs;
use crate::failure::Failure;
use crate::run::{key, secrets, session_failure};

/// Pauses before a question is put again, where no connection came about or the server asks for patience; once, where
/// the connection broke before an answer: the question changes nothing on the server.
const AGAIN: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// While it pauses, the stop flag is looked at this often.
const LOOK: Duration = Duration::from_millis(20);

/// A server that answers.
pub struct Site {
    /// What was asked for.
    pub spec: Spec,
    /// What it told of itself.
    pub session: Session,
    /// Set by Ctrl-C, and by whoever finds that nothing more can come.
    pub stop: Arc<AtomicBool>,
    retried: Arc<AtomicU64>,
    scrubber: Scrubber,
}

/// Who answered: two folders of one server have the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Address, without secrets.
    pub url: String,
    /// Model name sent.
    pub model: String,
    /// What the server tells: models, version, owner, context.
    pub told: std::collections::BTreeMap<String, String>,
}

impl Site {
    /// Finds the server and gets to know it.
    pub fn open(args: &QualityServerArgs, stop: Arc<AtomicBool>) -> Result<Self> {
        Self::of(asked::quality(args)?, stop)
    }

    /// The same of a spec that asks for whole answers.
    pub fn of(spec: Spec, stop: Arc<AtomicBool>) -> Result<Self> {
        let key = key(&spec)?;
        let scrubber = Scrubber::new(secrets(&spec, key.as_deref()));
        let session = Session::open_until(&spec, None, key.map(Secret::new), &stop);
        let session = session.map_err(|error| match error {
            wire::SessionError::Stopped => stopped(),
            error => session_failure(error),
        })?;
        Ok(Self { spec, session, stop, retried: Arc::default(), scrubber })
    }

    /// A client of its own for one thread.
    pub fn client(&self) -> Result<Http> {
        Ok(Http {
            asker: self.session.asker(&self.stop).map_err(session_failure)?,
            limit: self.spec.timeouts.total.0.unwrap_or(Nanos(u64::MAX)),
            stop: Arc::clone(&self.stop),
            retried: Arc::clone(&self.retried),
            scrubber: self.scrubber.clone(),
        })
    }

    /// What can be asked of it.
    pub fn probe(&self, args: &QualityServerArgs, max_tokens: u32) -> Result<Probed> {
        let mut probed = self.probed(args.prefix_token, max_tokens)?;
        if args.no_bos {
            probed.manner.prefix.clear();
        }
        Ok(probed)
    }

    /// The same, with this before every scored text, whatever the server tells of itself.
    pub fn probe_with(&self, prefix: &[u32], max_tokens: u32) -> Result<Probed> {
        let mut probed = self.probed(prefix.first().copied(), max_tokens)?;
        probed.manner.prefix = prefix.to_vec();
        Ok(probed)
    }

    fn probed(&self, prefix_token: Option<u32>, max_tokens: u32) -> Result<Probed> {
        let context = self.session.server.get("max_model_len").and_then(|text| text.parse().ok());
        let (model, extra) = (&self.session.model, &self.spec.api.extra_body);
        engine::probe(&self.client()?, model, context, extra, prefix_token, max_tokens)
            .map_err(|fault| failure(&fault).into())
    }

    /// Who answers.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            url: self.spec.redacted().target.to_string(),
            model: self.session.model.clone(),
            told: self.session.server.clone(),
        }
    }

    /// Questions that were put again.
    pub fn retried(&self) -> u64 {
        self.retried.load(Relaxed)
    }
}

/// The end that a fault of the whole server brings.
pub fn failure(fault: &Fault) -> Failure {
    match fault {
        Fault::Stopped => stopped(),
        Fault::Refused { status: 401 | 403, .. } => Failure::target(anyhow::anyhow!(
            "the server refuses: {fault}\nhint: --api-key-env VARIABLE names where the key is"
        )),
        fault => Failure::target(anyhow::anyhow!("{fault}")),
    }
}

fn stopped() -> Failure {
    Failure::stopped("stopped")
}

/// One thread's client.
pub struct Http {
    asker: Asker,
    limit: Nanos,
    stop: Arc<AtomicBool>,
    retried: Arc<AtomicU64>,
    scrubber: Scrubber,
}

impl Http {
    fn ask(&self, once: impl Fn() -> Result<wire::Answer, AskError>) -> Result<Reply, Fault> {
        let mut pauses = AGAIN.iter();
        let mut broken = false;
        loop {
            let answer = once();
            let in_vain = match &answer {
                Ok(answer) => matches!(answer.status, 429 | 503),
                Err(AskError::Broken(_)) => !std::mem::replace(&mut broken, true),
                Err(error) => matches!(error, AskError::Dial(_)),
            };
            if in_vain && let Some(pause) = pauses.next() {
                self.retried.fetch_add(1, Relaxed);
                self.pause(*pause)?;
                continue;
            }
            return match answer {
                Ok(answer) => Ok(Reply {
                    status: answer.status,
                    body: serde_json::from_slice(&answer.body).unwrap_or(Value::Null),
                    excerpt: self.scrubber.scrub(&answer.excerpt()),
                }),
                Err(AskError::Stopped) => Err(Fault::Stopped),
                Err(AskError::Dial(error)) => Err(Fault::Unreachable(error.to_string())),
                Err(error) => Err(Fault::NoAnswer(self.scrubber.scrub(&error.to_string()))),
            };
        }
    }

    fn pause(&self, time: Duration) -> Result<(), Fault> {
        let clock = clock::Clock::start();
        while clock.now().duration() < time {
            if self.stop.load(Relaxed) {
                return Err(Fault::Stopped);
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Server for Http {
    fn get(&self, path: &str) -> Result<Reply, Fault> {
        self.ask(|| self.asker.get(path, self.limit))
    }
    fn post(&self, path: &str, body: &Value) -> Result<Reply, Fault> {
        let body = Bytes::from(body.to_string());
        self.ask(|| self.asker.post(path, body.clone(), self.limit))
    }
}
