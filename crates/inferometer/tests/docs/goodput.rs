//! The fleets of `goodput.md` follow from the commands that the page shows.

use serde_json::Value;

use crate::console::stages;
use crate::page::{Block, Page, pages};
use crate::{inferometer, output};

/// The answers of the page's searches.
fn answers(page: &Page) -> Vec<Value> {
    let blocks = page.blocks();
    let consoles = blocks.iter().filter(|block| block.language == "console");
    let commands = consoles.map(|block: &Block| {
        let joined = block.lines.join("\n").replace("\\\n", " ");
        joined.lines().next().and_then(|line| line.strip_prefix("$ ")).expect("a command").to_owned()
    });
    commands
        .map(|command| {
            let words = stages(&command).swap_remove(0);
            let out = output(inferometer(words[1..].iter().map(String::as_str)).args(["--json", "--quiet"]));
            serde_json::from_slice(&out.stdout).expect("capacity.json on stdout")
        })
        .collect()
}

#[test]
fn three_fleets_for_one_demand() {
    let page = pages().into_iter().find(|page| page.name.ends_with("goodput.md")).expect("the page");
    let answers = answers(&page);
    let [holds, fails] = answers.as_slice() else { panic!("{} searches", answers.len()) };
    let number = |json: &Value, path: &str| json.pointer(path).and_then(Value::as_f64).expect("a number");
    assert_eq!(holds["answer"]["verdict"], "resolved");
    let demand = number(holds, "/fleet/demand_per_s");
    let (load, good) = (number(fails, "/answer/value"), number(fails, "/answer/goodput_per_s"));
    let (low, high) = (number(holds, "/answer/low"), number(holds, "/answer/high"));
    // At this load 28 of 100 are good.
    assert!((good / load - 0.28).abs() < 0.005, "{good} of {load}");
    let servers = |each: f64| (demand / each).ceil();
    let (naive, by_goodput) = (servers(load), servers(good));
    let fleet = (servers(high), servers(low));
    // The three differ by factors, not by what is not known of the capacity.
    assert!(naive * 1.1 < fleet.0 && fleet.1 * 2.0 < by_goodput, "{naive}, {fleet:?}, {by_goodput}");
    let figure = |x: f64| if x < 10.0 { format!("{x:.2}") } else { format!("{x:.1}") };
    for shown in [
        format!("| throughput | {} requests/s, whatever their latency | **{naive}** |", figure(load)),
        format!("| goodput at that load | {} good requests/s | **{by_goodput}** |", figure(good)),
        format!("| capacity | {}–{} requests/s | **{}–{}** |", figure(low), figure(high), fleet.0, fleet.1),
        format!(
            "at {:.0} % of what they could hold",
            100.0 * demand / by_goodput / number(holds, "/answer/value")
        ),
        format!(
            "Spread over {by_goodput} servers the same demand is\n{} requests a second",
            figure(demand / by_goodput)
        ),
    ] {
        assert!(page.text.contains(&shown), "the page does not say `{shown}`");
    }
}
