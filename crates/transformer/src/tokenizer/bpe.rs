//! Byte pair encoding: a word's characters, of which the pair that was learned first is merged until none is left.
//!
//! Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units" (ACL 2016),
//! section 3.2, with a priority queue over a linked list, so that a word of a hundred thousand characters takes
//! n log n steps. Order and special cases are those of the `tokenizers` library, the naive twin in the tests.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use tokenizers::{Result, Token};

use super::{
    dictionary::{Dictionary, Pieces},
    unigram::{byte_tokens, token},
};

/// No symbol: before the first, after the last.
const NONE: u32 = u32::MAX;

/// The token that a pair of tokens is merged into.
#[derive(Debug, Clone, Copy)]
struct Merge {
    /// Lower is merged earlier.
    rank: u32,
    id: u32,
}

/// Part of a word that is one token, in a linked list.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    id: u32,
    previous: u32,
    next: u32,
    /// Bytes of the word; none when the symbol before has taken it in.
    len: u32,
}

/// The switches of a file.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) unknown: Option<String>,
    pub(super) fuse_unknown: bool,
    pub(super) byte_fallback: bool,
    pub(super) ignore_merges: bool,
}

/// A model of byte pair encoding, without dropout and without marks at the ends of words.
#[derive(Debug)]
pub(super) struct Bpe {
    dictionary: Dictionary,
    merges: HashMap<(u32, u32), Merge>,
    options: Options,
    /// The id of `options.unknown`, which nothing forces to be in the vocabulary.
    unknown: Option<u32>,
    /// Tokens of single bytes for characters without one. Absent as a whole where it is not wished.
    bytes: Option<Box<[Option<u32>; 256]>>,
}

impl Bpe {
    /// `merges` are pairs: the left part of the first, its right part, the left part of the second …
    pub(super) fn new(
        pieces: Pieces,
        ids: Vec<u32>,
        merges: &Pieces,
        options: Options,
    ) -> std::result::Result<Bpe, String> {
        let dictionary = Dictionary::new(&pieces, |it| ids[it]).map_err(|it| it.to_string())?;
        drop((pieces, ids));
        let id = |first: &[u8], second: &[u8]| {
            dictionary.get_joined(first, second).ok_or_else(|| {
                let token = [first, second].concat();
                format!(
                    "one of its merges needs a token {:?}, which its vocabulary lacks",
                    String::from_utf8_lossy(&token)
                )
            })
        };
        // Real files have less merges than tokens; one with the same merge a million times is no reason to
        // reserve for a million.
        let mut table = HashMap::with_capacity((merges.len() / 2).min(dictionary.len()));
        for rank in 0..merges.len() / 2 {
            let (left, right) = (merges.get(2 * rank), merges.get(2 * rank + 1));
            let merge = Merge { rank: rank as u32, id: id(left, right)? };
            table.insert((id(left, &[])?, id(right, &[])?), merge);
        }
        Ok(Bpe {
            unknown: options.unknown.as_ref().and_then(|it| dictionary.get(it.as_bytes())),
            bytes: options.byte_fallback.then(|| Box::new(byte_tokens(&dictionary))),
            dictionary,
            merges: table,
            options,
        })
    }

    pub(super) fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    /// Tokens without their text: only ids leave this module's parent.
    pub(super) fn tokenize(&self, word: &str) -> Result<Vec<Token>> {
        if word.is_empty() {
            return Ok(Vec::new());
        }
        if self.options.ignore_merges
            && let Some(id) = self.dictionary.get(word.as_bytes())
        {
            return Ok(vec![token(id, 0..word.len())]);
        }
        let mut symbols = self.symbols(word)?;
        self.merge(&mut symbols);
        let mut end = 0;
        let tokens = symbols.iter().filter(|it| it.len > 0).map(|symbol| {
            let start = end;
            end += symbol.len as usize;
            token(symbol.id, start..end)
        });
        Ok(tokens.collect())
    }

