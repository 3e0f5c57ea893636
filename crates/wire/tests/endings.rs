//! How answers end, go wrong, or are none, and how the request counts then, in every segmentation.
#![allow(clippy::unwrap_used)]

mod common;

use common::stream::*;
use common::{Answer, headers};
use record::{FailureClass, Oddity, State};
use wire::answer::EndOfBody;

#[test]
fn errors_inside_a_success() {
    let mid = "data: {\"error\":{\"message\":\"engine died\",\"code\":500}}\n\n";
    for (name, event, words) in [
        ("object", mid, "engine died"),
        ("text", "data: {\"error\":\"engine died\"}\n\n", "engine died"),
        ("object error", "data: {\"object\":\"error\",\"message\":\"engine died\"}\n\n", "engine died"),
        ("event error", "event: error\ndata: {\"message\":\"engine died\"}\n\n", "engine died"),
        ("event error, no JSON", "event: error\ndata: engine died\n\n", "engine died"),
        ("bare message", "data: {\"message\":\"engine died\"}\n\n", "engine died"),
        ("object without words", "data: {\"object\":\"error\"}\n\n", "no message"),
        ("finish reason", &finish("error"), "finish reason `error`"),
        ("finish reason abort", &finish("abort"), "finish reason `abort`"),
    ] {
        for (at, chunks) in [(0, 0), (2, 1), (4, 3)] {
            let mut events = base();
            events.insert(at, event.to_owned());
            let (row, _) = chat(name, events.concat());
            assert_eq!(class(&row), Some(FailureClass::ServerError), "{name} at {at}");
            assert!(detail(&row).contains(words), "{name}: {}", detail(&row));
            assert_eq!(row.chunks.len(), chunks, "{name} at {at}: what came before is kept");
        }
    }
    // What OpenAI-compatible gateways send to say that all is well.
    for fine in ["null", "\"\"", "{}", "false"] {
        let mut events = base();
        events[2] = events[2].replacen("{\"", &format!("{{\"error\":{fine},\""), 1);
        assert_base(fine, chat(fine, events.concat()));
    }
}

#[test]
fn the_end_decides() {
    let upto = |n: usize| base()[..n].concat();
    // Closed before a finish reason or end mark, cleanly or not.
    for n in 1..=4 {
        for end in [EndOfBody::Clean, EndOfBody::Broken("reset".into())] {
            let answer = Answer { end: end.clone(), ..Answer::chat(upto(n)) };
            let (row, _) = read("closed early", &answer);
            assert_eq!(class(&row), Some(FailureClass::Truncated), "{n} {end:?}");
            assert_eq!(row.chunks.len(), n - 1);
        }
    }
    // The finish reason is there, the end mark is not.
    let (row, _) = chat("no end mark", upto(6));
    assert_eq!((row.state, row.oddities), (State::Ok, vec![Oddity::NoDone]));
    let (row, _) = chat("neither usage nor end mark", upto(5));
    assert_eq!((row.state, row.oddities), (State::Ok, vec![Oddity::NoDone, Oddity::NoUsage]));
    let broken = Answer { end: EndOfBody::Broken("reset".into()), ..Answer::chat(upto(5)) };
    assert_eq!(broken.whole().0.state, State::Ok, "the answer was complete before the connection broke");

    // The end mark is there, the finish reason is not: an answer if the body ends as HTTP says,
    // a cut where it does not (llama-cpp-python when a second request interrupts the first).
    let unfinished = replaced(4, &[]);
    let (row, _) = chat("no finish", unfinished.clone());
    assert_eq!((row.state, row.finish, row.oddities), (State::Ok, None, vec![Oddity::NoFinish]));
    let broken = Answer { end: EndOfBody::Broken("connection closed".into()), ..Answer::chat(unfinished) };
    let (row, _) = read("interrupted", &broken);
    assert_eq!(class(&row), Some(FailureClass::Truncated));
    assert!(detail(&row).contains("connection closed; 3 chunks"));

    // An empty finish reason is none.
    let (row, _) = chat("empty reason", [content("a"), finish("")].concat());
    assert_eq!(class(&row), Some(FailureClass::Truncated));
}

