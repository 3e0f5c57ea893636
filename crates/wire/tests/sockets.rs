//! Where connections leave from and arrive, where threads run, and what this machine refuses.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod rig;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rig::*;
use spec::*;

/// Ten requests of two users.
fn ten(url: &str) -> Spec {
    spec(url, closed(2), Extent::Requests(10))
}

#[test]
fn source_addresses_are_used_in_turn() {
    let server = Server::start(|_, stream| {
        put(stream, &whole(1));
        After::Keep
    });
    let mut spec = ten(&server.url());
    spec.client.connections = Connections::Fresh;
    spec.client.bind = ["127.0.0.2", "127.0.0.3"].map(|a| a.parse().unwrap()).to_vec();
    let ran = run(&spec);
    assert!(ran.rows.iter().all(|r| r.state.is_ok()), "{:?}", ran.rows[0].state);
    let mut from: BTreeMap<String, u32> = BTreeMap::new();
    for asked in server.asked.lock().unwrap().iter() {
        *from.entry(asked.peer.ip().to_string()).or_default() += 1;
    }
    assert_eq!(from, BTreeMap::from([("127.0.0.2".to_owned(), 5), ("127.0.0.3".to_owned(), 5)]));
}

#[test]
fn ipv6_from_a_source_of_its_family() {
    let server = Server::start_on("[::1]:0", |_, stream| {
        put(stream, &whole(1));
        After::Keep
    });
    let mut spec = ten(&server.url());
    // The one of the other family has no turn.
    spec.client.bind = ["127.0.0.2", "::1"].map(|a| a.parse().unwrap()).to_vec();
    let ran = run(&spec);
    assert!(ran.rows.iter().all(|r| r.state.is_ok()), "{:?}", ran.rows[0].state);
    let asked = server.asked.lock().unwrap();
    assert!(asked.len() == 10 && asked.iter().all(|a| a.peer.ip().to_string() == "::1"));
    assert!(asked[0].head.contains(&format!("host: [::1]:{}", server.address.port())), "{}", asked[0].head);
}

/// Each connection is of one lane, as far as the server can tell too.
#[test]
fn connections_never_leave_their_lane() {
    let server = Server::start(|_, stream| {
        put(stream, &whole(1));
        After::Keep
    });
    let mut spec = spec(&server.url(), closed(5), Extent::Requests(60));
    spec.client.lanes = 2;
    let ran = run(&spec);
    let mut of_server: BTreeMap<u32, (u16, u32)> = BTreeMap::new();
    let mut reused = 0;
    for asked in server.asked.lock().unwrap().iter() {
        let seq: usize =
            asked.head.split("x-request-id: test-").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
        let row = &ran.rows[seq];
        let connection = row.connection.unwrap();
        let ours = (row.lane, connection.id);
        assert_eq!(*of_server.entry(asked.connection).or_insert(ours), ours);
        assert_eq!(connection.reused, asked.on_connection > 0);
        reused += u32::from(connection.reused);
    }
    assert!(of_server.len() <= 5 && reused >= 55, "{} connections", of_server.len());
    assert_eq!(of_server.values().collect::<std::collections::BTreeSet<_>>().len(), of_server.len());
}

#[test]
fn what_is_missing_is_refused_before_any_request() {
    let server = Server::start(|_, _| After::Close);
    let mut spec = spec(&server.url(), closed(4_000_000), Extent::Duration(Span(ms(100))));
    spec.client.bind = vec!["192.0.2.77".parse().unwrap()];
    let wire::DriveError::Limit(error) = refused(&spec) else { panic!("not refused for want of anything") };
    let text = error.to_string();
    assert!(error.causes.len() >= 2, "{text}");
    assert!(text.contains("192.0.2.77") && text.contains("4000000 connections at once"), "{text}");
    assert!(server.asked.lock().unwrap().is_empty());
}

