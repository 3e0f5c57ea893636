//! From a draft to a spec: every default written out, every impossible combination refused.

mod client;

use std::collections::BTreeMap;

use crate::draft::{ApiDraft, Draft, LoadDraft, PhasesDraft, TimeoutsDraft, WorkloadDraft};
use crate::error::SpecError;
use crate::load::{Closed, Extent, Load, Open, Phases, Timeouts, Warmup};
use crate::secret::REDACTED;
use crate::slo::Slo;
use crate::units::{Burstiness, Limit, Nanos, Rate, Span};
use crate::workload::{CacheProtocol, Lengths, Source, TokenizerChoice, Workload};
use crate::{Analysis, Api, Dialect, Force, LengthControl, MaxField, Readiness, Sampling, Spec, Tls};

/// The seed when none is given: fixed, so that two runs of one command send the same.
pub const DEFAULT_SEED: u64 = 42;
const DEFAULT_ISL: u32 = 512;
const DEFAULT_OSL: u32 = 128;
const DEFAULT_MEASURE: Extent = Extent::Duration(Span(Nanos::from_secs(30)));
const DEFAULT_DRAIN: Span = Span(Nanos::from_secs(30));
const DEFAULT_WAIT: Span = Span(Nanos::from_secs(10));
/// The default warm-up of an open loop is never longer.
const MAX_DEFAULT_WARMUP: Nanos = Nanos::from_secs(10);

/// Collects faults.
struct Faults(Vec<SpecError>);

impl Faults {
    fn add(&mut self, key: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.0.push(SpecError::new(message).at(key).hint(hint));
    }
}

impl Draft {
    /// The spec with every default written out, or every fault found.
    pub fn resolve(self) -> Result<Spec, Vec<SpecError>> {
        let mut faults = Faults(Vec::new());
        let target = self.target;
        if target.is_none() {
            faults.add(
                "target",
                "no target is given: what is to be measured?",
                "http://HOST:PORT, or sim://llama-3.1-8b@h100",
            );
        }
        let load = load(self.load, &mut faults);
        let phases = phases(self.phases, &load, &mut faults);
        let workload = workload(self.workload, &mut faults);
        let api = api(self.api, &mut faults);
        let timeouts = timeouts(self.timeouts, &mut faults);

        let client = client::client(self.client, &load, target.as_ref(), &mut faults);

        let attain = self.slo.attain.map_or(Slo::default().attain, |share| share.value());
        let slo = Slo { joint: self.slo.joint, marginal: self.slo.marginal, attain };
        check_slo(&slo, &api, &mut faults);

        let analysis =
            Analysis { percentile: self.analysis.percentile.unwrap_or_default(), view: self.analysis.view };
        refuse_redacted("labels", &self.labels, &mut faults);

        match target {
            Some(target) if faults.0.is_empty() => Ok(Spec {
                target,
                api,
                workload,
                load,
                phases,
                timeouts,
                client,
                slo,
                analysis,
                labels: self.labels,
                seed: self.seed.unwrap_or(DEFAULT_SEED),
            }),
            _ => {
                for fault in &mut faults.0 {
                    let place = fault.key.as_deref().and_then(|key| self.places.of(key));
                    fault.excerpt = place.cloned().map(Box::new);
                }
                Err(faults.0)
            }
        }
    }
}

