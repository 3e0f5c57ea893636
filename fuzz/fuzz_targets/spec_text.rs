//! Any text as a spec file: a spec or faults in words, and no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spec::Draft;

fuzz_target!(|text: &str| {
    if let Ok(draft) = Draft::from_text("fuzz.yaml", text) {
        let _ = draft.resolve();
    }
});
