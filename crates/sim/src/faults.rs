//! Faults by rule: what goes wrong, and with which request. Deterministic by request number.
//!
//! ```text
//! RULES  = RULE {"," RULE}
//! RULE   = KIND ["=" VALUE] {":" KEY "=" VALUE}
//! ```
//! Selectors (keys of every rule; without one, the rule strikes every request): `every=10` strikes
//! numbers 10, 20, …; `p=0.1` strikes each number with that probability, drawn from the seed;
//! `seq=3`, `seq=3-7`, `seq=5-` strike by number. Requests are numbered from 1 in the order in which
//! they were received; connections too, for `slow-accept`. The first rule that strikes and can apply
//! wins. Example: `status=503:after=5ms:every=10,stall=8:seq=3`.

use std::fmt;
use std::str::FromStr;

use spec::{Nanos, Span};

use crate::draw::{self, Stream};
use crate::names::nearest;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// `status=CODE[:after=SPAN]`: this HTTP status with an error body.
    Status {
        /// 400 to 599.
        code: u16,
        /// Waits this long first.
        after: Nanos,
    },
    /// `error-in-stream[=K]`: an error event after K tokens of a 200 stream, then `[DONE]`.
    ErrorInStream(u32),
    /// `truncate[=K]`: an orderly end of the connection after K tokens, the body unfinished.
    Truncate(u32),
    /// `stall[=K][:for=SPAN]`: no byte after K tokens, for SPAN or until the client gives up.
    Stall {
        /// Tokens before it.
        tokens: u32,
        /// Length; `None`: for ever.
        span: Option<Nanos>,
    },
    /// `empty`: a well-formed success without any output.
    Empty,
    /// `early-stop[=F]`: ends with `stop` after this share of the tokens (default 0.5).
    EarlyStop(f64),
    /// `reset[=K]`: the connection is reset (RST) after K tokens; 0: before any byte.
    Reset(u32),
    /// `slow-accept=SPAN`: the connection is not read from for this long; counts connections.
    SlowAccept(Nanos),
    /// `malformed[=K]`: one event of broken JSON after K tokens, then the stream goes on.
    Malformed(u32),
    /// `reject-stream-options`: 400 for a body with `stream_options`.
    RejectStreamOptions,
    /// `reject-ignore-eos`: 400 for a body with `ignore_eos` or `min_tokens`.
    RejectIgnoreEos,
    /// `ignore-max-completion-tokens`: the field is overlooked.
    IgnoreMaxCompletionTokens,
    /// `ignore-ignore-eos`: `ignore_eos` is overlooked; `min_tokens` still counts.
    IgnoreIgnoreEos,
    /// `hang-up`: after a complete answer the connection closes, though the head said keep-alive.
    HangUp,
    /// `echo`: the answer begins with the prompt.
    Echo,
    /// `cumulative`: every chunk repeats the whole answer so far.
    Cumulative,
    /// `html`: a 200 page of HTML, as a proxy in the way would send.
    Html,
}

/// Every kind, as it is written in a rule.
pub(crate) const KINDS: &[&str] = &[
    "status",
    "error-in-stream",
    "truncate",
    "stall",
    "empty",
    "early-stop",
    "reset",
    "slow-accept",
    "malformed",
    "reject-stream-options",
    "reject-ignore-eos",
    "ignore-max-completion-tokens",
    "ignore-ignore-eos",
    "hang-up",
    "echo",
    "cumulative",
    "html",
];

impl Fault {
    /// The kind, as it is written in a rule and in the truth log.
    pub fn kind(&self) -> &'static str {
        match self {
            Fault::Status { .. } => "status",
            Fault::ErrorInStream(_) => "error-in-stream",
            Fault::Truncate(_) => "truncate",
            Fault::Stall { .. } => "stall",
            Fault::Empty => "empty",
            Fault::EarlyStop(_) => "early-stop",
            Fault::Reset(_) => "reset",
            Fault::SlowAccept(_) => "slow-accept",
            Fault::Malformed(_) => "malformed",
            Fault::RejectStreamOptions => "reject-stream-options",
            Fault::RejectIgnoreEos => "reject-ignore-eos",
            Fault::IgnoreMaxCompletionTokens => "ignore-max-completion-tokens",
            Fault::IgnoreIgnoreEos => "ignore-ignore-eos",
            Fault::HangUp => "hang-up",
            Fault::Echo => "echo",
            Fault::Cumulative => "cumulative",
            Fault::Html => "html",
        }
    }
}

/// Which requests a rule strikes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Selector {
    /// All of them.
    Always,
    /// Every n-th.
    Every(u64),
    /// Each with this probability.
    Probability(f64),
    /// Numbers from the first to the second, both included.
    Numbers(u64, u64),
}

