//! One loaded set on the wire: its schedule, followed by the client, and what came of it.

use std::path::Path;

use anyhow::Result;
use mlperf::log::{
    ENDED, Level, Note, RAN_OUT, max_duration_reached, max_queries_reached, sample_errors, too_many_open,
};
use mlperf::{Effective, Results, Sample, Scenario, Schedule, ShortAnswers, Verdict};
use plan::{Script, Timetable, Turns};
use record::{Run, RunFolder, Text};
use spec::{Nanos, Span, Spec};

use super::settings::Asked;
use super::wrong;
use crate::cli::{
    AnalysisArgs, LoadArgs, MlperfRunArgs, PhaseArgs, Progress, RecordArgs, RunArgs, SettingArgs, SloArgs,
    SubjectArgs, TimeoutArgs, WorkloadArgs,
};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::run::{Around, Scripted, Site, measure_at};

/// What a limit of time does not cover: connecting, and the client's own work.
const BESIDE: Nanos = Nanos::from_secs(11);

/// A pass that is over.
pub struct Made {
    /// What was sent when.
    pub schedule: Schedule,
    /// What became of it; moments are from the pass's own origin.
    pub samples: Vec<Sample>,
    /// What happened meanwhile; moments are from the start of the log.
    pub notes: Vec<Note>,
    /// From the start of the log.
    pub began: Nanos,
    /// From the start of the log.
    pub ended: Nanos,
    /// Beginning and end in UTC, as power meters want them.
    pub power: (String, String),
    /// Of a timed pass.
    pub outcome: Option<(Results, Verdict)>,
    /// The records.
    pub run: Run,
    /// The answers' texts, where they were kept.
    pub texts: Vec<Text>,
    /// Its run folder, within that of the logs.
    pub folder: String,
}

/// Where passes are made.
pub struct Maker<'a> {
    /// The flags.
    pub args: &'a MlperfRunArgs,
    /// The settings.
    pub asked: &'a Asked,
    /// The endpoint.
    pub site: Option<Site>,
    /// The folder of the logs.
    pub folder: &'a Path,
    /// What the runs are told.
    pub around: Around,
    /// The start of the log.
    pub clock: clock::Clock,
    /// The same on the wall clock, a label.
    pub wall_ns: u64,
    /// For what is said.
    pub printer: &'a Printer,
    /// How progress is shown.
    pub progress: Progress,
}

impl Maker<'_> {
    /// Sends a schedule. `by`: the settings, at the rate of this pass; `timed`: its stop rules and its verdict count.
    pub fn make(&mut self, by: &Effective, schedule: Schedule, name: &str, timed: bool) -> Result<Made> {
        let moments = script(by, &schedule, timed);
        let keeps = !timed || by.accuracy_log_share() > 0.0;
        let spec = spec(self.args, by, &moments, keeps)?;
        let site = match &mut self.site {
            Some(site) => site,
            empty => empty.insert(Site::take(
                &spec,
                self.args.client.if_busy,
                None,
                self.printer,
                &self.around.stop,
            )?),
        };
        let script = Scripted {
            moments,
            rows: schedule.samples.as_slice().into(),
            lengths: self.asked.data.lengths(&spec)?,
        };
        let around = Around { name: Some(name.to_owned()), script: Some(script), ..self.around.clone() };
        let runs = self.folder.join(RUNS);
        let measured = measure_at(site, spec, &runs, self.printer, self.progress, around)?;
        let run = measured.run;
        let report = decide::RunReport::build(&run, &run.header.spec.analysis);
        crate::derived::keep_files(&measured.folder, &run, &report.to_json(), self.printer);
        let samples = super::heard::samples(&run, &schedule, by.scenario);
        let began = self.at(run.header.environment.monotonic_origin_ns);
        let done = |sample: &Sample| sample.latency.map(|latency| sample.scheduled + latency);
        let last = samples.iter().filter_map(done).max().unwrap_or_default();
        let ended = began + run.footer.ended;
        let outcome = timed.then(|| {
            let results = Results::new(by, &samples, ShortAnswers::Exclude);
            let verdict = Verdict::new(by, &results);
            (results, verdict)
        });
        let texts = if keeps {
            record::texts(&measured.folder.journal()).map_err(Failure::request)?
        } else {
            Vec::new()
        };
        let mut made = Made {
            notes: Vec::new(),
            power: (self.for_meters(began)?, self.for_meters(began + last)?),
            folder: within(self.folder, &measured.folder),
            schedule,
            samples,
            began,
            ended,
            outcome,
            run,
            texts,
        };
        made.notes = notes(by, &made, timed);
        Ok(made)
    }

    /// The date and time of a moment from the start of the log, as power meters want it.
    fn for_meters(&self, at: Nanos) -> Result<String> {
        Ok(for_meters(&record::folder::rfc3339(self.wall_ns.saturating_add(at.0))?))
    }

    /// A moment of `CLOCK_MONOTONIC`, from the start of the log.
    fn at(&self, monotonic_ns: u64) -> Nanos {
        Nanos(monotonic_ns.saturating_sub(self.clock.origin_raw_ns()))
    }
}

