//! The command line of inferometer.

mod asked;
mod capacity;
mod cli;
mod commands;
mod derived;
mod embedded;
mod failure;
mod files;
mod mlperf;
mod printer;
mod quality;
mod run;
mod self_check;
mod series;
mod signal;
mod sweep;

use std::process::ExitCode;

use anyhow::Result;
use cli::Command;
use failure::Failure;
use printer::Printer;

fn main() -> ExitCode {
    let cli = cli::parse();
    let printer = Printer::new(&cli.screen);
    match execute(cli.command, &printer, cli.screen.progress()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            printer.error(&error);
            ExitCode::from(Failure::code_of(&error))
        }
    }
}

fn execute(command: Command, printer: &Printer, progress: cli::Progress) -> Result<u8> {
    match command {
        Command::Run(args) => commands::run(&args, printer, progress),
        Command::Sweep(args) => sweep::command(&args, printer, progress),
        Command::Capacity(args) => capacity::command(&args, printer, progress),
        Command::Show(args) => commands::show(&args, printer),
        Command::Mlperf(command) => mlperf::command(&command, printer, progress),
        Command::Quality(command) => quality::command(&command, printer, progress),
        Command::SelfCheck(args) => self_check::command(&args, printer),
        Command::Report(args) => commands::report(&args, printer),
        Command::Sim(command) => commands::sim(&command, printer),
        Command::Spec(command) => commands::spec(&command, printer),
        Command::Completions { shell } => commands::completions(shell, printer),
        Command::Man => commands::man(printer),
    }
}
