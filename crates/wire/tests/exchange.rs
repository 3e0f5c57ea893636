//! One request at a time, against a server that behaves well, badly, or not at all.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod rig;

use std::sync::{Arc, Mutex};

use record::{FailureClass, Finish, State, TimeoutKind};
use rig::*;
use spec::{Connections, Extent, Limit, Nanos};

fn class(state: &State) -> Option<FailureClass> {
    match state {
        State::Failed { class, .. } => Some(*class),
        _ => None,
    }
}

/// Chunks apart and together: every chunk carries the stamp of the read that brought it.
#[test]
fn chunks_and_stamps_stay_together() {
    let writes: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
    let log = writes.clone();
    let server = Server::start(move |_, stream| {
        let timed = |stream: &mut std::net::TcpStream, text: &str| {
            let before = raw_now();
            put(stream, text);
            log.lock().unwrap().push((before, raw_now()));
            sleep_ms(25);
        };
        timed(stream, STREAM_HEAD);
        timed(stream, &chunk(&token("a")));
        timed(stream, &(chunk(&token("b")) + &chunk(&token("c"))));
        // One HTTP chunk with two events, and one event in two HTTP chunks that come apart.
        timed(stream, &chunk(&(token("d") + &token("e"))));
        let f = token("f");
        timed(stream, &chunk(&f[..10]));
        timed(stream, &chunk(&f[10..]));
        timed(stream, &(chunk(&finish(6)) + "0\r\n\r\n"));
        After::Keep
    });
    let ran = run(&spec(&server.url(), closed(1), Extent::Requests(1)));
    let row = &ran.rows[0];
    assert_eq!(row.state, State::Ok, "{row:?}");
    assert_eq!(ran.texts[0].as_deref(), Some("abcdef"));
    assert_eq!(row.finish, Some(Finish::Length));
    assert_eq!((row.output.usage, row.attempts, row.status), (Some(6), 1, Some(200)));
    let writes = writes.lock().unwrap();
    // Chunks a; b, c; d, e; f came with the writes 1; 2; 3; 5 (f's end).
    let by_write = [1, 2, 2, 3, 3, 5];
    assert_eq!(row.chunks.len(), 6);
    for (chunk, write) in row.chunks.iter().zip(by_write) {
        let at = |ns: u64| Nanos(ns - ran.origin);
        let (before, after) = (at(writes[write].0), at(writes[write + 1].0));
        // Not before it was written (stamps of two clocks agree to some µs), and before the next.
        assert!(chunk.arrival + Nanos::from_micros(100) >= before, "{chunk:?} {before:?}");
        assert!(chunk.arrival < after && chunk.arrival <= chunk.seen, "{chunk:?} {after:?}");
        assert!(chunk.earliest <= chunk.arrival);
    }
    let reads: Vec<u32> = row.chunks.iter().map(|c| c.read).collect();
    assert_eq!(reads[1], reads[2]);
    assert_eq!(reads[3], reads[4]);
    assert!(reads[0] < reads[1] && reads[2] < reads[3] && reads[4] + 2 == reads[5], "{reads:?}");
    assert_eq!(row.output_reads, 4);
    if cfg!(target_os = "linux") {
        assert!(row.chunks.iter().all(|c| c.kernel));
    }
    // The order of all stamps. The end of writing is known to this thread alone, which may lose the
    // processor before it looks at the clock: an answer can be there first.
    assert!(row.write_begin <= row.write_end);
    let order =
        [row.write_begin, row.headers, Some(row.chunks.first().unwrap().arrival), row.done, row.closed];
    let times: Vec<Nanos> = order.into_iter().map(Option::unwrap).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(row.intended <= row.dispatched.unwrap() && row.dispatched.unwrap() <= times[0]);
}

#[test]
fn without_kernel_stamps_the_span_is_given() {
    let server = Server::start(|_, stream| {
        put(stream, STREAM_HEAD);
        sleep_ms(10);
        put(stream, &(chunk(&token("a")) + &chunk(&finish(1)) + "0\r\n\r\n"));
        After::Keep
    });
    let mut spec = spec(&server.url(), closed(1), Extent::Requests(2));
    spec.client.kernel_stamps = false;
    for row in run(&spec).rows {
        let chunk = row.chunks.first().unwrap();
        assert!(!chunk.kernel);
        assert_eq!(chunk.arrival, chunk.seen);
        assert!(chunk.earliest <= chunk.seen && chunk.earliest >= row.write_begin.unwrap(), "{row:?}");
    }
}

