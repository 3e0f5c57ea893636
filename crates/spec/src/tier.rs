//! A class of service: a name and limits of its own, `fast: p95(ttft)<=200ms`.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::ParseError;
use crate::slo::Slo;
use crate::units::Share;

const EXAMPLE: &str =
    "--tier 'fast: p95(ttft)<=200ms', or --tier 'fast: ttft<=200ms, tpot<=20ms, attain 95%'";

/// A class of service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tier {
    /// Letters, digits, `-` and `_`.
    pub name: String,
    /// What is promised to it.
    pub slo: Slo,
}

impl Tier {
    /// Reads `NAME: LIMIT[, LIMIT]…[, attain SHARE]`. `attain` is the share of requests that must be
    /// within all limits on requests, where the text does not say it.
    ///
    /// # Errors
    /// No name, no limit, a limit that is none, or a share that binds nothing.
    pub fn read(text: &str, attain: Option<Share>) -> Result<Self, ParseError> {
        let wrong = |what: String| ParseError::new(what).hint(EXAMPLE);
        let Some((name, limits)) = text.split_once(':') else {
            return Err(wrong(format!("`{text}` has no name: a tier is a name, a colon and its limits")));
        };
        let name = name.trim();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || !name.chars().all(plain) {
            return Err(wrong(format!(
                "`{name}` is no name for a tier: give letters, digits, `-` and `_` before the colon"
            )));
        }
        let mut slo = Slo::default();
        let mut own = None;
        for part in limits.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.strip_prefix("attain") {
                Some(share) if own.is_none() => {
                    own = Some(Share::from_str(share.trim_start_matches(['=', ' ']))?);
                }
                Some(_) => return Err(wrong(format!("tier `{name}` names its share twice"))),
                None => slo.add(part)?,
            }
        }
        if slo.is_empty() {
            return Err(wrong(format!("tier `{name}` has no limit")));
        }
        if own.is_some() && slo.joint.is_empty() {
            return Err(wrong(format!(
                "tier `{name}` has a share to attain, but only limits that name their own (as p95 does)"
            )));
        }
        if let Some(share) = own.or(attain) {
            slo.attain = share.value();
        }
        if slo.attain <= 0.0 {
            return Err(wrong(format!("tier `{name}`: the share to attain must be above 0")));
        }
        Ok(Self { name: name.to_owned(), slo })
    }

    /// Reads several.
    ///
    /// # Errors
    /// As [`Tier::read`]; or a name that was given before.
    pub fn read_all(texts: &[String], attain: Option<Share>) -> Result<Vec<Self>, ParseError> {
        let mut all: Vec<Self> = Vec::new();
        for text in texts {
            let tier = Self::read(text, attain)?;
            if all.iter().any(|other| other.name == tier.name) {
                let hint = format!("all limits of a tier stand in one text: --tier '{}: …, …'", tier.name);
                return Err(ParseError::new(format!("tier `{}` is given twice", tier.name)).hint(hint));
            }
            all.push(tier);
        }
        Ok(all)
    }
}

/// As it is read.
impl std::fmt::Display for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let limits = self.slo.limits().map(|(_, text)| text.to_owned());
        let share = (!self.slo.joint.is_empty()).then(|| format!("attain {}", self.slo.attain));
        let all: Vec<String> = limits.chain(share).collect();
        write!(f, "{}: {}", self.name, all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Tier, String> {
        Tier::read(text, None).map_err(|error| error.message)
    }

    #[test]
    fn a_tier_is_a_name_and_limits() {
        let fast = read("fast: p95(ttft)<=200ms").unwrap();
        assert_eq!((fast.name.as_str(), fast.slo.marginal.len(), fast.slo.joint.len()), ("fast", 1, 0));
        let joint = read(" a-1 :ttft<=200ms, tpot <= 20ms,p99(e2e)<=5s , attain 99%").unwrap();
        assert_eq!((joint.slo.joint.len(), joint.slo.marginal.len()), (2, 1));
        assert!((joint.slo.attain - 0.99).abs() < 1e-12);
        // What is written is read again.
        assert_eq!(read(&joint.to_string()).unwrap(), joint);
        assert_eq!(read(&fast.to_string()).unwrap(), fast);
        for (text, attain) in [("a: ttft<=1s", 0.9), ("a: ttft<=1s, attain=0.8", 0.8)] {
            let given = Tier::read(text, Share::new(0.9)).unwrap();
            assert!((given.slo.attain - attain).abs() < 1e-12, "{text}");
        }
    }

    #[test]
    fn what_is_no_tier_is_told_with_one_that_is() {
        for (text, said) in [
            ("p95(ttft)<=200ms", "no name"),
            (": p95(ttft)<=200ms", "no name for a tier"),
            ("two words: p95(ttft)<=200ms", "no name for a tier"),
            ("fast:", "no limit"),
            ("fast: attain 95%", "no limit"),
            ("fast: p95(ttft)<=200ms, attain 95%", "name their own"),
            ("fast: ttft<=1s, attain 0%", "above 0"),
            ("fast: ttft<=1s, attain 95%, attain 90%", "twice"),
            ("", "no name"),
        ] {
            let error = Tier::read(text, None).unwrap_err();
            assert!(error.message.contains(said), "{text}: {}", error.message);
            assert!(error.hint.is_some_and(|hint| hint.contains("--tier 'fast:")), "{text}");
        }
        assert!(read("fast: sooner<=1s").is_err() && read("fast: ttft<=1s, attain 2").is_err());
        let twice = ["a: ttft<=1s", "a: tpot<=1s"].map(str::to_owned);
        assert!(Tier::read_all(&twice, None).unwrap_err().message.contains("twice"));
    }
}
