//! The grammar of limits: `ttft<=500ms`, `p99(tpot)<=50ms`, `error_rate<=1%`.

use std::str::FromStr;

use crate::error::{ParseError, nearest};
use crate::slo::{JointLimit, MarginalLimit, Metric, Op, Slo, Statistic};
use crate::units::{Share, Span};

/// A limit of either kind.
#[derive(Debug, Clone, PartialEq)]
pub enum AnyLimit {
    /// On each request.
    Joint(JointLimit),
    /// On a statistic of all requests.
    Marginal(MarginalLimit),
}

/// Names that other tools use and that mean exactly one metric here.
const SYNONYMS: [(&str, Metric); 8] = [
    ("time_to_first_token", Metric::Ttft),
    ("time_per_output_token", Metric::Tpot),
    ("inter_token_latency", Metric::Itl),
    ("inter_chunk_latency", Metric::Icl),
    ("e2el", Metric::E2e),
    ("e2e_latency", Metric::E2e),
    ("end_to_end_latency", Metric::E2e),
    ("output_throughput", Metric::OutputTokenThroughput),
];

/// Names that may mean several things: never taken, only answered.
const AMBIGUOUS: [(&str, &str); 11] = [
    ("latency", "`e2e` is the time to the last output, `ttft` the time to the first token"),
    ("request_latency", "`e2e` is the time to the last output"),
    ("throughput", "`request_throughput` counts requests, `output_token_throughput` output tokens"),
    ("tps", "`user_tps` is the output speed of one user, `output_token_throughput` that of all"),
    (
        "tokens_per_second",
        "`user_tps` is the output speed of one user, `output_token_throughput` that of all",
    ),
    ("rps", "`request_throughput` counts completed requests per second"),
    ("qps", "`request_throughput` counts completed requests per second"),
    ("errors", "`error_rate` is the share of offered requests that did not end well"),
    ("failure_rate", "`error_rate` is the share of offered requests that did not end well"),
    ("goodput", "goodput follows from the limits on requests; set their share with `attain`"),
    ("success_rate", "`error_rate<=1%` says the same as 99 % success"),
];

/// What a metric's values are.
enum Kind {
    Time,
    Share,
    PerSecond(&'static [&'static str]),
}

impl Metric {
    fn kind(self) -> Kind {
        match self {
            Metric::ErrorRate => Kind::Share,
            Metric::UserTps | Metric::OutputTokenThroughput => {
                Kind::PerSecond(&["", "/s", "tokens/s", "token/s", "tok/s"])
            }
            Metric::RequestThroughput => Kind::PerSecond(&["", "/s", "requests/s", "request/s", "req/s"]),
            _ => Kind::Time,
        }
    }
    /// Whether a request has one value of it, so that it can be a limit on each request.
    pub fn per_request(self) -> bool {
        !self.pooled() && !self.whole()
    }
    /// Whether its samples are pooled over all requests (definitions §2).
    pub fn pooled(self) -> bool {
        matches!(self, Metric::Itl | Metric::Icl | Metric::ClientLag)
    }
    /// Whether it is one number of the whole run.
    pub fn whole(self) -> bool {
        matches!(self, Metric::ErrorRate | Metric::RequestThroughput | Metric::OutputTokenThroughput)
    }
    /// Whether more is better.
    pub fn higher_is_better(self) -> bool {
        matches!(self, Metric::UserTps | Metric::RequestThroughput | Metric::OutputTokenThroughput)
    }
    /// Whether it exists only for streamed answers (definitions §2).
    pub fn needs_stream(self) -> bool {
        !matches!(self, Metric::E2e | Metric::ScheduleLag | Metric::ClientLag) && !self.whole()
    }
}

impl FromStr for Metric {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.trim().to_lowercase().replace('-', "_");
        if let Some(metric) = Metric::ALL.into_iter().find(|m| m.name() == name) {
            return Ok(metric);
        }
        if let Some((_, metric)) = SYNONYMS.into_iter().find(|(synonym, _)| *synonym == name) {
            return Ok(metric);
        }
        let names = Metric::ALL.map(Metric::name).join(" ");
        let error = ParseError::new(format!("`{}` names no metric; metrics: {names}", text.trim()));
        Err(match AMBIGUOUS.into_iter().find(|(word, _)| *word == name) {
            Some((_, answer)) => error.hint(answer),
            None => match nearest(&name, Metric::ALL.map(Metric::name)) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error,
            },
        })
    }
}

