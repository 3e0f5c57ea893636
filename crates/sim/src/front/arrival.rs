//! When bytes arrived: the kernel's receive stamp, whenever the thread got around to reading them.
//!
//! Linux stamps each segment on `CLOCK_REALTIME` as it comes in (socket(7), `SO_TIMESTAMPNS`). The
//! log and the engines count on `CLOCK_MONOTONIC`; the two are tied by offset pairs.

use std::io;
use std::net::TcpStream;

use clock::{Clock, OffsetPair, SystemClocks, WallMap};
use spec::Nanos;

/// When a read's last byte came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub at_ns: u64,
    /// By the kernel's stamp; otherwise when the bytes had been read.
    pub kernel: bool,
}

/// What a read found out about its bytes' arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamps {
    /// The kernel's stamp, ns since the Unix epoch.
    pub wall_ns: Option<i64>,
    /// The socket was known to be empty then, `CLOCK_MONOTONIC`; 0: unknown.
    pub empty_ns: u64,
    /// The read returned, `CLOCK_MONOTONIC`.
    pub read_ns: u64,
}

/// Maps kernel stamps to `CLOCK_MONOTONIC`.
#[derive(Debug)]
pub struct Mapper {
    clock: Clock,
    map: WallMap,
    measured_ns: u64,
}

/// The offset is measured at least this often, because a step is told from drift by the time since.
const MEASURE_EVERY_NS: u64 = 100_000_000;

impl Mapper {
    /// With a first offset pair.
    pub fn new() -> Self {
        // An origin of zero: moments of this clock are readings of `CLOCK_MONOTONIC` themselves.
        Self::by(OffsetPair::measure(&SystemClocks))
    }

    fn by(pair: OffsetPair) -> Self {
        Self { clock: Clock::with_origin(0), map: WallMap::new(pair), measured_ns: pair.monotonic_ns }
    }

    /// Measures the offset if the last time is long ago; `now` is a reading of `CLOCK_MONOTONIC`.
    pub fn refresh(&mut self, now: u64) {
        if now.saturating_sub(self.measured_ns) >= MEASURE_EVERY_NS {
            self.observe(OffsetPair::measure(&SystemClocks));
        }
    }

    fn observe(&mut self, pair: OffsetPair) {
        self.measured_ns = pair.monotonic_ns;
        self.map.observe(pair);
    }

    /// When the bytes of a read arrived. Measures the offset anew, so that a wall clock that was set
    /// since the stamp was taken gives the time of the read rather than a wrong arrival.
    pub fn arrival(&mut self, stamps: Stamps) -> Arrival {
        self.arrival_by(OffsetPair::measure(&SystemClocks), stamps)
    }

