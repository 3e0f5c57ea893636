//! Splits a body into server-sent events, each with the stamp of the read that completed it.
//!
//! Follows the event stream interpretation of the WHATWG HTML standard (§9.2.6): lines end in LF,
//! CRLF or CR, a leading byte order mark is dropped, comments and unknown fields are ignored, the
//! `data` lines of an event are joined by LF, one space after the colon is dropped. `id` and `retry`
//! serve reconnection, which a measurement never does, and are ignored too. Knows no socket.

use memchr::{memchr, memchr2};

use crate::stamp::Stamp;

/// Default cap on one line and on the data of one event, in bytes.
pub const DEFAULT_LIMIT: usize = 64 << 20;

const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Its `data` lines joined by LF.
    pub data: &'a [u8],
    /// Its `event` field, empty if it has none.
    pub name: &'a [u8],
    /// The read that completed it.
    pub stamp: Stamp,
    /// A blank line ended it. Otherwise the body ended first, and the standard discards the event;
    /// the reader may know better.
    pub terminated: bool,
}

/// An event larger than the cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event or line of more than {limit} bytes; expected server-sent events of ordinary size")]
pub struct EventTooLarge {
    /// The cap.
    pub limit: usize,
}

/// The state between two reads. An event that lies whole in one read is handed out without a copy.
#[derive(Debug)]
pub struct Splitter {
    limit: usize,
    /// A line whose end has not come yet.
    line: Vec<u8>,
    /// Data of the open event that came in earlier reads or over several lines.
    data: Vec<u8>,
    has_data: bool,
    name: Vec<u8>,
    /// The last byte was CR: a following LF belongs to the same line end.
    after_cr: bool,
    /// Bytes of the byte order mark matched so far; 3: the question is settled.
    bom: u8,
    last: Stamp,
}

impl Default for Splitter {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl Splitter {
    /// With a cap in bytes on one line and on the data of one event.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            name: Vec::new(),
            after_cr: false,
            bom: 0,
            last: Stamp::default(),
        }
    }

    /// Takes the bytes of one read and hands out every event that they complete.
    pub fn push(
        &mut self,
        bytes: &[u8],
        stamp: Stamp,
        mut out: impl FnMut(Event<'_>),
    ) -> Result<(), EventTooLarge> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.last = stamp;
        let mut rest = self.strip_bom(bytes);
        // The data of the open event while it is one line of this very read.
        let mut whole: Option<&[u8]> = None;
        loop {
            if self.after_cr
                && let Some(&first) = rest.first()
            {
                self.after_cr = false;
                if first == b'\n' {
                    rest = &rest[1..];
                }
            }
            let Some(at) = memchr2(b'\n', b'\r', rest) else { break };
            self.after_cr = rest[at] == b'\r';
            let line = &rest[..at];
            rest = &rest[at + 1..];
            if self.line.is_empty() {
                self.check(line.len())?;
                match field(line) {
                    Field::Blank => self.dispatch(whole.take(), true, &mut out),
                    Field::Data(value) if !self.has_data => {
                        whole = Some(value);
                        self.has_data = true;
                    }
                    Field::Data(value) => {
                        self.keep(whole.take());
                        self.join(value)?;
                    }
                    Field::Name(value) => self.set_name(value),
                    Field::Other => {}
                }
            } else {
                self.line.extend_from_slice(line);
                self.check(self.line.len())?;
                self.take_carried_line()?;
            }
        }
        self.keep(whole);
        self.line.extend_from_slice(rest);
        self.check(self.line.len())
    }

    /// The body has ended: hands out what the standard would discard, an event without its blank
    /// line, as not terminated.
    pub fn finish(&mut self, mut out: impl FnMut(Event<'_>)) -> Result<(), EventTooLarge> {
        if !self.line.is_empty() {
            self.take_carried_line()?;
        }
        self.dispatch(None, false, &mut out);
        Ok(())
    }

    fn strip_bom<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while let Some(&expected) = BOM.get(usize::from(self.bom)) {
            match bytes.split_first() {
                None => break,
                Some((&byte, tail)) if byte == expected => {
                    self.bom += 1;
                    bytes = tail;
                }
                Some(_) => {
                    // It was the beginning of a line, not of a mark.
                    self.line.extend_from_slice(&BOM[..usize::from(self.bom)]);
                    self.bom = 3;
                }
            }
        }
        bytes
    }

    fn check(&self, length: usize) -> Result<(), EventTooLarge> {
        if length > self.limit { Err(EventTooLarge { limit: self.limit }) } else { Ok(()) }
    }

    /// Keeps the only data line of the open event beyond its read.
    fn keep(&mut self, whole: Option<&[u8]>) {
        if let Some(value) = whole {
            self.data.clear();
            self.data.extend_from_slice(value);
        }
    }

    /// A further data line.
    fn join(&mut self, value: &[u8]) -> Result<(), EventTooLarge> {
        self.data.push(b'\n');
        self.data.extend_from_slice(value);
        self.check(self.data.len())
    }

    fn set_name(&mut self, value: &[u8]) {
        self.name.clear();
        self.name.extend_from_slice(value);
    }

    /// A line that came in several reads; it is never blank.
    fn take_carried_line(&mut self) -> Result<(), EventTooLarge> {
        let mut line = std::mem::take(&mut self.line);
        let taken = match field(&line) {
            Field::Data(value) if !self.has_data => {
                self.has_data = true;
                self.keep(Some(value));
                Ok(())
            }
            Field::Data(value) => self.join(value),
            Field::Name(value) => {
                self.set_name(value);
                Ok(())
            }
            Field::Blank | Field::Other => Ok(()),
        };
        line.clear();
        self.line = line;
        taken
    }

    fn dispatch(&mut self, whole: Option<&[u8]>, terminated: bool, out: &mut impl FnMut(Event<'_>)) {
        if self.has_data {
            let data = whole.unwrap_or(&self.data);
            out(Event { data, name: &self.name, stamp: self.last, terminated });
        }
        self.has_data = false;
        self.data.clear();
        self.name.clear();
    }
}

enum Field<'a> {
    Blank,
    Data(&'a [u8]),
    Name(&'a [u8]),
    Other,
}

fn field(line: &[u8]) -> Field<'_> {
    if line.is_empty() {
        return Field::Blank;
    }
    let (name, value) = match memchr(b':', line) {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => (line, &[][..]),
    };
    let value = value.strip_prefix(b" ").unwrap_or(value);
    match name {
        b"data" => Field::Data(value),
        b"event" => Field::Name(value),
        _ => Field::Other,
    }
}
