//! One verb, one function: from its arguments to the exit code.

use std::path::Path;

use anyhow::{Context, Result};
use decide::RunReport;
use record::{Run, RunFolder, Stopped};

use crate::asked;
use crate::capacity;
use crate::cli::{self, Progress, ReportArgs, RunArgs, ShowArgs, SimCommand, SimServeArgs, SpecCommand};
use crate::derived::{exit_code, is_written, keep_files, page};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::run;
use crate::sweep;

/// Measures one load point.
pub fn run(args: &RunArgs, printer: &Printer, progress: Progress) -> Result<u8> {
    let spec = asked::spec(args)?;
    if args.settings.record.dry_run {
        run::check(&spec)?;
        printer.data(&serde_json::to_string_pretty(&spec.redacted())?)?;
        return Ok(0);
    }
    let measured =
        run::measure(spec, &args.settings.record.out, args.settings.client.if_busy, printer, progress)?;
    let report = RunReport::build(&measured.run, &measured.run.header.spec.analysis);
    let json = report.to_json();
    let folder = &measured.folder;
    let mut kept = keep_files(folder, &measured.run, &json, printer);
    if args.settings.record.html {
        let written = folder.write_report(&page(&measured.run, &report, folder.path()));
        kept &= is_written(written, printer);
    }
    kept &= measured.run.footer.stopped != Stopped::WriteError;
    if report.verdict.exit_code >= decide::verdict::exit::NOT_TRUSTED && printer.quiet {
        // "Errors only" still says why there is nothing to rely on.
        printer.warn(&report.verdict.answer);
    }
    printer.say(&present::terminal::run(&printer.style, &report));
    let path = folder.path().display();
    printer.say(&format!("\n{path}     report:  inferometer report {path}"));
    if args.settings.record.json {
        printer.data(&serde_json::to_string_pretty(&json)?)?;
    }
    Ok(exit_code(report.verdict.exit_code, kept))
}

/// A run folder that holds a journal and no `run.json`: the process that ran was killed.
fn left_alone(path: &Path) -> Option<RunFolder> {
    let folder = RunFolder::open(path).ok()?;
    (folder.journal().exists() && !folder.run_json().exists()).then_some(folder)
}

/// Analyses a run folder again.
pub fn show(args: &ShowArgs, printer: &Printer) -> Result<u8> {
    if sweep::is_one(&args.dir) {
        return sweep::show(args, printer);
    }
    if capacity::is_one(&args.dir) {
        return capacity::show(args, printer);
    }
    let mut run = recorded(&args.dir)?;
    asked::reanalysis(&mut run.header.spec, &args.analysis, Some(&args.slo))?;
    let report = RunReport::build(&run, &run.header.spec.analysis);
    if args.json {
        printer.data(&serde_json::to_string_pretty(&report.to_json())?)?;
    } else {
        printer.say(&present::terminal::run(&printer.style, &report));
        if let Some(folder) = left_alone(&args.dir) {
            let path = folder.path().display();
            printer.say(&format!(
                "\nThe run's process did not live to write its other files. They are made by:  inferometer report {path}"
            ));
        }
    }
    Ok(report.verdict.exit_code)
}

/// Writes the HTML report of a run folder.
pub fn report(args: &ReportArgs, printer: &Printer) -> Result<u8> {
    if sweep::is_one(&args.dir) {
        return sweep::report(args, printer);
    }
    if capacity::is_one(&args.dir) {
        return capacity::report(args, printer);
    }
    let mut run = recorded(&args.dir)?;
    if let Some(folder) = left_alone(&args.dir) {
        keep_files(&folder, &run, &RunReport::build(&run, &run.header.spec.analysis).to_json(), printer);
    }
    asked::reanalysis(&mut run.header.spec, &args.analysis, None)?;
    let report = RunReport::build(&run, &run.header.spec.analysis);
    let html = page(&run, &report, &args.dir);
    match &args.out {
        None => {
            let folder = RunFolder::open(&args.dir).map_err(Failure::request)?;
            folder.write_report(&html).map_err(Failure::request)?;
            printer.data(&folder.report().display().to_string())?;
        }
        Some(path) => write_page(path, html, printer)?,
    }
    Ok(0)
}

/// Writes a page where the user wants it; `-` is standard output.
pub fn write_page(path: &Path, html: String, printer: &Printer) -> Result<()> {
    if path.as_os_str() == "-" {
        return printer.data(&html);
    }
    std::fs::write(path, html)
        .with_context(|| format!("cannot write {}", path.display()))
        .map_err(Failure::request)?;
    printer.data(&path.display().to_string())
}

fn recorded(path: &Path) -> Result<Run> {
    if path.is_file() {
        return record::read(path).map_err(|e| Failure::request(e).into());
    }
    let folder = RunFolder::open(path).map_err(Failure::request)?;
    if !folder.journal().exists()
        && !folder.requests_parquet().exists()
        && let Some(newest) = newest_run(path)
    {
        return Err(Failure::request(anyhow::anyhow!(
            "{} holds run folders and is none itself\nhint: the newest is {}",
            path.display(),
            newest.display()
        ))
        .into());
    }
    record::read(folder.path()).map_err(|e| Failure::request(e).into())
}

/// The newest run folder in a folder of them: their names begin with the time.
fn newest_run(runs: &Path) -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir(runs).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_one = |path: &std::path::PathBuf| {
        sweep::is_one(path) || RunFolder::open(path).is_ok_and(|folder| folder.journal().exists())
    };
    entries.filter(is_one).max()
}

