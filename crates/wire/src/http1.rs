//! HTTP/1.1 answers out of bytes, without a socket: head, framing, chunks (RFC 9112).
//!
//! Whatever way the bytes are cut, the same pieces come out; the caller's stamp of a read belongs to
//! every piece that the read completed.

use std::mem::MaybeUninit;

use http::{HeaderMap, HeaderName, HeaderValue};

/// A head may have this many fields.
const MAX_FIELDS: usize = 256;
/// And this many bytes; trailers too.
const MAX_HEAD: usize = 256 << 10;
/// The line before a chunk may have this many bytes, extensions included.
const MAX_SIZE_LINE: u32 = 16 << 10;

/// A piece of an answer.
#[derive(Debug)]
pub enum Piece<'a> {
    /// Status and fields. Interim answers (1xx) are skipped.
    Head(u16, &'a HeaderMap),
    /// Bytes of the body.
    Body(&'a [u8]),
}

/// Why an answer cannot be read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What came is no HTTP, in contrast to ending too early.
    pub malformed: bool,
    /// In words.
    pub words: String,
}

impl Fault {
    /// No HTTP.
    pub fn malformed(words: impl Into<String>) -> Self {
        Fault { malformed: true, words: words.into() }
    }
    /// An early end.
    pub fn early(words: impl Into<String>) -> Self {
        Fault { malformed: false, words: words.into() }
    }
}

#[derive(Debug)]
enum Phase {
    Head,
    /// A body of announced length: bytes that are still to come.
    Sized {
        left: u64,
        whole: u64,
    },
    /// The hexadecimal size before a chunk.
    Size {
        value: u64,
        bytes: u32,
        rest: SizeRest,
    },
    /// The data of a chunk.
    Data {
        left: u64,
    },
    /// CR and LF behind the data.
    DataEnd {
        cr: bool,
    },
    /// The fields behind the last chunk; `line`: bytes of the present line.
    Trailer {
        line: u32,
        bytes: u32,
        cr: bool,
    },
    ToClose,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SizeRest {
    /// Digits.
    Digits,
    /// Blanks or an extension behind the digits.
    Extension,
    /// CR came.
    Cr,
}

const FIRST_SIZE: Phase = Phase::Size { value: 0, bytes: 0, rest: SizeRest::Digits };

/// One answer while it comes in.
#[derive(Debug)]
pub struct Decoder {
    phase: Phase,
    /// The beginning of a head that is not complete.
    held: Vec<u8>,
    keep_alive: bool,
    /// Bytes came behind the end of the answer.
    surplus: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder { phase: Phase::Head, held: Vec::new(), keep_alive: true, surplus: false }
    }
}

impl Decoder {
    /// The answer is complete.
    pub fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    /// After its end the connection can carry another one.
    pub fn can_go_on(&self) -> bool {
        self.is_done() && self.keep_alive && !self.surplus
    }

