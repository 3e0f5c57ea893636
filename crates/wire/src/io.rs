//! The stamped socket: when the first byte of a request left, when each read arrived.
//!
//! The only `unsafe` of this crate is here: `recvmsg` with its control message, and lending buffers
//! to it.

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use clock::{Clock, ClockSource, SystemClocks, WallMap};
use rustls::ClientConnection;
use spec::Nanos;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use crate::socket::Socket;
use crate::stamp::Stamp;

/// What every socket of a lane needs to stamp with.
#[derive(Debug)]
pub struct LaneTime {
    clock: Cell<Clock>,
    map: Arc<WallMap>,
    kernel: bool,
}

impl LaneTime {
    /// For a lane; `kernel`: take the kernel's stamps where it gives them.
    pub fn new(clock: Clock, map: Arc<WallMap>, kernel: bool) -> Rc<Self> {
        Rc::new(LaneTime { clock: Cell::new(clock), map, kernel })
    }
    /// The run begins: moments count from this clock's origin. No exchange may be under way.
    pub fn set_clock(&self, clock: Clock) {
        self.clock.set(clock);
    }
    /// The run's clock.
    pub fn clock(&self) -> Clock {
        self.clock.get()
    }
    /// The time since the run's origin.
    pub fn now(&self) -> Nanos {
        self.clock.get().now()
    }
    /// The stamp of a read that was just made.
    ///
    /// `seen`: when, on `CLOCK_MONOTONIC`; `wall`: the kernel's own stamp; `empty_at`: the socket held
    /// nothing then; `polled`: the poll before the one that told of the read ended then, so that the
    /// bytes came later.
    pub fn stamp(&self, seen: u64, wall: Option<i64>, empty_at: u64, polled: u64, read: u32) -> Stamp {
        let clock = self.clock.get();
        let (seen, empty_at) = (clock.at_raw(seen), clock.at_raw(empty_at));
        let kernel = wall.filter(|_| self.kernel).and_then(|w| self.map.to_run(&clock, w, empty_at, seen));
        Stamp {
            arrival: kernel.unwrap_or(seen),
            seen,
            earliest: kernel.unwrap_or(clock.at_raw(polled).max(empty_at).min(seen)),
            kernel: kernel.is_some(),
            read,
        }
    }
    /// Asks the kernel for a stamp with each read of `socket`, if the lane wants them.
    pub(crate) fn listen_to(&self, socket: &impl AsRawFd) {
        if self.kernel {
            kernel::enable_stamps(socket);
        }
    }
}

/// What one socket knows of its own traffic; shared between the socket, which hyper owns, and the
/// exchange that uses it.
#[derive(Debug)]
pub struct Ear {
    socket: Socket,
    time: Rc<LaneTime>,
    write_begin: Cell<Option<Nanos>>,
    write_end: Cell<Option<Nanos>>,
    reads: Cell<u32>,
    last: Cell<Stamp>,
    /// The socket held nothing at this moment, on `CLOCK_MONOTONIC`.
    empty_at: Cell<u64>,
}