/// A fault and the requests that it strikes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultRule {
    /// What.
    pub fault: Fault,
    /// Whom.
    pub selector: Selector,
}

impl FaultRule {
    /// Whether request `number` (from 1) is struck; `rule` is the rule's place in the list, so that
    /// two rules of one probability draw apart.
    pub fn strikes(&self, seed: u64, rule: usize, number: u64) -> bool {
        match self.selector {
            Selector::Always => true,
            Selector::Every(n) => number.is_multiple_of(n),
            Selector::Probability(p) => {
                draw::uniform(seed, Stream::Faults, ((rule as u64) << 48) ^ number) < p
            }
            Selector::Numbers(from, to) => (from..=to).contains(&number),
        }
    }
}

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("fault rule `{rule}`: {why}")]
pub struct FaultError {
    /// The rule as given.
    pub rule: String,
    /// What was expected.
    pub why: String,
}

impl FromStr for FaultRule {
    type Err = FaultError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |why: String| FaultError { rule: text.to_owned(), why };
        let mut parts = text.trim().split(':');
        let head = parts.next().unwrap_or("");
        let (kind, value) = match head.split_once('=') {
            Some((kind, value)) => (kind, Some(value)),
            None => (head, None),
        };
        let kind = kind.replace('_', "-");
        let mut selector = Selector::Always;
        let (mut after, mut span) = (None, None);
        for part in parts {
            let (key, v) = part.split_once('=').ok_or_else(|| {
                bad(format!("`{part}` is not KEY=VALUE (every=N, p=P, seq=N, after=SPAN, for=SPAN)"))
            })?;
            match key {
                "every" => {
                    let n = v.parse().ok().filter(|n| *n > 0);
                    selector = Selector::Every(n.ok_or_else(|| bad(format!("every={v}: a number from 1")))?);
                }
                "p" => {
                    let p = v.parse().ok().filter(|p| (0.0..=1.0).contains(p));
                    let p = p.ok_or_else(|| bad(format!("p={v}: a probability from 0 to 1")))?;
                    selector = Selector::Probability(p);
                }
                "seq" => {
                    let numbers = parse_numbers(v);
                    let (from, to) =
                        numbers.ok_or_else(|| bad(format!("seq={v}: a number, FROM-TO, or FROM-")))?;
                    selector = Selector::Numbers(from, to);
                }
                "after" | "for" => {
                    let parsed = v.parse::<Span>().map_err(|e| bad(e.to_string()))?.0;
                    *(if key == "after" { &mut after } else { &mut span }) = Some(parsed);
                }
                other => {
                    let hint = nearest(other, &["every", "p", "seq", "after", "for"]);
                    return Err(bad(format!("unknown key `{other}`{hint}")));
                }
            }
        }
        let tokens = || match value {
            None => Ok(0),
            Some(v) => v.parse::<u32>().map_err(|_| bad(format!("`{v}` is not a number of tokens"))),
        };
        let fault = match kind.as_str() {
            "status" => {
                let code = value.and_then(|v| v.parse().ok()).filter(|c| (400..600).contains(c));
                let code = code.ok_or_else(|| bad("expected status=CODE from 400 to 599".to_owned()))?;
                Fault::Status { code, after: after.unwrap_or_default() }
            }
            "error-in-stream" => Fault::ErrorInStream(tokens()?),
            "truncate" => Fault::Truncate(tokens()?),
            "stall" => Fault::Stall { tokens: tokens()?, span },
            "empty" => Fault::Empty,
            "early-stop" => {
                let share = value.map_or(Some(0.5), |v| v.parse().ok());
                let share = share.filter(|s: &f64| *s > 0.0 && *s <= 1.0);
                Fault::EarlyStop(share.ok_or_else(|| bad("expected a share in (0, 1]".to_owned()))?)
            }
            "reset" => Fault::Reset(tokens()?),
            "slow-accept" => {
                let v = value.ok_or_else(|| bad("expected slow-accept=SPAN".to_owned()))?;
                Fault::SlowAccept(v.parse::<Span>().map_err(|e| bad(e.to_string()))?.0)
            }
            "malformed" => Fault::Malformed(tokens()?),
            "reject-stream-options" => Fault::RejectStreamOptions,
            "reject-ignore-eos" => Fault::RejectIgnoreEos,
            "ignore-max-completion-tokens" => Fault::IgnoreMaxCompletionTokens,
            "ignore-ignore-eos" => Fault::IgnoreIgnoreEos,
            "hang-up" => Fault::HangUp,
            "echo" => Fault::Echo,
            "cumulative" => Fault::Cumulative,
            "html" => Fault::Html,
            other => {
                return Err(bad(format!(
                    "unknown kind `{other}`{}; kinds: {}",
                    nearest(other, KINDS),
                    KINDS.join(", ")
                )));
            }
        };
        if after.is_some() && !matches!(fault, Fault::Status { .. }) {
            return Err(bad("`after` belongs to `status` only".to_owned()));
        }
        if span.is_some() && !matches!(fault, Fault::Stall { .. }) {
            return Err(bad("`for` belongs to `stall` only".to_owned()));
        }
        Ok(FaultRule { fault, selector })
    }
}

