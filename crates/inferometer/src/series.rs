//! A folder of runs: each is an ordinary run folder inside it, made one after the other at one place,
//! and what is missing can be made later.

mod kept;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::Result;
use decide::RunReport;
use record::{Run, Stopped};
use serde::Serialize;
use serde::de::DeserializeOwned;
use spec::Spec;
use spec::seed::derived;

use crate::cli::Progress;
use crate::derived::keep_files;
use crate::failure::{Failure, NO_TARGET};
use crate::printer::Printer;
use crate::run::{Around, Site, measure_at};
use kept::{Kept, Step};

pub use kept::exists;

/// A folder of runs with the plan of all of them. `S` is what its owner keeps beside the plan.
pub struct Series<S> {
    path: PathBuf,
    kept: Kept<S>,
    whole: bool,
}

/// A run that was made, as its owner hears of it.
pub struct Made {
    /// What it says.
    pub report: RunReport,
}

/// Why runs are missing.
pub enum Ended {
    /// Ctrl-C, or a signal.
    Interrupted,
    /// The server does not answer any more, or runs could not be made: why, of the first.
    Failed(anyhow::Error),
}

impl<S: Serialize + DeserializeOwned> Series<S> {
    /// Makes the folder below `out`. The specs are those of the runs in their order; each run gets a
    /// seed of its own from `seed`.
    pub fn create(out: &Path, name: &str, seed: u64, settings: S, specs: &[Spec]) -> Result<Self> {
        let steps = specs.iter().map(|spec| Step::planned(spec.redacted())).collect();
        let kept = Kept::new(seed, settings, steps);
        let path = kept::create(out, name)?;
        let series = Self { path, kept, whole: true };
        series.save()?;
        Ok(series)
    }

    /// A folder that was made before.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self { path: path.to_owned(), kept: kept::read(path)?, whole: true })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What its owner keeps.
    pub fn settings(&self) -> &S {
        &self.kept.settings
    }

    /// From which every run has its own.
    pub fn seed(&self) -> u64 {
        self.kept.seed
    }

    /// The specs of all runs, in their order, without secrets.
    pub fn specs(&self) -> Vec<Spec> {
        self.kept.steps.iter().map(|step| step.spec.clone()).collect()
    }

    /// The runs that are to be made.
    pub fn missing(&self) -> Vec<usize> {
        let steps = self.kept.steps.iter().enumerate();
        steps.filter(|(_, step)| step.run.is_none()).map(|(index, _)| index).collect()
    }

    /// The folder of a run that was made, inside this one.
    pub fn name(&self, index: usize) -> Option<&str> {
        self.kept.steps.get(index)?.run.as_deref()
    }

    /// The records of a run that was made.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read(&self, name: &str) -> Result<Run> {
        record::read(&self.path.join(name)).map_err(|e| Failure::request(e).into())
    }

    /// Makes the runs that are missing. Each of `specs` is that of the run at its place, secrets
    /// included. `before` is told which run begins, `after` what came of it.
    pub fn make(
        &mut self,
        specs: &[Spec],
        site: &mut Site,
        around: &Around,
        (printer, progress): (&Printer, Progress),
        before: impl Fn(usize),
        after: impl Fn(&Made),
    ) -> Option<Ended> {
        let mut refused = None;
        for index in self.missing() {
            if around.stop.load(Ordering::Relaxed) {
                return Some(Ended::Interrupted);
            }
            let (Some(step), Some(spec)) = (self.kept.steps.get_mut(index), specs.get(index)) else {
                continue;
            };
            // Known before it is made: whatever becomes of it, its prompts are never sent again.
            step.attempts += 1;
            let path = format!("inferometer/series/1/{index}/{}", step.attempts);
            let spec = Spec { seed: derived(self.kept.seed, path.as_bytes()), ..spec.clone() };
            if let Err(error) = self.save() {
                return Some(self.cut_short(error));
            }
            before(index);
            let measured = match measure_at(site, spec, &self.path, printer, progress, around.clone()) {
                Ok(measured) => measured,
                Err(_) if around.stop.load(Ordering::Relaxed) => return Some(Ended::Interrupted),
                Err(error) if Failure::code_of(&error) == NO_TARGET => {
                    return Some(Ended::Failed(error));
                }
                // What this side cannot carry says nothing of the runs to come.
                Err(error) => {
                    printer.warn(&format!("this run is left out: {error:#}"));
                    refused.get_or_insert(error);
                    continue;
                }
            };
            let report = RunReport::build(&measured.run, &measured.run.header.spec.analysis);
            self.whole &= keep_files(&measured.folder, &measured.run, &report.to_json(), printer);
            match measured.run.footer.stopped {
                Stopped::Finished => {}
                Stopped::Interrupted => return Some(Ended::Interrupted),
                Stopped::Killed | Stopped::WriteError => {
                    let why = anyhow::anyhow!("the records of a run could not be written");
                    return Some(self.cut_short(why));
                }
            }
            if let (Some(step), Some(name)) =
                (self.kept.steps.get_mut(index), measured.folder.path().file_name())
            {
                step.run = Some(name.to_string_lossy().into_owned());
            }
            if let Err(error) = self.save() {
                return Some(self.cut_short(error));
            }
            after(&Made { report });
        }
        refused.map(Ended::Failed)
    }

    /// The disk takes no more: what was measured is told all the same.
    fn cut_short(&mut self, why: anyhow::Error) -> Ended {
        self.whole = false;
        Ended::Failed(why)
    }

    /// Whether every file of the runs that were made here could be written.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Takes the folder away again, if no run was ever begun in it.
    pub fn discard_if_empty(&self) {
        kept::discard_if_empty(&self.path);
    }

    fn save(&self) -> Result<()> {
        kept::write(&self.path, &self.kept)
    }
}
