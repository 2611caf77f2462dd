//! The part of a passage that counts, for a list of hits.

use std::ops::Range;

use riddle_claims::sentences;
use riddle_retrieval::Highlighter;

/// A piece of text; the flag says whether the query asked for it.
pub type Marked = (String, bool);

/// `text` in pieces, the words of the query marked.
pub fn marked(text: &str, words: &mut Highlighter) -> Vec<Marked> {
    pieces(text, 0..text.len(), &words.find(text))
}

/// About `length` characters of `text`, from the sentence that holds the most different words of the query.
pub fn excerpt(text: &str, words: &mut Highlighter, length: usize) -> Vec<Marked> {
    let found = words.find(text);
    let weight = |sentence: &Range<usize>| {
        let mut inside: Vec<String> = found
            .iter()
            .filter(|it| sentence.start <= it.start && it.end <= sentence.end)
            .map(|it| text[it.clone()].to_lowercase())
            .collect();
        inside.sort_unstable();
        inside.dedup();
        inside.len()
    };
    let all = sentences(text);
    // The first of several equally good ones.
    let best = all.iter().rev().max_by_key(|it| weight(it)).cloned();
    let mut from = best.map_or(0, |it| it.start);
    // A passage that fits is shown whole.
    if text.chars().count() <= length {
        from = 0;
    }
    // Words that are far into a long sentence would be cut off.
    if let Some(first) = found.iter().find(|it| it.start >= from)
        && text[from..first.start].chars().count() > length / 2
    {
        let back = text[..first.start].char_indices().rev().nth(length / 4).map_or(0, |it| it.0);
        from = text[back..first.start].find(char::is_whitespace).map_or(back, |it| back + it + 1);
    }
    let to = text[from..].char_indices().nth(length).map_or(text.len(), |(at, _)| {
        let cut = from + at;
        if text[cut..].starts_with(char::is_whitespace) {
            return cut;
        }
        text[from..cut].rfind(char::is_whitespace).map_or(cut, |it| from + it)
    });
    let mut out = pieces(text, from..to, &found);
    if from > 0 {
        out.insert(0, ("… ".to_owned(), false));
    }
    if to < text.len() {
        out.push((" …".to_owned(), false));
    }
    out
}

fn pieces(text: &str, window: Range<usize>, found: &[Range<usize>]) -> Vec<Marked> {
    let mut out = Vec::new();
    let mut at = window.start;
    for range in found.iter().filter(|it| it.start >= window.start && it.end <= window.end) {
        if range.start > at {
            out.push((text[at..range.start].to_owned(), false));
        }
        out.push((text[range.clone()].to_owned(), true));
        at = range.end;
    }
    if at < window.end {
        out.push((text[at..window.end].to_owned(), false));
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_sentence_that_answers_is_shown() {
        let text =
            "It rained for a week. Then the winter mooring starts on 1 November. Nobody came.";
        let shown = excerpt(text, &mut Highlighter::new("winter mooring"), 45);
        let all: String = shown.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(all, "… Then the winter mooring starts on 1 November. …");
        let marks: Vec<&str> = shown.iter().filter(|it| it.1).map(|it| it.0.as_str()).collect();
        assert_eq!(marks, ["winter", "mooring"]);
    }

    proptest! {
        #[test]
        fn marked_pieces_are_the_text(text in "[a-c äé船 .]{0,80}", query in "[a-c 船]{0,8}") {
            let mut words = Highlighter::new(&query);
            let all: String = marked(&text, &mut words).into_iter().map(|it| it.0).collect();
            prop_assert_eq!(&all, &text);
            let short: String =
                excerpt(&text, &mut words, 20).into_iter().map(|it| it.0).collect();
            let inner = short.strip_prefix("… ").unwrap_or(&short);
            let inner = inner.strip_suffix(" …").unwrap_or(inner);
            prop_assert!(text.contains(inner));
        }
    }
}
