//! What can be wrong with a simulated server.

use crate::faults::FaultError;

/// A target that cannot be simulated, or a front that cannot run.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// No engine or model of that name.
    #[error("no engine or model is called `{got}`{hint}; engines: fixed, fifo; models: {known}")]
    UnknownModel {
        /// As given.
        got: String,
        /// ` (did you mean …)` or nothing.
        hint: String,
        /// All names.
        known: String,
    },
    /// No accelerator of that name.
    #[error("no accelerator is called `{got}`{hint}; known: {known}")]
    UnknownAccelerator {
        /// As given.
        got: String,
        /// ` (did you mean …)` or nothing.
        hint: String,
        /// All names.
        known: String,
    },
    /// A model needs an accelerator.
    #[error(
        "model `{model}` needs an accelerator: write sim://{model}@h100 or sim://{model}@4xh100; known: {known}"
    )]
    NoAccelerator {
        /// The model.
        model: String,
        /// All accelerators.
        known: String,
    },
    /// `fixed` and `fifo` run on nothing.
    #[error("engine `{engine}` has no accelerator: write sim://{engine}?…")]
    NeedlessAccelerator {
        /// The engine.
        engine: String,
    },
    /// No option of that name for this engine.
    #[error("engine `{engine}` has no option `{got}`{hint}; options: {known}")]
    UnknownOption {
        /// The engine.
        engine: String,
        /// As given.
        got: String,
        /// ` (did you mean …)` or nothing.
        hint: String,
        /// All options of this engine.
        known: String,
    },
    /// A value that the option does not take.
    #[error("option `{key}={got}`: expected {expected}")]
    BadOption {
        /// The option.
        key: String,
        /// As given.
        got: String,
        /// What would be accepted.
        expected: String,
    },
    /// The weights and a useful KV cache do not fit.
    #[error(
        "{model} in {precision} does not fit on {count}x{accelerator}: weights {weights_gb:.1} GB of {usable_gb:.1} GB usable leave no room for {needed} tokens of KV cache; try {suggestion}"
    )]
    DoesNotFit {
        /// The model.
        model: &'static str,
        /// Of the weights.
        precision: &'static str,
        /// Devices.
        count: u32,
        /// Their kind.
        accelerator: &'static str,
        /// Size of the weights.
        weights_gb: f64,
        /// Memory that may be used.
        usable_gb: f64,
        /// Tokens of KV cache asked for, or the smallest useful number.
        needed: u64,
        /// What would fit.
        suggestion: String,
    },
    /// A fault rule that cannot be read.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// The front's socket, poller or log failed.
    #[error("simulated server: {doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The cause.
        source: std::io::Error,
    },
}
