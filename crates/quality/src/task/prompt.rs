//! What stands before the answer: instruction, worked examples, question.

use crate::{Message, Prompt, Role, python};
use serde_json::Value;

/// A turn, with what follows it in plain text.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub role: Role,
    pub content: String,
    pub delimiter: String,
}

/// How a prompt is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One text, for a completion.
    Plain,
    /// Turns; worked examples are turns of their own.
    Chat,
    /// Turns; question and worked examples are one turn of the user.
    ChatOneTurn,
}

/// Turns of a question, and of its answer where it has one.
pub(super) fn question(
    question: &str,
    answer: Option<&str>,
    prefix: Option<&str>,
    target_delimiter: &str,
    shot_delimiter: &str,
) -> Vec<Turn> {
    let prefix = prefix.filter(|prefix| !prefix.is_empty());
    let answer = answer.filter(|answer| !answer.is_empty());
    let delimited = match prefix {
        Some(prefix) => !question.is_empty() && !space_between(question, prefix),
        None => answer.is_some(),
    };
    let after = if delimited { target_delimiter } else { "" };
    let mut turns = vec![turn(Role::User, question, after)];
    match (answer, prefix) {
        (Some(answer), prefix) => {
            let whole = delimit(prefix.unwrap_or_default(), answer, " ");
            turns.push(turn(Role::Assistant, &whole, shot_delimiter));
        }
        (None, Some(prefix)) => turns.push(turn(Role::Assistant, prefix, "")),
        (None, None) => {}
    }
    turns
}

pub(super) fn turn(role: Role, content: &str, delimiter: &str) -> Turn {
    Turn { role, content: content.to_owned(), delimiter: delimiter.to_owned() }
}

fn space_between(before: &str, after: &str) -> bool {
    before.ends_with(python::is_space) || after.starts_with(python::is_space)
}

/// Two texts, with a delimiter unless one is empty or there is white space where they meet.
pub(super) fn delimit(before: &str, after: &str, delimiter: &str) -> String {
    let bare = before.is_empty() || after.is_empty() || space_between(before, after);
    format!("{before}{}{after}", if bare { "" } else { delimiter })
}

/// The turns as a model gets them.
pub(super) fn lay_out(turns: &[Turn], layout: Layout) -> Prompt {
    let joined = |turns: &[Turn]| -> String {
        turns.iter().flat_map(|turn| [turn.content.as_str(), turn.delimiter.as_str()]).collect()
    };
    let message = |turn: &Turn| Message { role: turn.role, content: turn.content.clone() };
    match layout {
        Layout::Plain => Prompt::Text(joined(turns)),
        Layout::Chat => Prompt::Chat(turns.iter().map(message).collect()),
        Layout::ChatOneTurn => {
            let (system, rest) = match turns.first() {
                Some(first) if first.role == Role::System => turns.split_at(1),
                _ => turns.split_at(0),
            };
            let (middle, prefill) = match rest.last() {
                Some(last) if last.role == Role::Assistant => rest.split_at(rest.len() - 1),
                _ => rest.split_at(rest.len()),
            };
            let mut middle = middle.to_vec();
            if let Some(last) = middle.last_mut() {
                last.delimiter.clear();
            }
            let user = Message { role: Role::User, content: joined(&middle) };
            Prompt::Chat(
                system.iter().map(message).chain([user]).chain(prefill.iter().map(message)).collect(),
            )
        }
    }
}

/// The text whose hash names a prompt: itself, or its turns as Python writes them in JSON.
#[must_use]
pub fn hashed_text(prompt: &Prompt) -> String {
    match prompt {
        Prompt::Text(text) => text.clone(),
        Prompt::Chat(turns) => python::json_dumps(&serde_json::to_value(turns).unwrap_or(Value::Null), None),
    }
}
