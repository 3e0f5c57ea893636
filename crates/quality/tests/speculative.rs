//! Counts of speculative decoding as three engines tell them.
#![allow(clippy::unwrap_used, missing_docs)]

use quality::stats::speculative::Counts;
use serde_json::json;
use wire::metrics::samples;

fn page(text: &str) -> Counts {
    Counts::from_samples(samples(text))
}

/// Names as vLLM 0.32 exposes them; two models, summed.
const VLLM: &str = r#"
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="a"} 60.0
vllm:spec_decode_num_drafts_total{engine="0",model_name="b"} 40.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="a"} 1.7e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="a"} 300.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="a"} 167.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="a",position="0"} 80.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="a",position="1"} 55.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="a",position="2"} 32.0
"#;

/// Names of SGLang 0.5: gauges tell of a moment and are left aside, ranks count the same work.
const SGLANG: &str = r#"
sglang:spec_accept_length{tp_rank="0"} 3.9
sglang:spec_verify_calls_total{tp_rank="0"} 1000
sglang:spec_verify_calls_total{tp_rank="1"} 1000
sglang:generation_tokens_total{tp_rank="0"} 2600
"#;

/// Names of llama.cpp b11434.
const LLAMA: &str = "
# HELP llamacpp:spec_decode_num_drafts_total Speculative: Total speculative decoding verification steps
llamacpp:spec_decode_num_drafts_total 10
llamacpp:spec_decode_num_draft_tokens_total 40
llamacpp:spec_decode_num_accepted_tokens_total 30
";

#[test]
fn pages_of_three_engines() {
    let vllm = page(VLLM).acceptance();
    assert_eq!((vllm.rate, vllm.mean_length), (Some(167.0 / 300.0), Some(2.67)));
    assert_eq!((vllm.at.as_slice(), vllm.conditional[1]), ([0.8, 0.55, 0.32].as_slice(), 55.0 / 80.0));
    // SGLang counts no accepted tokens: tokens a step is what is known, and no acceptance.
    let sglang = page(SGLANG).acceptance();
    assert_eq!((sglang.rate, sglang.mean_length, sglang.output_per_step), (None, None, Some(2.6)));
    let llama = page(LLAMA).acceptance();
    assert_eq!((llama.rate, llama.mean_length), (Some(0.75), Some(4.0)));
    assert!(llama.at.is_empty() && llama.output_per_step.is_none());
    assert_eq!(page("vllm:num_requests_running 3\n"), Counts::default());
    // Without a draft nothing is divided.
    let idle =
        page("llamacpp:spec_decode_num_drafts_total 0\nllamacpp:spec_decode_num_draft_tokens_total 0\n");
    assert_eq!(idle.acceptance().rate, None);
    assert_eq!(
        page("vllm:spec_decode_num_drafts_total NaN\nvllm:spec_decode_num_drafts_total -3\n").steps,
        None
    );
}

#[test]
fn a_window_is_a_difference_and_a_restart_is_none() {
    let earlier = page(LLAMA);
    let later = Counts { steps: Some(30), proposed: Some(120), accepted: Some(60), ..earlier.clone() };
    let window = later.since(&earlier).unwrap();
    assert_eq!((window.steps, window.proposed, window.accepted), (Some(20), Some(80), Some(30)));
    assert_eq!(window.acceptance().mean_length, Some(2.5));
    assert_eq!(earlier.since(&later), None);
    // Positions come up with the first draft.
    let with = Counts { accepted_at: vec![5, 2], ..later.clone() };
    assert_eq!(with.since(&later).unwrap().accepted_at, [5, 2]);
    assert_eq!(later.since(&with), None);
}

#[test]
fn responses_of_three_engines() {
    let of = |body| Counts::from_response(&body);
    // Of 10 steps 2 accepted none, 3 one, 5 both: 13 tokens.
    let vllm = of(json!({"metrics": {"speculative_decoding": {
        "num_spec_steps": 10, "num_draft_tokens": 20, "num_accepted_draft_tokens": 13,
        "acceptance_histogram": [2, 3, 5], "mean_acceptance_length": 2.3}}}))
    .unwrap();
    assert_eq!((vllm.accepted_at.as_slice(), vllm.acceptance().mean_length), ([8, 5].as_slice(), Some(2.3)));
    let sglang = of(json!({"meta_info": {"spec_verify_ct": 10, "spec_num_proposed_drafts": 30,
        "spec_num_correct_drafts": 12, "spec_correct_drafts_histogram": [9, 9, 9]}}))
    .unwrap();
    // A histogram that does not add up to the accepted tokens is something else.
    assert_eq!((sglang.acceptance().rate, sglang.accepted_at.len()), (Some(0.4), 0));
    let llama = of(json!({"timings": {"draft_n": 40, "draft_n_accepted": 30, "predicted_n": 50}})).unwrap();
    assert_eq!((llama.acceptance().rate, llama.acceptance().mean_length), (Some(0.75), None));
    assert_eq!(of(json!({"timings": {"predicted_n": 50}, "meta_info": {}})), None);
    assert_eq!(of(json!(null)), None);
    // Together: what one did not tell is not told.
    let all = Counts::sum(&[vllm.clone(), sglang, llama]);
    assert_eq!((all.proposed, all.accepted, all.steps), (Some(90), Some(55), None));
    let twice = Counts::sum(&[vllm.clone(), vllm]);
    assert_eq!((twice.steps, twice.accepted_at.as_slice()), (Some(20), [16, 10].as_slice()));
    assert_eq!(Counts::sum(&[]), Counts::default());
}
