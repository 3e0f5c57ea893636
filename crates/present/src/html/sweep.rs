//! The page of a sweep.

mod points;

use decide::sweep::{CrossingState, KneeState, Over, Point, Pooled, SweepReport, Trade};
use decide::words::{self, NBSP, TimeUnit, counted, decimals, fixed, number, percent, plain};
use decide::{CheckState, TrustVerdict};
use maud::{Markup, html};
use measure::{Estimate, Figure, percentile_name};
use spec::{Metric, Statistic};

use super::chart::{Chart, Sign, Vertical, figure};
use super::curve::{Band, Curve, LimitLine, Mark, Picture};
use super::scale::Scale;
use super::{Head, judged, notes, page};
use crate::label;

const SECTIONS: [(&str, &str); 9] = [
    ("trust", "Trust"),
    ("answer", "Answer"),
    ("slo", "Limits"),
    ("curves", "Curves"),
    ("trade", "Trade"),
    ("points", "Loads"),
    ("notes", "Notes"),
    ("spec", "Spec"),
    ("defs", "Definitions"),
];

/// The page of one sweep. `command` is what would measure it again; `links`: whether the pages of its
/// runs lie in the folders beside it.
pub fn sweep(report: &SweepReport, command: &str, links: bool) -> String {
    let spec = &report.asked.spec;
    let mut brand = vec![spec.target.to_string()];
    brand.extend(spec.labels.iter().map(|(key, value)| format!("{key} {value}")));
    let body = html! {
        (trust(report))
        (answer(report))
        (limits(report))
        (curves(report))
        (trade(report))
        (points::section(report, links))
        (notes(&report.notes))
        (points::spec(report))
        (points::definitions())
    };
    let title = title(report);
    let head = Head { kind: "sweep", title: &title, brand: &brand, command, sections: &SECTIONS };
    page(&head, &report.asked.tool_version, &body)
}

fn title(report: &SweepReport) -> String {
    let spec = &report.asked.spec;
    let name = spec.api.model.clone().unwrap_or_else(|| spec.target.to_string());
    let lengths =
        format!("{} in / {} out", words::lengths(&spec.workload.isl), words::lengths(&spec.workload.osl));
    let loads = counted(report.points.len() as u64, "load");
    match (report.points.first(), report.points.last()) {
        (Some(first), Some(last)) if report.points.len() > 1 => {
            format!(
                "{name}, {loads} from {} to {}, {lengths}",
                plain(first.load),
                report.over.words(last.load)
            )
        }
        _ => format!("{name}, {loads}, {lengths}"),
    }
}

fn trust(report: &SweepReport) -> Markup {
    let verdicts: Vec<Option<TrustVerdict>> =
        report.points.iter().map(|p| p.known().map(|pooled| pooled.trust.verdict)).collect();
    let of = |wanted: Option<TrustVerdict>| verdicts.iter().filter(|v| **v == wanted).count();
    let (valid, limited, unknown) =
        (of(Some(TrustVerdict::Valid)), of(Some(TrustVerdict::Limited)), of(None));
    let total = verdicts.len();
    let (class, word) = match (valid, unknown) {
        (valid, _) if valid == total => ("valid", "Valid"),
        (_, unknown) if unknown == total => ("invalid", "Invalid"),
        _ => ("limited", "Limited"),
    };
    let tally = format!("{valid} of {total} loads are valid, {limited} limited, {unknown} unknown");
    let meaning = match class {
        "valid" => "Every figure that is shown may be believed within its interval.",
        "invalid" => "Nothing may be concluded from the figures of this sweep.",
        _ => {
            "A limited load keeps the figures that its failed checks leave alone; of an unknown one nothing is concluded, and it is never taken for the server’s limit."
        }
    };
    html! {
        section id="trust" {
            h2 { "Can this measurement be believed?" }
            div class={ "verdict " (class) } role="status" {
                span.w { (word) ": " (tally) }
                p { (meaning) }
            }
            ul.checks {
                @for point in &report.points { (doubts(report.over, point)) }
            }
        }
    }
}

