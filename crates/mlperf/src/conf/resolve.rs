//! What the conf files together say, and which line said it.

use super::{Conf, ConfErrors, Kind, MODE, fields, split};
use crate::settings::{FIELDS, Field, Key, Mode, SetBy, TestSettings, Under, Value};
use crate::{Round, Scenario};

/// Where an effective value is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `TestSettings` itself.
    Default,
    /// A line of a file, or a value that LoadGen holds compiled in.
    Line {
        /// The file.
        file: String,
        /// The full key that was found.
        key: String,
        /// Its line; 0 where the file is compiled in.
        line: usize,
    },
    /// The seeds of a round.
    Round(&'static str),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Line { file, key, line: 0 } => write!(f, "{file}, {key}"),
            Origin::Line { file, key, line } => write!(f, "{file}:{line}, {key}"),
            Origin::Round(round) => write!(f, "seeds of {round}"),
        }
    }
}

/// One setting as it is in the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The setting's name in `TestSettings`.
    pub field: &'static str,
    /// Its value.
    pub value: Value,
    /// Where that is from.
    pub origin: Origin,
}

/// What the conf files together say.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The settings.
    pub settings: TestSettings,
    /// Each of them with its origin, in the order of `TestSettings`.
    pub rows: Vec<Row>,
    /// What is no error and yet may surprise, a sentence each.
    pub notes: Vec<String>,
}

/// The files that say it, each over the one before.
#[derive(Debug, Clone, Copy, Default)]
pub struct Files<'a> {
    /// An `mlperf.conf` in place of the one that LoadGen holds compiled in.
    pub official: Option<&'a Conf>,
    /// `user.conf`.
    pub user: Option<&'a Conf>,
    /// What flags say.
    pub flags: &'a [Conf],
    /// `audit.config`, read for every model.
    pub audit: Option<&'a Conf>,
}

/// As LoadGen does it: its own values, over them `user.conf`, over them flags, over them `audit.config`.
/// The seeds are those of `round`, if one is named: LoadGen 6.0.17 holds those of v6.1. Model `*` is none
/// in particular.
///
/// # Errors
/// A line of `user` for a model that nobody knows.
pub fn resolve(
    model: &str,
    scenario: Scenario,
    round: Option<&'static Round>,
    files: Files<'_>,
) -> Result<Resolved, ConfErrors> {
    let embedded = Conf::embedded().0;
    let official = files.official.unwrap_or(&embedded);
    let known = official.models();
    let mut notes = Vec::new();
    if model != "*" && !known.contains(&model) {
        let hint = spec::nearest(model, known.iter().copied());
        let hint = hint.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
        notes.push(format!("{} has no values of model `{model}`{hint}: defaults are taken", official.name));
    }
    if let Some(user) = files.user {
        foreign_models(user, model, &known)?;
    }
    let settings = TestSettings { scenario, ..TestSettings::default() };
    let mut state = State { settings, origins: vec![Origin::Default; FIELDS.len()] };
    state.apply(official, model);
    if let Some(round) = round {
        state.seed(round);
    }
    let users = files.user.into_iter().chain(files.flags).map(|conf| (conf, model));
    for (conf, model) in users.chain(files.audit.map(|audit| (audit, "*"))) {
        state.apply(conf, model);
        notes.extend(unread(conf, model, &state.settings));
    }
    let value = |field: &Field| (field.get)(&state.settings);
    let rows = FIELDS
        .iter()
        .zip(&state.origins)
        .map(|(field, origin)| Row { field: field.name, value: value(field), origin: origin.clone() })
        .collect();
    Ok(Resolved { settings: state.settings, rows, notes })
}

struct State {
    settings: TestSettings,
    origins: Vec<Origin>,
}

