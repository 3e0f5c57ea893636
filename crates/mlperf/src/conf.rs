//! `mlperf.conf`, `user.conf` and `audit.config`: lines `model.scenario.key = value`.
//!
//! LoadGen takes no notice of a key that it does not know, of a second value on a line, of the part of a
//! number after its point. Here each is an error that names the line; what it does read, it reads alike.

mod resolve;

use std::collections::BTreeMap;

use serde_json::Value as Json;

pub use resolve::{Files, Origin, Resolved, Row, resolve};

use crate::Scenario;
use crate::settings::{FIELDS, Field, SetBy, Under};

/// Which of LoadGen's three files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `mlperf.conf`, which LoadGen holds compiled in.
    Official,
    /// `user.conf`.
    User,
    /// `audit.config`, read after the others and for every model.
    Audit,
}

/// One conf file.
#[derive(Debug, Clone, PartialEq)]
pub struct Conf {
    /// How messages call it.
    pub name: String,
    /// Which of the three.
    pub kind: Kind,
    /// Values and their lines by `model.scenario.key`.
    entries: BTreeMap<String, (String, usize)>,
}

/// All that is wrong with a conf file, a line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfErrors(pub Vec<String>);

impl std::fmt::Display for ConfErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}
impl std::error::Error for ConfErrors {}

/// Keys that stand in conf files though no code of LoadGen reads them.
const DEAD: [&str; 2] = ["Server.target_duration", "Offline.target_latency_percentile"];

const EMBEDDED: &str = include_str!("data/conf-6.0.17.json");

/// `mode` is no number of its own: it picks one of four.
pub(crate) const MODE: &str = "mode";

impl Conf {
    /// The values of the `mlperf.conf` that LoadGen 6.0.17 holds compiled in, and where they are from.
    pub fn embedded() -> (Conf, String) {
        let json: Json = serde_json::from_str(EMBEDDED).unwrap_or_default();
        let mut entries = BTreeMap::new();
        for (key, places) in json["values"].as_object().into_iter().flatten() {
            for (place, value) in places.as_object().into_iter().flatten() {
                if let Some(value) = value.as_str() {
                    entries.insert(format!("{place}.{key}"), (value.to_owned(), 0));
                }
            }
        }
        let name = format!("mlperf.conf of LoadGen {}", json["loadgen"].as_str().unwrap_or_default());
        let source = json["source"].as_str().unwrap_or_default().to_owned();
        (Conf { name, kind: Kind::Official, entries }, source)
    }

    /// Reads `text`; `name` is for messages.
    ///
    /// # Errors
    /// Every line that LoadGen would refuse or pass over: see the module's words.
    pub fn parse(name: &str, kind: Kind, text: &str) -> Result<Conf, ConfErrors> {
        let mut entries = BTreeMap::new();
        let mut errors = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let mut complain = |what: String| errors.push(format!("{name}:{number}: {what}"));
            let words: Vec<&str> = line.split_whitespace().collect();
            let end = words.iter().position(|word| *word == "#").unwrap_or(words.len());
            match &words[..end] {
                [] => {}
                [word, ..] if word.starts_with('#') => {
                    complain(format!("`{word}` is read as a key: put a space after #"));
                }
                [key, "=", value] if end == words.len() => match check(kind, key, value) {
                    Ok(()) => {
                        let entry = ((*value).to_owned(), number);
                        if let Some((_, before)) = entries.insert((*key).to_owned(), entry) {
                            complain(format!("`{key}` stands in line {before} already"));
                        }
                    }
                    Err(what) => complain(what),
                },
                [_, "=", _] => {
                    complain("LoadGen refuses a comment behind a value: give it its own line".into())
                }
                _ => complain(format!(
                    "write `model.scenario.key = value`, one value, spaces around =: `{line}`"
                )),
            }
        }
        let conf = Conf { name: name.to_owned(), kind, entries };
        if errors.is_empty() { Ok(conf) } else { Err(ConfErrors(errors)) }
    }

    /// One value that a flag gives, under the scenario that it is for.
    ///
    /// # Errors
    /// As [`Conf::parse`]; messages call it `flag`.
    pub fn of_flag(flag: &str, scenario: Scenario, key: &str, value: &str) -> Result<Conf, ConfErrors> {
        let full = format!("*.{}.{key}", scenario.name());
        check(Kind::User, &full, value).map_err(|what| ConfErrors(vec![format!("{flag}: {what}")]))?;
        let entries = BTreeMap::from([(full, (value.to_owned(), 0))]);
        Ok(Conf { name: flag.to_owned(), kind: Kind::User, entries })
    }

    /// The models that have values of their own.
    pub fn models(&self) -> Vec<&str> {
        let mut models: Vec<&str> =
            self.entries.keys().filter_map(|key| Some(split(key)?.0)).filter(|model| *model != "*").collect();
        models.dedup();
        models
    }

    /// LoadGen's order: the exact key, then for every model, then for every scenario, then for all.
    pub(crate) fn look_up(
        &self,
        model: &str,
        scenario: Scenario,
        key: &str,
    ) -> Option<(String, &str, usize)> {
        let scenario = scenario.name();
        [(model, scenario), ("*", scenario), (model, "*"), ("*", "*")].into_iter().find_map(
            |(model, under)| {
                let full = format!("{model}.{under}.{key}");
                let (value, line) = self.entries.get(&full)?;
                Some((full, value.as_str(), *line))
            },
        )
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = (&str, usize)> {
        self.entries.iter().map(|(key, (_, line))| (key.as_str(), *line))
    }
}

