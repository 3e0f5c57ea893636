//! Loading tasks: includes, groups, tags, ports, YAML as Python reads it, and files that are refused.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

use quality::task::{
    Function, Index, Library, Options, Port, Ports, Score, Suite, Task, TaskError, documents,
    documents::Format,
};
use quality::{Answer, Ask, Prompt, Scored};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn load_with(
    files: &[(&str, &str)],
    name: &str,
    ports: &Ports,
    port: Option<&str>,
) -> Result<Suite, TaskError> {
    let read = |path: &str| {
        files
            .iter()
            .find(|(known, _)| *known == path)
            .map(|(_, text)| (*text).to_owned())
            .ok_or("no such file".to_owned())
    };
    let mut index = Index::default();
    files.iter().for_each(|(path, text)| index.add(path, text));
    Library { read: &read, index: &index, ports, port }.load(name)
}

fn load(files: &[(&str, &str)], name: &str) -> Result<Suite, TaskError> {
    load_with(files, name, &Ports::default(), None)
}

fn task(suite: &Suite, documents: Value) -> Result<Task, TaskError> {
    let config = suite.tasks[0].clone();
    let split = config.evaluated_split()?.to_owned();
    Task::new(config, &BTreeMap::from([(split, documents.as_array().unwrap().clone())]))
}

fn prompt(task: &Task) -> String {
    match &task.items(&Options::default()).unwrap()[0].asks[0] {
        Ask::Generate(generate) => match &generate.prompt {
            Prompt::Text(text) => text.clone(),
            Prompt::Chat(_) => panic!("a chat"),
        },
        Ask::Score { context, continuation } => format!("{context}|{continuation}"),
        Ask::Rolling { text } => text.clone(),
    }
}

const SIMPLE: &str = "task: t\ntest_split: test\ndoc_to_text: '{{q}}'\ndoc_to_target: a\n";

#[test]
fn own_keys_win_over_included_ones() {
    let files = [
        ("a/base.yaml", "num_fewshot: 3\nrepeats: 2\ndescription: base\ninclude: ../more/deep.yaml\n"),
        ("more/deep.yaml", "num_fewshot: 9\ntest_split: test\ndoc_to_text: q\n"),
        ("a/second", "repeats: 4\n"),
        ("a/t.yaml", "include: [base.yaml, ./second]\ntask: t\ndescription: own\ndoc_to_target: a\n"),
    ];
    let suite = load(&files, "t").unwrap();
    let config = &suite.tasks[0];
    assert_eq!((config.num_fewshot, config.repeats, config.evaluated_split().unwrap()), (Some(3), 4, "test"));
    assert_eq!(
        load(&[("x.yaml", "include: x.yaml\ntask: t\n")], "t").unwrap_err().message,
        "it includes itself"
    );
}

#[test]
fn groups_hold_tasks_tags_and_groups() {
    let one = |name: &str, tag: &str| {
        format!(
            "task: {name}\ntag: {tag}\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\nnum_fewshot: 1\n"
        )
    };
    let (a, b, c) = (one("a", "[x, y]"), one("b", "x"), one("c", "z"));
    let group = "
group: all
group_alias: All
num_fewshot: 2
task:
  - x
  - group: inner
    task: [c]
    aggregate_metric_list: {metric: exact_match, weight_by_size: false}
  - {task: c, task_alias: see}
  - {task: fresh, test_split: test, doc_to_text: q, doc_to_target: a}
aggregate_metric_list:
  - {metric: exact_match, filter_list: none}
metadata: {version: 3}
";
    let files = [("a.yaml", a.as_str()), ("b.yaml", &b), ("c.yaml", &c), ("g.yaml", group)];
    let suite = load(&files, "all").unwrap();
    let names: Vec<&str> = suite.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "all::fresh"]);
    assert!(suite.tasks.iter().all(|task| task.num_fewshot == Some(2)), "a group's keys go to its tasks");
    let groups: Vec<(&str, &[String])> =
        suite.groups.iter().map(|g| (g.name.as_str(), g.children.as_slice())).collect();
    assert_eq!(groups[0], ("all::inner", &["c".to_owned()][..]));
    assert_eq!(groups[1].1, ["a", "b", "all::inner", "c", "all::fresh"]);
    assert_eq!(suite.groups[1].leaves, ["a", "b", "c", "c", "all::fresh"]);
    let unknown = load(&[("g.yaml", "group: g\ntask: [nothing]\n")], "g").unwrap_err();
    assert!(unknown.to_string().contains("nothing") && unknown.hint.is_some(), "{unknown}");
    assert!(load(&[("g.yaml", "group: g\ntask: [g]\n")], "g").unwrap_err().message.contains("nested"));
}

