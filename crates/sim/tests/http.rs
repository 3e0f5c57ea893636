//! The HTTP front, spoken to over plain TCP by a client of this test's own making.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sim::{Running, SimConfig, TruthRow, spawn};

/// A truth log that the test reads.
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
        let bytes = self.0.lock().unwrap();
        bytes
            .split(|b| *b == b'\n')
            .filter(|l| !l.is_empty())
            .map(|l| serde_json::from_slice(l).unwrap())
            .collect()
    }
}

fn start(target: &str) -> (Running, Sink) {
    let config = match target.parse() {
        Ok(spec::Target::Sim(sim)) => SimConfig::from_target(&sim).unwrap_or_else(|e| panic!("{e}")),
        other => panic!("{target}: {other:?}"),
    };
    let sink = Sink::default();
    (spawn(config, Some(Box::new(sink.clone()))).unwrap(), sink)
}

/// What came back: head, body without chunked framing, and how the connection ended.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
    /// Framing complete.
    complete: bool,
    /// An error of the socket (a reset).
    error: Option<std::io::ErrorKind>,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }
    /// Data of all events.
    fn events(&self) -> Vec<String> {
        self.body.split("\n\n").filter_map(|e| e.strip_prefix("data: ")).map(str::to_owned).collect()
    }
    fn chunks(&self) -> Vec<Value> {
        self.events().iter().filter(|e| *e != "[DONE]").filter_map(|e| serde_json::from_str(e).ok()).collect()
    }
    fn text(&self) -> String {
        self.chunks()
            .iter()
            .filter_map(|c| {
                c.pointer("/choices/0/delta/content")
                    .or(c.pointer("/choices/0/text"))?
                    .as_str()
                    .map(str::to_owned)
            })
            .collect()
    }
    fn finish(&self) -> Option<String> {
        self.chunks().iter().find_map(|c| c.pointer("/choices/0/finish_reason")?.as_str().map(str::to_owned))
    }
    fn usage(&self) -> Option<Value> {
        self.chunks().iter().rev().find_map(|c| c.get("usage").cloned())
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Client(BufReader::new(stream))
    }
    fn send(&mut self, method: &str, path: &str, body: &str) {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nX-Request-Id: t-1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
    }
    fn receive(&mut self) -> Reply {
        let mut reply =
            Reply { status: 0, head: String::new(), body: String::new(), complete: false, error: None };
        match self.read(&mut reply) {
            Ok(complete) => reply.complete = complete,
            Err(e) => reply.error = Some(e.kind()),
        }
        reply
    }
    fn read(&mut self, reply: &mut Reply) -> std::io::Result<bool> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line)? == 0 {
                return Ok(false);
            }
            if line == "\r\n" {
                break;
            }
            reply.head.push_str(&line);
        }
        reply.status = reply.head[9..12].parse().unwrap();
        let head = reply.head.to_ascii_lowercase();
        if head.contains("transfer-encoding: chunked") {
            loop {
                let mut line = String::new();
                if self.0.read_line(&mut line)? == 0 {
                    return Ok(false);
                }
                let size = usize::from_str_radix(line.trim(), 16).unwrap();
                let mut chunk = vec![0; size + 2];
                self.0.read_exact(&mut chunk)?;
                reply.body.push_str(std::str::from_utf8(&chunk[..size]).unwrap());
                if size == 0 {
                    return Ok(true);
                }
            }
        }
        let length =
            head.lines().find_map(|l| l.strip_prefix("content-length: ")).map(|n| n.parse().unwrap());
        let mut body = Vec::new();
        let n = self.0.by_ref().take(length.unwrap_or(u64::MAX)).read_to_end(&mut body)?;
        reply.body = String::from_utf8(body).unwrap();
        Ok(length.is_none_or(|l| n as u64 == l))
    }
}

fn once(server: &Running, method: &str, path: &str, body: &str) -> Reply {
    let mut client = Client::new(server.address());
    client.send(method, path, body);
    client.receive()
}

fn chat(extra: Value) -> String {
    let mut body = json!({
        "messages": [{"role": "user", "content": "Say something about the weather, please."}],
        "stream": true, "max_tokens": 6, "ignore_eos": true, "stream_options": {"include_usage": true}
    });
    for (key, value) in extra.as_object().unwrap() {
        body[key] = value.clone();
    }
    body.to_string()
}