    /// The word's characters.
    fn symbols(&self, word: &str) -> Result<Vec<Symbol>> {
        u32::try_from(word.len()).map_err(|_| "a word of more than 4 GiB")?;
        let mut symbols = Vec::with_capacity(word.len());
        // Length of what is unknown and not added yet, since more of it may follow.
        let mut unknown: Option<u32> = None;
        let mut buffer = [0; 4];
        for character in word.chars() {
            let character = character.encode_utf8(&mut buffer).as_bytes();
            let len = character.len() as u32;
            if let Some(id) = self.dictionary.get(character) {
                if let Some(len) = unknown.take() {
                    push(&mut symbols, self.unknown()?, len);
                }
                push(&mut symbols, id, len);
            } else if let Some(ids) = self.bytes_of(character) {
                // Bytes come before an unknown character that is still pending, as in the library.
                ids.for_each(|id| push(&mut symbols, id, 1));
            } else if self.options.unknown.is_some() {
                unknown = match unknown {
                    Some(before) if self.options.fuse_unknown => Some(before + len),
                    Some(before) => {
                        push(&mut symbols, self.unknown()?, before);
                        Some(len)
                    }
                    None => {
                        self.unknown()?;
                        Some(len)
                    }
                };
            }
        }
        if let Some(len) = unknown {
            push(&mut symbols, self.unknown()?, len);
        }
        Ok(symbols)
    }

    pub(super) fn unknown_id(&self) -> Option<u32> {
        self.unknown
    }

    fn unknown(&self) -> Result<u32> {
        self.unknown.ok_or_else(|| {
            let name = self.options.unknown.as_deref().unwrap_or_default();
            format!("the vocabulary lacks its token for what is unknown, {name:?}").into()
        })
    }

    /// A character's bytes as tokens, when each of them is one.
    fn bytes_of<'a>(&'a self, character: &'a [u8]) -> Option<impl Iterator<Item = u32> + 'a> {
        let bytes = self.bytes.as_deref()?;
        let is_complete = character.iter().all(|&byte| bytes[byte as usize].is_some());
        is_complete.then(|| character.iter().filter_map(|&byte| bytes[byte as usize]))
    }

    fn merge(&self, symbols: &mut [Symbol]) {
        let candidate = |symbols: &[Symbol], at: u32| -> Option<Candidate> {
            let left = symbols[at as usize];
            let right = symbols.get(left.next as usize)?;
            let merge = self.merges.get(&(left.id, right.id))?;
            Some(Reverse((merge.rank, at, merge.id)))
        };
        let mut queue: BinaryHeap<Candidate> =
            (0..symbols.len() as u32).filter_map(|at| candidate(symbols, at)).collect();
        while let Some(Reverse((_, at, id))) = queue.pop() {
            let left = symbols[at as usize];
            if left.len == 0 {
                continue;
            }
            // Both sides may have changed since this was found.
            if candidate(symbols, at).is_none_or(|Reverse((_, _, now))| now != id) {
                continue;
            }
            let right = symbols[left.next as usize];
            symbols[left.next as usize].len = 0;
            symbols[at as usize] =
                Symbol { id, len: left.len + right.len, next: right.next, ..left };
            if let Some(after) = symbols.get_mut(right.next as usize) {
                after.previous = at;
            }
            if left.previous != NONE {
                queue.extend(candidate(symbols, left.previous));
            }
            queue.extend(candidate(symbols, at));
        }
    }
}

/// Rank, place of the left symbol, id of the token that the two become: the lowest rank first, then the leftmost.
type Candidate = Reverse<(u32, u32, u32)>;

fn push(symbols: &mut Vec<Symbol>, id: u32, len: u32) {
    let at = symbols.len() as u32;
    let previous = symbols.last_mut().map_or(NONE, |last| {
        last.next = at;
        at - 1
    });
    symbols.push(Symbol { id, previous, next: NONE, len });
}
