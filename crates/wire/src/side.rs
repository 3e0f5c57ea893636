//! The runtime beside the lanes: a thread that keeps their alarms and watches connections while they
//! are opened. Lanes themselves wait in [`crate::reactor::Reactor`] alone.

use std::io;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Ends when it is dropped.
pub(crate) struct Side {
    handle: Handle,
    _stop: oneshot::Sender<()>,
}

impl Side {
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        std::thread::Builder::new().name("alarms".into()).spawn(move || {
            // Nothing is ever sent: it ends with the sender.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Side { handle, _stop: stop })
    }
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}
