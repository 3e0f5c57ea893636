//! Was the load the one that was planned: `arrivals`, `in_flight`, `bookkeeping`.

use measure::level::{Levels, in_flight_series};
use measure::request::ended;
use record::{FailureClass, Oddity, Request, State, Stopped, TimeoutKind};
use spec::{Extent, Load, Nanos};

use crate::facts::{Facts, median};
use crate::limits;
use crate::trust::{Cap, Capped, Check, CheckId};
use crate::words::{NBSP, count, counted, number, percent, plain, time};

/// What lets more users be active.
const MORE_ACTIVE: &str =
    "use more lanes (--lanes), allow more open files (ulimit -n), or measure with fewer users (-c)";

/// A cap held it for longer than a send may be late.
fn held_by_cap(facts: &Facts, request: &Request) -> bool {
    request.admitted.is_some_and(|at| at.saturating_since(request.intended) > facts.late_limit)
}

/// Requests left as planned.
pub fn arrivals(facts: &Facts) -> Check {
    let limit = format!("{} sent by the end", percent(limits::SENT));
    let has_cap = matches!(&facts.run.header.spec.load, Load::Open(open) if open.cap.is_some());
    // Waiting at the user's own cap is by plan and the business of `in_flight`: a request is due when
    // the cap lets it go, and one that still waited at the end (it had left the pacer) was never due.
    let at_cap = |r: &Request| has_cap && r.write_begin.is_none() && r.dispatched.is_some();
    let due: Vec<&&Request> = facts.measured.iter().filter(|r| !at_cap(r)).collect();
    if due.is_empty() {
        return Check::unknown(
            CheckId::Arrivals,
            "no request was due",
            limit,
            "Measure at least one request.",
        );
    }
    // Users and bursts have no timetable: whatever was sent at all was sent as planned. How late a
    // user's next request left is the business of `send_lag`, how many were active of `in_flight`.
    let timetable = facts.has_timetable();
    let sent_by = |r: &Request, at: Nanos| {
        let at = at.max(r.admitted.unwrap_or(Nanos::ZERO));
        left(r).is_some_and(|moment| !timetable || moment <= at + facts.late_limit)
    };
    let sent = due.iter().filter(|r| sent_by(r, facts.to)).count();
    let share = sent as f64 / due.len() as f64;
    let slips = slipping(facts);
    let behind = worst_deficit(facts, &due, sent_by);
    let unsent = (due.len() - sent) as u64;
    // A limit of this machine that stood in the way says nothing of the server, however rarely.
    let own = facts.measured.iter().filter(|r| r.oddities.contains(&Oddity::OwnLimit)).count() as u64;
    let fails = own > 0
        || (share < limits::SENT && unsent >= limits::LATE_AT_LEAST)
        || behind.is_some_and(|(_, share)| share < limits::SENT)
        || slips.is_some();
    let mut figure =
        format!("{} of {} sent by the end", count(sent as u64), counted(due.len() as u64, "request"));
    if let Some(lag) = slips {
        figure.push_str(&format!("; the last quarter left {} late", time(lag.0 as f64)));
    } else if let Some((at, share)) = behind.filter(|(_, share)| *share < limits::SENT) {
        figure.push_str(&format!("; only {} in the 5{NBSP}s before {}", percent(share), time(at.0 as f64)));
    }
    if due.iter().any(|r| held_by_cap(facts, r)) {
        figure.push_str(", counted from when the cap let them go");
    }
    if own > 0 {
        figure.push_str(&format!("; no file or port was left here for {}", count(own)));
    }
    let seconds = facts.span().as_secs_f64();
    let ran_out = if own > 0 { "this machine ran out of open files (ulimit -n) or ports; " } else { "" };
    let what = if unsent == 0 {
        "The plan was not sent in time: every request left, but late".to_owned()
    } else if seconds > 0.0 {
        let ceiling = number(sent as f64 / seconds);
        format!("The plan was not sent: {ran_out}the client's ceiling is {ceiling} req/s")
    } else {
        "The plan was not sent: the run ended before all was sent".to_owned()
    };
    let less = if facts.has_timetable() { " or a lower rate (--rate)" } else { " or a less busy machine" };
    Check::judged(CheckId::Arrivals, fails, figure, limit)
        .grave(share < limits::INVALID_SENT && unsent >= limits::LATE_AT_LEAST)
        .if_failed(format!("{what}. Use more lanes (--lanes){less}."), [Cap::Withhold(Capped::Slo)])
}

