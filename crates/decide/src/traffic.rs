//! Connections and targets in words.

use measure::{Connections, TargetShare};

use crate::instrument::spread_words;
use crate::words::{count, counted};

/// `8 opened (8 ahead), used again by 92 requests; connect p50 …, p99 …; TLS …`. `None`: nothing
/// opened one.
pub fn connection_words(c: &Connections) -> Option<String> {
    if c.opened == 0 {
        return None;
    }
    let ahead =
        if c.ahead > 0 { format!(" ({} ahead of the first request)", count(c.ahead)) } else { String::new() };
    let mut words =
        format!("{} opened{ahead}, used again by {}", count(c.opened), counted(c.reused, "request"));
    if c.stale > 0 {
        words.push_str(&format!(", {} found closed", count(c.stale)));
    }
    for (name, times) in [("connect", &c.connect), ("TLS", &c.tls)] {
        if let Ok(times) = times {
            words.push_str(&format!("; {name} {}", spread_words(times)));
        }
    }
    Some(words)
}

/// `50 requests: 49 ok, 1 failed, …; 1,600 output tokens`.
pub fn target_words(share: &TargetShare) -> String {
    let c = &share.counts;
    let others = [("failed", c.failed), ("timed out", c.timed_out), ("cut", c.cancelled), ("shed", c.shed)];
    let others: String =
        others.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!(", {} {name}", count(*n))).collect();
    format!(
        "{}: {} ok{others}; {}",
        counted(c.offered, "request"),
        count(c.ok),
        counted(share.output_tokens, "output token")
    )
}

#[cfg(test)]
mod tests {
    use measure::Undefined;
    use record::Spread;

    use super::*;

    #[test]
    fn connections_and_targets_as_people_say_it() {
        let none = Err(Undefined::NotApplicable);
        let mut c = Connections { opened: 0, ahead: 0, reused: 0, stale: 0, connect: none, tls: none };
        assert_eq!(connection_words(&c), None);
        let times = Spread { n: 8, p50_ns: Some(100_000), p99_ns: None, p99_9_ns: None, max_ns: 2_000_000 };
        c = Connections { opened: 8, ahead: 8, reused: 1_092, stale: 1, connect: Ok(times), tls: none };
        let words = connection_words(&c).unwrap().replace('\u{a0}', " ");
        let wanted = "8 opened (8 ahead of the first request), used again by 1,092 requests, 1 found closed; connect p50";
        assert!(words.starts_with(wanted) && !words.contains("TLS"), "{words}");
        let counts = measure::Counts { offered: 50, ok: 49, failed: 1, ..Default::default() };
        let share = TargetShare { target: "http://a".to_owned(), counts, output_tokens: 1_600 };
        assert_eq!(
            target_words(&share).replace('\u{a0}', " "),
            "50 requests: 49 ok, 1 failed; 1,600 output tokens"
        );
    }
}
