//! What the real LoadGen was given and what it wrote.

use mlperf::settings::FIELDS;
use mlperf::{Mode, Scenario, TestSettings};
use serde_json::Value;

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
