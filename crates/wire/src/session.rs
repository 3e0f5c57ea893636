//! The server before the run: found, asked who it is, and what it accepts.

mod error;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use clock::Clock;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use spec::secret::secret_header;
use spec::{Force, Nanos, Secret, Spec, Target};

use crate::ask::{Answer, AskError, Asker};
use crate::connect::{Dialer, Endpoint};
use crate::dialect::{Adaptation, PromptRef, body};
use crate::io::StampKeeper;
use crate::metrics;

pub use error::SessionError;
use error::{hints_for_silence, tried};

/// One question may take this long.
const QUESTION: Nanos = Nanos::from_secs(5);
/// The probe request makes a token or two; a slow server may still load something for it.
const PROBE: Nanos = Nanos::from_secs(60);
/// Between two questions for readiness.
const PAUSE: Duration = Duration::from_millis(100);
/// A path that may or may not exist is asked this long.
const SIDE_QUESTION: Nanos = Nanos::from_secs(2);

/// Where requests go: one of the servers.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    /// Opens connections to it.
    pub dialer: Arc<Dialer>,
    /// The headers of every request to it.
    pub headers: HeaderMap,
    /// What is asked for.
    pub path: http::Uri,
}

impl Destination {
    fn find(url: &str, spec: &Spec, key: Option<&Secret>, stop: &AtomicBool) -> Result<Self, SessionError> {
        let endpoint = match &spec.client.unix {
            Some(path) => Endpoint::over_unix(url, path)?,
            None => Endpoint::resolve_until(url, stop)?.ok_or(SessionError::Stopped)?,
        };
        let mut dialer = Dialer::new(endpoint, &spec.api.tls)?.from_sources(&spec.client.bind);
        if spec.client.http2 {
            dialer = dialer.with_http2();
        }
        let headers = headers(spec, &dialer.endpoint, key)?;
        let path = dialer.endpoint.path(spec.api.path.as_deref().unwrap_or(spec.api.dialect.default_path()));
        let path = path.parse().map_err(|e| SessionError::Client(format!("`{path}` is no path: {e}")))?;
        Ok(Destination { dialer: Arc::new(dialer), headers, path })
    }

    /// A name with several addresses: the one that answers is tried first from now on, so that no
    /// connection of the run pays for one that does not (`localhost` is often two).
    fn settle_address(&mut self) {
        let addresses = &self.dialer.endpoint.addresses;
        if addresses.len() < 2 {
            return;
        }
        let answers =
            |address: &&SocketAddr| TcpStream::connect_timeout(address, SIDE_QUESTION.duration()).is_ok();
        if let Some(address) = addresses.iter().find(answers).copied() {
            Arc::make_mut(&mut self.dialer).endpoint.prefer(address);
        }
    }
}

/// A server that answers, or several: everything that is known of them before the run.
#[derive(Debug)]
pub struct Session {
    /// In the order of the targets.
    pub(crate) destinations: Vec<Destination>,
    pub(crate) secrets: Arc<[Secret]>,
    pub(crate) keeper: StampKeeper,
    /// Model name sent.
    pub model: String,
    /// Models that the server offers.
    pub models: Vec<String>,
    /// What the server tells of itself: `models`, `version`, `server`, `max_model_len`.
    pub server: BTreeMap<String, String>,
    /// Fields that the server rejects, and what is sent instead.
    pub adaptation: Adaptation,
    /// The same in words, for the record; and a model that the server does not list.
    pub negotiated: Vec<String>,
    /// The server has metrics that can be read.
    pub metrics: bool,
}

impl Session {
    /// Finds the server and gets to know it. `address` stands in for a simulated target: where it
    /// listens. With `readiness.check` off nothing is asked but the list of models, and that only if
    /// no model is named; no field is negotiated then.
    pub fn open(spec: &Spec, address: Option<&str>, key: Option<Secret>) -> Result<Session, SessionError> {
        Session::open_until(spec, address, key, &Arc::default())
    }

