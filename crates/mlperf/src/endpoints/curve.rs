//! A curve: its points, and which of the rules that its numbers decide it keeps.

use serde::Serialize;
use serde_json::{Value, json};

use super::{Point, Region, Regions, Rules};

/// How a curve shows its Offline result.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Offline {
    /// The point at the largest concurrency stands for it.
    Elected,
    /// A run of its own, with this throughput in tokens per second.
    Dedicated(f64),
}

/// A rule and whether the curve keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// As the official checker calls it.
    pub id: &'static str,
    /// Whether it is kept; `None`: not known.
    pub holds: Option<bool>,
    /// Why.
    pub words: String,
}

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// By concurrency.
    pub points: Vec<Point>,
    /// The largest concurrency, as declared.
    pub c_max: u64,
    /// How Offline is shown, if it is.
    pub offline: Option<Offline>,
}

impl Curve {
    /// Its regions: the smallest concurrency is that of its lowest point.
    ///
    /// # Errors
    /// As [`Regions::new`], or no point.
    pub fn regions(&self, rules: &Rules) -> Result<Regions, String> {
        let lowest = self.points.iter().map(|point| point.concurrency).min();
        Regions::new(rules, lowest.ok_or("a curve without a point")?, self.c_max)
    }

    /// The points that no other beats in both throughput and speed for each user, by speed.
    pub fn front(&self) -> Vec<&Point> {
        let both = |point: &Point| Some((point.total.system_tps?, point.total.tps_per_user?));
        let beaten = |of: (f64, f64)| {
            let better = |by: (f64, f64)| by.0 >= of.0 && by.1 >= of.1 && by != of;
            self.points.iter().filter_map(both).any(better)
        };
        let mut front: Vec<&Point> =
            self.points.iter().filter(|point| both(point).is_some_and(|of| !beaten(of))).collect();
        front.sort_by(|a, b| {
            a.total.tps_per_user.unwrap_or(0.0).total_cmp(&b.total.tps_per_user.unwrap_or(0.0))
        });
        front
    }

    /// The rules that the numbers decide.
    ///
    /// # Errors
    /// As [`Curve::regions`].
    pub fn rules(&self, rules: &Rules) -> Result<Vec<Rule>, String> {
        let regions = self.regions(rules)?;
        let n = self.points.len();
        let rule = |id, holds, words| Rule { id, holds, words };
        let covered = |id, region| {
            let count = self.points.iter().filter(|p| regions.of(p.concurrency).contains(&region)).count();
            rule(id, Some(count > 0), format!("{count} points there"))
        };
        let outside: Vec<String> = self
            .points
            .iter()
            .filter(|point| regions.of(point.concurrency).is_empty() && point.concurrency != regions.c_min)
            .map(|point| point.concurrency.to_string())
            .collect();
        let failed: u64 = self.points.iter().map(|point| point.total.n_samples_failed).sum();
        let short =
            self.points.iter().filter(|point| point.steady_state.status != super::Coverage::Windowable);
        let short: Vec<String> = short.map(|point| point.concurrency.to_string()).collect();
        Ok(vec![
            rule(
                "point-count",
                Some(n >= rules.min_points),
                format!("{n} points, at least {}", rules.min_points),
            ),
            rule(
                "point-cap",
                Some(n <= rules.max_points),
                format!("{n} points, at most {}", rules.max_points),
            ),
            rule("max-concurrency-declared", Some(true), format!("{}", self.c_max)),
            covered("ultra-low-concurrency-coverage", Region::UltraLow),
            covered("low-concurrency-coverage", Region::Low),
            covered("med-concurrency-coverage", Region::Medium),
            covered("high-concurrency-coverage", Region::High),
            rule(
                "concurrency-in-range",
                Some(outside.is_empty()),
                format!(
                    "out of every region: {}",
                    if outside.is_empty() { "none".into() } else { outside.join(", ") }
                ),
            ),
            rule(
                "point-duration",
                Some(short.is_empty()),
                format!(
                    "too short for a window: {}",
                    if short.is_empty() { "none".into() } else { short.join(", ") }
                ),
            ),
            rule(
                "steady-state-basis",
                None,
                "no detector has looked for a plateau: whole runs are the basis".into(),
            ),
            self.offline_rule(rules),
            rule(
                "samples-failed",
                Some(failed == 0),
                format!("{failed} failed (own rule: the official tool shows them alone)"),
            ),
        ])
    }

    fn offline_rule(&self, rules: &Rules) -> Rule {
        let at_most = self.points.iter().find(|point| point.concurrency == self.c_max);
        let tps = at_most.and_then(|point| point.total.system_tps);
        let (holds, words) = match (self.offline, tps) {
            (None, _) => (Some(false), "no Offline result".to_owned()),
            (_, None) => (Some(false), format!("no point at the largest concurrency, {}", self.c_max)),
            (Some(Offline::Elected), Some(tps)) => (Some(true), format!("elected: {tps:.1} tokens/s")),
            (Some(Offline::Dedicated(own)), Some(tps)) => {
                let least = rules.offline_share * tps;
                (Some(own >= least), format!("{own:.1} tokens/s, at least {least:.1}"))
            }
        };
        Rule { id: "offline-point-present", holds, words }
    }

    /// The curve as a machine reads it.
    ///
    /// # Errors
    /// As [`Curve::regions`].
    pub fn to_json(&self, rules: &Rules) -> Result<Value, String> {
        let regions = self.regions(rules)?;
        let front: Vec<u64> = self.front().iter().map(|point| point.concurrency).collect();
        let points: Vec<Value> = self
            .points
            .iter()
            .map(|point| {
                let mut json = json!(point);
                json["regions"] = json!(regions.of(point.concurrency));
                json
            })
            .collect();
        Ok(json!({
            "rules": {"version": rules.version, "status": rules.status, "source": rules.source, "open": rules.open},
            "regions": regions,
            "points": points,
            "front": front,
            "checks": self.rules(rules)?,
        }))
    }

    /// What `point.yaml` wants of a point, as far as a measurement knows it; the rest is the submitter's.
    pub fn point_config(&self, regions: &Regions, point: &Point, data: &str, model: &str) -> Value {
        let region = regions.of(point.concurrency).into_iter().find(|region| *region != Region::Margin);
        json!({
            "concurrency": point.concurrency,
            "region": region.map_or(json!("submitters_choice"), |region| json!(region)),
            "runtime_settings": {"load_pattern": "concurrency", "stream_all_chunks": true},
            "dataset": {"name": data},
            "model_name": model,
            "max_supported_concurrency": self.c_max,
            "steady_state": point.steady_state,
        })
    }
}
