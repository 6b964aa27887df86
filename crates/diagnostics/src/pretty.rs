//! The form of a record for a person at a terminal. Everything is in words; there is no colour to lose.

use std::fmt::Write as _;

use diag_model::Record;

/// One line without a line break: time (UTC), level, name, facts.
pub(crate) fn pretty(record: &Record) -> String {
    let (second, milli) = (record.at / 1000 % 86_400, record.at % 1000);
    let mut out = format!(
        "{:02}:{:02}:{:02}.{milli:03}Z {:<5} {}",
        second / 3600,
        second / 60 % 60,
        second % 60,
        record.level.as_str().to_ascii_uppercase(),
        record.name
    );
    // Writing to a string cannot fail.
    if let Some(target) = &record.target {
        let _ = write!(out, " target={target}");
    }
    record.facts.each(|key, value| {
        let text = value.to_string();
        let plain = !text.is_empty() && !text.contains([' ', '"', '=']);
        let _ = if plain {
            write!(out, " {key}={text}")
        } else {
            write!(out, " {key}=\"{}\"", text.replace('"', "'"))
        };
    });
    for (key, count) in [("omitted", record.omitted), ("suppressed", record.suppressed)] {
        if count > 0 {
            let _ = write!(out, " {key}={count}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use diag_model::Level;

    use super::*;

    #[test]
    fn a_record_reads_as_a_line() {
        let mut record = Record::new(Level::Warn, "host.exited");
        record.at = 1_800_000_000_123;
        record.suppressed = 3;
        for (name, value) in [("session", "s-1"), ("ms", "12"), ("error", "it \"ended\"; try again")] {
            record.facts.set(name, value);
        }
        assert_eq!(
            pretty(&record),
            "08:00:00.123Z WARN  host.exited session=s-1 ms=12 error=\"it 'ended'; try again\" suppressed=3"
        );
    }
}
