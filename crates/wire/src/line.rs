//! One HTTP/1.1 connection of a lane: a request goes out, its answer is heard by the lane's
//! [`crate::reactor::Reactor`]. Plain or TLS, TCP or another stream socket.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::Waker;

use bytes::{Buf, Bytes};
use clock::{ClockSource, SystemClocks};
use record::State;
use rustls::ClientConnection;
use socket2::SockRef;
use spec::Nanos;

use crate::answer::AnswerBuilder;
use crate::http1::{Decoder, Fault, Piece};
use crate::io::{LaneTime, receive};
use crate::reactor::Look;
use crate::stamp::Stamp;

/// Reads of one line in a turn; then others have theirs.
const READS: u32 = 16;

/// How listening ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The body ended as HTTP says.
    Clean,
    /// The connection died or made no sense.
    Lost(Fault),
    /// We stopped listening.
    Cut(State),
}

/// The connection.
pub(crate) struct Line {
    socket: OwnedFd,
    slot: Cell<Option<usize>>,
    talk: RefCell<Talk>,
}

struct Talk {
    tls: Option<Box<ClientConnection>>,
    sending: Option<Sending>,
    hearing: Option<Hearing>,
    /// Nothing more can be sent or heard on it.
    dead: bool,
    write_begin: Option<Nanos>,
    write_end: Option<Nanos>,
    reads: u32,
    /// The socket held nothing at this moment, on `CLOCK_MONOTONIC`.
    empty_at: u64,
}

/// What is left of a request.
struct Sending {
    head: Bytes,
    body: Bytes,
}

/// An answer on its way in.
struct Hearing {
    decoder: Decoder,
    answer: AnswerBuilder,
    end: Option<(End, Nanos)>,
    progress: Progress,
    waker: Option<Waker>,
}

/// What time limits depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    /// When the last byte so far came; behind the protocol's very last event no byte counts.
    pub last_byte: Nanos,
    /// The head is complete.
    pub head: bool,
    /// Output has come.
    pub output: bool,
    /// The protocol's very last event has come.
    pub over: bool,
}

impl Progress {
    /// Nothing has come yet of what is asked now.
    pub fn begun(now: Nanos) -> Self {
        Progress { last_byte: now, ..Progress::default() }
    }
    /// With what a read at `at` added to `answer`.
    pub fn after(self, answer: &AnswerBuilder, at: Nanos) -> Self {
        Progress {
            last_byte: if self.over { self.last_byte } else { at },
            head: self.head || answer.has_head(),
            output: self.output || answer.has_output(),
            over: self.over || answer.is_closed(),
        }
    }
}

/// An answer that was listened to.
pub(crate) struct Heard {
    /// What came.
    pub answer: AnswerBuilder,
    /// Just before the first byte of the request went to the socket.
    pub write_begin: Option<Nanos>,
    /// Just after the last byte so far.
    pub write_end: Option<Nanos>,
    /// Reads that brought bytes.
    pub reads: u32,
}

impl Line {
    /// A connected socket that does not block, with the TLS session on it.
    pub fn new(socket: OwnedFd, tls: Option<ClientConnection>) -> Rc<Self> {
        let talk = Talk {
            tls: tls.map(|mut tls| {
                // A request is one piece however long; it is in memory anyway.
                tls.set_buffer_limit(None);
                Box::new(tls)
            }),
            sending: None,
            hearing: None,
            dead: false,
            write_begin: None,
            write_end: None,
            reads: 0,
            empty_at: SystemClocks.monotonic_ns(),
        };
        Rc::new(Line { socket, slot: Cell::new(None), talk: RefCell::new(talk) })
    }

    /// Its descriptor.
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
    /// The reactor knows it by this number.
    pub fn seat(&self, slot: usize) {
        self.slot.set(Some(slot));
    }
    /// The reactor forgets it.
    pub fn unseat(&self) -> Option<usize> {
        self.slot.take()
    }

    /// Whether bytes wait (1), the other side has closed (0), or neither (an error), without taking any.
    fn peek(&self) -> io::Result<usize> {
        let mut byte = [MaybeUninit::<u8>::uninit()];
        SockRef::from(&self.socket).recv_with_flags(&mut byte, libc::MSG_PEEK)
    }

