//! From flags and conf files to LoadGen's settings, each with its source.

use std::path::Path;

use anyhow::{Context, Result};
use mlperf::conf::{Conf, Files, Kind, Origin, Resolved, model_of, resolve};
use mlperf::layers::{Cache, Declared};
use mlperf::settings::Value;
use mlperf::{Effective, Mode, Round, SampleLibrary, Scenario};
use spec::Span;

use super::data::DataSet;
use super::run::Search;
use super::{check, wrong};
use crate::cli::{MlperfMode, MlperfRunArgs, MlperfScenario};
use crate::printer::Printer;

/// What a run goes by.
pub struct Asked {
    /// The settings, and where each is from.
    pub resolved: Resolved,
    /// What LoadGen makes of them.
    pub effective: Effective,
    /// The data set as LoadGen sees it.
    pub library: SampleLibrary,
    /// The data set.
    pub data: DataSet,
    /// What is declared.
    pub declared: Declared,
}

impl Asked {
    /// From the flags and the files that they name.
    pub fn new(args: &MlperfRunArgs, search: Option<&Search>) -> Result<Self> {
        let round = args.round.as_deref().map(Round::named).transpose().map_err(wrong)?;
        let model = conf_model(args, round)?;
        let scenario = scenario(args.scenario);
        let user = args.settings.user_conf.as_deref().map(|path| conf(path, Kind::User)).transpose()?;
        let official =
            args.settings.mlperf_conf.as_deref().map(|path| conf(path, Kind::Official)).transpose()?;
        let audit = args.settings.audit_conf.as_deref().map(|path| conf(path, Kind::Audit)).transpose()?;
        let flags = flags(args, scenario)?;
        let files =
            Files { official: official.as_ref(), user: user.as_ref(), flags: &flags, audit: audit.as_ref() };
        let mut resolved = resolve(&model, scenario, round, files).map_err(wrong)?;
        let settings = &mut resolved.settings;
        settings.mode = match (args.mode, search) {
            (MlperfMode::FindPeak, _) | (_, Some(_)) => Mode::FindPeakPerformance,
            (MlperfMode::Performance, None) => Mode::PerformanceOnly,
            (MlperfMode::Accuracy, None) => Mode::AccuracyOnly,
            (MlperfMode::Submission, None) => Mode::SubmissionRun,
        };
        if let Some(search) = search {
            settings.server_find_peak_qps_decimals_of_precision = search.decimals;
            settings.server_find_peak_qps_boundary_step_size = search.step;
            for (field, flag, value) in [
                ("server_find_peak_qps_decimals_of_precision", "--decimals", Value::Int(search.decimals)),
                ("server_find_peak_qps_boundary_step_size", "--step", Value::Real(search.step)),
            ] {
                let row = resolved.rows.iter_mut().find(|row| row.field == field && row.value != value);
                if let Some(row) = row {
                    let origin = Origin::Line { file: flag.to_owned(), key: field.to_owned(), line: 0 };
                    (row.value, row.origin) = (value, origin);
                }
            }
        }
        if search.is_some() && args.mode != MlperfMode::Performance && args.mode != MlperfMode::FindPeak {
            return Err(wrong("find-peak has a mode of its own: leave --mode out"));
        }
        let timed = settings.use_token_latencies && scenario != Scenario::Offline;
        if timed && args.api.no_stream {
            return Err(wrong(
                "this benchmark times first tokens, and whole answers have none\nhint: leave --no-stream out",
            ));
        }
        let rows_of_model =
            Some(settings.performance_sample_count_override).filter(|count| *count > 0).unwrap_or(1024);
        let data = DataSet::open(&args.data, rows_of_model)?;
        let library = SampleLibrary { name: data.name.clone(), total: data.rows, performance: data.rows };
        let effective = Effective::new(settings, &library).map_err(wrong)?;
        if scenario == Scenario::Server && settings.server_coalesce_queries {
            resolved.notes.push(
                "coalesce_queries changes nothing: a query is one request, whatever is late with it"
                    .to_owned(),
            );
        }
        let declared = declared(args, &data)?;
        Ok(Self { resolved, effective, library, data, declared })
    }

    /// What may surprise about them.
    pub fn warn(&self, printer: &Printer) {
        for note in &self.resolved.notes {
            printer.warn(note);
        }
    }

    /// A line for each setting, with its value and its source.
    pub fn lines(&self) -> Vec<String> {
        let rows = &self.resolved.rows;
        let widest = rows.iter().map(|row| row.field.len()).max().unwrap_or(0);
        let mut lines = vec![
            format!("{:widest$}  {}", "scenario", self.effective.scenario.name()),
            format!("{:widest$}  {}", "mode", self.effective.mode.name()),
        ];
        lines
            .extend(rows.iter().map(|row| format!("{:widest$}  {}  ({})", row.field, row.value, row.origin)));
        lines
    }
}