/// A load that is not valid, with what was wrong.
fn doubts(over: Over, point: &Point) -> Markup {
    let (class, sign, word, text, advice) = match &point.pooled {
        Err(why) => ("unknown", "?", "unknown", why.clone(), None),
        Ok(pooled) if pooled.trust.verdict == TrustVerdict::Valid => return html! {},
        Ok(pooled) => {
            let wrong: Vec<_> = pooled.trust.in_state(CheckState::Fail).collect();
            let list: Vec<String> =
                wrong.iter().map(|check| format!("{}: {}", check.id.label(), check.figure)).collect();
            let advice = wrong.first().and_then(|check| check.advice.clone());
            let text = if list.is_empty() {
                "a check on which the figures rest could not be made".to_owned()
            } else {
                list.join("; ")
            };
            ("unknown", "◇", "limited", text, advice)
        }
    };
    html! {
        li class={ (class) " wide" } {
            span.s role="img" title=(word) aria-label=(word) { (sign) }
            b { (over.words(point.load)) }
            span.f { (text) }
            @if let Some(advice) = advice { span.a { (advice) } }
        }
    }
}

fn answer(report: &SweepReport) -> Markup {
    let tiles = tiles(report);
    html! {
        section id="answer" {
            h2 { "Answer" }
            p.answer { (judged(&report.verdict.answer)) }
            @if !tiles.is_empty() {
                div.tiles style=(format!("--n:{}", tiles.len())) {
                    @for (name, value, unit, below) in &tiles {
                        div {
                            span.k { (name) }
                            span.v { (value) " " small { (unit) } }
                            span.c { (below) }
                        }
                    }
                }
            }
        }
    }
}

/// A load that was computed: whole users, rates with three digits.
fn load_words(over: Over, load: f64) -> String {
    let places = if over == Over::Concurrency { 0 } else { decimals(load) };
    fixed(load, places)
}

/// Name, value, unit, companion; five at most.
fn tiles(report: &SweepReport) -> Vec<(String, String, &'static str, String)> {
    let mut tiles = Vec::new();
    let unit = match report.over {
        Over::Concurrency => "users",
        Over::Rate => "requests/s",
    };
    if let Some(at) = report.knee.at {
        let shown = |load: f64| load_words(report.over, load);
        let below = format!("{}–{}, 95{NBSP}% interval", shown(at.low), shown(at.high));
        tiles.push(("Knee".to_owned(), shown(at.load), unit, below));
    }
    if let Some((load, peak)) = report.knee.peak {
        tiles.push((
            "Peak".to_owned(),
            number(peak),
            "requests/s",
            format!("at {}", report.over.words(load)),
        ));
    }
    for limit in report.limits.iter().take(3) {
        let crossing = &limit.crossing;
        if let Some(holds) = crossing.holds_up_to.filter(|_| crossing.state != CrossingState::NotMonotone) {
            let below = match crossing.missed_from {
                Some(missed) => format!("missed from {}", plain(missed)),
                None if crossing.open.is_empty() => "the largest load".to_owned(),
                None => "undecided above".to_owned(),
            };
            tiles.push((format!("{} holds up to", limit.limit), plain(holds), unit, below));
        }
    }
    tiles
}

fn limits(report: &SweepReport) -> Markup {
    html! {
        section id="slo" {
            h2 { "Limits" }
            @if report.limits.is_empty() {
                p.lead { "No limit was set. " code { "--slo 'p95(ttft)<=500ms'" } " sets one." }
            } @else {
                p.lead {
                    "Each limit is judged at each load that was measured, on all requests of its runs. It is crossed somewhere between \
                     two of these loads; where between them, a sweep does not say."
                }
                div.tw { table {
                    thead { tr {
                        th { "Limit" }
                        @for point in &report.points { th { (plain(point.load)) } }
                        th.l { "Crossed" }
                    } }
                    tbody {
                        @for (index, limit) in report.limits.iter().enumerate() {
                            tr {
                                td.wrap { b { (limit.limit) } }
                                @for point in &report.points { td { (points::sign(point, index)) } }
                                td.l.wrap { (limit.words) }
                            }
                        }
                    }
                } }
                (attainment(report))
            }
        }
    }
}

