//! Writes a page and a screen of every kind of run, to be looked at:
//! `cargo run -p present --example gallery -- DIR`.
#![allow(clippy::unwrap_used)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::PathBuf;

use present::Style;

fn main() -> std::io::Result<()> {
    let dir = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "gallery".to_owned()));
    std::fs::create_dir_all(&dir)?;
    for (name, run) in common::all() {
        let (report, pictures) = common::report(&run);
        let page = present::html::run(&report, &pictures, "inferometer run -f DIR/run.json");
        std::fs::write(dir.join(format!("{name}.html")), page)?;
        for width in [60, 80, 120] {
            let style = Style { color: true, ascii: false, width };
            let screen = present::terminal::run(&style, &report);
            std::fs::write(dir.join(format!("{name}-{width}.txt")), screen + "\n")?;
        }
    }
    for (name, report) in common::sweeps() {
        let page = present::html::sweep(&report, "inferometer sweep URL --concurrency 1,2,4..256", true);
        std::fs::write(dir.join(format!("{name}.html")), page)?;
        for width in [60, 80, 120] {
            let style = Style { color: true, ascii: false, width };
            let screen = present::terminal::sweep(&style, &report);
            std::fs::write(dir.join(format!("{name}-{width}.txt")), screen + "\n")?;
        }
    }
    for (name, report) in common::quality::all() {
        std::fs::write(
            dir.join(format!("{name}.html")),
            present::html::quality(&report, &common::quality::OF),
        )?;
        for width in [60, 80, 120] {
            let style = Style { color: true, ascii: false, width };
            let screen = present::terminal::quality(&style, &report);
            std::fs::write(dir.join(format!("{name}-{width}.txt")), screen + "\n")?;
        }
    }
    for (name, document) in common::capacity::all().into_iter().chain(common::maximize::all()) {
        let command = "inferometer capacity URL --slo 'p95(ttft)<=250ms' --slo 'p95(tpot)<=40ms'";
        std::fs::write(dir.join(format!("{name}.html")), present::html::capacity(&document, command))?;
        for width in [60, 80, 120] {
            let style = Style { color: true, ascii: false, width };
            let screen = present::terminal::capacity(&style, &document);
            std::fs::write(dir.join(format!("{name}-{width}.txt")), screen + "\n")?;
        }
    }
    Ok(())
}
