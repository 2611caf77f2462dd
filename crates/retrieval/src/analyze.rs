//! Text to index terms, the same way for chunks and queries, in every script.
//!
//! Words are runs of letters, marks and digits. Each gives a folded form (lower case, compatibility forms
//! unified, accents off) and a stem by language. Scripts written without spaces (Chinese, Japanese, Thai,
//! Lao, Khmer, Burmese, and Korean, whose words are glued to particles) become overlapping pairs of
//! characters: no dictionary, and nothing is ever silently unfindable.

use std::collections::HashMap;

use tantivy::tokenizer::{
    Language, RawTokenizer, Stemmer, StopWordFilter, TextAnalyzer, TokenStream as _,
};
use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

use crate::language::ENGLISH_STOP_WORDS;

/// A term with its place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Term {
    /// Folded, not stemmed.
    pub(crate) exact: String,
    /// Its stem in each language asked for, without repetitions; folded after stemming, because stemmers
    /// know accents.
    pub(crate) stems: Vec<String>,
    /// Word position; parts of an identifier share the position of the whole.
    pub(crate) position: usize,
    /// Whether the first language calls it a stop word.
    pub(crate) stop: bool,
    /// Whether it follows the word before without white space: `mira@example.org`, `1.2.3`, `src/main.rs`.
    pub(crate) glued: bool,
    /// Whether it is a word as written and not a part of an identifier.
    pub(crate) whole: bool,
    /// A lone character of a script without spaces: the beginning of a pair.
    pub(crate) begins_pair: bool,
}

/// What the terms are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Everything a query might ask for.
    Index,
    /// Only what is needed to find it.
    Query,
}

/// Longest term kept, in bytes: a SHA-512 in hexadecimal digits. What is longer is data, not a word.
const LONGEST_TERM: usize = 128;

/// Most parts an identifier is opened into: what has more is a hash or an encoded file.
const MOST_PARTS: usize = 8;

/// Stems words of one language and knows its stop words.
struct Stemming {
    stemmer: TextAnalyzer,
    stop_words: Option<TextAnalyzer>,
}

impl Stemming {
    fn new(language: Language) -> Stemming {
        let raw = || TextAnalyzer::builder(RawTokenizer::default());
        let stop_words = match language {
            Language::English => {
                let words = ENGLISH_STOP_WORDS.split_whitespace().map(str::to_owned);
                Some(StopWordFilter::remove(words))
            }
            other => StopWordFilter::new(other),
        };
        Stemming {
            stemmer: raw().filter(Stemmer::new(language)).build(),
            stop_words: stop_words.map(|it| raw().filter(it).build()),
        }
    }

    fn stem(&mut self, word: &str) -> String {
        let mut stems = self.stemmer.token_stream(word);
        stems.next().map_or_else(|| word.to_owned(), |it| it.text.clone())
    }

    fn is_stop_word(&mut self, word: &str) -> bool {
        self.stop_words.as_mut().is_some_and(|it| it.token_stream(word).next().is_none())
    }
}

/// Analyzes text; keeps the stemmers it has made.
#[derive(Default)]
pub(crate) struct Analyzer {
    stemming: HashMap<Language, Stemming>,
}

impl Analyzer {
    /// The terms of `text`, stemmed in each of `languages`; `None` stands for a language without stemmer.
    pub(crate) fn terms(
        &mut self,
        text: &str,
        languages: &[Option<Language>],
        purpose: Purpose,
    ) -> Vec<Term> {
        let text = plain(text);
        let mut terms = Vec::new();
        let mut position = 0;
        for run in runs(&text) {
            match run {
                Run::Word { word, glued } => {
                    self.word(word, glued, position, languages, &mut terms);
                    position += 1;
                }
                Run::Unspaced(characters) => {
                    position = pairs(&characters, position, purpose, &mut terms);
                }
            }
        }
        terms
    }

