//! What happened, kept: row types, run folder, crash-safe journal, Parquet, environment.

mod chunks;
pub mod client;
mod columns;
pub mod environment;
pub mod error;
pub mod folder;
pub mod journal;
pub mod reader;
pub mod recorder;
pub mod row;
pub mod sample;
pub mod scrub;
pub mod self_check;
pub mod tables;
pub mod writer;

pub use chunks::Chunks;
pub use environment::Environment;
pub use error::RecordError;
pub use folder::{FirstRequest, RunFolder};
pub use journal::{Entry, Footer, Header, Run, Stopped};
pub use reader::{Text, read, texts};
pub use recorder::{Entries, Gone, Recorder, Waiting, Written};
pub use row::{
    Chunk, Connection, FailureClass, Finish, InputTokens, Kind, Oddity, OutputTokens, PromptIdentity,
    Request, State, TimeoutKind,
};
pub use sample::{ClockSample, LaneSample, MachineSample, ServerSample};
pub use scrub::Scrubber;
pub use self_check::{ByStamp, Ceiling, EndedBy, Floor, Machine, SELF_CHECK_VERSION, SelfCheck, Spread};
pub use writer::{Counts, JournalWriter};

/// Version of the record format and of the machine output.
pub const SCHEMA_VERSION: u32 = 1;
