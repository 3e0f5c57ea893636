//! Drafts: short forms by value, flags over files, the way back from a record.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use proptest::prelude::*;
use spec::{
    Burstiness, CacheProtocol, Closed, Connections, Draft, Extent, Force, KeySource, Lengths, Limit, Load,
    MaxField, Nanos, Open, PercentileRule, Ramp, Rate, Source, Span, Spec, Target, Targets, TokenizerChoice,
    View, Warmup,
};

fn secs(s: u64) -> Span {
    Span(Nanos::from_secs(s))
}
fn draft(text: &str) -> Draft {
    Draft::from_text("bench.yaml", text).unwrap_or_else(|e| panic!("{text}\n{}", e[0]))
}
fn resolved(text: &str) -> Spec {
    draft(text).resolve().unwrap_or_else(|e| panic!("{text}\n{}", e[0]))
}
fn with_target(text: &str) -> Spec {
    resolved(&format!("target: http://h:1\n{text}"))
}

#[test]
fn every_default_is_written_out() {
    let spec = resolved("target: sim://llama-3.1-8b@h100");
    assert_eq!(spec.load, Load::Closed(Closed { concurrency: 1, think: secs(0), start_over: secs(0) }));
    assert_eq!(spec.phases.warmup, Warmup::Requests(2));
    assert_eq!(spec.phases.measure, Extent::Duration(secs(30)));
    assert_eq!(spec.phases.drain, secs(30));
    assert_eq!((&spec.workload.isl, &spec.workload.osl), (&Lengths::Fixed(512), &Lengths::Fixed(128)));
    assert_eq!(spec.workload.cache, CacheProtocol::Unique);
    assert_eq!(spec.workload.tokenizer, TokenizerChoice::Auto);
    assert!(spec.api.stream && spec.api.ask_usage && spec.api.readiness.check);
    assert_eq!(spec.api.readiness.wait, secs(10));
    assert_eq!(spec.api.length.field, MaxField::MaxTokens);
    assert_eq!(spec.api.length.force, Force::Auto);
    assert_eq!(spec.seed, 42);
    assert!((spec.slo.attain - 0.95).abs() < 1e-12);
    insta::assert_json_snapshot!(spec);
}

#[test]
fn warmup_defaults_follow_the_load() {
    for (text, want) in [
        ("load: {concurrency: 16}", Warmup::Requests(32)),
        ("load: {rate: 6}", Warmup::Duration(secs(3))),
        ("load: {rate: 6}\nphases: {measure: 10m}", Warmup::Duration(secs(10))),
        ("load: {rate: 6}\nphases: {measure: 500 requests}", Warmup::Requests(50)),
        ("load: {rate: 6}\nphases: {measure: 5000 requests}", Warmup::Requests(60)),
        ("load: {rate: inf}\nphases: {measure: 500 requests}", Warmup::None),
        ("load: {rate: 6}\nphases: {warmup: none}", Warmup::None),
        ("load: {rate: 6}\nphases: {warmup: 0s}", Warmup::None),
        ("load: {rate: 6}\nphases: {warmup: off}", Warmup::None),
    ] {
        assert_eq!(with_target(text).phases.warmup, want, "{text}");
    }
}

