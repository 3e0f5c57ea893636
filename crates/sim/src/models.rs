//! Models: shapes from their public `config.json` and parameter counts from their model cards.

/// Precision of the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 16 bits.
    Bf16,
    /// 8 bits, computed in FP8 where the accelerator can.
    Fp8,
    /// 4 bits with scales, computed in BF16.
    Int4,
}

impl Precision {
    /// Bytes that one parameter takes. 4-bit formats carry a scale for each group of 32 weights and
    /// keep some tensors wide: 0.56 on average (gpt-oss-120b: 65.3 GB for 116.8 B parameters).
    pub fn bytes(self) -> f64 {
        match self {
            Precision::Bf16 => 2.0,
            Precision::Fp8 => 1.0,
            Precision::Int4 => 0.56,
        }
    }
    /// Name in a target's options.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Bf16 => "bf16",
            Precision::Fp8 => "fp8",
            Precision::Int4 => "int4",
        }
    }
}

/// One model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// Name in a target, and the id that `/v1/models` gives.
    pub name: &'static str,
    /// All parameters, in 10⁹.
    pub params_b: f64,
    /// Parameters that one token uses, in 10⁹; equal to all in a dense model.
    pub active_b: f64,
    /// Experts in a layer and experts that one token uses; `(1, 1)`: dense.
    pub experts: (u32, u32),
    /// Layers.
    pub layers: u32,
    /// Layers whose attention sees the whole context. The others see a window of 128 tokens, whose
    /// KV is neglected.
    pub full_layers: u32,
    /// Width.
    pub hidden: u32,
    /// Query heads times head dimension: what attention computes with.
    pub attention_width: u32,
    /// KV heads over which tensor parallelism can split; 1 for latent attention, which each device
    /// then holds in full.
    pub kv_heads: u32,
    /// KV values of one token in one full layer (2 · KV heads · head dimension, or the latent width).
    pub kv_width: u32,
    /// Longest context.
    pub context: u32,
    /// Precision in which the weights are published.
    pub native: Precision,
    /// Vocabulary that counts its tokens.
    pub vocabulary: &'static str,
    /// Where the figures come from.
    pub source: &'static str,
}

const fn dense(
    name: &'static str,
    params_b: f64,
    [layers, hidden, heads, kv_heads, head_dim]: [u32; 5],
    context: u32,
    vocabulary: &'static str,
    source: &'static str,
) -> Model {
    Model {
        name,
        params_b,
        active_b: params_b,
        experts: (1, 1),
        layers,
        full_layers: layers,
        hidden,
        attention_width: heads * head_dim,
        kv_heads,
        kv_width: 2 * kv_heads * head_dim,
        context,
        native: Precision::Bf16,
        vocabulary,
        source,
    }
}

