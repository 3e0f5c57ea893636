//! The timing loop: sockets, timers and the engine on one thread.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use polling::{Event, Events, PollMode, Poller};
use socket2::SockRef;
use spec::Nanos;

use super::conn::{Active, After, Conn, Wake, raw_now};
use super::http::{self, Parsed, Request};
use super::metrics::Metrics;
use super::prepare::{self, Endpoint, Prepared, Raw, error_body};
use super::stream::{Answer, Output, Then};
use super::truth::{TruthLog, TruthRow};
use super::{Served, TruthSink};
use crate::config::SimConfig;
use crate::engine::{self, Emission, Engine, JobId, Rejection};
use crate::error::SimError;
use crate::faults::Fault;

/// The last stretch before a moment is spun, because a sleeping thread wakes late.
const SPIN_NS: u64 = 60_000;
/// The longest sleep, so that the shutdown flag is seen.
const LONGEST_SLEEP_NS: u64 = 50_000_000;
/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 4_096;
/// The listener's key.
const LISTENER: usize = 0;

/// The server.
pub struct Server {
    pub(super) config: Arc<SimConfig>,
    pub(super) engine: Box<dyn Engine>,
    listener: TcpListener,
    poller: Arc<Poller>,
    conns: HashMap<usize, Conn>,
    next_key: usize,
    jobs: HashMap<JobId, usize>,
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    to_worker: Option<Sender<Raw>>,
    from_worker: Receiver<(usize, u64, Prepared)>,
    worker: Option<std::thread::JoinHandle<()>>,
    truth: Option<TruthLog>,
    pub(super) metrics: Metrics,
    served: Served,
    /// Raw clock at engine time 0.
    origin: u64,
    /// Wall clock at the start, whole seconds: a label.
    pub(super) created: i64,
    emissions: Vec<Emission>,
    /// Connections whose next request may be complete already.
    ready: Vec<usize>,
    /// Jobs that the engine has not yet accepted or refused.
    fresh: Vec<(usize, JobId)>,
    /// Accepting is off until then: the process has no more descriptors.
    accept_again: Option<u64>,
}

fn io(doing: &'static str) -> impl Fn(std::io::Error) -> SimError {
    move |source| SimError::Io { doing, source }
}

impl Server {
    /// Ready to run.
    pub fn new(config: SimConfig, listener: TcpListener, truth: Option<TruthSink>) -> Result<Self, SimError> {
        let poller = Arc::new(Poller::new().map_err(io("opening a poller"))?);
        listener.set_nonblocking(true).map_err(io("configuring the listener"))?;
        SockRef::from(&listener).listen(BACKLOG).map_err(io("listening"))?;
        // SAFETY: the listener lives as long as the server, which deletes it from the poller in `run`.
        unsafe { poller.add_with_mode(&listener, Event::readable(LISTENER), PollMode::Level) }
            .map_err(io("watching the listener"))?;
        let config = Arc::new(config);
        let (to_worker, requests) = channel();
        let (results, from_worker) = channel();
        let worker = {
            let (config, poller) = (Arc::clone(&config), Arc::clone(&poller));
            std::thread::Builder::new()
                .name("sim-prepare".into())
                .spawn(move || {
                    prepare::worker(config, requests, results, || {
                        // A failed wake-up costs one sleep of the loop, no more.
                        let _ = poller.notify();
                    });
                })
                .map_err(io("starting a thread"))?
        };
        let truth = truth.map(TruthLog::start).transpose().map_err(io("starting the truth log"))?;
        Ok(Self {
            engine: config.engine.build(),
            config,
            listener,
            poller,
            conns: HashMap::new(),
            next_key: LISTENER + 1,
            jobs: HashMap::new(),
            timers: BinaryHeap::new(),
            to_worker: Some(to_worker),
            from_worker,
            worker: Some(worker),
            truth,
            metrics: Metrics::default(),
            served: Served::default(),
            origin: raw_now(),
            created: clock::wall_now_ns() / 1_000_000_000,
            emissions: Vec::new(),
            ready: Vec::new(),
            fresh: Vec::new(),
            accept_again: None,
        })
    }

    fn engine_time(&self, raw: u64) -> Nanos {
        Nanos((raw.saturating_sub(self.origin) as f64 * self.config.time_scale) as u64)
    }

    fn raw_time(&self, engine: Nanos) -> u64 {
        // Rounded up, so that the engine has something to do when the moment comes.
        self.origin.saturating_add((engine.0 as f64 / self.config.time_scale).ceil() as u64)
    }

