//! Files that a user names: there, and such that reading them ends.

use std::path::Path;

use anyhow::{Context, Result, bail};

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