const QUICK: &str = "sim://fixed?ttft=2ms&tpot=1ms";
const CHAT: &str = "/v1/chat/completions";

fn quick(fault: &str) -> (Running, Sink) {
    start(&format!("{QUICK}&fault={fault}"))
}

#[test]
fn a_chat_stream_looks_like_vllms() {
    let (server, sink) = start(QUICK);
    let reply = once(&server, "POST", CHAT, &chat(json!({})));
    assert!(reply.complete && reply.status == 200, "{reply:?}");
    assert!(reply.head.to_ascii_lowercase().contains("x-request-id: t-1"));
    let events = reply.events();
    assert_eq!(events.len(), 1 + 6 + 1 + 1, "role, tokens, usage, [DONE]: {events:?}");
    assert_eq!(events.last().map(String::as_str), Some("[DONE]"));
    let chunks = reply.chunks();
    assert_eq!(chunks[0].pointer("/choices/0/delta/role"), Some(&json!("assistant")));
    assert_eq!(chunks[6].pointer("/choices/0/finish_reason"), Some(&json!("length")));
    assert_eq!(chunks[7]["choices"], json!([]));
    // 8 words and 2 punctuation marks less shared ones: what matters is that template and usage agree.
    let usage = reply.usage().unwrap();
    assert_eq!(usage["completion_tokens"], json!(6));
    assert_eq!(usage["total_tokens"], json!(usage["prompt_tokens"].as_u64().unwrap() + 6));
    assert_eq!(reply.text().split(' ').filter(|w| !w.is_empty()).count(), 6);
    server.stop().unwrap();
    let row = &sink.rows()[0];
    assert_eq!((row.request_id.as_str(), row.number, row.status, row.output_tokens), ("t-1", 1, 200, 6));
    assert_eq!(row.finish.as_deref(), Some("length"));
    assert_eq!(row.writes.iter().map(|w| w.1).sum::<u32>(), 6);
    assert_eq!(row.writes.len(), row.due_ns.len());
    assert!(row.writes.is_sorted_by_key(|w| w.0));
    assert!(row.received_ns <= row.submitted_ns && row.submitted_ns <= row.first_write_ns);
    // The engine's clock is exact: first token 2 ms after reception, then every 1 ms; and no write
    // comes before it is due.
    let due: Vec<u64> =
        row.writes.iter().zip(&row.due_ns).filter(|(w, _)| w.1 > 0).map(|(_, d)| *d).collect();
    for (i, due) in due.iter().enumerate() {
        let expected = row.received_ns + 2_000_000 + i as u64 * 1_000_000;
        assert!(due.abs_diff(expected) <= 2, "{i}: {due} {expected}");
    }
    assert!(row.writes.iter().zip(&row.due_ns).all(|(w, d)| w.0 >= *d));
}

#[test]
fn completions_and_whole_answers() {
    let (server, _) = start(QUICK);
    let body = json!({"prompt": "Hello there", "max_tokens": 3, "ignore_eos": true, "stream": true});
    let reply = once(&server, "POST", "/v1/completions", &body.to_string());
    assert_eq!(reply.events().len(), 4, "three tokens and [DONE], no usage: {reply:?}");
    assert_eq!(reply.finish().as_deref(), Some("length"));
    let body = json!({"prompt": (0..100).collect::<Vec<u32>>(), "max_tokens": 3, "min_tokens": 3});
    let reply = once(&server, "POST", "/v1/completions", &body.to_string());
    assert_eq!(reply.json()["usage"]["prompt_tokens"], json!(100));
    assert_eq!(reply.json()["usage"]["completion_tokens"], json!(3));
    let reply = once(&server, "POST", CHAT, &chat(json!({"stream": false})));
    assert_eq!(reply.json()["object"], json!("chat.completion"));
    let text = reply.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    assert_eq!(text.split_whitespace().count(), 6);
    // Without ignore_eos the model ends by itself, at the same place for the same number and seed.
    let lengths = |server: &Running| -> Vec<u64> {
        let body = chat(json!({"stream": false, "ignore_eos": false, "max_tokens": 4000}));
        let mut client = Client::new(server.address());
        (0..8)
            .map(|_| {
                client.send("POST", CHAT, &body);
                let reply = client.receive().json();
                assert_eq!(reply["choices"][0]["finish_reason"], json!("stop"));
                reply["usage"]["completion_tokens"].as_u64().unwrap()
            })
            .collect()
    };
    let (a, _) = start("sim://fixed?ttft=0ms&tpot=1us&natural=20");
    let (b, _) = start("sim://fixed?ttft=0ms&tpot=1us&natural=20");
    let (first, second) = (lengths(&a), lengths(&b));
    assert_eq!(first, second);
    assert!(first.iter().any(|n| *n != first[0]), "{first:?}");
}