    /// The same, given up with [`SessionError::Stopped`] soon after `stop` is set.
    pub fn open_until(
        spec: &Spec,
        address: Option<&str>,
        key: Option<Secret>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Session, SessionError> {
        // First of all: the kernel begins to stamp a moment after it is asked.
        let keeper = StampKeeper::new();
        let mut destinations = Vec::new();
        for target in spec.target.iter() {
            let url = match (target, address) {
                (_, Some(address)) => address,
                (Target::Http(url), None) => url,
                (Target::Sim(sim), None) => return Err(SessionError::NoAddress(sim.to_string())),
            };
            destinations.push(Destination::find(url, spec, key.as_ref(), stop)?);
        }
        let mut session = Session {
            destinations,
            secrets: secrets(spec, key.as_ref()),
            keeper,
            model: String::new(),
            models: Vec::new(),
            server: BTreeMap::new(),
            adaptation: Adaptation::default(),
            negotiated: Vec::new(),
            metrics: false,
        };
        let askers = session.askers(stop)?;
        let check = spec.api.readiness.check;
        if check {
            for (number, asker) in askers.iter().enumerate() {
                session.wait_ready(number, spec, asker, key.as_ref())?;
                session.destinations[number].settle_address();
            }
        }
        if let Some(first) = askers.first() {
            session.choose_model(spec, first)?;
        }
        if check {
            session.hold_models_against_the_first(&askers[1..])?;
            session.look_around(&askers);
            for (number, asker) in askers.iter().enumerate() {
                session.negotiate(number, spec, asker)?;
            }
            session.negotiated.extend(session.adaptation.describe());
        }
        // A question that was broken off looks like one that had no answer.
        if stop.load(Relaxed) { Err(SessionError::Stopped) } else { Ok(session) }
    }

    fn askers(&self, stop: &Arc<AtomicBool>) -> Result<Vec<Asker>, SessionError> {
        let asker = |to: &Destination| Asker::until(to.dialer.clone(), to.headers.clone(), stop.clone());
        let askers: std::io::Result<_> = self.destinations.iter().map(asker).collect();
        askers.map_err(|e| SessionError::Client(e.to_string()))
    }

    /// Asks the first server single questions, outside of any measurement.
    ///
    /// # Errors
    /// The client could not be set up.
    pub fn asker(&self, stop: &Arc<AtomicBool>) -> Result<Asker, SessionError> {
        let to =
            self.destinations.first().ok_or_else(|| SessionError::Client("there is no target".to_owned()))?;
        Asker::until(to.dialer.clone(), to.headers.clone(), stop.clone())
            .map_err(|e| SessionError::Client(e.to_string()))
    }

    /// The address spoken to, of several the first.
    pub fn target(&self) -> String {
        self.target_at(0)
    }
    fn target_at(&self, number: usize) -> String {
        self.destinations.get(number).map_or_else(String::new, |to| to.dialer.endpoint.to_string())
    }
    /// The addresses that the names stand for, frozen.
    pub fn addresses(&self) -> Vec<String> {
        let all = self.destinations.iter().map(|to| &to.dialer.endpoint);
        all.flat_map(|endpoint| {
            let unix = endpoint.unix.iter().map(|path| format!("unix:{}", path.display()));
            endpoint.addresses.iter().map(ToString::to_string).chain(unix)
        })
        .collect()
    }
    pub(crate) fn endpoints(&self) -> Vec<&Endpoint> {
        self.destinations.iter().map(|to| &to.dialer.endpoint).collect()
    }
    /// The kernel grants receive stamps.
    pub fn kernel_stamps(&self) -> bool {
        self.keeper.granted()
    }

    fn wait_ready(
        &mut self,
        number: usize,
        spec: &Spec,
        asker: &Asker,
        key: Option<&Secret>,
    ) -> Result<(), SessionError> {
        let readiness = &spec.api.readiness;
        let clock = Clock::start();
        let mut tries = 0_u32;
        let mut before: Option<String> = None;
        let mut alike = true;
        loop {
            tries += 1;
            let left = readiness.wait.0.saturating_since(clock.now());
            let answer = asker.get(&readiness.path, QUESTION.min(left.max(Nanos::from_millis(500))));
            if let Err(AskError::Stopped) = answer {
                return Err(SessionError::Stopped);
            }
            // An answer that no waiting changes: a wrong key, a wrong path.
            let hopeless = matches!(&answer, Ok(a) if (400..500).contains(&a.status) && !matches!(a.status, 408 | 425 | 429));
            if let Ok(answer) = &answer
                && answer.is_good()
            {
                if number == 0 {
                    self.note_server(answer);
                }
                return Ok(());
            }
            let got = answer.as_ref().err().map(ToString::to_string);
            alike &= tries == 1 || got == before;
            let over = clock.now() + Nanos::from(PAUSE) >= readiness.wait.0;
            if !over && !hopeless {
                before = got;
                std::thread::sleep(PAUSE);
                continue;
            }
            let redact = |text: String| key.map_or(text.clone(), |key| key.redact(&text));
            let target = self.target_at(number);
            let endpoint = &self.destinations[number].dialer.endpoint;
            let path = endpoint.path(&readiness.path);
            let tried = tried(tries, clock.now());
            return Err(match answer {
                Err(error) => {
                    let each = if tries > 1 && alike { " each time" } else { "" };
                    let hints = hints_for_silence(endpoint, &error);
                    SessionError::Silent { target, path, tried, got: redact(error.to_string()) + each, hints }
                }
                Ok(answer) => SessionError::NotReady {
                    target,
                    path,
                    tried,
                    status: answer.status,
                    body: redact(answer.excerpt()),
                },
            });
        }
    }

    fn note_server(&mut self, answer: &Answer) {
        if let Some(name) = answer.headers.get(http::header::SERVER) {
            let name = String::from_utf8_lossy(name.as_bytes()).into_owned();
            self.server.insert("server".to_owned(), name);
        }
    }

    fn choose_model(&mut self, spec: &Spec, asker: &Asker) -> Result<(), SessionError> {
        if let Some(model) = &spec.api.model {
            self.model = model.clone();
            if !spec.api.readiness.check {
                return Ok(());
            }
        }
        if let Ok(answer) = asker.get("/v1/models", QUESTION)
            && answer.is_good()
        {
            self.note_server(&answer);
            self.note_models(&answer.body);
        }
        if !self.model.is_empty() {
            // Not a fault: some servers take any name.
            if !self.models.is_empty() && !self.models.contains(&self.model) {
                self.negotiated.push(format!(
                    "the model `{}` is not among those that the server lists ({}); sent as named",
                    self.model,
                    self.models.join(", ")
                ));
            }
            return Ok(());
        }
        match self.models.as_slice() {
            [only] => self.model = only.clone(),
            several => {
                return Err(SessionError::WhichModel { target: self.target(), offers: several.to_vec() });
            }
        }
        self.note_length();
        Ok(())
    }

    /// Requests name one model, so every server must have it. One that lists nothing is believed, and
    /// so are all where the first does not list it either.
    fn hold_models_against_the_first(&mut self, others: &[Asker]) -> Result<(), SessionError> {
        for (number, asker) in (1..).zip(others) {
            let Ok(answer) = asker.get("/v1/models", QUESTION) else { continue };
            let offers: Vec<String> = match answer.is_good() {
                true => models(&answer.body).into_iter().map(|(id, _)| id).collect(),
                false => continue,
            };
            if !offers.is_empty() && self.models.contains(&self.model) && !offers.contains(&self.model) {
                return Err(SessionError::OtherModels {
                    target: self.target_at(number),
                    first: self.target(),
                    model: self.model.clone(),
                    offers,
                });
            }
        }
        Ok(())
    }

    fn note_models(&mut self, body: &[u8]) {
        for (id, entry) in models(body) {
            self.models.push(id.clone());
            let length = entry
                .get("max_model_len")
                .or_else(|| entry.get("meta").and_then(|meta| meta.get("n_ctx")))
                .and_then(serde_json::Value::as_u64);
            if let Some(length) = length {
                self.server.insert(format!("max_model_len of {id}"), length.to_string());
            }
            if let Some(owner) = entry.get("owned_by").and_then(|owner| owner.as_str()) {
                self.server.insert("owned_by".to_owned(), owner.to_owned());
            }
        }
        self.server.insert("models".to_owned(), self.models.join(", "));
        self.note_length();
    }

    fn note_length(&mut self) {
        if let Some(length) = self.server.get(&format!("max_model_len of {}", self.model)) {
            self.server.insert("max_model_len".to_owned(), length.clone());
        }
    }

    /// What may or may not be there. Metrics of several servers would have to be told apart, and
    /// held each against its own share of the requests: they are not read.
    fn look_around(&mut self, askers: &[Asker]) {
        let [asker, others @ ..] = askers else { return };
        if let Ok(answer) = asker.get("/version", SIDE_QUESTION)
            && answer.is_good()
            && let Ok(page) = serde_json::from_slice::<serde_json::Value>(&answer.body)
            && let Some(version) = page.get("version").and_then(|v| v.as_str())
        {
            self.server.insert("version".to_owned(), version.to_owned());
        }
        if !others.is_empty() {
            self.negotiated.push("several targets: the servers' own metrics are not read".to_owned());
        } else if let Ok(answer) = asker.get("/metrics", SIDE_QUESTION) {
            self.metrics = answer.is_good() && metrics::is_useful(&String::from_utf8_lossy(&answer.body));
        }
    }

    /// Unless the run sends no optional field: asks for one token with every field that the run will send, and gives up those that the
    /// server rejects. Any other fault is left to the run, which counts it.
    fn negotiate(&mut self, number: usize, spec: &Spec, asker: &Asker) -> Result<(), SessionError> {
        let optional = spec.api.stream && spec.api.ask_usage || spec.api.length.force == Force::Auto;
        if !optional {
            return Ok(());
        }
        let path = spec.api.path.as_deref().unwrap_or(spec.api.dialect.default_path());
        // The user's own limits hold for the probe as well.
        let limits = [spec.timeouts.first_token.0, spec.timeouts.total.0];
        let limit = limits.into_iter().flatten().fold(PROBE, Nanos::min);
        for _ in 0..4 {
            let probe = body(&spec.api, &self.model, PromptRef::Text("Hi"), Some(1), None, &self.adaptation);
            let Ok(answer) = asker.post(path, Bytes::from(probe.bytes), limit) else { break };
            if answer.is_good() {
                break;
            }
            match self.adaptation.after_rejection(&spec.api, answer.status, &answer.body) {
                Some(next) => self.adaptation = next,
                // Every request would end like this one: nothing is gained by sending them all.
                None if matches!(answer.status, 401 | 403 | 404 | 405) => {
                    return Err(SessionError::Refused {
                        target: self.target_at(number),
                        path: path.to_owned(),
                        status: answer.status,
                        body: answer.excerpt(),
                        offers: self.models.clone(),
                    });
                }
                None => break,
            }
        }
        Ok(())
    }
}

/// The models on a page of `/v1/models`: id and entry.
fn models(body: &[u8]) -> Vec<(String, serde_json::Value)> {
    let Ok(page) = serde_json::from_slice::<serde_json::Value>(body) else { return Vec::new() };
    let entries = page.get("data").and_then(|d| d.as_array()).cloned().unwrap_or_default();
    let named = |entry: serde_json::Value| Some((entry.get("id")?.as_str()?.to_owned(), entry));
    entries.into_iter().filter_map(named).collect()
}

/// The headers of every request.
fn headers(spec: &Spec, endpoint: &Endpoint, key: Option<&Secret>) -> Result<HeaderMap, SessionError> {
    let bad = |name: &str, why: String| SessionError::Header { name: name.to_owned(), why };
    let value = |name: &str, text: &str| HeaderValue::try_from(text).map_err(|e| bad(name, e.to_string()));
    let mut map = HeaderMap::new();
    map.insert(HOST, value("host", &endpoint.authority)?);
    map.insert(USER_AGENT, HeaderValue::from_static(concat!("inferometer/", env!("CARGO_PKG_VERSION"))));
    map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let accept = if spec.api.stream { "text/event-stream" } else { "application/json" };
    map.insert(ACCEPT, HeaderValue::from_static(accept));
    // An encoder holds tokens back until its block is full.
    map.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(key) = key {
        let mut authorization = value("authorization", &format!("Bearer {}", key.expose()))?;
        authorization.set_sensitive(true);
        map.insert(AUTHORIZATION, authorization);
    }
    for (name, text) in &spec.api.headers {
        let header = HeaderName::try_from(name.as_str()).map_err(|e| bad(name, e.to_string()))?;
        map.insert(header, value(name, text)?);
    }
    Ok(map)
}

/// Texts that a server may repeat and that must not reach a record.
fn secrets(spec: &Spec, key: Option<&Secret>) -> Arc<[Secret]> {
    let named = spec.api.headers.iter().filter(|(name, _)| secret_header(name));
    // A header `Authorization: Bearer abc` hides `abc` too, however it is repeated.
    let values = named.flat_map(|(_, value)| [Some(value.as_str()), value.rsplit(' ').next()]);
    let mut all: Vec<String> =
        key.map(Secret::expose).into_iter().chain(values.flatten()).map(str::to_owned).collect();
    all.retain(|text| text.len() >= 4);
    all.sort_by_key(|text| std::cmp::Reverse(text.len()));
    all.dedup();
    all.into_iter().map(Secret::new).collect()
}
