use serde_json::{Map, Number, Value};

/// Deepest nesting that is read.
const DEEPEST: usize = 100;

/// Why a text is no literal of Python that has a place in JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no Python literal at character {at}: expected {expected}")]
pub struct LiteralError {
    /// Characters before the place.
    pub at: usize,
    /// What may stand there.
    pub expected: &'static str,
}

/// `ast.literal_eval`: texts, numbers, lists, tuples (as lists), dicts with text keys, `True`, `False`, `None`.
///
/// # Errors
///
/// On anything else, such as bytes, sets and complex numbers, and on numbers that leave 64 bits.
pub fn literal_eval(text: &str) -> Result<Value, LiteralError> {
    let mut reader =
        Reader { chars: text.trim_start_matches([' ', '\t']).chars().collect(), at: 0, depth: 0 };
    let value = reader.value()?;
    reader.skip();
    if reader.at < reader.chars.len() { Err(reader.wanted("the end")) } else { Ok(value) }
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    depth: usize,
}

impl Reader {
    fn wanted(&self, expected: &'static str) -> LiteralError {
        LiteralError { at: self.at, expected }
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn skip(&mut self) {
        while self.peek().is_some_and(|c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}')) {
            self.at += 1;
        }
    }

    fn take(&mut self, c: char) -> bool {
        self.skip();
        let there = self.peek() == Some(c);
        self.at += usize::from(there);
        there
    }

    fn value(&mut self) -> Result<Value, LiteralError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wanted("fewer brackets"));
        }
        self.skip();
        let value = match self.peek() {
            Some('[') => self.list(']'),
            Some('(') => self.list(')'),
            Some('{') => self.dict(),
            Some('\'' | '"') => self.texts(),
            Some('+' | '-' | '.' | '0'..='9') => self.number(),
            Some(c) if c.is_alphabetic() => self.word(),
            _ => Err(self.wanted("a value")),
        };
        self.depth -= 1;
        value
    }

    fn list(&mut self, end: char) -> Result<Value, LiteralError> {
        self.at += 1;
        let mut list = Vec::new();
        let mut commas = 0;
        while !self.take(end) {
            if list.len() > commas {
                return Err(self.wanted("a comma or the closing bracket"));
            }
            list.push(self.value()?);
            commas += usize::from(self.take(','));
        }
        // "(x)" is x in brackets, "(x,)" a tuple of one.
        match (end, commas, list.len()) {
            (')', 0, 1) => Ok(list.remove(0)),
            _ => Ok(Value::Array(list)),
        }
    }

    fn dict(&mut self) -> Result<Value, LiteralError> {
        self.at += 1;
        let mut map = Map::new();
        let mut open = true;
        while !self.take('}') {
            if !open {
                return Err(self.wanted("a comma or }"));
            }
            let Value::String(key) = self.value()? else { return Err(self.wanted("a text as key")) };
            if !self.take(':') {
                return Err(self.wanted(":"));
            }
            map.insert(key, self.value()?);
            open = self.take(',');
        }
        Ok(Value::Object(map))
    }

    fn word(&mut self) -> Result<Value, LiteralError> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_alphanumeric() || c == '_') {
            self.at += 1;
        }
        let word: String = self.chars[start..self.at].iter().collect();
        match word.as_str() {
            "None" => Ok(Value::Null),
            "True" => Ok(Value::Bool(true)),
            "False" => Ok(Value::Bool(false)),
            "r" | "R" | "u" | "U" if matches!(self.peek(), Some('\'' | '"')) => {
                self.at = start;
                self.texts()
            }
            _ => {
                self.at = start;
                Err(self.wanted("a literal, not a name"))
            }
        }
    }

    fn number(&mut self) -> Result<Value, LiteralError> {
        let start = self.at;
        let mut text = String::new();
        while self.peek().is_some_and(|c| matches!(c, '+' | '-')) && self.at == start {
            text.extend(self.peek().filter(|c| *c == '-'));
            self.at += 1;
        }
        while let Some(c) = self.peek() {
            let exponent_sign = matches!(c, '+' | '-') && text.ends_with(['e', 'E']);
            if !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '_') || exponent_sign) {
                break;
            }
            text.extend(Some(c).filter(|c| *c != '_'));
            self.at += 1;
        }
        let digits = text.trim_start_matches('-');
        let leading_zero = digits.len() > 1
            && digits.starts_with('0')
            && digits.trim_start_matches('0').starts_with(|c: char| c.is_ascii_digit());
        let whole = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.is_empty();
        let number = if whole && !leading_zero {
            text.parse::<i64>().ok().map(Number::from).or_else(|| text.parse::<u64>().ok().map(Number::from))
        } else if whole {
            None
        } else {
            text.parse::<f64>().ok().and_then(Number::from_f64)
        };
        number.map(Value::Number).ok_or_else(|| self.wanted("a number"))
    }

    /// One or several texts side by side, which Python joins.
    fn texts(&mut self) -> Result<Value, LiteralError> {
        let mut out = String::new();
        loop {
            let raw = matches!(self.peek(), Some('r' | 'R'));
            self.at += usize::from(matches!(self.peek(), Some('r' | 'R' | 'u' | 'U')));
            self.one_text(raw, &mut out)?;
            self.skip();
            if !matches!(self.peek(), Some('\'' | '"')) {
                return Ok(Value::String(out));
            }
        }
    }

    fn one_text(&mut self, raw: bool, out: &mut String) -> Result<(), LiteralError> {
        let quote = self.peek().ok_or_else(|| self.wanted("a quote"))?;
        let triple =
            self.chars.get(self.at..self.at + 3).is_some_and(|three| three.iter().all(|c| *c == quote));
        let width = if triple { 3 } else { 1 };
        self.at += width;
        loop {
            let here = self.chars.get(self.at..self.at + width);
            if here.is_some_and(|end| end.iter().all(|c| *c == quote)) {
                self.at += width;
                return Ok(());
            }
            let c = self.peek().ok_or_else(|| self.wanted("a closing quote"))?;
            if c == '\n' && !triple {
                return Err(self.wanted("a closing quote"));
            }
            self.at += 1;
            match c {
                '\\' if raw => {
                    out.push(c);
                    out.extend(self.peek());
                    self.at += 1;
                }
                '\\' => self.escape(out)?,
                c => out.push(c),
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), LiteralError> {
        let c = self.peek().ok_or_else(|| self.wanted("an escape"))?;
        self.at += 1;
        let plain = match c {
            '\n' => return Ok(()),
            '\\' | '\'' | '"' => c,
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            'x' => self.code(16, 2, 2)?,
            'u' => self.code(16, 4, 4)?,
            'U' => self.code(16, 8, 8)?,
            '0'..='7' => {
                self.at -= 1;
                self.code(8, 1, 3)?
            }
            'N' => return Err(self.wanted("no character by name")),
            other => {
                out.push('\\');
                other
            }
        };
        out.push(plain);
        Ok(())
    }

    fn code(&mut self, radix: u32, least: usize, most: usize) -> Result<char, LiteralError> {
        let mut code = 0_u32;
        let mut count = 0;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(radix)).filter(|_| count < most) {
            code = code.wrapping_mul(radix).wrapping_add(digit);
            count += 1;
            self.at += 1;
        }
        char::from_u32(code).filter(|_| count >= least).ok_or_else(|| self.wanted("the code of a character"))
    }
}
