//! The text that models see of a passage, and a token counter for homes without a model.

use riddle_ingest::{ChunkOptions, chunk};
use riddle_types::{Block, BlockKind, Chunk, Document, Location, TokenCounter, VectorTurn};

/// Most tokens of a text from memory that stays whole, as a share of a passage's: a little too long is better than a
/// second passage of three words.
const WHOLE_SHARE: f64 = 1.25;

/// Tokens that stay together however little a model reads: some three sentences.
const WHOLE_TOKENS: usize = 64;

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

/// A text from memory in passages: whole where it hardly exceeds one, else cut between its lines as a file's paragraphs
/// are. Empty for a text without any.
pub(crate) fn passages(
    text: &str,
    counter: &dyn TokenCounter,
    options: &ChunkOptions,
) -> Vec<Chunk> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    // No tokenizer makes more tokens than characters, so short texts need no counting.
    let most = ((options.max_tokens as f64 * WHOLE_SHARE) as usize).max(WHOLE_TOKENS);
    if text.len() <= most || counter.count(text) <= most {
        return vec![whole(text.to_owned())];
    }
    let line = |(line, number): (&str, u32)| {
        let location = Location::Line { start: number, end: number };
        Block::new(BlockKind::Paragraph, line.to_owned(), location)
    };
    let blocks = text.lines().zip(1..).filter(|it| !it.0.trim().is_empty()).map(line).collect();
    chunk(&Document { blocks, ..Document::default() }, counter, options)
}

/// A passage that is all there is.
pub(crate) fn whole(text: String) -> Chunk {
    Chunk {
        ordinal: 0,
        text,
        heading: String::new(),
        location: Location::Whole,
        tokens: 0,
        turn: VectorTurn::Early,
    }
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
    fn long_texts_are_cut_and_nothing_is_lost() {
        let options = ChunkOptions { max_tokens: 40, overlap_tokens: 0 };
        let cut = |text: &str| passages(text, &ApproximateCounter, &options);
        assert!(cut(" \n").is_empty());
        assert_eq!(cut("The boat is blue."), [whole("The boat is blue.".to_owned())]);
        let lines: Vec<String> =
            (0..30).map(|it| format!("Mira: we painted the hull in layer {it}")).collect();
        let chunks = cut(&lines.join("\n"));
        assert!(chunks.len() > 5, "{}", chunks.len());
        assert!(chunks.iter().all(|it| ApproximateCounter.count(&it.text) <= 40));
        for line in &lines {
            let holding = chunks.iter().filter(|it| it.text.contains(line.as_str())).count();
            assert!(holding > 0, "{line}");
        }
        assert!(matches!(chunks[1].location, Location::Line { start: 2.., .. }));
    }

    #[test]
    fn approximate_counter_bounds_words_and_characters() {
        let words = "the quick brown fox jumps over the lazy dog";
        assert!(ApproximateCounter.count(words) >= 9);
        assert_eq!(ApproximateCounter.count("船は青い"), 4);
        assert_eq!(ApproximateCounter.count(""), 0);
    }
}