#[test]
fn lengths_in_every_form() {
    for (text, want) in [
        ("512", Lengths::Fixed(512)),
        ("\"512\"", Lengths::Fixed(512)),
        ("{fixed: 512}", Lengths::Fixed(512)),
        ("100..500", Lengths::Uniform { min: 100, max: 500 }),
        ("uniform(100,500)", Lengths::Uniform { min: 100, max: 500 }),
        ("{uniform: {min: 100, max: 500}}", Lengths::Uniform { min: 100, max: 500 }),
        ("normal(512,64)", Lengths::Normal { mean: 512.0, sd: 64.0, max: None }),
        ("normal(512, 64, max = 1024)", Lengths::Normal { mean: 512.0, sd: 64.0, max: Some(1024) }),
        ("lognormal(512,300,max=2048)", Lengths::LogNormal { mean: 512.0, sd: 300.0, max: Some(2048) }),
        (
            "{log-normal: {mean: 512.5, sd: 300, max: null}}",
            Lengths::LogNormal { mean: 512.5, sd: 300.0, max: None },
        ),
        ("file:lengths.txt", Lengths::File("lengths.txt".into())),
        ("{file: lengths.txt}", Lengths::File("lengths.txt".into())),
    ] {
        assert_eq!(with_target(&format!("workload:\n  isl: {text}")).workload.isl, want, "{text}");
        // A flag's text is the same text.
        if !text.starts_with(['{', '"']) {
            let mut flags = Draft::default();
            flags.set("workload.isl", text).unwrap();
            assert_eq!(flags.workload.isl, Some(want.clone()), "{text}");
            assert_eq!(want.to_string().parse::<Lengths>().unwrap(), want);
        }
    }
    let data = with_target("workload: {source: \"jsonl:x.jsonl\"}").workload;
    assert_eq!((data.isl, data.osl), (Lengths::Data, Lengths::Data));
}

#[test]
fn loads_in_every_form() {
    let open = |rate, shape, cap, ramp| {
        Load::Open(Open {
            rate: Rate::new(rate).unwrap(),
            burstiness: Burstiness::new(shape).unwrap(),
            cap,
            ramp,
        })
    };
    let ramp = Some(Ramp { from: Rate::new(1.0).unwrap(), over: secs(30) });
    for (text, want) in [
        ("load: {rate: 6/s}", open(6.0, 1.0, None, None)),
        ("load: {rate: 0.42}", open(0.42, 1.0, None, None)),
        ("load: {rate: 30/min, burstiness: inf}", open(0.5, f64::INFINITY, None, None)),
        ("load: {rate: 6, burstiness: .inf}", open(6.0, f64::INFINITY, None, None)),
        ("load: {rate: .inf}\nphases: {measure: 9 requests}", open(f64::INFINITY, 1.0, None, None)),
        (
            "load: {rate: 6/s, burstiness: 0.25, cap: 16, ramp: {from: 1/s, over: 30s}}",
            open(6.0, 0.25, Some(16), ramp.clone()),
        ),
        ("load: {rate: 6/s, ramp: \"1/s:30s\"}", open(6.0, 1.0, None, ramp)),
        (
            "load: {concurrency: 16, think: 8s}",
            Load::Closed(Closed { concurrency: 16, think: secs(8), start_over: secs(0) }),
        ),
        ("load: {rate: 6, cap: null, ramp: ~}", open(6.0, 1.0, None, None)),
    ] {
        assert_eq!(with_target(text).load, want, "{text}");
    }
}

#[test]
fn phases_in_every_form() {
    let phases =
        with_target("load: {rate: 6}\nphases: {warmup: 20 requests, measure: 500 requests, drain: 5s}")
            .phases;
    assert_eq!(phases.warmup, Warmup::Requests(20));
    assert_eq!(phases.measure, Extent::Requests(500));
    assert_eq!(phases.drain, secs(5));
    let phases = with_target("phases: {warmup: 10s, measure: {duration: 1m}}").phases;
    assert_eq!(phases.warmup, Warmup::Duration(secs(10)));
    assert_eq!(phases.measure, Extent::Duration(secs(60)));
    assert_eq!(with_target("phases: {warmup: {requests: 7}}").phases.warmup, Warmup::Requests(7));
}

