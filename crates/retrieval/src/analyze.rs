//! Text to index terms, the same way for chunks and queries, in every script.
//!
//! Words are runs of letters, marks and digits, folded (lower case, Latin accents off) and stemmed by
//! language. Scripts written without spaces (Chinese, Japanese, Korean, Thai, Lao, Khmer, Burmese) become
//! overlapping pairs of characters: no dictionary, and nothing is ever silently unfindable.

use std::collections::HashMap;

use tantivy::tokenizer::{
    Language, RawTokenizer, Stemmer, StopWordFilter, TextAnalyzer, TokenStream as _,
};
use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

/// A term with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    /// Folded, not stemmed.
    pub(crate) exact: String,
    /// Stemmed; equal to `exact` where the language has no stemmer.
    pub(crate) stem: String,
    /// Word position; parts of an identifier share the position of the whole.
    pub(crate) position: usize,
    /// Whether the language calls it a stop word.
    pub(crate) stop: bool,
}

/// Longest term kept: what is longer is data, not a word.
const LONGEST_TERM: usize = 64;

/// Analyzes text; keeps the stemmers it has made.
#[derive(Default)]
pub(crate) struct Analyzer {
    stemmers: HashMap<Language, (TextAnalyzer, Option<TextAnalyzer>)>,
}

impl Analyzer {
    /// The terms of `text` in its language (ISO 639-1; `None` means English, whose stemmer does little
    /// harm to others).
    pub(crate) fn terms(&mut self, text: &str, language: Option<&str>) -> Vec<Term> {
        let language = stemmer_of(language.unwrap_or("en"));
        let mut terms = Vec::new();
        let mut position = 0;
        for run in runs(text) {
            match run {
                Run::Word(word) => {
                    let folded = fold(word);
                    if folded.is_empty() || folded.len() > LONGEST_TERM {
                        position += 1;
                        continue;
                    }
                    terms.push(self.term(folded.clone(), position, language));
                    let parts = identifier_parts(word);
                    if parts.len() > 1 {
                        for part in parts {
                            let part = fold(part);
                            if part != folded && !part.is_empty() {
                                terms.push(self.term(part, position, language));
                            }
                        }
                    }
                    position += 1;
                }
                Run::Unspaced(characters) => {
                    let pairs: Vec<String> = match characters.as_slice() {
                        [single] => vec![fold(&single.to_string())],
                        many => {
                            many.windows(2).map(|it| fold(&it.iter().collect::<String>())).collect()
                        }
                    };
                    for exact in pairs {
                        terms.push(Term { stem: exact.clone(), exact, position, stop: false });
                        position += 1;
                    }
                }
            }
        }
        terms
    }

    fn term(&mut self, exact: String, position: usize, language: Option<Language>) -> Term {
        let Some(language) = language else {
            return Term { stem: exact.clone(), exact, position, stop: false };
        };
        let (stemmer, stop_words) = self.stemmers.entry(language).or_insert_with(|| {
            let raw = || TextAnalyzer::builder(RawTokenizer::default());
            let stop_words = StopWordFilter::new(language).map(|it| raw().filter(it).build());
            (raw().filter(Stemmer::new(language)).build(), stop_words)
        });
        let mut stems = stemmer.token_stream(&exact);
        let stem = stems.next().map_or_else(|| exact.clone(), |it| it.text.clone());
        drop(stems);
        let stop = stop_words.as_mut().is_some_and(|it| it.token_stream(&exact).next().is_none());
        Term { exact, stem, position, stop }
    }
}

enum Run<'a> {
    Word(&'a str),
    Unspaced(Vec<char>),
}

fn runs(text: &str) -> Vec<Run<'_>> {
    let mut runs = Vec::new();
    let mut word_start = None;
    let mut unspaced = Vec::new();
    for (at, c) in text.char_indices() {
        let in_unspaced = is_unspaced(c) || (is_combining_mark(c) && !unspaced.is_empty());
        let in_word = !in_unspaced
            && (c.is_alphanumeric() || c == '_' || (is_combining_mark(c) && word_start.is_some()));
        if !in_word && let Some(start) = word_start.take() {
            runs.push(Run::Word(&text[start..at]));
        }
        if !in_unspaced && !unspaced.is_empty() {
            runs.push(Run::Unspaced(std::mem::take(&mut unspaced)));
        }
        if in_word {
            word_start.get_or_insert(at);
        }
        if in_unspaced {
            unspaced.push(c);
        }
    }
    if let Some(start) = word_start {
        runs.push(Run::Word(&text[start..]));
    }
    if !unspaced.is_empty() {
        runs.push(Run::Unspaced(unspaced));
    }
    runs
}

/// Letters of scripts that put no spaces between words, and Hangul, whose words are glued to particles.
fn is_unspaced(c: char) -> bool {
    let code = u32::from(c);
    c.is_alphanumeric()
        && matches!(code,
            0x0E00..=0x0EFF     // Thai, Lao
            | 0x1000..=0x109F   // Myanmar
            | 0x1780..=0x17FF   // Khmer
            | 0x1100..=0x11FF | 0x3130..=0x318F | 0xAC00..=0xD7AF   // Hangul
            | 0x3040..=0x30FF | 0x31F0..=0x31FF | 0xFF66..=0xFF9D   // Kana
            | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF   // Han
            | 0x20000..=0x3134F)
}

