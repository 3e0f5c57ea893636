//! The journal: exact round trips, and what is left after every kind of abrupt end.

#![allow(clippy::unwrap_used)] // clippy knows tests, not their helpers

mod common;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use common::{any_entry, any_request, footer, header, request};
use proptest::prelude::*;
use record::writer::Sink;
use record::{
    Entry, FailureClass, JournalWriter, LaneSample, RecordError, Recorder, Request, Run, Scrubber,
    ServerSample, State, Stopped, read, texts,
};
use spec::{Extent, Nanos};

/// A journal in memory that other hands can look at, and whose disk can fill up.
#[derive(Clone, Default)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: Option<usize>,
}

impl Write for Disk {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        let room = self.room.map_or(data.len(), |room| room.saturating_sub(bytes.len()).min(data.len()));
        if room == 0 && !data.is_empty() {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        bytes.extend_from_slice(&data[..room]);
        Ok(room)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Disk {
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.bytes.lock().unwrap().truncate(length as usize);
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Disk {
    fn taken(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }
}

/// Writes entries, a frame for each `per_frame` of them, and returns the bytes and, for each frame,
/// where it ends and how many requests are complete there.
fn journal(entries: &[Entry], per_frame: usize, end: bool) -> (Vec<u8>, Vec<(usize, usize)>) {
    let disk = Disk::default();
    let mut writer =
        JournalWriter::over(disk.clone(), Path::new("j"), &header(), Scrubber::default()).unwrap();
    let mut ends = vec![(disk.taken().len(), 0)];
    let mut requests = 0;
    for group in entries.chunks(per_frame) {
        for entry in group {
            requests += usize::from(matches!(entry, Entry::Request(_)));
            writer.append(entry).unwrap();
        }
        writer.flush().unwrap();
        ends.push((disk.taken().len(), requests));
    }
    writer.finish(end.then(footer).as_ref()).unwrap();
    (disk.taken(), ends)
}

fn read_bytes(bytes: &[u8]) -> Result<Run, RecordError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j");
    fs::write(&path, bytes).unwrap();
    read(&path)
}

fn requests(n: u64, chunks: u32) -> Vec<Entry> {
    (0..n).map(|seq| Entry::Request(request(seq, chunks))).collect()
}

proptest! {
    #[test]
    fn every_entry_reads_back_exactly(entry in any_entry()) {
        let line = serde_json::to_string(&entry).unwrap();
        prop_assert!(!line.contains('\n'));
        prop_assert_eq!(serde_json::from_str::<Entry>(&line).unwrap(), entry);
    }

    #[test]
    fn runs_of_equal_values_read_back_exactly(run in 0usize..20, mut r in any_request()) {
        if let Some(first) = r.chunks.first() {
            r.chunks.edit().extend(std::iter::repeat_n(first, run));
        }
        let line = serde_json::to_vec(&r).unwrap();
        prop_assert_eq!(serde_json::from_slice::<Request>(&line).unwrap(), r);
    }

    #[test]
    fn garbage_is_refused_or_reported_and_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read_bytes(&bytes).is_err());
        // Behind good frames it costs nothing.
        let (mut good, _) = journal(&requests(3, 2), 1, false);
        let length = bytes.len();
        good.extend(bytes);
        let run = read_bytes(&good).unwrap();
        prop_assert_eq!(run.requests.len(), 3);
        prop_assert_eq!(run.missing.len(), if length == 0 { 1 } else { 2 }, "{:?}", run.missing);
    }

    #[test]
    fn a_flipped_bit_costs_at_most_its_frame(at in 0usize..100_000, bit in 0u8..8) {
        let (mut bytes, ends) = journal(&requests(12, 3), 2, true);
        // The header's frame is needed to understand the rest.
        let at = ends[0].0 + at % (bytes.len() - ends[0].0);
        bytes[at] ^= 1 << bit;
        let run = read_bytes(&bytes).unwrap();
        prop_assert!(run.requests.len() >= 10, "{} of 12 after a flip at {at}", run.requests.len());
        // A few bits of a frame have no meaning for its content; losing nothing may go unsaid.
        let whole = run.requests.len() == 12 && run.footer == footer();
        prop_assert!(whole || !run.missing.is_empty());
        for r in &run.requests {
            prop_assert_eq!(r, &request(r.seq, 3), "what is kept is right");
        }
    }
}

