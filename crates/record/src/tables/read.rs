//! Reads a run back from its tables: for a run whose journal is gone, and for runs so long that
//! columns are the quicker way in.

use std::fs::File;
use std::path::Path;
use std::thread;

use arrow_array::types::{UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrowPrimitiveType, BooleanArray, Float64Array, Int64Array, ListArray, PrimitiveArray,
    RecordBatch, StringArray,
};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use serde::de::{DeserializeOwned, IntoDeserializer};
use spec::Nanos;

use super::{FOOTER, HEADER, MISSING, ROWS_PER_GROUP, VERSION};
use crate::SCHEMA_VERSION;
use crate::error::RecordError;
use crate::folder::TELEMETRY;
use crate::journal::Run;
use crate::row::{
    Chunk, Connection, Finish, InputTokens, Kind, OutputTokens, PromptIdentity, Request, State,
};
use crate::sample::{ClockSample, LaneSample, MachineSample, ServerSample};

/// First bytes of a Parquet file.
pub(crate) const MAGIC: [u8; 4] = *b"PAR1";

/// Reads a run from its `requests.parquet` and, where it lies beside it, its `telemetry.parquet`.
/// What is not there is said in [`Run::missing`].
///
/// # Errors
/// A file cannot be read, is no table of ours, or was written in another version of the format.
pub fn read(path: &Path) -> Result<Run, RecordError> {
    let table = Table::open(path)?;
    let mut run = Run {
        header: table.told(HEADER)?,
        requests: table.requests()?,
        lanes: Vec::new(),
        machine: Vec::new(),
        clock: Vec::new(),
        server: Vec::new(),
        footer: table.told(FOOTER)?,
        missing: table.told(MISSING)?,
    };
    run.requests.sort_by_key(|request| request.seq);
    let telemetry = path.with_file_name(TELEMETRY);
    if telemetry.exists() {
        let table = Table::open(&telemetry)?;
        for batch in table.batches(0..table.groups())? {
            samples(&batch, &mut run).map_err(|reason| table.damaged(reason))?;
        }
    } else {
        run.missing.push(format!(
            "{TELEMETRY} is not beside the requests: no samples of the sending threads, the machine, the \
             clocks and the server"
        ));
    }
    Ok(run)
}

/// An open table.
struct Table<'a> {
    path: &'a Path,
    file: File,
    metadata: ArrowReaderMetadata,
}

impl<'a> Table<'a> {
    fn open(path: &'a Path) -> Result<Self, RecordError> {
        let file = File::open(path).map_err(RecordError::io("read", path))?;
        let metadata = ArrowReaderMetadata::load(&file, Default::default())
            .map_err(|e| RecordError::NotATable { path: path.to_owned(), reason: e.to_string() })?;
        let table = Self { path, file, metadata };
        let version = table.key(VERSION).and_then(|text| text.parse().ok());
        match version {
            Some(found) if found == u64::from(SCHEMA_VERSION) => Ok(table),
            Some(found) => Err(RecordError::WrongVersion {
                path: path.to_owned(),
                found,
                known: u64::from(SCHEMA_VERSION),
            }),
            None => Err(table.damaged(format!("its metadata hold no {VERSION}"))),
        }
    }

    fn damaged(&self, reason: String) -> RecordError {
        RecordError::NotATable { path: self.path.to_owned(), reason }
    }

    /// A text of the file's metadata.
    fn key(&self, key: &str) -> Option<&str> {
        let pairs = self.metadata.metadata().file_metadata().key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
    }

    /// A part of the run that stands in the metadata as JSON.
    fn told<T: DeserializeOwned>(&self, key: &str) -> Result<T, RecordError> {
        let text = self.key(key).ok_or_else(|| self.damaged(format!("its metadata hold no {key}")))?;
        serde_json::from_str(text).map_err(|e| self.damaged(format!("{key}: {e}")))
    }

