//! Answers on disk: JSON lines, added one after another, that survive a kill and go on where they ended.
//!
//! A header, entries in the order in which they came, and when all are there a footer; then the file is put in order
//! and replaced as a whole. A line that a kill has cut is dropped, and asked for again.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use record::RecordError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<H, T> {
    Header(H),
    Entry(T),
    Footer(Footer),
}

/// The last line of answers that are complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footer {
    /// How many.
    pub entries: u64,
}

/// What a journal holds.
#[derive(Debug, Clone)]
pub struct Kept<H, T> {
    /// What was asked, of whom.
    pub header: H,
    /// Answers.
    pub entries: Vec<T>,
    /// Whether all are there.
    pub complete: bool,
}

/// A journal that is written.
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Bytes of whole lines.
    length: u64,
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    let path = path.to_owned();
    move |source| Failure::request(RecordError::Io { action, path, source })
}

/// Reads a journal as far as it is whole; the second is the length of that in bytes.
fn parse<H: DeserializeOwned, T: DeserializeOwned>(path: &Path) -> Result<(Option<Kept<H, T>>, u64)> {
    crate::files::check(path, "answers")?;
    let mut reader = BufReader::new(File::open(path).map_err(io("open", path))?);
    let (mut kept, mut length, mut number) = (None::<Kept<H, T>>, 0, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).map_err(io("read", path))?;
        number += 1;
        // Cut by a kill: asked for again.
        if read == 0 || line.last() != Some(&b'\n') {
            return Ok((kept, length));
        }
        let parsed = serde_json::from_slice(&line).with_context(|| {
            format!("line {number} of {} was not written by this version of inferometer", path.display())
        });
        match (parsed.map_err(Failure::request)?, &mut kept) {
            (Line::Header(header), None) => {
                kept = Some(Kept { header, entries: Vec::new(), complete: false })
            }
            (Line::Entry(entry), Some(kept)) => kept.entries.push(entry),
            (Line::Footer(footer), Some(kept)) => kept.complete = footer.entries == kept.entries.len() as u64,
            _ => {
                return Err(Failure::request(anyhow!(
                    "line {number} of {} is out of place: a journal begins with one header",
                    path.display()
                ))
                .into());
            }
        }
        length += read as u64;
    }
}

/// What was kept in a file.
pub fn read<H: DeserializeOwned, T: DeserializeOwned>(path: &Path) -> Result<Kept<H, T>> {
    match parse(path)? {
        (Some(kept), _) => Ok(kept),
        (None, _) => Err(Failure::request(anyhow!(
            "{} ends before its first line is complete: nothing was kept. Ask again",
            path.display()
        ))
        .into()),
    }
}

impl Journal {
    /// Begins a journal, or goes on with the one that is there; then `same` says whether it may, by its header.
    pub fn open<H: Serialize + DeserializeOwned, T: Serialize + DeserializeOwned>(
        path: &Path,
        header: H,
        same: impl FnOnce(&H, &H) -> Result<()>,
    ) -> Result<(Self, Kept<H, T>)> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(io("create", folder))?;
        }
        let file = OpenOptions::new().read(true).append(true).create(true).open(path);
        let file = file.map_err(io("open", path))?;
        // Given back when this process ends, however it ends.
        if file.try_lock().is_err() {
            return Err(Failure::request(anyhow!(
                "another inferometer writes {}; wait for its end, or name another folder by --out",
                path.display()
            ))
            .into());
        }
        let (kept, length) = parse::<H, T>(path)?;
        let mut journal = Self { path: path.to_owned(), file, length };
        match kept {
            Some(kept) => {
                same(&kept.header, &header)?;
                journal.cut()?;
                Ok((journal, kept))
            }
            None => {
                journal.cut()?;
                let kept = Kept { header, entries: Vec::new(), complete: false };
                journal.write(&Line::<&H, T>::Header(&kept.header))?;
                journal.sync()?;
                Ok((journal, kept))
            }
        }
    }

    fn cut(&mut self) -> Result<()> {
        self.file.set_len(self.length).map_err(io("write", &self.path))?;
        self.file.seek(std::io::SeekFrom::End(0)).map_err(io("write", &self.path))?;
        Ok(())
    }

    fn write<H: Serialize, T: Serialize>(&mut self, line: &Line<H, T>) -> Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        if let Err(error) = self.file.write_all(&text) {
            // What is there stays whole.
            let _ = self.cut();
            return Err(io("write", &self.path)(error).into());
        }
        self.length += text.len() as u64;
        Ok(())
    }

    /// Adds an answer.
    pub fn add<T: Serialize>(&mut self, entry: &T) -> Result<()> {
        self.write(&Line::<(), &T>::Entry(entry))?;
        self.sync()
    }

    /// Makes it survive a power cut.
    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(io("write", &self.path))?;
        Ok(())
    }

    /// Replaces the file by one with all answers in this order, and a footer.
    pub fn finish<H: Serialize, T: Serialize>(self, header: &H, entries: &[T]) -> Result<()> {
        let beside = self.path.with_extension("jsonl.new");
        let file = File::create(&beside).map_err(io("create", &beside))?;
        let mut new = Journal { path: beside.clone(), file, length: 0 };
        let written = (|| {
            new.write(&Line::<&H, &T>::Header(header))?;
            for entry in entries {
                new.write(&Line::<&H, &T>::Entry(entry))?;
            }
            new.write(&Line::<&H, &T>::Footer(Footer { entries: entries.len() as u64 }))?;
            new.sync()?;
            std::fs::rename(&beside, &self.path).map_err(io("replace", &self.path))?;
            anyhow::Ok(())
        })();
        if written.is_err() {
            let _ = std::fs::remove_file(&beside);
        }
        written
    }
}
