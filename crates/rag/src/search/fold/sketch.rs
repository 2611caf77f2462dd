//! What of a passage is compared with another one's to tell whether they are versions of each other.

use std::collections::{BTreeMap, BTreeSet};

/// Words of a run.
const RUN: usize = 3;

/// Least share of the runs of two passages that both have.
const RESEMBLANCE: f32 = 0.75;

/// Words that a passage has at least: a heading says nothing of its text.
const FEWEST: usize = 12;

/// Words that turn a sentence around, in the languages of the tests.
const NEGATIONS: [&str; 22] = [
    "not", "no", "never", "without", "none", "neither", "nor", "cannot", "nicht", "kein", "keine",
    "keinen", "keiner", "keinem", "keines", "nie", "niemals", "ohne", "weder", "pas", "jamais",
    "nunca",
];

/// Letters of a word that are compared with the question's, so that *iguana* and *iguanas* are one; shorter words than
/// four letters are none of content.
const LETTERS: std::ops::RangeInclusive<usize> = 4..=5;

/// What is compared of a passage.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sketch {
    /// Hashes of its runs of words, each once, in order.
    runs: Vec<u64>,
    /// Words with digits, and how often.
    numbers: BTreeMap<String, usize>,
    negations: usize,
    /// Words that are capitalized inside of a sentence.
    names: BTreeSet<String>,
    /// Beginnings of the question's words that are in it.
    asked: BTreeSet<String>,
}

impl Sketch {
    pub(super) fn of(text: &str, asked: &BTreeSet<String>) -> Option<Sketch> {
        let mut words: Vec<String> = Vec::new();
        let (mut numbers, mut names) = (BTreeMap::new(), BTreeSet::new());
        let mut begins = true;
        for (start, word) in pieces(text) {
            let lower = word.to_lowercase();
            if word.contains(char::is_numeric) {
                *numbers.entry(lower.clone()).or_insert(0) += 1;
            } else if !begins && word.starts_with(char::is_uppercase) {
                names.insert(lower.clone());
            }
            let behind = &text[start + word.len()..];
            begins = behind.starts_with(['.', '!', '?', ':', '\n', '\r']);
            words.push(lower);
        }
        if words.len() < FEWEST {
            return None;
        }
        let negations = words
            .iter()
            .filter(|it| NEGATIONS.contains(&it.as_str()) || it.ends_with("n't"))
            .count();
        let mut runs: Vec<u64> = words.windows(RUN).map(hash).collect();
        runs.sort_unstable();
        runs.dedup();
        let begun = words.iter().filter_map(|it| beginning(it));
        let asked = begun.filter(|it| asked.contains(it)).collect();
        Some(Sketch { runs, numbers, negations, names, asked })
    }

    /// Whether the same numbers, negations, names and words of the question are in both.
    pub(super) fn has_facts_of(&self, other: &Sketch) -> bool {
        self.numbers == other.numbers
            && self.negations == other.negations
            && self.asked == other.asked
            && (self.names.is_subset(&other.names) || self.names.is_superset(&other.names))
    }

    /// Whether nearly the same runs of words are in both.
    pub(super) fn has_words_of(&self, other: &Sketch) -> bool {
        let lengths =
            (self.runs.len().min(other.runs.len()), self.runs.len().max(other.runs.len()));
        // As much as they can share.
        (lengths.0 as f32) >= RESEMBLANCE * lengths.1 as f32
            && resemblance(&self.runs, &other.runs) >= RESEMBLANCE
    }
}

/// How the words of a question begin that may be of content.
pub(super) fn words_asked(question: &str) -> BTreeSet<String> {
    pieces(question).filter_map(|it| beginning(&it.1.to_lowercase())).collect()
}

/// How a word in lower case begins, if it may be one of content.
fn beginning(word: &str) -> Option<String> {
    (word.chars().count() >= *LETTERS.start()).then(|| word.chars().take(*LETTERS.end()).collect())
}

/// The words of a text, with where they start. Letters of both sides of an apostrophe are one word.
fn pieces(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split(|it: char| !it.is_alphanumeric() && it != '\'' && it != '’')
        .map(|it| it.trim_matches(['\'', '’']))
        .filter(|it| !it.is_empty())
        .map(|it| (it.as_ptr().addr() - text.as_ptr().addr(), it))
}

/// FNV-1a over the words of a run; collisions cost nothing but a little exactness.
fn hash(run: &[String]) -> u64 {
    let bytes = run.iter().flat_map(|it| it.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Share of the elements of two sorted lists that are in both.
pub(super) fn resemblance(a: &[u64], b: &[u64]) -> f32 {
    let (mut at, mut shared) = (0, 0usize);
    for it in a {
        at += b[at..].partition_point(|other| other < it);
        shared += usize::from(b.get(at) == Some(it));
    }
    let all = a.len() + b.len() - shared;
    if all == 0 { 0.0 } else { shared as f32 / all as f32 }
}
