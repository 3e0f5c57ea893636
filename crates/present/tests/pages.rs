//! What must hold of every HTML page.
#![allow(clippy::unwrap_used)]

mod common;

fn page(run: &record::Run) -> String {
    let (report, pictures) = common::report(run);
    present::html::run(&report, &pictures, "inferometer run -f DIR/run.json")
}

/// Walks over the tags: each must close the one that is open. Gives the attributes that were met.
fn attributes(html: &str) -> Vec<(String, String)> {
    const VOID: [&str; 2] = ["meta", "br"];
    let mut open: Vec<String> = Vec::new();
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(name) = rest.strip_prefix('/') {
            let (name, after) = name.split_once('>').unwrap();
            assert_eq!(open.pop().as_deref(), Some(name), "closing </{name}>");
            rest = after;
            continue;
        }
        if rest.starts_with('!') {
            rest = rest.split_once('>').unwrap().1;
            continue;
        }
        let end = rest.find([' ', '>']).unwrap();
        let name = rest[..end].to_owned();
        rest = &rest[end..];
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix('>') {
                rest = after;
                break;
            }
            let end = rest.find(['=', ' ', '>']).unwrap();
            let attribute = rest[..end].to_owned();
            rest = &rest[end..];
            let value = match rest.strip_prefix("=\"") {
                Some(after) => {
                    let (value, after) = after.split_once('"').unwrap();
                    rest = after;
                    value.to_owned()
                }
                None => String::new(),
            };
            found.push((attribute, value));
        }
        if name == "style" || name == "script" {
            let close = format!("</{name}>");
            rest = rest.split_once(close.as_str()).unwrap().1;
        } else if !VOID.contains(&name.as_str()) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    found
}

/// Nothing is loaded, links lead somewhere on the page, and pictures hold numbers.
fn assert_attributes(name: &str, html: &str) {
    for (attribute, value) in attributes(html) {
        assert!(!["src", "srcset", "action", "onload", "onclick"].contains(&attribute.as_str()), "{name}");
        if attribute == "href" {
            assert!(value.starts_with('#'), "{name}: {value}");
            assert!(html.contains(&format!("id=\"{}\"", &value[1..])), "{name}: {value} leads nowhere");
        }
        let number = ["d", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "style"];
        if number.contains(&attribute.as_str()) {
            assert!(!value.contains("NaN") && !value.contains("inf"), "{name}: {attribute}={value}");
        }
    }
}

#[test]
fn every_page_is_well_formed_and_loads_nothing() {
    for (name, run) in common::all() {
        let html = page(&run);
        assert_attributes(name, &html);
        for external in ["@import", "url(", "http-equiv", "<link", "<img", "<iframe"] {
            assert!(!html.contains(external), "{name}: {external}");
        }
        assert_eq!(html.matches("<script>").count(), 1, "{name}");
    }
}

#[test]
fn a_page_of_a_sweep_is_well_formed_and_links_to_its_runs_only() {
    for (name, report) in common::sweeps() {
        for links in [false, true] {
            let html = present::html::sweep(&report, "inferometer sweep URL", links);
            let mut linked = 0;
            for (attribute, value) in attributes(&html) {
                assert!(
                    !["src", "srcset", "action", "onload", "onclick"].contains(&attribute.as_str()),
                    "{name}"
                );
                if attribute == "href" && !value.starts_with('#') {
                    linked += 1;
                    assert!(value.ends_with("Z-m/report.html") && !value.contains(".."), "{name}: {value}");
                } else if attribute == "href" {
                    assert!(
                        html.contains(&format!("id=\"{}\"", &value[1..])),
                        "{name}: {value} leads nowhere"
                    );
                }
                if ["d", "x", "y", "x1", "x2", "y1", "y2", "width", "style"].contains(&attribute.as_str()) {
                    assert!(!value.contains("NaN") && !value.contains("inf"), "{name}: {attribute}={value}");
                }
            }
            let runs: usize = report.points.iter().map(|p| p.repeats.len()).sum();
            assert_eq!(linked, if links { runs } else { 0 }, "{name}");
            let pictures = html.matches("<svg class=\"plot\"").count();
            assert_eq!(html.matches("<svg class=\"plot\" role=\"img\" aria-label=\"").count(), pictures);
            assert!(!html.contains("aria-label=\"\""), "{name}");
            assert!(!html.contains("<script>alert") && html.len() < 300_000, "{name}: {}", html.len());
            assert!(!html.chars().any(|c| c.is_control() && c != '\n'), "{name}");
        }
    }
}

