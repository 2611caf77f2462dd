//! SentencePiece's byte pair encoding: of all pairs of neighbors that are a token, the one with the best score is
//! merged until none is left; characters without a token become bytes.
//!
//! Kudo and Richardson, "SentencePiece" (EMNLP 2018), section 3.1, with a priority queue over a linked list.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use super::super::dictionary::Dictionary;

/// No symbol: before the first, after the last.
const NONE: usize = usize::MAX;

/// Tokens with scores, as GGUF has them under `llama`.
#[derive(Debug)]
pub(super) struct SentenceBpe {
    /// Tokens that text can become: neither control tokens nor those of single bytes.
    pub(super) dictionary: Dictionary,
    /// By id; all of them finite.
    pub(super) scores: Vec<f32>,
    pub(super) bytes: Box<[Option<u32>; 256]>,
    /// The token of characters whose bytes have no tokens.
    pub(super) unknown: Option<u32>,
}

/// Part of a text that is one token or one character, in a linked list.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    start: usize,
    /// Bytes; none when the symbol before has taken it in.
    len: usize,
    previous: usize,
    next: usize,
}

/// Two neighbors that are a token together: the better score first, then the leftmost.
struct Candidate {
    score: f32,
    left: usize,
    right: usize,
    /// Bytes of both, to tell whether either has changed since.
    len: usize,
}

impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        self.score.total_cmp(&other.score).then(Reverse(self.left).cmp(&Reverse(other.left)))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

impl SentenceBpe {
    /// Appends the tokens of `text`, whose spaces are `▁` already.
    pub(super) fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let mut symbols: Vec<Symbol> = text
            .char_indices()
            .enumerate()
            .map(|(at, (start, character))| Symbol {
                start,
                len: character.len_utf8(),
                previous: at.wrapping_sub(1),
                next: at + 1,
            })
            .collect();
        let Some(last) = symbols.last_mut() else { return };
        last.next = NONE;
        self.merge(text, &mut symbols);
        for symbol in symbols.iter().filter(|it| it.len > 0) {
            self.push(&text.as_bytes()[symbol.start..symbol.start + symbol.len], out);
        }
    }

    fn merge(&self, text: &str, symbols: &mut [Symbol]) {
        let candidate = |symbols: &[Symbol], left: usize, right: usize| {
            if left == NONE || right == NONE {
                return None;
            }
            let (start, len) = (symbols[left].start, symbols[left].len + symbols[right].len);
            let id = self.dictionary.get(&text.as_bytes()[start..start + len])?;
            Some(Candidate { score: self.scores[id as usize], left, right, len })
        };
        let mut queue: BinaryHeap<Candidate> =
            (1..symbols.len()).filter_map(|at| candidate(symbols, at - 1, at)).collect();
        while let Some(Candidate { left, right, len, .. }) = queue.pop() {
            let (first, second) = (symbols[left], symbols[right]);
            if first.len == 0 || second.len == 0 || first.len + second.len != len {
                continue;
            }
            symbols[right].len = 0;
            symbols[left] = Symbol { len, next: second.next, ..first };
            if second.next != NONE {
                symbols[second.next].previous = left;
            }
            queue.extend(candidate(symbols, first.previous, left));
            queue.extend(candidate(symbols, left, second.next));
        }
    }

    fn push(&self, symbol: &[u8], out: &mut Vec<u32>) {
        if let Some(id) = self.dictionary.get(symbol) {
            return out.push(id);
        }
        let bytes: Option<Vec<u32>> = symbol.iter().map(|it| self.bytes[*it as usize]).collect();
        match bytes {
            Some(bytes) => out.extend(bytes),
            None => out.extend(self.unknown),
        }
    }
}
