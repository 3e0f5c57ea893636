//! The server's tokenizer: `/tokenize` and `/detokenize` of vLLM, SGLang and llama-server.

use serde_json::json;

use super::{Fault, Server};

/// Token ids of a text; `special`: with those that the tokenizer adds by itself.
pub(super) fn encode(server: &dyn Server, model: &str, text: &str, special: bool) -> Result<Vec<u32>, Fault> {
    // Each engine reads its own field and lets the other's be.
    let body = json!({
        "model": model, "prompt": text, "content": text, "add_special_tokens": special, "add_special": special,
    });
    let answer = server.post("/tokenize", &body)?.good()?;
    let ids = answer["tokens"].as_array().and_then(|ids| {
        ids.iter().map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok())).collect::<Option<Vec<u32>>>()
    });
    match ids {
        Some(ids) if !ids.is_empty() || text.is_empty() => Ok(ids),
        _ => Err(Fault::Unusable("/tokenize gives no token ids".to_owned())),
    }
}

/// The text of token ids.
pub(super) fn decode(server: &dyn Server, model: &str, ids: &[u32]) -> Result<String, Fault> {
    let answer = server.post("/detokenize", &json!({ "model": model, "tokens": ids }))?.good()?;
    let text = ["prompt", "content", "text"].iter().find_map(|field| answer[*field].as_str());
    text.map(str::to_owned).ok_or_else(|| Fault::Unusable("/detokenize gives no text".to_owned()))
}

/// The tokens that the tokenizer puts in front of a text by itself (BOS), and whether it adds some behind it.
pub(super) fn prefix(server: &dyn Server, model: &str) -> Result<(Vec<u32>, bool), Fault> {
    let plain = encode(server, model, "The capital", false)?;
    let special = encode(server, model, "The capital", true)?;
    let at = special.windows(plain.len()).position(|window| window == plain);
    let at = at.ok_or_else(|| Fault::Unusable("special tokens change how a text is cut".to_owned()))?;
    Ok((special[..at].to_vec(), special.len() > at + plain.len()))
}
