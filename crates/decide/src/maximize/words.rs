//! The answer in a sentence.

use spec::{Knob, Objective, Turn};

use super::answer::{AtSetting, Binds, KnobRange, Maximum};
use super::peak::SAME;
use crate::capacity::{CapacityAnswer, Settings, Verdict, bare, figure, load_words, process};

/// `isl 512, osl 128`.
pub fn setting(turns: &[Turn]) -> String {
    turns.iter().map(|t| format!("{} {}", t.dial.name(), t.value)).collect::<Vec<_>>().join(", ")
}

pub(super) fn sentence(settings: &Settings, maximum: &Maximum) -> String {
    let over = settings.over;
    let process = process(over);
    let limits: Vec<&str> = settings.criteria.iter().map(|c| c.text.as_str()).collect();
    let within = if limits.is_empty() { String::new() } else { format!(" with {}", limits.join(" and ")) };
    let unit = &maximum.unit;
    let Some((best, load)) = maximum.best.as_ref().and_then(|best| Some((best, best.load?))) else {
        return match maximum.verdict {
            Verdict::Unmet => {
                format!(
                    "{process} this server does not hold {} at any load that was tried",
                    limits.join(" and ")
                )
            }
            Verdict::ClientLimited => format!(
                "{process} nothing is known of the most {unit} that this server gives{within}: this client cannot load it"
            ),
            _ => format!("{process} nothing is known yet of the most {unit} that this server gives{within}"),
        };
    };
    let lower_bound = matches!(best.binds, Some(Binds::LargestLoad | Binds::Client));
    let amount = match (best.per_s, best.per_s_low, best.per_s_high) {
        (Some(value), Some(low), Some(high)) => {
            format!("{} {unit} ({}–{}, 95 % confidence)", figure(value), figure(low), figure(high))
        }
        (Some(value), _, _) => format!("{} {unit}", figure(value)),
        _ => format!("an unknown number of {unit}"),
    };
    let bracket = match (best.low, best.high) {
        _ if lower_bound => String::new(),
        (Some(low), Some(high)) => format!(" ({}–{})", bare(over, low), bare(over, high)),
        _ => String::new(),
    };
    let how_much = match maximum.verdict {
        _ if best.per_s.is_none() => "",
        Verdict::Resolved | Verdict::NotReached | Verdict::ClientLimited if lower_bound => " at least",
        Verdict::Resolved if best.binds != Some(Binds::Level) => " at most",
        _ => " about",
    };
    let knobs = match maximum.knobs.is_empty() {
        true => String::new(),
        false => {
            let each = maximum.knobs.iter().map(|k| match k.low == k.high {
                true => format!("{} {}", k.dial.name(), k.value),
                false => format!("{} {} ({}–{})", k.dial.name(), k.value, k.low, k.high),
            });
            format!(", {}", each.collect::<Vec<_>>().join(", "))
        }
    };
    let why = match best.binds {
        Some(Binds::Limit) => format!("; limited by {}", best.limited_by.as_deref().unwrap_or("a limit")),
        Some(Binds::Peak) => "; more load gives less".to_owned(),
        Some(Binds::Level) => format!("; more load gives at most {} % more", SAME * 100.0),
        Some(Binds::LargestLoad) => "; no higher load was tried".to_owned(),
        Some(Binds::Client) => "; this client cannot load it further".to_owned(),
        None => String::new(),
    };
    let good = best
        .goodput_per_s
        .map_or(String::new(), |good| format!("; goodput there {} requests/s", figure(good)));
    let open = match maximum.verdict {
        Verdict::Unresolved => "; not resolved",
        Verdict::Unstable => "; there is no single limit, and everything that was tried up to this load held",
        _ => "",
    };
    format!(
        "{process} this server gives{how_much} {amount} at {}{bracket}{knobs}{within}{why}{good}{open}",
        load_words(over, load)
    )
}

/// Where the throughput ends before the limits do, they are told beside it.
pub(super) fn beside(
    settings: &Settings,
    capacity: Option<&CapacityAnswer>,
    at: &AtSetting,
) -> Option<String> {
    let capacity = capacity.filter(|_| matches!(at.binds, Some(Binds::Peak | Binds::Level)))?;
    let held = capacity.value.or(capacity.low)?;
    Some(format!(
        "the limits hold further, up to about {}, where the throughput is less",
        load_words(settings.over, held)
    ))
}

/// Why a load is known and its throughput is not.
pub(super) fn unknown(objective: Objective, at: &AtSetting) -> Option<String> {
    if at.load.is_none() || at.per_s.is_some() {
        return None;
    }
    Some(match objective {
        Objective::TotalTokenThroughput => {
            "the throughput is not known: nobody counts input tokens, or too few requests ended well"
                .to_owned()
        }
        _ => "the throughput is not known: too few requests ended well near this load".to_owned(),
    })
}

/// Where the best stands at the end of what a knob may be.
pub(super) fn at_ends<'a>(knobs: &'a [Knob], best: &'a [KnobRange]) -> impl Iterator<Item = String> + 'a {
    let end = |(knob, at): (&Knob, &KnobRange)| {
        let (low, high) = knob.values.ends();
        let (name, value) = (at.dial.name(), at.value);
        match value {
            _ if value == low => {
                Some(format!("{name} {value} is the smallest that was allowed: less may give more"))
            }
            _ if value == high => {
                Some(format!("{name} {value} is the largest that was allowed: more may give more"))
            }
            _ => None,
        }
    };
    knobs.iter().zip(best).filter_map(end)
}
