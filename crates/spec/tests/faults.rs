//! What a user reads when something is wrong; hostile files do no harm.

use proptest::prelude::*;
use spec::{Draft, SpecError};

fn faults(text: &str) -> Vec<SpecError> {
    match Draft::from_text("bench.yaml", text).and_then(Draft::resolve) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(faults) => faults,
    }
}
fn shown(text: &str) -> String {
    faults(text).iter().map(|f| format!("error: {f}\n")).collect::<Vec<_>>().join("\n")
}

#[test]
fn faults_of_a_file_are_shown_with_their_lines() {
    let text = "\
target: http://localhost:8000
workload:
  isl: 512
  osl: many
load:
  rate: 6/s
  burstyness: 0.25
phases: {warmup: 10, measure: 30 fortnights}
slo:
  - ttft<=500
  - p99(tpott)<=50ms
api:
  key: sk-abcdef
  Authorization: Bearer sk-123456
  headers: 5
isl: 512
duration: 30s
seed: -1
";
    insta::assert_snapshot!(shown(text));
}

#[test]
fn combinations_that_contradict_each_other() {
    let cases = [
        "load: {rate: 6, concurrency: 16}",
        "load: {rate: 6, think: 8s}",
        "load: {concurrency: 4, cap: 8}",
        "load: {concurrency: 4, ramp: \"1:30s\", burstiness: 2}",
        "load: {burstiness: 0.5}",
        "load: {think: 5s}",
        "load: {rate: inf}",
        "load: {rate: inf, ramp: \"1:30s\"}\nphases: {measure: 30s, warmup: 5s}",
        "load: {rate: 6, ramp: \"inf:30s\"}",
        "load: {rate: 6, ramp: \"1:0s\", cap: 0}",
        "load: {concurrency: 0}",
        "phases: {measure: 0s}",
        "phases: {measure: 0 requests}",
        "workload: {isl: data}",
        "workload: {isl: 0, osl: 0..5}",
        "workload: {isl: 500..100}",
        "workload: {isl: 512, cache: shared-prefix:600/4}",
        "workload: {isl: 100..500, cache: shared-prefix:101/0}",
        "workload: {cache: repeat:0}",
        "workload: {isl: \"normal(0,5)\", osl: \"lognormal(512,5,max=100)\"}",
        "api: {stream: false}\nslo: [ttft<=1s, p99(itl)<=50ms, e2e<=5s]",
        "client: {connections: prewarmed:0, lanes: 0}",
        "client: {lanes: 4}\nload: {concurrency: 2}",
        "client: {bind: [127.0.0.2, 0.0.0.0, 127.0.0.2]}",
        "client: {unix: /run/s.sock, bind: 127.0.0.2}",
        "slo: [ttft<=1s]\nattain: 0",
        "timeouts: {total: 0s}",
        "api: {headers: {\"X Y\": a, X-Z: \"a\\r\\nB: c\"}, key: env:K, path: v1}",
        "api: {headers: {authorization: x}, key: env:K}",
        "api: {sampling: {temperature: -1, top_p: 0}, model: \"\"}",
    ];
    let targets = [
        "target: [http://h:1, http://h:2, http://h:1/]",
        "target: [http://h:1, sim://fixed]",
        "target: [http://h:1, http://h:2]\nclient: {unix: /run/s.sock}",
        "target: https://h/v2\nclient: {unix: /run/s.sock}",
        "target: sim://fixed\nclient: {unix: /run/s.sock, http2: true}",
    ];
    let text: Vec<String> = cases
        .iter()
        .map(|case| (case, format!("target: http://h:1\n{case}")))
        .chain(targets.iter().map(|case| (case, case.to_string())))
        .map(|(case, text)| format!("# {case}\n{}", shown(&text)))
        .collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn every_fault_is_found_in_one_go() {
    let found = faults("load: {rate: 6, concurrency: 16}\nworkload: {cache: repeat:0}\nattain: 0\n");
    let keys: Vec<_> = found.iter().filter_map(|f| f.key.as_deref()).collect();
    assert_eq!(keys, ["target", "load", "workload.cache", "slo.attain"]);
    assert!(found.iter().all(|f| f.hint.is_some()));
}

#[test]
fn a_contradiction_in_a_file_is_shown_where_it_stands() {
    let file = "target: http://h:1\nworkload:\n  isl: 512\n  cache: shared-prefix:600/4\n";
    insta::assert_snapshot!(shown(file));
    // A flag in place of the file's value has no line.
    let mut flags = Draft::default();
    assert!(flags.set("workload.cache", "repeat:0").is_ok());
    let both = Draft::from_text("bench.yaml", file).map(|base| flags.over(base));
    let found = both.and_then(Draft::resolve).err().unwrap_or_default();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].excerpt, None);
}

#[test]
fn an_empty_flag_is_no_absent_one() {
    let mut draft = Draft::default();
    for (key, text) in
        [("workload.isl", ""), ("load.cap", "null"), ("load.rate", "~"), ("slo", ""), ("client.lanes", "")]
    {
        assert!(draft.set(key, text).is_err(), "{key} {text}");
    }
}