/// Attainment and goodput over load.
fn attainment(report: &SweepReport) -> Markup {
    let joint = |point: &Point| point.known().and_then(|pooled| pooled.slo.joint.clone());
    let Some(target) = report.points.iter().find_map(|point| joint(point).map(|j| j.target)) else {
        return html! {};
    };
    let shares: Vec<Mark> = report
        .points
        .iter()
        .filter_map(|point| {
            let joint = joint(point)?;
            let value = joint.attainment.value.or(joint.attainment.high)?;
            let title = format!("{}: {} within the limits", report.over.words(point.load), percent(value));
            let interval = (joint.attainment.low, joint.attainment.high);
            Some(Mark { load: point.load, value, interval, sign: Sign::of(joint.met), title })
        })
        .collect();
    let goodput: Vec<Mark> = report
        .points
        .iter()
        .filter_map(|point| {
            let joint = joint(point)?;
            let value = joint.goodput_per_s?;
            let title = format!("{}: {} good requests/s", report.over.words(point.load), number(value));
            Some(Mark { load: point.load, value, interval: (None, None), sign: Sign::of(joint.met), title })
        })
        .collect();
    let done = throughput_marks(report);
    let most = done.iter().map(|mark| mark.value).fold(0.0, f64::max);
    let first = report.limits.first().into_iter().collect::<Vec<_>>();
    let picture = |sentence: &str, curves: Vec<Curve>, limits, vertical| Picture {
        sentence: sentence.to_owned(),
        loads: loads(report),
        curves,
        limits,
        bands: bands(report, &first),
        knee: None,
        vertical,
    };
    let (attained, _) = picture(
        "Share of offered requests within the joint limits, over load",
        vec![Curve { class: "b", marks: shares, bare: false }],
        vec![LimitLine { value: target, label: format!("target {}", percent(target)) }],
        Some(Scale::linear(0.0, 1.04)),
    )
    .draw(percent);
    let (good, log) = picture(
        "Good requests per second over load",
        vec![
            Curve { class: "g", marks: done, bare: true },
            Curve { class: "b", marks: goodput, bare: false },
        ],
        Vec::new(),
        Some(Scale::linear(0.0, 1.06 * most)),
    )
    .draw(plain);
    html! {
        div.four style="margin-top:22px" {
            (figure("Attainment", &axis_words(report, "share of offered requests", false), &attained))
            (figure("Goodput", &axis_words(report, "good requests/s, dashed all completed", log), &good))
        }
    }
}

fn loads(report: &SweepReport) -> Vec<f64> {
    report.points.iter().map(|point| point.load).collect()
}

/// `requests/s over users, log scales`.
fn axis_words(report: &SweepReport, what: &str, log_y: bool) -> String {
    let over = match report.over {
        Over::Concurrency => "users",
        Over::Rate => "offered requests/s",
    };
    let log_x = Scale::of_loads(loads(report).into_iter()).is_log();
    let scale = match (log_x, log_y) {
        (true, true) => ", log scales",
        (true, false) => ", log scale of load",
        (false, true) => ", log scale of values",
        (false, false) => "",
    };
    format!("{what}, over {over}{scale}")
}

/// The crossings of these limits, and loads of which nothing is known.
fn bands(report: &SweepReport, limits: &[&decide::sweep::LimitCrossing]) -> Vec<Band> {
    let mut bands = Vec::new();
    for limit in limits {
        if let (CrossingState::Crossed, Some(from), Some(to)) =
            (limit.crossing.state, limit.crossing.holds_up_to, limit.crossing.missed_from)
        {
            let same = |band: &Band| band.from.total_cmp(&from).is_eq() && band.to.total_cmp(&to).is_eq();
            if !bands.iter().any(same) {
                bands.push(Band { class: "cx", from, to });
            }
        }
    }
    for point in report.points.iter().filter(|point| point.known().is_none()) {
        let (from, to) = (point.load * 0.96, point.load * 1.04);
        bands.push(Band { class: "unk", from, to });
    }
    bands
}

fn throughput_marks(report: &SweepReport) -> Vec<Mark> {
    let mark = |point: &Point| {
        let rate: Estimate = point.known()?.throughput.ok()?;
        let title = format!("{}: {} completed requests/s", report.over.words(point.load), number(rate.value));
        let interval = (rate.interval.low, rate.interval.high);
        Some(Mark { load: point.load, value: rate.value, interval, sign: Sign::Plain, title })
    };
    report.points.iter().filter_map(mark).collect()
}

