//! WordPiece: of a word the longest piece that it begins with, and of the rest again.
//!
//! Wu et al., "Google's Neural Machine Translation System" (2016), section 4.1, as BERT's tokenizer applies it. Order
//! and special cases are those of the `tokenizers` library, the naive twin in the tests.

use std::ops::Range;

use tokenizers::{
    AddedToken, NormalizerWrapper, PreTokenizerWrapper, Result, Token, normalizers::BertNormalizer,
};

use super::{
    dictionary::{Dictionary, Pieces},
    load::Inner,
    model::AnyModel,
    unigram::token,
};

/// A model of WordPiece.
#[derive(Debug)]
pub(super) struct WordPiece {
    dictionary: Dictionary,
    /// Where the dictionary has the pieces that go on with a word; `None`: there are none.
    continuing: Option<usize>,
    /// Characters of the longest word that is looked at.
    most: usize,
    /// What stands for a word that has no pieces, which nothing forces to be in the vocabulary.
    unknown: Option<u32>,
}

impl WordPiece {
    /// `mark` is what pieces begin with that go on with a word.
    pub(super) fn new(
        pieces: &Pieces,
        ids: &[u32],
        unknown: &str,
        mark: &str,
        most: usize,
    ) -> std::result::Result<WordPiece, String> {
        let dictionary = Dictionary::new(pieces, |it| ids[it]).map_err(|it| it.to_string())?;
        Ok(WordPiece {
            continuing: dictionary.node(mark.as_bytes()),
            most,
            unknown: dictionary.get(unknown.as_bytes()),
            dictionary,
        })
    }

    pub(super) fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    pub(super) fn unknown(&self) -> Option<u32> {
        self.unknown
    }

    /// Tokens without their text: only ids leave this module's parent.
    pub(super) fn tokenize(&self, word: &str) -> Result<Vec<Token>> {
        let mut tokens = Vec::new();
        self.append(word.as_bytes(), word.chars().count(), &mut tokens, token)?;
        Ok(tokens)
    }

    /// Appends what `make` makes of each piece of a word of `chars` characters: of its id and its place.
    fn append<T>(
        &self,
        word: &[u8],
        chars: usize,
        out: &mut Vec<T>,
        make: impl Fn(u32, Range<usize>) -> T,
    ) -> Result<()> {
        let before = out.len();
        let mut at = 0;
        while at < word.len() && chars <= self.most {
            let node = if at == 0 { Some(Dictionary::ROOT) } else { self.continuing };
            let longest = node.and_then(|it| self.dictionary.prefixes_from(it, &word[at..]).last());
            let Some((length, id)) = longest else { break };
            out.push(make(id, at..at + length));
            at += length;
        }
        if at < word.len() {
            let unknown = self.unknown.ok_or("its vocabulary lacks the token for unknown words")?;
            out.truncate(before);
            out.push(make(unknown, 0..word.len()));
        }
        Ok(())
    }
}

/// BERT's way from a text to words, for words of ASCII: there it is lower case and splitting at blanks and
/// punctuation, where the library keeps for every character which one of the text it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct AsciiWords {
    lowercase: bool,
    /// Bytes that a text must not have: an added token could begin with them.
    marks: [bool; 256],
}

impl AsciiWords {
    /// `None` where a tokenizer has other rules than BERT's.
    pub(super) fn of(inner: &Inner) -> Option<AsciiWords> {
        let (
            AnyModel::WordPiece(_),
            Some(NormalizerWrapper::BertNormalizer(BertNormalizer {
                clean_text: true,
                lowercase,
                ..
            })),
            Some(PreTokenizerWrapper::BertPreTokenizer(_)),
        ) = (inner.get_model(), inner.get_normalizer(), inner.get_pre_tokenizer())
        else {
            return None;
        };
        let mut marks = [false; 256];
        for AddedToken { content, normalized, .. } in inner.get_added_tokens_decoder().values() {
            // What is looked for in the normalized text could be there because of any character.
            if *normalized {
                return None;
            }
            if let Some(&first) = content.as_bytes().first() {
                marks[usize::from(first)] = true;
            }
        }
        Some(AsciiWords { lowercase: *lowercase, marks })
    }

    /// The tokens of a text; `library` has those of what is not ASCII, piece by piece: neither normalizing nor
    /// splitting looks across blanks. `None`: the text may hold an added token.
    pub(super) fn encode<E>(
        &self,
        model: &WordPiece,
        text: &str,
        mut library: impl FnMut(&str, &mut Vec<u32>) -> std::result::Result<(), E>,
        failed: impl Fn(tokenizers::Error) -> E,
    ) -> std::result::Result<Option<Vec<u32>>, E> {
        if text.bytes().any(|it| self.marks[usize::from(it)]) {
            return Ok(None);
        }
        let mut ids = Vec::with_capacity(text.len() / 4);
        let mut lower = Vec::new();
        for run in text.split([' ', '\t', '\n', '\r']).filter(|it| !it.is_empty()) {
            // Control characters vanish, and what they stood between becomes one word.
            if !run.bytes().all(|it| it.is_ascii_graphic()) {
                library(run, &mut ids)?;
                continue;
            }
            lower.clear();
            lower.extend_from_slice(run.as_bytes());
            if self.lowercase {
                lower.make_ascii_lowercase();
            }
            for word in
                lower.chunk_by(|a, b| !a.is_ascii_punctuation() && !b.is_ascii_punctuation())
            {
                model.append(word, word.len(), &mut ids, |id, _| id).map_err(&failed)?;
            }
        }
        Ok(Some(ids))
    }
}
