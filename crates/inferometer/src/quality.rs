//! `inferometer quality`: is it still the same model? Servers, folders and the screen of crate `quality`.

mod again;
mod compare;
mod harness;
mod journal;
mod kl;
mod ppl;
mod probe;
mod report;
mod run;
mod server;
mod suite;
mod work;

use anyhow::Result;

use crate::cli::{Progress, QualityCommand};
use crate::printer::Printer;
pub use again::{Again, Baseline};

/// From its arguments to the exit code.
pub fn command(command: &QualityCommand, printer: &Printer, progress: Progress) -> Result<u8> {
    match command {
        QualityCommand::Probe(args) => probe::command(args, printer),
        QualityCommand::Ppl(args) => ppl::command(args, printer, progress),
        QualityCommand::Kl(args) => kl::command(args, printer, progress),
        QualityCommand::Run(args) => run::command(args, printer, progress),
        QualityCommand::Compare(args) => compare::command(args, printer),
    }
}