    /// Serves until the flag is set.
    pub fn run(mut self, shutdown: &AtomicBool) -> Result<Served, SimError> {
        let mut events = Events::new();
        while !shutdown.load(Ordering::Relaxed) {
            let now = raw_now();
            let next = self.next_moment();
            let idle = if self.ready.is_empty() { LONGEST_SLEEP_NS } else { 0 };
            let sleep =
                next.map_or(LONGEST_SLEEP_NS, |at| at.saturating_sub(now).saturating_sub(SPIN_NS)).min(idle);
            events.clear();
            self.poller.wait(&mut events, Some(Duration::from_nanos(sleep))).map_err(io("polling"))?;
            for event in events.iter() {
                if event.key == LISTENER {
                    self.accept();
                } else {
                    self.socket_event(event.key, event.readable, event.writable);
                }
            }
            for key in std::mem::take(&mut self.ready) {
                self.next_request(key);
            }
            while let Ok((key, number, prepared)) = self.from_worker.try_recv() {
                self.prepared(key, number, prepared);
            }
            self.fire_timers();
            self.run_engine();
            self.accept_jobs();
        }
        self.finish()
    }

    fn next_moment(&self) -> Option<u64> {
        let engine = self.engine.next_event().map(|at| self.raw_time(at));
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        [engine, timer, self.accept_again].into_iter().flatten().min()
    }

