//! How much worse what is shown is than the best of what it was made from, and how sure that is.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Measures, Stage};

/// Draws of the bootstrap: the interval's ends move by a hundredth of its width from seed to seed.
const DRAWS: usize = 2000;

/// Seed of the draws: the same measurements have the same interval.
const SEED: u64 = 24;

/// Places among ten, and one for what is not among them.
const NOT_FOUND: f64 = 11.0;

/// What is shown, beside its inputs, on one set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Regret {
    /// The input with the best nDCG@10.
    pub best: Stage,
    /// nDCG@10 of what is shown less that of the best input: below 0 where somebody would have done better without.
    pub value: f64,
    /// 2.5 % and 97.5 % of the value when questions are drawn anew with replacement, the same ones for all lists
    /// (paired bootstrap). The best input is that of each draw: which one is best is a part of the doubt.
    pub interval: (f64, f64),
    /// Share of the questions whose first relevant document stands more than one place further back than in the best
    /// input; one that is not among the first ten stands in the eleventh.
    pub losing: f64,
    /// How many questions that are.
    pub lost: usize,
}

impl Regret {
    /// Of questions that were measured in the same order; `None` without inputs or questions.
    pub(super) fn of(shown: &[Measures], inputs: &BTreeMap<Stage, &[Measures]>) -> Option<Regret> {
        let n = shown.len();
        if n == 0 || inputs.is_empty() || inputs.values().any(|it| it.len() != n) {
            return None;
        }
        let all: Vec<usize> = (0..n).collect();
        let mean = |of: &[Measures], drawn: &[usize]| {
            drawn.iter().map(|&it| of[it].ndcg_10).sum::<f64>() / n as f64
        };
        let value = |drawn: &[usize]| {
            let best = inputs.values().map(|it| mean(it, drawn)).fold(f64::NEG_INFINITY, f64::max);
            mean(shown, drawn) - best
        };
        // Of equal inputs the simplest.
        let (&best, best_list) =
            inputs.iter().rev().max_by(|a, b| mean(a.1, &all).total_cmp(&mean(b.1, &all)))?;
        let mut random = SEED;
        let mut values: Vec<f64> = (0..DRAWS)
            .map(|_| {
                let drawn: Vec<usize> = (0..n).map(|_| below(&mut random, n)).collect();
                value(&drawn)
            })
            .collect();
        values.sort_unstable_by(f64::total_cmp);
        let lost = shown.iter().zip(*best_list).filter(|(a, b)| place(a) > place(b) + 1.5).count();
        Some(Regret {
            best,
            value: value(&all),
            interval: (values[DRAWS * 25 / 1000], values[DRAWS * 975 / 1000 - 1]),
            losing: lost as f64 / n as f64,
            lost,
        })
    }
}

/// Place of the first relevant document.
fn place(of: &Measures) -> f64 {
    if of.mrr_10 > 0.0 { 1.0 / of.mrr_10 } else { NOT_FOUND }
}

/// A number below `n` that looks random and is the same every time (splitmix64).
fn below(state: &mut u64, n: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    // The upper half of a product with 2⁶⁴ evenly spread numbers: as even as anybody can tell for small `n`.
    ((u128::from(z ^ (z >> 31)) * n as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(ndcg: &[f64]) -> Vec<Measures> {
        // The reciprocal rank of a single relevant document in that place.
        let of = |&ndcg: &f64| Measures { ndcg_10: ndcg, mrr_10: ndcg, ..Measures::default() };
        ndcg.iter().map(of).collect()
    }

    #[test]
    fn the_best_input_is_compared_with_and_losses_of_a_place_are_none() {
        let (shown, bm25, dense) = (
            list(&[1.0, 0.5, 0.25, 0.0]),
            list(&[1.0, 1.0, 1.0, 0.5]),
            list(&[0.0, 0.0, 0.0, 1.0]),
        );
        let inputs = BTreeMap::from([(Stage::Bm25, &bm25[..]), (Stage::Dense, &dense[..])]);
        let regret = Regret::of(&shown, &inputs).expect("a figure");
        assert_eq!((regret.best, regret.value), (Stage::Bm25, 0.4375 - 0.875));
        // From the first place to the second is one; from the first to the fourth, and out of the ten, is more.
        assert_eq!((regret.losing, regret.lost), (0.5, 2));
        assert!(regret.interval.0 < regret.value && regret.value < regret.interval.1);
        assert_eq!(Regret::of(&shown, &inputs), Some(regret), "the same every time");
        assert_eq!(Regret::of(&shown, &BTreeMap::new()), None);
        assert_eq!(Regret::of(&[], &BTreeMap::from([(Stage::Bm25, &[][..])])), None);
    }

    #[test]
    fn of_equal_inputs_the_simplest_is_named() {
        let one = list(&[0.5, 0.5]);
        let inputs = BTreeMap::from([(Stage::Dense, &one[..]), (Stage::Bm25, &one[..])]);
        assert_eq!(Regret::of(&one, &inputs).expect("a figure").best, Stage::Bm25);
    }

    proptest! {
        /// Where every question loses the same, there is no doubt.
        #[test]
        fn what_holds_for_every_question_is_certain(
            scores in prop::collection::vec(0.2f64..0.8, 1..30), less in -0.1f64..0.1,
        ) {
            let (input, shown) =
                (list(&scores), list(&scores.iter().map(|it| it + less).collect::<Vec<_>>()));
            let regret =
                Regret::of(&shown, &BTreeMap::from([(Stage::Rrf, &input[..])])).expect("a figure");
            for bound in [regret.interval.0, regret.value, regret.interval.1] {
                prop_assert!((bound - less).abs() < 1e-9, "{regret:?}");
            }
        }

        #[test]
        fn draws_are_below_and_reach_all(n in 1usize..20, seed in any::<u64>()) {
            let mut state = seed;
            let drawn: std::collections::HashSet<usize> =
                (0..n * 40).map(|_| below(&mut state, n)).collect();
            prop_assert!(drawn.iter().all(|it| *it < n) && drawn.len() == n);
        }
    }
}
