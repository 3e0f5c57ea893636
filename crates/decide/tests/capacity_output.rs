//! The machine output of a search for capacity: its schema and its contract.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::healthy_open;
use decide::capacity::{
    CapacityAnswer, Criterion, Fleet, Happened, Over, Sensitivity, Settings, Simulated, VirtualRunner, What,
    changes, search, search_tiers,
};
use decide::json::{CapacityDocument, capacity_schema};
use spec::{Burstiness, Nanos, Slo, Tier};

/// One server, 20 ms for each.
#[derive(Default)]
struct Single {
    free: Nanos,
    due: std::collections::VecDeque<(Nanos, u64)>,
    next_id: u64,
}

impl Simulated for Single {
    fn submit(&mut self, now: Nanos, _: u32, _: u32) -> u64 {
        self.free = self.free.max(now) + Nanos::from_millis(20);
        self.due.push_back((self.free, self.next_id));
        self.next_id += 1;
        self.next_id - 1
    }
    fn next_event(&self) -> Option<Nanos> {
        self.due.front().map(|d| d.0)
    }
    fn advance(&mut self, to: Nanos, out: &mut Vec<Happened>) {
        while let Some((at, request)) = self.due.front().copied().filter(|d| d.0 <= to) {
            self.due.pop_front();
            out.push(Happened { request, at, what: What::Tokens(1) });
            out.push(Happened { request, at, what: What::Finished });
        }
    }
}

fn answer(limit: &str, max_load: Option<f64>) -> CapacityAnswer {
    let slo = Slo { marginal: vec![limit.parse().unwrap()], ..Slo::default() };
    let criteria = Criterion::of(&slo, Nanos::from_secs(60)).unwrap();
    let over = Over::Rate { burstiness: Burstiness::new(1.0).unwrap() };
    let settings = Settings { max_load, ..Settings::new(over, criteria, 1) };
    let mut runner = VirtualRunner::new(|_, _| Box::<Single>::default() as Box<dyn Simulated>, |_, _| (1, 1));
    search(&settings, &mut runner, &mut |_| {})
}

fn output(answer: &CapacityAnswer) -> serde_json::Value {
    let header = healthy_open(6.0, 30).header;
    CapacityDocument::new(answer, None, &header.spec, &header.environment).to_json()
}

fn schema_path() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/capacity.schema.json")
}

#[test]
fn the_committed_schema_of_a_search_is_the_generated_one() {
    let generated = format!("{}\n", serde_json::to_string_pretty(&capacity_schema()).unwrap());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(schema_path(), &generated).unwrap();
    }
    let committed = std::fs::read_to_string(schema_path()).unwrap_or_default();
    assert!(committed == generated, "docs/capacity.schema.json is stale: run this test with UPDATE_SCHEMA=1");
}

