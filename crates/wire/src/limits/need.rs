//! What a run takes of the machine that it stands on, as far as the plan tells.

use spec::{Connections, Lengths, Load, Spec};

use plan::Plan;

/// A token of text and its share of JSON, in bytes: prompts are stored as they are sent.
const BODY_PER_TOKEN: f64 = 5.0;
/// Of a body beside its prompt, in bytes.
const BODY_REST: u64 = 512;
/// A connection with its buffers and the exchange on it, in bytes.
const CONNECTION: u64 = 20 << 10;
/// A finished request without its chunks, and each chunk, in bytes: until the report is made.
const ROW: u64 = 700;
const ROW_PER_TOKEN: f64 = 32.0;
/// Where a data set or a file decides, lengths are taken to be this.
const UNKNOWN_LENGTH: f64 = 512.0;
/// Bodies are made this far ahead of the timetable, in seconds; of users, a number.
const AHEAD_S: f64 = 5.0;
const AHEAD_OF_USERS: u64 = 1_088;
/// What is made ahead takes no more than this, in bytes.
const AHEAD_AT_MOST: u64 = 1 << 29;
/// The program itself with its vocabularies, in bytes.
const PROGRAM: u64 = 64 << 20;

/// What a run takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Need {
    /// Connections at once, where the load bounds them.
    pub at_once: Option<u64>,
    /// Connections opened ahead.
    pub prewarmed: u64,
    /// Open loop at a rate: arrivals a second.
    pub per_s: Option<f64>,
    /// The same, where each opens a connection.
    pub fresh_per_s: Option<f64>,
    /// Requests in all, where the plan knows.
    pub requests: Option<u64>,
    /// Targets that requests are dealt to.
    pub targets: u64,
    /// Bytes of a request.
    pub body: u64,
    /// Bytes of a finished request.
    pub row: u64,
    /// Requests made ahead.
    pub ahead: u64,
}

impl Need {
    pub fn of(spec: &Spec, plan: &Plan, targets: usize) -> Self {
        let planned = plan.planned();
        let requests = planned.warmup.zip(planned.measure).map(|(warmup, measure)| warmup + measure);
        let (at_once, per_s) = match &spec.load {
            Load::Closed(closed) => (Some(u64::from(closed.concurrency)), None),
            Load::Open(open) if open.rate.is_infinite() => (open.cap.map(u64::from).or(requests), None),
            Load::Open(open) => (open.cap.map(u64::from), Some(open.rate.per_second())),
        };
        let ahead = match (&spec.load, per_s) {
            (Load::Closed(closed), _) => 2 * u64::from(closed.concurrency) + AHEAD_OF_USERS,
            (_, Some(per_s)) => (per_s * AHEAD_S) as u64,
            (_, None) => requests.unwrap_or(0),
        };
        Need {
            // No more than there are requests.
            at_once: at_once.map(|n| requests.map_or(n, |all| n.min(all))),
            prewarmed: match spec.client.connections {
                Connections::Prewarmed(n) => u64::from(n),
                Connections::Fresh | Connections::Keepalive => 0,
            },
            per_s,
            fresh_per_s: per_s.filter(|_| spec.client.connections == Connections::Fresh),
            requests,
            targets: targets as u64,
            body: (mean(&spec.workload.isl) * BODY_PER_TOKEN) as u64 + BODY_REST,
            row: ROW + (mean(&spec.workload.osl) * ROW_PER_TOKEN) as u64,
            ahead,
        }
    }

    fn in_flight(&self) -> u64 {
        // Without a bound: as many as arrive in a second.
        let at_once = self.at_once.unwrap_or(self.per_s.unwrap_or(0.0) as u64);
        at_once.saturating_mul(self.body + CONNECTION + self.row)
    }
    fn ahead(&self) -> u64 {
        self.ahead.saturating_mul(self.body).min(AHEAD_AT_MOST)
    }
    fn records(&self) -> u64 {
        self.requests.unwrap_or(0).saturating_mul(self.row)
    }
    /// An estimate of the memory, in bytes.
    pub fn memory(&self) -> u64 {
        [PROGRAM, self.in_flight(), self.ahead(), self.records()].into_iter().fold(0, u64::saturating_add)
    }
    /// Its parts.
    pub fn memory_in_words(&self) -> String {
        let mib = |bytes: u64| bytes >> 20;
        format!(
            "{} MiB for requests in flight, {} MiB for prompts made ahead, {} MiB for records until the report is made",
            mib(self.in_flight()),
            mib(self.ahead()),
            mib(self.records())
        )
    }
}

fn mean(lengths: &Lengths) -> f64 {
    match lengths {
        Lengths::Fixed(n) => f64::from(*n),
        Lengths::Uniform { min, max } => (f64::from(*min) + f64::from(*max)) / 2.0,
        Lengths::Normal { mean, .. } | Lengths::LogNormal { mean, .. } => *mean,
        Lengths::File(_) | Lengths::Data => UNKNOWN_LENGTH,
    }
}

#[cfg(test)]
mod tests {
    use spec::Draft;

    use super::*;

    fn need(text: &str) -> Need {
        let spec = Draft::from_text("t", &format!("target: http://h:1\n{text}")).unwrap().resolve().unwrap();
        Need::of(&spec, &Plan::new(&spec).unwrap(), 1)
    }

    #[test]
    fn connections_are_those_that_the_load_bounds() {
        assert_eq!(need("load: {concurrency: 64}").at_once, Some(64));
        assert_eq!(need("load: {rate: 10, cap: 7}").at_once, Some(7));
        let open = need("load: {rate: 10}\nphases: {measure: 30s, warmup: 3s}\nclient: {connections: fresh}");
        assert_eq!((open.at_once, open.per_s, open.fresh_per_s), (None, Some(10.0), Some(10.0)));
        assert!(open.requests.is_some_and(|n| (200..500).contains(&n)), "{open:?}");
        let burst = need("load: {rate: inf}\nphases: {measure: 500 requests}");
        assert_eq!((burst.at_once, burst.requests, burst.per_s), (Some(500), Some(500), None));
        // Three requests never have 64 connections.
        let short = need("load: {concurrency: 64}\nphases: {measure: 3 requests, warmup: none}");
        assert_eq!(short.at_once, Some(3));
        assert_eq!(need("client: {connections: prewarmed:9}").prewarmed, 9);
    }

    #[test]
    fn memory_by_hand() {
        let need = need(
            "load: {concurrency: 100}\nphases: {measure: 1000 requests, warmup: none}\nworkload: {isl: 1000, osl: 100..300}",
        );
        // Body 1,000 × 5 + 512; row 700 + 200 × 32; ahead 2 × 100 + 1,088.
        assert_eq!((need.body, need.row, need.ahead), (5_512, 7_100, 1_288));
        let by_hand = (64 << 20) + 100 * (5_512 + 20_480 + 7_100) + 1_288 * 5_512 + 1_000 * 7_100;
        assert_eq!(need.memory(), by_hand);
        let words = need.memory_in_words();
        assert!(words.starts_with("3 MiB for requests in flight, 6 MiB for prompts"), "{words}");
    }
}
