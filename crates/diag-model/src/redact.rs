//! Redaction: the part of a record's meaning that says which text is never in one.
//!
//! It lives in the vocabulary because everything that carries foreign text (the log, a child's stderr tail, a failure's
//! cause) must agree on it, and a leaf is what they all can reach. It is a pure function over text: no environment, no
//! pattern engine, linear for practical purposes. It prefers removing too much to keeping too much, with one exception:
//! counters such as `totalTokens` stay, because they are what a record is for.

use std::borrow::Cow;

/// Stands where a secret stood.
pub const REDACTED: &str = "[redacted]";

/// How far the authority of a URL is looked for; longer ones are not URLs.
const URL_LOOKAHEAD: usize = 2048;

/// The longest home directory name with spaces that is recognised.
const HOME_NAME_LOOKAHEAD: usize = 64;

/// Rounds after which the result counts as settled. One replacement can bring two pieces together that match only then;
/// two rounds are the rule.
const MAX_ROUNDS: usize = 8;

/// Keys of which any part gives the value away as a secret. Compared in lower case without `-` and `_`.
const SECRET_PARTS: &[&str] = &[
    "authorization",
    "cookie",
    "credential",
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "accesskey",
    "privatekey",
    "captcha",
    "signature",
];

/// Keys whose unquoted value may hold spaces, so that it ends with the line.
const LINE_PARTS: &[&str] = &["authorization", "cookie", "password", "passwd", "passphrase"];

/// Query parameters that are secret in a URL and harmless elsewhere.
const QUERY_KEYS: &[&str] = &[
    "key",
    "code",
    "sig",
    "sign",
    "auth",
    "ticket",
    "sid",
    "session",
    "sessionid",
    "state",
    "nonce",
    "pwd",
    "pass",
];

/// Prefixes of well-known keys, with the least length of the whole.
const KEY_PREFIXES: &[(&str, usize)] = &[
    ("sk-", 16),
    ("sk_", 16),
    ("api_", 16),
    ("api-", 24),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghs_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("xoxb-", 16),
    ("xoxp-", 16),
    ("eyJ", 16),
];

/// Removes secrets from foreign text and shortens home directories to `~`.
///
/// Removed are values behind `Bearer` and `Basic`, `sk-` and `api_` keys, GLM keys (32 hexadecimal digits, a dot, a
/// secret), JSON web tokens, `enc:v1:` credentials, values under a key that names a secret (authorization, cookie,
/// captcha, token and so on, in headers, JSON, queries, assignments and options), and the user part of a URL. The
/// function is idempotent.
pub fn redact(text: &str) -> Cow<'_, str> {
    let Some(mut out) = pass(text) else { return Cow::Borrowed(text) };
    for _ in 1..MAX_ROUNDS {
        match pass(&out) {
            Some(next) => out = next,
            None => break,
        }
    }
    Cow::Owned(out)
}

