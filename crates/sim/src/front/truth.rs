//! The server's own log of the truth: one JSON line for each generation request, written off the
//! timing loop.

use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde::{Deserialize, Serialize};

/// What the server knows about one request. Every `_ns` is a reading of `CLOCK_MONOTONIC` itself, so
/// that another process on the machine can compare.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TruthRow {
    /// `x-request-id` of the request; `sim-NUMBER` when it had none.
    pub request_id: String,
    /// Number among the generation requests, from 1, in order of their reception.
    pub number: u64,
    /// The connection that carried it, from 1, in order of acceptance.
    pub connection: u64,
    /// When the last byte of the request arrived. By the kernel's receive stamp where `kernel` says
    /// so; otherwise when it had been read. A request that waited on its connection for the end of
    /// the answer before it counts from its turn.
    pub received_ns: u64,
    /// `received_ns` is the kernel's receive stamp.
    #[serde(default)]
    pub kernel: bool,
    /// When the server's thread had read the request; 0: not known.
    #[serde(default)]
    pub read_ns: u64,
    /// When the engine got it; 0: never.
    pub submitted_ns: u64,
    /// When it left the engine's queue; 0: never.
    pub started_ns: u64,
    /// Just before the first byte of the answer was written; 0: never.
    pub first_write_ns: u64,
    /// Every write: the moment just before it, and the tokens it carried (0: head, role or end).
    pub writes: Vec<(u64, u32)>,
    /// For every write, when it was due by the engine's clock.
    pub due_ns: Vec<u64>,
    /// When the request was over for the server.
    pub ended_ns: u64,
    /// HTTP status; 0: none was sent.
    pub status: u16,
    /// Finish reason sent; `None`: none was.
    pub finish: Option<String>,
    /// Prompt tokens, template included.
    pub input_tokens: u32,
    /// Prompt tokens that came from the prefix cache.
    pub cached_tokens: u32,
    /// Tokens of the answer as the usage says.
    pub output_tokens: u32,
    /// Kind of the fault that struck.
    pub fault: Option<String>,
    /// The client went away before the end.
    pub disconnected: bool,
}

impl TruthRow {
    /// Notes the fault that strikes the request itself.
    pub(super) fn strike(&mut self, fault: Option<crate::faults::Fault>) {
        if let Some(fault) = fault {
            self.fault = Some(fault.kind().to_owned());
        }
    }
}

/// The thread that writes the log.
#[derive(Debug)]
pub struct TruthLog {
    sender: Sender<TruthRow>,
    thread: std::thread::JoinHandle<std::io::Result<()>>,
}

impl TruthLog {
    /// Starts it.
    ///
    /// # Errors
    /// No thread to be had.
    pub fn start(sink: Box<dyn Write + Send>) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let thread =
            std::thread::Builder::new().name("sim-truth".into()).spawn(move || write(sink, receiver))?;
        Ok(Self { sender, thread })
    }

    /// Hands a row over.
    pub fn put(&self, row: TruthRow) {
        // The writer is gone only after an error, which `finish` reports.
        let _ = self.sender.send(row);
    }

    /// Waits until all is written.
    ///
    /// # Errors
    /// A write failed at some time.
    pub fn finish(self) -> std::io::Result<()> {
        drop(self.sender);
        self.thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the truth log's thread panicked")))
    }
}

fn write(mut sink: Box<dyn Write + Send>, rows: Receiver<TruthRow>) -> std::io::Result<()> {
    for row in rows {
        let mut line = serde_json::to_vec(&row)?;
        line.push(b'\n');
        sink.write_all(&line)?;
        sink.flush()?;
    }
    Ok(())
}