#[test]
fn the_short_form_of_chunks_is_as_documented() {
    let mut r = request(0, 0);
    let chunk = record::Chunk {
        arrival: Nanos(100),
        seen: Nanos(107),
        earliest: Nanos(100),
        kernel: true,
        read: 0,
        kind: record::Kind::Answer,
        tokens: None,
        text_bytes: 4,
        choice: 0,
    };
    r.chunks = (0u32..5)
        .map(|i| record::Chunk {
            arrival: Nanos(100 + u64::from(i) * 20),
            seen: Nanos(107 + u64::from(i) * 20),
            earliest: Nanos(100 + u64::from(i) * 20),
            read: i,
            tokens: (i == 4).then_some(3),
            ..chunk
        })
        .collect();
    let value = serde_json::to_value(&r).unwrap();
    assert_eq!(
        value["chunks"],
        serde_json::json!({
            "n": 5,
            "arrival": [100, [20, 4]],
            "seen": [[7, 5]],
            "read": [0, [1, 4]],
            "tokens": [[-1, 4], 3],
            "text_bytes": [[4, 5]],
        })
    );
    assert!(value.get("admitted").is_none(), "absent values take no room");
}

#[test]
fn the_example_of_the_book_is_a_journal_line() {
    let book = include_str!("../../../docs/formats.md");
    let example = book.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let Entry::Request(r) = serde_json::from_str(example).unwrap() else { panic!("a request") };
    let arrivals: Vec<u64> = r.chunks.iter().map(|c| c.arrival.0 / 1_000_000).collect();
    assert_eq!(arrivals, [220, 240, 260, 280, 300]);
    assert!(r.chunks.iter().all(|c| c.seen.0 - c.arrival.0 == 7_000 && c.kernel && c.tokens.is_none()));
    assert_eq!(r.chunks.iter().map(|c| c.read).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(r.chunks.iter().map(|c| c.text_bytes).collect::<Vec<_>>(), [4, 3, 4, 4, 4]);
    // It is also what is written.
    let compact: String = example.split_inclusive('\n').map(|line| line.trim()).collect();
    let written = serde_json::to_string(&Entry::Request(r)).unwrap();
    assert_eq!(written, compact);
}

#[test]
fn damaged_chunk_columns_are_refused() {
    for chunks in [
        r#"{"n":2,"arrival":[1]}"#,
        r#"{"n":1,"arrival":[[1,99999999999]]}"#,
        r#"{"n":999999999999}"#,
        r#"{"n":1,"kind":[9]}"#,
        r#"{"n":1,"kernel":[2]}"#,
        r#"{"n":1,"read":[-1]}"#,
        r#"{"n":1,"tokens":[4294967296]}"#,
        r#"{"n":1,"seen":[1.5]}"#,
        r#"{"n":1,"seen":[[1,1,1]]}"#,
    ] {
        let mut value = serde_json::to_value(request(0, 0)).unwrap();
        value["chunks"] = serde_json::from_str(chunks).unwrap();
        assert!(serde_json::from_value::<Request>(value).is_err(), "{chunks}");
    }
}

#[test]
fn a_run_that_ended_by_itself_is_complete_and_sorted() {
    let mut entries = requests(9, 4);
    entries.reverse();
    entries.push(Entry::Retokenised { seq: 3, tokens: 77 });
    let (bytes, _) = journal(&entries, 4, true);
    let run = read_bytes(&bytes).unwrap();
    assert_eq!(run.missing, Vec::<String>::new());
    assert_eq!(run.footer, footer());
    assert_eq!(run.header, header());
    let mut expected: Vec<Request> = (0..9).map(|seq| request(seq, 4)).collect();
    expected[3].output.retokenised = Some(77);
    assert_eq!(run.requests, expected);
}

#[test]
fn killed_at_every_byte_every_complete_frame_is_kept() {
    let (bytes, ends) = journal(&requests(6, 2), 1, false);
    for cut in 0..bytes.len() {
        let complete = ends.iter().rev().find(|(end, _)| *end <= cut);
        match (read_bytes(&bytes[..cut]), complete) {
            (Ok(run), Some((end, n))) => {
                let expected: Vec<Request> = (0..*n as u64).map(|seq| request(seq, 2)).collect();
                assert_eq!(run.requests, expected, "cut at {cut}");
                assert_eq!(run.footer.stopped, Stopped::Killed);
                let told = run.missing.join("\n");
                assert!(told.contains("ends without a footer"), "{told}");
                let tail = format!("the last {} bytes of the journal", cut - end);
                assert_eq!(told.contains(&tail), cut > *end, "{told}");
            }
            (Err(RecordError::Empty { .. }), None) => assert_eq!(cut, 0),
            (Err(RecordError::NoHeader { .. }), None) => assert!(cut > 0),
            (result, complete) => panic!("cut at {cut}: {result:?} with {complete:?}"),
        }
    }
}

#[test]
fn killed_anywhere_in_a_large_journal() {
    let (bytes, ends) = journal(&requests(600, 64), 50, true);
    let mut at = 12_345usize;
    for _ in 0..40 {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let cut = ends[0].0 + (at >> 16) % (bytes.len() - ends[0].0);
        let complete = ends.iter().rev().find(|(end, _)| *end <= cut).unwrap().1;
        let run = read_bytes(&bytes[..cut]).unwrap();
        assert_eq!(run.requests.len(), complete, "cut at {cut}");
        assert!(!run.missing.is_empty());
    }
}

#[test]
fn a_killed_run_says_what_was_in_flight() {
    // Two lanes; 5 in flight on lane 0 and 1 on lane 1 at 1 s. Of lane 0's, one ended at 1.2 s and
    // is recorded: 4 + 1 = 5 are lost.
    let lane = |lane, to, in_flight| {
        Entry::Lane(LaneSample {
            lane,
            from: Nanos::ZERO,
            to: Nanos::from_millis(to),
            busy: Nanos::ZERO,
            heartbeat_max: Nanos::ZERO,
            heartbeats: 1,
            in_flight,
        })
    };
    let mut recorded = request(0, 1);
    recorded.dispatched = Some(Nanos::from_millis(100));
    recorded.closed = Some(Nanos::from_millis(1_200));
    let entries = [lane(0, 500, 9), lane(0, 1_000, 5), lane(1, 1_000, 1), Entry::Request(recorded)];
    let (bytes, _) = journal(&entries, 10, false);
    let run = read_bytes(&bytes).unwrap();
    assert_eq!(
        run.missing,
        [
            "the journal ends without a footer at 1.2 s; at least 5 requests that were in flight then are not recorded"
        ]
    );
    // Without lanes the numbering tells: 0 and 3 are there, 1 and 2 are not.
    let (bytes, _) = journal(&[Entry::Request(request(0, 1)), Entry::Request(request(3, 1))], 10, false);
    let run = read_bytes(&bytes).unwrap();
    assert!(run.missing[0].contains("at least 2 requests"), "{:?}", run.missing);
}

#[test]
fn a_footer_is_made_up_from_the_rows() {
    let mut early = request(0, 1);
    early.phase = spec::Phase::Warmup;
    let entries = [Entry::Request(early), Entry::Request(request(1, 1)), Entry::Request(request(5, 1))];
    let (bytes, _) = journal(&entries, 1, false);
    let run = read_bytes(&bytes).unwrap();
    assert_eq!(run.footer.measure_from, Nanos(10_000_000));
    assert_eq!(run.footer.ended, request(5, 1).closed.unwrap());
    // 60 s were planned, but the run was cut: the span ends where the records end.
    assert_eq!(run.footer.measure_to, run.footer.ended);
    assert_eq!(run.footer.planned, 2);
    assert_eq!(run.footer.stopped, Stopped::Killed);

    // A plan by count is known in full.
    let mut counted = header();
    counted.spec.phases.measure = Extent::Requests(40);
    let disk = Disk::default();
    let mut writer =
        JournalWriter::over(disk.clone(), Path::new("j"), &counted, Scrubber::default()).unwrap();
    writer.append(&Entry::Request(request(2, 1))).unwrap();
    writer.finish(None).unwrap();
    let run = read_bytes(&disk.taken()).unwrap();
    assert_eq!((run.footer.planned, run.footer.measure_to), (40, Nanos(20_000_000)));
}

#[test]
fn only_a_header_is_a_run_without_requests() {
    let (bytes, _) = journal(&[], 1, false);
    let run = read_bytes(&bytes).unwrap();
    assert!(run.requests.is_empty() && run.footer.planned == 0);
    assert_eq!(
        run.missing,
        ["the journal ends without a footer at 0.0 s; requests that were in flight then are not recorded"]
    );
}

fn frames(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| zstd::encode_all(line.as_bytes(), 1).unwrap()).collect()
}

