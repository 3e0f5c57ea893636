//! Parquet tables, derived from a run: `requests.parquet` and `telemetry.parquet`.
//!
//! The columns are a contract, described in `docs/formats.md`.

mod read;

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::BooleanBuilder;
use arrow_array::builder::{ListBuilder, PrimitiveBuilder, StringBuilder};
use arrow_array::types::{ArrowPrimitiveType, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, PrimitiveArray, RecordBatch, StringArray,
};
use arrow_schema::{ArrowError, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use spec::{Nanos, Phase};

use crate::SCHEMA_VERSION;
use crate::error::RecordError;
use crate::folder::{Private, replace};
use crate::journal::Run;
use crate::row::{Chunk, Kind, Oddity, Request, State};

pub(crate) use read::MAGIC;
pub use read::read;

/// Keys of the file's metadata: the version of the format, and of `requests.parquet` the parts of a
/// run that are no rows, as JSON.
const VERSION: &str = "inferometer.schema_version";
const HEADER: &str = "inferometer.header";
const FOOTER: &str = "inferometer.footer";
const MISSING: &str = "inferometer.missing";

/// Requests in one row group: bounds memory, and lets readers skip.
const ROWS_PER_GROUP: usize = 4096;

/// Writes `requests.parquet`: one row for each request, one list column for each part of a chunk; the
/// header, the footer and what is missing stand in the file's metadata.
///
/// # Errors
/// The file cannot be written; an earlier file stays as it was.
pub fn write_requests(path: &Path, run: &Run) -> Result<(), RecordError> {
    let json = |key: &str, value: serde_json::Result<String>| {
        let value = value.map_err(|e| RecordError::Table { path: path.to_owned(), reason: e.to_string() })?;
        Ok::<_, RecordError>(KeyValue::new(key.to_owned(), value))
    };
    let told = vec![
        json(HEADER, serde_json::to_string(&run.header))?,
        json(FOOTER, serde_json::to_string(&run.footer))?,
        json(MISSING, serde_json::to_string(&run.missing))?,
    ];
    write(path, told, run.requests.chunks(ROWS_PER_GROUP).map(request_rows), || request_rows(&[]))
}

/// Writes `telemetry.parquet`: one row for each sample. `source` says whose it is (`lane`,
/// `machine`, `clock`, `server`); columns that the source does not have are null.
///
/// # Errors
/// The file cannot be written; an earlier file stays as it was.
pub fn write_telemetry(path: &Path, run: &Run) -> Result<(), RecordError> {
    write(path, Vec::new(), std::iter::once(telemetry_rows(run)), || telemetry_rows(run))
}

type Rows = Result<RecordBatch, ArrowError>;

fn write(
    path: &Path,
    told: Vec<KeyValue>,
    batches: impl Iterator<Item = Rows>,
    empty: impl FnOnce() -> Rows,
) -> Result<(), RecordError> {
    let arrow = |e: ArrowError| RecordError::Table { path: path.to_owned(), reason: e.to_string() };
    // An error of the disk keeps its kind, so that the message can name the remedy.
    let failed = |e: ParquetError| match e {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(source) => RecordError::io("write", path)(*source),
            Err(other) => RecordError::Table { path: path.to_owned(), reason: other.to_string() },
        },
        other => RecordError::Table { path: path.to_owned(), reason: other.to_string() },
    };
    let mut batches = batches.peekable();
    let schema = match batches.peek() {
        Some(Ok(batch)) => batch.schema(),
        _ => empty().map_err(arrow)?.schema(),
    };
    replace(path, Private::No, |file| {
        let mut writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties(&schema, told)))
            .map_err(failed)?;
        for batch in batches {
            writer.write(&batch.map_err(arrow)?).map_err(failed)?;
        }
        writer.close().map_err(failed)?;
        Ok(())
    })
}

/// Times that grow along a column are kept as differences, which a dictionary cannot match.
fn properties(schema: &Schema, mut told: Vec<KeyValue>) -> WriterProperties {
    told.push(KeyValue::new(VERSION.to_owned(), SCHEMA_VERSION.to_string()));
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROWS_PER_GROUP))
        .set_key_value_metadata(Some(told));
    for field in schema.fields() {
        let leaf = match field.data_type() {
            arrow_schema::DataType::List(item) => {
                ColumnPath::from(vec![field.name().clone(), "list".to_owned(), item.name().clone()])
            }
            _ => ColumnPath::from(field.name().as_str()),
        };
        if field.name().ends_with("_ns") || field.name() == "seq" {
            properties = properties
                .set_column_dictionary_enabled(leaf.clone(), false)
                .set_column_encoding(leaf, Encoding::DELTA_BINARY_PACKED);
        }
    }
    properties.build()
}

