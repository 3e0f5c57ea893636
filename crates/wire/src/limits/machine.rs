//! What this machine has, read from the system. What it does not tell is `None` and refuses nothing.

use std::net::{IpAddr, TcpListener};

/// What connections and records use up.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Machine {
    /// Files that this process may have open.
    pub files: Option<u64>,
    /// Ports given out for connections, from each source address to each target address.
    pub ports: Option<u64>,
    /// What happens to the port of a connection that has ended.
    pub time_wait: TimeWait,
    /// Bytes of memory that can still be had.
    pub memory: Option<u64>,
    /// Cores that may be used.
    pub cores: Option<f64>,
}

/// Whether ports in `TIME_WAIT` are taken for new connections (`net.ipv4.tcp_tw_reuse`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeWait {
    /// Never.
    Kept,
    /// On loopback only, the default of Linux.
    ReusedOnLoopback,
    /// Everywhere.
    Reused,
}

impl Machine {
    /// Raises the limit of open files on the way.
    pub fn read() -> Self {
        let sys = |name: &str| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok();
        let room = record::client::room();
        Machine {
            files: raise(),
            ports: ports(sys("ip_local_port_range").as_deref(), sys("ip_local_reserved_ports").as_deref()),
            time_wait: time_wait(sys("tcp_tw_reuse").as_deref()),
            memory: room.memory_bytes,
            cores: room.cores,
        }
    }
}

/// Whether a connection can leave from this address.
pub(super) fn can_leave_from(address: IpAddr) -> Result<(), String> {
    TcpListener::bind((address, 0)).map(drop).map_err(|error| error.to_string())
}

/// How many ports lie between the two numbers of `ip_local_port_range` and are not reserved.
fn ports(range: Option<&str>, reserved: Option<&str>) -> Option<u64> {
    let mut ends = range?.split_whitespace().map(str::parse::<u64>);
    let (from, to) = (ends.next()?.ok()?, ends.next()?.ok()?);
    let spans = reserved.unwrap_or("").trim().split(',').filter_map(|span| {
        let (a, b) = span.split_once('-').unwrap_or((span, span));
        let (a, b): (u64, u64) = (a.parse().ok()?, b.parse().ok()?);
        Some((b.min(to) + 1).saturating_sub(a.max(from)))
    });
    Some((to + 1).saturating_sub(from).saturating_sub(spans.sum()))
}

fn time_wait(value: Option<&str>) -> TimeWait {
    match value.map(str::trim) {
        Some("1") => TimeWait::Reused,
        Some("2") => TimeWait::ReusedOnLoopback,
        _ => TimeWait::Kept,
    }
}

/// Sets the soft limit to the hard one; gives the limit then in force.
#[cfg(unix)]
fn raise() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit for the kernel to write to.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return None;
    }
    let before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is a valid rlimit for the kernel to read.
    let raised = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0;
    Some(if raised { limit.rlim_max } else { before })
}

#[cfg(not(unix))]
fn raise() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_of_the_range_that_are_not_reserved() {
        assert_eq!(ports(Some("32768\t60999\n"), None), Some(28_232));
        assert_eq!(ports(Some("32768\t60999\n"), Some("\n")), Some(28_232));
        // Outside of the range nothing is lost: 8080 is; 40000-40009 are ten, 60990-61010 ten.
        assert_eq!(ports(Some("32768 60999"), Some("8080,40000-40009,60990-61010\n")), Some(28_212));
        assert_eq!((ports(None, None), ports(Some("odd"), None)), (None, None));
        assert_eq!(ports(Some("5 4"), None), Some(0));
    }

    #[test]
    fn this_machine_answers() {
        assert_eq!(
            [None, Some("0"), Some("1\n"), Some("2")].map(time_wait),
            [TimeWait::Kept, TimeWait::Kept, TimeWait::Reused, TimeWait::ReusedOnLoopback]
        );
        let machine = Machine::read();
        assert!(machine.files.is_some_and(|n| n > 0));
        assert!(machine.cores.is_none_or(|n| n > 0.0) && machine.memory.is_none_or(|n| n > 1 << 20));
    }
}
