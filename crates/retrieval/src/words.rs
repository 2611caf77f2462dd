//! Words of passages and queries as this index has them, for a full-text engine elsewhere.
//!
//! An engine that is given the words finds by BM25 what the keyword index would: the analysis is the same, to the stem.
//! What it can not be asked, phrases and exclusions, is looked for in the passages that come back.

use std::collections::HashMap;

use crate::{
    analyze::{Analyzer, Purpose, Term},
    chunk::{IndexedChunk, MOST_LANGUAGES, analyzed, language_of},
    language::{code_of, stemmer_of},
    query,
};

/// Words of a passage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassageWords {
    /// Stems of title, headings and text, in their order.
    pub words: Vec<String>,
    /// Stems of the file's name.
    pub names: Vec<String>,
    /// Language that they are stemmed in: an ISO 639-1 code, or a word for none.
    pub language: &'static str,
}

/// Words of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryWords {
    /// What a passage may hold any of, each once; stop words are there only where there is nothing else.
    pub terms: Vec<String>,
    phrases: Vec<Phrase>,
    excluded: Vec<Phrase>,
}

/// Words in a row: how far each is from the first.
type Phrase = Vec<(usize, String)>;

/// Finds words; keeps the stemmers that it has made.
#[derive(Default)]
pub struct Words {
    analyzer: Analyzer,
}

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Words")
    }
}

impl Words {
    /// Those of a passage.
    pub fn of_passage(&mut self, chunk: &IndexedChunk<'_>) -> PassageWords {
        let (terms, names, language) = analyzed(&mut self.analyzer, chunk);
        let stems = |terms: Vec<Term>| {
            terms.into_iter().filter_map(|it| it.stems.into_iter().next()).collect()
        };
        PassageWords { words: stems(terms), names: stems(names), language }
    }

