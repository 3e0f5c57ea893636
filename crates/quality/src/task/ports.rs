//! Built-in ports: the functions of the task files `hellaswag` and `wikitext` of lm-evaluation-harness 0.4.13.

use super::port::{Function, Port, Score};
use crate::python::{Pattern, split_runs, strip};
use serde_json::{Value, json};

/// The ports of this crate's task module.
pub const ALL: &[&Port] = &[&HELLASWAG, &WIKITEXT];

/// Sentence endings: a query made of activity and context, endings without their markers.
const HELLASWAG: Port = Port {
    name: "hellaswag",
    same_as: &["07d23b60b28f2a4f658dcf8440623a63fe6644854ce9b846a114dde980dc1214"],
    functions: &[("utils.process_docs", Function::Documents(hellaswag))],
};

/// Whole pages without their token spacing, counted in the words and bytes of the spaced page.
const WIKITEXT: Port = Port {
    name: "wikitext",
    same_as: &["a44020374b172159bf5be80a64d2c4194c9d5c77284f696ac666361338c8da7d"],
    functions: &[
        ("preprocess_wikitext.wikitext_detokenizer", Function::Field(wikitext_page)),
        ("preprocess_wikitext.process_results", Function::Scores(wikitext_scores)),
    ],
};

fn column<'a>(document: &'a Value, name: &str) -> Result<&'a str, String> {
    document[name].as_str().ok_or_else(|| format!("the document has no text {name:?}"))
}

fn substitute(pattern: &str, replacement: &str, text: &str) -> Result<String, String> {
    Pattern::new(pattern, false).and_then(|p| p.sub(replacement, text, 0)).map_err(|error| error.to_string())
}

fn hellaswag(documents: Vec<Value>) -> Result<Vec<Value>, String> {
    let clean = |text: &str| -> Result<String, String> {
        let text = strip(text).replace(" [title]", ". ");
        Ok(substitute(r"\[.*?\]", "", &text)?.replace("  ", " "))
    };
    let mut out = Vec::with_capacity(documents.len());
    for mut document in documents {
        let context = format!("{} {}", column(&document, "ctx_a")?, capitalize(column(&document, "ctx_b")?));
        let query = clean(&format!("{}: {context}", column(&document, "activity_label")?))?;
        let endings = document["endings"].as_array().ok_or("the document has no list \"endings\"")?;
        let choices = endings
            .iter()
            .map(|ending| clean(ending.as_str().ok_or("an ending is no text")?))
            .collect::<Result<Vec<_>, _>>()?;
        let label = match &document["label"] {
            Value::String(text) => {
                strip(text).parse().map_err(|_| format!("the label {text:?} is no number"))?
            }
            other => other.as_i64().ok_or("the document has no \"label\"")?,
        };
        if let Some(map) = document.as_object_mut() {
            map.insert("query".to_owned(), json!(query));
            map.insert("choices".to_owned(), json!(choices));
            map.insert("gold".to_owned(), json!(label));
        }
        out.push(document);
    }
    Ok(out)
}

fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars.as_str().to_lowercase().chars()).collect()
    })
}

fn wikitext_page(document: &Value) -> Result<Value, String> {
    wikitext_detokenize(column(document, "page")?).map(Value::String)
}

/// The `wikitext` task's page without the spaces that its tokenizer put in, quirks included: the order of
/// these steps, and a pattern that holds slashes and a class, are the task's own.
///
/// # Errors
///
/// Where a pattern gives up on the page.
pub fn wikitext_detokenize(page: &str) -> Result<String, String> {
    let mut text = page.replace("s '", "s'");
    text = substitute(r"/' [0-9]/", r"/'[0-9]/", &text)?;
    let plain = [
        (" @-@ ", "-"),
        (" @,@ ", ","),
        (" @.@ ", "."),
        (" : ", ": "),
        (" ; ", "; "),
        (" . ", ". "),
        (" ! ", "! "),
        (" ? ", "? "),
        (" , ", ", "),
    ];
    for (from, to) in plain {
        text = text.replace(from, to);
    }
    let paired = [
        (r"\(\s*([^\)]*?)\s*\)", r"(\1)"),
        (r"\[\s*([^\]]*?)\s*\]", r"[\1]"),
        (r"{\s*([^}]*?)\s*}", r"{\1}"),
        ("\"\\s*([^\"]*?)\\s*\"", "\"\\1\""),
        (r"'\s*([^']*?)\s*'", r"'\1'"),
    ];
    for (pattern, replacement) in paired {
        text = substitute(pattern, replacement, &text)?;
    }
    let last = [
        ("= = = =", "===="),
        ("= = =", "==="),
        ("= =", "=="),
        (" \u{b0} ", "\u{b0}"),
        (" \n", "\n"),
        ("\n ", "\n"),
        (" N ", " 1 "),
        (" 's", "'s"),
    ];
    for (from, to) in last {
        text = text.replace(from, to);
    }
    Ok(text)
}

fn wikitext_scores(document: &Value, results: &[Value]) -> Result<Vec<(String, Score)>, String> {
    let page = column(document, "page")?;
    let logprob = results.first().ok_or("no answer")?;
    let parts = |name: &str, units: usize| (name.to_owned(), Score::Parts(json!([logprob, units])));
    Ok(vec![
        parts("word_perplexity", split_runs(page).count()),
        parts("byte_perplexity", page.len()),
        parts("bits_per_byte", page.len()),
    ])
}