#[test]
fn one_connection_serves_many_requests_and_pipelined_ones() {
    let (server, sink) = start(QUICK);
    let mut client = Client::new(server.address());
    for _ in 0..3 {
        client.send("POST", CHAT, &chat(json!({})));
        assert!(client.receive().complete);
    }
    for _ in 0..2_000 {
        client.send("GET", "/health", "");
    }
    for _ in 0..2_000 {
        assert_eq!(client.receive().status, 200);
    }
    server.stop().unwrap();
    let rows = sink.rows();
    assert_eq!(rows.iter().map(|r| (r.number, r.connection)).collect::<Vec<_>>(), [(1, 1), (2, 1), (3, 1)]);
}

#[test]
fn other_endpoints_answer() {
    let (server, _) = start("sim://llama-3.1-8b@h100?context=4096");
    let models = once(&server, "GET", "/v1/models", "").json();
    assert_eq!(models["data"][0]["id"], json!("llama-3.1-8b"));
    assert_eq!(models["data"][0]["max_model_len"], json!(4096));
    assert_eq!(once(&server, "GET", "/health", "").status, 200);
    assert!(once(&server, "GET", "/version", "").json()["version"].is_string());
    let tokens = once(&server, "POST", "/tokenize", &json!({"prompt": "Hello world"}).to_string()).json();
    // Llama 3: <|begin_of_text|> and two tokens.
    assert_eq!(tokens["count"], json!(3));
    assert_eq!(once(&server, "GET", "/nope", "").status, 404);
    assert_eq!(once(&server, "DELETE", "/health", "").status, 405);
}

#[test]
fn wrong_requests_are_refused_as_vllm_does() {
    let (server, _) = start("sim://llama-3.1-8b@h100?context=100");
    for (body, status, needle) in [
        (chat(json!({"model": "gpt-9"})), 404, "does not exist"),
        ("{".to_owned(), 400, "JSON"),
        (json!({"model": "llama-3.1-8b"}).to_string(), 400, "messages"),
        (chat(json!({"max_tokens": 0})), 400, "at least 1"),
        (chat(json!({"max_tokens": "many"})), 400, "at least 1"),
        (chat(json!({"max_tokens": 95})), 400, "maximum context length is 100"),
        (chat(json!({"min_tokens": 7})), 400, "at most max_tokens=6"),
        (chat(json!({"n": 2})), 400, "one choice"),
        (
            chat(json!({"messages": [{"role": "user", "content": "word ".repeat(200)}]})),
            400,
            "maximum context",
        ),
    ] {
        let reply = once(&server, "POST", CHAT, &body);
        let json = reply.json();
        assert_eq!(reply.status, status, "{body}: {json}");
        assert!(json["error"]["message"].as_str().unwrap().contains(needle), "{json}");
        assert_eq!(json["error"]["code"], json!(status));
    }
    let mut client = Client::new(server.address());
    client.0.get_mut().write_all(b"this is not HTTP\r\n\r\n").unwrap();
    assert_eq!(client.receive().status, 400);
}

