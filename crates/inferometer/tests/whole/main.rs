//! The whole: the real binary against the simulated engine and against a real one.

mod accuracy;
mod bottleneck;
mod capacity;
mod cli;
mod clock_steps;
mod endpoint;
mod engine;
mod faults;
mod harness;
mod interrupt;
mod journey;
mod large;
mod llama;
mod mangled;
mod margins;
mod pacing;
mod quality;
mod scale;
mod scripted;
mod self_check;
mod sends;
mod storage;
mod sweep;
mod truth;
mod witness;
mod wrong_answers;
