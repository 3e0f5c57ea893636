//! The checks, one module for each thing that can go wrong; each check is a function from data to
//! [`Check`](crate::trust::Check).

pub mod answers;
pub mod clock;
pub mod load;
pub mod machine;
pub mod prompts;
pub mod samples;
pub mod sending;
pub mod server;
pub mod steady;
