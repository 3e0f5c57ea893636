//! One question outside of the measurement: readiness, models, metrics, the probe request.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use clock::{Clock, OffsetPair, SystemClocks, WallMap};
use http::{HeaderMap, Method};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use spec::Nanos;

use crate::connect::{DialError, Dialer};
use crate::http2::{self, Speaker};
use crate::io::LaneTime;

/// The most that an answer may hold.
const MOST: usize = 8 << 20;
/// The stop flag is looked at this often.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Head.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

impl Answer {
    /// A 2xx status.
    pub fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }
    /// The beginning of the body on one line.
    pub fn excerpt(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        line.chars().take(200).collect()
    }
}

/// No answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// No connection, or no TLS session.
    #[error("{0}")]
    Dial(#[from] DialError),
    /// Not in time.
    #[error("no answer in {}", spec::Span(*.0))]
    Late(Nanos),
    /// The stop flag was set.
    #[error("stopped")]
    Stopped,
    /// The connection broke, or what came is no HTTP.
    #[error("{0}")]
    Broken(String),
}

/// Asks on connections of its own, one question at a time, each within a time limit.
pub struct Asker {
    runtime: tokio::runtime::Runtime,
    dialer: Arc<Dialer>,
    headers: HeaderMap,
    stop: Arc<AtomicBool>,
}

impl Asker {
    /// `headers` go with every question; a `host` header must be among them.
    pub fn new(dialer: Arc<Dialer>, headers: HeaderMap) -> std::io::Result<Self> {
        Asker::until(dialer, headers, Arc::default())
    }
    /// The same; a question ends with [`AskError::Stopped`] soon after `stop` is set.
    pub fn until(dialer: Arc<Dialer>, headers: HeaderMap, stop: Arc<AtomicBool>) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Asker { runtime, dialer, headers, stop })
    }
    /// GET.
    pub fn get(&self, path: &str, limit: Nanos) -> Result<Answer, AskError> {
        self.ask(Method::GET, path, Bytes::new(), limit)
    }
    /// POST.
    pub fn post(&self, path: &str, body: Bytes, limit: Nanos) -> Result<Answer, AskError> {
        self.ask(Method::POST, path, body, limit)
    }
    fn ask(&self, method: Method, path: &str, body: Bytes, limit: Nanos) -> Result<Answer, AskError> {
        let mut request = http::Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self
            .dialer
            .endpoint
            .path(path)
            .parse()
            .map_err(|e| AskError::Broken(format!("`{path}` is no path: {e}")))?;
        *request.headers_mut() = self.headers.clone();
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.stopped() => Err(AskError::Stopped),
                () = tokio::time::sleep(limit.duration()) => Err(AskError::Late(limit)),
                answer = exchange(&self.dialer, request) => answer,
            }
        })
    }
}

impl Asker {
    async fn stopped(&self) {
        while !self.stop.load(Relaxed) {
            tokio::time::sleep(STOP_LOOK).await;
        }
    }
}

async fn exchange(dialer: &Dialer, request: http::Request<Full<Bytes>>) -> Result<Answer, AskError> {
    let broken = |error: hyper::Error| AskError::Broken(words(&error));
    let map = Arc::new(WallMap::new(OffsetPair::measure(&SystemClocks)));
    let time: Rc<LaneTime> = LaneTime::new(Clock::start(), map, false);
    let dialed = dialer.dial(&time).await?;
    if dialer.is_http2() {
        let speaker = Speaker::open(dialed).await?;
        let request = http2::addressed(request, dialer.endpoint.tls);
        let (head, body) = speaker.ask(request).await.map_err(broken)?.into_parts();
        let mut body = pin!(Limited::new(body, MOST).collect());
        let body = std::future::poll_fn(|cx| {
            speaker.tend(cx);
            body.as_mut().poll(cx)
        });
        let body = body.await.map_err(|e| AskError::Broken(words(&*e)))?;
        return Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: body.to_bytes() });
    }
    let (mut sender, driver) = http1::handshake(dialed.stream).await.map_err(broken)?;
    let answer = async {
        let (head, body) = sender.send_request(request).await.map_err(broken)?.into_parts();
        let body = Limited::new(body, MOST).collect().await.map_err(|e| AskError::Broken(words(&*e)))?;
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: body.to_bytes() })
    };
    let (mut answer, mut driver) = (pin!(answer), pin!(driver));
    let mut over = false;
    std::future::poll_fn(|cx| {
        over = over || driver.as_mut().poll(cx).is_ready();
        answer.as_mut().poll(cx)
    })
    .await
}

/// The error with its causes.
pub(crate) fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}