    /// An idle connection still stands, as far as the kernel knows, and nothing unasked has come.
    pub fn stands(&self) -> bool {
        let peeked = self.peek();
        let silent = matches!(&peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        // With TLS, session tickets may wait.
        let talk = self.talk.borrow();
        !talk.dead && talk.sending.is_none() && (silent || (talk.tls.is_some() && matches!(peeked, Ok(1))))
    }

    /// Sends a request as far as the socket takes it, and listens for its answer.
    pub fn begin(&self, head: Vec<u8>, body: Bytes, answer: AnswerBuilder, time: &LaneTime) {
        let talk = &mut *self.talk.borrow_mut();
        (talk.write_begin, talk.write_end, talk.reads) = (None, None, 0);
        let progress = Progress::begun(time.now());
        talk.hearing =
            Some(Hearing { decoder: Decoder::default(), answer, end: None, progress, waker: None });
        talk.sending = Some(Sending { head: head.into(), body });
        if let Err(error) = talk.send(&self.socket, time) {
            talk.sending = None;
            // What the server had to say first is heard still.
            if !matches!(self.peek(), Ok(1)) {
                talk.end(End::Lost(Fault::early(error.to_string())), time.now());
            }
        }
    }

    /// How far the answer is; `waker` is woken when that changes what is waited for.
    pub fn progress(&self, waker: &Waker) -> Progress {
        let mut talk = self.talk.borrow_mut();
        match &mut talk.hearing {
            Some(hearing) => {
                if !hearing.waker.as_ref().is_some_and(|held| held.will_wake(waker)) {
                    hearing.waker = Some(waker.clone());
                }
                hearing.progress
            }
            None => Progress::default(),
        }
    }
    /// Just before the first byte of the request went to the socket.
    pub fn write_begin(&self) -> Option<Nanos> {
        self.talk.borrow().write_begin
    }
    /// How and when the answer ended, once it has.
    pub fn ended(&self) -> Option<(End, Nanos)> {
        self.talk.borrow_mut().hearing.as_mut()?.end.take()
    }
    /// Stops listening; the answer as far as it came, and whether another request may follow.
    pub fn hang_up(&self) -> Option<(Heard, bool)> {
        let talk = &mut *self.talk.borrow_mut();
        let hearing = talk.hearing.take()?;
        let again = !talk.dead && talk.sending.is_none() && hearing.decoder.can_go_on();
        // Whatever else comes on a line that is not at the end of an answer belongs to nobody.
        talk.dead = !again;
        let Talk { write_begin, write_end, reads, .. } = *talk;
        Some((Heard { answer: hearing.answer, write_begin, write_end, reads }, again))
    }

    /// Something happened on the socket. `true`: there is more to read than one turn takes.
    pub fn happened(&self, look: &mut Look<'_>, time: &LaneTime) -> bool {
        let talk = &mut *self.talk.borrow_mut();
        let mut unsent = None;
        if talk.sending.is_some()
            && let Err(error) = talk.send(&self.socket, time)
        {
            talk.sending = None;
            unsent = Some(Fault::early(error.to_string()));
        }
        for _ in 0..READS {
            let before = look.now;
            let (bytes, wall) = match receive(&self.socket, look.buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    talk.empty_at = before;
                    if let Some(fault) = unsent {
                        talk.end(End::Lost(fault), time.clock().at_raw(look.now));
                    }
                    return false;
                }
                Err(error) => {
                    talk.dead = true;
                    talk.end(End::Lost(Fault::early(error.to_string())), time.now());
                    return false;
                }
            };
            look.now = SystemClocks.monotonic_ns();
            if bytes == 0 {
                talk.closed(time.clock().at_raw(look.now));
                return false;
            }
            let stamp = time.stamp(look.now, wall, talk.empty_at, look.not_before, talk.reads);
            let drained = bytes < look.buffer.len();
            talk.came(&look.buffer[..bytes], stamp, &self.socket, time);
            if drained && !look.to_the_end {
                // Another segment is another event, so the call that would only say "nothing there"
                // is saved.
                talk.empty_at = before;
                return false;
            }
        }
        true
    }
}

