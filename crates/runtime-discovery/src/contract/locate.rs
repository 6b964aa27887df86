//! Names the member at a position of a JSON text, so that a refusal can say which one it means.
//!
//! The parser's own errors give line and column only. The text up to there has been accepted by it, so a small scan
//! that follows strings, brackets and commas is enough.

enum Level {
    Object(Option<String>),
    Array(usize),
}

/// Path of the member that ends at or contains the position, `-` when there is none.
pub(super) fn field_at(text: &str, line: usize, column: usize) -> String {
    let end = offset(text, line, column);
    let bytes = text.as_bytes().get(..end).unwrap_or(text.as_bytes());
    let mut levels: Vec<Level> = Vec::new();
    let mut last_string: Option<String> = None;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let start = at + 1;
                at = start;
                while let Some(&inner) = bytes.get(at) {
                    match inner {
                        b'\\' => at += 2,
                        b'"' => break,
                        _ => at += 1,
                    }
                }
                let content = bytes.get(start..at.min(bytes.len())).unwrap_or_default();
                last_string = Some(String::from_utf8_lossy(content).into_owned());
            }
            b':' => {
                if let Some(Level::Object(key)) = levels.last_mut() {
                    *key = last_string.take();
                }
            }
            b',' => match levels.last_mut() {
                Some(Level::Array(index)) => *index += 1,
                Some(Level::Object(key)) => *key = None,
                None => {}
            },
            b'{' => levels.push(Level::Object(None)),
            b'[' => levels.push(Level::Array(0)),
            // The closing bracket that completes a value ends the position's own member: keep its path.
            b'}' | b']' if at + 1 < bytes.len() => {
                levels.pop();
            }
            _ => {}
        }
        at += 1;
    }
    let names: Vec<String> = levels
        .into_iter()
        .filter_map(|level| match level {
            Level::Object(key) => key,
            Level::Array(index) => Some(index.to_string()),
        })
        .collect();
    if names.is_empty() { "-".to_owned() } else { names.join(".") }
}

fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    start.saturating_add(column).min(text.len())
}