#[test]
fn what_a_server_sees() {
    let server = Server::start(|_, stream| {
        put(stream, &whole(2));
        After::Keep
    });
    let mut spec = spec(&server.url(), closed(1), Extent::Requests(3));
    spec.api.headers.insert("X-Team".into(), "blue".into());
    let ran = run(&spec);
    assert!(ran.rows.iter().all(|r| r.state.is_ok()));
    let asked = server.asked.lock().unwrap();
    assert_eq!(asked.len(), 3);
    let head = asked[1].head.to_ascii_lowercase();
    for line in [
        "post /v1/chat/completions http/1.1",
        "accept-encoding: identity",
        "x-request-id: test-1",
        "x-team: blue",
        "content-type: application/json",
        &format!("host: {}", server.address),
        concat!("user-agent: inferometer/", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(head.lines().any(|l| l == line), "{line}\n{head}");
    }
    assert!(asked[1].body.contains("prompt 1"));
    // One connection, used again.
    drop(asked);
    assert_eq!(server.connections(), 1);
    let connections: Vec<_> = ran.rows.iter().map(|r| r.connection.unwrap()).collect();
    assert!(connections[0].connect.is_some() && !connections[0].reused);
    assert!(connections[1].reused && connections[1].connect.is_none());
}

#[test]
fn fresh_and_prewarmed_connections() {
    let server = Server::start(|_, stream| {
        put(stream, &whole(1));
        After::Keep
    });
    let mut spec = spec(&server.url(), closed(1), Extent::Requests(3));
    spec.client.connections = Connections::Fresh;
    let ran = run(&spec);
    assert_eq!(server.connections(), 3);
    assert!(ran.rows.iter().all(|r| r.connection.is_some_and(|c| !c.reused && c.connect.is_some())));
    spec.client.connections = Connections::Prewarmed(2);
    let ran = run(&spec);
    let first = ran.rows[0].connection.unwrap();
    assert!(!first.reused && first.ahead && first.connect.is_some() && first.waited().is_none());
}

/// What goes wrong, and the class that it gets.
#[test]
fn failures_have_their_class() {
    let server = Server::start(|asked, stream| {
        match asked.number {
            // Reset in the middle of the stream.
            0 => {
                put(stream, &(STREAM_HEAD.to_owned() + &chunk(&token("a"))));
                sleep_ms(20);
                let socket = socket2::SockRef::from(&*stream);
                socket.set_linger(Some(std::time::Duration::ZERO)).unwrap();
            }
            // Closed in the middle of the stream.
            1 => put(stream, &(STREAM_HEAD.to_owned() + &chunk(&token("a")))),
            // Less than announced.
            2 => put(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n{\"choices\":[]",
            ),
            3 => put(stream, &plain("500 Oh", "{\"error\":{\"message\":\"out of memory\"}}")),
            4 => put(stream, &plain("429 Slow", "{}")),
            5 => put(stream, &plain("404 No", "{\"error\":\"model `m` does not exist\"}")),
            6 => put(stream, "SSH-2.0-OpenSSH_9.2\r\n\r\n"),
            // An error inside of a success.
            7 => put(
                stream,
                &(STREAM_HEAD.to_owned()
                    + &chunk(&token("a"))
                    + &chunk("data: {\"error\":{\"message\":\"engine died\"}}\n\n")),
            ),
            8 => put(stream, &(STREAM_HEAD.to_owned() + &chunk(&finish(0)) + "0\r\n\r\n")),
            // A broken chunk length.
            9 => put(stream, &(STREAM_HEAD.to_owned() + &chunk(&token("a")) + "zz\r\n")),
            // Trickled, one byte at a time, but good.
            10 => {
                for byte in whole(2).bytes() {
                    put(stream, std::str::from_utf8(&[byte]).unwrap());
                }
            }
            // No answer at all, on a connection of its own.
            _ => {}
        }
        After::Close
    });
    let mut spec = spec(&server.url(), closed(1), Extent::Requests(12));
    spec.client.connections = Connections::Fresh;
    let ran = run(&spec);
    let classes: Vec<_> = ran.rows.iter().map(|r| class(&r.state)).collect();
    use FailureClass::*;
    let expected = [
        Some(Truncated),
        Some(Truncated),
        Some(Truncated),
        Some(Http5xx),
        Some(Http429),
        Some(Http4xx),
        Some(Protocol),
        Some(ServerError),
        Some(Empty),
        Some(Protocol),
        None,
        Some(Truncated),
    ];
    for (row, (got, want)) in ran.rows.iter().zip(classes.iter().zip(expected)) {
        assert_eq!(*got, want, "{:?}", row.state);
        assert!(row.write_begin.is_some() && row.closed.is_some());
    }
    assert_eq!((ran.rows[1].chunks.len(), ran.rows[10].output.usage), (1, Some(2)));
    assert!(matches!(&ran.rows[3].state, State::Failed { detail, .. } if detail.contains("out of memory")));
    assert_eq!(ran.footer.warnings, Vec::<String>::new());
}

#[test]
fn nobody_listens() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let ran = run(&spec(&url, open("inf", spec::Burstiness::POISSON, None), Extent::Requests(60)));
    assert_eq!(ran.rows.len(), 60);
    for row in &ran.rows {
        assert_eq!(class(&row.state), Some(FailureClass::Connect));
        assert_eq!((row.write_begin, row.status, row.connection), (None, None, None));
    }
    assert_eq!(ran.live.snapshot().failed, 60);
    assert_eq!(ran.live.snapshot().sent, 0);
}

/// One of three stalls after a chunk: the run ends within the idle limit, two are ok.
#[test]
fn a_stalled_stream_costs_itself_only() {
    let server = Server::start(|asked, stream| {
        put(stream, STREAM_HEAD);
        put(stream, &chunk(&token("a")));
        if asked.body.contains("prompt 1") {
            sleep_ms(3_000);
            return After::Close;
        }
        put(stream, &(chunk(&finish(1)) + "0\r\n\r\n"));
        After::Keep
    });
    let mut spec = spec(&server.url(), closed(3), Extent::Requests(3));
    spec.timeouts.idle = Limit(Some(ms(200)));
    let ran = run(&spec);
    assert!(ran.rows[0].state.is_ok() && ran.rows[2].state.is_ok());
    assert_eq!(ran.rows[1].state, State::TimedOut { limit: TimeoutKind::Stalled });
    assert_eq!(ran.rows[1].chunks.len(), 1, "what came is kept");
    let waited = ran.rows[1].closed.unwrap().since(ran.rows[1].chunks.first().unwrap().seen).unwrap();
    assert!(waited >= ms(200), "{waited:?}");
    assert!(ran.took < std::time::Duration::from_millis(2_500), "{:?}", ran.took);
}

#[test]
fn limits_on_first_token_total_and_connect() {
    let server = Server::start(|asked, stream| {
        put(stream, STREAM_HEAD);
        if asked.body.contains("prompt 0") {
            // Comments are no output.
            for _ in 0..20 {
                put(stream, &chunk(": ping\n\n"));
                sleep_ms(30);
            }
        }
        for _ in 0..40 {
            put(stream, &chunk(&token("a")));
            sleep_ms(30);
        }
        After::Close
    });
    let mut spec = spec(&server.url(), closed(2), Extent::Requests(2));
    spec.timeouts.first_token = Limit(Some(ms(150)));
    spec.timeouts.total = Limit(Some(ms(400)));
    let ran = run(&spec);
    assert_eq!(ran.rows[0].state, State::TimedOut { limit: TimeoutKind::FirstToken });
    assert_eq!(ran.rows[1].state, State::TimedOut { limit: TimeoutKind::Total });
    let lasted = ran.rows[1].closed.unwrap().since(ran.rows[1].write_begin.unwrap()).unwrap();
    assert!(lasted >= ms(400) && lasted < ms(1_200), "{lasted:?}");
    assert!(ran.rows[1].chunks.len() > 3);
}

#[cfg(target_os = "linux")]
#[test]
fn a_connection_that_never_stands_times_out() {
    // A full backlog: the kernel drops the handshake.
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    listener.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let _fill: Vec<_> = (0..4)
        .map(|_| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&address.into());
            socket
        })
        .collect();
    let mut spec = spec(&format!("http://{address}"), closed(1), Extent::Requests(1));
    spec.timeouts.connect = Limit(Some(ms(150)));
    let ran = run(&spec);
    assert_eq!(ran.rows[0].state, State::TimedOut { limit: TimeoutKind::Connect });
}

