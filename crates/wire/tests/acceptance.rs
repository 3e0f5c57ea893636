//! Each way in which servers write the events of an answer, and what it must give, in every
//! segmentation.
#![allow(clippy::unwrap_used)]

mod common;

use common::Answer;
use common::stream::*;
use record::{FailureClass, Finish, Kind, Oddity, State};
use spec::Dialect;
use wire::answer::Expect;

#[test]
fn the_base_stream() {
    let (row, text) = chat("base", base().concat());
    assert_eq!(row.state, State::Ok);
    assert_eq!(row.status, Some(200));
    assert!(row.streamed);
    assert_eq!(text.as_deref(), Some("Hello you"));
    assert_eq!(kinds(&row), [Kind::Answer; 3]);
    assert_eq!(tokens(&row), [None; 3]);
    assert_eq!(row.chunks.iter().map(|c| c.text_bytes).collect::<Vec<_>>(), [3, 3, 3]);
    assert_eq!((row.output.usage, row.input.server), (Some(3), Some(9)));
    assert_eq!(row.finish, Some(Finish::Stop));
    assert_eq!(row.server_id.as_deref(), Some("c-1"));
    assert_eq!(row.oddities, []);
    assert_eq!((row.cumulative_chunks, row.cumulative_run, row.echo_tokens), (0, 0, None));
    assert!(row.done.is_some() && row.closed.is_some() && row.headers.is_some());
}

#[test]
fn framing_that_changes_nothing() {
    let whole = base().concat();
    let multiline = whole.replace("\"choices\"", "\ndata: \"choices\"");
    let wrapped: String = base()
        .iter()
        .enumerate()
        .map(|(i, event)| format!(": ping {i}\nevent: message\nid: {i}\nretry: 10\n{event}:\n\n"))
        .collect();
    let glued: String = base().iter().map(|event| format!(": ping\n{event}")).collect();
    for (name, body) in [
        ("CRLF", whole.replace('\n', "\r\n")),
        ("CR", whole.replace('\n', "\r")),
        ("mixed ends", whole.replace("\n\n", "\r\n\n")),
        ("no space", whole.replace("data: ", "data:")),
        ("byte order mark", format!("\u{feff}{whole}")),
        ("blank lines first", format!("\n\n\r\n{whole}")),
        ("comments between", base().join(": ping\n\n")),
        ("comment before data", glued),
        ("all fields", wrapped),
        ("several data lines", multiline),
        ("unknown fields", whole.replace("data: ", "foo: bar\ndatax: 1\ndata: ")),
        ("trailing space", whole.replace("\n\n", " \n\n")),
        ("null events", format!("data: null\n\n{whole}")),
        ("empty data", format!("data:\n\ndata\n\n{whole}")),
    ] {
        assert_base(name, chat(name, body));
    }
}

