//! Which runs a sweep makes, and in which order.

use decide::sweep::Order;
use serde::{Deserialize, Serialize};
use spec::seed::derived;
use spec::{Loads, Spec};

use crate::cli::{SweepLoadArgs, SweepOrder};

/// More runs than anybody waits for: a slip of the pen.
pub const MOST_RUNS: usize = 1000;

/// What is asked of a sweep beside the spec of its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Every load, in the order given.
    pub loads: Loads,
    /// Runs of each.
    pub repeats: u32,
    /// Their order.
    pub order: Order,
    /// Accelerators behind the server.
    pub accelerators: Option<u32>,
}

impl Settings {
    /// From the flags; `of_target`: the accelerators that the target itself names.
    pub fn new(loads: Loads, args: &SweepLoadArgs, of_target: Option<u32>) -> Self {
        Self {
            loads,
            repeats: args.repeats.unwrap_or(1),
            order: match args.order {
                Some(SweepOrder::AsGiven) => Order::AsGiven,
                Some(SweepOrder::Shuffled) | None => Order::Shuffled,
            },
            accelerators: args.accelerators.or(of_target),
        }
    }

    /// How many in all.
    pub fn runs(&self) -> usize {
        self.loads.len().saturating_mul(self.repeats as usize)
    }

    /// The loads as numbers.
    pub fn numbers(&self) -> Vec<f64> {
        match &self.loads {
            Loads::Concurrency(users) => users.iter().copied().map(f64::from).collect(),
            Loads::Rate(rates) => rates.clone(),
        }
    }

    /// For each run the place of its load in the list: every load once, then once again.
    pub fn order(&self, seed: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.repeats).flat_map(|_| 0..self.loads.len()).collect();
        if self.order == Order::Shuffled {
            // Fisher and Yates, from the end.
            for last in (1..order.len()).rev() {
                let path = format!("inferometer/sweep/1/order/{last}");
                let other = derived(seed, path.as_bytes()) % (last as u64 + 1);
                order.swap(last, other as usize);
            }
        }
        order
    }

    /// The flags that would measure the same again, beside those of a run.
    pub fn flags(&self, spec: &Spec) -> String {
        let list = |numbers: Vec<String>| numbers.join(",");
        let loads = match &self.loads {
            Loads::Concurrency(users) => {
                format!("--concurrency {}", list(users.iter().map(u32::to_string).collect()))
            }
            Loads::Rate(rates) => format!("--rate {}", list(rates.iter().map(f64::to_string).collect())),
        };
        let mut text =
            format!("'{}' {loads} --isl {} --osl {}", spec.target, spec.workload.isl, spec.workload.osl);
        for (_, limit) in spec.slo.limits() {
            text.push_str(&format!(" --slo '{limit}'"));
        }
        if self.repeats > 1 {
            text.push_str(&format!(" --repeats {}", self.repeats));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(order: Order) -> Settings {
        Settings { loads: Loads::concurrency("1,2,4..64").unwrap(), repeats: 3, order, accelerators: None }
    }

    #[test]
    fn every_load_has_its_repeats_in_either_order() {
        let given = settings(Order::AsGiven).order(7);
        assert_eq!(&given[..8], &[0, 1, 2, 3, 4, 5, 6, 0]);
        for seed in 0..50 {
            let mut shuffled = settings(Order::Shuffled).order(seed);
            assert_eq!(shuffled, settings(Order::Shuffled).order(seed), "the same seed, the same order");
            assert_ne!(shuffled, given);
            shuffled.sort_unstable();
            let counts: Vec<usize> =
                (0..7).map(|load| shuffled.iter().filter(|l| **l == load).count()).collect();
            assert_eq!(counts, [3; 7]);
        }
    }

    /// Each load comes first about as often as any other.
    #[test]
    fn the_first_place_is_dealt_evenly() {
        let mut first = [0_u32; 7];
        for seed in 0..7_000 {
            first[settings(Order::Shuffled).order(seed)[0]] += 1;
        }
        // 1,000 ± 29 each: five standard deviations.
        assert!(first.iter().all(|n| (850..1150).contains(n)), "{first:?}");
    }
}
