//! Good answers on a bad way: split, cut and reset at every single byte, and a proxy that does it to a real stream.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use record::{FailureClass, Request, State};
use spec::seed::mix;

use crate::harness::{Run, Sim, recorded, run};
use crate::scripted::*;

/// As many requests as a good answer has bytes, and some: request k is for byte k.
fn for_every_byte(serve: impl Fn(&mut Link, u64, usize) -> After + Send + Sync + 'static) -> Vec<Request> {
    let requests = good(1000).len() + 2;
    let server = Scripted::answering(move |link, number| {
        serve(link, number, (number as usize).min(good(number).len()))
    });
    let folder = tempfile::tempdir().expect("a folder");
    let n = requests.to_string();
    let args =
        [&server.url, "--model", "m", "--no-check", "-c", "8", "-n", &n, "--tokenizer", "none", "--osl", "3"];
    let ran = run(folder.path(), &[&args[..], &["--warmup", "none", "--isl", "8"]].concat());
    ran.assert_books_balance();
    let rows = recorded(folder.path()).requests;
    assert!(rows.iter().map(|r| r.seq).eq(0..requests as u64), "{} rows of {requests}", rows.len());
    rows
}

fn is_whole(request: &Request) -> bool {
    let sizes = request.chunks.iter().map(|chunk| chunk.text_bytes as usize);
    request.state.is_ok() && sizes.eq(TEXT.map(str::len)) && request.output.usage == Some(3)
}

#[test]
fn an_answer_split_at_any_byte_is_the_same_answer() {
    let rows = for_every_byte(|link, number, at| {
        let answer = good(number).into_bytes();
        link.send(&answer[..at]);
        pause(1);
        link.send(&answer[at..]);
        After::Keep
    });
    for request in rows {
        assert!(is_whole(&request) && request.oddities.is_empty(), "{request:?}");
    }
}

#[test]
fn an_answer_that_comes_byte_by_byte_is_the_same_answer() {
    let server = Scripted::answering(|link, number| {
        good(number).bytes().for_each(|byte| {
            link.send([byte]);
        });
        After::Keep
    });
    let folder = tempfile::tempdir().expect("a folder");
    let args = [&server.url, "--model", "m", "--no-check", "-c", "2", "-n", "10", "--tokenizer", "none"];
    run(folder.path(), &[&args[..], &["--warmup", "none", "--isl", "8", "--osl", "3"]].concat());
    let rows = recorded(folder.path()).requests;
    assert!(rows.len() == 10 && rows.iter().all(is_whole), "{rows:?}");
}

/// Cut before the end of the event that holds the finish reason, it is truncated; cut behind it, it is whole.
#[test]
fn an_answer_cut_at_any_byte_is_whole_or_truncated() {
    for reset in [false, true] {
        let rows = for_every_byte(move |link, number, at| {
            link.send(&good(number).as_bytes()[..at]);
            if reset { link.reset() } else { After::Close }
        });
        for request in rows {
            let last_of_it = finish().trim_end().len();
            let complete = good(request.seq).find(&finish()).expect("there") + last_of_it;
            if request.seq as usize >= complete {
                assert!(is_whole(&request), "reset {reset}: {request:?}");
            } else {
                let truncated = matches!(request.state, State::Failed { class: FailureClass::Truncated, .. });
                assert!(truncated, "reset {reset}, complete at {complete}: {request:?}");
            }
        }
    }
}

/// What the proxy does to one answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    /// Small pieces, each written apart.
    Pieces,
    /// Silence for a while, after so many bytes.
    Stall(usize),
    /// The end of the connection.
    Close(usize),
    /// A reset of the connection.
    Reset(usize),
}

impl Fate {
    fn of(number: u64) -> Self {
        // Within the head (about 100 bytes) and the first tokens (about 200 bytes each).
        let at = (mix(number) % 900) as usize;
        [Fate::Pieces, Fate::Stall(at), Fate::Close(at), Fate::Reset(at)][number as usize % 4]
    }
}

/// A proxy that gives the n-th request the n-th fate; whatever else passes is left alone.
fn proxy(upstream: &str, stop: Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let upstream = upstream.trim_start_matches("http://").to_owned();
    std::thread::spawn(move || {
        let posts = Arc::new(AtomicU64::new(0));
        for client in listener.incoming().flatten() {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let Ok(server) = TcpStream::connect(&upstream) else { return };
            let posts = posts.clone();
            std::thread::spawn(move || carry(client, server, &posts));
        }
    });
    url
}

