//! Clients that do not behave as most do, and many of them at once.
#![allow(clippy::unwrap_used)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sim::{Running, SimConfig, TruthRow, spawn};

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);
impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
impl Sink {
    fn rows(&self) -> Vec<TruthRow> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }
}

fn start(target: &str) -> (Running, Sink) {
    let config = match target.parse() {
        Ok(spec::Target::Sim(sim)) => SimConfig::from_target(&sim).unwrap(),
        other => panic!("{target}: {other:?}"),
    };
    let sink = Sink::default();
    (spawn(config, Some(Box::new(sink.clone()))).unwrap(), sink)
}

fn connect(server: &Running) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

fn chat(tokens: u32, stream: bool) -> String {
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"Hello"}}],"stream":{stream},"max_tokens":{tokens},"ignore_eos":true}}"#
    );
    format!("POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Everything until the end of the connection.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    stream
        .read_to_end(&mut bytes)
        .unwrap_or_else(|e| panic!("{e} after {}", String::from_utf8_lossy(&bytes)));
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_client_that_has_said_everything_still_gets_its_answer() {
    for (stream, options) in [(true, ""), (true, "&headers=first"), (true, "&buffered=on"), (false, "")] {
        let (server, sink) = start(&format!("sim://fixed?ttft=30ms&tpot=2ms&count=bytes{options}"));
        let mut client = connect(&server);
        client.write_all(chat(5, stream).as_bytes()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let answer = rest(&mut client);
        assert!(answer.contains("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert_eq!(answer.contains("data: [DONE]\n\n"), stream, "{answer}");
        assert!(answer.contains(r#""finish_reason":"length""#), "{answer}");
        server.stop().unwrap();
        let row = &sink.rows()[0];
        assert!(!row.disconnected && row.finish.as_deref() == Some("length"), "{row:?}");
    }
}

#[test]
fn requests_that_were_sent_before_the_end_are_all_answered() {
    let (server, sink) = start("sim://fixed?ttft=2ms&tpot=1ms&count=bytes");
    let mut client = connect(&server);
    client.write_all((chat(2, true) + &chat(2, false) + "GET /health HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let answer = rest(&mut client);
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 3, "{answer}");
    server.stop().unwrap();
    let rows = sink.rows();
    assert_eq!(rows.len(), 2);
    // The second one's turn came when the first one was answered.
    assert!(!rows[1].kernel && rows[1].received_ns >= rows[0].ended_ns, "{rows:?}");
}

#[test]
fn a_client_that_is_gone_is_told_from_one_that_only_listens() {
    // Without a token to write for an hour, nothing but the probe can find out.
    for (options, stream) in [("", true), ("&headers=first", true), ("", false)] {
        let (server, sink) = start(&format!("sim://fixed?ttft=1h&count=bytes{options}"));
        let mut client = connect(&server);
        client.write_all(chat(5, stream).as_bytes()).unwrap();
        if stream && options.is_empty() {
            let mut head = [0; 15];
            client.read_exact(&mut head).unwrap();
            assert_eq!(&head, b"HTTP/1.1 200 OK");
            // Nothing unread: the end of the connection is an orderly one.
            client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let mut more = [0; 4096];
            while client.read(&mut more).is_ok() {}
        } else {
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(client);
        let mut waits = 0;
        while sink.rows().is_empty() {
            waits += 1;
            assert!(waits < 500, "nobody noticed: {options} {stream}");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(sink.rows()[0].disconnected);
        server.stop().unwrap();
    }
}

#[test]
fn a_body_that_is_too_large_is_refused_and_the_client_can_read_why() {
    let (server, _) = start("sim://fixed?count=bytes");
    let chunked = "Transfer-Encoding: chunked\r\n\r\n40000000\r\n";
    for head in ["Content-Length: 300000000\r\n\r\n", chunked] {
        let mut client = connect(&server);
        client.write_all(format!("POST /v1/chat/completions HTTP/1.1\r\n{head}").as_bytes()).unwrap();
        // The client goes on regardless, for longer than the socket's buffers last.
        for _ in 0..512 {
            match client.write_all(&[b'x'; 16 * 1024]) {
                Ok(()) => {}
                Err(e) => panic!("cut off: {e}"),
            }
        }
        client.shutdown(Shutdown::Write).unwrap();
        let answer = rest(&mut client);
        assert!(answer.starts_with("HTTP/1.1 413 Content Too Large\r\n"), "{answer}");
    }
    let mut client = connect(&server);
    client.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
    let field = format!("X-Padding: {}\r\n", "y".repeat(8_000));
    while client.write_all(field.as_bytes()).is_ok() {
        let mut first = [0; 12];
        client.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        match client.read(&mut first) {
            Ok(n) => {
                assert_eq!(&first[..n], b"HTTP/1.1 431");
                return;
            }
            Err(e) => assert!(matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{e}"),
        }
    }
    panic!("an endless head was not refused in a readable way");
}

#[test]
fn a_thousand_streams_at_once() {
    const STREAMS: usize = 1_000;
    let (server, sink) = start("sim://fixed?ttft=1s&tpot=20ms&count=bytes");
    let mut clients: Vec<TcpStream> = (0..STREAMS).map(|_| connect(&server)).collect();
    for client in &mut clients {
        client.write_all(chat(5, true).as_bytes()).unwrap();
    }
    for client in &mut clients {
        client.shutdown(Shutdown::Write).unwrap();
        let answer = rest(client);
        assert!(answer.contains(r#""finish_reason":"length""#) && answer.contains("[DONE]"), "{answer}");
    }
    drop(clients);
    let served = server.stop().unwrap();
    assert_eq!((served.connections, served.requests), (STREAMS as u64, STREAMS as u64));
    let rows = sink.rows();
    assert_eq!(rows.len(), STREAMS);
    for row in rows {
        assert_eq!((row.status, row.output_tokens, row.disconnected), (200, 5, false));
        assert!(row.writes.iter().zip(&row.due_ns).all(|((at, _), due)| at >= due), "{row:?}");
    }
}