/// `model.scenario.key`; a model's name may hold points.
pub(crate) fn split(full: &str) -> Option<(&str, &str, &str)> {
    let (rest, key) = full.rsplit_once('.')?;
    let (model, scenario) = rest.rsplit_once('.')?;
    Some((model, scenario, key))
}

/// The settings that a key of this name can mean.
pub(crate) fn fields(key: &str) -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(move |field| field.key.is_some_and(|k| k.name == key))
}

fn hint(got: &str, known: impl IntoIterator<Item = &'static str>) -> String {
    spec::nearest(got, known).map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

/// What is wrong with a line whose form is right.
fn check(kind: Kind, full: &str, value: &str) -> Result<(), String> {
    let (_, scenario, key) = split(full).ok_or_else(|| {
        format!("`{full}` is not `model.scenario.key`: write `*.*.{full}` for every model and scenario")
    })?;
    let under = Scenario::ALL.into_iter().find(|s| s.name() == scenario);
    if scenario == "Interactive" {
        return Err(format!(
            "Interactive is no scenario of LoadGen: it is Server of a model of its own, `<model>-interactive.Server.{key}`"
        ));
    }
    if under.is_none() && scenario != "*" {
        return Err(format!("no scenario `{scenario}`{}", hint(scenario, Scenario::ALL.map(Scenario::name))));
    }
    if DEAD.contains(&format!("{scenario}.{key}").as_str()) {
        return Ok(());
    }
    if key == MODE {
        return if ["0", "1", "2", "3"].contains(&value) {
            Ok(())
        } else {
            Err(format!(
                "mode is 0 (submission), 1 (accuracy), 2 (performance) or 3 (find peak), not `{value}`"
            ))
        };
    }
    let known = || FIELDS.iter().filter_map(|field| Some(field.key?.name)).chain([MODE]);
    if fields(key).next().is_none() {
        return Err(format!("no key `{key}`{}", hint(key, known())));
    }
    // Keys of one name but several scenarios have several units: every meaning must be readable.
    let mut places = Vec::new();
    for field in fields(key) {
        let Some(at) = field.key else { continue };
        let read_here = match (at.under, under) {
            (Under::This(place), Some(under)) => place == under,
            _ => true,
        };
        if let Under::This(place) = at.under {
            places.push(place.name());
        }
        if !read_here {
            continue;
        }
        if at.set_by == SetBy::Official && kind != Kind::Official {
            return Err(format!("`{key}` can be set by LoadGen's own mlperf.conf alone: take the line out"));
        }
        return (field.read)(value, at.unit).map(drop);
    }
    Err(format!("`{key}` is read under {} alone, not under {scenario}", places.join(" and ")))
}

/// How conf files call a benchmark of a round's rules: without the point and the accuracy target in the
/// name, interactive as a model of its own. `None`: conf files know no such model, and LoadGen would take
/// its defaults without a word.
pub fn model_of(benchmark: &str, interactive: bool) -> Option<String> {
    let (conf, _) = Conf::embedded();
    let base = benchmark.replace("llama3.1", "llama3_1");
    let bare = base.strip_suffix("-99.9").or_else(|| base.strip_suffix("-99")).unwrap_or(&base);
    let name = if interactive { format!("{bare}-interactive") } else { bare.to_owned() };
    conf.models().contains(&name.as_str()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        Conf::parse("user.conf", Kind::User, text).expect_err(text).to_string()
    }

    #[test]
    fn a_slip_is_an_error_that_names_the_line_and_the_fix() {
        for (text, words) in [
            ("\n*.Server.target_qsp = 1", "user.conf:2: no key `target_qsp` (did you mean `target_qps`?)"),
            ("*.Serverr.target_qps = 1", "did you mean `Server`?"),
            ("*.Interactive.min_duration = 1", "<model>-interactive.Server.min_duration"),
            ("*.Offline.ttft_latency = 1", "read under Server alone"),
            ("*.*.qsl_rng_seed = 1", "mlperf.conf alone"),
            ("*.Server.target_latency = 2.5", "not a whole number"),
            ("*.Server.target_qps = 1 # fast", "comment behind a value"),
            ("#*.Server.target_qps = 1", "put a space after #"),
            ("*.Server.target_qps=1", "spaces around ="),
            ("*.Server.target_qps = 1 2", "one value"),
            ("target_qps = 1", "*.*.target_qps"),
            ("*.*.mode = 7", "mode is 0"),
            ("*.*.use_token_latencies = 2", "not 0 or 1"),
            ("*.*.min_duration = 1\n*.*.min_duration = 2", "stands in line 1 already"),
        ] {
            assert!(wrong(text).contains(words), "{text}: {}", wrong(text));
        }
        assert_eq!(wrong("a\nb").lines().count(), 2);
    }

    #[test]
    fn every_value_of_the_embedded_file_is_one_that_can_be_read() {
        let (conf, source) = Conf::embedded();
        assert!(source.contains("b66003e1"));
        assert_eq!(conf.entries.len(), 148);
        for (key, (value, _)) in &conf.entries {
            assert_eq!(check(Kind::Official, key, value), Ok(()), "{key}");
        }
    }

    #[test]
    fn a_benchmark_has_its_name_in_conf_files() {
        assert_eq!(model_of("llama3.1-8b", false).as_deref(), Some("llama3_1-8b"));
        assert_eq!(model_of("llama2-70b-99.9", true).as_deref(), Some("llama2-70b-interactive"));
        assert_eq!(model_of("mixtral-8x7b", true), None);
    }
}
