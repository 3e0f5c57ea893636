//! The stamp that a read carries from the socket to the record.

use record::{Chunk, Kind};
use spec::Nanos;

/// When one read of a socket arrived. Every byte of the read shares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Kernel receive time, or `seen` without kernel stamps.
    pub arrival: Nanos,
    /// When the program saw it.
    pub seen: Nanos,
    /// Earliest moment at which it can have arrived: `arrival` with a kernel stamp, else the end of
    /// the lane's previous poll.
    pub earliest: Nanos,
    /// `arrival` is the kernel's.
    pub kernel: bool,
    /// Number of the read within the answer, from 0.
    pub read: u32,
}

impl Stamp {
    /// A chunk of this read.
    pub(crate) fn chunk(self, kind: Kind, choice: u16, text_bytes: u32) -> Chunk {
        Chunk {
            arrival: self.arrival,
            seen: self.seen,
            earliest: self.earliest,
            kernel: self.kernel,
            read: self.read,
            kind,
            tokens: None,
            text_bytes,
            choice,
        }
    }
}