impl Talk {
    /// Sends what the socket takes. An error: nothing more can be sent.
    fn send(&mut self, socket: &OwnedFd, time: &LaneTime) -> io::Result<()> {
        let Some(sending) = &mut self.sending else { return Ok(()) };
        if let Some(tls) = &mut self.tls {
            // TLS keeps a copy of its own.
            tls.writer().write_all(&std::mem::take(&mut sending.head))?;
            tls.writer().write_all(&std::mem::take(&mut sending.body))?;
            let sent = flush_tls(tls, socket, &mut self.write_begin, &mut self.write_end, time)?;
            if sent {
                self.sending = None;
            }
            return Ok(());
        }
        while sending.head.has_remaining() || sending.body.has_remaining() {
            let before = time.now();
            let parts = [IoSlice::new(&sending.head), IoSlice::new(&sending.body)];
            match SockRef::from(socket).send_vectored(&parts) {
                Ok(sent) => {
                    self.write_begin.get_or_insert(before);
                    self.write_end = Some(time.now());
                    let of_head = sent.min(sending.head.len());
                    sending.head.advance(of_head);
                    sending.body.advance(sent - of_head);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.sending = None;
        Ok(())
    }

    /// Bytes of one read.
    fn came(&mut self, bytes: &[u8], stamp: Stamp, socket: &OwnedFd, time: &LaneTime) {
        if self.tls.is_none() {
            return self.plain(bytes, stamp);
        }
        match self.decrypt(bytes) {
            Ok((plain, closed)) => {
                self.plain(&plain, stamp);
                if let Some(tls) = &mut self.tls
                    && tls.wants_write()
                    && self.sending.is_none()
                {
                    // An answer of TLS itself; if it cannot go now, it goes with the next request.
                    let _ = flush_tls(tls, socket, &mut None, &mut None, time);
                }
                if closed {
                    self.closed(stamp.seen);
                }
            }
            Err(error) => {
                self.dead = true;
                self.end(End::Lost(Fault::malformed(format!("TLS: {error}"))), stamp.seen);
            }
        }
    }

    /// The plain bytes within a read, and whether TLS ended with them.
    fn decrypt(&mut self, mut bytes: &[u8]) -> Result<(Vec<u8>, bool), io::Error> {
        let mut plain = Vec::new();
        let Some(tls) = &mut self.tls else { return Ok((plain, false)) };
        let mut closed = false;
        while !bytes.is_empty() && !closed {
            tls.read_tls(&mut bytes)?;
            closed = tls.process_new_packets().map_err(io::Error::other)?.peer_has_closed();
            match tls.reader().read_to_end(&mut plain) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
        Ok((plain, closed))
    }

    fn plain(&mut self, bytes: &[u8], stamp: Stamp) {
        // Of TLS, what only TLS is concerned with is no read of the answer.
        if bytes.is_empty() {
            return;
        }
        self.reads = self.reads.wrapping_add(1);
        let Some(hearing) = &mut self.hearing else {
            self.dead = true;
            return;
        };
        let Hearing { decoder, answer, progress, end, .. } = hearing;
        if end.is_some() {
            self.dead = true;
            return;
        }
        let fed = decoder.push(bytes, |piece| match piece {
            Piece::Head(status, fields) => answer.head(status, fields, stamp),
            Piece::Body(body) => answer.body(body, stamp),
        });
        let before = *progress;
        *progress = before.after(answer, stamp.seen);
        let changed = before != Progress { last_byte: before.last_byte, ..*progress };
        let ending = match fed {
            Err(fault) => Some(End::Lost(fault)),
            Ok(()) if decoder.is_done() => Some(End::Clean),
            Ok(()) if answer.has_failed() => Some(End::Cut(State::Cancelled)),
            Ok(()) => None,
        };
        match ending {
            Some(ending) => self.end(ending, stamp.seen),
            None if changed => hearing.wake(),
            None => {}
        }
    }

    /// The other side sends nothing more.
    fn closed(&mut self, at: Nanos) {
        if std::mem::replace(&mut self.dead, true) {
            return;
        }
        let tls_open = self.tls.as_mut().is_some_and(|tls| {
            // `false`: TLS was ended first, as it should be.
            tls.read_tls(&mut io::empty()).is_ok()
                && matches!(tls.reader().read(&mut [0]), Err(e) if e.kind() == io::ErrorKind::UnexpectedEof)
        });
        let Some(hearing) = &mut self.hearing else { return };
        let end = match hearing.decoder.close() {
            Ok(()) if tls_open => End::Lost(Fault::early("the connection was closed without an end of TLS")),
            Ok(()) => End::Clean,
            Err(fault) => End::Lost(fault),
        };
        self.end(end, at);
    }

    /// The answer has ended; the first end holds.
    fn end(&mut self, end: End, at: Nanos) {
        if let Some(hearing) = &mut self.hearing
            && hearing.end.is_none()
        {
            hearing.end = Some((end, at));
            hearing.wake();
        }
    }
}

impl Hearing {
    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

/// Sends what TLS has to send. `true`: all of it went.
fn flush_tls(
    tls: &mut ClientConnection,
    socket: &OwnedFd,
    write_begin: &mut Option<Nanos>,
    write_end: &mut Option<Nanos>,
    time: &LaneTime,
) -> io::Result<bool> {
    while tls.wants_write() {
        let before = time.now();
        match tls.write_tls(&mut &*SockRef::from(socket)) {
            Ok(_) => {
                write_begin.get_or_insert(before);
                *write_end = Some(time.now());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
