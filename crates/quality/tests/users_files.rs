//! Benchmarks on users' files: official formats and wording, judgement, and errors that name the row.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

mod common;

use common::{Words, answer};
use quality::files::{
    Cut, FileError, Fit, Gsm8k, InferenceBench, LongBench, LongBenchTemplates, LongBenchV2,
    LongBenchV2Template, MmluPro, MmluProLayout, MmluProPrompt, Overlong, RulerFile, cut_middle, reservoir,
    rows,
};
use quality::{Answer, Ask, Benchmark, Item, Prompt, Question, Role, Tokens, Wording};
use serde_json::{Value, json};

const WIDE: usize = 1_000_000;

fn fit(tokens: &Words, budget: usize, policy: Overlong) -> Fit<'_> {
    Fit { tokens, budget, policy }
}

fn prompt(question: &Question) -> &str {
    match &question.asks[..] {
        [Ask::Generate(generate)] => match &generate.prompt {
            Prompt::Chat(turns) => &turns.last().unwrap().content,
            Prompt::Text(text) => text,
        },
        other => panic!("one question, got {other:?}"),
    }
}

fn item(task: &dyn Benchmark, at: usize, text: &str) -> Item {
    task.judge(&task.questions()[at], vec![answer(text)])
}

fn value(task: &dyn Benchmark, items: &[Item], method: &str, part: Option<&str>) -> Option<f64> {
    let items: Vec<&Item> = items.iter().collect();
    let scores = task.scores(&items);
    scores.iter().find(|score| score.method == method && score.part.as_deref() == part).unwrap().value
}

fn close(value: Option<f64>, wanted: f64) -> bool {
    value.is_some_and(|value| (value - wanted).abs() < 1e-9)
}

fn mmlu_row(id: u64, category: &str, answer: &str) -> Value {
    json!({"question_id": id, "question": "Which is even?", "options": ["one", "two", "three", "N/A"],
           "answer": answer, "answer_index": 1, "cot_content": "", "category": category, "src": "x"})
}

#[test]
fn the_draw_of_inferencebench_is_the_same() {
    let data: Value = serde_json::from_str(include_str!("data/inferencebench_subset.json")).unwrap();
    let list = |key: &str| -> Vec<usize> { serde_json::from_value(data[key].clone()).unwrap() };
    let drawn = reservoir(12_032, 500, 248);
    assert_eq!(drawn.len(), 500);
    assert_eq!(drawn, list("indices_seed_248"));
    assert_eq!(reservoir(12_032, 500, 42)[..20], list("indices_seed_42"));
    assert_eq!(reservoir(20, 5, 7), list("tiny: 20 rows, k=5, seed 7"));
    assert_eq!(reservoir(3, 5, 7), [0, 1, 2]);
}

#[test]
fn mmlu_pro_is_asked_in_own_words_and_judged_by_three_programs() {
    let text = [mmlu_row(1, "math", "B"), mmlu_row(2, "law", "B"), mmlu_row(3, "law", "A")]
        .map(|row| row.to_string());
    let task = MmluPro::new(&text.join("\n"), &MmluProPrompt::Own, None).unwrap();
    assert_eq!(task.name(), "mmlu_pro");
    assert!(matches!(task.wording(), Wording::Own { .. }));
    let first = prompt(&task.questions()[0]);
    assert!(
        first.contains("(A) one\n(B) two\n(C) three") && !first.contains("N/A") && first.contains("math"),
        "{first}"
    );

    let items =
        [item(&task, 0, "The answer is (B)."), item(&task, 1, "Answer: B"), item(&task, 2, "no idea")];
    assert!(close(value(&task, &items, "official", None), 2.0 / 3.0));
    assert!(close(value(&task, &items, "official", Some("math")), 1.0));
    assert!(close(value(&task, &items, "official", Some("law")), 0.5));
    assert!(close(value(&task, &items, "custom-extract", None), 1.0 / 3.0));
    // CPython: random.Random(12345).randint(0, 2) is 1, and A is 0.
    assert!(close(value(&task, &items, "official-random-guess", None), 2.0 / 3.0));
    assert_eq!(items[2].outcomes["official"].extracted, None);

    let failed = [task.judge(&task.questions()[0], vec![Answer::Failed { reason: "reset".to_owned() }])];
    assert_eq!(value(&task, &failed, "official", None), None);
    let list = format!("[{}]", text.join(","));
    let picked = MmluPro::new(&list, &MmluProPrompt::Own, Some(&[2, 0])).unwrap();
    assert_eq!(picked.questions().iter().map(|question| question.doc).collect::<Vec<_>>(), [2, 0]);
    assert!(MmluPro::new(&list, &MmluProPrompt::Own, Some(&[3])).unwrap_err().to_string().contains("row 4"));
}