/// When this side let it go: on the wire, or, where the server gave no connection, out of the pacer. A
/// server that refuses is no fault of the plan.
fn left(request: &Request) -> Option<Nanos> {
    let refused = match &request.state {
        _ if request.oddities.contains(&Oddity::OwnLimit) => false,
        State::Failed { class, .. } => matches!(class, FailureClass::Connect | FailureClass::Tls),
        State::TimedOut { limit } => *limit == TimeoutKind::Connect,
        _ => false,
    };
    match request.write_begin {
        Some(begin) => Some(lag_end(request, begin)),
        None if refused => request.dispatched,
        None => None,
    }
}

/// When it was on the wire, handshakes taken out.
fn lag_end(request: &Request, write_begin: Nanos) -> Nanos {
    let handshake: Nanos = request.connection.and_then(|c| c.waited()).unwrap_or(Nanos::ZERO);
    write_begin.saturating_since(handshake)
}

/// Median lag of the last quarter, where it exceeds the limit: the timetable slips.
fn slipping(facts: &Facts) -> Option<Nanos> {
    if !facts.has_timetable() {
        return None;
    }
    let n = facts.lags.len();
    let mut last: Vec<Nanos> = facts.lags[n - n / 4..].iter().flatten().copied().collect();
    median(&mut last).filter(|lag| *lag > facts.late_limit)
}

/// The moment and the share of the 5 s window that was furthest behind, where at least two requests
/// were behind.
fn worst_deficit(
    facts: &Facts,
    due: &[&&Request],
    sent_by: impl Fn(&Request, Nanos) -> bool,
) -> Option<(Nanos, f64)> {
    let width = limits::SENT_WINDOW.0;
    let steps = facts.span().0 / width;
    let end = |k: u64| facts.from + Nanos((k + 1) * width);
    // Wanted in each window, and of these behind at its end.
    let mut windows = vec![(0_u64, 0_u64); steps as usize];
    for request in due {
        let Some(since) = request.intended.since(facts.from) else { continue };
        let k = since.0 / width;
        if let Some((wanted, behind)) = windows.get_mut(k as usize) {
            *wanted += 1;
            *behind += u64::from(!sent_by(request, end(k)));
        }
    }
    let judged = (0..).zip(windows).filter(|(_, (_, behind))| *behind >= limits::LATE_AT_LEAST);
    judged
        .map(|(k, (wanted, behind))| (end(k), 1.0 - behind as f64 / wanted as f64))
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

/// In flight as planned.
pub fn in_flight(facts: &Facts) -> Check {
    match &facts.run.header.spec.load {
        Load::Closed(closed) => users(facts, u64::from(closed.concurrency), closed.think.0),
        Load::Open(open) => match open.cap {
            Some(cap) => capped(facts, u64::from(cap)),
            None => Check::judged(
                CheckId::InFlight,
                false,
                format!("no cap; peak {}", count(facts.measures.throughput.in_flight_peak)),
                "none without a cap",
            ),
        },
    }
}

/// Time-weighted mean of requests on the wire in the span of the measurement.
fn mean_in_flight(facts: &Facts) -> Option<f64> {
    let span = facts.span().0;
    (span > 0).then(|| overlap(facts.run.requests.iter(), facts.from, facts.to) as f64 / span as f64)
}

/// Σ overlap of `[write_begin, closed]` with the span, in nanoseconds.
fn overlap<'a>(requests: impl Iterator<Item = &'a Request>, from: Nanos, to: Nanos) -> u128 {
    requests
        .filter_map(|r| {
            let (start, end) = flight(r)?;
            Some(u128::from(end.min(to).saturating_since(start.max(from)).0))
        })
        .sum()
}

/// From first byte to the end of the attempt.
fn flight(request: &Request) -> Option<(Nanos, Nanos)> {
    let start = request.write_begin?;
    Some((start, ended(request)?.max(start)))
}

