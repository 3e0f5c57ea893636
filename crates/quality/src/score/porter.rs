//! The Porter stemmer with the changes of NLTK's default mode, for lower-case ASCII words.
//!
//! Source: M. Porter, "An algorithm for suffix stripping", Program 14.3 (1980), and the documented deviations
//! of `nltk.stem.porter` (NLTK_EXTENSIONS), NLTK 3.9.

/// Words that the rules would get wrong, and their stems.
const IRREGULAR: [(&str, &str); 16] = [
    ("skies", "sky"),
    ("sky", "sky"),
    ("dying", "die"),
    ("lying", "lie"),
    ("tying", "tie"),
    ("news", "news"),
    ("innings", "inning"),
    ("inning", "inning"),
    ("outings", "outing"),
    ("outing", "outing"),
    ("cannings", "canning"),
    ("canning", "canning"),
    ("howe", "howe"),
    ("proceed", "proceed"),
    ("exceed", "exceed"),
    ("succeed", "succeed"),
];

/// The stem of a word of ASCII letters and digits in lower case.
#[must_use]
pub fn stem(word: &str) -> String {
    if let Some((_, stem)) = IRREGULAR.iter().find(|(irregular, _)| *irregular == word) {
        return (*stem).to_owned();
    }
    if word.len() <= 2 {
        return word.to_owned();
    }
    let word = plural(word);
    let word = past(&word);
    let word = final_y(word);
    let word = double_suffix(word);
    let word = first_matching(&word, &ICATE, |stem, _| measure(stem) > 0);
    let word = first_matching(&word, &BARE, |stem, suffix| {
        measure(stem) > 1 && (suffix != "ion" || stem.ends_with(['s', 't']))
    });
    final_l(final_e(word))
}

/// Step 1a.
fn plural(word: &str) -> String {
    if word.len() == 4 && word.ends_with("ies") {
        return word.strip_suffix('s').unwrap_or(word).to_owned();
    }
    first_matching(word, &[("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", "")], |_, _| true)
}

/// Step 1b.
fn past(word: &str) -> String {
    if let Some(stem) = word.strip_suffix("ied") {
        return format!("{stem}{}", if word.len() == 4 { "ie" } else { "i" });
    }
    if let Some(stem) = word.strip_suffix("eed") {
        return if measure(stem) > 0 { format!("{stem}ee") } else { word.to_owned() };
    }
    let Some(stem) = ["ed", "ing"]
        .iter()
        .filter_map(|suffix| word.strip_suffix(suffix))
        .find(|stem| consonants(stem).contains(&false))
    else {
        return word.to_owned();
    };
    if ["at", "bl", "iz"].iter().any(|end| stem.ends_with(end)) {
        return format!("{stem}e");
    }
    if ends_double(stem) {
        let cut = !stem.ends_with(['l', 's', 'z']);
        return stem.get(..stem.len() - usize::from(cut)).unwrap_or(stem).to_owned();
    }
    if measure(stem) == 1 && ends_cvc(stem) { format!("{stem}e") } else { stem.to_owned() }
}

/// Step 1c: only behind a consonant that is not the first letter.
fn final_y(word: String) -> String {
    match word.strip_suffix('y') {
        Some(stem) if stem.len() > 1 && consonants(stem).last() == Some(&true) => format!("{stem}i"),
        _ => word,
    }
}

const DOUBLE: [(&str, &str); 21] = [
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("fulli", "ful"),
];

/// Step 2.
fn double_suffix(word: String) -> String {
    let mut word = word;
    while let Some(stem) = word.strip_suffix("alli").filter(|stem| measure(stem) > 0) {
        word = format!("{stem}al");
    }
    if word.ends_with("logi") {
        // NLTK measures the stem with its "l".
        let (log, l) = (word.strip_suffix('i'), word.strip_suffix("ogi"));
        return log.filter(|_| l.is_some_and(|l| measure(l) > 0)).unwrap_or(&word).to_owned();
    }
    first_matching(&word, &DOUBLE, |stem, _| measure(stem) > 0)
}

/// Step 3.
const ICATE: [(&str, &str); 7] = [
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

/// Step 4.
const BARE: [(&str, &str); 19] = [
    ("al", ""),
    ("ance", ""),
    ("ence", ""),
    ("er", ""),
    ("ic", ""),
    ("able", ""),
    ("ible", ""),
    ("ant", ""),
    ("ement", ""),
    ("ment", ""),
    ("ent", ""),
    ("ion", ""),
    ("ou", ""),
    ("ism", ""),
    ("ate", ""),
    ("iti", ""),
    ("ous", ""),
    ("ive", ""),
    ("ize", ""),
];

/// Step 5a.
fn final_e(word: String) -> String {
    match word.strip_suffix('e') {
        Some(stem) if measure(stem) > 1 || (measure(stem) == 1 && !ends_cvc(stem)) => stem.to_owned(),
        _ => word,
    }
}

/// Step 5b.
fn final_l(word: String) -> String {
    match word.strip_suffix('l') {
        Some(one) if one.ends_with('l') && measure(one) > 1 => one.to_owned(),
        _ => word,
    }
}

/// The first rule whose suffix the word has is applied, if its stem may lose it; no later one is tried.
fn first_matching(word: &str, rules: &[(&str, &str)], may: impl Fn(&str, &str) -> bool) -> String {
    for (suffix, put) in rules {
        if let Some(stem) = word.strip_suffix(suffix) {
            return if may(stem, suffix) { format!("{stem}{put}") } else { word.to_owned() };
        }
    }
    word.to_owned()
}

/// For each letter whether it is a consonant: all but a, e, i, o, u, and y behind a consonant.
fn consonants(word: &str) -> Vec<bool> {
    let mut flags: Vec<bool> = Vec::with_capacity(word.len());
    for letter in word.bytes() {
        let consonant = match letter {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => flags.last().is_none_or(|before| !before),
            _ => true,
        };
        flags.push(consonant);
    }
    flags
}

/// How often a consonant follows a vowel: m in [C](VC)ᵐ[V].
fn measure(stem: &str) -> usize {
    consonants(stem).windows(2).filter(|pair| matches!(pair, [false, true])).count()
}

fn ends_double(word: &str) -> bool {
    matches!(word.as_bytes(), [.., a, b] if a == b) && consonants(word).last() == Some(&true)
}

/// Ends consonant, vowel, consonant, and not in w, x or y; or is a vowel and a consonant.
fn ends_cvc(word: &str) -> bool {
    match consonants(word).as_slice() {
        [false, true] => true,
        [.., true, false, true] => !word.ends_with(['w', 'x', 'y']),
        _ => false,
    }
}