    /// A word and, if it is an identifier, its parts.
    fn word(
        &mut self,
        word: &str,
        glued: bool,
        position: usize,
        languages: &[Option<Language>],
        terms: &mut Vec<Term>,
    ) {
        let lower =
            |it: &str| it.to_lowercase().replace("i\u{307}", "i").trim_matches('_').to_owned();
        let whole = lower(word);
        if whole.is_empty() || whole.len() > LONGEST_TERM {
            return;
        }
        let parts = identifier_parts(word);
        terms.push(Term { glued, whole: true, ..self.term(&whole, position, languages) });
        if parts.len() <= MOST_PARTS {
            for part in parts.into_iter().map(lower).filter(|it| *it != whole) {
                terms.push(self.term(&part, position, languages));
            }
        }
    }

    fn term(&mut self, word: &str, position: usize, languages: &[Option<Language>]) -> Term {
        let mut stems = Vec::with_capacity(languages.len());
        let mut stop = false;
        for (place, language) in languages.iter().enumerate() {
            let stem = match language {
                Some(language) => {
                    let stemming =
                        self.stemming.entry(*language).or_insert_with(|| Stemming::new(*language));
                    stop |= place == 0 && stemming.is_stop_word(word);
                    fold(&stemming.stem(word))
                }
                None => fold(word),
            };
            if !stems.contains(&stem) {
                stems.push(stem);
            }
        }
        Term { exact: fold(word), stems, position, stop, ..Term::default() }
    }
}

/// Pairs of the characters from `position` on; returns the next position.
fn pairs(characters: &[String], position: usize, purpose: Purpose, terms: &mut Vec<Term>) -> usize {
    let term = |text: String, position: usize| Term {
        exact: text.clone(),
        stems: vec![text],
        position,
        ..Term::default()
    };
    let count = characters.len().saturating_sub(1);
    for (pair, at) in characters.windows(2).zip(position..) {
        terms.push(Term { whole: true, ..term(fold(&pair.concat()), at) });
    }
    let end = position + count.max(1);
    if let Some(last) = characters.last() {
        // The last character begins no pair; alone it is still to be found.
        if count == 0 || purpose == Purpose::Index {
            let lone = count == 0;
            terms.push(Term { whole: lone, begins_pair: lone, ..term(fold(last), end - 1) });
        }
    }
    end
}

enum Run<'a> {
    Word {
        word: &'a str,
        glued: bool,
    },
    /// Characters with their marks.
    Unspaced(Vec<String>),
}

/// Compatibility forms unified (full-width letters, ligatures of PDFs), invisible characters off.
fn plain(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    // Soft hyphen, joiners, direction marks, word joiner, byte order mark, variation selectors.
    let invisible = |it: &char| {
        matches!(it, '\u{AD}' | '\u{200C}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'
            | '\u{FEFF}' | '\u{FE00}'..='\u{FE0F}')
    };
    text.nfkc().filter(|it| !invisible(it)).collect()
}

fn runs(text: &str) -> Vec<Run<'_>> {
    let mut runs = Vec::new();
    let mut rest = text;
    let mut glued = false;
    while let Some(c) = rest.chars().next() {
        let length = if is_unspaced(c) {
            let length = rest.find(|c| !is_unspaced(c) && !is_combining_mark(c));
            let length = length.unwrap_or(rest.len());
            runs.push(Run::Unspaced(with_marks(&rest[..length])));
            glued = false;
            length
        } else if is_word(c) {
            let length = word_length(rest);
            let word = &rest[..length];
            // The possessive of English says nothing.
            let possessive = glued
                && matches!(word, "s" | "S")
                && text[..text.len() - rest.len()].ends_with(['\'', '’']);
            if !possessive {
                runs.push(Run::Word { word, glued });
            }
            glued = true;
            length
        } else {
            if is_emoji(c) {
                runs.push(Run::Word { word: &rest[..c.len_utf8()], glued: false });
            }
            glued &= !c.is_whitespace() && !is_emoji(c);
            c.len_utf8()
        };
        rest = &rest[length..];
    }
    runs
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Bytes of the word that `text` begins with: `C++` and `C#` are words, too.
fn word_length(text: &str) -> usize {
    let end = text.find(|c| is_unspaced(c) || !(is_word(c) || is_combining_mark(c)));
    let end = end.unwrap_or(text.len());
    let signs = text[end..].bytes().take(2).take_while(|it| b"+#".contains(it)).count();
    let after = text[end + signs..].chars().next();
    let letter = text[..end].chars().next_back().is_some_and(char::is_alphabetic);
    if letter && after.is_none_or(|it| !is_word(it)) { end + signs } else { end }
}