/// Closed loop: the users were really active.
fn users(facts: &Facts, users: u64, think: Nanos) -> Check {
    let limit = format!("at least {} of the plan", percent(limits::IN_FLIGHT));
    let unknown = |why: &str| {
        Check::unknown(CheckId::InFlight, why, limit.clone(), "Let every user send at least a few requests.")
    };
    let sent = facts.measured.len() as u64;
    if matches!(facts.run.header.spec.phases.measure, Extent::Requests(n) if n < users) && sent > 0 {
        return Check::judged(
            CheckId::InFlight,
            true,
            format!("{} for {}", counted(sent, "request"), counted(users, "user")),
            limit,
        )
        .if_failed(
            format!(
                "Fewer requests than users: never were so many of them in flight. Ask for at least {} requests (-n), or fewer users (-c).",
                count(users.saturating_mul(4))
            ),
            [Cap::Flag(Capped::Throughput), Cap::Withhold(Capped::Slo)],
        );
    }
    let Some(mean) = mean_in_flight(facts) else {
        // Every user sent once, all at one moment: only the peak can tell.
        let expected = users.min(facts.measured.len() as u64);
        if expected == 0 {
            return unknown("no request was sent");
        }
        let peak = facts.measures.throughput.in_flight_peak.min(expected);
        let (check, share) = active(peak as f64, expected as f64, limit);
        return check
            .if_failed(
                format!("Not every user was really active: {MORE_ACTIVE}."),
                [Cap::Withhold(Capped::Slo)],
            )
            .grave(share < limits::INVALID_IN_FLIGHT);
    };
    // A user who thinks is not in flight: by plan it is so for e2e of every e2e + think.
    let expected = if think.0 == 0 {
        users as f64
    } else {
        let mut busy: Vec<u64> =
            facts.measured.iter().filter_map(|r| flight(r)).map(|(s, e)| e.0 - s.0).collect();
        if busy.is_empty() {
            return unknown("no request was sent");
        }
        busy.sort_unstable();
        let mean = busy.iter().map(|b| *b as f64).sum::<f64>() / busy.len() as f64;
        users as f64 * mean / (mean + think.0 as f64)
    };
    if expected <= 0.0 {
        return unknown("no user is active by plan");
    }
    let (mut check, share) = active(mean, expected, limit);
    if check.failed() {
        let active = (mean / expected * users as f64).round() as u64;
        // Requests that fail at once leave their users idle: the server's doing, which `failures` and every limit count.
        let (why, caps) = if facts.not_ok() as f64 > (1.0 - limits::IN_FLIGHT) * sent as f64 {
            ("requests that failed left the rest without one, see failures", Cap::Flag(Capped::Throughput))
        } else {
            (MORE_ACTIVE, Cap::Withhold(Capped::Slo))
        };
        check = check.if_failed(
            format!("Only {} of {} were really active: {why}.", count(active), counted(users, "user")),
            [caps],
        );
        if matches!(caps, Cap::Flag(_)) {
            return check;
        }
    }
    check.grave(share < limits::INVALID_IN_FLIGHT)
}

/// Judges the mean in flight against the plan.
pub fn active(mean: f64, expected: f64, limit: String) -> (Check, f64) {
    let share = mean / expected;
    let figure = format!(
        "mean {} of {} ({})",
        number(mean),
        plain((expected * 10.0).round() / 10.0),
        percent(share.min(1.0))
    );
    (Check::judged(CheckId::InFlight, share < limits::IN_FLIGHT, figure, limit), share)
}

/// Open loop with a cap: few requests waited at it.
fn capped(facts: &Facts, cap: u64) -> Check {
    let limit = format!("at most {} delayed by the cap", percent(limits::DELAYED_BY_CAP));
    let offered = facts.measured.len();
    if offered == 0 {
        return Check::unknown(CheckId::InFlight, "no request", limit, "Measure at least one request.");
    }
    let delayed = facts.measured.iter().filter(|r| held_by_cap(facts, r) || r.write_begin.is_none()).count();
    let share = delayed as f64 / offered as f64;
    Check::judged(
        CheckId::InFlight,
        share > limits::DELAYED_BY_CAP,
        format!(
            "{} of {} delayed by the cap of {}",
            count(delayed as u64),
            counted(offered as u64, "request"),
            count(cap)
        ),
        limit,
    )
    .if_failed(
        format!(
            "Requests waited at the cap of {}: raise it (--cap), or read the completed rate as what it lets through.",
            count(cap)
        ),
        [],
    )
}