#[test]
fn a_python_function_is_refused_by_name() {
    let yaml = "task: t\ntest_split: test\ndoc_to_text: !function utils.build_prompt\ndoc_to_target: a\n";
    let error = load(&[("t.yaml", yaml)], "t").unwrap_err();
    assert!(error.message.contains("utils.build_prompt") && error.message.contains("doc_to_text"), "{error}");
    assert!(error.hint.unwrap().contains("hellaswag"));
    // A Python file that is not the known one does not select a port.
    let error = load(&[("d/t.yaml", yaml), ("d/utils.py", "def build_prompt(doc): ...")], "t").unwrap_err();
    assert!(error.message.contains("Python is not run here"));
    let error = load_with(&[("t.yaml", yaml)], "t", &Ports::default(), Some("wikitext")).unwrap_err();
    assert!(error.message.contains("\"wikitext\" does not have"), "{error}");
    let error = load_with(&[("t.yaml", yaml)], "t", &Ports::default(), Some("nothing")).unwrap_err();
    assert!(error.hint.unwrap().contains("wikitext"));
    for (key, value) in [
        ("filter_list", "[{name: f, filter: [{function: !function u.F}]}]"),
        ("metric_list", "[{metric: !function u.m}]"),
        ("process_docs", "!function u.p"),
        ("fewshot_config", "{samples: !function u.s}"),
    ] {
        let error = load(&[("t.yaml", &format!("{SIMPLE}{key}: {value}\n"))], "t").unwrap_err();
        assert!(error.to_string().contains("u."), "{key}: {error}");
    }
}

const HELLASWAG: &str = "
task: h
output_type: multiple_choice
validation_split: validation
process_docs: !function utils.process_docs
doc_to_text: '{{query}}'
doc_to_target: '{{label}}'
doc_to_choice: choices
";

#[test]
fn built_in_ports() {
    let suite = load_with(&[("h.yaml", HELLASWAG)], "h", &Ports::default(), Some("hellaswag")).unwrap();
    let document = json!([{"ctx_a": " A man is.", "ctx_b": "he Sits [x] [title] down", "activity_label": "Sport",
        "endings": ["[substeps] one", "two  [step] three"], "label": "1"}]);
    let hellaswag = task(&suite, document).unwrap();
    // By lm-evaluation-harness 0.4.13's tasks/hellaswag/utils.py.
    assert_eq!(prompt(&hellaswag), "Sport: A man is. He sits . down|  one");
    let asked = &hellaswag.items(&Options::default()).unwrap()[0];
    assert_eq!((&asked.target, &asked.document["gold"]), (&json!(1), &json!(1)));

    let yaml = "
task: w
output_type: loglikelihood_rolling
test_split: test
doc_to_text: ''
doc_to_target: !function preprocess_wikitext.wikitext_detokenizer
process_results: !function preprocess_wikitext.process_results
metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}]
";
    let suite = load_with(&[("w.yaml", yaml)], "w", &Ports::default(), Some("wikitext")).unwrap();
    let wikitext = task(&suite, json!([{"page": " A film @-@ maker ."}])).unwrap();
    assert_eq!(prompt(&wikitext), " A film-maker .");
    let asked = &wikitext.items(&Options::default()).unwrap()[0];
    let answer = Answer::Scored(Scored { logprob: -9.0, greedy: None, tokens: 3 });
    let item = wikitext.judge(asked, vec![answer]).unwrap();
    // Words and bytes are those of the page as it came, with an empty word before its first space.
    assert_eq!(item.outcomes["none"].parts["word_perplexity"], json!([-9.0, 6]));
    assert_eq!(item.outcomes["none"].parts["byte_perplexity"], json!([-9.0, 19]));
}