#[test]
fn other_files_are_refused_with_advice() {
    let header_line = format!("{}\n", serde_json::to_string(&Entry::Header(header())).unwrap());
    let newer = header_line.replace("\"schema_version\":1", "\"schema_version\":2");
    let older_shape = r#"{"header":{"schema_version":0,"plan":[]}}"#;
    let broken = r#"{"header":{"schema_version":1}}"#;
    for (bytes, says) in [
        (Vec::new(), "is empty"),
        (b"PAR1 and more".to_vec(), "cannot be read as a table"),
        (b"{\"header\":{}}\n".to_vec(), "zstd frames of JSON lines"),
        (frames(&["hello\n"]), "whose first line is no header"),
        (frames(&[""]), "ends before its first line"),
        (frames(&[&newer]), "record format 2, this version reads 1. Use a newer inferometer"),
        (frames(&[older_shape]), "record format 0, this version reads 1. Use the older"),
        (frames(&[broken]), "cannot be read: "),
        (frames(&[&header_line, &header_line]), "second header"),
        (frames(&[&header_line, &newer]), "second header"),
    ] {
        let error = read_bytes(&bytes).unwrap_err().to_string();
        assert!(error.contains(says), "expected {says}: {error}");
    }
    let error = read(Path::new("/nowhere/at/all")).unwrap_err().to_string();
    assert!(error.contains("/nowhere/at/all") && error.contains("Check the path"), "{error}");
}