fn with_marks(text: &str) -> Vec<String> {
    let mut characters: Vec<String> = Vec::new();
    for c in text.chars() {
        match characters.last_mut() {
            Some(last) if is_combining_mark(c) => last.push(c),
            _ => characters.push(c.to_string()),
        }
    }
    characters
}

/// Letters of scripts that put no spaces between words, and Hangul.
pub(crate) fn is_unspaced(c: char) -> bool {
    let code = u32::from(c);
    c.is_alphanumeric()
        && matches!(code,
            0x0E00..=0x0EFF     // Thai, Lao
            | 0x1000..=0x109F   // Myanmar
            | 0x1780..=0x17FF   // Khmer
            | 0x1100..=0x11FF | 0x3130..=0x318F | 0xAC00..=0xD7AF   // Hangul
            | 0x3005..=0x3007 | 0x3040..=0x30FF | 0x31F0..=0x31FF   // Kana, iteration marks
            | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF   // Han
            | 0x20000..=0x3134F)
}

/// Pictures people use as words.
fn is_emoji(c: char) -> bool {
    matches!(u32::from(c), 0x2600..=0x27BF | 0x1F300..=0x1FAFF)
}

/// Takes off what people leave out when they type: accents of Latin, Greek and Cyrillic, vowel marks of
/// Hebrew and Arabic, variants of Arabic letters (as Lucene's ArabicNormalizer). Marks of other scripts are
/// letters there and stay.
fn fold(word: &str) -> String {
    if word.is_ascii() {
        return word.to_owned();
    }
    let mut folded = String::with_capacity(word.len());
    for c in word.nfd() {
        match c {
            '\u{300}'..='\u{36F}'
            | '\u{591}'..='\u{5C7}'
            | '\u{640}'
            | '\u{64B}'..='\u{655}'
            | '\u{670}' => {}
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'þ' => folded.push_str("th"),
            'đ' | 'ð' => folded.push('d'),
            'ø' => folded.push('o'),
            'ł' => folded.push('l'),
            'ı' => folded.push('i'),
            'ς' => folded.push('σ'),
            'ٱ' => folded.push('ا'),
            'ى' | 'ی' => folded.push('ي'),
            'ک' => folded.push('ك'),
            'ة' => folded.push('ه'),
            other => folded.push(other),
        }
    }
    folded.nfc().collect()
}