#[test]
fn the_other_short_forms() {
    let spec = with_target(
        "
api:
  dialect: completions
  stream: off
  model: 7
  headers: {X-Id: 1.10}
  key: env:API_KEY
  extra_body: {top_k: 5, chat_template_kwargs: {enable_thinking: false}}
  sampling: {temperature: 0, stop: END}
  length: {field: both, force: min_tokens}
workload:
  source: sharegpt:chats.json
  cache: shared-prefix:256/4
  tokenizer: llama3
timeouts: {total: 5m, idle: off}
client: {lanes: 1, connections: prewarmed:8}
slo: [e2e<=5s, error_rate<=1%]
attain: 99%
analysis: {percentile: nearest-rank, view: user}
labels: {engine: vllm-0.33, version: 1.10, gpus: 8}
seed: 18446744073709551615
",
    );
    assert!(!spec.api.stream);
    assert_eq!(spec.api.model.as_deref(), Some("7"));
    // Texts stay as written: 1.10 is no number here.
    assert_eq!(spec.api.headers["X-Id"], "1.10");
    assert_eq!(spec.labels["version"], "1.10");
    assert_eq!(spec.api.key, Some(KeySource::Env("API_KEY".to_owned())));
    assert_eq!(spec.api.extra_body["top_k"], serde_json::json!(5));
    assert_eq!(spec.api.extra_body["chat_template_kwargs"], serde_json::json!({ "enable_thinking": false }));
    assert_eq!(spec.api.sampling.stop, ["END"]);
    assert_eq!(spec.api.sampling.temperature, Some(0.0));
    assert_eq!(spec.workload.source, Source::Sharegpt("chats.json".into()));
    assert_eq!(spec.workload.cache, CacheProtocol::SharedPrefix { tokens: 256, groups: 4 });
    assert_eq!(spec.workload.tokenizer, TokenizerChoice::Embedded("llama3".to_owned()));
    assert_eq!(spec.timeouts.total, Limit(Some(Nanos::from_secs(300))));
    assert_eq!(spec.timeouts.idle, Limit(None));
    assert_eq!(spec.client.connections, Connections::Prewarmed(8));
    assert_eq!(spec.slo.joint[0].text, "e2e<=5s");
    assert_eq!(spec.slo.marginal[0].text, "error_rate<=1%");
    assert!((spec.slo.attain - 0.99).abs() < 1e-12);
    assert_eq!(spec.analysis.percentile, PercentileRule::NearestRank);
    assert_eq!(spec.view(), View::User);
    assert_eq!(spec.seed, u64::MAX);
}

#[test]
fn short_texts_come_back_from_what_they_print() {
    fn both<T: std::str::FromStr<Err = spec::ParseError> + std::fmt::Display>(texts: &[(&str, &str)]) {
        for (text, canonical) in texts {
            let value: T = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(value.to_string(), *canonical);
            assert_eq!(value.to_string().parse::<T>().unwrap().to_string(), *canonical);
        }
    }
    both::<CacheProtocol>(&[
        ("unique", "unique"),
        ("shared-prefix:256", "shared-prefix:256/1"),
        ("shared_prefix:256/4", "shared-prefix:256/4"),
        ("repeat:10", "repeat:10"),
    ]);
    both::<TokenizerChoice>(&[
        ("auto", "auto"),
        ("none", "none"),
        ("llama3", "llama3"),
        ("models/tokenizer.json", "file:models/tokenizer.json"),
        ("file:dir", "file:dir"),
    ]);
    both::<Connections>(&[("fresh", "fresh"), ("keepalive", "keepalive"), ("prewarmed:4", "prewarmed:4")]);
    both::<Ramp>(&[("1/s:30s", "1:30s"), ("30/min:500ms", "0.5:500ms")]);
    both::<KeySource>(&[("env:KEY", "env:KEY"), ("file:/run/key", "file:/run/key")]);
    both::<Warmup>(&[
        ("none", "none"),
        ("20requests", "20 requests"),
        ("1 request", "1 requests"),
        ("10s", "10s"),
    ]);
    both::<Extent>(&[("500 requests", "500 requests"), ("2m", "2m")]);
    both::<Source>(&[("synthetic", "synthetic"), ("jsonl:a:b", "jsonl:a:b")]);
}

