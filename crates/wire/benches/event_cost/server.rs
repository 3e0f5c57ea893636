//! The server, in a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use clock::{Clock, Pacer};
use spec::Nanos;

use crate::rig;

/// How the events of one step are dealt over its time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Evenly: nearly every event wakes the reader by itself.
    Even,
    /// All together, as a batching engine's step gives them: one wake brings many.
    Together,
}

/// Many streams at once.
#[derive(Clone, Copy)]
pub struct Streams {
    pub count: usize,
    pub events: u32,
    pub step: Nanos,
    pub pattern: Pattern,
}

pub struct Server {
    process: Child,
    pub address: SocketAddr,
}

impl Server {
    pub fn of_streams(streams: Streams) -> Server {
        let even = if streams.pattern == Pattern::Even { "even" } else { "together" };
        let numbers =
            [streams.count as u64, u64::from(streams.events), streams.step.0].map(|n| n.to_string());
        Server::start(&["streams", even, &numbers[0], &numbers[1], &numbers[2]])
    }
    pub fn of_answers() -> Server {
        Server::start(&["answers"])
    }
    fn start(args: &[&str]) -> Server {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .arg("serve")
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Server { process, address: line.trim().parse().unwrap() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the other process does.
pub fn serve(args: &[String]) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "{}", listener.local_addr().unwrap()).unwrap();
    out.flush().unwrap();
    match args {
        [kind, pattern, count, events, step] if kind == "streams" => stream(
            &listener,
            Streams {
                count: count.parse().unwrap(),
                events: events.parse().unwrap(),
                step: Nanos(step.parse().unwrap()),
                pattern: if pattern == "even" { Pattern::Even } else { Pattern::Together },
            },
        ),
        _ => answer(&listener),
    }
}

/// Takes so many connections with a request each, streams to them, and begins anew.
fn stream(listener: &TcpListener, shape: Streams) {
    let token = event(" token", "null");
    let last = format!("{}{:x}\r\ndata: [DONE]\n\n\r\n0\r\n\r\n", event("", "\"length\""), 14);
    // Closed a round later: a reader that is not through must not find the end of another stream.
    let mut _over = Vec::new();
    loop {
        let mut streams: Vec<TcpStream> = (0..shape.count).map(|_| listener.accept().unwrap().0).collect();
        for stream in &mut streams {
            stream.set_nodelay(true).unwrap();
            if rig::read_request(stream).is_none() {
                return;
            }
            stream.write_all(rig::STREAM_HEAD.as_bytes()).unwrap();
        }
        let clock = Clock::start();
        let pacer = Pacer::new(clock);
        for number in 1..=u64::from(shape.events) {
            for (place, stream) in (0_u64..).zip(&mut streams) {
                let even = shape.pattern == Pattern::Even;
                let within = if even { shape.step.0 * place / shape.count as u64 } else { 0 };
                pacer.sleep_until(Nanos(shape.step.0 * number + within));
                stream.write_all(token.as_bytes()).unwrap();
            }
        }
        for stream in &mut streams {
            stream.write_all(last.as_bytes()).unwrap();
        }
        _over = streams;
    }
}

/// One event in vLLM's shape, 268 bytes with its HTTP chunk.
fn event(text: &str, finish: &str) -> String {
    let event = format!(
        "data: {{\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion.chunk\",\
         \"created\":1764489600,\"model\":\"meta-llama/Llama-3.1-8B-Instruct\",\"choices\":[{{\"index\":0,\
         \"delta\":{{\"content\":\"{text}\"}},\"logprobs\":null,\"finish_reason\":{finish},\"token_ids\":null}}]}}\n\n"
    );
    format!("{:x}\r\n{event}\r\n", event.len())
}

/// A whole answer that is no stream.
pub fn whole_answer() -> String {
    let body = "{\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion\",\
                \"created\":1764489600,\"model\":\"meta-llama/Llama-3.1-8B-Instruct\",\"choices\":[{\"index\":0,\
                \"message\":{\"role\":\"assistant\",\"content\":\"one two three four\",\"refusal\":null,\
                \"tool_calls\":[]},\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null}],\
                \"usage\":{\"prompt_tokens\":3,\"total_tokens\":7,\"completion_tokens\":4}}";
    rig::plain("200 OK", body)
}

/// Answers each request at once; a thread for each connection.
fn answer(listener: &TcpListener) {
    let answer = whole_answer();
    loop {
        let mut stream = listener.accept().unwrap().0;
        stream.set_nodelay(true).unwrap();
        let answer = answer.clone();
        std::thread::spawn(move || {
            while rig::read_request(&mut stream).is_some() && stream.write_all(answer.as_bytes()).is_ok() {}
        });
    }
}