#[test]
fn flags_name_no_line() {
    let mut draft = Draft::default();
    let fault = |draft: &mut Draft, key: &str, text: &str| match draft.set(key, text) {
        Ok(()) => panic!("accepted {key} {text}"),
        Err(fault) => fault,
    };
    let error = fault(&mut draft, "load.rate", "fast");
    assert_eq!(error.key.as_deref(), Some("load.rate"));
    assert_eq!(error.excerpt, None);
    assert!(error.message.contains("`fast` is not a rate"), "{error}");
    assert!(fault(&mut draft, "load.rat", "6").hint.is_some_and(|h| h.contains("`rate`")));
    assert!(fault(&mut draft, "slo", "ttft<=500").hint.is_some_and(|h| h.contains("500ms")));
    assert!(fault(&mut draft, "api.extra_body", "{oops").message.contains("object"));
    assert!(fault(&mut draft, "api.extra_body", "[1]").message.contains("object"));
    // A key given in place of its source is not repeated.
    let error = fault(&mut draft, "api.key", "sk-secret");
    assert!(!error.to_string().contains("sk-secret"), "{error}");
    assert_eq!(draft, Draft::default());
}

#[test]
fn hostile_files_are_refused_without_harm() {
    let deep = format!("api: {}{}", "[".repeat(5_000), "]".repeat(5_000));
    let deep_block: String = (0..500).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    let wide = format!("labels: {{{}}}", (0..30_000).map(|i| format!("k{i}: 1, ")).collect::<String>());
    let laughs = "\
a: &a [x, x, x, x, x, x, x, x, x]
b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]
c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]
labels: *c
";
    let huge_number = format!("seed: {}", "9".repeat(100_000));
    let long_key = format!("{}: 1", "k".repeat(900));
    let long_line = format!("load: {{rate: {}}}", "x".repeat(10_000));
    let cases = [
        deep.as_str(),
        &deep_block,
        &wide,
        laughs,
        &huge_number,
        &long_key,
        &long_line,
        "target: http://h:1\ntarget: http://h:2",
        "load: {rate: .nan}",
        "load: {rate: -.inf}",
        "load: {rate: 1e999}",
        "load: {rate: 6, burstiness: -0}",
        "load: {rate: nan}",
        "load: [1, 2]",
        "load: 6",
        "workload: {isl: 1e99}",
        "workload: {isl: 4294967296}",
        "workload: {isl: {uniform: {min: 1}}}",
        "workload: {isl: {uniform: 5}}",
        "workload: {isl: [1]}",
        "api: {sampling: {temperature: .inf}}",
        "api: {extra_body: 5}",
        "slo: {joint: {a: b}}",
        "slo: [[ttft]]",
        "target: [1]",
        "target: {a: b}",
        "!!binary aGk=",
        "load: !custom {rate: 6}",
        "--- \ntarget: http://h:1\n---\ntarget: http://h:2",
        "{\"target\": ",
        "? [a, b]\n: 1",
        "\t\tload: 6",
        "\u{feff}load: {",
        "%YAML 9.9\n---\nx: 1",
        "",
        "null",
        "5",
        "- a",
        "<<: {a: 1}",
        "load: {rate: 6\n",
        "labels: {a: [1]}",
        "phases: {warmup: 99999999999999999999 requests}",
        "timeouts: {idle: 1e10h}",
        "client: {lanes: 65536}",
        "client: {lanes: 1.5}",
        "client: {lanes: true}",
        "client: {bind: localhost}",
        "client: {bind: {a: b}}",
        "client: {unix: \"\"}",
        "target: []",
    ];
    for case in cases {
        let found = faults(case);
        assert!(!found.is_empty());
        for fault in found {
            let text = fault.to_string();
            assert!(text.len() < 2_000, "{} bytes: {}", text.len(), &text[..200]);
        }
    }
}

#[test]
fn a_fault_in_flow_style_with_commas_says_quote() {
    let text = shown("target: http://h:1\nworkload: {isl: normal(512,64)}");
    assert!(text.contains("quotes"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_text_panics(text in "\\PC{0,80}") {
        let _ = Draft::from_text("x", &text).and_then(Draft::resolve);
    }

    #[test]
    fn no_yaml_like_text_panics(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("load:"), Just(" rate:"), Just("isl"), Just(": "), Just("\n"), Just("  "), Just("- "), Just("{"),
                Just("}"), Just("["), Just("]"), Just("\""), Just("'"), Just("|\n"), Just("&a "), Just("*a"), Just("!!str "),
                Just("slo:"), Just("ttft<=1s"), Just(","), Just("# "), Just("6/s"), Just("µ"), Just("\t"), Just("---\n"),
                Just("api:"), Just(" headers:"), Just("null"), Just(".inf"), Just("? "),
            ],
            0..40,
        ),
    ) {
        let _ = Draft::from_text("x", &parts.concat()).map_err(|e| e.iter().map(ToString::to_string).collect::<Vec<_>>());
    }

    #[test]
    fn no_flag_panics(key in "[a-z_.]{0,20}", text in "\\PC{0,40}") {
        let _ = Draft::default().set(&key, &text);
        for key in ["target", "workload.isl", "load.rate", "load.ramp", "phases.warmup", "slo", "api.key", "attain", "timeouts.idle", "workload.cache"] {
            let _ = Draft::default().set(key, &text).map_err(|e| e.to_string());
        }
    }
}
