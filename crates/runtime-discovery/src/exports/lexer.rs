//! Tells code from text in JavaScript, as far as finding `export` needs it.
//!
//! Whether `/` divides or begins a regular expression depends on what precedes it. That is decided from the previous
//! token and, for `)` and `}`, from what their opening bracket was. A wrong guess costs at most the rest of a line.

/// A token. Numbers, regular expressions and templates are [`Token::Other`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// Identifier or keyword.
    Word(&'a [u8]),
    /// Content of a string literal, escapes untouched.
    Text(&'a [u8]),
    /// One character of punctuation.
    Punct(u8),
    /// An operand that is not looked at.
    Other,
}

/// A token with what its surroundings say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lexeme<'a> {
    pub(super) token: Token<'a>,
    /// It follows an operand on a later line.
    pub(super) starts_statement: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Paren { control: bool },
    Square,
    Brace { block: bool },
    Template,
}

pub(super) struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    open: Vec<Bracket>,
    previous: Option<Token<'a>>,
    /// The previous token ends an operand, so a `/` divides.
    operand: bool,
    after_dot: bool,
    /// Up to here no regular expression ends, so none is looked for again.
    no_regex_before: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let mut lexer = Self {
            bytes,
            at: 0,
            open: Vec::new(),
            previous: None,
            operand: false,
            after_dot: false,
            no_regex_before: 0,
        };
        if bytes.starts_with(b"#!") {
            lexer.skip_line();
        }
        lexer
    }

    /// Number of brackets that are open.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    pub(super) fn next(&mut self) -> Option<Lexeme<'a>> {
        let newline = self.skip_blank();
        let starts_statement = newline && self.operand;
        let token = self.token()?;
        self.after_dot = token == Token::Punct(b'.');
        self.previous = Some(token);
        Some(Lexeme { token, starts_statement })
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn slice(&self, from: usize) -> &'a [u8] {
        self.bytes.get(from..self.at.min(self.bytes.len())).unwrap_or_default()
    }

    fn skip_line(&mut self) {
        while self.peek(0).is_some_and(|byte| byte != b'\n' && byte != b'\r') {
            self.at += 1;
        }
    }

    /// Skips blanks and comments; says whether a line ended in them.
    fn skip_blank(&mut self) -> bool {
        let mut newline = false;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(b'\n' | b'\r'), _) => {
                    newline = true;
                    self.at += 1;
                }
                (Some(b' ' | b'\t' | 0x0b | 0x0c), _) => self.at += 1,
                (Some(b'/'), Some(b'/')) => self.skip_line(),
                (Some(b'/'), Some(b'*')) => {
                    self.at += 2;
                    while let Some(byte) = self.peek(0) {
                        if byte == b'*' && self.peek(1) == Some(b'/') {
                            break;
                        }
                        newline |= byte == b'\n';
                        self.at += 1;
                    }
                    self.at = (self.at + 2).min(self.bytes.len());
                }
                _ => return newline,
            }
        }
    }

    fn token(&mut self) -> Option<Token<'a>> {
        let start = self.at;
        let first = self.peek(0)?;
        if first.is_ascii_digit() || first == b'.' && self.peek(1).is_some_and(|byte| byte.is_ascii_digit()) {
            while self.peek(0).is_some_and(|byte| is_word(byte) || byte == b'.') {
                self.at += 1;
            }
            self.operand = true;
            return Some(Token::Other);
        }
        if is_word(first) {
            while self.peek(0).is_some_and(is_word) {
                self.at += 1;
            }
            let word = self.slice(start);
            self.operand = self.after_dot || !precedes_operand(word);
            return Some(Token::Word(word));
        }
        self.at += 1;
        match first {
            b'"' | b'\'' => {
                let text = self.string(first);
                self.operand = true;
                Some(Token::Text(text))
            }
            b'`' => Some(self.template()),
            b'/' if !self.operand && self.regex() => {
                self.operand = true;
                Some(Token::Other)
            }
            b'+' | b'-' if self.peek(0) == Some(first) => {
                // Neither a prefix nor a postfix changes whether an operand has ended.
                self.at += 1;
                Some(Token::Punct(first))
            }
            b'}' if self.open.last() == Some(&Bracket::Template) => {
                self.open.pop();
                Some(self.template())
            }
            _ => {
                self.bracket(first);
                Some(Token::Punct(first))
            }
        }
    }

    fn bracket(&mut self, byte: u8) {
        match byte {
            b'(' => {
                let control = matches!(self.previous, Some(Token::Word(b"if" | b"while" | b"for" | b"with")));
                self.open.push(Bracket::Paren { control });
            }
            b'[' => self.open.push(Bracket::Square),
            b'{' => self.open.push(Bracket::Brace { block: self.begins_block() }),
            b')' | b']' | b'}' => {
                self.operand = match self.open.pop() {
                    Some(Bracket::Paren { control }) => !control,
                    Some(Bracket::Brace { block }) => !block,
                    _ => true,
                };
                return;
            }
            _ => {}
        }
        self.operand = false;
    }

    /// Whether `{` here begins statements and not an object.
    fn begins_block(&self) -> bool {
        match self.previous {
            Some(Token::Word(word)) => self.operand || matches!(word, b"else" | b"do"),
            // `>` is the end of an arrow: comparing with an object is not written.
            Some(Token::Punct(byte)) => matches!(byte, b')' | b';' | b'{' | b'}' | b'>'),
            None | Some(Token::Text(_) | Token::Other) => true,
        }
    }

    fn string(&mut self, quote: u8) -> &'a [u8] {
        let start = self.at;
        loop {
            match self.peek(0) {
                Some(b'\\') => self.at = (self.at + 2).min(self.bytes.len()),
                Some(byte) if byte == quote => {
                    let text = self.slice(start);
                    self.at += 1;
                    return text;
                }
                // A string does not go over a line: it was none.
                None | Some(b'\n') => return self.slice(start),
                Some(_) => self.at += 1,
            }
        }
    }

    /// Reads template text up to its end or to the next `${`.
    fn template(&mut self) -> Token<'a> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (None, _) => break,
                (Some(b'\\'), _) => self.at = (self.at + 2).min(self.bytes.len()),
                (Some(b'`'), _) => {
                    self.at += 1;
                    break;
                }
                (Some(b'$'), Some(b'{')) => {
                    self.at += 2;
                    self.open.push(Bracket::Template);
                    self.operand = false;
                    // What follows is an expression, as after an opening parenthesis.
                    return Token::Punct(b'(');
                }
                _ => self.at += 1,
            }
        }
        self.operand = true;
        Token::Other
    }

    /// Reads a regular expression whose first `/` has been read; stays there if the line has no end of one.
    fn regex(&mut self) -> bool {
        let start = self.at;
        if start < self.no_regex_before {
            return false;
        }
        let mut class = false;
        loop {
            match self.peek(0) {
                None | Some(b'\n' | b'\r') => {
                    self.no_regex_before = self.at;
                    self.at = start;
                    return false;
                }
                Some(b'\\') => self.at = (self.at + 2).min(self.bytes.len()),
                Some(b'/') if !class => break,
                Some(byte) => {
                    class = byte == b'[' || class && byte != b']';
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        while self.peek(0).is_some_and(|byte| byte.is_ascii_alphabetic()) {
            self.at += 1;
        }
        true
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'#' | b'\\' | 0x80..)
}

/// Keywords after which an operand begins.
fn precedes_operand(word: &[u8]) -> bool {
    matches!(
        word,
        b"return"
            | b"typeof"
            | b"case"
            | b"in"
            | b"of"
            | b"delete"
            | b"void"
            | b"throw"
            | b"new"
            | b"do"
            | b"else"
            | b"instanceof"
            | b"yield"
            | b"await"
            | b"extends"
            | b"default"
    )
}
