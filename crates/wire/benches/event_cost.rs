//! What a streamed event costs the client: processor time of a lane beside that of a bare reader.
//!
//! A server in a process of its own streams to 256 connections, 50 events of 268 bytes a second to
//! each, as vLLM sends them. The floor is one thread that waits by epoll and takes each read with its
//! kernel stamp by one `recvmsg`; it parses nothing. Both take the same streams in turn, in the same
//! run, so that their ratio means something on a machine whose speed changes.
#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]

#[allow(clippy::duplicate_mod, reason = "the tests' run against a server serves here too")]
#[path = "../tests/rig/mod.rs"]
mod rig;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};

use clock::{Clock, Pacer, ThreadCpu};
use record::Entry;
use spec::{Connections, Extent, Nanos};

const STREAMS: usize = 256;
const EVENTS: u32 = 200;
const STEP: Nanos = Nanos::from_millis(20);
const ROUNDS: usize = 3;

/// How the events of one step are dealt over its 20 ms.
#[derive(Clone, Copy, PartialEq)]
enum Pattern {
    /// Evenly: nearly every event wakes the reader by itself.
    Even,
    /// All together, as a batching engine's step gives them: one wake brings many.
    Together,
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        let even = std::env::args().nth(2).as_deref() == Some("even");
        serve(if even { Pattern::Even } else { Pattern::Together });
        return;
    }
    let mut out = std::io::stdout();
    for name in ["even", "together"] {
        let server = Server::start(name);
        let (mut floors, mut lanes, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let floor = floor(server.address);
            let lane = lane(server.address);
            floors.push(floor);
            lanes.push(lane);
            ratios.push(lane / floor);
        }
        let _ = writeln!(
            out,
            "{name}: bare reader {:.2} us, lane {:.2} us of processor time for each event; {:.2} times",
            median(&mut floors),
            median(&mut lanes),
            median(&mut ratios)
        );
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start(pattern: &str) -> Server {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["serve", pattern])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Server { process, address: line.trim().parse().unwrap() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn event(text: &str, finish: &str) -> String {
    let event = format!(
        "data: {{\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion.chunk\",\
         \"created\":1764489600,\"model\":\"meta-llama/Llama-3.1-8B-Instruct\",\"choices\":[{{\"index\":0,\
         \"delta\":{{\"content\":\"{text}\"}},\"logprobs\":null,\"finish_reason\":{finish},\"token_ids\":null}}]}}\n\n"
    );
    format!("{:x}\r\n{event}\r\n", event.len())
}

/// Takes 256 connections with a request each, streams to them, and begins anew.
fn serve(pattern: Pattern) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "{}", listener.local_addr().unwrap()).unwrap();
    out.flush().unwrap();
    let token = event(" token", "null");
    let last = format!("{}{:x}\r\ndata: [DONE]\n\n\r\n0\r\n\r\n", event("", "\"length\""), 14);
    loop {
        let mut streams: Vec<TcpStream> = (0..STREAMS).map(|_| listener.accept().unwrap().0).collect();
        for stream in &mut streams {
            stream.set_nodelay(true).unwrap();
            if rig::read_request(stream).is_none() {
                return;
            }
            stream.write_all(rig::STREAM_HEAD.as_bytes()).unwrap();
        }
        let clock = Clock::start();
        let pacer = Pacer::new(clock);
        for number in 1..=u64::from(EVENTS) {
            for (place, stream) in (0_u64..).zip(&mut streams) {
                let within = if pattern == Pattern::Even { STEP.0 * place / STREAMS as u64 } else { 0 };
                pacer.sleep_until(Nanos(STEP.0 * number + within));
                stream.write_all(token.as_bytes()).unwrap();
            }
        }
        for stream in &mut streams {
            stream.write_all(last.as_bytes()).unwrap();
        }
    }
}

/// Microseconds of processor time for each event of a lane as it runs in a measurement: stamps, HTTP,
/// events, rows, heartbeats; without opening the connections.
fn lane(address: SocketAddr) -> f64 {
    let mut spec = rig::spec(
        &format!("http://{address}"),
        rig::closed(STREAMS as u32),
        Extent::Requests(STREAMS as u64),
    );
    spec.client.lanes = 1;
    spec.client.connections = Connections::Prewarmed(STREAMS as u32);
    let ran = rig::run(&spec);
    assert!(ran.rows.iter().all(|row| row.state.is_ok() && row.chunks.len() == EVENTS as usize));
    let busy: u64 = ran
        .samples
        .iter()
        .filter_map(|entry| match entry {
            Entry::Lane(sample) => Some(sample.busy.0),
            _ => None,
        })
        .sum();
    busy as f64 / 1e3 / f64::from(EVENTS) / STREAMS as f64
}

/// The same of the bare reader.
fn floor(address: SocketAddr) -> f64 {
    let poll = polling_fd();
    let mut streams: Vec<TcpStream> = (0..STREAMS).map(|_| TcpStream::connect(address).unwrap()).collect();
    for (place, stream) in (0_u64..).zip(&mut streams) {
        stamp_reads(stream);
        stream.set_nonblocking(true).unwrap();
        let mut interest = libc::epoll_event { events: libc::EPOLLIN as u32, u64: place };
        // SAFETY: both descriptors are open and the event outlives the call.
        let added =
            unsafe { libc::epoll_ctl(poll, libc::EPOLL_CTL_ADD, stream.as_raw_fd(), &raw mut interest) };
        assert_eq!(added, 0);
        stream.write_all(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}").unwrap();
    }
    let cpu = ThreadCpu::current().unwrap();
    let before = cpu.used().unwrap();
    let mut open = STREAMS;
    let mut stamps = 0_u64;
    let mut buffer = vec![0_u8; 8 << 10];
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 1024];
    while open > 0 {
        // SAFETY: the array holds as many events as the call is told.
        let count = unsafe { libc::epoll_wait(poll, events.as_mut_ptr(), events.len() as i32, -1) };
        for event in &events[..usize::try_from(count).unwrap_or(0)] {
            let stream = &streams[event.u64 as usize];
            let (read, stamp) = receive(stream, &mut buffer);
            stamps += u64::from(stamp > 0);
            if read == 0 || buffer[..read].ends_with(b"\r\n0\r\n\r\n") {
                open -= 1;
                // SAFETY: both descriptors are open; removing takes no event.
                unsafe {
                    libc::epoll_ctl(poll, libc::EPOLL_CTL_DEL, stream.as_raw_fd(), std::ptr::null_mut())
                };
            }
        }
    }
    let used = cpu.used().unwrap().saturating_since(before);
    // SAFETY: opened above, used no more.
    unsafe { libc::close(poll) };
    assert!(stamps > 0, "kernel stamps are granted");
    used.0 as f64 / 1e3 / f64::from(EVENTS) / STREAMS as f64
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
