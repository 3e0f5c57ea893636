//! Answers recorded from real engines give the records derived beforehand by another program, in
//! every segmentation. `data/streams/README.md` says where they come from.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Answer, fnv, recorded, streams, timeless};
use record::{Kind, Oddity, Request, State};
use spec::Dialect;
use wire::answer::{EndOfBody, Expect};

struct Case {
    name: String,
    answer: Answer,
    ends: Vec<usize>,
    expected: Vec<(String, String)>,
}

fn cases() -> Vec<Case> {
    let table = std::fs::read_to_string(streams().join("expected.tsv")).unwrap();
    let mut lines = table.lines();
    let columns: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let cases: Vec<Case> = lines
        .map(|line| {
            let values: Vec<&str> = line.split('\t').collect();
            assert_eq!(values.len(), columns.len(), "{line}");
            let get = |name: &str| values[columns.iter().position(|c| *c == name).unwrap()];
            let came = recorded(get("name"));
            assert_eq!(came.clean.to_string(), get("clean"), "{line}");
            let dialect = if get("dialect") == "chat" { Dialect::Chat } else { Dialect::Completions };
            let expect = Expect {
                stream: get("asked") == "stream",
                usage: get("usage_asked") == "true",
                ..Expect::stream(dialect)
            };
            let end =
                if came.clean { EndOfBody::Clean } else { EndOfBody::Broken("connection closed".into()) };
            Case {
                name: get("name").to_owned(),
                answer: Answer { status: came.status, headers: came.headers, body: came.body, end, expect },
                ends: came.ends,
                expected: columns.iter().zip(values).map(|(c, v)| ((*c).to_owned(), v.to_owned())).collect(),
            }
        })
        .collect();
    assert!(cases.len() > 130, "{} recorded answers", cases.len());
    cases
}

fn shown((row, text): &(Request, Option<String>)) -> Vec<(&'static str, String)> {
    let opt = |n: Option<u32>| n.map_or("-".to_owned(), |n| n.to_string());
    let state = match &row.state {
        State::Ok => "ok",
        State::Failed { class, .. } => class.name(),
        other => panic!("{other:?}"),
    };
    let kinds: Vec<String> = [
        ("answer", Kind::Answer),
        ("reasoning", Kind::Reasoning),
        ("refusal", Kind::Refusal),
        ("tool_call", Kind::ToolCall),
    ]
    .iter()
    .map(|(name, kind)| (name, row.chunks.iter().filter(|c| c.kind == *kind).count()))
    .filter(|(_, n)| *n > 0)
    .map(|(name, n)| format!("{name}:{n}"))
    .collect();
    let mut odd: Vec<&str> = row
        .oddities
        .iter()
        .map(|o| match o {
            Oddity::NoDone => "no_done",
            Oddity::NoFinish => "no_finish",
            Oddity::NoUsage => "no_usage",
            Oddity::NotStreamed => "not_streamed",
            Oddity::SeveralChoices => "several_choices",
            Oddity::CountMismatch => "count_mismatch",
            other => panic!("{other:?}"),
        })
        .collect();
    odd.sort_unstable();
    let dash = |s: String| if s.is_empty() { "-".to_owned() } else { s };
    vec![
        ("status", row.status.unwrap().to_string()),
        ("state", state.to_owned()),
        ("streamed", row.streamed.to_string()),
        ("chunks", row.chunks.len().to_string()),
        ("out", opt(row.output.usage)),
        ("inp", opt(row.input.server)),
        ("cached", opt(row.input.cached)),
        ("reasoning", opt(row.output.reasoning)),
        ("finish", row.finish.as_ref().map_or("-".to_owned(), |f| f.name().to_owned())),
        ("kinds", dash(kinds.join(","))),
        ("text_bytes", text.as_ref().map_or(0, String::len).to_string()),
        ("fnv", text.as_ref().map_or("-".to_owned(), |t| format!("{:016x}", fnv(t)))),
        ("odd", dash(odd.join(","))),
    ]
}

