//! Sentences of a passage, as byte ranges: what an extractive answer quotes.

use std::ops::Range;

/// Abbreviations whose full stop does not end a sentence.
const ABBREVIATIONS: [&str; 37] = [
    "mr", "mrs", "ms", "dr", "prof", "st", "vs", "etc", "e.g", "i.e", "fig", "no", "vol", "p",
    "pp", "approx", "dept", "inc", "ltd", "co", "jr", "sr", "bzw", "usw", "al", "cf", "ca", "nr",
    "art", "z.b", "d.h", "u.a", "p.m", "a.m", "gen", "mt", "max",
];

/// Byte ranges of the sentences of `text`, trimmed, in order; none is empty.
///
/// Ends: `. ! ?` (with closing quotes or brackets) before white space, the full-width marks of Chinese
/// and Japanese anywhere, the Devanagari danda, and line breaks that separate items (a blank line, or
/// a following line that begins a list item or a `Name:` turn).
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let mut i = 0;
    while i < chars.len() {
        let (at, c) = chars[i];
        let end = match c {
            '。' | '！' | '？' | '।' | '؟' => Some(skip_closers(&chars, i + 1)),
            '.' | '!' | '?' => {
                let after = skip_closers(&chars, i + 1);
                let breaks = chars.get(after).is_none_or(|&(_, next)| next.is_whitespace());
                let abbreviation = c == '.' && is_abbreviation(&text[start..at]);
                (breaks && !abbreviation).then_some(after)
            }
            '\n' if line_break_separates(&text[at + 1..]) => Some(i + 1),
            _ => None,
        };
        if let Some(end) = end {
            let end_byte = chars.get(end).map_or(text.len(), |&(byte, _)| byte);
            push_trimmed(text, start..end_byte, &mut ranges);
            start = end_byte;
            i = end;
        } else {
            i += 1;
        }
    }
    push_trimmed(text, start..text.len(), &mut ranges);
    ranges
}

/// Whether a range that [`sentences`] found ends as a sentence does: headings, table rows and list items
/// mostly do not.
pub(crate) fn is_whole(sentence: &str) -> bool {
    let last = sentence.trim_end_matches(is_closer).chars().next_back();
    last.is_some_and(|it| matches!(it, '.' | '!' | '?' | '…' | '。' | '！' | '？' | '।' | '؟'))
}

pub(crate) fn is_closer(c: char) -> bool {
    matches!(c, '"' | '\'' | ')' | ']' | '”' | '’' | '»' | '」' | '』' | '）')
}

fn skip_closers(chars: &[(usize, char)], mut i: usize) -> usize {
    while chars.get(i).is_some_and(|&(_, c)| matches!(c, '.' | '!' | '?') || is_closer(c)) {
        i += 1;
    }
    i
}

/// Whether a full stop behind this text is that of an abbreviation or an initial.
pub(crate) fn is_abbreviation(before: &str) -> bool {
    let word = before.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or("");
    // A single capital is an initial: "J. Doe".
    let initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase);
    initial || ABBREVIATIONS.contains(&word.to_lowercase().as_str())
}

fn line_break_separates(rest: &str) -> bool {
    let line = rest.split('\n').next().unwrap_or("").trim_start();
    let Some(first) = line.chars().next() else { return true };
    if matches!(first, '-' | '*' | '•' | '#' | '|' | '>' | '☐' | '☑' | '☒' | '✓' | '✗')
    {
        return true;
    }
    // A box of a list of things to do.
    if ["[ ]", "[]", "[x]", "[X]"].iter().any(|it| line.starts_with(it)) {
        return true;
    }
    let head = line.split_whitespace().next().unwrap_or("");
    let numbered = head.len() > 1
        && head.ends_with(['.', ')'])
        && head[..head.len() - 1].chars().all(|c| c.is_ascii_digit());
    // "Name: …" begins a turn of a conversation or a field of a header.
    numbered
        || (head.len() > 2
            && head.ends_with(':')
            && head.chars().next().is_some_and(char::is_uppercase))
}

fn push_trimmed(text: &str, range: Range<usize>, ranges: &mut Vec<Range<usize>>) {
    let slice = &text[range.clone()];
    let trimmed = slice.trim();
    if trimmed.is_empty() {
        return;
    }
    let start = range.start + (slice.len() - slice.trim_start().len());
    ranges.push(start..start + trimmed.len());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(text: &str) -> Vec<&str> {
        sentences(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn splits_at_sentence_ends_only() {
        assert_eq!(
            split("Dr. Lee paid 3.50 (really!). \"Why?\" she asked. J. Doe left."),
            ["Dr. Lee paid 3.50 (really!).", "\"Why?\"", "she asked.", "J. Doe left."]
        );
        assert_eq!(
            split("船は1931年に造られた。青い色です！"),
            ["船は1931年に造られた。", "青い色です！"]
        );
    }

    #[test]
    fn splits_lists_and_turns_but_not_wrapped_lines() {
        assert_eq!(
            split("a long line\nwrapped here\n- item one\n- item two"),
            ["a long line\nwrapped here", "- item one", "- item two"]
        );
        assert_eq!(
            split("To do\n\n[x] coal\n[ ] renew the certificate,\nit runs out\n☐ sweep [x] times"),
            ["To do", "[x] coal", "[ ] renew the certificate,\nit runs out", "☐ sweep [x] times"]
        );
        assert_eq!(split("Anna: see you\nBen: at eight"), ["Anna: see you", "Ben: at eight"]);
    }

    proptest! {
        #[test]
        fn nothing_but_white_space_is_lost(text in "\\PC{0,80}|[a-z .!?\n。-]{0,80}") {
            let kept: String = split(&text).concat().split_whitespace().collect();
            let all: String = text.split_whitespace().collect();
            prop_assert_eq!(kept, all);
        }
    }
}
