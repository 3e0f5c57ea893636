//! The connections of one lane: opened, checked, lent to one exchange at a time, used again.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use spec::{Connections, Nanos};

use crate::connect::{DialError, Dialer};
use crate::io::{Ear, LaneTime, Stream};

/// The body of a request: bytes that exist before the request is due.
pub(crate) type Body = Full<Bytes>;
type Driver = Pin<Box<http1::Connection<Stream, Body>>>;

/// Heads of answers may have this many fields.
const MAX_HEADERS: usize = 256;

/// A connection and what drives it. Whoever holds it polls the driver in his own task, so that a
/// read and the bytes it brought are seen together.
pub(crate) struct Conn {
    /// Its number on the lane.
    pub id: u32,
    /// To send on.
    pub sender: SendRequest<Body>,
    driver: Option<Driver>,
    /// The stamps.
    pub ear: Rc<Ear>,
    /// It has carried a request.
    pub used: bool,
    /// TCP handshake.
    pub connect: Nanos,
    /// TLS handshake.
    pub tls: Option<Nanos>,
}

impl Conn {
    /// Lets hyper read and write. `Ready`: the connection is over.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<hyper::Error>> {
        let Some(driver) = self.driver.as_mut() else { return Poll::Ready(None) };
        match driver.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(end) => {
                self.driver = None;
                Poll::Ready(end.err())
            }
        }
    }
    /// Can take a request now.
    fn is_usable(&mut self) -> bool {
        let ended = self.poll(&mut Context::from_waker(Waker::noop())).is_ready();
        !ended && self.sender.is_ready()
    }
    /// Still stands after a time of idleness, as far as one can know on this side.
    fn is_alive(&mut self) -> bool {
        self.ear.stands() != Some(false) && self.is_usable()
    }
}

/// The pool of one lane.
pub(crate) struct Pool {
    dialer: Arc<Dialer>,
    time: Rc<LaneTime>,
    policy: Connections,
    idle: RefCell<Vec<Conn>>,
    next_id: Cell<u32>,
}

impl Pool {
    pub fn new(dialer: Arc<Dialer>, time: Rc<LaneTime>, policy: Connections) -> Self {
        Pool { dialer, time, policy, idle: RefCell::new(Vec::new()), next_id: Cell::new(0) }
    }

    /// An idle connection that still stands, the one used last first.
    pub fn take_idle(&self) -> Option<Conn> {
        loop {
            let mut conn = self.idle.borrow_mut().pop()?;
            if conn.is_alive() {
                return Some(conn);
            }
        }
    }

    /// Opens a connection.
    pub async fn open(&self) -> Result<Conn, DialError> {
        let dialed = self.dialer.dial(&self.time).await?;
        let (sender, driver) = http1::Builder::new()
            .max_headers(MAX_HEADERS)
            .handshake(dialed.stream)
            .await
            .map_err(|e| DialError::Connect(e.to_string()))?;
        let id = self.next_id.get();
        self.next_id.set(id.wrapping_add(1));
        let driver = Some(Box::pin(driver));
        Ok(Conn {
            id,
            sender,
            driver,
            ear: dialed.ear,
            used: false,
            connect: dialed.connect,
            tls: dialed.tls,
        })
    }

    /// Takes a connection back after a complete answer, if the policy and its state allow it.
    pub fn give_back(&self, mut conn: Conn) {
        conn.used = true;
        if self.policy != Connections::Fresh && conn.is_usable() {
            self.idle.borrow_mut().push(conn);
        }
    }

    /// Opens a connection ahead of the first request.
    pub async fn prewarm(&self) -> Result<(), DialError> {
        let mut conn = self.open().await?;
        if conn.is_usable() {
            self.idle.borrow_mut().push(conn);
        }
        Ok(())
    }
}
