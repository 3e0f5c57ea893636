//! The life of one request: taken, looked at, given to the engine, answered, booked.

use std::sync::Arc;

use super::arrival::Arrival;
use super::conn::{Active, After, Wake, raw_now};
use super::http::{self, Request};
use super::prepare::{Endpoint, Prepared, Raw, error_body};
use super::server::Server;
use super::stream::{Answer, Output, Then};
use super::truth::TruthRow;
use crate::engine::{self, Rejection};
use crate::faults::Fault;

impl Server {
    /// A request that arrived at `arrival` and was read at `read_ns`.
    pub(super) fn request(&mut self, key: usize, request: Request, arrival: Arrival, read_ns: u64) {
        let endpoint = match (request.method.as_str(), request.path.trim_end_matches('/')) {
            ("POST", "/v1/chat/completions") => Endpoint::Chat,
            ("POST", "/v1/completions") => Endpoint::Completions,
            ("POST", "/tokenize") => Endpoint::Tokenize,
            (method, path) => {
                let (status, content_type, body) = self.page(method, path);
                let id = request.request_id.as_deref();
                let bytes = http::answer(status, content_type, id, request.keep_alive, &body);
                if let Some(conn) = self.conns.get_mut(&key) {
                    conn.queue(bytes, 0, arrival.at_ns);
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
        let slow = std::mem::take(&mut conn.slow);
        conn.active = Some(Box::new(Active {
            truth: TruthRow {
                request_id: request.request_id.clone().unwrap_or_else(|| format!("sim-{number}")),
                number,
                connection: conn.number,
                received_ns: arrival.at_ns,
                kernel: arrival.kernel,
                read_ns,
                fault: slow.then(|| "slow-accept".to_owned()),
                ..TruthRow::default()
            },
            answer: None,
            job: None,
            engine_finished: false,
            begin_ns: if slow { read_ns } else { arrival.at_ns },
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
    pub(super) fn prepared(&mut self, key: usize, number: u64, prepared: Prepared) {
        // The engine counts from the arrival: reading and looking at the request is the front's affair.
        let begin = self.conns.get(&key).and_then(|c| c.active.as_ref()).map_or(0, |a| a.begin_ns);
        let at = self.engine_time(begin);
        let Some(conn) = self.conns.get_mut(&key) else { return };
        let Some(active) = conn.active.as_mut().filter(|a| a.truth.number == number) else { return };
        let now = raw_now();
        let generation = match prepared {
            Prepared::Answer { status, body, fault } => {
                active.truth.strike(fault);
                self.answer_at(key, status, "application/json", &body, now);
                return;
            }
            Prepared::Generate(generation) => generation,
        };
        active.truth.strike(generation.fault);
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
        let job = self.engine.submit(at, answer.job().clone());
        active.truth.submitted_ns = now;
        active.job = Some(job);
        active.answer = Some(answer);
        self.jobs.insert(job, key);
        self.fresh.push((key, job));
    }

    /// Sends what a server sends before the first token, for jobs that the engine has not refused.
    pub(super) fn accept_jobs(&mut self) {
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
    pub(super) fn answer_at(&mut self, key: usize, status: u16, content_type: &str, body: &[u8], at: u64) {
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

    pub(super) fn run_engine(&mut self) {
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

    pub(super) fn started(&mut self, key: usize, cached: u32, due: u64) {
        if let Some(active) = self.conns.get_mut(&key).and_then(|c| c.active.as_mut()) {
            active.truth.started_ns = due;
            active.truth.cached_tokens = cached;
            if let Some(answer) = &mut active.answer {
                answer.cached = cached;
            }
            self.metrics.queue.observe(due.saturating_sub(active.truth.received_ns) as f64 / 1e9);
        }
    }

    pub(super) fn tokens(&mut self, key: usize, n: u32, last: bool, due: u64) {
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

    pub(super) fn rejected(&mut self, key: usize, why: Rejection, due: u64) {
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

    /// Closes the books of the request being served.
    pub(super) fn end_request(&mut self, key: usize, disconnected: bool) {
        let Some(conn) = self.conns.get_mut(&key) else { return };
        let Some(active) = conn.active.take() else { return };
        // What has come meanwhile counts from its turn.
        conn.stamps = None;
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
}
