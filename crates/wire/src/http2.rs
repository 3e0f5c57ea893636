//! One HTTP/2 connection of a lane, which carries one request at a time.
//!
//! Whoever waits for an answer drives the connection in his own task, one read at a time, and takes
//! all that a read brought before the next one: so the stamp of the last read is that of each piece.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http2::{Builder, Connection, SendRequest};
use hyper::rt::{Executor, Read, ReadBufCursor, Write};
use record::State;
use spec::Nanos;

use crate::answer::AnswerBuilder;
use crate::ask::words;
use crate::connect::{DialError, Dialed};
use crate::http1::Fault;
use crate::io::{Ear, LaneTime, Stream};
use crate::line::{End, Heard, Progress};

type Body = Full<Bytes>;
type Task = Pin<Box<dyn Future<Output = ()>>>;
type Answering = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>>>>;

/// The connection.
pub(crate) struct Speaker(RefCell<Inner>);

struct Inner {
    sender: SendRequest<Body>,
    crew: Crew,
    ear: Rc<Ear>,
    gate: Rc<Gate>,
    hearing: Option<Hearing>,
    /// Nothing more can be asked on it.
    dead: bool,
}

/// An answer on its way in.
struct Hearing {
    answer: AnswerBuilder,
    response: Answering,
    body: Option<Incoming>,
    progress: Progress,
    write_end: Option<Nanos>,
}

impl Speaker {
    /// Over a new connection; waits for the server's settings, so that a server of another protocol
    /// is known before a request is lost on it.
    pub async fn open(dialed: Dialed) -> Result<Self, DialError> {
        let Dialed { ear, stream, .. } = dialed;
        let gate = Rc::new(Gate::default());
        let recruits = Recruits::default();
        let socket = Gated { stream, gate: gate.clone() };
        let other = |why: &str| {
            DialError::Connect(format!(
                "the server does not speak HTTP/2 ({why}); leave --http2 out, or name a port that speaks it \
                 (without TLS by prior knowledge)"
            ))
        };
        let (sender, connection) =
            Builder::new(recruits.clone()).handshake(socket).await.map_err(|e| other(&words(&e)))?;
        let crew =
            Crew { connection: Some(Box::pin(connection)), recruits, working: Vec::new(), failed: None };
        let mut inner = Inner { sender, crew, ear, gate, hearing: None, dead: false };
        poll_fn(|cx| {
            inner.turn(cx);
            if inner.crew.connection.is_none() {
                let why = inner.crew.failed.take();
                return Poll::Ready(Err(other(why.as_deref().unwrap_or("it closed the connection"))));
            }
            if inner.ear.reads() > 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await?;
        Ok(Speaker(RefCell::new(inner)))
    }

    /// An idle connection still stands, as far as this side knows.
    pub fn stands(&self) -> bool {
        let inner = &mut *self.0.borrow_mut();
        while inner.turn(&mut Context::from_waker(Waker::noop())) {}
        !inner.dead && inner.crew.connection.is_some() && inner.sender.is_ready()
    }

    /// Sends a request, and listens for its answer.
    pub fn begin(&self, request: Request<Body>, answer: AnswerBuilder, time: &LaneTime) {
        let inner = &mut *self.0.borrow_mut();
        inner.ear.arm();
        let response = Box::pin(inner.sender.send_request(request));
        let progress = Progress::begun(time.now());
        inner.hearing = Some(Hearing { answer, response, body: None, progress, write_end: None });
    }

    /// Drives the connection; how and when the answer ended, once it has.
    pub fn drive(&self, cx: &mut Context<'_>, time: &LaneTime) -> Option<(End, Nanos)> {
        let inner = &mut *self.0.borrow_mut();
        loop {
            let read = inner.turn(cx);
            let hearing = inner.hearing.as_mut()?;
            if let Some(end) = hearing.drain(cx, &inner.ear) {
                inner.dead |= !matches!(end, End::Clean);
                let at = if matches!(end, End::Clean) { inner.ear.last().seen } else { time.now() };
                return Some((end, at));
            }
            // Once the answer has begun, what is written is no part of the request.
            if !hearing.progress.head {
                hearing.write_end = inner.ear.write_end();
            }
            if !read {
                return None;
            }
        }
    }

    /// How far the answer is.
    pub fn progress(&self) -> Progress {
        self.0.borrow().hearing.as_ref().map(|hearing| hearing.progress).unwrap_or_default()
    }
    /// Just before the first byte of the request went to the socket.
    pub fn write_begin(&self) -> Option<Nanos> {
        self.0.borrow().ear.write_begin()
    }
    /// Stops listening; the answer as far as it came, and whether another request may follow.
    pub fn hang_up(&self) -> Option<(Heard, bool)> {
        let inner = &mut *self.0.borrow_mut();
        let hearing = inner.hearing.take()?;
        let whole = hearing.body.as_ref().is_some_and(|body| body.is_end_stream());
        // Frames of an answer that nobody hears would be stamped as those of the next.
        inner.dead |= !whole;
        // What is no part of an answer, such as a notice that the connection ends, is no read of it.
        let reads = if hearing.progress.head { inner.ear.reads() } else { 0 };
        let heard = Heard {
            answer: hearing.answer,
            write_begin: inner.ear.write_begin(),
            write_end: hearing.write_end,
            reads,
        };
        Some((heard, !inner.dead))
    }

    /// One question outside of the measurement.
    pub async fn ask(&self, request: Request<Body>) -> hyper::Result<Response<Incoming>> {
        let mut response = Box::pin(self.0.borrow_mut().sender.send_request(request));
        poll_fn(|cx| {
            while self.0.borrow_mut().turn(cx) {}
            response.as_mut().poll(cx)
        })
        .await
    }
    /// Drives the connection while the body of an answer is read.
    pub fn tend(&self, cx: &mut Context<'_>) {
        while self.0.borrow_mut().turn(cx) {}
    }
}

impl Inner {
    /// Lets the connection work, with one read at most. `true`: it read.
    fn turn(&mut self, cx: &mut Context<'_>) -> bool {
        self.gate.shut.set(false);
        self.crew.work(cx);
        let read = self.gate.shut.replace(true);
        if read {
            // What the read brought is handed on before the next one.
            self.crew.work(cx);
        }
        read
    }
}

impl Hearing {
    /// Takes everything that the last read brought.
    fn drain(&mut self, cx: &mut Context<'_>, ear: &Ear) -> Option<End> {
        loop {
            let Some(body) = &mut self.body else {
                match self.response.as_mut().poll(cx) {
                    Poll::Pending => return None,
                    Poll::Ready(Err(error)) => return Some(End::Lost(fault(&error))),
                    Poll::Ready(Ok(response)) => {
                        let (head, body) = response.into_parts();
                        self.answer.head(head.status.as_u16(), &head.headers, ear.last());
                        self.heard(ear);
                        self.body = Some(body);
                        continue;
                    }
                }
            };
            match Pin::new(body).poll_frame(cx) {
                Poll::Pending => return None,
                Poll::Ready(None) => return Some(End::Clean),
                Poll::Ready(Some(Err(error))) => return Some(End::Lost(fault(&error))),
                Poll::Ready(Some(Ok(frame))) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.answer.body(bytes, ear.last());
                        self.heard(ear);
                        if self.answer.has_failed() {
                            return Some(End::Cut(State::Cancelled));
                        }
                    }
                }
            }
        }
    }

