//! `/metrics` in Prometheus' text format under vLLM's names.

use std::fmt::Write as _;

use crate::engine::Gauges;

/// vLLM's bucket bounds for each histogram, seconds.
const TTFT: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
];
const GAP: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
];
const LONG: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
];
const LENGTH: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0, 5_000.0, 10_000.0, 20_000.0,
    50_000.0, 100_000.0,
];

/// A histogram.
#[derive(Debug)]
pub struct Histogram {
    name: &'static str,
    help: &'static str,
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    fn new(name: &'static str, help: &'static str, bounds: &'static [f64]) -> Self {
        Self { name, help, bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Counts one observation.
    pub fn observe(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|b| *b < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }

    fn write(&self, out: &mut String, labels: &str) {
        let name = self.name;
        let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} histogram", self.help);
        let mut running = 0;
        for (i, count) in self.counts.iter().enumerate() {
            running += count;
            let bound = self.bounds.get(i).map_or_else(|| "+Inf".to_owned(), |b| format!("{b:?}"));
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {running}");
        }
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {running}", self.sum);
    }
}

/// Everything counted by the front.
#[derive(Debug)]
pub struct Metrics {
    /// Prompt tokens of requests that got their first token.
    pub prompt_tokens: u64,
    /// Of these, tokens from the prefix cache.
    pub cached_tokens: u64,
    /// Tokens produced.
    pub generation_tokens: u64,
    /// Ended with `stop`.
    pub stopped: u64,
    /// Ended with `length`.
    pub length: u64,
    /// The client went away.
    pub aborted: u64,
    /// Ended by a fault or a refusal of the engine.
    pub errors: u64,
    /// Reception to first token.
    pub ttft: Histogram,
    /// Between tokens.
    pub gap: Histogram,
    /// Mean time between tokens of a request.
    pub tpot: Histogram,
    /// Reception to end.
    pub e2e: Histogram,
    /// Waiting.
    pub queue: Histogram,
    /// Prompt lengths.
    pub input: Histogram,
    /// Answer lengths.
    pub output: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            prompt_tokens: 0,
            cached_tokens: 0,
            generation_tokens: 0,
            stopped: 0,
            length: 0,
            aborted: 0,
            errors: 0,
            ttft: Histogram::new(
                "vllm:time_to_first_token_seconds",
                "Histogram of time to first token in seconds.",
                TTFT,
            ),
            gap: Histogram::new(
                "vllm:inter_token_latency_seconds",
                "Histogram of inter-token latency in seconds.",
                GAP,
            ),
            tpot: Histogram::new(
                "vllm:request_time_per_output_token_seconds",
                "Histogram of time per output token of each request in seconds.",
                GAP,
            ),
            e2e: Histogram::new(
                "vllm:e2e_request_latency_seconds",
                "Histogram of end-to-end request latency in seconds.",
                LONG,
            ),
            queue: Histogram::new(
                "vllm:request_queue_time_seconds",
                "Histogram of time spent waiting in seconds.",
                LONG,
            ),
            input: Histogram::new("vllm:request_prompt_tokens", "Histogram of prompt lengths.", LENGTH),
            output: Histogram::new("vllm:request_generation_tokens", "Histogram of answer lengths.", LENGTH),
        }
    }
}

impl Metrics {
    /// The page.
    pub fn page(&self, model: &str, gauges: &Gauges, block_tokens: u32) -> String {
        // Label values escape backslash, quote and newline.
        let model = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels = format!("engine=\"0\",model_name=\"{model}\"");
        let mut out = String::with_capacity(16 * 1024);
        let mut simple = |kind: &str, name: &str, help: &str, values: &[(&str, f64)]| {
            let _ = writeln!(out, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}");
            for (extra, value) in values {
                let _ = writeln!(out, "vllm:{name}{{{labels}{extra}}} {value:?}");
            }
        };
        let gauge = "gauge";
        simple(gauge, "num_requests_running", "Requests in execution.", &[("", f64::from(gauges.running))]);
        simple(gauge, "num_requests_waiting", "Requests waiting.", &[("", f64::from(gauges.waiting))]);
        simple(gauge, "kv_cache_usage_perc", "KV cache in use, 1 is all.", &[("", gauges.kv_usage())]);
        let info = format!(
            ",block_size=\"{block_tokens}\",num_gpu_blocks=\"{}\",kv_cache_size_tokens=\"{}\"",
            gauges.kv_blocks_total,
            u64::from(gauges.kv_blocks_total) * u64::from(block_tokens)
        );
        simple(gauge, "cache_config_info", "The KV cache's configuration.", &[(&info, 1.0)]);
        let counter = "counter";
        for (name, help, value) in [
            ("prompt_tokens_total", "Prompt tokens processed.", self.prompt_tokens),
            ("prompt_tokens_cached_total", "Prompt tokens from the cache.", self.cached_tokens),
            ("generation_tokens_total", "Tokens generated.", self.generation_tokens),
            ("prefix_cache_queries_total", "Prompt tokens looked up in the cache.", gauges.prefix_queries),
            ("prefix_cache_hits_total", "Prompt tokens found in the cache.", gauges.prefix_hits),
            ("num_preemptions_total", "Preemptions.", gauges.preemptions),
        ] {
            simple(counter, name, help, &[("", value as f64)]);
        }
        simple(
            counter,
            "request_success_total",
            "Requests ended, by reason.",
            &[
                (",finished_reason=\"stop\"", self.stopped as f64),
                (",finished_reason=\"length\"", self.length as f64),
                (",finished_reason=\"abort\"", self.aborted as f64),
                (",finished_reason=\"error\"", self.errors as f64),
            ],
        );
        for h in [&self.ttft, &self.gap, &self.tpot, &self.e2e, &self.queue, &self.input, &self.output] {
            h.write(&mut out, &labels);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_include_their_bound() {
        let mut h = Histogram::new("x", "y", &[0.1, 1.0]);
        for v in [0.05, 0.1, 0.5, 7.0] {
            h.observe(v);
        }
        let mut out = String::new();
        h.write(&mut out, "a=\"b\"");
        assert!(out.contains("x_bucket{a=\"b\",le=\"0.1\"} 2\n"), "{out}");
        assert!(out.contains("x_bucket{a=\"b\",le=\"1.0\"} 3\n"), "{out}");
        assert!(out.contains("x_bucket{a=\"b\",le=\"+Inf\"} 4\n"), "{out}");
        assert!(out.contains("x_count{a=\"b\"} 4\n"), "{out}");
        assert!(out.contains("x_sum{a=\"b\"} 7.65\n"), "{out}");
    }
}
