//! Speculative decoding: how many drafted tokens were accepted, from an engine's own counts.
//!
//! A *step* verifies a draft. The denominators of engines differ, so everything is made of raw counts, and
//! what an engine does not count is not defined. SGLang takes every step for a full draft; vLLM and
//! llama-server count what was proposed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Raw counts; what was not told is `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Verification steps (drafts).
    pub steps: Option<u64>,
    /// Tokens proposed.
    pub proposed: Option<u64>,
    /// Of those, accepted.
    pub accepted: Option<u64>,
    /// Accepted at each position of the draft; empty: not told.
    pub accepted_at: Vec<u64>,
    /// Tokens put out, where the engine counts them beside its steps.
    pub output: Option<u64>,
}

/// What the counts say; a share without a denominator is `null`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Acceptance {
    /// Accepted over proposed.
    pub rate: Option<f64>,
    /// Tokens a step, the one that the target adds included: 1 + accepted / steps.
    pub mean_length: Option<f64>,
    /// Where accepted tokens are not counted: output tokens / steps, which counts the first token of every
    /// answer too and so is a little high.
    pub output_per_step: Option<f64>,
    /// Share of steps that accepted this position.
    pub at: Vec<f64>,
    /// The same of the steps that accepted the position before.
    pub conditional: Vec<f64>,
}

impl Counts {
    /// From the samples (name, text between braces, value) of a `/metrics` page of vLLM, SGLang or
    /// llama-server; series of several models or engines are summed. Gauges are left aside: they tell of
    /// the last moment, not of a window.
    pub fn from_samples<'a>(samples: impl Iterator<Item = (&'a str, &'a str, f64)>) -> Self {
        let mut out = Self::default();
        let mut positions: BTreeMap<u64, u64> = BTreeMap::new();
        for (name, labels, value) in samples {
            let name = name.strip_suffix("_total").unwrap_or(name);
            let Some((engine, name)) = name.split_once(':') else { continue };
            if !(0.0..=9e15).contains(&value) {
                continue;
            }
            let value = value as u64;
            let add = |to: &mut Option<u64>| *to = Some(to.unwrap_or(0) + value);
            match (engine, name) {
                ("vllm" | "llamacpp", "spec_decode_num_drafts") | ("sglang", "spec_verify_calls") => {
                    add(&mut out.steps);
                }
                ("vllm" | "llamacpp", "spec_decode_num_draft_tokens") => add(&mut out.proposed),
                ("vllm" | "llamacpp", "spec_decode_num_accepted_tokens") => add(&mut out.accepted),
                ("vllm" | "llamacpp", "spec_decode_num_accepted_tokens_per_pos") => {
                    if let Some(position) = label(labels, "position").and_then(|p| p.parse().ok()) {
                        *positions.entry(position).or_insert(0) += value;
                    }
                }
                ("sglang", "generation_tokens") => add(&mut out.output),
                _ => {}
            }
        }
        // Output tokens say nothing where no step was counted.
        out.output = out.output.filter(|_| out.steps.is_some());
        out.accepted_at = in_order(&positions);
        out
    }

    /// From one response: vLLM's `metrics.speculative_decoding`, SGLang's `meta_info` or
    /// `sglext.spec_tokens_details`, llama-server's `timings`. `None`: it tells nothing.
    pub fn from_response(body: &Value) -> Option<Self> {
        let count = |value: &Value, name: &str| value.get(name).and_then(Value::as_u64);
        let places = [
            body.pointer("/metrics/speculative_decoding"),
            body.get("meta_info"),
            body.pointer("/sglext/spec_tokens_details"),
            body.get("timings"),
        ];
        places.into_iter().flatten().find_map(|at| {
            let first = |names: &[&str]| names.iter().find_map(|name| count(at, name));
            let accepted =
                first(&["num_accepted_draft_tokens", "spec_num_correct_drafts", "draft_n_accepted"]);
            let histogram = ["acceptance_histogram", "spec_correct_drafts_histogram"];
            let out = Self {
                steps: first(&["num_spec_steps", "spec_verify_ct"]),
                proposed: first(&["num_draft_tokens", "spec_num_proposed_drafts", "draft_n"]),
                accepted,
                accepted_at: from_histogram(histogram.iter().find_map(|name| at.get(name)), accepted),
                output: None,
            };
            (out != Self::default()).then_some(out)
        })
    }

    /// What was counted between two readings; `None`: a counter went back, so the server was restarted.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let less = |now: Option<u64>, then: Option<u64>| match (now, then) {
            (Some(now), then) => now.checked_sub(then.unwrap_or(0)).map(Some),
            (None, None) => Some(None),
            (None, Some(_)) => None,
        };
        if self.accepted_at.len() < earlier.accepted_at.len() {
            return None;
        }
        let at = self.accepted_at.iter().enumerate();
        Some(Self {
            steps: less(self.steps, earlier.steps)?,
            proposed: less(self.proposed, earlier.proposed)?,
            accepted: less(self.accepted, earlier.accepted)?,
            accepted_at: at
                .map(|(i, now)| now.checked_sub(earlier.accepted_at.get(i).copied().unwrap_or(0)))
                .collect::<Option<_>>()?,
            output: less(self.output, earlier.output)?,
        })
    }

    /// Of several responses together. What one of them did not tell is not told of the whole.
    pub fn sum(all: &[Self]) -> Self {
        let each = |of: &dyn Fn(&Self) -> Option<u64>| {
            (!all.is_empty()).then(|| all.iter().map(of).sum::<Option<u64>>()).flatten()
        };
        let longest = all.iter().map(|c| c.accepted_at.len()).max().unwrap_or(0);
        let told = all.iter().all(|c| !c.accepted_at.is_empty() || c.steps == Some(0));
        let at = |i: usize| all.iter().filter_map(|c| c.accepted_at.get(i)).sum();
        Self {
            steps: each(&|c| c.steps),
            proposed: each(&|c| c.proposed),
            accepted: each(&|c| c.accepted),
            accepted_at: if told { (0..longest).map(at).collect() } else { Vec::new() },
            output: each(&|c| c.output),
        }
    }

    /// The shares.
    pub fn acceptance(&self) -> Acceptance {
        let over = |part: Option<u64>, whole: Option<u64>| {
            part.zip(whole.filter(|whole| *whole > 0)).map(|(part, whole)| part as f64 / whole as f64)
        };
        let at: Option<Vec<f64>> = self.accepted_at.iter().map(|a| over(Some(*a), self.steps)).collect();
        let mut before = self.steps;
        let mut conditional = Vec::new();
        for accepted in &self.accepted_at {
            let Some(share) = over(Some(*accepted), before) else { break };
            conditional.push(share);
            before = Some(*accepted);
        }
        Acceptance {
            rate: over(self.accepted, self.proposed),
            mean_length: over(self.accepted, self.steps).map(|a| 1.0 + a),
            output_per_step: over(self.output, self.steps),
            at: at.unwrap_or_default(),
            conditional,
        }
    }
}