/// Run folders lie in here, beside the logs.
pub const RUNS: &str = "runs";

fn within(folder: &Path, run: &RunFolder) -> String {
    run.path().strip_prefix(folder).unwrap_or(run.path()).display().to_string()
}

/// A schedule as the client follows it.
pub fn script(by: &Effective, schedule: &Schedule, timed: bool) -> Script {
    let queries = schedule.at.len() as u64;
    let most = match by.max_query_count {
        0 => queries,
        most if timed => queries.min(most),
        _ => queries,
    };
    match by.scenario {
        Scenario::Offline => Script::Timetable(Timetable {
            at: vec![Nanos::ZERO; schedule.samples.len()].into(),
            next: None,
            most_open: None,
        }),
        Scenario::Server => {
            let mut at = &schedule.at[..most as usize];
            let mut next = Some(schedule.duration);
            if timed && by.max_duration > Nanos::ZERO {
                // The first query beyond it still goes out.
                let within = at.partition_point(|at| *at <= by.max_duration);
                at = &at[..at.len().min(within + 1)];
            }
            if at.len() < schedule.at.len() {
                next = schedule.at.get(at.len()).copied();
            }
            let most_open = u32::try_from(by.max_async_queries).ok().filter(|most| timed && *most > 0);
            Script::Timetable(Timetable { at: at.into(), next, most_open })
        }
        Scenario::SingleStream | Scenario::MultiStream if timed => Script::Turns(Turns {
            most,
            least: by.min_query_count,
            least_time: by.target_duration,
            most_time: Some(by.max_duration).filter(|most| *most > Nanos::ZERO),
        }),
        Scenario::SingleStream | Scenario::MultiStream => {
            Script::Turns(Turns { most: queries, least: queries, least_time: Nanos::ZERO, most_time: None })
        }
    }
}

