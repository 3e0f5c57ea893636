//! A server without a free descriptor. Alone in its file, because the limit is the process's.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use sim::{SimConfig, spawn};
use socket2::{Domain, Socket, Type};

/// Lets the process open no more descriptors than it has.
fn limit_descriptors(to: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writing one rlimit.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit.rlim_cur = to.min(limit.rlim_max);
    // SAFETY: `limit` is one rlimit, read during the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

#[test]
fn without_descriptors_clients_wait_and_are_served_later() {
    let target = match "sim://fixed?ttft=1ms&count=bytes".parse() {
        Ok(spec::Target::Sim(sim)) => sim,
        other => panic!("{other:?}"),
    };
    let server = spawn(SimConfig::from_target(&target).unwrap(), None).unwrap();
    // This process is both sides: the clients have their descriptors before they become scarce.
    let sockets: Vec<Socket> =
        (0..40).map(|_| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()).collect();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    limit_descriptors(open + 20);
    let mut clients: Vec<TcpStream> = Vec::new();
    for socket in sockets {
        socket.connect(&server.address().into()).unwrap();
        clients.push(socket.into());
    }
    let ask = |client: &mut TcpStream| {
        client.write_all(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
    };
    clients.iter_mut().for_each(ask);
    // Each one served frees a descriptor for one that waits.
    for mut client in clients {
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
    server.stop().unwrap();
}