    /// Takes the bytes of one read.
    pub fn push(&mut self, mut bytes: &[u8], mut sink: impl FnMut(Piece<'_>)) -> Result<(), Fault> {
        while !bytes.is_empty() {
            let used = match &mut self.phase {
                Phase::Done => {
                    self.surplus = true;
                    return Ok(());
                }
                Phase::ToClose => {
                    sink(Piece::Body(bytes));
                    bytes.len()
                }
                Phase::Sized { left, .. } => {
                    let n = clip(*left, bytes);
                    sink(Piece::Body(&bytes[..n]));
                    *left -= n as u64;
                    if *left == 0 {
                        self.phase = Phase::Done;
                    }
                    n
                }
                Phase::Data { left } => {
                    let n = clip(*left, bytes);
                    sink(Piece::Body(&bytes[..n]));
                    *left -= n as u64;
                    if *left == 0 {
                        self.phase = Phase::DataEnd { cr: false };
                    }
                    n
                }
                Phase::Size { .. } => self.size(bytes)?,
                Phase::DataEnd { cr } => {
                    match (*cr, bytes[0]) {
                        (false, b'\r') => *cr = true,
                        (true, b'\n') => self.phase = FIRST_SIZE,
                        (_, other) => {
                            return Err(Fault::malformed(format!(
                                "a chunk of the body is not followed by a line end but by {}",
                                shown(other)
                            )));
                        }
                    }
                    1
                }
                Phase::Trailer { .. } => self.trailer(bytes)?,
                Phase::Head => self.head(bytes, &mut sink)?,
            };
            bytes = &bytes[used..];
        }
        Ok(())
    }

    /// The other side sends nothing more.
    pub fn close(&mut self) -> Result<(), Fault> {
        let words = match &self.phase {
            Phase::Done => return Ok(()),
            Phase::ToClose => {
                self.phase = Phase::Done;
                self.keep_alive = false;
                return Ok(());
            }
            Phase::Head if self.held.is_empty() => "the connection was closed".to_owned(),
            Phase::Head if !b"HTTP/1.".starts_with(&self.held[..self.held.len().min(7)]) => {
                return Err(Fault::malformed(no_http(&self.held)));
            }
            Phase::Head => "the connection was closed inside the head of the answer".to_owned(),
            Phase::Sized { left, whole } => {
                format!("the connection was closed after {} of {whole} bytes of the body", whole - left)
            }
            Phase::Size { .. } | Phase::Data { .. } | Phase::DataEnd { .. } | Phase::Trailer { .. } => {
                "the connection was closed before the last chunk of the body".to_owned()
            }
        };
        Err(Fault::early(words))
    }

    /// The line before a chunk, as far as it is there.
    fn size(&mut self, input: &[u8]) -> Result<usize, Fault> {
        let Phase::Size { value, bytes, rest } = &mut self.phase else { return Ok(0) };
        for (at, byte) in input.iter().enumerate() {
            let bad = || Fault::malformed(format!("expected the size of a chunk, came {}", shown(*byte)));
            match (*rest, *byte) {
                (SizeRest::Digits, b) if b.is_ascii_hexdigit() => {
                    if *value >> 60 != 0 {
                        return Err(Fault::malformed("the size of a chunk is beyond all reason"));
                    }
                    let digit = (b as char).to_digit(16).unwrap_or_default();
                    *value = *value << 4 | u64::from(digit);
                }
                (SizeRest::Digits | SizeRest::Extension, b'\r') if *bytes > 0 => *rest = SizeRest::Cr,
                (SizeRest::Digits, b';' | b' ' | b'\t') if *bytes > 0 => *rest = SizeRest::Extension,
                (SizeRest::Extension, b) if b != b'\n' => {}
                (SizeRest::Cr, b'\n') => {
                    self.phase = match *value {
                        0 => Phase::Trailer { line: 0, bytes: 0, cr: false },
                        left => Phase::Data { left },
                    };
                    return Ok(at + 1);
                }
                _ => return Err(bad()),
            }
            *bytes += 1;
            if *bytes > MAX_SIZE_LINE {
                return Err(Fault::malformed("the line before a chunk does not end"));
            }
        }
        Ok(input.len())
    }

    /// Fields behind the last chunk are read over, up to an empty line.
    fn trailer(&mut self, input: &[u8]) -> Result<usize, Fault> {
        let Phase::Trailer { line, bytes, cr } = &mut self.phase else { return Ok(0) };
        for (at, byte) in input.iter().enumerate() {
            *bytes += 1;
            if *bytes as usize > MAX_HEAD {
                return Err(Fault::malformed("the fields behind the body do not end"));
            }
            match byte {
                b'\n' if *line == 0 => {
                    self.phase = Phase::Done;
                    return Ok(at + 1);
                }
                b'\n' => (*line, *cr) = (0, false),
                b'\r' if !*cr => *cr = true,
                _ => {
                    *line += 1;
                    *cr = false;
                }
            }
        }
        Ok(input.len())
    }

    /// A head, if it is complete now; gives how many of `input`'s bytes belong to it.
    fn head(&mut self, input: &[u8], sink: &mut impl FnMut(Piece<'_>)) -> Result<usize, Fault> {
        let before = self.held.len();
        // A long head that comes in small pieces is looked at with each line, not with each piece.
        let worth_a_look = before < 16 || input.contains(&b'\n');
        let parsed = if before == 0 {
            parse(input)?
        } else {
            self.held.extend_from_slice(input);
            if worth_a_look { parse(&self.held)? } else { None }
        };
        let Some(head) = parsed else {
            if before == 0 {
                self.held.extend_from_slice(input);
            }
            if self.held.len() > MAX_HEAD {
                return Err(too_long());
            }
            return Ok(input.len());
        };
        if head.bytes > MAX_HEAD {
            return Err(too_long());
        }
        self.held = Vec::new();
        match head.status {
            101 => return Err(Fault::malformed("the server changed the protocol without being asked")),
            100..200 => {}
            _ => {
                self.keep_alive = head.keep_alive;
                self.phase = head.framing;
                sink(Piece::Head(head.status, &head.fields));
            }
        }
        // What was held is shorter than the head, else the head had been complete before.
        Ok(head.bytes - before)
    }
}

struct Head {
    bytes: usize,
    status: u16,
    fields: HeaderMap,
    framing: Phase,
    keep_alive: bool,
}

/// `None`: not complete.
fn parse(input: &[u8]) -> Result<Option<Head>, Fault> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    let bytes = match parser.parse_response_with_uninit_headers(&mut response, input, &mut fields) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Fault::malformed(format!("a head of more than {MAX_FIELDS} fields")));
        }
        Err(error) => {
            let words = match input.starts_with(b"HTTP/") {
                true => format!("the head of the answer is malformed: {error}"),
                false => no_http(input),
            };
            return Err(Fault::malformed(words));
        }
    };
    let (status, minor) = (response.code.unwrap_or_default(), response.version.unwrap_or_default());
    let mut map = HeaderMap::with_capacity(response.headers.len());
    for field in response.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let value = HeaderValue::from_bytes(field.value);
        if let (Ok(name), Ok(value)) = (name, value) {
            map.append(name, value);
        }
    }
    let (framing, framed) = framing(status, &map)?;
    let keep_alive = framed
        && match minor {
            0 => has_token(&map, http::header::CONNECTION, "keep-alive"),
            _ => !has_token(&map, http::header::CONNECTION, "close"),
        };
    Ok(Some(Head { bytes, status, fields: map, framing, keep_alive }))
}

