//! A prompt as tokens, and where what was read of it may be kept.

use std::ops::Range;

use riddle_types::ChunkId;

/// A prompt. What its tokens are and where it is cut depends on the request and the model alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Segments {
    pub(crate) tokens: Vec<u32>,
    /// Those from the beginning on that other prompts may begin with, too: the rules, then passage after passage. What
    /// follows them is the question.
    pub(crate) shared: Vec<Segment>,
}

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) tokens: Range<usize>,
    /// What it was made of.
    pub(crate) chunk: Option<ChunkId>,
}

impl Segments {
    /// A prompt that is cut at `borders`, behind each of which but the last a chunk begins.
    pub(crate) fn new(tokens: Vec<u32>, borders: &[usize], chunks: &[Option<ChunkId>]) -> Segments {
        let mut shared = Vec::with_capacity(borders.len());
        let mut start = 0;
        let chunks =
            std::iter::once(None).chain(chunks.iter().copied()).chain(std::iter::repeat(None));
        for (&border, chunk) in borders.iter().zip(chunks) {
            if border > start {
                shared.push(Segment { tokens: start..border, chunk });
            }
            start = border.max(start);
        }
        Segments { tokens, shared }
    }

    /// The tokens of the shared segments.
    pub(crate) fn path(&self) -> Vec<&[u32]> {
        self.shared.iter().map(|it| &self.tokens[it.tokens.clone()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_follow_each_other_and_none_is_empty() {
        let chunks = [Some(ChunkId(7)), Some(ChunkId(8))];
        let prompt = Segments::new((0..10).collect(), &[3, 5, 9], &chunks);
        let segment = |tokens, chunk| Segment { tokens, chunk };
        assert_eq!(
            prompt.shared,
            [segment(0..3, None), segment(3..5, chunks[0]), segment(5..9, chunks[1])]
        );
        assert_eq!(prompt.path(), [&[0u32, 1, 2][..], &[3, 4], &[5, 6, 7, 8]]);
        let bare = Segments::new(vec![1, 2], &[0], &[]);
        assert!(bare.shared.is_empty());
    }
}
