use std::ops::Range;

/// White space of `re` beyond that of Rust.
const SEPARATORS: &str = "\\x1c-\\x1f";
/// Word characters of `re`: `str.isalnum` and the underscore.
const WORD: &str = "\\p{L}\\p{N}_";

/// A regular expression of Python's `re`, for text.
#[derive(Debug, Clone)]
pub struct Pattern {
    source: String,
    compiled: fancy_regex::Regex,
}

/// What is wrong with a pattern, or with searching for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It cannot be read.
    #[error("the regular expression {pattern:?} cannot be used: {why}")]
    Unreadable {
        /// As given.
        pattern: String,
        /// What the compiler says.
        why: String,
    },
    /// Searching was given up: the pattern tries too many ways on this text.
    #[error("the regular expression {pattern:?} gave up on a text of {chars} characters: {why}")]
    GaveUp {
        /// As given.
        pattern: String,
        /// Length of the text.
        chars: usize,
        /// What the engine says.
        why: String,
    },
}

impl Pattern {
    /// `re.compile(pattern)`, with `re.IGNORECASE` if `ignore_case`.
    ///
    /// # Errors
    ///
    /// On a pattern that neither engine reads, and on verbose mode (`(?x)`), which is not supported.
    pub fn new(pattern: &str, ignore_case: bool) -> Result<Self, PatternError> {
        let refuse = |why: String| PatternError::Unreadable { pattern: pattern.to_owned(), why };
        let translated = Translator::new(pattern).run().map_err(|why| refuse(why.to_owned()))?;
        let flags = if ignore_case { "(?i)" } else { "" };
        let compiled = fancy_regex::Regex::new(&format!("{flags}{translated}"))
            .map_err(|error| refuse(error.to_string()))?;
        Ok(Self { source: pattern.to_owned(), compiled })
    }

    /// Any character of Unicode's categories of punctuation (`unicodedata.category` beginning with P).
    ///
    /// # Errors
    ///
    /// Never in practice: the pattern is fixed.
    pub fn unicode_punctuation() -> Result<Self, PatternError> {
        let source = "\\p{P}".to_owned();
        match fancy_regex::Regex::new(&source) {
            Ok(compiled) => Ok(Self { source, compiled }),
            Err(error) => Err(PatternError::Unreadable { pattern: source, why: error.to_string() }),
        }
    }

    /// The pattern as it was given.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Every match, left to right, as the ranges of bytes of all groups, group 0 first: `re.finditer`.
    ///
    /// Like Python, and unlike Rust, an empty match may stand right after a match that is not empty.
    ///
    /// # Errors
    ///
    /// Where the engine gives up on this text.
    pub fn matches(&self, text: &str) -> Result<Vec<Vec<Option<Range<usize>>>>, PatternError> {
        let mut found = Vec::new();
        let mut from = 0;
        let mut empty_at = None;
        while from <= text.len() {
            let captures =
                self.compiled.captures_from_pos(text, from).map_err(|error| PatternError::GaveUp {
                    pattern: self.source.clone(),
                    chars: text.chars().count(),
                    why: error.to_string(),
                })?;
            let Some(captures) = captures else { break };
            let groups: Vec<_> = captures.iter().map(|group| group.map(|group| group.range())).collect();
            let Some(whole) = groups.first().cloned().flatten() else { break };
            if whole.is_empty() && empty_at == Some(whole.start) {
                from = next_char(text, whole.start);
                empty_at = None;
                continue;
            }
            empty_at = whole.is_empty().then_some(whole.start);
            from = whole.end;
            found.push(groups);
        }
        Ok(found)
    }

    /// `re.findall`, each match as the texts of its groups, or of the whole match where there is no group.
    /// A group that took no part is empty.
    ///
    /// # Errors
    ///
    /// As [`Pattern::matches`].
    pub fn find_all<'t>(&self, text: &'t str) -> Result<Vec<Vec<&'t str>>, PatternError> {
        let part = |range: &Option<Range<usize>>| range.clone().map_or("", |range| &text[range]);
        let all = self.matches(text)?;
        Ok(all
            .iter()
            .map(|groups| match groups.as_slice() {
                [whole] => vec![part(whole)],
                [_, rest @ ..] => rest.iter().map(part).collect(),
                [] => Vec::new(),
            })
            .collect())
    }

    /// `re.search`: the ranges of the first match.
    ///
    /// # Errors
    ///
    /// As [`Pattern::matches`].
    pub fn search(&self, text: &str) -> Result<Option<Vec<Option<Range<usize>>>>, PatternError> {
        let captures = self.compiled.captures(text).map_err(|error| PatternError::GaveUp {
            pattern: self.source.clone(),
            chars: text.chars().count(),
            why: error.to_string(),
        })?;
        Ok(captures.map(|captures| captures.iter().map(|group| group.map(|group| group.range())).collect()))
    }

    /// `re.sub` with a replacement that knows `\1`, `\g<1>` and the usual escapes; `count` 0 replaces all.
    ///
    /// # Errors
    ///
    /// As [`Pattern::matches`].
    pub fn sub(&self, replacement: &str, text: &str, count: usize) -> Result<String, PatternError> {
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        let limit = if count == 0 { usize::MAX } else { count };
        for groups in self.matches(text)?.into_iter().take(limit) {
            if let Some(Some(whole)) = groups.first() {
                out.push_str(&text[done..whole.start]);
                expand(replacement, text, &groups, &mut out);
                done = whole.end;
            }
        }
        out.push_str(&text[done..]);
        Ok(out)
    }
}

