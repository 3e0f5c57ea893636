//! The server before the run: found or not, models, negotiation, TLS, keys.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod rig;

use std::sync::Arc;

use record::{FailureClass, State};
use rig::*;
use spec::{Extent, Span, Spec};
use wire::{Secret, Session, SessionError};

fn checked(url: &str) -> Spec {
    let mut spec = spec(url, closed(1), Extent::Requests(1));
    spec.api.readiness.check = true;
    spec.api.model = None;
    spec
}

/// Answers by path, and well to any request that is posted; anything else is 404.
fn pages(pages: &'static [(&'static str, &'static str)]) -> Server {
    Server::start(move |asked, stream| {
        let path = asked.head.split(' ').nth(1).unwrap_or_default();
        match pages.iter().find(|(p, _)| *p == path) {
            Some((_, body)) => put(stream, &plain("200 OK\r\nserver: sim/1", body)),
            None if asked.head.starts_with("POST") => put(stream, &plain("200 OK", "{}")),
            None => put(stream, &plain("404 Not Found", "{}")),
        }
        After::Close
    })
}

#[test]
fn nothing_answers() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = Session::open(&checked(&url), None, None).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with(&format!("nothing answered at {url}")), "{text}");
    assert!(text.contains("each time") && text.contains("hint: to try without a server"), "{text}");
    assert!(
        text.contains("GET /v1/models, ") && text.contains(" times in ") && text.contains("refused"),
        "{text}"
    );
}

/// A server that takes connections and says nothing holds nobody up.
#[test]
fn it_can_be_stopped_while_it_asks() {
    let server = Server::start(|_, _| {
        sleep_ms(60_000);
        After::Close
    });
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = stop.clone();
    std::thread::spawn(move || {
        sleep_ms(100);
        flag.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let mut spec = checked(&server.url());
    spec.api.readiness.wait = Span(spec::Nanos::from_secs(60));
    let started = raw_now();
    let error = Session::open_until(&spec, None, None, &stop).unwrap_err();
    assert_eq!(error, SessionError::Stopped);
    assert!(raw_now() - started < 4_000_000_000, "less than one question may take");
    // Set from the start, nothing is asked at all.
    assert_eq!(Session::open_until(&spec, None, None, &stop).unwrap_err(), SessionError::Stopped);
}

/// llama.cpp takes any name: the run goes on, and the record says so.
#[test]
fn a_model_that_is_not_listed_is_noted() {
    let server = pages(&[("/v1/models", "{\"data\":[{\"id\":\"a\"}]}")]);
    let mut spec = checked(&server.url());
    spec.api.model = Some("b".into());
    let session = Session::open(&spec, None, None).unwrap();
    assert_eq!((session.model.as_str(), session.negotiated.len()), ("b", 1));
    assert!(session.negotiated[0].contains("`b` is not among those that the server lists (a)"));
    spec.api.model = Some("a".into());
    assert!(Session::open(&spec, None, None).unwrap().negotiated.is_empty());
}

#[test]
fn it_becomes_ready() {
    let server = Server::start(|asked, stream| {
        match asked.number {
            0 => put(stream, &plain("503 Loading", "{\"error\":\"Loading model\"}")),
            _ => put(stream, &plain("200 OK", "{\"data\":[{\"id\":\"only\",\"max_model_len\":2048}]}")),
        }
        After::Close
    });
    let mut spec = checked(&server.url());
    spec.api.readiness.wait = Span(spec::Nanos::from_secs(20));
    let session = Session::open(&spec, None, None).unwrap();
    assert_eq!(session.model, "only");
    assert_eq!(session.server.get("max_model_len").map(String::as_str), Some("2048"));
    assert_eq!(session.addresses(), [server.address.to_string()]);
}

#[test]
fn the_key_goes_with_every_question_and_is_never_shown() {
    let server = Server::start(|asked, stream| {
        let key = asked.head.contains("authorization: Bearer sk-right");
        match key {
            true => put(stream, &plain("200 OK", "{\"data\":[{\"id\":\"m\"}]}")),
            false => {
                let given = asked.head.lines().find(|l| l.starts_with("authorization")).unwrap_or("none");
                put(stream, &plain("401 No", &format!("{{\"error\":\"bad key: {given}\"}}")));
            }
        }
        After::Close
    });
    let spec = checked(&server.url());
    assert!(Session::open(&spec, None, Some(Secret::new("sk-right"))).is_ok());
    let started = raw_now();
    let error = Session::open(&spec, None, Some(Secret::new("sk-wrong"))).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, SessionError::NotReady { status: 401, .. }), "{text}");
    assert!(
        text.contains("[redacted]")
            && !text.contains("sk-wrong")
            && text.contains("--api-key-env VARIABLE or --api-key-file FILE"),
        "{text}"
    );
    // Waiting does not help against a wrong key.
    assert!(raw_now() - started < 5_000_000_000);
}

