//! Pre-flight: whether this machine can carry what is asked. Running out of files, ports or memory
//! in the middle would look like a fault of the server. Everything that is missing is told at once.

mod machine;
mod need;

use std::fmt;
use std::net::IpAddr;

use plan::Plan;
use spec::{Client, Spec};

use crate::connect::Endpoint;
use machine::{Machine, TimeWait};
use need::Need;

/// Files open beside connections: journal, report, sampling, and the runtimes of lanes.
const BESIDE: u64 = 64;
/// A closed connection keeps its port for this long (`TIME_WAIT`), in seconds.
const PORT_REST_S: f64 = 60.0;
/// An open loop without a cap is told how slow answers may become, if that is less than this.
const SLOW_ANSWER_S: f64 = 30.0;

/// One thing that this machine has too little of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// Each connection is an open file.
    #[error(
        "{need} connections at once need more open files than this system allows here ({have}); raise it \
         with `ulimit -n {}`, or lower the concurrency", need + BESIDE
    )]
    Files {
        /// Connections asked for.
        need: u64,
        /// The limit.
        have: u64,
    },
    /// Each connection to one address takes a port of a source address.
    #[error(
        "{need} connections at once to {address} need more ports than this system gives out ({have}, from \
         {}); widen `net.ipv4.ip_local_port_range`, add source addresses by --bind, lower the concurrency, or \
         share the load between machines", from(*.sources)
    )]
    Ports {
        /// Connections asked for, to this address.
        need: u64,
        /// Ports that are given out.
        have: u64,
        /// Where to.
        address: String,
        /// From how many addresses.
        sources: u64,
    },
    /// A connection that has ended keeps its port for a minute.
    #[error(
        "`fresh` connections at {rate:.0}/s to {address} use up {need} ports, since each rests for a minute in \
         TIME_WAIT after its request; this system gives out {have}, from {}. Keep connections alive, lower the \
         rate to {:.0}/s, add source addresses by --bind, or set `net.ipv4.tcp_tw_reuse=1`",
        from(*.sources), *have as f64 / PORT_REST_S
    )]
    Resting {
        /// Connections a second to this address, rounded up.
        rate: u64,
        /// Ports in use or at rest after a minute, or at the end of a shorter run.
        need: u64,
        /// Ports that are given out.
        have: u64,
        /// Where to.
        address: String,
        /// From how many addresses.
        sources: u64,
    },
    /// Prompts, answers and records do not fit.
    #[error(
        "about {} of memory are needed ({what}), and {} are to be had here; lower the concurrency, the cap or the \
         lengths, measure fewer requests, or allow more memory",
        mib(*.need), mib(*.have)
    )]
    Memory {
        /// Estimate in bytes.
        need: u64,
        /// Bytes that are free, or that the cgroup still allows.
        have: u64,
        /// What takes it.
        what: String,
    },
    /// A source address that is not this machine's.
    #[error(
        "no connection can leave from {address}, which --bind names: {why}; `ip addr` lists the addresses of this machine"
    )]
    Source {
        /// The address.
        address: IpAddr,
        /// What the system said.
        why: String,
    },
    /// Source and target are of different families.
    #[error(
        "--bind {sources} cannot reach {target}, which has no address of that family ({addresses}); name a source address of the other family"
    )]
    Family {
        /// The source addresses.
        sources: String,
        /// The target.
        target: String,
        /// Its addresses.
        addresses: String,
    },
}

fn from(count: u64) -> String {
    match count {
        1 => "one source address".to_owned(),
        n => format!("{n} source addresses"),
    }
}

fn mib(bytes: u64) -> String {
    match bytes >> 20 {
        mib @ 0..10_240 => format!("{mib} MiB"),
        mib => format!("{} GiB", mib >> 10),
    }
}

/// This machine cannot carry what is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitError {
    /// Everything that is missing, at least one thing.
    pub causes: Vec<Cause>,
}

impl std::error::Error for LimitError {}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.causes.as_slice() {
            [one] => one.fmt(f),
            several => {
                write!(f, "this machine cannot carry what is asked, for {} reasons:", several.len())?;
                several.iter().try_for_each(|cause| write!(f, "\n  - {cause}"))
            }
        }
    }
}

