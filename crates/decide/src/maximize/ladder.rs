//! Ever larger loads, until the throughput grows no more: where no limits are searched, or a survey
//! needs to know how large loads are.

use super::bench::{Bench, Care};
use super::peak::{Top, rungs, top};
use crate::capacity::{Halt, Kind, Over};

/// The largest closed loop that is tried.
const MAX_USERS: f64 = 4096.0;
/// Of a stage: enough to see whether it gives more than the one before.
const CARE: Care = Care { least: 40, most: 400, error: 0.02 };
/// Rates that are tried around the ceiling of a closed loop, as shares of it. Behind a queue without
/// end throughput says nothing new, so the last is not far beyond it.
const RATES: [f64; 5] = [0.5, 0.75, 0.95, 1.2, 1.6];
const RATE_CARE: Care = Care { least: 300, most: 1500, error: 0.01 };

/// What a ladder of users showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Climbed {
    /// The largest throughput of requests, per second.
    pub requests_per_s: f64,
    /// Users of the last stage.
    pub users: f64,
    /// It ended at the largest load that may be tried.
    pub capped: bool,
    /// The client spoilt its last stage.
    pub client: bool,
}

/// Climbs 1, 2, 4, … users, after one stage to warm up, until `enough` or until the throughput of
/// requests grows no more.
pub(super) fn users(bench: &mut Bench<'_>, enough: &dyn Fn(&Bench<'_>) -> bool) -> Result<Climbed, Halt> {
    let is_rate = matches!(bench.settings.over, Over::Rate { .. });
    let most = if is_rate {
        MAX_USERS
    } else {
        bench.settings.max_load.map_or(MAX_USERS, |m| m.clamp(1.0, MAX_USERS))
    };
    bench.closed(Kind::Warm, 1, CARE)?;
    let mut climbed = Climbed { requests_per_s: 0.0, users: 1.0, capped: false, client: false };
    let mut stages = Vec::new();
    loop {
        let users = climbed.users;
        let mut stage = match is_rate {
            true => bench.closed(Kind::Ramp, users as u32, CARE)?,
            false => bench.throughput(Kind::Ramp, users, CARE)?,
        };
        climbed.client = stage.client_limited.is_some();
        if climbed.client || bench.out_of_time() {
            return Ok(climbed);
        }
        climbed.requests_per_s = climbed.requests_per_s.max(stage.requests_per_s.unwrap_or(0.0));
        // By users and requests, whatever is searched.
        (stage.load, stage.per_s) = (Some(users), stage.requests_per_s);
        stages.push(stage);
        if enough(bench) || matches!(top(&rungs(stages.iter())), Top::Peak { .. } | Top::Level { .. }) {
            return Ok(climbed);
        }
        if users >= most {
            climbed.capped = true;
            return Ok(climbed);
        }
        climbed.users = (2.0 * users).min(most);
    }
}

/// The throughput over the load, up to where it grows no more.
pub(super) fn whole(bench: &mut Bench<'_>) -> Result<Climbed, Halt> {
    let mut climbed = users(bench, &|_| false)?;
    if !matches!(bench.settings.over, Over::Rate { .. }) || climbed.client || climbed.requests_per_s <= 0.0 {
        return Ok(climbed);
    }
    for share in RATES {
        let wanted = share * climbed.requests_per_s;
        if bench.out_of_time() {
            break;
        }
        let point = bench.throughput(Kind::Ramp, wanted, RATE_CARE)?;
        climbed.client = point.client_limited.is_some();
        climbed.capped = bench.settings.max_load.is_some_and(|most| most <= wanted);
        if climbed.client || climbed.capped {
            break;
        }
    }
    Ok(climbed)
}