#[test]
fn which_model() {
    let server = pages(&[("/v1/models", "{\"data\":[{\"id\":\"a\"},{\"id\":\"b\"}]}")]);
    let mut spec = checked(&server.url());
    let error = Session::open(&spec, None, None).unwrap_err();
    assert_eq!(
        error,
        SessionError::WhichModel { target: server.url(), offers: vec!["a".into(), "b".into()] }
    );
    assert!(error.to_string().contains("a, b; choose one by --model"));
    spec.api.model = Some("b".into());
    assert_eq!(Session::open(&spec, None, None).unwrap().models, ["a", "b"]);
}

/// A server that refuses one request refuses all of them: the run is not begun.
#[test]
fn a_refused_probe_ends_it_with_the_servers_words() {
    let server = Server::start(|asked, stream| {
        let answer = match asked.head.starts_with("GET") {
            true => plain("200 OK", "{\"data\":[{\"id\":\"real\"}]}"),
            false => {
                plain("404 Not Found", "{\"error\":{\"message\":\"The model `nosuch` does not exist.\"}}")
            }
        };
        put(stream, &answer);
        After::Close
    });
    let mut spec = checked(&server.url());
    spec.api.model = Some("nosuch".into());
    let text = Session::open(&spec, None, None).unwrap_err().to_string();
    for part in ["POST /v1/chat/completions", "404", "`nosuch` does not exist", "offers real", "--model NAME"]
    {
        assert!(text.contains(part), "{part} is missing from {text}");
    }
    // Without the check nothing is asked ahead.
    spec.api.readiness.check = false;
    assert!(Session::open(&spec, None, None).is_ok());
}

#[test]
fn what_it_tells_of_itself() {
    let server = pages(&[
        ("/api/v1/models", "{\"data\":[{\"id\":\"smol\",\"owned_by\":\"vllm\",\"max_model_len\":2048}]}"),
        ("/api/version", "{\"version\":\"0.32.0\"}"),
        ("/api/metrics", "vllm:num_requests_running{engine=\"0\"} 1\n"),
    ]);
    let session = Session::open(&checked(&format!("{}/api", server.url())), None, None).unwrap();
    assert!(session.metrics);
    let told = |key: &str| session.server.get(key).map(String::as_str);
    assert_eq!(
        [told("version"), told("owned_by"), told("max_model_len"), told("server")],
        [Some("0.32.0"), Some("vllm"), Some("2048"), Some("sim/1")]
    );
    assert!(session.target().ends_with("/api"));
}

#[test]
fn rejected_fields_are_given_up_before_the_run() {
    let server = Server::start(|asked, stream| {
        if asked.head.starts_with("GET") {
            put(stream, &plain("200 OK", "{\"data\":[{\"id\":\"m\"}]}"));
        } else if asked.body.contains("stream_options") {
            put(
                stream,
                &plain(
                    "400 Bad",
                    "{\"error\":{\"message\":\"Unrecognized request argument: stream_options\"}}",
                ),
            );
        } else if asked.body.contains("ignore_eos") {
            put(
                stream,
                &plain(
                    "422 Bad",
                    "{\"detail\":\"Unexpected fields in the request: {'min_tokens', 'ignore_eos'}\"}",
                ),
            );
        } else {
            put(stream, &whole(1));
        }
        After::Close
    });
    let session = Session::open(&checked(&server.url()), None, None).unwrap();
    let adapted = session.adaptation;
    assert!(!adapted.usage && !adapted.ignore_eos && !adapted.min_tokens);
    assert_eq!(session.negotiated.len(), 3);
}

