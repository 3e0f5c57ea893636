//! Which items of two journals belong together.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Hash, Item};

/// An item of the baseline, and the same of the new journal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair<'a> {
    /// Of the baseline.
    pub base: &'a Item,
    /// Of the new server; `None`: its journal does not have it.
    pub new: Option<&'a Item>,
    /// Number of the document: repeats of one share it.
    pub document: usize,
}

/// What was found when the items were paired.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pairing {
    /// Items of the baseline.
    pub base: u64,
    /// Items of the new journal.
    pub new: u64,
    /// Items of the baseline with a partner.
    pub paired: u64,
    /// Without one.
    pub missing: u64,
    /// Items of the new journal without a partner: not used.
    pub extra: u64,
    /// Pairs whose prompts differ.
    pub prompts_differ: u64,
    /// Pairs whose wanted answers differ: their scores are not compared.
    pub targets_differ: u64,
    /// Items of the baseline that failed: not used for scores.
    pub base_failed: u64,
    /// Items of the new journal that failed where the baseline did not: they count as lost.
    pub new_failed: u64,
    /// Tasks of the baseline that the new journal does not have.
    pub tasks_missing: Vec<String>,
    /// Tasks that only the new journal has: not used.
    pub tasks_extra: Vec<String>,
    /// Tasks of both that share not one document: not compared, since these are other data.
    pub tasks_unlike: Vec<String>,
}

/// A document may come twice in a task: its first repeat belongs to the first, and so on.
type Key<'a> = (&'a str, &'a Hash, u32, u32);

fn keyed(items: &[Item]) -> BTreeMap<Key<'_>, &Item> {
    let mut sorted: Vec<&Item> = items.iter().collect();
    sorted.sort_by_key(|item| (item.task.as_str(), item.doc, item.repeat));
    let mut seen: BTreeMap<(&str, &Hash, u32), u32> = BTreeMap::new();
    let mut out = BTreeMap::new();
    for item in sorted {
        let times = seen.entry((&item.task, &item.doc_hash, item.repeat)).or_insert(0);
        out.insert((item.task.as_str(), &item.doc_hash, item.repeat, *times), item);
        *times += 1;
    }
    out
}

/// Pairs by task, hash of the document and repeat, by task.
pub(crate) fn pair<'a>(base: &'a [Item], new: &'a [Item]) -> (BTreeMap<&'a str, Vec<Pair<'a>>>, Pairing) {
    let (base_items, mut new_items) = (keyed(base), keyed(new));
    let mut found = Pairing { base: base.len() as u64, new: new.len() as u64, ..Pairing::default() };
    let tasks = |items: &BTreeMap<Key<'a>, &'a Item>| -> std::collections::BTreeSet<&'a str> {
        items.keys().map(|(task, ..)| *task).collect()
    };
    let (base_tasks, new_tasks) = (tasks(&base_items), tasks(&new_items));
    found.tasks_missing = base_tasks.difference(&new_tasks).map(|t| (*t).to_owned()).collect();
    found.tasks_extra = new_tasks.difference(&base_tasks).map(|t| (*t).to_owned()).collect();
    let mut documents: BTreeMap<(&str, &Hash, u32), usize> = BTreeMap::new();
    let mut out: BTreeMap<&str, Vec<Pair<'_>>> = BTreeMap::new();
    for (key, item) in base_items {
        let partner = new_items.remove(&key);
        let (task, hash, _, times) = key;
        let count = documents.len();
        let document = *documents.entry((task, hash, times)).or_insert(count);
        found.base_failed += u64::from(item.failed());
        match partner {
            None => found.missing += 1,
            Some(partner) => {
                found.paired += 1;
                found.prompts_differ += u64::from(partner.prompt_hash != item.prompt_hash);
                found.targets_differ += u64::from(partner.target_hash != item.target_hash);
                found.new_failed += u64::from(partner.failed() && !item.failed());
            }
        }
        out.entry(task).or_default().push(Pair { base: item, new: partner, document });
    }
    found.extra = new_items.len() as u64;
    let unlike = |(task, pairs): &(&&str, &Vec<Pair<'_>>)| {
        new_tasks.contains(*task) && pairs.iter().all(|pair| pair.new.is_none())
    };
    found.tasks_unlike = out.iter().filter(unlike).map(|(task, _)| (*task).to_owned()).collect();
    out.retain(|task, _| !found.tasks_unlike.iter().any(|unlike| unlike == task));
    (out, found)
}
