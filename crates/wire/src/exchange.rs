//! One request from its first byte to the end of its answer, whatever happens to it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use record::{Connection, FailureClass, Oddity, Request, State, TimeoutKind};
use spec::{Dialect, Nanos, Secret, Targets, Timeouts};

use crate::answer::{AnswerBuilder, EndOfBody, Expect};
use crate::connect::DialError;
use crate::io::LaneTime;
use crate::line::{End, Progress};
use crate::live::Live;
use crate::outgoing::{Order, failed, timed_out};
use crate::pool::Conn;
use crate::sse::DEFAULT_LIMIT;
use crate::station::Station;

/// Once the protocol's very last event has come, the end of the body may take this long.
const AFTER_LAST: Nanos = Nanos::from_secs(1);

/// What every exchange of a lane shares.
pub(crate) struct Desk {
    pub lane: u16,
    pub time: Rc<LaneTime>,
    /// In the order of the targets.
    pub stations: Vec<Station>,
    pub targets: Targets,
    pub timeouts: Timeouts,
    pub retries: u32,
    pub dialect: Dialect,
    pub run_id: Arc<str>,
    pub secrets: Arc<[Secret]>,
    pub live: Arc<Live>,
    pub flight: Flight,
}

impl Desk {
    /// The target of a request.
    fn station(&self, order: &Order) -> &Station {
        &self.stations[self.targets.dealt(order.outgoing.intent.seq)]
    }
}

/// The requests under way on a lane, so that all of them can be cut.
#[derive(Default)]
pub(crate) struct Flight {
    cut: Cell<bool>,
    wakers: RefCell<HashMap<u64, Waker>>,
    next: Cell<u64>,
}

impl Flight {
    /// Everything under way ends now, and nothing begins any more.
    pub fn cut(&self) {
        self.cut.set(true);
        for waker in self.wakers.borrow().values() {
            waker.wake_by_ref();
        }
    }
    pub fn is_cut(&self) -> bool {
        self.cut.get()
    }
    /// Runs `task`, which looks at [`Flight::is_cut`] each time it is polled, so that a cut wakes it.
    pub async fn listed<F: Future>(&self, task: F) -> F::Output {
        let key = self.next.get();
        self.next.set(key + 1);
        let mut task = pin!(task);
        let mut listed = false;
        let output = poll_fn(|cx| {
            if !std::mem::replace(&mut listed, true) {
                self.wakers.borrow_mut().insert(key, cx.waker().clone());
            }
            task.as_mut().poll(cx)
        })
        .await;
        self.wakers.borrow_mut().remove(&key);
        output
    }
    /// `None`: cut before `future` was ready. To be used inside of [`Flight::listed`].
    pub async fn unless_cut<F: Future>(&self, future: F) -> Option<F::Output> {
        self.within(None, future).await.ok()
    }
    /// The same with a time limit.
    async fn within<F: Future>(&self, limit: Option<Nanos>, future: F) -> Result<F::Output, Cutoff> {
        let mut future = pin!(future);
        let mut alarm = limit.map(|limit| Box::pin(tokio::time::sleep(limit.duration())));
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            if self.is_cut() {
                return Poll::Ready(Err(Cutoff::Cut));
            }
            match &mut alarm {
                Some(alarm) => alarm.as_mut().poll(cx).map(|()| Err(Cutoff::Limit)),
                None => Poll::Pending,
            }
        })
        .await
    }
}

enum Cutoff {
    Cut,
    Limit,
}

/// One request with its attempts; gives its row and the text of the answer. Runs inside of
/// [`Flight::listed`].
pub(crate) async fn exchange(
    desk: &Desk,
    order: &Order,
    admitted: Option<Nanos>,
) -> (Request, Option<String>) {
    let due = order.intended.max(admitted.unwrap_or_default());
    desk.live.enter(desk.time.now().saturating_since(due));
    let mut first_write = None;
    let mut number = 1;
    let result = loop {
        let mut row = order.row(desk.lane);
        row.admitted = admitted;
        row.attempts = number;
        row.write_begin = first_write;
        let text = attempt(desk, order, &mut row).await;
        let again =
            matches!(row.state, State::Failed { .. }) && number <= desk.retries && !desk.flight.is_cut();
        if !again {
            break (row, text);
        }
        first_write = row.write_begin;
        number += 1;
    };
    desk.live.leave();
    result
}