#[test]
fn streams_take_every_shape() {
    let (server, _) = start(&format!("{QUICK}&tokens_per_chunk=4"));
    let reply = once(&server, "POST", CHAT, &chat(json!({})));
    assert_eq!(reply.events().len(), 1 + 2 + 1 + 1, "6 tokens in chunks of 4 and 2: {reply:?}");
    let (server, _) = start(&format!("{QUICK}&reasoning=4&tokens_per_chunk=3"));
    let reply = once(&server, "POST", CHAT, &chat(json!({})));
    let kinds: Vec<(bool, usize)> = reply.chunks()[1..4]
        .iter()
        .map(|c| {
            let delta = &c["choices"][0]["delta"];
            let text = delta.get("reasoning").or(delta.get("content")).unwrap().as_str().unwrap();
            (delta.get("reasoning").is_some(), text.split_whitespace().count())
        })
        .collect();
    assert_eq!(kinds, [(true, 3), (true, 1), (false, 2)], "a chunk is of one kind");
    let (server, sink) = start(&format!("{QUICK}&buffered=on"));
    assert_eq!(once(&server, "POST", CHAT, &chat(json!({}))).events().len(), 9);
    server.stop().unwrap();
    assert_eq!(sink.rows()[0].writes.iter().map(|w| w.1).collect::<Vec<_>>(), [6], "one write");
    let (server, _) = start(&format!("{QUICK}&usage=never&done=off&role=none&finish=separate"));
    let reply = once(&server, "POST", CHAT, &chat(json!({})));
    assert_eq!((reply.events().len(), reply.usage()), (7, None), "six tokens and a finish event");
    assert_eq!(reply.finish().as_deref(), Some("length"));
    let (server, _) = start(&format!("{QUICK}&usage=always&role=separate"));
    let reply = once(&server, "POST", CHAT, &chat(json!({"stream_options": null})));
    assert!(reply.usage().is_some());
    let (server, _) = start(&format!("{QUICK}&usage=continuous"));
    let reply = once(&server, "POST", CHAT, &chat(json!({})));
    let counts: Vec<u64> =
        reply.chunks().iter().map(|c| c["usage"]["completion_tokens"].as_u64().unwrap()).collect();
    assert_eq!(counts, [0, 1, 2, 3, 4, 5, 6, 6]);
}

#[test]
fn each_fault_is_what_it_says() {
    let run = |fault: &str, extra: Value| {
        let (server, sink) = quick(fault);
        let reply = once(&server, "POST", CHAT, &chat(extra));
        server.stop().unwrap();
        let rows = sink.rows();
        assert_eq!(rows.len(), 1, "{fault}");
        (reply, rows[0].clone())
    };
    for code in [400, 429, 500, 503] {
        let (reply, row) = run(&format!("status={code}:after=5ms"), json!({}));
        assert_eq!((reply.status, row.status), (code, code));
        assert!(row.writes[0].0 >= row.received_ns + 5_000_000);
        assert_eq!(row.fault.as_deref(), Some("status"));
    }
    let (reply, row) = run("error-in-stream=3", json!({}));
    let events = reply.events();
    assert_eq!(events.len(), 1 + 3 + 1 + 1, "{events:?}");
    assert!(events[4].contains("\"error\"") && events[5] == "[DONE]" && reply.complete);
    assert_eq!((row.output_tokens, row.finish), (3, None));
    let (reply, row) = run("truncate=2", json!({}));
    assert_eq!((reply.complete, reply.error, reply.events().len()), (false, None, 3));
    assert_eq!(row.output_tokens, 2);
    let (reply, _) = run("truncate=100", json!({}));
    assert_eq!((reply.complete, reply.events().len(), reply.finish()), (false, 7, None));
    let (reply, row) = run("stall=2:for=50ms", json!({}));
    assert!(reply.complete && reply.events().len() == 9, "{reply:?}");
    let token: Vec<u64> = row.writes.iter().filter(|w| w.1 > 0).map(|w| w.0).collect();
    assert!(token[2] - token[1] >= 50_000_000, "{row:?}");
    let (reply, row) = run("empty", json!({}));
    assert_eq!((reply.text().as_str(), reply.finish().as_deref()), ("", Some("stop")));
    assert_eq!(reply.usage().unwrap()["completion_tokens"], json!(0));
    assert_eq!((row.output_tokens, reply.complete), (0, true));
    let (reply, _) = run("early-stop=0.5", json!({}));
    assert_eq!(reply.usage().unwrap()["completion_tokens"], json!(3));
    assert_eq!(reply.finish().as_deref(), Some("stop"));
    for k in [0, 2] {
        let (reply, row) = run(&format!("reset={k}"), json!({}));
        assert_eq!(reply.error, Some(std::io::ErrorKind::ConnectionReset), "{k}: {reply:?}");
        assert_eq!(row.writes.is_empty(), k == 0);
    }
    let (reply, row) = run("slow-accept=40ms", json!({}));
    assert!(reply.complete && row.status == 200);
    assert_eq!(row.fault.as_deref(), Some("slow-accept"));
    let (reply, _) = run("malformed=2", json!({}));
    let broken =
        reply.events().iter().filter(|e| *e != "[DONE]" && serde_json::from_str::<Value>(e).is_err()).count();
    assert_eq!((broken, reply.complete, reply.usage().is_some()), (1, true, true));
    let (reply, _) = run("echo", json!({}));
    assert!(reply.text().starts_with("Say something about the weather, please. "), "{}", reply.text());
    let (reply, _) = run("cumulative", json!({}));
    let lengths: Vec<usize> = reply
        .chunks()
        .iter()
        .filter_map(|c| c.pointer("/choices/0/delta/content")?.as_str().map(|s| s.split_whitespace().count()))
        .collect();
    assert_eq!(lengths, [0, 1, 2, 3, 4, 5, 6]);
    let (reply, _) = run("html", json!({}));
    assert!(reply.status == 200 && reply.head.contains("text/html") && reply.body.contains("<html>"));
    let (reply, _) = run("reject-stream-options", json!({}));
    assert!(reply.status == 400 && reply.body.contains("stream_options"));
    let (reply, _) = run("reject-stream-options", json!({"stream_options": null}));
    assert_eq!(reply.status, 200);
    let (reply, _) = run("reject-ignore-eos", json!({}));
    assert!(reply.status == 400 && reply.body.contains("ignore_eos"));
    let most = json!({"max_tokens": null, "max_completion_tokens": 4, "ignore_eos": false});
    let (server, _) = start(&format!("{QUICK}&tpot=1us&fault=ignore-max-completion-tokens"));
    let reply = once(&server, "POST", CHAT, &chat(most.clone()));
    assert!(reply.usage().unwrap()["completion_tokens"].as_u64().unwrap() > 4);
    let (server, _) = start(QUICK);
    let reply = once(&server, "POST", CHAT, &chat(most));
    assert_eq!(reply.usage().unwrap()["completion_tokens"], json!(4));
}

