//! LongBench v1's metrics and its table of data sets.

use super::text::{first_line, is_word};
use super::{Method, difflib_ratio, indel_ratio, rouge_l};
use crate::python::{is_punctuation, is_space, round_half_even, round_to, split};
use std::collections::HashMap;

/// The benchmark's own metrics; code by `difflib`, as its requirements file installs it.
pub const OFFICIAL: Method =
    Method { name: "official", version: 1, source: "THUDM/LongBench 2e00731, metrics.py and eval.py" };
/// As [`OFFICIAL`], code by insertions and deletions: what the same program gives where python-Levenshtein is
/// installed.
pub const OFFICIAL_INDEL: Method =
    Method { name: "official-indel", version: 1, source: "THUDM/LongBench 2e00731 with python-Levenshtein" };
/// lm-evaluation-harness's port: answers trimmed, blank lines of code skipped.
pub const LM_EVAL: Method =
    Method { name: "lm-eval", version: 1, source: "lm-eval 0.4.13, tasks/longbench/metrics.py" };

/// How one answer is held against one reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// F1 over normalised words.
    QaF1,
    /// ROUGE-L of the package `rouge`.
    RougeL,
    /// Class names in the answer.
    Classification,
    /// The number of a paragraph.
    Retrieval,
    /// As [`Metric::Retrieval`], in Chinese.
    RetrievalZh,
    /// A count.
    Count,
    /// The first line of code.
    CodeSim,
    /// Needs the word list of the package `jieba`, which is not at hand: refused.
    NeedsJieba,
}

/// Kinds of data sets, as the benchmark groups them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// Questions on one document.
    SingleDocQa,
    /// Questions on several documents.
    MultiDocQa,
    /// Summaries.
    Summarization,
    /// Classes and answers after examples.
    FewShot,
    /// Counting and finding paragraphs.
    Synthetic,
    /// The next line of code.
    Code,
}

/// One data set of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataSet {
    /// As its files are called.
    pub name: &'static str,
    /// Where it is averaged.
    pub category: Category,
    /// How it is scored.
    pub metric: Metric,
    /// Most new tokens.
    pub max_tokens: u32,
    /// Only the first line of an answer counts.
    pub first_line: bool,
    /// The prompt goes to a chat model as it is, without a template.
    pub plain: bool,
}

const fn set(name: &'static str, category: Category, metric: Metric, max_tokens: u32) -> DataSet {
    DataSet { name, category, metric, max_tokens, first_line: false, plain: false }
}

const fn shots(name: &'static str, metric: Metric, max_tokens: u32) -> DataSet {
    DataSet { name, category: Category::FewShot, metric, max_tokens, first_line: true, plain: true }
}

const fn code(name: &'static str) -> DataSet {
    DataSet {
        name,
        category: Category::Code,
        metric: Metric::CodeSim,
        max_tokens: 64,
        first_line: false,
        plain: true,
    }
}

/// The 21 data sets (`eval.py` dataset2metric, `config/dataset2maxlen.json`).
pub const DATA_SETS: [DataSet; 21] = [
    set("narrativeqa", Category::SingleDocQa, Metric::QaF1, 128),
    set("qasper", Category::SingleDocQa, Metric::QaF1, 128),
    set("multifieldqa_en", Category::SingleDocQa, Metric::QaF1, 64),
    set("multifieldqa_zh", Category::SingleDocQa, Metric::NeedsJieba, 64),
    set("hotpotqa", Category::MultiDocQa, Metric::QaF1, 32),
    set("2wikimqa", Category::MultiDocQa, Metric::QaF1, 32),
    set("musique", Category::MultiDocQa, Metric::QaF1, 32),
    set("dureader", Category::MultiDocQa, Metric::NeedsJieba, 128),
    set("gov_report", Category::Summarization, Metric::RougeL, 512),
    set("qmsum", Category::Summarization, Metric::RougeL, 512),
    set("multi_news", Category::Summarization, Metric::RougeL, 512),
    set("vcsum", Category::Summarization, Metric::NeedsJieba, 512),
    shots("trec", Metric::Classification, 64),
    shots("triviaqa", Metric::QaF1, 32),
    shots("samsum", Metric::RougeL, 128),
    shots("lsht", Metric::Classification, 64),
    set("passage_count", Category::Synthetic, Metric::Count, 32),
    set("passage_retrieval_en", Category::Synthetic, Metric::Retrieval, 32),
    set("passage_retrieval_zh", Category::Synthetic, Metric::RetrievalZh, 32),
    code("lcc"),
    code("repobench-p"),
];

