//! What happened, kept: row types, run folder, crash-safe journal, Parquet, environment.

pub mod environment;
pub mod journal;
pub mod row;
pub mod sample;

pub use environment::Environment;
pub use journal::{Entry, Footer, Header, Run, Stopped};
pub use row::{
    Chunk, Connection, FailureClass, Finish, InputTokens, Kind, Oddity, OutputTokens, PromptIdentity,
    Request, State, TimeoutKind,
};
pub use sample::{ClockSample, LaneSample, MachineSample, ServerSample};

/// Version of the record format and of the machine output.
pub const SCHEMA_VERSION: u32 = 1;
