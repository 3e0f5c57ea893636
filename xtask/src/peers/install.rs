//! Other clients, from PyPI into `.cache/peers`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{root, run, say, tools};

/// Package and version of each; a folder each, since their dependencies differ.
const PACKAGES: [(&str, &str); 2] = [("aiperf", "0.13.0"), ("guidellm", "0.8.1")];

/// A small vocabulary, so that no client asks for one from the network.
const VOCABULARY: &str = "crates/corpus/tests/data/byte-bpe.json";

/// Where the clients lie.
pub fn folder() -> PathBuf {
    root().join(".cache/peers")
}

/// A folder that Python's tokenizers read.
pub fn tokenizer() -> PathBuf {
    folder().join("tokenizer")
}

/// Installs every client that is not there.
pub fn all() -> Result<()> {
    for (package, version) in PACKAGES {
        let venv = folder().join(package);
        if venv.join("bin").join(package).exists() {
            continue;
        }
        say(&format!("installing {package} {version} into {}", venv.display()));
        tools::venv(&venv)?;
        let mut pip = Command::new(venv.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", &format!("{package}=={version}")]);
        run(pip)?;
    }
    let tokenizer = tokenizer();
    std::fs::create_dir_all(&tokenizer).with_context(|| tokenizer.display().to_string())?;
    std::fs::copy(root().join(VOCABULARY), tokenizer.join("tokenizer.json")).context(VOCABULARY)?;
    let config = r#"{"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1000000}"#;
    std::fs::write(tokenizer.join("tokenizer_config.json"), config)?;
    Ok(())
}