#[test]
fn events_without_output() {
    for (name, event) in [
        ("role with null", delta(r#""role":"assistant","content":null"#)),
        ("empty delta", delta("")),
        ("empty choices", "data: {\"choices\":[]}\n\n".to_owned()),
        ("null choices", "data: {\"choices\":null}\n\n".to_owned()),
        ("no choices", "data: {\"object\":\"x\"}\n\n".to_owned()),
        ("null delta", "data: {\"choices\":[{\"index\":0,\"delta\":null}]}\n\n".to_owned()),
        ("no delta", "data: {\"choices\":[{\"index\":0,\"content_filter_results\":{}}]}\n\n".to_owned()),
        (
            "prompt filter",
            "data: {\"id\":\"\",\"choices\":[],\"prompt_filter_results\":[{\"prompt_index\":0}]}\n\n"
                .to_owned(),
        ),
        ("empty content", content("")),
        (
            "null everything",
            delta(r#""content":null,"tool_calls":null,"refusal":null,"reasoning_content":null"#),
        ),
        ("empty calls", delta(r#""tool_calls":[],"function_call":null"#)),
        ("null error", "data: {\"error\":null,\"choices\":[]}\n\n".to_owned()),
        ("llama.cpp progress", "data: {\"choices\":[],\"prompt_progress\":{\"total\":9}}\n\n".to_owned()),
    ] {
        for at in [0, 2, 4] {
            let event = event.replace("\"id\":\"c-1\",", "");
            let mut events = base();
            events.insert(at, event);
            let (row, text) = chat(name, events.concat());
            assert_base(name, (row, text));
        }
    }
    let (row, text) = chat("empty content at the finish", replaced(4, &[
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"stop\"}]}\n\n".into(),
    ]));
    assert_base("empty content at the finish", (row, text));
}

#[test]
fn text_of_every_script_survives() {
    for text in ["a b", "é", "🌍", "日本", "\u{2028}", "\u{85}", "\u{0}", "\u{feff}", "\"\\/\n\r\t", "👩‍👩‍👧"]
    {
        let (_, got) = chat(text, replaced(2, &[content(text)]));
        assert_eq!(got.as_deref(), Some(format!("Hel{text}you").as_str()), "{text:?}");
    }
    // The same as escapes, and as raw separators inside JSON.
    let escaped = content("X").replace('X', r"\ud83c\udf0d\u2028\u0000");
    let (_, got) = chat("escapes", replaced(2, &[escaped]));
    assert_eq!(got.as_deref(), Some("Hel🌍\u{2028}\u{0}you"));
    // Bytes that are no UTF-8 and half a pair become U+FFFD instead of an error.
    let mut raw = replaced(2, &[content("X")]).into_bytes();
    let at = raw.iter().position(|b| *b == b'X').unwrap();
    raw[at] = 0xff;
    assert_eq!(chat("not UTF-8", raw).1.as_deref(), Some("Hel\u{fffd}you"));
    let half = content("X").replace('X', r"\ud83c");
    assert_eq!(chat("half a pair", replaced(2, &[half])).1.as_deref(), Some("Hel\u{fffd}you"));
}

#[test]
fn every_kind_of_output() {
    let thinking = |name: &str| delta(&format!("\"{name}\":\"hm\""));
    for (name, events, expected) in [
        ("reasoning", vec![thinking("reasoning"), content("a")], vec![Kind::Reasoning, Kind::Answer]),
        (
            "reasoning_content",
            vec![thinking("reasoning_content"), content("a")],
            vec![Kind::Reasoning, Kind::Answer],
        ),
        ("refusal", vec![delta(r#""refusal":"no""#)], vec![Kind::Refusal]),
        (
            "tool calls",
            vec![
                delta(
                    r#""content":null,"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":""}}]"#,
                ),
                delta(r#""tool_calls":[{"index":0,"function":{"arguments":"{}"}}]"#),
            ],
            vec![Kind::ToolCall; 2],
        ),
        (
            "function call",
            vec![delta(r#""function_call":{"name":"f","arguments":"{}"}"#)],
            vec![Kind::ToolCall],
        ),
        (
            "thinking ends, answer begins",
            vec![delta(r#""reasoning":"so","content":"a""#)],
            vec![Kind::Answer],
        ),
        (
            "content in parts",
            vec![delta(r#""content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#)],
            vec![Kind::Answer],
        ),
    ] {
        let mut all = vec![role()];
        all.extend(events);
        all.extend([finish("stop"), usage(9), DONE.to_owned()]);
        let (row, text) = chat(name, all.concat());
        assert_eq!(row.state, State::Ok, "{name}");
        assert_eq!(kinds(&row), expected, "{name}");
        assert!(text.is_some());
    }
    // Both names of thinking in one event: one text.
    let both = delta(r#""reasoning":"hm","reasoning_content":"hm""#);
    let (row, text) = chat("both names", [both, finish("stop"), DONE.to_owned()].concat());
    assert_eq!((kinds(&row), text.as_deref()), (vec![Kind::Reasoning], Some("hm")));
    // Thinking only, cut by the limit.
    let (row, _) = chat("only thinking", [thinking("reasoning"), finish("length"), DONE.to_owned()].concat());
    assert_eq!((row.state, row.finish), (State::Ok, Some(Finish::Length)));
}

#[test]
fn output_after_the_end_mark_is_no_good_answer() {
    let late = [base().concat(), content("late"), usage(4)].concat();
    assert!(late.contains(DONE));
    let (row, _) = chat("output after [DONE]", late);
    let State::Failed { class: FailureClass::Protocol, detail } = &row.state else {
        panic!("{:?}", row.state)
    };
    assert!(detail.contains("output came after [DONE]"), "{detail}");
    // Counts may follow.
    let (row, _) = chat("usage after [DONE]", [base().concat(), usage(2)].concat());
    assert_eq!((row.state, row.output.usage), (State::Ok, Some(2)));
}

#[test]
fn usage_wherever_it_comes() {
    let with = |event: &str, n: u32| {
        event.replacen("{\"", &format!("{{\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":{n}}},\""), 1)
    };
    let without_own: Vec<String> = base().into_iter().filter(|e| !e.contains("usage")).collect();
    let set = |at: usize, n: u32| {
        let mut events = without_own.clone();
        events[at] = with(&events[at], n);
        events
    };
    assert_base("with the finish", chat("with the finish", set(4, 3).concat()));
    assert_base("with the last text", chat("with the last text", set(3, 3).concat()));
    let mut after = without_own.clone();
    after.push(usage(3));
    assert_base("after the end mark", chat("after the end mark", after.concat()));
    let nulls: String =
        base().iter().map(|e| e.replace("\"choices\":[{", "\"usage\":null,\"choices\":[{")).collect();
    assert_base("null before", chat("null before", nulls));
    let twice = [base().concat().replace(DONE, ""), usage(4), DONE.to_owned()].concat();
    assert_eq!(chat("the last wins", twice).0.output.usage, Some(4));

    // Running counts 1, 3, 7: weights 1, 2, 4.
    let mut running = without_own.clone();
    for (at, n) in [(0, 0), (1, 1), (2, 3), (3, 7), (4, 7)] {
        running[at] = with(&running[at], n);
    }
    running.insert(5, usage(7));
    let (row, _) = chat("running", running.concat());
    assert_eq!(tokens(&row), [Some(1), Some(2), Some(4)]);
    assert_eq!((row.output.usage, row.oddities), (Some(7), vec![]));

    let (row, _) = chat("absent", without_own.concat());
    assert_eq!((row.output.usage, row.oddities), (None, vec![Oddity::NoUsage]));
    let mut quiet = Answer::chat(without_own.concat());
    quiet.expect.usage = false;
    assert_eq!(quiet.whole().0.oddities, []);

    let details = usage(3).replace(
        "\"completion_tokens\":3",
        "\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":8},\"completion_tokens_details\":{\"reasoning_tokens\":2}",
    );
    let (row, _) = chat("details", replaced(5, &[details]));
    assert_eq!((row.input.cached, row.output.reasoning), (Some(8), Some(2)));
    let sglang =
        usage(3).replace("\"completion_tokens\":3", "\"completion_tokens\":3,\"reasoning_tokens\":2");
    assert_eq!(chat("reasoning outside", replaced(5, &[sglang])).0.output.reasoning, Some(2));
}

#[test]
fn counts_that_disagree() {
    let ids = |text: &str, ids: &str| {
        content(text).replace("\"finish_reason\"", &format!("\"token_ids\":{ids},\"finish_reason\""))
    };
    let stream = |last: &str, n| {
        [ids("a", "[1,2]"), ids("b", "[3]"), finish(last), usage(n), DONE.to_owned()].concat()
    };
    for (last, n, odd) in [
        ("length", 3, false),
        ("stop", 3, false),
        // The end mark is counted and never seen.
        ("stop", 4, false),
        ("length", 4, true),
        ("stop", 5, true),
        ("length", 2, true),
    ] {
        let name = format!("{last} {n}");
        let (row, _) = chat(&name, stream(last, n));
        assert_eq!(tokens(&row), [Some(2), Some(1)], "{name}");
        assert_eq!(row.oddities.contains(&Oddity::CountMismatch), odd, "{name}");
    }
    // More chunks than tokens cannot be.
    let (row, _) = chat("few", base().concat().replace("completion_tokens\":3", "completion_tokens\":2"));
    assert_eq!(row.oddities, [Oddity::CountMismatch]);
}

#[test]
fn several_choices_have_a_timeline_each() {
    let of = |choice: u32, text: &str| content(text).replace("\"index\":0", &format!("\"index\":{choice}"));
    let end = |choice: u32| finish("length").replace("\"index\":0", &format!("\"index\":{choice}"));
    let events = [of(1, "x"), of(0, "a"), of(1, "y"), end(1), of(0, "b"), end(0), usage(4), DONE.to_owned()];
    let (row, text) = chat("two", events.concat());
    assert_eq!(row.state, State::Ok);
    assert_eq!(row.chunks.iter().map(|c| c.choice).collect::<Vec<_>>(), [1, 0, 1, 0]);
    assert_eq!(text.as_deref(), Some("abxy"));
    assert_eq!(row.oddities, [Oddity::SeveralChoices]);
    assert_eq!(row.output.usage, Some(4));
    // One of them is unfinished.
    let (row, _) = chat("one unfinished", events[..5].concat());
    assert_eq!(class(&row), Some(FailureClass::Truncated));
    // One count for each choice, after its finish (llama.cpp): together four.
    let each =
        [of(1, "x"), of(0, "a"), of(1, "y"), end(1), usage(2), of(0, "b"), end(0), usage(2), DONE.to_owned()];
    let (row, _) = chat("a count each", each.concat());
    assert_eq!((row.output.usage, row.input.server), (Some(4), Some(9)));
}

#[test]
fn completions_without_visible_text() {
    let text = |t: &str, reason: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"text\":{t:?},\"finish_reason\":{reason}}}]}}\n\n")
    };
    let stream = |events: &[String], n: u32| [events.concat(), usage(n), DONE.to_owned()].concat();
    let silent = |n: usize| vec![text("", "null"); n];
    let more = |mut a: Vec<String>, b: &str| {
        a.push(text("", b));
        a
    };
    for (name, events, n, chunks) in [
        // Exactly one token for each event, the last one with the finish reason.
        ("vLLM", more(silent(3), "\"length\""), 4, 4),
        // The model's own end mark is no output.
        ("end mark", more(silent(3), "\"stop\""), 4, 3),
        // The event that only ends the answer is none of the three.
        ("apart", more(silent(3), "\"length\""), 3, 3),
        // Half a character in two events, then the text: three tokens, as the usage says.
        ("in pieces", vec![text("", "null"), text("", "null"), text("é", "\"length\"")], 3, 3),
        // llama.cpp: an empty event ends the answer.
        ("llama.cpp", vec![text("a", "null"), text("b", "null"), text("", "\"length\"")], 2, 2),
        // Not confirmed: no output.
        ("unclear", vec![text("", "null"), text("a", "null"), text("", "\"length\"")], 9, 1),
    ] {
        let (row, _) = completions(name, stream(&events, n));
        assert_eq!(row.state, State::Ok, "{name}");
        assert_eq!(row.chunks.len(), chunks, "{name}");
        assert_eq!(row.oddities, [], "{name}");
    }
    let (row, _) = completions("not confirmed", stream(&more(silent(3), "\"length\""), 32));
    assert_eq!(class(&row), Some(FailureClass::Empty));
    let (row, _) = completions("empty", stream(&more(vec![], "\"length\""), 32));
    assert_eq!(class(&row), Some(FailureClass::Empty));
    // In chat an empty event never is output, whatever the usage says.
    let (row, _) = chat("chat", replaced(2, &[content("")]));
    assert_eq!((row.chunks.len(), row.output.usage), (2, Some(3)));
    // Token ids prove a token without text, but not the end mark.
    let ids = |t: &str, reason: &str| text(t, reason).replace("\"text\"", "\"token_ids\":[5],\"text\"");
    let (row, _) = completions("ids", stream(&[ids("", "null"), ids("a", "null"), ids("", "\"stop\"")], 3));
    assert_eq!(tokens(&row), [Some(1), Some(1)]);
    let (row, _) = completions("ids at the limit", stream(&[ids("a", "null"), ids("", "\"length\"")], 2));
    assert_eq!(tokens(&row), [Some(1), Some(1)]);
}

#[test]
fn counts_of_llama_cpp_without_usage() {
    let timings = finish("length").replacen(
        "{\"",
        "{\"timings\":{\"cache_n\":33,\"prompt_n\":1,\"predicted_n\":3},\"",
        1,
    );
    let (row, _) = chat("timings", [role(), content("a"), content("b"), timings, DONE.to_owned()].concat());
    assert_eq!((row.output.usage, row.input.server, row.input.cached), (Some(3), Some(34), Some(33)));
}

#[test]
fn chunks_that_repeat_the_text() {
    let stream = |texts: &[&str]| {
        let events: String = texts.iter().map(|t| content(t)).collect();
        [role(), events, finish("stop"), usage(3), DONE.to_owned()].concat()
    };
    let (row, text) = chat("a, ab, abc", stream(&["a", "ab", "abc"]));
    assert_eq!((row.cumulative_chunks, row.cumulative_run), (2, 2));
    assert_eq!(text.as_deref(), Some("abc"), "not tripled");
    assert_eq!(row.chunks.iter().map(|c| c.text_bytes).collect::<Vec<_>>(), [1, 1, 1]);
    let (row, text) = chat("some", stream(&["a", "ab", "abc", "x", "xy"]));
    assert_eq!((row.cumulative_chunks, row.cumulative_run), (3, 2));
    assert_eq!(text.as_deref(), Some("aababcxxy"));
    let (row, _) = chat("equal", stream(&["a", "a", "a"]));
    assert_eq!((row.cumulative_chunks, row.cumulative_run), (0, 0));
}

#[test]
fn answers_that_repeat_the_prompt() {
    let prompt = "The quick brown fox jumps over the lazy dog.";
    for (answer, tokens) in [
        (prompt.to_owned(), 11),
        (format!(" \n{prompt} And more."), 11),
        ("The quick brown cat".to_owned(), 4),
        ("No.".to_owned(), 0),
    ] {
        let mut stream = Answer::chat([content(&answer), finish("stop"), DONE.to_owned()].concat());
        stream.expect.prompt = Some(prompt.into());
        assert_eq!(read("echo", &stream).0.echo_tokens, Some(tokens), "{answer}");
    }
    // After thinking, the answer itself is compared.
    let body = [delta(r#""reasoning":"hm""#), content(prompt), finish("stop"), DONE.to_owned()].concat();
    let stream = Answer {
        expect: Expect { prompt: Some(prompt.into()), ..Expect::stream(Dialect::Chat) },
        ..Answer::chat(body)
    };
    assert_eq!(stream.whole().0.echo_tokens, Some(11));
}