    fn heard(&mut self, ear: &Ear) {
        self.progress = self.progress.after(&self.answer, ear.last().seen);
    }
}

/// A request with a `host` header and a path, as HTTP/2 puts it: with scheme and authority.
pub(crate) fn addressed<B>(mut request: Request<B>, tls: bool) -> Request<B> {
    let host = request.headers_mut().remove(http::header::HOST);
    let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let mut parts = request.uri().clone().into_parts();
    parts.scheme = Some(if tls { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = authority;
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    request
}

fn fault(error: &hyper::Error) -> Fault {
    match error.is_parse() {
        true => Fault::malformed(words(error)),
        false => Fault::early(words(error)),
    }
}

/// The tasks of a connection, worked on by whoever holds it.
struct Crew {
    connection: Option<Pin<Box<Connection<Gated, Body, Recruits>>>>,
    recruits: Recruits,
    working: Vec<Task>,
    /// Why the connection ended.
    failed: Option<String>,
}

impl Crew {
    /// In the order in which they came: the one that reads before those that wait for what it reads.
    fn work(&mut self, cx: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && let Poll::Ready(ended) = connection.as_mut().poll(cx)
        {
            self.connection = None;
            self.failed = ended.err().map(|error| words(&error));
        }
        self.working.append(&mut self.recruits.0.borrow_mut());
        self.working.retain_mut(|task| task.as_mut().poll(cx).is_pending());
    }
}

/// Tasks that the connection wants to be run.
#[derive(Clone, Default)]
struct Recruits(Rc<RefCell<Vec<Task>>>);

impl<F: Future<Output = ()> + 'static> Executor<F> for Recruits {
    fn execute(&self, task: F) {
        self.0.borrow_mut().push(Box::pin(task));
    }
}

/// Shut by a read, opened by whoever has taken what it brought.
#[derive(Default)]
struct Gate {
    shut: Cell<bool>,
}

/// A stream behind a gate.
struct Gated {
    stream: Stream,
    gate: Rc<Gate>,
}

impl Read for Gated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.gate.shut.get() {
            // Who shut it looks again.
            return Poll::Pending;
        }
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.gate.shut.set(read.is_ready());
        read
    }
}

impl Write for Gated {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