/// The simulated engine.
pub fn sim(command: &SimCommand, printer: &Printer) -> Result<u8> {
    match command {
        SimCommand::Serve(args) => serve(args, printer),
        SimCommand::List => {
            printer.data(&catalogue())?;
            Ok(0)
        }
    }
}

fn serve(args: &SimServeArgs, printer: &Printer) -> Result<u8> {
    let parsed = args.engine.parse::<spec::Target>().map_err(|error| {
        let hint = match args.engine.contains("://") {
            true => String::new(),
            false => format!("\nhint: did you mean sim://{}?", args.engine),
        };
        Failure::request(anyhow::anyhow!("{error}{hint}"))
    });
    let target = match parsed? {
        spec::Target::Sim(target) => target,
        spec::Target::Http(url) => {
            return Err(Failure::request(anyhow::anyhow!(
                "`{url}` is a server; the simulated engine is named sim://MODEL@ACCELERATOR\n\
                 hint: inferometer sim serve sim://llama-3.1-8b@h100"
            ))
            .into());
        }
    };
    let config = sim::SimConfig::from_target(&target).map_err(Failure::request)?;
    let truth = args.truth.as_ref().map(|path| truth_log(path)).transpose()?;
    let stop = crate::signal::stop_flag()?;
    if args.until_stdin_closes {
        let stop = std::sync::Arc::clone(&stop);
        std::thread::spawn(move || {
            // Whoever started this engine holds the other end; when it is gone, so are we.
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
    let listener = std::net::TcpListener::bind((args.host.as_str(), args.port))
        .with_context(|| format!("cannot listen on {}:{}; --port 0 takes a free one", args.host, args.port))
        .map_err(Failure::request)?;
    let address = listener.local_addr()?;
    printer.data(
        &serde_json::json!({ "listening": format!("http://{address}"), "engine": target.to_string() })
            .to_string(),
    )?;
    sim::serve(config, listener, truth, stop).map_err(Failure::request)?;
    Ok(0)
}

fn truth_log(path: &Path) -> Result<sim::TruthSink> {
    let file = std::fs::File::create(path)
        .with_context(|| format!("cannot write the log of the truth to {}", path.display()))
        .map_err(Failure::request)?;
    Ok(Box::new(file))
}

/// Models, accelerators and where their figures come from.
fn catalogue() -> String {
    let mut text = String::from("models (sim://MODEL@[Nx]ACCELERATOR)\n");
    for model in sim::models::MODELS {
        text.push_str(&format!(
            "  {:<18} {:>7} B, {} tokens of context; {}\n",
            model.name, model.params_b, model.context, model.source
        ));
    }
    text.push_str("\naccelerators\n");
    for a in sim::hardware::ACCELERATORS {
        text.push_str(&format!(
            "  {:<18} {:>7} TFLOPS bf16, {} GB at {} GB/s; {}\n",
            a.name, a.bf16_tflops, a.memory_gb, a.memory_gb_s, a.source
        ));
    }
    text.push_str("\nengines of known timing\n  fixed              sim://fixed?ttft=100ms&tpot=10ms\n  fifo               sim://fifo?service=100ms\n");
    text.push_str("\nOptions and faults: docs/sim.md");
    text
}

/// Spec files.
pub fn spec(command: &SpecCommand, printer: &Printer) -> Result<u8> {
    match command {
        SpecCommand::Schema => printer.data(&serde_json::to_string_pretty(&spec::schema())?)?,
        SpecCommand::Check { file } => {
            let spec = asked::file(file)?.resolve().map_err(|errors| Failure::wrong_request(&errors))?;
            run::check(&spec)?;
            printer.data(&serde_json::to_string_pretty(&spec.redacted())?)?;
        }
    }
    Ok(0)
}

/// Completions for a shell.
pub fn completions(shell: clap_complete::Shell, printer: &Printer) -> Result<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "inferometer", &mut text);
    printer.data(&String::from_utf8_lossy(&text))?;
    Ok(0)
}

/// The manual page.
pub fn man(printer: &Printer) -> Result<u8> {
    let mut text = Vec::new();
    clap_mangen::Man::new(cli::command()).render(&mut text)?;
    printer.data(&String::from_utf8_lossy(&text))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_runs_names_its_newest() {
        let runs = tempfile::tempdir().unwrap();
        assert_eq!(newest_run(runs.path()), None);
        for name in ["2026-11-30T10-00-00Z-a", "2026-11-29T10-00-00Z-b", "2026-12-01T10-00-00Z-not-a-run"] {
            std::fs::create_dir(runs.path().join(name)).unwrap();
            if !name.ends_with("run") {
                std::fs::write(runs.path().join(name).join("journal.jsonl.zst"), "").unwrap();
            }
        }
        let error = recorded(runs.path()).unwrap_err().to_string();
        assert!(
            error.contains("hint: the newest is ") && error.ends_with("2026-11-30T10-00-00Z-a"),
            "{error}"
        );
    }

    #[test]
    fn an_address_that_is_no_url_is_a_wrong_request_with_a_hint() {
        let args = SimServeArgs {
            engine: "llama-3.1-8b@h100".to_owned(),
            port: 0,
            host: "127.0.0.1".to_owned(),
            truth: None,
            until_stdin_closes: true,
        };
        let screen = crate::cli::Screen {
            color: crate::cli::Color::Never,
            ascii: false,
            progress: Progress::Off,
            live: false,
            quiet: true,
        };
        let error = serve(&args, &Printer::new(&screen)).unwrap_err();
        assert!(error.to_string().contains("did you mean sim://llama-3.1-8b@h100?"), "{error}");
        assert_eq!(Failure::code_of(&error), 2);
    }
}