#[test]
fn ports_of_others_can_be_added() {
    static MINE: Port = Port {
        name: "mine",
        same_as: &[],
        functions: &[
            ("u.text", Function::Field(|document| Ok(json!(format!("<{}>", document["q"]))))),
            (
                "u.score",
                Function::Scores(|_, results| {
                    Ok(vec![(
                        "len".to_owned(),
                        Score::Number(results[0].as_str().unwrap_or_default().len() as f64),
                    )])
                }),
            ),
            (
                "u.most",
                Function::Aggregation(|scores| {
                    scores
                        .iter()
                        .filter_map(|score| match score {
                            Score::Number(x) => Some(*x),
                            Score::Parts(_) => None,
                        })
                        .reduce(f64::max)
                }),
            ),
        ],
    };
    let yaml = "task: t\ntest_split: test\ndoc_to_text: !function u.text\ndoc_to_target: a\nprocess_results: !function u.score\nmetric_list: [{metric: len, aggregation: !function u.most}]\n";
    let suite = load_with(&[("t.yaml", yaml)], "t", &Ports::default().with([&MINE]), Some("mine")).unwrap();
    let task = task(&suite, json!([{"q": 1, "a": "x"}, {"q": 2, "a": "x"}])).unwrap();
    assert_eq!(prompt(&task), "<1>");
    let asked = task.items(&Options::default()).unwrap();
    let answer =
        |text: &str| Answer::Generated(quality::Generated { text: text.to_owned(), ..Default::default() });
    let items =
        [("ab", 0), ("abcd", 1)].map(|(text, at)| task.judge(&asked[at], vec![answer(text)]).unwrap());
    let results = task.results(&items, &Options::default(), 100);
    assert_eq!((results.metrics[0].value, results.metrics[0].stderr), (Some(4.0), None));
}

/// Values that PyYAML 6 gave for the same text.
#[test]
fn yaml_as_python_reads_it() {
    let text = "task: t\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\nmetadata:\n  version: 1.0\n  yes_is: yes\n  octal: 010\n  under: 1_000\n  power: 1e5\n  power2: 1.0e+5\n  hex: 0x1F\n  nothing: ~\n  quoted: 'no'\n  merged:\n    <<: &base {k: 1, l: 2}\n    k: 3\n  again: *base\n  block: |\n    a\n    b\n  last: 1\n  last: 2\n";
    // Metadata is not interpreted, so it comes back as it was read.
    let config = load(&[("t.yaml", text)], "t").unwrap().tasks.remove(0);
    let wanted = json!({"version": 1.0, "yes_is": true, "octal": 8, "under": 1000, "power": "1e5",
        "power2": 100_000.0, "hex": 31, "nothing": null, "quoted": "no", "merged": {"k": 3, "l": 2},
        "again": {"k": 1, "l": 2}, "block": "a\nb\n", "last": 2});
    assert_eq!(config.raw()["metadata"], wanted);
}

