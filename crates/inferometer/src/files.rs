//! Files that a user names: there, and such that reading them ends.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// Whether the file can be read to an end. A device such as `/dev/zero` never ends.
pub fn check(path: &Path, what: &str) -> Result<()> {
    examine(path, what).map_err(|error| Failure::request(error).into())
}

fn examine(path: &Path, what: &str) -> Result<()> {
    let kind = std::fs::metadata(path)
        .with_context(|| format!("cannot read {what} in {}", path.display()))?
        .file_type();
    if std::os::unix::fs::FileTypeExt::is_char_device(&kind) {
        bail!("{} is a device, not a file that holds {what}", path.display());
    }
    Ok(())
}

/// Removes a folder that holds nothing but this file, and the file.
pub fn discard_if_alone(folder: &Path, file: &str) {
    let entries = std::fs::read_dir(folder).map(|entries| entries.count()).unwrap_or(2);
    if entries == 1 && std::fs::remove_file(folder.join(file)).is_ok() {
        // What came in between stays.
        let _ = std::fs::remove_dir(folder);
    }
}

/// A JSON file of a folder, if it was written in this version of its shape; `folder_of`: what such a folder is.
pub fn versioned<T: DeserializeOwned>(folder: &Path, file: &str, version: u32, folder_of: &str) -> Result<T> {
    let path = folder.join(file);
    let text = std::fs::read(&path).with_context(|| {
        format!("{} is no folder of {folder_of}: {file} cannot be read", folder.display())
    })?;
    // The version first: another one may have another shape.
    let value: serde_json::Value =
        serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
    if value["schema_version"] != version {
        bail!("{} was written by another version of this tool ({})", path.display(), value["schema_version"]);
    }
    serde_json::from_value(value).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_missing_files_are_refused_and_named() {
        for bad in ["/dev/zero", "/no/such/file"] {
            let error = check(Path::new(bad), "the prompts").expect_err(bad);
            assert!(error.to_string().contains(bad), "{error}");
        }
        assert!(check(Path::new(env!("CARGO_MANIFEST_DIR")), "the tokenizer").is_ok());
    }
}
