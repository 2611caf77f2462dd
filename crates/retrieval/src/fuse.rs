//! Fusion of what two retrievers found: by scores where they can be read, by reciprocal ranks (Cormack, Clarke,
//! Büttcher 2009) where not.
//!
//! Scores say more than ranks: whether a first place is a clear one, and whether the second retriever has an opinion at
//! all. A convex sum of normalized scores ranks better than reciprocal ranks, and needs few questions to be fitted
//! (Bruch, Gai, Ingber 2023, "An Analysis of Fusion Functions for Hybrid Retrieval").

use std::collections::HashMap;

use riddle_types::{ChunkId, Hit};
use serde::Deserialize;

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

/// What the retrievers' scores say of a candidate.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Evidence {
    /// Its BM25 score as a share of the best one of this query, 0 to 1: 0 where keywords did not find it. To it comes
    /// the [nearness](crate::nearness) of the query's words, 0 to 1, where the passage is known. `None` where nobody
    /// asked the keywords.
    pub keyword: Option<f32>,
    /// Cosine of its vector and the query's; `None` where it has none.
    pub cosine: Option<f32>,
    /// Its score by learned sparse vectors as a share of the best one of this query, 0 to 1; `None` where nobody has
    /// weighed its terms or the query's.
    pub sparse: Option<f32>,
}

/// How much each kind of evidence counts beside a share of the best BM25 score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// The cosine.
    pub cosine: CosineScale,
    /// The share of the best score by learned sparse vectors.
    pub sparse: f32,
}

/// How far the cosines of a query can be trusted, told by the best of them: what an embedder has never read, such as
/// names and numbers, is about equally far from everything, and there the words decide.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Trust {
    /// Best cosine of an ordinary query, for which nothing changes.
    pub usual: f32,
    /// Natural logarithm of the factor of cosines, per unit by which the best one is above that.
    pub rate: f32,
}

impl Trust {
    /// How much is trusted at most and at least, as distances from the usual cosine.
    const REACH: (f32, f32) = (-0.25, 0.2);

    /// Factors of a cosine and of a keyword share where this is the best cosine: `exp(rate × d)` and `exp(−rate × d /
    /// 2)`, `d` being its distance from the usual one.
    pub fn factors(self, best: f32) -> (f32, f32) {
        let distance = if best.is_finite() { best - self.usual } else { 0.0 };
        let exponent = self.rate * distance.clamp(Self::REACH.0, Self::REACH.1);
        (exponent.exp(), (-exponent / 2.0).exp())
    }
}

/// How cosines become comparable with shares of the best BM25 score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CosineScale {
    /// The sum's weight of a cosine as it is, for an embedder whose cosines are known, and how far they are trusted.
    Known(f32, Trust),
    /// Cosines are spread over 0 to 1 between the smallest and the largest of the candidates, and count this much:
    /// what is 0.7 to one embedder is 0.3 to another.
    Spread(f32),
}

/// Shares of the best score, by chunk. The best is that of `hits`, so the list has to begin with it.
pub fn shares(hits: &[Hit]) -> HashMap<ChunkId, f32> {
    let best = hits.iter().map(|it| it.score).fold(0.0, f32::max);
    hits.iter()
        .map(|it| (it.chunk, if best > 0.0 { (it.score / best).max(0.0) } else { 0.0 }))
        .collect()
}

/// Mean of the numbers that are known; 0 where none is.
pub fn mean_of_known(values: impl Iterator<Item = Option<f32>>) -> f32 {
    let (mut sum, mut count) = (0.0, 0usize);
    for value in values.flatten().filter(|it| it.is_finite()) {
        sum += value;
        count += 1;
    }
    sum / count.max(1) as f32
}