fn load(draft: LoadDraft, faults: &mut Faults) -> Load {
    let open = |rate: Rate, draft: &LoadDraft| Open {
        rate,
        burstiness: draft.burstiness.unwrap_or(Burstiness::POISSON),
        cap: draft.cap,
        ramp: draft.ramp.clone(),
    };
    match (draft.rate, draft.concurrency) {
        (Some(rate), Some(users)) => {
            faults.add(
                "load",
                format!(
                    "`rate` and `concurrency` name two load models\n\n  \
                     rate {rate}: open loop, requests leave on a timetable, whatever returns\n  \
                     concurrency {users}: closed loop, {users} users, each waits for its answer"
                ),
                format!(
                    "an open loop that never has more than {users} in flight is rate {rate} with cap {users} \
                     (waiting at the cap is measured)"
                ),
            );
            Load::Open(open(rate, &draft))
        }
        (Some(rate), None) => {
            if draft.think.is_some() {
                faults.add(
                    "load.think",
                    "`think` is the pause of a user between an answer and the next request; with `rate` there are no users",
                    "concurrency N with think, or rate alone",
                );
            }
            if draft.start_over.is_some() {
                faults.add(
                    "load.start_over",
                    "`start_over` is the time over which users begin; with `rate` there are no users",
                    "concurrency N with start_over, or rate alone (a rate that grows: ramp)",
                );
            }
            if draft.cap == Some(0) {
                faults.add("load.cap", "a cap of 0 lets nothing through", "at least 1, or no cap");
            }
            if let Some(ramp) = &draft.ramp {
                if rate.is_infinite() {
                    faults.add(
                        "load.ramp",
                        "rate `inf` sends everything at once and cannot ramp",
                        "a finite rate, or no ramp",
                    );
                }
                if ramp.from.is_infinite() {
                    faults.add(
                        "load.ramp",
                        "a ramp cannot begin at rate `inf`",
                        "a finite rate to begin from, for example 1/s:30s",
                    );
                }
                if ramp.over.0 == Nanos::ZERO {
                    faults.add("load.ramp", "a ramp over 0s is no ramp", "a time such as 30s, or no ramp");
                }
            }
            Load::Open(open(rate, &draft))
        }
        (None, users) => {
            for (given, key, why) in [
                (draft.burstiness.is_some(), "burstiness", "the gaps between arrivals of an open loop"),
                (draft.cap.is_some(), "cap", "the most in flight of an open loop"),
                (draft.ramp.is_some(), "ramp", "the growth of an open loop's rate"),
            ] {
                if given {
                    let message = match users {
                        Some(_) => format!("`{key}` is {why}; in a closed loop arrivals follow the answers"),
                        None => format!("`{key}` is {why}, but no `rate` is given"),
                    };
                    let hint = match (key, users) {
                        ("cap", Some(n)) => format!(
                            "rate R with cap, or concurrency {n} alone, which never has more in flight"
                        ),
                        _ => format!("rate R with {key}"),
                    };
                    faults.add(&format!("load.{key}"), message, hint);
                }
            }
            if users.is_none() && draft.think.is_some() {
                faults.add(
                    "load.think",
                    "`think` is a user's pause, but no `concurrency` is given",
                    "concurrency N with think",
                );
            }
            if users.is_none() && draft.start_over.is_some() {
                faults.add(
                    "load.start_over",
                    "`start_over` is the time over which users begin, but no `concurrency` is given",
                    "concurrency N with start_over",
                );
            }
            if users == Some(0) {
                faults.add("load.concurrency", "a concurrency of 0 has no user who would send", "at least 1");
            }
            Load::Closed(Closed {
                concurrency: users.unwrap_or(1),
                think: draft.think.unwrap_or(Span(Nanos::ZERO)),
                start_over: draft.start_over.unwrap_or(Span(Nanos::ZERO)),
            })
        }
    }
}

fn phases(draft: PhasesDraft, load: &Load, faults: &mut Faults) -> Phases {
    let at_once = matches!(load, Load::Open(open) if open.rate.is_infinite());
    let measure = draft.measure.unwrap_or(DEFAULT_MEASURE);
    if matches!(measure, Extent::Requests(0)) || measure == Extent::Duration(Span(Nanos::ZERO)) {
        faults.add(
            "phases.measure",
            format!("`{measure}` measures nothing"),
            "at least 1 request, or a time such as 30s",
        );
    }
    if at_once && matches!(measure, Extent::Duration(_)) {
        faults.add(
            "phases.measure",
            match draft.measure {
                Some(extent) => format!("rate `inf` sends everything at once, so it cannot last {extent}"),
                None => {
                    "rate `inf` sends everything at once, so the number of requests must be given".to_owned()
                }
            },
            "a number of requests, for example `500 requests`",
        );
    }
    if at_once && matches!(draft.warmup, Some(Warmup::Duration(_))) {
        faults.add(
            "phases.warmup",
            "rate `inf` sends everything at once, so a warm-up cannot be a time",
            "none, or a number of requests",
        );
    }
    // Requests of 0 and a time of 0 are no warm-up.
    let warmup = match draft.warmup {
        Some(Warmup::Requests(0)) => Warmup::None,
        Some(Warmup::Duration(Span(Nanos::ZERO))) => Warmup::None,
        Some(warmup) => warmup,
        None => default_warmup(load, measure),
    };
    Phases { warmup, measure, drain: draft.drain.unwrap_or(DEFAULT_DRAIN) }
}

/// Closed loop: two requests a user, so that each has met a loaded server. Open loop: a tenth of
/// the measurement and at most 10 s. All at once: none, since there is no steady state to reach.
fn default_warmup(load: &Load, measure: Extent) -> Warmup {
    match (load, measure) {
        (Load::Closed(closed), _) => Warmup::Requests(u64::from(closed.concurrency) * 2),
        (Load::Open(open), _) if open.rate.is_infinite() => Warmup::None,
        (Load::Open(_), Extent::Duration(span)) => {
            Warmup::Duration(Span(Nanos(span.0.0 / 10).min(MAX_DEFAULT_WARMUP)))
        }
        (Load::Open(open), Extent::Requests(n)) => {
            let at_most = (open.rate.per_second() * MAX_DEFAULT_WARMUP.as_secs_f64()).ceil() as u64;
            match n.div_ceil(10).min(at_most) {
                0 => Warmup::None,
                n => Warmup::Requests(n),
            }
        }
    }
}