#[test]
fn a_server_can_overlook_and_hang_up() {
    // `ignore_eos` overlooked: a natural end, unless `min_tokens` forbids it.
    let (server, _) = start("sim://fixed?ttft=1ms&tpot=1us&natural=5&fault=ignore-ignore-eos");
    let tokens = |extra: Value| {
        once(&server, "POST", CHAT, &chat(extra)).usage().unwrap()["completion_tokens"].clone()
    };
    assert!(tokens(json!({"max_tokens": 3000})).as_u64().unwrap() < 100);
    assert_eq!(tokens(json!({"max_tokens": 300, "min_tokens": 300})), json!(300));
    let (server, sink) = quick("hang-up:seq=1");
    let mut client = Client::new(server.address());
    client.send("POST", CHAT, &chat(json!({})));
    let reply = client.receive();
    assert!(reply.complete && reply.head.contains("connection: keep-alive"));
    let mut rest = Vec::new();
    assert_eq!(client.0.read_to_end(&mut rest).unwrap(), 0, "the connection is over");
    server.stop().unwrap();
    assert_eq!(sink.rows()[0].fault.as_deref(), Some("hang-up"));
}

#[test]
fn a_slow_reader_gets_everything() {
    // About 25 MB, more than sockets hold: writes are partial and wait for the client.
    let (server, sink) = start("sim://fixed?ttft=1ms&tpot=1us&count=bytes&fault=cumulative");
    let mut client = Client::new(server.address());
    client.send("POST", CHAT, &chat(json!({"max_tokens": 3000})));
    let mut polls = 0;
    while !once(&server, "GET", "/metrics", "")
        .body
        .contains("generation_tokens_total{engine=\"0\",model_name=\"fixed\"} 3000.0")
    {
        polls += 1;
        assert!(polls < 1_000, "the engine never finished");
        std::thread::sleep(Duration::from_millis(2));
    }
    let reply = client.receive();
    assert!(reply.complete);
    let chunks = reply.chunks();
    let last =
        chunks.iter().filter_map(|c| c.pointer("/choices/0/delta/content")?.as_str()).next_back().unwrap();
    assert_eq!(last.split_whitespace().count(), 3000);
    server.stop().unwrap();
    let row = &sink.rows()[0];
    assert_eq!(row.writes.iter().map(|w| w.1).sum::<u32>(), 3000);
    assert!(row.writes.is_sorted_by_key(|w| w.0));
}