#[test]
fn a_page_of_a_search_is_well_formed_small_and_complete() {
    for (name, document) in common::capacity::all().into_iter().chain(common::maximize::all()) {
        let html = present::html::capacity(&document, "inferometer capacity URL");
        assert_attributes(name, &html);
        for undefined in ["NaN", ">inf<", "inf–", "–inf", "None<"] {
            assert!(!body(&html).contains(undefined), "{name}: {undefined}");
        }
        let pictures = html.matches("<svg class=\"plot\"").count();
        assert_eq!(
            html.matches("<svg class=\"plot\" role=\"img\" aria-label=\"").count(),
            pictures,
            "{name}"
        );
        assert!(!html.contains("aria-label=\"\""), "{name}");
        assert!(html.len() < 300_000, "{name}: {} bytes", html.len());
        assert_eq!(html.matches("<script>").count(), 1, "{name}: its own and nobody else's");
        assert!(!html.chars().any(|c| c.is_control() && c != '\n'), "{name}");
        assert!(!html.contains('\u{202e}'), "{name}");
    }
}

#[test]
fn tiers_stand_side_by_side_and_each_in_full() {
    let document = common::capacity::tiers();
    let html = present::html::capacity(&document, "c");
    let mut ids: Vec<&str> =
        html.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    ids.sort_unstable();
    let mut once = ids.clone();
    once.dedup();
    assert_eq!(ids, once, "anchors are unique");
    let links = html.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap());
    for link in links {
        assert!(ids.contains(&link), "#{link} leads nowhere");
    }
    let table = html.split("id=\"tiers\"").nth(1).unwrap().split("</table>").next().unwrap();
    assert_eq!(table.matches("<tr>").count(), 1 + 2, "{table}");
    for part in
        ["fast", "p95(ttft)<=150ms", "ttft<=500ms, tpot<=45ms", "for 90\u{a0}% of requests", "servers for"]
    {
        let part = part.replace('<', "&lt;");
        assert!(table.contains(&part), "{part} is not in {table}");
    }
    let changed = present::html::capacity(&common::capacity::sensitivity(), "c");
    let table = changed.split("id=\"sensitivity\"").nth(1).unwrap().split("</table>").next().unwrap();
    assert_eq!(table.matches("<tr>").count(), 1 + 5, "{table}");
    assert!(table.contains("constant gaps") && table.contains("the base") && table.contains("×\u{a0}1.00"));
}

/// The page without the text of the spec, which is JSON and has its own words.
fn body(html: &str) -> &str {
    html.split("<main>").nth(1).unwrap().split("The spec of a probe").next().unwrap()
}

#[test]
fn a_search_shows_its_bracket_in_every_picture_and_each_probe() {
    let document = common::capacity::resolved();
    let html = present::html::capacity(&document, "c");
    let spoilt = document.trust.client_limited_probes;
    assert!(spoilt > 0 && html.contains("1 was limited by this client and set aside"));
    // Per limit two, two latencies, two rates, the line and the ladder; the sample of the key is one more.
    assert_eq!(document.curves.len(), 2);
    assert_eq!(html.matches("class=\"kn\"").count(), 2 * 2 + 2 + 2 + 2);
    assert_eq!(html.matches("class=\"sw kn\"").count(), 1);
    let table = html.split("<section id=\"probes\"").nth(1).unwrap().split("<tbody>").nth(1).unwrap();
    assert_eq!(table.split("</tbody>").next().unwrap().matches("<tr>").count(), document.probes.len());
    // A check is no part of the fit, so the noise of the fit gives it no interval.
    let check = table.split("<tr>").find(|row| row.contains("check below")).unwrap();
    assert!(!check.contains("eff") && check.contains("0\u{a0}%"), "{check}");
    for part in
        [">Limited by<", "Servers for 120 requests/s", "5\u{a0}% may miss", "another process held both cores"]
    {
        assert!(html.contains(part), "{part}");
    }
    // A probe that says nothing of the server has no figure.
    let row = table.split("<tr>").find(|row| row.contains("client-limited")).unwrap();
    assert!(!row.contains("eff") && row.matches("–").count() >= 8, "{row}");
}

#[test]
fn a_maximisation_shows_its_sentence_first_and_every_load_of_its_curve() {
    for (name, document) in common::maximize::all() {
        let html = present::html::capacity(&document, "c");
        let maximum = document.maximum.as_ref().unwrap();
        let first = html.split("<h2>").nth(1).unwrap();
        assert!(first.contains(&maximum.sentence.replace('<', "&lt;")), "{name}: {}", maximum.sentence);
        assert!(first.contains(">Best load<"), "{name}");
        let known = maximum.points.iter().filter(|p| p.load.is_some() && p.per_s.is_some());
        let chart = first.split("class=\"plot\"").nth(1).unwrap();
        assert_eq!(chart.matches("class=\"mk").count(), known.count(), "{name}");
        assert_eq!(html.contains("id=\"trust\""), !document.probes.is_empty(), "{name}");
    }
    let listed = present::html::capacity(&common::maximize::listed(), "c");
    assert!(["osl 8<", "osl 32<", "osl 128<"].iter().all(|setting| listed.contains(setting)));
    assert!(present::html::capacity(&common::maximize::surveyed(), "c").contains("The survey spreads"));
}