/// `parse_json`, `parseJson` and `HTTPServer2` by their parts; a plain word is one part.
fn identifier_parts(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let characters: Vec<(usize, char)> = word.char_indices().collect();
    for (place, &(at, c)) in characters.iter().enumerate().skip(1) {
        let before = characters[place - 1].1;
        let after = characters.get(place + 1).map(|it| it.1);
        let hump = before.is_lowercase() && c.is_uppercase();
        // The last capital of several belongs to the word that follows.
        let capitals =
            before.is_uppercase() && c.is_uppercase() && after.is_some_and(char::is_lowercase);
        let digits = !is_combining_mark(c) && before.is_numeric() != c.is_numeric();
        if hump || capitals || digits || matches!(c, '_' | '+' | '#') || before == '_' {
            parts.push(&word[start..at]);
            start = at;
        }
    }
    parts.push(&word[start..]);
    parts.retain(|it| it.chars().any(char::is_alphanumeric));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const EN: [Option<Language>; 1] = [Some(Language::English)];

    fn exact(text: &str) -> Vec<String> {
        let terms = Analyzer::default().terms(text, &EN, Purpose::Query);
        terms.into_iter().map(|it| it.exact).collect()
    }

    #[test]
    fn words_are_folded_and_identifiers_opened() {
        assert_eq!(exact("Café ÉCOLE Straße ﬁle"), ["cafe", "ecole", "strasse", "file"]);
        assert_eq!(
            exact("Đường İstanbul ISPARTA ısparta"),
            ["duong", "istanbul", "isparta", "isparta"]
        );
        assert_eq!(exact("parse_json"), ["parse_json", "parse", "json"]);
        assert_eq!(exact("parseJson"), ["parsejson", "parse", "json"]);
        assert_eq!(exact("HTTPServer2"), ["httpserver2", "http", "server", "2"]);
        assert_eq!(
            exact("C++ and C#, f# 1+1"),
            ["c++", "c", "and", "c#", "c", "f#", "f", "1", "1"]
        );
        assert_eq!(exact("Zusam\u{AD}menhang, Mira's"), ["zusammenhang", "mira"]);
        let hash = "a1".repeat(32);
        assert_eq!(exact(&hash), [hash], "a hash has no parts");
        assert_eq!(exact(&"x".repeat(500)), Vec::<String>::new());
        assert_eq!(exact("🚤 dock"), ["🚤", "dock"]);
    }

    #[test]
    fn words_without_space_between_are_glued() {
        let glued = |text| -> Vec<bool> {
            let terms = Analyzer::default().terms(text, &EN, Purpose::Query);
            terms.iter().map(|it| it.glued).collect()
        };
        assert_eq!(glued("to mira@example.org, now"), [false, false, true, true, false]);
        assert_eq!(glued("1.2.3"), [false, true, true]);
    }

    #[test]
    fn stems_follow_the_language() {
        let stem = |text: &str, language| {
            Analyzer::default().terms(text, &[Some(language)], Purpose::Index).remove(0).stems
        };
        assert_eq!(stem("boats", Language::English), stem("boat", Language::English));
        assert_eq!(stem("Häusern", Language::German), stem("Haus", Language::German));
        assert_eq!(stem("лодками", Language::Russian), stem("лодка", Language::Russian));
        assert_eq!(
            stem("informaciones", Language::Spanish),
            stem("información", Language::Spanish)
        );
        assert_eq!(stem("القارب", Language::Arabic), stem("قارب", Language::Arabic));
        let both = [Some(Language::German), None];
        let terms = Analyzer::default().terms("Häusern", &both, Purpose::Query);
        assert_eq!(terms[0].stems, ["haus", "hausern"]);
    }

    #[test]
    fn scripts_without_spaces_become_pairs() {
        assert_eq!(exact("船は青い"), ["船は", "は青", "青い"]);
        assert_eq!(exact("青 boat"), ["青", "boat"]);
        assert_eq!(exact("ｶﾞｽ"), ["ガス"], "half-width letters are unified");
        assert_eq!(exact("สวัสดี"), ["สวั", "วัส", "สดี"], "marks stay with their letter");
        assert_eq!(exact("नमस्ते दुनिया").len(), 2, "marks are part of Hindi words");
        let indexed = Analyzer::default().terms("青い", &EN, Purpose::Index);
        let places: Vec<_> = indexed.iter().map(|it| (it.exact.as_str(), it.position)).collect();
        assert_eq!(places, [("青い", 0), ("い", 0)]);
    }

    #[test]
    fn stop_words_are_told() {
        let terms = Analyzer::default().terms("What does the boat", &EN, Purpose::Query);
        assert_eq!(terms.iter().map(|it| it.stop).collect::<Vec<_>>(), [true, true, true, false]);
    }
}
