//! What is simulated: a checked [`SimConfig`] from a `sim://` target, and the engine it describes.
//!
//! | option | engines | meaning (default) |
//! |---|---|---|
//! | `ttft`, `tpot` | fixed | reception to first token (100ms), between tokens (10ms) |
//! | `service`, `servers` | fifo | service time of a request (100ms), servers side by side (1) |
//! | `tokens=spread\|end` | fifo | tokens spread over the service, or all at its end (spread) |
//! | `queue` | fifo, models | at most so many wait, more get a 503 (off) |
//! | `precision=bf16\|fp8\|int4` | models | of the weights (as published) |
//! | `max_seqs`, `chunk` | models | sequences (256) and tokens (8192; 2048 below 70 GB) in a step |
//! | `kv_tokens` | models | KV cache in tokens (what `memory` leaves after the weights) |
//! | `prefix_cache=on\|off` | models | reuse of KV blocks (on) |
//! | `memory`, `mfu`, `mbu` | models | share of memory used (0.9), of peak arithmetic (0.6) and bandwidth (0.8) reached |
//! | `overhead` | models | host time of a step (500us) |
//! | `noise` | all | coefficient of variation of every latency, service or step (0) |
//! | `seed` | all | of every draw (1) |
//! | `time_scale` | all | the engine's clock runs so many times faster (1) |
//! | `model`, `context` | all | id served; longest prompt and answer together |
//! | `natural` | all | median length where the model ends by itself (180 tokens) |
//! | `count` | all | who counts prompt tokens: a vocabulary, or `bytes` (the model's vocabulary, else llama3) |
//! | `role=first\|separate\|none` | all | the role event: with the first token, at once, never (first) |
//! | `headers=now\|first` | all | the response head: at once, or with the first event (now) |
//! | `reasoning` | all | so many tokens of a chat answer are reasoning (0) |
//! | `tokens_per_chunk` | all | tokens in an event, held back until it is full (1) |
//! | `event_bytes` | all | an event of tokens is padded to so many bytes (0: as it comes) |
//! | `buffered=on\|off` | all | the whole stream in one write at its end (off) |
//! | `usage=asked\|always\|never\|continuous` | all | token counts in streams (asked) |
//! | `done=on\|off`, `finish=joined\|separate` | all | `[DONE]` (on); finish reason on the last token's event (joined) |
//! | `fault` | all | rules, see [`crate::faults`] |

mod machine;
pub(crate) mod options;

use spec::{Nanos, SimTarget, Span};

use self::options::{FIFO, FIXED, Options};
use crate::engine::batching::{Batching, BatchingConfig};
use crate::engine::fifo::{Fifo, FifoConfig};
use crate::engine::fixed::{Fixed, FixedConfig};
use crate::engine::{BLOCK_TOKENS, Engine};
use crate::error::SimError;
use crate::faults::{FaultRule, parse_rules};
use crate::text::{Counter, DEFAULT_VOCABULARY, VOCABULARIES};

/// The engine and its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EngineConfig {
    /// Known latencies.
    Fixed(FixedConfig),
    /// Known queueing.
    Fifo(FifoConfig),
    /// Continuous batching on a roofline.
    Batching(BatchingConfig),
}

impl EngineConfig {
    /// An idle engine.
    pub fn build(&self) -> Box<dyn Engine> {
        match self {
            EngineConfig::Fixed(c) => Box::new(Fixed::new(*c)),
            EngineConfig::Fifo(c) => Box::new(Fifo::new(*c)),
            EngineConfig::Batching(c) => Box::new(Batching::new(*c)),
        }
    }
}

/// When the server sends token counts in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageMode {
    /// As asked by `stream_options`.
    Asked,
    /// A last event with usage, asked or not.
    Always,
    /// Never.
    Never,
    /// Running counts in every chunk, asked or not.
    Continuous,
}

/// When the role-only event of a chat stream is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleMode {
    /// In the same write as the first token.
    First,
    /// As soon as the request is accepted.
    Separate,
    /// Not at all.
    None,
}

/// How a stream looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamShape {
    /// The role-only event.
    pub role: RoleMode,
    /// Send the response head as soon as the request is accepted; otherwise with the first event.
    pub headers_at_once: bool,
    /// The first so many tokens of a chat answer are reasoning.
    pub reasoning: u32,
    /// Tokens in a chunk; the last one may have fewer.
    pub tokens_per_chunk: u32,
    /// Pad an event of tokens to this many bytes.
    pub event_bytes: u32,
    /// Hold the whole stream back until its end.
    pub buffered: bool,
    /// Token counts.
    pub usage: UsageMode,
    /// Send `[DONE]`.
    pub done: bool,
    /// Put the finish reason on the last token's event; otherwise on an event of its own.
    pub finish_joined: bool,
}