#[test]
fn every_answer_fits_the_schema() {
    let validator = jsonschema::validator_for(&capacity_schema()).unwrap();
    for (limit, most) in
        [("p95(ttft)<=200ms", None), ("p95(ttft)<=10ms", None), ("p95(ttft)<=200ms", Some(20.0))]
    {
        let out = output(&answer(limit, most));
        let errors: Vec<String> =
            validator.iter_errors(&out).map(|e| format!("{e} at {}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }
    let mut broken = output(&answer("p95(ttft)<=10ms", None));
    broken["answer"]["verdict"] = "perhaps".into();
    assert!(!validator.is_valid(&broken));
}

/// Two tiers and a table of sensitivity.
fn with_tiers() -> CapacityDocument {
    let texts = ["standard: ttft<=200ms, attain 95%", "fast: p90(ttft)<=100ms", "never: p95(ttft)<=10ms"];
    let tiers = Tier::read_all(&texts.map(str::to_owned), None).unwrap();
    let over = Over::Rate { burstiness: Burstiness::POISSON };
    let criteria = |slo: &Slo| Criterion::of(slo, Nanos::from_secs(60)).unwrap();
    let settings: Vec<Settings> = tiers.iter().map(|t| Settings::new(over, criteria(&t.slo), 1)).collect();
    let mut runner = VirtualRunner::new(|_, _| Box::<Single>::default() as Box<dyn Simulated>, |_, _| (1, 1));
    let answers = search_tiers(&settings, &mut runner, &mut |_, _| {});
    let names: Vec<Option<String>> = tiers.iter().map(|tier| Some(tier.name.clone())).collect();
    let (all, notes) = changes(over, true);
    let changed: Vec<_> = all.into_iter().map(|change| (change, answers.clone())).collect();
    let sensitivity = Some(Sensitivity::new(over, &names, &answers, &changed, notes));
    let fleet = |answer: &CapacityAnswer| Fleet::of(answer, Some(8), Some(900.0));
    let parts: Vec<_> =
        tiers.into_iter().zip(answers).map(|(tier, a)| (tier, a.clone(), fleet(&a))).collect();
    let header = healthy_open(6.0, 30).header;
    let document = CapacityDocument::of_tiers(&parts, &header.spec, &header.environment).unwrap();
    CapacityDocument { sensitivity, ..document }
}

#[test]
fn tiers_stand_beside_each_other_and_the_least_of_them_on_top() {
    let document = with_tiers();
    let out = document.to_json();
    let validator = jsonschema::validator_for(&capacity_schema()).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&out).map(|e| format!("{e} at {}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let names: Vec<&str> = document.tiers.iter().map(|tier| tier.name.as_str()).collect();
    assert_eq!(names, ["standard", "fast", "never"]);
    // What cannot be met holds nothing, which is least.
    assert_eq!((document.tier.as_deref(), &out["answer"]["verdict"]), (Some("never"), &"unmet".into()));
    assert_eq!(document.verdict.exit_code, 1);
    assert!(document.verdict.answer.starts_with("standard: With Poisson"), "{}", document.verdict.answer);
    let low = |tier: usize| document.tiers[tier].answer.low.unwrap().0;
    assert!(low(0) < 42.43 && low(0) > low(1), "{} {}", low(0), low(1));
    assert_eq!(document.tiers[1].fleet.unwrap().servers_high, Some((900.0 / low(1)).ceil() as u64));
    // Each is told as if it had been searched alone.
    let each = document.each();
    assert_eq!(each.len(), 3);
    assert!(
        each.iter().zip(&document.tiers).all(|(one, tier)| one.spec.slo == tier.slo && one.tiers.is_empty())
    );
    assert!(each[0].probes.iter().all(|probe| probe.limits.len() == 1));
    assert_eq!(document.sensitivity.unwrap().rows.len(), 5 * 3);
}

#[test]
fn the_answer_stands_where_the_contract_says() {
    let out = output(&answer("p95(ttft)<=200ms", None));
    let a = &out["answer"];
    assert_eq!(a["over"], "rate");
    assert_eq!(a["verdict"], "resolved");
    assert_eq!(a["limited_by"], "p95(ttft)<=200ms");
    assert_eq!(a["confidence"], 0.95);
    let number = |key: &str| a[key].as_f64().unwrap();
    assert!(number("low") < 42.43 && 42.43 < number("high") && number("low") <= number("value"));
    // 95 % of what is offered is good at the crossing.
    assert!((number("goodput_per_s") / number("value") - 0.95).abs() < 0.01, "{a}");
    assert_eq!(out["probes"][0]["kind"], "main");
    assert_eq!(out["verdict"]["exit_code"], 0);
    let said = out["verdict"]["answer"].as_str().unwrap();
    assert!(said.starts_with("With Poisson arrivals this server holds 4"), "{said}");
    assert!(said.contains("95 % confidence) with p95(ttft)<=200ms; goodput there 40"), "{said}");

    let unmet = output(&answer("p95(ttft)<=10ms", None));
    assert_eq!(unmet["answer"]["verdict"], "unmet");
    assert!(unmet["answer"]["value"].is_null() && unmet["answer"]["low"].is_null());
    assert_eq!(unmet["verdict"]["exit_code"], 1);

    let capped = output(&answer("p95(ttft)<=200ms", Some(20.0)));
    assert_eq!(capped["answer"]["verdict"], "not_reached");
    assert_eq!(capped["answer"]["low"], 20);
    assert!(capped["answer"]["high"].is_null());
}
