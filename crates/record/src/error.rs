//! What can go wrong with records: every message says what was expected, what came, and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// A record that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}. {}", .path.display(), remedy(.source))]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file without a byte.
    #[error("{} is empty: the run was stopped before its first line, or the disk was full. Nothing can be recovered; run again", .path.display())]
    Empty {
        /// Which file.
        path: PathBuf,
    },
    /// Another kind of file.
    #[error("{} is no journal: expected zstd frames of JSON lines, {found}. Name a run folder, or its journal.jsonl.zst", .path.display())]
    NotAJournal {
        /// Which file.
        path: PathBuf,
        /// What is there instead.
        found: String,
    },
    /// The journal breaks off inside its first frame.
    #[error("{} ends before its first line is complete: nothing of the run was kept. Run again", .path.display())]
    NoHeader {
        /// Which file.
        path: PathBuf,
    },
    /// A header that cannot be understood although its version is ours.
    #[error("the header of {} cannot be read: {reason}. The file was changed or written by an unreleased version; read it with the version that wrote it", .path.display())]
    BadHeader {
        /// Which file.
        path: PathBuf,
        /// What the parser says.
        reason: String,
    },
    /// Written in another version of the format.
    #[error("{} has record format {found}, this version reads {known}. {}", .path.display(), if .found > .known { "Use a newer inferometer" } else { "Use the older inferometer that wrote it" })]
    WrongVersion {
        /// Which file.
        path: PathBuf,
        /// The file's version.
        found: u64,
        /// Ours.
        known: u64,
    },
    /// Two runs in one file.
    #[error("{} holds a second header: two runs were written into one file, and their requests cannot be told apart. Measure again into a folder of its own", .path.display())]
    SecondHeader {
        /// Which file.
        path: PathBuf,
    },
    /// A record that JSON cannot carry, for example a number that is not finite in a spec.
    #[error(
        "{what} cannot be written as JSON that reads back the same: {reason}. Correct the spec: every number in it must be finite"
    )]
    Unwritable {
        /// Which part.
        what: &'static str,
        /// What the check says.
        reason: String,
    },
    /// An earlier write failed, so nothing more is written.
    #[error("{} is closed after an earlier write error", .path.display())]
    Closed {
        /// Which file.
        path: PathBuf,
    },
    /// A disk that takes nothing any more.
    #[error(
        "nothing could be written to {} for {seconds} s: its disk stands still. What it holds was kept; keep runs in a folder on another disk", .path.display()
    )]
    Stuck {
        /// Which file.
        path: PathBuf,
        /// For how long.
        seconds: u64,
    },
    /// A fault of ours.
    #[error(
        "the journal's writer died of a fault in inferometer; the journal holds what was written before. Please report it"
    )]
    WriterPanicked,
    /// A columnar file cannot be made.
    #[error("cannot write the table {}: {reason}", .path.display())]
    Table {
        /// Which file.
        path: PathBuf,
        /// What the library says.
        reason: String,
    },
    /// A columnar file that cannot be read.
    #[error("{} cannot be read as a table of a run: {reason}. Name a run folder, its journal.jsonl.zst or its requests.parquet", .path.display())]
    NotATable {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A wall time that no calendar holds.
    #[error("{ns} ns since 1970 is no date: the wall clock of this machine is wrong. Set it and run again")]
    WallTime {
        /// As given.
        ns: u64,
    },
}

impl RecordError {
    /// Wraps an error of the operating system.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| RecordError::Io { action, path: path.to_owned(), source }
    }
}

/// What a user can do about an error of the operating system.
fn remedy(error: &io::Error) -> &'static str {
    use io::ErrorKind as K;
    match error.kind() {
        K::StorageFull => "The disk is full: free space, or keep runs in a folder on another disk",
        K::QuotaExceeded => "Your quota is used up: remove old runs, or keep runs in another folder",
        K::ReadOnlyFilesystem => "The file system is read-only: keep runs in a folder that can be written",
        K::PermissionDenied => {
            "You may not do this here: change the permissions, or keep runs in another folder"
        }
        K::AlreadyExists => "It exists and is never overwritten: name another, or move it away",
        K::NotFound => "Check the path: it does not exist",
        K::NotADirectory => "A part of the path is a file: name a folder",
        K::IsADirectory => "This is a folder: name a file",
        K::InvalidFilename => "The name is too long or not allowed: choose a shorter one",
        K::FileTooLarge => "A file may not grow further (see `ulimit -f`): raise the limit",
        _ => "Check the disk and the path, then run again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_path_and_a_remedy() {
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        let text = RecordError::io("write", Path::new("/a/b"))(full).to_string();
        assert!(text.contains("cannot write /a/b: ") && text.contains("free space"), "{text}");
        let read_only = io::Error::from_raw_os_error(libc::EROFS);
        let text = RecordError::io("create", Path::new("/a"))(read_only).to_string();
        assert!(text.contains("read-only"), "{text}");
        let old = RecordError::WrongVersion { path: "j".into(), found: 9, known: 1 }.to_string();
        assert!(old.contains("record format 9") && old.contains("newer"), "{old}");
    }
}