    fn groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    fn batches(&self, groups: std::ops::Range<usize>) -> Result<Vec<RecordBatch>, RecordError> {
        let mut all = Vec::new();
        self.each_batch(groups, |batch| {
            all.push(batch);
            Ok(())
        })?;
        Ok(all)
    }

    fn each_batch(
        &self,
        groups: std::ops::Range<usize>,
        mut take: impl FnMut(RecordBatch) -> Result<(), String>,
    ) -> Result<(), RecordError> {
        let failed = |e: &dyn std::fmt::Display| self.damaged(e.to_string());
        let file = self.file.try_clone().map_err(RecordError::io("read", self.path))?;
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_row_groups(groups.collect())
            .with_batch_size(ROWS_PER_GROUP)
            .build()
            .map_err(|e| failed(&e))?;
        for batch in reader {
            take(batch.map_err(|e| failed(&e))?).map_err(|reason| self.damaged(reason))?;
        }
        Ok(())
    }

    /// All requests, decoded by as many threads as there are cores, each over its share of the row
    /// groups.
    fn requests(&self) -> Result<Vec<Request>, RecordError> {
        let groups = self.groups();
        let threads = thread::available_parallelism().map_or(1, usize::from).min(groups).max(1);
        let share = |i: usize| groups * i / threads..groups * (i + 1) / threads;
        let parts = thread::scope(|scope| {
            let handles: Vec<_> = (0..threads)
                .map(|i| {
                    scope.spawn(move || {
                        let mut part = Vec::new();
                        // A file of its own: threads that share one would move each other's place.
                        Table::open(self.path)?
                            .each_batch(share(i), |batch| requests(&batch, &mut part))
                            .map(|()| part)
                    })
                })
                .collect();
            let join = |handle: thread::ScopedJoinHandle<'_, Result<Vec<Request>, RecordError>>| {
                handle
                    .join()
                    .unwrap_or_else(|_| Err(self.damaged("its columns cannot be decoded".to_owned())))
            };
            handles.into_iter().map(join).collect::<Result<Vec<_>, _>>()
        })?;
        let mut all = Vec::with_capacity(parts.iter().map(Vec::len).sum());
        parts.into_iter().for_each(|mut part| all.append(&mut part));
        Ok(all)
    }
}

type Cell<T> = Result<T, String>;

/// A column by its name and type.
fn column<'a, A: Array + 'static>(batch: &'a RecordBatch, name: &str) -> Cell<&'a A> {
    let array = batch.column_by_name(name).ok_or_else(|| format!("column {name} is not there"))?;
    array
        .as_any()
        .downcast_ref()
        .ok_or_else(|| format!("column {name} has the unexpected type {}", array.data_type()))
}

type Numbers<T> = PrimitiveArray<T>;

fn number<T: ArrowPrimitiveType>(array: &Numbers<T>, row: usize) -> Option<T::Native> {
    array.is_valid(row).then(|| array.value(row))
}
fn moment(array: &Numbers<UInt64Type>, row: usize) -> Option<Nanos> {
    number(array, row).map(Nanos)
}
fn flag(array: &BooleanArray, row: usize) -> Option<bool> {
    array.is_valid(row).then(|| array.value(row))
}
fn word(array: &StringArray, row: usize) -> Option<&str> {
    array.is_valid(row).then(|| array.value(row))
}
/// A value by its name in records.
fn named<T: DeserializeOwned>(name: &str) -> Cell<T> {
    let from: serde::de::value::StrDeserializer<'_, serde::de::value::Error> = name.into_deserializer();
    T::deserialize(from).map_err(|e| e.to_string())
}

/// The values of a list column, and where those of each row begin and end.
struct Lists<'a, A> {
    list: &'a ListArray,
    values: &'a A,
}

