//! From what one server holds to how many are needed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::{CapacityAnswer, Verdict};
use super::words::figure;

/// Servers like this one, for a demand and by accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fleet {
    /// Accelerators behind the server.
    pub accelerators: Option<u32>,
    /// Requests per second that each of them holds; `null`: their number, or the rate, is not known.
    pub per_accelerator: Option<f64>,
    /// What has to be served, requests per second.
    pub demand_per_s: Option<f64>,
    /// Servers for it if each holds the upper end of the bracket; `null`: no upper end is known.
    pub servers_low: Option<u64>,
    /// Servers for it if each holds the lower end; `null`: no lower end is known.
    pub servers_high: Option<u64>,
}

impl Fleet {
    /// `None`: neither accelerators nor a demand were named. Servers are told where a rate was searched:
    /// users are no demand per second.
    pub fn of(answer: &CapacityAnswer, accelerators: Option<u32>, demand_per_s: Option<f64>) -> Option<Self> {
        if accelerators.is_none() && demand_per_s.is_none() {
            return None;
        }
        let is_rate = answer.over == "rate";
        let servers = |holds: Option<f64>| {
            // Of a server that holds no load, no number would do.
            let is_held = is_rate && answer.verdict != Verdict::Unmet;
            let holds = holds.filter(|holds| is_held && *holds > 0.0)?;
            Some((demand_per_s? / holds).ceil() as u64)
        };
        let count = accelerators.filter(|count| *count > 0 && is_rate);
        Some(Self {
            accelerators,
            per_accelerator: answer.value.zip(count).map(|(value, count)| value / f64::from(count)),
            demand_per_s,
            servers_low: servers(answer.high),
            servers_high: servers(answer.low),
        })
    }

    /// `5.1 req/s per accelerator; for 900 req/s: 22–24 servers`.
    pub fn words(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(each) = self.per_accelerator {
            parts.push(format!("{} req/s per accelerator", figure(each)));
        }
        if let Some(demand) = self.demand_per_s {
            let servers = match (self.servers_low, self.servers_high) {
                (Some(1), Some(1)) => "one server".to_owned(),
                (Some(low), Some(high)) if low == high => format!("{low} servers"),
                (Some(low), Some(high)) => format!("{low}–{high} servers"),
                (None, Some(high)) => format!("at most {high} servers"),
                (Some(low), None) => format!("at least {low} servers"),
                (None, None) => "the number of servers is not known".to_owned(),
            };
            parts.push(format!("for {} req/s: {servers}", figure(demand)));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(low: Option<f64>, high: Option<f64>) -> CapacityAnswer {
        CapacityAnswer {
            over: "rate".to_owned(),
            value: Some(40.96),
            low,
            high,
            confidence: 0.95,
            verdict: Verdict::Resolved,
            limited_by: None,
            goodput_per_s: None,
            sentence: String::new(),
            needs: None,
            notes: Vec::new(),
            requests: 0,
            duration_ns: 0,
            unloaded_ttft_ns: None,
            ramp: Vec::new(),
            curves: Vec::new(),
            probes: Vec::new(),
        }
    }

    fn fleet(low: Option<f64>, high: Option<f64>, demand: f64) -> Fleet {
        Fleet::of(&answer(low, high), Some(8), Some(demand)).expect("both are named")
    }

    #[test]
    fn servers_are_the_demand_over_the_ends_of_the_bracket() {
        // 900 / 43 = 20.9, 900 / 38 = 23.7.
        let both = fleet(Some(38.0), Some(43.0), 900.0);
        assert_eq!((both.servers_low, both.servers_high), (Some(21), Some(24)));
        assert_eq!(both.words().as_deref(), Some("5.12 req/s per accelerator; for 900 req/s: 21–24 servers"));
        // Exactly as much as one holds needs one.
        assert_eq!(fleet(Some(38.0), Some(43.0), 38.0).servers_high, Some(1));
        let least = fleet(Some(38.0), None, 900.0);
        assert_eq!((least.servers_low, least.servers_high), (None, Some(24)));
        let unmet = CapacityAnswer { verdict: Verdict::Unmet, ..answer(None, Some(5.0)) };
        let unmet = Fleet::of(&unmet, None, Some(900.0)).expect("a demand is named");
        assert_eq!((unmet.servers_low, unmet.servers_high), (None, None), "no number of servers would do");
        let none = fleet(None, None, 900.0);
        assert!(none.words().is_some_and(|words| words.contains("not known")));
    }
}
