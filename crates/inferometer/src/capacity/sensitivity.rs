//! Further searches with other burstiness and other lengths: which there are, and the table of all.

use std::path::Path;

use anyhow::Result;
use decide::capacity::{CapacityAnswer, Change, Sensitivity, changes};
use spec::Spec;

use super::kept::{self, Asked, Over};
use crate::printer::Printer;

/// Runs the search of one change; `None`: it was not made.
type Search<'a> = &'a mut dyn FnMut(Change, &Asked, &Spec) -> Result<Option<Vec<CapacityAnswer>>>;

/// Makes the search of a folder again from its recorded probes.
type Again<'a> = &'a dyn Fn(&Path) -> Result<(Asked, Vec<CapacityAnswer>)>;

/// Says how many searches will be made beside the first.
pub fn announce(asked: &Asked, printer: &Printer) {
    if !asked.sensitivity {
        return;
    }
    let (all, left_out) = of(asked);
    let words: Vec<String> = all.iter().map(|change| change.words()).collect();
    let searches =
        if all.len() == 1 { "1 further search" } else { &format!("{} further searches", all.len()) };
    let told = format!("sensitivity: {searches} after this one: {}", words.join(", "));
    printer.say(&printer.style.plain(&told));
    for note in left_out {
        printer.say(&format!("sensitivity: {note}"));
    }
}

/// Makes the further searches, if they are asked for, and the table.
pub fn table(
    asked: &Asked,
    spec: &Spec,
    base: &[CapacityAnswer],
    printer: &Printer,
    search: Search<'_>,
) -> Result<Option<Sensitivity>> {
    if !asked.sensitivity {
        return Ok(None);
    }
    let (all, mut notes) = of(asked);
    let mut changed = Vec::new();
    for (number, change) in all.into_iter().enumerate() {
        printer.say(&printer.style.plain(&format!("\nsensitivity: {}", change.words())));
        let other = Asked { spec: with(&asked.spec, change, number), ..other(asked, change) };
        match search(change, &other, &with(spec, change, number))? {
            Some(answers) => changed.push((change, answers)),
            None => notes.push(format!("{}: not searched", change.words())),
        }
    }
    Ok(Some(Sensitivity::new(asked.over.searched(), &names(asked), base, &changed, notes)))
}

/// The table of a folder from the folders below it; none where there are none.
pub fn again(
    asked: &Asked,
    base: &[CapacityAnswer],
    folder: &Path,
    replay: Again<'_>,
) -> Result<Option<Sensitivity>> {
    let (all, mut notes) = of(asked);
    let mut changed = Vec::new();
    for change in all {
        let below = folder.join(change.slug());
        if kept::exists(&below) {
            changed.push((change, replay(&below)?.1));
        } else {
            notes.push(format!("{}: not searched", change.words()));
        }
    }
    if changed.is_empty() {
        return Ok(None);
    }
    Ok(Some(Sensitivity::new(asked.over.searched(), &names(asked), base, &changed, notes)))
}

fn names(asked: &Asked) -> Vec<Option<String>> {
    if asked.tiers.is_empty() {
        return vec![None];
    }
    asked.tiers.iter().map(|tier| Some(tier.name.clone())).collect()
}

fn of(asked: &Asked) -> (Vec<Change>, Vec<String>) {
    let workload = &asked.spec.workload;
    let numbers = [&workload.isl, &workload.osl].iter().all(|lengths| lengths.scaled(1.0).is_some());
    changes(asked.over.searched(), numbers)
}

fn other(asked: &Asked, change: Change) -> Asked {
    let over = match change {
        Change::Burstiness(burstiness) => Over::Rate { burstiness },
        Change::Lengths(_) => asked.over,
    };
    Asked { over, sensitivity: false, ..asked.clone() }
}

/// The spec under a change. It has a seed of its own, so that no prompt is sent twice.
fn with(spec: &Spec, change: Change, number: usize) -> Spec {
    let mut spec = spec.clone();
    spec.seed = spec::seed::mix(spec.seed ^ spec::seed::mix(0x5e45 + number as u64));
    if let Change::Lengths(factor) = change {
        let workload = &mut spec.workload;
        for lengths in [&mut workload.isl, &mut workload.osl] {
            // They are numbers, or there would be no such change.
            *lengths = lengths.scaled(factor).unwrap_or_else(|| lengths.clone());
        }
    }
    spec
}
