//! What is kept of this machine between two starts of the program.

use std::path::PathBuf;

use record::{SelfCheck, self_check};

use crate::printer::Printer;

/// What is known of this machine.
pub struct Known {
    /// Its newest self-check.
    pub check: Option<SelfCheck>,
    /// Which one that is, or why there is none.
    pub source: String,
    /// Where it lies.
    pub file: Option<PathBuf>,
}

/// `INFEROMETER_STATE_DIR`, else `XDG_STATE_HOME/inferometer`, else `~/.local/state/inferometer`.
fn folder() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("INFEROMETER_STATE_DIR")
        .or_else(|| Some(named("XDG_STATE_HOME")?.join("inferometer")))
        .or_else(|| Some(named("HOME")?.join(".local/state/inferometer")))
}

/// Looks it up. Files that cannot be read are told and left alone.
pub fn known(printer: &Printer) -> Known {
    let found = folder().map(|folder| self_check::find(&folder, &super::this_machine())).unwrap_or_default();
    for why in &found.broken {
        printer.warn(&format!("a self-check is not used: {why}"));
    }
    let source = match (&found.check, found.foreign, found.broken.is_empty()) {
        (Some(check), ..) => {
            let quick = if check.quick { ", quick" } else { "" };
            format!("self-check of {}{quick}", check.measured)
        }
        (None, 0, true) => "no self-check: run `inferometer self-check`".to_owned(),
        (None, 0, false) => "no self-check that can be read: run `inferometer self-check`".to_owned(),
        (None, ..) => {
            "no self-check of this processor, kernel and version: run `inferometer self-check`".to_owned()
        }
    };
    Known { check: found.check, source, file: found.file }
}

/// Keeps a self-check. One that cannot be kept is still told.
pub fn keep(check: &SelfCheck, printer: &Printer) -> Option<PathBuf> {
    let Some(folder) = folder() else {
        printer.warn("the self-check is not kept: neither INFEROMETER_STATE_DIR nor HOME is set");
        return None;
    };
    self_check::keep(&folder, check)
        .map_err(|error| printer.warn(&format!("the self-check is not kept: {error}")))
        .ok()
}