/// An idle connection that the server closes is no failure of a request.
#[test]
fn idle_connections_may_close() {
    // After each answer the server closes at once, without having said so.
    let server = Server::start(|_, stream| {
        put(stream, &whole(1));
        After::Close
    });
    let mut load = closed(1);
    if let spec::Load::Closed(closed) = &mut load {
        closed.think = spec::Span(ms(60));
    }
    let ran = run(&spec(&server.url(), load, Extent::Requests(4)));
    assert!(ran.rows.iter().all(|r| r.state.is_ok()));
    assert!(ran.rows.iter().all(|r| r.connection.is_some_and(|c| !c.reused)));
    // Noticed before use; on a busy machine the server may be late with one of them.
    assert!(ran.rows[1..].iter().any(|r| r.connection.is_some_and(|c| c.stale == 0)));

    // The race: it reads the second request on a connection, and closes without a byte.
    let server = Server::start(|asked, stream| {
        if asked.on_connection == 1 {
            return After::Close;
        }
        put(stream, &whole(1));
        After::Keep
    });
    let ran = run(&spec(&server.url(), closed(1), Extent::Requests(3)));
    assert!(ran.rows.iter().all(|r| r.state.is_ok()), "{:?}", ran.rows);
    let stale: Vec<u32> = ran.rows.iter().map(|r| r.connection.unwrap().stale).collect();
    assert_eq!(stale, [0, 1, 1]);
    assert!(ran.rows.iter().all(|r| r.attempts == 1));
    let second = &ran.rows[1];
    assert!(second.connection.unwrap().connect.is_some());
    // The clock runs from the first write, before the new connection.
    assert!(second.write_begin.unwrap() < second.write_end.unwrap());
}