/// Raises the limit of open files as far as the system allows, and holds what the run is sure to need
/// against what there is. Gives notes for what may become scarce.
pub(crate) fn provide(spec: &Spec, plan: &Plan, endpoints: &[&Endpoint]) -> Result<Vec<String>, LimitError> {
    let need = Need::of(spec, plan, endpoints.len());
    let machine = Machine::read();
    let mut causes = sources_stand(&spec.client, endpoints, machine::can_leave_from);
    causes.extend(shortages(&need, &machine, &routes(&spec.client, endpoints)));
    match causes.is_empty() {
        true => Ok(notes(&need, &machine, &spec.client)),
        false => Err(LimitError { causes }),
    }
}

/// One address that connections go to, and how many source addresses they leave from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    address: std::net::SocketAddr,
    sources: u64,
    /// Targets behind it.
    targets: u64,
}

/// The addresses tried first, each once. None over a Unix socket.
fn routes(client: &Client, endpoints: &[&Endpoint]) -> Vec<Route> {
    let mut routes: Vec<Route> = Vec::new();
    for endpoint in endpoints {
        let Some(address) = endpoint.addresses_from(&client.bind).next() else { continue };
        match routes.iter_mut().find(|route| route.address == address) {
            Some(route) => route.targets += 1,
            None => {
                let fitting = client.bind.iter().filter(|source| source.is_ipv4() == address.is_ipv4());
                let sources = (fitting.count() as u64).max(1);
                routes.push(Route { address, sources, targets: 1 });
            }
        }
    }
    routes
}

/// Source addresses that are this machine's, and of a family that each target has.
fn sources_stand(
    client: &Client,
    endpoints: &[&Endpoint],
    can_leave: impl Fn(IpAddr) -> Result<(), String>,
) -> Vec<Cause> {
    let mut causes: Vec<Cause> = client
        .bind
        .iter()
        .filter_map(|address| Some(Cause::Source { address: *address, why: can_leave(*address).err()? }))
        .collect();
    for endpoint in endpoints {
        if !client.bind.is_empty() && endpoint.addresses_from(&client.bind).next().is_none() {
            let list = |texts: Vec<String>| texts.join(", ");
            causes.push(Cause::Family {
                sources: client.bind.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
                target: endpoint.to_string(),
                addresses: list(endpoint.addresses.iter().map(|a| a.ip().to_string()).collect()),
            });
        }
    }
    causes
}

fn shortages(need: &Need, machine: &Machine, routes: &[Route]) -> Vec<Cause> {
    let mut causes = Vec::new();
    let connections = need.at_once.unwrap_or(0).max(need.prewarmed);
    if let Some(have) = machine.files.filter(|have| *have < connections.saturating_add(BESIDE)) {
        causes.push(Cause::Files { need: connections.max(1), have });
    }
    for route in routes {
        let Some(ports) = machine.ports else { continue };
        let have = ports.saturating_mul(route.sources);
        let address = route.address.to_string();
        // Requests are dealt to the targets in turn.
        let share = |all: u64| (all * route.targets).div_ceil(need.targets.max(1));
        let at_once = share(connections);
        if at_once > have {
            causes.push(Cause::Ports { need: at_once, have, address, sources: route.sources });
            continue;
        }
        let rests = match machine.time_wait {
            TimeWait::Kept => true,
            TimeWait::ReusedOnLoopback => !route.address.ip().is_loopback(),
            TimeWait::Reused => false,
        };
        if let Some(rate) = need.fresh_per_s.filter(|_| rests) {
            let rate = rate * route.targets as f64 / need.targets.max(1) as f64;
            let minute = (rate * PORT_REST_S).ceil() as u64;
            let used = need.requests.map_or(minute, |all| minute.min(share(all)));
            if used > have {
                let rate = rate.ceil() as u64;
                causes.push(Cause::Resting { rate, need: used, have, address, sources: route.sources });
            }
        }
    }
    if let Some(have) = machine.memory
        && need.memory() > have
    {
        causes.push(Cause::Memory { need: need.memory(), have, what: need.memory_in_words() });
    }
    causes
}

