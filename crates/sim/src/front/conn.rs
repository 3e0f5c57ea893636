//! One connection: bytes in, queued writes out, every write stamped just before the system call.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::TcpStream;

use clock::{ClockSource, SystemClocks};

use super::arrival::{self, Stamps};
use super::stream::Answer;
use super::truth::TruthRow;
use crate::engine::JobId;

/// `CLOCK_MONOTONIC`, nanoseconds.
pub fn raw_now() -> u64 {
    SystemClocks.monotonic_ns()
}

/// Reads of one connection in a row.
const READS: u32 = 16;

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// It may be read from.
    Accept,
    /// The prepared answer may be sent.
    Answer,
    /// The stall is over.
    Resume,
    /// The request should have been complete by now.
    Overdue,
    /// The client has had time enough to read the last words.
    Gone,
}

/// What is written when the queue is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The next request.
    Next,
    /// An orderly end.
    Close,
    /// An orderly end in the middle of a request: what still comes is thrown away, for with unread
    /// bytes the kernel would reset the connection, and the answer with it.
    Linger,
    /// A reset.
    Reset,
}

/// What a read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    /// The client may send more.
    Open,
    /// The client will send nothing more.
    Ended,
    /// The connection is broken.
    Broken,
}

/// Bytes that wait for the socket.
#[derive(Debug)]
struct Queued {
    bytes: Vec<u8>,
    offset: usize,
    tokens: u32,
    due: u64,
    /// Written down in the truth log.
    logged: bool,
}

/// A request that is being served.
#[derive(Debug)]
pub struct Active {
    /// What the log will say.
    pub truth: TruthRow,
    /// The answer, once the request has been looked at.
    pub answer: Option<Answer>,
    /// The engine's job, while it works.
    pub job: Option<JobId>,
    /// The engine has produced everything.
    pub engine_finished: bool,
    /// The engine counts from then, `CLOCK_MONOTONIC`: the arrival, but for a connection that was
    /// left alone at first.
    pub begin_ns: u64,
    /// HTTP/1.1.
    pub http11: bool,
    /// The client wants to use the connection again.
    pub keep_alive: bool,
    /// The client's id.
    pub request_id: Option<String>,
    /// Engine-side stamps for the metrics, raw ns.
    pub first_token: u64,
    /// The latest token.
    pub last_token: u64,
    /// Tokens produced by the engine.
    pub tokens: u32,
    /// A generation request, which the log and the metrics count.
    pub counted: bool,
}

/// One connection.
#[derive(Debug)]
pub struct Conn {
    /// The socket.
    pub stream: TcpStream,
    /// Number from 1, in order of acceptance.
    pub number: u64,
    /// It was left alone at first, and its first request shall say so.
    pub slow: bool,
    /// Bytes read and not yet used.
    pub input: Vec<u8>,
    /// Of the latest read, as long as its bytes may complete the next request.
    pub stamps: Option<Stamps>,
    /// The socket was known to be empty then; 0: never yet.
    empty_ns: u64,
    queue: VecDeque<Queued>,
    /// What follows when the queue is empty; `None`: more will come.
    pub after: Option<After>,
    /// The request being served.
    pub active: Option<Box<Active>>,
    /// The timer that is set.
    pub wake: Option<(u64, Wake)>,
    /// An answer that waits for its timer.
    pub delayed: Option<Vec<u8>>,
    /// The poller has been asked to tell when the socket takes more.
    pub wants_write: bool,
    /// The client has been told to go on with its body.
    pub continued: bool,
    /// The client has shut down its sending side, or is gone altogether.
    pub ended: bool,
    /// The last answer is out: whatever comes is thrown away.
    pub lingering: bool,
}

impl Conn {
    /// A fresh connection.
    pub fn new(stream: TcpStream, number: u64) -> Self {
        Self {
            stream,
            number,
            slow: false,
            input: Vec::new(),
            stamps: None,
            empty_ns: 0,
            queue: VecDeque::new(),
            after: None,
            active: None,
            wake: None,
            delayed: None,
            wants_write: false,
            continued: false,
            ended: false,
            lingering: false,
        }
    }

    /// Reads what is there, but not for ever: of a client that sends without end the rest waits.
    pub fn fill(&mut self) -> Filled {
        let mut buffer = [0u8; 64 * 1024];
        for _ in 0..READS {
            let before = raw_now();
            match arrival::receive(&self.stream, &mut buffer) {
                Ok((0, _)) => return Filled::Ended,
                Ok((n, wall_ns)) => {
                    let read_ns = raw_now();
                    if !self.lingering {
                        self.input.extend_from_slice(&buffer[..n]);
                    }
                    self.stamps = Some(Stamps { wall_ns, empty_ns: self.empty_ns, read_ns });
                    if n < buffer.len() {
                        self.empty_ns = before;
                        return Filled::Open;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.empty_ns = before;
                    return Filled::Open;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Filled::Broken,
            }
        }
        Filled::Open
    }

    /// Sends something that changes nothing to a client that has ended its sending side: if it is
    /// gone altogether, its system answers with a reset, and the server learns of it.
    pub fn probe(&mut self) {
        let Some(active) = self.active.as_ref().filter(|a| a.http11 && a.counted) else { return };
        if self.blocked() {
            return;
        }
        let bytes: &[u8] = match &active.answer {
            _ if active.truth.writes.is_empty() => b"HTTP/1.1 102 Processing\r\n\r\n",
            // A comment of the event stream.
            Some(answer) if answer.streaming() => b"3\r\n:\n\n\r\n",
            _ => return,
        };
        self.queue.push_back(Queued { bytes: bytes.to_vec(), offset: 0, tokens: 0, due: 0, logged: true });
    }

    /// Queues bytes for a write of their own.
    pub fn queue(&mut self, bytes: Vec<u8>, tokens: u32, due: u64) {
        self.queue.push_back(Queued { bytes, offset: 0, tokens, due, logged: false });
    }

    /// Whether bytes wait.
    pub fn blocked(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Writes as much as the socket takes, one write for each queued piece. `false`: the peer is gone.
    pub fn flush(&mut self) -> bool {
        while let Some(front) = self.queue.front_mut() {
            if !front.logged {
                front.logged = true;
                let stamp = raw_now();
                if let Some(active) = &mut self.active {
                    let truth = &mut active.truth;
                    if truth.first_write_ns == 0 {
                        truth.first_write_ns = stamp;
                    }
                    truth.writes.push((stamp, front.tokens));
                    truth.due_ns.push(front.due);
                }
            }
            match self.stream.write(&front.bytes[front.offset..]) {
                Ok(n) => {
                    front.offset += n;
                    if front.offset >= front.bytes.len() {
                        self.queue.pop_front();
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    // Nothing of it went out: it is stamped when it does.
                    if front.offset == 0 && front.logged {
                        front.logged = false;
                        if let Some(active) = &mut self.active {
                            let truth = &mut active.truth;
                            truth.writes.pop();
                            truth.due_ns.pop();
                            if truth.writes.is_empty() {
                                truth.first_write_ns = 0;
                            }
                        }
                    }
                    return true;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}
