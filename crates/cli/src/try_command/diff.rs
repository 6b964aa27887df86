//! Two texts as the lines that differ, with a little of what is around them.

/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;
/// Cells of the comparison table; above it the changed middle is shown as a whole.
const MAX_CELLS: usize = 4_000_000;

/// A line of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// In both.
    Same(&'a str),
    /// Only in the old text.
    Removed(&'a str),
    /// Only in the new text.
    Added(&'a str),
    /// Unchanged lines that are left out.
    Skipped(usize),
}

/// Compares line by line.
pub(crate) fn lines<'a>(old: &'a str, new: &'a str) -> Vec<Line<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_middle, new_middle) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut all: Vec<Line<'a>> = old[..head].iter().map(|line| Line::Same(line)).collect();
    middle(old_middle, new_middle, &mut all);
    all.extend(old[old.len() - tail..].iter().map(|line| Line::Same(line)));
    shorten(&all)
}

/// The longest common subsequence of what is between the common head and tail.
fn middle<'a>(old: &[&'a str], new: &[&'a str], out: &mut Vec<Line<'a>>) {
    let width = new.len() + 1;
    let small = (old.len() + 1).checked_mul(width).is_some_and(|cells| cells <= MAX_CELLS);
    if old.is_empty() || new.is_empty() || !small {
        out.extend(old.iter().map(|line| Line::Removed(line)));
        out.extend(new.iter().map(|line| Line::Added(line)));
        return;
    }
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for (i, a) in old.iter().enumerate().rev() {
        for (j, b) in new.iter().enumerate().rev() {
            common[i * width + j] = if a == b {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            out.push(Line::Same(old[i]));
            i += 1;
            j += 1;
        } else if j == new.len()
            || (i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            out.push(Line::Removed(old[i]));
            i += 1;
        } else {
            out.push(Line::Added(new[j]));
            j += 1;
        }
    }
}

fn shorten<'a>(all: &[Line<'a>]) -> Vec<Line<'a>> {
    let changed = |line: &Line<'_>| !matches!(line, Line::Same(_));
    let mut keep = vec![false; all.len()];
    for (at, _) in all.iter().enumerate().filter(|(_, line)| changed(line)) {
        let end = (at + CONTEXT + 1).min(all.len());
        keep[at.saturating_sub(CONTEXT)..end].fill(true);
    }
    let mut out = Vec::new();
    let mut skipped = 0;
    for (line, keep) in all.iter().zip(keep) {
        if keep {
            if skipped > 0 {
                out.push(Line::Skipped(std::mem::take(&mut skipped)));
            }
            out.push(*line);
        } else {
            skipped += 1;
        }
    }
    if skipped > 0 {
        out.push(Line::Skipped(skipped));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_in_the_middle_keeps_its_surroundings() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n";
        assert_eq!(
            lines(old, new),
            [
                Line::Skipped(1),
                Line::Same("2"),
                Line::Same("3"),
                Line::Same("4"),
                Line::Removed("5"),
                Line::Added("five"),
                Line::Same("6"),
                Line::Same("7"),
                Line::Same("8"),
                Line::Skipped(1),
            ]
        );
    }

    #[test]
    fn a_new_file_is_all_added_and_the_same_text_is_nothing() {
        assert_eq!(lines("", "a\nb"), [Line::Added("a"), Line::Added("b")]);
        assert_eq!(lines("a\nb", "a\nb"), [Line::Skipped(2)]);
        assert_eq!(lines("", ""), []);
    }

    #[test]
    fn the_two_sides_can_be_read_back() {
        let (old, new) = ("a\nb\nc\nx\nd", "b\nc\nc\nd\ne");
        let shown = lines(old, new);
        let side = |wanted: fn(&Line<'_>) -> bool| {
            let text: Vec<&str> = shown
                .iter()
                .filter(|line| wanted(line))
                .map(|line| match line {
                    Line::Same(text) | Line::Removed(text) | Line::Added(text) => *text,
                    Line::Skipped(_) => panic!("nothing is far from a change here"),
                })
                .collect();
            text.join("\n")
        };
        assert_eq!(side(|line| !matches!(line, Line::Added(_))), old);
        assert_eq!(side(|line| !matches!(line, Line::Removed(_))), new);
    }
}
