//! The model's tokenizer, with the truncation that its reference implementation applies.
//!
//! What surrounds the vocabulary is the `tokenizers` library: normalizing, splitting into words, added tokens,
//! templates. The vocabulary itself, Unigram, byte pair encoding or WordPiece, is ours: the library's takes 140 to
//! 350 MB of a process that promises 200 MiB. So is BERT's way to words of ASCII, which takes the library most of its
//! time.

mod bpe;
mod dictionary;
mod language;
mod layout;
mod load;
mod model;
#[cfg(test)]
mod tests;
mod unigram;
mod wordpiece;

use std::{fmt, path::Path};

pub use language::LanguageTokenizer;
use layout::Layout;
use model::AnyModel;
use tokenizers::PostProcessor as _;
use wordpiece::AsciiWords;

use crate::{Error, Result};

/// A tokenized text or pair, special tokens included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Segment of each token: 0 for the first text, 1 for the second.
    pub type_ids: Vec<u8>,
}

impl Encoded {
    /// Length in tokens.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Tokens of the first text, its special tokens counted: what stands before the second.
    pub fn first_segment(&self) -> usize {
        self.type_ids.iter().take_while(|it| **it == 0).count()
    }

    /// Whether there is not even a special token.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// `tokenizer.json` of a model directory.
pub struct Tokenizer {
    /// Never truncates by itself: a second one that does would hold the vocabulary a second time.
    inner: load::Inner,
    single: Result<Layout, String>,
    pair: Result<Layout, String>,
    words: Option<AsciiWords>,
    max_tokens: usize,
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer").field("max_tokens", &self.max_tokens).finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// Reads `dir/tokenizer.json`; encodings are cut to `max_tokens`, the longer text of a pair first
    /// (Hugging Face's `longest_first`), whatever the file itself says about truncation and padding.
    ///
    /// # Errors
    /// A missing or malformed file, a vocabulary larger than `vocab_size`, which would lead outside the
    /// embedding table, or a limit that leaves no room for text.
    pub fn open(dir: &Path, max_tokens: usize, vocab_size: usize) -> Result<Tokenizer> {
        let path = dir.join("tokenizer.json");
        let bad = |why: String| Error::BadTokenizer { path: path.clone(), why };
        let inner = load::load(&path).map_err(bad)?;
        let vocabulary = inner.get_vocab_size(true);
        if vocabulary > vocab_size {
            return Err(bad(format!(
                "its vocabulary of {vocabulary} tokens is larger than the model's {vocab_size}: it belongs to another model"
            )));
        }
        // A pair with its special tokens and a token of text; the library would calculate below zero.
        let shortest = inner.get_post_processor().map_or(0, |it| it.added_tokens(true)) + 1;
        if max_tokens < shortest {
            return Err(bad(format!(
                "inputs of {max_tokens} tokens hold no text beside its special tokens: allow at least {shortest}"
            )));
        }
        let (single, pair) = (Layout::of(&inner, 1), Layout::of(&inner, 2));
        Ok(Tokenizer { words: AsciiWords::of(&inner), inner, single, pair, max_tokens })
    }

    /// Longest encoding in tokens, special tokens included.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// The number of a token.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The token that stands for what has none, where the vocabulary names one.
    pub fn unknown_token(&self) -> Option<u32> {
        self.inner.get_model().unknown()
    }

    /// One text with special tokens, cut to the limit.
    ///
    /// # Errors
    /// When the tokenizer can not represent the text.
    pub fn encode(&self, text: &str) -> Result<Encoded> {
        let layout = layout::usable(&self.single)?;
        let text = self.encode_plain(text)?;
        let length = text.len().min(self.max_tokens.saturating_sub(layout.special()));
        Ok(layout.complete([&text[..length], &[]]))
    }

    /// A text that [`encode_plain`](Self::encode_plain) has encoded, cut to `most` tokens, with special tokens and a
    /// marker behind the first of all. The marker's place is kept where there is none.
    ///
    /// # Errors
    /// When the tokenizer has no template for single texts.
    pub fn marked(&self, text: &[u32], marker: Option<u32>, most: usize) -> Result<Encoded> {
        let layout = layout::usable(&self.single)?;
        let room = most.saturating_sub(layout.special() + 1);
        let mut encoded = layout.complete([&text[..text.len().min(room)], &[]]);
        if let Some(marker) = marker {
            let place = encoded.len().min(1);
            encoded.ids.insert(place, marker);
            encoded.type_ids.insert(place, 0);
        }
        Ok(encoded)
    }

    /// A pair with special tokens, cut to the limit.
    ///
    /// # Errors
    /// When the tokenizer can not represent the texts.
    pub fn encode_pair(&self, first: &str, second: &str) -> Result<Encoded> {
        self.pair(&self.encode_plain(first)?, &self.encode_plain(second)?)
    }

    /// A pair of texts that [`encode_plain`](Self::encode_plain) has encoded, with special tokens, cut to the limit.
    ///
    /// # Errors
    /// When the tokenizer has no template for pairs.
    pub fn pair(&self, first: &[u32], second: &[u32]) -> Result<Encoded> {
        let layout = layout::usable(&self.pair)?;
        let room = self.max_tokens.saturating_sub(layout.special());
        let (kept, rest) = longest_first(first.len(), second.len(), room);
        Ok(layout.complete([&first[..kept], &second[..rest]]))
    }

    /// A text's tokens without special tokens around it and without a limit.
    ///
    /// # Errors
    /// When the tokenizer can not represent the text.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>> {
        if let (Some(words), AnyModel::WordPiece(model)) = (&self.words, self.inner.get_model()) {
            let library = |run: &str, ids: &mut Vec<u32>| self.append_by_library(run, ids);
            if let Some(ids) = words.encode(model, text, library, failed)? {
                return Ok(ids);
            }
        }
        let mut ids = Vec::new();
        self.append_by_library(text, &mut ids)?;
        Ok(ids)
    }

    /// Tokens of `text` without special tokens and without truncation; a text that can not be tokenized
    /// counts its bytes, an upper bound.
    pub fn count(&self, text: &str) -> usize {
        self.encode_plain(text).map_or(text.len(), |it| it.len())
    }

    fn append_by_library(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        ids.extend_from_slice(self.inner.encode_fast(text, false).map_err(failed)?.get_ids());
        Ok(())
    }
}

/// How much of two texts is kept, as Hugging Face's `longest_first` cuts: the longer one to the length of
/// the shorter, then both alike, the odd token to the longer.
fn longest_first(first: usize, second: usize, room: usize) -> (usize, usize) {
    if first + second <= room {
        return (first, second);
    }
    let shorter = first.min(second);
    let longer = room.saturating_sub(shorter).max(shorter);
    let (shorter, longer) =
        if shorter + longer > room { (room / 2, room / 2 + room % 2) } else { (shorter, longer) };
    if first > second { (longer, shorter) } else { (shorter, longer) }
}

fn failed(error: tokenizers::Error) -> Error {
    Error::Tokenize(error.to_string())
}
