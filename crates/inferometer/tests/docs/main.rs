//! The book is true: what stands in a console block can be typed, what is shown below it comes out, links lead
//! somewhere, flags exist, and a default that is named is the real one.
//!
//! `$ inferometer run …` and `sweep …` are executed with `--dry-run`: flags, values and files are checked, nothing is
//! measured. A search in virtual time of which something is shown is made, and says just that. `show` and `report` read one small run that is made here, or one small sweep where they name `runs/SWEEP`. Shown figures of a measurement differ from run to run and are not
//! compared; everything else is.

mod console;
mod goodput;
mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use page::{anchor, links, pages, spans};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn inferometer<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inferometer"));
    command.args(args).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the program starts")
}

#[test]
fn links_lead_somewhere() {
    let pages = pages();
    let anchors: BTreeMap<PathBuf, BTreeSet<String>> = pages
        .iter()
        .map(|page| {
            let headings = page.prose().into_iter().filter(|(_, line)| line.starts_with('#'));
            let names = headings.map(|(_, line)| anchor(line.trim_start_matches('#'))).collect();
            (root().join(&page.name).canonicalize().expect("a page"), names)
        })
        .collect();
    let mut faults = Vec::new();
    let mut seen = 0;
    for page in &pages {
        let here = root().join(&page.name);
        for (number, line) in page.prose() {
            for link in links(line) {
                if link.contains("://") || link.starts_with("mailto:") {
                    continue;
                }
                seen += 1;
                let (file, fragment) = link.split_once('#').unwrap_or((&link, ""));
                let path = match file {
                    "" => here.clone(),
                    file => here.parent().expect("a folder").join(file),
                };
                let found = path.canonicalize().is_ok_and(|path| {
                    fragment.is_empty() || anchors.get(&path).is_some_and(|names| names.contains(fragment))
                });
                if !found {
                    faults.push(format!("{}:{number}: {link} leads nowhere", page.name));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen > 10, "only {seen} links were found");
}

#[test]
fn the_summary_lists_every_page() {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).expect("SUMMARY.md");
    let listed: Vec<String> = summary.lines().flat_map(links).collect();
    for page in pages().iter().filter_map(|page| page.name.strip_prefix("docs/")) {
        let times = listed.iter().filter(|l| *l == page).count();
        assert_eq!(times, usize::from(page != "SUMMARY.md"), "{page} in docs/SUMMARY.md");
    }
}

/// Each crate has a row in the book, which names every other one that it uses.
#[test]
fn the_architecture_names_every_crate_and_its_edges() {
    let page = pages().into_iter().find(|page| page.name == "docs/architecture.md").expect("the page");
    let rows: BTreeMap<&str, (&str, Vec<&str>)> = page
        .prose()
        .into_iter()
        .filter_map(|(_, line)| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [name, _, uses] = cells.as_slice() else { return None };
            Some((*spans(name).0.first()?, (*uses, spans(uses.split(';').next()?).0)))
        })
        .collect();
    for entry in std::fs::read_dir(root().join("crates")).expect("crates/") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let (cell, stated) = rows.get(name.as_str()).unwrap_or_else(|| panic!("`{name}` has no row"));
        let manifest = std::fs::read_to_string(path.join("Cargo.toml")).expect("a manifest");
        let dependencies = manifest.split("\n[").find(|section| section.starts_with("dependencies]"));
        let used = dependencies.unwrap_or_default().lines().filter_map(|line| line.split_once('.'));
        for (used, _) in used.filter(|(used, _)| root().join("crates").join(used).is_dir()) {
            assert!(
                *cell == "all" || stated.contains(&used),
                "`{name}` uses `{used}`; the page says: {cell}"
            );
        }
    }
}

