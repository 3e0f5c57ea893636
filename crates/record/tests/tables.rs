//! The Parquet tables: what a reader finds equals the rows.

#![allow(clippy::unwrap_used)] // clippy knows tests, not their helpers

mod common;

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int64Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use common::{any_request, any_server_sample, footer, header, request};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;
use record::{
    Chunk, ClockSample, Connection, FailureClass, Finish, InputTokens, LaneSample, MachineSample,
    OutputTokens, PromptIdentity, Request, Run, State, TimeoutKind, tables,
};
use serde::de::DeserializeOwned;
use spec::Nanos;

fn run(requests: Vec<Request>) -> Run {
    Run {
        header: header(),
        requests,
        lanes: Vec::new(),
        machine: Vec::new(),
        clock: Vec::new(),
        server: Vec::new(),
        footer: footer(),
        missing: Vec::new(),
    }
}

fn batches(path: &Path) -> Vec<RecordBatch> {
    let file = std::fs::File::open(path).unwrap();
    ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap().map(Result::unwrap).collect()
}

/// One row of a batch.
struct Row<'a>(&'a RecordBatch, usize);

impl Row<'_> {
    fn column(&self, name: &str) -> &dyn Array {
        self.0.column_by_name(name).unwrap_or_else(|| panic!("no column {name}"))
    }
    fn number<T: ArrowPrimitiveType>(&self, name: &str) -> Option<T::Native> {
        let array = self.column(name).as_primitive::<T>();
        array.is_valid(self.1).then(|| array.value(self.1))
    }
    fn u32(&self, name: &str) -> Option<u32> {
        self.number::<UInt32Type>(name)
    }
    fn u64(&self, name: &str) -> u64 {
        self.number::<UInt64Type>(name).unwrap()
    }
    fn at(&self, name: &str) -> Option<Nanos> {
        self.number::<UInt64Type>(name).map(Nanos)
    }
    fn flag(&self, name: &str) -> Option<bool> {
        let array = self.column(name).as_boolean();
        array.is_valid(self.1).then(|| array.value(self.1))
    }
    fn text(&self, name: &str) -> Option<String> {
        let array = self.column(name).as_string::<i32>();
        array.is_valid(self.1).then(|| array.value(self.1).to_owned())
    }
    /// A name as written in records, read by serde.
    fn name<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.text(name).map(|text| serde_json::from_value(text.into()).unwrap())
    }
    fn list<T: ArrowPrimitiveType>(&self, name: &str) -> Vec<Option<T::Native>> {
        self.column(name).as_list::<i32>().value(self.1).as_primitive::<T>().iter().collect()
    }
    fn names<T: DeserializeOwned>(&self, name: &str) -> Vec<T> {
        let list = self.column(name).as_list::<i32>().value(self.1);
        list.as_string::<i32>().iter().map(|t| serde_json::from_value(t.unwrap().into()).unwrap()).collect()
    }

    fn request(&self) -> Request {
        let state = match self.text("state").unwrap().as_str() {
            "ok" => State::Ok,
            "failed" => State::Failed {
                class: self.name::<FailureClass>("failure_class").unwrap(),
                detail: self.text("failure_detail").unwrap(),
            },
            "timed_out" => State::TimedOut { limit: self.name::<TimeoutKind>("timeout").unwrap() },
            "cancelled" => State::Cancelled,
            "shed" => State::Shed,
            other => panic!("{other}"),
        };
        let finish = self.text("finish").map(|word| match word.as_str() {
            "stop" => Finish::Stop,
            "length" => Finish::Length,
            "tool_calls" => Finish::ToolCalls,
            "content_filter" => Finish::ContentFilter,
            other => Finish::Other(other.to_owned()),
        });
        let seen = self.list::<UInt64Type>("chunk_seen_ns");
        let earliest = self.list::<UInt64Type>("chunk_earliest_ns");
        let kernel = self.column("chunk_kernel").as_list::<i32>().value(self.1);
        let read = self.list::<UInt32Type>("chunk_read");
        let kind = self.names("chunk_kind");
        let tokens = self.list::<UInt32Type>("chunk_tokens");
        let text_bytes = self.list::<UInt32Type>("chunk_text_bytes");
        let choice = self.list::<UInt16Type>("chunk_choice");
        let chunks =
            self.list::<UInt64Type>("chunk_arrival_ns").into_iter().enumerate().map(|(i, arrival)| Chunk {
                arrival: Nanos(arrival.unwrap()),
                seen: Nanos(seen[i].unwrap()),
                earliest: Nanos(earliest[i].unwrap()),
                kernel: kernel.as_boolean().value(i),
                read: read[i].unwrap(),
                kind: kind[i],
                tokens: tokens[i],
                text_bytes: text_bytes[i].unwrap(),
                choice: choice[i].unwrap(),
            });
        Request {
            seq: self.u64("seq"),
            phase: self.name("phase").unwrap(),
            user: self.u32("user"),
            lane: self.number::<UInt16Type>("lane").unwrap(),
            intended: self.at("intended_ns").unwrap(),
            dispatched: self.at("dispatched_ns"),
            admitted: self.at("admitted_ns"),
            connection: self.u32("connection_id").map(|id| Connection {
                id,
                reused: self.flag("connection_reused").unwrap(),
                connect: self.at("connection_connect_ns"),
                tls: self.at("connection_tls_ns"),
                ahead: self.flag("connection_ahead").unwrap(),
                stale: self.u32("connection_stale").unwrap(),
            }),
            write_begin: self.at("write_begin_ns"),
            write_end: self.at("write_end_ns"),
            headers: self.at("headers_ns"),
            done: self.at("done_ns"),
            closed: self.at("closed_ns"),
            state,
            status: self.number::<UInt16Type>("status"),
            streamed: self.flag("streamed").unwrap(),
            chunks: chunks.collect(),
            output_reads: self.u32("output_reads").unwrap(),
            input: InputTokens {
                planned: self.u32("input_planned"),
                counted: self.u32("input_counted"),
                server: self.u32("input_server"),
                cached: self.u32("input_cached"),
                shared: self.u32("input_shared").unwrap(),
            },
            output: OutputTokens {
                asked: self.u32("output_asked"),
                forced: self.flag("output_forced").unwrap(),
                usage: self.u32("output_usage"),
                reasoning: self.u32("output_reasoning"),
                retokenised: self.u32("output_retokenised"),
            },
            finish,
            attempts: self.u32("attempts").unwrap(),
            prompt: PromptIdentity {
                first16: self.u64("prompt_first16"),
                first64: self.u64("prompt_first64"),
                whole: self.u64("prompt_whole"),
            },
            server_id: self.text("server_id"),
            oddities: self.names("oddities"),
            cumulative_chunks: self.u32("cumulative_chunks").unwrap(),
            cumulative_run: self.u32("cumulative_run").unwrap(),
            echo_tokens: self.u32("echo_tokens"),
        }
    }
}