/// Columns in the making.
#[derive(Default)]
struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    /// A column that may hold nulls.
    fn add(&mut self, name: &str, array: ArrayRef) {
        self.fields.push(Field::new(name, array.data_type().clone(), true));
        self.arrays.push(array);
    }
    /// A column that never holds one.
    fn always(&mut self, name: &str, array: ArrayRef) {
        self.fields.push(Field::new(name, array.data_type().clone(), false));
        self.arrays.push(array);
    }
    fn batch(self) -> Rows {
        RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.arrays)
    }
}

fn all<T: ArrowPrimitiveType, R>(rows: &[R], value: impl Fn(&R) -> T::Native) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::from_iter_values(rows.iter().map(value)))
}
fn some<T: ArrowPrimitiveType, R>(rows: &[R], value: impl Fn(&R) -> Option<T::Native>) -> ArrayRef {
    let mut builder = PrimitiveBuilder::<T>::with_capacity(rows.len());
    rows.iter().for_each(|row| builder.append_option(value(row)));
    Arc::new(builder.finish())
}
fn moment<R>(rows: &[R], value: impl Fn(&R) -> Option<Nanos>) -> ArrayRef {
    some::<UInt64Type, R>(rows, |row| value(row).map(|at| at.0))
}
fn flag<R>(rows: &[R], value: impl Fn(&R) -> Option<bool>) -> ArrayRef {
    Arc::new(BooleanArray::from(rows.iter().map(value).collect::<Vec<_>>()))
}
fn word<'a, R>(rows: &'a [R], value: impl Fn(&'a R) -> Option<&'a str>) -> ArrayRef {
    Arc::new(StringArray::from(rows.iter().map(value).collect::<Vec<_>>()))
}

fn list<T: ArrowPrimitiveType>(
    requests: &[Request],
    value: impl Fn(&Chunk) -> Option<T::Native>,
) -> ArrayRef {
    let mut lists = ListBuilder::new(PrimitiveBuilder::<T>::new());
    for request in requests {
        request.chunks.iter().for_each(|chunk| lists.values().append_option(value(&chunk)));
        lists.append(true);
    }
    Arc::new(lists.finish())
}

