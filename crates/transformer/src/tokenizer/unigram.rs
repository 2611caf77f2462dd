//! Unigram: of all ways to cut a text into pieces the one with the highest sum of scores.
//!
//! Kudo, "Subword Regularization" (ACL 2018), section 3.1, found with Viterbi's algorithm. Every choice between
//! equals is the one of the `tokenizers` library, which is the naive twin in the tests.

use tokenizers::{Result, Token};

use super::dictionary::{Dictionary, Pieces};

/// What an unknown character costs beyond the worst piece; sentencepiece's `kUnkPenalty`.
const UNKNOWN_PENALTY: f64 = 10.0;

/// The best way to cut the text up to some place: its last piece.
#[derive(Debug, Clone, Copy)]
struct Best {
    score: f64,
    /// Where the piece begins, `u32::MAX` where no piece ends.
    start: u32,
    id: u32,
}

/// Nothing ends here. The score belongs to the beginning of the text, where nothing needs to.
const NOTHING: Best = Best { score: 0.0, start: u32::MAX, id: 0 };

/// A Unigram model: of the library's options those that a file can set.
#[derive(Debug)]
pub(super) struct Unigram {
    dictionary: Dictionary,
    /// By id, as exact as the file has them.
    scores: Vec<f64>,
    unknown: Option<u32>,
    unknown_score: f64,
    /// Tokens of single bytes for characters without a piece. Absent as a whole where it is not wished.
    bytes: Option<Box<[Option<u32>; 256]>>,
}

impl Unigram {
    /// The ids are the places in the list.
    pub(super) fn new(
        pieces: &Pieces,
        scores: Vec<f64>,
        unknown: Option<usize>,
        byte_fallback: bool,
    ) -> std::result::Result<Unigram, String> {
        if let Some(id) = unknown.filter(|&id| id >= scores.len()) {
            return Err(format!(
                "its unknown piece is number {id}, and its vocabulary has {} pieces",
                scores.len()
            ));
        }
        let dictionary = Dictionary::new(pieces, |it| it as u32).map_err(|it| it.to_string())?;
        // Not f64::min: the library's comparison, though JSON has no value that the two see differently.
        let lowest = scores.iter().fold(f64::INFINITY, |a, &b| if b < a { b } else { a });
        Ok(Unigram {
            bytes: byte_fallback.then(|| Box::new(byte_tokens(&dictionary))),
            dictionary,
            unknown_score: lowest - UNKNOWN_PENALTY,
            scores,
            unknown: unknown.map(|id| id as u32),
        })
    }

    pub(super) fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    /// Pieces, repeated ones too: added tokens are numbered from here.
    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    /// Tokens without their text: only ids leave this module's parent.
    pub(super) fn tokenize(&self, text: &str) -> Result<Vec<Token>> {
        let best = self.best(text)?;
        let mut tokens = Vec::new();
        // Backwards. Neighbors that are unknown become one token.
        let mut end = text.len();
        let mut unknown_until = None;
        while end > 0 {
            let Best { start, id, .. } = best[end];
            if Some(id) == self.unknown {
                unknown_until.get_or_insert(end);
            } else {
                if let Some(until) = unknown_until.take() {
                    self.push_unknown(text, end..until, &mut tokens)?;
                }
                tokens.push(token(id, start as usize..end));
            }
            end = start as usize;
        }
        if let Some(until) = unknown_until {
            self.push_unknown(text, 0..until, &mut tokens)?;
        }
        tokens.reverse();
        Ok(tokens)
    }

    /// For each place in the text the best last piece.
    fn best(&self, text: &str) -> Result<Vec<Best>> {
        u32::try_from(text.len()).map_err(|_| "a word of more than 4 GiB")?;
        let mut best = vec![NOTHING; text.len() + 1];
        for (start, character) in text.char_indices() {
            let so_far = best[start].score;
            let mut offer = |length: usize, score: f64, id: u32| {
                let score = score + so_far;
                let place = &mut best[start + length];
                if place.start == NOTHING.start || score > place.score {
                    *place = Best { score, start: start as u32, id };
                    return true;
                }
                false
            };
            let mut is_known = false;
            for (length, id) in self.dictionary.prefixes(&text.as_bytes()[start..]) {
                offer(length, self.scores[id as usize], id);
                is_known |= length == character.len_utf8();
            }
            if !is_known {
                let id = self.unknown.unwrap_or(0);
                let chosen = offer(character.len_utf8(), self.unknown_score, id);
                if chosen && self.unknown.is_none() {
                    return Err(no_unknown());
                }
            }
        }
        Ok(best)
    }

    /// What is unknown piece by piece can be known as a whole: it scores less, but it has an id.
    fn push_unknown(
        &self,
        text: &str,
        range: std::ops::Range<usize>,
        tokens: &mut Vec<Token>,
    ) -> Result<()> {
        let unknown = &text.as_bytes()[range.clone()];
        if let Some(id) = self.dictionary.get(unknown) {
            tokens.push(token(id, range));
            return Ok(());
        }
        if let Some(bytes) = &self.bytes {
            let all: Option<Vec<u32>> =
                unknown.iter().rev().map(|&byte| bytes[byte as usize]).collect();
            if let Some(all) = all {
                tokens.extend(all.into_iter().map(|id| token(id, range.clone())));
                return Ok(());
            }
        }
        tokens.push(token(self.unknown.ok_or_else(no_unknown)?, range));
        Ok(())
    }
}

fn no_unknown() -> tokenizers::Error {
    "a character is unknown, and the vocabulary has no piece for what is unknown".into()
}

/// The tokens `<0x00>` to `<0xFF>`.
pub(super) fn byte_tokens(dictionary: &Dictionary) -> [Option<u32>; 256] {
    std::array::from_fn(|byte| dictionary.get(format!("<0x{byte:02X}>").as_bytes()))
}

/// A token without its text, which would be an allocation that nobody reads.
pub(super) fn token(id: u32, range: std::ops::Range<usize>) -> Token {
    Token::new(id, String::new(), (range.start, range.end))
}
