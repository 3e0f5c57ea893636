//! LoadGen's `TestSettings`: every field, its default, its key in a conf file and that key's unit.

use crate::Scenario;

/// What a run is for: `mode` 0 to 3 of a conf file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Accuracy, then performance, in one log.
    SubmissionRun,
    /// Every sample once.
    AccuracyOnly,
    /// Timed.
    #[default]
    PerformanceOnly,
    /// The highest rate of Server that meets its latency limits.
    FindPeakPerformance,
}

impl Mode {
    /// In the order of their numbers in a conf file.
    pub const ALL: [Mode; 4] =
        [Mode::SubmissionRun, Mode::AccuracyOnly, Mode::PerformanceOnly, Mode::FindPeakPerformance];

    /// As the logs spell it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::SubmissionRun => "SubmissionRun",
            Mode::AccuracyOnly => "AccuracyOnly",
            Mode::PerformanceOnly => "PerformanceOnly",
            Mode::FindPeakPerformance => "FindPeakPerformance",
        }
    }

    /// Whether every sample is sent once for its answer.
    pub fn is_accurate(self) -> bool {
        matches!(self, Mode::SubmissionRun | Mode::AccuracyOnly)
    }

    /// Whether something is timed.
    pub fn is_timed(self) -> bool {
        self != Mode::AccuracyOnly
    }
}

/// What a setting holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// Yes or no; 1 or 0 in a conf file.
    Bool(bool),
    /// A whole number.
    Int(u64),
    /// A number.
    Real(f64),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Bool(yes) => write!(f, "{yes}"),
            Value::Int(n) => write!(f, "{n}"),
            Value::Real(x) => write!(f, "{x}"),
        }
    }
}

/// The type of a setting.
pub(crate) trait Held: Copy {
    fn value(self) -> Value;
    fn from_value(value: Value) -> Option<Self>;
    /// What a number of a conf file means in `unit`, or what is wrong with it.
    fn read(text: &str, unit: Unit) -> Result<Value, String>;
}

impl Held for bool {
    fn value(self) -> Value {
        Value::Bool(self)
    }
    fn from_value(value: Value) -> Option<Self> {
        if let Value::Bool(yes) = value { Some(yes) } else { None }
    }
    fn read(text: &str, _: Unit) -> Result<Value, String> {
        match whole(text) {
            Some(0) => Ok(Value::Bool(false)),
            Some(1) => Ok(Value::Bool(true)),
            _ => Err(format!("`{text}` is not 0 or 1")),
        }
    }
}

impl Held for u64 {
    fn value(self) -> Value {
        Value::Int(self)
    }
    fn from_value(value: Value) -> Option<Self> {
        if let Value::Int(n) = value { Some(n) } else { None }
    }
    fn read(text: &str, unit: Unit) -> Result<Value, String> {
        let scale = if unit == Unit::MillisAsNanos { 1_000_000 } else { 1 };
        let number = whole(text)
            .ok_or_else(|| format!("`{text}` is not a whole number; LoadGen would cut it without a word"))?;
        number.checked_mul(scale).map(Value::Int).ok_or_else(|| format!("`{text}` is too large"))
    }
}

impl Held for f64 {
    fn value(self) -> Value {
        Value::Real(self)
    }
    fn from_value(value: Value) -> Option<Self> {
        if let Value::Real(x) = value { Some(x) } else { None }
    }
    fn read(text: &str, unit: Unit) -> Result<Value, String> {
        let scale = match unit {
            Unit::MillisAsNanos => 1e6,
            Unit::Percent => 0.01,
            Unit::AsIs => 1.0,
        };
        let number = whole(text).map(|n| n as f64).or_else(|| text.parse().ok());
        match number {
            Some(x) if x.is_finite() && x >= 0.0 => Ok(Value::Real(x * scale)),
            _ => Err(format!("`{text}` is not a number from 0 on")),
        }
    }
}

/// A whole number as C reads it: a leading `0x` means hexadecimal, a leading 0 octal.
fn whole(text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(digits, 16).ok();
    }
    if text.len() > 1 && text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit()) {
        return u64::from_str_radix(text, 8).ok();
    }
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The unit of a key, where the setting has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// The same: a number, yes or no, or milliseconds in a setting of milliseconds.
    AsIs,
    /// Percent, kept as a share of one.
    Percent,
    /// Milliseconds, kept as nanoseconds.
    MillisAsNanos,
}

/// Under which scenario a key is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Under {
    /// That of the run.
    Run,
    /// This one, whatever the run's.
    This(Scenario),
}

/// Who may set a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetBy {
    /// Every conf file.
    Anyone,
    /// LoadGen's own mlperf.conf alone.
    Official,
}

/// The key of a setting in a conf file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The last part of `model.scenario.key`.
    pub name: &'static str,
    /// Under which scenario.
    pub under: Under,
    /// Its unit.
    pub unit: Unit,
    /// Who may set it.
    pub set_by: SetBy,
}

