//! A server that does what a test tells it, byte by byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A link that is only held open ends at last, should the client never leave.
const HELD: Duration = Duration::from_secs(30);

/// What becomes of a connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    Keep,
    Close,
}

/// A server with one thread for each connection. It stops when dropped.
pub struct Scripted {
    pub url: String,
    address: SocketAddr,
    /// The numbers of the requests that were read whole, in that order.
    pub asked: Arc<Mutex<Vec<u64>>>,
    stop: Arc<AtomicBool>,
}

/// One connection as the server has it.
pub struct Link {
    /// Connections before this one.
    pub connection: u64,
    stream: TcpStream,
    /// Read, but not yet part of a request.
    read: Vec<u8>,
    asked: Arc<Mutex<Vec<u64>>>,
}

impl Scripted {
    /// Calls `serve` with every connection, before anything is read from it.
    pub fn start(serve: impl Fn(&mut Link) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("an address");
        let (asked, stop) = (Arc::<Mutex<Vec<u64>>>::default(), Arc::<AtomicBool>::default());
        let (all, stopped, serve) = (asked.clone(), stop.clone(), Arc::new(serve));
        std::thread::spawn(move || {
            for (connection, stream) in (0..).zip(listener.incoming().flatten()) {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                stream.set_nodelay(true).expect("set");
                let mut link = Link { connection, stream, read: Vec::new(), asked: all.clone() };
                let serve = serve.clone();
                std::thread::spawn(move || serve(&mut link));
            }
        });
        Self { url: format!("http://{address}"), address, asked, stop }
    }

    /// Calls `answer` with every request's number.
    pub fn answering(answer: impl Fn(&mut Link, u64) -> After + Send + Sync + 'static) -> Self {
        Self::start(move |link| {
            while let Some(number) = link.request() {
                if answer(link, number) == After::Close {
                    return;
                }
            }
        })
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl Link {
    /// Reads a whole request and gives its number in the plan; `None`: the client has gone.
    pub fn request(&mut self) -> Option<u64> {
        loop {
            if let Some(end) = self.read.windows(4).position(|w| w == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&self.read[..end]).to_ascii_lowercase();
                let field = |name: &str| {
                    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
                };
                let whole = end + 4 + field("content-length").map_or(0, |n| n.parse().expect("a length"));
                if self.read.len() >= whole {
                    let id = field("x-request-id").expect("requests carry their number");
                    let number = id.rsplit('-').next().and_then(|n| n.parse().ok()).expect("a number");
                    self.read.drain(..whole);
                    self.asked.lock().expect("no panic").push(number);
                    return Some(number);
                }
            }
            if self.more() == 0 {
                return None;
            }
        }
    }

    /// Reads until at least so many bytes of a request are there.
    pub fn part(&mut self, bytes: usize) {
        while self.read.len() < bytes && self.more() > 0 {}
    }

    fn more(&mut self) -> usize {
        let mut buffer = [0; 16 << 10];
        let n = self.stream.read(&mut buffer).unwrap_or(0);
        self.read.extend_from_slice(&buffer[..n]);
        n
    }

    /// Writes; `false`: the client has gone, which is what some tests are about.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Writes `piece` again and again, `bytes` bytes in all.
    pub fn flood(&mut self, piece: &[u8], bytes: usize) {
        let block = piece.repeat((256 << 10) / piece.len());
        let mut left = bytes;
        while left > 0 && self.send(&block[..left.min(block.len())]) {
            left = left.saturating_sub(block.len());
        }
    }

    /// Writes `piece` every so often, for as long as the client listens.
    pub fn drip(&mut self, piece: impl AsRef<[u8]>, every: Duration) {
        let mut left = HELD.as_millis() / every.as_millis();
        while left > 0 && self.send(piece.as_ref()) {
            left -= 1;
            std::thread::sleep(every);
        }
    }

    /// Ends this side of the connection and keeps on reading.
    pub fn half_close(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// The connection, when it is dropped, is reset instead of closed.
    pub fn reset(&mut self) -> After {
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).expect("set");
        After::Close
    }

    /// Keeps the connection open, silent, until the client leaves.
    pub fn hold(&mut self) -> After {
        self.stream.set_read_timeout(Some(HELD)).expect("set");
        while self.more() > 0 {
            self.read.clear();
        }
        After::Close
    }
}

pub fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// The head of a streamed answer.
pub const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// What a good answer says, with characters of two and of four bytes.
pub const TEXT: [&str; 3] = ["Grüße ", "an 🦀", " 你好"];

/// One HTTP chunk.
pub fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// The event of a piece of answer `number`.
pub fn token(number: u64, text: &str) -> String {
    format!(
        "data: {{\"id\":\"answer-{number}\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"
    )
}

/// The event with the finish reason and the token counts.
pub fn finish() -> String {
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}],\
     \"usage\":{\"prompt_tokens\":3,\"completion_tokens\":3}}\n\n"
        .to_owned()
}

pub const DONE: &str = "data: [DONE]\n\n";

/// The events of a good answer, apart.
pub fn events(number: u64) -> Vec<String> {
    TEXT.iter().map(|text| token(number, text)).chain([finish(), DONE.to_owned()]).collect()
}

/// A good answer: head, five events in chunks of their own, the end of the body.
pub fn good(number: u64) -> String {
    let chunks: String = events(number).iter().map(|event| chunk(event)).collect();
    format!("{HEAD}{chunks}0\r\n\r\n")
}

/// A whole answer with a length, of any status.
pub fn plain(status: &str, fields: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{fields}content-length: {}\r\n\r\n{body}", body.len())
}