/// Looks a data set up; `_e`, the mark of LongBench-E, is left out.
#[must_use]
pub fn data_set(name: &str) -> Option<&'static DataSet> {
    let name = name.strip_suffix("_e").unwrap_or(name);
    DATA_SETS.iter().find(|set| set.name == name)
}

/// Why an answer has no score.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unscored {
    /// See [`Metric::NeedsJieba`].
    #[error(
        "{0} is scored on Chinese words as the Python package `jieba` cuts them, which are not at hand; \
         leave it out, or score its answers with LongBench's own eval.py"
    )]
    NeedsJieba(String),
    /// The reference does not say what [`Metric::Retrieval`] needs.
    #[error("the reference {reference:?} names no paragraph: expected \"{wanted} 12\"")]
    NoParagraph {
        /// As it is in the file.
        reference: String,
        /// The word before the number.
        wanted: &'static str,
    },
}

/// The best score over the references, in [0, 1], by `method` ([`OFFICIAL`], [`OFFICIAL_INDEL`] or
/// [`LM_EVAL`]). `classes` is the data set's `all_classes`. No references score 0, as in the benchmark.
pub fn score(
    set: &DataSet,
    method: Method,
    answer: &str,
    references: &[String],
    classes: &[String],
) -> Result<f64, Unscored> {
    let answer = if set.first_line { first_line(answer) } else { answer };
    let mut best = 0.0f64;
    for reference in references {
        let one = match set.metric {
            Metric::QaF1 => qa_f1(answer, reference),
            Metric::RougeL => rouge_l(answer, reference),
            Metric::Classification => classification(answer, reference, classes),
            Metric::Retrieval => share_of(answer, &paragraph(reference, "Paragraph ")?),
            Metric::RetrievalZh => share_of(answer, &paragraph(reference, "段落")?),
            Metric::Count => share_of(answer, reference),
            Metric::CodeSim => code_sim(answer, reference, method),
            Metric::NeedsJieba => return Err(Unscored::NeedsJieba(set.name.to_owned())),
        };
        best = best.max(one);
    }
    Ok(best)
}

/// F1 over words, each as often as it stands in both (`qa_f1_score`): lower case, ASCII punctuation deleted,
/// articles out. 0 where either side has no words.
#[must_use]
pub fn qa_f1(answer: &str, reference: &str) -> f64 {
    let (answer, reference) = (normalised(answer), normalised(reference));
    let mut wanted: HashMap<&str, usize> = HashMap::new();
    for word in split(&reference) {
        *wanted.entry(word).or_default() += 1;
    }
    let mut same = 0usize;
    for word in split(&answer) {
        if let Some(left) = wanted.get_mut(word).filter(|left| **left > 0) {
            *left -= 1;
            same += 1;
        }
    }
    if same == 0 {
        return 0.0;
    }
    let precision = same as f64 / split(&answer).count() as f64;
    let recall = same as f64 / split(&reference).count() as f64;
    (2.0 * precision * recall) / (precision + recall)
}

/// SQuAD's normalisation, but for the white space.
fn normalised(text: &str) -> String {
    let bare: String = text.to_lowercase().chars().filter(|c| !is_punctuation(*c)).collect();
    let mut out = String::with_capacity(bare.len());
    let mut rest = bare.as_str();
    while let Some(first) = rest.chars().next() {
        let of_word = is_word(first);
        let end = rest.find(|c| is_word(c) != of_word).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        out.push_str(if matches!(run, "a" | "an" | "the") { " " } else { run });
        rest = behind;
    }
    out
}

