//! How near to each other the words of a query stand in a passage.
//!
//! BM25 counts words wherever they stand. Words that stand beside each other in the question and in the passage mean
//! the same thing more often than words that are strewn over it: term dependence by windows (Metzler, Croft 2005, "A
//! Markov Random Field Model for Term Dependencies", sequential dependence).

use std::collections::HashMap;

use tantivy::tokenizer::Language;
use unicode_normalization::char::is_combining_mark;

use crate::{
    analyze::{Analyzer, Purpose},
    language::is_in_another_language,
    query,
};

/// Words apart that still are near: on the development sets four are nearly as good, two and six are not.
const WINDOW: usize = 3;

/// Words of a query that are looked at: more is a pasted document.
const MOST_WORDS: usize = 64;

/// Of each passage the share of the query's pairs of words whose words stand within three words of each other, 0 to 1:
/// `Σ w·near / Σ w` over the pairs of content words that follow each other in the query, `w` being the lower idf of the
/// two among these passages, so that a pair that is in all of them says little. Words are compared by their stems.
///
/// 0 for queries of fewer than two content words, and in other languages than English, where this was not measured.
pub fn nearness<'a>(query: &str, passages: impl Iterator<Item = &'a str>) -> Vec<f32> {
    Among::read(query, passages).nearness()
}

/// What the words of passages say that no index has searched, 0 to 2: BM25 as a share of the best of them, and
/// [`nearness`]. Frequencies and lengths are those of these passages, of which all may be about the query: what is in
/// each of them tells none from another.
///
/// `None` for queries without content words, and in other languages than English, where this was not measured.
pub fn evidence_of_words<'a>(
    query: &str,
    passages: impl Iterator<Item = &'a str>,
) -> Option<Vec<f32>> {
    let among = Among::read(query, passages);
    if among.wanted.stems.is_empty() {
        return None;
    }
    let scores = among.bm25();
    let best = scores.iter().copied().fold(0.0, f32::max);
    let share = |score: &f32| if best > 0.0 { score / best } else { 0.0 };
    Some(scores.iter().zip(among.nearness()).map(|(score, near)| share(score) + near).collect())
}

/// BM25's constants, those of the keyword index.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// The words of a query among passages.
struct Among {
    wanted: Wanted,
    passages: Vec<Read>,
    /// Inverse document frequency of each wanted word among the passages.
    idf: Vec<f32>,
}

/// What was found in a passage.
struct Read {
    /// Where each wanted word stands, as numbers of words.
    places: Places,
    /// Words of the passage.
    length: usize,
}

/// Where each wanted word stands in a passage, as numbers of words.
type Places = Vec<Vec<usize>>;

impl Among {
    fn read<'a>(query: &str, passages: impl Iterator<Item = &'a str>) -> Among {
        let mut wanted = Wanted::of(query);
        let passages: Vec<Read> = passages.map(|it| wanted.read(it)).collect();
        let idf = |word: usize| {
            let with = passages.iter().filter(|it| !it.places[word].is_empty()).count() as f32;
            (1.0 + (passages.len() as f32 - with + 0.5) / (with + 0.5)).ln()
        };
        let idf = (0..wanted.stems.len()).map(idf).collect();
        Among { wanted, passages, idf }
    }

    fn nearness(&self) -> Vec<f32> {
        let weigh = |&(a, b): &(usize, usize)| (a, b, self.idf[a].min(self.idf[b]));
        let pairs: Vec<(usize, usize, f32)> = self.wanted.pairs.iter().map(weigh).collect();
        let all: f32 = pairs.iter().map(|it| it.2).sum();
        let near = |read: &Read| {
            let found = pairs.iter().filter(|(a, b, _)| meet(&read.places[*a], &read.places[*b]));
            if all > 0.0 { found.map(|it| it.2).sum::<f32>() / all } else { 0.0 }
        };
        self.passages.iter().map(near).collect()
    }

    fn bm25(&self) -> Vec<f32> {
        let words: usize = self.passages.iter().map(|it| it.length).sum();
        let mean = (words as f32 / self.passages.len().max(1) as f32).max(1.0);
        let score = |read: &Read| {
            let norm = K1 * (1.0 - B + B * read.length as f32 / mean);
            let of = |(places, idf): (&Vec<usize>, &f32)| {
                let count = places.len() as f32;
                idf * count * (K1 + 1.0) / (count + norm)
            };
            read.places.iter().zip(&self.idf).map(of).sum()
        };
        self.passages.iter().map(score).collect()
    }
}

/// The words of a query that are looked for.
struct Wanted {
    analyzer: Analyzer,
    /// Each once.
    stems: Vec<String>,
    /// Those that follow each other in the query.
    pairs: Vec<(usize, usize)>,
    /// What was made of words of the passages.
    known: HashMap<String, Option<usize>>,
}