/// Texts that Jinja2 3.1 gave with StrictUndefined and keep_trailing_newline.
#[test]
fn templates_as_jinja_writes_them() {
    let document = json!({"q": " x\u{1f}", "n": 3, "f": 1e22, "t": true, "no": null, "l": ["b", "it's"], "d": {"k": [1, 2.0]}, "s": "a, b,c"});
    let cases = [
        ("{{q.strip()}}|\n", "x|\n"),
        (
            "{{l}} {{d}} {{t}} {{no}} {{f}} {{n / 2}} {{n // 2}}",
            "['b', \"it's\"] {'k': [1, 2.0]} True None 1e+22 1.5 1",
        ),
        ("{{l.index(\"it's\")}}{{s.split(',')[1].lstrip()}}{{s.split(',')|length}}", "1b3"),
        ("{% for x in l %}{{loop.index}}{{x}}{% endfor %}", "1b2it's"),
        ("{% set y = 'A' if n > 2 else 'B' %}{{y}}{{'%' ~ n}}", "A%3"),
        ("{{l|join(';')}} {{s|replace('a', 'z')}} {{'héLLo'.capitalize()}}", "b;it's z, b,c Héllo"),
        ("{{s|regex_replace('(\\w),', '\\\\1;')}} {{n|string|length}} {{['A','B'][t|int]}}", "a; b;c 1 B"),
        (
            "{{(l + ['c'])[1:]}} {{s[:-1]}} {{'b' in l}} {{q is defined}} {{zz is defined}}",
            "[\"it's\", 'c'] a, b, True True False",
        ),
        (
            "{{l|map('upper')|list}} {{'a-b-c'.rsplit('-', 1)[0]}} {{s.removeprefix('a')}}",
            "['B', \"IT'S\"] a-b , b,c",
        ),
    ];
    for (template, wanted) in cases {
        let yaml = json!({"task": "t", "test_split": "test", "doc_to_text": template, "doc_to_target": "s"});
        let suite = load(&[("t.yaml", &yaml.to_string())], "t").unwrap();
        let task = task(&suite, json!([document])).unwrap_or_else(|error| panic!("{template}: {error}"));
        assert_eq!(prompt(&task), wanted, "{template}");
    }
}

#[test]
fn what_does_not_fit_is_said() {
    let fail = |yaml: &str, documents: Value| {
        let suite = load(&[("t.yaml", yaml)], "t");
        suite
            .and_then(|suite| task(&suite, documents))
            .and_then(|task| task.items(&Options::default()))
            .unwrap_err()
            .to_string()
    };
    let one = json!([{"q": "x", "a": "y"}]);
    let cases = [
        ("task: t\n", "doc_to_text"),
        ("- a\n", "no such file"),
        ("task: [t\n", "no such file"),
        (&format!("{SIMPLE}num_fewshot: many\n"), "`num_fewshot` is \"many\""),
        (&format!("{SIMPLE}repeats: 4000000000\n"), "at most 10000"),
        (&format!("{SIMPLE}nonsense: 1\n"), "`nonsense` is not known"),
        (&format!("{SIMPLE}output_type: guess\n"), "\"guess\" is not known"),
        (&format!("{SIMPLE}metric_list: [{{metric: bleu}}]\n"), "\"bleu\" is not supported"),
        (
            &format!(
                "{SIMPLE}filter_list: [{{name: f, filter: [{{function: regex, regex_pattern: '('}}]}}]\n"
            ),
            "cannot be used",
        ),
        (
            &format!("{SIMPLE}filter_list: [{{name: f, filter: [{{function: take_first_k, k: 2}}]}}]\n"),
            "`repeats` gives 1",
        ),
        (
            &format!(
                "{SIMPLE}filter_list: [{{name: f, filter: [{{function: take_first}}, {{function: lowercase}}]}}]\n"
            ),
            "nothing can follow take_first",
        ),
        (&format!("{SIMPLE}unsafe_code: true\n"), "executes code"),
        (&format!("{SIMPLE}num_fewshot: 2\nfewshot_split: train\n"), "they come from the split \"train\""),
        (&format!("{SIMPLE}num_fewshot: 2\n"), "2 worked examples are wanted, and there are 1"),
        (&SIMPLE.replace("{{q}}", "{{missing}}"), "undefined"),
        (&SIMPLE.replace("{{q}}", "{% if %}"), "template `doc_to_text`"),
        (
            &SIMPLE.replace(
                "{{q}}",
                "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
            ),
            "fuel",
        ),
        (&SIMPLE.replace("test_split: test", "test_split: ~"), "neither a test_split nor a validation_split"),
        (&format!("{SIMPLE}output_type: multiple_choice\ndoc_to_choice: '{{{{q}}}}'\n"), "no Python literal"),
    ];
    for (yaml, wanted) in cases {
        let error = fail(yaml, one.clone());
        assert!(error.contains(wanted), "{yaml}\n{error}");
    }
    let suite = load(&[("t.yaml", SIMPLE)], "t").unwrap();
    assert!(task(&suite, json!([])).unwrap_err().message.contains("no documents"));
    let laughs = format!(
        "{SIMPLE}metadata:\n  a: &a [x, x, x, x, x, x, x, x, x]\n  b: &b [*a, *a, *a, *a, *a, *a, *a, *a]\n  c: &c [*b, *b, *b, *b, *b, *b, *b, *b]\n  d: &d [*c, *c, *c, *c, *c, *c, *c, *c]\n  e: &e [*d, *d, *d, *d, *d, *d, *d, *d]\n  f: [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e, *e]\n"
    );
    assert!(load(&[("t.yaml", &laughs)], "t.yaml").unwrap_err().message.contains("too large"));
}