/// One setting.
pub struct Field {
    /// Its name in `TestSettings`.
    pub name: &'static str,
    /// Its key, if a conf file can set it.
    pub key: Option<Key>,
    /// The value of a settings struct.
    pub get: fn(&TestSettings) -> Value,
    pub(crate) set: fn(&mut TestSettings, Value),
    pub(crate) read: fn(&str, Unit) -> Result<Value, String>,
}

impl Field {
    /// Sets the field from a JSON value of its type; another changes nothing.
    pub fn set_json(&self, settings: &mut TestSettings, value: &serde_json::Value) {
        let value = match (self.get)(settings) {
            Value::Bool(_) => value.as_bool().map(Value::Bool),
            Value::Int(_) => value.as_u64().map(Value::Int),
            Value::Real(_) => value.as_f64().map(Value::Real),
        };
        if let Some(value) = value {
            (self.set)(settings, value);
        }
    }
}

macro_rules! under {
    (Run) => {
        Under::Run
    };
    ($scenario:ident) => {
        Under::This(Scenario::$scenario)
    };
}

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $default:expr
        $(, $scenario:ident . $key:literal $unit:ident $who:ident)?;)*) => {
        /// LoadGen's `TestSettings`: what a caller asks for.
        #[derive(Debug, Clone, PartialEq)]
        pub struct TestSettings {
            /// How queries follow each other.
            pub scenario: Scenario,
            /// What the run is for.
            pub mode: Mode,
            $($(#[$doc])* pub $name: $kind,)*
        }

        impl Default for TestSettings {
            fn default() -> Self {
                Self { scenario: Scenario::SingleStream, mode: Mode::default(), $($name: $default,)* }
            }
        }

        /// Every setting but scenario and mode, in the order of `TestSettings`.
        pub const FIELDS: &[Field] = &[$(Field {
            name: stringify!($name),
            key: {
                let key: &[Key] = &[$(Key {
                    name: $key,
                    under: under!($scenario),
                    unit: Unit::$unit,
                    set_by: SetBy::$who,
                })?];
                if key.is_empty() { None } else { Some(key[0]) }
            },
            get: |settings| settings.$name.value(),
            set: |settings, value| {
                if let Some(value) = <$kind as Held>::from_value(value) {
                    settings.$name = value;
                }
            },
            read: <$kind as Held>::read,
        },)*];
    };
}

settings! {
    /// SingleStream: the latency that is expected, ns; decides how many queries are made.
    single_stream_expected_latency_ns: f64 = 1e6, SingleStream."target_latency" MillisAsNanos Anyone;
    /// SingleStream: the percentile that is reported, as a share.
    single_stream_target_latency_percentile: f64 = 0.9, SingleStream."target_latency_percentile" Percent Anyone;
    /// MultiStream: the latency of a query that is expected, ns.
    multi_stream_expected_latency_ns: f64 = 8e6, MultiStream."target_latency" MillisAsNanos Anyone;
    /// MultiStream: the percentile that is reported, as a share.
    multi_stream_target_latency_percentile: f64 = 0.99, MultiStream."target_latency_percentile" Percent Anyone;
    /// MultiStream: samples of one query.
    multi_stream_samples_per_query: u64 = 8, MultiStream."samples_per_query" AsIs Anyone;
    /// Server: queries per second.
    server_target_qps: f64 = 1.0, Server."target_qps" AsIs Anyone;
    /// Server: the limit of the latency percentile, ns.
    server_target_latency_ns: u64 = 100_000_000, Server."target_latency" MillisAsNanos Anyone;
    /// Server: the percentile that must keep the limit, as a share.
    server_target_latency_percentile: f64 = 0.99, Server."target_latency_percentile" Percent Anyone;
    /// Server: queries that are already late go out together.
    server_coalesce_queries: bool = false, Server."coalesce_queries" AsIs Anyone;
    /// Server, search for the peak: decimals of the rate.
    server_find_peak_qps_decimals_of_precision: u64 = 1;
    /// Server, search for the peak: the share by which the rate is raised.
    server_find_peak_qps_boundary_step_size: f64 = 1.0;
    /// Server: more queries than this at once end the run; 0 never.
    server_max_async_queries: u64 = 0, Server."max_async_queries" AsIs Anyone;
    /// Server: threads that send; 0 is the caller's.
    server_num_issue_query_threads: u64 = 0;
    /// Offline: samples per second that are expected; decides how many there are.
    offline_expected_qps: f64 = 1.0, Offline."target_qps" AsIs Anyone;
    /// Every sample as often as any other.
    sample_concatenate_permutation: bool = false, Run."sample_concatenate_permutation" AsIs Anyone;
    /// The run goes on for at least so long, ms.
    min_duration_ms: u64 = 10_000, Run."min_duration" AsIs Anyone;
    /// The run ends after so long, ms; 0 never.
    max_duration_ms: u64 = 0, Run."max_duration" AsIs Anyone;
    /// There are at least so many queries (Offline: samples).
    min_query_count: u64 = 100, Run."min_query_count" AsIs Anyone;
    /// The run ends after so many queries; 0 never.
    max_query_count: u64 = 0, Run."max_query_count" AsIs Anyone;
    /// Seed of the loaded set.
    qsl_rng_seed: u64 = 0, Run."qsl_rng_seed" AsIs Official;
    /// Seed of the order of samples.
    sample_index_rng_seed: u64 = 0, Run."sample_index_rng_seed" AsIs Official;
    /// Seed of arrivals.
    schedule_rng_seed: u64 = 0, Run."schedule_rng_seed" AsIs Official;
    /// Seed of the choice of answers that the accuracy log of a timed run keeps.
    accuracy_log_rng_seed: u64 = 0, Run."accuracy_log_rng_seed" AsIs Anyone;
    /// The share of answers that the accuracy log of a timed run keeps.
    accuracy_log_probability: f64 = 0.0, Run."accuracy_log_probability" Percent Official;
    /// About how many answers the accuracy log of a timed run keeps; 0 leaves it to the share.
    accuracy_log_sampling_target: u64 = 0, Run."accuracy_log_sampling_target" AsIs Anyone;
    /// Timed, with the other seeds.
    test05: bool = false, Run."test05" AsIs Official;
    /// The other seed of the loaded set.
    test05_qsl_rng_seed: u64 = 0, Run."test05_qsl_rng_seed" AsIs Official;
    /// The other seed of the order of samples.
    test05_sample_index_rng_seed: u64 = 0, Run."test05_sample_index_rng_seed" AsIs Official;
    /// The other seed of arrivals.
    test05_schedule_rng_seed: u64 = 0, Run."test05_schedule_rng_seed" AsIs Official;
    /// LoadGen prints its clocks.
    print_timestamps: bool = false, Run."print_timestamps" AsIs Anyone;
    /// No sample twice.
    performance_issue_unique: bool = false, Run."performance_issue_unique" AsIs Anyone;
    /// One sample again and again.
    performance_issue_same: bool = false, Run."performance_issue_same" AsIs Anyone;
    /// Which one, as its place in the loaded set.
    performance_issue_same_index: u64 = 0, Run."performance_issue_same_index" AsIs Anyone;
    /// Samples that are loaded for a timed run; 0 leaves it to the data set.
    performance_sample_count_override: u64 = 0, Run."performance_sample_count_override" AsIs Anyone;
    /// Samples of an accuracy run; 0 is the whole data set.
    accuracy_sample_count_override: u64 = 0, Run."accuracy_sample_count_override" AsIs Anyone;
    /// First tokens and times per output token are measured, and Server is judged by them.
    use_token_latencies: bool = false, Run."use_token_latencies" AsIs Anyone;
    /// Server: the limit of the time to first token, ns.
    server_ttft_latency: u64 = 100_000_000, Server."ttft_latency" MillisAsNanos Anyone;
    /// Server: the limit of the time per output token, ns.
    server_tpot_latency: u64 = 100_000_000, Server."tpot_latency" MillisAsNanos Anyone;
    /// Tokens per second are samples per second times a factor.
    infer_token_latencies: bool = false, Run."infer_token_latencies" AsIs Anyone;
    /// The factor: tokens of a sample. LoadGen leaves it unset by default; here it is 0.
    token_latency_scaling_factor: u64 = 0, Run."token_latency_scaling_factor" AsIs Anyone;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        assert_eq!(whole("0x10"), Some(16));
        assert_eq!(whole("010"), Some(8));
        assert_eq!(whole("0"), Some(0));
        assert_eq!(whole("-1"), None);
        assert_eq!(u64::read("12", Unit::MillisAsNanos), Ok(Value::Int(12_000_000)));
        assert_eq!(f64::read("99.9", Unit::Percent), Ok(Value::Real(99.9 * 0.01)));
        for wrong in ["2.5", "1e3", "-4", "18446744073709551615"] {
            assert!(u64::read(wrong, Unit::MillisAsNanos).is_err(), "{wrong}");
        }
        assert!(bool::read("2", Unit::AsIs).is_err() && f64::read("nan", Unit::AsIs).is_err());
    }

    #[test]
    fn each_field_sets_itself_alone() {
        for field in FIELDS {
            let mut settings = TestSettings::default();
            let other = match (field.get)(&settings) {
                Value::Bool(yes) => Value::Bool(!yes),
                Value::Int(n) => Value::Int(n + 7),
                Value::Real(x) => Value::Real(x + 0.5),
            };
            (field.set)(&mut settings, other);
            let changed: Vec<&str> = FIELDS
                .iter()
                .filter(|f| (f.get)(&settings) != (f.get)(&TestSettings::default()))
                .map(|f| f.name)
                .collect();
            assert_eq!(changed, [field.name]);
        }
    }
}