/// The books balance: two ways of counting what was in flight, and no request missing.
pub fn bookkeeping(facts: &Facts) -> Check {
    let limit = format!("integrals within {}, no request missing", percent(limits::BOOKS));
    let missing = missing_rows(facts).max(facts.run.footer.lost);
    let tail = matches!(facts.run.footer.stopped, Stopped::Killed | Stopped::WriteError);
    let offered = facts.measured.len().max(1) as f64;
    if missing > 0 {
        let figure = format!("{} missing from the journal", counted(missing, "request"));
        // A killed run loses what was open at that moment, a full disk what came after; any other hole is a
        // fault. Those lost may be those that never ended: many of them leave nothing to conclude from the rest.
        let lost = missing as f64 / (offered + missing as f64);
        let note = tail.then(|| "they were open, or not yet written, when the journal ended".to_owned());
        return Check::judged(CheckId::Bookkeeping, !tail || lost > limits::LOST, figure, limit)
            .with_note(note)
            .grave(!tail || lost > limits::LOST_GRAVE)
            .if_failed(
                "Requests are missing from the journal: measure again, or analyse only what ended before the gap.",
                [Cap::Flag(Capped::Latencies), Cap::Flag(Capped::Throughput), Cap::Withhold(Capped::Slo)],
            );
    }
    let levels = in_flight_series(&facts.run.requests);
    let direct = overlap(facts.run.requests.iter(), facts.from, facts.to) as f64;
    let swept = levels.mean(facts.from, facts.to).unwrap_or(0.0) * facts.span().0 as f64;
    let off = if direct > 0.0 { (swept / direct - 1.0).abs() } else { swept };
    let sampled = sampled(facts, &levels);
    // The lanes also counted what was open when a run was killed: no record can agree with that.
    let sampled_off = !tail
        && sampled.is_some_and(|(seen, own)| {
            (seen - own).abs() > limits::SAMPLED_ABS.max(limits::SAMPLED_SHARE * own)
        });
    let mut figure = match sampled {
        Some((seen, own)) => {
            format!("in flight {} by the lanes, {} by the records", number(seen), number(own))
        }
        None => "every request is in the journal".to_owned(),
    };
    let little = facts.measures.little.ok();
    if let Some(little) = little {
        figure.push_str(&format!(
            "; Little's law {} of {} ± {}",
            number(little.lambda_w),
            number(little.in_flight),
            percent(little.tolerance)
        ));
    }
    // Latencies end with the last output, being in flight with the end of the body.
    let note = little.filter(|l| (l.lambda_w / l.in_flight - 1.0).abs() > l.tolerance).map(|_| {
        "beyond Little's tolerance: requests stayed open after their last output, or did not end well"
            .to_owned()
    });
    Check::judged(CheckId::Bookkeeping, off > limits::BOOKS || sampled_off, figure, limit).with_note(note).if_failed(
        "Two counts of the requests in flight disagree: this is a fault of the instrument; keep the run folder and report it.",
        [Cap::Flag(Capped::Throughput)],
    )
}

/// Mean in flight at the lanes' sampling moments: by their counters and by the records.
fn sampled(facts: &Facts, levels: &Levels) -> Option<(f64, f64)> {
    let inside: Vec<_> = facts.run.lanes.iter().filter(|s| s.to >= facts.from && s.to <= facts.to).collect();
    let lanes = inside.iter().map(|s| s.lane).collect::<std::collections::BTreeSet<_>>().len();
    let per_lane = inside.len() as f64 / lanes.max(1) as f64;
    // Fewer samples say nothing about a mean, and a lane that stood still did not count.
    if per_lane < 8.0 || inside.iter().any(|s| s.heartbeat_max > limits::STALL) {
        return None;
    }
    let seen = inside.iter().map(|s| f64::from(s.in_flight)).sum::<f64>() / per_lane;
    let own = inside.iter().map(|s| levels.at(s.to) as f64).sum::<f64>() / inside.len() as f64;
    Some((seen, own))
}

/// Rows that the journal should hold between the first and the last measured request.
fn missing_rows(facts: &Facts) -> u64 {
    let first = facts.measured.iter().map(|r| r.seq).min();
    let last = facts.measured.iter().map(|r| r.seq).max();
    let (Some(first), Some(last)) = (first, last) else { return 0 };
    // In a closed loop, users who drew their next request when the time was up leave the last
    // places of the plan open.
    let last = match &facts.run.header.spec.load {
        Load::Closed(closed) => last.saturating_sub(u64::from(closed.concurrency)).max(first),
        Load::Open(_) => last,
    };
    let present = facts.run.requests.iter().filter(|r| r.seq >= first && r.seq <= last).count() as u64;
    (last - first + 1).saturating_sub(present)
}
