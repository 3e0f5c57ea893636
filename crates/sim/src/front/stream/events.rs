//! The bytes of an answer: response head, events, usage, and the body of an answer in one piece.

use std::fmt::Write as _;

use serde_json::json;

use super::Answer;
use crate::config::{SimConfig, UsageMode};
use crate::faults::Fault;
use crate::front::http;
use crate::text;

impl Answer {
    /// The response head, the first time.
    pub(super) fn head(&mut self) -> Vec<u8> {
        if std::mem::replace(&mut self.head_sent, true) {
            return Vec::with_capacity(320);
        }
        self.status = 200;
        http::stream_head(self.request_id.as_deref(), self.keep_alive, self.chunked)
    }

    pub(super) fn role(&mut self, config: &SimConfig, bytes: &mut Vec<u8>) {
        if !self.generation.chat || std::mem::replace(&mut self.role_sent, true) {
            return;
        }
        let event = format!(
            "{}\"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\"logprobs\":null,\"finish_reason\":null}}]",
            self.prefix
        );
        self.event(config, event, bytes);
    }

    /// The event of `k` tokens.
    pub(super) fn tokens(&mut self, config: &SimConfig, k: u32, last: bool, bytes: &mut Vec<u8>) {
        let mut left = k;
        while left > 0 {
            let reasoning = self.generation.chat && self.sent < config.shape.reasoning;
            // A chunk is of one kind: it ends where reasoning ends.
            let n = if reasoning { left.min(config.shape.reasoning - self.sent) } else { left };
            let mut piece = String::new();
            if self.sent == 0
                && let Some(echo) = &self.generation.echo
            {
                piece.push_str(echo);
            }
            for i in self.sent..self.sent + n {
                piece.push(' ');
                piece.push_str(text::word(config.seed, self.number, i));
            }
            self.sent += n;
            left -= n;
            if matches!(self.generation.fault, Some(Fault::Cumulative)) {
                let whole = if reasoning { &mut self.reasoning_text } else { &mut self.text };
                whole.push_str(&piece);
                piece.clone_from(whole);
            }
            // The words need no escape; only an echoed prompt does.
            let quoted = if self.generation.echo.is_some() {
                json!(piece).to_string()
            } else {
                format!("\"{piece}\"")
            };
            let finish = last && left == 0 && self.joins_finish(config);
            let mut event = String::with_capacity(self.prefix.len() + quoted.len() + 160);
            event.push_str(&self.prefix);
            let field = match (self.generation.chat, reasoning) {
                (true, false) => "\"delta\":{\"content\":",
                (true, true) => "\"delta\":{\"reasoning\":",
                (false, _) => "\"text\":",
            };
            let close = if self.generation.chat { "}" } else { "" };
            let _ = write!(event, "\"choices\":[{{\"index\":0,{field}{quoted}{close},\"logprobs\":null,");
            if finish {
                let reason = self.generation.finish;
                self.finish = Some(reason);
                let _ = write!(event, "\"finish_reason\":\"{reason}\",\"stop_reason\":null}}]");
            } else {
                event.push_str("\"finish_reason\":null}]");
            }
            pad(&mut event, config.shape.event_bytes);
            self.event(config, event, bytes);
        }
    }

    /// Closes an event's object, with running usage where it is wanted, and frames it.
    pub(super) fn event(&self, config: &SimConfig, mut event: String, bytes: &mut Vec<u8>) {
        let running = match config.shape.usage {
            UsageMode::Continuous => true,
            UsageMode::Asked => self.generation.include_usage && self.generation.continuous_usage,
            UsageMode::Always | UsageMode::Never => false,
        };
        if running {
            let _ = write!(event, ",\"usage\":{}", self.usage());
        }
        let event = format!("data: {event}}}\n\n");
        self.frame(&event, bytes);
    }

    pub(super) fn frame(&self, event: &str, bytes: &mut Vec<u8>) {
        if self.chunked {
            bytes.extend_from_slice(format!("{:x}\r\n", event.len()).as_bytes());
            bytes.extend_from_slice(event.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        } else {
            bytes.extend_from_slice(event.as_bytes());
        }
    }

    pub(super) fn usage(&self) -> String {
        let (input, output) = (self.job().input_tokens, self.completion_tokens());
        format!(
            "{{\"prompt_tokens\":{input},\"total_tokens\":{},\"completion_tokens\":{output},\"prompt_tokens_details\":{{\"cached_tokens\":{}}}}}",
            u64::from(input) + u64::from(output),
            self.cached
        )
    }

    pub(super) fn whole_body(&self, config: &SimConfig) -> String {
        let silent = matches!(self.generation.fault, Some(Fault::Empty));
        let shown = if silent { 0 } else { self.sent };
        let split = if self.generation.chat { config.shape.reasoning.min(shown) } else { 0 };
        let words = |from: u32, to: u32| -> String {
            (from..to).fold(String::new(), |mut s, i| {
                s.push(' ');
                s.push_str(text::word(config.seed, self.number, i));
                s
            })
        };
        let content = format!("{}{}", self.generation.echo.as_deref().unwrap_or(""), words(split, shown));
        let reason = self.generation.finish;
        let choice = if self.generation.chat {
            let reasoning = (split > 0).then(|| words(0, split));
            json!({"index": 0, "message": {"role": "assistant", "content": content, "reasoning": reasoning},
                   "logprobs": null, "finish_reason": reason, "stop_reason": null})
        } else {
            json!({"index": 0, "text": content, "logprobs": null, "finish_reason": reason, "stop_reason": null})
        };
        let usage = match config.shape.usage {
            UsageMode::Never => String::new(),
            _ => format!(",\"usage\":{}", self.usage()),
        };
        format!("{}\"choices\":[{choice}]{usage}}}", self.prefix)
    }
}

/// Fills an event up to `bytes` once it is framed; one that is about as long already stays as it is.
fn pad(event: &mut String, bytes: u32) {
    const FRAME: usize = "data: }\n\n".len();
    const FIELD: usize = ",\"padding\":\"\"".len();
    if let Some(fill) = (bytes as usize).checked_sub(event.len() + FRAME + FIELD) {
        event.push_str(",\"padding\":\"");
        event.extend(std::iter::repeat_n('.', fill));
        event.push('"');
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_event_is_filled_up_to_its_length_and_never_cut() {
        let framed = |bytes: u32| {
            let mut event = "{\"choices\":[]".to_owned();
            super::pad(&mut event, bytes);
            format!("data: {event}}}\n\n")
        };
        let bare = framed(0).len();
        for bytes in [64, 300, 4_000] {
            let event = framed(bytes);
            assert_eq!(event.len(), bytes as usize);
            let json: serde_json::Value = serde_json::from_str(event[6..].trim_end()).unwrap();
            assert!(json["padding"].is_string());
        }
        assert_eq!(framed(bare as u32 + 3).len(), bare, "no room for the field");
    }
}
