//! When requests leave: never early, hardly late, at the asked rate, by the asked law, and never held back by answers.

use crate::harness::{only_run, percentile, run};
use crate::sends::{INSTANT, Ramp, critical, distance_from_exponential, lateness, measured, worst_rate};
use crate::truth::{Attempt, best_of_three};

/// T1, T2, T3: 500 requests a second for 10 s.
#[test]
fn five_hundred_a_second_leave_on_time() {
    let args = [INSTANT, "--rate", "500", "-d", "10s", "--warmup", "none", "--isl", "16", "--osl", "1"];
    best_of_three("pacing", || {
        let folder = tempfile::tempdir().expect("a folder");
        let ran = run(folder.path(), &args);
        let run = record::read(&only_run(folder.path())).expect("the journal");
        let requests = measured(&run);
        let late = lateness(&requests);
        assert!(late.iter().all(|late| *late >= 0.0), "a request left early");
        let [p50, p99] = [0.5, 0.99].map(|p| percentile(&mut late.clone(), p) / 1e3);
        let rate = worst_rate(&requests);
        let third = late.len() / 3;
        let middle = |part: &[f64]| percentile(&mut part.to_vec(), 0.5) / 1e3;
        let drift = middle(&late[2 * third..]) - middle(&late[..third]);
        Attempt {
            disturbed: ran.is_disturbed(),
            good: p50 <= 100.0 && p99 <= 3_000.0 && rate <= 0.005 && drift.abs() <= 50.0,
            figures: format!(
                "late p50 {p50}, p99 {p99} us; sent/planned off by {rate} in 5 s; drift {drift} us"
            ),
        }
    });
}

/// T4: the gaps between real sends are exponential: at least 8 of 10 seeds pass Kolmogorov's test at 1 %.
#[test]
fn real_gaps_follow_the_asked_law() {
    const RATE: f64 = 300.0;
    let mut passed = 0;
    let mut distances = Vec::new();
    for seed in 1..=10 {
        let seed = seed.to_string();
        let args = [INSTANT, "--rate", "300", "-n", "500", "--warmup", "none", "--isl", "16", "--osl", "1"];
        let args: Vec<&str> = args.into_iter().chain(["--seed", &seed]).collect();
        let folder = tempfile::tempdir().expect("a folder");
        let ran = run(folder.path(), &args);
        let run = record::read(&only_run(folder.path())).expect("the journal");
        let (distance, n) = distance_from_exponential(&measured(&run), RATE);
        // The critical value at 1 %; a run that other work disturbed proves nothing.
        passed += u32::from(distance <= critical(n) || ran.is_disturbed());
        distances.push(distance);
    }
    assert!(passed >= 8, "{passed} of 10: {distances:?}");
}

/// T10: the server stands still for 1.4 s; those who came meanwhile waited for the rest of it, each one. Uniform
/// arrivals make the ramp: the share of requests that waited longer than x is rate · (pause − x) / all.
#[test]
fn a_pause_of_the_server_is_felt_by_everyone_who_came_meanwhile() {
    best_of_three("the ramp of a pause", || {
        let ramp = Ramp::measure();
        // The pause itself, then the ramp: the slope of waiting is that of the arrivals, plus what the engine took to
        // catch up, which its log has.
        let far = |(_, ours, truth): &(f64, f64, f64)| (ours - truth).abs() > (0.02 * truth).max(0.002);
        let waited = |(share, ours, _): &(f64, f64, f64)| *ours >= ramp.stood - (1.0 - share) * 6.0 - 0.05;
        let good = !ramp.points.iter().any(far) && ramp.points.iter().all(waited) && ramp.middle <= 0.05;
        Attempt { disturbed: ramp.disturbed, good, figures: format!("{ramp:?}") }
    });
}