/// Laid out like the official program, with other words.
const PROGRAM: &str = r#"
def format_cot_example(example, including_answer=True):
    prompt = "Q>\n"
    question = example["question"]
    options = example["options"]
    prompt += question + "\n"
    prompt += "O>\n"
    for i, opt in enumerate(options):
        prompt += "{}] {}\n".format(choices[i], opt)
    if including_answer:
        cot_content = example["cot_content"].replace("A: x", "B: x")
        prompt += cot_content + "\n\n"
    else:
        prompt += "Go:"
    return prompt
"#;

#[test]
fn official_wording_is_read_from_the_users_copy() {
    let layout = MmluProLayout::read(PROGRAM, "About {$}.\n\n\n").unwrap();
    let row = mmlu_row(1, "math", "B").to_string();
    let task = MmluPro::new(&row, &MmluProPrompt::Official(layout), None).unwrap();
    assert_eq!(
        prompt(&task.questions()[0]),
        "About math.\n\n\n\nQ>\nWhich is even?\nO>\nA] one\nB] two\nC] three\nGo:"
    );
    let Ask::Generate(generate) = &task.questions()[0].asks[0] else { panic!() };
    assert_eq!(
        (generate.max_tokens, generate.stop.as_slice()),
        (Some(2048), ["Question:".to_owned()].as_slice())
    );
    assert_eq!(task.name(), "mmlu_pro_official");
    assert!(task.wording().to_string().contains("MMLU-Pro"));

    let changed = PROGRAM.replace("prompt += question + \"\\n\"", "prompt += render(question)");
    for (program, instruction) in [("", "{$}"), (&*changed, "{$}"), (PROGRAM, "no place")] {
        let error = MmluProLayout::read(program, instruction).unwrap_err();
        assert!(error.to_string().contains("f418b11"), "{error}");
    }
}

/// `MMLU_PRO_REPOSITORY` names a checkout of TIGER-AI-Lab/MMLU-Pro; `MMLU_PRO_PROMPT` a file with the zero-shot
/// prompt that its `generate_cot_prompt` makes of the made-up row.
#[test]
#[ignore = "needs a checkout of MMLU-Pro, which is not kept here"]
fn the_official_prompt_is_byte_equal() {
    let folder = std::path::PathBuf::from(std::env::var("MMLU_PRO_REPOSITORY").unwrap());
    let read = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap();
    let layout =
        MmluProLayout::read(&read("evaluate_from_local.py"), &read("cot_prompt_lib/initial_prompt.txt"))
            .unwrap();
    let row = mmlu_row(1, "math", "B").to_string();
    let task = MmluPro::new(&row, &MmluProPrompt::Official(layout), None).unwrap();
    let wanted = std::fs::read_to_string(std::env::var("MMLU_PRO_PROMPT").unwrap()).unwrap();
    assert_eq!(prompt(&task.questions()[0]), wanted);
}

