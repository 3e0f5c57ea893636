//! Did the server stay the same during the run: `overload`, `steady`, `stalls`.

use measure::Undefined;
use measure::request::e2e;
use measure::stalls::stalls as find_stalls;
use measure::steady::{growth_span, is_overload, median_e2e, queue_growth, steadiness};
use spec::{Load, Nanos, View};

use crate::facts::{Facts, median};
use crate::limits;
use crate::trust::{Cap, Capped, Check, CheckId};
use crate::words::{NBSP, count, counted, fixed, number, percent, plain, time};

/// The queue did not grow during the whole run. Says nothing of a plan that was not sent in time.
pub fn overload(facts: &Facts, sent_in_time: bool) -> Check {
    let limit = format!(
        "growth {} of the offered load (below 50{NBSP}s {})",
        percent(limits::OVERLOAD_LONG_GROWTH),
        percent(limits::OVERLOAD_SHORT_GROWTH)
    );
    let cap = match &facts.run.header.spec.load {
        Load::Closed(_) => {
            return Check::judged(CheckId::Overload, false, "a closed loop cannot be overloaded", limit);
        }
        Load::Open(open) => open.cap,
    };
    if facts.is_burst() {
        return Check::unknown(
            CheckId::Overload,
            "all requests at once: there is no rate to hold",
            limit,
            "Use a finite rate (--rate 10) to see whether the server holds it.",
        );
    }
    // What left late and in clumps grew on this side; the server was never offered the rate.
    if !sent_in_time {
        return Check::unknown(
            CheckId::Overload,
            "the plan was not sent in time: the server was offered another load",
            limit,
            "Whether the server holds this rate shows only once this side can send it.",
        );
    }
    let (from, to) = growth_span(facts.run);
    let span = to.saturating_since(from);
    let e2e = usual_e2e(facts);
    // A third of the run at most is left out as its start, so this gives a span that is long enough.
    let seconds = (6.0 * e2e.as_secs_f64()).max(limits::OVERLOAD_SHORTEST.as_secs_f64() * 1.6).ceil();
    let longer = format!("Measure for at least {}{NBSP}s (--duration).", plain(seconds));
    if span < limits::OVERLOAD_SHORTEST || span.0 < 4 * e2e.0 {
        let figure = format!("{} are too short to tell", time(span.0 as f64));
        return Check::unknown(CheckId::Overload, figure, limit, longer);
    }
    let Ok(growth) = queue_growth(facts.run) else {
        return Check::unknown(CheckId::Overload, "nothing arrived", limit, longer);
    };
    let figure =
        format!("growth {} of the offered load, z {}", percent(growth.share.max(0.0)), fixed(growth.z, 1));
    let fails = is_overload(&growth, span);
    let (share, z) = limits::OVERLOAD_UNCLEAR;
    if !fails && growth.share > share && growth.z > z {
        return Check::unknown(
            CheckId::Overload,
            format!("{figure}: too near to tell"),
            limit,
            "Measure longer (--duration): growth this small shows only in time.",
        );
    }
    let advice = match cap {
        None => "The queue grew during the whole run: this rate is above what the server holds. Lower --rate until it no longer grows.".to_owned(),
        Some(cap) => format!(
            "The queue at the cap grew during the whole run: this rate is above what the server holds with {} in flight. Raise --cap or lower --rate.",
            count(u64::from(cap))
        ),
    };
    Check::judged(CheckId::Overload, fails, figure, limit).if_failed(
        advice,
        // Latencies and what limits read of them depend on how long one looks; counts, failures among
        // them, do not. What remains of a missed limit: `slo::withhold`.
        [Cap::Withhold(Capped::Latencies), Cap::Flag(Capped::Throughput)],
    )
}

/// Median end-to-end latency that a plateau is awaited for: the smaller of that of all requests and
/// that of the first quarter, since under overload it is the growth itself that makes it long.
fn usual_e2e(facts: &Facts) -> Nanos {
    let mut early: Vec<Nanos> = facts.measured[..facts.measured.len() / 4]
        .iter()
        .filter(|r| r.state.is_ok())
        .filter_map(|r| e2e(r, View::Server).ok())
        .collect();
    let all = median_e2e(facts.run);
    median(&mut early).map_or(all, |early| early.min(all))
}

