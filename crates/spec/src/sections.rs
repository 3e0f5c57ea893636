//! The sections of a draft: each key optional, read from a tree, laid over another.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::SpecError;
use crate::grammar::AnyLimit;
use crate::load::{Extent, Ramp, Warmup};
use crate::node::{Data, Node};
use crate::read::{Elsewhere, Reader};
use crate::schema;
use crate::slo::{JointLimit, MarginalLimit};
use crate::units::{Burstiness, Limit, Rate, Share, Span};
use crate::workload::{CacheProtocol, Lengths, Source, TokenizerChoice};
use crate::{Connections, Dialect, Force, KeySource, MaxField, PercentileRule, View};

/// A section: each key an optional value, read from a tree, laid over another.
macro_rules! section {
    ($(#[$meta:meta])* $name:ident {
        $($(#[$fmeta:meta])* $field:ident: $type:ty,)*
        $(=> $($(#[$nmeta:meta])* $nested:ident: $ntype:ident,)*)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$fmeta])* #[serde(default, skip_serializing_if = "Option::is_none")] pub $field: Option<$type>,)*
            $($($(#[$nmeta])* #[serde(default, skip_serializing_if = "is_default")] pub $nested: $ntype,)*)?
        }

        impl $name {
            /// The keys, as written in files.
            pub const KEYS: &'static [&'static str] =
                &[$(stringify!($field),)* $($(stringify!($nested),)*)?];

            pub(crate) fn read(&mut self, node: &Node, cx: &mut Reader<'_>) {
                cx.each(node, |cx, key, mark, value| match key {
                    $(stringify!($field) => cx.field(value, &mut self.$field),)*
                    $($(stringify!($nested) => self.$nested.read(value, cx),)*)?
                    _ => cx.unknown(mark, key, Self::KEYS, HOMES),
                });
            }

            /// This over `base`: what is given here wins, the rest is the base's.
            #[must_use]
            pub fn over(self, base: Self) -> Self {
                Self {
                    $($field: self.$field.or(base.$field),)*
                    $($($nested: self.$nested.over(base.$nested),)*)?
                }
            }
        }
    };
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

section!(
    /// Sampling parameters; only those set are sent.
    SamplingDraft {
        /// Temperature.
        temperature: f64,
        /// Nucleus sampling.
        top_p: f64,
        /// Top-k sampling.
        top_k: u32,
        /// The server's sampling seed.
        seed: i64,
        /// Stop strings.
        #[schemars(schema_with = "schema::one_or_more_texts")]
        stop: Vec<String>,
    }
);
section!(
    /// How the output length is controlled.
    LengthDraft {
        /// The field that carries the limit. Default: `max_tokens`.
        field: MaxField,
        /// How an exact length is forced. Default: `auto`.
        force: Force,
    }
);
section!(
    /// Check before the run that the server answers.
    ReadinessDraft {
        /// Whether to check at all. Default: yes.
        check: bool,
        /// The path asked. Default: `/v1/models`.
        path: String,
        /// How long to wait for a good answer. Default: 10s.
        wait: Span,
    }
);
section!(
    /// TLS options.
    TlsDraft {
        /// Accept any certificate. Default: no.
        insecure: bool,
        /// Additional roots, PEM.
        cacert: PathBuf,
    }
);
section!(
    /// What is in a request.
    WorkloadDraft {
        /// Where prompts come from: `synthetic` (default), `jsonl:PATH`, `sharegpt:PATH`.
        #[schemars(schema_with = "schema::text_or::<Source>")]
        source: Source,
        /// Input length in tokens: `512`, `100..500`, `normal(512,64)`, `lognormal(512,300,max=2048)`,
        /// `file:PATH`, `data`. Default: 512, with a data set `data`.
        #[schemars(schema_with = "schema::number_text_or::<Lengths>")]
        isl: Lengths,
        /// Output length in tokens, in the same forms. Default: 128, with a data set `data`.
        #[schemars(schema_with = "schema::number_text_or::<Lengths>")]
        osl: Lengths,
        /// What prompts share: `unique` (default), `shared-prefix:TOKENS/GROUPS`, `repeat:PROMPTS`.
        #[schemars(schema_with = "schema::text_or::<CacheProtocol>")]
        cache: CacheProtocol,
        /// Who counts tokens: `auto` (default), `none`, a vocabulary's name, `file:PATH`.
        #[schemars(schema_with = "schema::text_or::<TokenizerChoice>")]
        tokenizer: TokenizerChoice,
    }
);
section!(
    /// When requests leave: `rate` (open loop) or `concurrency` (closed loop). Default: concurrency 1.
    LoadDraft {
        /// Open loop: mean arrivals per second; `inf`: all at once.
        rate: Rate,
        /// Gamma shape of the gaps. Default: 1, Poisson.
        burstiness: Burstiness,
        /// Open loop: at most this many in flight.
        cap: u32,
        /// Grow linearly from another rate at the start: `FROM:TIME`, for example `1/s:30s`.
        #[schemars(schema_with = "schema::text_or::<Ramp>")]
        ramp: Ramp,
        /// Closed loop: users.
        concurrency: u32,
        /// Closed loop: pause of a user between an answer and the next request. Default: 0s.
        think: Span,
        /// Closed loop: the users begin one after another, evenly over this time. Default: 0s, all at once.
        start_over: Span,
    }
);
section!(
    /// Warm-up, measurement, drain.
    PhasesDraft {
        /// How the warm-up ends: a time, `20 requests`, or `none`. Default: closed loop, two requests
        /// a user; open loop, a tenth of the measurement and at most 10s; none when all leave at once.
        #[schemars(schema_with = "schema::text_or::<Warmup>")]
        warmup: Warmup,
        /// How the measurement ends: a time or `500 requests`. Default: 30s.
        #[schemars(schema_with = "schema::text_or::<Extent>")]
        measure: Extent,
        /// Grace for open requests after the last send. Default: 30s.
        drain: Span,
    }
);
section!(
    /// Every time limit of a request; each can be `off`.
    TimeoutsDraft {
        /// Until the connection stands, TLS included. Default: 10s.
        connect: Limit,
        /// From the first byte written to the first output. Default: 300s.
        first_token: Limit,
        /// Without any byte, once the answer has begun. Default: 60s.
        idle: Limit,
        /// From the first byte written to the end. Default: off.
        total: Limit,
    }
);
section!(
    /// The measuring side.
    ClientDraft {
        /// Sending threads. Default: 1.
        lanes: u16,
        /// Connection policy: `keepalive` (default), `fresh`, `prewarmed:N`.
        #[schemars(schema_with = "schema::text_or::<Connections>")]
        connections: Connections,
        /// Take receive times from the kernel where it gives them. Default: yes.
        kernel_stamps: bool,
        /// Attempts beyond the first for a failed request. Default: 0.
        retries: u32,
        /// Keep prompt and answer texts in the journal. Default: no.
        keep_text: bool,
        /// Between two readings of the server's metrics, where it has them; `off`: not while the run
        /// goes on. Default: 1s.
        metrics_every: Limit,
        /// Each lane and the pacer on a core of its own. Default: no.
        pin: bool,
        /// Lanes and pacer under `SCHED_FIFO`, memory locked. Default: no.
        realtime: bool,
        /// Source addresses of connections, used in turn. Default: the system chooses.
        #[schemars(schema_with = "schema::one_or_more_texts")]
        bind: Vec<IpAddr>,
        /// Unix socket that is spoken to; the target gives the `host` header and the path.
        unix: PathBuf,
        /// Speak HTTP/2, one request at a time on a connection. Default: no.
        http2: bool,
    }
);
section!(
    /// How numbers are computed from the records.
    AnalysisDraft {
        /// Percentile rule. Default: `linear`.
        percentile: PercentileRule,
        /// Where latencies start. Default: `user` in open loop, `server` in closed loop.
        view: View,
    }
);

/// How the server is spoken to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiDraft {
    /// The protocol: `chat` (default) or `completions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// Ask for a stream. Default: yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Model name sent. Default: the only one that the server offers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Path instead of the protocol's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Extra headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::texts")]
    pub headers: BTreeMap<String, String>,
    /// Where the API key is read from: `env:VARIABLE` or `file:PATH`.
    #[schemars(schema_with = "schema::text_or::<KeySource>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeySource>,
    /// Fields merged over the request body.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra_body: Map<String, Value>,
    /// Sampling parameters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sampling: SamplingDraft,
    /// How the output length is controlled.
    #[serde(default, skip_serializing_if = "is_default")]
    pub length: LengthDraft,
    /// Ask for `stream_options.include_usage`. Default: yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask_usage: Option<bool>,
    /// Check before the run that the server answers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub readiness: ReadinessDraft,
    /// TLS options.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: TlsDraft,
}

impl ApiDraft {
    /// The keys, as written in files.
    pub const KEYS: &'static [&'static str] = &[
        "dialect",
        "stream",
        "model",
        "path",
        "headers",
        "key",
        "extra_body",
        "sampling",
        "length",
        "ask_usage",
        "readiness",
        "tls",
    ];

    pub(crate) fn read(&mut self, node: &Node, cx: &mut Reader<'_>) {
        cx.each(node, |cx, key, mark, value| match key {
            "dialect" => cx.field(value, &mut self.dialect),
            "stream" => cx.field(value, &mut self.stream),
            "model" => cx.field(value, &mut self.model),
            "path" => cx.field(value, &mut self.path),
            "headers" => cx.texts(value, &mut self.headers),
            "key" => cx.field(value, &mut self.key),
            "extra_body" => {
                let mut map: Option<Map<String, Value>> = None;
                cx.field(value, &mut map);
                self.extra_body.extend(map.unwrap_or_default());
            }
            "sampling" => self.sampling.read(value, cx),
            "length" => self.length.read(value, cx),
            "ask_usage" => cx.field(value, &mut self.ask_usage),
            "readiness" => self.readiness.read(value, cx),
            "tls" => self.tls.read(value, cx),
            _ => cx.unknown(mark, key, Self::KEYS, HOMES),
        });
    }

    /// This over `base`; headers and body fields are merged, the rest is replaced.
    #[must_use]
    pub fn over(self, mut base: Self) -> Self {
        base.headers.extend(self.headers);
        base.extra_body.extend(self.extra_body);
        Self {
            dialect: self.dialect.or(base.dialect),
            stream: self.stream.or(base.stream),
            model: self.model.or(base.model),
            path: self.path.or(base.path),
            headers: base.headers,
            key: self.key.or(base.key),
            extra_body: base.extra_body,
            sampling: self.sampling.over(base.sampling),
            length: self.length.over(base.length),
            ask_usage: self.ask_usage.or(base.ask_usage),
            readiness: self.readiness.over(base.readiness),
            tls: self.tls.over(base.tls),
        }
    }
}

/// The limits that the answer is judged by: in files a list of them, or a map with `joint`,
/// `marginal` and `attain`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SloDraft {
    /// Every one must hold for a request to be good.
    pub joint: Vec<JointLimit>,
    /// Each is judged on its own.
    pub marginal: Vec<MarginalLimit>,
    /// Share of offered requests that must be good. Default: 95%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attain: Option<Share>,
}

impl SloDraft {
    /// The keys, as written in files.
    pub const KEYS: &'static [&'static str] = &["joint", "marginal", "attain"];

    /// Adds one limit, to the joint or to the marginal ones as its text says.
    pub fn add(&mut self, text: &str) -> Result<(), SpecError> {
        self.push(text.parse().map_err(|error: crate::ParseError| SpecError::from(error).at("slo"))?);
        Ok(())
    }

    fn push(&mut self, limit: AnyLimit) {
        match limit {
            AnyLimit::Joint(limit) => self.joint.push(limit),
            AnyLimit::Marginal(limit) => self.marginal.push(limit),
        }
    }

    pub(crate) fn read(&mut self, node: &Node, cx: &mut Reader<'_>) {
        if !matches!(node.data, Data::Map(_)) {
            return cx.limits(node, |limit| self.push(limit));
        }
        // Which list a limit stands in is a comment to the reader; its text says what it is.
        cx.each(node, |cx, key, mark, value| match key {
            "joint" | "marginal" => cx.limits(value, |limit| self.push(limit)),
            "attain" => cx.field(value, &mut self.attain),
            _ => cx.unknown(mark, key, Self::KEYS, HOMES),
        });
    }

    /// This over `base`: limits given here replace all of the base's.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        let attain = self.attain.or(base.attain);
        match self.joint.is_empty() && self.marginal.is_empty() {
            true => Self { attain, ..base },
            false => Self { attain, ..self },
        }
    }
}

/// Every section with its keys, to say where a key belongs.
pub(crate) const HOMES: Elsewhere = &[
    ("workload", WorkloadDraft::KEYS),
    ("load", LoadDraft::KEYS),
    ("phases", PhasesDraft::KEYS),
    ("api", ApiDraft::KEYS),
    ("timeouts", TimeoutsDraft::KEYS),
    ("client", ClientDraft::KEYS),
    ("slo", SloDraft::KEYS),
    ("analysis", AnalysisDraft::KEYS),
    ("api.sampling", SamplingDraft::KEYS),
    ("api.length", LengthDraft::KEYS),
    ("api.readiness", ReadinessDraft::KEYS),
    ("api.tls", TlsDraft::KEYS),
];