/// What is asked of the client.
pub fn spec(args: &MlperfRunArgs, by: &Effective, script: &Script, keep_text: bool) -> Result<Spec> {
    let timeout: Span =
        args.settings.timeout.parse().map_err(|error| wrong(format!("--timeout: {error}")))?;
    if timeout.0 == Nanos::ZERO {
        return Err(wrong("--timeout 0s: no sample could be answered"));
    }
    let mut load = LoadArgs { cap: args.settings.cap.clone(), ..LoadArgs::default() };
    let requests = match script {
        Script::Timetable(table) => {
            let at_once = by.scenario == Scenario::Offline;
            load.rate = Some(if at_once { "inf".to_owned() } else { by.target_qps.to_string() });
            table.at.len() as u64
        }
        Script::Turns(turns) => {
            if load.cap.is_some() {
                return Err(wrong(
                    "--cap is for Server and Offline: in SingleStream and MultiStream the next query waits anyway",
                ));
            }
            load.concurrency = Some(by.samples_per_query.to_string());
            turns.most.saturating_mul(by.samples_per_query)
        }
    };
    // Whatever waits at the cap goes out when others have ended, each within its own limit.
    let cap = args.settings.cap.as_deref().and_then(|cap| cap.trim().parse::<u64>().ok()).unwrap_or(requests);
    let waves = requests.div_ceil(cap.max(1));
    let drain = Span(Nanos(waves.saturating_mul((timeout.0 + BESIDE).0)));
    let mut api = args.api.clone();
    if api.temperature.is_none() {
        // As the rules have it: greedy, but for the models that are sampled.
        let sampled = args
            .benchmark
            .as_deref()
            .is_some_and(|name| ["gpt-oss", "qwen3-vl"].iter().any(|family| name.starts_with(family)));
        api.temperature = Some(if sampled { "1" } else { "0" }.to_owned());
        if sampled && api.top_p.is_none() {
            api.top_p = Some("1".to_owned());
        }
    }
    let dataset = args.data.dataset.as_ref().map(|path| format!("jsonl:{}", path.display()));
    if dataset.is_some() && api.force.is_none() {
        // Answers of a data set end by themselves.
        api.force = Some("none".to_owned());
    }
    let limit = Some(args.settings.timeout.clone());
    crate::asked::spec(&RunArgs {
        subject: SubjectArgs { target: vec![args.target.clone()], file: None, model: args.model.clone() },
        load,
        settings: SettingArgs {
            phases: PhaseArgs {
                duration: None,
                requests: Some(requests.to_string()),
                warmup: Some("none".to_owned()),
                drain: Some(drain.to_string()),
            },
            workload: WorkloadArgs {
                isl: args.data.isl.clone(),
                osl: args.data.osl.clone(),
                data: dataset,
                cache: None,
                tokenizer: args.data.tokenizer.clone(),
                seed: None,
            },
            slo: SloArgs { slo: Vec::new(), attain: None },
            api,
            timeouts: TimeoutArgs {
                connect_timeout: None,
                first_token_timeout: limit.clone(),
                idle_timeout: limit.clone(),
                total_timeout: limit,
            },
            client: args.client.clone(),
            analysis: AnalysisArgs { percentile: Some("loadgen".to_owned()), view: None },
            record: RecordArgs {
                out: args.out.clone(),
                label: Vec::new(),
                keep_text,
                html: false,
                json: false,
                dry_run: false,
            },
        },
    })
}

/// How the pass ended, in LoadGen's words where it has any.
fn notes(by: &Effective, made: &Made, timed: bool) -> Vec<Note> {
    let queries = made.samples.last().map_or(0, |sample| sample.query + 1);
    let last = made.samples.last().map_or(Nanos::ZERO, |sample| sample.scheduled + sample.issue_delay);
    let all = made.schedule.at.len() as u64;
    let note = |level, text| Note { at: made.ended, level, text };
    let mut notes = Vec::new();
    let footer = &made.run.footer;
    if footer.stopped != record::Stopped::Finished {
        let text = format!("The run was ended before its time: {queries} of {all} queries went out.");
        notes.push(note(Level::Error, text));
    } else if timed {
        let waits = matches!(by.scenario, Scenario::SingleStream | Scenario::MultiStream);
        if by.scenario == Scenario::Offline
            || waits && queries >= by.min_query_count && last >= by.target_duration
        {
            notes.push(note(Level::Plain, ENDED.to_owned()));
        } else if by.max_query_count > 0 && queries >= by.max_query_count {
            notes.push(note(Level::Error, max_queries_reached(queries)));
        } else if by.max_duration > Nanos::ZERO && last > by.max_duration {
            notes.push(note(Level::Error, max_duration_reached(last)));
        } else if waits {
            notes.push(note(Level::Error, RAN_OUT.to_owned()));
        } else if queries < all {
            notes.push(note(Level::Error, too_many_open(queries, by.max_async_queries + 1)));
        }
    }
    for warning in &footer.warnings {
        notes.push(note(Level::Warning, warning.clone()));
    }
    notes.extend(sample_errors(by, &made.samples, made.began));
    notes
}

/// `2026-11-30T03:58:01.133Z` as `11-30-2026 03:58:01.133`.
fn for_meters(moment: &str) -> String {
    let Some((date, time)) = moment.trim_end_matches('Z').split_once('T') else { return moment.to_owned() };
    match date.splitn(3, '-').collect::<Vec<_>>()[..] {
        [year, month, day] => format!("{month}-{day}-{year} {time}"),
        _ => moment.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_for_power_meters() {
        assert_eq!(for_meters("2026-11-30T03:58:01.133Z"), "11-30-2026 03:58:01.133");
    }
}