#[test]
fn length_lists_name_their_faulty_line() {
    assert_eq!(Lengths::parse_list("# lengths\n512\n\n 7 \r\n").unwrap(), [512, 7]);
    for (text, part) in [
        ("512\nabc\n", "line 2: `abc`"),
        ("0", "line 1: `0`"),
        ("-3", "line 1"),
        ("1.5", "line 1"),
        ("99999999999", "line 1"),
        ("", "no length"),
        ("# only\n", "no length"),
    ] {
        let message = Lengths::parse_list(text).unwrap_err().message;
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn flags_win_over_the_file() {
    let file = draft(
        "target: http://file:1\nload: {concurrency: 16, think: 8s}\nslo: [ttft<=1s]\nattain: 90%\n\
         labels: {a: file, b: file}\napi: {headers: {A: file, B: file}, model: m}\nphases: {measure: 10s}",
    );
    let mut flags = Draft::default();
    for (key, text) in [
        ("target", "http://flag:1"),
        ("load.rate", "6/s"),
        ("slo", "p99(tpot)<=50ms"),
        ("slo", "e2e<=9s"),
        ("labels.b", "flag"),
        ("labels.dotted.name", "x"),
        ("api.headers.B", "flag"),
        ("api.extra_body", "{\"top_k\": 5}"),
        ("phases.measure", "500 requests"),
        ("api.stream", "true"),
    ] {
        flags.set(key, text).unwrap_or_else(|e| panic!("{key} {text}: {e}"));
    }
    let spec = flags.over(file).resolve().unwrap();
    assert_eq!(spec.target, Target::Http("http://flag:1".to_owned()).into());
    // A rate over a file's concurrency is an open loop, without the file's think time.
    assert!(matches!(&spec.load, Load::Open(open) if open.rate == Rate::new(6.0).unwrap()));
    assert_eq!(spec.slo.joint.len(), 1);
    assert_eq!(spec.slo.joint[0].text, "e2e<=9s");
    assert_eq!(spec.slo.marginal.len(), 1);
    assert!((spec.slo.attain - 0.9).abs() < 1e-12);
    assert_eq!((spec.labels["a"].as_str(), spec.labels["b"].as_str()), ("file", "flag"));
    assert_eq!(spec.labels["dotted.name"], "x");
    assert_eq!((spec.api.headers["A"].as_str(), spec.api.headers["B"].as_str()), ("file", "flag"));
    assert_eq!(spec.api.extra_body["top_k"], serde_json::json!(5));
    assert_eq!(spec.api.model.as_deref(), Some("m"));
    assert_eq!(spec.phases.measure, Extent::Requests(500));
}

#[test]
fn a_closed_flag_drops_the_files_open_loop() {
    let file = draft("target: http://h:1\nload: {rate: 6, burstiness: 0.5, cap: 4, ramp: \"1:5s\"}");
    let mut flags = Draft::default();
    flags.set("load.concurrency", "8").unwrap();
    assert_eq!(
        flags.over(file).resolve().unwrap().load,
        Load::Closed(Closed { concurrency: 8, think: secs(0), start_over: secs(0) })
    );
}

#[test]
fn a_record_is_a_spec_file() {
    let spec = with_target("load: {rate: 2.5, burstiness: inf}\nslo: [ttft<=500ms, \"p99(tpot)<=50ms\"]");
    let record = serde_json::json!({ "schema_version": 1, "seed": 1, "spec": spec, "metrics": {} });
    let again = Draft::from_text("run.json", &serde_json::to_string_pretty(&record).unwrap()).unwrap();
    assert_eq!(again.resolve().unwrap(), spec);
    // Also written as YAML.
    let yaml = serde_saphyr::to_string(&spec).unwrap();
    assert_eq!(resolved(&yaml), spec);
}

#[test]
fn artefacts_hold_no_secret_and_cannot_be_sent_by_mistake() {
    let spec = resolved(
        "target: http://me:pw@h:1/v1?api_key=abc\n\
         api: {headers: {Authorization: Bearer sk-1, X-Id: 7}, extra_body: {apiKey: sk-2, n: 1}}\n\
         labels: {hf_token: hf-3}",
    );
    let text = serde_json::to_string(&spec.redacted()).unwrap();
    for secret in ["pw", "abc", "sk-1", "sk-2", "hf-3"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    assert!(text.contains("\"X-Id\":\"7\"") && text.contains("\"n\":1"));
    let faults = Draft::from_text("run.json", &text).unwrap().resolve().unwrap_err();
    assert_eq!(faults.len(), 3);
    assert!(faults.iter().all(|f| f.message.contains("[redacted]")));
    // A spec without secrets is not changed.
    let plain = with_target("labels: {engine: vllm}");
    assert_eq!(plain.redacted(), plain);
}

fn any_lengths() -> impl Strategy<Value = Lengths> {
    let max = || proptest::option::of(4_000u32..9_000);
    prop_oneof![
        (1u32..5_000).prop_map(Lengths::Fixed),
        (1u32..500, 500u32..900).prop_map(|(min, max)| Lengths::Uniform { min, max }),
        (1.0f64..4e3, 0.0f64..1e3, max()).prop_map(|(mean, sd, max)| Lengths::Normal { mean, sd, max }),
        (1.0f64..4e3, 0.0f64..1e3, max()).prop_map(|(mean, sd, max)| Lengths::LogNormal { mean, sd, max }),
        "[a-z]{1,8}".prop_map(|p| Lengths::File(p.into())),
    ]
}
fn any_load() -> impl Strategy<Value = Load> {
    let shape = prop_oneof![0.01f64..50.0, Just(f64::INFINITY)];
    let ramp = proptest::option::of((0.01f64..99.0, 1u64..1_000_000_000_000));
    prop_oneof![
        (1u32..5_000, 0u64..100_000_000_000).prop_map(|(concurrency, ns)| Load::Closed(Closed {
            concurrency,
            think: Span(Nanos(ns)),
            start_over: Span(Nanos(ns / 3)),
        })),
        (0.001f64..1e4, shape, proptest::option::of(1u32..999), ramp).prop_map(|(rate, shape, cap, ramp)| {
            Load::Open(Open {
                rate: Rate::new(rate).unwrap(),
                burstiness: Burstiness::new(shape).unwrap(),
                cap,
                ramp: ramp.map(|(from, ns)| Ramp { from: Rate::new(from).unwrap(), over: Span(Nanos(ns)) }),
            })
        })
    ]
}
fn any_spec() -> impl Strategy<Value = Spec> {
    let warmup = prop_oneof![
        Just(Warmup::None),
        (1u64..99).prop_map(Warmup::Requests),
        (1u64..u64::MAX / 4).prop_map(|n| Warmup::Duration(Span(Nanos(n))))
    ];
    let measure = prop_oneof![
        (1u64..99).prop_map(Extent::Requests),
        (1u64..u64::MAX / 4).prop_map(|n| Extent::Duration(Span(Nanos(n))))
    ];
    let cache = prop_oneof![
        Just(CacheProtocol::Unique),
        (1u32..99).prop_map(|prompts| CacheProtocol::Repeat { prompts })
    ];
    let tokenizer = prop_oneof![
        Just(TokenizerChoice::Auto),
        Just(TokenizerChoice::None),
        "[a-z0-9]{1,8}".prop_map(TokenizerChoice::Embedded),
        "[a-z/]{1,8}".prop_map(|p| TokenizerChoice::File(p.into()))
    ];
    let texts = proptest::collection::btree_map("[A-Za-z.-]{1,8}", "[ -~]{0,12}", 0..3);
    (
        (any_load(), warmup, measure, any_lengths(), any_lengths()),
        (cache, tokenizer, texts.clone(), texts),
        (any::<u64>(), 0.01f64..1.0, any::<bool>(), proptest::option::of("[a-z/-]{1,9}")),
        proptest::option::of(0u64..u64::MAX / 4),
    )
        .prop_map(
            |(
                (load, warmup, measure, isl, osl),
                (cache, tokenizer, headers, labels),
                (seed, attain, flag, model),
                limit,
            )| {
                let mut spec = with_target("slo: [ttft<=500ms, e2e<2s, \"p99.9(itl)<=1s\", user_tps>=3]");
                spec.load = load;
                spec.phases.warmup = warmup;
                spec.phases.measure = measure;
                spec.workload.isl = isl;
                spec.workload.osl = osl;
                spec.workload.cache = cache;
                spec.workload.tokenizer = tokenizer;
                spec.api.headers = headers;
                spec.labels = labels;
                spec.seed = seed;
                spec.slo.attain = attain;
                spec.api.readiness.check = flag;
                spec.client.kernel_stamps = !flag;
                spec.client.pin = flag;
                spec.client.realtime = flag;
                spec.client.http2 = !flag;
                match flag {
                    true => spec.client.unix = Some("/run/a b.sock".into()),
                    false => spec.client.bind = vec!["127.0.0.2".parse().unwrap(), "::1".parse().unwrap()],
                }
                if !flag && seed % 2 == 0 {
                    spec.target =
                        Targets::new(["http://h:1", "https://h:2/x"].map(|t| t.parse().unwrap())).unwrap();
                }
                spec.api.model = model;
                spec.timeouts.total = Limit(limit.map(|n| Nanos(n + 1)));
                spec.api
                    .extra_body
                    .insert("x".to_owned(), serde_json::json!([1, -2.5, null, "1", { "a": true }]));
                spec.analysis.view = flag.then_some(View::Server);
                spec
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_a_spec_prints_reads_back_as_the_same_spec(spec in any_spec()) {
        let json = serde_json::to_value(&spec).unwrap();
        prop_assert_eq!(&Draft::from_json(&json).unwrap().resolve().unwrap(), &spec);
        let text = serde_json::to_string_pretty(&spec).unwrap();
        prop_assert_eq!(&Draft::from_text("run.json", &text).unwrap().resolve().unwrap(), &spec);
        prop_assert_eq!(&serde_json::from_str::<Spec>(&text).unwrap(), &spec);
        let yaml = serde_saphyr::to_string(&spec).unwrap();
        let again = Draft::from_text("spec.yaml", &yaml).map_err(|e| TestCaseError::fail(format!("{}\n{yaml}", e[0])))?;
        prop_assert_eq!(&again.resolve().unwrap(), &spec);
    }

    #[test]
    fn lengths_print_what_they_read(lengths in any_lengths()) {
        prop_assert_eq!(lengths.to_string().parse::<Lengths>().unwrap(), lengths);
    }
}

#[test]
fn sockets_of_the_client_in_each_form() {
    let both = ["127.0.0.2", "fd00::1"].map(|a| a.parse::<std::net::IpAddr>().unwrap());
    for text in ["[127.0.0.2, \"fd00::1\"]", "\"127.0.0.2, fd00::1\"", "[\"127.0.0.2,[fd00::1]\"]"] {
        assert_eq!(with_target(&format!("client: {{bind: {text}}}")).client.bind, both, "{text}");
    }
    let mut flags = Draft::default();
    flags.set("client.bind", "127.0.0.3").unwrap();
    flags.set("client.pin", "true").unwrap();
    flags.set("client.unix", "/run/s.sock").unwrap();
    assert_eq!(flags.client.bind, Some(vec!["127.0.0.3".parse().unwrap()]));
    assert_eq!((flags.client.pin, flags.client.realtime), (Some(true), None));
    let spec = resolved("target:\n  - http://h:1\n  - http://h:2/v1");
    assert_eq!(spec.target.to_string(), "http://h:1, http://h:2");
    let spec = with_target("client: {unix: /run/s.sock, http2: on, realtime: on}");
    assert!(spec.client.http2 && spec.client.realtime && spec.client.bind.is_empty());
}

/// SDKs take the base address with `/v1`; every path here has it already.
#[test]
fn an_address_loses_what_every_path_begins_with() {
    for given in [
        "http://h:8000/v1/chat/completions",
        "http://h:8000/v1/completions",
        "http://h:8000/v1",
        "http://h:8000/v1/",
        "http://h:8000/",
        "http://h:8000",
    ] {
        assert_eq!(given.parse::<Target>().unwrap(), Target::Http("http://h:8000".to_owned()), "{given}");
    }
    assert_eq!("http://h/prefix/v1".parse::<Target>().unwrap(), Target::Http("http://h/prefix".to_owned()));
    assert!("http:///v1".parse::<Target>().is_err());
}
