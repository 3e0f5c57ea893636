//! The system calls of this crate: the only `unsafe` of it, each call in a function of its own.

#[cfg(target_os = "linux")]
use std::io;
use std::mem::MaybeUninit;

/// Reads a clock in nanoseconds; `None` if the system does not know the clock (for example that of
/// a thread that has ended).
pub(crate) fn read_clock(id: libc::clockid_t) -> Option<u64> {
    let mut ts = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the pointer is valid for writing one timespec for the duration of the call.
    let rc = unsafe { libc::clock_gettime(id, ts.as_mut_ptr()) };
    if rc != 0 {
        return None;
    }
    // SAFETY: clock_gettime returned 0, hence it filled the structure.
    let ts = unsafe { ts.assume_init() };
    Some((ts.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(ts.tv_nsec as u64))
}

/// The CPU clock of the calling thread, readable from other threads.
#[cfg(target_os = "linux")]
pub(crate) fn own_cpu_clock() -> Option<libc::clockid_t> {
    let mut id: libc::clockid_t = 0;
    // SAFETY: pthread_self() is the calling thread, which is alive; `id` is valid for writing.
    let rc = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut id) };
    (rc == 0).then_some(id)
}

/// The CPU clock of a process.
#[cfg(target_os = "linux")]
pub(crate) fn process_cpu_clock(pid: u32) -> Option<libc::clockid_t> {
    let mut id: libc::clockid_t = 0;
    // SAFETY: `id` is a valid place for the answer; the call reads nothing else of ours.
    let failed = unsafe { libc::clock_getcpuclockid(libc::pid_t::try_from(pid).ok()?, &raw mut id) };
    (failed == 0).then_some(id)
}

/// The calling thread's id as `/proc` names it.
#[cfg(target_os = "linux")]
pub(crate) fn own_tid() -> Option<u32> {
    // SAFETY: gettid takes no argument and cannot fail.
    let tid = unsafe { libc::gettid() };
    u32::try_from(tid).ok()
}

/// Ticks of `/proc/stat` a second.
#[cfg(target_os = "linux")]
pub(crate) fn ticks_per_second() -> u64 {
    // SAFETY: sysconf takes an integer and returns one.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as u64 } else { 100 }
}

/// Asks for timers of the calling thread that are as exact as the kernel can make them.
#[cfg(target_os = "linux")]
pub(crate) fn shrink_timer_slack() -> bool {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) == 0 }
}

/// Sleeps until a moment of `CLOCK_MONOTONIC`; returns early only on a signal.
#[cfg(target_os = "linux")]
pub(crate) fn sleep_until_raw(deadline_raw_ns: u64) {
    let ts = libc::timespec {
        tv_sec: (deadline_raw_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (deadline_raw_ns % 1_000_000_000) as _,
    };
    // SAFETY: `ts` lives through the call; the remainder pointer may be null with TIMER_ABSTIME.
    unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &ts, std::ptr::null_mut());
    }
}

/// The cores that the calling thread may run on.
#[cfg(target_os = "linux")]
pub(crate) fn affinity() -> Option<Vec<u32>> {
    // SAFETY: all-zero is a valid cpu_set_t, the empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is valid for writing as many bytes as are named; 0 is the calling thread.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } != 0 {
        return None;
    }
    let all = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: every number is below CPU_SETSIZE, the number of bits in the set.
    Some(all.filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).map(|core| core as u32).collect())
}

/// Keeps the calling thread on one core.
#[cfg(target_os = "linux")]
pub(crate) fn set_affinity(core: u32) -> io::Result<()> {
    if core as usize >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: all-zero is a valid cpu_set_t, and `core` was just checked to be one of its bits.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core as usize, &mut set);
        set
    };
    // SAFETY: `set` is valid for reading as many bytes as are named; 0 is the calling thread.
    checked(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) })
}

/// `SCHED_FIFO` for the calling thread, not for those that it starts.
#[cfg(target_os = "linux")]
pub(crate) fn set_fifo(priority: u8) -> io::Result<()> {
    // SAFETY: all-zero is a valid sched_param.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = libc::c_int::from(priority);
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `param` lives through the call; 0 is the calling thread.
    checked(unsafe { libc::sched_setscheduler(0, policy, &raw const param) })
}

/// Whether `RLIMIT_MEMLOCK` sets no limit.
#[cfg(target_os = "linux")]
pub(crate) fn memory_lock_is_unlimited() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit for the kernel to write to.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } == 0;
    known && limit.rlim_cur == libc::RLIM_INFINITY
}

/// Locks what was touched and what will be: stacks and heaps are reserved far larger than used.
#[cfg(target_os = "linux")]
pub(crate) fn lock_memory() -> io::Result<()> {
    // SAFETY: mlockall takes flags only; it changes no contents of memory.
    checked(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) })
}

#[cfg(target_os = "linux")]
pub(crate) fn unlock_memory() {
    // SAFETY: munlockall takes no argument; it changes no contents of memory.
    unsafe { libc::munlockall() };
}

#[cfg(target_os = "linux")]
fn checked(returned: libc::c_int) -> io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
