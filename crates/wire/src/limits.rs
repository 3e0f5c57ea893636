//! What this machine allows: open files and ports, both used up by connections. Running out of
//! them would look like a fault of the server.

use spec::{Load, Spec};

/// Files open beside connections: journal, report, epoll, sampling.
const BESIDE: u64 = 64;

/// This machine allows too few connections.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
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
    /// Each connection to one address takes a port of this machine.
    #[error(
        "{need} connections at once need more ports than this system gives out ({have}); widen \
         `net.ipv4.ip_local_port_range`, lower the concurrency, or share the load between machines"
    )]
    Ports {
        /// Connections asked for.
        need: u64,
        /// Ports that are given out.
        have: u64,
    },
}

/// Raises the limit of open files as far as the system allows; an error when files or ports do not
/// suffice for the connections that the spec is sure to open at once.
pub fn provide(spec: &Spec) -> Result<(), LimitError> {
    let need = match &spec.load {
        Load::Closed(closed) => u64::from(closed.concurrency),
        Load::Open(open) => u64::from(open.cap.unwrap_or(0)),
    };
    check(
        need,
        raise(),
        ports(std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok().as_deref()),
    )
}

fn check(need: u64, files: Option<u64>, ports: Option<u64>) -> Result<(), LimitError> {
    match (files, ports) {
        (Some(have), _) if have < need.saturating_add(BESIDE) => Err(LimitError::Files { need, have }),
        (_, Some(have)) if have < need => Err(LimitError::Ports { need, have }),
        _ => Ok(()),
    }
}

/// How many ports lie between the two numbers of `ip_local_port_range`.
fn ports(range: Option<&str>) -> Option<u64> {
    let mut ends = range?.split_whitespace().map(str::parse::<u64>);
    let (from, to) = (ends.next()?.ok()?, ends.next()?.ok()?);
    Some((to + 1).saturating_sub(from))
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
    fn too_few_files_or_ports_are_refused_with_the_numbers() {
        assert_eq!(check(500, Some(1_024), Some(28_232)), Ok(()));
        assert_eq!(check(500, None, None), Ok(()));
        let error = check(500, Some(256), None).unwrap_err();
        assert_eq!(error, LimitError::Files { need: 500, have: 256 });
        assert!(error.to_string().contains("ulimit -n 564"));
        let error = check(32_768, Some(1 << 20), ports(Some("32768\t60999\n"))).unwrap_err();
        assert_eq!(error, LimitError::Ports { need: 32_768, have: 28_232 });
        assert_eq!((ports(None), ports(Some("odd"))), (None, None));
        assert!(raise().is_some());
    }
}
