//! A server of plain threads that does what a test tells it, and a run against it.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

pub mod http2;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clock::{ClockSource, SystemClocks};
use record::{Entry, Footer, InputTokens, PromptIdentity, Request};
use spec::*;
use wire::dialect::{Adaptation, PromptRef, body};
use wire::{Drive, Live, Outgoing, Output, Session};

/// A request as the server read it.
#[derive(Debug, Clone)]
pub struct Asked {
    pub head: String,
    pub body: String,
    /// Where it came from.
    pub peer: SocketAddr,
    /// Connections before this one.
    pub connection: u32,
    /// Requests on this connection before this one.
    pub on_connection: u32,
    /// Requests before this one.
    pub number: u32,
}

/// What the connection is after an answer.
pub enum After {
    Keep,
    Close,
}

pub struct Server {
    pub address: SocketAddr,
    pub asked: Arc<Mutex<Vec<Asked>>>,
    stop: Arc<AtomicBool>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl Server {
    /// Starts it; `answer` is called for every request, on the connection's thread.
    pub fn start(answer: impl Fn(&Asked, &mut TcpStream) -> After + Send + Sync + 'static) -> Server {
        Server::start_on("127.0.0.1:0", answer)
    }
    /// The same on another address.
    pub fn start_on(
        address: &str,
        answer: impl Fn(&Asked, &mut TcpStream) -> After + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server { address, asked: Arc::default(), stop: Arc::default() };
        let (asked, stop) = (server.asked.clone(), server.stop.clone());
        let answer = Arc::new(answer);
        let number = Arc::new(AtomicU32::new(0));
        std::thread::spawn(move || {
            for (connection, stream) in (0..).zip(listener.incoming()) {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = stream.unwrap();
                stream.set_nodelay(true).unwrap();
                let (asked, answer, number) = (asked.clone(), answer.clone(), number.clone());
                std::thread::spawn(move || {
                    let peer = stream.peer_addr().unwrap();
                    let mut on_connection = 0;
                    while let Some((head, body)) = read_request(&mut stream) {
                        let number = number.fetch_add(1, Ordering::SeqCst);
                        let request = Asked { head, body, peer, connection, on_connection, number };
                        asked.lock().unwrap().push(request.clone());
                        if matches!(answer(&request, &mut stream), After::Close) {
                            return;
                        }
                        on_connection += 1;
                    }
                });
            }
        });
        server
    }
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
    pub fn connections(&self) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|a| a.connection).collect::<std::collections::BTreeSet<_>>().len()
    }
}

/// TLS for `localhost`, below the root in `tests/data/tls-root.pem`.
pub fn tls_config() -> rustls::ServerConfig {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let leaf = CertificateDer::from_pem_slice(include_bytes!("../data/tls-leaf.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../data/tls-leaf.key")).unwrap();
    rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf], key)
        .unwrap()
}

pub fn read_request(stream: &mut impl Read) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let mut buf = [0; 4096];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break end;
        }
        match stream.read(&mut buf) {
            Ok(n) if n > 0 => bytes.extend_from_slice(&buf[..n]),
            _ => return None,
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let length: usize = head
        .lines()
        .find_map(|l| {
            l.to_ascii_lowercase().strip_prefix("content-length:").map(|v| v.trim().parse().unwrap())
        })
        .unwrap_or(0);
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length {
        match stream.read(&mut buf) {
            Ok(n) if n > 0 => body.extend_from_slice(&buf[..n]),
            _ => return None,
        }
    }
    Some((head, String::from_utf8(body).unwrap()))
}

pub const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// One HTTP chunk.
pub fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}
/// One event with one piece of the answer.
pub fn token(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
}
pub fn finish(tokens: u32) -> String {
    format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"length\"}}],\"usage\":{{\"prompt_tokens\":3,\"completion_tokens\":{tokens}}}}}\n\ndata: [DONE]\n\n"
    )
}
/// A whole good streamed answer of `tokens` tokens, at once.
pub fn whole(tokens: u32) -> String {
    let mut text = STREAM_HEAD.to_owned();
    for i in 0..tokens {
        text += &chunk(&token(&format!("t{i} ")));
    }
    text + &chunk(&finish(tokens)) + "0\r\n\r\n"
}
pub fn plain(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}
pub fn put(stream: &mut impl Write, text: &str) {
    // The client may have gone, which is what some tests are about.
    let _ = stream.write_all(text.as_bytes());
    let _ = stream.flush();
}
pub fn sleep_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}
pub fn raw_now() -> u64 {
    SystemClocks.monotonic_ns()
}

pub fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

pub fn closed(concurrency: u32) -> Load {
    Load::Closed(Closed { concurrency, think: Span::default(), start_over: Span::default() })
}
pub fn open(rate: &str, burstiness: Burstiness, cap: Option<u32>) -> Load {
    Load::Open(Open { rate: rate.parse().unwrap(), burstiness, cap, ramp: None })
}