/// All known models.
pub const MODELS: &[Model] = &[
    dense(
        "llama-3.2-1b",
        1.24,
        [16, 2048, 32, 8, 64],
        131_072,
        "llama3",
        "meta-llama/Llama-3.2-1B config.json and model card",
    ),
    dense(
        "llama-3.2-3b",
        3.21,
        [28, 3072, 24, 8, 128],
        131_072,
        "llama3",
        "meta-llama/Llama-3.2-3B config.json and model card",
    ),
    dense(
        "llama-3.1-8b",
        8.03,
        [32, 4096, 32, 8, 128],
        131_072,
        "llama3",
        "meta-llama/Llama-3.1-8B config.json and model card",
    ),
    dense(
        "llama-3.1-70b",
        70.6,
        [80, 8192, 64, 8, 128],
        131_072,
        "llama3",
        "meta-llama/Llama-3.1-70B config.json and model card",
    ),
    dense(
        "llama-3.3-70b",
        70.6,
        [80, 8192, 64, 8, 128],
        131_072,
        "llama3",
        "meta-llama/Llama-3.3-70B-Instruct config.json and model card",
    ),
    dense(
        "llama-3.1-405b",
        405.9,
        [126, 16_384, 128, 8, 128],
        131_072,
        "llama3",
        "meta-llama/Llama-3.1-405B config.json and model card",
    ),
    dense(
        "qwen3-8b",
        8.19,
        [36, 4096, 32, 8, 128],
        40_960,
        "qwen2",
        "Qwen/Qwen3-8B config.json and model card (8.2 B)",
    ),
    dense(
        "qwen3-32b",
        32.8,
        [64, 5120, 64, 8, 128],
        40_960,
        "qwen2",
        "Qwen/Qwen3-32B config.json and model card (32.8 B)",
    ),
    Model {
        name: "qwen3-30b-a3b",
        params_b: 30.5,
        active_b: 3.3,
        experts: (128, 8),
        ..dense(
            "",
            0.0,
            [48, 2048, 32, 4, 128],
            40_960,
            "qwen2",
            "Qwen/Qwen3-30B-A3B config.json and model card (30.5 B, 3.3 B active)",
        )
    },
    Model {
        name: "gpt-oss-120b",
        params_b: 116.83,
        active_b: 5.13,
        experts: (128, 4),
        full_layers: 18,
        native: Precision::Int4,
        ..dense(
            "",
            0.0,
            [36, 2880, 64, 8, 64],
            131_072,
            "o200k_harmony",
            "openai/gpt-oss-120b config.json and model card (116.83 B, 5.13 B active, MXFP4, every other layer a 128-token window)",
        )
    },
    Model {
        name: "deepseek-r1",
        params_b: 671.0,
        active_b: 37.0,
        experts: (256, 8),
        layers: 61,
        full_layers: 61,
        hidden: 7168,
        // Absorbed latent attention: 128 heads over kv_lora_rank 512 + rope 64.
        attention_width: 128 * 576,
        kv_heads: 1,
        kv_width: 576,
        context: 163_840,
        native: Precision::Fp8,
        vocabulary: "deepseek_v3",
        source: "deepseek-ai/DeepSeek-R1 config.json (61 layers, kv_lora_rank 512, qk_rope_head_dim 64) and model card (671 B, 37 B active, FP8)",
    },
];

/// The model of that name; case, `-`, `_`, dots and blanks do not matter, nor does an organisation
/// in front or `-instruct` at the end.
pub fn model(name: &str) -> Option<&'static Model> {
    let last = name.rsplit('/').next().unwrap_or(name);
    let folded = crate::names::fold_name(last);
    let wanted = folded.strip_suffix("instruct").unwrap_or(&folded);
    MODELS.iter().find(|m| crate::names::fold_name(m.name) == wanted)
}

impl Model {
    /// Parameters that a step over `tokens` tokens reads, in 10⁹. In a mixture of experts each token
    /// picks its k of E experts independently, so a share 1 − (1 − k/E)^tokens of them is touched.
    pub fn touched_b(&self, tokens: f64) -> f64 {
        let (experts, used) = (f64::from(self.experts.0), f64::from(self.experts.1));
        if self.experts.0 <= 1 {
            return self.params_b;
        }
        let one = (self.params_b - self.active_b) / (experts - used);
        let shared = self.active_b - used * one;
        shared + experts * one * (1.0 - (1.0 - used / experts).powf(tokens))
    }

    /// KV bytes of one token over all full layers, in 16 bits, held once.
    pub fn kv_bytes(&self) -> f64 {
        2.0 * f64::from(self.full_layers) * f64::from(self.kv_width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_give_the_known_kv_sizes() {
        // 2 (K, V) · 8 heads · 128 · 2 bytes · layers: 131,072 bytes for 8B, 327,680 for 70B.
        assert!((model("llama-3.1-8b").unwrap().kv_bytes() - 131_072.0).abs() < 1e-9);
        assert!((model("meta-llama/Llama-3.1-70B-Instruct").unwrap().kv_bytes() - 327_680.0).abs() < 1e-9);
        // DeepSeek's latent cache: 576 · 61 · 2 = 70,272 bytes.
        assert!((model("DeepSeek R1").unwrap().kv_bytes() - 70_272.0).abs() < 1e-9);
        assert_eq!(model("llama-9"), None);
    }

    #[test]
    fn one_token_touches_the_active_parameters_and_many_touch_all() {
        for m in MODELS {
            assert!((m.touched_b(1.0) - m.active_b).abs() < 1e-6 * m.params_b, "{}", m.name);
            assert!((m.touched_b(1e5) - m.params_b).abs() < 1e-6 * m.params_b, "{}", m.name);
            assert!(crate::text::has_vocabulary(m.vocabulary), "{}", m.vocabulary);
        }
    }
}
