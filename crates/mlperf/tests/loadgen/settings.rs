//! What LoadGen's `FromConfig` yields for 16 models in 4 scenarios.

use mlperf::conf::{Conf, Files, Kind, Origin, resolve};
use mlperf::settings::FIELDS;
use mlperf::{Draws, Effective, Round, SampleLibrary, Scenario, TestSettings};
use serde_json::Value;

use crate::oracle;

fn data() -> Value {
    serde_json::from_str(include_str!("../data/loadgen-6.0.17-fromconfig.json")).expect("JSON")
}

fn user(text: &str) -> Conf {
    Conf::parse("user.conf", Kind::User, text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn files(user: &Conf) -> Files<'_> {
    Files { user: Some(user), ..Files::default() }
}

#[test]
fn defaults_are_loadgens() {
    let data = data();
    for field in FIELDS {
        let theirs = &data["defaults"][oracle::python_name(field.name)];
        // The one field without a default there.
        if field.name == "token_latency_scaling_factor" {
            continue;
        }
        let mut settings = TestSettings::default();
        field.set_json(&mut settings, theirs);
        assert!(!theirs.is_null(), "{}", field.name);
        assert_eq!((field.get)(&settings), (field.get)(&TestSettings::default()), "{}", field.name);
    }
}

#[test]
fn effective_settings_are_loadgens_for_every_model_and_scenario() {
    let data = data();
    let conf = user(data["user_conf"].as_str().expect("text"));
    let cases = data["diff_from_defaults"].as_object().expect("cases");
    assert_eq!(cases.len(), 64);
    for (name, changed) in cases {
        let (model, scenario) = name.rsplit_once('.').expect("model.scenario");
        let scenario = Scenario::from_name(scenario).expect("a scenario");
        let ours = resolve(model, scenario, None, files(&conf)).expect("resolved");
        let mut theirs = TestSettings { scenario, ..TestSettings::default() };
        for field in FIELDS {
            let value = &changed[oracle::python_name(field.name)];
            // Not in the binding of every build: what the conf file says is the truth.
            if field.name == "token_latency_scaling_factor" {
                theirs.token_latency_scaling_factor = if model == "gptj" { 69 } else { 0 };
            } else if !value.is_null() {
                field.set_json(&mut theirs, value);
            }
        }
        assert_eq!(ours.settings, theirs, "{name}");
    }
}

/// Over `user.conf` flags, in place of what is compiled in a file.
#[test]
fn flags_and_another_official_file() {
    let conf = user("*.Server.target_qps = 3\n*.*.min_query_count = 5\n");
    let official = Conf::parse("mlperf.conf", Kind::Official, "*.*.schedule_rng_seed = 7\n").expect("reads");
    let flags = [Conf::of_flag("--target-qps", Scenario::Server, "target_qps", "12.5").expect("reads")];
    let all = Files { official: Some(&official), flags: &flags, ..files(&conf) };
    let got = resolve("*", Scenario::Server, None, all).expect("resolved");
    let settings = &got.settings;
    assert_eq!((settings.server_target_qps, settings.min_query_count), (12.5, 5));
    assert_eq!((settings.schedule_rng_seed, settings.min_duration_ms), (7, 10_000));
    let origin =
        |field: &str| got.rows.iter().find(|row| row.field == field).map(|row| row.origin.to_string());
    assert_eq!(origin("server_target_qps").as_deref(), Some("--target-qps, *.Server.target_qps"));
    assert_eq!(origin("schedule_rng_seed").as_deref(), Some("mlperf.conf:1, *.*.schedule_rng_seed"));
    let error =
        Conf::of_flag("--target-qps", Scenario::SingleStream, "target_qps", "1").expect_err("no such");
    assert!(error.to_string().contains("--target-qps: `target_qps` is read under Server and Offline alone"));
}

#[test]
fn each_value_names_its_source() {
    let text =
        "\nllama2-70b.Server.target_qps = 12.5\n*.*.min_duration = 700000\n*.Server.min_duration = 650000\n";
    let conf = user(text);
    let audit = Conf::parse("audit.config", Kind::Audit, "*.*.min_query_count = 100\n").expect("reads");
    let round = Round::named("v6.0").expect("known");
    let got =
        resolve("llama2-70b", Scenario::Server, Some(round), Files { audit: Some(&audit), ..files(&conf) })
            .expect("resolved");
    let origin = |field: &str| {
        got.rows.iter().find(|row| row.field == field).map(|row| row.origin.to_string()).expect("a row")
    };
    assert_eq!(origin("server_target_qps"), "user.conf:2, llama2-70b.Server.target_qps");
    // For every model of this scenario comes before for every scenario.
    assert_eq!(got.settings.min_duration_ms, 650_000);
    assert_eq!(origin("min_duration_ms"), "user.conf:4, *.Server.min_duration");
    assert_eq!(origin("min_query_count"), "audit.config:1, *.*.min_query_count");
    assert_eq!(
        origin("server_ttft_latency"),
        "mlperf.conf of LoadGen 6.0.17, llama2-70b.Server.ttft_latency"
    );
    assert_eq!(origin("schedule_rng_seed"), "seeds of v6.0");
    assert_eq!(got.settings.qsl_rng_seed, 2_465_351_861_681_999_779);
    assert!(got.rows.iter().any(|row| row.origin == Origin::Default));
    assert_eq!(
        got.notes,
        [
            "user.conf:3: `*.*.min_duration` changes nothing: a line that comes first in LoadGen's order says otherwise"
        ]
    );
}

#[test]
fn what_changes_nothing_is_said() {
    let conf = user("*.Server.ttft_latency = 5\n*.Server.target_duration = 1\n");
    let notes = resolve("bert", Scenario::Server, None, files(&conf)).expect("resolved").notes;
    assert!(notes[0].contains("its switch"), "{notes:?}");
    assert!(notes[1].contains("no code of LoadGen reads it"), "{notes:?}");
    let notes = resolve("lama2-70b", Scenario::Server, None, Files::default()).expect("resolved").notes;
    assert!(notes[0].contains("did you mean `llama2-70b`"), "{notes:?}");
    let error = resolve("bert", Scenario::Server, None, files(&user("brt.Server.target_qps = 1")));
    assert!(
        error
            .expect_err("unknown")
            .to_string()
            .contains("user.conf:1: no model `brt` (did you mean `bert`?)")
    );
}

/// Whatever stands in a conf file, there are settings, or words on what is wrong with which line.
#[test]
fn no_conf_file_brings_the_parser_down() {
    let parts = [
        "*",
        ".",
        "Server",
        "Offline",
        "target_qps",
        "min_duration",
        "mode",
        "=",
        " ",
        "\n",
        "#",
        "9",
        "-",
        "é",
        "0x",
        "\t",
    ];
    let library = SampleLibrary { name: "d".into(), total: 10, performance: 10 };
    let mut draws = Draws::new(11);
    for _ in 0..3000 {
        let text: String =
            (0..draws.below(14)).map(|_| parts[draws.below(parts.len() as u32) as usize]).collect();
        if let Ok(conf) = Conf::parse("user.conf", Kind::User, &text)
            && let Ok(got) = resolve("bert", Scenario::Server, None, files(&conf))
        {
            let _ = Effective::new(&got.settings, &library);
        }
    }
}
