//! What a self-check found: how well this machine measures. Kept for the machine, and in the header
//! of every run that is made on it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::RecordError;
use crate::folder::{Private, write_json};

/// Version of the form below; files of another version are not read.
pub const SELF_CHECK_VERSION: u32 = 1;

/// How well a machine measures. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SelfCheck {
    /// Version of this form.
    pub schema_version: u32,
    /// When it began, RFC 3339, UTC.
    pub measured: String,
    /// The machine that it holds for.
    pub machine: Machine,
    /// It was made in a shorter time, so its figures are rougher.
    pub quick: bool,
    /// What answered, and where it ran.
    pub server: String,
    /// Why this machine was too noisy to be believed, in words, one entry for each cause; empty: it was not.
    pub noise: Vec<String>,
    /// How late requests left, without handshakes, at `send_rate_per_s`; `null`: none was sent.
    pub send_lag: Option<Spread>,
    /// Open loop, Poisson; requests per second.
    pub send_rate_per_s: f64,
    /// Receive stamp of an event − the server's own moment just before it wrote it, absolute.
    pub stamp_error: ByStamp,
    /// Time to first token − the same by the server's own log, absolute: the floor of latencies.
    pub latency_error: ByStamp,
    /// Gap between two events − the same by the server's own log, absolute: the floor of gaps.
    pub gap_error: ByStamp,
    /// Processor time of the lane for each request that is answered in one piece; `null`: the system does not tell.
    pub cpu_per_request_ns: Option<f64>,
    /// Processor time of the lane for each streamed event; `null`: the system does not tell.
    pub cpu_per_event_ns: Option<f64>,
    /// Longest delay of a heartbeat while the machine had little to do; `null`: none was answered.
    pub heartbeat_max_ns: Option<u64>,
    /// Share of all cores that the hypervisor took; `null`: the system does not tell.
    pub steal_share: Option<f64>,
    /// Spells of about a second in which it took more than a run may lose.
    pub steal_spells: u64,
    /// Requests per second that one lane sent on time.
    pub rate: Ceiling,
    /// Streams that one lane heard on time, each of `tokens_per_s`.
    pub streams: Ceiling,
    /// Events per second of each stream.
    pub tokens_per_s: f64,
}

/// What makes two machines the same for a self-check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The processor as it names itself.
    pub cpu_model: String,
    /// Cores that this program may use.
    pub cores: u32,
    /// The operating system's kernel.
    pub kernel: String,
    /// This tool's version.
    pub tool_version: String,
}

/// A distribution in five figures, nanoseconds. A percentile is `null` where there are too few values for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Values.
    pub n: u64,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p99_9_ns: Option<u64>,
    /// Largest.
    pub max_ns: u64,
}

/// The same error with the kernel's receive stamps and with this program's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ByStamp {
    /// With the kernel's; `null`: it gives none here.
    pub kernel: Option<Spread>,
    /// With this program's own.
    pub user: Option<Spread>,
}

/// The largest load of a ladder that stayed within the limits of the trust checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    /// The largest load that held; 0: not even the smallest did.
    pub holds: u64,
    /// The smallest load that did not hold; `null`: none was met.
    pub fails: Option<u64>,
    /// Why the ladder ended.
    pub ended_by: EndedBy,
    /// The same in words.
    pub why: String,
}

/// Why a ladder ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// This side failed a check of a run: `holds` is its ceiling.
    Client,
    /// Other work, the server's among it, took the cores: the ceiling is at least `holds`.
    Machine,
    /// The server could not deliver any more: the ceiling is at least `holds`.
    Server,
    /// The ladder has no further rung: the ceiling is at least `holds`.
    Ladder,
}

/// What this instrument adds to a latency and to a gap, nanoseconds: the median errors of a self-check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// To a latency that has a start.
    pub latency_ns: u64,
    /// To a time between two events.
    pub gap_ns: u64,
}