impl Wanted {
    fn of(query: &str) -> Wanted {
        let mut analyzer = Analyzer::default();
        let parsed = query::parse(query);
        let text = [&[parsed.words][..], &parsed.phrases].concat().join(" ");
        let (mut stems, mut all): (Vec<String>, Vec<usize>) = (Vec::new(), Vec::new());
        if !is_in_another_language(query, "en") {
            let terms = analyzer.terms(&text, &[Some(Language::English)], Purpose::Query);
            let content = terms.into_iter().filter(|it| it.whole && !it.stop);
            for stem in content.filter_map(|it| it.stems.into_iter().next()).take(MOST_WORDS) {
                let place = stems.iter().position(|it| *it == stem).unwrap_or(stems.len());
                if place == stems.len() {
                    stems.push(stem);
                }
                all.push(place);
            }
        }
        let pairs = all.windows(2).map(|it| (it[0], it[1])).filter(|it| it.0 != it.1).collect();
        Wanted { analyzer, stems, pairs, known: HashMap::new() }
    }

    /// Where the wanted words stand.
    fn read(&mut self, passage: &str) -> Read {
        let mut read = Read { places: vec![Vec::new(); self.stems.len()], length: 0 };
        if self.stems.is_empty() {
            return read;
        }
        let is_part = |it: char| it.is_alphanumeric() || it == '_' || is_combining_mark(it);
        let words = passage.split(|it: char| !is_part(it)).filter(|it| !it.is_empty());
        for word in words {
            if let Some(place) = self.place(word) {
                read.places[place].push(read.length);
            }
            read.length += 1;
        }
        read
    }

    /// Which of the wanted words this is.
    fn place(&mut self, word: &str) -> Option<usize> {
        // Most words begin with another letter than all wanted ones, and are not stemmed.
        let first = word.chars().next().filter(char::is_ascii).map(|it| it.to_ascii_lowercase());
        let may_be = |first: char| self.stems.iter().any(|it| it.starts_with(first));
        if first.is_some_and(|it| !may_be(it)) {
            return None;
        }
        if let Some(known) = self.known.get(word) {
            return *known;
        }
        let terms = self.analyzer.terms(word, &[Some(Language::English)], Purpose::Query);
        let stem = terms.into_iter().find(|it| it.whole).and_then(|it| it.stems.into_iter().next());
        let place = stem.and_then(|stem| self.stems.iter().position(|it| *it == stem));
        self.known.insert(word.to_owned(), place);
        place
    }
}

