//! The whole: the real binary against the simulated engine and against a real one.

mod accuracy;
mod bottleneck;
mod cli;
mod endpoint;
mod engine;
mod faults;
mod harness;
mod interrupt;
mod journey;
mod mangled;
mod scripted;
mod self_check;
mod storage;
mod witness;
mod wrong_answers;
