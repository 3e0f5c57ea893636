//! The connections of one lane to one target: opened, checked, lent to one exchange at a time, used
//! again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;

use spec::{Connections, Nanos};

use crate::connect::{DialError, Dialer};
use crate::http2::Speaker;
use crate::io::LaneTime;
use crate::line::{End, Heard, Line, Progress};
use crate::reactor::Reactor;

/// A connection.
pub(crate) struct Conn {
    /// Its number on the lane.
    pub id: u32,
    /// What is spoken on it.
    pub voice: Voice,
    /// It has carried a request.
    pub used: bool,
    /// Until it could be used, TLS apart: TCP, and with HTTP/2 the server's settings.
    pub connect: Nanos,
    /// TLS handshake.
    pub tls: Option<Nanos>,
}

/// The protocol on a connection. One request at a time is under way on it.
pub(crate) enum Voice {
    /// HTTP/1.1, heard by the lane's reactor.
    Http1(Rc<Line>, Rc<Reactor>),
    /// HTTP/2, heard by the task that waits for the answer.
    Http2(Box<Speaker>),
}

impl Voice {
    /// Just before the first byte of the request went to the socket.
    pub fn write_begin(&self) -> Option<Nanos> {
        match self {
            Voice::Http1(line, _) => line.write_begin(),
            Voice::Http2(speaker) => speaker.write_begin(),
        }
    }
    /// How and when the answer ended, once it has.
    pub fn ended(&self, cx: &mut Context<'_>, time: &LaneTime) -> Option<(End, Nanos)> {
        match self {
            Voice::Http1(line, _) => line.ended(),
            Voice::Http2(speaker) => speaker.drive(cx, time),
        }
    }
    /// How far the answer is; the task is woken when that changes what is waited for.
    pub fn progress(&self, cx: &mut Context<'_>) -> Progress {
        match self {
            Voice::Http1(line, _) => line.progress(cx.waker()),
            Voice::Http2(speaker) => speaker.progress(),
        }
    }
    /// Stops listening; the answer as far as it came, and whether another request may follow.
    pub fn hang_up(&self) -> Option<(Heard, bool)> {
        match self {
            Voice::Http1(line, _) => line.hang_up(),
            Voice::Http2(speaker) => speaker.hang_up(),
        }
    }
    /// An idle connection still stands, as far as this side knows.
    fn stands(&self) -> bool {
        match self {
            Voice::Http1(line, _) => line.stands(),
            Voice::Http2(speaker) => speaker.stands(),
        }
    }
}

impl Drop for Voice {
    fn drop(&mut self) {
        if let Voice::Http1(line, reactor) = self {
            reactor.remove(line);
        }
    }
}

/// The pool of one lane for one target.
pub(crate) struct Pool {
    dialer: Arc<Dialer>,
    time: Rc<LaneTime>,
    reactor: Rc<Reactor>,
    policy: Connections,
    idle: RefCell<Vec<Conn>>,
    /// Numbers are given out by the lane.
    next_id: Rc<Cell<u32>>,
}

impl Pool {
    pub fn new(
        dialer: Arc<Dialer>,
        time: Rc<LaneTime>,
        reactor: Rc<Reactor>,
        policy: Connections,
        next_id: Rc<Cell<u32>>,
    ) -> Self {
        Pool { dialer, time, reactor, policy, idle: RefCell::new(Vec::new()), next_id }
    }

    /// An idle connection that still stands, the one used last first.
    pub fn take_idle(&self) -> Option<Conn> {
        loop {
            let conn = self.idle.borrow_mut().pop()?;
            if conn.voice.stands() {
                return Some(conn);
            }
        }
    }

    /// Opens a connection.
    pub async fn open(&self) -> Result<Conn, DialError> {
        let dialed = self.dialer.dial(&self.time).await?;
        let (mut connect, tls) = (dialed.connect, dialed.tls);
        let voice = if self.dialer.is_http2() {
            let stood = self.time.now();
            let speaker = Speaker::open(dialed).await?;
            connect += self.time.now().saturating_since(stood);
            Voice::Http2(Box::new(speaker))
        } else {
            let failed = |error: std::io::Error| DialError::Connect(error.to_string());
            drop(dialed.ear);
            let (socket, session) = dialed.stream.into_parts().map_err(failed)?;
            let line = Line::new(socket, session);
            self.reactor.add(&line).map_err(failed)?;
            Voice::Http1(line, self.reactor.clone())
        };
        let id = self.next_id.get();
        self.next_id.set(id.wrapping_add(1));
        Ok(Conn { id, voice, used: false, connect, tls })
    }

    /// Takes a connection back after a complete answer, if the policy allows it.
    pub fn give_back(&self, mut conn: Conn) {
        conn.used = true;
        if self.policy != Connections::Fresh {
            self.idle.borrow_mut().push(conn);
        }
    }

    /// Opens a connection ahead of the first request.
    pub async fn prewarm(&self) -> Result<(), DialError> {
        let conn = self.open().await?;
        self.idle.borrow_mut().push(conn);
        Ok(())
    }
}