/// Speed did not change during the run.
pub fn steady(facts: &Facts) -> Check {
    let limit =
        format!("no step of {} or trend of {}", percent(limits::STEP_SHARE), percent(limits::TREND_SHARE));
    let found = match steadiness(&facts.run.requests, facts.from, facts.to) {
        Ok(found) => found,
        Err(reason) => {
            let why = match reason {
                Undefined::TooFewSamples { .. } if facts.streamed() => "too short to judge steadiness",
                _ if !facts.streamed() => "not streamed",
                _ => "too short to judge steadiness",
            };
            return Check::unknown(
                CheckId::Steady,
                why,
                limit,
                "Stream tokens for at least ten seconds of measurement (--duration 10s).",
            );
        }
    };
    let change = found.whole;
    let by_step = change.step.exp_m1();
    let by_trend = change.trend.exp_m1();
    // A step names its moment; a trend is what is left when no step explains the change.
    let step_rules = change.step_t * by_step.abs() >= change.trend_t * by_trend.abs();
    let size = if step_rules { by_step } else { by_trend };
    let sign = if size < 0.0 { "faster" } else { "slower" };
    if !change.fails() {
        let figure = format!("largest step {}, trend {}", percent(by_step.abs()), percent(by_trend.abs()));
        return Check::judged(CheckId::Steady, false, figure, limit);
    }
    let at = time(found.at.saturating_since(facts.from).0 as f64);
    let figure = if step_rules {
        format!("tokens came {} {sign} from {at} on", percent(size.abs()))
    } else {
        format!("tokens became {} {sign} over the run", percent(size.abs()))
    };
    let note = match found.steady_from {
        Some(from) => Some(format!("steady from {} on", time(from.saturating_since(facts.from).0 as f64))),
        None => Some("no steady state".to_owned()),
    };
    Check::judged(CheckId::Steady, true, figure, limit).with_note(note).if_failed(
        format!(
            "Speed changed by {} at {at}: lengthen the warm-up (--warmup) or find the cause, then measure again.",
            percent(size.abs())
        ),
        [Cap::Flag(Capped::Latencies)],
    )
}

/// All streams paused together: worth knowing, never a failure, since it is the server's own doing.
pub fn stalls(facts: &Facts) -> Check {
    let limit = "none: the server may pause";
    let Some(found) = find_stalls(&facts.run.requests, facts.from, facts.to) else {
        return Check::unknown(
            CheckId::Stalls,
            "never two streams at once",
            limit,
            "Two or more streams at once show pauses that strike all of them.",
        );
    };
    // A pause during which a lane stood still may be this side's.
    let own = |pause: &(Nanos, Nanos)| {
        facts.run.lanes.iter().any(|s| s.heartbeat_max > limits::STALL && s.from < pause.1 && pause.0 < s.to)
    };
    let clean = found.pauses.iter().filter(|p| !own(p)).count();
    let longest = found.pauses.iter().map(|(a, b)| b.saturating_since(*a).0).max().unwrap_or(0);
    let figure = match found.pauses.len() as u64 {
        0 => "no common pause".to_owned(),
        n => format!("{}, longest {}", counted(n, "common pause"), time(longest as f64)),
    };
    let note = (found.notable() && clean >= limits::SILENCES).then(|| {
        let mean_length = found.share * facts.span().0 as f64 / found.pauses.len() as f64;
        match found.spacing_mean {
            Some(spacing) if found.periodic() => format!(
                "All streams paused together every {} for {}: look for collection or compaction.",
                time(spacing.0 as f64),
                time(mean_length)
            ),
            _ => format!(
                "All streams paused together {} times, for {} of the time: look for collection or compaction.",
                count(found.pauses.len() as u64),
                number(found.share * 100.0) + "\u{a0}%"
            ),
        }
    });
    Check::judged(CheckId::Stalls, false, figure, limit).with_note(note)
}