impl Default for StreamShape {
    fn default() -> Self {
        Self {
            role: RoleMode::First,
            headers_at_once: true,
            reasoning: 0,
            tokens_per_chunk: 1,
            event_bytes: 0,
            buffered: false,
            usage: UsageMode::Asked,
            done: true,
            finish_joined: true,
        }
    }
}

/// Everything about a simulated server.
#[derive(Debug, Clone, PartialEq)]
pub struct SimConfig {
    /// Model id served.
    pub model: String,
    /// The engine.
    pub engine: EngineConfig,
    /// Longest prompt and answer together.
    pub context: u32,
    /// Who counts prompt tokens.
    pub counter: Counter,
    /// How streams look.
    pub shape: StreamShape,
    /// What goes wrong.
    pub faults: Vec<FaultRule>,
    /// The engine's clock runs this many times faster than real time.
    pub time_scale: f64,
    /// Median of the natural output length, tokens.
    pub natural_length: f64,
    /// Seed of every draw.
    pub seed: u64,
}

impl SimConfig {
    /// Checks a target and fills in every default.
    ///
    /// # Errors
    /// Unknown names (with the nearest known one), options that do not fit, a model that does not
    /// fit on its accelerators.
    pub fn from_target(target: &SimTarget) -> Result<SimConfig, SimError> {
        let options = Options { engine: &target.engine, map: &target.options };
        let seed = options.read("seed", "a whole number", 1, |t| t.parse().ok())?;
        let noise = options.real("noise", 0.0, 10.0, 0.0)?;
        let mut vocabulary = DEFAULT_VOCABULARY;
        let mut name = target.engine.clone();
        let longest = options.read("context", "a number of tokens from 1", None, |t| {
            t.parse().ok().filter(|n| *n > 0).map(Some)
        })?;
        let (engine, context) = match target.engine.as_str() {
            "fixed" | "fifo" if target.accelerators.is_some() => {
                return Err(SimError::NeedlessAccelerator { engine: target.engine.clone() });
            }
            "fixed" => {
                options.check(FIXED)?;
                let ttft = options.span("ttft", Nanos::from_millis(100))?;
                let tpot = options.span("tpot", Nanos::from_millis(10))?;
                (EngineConfig::Fixed(FixedConfig { ttft, tpot, noise, seed }), longest.unwrap_or(131_072))
            }
            "fifo" => {
                options.check(FIFO)?;
                let config = FifoConfig {
                    service: options.span("service", Nanos::from_millis(100))?,
                    servers: options.count("servers", 1)?,
                    spread: options.choice("tokens", &[("spread", true), ("end", false)], true)?,
                    queue: options.queue()?,
                    noise,
                    seed,
                };
                (EngineConfig::Fifo(config), longest.unwrap_or(131_072))
            }
            _ => {
                let config = machine::batching(target, &options, noise, seed, longest)?;
                name = config.roofline.model.name.to_owned();
                vocabulary = config.roofline.model.vocabulary;
                (EngineConfig::Batching(config), config.context)
            }
        };
        let shape = StreamShape {
            role: options.choice(
                "role",
                &[("first", RoleMode::First), ("separate", RoleMode::Separate), ("none", RoleMode::None)],
                RoleMode::First,
            )?,
            headers_at_once: options.choice("headers", &[("now", true), ("first", false)], true)?,
            reasoning: options.read("reasoning", "a number of tokens", 0, |t| t.parse().ok())?,
            tokens_per_chunk: options.count("tokens_per_chunk", 1)?,
            event_bytes: options.read("event_bytes", "a number of bytes up to 65536", 0, |t| {
                t.parse().ok().filter(|n| *n <= 65_536)
            })?,
            buffered: options.switch("buffered", false)?,
            usage: options.choice(
                "usage",
                &[
                    ("asked", UsageMode::Asked),
                    ("always", UsageMode::Always),
                    ("never", UsageMode::Never),
                    ("continuous", UsageMode::Continuous),
                ],
                UsageMode::Asked,
            )?,
            done: options.switch("done", true)?,
            finish_joined: options.choice("finish", &[("joined", true), ("separate", false)], true)?,
        };
        let counter = options.read(
            "count",
            &format!("bytes, or a vocabulary: {}", VOCABULARIES.join(", ")),
            Counter::Vocabulary(vocabulary),
            |t| match t {
                "bytes" => Some(Counter::Bytes),
                name => VOCABULARIES.iter().find(|v| **v == name).map(|v| Counter::Vocabulary(v)),
            },
        )?;
        Ok(SimConfig {
            model: options.map.get("model").cloned().unwrap_or(name),
            engine,
            context,
            counter,
            shape,
            faults: parse_rules(options.map.get("fault").map_or("", String::as_str))?,
            time_scale: options.real("time_scale", 0.001, 100_000.0, 1.0)?,
            natural_length: options.real("natural", 1.0, 1e6, 180.0)?,
            seed,
        })
    }
}