impl<'a, A: Array + 'static> Lists<'a, A> {
    fn new(batch: &'a RecordBatch, name: &str) -> Cell<Self> {
        let list: &ListArray = column(batch, name)?;
        let values = list.values().as_any().downcast_ref();
        Ok(Self { list, values: values.ok_or_else(|| format!("column {name} has an unexpected type"))? })
    }
    fn of(&self, row: usize) -> std::ops::Range<usize> {
        let offsets = self.list.value_offsets();
        offsets[row] as usize..offsets[row + 1] as usize
    }
}

/// The columns of chunks.
struct ChunkColumns<'a> {
    arrival: Lists<'a, Numbers<UInt64Type>>,
    seen: Lists<'a, Numbers<UInt64Type>>,
    earliest: Lists<'a, Numbers<UInt64Type>>,
    kernel: Lists<'a, BooleanArray>,
    read: Lists<'a, Numbers<UInt32Type>>,
    kind: Lists<'a, StringArray>,
    tokens: Lists<'a, Numbers<UInt32Type>>,
    text_bytes: Lists<'a, Numbers<UInt32Type>>,
    choice: Lists<'a, Numbers<UInt16Type>>,
}

impl<'a> ChunkColumns<'a> {
    fn new(batch: &'a RecordBatch) -> Cell<Self> {
        Ok(Self {
            arrival: Lists::new(batch, "chunk_arrival_ns")?,
            seen: Lists::new(batch, "chunk_seen_ns")?,
            earliest: Lists::new(batch, "chunk_earliest_ns")?,
            kernel: Lists::new(batch, "chunk_kernel")?,
            read: Lists::new(batch, "chunk_read")?,
            kind: Lists::new(batch, "chunk_kind")?,
            tokens: Lists::new(batch, "chunk_tokens")?,
            text_bytes: Lists::new(batch, "chunk_text_bytes")?,
            choice: Lists::new(batch, "chunk_choice")?,
        })
    }

    /// The chunks of one request.
    fn of(&self, row: usize) -> Cell<crate::Chunks> {
        let at = self.arrival.of(row);
        let others = [
            self.seen.of(row),
            self.earliest.of(row),
            self.kernel.of(row),
            self.read.of(row),
            self.kind.of(row),
            self.tokens.of(row),
            self.text_bytes.of(row),
            self.choice.of(row),
        ];
        if others.iter().any(|other| other.len() != at.len()) {
            return Err(format!("the columns of chunks have different lengths in row {row}"));
        }
        let [seen, earliest, kernel, read, kind, tokens, text_bytes, choice] = others.map(|r| r.start);
        (0..at.len())
            .map(|i| {
                Ok(Chunk {
                    arrival: Nanos(self.arrival.values.value(at.start + i)),
                    seen: Nanos(self.seen.values.value(seen + i)),
                    earliest: Nanos(self.earliest.values.value(earliest + i)),
                    kernel: self.kernel.values.value(kernel + i),
                    read: self.read.values.value(read + i),
                    kind: kind_of(self.kind.values.value(kind + i))?,
                    tokens: number(self.tokens.values, tokens + i),
                    text_bytes: self.text_bytes.values.value(text_bytes + i),
                    choice: self.choice.values.value(choice + i),
                })
            })
            .collect()
    }
}

fn kind_of(name: &str) -> Cell<Kind> {
    // Nearly every chunk of a table goes this way.
    if name == super::kind_name(Kind::Answer) { Ok(Kind::Answer) } else { named(name) }
}

fn finish_of(name: &str) -> Finish {
    [Finish::Stop, Finish::Length, Finish::ToolCalls, Finish::ContentFilter]
        .into_iter()
        .find(|finish| finish.name() == name)
        .unwrap_or_else(|| Finish::Other(name.to_owned()))
}