#[test]
fn rows_have_every_column() {
    let text =
        "{\"a\": 1, \"c\": {\"x\": 1}}\n\n{\"b\": \"\u{2028}\", \"a\": 2.5, \"c\": {\"y\": [1, 2.0]}}\n";
    let rows = documents::read("f.jsonl", text, Format::Json).unwrap();
    let wanted =
        r#"[{"a":1.0,"c":{"x":1,"y":null},"b":null},{"a":2.5,"c":{"x":null,"y":[1.0,2.0]},"b":"\u2028"}]"#;
    assert_eq!(serde_json::to_string(&rows).unwrap(), wanted.replace("\\u2028", "\u{2028}"));
    assert_eq!(documents::read("f.json", "[{\"a\": 1}]", Format::Json).unwrap(), [json!({"a": 1})]);
    let csv = "n,x,t,b,e\n1,1.5,\"a, \"\"b\"\"\",True,\n2,3,c,False,\n";
    let rows = documents::read("f.csv", csv, Format::Csv).unwrap();
    assert_eq!(rows[0], json!({"n": 1, "x": 1.5, "t": "a, \"b\"", "b": true, "e": null}));
    assert_eq!(rows[1]["x"], json!(3.0));
    let line = documents::read("f.jsonl", "{}\n{\n", Format::Json).unwrap_err().to_string();
    assert!(line.starts_with("f.jsonl: line 2: no JSON"), "{line}");
    assert!(documents::read("f.jsonl", "1\n", Format::Json).is_err());
    assert!(documents::read("f.csv", "a,b\n1\n", Format::Csv).is_err());
    assert_eq!(Format::of("x/y.jsonl", None), Some(Format::Json));
    assert_eq!(Format::of("y", Some("csv")), Some(Format::Csv));
    assert_eq!(Format::of("y.parquet", Some("parquet")), None);
}

proptest::proptest! {
    #[test]
    fn hostile_files_give_errors(
        lines in proptest::collection::vec("(task|doc_to_text|doc_to_target|doc_to_choice|output_type|metric_list|filter_list|num_fewshot|repeats|include|group|fewshot_config|generation_kwargs|gen_prefix|description|tag|metadata|<<)?: ?([\\[\\]{}&*!|>'\"a-c0-9.,:~-]|multiple_choice|\\{\\{q|\\}\\}|%\\}|\\{%| for i in q){0,6}", 0..8),
        junk in "\\PC{0,40}",
    ) {
        let yaml = format!("{SIMPLE}{}\n", lines.join("\n"));
        for text in [yaml.as_str(), &junk, &lines.join("\n")] {
            let Ok(suite) = load(&[("t.yaml", text)], "t.yaml") else { continue };
            let Some(config) = suite.tasks.first() else { continue };
            let documents = vec![json!({"q": "1", "a": "0", "choices": ["x"]}), json!({})];
            let Ok(split) = config.evaluated_split().map(str::to_owned) else { continue };
            let Ok(task) = Task::new(config.clone(), &BTreeMap::from([(split, documents)])) else { continue };
            let Ok(asked) = task.items(&Options { limit: Some(1), ..Options::default() }) else { continue };
            let answers: Vec<Answer> = asked[0].asks.iter().map(|_| Answer::Scored(Scored { logprob: f64::NAN, greedy: None, tokens: 0 })).collect();
            if let Ok(item) = task.judge(&asked[0], answers) {
                let results = task.results(&[item], &Options::default(), 10);
                proptest::prop_assert!(results.metrics.iter().all(|m| m.value.is_none()));
            }
        }
    }
}
