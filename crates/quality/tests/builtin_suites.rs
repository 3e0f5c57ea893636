//! Generated tasks: the same by seed, as long as asked, with their answers in the text, and judged rightly.

#![allow(clippy::unwrap_used, reason = "a test may fail here")]

mod common;

use common::{Words, answer};
use quality::builtin::{
    Arithmetic, BuiltinError, Documents, Format, Niah, NiahGrid, Perplexity, Placement, Ruler, SUITES, Setup,
    Shape, Suite, TEXT, TEXT_SHA_256, heat_map, insert_official, linear, pieces, sentences, sigmoid,
};
use quality::{Answer, Ask, Benchmark, Hash, Item, Prompt, Question, Scored, Tokens};
use serde_json::Value;

fn setup(tokens: &Words, seed: u64) -> Setup<'_> {
    Setup { seed, tokens, template: 20, thinking: 0 }
}

fn prompt(question: &Question) -> &str {
    match &question.asks[..] {
        [Ask::Generate(generate)] => match &generate.prompt {
            Prompt::Chat(turns) => &turns[0].content,
            Prompt::Text(text) => text,
        },
        other => panic!("one question, got {other:?}"),
    }
}

fn max_tokens(question: &Question) -> usize {
    match &question.asks[0] {
        Ask::Generate(generate) => generate.max_tokens.unwrap() as usize,
        other => panic!("{other:?}"),
    }
}

fn references(question: &Question) -> Vec<String> {
    serde_json::from_value(question.target.clone()).unwrap()
}

/// What a perfect model says, and what one says that has nothing.
fn judged(task: &dyn Benchmark, perfect: impl Fn(&Question) -> String) -> (Vec<Item>, Vec<Item>) {
    let all = |text: &dyn Fn(&Question) -> String| {
        task.questions().iter().map(|question| task.judge(question, vec![answer(&text(question))])).collect()
    };
    (all(&perfect), all(&|_| "no idea".to_owned()))
}

fn total(task: &dyn Benchmark, items: &[Item]) -> f64 {
    let items: Vec<&Item> = items.iter().collect();
    task.scores(&items).into_iter().find(|score| score.part.is_none()).unwrap().value.unwrap()
}

#[test]
fn the_bundled_text_is_what_its_hash_says() {
    assert_eq!(Hash::of(TEXT.as_bytes()).0, TEXT_SHA_256);
    assert!(TEXT.is_ascii() && TEXT.len() <= 60_000);
    assert_eq!(sentences(TEXT).concat(), TEXT);
    let pieces = pieces(2000);
    assert!(pieces.len() >= 16 && pieces[..pieces.len() - 1].iter().all(|piece| piece.len() >= 2000));
    assert_eq!(pieces.join("\n\n") + "\n", TEXT);
}

#[test]
fn sentences_end_where_a_reader_ends_them() {
    let text = "One. Two!' Three?\n\nTITLE\n\nFour 3.5 is one.";
    assert_eq!(sentences(text), ["One. ", "Two!' ", "Three?\n\n", "TITLE\n\n", "Four 3.5 is one."]);
    assert!(sentences("").is_empty());
}

#[test]
fn the_same_seed_gives_the_same_questions_and_another_gives_others() {
    let tokens = Words::default();
    for shape in Shape::SYNTHETIC {
        let make = |seed| Ruler::synthetic(shape, 1500, 2, setup(&tokens, seed)).unwrap();
        let (a, b, c) = (make(7), make(7), make(8));
        assert_eq!(a.questions(), b.questions(), "{shape:?}");
        assert_ne!(a.questions()[0].target, c.questions()[0].target, "{shape:?}");
        assert_ne!(a.questions()[0].target, a.questions()[1].target, "{shape:?}");
    }
}

#[test]
fn prompts_fill_their_length_and_never_exceed_it() {
    let tokens = Words::default();
    for shape in Shape::SYNTHETIC {
        for length in [1500, 4096] {
            let task = Ruler::synthetic(shape, length, 3, setup(&tokens, 1)).unwrap();
            assert_eq!(task.questions().len(), 3);
            for question in task.questions() {
                let used = tokens.count(prompt(question)).unwrap() + 20 + max_tokens(question);
                assert!(used <= length, "{shape:?} {used} of {length}");
                assert!(used * 10 >= length * 9, "{shape:?} {used} of {length}");
            }
        }
    }
}