#[test]
fn unchecked_asks_nothing() {
    let server = pages(&[]);
    let mut spec = checked(&server.url());
    spec.api.readiness.check = false;
    spec.api.model = Some("m".into());
    Session::open(&spec, None, None).unwrap();
    assert!(server.asked.lock().unwrap().is_empty());
    spec.target = "sim://fixed".parse().unwrap();
    assert!(matches!(Session::open(&spec, None, None), Err(SessionError::NoAddress(_))));
    assert_eq!(Session::open(&spec, Some(&server.url()), None).unwrap().target(), server.url());
    spec.api.headers.insert("bad name".into(), "x".into());
    assert!(matches!(
        Session::open(&spec, Some(&server.url()), None),
        Err(SessionError::Header { name, .. }) if name == "bad name"
    ));
}

/// A TLS server for `localhost` that answers every request with one good stream.
fn tls_server() -> std::net::SocketAddr {
    let config = Arc::new(tls_config());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (socket, config) = (socket.unwrap(), config.clone());
            socket.set_nodelay(true).unwrap();
            std::thread::spawn(move || {
                let session = rustls::ServerConnection::new(config).unwrap();
                let mut stream = rustls::StreamOwned::new(session, socket);
                while read_request(&mut stream).is_some() {
                    put(&mut stream, STREAM_HEAD);
                    sleep_ms(15);
                    put(&mut stream, &chunk(&token("a")));
                    sleep_ms(15);
                    put(&mut stream, &(chunk(&token("b")) + &chunk(&finish(2)) + "0\r\n\r\n"));
                }
            });
        }
    });
    address
}

#[test]
fn tls_is_timed_apart_and_stamped_below() {
    let address = tls_server();
    let mut spec = spec(&format!("https://localhost:{}", address.port()), closed(1), Extent::Requests(2));
    // The root is unknown.
    let ran = run(&spec);
    assert!(
        matches!(&ran.rows[0].state, State::Failed { class: FailureClass::Tls, .. }),
        "{:?}",
        ran.rows[0].state
    );
    spec.api.tls.cacert = Some(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls-root.pem").into());
    let ran = run(&spec);
    for row in &ran.rows {
        assert!(row.state.is_ok(), "{:?}", row.state);
        assert_eq!(row.chunks.len(), 2);
        let gap = row.chunks.get(1).unwrap().arrival.since(row.chunks.first().unwrap().arrival).unwrap();
        assert!(gap >= ms(14), "{gap:?}");
        assert!(row.chunks.iter().all(|c| c.kernel == cfg!(target_os = "linux")));
    }
    let first = ran.rows[0].connection.unwrap();
    assert!(first.tls.is_some() && first.connect.is_some());
    let second = ran.rows[1].connection.unwrap();
    assert!(second.reused && second.tls.is_none(), "session tickets in an idle connection are no fault");
    spec.api.tls = spec::Tls { insecure: true, cacert: None };
    assert!(run(&spec).rows.iter().all(|r| r.state.is_ok()));
}

/// A run against metrics that can be read gives samples of them.
#[test]
fn metrics_are_scraped() {
    let server = Server::start(|asked, stream| {
        let path = asked.head.split(' ').nth(1).unwrap_or_default();
        match path {
            "/v1/models" => put(stream, &plain("200 OK", "{\"data\":[{\"id\":\"m\"}]}")),
            "/metrics" => {
                put(stream, &plain("200 OK", "vllm:num_requests_running 1\nvllm:generation_tokens_total 7\n"))
            }
            "/version" => put(stream, &plain("404 No", "")),
            _ => {
                sleep_ms(100);
                put(stream, &whole(1));
            }
        }
        After::Keep
    });
    let mut spec = checked(&server.url());
    spec.load = closed(2);
    spec.phases.measure = Extent::Duration(Span(ms(250)));
    let ran = run(&spec);
    let samples: Vec<_> = ran
        .samples
        .iter()
        .filter_map(|e| match e {
            record::Entry::Server(sample) => Some(*sample),
            _ => None,
        })
        .collect();
    assert!(!samples.is_empty());
    assert_eq!((samples[0].running, samples[0].generated_tokens), (Some(1.0), Some(7.0)));
}
