//! What was asked for, before defaults and checks: everything optional, from files and flags.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::Targets;
use crate::error::{Excerpt, SpecError};
use crate::node::{Data, Entry, Node, Source as Text};
use crate::read::Reader;
use crate::schema;
use crate::sections::{HOMES, is_default};

pub use crate::sections::{
    AnalysisDraft, ApiDraft, ClientDraft, LengthDraft, LoadDraft, PhasesDraft, ReadinessDraft, SamplingDraft,
    SloDraft, TimeoutsDraft, TlsDraft, WorkloadDraft,
};

/// Where values stand in a file, by dotted key; `None` for a key that a flag has set since. Two
/// drafts that ask for the same are equal wherever it stood.
#[derive(Debug, Clone, Default)]
pub struct Places(pub(crate) BTreeMap<String, Option<Box<Excerpt>>>);

impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Places {
    /// The place of a key, if its value came from a file.
    pub fn of(&self, key: &str) -> Option<&Excerpt> {
        self.0.get(key)?.as_deref()
    }
}

/// What was asked for, before defaults and checks.
///
/// Read from a file with [`Draft::from_text`], filled from flags with [`Draft::set`], put together
/// with [`Draft::over`], made a spec with [`Draft::resolve`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "inferometer spec", transform = schema::top_level)]
pub struct Draft {
    /// The server that is measured, or a list of servers that share the requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Targets>,
    /// How the server is spoken to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub api: ApiDraft,
    /// What is in a request.
    #[serde(default, skip_serializing_if = "is_default")]
    pub workload: WorkloadDraft,
    /// When requests leave.
    #[serde(default, skip_serializing_if = "is_default")]
    pub load: LoadDraft,
    /// Warm-up, measurement, drain.
    #[serde(default, skip_serializing_if = "is_default")]
    pub phases: PhasesDraft,
    /// Every time limit of a request.
    #[serde(default, skip_serializing_if = "is_default")]
    pub timeouts: TimeoutsDraft,
    /// The measuring side.
    #[serde(default, skip_serializing_if = "is_default")]
    pub client: ClientDraft,
    /// The limits that the answer is judged by.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(schema_with = "schema::slo")]
    pub slo: SloDraft,
    /// How numbers are computed from the records.
    #[serde(default, skip_serializing_if = "is_default")]
    pub analysis: AnalysisDraft,
    /// Free labels that make the record comparable.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts")]
    pub labels: BTreeMap<String, String>,
    /// The one seed. Default: 42.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Where in a file the values came from, for messages.
    #[serde(skip)]
    #[schemars(skip)]
    pub places: Places,
}

impl Draft {
    /// The keys at the top of a file. `attain` beside a list of limits is `slo.attain`.
    pub const KEYS: &'static [&'static str] = &[
        "target", "api", "workload", "load", "phases", "timeouts", "client", "slo", "attain", "analysis",
        "labels", "seed",
    ];

    /// From the text of a spec file, YAML or JSON; `name` is shown in messages. A `run.json` is
    /// read too: its `spec` counts. All faults are returned, not only the first.
    pub fn from_text(name: &str, text: &str) -> Result<Draft, Vec<SpecError>> {
        let source = Text { name, text };
        let node = source.parse().map_err(|error| vec![error])?;
        Self::from_node(record_spec(&node).unwrap_or(&node), Some(source))
    }

    /// From the JSON form, as [`crate::Spec`] serialises.
    pub fn from_json(value: &Value) -> Result<Draft, Vec<SpecError>> {
        Self::from_node(&Node::from_json(value), None)
    }

    fn from_node(node: &Node, source: Option<Text<'_>>) -> Result<Draft, Vec<SpecError>> {
        let mut draft = Draft::default();
        let mut reader = Reader::new(source);
        draft.read(node, &mut reader);
        match reader.errors.is_empty() {
            true => {
                draft.places = Places(reader.places);
                Ok(draft)
            }
            false => Err(reader.errors),
        }
    }

    /// Sets one key from text, as a flag does: `set("load.rate", "6/s")`, `set("slo", "ttft<=1s")`
    /// (limits add up), `set("labels.engine", "vllm")`, `set("api.headers.X-Id", "7")`.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), SpecError> {
        // Names of headers and labels may hold dots.
        let parts: Vec<&str> = match (key.strip_prefix("api.headers."), key.strip_prefix("labels.")) {
            (Some(name), _) => vec!["api", "headers", name],
            (_, Some(name)) => vec!["labels", name],
            _ => key.split('.').collect(),
        };
        let node = parts.iter().rev().fold(Node::scalar(text), |value, key| Node {
            data: Data::Map(vec![Entry { key: (*key).to_owned(), mark: None, value }]),
            mark: None,
        });
        let mut reader = Reader::new(None);
        self.read(&node, &mut reader);
        match reader.errors.into_iter().next() {
            None => {
                self.places.0.insert(parts.join("."), None);
                Ok(())
            }
            Some(error) => Err(error),
        }
    }

    fn read(&mut self, node: &Node, cx: &mut Reader<'_>) {
        cx.each(node, |cx, key, mark, value| match key {
            "target" => cx.field(value, &mut self.target),
            "api" => self.api.read(value, cx),
            "workload" => self.workload.read(value, cx),
            "load" => self.load.read(value, cx),
            "phases" => self.phases.read(value, cx),
            "timeouts" => self.timeouts.read(value, cx),
            "client" => self.client.read(value, cx),
            "slo" => self.slo.read(value, cx),
            "attain" => cx.field(value, &mut self.slo.attain),
            "analysis" => self.analysis.read(value, cx),
            "labels" => cx.texts(value, &mut self.labels),
            "seed" => cx.field(value, &mut self.seed),
            _ => cx.unknown(mark, key, Self::KEYS, HOMES),
        });
    }

    /// This over `base`: what is given here wins. Headers, body fields and labels are merged. A
    /// load model given here replaces the base's other one, so `--rate` over a file with
    /// `concurrency` is an open loop.
    #[must_use]
    pub fn over(self, mut base: Self) -> Self {
        let (open, closed) = (self.load.rate.is_some(), self.load.concurrency.is_some());
        if open && !closed {
            base.load.concurrency = None;
            base.load.think = None;
            base.load.start_over = None;
        }
        if closed && !open {
            base.load = LoadDraft {
                concurrency: base.load.concurrency,
                think: base.load.think,
                start_over: base.load.start_over,
                ..Default::default()
            };
        }
        base.labels.extend(self.labels);
        base.places.0.extend(self.places.0);
        Self {
            target: self.target.or(base.target),
            api: self.api.over(base.api),
            workload: self.workload.over(base.workload),
            load: self.load.over(base.load),
            phases: self.phases.over(base.phases),
            timeouts: self.timeouts.over(base.timeouts),
            client: self.client.over(base.client),
            slo: self.slo.over(base.slo),
            analysis: self.analysis.over(base.analysis),
            labels: base.labels,
            seed: self.seed.or(base.seed),
            places: base.places,
        }
    }
}

/// The `spec` of a `run.json`.
fn record_spec(node: &Node) -> Option<&Node> {
    let Data::Map(entries) = &node.data else { return None };
    let get = |key: &str| entries.iter().find(|e| e.key == key).map(|e| &e.value);
    get("schema_version").and_then(|_| get("spec"))
}