/// Whether two ascending lists of places have two within the window.
fn meet(a: &[usize], b: &[usize]) -> bool {
    let (mut at, mut other) = (0, 0);
    while let (Some(&one), Some(&two)) = (a.get(at), b.get(other)) {
        if one.abs_diff(two) <= WINDOW {
            return true;
        }
        if one < two { at += 1 } else { other += 1 }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn near(query: &str, passages: &[&str]) -> Vec<f32> {
        nearness(query, passages.iter().copied())
    }

    #[test]
    fn words_that_stand_together_count_and_strewn_ones_do_not() {
        let passages = [
            "The winter mooring is paid in October.",
            "Moored for the winter, she waits.",
            "A mooring costs nothing at all as long as there is no ice in winter.",
            "Oak for the keel.",
        ];
        assert_eq!(near("what does the winter mooring cost", &passages)[3], 0.0);
        let found = near("winter mooring", &passages);
        assert_eq!(found, [1.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn a_rare_pair_counts_more_than_a_frequent_one() {
        let passages = ["Red boat, blue oar.", "A blue oar there.", "A blue oar here.", "Red boat"];
        let found = near("red boat blue oar", &passages);
        assert_eq!(found[0], found.iter().copied().fold(0.0, f32::max));
        assert!(found[3] > 0.0 && found[1] > 0.0 && found[1] == found[2]);
        let passages = ["blue oar", "blue oar", "blue oar", "red boat"];
        let found = near("red boat and then something else: blue oar", &passages);
        assert!(found[3] > found[0], "{found:?}");
    }

    #[test]
    fn one_word_another_language_and_nothing_say_nothing() {
        for query in ["", "mooring", "the of and", "mooring mooring", "\"", "-winter"] {
            assert_eq!(near(query, &["winter mooring"]), [0.0], "{query:?}");
        }
        assert_eq!(near("was kostet der Liegeplatz im Winter?", &["Liegeplatz im Winter"]), [0.0]);
        assert_eq!(near("winter mooring", &[]), [0.0_f32; 0]);
        // What must not be there is not looked for, and what is quoted is.
        assert_eq!(near("\"winter mooring\" -boat", &["winter mooring"]), [1.0]);
        assert_eq!(near("winter -mooring", &["winter mooring"]), [0.0]);
    }

    #[test]
    fn words_are_evidence_where_no_index_has_searched() {
        let passages =
            ["Oak for the keel.", "A winter mooring, in winter.", "In winter we oil oak."];
        let found = evidence_of_words("winter mooring", passages.into_iter()).unwrap();
        // The best by BM25 has 1, and the words beside each other 1 more.
        assert_eq!(found[..2], [0.0, 2.0]);
        assert!(found[2] > 0.0 && found[2] < 0.5, "{found:?}");
        // A word that stands nowhere says nothing of nobody.
        let none = evidence_of_words("zebra", passages.into_iter());
        assert_eq!(none, Some(vec![0.0; 3]));
        assert_eq!(evidence_of_words("winter", std::iter::empty()), Some(Vec::new()));
        for query in ["", "the of and", "was kostet der Liegeplatz im Winter?"] {
            assert_eq!(evidence_of_words(query, passages.into_iter()), None, "{query:?}");
        }
    }

    /// BM25 word by word (Robertson, Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond").
    fn naive_bm25(query: &[String], passages: &[Vec<String>]) -> Vec<f32> {
        let wanted: std::collections::BTreeSet<&String> = query.iter().collect();
        let count = passages.len() as f32;
        let mean = passages.iter().map(Vec::len).sum::<usize>() as f32 / count;
        let score = |passage: &Vec<String>| {
            let of = |word: &&String| {
                let with = passages.iter().filter(|it| it.contains(word)).count() as f32;
                let often = passage.iter().filter(|it| it == word).count() as f32;
                let norm = 0.25 + 0.75 * passage.len() as f32 / mean.max(1.0);
                (1.0 + (count - with + 0.5) / (with + 0.5)).ln() * often * 2.2
                    / (often + 1.2 * norm)
            };
            wanted.iter().map(of).sum()
        };
        passages.iter().map(score).collect()
    }

    /// The definition, word by word.
    fn naive(query: &[String], passages: &[Vec<String>]) -> Vec<f32> {
        let idf = |word: &String| {
            let with = passages.iter().filter(|it| it.contains(word)).count() as f32;
            (1.0 + (passages.len() as f32 - with + 0.5) / (with + 0.5)).ln()
        };
        let pairs: Vec<_> = query.windows(2).filter(|it| it[0] != it[1]).collect();
        let weight = |it: &[String]| idf(&it[0]).min(idf(&it[1]));
        let all: f32 = pairs.iter().map(|it| weight(it)).sum();
        let of = |passage: &Vec<String>| {
            let is_near = |it: &&&[String]| {
                let at = |word: &String| {
                    let places = passage.iter().enumerate().filter(move |own| own.1 == word);
                    places.map(|own| own.0).collect::<Vec<_>>()
                };
                let (a, b) = (at(&it[0]), at(&it[1]));
                a.iter().any(|a| b.iter().any(|b| a.abs_diff(*b) <= WINDOW))
            };
            let found: f32 = pairs.iter().filter(is_near).map(|it| weight(it)).sum();
            if all > 0.0 { found / all } else { 0.0 }
        };
        passages.iter().map(of).collect()
    }

    proptest! {
        #[test]
        fn as_it_is_defined(
            query in prop::collection::vec(0_u8..6, 0..8),
            passages in prop::collection::vec(prop::collection::vec(0_u8..9, 0..30), 0..6),
        ) {
            let text = |it: &Vec<u8>| it.iter().map(|it| format!("W{it}X, ")).collect::<String>();
            let texts: Vec<String> = passages.iter().map(text).collect();
            let texts = || texts.iter().map(String::as_str);
            let found = nearness(&text(&query), texts());
            let of_words = evidence_of_words(&text(&query), texts());
            let word = |it: &u8| format!("w{it}x");
            let query: Vec<String> = query.iter().map(word).collect();
            let passages: Vec<Vec<String>> =
                passages.iter().map(|it| it.iter().map(word).collect()).collect();
            let near = naive(&query, &passages);
            prop_assert_eq!(found.len(), near.len());
            for (a, b) in found.iter().zip(&near) {
                prop_assert!((a - b).abs() < 1e-5, "{found:?} {near:?}");
                prop_assert!((0.0..=1.0001).contains(a));
            }
            prop_assert_eq!(of_words.is_none(), query.is_empty());
            let scores = naive_bm25(&query, &passages);
            let best = scores.iter().copied().fold(0.0, f32::max);
            for ((a, score), near) in of_words.iter().flatten().zip(&scores).zip(&near) {
                let share = if best > 0.0 { score / best } else { 0.0 };
                prop_assert!((a - share - near).abs() < 1e-4, "{of_words:?} {scores:?} {near:?}");
            }
        }
    }
}
