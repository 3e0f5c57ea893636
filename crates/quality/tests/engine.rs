//! What real engines say of a prompt, and answers that must not be believed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::float_cmp,
    reason = "a test may fail here; equality is meant"
)]

use quality::engine::{Client, Fault, Manner, Mode, Reply, Server};
use quality::{Answer, Ask, Generate, Prompt};
use serde_json::{Map, Value, json};
use std::cell::RefCell;

/// "The capital of France is", in SmolLM2's tokens.
const IDS: [u32; 5] = [504, 3575, 282, 4649, 314];
/// The engine's own values, of all tokens but the first.
const VALUES: [f64; 4] = [-11.70806884765625, -0.33559009432792664, -2.415597915649414, -0.47251105308532715];

/// Gives one answer to everything, and keeps what was asked.
struct Canned {
    answer: Value,
    asked: RefCell<Vec<Value>>,
}

impl Canned {
    fn new(answer: Value) -> Self {
        Self { answer, asked: RefCell::default() }
    }
    fn file(text: &str) -> Self {
        Self::new(serde_json::from_str(text).unwrap())
    }
}

impl Server for Canned {
    fn get(&self, _: &str) -> Result<Reply, Fault> {
        Ok(Reply { status: 404, body: Value::Null, excerpt: String::new() })
    }
    fn post(&self, _: &str, body: &Value) -> Result<Reply, Fault> {
        self.asked.borrow_mut().push(body.clone());
        Ok(Reply { status: 200, body: self.answer.clone(), excerpt: String::new() })
    }
}

fn manner(mode: Mode) -> Manner {
    Manner {
        model: "smollm2".to_owned(),
        mode,
        tokenizer: false,
        named_ids: false,
        prefix: Vec::new(),
        empty: None,
        context: Some(2048),
        prefill_fields: false,
        max_tokens: 16,
        extra: Map::new(),
    }
}

#[test]
fn vllm_says_the_same_in_both_ways() {
    let prompt = Canned::file(include_str!("data/engine/vllm_prompt_logprobs.json"));
    let manner_of_prompt = manner(Mode::PromptLogprobs);
    let rows = Client::new(&prompt, &manner_of_prompt).rows(&IDS, 1, 1).unwrap();
    assert_eq!(rows.iter().map(|row| row.logprob).collect::<Vec<_>>(), VALUES);
    let greedy = [Some(false), Some(true), Some(false), Some(true)];
    assert_eq!(rows.iter().map(|row| row.greedy).collect::<Vec<_>>(), greedy);
    // The prompt's own token is no likeliest one at rank 3,121; at rank 2 of 2 it is told, so it is kept.
    assert_eq!(rows[0].top, [(29, -0.8330687284469604)]);
    assert_eq!(rows[2].top, [(260, -2.165597915649414), (4649, VALUES[2])]);
    assert_eq!(prompt.asked.borrow()[0]["prompt"], json!(IDS));

    // Two tokens were written in this capture; with one, as it is asked for, six values come.
    let mut answer: Value = serde_json::from_str(include_str!("data/engine/vllm_echo.json")).unwrap();
    for list in ["tokens", "token_logprobs", "top_logprobs"] {
        answer["choices"][0]["logprobs"][list].as_array_mut().unwrap().truncate(6);
    }
    let echo = Canned::new(answer);
    let manner_of_echo = manner(Mode::Echo);
    let rows = Client::new(&echo, &manner_of_echo).rows(&IDS, 1, 1).unwrap();
    assert_eq!(rows.iter().map(|row| row.logprob).collect::<Vec<_>>(), VALUES);
    assert_eq!(rows.iter().map(|row| row.greedy).collect::<Vec<_>>(), greedy);
}

