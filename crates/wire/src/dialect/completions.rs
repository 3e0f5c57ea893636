//! OpenAI `/v1/completions`: what a choice carries.

use record::Kind;

use super::frame::Choice;

/// Appends the text of a completions choice and says that it is answer, if there is any.
pub fn write(choice: &Choice<'_>, out: &mut String) -> Option<Kind> {
    let text = choice.text.get()?;
    out.push_str(text);
    Some(Kind::Answer)
}

/// The text as it stands in the JSON.
pub fn only_text<'a>(choice: &'a Choice<'_>) -> Option<&'a str> {
    choice.text.verbatim()
}
