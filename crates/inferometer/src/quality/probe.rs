//! `inferometer quality probe`: what a server can be asked.

use anyhow::Result;
use decide::verdict::exit;
use present::Tone;
use quality::engine::{Mode, Probed, State};

use super::server::Site;
use crate::asked;
use crate::cli::{QualityProbeArgs, QualityServerArgs};
use crate::printer::Printer;

/// Most tokens of an answer; a probe's answers are short.
const ANSWER: u32 = 64;

/// Looks for every capability, and tells which way of scoring follows from them.
pub fn command(args: &QualityProbeArgs, printer: &Printer) -> Result<u8> {
    if args.server.dry_run {
        return dry(&args.server, serde_json::json!({}), printer);
    }
    let site = Site::open(&args.server, crate::signal::stop_flag()?)?;
    let probed = site.probe(&args.server, ANSWER)?;
    if args.server.json {
        let mut all = serde_json::to_value(&probed)?;
        let extra = site.spec.redacted().api.extra_body;
        all["manner"]["extra"] = extra.into();
        all["server"] = serde_json::to_value(site.fingerprint())?;
        all["retried"] = site.retried().into();
        printer.data(&serde_json::to_string_pretty(&all)?)?;
    }
    tell(&site, &probed, printer);
    let writes = [probed.state("chat"), probed.state("completions")].contains(&State::Yes);
    let scores = probed.manner.mode != Mode::GenerateOnly;
    Ok(if scores || writes { exit::HOLDS } else { exit::NOTHING })
}

/// What would be asked for, on stdout.
pub fn dry(args: &QualityServerArgs, asked: serde_json::Value, printer: &Printer) -> Result<u8> {
    let spec = asked::quality(args)?;
    crate::run::key(&spec)?;
    let all = serde_json::json!({ "target": spec.redacted().target.to_string(), "asked": asked });
    printer.data(&serde_json::to_string_pretty(&all)?)?;
    Ok(exit::HOLDS)
}

fn tell(site: &Site, probed: &Probed, printer: &Printer) {
    let style = &printer.style;
    let who = site.fingerprint();
    printer.say(&style.plain(&format!("{}  {}\n", who.url, who.model)));
    for finding in &probed.findings {
        let word = match finding.state {
            State::Yes => style.paint(Tone::Pass, "yes    "),
            State::No => style.paint(Tone::Fail, "no     "),
            State::Unknown => style.paint(Tone::Unsure, "unknown"),
        };
        printer.say(&format!("  {:<16} {word}  {}", finding.id, style.plain(&finding.words)));
    }
    let answer = match probed.cannot_score() {
        None => format!("This server can score: by {}.", probed.manner.mode.words()),
        Some(why) => format!("This server cannot score: {why}."),
    };
    printer.say(&format!("\n{}", style.plain(&answer)));
}
