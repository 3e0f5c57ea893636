//! Where a lane waits and hears: one poll for all of its HTTP/1.1 connections, whose answers are read,
//! stamped and parsed in place. A task is woken when an answer changes what is waited for, not with
//! each event of a stream: that keeps a streamed event at a few microseconds (docs/performance.md).

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use clock::{ClockSource, SystemClocks};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::io::LaneTime;
use crate::line::Line;

/// Events taken from the kernel at once.
const EVENTS: usize = 1024;
/// One read takes this much at most. Lines share the buffer: thousands of streams need no memory of
/// their own for it.
const READ: usize = 64 << 10;
/// The bell among the events.
const BELL: Token = Token(usize::MAX);

/// The poll of a lane.
pub(crate) struct Reactor {
    time: Rc<LaneTime>,
    bell: Arc<Bell>,
    inner: RefCell<Inner>,
    lines: RefCell<Lines>,
    /// When a poll last emptied the kernel's list, on `CLOCK_MONOTONIC`.
    polled: Cell<u64>,
}

struct Inner {
    poll: Poll,
    events: Events,
    buffer: Box<[u8]>,
    /// Lines that gave more than their share of a turn.
    again: Vec<usize>,
}

#[derive(Default)]
struct Lines {
    slots: Vec<Option<Rc<Line>>>,
    free: Vec<usize>,
}

/// What the lines of one turn share.
pub(crate) struct Look<'a> {
    /// The last reading of the clock in this turn, on `CLOCK_MONOTONIC`.
    pub now: u64,
    /// What the turn tells of had not come yet at this moment.
    pub not_before: u64,
    /// Read until the socket says that nothing is there.
    pub to_the_end: bool,
    /// Room for one read.
    pub buffer: &'a mut [u8],
}

const QUIET: u8 = 0;
const RUNG: u8 = 1;
const SLEEPING: u8 = 2;

/// Wakes a lane: free of charge from the lane's own thread, by an event of the poll from elsewhere.
struct Bell {
    waker: mio::Waker,
    state: AtomicU8,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(RUNG, Ordering::AcqRel) == SLEEPING {
            // It cannot fail but for lack of memory; the next one tries again.
            let _ = self.waker.wake();
        }
    }
}

impl Bell {
    fn step(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
    /// It had been rung.
    fn answer(&self) -> bool {
        self.step(RUNG, QUIET)
    }
    /// Whoever rings from now on must wake the poll. `false`: it has been rung.
    fn sleep(&self) -> bool {
        self.step(QUIET, SLEEPING)
    }
    fn awake(&self) {
        self.step(SLEEPING, QUIET);
    }
}

impl Reactor {
    /// With the stamps of this lane.
    pub fn new(time: Rc<LaneTime>) -> io::Result<Rc<Self>> {
        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), BELL)?;
        let bell = Arc::new(Bell { waker, state: AtomicU8::new(RUNG) });
        let inner = Inner {
            poll,
            events: Events::with_capacity(EVENTS),
            buffer: vec![0; READ].into_boxed_slice(),
            again: Vec::new(),
        };
        let polled = Cell::new(SystemClocks.monotonic_ns());
        Ok(Rc::new(Reactor { time, bell, inner: RefCell::new(inner), lines: RefCell::default(), polled }))
    }

    /// Listens to `line` from now on.
    pub fn add(&self, line: &Rc<Line>) -> io::Result<()> {
        let mut lines = self.lines.borrow_mut();
        let slot = lines.free.pop().unwrap_or_else(|| {
            lines.slots.push(None);
            lines.slots.len() - 1
        });
        let registered = self.inner.borrow().poll.registry().register(
            &mut SourceFd(&line.fd()),
            Token(slot),
            Interest::READABLE | Interest::WRITABLE,
        );
        if let Err(error) = registered {
            lines.free.push(slot);
            return Err(error);
        }
        line.seat(slot);
        lines.slots[slot] = Some(line.clone());
        Ok(())
    }

    /// Lets go of a line; its socket closes with its last holder.
    pub fn remove(&self, line: &Line) {
        let Some(slot) = line.unseat() else { return };
        let mut lines = self.lines.borrow_mut();
        lines.slots[slot] = None;
        lines.free.push(slot);
        // A socket that is closed anyway leaves the poll by itself.
        let _ = self.inner.borrow().poll.registry().deregister(&mut SourceFd(&line.fd()));
    }

    /// Runs the tasks and hears until they have ended, or the poll itself fails: then they are dropped.
    pub fn run(&self, tasks: impl Future<Output = ()>) {
        let waker = Waker::from(self.bell.clone());
        let mut cx = Context::from_waker(&waker);
        let mut tasks = pin!(tasks);
        let mut more = false;
        loop {
            if self.bell.answer() && tasks.as_mut().poll(&mut cx).is_ready() {
                return;
            }
            let sleeps = !more && self.bell.sleep();
            match self.turn((!sleeps).then_some(Duration::ZERO)) {
                Ok(left) => more = left,
                Err(_) => return,
            }
            self.bell.awake();
        }
    }

    /// Waits for something to happen, no longer than `limit`, and hears it. `true`: there is more.
    fn turn(&self, limit: Option<Duration>) -> io::Result<bool> {
        let inner = &mut *self.inner.borrow_mut();
        match inner.poll.poll(&mut inner.events, limit) {
            // A signal; whoever waits will wait again.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            polled => polled?,
        }
        let now = SystemClocks.monotonic_ns();
        let again = std::mem::take(&mut inner.again);
        let mut look =
            Look { now, not_before: self.polled.get(), to_the_end: false, buffer: &mut inner.buffer };
        let mut count = 0;
        for event in &inner.events {
            count += 1;
            if event.token() == BELL {
                continue;
            }
            let slot = event.token().0;
            // The end may stand behind the last bytes already: no other event will tell of it.
            look.to_the_end = event.is_read_closed() || event.is_error();
            if self.hear(slot, &mut look) {
                inner.again.push(slot);
            }
        }
        // These held bytes already when the last poll ended, and what it told of them is forgotten.
        (look.not_before, look.to_the_end) = (0, true);
        for slot in again {
            if self.hear(slot, &mut look) {
                inner.again.push(slot);
            }
        }
        let emptied = count < EVENTS;
        if emptied {
            // What a later poll tells of was not there yet.
            self.polled.set(now);
        }
        Ok(!emptied || !inner.again.is_empty())
    }

    /// `true`: the line has more. One that was let go of in this turn has not.
    fn hear(&self, slot: usize, look: &mut Look<'_>) -> bool {
        let line = self.lines.borrow().slots.get(slot).cloned().flatten();
        line.is_some_and(|line| line.happened(look, &self.time))
    }
}
