//! `inferometer mlperf endpoints`: a curve of MLPerf Endpoints from journals of closed loops.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use decide::verdict::exit;
use measure::request::{ended, ttft};
use measure::tokens::{chunk_tokens, output_tokens};
use mlperf::endpoints::{Curve, Metrics, Offline, Point, Response, Rules, SteadyState};
use record::{Request, Run, RunFolder};
use spec::{Load, Phase, View};

use super::wrong;
use crate::cli::MlperfEndpointsArgs;
use crate::failure::Failure;
use crate::printer::Printer;

/// Reads the runs, and says what their curve is worth.
pub fn command(args: &MlperfEndpointsArgs, printer: &Printer) -> Result<u8> {
    let rules = Rules::v1_0().context("the rules of MLPerf Endpoints are built in")?;
    let samples = match (&args.benchmark, args.samples) {
        (Some(name), _) => rules.model(name).map_err(wrong)?.samples,
        (None, Some(samples)) if samples > 0 => samples,
        _ => return Err(wrong("the data set has no samples\nhint: --benchmark llama3.1-8b, or --samples N")),
    };
    let mut points = Vec::new();
    let mut model = None;
    for folder in folders(&args.runs)? {
        let run = record::read(&folder).map_err(Failure::request)?;
        let Load::Closed(closed) = &run.header.spec.load else {
            return Err(wrong(format!(
                "{} is an open loop, and a point is of a fixed concurrency\nhint: inferometer sweep … -c 1,16,64",
                folder.display()
            )));
        };
        let concurrency = u64::from(closed.concurrency);
        let responses = responses(&run);
        model = model.or_else(|| run.header.spec.api.model.clone());
        points.push(Point {
            concurrency,
            total: Metrics::new(rules, &responses),
            steady_state: SteadyState::new(rules, &responses, samples, concurrency <= rules.ultra_low_most),
        });
    }
    points.sort_by_key(|point| point.concurrency);
    let largest = points.last().map_or(0, |point| point.concurrency);
    let offline = match &args.offline {
        None => Offline::Elected,
        Some(folder) => {
            let run = record::read(folder).map_err(Failure::request)?;
            let tps = Metrics::new(rules, &responses(&run)).system_tps;
            Offline::Dedicated(tps.ok_or_else(|| wrong("the Offline run has no throughput"))?)
        }
    };
    let curve = Curve { points, c_max: args.max_concurrency.unwrap_or(largest), offline: Some(offline) };
    tell(args, rules, &curve, model.as_deref().unwrap_or("model"), printer)
}

fn tell(
    args: &MlperfEndpointsArgs,
    rules: &Rules,
    curve: &Curve,
    model: &str,
    printer: &Printer,
) -> Result<u8> {
    let regions = curve.regions(rules).map_err(wrong)?;
    let checks = curve.rules(rules).map_err(wrong)?;
    printer.say(&format!(
        "MLPerf Endpoints {}, {} rules: not reviewed by MLCommons",
        rules.version, rules.status
    ));
    let number = |value: Option<f64>| value.map_or("not defined".to_owned(), |value| format!("{value:.2}"));
    for point in &curve.points {
        let total = &point.total;
        printer.say(&format!(
            "  concurrency {}: {} tokens/s, {} tokens/s a user, p90 TTFT {} ms; {} of {} failed",
            point.concurrency,
            number(total.system_tps),
            number(total.tps_per_user),
            number(total.ttft_p90_ms),
            total.n_samples_failed,
            total.n_samples_completed + total.n_samples_failed
        ));
    }
    for check in &checks {
        let word = match check.holds {
            Some(true) => "passed",
            Some(false) => "failed",
            None => "incomplete",
        };
        printer.say(&format!("  {}: {word}: {}", check.id, check.words));
    }
    if args.json {
        let mut json = curve.to_json(rules).map_err(wrong)?;
        let data = args.benchmark.as_deref().unwrap_or("data");
        let config = |point| curve.point_config(&regions, point, data, model);
        json["point_configs"] = curve.points.iter().map(config).collect();
        printer.data(&serde_json::to_string_pretty(&json)?)?;
    }
    let any = |holds| checks.iter().any(|check| check.holds == holds);
    Ok(match (any(Some(false)), any(None)) {
        (true, _) => exit::MISSED,
        (false, true) => exit::UNDECIDED,
        (false, false) => exit::HOLDS,
    })
}

/// The run folders among those named, or within them.
fn folders(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let is_run = |path: &Path| {
        let folder = RunFolder::open(path);
        folder.is_ok_and(|folder| folder.journal().exists() || folder.requests_parquet().exists())
    };
    let mut all = Vec::new();
    for path in named {
        if is_run(path) {
            all.push(path.clone());
            continue;
        }
        let entries = std::fs::read_dir(path)
            .with_context(|| format!("cannot read {}", path.display()))
            .map_err(Failure::request)?;
        let mut within: Vec<PathBuf> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_run(path)).collect();
        if within.is_empty() {
            return Err(wrong(format!("{} is no run folder and holds none", path.display())));
        }
        within.sort();
        all.append(&mut within);
    }
    Ok(all)
}

/// The measured responses, in the order of issue.
fn responses(run: &Run) -> Vec<Response> {
    let of = |row: &Request| {
        let issued = row.dispatched.unwrap_or(row.intended);
        let ok = Some(row).filter(|row| row.state.is_ok());
        let mut by_chunk = Vec::new();
        chunk_tokens(row, &mut by_chunk);
        let tokens = output_tokens(row).map_or(0, |(tokens, _)| tokens);
        let first = by_chunk.iter().copied().find(|tokens| *tokens > 0).unwrap_or(0);
        Response {
            issued,
            first: ok
                .and_then(|row| ttft(row, View::User).ok())
                .map(|ttft| (row.intended + ttft).saturating_since(issued)),
            done: ok.and_then(ended).map(|at| at.saturating_since(issued)),
            tokens: u64::from(tokens),
            tokens_after_first: u64::from(tokens.saturating_sub(first)),
        }
    };
    let mut all: Vec<Response> =
        run.requests.iter().filter(|row| row.phase == Phase::Measure).map(of).collect();
    all.sort_by_key(|response| response.issued);
    all
}