impl SelfCheck {
    /// The errors of a measurement with or without kernel stamps. The median stands for the error
    /// that every request has; the tail holds the server's own preemption between its stamp and its
    /// write, which is no error of the client.
    pub fn floor(&self, kernel_stamps: bool) -> Option<Floor> {
        let of = |error: &ByStamp| if kernel_stamps { error.kernel } else { error.user }?.p50_ns;
        Some(Floor { latency_ns: of(&self.latency_error)?, gap_ns: of(&self.gap_error)? })
    }

    /// The machine was quiet enough for its figures to mean anything.
    pub fn is_quiet(&self) -> bool {
        self.noise.is_empty()
    }
}

impl Machine {
    /// From [`crate::client::facts`]. What the system does not tell is `unknown`.
    pub fn of(facts: &BTreeMap<String, String>, tool_version: &str) -> Self {
        let fact = |name: &str| facts.get(name).cloned().unwrap_or_else(|| "unknown".to_owned());
        Self {
            cpu_model: fact("cpu_model"),
            cores: facts
                .get("cores_usable")
                .or_else(|| facts.get("cores"))
                .and_then(|n| n.parse().ok())
                .unwrap_or(0),
            kernel: fact("kernel"),
            tool_version: tool_version.to_owned(),
        }
    }
}

/// Files of this name hold self-checks: `self-check-….json`.
const PREFIX: &str = "self-check";
/// A file larger than this is none of ours.
const MOST_BYTES: u64 = 1 << 20;

/// What a folder knows of a machine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Found {
    /// The newest self-check that holds for it.
    pub check: Option<SelfCheck>,
    /// The file that it is in.
    pub file: Option<PathBuf>,
    /// Files that could not be read, and why, in words.
    pub broken: Vec<String>,
    /// Self-checks of another processor, kernel or version of this tool.
    pub foreign: u64,
}

/// Keeps a self-check in a folder, in place of an earlier one of the same machine. The folder is
/// made where it is missing.
///
/// # Errors
/// The folder or the file cannot be written; an earlier file stays as it was.
pub fn keep(folder: &Path, check: &SelfCheck) -> Result<PathBuf, RecordError> {
    fs::create_dir_all(folder).map_err(RecordError::io("create", folder))?;
    let Machine { cpu_model, cores, kernel, tool_version } = &check.machine;
    let mut key = spec::seed::Fnv::default();
    key.bytes(format!("{cpu_model}\n{cores}\n{kernel}\n{tool_version}").as_bytes());
    let path = folder.join(format!("{PREFIX}-{:016x}.json", key.mixed()));
    write_json(&path, check, Private::No)?;
    Ok(path)
}

/// The newest self-check in a folder that holds for this machine. A folder that is not there knows
/// nothing; that is no fault.
pub fn find(folder: &Path, machine: &Machine) -> Found {
    let mut found = Found::default();
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let ours = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with(PREFIX) && name.ends_with(".json")
    };
    let mut files: Vec<PathBuf> = entries.filter(ours).collect();
    files.sort();
    for path in files {
        match read(&path) {
            Ok(check) if check.machine != *machine => found.foreign += 1,
            Ok(check) => {
                // Times in one form and one zone: the later one is the larger text.
                if found.check.as_ref().is_none_or(|before| before.measured < check.measured) {
                    found.check = Some(check);
                    found.file = Some(path);
                }
            }
            Err(why) => found.broken.push(format!("{}: {why}", path.display())),
        }
    }
    found
}

