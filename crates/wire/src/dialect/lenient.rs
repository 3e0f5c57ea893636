//! Values of a foreign answer, read without trusting their types: what does not fit counts as absent.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Methods of a visitor that reads the listed kinds of values as absent.
macro_rules! absent {
    ($($kind:ident)*) => { $(absent!(@ $kind);)* };
    (@ nothing) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> { Ok(Self::Value::default()) }
        fn visit_none<E>(self) -> Result<Self::Value, E> { Ok(Self::Value::default()) }
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> { Ok(Self::Value::default()) }
    };
    (@ numbers) => {
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> { Ok(Self::Value::default()) }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> { Ok(Self::Value::default()) }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> { Ok(Self::Value::default()) }
    };
    (@ string) => {
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> { Ok(Self::Value::default()) }
    };
    (@ list) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
    (@ map) => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
}

fn expecting(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("any JSON value")
}

/// A text, or a list of parts that have a `text` each. Empty when absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Text<'_> {
    /// The text, if there is any.
    pub fn get(&self) -> Option<&str> {
        if self.0.is_empty() { None } else { Some(&self.0) }
    }
    /// The text, if it stands so in the JSON: in one piece and without escapes.
    pub fn verbatim(&self) -> Option<&str> {
        match &self.0 {
            Cow::Borrowed(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for V<'a> {
            type Value = Text<'a>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                expecting(f)
            }
            absent!(nothing numbers);
            fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Borrowed(v)))
            }
            fn visit_str<E>(self, v: &str) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Owned(v.to_owned())))
            }
            fn visit_string<E>(self, v: String) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Owned(v)))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Text<'a>, A::Error> {
                let mut joined = String::new();
                while let Some(part) = seq.next_element::<Text<'de>>()? {
                    joined.push_str(&part.0);
                }
                Ok(Text(Cow::Owned(joined)))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text<'a>, A::Error> {
                let mut text = Text::default();
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    if key.0 == "text" {
                        text = Text(map.next_value::<Text<'de>>()?.0);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(text)
            }
        }
        d.deserialize_any(V(PhantomData))
    }
}

/// A count; absent when it is no non-negative number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count(pub Option<u32>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Count;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                expecting(f)
            }
            absent!(nothing string list map);
            fn visit_u64<E>(self, v: u64) -> Result<Count, E> {
                Ok(Count(u32::try_from(v).ok()))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Count, E> {
                Ok(Count(u32::try_from(v).ok()))
            }
            fn visit_f64<E>(self, v: f64) -> Result<Count, E> {
                let whole = v >= 0.0 && v <= f64::from(u32::MAX) && v.fract() == 0.0;
                Ok(Count(whole.then_some(v as u32)))
            }
        }
        d.deserialize_any(V)
    }
}

/// The length of a list; absent when it is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Length(pub Option<u32>);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Length;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                expecting(f)
            }
            absent!(nothing numbers string map);
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Length, A::Error> {
                let mut length = 0u32;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    length = length.saturating_add(1);
                }
                Ok(Length(Some(length)))
            }
        }
        d.deserialize_any(V)
    }
}

/// An object of a known shape; absent when the value is no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maybe<T>(pub Option<T>);

impl<T> Default for Maybe<T> {
    fn default() -> Self {
        Maybe(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Maybe<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for V<T> {
            type Value = Maybe<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                expecting(f)
            }
            absent!(nothing numbers string list);
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Maybe<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|value| Maybe(Some(value)))
            }
        }
        d.deserialize_any(V(PhantomData))
    }
}

/// The objects of a list; empty when the value is no list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Items<T>(pub Vec<T>);

impl<T> Default for Items<T> {
    fn default() -> Self {
        Items(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for V<T> {
            type Value = Items<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                expecting(f)
            }
            absent!(nothing numbers string map);
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Items<T>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element::<Maybe<T>>()? {
                    items.extend(item.0);
                }
                Ok(Items(items))
            }
        }
        d.deserialize_any(V(PhantomData))
    }
}
