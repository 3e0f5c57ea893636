//! How long one step of an engine takes: the slower of arithmetic and memory traffic (the roofline
//! of Williams, Waterman, Patterson 2009), plus communication and host overhead.

use spec::Nanos;

use crate::hardware::Accelerator;
use crate::models::{Model, Precision};

/// A model on a number of equal accelerators.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Roofline {
    /// The model.
    pub model: &'static Model,
    /// The accelerator.
    pub accelerator: &'static Accelerator,
    /// How many, used as one by tensor parallelism.
    pub count: u32,
    /// Precision of the weights.
    pub precision: Precision,
    /// Share of the peak arithmetic that kernels reach. An assumption (large prefills reach 50–70 %).
    pub compute_share: f64,
    /// Share of the peak bandwidth that kernels reach. An assumption (decode kernels reach 75–90 %).
    pub memory_share: f64,
    /// Host and launch time of a step.
    pub overhead: Nanos,
}

/// The work of one step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepWork {
    /// Tokens computed.
    pub tokens: u64,
    /// Sequences that take part.
    pub sequences: u64,
    /// Σ over the tokens computed of the tokens that each attends to.
    pub attended: u64,
    /// Σ over the sequences of the context that is read from the KV cache.
    pub context: u64,
}

impl Roofline {
    /// Bytes of the weights.
    pub fn weight_bytes(&self) -> f64 {
        self.model.params_b * 1e9 * self.precision.bytes()
    }

    /// KV bytes of one token over all devices: heads are split over them, and copied where there are
    /// more devices than heads.
    pub fn kv_token_bytes(&self) -> f64 {
        let copies = (f64::from(self.count) / f64::from(self.model.kv_heads)).max(1.0);
        self.model.kv_bytes() * copies
    }

    /// Tokens that fit into the KV cache: `utilisation` of the memory, less the weights, less 2 GB on
    /// each device for activations and graphs (an assumption). Negative when the weights do not fit.
    pub fn kv_tokens(&self, utilisation: f64) -> f64 {
        let n = f64::from(self.count);
        let memory = n * (self.accelerator.memory_gb * utilisation - 2.0) * 1e9;
        (memory - self.weight_bytes()) / self.kv_token_bytes()
    }

    /// Peak arithmetic over all devices in FLOP/s, for the precision used.
    pub fn peak_flops(&self) -> f64 {
        let tflops = match self.precision {
            Precision::Fp8 => self.accelerator.fp8_tflops.unwrap_or(self.accelerator.bf16_tflops),
            Precision::Bf16 | Precision::Int4 => self.accelerator.bf16_tflops,
        };
        tflops * 1e12 * f64::from(self.count)
    }

    /// Floating-point operations of a step: 2 per parameter and token, 4 per attended pair, full
    /// layer and unit of attention width (scores and values, a multiplication and an addition each).
    pub fn flops(&self, work: &StepWork) -> f64 {
        let dense = 2.0 * self.model.active_b * 1e9 * work.tokens as f64;
        let pairs = f64::from(self.model.full_layers) * f64::from(self.model.attention_width);
        dense + 4.0 * pairs * work.attended as f64
    }

    /// Bytes of a step: the weights touched, the context read, the new KV written.
    pub fn bytes(&self, work: &StepWork) -> f64 {
        let weights = self.model.touched_b(work.tokens as f64) * 1e9 * self.precision.bytes();
        weights + self.kv_token_bytes() * (work.context + work.tokens) as f64
    }