#[test]
fn samples_of_inferencebench_are_asked_as_they_are() {
    let text = json!({"sample_id": "70", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "gold_answer": "A", "max_new_tokens": 2048, "temperature": 0.0, "parse_mode": "mcq10"})
    .to_string();
    let task = InferenceBench::new(&text).unwrap();
    let Ask::Generate(generate) = &task.questions()[0].asks[0] else { panic!() };
    let Prompt::Chat(turns) = &generate.prompt else { panic!() };
    assert_eq!((turns.len(), turns[0].role, generate.max_tokens), (2, Role::System, Some(2048)));
    // Its upper-casing makes an answer of the article.
    assert!(close(value(&task, &[item(&task, 0, "this is a guess")], "inferencebench", None), 1.0));
    assert_eq!(item(&task, 0, "x").outcomes.len(), 1);
    for bad in [text.replace("\"A\"", "\"K\""), text.replace("user", "boss"), text.replace("2048", "-1")] {
        assert!(InferenceBench::new(&bad).unwrap_err().to_string().starts_with("line 1"));
    }
}

#[test]
fn gsm8k_is_judged_strictly_flexibly_and_officially() {
    let text = json!({"question": "2 + 16?", "answer": "2+16=<<2+16=18>>18\n#### 18"}).to_string();
    let task = Gsm8k::new(&format!("{text}\n\n{text}\n")).unwrap();
    let items = [item(&task, 0, "So\n#### 18"), item(&task, 1, "It is 18.")];
    assert!(close(value(&task, &items, "strict-match", None), 0.5));
    assert!(close(value(&task, &items, "flexible-extract", None), 1.0));
    assert!(close(value(&task, &items, "official", None), 0.5));
    let bad = format!("{text}\n{}", json!({"question": "x", "answer": "18"}));
    assert!(Gsm8k::new(&bad).unwrap_err().to_string().starts_with("line 2"));
}

fn longbench_row(dataset: &str, answers: Value) -> Value {
    json!({"input": "Who?", "context": "Ann {sang}.", "answers": answers, "all_classes": null, "length": 5000,
           "dataset": dataset, "language": "en", "_id": "x"})
}