fn next_char(text: &str, at: usize) -> usize {
    at + text[at..].chars().next().map_or(1, char::len_utf8)
}

fn expand(replacement: &str, text: &str, groups: &[Option<Range<usize>>], out: &mut String) {
    let mut rest = replacement.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let mut digits = String::new();
        match rest.next() {
            Some('g') if rest.peek() == Some(&'<') => {
                digits.extend(rest.by_ref().skip(1).take_while(|c| *c != '>'));
            }
            Some(digit @ '0'..='9') => {
                digits.push(digit);
                digits.extend(rest.next_if(char::is_ascii_digit));
            }
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some(other) => out.push(other),
            None => out.push('\\'),
        }
        let group = digits.parse().ok().and_then(|at: usize| groups.get(at).cloned().flatten());
        out.push_str(group.map_or("", |range| &text[range]));
    }
}

/// Writes a pattern of `re` in the language of Rust's engines.
struct Translator {
    rest: std::iter::Peekable<std::vec::IntoIter<char>>,
    out: String,
    lines: bool,
}

impl Translator {
    fn new(pattern: &str) -> Self {
        Self {
            rest: pattern.chars().collect::<Vec<_>>().into_iter().peekable(),
            out: String::new(),
            lines: false,
        }
    }

    fn run(mut self) -> Result<String, &'static str> {
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => self.escape(false)?,
                '[' => self.class()?,
                '(' => self.group()?,
                // The end, or before a last line's end.
                '$' => self.out.push_str(if self.lines { "(?m:$)" } else { "(?=\\n?\\z)" }),
                '{' => self.brace(),
                '}' => self.out.push_str("\\}"),
                c => self.out.push(c),
            }
        }
        Ok(self.out)
    }

    fn group(&mut self) -> Result<(), &'static str> {
        self.out.push('(');
        let ahead: String = self.rest.clone().take(8).collect();
        if let Some(flags) = ahead.strip_prefix('?') {
            let flags: String = flags.chars().take_while(char::is_ascii_alphabetic).collect();
            let set = flags.split('-').next().unwrap_or_default();
            if set.contains('x') {
                return Err("verbose mode (?x) is not supported");
            }
            // P opens a named group.
            self.lines |= !set.starts_with('P') && set.contains('m');
        }
        Ok(())
    }

    /// A brace that is no quantifier is itself.
    fn brace(&mut self) {
        let inside: String = self.rest.clone().take_while(|c| *c != '}').collect();
        let closed = self.rest.clone().nth(inside.chars().count()) == Some('}');
        let numbers: Vec<&str> = inside.split(',').collect();
        let digits = inside.chars().all(|c| c.is_ascii_digit() || c == ',') && !inside.is_empty();
        if !(closed && digits && numbers.len() <= 2 && inside != ",") {
            self.out.push_str("\\{");
            return;
        }
        let least = if inside.starts_with(',') { "0" } else { "" };
        self.out.push_str(&format!("{{{least}{inside}}}"));
        self.rest.nth(inside.chars().count());
    }

    fn escape(&mut self, in_class: bool) -> Result<(), &'static str> {
        let c = self.rest.next().ok_or("it ends in a back-slash")?;
        let (inside, outside) = match c {
            's' => (format!("\\s{SEPARATORS}"), format!("[\\s{SEPARATORS}]")),
            'S' => (format!("[^\\s{SEPARATORS}]"), format!("[^\\s{SEPARATORS}]")),
            'w' => (WORD.to_owned(), format!("[{WORD}]")),
            'W' => (format!("[^{WORD}]"), format!("[^{WORD}]")),
            'b' if in_class => ("\\x08".to_owned(), String::new()),
            'b' => (String::new(), format!("(?:(?<=[{WORD}])(?![{WORD}])|(?<![{WORD}])(?=[{WORD}]))")),
            'B' => (String::new(), format!("(?:(?<=[{WORD}])(?=[{WORD}])|(?<![{WORD}])(?![{WORD}]))")),
            'Z' => (String::new(), "\\z".to_owned()),
            '0' => ("\\x00".to_owned(), "\\x00".to_owned()),
            'd' | 'D' | 'n' | 't' | 'r' | 'f' | 'v' | 'a' | 'x' | 'u' | 'U' | 'A' | '1'..='9' => {
                (format!("\\{c}"), format!("\\{c}"))
            }
            c if c.is_ascii_alphanumeric() => return Err("it has an escape that Python does not know"),
            c => (literal(c), literal(c)),
        };
        self.out.push_str(if in_class { &inside } else { &outside });
        Ok(())
    }

    fn class(&mut self) -> Result<(), &'static str> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut first = true;
        loop {
            match self.rest.next().ok_or("a character class is not closed")? {
                ']' if !first => break,
                '\\' => self.escape(true)?,
                '-' if first || self.rest.peek() == Some(&']') => self.out.push_str("\\-"),
                '-' => self.out.push('-'),
                c => self.out.push_str(&literal(c)),
            }
            first = false;
        }
        self.out.push(']');
        Ok(())
    }
}

/// A character that stands for itself, in and out of classes.
fn literal(c: char) -> String {
    if matches!(
        c,
        '\\' | '.'
            | '+'
            | '*'
            | '?'
            | '('
            | ')'
            | '|'
            | '['
            | ']'
            | '{'
            | '}'
            | '^'
            | '$'
            | '#'
            | '&'
            | '-'
            | '~'
    ) {
        format!("\\{c}")
    } else {
        c.to_string()
    }
}
