//! Folds the bytes of one answer into its record, whatever the server makes of the protocol.
//!
//! Stamps are taken before the bytes come here; nothing in this module reads a clock.

mod detail;
mod mould;
mod tally;

use std::sync::Arc;

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use record::{FailureClass, Oddity, Request, State};
use spec::{Dialect, Nanos, Secret};

use crate::dialect::frame;
use crate::sse::{DEFAULT_LIMIT, Event, Splitter};
use crate::stamp::Stamp;
use detail::{excerpt, redact};
use mould::Mould;
use tally::Tally;

/// Bytes of a body kept to say what came where no event did, or where the status is no success.
const PROBE: usize = 16 << 10;
/// Characters of a body quoted in a failure.
const QUOTE: usize = 300;
/// Bytes quoted of a body that is no event stream.
const QUOTE_BODY: usize = 200;

/// What was asked for, as far as it decides how an answer is read.
#[derive(Debug, Clone)]
pub struct Expect {
    /// The protocol.
    pub dialect: Dialect,
    /// A stream.
    pub stream: bool,
    /// Token counts.
    pub usage: bool,
    /// The prompt, to tell an answer that repeats it. In chat the last message.
    pub prompt: Option<Arc<str>>,
    /// Texts that must not reach a record: keys, tokens.
    pub secrets: Arc<[Secret]>,
    /// Cap on one event and on a body that is no stream, in bytes.
    pub limit: usize,
}

impl Expect {
    /// A stream with token counts, nothing to compare with, nothing secret.
    pub fn stream(dialect: Dialect) -> Self {
        Self {
            dialect,
            stream: true,
            usage: true,
            prompt: None,
            secrets: Arc::from([]),
            limit: DEFAULT_LIMIT,
        }
    }
}

/// How the body ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndOfBody {
    /// As HTTP says: last chunk, full length, or close where neither was announced.
    Clean,
    /// Before that, with the cause in words.
    Broken(String),
    /// By us. The state holds unless the answer was already complete or failed.
    Cut(State),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// No significant byte yet.
    Unknown,
    /// Server-sent events.
    Stream,
    /// One JSON value.
    Json,
    /// Nothing of it is read: not a success, or encoded.
    Kept,
}

/// One answer while it comes in.
#[derive(Debug)]
pub struct AnswerBuilder {
    expect: Expect,
    status: Option<u16>,
    head: Option<Nanos>,
    retry_after: Option<String>,
    location: Option<String>,
    content_type: String,
    mode: Mode,
    splitter: Splitter,
    /// The beginning of the body, or all of it where it is one JSON value.
    raw: Vec<u8>,
    events: Events,
    last: Option<Stamp>,
    end: Option<(EndOfBody, Option<Nanos>)>,
}

/// What the events of the answer gave.
#[derive(Debug)]
struct Events {
    tally: Tally,
    /// The last event that others may resemble.
    mould: Option<Mould>,
    failure: Option<(FailureClass, String)>,
    /// Events with data, whatever it was.
    count: u32,
    unterminated: bool,
}

impl AnswerBuilder {
    /// Nothing has come yet.
    pub fn new(expect: Expect) -> Self {
        let splitter = Splitter::new(expect.limit);
        Self {
            expect,
            status: None,
            head: None,
            retry_after: None,
            location: None,
            content_type: String::new(),
            mode: Mode::Unknown,
            splitter,
            raw: Vec::new(),
            events: Events {
                tally: Tally::default(),
                mould: None,
                failure: None,
                count: 0,
                unterminated: false,
            },
            last: None,
            end: None,
        }
    }

    /// The response head is complete.
    pub fn head(&mut self, status: u16, headers: &HeaderMap, stamp: Stamp) {
        let text = |name| {
            headers.get(name).map(|v: &http::HeaderValue| String::from_utf8_lossy(v.as_bytes()).into_owned())
        };
        self.status = Some(status);
        self.head = Some(stamp.arrival);
        self.retry_after = text(RETRY_AFTER);
        self.location = text(LOCATION);
        self.content_type = text(CONTENT_TYPE).unwrap_or_default();
        if !(200..300).contains(&status) {
            self.mode = Mode::Kept;
            return;
        }
        if let Some(encoding) = text(CONTENT_ENCODING)
            && !matches!(encoding.trim().to_ascii_lowercase().as_str(), "" | "identity")
        {
            self.mode = Mode::Kept;
            self.events.fail(
                FailureClass::Protocol,
                format!(
                    "the body is encoded ({encoding}) though `Accept-Encoding: identity` was sent; encoding \
                     holds tokens back: switch it off in the server or in the proxy before it"
                ),
            );
        }
    }