/// Tokens a step where each of `drafts` tokens is accepted with chance `alpha`, independently (Leviathan
/// et al. 2023): (1 − α^(k+1)) / (1 − α).
pub fn expected_length(alpha: f64, drafts: u32) -> f64 {
    (0..=drafts).map(|i| alpha.powi(i as i32)).sum()
}

/// The value of a label in the text between braces.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = labels.split_once(&format!("{name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

/// Counts at positions 0, 1, … without a gap: behind one nothing is known.
fn in_order(positions: &BTreeMap<u64, u64>) -> Vec<u64> {
    positions.iter().zip(0_u64..).take_while(|((at, _), i)| **at == *i).map(|((_, n), _)| *n).collect()
}

/// Steps that accepted exactly 0, 1, 2, … tokens → steps that accepted position 0, 1, …; empty where the
/// sum of accepted tokens says that the histogram is something else.
fn from_histogram(histogram: Option<&Value>, accepted: Option<u64>) -> Vec<u64> {
    let steps = histogram.and_then(Value::as_array).into_iter().flatten().map(Value::as_u64);
    let Some(steps) = steps.collect::<Option<Vec<u64>>>() else { return Vec::new() };
    let at: Vec<u64> = (1..steps.len())
        .map(|from| steps.iter().skip(from).fold(0, |sum: u64, n| sum.saturating_add(*n)))
        .collect();
    let total = at.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
    if accepted == Some(total) { at } else { Vec::new() }
}
