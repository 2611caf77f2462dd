//! The text that models see of a passage, and a token counter for homes without a model.

use riddle_types::TokenCounter;

/// A passage with its context: title and headings above the text, a line each. Embedder and reranker
/// read the same, so a passage that says "it" is still about something.
pub(crate) fn passage_text(title: Option<&str>, heading: &str, text: &str) -> String {
    let mut out = String::with_capacity(heading.len() + text.len() + 64);
    // A heading path that starts with the title says it already.
    let title = title.map(str::trim).filter(|it| !it.is_empty() && !heading.starts_with(it));
    for context in [title, Some(heading).filter(|it| !it.is_empty())].into_iter().flatten() {
        // The text itself often begins with its own heading.
        if !text.starts_with(context) {
            out.push_str(context);
            out.push('\n');
        }
    }
    out.push_str(text);
    out
}

/// Counts tokens without a tokenizer: for homes that have no embedder yet.
///
/// An upper bound in practice: WordPiece yields about one token per 4.5 characters of English and about
/// one per character of scripts without spaces.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ApproximateCounter;

impl TokenCounter for ApproximateCounter {
    fn count(&self, text: &str) -> usize {
        /// Characters per token of alphabetic text: below the average, so that chunks fit the model
        /// that comes later.
        const CHARS_PER_TOKEN: usize = 3;
        let (narrow, wide) =
            text.chars().filter(|it| !it.is_whitespace()).fold((0, 0), |(narrow, wide), c| {
                // From U+0E00 on come the scripts that WordPiece cuts into single characters.
                if u32::from(c) >= 0x0E00 { (narrow, wide + 1) } else { (narrow + 1, wide) }
            });
        wide + usize::div_ceil(narrow, CHARS_PER_TOKEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_is_said_once() {
        assert_eq!(passage_text(Some("Boat"), "Hull", "It is blue."), "Boat\nHull\nIt is blue.");
        assert_eq!(
            passage_text(Some("Boat"), "Boat › Hull", "It is blue."),
            "Boat › Hull\nIt is blue."
        );
        assert_eq!(passage_text(None, "Hull", "Hull\nIt is blue."), "Hull\nIt is blue.");
        assert_eq!(passage_text(None, "", "It is blue."), "It is blue.");
    }

    #[test]
    fn approximate_counter_bounds_words_and_characters() {
        let words = "the quick brown fox jumps over the lazy dog";
        assert!(ApproximateCounter.count(words) >= 9);
        assert_eq!(ApproximateCounter.count("船は青い"), 4);
        assert_eq!(ApproximateCounter.count(""), 0);
    }
}
