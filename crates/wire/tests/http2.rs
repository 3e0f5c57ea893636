//! HTTP/2: by prior knowledge and over TLS, stamped as HTTP/1.1 is; servers that do not speak it.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod rig;

use std::sync::atomic::Ordering::SeqCst;

use record::{FailureClass, State};
use rig::*;
use spec::*;

fn over_http2(url: &str, load: Load, requests: u64) -> Spec {
    let mut spec = spec(url, load, Extent::Requests(requests));
    spec.client.http2 = true;
    spec
}

fn is_good(ran: &Ran) {
    for row in &ran.rows {
        assert!(row.state.is_ok(), "{:?}", row.state);
        assert_eq!((row.status, row.chunks.len(), row.output.usage), (Some(200), 2, Some(2)));
        let (a, b) = (row.chunks.first().unwrap(), row.chunks.last().unwrap());
        // The pause of the server is between two reads, each with a stamp of its own.
        assert!(b.read > a.read && b.arrival.since(a.arrival).unwrap() >= ms(15), "{a:?} {b:?}");
        assert!(row.chunks.iter().all(|c| c.kernel == cfg!(target_os = "linux")));
        let (begin, end) = (row.write_begin.unwrap(), row.write_end.unwrap());
        assert!(row.intended <= begin && begin <= end && begin <= a.arrival, "{row:?}");
        assert!(row.closed.unwrap() >= b.arrival);
    }
}

#[test]
fn requests_take_turns_on_their_connections() {
    let (address, seen) = http2::start(None);
    let ran = run(&over_http2(&format!("http://{address}"), closed(3), 12));
    is_good(&ran);
    assert_eq!((ran.rows.len(), seen.requests.load(SeqCst)), (12, 12));
    // One request at a time on a connection, and each is used again.
    assert_eq!((seen.peak.load(SeqCst), seen.connections.load(SeqCst)), (1, 3));
    assert_eq!(ran.rows.iter().filter(|r| r.connection.unwrap().reused).count(), 9);
    assert_eq!(ran.texts[0].as_deref(), Some("ab"));
}

#[test]
fn each_request_on_a_connection_of_its_own() {
    let (address, seen) = http2::start(None);
    let mut spec = over_http2(&format!("http://{address}"), closed(2), 6);
    spec.client.connections = Connections::Fresh;
    is_good(&run(&spec));
    assert_eq!(seen.connections.load(SeqCst), 6);
}

#[test]
fn tls_agrees_by_alpn() {
    let mut config = tls_config();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (address, _) = http2::start(Some(config));
    let mut spec = over_http2(&format!("https://localhost:{}", address.port()), closed(1), 3);
    spec.api.tls.insecure = true;
    let ran = run(&spec);
    is_good(&ran);
    assert!(ran.rows[0].connection.unwrap().tls.is_some());
}

#[test]
fn a_server_that_does_not_agree_is_told_apart() {
    let (address, _) = http2::start(Some(tls_config()));
    let mut spec = over_http2(&format!("https://localhost:{}", address.port()), closed(1), 1);
    spec.api.tls.insecure = true;
    let State::Failed { class: FailureClass::Tls, detail } = &run(&spec).rows[0].state else { panic!() };
    assert!(detail.contains("does not agree to HTTP/2"), "{detail}");
}

/// A server of HTTP/1.1 answers the preface with an error of its own, or hangs up.
#[test]
fn a_server_of_http_1_is_told_apart() {
    let server = Server::start(|_, stream| {
        put(stream, &plain("400 Bad Request", "no"));
        After::Close
    });
    let spec = over_http2(&server.url(), closed(1), 1);
    let State::Failed { class: FailureClass::Connect, detail } = &run(&spec).rows[0].state else { panic!() };
    assert!(detail.contains("does not speak HTTP/2") && detail.contains("--http2"), "{detail}");
    let mut checked = spec;
    checked.api.readiness.check = true;
    let error = wire::Session::open(&checked, None, None).unwrap_err().to_string();
    assert!(error.contains("does not speak HTTP/2"), "{error}");
}

#[test]
fn limits_hold_and_a_page_that_is_not_there_is_a_failure() {
    let (address, _) = http2::start(None);
    let mut spec = over_http2(&format!("http://{address}"), closed(1), 2);
    spec.timeouts.idle = Limit(Some(ms(5)));
    let ran = run(&spec);
    let stalled = State::TimedOut { limit: record::TimeoutKind::Stalled };
    assert!(ran.rows.iter().all(|r| r.state == stalled && r.chunks.len() == 1), "{:?}", ran.rows[0]);
    // What was cut short is not used again.
    assert!(!ran.rows[1].connection.unwrap().reused);
    spec.timeouts = Timeouts::default();
    spec.api.path = Some("/bad".into());
    let ran = run(&spec);
    assert!(
        matches!(&ran.rows[0].state, State::Failed { class: FailureClass::Http4xx, .. }),
        "{:?}",
        ran.rows[0].state
    );
}