#[test]
fn an_event_without_its_blank_line() {
    let body = base().concat();
    for (name, cut, odd) in [
        ("end mark", "data: [DONE]", vec![Oddity::UnterminatedEvent]),
        ("end mark, one line end", "data: [DONE]\n", vec![Oddity::UnterminatedEvent]),
        ("part of the end mark", "data: [DON", vec![Oddity::NoDone]),
        ("field name", "dat", vec![Oddity::NoDone]),
    ] {
        let (row, _) = chat(name, body.replace(DONE, cut));
        assert_eq!((row.state, row.oddities), (State::Ok, odd), "{name}");
        assert_eq!(row.output.usage, Some(3));
    }
    let (row, _) = chat("complete JSON", body.replace(DONE, "").trim_end().to_owned());
    assert_eq!(row.output.usage, Some(3));
    assert_eq!(row.oddities, [Oddity::UnterminatedEvent, Oddity::NoDone]);
    let (row, text) =
        chat("part of a token", [role(), content("a"), content("b")].concat().replace("\"b\"", "\"b"));
    assert_eq!(class(&row), Some(FailureClass::Protocol), "a broken event with its blank line");
    assert_eq!(text.as_deref(), Some("a"));
    let cut = [role(), content("a"), content("b")].concat();
    let (row, text) = chat("part of a token, cut", cut.split_at(cut.len() - 30).0.to_owned());
    assert_eq!((class(&row), text.as_deref()), (Some(FailureClass::Truncated), Some("a")));
}

#[test]
fn malformed_events_are_never_skipped() {
    for (name, event) in [
        ("no JSON", "data: hello\n\n"),
        ("broken JSON", "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}]}\n\n"),
        ("a list", "data: [1]\n\n"),
        ("a number", "data: 3\n\n"),
        ("single quotes", "data: {'choices':[]}\n\n"),
    ] {
        let mut events = base();
        events.insert(3, event.to_owned());
        let (row, text) = chat(name, events.concat());
        assert_eq!(class(&row), Some(FailureClass::Protocol), "{name}");
        assert_eq!(text.as_deref(), Some("Hello "), "{name}: what came before is kept");
        let quoted = event.trim_start_matches("data: ").trim_end();
        assert!(detail(&row).contains(quoted), "{name}: {}", detail(&row));
    }
}

#[test]
fn an_event_beyond_the_cap() {
    let mut answer = Answer::chat(replaced(2, &[content(&"x".repeat(500))]));
    answer.expect.limit = 400;
    let (row, text) = read("too large", &answer);
    assert_eq!(class(&row), Some(FailureClass::Protocol));
    assert!(detail(&row).contains("400 bytes"));
    assert_eq!(text.as_deref(), Some("Hel"));
    let many = replaced(2, &["data: x\n".repeat(100) + "\n"]);
    answer.body = many.into_bytes();
    assert_eq!(class(&read("too many lines", &answer).0), Some(FailureClass::Protocol));
}

#[test]
fn successes_without_output() {
    for (name, body, words) in [
        ("nothing", String::new(), "empty body"),
        ("blank", "\n\n".to_owned(), "empty body"),
        ("only comments", ":\n\n: ping\n\n".to_owned(), "empty body"),
        ("only the end mark", DONE.to_owned(), "without output"),
        (
            "usage but no token",
            [role(), finish("length"), usage(7), DONE.to_owned()].concat(),
            "counts 7 output tokens",
        ),
        ("no token", [role(), finish("stop"), DONE.to_owned()].concat(), "without output"),
        ("only null", format!("data: null\n\n{DONE}"), "without output"),
    ] {
        let (row, text) = chat(name, body);
        assert_eq!(class(&row), Some(FailureClass::Empty), "{name}: {:?}", row.state);
        assert!(detail(&row).contains(words), "{name}: {}", detail(&row));
        assert_eq!((row.chunks.len(), text), (0, None));
    }
    let broken = Answer { end: EndOfBody::Broken("reset".into()), ..Answer::chat("") };
    assert_eq!(class(&broken.whole().0), Some(FailureClass::Truncated));
    for cut in ["d", "data", "data: {\"cho", "event: x", ": pi"] {
        let (row, _) = chat(cut, cut);
        let expected = if cut.starts_with('d') { FailureClass::Truncated } else { FailureClass::Empty };
        assert_eq!(class(&row), Some(expected), "{cut}");
    }
}

