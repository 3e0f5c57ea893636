//! The machine's CPU time as `/proc` tells it. Off Linux, or where `/proc` is hidden: nothing.

use std::fs;

use spec::Nanos;

#[cfg(target_os = "linux")]
use crate::sys;

/// CPU time of all cores since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MachineTimes {
    /// Cores that are online.
    pub cores: u32,
    /// CPU time that was neither idle, nor waiting for a disk, nor taken by the hypervisor.
    pub busy: Nanos,
    /// CPU time taken by the hypervisor.
    pub steal: Nanos,
}

impl MachineTimes {
    /// As of now.
    pub fn read() -> Option<Self> {
        #[cfg(target_os = "linux")]
        return Self::parse(&fs::read_to_string("/proc/stat").ok()?, sys::ticks_per_second());
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// From the text of `/proc/stat` (proc(5): user, nice, system, idle, iowait, irq, softirq,
    /// steal, guest, guest_nice; the guests are part of user and nice already).
    pub fn parse(stat: &str, ticks_per_second: u64) -> Option<Self> {
        let tick = 1_000_000_000 / ticks_per_second.max(1);
        let all = stat.lines().find(|line| line.starts_with("cpu "))?;
        let fields: Vec<u64> = all.split_whitespace().skip(1).map_while(|f| f.parse().ok()).collect();
        let at = |i: usize| fields.get(i).copied().unwrap_or(0);
        if fields.len() < 4 {
            return None;
        }
        let cores = stat
            .lines()
            .filter(|line| line.starts_with("cpu") && line.as_bytes().get(3).is_some_and(u8::is_ascii_digit))
            .count();
        Some(MachineTimes {
            cores: cores as u32,
            busy: Nanos((at(0) + at(1) + at(2) + at(5) + at(6)) * tick),
            steal: Nanos(at(7) * tick),
        })
    }
}

/// What the scheduler did with one thread since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadSched {
    /// Time on a core.
    pub run: Nanos,
    /// Time in the run queue, ready but without a core.
    pub wait: Nanos,
    /// Times it was put on a core.
    pub slices: u64,
}

impl ThreadSched {
    /// Of a thread of this process.
    pub fn of(tid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?)
    }
    /// From the text of `schedstat`: run and wait in nanoseconds, slices.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_whitespace().map(str::parse::<u64>);
        Some(ThreadSched {
            run: Nanos(fields.next()?.ok()?),
            wait: Nanos(fields.next()?.ok()?),
            slices: fields.next()?.ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_as_proc_5_says() {
        let text = "cpu  100 20 30 4000 50 6 7 8 9 10\ncpu0 50 10 15 2000 25 3 3 4 0 0\ncpu1 50 10 15 2000 25 3 4 4 0 0\nintr 5\n";
        let times = MachineTimes::parse(text, 100).unwrap();
        // (100 + 20 + 30 + 6 + 7) ticks of 10 ms.
        assert_eq!(
            times,
            MachineTimes { cores: 2, busy: Nanos::from_millis(1_630), steal: Nanos::from_millis(80) }
        );
        assert_eq!(MachineTimes::parse("nothing here", 100), None);
        assert_eq!(MachineTimes::parse("cpu  1 2", 100), None);
    }

    #[test]
    fn schedstat_has_three_numbers() {
        assert_eq!(
            ThreadSched::parse("1171270 5048120 57\n"),
            Some(ThreadSched { run: Nanos(1_171_270), wait: Nanos(5_048_120), slices: 57 })
        );
        assert_eq!(ThreadSched::parse("1 2"), None);
        assert_eq!(ThreadSched::parse(""), None);
        assert_eq!(ThreadSched::of(u32::MAX), None);
    }
}
