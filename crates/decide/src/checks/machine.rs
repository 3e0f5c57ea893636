//! The machine and the lanes: `machine`, `lane_busy`, `lane_stall`, `client_lag`, `coalesced`.

use record::LaneSample;
use spec::{Load, Metric, Nanos};

use crate::facts::{Facts, quantile};
use crate::limits;
use crate::trust::{Cap, Capped, Check, CheckId};
use crate::windows::{LimitedWindows, Slice, is_p99_beyond, lane_shares, machine_slices, median_gap};
use crate::words::{NBSP, count, counted, percent, time};

/// Metrics of gaps, which reads in bundles spoil where only this program's own stamps exist.
const GAPS: [Metric; 3] = [Metric::Itl, Metric::Icl, Metric::MaxGap];

/// Gaps flagged when stamps are this program's own; nothing with kernel stamps.
fn gap_caps(facts: &Facts) -> Vec<Cap> {
    if facts.kernel_stamped {
        return Vec::new();
    }
    GAPS.iter().map(|m| Cap::Flag(Capped::Metric(*m))).collect()
}

/// The machine had CPU to spare.
pub fn machine(facts: &Facts) -> Check {
    let limit = format!(
        "others below {}, steal below {} of all cores, in {} of seconds",
        percent(limits::OTHERS),
        percent(limits::STEAL),
        percent(1.0 - limits::MACHINE_WINDOWS)
    );
    let slices = machine_slices(facts);
    if slices.is_empty() {
        return Check::unknown(
            CheckId::Machine,
            "the machine was not observed",
            limit,
            "CPU use is read from /proc: run on Linux, for at least two seconds.",
        );
    }
    let n = slices.len() as f64;
    let bad = slices.iter().filter(|s| s.fails()).count();
    let mean = |f: fn(&Slice) -> f64| slices.iter().map(f).sum::<f64>() / n;
    let starved = slices.iter().filter(|s| s.starved()).count();
    let mut figure =
        format!("others {}, steal {} of all cores", percent(mean(|s| s.others)), percent(mean(|s| s.steal)));
    if starved > 0 {
        figure.push_str(&format!("; lanes waited for a core in {} of seconds", percent(starved as f64 / n)));
    }
    if bad > 0 {
        figure.push_str(&format!(
            "; beyond a limit in {} of {}",
            count(bad as u64),
            counted(n as u64, "second")
        ));
    }
    let cores = facts.run.machine.last().map_or(1, |m| m.cores);
    figure.push_str(&format!(" ({})", counted(u64::from(cores), "core")));
    let fails = bad as f64 / n > limits::MACHINE_WINDOWS;
    let note = (fails && facts.unknown_local_target())
        .then(|| "the server may be this work: it runs here, and its share is not known".to_owned());
    Check::judged(CheckId::Machine, fails, figure, limit).with_note(note).if_failed(
        "Other work took the CPU: run the client alone or on another machine.",
        [Cap::Flag(Capped::Latencies)],
    )
}

/// The busiest lane in the busiest window, as a share of its core; `None` where lanes were not observed.
pub fn busiest_share(facts: &Facts) -> Option<f64> {
    lane_shares(facts).into_iter().flatten().reduce(f64::max)
}

/// Lanes were not the bottleneck.
pub fn lane_busy(facts: &Facts) -> Check {
    let limit =
        format!("{} in {} of seconds", percent(limits::LANE_BUSY), percent(1.0 - limits::LANE_BUSY_WINDOWS));
    let shares = lane_shares(facts);
    let seen: Vec<f64> = shares.iter().filter_map(|row| row.iter().copied().reduce(f64::max)).collect();
    if seen.is_empty() {
        return Check::unknown(
            CheckId::LaneBusy,
            "the lanes were not observed",
            limit,
            "Let the measurement last at least one second.",
        );
    }
    let over = seen.iter().filter(|share| **share > limits::LANE_BUSY).count();
    let busiest = busiest_share(facts).unwrap_or_default();
    Check::judged(
        CheckId::LaneBusy,
        over as f64 / seen.len() as f64 > limits::LANE_BUSY_WINDOWS,
        format!("busiest second {}", percent(busiest)),
        limit,
    )
    .if_failed(
        "A sending thread was near its limit: use more lanes (--lanes), a faster machine, or less load.",
        gap_caps(facts),
    )
}

/// No sending thread stood still.
pub fn lane_stall(facts: &Facts, bound_caps: &[Cap]) -> Check {
    let allowed = facts.stall_limit();
    let limit = time(allowed.0 as f64);
    let seen: Vec<&LaneSample> = facts
        .run
        .lanes
        .iter()
        .filter(|s| s.heartbeats > 0 && s.to > facts.from && s.from < facts.to)
        .collect();
    let Some(worst) = seen.iter().map(|s| s.heartbeat_max).max() else {
        return Check::unknown(
            CheckId::LaneStall,
            "no heartbeat was recorded",
            limit,
            "Let the measurement last at least one second.",
        );
    };
    let stood = seen.iter().filter(|s| s.heartbeat_max > allowed).count() as u64;
    let times = if stood > 1 { format!(", {} samples above the limit", count(stood)) } else { String::new() };
    let figure = format!("longest delay {}{times}", time(worst.0 as f64));
    if worst <= allowed && allowed > limits::STALL_BLIND {
        return Check::unknown(
            CheckId::LaneStall,
            format!("{figure}; a stop of 50{NBSP}ms could not be told from this machine's own delays"),
            limit,
            "This machine delays threads by itself, as its self-check shows: use a quieter one, then repeat `inferometer self-check`.",
        );
    }
    // Users of a closed loop wait for their lane: what it missed is no lack of the server's.
    let still: Nanos = seen.iter().map(|s| s.heartbeat_max).filter(|delay| *delay > allowed).sum();
    let closed = matches!(facts.run.header.spec.load, Load::Closed(_));
    let slowed = closed && still.0 as f64 > limits::STALLED_LOOP * facts.span().0 as f64;
    let loop_caps = [Cap::Flag(Capped::Throughput), Cap::Withhold(Capped::Slo)];
    Check::judged(CheckId::LaneStall, worst > allowed, figure, limit)
    .if_failed(
        format!(
            "A sending thread stood still for {}: stop what else runs here, or give the client cores of its own (taskset).",
            time(worst.0 as f64)
        ),
        bound_caps.iter().copied().chain(loop_caps.into_iter().filter(|_| slowed)),
    )
}

