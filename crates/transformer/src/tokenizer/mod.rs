//! The model's tokenizer, with the truncation that its reference implementation applies.
//!
//! What surrounds the vocabulary is the `tokenizers` library: normalizing, splitting into words, added tokens,
//! templates. The vocabulary itself, Unigram or byte pair encoding, is ours: the library's takes 140 to 350 MB of
//! a process that promises 200 MiB.

mod bpe;
mod dictionary;
mod language;
mod load;
mod model;
#[cfg(test)]
mod tests;
mod unigram;

use std::{fmt, path::Path};

pub use language::LanguageTokenizer;
use tokenizers::{Encoding, PostProcessor as _, TruncationDirection};

use crate::{Error, Result};

/// Segments that BERT tells apart: the first text of a pair and the second.
const SEGMENTS: u32 = 2;

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

    /// Whether there is not even a special token.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// `tokenizer.json` of a model directory.
pub struct Tokenizer {
    /// Never truncates by itself: a second one that does would hold the vocabulary a second time.
    inner: load::Inner,
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
        Ok(Tokenizer { inner, max_tokens })
    }

    /// Longest encoding in tokens, special tokens included.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// The number of a token.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// One text with special tokens, cut to the limit.
    ///
    /// # Errors
    /// When the tokenizer can not represent the text.
    pub fn encode(&self, text: &str) -> Result<Encoded> {
        self.cut_and_complete(self.plain(text)?, None)
    }

    /// A pair with special tokens, cut to the limit.
    ///
    /// # Errors
    /// When the tokenizer can not represent the texts.
    pub fn encode_pair(&self, first: &str, second: &str) -> Result<Encoded> {
        self.cut_and_complete(self.plain(first)?, Some(self.plain(second)?))
    }

    /// A text's tokens without special tokens around it and without a limit.
    ///
    /// # Errors
    /// When the tokenizer can not represent the text.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.plain(text)?.get_ids().to_vec())
    }

    /// Tokens of `text` without special tokens and without truncation; a text that can not be tokenized
    /// counts its bytes, an upper bound.
    pub fn count(&self, text: &str) -> usize {
        self.inner.encode_fast(text, false).map_or(text.len(), |it| it.len())
    }

    fn plain(&self, text: &str) -> Result<Encoding> {
        self.inner.encode_fast(text, false).map_err(failed)
    }

    /// What the library does to encodings after the words are tokens, with our limit.
    fn cut_and_complete(&self, first: Encoding, second: Option<Encoding>) -> Result<Encoded> {
        let special =
            self.inner.get_post_processor().map_or(0, |it| it.added_tokens(second.is_some()));
        let room = self.max_tokens - special;
        let lengths = longest_first(first.len(), second.as_ref().map_or(0, Encoding::len), room);
        let first = cut(first, lengths.0);
        let second = second.map(|it| cut(it, lengths.1));
        encoded(&self.inner.post_process(first, second, true).map_err(failed)?)
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

/// The first `tokens` tokens. The library keeps what it cuts off in pieces, and would combine each piece of
/// one text with each of the other.
fn cut(mut encoding: Encoding, tokens: usize) -> Encoding {
    encoding.truncate(tokens, 0, TruncationDirection::Right);
    encoding.take_overflowing();
    encoding
}

fn failed(error: tokenizers::Error) -> Error {
    Error::Tokenize(error.to_string())
}

fn encoded(encoding: &Encoding) -> Result<Encoded> {
    let segment = |&id: &u32| {
        if id < SEGMENTS {
            return Ok(id as u8);
        }
        Err(Error::Tokenize(format!(
            "its tokenizer.json numbers a segment {id}, BERT has two, 0 and 1"
        )))
    };
    Ok(Encoded {
        ids: encoding.get_ids().to_vec(),
        type_ids: encoding.get_type_ids().iter().map(segment).collect::<Result<_>>()?,
    })
}