/// What is no reason to refuse, and good to know when it comes to pass.
fn notes(need: &Need, machine: &Machine, client: &Client) -> Vec<String> {
    let mut notes = Vec::new();
    let lanes = f64::from(client.lanes);
    if let Some(cores) = machine.cores.filter(|cores| *cores < lanes) {
        notes.push(format!(
            "{} lanes share {} (affinity mask and cgroup quota): they take processor time from one another. Use \
             --lanes {}, or allow more cores",
            client.lanes,
            in_cores(cores),
            (cores.floor() as u64).max(1)
        ));
    }
    // By Little's law, requests in flight are rate × mean time.
    if let (None, Some(rate), Some(files)) = (need.at_once, need.per_s, machine.files) {
        let seconds = files.saturating_sub(BESIDE) as f64 / rate;
        let all_fit = need.requests.is_some_and(|all| all + BESIDE <= files);
        if seconds < SLOW_ANSWER_S && !all_fit {
            notes.push(format!(
                "an open loop without a cap has as many connections as the server is slow: at this rate the {files} \
                 open files allowed here suffice for answers that take up to {seconds:.1} s in the mean, which was \
                 assumed; slower ones fail on this side. Bound them by --cap, or raise `ulimit -n`"
            ));
        }
    }
    if let Some(have) = machine.memory
        && need.memory() > have / 2
    {
        notes.push(format!(
            "about {} of memory were estimated ({}), more than half of the {} to be had",
            mib(need.memory()),
            need.memory_in_words(),
            mib(have)
        ));
    }
    notes
}