/// RULER's own program never ends here.
#[test]
fn a_length_that_nothing_fits_is_an_error_that_says_what_is_needed() {
    let tokens = Words::default();
    for shape in Shape::SYNTHETIC {
        let error = Ruler::synthetic(shape, 150, 1, setup(&tokens, 1)).unwrap_err();
        assert!(
            matches!(error, BuiltinError::TooShort { needed, given } if needed > given),
            "{shape:?} {error}"
        );
    }
    let error = Ruler::synthetic(Shape::Qa1, 4096, 1, setup(&tokens, 1)).unwrap_err();
    assert!(error.to_string().contains("SQuAD"), "{error}");
}

#[test]
fn answers_stand_in_the_text_as_often_as_the_task_says() {
    let tokens = Words::default();
    for shape in Shape::SYNTHETIC {
        let wanted = match shape {
            Shape::NiahMultivalue | Shape::NiahMultiquery => 4,
            Shape::Vt => 5,
            Shape::Cwe => 10,
            Shape::Fwe => 3,
            _ => 1,
        };
        let task = Ruler::synthetic(shape, 2000, 2, setup(&tokens, 3)).unwrap();
        for question in task.questions() {
            let (text, references) = (prompt(question), references(question));
            assert_eq!(references.len(), wanted, "{shape:?}");
            let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c == '.').collect();
            let count = |word: &str| words.iter().filter(|other| **other == word).count();
            match shape {
                Shape::Vt => {
                    assert!(text.contains(&format!("LET {} = {}.", references[1], references[0])));
                    let places: Vec<usize> =
                        references.iter().map(|name| text.find(name.as_str()).unwrap()).collect();
                    assert!(places.is_sorted(), "a chain stands in its order");
                }
                Shape::Cwe => assert!(references.iter().all(|word| count(word) == 6)),
                Shape::Fwe => {
                    let fifth = words
                        .iter()
                        .filter(|word| word.len() == 6 && !references.iter().any(|one| one == *word))
                        .filter(|word| !["Which", "stands"].contains(word))
                        .map(|word| count(word))
                        .max();
                    let counts: Vec<usize> = references.iter().map(|word| count(word)).collect();
                    assert!(
                        counts[0] > counts[1] && counts[1] > counts[2] && Some(counts[2]) > fifth,
                        "{counts:?} {fifth:?}"
                    );
                }
                _ => assert!(
                    references.iter().all(|value| text.matches(value.as_str()).count() == 1),
                    "{shape:?}"
                ),
            }
        }
    }
}

#[test]
fn a_perfect_answer_scores_100_and_none_scores_0() {
    let tokens = Words::default();
    for shape in Shape::SYNTHETIC {
        let task = Ruler::synthetic(shape, 1500, 2, setup(&tokens, 1)).unwrap();
        let (perfect, clueless) = judged(&task, |question| references(question).join(", "));
        assert!((total(&task, &perfect) - 100.0).abs() < 1e-9, "{shape:?}");
        assert!(total(&task, &clueless).abs() < 1e-9, "{shape:?}");
    }
}

const SQUAD: &str = r#"{"data": [{"paragraphs": [
  {"context": "The Rhine flows to the sea.", "qas": [
    {"question": "Where does it flow?", "answers": [{"text": "to the sea"}, {"text": "the sea"}]},
    {"question": "When?", "answers": [], "is_impossible": true}]},
  {"context": "Basel lies on the Rhine.", "qas": [{"question": "What lies on it?", "answers": [{"text": "Basel"}]}]}]}]}"#;
const HOTPOT: &str = r#"[{"question": "Who?", "answer": "Ann",
  "context": [["One", ["Ann ", "sang."]], ["Two", ["Bob did not."]], ["Three", ["Nor did Cy."]]]}]"#;