fn words<'a, I: IntoIterator<Item = &'a str>>(
    requests: &'a [Request],
    values: impl Fn(&'a Request) -> I,
) -> ArrayRef {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for request in requests {
        values(request).into_iter().for_each(|value| lists.values().append_value(value));
        lists.append(true);
    }
    Arc::new(lists.finish())
}

fn request_rows(rows: &[Request]) -> Rows {
    let mut c = Columns::default();
    c.always("seq", all::<UInt64Type, _>(rows, |r| r.seq));
    c.always("phase", word(rows, |r| Some(phase_name(r.phase))));
    c.add("user", some::<UInt32Type, _>(rows, |r| r.user));
    c.always("lane", all::<UInt16Type, _>(rows, |r| r.lane));
    c.always("state", word(rows, |r| Some(state_name(&r.state))));
    c.add("failure_class", word(rows, |r| failure(r).map(|f| f.0)));
    c.add("failure_detail", word(rows, |r| failure(r).map(|f| f.1)));
    c.add("timeout", word(rows, |r| timeout(&r.state)));
    c.add("status", some::<UInt16Type, _>(rows, |r| r.status));
    c.always("intended_ns", moment(rows, |r| Some(r.intended)));
    c.add("dispatched_ns", moment(rows, |r| r.dispatched));
    c.add("admitted_ns", moment(rows, |r| r.admitted));
    c.add("write_begin_ns", moment(rows, |r| r.write_begin));
    c.add("write_end_ns", moment(rows, |r| r.write_end));
    c.add("headers_ns", moment(rows, |r| r.headers));
    c.add("done_ns", moment(rows, |r| r.done));
    c.add("closed_ns", moment(rows, |r| r.closed));
    c.add("connection_id", some::<UInt32Type, _>(rows, |r| r.connection.map(|k| k.id)));
    c.add("connection_reused", flag(rows, |r| r.connection.map(|k| k.reused)));
    c.add("connection_connect_ns", moment(rows, |r| r.connection.and_then(|k| k.connect)));
    c.add("connection_tls_ns", moment(rows, |r| r.connection.and_then(|k| k.tls)));
    c.add("connection_stale", some::<UInt32Type, _>(rows, |r| r.connection.map(|k| k.stale)));
    c.always("streamed", flag(rows, |r| Some(r.streamed)));
    c.always("output_reads", all::<UInt32Type, _>(rows, |r| r.output_reads));
    c.add("input_planned", some::<UInt32Type, _>(rows, |r| r.input.planned));
    c.add("input_counted", some::<UInt32Type, _>(rows, |r| r.input.counted));
    c.add("input_server", some::<UInt32Type, _>(rows, |r| r.input.server));
    c.add("input_cached", some::<UInt32Type, _>(rows, |r| r.input.cached));
    c.always("input_shared", all::<UInt32Type, _>(rows, |r| r.input.shared));
    c.add("output_asked", some::<UInt32Type, _>(rows, |r| r.output.asked));
    c.always("output_forced", flag(rows, |r| Some(r.output.forced)));
    c.add("output_usage", some::<UInt32Type, _>(rows, |r| r.output.usage));
    c.add("output_reasoning", some::<UInt32Type, _>(rows, |r| r.output.reasoning));
    c.add("output_retokenised", some::<UInt32Type, _>(rows, |r| r.output.retokenised));
    c.add("finish", word(rows, |r| r.finish.as_ref().map(|f| f.name())));
    c.always("attempts", all::<UInt32Type, _>(rows, |r| r.attempts));
    c.always("prompt_first16", all::<UInt64Type, _>(rows, |r| r.prompt.first16));
    c.always("prompt_first64", all::<UInt64Type, _>(rows, |r| r.prompt.first64));
    c.always("prompt_whole", all::<UInt64Type, _>(rows, |r| r.prompt.whole));
    c.add("server_id", word(rows, |r| r.server_id.as_deref()));
    c.always("oddities", words(rows, |r| r.oddities.iter().map(|o| oddity_name(*o))));
    c.always("cumulative_chunks", all::<UInt32Type, _>(rows, |r| r.cumulative_chunks));
    c.always("cumulative_run", all::<UInt32Type, _>(rows, |r| r.cumulative_run));
    c.add("echo_tokens", some::<UInt32Type, _>(rows, |r| r.echo_tokens));
    c.always("chunk_arrival_ns", list::<UInt64Type>(rows, |k| Some(k.arrival.0)));
    c.always("chunk_seen_ns", list::<UInt64Type>(rows, |k| Some(k.seen.0)));
    c.always("chunk_earliest_ns", list::<UInt64Type>(rows, |k| Some(k.earliest.0)));
    c.always("chunk_kernel", kernel_flags(rows));
    c.always("chunk_read", list::<UInt32Type>(rows, |k| Some(k.read)));
    c.always("chunk_kind", words(rows, |r| r.chunks.iter().map(|k| kind_name(k.kind))));
    c.always("chunk_tokens", list::<UInt32Type>(rows, |k| k.tokens));
    c.always("chunk_text_bytes", list::<UInt32Type>(rows, |k| Some(k.text_bytes)));
    c.always("chunk_choice", list::<UInt16Type>(rows, |k| Some(k.choice)));
    c.batch()
}

fn kernel_flags(requests: &[Request]) -> ArrayRef {
    let mut lists = ListBuilder::new(BooleanBuilder::new());
    for request in requests {
        request.chunks.iter().for_each(|chunk| lists.values().append_value(chunk.kernel));
        lists.append(true);
    }
    Arc::new(lists.finish())
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Warmup => "warmup",
        Phase::Measure => "measure",
    }
}
fn state_name(state: &State) -> &'static str {
    match state {
        State::Ok => "ok",
        State::Failed { .. } => "failed",
        State::TimedOut { .. } => "timed_out",
        State::Cancelled => "cancelled",
        State::Shed => "shed",
    }
}
fn failure(request: &Request) -> Option<(&'static str, &str)> {
    match &request.state {
        State::Failed { class, detail } => Some((class.name(), detail)),
        _ => None,
    }
}
fn timeout(state: &State) -> Option<&'static str> {
    match state {
        State::TimedOut { limit } => Some(limit.name()),
        _ => None,
    }
}
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Answer => "answer",
        Kind::Reasoning => "reasoning",
        Kind::ToolCall => "tool_call",
        Kind::Refusal => "refusal",
    }
}
fn oddity_name(oddity: Oddity) -> &'static str {
    match oddity {
        Oddity::NotStreamed => "not_streamed",
        Oddity::UnterminatedEvent => "unterminated_event",
        Oddity::NoDone => "no_done",
        Oddity::NoFinish => "no_finish",
        Oddity::CountMismatch => "count_mismatch",
        Oddity::NoUsage => "no_usage",
        Oddity::SeveralChoices => "several_choices",
        Oddity::ClampedStamp => "clamped_stamp",
        Oddity::OwnLimit => "own_limit",
    }
}