fn requests_of(path: &Path) -> Vec<Request> {
    batches(path)
        .iter()
        .flat_map(|b| (0..b.num_rows()).map(|i| Row(b, i).request()).collect::<Vec<_>>())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_request_reads_back_exactly(requests in proptest::collection::vec(any_request(), 0..6)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("requests.parquet");
        tables::write_requests(&path, &run(requests.clone())).unwrap();
        prop_assert_eq!(requests_of(&path), requests);
    }

    /// A run whose journal is gone is the same run, to the digit.
    #[test]
    fn a_run_reads_back_from_its_tables(
        mut requests in proptest::collection::vec(any_request(), 0..6),
        server in proptest::collection::vec(any_server_sample(), 0..3),
        lane in 0u16..9, offset_ns: i64, target in proptest::option::of(0u64..99),
    ) {
        requests.sort_by_key(|r| r.seq);
        requests.dedup_by_key(|r| r.seq);
        let run = Run {
            lanes: vec![LaneSample { lane, ..LANE }],
            machine: vec![MachineSample { target: target.map(Nanos), ..MACHINE }],
            clock: vec![ClockSample { at: Nanos(20), offset_ns, width: Nanos(22) }],
            server,
            missing: vec!["a line".to_owned()],
            ..run(requests)
        };
        let dir = tempfile::tempdir().unwrap();
        tables::write_requests(&dir.path().join("requests.parquet"), &run).unwrap();
        tables::write_telemetry(&dir.path().join("telemetry.parquet"), &run).unwrap();
        prop_assert_eq!(record::read(dir.path()).unwrap(), run.clone());
        prop_assert_eq!(record::read(&dir.path().join("requests.parquet")).unwrap(), run);
    }

    #[test]
    fn every_server_sample_reads_back_exactly(server in proptest::collection::vec(any_server_sample(), 0..6)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("telemetry.parquet");
        tables::write_telemetry(&path, &Run { server: server.clone(), ..run(Vec::new()) }).unwrap();
        let batches = batches(&path);
        let rows = batches.iter().flat_map(|b| (0..b.num_rows()).map(move |i| Row(b, i)));
        for (row, sample) in rows.zip(&server) {
            prop_assert_eq!(row.at("at_ns"), Some(sample.at));
            prop_assert_eq!(row.number::<Float64Type>("server_running"), sample.running);
            prop_assert_eq!(row.number::<Float64Type>("server_preemptions"), sample.preemptions);
            prop_assert_eq!(row.u32("server_ours_in_flight"), Some(sample.ours_in_flight));
        }
        prop_assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), server.len());
    }
}

#[test]
fn several_row_groups_hold_all_rows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("requests.parquet");
    let requests: Vec<Request> = (0..9_000).map(|seq| request(seq, 2)).collect();
    tables::write_requests(&path, &run(requests.clone())).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let metadata = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().metadata().clone();
    assert_eq!(metadata.num_row_groups(), 3);
    let version = metadata.file_metadata().key_value_metadata().unwrap();
    assert!(
        version.iter().any(|kv| kv.key == "inferometer.schema_version" && kv.value.as_deref() == Some("1"))
    );
    assert_eq!(requests_of(&path), requests);
}

