//! Measures of a ranked list against graded judgments, as trec_eval defines them.
//!
//! A document counts once, at its first place; a document without a judgment is not relevant; a grade of
//! 0 or less is judged and not relevant.

use std::collections::HashMap;

use serde::Serialize;

/// Grades of the judged documents of one query, by document id.
pub type Judgments = HashMap<String, i64>;

/// Quality of one ranked list, or the mean over queries. All values are 0…1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Measures {
    /// Normalized discounted cumulative gain of the first ten. The gain is the grade itself and the
    /// discount log₂(rank + 1), as trec_eval's `ndcg_cut` has it.
    #[serde(rename = "ndcg@10")]
    pub ndcg_10: f64,
    /// Reciprocal rank of the first relevant document among the first ten, else 0.
    #[serde(rename = "mrr@10")]
    pub mrr_10: f64,
    /// Share of the relevant documents among the first ten.
    #[serde(rename = "recall@10")]
    pub recall_10: f64,
    /// Share of the relevant documents among the first hundred.
    #[serde(rename = "recall@100")]
    pub recall_100: f64,
    /// Whether the first document is relevant.
    #[serde(rename = "p@1")]
    pub precision_1: f64,
    /// Relevant documents among the first five, divided by five.
    #[serde(rename = "p@5")]
    pub precision_5: f64,
    /// Relevant documents among the first ten, divided by ten.
    #[serde(rename = "p@10")]
    pub precision_10: f64,
}

impl Measures {
    /// Measures `ranking` (document ids, best first) against the judgments of its query.
    pub fn of<S: AsRef<str>>(ranking: &[S], judgments: &Judgments) -> Measures {
        let gains = gains(ranking, judgments);
        let relevant = judgments.values().filter(|&&grade| grade > 0).count();
        let found = |depth: usize| gains.iter().take(depth).filter(|&&gain| gain > 0.0).count();
        let recall = |depth: usize| ratio(found(depth), relevant);
        let precision = |depth: usize| ratio(found(depth), depth);
        let first = gains.iter().take(10).position(|&gain| gain > 0.0);
        Measures {
            ndcg_10: ndcg(&gains, judgments, 10),
            mrr_10: first.map_or(0.0, |index| 1.0 / (index + 1) as f64),
            recall_10: recall(10),
            recall_100: recall(100),
            precision_1: precision(1),
            precision_5: precision(5),
            precision_10: precision(10),
        }
    }

    /// Mean over queries; zeros without any.
    pub fn mean(of: &[Measures]) -> Measures {
        let mean = |field: fn(&Measures) -> f64| {
            if of.is_empty() { 0.0 } else { of.iter().map(field).sum::<f64>() / of.len() as f64 }
        };
        Measures {
            ndcg_10: mean(|it| it.ndcg_10),
            mrr_10: mean(|it| it.mrr_10),
            recall_10: mean(|it| it.recall_10),
            recall_100: mean(|it| it.recall_100),
            precision_1: mean(|it| it.precision_1),
            precision_5: mean(|it| it.precision_5),
            precision_10: mean(|it| it.precision_10),
        }
    }
}

/// Latency over queries, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Half of the queries were at most this slow.
    pub p50: f64,
    /// 95 of 100 queries were at most this slow.
    pub p95: f64,
}

impl Latency {
    /// Percentiles by nearest rank: always a time that was really measured. `None` without times.
    pub fn of(times_ms: &[f64]) -> Option<Latency> {
        let mut sorted = times_ms.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        // ⌈p · n⌉ in whole numbers: no rounding decides about a rank.
        let at = |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).max(1) - 1);
        Some(Latency { p50: *at(50)?, p95: *at(95)? })
    }
}

/// Ids without their repetitions, in order of first occurrence.
pub(crate) fn distinct<S: AsRef<str>>(ids: impl IntoIterator<Item = S>) -> Vec<S> {
    let mut seen = std::collections::HashSet::new();
    ids.into_iter().filter(|id| seen.insert(id.as_ref().to_owned())).collect()
}

