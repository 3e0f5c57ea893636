//! One target as a lane speaks to it: its connections, and how a request to it is put.

use std::cell::Cell;
use std::io::Write as _;
use std::rc::Rc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Uri};
use http_body_util::Full;
use spec::Connections;

use crate::answer::AnswerBuilder;
use crate::http2;
use crate::io::LaneTime;
use crate::pool::{Pool, Voice};
use crate::reactor::Reactor;
use crate::session::Destination;

/// Carries the identity of a request.
const ID: &str = "x-request-id";

/// A target of a lane.
pub(crate) struct Station {
    /// Its connections.
    pub pool: Pool,
    path: Uri,
    headers: HeaderMap,
    tls: bool,
    /// In HTTP/1.1 every request begins with this.
    head: Vec<u8>,
}

impl Station {
    pub fn new(
        to: Destination,
        time: Rc<LaneTime>,
        reactor: Rc<Reactor>,
        policy: Connections,
        next_id: Rc<Cell<u32>>,
    ) -> Self {
        let head = head(&to.path, &to.headers);
        let tls = to.dialer.endpoint.tls;
        let pool = Pool::new(to.dialer, time, reactor, policy, next_id);
        Station { pool, path: to.path, headers: to.headers, tls, head }
    }

    /// Sends a request, named `id`, on one of its connections, and listens for the answer.
    pub fn begin(&self, voice: &Voice, id: &str, body: Bytes, answer: AnswerBuilder, time: &LaneTime) {
        match voice {
            Voice::Http1(line, _) => {
                let mut head = Vec::with_capacity(self.head.len() + 96);
                head.extend_from_slice(&self.head);
                // Writing to memory cannot fail.
                let _ = write!(head, "{ID}: {id}\r\ncontent-length: {}\r\n\r\n", body.len());
                line.begin(head, body, answer, time);
            }
            Voice::Http2(speaker) => {
                let mut request = http::Request::new(Full::new(body));
                *request.method_mut() = Method::POST;
                *request.uri_mut() = self.path.clone();
                *request.headers_mut() = self.headers.clone();
                if let Ok(id) = HeaderValue::try_from(id) {
                    request.headers_mut().insert(ID, id);
                }
                speaker.begin(http2::addressed(request, self.tls), answer, time);
            }
        }
    }
}

fn head(path: &Uri, headers: &HeaderMap) -> Vec<u8> {
    let mut head = format!("POST {path} HTTP/1.1\r\n").into_bytes();
    for (name, value) in headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head
}
