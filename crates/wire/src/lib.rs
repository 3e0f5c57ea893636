//! Sending and hearing: stamped sockets, connections, event streams, dialects, lanes.

pub mod answer;
pub mod ask;
pub mod connect;
pub mod dialect;
mod exchange;
pub mod fleet;
pub mod http1;
pub mod io;
mod lane;
mod limits;
mod line;
pub mod live;
pub mod metrics;
pub mod outgoing;
mod pace;
mod place;
mod pool;
mod probe;
mod reactor;
mod sample;
pub mod session;
mod side;
pub mod sse;
pub mod stamp;
mod supply;
mod tls;
mod users;

pub use ask::{Answer, AskError, Asker};
pub use connect::{DialError, Dialer, Endpoint, EndpointError, TlsSetupError};
pub use fleet::{Drive, DriveError, drive};
pub use limits::{Cause, LimitError};
pub use live::{Live, Recent, Snapshot};
pub use outgoing::{Outgoing, Output, Source, SourceError};
pub use probe::{Probe, ProbeError};
pub use session::{Session, SessionError};
pub use spec::Secret;
