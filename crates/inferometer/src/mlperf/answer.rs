//! The layers on the screen, and the exit code that they stand for.

use decide::verdict::exit;
use mlperf::layers::{Layer, Layers, Status};
use present::Tone;

use crate::printer::Printer;

/// Each layer with its checks.
pub fn tell(all: &Layers, printer: &Printer) {
    let word = |status: Status| match status {
        Status::Passed => printer.style.paint(Tone::Pass, "passed"),
        Status::Failed => printer.style.paint(Tone::Fail, "failed"),
        Status::Incomplete => printer.style.paint(Tone::Unsure, "incomplete"),
    };
    for layer in &all.layers {
        printer.say(&format!("{} {}: {}", layer.id, layer.title, word(layer.status)));
        for check in &layer.checks {
            let words = printer.style.plain(&check.words);
            printer.say(&format!("  {}: {}: {words}", check.id, word(check.status)));
            if let Some(hole) = &check.hole {
                printer.say(&format!("    hole of the reference checker: {}", printer.style.plain(hole)));
            }
        }
    }
}

/// Of a folder that is looked at: all layers asked for count.
pub fn code_of_all<'a>(layers: impl IntoIterator<Item = &'a Layer>) -> u8 {
    match layers.into_iter().map(|layer| layer.status).max() {
        Some(Status::Passed) => exit::HOLDS,
        Some(Status::Failed) => exit::MISSED,
        _ => exit::UNDECIDED,
    }
}

/// Of a run that was made: its integrity and LoadGen's verdict; what a submission would need beside it is told, and
/// decides nothing here. `answered`: samples that were answered.
pub fn code_of_run(all: &Layers, answered: u64) -> u8 {
    if answered == 0 {
        return exit::NOTHING;
    }
    let own = |id: &str| ["schedule_lag", "client", "clock"].contains(&id);
    let integrity = all.layers.iter().filter(|layer| layer.id == "L1");
    if integrity.flat_map(|layer| &layer.checks).any(|check| own(check.id) && check.status == Status::Failed)
    {
        return exit::NOT_TRUSTED;
    }
    code_of_all(all.layers.iter().filter(|layer| ["L1", "L2"].contains(&layer.id)))
}