    /// The bytes of one read of the body.
    pub fn body(&mut self, bytes: &[u8], stamp: Stamp) {
        if bytes.is_empty() {
            return;
        }
        let stamp = self.events.tally.in_order(self.last, stamp);
        self.last = Some(stamp);
        match self.mode {
            Mode::Kept => self.keep(bytes, PROBE),
            Mode::Json => self.json(bytes),
            Mode::Stream => self.stream(bytes, stamp),
            Mode::Unknown => {
                let blank = |b: &u8| b.is_ascii_whitespace() || matches!(b, 0xef | 0xbb | 0xbf);
                match bytes.iter().find(|b| !blank(b)) {
                    None => self.keep(bytes, PROBE),
                    Some(b'{') => {
                        self.mode = Mode::Json;
                        self.json(bytes);
                    }
                    Some(_) => {
                        self.mode = Mode::Stream;
                        let before = std::mem::take(&mut self.raw);
                        self.stream(&before, stamp);
                        self.stream(bytes, stamp);
                    }
                }
            }
        }
    }

    /// The body, or the attempt, has ended.
    pub fn end(&mut self, how: EndOfBody, at: Option<Nanos>) {
        let ended = match self.mode {
            Mode::Stream => {
                let events = &mut self.events;
                let dialect = self.expect.dialect;
                self.splitter.finish(|event| events.take(event, dialect))
            }
            Mode::Unknown | Mode::Json | Mode::Kept => Ok(()),
        };
        if let Err(error) = ended {
            self.events.fail(FailureClass::Protocol, error.to_string());
        }
        self.end = Some((how, at));
    }

    /// The protocol's own end has come: `[DONE]`, or a finish reason for every choice seen. Usage may
    /// still follow a finish reason.
    pub fn is_done(&self) -> bool {
        self.events.tally.is_complete()
    }

    /// The protocol's very last event has come: nothing but the end of the body can follow.
    pub fn is_closed(&self) -> bool {
        self.events.tally.saw_done
    }

    /// The answer has failed: whatever still comes changes nothing.
    pub fn has_failed(&self) -> bool {
        self.events.failure.is_some()
    }

    /// The head of the answer is complete.
    pub fn has_head(&self) -> bool {
        self.status.is_some()
    }

    /// Output has come.
    pub fn has_output(&self) -> bool {
        self.events.tally.has_output()
    }

    /// The first bytes of a body whose status is no success, for [`crate::dialect::Adaptation`].
    pub fn rejection(&self) -> Option<(u16, &[u8])> {
        let status = self.status.filter(|s| !(200..300).contains(s))?;
        Some((status, &self.raw))
    }

    /// Fills `row` and gives the joined text of the answer, of every kind and choice.
    pub fn fold(mut self, row: &mut Request) -> Option<String> {
        let (how, closed) = self.end.take().unwrap_or((EndOfBody::Clean, None));
        if self.mode == Mode::Json && !self.has_failed() {
            self.read_json(&how);
        }
        self.events.tally.settle(self.expect.dialect);
        let state = self.state(how);
        let streamed = match self.mode {
            Mode::Json => false,
            Mode::Stream => true,
            Mode::Unknown | Mode::Kept => self.expect.stream,
        };
        if state.is_ok() && self.expect.stream && !streamed {
            row.oddities.push(Oddity::NotStreamed);
        }
        if self.events.unterminated {
            row.oddities.push(Oddity::UnterminatedEvent);
        }
        row.status = self.status;
        row.headers = self.head;
        row.closed = closed.or(row.closed);
        row.streamed = streamed;
        row.state = state;
        self.events.tally.fill(row, &self.expect)
    }

    fn keep(&mut self, bytes: &[u8], cap: usize) {
        let room = cap.saturating_sub(self.raw.len()).min(bytes.len());
        self.raw.extend_from_slice(&bytes[..room]);
    }