impl State {
    fn apply(&mut self, conf: &Conf, model: &str) {
        let scenario = self.settings.scenario;
        if let Some((_, value, _)) = conf.look_up(model, scenario, MODE)
            && let Some(mode) = value.parse().ok().and_then(|n: usize| Mode::ALL.get(n))
        {
            self.settings.mode = *mode;
        }
        // Switches first: they decide whether other keys are read.
        let (switches, others): (Vec<_>, Vec<_>) =
            (0..FIELDS.len()).partition(|i| matches!((FIELDS[*i].get)(&self.settings), Value::Bool(_)));
        for i in switches.into_iter().chain(others) {
            let field = &FIELDS[i];
            let Some(key) = field.key else { continue };
            if key.set_by == SetBy::Official && conf.kind != Kind::Official || !is_read(field, &self.settings)
            {
                continue;
            }
            let Some((full, value, line)) = conf.look_up(model, place(key, scenario), key.name) else {
                continue;
            };
            if let Ok(value) = (field.read)(value, key.unit) {
                (field.set)(&mut self.settings, value);
                self.origins[i] = Origin::Line { file: conf.name.clone(), key: full, line };
            }
        }
    }

    fn seed(&mut self, round: &'static Round) {
        let seeds = [
            ("qsl_rng_seed", round.seeds.qsl),
            ("sample_index_rng_seed", round.seeds.sample_index),
            ("schedule_rng_seed", round.seeds.schedule),
        ];
        for (i, field) in FIELDS.iter().enumerate() {
            let Some((_, seed)) = seeds.iter().find(|(name, _)| *name == field.name) else { continue };
            (field.set)(&mut self.settings, Value::Int(*seed));
            self.origins[i] = Origin::Round(&round.round);
        }
    }
}

fn place(key: Key, run: Scenario) -> Scenario {
    match key.under {
        Under::Run => run,
        Under::This(scenario) => scenario,
    }
}

/// Some keys are read only when a switch is on.
fn is_read(field: &Field, settings: &TestSettings) -> bool {
    match field.name {
        "server_ttft_latency" | "server_tpot_latency" => settings.use_token_latencies,
        "token_latency_scaling_factor" => settings.infer_token_latencies,
        _ => true,
    }
}

fn foreign_models(user: &Conf, model: &str, known: &[&str]) -> Result<(), ConfErrors> {
    let errors: Vec<String> = user
        .keys()
        .filter_map(|(key, line)| Some((split(key)?.0, line)))
        .filter(|(name, _)| *name != "*" && *name != model && !known.contains(name))
        .map(|(name, line)| {
            let hint = spec::nearest(name, known.iter().copied().chain([model]));
            let hint = hint.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
            format!("{}:{line}: no model `{name}`{hint}", user.name)
        })
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(ConfErrors(errors)) }
}

/// Lines for this model that change nothing, with the reason.
fn unread(conf: &Conf, model: &str, settings: &TestSettings) -> Vec<String> {
    let mut notes = Vec::new();
    let mut lines: Vec<(&str, usize)> = conf.keys().collect();
    lines.sort_by_key(|(_, line)| *line);
    for (full, line) in lines {
        let Some((of, scenario, key)) = split(full) else { continue };
        if of != "*" && of != model || key == MODE {
            continue;
        }
        let note = |why: &str| format!("{}:{line}: `{full}` changes nothing: {why}", conf.name);
        let meant: Vec<&Field> = fields(key).collect();
        if meant.is_empty() {
            notes.push(note("no code of LoadGen reads it"));
        } else if !meant.iter().any(|field| is_read(field, settings)) {
            notes.push(note("its switch, use_token_latencies or infer_token_latencies, is off"));
        } else if meant.iter().all(|field| {
            let found = field.key.and_then(|k| conf.look_up(model, place(k, settings.scenario), k.name));
            found.is_none_or(|(found, ..)| found != full)
        }) && (scenario == "*" || scenario == settings.scenario.name())
        {
            notes.push(note("a line that comes first in LoadGen's order says otherwise"));
        }
    }
    notes
}