impl FromStr for Statistic {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let t = text.trim().to_lowercase();
        match t.as_str() {
            "mean" | "avg" | "average" => return Ok(Statistic::Mean),
            "max" => return Ok(Statistic::Max),
            "median" => return Ok(Statistic::Percentile(0.5)),
            _ => {}
        }
        let bad = || {
            ParseError::new(format!(
                "`{}` is no statistic; expected p50, p99, p99.9, …, mean or max",
                text.trim()
            ))
        };
        let digits = t.strip_prefix('p').ok_or_else(bad)?;
        if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_digit() || c == '.') {
            return Err(bad());
        }
        let percent: f64 = digits.parse().map_err(|_| bad())?;
        // Above 0 and below 100; the smallest and the largest have names of their own.
        if !(percent > 0.0 && percent < 100.0) {
            return Err(bad().hint("a percentile lies between 0 and 100; the largest is `max`"));
        }
        // Divided as text, so that p99.9 is the double nearest to 0.999.
        let share = format!("{digits}e-2").parse().map_err(|_| bad())?;
        Ok(Statistic::Percentile(share))
    }
}

impl std::fmt::Display for Statistic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // To nine digits, so that 0.999 · 100 is 99.9.
            Statistic::Percentile(p) => write!(f, "p{}", (p * 100.0 * 1e9).round() / 1e9),
            Statistic::Mean => f.write_str("mean"),
            Statistic::Max => f.write_str("max"),
            Statistic::Whole => f.write_str("whole"),
        }
    }
}

const FORM: &str = "a limit (METRIC<=VALUE on each request, or pNN(METRIC)<=VALUE, for example ttft<=500ms or p99(tpot)<=50ms)";

impl FromStr for AnyLimit {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shown = text.trim();
        let t: String = text
            .chars()
            .filter(|c| !c.is_whitespace())
            .collect::<String>()
            .replace('≤', "<=")
            .replace('≥', ">=");
        let bad = || ParseError::new(format!("`{shown}` is not {FORM}"));
        let at = t.find(['<', '>', '=']).ok_or_else(bad)?;
        let (left, rest) = t.split_at(at);
        let (op, value) = [("<=", Op::LessEq), (">=", Op::GreaterEq), ("<", Op::Less), (">", Op::Greater)]
            .into_iter()
            .find_map(|(sign, op)| rest.strip_prefix(sign).map(|value| (op, value)))
            .ok_or_else(|| bad().hint("the comparisons are < <= > >="))?;
        if value.starts_with(['<', '>', '=']) {
            return Err(bad().hint("the comparisons are < <= > >="));
        }

        let (statistic, name) = match left.split_once('(') {
            Some((statistic, name)) => {
                let name = name.strip_suffix(')').ok_or_else(bad)?;
                (Some(statistic.parse::<Statistic>()?), name)
            }
            None => (None, left),
        };
        let metric = match name.parse::<Metric>() {
            Ok(metric) => metric,
            Err(mut error) => {
                error.message = error.message.replacen(&format!("`{name}`"), &format!("`{shown}`"), 1);
                let near = nearest(&name.to_lowercase(), Metric::ALL.map(Metric::name));
                error.hint = match (statistic_as_affix(name), near) {
                    (Some(meant), _) => Some(format!("a statistic is written `{meant}{}{value}`", op.sign())),
                    (None, Some(near)) => Some(format!("did you mean `{}`?", t.replacen(name, near, 1))),
                    (None, None) => error.hint,
                };
                return Err(error);
            }
        };
        let head = match statistic {
            Some(statistic) => format!("{statistic}({})", metric.name()),
            None => metric.name().to_owned(),
        };
        let canonical = format!("{head}{}{value}", op.sign());
        if matches!(op, Op::Greater | Op::GreaterEq) != metric.higher_is_better() {
            let (which, turned) = if metric.higher_is_better() {
                ("more of it is better, so a limit is a lower one", if op == Op::Less { ">" } else { ">=" })
            } else {
                (
                    "less of it is better, so a limit is an upper one",
                    if op == Op::Greater { "<" } else { "<=" },
                )
            };
            return Err(ParseError::new(format!("`{shown}` holds when the service is bad: {which}"))
                .hint(format!("`{head}{turned}{value}`")));
        }
        let value = limit_value(metric, value, shown, &head, op)?;