/// Puts candidates in the order of `keyword share + weight × cosine + weight × sparse share` and writes that sum into
/// their scores; ties stay as they are. [`Trust`] weighs the first two anew for each query. A candidate without a
/// vector counts with the mean of the others, and so does one without weights of terms: it is not known to be worse.
///
/// `evidence` belongs to `fused`, place by place, and moves with it.
pub fn order_by_score(fused: &mut [Fused], evidence: &mut [Evidence], scale: Scale) {
    debug_assert_eq!(fused.len(), evidence.len());
    let known = || evidence.iter().filter_map(|it| it.cosine).filter(|it| it.is_finite());
    let mean = mean_of_known(evidence.iter().map(|it| it.cosine));
    let low = known().fold(f32::INFINITY, f32::min);
    let high = known().fold(f32::NEG_INFINITY, f32::max);
    let (trust, trust_in_words) = match scale.cosine {
        CosineScale::Known(_, trust) => trust.factors(high),
        CosineScale::Spread(_) => (1.0, 1.0),
    };
    let meaning = |cosine: Option<f32>| {
        let cosine = cosine.filter(|it| it.is_finite()).unwrap_or(mean);
        match scale.cosine {
            CosineScale::Known(weight, _) => weight * trust * cosine,
            CosineScale::Spread(weight) if high > low => weight * (cosine - low) / (high - low),
            CosineScale::Spread(_) => 0.0,
        }
    };
    let mean_share = mean_of_known(evidence.iter().map(|it| it.sparse));
    for (fused, evidence) in fused.iter_mut().zip(evidence.iter()) {
        let share = evidence.sparse.filter(|it| it.is_finite()).unwrap_or(mean_share);
        let words = trust_in_words * evidence.keyword.unwrap_or(0.0);
        fused.score = words + meaning(evidence.cosine) + scale.sparse * share;
    }
    let mut places: Vec<usize> = (0..fused.len()).collect();
    places.sort_by(|&a, &b| fused[b].score.total_cmp(&fused[a].score));
    let (former, facts) = (fused.to_vec(), evidence.to_vec());
    for (place, &from) in places.iter().enumerate() {
        fused[place] = former[from].clone();
        evidence[place] = facts[from];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EVEN: Trust = Trust { usual: 0.0, rate: 0.0 };

    const KNOWN: CosineScale = CosineScale::Known(1.5, EVEN);

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

    fn candidates(facts: &[(f32, Option<f32>)]) -> (Vec<Fused>, Vec<Evidence>) {
        let fused = (0..facts.len() as u64)
            .map(|chunk| Fused { chunk: ChunkId(chunk), score: 0.0, ranks: Vec::new() })
            .collect();
        let evidence = facts.iter().map(|&(keyword, cosine)| Evidence {
            keyword: Some(keyword),
            cosine,
            sparse: None,
        });
        (fused, evidence.collect())
    }

    fn order(facts: &[(f32, Option<f32>)], scale: CosineScale) -> Vec<u64> {
        let (mut fused, mut evidence) = candidates(facts);
        order_by_score(&mut fused, &mut evidence, Scale { cosine: scale, sparse: 1.0 });
        for (fused, evidence) in fused.iter().zip(&evidence) {
            let (keyword, cosine) = facts[fused.chunk.0 as usize];
            assert_eq!((Some(keyword), cosine), (evidence.keyword, evidence.cosine));
        }
        fused.iter().map(|it| it.chunk.0).collect()
    }

    #[test]
    fn a_clear_first_place_is_kept_where_reciprocal_ranks_would_lose_it() {
        // Found by keywords alone, far ahead of the others, which both lists hold somewhere.
        let facts = [(1.0, Some(0.1)), (0.3, Some(0.3)), (0.25, Some(0.35))];
        assert_eq!(order(&facts, KNOWN)[0], 0);
    }

    #[test]
    fn a_passage_without_a_vector_is_an_average_one() {
        let facts = [(0.5, Some(0.6)), (0.5, None), (0.5, Some(0.2))];
        for scale in [KNOWN, CosineScale::Spread(0.5)] {
            assert_eq!(order(&facts, scale), [0, 1, 2]);
        }
        // Nothing to spread, or nothing known: keywords alone.
        assert_eq!(order(&[(0.2, None), (0.9, None)], KNOWN), [1, 0]);
        assert_eq!(order(&[(0.2, Some(0.4)), (0.9, Some(0.4))], CosineScale::Spread(0.5)), [1, 0]);
        assert_eq!(order(&[], CosineScale::Spread(0.5)), [] as [u64; 0]);
    }

    #[test]
    fn words_decide_where_the_embedder_finds_all_equally_far_away() {
        let trusted = CosineScale::Known(1.5, Trust { usual: 0.6, rate: 3.0 });
        let near = [(0.6, Some(0.60)), (0.9, Some(0.39))];
        let far = near.map(|(share, cosine)| (share, cosine.map(|it| it - 0.25)));
        assert_eq!((order(&near, trusted), order(&far, trusted)), (vec![0, 1], vec![1, 0]));
        assert_eq!((order(&near, KNOWN), order(&far, KNOWN)), (vec![0, 1], vec![0, 1]));
        let trust = Trust { usual: 0.6, rate: 3.0 };
        assert_eq!(trust.factors(0.6), (1.0, 1.0));
        assert_eq!(trust.factors(f32::NEG_INFINITY), (1.0, 1.0));
        assert_eq!(trust.factors(-0.9), trust.factors(0.35));
        let (cosine, share) = trust.factors(0.7);
        assert!((cosine - 1.35).abs() < 1e-3 && (share - 0.861).abs() < 1e-3, "{cosine} {share}");
    }

    #[test]
    fn weighed_terms_count_and_a_passage_without_is_an_average_one() {
        let evidence = |sparse| Evidence { keyword: Some(0.5), cosine: Some(0.5), sparse };
        let mut evidence = [Some(0.2), None, Some(1.0), Some(f32::NAN)].map(evidence);
        let (mut fused, _) = candidates(&[(0.0, None); 4]);
        let scale = Scale { cosine: CosineScale::Known(1.0, EVEN), sparse: 2.0 };
        order_by_score(&mut fused, &mut evidence, scale);
        assert_eq!(fused.iter().map(|it| it.chunk.0).collect::<Vec<_>>(), [2, 1, 3, 0]);
        assert!((fused[0].score - 3.0).abs() < 1e-6 && (fused[1].score - 2.2).abs() < 1e-6);
    }

    #[test]
    fn shares_are_of_the_best() {
        let hits = [(7, 12.0), (9, 3.0)].map(|(chunk, score)| Hit {
            chunk: ChunkId(chunk),
            score,
            rank: 1,
        });
        let found = shares(&hits);
        assert_eq!((found[&ChunkId(7)], found[&ChunkId(9)]), (1.0, 0.25));
        assert!(shares(&[]).is_empty());
    }

    proptest! {
        /// Another embedder's cosines are another line through the same points: a spread does not see which.
        #[test]
        fn a_spread_knows_no_unit(
            facts in prop::collection::vec((0u8..5, 0u8..20), 1..12), slope in 1u8..5, start in 0u8..5,
        ) {
            let plain: Vec<_> =
                facts.iter().map(|it| (f32::from(it.0) / 4.0, Some(f32::from(it.1) / 32.0))).collect();
            let other: Vec<_> = facts
                .iter()
                .map(|it| (f32::from(it.0) / 4.0, Some((f32::from(it.1) * f32::from(slope) + f32::from(start)) / 256.0)))
                .collect();
            let score = |facts: &[(f32, Option<f32>)]| {
                let (mut fused, mut evidence) = candidates(facts);
                order_by_score(&mut fused, &mut evidence, Scale { cosine: CosineScale::Spread(0.5), sparse: 1.0 });
                let mut scores: Vec<(u64, f32)> = fused.iter().map(|it| (it.chunk.0, it.score)).collect();
                scores.sort_by_key(|it| it.0);
                scores
            };
            for (a, b) in score(&plain).iter().zip(score(&other)) {
                prop_assert!((a.1 - b.1).abs() < 1e-4, "{a:?} {b:?}");
            }
        }

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