/// LoadGen's scenario; Interactive is Server.
fn scenario(asked: MlperfScenario) -> Scenario {
    match asked {
        MlperfScenario::SingleStream => Scenario::SingleStream,
        MlperfScenario::MultiStream => Scenario::MultiStream,
        MlperfScenario::Server | MlperfScenario::Interactive => Scenario::Server,
        MlperfScenario::Offline => Scenario::Offline,
    }
}

/// How the rounds call the scenario.
fn scenario_name(asked: MlperfScenario) -> &'static str {
    match asked {
        MlperfScenario::Interactive => "Interactive",
        other => scenario(other).name(),
    }
}

/// How conf files call the benchmark; `*`: none in particular.
fn conf_model(args: &MlperfRunArgs, round: Option<&Round>) -> Result<String> {
    let interactive = args.scenario == MlperfScenario::Interactive;
    let Some(benchmark) = &args.benchmark else {
        if interactive {
            return Err(wrong(
                "Interactive is Server with the limits of a benchmark\nhint: --benchmark llama3.1-8b",
            ));
        }
        return Ok("*".to_owned());
    };
    if let Some(round) = round {
        let model = round.model(benchmark).map_err(wrong)?;
        let name = scenario_name(args.scenario);
        // What a round does not ask for may be measured all the same, where LoadGen has settings for it.
        if interactive && !model.has(name) {
            return Err(wrong(format!("{} of {} is not run in Interactive", benchmark, round.round)));
        }
    }
    model_of(benchmark, interactive).ok_or_else(|| match interactive {
        true => wrong(format!(
            "LoadGen 6.0.17 has no limits for {benchmark} in Interactive and would take its defaults without a word\n\
             hint: --scenario server with --set ttft_latency=… and --set tpot_latency=…"
        )),
        false => {
            let (conf, _) = Conf::embedded();
            let near = spec::nearest(benchmark, conf.models());
            // Rounds write a point where conf files cannot.
            let near = near.map(|name| name.replace("llama3_1", "llama3.1"));
            let near = near.map(|name| format!("\nhint: did you mean {name}?")).unwrap_or_default();
            wrong(format!("LoadGen 6.0.17 has no settings for benchmark `{benchmark}`{near}"))
        }
    })
}

fn conf(path: &Path, kind: Kind) -> Result<Conf> {
    crate::files::check(path, "a conf file of LoadGen")?;
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    Conf::parse(&name, kind, &String::from_utf8_lossy(&bytes)).map_err(wrong)
}

/// Each flag as the line of a conf file that it stands for.
fn flags(args: &MlperfRunArgs, scenario: Scenario) -> Result<Vec<Conf>> {
    let given = &args.settings;
    let min_duration = match &given.min_duration {
        None => None,
        Some(text) => {
            let span: Span = text.parse().map_err(|error| wrong(format!("--min-duration: {error}")))?;
            if !span.0.0.is_multiple_of(1_000_000) {
                return Err(wrong(format!("--min-duration {text}: LoadGen counts whole milliseconds")));
            }
            Some((span.0.0 / 1_000_000).to_string())
        }
    };
    let mut flags = Vec::new();
    let named = [
        ("--target-qps", "target_qps", &given.target_qps),
        ("--target-latency", "target_latency", &given.target_latency),
        ("--min-duration", "min_duration", &min_duration),
        ("--min-query-count", "min_query_count", &given.min_query_count),
        ("--samples-per-query", "samples_per_query", &given.samples_per_query),
    ];
    for (flag, key, value) in named {
        if let Some(value) = value {
            flags.push(Conf::of_flag(flag, scenario, key, value.trim()).map_err(wrong)?);
        }
    }
    for text in &given.set {
        let (key, value) = text.split_once('=').ok_or_else(|| {
            wrong(format!("--set {text}: expected KEY=VALUE\nhint: --set ttft_latency=500"))
        })?;
        flags.push(Conf::of_flag("--set", scenario, key.trim(), value.trim()).map_err(wrong)?);
    }
    Ok(flags)
}

/// What flags declare, and what the data set shows.
fn declared(args: &MlperfRunArgs, data: &DataSet) -> Result<Declared> {
    let mut declared = check::declared(&args.declared, None)?;
    let or = |flag: &Option<String>, file: Option<String>| flag.clone().or(file);
    declared.round = or(&args.round, declared.round);
    declared.model = or(&args.benchmark, declared.model);
    if args.scenario == MlperfScenario::Interactive {
        declared.scenario = Some("Interactive".to_owned());
    }
    if let Some(protocol) = args.data.cache {
        declared.cache =
            Some(Cache { protocol, prompts_unique: Some(data.beginnings_differ), cached_tokens: None });
    }
    Ok(declared)
}
