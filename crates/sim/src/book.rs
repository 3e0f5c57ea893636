//! What `docs/sim.md` says about this crate: nothing that can be asked for is missing there.

use crate::TruthRow;
use crate::config::options::{BATCHING, COMMON, FIFO, FIXED};
use crate::faults::KINDS;
use crate::hardware::ACCELERATORS;
use crate::models::MODELS;
use crate::text::VOCABULARIES;

const BOOK: &str = include_str!("../../../docs/sim.md");

/// The first cells of the rows of the table with this heading.
fn table(heading: &str) -> Vec<&'static str> {
    let mut lines = BOOK.lines().skip_while(|line| !line.starts_with(&format!("| {heading} |")));
    assert!(lines.next().is_some(), "no table `{heading}`");
    lines
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .filter_map(|line| line.trim_start_matches("| ").split(" |").next())
        .collect()
}

fn sorted<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = names.into_iter().map(|n| format!("`{n}`")).collect();
    names.sort();
    names.dedup();
    names
}

/// The table has a row for each name, and no other row.
fn same(heading: &str, names: Vec<String>) {
    let mut rows: Vec<String> = table(heading).iter().map(|r| (*r).to_owned()).collect();
    rows.sort();
    assert_eq!(rows, names, "docs/sim.md, table `{heading}`");
}

#[test]
fn every_name_that_can_be_asked_for_is_in_the_book() {
    same("option", sorted([COMMON, FIXED, FIFO, BATCHING].concat()));
    same("kind", sorted(KINDS.iter().copied()));
    same("model", sorted(MODELS.iter().map(|m| m.name)));
    same("accelerator", sorted(ACCELERATORS.iter().map(|a| a.name)));
    for name in VOCABULARIES {
        assert!(BOOK.contains(&format!("`{name}`")), "{name}");
    }
    let row = serde_json::to_value(TruthRow::default()).unwrap();
    same("field", sorted(row.as_object().unwrap().keys().map(String::as_str)));
}

#[test]
fn every_fault_example_is_a_rule_of_its_kind() {
    let rows: Vec<(&str, &str)> = BOOK
        .lines()
        .skip_while(|line| !line.starts_with("| kind |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let mut cells = line.split(" | ").map(|c| c.trim_matches(['|', ' ', '`']));
            (cells.next().unwrap(), cells.next().unwrap())
        })
        .collect();
    assert_eq!(rows.len(), KINDS.len());
    for (kind, example) in rows {
        let rule: crate::FaultRule = example.parse().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(rule.fault.kind(), kind);
    }
}

#[test]
fn the_figures_of_the_tables_are_those_of_the_models() {
    let figure = |text: &str| text.replace(',', "").parse::<f64>().ok();
    for a in ACCELERATORS {
        let row = BOOK.lines().find(|l| l.starts_with(&format!("| `{}` |", a.name))).unwrap();
        let cells: Vec<Option<f64>> =
            row.trim_matches('|').split('|').skip(1).map(|c| figure(c.trim())).collect();
        let ours =
            [Some(a.bf16_tflops), a.fp8_tflops, Some(a.memory_gb), Some(a.memory_gb_s), Some(a.link_gb_s)];
        assert_eq!(cells, ours, "{}", a.name);
    }
    for m in MODELS {
        let row = BOOK.lines().find(|l| l.starts_with(&format!("| `{}` |", m.name))).unwrap();
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let size = if (m.active_b - m.params_b).abs() < 1e-9 {
            format!("{} B", m.params_b)
        } else {
            format!("{} B ({} B)", m.params_b, m.active_b)
        };
        assert_eq!((cells[1], figure(cells[2])), (size.as_str(), Some(f64::from(m.context))), "{}", m.name);
        assert_eq!((cells[3], cells[4]), (m.native.name(), m.vocabulary), "{}", m.name);
    }
}
