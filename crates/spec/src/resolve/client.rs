//! The measuring side: lanes, connections, and what they are opened over.

use std::collections::HashSet;
use std::path::Path;

use super::Faults;
use crate::draft::ClientDraft;
use crate::load::Load;
use crate::units::Nanos;
use crate::{Client, Connections, Target, Targets};

/// Metrics are not read more often: a page of a real engine takes it a millisecond and more.
const SHORTEST_SCRAPE: Nanos = Nanos::from_millis(10);
/// The longest path that the address of a Unix socket holds.
const LONGEST_SOCKET_PATH: usize = 107;

pub(super) fn client(
    draft: ClientDraft,
    load: &Load,
    target: Option<&Targets>,
    faults: &mut Faults,
) -> Client {
    let default = Client::default();
    let client = Client {
        lanes: draft.lanes.unwrap_or(default.lanes),
        connections: draft.connections.unwrap_or(default.connections),
        kernel_stamps: draft.kernel_stamps.unwrap_or(default.kernel_stamps),
        retries: draft.retries.unwrap_or(default.retries),
        keep_text: draft.keep_text.unwrap_or(default.keep_text),
        metrics_every: draft.metrics_every.unwrap_or(default.metrics_every),
        pin: draft.pin.unwrap_or(default.pin),
        realtime: draft.realtime.unwrap_or(default.realtime),
        bind: draft.bind.unwrap_or(default.bind),
        unix: draft.unix,
        http2: draft.http2.unwrap_or(default.http2),
    };
    if client.metrics_every.0.is_some_and(|every| every < SHORTEST_SCRAPE) {
        faults.add(
            "client.metrics_every",
            format!("{} between two readings would be a load of its own", client.metrics_every),
            "10ms or more, or off",
        );
    }
    if client.lanes == 0 {
        faults.add("client.lanes", "0 lanes would send nothing", "at least 1");
    }
    if let Load::Closed(closed) = load
        && closed.concurrency > 0
        && u32::from(client.lanes) > closed.concurrency
    {
        faults.add(
            "client.lanes",
            format!(
                "{} lanes for {} users: a lane without a user does nothing",
                client.lanes, closed.concurrency
            ),
            format!("at most {} lanes", closed.concurrency),
        );
    }
    if client.connections == Connections::Prewarmed(0) {
        faults.add(
            "client.connections",
            "`prewarmed:0` opens no connection",
            "`keepalive`, or prewarmed:N with N of at least 1",
        );
    }
    bind(&client, faults);
    if let Some(path) = &client.unix {
        unix(path, &client, target, faults);
    }
    if let Some(targets) = target {
        several(targets, faults);
        if client.http2 && targets.iter().any(|target| matches!(target, Target::Sim(_))) {
            faults.add(
                "client.http2",
                "the simulated engine speaks HTTP/1.1 only",
                "no http2, or the address of a server that speaks it",
            );
        }
    }
    client
}

fn bind(client: &Client, faults: &mut Faults) {
    let mut seen = HashSet::new();
    for address in &client.bind {
        if address.is_unspecified() || address.is_multicast() {
            faults.add(
                "client.bind",
                format!("`{address}` is no address that a connection can leave from"),
                "addresses that `ip addr` lists, or none: then the system chooses",
            );
        }
        if !seen.insert(address) {
            faults.add("client.bind", format!("`{address}` is named twice"), "each address once");
        }
    }
}

/// A Unix socket takes the place of name, port and addresses.
fn unix(path: &Path, client: &Client, target: Option<&Targets>, faults: &mut Faults) {
    let length = path.as_os_str().len();
    if length > LONGEST_SOCKET_PATH {
        faults.add(
            "client.unix",
            format!(
                "the path of a Unix socket holds at most {LONGEST_SOCKET_PATH} bytes, this one has {length}"
            ),
            "a shorter path, or a symbolic link to it",
        );
    }
    if !client.bind.is_empty() {
        faults.add(
            "client.bind",
            "a connection over a Unix socket has no source address",
            "`bind` without `unix`, or `unix` alone",
        );
    }
    let Some(targets) = target else { return };
    if targets.are_several() {
        faults.add(
            "client.unix",
            format!("one Unix socket cannot lead to {} targets", targets.count()),
            "one target, which gives the `host` header and the path",
        );
    }
    match targets.first() {
        Target::Sim(_) => faults.add(
            "client.unix",
            "a simulated engine listens on a port of its own, not on a Unix socket",
            "a target such as http://localhost with `unix`, or sim://… alone",
        ),
        Target::Http(url) => {
            if let Some(rest) = url.strip_prefix("https://") {
                faults.add(
                    "client.unix",
                    "a Unix socket never leaves this machine: TLS over it protects nothing",
                    format!("http://{rest}"),
                );
            }
        }
    }
}

fn several(targets: &Targets, faults: &mut Faults) {
    if !targets.are_several() {
        return;
    }
    let mut seen = HashSet::new();
    for target in targets.iter() {
        if matches!(target, Target::Sim(_)) {
            faults.add(
                "target",
                format!("`{target}` is simulated, and several targets share the requests"),
                "start each engine by `inferometer sim serve … --port N`, and name http://127.0.0.1:N",
            );
        }
        if !seen.insert(target.to_string()) {
            faults.add("target", format!("`{target}` is named twice"), "each target once");
        }
    }
}
