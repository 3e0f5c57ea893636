//! The page of a search.

use std::path::{Path, PathBuf};

use anyhow::Result;
use record::{RecordError, RunFolder};
use spec::{Burstiness, Dial};

use super::kept::{Asked, Over};
use super::{Answered, maximize, replayed};
use crate::cli::ReportArgs;
use crate::commands::write_page;
use crate::failure::Failure;
use crate::printer::Printer;

/// Writes the page of a search from its recorded probes.
pub fn report(args: &ReportArgs, printer: &Printer) -> Result<u8> {
    let found = replayed(&args.dir, &args.analysis)?;
    match &args.out {
        None => {
            let path = write(&args.dir, &found).map_err(Failure::request)?;
            printer.data(&path.display().to_string())?;
        }
        Some(path) => write_page(path, page(&found), printer)?,
    }
    Ok(0)
}

/// Writes the page of an answer into the folder of its search; gives the file.
pub fn write(folder: &Path, found: &Answered) -> Result<PathBuf, RecordError> {
    let folder = RunFolder::open(folder)?;
    folder.write_report(&page(found))?;
    Ok(folder.report())
}

/// The page of an answer.
fn page(found: &Answered) -> String {
    let command = format!("inferometer capacity {}", flags(&found.asked));
    present::html::capacity(&found.document(), &command)
}

/// What would ask the same, as flags.
fn flags(asked: &Asked) -> String {
    let spec = &asked.spec;
    let mut text = format!("'{}'", spec.target);
    match asked.over {
        Over::Rate { burstiness } => {
            text.push_str(" --over rate");
            if burstiness != Burstiness::POISSON {
                text.push_str(&format!(" --burstiness {}", burstiness.shape()));
            }
        }
        Over::Concurrency => text.push_str(" --over concurrency"),
        Over::Users { think } => text.push_str(&format!(" --over users --think {think}")),
    }
    let is_knob = |dial| asked.maximize.iter().flat_map(|m| &m.knobs).any(|knob| knob.dial == dial);
    for (dial, lengths) in [(Dial::Isl, &spec.workload.isl), (Dial::Osl, &spec.workload.osl)] {
        if !is_knob(dial) {
            text.push_str(&format!(" --{} {lengths}", dial.name()));
        }
    }
    let limit_flag = if asked.maximize.is_some() { "--subject-to" } else { "--slo" };
    if let Some(asked) = &asked.maximize {
        text.push_str(&maximize::flags(asked));
    }
    for (_, limit) in spec.slo.limits() {
        text.push_str(&format!(" {limit_flag} '{limit}'"));
    }
    if !spec.slo.joint.is_empty() {
        text.push_str(&format!(" --attain {}", spec.slo.attain));
    }
    for tier in &asked.tiers {
        text.push_str(&format!(" --tier '{tier}'"));
    }
    if asked.sensitivity {
        text.push_str(" --sensitivity");
    }
    let mut add = |flag: &str, value: Option<String>| {
        text.extend(value.map(|value| format!(" {flag} {value}")));
    };
    add("--quality", asked.quality.as_ref().map(|folder| folder.display().to_string()));
    add("--max", asked.max_load.map(|load| load.to_string()));
    add(
        "--width",
        Some(asked.width).filter(|width| width.total_cmp(&0.1).is_ne()).map(|width| width.to_string()),
    );
    add("--probes", asked.max_probes.map(|count| count.to_string()));
    add("--budget", asked.budget.map(|span| span.to_string()));
    add("--accelerators", asked.accelerators.map(|count| count.to_string()));
    add("--demand", asked.demand.map(|rate| format!("{}/s", rate.per_second())));
    text
}
