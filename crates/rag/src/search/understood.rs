//! What a search understands of a query beside its words, told to who typed it: that a quoted phrase stands nowhere,
//! and that a minus leaves something out. Either may be an accident of something pasted.

use riddle_retrieval::QueryMarks;
use riddle_types::Notice;

use super::merge::Source;

/// Characters of a phrase that are told: enough to know it again.
const MOST_CHARS: usize = 60;

/// Phrases or words that are told.
const MOST_TOLD: usize = 5;

/// What stands for all that is not told.
const MORE: &str = "…";

/// What is to be told of a query.
///
/// A phrase that stands in one library stands somewhere: passages that others found by its words are left out. Where no
/// words are searched, nothing is known of phrases.
pub(super) fn notices(query: &str, sources: &mut [Source]) -> Vec<Notice> {
    let QueryMarks { phrases, excluded } = QueryMarks::of(query);
    let mut told = Vec::new();
    if !phrases.is_empty() && sources.iter().any(|it| it.unquoted) {
        if sources.iter().any(|it| !it.unquoted && !it.keyword.is_empty()) {
            for source in sources.iter_mut().filter(|it| it.unquoted) {
                source.keyword.clear();
            }
        } else {
            told.push(Notice::NotAsQuoted { phrases: all_shown(&phrases) });
        }
    }
    if !excluded.is_empty() {
        told.push(Notice::LeftOut { words: all_shown(&excluded) });
    }
    told
}

/// Whether it tells how a query was understood.
pub(super) fn is_of_query(notice: &Notice) -> bool {
    matches!(notice, Notice::NotAsQuoted { .. }) || leaves_out(notice)
}

/// Whether it tells what a query leaves out.
pub(crate) fn leaves_out(notice: &Notice) -> bool {
    matches!(notice, Notice::LeftOut { .. })
}

/// Each once, as far as they are told.
fn all_shown(texts: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for text in texts.iter().map(|it| shown(it)) {
        if all.len() == MOST_TOLD {
            all.truncate(MOST_TOLD - 1);
            all.push(MORE.to_owned());
            break;
        }
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all
}

/// A part of a query inside of a sentence: on one line, shortened behind a word, and without what would change how the
/// rest of the sentence is shown.
fn shown(text: &str) -> String {
    let spaced = text.chars().map(|it| if it.is_control() { ' ' } else { it });
    let visible: String = spaced.filter(|it| !turns_writing(*it)).collect();
    let text = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((end, _)) = text.char_indices().nth(MOST_CHARS) else { return text };
    let cut = &text[..end];
    // A word that is longer than half of it is cut; so is text without spaces.
    let whole = if text[end..].starts_with(' ') { Some(end) } else { cut.rfind(' ') };
    let end = whole.filter(|it| cut[..*it].chars().count() > MOST_CHARS / 2).unwrap_or(end);
    format!("{}{MORE}", &text[..end])
}

/// Marks, embeddings, overrides and isolates of the bidirectional algorithm: letters have a direction without them.
fn turns_writing(it: char) -> bool {
    matches!(it, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use riddle_types::{ChunkId, Hit};

    use super::*;

    fn source(unquoted: bool) -> Source {
        let keyword = vec![Hit { chunk: ChunkId(1), score: 1.0, rank: 1 }];
        Source { keyword, unquoted, ..Source::default() }
    }

    fn not_as_quoted(phrases: &[&str]) -> Notice {
        Notice::NotAsQuoted { phrases: phrases.iter().map(|&it| it.to_owned()).collect() }
    }

    #[test]
    fn phrases_that_stand_nowhere_and_words_that_are_left_out_are_told() {
        let told = notices("\"dock dry\" steel -paint -\"blue boat\"", &mut [source(true)]);
        let words = vec!["blue boat".to_owned(), "paint".to_owned()];
        assert_eq!(told, [not_as_quoted(&["dock dry"]), Notice::LeftOut { words }]);
        assert!(told.iter().all(is_of_query) && !is_of_query(&Notice::Repeats));
        assert_eq!(notices("\"dry dock\" steel", &mut [source(false)]), []);
        assert_eq!(notices("\"dry dock\"", &mut []), [], "nothing was searched");
        assert_eq!(notices("git log -p --stat", &mut [source(false)]), []);
    }

    #[test]
    fn a_phrase_that_one_library_has_is_not_looked_for_by_its_words_in_others() {
        let mut sources = [source(true), source(false)];
        assert_eq!(notices("\"dry dock\"", &mut sources), []);
        assert!(sources[0].keyword.is_empty() && sources[1].keyword.len() == 1);
        // Where no words are searched, nothing is found by them.
        let mut sources = [source(true), Source::default()];
        assert_eq!(notices("\"dry dock\"", &mut sources), [not_as_quoted(&["dry dock"])]);
        assert_eq!(sources[0].keyword.len(), 1);
        let mut sources = [source(true), source(true)];
        assert_eq!(notices("\"dry dock\"", &mut sources), [not_as_quoted(&["dry dock"])]);
        assert!(sources.iter().all(|it| it.keyword.len() == 1));
    }

    #[test]
    fn long_phrases_are_cut_behind_a_word_and_many_are_not_all_told() {
        let long = "word ".repeat(40);
        assert_eq!(shown(&long), format!("{}…", "word ".repeat(12).trim_end()));
        assert_eq!(shown(&"x".repeat(99)), "x".repeat(60) + "…");
        assert_eq!(shown(&"水".repeat(61)), "水".repeat(60) + "…");
        assert_eq!(shown("fits"), "fits");
        let many: Vec<String> = "a b a c d e f g".split(' ').map(str::to_owned).collect();
        assert_eq!(all_shown(&many), ["a", "b", "c", "d", "…"]);
        assert_eq!(all_shown(&many[..6]), ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn hostile_text_stays_text_and_other_scripts_stay_as_they_are() {
        assert_eq!(shown("\u{1b}[31mred\u{7}\r\nnext\u{2028}line\u{0}"), "[31mred next line");
        assert_eq!(shown("\u{202e}txt.exe\u{2066}a\u{2069}"), "txt.exea");
        assert_eq!(shown("<img src=x onerror=alert(1)>"), "<img src=x onerror=alert(1)>");
        assert_eq!(shown("שלום עולם"), "שלום עולם");
        // A joiner is a part of Persian words, and of pictures of several.
        assert_eq!(shown("می\u{200c}خواهم 👩\u{200d}🚀"), "می\u{200c}خواهم 👩\u{200d}🚀");
    }

    proptest! {
        #[test]
        fn what_is_told_is_short_and_on_one_line(text in "\\PC{0,120}|[ \\n\\x00-\\x1f\u{202a}-\u{202e}a水]{0,90}") {
            let told = shown(&text);
            prop_assert!(told.chars().count() <= MOST_CHARS + 1);
            prop_assert!(!told.contains(|it: char| it.is_control() || turns_writing(it)));
        }
    }
}
