//! A server's own metrics: the few that bear on trust, from a page in Prometheus' text format.

use record::ServerSample;

/// The samples of a page in Prometheus' text format: name, text between the braces, value. Of a
/// tensor-parallel group only the first rank's: SGLang counts each rank with the same work.
pub fn samples(page: &str) -> impl Iterator<Item = (&str, &str, f64)> {
    all_samples(page)
        .filter(|(_, labels, _)| !labels.contains("tp_rank=\"") || labels.contains("tp_rank=\"0\""))
}

fn all_samples(page: &str) -> impl Iterator<Item = (&str, &str, f64)> {
    page.lines().filter_map(|line| {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let (name, labels, rest) = match line.find(['{', ' ', '\t'])? {
            brace if line.as_bytes()[brace] == b'{' => {
                let end = brace + 1 + labels_end(&line[brace + 1..])?;
                (&line[..brace], &line[brace + 1..end], &line[end + 1..])
            }
            space => (&line[..space], "", &line[space..]),
        };
        // A time stamp may follow the value.
        let value = rest.split_whitespace().next()?;
        Some((name, labels, parse(value)?))
    })
}

/// Where the labels end: at the first brace outside of quotes.
fn labels_end(text: &str) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '}' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// A finite number; NaN and infinities are no counts.
fn parse(value: &str) -> Option<f64> {
    value.parse::<f64>().ok().filter(|v| v.is_finite())
}

/// How the series of one metric become one number.
#[derive(Clone, Copy)]
enum Join {
    Sum,
    /// A share: the mean over the engines.
    Mean,
}

/// Names of one figure, the first that is there counts. vLLM 0.x, SGLang 0.5, llama.cpp; `:total`
/// forms are older ones of vLLM.
fn figure(page: &str, names: &[&str], join: Join) -> Option<f64> {
    names.iter().find_map(|wanted| {
        let (mut sum, mut count) = (0.0, 0_u32);
        // Engines and models are summed.
        for (name, _, value) in samples(page) {
            if name == *wanted {
                sum += value;
                count += 1;
            }
        }
        match (count, join) {
            (0, _) => None,
            (_, Join::Sum) => Some(sum),
            (n, Join::Mean) => Some(sum / f64::from(n)),
        }
    })
}

/// Reads a page; every figure may be missing. `at` and `ours_in_flight` are the caller's to fill.
pub fn read(page: &str) -> ServerSample {
    ServerSample {
        running: figure(
            page,
            &["vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing"],
            Join::Sum,
        ),
        waiting: figure(
            page,
            &["vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred"],
            Join::Sum,
        ),
        generated_tokens: figure(
            page,
            &[
                "vllm:generation_tokens_total",
                "sglang:generation_tokens_total",
                "llamacpp:tokens_predicted_total",
            ],
            Join::Sum,
        ),
        prompt_tokens: figure(
            page,
            &["vllm:prompt_tokens_total", "sglang:prompt_tokens_total", "llamacpp:prompt_tokens_total"],
            Join::Sum,
        ),
        cached_tokens: figure(
            page,
            &[
                "vllm:prompt_tokens_cached_total",
                "vllm:prefix_cache_hits_total",
                "sglang:cached_tokens_total",
                "llamacpp:prompt_tokens_cached_total",
            ],
            Join::Sum,
        ),
        kv_usage: figure(
            page,
            &["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"],
            Join::Mean,
        ),
        preemptions: figure(
            page,
            &["vllm:num_preemptions_total", "sglang:num_retracted_reqs_total"],
            Join::Sum,
        ),
        ..ServerSample::default()
    }
}

/// Whether a page holds anything of use here.
pub fn is_useful(page: &str) -> bool {
    let found = read(page);
    found.running.is_some() || found.generated_tokens.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama_cpp_under_load() {
        let sample = read(include_str!("../tests/data/metrics-llama.cpp.txt"));
        assert_eq!(
            sample,
            ServerSample {
                running: Some(4.0),
                waiting: Some(4.0),
                generated_tokens: Some(59.0),
                prompt_tokens: Some(2005.0),
                cached_tokens: Some(0.0),
                ..ServerSample::default()
            }
        );
    }

    #[test]
    fn vllm_with_two_engines_is_summed() {
        let sample = read(include_str!("../tests/data/metrics-vllm-dp2.txt"));
        assert_eq!(
            sample,
            ServerSample {
                running: Some(0.0),
                waiting: Some(0.0),
                generated_tokens: Some(672.0),
                prompt_tokens: Some(2476.0),
                cached_tokens: Some(0.0),
                kv_usage: Some(0.0),
                preemptions: Some(0.0),
                ..ServerSample::default()
            }
        );
    }

    #[test]
    fn odd_pages_do_no_harm() {
        let page = "vllm:num_requests_running{model_name=\"a}b \\\" c\",x=\"1\"} 3 1700000000\n\
                    vllm:num_requests_running{model_name=\"d\"}\t2.5e0\r\n\
                    vllm:num_requests_waiting NaN\n\
                    vllm:generation_tokens_total{unclosed=\"\n\
                    # vllm:prompt_tokens_total 4\n\n   \nhalf";
        let sample = read(page);
        assert_eq!((sample.running, sample.waiting), (Some(5.5), None));
        assert_eq!((sample.generated_tokens, sample.prompt_tokens), (None, None));
        assert!(is_useful(page));
        assert!(!is_useful("<html>not found</html>"));
        let ranks = "sglang:num_running_reqs{tp_rank=\"0\"} 7\nsglang:num_running_reqs{tp_rank=\"1\"} 7";
        assert_eq!(read(ranks).running, Some(7.0));
    }
}
