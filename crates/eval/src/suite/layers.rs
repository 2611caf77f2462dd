//! The order after every layer beside the one that the reranker was given: how early it is worth something.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{EvalReport, Measures, Stage};

/// What an order is worth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct OrderFigures {
    /// nDCG@10.
    #[serde(rename = "ndcg@10")]
    pub ndcg_10: f64,
    /// MRR@10.
    #[serde(rename = "mrr@10")]
    pub mrr_10: f64,
}

/// The orders from the reranker's input to what is shown, on a set or in the mean.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LayerFigures {
    /// Sets in it, or domains: those that the reranker has read something of.
    pub of: usize,
    /// What the reranker was given: the merged order.
    pub input: OrderFigures,
    /// After each layer that its head can read, from 1.
    pub after: BTreeMap<u32, OrderFigures>,
    /// What is shown.
    pub shown: OrderFigures,
}

impl OrderFigures {
    fn of(measures: &Measures) -> OrderFigures {
        OrderFigures { ndcg_10: measures.ndcg_10, mrr_10: measures.mrr_10 }
    }

    fn mean(of: impl ExactSizeIterator<Item = OrderFigures> + Clone) -> OrderFigures {
        let n = of.len().max(1) as f64;
        OrderFigures {
            ndcg_10: of.clone().map(|it| it.ndcg_10).sum::<f64>() / n,
            mrr_10: of.map(|it| it.mrr_10).sum::<f64>() / n,
        }
    }
}

impl LayerFigures {
    /// Of a set; `None` where nobody asked, or the reranker has read nothing: a set in another language.
    pub(super) fn of(measured: &EvalReport) -> Option<LayerFigures> {
        let stage = |it: Stage| measured.stages.get(&it).map(|it| OrderFigures::of(&it.measures));
        if measured.layers.is_empty() {
            return None;
        }
        Some(LayerFigures {
            of: 1,
            input: stage(Stage::Rrf)?,
            after: measured.layers.iter().map(|(&it, of)| (it, OrderFigures::of(of))).collect(),
            shown: stage(Stage::Rerank)?,
        })
    }

    /// Means over those that have layers, of the layers that all of them have; `None` of none.
    pub(super) fn mean<'a>(of: impl Iterator<Item = &'a LayerFigures>) -> Option<LayerFigures> {
        let all: Vec<&LayerFigures> = of.collect();
        let first = all.first()?;
        let layers =
            first.after.keys().filter(|layer| all.iter().all(|it| it.after.contains_key(layer)));
        let after = |layer: &u32| OrderFigures::mean(all.iter().map(|it| it.after[layer]));
        Some(LayerFigures {
            of: all.len(),
            input: OrderFigures::mean(all.iter().map(|it| it.input)),
            after: layers.map(|layer| (*layer, after(layer))).collect(),
            shown: OrderFigures::mean(all.iter().map(|it| it.shown)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StageReport;

    fn figures(ndcg_10: f64) -> OrderFigures {
        OrderFigures { ndcg_10, mrr_10: ndcg_10 / 2.0 }
    }

    #[test]
    fn a_set_has_layers_where_they_were_measured_between_input_and_what_is_shown() {
        let measures = |ndcg_10| Measures { ndcg_10, mrr_10: ndcg_10 / 2.0, ..Measures::default() };
        let stage = |it| StageReport { measures: measures(it), ..StageReport::default() };
        let mut measured = EvalReport {
            stages: BTreeMap::from([(Stage::Rrf, stage(0.4)), (Stage::Rerank, stage(0.8))]),
            ..EvalReport::default()
        };
        assert_eq!(LayerFigures::of(&measured), None);
        measured.layers.insert(2, measures(0.6));
        let found = LayerFigures::of(&measured).expect("layers");
        assert_eq!((found.input, found.shown), (figures(0.4), figures(0.8)));
        assert_eq!(found.after, BTreeMap::from([(2, figures(0.6))]));
    }

    #[test]
    fn a_mean_is_of_the_layers_that_all_have() {
        let one = |input, after: &[(u32, f64)], shown| LayerFigures {
            of: 1,
            input: figures(input),
            after: after.iter().map(|&(layer, it)| (layer, figures(it))).collect(),
            shown: figures(shown),
        };
        let (a, b) = (one(0.2, &[(1, 0.1), (2, 0.4)], 0.6), one(0.4, &[(2, 0.8)], 1.0));
        let mean = LayerFigures::mean([&a, &b].into_iter()).expect("two");
        assert_eq!(mean.of, 2);
        assert!((mean.input.ndcg_10 - 0.3).abs() < 1e-12, "{mean:?}");
        assert_eq!(mean.after.keys().copied().collect::<Vec<_>>(), [2]);
        assert!((mean.after[&2].mrr_10 - 0.3).abs() < 1e-12, "{mean:?}");
        assert_eq!(LayerFigures::mean([].into_iter()), None);
    }
}
