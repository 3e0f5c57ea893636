//! Vocabularies inside the binary, and which model families use them.

use std::sync::OnceLock;

use tiktoken::{CoreBpe, encoding};

use super::Tokenize;
use crate::CorpusError;
use crate::error::nearest;

/// A vocabulary inside the binary, unpacked on first use.
pub(super) struct Vocabulary {
    /// Its name in a spec.
    pub(super) name: &'static str,
    /// Other names that are accepted.
    aliases: &'static [&'static str],
    build: fn() -> CoreBpe,
    cell: OnceLock<CoreBpe>,
}

const fn vocabulary(
    name: &'static str,
    aliases: &'static [&'static str],
    build: fn() -> CoreBpe,
) -> Vocabulary {
    Vocabulary { name, aliases, build, cell: OnceLock::new() }
}

// Constructors are named one by one, so that the linker drops the vocabularies that nobody needs.
static VOCABULARIES: [Vocabulary; 11] = [
    vocabulary("llama3", &["llama-3"], encoding::llama3),
    vocabulary("qwen2", &["qwen", "qwen2.5", "qwen3"], encoding::qwen2),
    vocabulary("o200k", &["o200k_base", "o200k_harmony", "gpt-oss"], encoding::o200k_base),
    vocabulary("cl100k", &["cl100k_base"], encoding::cl100k_base),
    vocabulary("deepseek-v3", &["deepseek_v3", "deepseek"], encoding::deepseek_v3),
    vocabulary("tekken", &["mistral_v3"], encoding::mistral_v3),
    vocabulary("glm4", &["glm-4"], encoding::glm4),
    vocabulary("glm5", &["glm-5"], encoding::glm5),
    vocabulary("kimi-k2", &["kimi_k2", "kimi"], encoding::kimi_k2),
    vocabulary("minimax-m2", &["minimax_m2", "minimax"], encoding::minimax_m2),
    vocabulary("gpt2", &["r50k_base"], encoding::gpt2),
];

/// Parts of model names, in the order in which they are tried, and the vocabulary of that family;
/// `None`: a family that looks like one below and has another vocabulary. Names are compared in
/// lower case, with `_` and ` ` as `-`. What is not listed has no embedded vocabulary: no count is
/// better than a wrong one.
const FAMILIES: &[(&str, Option<&str>)] = &[
    ("distill-qwen", Some("qwen2")),
    ("distill-llama", Some("llama3")),
    ("llama-4", None),
    ("llama4", None),
    ("llama-3", Some("llama3")),
    ("llama3", Some("llama3")),
    ("qwen3.5", None),
    ("qwen3.6", None),
    ("qwen1.5", Some("qwen2")),
    ("qwen2", Some("qwen2")),
    ("qwen-2", Some("qwen2")),
    ("qwen3", Some("qwen2")),
    ("qwen-3", Some("qwen2")),
    ("qwq", Some("qwen2")),
    ("gpt-oss", Some("o200k")),
    ("gpt-4o", Some("o200k")),
    ("gpt-4.1", Some("o200k")),
    ("gpt-4.5", Some("o200k")),
    ("gpt-5", Some("o200k")),
    ("gpt-4", Some("cl100k")),
    ("gpt-3.5", Some("cl100k")),
    ("deepseek-v3", Some("deepseek-v3")),
    ("deepseek-v4", Some("deepseek-v3")),
    ("deepseek-r1", Some("deepseek-v3")),
    ("mistral-nemo", Some("tekken")),
    ("mistral-small-24b", Some("tekken")),
    ("mistral-small-3", Some("tekken")),
    ("ministral", Some("tekken")),
    ("pixtral-12b", Some("tekken")),
    ("devstral", Some("tekken")),
    ("magistral", Some("tekken")),
    ("glm-4.5", Some("glm4")),
    ("glm-4.6", Some("glm4")),
    ("glm-4.7", Some("glm4")),
    ("glm-5", Some("glm5")),
    ("kimi-k2", Some("kimi-k2")),
    ("kimi-k3", Some("kimi-k2")),
    ("minimax-m2", Some("minimax-m2")),
    ("gpt2", Some("gpt2")),
    ("gpt-2", Some("gpt2")),
];

/// Every accepted main name.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    VOCABULARIES.iter().map(|v| v.name)
}