pub fn spec(url: &str, load: Load, measure: Extent) -> Spec {
    Spec {
        target: url.parse().unwrap(),
        api: Api {
            dialect: Dialect::Chat,
            stream: true,
            model: Some("m".into()),
            path: None,
            headers: Default::default(),
            key: None,
            extra_body: Default::default(),
            sampling: Default::default(),
            length: LengthControl { field: MaxField::MaxTokens, force: Force::Auto },
            ask_usage: true,
            readiness: Readiness { check: false, path: "/v1/models".into(), wait: Span(ms(300)) },
            tls: Default::default(),
        },
        workload: Workload {
            source: Source::Synthetic,
            isl: Lengths::Fixed(3),
            osl: Lengths::Fixed(4),
            cache: CacheProtocol::Unique,
            tokenizer: TokenizerChoice::None,
        },
        load,
        phases: Phases { warmup: Warmup::None, measure, drain: Span(Nanos::from_secs(10)) },
        timeouts: Timeouts::default(),
        client: Client::default(),
        slo: Slo::default(),
        analysis: Analysis::default(),
        labels: Default::default(),
        seed: 42,
    }
}

/// What a run left.
pub struct Ran {
    pub footer: Footer,
    pub rows: Vec<Request>,
    pub texts: Vec<Option<String>>,
    pub samples: Vec<Entry>,
    pub origin: u64,
    pub live: Arc<Live>,
    pub took: Duration,
}

/// The most requests under way at once, from the first byte written to the end.
pub fn peak(rows: &[Request]) -> usize {
    let mut edges: Vec<(Nanos, bool)> =
        rows.iter().flat_map(|r| [(r.closed.unwrap(), false), (r.write_begin.unwrap(), true)]).collect();
    edges.sort();
    let mut now = 0;
    edges
        .into_iter()
        .map(|(_, begins)| {
            now = if begins { now + 1 } else { now - 1 };
            now
        })
        .max()
        .unwrap_or(0)
}

pub fn outgoing(spec: &Spec, model: &str, intent: plan::Intent) -> Outgoing {
    let text = format!("prompt {}", intent.seq);
    let made = body(&spec.api, model, PromptRef::Text(&text), intent.osl, None, &Adaptation::default());
    Outgoing {
        intent,
        body: made.bytes.into(),
        asked: made.asked,
        prompt: PromptIdentity { whole: intent.seq, ..PromptIdentity::default() },
        input: InputTokens { planned: intent.isl, ..InputTokens::default() },
        text: Some(text.into()),
    }
}

pub fn run(spec: &Spec) -> Ran {
    run_until(spec, Arc::default())
}

/// Why a run does not begin.
pub fn refused(spec: &Spec) -> wire::DriveError {
    let (sink, _output) = channel();
    drive(spec, Arc::default(), sink, Arc::new(Live::new())).unwrap_err()
}

pub fn drive(
    spec: &Spec,
    stop: Arc<AtomicBool>,
    sink: std::sync::mpsc::Sender<Output>,
    live: Arc<Live>,
) -> Result<Footer, wire::DriveError> {
    let session = Session::open(spec, None, None).unwrap();
    let plan = plan::Plan::new(spec).unwrap();
    let maker = spec.clone();
    let model = session.model.clone();
    let drive = Drive {
        run_id: "test".into(),
        source: Box::new(move |intent: plan::Intent| Ok(outgoing(&maker, &model, intent))),
        stop,
        sink,
        live,
        target_cpu: None,
    };
    wire::drive(&session, spec, &plan, drive)
}

pub fn run_until(spec: &Spec, stop: Arc<AtomicBool>) -> Ran {
    let (sink, output) = channel();
    let live = Arc::new(Live::new());
    let began = std::time::Duration::from_nanos(raw_now());
    let footer = drive(spec, stop, sink, live.clone()).unwrap();
    let took = std::time::Duration::from_nanos(raw_now()) - began;
    let (mut rows, mut samples, mut origin) = (Vec::new(), Vec::new(), None);
    let mut ended = false;
    for item in output.try_iter() {
        match item {
            Output::Began { monotonic_origin_ns, .. } => {
                assert!(origin.is_none() && rows.is_empty());
                origin = Some(monotonic_origin_ns);
            }
            Output::Heard { request, text } => rows.push((request, text)),
            Output::Sample(entry) => samples.push(entry),
            Output::Ended => ended = true,
        }
    }
    assert!(ended, "the end is told");
    rows.sort_by_key(|(row, _)| row.seq);
    for (seq, (row, _)) in (0..).zip(&rows) {
        assert_eq!(row.seq, seq, "every request has one row");
    }
    let (rows, texts) = rows.into_iter().unzip();
    Ran { footer, rows, texts, samples, origin: origin.unwrap(), live, took }
}
