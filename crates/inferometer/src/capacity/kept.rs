//! The folder of a search: what was asked, every probe as it came back, and beside them the run folders of the probes.

use std::cell::Cell;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use decide::capacity::Recorded;
use decide::qualified::Quality;
use record::folder::write_json_file;
use record::{Environment, RunFolder};
use serde::{Deserialize, Serialize};
use spec::{Burstiness, Knob, Objective, Rate, Span, Spec, Tier};

use crate::failure::Failure;
use crate::files;

const ASKED: &str = "search.json";
const PROBES: &str = "probes.jsonl";
const FOUND: &str = "environment.json";
const QUALITY: &str = "quality.json";
const VERSION: u32 = 1;

/// The load that is searched.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Over {
    /// Requests per second.
    Rate {
        /// Gamma shape of the gaps.
        burstiness: Burstiness,
    },
    /// Requests in flight.
    Concurrency,
    /// Users who think.
    Users {
        /// For how long.
        think: Span,
    },
}

impl Over {
    /// As the search takes it.
    pub fn searched(self) -> decide::capacity::Over {
        match self {
            Over::Rate { burstiness } => decide::capacity::Over::Rate { burstiness },
            Over::Concurrency => decide::capacity::Over::Concurrency,
            Over::Users { think } => decide::capacity::Over::Users { think: think.0 },
        }
    }
}

/// What is maximised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Maximize {
    /// Most of this.
    pub objective: Objective,
    /// Over these knobs beside the load.
    pub knobs: Vec<Knob>,
}

/// What was asked of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// The load that is searched.
    pub over: Over,
    /// No larger load is tried.
    pub max_load: Option<f64>,
    /// Wanted width of the bracket as a share of its middle.
    pub width: f64,
    /// Probes of the search proper at most.
    pub max_probes: Option<u32>,
    /// Time of all probes at most.
    pub budget: Option<Span>,
    /// Accelerators behind the server.
    pub accelerators: Option<u32>,
    /// What has to be served in all.
    pub demand: Option<Rate>,
    /// Classes of service, each with limits of its own; empty: the limits are those of the spec.
    #[serde(default)]
    pub tiers: Vec<Tier>,
    /// Other burstiness and lengths are searched as well, each in a folder of its own below this one.
    #[serde(default)]
    pub sensitivity: bool,
    /// What is maximised in place of the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximize: Option<Maximize>,
    /// Folder of the answers that are the measure of quality at the load that is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<PathBuf>,
    /// The spec of the probes but for their loads and lengths, without secrets.
    pub spec: Spec,
}

#[derive(Serialize, Deserialize)]
struct File {
    schema_version: u32,
    #[serde(flatten)]
    asked: Asked,
}

#[derive(Serialize, Deserialize)]
struct QualityFile {
    schema_version: u32,
    quality: Quality,
}

/// Where and against what a search was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The model, as its server calls it.
    pub model: Option<String>,
    /// That of the first probe.
    pub environment: Environment,
}

/// Whether there is a folder of a search.
pub fn exists(path: &Path) -> bool {
    path.join(ASKED).is_file()
}

/// What was asked of the search in a folder.
pub fn asked(path: &Path) -> Result<Asked> {
    let file: File = files::versioned(path, ASKED, VERSION, "a search").map_err(Failure::request)?;
    Ok(file.asked)
}

/// A folder of a search.
pub struct Kept {
    path: PathBuf,
    whole: Cell<bool>,
}

impl Kept {
    /// Makes one below `out`.
    pub fn create(out: &Path, name: &str, asked: &Asked) -> Result<Self> {
        let folder = RunFolder::create(out, crate::run::wall_ns(), name).map_err(Failure::request)?;
        Self::begin(folder.path().to_owned(), asked)
    }
    /// This very folder: as it is when it is one, otherwise a new one.
    pub fn at(path: &Path, asked: &Asked) -> Result<Self> {
        if exists(path) {
            return Self::open(path);
        }
        RunFolder::create_at(path).map_err(Failure::request)?;
        Self::begin(path.to_owned(), asked)
    }
    fn begin(path: PathBuf, asked: &Asked) -> Result<Self> {
        let file = File { schema_version: VERSION, asked: asked.clone() };
        write_json_file(&path.join(ASKED), &file).map_err(Failure::request)?;
        Ok(Self { path, whole: Cell::new(true) })
    }
    /// One that was made before.
    pub fn open(path: &Path) -> Result<Self> {
        asked(path)?;
        Ok(Self { path: path.to_owned(), whole: Cell::new(true) })
    }
    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Whether every probe could be written down.
    pub fn is_whole(&self) -> bool {
        self.whole.get()
    }
    /// The probes so far. A last line that was cut off by the end of the process is no probe.
    pub fn probes(&self) -> Result<Vec<Recorded>> {
        let path = self.path.join(PROBES);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Failure::request(anyhow!("{}: {error}", path.display())).into()),
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = whole.lines().enumerate();
        lines
            .map(|(number, line)| {
                serde_json::from_str(line)
                    .with_context(|| format!("{}, line {}", path.display(), number + 1))
                    .map_err(|error| Failure::request(error).into())
            })
            .collect()
    }
    /// Writes a probe down. A full disk takes no probe from the search that runs; it is told at its end.
    pub fn add(&self, probe: &Recorded) -> Result<()> {
        let written = self.append(probe);
        self.whole.set(self.whole.get() && written.is_ok());
        written
    }
    fn append(&self, probe: &Recorded) -> Result<()> {
        let path = self.path.join(PROBES);
        let mut line = serde_json::to_vec(probe)?;
        line.push(b'\n');
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| file.write_all(&line)).with_context(|| path.display().to_string())
    }
    /// Where the search is made; `None`: it has no probe yet.
    pub fn found(&self) -> Option<Found> {
        let text = std::fs::read_to_string(self.path.join(FOUND)).ok()?;
        serde_json::from_str(&text).ok()
    }
    /// Writes down where the search is made, at its first probe.
    pub fn note(&self, found: &Found) -> Result<()> {
        let path = self.path.join(FOUND);
        let written = if path.exists() { Ok(()) } else { write_json_file(&path, found) };
        self.whole.set(self.whole.get() && written.is_ok());
        written.with_context(|| path.display().to_string())
    }
    /// What became of the questions at the load of the answer; `None`: nobody asked.
    pub fn quality(&self) -> Result<Option<Quality>> {
        let path = self.path.join(QUALITY);
        if !path.exists() {
            return Ok(None);
        }
        let file: QualityFile =
            files::versioned(&self.path, QUALITY, VERSION, "a search").map_err(Failure::request)?;
        Ok(Some(file.quality))
    }
    /// Writes that down.
    pub fn note_quality(&self, quality: &Quality) -> Result<()> {
        let path = self.path.join(QUALITY);
        let file = QualityFile { schema_version: VERSION, quality: quality.clone() };
        let written = write_json_file(&path, &file);
        self.whole.set(self.whole.get() && written.is_ok());
        written.with_context(|| path.display().to_string())
    }
    /// Removes a folder in which no probe was made.
    pub fn discard_if_empty(&self) {
        files::discard_if_alone(&self.path, ASKED);
    }
}