const LANE: LaneSample = LaneSample {
    lane: 2,
    from: Nanos(1),
    to: Nanos(2),
    busy: Nanos(3),
    heartbeat_max: Nanos(4),
    heartbeats: 5,
    in_flight: 6,
};
const MACHINE: MachineSample = MachineSample {
    at: Nanos(10),
    cores: 11,
    busy: Nanos(12),
    steal: Nanos(13),
    own: Nanos(14),
    target: None,
    lane_wait: Nanos(15),
    lane_run: Nanos(16),
    lane_slices: 17,
};

#[test]
fn without_samples_a_run_is_read_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("requests.parquet");
    tables::write_requests(&path, &run((0..3).map(|seq| request(seq, 2)).collect())).unwrap();
    let read = record::read(&path).unwrap();
    assert_eq!(read.requests.len(), 3);
    assert!(read.missing.len() == 1 && read.missing[0].contains("telemetry.parquet"), "{:?}", read.missing);
}

#[test]
fn what_is_no_table_of_ours_is_refused_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("requests.parquet");
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let error = record::read(&path).unwrap_err().to_string();
        assert!(error.contains("requests.parquet cannot be read as a table of a run"), "{error}");
    };
    refused(b"PAR1");
    refused(b"PAR1 and nothing that ends as a table does");
    // A table of samples is none of requests.
    tables::write_telemetry(&path, &run(Vec::new())).unwrap();
    refused(&std::fs::read(&path).unwrap());
    // Any damaged byte gives an error or a run, never a panic.
    tables::write_requests(&path, &run((0..20).map(|seq| request(seq, 4)).collect())).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        std::fs::write(&path, &bytes).unwrap();
        let _ = record::read(&path);
    }
    for length in (4..whole.len()).step_by(97) {
        refused(&whole[..length]);
    }
}

#[test]
fn telemetry_has_one_row_for_each_sample_and_nulls_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("telemetry.parquet");
    let clock = ClockSample { at: Nanos(20), offset_ns: -21, width: Nanos(22) };
    let server = record::ServerSample {
        at: Nanos(30),
        waiting: Some(f64::NAN),
        running: Some(1.5),
        ..Default::default()
    };
    let run = Run {
        lanes: vec![LANE],
        machine: vec![MACHINE],
        clock: vec![clock],
        server: vec![server],
        ..run(Vec::new())
    };
    tables::write_telemetry(&path, &run).unwrap();
    let batch = batches(&path).remove(0);
    let row = |i| Row(&batch, i);
    assert_eq!(
        (0..4).map(|i| (row(i).text("source").unwrap(), row(i).u64("at_ns"))).collect::<Vec<_>>(),
        [("lane", 2), ("machine", 10), ("clock", 20), ("server", 30)].map(|(s, at)| (s.to_owned(), at))
    );
    let lanes = ["lane_from_ns", "lane_busy_ns", "lane_heartbeat_max_ns"].map(|name| row(0).u64(name));
    assert_eq!(
        (lanes, row(0).u32("lane_heartbeats"), row(0).u32("lane_in_flight")),
        ([1, 3, 4], Some(5), Some(6))
    );
    assert_eq!(row(0).number::<UInt16Type>("lane"), Some(2));
    let names = [
        "machine_busy_ns",
        "machine_steal_ns",
        "machine_own_ns",
        "machine_lane_wait_ns",
        "machine_lane_run_ns",
        "machine_lane_slices",
    ];
    assert_eq!(names.map(|name| row(1).u64(name)), [12, 13, 14, 15, 16, 17]);
    assert_eq!((row(1).u32("machine_cores"), row(1).at("machine_target_ns")), (Some(11), None));
    assert_eq!(row(2).number::<Int64Type>("clock_offset_ns"), Some(-21));
    assert_eq!(row(2).u64("clock_width_ns"), 22);
    assert_eq!(row(3).number::<Float64Type>("server_running"), Some(1.5));
    assert_eq!(row(3).number::<Float64Type>("server_waiting"), None, "NaN is no number");
    assert_eq!(row(3).at("lane_busy_ns"), None);
    assert_eq!(row(0).number::<Float64Type>("server_running"), None);
}

#[test]
fn a_table_that_cannot_be_written_names_the_file() {
    let error = tables::write_requests(Path::new("/nowhere/requests.parquet"), &run(Vec::new())).unwrap_err();
    assert!(error.to_string().contains("/nowhere/requests.parquet"), "{error}");
}

/// Writes tables for other programs to open; run with `--ignored` and `TABLES_TO` set to a folder.
#[test]
#[ignore = "makes files to look at with other programs"]
fn tables_for_other_programs() {
    let Some(folder) = std::env::var_os("TABLES_TO") else { return };
    let run = Run {
        server: vec![record::ServerSample { running: Some(3.0), ..Default::default() }],
        clock: vec![ClockSample { at: Nanos(1), offset_ns: 5, width: Nanos(2) }],
        ..run((0..10_000).map(|seq| request(seq, 64)).collect())
    };
    tables::write_requests(&Path::new(&folder).join("requests.parquet"), &run).unwrap();
    tables::write_telemetry(&Path::new(&folder).join("telemetry.parquet"), &run).unwrap();
}
