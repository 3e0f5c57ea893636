//! Where a lane hears: one poll of its own for all of its HTTP/1.1 connections, whose answers are
//! read, stamped and parsed in place. A task is woken when an answer changes what is waited for, not
//! with each event of a stream: that is what keeps a streamed event at a few microseconds
//! (docs/performance.md).

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use clock::{ClockSource, SystemClocks};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use tokio::io::unix::AsyncFd;

use crate::io::{LaneTime, watch};
use crate::line::Line;

/// Events taken from the kernel at once.
const EVENTS: usize = 1024;
/// One read takes this much at most. Lines share the buffer: thousands of streams need no memory of
/// their own for it.
const READ: usize = 64 << 10;

/// The poll of a lane.
pub(crate) struct Reactor {
    time: Rc<LaneTime>,
    /// Readable in the runtime's own poll when an event waits in this one.
    poll: AsyncFd<OwnedFd>,
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

impl Reactor {
    /// To be made on the lane's runtime.
    pub fn new(time: Rc<LaneTime>) -> io::Result<Rc<Self>> {
        let poll = Poll::new()?;
        let fd = poll.registry().as_fd().try_clone_to_owned()?;
        let fd = watch(fd)?;
        let inner = Inner {
            poll,
            events: Events::with_capacity(EVENTS),
            buffer: vec![0; READ].into_boxed_slice(),
            again: Vec::new(),
        };
        let polled = Cell::new(SystemClocks.monotonic_ns());
        Ok(Rc::new(Reactor { time, poll: fd, inner: RefCell::new(inner), lines: RefCell::default(), polled }))
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

    /// Hears until the poll itself fails.
    pub async fn run(&self) {
        loop {
            let Ok(mut guard) = self.poll.readable().await else { return };
            match self.turn() {
                // Everything that had happened was heard; what comes is told anew.
                Ok(true) => guard.clear_ready(),
                // More waits: whoever else wants the lane has a turn in between.
                Ok(false) => tokio::task::yield_now().await,
                Err(_) => return,
            }
        }
    }

    /// One look at the kernel's list. `true`: nothing is left on it.
    fn turn(&self) -> io::Result<bool> {
        let inner = &mut *self.inner.borrow_mut();
        loop {
            match inner.poll.poll(&mut inner.events, Some(Duration::ZERO)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                polled => break polled?,
            }
        }
        let now = SystemClocks.monotonic_ns();
        let again = std::mem::take(&mut inner.again);
        let mut look =
            Look { now, not_before: self.polled.get(), to_the_end: false, buffer: &mut inner.buffer };
        let mut count = 0;
        for event in &inner.events {
            count += 1;
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
        Ok(emptied && inner.again.is_empty())
    }

    /// `true`: the line has more. One that was let go of in this turn has not.
    fn hear(&self, slot: usize, look: &mut Look<'_>) -> bool {
        let line = self.lines.borrow().slots.get(slot).cloned().flatten();
        line.is_some_and(|line| line.happened(look, &self.time))
    }
}