fn workload(draft: WorkloadDraft, faults: &mut Faults) -> Workload {
    let source = draft.source.unwrap_or(Source::Synthetic);
    let made_up = source == Source::Synthetic;
    let fallback = |tokens| if made_up { Lengths::Fixed(tokens) } else { Lengths::Data };
    let isl = draft.isl.unwrap_or_else(|| fallback(DEFAULT_ISL));
    let osl = draft.osl.unwrap_or_else(|| fallback(DEFAULT_OSL));
    if made_up && isl == Lengths::Data {
        faults.add(
            "workload.isl",
            "input length `data` takes lengths from a data set, but prompts are synthetic",
            "a length such as 512, or a source such as jsonl:PATH",
        );
    }
    lengths("workload.isl", &isl, faults);
    lengths("workload.osl", &osl, faults);
    let cache = draft.cache.unwrap_or(CacheProtocol::Unique);
    match &cache {
        CacheProtocol::Unique => {}
        CacheProtocol::SharedPrefix { tokens, groups } => {
            if *groups == 0 {
                faults.add("workload.cache", "0 groups share no prefix", "at least 1 group");
            }
            if *tokens == 0 {
                faults.add(
                    "workload.cache",
                    "a shared prefix of 0 tokens shares nothing",
                    "`unique`, or at least 1 token",
                );
            }
            if let Some((least, what)) = least(&isl)
                && f64::from(*tokens) > least
            {
                faults.add(
                    "workload.cache",
                    format!("a shared prefix of {tokens} tokens does not fit an input of {what} {least} tokens: the prefix is part of the input"),
                    format!("a prefix of at most {least:.0} tokens, or longer inputs"),
                );
            }
        }
        CacheProtocol::Repeat { prompts } => {
            if *prompts == 0 {
                faults.add("workload.cache", "`repeat:0` leaves no prompt to send", "at least 1 prompt");
            }
        }
    }
    Workload { source, isl, osl, cache, tokenizer: draft.tokenizer.unwrap_or(TokenizerChoice::Auto) }
}

/// The least length, or the mean where there is no least.
fn least(lengths: &Lengths) -> Option<(f64, &'static str)> {
    match lengths {
        Lengths::Fixed(n) => Some((f64::from(*n), "exactly")),
        Lengths::Uniform { min, .. } => Some((f64::from(*min), "at least")),
        Lengths::Normal { mean, .. } | Lengths::LogNormal { mean, .. } => Some((*mean, "on average")),
        Lengths::File(_) | Lengths::Data => None,
    }
}

fn lengths(key: &str, lengths: &Lengths, faults: &mut Faults) {
    match lengths {
        Lengths::Fixed(0) | Lengths::Uniform { min: 0, .. } => {
            faults.add(key, format!("`{lengths}`: a length of 0 tokens is no request"), "at least 1");
        }
        Lengths::Uniform { min, max } if min > max => {
            faults.add(key, format!("`{min}..{max}` runs backwards"), format!("`{max}..{min}`"));
        }
        Lengths::Normal { mean, sd, max } | Lengths::LogNormal { mean, sd, max } => {
            let sane = |x: f64| x.is_finite() && x <= f64::from(u32::MAX);
            if !sane(*mean) || *mean < 1.0 {
                faults.add(
                    key,
                    format!("`{lengths}`: the mean must be at least 1 token"),
                    "for example normal(512,64)",
                );
            }
            if !sane(*sd) || *sd < 0.0 {
                faults.add(
                    key,
                    format!("`{lengths}`: the standard deviation must be 0 or more"),
                    "for example normal(512,64)",
                );
            }
            if max.is_some_and(|max| f64::from(max) < *mean) {
                faults.add(key, format!("`{lengths}`: the largest length is below the mean"), "a larger max");
            }
        }
        Lengths::Fixed(_) | Lengths::Uniform { .. } | Lengths::File(_) | Lengths::Data => {}
    }
}

