//! Pages of the book, taken apart: blocks, code spans, links, headings.

use crate::root;

/// A page of the book, README or CONTRIBUTING.
pub struct Page {
    pub name: String,
    pub text: String,
}

/// A fenced block.
pub struct Block {
    /// `docs/guide.md:17`, its first line.
    pub place: String,
    pub language: String,
    pub lines: Vec<String>,
}

pub fn pages() -> Vec<Page> {
    let docs = std::fs::read_dir(root().join("docs")).expect("docs/");
    let mut names: Vec<String> = docs
        .map(|e| format!("docs/{}", e.expect("an entry").file_name().to_string_lossy()))
        .filter(|name| name.ends_with(".md"))
        .collect();
    names.extend(["README.md".to_owned(), "CONTRIBUTING.md".to_owned()]);
    names.sort();
    names
        .into_iter()
        .map(|name| Page { text: std::fs::read_to_string(root().join(&name)).expect("a page"), name })
        .collect()
}

impl Page {
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut open = false;
        for (number, line) in (1..).zip(self.text.lines()) {
            if let Some(language) = line.trim_start().strip_prefix("```") {
                open = !open;
                if open {
                    let place = format!("{}:{}", self.name, number + 1);
                    blocks.push(Block { place, language: language.trim().to_owned(), lines: Vec::new() });
                }
            } else if let (true, Some(block)) = (open, blocks.last_mut()) {
                block.lines.push(line.to_owned());
            }
        }
        assert!(!open, "{}: a fenced block does not end", self.name);
        blocks
    }

    /// Lines outside of fenced blocks, with their numbers.
    pub fn prose(&self) -> Vec<(usize, &str)> {
        let mut open = false;
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(self.text.lines()) {
            if line.trim_start().starts_with("```") {
                open = !open;
            } else if !open {
                lines.push((number, line));
            }
        }
        lines
    }
}

/// The code spans of a line, and the line without them.
pub fn spans(line: &str) -> (Vec<&str>, String) {
    let parts: Vec<&str> = line.split('`').collect();
    let code = parts.iter().skip(1).step_by(2).copied().collect();
    (code, parts.iter().step_by(2).copied().collect::<Vec<_>>().join("``"))
}

/// As mdBook and GitHub name a heading.
pub fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Targets of the links in a line.
pub fn links(line: &str) -> Vec<String> {
    let (_, text) = spans(line);
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(to, _)| to.to_owned()).collect()
}

#[test]
fn headings_and_links_are_found() {
    assert_eq!(anchor(" Little's law"), "littles-law");
    assert_eq!(links("see [a](b.md#c), `[x](y)` and [d](#e)"), ["b.md#c", "#e"]);
}
