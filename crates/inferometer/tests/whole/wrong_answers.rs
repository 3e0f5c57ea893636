//! Whatever a server does with a connection, the request has one row with the right class, and the ones before and
//! after it are well. One table: what happens, what becomes of the request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use record::{FailureClass, Oddity, Request, State, TimeoutKind};
use spec::Nanos;

use crate::harness::{Run, recorded, run};
use crate::scripted::*;

/// The number of the request that suffers, of three that one user sends.
const STRUCK: u64 = 1;
/// "100 MB".
const LARGE: usize = 100_000_000;
/// What the client may hold, whatever is thrown at it: its limit on one event (64 MiB) and room to grow into it.
const MEMORY: u64 = 256 << 20;
/// What no request takes, whatever limit or end it has to wait for.
const LONGEST: Nanos = Nanos::from_secs(10);
/// Runs side by side.
const AT_ONCE: usize = 3;

type Act = Box<dyn Fn(&mut Link) -> After + Send + Sync>;

/// What becomes of the request.
#[derive(Debug, PartialEq)]
enum Becomes {
    Fine(&'static [Oddity]),
    Failed(FailureClass),
    FailedAs(&'static [FailureClass]),
    TimedOut(TimeoutKind),
}

use Becomes::{Failed, FailedAs, Fine, TimedOut};
use FailureClass::{Connect, Empty, Http4xx, Http5xx, Http429, Protocol, ServerError, Truncated};

struct Row {
    name: String,
    args: &'static [&'static str],
    /// Strikes when the connection is accepted, before anything is read; each request has a connection of its own.
    at_accept: bool,
    act: Act,
    becomes: Becomes,
}

/// What the server does once it has read the request.
fn row(
    name: impl Into<String>,
    becomes: Becomes,
    act: impl Fn(&mut Link) -> After + Send + Sync + 'static,
) -> Row {
    Row { name: name.into(), args: &[], at_accept: false, act: Box::new(act), becomes }
}

/// The same for an answer that is sent as it stands, after which the connection stays open and serves on.
fn says(name: &str, becomes: Becomes, answer: impl Into<Vec<u8>>) -> Row {
    let answer = answer.into();
    row(name, becomes, move |link| {
        link.send(&answer);
        After::Keep
    })
}

/// The same, and then the server closes.
fn ends(name: &str, becomes: Becomes, answer: impl Into<Vec<u8>>) -> Row {
    let answer = answer.into();
    row(name, becomes, move |link| {
        link.send(&answer);
        After::Close
    })
}

impl Row {
    fn with(self, args: &'static [&'static str]) -> Self {
        Self { args, ..self }
    }
    fn at_accept(self) -> Self {
        Self { at_accept: true, args: &["--connections", "fresh"], ..self }
    }
}

