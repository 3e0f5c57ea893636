//! A real engine: llama.cpp's server with SmolLM2-135M, on one thread. `cargo xtask engines` installs it.

use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::harness::{closed_port, wait_until};

/// The engine, killed when it is dropped.
pub struct Llama {
    child: Child,
    port: u16,
}

impl Llama {
    /// The engine's Python and its model. `None`, with a word on stderr: their paths are not in the environment.
    pub fn paths() -> Option<(PathBuf, PathBuf)> {
        let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let both = path("INFEROMETER_LLAMA_PYTHON").zip(path("INFEROMETER_LLAMA_MODEL"));
        if both.is_none() {
            let _ = writeln!(std::io::stderr(), "skipped: no real engine; run `cargo xtask test`");
        }
        both
    }

    /// With its model, if it is there.
    pub fn start() -> Option<Self> {
        let (python, model) = Self::paths()?;
        Some(Self::serve(&python, &model))
    }

    /// With the model of a file.
    pub fn serve(python: &Path, model: &Path) -> Self {
        let port = closed_port();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/whole/engine/llama_server.py");
        let child = Command::new(python)
            .arg(script)
            .arg(model)
            .arg(port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the engine starts");
        let llama = Self { child, port };
        wait_until("the engine is healthy", Duration::from_secs(120), || {
            llama.get("/health").is_some_and(|text| text.contains("200 OK"))
        });
        llama
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// One HTTP request by hand: the answer with its head.
    fn get(&self, path: &str) -> Option<String> {
        use std::io::Read;
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// A POST by hand: the JSON of its answer.
    pub fn post(&self, path: &str, body: &serde_json::Value) -> serde_json::Value {
        use std::io::Read;
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let head = format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(!head.to_ascii_lowercase().contains("chunked"), "answers come in one piece: {head}");
        serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {body}"))
    }

    /// A counter of its metrics.
    pub fn counter(&self, name: &str) -> f64 {
        let text = self.get("/metrics").expect("metrics");
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
            .unwrap_or_else(|| panic!("no {name} in\n{text}"))
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}
