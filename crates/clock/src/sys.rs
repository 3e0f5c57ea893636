//! The system calls of this crate: the only `unsafe` of it, each call in a function of its own.

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
