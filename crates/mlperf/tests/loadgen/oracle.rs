//! What the real LoadGen was given and what it wrote.

use mlperf::settings::FIELDS;
use mlperf::{Mode, Sample, SampleLibrary, Scenario, TestSettings};
use serde_json::Value;
use spec::Nanos;

/// The Python binding calls two fields otherwise.
pub fn python_name(field: &str) -> &str {
    match field {
        "server_ttft_latency" => "ttft_latency",
        "server_tpot_latency" => "tpot_latency",
        other => other,
    }
}

/// Settings in the words of the Python binding.
pub fn settings(asked: &Value) -> TestSettings {
    let mut settings = TestSettings::default();
    for (name, value) in asked.as_object().expect("settings") {
        match name.as_str() {
            "scenario" => {
                settings.scenario = Scenario::from_name(value.as_str().expect("a name")).expect("a scenario");
            }
            "mode" => {
                let known = Mode::ALL.into_iter().find(|mode| value == mode.name());
                settings.mode = known.expect("a mode");
            }
            _ => {
                let field = FIELDS.iter().find(|field| python_name(field.name) == name);
                field.unwrap_or_else(|| panic!("{name}")).set_json(&mut settings, value);
            }
        }
    }
    settings
}

/// One run of the real LoadGen.
pub struct Case {
    pub name: String,
    files: serde_json::Map<String, Value>,
    given: Value,
}

/// All 28 of them.
pub fn cases() -> Vec<Case> {
    let packed = include_bytes!("../data/loadgen-6.0.17-cases.json.zst");
    let text = zstd::decode_all(packed.as_slice()).expect("zstd");
    let all: Value = serde_json::from_slice(&text).expect("JSON");
    let case = |(name, files): (&String, &Value)| Case {
        name: name.clone(),
        files: files.as_object().expect("files").clone(),
        given: serde_json::from_str(files["case.json"].as_str().expect("text")).expect("JSON"),
    };
    all.as_object().expect("cases").iter().map(case).collect()
}

impl Case {
    pub fn new(name: String, files: serde_json::Map<String, Value>, given: Value) -> Self {
        Self { name, files, given }
    }

    pub fn file(&self, name: &str) -> &str {
        self.files.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn settings(&self) -> TestSettings {
        settings(&self.given["settings"])
    }

    pub fn library(&self) -> SampleLibrary {
        let count = |name: &str, other: u64| self.given[name].as_u64().unwrap_or(other);
        SampleLibrary {
            name: "PyQSL".into(),
            total: count("qsl_total", 64),
            performance: count("qsl_perf", 32),
        }
    }

    pub fn delay(&self, name: &str, other: u64) -> u64 {
        self.given["delay"][name].as_u64().unwrap_or(other)
    }

    /// What went out and came back, moments from the first query on.
    pub fn samples(&self) -> Vec<Sample> {
        let row = |line: &str| {
            let cells: Vec<Option<u64>> = line.split(',').map(|cell| cell.parse().ok()).collect();
            Sample {
                query: cells[1].expect("a query"),
                index: cells[2].expect("a sample") as u32,
                scheduled: Nanos(cells[3].expect("a moment")),
                issue_delay: Nanos(cells[4].expect("a delay")),
                latency: cells[5].map(Nanos),
                first_token: cells[6].map(Nanos),
                tokens: cells[7],
            }
        };
        self.file("samples.csv").lines().skip(1).map(row).collect()
    }
}

/// Lines of a detail log as keys and values, without those of build, dates and host.
pub fn fields(detail: &str) -> Vec<(String, Value)> {
    let other = ["test_datetime", "get_sut_name_duration_ns", "power_begin", "power_end"];
    detail
        .lines()
        .map(|line| {
            let json: Value = serde_json::from_str(line.strip_prefix(":::MLLOG ").expect(line)).expect(line);
            let key = json["key"].as_str().expect("a key").to_owned();
            // How often LoadGen's logger had to try again is chance.
            let value = if key.starts_with("logger_") { Value::Null } else { json["value"].clone() };
            (key, value)
        })
        .filter(|(key, _)| !key.starts_with("loadgen_") && !other.contains(&key.as_str()))
        .collect()
}