/// The program saw bytes soon after the kernel; where the kernel gives no stamp, the error that its
/// own stamps may have.
pub fn client_lag(facts: &Facts, limited: &LimitedWindows) -> Check {
    let limit = format!(
        "p99 {} in {} of seconds",
        time(limits::CLIENT_LAG.0 as f64),
        percent(1.0 - limits::CLIENT_LAG_WINDOWS)
    );
    let chunks = || facts.measured.iter().flat_map(|r| &r.chunks);
    if !chunks().any(|c| c.kernel) {
        let bounds = chunks().map(|c| c.seen.saturating_since(c.earliest)).collect();
        return without_kernel(facts, bounds, limit);
    }
    let judged: Vec<_> = limited.heard.iter().filter(|heard| heard.stamped > 0).collect();
    let windows = judged.len().max(1) as f64;
    let over = judged.iter().filter(|heard| is_p99_beyond(heard.late, heard.stamped)).count();
    // Of many reads it is computed already; a list of its own would take half of a run's memory.
    let known = facts.measures.metrics.get(&Metric::ClientLag).and_then(|m| m.percentile(0.99)?.value());
    let p99 = known.unwrap_or_else(|| {
        let mut few: Vec<Nanos> =
            chunks().filter(|c| c.kernel).map(|c| c.seen.saturating_since(c.arrival)).collect();
        quantile(&mut few, 0.99).unwrap_or_default().0 as f64
    });
    let closed = matches!(facts.run.header.spec.load, Load::Closed(_));
    let fails = over as f64 / windows > limits::CLIENT_LAG_WINDOWS;
    let note = (fails && closed)
        .then(|| "in a closed loop the next request of a user leaves late by this lag".to_owned());
    let mut figure = format!("p99 {}", time(p99));
    if over > 0 {
        figure.push_str(&format!(
            "; later in {} of {}",
            count(over as u64),
            counted(windows as u64, "second")
        ));
    }
    Check::judged(CheckId::ClientLag, fails, figure, limit).with_note(note).if_failed(
        "This program saw its data late: kernel stamps keep latencies true, but the machine is busy. Stop what else runs here.",
        gap_caps(facts),
    )
}

/// Without kernel stamps: fails when gaps may be wrong by more than the bound, else unknown.
fn without_kernel(facts: &Facts, mut bounds: Vec<Nanos>, limit: String) -> Check {
    let advice =
        "Receive times are this program's own: run where the kernel stamps packets (plain TCP on Linux).";
    let Some(p99) = quantile(&mut bounds, 0.99) else {
        return Check::unknown(CheckId::ClientLag, "nothing was received", limit, advice);
    };
    let gap = median_gap(facts);
    let allowed = gap.map_or(0.0, |g| g.0 as f64 * limits::BOUND_FLAG).max(limits::BOUND_MIN.0 as f64);
    let figure = format!("no kernel stamp; p99 of the possible error {}", time(p99.0 as f64));
    if p99.0 as f64 > allowed {
        return Check::judged(CheckId::ClientLag, true, figure, time(allowed))
            .if_failed(advice, gap_caps(facts));
    }
    Check::unknown(CheckId::ClientLag, figure, limit, advice)
}

/// Output events came in reads of their own.
pub fn coalesced(facts: &Facts) -> Check {
    let limit = format!("at most {} of reads", percent(limits::COALESCED));
    let (mut reads, mut bundles) = (0_u64, 0_u64);
    for request in facts.measured.iter().filter(|r| r.streamed) {
        for (_, place) in request.chunks.within_reads() {
            reads += u64::from(place == 1);
            bundles += u64::from(place == 2);
        }
    }
    if reads == 0 {
        return Check::unknown(
            CheckId::Coalesced,
            "not streamed",
            limit,
            "Gaps between tokens exist only in streams.",
        );
    }
    let share = bundles as f64 / reads as f64;
    let fails = share > limits::COALESCED;
    let note = fails.then(|| {
        let lag = facts.measures.metrics.get(&Metric::ClientLag).and_then(|m| m.percentile(0.99)?.value());
        let ours = match (lag, median_gap(facts)) {
            (Some(lag), Some(gap)) => lag > gap.0 as f64 / 2.0,
            _ => false,
        };
        let side = if ours { "by this program's delay" } else { "by the server or the path" };
        format!("the events were joined {side}")
    });
    let figure = format!("{} of {}{NBSP}reads hold several events", percent(share), count(reads));
    Check::judged(CheckId::Coalesced, fails, figure, limit).with_note(note).if_failed(
        "Tokens were read in bundles: gaps between tokens are not observable here.",
        gap_caps(facts),
    )
}