fn read(path: &Path) -> Result<SelfCheck, String> {
    let about = fs::metadata(path).map_err(|e| e.to_string())?;
    if !about.is_file() || about.len() > MOST_BYTES {
        return Err("it is no file that this tool writes".to_owned());
    }
    let text = fs::read_to_string(path).map_err(|e| e.to_string())?;
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    match value["schema_version"].as_u64() {
        Some(version) if version == u64::from(SELF_CHECK_VERSION) => {}
        version => return Err(format!("its form is {version:?}, this version reads {SELF_CHECK_VERSION}")),
    }
    serde_json::from_value(value).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(measured: &str, kernel: &str) -> SelfCheck {
        let ceiling =
            Ceiling { holds: 100, fails: None, ended_by: EndedBy::Ladder, why: "no further rung".to_owned() };
        SelfCheck {
            schema_version: SELF_CHECK_VERSION,
            measured: measured.to_owned(),
            machine: Machine {
                cpu_model: "X".to_owned(),
                cores: 2,
                kernel: kernel.to_owned(),
                tool_version: "0.1.0".to_owned(),
            },
            quick: true,
            server: "none".to_owned(),
            noise: Vec::new(),
            send_lag: None,
            send_rate_per_s: 1_000.0,
            stamp_error: ByStamp::default(),
            latency_error: ByStamp::default(),
            gap_error: ByStamp::default(),
            cpu_per_request_ns: None,
            cpu_per_event_ns: Some(1.5),
            heartbeat_max_ns: None,
            steal_share: None,
            steal_spells: 0,
            rate: ceiling.clone(),
            streams: ceiling,
            tokens_per_s: 50.0,
        }
    }

    #[test]
    fn the_newest_of_this_machine_is_found_and_nothing_else_is_believed() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("state");
        let machine = check("", "6.1").machine;
        assert_eq!(find(&folder, &machine), Found::default());
        let older = check("2026-11-29T00:00:00.000Z", "6.1");
        let path = keep(&folder, &older).unwrap();
        assert_eq!(find(&folder, &machine).check, Some(older));
        // One machine has one file; another kernel is another machine.
        let newer = check("2026-11-30T00:00:00.000Z", "6.1");
        assert_eq!(keep(&folder, &newer).unwrap(), path);
        keep(&folder, &check("2026-12-30T00:00:00.000Z", "6.2")).unwrap();
        fs::write(folder.join("self-check-cut.json"), "{\"schema_version\": 1, \"measured\"").unwrap();
        fs::write(folder.join("self-check-later.json"), "{\"schema_version\": 99}").unwrap();
        fs::create_dir(folder.join("self-check-folder.json")).unwrap();
        fs::write(folder.join("notes.json"), "[]").unwrap();
        let found = find(&folder, &machine);
        assert_eq!((found.check, found.foreign), (Some(newer), 1));
        assert_eq!(found.broken.len(), 3, "{:?}", found.broken);
        assert!(found.broken.iter().any(|why| why.contains("self-check-cut.json: ")));
    }

    #[test]
    fn the_floor_is_that_of_the_stamps_in_use() {
        let mut check = check("", "6.1");
        assert_eq!((check.floor(true), check.floor(false)), (None, None));
        let spread = |p50_ns| Some(Spread { n: 9, p50_ns, p99_ns: None, p99_9_ns: None, max_ns: 900 });
        check.latency_error = ByStamp { kernel: spread(Some(30)), user: spread(Some(70)) };
        check.gap_error = ByStamp { kernel: spread(None), user: spread(Some(40)) };
        assert_eq!(check.floor(true), None, "half of it is not known");
        assert_eq!(check.floor(false), Some(Floor { latency_ns: 70, gap_ns: 40 }));
    }

    #[test]
    fn a_machine_is_known_by_four_facts() {
        let facts = BTreeMap::from(
            [("cpu_model", "X"), ("cores", "8"), ("cores_usable", "2"), ("kernel", "6.1")]
                .map(|(k, v)| (k.to_owned(), v.to_owned())),
        );
        let machine = Machine::of(&facts, "0.1.0");
        assert_eq!((machine.cpu_model.as_str(), machine.cores), ("X", 2));
        assert_ne!(machine, Machine::of(&facts, "0.2.0"));
        assert_eq!(Machine::of(&BTreeMap::new(), "0.1.0").kernel, "unknown");
    }
}
