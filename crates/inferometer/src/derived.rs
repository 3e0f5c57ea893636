//! What is derived from a journal: the other files of a run folder, and its page.

use std::path::Path;

use decide::RunReport;
use record::{RecordError, Run, RunFolder};

use crate::failure::WRONG_REQUEST;
use crate::printer::Printer;

/// Writes what is derived from the journal. A full disk must not take the answer away: it is told, and the answer is
/// shown all the same. `false`: something could not be written.
pub fn keep_files(folder: &RunFolder, run: &Run, json: &serde_json::Value, printer: &Printer) -> bool {
    let mut kept = true;
    for written in [
        folder.write_run_json(json),
        record::tables::write_requests(&folder.requests_parquet(), run),
        record::tables::write_telemetry(&folder.telemetry_parquet(), run),
    ] {
        kept &= is_written(written, printer);
    }
    kept
}

/// Whether a file was written; if not, why is told.
pub fn is_written<T>(written: Result<T, RecordError>, printer: &Printer) -> bool {
    written.map_err(|error| printer.warn(&error.to_string())).is_ok()
}

/// The exit code of what was measured: a script that looks at the code alone must not take it for whole where its files
/// are not.
pub fn exit_code(code: u8, whole: bool) -> u8 {
    if code == 0 && !whole { WRONG_REQUEST } else { code }
}

/// The page of one run.
pub fn page(run: &Run, report: &RunReport, folder: &Path) -> String {
    let command = format!("inferometer run -f {}/run.json", folder.display());
    present::html::run(report, &measure::pictures(run, &report.measures), &command)
}