fn help(verb: &[&str]) -> String {
    let out = output(inferometer(verb.iter().copied()).arg("--help"));
    assert!(out.status.success(), "{verb:?}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// What the binary can be told to do.
const VERBS: [&str; 12] = [
    "run",
    "sweep",
    "capacity",
    "show",
    "report",
    "self-check",
    "mlperf",
    "quality",
    "sim",
    "spec",
    "completions",
    "man",
];

#[test]
fn flags_and_verbs_in_the_text_exist() {
    let verbs: [&[&str]; 20] = [
        &["run"],
        &["sweep"],
        &["capacity"],
        &["show"],
        &["report"],
        &["self-check"],
        &["mlperf", "run"],
        &["mlperf", "find-peak"],
        &["mlperf", "check"],
        &["mlperf", "rules"],
        &["mlperf", "endpoints"],
        &["quality", "probe"],
        &["quality", "run"],
        &["quality", "compare"],
        &["quality", "ppl"],
        &["quality", "kl"],
        &["sim", "serve"],
        &["sim", "list"],
        &["spec", "check"],
        &[],
    ];
    let helps = verbs.map(help).join("\n");
    let known: BTreeSet<&str> =
        helps.split_whitespace().map(|word| word.trim_matches([',', '[', ']'])).collect();
    // Flags of other programs that the pages speak of.
    let others = ["--release"];
    let mut faults = Vec::new();
    for page in pages() {
        for (number, line) in page.prose() {
            for code in spans(line).0 {
                let words: Vec<&str> = code.split_whitespace().collect();
                let ours = words.first().is_some_and(|w| *w == "inferometer" || w.starts_with("--"));
                let flags = words.iter().filter(|w| ours && w.starts_with("--") && w.len() > 2);
                for flag in flags.filter(|flag| !known.contains(**flag) && !others.contains(flag)) {
                    faults.push(format!("{}:{number}: there is no {flag}", page.name));
                }
                let verb = words.get(1).filter(|v| v.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
                if let (Some(&"inferometer"), Some(verb)) = (words.first(), verb)
                    && !VERBS.contains(verb)
                {
                    faults.push(format!("{}:{number}: there is no `inferometer {verb}`", page.name));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Sets `a.b.c` in an object.
fn set(object: &mut Value, path: &str, value: Value) {
    let place = path.split('.').fold(object, |object, key| &mut object[key]);
    *place = value;
}

/// The spec with every default written out, or what was wrong.
fn resolved(draft: &Value) -> Result<Value, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("draft.json");
    std::fs::write(&file, draft.to_string()).expect("written");
    let out = output(inferometer(["spec", "check"]).arg(file));
    match out.status.success() {
        true => Ok(serde_json::from_slice(&out.stdout).expect("a spec")),
        false => Err(String::from_utf8_lossy(&out.stderr).into_owned()),
    }
}

/// The dotted keys of everything that can be set.
fn leaves(prefix: &str, value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map)
            if !map.is_empty() && !["fixed", "requests", "duration"].iter().any(|k| map.contains_key(*k)) =>
        {
            for (key, value) in map {
                let dot = if prefix.is_empty() { "" } else { "." };
                leaves(&format!("{prefix}{dot}{key}"), value, into);
            }
        }
        _ => {
            into.insert(prefix.to_owned());
        }
    }
}

/// Rows of the guide's tables that begin with a key: `key | flag | default | …`.
#[test]
fn defaults_are_the_real_ones() {
    let guide = pages().into_iter().find(|page| page.name == "docs/guide.md").expect("the guide");
    let open = json!({ "target": "http://127.0.0.1:8000", "load": { "rate": 6 } });
    let closed = json!({ "target": "http://127.0.0.1:8000" });
    let users = json!({ "target": "http://127.0.0.1:8000", "load": { "concurrency": 1 } });
    let mut all = BTreeSet::new();
    for base in [&open, &closed] {
        leaves("", &resolved(base).expect("a sound spec"), &mut all);
    }
    let mut described = BTreeSet::new();
    for (number, line) in guide.prose() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let code = |i: usize| cells.get(i).and_then(|cell| cell.strip_prefix('`')?.strip_suffix('`'));
        let Some(key) = code(1).filter(|key| all.contains(*key)) else { continue };
        described.insert(key.to_owned());
        let Some(stated) = code(3) else { continue };
        let base = match key {
            "load.burstiness" => &open,
            "load.think" | "load.start_over" => &users,
            _ => &closed,
        };
        let mut given = base.clone();
        set(&mut given, key, json!(stated));
        assert_eq!(
            resolved(&given).as_ref(),
            resolved(base).as_ref(),
            "docs/guide.md:{number}: `{stated}` is not the default of `{key}`"
        );
    }
    let missing: Vec<&String> = all.difference(&described).collect();
    assert!(missing.is_empty(), "settings without a row in docs/guide.md: {missing:?}");
}