fn api(draft: ApiDraft, faults: &mut Faults) -> Api {
    for (name, value) in &draft.headers {
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if name.is_empty() || !name.bytes().all(token) {
            faults.add(
                "api.headers",
                format!("`{}` is no header name", name.escape_debug()),
                "letters, digits and dashes",
            );
        }
        if value.chars().any(|c| c.is_control() && c != '\t') {
            faults.add(
                "api.headers",
                format!("the value of header `{name}` holds a control character"),
                "one line of text",
            );
        }
        if ["content-length", "transfer-encoding"].iter().any(|own| name.eq_ignore_ascii_case(own)) {
            faults.add(
                "api.headers",
                format!("`{name}` says where a request ends, and is set for each by its body"),
                "no such header",
            );
        }
        if draft.key.is_some() && name.eq_ignore_ascii_case("authorization") {
            faults.add(
                "api.key",
                "a `key` and an `Authorization` header are given; only one can be sent",
                "one of them",
            );
        }
    }
    refuse_redacted("api.headers", &draft.headers, faults);
    if holds_redacted(&serde_json::Value::Object(draft.extra_body.clone())) {
        faults.add(
            "api.extra_body",
            format!("the body holds `{REDACTED}`: its secret was not kept in the record"),
            "give it again",
        );
    }
    for (key, path) in [("api.path", &draft.path), ("api.readiness.path", &draft.readiness.path)] {
        if let Some(path) = path
            && (!path.starts_with('/') || path.contains(char::is_whitespace))
        {
            faults.add(key, format!("`{path}` is no path"), "a path begins with `/` and holds no spaces");
        }
    }
    if draft.model.as_ref().is_some_and(String::is_empty) {
        faults.add(
            "api.model",
            "the model's name is empty",
            "a name, or none: then the server's only model is used",
        );
    }
    let sampling = Sampling {
        temperature: draft.sampling.temperature,
        top_p: draft.sampling.top_p,
        top_k: draft.sampling.top_k,
        seed: draft.sampling.seed,
        stop: draft.sampling.stop.unwrap_or_default(),
    };
    if sampling.temperature.is_some_and(|t| !(0.0..=100.0).contains(&t)) {
        faults.add("api.sampling.temperature", "the temperature must be 0 or more", "for example 0 or 0.7");
    }
    if sampling.top_p.is_some_and(|p| !(p > 0.0 && p <= 1.0)) {
        faults.add("api.sampling.top_p", "top_p must be above 0 and at most 1", "for example 0.95");
    }
    let stream = draft.stream.unwrap_or(true);
    Api {
        dialect: draft.dialect.unwrap_or(Dialect::Chat),
        stream,
        model: draft.model,
        path: draft.path,
        headers: draft.headers,
        key: draft.key,
        extra_body: draft.extra_body,
        sampling,
        length: LengthControl {
            field: draft.length.field.unwrap_or(MaxField::MaxTokens),
            force: draft.length.force.unwrap_or(Force::Auto),
        },
        ask_usage: draft.ask_usage.unwrap_or(true),
        readiness: Readiness {
            check: draft.readiness.check.unwrap_or(true),
            path: draft.readiness.path.unwrap_or_else(|| "/v1/models".to_owned()),
            wait: draft.readiness.wait.unwrap_or(DEFAULT_WAIT),
        },
        tls: Tls { insecure: draft.tls.insecure.unwrap_or(false), cacert: draft.tls.cacert },
    }
}

fn timeouts(draft: TimeoutsDraft, faults: &mut Faults) -> Timeouts {
    let default = Timeouts::default();
    let timeouts = Timeouts {
        connect: draft.connect.unwrap_or(default.connect),
        first_token: draft.first_token.unwrap_or(default.first_token),
        idle: draft.idle.unwrap_or(default.idle),
        total: draft.total.unwrap_or(default.total),
    };
    for (key, limit) in [
        ("timeouts.connect", timeouts.connect),
        ("timeouts.first_token", timeouts.first_token),
        ("timeouts.idle", timeouts.idle),
        ("timeouts.total", timeouts.total),
    ] {
        if limit == Limit(Some(Nanos::ZERO)) {
            faults.add(
                key,
                "a time limit of 0s ends every request before it begins",
                "a time such as 30s, or `off`",
            );
        }
    }
    timeouts
}

fn check_slo(slo: &Slo, api: &Api, faults: &mut Faults) {
    if !(slo.attain > 0.0 && slo.attain <= 1.0) {
        faults.add(
            "slo.attain",
            format!("attain {}: the share of good requests must be above 0 and at most 1", slo.attain),
            "for example 95%",
        );
    }
    for (metric, text) in slo.limits() {
        if !api.stream && metric.needs_stream() {
            faults.add(
                "slo",
                format!(
                    "`{text}`: without a stream there is no {}, only the whole answer's time",
                    metric.name()
                ),
                "stream on, or a limit on e2e",
            );
        }
    }
}

/// A redacted record cannot be sent again as it stands.
fn refuse_redacted(key: &str, texts: &BTreeMap<String, String>, faults: &mut Faults) {
    for (name, value) in texts {
        if value == REDACTED {
            faults.add(
                key,
                format!("`{name}` is {REDACTED}: its secret was not kept in the record"),
                "give it again",
            );
        }
    }
}

fn holds_redacted(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::String(text) => text == REDACTED,
        serde_json::Value::Array(items) => items.iter().any(holds_redacted),
        serde_json::Value::Object(map) => map.values().any(holds_redacted),
        _ => false,
    }
}
