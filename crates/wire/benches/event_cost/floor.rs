//! Bare clients: one thread, `epoll_wait`, one `recvmsg` with a kernel stamp for each read, nothing parsed.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use clock::ThreadCpu;
use spec::Nanos;

/// A poll and the connections that it watches.
struct Watched {
    poll: i32,
    streams: Vec<TcpStream>,
}

impl Watched {
    fn connect(address: SocketAddr, count: usize) -> Watched {
        let watched = Watched {
            poll: polling_fd(),
            streams: (0..count).map(|_| TcpStream::connect(address).unwrap()).collect(),
        };
        for (place, stream) in (0_u64..).zip(&watched.streams) {
            stamp_reads(stream);
            stream.set_nodelay(true).unwrap();
            stream.set_nonblocking(true).unwrap();
            let mut interest = libc::epoll_event { events: libc::EPOLLIN as u32, u64: place };
            // SAFETY: both descriptors are open and the event outlives the call.
            let added = unsafe {
                libc::epoll_ctl(watched.poll, libc::EPOLL_CTL_ADD, stream.as_raw_fd(), &raw mut interest)
            };
            assert_eq!(added, 0);
        }
        watched
    }

    /// Hands each connection that has something to read to `each`, until that says that all is done; gives the
    /// processor time of this thread.
    fn until_done(&mut self, mut each: impl FnMut(&mut TcpStream, usize, &[u8]) -> bool) -> Nanos {
        let cpu = ThreadCpu::current().unwrap();
        let before = cpu.used().unwrap();
        let mut buffer = vec![0_u8; 8 << 10];
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 1024];
        let mut stamps = 0_u64;
        'all: loop {
            // SAFETY: the array holds as many events as the call is told.
            let count = unsafe { libc::epoll_wait(self.poll, events.as_mut_ptr(), events.len() as i32, -1) };
            for event in &events[..usize::try_from(count).unwrap_or(0)] {
                let place = event.u64 as usize;
                let stream = &mut self.streams[place];
                let (read, stamp) = receive(stream, &mut buffer);
                stamps += u64::from(stamp > 0);
                assert!(read > 0, "the server closed a connection");
                if each(stream, place, &buffer[..read]) {
                    break 'all;
                }
            }
        }
        assert!(stamps > 0, "kernel stamps are granted");
        cpu.used().unwrap().saturating_since(before)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: opened above, used no more.
        unsafe { libc::close(self.poll) };
    }
}

/// Processor time to read `count` streams to their ends.
pub fn streams(address: SocketAddr, count: usize) -> Nanos {
    let mut watched = Watched::connect(address, count);
    for stream in &mut watched.streams {
        stream.write_all(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}").unwrap();
    }
    let mut open = count;
    watched.until_done(|_, _, bytes| {
        open -= usize::from(bytes.ends_with(b"\r\n0\r\n\r\n"));
        open == 0
    })
}

/// Processor time to send `request` so often on `count` connections, each time after the answer before, which has
/// `answer` bytes.
pub fn plain(address: SocketAddr, count: usize, request: &[u8], answer: usize, requests: usize) -> Nanos {
    let mut watched = Watched::connect(address, count);
    let mut missing = vec![answer; count];
    let (mut sent, mut done) = (count, 0);
    for stream in &mut watched.streams {
        stream.write_all(request).unwrap();
    }
    watched.until_done(|stream, place, bytes| {
        missing[place] -= bytes.len();
        if missing[place] == 0 {
            missing[place] = answer;
            done += 1;
            if sent < requests {
                sent += 1;
                stream.write_all(request).unwrap();
            }
        }
        done == requests
    })
}

fn polling_fd() -> i32 {
    // SAFETY: takes no pointer.
    let poll = unsafe { libc::epoll_create1(0) };
    assert!(poll >= 0);
    poll
}

fn stamp_reads(stream: &TcpStream) {
    let on: libc::c_int = 1;
    // SAFETY: the value is one c_int, as its length says.
    let set = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    assert_eq!(set, 0);
}

/// One `recvmsg`: bytes, and the seconds of the stamp (0: none).
fn receive(stream: &TcpStream, buffer: &mut [u8]) -> (usize, i64) {
    #[repr(align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all-zero is a valid msghdr.
    let mut msg: libc::msghdr = unsafe { std::mem::zeroed() };
    msg.msg_iov = &raw mut iov;
    msg.msg_iovlen = 1;
    msg.msg_control = control.0.as_mut_ptr().cast();
    msg.msg_controllen = control.0.len() as _;
    // SAFETY: `msg` points to one iovec over `buffer` and to `control`; all outlive the call.
    let read = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut msg, 0) };
    // SAFETY: filled by recvmsg; the payload of the only message asked for is a timespec.
    let seconds = unsafe {
        let first = libc::CMSG_FIRSTHDR(&raw const msg);
        if first.is_null() {
            0
        } else {
            libc::CMSG_DATA(first).cast::<libc::timespec>().read_unaligned().tv_sec
        }
    };
    (usize::try_from(read).unwrap_or(0), seconds)
}
