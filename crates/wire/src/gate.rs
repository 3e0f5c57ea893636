//! Users who go on together: each waits until all have their answers.

use std::sync::{Arc, Mutex, PoisonError};

use spec::Nanos;
use tokio::sync::watch;

/// Where the users of a closed loop wait for each other, over all lanes.
pub(crate) struct Gate {
    state: Mutex<State>,
    opened: watch::Sender<Nanos>,
}

struct State {
    /// Users who take part.
    members: u32,
    /// Of these, those who wait.
    here: u32,
    /// When the last of them came.
    last: Nanos,
}

/// A user's part in it; who is dropped is waited for no more.
pub(crate) struct Member(Arc<Gate>);

impl Gate {
    /// For so many users.
    pub fn new(members: u32) -> Arc<Self> {
        let state = State { members, here: 0, last: Nanos::ZERO };
        Arc::new(Gate { state: Mutex::new(state), opened: watch::Sender::new(Nanos::ZERO) })
    }

    /// Lets all go on if all are there; the moment at which the last came.
    fn open(&self, state: &mut State) -> Option<Nanos> {
        if state.here == 0 || state.here < state.members {
            return None;
        }
        let last = std::mem::take(&mut state.last);
        state.here = 0;
        self.opened.send_replace(last);
        Some(last)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// One of the users that the gate was made for.
    pub fn of(gate: &Arc<Gate>) -> Self {
        Member(gate.clone())
    }

    /// Free at `at`, waits for the others; the moment at which the last was free.
    pub async fn together(&self, at: Nanos) -> Nanos {
        // Heard from here on: it cannot open before this user is there.
        let mut opened = self.0.opened.subscribe();
        {
            let mut state = self.0.state();
            state.here += 1;
            state.last = state.last.max(at);
            if let Some(last) = self.0.open(&mut state) {
                return last;
            }
        }
        // The gate lives as long as its members: its end of the channel stays.
        let _ = opened.changed().await;
        *opened.borrow()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.members = state.members.saturating_sub(1);
        // A member that is dropped while it waits is cut, and so are the others.
        state.here = state.here.min(state.members);
        self.0.open(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_go_on_when_the_last_is_free_and_nobody_waits_for_who_has_left() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let gate = Gate::new(3);
            let [a, b, c] = [(); 3].map(|()| Member::of(&gate));
            for turn in [0_u64, 100] {
                let at = |n: u64| Nanos(turn + n);
                let (x, y, z) = tokio::join!(a.together(at(5)), b.together(at(9)), c.together(at(7)));
                assert_eq!([x, y, z], [at(9); 3]);
            }
            let (x, y, ()) = tokio::join!(a.together(Nanos(1)), b.together(Nanos(2)), async { drop(c) });
            assert_eq!([x, y], [Nanos(2); 2]);
        });
    }
}
