//! Events of a stream say the same again and again, but for their text. One that differs from an
//! event already read in nothing else need not be parsed: what it says is known.

use record::Kind;

use crate::dialect::frame::Frame;

/// An event that was read, without its text.
#[derive(Debug)]
pub struct Mould {
    /// The JSON before the text and behind it.
    json: Vec<u8>,
    /// Where the text was.
    at: usize,
    /// What the text is.
    pub kind: Kind,
    /// Which choice it belongs to.
    pub choice: u16,
}

impl Mould {
    /// Of a frame that was read from `json` and carries one text and nothing else that counts.
    pub fn of(frame: &Frame<'_>, json: &[u8]) -> Option<Mould> {
        let [choice] = frame.choices.0.as_slice() else { return None };
        let (text, kind) = choice.only_text()?;
        // A text that was repaired or unescaped lies elsewhere.
        let inside = json.as_ptr_range().contains(&text.as_ptr());
        if !inside || frame.counts().is_some() {
            return None;
        }
        let at = text.as_ptr() as usize - json.as_ptr() as usize;
        let mut rest = Vec::with_capacity(json.len() - text.len());
        rest.extend_from_slice(&json[..at]);
        rest.extend_from_slice(&json[at + text.len()..]);
        Some(Mould { json: rest, at, kind, choice: choice.number() })
    }

    /// The text of an event that differs in nothing else. `None`: it must be read.
    pub fn text<'a>(&self, json: &'a [u8]) -> Option<&'a str> {
        let (before, behind) = self.json.split_at(self.at);
        let text = json.strip_prefix(before)?.strip_suffix(behind)?;
        let plain = |byte: &u8| *byte >= b' ' && !matches!(byte, b'"' | b'\\');
        if text.is_empty() || !text.iter().all(plain) {
            return None;
        }
        std::str::from_utf8(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dialect::frame;

    fn mould(json: &str) -> Option<Mould> {
        frame::read(json.as_bytes(), |frame| Mould::of(frame, json.as_bytes())).unwrap()
    }

    const CHAT: &str =
        r#"{"id":"a","choices":[{"index":2,"delta":{"content":"one"},"finish_reason":null}],"usage":null}"#;

    #[test]
    fn only_the_text_may_differ() {
        let mould = mould(CHAT).unwrap();
        assert_eq!((mould.kind, mould.choice), (Kind::Answer, 2));
        let text = |text: &str| mould.text(CHAT.replace("one", text).as_bytes()).map(str::to_owned);
        assert_eq!(text(" two é"), Some(" two é".to_owned()));
        for read_anew in ["", "a\\n", "a\"", "a\u{1}", "a\",\"x\":\"b"] {
            assert_eq!(text(read_anew), None, "{read_anew:?}");
        }
        for (from, to) in [("null}],", "\"stop\"}],"), ("\"a\"", "\"b\""), ("null}", "{}}"), ("2", "3")] {
            assert_eq!(mould.text(CHAT.replacen(from, to, 1).as_bytes()), None, "{to}");
        }
        assert_eq!(
            mould.text(CHAT.replace("one", "\u{fffd}").replace('\u{fffd}', "x").as_bytes()),
            Some("x")
        );
        assert_eq!(mould.text(&CHAT.as_bytes()[..20]), None);
    }

    #[test]
    fn events_that_carry_more_are_no_mould() {
        let choice = |inner: &str| mould(&format!("{{\"choices\":[{{{inner}}}]}}")).map(|m| m.kind);
        assert_eq!(choice(r#""delta":{"content":"a"}"#), Some(Kind::Answer));
        assert_eq!(choice(r#""delta":{"content":"","reasoning_content":"a"}"#), Some(Kind::Reasoning));
        assert_eq!(choice(r#""text":"a""#), Some(Kind::Answer));
        for more in [
            r#""delta":{"content":"a","reasoning":"b"}"#,
            r#""delta":{"content":"a"},"text":"b""#,
            r#""delta":{"content":"a"},"finish_reason":"stop""#,
            r#""delta":{"content":"a"},"token_ids":[1]"#,
            r#""delta":{"content":"a"},"logprobs":{"content":[{}]}"#,
            r#""delta":{"content":"a","tool_calls":[{"function":{"name":"f"}}]}"#,
            r#""delta":{"content":"a\n"}"#,
            r#""delta":{"content":""}"#,
            r#""delta":{"content":["a"]}"#,
        ] {
            assert_eq!(choice(more), None, "{more}");
        }
        assert!(mould(r#"{"choices":[{"text":"a"}],"usage":{"completion_tokens":1}}"#).is_none());
        assert!(mould(r#"{"choices":[{"text":"a"},{"text":"b","index":1}]}"#).is_none());
        assert!(mould(r#"{"choices":[{"text":"b","text":"a"}]}"#).is_none(), "repaired");
    }

    proptest! {
        /// Where the mould gives a text, reading gives the same.
        #[test]
        fn what_is_not_read_would_have_said_the_same(
            text in "[ -~é\u{1f600}\"\\\\\n]{0,12}",
            junk in proptest::collection::vec(any::<u8>(), 0..6),
        ) {
            let mould = mould(CHAT).unwrap();
            let (before, behind) = CHAT.split_once("one").unwrap();
            let json = [before.as_bytes(), text.as_bytes(), &junk, behind.as_bytes()].concat();
            if let Some(text) = mould.text(&json) {
                let read = frame::read(&json, |frame| {
                    frame.choices.0[0].only_text().map(|(text, kind)| (text.to_owned(), kind))
                });
                prop_assert_eq!(read.unwrap(), Some((text.to_owned(), Kind::Answer)));
            }
        }
    }
}