#[test]
fn what_cannot_be_a_score_is_a_failure_and_never_a_number() {
    let echo = |values: Value, tokens: usize| {
        let tokens: Vec<String> = (0..tokens).map(|i| i.to_string()).collect();
        json!({ "choices": [{ "logprobs": { "tokens": tokens, "token_logprobs": values } }], "usage": { "prompt_tokens": 5 } })
    };
    let ignored: Value = serde_json::from_str(include_str!("data/engine/llama_echo_ignored.json")).unwrap();
    for (answer, word) in [
        (ignored, "no logprobs.token_logprobs"),
        (echo(json!([]), 0), "0 values came for the 5 tokens"),
        (echo(json!([-1.0]), 1), "1 values came"),
        (echo(json!([null, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0]), 7), "7 values came"),
        (echo(json!([-1.0, -1.0, -1.0, -1.0, -1.0]), 5), "nothing stands before it"),
        (echo(json!([null, -1.0, null, -1.0, -1.0]), 5), "token 2 of the prompt has no log-probability"),
        (echo(json!([null, 0.5, -1.0, -1.0, -1.0]), 5), "0.5 is no log-probability"),
    ] {
        let server = Canned::new(answer);
        let manner = manner(Mode::Echo);
        let fault = Client::new(&server, &manner).rows(&IDS, 1, 1).unwrap_err();
        assert!(matches!(&fault, Fault::Unusable(words) if words.contains(word)), "{word}: {fault}");
    }
    // Another token came back than was sent.
    let server = Canned::file(include_str!("data/engine/vllm_prompt_logprobs.json"));
    let manner = manner(Mode::PromptLogprobs);
    let fault = Client::new(&server, &manner).rows(&[504, 3575, 282, 4649, 315], 1, 1).unwrap_err();
    assert!(fault.to_string().contains("token 315 was sent and 314 came back"), "{fault}");
    // More than fits is no score either.
    let long = vec![1; 2048];
    assert!(
        Client::new(&server, &manner).rows(&long, 1, 1).unwrap_err().to_string().contains("context is 2048")
    );
}

#[test]
fn a_forced_token_that_is_not_the_one_that_came_is_no_step_of_a_walk() {
    let step = |id: u32| {
        json!({ "completion_probabilities": [{ "id": id, "logprob": -2.5,
                "top_logprobs": [{ "id": 260, "logprob": -1.9 }, { "id": 4649, "logprob": -2.5 }] }] })
    };
    let manner = manner(Mode::Walk);
    let server = Canned::new(step(4649));
    let rows = Client::new(&server, &manner).rows(&IDS[..4], 3, 2).unwrap();
    assert_eq!((rows[0].logprob, rows[0].greedy), (-2.5, Some(false)));
    let asked = &server.asked.borrow()[0];
    assert_eq!((&asked["prompt"], &asked["logit_bias"]), (&json!([504, 3575, 282]), &json!([[4649, 1000]])));
    let other = Canned::new(step(7));
    let fault = Client::new(&other, &manner).rows(&IDS[..4], 3, 2).unwrap_err();
    assert!(fault.to_string().contains("token 4649 was forced"), "{fault}");
}

#[test]
fn a_thinking_model_out_of_budget_has_written_nothing_and_says_why() {
    let answer = json!({ "choices": [{ "message": { "content": null, "reasoning_content": "Let me see" },
                         "finish_reason": "length" }], "usage": { "completion_tokens": 16 } });
    let server = Canned::new(answer);
    let manner = manner(Mode::GenerateOnly);
    let ask = Ask::Generate(Generate {
        prompt: Prompt::Chat(Vec::new()),
        max_tokens: None,
        stop: vec!["\n".to_owned()],
        temperature: 0.0,
        extra: Map::new(),
    });
    let Answer::Generated(made) = Client::new(&server, &manner).answer(&ask).unwrap() else {
        panic!("a text")
    };
    assert_eq!((made.text.as_str(), made.reasoning.as_deref()), ("", Some("Let me see")));
    assert_eq!((made.finish_reason.as_deref(), made.output_tokens), (Some("length"), Some(16)));
    let asked = &server.asked.borrow()[0];
    assert_eq!((&asked["max_tokens"], &asked["stop"]), (&json!(16), &json!(["\n"])));
    // A score cannot be had of it: an answer that says so.
    let score = Ask::Score { context: "a".to_owned(), continuation: "b".to_owned() };
    let failed = Client::new(&server, &manner).answer(&score).unwrap();
    assert!(matches!(failed, Answer::Failed { reason } if reason.contains("cannot score")));
}
