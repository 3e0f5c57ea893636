//! The Hugging Face cache of this machine: read, never filled.

use std::path::{Path, PathBuf};

/// Where the cache is: `HF_HUB_CACHE`, else `HF_HOME/hub`, else `~/.cache/huggingface/hub`.
pub(super) fn cache_folder() -> Option<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    from("HF_HUB_CACHE")
        .or_else(|| from("HF_HOME").map(|home| home.join("hub")))
        .or_else(|| from("HOME").map(|home| home.join(".cache/huggingface/hub")))
}

/// The `tokenizer.json` of `model` (`owner/name`) in the snapshot that `refs/main` names.
pub(super) fn tokenizer_of(root: &Path, model: &str) -> Option<PathBuf> {
    let plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', '/']);
    let (owner, name) = model.split_once('/').filter(|(owner, name)| plain(owner) && plain(name))?;
    let folder = root.join(format!("models--{owner}--{name}"));
    let revision = std::fs::read_to_string(folder.join("refs/main")).ok()?;
    let revision = revision.trim();
    let path = folder.join("snapshots").join(Some(revision).filter(|r| plain(r))?).join("tokenizer.json");
    path.is_file().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snapshot_of_main_is_used_and_nothing_outside_the_cache() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("models--google--gemma-x");
        let snapshot = folder.join("snapshots/abc123");
        std::fs::create_dir_all(&snapshot).unwrap();
        std::fs::create_dir_all(folder.join("refs")).unwrap();
        std::fs::write(folder.join("refs/main"), "abc123\n").unwrap();
        assert_eq!(tokenizer_of(root.path(), "google/gemma-x"), None);
        std::fs::write(snapshot.join("tokenizer.json"), "{}").unwrap();
        assert_eq!(tokenizer_of(root.path(), "google/gemma-x"), Some(snapshot.join("tokenizer.json")));
        for other in ["google/other", "gemma-x", "", "/", "../google/gemma-x", "google/../gemma-x"] {
            assert_eq!(tokenizer_of(root.path(), other), None, "{other}");
        }
    }
}
