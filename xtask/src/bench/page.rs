//! Tables in their places on a page: between a mark and its end.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// Replaces what stands between the marks of `name` in the file.
pub fn put(path: &Path, name: &str, body: &str) -> Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let page = spliced(&text, name, body).with_context(|| path.display().to_string())?;
    std::fs::write(path, page).with_context(|| path.display().to_string())
}

fn spliced(page: &str, name: &str, body: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- bench {name} -->\n"), format!("<!-- end of {name} -->"));
    let Some((before, rest)) = page.split_once(&begin) else {
        bail!("no place for the table of {name}: expected {begin}");
    };
    let Some((_, after)) = rest.split_once(&end) else {
        bail!("the place of {name} has no end: expected {end}");
    };
    Ok(format!("{before}{begin}\n{}\n\n{end}{after}", body.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_place_of_the_name_changes() {
        let page =
            "a\n<!-- bench x -->\nold\n<!-- end of x -->\nb\n<!-- bench y -->\nkept\n<!-- end of y -->\n";
        let new = spliced(page, "x", "\n| new |\n").expect("a place");
        assert_eq!(
            new,
            "a\n<!-- bench x -->\n\n| new |\n\n<!-- end of x -->\nb\n<!-- bench y -->\nkept\n<!-- end of y -->\n"
        );
        assert_eq!(spliced(&new, "x", "| new |").expect("again the same"), new);
        assert!(spliced(page, "z", "").is_err() && spliced("<!-- bench x -->\n", "x", "").is_err());
    }
}
