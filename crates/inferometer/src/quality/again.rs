//! The questions of a baseline, once more: to another server, or to the same under load.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, anyhow};
use quality::Item;
use quality::gate::{self, Report, Settings};
use spec::{Force, Limit, Nanos, Spec};

use super::journal::Kept;
use super::run::{self, Asking, Header};
use super::server::Site;
use super::suite;
use crate::cli::Progress;
use crate::failure::Failure;
use crate::printer::Printer;

/// Longest time of a question, where the spec sets none.
const LONGEST: Nanos = Nanos::from_secs(600);

/// A baseline: what was asked, and the answers that are the measure.
pub struct Baseline {
    folder: PathBuf,
    kept: Kept<Header, Item>,
}

impl Baseline {
    /// The one in a folder that `quality run` has made.
    pub fn read(folder: &Path) -> Result<Self> {
        let refuse = |why: &str| {
            Failure::request(anyhow!(
                "--quality {0} {why}\nhint: inferometer quality run URL --out {0}",
                folder.display()
            ))
        };
        if !folder.join(run::FILE).is_file() {
            return Err(refuse("holds no questions that could be asked again").into());
        }
        let kept = run::kept(folder)?;
        if !kept.complete {
            return Err(refuse("is not complete").into());
        }
        Ok(Self { folder: folder.to_owned(), kept })
    }

    /// Its folder, in words.
    pub fn name(&self) -> String {
        self.folder.display().to_string()
    }

    /// Its suite.
    pub fn suite(&self) -> &str {
        &self.kept.header.suite
    }

    /// Makes its questions for the server of a spec. A server that cannot answer them, or for which they would be others,
    /// is refused.
    pub fn at(self, spec: &Spec, stop: &Arc<AtomicBool>, printer: &Printer) -> Result<Again> {
        let mut spec = spec.clone();
        if spec.target.are_several() {
            return Err(Failure::request(anyhow!(
                "--quality asks one server, and there are several targets\n\
                 hint: search each alone, or ask each by inferometer quality run"
            ))
            .into());
        }
        // A question is answered whole, and as long as the model likes.
        spec.api.stream = false;
        spec.api.length.force = Force::None;
        spec.timeouts.total = Limit(spec.timeouts.total.0.or(Some(LONGEST)));
        let header = &self.kept.header;
        let site = Site::of(spec, Arc::clone(stop))?;
        let probed = site.probe_with(&header.prefix, header.max_tokens)?;
        let asking = Asking::prepare(&header.asked, None, site, probed)?;
        if suite::hash(&asking.units) != header.questions {
            return Err(Failure::request(anyhow!(
                "the questions of {0} are not those that {1} makes for this server: its tokenizer cuts otherwise, its \
                 context is another, or the task files have changed\n\
                 hint: make a baseline for it: inferometer quality run URL --suite {1} --out {0}-2",
                self.name(),
                header.suite
            ))
            .into());
        }
        if asking.probed.manner.mode != header.mode {
            let words = |mode| serde_json::to_value(mode).map_or_else(|_| String::new(), |v| v.to_string());
            printer.warn(&format!(
                "log-probabilities were got by {} for {}, and are now by {}",
                words(header.mode),
                self.name(),
                words(asking.probed.manner.mode)
            ));
        }
        Ok(Again { asking, baseline: self })
    }
}

/// A baseline's questions to a server.
pub struct Again {
    asking: Asking,
    /// The measure.
    pub baseline: Baseline,
}

impl Again {
    /// Asks what is not in `out` yet, so many at a time, and compares.
    pub fn ask(
        &self,
        out: &Path,
        concurrency: usize,
        printer: &Printer,
        progress: Progress,
    ) -> Result<Report> {
        let kept = &self.baseline.kept;
        let header = self.asking.header(&kept.header.asked, kept.header.max_tokens);
        let (_, items) = self.asking.answers(out, header, concurrency, printer, progress)?;
        Ok(gate::compare(&kept.entries, &items, None, &Settings::default()).map_err(Failure::request)?)
    }
}