/// One connection, one request: the client is told to use a fresh one each time.
fn carry(client: TcpStream, server: TcpStream, posts: &AtomicU64) {
    for stream in [&client, &server] {
        stream.set_nodelay(true).expect("set");
    }
    let mut first = [0; 4];
    let Ok(4) = client.peek(&mut first) else { return };
    let fate = (&first == b"POST").then(|| Fate::of(posts.fetch_add(1, Ordering::SeqCst)));
    let (asking, asked) = (client.try_clone().expect("cloned"), server.try_clone().expect("cloned"));
    let up = std::thread::spawn(move || {
        pass(&asking, &asked, fate.map_or(usize::MAX, |_| 700), usize::MAX);
        let _ = asked.shutdown(Shutdown::Write);
    });
    match fate {
        None => pass(&server, &client, usize::MAX, usize::MAX),
        Some(Fate::Pieces) => pass(&server, &client, 7, usize::MAX),
        Some(Fate::Stall(at)) => {
            pass(&server, &client, 50, at);
            pause(150);
            pass(&server, &client, 50, usize::MAX);
        }
        Some(Fate::Close(at)) => pass(&server, &client, 50, at),
        Some(Fate::Reset(at)) => {
            pass(&server, &client, 50, at);
            socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).expect("set");
        }
    }
    // Both ends of each socket live in both threads: the last one to go closes it.
    let _ = server.shutdown(Shutdown::Both);
    if !matches!(fate, Some(Fate::Reset(_))) {
        let _ = client.shutdown(Shutdown::Write);
    }
    let _ = client.shutdown(Shutdown::Read);
    let _ = up.join();
}

/// Passes on at most `total` bytes, in pieces.
fn pass(mut from: &TcpStream, mut to: &TcpStream, piece: usize, total: usize) {
    let mut buffer = vec![0; 16 << 10];
    let mut left = total;
    while left > 0 {
        let most = left.min(buffer.len());
        let Ok(n @ 1..) = from.read(&mut buffer[..most]) else { return };
        left -= n;
        if buffer[..n].chunks(piece.min(n)).any(|piece| to.write_all(piece).is_err()) {
            return;
        }
    }
}

/// The numbers of the requests that the engine received.
pub fn received(truth: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(truth).expect("the engine's log");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("a JSON line"));
    lines
        .filter_map(|line: serde_json::Value| line["request_id"].as_str()?.rsplit('-').next()?.parse().ok())
        .collect()
}

#[test]
fn behind_a_faulty_proxy_nothing_is_lost_and_nothing_is_sent_twice() {
    const REQUESTS: u64 = 200;
    let folder = tempfile::tempdir().expect("a folder");
    let truth = folder.path().join("truth.jsonl");
    let sim = Sim::start("sim://fixed?ttft=5ms&tpot=1ms", Some(&truth));
    let stop = Arc::<AtomicBool>::default();
    let url = proxy(&sim.url, stop.clone());
    let runs = folder.path().join("runs");
    let n = REQUESTS.to_string();
    let args = [&url, "--rate", "100", "-n", &n, "--isl", "64", "--osl", "16", "--warmup", "none"];
    let more = ["--connections", "fresh", "--no-check", "--model", "fixed", "--tokenizer", "none"];
    let ran: Run = run(&runs, &[&args[..], &more[..]].concat());
    stop.store(true, Ordering::Relaxed);
    ran.assert_books_balance();
    assert_eq!(ran.json["requests"]["offered"], REQUESTS, "{}\n{}", ran.json["requests"], ran.stderr);
    let half = REQUESTS / 2;
    assert_eq!(ran.json["requests"]["ok"], half, "{}", ran.json["requests"]);
    assert_eq!(ran.json["requests"]["failed_by_class"]["truncated"], half, "{}", ran.json["requests"]);
    for request in recorded(&runs).requests.iter().filter(|r| r.state.is_ok()) {
        assert_eq!((request.output.usage, request.chunks.len()), (Some(16), 16), "{request:?}");
    }
    drop(sim);
    let numbers = received(&truth);
    assert_eq!(numbers.len() as u64, REQUESTS);
    assert_eq!(numbers.into_iter().collect::<BTreeSet<_>>(), (0..REQUESTS).collect());
}