/// Gain at each place; a repeated document takes no place.
fn gains<S: AsRef<str>>(ranking: &[S], judgments: &Judgments) -> Vec<f64> {
    distinct(ranking.iter().map(AsRef::as_ref))
        .into_iter()
        .map(|id| judgments.get(id).map_or(0.0, |&grade| grade.max(0) as f64))
        .collect()
}

fn ndcg(gains: &[f64], judgments: &Judgments, depth: usize) -> f64 {
    let mut ideal: Vec<f64> = judgments.values().map(|&grade| grade.max(0) as f64).collect();
    ideal.sort_unstable_by(|a, b| b.total_cmp(a));
    let best = dcg(&ideal, depth);
    if best > 0.0 { dcg(gains, depth) / best } else { 0.0 }
}

fn dcg(gains: &[f64], depth: usize) -> f64 {
    let discounted = |(index, gain): (usize, &f64)| gain / ((index + 2) as f64).log2();
    // Not `sum()`: that of nothing is −0.0, which is printed with its sign.
    gains.iter().take(depth).enumerate().map(discounted).fold(0.0, |sum, it| sum + it)
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_found_is_zero_without_a_sign() {
        let measures = Measures::of::<&str>(&[], &judgments(&[("a", 1)]));
        assert!(measures.ndcg_10.is_sign_positive());
    }

    fn judgments(pairs: &[(&str, i64)]) -> Judgments {
        pairs.iter().map(|&(id, grade)| (id.to_owned(), grade)).collect()
    }

    fn ids(list: &str) -> Vec<&str> {
        list.split_whitespace().collect()
    }

    fn graded() -> Judgments {
        (0..14).map(|i| (format!("k{i}"), 1 + i % 3)).collect()
    }

    /// Values of trec_eval 9 (through pytrec_eval) on the same lists.
    #[test]
    fn equal_to_trec_eval() {
        #[rustfmt::skip]
        let cases = [
            ("c b z1 a z2 z3 d z4", judgments(&[("a", 2), ("b", 1), ("c", 0), ("d", 3), ("x", 1)]), [0.4799741086852559, 0.5, 0.75, 0.75, 0.0, 0.4, 0.3]),
            ("z1 z2 z3 z4 z5 z6 z7 z8 z9 z10 a", judgments(&[("a", 1)]), [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
            ("k5 z1 k0 k7 z2 z3 k13 k1 z4 k2 k3 z5 k4", graded(), [0.5745016948178424, 1.0, 0.42857142857142855, 0.5714285714285714, 1.0, 0.6, 0.6]),
        ];
        for (list, judgments, [ndcg, mrr, r10, r100, p1, p5, p10]) in cases {
            let got = Measures::of(&ids(list), &judgments);
            let pairs = [
                (got.ndcg_10, ndcg),
                (got.mrr_10, mrr),
                (got.recall_10, r10),
                (got.recall_100, r100),
                (got.precision_1, p1),
                (got.precision_5, p5),
                (got.precision_10, p10),
            ];
            for (mine, theirs) in pairs {
                assert!((mine - theirs).abs() < 1e-12, "{list}: {mine} is not {theirs} in {got:?}");
            }
        }
    }

    #[test]
    fn by_hand() {
        // One of two relevant documents, in second place.
        let got = Measures::of(&["x", "a"], &judgments(&[("a", 1), ("b", 1)]));
        let gain = 1.0 / 3f64.log2();
        let ideal = 1.0 + 1.0 / 3f64.log2();
        assert!((got.ndcg_10 - gain / ideal).abs() < 1e-15);
        assert_eq!((got.mrr_10, got.recall_10, got.precision_5), (0.5, 0.5, 0.2));
    }

    #[test]
    fn nothing_found_and_nothing_judged_are_zero() {
        assert_eq!(Measures::of::<&str>(&[], &judgments(&[("a", 1)])), Measures::default());
        assert_eq!(Measures::of(&["a"], &Judgments::new()), Measures::default());
        assert_eq!(Measures::of(&["a"], &judgments(&[("a", -1)])), Measures::default());
        assert_eq!(Measures::mean(&[]), Measures::default());
    }

    #[test]
    fn a_document_counts_once() {
        let judgments = judgments(&[("a", 1), ("b", 1)]);
        assert_eq!(
            Measures::of(&["a", "a", "b"], &judgments),
            Measures::of(&["a", "b"], &judgments)
        );
    }

    #[test]
    fn percentiles_are_measured_times() {
        let times: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(Latency::of(&times), Some(Latency { p50: 10.0, p95: 19.0 }));
        assert_eq!(Latency::of(&[7.0]), Some(Latency { p50: 7.0, p95: 7.0 }));
        assert_eq!(Latency::of(&[]), None);
    }

    /// The definitions word by word, for lists without repetitions.
    fn naive(ranking: &[String], judgments: &Judgments) -> Measures {
        let grade = |id: &String| judgments.get(id).copied().unwrap_or(0).max(0);
        let found = |n: usize| ranking.iter().take(n).filter(|id| grade(id) > 0).count() as f64;
        let relevant = judgments.values().filter(|&&it| it > 0).count() as f64;
        let recall = |n| if relevant > 0.0 { found(n) / relevant } else { 0.0 };
        let mut grades: Vec<i64> = judgments.values().map(|&it| it.max(0)).collect();
        grades.sort();
        grades.reverse();
        let (mut gain, mut ideal, mut mrr) = (0.0, 0.0, 0.0);
        for rank in 1..=10 {
            let discount = ((rank + 1) as f64).log2();
            ideal += grades.get(rank - 1).copied().unwrap_or(0) as f64 / discount;
            let here = ranking.get(rank - 1).map_or(0, grade);
            gain += here as f64 / discount;
            if here > 0 && mrr == 0.0 {
                mrr = 1.0 / rank as f64;
            }
        }
        Measures {
            ndcg_10: if ideal > 0.0 { gain / ideal } else { 0.0 },
            mrr_10: mrr,
            recall_10: recall(10),
            recall_100: recall(100),
            precision_1: found(1),
            precision_5: found(5) / 5.0,
            precision_10: found(10) / 10.0,
        }
    }

    fn close(a: Measures, b: Measures) -> bool {
        let list = |it: Measures| {
            [
                it.ndcg_10,
                it.mrr_10,
                it.recall_10,
                it.recall_100,
                it.precision_1,
                it.precision_5,
                it.precision_10,
            ]
        };
        list(a).iter().zip(list(b)).all(|(a, b)| (a - b).abs() < 1e-12)
    }

    proptest! {
        #[test]
        fn equal_to_the_naive_twin(
            ranking in Just((0..150).map(|it| it.to_string()).collect::<Vec<_>>()).prop_shuffle(),
            length in 0..150usize,
            grades in proptest::collection::hash_map(0..200u32, -1..4i64, 0..40),
        ) {
            let judgments: Judgments = grades.into_iter().map(|(id, it)| (id.to_string(), it)).collect();
            let ranking = &ranking[..length];
            prop_assert!(close(Measures::of(ranking, &judgments), naive(ranking, &judgments)));
        }

        #[test]
        fn moving_a_relevant_document_up_never_hurts(
            ranking in Just((0..20).map(|it| it.to_string()).collect::<Vec<_>>()).prop_shuffle(),
            grades in proptest::collection::hash_map(0..20u32, 0..4i64, 1..8),
            place in 1..20usize,
        ) {
            let judgments: Judgments = grades.into_iter().map(|(id, it)| (id.to_string(), it)).collect();
            let grade = |id: &String| judgments.get(id).copied().unwrap_or(0);
            // The same list with the pair at `place` in either order.
            let (mut worse, mut better) = (ranking.clone(), ranking);
            if grade(&worse[place]) > grade(&worse[place - 1]) {
                better.swap(place, place - 1);
            } else {
                worse.swap(place, place - 1);
            }
            let (before, after) = (Measures::of(&worse, &judgments), Measures::of(&better, &judgments));
            prop_assert!(after.ndcg_10 >= before.ndcg_10 && after.mrr_10 >= before.mrr_10);
        }
    }
}