fn in_cores(cores: f64) -> String {
    match cores {
        1.0 => "1 core".to_owned(),
        cores if cores.fract() == 0.0 => format!("{cores:.0} cores"),
        cores => format!("{cores:.1} cores"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            files: Some(1 << 20),
            ports: Some(28_232),
            time_wait: TimeWait::ReusedOnLoopback,
            memory: Some(8 << 30),
            cores: Some(4.0),
        }
    }
    fn need(at_once: u64) -> Need {
        Need { at_once: Some(at_once), targets: 1, body: 2_600, row: 4_800, ..Need::default() }
    }
    fn route(address: &str, sources: u64, targets: u64) -> Route {
        Route { address: address.parse().unwrap(), sources, targets }
    }
    const FAR: &str = "10.0.4.17:8000";

    #[test]
    fn too_few_files_or_ports_are_refused_with_the_numbers() {
        let one = [route(FAR, 1, 1)];
        assert_eq!(shortages(&need(500), &machine(), &one), []);
        let unknown = Machine { files: None, ports: None, memory: None, cores: None, ..machine() };
        assert_eq!(shortages(&need(500), &unknown, &one), []);
        let few = Machine { files: Some(256), ..machine() };
        let causes = shortages(&need(500), &few, &one);
        assert_eq!(causes, [Cause::Files { need: 500, have: 256 }]);
        assert!(causes[0].to_string().contains("ulimit -n 564"));
        let causes = shortages(&need(32_768), &machine(), &one);
        let [Cause::Ports { need: 32_768, have: 28_232, .. }] = causes.as_slice() else {
            panic!("{causes:?}")
        };
        // Connections opened ahead count when they are more than the load asks for.
        let warmed = Need { prewarmed: 300, ..need(8) };
        assert_eq!(shortages(&warmed, &few, &one), [Cause::Files { need: 300, have: 256 }]);
    }

    #[test]
    fn ports_count_for_each_source_and_each_target_address() {
        let narrow = Machine { ports: Some(100), ..machine() };
        assert_eq!(shortages(&need(200), &narrow, &[route(FAR, 2, 1)]), []);
        assert_eq!(shortages(&need(201), &narrow, &[route(FAR, 2, 1)]).len(), 1);
        // Two targets at two addresses take half each; behind one address they share its ports.
        let two = Need { targets: 2, ..need(200) };
        let other = "10.0.4.18:8000";
        assert_eq!(shortages(&two, &narrow, &[route(FAR, 1, 1), route(other, 1, 1)]), []);
        assert_eq!(shortages(&two, &narrow, &[route(FAR, 1, 2)]).len(), 1);
        assert_eq!(
            shortages(&need(1 << 40), &narrow, &[]).len(),
            2,
            "no port over a Unix socket, but files and memory"
        );
    }

    #[test]
    fn fresh_connections_use_up_a_minute_of_ports() {
        // 60 s × 500/s = 30,000 ports, of 28,232.
        let fresh = |requests| Need {
            fresh_per_s: Some(500.0),
            per_s: Some(500.0),
            requests,
            at_once: None,
            ..need(0)
        };
        let causes = shortages(&fresh(None), &machine(), &[route(FAR, 1, 1)]);
        let [Cause::Resting { rate: 500, need: 30_000, have: 28_232, .. }] = causes.as_slice() else {
            panic!("{causes:?}")
        };
        assert!(causes[0].to_string().contains("lower the rate to 471/s"), "{}", causes[0]);
        // A run of 20,000 requests in all cannot use up more.
        assert_eq!(shortages(&fresh(Some(20_000)), &machine(), &[route(FAR, 1, 1)]), []);
        assert_eq!(shortages(&fresh(None), &machine(), &[route(FAR, 2, 1)]), []);
        // Linux takes ports at rest again on loopback, and elsewhere where it is told to.
        assert_eq!(shortages(&fresh(None), &machine(), &[route("127.0.0.1:1", 1, 1)]), []);
        let reused = Machine { time_wait: TimeWait::Reused, ..machine() };
        assert_eq!(shortages(&fresh(None), &reused, &[route(FAR, 1, 1)]), []);
        let kept = Machine { time_wait: TimeWait::Kept, ..machine() };
        assert_eq!(shortages(&fresh(None), &kept, &[route("127.0.0.1:1", 1, 1)]).len(), 1);
    }

    #[test]
    fn every_cause_is_told_at_once() {
        let poor = Machine { files: Some(100), ports: Some(50), memory: Some(1 << 20), ..machine() };
        let error = LimitError { causes: shortages(&need(1_000), &poor, &[route(FAR, 1, 1)]) };
        assert_eq!(error.causes.len(), 3);
        let text = error.to_string();
        for part in [
            "for 3 reasons:",
            "\n  - 1000 connections at once need more open files",
            "(50, from one source address)",
            "1 MiB are to be had",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_source_address_must_be_ours_and_of_the_targets_family() {
        let endpoint = |address: &str| Endpoint::resolve(&format!("http://{address}")).unwrap();
        let (v4, v6) = (endpoint("127.0.0.1:9"), endpoint("[::1]:9"));
        let client = |bind: &[&str]| Client {
            bind: bind.iter().map(|a| a.parse().unwrap()).collect(),
            ..Client::default()
        };
        let ours = client(&["127.0.0.2"]);
        assert_eq!(sources_stand(&ours, &[&v4], machine::can_leave_from), []);
        assert_eq!(sources_stand(&client(&[]), &[&v4, &v6], machine::can_leave_from), []);
        let causes = sources_stand(&ours, &[&v4, &v6], machine::can_leave_from);
        let [Cause::Family { target, .. }] = causes.as_slice() else { panic!("{causes:?}") };
        assert_eq!(target, "http://[::1]:9");
        // Reserved for documentation, so nobody has it.
        let causes = sources_stand(&client(&["192.0.2.77"]), &[&v4], machine::can_leave_from);
        assert!(matches!(causes.as_slice(), [Cause::Source { .. }]), "{causes:?}");
        assert_eq!(
            routes(&client(&["127.0.0.2", "127.0.0.3", "::1"]), &[&v4, &v6, &v4]),
            [route("127.0.0.1:9", 2, 2), route("[::1]:9", 1, 1)]
        );
    }

    #[test]
    fn notes_name_cores_memory_and_what_an_open_loop_assumes() {
        let client = Client { lanes: 3, ..Client::default() };
        assert_eq!(notes(&need(8), &machine(), &client), [""; 0]);
        let quota = Machine { cores: Some(1.5), ..machine() };
        let said = notes(&need(8), &quota, &client);
        assert!(
            said.len() == 1 && said[0].contains("3 lanes share 1.5 cores") && said[0].contains("--lanes 1")
        );
        // (1,064 − 64) files / 100 per second = 10 s.
        let open = Need { at_once: None, per_s: Some(100.0), requests: Some(3_000), ..need(0) };
        let few = Machine { files: Some(1_064), ..machine() };
        let said = notes(&open, &few, &client);
        assert!(said.len() == 1 && said[0].contains("take up to 10.0 s"), "{said:?}");
        assert_eq!(notes(&Need { requests: Some(1_000), ..open }, &few, &client), [""; 0]);
        let tight = Machine { memory: Some(need(1_000).memory() * 3 / 2), ..machine() };
        assert!(notes(&need(1_000), &tight, &client)[0].contains("more than half"));
    }
}