/// Replaces one known home directory by `~`; [`redact`] knows only the usual places. A root (`/`, `C:\`) or an empty path
/// is no home directory and changes nothing.
pub fn redact_home<'a>(text: &'a str, home: &str) -> Cow<'a, str> {
    let home = home.trim_end_matches(['/', '\\']);
    if home.len() < 3 || !text.contains(home) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(home) {
        let end = at + home.len();
        let inside = rest.as_bytes().get(end).is_some_and(|next| is_name(*next));
        out.push_str(&rest[..at]);
        out.push_str(if inside { home } else { "~" });
        rest = &rest[end..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// One replacement: `keep..end` of the text gives way to `with`.
struct Cut {
    keep: usize,
    end: usize,
    with: &'static str,
}

/// One pass from left to right. `None` when nothing changed.
fn pass(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while at < bytes.len() {
        let cut = find_cut(bytes, at).filter(|cut| &bytes[cut.keep..cut.end] != cut.with.as_bytes());
        if let Some(cut) = cut {
            out.push_str(&text[copied..cut.keep]);
            out.push_str(cut.with);
            copied = cut.end;
            at = cut.end;
        } else {
            at += 1;
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(&text[copied..]);
    Some(out)
}

fn find_cut(bytes: &[u8], at: usize) -> Option<Cut> {
    match bytes[at] {
        b':' => url_user(bytes, at),
        b'/' => unix_home(bytes, at),
        byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
            if starts_word(bytes, at) {
                windows_home(bytes, at)
                    .or_else(|| scheme_value(bytes, at))
                    .or_else(|| bare_key(bytes, at))
                    .or_else(|| keyed_value(bytes, at))
            } else {
                None
            }
        }
        _ => None,
    }
}

/// Whether a word begins here. In escaped text the letter or digits of an escape (`\n`, `%3D`, `\u003d`) are no part of
/// the word behind them.
fn starts_word(bytes: &[u8], at: usize) -> bool {
    let Some(prev) = at.checked_sub(1).map(|prev| bytes[prev]) else { return true };
    if !prev.is_ascii_alphanumeric() {
        return true;
    }
    let escape = |back: usize, lead: &[u8]| at >= back && bytes[at - back..].starts_with(lead);
    let hex = |back: usize| bytes[at - back..at].iter().all(u8::is_ascii_hexdigit);
    (escape(2, b"\\") && matches!(prev, b'n' | b'r' | b't'))
        || (escape(3, b"%") && hex(2))
        || (escape(6, b"\\u") && hex(4))
}

/// `scheme://user:password@host`.
fn url_user(bytes: &[u8], at: usize) -> Option<Cut> {
    if !bytes[at..].starts_with(b"://") {
        return None;
    }
    let start = at + 3;
    let limited = &bytes[..bytes.len().min(start + URL_LOOKAHEAD)];
    let in_run = |byte: u8| !byte.is_ascii_whitespace() && !matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'`');
    let authority = take(limited, start, |byte| in_run(byte) && !matches!(byte, b'/' | b'?' | b'#' | b'\\'));
    let last_at =
        |end: usize| bytes[start..end].iter().rposition(|byte| *byte == b'@').map(|back| start + back);
    let end = last_at(authority).or_else(|| {
        // A password with an unescaped slash: what looks like a port is none.
        let colon = bytes[start..authority].iter().position(|byte| *byte == b':')?;
        let port = &bytes[start + colon + 1..authority];
        if bytes[start] == b'[' || port.iter().all(u8::is_ascii_digit) {
            return None;
        }
        last_at(take(limited, start, in_run))
    })?;
    (end > start).then_some(Cut { keep: start, end, with: REDACTED })
}

/// `/home/name`, `/Users/name` and `/root`.
fn unix_home(bytes: &[u8], at: usize) -> Option<Cut> {
    let before = at.checked_sub(1).map(|prev| bytes[prev]);
    if before.is_some_and(|prev| is_name(prev) || prev == b'~') && !starts_word(bytes, at) {
        return None;
    }
    if before.is_some_and(|prev| matches!(prev, b'_' | b'-' | b'.' | b'~')) {
        return None;
    }
    let rest = &bytes[at..];
    if rest.starts_with(b"/root") && !rest.get(5).is_some_and(|next| is_name(*next)) {
        return Some(Cut { keep: at, end: at + 5, with: "~" });
    }
    let name = [&b"/home/"[..], b"/Users/"]
        .into_iter()
        .find(|lead| rest.starts_with(lead))
        .map(|lead| at + lead.len())?;
    let end = take(bytes, name, is_segment);
    (end > name).then_some(Cut { keep: at, end, with: "~" })
}

/// `C:\Users\name`, with single, doubled or forward slashes.
fn windows_home(bytes: &[u8], at: usize) -> Option<Cut> {
    if !bytes[at].is_ascii_alphabetic() || bytes.get(at + 1) != Some(&b':') {
        return None;
    }
    let slash = |from: usize| take(bytes, from, |byte| matches!(byte, b'\\' | b'/'));
    let folder = slash(at + 2);
    if folder == at + 2 || !starts_with_ignoring_case(&bytes[folder..], b"users") {
        return None;
    }
    let name = slash(folder + 5);
    if name == folder + 5 {
        return None;
    }
    let mut end = take(bytes, name, is_segment);
    // Windows names may hold spaces; they belong to the name when a backslash follows them.
    let limit = bytes.len().min(name + HOME_NAME_LOOKAHEAD);
    let spaced = take(&bytes[..limit], name, |byte| is_segment(byte) || byte == b' ');
    if bytes.get(spaced) == Some(&b'\\') {
        end = spaced;
    }
    (end > name).then_some(Cut { keep: at, end, with: "~" })
}

/// `Bearer value` and `Basic value`.
fn scheme_value(bytes: &[u8], at: usize) -> Option<Cut> {
    let rest = &bytes[at..];
    let (word, bearer) = if starts_with_ignoring_case(rest, b"bearer") {
        (6, true)
    } else if starts_with_ignoring_case(rest, b"basic") {
        (5, false)
    } else {
        return None;
    };
    let mut start = skip_space(bytes, at + word);
    if start == at + word {
        return None;
    }
    // "bearer token: abc" and "bearer token abc".
    if bearer
        && starts_with_ignoring_case(&bytes[start..], b"token")
        && !bytes.get(start + 5).is_some_and(|next| is_token68(*next))
    {
        let colon = usize::from(bytes.get(start + 5) == Some(&b':'));
        start = skip_space(bytes, start + 5 + colon);
    }
    let end = take(bytes, start, |byte| is_token68(byte) || byte == b':');
    let value = &bytes[start..end];
    // Prose such as "basic checks" stays; what base64 makes of a name and a password is never a plain word.
    let plain_word = value.iter().all(u8::is_ascii_lowercase);
    (!value.is_empty() && (bearer || !plain_word)).then_some(Cut { keep: start, end, with: REDACTED })
}

/// Keys that are recognised by their own shape.
fn bare_key(bytes: &[u8], at: usize) -> Option<Cut> {
    let rest = &bytes[at..];
    let whole = |end: usize| Some(Cut { keep: at, end, with: REDACTED });
    if starts_with_ignoring_case(rest, b"enc:v1:") {
        let end = take(bytes, at + 7, |byte| is_token68(byte) || byte == b':');
        return if end > at + 7 { whole(end) } else { None };
    }
    for (prefix, least) in KEY_PREFIXES {
        // Base64 of `{"` has one case only; the other prefixes are found in any.
        let dotted = *prefix == "eyJ";
        if rest.starts_with(prefix.as_bytes())
            || (!dotted && starts_with_ignoring_case(rest, prefix.as_bytes()))
        {
            let end = take(bytes, at, |byte| {
                byte.is_ascii_alphanumeric()
                    || matches!(byte, b'_' | b'-')
                    || (dotted && matches!(byte, b'.' | b'='))
            });
            if end - at >= *least {
                return whole(end);
            }
        }
    }
    let id = take(bytes, at, |byte| byte.is_ascii_hexdigit());
    if id - at == 32 && bytes.get(id) == Some(&b'.') {
        let end = take(bytes, id + 1, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if end - id > 16 {
            return whole(end);
        }
    }
    None
}

/// `key: value`, `key=value`, `"key":"value"`, `["key", "value"]` and `--key value`.
fn keyed_value(bytes: &[u8], at: usize) -> Option<Cut> {
    // A key begins behind something that is no part of a key; so each is read once.
    if at > 0 && matches!(bytes[at - 1], b'_' | b'-') && !bytes[..at].ends_with(b"--") {
        return None;
    }
    let key_end = take(bytes, at, is_key);
    let key = Key::read(bytes, at, key_end)?;

    let close = skip_quote(bytes, key_end);
    let mut value = skip_space(bytes, close);
    let separator = if let Some(len) = separator(&bytes[value..]) {
        value += len;
        true
    } else {
        let pair = close > key_end && bytes.get(value) == Some(&b',');
        let option = close == key_end && value > key_end && at >= 2 && &bytes[at - 2..at] == b"--";
        value += usize::from(pair);
        pair || option
    };
    if !separator {
        return None;
    }
    value = skip_space(bytes, value);

    let open = skip_quote(bytes, value);
    let (keep, end) = if open > value {
        let quote = bytes[open - 1];
        (open, quoted_end(bytes, open, quote, open - value - 1))
    } else if matches!(bytes.get(value), Some(b'{' | b'['))
        && !bytes[value..].starts_with(REDACTED.as_bytes())
    {
        (value, bracket_end(bytes, value))
    } else if key.to_line_end {
        // `-H 'Cookie: a=b'`: the quote before the key ends the value.
        let quote =
            at.checked_sub(1).map(|prev| bytes[prev]).filter(|prev| matches!(prev, b'"' | b'\'' | b'`'));
        (value, take(bytes, value, |byte| !matches!(byte, b'\n' | b'\r') && Some(byte) != quote))
    } else {
        let end = take(bytes, value, |byte| {
            !byte.is_ascii_whitespace()
                && !matches!(byte, b'&' | b'"' | b'\'' | b'`' | b'<' | b'>' | b'{' | b'}' | b'(' | b')')
        });
        (value, end)
    };
    let found = &bytes[keep..end];
    if found.is_empty() || (key.counter && is_number(found)) || matches!(found, b"null" | b"true" | b"false")
    {
        return None;
    }
    Some(Cut { keep, end, with: REDACTED })
}

/// What a key says about its value.
struct Key {
    to_line_end: bool,
    /// A number under it is a count, not a secret.
    counter: bool,
}

impl Key {
    fn read(bytes: &[u8], start: usize, end: usize) -> Option<Self> {
        let folded: Vec<u8> = bytes[start..end]
            .iter()
            .filter(|byte| !matches!(byte, b'-' | b'_'))
            .take(128)
            .map(u8::to_ascii_lowercase)
            .collect();
        let has = |part: &str| folded.windows(part.len()).any(|window| window == part.as_bytes());
        let is = |word: &str| folded == word.as_bytes();
        let to_line_end = LINE_PARTS.iter().any(|part| has(part));
        if to_line_end || SECRET_PARTS.iter().any(|part| has(part)) {
            return Some(Self { to_line_end, counter: false });
        }
        if has("token") {
            return Some(Self { to_line_end, counter: !folded.ends_with(b"token") });
        }
        let before = start.checked_sub(1).map(|prev| bytes[prev]);
        let in_query = matches!(before, Some(b'?' | b'&')) && QUERY_KEYS.iter().any(|key| is(key));
        let headers = folded.ends_with(b"headers") || folded.ends_with(b"header");
        (in_query || headers || is("jwt") || is("auth")).then_some(Self { to_line_end, counter: headers })
    }
}

/// `:`, `=`, `=>`, `:=` or one of them percent-encoded.
fn separator(rest: &[u8]) -> Option<usize> {
    match rest {
        [b'=', b'>', ..] | [b':', b'=', ..] => Some(2),
        [b':' | b'=', ..] => Some(1),
        [b'%', b'3', b'a' | b'A' | b'd' | b'D', ..] => Some(3),
        _ => None,
    }
}

/// The end of a quoted value: the next quote behind at most `escapes` backslashes, as the opening one had.
fn quoted_end(bytes: &[u8], start: usize, quote: u8, escapes: usize) -> usize {
    let mut run = 0;
    for (offset, byte) in bytes[start..].iter().enumerate() {
        if *byte == quote && run <= escapes {
            return start + offset - run;
        }
        run = if *byte == b'\\' { run + 1 } else { 0 };
    }
    bytes.len()
}

/// The end of an object or list, strings skipped; the end of the text when it is cut off.
fn bracket_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b'"' => at = quoted_end(bytes, at + 1, b'"', 0),
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// Behind the quote at `at`, with the backslashes before it; `at` when there is none.
fn skip_quote(bytes: &[u8], at: usize) -> usize {
    let quote = take(bytes, at, |byte| byte == b'\\');
    if matches!(bytes.get(quote), Some(b'"' | b'\'' | b'`')) { quote + 1 } else { at }
}

/// Behind spaces and tabs, percent-encoded ones and `+` included.
fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match &bytes[at..] {
            [b' ' | b'\t' | b'+', ..] => at += 1,
            [b'%', b'2', b'0', ..] => at += 3,
            _ => return at,
        }
    }
}

/// Where the run of bytes that satisfy `wanted` ends.
fn take(bytes: &[u8], start: usize, wanted: impl Fn(u8) -> bool) -> usize {
    bytes[start..].iter().position(|byte| !wanted(*byte)).map_or(bytes.len(), |len| start + len)
}

fn starts_with_ignoring_case(bytes: &[u8], lead: &[u8]) -> bool {
    bytes.get(..lead.len()).is_some_and(|head| head.eq_ignore_ascii_case(lead))
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') || byte >= 0x80
}

/// A byte of a home directory's name; letters outside ASCII are part of it.
fn is_segment(byte: u8) -> bool {
    is_name(byte) || matches!(byte, b'@' | b'+' | b'$')
}

/// The alphabet of authorization values.
fn is_token68(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=')
}

fn is_number(text: &[u8]) -> bool {
    let text = text.strip_suffix(b",").unwrap_or(text);
    text.len() <= 16
        && text.iter().any(u8::is_ascii_digit)
        && text.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b',' | b'_' | b'-'))
}

#[cfg(test)]
mod tests;
