//! Comparisons of two servers' answers, each of one kind.

use std::collections::BTreeMap;

use present::html::Compared;
use quality::divergence::{Position, TopK, put_positions};
use quality::gate::{Report, Settings, compare};
use quality::{Answer, Ask, Generate, Generated, Hash, Item, Outcome, Prompt};

use super::Noise;

/// What the pages say they are of.
pub const OF: Compared<'static> = Compared {
    base: "llama-3.1-8b bf16",
    new: "llama-3.1-8b int4",
    command: "inferometer quality compare base/ new/",
    version: "0.1.0",
};

/// A server on a task: how often it is right, how many answers are cut, how far its distribution shifts.
#[derive(Clone, Copy)]
struct Server {
    flips: f64,
    loses: f64,
    cut: f64,
    shift: f64,
}

const SAME: Server = Server { flips: 0.02, loses: 0.5, cut: 0.002, shift: 0.02 };

fn item(task: &str, doc: u64, right: bool, cut: bool, shift: Option<f64>) -> Item {
    let generated = Generated {
        text: format!("So the answer is {}", if right { 42 } else { 41 }),
        finish_reason: Some(if cut { "length" } else { "stop" }.to_owned()),
        output_tokens: Some(if cut { 512 } else { 90 + doc * 7 % 60 }),
        ..Generated::default()
    };
    let mut outcome = Outcome {
        extracted: Some(serde_json::json!(if right { doc % 9 } else { doc % 9 + 1 })),
        scores: BTreeMap::from([("exact_match".to_owned(), f64::from(u8::from(right)))]),
        parts: serde_json::Map::new(),
    };
    let positions = |shift: f64| -> Vec<Position> {
        let row = |i: u32| {
            let tilt = 0.2 * f64::from(i % 5);
            let all = [2.0 - shift + tilt, 1.0 + shift, 0.5, 0.0, -1.0 - tilt, -3.0];
            let whole = TopK::of_logits(&all);
            let logprob = whole.entries.iter().find(|(id, _)| *id == i % 6).map_or(0.0, |e| e.1);
            Position { target: i % 6, logprob, top: TopK::new(whole.entries.into_iter().take(4).collect()) }
        };
        (0..12).map(row).collect()
    };
    if let Some(shift) = shift {
        put_positions(&mut outcome.parts, &positions(shift));
    }
    Item {
        task: task.to_owned(),
        doc,
        repeat: 0,
        doc_hash: Hash(format!("{task}-{doc}")),
        prompt_hash: Hash(format!("p{doc}")),
        target_hash: Hash("42".to_owned()),
        category: None,
        asks: vec![Ask::Generate(Generate {
            prompt: Prompt::Text("?".to_owned()),
            max_tokens: Some(512),
            stop: Vec::new(),
            temperature: 0.0,
            extra: serde_json::Map::new(),
        })],
        answers: vec![Answer::Generated(generated)],
        outcomes: BTreeMap::from([("strict-match".to_owned(), outcome)]),
    }
}

/// A baseline that is right on `share` of `n` documents, and this server's answers to the same.
fn pair(
    noise: &mut Noise,
    task: &str,
    n: u64,
    share: f64,
    server: Server,
    text: bool,
) -> (Vec<Item>, Vec<Item>) {
    (0..n)
        .map(|doc| {
            let base = noise.unit() < share;
            let flip = noise.unit() < server.flips;
            let new = if flip { noise.unit() >= server.loses } else { base };
            let cut = noise.unit() < server.cut;
            let shift = |by: f64| (text && doc < 50).then_some(by);
            (
                item(task, doc, base, noise.unit() < 0.002, shift(0.0)),
                item(task, doc, new && !cut, cut, shift(server.shift)),
            )
        })
        .unzip()
}

fn report(seed: u64, tasks: &[(&str, u64, f64, Server)], noise: bool, settings: &Settings) -> Report {
    let mut random = Noise(seed);
    let (mut base, mut new, mut again) = (Vec::new(), Vec::new(), (Vec::new(), Vec::new()));
    for (i, (task, n, share, server)) in tasks.iter().enumerate() {
        let (b, x) = pair(&mut random, task, *n, *share, *server, i == 0);
        base.extend(b);
        new.extend(x);
        let (b, x) = pair(&mut random, task, *n, *share, SAME, i == 0);
        again.0.extend(b);
        again.1.extend(x);
    }
    let noise = noise.then_some((again.0.as_slice(), again.1.as_slice()));
    compare(&base, &new, noise, settings).unwrap()
}

/// Every kind.
pub fn all() -> Vec<(&'static str, Report)> {
    let settings = Settings { resamples: 200, ..Settings::default() };
    let worse = Server { flips: 0.25, loses: 0.8, cut: 0.0, shift: 0.3 };
    let cut = Server { cut: 0.09, ..SAME };
    let hostile = "<script>alert(1)</script> \u{1b}[31m";
    vec![
        (
            "quality-pass",
            report(
                1,
                &[
                    ("gsm8k", 600, 0.75, SAME),
                    ("arc_challenge", 500, 0.6, SAME),
                    ("ruler_niah", 400, 0.97, SAME),
                ],
                true,
                &settings,
            ),
        ),
        (
            "quality-worse",
            report(
                2,
                &[
                    ("gsm8k", 600, 0.75, worse),
                    ("arc_challenge", 500, 0.6, SAME),
                    ("mmlu_pro", 500, 0.35, SAME),
                ],
                true,
                &Settings { kl_limit: Some(0.02), ..settings.clone() },
            ),
        ),
        (
            "quality-cut",
            report(3, &[("gsm8k", 300, 0.75, cut), ("ruler_niah", 400, 0.97, SAME)], false, &settings),
        ),
        (
            "quality-open",
            report(
                4,
                &[("mmlu_pro", 200, 0.30, Server { flips: 0.3, ..SAME }), (hostile, 12, 0.5, SAME)],
                false,
                &settings,
            ),
        ),
        ("quality-nothing", compare(&[], &[], None, &settings).unwrap()),
    ]
}
