//! `series.json`: the plan of a folder of runs, and which of them were made.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use record::RunFolder;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use spec::Spec;

use crate::failure::Failure;
use crate::files;

const FILE: &str = "series.json";
const VERSION: u32 = 1;

/// The file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Kept<S> {
    schema_version: u32,
    /// From which every run has its own.
    pub seed: u64,
    /// What the owner keeps.
    pub settings: S,
    /// Every run, in the order in which they are made.
    pub steps: Vec<Step>,
}

/// One run of the plan.
#[derive(Debug, Serialize, Deserialize)]
pub struct Step {
    /// Its spec without secrets; the seed is that of the whole.
    pub spec: Spec,
    /// How often it was begun.
    pub attempts: u32,
    /// Its folder, once it was made to its end.
    pub run: Option<String>,
}

impl Step {
    pub fn planned(spec: Spec) -> Self {
        Self { spec, attempts: 0, run: None }
    }
}

impl<S> Kept<S> {
    pub fn new(seed: u64, settings: S, steps: Vec<Step>) -> Self {
        Self { schema_version: VERSION, seed, settings, steps }
    }
}

/// Whether there is a folder of runs.
pub fn exists(path: &Path) -> bool {
    path.join(FILE).is_file()
}

/// Makes a folder of its own below `out`.
pub fn create(out: &Path, name: &str) -> Result<PathBuf> {
    let folder = RunFolder::create(out, crate::run::wall_ns(), name).map_err(Failure::request)?;
    Ok(folder.path().to_owned())
}

pub fn read<S: DeserializeOwned>(path: &Path) -> Result<Kept<S>> {
    parsed(path).map_err(|error| Failure::request(error).into())
}

fn parsed<S: DeserializeOwned>(path: &Path) -> Result<Kept<S>> {
    let kept: Kept<S> = files::versioned(path, FILE, VERSION, "a sweep")?;
    // Names lead to folders inside this one and nowhere else.
    let outside = |name: &&String| Path::new(name).file_name().is_none_or(|last| last != name.as_str());
    if let Some(name) = kept.steps.iter().filter_map(|step| step.run.as_ref()).find(outside) {
        bail!("{}: `{name}` is no name of a run folder", path.join(FILE).display());
    }
    Ok(kept)
}

/// Whole or not at all: the file before it stays until the new one is there.
pub fn write<S: Serialize>(path: &Path, kept: &Kept<S>) -> Result<()> {
    record::folder::write_json_file(&path.join(FILE), kept).map_err(|e| Failure::request(e).into())
}

/// Removes a folder that holds nothing but the plan.
pub fn discard_if_empty(path: &Path) {
    files::discard_if_alone(path, FILE);
}