impl Ear {
    /// Listens on a connected socket and switches kernel stamps on, if the lane wants them.
    pub fn new(socket: Socket, time: Rc<LaneTime>) -> Rc<Self> {
        time.listen_to(&socket);
        let empty_at = Cell::new(SystemClocks.monotonic_ns());
        Rc::new(Ear {
            socket,
            time,
            write_begin: Cell::new(None),
            write_end: Cell::new(None),
            reads: Cell::new(0),
            last: Cell::new(Stamp::default()),
            empty_at,
        })
    }
    /// A new exchange begins: its first write and its reads are counted from here.
    pub fn arm(&self) {
        self.write_begin.set(None);
        self.write_end.set(None);
        self.reads.set(0);
    }
    /// Just before the first byte of the exchange went to the socket.
    pub fn write_begin(&self) -> Option<Nanos> {
        self.write_begin.get()
    }
    /// Just after the last byte so far went to the socket.
    pub fn write_end(&self) -> Option<Nanos> {
        self.write_end.get()
    }
    /// Reads of the exchange that brought bytes.
    pub fn reads(&self) -> u32 {
        self.reads.get()
    }
    /// The stamp of the last read.
    pub fn last(&self) -> Stamp {
        self.last.get()
    }
    fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut [MaybeUninit<u8>]) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        loop {
            ready!(self.socket.poll_read_ready(cx))?;
            let before = SystemClocks.monotonic_ns();
            match self.socket.try_read(|| kernel::recv(&self.socket, buf)) {
                Ok((0, _)) => return Poll::Ready(Ok(0)),
                Ok((n, wall)) => {
                    self.stamp(wall);
                    if n < buf.len() {
                        // The socket is drained: another segment is another event of the poll, so
                        // the call that would only say "nothing there" is saved.
                        self.empty_at.set(before);
                        let _ = self.socket.try_read(|| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
                    }
                    return Poll::Ready(Ok(n));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.empty_at.set(before),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// First the time, then everything else.
    fn stamp(&self, wall: Option<i64>) {
        let seen = SystemClocks.monotonic_ns();
        self.last.set(self.time.stamp(seen, wall, self.empty_at.get(), 0, self.reads.get()));
        self.reads.set(self.reads.get() + 1);
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        send: impl Fn(&Socket) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.socket.poll_write_ready(cx))?;
            let before = self.time.now();
            match send(&self.socket) {
                Ok(n) => {
                    if self.write_begin.get().is_none() {
                        self.write_begin.set(Some(before));
                    }
                    self.write_end.set(Some(self.time.now()));
                    return Poll::Ready(Ok(n));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// A socket whose every read and write is stamped.
#[derive(Debug)]
pub struct Stamped(pub Rc<Ear>);

impl AsyncRead for Stamped {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // SAFETY: poll_recv only writes into the slice, it never makes bytes uninitialised.
        let n = ready!(self.0.poll_recv(cx, unsafe { buf.unfilled_mut() }))?;
        // SAFETY: the kernel wrote the first `n` bytes of the unfilled part.
        unsafe { buf.assume_init(n) };
        buf.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_send(cx, |tcp| tcp.try_write(buf))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match socket2::SockRef::from(&self.0.socket).shutdown(std::net::Shutdown::Write) {
            // The other side was faster.
            Err(error) if error.kind() != io::ErrorKind::NotConnected => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(())),
        }
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_send(cx, |tcp| tcp.try_write_vectored(bufs))
    }
}

/// What HTTP is spoken over. The stamps are those of the socket below: with TLS a read's stamp
/// is the arrival of the segment that completed the record.
#[derive(Debug)]
pub enum Stream {
    /// The bare socket.
    Plain(Stamped),
    /// TLS over it.
    Tls(Box<TlsStream<Stamped>>),
}

impl Stream {
    /// The socket, out of the runtime's hands, and the TLS session on it.
    pub(crate) fn into_parts(self) -> io::Result<(OwnedFd, Option<ClientConnection>)> {
        let (socket, tls) = match self {
            Stream::Plain(socket) => (socket, None),
            Stream::Tls(stream) => {
                let (socket, tls) = stream.into_inner();
                (socket, Some(tls))
            }
        };
        let ear = Rc::try_unwrap(socket.0).map_err(|_| io::Error::other("the socket is in use"))?;
        Ok((ear.socket.into_fd()?, tls))
    }
}

impl hyper::rt::Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let n = match self.get_mut() {
            // SAFETY: poll_recv only writes into the slice, it never makes bytes uninitialised.
            Stream::Plain(tcp) => ready!(tcp.0.poll_recv(cx, unsafe { cursor.as_mut() }))?,
            Stream::Tls(tls) => {
                // SAFETY: ReadBuf never makes initialised bytes uninitialised.
                let mut buf = ReadBuf::uninit(unsafe { cursor.as_mut() });
                ready!(Pin::new(tls).poll_read(cx, &mut buf))?;
                buf.filled().len()
            }
        };
        // SAFETY: the first `n` bytes of the cursor were written above.
        unsafe { cursor.advance(n) };
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, bufs),
            Stream::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, bufs),
        }
    }
}