    fn json(&mut self, bytes: &[u8]) {
        if self.has_failed() {
            return;
        }
        if self.raw.len() + bytes.len() > self.expect.limit {
            let limit = self.expect.limit;
            self.events.fail(FailureClass::Protocol, format!("a JSON body of more than {limit} bytes"));
            return;
        }
        self.raw.extend_from_slice(bytes);
    }

    fn stream(&mut self, bytes: &[u8], stamp: Stamp) {
        if self.has_failed() {
            return;
        }
        if self.events.count == 0 {
            self.keep(bytes, PROBE);
        }
        let events = &mut self.events;
        let dialect = self.expect.dialect;
        if let Err(error) = self.splitter.push(bytes, stamp, |event| events.take(event, dialect)) {
            self.events.fail(FailureClass::Protocol, error.to_string());
        }
    }

    /// The whole body as one value.
    fn read_json(&mut self, how: &EndOfBody) {
        if matches!(how, EndOfBody::Cut(_)) {
            return;
        }
        let stamp = self.last.unwrap_or_default();
        let dialect = self.expect.dialect;
        let tally = &mut self.events.tally;
        let read = frame::read(&self.raw, |frame| {
            if let Some(words) = frame.error() {
                return Err((FailureClass::ServerError, words));
            }
            if frame.choices.0.is_empty() && frame.counts().is_none() {
                return Err((FailureClass::Protocol, "JSON without `choices`".to_owned()));
            }
            tally.frame(frame, stamp, dialect).map_err(|words| (FailureClass::ServerError, words))
        });
        let raw = &self.raw;
        let quoted = || excerpt(raw, QUOTE);
        match read {
            Ok(Ok(())) => self.events.tally.whole(stamp),
            Ok(Err((FailureClass::Protocol, words))) => {
                self.events.fail(
                    FailureClass::Protocol,
                    format!("expected a completion, came {words}: {}", quoted()),
                );
            }
            Ok(Err((class, words))) => self.events.fail(class, words),
            Err(bad) if bad.cut => {
                self.events.fail(FailureClass::Truncated, format!("the JSON body was cut: {}", quoted()));
            }
            Err(bad) => self.events.fail(
                FailureClass::Protocol,
                format!("the body is no JSON that can be read ({}): {}", bad.reason, quoted()),
            ),
        }
    }

    /// How the request ended. An error of the server's comes first, then a malformed answer, then a
    /// cut of ours, then an early end, then an answer without output.
    ///
    /// An answer is complete when each choice seen has a finish reason, or at `[DONE]` where the body
    /// ended cleanly: a bare end of the body proves nothing, since proxies close cleanly too.
    fn state(&self, how: EndOfBody) -> State {
        let failed =
            |class, words: &str| State::Failed { class, detail: redact(words, &self.expect.secrets) };
        let Some(status) = self.status else {
            return match how {
                EndOfBody::Cut(state) => state,
                EndOfBody::Clean => failed(FailureClass::Truncated, "closed before an answer"),
                EndOfBody::Broken(cause) => {
                    failed(FailureClass::Truncated, &format!("closed before an answer: {cause}"))
                }
            };
        };
        if !(200..300).contains(&status) {
            return failed(status_class(status), &self.rejection_words(status));
        }
        if let Some((class, words)) = &self.events.failure {
            return failed(*class, words);
        }
        let tally = &self.events.tally;
        let complete = tally.is_finished() || (tally.saw_done && !matches!(how, EndOfBody::Broken(_)));
        if !complete {
            let so_far = tally.progress();
            match how {
                EndOfBody::Cut(state) => return state,
                EndOfBody::Broken(cause) => {
                    return failed(FailureClass::Truncated, &format!("{cause}; {so_far}"));
                }
                EndOfBody::Clean if self.mode == Mode::Json => {}
                EndOfBody::Clean if self.events.count > 0 => {
                    return failed(
                        FailureClass::Truncated,
                        &format!("the body ended without a finish reason or [DONE]; {so_far}"),
                    );
                }
                EndOfBody::Clean => return self.no_event(),
            }
        }
        if tally.has_output() {
            return State::Ok;
        }
        let counted = tally.usage().output.unwrap_or(0);
        let words = match counted {
            0 => "a success without output".to_owned(),
            n => format!("a success without output, though the server counts {n} output tokens"),
        };
        failed(FailureClass::Empty, &words)
    }