#[test]
fn faults_strike_whole_answers_too() {
    let whole = json!({"stream": false});
    let run = |fault: &str| {
        let (server, _) = quick(fault);
        once(&server, "POST", CHAT, &chat(whole.clone()))
    };
    assert_eq!(run("error-in-stream=1").status, 500);
    let cut = run("truncate=1");
    assert!(!cut.complete && cut.status == 200, "{cut:?}");
    assert!(serde_json::from_str::<Value>(&run("malformed").body).is_err());
    assert_eq!(run("empty").json()["choices"][0]["message"]["content"], json!(""));
    assert_eq!(run("reset=1").error, Some(std::io::ErrorKind::ConnectionReset));
    assert!(run("stall:for=20ms").complete);
}

#[test]
fn faults_strike_by_number() {
    let (server, sink) = quick("status=503:every=3,empty:seq=2");
    let mut client = Client::new(server.address());
    let statuses: Vec<u16> = (0..6)
        .map(|_| {
            client.send("POST", CHAT, &chat(json!({})));
            client.receive().status
        })
        .collect();
    assert_eq!(statuses, [200, 200, 503, 200, 200, 503]);
    server.stop().unwrap();
    let faults: Vec<Option<String>> = sink.rows().into_iter().map(|r| r.fault).collect();
    let some = |s: &str| Some(s.to_owned());
    assert_eq!(faults, [None, some("empty"), some("status"), None, None, some("status")]);
}

#[test]
fn a_full_queue_is_a_503_and_not_a_broken_stream() {
    let (server, _) = start("sim://fifo?service=2s&queue=0");
    let mut busy = Client::new(server.address());
    busy.send("POST", CHAT, &chat(json!({})));
    let mut polls = 0;
    while !once(&server, "GET", "/metrics", "")
        .body
        .contains("num_requests_running{engine=\"0\",model_name=\"fifo\"} 1.0")
    {
        polls += 1;
        std::thread::sleep(Duration::from_millis(2));
        assert!(polls < 1_000, "the first request never started");
    }
    let reply = once(&server, "POST", CHAT, &chat(json!({})));
    assert_eq!(reply.status, 503, "{reply:?}");
    assert!(reply.head.contains("retry-after: 1"));
    assert!(busy.receive().complete);
}

