//! One request to a server, to see the shape of its answer; it puts no load on it.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use clock::Clock;
use serde_json::Value;
use spec::{Nanos, Spec};

use crate::ask::{AskError, Asker};
use crate::dialect::{PromptRef, body};
use crate::session::Session;
use crate::sse::Splitter;
use crate::stamp::Stamp;

/// Handshakes that the round trip is taken from.
const HANDSHAKES: usize = 3;
/// The longest that one of them may take.
const HANDSHAKE: Duration = Duration::from_secs(2);
/// Attempts, each without the fields that the one before was rejected for.
const ATTEMPTS: u32 = 4;
/// The longest that the answer may take where the spec sets no limit.
const ANSWER: Nanos = Nanos::from_secs(120);

/// How a server answered one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// Events that carried something, the last with its token counts included.
    pub events: u32,
    /// Bytes of the body.
    pub bytes: u64,
    /// Output tokens by the server's usage.
    pub tokens: Option<u32>,
    /// From the connection's first packet to the end of the answer.
    pub answer: Nanos,
    /// Median time of a TCP handshake.
    pub round_trip: Nanos,
}

/// No shape to be seen.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No answer.
    #[error("the probe request had no answer: {0}")]
    Ask(#[from] AskError),
    /// No address can be reached.
    #[error("no connection to {target} could be opened: {why}")]
    Connect {
        /// The server.
        target: String,
        /// What the system said.
        why: String,
    },
    /// Another answer than a success.
    #[error("the probe request was answered with status {status}: {excerpt}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// The beginning of the body.
        excerpt: String,
    },
    /// A success without events.
    #[error("the answer to the probe request holds no event: {excerpt}")]
    Empty {
        /// The beginning of the body.
        excerpt: String,
    },
    /// The client could not be set up.
    #[error("the client could not be set up: {0}")]
    Client(#[from] std::io::Error),
}

impl Session {
    /// Opens a few connections, then sends one request with this prompt for `osl` tokens. A request
    /// that the server rejects for a field that it does not know is sent once more without it. It is
    /// given up soon after `stop` is set.
    pub fn probe(
        &mut self,
        spec: &Spec,
        prompt: PromptRef<'_>,
        osl: u32,
        stop: &Arc<AtomicBool>,
    ) -> Result<Probe, ProbeError> {
        let round_trip = self.round_trip()?;
        let nobody = || ProbeError::Connect { target: self.target(), why: "no target".to_owned() };
        let to = self.destinations.first().ok_or_else(nobody)?;
        let asker = Asker::until(to.dialer.clone(), to.headers.clone(), Arc::clone(stop))?;
        let path = spec.api.path.as_deref().unwrap_or(spec.api.dialect.default_path());
        let limit = spec.timeouts.total.0.unwrap_or(ANSWER);
        let mut refused = ProbeError::Refused { status: 0, excerpt: String::new() };
        for _ in 0..ATTEMPTS {
            let request = body(&spec.api, &self.model, prompt, Some(osl), None, &self.adaptation);
            let clock = Clock::start();
            let answer = asker.post(path, Bytes::from(request.bytes), limit)?;
            let took = clock.now();
            if answer.is_good() {
                let (events, tokens) = shape(&answer.body);
                let excerpt = answer.excerpt();
                return match events {
                    0 => Err(ProbeError::Empty { excerpt }),
                    events => Ok(Probe {
                        events,
                        bytes: answer.body.len() as u64,
                        tokens,
                        answer: took,
                        round_trip,
                    }),
                };
            }
            let excerpt = answer.excerpt();
            refused = ProbeError::Refused { status: answer.status, excerpt };
            match self.adaptation.after_rejection(&spec.api, answer.status, &answer.body) {
                Some(next) => self.adaptation = next,
                None => break,
            }
        }
        Err(refused)
    }

    fn round_trip(&self) -> Result<Nanos, ProbeError> {
        let fail = |why: String| ProbeError::Connect { target: self.target(), why };
        let addresses = self.destinations.iter().flat_map(|to| &to.dialer.endpoint.addresses);
        let address = addresses.into_iter().next().ok_or_else(|| fail("no address".to_owned()))?;
        let mut times = Vec::new();
        for _ in 0..HANDSHAKES {
            let clock = Clock::start();
            TcpStream::connect_timeout(address, HANDSHAKE).map_err(|e| fail(e.to_string()))?;
            times.push(clock.now());
        }
        times.sort_unstable();
        Ok(times[HANDSHAKES / 2])
    }
}

/// Events of a body and the output tokens that its usage counts. A body in one piece is one event.
fn shape(body: &[u8]) -> (u32, Option<u32>) {
    let (mut events, mut tokens) = (0, None);
    let mut see = |data: &[u8]| {
        let Ok(value) = serde_json::from_slice::<Value>(data) else { return };
        if let Some(n) = value["usage"]["completion_tokens"].as_u64() {
            tokens = u32::try_from(n).ok();
        }
        events += u32::from(value["choices"].as_array().is_some_and(|choices| !choices.is_empty()));
    };
    if body.first() == Some(&b'{') {
        see(body);
    } else {
        let mut splitter = Splitter::default();
        // An event too large to be one ends the count; what came before it stands.
        let _ = splitter.push(body, Stamp::default(), |event| see(event.data));
        let _ = splitter.finish(|event| see(event.data));
    }
    (events, tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_of_a_stream_and_of_a_whole_answer() {
        let stream = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n\
            : comment\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"b c\"}}]}\n\n\
            data: {\"choices\":[],\"usage\":{\"completion_tokens\":3}}\n\ndata: [DONE]\n\n";
        assert_eq!(shape(stream), (2, Some(3)));
        assert_eq!(shape(b"{\"choices\":[{}],\"usage\":{\"completion_tokens\":7}}"), (1, Some(7)));
        assert_eq!(shape(b"data: hello\n\n"), (0, None));
        assert_eq!(shape(b""), (0, None));
    }
}