    /// Duration of a step.
    pub fn step(&self, work: &StepWork) -> Nanos {
        if work.tokens == 0 {
            return Nanos::ZERO;
        }
        let n = f64::from(self.count);
        let bandwidth = self.accelerator.memory_gb_s * 1e9 * n;
        let compute = self.flops(work) / (self.peak_flops() * self.compute_share);
        let memory = self.bytes(work) / (bandwidth * self.memory_share);
        // Two all-reduces in each layer; a ring moves 2(n−1)/n of the message over each link.
        let communication = if self.count > 1 {
            let message = work.tokens as f64 * f64::from(self.model.hidden) * 2.0;
            let once = self.accelerator.link_latency_us * 1e-6
                + message * 2.0 * (n - 1.0) / n / (self.accelerator.link_gb_s * 1e9);
            2.0 * f64::from(self.model.layers) * once
        } else {
            0.0
        };
        Nanos::from_secs_f64(compute.max(memory) + communication) + self.overhead
    }

    /// Bandwidth wall of one stream at a context, tokens/s: B / (weights + KV), with the whole peak
    /// (definitions §9).
    pub fn wall(&self, context: u64) -> f64 {
        let bandwidth = self.accelerator.memory_gb_s * 1e9 * f64::from(self.count);
        bandwidth / self.bytes(&StepWork { tokens: 1, sequences: 1, attended: context, context })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{hardware, models};

    fn roofline(model: &str, accelerator: &str, count: u32, precision: Precision) -> Roofline {
        Roofline {
            model: models::model(model).unwrap(),
            accelerator: hardware::accelerator(accelerator).unwrap(),
            count,
            precision,
            compute_share: 1.0,
            memory_share: 1.0,
            overhead: Nanos::ZERO,
        }
    }

    #[test]
    fn seventy_billion_on_one_h200_meets_the_wall_at_34_tokens_per_second() {
        // definitions §9: 140 GB on 4.8 TB/s, about 34 (the model has 70.6 B: 141.2 GB → 33.99).
        let r = roofline("llama-3.1-70b", "h200", 1, Precision::Bf16);
        assert!((r.wall(0) - 34.0).abs() < 0.1, "{}", r.wall(0));
        let one = r.step(&StepWork { tokens: 1, sequences: 1, attended: 0, context: 0 });
        assert!((1.0 / one.as_secs_f64() - 34.0).abs() < 0.1);
    }

    #[test]
    fn a_large_prefill_is_bound_by_arithmetic() {
        // 8,192 tokens of 8.03 B: 2 · 8.03e9 · 8192 = 131.6 TFLOP, attention
        // 4 · 32 · 4096 · (8192 · 8193 / 2) = 17.6 TFLOP; on 989.4 TFLOP/s 150.7 ms.
        let r = roofline("llama-3.1-8b", "h100", 1, Precision::Bf16);
        let work = StepWork { tokens: 8192, sequences: 1, attended: 8192 * 8193 / 2, context: 0 };
        assert!((r.step(&work).as_millis_f64() - 150.76).abs() < 0.1, "{}", r.step(&work).as_millis_f64());
    }

    #[test]
    fn tensor_parallelism_pays_for_its_all_reduces() {
        // 2 · 80 all-reduces of 10 µs + 16,384 B · 2 · 3/4 / 450 GB/s = 0.0546 µs each: 1.609 ms;
        // memory 141.2 GB / 13.4 TB/s = 10.537 ms.
        let r = roofline("llama-3.1-70b", "h100", 4, Precision::Bf16);
        let one = r.step(&StepWork { tokens: 1, sequences: 1, attended: 0, context: 0 });
        assert!((one.as_millis_f64() - 12.146).abs() < 0.005, "{}", one.as_millis_f64());
    }

    #[test]
    fn latent_kv_is_copied_to_every_device() {
        let one = roofline("deepseek-r1", "h200", 1, Precision::Fp8).kv_token_bytes();
        let eight = roofline("deepseek-r1", "h200", 8, Precision::Fp8).kv_token_bytes();
        assert!((eight / one - 8.0).abs() < 1e-9);
        let grouped = roofline("llama-3.1-70b", "h200", 8, Precision::Bf16).kv_token_bytes();
        assert!((grouped - 327_680.0).abs() < 1e-9);
    }
}