fn curves(report: &SweepReport) -> Markup {
    html! {
        section id="curves" {
            h2 { "Throughput and latency against load" }
            p.lead {
                "Each mark is a load that was measured, with its 95" (NBSP) "% interval; lines only guide the eye. ● within the limit, ✕ beyond it, \
                 ◇ undecided. Red shade: between these two loads the limit is crossed. Grey: a load of which nothing is known."
            }
            div.four {
                (throughput(report))
                @for metric in [Metric::Ttft, Metric::Tpot, Metric::E2e] { (latency(report, metric)) }
            }
        }
    }
}

fn throughput(report: &SweepReport) -> Markup {
    let knee = &report.knee;
    let marks = throughput_marks(report);
    let title = match knee.state {
        KneeState::Found => "Throughput and its knee",
        KneeState::NotReached => "Throughput still grows at the largest load",
        KneeState::Collapse => "Throughput collapses beyond its peak",
        KneeState::None => "Throughput",
    };
    let mut bands = bands(report, &[]);
    if let Some(at) = knee.at {
        bands.push(Band { class: "kn", from: at.low, to: at.high });
    }
    let picture = Picture {
        sentence: report.knee_words.clone(),
        loads: loads(report),
        curves: vec![Curve { class: "b", marks, bare: false }],
        limits: Vec::new(),
        bands,
        knee: knee.at.map(|at| (at.load, format!("knee {}", load_words(report.over, at.load)))),
        vertical: None,
    };
    let (chart, log) = picture.draw(plain);
    figure(title, &axis_words(report, "completed requests/s", log), &chart)
}

/// p50 and p95 of one latency, with the limits on it.
fn latency(report: &SweepReport, metric: Metric) -> Markup {
    let spec = &report.asked.spec;
    let joint = spec.slo.joint.iter().filter(|l| l.metric == metric).map(|l| (l.value, String::new(), 0));
    let offset = usize::from(!spec.slo.joint.is_empty());
    let marginal =
        spec.slo.marginal.iter().enumerate().filter(|(_, l)| l.metric == metric).filter_map(|(i, l)| {
            let Statistic::Percentile(p) = l.statistic else { return None };
            Some((l.value, percentile_name(p), offset + i))
        });
    let limits: Vec<(f64, String, usize)> = joint.chain(marginal).collect();
    // The share that is drawn with signs: that of the first limit on a percentile, else p95.
    let share = spec.slo.marginal.iter().find_map(|l| match l.statistic {
        Statistic::Percentile(p) if l.metric == metric => Some(p),
        _ => None,
    });
    let judged = share.unwrap_or(0.95);
    let figures = |share: f64| -> Vec<(&Point, Estimate)> {
        let known = |point: &&Point| -> Option<Estimate> {
            let pooled: &Pooled = point.known()?;
            match pooled.measures.metrics.get(&metric)?.percentile(share)? {
                Figure::Known(e) => Some(*e),
                _ => None,
            }
        };
        report.points.iter().filter_map(|point| Some((point, known(&point)?))).collect()
    };
    let upper = figures(judged);
    let unit = TimeUnit::of(upper.get(upper.len() / 2).map_or(1e6, |(_, e)| e.value));
    let shown = |ns: f64| ns / unit.ns();
    let name = label::metric(metric);
    let marks = |share: f64, limit: Option<usize>| -> Vec<Mark> {
        figures(share)
            .into_iter()
            .map(|(point, e)| Mark {
                load: point.load,
                value: shown(e.value),
                interval: (e.interval.low.map(shown), e.interval.high.map(shown)),
                sign: limit.map_or(Sign::Plain, |index| Sign::of(point.met(index).0)),
                title: format!(
                    "{}: {name} {} {}",
                    report.over.words(point.load),
                    percentile_name(share),
                    words::time(e.value)
                ),
            })
            .collect()
    };
    if upper.is_empty() {
        return html! {
            figure.fig { figcaption { b { (name) } span { "no load has a " (percentile_name(judged)) ": too few requests, or withheld" } } }
        };
    }
    let of_limit =
        limits.iter().find(|(_, statistic, _)| *statistic == percentile_name(judged)).map(|(.., i)| *i);
    let mut curves = vec![Curve { class: "b", marks: marks(judged, of_limit), bare: false }];
    if judged > 0.5 {
        curves.insert(0, Curve { class: "g", marks: marks(0.5, None), bare: true });
    }
    let highest = upper.iter().map(|(_, e)| shown(e.value)).fold(0.0, f64::max);
    let near = |value: f64| shown(value) <= 4.0 * highest;
    let far: Vec<String> = limits
        .iter()
        .filter(|(value, ..)| !near(*value))
        .map(|(value, ..)| words::limit_time(*value))
        .collect();
    // Several joint limits are crossed together: by which of them, this picture cannot say.
    let alone = |index: usize| index >= offset || spec.slo.joint.len() == 1;
    let crossed: Vec<_> =
        limits.iter().filter(|(.., i)| alone(*i)).filter_map(|(.., i)| report.limits.get(*i)).collect();
    let picture = Picture {
        sentence: format!("{name} over load: {}", in_words(report, metric, judged)),
        loads: loads(report),
        curves,
        limits: limits
            .iter()
            .filter(|(value, ..)| near(*value))
            .map(|(value, statistic, _)| LimitLine {
                value: shown(*value),
                label: format!("{statistic} limit {}", words::limit_time(*value)).trim().to_owned(),
            })
            .collect(),
        bands: bands(report, &crossed),
        knee: None,
        vertical: None,
    };
    let (chart, log) = picture.draw(plain);
    let beyond =
        if far.is_empty() { String::new() } else { format!("; limit {} is beyond the axis", far.join(", ")) };
    let dashed = if judged > 0.5 { ", dashed p50" } else { "" };
    let what = format!("{} in {}{dashed}", percentile_name(judged), unit.symbol());
    figure(name, &format!("{}{beyond}", axis_words(report, &what, log)), &chart)
}