impl std::fmt::Display for SimConfig {
    /// One line for a start message: what is simulated.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.engine {
            EngineConfig::Fixed(c) => {
                write!(f, "fixed: first token after {}, then every {}", Span(c.ttft), Span(c.tpot))?;
            }
            EngineConfig::Fifo(c) => {
                write!(f, "fifo: {} server(s), {} a request", c.servers, Span(c.service))?;
            }
            EngineConfig::Batching(c) => {
                let r = &c.roofline;
                let (name, precision, count) = (r.model.name, r.precision.name(), r.count);
                write!(f, "{name} in {precision} on {count}x{}: ", r.accelerator.name)?;
                write!(f, "{} sequences, steps of {} tokens, ", c.max_seqs, c.chunk)?;
                write!(f, "KV cache of {} tokens", c.kv_blocks * BLOCK_TOKENS)?;
            }
        }
        for rule in &self.faults {
            write!(f, "; fault {rule}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::ACCELERATORS;
    use crate::models::MODELS;

    fn config(text: &str) -> Result<SimConfig, SimError> {
        match text.parse() {
            Ok(spec::Target::Sim(sim)) => SimConfig::from_target(&sim),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn targets_become_engines() {
        let fixed = config("sim://fixed?ttft=50ms&tpot=5ms").unwrap();
        assert!(matches!(fixed.engine, EngineConfig::Fixed(c)
            if c.ttft == Nanos::from_millis(50) && c.tpot == Nanos::from_millis(5)));
        assert_eq!(fixed.model, "fixed");
        let c = config("sim://llama-3.1-8b@h100").unwrap();
        let EngineConfig::Batching(b) = c.engine else { panic!("{c:?}") };
        // (80 · 0.9 − 2) GB − 16.06 GB = 53.94 GB; / 131,072 B = 411,529 tokens = 25,720 blocks.
        assert_eq!(b.kv_blocks, 25_720);
        assert_eq!((b.chunk, b.max_seqs, c.context), (8_192, 256, 131_072));
        assert_eq!(
            c.to_string(),
            "llama-3.1-8b in bf16 on 1xh100: 256 sequences, steps of 8192 tokens, KV cache of 411520 tokens"
        );
        let c = config("sim://fixed?ttft=50ms&tpot=5ms&fault=empty:every=2").unwrap();
        assert_eq!(c.to_string(), "fixed: first token after 50ms, then every 5ms; fault empty:every=2");
        assert_eq!(config("sim://llama-3.1-70b@4xh100?model=mine").unwrap().model, "mine");
    }

    #[test]
    fn every_listed_model_runs_somewhere() {
        for m in MODELS {
            assert!(config(&format!("sim://{}@8xb200", m.name)).is_ok(), "{}", m.name);
        }
        for a in ACCELERATORS {
            assert!(config(&format!("sim://llama-3.1-8b@{}", a.name)).is_ok(), "{}", a.name);
        }
    }

    #[test]
    fn wrong_names_get_the_nearest_right_one() {
        for (text, needle) in [
            ("sim://llama-3.1-7b@h100", "did you mean `llama-3.1-8b`"),
            ("sim://llama-3.1-8b@h110", "did you mean `h100`"),
            ("sim://llama-3.1-8b", "needs an accelerator"),
            ("sim://fixd", "did you mean `fixed`"),
            ("sim://fixed@h100", "has no accelerator"),
            ("sim://fixed?tftt=1ms", "did you mean `ttft`"),
            ("sim://fixed?service=1ms", "no option `service`"),
            ("sim://fixed?ttft=fast", "expected a duration"),
            ("sim://fixed?usage=often", "asked, always, never, continuous"),
            ("sim://fifo?servers=0", "a number from 1"),
            ("sim://fixed?fault=statos=500", "did you mean `status`"),
            ("sim://llama-3.1-70b@h100", "try 4xh100 or precision=int4"),
            ("sim://llama-3.1-8b@l4?kv_tokens=1000000", "leave no room for 1000000 tokens"),
        ] {
            let message = config(text).unwrap_err().to_string();
            assert!(message.contains(needle), "{text}: {message}");
        }
    }
}
