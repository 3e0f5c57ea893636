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

use super::arrival::{self, Arrival, Mapper};
use super::conn::{After, Conn, Filled, Wake, raw_now};
use super::http::{self, Parsed};
use super::metrics::Metrics;
use super::prepare::{self, Prepared, Raw, error_body};
use super::stream::{Output, Then};
use super::truth::TruthLog;
use super::{Served, TruthSink};
use crate::config::SimConfig;
use crate::engine::{Emission, Engine, JobId};
use crate::error::SimError;
use crate::faults::Fault;

/// The last stretch before a moment is spun, because a sleeping thread wakes late.
const SPIN_NS: u64 = 120_000;
/// The longest sleep, so that the shutdown flag is seen.
const LONGEST_SLEEP_NS: u64 = 50_000_000;
/// A request must be complete within this time of its first byte.
pub(super) const REQUEST_TIME_NS: u64 = 60_000_000_000;
/// A client that is told off in the middle of its request has this long to read why.
const LINGER_NS: u64 = 2_000_000_000;
/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 4_096;
/// The listener's key.
const LISTENER: usize = 0;

/// The server.
pub struct Server {
    pub(super) config: Arc<SimConfig>,
    pub(super) engine: Box<dyn Engine>,
    pub(super) listener: TcpListener,
    pub(super) poller: Arc<Poller>,
    pub(super) conns: HashMap<usize, Conn>,
    pub(super) next_key: usize,
    pub(super) jobs: HashMap<JobId, usize>,
    pub(super) timers: BinaryHeap<Reverse<(u64, usize)>>,
    pub(super) to_worker: Option<Sender<Raw>>,
    pub(super) from_worker: Receiver<(usize, u64, Prepared)>,
    pub(super) worker: Option<std::thread::JoinHandle<()>>,
    pub(super) truth: Option<TruthLog>,
    pub(super) metrics: Metrics,
    pub(super) served: Served,
    pub(super) arrivals: Mapper,
    /// Raw clock at engine time 0.
    pub(super) origin: u64,
    /// Wall clock at the start, whole seconds: a label.
    pub(super) created: i64,
    pub(super) emissions: Vec<Emission>,
    /// Connections whose next request may be complete already.
    pub(super) ready: Vec<usize>,
    /// Jobs that the engine has not yet accepted or refused.
    pub(super) fresh: Vec<(usize, JobId)>,
    /// See [`REQUEST_TIME_NS`].
    pub(super) request_time_ns: u64,
    /// Accepting is off until then: the process has no more descriptors.
    pub(super) accept_again: Option<u64>,
}

fn io(doing: &'static str) -> impl Fn(std::io::Error) -> SimError {
    move |source| SimError::Io { doing, source }
}

