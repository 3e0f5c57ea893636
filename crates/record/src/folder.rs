//! The run folder: its name, its files, and writes that are whole or not there.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::value::RawValue;
use spec::secret::{redact_headers, redact_url};

use crate::error::RecordError;
use crate::scrub::Scrubber;

/// File name of the journal.
pub const JOURNAL: &str = "journal.jsonl.zst";
/// File name of the table of requests.
pub const REQUESTS: &str = "requests.parquet";
/// File name of the table of samples.
pub const TELEMETRY: &str = "telemetry.parquet";
/// Longest slug: a folder's name stays readable in a listing.
const SLUG_MAX: usize = 64;
/// Runs of one name that begin in the same second.
const MOST_ALIKE: u32 = 1000;

/// One run's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFolder {
    path: PathBuf,
}

/// The first request as it was sent. Its body is kept to the byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstRequest {
    /// `POST`.
    pub method: String,
    /// Address with path.
    pub url: String,
    /// Headers as sent; values of secret names are replaced when written.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
}

impl RunFolder {
    /// Makes `RUNS/STAMP-NAME`, for example `runs/2026-11-30T10-15-00Z-llama-8b-c32`; `-2`, `-3`, …
    /// is added when the name is taken. Parents are made too.
    ///
    /// `wall_ns` is wall time in nanoseconds since 1970, a label only.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn create(runs: &Path, wall_ns: u64, name: &str) -> Result<Self, RecordError> {
        Self::create_named(runs, &format!("{}-{}", folder_stamp(wall_ns)?, slug(name)))
    }

    /// Makes `RUNS/NAME`; `-2`, `-3`, … is added when the name is taken. Parents are made too.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn create_named(runs: &Path, name: &str) -> Result<Self, RecordError> {
        fs::create_dir_all(runs).map_err(RecordError::io("create", runs))?;
        let mut tried = runs.join(name);
        for nth in 2..=MOST_ALIKE {
            // Making a folder fails when it exists, so two runs can never share one.
            match fs::create_dir(&tried) {
                Ok(()) => return Ok(Self { path: tried }),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                    tried = runs.join(format!("{name}-{nth}"));
                }
                Err(e) => return Err(RecordError::io("create", &tried)(e)),
            }
        }
        let taken = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        Err(RecordError::io("create", &tried)(taken))
    }

    /// Makes this very folder, which must not exist or be empty.
    ///
    /// # Errors
    /// It holds something, or cannot be made.
    pub fn create_at(path: &Path) -> Result<Self, RecordError> {
        fs::create_dir_all(path).map_err(RecordError::io("create", path))?;
        if fs::read_dir(path).map_err(RecordError::io("read", path))?.next().is_some() {
            let taken = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(RecordError::io("use", path)(taken));
        }
        Ok(Self { path: path.to_owned() })
    }

    /// A folder that exists.
    ///
    /// # Errors
    /// There is no such folder.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        fs::read_dir(path).map_err(RecordError::io("open the run folder", path))?;
        Ok(Self { path: path.to_owned() })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// `journal.jsonl.zst`, the truth.
    pub fn journal(&self) -> PathBuf {
        self.path.join(JOURNAL)
    }
    /// `run.json`.
    pub fn run_json(&self) -> PathBuf {
        self.path.join("run.json")
    }
    /// `requests.parquet`.
    pub fn requests_parquet(&self) -> PathBuf {
        self.path.join(REQUESTS)
    }
    /// `telemetry.parquet`.
    pub fn telemetry_parquet(&self) -> PathBuf {
        self.path.join(TELEMETRY)
    }
    /// `report.html`.
    pub fn report(&self) -> PathBuf {
        self.path.join("report.html")
    }
    /// `first-request.json`.
    pub fn first_request(&self) -> PathBuf {
        self.path.join("first-request.json")
    }

    /// Writes `run.json`, indented. A number that is not finite becomes `null`: the file is strict
    /// JSON.
    ///
    /// # Errors
    /// The value is no JSON, or the file cannot be written; an earlier file stays as it was.
    pub fn write_run_json(&self, value: &impl Serialize) -> Result<(), RecordError> {
        write_json_file(&self.run_json(), value)
    }

    /// Writes `report.html`.
    ///
    /// # Errors
    /// The file cannot be written; an earlier file stays as it was.
    pub fn write_report(&self, html: &str) -> Result<(), RecordError> {
        write_atomic(&self.report(), html.as_bytes(), Private::No)
    }

    /// Keeps the first request, so that a user sees what was sent. Secrets are replaced; the file
    /// is readable by its owner only, since it holds a prompt.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep_first_request(&self, request: &FirstRequest, scrubber: &Scrubber) -> Result<(), RecordError> {
        let mut headers = request.headers.clone();
        redact_headers(&mut headers);
        headers.values_mut().for_each(|value| scrubber.scrub_in(value));
        let body = scrubber.scrub(&redact_body(&request.body));
        // JSON inside JSON keeps every byte; anything else is kept as a string.
        let (body, body_text) = match RawValue::from_string(body.clone()) {
            Ok(raw) => (Some(raw), None),
            Err(_) => (None, Some(body)),
        };
        #[derive(Serialize)]
        struct Kept {
            method: String,
            url: String,
            headers: BTreeMap<String, String>,
            #[serde(skip_serializing_if = "Option::is_none")]
            body: Option<Box<RawValue>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            body_text: Option<String>,
        }
        let url = scrubber.scrub(&redact_url(&request.url));
        let kept = Kept { method: request.method.clone(), url, headers, body, body_text };
        write_json(&self.first_request(), &kept, Private::Yes)
    }
}