/// 1 / the number of classes found, if the right one is among them (`classification_score`). Classes that are
/// a part of the right one are taken out of the list while it is walked, so that of two in a row the second
/// stays.
#[must_use]
pub fn classification(answer: &str, reference: &str, classes: &[String]) -> f64 {
    let mut found: Vec<&str> =
        classes.iter().map(String::as_str).filter(|class| answer.contains(class)).collect();
    let mut at = 0;
    while let Some(&class) = found.get(at) {
        if class != reference
            && reference.contains(class)
            && let Some(first) = found.iter().position(|other| *other == class)
        {
            found.remove(first);
        }
        at += 1;
    }
    if found.contains(&reference) { 1.0 / found.len() as f64 } else { 0.0 }
}

/// The share of the numbers in the answer that equal `wanted` as text (`retrieval_score`, `count_score`);
/// digits of any script make numbers. 0 without numbers.
#[must_use]
pub fn share_of(answer: &str, wanted: &str) -> f64 {
    static NUMBER: std::sync::LazyLock<Option<regex::Regex>> =
        std::sync::LazyLock::new(|| regex::Regex::new(r"\d+").ok());
    let numbers: Vec<&str> = NUMBER
        .as_ref()
        .map_or_else(Vec::new, |number| number.find_iter(answer).map(|found| found.as_str()).collect());
    if numbers.is_empty() {
        return 0.0;
    }
    numbers.iter().filter(|number| **number == wanted).count() as f64 / numbers.len() as f64
}

/// The digits behind the first `lead` that some follow.
fn paragraph(reference: &str, lead: &'static str) -> Result<String, Unscored> {
    reference
        .match_indices(lead)
        .filter_map(|(at, _)| reference.get(at + lead.len()..))
        .map(|rest| rest.chars().take_while(|c| c.is_numeric()).collect::<String>())
        .find(|digits| !digits.is_empty())
        .ok_or_else(|| Unscored::NoParagraph { reference: reference.to_owned(), wanted: lead.trim_end() })
}

/// How alike the first line without a backtick, "#" or "//" and the reference are (`code_sim_score`): whole
/// percent, halves to even. Equal texts are 1; an empty side is 0.
#[must_use]
pub fn code_sim(answer: &str, reference: &str, method: Method) -> f64 {
    let is_code = |line: &&str| !line.contains('`') && !line.contains('#') && !line.contains("//");
    let line = if method == LM_EVAL {
        answer.split('\n').find(|line| !line.chars().all(is_space) && is_code(line))
    } else {
        answer.trim_start_matches('\n').split('\n').find(is_code)
    }
    .unwrap_or_default();
    if line == reference {
        return 1.0;
    }
    if line.is_empty() || reference.is_empty() {
        return 0.0;
    }
    let ratio =
        if method == OFFICIAL_INDEL { indel_ratio(line, reference) } else { difflib_ratio(line, reference) };
    round_half_even(100.0 * ratio) / 100.0
}

/// A data set's score from those of its samples: percent, two decimals; `None` of none.
#[must_use]
pub fn set_score(samples: &[f64]) -> Option<f64> {
    let sum = samples.iter().fold(0.0, |sum, one| sum + one);
    (!samples.is_empty()).then(|| round_to(100.0 * sum / samples.len() as f64, 2))
}

/// The plain mean of data sets' scores, in percent, two decimals: of a category, or of all. `None` of none.
/// The benchmark's tables print one decimal.
#[must_use]
pub fn mean_of_sets(sets: &[f64]) -> Option<f64> {
    let sum: f64 = sets.iter().sum();
    (!sets.is_empty()).then(|| round_to(sum / sets.len() as f64, 2))
}

/// LongBench-E's bucket of a sample by its `length` in words.
#[must_use]
pub fn bucket(words: u64) -> &'static str {
    match words {
        0..4000 => "0-4k",
        4000..8000 => "4-8k",
        _ => "8k+",
    }
}