async fn attempt(desk: &Desk, order: &Order, row: &mut Request) -> Option<String> {
    let station = desk.station(order);
    let idle = station.pool.take_idle();
    let mut waited = idle.is_none();
    let mut conn = match idle {
        Some(conn) => conn,
        None => open(desk, station, row).await?,
    };
    if row.attempts == 1 {
        desk.live.sent();
    }
    let mut stale = 0;
    loop {
        let reused = conn.used;
        row.connection = Some(Connection {
            id: conn.id,
            reused,
            connect: (!reused).then_some(conn.connect),
            tls: conn.tls.filter(|_| !reused),
            ahead: !reused && !waited,
            stale,
        });
        let answer = AnswerBuilder::new(Expect {
            dialect: desk.dialect,
            stream: order.outgoing.asked.stream,
            usage: order.outgoing.asked.usage,
            prompt: order.outgoing.text.clone(),
            secrets: desk.secrets.clone(),
            limit: DEFAULT_LIMIT,
        });
        // Before the wait: while it lasts the answer is the connection's, and takes its room once.
        let started = desk.time.now();
        let (id, body) = (identity(desk, order, row.attempts), order.outgoing.body.clone());
        station.begin(&conn.voice, &id, body, answer, &desk.time);
        let (end, closed) = listen(desk, order, row, &conn, started).await;
        let (heard, again) = conn.voice.hang_up()?;
        row.write_begin = row.write_begin.or(heard.write_begin);
        row.write_end = heard.write_end;
        if let End::Lost(_) = &end
            && reused
            && heard.reads == 0
            && !desk.flight.is_cut()
        {
            // The server had closed it while idle. The clock runs on; the record says so.
            drop(heard);
            stale += 1;
            waited = true;
            conn = open(desk, station, row).await?;
            continue;
        }
        let malformed = matches!(&end, End::Lost(fault) if fault.malformed);
        let mut answer = heard.answer;
        answer.end(
            match end {
                End::Clean => EndOfBody::Clean,
                End::Lost(fault) => EndOfBody::Broken(fault.words),
                End::Cut(state) => EndOfBody::Cut(state),
            },
            Some(closed),
        );
        if again {
            station.pool.give_back(conn);
        }
        let text = answer.fold(row);
        if malformed && let State::Failed { class: class @ FailureClass::Truncated, .. } = &mut row.state {
            *class = FailureClass::Protocol;
        }
        return text;
    }
}

/// A new connection within the limit; `None`: the row says why not.
async fn open(desk: &Desk, station: &Station, row: &mut Request) -> Option<Conn> {
    // In a box: thousands of requests wait for answers, few for a connection, and this takes more room.
    let opened = Box::pin(desk.flight.within(desk.timeouts.connect.0, station.pool.open())).await;
    row.state = match opened {
        Ok(Ok(conn)) => return Some(conn),
        Ok(Err(DialError::Connect(words))) => failed(FailureClass::Connect, words),
        Ok(Err(DialError::Tls(words))) => failed(FailureClass::Tls, words),
        Ok(Err(DialError::OwnLimit(words))) => {
            row.oddities.push(Oddity::OwnLimit);
            failed(FailureClass::Connect, words)
        }
        Err(Cutoff::Limit) => timed_out(TimeoutKind::Connect),
        Err(Cutoff::Cut) => State::Cancelled,
    };
    row.closed = Some(desk.time.now());
    None
}

/// The identity of an attempt: `RUN-SEQ`, and its number where it is not the first.
fn identity(desk: &Desk, order: &Order, attempt: u32) -> String {
    let seq = order.outgoing.intent.seq;
    match attempt {
        0 | 1 => format!("{}-{seq}", desk.run_id),
        attempt => format!("{}-{seq}-{attempt}", desk.run_id),
    }
}