    /// A clean body without a single event: nothing at all, only comments, or something else.
    fn no_event(&self) -> State {
        let failed =
            |class, words: &str| State::Failed { class, detail: redact(words, &self.expect.secrets) };
        const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];
        let mut foreign = false;
        let mut cut_event = false;
        let mut lines = self.raw.split(|b| matches!(b, b'\n' | b'\r')).peekable();
        while let Some(line) = lines.next() {
            let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
            let name = line.split(|b| *b == b':').next().unwrap_or_default();
            let open = lines.peek().is_none() && name.len() == line.len() && !name.is_empty();
            cut_event |= name == b"data" || (open && FIELDS.iter().any(|field| field.starts_with(name)));
            foreign |= !name.is_empty() && !FIELDS.contains(&name);
        }
        if cut_event {
            return failed(FailureClass::Truncated, "the body ended inside its first event");
        }
        if !foreign {
            return failed(FailureClass::Empty, "a success with an empty body");
        }
        let kind = if self.content_type.is_empty() { "no content type" } else { &self.content_type };
        let quoted = excerpt(&self.raw[..self.raw.len().min(QUOTE_BODY)], QUOTE_BODY);
        failed(
            FailureClass::Protocol,
            &format!("not an event stream ({kind}): {quoted} — check the address and the path"),
        )
    }

    fn rejection_words(&self, status: u16) -> String {
        let mut words = format!("HTTP {status}");
        if let Some(after) = &self.retry_after {
            words.push_str(&format!(" (Retry-After: {after})"));
        }
        if let Some(location) = &self.location {
            words.push_str(&format!(" (to {location}; redirects are not followed)"));
        }
        let quoted = excerpt(&self.raw, QUOTE);
        if !quoted.is_empty() {
            words.push_str(": ");
            words.push_str(&quoted);
        }
        words
    }
}

fn status_class(status: u16) -> FailureClass {
    match status {
        429 => FailureClass::Http429,
        400..500 => FailureClass::Http4xx,
        _ => FailureClass::Http5xx,
    }
}

impl Events {
    fn fail(&mut self, class: FailureClass, words: String) {
        self.failure.get_or_insert((class, words));
    }

    fn take(&mut self, event: Event<'_>, dialect: Dialect) {
        if self.failure.is_some() {
            return;
        }
        let data = event.data.trim_ascii();
        if data.is_empty() {
            return;
        }
        if data == b"[DONE]" {
            self.count += 1;
            self.unterminated |= !event.terminated;
            self.tally.end_mark(event.stamp);
            return;
        }
        // An error event need not hold JSON; without its blank line it must.
        if event.name == b"error" && event.terminated {
            self.count += 1;
            let words = frame::error_words(&String::from_utf8_lossy(data));
            self.fail(FailureClass::ServerError, detail::one_line(&words, QUOTE));
            return;
        }
        if data == b"null" {
            self.count += 1;
            return;
        }
        let after_end = self.tally.saw_done;
        let tally = &mut self.tally;
        if let Some(mould) = &self.mould
            && !after_end
            && let Some(text) = mould.text(data)
        {
            tally.more(text, mould.kind, mould.choice, event.stamp);
            self.count += 1;
            self.unterminated |= !event.terminated;
            return;
        }
        let kept = &mut self.mould;
        let read = frame::read(data, |frame| match frame.error() {
            Some(words) => Err(words),
            None if after_end => tally.after_end(frame),
            None => {
                *kept = Mould::of(frame, data).or(kept.take());
                tally.frame(frame, event.stamp, dialect)
            }
        });
        match read {
            Ok(Ok(())) => {}
            Ok(Err(words)) if after_end => self.fail(FailureClass::Protocol, detail::one_line(&words, QUOTE)),
            Ok(Err(words)) => self.fail(FailureClass::ServerError, detail::one_line(&words, QUOTE)),
            // What follows the end mark carries no output, and what the end of the body cut is no event.
            Err(_) if after_end || !event.terminated => return,
            Err(bad) => self.fail(
                FailureClass::Protocol,
                format!("an event holds no JSON that can be read ({}): {}", bad.reason, excerpt(data, QUOTE)),
            ),
        }
        self.count += 1;
        self.unterminated |= !event.terminated;
    }
}
