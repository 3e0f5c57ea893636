//! A connected stream socket in the runtime's hands: TCP, or a Unix socket of this machine.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::task::{Context, Poll};

use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

/// A connected socket. The kernel stamps the reads of TCP alone.
#[derive(Debug)]
pub enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
}

/// The same call on whichever socket it is.
macro_rules! either {
    ($self:expr, $socket:ident => $call:expr) => {
        match $self {
            Socket::Tcp($socket) => $call,
            Socket::Unix($socket) => $call,
        }
    };
}

impl Socket {
    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, socket => socket.poll_read_ready(cx))
    }
    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, socket => socket.poll_write_ready(cx))
    }
    pub(crate) fn try_read<R>(&self, read: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        either!(self, socket => socket.try_io(Interest::READABLE, read))
    }
    pub(crate) fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        either!(self, socket => socket.try_write(buf))
    }
    pub(crate) fn try_write_vectored(&self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        either!(self, socket => socket.try_write_vectored(bufs))
    }
    /// Out of the runtime's hands.
    pub(crate) fn into_fd(self) -> io::Result<OwnedFd> {
        either!(self, socket => Ok(socket.into_std()?.into()))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        either!(self, socket => socket.as_fd())
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