/// The vocabulary of this name.
pub(super) fn by_name(name: &str) -> Result<&'static Vocabulary, CorpusError> {
    let wanted = name.trim().to_lowercase();
    VOCABULARIES.iter().find(|v| v.name == wanted || v.aliases.contains(&wanted.as_str())).ok_or_else(|| {
        let all = VOCABULARIES.iter().flat_map(|v| std::iter::once(v.name).chain(v.aliases.iter().copied()));
        CorpusError::UnknownVocabulary {
            nearest: nearest(&wanted, all).map(str::to_owned),
            known: names().collect::<Vec<_>>().join(", "),
            name: name.to_owned(),
        }
    })
}

/// The vocabulary of the family that a model's name points to.
pub(super) fn by_model(model: &str) -> Option<&'static Vocabulary> {
    let name = model.to_lowercase().replace(['_', ' '], "-");
    let (_, vocabulary) = FAMILIES.iter().find(|(part, _)| name.contains(part))?;
    VOCABULARIES.iter().find(|v| Some(v.name) == *vocabulary)
}

impl Vocabulary {
    /// Starts to unpack on a thread of its own, unless that has been done.
    pub(super) fn preload(&'static self) {
        if self.cell.get().is_none() {
            // Without the thread the first use unpacks: only later, not wrong.
            let _ = std::thread::Builder::new().name("vocabulary".into()).spawn(|| {
                self.bpe();
            });
        }
    }
    fn bpe(&self) -> &CoreBpe {
        self.cell.get_or_init(self.build)
    }
}

impl Tokenize for &'static Vocabulary {
    fn encode(&self, text: &str) -> Option<Vec<u32>> {
        Some(self.bpe().encode(text))
    }
    fn encode_with_ends(&self, text: &str) -> Option<Vec<(u32, usize)>> {
        let bpe = self.bpe();
        let mut end = 0;
        Some(
            bpe.encode(text)
                .into_iter()
                .map(|id| {
                    end += bpe.decode(&[id]).len();
                    (id, end)
                })
                .collect(),
        )
    }
    fn decode(&self, ids: &[u32]) -> Option<String> {
        Some(String::from_utf8_lossy(&self.bpe().decode(ids)).into_owned())
    }
    fn count(&self, text: &str) -> Option<u32> {
        Some(self.bpe().count(text) as u32)
    }
    fn identity(&self) -> String {
        format!("embedded:{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(model: &str) -> Option<&'static str> {
        by_model(model).map(|v| v.name)
    }

    #[test]
    fn models_find_their_family_and_no_other() {
        for (model, vocabulary) in [
            ("meta-llama/Llama-3.1-8B-Instruct", Some("llama3")),
            ("llama-3.1-8b", Some("llama3")),
            ("meta-llama/Meta-Llama-3-70B", Some("llama3")),
            ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", Some("llama3")),
            ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", Some("qwen2")),
            ("deepseek-ai/DeepSeek-R1", Some("deepseek-v3")),
            ("Qwen/Qwen2.5-7B-Instruct", Some("qwen2")),
            ("Qwen/Qwen3-32B", Some("qwen2")),
            ("openai/gpt-oss-20b", Some("o200k")),
            ("gpt-4o-mini", Some("o200k")),
            ("gpt-4", Some("cl100k")),
            ("mistralai/Mistral-Nemo-Instruct-2407", Some("tekken")),
            ("meta-llama/Llama-4-Scout-17B-16E", None),
            ("meta-llama/Llama-2-7b-chat-hf", None),
            ("mistralai/Mistral-7B-Instruct-v0.3", None),
            ("google/gemma-3-27b-it", None),
            ("x:20b", None),
            ("", None),
        ] {
            assert_eq!(of(model), vocabulary, "{model}");
        }
        // Every family names a vocabulary that exists.
        for (part, vocabulary) in FAMILIES {
            assert!(vocabulary.is_none_or(|name| names().any(|n| n == name)), "{part}");
        }
    }

    #[test]
    fn a_slip_in_a_vocabulary_name_is_answered_with_the_nearest() {
        let message = by_name("lama3").err().unwrap().to_string();
        assert!(message.contains("did you mean `llama3`?"), "{message}");
        assert!(message.contains("tekken"), "{message}");
        assert_eq!(by_name("O200K_base").unwrap().name, "o200k");
    }

    #[test]
    fn known_counts() {
        // "hello world": ids of OpenAI's tiktoken for cl100k.
        let cl100k = by_name("cl100k").unwrap();
        assert_eq!(cl100k.encode("hello world"), Some(vec![15339, 1917]));
        assert_eq!(cl100k.encode_with_ends("hello world"), Some(vec![(15339, 5), (1917, 11)]));
        assert_eq!(cl100k.decode(&[15339, 1917]).as_deref(), Some("hello world"));
        assert_eq!(cl100k.count(""), Some(0));
    }
}