    fn arrival_by(&mut self, pair: OffsetPair, stamps: Stamps) -> Arrival {
        self.observe(pair);
        let (empty, read) = (Nanos(stamps.empty_ns), Nanos(stamps.read_ns));
        let mapped = stamps.wall_ns.and_then(|wall| self.map.to_run(&self.clock, wall, empty, read));
        match mapped {
            Some(at) => Arrival { at_ns: at.0, kernel: true },
            None => Arrival { at_ns: stamps.read_ns, kernel: false },
        }
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::os::fd::AsRawFd;

    /// Room for the control messages of a read, aligned as they must be.
    #[repr(C, align(8))]
    struct Control([u8; 128]);

    /// Asks for a stamp with every read.
    pub fn enable(socket: &impl AsRawFd) -> io::Result<()> {
        let on: libc::c_int = 1;
        // SAFETY: the descriptor is open as long as `socket` is borrowed, and the kernel reads one
        // `c_int` from a pointer to one.
        let failed = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPNS,
                std::ptr::from_ref(&on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Reads into `buffer`: how many bytes, and the wall time (ns since the Unix epoch) at which the
    /// last segment of them came in, where the kernel tells.
    pub fn receive(socket: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<(usize, Option<i64>)> {
        let mut control = Control([0; 128]);
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: a msghdr is plain data for which all zeros (no name, no pieces, no control) is valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        // SAFETY: `message` refers to one piece over `buffer` and to `control`, with their true
        // lengths; all three live and are borrowed by nobody else until the call returns.
        let read = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
        let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
        let mut wall_ns = None;
        // SAFETY: recvmsg has filled `message`, whose control buffer is alive; the macros stay within
        // its length, and the payload of SCM_TIMESTAMPNS is a timespec, read without alignment.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(&raw const message);
            while let Some(h) = header.as_ref() {
                if (h.cmsg_level, h.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                    let t = libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
                    wall_ns = (t.tv_sec as i64)
                        .checked_mul(1_000_000_000)
                        .and_then(|s| s.checked_add(t.tv_nsec as i64));
                }
                header = libc::CMSG_NXTHDR(&raw const message, header);
            }
        }
        Ok((read, wall_ns.filter(|ns| *ns > 0)))
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io::{self, Read};
    use std::net::TcpStream;

    pub fn enable<T>(_socket: &T) -> io::Result<()> {
        Ok(())
    }

    pub fn receive(mut socket: &TcpStream, buffer: &mut [u8]) -> io::Result<(usize, Option<i64>)> {
        Ok((socket.read(buffer)?, None))
    }
}

/// Asks the kernel for receive stamps on `socket`; the connections of a listener inherit it. A kernel
/// that refuses leaves the time of the read.
pub fn enable(socket: &std::net::TcpListener) {
    let _ = system::enable(socket);
}

/// Reads into `buffer`: how many bytes, and the kernel's stamp of the last of them, ns since the Unix
/// epoch.
///
/// # Errors
/// As of `read`.
pub fn receive(socket: &TcpStream, buffer: &mut [u8]) -> io::Result<(usize, Option<i64>)> {
    system::receive(socket, buffer)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Duration;

    use clock::ClockSource;

    use super::*;

    fn pair(monotonic_ns: u64, offset_ns: i64) -> OffsetPair {
        OffsetPair { monotonic_ns, offset_ns, width: Nanos(100) }
    }

    /// Wall = monotonic + 1,000 s, until somebody sets the clock.
    const OFFSET: i64 = 1_000_000_000_000;

    #[test]
    fn the_kernels_stamp_counts_where_it_can_be_right() {
        let mut mapper = Mapper::by(pair(5_950_000_000, OFFSET));
        let stamps =
            |wall_ns: Option<i64>| Stamps { wall_ns, empty_ns: 5_900_000_000, read_ns: 6_000_000_000 };
        let mut of = |wall_ns| mapper.arrival_by(pair(6_000_000_100, OFFSET), stamps(wall_ns));
        let by_kernel = |at_ns| Arrival { at_ns, kernel: true };
        let by_read = Arrival { at_ns: 6_000_000_000, kernel: false };
        assert_eq!(of(Some(OFFSET + 5_998_000_000)), by_kernel(5_998_000_000));
        assert_eq!(of(Some(OFFSET + 6_000_001_000)), by_kernel(6_000_000_000), "never after the read");
        assert_eq!(of(None), by_read, "no stamp");
        assert_eq!(of(Some(OFFSET + 6_000_100_000)), by_read, "later than the read");
        assert_eq!(of(Some(OFFSET + 5_800_000_000)), by_read, "while the socket was empty");
        // The wall clock is set 3 ms forward between the stamp and the read.
        let stepped = pair(6_000_000_100, OFFSET + 3_000_000);
        assert_eq!(mapper.arrival_by(stepped, stamps(Some(OFFSET + 5_998_000_000))), by_read, "stepped");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn bytes_arrive_before_they_are_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        enable(&listener);
        let mut mapper = Mapper::new();
        // The kernel begins to stamp a little after it was first asked: the first bytes may have none.
        for _ in 0..100 {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let before = SystemClocks.monotonic_ns();
            client.write_all(b"here").unwrap();
            std::thread::sleep(Duration::from_millis(20));
            let (socket, _) = listener.accept().unwrap();
            let mut buffer = [0; 64];
            let (n, wall_ns) = receive(&socket, &mut buffer).unwrap();
            assert_eq!(&buffer[..n], b"here");
            let read_ns = SystemClocks.monotonic_ns();
            let arrival = mapper.arrival(Stamps { wall_ns, empty_ns: 0, read_ns });
            if wall_ns.is_none() {
                assert_eq!(arrival, Arrival { at_ns: read_ns, kernel: false });
                continue;
            }
            assert!(arrival.kernel);
            // 20 ms of sleep lie between; the two clocks agree to far less.
            assert!(arrival.at_ns + 19_000_000 < read_ns, "{arrival:?} read at {read_ns}");
            assert!(arrival.at_ns + 1_000_000 > before, "{arrival:?} sent at {before}");
            return;
        }
        panic!("the kernel stamps nothing");
    }
}
