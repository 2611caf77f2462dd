//! Which words of a text a query has found: the same analysis as the index, word by word.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use crate::{
    analyze::{Analyzer, Purpose},
    language::{code_of, stemmer_of},
    query::parse,
};

/// Finds the words of a query in texts; remembers the words it has seen, so one serves a list of hits.
pub struct Highlighter {
    wanted: HashSet<String>,
    language: Option<&'static str>,
    analyzer: Analyzer,
    seen: HashMap<String, bool>,
}

impl std::fmt::Debug for Highlighter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Highlighter").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

/// A run of characters: a word, or one character of a script without spaces.
struct Token {
    range: Range<usize>,
    alone: bool,
}

impl Highlighter {
    /// For the words and phrases of `query`. Stop words count only where there is nothing else.
    pub fn new(query: &str) -> Highlighter {
        let parsed = parse(query);
        let text = std::iter::once(&parsed.words).chain(&parsed.phrases);
        let text: String = text.map(|it| format!("{it} ")).collect();
        // A few words seldom tell their language.
        let language = code_of(&text, None).or(Some("en"));
        let mut analyzer = Analyzer::default();
        let terms = analyzer.terms(&text, &languages(language), Purpose::Query);
        let content = terms.iter().any(|it| !it.stop);
        let kept = terms.into_iter().filter(|it| !content || !it.stop);
        let wanted = kept.flat_map(|it| it.stems.into_iter().chain([it.exact])).collect();
        Highlighter { wanted, language, analyzer, seen: HashMap::new() }
    }

    /// Byte ranges of the words that match, ascending and apart.
    pub fn find(&mut self, text: &str) -> Vec<Range<usize>> {
        let tokens = tokens(text);
        let mut found: Vec<Range<usize>> = Vec::new();
        for (place, token) in tokens.iter().enumerate() {
            let range = if token.alone {
                // Scripts without spaces are indexed in pairs; a pair that matches marks both.
                let next = tokens.get(place + 1);
                match next.filter(|it| it.alone && it.range.start == token.range.end) {
                    Some(next) => token.range.start..next.range.end,
                    None => token.range.clone(),
                }
            } else {
                token.range.clone()
            };
            if !self.matches(&text[range.clone()]) {
                continue;
            }
            match found.last_mut().filter(|it| it.end >= range.start) {
                Some(last) => last.end = last.end.max(range.end),
                None => found.push(range),
            }
        }
        found
    }

    fn matches(&mut self, word: &str) -> bool {
        if let Some(&known) = self.seen.get(word) {
            return known;
        }
        let terms = self.analyzer.terms(word, &languages(self.language), Purpose::Index);
        let wanted = &self.wanted;
        let matched = terms
            .iter()
            .any(|it| wanted.contains(&it.exact) || it.stems.iter().any(|it| wanted.contains(it)));
        self.seen.insert(word.to_owned(), matched);
        matched
    }
}

fn languages(code: Option<&str>) -> Vec<Option<tantivy::tokenizer::Language>> {
    vec![code.and_then(stemmer_of)]
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        let is_word =
            c.is_alphanumeric() || c == '_' || unicode_normalization::char::is_combining_mark(c);
        if !is_word {
            continue;
        }
        // Thai and what comes after it: written without spaces, or with particles glued on.
        let alone = matches!(u32::from(c), 0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF
            | 0x3040..=0x30FF | 0x3400..=0x9FFF | 0xAC00..=0xD7AF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF);
        match tokens.last_mut().filter(|it| it.range.end == at && !it.alone && !alone) {
            Some(last) => last.range.end = end,
            None => tokens.push(Token { range: at..end, alone }),
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marked(query: &str, text: &str) -> Vec<String> {
        Highlighter::new(query).find(text).into_iter().map(|it| text[it].to_owned()).collect()
    }

    #[test]
    fn inflected_words_are_found_and_stop_words_are_not() {
        let text = "The seals of the doors were replaced; a door needs a seal.";
        assert_eq!(
            marked("when to replace the door seals", text),
            ["seals", "doors", "replaced", "door", "seal"]
        );
        assert_eq!(marked("Café", "the CAFÉ and the cafe"), ["CAFÉ", "cafe"]);
        assert_eq!(marked("seal -door", "door seal"), ["seal"]);
    }

    #[test]
    fn scripts_without_spaces_are_found_in_pairs() {
        assert_eq!(marked("面包", "她买了面包和奶酪。"), ["面包"]);
        assert_eq!(marked("door", "她买了"), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn ranges_are_words_of_the_text_in_order(query in ".{0,40}", text in ".{0,120}") {
            let mut end = 0;
            for range in Highlighter::new(&query).find(&text) {
                prop_assert!(range.start >= end && range.start < range.end);
                prop_assert!(text.get(range.clone()).is_some());
                end = range.end;
            }
        }
    }
}
