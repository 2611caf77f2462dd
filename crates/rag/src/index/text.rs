//! The text that models see of a passage, and a token counter for homes without a model.

use riddle_ingest::{ChunkOptions, chunk};
use riddle_retrieval::detect_language;
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
pub(crate) fn passages(text: &str, counters: Counters<'_>, options: &ChunkOptions) -> Vec<Chunk> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    // No tokenizer makes more tokens than characters, so short texts need no counting.
    let most = ((options.max_tokens as f64 * WHOLE_SHARE) as usize).max(WHOLE_TOKENS);
    if text.len() <= most {
        return vec![whole(text.to_owned())];
    }
    let counter = counters.of(detect_language(text).as_deref());
    if counter.count(text) <= most {
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

/// How long a passage is, told by its letters: for languages that the embedder does not read. Its tokenizer makes a
/// token of nearly every letter of theirs, so that passages would be three words long, and words alone, which are what
/// is searched there, would find less.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LetterCounter;

impl TokenCounter for LetterCounter {
    fn count(&self, text: &str) -> usize {
        /// As an English token has with its space.
        const LETTERS_PER_TOKEN: usize = 4;
        /// Where the scripts begin in which a character is a word, or half of one.
        const IDEOGRAPHS: char = '\u{2e80}';
        let written = text.chars().filter(|it| !it.is_whitespace());
        let (letters, words) = written.fold((0, 0), |(letters, words), it| {
            if it < IDEOGRAPHS { (letters + 1, words) } else { (letters, words + 1) }
        });
        words + usize::div_ceil(letters, LETTERS_PER_TOKEN)
    }
}

/// Who says how long a passage is: the embedder, or in languages that it does not read the letters.
#[derive(Clone, Copy)]
pub(crate) struct Counters<'a> {
    /// The embedder's own.
    pub(crate) own: &'a dyn TokenCounter,
    /// Languages that it reads; none: any.
    pub(crate) languages: &'a [&'a str],
}

impl<'a> Counters<'a> {
    /// For a text of this language; `None`: nobody knows which.
    pub(crate) fn of(&self, language: Option<&str>) -> &'a dyn TokenCounter {
        let reads = |it: &str| self.languages.is_empty() || self.languages.contains(&it);
        if language.is_none_or(reads) { self.own } else { &LetterCounter }
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
        let counters = Counters { own: &ApproximateCounter, languages: &[] };
        let cut = |text: &str| passages(text, counters, &options);
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

    /// A tokenizer that knows none of the letters.
    struct Spelling;

    impl TokenCounter for Spelling {
        fn count(&self, text: &str) -> usize {
            text.chars().filter(|it| !it.is_whitespace()).count()
        }
    }

    #[test]
    fn a_language_that_the_embedder_does_not_read_is_cut_as_long_as_one_that_it_does() {
        let line =
            "Το σκάφος μας είναι βαμμένο μπλε και δένει στο λιμάνι του νησιού κάθε χειμώνα.\n";
        let options = ChunkOptions { max_tokens: 64, overlap_tokens: 0 };
        let cut = |languages: &[&str]| {
            let counters = Counters { own: &Spelling, languages };
            passages(&line.repeat(20), counters, &options).len()
        };
        let spelled = cut(&[]);
        assert!(spelled >= 20, "every sentence by itself, not {spelled} passages");
        assert_eq!(cut(&["el"]), spelled);
        assert!(3 * cut(&["en"]) <= spelled, "{} and {spelled}", cut(&["en"]));
        let english = Counters { own: &Spelling, languages: &["en"] };
        assert_eq!(english.of(None).count("ναι"), 3, "nobody knows the language");
        assert_eq!(LetterCounter.count("船は青い"), 4);
        assert_eq!(LetterCounter.count("the boat is blue"), 4);
        assert_eq!(LetterCounter.count(""), 0);
    }

    #[test]
    fn approximate_counter_bounds_words_and_characters() {
        let words = "the quick brown fox jumps over the lazy dog";
        assert!(ApproximateCounter.count(words) >= 9);
        assert_eq!(ApproximateCounter.count("船は青い"), 4);
        assert_eq!(ApproximateCounter.count(""), 0);
    }
}
