//! Console blocks, executed.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::page::{Block, Page, pages};
use crate::{inferometer, output, root};

/// A command line as a shell takes it apart: the words of each stage of a pipe, without comment.
pub fn stages(line: &str) -> Vec<Vec<String>> {
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
    run: Small,
    sweep: Small,
}

/// Something small that was measured.
struct Small {
    folder: PathBuf,
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
        // Files that examples only name; a dry run wants them to be there.
        for name in ["key.txt", "ca.pem", "conversations.json"] {
            std::fs::write(folder.path().join(name), "a placeholder\n").expect("written");
        }
        // Answers to no question, where only their folder is named.
        let questions = r#"{"suite":"smoke","chat":false,"data":[],"port":null,"tasks":[],"limit":null,"thinking":0,"seed":42}"#;
        let server = r#"{"url":"http://127.0.0.1:8000","model":"M","told":{}}"#;
        let header = format!(
            r#"{{"header":{{"schema_version":1,"tool":"0","suite":"smoke","questions":"","asked":{questions},"server":{server},"mode":"echo","prefix":[],"max_tokens":1024,"extra":{{}}}}}}"#
        );
        std::fs::create_dir(folder.path().join("base")).expect("a folder");
        let journal = format!("{header}\n{{\"footer\":{{\"entries\":0}}}}\n");
        std::fs::write(folder.path().join("base/journal.jsonl"), journal).expect("written");
        // A closed loop with enough requests for p95: its latencies do not depend on when this side sent.
        let target = "sim://fixed?ttft=2ms&tpot=200us";
        let small = |args: &[&str], out: &str, answer: &str| {
            let data = ["--data", "jsonl:prompts.jsonl", "--json", "--progress", "off", "--out", out];
            let made = output(inferometer(args.iter().chain(&data).copied()).current_dir(folder.path()));
            let said = String::from_utf8_lossy(&made.stderr);
            // Whether this machine is quiet does not matter.
            assert!(matches!(made.status.code(), Some(0 | 3)), "the small {out} failed: {said}");
            let json = serde_json::from_slice(&made.stdout).expect(answer);
            let mut runs = std::fs::read_dir(folder.path().join(out)).expect("a folder");
            Small { folder: runs.next().expect("a run").expect("an entry").path(), json }
        };
        let run = small(&["run", target, "-c", "8", "-n", "80"], "runs", "run.json on stdout");
        let sweep = small(&["sweep", target, "-c", "1,2", "-n", "20"], "sweeps", "sweep.json on stdout");
        Self { folder, run, sweep }
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
        let (out, comparable) = self.execute(&args, !shown.is_empty())?;
        match filters {
            [] if comparable => compare(shown, &String::from_utf8_lossy(&out)),
            [] => Ok(()),
            [filter] => self.jq(filter, self.named_by(&args)),
            _ => Err("more than one pipe is not checked".to_owned()),
        }
    }

    /// Gives what it says, and whether that is the same each time. `shown`: the page shows some of it.
    fn execute(&self, args: &[String], shown: bool) -> Result<(Vec<u8>, bool), String> {
        let mut args: Vec<String> = args.iter().map(|arg| self.in_run(arg)).collect();
        let verb: Vec<&str> = args.iter().take_while(|a| !a.starts_with('-')).map(String::as_str).collect();
        let help = args.iter().any(|a| matches!(a.as_str(), "--help" | "-h" | "--version" | "-V"));
        let dry = args.iter().any(|a| a == "--dry-run");
        // Virtual time is cheap, and the same each time: what is shown of it is what comes out.
        let in_virtual_time = shown && args.iter().any(|a| a == "--virtual");
        let (codes, comparable): (&[i32], bool) = match verb.as_slice() {
            _ if help => (&[0], true),
            ["capacity", ..] if in_virtual_time => (&[0, 1, 5], true),
            ["mlperf", "rules", ..] => (&[0], true),
            ["run" | "sweep" | "capacity", ..]
            | ["mlperf", "run" | "find-peak", ..]
            | ["quality", "probe" | "run" | "ppl" | "kl", ..] => {
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
            // A search tells people, not machines.
            Some(code) if codes.contains(&code) && in_virtual_time => Ok((out.stderr, comparable)),
            Some(code) if codes.contains(&code) => Ok((out.stdout, comparable)),
            code => {
                Err(format!("ended with {code:?}, not {codes:?}\n{}", String::from_utf8_lossy(&out.stderr)))
            }
        }
    }

    /// `runs/SWEEP` is the small sweep, `runs/ANYTHING` the small run.
    fn in_run(&self, arg: &str) -> String {
        let Some(rest) = arg.strip_prefix("runs/") else { return arg.to_owned() };
        let (name, rest) =
            rest.split_once('/').map_or((rest, String::new()), |(n, rest)| (n, format!("/{rest}")));
        let small = if name == "SWEEP" { &self.sweep } else { &self.run };
        format!("{}{rest}", small.folder.display())
    }

    /// What a command reads.
    fn named_by(&self, args: &[String]) -> (&Value, PathBuf) {
        if args.iter().any(|arg| arg.starts_with("runs/SWEEP")) {
            (&self.sweep.json, self.sweep.folder.join("sweep.json"))
        } else {
            (&self.run.json, self.run.folder.join("run.json"))
        }
    }

    /// What a filter begins with exists in the machine output; where there is a `jq`, it takes the filter.
    fn jq(&self, words: &[String], (json, file): (&Value, PathBuf)) -> Result<(), String> {
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
            let mut value = json;
            for key in &path {
                value = value.get(key).ok_or_else(|| format!("the output has no `{}`", path.join(".")))?;
            }
        }
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

#[test]
fn lines_are_taken_apart_as_a_shell_does() {
    assert_eq!(
        stages("inferometer show a --slo 'ttft<=1 s' --json | jq '.a | .b' # both"),
        [vec!["inferometer", "show", "a", "--slo", "ttft<=1 s", "--json"], vec!["jq", ".a | .b"]]
    );
    assert_eq!(jq_paths(".trust.checks[] | .id, .x"), [["trust", "checks"]]);
    assert_eq!(jq_paths(".a.b, .c | {d}"), [vec!["a", "b"], vec!["c"]]);
}
