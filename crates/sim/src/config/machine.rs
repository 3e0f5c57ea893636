//! A model on its accelerators, from the options of a target.

use spec::{Nanos, SimTarget};

use super::options::{BATCHING, Options};
use crate::engine::BLOCK_TOKENS;
use crate::engine::batching::BatchingConfig;
use crate::error::SimError;
use crate::hardware::{self, ACCELERATORS};
use crate::models::{self, MODELS, Precision};
use crate::names::nearest;
use crate::roofline::Roofline;

/// Fewest tokens of KV cache with which an engine is of use.
const LEAST_KV_TOKENS: u64 = 2_048;

/// Checks model, accelerators and the options of the engine.
pub(super) fn batching(
    target: &SimTarget,
    options: &Options<'_>,
    noise: f64,
    seed: u64,
    longest: Option<u32>,
) -> Result<BatchingConfig, SimError> {
    let accelerators: Vec<&str> = ACCELERATORS.iter().map(|a| a.name).collect();
    let Some(model) = models::model(&target.engine) else {
        let names: Vec<&str> = MODELS.iter().map(|m| m.name).collect();
        let candidates: Vec<&str> = names.iter().copied().chain(["fixed", "fifo"]).collect();
        return Err(SimError::UnknownModel {
            got: target.engine.clone(),
            hint: nearest(&target.engine, &candidates),
            known: names.join(", "),
        });
    };
    let Some((count, kind)) = &target.accelerators else {
        return Err(SimError::NoAccelerator { model: model.name.to_owned(), known: accelerators.join(", ") });
    };
    let Some(accelerator) = hardware::accelerator(kind) else {
        return Err(SimError::UnknownAccelerator {
            got: kind.clone(),
            hint: nearest(kind, &accelerators),
            known: accelerators.join(", "),
        });
    };
    options.check(BATCHING)?;
    let precisions = [Precision::Bf16, Precision::Fp8, Precision::Int4];
    let precision = options.choice("precision", &precisions.map(|p| (p.name(), p)), model.native)?;
    let roofline = Roofline {
        model,
        accelerator,
        count: *count,
        precision,
        compute_share: options.real("mfu", 0.01, 1.0, 0.6)?,
        memory_share: options.real("mbu", 0.01, 1.0, 0.8)?,
        overhead: options.span("overhead", Nanos::from_micros(500))?,
    };
    let utilisation = options.real("memory", 0.1, 1.0, 0.9)?;
    let asked = options.read("kv_tokens", "a number of tokens from 16", None, |t| {
        t.parse::<u32>().ok().filter(|n| *n >= BLOCK_TOKENS).map(Some)
    })?;
    let room = roofline.kv_tokens(utilisation);
    let needed = asked.map_or(LEAST_KV_TOKENS, u64::from);
    if room < needed as f64 {
        return Err(SimError::DoesNotFit {
            model: model.name,
            precision: precision.name(),
            count: *count,
            accelerator: accelerator.name,
            weights_gb: roofline.weight_bytes() / 1e9,
            usable_gb: f64::from(*count) * (accelerator.memory_gb * utilisation - 2.0),
            needed,
            suggestion: suggest(&roofline, utilisation, needed),
        });
    }
    // No more blocks than a number fits in: a pool of 16 million tokens is never the limit.
    let kv_tokens = asked.unwrap_or(room.min(16e6) as u32);
    let kv_blocks = kv_tokens / BLOCK_TOKENS;
    let context = longest.unwrap_or(model.context).min(model.context).min(kv_blocks * BLOCK_TOKENS);
    // vLLM's defaults: larger steps on the large accelerators.
    let chunk = if accelerator.memory_gb >= 70.0 { 8_192 } else { 2_048 };
    Ok(BatchingConfig {
        roofline,
        max_seqs: options.count("max_seqs", 256)?,
        chunk: options.count("chunk", chunk)?,
        kv_blocks,
        context,
        prefix_cache: options.switch("prefix_cache", true)?,
        queue: options.queue()?,
        noise,
        seed,
    })
}

/// What would fit: more devices of the kind, or fewer bits.
fn suggest(roofline: &Roofline, utilisation: f64, needed: u64) -> String {
    let fits =
        |count, precision| Roofline { count, precision, ..*roofline }.kv_tokens(utilisation) >= needed as f64;
    let devices =
        [2u32, 4, 8, 16, 32].into_iter().find(|n| *n > roofline.count && fits(*n, roofline.precision));
    let bits = [Precision::Fp8, Precision::Int4]
        .into_iter()
        .find(|p| p.bytes() < roofline.precision.bytes() && fits(roofline.count, *p));
    match (devices, bits) {
        (Some(n), Some(p)) => format!("{n}x{} or precision={}", roofline.accelerator.name, p.name()),
        (Some(n), None) => format!("{n}x{}", roofline.accelerator.name),
        (None, Some(p)) => format!("precision={}", p.name()),
        (None, None) => "a smaller model or a larger accelerator".to_owned(),
    }
}
