//! Ctrl-C (or a closed terminal) once ends the measurement cleanly, twice quits. A limit on the size of files is an
//! error of writing and no end of the program.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

/// Exit code of a second Ctrl-C, as shells have it.
const INTERRUPTED: i32 = 130;

/// A flag that the first signal sets; the second ends the process at once.
pub fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Order matters: the shutdown is armed by the flag of an earlier signal.
        flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .context("signals cannot be handled")?;
    }
    // Without a handler a write beyond `ulimit -f` kills the process; with one it fails, and is reported.
    flag::register(SIGXFSZ, Arc::default()).context("signals cannot be handled")?;
    Ok(stop)
}
