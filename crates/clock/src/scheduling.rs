//! Where threads run and how the scheduler ranks them: cores of their own, `SCHED_FIFO`, memory
//! that is never swapped out. Everything is refused with the system's own error off Linux.

use std::io;

#[cfg(target_os = "linux")]
use crate::sys;

/// Cores that this thread may run on, by their numbers in `/proc`, ascending. Empty: the system
/// does not tell.
pub fn allowed_cores() -> Vec<u32> {
    #[cfg(target_os = "linux")]
    return sys::affinity().unwrap_or_default();
    #[cfg(not(target_os = "linux"))]
    Vec::new()
}

/// Keeps the calling thread on one core from now on.
pub fn pin_to(core: u32) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return sys::set_affinity(core);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = core;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Puts the calling thread under `SCHED_FIFO` at `priority` (1 to 99); threads that it starts are
/// not. Needs `CAP_SYS_NICE` or a limit `RTPRIO` of at least `priority`.
pub fn real_time(priority: u8) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return sys::set_fifo(priority);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = priority;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// While it lives, pages of this process that were touched stay in memory.
#[derive(Debug)]
pub struct MemoryLock(());

impl MemoryLock {
    /// Locks all that this process has and will have. Refused unless all of it may be locked: under
    /// a lower limit the first allocation beyond it would fail.
    pub fn take() -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        {
            let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
            if !(holds_capability(&status, CAP_IPC_LOCK) || sys::memory_lock_is_unlimited()) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            sys::lock_memory().map(|()| MemoryLock(()))
        }
        #[cfg(not(target_os = "linux"))]
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        sys::unlock_memory();
    }
}

/// capabilities(7): lock memory beyond the limit.
#[cfg(target_os = "linux")]
const CAP_IPC_LOCK: u32 = 14;

/// Whether the effective set in a text of `/proc/self/status` holds a capability.
#[cfg(target_os = "linux")]
fn holds_capability(status: &str, number: u32) -> bool {
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set >> number & 1 == 1)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_has_one_core_and_leaves_the_others_alone() {
        let before = allowed_cores();
        assert!(!before.is_empty());
        let core = *before.last().unwrap();
        let seen = std::thread::spawn(move || {
            pin_to(core).unwrap();
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            (allowed_cores(), status)
        });
        let (cores, status) = seen.join().unwrap();
        assert_eq!(cores, [core]);
        let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap();
        assert_eq!(list.trim(), core.to_string());
        assert_eq!(allowed_cores(), before);
        assert!(pin_to(100_000).is_err());
    }

    #[test]
    fn capabilities_are_read_from_the_effective_set() {
        let status = "CapPrm:\t000001ffffffffff\nCapEff:\t0000000000004000\n";
        assert!(holds_capability(status, CAP_IPC_LOCK) && !holds_capability(status, 23));
        assert!(!holds_capability("CapEff:\tx", 14) && !holds_capability("", 14));
    }

    /// Granted or refused with a reason: the test's machine decides which.
    #[test]
    fn real_time_is_granted_to_the_thread_or_refused() {
        let outcome = std::thread::spawn(|| {
            let outcome = real_time(10);
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            (outcome.is_ok(), stat)
        });
        let (granted, stat) = outcome.join().unwrap();
        // proc(5): fields 40 and 41 are rt_priority and policy; the name before may hold blanks.
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        // Bit 30 would be SCHED_RESET_ON_FORK; the policy alone is told here.
        assert_eq!((fields[37], fields[38]), if granted { ("10", "1") } else { ("0", "0") });
        assert!(std::thread::spawn(|| real_time(0)).join().unwrap().is_err());
    }

    #[test]
    fn locked_memory_is_unlocked_again() {
        let locked = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let field = status.lines().find_map(|l| l.strip_prefix("VmLck:").map(str::to_owned)).unwrap();
            field.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        if let Ok(lock) = MemoryLock::take() {
            assert!(locked() > 0);
            drop(lock);
        }
        assert_eq!(locked(), 0);
    }
}