#[test]
fn questions_on_documents_keep_those_that_answer_them() {
    let tokens = Words::default();
    let squad = Documents::squad(SQUAD).unwrap();
    let task = Ruler::questions_on(Shape::Qa1, &squad, 300, 2, setup(&tokens, 1)).unwrap();
    for question in task.questions() {
        assert!(references(question).iter().all(|answer| prompt(question).contains(answer)));
        assert!(prompt(question).contains("[2]\n"), "the other document fits, too");
    }
    let (perfect, clueless) = judged(&task, |question| references(question)[0].clone());
    assert!((total(&task, &perfect) - 100.0).abs() < 1e-9 && total(&task, &clueless).abs() < 1e-9);
    let error = Ruler::questions_on(Shape::Qa1, &squad, 300, 3, setup(&tokens, 1)).unwrap_err();
    assert!(error.to_string().contains("2 questions"), "{error}");

    let hotpot = Documents::hotpot(HOTPOT).unwrap();
    let task = Ruler::questions_on(Shape::Qa2, &hotpot, 300, 1, setup(&tokens, 1)).unwrap();
    assert!(prompt(&task.questions()[0]).contains("One\nAnn sang."));
    for bad in ["", "{}", "[1]", "{\"data\": [{\"paragraphs\": 3}]}", SQUAD] {
        assert!(Documents::hotpot(bad).is_err());
    }
    let error = Documents::squad("{\"data\":\n [{\"paragraphs\": 3}]}").unwrap_err();
    assert!(error.to_string().starts_with("line 2"), "{error}");
}

