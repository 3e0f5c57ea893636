//! Where lanes and pacer run: on cores of their own, before other threads, as far as this machine
//! permits. What it does not permit becomes a note of the run, with what to do about it.

use std::sync::{Arc, Mutex, PoisonError};

use clock::scheduling::{self, MemoryLock};
use spec::Client;

/// Above everything ordinary, below the kernel's own threads (50), which bring the packets.
const LANE_PRIORITY: u8 = 10;
/// The pacer sleeps nearly always, and is late if a lane goes first.
const PACER_PRIORITY: u8 = 11;

/// Notes of a run, each once.
pub(crate) type Notes = Arc<Mutex<Vec<String>>>;

/// The places of a run's threads. Memory stays locked while it lives.
pub(crate) struct Places {
    cores: Cores,
    realtime: bool,
    notes: Notes,
    _memory: Option<MemoryLock>,
}

/// One thread's place, taken on that thread.
#[derive(Clone)]
pub(crate) struct Place {
    core: Option<u32>,
    priority: Option<u8>,
    notes: Notes,
}

impl Places {
    /// As the spec asks, on this machine.
    pub fn new(client: &Client) -> Self {
        let notes = Notes::default();
        let cores = match client.pin {
            true => {
                let (cores, note) = share(&scheduling::allowed_cores(), usize::from(client.lanes));
                note.into_iter().for_each(|note| add(&notes, note));
                cores
            }
            false => Cores::default(),
        };
        let memory = client.realtime.then(MemoryLock::take).and_then(|lock| match lock {
            Ok(lock) => Some(lock),
            Err(error) => {
                add(
                    &notes,
                    format!(
                        "realtime: memory was not locked ({error}): pages may be swapped out while the run \
                         goes on. Permit it by `sudo setcap cap_sys_nice,cap_ipc_lock+ep \
                         $(command -v inferometer)`, or by `memlock unlimited` in \
                         /etc/security/limits.conf (`ulimit -l unlimited`)"
                    ),
                );
                None
            }
        });
        Places { cores, realtime: client.realtime, notes, _memory: memory }
    }
    /// Of a lane.
    pub fn lane(&self, number: u16) -> Place {
        self.place(self.cores.lanes.get(usize::from(number)).copied(), LANE_PRIORITY)
    }
    /// Of the pacer.
    pub fn pacer(&self) -> Place {
        self.place(self.cores.pacer, PACER_PRIORITY)
    }
    fn place(&self, core: Option<u32>, priority: u8) -> Place {
        Place { core, priority: self.realtime.then_some(priority), notes: self.notes.clone() }
    }
    /// What was not to be had, and what was.
    pub fn notes(&self) -> Vec<String> {
        let refused = self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let wholly = |what: &str| !refused.iter().any(|note| note.starts_with(what));
        let pinned = (!self.cores.lanes.is_empty() && wholly("pin:")).then(|| self.cores.to_string());
        let first = (self.realtime && wholly("realtime:"))
            .then(|| "realtime: lanes and pacer ran under SCHED_FIFO, in locked memory".to_owned());
        refused.iter().cloned().chain(pinned).chain(first).collect()
    }
}

impl Place {
    /// Puts the calling thread there.
    pub fn take(self) {
        if let Some(core) = self.core
            && let Err(error) = scheduling::pin_to(core)
        {
            add(&self.notes, format!("pin: a thread was not kept on core {core} ({error})"));
        }
        if let Some(priority) = self.priority
            && let Err(error) = scheduling::real_time(priority)
        {
            add(
                &self.notes,
                format!(
                    "realtime: SCHED_FIFO was not granted ({error}): lanes and pacer ran as ordinary threads. \
                     Permit it by `sudo setcap cap_sys_nice,cap_ipc_lock+ep $(command -v inferometer)`, or \
                     by `rtprio {PACER_PRIORITY}` in /etc/security/limits.conf (`ulimit -r {PACER_PRIORITY}`)"
                ),
            );
        }
    }
}