fn requests(batch: &RecordBatch, out: &mut Vec<Request>) -> Cell<()> {
    let u64s = |name| column::<Numbers<UInt64Type>>(batch, name);
    let u32s = |name| column::<Numbers<UInt32Type>>(batch, name);
    let u16s = |name| column::<Numbers<UInt16Type>>(batch, name);
    let flags = |name| column::<BooleanArray>(batch, name);
    let words = |name| column::<StringArray>(batch, name);
    let (seq, phase, user, lane) = (u64s("seq")?, words("phase")?, u32s("user")?, u16s("lane")?);
    let (state, class, detail) = (words("state")?, words("failure_class")?, words("failure_detail")?);
    let (timeout, status) = (words("timeout")?, u16s("status")?);
    let (intended, dispatched, admitted) =
        (u64s("intended_ns")?, u64s("dispatched_ns")?, u64s("admitted_ns")?);
    let (write_begin, write_end) = (u64s("write_begin_ns")?, u64s("write_end_ns")?);
    let (headers, done, closed) = (u64s("headers_ns")?, u64s("done_ns")?, u64s("closed_ns")?);
    let (id, reused, stale) =
        (u32s("connection_id")?, flags("connection_reused")?, u32s("connection_stale")?);
    let ahead = flags("connection_ahead")?;
    let (connect, tls) = (u64s("connection_connect_ns")?, u64s("connection_tls_ns")?);
    let (streamed, reads) = (flags("streamed")?, u32s("output_reads")?);
    let (planned, counted) = (u32s("input_planned")?, u32s("input_counted")?);
    let (server, cached, shared) = (u32s("input_server")?, u32s("input_cached")?, u32s("input_shared")?);
    let (asked, forced, usage) = (u32s("output_asked")?, flags("output_forced")?, u32s("output_usage")?);
    let (reasoning, retokenised) = (u32s("output_reasoning")?, u32s("output_retokenised")?);
    let (finish, attempts) = (words("finish")?, u32s("attempts")?);
    let (first16, first64, whole) = (u64s("prompt_first16")?, u64s("prompt_first64")?, u64s("prompt_whole")?);
    let (server_id, oddities) = (words("server_id")?, Lists::<StringArray>::new(batch, "oddities")?);
    let (cumulative_chunks, cumulative_run) = (u32s("cumulative_chunks")?, u32s("cumulative_run")?);
    let echo = u32s("echo_tokens")?;
    let chunks = ChunkColumns::new(batch)?;

    let state_of = |row: usize| -> Cell<State> {
        let given =
            |name: &str, text| word(text, row).ok_or_else(|| format!("{name} is missing in row {row}"));
        Ok(match state.value(row) {
            "ok" => State::Ok,
            "failed" => State::Failed {
                class: named(given("failure_class", class)?)?,
                detail: given("failure_detail", detail)?.to_owned(),
            },
            "timed_out" => State::TimedOut { limit: named(given("timeout", timeout)?)? },
            "cancelled" => State::Cancelled,
            "shed" => State::Shed,
            other => return Err(format!("column state holds `{other}`")),
        })
    };
    out.reserve(batch.num_rows());
    for row in 0..batch.num_rows() {
        let connection = number(id, row).map(|id| Connection {
            id,
            reused: reused.value(row),
            connect: moment(connect, row),
            tls: moment(tls, row),
            ahead: ahead.value(row),
            stale: stale.value(row),
        });
        let oddities = oddities.of(row).map(|i| named(oddities.values.value(i))).collect::<Cell<Vec<_>>>()?;
        out.push(Request {
            seq: seq.value(row),
            phase: named(phase.value(row))?,
            user: number(user, row),
            lane: lane.value(row),
            intended: Nanos(intended.value(row)),
            dispatched: moment(dispatched, row),
            admitted: moment(admitted, row),
            connection,
            write_begin: moment(write_begin, row),
            write_end: moment(write_end, row),
            headers: moment(headers, row),
            done: moment(done, row),
            closed: moment(closed, row),
            state: state_of(row)?,
            status: number(status, row),
            streamed: flag(streamed, row).unwrap_or_default(),
            chunks: chunks.of(row)?,
            output_reads: reads.value(row),
            input: InputTokens {
                planned: number(planned, row),
                counted: number(counted, row),
                server: number(server, row),
                cached: number(cached, row),
                shared: shared.value(row),
            },
            output: OutputTokens {
                asked: number(asked, row),
                forced: flag(forced, row).unwrap_or_default(),
                usage: number(usage, row),
                reasoning: number(reasoning, row),
                retokenised: number(retokenised, row),
            },
            finish: word(finish, row).map(finish_of),
            attempts: attempts.value(row),
            prompt: PromptIdentity {
                first16: first16.value(row),
                first64: first64.value(row),
                whole: whole.value(row),
            },
            server_id: word(server_id, row).map(str::to_owned),
            oddities,
            cumulative_chunks: cumulative_chunks.value(row),
            cumulative_run: cumulative_run.value(row),
            echo_tokens: number(echo, row),
        });
    }
    Ok(())
}

