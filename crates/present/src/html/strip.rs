//! The seconds in which the client was the bottleneck, as one strip for each cause.

use decide::words::clock_time;
use decide::{Cause, ClientWindows};
use maud::{Markup, html};
use spec::Nanos;

/// Nothing where the client kept up.
pub(super) fn strip(client: &ClientWindows, from: Nanos, to: Nanos) -> Markup {
    let span = to.saturating_since(from).0.max(1) as f64;
    let share = |at: Nanos| at.saturating_since(from).0 as f64 / span * 1000.0;
    html! {
        @if !client.limited.is_empty() {
            figure.fig {
                figcaption { b { "When the client was the bottleneck" } span { (client.words()) } }
                div.strip {
                    @for cause in Cause::ALL.into_iter().filter(|cause| spells(client, *cause).next().is_some()) {
                        span { (cause.words()) }
                        svg viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" aria-label=(sentence(client, cause)) {
                            title { (sentence(client, cause)) }
                            @for (a, b) in merged(spells(client, cause)) {
                                rect x=(format!("{:.1}", share(a))) y="0" width=(format!("{:.1}", (share(b) - share(a)).max(1.0))) height="10" {}
                            }
                        }
                    }
                    span {}
                    div.ax { span { (clock_time(from)) } span { (clock_time(to)) } }
                }
            }
        }
    }
}

fn spells(client: &ClientWindows, cause: Cause) -> impl Iterator<Item = (Nanos, Nanos)> + '_ {
    client.limited.iter().filter(move |w| w.causes.contains(&cause)).map(|w| (w.from_ns, w.to_ns))
}

/// Seconds that follow each other are one spell.
fn merged(spells: impl Iterator<Item = (Nanos, Nanos)>) -> Vec<(Nanos, Nanos)> {
    let mut out: Vec<(Nanos, Nanos)> = Vec::new();
    for (from, to) in spells {
        match out.last_mut() {
            Some(last) if last.1 >= from => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}

/// For those who cannot see it, at most a few spells.
fn sentence(client: &ClientWindows, cause: Cause) -> String {
    let all = merged(spells(client, cause));
    let told: Vec<String> =
        all.iter().take(6).map(|(a, b)| format!("{}–{}", clock_time(*a), clock_time(*b))).collect();
    let more = if all.len() > told.len() { ", …" } else { "" };
    format!("{}: {}{more}", cause.words(), told.join(", "))
}