#[test]
fn strange_and_repeated_lines_are_counted() {
    let header_line = serde_json::to_string(&Entry::Header(header())).unwrap();
    let row = serde_json::to_string(&Entry::Request(request(0, 1))).unwrap();
    let text = format!(
        "{header_line}\n{row}\n{row}\n{{\"gpu\":{{}}}}\n{{\"retokenised\":{{\"seq\":9,\"tokens\":1}}}}\n"
    );
    let run = read_bytes(&frames(&[&text])).unwrap();
    assert_eq!(run.requests.len(), 1);
    let told = run.missing.join("\n");
    assert!(told.contains("1 request is recorded twice"), "{told}");
    assert!(told.contains("1 line is not understood: unknown variant `gpu`"), "{told}");
    assert!(told.contains("1 token count is without its request"), "{told}");
}

#[test]
fn a_full_disk_keeps_what_was_written_and_says_so() {
    let (whole, ends) = journal(&requests(8, 2), 2, false);
    for room in ends[0].0..whole.len() {
        let disk = Disk { room: Some(room), ..Disk::default() };
        let mut writer =
            JournalWriter::over(disk.clone(), Path::new("/full/j"), &header(), Scrubber::default()).unwrap();
        let mut errors = Vec::new();
        for group in requests(8, 2).chunks(2) {
            for entry in group {
                errors.extend(writer.append(entry).err());
            }
            errors.extend(writer.flush().err());
        }
        let first = errors.first().expect("the disk is too small").to_string();
        assert!(first.contains("/full/j") && first.contains("free space"), "{first}");
        assert!(errors[1..].iter().all(|e| matches!(e, RecordError::Closed { .. })));
        let counts = writer.finish(Some(&footer())).unwrap();
        let complete = ends.iter().rev().find(|(end, _)| *end <= room).unwrap();
        assert_eq!(counts.lost, 8 - complete.1 as u64, "{room} bytes of room");

        let run = read_bytes(&disk.taken()).unwrap();
        assert_eq!(run.requests.len(), complete.1, "{room} bytes of room");
        match run.footer.stopped {
            // The half frame was cut off and left room for last words.
            Stopped::WriteError => {
                let told = format!("writing stopped early: {} journal entries were lost", counts.lost);
                assert!(run.missing[0].contains(&told), "{:?}", run.missing);
            }
            Stopped::Killed => assert!(run.missing[0].contains("without a footer"), "{:?}", run.missing),
            other => panic!("{other:?}"),
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_that_is_full_is_an_error_not_a_panic() {
    let file = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let error =
        JournalWriter::over(file, Path::new("/dev/full"), &header(), Scrubber::default()).err().unwrap();
    assert!(error.to_string().contains("cannot write /dev/full"), "{error}");
}

#[test]
fn a_journal_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl.zst");
    drop(JournalWriter::create(&path, &header(), Scrubber::default()).unwrap());
    let error = JournalWriter::create(&path, &header(), Scrubber::default()).err().unwrap().to_string();
    assert!(error.contains("never overwritten"), "{error}");
}

#[test]
fn a_spec_that_json_cannot_carry_is_known_before_the_run() {
    let mut bad = header();
    bad.spec.slo.attain = f64::NAN;
    let error =
        JournalWriter::over(Disk::default(), Path::new("j"), &bad, Scrubber::default()).err().unwrap();
    assert!(matches!(error, RecordError::Unwritable { .. }), "{error}");
}

#[test]
fn numbers_that_are_not_finite_never_reach_the_file() {
    let sample =
        ServerSample { running: Some(f64::NAN), waiting: Some(f64::INFINITY), ..ServerSample::default() };
    let (bytes, _) = journal(&[Entry::Server(sample)], 1, true);
    let text = String::from_utf8(zstd::decode_all(bytes.as_slice()).unwrap()).unwrap();
    assert!(!text.contains("NaN") && !text.contains("Inf") && !text.contains("inf"), "{text}");
    let run = read_bytes(&bytes).unwrap();
    assert_eq!((run.server[0].running, run.server[0].waiting), (None, None));
    assert!(run.missing.is_empty());
}

#[test]
fn no_secret_is_in_the_journal() {
    const KEY: &str = "sk-verysecret";
    let mut loud = header();
    loud.spec.target = spec::Target::Http(format!("http://user:{KEY}@h:1")).into();
    for name in ["Authorization", "X-Api-Key", "x-harmless"] {
        loud.spec.api.headers.insert(name.to_owned(), format!("Bearer {KEY}"));
    }
    loud.spec.labels.insert("hf_token".to_owned(), KEY.to_owned());
    loud.spec.api.extra_body.insert("auth".to_owned(), serde_json::json!({"api_key": KEY}));
    loud.environment.server.insert("set-cookie".to_owned(), KEY.to_owned());
    loud.environment.server.insert("server".to_owned(), format!("echo {KEY}"));
    let mut bad = request(0, 0);
    bad.state = State::Failed { class: FailureClass::Http4xx, detail: format!("invalid key {KEY}") };
    bad.finish = Some(record::Finish::Other(KEY.to_owned()));
    bad.server_id = Some(KEY.to_owned());
    let mut end = footer();
    end.warnings.push(format!("refused {KEY}"));
    let disk = Disk::default();
    let scrubber = Scrubber::new([KEY.to_owned()]);
    let mut writer = JournalWriter::over(disk.clone(), Path::new("j"), &loud, scrubber).unwrap();
    writer.append(&Entry::Request(bad)).unwrap();
    writer.append(&Entry::Text { seq: 0, prompt: Some("private".to_owned()), answer: None }).unwrap();
    writer.finish(Some(&end)).unwrap();
    let text = String::from_utf8(zstd::decode_all(disk.taken().as_slice()).unwrap()).unwrap();
    assert!(!text.contains(KEY), "{text}");
    assert!(text.contains("invalid key [redacted]"), "{text}");
    assert!(!text.contains("private"), "texts are kept only when asked for");
}

#[test]
fn texts_are_kept_when_asked_for_and_read_apart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl.zst");
    let mut keep = header();
    keep.spec.client.keep_text = true;
    let mut writer = JournalWriter::create(&path, &keep, Scrubber::default()).unwrap();
    let text = |seq| Entry::Text { seq, prompt: Some("p".to_owned()), answer: Some("a".to_owned()) };
    writer.append(&Entry::Request(request(0, 1))).unwrap();
    writer.append(&text(0)).unwrap();
    writer.finish(Some(&footer())).unwrap();
    // A folder is as good as its journal.
    assert_eq!(read(dir.path()).unwrap().requests.len(), 1);
    let kept = texts(dir.path()).unwrap();
    assert_eq!((kept.len(), kept[0].seq, kept[0].answer.as_deref()), (1, 0, Some("a")));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

fn temporary() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl.zst");
    (dir, path)
}

#[test]
fn the_recorder_writes_what_several_threads_send() {
    let (_dir, path) = temporary();
    let recorder = Recorder::spawn(&path, &header(), Scrubber::default()).unwrap();
    let threads: Vec<_> = (0..4u64)
        .map(|lane| {
            let sender = recorder.sender();
            std::thread::spawn(move || {
                (0..100).for_each(|i| sender.send(Entry::Request(request(lane * 100 + i, 3))).unwrap());
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    // A sender that is still alive must not keep the writer from ending.
    let idle = recorder.sender();
    let written = recorder.finish(footer());
    assert!(written.error.is_none(), "{:?}", written.error);
    assert_eq!((written.counts.entries, written.counts.lost), (402, 0));
    assert_eq!(written.counts.bytes, fs::metadata(&path).unwrap().len());
    assert!(idle.send(Entry::Footer(footer())).is_err());
    let run = read(&path).unwrap();
    assert_eq!(run.requests.len(), 400);
    assert!(run.missing.is_empty());
}

#[test]
fn the_recorder_reaches_the_disk_while_the_run_goes_on() {
    let (_dir, path) = temporary();
    let recorder = Recorder::spawn(&path, &header(), Scrubber::default()).unwrap();
    recorder.sender().send(Entry::Request(request(0, 1))).unwrap();
    // Half a second by design; the bound only keeps a broken writer from hanging the test.
    let arrived = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(25));
        read(&path).is_ok_and(|run| run.requests.len() == 1)
    });
    assert!(arrived, "no frame was written before the end of the run");
    assert!(recorder.abandon().error.is_none());
}

/// The other half of the next test: writes until it is killed, or gives up after half a minute.
#[test]
#[ignore = "runs as a process of its own"]
fn child_that_writes_until_killed() {
    let Some(path) = std::env::var_os("JOURNAL_TO") else { return };
    let recorder = Recorder::spawn(Path::new(&path), &header(), Scrubber::default()).unwrap();
    let sender = recorder.sender();
    for seq in 0..30_000 {
        sender.send(Entry::Request(request(seq, 8))).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_process_killed_in_the_middle_of_a_run_leaves_what_it_had_flushed() {
    let (_dir, path) = temporary();
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["child_that_writes_until_killed", "--exact", "--ignored"])
        .env("JOURNAL_TO", &path)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let flushed = (0..1_000).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        read(&path).ok().map(|run| run.requests.len()).filter(|n| *n > 0)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let flushed = flushed.expect("no frame within 20 s");
    let run = read(&path).unwrap();
    assert!(run.requests.len() >= flushed);
    for (seq, kept) in run.requests.iter().enumerate() {
        assert_eq!(kept, &request(seq as u64, 8));
    }
    assert_eq!(run.footer.stopped, Stopped::Killed);
    assert!(run.missing[0].contains("ends without a footer"), "{:?}", run.missing);
}

#[test]
fn the_recorder_survives_a_full_disk() {
    let (whole, _) = journal(&requests(1, 2), 1, false);
    let disk = Disk { room: Some(whole.len() + 20), ..Disk::default() };
    let writer =
        JournalWriter::over(disk.clone(), Path::new("/full/j"), &header(), Scrubber::default()).unwrap();
    let recorder = Recorder::over(writer, Path::new("/full/j")).unwrap();
    let sender = recorder.sender();
    requests(20_000, 8).into_iter().for_each(|entry| sender.send(entry).unwrap());
    let noticed = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(25));
        recorder.failed()
    });
    assert!(noticed, "the run must learn that its journal is closed");
    let written = recorder.finish(footer());
    let error = written.error.expect("a full disk").to_string();
    assert!(error.contains("cannot write /full/j") && error.contains("free space"), "{error}");
    assert_eq!(written.counts.lost, 20_000);
    let run = read_bytes(&disk.taken()).unwrap();
    assert!(run.requests.is_empty());
    assert_ne!(run.footer.stopped, Stopped::Finished);
}