fn samples(batch: &RecordBatch, run: &mut Run) -> Cell<()> {
    let u64s = |name| column::<Numbers<UInt64Type>>(batch, name);
    let u32s = |name| column::<Numbers<UInt32Type>>(batch, name);
    let floats = |name| column::<Float64Array>(batch, name);
    let (source, at) = (column::<StringArray>(batch, "source")?, u64s("at_ns")?);
    let lane = column::<Numbers<UInt16Type>>(batch, "lane")?;
    let (from, busy, heartbeat) =
        (u64s("lane_from_ns")?, u64s("lane_busy_ns")?, u64s("lane_heartbeat_max_ns")?);
    let (heartbeats, in_flight) = (u32s("lane_heartbeats")?, u32s("lane_in_flight")?);
    let (cores, machine_busy, steal) =
        (u32s("machine_cores")?, u64s("machine_busy_ns")?, u64s("machine_steal_ns")?);
    let (own, target) = (u64s("machine_own_ns")?, u64s("machine_target_ns")?);
    let (wait, lane_run, slices) =
        (u64s("machine_lane_wait_ns")?, u64s("machine_lane_run_ns")?, u64s("machine_lane_slices")?);
    let (offset, width) = (column::<Int64Array>(batch, "clock_offset_ns")?, u64s("clock_width_ns")?);
    let (running, waiting) = (floats("server_running")?, floats("server_waiting")?);
    let (generated, prompts) = (floats("server_generated_tokens")?, floats("server_prompt_tokens")?);
    let (cached, usage) = (floats("server_cached_tokens")?, floats("server_kv_usage")?);
    let (preemptions, ours) = (floats("server_preemptions")?, u32s("server_ours_in_flight")?);
    for row in 0..batch.num_rows() {
        let now = Nanos(at.value(row));
        let ns = |array: &Numbers<UInt64Type>| Nanos(array.value(row));
        match source.value(row) {
            "lane" => run.lanes.push(LaneSample {
                lane: lane.value(row),
                from: ns(from),
                to: now,
                busy: ns(busy),
                heartbeat_max: ns(heartbeat),
                heartbeats: heartbeats.value(row),
                in_flight: in_flight.value(row),
            }),
            "machine" => run.machine.push(MachineSample {
                at: now,
                cores: cores.value(row),
                busy: ns(machine_busy),
                steal: ns(steal),
                own: ns(own),
                target: moment(target, row),
                lane_wait: ns(wait),
                lane_run: ns(lane_run),
                lane_slices: slices.value(row),
            }),
            "clock" => {
                run.clock.push(ClockSample { at: now, offset_ns: offset.value(row), width: ns(width) })
            }
            "server" => run.server.push(ServerSample {
                at: now,
                running: number(running, row),
                waiting: number(waiting, row),
                generated_tokens: number(generated, row),
                prompt_tokens: number(prompts, row),
                cached_tokens: number(cached, row),
                kv_usage: number(usage, row),
                preemptions: number(preemptions, row),
                ours_in_flight: ours.value(row),
            }),
            other => return Err(format!("column source holds `{other}`")),
        }
    }
    Ok(())
}
