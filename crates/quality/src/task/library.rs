//! From names and files to tasks and groups.

use super::config::{self, Config};
use super::group::{Group, GroupMetric};
use super::port::{Lookup, Ports};
use super::{TaskError, yaml};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Groups within groups, and includes within includes, end here.
const MAX_DEPTH: usize = 16;

/// Keys of a group that say nothing of its tasks.
const STRUCTURE: [&str; 7] =
    ["group", "group_alias", "task", "aggregate_metric_list", "metadata", "include", "tag"];

/// Which file holds which task, group or tag.
#[derive(Debug, Clone, Default)]
pub struct Index {
    files: BTreeMap<String, String>,
    tags: BTreeMap<String, BTreeSet<String>>,
}

impl Index {
    /// Takes in a file by its text. A file that is neither a task nor a group (a template that others
    /// include, or no YAML at all) is passed over. Of two files with one name the first stays.
    pub fn add(&mut self, path: &str, text: &str) {
        let Ok(Value::Object(map)) = yaml::parse(text) else { return };
        let name = match (map.get("group"), map.get("task")) {
            (Some(Value::String(name)), _) | (None, Some(Value::String(name))) => name,
            _ => return,
        };
        self.files.entry(name.clone()).or_insert_with(|| path.to_owned());
        if map.contains_key("group") {
            return;
        }
        for tag in config::texts(map.get("tag")) {
            self.tags.entry(tag).or_default().insert(name.clone());
        }
    }

    /// All names, tags last.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().chain(self.tags.keys()).map(String::as_str)
    }
}

/// Where tasks come from: the crate opens no files.
pub struct Library<'a> {
    /// Gives the text of a file. Included files are asked for by the path of the including one, with `/`.
    pub read: &'a dyn Fn(&str) -> Result<String, String>,
    /// Where members of groups are found.
    pub index: &'a Index,
    /// Built-in functions.
    pub ports: &'a Ports,
    /// The port to take functions from, where the user chose one.
    pub port: Option<&'a str>,
}

/// Tasks, and the groups above them.
#[derive(Debug, Clone, Default)]
pub struct Suite {
    /// Each once, in the order of mention.
    pub tasks: Vec<Config>,
    /// Members before those that hold them.
    pub groups: Vec<Group>,
}

