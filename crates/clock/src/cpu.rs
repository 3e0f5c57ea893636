//! CPU time of threads and of this process.

use spec::Nanos;

use crate::sys;

/// The CPU time of one thread, readable from another one.
#[derive(Debug, Clone, Copy)]
pub struct ThreadCpu {
    #[cfg(target_os = "linux")]
    clock: libc::clockid_t,
    tid: u32,
}

impl ThreadCpu {
    /// Of the calling thread; `None` where the system has no such clock.
    #[cfg(target_os = "linux")]
    pub fn current() -> Option<Self> {
        Some(ThreadCpu { clock: sys::own_cpu_clock()?, tid: sys::own_tid()? })
    }
    /// Of the calling thread; `None` where the system has no such clock.
    #[cfg(not(target_os = "linux"))]
    pub fn current() -> Option<Self> {
        None
    }
    /// CPU time used so far; `None` when the thread has ended.
    pub fn used(&self) -> Option<Nanos> {
        #[cfg(target_os = "linux")]
        return sys::read_clock(self.clock).map(Nanos);
        #[cfg(not(target_os = "linux"))]
        None
    }
    /// The thread's id, as `/proc` names it.
    pub fn tid(&self) -> u32 {
        self.tid
    }
}

/// CPU time that the process `pid` has used; `None` when it has ended or the system cannot tell.
pub fn of_process(pid: u32) -> Option<Nanos> {
    #[cfg(target_os = "linux")]
    return sys::process_cpu_clock(pid).and_then(sys::read_clock).map(Nanos);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = pid;
        None
    }
}

/// CPU time of this process so far, all threads.
pub fn process_cpu() -> Option<Nanos> {
    sys::read_clock(libc::CLOCK_PROCESS_CPUTIME_ID).map(Nanos)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn burn() -> u64 {
        let mut x = 1_u64;
        for i in 0..3_000_000_u64 {
            x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i));
        }
        x
    }

    #[test]
    fn another_threads_time_is_its_own_and_ends_with_it() {
        let (send, receive) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            send.send(ThreadCpu::current().unwrap()).unwrap();
            std::hint::black_box(burn());
            send.send(ThreadCpu::current().unwrap()).unwrap();
            let _ = wait.recv();
        });
        let cpu = receive.recv().unwrap();
        let again = receive.recv().unwrap();
        assert_eq!(cpu.tid(), again.tid());
        let worked = cpu.used().unwrap();
        assert!(worked > Nanos::from_micros(200), "{worked:?}");
        assert!(process_cpu().unwrap() >= worked);
        drop(go);
        thread.join().unwrap();
        // The kernel may take a moment to forget the thread; the reading never grows any more.
        if let Some(last) = cpu.used() {
            assert!(last >= worked);
        }
    }
}
