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
            assert_eq!(ran.footer.warnings, [""; 0]);
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