/// Lower case, compatibility forms unified, accents of Latin, Greek and Cyrillic off. Marks of other
/// scripts are letters there and stay.
fn fold(word: &str) -> String {
    let plain: String = word.nfd().filter(|it| !('\u{300}'..='\u{36F}').contains(it)).collect();
    plain.nfkc().flat_map(char::to_lowercase).collect::<String>().trim_matches('_').to_owned()
}

/// `parse_json`, `parseJson` and `HTTPServer2` by their parts.
fn identifier_parts(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let characters: Vec<(usize, char)> = word.char_indices().collect();
    for window in characters.windows(2) {
        let [(_, before), (at, after)] = window else { continue };
        let humps = before.is_lowercase() && after.is_uppercase();
        let digits = before.is_numeric() != after.is_numeric();
        if humps || digits || *before == '_' || *after == '_' {
            parts.push(&word[start..*at]);
            start = *at;
        }
    }
    parts.push(&word[start..]);
    parts.retain(|it| it.chars().any(char::is_alphanumeric));
    parts
}

fn stemmer_of(language: &str) -> Option<Language> {
    Some(match language {
        "ar" => Language::Arabic,
        "da" => Language::Danish,
        "nl" => Language::Dutch,
        "en" => Language::English,
        "fi" => Language::Finnish,
        "fr" => Language::French,
        "de" => Language::German,
        "el" => Language::Greek,
        "hu" => Language::Hungarian,
        "it" => Language::Italian,
        "no" => Language::Norwegian,
        "pt" => Language::Portuguese,
        "ro" => Language::Romanian,
        "ru" => Language::Russian,
        "es" => Language::Spanish,
        "sv" => Language::Swedish,
        "ta" => Language::Tamil,
        "tr" => Language::Turkish,
        _ => return None,
    })
}

/// The language to read a text in: as told, else by its script, else by detection.
pub(crate) fn language_of(text: &str, told: Option<&str>) -> Option<String> {
    if let Some(told) = told {
        return Some(told.to_owned());
    }
    // A script that stands for one language in practice tells it in a single word.
    let letters = |range: std::ops::RangeInclusive<char>| {
        text.chars().filter(|it| range.contains(it)).count()
    };
    let by_script = [
        (letters('\u{370}'..='\u{3FF}'), "el"),
        (letters('\u{400}'..='\u{4FF}'), "ru"),
        (letters('\u{600}'..='\u{6FF}'), "ar"),
        (letters('\u{900}'..='\u{97F}'), "hi"),
    ];
    let all = text.chars().filter(|it| it.is_alphabetic()).count();
    if let Some((_, language)) =
        by_script.into_iter().find(|(count, _)| *count > 1 && count * 2 > all)
    {
        return Some(language.to_owned());
    }
    // A handful of letters is a guess; English is the better one.
    const SHORTEST: usize = 20;
    if text.chars().filter(|it| it.is_alphabetic()).count() < SHORTEST {
        return None;
    }
    use whichlang::Lang;
    let code = match whichlang::detect_language(text) {
        Lang::Ara => "ar",
        Lang::Cmn => "zh",
        Lang::Deu => "de",
        Lang::Eng => "en",
        Lang::Fra => "fr",
        Lang::Hin => "hi",
        Lang::Ita => "it",
        Lang::Jpn => "ja",
        Lang::Kor => "ko",
        Lang::Nld => "nl",
        Lang::Por => "pt",
        Lang::Rus => "ru",
        Lang::Spa => "es",
        Lang::Swe => "sv",
        Lang::Tur => "tr",
        Lang::Vie => "vi",
    };
    Some(code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(text: &str) -> Vec<String> {
        Analyzer::default().terms(text, None).into_iter().map(|it| it.exact).collect()
    }

    #[test]
    fn words_are_folded_and_identifiers_opened() {
        assert_eq!(exact("Café ÉCOLE"), ["cafe", "ecole"]);
        assert_eq!(
            exact("parse_json HTTPServer v2"),
            ["parse_json", "parse", "json", "httpserver", "v2", "v", "2"]
        );
        assert_eq!(exact("parseJson"), ["parsejson", "parse", "json"]);
    }

    #[test]
    fn stems_follow_the_language() {
        let stem =
            |text: &str, language| Analyzer::default().terms(text, Some(language)).remove(0).stem;
        assert_eq!(stem("boats", "en"), stem("boat", "en"));
        assert_eq!(stem("Häusern", "de"), stem("Haus", "de").replace("ä", "a"));
        assert_eq!(stem("лодками", "ru"), stem("лодка", "ru"));
    }

    #[test]
    fn scripts_without_spaces_become_pairs() {
        assert_eq!(exact("船は青い"), ["船は", "は青", "青い"]);
        assert_eq!(exact("青 boat"), ["青", "boat"]);
        assert_eq!(exact("สวัสดี").len(), 5);
        assert_eq!(exact("नमस्ते दुनिया").len(), 2, "marks are part of Hindi words");
    }

    #[test]
    fn stop_words_are_told() {
        let terms = Analyzer::default().terms("the boat", Some("en"));
        assert_eq!(terms.iter().map(|it| it.stop).collect::<Vec<_>>(), [true, false]);
    }
}