/// The body with the values of fields whose names sound secret replaced; to the byte as it was where
/// there are none.
fn redact_body(body: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<serde_json::Value>(body) else { return body.to_owned() };
    let before = value.clone();
    spec::secret::redact_json(&mut value);
    if value == before { body.to_owned() } else { value.to_string() }
}

/// Whether only the owner may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Private {
    /// As the user's umask has it.
    No,
    /// Owner only.
    Yes,
}

/// Writes a whole JSON file, indented, or nothing.
///
/// # Errors
/// The value is no JSON, or the file cannot be written; an earlier file stays as it was.
pub fn write_json_file(path: &Path, value: &impl Serialize) -> Result<(), RecordError> {
    write_json(path, value, Private::No)
}

pub(crate) fn write_json(path: &Path, value: &impl Serialize, private: Private) -> Result<(), RecordError> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|e| RecordError::Unwritable { what: "a file of the run folder", reason: e.to_string() })?;
    text.push(b'\n');
    write_atomic(path, &text, private)
}

/// Writes a whole file or nothing: a neighbouring temporary file, synced, takes its place.
fn write_atomic(path: &Path, bytes: &[u8], private: Private) -> Result<(), RecordError> {
    replace(path, private, |file| file.write_all(bytes).map_err(RecordError::io("write", path)))
}

/// Lets `fill` write a temporary file, which then takes the place of `path`.
pub(crate) fn replace(
    path: &Path,
    private: Private,
    fill: impl FnOnce(&mut File) -> Result<(), RecordError>,
) -> Result<(), RecordError> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    if private == Private::Yes {
        self::private(&mut options);
    }
    let done = options.open(&temporary).map_err(RecordError::io("create", path)).and_then(|mut file| {
        fill(&mut file)?;
        file.sync_all().map_err(RecordError::io("sync", path))?;
        fs::rename(&temporary, path).map_err(RecordError::io("replace", path))
    });
    if done.is_err() {
        // Nothing half-written is left behind; if it cannot be removed, the first error says why.
        let _ = fs::remove_file(&temporary);
    }
    sync_parent(path);
    done
}

/// The new name survives a power cut too, where the file system can sync a folder.
fn sync_parent(path: &Path) {
    if let Some(Ok(folder)) = path.parent().map(File::open) {
        let _ = folder.sync_all();
    }
}

/// New files of these options are readable by the owner only.
pub(crate) fn private(options: &mut OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    #[cfg(not(unix))]
    let _ = options;
}

/// `2026-11-30T10-15-00Z`: sorts by time and has no character that a file system refuses.
///
/// # Errors
/// The time is beyond the year 9999.
pub fn folder_stamp(wall_ns: u64) -> Result<String, RecordError> {
    Ok(timestamp(wall_ns)?.strftime("%Y-%m-%dT%H-%M-%SZ").to_string())
}

/// RFC 3339 in UTC with milliseconds, for [`crate::Environment::started`].
///
/// # Errors
/// The time is beyond the year 9999.
pub fn rfc3339(wall_ns: u64) -> Result<String, RecordError> {
    Ok(timestamp(wall_ns)?.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string())
}

fn timestamp(wall_ns: u64) -> Result<jiff::Timestamp, RecordError> {
    jiff::Timestamp::from_nanosecond(i128::from(wall_ns)).map_err(|_| RecordError::WallTime { ns: wall_ns })
}

