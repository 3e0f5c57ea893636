//! What a person sees on the terminal after each kind of run.
#![allow(clippy::unwrap_used)]

mod common;

use present::{Style, terminal};

fn screen(run: &record::Run, width: u16) -> String {
    let (report, _) = common::report(run);
    terminal::run(&Style { width, ..Style::default() }, &report)
}

#[test]
fn valid_with_limits() {
    insta::assert_snapshot!("valid_80", screen(&common::valid(), 80));
    insta::assert_snapshot!("valid_120", screen(&common::valid(), 120));
}

#[test]
fn limited_by_the_client() {
    insta::assert_snapshot!("client_limited_80", screen(&common::client_limited(), 80));
}

#[test]
fn invalid() {
    insta::assert_snapshot!("invalid_80", screen(&common::invalid(), 80));
}

#[test]
fn overloaded() {
    let text = screen(&common::overloaded(), 80);
    assert!(text.contains("believe"), "a short block instead of a table of dashes: {text}");
    insta::assert_snapshot!("overloaded_80", text);
}

#[test]
fn all_failed() {
    insta::assert_snapshot!("all_failed_80", screen(&common::all_failed(), 80));
}

#[test]
fn some_failed() {
    insta::assert_snapshot!("some_failed_80", screen(&common::some_failed(), 80));
}

#[test]
fn a_single_request() {
    insta::assert_snapshot!("single_80", screen(&common::single(), 80));
}

#[test]
fn not_streamed() {
    insta::assert_snapshot!("not_streamed_80", screen(&common::not_streamed(), 80));
}

#[test]
fn ascii() {
    let (report, _) = common::report(&common::some_failed());
    let style = Style { ascii: true, ..Style::default() };
    let text = terminal::run(&style, &report);
    assert!(text.is_ascii(), "{text}");
    insta::assert_snapshot!("some_failed_ascii", text);
}

#[test]
fn a_passed_run_fits_a_screen() {
    assert!(screen(&common::without_limits(), 80).lines().count() <= 40);
}

#[test]
fn a_sweep() {
    let at = |width| terminal::sweep(&Style { width, ..Style::default() }, &common::sweep());
    insta::assert_snapshot!("sweep_80", at(80));
    insta::assert_snapshot!("sweep_120", at(120));
}

#[test]
fn a_partial_sweep() {
    insta::assert_snapshot!("sweep_partial_80", terminal::sweep(&Style::default(), &common::partial_sweep()));
}

#[test]
fn a_sweep_fits_ascii_and_any_width() {
    for (name, report) in common::sweeps() {
        let ascii = Style { ascii: true, ..Style::default() };
        assert!(terminal::sweep(&ascii, &report).is_ascii(), "{name}");
        for width in [60, 72, 80, 100, 120, 200] {
            let text = terminal::sweep(&Style { width, ..Style::default() }, &report);
            for line in text.lines() {
                assert!(line.chars().count() <= usize::from(width), "{name} at {width}: {line}");
            }
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{name}: {text:?}");
        }
    }
}

#[test]
fn nothing_is_wider_than_the_terminal() {
    for (name, run) in common::all() {
        for width in [60, 72, 80, 100, 120, 200] {
            for line in screen(&run, width).lines() {
                assert!(line.chars().count() <= usize::from(width), "{name} at {width}: {line}");
            }
        }
    }
}

#[test]
fn colour_only_repeats_what_stands_there() {
    let escape = |text: &str| {
        let mut out = String::new();
        let mut inside = false;
        for c in text.chars() {
            match c {
                '\u{1b}' => inside = true,
                'm' if inside => inside = false,
                c if !inside => out.push(c),
                _ => {}
            }
        }
        out
    };
    for (name, run) in common::all() {
        let (report, _) = common::report(&run);
        let coloured = terminal::run(&Style { color: true, ..Style::default() }, &report);
        assert!(coloured.contains("\u{1b}["), "{name}");
        assert_eq!(escape(&coloured), terminal::run(&Style::default(), &report), "{name}");
    }
}

#[test]
fn others_cannot_steer_the_terminal() {
    let text = screen(&common::hostile(), 80);
    assert!(text.contains("HTTP 500"), "{text}");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    assert!(!text.contains('\u{202e}'));
    let error = terminal::error(&Style::default(), "bad \u{1b}[2J answer");
    assert!(!error.contains('\u{1b}'), "{error:?}");
}

#[test]
fn what_is_withheld_is_not_shown() {
    let (report, _) = common::report(&common::invalid());
    assert_eq!(report.trust.verdict, decide::TrustVerdict::Invalid);
    let text = terminal::run(&Style::default(), &report);
    assert!(text.contains("withheld"), "{text}");
    assert!(!text.contains("alone"), "the margins of a withheld joint rate: {text}");
    assert!(!text.contains("TTFT    "), "{text}");
}

#[test]
fn an_error_says_its_word_and_its_hints() {
    let style = Style { color: true, ..Style::default() };
    let text =
        terminal::error(&style, "nothing answered\n\n  tried  GET /\nhint: inferometer run sim://fixed");
    assert_eq!(
        text,
        "\u{1b}[1;31merror:\u{1b}[0m nothing answered\n\n  tried  GET /\n\u{1b}[33mhint:\u{1b}[0m inferometer run sim://fixed"
    );
}

#[test]
fn comparisons() {
    for (name, report) in common::quality::all() {
        let style = Style { width: 80, ..Style::default() };
        insta::assert_snapshot!(format!("{name}_80"), terminal::quality(&style, &report));
        let ascii = terminal::quality(&Style { ascii: true, ..style }, &report);
        assert!(ascii.is_ascii(), "{name}: {ascii}");
    }
}
