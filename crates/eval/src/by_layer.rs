//! The order after every layer of the reranker: what its scores would have shown there.

use std::collections::BTreeMap;

use crate::Measures;

/// What the orders of all questions are worth, layer by layer.
#[derive(Debug, Default)]
pub(crate) struct ByLayer {
    measured: BTreeMap<u32, Vec<Measures>>,
    /// Of the questions that no layer has read: their order is the same after each.
    unread: Vec<Measures>,
}

impl ByLayer {
    /// The order of a question after a layer.
    pub(crate) fn add(&mut self, layer: u32, measures: Measures) {
        self.measured.entry(layer).or_default().push(measures);
    }

    /// A question that was not reranked.
    pub(crate) fn add_unread(&mut self, measures: Measures) {
        self.unread.push(measures);
    }

    /// Means over all questions; nothing where no layer has read any of them.
    pub(crate) fn means(&self) -> BTreeMap<u32, Measures> {
        let of_all = |it: &Vec<Measures>| Measures::mean(&[&it[..], &self.unread].concat());
        self.measured.iter().map(|(&layer, it)| (layer, of_all(it))).collect()
    }
}

/// Places of the best scores, best first; of equal ones the first.
pub(crate) fn best_first(scores: &[f32], top_k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    order.truncate(top_k);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measures(ndcg_10: f64) -> Measures {
        Measures { ndcg_10, ..Measures::default() }
    }

    #[test]
    fn a_question_that_nobody_reads_counts_the_same_after_every_layer() {
        let mut by_layer = ByLayer::default();
        by_layer.add_unread(measures(0.5));
        assert!(by_layer.means().is_empty(), "no layer is known");
        by_layer.add(2, measures(0.0));
        by_layer.add(4, measures(1.0));
        let means = by_layer.means();
        assert_eq!(means.keys().copied().collect::<Vec<_>>(), [2, 4]);
        assert_eq!((means[&2].ndcg_10, means[&4].ndcg_10), (0.25, 0.75));
    }

    #[test]
    fn the_best_are_first_and_of_equals_the_earlier() {
        assert_eq!(best_first(&[1.0, 3.0, 1.0, f32::NEG_INFINITY, 7.0], 3), [4, 1, 0]);
        assert!(best_first(&[], 3).is_empty());
    }
}