/// Reads what is there into `buf`: number of bytes, and the kernel's stamp as wall time.
pub(crate) fn receive(socket: &OwnedFd, buf: &mut [u8]) -> io::Result<(usize, Option<i64>)> {
    // SAFETY: the layouts are the same, and `recv` only ever writes initialised bytes.
    let buf = unsafe { &mut *(std::ptr::from_mut(buf) as *mut [MaybeUninit<u8>]) };
    kernel::recv(socket, buf)
}

#[cfg(target_os = "linux")]
mod kernel {
    //! Receive stamps of Linux (socket(7), `SO_TIMESTAMPNS`).

    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::AsRawFd;

    /// Room for one timestamp message, aligned as control messages must be.
    #[repr(C, align(8))]
    struct Control([u8; 64]);

    /// Asks for a stamp with each read; `false`: the kernel refuses.
    pub(super) fn enable_stamps(tcp: &impl AsRawFd) -> bool {
        let on: libc::c_int = 1;
        // SAFETY: the descriptor is open while borrowed; the value is one c_int, as its length says.
        let rc = unsafe {
            libc::setsockopt(
                tcp.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPNS,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        rc == 0
    }

    /// Reads what is there: number of bytes, and the wall time in nanoseconds at which the last
    /// segment of them arrived, if the kernel tells.
    pub(super) fn recv(
        socket: &impl AsRawFd,
        buf: &mut [MaybeUninit<u8>],
    ) -> io::Result<(usize, Option<i64>)> {
        let mut control = Control([0; 64]);
        let mut iov = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
        // SAFETY: all-zero is a valid msghdr (null pointers, zero lengths).
        let mut msg: libc::msghdr = unsafe { std::mem::zeroed() };
        msg.msg_iov = &raw mut iov;
        msg.msg_iovlen = 1;
        msg.msg_control = control.0.as_mut_ptr().cast();
        msg.msg_controllen = control.0.len() as _;
        // SAFETY: `msg` points to one iovec over `buf` and to `control`; all outlive the call, and
        // the kernel writes no more than the lengths given.
        let n = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut msg, 0) };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((n as usize, wall_stamp(&msg)))
    }

    fn wall_stamp(msg: &libc::msghdr) -> Option<i64> {
        // SAFETY: `msg` was filled by recvmsg and its control buffer is alive: the CMSG macros walk
        // within msg_controllen. The payload of SCM_TIMESTAMPNS is one timespec; read_unaligned
        // asks for no alignment.
        unsafe {
            let mut message = libc::CMSG_FIRSTHDR(msg);
            while !message.is_null() {
                let header = &*message;
                if header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_TIMESTAMPNS {
                    let time: libc::timespec =
                        libc::CMSG_DATA(message).cast::<libc::timespec>().read_unaligned();
                    let ns =
                        (time.tv_sec as i64).checked_mul(1_000_000_000)?.checked_add(time.tv_nsec as i64)?;
                    return (ns > 0).then_some(ns);
                }
                message = libc::CMSG_NXTHDR(msg, message);
            }
        }
        None
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    //! Without kernel stamps.

    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd;

    pub(super) fn enable_stamps<T>(_: &T) -> bool {
        false
    }
    pub(super) fn recv(socket: &impl AsFd, buf: &mut [MaybeUninit<u8>]) -> io::Result<(usize, Option<i64>)> {
        Ok((socket2::SockRef::from(socket).recv(buf)?, None))
    }
}

/// Keeps the kernel's receive stamping switched on: it starts to stamp some time after the first
/// socket asks for it, so that socket must exist before the first request.
#[derive(Debug)]
pub struct StampKeeper(#[allow(dead_code, reason = "held for its effect")] Option<socket2::Socket>);

impl StampKeeper {
    /// Switches it on; whether the kernel grants it: [`StampKeeper::granted`].
    pub fn new() -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).ok();
        StampKeeper(socket.filter(kernel::enable_stamps))
    }
    /// Receive stamps are to be had.
    pub fn granted(&self) -> bool {
        self.0.is_some()
    }
}

impl Default for StampKeeper {
    fn default() -> Self {
        Self::new()
    }
}