#[test]
fn lengths_depths_and_places_of_the_original_needle_are_the_same() {
    let data: Value = serde_json::from_str(include_str!("data/niah.json")).unwrap();
    let list = |key: &str| -> Vec<f64> { serde_json::from_value(data[key].clone()).unwrap() };
    assert_eq!(linear(1000.0, 16000.0, 35), list("context_lengths_default"));
    assert_eq!(linear(0.0, 100.0, 35), list("depths_linear_default"));
    assert_eq!(sigmoid(35), list("depths_sigmoid_35"));
    assert_eq!(sigmoid(11), list("depths_sigmoid_11"));
    assert_eq!((linear(5.0, 9.0, 1), linear(5.0, 9.0, 0), sigmoid(1)), (vec![5.0], vec![], vec![0.0]));

    let insert = &data["insert"];
    let buffer = insert["final_context_length_buffer"].as_u64().unwrap() as usize;
    let cases = insert["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 14);
    for case in cases {
        let tokens = Words::default();
        let (needle, depth) = (insert["needle"].as_str().unwrap(), case["depth_percent"].as_f64().unwrap());
        let length = case["context_length"].as_u64().unwrap() as usize;
        let out = insert_official(&tokens, case["trimmed"].as_str().unwrap(), needle, depth, length, buffer)
            .unwrap();
        assert_eq!(out, case["out"].as_str().unwrap(), "{case}");
    }
}

#[test]
fn needles_stand_within_a_sentence_of_their_depth() {
    let tokens = Words::default();
    let grid = NiahGrid { lengths: vec![1000, 3000], depths: linear(0.0, 100.0, 11) };
    let task = Niah::new(&grid, None, Placement::SentenceEnd, setup(&tokens, 5)).unwrap();
    assert_eq!(task.questions().len(), 22);
    for (at, question) in task.questions().iter().enumerate() {
        let (text, depth) = (prompt(question), grid.depths[at % 11]);
        let code = &references(question)[0];
        assert_eq!(text.matches(code.as_str()).count(), 1);
        let (hay, _) = text.rsplit_once("\n\n").unwrap();
        let needle = hay.find("The code of the").unwrap();
        let end = needle + hay[needle..].find(&format!("{code}.")).unwrap() + code.len() + 1;
        let rest = hay[end..].trim_start();
        let all = sentences(&hay[..needle]).len() + sentences(rest).len();
        let before = sentences(&hay[..needle]);
        // By characters the needle is at most one sentence before its depth.
        let whole = (needle + rest.len()) as f64;
        let next = sentences(rest).first().map_or(0, |one| one.len());
        let (from, to) = (needle as f64, (needle + next) as f64);
        let wanted = whole * depth / 100.0;
        assert!(from <= wanted + 2.0 && wanted <= to + 2.0, "{depth} {from} {wanted} {to} of {all}");
        assert!(
            before.last().is_none_or(
                |last| last.trim_end().ends_with(['.', '!', '?', '\'', ')']) || last.ends_with('\n')
            )
        );
        let used = tokens.count(text).unwrap() + 20 + max_tokens(question);
        let length = grid.lengths[at / 11];
        assert!(used <= length && used * 10 >= length * 9, "{used} of {length}");
    }
}

#[test]
fn needles_of_the_original_rule_stand_behind_a_period_before_their_depth() {
    let tokens = Words::default();
    let grid = NiahGrid { lengths: vec![800], depths: vec![0.0, 33.0, 100.0] };
    let task = Niah::new(&grid, None, Placement::Original, setup(&tokens, 5)).unwrap();
    for (question, depth) in task.questions().iter().zip(&grid.depths) {
        let text = prompt(question);
        assert_eq!(text.matches(references(question)[0].as_str()).count(), 1);
        let (hay, _) = text.rsplit_once("\n\n").unwrap();
        let (before, behind) = hay.split_once("\nThe code of the").unwrap();
        let (before_tokens, all) = (tokens.count(before).unwrap(), tokens.count(hay).unwrap());
        match *depth {
            0.0 => assert!(before.is_empty()),
            100.0 => assert!(!behind.contains("\n\n") && before_tokens * 100 > all * 95),
            _ => {
                assert!(before.ends_with('.'));
                let share = before_tokens as f64 * 100.0 / all as f64;
                assert!(share <= 33.0 && share > 10.0, "{share}");
            }
        }
        let used = tokens.count(text).unwrap() + 20 + max_tokens(question);
        assert!((720..=800).contains(&used), "{used}");
    }
    let short = NiahGrid { lengths: vec![130], depths: vec![50.0] };
    assert!(matches!(
        Niah::new(&short, None, Placement::Original, setup(&tokens, 5)),
        Err(BuiltinError::TooShort { .. })
    ));
}

#[test]
fn the_heat_map_has_a_cell_for_each_length_and_depth_and_failures_are_no_zeros() {
    let tokens = Words::default();
    let grid = NiahGrid { lengths: vec![1200, 600], depths: vec![100.0, 0.0] };
    let task =
        Niah::new(&grid, Some("Hay is dry. Straw is dry, too."), Placement::SentenceEnd, setup(&tokens, 5))
            .unwrap();
    let answers = ["miss", "found", "found", "failed"];
    let items: Vec<Item> = task
        .questions()
        .iter()
        .zip(answers)
        .map(|(question, kind)| {
            let answer = match kind {
                "found" => answer(&format!("It is {}.", references(question)[0])),
                "miss" => answer("It is 12."),
                _ => Answer::Failed { reason: "timeout".to_owned() },
            };
            task.judge(question, vec![answer])
        })
        .collect();
    let items: Vec<&Item> = items.iter().collect();
    let cells: Vec<(usize, f64, Option<f64>, u64)> =
        heat_map(&items).into_iter().map(|cell| (cell.length, cell.depth, cell.score, cell.failed)).collect();
    assert_eq!(
        cells,
        [
            (600, 0.0, None, 1),
            (600, 100.0, Some(1.0), 0),
            (1200, 0.0, Some(1.0), 0),
            (1200, 100.0, Some(0.0), 0)
        ]
    );
    assert_eq!(task.scores(&items)[0].failed, 1);
    let bad = NiahGrid { lengths: vec![600], depths: vec![120.0] };
    assert!(
        Niah::new(&bad, None, Placement::SentenceEnd, setup(&tokens, 5))
            .unwrap_err()
            .to_string()
            .contains("120")
    );
    assert!(Niah::new(&grid, Some(""), Placement::Original, setup(&tokens, 5)).is_err());
}

#[test]
fn sums_are_right() {
    let tokens = Words::default();
    let task = Arithmetic::new(32, setup(&tokens, 9)).unwrap();
    for question in task.questions() {
        let (sum, _) = prompt(question).split_once(" = ?").unwrap();
        let parts: Vec<&str> = sum.split(' ').collect();
        let number = |at: usize| parts[at].parse::<i64>().unwrap();
        let first = match parts[1] {
            "+" => number(0) + number(2),
            "-" => number(0) - number(2),
            _ => number(0) * number(2),
        };
        let result = if parts.len() == 5 { first + number(4) } else { first };
        assert_eq!(question.target, result, "{sum}");
    }
    let (perfect, clueless) = judged(&task, |question| format!("The result is {}.", question.target));
    assert!((total(&task, &perfect) - 1.0).abs() < 1e-12 && total(&task, &clueless).abs() < 1e-12);
    let judge = |text: &str| task.judge(&task.questions()[0], vec![answer(text)]);
    let wanted = task.questions()[0].target.as_i64().unwrap();
    for text in [format!("é{wanted} ..."), format!("{}9,000 less: {wanted}€", "1 "), wanted.to_string()] {
        assert_eq!(judge(&text).outcomes["last-number"].extracted, Some(wanted.into()), "{text}");
    }
    assert_eq!(judge("= -1,234.").outcomes["last-number"].extracted, Some((-1234).into()));
    assert_eq!(judge("99999999999999999999").outcomes["last-number"].extracted, None);
    let thinking = judge(&format!("<think>{} or", task.questions()[0].target));
    assert_eq!(thinking.outcomes["last-number"].extracted, None, "thinking that never ends is no answer");
}

#[test]
fn forms_are_obeyed_or_not() {
    let tokens = Words::default();
    let task = Format::new(10, setup(&tokens, 9)).unwrap();
    let text = |question: &Question| match &question.target {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (perfect, clueless) = judged(&task, text);
    assert!((total(&task, &perfect) - 1.0).abs() < 1e-12 && total(&task, &clueless).abs() < 1e-12);
    let (fenced, _) = judged(&task, |question| format!("Here:\n```json\n{}\n```", text(question)));
    assert!(total(&task, &fenced).abs() < 1e-12, "strictly a fence is not obeyed");
    assert!(fenced.iter().all(|item| item.outcomes["within-fence"].scores["obeyed"] > 0.5));
    let json = &task.questions()[0];
    let mut wrong = json.target.clone();
    wrong["count"] = Value::from("7");
    let item = task.judge(json, vec![answer(&wrong.to_string())]);
    assert!(item.outcomes["strict"].scores["obeyed"].abs() < 1e-12, "a text is no number");
}

/// By hand: 2000 nats over all bytes of one piece.
#[test]
fn perplexity_is_bits_over_bytes() {
    let task = Perplexity::new(2).unwrap();
    let scored = Answer::Scored(Scored { logprob: -2000.0, greedy: None, tokens: 500 });
    let bytes = pieces(2000)[0].len() as f64;
    let item = task.judge(&task.questions()[0], vec![scored]);
    let failed = task.judge(&task.questions()[1], vec![Answer::Failed { reason: "gone".to_owned() }]);
    let score = &task.scores(&[&item, &failed])[0];
    assert!((score.value.unwrap() - 2000.0 / std::f64::consts::LN_2 / bytes).abs() < 1e-12);
    assert_eq!((score.items, score.failed), (1, 1));
    assert_eq!(task.scores(&[&failed])[0].value, None);
    assert!(Perplexity::new(1000).is_err());
}

#[test]
fn suites_leave_out_what_a_server_cannot_do_and_say_so() {
    let tokens = Words::default();
    let built = Suite::named("smoke").unwrap().build(setup(&tokens, 1), Some(512), false).unwrap();
    assert_eq!(built.tasks.iter().map(|task| task.name()).collect::<Vec<_>>(), ["arithmetic", "format"]);
    assert_eq!(built.left_out.len(), 2);
    assert!(
        built.left_out.iter().any(|why| why.contains("1024") && why.contains("512")),
        "{:?}",
        built.left_out
    );

    let built = Suite::named("smoke").unwrap().build(setup(&tokens, 1), None, true).unwrap();
    assert_eq!((built.tasks.len(), built.left_out.len()), (4, 0));
    let names: Vec<&str> = built.tasks.iter().map(|task| task.name()).collect();
    assert_eq!(names.iter().collect::<std::collections::HashSet<_>>().len(), names.len());
    assert!(built.tasks.iter().all(|task| task.wording().to_string().contains("inferometer only")));
    assert!(Suite::named("all").is_none());
    assert_eq!(SUITES.map(|suite| suite.name), ["smoke", "standard", "long"]);
}