/// One sample of any source.
enum Sample<'a> {
    Lane(&'a crate::LaneSample),
    Machine(&'a crate::MachineSample),
    Clock(&'a crate::ClockSample),
    Server(&'a crate::ServerSample),
}

fn telemetry_rows(run: &Run) -> Rows {
    use Sample::{Clock, Lane, Machine, Server};
    let lanes = run.lanes.iter().map(Lane);
    let machine = run.machine.iter().map(Machine);
    let clock = run.clock.iter().map(Clock);
    let rows: Vec<Sample> = lanes.chain(machine).chain(clock).chain(run.server.iter().map(Server)).collect();
    let rows = rows.as_slice();

    fn lane<T>(sample: &Sample, value: impl Fn(&crate::LaneSample) -> T) -> Option<T> {
        if let Lane(lane) = sample { Some(value(lane)) } else { None }
    }
    fn machine_of<T>(sample: &Sample, value: impl Fn(&crate::MachineSample) -> T) -> Option<T> {
        if let Machine(machine) = sample { Some(value(machine)) } else { None }
    }
    let server = |value: fn(&crate::ServerSample) -> Option<f64>| -> ArrayRef {
        // A server may well publish NaN; a table of numbers has null for it.
        let finite = rows.iter().map(|s| match s {
            Server(server) => value(server).filter(|v| v.is_finite()),
            _ => None,
        });
        Arc::new(Float64Array::from(finite.collect::<Vec<_>>()))
    };
    let mut c = Columns::default();
    let source = |s: &Sample| match s {
        Lane(_) => "lane",
        Machine(_) => "machine",
        Clock(_) => "clock",
        Server(_) => "server",
    };
    let at = |s: &Sample| match s {
        Lane(lane) => lane.to,
        Machine(machine) => machine.at,
        Clock(clock) => clock.at,
        Server(server) => server.at,
    };
    c.always("source", Arc::new(StringArray::from_iter_values(rows.iter().map(source))));
    c.always("at_ns", moment(rows, |s| Some(at(s))));
    c.add("lane", some::<UInt16Type, _>(rows, |s| lane(s, |l| l.lane)));
    c.add("lane_from_ns", moment(rows, |s| lane(s, |l| l.from)));
    c.add("lane_busy_ns", moment(rows, |s| lane(s, |l| l.busy)));
    c.add("lane_heartbeat_max_ns", moment(rows, |s| lane(s, |l| l.heartbeat_max)));
    c.add("lane_heartbeats", some::<UInt32Type, _>(rows, |s| lane(s, |l| l.heartbeats)));
    c.add("lane_in_flight", some::<UInt32Type, _>(rows, |s| lane(s, |l| l.in_flight)));
    c.add("machine_cores", some::<UInt32Type, _>(rows, |s| machine_of(s, |m| m.cores)));
    c.add("machine_busy_ns", moment(rows, |s| machine_of(s, |m| m.busy)));
    c.add("machine_steal_ns", moment(rows, |s| machine_of(s, |m| m.steal)));
    c.add("machine_own_ns", moment(rows, |s| machine_of(s, |m| m.own)));
    c.add("machine_target_ns", moment(rows, |s| machine_of(s, |m| m.target).flatten()));
    c.add("machine_lane_wait_ns", moment(rows, |s| machine_of(s, |m| m.lane_wait)));
    c.add("machine_lane_run_ns", moment(rows, |s| machine_of(s, |m| m.lane_run)));
    c.add("machine_lane_slices", some::<UInt64Type, _>(rows, |s| machine_of(s, |m| m.lane_slices)));
    let offset = rows.iter().map(|s| if let Clock(clock) = s { Some(clock.offset_ns) } else { None });
    c.add("clock_offset_ns", Arc::new(Int64Array::from(offset.collect::<Vec<_>>())));
    c.add("clock_width_ns", moment(rows, |s| if let Clock(clock) = s { Some(clock.width) } else { None }));
    c.add("server_running", server(|s| s.running));
    c.add("server_waiting", server(|s| s.waiting));
    c.add("server_generated_tokens", server(|s| s.generated_tokens));
    c.add("server_prompt_tokens", server(|s| s.prompt_tokens));
    c.add("server_cached_tokens", server(|s| s.cached_tokens));
    c.add("server_kv_usage", server(|s| s.kv_usage));
    c.add("server_preemptions", server(|s| s.preemptions));
    let ours = |s: &Sample| if let Server(server) = s { Some(server.ours_in_flight) } else { None };
    c.add("server_ours_in_flight", some::<UInt32Type, _>(rows, ours));
    c.batch()
}