/// Runs every row and says all that is wrong with them.
fn hold(rows: Vec<Row>) {
    let next = AtomicUsize::new(0);
    let shared: Vec<Arc<Row>> = rows.into_iter().map(Arc::new).collect();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                scope.spawn(|| {
                    let mut wrong = Vec::new();
                    while let Some(row) = shared.get(next.fetch_add(1, Ordering::Relaxed)) {
                        wrong.extend(check(row).into_iter().map(|fault| format!("{}: {fault}", row.name)));
                    }
                    wrong
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check(row: &Arc<Row>) -> Vec<String> {
    let acting = row.clone();
    let server = Scripted::start(move |link| {
        if acting.at_accept && link.connection == STRUCK {
            (acting.act)(link);
            return;
        }
        while let Some(number) = link.request() {
            let after = if number == STRUCK && !acting.at_accept {
                (acting.act)(link)
            } else {
                link.send(good(number));
                After::Keep
            };
            if after == After::Close {
                return;
            }
        }
    });
    let folder = tempfile::tempdir().expect("a folder");
    let mut args = vec![server.url.as_str(), "--model", "m", "--no-check", "-c", "1", "-n", "3"];
    args.extend(["--warmup", "none", "--tokenizer", "none", "--isl", "8", "--osl", "3"]);
    args.extend(["--slo", "error_rate<=1%"]);
    args.extend(row.args);
    let ran = run(folder.path(), &args);
    let rows = recorded(folder.path()).requests;
    let mut wrong = verdict(row, &ran, &rows);
    if row.at_accept {
        return wrong;
    }
    // A request goes out once more only where the server closed a connection without having said a word.
    let asked = server.asked.lock().expect("no panic");
    for request in &rows {
        let times = asked.iter().filter(|number| **number == request.seq).count();
        let stale = request.connection.map_or(0, |connection| connection.stale as usize);
        if times > 1 + stale {
            wrong.push(format!("request {} went out {times} times, {stale} stale", request.seq));
        }
    }
    wrong
}

/// What is wrong with a run of which one request was struck.
fn verdict(row: &Row, ran: &Run, rows: &[Request]) -> Vec<String> {
    let mut wrong = Vec::new();
    let numbers: Vec<u64> = rows.iter().map(|request| request.seq).collect();
    if numbers != [0, 1, 2] {
        return vec![format!("requests {numbers:?} have rows\n{}", ran.stderr)];
    }
    for request in rows {
        let id = format!("answer-{}", request.seq);
        let struck = request.seq == STRUCK;
        let expected = if struck { &row.becomes } else { &Fine(&[]) };
        let holds = match (expected, &request.state) {
            (Fine(oddities), State::Ok) => {
                // On a busy machine the kernel may hand over a segment long after it stamped it.
                let of_stamps = |odd: &&Oddity| **odd == Oddity::ClampedStamp;
                request.oddities.iter().filter(|odd| !of_stamps(odd)).eq(*oddities)
                    && request.server_id.as_ref() == Some(&id)
                    && request.output.usage == Some(3)
            }
            (Failed(class), State::Failed { class: found, .. }) => class == found,
            (FailedAs(classes), State::Failed { class: found, .. }) => classes.contains(found),
            (TimedOut(kind), State::TimedOut { limit }) => kind == limit,
            _ => false,
        };
        if !holds {
            wrong.push(format!(
                "request {} is {:?} {:?} (answer {:?}), not {expected:?}",
                request.seq, request.state, request.oddities, request.server_id
            ));
        }
        let times = [Some(request.intended), request.write_begin, request.headers, request.closed];
        if !times.iter().flatten().is_sorted() {
            wrong.push(format!("time runs backwards in request {}: {times:?}", request.seq));
        }
    }
    let struck = &rows[STRUCK as usize];
    let took = struck.closed.zip(struck.write_begin).and_then(|(end, begin)| end.since(begin));
    if took.is_some_and(|took| took > LONGEST) {
        wrong.push(format!("it took {took:?}"));
    }
    // A limit on the share of errors is missed by one of three, and left open by none of three.
    let code = if matches!(row.becomes, Fine(_)) { 5 } else { 1 };
    if ran.code != code && !(ran.code == 3 && ran.is_disturbed()) {
        wrong.push(format!("exit code {}, not {code}: {}", ran.code, ran.json["verdict"]));
    }
    if ran.peak_bytes > MEMORY {
        wrong.push(format!("{} MB of memory", ran.peak_bytes / 1_000_000));
    }
    wrong
}

/// The head and the first `n` events of a good answer.
fn up_to(n: usize) -> String {
    HEAD.to_owned() + &events(STRUCK)[..n].iter().map(|event| chunk(event)).collect::<String>()
}

/// The answer with another event in front of its own.
fn with_event(event: &str) -> String {
    good(STRUCK).replacen(HEAD, &(HEAD.to_owned() + &chunk(event)), 1)
}

/// A good answer with other fields in its head, its body not in chunks.
fn unchunked(head: &str) -> String {
    format!("{head}\r\ncontent-type: text/event-stream\r\n\r\n{}", events(STRUCK).concat())
}

/// A connection that ends, in good order or by a reset, at every stage of an answer.
#[test]
fn an_answer_that_is_cut() {
    let mut rows = Vec::new();
    for (stage, sent, becomes) in [
        ("before the head", String::new(), Truncated),
        ("in the status line", HEAD[..12].to_owned(), Truncated),
        ("in a field of the head", HEAD[..30].to_owned(), Truncated),
        ("after the head", HEAD.to_owned(), Truncated),
        ("in the length of a chunk", up_to(1) + "5", Truncated),
        ("after the length of a chunk", up_to(1) + "5a\r\n", Truncated),
        ("in an event", up_to(1) + "5a\r\ndata: {\"cho", Truncated),
        ("after an event", up_to(1), Truncated),
        ("before the finish reason", up_to(3), Truncated),
    ] {
        for reset in [false, true] {
            let sent = sent.clone();
            rows.push(row(format!("cut {stage}, reset {reset}"), Failed(becomes), move |link| {
                link.send(&sent);
                pause(10);
                if reset { link.reset() } else { After::Close }
            }));
        }
    }
    // With its finish reason the answer was complete.
    for (stage, sent, odd) in [
        ("after the finish reason", up_to(4), &[Oddity::NoDone][..]),
        ("after the end mark", up_to(5), &[]),
        ("in the last chunk", up_to(5) + "0\r\n", &[]),
    ] {
        for reset in [false, true] {
            let sent = sent.clone();
            rows.push(row(format!("cut {stage}, reset {reset}"), Fine(odd), move |link| {
                link.send(&sent);
                pause(10);
                if reset { link.reset() } else { After::Close }
            }));
        }
    }
    for (stage, sent) in [("before the head", String::new()), ("after an event", up_to(1))] {
        rows.push(row(format!("half closed {stage}"), Failed(Truncated), move |link| {
            link.send(&sent);
            link.half_close();
            link.hold()
        }));
    }
    // Whether the reset is there before the client knows that it is connected is the kernel's choice.
    let either = FailedAs(&[Truncated, Connect]);
    rows.push(row("reset when accepted", either, |link| link.reset()).at_accept());
    rows.push(row("closed when accepted", Failed(Truncated), |_| After::Close).at_accept());
    rows.push(
        row("reset in the request", Failed(Truncated), |link| {
            link.part(100);
            link.reset()
        })
        .at_accept(),
    );
    hold(rows);
}

/// A connection that stays, and says nothing more or nothing of worth.
#[test]
fn an_answer_that_never_comes_to_an_end() {
    const SHORT: &[&str] = &["--first-token-timeout", "700ms", "--idle-timeout", "700ms"];
    use TimeoutKind::{FirstToken, Stalled, Total};
    let every = Duration::from_millis(20);
    let no_output = token(STRUCK, "");
    hold(vec![
        says("no byte", TimedOut(FirstToken), "").with(SHORT),
        says("half a head", TimedOut(FirstToken), &HEAD[..30]).with(SHORT),
        says("a head", TimedOut(FirstToken), HEAD).with(SHORT),
        row("one 102 after the other", TimedOut(FirstToken), move |link| {
            link.drip("HTTP/1.1 102 Processing\r\n\r\n", every);
            After::Close
        })
        .with(SHORT),
        row("a head without end", TimedOut(FirstToken), move |link| {
            link.send("HTTP/1.1 200 OK\r\nx: ");
            link.drip("y", every);
            After::Close
        })
        .with(SHORT),
        row("comments only", TimedOut(FirstToken), move |link| {
            link.send(HEAD);
            link.drip(chunk(": ping\n\n"), every);
            After::Close
        })
        .with(SHORT),
        row("events without output only", TimedOut(FirstToken), move |link| {
            link.send(HEAD);
            link.drip(chunk(&no_output), every);
            After::Close
        })
        .with(SHORT),
        says("a piece of an event", TimedOut(FirstToken), up_to(0) + "5a\r\ndata: {").with(SHORT),
        says("one token", TimedOut(Stalled), up_to(1)).with(SHORT),
        says("a token and a piece", TimedOut(Stalled), up_to(1) + "5a\r\ndata: {").with(SHORT),
        says("a token and half a length", TimedOut(Stalled), up_to(1) + "5").with(SHORT),
        row("tokens without end", TimedOut(Total), move |link| {
            link.send(HEAD);
            link.drip(chunk(&token(STRUCK, "on ")), every);
            After::Close
        })
        .with(&["--total-timeout", "1s"]),
        // Complete, but the server does not let go.
        says("all but the end mark", Fine(&[Oddity::NoDone]), up_to(4)).with(SHORT),
        says("all but the last chunk", Fine(&[]), up_to(5)),
        row("pings behind the end mark", Fine(&[]), move |link| {
            link.send(up_to(5));
            link.drip(chunk(": ping\n\n"), every);
            After::Close
        }),
        row("trailers without end", Fine(&[]), move |link| {
            link.send(up_to(5) + "0\r\nx-a: ");
            link.drip("y", every);
            After::Close
        }),
    ]);
}

/// A hundred megabytes where some bytes are expected: told apart, and not kept.
#[test]
fn an_answer_that_is_far_too_large() {
    let flood = |name: &str, becomes, before: &str, piece: &'static str| {
        let before = before.to_owned();
        row(name, becomes, move |link: &mut Link| {
            link.send(&before);
            link.flood(piece.as_bytes(), LARGE);
            After::Close
        })
    };
    let open = |head: &str, text: &str| format!("{head}{LARGE:x}\r\n{text}");
    hold(vec![
        flood("a line", Failed(Protocol), &open(HEAD, "data: "), "x"),
        flood(
            "an event of many lines",
            Failed(Protocol),
            &open(HEAD, ""),
            "data: xxxxxxxxxxxxxxxxxxxxxxxx\n",
        ),
        flood("the name of an event", Failed(Protocol), &open(HEAD, "event: "), "x"),
        flood("a field of the head", Failed(Protocol), "HTTP/1.1 200 OK\r\nx-long: ", "x"),
        flood("fields of the head", Failed(Protocol), "HTTP/1.1 200 OK\r\n", "x-many: 1\r\n"),
        flood("the reason of the status", Failed(Protocol), "HTTP/1.1 200 ", "x"),
        flood("the length of a chunk", Failed(Protocol), HEAD, "0"),
        flood("an extension of a chunk", Failed(Protocol), &format!("{HEAD}5;x="), "x"),
        flood("trailers", Fine(&[]), &(up_to(5) + "0\r\n"), "x-many: 1\r\n"),
        flood(
            "JSON",
            Failed(Protocol),
            &format!("HTTP/1.1 200 OK\r\ncontent-length: {LARGE}\r\n\r\n{{\"id\":\""),
            "x",
        ),
        flood(
            "words of a refusal",
            Failed(Http5xx),
            &format!("HTTP/1.1 500 Oh\r\ncontent-length: {LARGE}\r\n\r\n"),
            "no ",
        ),
        flood("no HTTP", Failed(Protocol), "", "spam "),
        row("comments before a good answer", Fine(&[]), |link| {
            link.send(format!("{HEAD}{LARGE:x}\r\n"));
            link.flood(b": ping pong\n", LARGE);
            link.send("\r\n");
            link.send(good(STRUCK).strip_prefix(HEAD).expect("a head"));
            After::Keep
        }),
        row("a good answer, then comments", Fine(&[]), |link| {
            link.send(up_to(5));
            link.send(format!("{LARGE:x}\r\n"));
            link.flood(b": ping pong\n", LARGE);
            link.send("\r\n0\r\n\r\n");
            After::Keep
        }),
        row("brackets", Failed(Protocol), |link| {
            link.send(format!("{HEAD}{LARGE:x}\r\ndata: {{\"choices\":"));
            link.flood(b"[", LARGE / 10);
            link.send("\n\n");
            link.hold()
        }),
    ]);
}

/// HTTP that is bent, or broken.
#[test]
fn an_answer_in_strange_http() {
    let body = events(STRUCK).concat();
    let length = body.len();
    let sized = |n: &str| unchunked(&format!("HTTP/1.1 200 OK\r\ncontent-length: {n}"));
    let chunked = |chunks: &str| format!("{HEAD}{chunks}");
    let json = format!(
        "{{\"id\":\"answer-{STRUCK}\",\"choices\":[{{\"index\":0,\"message\":{{\"content\":\"a\"}},\"finish_reason\":\"length\"}}],\
         \"usage\":{{\"prompt_tokens\":3,\"completion_tokens\":3}}}}"
    );
    let settings = b"\0\0\x0c\x04\0\0\0\0\0\0\x03\0\0\0\x80\0\x04\0\x01\0\0";
    let first = token(STRUCK, TEXT[0]);
    let second = chunk(&events(STRUCK)[1..].concat());
    hold(vec![
        // Fine, however rare.
        says("100 before the head", Fine(&[]), "HTTP/1.1 100 Continue\r\n\r\n".to_owned() + &good(STRUCK)),
        says(
            "103 before the head",
            Fine(&[]),
            "HTTP/1.1 103 Early Hints\r\nlink: </x>; rel=preload\r\n\r\n".to_owned() + &good(STRUCK),
        ),
        says(
            "trailers",
            Fine(&[]),
            good(STRUCK).replace("\r\n0\r\n\r\n", "\r\n0\r\nx-took: 3\r\nx-queue: 1\r\n\r\n"),
        ),
        says("an extension of a chunk", Fine(&[]), good(STRUCK).replacen("\r\ndata", ";a=b;c\r\ndata", 1)),
        says("no reason", Fine(&[]), good(STRUCK).replacen(" OK", "", 1)),
        ends("HTTP/1.0", Fine(&[]), unchunked("HTTP/1.0 200 OK")),
        ends("HTTP/1.0 with a length", Fine(&[]), sized(&length.to_string()).replacen("1.1", "1.0", 1)),
        ends(
            "the end of the connection as the end",
            Fine(&[]),
            unchunked("HTTP/1.1 200 OK\r\nconnection: close"),
        ),
        ends("an announced close", Fine(&[]), good(STRUCK).replacen("OK", "OK\r\nconnection: close", 1)),
        says(
            "two heads' worth of fields",
            Fine(&[]),
            good(STRUCK).replacen("OK", &format!("OK{}", "\r\nx-a: b".repeat(90)), 1),
        ),
        says("JSON instead of a stream", Fine(&[Oddity::NotStreamed]), plain("200 OK", "", &json)),
        // Lengths that lie.
        says("a length that is right", Fine(&[]), sized(&length.to_string())),
        says("a length too short", Failed(Truncated), sized("150")),
        says(
            "a length short of the end mark",
            Fine(&[Oddity::NoDone]),
            sized(&(length - DONE.len() / 2).to_string()),
        ),
        says("a length too long, held open", Fine(&[]), sized(&(length + 99).to_string())),
        ends("a length too long, closed", Fine(&[]), sized(&(length + 99).to_string())),
        ends(
            "an answer shorter than its length",
            Failed(Truncated),
            sized("9999").replace(DONE, "").replace(&finish(), ""),
        ),
        says("a length of nothing", Failed(Empty), sized("0")),
        says("a length below nothing", Failed(Protocol), sized("-5")),
        says("a length in words", Failed(Protocol), sized("many")),
        says("a length beyond all numbers", Failed(Protocol), sized("99999999999999999999999")),
        says("two lengths", Failed(Protocol), sized(&format!("{length}\r\ncontent-length: 7"))),
        // Chunks that lie.
        says(
            "a chunk longer than its length",
            Failed(Protocol),
            chunked(&format!("7\r\n{first}\r\n{second}0\r\n\r\n")),
        ),
        ends("a chunk shorter than its length", Failed(Truncated), chunked(&format!("fff\r\n{first}\r\n"))),
        says("a length that is no number", Failed(Protocol), chunked(&format!("zz\r\n{first}\r\n"))),
        says("a length of a chunk below nothing", Failed(Protocol), chunked(&format!("-5\r\n{first}\r\n"))),
        says(
            "a length of a chunk beyond all numbers",
            Failed(Protocol),
            chunked(&format!("fffffffffffffffff1\r\n{first}\r\n")),
        ),
        says("a length of a chunk in C", Failed(Protocol), chunked(&format!("0x5a\r\n{first}\r\n"))),
        says("no length of a chunk", Failed(Protocol), chunked(&format!("\r\n{first}\r\n"))),
        says("no chunks at all", Failed(Protocol), chunked(&body)),
        // Other statuses.
        says(
            "101",
            Failed(Protocol),
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
        ),
        says("204", Failed(Empty), "HTTP/1.1 204 No Content\r\n\r\n"),
        says("304", Failed(Http5xx), "HTTP/1.1 304 Not Modified\r\n\r\n"),
        says(
            "a redirect",
            Failed(Http5xx),
            plain("307 Over There", "location: http://localhost:1/v1\r\n", ""),
        ),
        says("404", Failed(Http4xx), plain("404 No", "", "{}")),
        says("503 in chunks", Failed(Http5xx), good(STRUCK).replacen("200 OK", "503 Busy", 1)),
        // No HTTP.
        says("zeros", Failed(Protocol), "\0".repeat(64)),
        says("garbage", Failed(Protocol), "\0\u{ff}this is no HTTP\r\n\r\n"),
        says("another protocol", Failed(Protocol), "SSH-2.0-OpenSSH_9.2p1\r\n"),
        says("an HTTP/2 frame", Failed(Protocol), settings),
        says("an alert of TLS", Failed(Protocol), b"\x15\x03\x03\x00\x02\x02\x46".to_vec()),
        says("another version", Failed(Protocol), good(STRUCK).replacen("1.1", "3.0", 1)),
        says("a status in words", Failed(Protocol), good(STRUCK).replacen("200", "two", 1)),
    ]);
}

/// A stream of events that is not what was asked for.
#[test]
fn an_answer_in_strange_events() {
    let encoded = good(STRUCK).replacen("OK", "OK\r\ncontent-encoding: gzip", 1);
    let mut no_text = format!("{HEAD}a\r\n").into_bytes();
    no_text.extend(b"data: \xff\xfe\n\n\r\n");
    let page = "<!DOCTYPE html><html><body>Welcome</body></html>";
    hold(vec![
        says("gzip, not asked for", Failed(Protocol), encoded),
        says("bytes that are no text", Failed(Protocol), no_text),
        says("broken JSON", Failed(Protocol), with_event("data: {\"choices\":[{\"delta\":\n\n")),
        says(
            "an error",
            Failed(ServerError),
            with_event("data: {\"error\":{\"message\":\"out of memory\"}}\n\n"),
        ),
        says("a page", Failed(Protocol), plain("200 OK", "content-type: text/html\r\n", page)),
        says("no output", Failed(Empty), HEAD.to_owned() + &chunk(&finish()) + &chunk(DONE) + "0\r\n\r\n"),
        says("no event", Failed(Empty), HEAD.to_owned() + "0\r\n\r\n"),
        says("an event of unknown kind", Fine(&[]), with_event("event: tick\nid: 7\nretry: 9\ndata:\n\n")),
        says("a comment and a byte order mark", Fine(&[]), with_event("\u{feff}: hello\n\n")),
        says("lines that end in CR LF", Fine(&[]), {
            let chunks: String = events(STRUCK).iter().map(|e| chunk(&e.replace('\n', "\r\n"))).collect();
            HEAD.to_owned() + &chunks + "0\r\n\r\n"
        }),
        says("all in one chunk", Fine(&[]), HEAD.to_owned() + &chunk(&events(STRUCK).concat()) + "0\r\n\r\n"),
        says("garbage behind the end mark", Fine(&[]), up_to(5) + &chunk("data: {\n\n") + "0\r\n\r\n"),
        // Counted or not, it would make another figure wrong.
        says("output behind the end mark", Failed(Protocol), {
            up_to(5) + &chunk(&token(STRUCK, "late")) + "0\r\n\r\n"
        }),
    ]);
}

/// Connections that are closed, or spoken on, when nobody asked: the next request is not hurt, and never takes an
/// answer that is not its own.
#[test]
fn a_connection_that_is_kept() {
    const THINK: &[&str] = &["--think", "60ms"];
    let late = |name: &str, then: &'static str| {
        row(name, Fine(&[]), move |link: &mut Link| {
            link.send(good(STRUCK));
            pause(20);
            link.send(then);
            link.hold()
        })
        .with(THINK)
    };
    let another = good(77);
    hold(vec![
        ends("closed behind the answer", Fine(&[]), good(STRUCK)),
        ends("closed while idle", Fine(&[]), good(STRUCK)).with(THINK),
        row("reset while idle", Fine(&[]), |link| {
            link.send(good(STRUCK));
            pause(20);
            link.reset()
        })
        .with(THINK),
        row("half closed while idle", Fine(&[]), |link| {
            link.send(good(STRUCK));
            link.half_close();
            link.hold()
        })
        .with(THINK),
        says("another answer behind the answer", Fine(&[]), good(STRUCK) + &another),
        says("rubbish behind the answer", Fine(&[]), good(STRUCK) + "rubbish"),
        says("a line end behind the answer", Fine(&[]), good(STRUCK) + "\r\n"),
        late(
            "408 while idle",
            "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        ),
        late("rubbish while idle", "rubbish"),
        row("another answer while idle", Fine(&[]), move |link| {
            link.send(good(STRUCK));
            pause(20);
            link.send(&another);
            link.hold()
        })
        .with(THINK),
        row("a refusal that keeps the connection", Failed(Http429), |link| {
            link.send(plain("429 Slow", "", "{\"error\":\"slow down\"}"));
            After::Keep
        }),
    ]);
}

/// Servers that answer before they were asked, or before they have read all of it.
#[test]
fn an_answer_that_comes_too_early() {
    hold(vec![
        row("an answer to a request not yet sent", Fine(&[]), |link| {
            link.send(good(77));
            link.hold()
        })
        .at_accept()
        .with(&["--connections", "prewarmed:2"]),
        row("a refusal in the middle of the request", Failed(Http4xx), |link| {
            link.part(100);
            link.send(plain("413 Large", "connection: close\r\n", "{\"error\":\"too long\"}"));
            link.half_close();
            link.hold()
        })
        .at_accept(),
    ]);
}