#[test]
fn bodies_that_are_no_stream() {
    let typed = |kind: &str, body: &str| Answer {
        headers: headers(&[("content-type", kind)]),
        ..Answer::chat(body.to_owned())
    };
    let whole = r#"{"id":"w","choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"length"}],"usage":{"prompt_tokens":4,"completion_tokens":2}}"#;
    for kind in ["application/json", "text/event-stream", "text/plain"] {
        let (row, text) = read(kind, &typed(kind, whole));
        assert_eq!(row.state, State::Ok, "{kind}");
        assert!(!row.streamed);
        assert_eq!(text.as_deref(), Some("Hello"));
        assert_eq!(row.oddities, [Oddity::NotStreamed]);
        assert_eq!((row.chunks.len(), row.output.usage), (1, Some(2)));
    }
    let mut unasked = typed("application/json", whole);
    unasked.expect.stream = false;
    assert_eq!(unasked.whole().0.oddities, []);
    // A stream that says that it is JSON.
    assert_base("wrong type", read("wrong type", &typed("application/json", &base().concat())));
    assert_base(
        "no type",
        read("no type", &Answer { headers: headers(&[]), ..Answer::chat(base().concat()) }),
    );

    let page =
        format!("<!DOCTYPE html>\n<html><head><title>Welcome</title></head>\n\n{}</html>", "x".repeat(500));
    let (row, _) = read("page", &typed("text/html", &page));
    assert_eq!(class(&row), Some(FailureClass::Protocol));
    assert!(
        detail(&row).contains("not an event stream (text/html): <!DOCTYPE html> <html><head><title>Welcome")
    );
    assert!(detail(&row).len() < 350, "{}", detail(&row));

    for (name, body, expected) in [
        ("error", r#"{"error":{"message":"bad"}}"#, FailureClass::ServerError),
        ("error object", r#"{"object":"error","message":"bad"}"#, FailureClass::ServerError),
        ("another JSON", r#"{"detail":"Not Found"}"#, FailureClass::Protocol),
        ("cut", r#"{"choices":[{"text":"a"#, FailureClass::Truncated),
        ("broken", r#"{"choices":[}"#, FailureClass::Protocol),
        ("lines of JSON", "{\"a\":1}\n{\"a\":2}\n", FailureClass::Protocol),
        (
            "no choice",
            r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0}}"#,
            FailureClass::Empty,
        ),
        ("plain", "OK", FailureClass::Protocol),
        ("list", "[]", FailureClass::Protocol),
    ] {
        let (row, _) = read(name, &typed("application/json", body));
        assert_eq!(class(&row), Some(expected), "{name}: {:?}", row.state);
    }
}

#[test]
fn an_encoded_body_is_refused() {
    for (encoding, fine) in [("gzip", false), ("br", false), ("identity", true), ("Identity", true)] {
        let answer =
            Answer { headers: headers(&[("content-encoding", encoding)]), ..Answer::chat(base().concat()) };
        let (row, _) = read(encoding, &answer);
        if fine {
            assert_eq!(row.state, State::Ok);
        } else {
            assert_eq!(class(&row), Some(FailureClass::Protocol));
            assert!(detail(&row).contains(encoding) && detail(&row).contains("switch it off"));
        }
    }
}

#[test]
fn statuses_that_are_no_success() {
    for (status, expected) in [
        (301, FailureClass::Http5xx),
        (400, FailureClass::Http4xx),
        (401, FailureClass::Http4xx),
        (404, FailureClass::Http4xx),
        (422, FailureClass::Http4xx),
        (429, FailureClass::Http429),
        (500, FailureClass::Http5xx),
        (503, FailureClass::Http5xx),
    ] {
        let answer = Answer {
            status,
            headers: headers(&[("retry-after", "7"), ("location", "/elsewhere")]),
            ..Answer::chat(format!("{{\"error\":\n  {{\"message\":\"no: {}\"}}}}", "x".repeat(1000)))
        };
        let (row, _) = read("status", &answer);
        assert_eq!(class(&row), Some(expected), "{status}");
        let detail = detail(&row);
        assert!(detail.starts_with(&format!("HTTP {status} (Retry-After: 7)")), "{detail}");
        assert!(detail.contains("{\"error\": {\"message\":\"no: xxx"), "{detail}");
        assert!(detail.chars().count() < 420 && !detail.contains('\n'), "{detail}");
        assert_eq!((row.chunks.len(), row.status), (0, Some(status)));
    }
}

#[test]
fn secrets_stay_out_of_the_record() {
    let secrets = [wire::Secret::new("tok-4711-very-secret")];
    let body = "bad key tok-4711-very-secret, also sk-live-0123456789";
    for (status, text) in [(401, body.to_owned()), (200, format!("data: {{\"error\":\"{body}\"}}\n\n"))] {
        let mut answer = Answer { status, ..Answer::chat(text) };
        answer.expect.secrets = secrets.clone().into();
        let (row, _) = read("secret", &answer);
        assert!(detail(&row).contains("bad key [redacted]"), "{}", detail(&row));
        assert!(!detail(&row).contains("4711") && !detail(&row).contains("0123"), "{}", detail(&row));
    }
}

#[test]
fn cut_by_us() {
    let stalled = State::TimedOut { limit: record::TimeoutKind::Stalled };
    let cut = |body: String| Answer { end: EndOfBody::Cut(stalled.clone()), ..Answer::chat(body) };
    let (row, text) = read("stalled", &cut([role(), content("a")].concat()));
    assert_eq!((row.state, row.chunks.len(), text.as_deref()), (stalled.clone(), 1, Some("a")));
    // Complete before we cut: the answer stands. Failed before: the failure stands.
    assert_eq!(cut(base().concat()).whole().0.state, State::Ok);
    let failed = cut([role(), "data: {\"error\":\"x\"}\n\n".to_owned()].concat());
    assert_eq!(class(&failed.whole().0), Some(FailureClass::ServerError));
    assert_eq!(cut(String::new()).whole().0.state, stalled);
}