fn add(notes: &Notes, note: String) {
    let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
    if !notes.contains(&note) {
        notes.push(note);
    }
}

/// Which core is whose.
#[derive(Debug, Default, PartialEq)]
struct Cores {
    lanes: Vec<u32>,
    pacer: Option<u32>,
}

impl std::fmt::Display for Cores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lanes: Vec<String> = self.lanes.iter().map(u32::to_string).collect();
        write!(f, "pin: lanes ran on core {}", lanes.join(", "))?;
        self.pacer.map_or(Ok(()), |core| write!(f, ", the pacer on {core}"))
    }
}

/// Lanes first, then the pacer; from the highest number down, since most machines serve their
/// interrupts on the lowest. Lanes that do not all have a core of their own are better off unpinned.
fn share(allowed: &[u32], lanes: usize) -> (Cores, Option<String>) {
    let mut from_above = allowed.iter().rev().copied();
    let have = allowed.len();
    if have < lanes {
        let note = match have {
            0 => "pin: this system does not tell which cores there are; no thread was kept on a core"
                .to_owned(),
            _ => format!(
                "pin: {lanes} lanes want {lanes} cores of their own, {have} may be used here (`nproc`, \
                 `taskset -p $$`); no thread was kept on a core. Use --lanes {}, or allow more cores",
                have.saturating_sub(1).max(1)
            ),
        };
        return (Cores::default(), Some(note));
    }
    let cores = Cores { lanes: from_above.by_ref().take(lanes).collect(), pacer: from_above.next() };
    let note = cores.pacer.is_none().then(|| {
        let fewer = match lanes {
            1 => "Allow one core more".to_owned(),
            lanes => format!("Use --lanes {}, or allow one core more", lanes - 1),
        };
        format!("pin: {lanes} lanes take all {have} cores that may be used here; the pacer has none of its own. {fewer}")
    });
    (cores, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_granted_is_said() {
        let places = |notes: &[&str]| Places {
            cores: Cores { lanes: vec![3, 2], pacer: Some(1) },
            realtime: true,
            notes: Arc::new(Mutex::new(notes.iter().map(|note| (*note).to_owned()).collect())),
            _memory: None,
        };
        let (pinned, first) = (
            "pin: lanes ran on core 3, 2, the pacer on 1",
            "realtime: lanes and pacer ran under SCHED_FIFO, in locked memory",
        );
        assert_eq!(places(&[]).notes(), [pinned, first]);
        assert_eq!(places(&["realtime: refused"]).notes(), ["realtime: refused", pinned]);
    }

    #[test]
    fn cores_are_shared_out_from_above() {
        let (cores, note) = share(&[0, 1, 2, 3], 2);
        assert_eq!((cores, note), (Cores { lanes: vec![3, 2], pacer: Some(1) }, None));
        // A mask with gaps, as a container may have.
        assert_eq!(share(&[2, 9], 1).0, Cores { lanes: vec![9], pacer: Some(2) });
    }

    #[test]
    fn too_few_cores_are_noted_with_the_numbers() {
        let (cores, note) = share(&[4, 5], 2);
        assert_eq!(cores, Cores { lanes: vec![5, 4], pacer: None });
        assert!(note.unwrap().contains("2 lanes take all 2 cores"));
        let (cores, note) = share(&[4, 5], 3);
        assert_eq!(cores, Cores::default());
        let note = note.unwrap();
        assert!(
            note.contains("3 lanes want 3 cores")
                && note.contains("2 may be used")
                && note.contains("--lanes 1")
        );
        assert!(share(&[], 1).1.unwrap().contains("does not tell"));
    }

    #[test]
    fn a_note_is_told_once() {
        let notes = Notes::default();
        add(&notes, "a".to_owned());
        add(&notes, "a".to_owned());
        assert_eq!(*notes.lock().unwrap(), ["a"]);
        let places = Places::new(&Client::default());
        assert!(
            places.notes().is_empty() && places.lane(0).core.is_none() && places.pacer().priority.is_none()
        );
    }
}
