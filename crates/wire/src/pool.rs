//! The connections of one lane: opened, checked, lent to one exchange at a time, used again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use spec::{Connections, Nanos};

use crate::connect::{DialError, Dialer};
use crate::io::LaneTime;
use crate::line::Line;
use crate::reactor::Reactor;

/// A connection.
pub(crate) struct Conn {
    /// Its number on the lane.
    pub id: u32,
    /// What is spoken on.
    pub line: Rc<Line>,
    reactor: Rc<Reactor>,
    /// It has carried a request.
    pub used: bool,
    /// TCP handshake.
    pub connect: Nanos,
    /// TLS handshake.
    pub tls: Option<Nanos>,
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.reactor.remove(&self.line);
    }
}

/// The pool of one lane.
pub(crate) struct Pool {
    dialer: Arc<Dialer>,
    time: Rc<LaneTime>,
    reactor: Rc<Reactor>,
    policy: Connections,
    idle: RefCell<Vec<Conn>>,
    next_id: Cell<u32>,
}

impl Pool {
    pub fn new(dialer: Arc<Dialer>, time: Rc<LaneTime>, reactor: Rc<Reactor>, policy: Connections) -> Self {
        Pool { dialer, time, reactor, policy, idle: RefCell::new(Vec::new()), next_id: Cell::new(0) }
    }

    /// An idle connection that still stands, the one used last first.
    pub fn take_idle(&self) -> Option<Conn> {
        loop {
            let conn = self.idle.borrow_mut().pop()?;
            if conn.line.stands() {
                return Some(conn);
            }
        }
    }

    /// Opens a connection.
    pub async fn open(&self) -> Result<Conn, DialError> {
        let dialed = self.dialer.dial(&self.time).await?;
        let failed = |error: std::io::Error| DialError::Connect(error.to_string());
        drop(dialed.ear);
        let (socket, tls) = dialed.stream.into_parts().map_err(failed)?;
        let line = Line::new(socket, tls);
        self.reactor.add(&line).map_err(failed)?;
        let id = self.next_id.get();
        self.next_id.set(id.wrapping_add(1));
        let reactor = self.reactor.clone();
        Ok(Conn { id, line, reactor, used: false, connect: dialed.connect, tls: dialed.tls })
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