    /// The language that a passage's words are stemmed in, without finding them.
    pub fn language_of(chunk: &IndexedChunk<'_>) -> &'static str {
        language_of(chunk)
    }

    /// Those of a query, stemmed in its own language and in the commonest ones of the passages, which are told as
    /// [`PassageWords::language`] has them, the commonest first.
    pub fn of_query(&mut self, text: &str, languages: &[&str]) -> QueryWords {
        let parsed = query::parse(text);
        let mut stemmers = Vec::new();
        for code in code_of(text, None).into_iter().chain(languages.iter().copied()) {
            let stemmer = stemmer_of(code);
            if !stemmers.contains(&stemmer) {
                stemmers.push(stemmer);
            }
        }
        stemmers.truncate(MOST_LANGUAGES);
        let mut analyze = |text: &str| self.analyzer.terms(text, &stemmers, Purpose::Query);
        let words = analyze(&parsed.words);
        let all = words.iter().all(|it| it.stop) && parsed.phrases.is_empty();
        let phrases: Vec<Vec<Term>> = parsed.phrases.iter().map(|it| analyze(it)).collect();
        let excluded = parsed.excluded.iter().filter_map(|it| phrase(&analyze(it))).collect();
        let mut terms: Vec<String> = Vec::new();
        let wanted = words.iter().filter(|it| all || !it.stop).chain(phrases.iter().flatten());
        for stem in wanted.flat_map(|it| &it.stems) {
            if !terms.contains(stem) {
                terms.push(stem.clone());
            }
        }
        let phrases = phrases.iter().filter_map(|it| phrase(it)).collect();
        QueryWords { terms, phrases, excluded }
    }

    /// Whether a passage holds every phrase of the query.
    pub fn holds_phrases(&mut self, query: &QueryWords, chunk: &IndexedChunk<'_>) -> bool {
        query.phrases.is_empty() || {
            let places = self.places(chunk);
            query.phrases.iter().all(|it| holds(&places, it))
        }
    }

    /// Whether a passage holds something that the query excludes.
    pub fn is_excluded(&mut self, query: &QueryWords, chunk: &IndexedChunk<'_>) -> bool {
        !query.excluded.is_empty() && {
            let places = self.places(chunk);
            query.excluded.iter().any(|it| holds(&places, it))
        }
    }

    /// Folded words by their places.
    fn places(&mut self, chunk: &IndexedChunk<'_>) -> HashMap<usize, Vec<String>> {
        let mut places: HashMap<usize, Vec<String>> = HashMap::new();
        for term in analyzed(&mut self.analyzer, chunk).0 {
            places.entry(term.position).or_default().push(term.exact);
        }
        places
    }
}

impl QueryWords {
    /// Whether passages that are found by words have to be looked at once more.
    pub fn has_phrases(&self) -> bool {
        !self.phrases.is_empty()
    }
}

/// Words in a row; parts of identifiers, which share a place, are left to the whole.
fn phrase(terms: &[Term]) -> Option<Phrase> {
    let whole: Vec<&Term> = terms.iter().filter(|it| it.whole).collect();
    let first = whole.first()?.position;
    Some(whole.iter().map(|it| (it.position - first, it.exact.clone())).collect())
}

fn holds(places: &HashMap<usize, Vec<String>>, phrase: &Phrase) -> bool {
    let at = |place: usize, word: &String| places.get(&place).is_some_and(|it| it.contains(word));
    places.keys().any(|&first| phrase.iter().all(|(far, word)| at(first + far, word)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use riddle_types::{ChunkId, FileKind, Filter, Query};

    use super::*;
    use crate::{KeywordReader, KeywordWriter};

    fn chunk(id: u64, text: &str) -> IndexedChunk<'_> {
        IndexedChunk {
            id: ChunkId(id),
            path: "/files/harbor-notes.md",
            kind: FileKind::Markdown,
            modified: 0,
            title: "",
            heading: "",
            text,
            language: Some("en"),
        }
    }

    #[test]
    fn words_are_stems_and_those_of_a_query_come_once() {
        let mut words = Words::default();
        let of = words.of_passage(&chunk(1, "Boats were painted, boats."));
        assert_eq!(of.words, ["boat", "were", "paint", "boat"]);
        assert_eq!(
            (of.names, of.language),
            (vec!["harbor".into(), "note".into(), "md".into()], "en")
        );
        let query = words.of_query("the boats and the \"dry dock\" -paint boat", &["en", "de"]);
        // Once for each language that stems it otherwise.
        assert_eq!(query.terms, ["boat", "dri", "dry", "dock"]);
        assert!(query.has_phrases());
        assert!(words.holds_phrases(&query, &chunk(1, "In the dry dock.")));
        assert!(!words.holds_phrases(&query, &chunk(1, "The dock is dry.")));
        assert!(words.is_excluded(&query, &chunk(1, "No paint.")));
        assert!(!words.is_excluded(&query, &chunk(1, "Painted.")), "exclusions are words as typed");
        // Only stop words: they are what was meant.
        assert!(!words.of_query("to be or not to be", &["en"]).terms.is_empty());
        assert_eq!(words.of_query("", &["en"]), QueryWords::default());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        /// The index itself is the twin: a passage has one of the words exactly when it is found, and what is
        /// excluded is excluded by both.
        #[test]
        fn the_index_finds_what_the_words_say(
            texts in prop::collection::vec("([ab]{1,2}oat|dry|dock|src_main|c\\+\\+|塔城| |, ){1,8}", 1..6),
            asked in "([ab]{1,2}oats?|dry dock|srcMain|塔){1,2}( [ab]oat|, dock|)( -dry| -\"dry dock\"|)",
        ) {
            let dir = tempfile::tempdir().expect("a folder");
            let mut writer = KeywordWriter::open(dir.path()).expect("opens");
            let chunks: Vec<IndexedChunk<'_>> =
                texts.iter().zip(1..).map(|(text, id)| chunk(id, text)).collect();
            for it in &chunks {
                writer.upsert(it).expect("written");
            }
            writer.commit(1).expect("committed");
            writer.close().expect("closed");
            let reader = KeywordReader::open(dir.path()).expect("opens");
            let mut words = Words::default();
            let query = words.of_query(&asked, &["en"]);
            let asked_of = Query { text: asked.clone(), ..Query::default() };
            let found: HashSet<u64> = reader
                .search(&asked_of, &Filter::default(), 99)
                .expect("readable")
                .iter()
                .map(|it| it.chunk.0)
                .collect();
            let ids: Vec<ChunkId> = chunks.iter().map(|it| it.id).collect();
            let excluded = reader.excluded_of(&asked, &ids).expect("readable");
            for it in &chunks {
                prop_assert_eq!(words.is_excluded(&query, it), excluded.contains(&it.id), "{}", it.text);
                // A lone character is looked for as the beginning of a pair, which words can not say.
                if !asked.contains('塔') && !excluded.contains(&it.id) {
                    let of = words.of_passage(it);
                    let has = of.words.iter().chain(&of.names).any(|it| query.terms.contains(it));
                    prop_assert_eq!(has, found.contains(&it.id.0), "{} in {:?}", asked, of);
                }
            }
        }
    }
}
