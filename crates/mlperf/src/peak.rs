//! The search for the peak: which rates LoadGen tries in Server.
//!
//! The first rate must keep the latency limits; it is raised by a step until one does not; then halves are
//! taken until the bounds agree to some decimals. Only the limits count here: neither early stopping nor
//! counts nor duration, so the run at the peak may well be INVALID.

use crate::Scenario;
use crate::effective::Effective;

/// The search, told of each run in turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Peak {
    step: f64,
    scale: f64,
    next: f64,
    low: Option<f64>,
    high: Option<f64>,
    /// What LoadGen says on the way, for the detail log.
    pub notes: Vec<String>,
}

/// What comes after a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// A run at this rate, queries per second.
    Try(f64),
    /// The end: the highest rate that kept the limits.
    Found(f64),
    /// The end: the first rate did not keep them. Ask for a lower one.
    StartTooHigh,
}

impl Peak {
    /// A search from the rate that the settings ask for.
    ///
    /// # Errors
    /// What LoadGen would search without end, and every scenario but Server.
    pub fn new(effective: &Effective) -> Result<Self, String> {
        let step = effective.asked.server_find_peak_qps_boundary_step_size;
        let decimals = effective.asked.server_find_peak_qps_decimals_of_precision;
        if effective.scenario != Scenario::Server {
            return Err(format!(
                "the peak is searched in Server alone, not in {}",
                effective.scenario.name()
            ));
        }
        if !(step.is_finite() && step > 0.0) {
            return Err(format!("the step by which the rate is raised must be above 0: {step}"));
        }
        if decimals > 9 {
            return Err(format!("the rate is searched to at most 9 decimals, not to {decimals}"));
        }
        let next = effective.target_qps;
        let notes =
            vec![format!("FindPeakPerformance: Check validity of the base settings field: {next:.6}")];
        Ok(Self { step, scale: 10_f64.powi(decimals as i32), next, low: None, high: None, notes })
    }

    /// The rate of the first run.
    pub fn first(&self) -> f64 {
        self.next
    }

    /// After the run at the rate of the turn; `kept`: [`crate::Verdict::latency`] was met.
    pub fn after(&mut self, kept: bool) -> Next {
        match (kept, self.high) {
            (false, _) if self.low.is_none() => return Next::StartTooHigh,
            (true, _) => self.low = Some(self.next),
            (false, None) => {
                self.high = Some(self.next);
                let low = self.low.unwrap_or(self.next);
                self.note("FindPeakPerformance: Found boundaries: ", low, self.next, "");
            }
            (false, Some(_)) => self.high = Some(self.next),
        }
        let low = self.low.unwrap_or(self.next);
        let Some(high) = self.high else {
            self.next = low * (1.0 + self.step);
            self.note("FindBoundaries: Checking fields ", low, self.next, "");
            return Next::Try(self.next);
        };
        let cut = |rate: f64| (rate * self.scale).floor();
        let mid = low + (high - low) / 2.0;
        // Numbers so large that none lies between end it too.
        if cut(low) + 1.0 >= cut(high) || mid <= low || mid >= high {
            self.notes.push(format!("FindPeakPerformance: Found peak performance field: {low:.6}"));
            return Next::Found(low);
        }
        self.next = mid;
        let says = "FindPeakPerformanceBinarySearch: Testing the mid value of bounds ";
        self.note(says, low, high, &format!(": {mid:.6}"));
        Next::Try(mid)
    }

    fn note(&mut self, before: &str, low: f64, high: f64, after: &str) {
        self.notes.push(format!("{before}[{low:.6}, {high:.6}){after}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SampleLibrary, TestSettings};

    fn peak(start: f64, decimals: u64, step: f64) -> Result<Peak, String> {
        let asked = TestSettings {
            scenario: Scenario::Server,
            server_target_qps: start,
            server_find_peak_qps_decimals_of_precision: decimals,
            server_find_peak_qps_boundary_step_size: step,
            ..TestSettings::default()
        };
        let library = SampleLibrary { name: "d".into(), total: 4, performance: 4 };
        Peak::new(&Effective::new(&asked, &library)?)
    }

    #[test]
    fn the_peak_is_found_to_its_decimals() {
        for (holds, decimals) in [(1.0, 0), (97.3, 1), (97.3, 3), (6_400.0, 0)] {
            let mut search = peak(1.0, decimals, 1.0).expect("settings");
            let mut next = Next::Try(search.first());
            let mut runs = 0;
            while let Next::Try(rate) = next {
                next = search.after(rate <= holds);
                runs += 1;
                assert!(runs < 60);
            }
            let Next::Found(found) = next else { panic!("{next:?}") };
            let width = 10_f64.powi(-(decimals as i32));
            assert!(found <= holds && holds - found <= 2.0 * width, "{holds}: {found}");
        }
    }

    #[test]
    fn a_start_too_high_and_searches_without_end_are_refused() {
        assert_eq!(peak(5.0, 1, 1.0).expect("settings").after(false), Next::StartTooHigh);
        assert!(peak(5.0, 255, 1.0).expect_err("endless").contains("9 decimals"));
        assert!(peak(5.0, 1, 0.0).expect_err("endless").contains("above 0"));
    }
}
