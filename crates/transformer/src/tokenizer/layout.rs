//! The special tokens that a tokenizer's template sets around texts. They are found once, by giving the library two
//! marks in the place of texts: completing every text there would take as long as tokenizing it.

use tokenizers::{Encoding, Token};

use super::{Encoded, load::Inner};
use crate::{Error, Result};

/// Segments that BERT tells apart: the first text of a pair and the second.
const SEGMENTS: u32 = 2;

/// Tokens that no vocabulary has, in the places of the texts.
const MARKS: [u32; 2] = [u32::MAX, u32::MAX - 1];

/// The order of texts and special tokens, with their segments.
#[derive(Debug)]
pub(super) struct Layout(Vec<(Part, u8)>);

#[derive(Debug, Clone, Copy)]
enum Part {
    Special(u32),
    /// The place of a text, counted from 0.
    Text(usize),
}

impl Layout {
    /// The layout around `texts` texts, one or two.
    ///
    /// # Errors
    /// Why the tokenizer's template is none that BERT could read.
    pub(super) fn of(inner: &Inner, texts: usize) -> Result<Layout, String> {
        let mark = |id| Encoding::from_tokens(vec![Token::new(id, "a".to_owned(), (0, 1))], 0);
        let second = (texts > 1).then(|| mark(MARKS[1]));
        let completed = inner
            .post_process(mark(MARKS[0]), second, true)
            .map_err(|error| format!("its template can not be used: {error}"))?;
        let mut parts = Vec::with_capacity(completed.len());
        for (&id, &segment) in completed.get_ids().iter().zip(completed.get_type_ids()) {
            if segment >= SEGMENTS {
                return Err(format!(
                    "its tokenizer.json numbers a segment {segment}, BERT has two, 0 and 1"
                ));
            }
            let text = MARKS.iter().position(|&it| it == id);
            parts.push((text.map_or(Part::Special(id), Part::Text), segment as u8));
        }
        for text in 0..texts {
            let count =
                parts.iter().filter(|(it, _)| matches!(it, Part::Text(n) if *n == text)).count();
            if count != 1 {
                return Err(format!("its template has text {} {count} times, not once", text + 1));
            }
        }
        Ok(Layout(parts))
    }

    /// Tokens beside the texts.
    pub(super) fn special(&self) -> usize {
        self.0.iter().filter(|(it, _)| matches!(it, Part::Special(_))).count()
    }

    /// The texts' tokens in their places.
    pub(super) fn complete(&self, texts: [&[u32]; 2]) -> Encoded {
        let length = self.special() + texts[0].len() + texts[1].len();
        let mut encoded =
            Encoded { ids: Vec::with_capacity(length), type_ids: Vec::with_capacity(length) };
        for &(part, segment) in &self.0 {
            match part {
                Part::Special(id) => encoded.ids.push(id),
                Part::Text(text) => encoded.ids.extend_from_slice(texts[text]),
            }
            encoded.type_ids.resize(encoded.ids.len(), segment);
        }
        encoded
    }
}

/// A tokenizer may be of use for one text where its template for two can not be used.
pub(super) fn usable(layout: &Result<Layout, String>) -> Result<&Layout> {
    layout.as_ref().map_err(|why| Error::Tokenize(why.clone()))
}