fn parse_numbers(text: &str) -> Option<(u64, u64)> {
    let (from, to) = match text.split_once('-') {
        None => {
            let n = text.parse().ok()?;
            (n, n)
        }
        Some((from, "")) => (from.parse().ok()?, u64::MAX),
        Some((from, to)) => (from.parse().ok()?, to.parse().ok()?),
    };
    (from >= 1 && from <= to).then_some((from, to))
}

impl fmt::Display for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.fault.kind())?;
        match self.fault {
            Fault::Status { code, after } => {
                write!(f, "={code}")?;
                if after > Nanos::ZERO {
                    write!(f, ":after={}", Span(after))?;
                }
            }
            Fault::ErrorInStream(k) | Fault::Truncate(k) | Fault::Reset(k) | Fault::Malformed(k) => {
                write!(f, "={k}")?;
            }
            Fault::Stall { tokens, span } => {
                write!(f, "={tokens}")?;
                if let Some(span) = span {
                    write!(f, ":for={}", Span(span))?;
                }
            }
            Fault::EarlyStop(share) => write!(f, "={share}")?,
            Fault::SlowAccept(span) => write!(f, "={}", Span(span))?,
            _ => {}
        }
        match self.selector {
            Selector::Always => Ok(()),
            Selector::Every(n) => write!(f, ":every={n}"),
            Selector::Probability(p) => write!(f, ":p={p}"),
            Selector::Numbers(from, to) if from == to => write!(f, ":seq={from}"),
            Selector::Numbers(from, u64::MAX) => write!(f, ":seq={from}-"),
            Selector::Numbers(from, to) => write!(f, ":seq={from}-{to}"),
        }
    }
}

/// Reads a comma-separated list of rules.
///
/// # Errors
/// The first rule that cannot be read.
pub fn parse_rules(text: &str) -> Result<Vec<FaultRule>, FaultError> {
    text.split(',').filter(|r| !r.trim().is_empty()).map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_written_back() {
        for text in [
            "status=503:after=5ms:every=10",
            "status=429",
            "error-in-stream=4:p=0.25",
            "truncate=8:seq=3",
            "stall=8:for=2s:seq=3-7",
            "stall=0:seq=5-",
            "empty:every=2",
            "early-stop=0.6",
            "reset=0",
            "slow-accept=50ms:seq=1",
            "malformed=2",
            "reject-stream-options",
            "reject-ignore-eos",
            "ignore-max-completion-tokens",
            "ignore-ignore-eos",
            "hang-up:seq=2",
            "echo",
            "cumulative",
            "html:seq=1",
        ] {
            let rule: FaultRule = text.parse().unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(rule.to_string(), text);
        }
        assert_eq!(parse_rules("empty, html:seq=2").map(|r| r.len()), Ok(2));
        for bad in [
            "",
            "statos=500",
            "status",
            "status=200",
            "stall=x",
            "empty:every=0",
            "empty:p=2",
            "empty:seq=7-3",
            "empty:sometimes",
            "empty:after=5ms",
            "truncate:for=1s",
            "early-stop=0",
        ] {
            assert!(bad.parse::<FaultRule>().is_err(), "{bad}");
        }
        let message = "statos=500".parse::<FaultRule>().unwrap_err().to_string();
        assert!(message.contains("did you mean `status`"), "{message}");
    }

    #[test]
    fn selectors_strike_whom_they_name() {
        let struck = |text: &str| -> Vec<u64> {
            let rule: FaultRule = text.parse().unwrap();
            (1..=12).filter(|n| rule.strikes(1, 0, *n)).collect()
        };
        assert_eq!(struck("empty:every=5"), [5, 10]);
        assert_eq!(struck("empty:seq=3"), [3]);
        assert_eq!(struck("empty:seq=11-"), [11, 12]);
        assert_eq!(struck("empty").len(), 12);
        let rule: FaultRule = "empty:p=0.1".parse().unwrap();
        let n = (1..=20_000).filter(|n| rule.strikes(1, 0, *n)).count();
        assert!((1_850..2_150).contains(&n), "{n}");
        let other: Vec<u64> = (1..=200).filter(|n| rule.strikes(1, 1, *n)).collect();
        let again: Vec<u64> = (1..=200).filter(|n| rule.strikes(1, 1, *n)).collect();
        let first: Vec<u64> = (1..=200).filter(|n| rule.strikes(1, 0, *n)).collect();
        assert_eq!(other, again);
        assert_ne!(other, first, "two rules draw apart");
    }
}
