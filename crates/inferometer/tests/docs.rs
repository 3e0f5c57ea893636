//! The book is true: what stands in a console block can be typed, what is shown below it comes out, links lead
//! somewhere, flags exist, and a default that is named is the real one.
//!
//! `$ inferometer run …` is executed with `--dry-run`: flags, values and files are checked, nothing is measured. `show`
//! and `report` read one small run that is made here. Shown figures of a measurement differ from run to run and are not
//! compared; everything else is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

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

/// A page of the book, README or CONTRIBUTING.
struct Page {
    name: String,
    text: String,
}

/// A fenced block.
struct Block {
    /// `docs/guide.md:17`, its first line.
    place: String,
    language: String,
    lines: Vec<String>,
}

fn pages() -> Vec<Page> {
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
    fn blocks(&self) -> Vec<Block> {
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
    fn prose(&self) -> Vec<(usize, &str)> {
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
fn spans(line: &str) -> (Vec<&str>, String) {
    let parts: Vec<&str> = line.split('`').collect();
    let code = parts.iter().skip(1).step_by(2).copied().collect();
    (code, parts.iter().step_by(2).copied().collect::<Vec<_>>().join("``"))
}

/// A command line as a shell takes it apart: the words of each stage of a pipe, without comment.
fn stages(line: &str) -> Vec<Vec<String>> {
    let mut stages = vec![Vec::new()];
    let (mut word, mut begun, mut quote) = (String::new(), false, None);
    for c in format!("{line} ").chars() {
        match (quote, c) {
            (Some(q), _) if c == q => quote = None,
            (Some(_), _) => word.push(c),
            (None, '\'' | '"') => (quote, begun) = (Some(c), true),
            (None, '#') if !begun => break,
            (None, '|') if !begun => stages.push(Vec::new()),
            (None, _) if c.is_whitespace() => {
                if begun && let Some(stage) = stages.last_mut() {
                    stage.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            (None, _) => {
                word.push(c);
                begun = true;
            }
        }
    }
    stages
}

/// The place where examples are executed.
struct Bench {
    folder: tempfile::TempDir,
    run: PathBuf,
    json: Value,
}

impl Bench {
    /// With every file that a page shows: `# NAME` in the first line of a YAML block names it, and JSON lines are
    /// `prompts.jsonl`, from which the run is made that `show` and `report` read.
    fn new(pages: &[Page]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for block in pages.iter().flat_map(Page::blocks) {
            let first = block.lines.first().map_or("", String::as_str);
            let name = match block.language.as_str() {
                "yaml" => first.strip_prefix("# ").filter(|name| name.ends_with(".yaml")),
                "jsonl" => Some("prompts.jsonl"),
                _ => None,
            };
            if let Some(name) = name {
                let text = block.lines.join("\n") + "\n";
                std::fs::write(folder.path().join(name), text).expect("written");
            }
        }
        // A closed loop with enough requests for p95: its latencies do not depend on when this side sent.
        let target = "sim://fixed?ttft=2ms&tpot=200us";
        let args = ["run", target, "-c", "8", "-n", "80", "--data", "jsonl:prompts.jsonl", "--json"];
        let made = output(inferometer(args).args(["--progress", "off"]).current_dir(folder.path()));
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(!said.contains("error:"), "the small run failed: {said}");
        let json = serde_json::from_slice(&made.stdout).expect("run.json on stdout");
        let mut runs = std::fs::read_dir(folder.path().join("runs")).expect("runs/");
        let run = runs.next().expect("a run").expect("an entry").path();
        Self { folder, run, json }
    }

    fn check(&self, block: &Block) -> Result<(), String> {
        let mut lines = block.lines.iter().peekable();
        while let Some(line) = lines.next() {
            let command = line.strip_prefix("$ ").ok_or_else(|| format!("`{line}` belongs to no command"))?;
            let mut command = command.to_owned();
            while command.ends_with('\\') {
                command.pop();
                command += lines.next().ok_or("a command ends in `\\`")?;
            }
            let mut shown = Vec::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
                shown.push(line.as_str());
            }
            self.command(&command, &shown).map_err(|why| format!("$ {command}\n{why}"))?;
        }
        Ok(())
    }

    fn command(&self, command: &str, shown: &[&str]) -> Result<(), String> {
        let stages = stages(command);
        let Some(((program, args), filters)) = stages.split_first().and_then(|(first, rest)| {
            first.split_first().map(|(program, args)| ((program.as_str(), args.to_vec()), rest))
        }) else {
            return Err("no command".to_owned());
        };
        let args = match program {
            "inferometer" => args,
            "cargo" => match cargo(&args)? {
                Some(args) => args,
                None => return Ok(()),
            },
            other => return Err(format!("`{other}` is not checked: use another kind of block for it")),
        };
        let (out, comparable) = self.execute(&args)?;
        match filters {
            [] if comparable => compare(shown, &String::from_utf8_lossy(&out)),
            [] => Ok(()),
            [filter] => self.jq(filter),
            _ => Err("more than one pipe is not checked".to_owned()),
        }
    }

    /// Gives standard output, and whether it is the same each time.
    fn execute(&self, args: &[String]) -> Result<(Vec<u8>, bool), String> {
        let mut args: Vec<String> = args.iter().map(|arg| self.in_run(arg)).collect();
        let verb: Vec<&str> = args.iter().take_while(|a| !a.starts_with('-')).map(String::as_str).collect();
        let help = args.iter().any(|a| matches!(a.as_str(), "--help" | "-h" | "--version" | "-V"));
        let dry = args.iter().any(|a| a == "--dry-run");
        let (codes, comparable): (&[i32], bool) = match verb.as_slice() {
            _ if help => (&[0], true),
            ["run", ..] => {
                if !dry {
                    args.push("--dry-run".to_owned());
                }
                (&[0], dry)
            }
            // What the verdict on the small run is does not matter.
            ["show", ..] => (&[0, 1, 3, 5], false),
            ["report", ..] => (&[0], false),
            ["spec", "check", ..] | ["spec", "schema"] | ["sim", "list"] => (&[0], true),
            ["sim", "serve", ..] => {
                if let Some(port) = args.iter().position(|a| a == "--port" || a == "-p") {
                    args.drain(port..(port + 2).min(args.len()));
                }
                // Standard input is closed already: it starts, and ends.
                args.extend(["--port", "0", "--until-stdin-closes"].map(str::to_owned));
                (&[0], false)
            }
            _ => return Err("the test does not know this command".to_owned()),
        };
        let mut command = inferometer(args.iter().map(String::as_str));
        let out = output(command.current_dir(self.folder.path()));
        match out.status.code() {
            Some(code) if codes.contains(&code) => Ok((out.stdout, comparable)),
            code => {
                Err(format!("ended with {code:?}, not {codes:?}\n{}", String::from_utf8_lossy(&out.stderr)))
            }
        }
    }

    /// `runs/ANYTHING` is the small run.
    fn in_run(&self, arg: &str) -> String {
        let Some(rest) = arg.strip_prefix("runs/") else { return arg.to_owned() };
        let rest = rest.split_once('/').map_or(String::new(), |(_, rest)| format!("/{rest}"));
        format!("{}{rest}", self.run.display())
    }

    /// What a filter begins with exists in the machine output; where there is a `jq`, it takes the filter.
    fn jq(&self, words: &[String]) -> Result<(), String> {
        let filter = match words {
            [program, options @ .., filter]
                if program == "jq" && options.iter().all(|o| matches!(o.as_str(), "-r" | "-c" | "-e")) =>
            {
                filter
            }
            _ => {
                return Err(format!("only `jq FILTER` is checked behind a pipe, not `{}`", words.join(" ")));
            }
        };
        for path in jq_paths(filter) {
            let mut value = &self.json;
            for key in &path {
                value = value.get(key).ok_or_else(|| format!("run.json has no `{}`", path.join(".")))?;
            }
        }
        let file = self.run.join("run.json");
        match Command::new("jq").arg(filter).arg(file).stdin(Stdio::null()).output() {
            Ok(out) if out.status.success() => Ok(()),
            Ok(out) => Err(format!("jq: {}", String::from_utf8_lossy(&out.stderr))),
            Err(_) => Ok(()),
        }
    }
}

/// Arguments for inferometer, when cargo runs it; nothing when the task exists.
fn cargo(args: &[String]) -> Result<Option<Vec<String>>, String> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["run", options @ ..] => {
            let behind = options.iter().position(|o| *o == "--").ok_or("`cargo run` without `--`")?;
            match &options[..behind] {
                [] | ["--release"] => Ok(Some(args[behind + 2..].to_vec())),
                other => Err(format!("`cargo run {}` is not known", other.join(" "))),
            }
        }
        ["build"] | ["build", "--release"] => Ok(None),
        ["install", "--path", path] | ["install", "--locked", "--path", path]
            if root().join(path).join("Cargo.toml").is_file() =>
        {
            Ok(None)
        }
        ["xtask"] => Ok(None),
        ["xtask", task] => {
            let source = std::fs::read_to_string(root().join("xtask/src/main.rs")).expect("xtask");
            match source.contains(&format!("Some(\"{task}\") =>")) {
                true => Ok(None),
                false => Err(format!("there is no task `{task}`")),
            }
        }
        _ => Err(format!("`cargo {}` is not known", words.join(" "))),
    }
}

/// Shown lines occur in this order; `...` stands for any number of lines.
fn compare(shown: &[&str], out: &str) -> Result<(), String> {
    let mut rest = out.lines();
    for line in shown.iter().map(|line| line.trim()) {
        if !matches!(line, "..." | "…" | "") && !rest.any(|l| l.trim() == line) {
            return Err(format!("`{line}` is not in the output, or not at this place:\n{out}"));
        }
    }
    Ok(())
}

/// Paths that a filter begins with: `.a.b, .c[] | …` are `a.b` and `c`.
fn jq_paths(filter: &str) -> Vec<Vec<String>> {
    let mut depth = 0;
    let mut items = vec![String::new()];
    for c in filter.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '|' if depth == 0 => break,
            ',' if depth == 0 => {
                items.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(item) = items.last_mut() {
            item.push(c);
        }
    }
    let path = |item: &str| -> Option<Vec<String>> {
        let end = item.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.')).unwrap_or(item.len());
        let keys = item[..end].strip_prefix('.')?;
        Some(keys.split('.').filter(|key| !key.is_empty()).map(str::to_owned).collect())
    };
    items.iter().filter_map(|item| path(item.trim())).collect()
}

#[test]
fn console_examples_can_be_typed() {
    let pages = pages();
    let bench = Bench::new(&pages);
    let mut faults = Vec::new();
    let mut commands = 0;
    for block in pages.iter().flat_map(Page::blocks).filter(|block| block.language == "console") {
        commands += block.lines.iter().filter(|line| line.starts_with("$ ")).count();
        faults.extend(bench.check(&block).err().map(|why| format!("{}: {why}", block.place)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    assert!(commands > 10, "only {commands} commands were found");
    // Every spec file that is shown, whether or not a command reads it.
    for entry in std::fs::read_dir(bench.folder.path()).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "yaml") {
            let out = output(inferometer(["spec", "check"]).arg(&path));
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        }
    }
}

#[test]
fn what_cannot_be_typed_is_found() {
    let yaml = Page { name: "a.md".into(), text: "```yaml\n# a.yaml\ntarget: sim://fixed\n```\n".into() };
    let rows = Page { name: "b.md".into(), text: "```jsonl\n{\"prompt\": \"Why?\"}\n```\n".into() };
    let bench = Bench::new(&[yaml, rows]);
    let check = |text: &str| {
        let lines = text.lines().map(str::to_owned).collect();
        bench.check(&Block { place: String::new(), language: "console".into(), lines })
    };
    for good in [
        "$ inferometer run -f a.yaml --rate 6   # a comment",
        "$ inferometer spec check a.yaml\n{\n...\n\"dialect\": \"chat\",\n...\n\"seed\": 42",
        "$ inferometer show runs/… --json | jq '.metrics.ttft | {\"p99.9\", undefined}'",
        "$ inferometer report runs/DIR \\\n    --view server",
        "$ cargo run --release -- run sim://fixed --slo 'ttft<=1s'",
        "$ cargo xtask test",
        "$ inferometer sim serve 'sim://fixed?ttft=1ms&tpot=1ms' --port 8000",
    ] {
        assert_eq!(check(good), Ok(()), "{good}");
    }
    for (bad, words) in [
        ("inferometer run sim://fixed", "belongs to no command"),
        ("$ rm a.yaml", "`rm` is not checked"),
        ("$ inferometer run sim://fixed --ratte 6", "--ratte"),
        ("$ inferometer run sim://fixed --isl banana", "banana"),
        ("$ inferometer run sim://fixxed", "fixxed"),
        ("$ inferometer run -f b.yaml", "b.yaml"),
        ("$ inferometer spec check a.yaml\n\"seed\": 43", "`\"seed\": 43` is not in the output"),
        ("$ inferometer spec check a.yaml\n\"seed\": 42\n{", "`{` is not in the output"),
        ("$ inferometer show runs/DIR --json | jq .metrics.tttft", "no `metrics.tttft`"),
        ("$ inferometer show runs/DIR | less", "only `jq FILTER`"),
        ("$ inferometer frobnicate", "does not know"),
        ("$ inferometer sim serve sim://nothing", "nothing"),
        ("$ cargo xtask tset", "no task `tset`"),
    ] {
        let why = check(bad).expect_err(bad);
        assert!(why.contains(words), "{bad}: {why}");
    }
}

/// As mdBook and GitHub name a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Targets of the links in a line.
fn links(line: &str) -> Vec<String> {
    let (_, text) = spans(line);
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(to, _)| to.to_owned()).collect()
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

fn help(verb: &[&str]) -> String {
    let out = output(inferometer(verb.iter().copied()).arg("--help"));
    assert!(out.status.success(), "{verb:?}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn flags_and_verbs_in_the_text_exist() {
    let verbs: [&[&str]; 7] =
        [&["run"], &["show"], &["report"], &["sim", "serve"], &["sim", "list"], &["spec", "check"], &[]];
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
                let verb = words.get(1).filter(|v| v.chars().all(|c| c.is_ascii_lowercase()));
                if let (Some(&"inferometer"), Some(verb)) = (words.first(), verb)
                    && !["run", "show", "report", "sim", "spec", "completions", "man"].contains(verb)
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
            "load.think" => &users,
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

#[test]
fn lines_are_taken_apart_as_a_shell_does() {
    assert_eq!(
        stages("inferometer show a --slo 'ttft<=1 s' --json | jq '.a | .b' # both"),
        [vec!["inferometer", "show", "a", "--slo", "ttft<=1 s", "--json"], vec!["jq", ".a | .b"]]
    );
    assert_eq!(jq_paths(".trust.checks[] | .id, .x"), [["trust", "checks"]]);
    assert_eq!(jq_paths(".a.b, .c | {d}"), [vec!["a", "b"], vec!["c"]]);
    assert_eq!(anchor(" Little's law"), "littles-law");
    assert_eq!(links("see [a](b.md#c), `[x](y)` and [d](#e)"), ["b.md#c", "#e"]);
}