#[test]
fn a_client_that_goes_away_frees_the_engine() {
    let (server, sink) = start("sim://llama-3.1-8b@h100");
    let mut client = Client::new(server.address());
    client.send("POST", CHAT, &chat(json!({"max_tokens": 100_000})));
    let mut line = String::new();
    while !line.contains("content") {
        line.clear();
        client.0.read_line(&mut line).unwrap();
    }
    let page = once(&server, "GET", "/metrics", "").body;
    assert!(
        page.contains("vllm:num_requests_running{engine=\"0\",model_name=\"llama-3.1-8b\"} 1.0"),
        "{page}"
    );
    drop(client);
    for _ in 0..200 {
        let page = once(&server, "GET", "/metrics", "").body;
        if page.contains("vllm:num_requests_running{engine=\"0\",model_name=\"llama-3.1-8b\"} 0.0") {
            assert!(page.contains("finished_reason=\"abort\"} 1.0"), "{page}");
            server.stop().unwrap();
            assert!(sink.rows()[0].disconnected);
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the job was never cancelled");
}

#[test]
fn the_metrics_page_parses_and_adds_up() {
    let (server, _) = start("sim://llama-3.1-8b@h100?time_scale=100");
    let mut client = Client::new(server.address());
    for _ in 0..3 {
        client.send(
            "POST",
            CHAT,
            &chat(json!({"messages": [{"role": "user", "content": "word ".repeat(200)}]})),
        );
        assert!(client.receive().complete);
    }
    let page = once(&server, "GET", "/metrics", "").body;
    let mut values = std::collections::HashMap::new();
    for line in page.lines().filter(|l| !l.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap();
        assert!(name.starts_with("vllm:") && labels.ends_with('}'), "{line}");
        values.insert(series.to_owned(), value.parse::<f64>().unwrap());
    }
    let get = |name: &str| {
        *values
            .get(&format!("vllm:{name}{{engine=\"0\",model_name=\"llama-3.1-8b\"}}"))
            .unwrap_or_else(|| panic!("{name}"))
    };
    assert_eq!(get("generation_tokens_total") as u64, 18);
    // 200 words of one token, 10 of the template, one blank at the end.
    let prompt = get("prompt_tokens_total") as u64 / 3;
    assert!((210..=212).contains(&prompt), "{prompt}");
    assert_eq!(get("prefix_cache_queries_total") as u64, 3 * prompt);
    assert_eq!(get("prefix_cache_hits_total") as u64, 2 * (prompt - 1) / 16 / 2 * 16 * 2);
    assert_eq!(get("time_to_first_token_seconds_count") as u64, 3);
    assert_eq!(get("inter_token_latency_seconds_count") as u64, 15);
    assert_eq!(get("num_requests_waiting") as u64 + get("num_preemptions_total") as u64, 0);
    let length =
        "vllm:request_success_total{engine=\"0\",model_name=\"llama-3.1-8b\",finished_reason=\"length\"}";
    assert_eq!(values[length] as u64, 3);
}

#[test]
fn many_streams_at_once_lose_nothing() {
    let (server, sink) = start("sim://llama-3.1-8b@h100?time_scale=20");
    let address = server.address();
    let threads: Vec<_> = (0..40)
        .map(|_| {
            std::thread::spawn(move || {
                let mut client = Client::new(address);
                (0..3).all(|_| {
                    client.send("POST", CHAT, &chat(json!({"max_tokens": 50})));
                    let reply = client.receive();
                    reply.complete && reply.text().split_whitespace().count() == 50
                })
            })
        })
        .collect();
    assert!(threads.into_iter().all(|t| t.join().unwrap()));
    let served = server.stop().unwrap();
    assert_eq!((served.connections, served.requests), (40, 120));
    let rows = sink.rows();
    assert_eq!(rows.len(), 120);
    assert!(rows.iter().all(|r| r.writes.iter().map(|w| w.1).sum::<u32>() == 50 && r.status == 200));
}

/// Not a test of the code but of the machine: prints how late writes are. Run it on a quiet box with
/// `cargo nextest run -p sim --run-ignored only --no-capture`.
#[test]
#[ignore = "measures the machine"]
fn write_lateness() {
    for (streams, tpot) in [(1, "10ms"), (10, "10ms"), (64, "20ms")] {
        let (server, sink) = start(&format!("sim://fixed?ttft=50ms&tpot={tpot}"));
        once(&server, "POST", CHAT, &chat(json!({"stream": false})));
        let address = server.address();
        let threads: Vec<_> = (0..streams)
            .map(|_| {
                std::thread::spawn(move || {
                    let mut client = Client::new(address);
                    client.send("POST", CHAT, &chat(json!({"max_tokens": 200})));
                    assert!(client.receive().complete);
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        server.stop().unwrap();
        let rows = sink.rows();
        let mut late: Vec<u64> = rows
            .iter()
            .skip(1)
            .flat_map(|r| r.writes.iter().zip(&r.due_ns).filter(|(w, _)| w.1 > 0).map(|(w, d)| w.0 - d))
            .collect();
        let mut look: Vec<u64> = rows.iter().map(|r| r.submitted_ns - r.received_ns).collect();
        late.sort_unstable();
        look.sort_unstable();
        let p = |v: &[u64], q: f64| v[((v.len() - 1) as f64 * q) as usize] as f64 / 1e3;
        println!(
            "{streams} streams: late us p50 {:.1} p99 {:.1} max {:.1}; look us p50 {:.1} max {:.1}",
            p(&late, 0.5),
            p(&late, 0.99),
            p(&late, 1.0),
            p(&look, 0.5),
            p(&look, 1.0)
        );
    }
}