#[test]
fn retries_only_when_asked_for() {
    let make = || {
        Server::start(|asked, stream| {
            match asked.number {
                0 => put(stream, &plain("503 Busy", "{}")),
                _ => put(stream, &whole(1)),
            }
            After::Keep
        })
    };
    let server = make();
    let ran = run(&spec(&server.url(), closed(1), Extent::Requests(1)));
    assert_eq!(class(&ran.rows[0].state), Some(FailureClass::Http5xx));
    assert_eq!(ran.rows[0].attempts, 1);
    let server = make();
    let mut spec = spec(&server.url(), closed(1), Extent::Requests(1));
    spec.client.retries = 2;
    let ran = run(&spec);
    assert!(ran.rows[0].state.is_ok());
    assert_eq!(ran.rows[0].attempts, 2);
    let heads = server.asked.lock().unwrap();
    assert!(heads[1].head.contains("test-0-2"));
}

#[test]
fn an_answer_that_is_no_stream() {
    let server = Server::start(|_, stream| {
        sleep_ms(20);
        put(
            stream,
            &plain(
                "200 OK",
                "{\"choices\":[{\"message\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}",
            ),
        );
        After::Keep
    });
    let mut spec = spec(&server.url(), closed(1), Extent::Requests(1));
    spec.api.stream = false;
    // A limit on the first token says nothing of an answer that comes as a whole.
    spec.timeouts.first_token = Limit(Some(ms(5)));
    let ran = run(&spec);
    assert!(ran.rows[0].state.is_ok(), "{:?}", ran.rows[0]);
    assert!(!ran.rows[0].streamed);
    assert_eq!(ran.texts[0].as_deref(), Some("hello"));
}

/// `[DONE]`, but the body never ends: the answer counts, the connection does not.
#[test]
fn a_body_that_never_ends_after_its_end() {
    let server = Server::start(|asked, stream| {
        if asked.number == 0 {
            put(stream, &(STREAM_HEAD.to_owned() + &chunk(&token("a")) + &chunk(&finish(1))));
            sleep_ms(3_000);
        } else {
            put(stream, &whole(1));
        }
        After::Close
    });
    let ran = run(&spec(&server.url(), closed(1), Extent::Requests(2)));
    assert!(ran.rows.iter().all(|r| r.state.is_ok()), "{:?}", ran.rows);
    assert!(!ran.rows[1].connection.unwrap().reused);
    assert!(ran.took < std::time::Duration::from_millis(2_800), "{:?}", ran.took);
}
