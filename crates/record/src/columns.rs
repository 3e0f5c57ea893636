//! The short form of a request's chunks in the journal: one list of integers for each column.
//!
//! Times are differences, runs of equal values are `[value, count]`, a column that holds only its
//! default is left out. The form is exact for every value, and documented in `docs/formats.md`.

use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use spec::Nanos;

use crate::chunks::Chunks;
use crate::row::{Chunk, Kind};

/// Runs shorter than this are written out: `[7,2]` would be longer than `7,7`.
const SHORTEST_RUN: usize = 4;
/// More chunks than any answer has; a damaged count beyond it must not allocate memory.
const MOST_CHUNKS: usize = 1 << 24;

/// Default of `kernel`: the stamp is the kernel's.
const KERNEL: i64 = 1;
/// Default of `tokens`: the event does not tell.
const UNTOLD: i64 = -1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Short {
    n: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    arrival: Option<Column>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<Column>,
    #[serde(skip_serializing_if = "Option::is_none")]
    earliest: Option<Column>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<Column>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<Column>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Column>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<Column>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_bytes: Option<Column>,
    #[serde(skip_serializing_if = "Option::is_none")]
    choice: Option<Column>,
}

/// Writes chunks in short form.
pub(crate) fn serialize<S: Serializer>(chunks: &Chunks, s: S) -> Result<S::Ok, S::Error> {
    let chunks: Vec<Chunk> = chunks.iter().collect();
    let column = |default: i64, values: &mut dyn FnMut(&Chunk) -> i64| {
        let values: Vec<i64> = chunks.iter().map(values).collect();
        values.iter().any(|v| *v != default).then_some(Column(values))
    };
    let (mut last_arrival, mut last_read) = (0u64, 0u32);
    Short {
        n: chunks.len(),
        arrival: column(0, &mut |c| {
            let step = c.arrival.0.wrapping_sub(last_arrival) as i64;
            last_arrival = c.arrival.0;
            step
        }),
        seen: column(0, &mut |c| c.seen.0.wrapping_sub(c.arrival.0) as i64),
        earliest: column(0, &mut |c| c.arrival.0.wrapping_sub(c.earliest.0) as i64),
        kernel: column(KERNEL, &mut |c| i64::from(c.kernel)),
        read: column(0, &mut |c| {
            let step = i64::from(c.read) - i64::from(last_read);
            last_read = c.read;
            step
        }),
        kind: column(0, &mut |c| kind_code(c.kind)),
        tokens: column(UNTOLD, &mut |c| c.tokens.map_or(UNTOLD, i64::from)),
        text_bytes: column(0, &mut |c| i64::from(c.text_bytes)),
        choice: column(0, &mut |c| i64::from(c.choice)),
    }
    .serialize(s)
}

/// Reads the short form.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Chunks, D::Error> {
    let short = Short::deserialize(d)?;
    let n = short.n;
    if n > MOST_CHUNKS {
        return Err(D::Error::custom(format!("{n} chunks in one answer: expected at most {MOST_CHUNKS}")));
    }
    let full = |name: &str, column: Option<Column>, default: i64| match column {
        None => Ok(vec![default; n]),
        Some(Column(values)) if values.len() == n => Ok(values),
        Some(Column(values)) => {
            Err(D::Error::custom(format!("chunk column {name} has {} values: expected {n}", values.len())))
        }
    };
    let out_of_range =
        |name: &str, value: i64| D::Error::custom(format!("chunk column {name} holds {value}"));
    let arrival = full("arrival", short.arrival, 0)?;
    let seen = full("seen", short.seen, 0)?;
    let earliest = full("earliest", short.earliest, 0)?;
    let kernel = full("kernel", short.kernel, KERNEL)?;
    let read = full("read", short.read, 0)?;
    let kind = full("kind", short.kind, 0)?;
    let tokens = full("tokens", short.tokens, UNTOLD)?;
    let text_bytes = full("text_bytes", short.text_bytes, 0)?;
    let choice = full("choice", short.choice, 0)?;
    let u32_of = |name, value: i64| u32::try_from(value).map_err(|_| out_of_range(name, value));
    let (mut at, mut read_no) = (0u64, 0i64);
    let mut chunks = Vec::with_capacity(n);
    for i in 0..n {
        at = at.wrapping_add(arrival[i] as u64);
        read_no = read_no.wrapping_add(read[i]);
        chunks.push(Chunk {
            arrival: Nanos(at),
            seen: Nanos(at.wrapping_add(seen[i] as u64)),
            earliest: Nanos(at.wrapping_sub(earliest[i] as u64)),
            kernel: match kernel[i] {
                0 => false,
                1 => true,
                other => return Err(out_of_range("kernel", other)),
            },
            read: u32_of("read", read_no)?,
            kind: kind_of(kind[i]).ok_or_else(|| out_of_range("kind", kind[i]))?,
            tokens: if tokens[i] == UNTOLD { None } else { Some(u32_of("tokens", tokens[i])?) },
            text_bytes: u32_of("text_bytes", text_bytes[i])?,
            choice: u16::try_from(choice[i]).map_err(|_| out_of_range("choice", choice[i]))?,
        });
    }
    Ok(chunks.into())
}

fn kind_code(kind: Kind) -> i64 {
    match kind {
        Kind::Answer => 0,
        Kind::Reasoning => 1,
        Kind::ToolCall => 2,
        Kind::Refusal => 3,
    }
}

fn kind_of(code: i64) -> Option<Kind> {
    [Kind::Answer, Kind::Reasoning, Kind::ToolCall, Kind::Refusal].get(usize::try_from(code).ok()?).copied()
}

/// Integers, runs shortened.
struct Column(Vec<i64>);

impl Serialize for Column {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut seq = s.serialize_seq(None)?;
        for run in self.0.chunk_by(|a, b| a == b) {
            if run.len() >= SHORTEST_RUN {
                seq.serialize_element(&(run[0], run.len()))?;
            } else {
                run.iter().try_for_each(|value| seq.serialize_element(value))?;
            }
        }
        seq.end()
    }
}

impl<'de> Deserialize<'de> for Column {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Values;
        impl<'de> Visitor<'de> for Values {
            type Value = Column;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of integers and [value, count] pairs")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Column, A::Error> {
                let mut values = Vec::new();
                while let Some(Run { value, count }) = seq.next_element()? {
                    if count > MOST_CHUNKS - values.len().min(MOST_CHUNKS) {
                        return Err(A::Error::custom(format!("a run of {count} equal values in one answer")));
                    }
                    values.extend(std::iter::repeat_n(value, count));
                }
                Ok(Column(values))
            }
        }
        d.deserialize_seq(Values)
    }
}

/// One element of a column: a value, or a value and how often it is repeated.
struct Run {
    value: i64,
    count: usize,
}

impl<'de> Deserialize<'de> for Run {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Element;
        impl<'de> Visitor<'de> for Element {
            type Value = Run;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer or [value, count]")
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Run, E> {
                Ok(Run { value, count: 1 })
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Run, E> {
                let value = i64::try_from(value).map_err(|_| E::custom(format!("{value} is too large")))?;
                Ok(Run { value, count: 1 })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Run, A::Error> {
                let value = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
                let count = seq.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
                match seq.next_element::<serde::de::IgnoredAny>()? {
                    None => Ok(Run { value, count }),
                    Some(_) => Err(A::Error::invalid_length(3, &self)),
                }
            }
        }
        d.deserialize_any(Element)
    }
}