#[test]
fn each_gives_the_derived_record() {
    let mut wrong = Vec::new();
    for case in cases() {
        let got = case.answer.whole();
        for (column, value) in shown(&got) {
            let expected = &case.expected.iter().find(|(c, _)| c == column).unwrap().1;
            if *expected != value {
                wrong.push(format!(
                    "{} {column}: expected {expected}, got {value}: {:?}",
                    case.name, got.0.state
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_is_the_same_in_every_segmentation() {
    for case in cases() {
        let answer = &case.answer;
        if answer.body.len() <= 3000 {
            answer.same_in_every_segmentation(&case.name);
            continue;
        }
        let expected = timeless(answer.whole());
        // Every read that the server's own writes suggest, single bytes, and cuts at a prime stride.
        let mut begin = 0;
        let own = case.ends.iter().map(|end| {
            let segment = &answer.body[begin..*end];
            begin = *end;
            segment
        });
        assert_eq!(timeless(answer.read(own)), expected, "{}: its own chunks", case.name);
        assert_eq!(timeless(answer.read(answer.body.chunks(1))), expected, "{}: bytes", case.name);
        let boundaries = case.ends.iter().flat_map(|end| end.saturating_sub(2)..(end + 3));
        for at in (0..answer.body.len()).step_by(61).chain(boundaries) {
            let at = at.min(answer.body.len());
            assert_eq!(timeless(answer.cut(at)), expected, "{}: cut at {at}", case.name);
        }
    }
}

/// A stream cut short is never a success before its finish reason, and always one after it.
#[test]
fn each_prefix_is_judged_by_its_finish_reason() {
    for case in cases() {
        let ok = case.expected.iter().any(|(c, v)| c == "state" && v == "ok");
        let several = case.expected.iter().any(|(c, v)| c == "odd" && v.contains("several"));
        // Without usage nothing tells that events without text are tokens.
        let silent = case.name == "vllm/completions_no_visible_text";
        if !ok || several || silent || !case.answer.expect.stream || case.answer.body.len() > 8000 {
            continue;
        }
        // The event with the finish reason, which is complete JSON from its last brace on.
        let body = &case.answer.body;
        let text = String::from_utf8_lossy(body);
        let reason = [
            "\"finish_reason\":\"length\"",
            "\"finish_reason\":\"stop\"",
            "\"finish_reason\":\"tool_calls\"",
        ]
        .iter()
        .filter_map(|mark| text.find(mark))
        .min()
        .unwrap();
        let finished = reason + text[reason..].find('\n').unwrap();
        for at in (0..finished)
            .step_by(37)
            .chain(finished.saturating_sub(3)..=finished)
            .chain(finished + 1..body.len())
        {
            let prefix = Answer { body: body[..at].to_vec(), end: EndOfBody::Clean, ..case.answer.clone() };
            let (row, _) = prefix.whole();
            if at >= finished {
                assert_eq!(row.state, State::Ok, "{} cut to {at}", case.name);
            } else {
                assert!(
                    matches!(row.state, State::Failed { .. }),
                    "{} cut to {at}: {:?}",
                    case.name,
                    row.state
                );
            }
        }
    }
}

#[test]
fn stamps_are_those_of_the_read_that_completed_the_event() {
    let case = cases().into_iter().find(|c| c.name == "vllm/chat_stream_no_usage").unwrap();
    let mut begin = 0;
    let (row, _) = case.answer.read(case.ends.iter().map(|end| {
        let segment = &case.answer.body[begin..*end];
        begin = *end;
        segment
    }));
    // Read 0 is the role event, reads 1 to 8 one token each, read 8 with the finish reason.
    let reads: Vec<u32> = row.chunks.iter().map(|c| c.read).collect();
    assert_eq!(reads, [1, 2, 3, 4, 5, 6, 7, 8]);
    let arrivals: Vec<u64> = row.chunks.iter().map(|c| c.arrival.0 / 1_000_000).collect();
    assert_eq!(arrivals, [2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(row.done, Some(spec::Nanos::from_millis(9)));
    assert_eq!(row.output_reads, 8);
    assert_eq!(row.server_id.as_deref(), Some("chatcmpl-bb67f9afb8a2fd62"));
}

#[test]
fn tokens_of_chunks_where_the_engine_tells() {
    let tokens = |name: &str| -> Vec<Option<u32>> {
        let case = cases().into_iter().find(|c| c.name == name).unwrap();
        case.answer.whole().0.chunks.iter().map(|c| c.tokens).collect()
    };
    // Running usage; log-probabilities in three shapes; token ids; llama.cpp's running timings.
    assert_eq!(tokens("vllm/chat_stream_continuous_usage"), [Some(1); 6]);
    assert_eq!(tokens("vllm/completions_stream_logprobs"), [Some(1); 5]);
    assert_eq!(tokens("vllm/chat_stream_logprobs"), [Some(1); 5]);
    assert_eq!(tokens("llama.cpp/completions_stream_logprobs"), [Some(1); 5]);
    assert_eq!(tokens("mistralrs/completions_stream_logprobs"), [Some(1); 5]);
    assert_eq!(tokens("vllm/completions_return_token_ids"), [Some(1); 4]);
    assert_eq!(tokens("llama.cpp/chat_stream_timings_per_token"), [Some(1); 6]);
    // One token in each event without visible text, as the usage confirms.
    assert_eq!(tokens("vllm/completions_no_visible_text"), [Some(1); 32]);
    // Nothing is said of single chunks, even where one usage comes with the last of them.
    assert_eq!(tokens("mistralrs/chat_stream_usage"), [None; 24]);
    assert_eq!(tokens("llama.cpp/chat_stream_usage"), [None; 24]);
}