/// Lower-case letters, digits, dots and single dashes: `Llama 3.1 8B @ H100` → `llama-3.1-8b-h100`.
pub fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars() {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => slug.push(c),
            '.' if !slug.is_empty() && !slug.ends_with(['.', '-']) => slug.push('.'),
            _ if !slug.is_empty() && !slug.ends_with('-') => slug.push('-'),
            _ => {}
        }
    }
    slug.truncate(SLUG_MAX);
    let slug = slug.trim_end_matches(['-', '.']);
    if slug.is_empty() { "run".to_owned() } else { slug.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_796_033_700_000_000_000; // 2026-11-30T10:15:00Z

    #[test]
    fn stamps_are_utc() {
        assert_eq!(folder_stamp(NOW).unwrap(), "2026-11-30T10-15-00Z");
        assert_eq!(rfc3339(NOW + 7_999_999).unwrap(), "2026-11-30T10:15:00.007Z");
        assert_eq!(folder_stamp(0).unwrap(), "1970-01-01T00-00-00Z");
        // The largest u64 is the year 2554: every value has a date.
        assert!(folder_stamp(u64::MAX).unwrap().starts_with("2554-"));
    }

    #[test]
    fn slugs_are_safe_names() {
        for (name, expected) in [
            ("Llama 3.1 8B @ H100", "llama-3.1-8b-h100"),
            ("../../etc/passwd", "etc-passwd"),
            ("…", "run"),
            ("", "run"),
            ("a/b\\c:d", "a-b-c-d"),
            ("v1..", "v1"),
        ] {
            assert_eq!(slug(name), expected, "{name}");
        }
        assert_eq!(slug(&"x".repeat(500)).len(), SLUG_MAX);
    }

    #[test]
    fn runs_of_one_second_get_folders_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs");
        let made: Vec<PathBuf> =
            (0..3).map(|_| RunFolder::create(&runs, NOW, "c32").unwrap().path().to_owned()).collect();
        assert_eq!(made[0], runs.join("2026-11-30T10-15-00Z-c32"));
        assert_eq!(made[1], runs.join("2026-11-30T10-15-00Z-c32-2"));
        assert_eq!(made[2], runs.join("2026-11-30T10-15-00Z-c32-3"));
        assert!(RunFolder::create_at(&made[0]).is_ok());
        fs::write(made[0].join("x"), "x").unwrap();
        let error = RunFolder::create_at(&made[0]).unwrap_err().to_string();
        assert!(error.contains("never overwritten"), "{error}");
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("runs");
        fs::write(&file, "").unwrap();
        let error = RunFolder::create(&file, NOW, "x").unwrap_err().to_string();
        assert!(error.contains(&*file.to_string_lossy()), "{error}");
    }

    #[test]
    fn run_json_is_replaced_whole_and_strict() {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::open(dir.path()).unwrap();
        folder.write_run_json(&serde_json::json!({"a": 1})).unwrap();
        folder.write_run_json(&BTreeMap::from([("nan", f64::NAN), ("inf", f64::INFINITY)])).unwrap();
        let text = fs::read_to_string(folder.run_json()).unwrap();
        assert_eq!(text, "{\n  \"inf\": null,\n  \"nan\": null\n}\n");
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["run.json"], "no temporary file stays");
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        fs::write(&path, "old").unwrap();
        let failed = replace(&path, Private::No, |file| {
            file.write_all(b"half").map_err(RecordError::io("write", &path))?;
            let full = std::io::Error::from_raw_os_error(libc::ENOSPC);
            Err(RecordError::io("write", &path)(full))
        });
        assert!(failed.unwrap_err().to_string().contains("disk is full"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_first_request_keeps_its_bytes_and_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::open(dir.path()).unwrap();
        let body = r#"{"z":1.50,  "a":[1,2] ,"prompt":"héé"}"#;
        let headers = BTreeMap::from(
            [("Authorization", "Bearer sk-12345"), ("x-trace", "on behalf of sk-12345"), ("accept", "*/*")]
                .map(|(k, v)| (k.to_owned(), v.to_owned())),
        );
        let first = FirstRequest {
            method: "POST".to_owned(),
            url: "http://u:p@h/v1?key=sk-12345".to_owned(),
            headers,
            body: body.to_owned(),
        };
        folder.keep_first_request(&first, &Scrubber::new(["sk-12345".to_owned()])).unwrap();
        let text = fs::read_to_string(folder.first_request()).unwrap();
        assert!(text.contains(body), "{text}");
        assert!(!text.contains("sk-12345") && !text.contains("u:p"), "{text}");
        assert!(text.contains("*/*"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(folder.first_request()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let text_body = FirstRequest { body: "not json".to_owned(), ..first };
        folder.keep_first_request(&text_body, &Scrubber::default()).unwrap();
        let text = fs::read_to_string(folder.first_request()).unwrap();
        assert!(text.contains(r#""body_text": "not json""#), "{text}");
    }
}
