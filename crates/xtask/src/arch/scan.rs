//! A Rust source as two views of equal shape: code without strings and comments, and code with strings.
//!
//! Not a parser. It knows what can hold misleading text (comments, strings, characters) and where test modules end.

/// One source file, test items blanked out.
pub(crate) struct Source {
    /// Strings and comments are spaces.
    pub(crate) code: String,
    /// Comments are spaces, strings are there.
    pub(crate) text: String,
    /// Lines outside test items.
    pub(crate) lines: usize,
    /// Names of `#[cfg(test)] mod name;`, whose files are test code.
    pub(crate) test_modules: Vec<String>,
}

impl Source {
    pub(crate) fn new(source: &str) -> Self {
        let (mut code, mut text) = strip(source.as_bytes());
        let mut lines = source.lines().count();
        let mut test_modules = Vec::new();
        let mut from = 0;
        while let Some(start) = find(&code, b"#[cfg(test)]", from) {
            let end = item_end(&code, start + 12);
            let item = String::from_utf8_lossy(&code[start..end]).into_owned();
            lines = lines.saturating_sub(item.lines().count());
            if let Some(name) = item.trim_end().strip_suffix(';').and_then(|head| head.rsplit_once("mod ")) {
                test_modules.push(name.1.trim().to_owned());
            }
            blank(&mut code[start..end]);
            blank(&mut text[start..end]);
            from = end;
        }
        let readable = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: readable(code), text: readable(text), lines, test_modules }
    }
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

fn find(bytes: &[u8], needle: &[u8], from: usize) -> Option<usize> {
    bytes.get(from..)?.windows(needle.len()).position(|window| window == needle).map(|at| from + at)
}

/// Behind the item that begins at `at`: its closing brace or its semicolon, whichever comes first outside brackets.
fn item_end(code: &[u8], at: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code[at..].iter().enumerate() {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + offset + 1;
                }
            }
            b';' if depth == 0 => return at + offset + 1,
            _ => {}
        }
    }
    code.len()
}

/// The two views as bytes; only whole comments, strings and characters are blanked, so they stay valid UTF-8.
fn strip(source: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut code, mut text) = (source.to_vec(), source.to_vec());
    let mut at = 0;
    while at < source.len() {
        let rest = &source[at..];
        let end = if rest.starts_with(b"//") {
            let end = at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            blank(&mut text[at..end]);
            end
        } else if rest.starts_with(b"/*") {
            let end = comment_end(source, at);
            blank(&mut text[at..end]);
            end
        } else if rest[0] == b'"' {
            string_end(source, at)
        } else if let Some(end) = raw_string_end(source, at) {
            end
        } else if let Some(end) = char_end(source, at) {
            end
        } else {
            at += 1;
            continue;
        };
        blank(&mut code[at..end]);
        at = end;
    }
    (code, text)
}

fn comment_end(source: &[u8], start: usize) -> usize {
    let (mut depth, mut at) = (0_usize, start);
    while at < source.len() {
        match &source[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    source.len()
}

fn string_end(source: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < source.len() {
        match source[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    source.len()
}

/// `r"…"`, `r#"…"#`, with `b` or `c` before; not the `r` at the end of a name, nor a raw identifier.
fn raw_string_end(source: &[u8], start: usize) -> Option<usize> {
    if source[start] != b'r' {
        return None;
    }
    let named = |at: usize| source[at].is_ascii_alphanumeric() || source[at] == b'_';
    if start > 0 && named(start - 1) {
        let prefix = matches!(source[start - 1], b'b' | b'c') && !(start > 1 && named(start - 2));
        if !prefix {
            return None;
        }
    }
    let hashes = source[start + 1..].iter().take_while(|byte| **byte == b'#').count();
    if source.get(start + 1 + hashes) != Some(&b'"') {
        return None;
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    Some(find(source, &close, start + 2 + hashes).map_or(source.len(), |at| at + close.len()))
}

/// A character, not a lifetime.
fn char_end(source: &[u8], start: usize) -> Option<usize> {
    if source[start] != b'\'' {
        return None;
    }
    let rest = &source[start + 1..];
    if rest.first() == Some(&b'\\') {
        // Behind the backslash and what it escapes comes the closing quote.
        return rest.iter().skip(2).position(|byte| *byte == b'\'').map(|at| start + 4 + at);
    }
    let first = std::str::from_utf8(&rest[..rest.len().min(4)]).map_or_else(
        |cut| std::str::from_utf8(&rest[..cut.valid_up_to()]).ok().and_then(|valid| valid.chars().next()),
        |valid| valid.chars().next(),
    )?;
    (rest.get(first.len_utf8()) == Some(&b'\'')).then(|| start + 2 + first.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_no_code() {
        let source = Source::new(concat!(
            "let a = \"println!(\\\"\"; // println!\n",
            "let b = r#\"print\"!\"#; /* a /* print! */ b */ let c = '\"'; let d: &'static str = b'\\''; dbg\n",
            "let for_r = br\"x\"; let ü = 'ü';\n",
        ));
        assert!(!source.code.contains("print"), "{}", source.code);
        assert!(
            source.code.contains("let c =")
                && source.code.contains("&'static str")
                && source.code.contains("dbg")
        );
        assert!(source.code.contains("let for_r =") && source.code.contains("let ü ="), "{}", source.code);
        assert!(
            source.text.contains("println!(\\\"")
                && source.text.contains("print\"!")
                && !source.text.contains("// println")
        );
        assert_eq!(source.code.lines().count(), 3);
    }

    #[test]
    fn test_items_are_blanked_and_not_counted() {
        let source = Source::new(
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { \"}\"; println!() }\n}\n#[cfg(test)]\nmod other;\nfn c() {}\n",
        );
        assert!(!source.code.contains("println"));
        assert!(source.code.contains("fn a()") && source.code.contains("fn c()"));
        assert_eq!((source.lines, source.test_modules), (2, vec!["other".to_owned()]));
    }
}