        match statistic {
            Some(_) if metric.whole() => Err(ParseError::new(format!(
                "`{shown}`: {} is one number of the whole run and has no percentiles",
                metric.name()
            ))
            .hint(format!("`{}`", canonical.replacen(&head, metric.name(), 1)))),
            Some(statistic) => {
                Ok(AnyLimit::Marginal(MarginalLimit { statistic, metric, op, value, text: canonical }))
            }
            None if metric.whole() => Ok(AnyLimit::Marginal(MarginalLimit {
                statistic: Statistic::Whole,
                metric,
                op,
                value,
                text: canonical,
            })),
            None if metric.pooled() => {
                let tail = &canonical[head.len()..];
                let hint = match metric {
                    Metric::ClientLag => format!("`p99(client_lag){tail}`"),
                    _ => format!(
                        "`p99({head}){tail}` for all gaps, or `max_gap{tail}` for the worst of each request"
                    ),
                };
                Err(ParseError::new(format!(
                    "`{shown}`: {head} is pooled over all requests, so it is no limit on each request"
                ))
                .hint(hint))
            }
            None => Ok(AnyLimit::Joint(JointLimit { metric, op, value, text: canonical })),
        }
    }
}

/// `p95_ttft`, `ttft_p95`, `ttft.p95`, `mean_ttft` as `p95(ttft)`.
fn statistic_as_affix(name: &str) -> Option<String> {
    let (a, b) = name.split_once(['.', ':']).or_else(|| name.split_once('_'))?;
    let (c, d) = name.rsplit_once('_').unwrap_or((a, b));
    [(a, b), (b, a), (c, d), (d, c)].into_iter().find_map(|(statistic, metric)| {
        let statistic: Statistic = statistic.parse().ok()?;
        let metric: Metric = metric.parse().ok()?;
        (!metric.whole()).then(|| format!("{statistic}({})", metric.name()))
    })
}

/// Nanoseconds, a share, or a number per second.
fn limit_value(metric: Metric, text: &str, shown: &str, head: &str, op: Op) -> Result<f64, ParseError> {
    let sign = op.sign();
    match metric.kind() {
        Kind::Time => match text.parse::<Span>() {
            Ok(span) => Ok(span.0.0 as f64),
            Err(_) if text.parse::<f64>().is_ok() => {
                Err(ParseError::new(format!("`{shown}`: {} is a time and needs a unit", metric.name()))
                    .hint(format!("`{head}{sign}{text}ms` or `{head}{sign}{text}s`")))
            }
            Err(error) => Err(ParseError::new(format!("`{shown}`: {error}"))),
        },
        Kind::Share => match text.parse::<Share>() {
            Ok(share) => Ok(share.value()),
            Err(error) => {
                Err(ParseError { message: format!("`{shown}`: {}", error.message), hint: error.hint })
            }
        },
        Kind::PerSecond(units) => {
            let bad = || {
                ParseError::new(format!(
                    "`{shown}`: `{text}` is not a number per second (for example {head}{sign}20, or 20/s)"
                ))
            };
            let cut = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
            let (number, unit) = text.split_at(cut);
            if !units.contains(&unit) {
                return Err(bad());
            }
            number.parse().map_err(|_| bad())
        }
    }
}

impl FromStr for JointLimit {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse()? {
            AnyLimit::Joint(limit) => Ok(limit),
            AnyLimit::Marginal(limit) => Err(ParseError::new(format!(
                "`{}` is a limit on a statistic, not on each request",
                limit.text
            ))
            .hint("put it under `marginal`")),
        }
    }
}

impl FromStr for MarginalLimit {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse()? {
            AnyLimit::Marginal(limit) => Ok(limit),
            AnyLimit::Joint(limit) => Err(ParseError::new(format!(
                "`{}` is a limit on each request, not on a statistic",
                limit.text
            ))
            .hint(format!("put it under `joint`, or write `p99({})…`", limit.metric.name()))),
        }
    }
}

impl Slo {
    /// Metric and text of every limit as written, those on requests first.
    pub fn limits(&self) -> impl Iterator<Item = (Metric, &str)> {
        let joint = self.joint.iter().map(|limit| (limit.metric, limit.text.as_str()));
        joint.chain(self.marginal.iter().map(|limit| (limit.metric, limit.text.as_str())))
    }
    /// Adds one limit, to the joint or to the marginal ones as its text says.
    pub fn add(&mut self, text: &str) -> Result<(), ParseError> {
        match text.parse()? {
            AnyLimit::Joint(limit) => self.joint.push(limit),
            AnyLimit::Marginal(limit) => self.marginal.push(limit),
        }
        Ok(())
    }
    /// Whether there is any limit at all.
    pub fn is_empty(&self) -> bool {
        self.joint.is_empty() && self.marginal.is_empty()
    }
}
