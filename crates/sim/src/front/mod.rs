//! The HTTP front: an engine behind OpenAI's API, in real time.
//!
//! One thread does all timing: it waits in the poller until shortly before the next engine event,
//! spins over the rest, and writes. Requests are looked at (parsed, counted) on a second thread and
//! the log is written on a third, so neither moves a token.

mod arrival;
mod conn;
mod http;
mod metrics;
mod pages;
mod prepare;
mod server;
mod serving;
mod stream;
pub mod truth;

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::config::SimConfig;
use crate::error::SimError;

/// What a server has done in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Served {
    /// Connections accepted.
    pub connections: u64,
    /// Generation requests received.
    pub requests: u64,
}

/// Where the truth log goes.
pub type TruthSink = Box<dyn Write + Send>;

/// Serves on `listener` until `shutdown` is set (looked at least every 50 ms). Connections that are
/// open then are closed; their requests are in the log.
///
/// # Errors
/// The poller, a thread or the truth log failed.
pub fn serve(
    config: SimConfig,
    listener: TcpListener,
    truth: Option<TruthSink>,
    shutdown: Arc<AtomicBool>,
) -> Result<Served, SimError> {
    server::Server::new(config, listener, truth)?.run(&shutdown)
}

/// A server on a thread of this process: for tests, and for users who want one target and no second
/// process. It stops when it is dropped.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    shutdown: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<Result<Served, SimError>>>,
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it and waits for its end; the truth log is complete then.
    ///
    /// # Errors
    /// As [`serve`].
    pub fn stop(mut self) -> Result<Served, SimError> {
        self.shutdown.store(true, Ordering::Relaxed);
        match self.thread.take().map(std::thread::JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => Err(SimError::Io {
                doing: "serving",
                source: std::io::Error::other("the server's thread panicked"),
            }),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts a server on a free port of the loopback interface.
///
/// # Errors
/// No port or no thread to be had.
pub fn spawn(config: SimConfig, truth: Option<TruthSink>) -> Result<Running, SimError> {
    let io = |doing| move |source| SimError::Io { doing, source };
    // Whoever learns the address may send at once.
    config.counter.warm();
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(io("binding a loopback port"))?;
    let address = listener.local_addr().map_err(io("reading the port"))?;
    let shutdown = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&shutdown);
    let thread = std::thread::Builder::new()
        .name("sim".into())
        .spawn(move || serve(config, listener, truth, flag))
        .map_err(io("starting a thread"))?;
    Ok(Running { address, shutdown, thread: Some(thread) })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_request_that_is_never_complete_is_given_up() {
        let config = match "sim://fixed?count=bytes".parse() {
            Ok(spec::Target::Sim(sim)) => SimConfig::from_target(&sim).unwrap(),
            other => panic!("{other:?}"),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut server = server::Server::new(config, listener, None).unwrap();
        assert_eq!(server.request_time_ns, 60_000_000_000);
        server.request_time_ns = 100_000_000;
        let shutdown = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&shutdown);
        let thread = std::thread::spawn(move || server.run(&flag));
        for begun in ["GET /health HT", "POST /tokenize HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"] {
            let mut slow = TcpStream::connect(address).unwrap();
            slow.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            slow.write_all(begun.as_bytes()).unwrap();
            let mut answer = String::new();
            slow.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
        }
        // A connection without a request may be as old as it likes, and a complete request is in time.
        let mut idle = TcpStream::connect(address).unwrap();
        idle.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        std::thread::sleep(Duration::from_millis(250));
        for _ in 0..2 {
            idle.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
            let mut answer = [0; 15];
            idle.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200 OK");
            let mut rest = [0; 512];
            let _ = idle.read(&mut rest).unwrap();
            std::thread::sleep(Duration::from_millis(150));
        }
        shutdown.store(true, Ordering::Relaxed);
        thread.join().unwrap().unwrap();
    }
}
