//! The command line: help, errors with hints, streams, exit codes.

use crate::harness::{Run, closed_port, file, inferometer};

fn said(args: &[&str]) -> Run {
    Run::of(inferometer(args).output().expect("the binary starts"))
}

#[test]
fn help_names_every_verb() {
    let out = inferometer(&["--help"]).output().expect("starts");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success());
    for verb in ["run", "show", "report", "sim", "spec"] {
        assert!(text.contains(verb), "{verb} is missing from\n{text}");
    }
}

#[test]
fn wrong_requests_exit_2_and_name_the_fix() {
    for (args, expected) in [
        (&["run"][..], "hint: "),
        (&["run", "sim://llama-3.1-8b@h100", "--rate", "6", "--concurrency", "16"][..], "--cap"),
        (&["run", "sim://llama-3.1-8b@h100", "--slo", "p99(tpott)<=50ms"][..], "p99(tpot)<=50ms"),
        (&["run", "sim://llama-3.1-8b@h100", "--rate", "0"][..], "rate"),
        (&["run", "sim://lama-3.1-8b@h100", "--rate", "1"][..], "llama-3.1-8b"),
        (&["run", "sim://llama-3.1-8b@h1000", "--rate", "1"][..], "h100"),
        (&["run", "localhost:8000"][..], "http://localhost:8000"),
        (&["run", "sim://fixed", "--isl", "banana"][..], "isl"),
        (&["run", "sim://fixed", "--duration", "10"][..], "10s"),
        (&["run", "-f", "no-such-file.yaml"][..], "no-such-file.yaml"),
        (&["show", "no-such-folder"][..], "no-such-folder"),
        (&["report", "/dev/null"][..], "/dev/null"),
        (&["spec", "check", "no-such-file.yaml"][..], "no-such-file.yaml"),
        (&["run", "sim://fixed", "--label", "gpus"][..], "KEY=VALUE"),
        (&["run", "sim://fixed", "--header", "nonsense"][..], "NAME: VALUE"),
        (&["run", "sim://fixed", "--extra-body", "{"][..], "JSON"),
        (&["run", "sim://fixed", "--api-key-env", "NO_SUCH_VARIABLE_HERE"][..], "NO_SUCH_VARIABLE_HERE"),
        (&["run", "sim://fixed", "--data", "jsonl:no-such.jsonl"][..], "no-such.jsonl"),
        (&["run", "sim://fixed", "--tokenizer", "no-such.json"][..], "no-such.json"),
        (&["run", "sim://fixed", "--no-such-flag"][..], "--no-such-flag"),
        (&["frobnicate"][..], "frobnicate"),
    ] {
        let run = said(args);
        assert_eq!(run.code, 2, "{args:?}\n{}", run.stderr);
        assert!(run.stderr.starts_with("error:"), "{args:?}\n{}", run.stderr);
        assert!(run.stderr.contains(expected), "{args:?} should mention {expected}\n{}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{args:?}\n{}", run.stderr);
    }
}

#[test]
fn a_spec_file_is_checked_and_its_faults_are_located() {
    let folder = tempfile::tempdir().expect("a folder");
    let good =
        file(folder.path(), "good.yaml", "target: sim://fixed\nload: {rate: 6/s}\nslo: [ttft<=500ms]\n");
    let out = inferometer(&["spec", "check"]).arg(&good).output().expect("starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let spec: serde_json::Value = serde_json::from_slice(&out.stdout).expect("the spec as JSON");
    assert_eq!(spec["slo"]["joint"][0], "ttft<=500ms");
    assert_eq!(spec["timeouts"]["idle"], "1m", "every default is written out");

    let bad =
        file(folder.path(), "bad.yaml", "target: sim://fixed\nload:\n  rate: 6/s\n  burstyness: 0.25\n");
    let out = inferometer(&["spec", "check"]).arg(&bad).output().expect("starts");
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2));
    assert!(text.contains("bad.yaml:4") && text.contains("burstiness"), "{text}");
}

#[test]
fn the_schema_accepts_what_the_check_accepts() {
    let schema = inferometer(&["spec", "schema"]).output().expect("starts");
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    for (spec, good) in [
        (serde_json::json!({"target": "sim://fixed", "load": {"rate": 6}}), true),
        (serde_json::json!({"target": "sim://fixed", "load": {"concurrency": 16, "think": "8s"}}), true),
        (serde_json::json!({"target": "sim://fixed", "lode": {}}), false),
    ] {
        assert_eq!(validator.is_valid(&spec), good, "{spec}");
    }
}

#[test]
fn nothing_listening_exits_4_and_says_what_was_tried() {
    let url = format!("http://127.0.0.1:{}", closed_port());
    let run = said(&["run", &url, "--model", "M", "--wait", "300ms", "--requests", "1"]);
    assert_eq!(run.code, 4, "{}", run.stderr);
    assert!(run.stderr.contains("nothing answered at") && run.stderr.contains("refused"), "{}", run.stderr);
}

#[test]
fn the_engine_lists_what_it_knows() {
    let out = inferometer(&["sim", "list"]).output().expect("starts");
    let text = String::from_utf8_lossy(&out.stdout);
    for name in ["llama-3.1-405b", "deepseek-r1", "gpt-oss-120b", "b200", "mi300x", "rtx4090", "fifo"] {
        assert!(text.to_lowercase().contains(name), "{name} is missing from\n{text}");
    }
}