#[test]
fn a_search_without_an_answer_shows_no_number_for_it() {
    let html = present::html::capacity(&common::capacity::nothing(), "c");
    assert!(html.contains("Nothing was measured") && html.contains("connection refused"));
    assert!(!html.contains("class=\"tiles\"") && !html.contains("class=\"yes\""));
    let unmet = present::html::capacity(&common::capacity::unmet(), "c");
    assert!(!unmet.contains(">Holds<") && unmet.contains("Missed already at"));
    assert!(!unmet.contains("Servers for"), "no number of servers holds what one does not");
}

#[test]
fn a_sweep_shows_its_limits_as_lines_and_crossings_as_bands() {
    let html = present::html::sweep(&common::sweep(), "c", true);
    for part in [
        "p95 limit 800\u{a0}ms",
        "class=\"kn\"",
        "class=\"cx\"",
        "target 95\u{a0}%",
        "Pareto front",
        ">knee ",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // What is unknown has no mark and no figure.
    assert!(html.contains("class=\"unk\"") && !html.contains("256 users: "));
}

#[test]
fn a_picture_has_a_sentence() {
    let html = page(&common::some_failed());
    let pictures = html.matches("<svg class=\"plot\"").count();
    assert!(pictures >= 10, "{pictures}");
    assert_eq!(html.matches("<svg class=\"plot\" role=\"img\" aria-label=\"").count(), pictures);
    assert!(!html.contains("aria-label=\"\""));
}

#[test]
fn others_cannot_write_into_the_page() {
    let html = page(&common::hostile());
    assert!(html.contains("&lt;script&gt;alert("), "the text itself is shown");
    assert!(!html.contains("<script>alert"));
    assert!(!html.chars().any(|c| c.is_control() && c != '\n'));
    assert!(!html.contains('\u{202e}'));
}

#[test]
fn twenty_thousand_requests_stay_small() {
    let run = common::large();
    assert!(run.requests.len() > 20_000);
    let html = page(&run);
    assert!(html.contains("drawn, every failure and the extremes among them"));
    assert!(html.len() < 300_000, "{} bytes", html.len());
}

#[test]
fn the_order_is_trust_answer_limits_metrics_pictures() {
    let html = page(&common::valid());
    let at = |id: &str| html.find(&format!("<section id=\"{id}\"")).unwrap();
    let order = [
        "trust",
        "answer",
        "slo",
        "metrics",
        "dist",
        "time",
        "failures",
        "instrument",
        "notes",
        "spec",
        "defs",
    ];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])));
}

#[test]
fn what_is_withheld_is_in_no_tile_chart_or_margin() {
    let (report, pictures) = common::report(&common::invalid());
    let html = present::html::run(&report, &pictures, "c");
    let answer = html.split("<section id=\"answer\"").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(!answer.contains("class=\"tiles\""), "{answer}");
    let limits = html.split("<section id=\"slo\"").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(limits.contains("Not judged") && !limits.contains("Joint and marginal"), "{limits}");

    assert!(!html.contains(" within</text>"));
}

#[test]
fn a_burst_is_spread_by_what_was_heard() {
    let html = page(&common::burst());
    assert!(html.contains("all at once") && html.contains("all were planned at once"));
    let dots = html.split("<path class=\"dot b big\" d=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(dots.matches('M').count() > 40, "{dots}");
}

#[test]
fn withheld_latencies_are_not_drawn() {
    let html = page(&common::overloaded());
    assert!(html.contains("Withheld: a failed check takes the latencies away."));
    assert!(html.contains("the percentiles are withheld"), "dots are named as raw observations");
}

#[test]
fn a_single_request_says_what_it_is() {
    let html = page(&common::single());
    assert!(html.contains("TTFT mean"), "no percentile of one request");
    assert!(html.contains("too few samples (1\u{a0}of\u{a0}6)"));
}

#[test]
fn a_page_of_a_comparison_is_well_formed_and_answers_first() {
    for (name, report) in common::quality::all() {
        let html = present::html::quality(&report, &common::quality::OF);
        assert_attributes(name, &html);
        assert!(html.len() < 300_000, "{name}: {} bytes", html.len());
        assert!(
            !html.contains("<script>alert") && !html.chars().any(|c| c.is_control() && c != '\n'),
            "{name}"
        );
        for undefined in ["NaN", ">inf<", "inf–", "–inf", "None<"] {
            assert!(!body(&html).contains(undefined), "{name}: {undefined}");
        }
        let answer = html.find("class=\"answer\"").unwrap();
        assert!(answer < html.find("id=\"tasks\"").unwrap(), "{name}");
        assert!(html[answer..].contains(report.verdict.word()), "{name}");
    }
}