#[cfg(unix)]
#[test]
fn a_unix_socket_is_spoken_over_with_stamps_of_our_own() {
    let folder = std::env::temp_dir().join(format!("inferometer-unix-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("llm.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let keep = heads.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, keep) = (stream.unwrap(), keep.clone());
            std::thread::spawn(move || {
                while let Some((head, _)) = read_request(&mut stream) {
                    keep.lock().unwrap().push(head);
                    put(&mut stream, STREAM_HEAD);
                    put(&mut stream, &chunk(&token("a")));
                    sleep_ms(15);
                    put(&mut stream, &(chunk(&token("b")) + &chunk(&finish(2)) + "0\r\n\r\n"));
                }
            });
        }
    });
    let mut spec = spec("http://llm.local/v2", closed(2), Extent::Requests(6));
    spec.client.unix = Some(path.clone());
    let ran = run(&spec);
    for row in &ran.rows {
        assert!(row.state.is_ok(), "{:?}", row.state);
        assert!(row.chunks.iter().all(|c| !c.kernel && c.arrival == c.seen && c.earliest <= c.seen));
        let (first, last) = (row.chunks.first().unwrap(), row.chunks.last().unwrap());
        assert!(last.arrival.since(first.arrival).unwrap() >= ms(10));
        assert!(row.write_begin.unwrap() <= row.write_end.unwrap());
    }
    assert_eq!(ran.rows.iter().filter(|r| r.connection.unwrap().reused).count(), 4);
    let heads = heads.lock().unwrap();
    assert!(
        heads.iter().all(|h| h.starts_with("POST /v2/v1/chat/completions ") && h.contains("host: llm.local"))
    );
    let session = wire::Session::open(&spec, None, None).unwrap();
    assert_eq!(session.addresses(), [format!("unix:{}", path.display())]);
    // Nobody listens.
    spec.client.unix = Some(folder.join("none.sock"));
    spec.api.readiness.check = true;
    let error = wire::Session::open(&spec, None, None).unwrap_err().to_string();
    assert!(error.contains("none.sock") && error.contains("ss -xl"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn requests_are_dealt_to_the_targets_by_their_number() {
    let seqs = |server: &Server| -> Vec<u64> {
        let asked = server.asked.lock().unwrap();
        let seq = |head: &str| head.split("x-request-id: test-").nth(1)?.lines().next()?.parse().ok();
        let mut seqs: Vec<u64> = asked.iter().filter_map(|a| seq(&a.head)).collect();
        seqs.sort_unstable();
        seqs
    };
    let quick = || {
        Server::start(|_, stream| {
            put(stream, &whole(1));
            After::Keep
        })
    };
    for (lanes, load) in [(1, closed(3)), (2, open("500", Burstiness::POISSON, None))] {
        let (a, b) = (quick(), quick());
        let mut spec = spec(&a.url(), load, Extent::Requests(20));
        spec.target = Targets::new([a.url(), b.url()].map(|url| url.parse().unwrap())).unwrap();
        spec.client.lanes = lanes;
        let ran = run(&spec);
        assert!(ran.rows.iter().all(|r| r.state.is_ok()), "{:?}", ran.rows[0].state);
        assert_eq!(seqs(&a), (0..20).step_by(2).collect::<Vec<_>>());
        assert_eq!(seqs(&b), (1..20).step_by(2).collect::<Vec<_>>());
        let host = |s: &Server| format!("host: {}", s.address);
        assert!(b.asked.lock().unwrap().iter().all(|asked| asked.head.contains(&host(&b))));
        // Numbers of connections are the lane's, whatever the target.
        let fresh = ran.rows.iter().filter(|r| !r.connection.unwrap().reused);
        let ids: Vec<_> = fresh.map(|r| (r.lane, r.connection.unwrap().id)).collect();
        assert_eq!(ids.iter().collect::<std::collections::BTreeSet<_>>().len(), ids.len());
    }
}

#[test]
fn every_target_must_be_ready_and_have_the_model() {
    let offering = |models: &'static str| {
        Server::start(move |asked, stream| {
            match asked.head.starts_with("GET /v1/models ") {
                true => put(stream, &plain("200 OK", models)),
                false => put(stream, &whole(1)),
            }
            After::Keep
        })
    };
    let (a, b) = (offering(r#"{"data":[{"id":"m"}]}"#), offering(r#"{"data":[{"id":"x"},{"id":"m"}]}"#));
    let other = offering(r#"{"data":[{"id":"x"}]}"#);
    let asked = |targets: &[String]| {
        let mut spec = ten(&targets[0]);
        spec.target = Targets::new(targets.iter().map(|url| url.parse().unwrap())).unwrap();
        spec.api.model = None;
        spec.api.readiness.check = true;
        wire::Session::open(&spec, None, None)
    };
    let session = asked(&[a.url(), b.url()]).unwrap();
    assert_eq!((session.model.as_str(), session.metrics), ("m", false));
    assert_eq!(session.addresses(), [a.address.to_string(), b.address.to_string()]);
    let error = asked(&[a.url(), other.url()]).unwrap_err().to_string();
    assert!(error.contains(&other.url()) && error.contains("does not offer `m`"), "{error}");
    // The second one is not there.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = asked(&[a.url(), format!("http://{gone}")]).unwrap_err().to_string();
    assert!(error.contains(&gone.to_string()), "{error}");
}

#[test]
fn connections_opened_ahead_are_timed_and_nobody_waited_for_them() {
    let server = Server::start(|_, stream| {
        put(stream, &whole(1));
        After::Keep
    });
    let mut spec = spec(&server.url(), closed(3), Extent::Requests(9));
    spec.client.connections = Connections::Prewarmed(3);
    let ran = run(&spec);
    let first: Vec<_> = ran.rows.iter().map(|r| r.connection.unwrap()).filter(|c| !c.reused).collect();
    assert_eq!(first.len(), 3);
    assert!(first.iter().all(|c| c.ahead && c.connect.is_some() && c.waited().is_none()), "{first:?}");
    assert_eq!(ran.live.snapshot().ahead, (3, 3));
}

/// A server whose queue of connections is full and who takes none out of it.
#[test]
fn a_server_that_takes_fewer_connections_is_known_before_the_first_request() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    socket.listen(3).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut spec = spec(&format!("http://{address}"), closed(1), Extent::Requests(1));
    spec.client.connections = Connections::Prewarmed(40);
    spec.client.lanes = 1;
    spec.timeouts.connect = Limit(Some(ms(300)));
    let error = refused(&spec);
    let wire::DriveError::Prewarm { standing, wanted: 40, .. } = &error else { panic!("{error}") };
    assert!((1..40).contains(standing), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(&format!("of 40 connections that were to be opened ahead, {standing} stand")),
        "{text}"
    );
    assert!(text.contains("within 300ms"), "{text}");
}

/// What `/proc` says of this process's threads of these names.
#[cfg(target_os = "linux")]
fn threads(field: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let read = |file| std::fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let (name, status) = (read("comm").trim().to_owned(), read("status"));
        if let Some(value) = status.lines().find_map(|l| l.strip_prefix(field)) {
            found.insert(name, value.trim_start_matches(':').trim().to_owned());
        }
    }
    found
}

#[cfg(target_os = "linux")]
#[test]
fn pinned_threads_have_a_core_of_their_own_or_a_note_says_why_not() {
    let seen = Arc::new(Mutex::new(BTreeMap::new()));
    let keep = seen.clone();
    let server = Server::start(move |_, stream| {
        // The pacer ends with the last send.
        keep.lock().unwrap().extend(threads("Cpus_allowed_list"));
        put(stream, &whole(1));
        After::Keep
    });
    let cores = clock::scheduling::allowed_cores().len();
    let mut spec = spec(&server.url(), open("200", Burstiness::POISSON, None), Extent::Requests(20));
    spec.client.pin = true;
    let ran = run(&spec);
    assert!(ran.rows.iter().all(|r| r.state.is_ok()));
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let single = |name: &str| seen[name].parse::<u32>().ok();
    assert!(single("lane-0").is_some(), "{seen:?}");
    match cores {
        1 => assert!(ran.footer.warnings.iter().any(|w| w.contains("pacer has none of its own"))),
        _ => {
            assert!(single("pacer").is_some() && single("pacer") != single("lane-0"), "{seen:?}");
            let (lane, pacer) = (single("lane-0").unwrap(), single("pacer").unwrap());
            assert_eq!(ran.footer.warnings, [format!("pin: lanes ran on core {lane}, the pacer on {pacer}")]);
        }
    }
    // More lanes than cores: none is pinned, and the run goes on.
    spec.client.lanes = cores as u16 + 1;
    let ran = run(&spec);
    assert!(ran.rows.iter().all(|r| r.state.is_ok()));
    let wanted = format!("{} lanes want {} cores of their own", cores + 1, cores + 1);
    assert!(ran.footer.warnings.iter().any(|w| w.contains(&wanted)), "{:?}", ran.footer.warnings);
}

#[cfg(target_os = "linux")]
#[test]
fn realtime_is_granted_or_noted() {
    let policies = Arc::new(Mutex::new(BTreeMap::new()));
    let keep = policies.clone();
    let server = Server::start(move |_, stream| {
        let mut all = BTreeMap::new();
        for entry in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let Some((name, fields)) = stat.rsplit_once(')') else { continue };
            // proc(5): field 41 is the policy, the first after the name is field 3.
            let policy = fields.split_whitespace().nth(38).unwrap_or_default().to_owned();
            all.insert(name.split_once('(').unwrap().1.to_owned(), policy);
        }
        keep.lock().unwrap().extend(all);
        put(stream, &whole(1));
        After::Keep
    });
    let mut spec = spec(&server.url(), open("200", Burstiness::POISSON, None), Extent::Requests(20));
    spec.client.realtime = true;
    let ran = run(&spec);
    assert!(ran.rows.iter().all(|r| r.state.is_ok()));
    let noted = ran.footer.warnings.iter().any(|w| w.contains("SCHED_FIFO was not granted"));
    let policies = policies.lock().unwrap();
    let expected = if noted { "0" } else { "1" };
    assert_eq!((policies["lane-0"].as_str(), policies["pacer"].as_str()), (expected, expected));
    assert_eq!(policies["sampler"], "0");
    assert!(ran.footer.warnings.iter().all(|w| w.starts_with("realtime: ")), "{:?}", ran.footer.warnings);
}