#[test]
fn longbench_reads_templates_and_scores_in_percent() {
    let tokens = Words::default();
    let text = longbench_row("hotpotqa", json!(["Ann", "Miss Ann Lee"])).to_string();
    let templates =
        LongBenchTemplates::read(r#"{"hotpotqa": "{{T}} {context} / {input}", "lcc": "{context}x"}"#)
            .unwrap();
    let task = LongBench::new(&text, Some(&templates), fit(&tokens, WIDE, Overlong::Fail)).unwrap();
    assert_eq!(prompt(&task.questions()[0]), "{T} Ann {sang}. / Who?");
    assert_eq!(task.name(), "longbench_hotpotqa_official");
    let items = [item(&task, 0, "Ann Lee"), item(&task, 0, "Bob"), item(&task, 0, "Bob")];
    // Ann Lee against Miss Ann Lee: 2 · 1 · ⅔ / (5/3) = 0.8, of three answers.
    assert!(close(value(&task, &items, "official", None), 26.67));
    assert!(close(value(&task, &items, "official", Some("4-8k")), 26.67));

    let own = LongBench::new(&text, None, fit(&tokens, WIDE, Overlong::Fail)).unwrap();
    assert!(prompt(&own.questions()[0]).starts_with("Ann {sang}."));
    assert!(matches!(own.wording(), Wording::Own { .. }));

    let errors = [
        longbench_row("dureader", json!(["x"])).to_string(),
        longbench_row("novels", json!(["x"])).to_string(),
        longbench_row("passage_retrieval_en", json!(["12"])).to_string(),
        longbench_row("hotpotqa", json!("x")).to_string(),
        format!("{text}\n{}", longbench_row("qasper", json!(["x"]))),
    ];
    for (bad, says) in errors.iter().zip(["jieba", "novels", "Paragraph", "list of texts", "line 2"]) {
        let error = LongBench::new(bad, None, fit(&tokens, WIDE, Overlong::Fail)).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    let error = LongBench::new(
        &longbench_row("qasper", json!(["x"])).to_string(),
        Some(&templates),
        fit(&tokens, WIDE, Overlong::Fail),
    );
    assert!(error.unwrap_err().to_string().contains("hotpotqa, lcc"));
    for bad in ["", "[]", r#"{"a": 1}"#, r#"{"a": "no place"}"#] {
        assert!(LongBenchTemplates::read(bad).is_err());
    }
    let lone = LongBenchTemplates::read(r#"{"hotpotqa": "{context} {"}"#).unwrap();
    assert!(LongBench::new(&text, Some(&lone), fit(&tokens, WIDE, Overlong::Fail)).is_err());
}

#[test]
fn prompts_above_their_budget_fail_are_skipped_or_lose_their_middle() {
    let tokens = Words::default();
    let mut row = longbench_row("lcc", json!(["x"]));
    row["context"] = json!("a b c d e f g h i");
    row["input"] = json!("");
    let text = row.to_string();
    let make = |budget, policy| LongBench::new(&text, None, fit(&tokens, budget, policy));
    let error = make(5, Overlong::Fail).unwrap_err().to_string();
    assert!(
        error.starts_with("line 1") && error.contains("9 tokens") && error.contains("budget is 5"),
        "{error}"
    );
    let skipped = make(5, Overlong::Skip).unwrap();
    assert_eq!((skipped.questions().len(), skipped.counts().skipped), (0, 1));
    let cut = make(5, Overlong::Middle).unwrap();
    assert_eq!((prompt(&cut.questions()[0]), cut.counts().cut), ("a b h i", 1));
    assert_eq!(make(9, Overlong::Fail).unwrap().counts().cut, 0);

    assert_eq!(cut_middle(&tokens, "a b c d e", 3, Cut::Texts).unwrap(), "a e");
    assert_eq!(cut_middle(&tokens, "a b c d e", 3, Cut::Ids).unwrap(), "a d e");
    assert_eq!(cut_middle(&tokens, "a b c", 0, Cut::Ids).unwrap(), "");
    assert_eq!(cut_middle(&tokens, "a b", 2, Cut::Ids).unwrap(), "a b");
}

#[test]
fn longbench_v2_fills_the_official_template_and_prints_its_table() {
    let tokens = Words::default();
    let row = |difficulty: &str, length: &str| {
        json!({"_id": "1", "domain": "d", "sub_domain": "s", "difficulty": difficulty, "length": length, "question": " Q? ",
               "choice_A": "w", "choice_B": "x", "choice_C": "y", "choice_D": "z", "answer": "B", "context": " Text. "})
    };
    let text = json!([row("easy", "short"), row("hard", "long"), row("hard", "medium")]).to_string();
    let template = LongBenchV2Template::read("<$DOC$> $Q$ $C_A$ $C_B$ $C_C$ $C_D$").unwrap();
    let task = LongBenchV2::new(&text, Some(&template), fit(&tokens, WIDE, Overlong::Fail)).unwrap();
    assert_eq!(prompt(&task.questions()[0]), "<Text.> Q? w x y z");
    let items = [
        item(&task, 0, "The correct answer is (B)"),
        item(&task, 1, "The correct answer is C"),
        item(&task, 2, "Hm."),
    ];
    for (part, plain, compensated) in [
        (None, 33.3, 41.7),
        (Some("easy"), 100.0, 100.0),
        (Some("hard"), 0.0, 12.5),
        (Some("medium"), 0.0, 25.0),
        (Some("long"), 0.0, 0.0),
    ] {
        assert!(close(value(&task, &items, "official", part), plain), "{part:?}");
        assert!(close(value(&task, &items, "official-compensated", part), compensated), "{part:?}");
    }
    assert_eq!(value(&task, &items[1..], "official", Some("easy")), None);
    assert!(LongBenchV2Template::read("$DOC$ $Q$").unwrap_err().to_string().contains("$C_A$"));
    let own = LongBenchV2::new(&text, None, fit(&tokens, WIDE, Overlong::Fail)).unwrap();
    assert!(prompt(&own.questions()[0]).contains("The correct answer is (X)"));
    let bad = text.replace("\"B\"", "\"E\"");
    let error = LongBenchV2::new(&bad, None, fit(&tokens, WIDE, Overlong::Fail)).unwrap_err();
    assert!(error.to_string().starts_with("row 1"), "{error}");
}

#[test]
fn rulers_own_data_are_asked_and_scored_as_it_does() {
    let row = json!({"index": 0, "input": "<s>Text. Question?", "outputs": ["Denver Broncos", "Broncos"], "length": 99,
        "answer_prefix": " Answer:"})
    .to_string();
    let task = RulerFile::new(&row, "qa_1").unwrap();
    let Ask::Generate(generate) = &task.questions()[0].asks[0] else { panic!() };
    assert_eq!((prompt(&task.questions()[0]), generate.max_tokens), ("<s>Text. Question? Answer:", Some(32)));
    let items = [item(&task, 0, "the Broncos"), item(&task, 0, "Rams"), item(&task, 0, "Rams")];
    assert!(close(value(&task, &items, "string-match-part", None), 33.33));
    assert!(close(value(&task, &items, "lm-eval-string-match-part", None), 16.67));
    let task = RulerFile::new(&row, "niah_multivalue").unwrap();
    assert!(close(value(&task, &[item(&task, 0, "broncos")], "string-match-all", None), 50.0));
    assert!(RulerFile::new(&row, "niah").unwrap_err().to_string().contains("niah"));
    let bad = row.replace(r#"["Denver Broncos","Broncos"]"#, "[]");
    assert!(RulerFile::new(&bad, "vt").unwrap_err().to_string().starts_with("line 1"));
}

#[test]
fn hostile_files_give_errors_that_name_the_place() {
    let good = mmlu_row(1, "math", "B").to_string();
    let cases = [
        (String::new(), "no rows"),
        ("[]".to_owned(), "no rows"),
        ("\u{feff}\n \n".to_owned(), "no rows"),
        (format!("{good}\n{{\"question\": "), "line 2"),
        (format!("{good}\n3"), "line 2: expected a JSON object, got a number"),
        (format!("[{good},\n\"x\"]"), "row 2: expected a JSON object, got a text"),
        (format!("[{good},\n{{]"), "line 2"),
        (good.replace("\"B\"", "\"E\""), "line 1: expected `answer`"),
        (good.replace("\"B\"", "\"ß\""), "line 1: expected `answer`"),
        (good.replace("\"B\"", "7"), "line 1: expected `answer` to be a text, got a number"),
        (
            good.replace("[\"one\",\"two\",\"three\",\"N/A\"]", "[\"one\",\"N/A\"]"),
            "line 1: expected 2 to 10",
        ),
        (good.replace("\"one\"", "1"), "line 1: expected `options` to be a list of texts"),
        (good.replace("\"category\"", "\"kind\""), "line 1: expected `category` to be a text, got nothing"),
        ("[".repeat(100_000), "line 1"),
        ("\0\u{1f}💥".to_owned(), "line 1"),
    ];
    for (text, says) in cases {
        let error = MmluPro::new(&text, &MmluProPrompt::Own, None).unwrap_err().to_string();
        assert!(error.contains(says), "{error} for {text:.60}");
    }
    assert!(matches!(rows("{}"), Ok(rows) if rows.len() == 1));
    assert!(matches!(rows("x"), Err(FileError::Row { .. })));
    assert_eq!(Words::default().count("a b.").unwrap(), 3);
}