impl Server {
    /// Ready to run.
    pub fn new(config: SimConfig, listener: TcpListener, truth: Option<TruthSink>) -> Result<Self, SimError> {
        // Before anybody is heard: no request that the kernel stamps is older than the engine's time.
        let origin = raw_now();
        let poller = Arc::new(Poller::new().map_err(io("opening a poller"))?);
        listener.set_nonblocking(true).map_err(io("configuring the listener"))?;
        arrival::enable(&listener);
        SockRef::from(&listener).listen(BACKLOG).map_err(io("listening"))?;
        // SAFETY: the listener lives as long as the server, which deletes it from the poller in `run`.
        unsafe { poller.add_with_mode(&listener, Event::readable(LISTENER), PollMode::Level) }
            .map_err(io("watching the listener"))?;
        // Once it accepts, it is ready: no request pays for the loading of a vocabulary.
        config.counter.warm();
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
            arrivals: Mapper::new(),
            origin,
            created: clock::wall_now_ns() / 1_000_000_000,
            emissions: Vec::new(),
            ready: Vec::new(),
            fresh: Vec::new(),
            request_time_ns: REQUEST_TIME_NS,
            accept_again: None,
        })
    }

    pub(super) fn engine_time(&self, raw: u64) -> Nanos {
        Nanos((raw.saturating_sub(self.origin) as f64 * self.config.time_scale) as u64)
    }

    pub(super) fn raw_time(&self, engine: Nanos) -> u64 {
        // Rounded up, so that the engine has something to do when the moment comes.
        self.origin.saturating_add((engine.0 as f64 / self.config.time_scale).ceil() as u64)
    }

    /// Serves until the flag is set.
    pub fn run(mut self, shutdown: &AtomicBool) -> Result<Served, SimError> {
        let mut events = Events::new();
        while !shutdown.load(Ordering::Relaxed) {
            let now = raw_now();
            self.arrivals.refresh(now);
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
                    let mut conn = Conn::new(stream, number);
                    let slow = self.slow_accept(number);
                    conn.slow = slow.is_some();
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

    pub(super) fn set_timer(&mut self, key: usize, at: u64, wake: Wake) {
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
                Wake::Overdue => self.refuse(key, 408, "the request was not complete in time", at),
                Wake::Gone => self.drop_conn(key, false),
            }
        }
    }

    /// Sets the poller's interest to what the connection needs.
    fn watch(&mut self, key: usize) {
        if let Some(conn) = self.conns.get_mut(&key) {
            conn.wants_write = conn.blocked();
            // An ended connection is readable for ever; that it breaks is told all the same.
            let interest = Event::new(key, !conn.ended, conn.wants_write);
            let _ = self.poller.modify_with_mode(&conn.stream, interest, PollMode::Level);
        }
    }

    fn socket_event(&mut self, key: usize, readable: bool, writable: bool) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        if readable {
            match conn.fill() {
                Filled::Open => self.next_request(key),
                Filled::Ended if !conn.ended && !conn.lingering => {
                    conn.ended = true;
                    self.next_request(key);
                    if let Some(conn) = self.conns.get_mut(&key) {
                        conn.probe();
                        self.watch(key);
                        self.flush(key);
                    }
                }
                Filled::Ended | Filled::Broken => {
                    self.drop_conn(key, true);
                    return;
                }
            }
        }
        if writable {
            self.flush(key);
        }
    }

    /// Takes a complete request off the connection's input, when none is being served.
    pub(super) fn next_request(&mut self, key: usize) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        if conn.lingering || conn.after.is_some() {
            return;
        }
        if conn.active.is_some() {
            // Nobody needs that much in advance.
            if conn.input.len() > http::REQUEST_LIMIT {
                self.drop_conn(key, true);
            }
            return;
        }
        let now = raw_now();
        match http::parse(&conn.input) {
            Parsed::Partial { .. } if conn.ended => self.drop_conn(key, false),
            Parsed::Partial { .. } if conn.input.is_empty() => {}
            Parsed::Partial { .. } if conn.input.len() > http::REQUEST_LIMIT => {
                self.refuse(key, 413, "request too large", now);
            }
            Parsed::Partial { expects_continue } => {
                let first = conn.wake.is_none();
                if expects_continue && !conn.continued {
                    conn.continued = true;
                    conn.queue(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), 0, now);
                    self.flush(key);
                }
                if first {
                    self.set_timer(key, now.saturating_add(self.request_time_ns), Wake::Overdue);
                }
            }
            Parsed::Complete(request, used) => {
                conn.continued = false;
                conn.wake = None;
                conn.input.drain(..used);
                let (arrival, read_ns) = match conn.stamps {
                    Some(stamps) => (self.arrivals.arrival(stamps), stamps.read_ns),
                    None => (Arrival { at_ns: now, kernel: false }, now),
                };
                self.request(key, *request, arrival, read_ns);
            }
            Parsed::Bad(status, why) => self.refuse(key, status, why, now),
        }
    }

    /// Answers what is no request, or none that can be served, and ends the connection.
    fn refuse(&mut self, key: usize, status: u16, why: &str, due: u64) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        let body = error_body(status, http::reason(status), None, why);
        conn.input = Vec::new();
        conn.queue(http::answer(status, "application/json", None, false, &body), 0, due);
        conn.after = Some(After::Linger);
        self.flush(key);
    }

    /// Puts an answer's output on the wire.
    pub(super) fn deliver(&mut self, key: usize, output: Output, due: u64) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        for (bytes, tokens) in output.writes {
            conn.queue(bytes, tokens, due);
        }
        match output.then {
            Then::Continue => {}
            Then::Done => {
                let fault = conn.active.as_ref().and_then(|a| a.answer.as_ref()?.fault());
                let hang_up = matches!(fault, Some(Fault::HangUp));
                conn.after = Some(if hang_up { After::Close } else { After::Next });
            }
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
    pub(super) fn flush(&mut self, key: usize) {
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
            Some(After::Linger) => {
                conn.after = None;
                conn.lingering = true;
                let _ = conn.stream.shutdown(std::net::Shutdown::Write);
                if conn.ended {
                    self.drop_conn(key, false);
                } else {
                    self.set_timer(key, raw_now().saturating_add(LINGER_NS), Wake::Gone);
                }
            }
            Some(After::Reset) => {
                let _ = SockRef::from(&conn.stream).set_linger(Some(Duration::ZERO));
                self.drop_conn(key, false);
            }
        }
    }

    pub(super) fn drop_conn(&mut self, key: usize, disconnected: bool) {
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