/// How the body ends (RFC 9112 §6.3), and whether that leaves the connection usable.
fn framing(status: u16, fields: &HeaderMap) -> Result<(Phase, bool), Fault> {
    if matches!(status, 204 | 304) {
        return Ok((Phase::Done, true));
    }
    let mut lengths = fields.get_all(http::header::CONTENT_LENGTH).iter().peekable();
    if let Some(coding) = fields.get_all(http::header::TRANSFER_ENCODING).iter().next_back() {
        let last = coding.as_bytes().rsplit(|b| *b == b',').next().unwrap_or_default();
        return Ok(match last.trim_ascii().eq_ignore_ascii_case(b"chunked") {
            // Both announced: the length is ignored, and the connection not trusted any further.
            true => (FIRST_SIZE, lengths.peek().is_none()),
            false => (Phase::ToClose, false),
        });
    }
    let mut length = None;
    for part in lengths.flat_map(|value| value.as_bytes().split(|b| *b == b',')) {
        let text = std::str::from_utf8(part).unwrap_or_default().trim();
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match (text.parse::<u64>().ok().filter(|_| digits), length) {
            (Some(n), None) => length = Some(n),
            (Some(n), Some(before)) if n == before => {}
            _ => return Err(Fault::malformed("the announced length of the body makes no sense")),
        }
    }
    Ok(match length {
        None => (Phase::ToClose, false),
        Some(0) => (Phase::Done, true),
        Some(whole) => (Phase::Sized { left: whole, whole }, true),
    })
}

fn has_token(fields: &HeaderMap, name: HeaderName, token: &str) -> bool {
    fields
        .get_all(name)
        .iter()
        .flat_map(|value| value.as_bytes().split(|b| *b == b','))
        .any(|part| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

fn clip(left: u64, bytes: &[u8]) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len())
}

fn too_long() -> Fault {
    Fault::malformed(format!("a head of more than {MAX_HEAD} bytes"))
}

fn shown(byte: u8) -> String {
    format!("`{}`", byte.escape_ascii())
}

fn no_http(bytes: &[u8]) -> String {
    format!("no HTTP answer: it begins with `{}`", bytes[..bytes.len().min(40)].escape_ascii())
}

#[cfg(test)]
mod tests;