impl Library<'_> {
    /// A task, a group or a tag by its name in the index, or by the path of its file.
    ///
    /// # Errors
    ///
    /// Where a file cannot be read or understood, or needs Python that is not built in.
    pub fn load(&self, name_or_path: &str) -> Result<Suite, TaskError> {
        let mut suite = Suite::default();
        self.member(name_or_path, &Map::new(), &mut suite, 0)?;
        Ok(suite)
    }

    fn member(
        &self,
        name: &str,
        overrides: &Map<String, Value>,
        suite: &mut Suite,
        depth: usize,
    ) -> Result<Vec<String>, TaskError> {
        if depth > MAX_DEPTH {
            return Err(TaskError::new(name, "groups are nested too deep, or hold themselves"));
        }
        if let Some(tagged) = self.index.tags.get(name).filter(|_| !self.index.files.contains_key(name)) {
            let members = tagged.iter().map(|task| self.member(task, overrides, suite, depth + 1));
            return Ok(members.collect::<Result<Vec<_>, _>>()?.concat());
        }
        let known = self.index.files.get(name);
        let path = known.map_or(name, String::as_str);
        let mut map = self.file(path, &mut Vec::new()).map_err(|error| match known {
            None if error.place == name && error.hint.is_none() => {
                error.hint("no task, group or tag has this name, so it was taken for the path of a file")
            }
            _ => error,
        })?;
        if map.contains_key("group") {
            return Ok(vec![self.group(&map, path, None, overrides, suite, depth)?]);
        }
        map.extend(overrides.clone());
        Ok(vec![self.task(map, path, suite)?])
    }

    fn task(&self, map: Map<String, Value>, path: &str, suite: &mut Suite) -> Result<String, TaskError> {
        let lookup = Lookup {
            ports: self.ports,
            chosen: self.port,
            read: self.read,
            folder: config::folder(path),
            place: path,
        };
        let task = Config::new(map, &lookup)?;
        let name = task.name.clone();
        if suite.tasks.iter().all(|known| known.name != name) {
            suite.tasks.push(task);
        }
        Ok(name)
    }

    fn group(
        &self,
        map: &Map<String, Value>,
        path: &str,
        outer: Option<&str>,
        overrides: &Map<String, Value>,
        suite: &mut Suite,
        depth: usize,
    ) -> Result<String, TaskError> {
        let fault = |message: String| TaskError::new(path, message);
        let own =
            map.get("group").and_then(Value::as_str).ok_or_else(|| fault("`group` is no text".into()))?;
        let name = outer.map_or_else(|| own.to_owned(), |outer| format!("{outer}::{own}"));
        let mut below: Map<String, Value> = map
            .iter()
            .filter(|(key, _)| !STRUCTURE.contains(&key.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        below.extend(overrides.clone());
        let members = match map.get("task") {
            Some(Value::Array(list)) => list.clone(),
            Some(one @ Value::String(_)) => vec![one.clone()],
            _ => return Err(fault(format!("the group {name} has no list `task`"))),
        };
        let mut children = Vec::new();
        for member in &members {
            children.extend(match member {
                Value::String(task) => self.member(task, &below, suite, depth + 1)?,
                Value::Object(inline) => self.inline(inline, path, &name, &below, suite, depth + 1)?,
                other => {
                    return Err(fault(format!("a member of the group {name} is {other}, which is no name")));
                }
            });
        }
        if suite.groups.iter().all(|known| known.name != name) {
            let mut leaves: Vec<String> = Vec::new();
            for child in &children {
                let group = suite.groups.iter().find(|group| group.name == *child);
                leaves.extend(group.map_or_else(|| vec![child.clone()], |group| group.leaves.clone()));
            }
            suite.groups.push(Group {
                alias: map.get("group_alias").and_then(Value::as_str).unwrap_or(&name).to_owned(),
                metrics: GroupMetric::list(map.get("aggregate_metric_list")).map_err(fault)?,
                version: map.get("metadata").and_then(|m| m.get("version")).cloned().unwrap_or(Value::Null),
                name: name.clone(),
                children,
                leaves,
            });
        }
        Ok(name)
    }

    /// A member that is written out within its group.
    fn inline(
        &self,
        inline: &Map<String, Value>,
        path: &str,
        group: &str,
        below: &Map<String, Value>,
        suite: &mut Suite,
        depth: usize,
    ) -> Result<Vec<String>, TaskError> {
        if depth > MAX_DEPTH {
            return Err(TaskError::new(path, "groups are nested too deep"));
        }
        let mut overrides = below.clone();
        for include in config::texts(inline.get("include")) {
            overrides.extend(self.file(&config::join(config::folder(path), &include), &mut Vec::new())?);
        }
        overrides.extend(inline.clone());
        overrides.shift_remove("include");
        if let Some(name) = inline.get("group").and_then(Value::as_str) {
            STRUCTURE.iter().for_each(|key| drop(overrides.shift_remove(*key)));
            return match self.index.files.contains_key(name) {
                true => self.member(name, &overrides, suite, depth),
                false => Ok(vec![self.group(inline, path, Some(group), below, suite, depth)?]),
            };
        }
        let name = inline.get("task").and_then(Value::as_str).ok_or_else(|| {
            TaskError::new(path, format!("a member of the group {group} has neither `task` nor `group`"))
        })?;
        if self.index.files.contains_key(name) || self.index.tags.contains_key(name) {
            overrides.shift_remove("task");
            return self.member(name, &overrides, suite, depth);
        }
        overrides.insert("task".to_owned(), Value::String(format!("{group}::{name}")));
        Ok(vec![self.task(overrides, path, suite)?])
    }

    /// A file with what it includes; its own keys win.
    fn file(&self, path: &str, seen: &mut Vec<String>) -> Result<Map<String, Value>, TaskError> {
        if seen.iter().any(|one| one == path) || seen.len() > MAX_DEPTH * 4 {
            return Err(TaskError::new(path, "it includes itself"));
        }
        seen.push(path.to_owned());
        let text = (self.read)(path).map_err(|error| TaskError::new(path, error))?;
        let value = yaml::parse(&text).map_err(|error| TaskError::new(path, error))?;
        let Value::Object(mut own) = value else {
            return Err(TaskError::new(path, "a task file is a map of keys to values"));
        };
        let mut merged = Map::new();
        let includes = own.shift_remove("include");
        for include in config::texts(includes.as_ref()) {
            let mut included = self.file(&config::join(config::folder(path), &include), seen)?;
            included.shift_remove("task_list");
            merged.extend(included);
        }
        merged.extend(own);
        Ok(merged)
    }
}