fn in_words(report: &SweepReport, metric: Metric, share: f64) -> String {
    let list: Vec<String> = report
        .points
        .iter()
        .filter_map(|point| {
            let value = point.known()?.measures.metrics.get(&metric)?.percentile(share)?.value()?;
            Some(format!("{} at {}", words::time(value), plain(point.load)))
        })
        .collect();
    format!("{} {}", percentile_name(share), list.join(", "))
}

/// Speed of one user against throughput of all.
fn trade(report: &SweepReport) -> Markup {
    let all = if report.asked.accelerators.is_some() {
        "output tokens/s an accelerator"
    } else {
        "output tokens/s of the whole server"
    };
    html! {
        section id="trade" {
            h2 { "What all get against what each gets" }
            @if report.trades.is_empty() {
                p.lead { "No load has both speeds: answers were not streamed, or the figures are withheld." }
            } @else {
                p.lead {
                    "Up: " (all) ". Right: median output speed of one user. ● on the Pareto front: no other load gives at least as much of \
                     both and more of one. ○ another load gives more of both. Nothing between the marks was measured."
                }
                (figure("Pareto front", &format!("{all}, over output tokens/s of one user; numbers are loads"), &front(report, all)))
            }
        }
    }
}

fn front(report: &SweepReport, all: &str) -> Chart {
    let x = Scale::of_spread(report.trades.iter().map(|t| t.per_user).collect::<Vec<_>>().into_iter());
    // Room above for the words.
    let together: Vec<f64> = report.trades.iter().flat_map(|t| [t.together, 1.2 * t.together]).collect();
    let y = Scale::of_latencies(together.into_iter());
    let words = |t: &Trade| {
        format!(
            "{}: {} {all}, {} tokens/s a user",
            report.over.words(t.load),
            number(t.together),
            number(t.per_user)
        )
    };
    let sentence: Vec<String> = report.front.iter().map(words).collect();
    let mut chart = Chart::new(
        format!("Pareto front: {}", sentence.join("; ")),
        260,
        x,
        Vertical::Values(y),
        plain,
        plain,
    );
    // Words below marks: a word's halo must not hide one.
    for trade in &report.trades {
        chart.word(trade.per_user, trade.together, &plain(trade.load));
    }
    for trade in &report.trades {
        let on = report.front.iter().any(|f| f.load.total_cmp(&trade.load).is_eq());
        let sign = if on { Sign::Plain } else { Sign::Hollow };
        chart.mark(trade.per_user, trade.together, (None, None), sign, &words(trade));
    }
    chart
}