    fn finish(mut self) -> Result<Served, SimError> {
        let keys: Vec<usize> = self.conns.keys().copied().collect();
        for key in keys {
            self.drop_conn(key, false);
        }
        let _ = self.poller.delete(&self.listener);
        self.to_worker = None;
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
        if let Some(truth) = self.truth.take() {
            truth.finish().map_err(io("writing the truth log"))?;
        }
        Ok(self.served)
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let _ = stream.set_nodelay(true);
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    let key = self.next_key;
                    self.next_key += 1;
                    self.served.connections += 1;
                    let number = self.served.connections;
                    let conn = Conn::new(stream, number);
                    let slow = self.slow_accept(number);
                    let interest = if slow.is_some() { Event::none(key) } else { Event::readable(key) };
                    // SAFETY: `drop_conn` deletes the socket from the poller before it is closed.
                    let added = unsafe { self.poller.add_with_mode(&conn.stream, interest, PollMode::Level) };
                    if added.is_ok() {
                        self.conns.insert(key, conn);
                        if let Some(delay) = slow {
                            self.set_timer(key, raw_now() + delay.0, Wake::Accept);
                        }
                    }
                }
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(e)
                    if matches!(
                        e.kind(),
                        std::io::ErrorKind::Interrupted | std::io::ErrorKind::ConnectionAborted
                    ) => {}
                Err(_) => {
                    // Out of descriptors, most likely: the backlog waits.
                    self.accept_again = Some(raw_now() + LONGEST_SLEEP_NS);
                    let _ =
                        self.poller.modify_with_mode(&self.listener, Event::none(LISTENER), PollMode::Level);
                    return;
                }
            }
        }
    }

    fn slow_accept(&self, number: u64) -> Option<Nanos> {
        self.config.faults.iter().enumerate().find_map(|(i, rule)| match rule.fault {
            Fault::SlowAccept(span) if rule.strikes(self.config.seed, i, number) => Some(span),
            _ => None,
        })
    }

    fn set_timer(&mut self, key: usize, at: u64, wake: Wake) {
        if let Some(conn) = self.conns.get_mut(&key) {
            conn.wake = Some((at, wake));
            self.timers.push(Reverse((at, key)));
        }
    }

    fn fire_timers(&mut self) {
        let now = raw_now();
        if self.accept_again.is_some_and(|at| at <= now) {
            self.accept_again = None;
            let _ = self.poller.modify_with_mode(&self.listener, Event::readable(LISTENER), PollMode::Level);
        }
        while let Some(&Reverse((at, key))) = self.timers.peek() {
            if at > now {
                return;
            }
            self.timers.pop();
            let Some(conn) = self.conns.get_mut(&key) else { continue };
            let Some((_, wake)) = conn.wake.take_if(|(when, _)| *when == at) else { continue };
            match wake {
                Wake::Accept => self.watch(key),
                Wake::Answer => {
                    if let Some(bytes) = conn.delayed.take() {
                        conn.queue(bytes, 0, at);
                        self.flush(key);
                    }
                }
                Wake::Resume => {
                    let config = Arc::clone(&self.config);
                    if let Some(active) = &mut conn.active
                        && let Some(answer) = &mut active.answer
                    {
                        let output = answer.release(&config, active.engine_finished);
                        self.deliver(key, output, at);
                    }
                }
            }
        }
    }

    /// Sets the poller's interest to what the connection needs.
    fn watch(&mut self, key: usize) {
        if let Some(conn) = self.conns.get_mut(&key) {
            conn.wants_write = conn.blocked();
            let interest = Event::new(key, true, conn.wants_write);
            let _ = self.poller.modify_with_mode(&conn.stream, interest, PollMode::Level);
        }
    }

    fn socket_event(&mut self, key: usize, readable: bool, writable: bool) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        if readable {
            if !conn.fill() {
                self.drop_conn(key, true);
                return;
            }
            self.next_request(key);
        }
        if writable {
            self.flush(key);
        }
    }

    /// Takes a complete request off the connection's input, when none is being served.
    fn next_request(&mut self, key: usize) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        if conn.active.is_some() || conn.after.is_some() || conn.input.is_empty() {
            return;
        }
        let received = raw_now();
        match http::parse(&conn.input) {
            Parsed::Partial { expects_continue } => {
                if expects_continue && !conn.continued {
                    conn.continued = true;
                    conn.queue(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), 0, received);
                    self.flush(key);
                }
            }
            Parsed::Complete(request, used) => {
                conn.continued = false;
                conn.input.drain(..used);
                self.request(key, *request, received);
            }
            Parsed::Bad(status, why) => {
                let body = error_body(status, "Bad Request", None, why);
                conn.queue(http::answer(status, "application/json", None, false, &body), 0, received);
                conn.after = Some(After::Close);
                self.flush(key);
            }
        }
    }

    fn request(&mut self, key: usize, request: Request, received: u64) {
        let endpoint = match (request.method.as_str(), request.path.trim_end_matches('/')) {
            ("POST", "/v1/chat/completions") => Endpoint::Chat,
            ("POST", "/v1/completions") => Endpoint::Completions,
            ("POST", "/tokenize") => Endpoint::Tokenize,
            (method, path) => {
                let (status, content_type, body) = self.page(method, path);
                let id = request.request_id.as_deref();
                let bytes = http::answer(status, content_type, id, request.keep_alive, &body);
                if let Some(conn) = self.conns.get_mut(&key) {
                    conn.queue(bytes, 0, received);
                    conn.after = Some(if request.keep_alive { After::Next } else { After::Close });
                }
                self.flush(key);
                return;
            }
        };
        let counted = endpoint != Endpoint::Tokenize;
        self.served.requests += u64::from(counted);
        let number = if counted { self.served.requests } else { 0 };
        let Some(conn) = self.conns.get_mut(&key) else { return };
        conn.active = Some(Box::new(Active {
            truth: TruthRow {
                request_id: request.request_id.clone().unwrap_or_else(|| format!("sim-{number}")),
                number,
                connection: conn.number,
                received_ns: received,
                ..TruthRow::default()
            },
            answer: None,
            job: None,
            engine_finished: false,
            http11: request.http11,
            keep_alive: request.keep_alive,
            request_id: request.request_id,
            first_token: 0,
            last_token: 0,
            tokens: 0,
            counted,
        }));
        let raw = Raw { conn: key, number, endpoint, body: request.body };
        if self.to_worker.as_ref().is_none_or(|w| w.send(raw).is_err()) {
            self.drop_conn(key, false);
        }
    }

    /// The worker has looked at a request.
    fn prepared(&mut self, key: usize, number: u64, prepared: Prepared) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        let Some(active) = conn.active.as_mut().filter(|a| a.truth.number == number) else { return };
        let now = raw_now();
        let generation = match prepared {
            Prepared::Answer { status, body, fault } => {
                active.truth.fault = fault.map(|f| f.kind().to_owned());
                self.answer_at(key, status, "application/json", &body, now);
                return;
            }
            Prepared::Generate(generation) => generation,
        };
        active.truth.fault = generation.fault.map(|f| f.kind().to_owned());
        active.truth.input_tokens = generation.job.input_tokens;
        match generation.fault {
            Some(Fault::Status { code, after }) => {
                let body = error_body(code, "InjectedFault", None, "the simulator was told to fail");
                self.answer_at(key, code, "application/json", &body, now + after.0);
                return;
            }
            Some(Fault::Html) => {
                let body = b"<html><body><h1>It works!</h1></body></html>";
                self.answer_at(key, 200, "text/html", body, now);
                return;
            }
            _ => {}
        }
        let received = active.truth.received_ns;
        let answer = Answer::new(
            &self.config,
            generation,
            number,
            active.request_id.clone(),
            active.http11,
            active.keep_alive,
            self.created,
        );
        if matches!(answer.fault(), Some(Fault::Reset(0))) {
            active.answer = Some(answer);
            self.deliver(key, Output { then: Then::Reset, ..Output::default() }, now);
            return;
        }
        // The engine counts from the reception: looking at the request is the front's affair.
        let at = Nanos((received.saturating_sub(self.origin) as f64 * self.config.time_scale) as u64);
        let job = self.engine.submit(at, answer.job().clone());
        active.truth.submitted_ns = now;
        active.job = Some(job);
        active.answer = Some(answer);
        self.jobs.insert(job, key);
        self.fresh.push((key, job));
    }

    /// Sends what a server sends before the first token, for jobs that the engine has not refused.
    fn accept_jobs(&mut self) {
        let config = Arc::clone(&self.config);
        for (key, job) in std::mem::take(&mut self.fresh) {
            let Some(active) = self.conns.get_mut(&key).and_then(|c| c.active.as_mut()) else { continue };
            let due = active.truth.submitted_ns;
            if active.job == Some(job)
                && let Some(answer) = &mut active.answer
            {
                let output = answer.accepted(&config);
                self.deliver(key, output, due);
            }
        }
    }

    /// Sends a complete answer that needs no engine, now or later.
    fn answer_at(&mut self, key: usize, status: u16, content_type: &str, body: &[u8], at: u64) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        let Some(active) = &mut conn.active else { return };
        active.truth.status = status;
        let keep = active.keep_alive;
        let bytes = http::answer(status, content_type, active.request_id.as_deref(), keep, body);
        conn.after = Some(if keep { After::Next } else { After::Close });
        if at > raw_now() {
            conn.delayed = Some(bytes);
            self.set_timer(key, at, Wake::Answer);
        } else {
            conn.queue(bytes, 0, at);
            self.flush(key);
        }
    }

    fn run_engine(&mut self) {
        let now = self.engine_time(raw_now());
        if self.engine.next_event().is_none_or(|at| at > now) {
            return;
        }
        let mut emissions = std::mem::take(&mut self.emissions);
        emissions.clear();
        self.engine.advance(now, &mut emissions);
        // A job's last token and its end belong in one delivery.
        for (i, emission) in emissions.iter().enumerate() {
            let Some(&key) = self.jobs.get(&emission.job) else { continue };
            let due = self.raw_time(emission.at);
            match emission.event {
                engine::Event::Started { cached } => self.started(key, cached, due),
                engine::Event::Tokens(n) => {
                    let last = emissions
                        .get(i + 1)
                        .is_some_and(|e| e.job == emission.job && e.event == engine::Event::Finished);
                    self.tokens(key, n, last, due);
                }
                engine::Event::Finished => {
                    self.jobs.remove(&emission.job);
                }
                engine::Event::Rejected(why) => {
                    self.jobs.remove(&emission.job);
                    self.rejected(key, why, due);
                }
            }
        }
        self.emissions = emissions;
    }

    fn started(&mut self, key: usize, cached: u32, due: u64) {
        if let Some(active) = self.conns.get_mut(&key).and_then(|c| c.active.as_mut()) {
            active.truth.started_ns = due;
            active.truth.cached_tokens = cached;
            if let Some(answer) = &mut active.answer {
                answer.cached = cached;
            }
            self.metrics.queue.observe(due.saturating_sub(active.truth.received_ns) as f64 / 1e9);
        }
    }

    fn tokens(&mut self, key: usize, n: u32, last: bool, due: u64) {
        let config = Arc::clone(&self.config);
        let Some(active) = self.conns.get_mut(&key).and_then(|c| c.active.as_mut()) else { return };
        let Some(answer) = &mut active.answer else { return };
        let metrics = &mut self.metrics;
        metrics.generation_tokens += u64::from(n);
        if active.tokens == 0 {
            active.first_token = due;
            metrics.prompt_tokens += u64::from(active.truth.input_tokens);
            metrics.cached_tokens += u64::from(active.truth.cached_tokens);
            metrics.ttft.observe(due.saturating_sub(active.truth.received_ns) as f64 / 1e9);
        } else {
            metrics.gap.observe(due.saturating_sub(active.last_token) as f64 / 1e9);
        }
        active.tokens += n;
        active.last_token = due;
        if last {
            active.job = None;
            active.engine_finished = true;
        }
        let output = answer.produced(&config, n, last);
        self.deliver(key, output, due);
    }

    fn rejected(&mut self, key: usize, why: Rejection, due: u64) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        let Some(active) = &mut conn.active else { return };
        active.job = None;
        let (status, kind) = match why {
            Rejection::Context { .. } => (400, "BadRequestError"),
            Rejection::QueueFull { .. } => (503, "ServiceUnavailableError"),
        };
        if active.truth.writes.is_empty() && !conn.blocked() {
            let body = error_body(status, kind, None, &why.to_string());
            self.answer_at(key, status, "application/json", &body, due);
        } else {
            // The head is out already: all that is left is to break off.
            conn.after = Some(After::Close);
            self.flush(key);
        }
    }

    /// Puts an answer's output on the wire.
    fn deliver(&mut self, key: usize, output: Output, due: u64) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        for (bytes, tokens) in output.writes {
            conn.queue(bytes, tokens, due);
        }
        match output.then {
            Then::Continue => {}
            Then::Done => conn.after = Some(After::Next),
            Then::Close => conn.after = Some(After::Close),
            Then::Reset => conn.after = Some(After::Reset),
            Then::Stall(span) => {
                if let Some(span) = span {
                    self.set_timer(key, due.max(raw_now()) + span, Wake::Resume);
                }
            }
        }
        self.flush(key);
    }

    /// Writes what waits; goes on to what follows once all is out.
    fn flush(&mut self, key: usize) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        if !conn.flush() {
            self.drop_conn(key, true);
            return;
        }
        if conn.blocked() != conn.wants_write {
            self.watch(key);
        }
        let Some(conn) = self.conns.get_mut(&key) else { return };
        if conn.blocked() || conn.delayed.is_some() {
            return;
        }
        match conn.after {
            None => {}
            Some(After::Next) => {
                conn.after = None;
                self.end_request(key, false);
                // Not at once: a client that pipelines thousands of requests must not nest as many calls.
                self.ready.push(key);
            }
            Some(After::Close) => {
                let _ = conn.stream.shutdown(std::net::Shutdown::Write);
                self.drop_conn(key, false);
            }
            Some(After::Reset) => {
                let _ = SockRef::from(&conn.stream).set_linger(Some(Duration::ZERO));
                self.drop_conn(key, false);
            }
        }
    }

    /// Closes the books of the request being served.
    fn end_request(&mut self, key: usize, disconnected: bool) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        let Some(active) = conn.active.take() else { return };
        let Active { mut truth, answer, job, first_token, last_token, tokens, counted, .. } = *active;
        let now = raw_now();
        if let Some(job) = job {
            self.jobs.remove(&job);
            self.engine.cancel(self.engine_time(now), job);
        }
        if !counted {
            return;
        }
        if let Some(answer) = &answer {
            if answer.status > 0 {
                truth.status = answer.status;
            }
            truth.finish = answer.finish.map(str::to_owned);
            truth.output_tokens = answer.completion_tokens();
            truth.fault = answer.fault().map(|f| f.kind().to_owned()).or(truth.fault);
        }
        truth.ended_ns = now;
        truth.disconnected = disconnected;
        let metrics = &mut self.metrics;
        match (&truth.finish, disconnected) {
            (_, true) => metrics.aborted += 1,
            (Some(reason), _) if reason == "length" => metrics.length += 1,
            (Some(_), _) => metrics.stopped += 1,
            (None, _) => metrics.errors += 1,
        }
        if tokens > 0 && truth.finish.is_some() {
            metrics.e2e.observe(last_token.saturating_sub(truth.received_ns) as f64 / 1e9);
            metrics.input.observe(f64::from(truth.input_tokens));
            metrics.output.observe(f64::from(tokens));
            if tokens > 1 {
                let span = last_token.saturating_sub(first_token) as f64 / 1e9;
                metrics.tpot.observe(span / f64::from(tokens - 1));
            }
        }
        if let Some(log) = &self.truth {
            log.put(truth);
        }
    }

    fn drop_conn(&mut self, key: usize, disconnected: bool) {
        let served = self.conns.get(&key).is_some_and(|c| c.active.is_some());
        if served {
            // An answer that is complete for the client is no disconnection.
            self.end_request(key, disconnected);
        }
        if let Some(conn) = self.conns.remove(&key) {
            let _ = self.poller.delete(&conn.stream);
        }
    }
}