/// Waits for the end of the answer, within the limits; how it ended, and when.
async fn listen(desk: &Desk, order: &Order, row: &Request, conn: &Conn, started: Nanos) -> (End, Nanos) {
    let voice = &conn.voice;
    let mut alarm = pin!(None::<tokio::time::Sleep>);
    let mut armed = Nanos::MAX;
    poll_fn(|cx| {
        if let Some(ended) = voice.ended(cx, &desk.time) {
            return Poll::Ready(ended);
        }
        if desk.flight.is_cut() {
            return Poll::Ready((End::Cut(State::Cancelled), desk.time.now()));
        }
        loop {
            let heard = Heard {
                begin: row.write_begin.or(voice.write_begin()).unwrap_or(started),
                progress: voice.progress(cx),
                stream: order.outgoing.asked.stream,
            };
            let Some((deadline, state)) = heard.deadline(&desk.timeouts) else { return Poll::Pending };
            if deadline < armed {
                let now = desk.time.now();
                if deadline <= now {
                    return Poll::Ready((End::Cut(state), now));
                }
                alarm.set(Some(tokio::time::sleep(deadline.saturating_since(now).duration())));
                armed = deadline;
            }
            // The alarm may be set for an earlier deadline than the present one: look again then.
            match alarm.as_mut().as_pin_mut().map(|alarm| alarm.poll(cx)) {
                Some(Poll::Ready(())) => armed = Nanos::MAX,
                _ => return Poll::Pending,
            }
        }
    })
    .await
}

/// What the limits look at.
struct Heard {
    begin: Nanos,
    progress: Progress,
    stream: bool,
}

impl Heard {
    /// The next limit and the state behind it. `first_token` counts for streams only: without a
    /// stream the first output is the last. `idle` counts once the answer has begun: with the first
    /// output, or without a stream with the head; before, a server may think in silence.
    fn deadline(&self, limits: &Timeouts) -> Option<(Nanos, State)> {
        let after = |from: Nanos, limit: Option<Nanos>| limit.map(|limit| from + limit);
        let total = after(self.begin, limits.total.0).map(|at| (at, TimeoutKind::Total));
        let Progress { last_byte, head, output, over } = self.progress;
        if over {
            return Some((last_byte + AFTER_LAST, State::Cancelled));
        }
        let begun = output || (!self.stream && head);
        let silence = if begun {
            after(last_byte, limits.idle.0).map(|at| (at, TimeoutKind::Stalled))
        } else if self.stream {
            after(self.begin, limits.first_token.0).map(|at| (at, TimeoutKind::FirstToken))
        } else {
            None
        };
        let next = match (total, silence) {
            (Some(a), Some(b)) => Some(if b.0 < a.0 { b } else { a }),
            (a, b) => a.or(b),
        };
        next.map(|(at, kind)| (at, timed_out(kind)))
    }
}

#[cfg(test)]
mod tests {
    use spec::Limit;

    use super::*;

    fn heard(head: bool, output: bool, over: bool, stream: bool) -> Option<(u64, State)> {
        let ms = |ms| Limit(Some(Nanos::from_millis(ms)));
        let limits = Timeouts { connect: ms(1), first_token: ms(300), idle: ms(60), total: ms(500) };
        let progress = Progress { last_byte: Nanos::from_millis(100), head, output, over };
        let at = Heard { begin: Nanos::from_millis(10), progress, stream };
        at.deadline(&limits).map(|(at, state)| (at.0 / 1_000_000, state))
    }

    #[test]
    fn each_limit_has_its_time() {
        let timed = |kind| State::TimedOut { limit: kind };
        assert_eq!(heard(false, false, false, true), Some((310, timed(TimeoutKind::FirstToken))));
        // Headers alone begin no stream: llama.cpp sends them milliseconds after the request.
        assert_eq!(heard(true, false, false, true), Some((310, timed(TimeoutKind::FirstToken))));
        assert_eq!(heard(true, true, false, true), Some((160, timed(TimeoutKind::Stalled))));
        assert_eq!(heard(false, false, false, false), Some((510, timed(TimeoutKind::Total))));
        assert_eq!(heard(true, false, false, false), Some((160, timed(TimeoutKind::Stalled))));
        assert_eq!(heard(true, true, true, true), Some((1_100, State::Cancelled)));
    }

    #[test]
    fn limits_can_be_off() {
        let off = Timeouts {
            connect: Limit(None),
            first_token: Limit(None),
            idle: Limit(None),
            total: Limit(None),
        };
        let progress = Progress { last_byte: Nanos::ZERO, head: true, output: true, over: false };
        let at = Heard { begin: Nanos::ZERO, progress, stream: true };
        assert_eq!(at.deadline(&off), None);
    }
}
