//! Open files: a connection is one, and the limit of this process is not the server's fault.

use spec::{Load, Spec};

/// Files open beside connections: journal, report, epoll, sampling.
const BESIDE: u64 = 64;

/// The system lets this process open too few files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{need} connections at once need more open files than this system allows here ({have}); raise it with \
     `ulimit -n {}`, or lower the concurrency", need + BESIDE
)]
pub struct FileLimit {
    /// Connections asked for.
    pub need: u64,
    /// The limit.
    pub have: u64,
}

/// Raises the limit of open files as far as the system allows; an error when it does not suffice
/// for the connections that the spec is sure to open at once.
pub fn provide_files(spec: &Spec) -> Result<(), FileLimit> {
    let need = match &spec.load {
        Load::Closed(closed) => u64::from(closed.concurrency),
        Load::Open(open) => u64::from(open.cap.unwrap_or(0)),
    };
    check(need, raise())
}

fn check(need: u64, have: Option<u64>) -> Result<(), FileLimit> {
    match have {
        Some(have) if have < need.saturating_add(BESIDE) => Err(FileLimit { need, have }),
        _ => Ok(()),
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
    fn too_few_files_are_refused_with_the_numbers() {
        assert_eq!(check(500, Some(1_024)), Ok(()));
        assert_eq!(check(500, None), Ok(()));
        let error = check(500, Some(256)).unwrap_err();
        assert_eq!(error, FileLimit { need: 500, have: 256 });
        assert!(error.to_string().contains("ulimit -n 564"));
        assert!(raise().is_some());
    }
}
