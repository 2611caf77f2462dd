//! Reciprocal rank fusion (Cormack, Clarke, Büttcher 2009).

use std::collections::HashMap;

use riddle_types::{ChunkId, Hit};

/// The constant of the paper: large enough that the first ranks of one list do not drown the others.
pub const RRF_K: f32 = 60.0;

/// A retriever's list.
#[derive(Debug, Clone, Copy)]
pub struct RankedList<'a> {
    /// Its hits, best first.
    pub hits: &'a [Hit],
    /// How much it counts; 1 for equals.
    pub weight: f32,
}

/// A chunk after fusion.
#[derive(Debug, Clone, PartialEq)]
pub struct Fused {
    /// Which chunk.
    pub chunk: ChunkId,
    /// Sum of weight / (k + rank) over the lists that hold it.
    pub score: f32,
    /// Its rank in each list, in the order the lists were given.
    pub ranks: Vec<Option<u32>>,
}

/// Merges ranked lists; the best `limit` by fused score, ties by best single rank, then by chunk.
pub fn fuse(lists: &[RankedList<'_>], k: f32, limit: usize) -> Vec<Fused> {
    let mut merged: HashMap<ChunkId, Fused> = HashMap::new();
    for (place, list) in lists.iter().enumerate() {
        for hit in list.hits {
            let fused = merged.entry(hit.chunk).or_insert_with(|| Fused {
                chunk: hit.chunk,
                score: 0.0,
                ranks: vec![None; lists.len()],
            });
            // A list that names a chunk twice counts its better rank.
            if fused.ranks[place].is_none() {
                fused.ranks[place] = Some(hit.rank);
                fused.score += list.weight / (k + hit.rank as f32);
            }
        }
    }
    let best = |it: &Fused| it.ranks.iter().flatten().min().copied();
    let mut all: Vec<Fused> = merged.into_values().collect();
    all.sort_by(|a, b| {
        b.score.total_cmp(&a.score).then(best(a).cmp(&best(b))).then(a.chunk.cmp(&b.chunk))
    });
    all.truncate(limit);
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(chunks: &[u64]) -> Vec<Hit> {
        chunks
            .iter()
            .zip(1..)
            .map(|(&chunk, rank)| Hit { chunk: ChunkId(chunk), score: 0.0, rank })
            .collect()
    }

    #[test]
    fn agreement_beats_a_single_first_place() {
        let (a, b) = (list(&[1, 2, 3]), list(&[4, 2, 5]));
        let lists = [RankedList { hits: &a, weight: 1.0 }, RankedList { hits: &b, weight: 1.0 }];
        let fused = fuse(&lists, RRF_K, 3);
        assert_eq!(fused.iter().map(|it| it.chunk.0).collect::<Vec<_>>(), [2, 1, 4]);
        assert_eq!(fused[0].ranks, [Some(2), Some(2)]);
    }

    proptest! {
        #[test]
        fn scores_are_the_definition(a in prop::collection::vec(0u64..9, 0..8), b in prop::collection::vec(0u64..9, 0..8)) {
            let unique = |mut it: Vec<u64>| {
                let mut seen = std::collections::HashSet::new();
                it.retain(|x| seen.insert(*x));
                it
            };
            let (a, b) = (list(&unique(a)), list(&unique(b)));
            let lists = [RankedList { hits: &a, weight: 1.0 }, RankedList { hits: &b, weight: 0.5 }];
            for fused in fuse(&lists, RRF_K, 99) {
                let part = |hits: &[Hit], weight: f32| {
                    hits.iter().find(|it| it.chunk == fused.chunk).map_or(0.0, |it| weight / (60.0 + it.rank as f32))
                };
                prop_assert!((fused.score - part(&a, 1.0) - part(&b, 0.5)).abs() < 1e-6);
            }
        }
    }
}
