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
    let mut words = Wanted::of(query);
    let passages: Vec<Places> = passages.map(|it| words.places(it)).collect();
    let pairs = words.weighed(&passages);
    let all: f32 = pairs.iter().map(|it| it.2).sum();
    let near = |places: &Places| {
        let found = pairs.iter().filter(|(a, b, _)| meet(&places[*a], &places[*b]));
        if all > 0.0 { found.map(|it| it.2).sum::<f32>() / all } else { 0.0 }
    };
    passages.iter().map(near).collect()
}

/// Where each wanted word stands in a passage, as numbers of words.
type Places = Vec<Vec<usize>>;

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
    fn places(&mut self, passage: &str) -> Places {
        let mut places = vec![Vec::new(); self.stems.len()];
        if self.pairs.is_empty() {
            return places;
        }
        let is_part = |it: char| it.is_alphanumeric() || it == '_' || is_combining_mark(it);
        let words = passage.split(|it: char| !is_part(it)).filter(|it| !it.is_empty());
        for (number, word) in words.enumerate() {
            if let Some(place) = self.place(word) {
                places[place].push(number);
            }
        }
        places
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

    /// The pairs with their weights among these passages.
    fn weighed(&self, passages: &[Places]) -> Vec<(usize, usize, f32)> {
        let idf = |word: usize| {
            let with = passages.iter().filter(|it| !it[word].is_empty()).count() as f32;
            (1.0 + (passages.len() as f32 - with + 0.5) / (with + 0.5)).ln()
        };
        let idf: Vec<f32> = (0..self.stems.len()).map(idf).collect();
        self.pairs.iter().map(|&(a, b)| (a, b, idf[a].min(idf[b]))).collect()
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

    /// The definition, word by word.
    fn naive(query: &[u8], passages: &[Vec<u8>]) -> Vec<f32> {
        let word = |it: &u8| format!("w{it}x");
        let query: Vec<String> = query.iter().map(word).collect();
        let passages: Vec<Vec<String>> =
            passages.iter().map(|it| it.iter().map(word).collect()).collect();
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
            let found = nearness(&text(&query), texts.iter().map(String::as_str));
            let naive = naive(&query, &passages);
            prop_assert_eq!(found.len(), naive.len());
            for (a, b) in found.iter().zip(&naive) {
                prop_assert!((a - b).abs() < 1e-5, "{found:?} {naive:?}");
                prop_assert!((0.0..=1.0001).contains(a));
            }
        }
    }
}
