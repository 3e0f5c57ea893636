//! The servers of one run: one, or several that share its requests.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::target::Target;
use crate::units::ParseUnitError;

/// One server, or several that requests are dealt to; never none. Written as one text, or as a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Targets {
    first: Target,
    others: Vec<Target>,
}

impl Targets {
    /// In their order; `None`: there is none.
    pub fn new(targets: impl IntoIterator<Item = Target>) -> Option<Self> {
        let mut targets = targets.into_iter();
        Some(Targets { first: targets.next()?, others: targets.collect() })
    }
    /// The first: the model is asked of it.
    pub fn first(&self) -> &Target {
        &self.first
    }
    /// More than one.
    pub fn are_several(&self) -> bool {
        !self.others.is_empty()
    }
    /// How many.
    pub fn count(&self) -> usize {
        1 + self.others.len()
    }
    /// In their order.
    pub fn iter(&self) -> impl Iterator<Item = &Target> {
        std::iter::once(&self.first).chain(&self.others)
    }
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Target> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }
    /// The place in the list of the target that request `seq` goes to: in turn, so that it is the
    /// same in every run of the plan, whatever returns.
    pub fn dealt(&self, seq: u64) -> usize {
        (seq % self.count() as u64) as usize
    }
}

impl From<Target> for Targets {
    fn from(target: Target) -> Self {
        Targets { first: target, others: Vec::new() }
    }
}

/// One target; several are a list, since addresses may hold any separator.
impl FromStr for Targets {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.parse::<Target>()?.into())
    }
}

impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        self.others.iter().try_for_each(|target| write!(f, ", {target}"))
    }
}

impl Serialize for Targets {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.are_several() {
            true => s.collect_seq(self.iter()),
            false => self.first.serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for Targets {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum OneOrMore {
            One(Target),
            More(Vec<Target>),
        }
        match OneOrMore::deserialize(d)? {
            OneOrMore::One(target) => Ok(target.into()),
            OneOrMore::More(list) => Targets::new(list)
                .ok_or_else(|| serde::de::Error::custom("a list of targets without a target")),
        }
    }
}

impl JsonSchema for Targets {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Targets".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Target>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Targets {
        Targets::new(["http://a:1", "http://b:2", "http://c:3"].map(|url| url.parse().unwrap())).unwrap()
    }

    #[test]
    fn requests_are_dealt_in_turn() {
        assert_eq!([0, 1, 2, 3, 301].map(|seq| three().dealt(seq)), [0, 1, 2, 0, 1]);
        assert_eq!(Targets::from(three().first().clone()).dealt(7), 0);
    }

    #[test]
    fn one_is_a_text_and_several_are_a_list() {
        let one = Targets::from(three().first().clone());
        for (targets, text) in
            [(one, r#""http://a:1""#), (three(), r#"["http://a:1","http://b:2","http://c:3"]"#)]
        {
            assert_eq!(serde_json::to_string(&targets).unwrap(), text);
            assert_eq!(serde_json::from_str::<Targets>(text).unwrap(), targets);
        }
        assert_eq!(three().to_string(), "http://a:1, http://b:2, http://c:3");
        assert!(serde_json::from_str::<Targets>("[]").is_err());
        assert!(Targets::new([]).is_none());
    }
}