/// A disk that stands still from its second write on until the gate opens.
struct SlowDisk {
    disk: Disk,
    standing: std::sync::mpsc::Sender<()>,
    gate: std::sync::mpsc::Receiver<()>,
}

impl Write for SlowDisk {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if !self.disk.taken().is_empty() {
            let _ = self.standing.send(());
            let _ = self.gate.recv();
        }
        self.disk.write(data)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for SlowDisk {
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.disk.truncate(length)
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn entries_that_pile_up_behind_a_slow_disk_block_nobody_and_are_a_warning() {
    let disk = Disk::default();
    let (standing, stands) = std::sync::mpsc::channel();
    let (open, gate) = std::sync::mpsc::channel();
    let slow = SlowDisk { disk: disk.clone(), standing, gate };
    let writer = JournalWriter::over(slow, Path::new("j"), &header(), Scrubber::default()).unwrap();
    let recorder = Recorder::over(writer, Path::new("j")).unwrap();
    let sender = recorder.sender();
    sender.send(Entry::Retokenised { seq: 0, tokens: 1 }).unwrap();
    stands.recv().unwrap();
    // The disk stands still, sending goes on.
    (1..25_000).for_each(|seq| sender.send(Entry::Retokenised { seq, tokens: 1 }).unwrap());
    let waiting = recorder.waiting();
    assert_eq!(waiting.entries, 24_999);
    assert!(waiting.bytes >= 24_999 * std::mem::size_of::<Entry>() as u64, "{waiting:?}");
    drop(open);
    let written = recorder.finish(footer());
    assert_eq!((written.deepest, written.counts.entries), (24_999, 25_002));
    let warnings = read_bytes(&disk.taken()).unwrap().footer.warnings;
    assert!(warnings[0].contains("up to 24999 entries waited"), "{warnings:?}");
    assert!(warnings[0].contains(" MiB of memory"), "{warnings:?}");
}

/// Prints figures; run with `--ignored` in a release build.
#[test]
#[ignore = "a measurement, not a check"]
fn a_hundred_thousand_requests() {
    let (_dir, path) = temporary();
    let recorder = Recorder::spawn(&path, &header(), Scrubber::default()).unwrap();
    let sender = recorder.sender();
    (0..100_000).for_each(|seq| sender.send(Entry::Request(request(seq, 64))).unwrap());
    let written = recorder.finish(footer());
    println!("{:?}", written.counts);
    assert_eq!(read(&path).unwrap().requests.len(), 100_000);
}
