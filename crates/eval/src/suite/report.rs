//! What a suite found, in the shape of `riddle eval --suite --json`.

use std::collections::BTreeMap;

use riddle_types::Trouble;
use serde::Serialize;

use super::{LayerFigures, Regret};
use crate::{Error, EvalReport, Latency, Notice};

/// nDCG@10 of every list, on a set or in the mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Keywords.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bm25: Option<f64>,
    /// Vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense: Option<f64>,
    /// Weighed terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparse: Option<f64>,
    /// All of them, before the reranker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged: Option<f64>,
    /// What people see.
    pub shown: f64,
    /// What is shown less the best of keywords, vectors and weighed terms.
    pub gain: f64,
}

impl Figures {
    /// Of the legs: keywords, vectors, weighed terms.
    pub(super) fn of(legs: [Option<f64>; 3], merged: Option<f64>, shown: f64) -> Figures {
        let best = legs.into_iter().flatten().fold(0.0, f64::max);
        let [bm25, dense, sparse] = legs;
        Figures { bm25, dense, sparse, merged, shown, gain: shown - best }
    }

    /// Means; a list that one of them lacks has none.
    fn mean(of: &[Figures]) -> Figures {
        let option = |field: fn(&Figures) -> Option<f64>| {
            let all: Option<Vec<f64>> = of.iter().map(field).collect();
            all.map(|it| mean(it.into_iter()))
        };
        Figures {
            bm25: option(|it| it.bm25),
            dense: option(|it| it.dense),
            sparse: option(|it| it.sparse),
            merged: option(|it| it.merged),
            shown: mean(of.iter().map(|it| it.shown)),
            gain: mean(of.iter().map(|it| it.gain)),
        }
    }
}

fn mean(of: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = of.len().max(1) as f64;
    of.sum::<f64>() / n
}

/// One dataset.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetReport {
    /// Its path below the suite's folder.
    pub name: String,
    /// Its domain; `None`: it is in no mean.
    pub domain: Option<String>,
    /// Documents of its corpus.
    pub documents: u64,
    /// Questions that were asked.
    pub queries: usize,
    /// Whether its index was there from an earlier evaluation.
    pub reused: bool,
    /// nDCG@10.
    #[serde(rename = "ndcg@10")]
    pub figures: Figures,
    /// What is shown beside the best of its inputs; `None`: it was made from nothing else.
    pub regret: Option<Regret>,
    /// The order after every layer, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<LayerFigures>,
    /// Share of the reranker's candidate × layer forwards that were computed: 1.0 without pruning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate_layers_share: Option<f64>,
    /// The reranker alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerank_ms: Option<Latency>,
}

/// The sets of one domain, each weighing the same.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DomainReport {
    /// Its name; `None`: the mean over domains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Sets in it, or domains.
    pub of: usize,
    /// Means.
    #[serde(rename = "ndcg@10")]
    pub figures: Figures,
    /// Mean of the regrets; `None`: one has none.
    pub regret: Option<f64>,
    /// Mean share of the questions that lose more than a place; `None` as above.
    pub losing: Option<f64>,
    /// How many of all questions that are.
    pub lost: Option<usize>,
    /// The order after every layer, over those that have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<LayerFigures>,
}

/// A set that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedSet {
    /// Its path below the suite's folder.
    pub name: String,
    /// Why.
    pub why: Trouble,
}

/// What should be known of the figures of a set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetNotice {
    /// The set; `None`: it is about the suite.
    pub set: Option<String>,
    /// That.
    pub notice: Notice,
}

impl FailedSet {
    pub(super) fn of(name: &str, error: &Error) -> FailedSet {
        FailedSet { name: name.to_owned(), why: Trouble::of(error) }
    }
}

/// Everything that was found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SuiteReport {
    /// Name of the suite's folder.
    pub suite: String,
    /// The sets that were measured.
    pub sets: Vec<SetReport>,
    /// Those that could not be.
    pub failed: Vec<FailedSet>,
    /// Means of domains.
    pub domains: Vec<DomainReport>,
    /// The mean over domains.
    pub mean: Option<DomainReport>,
    /// Whether it was stopped before all sets were done.
    pub stopped: bool,
    /// The reranker, when one ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reranker: Option<String>,
    /// What the reader should know about the figures.
    pub notices: Vec<SetNotice>,
    /// Most bytes of model weights in memory.
    pub resident_weight_bytes: u64,
}

impl SuiteReport {
    pub(super) fn add(&mut self, set: SetReport, measured: EvalReport) {
        let told = |notice| SetNotice { set: Some(set.name.clone()), notice };
        self.notices.extend(measured.notices.into_iter().map(told));
        self.reranker = self.reranker.take().or(measured.reranker);
        self.resident_weight_bytes = self.resident_weight_bytes.max(measured.resident_weight_bytes);
        self.sets.push(set);
    }

    /// Means per domain and over domains.
    pub(super) fn summarize(&mut self) {
        let mut by_domain: BTreeMap<&str, Vec<&SetReport>> = BTreeMap::new();
        for set in &self.sets {
            if let Some(domain) = &set.domain {
                by_domain.entry(domain).or_default().push(set);
            }
        }
        let domains: Vec<DomainReport> = by_domain
            .into_iter()
            .map(|(name, sets)| {
                let sets: Vec<DomainReport> = sets.iter().map(|it| alone(it)).collect();
                summary(Some(name.to_owned()), &sets)
            })
            .collect();
        self.mean = (!domains.is_empty()).then(|| summary(None, &domains));
        self.domains = domains;
    }
}

/// A set as if it were a domain.
fn alone(set: &SetReport) -> DomainReport {
    let regret = set.regret.as_ref();
    DomainReport {
        name: None,
        of: 1,
        figures: set.figures,
        regret: regret.map(|it| it.value),
        losing: regret.map(|it| it.losing),
        lost: regret.map(|it| it.lost),
        layers: set.layers.clone(),
    }
}

fn summary(name: Option<String>, of: &[DomainReport]) -> DomainReport {
    let figures: Vec<Figures> = of.iter().map(|it| it.figures).collect();
    let all = |field: fn(&DomainReport) -> Option<f64>| {
        of.iter().map(field).collect::<Option<Vec<f64>>>().map(|it| mean(it.into_iter()))
    };
    DomainReport {
        name,
        of: of.len(),
        figures: Figures::mean(&figures),
        regret: all(|it| it.regret),
        losing: all(|it| it.losing),
        lost: of.iter().map(|it| it.lost).sum(),
        layers: LayerFigures::mean(of.iter().filter_map(|it| it.layers.as_ref())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(
        name: &str,
        domain: Option<&str>,
        bm25: f64,
        dense: Option<f64>,
        shown: f64,
    ) -> SetReport {
        SetReport {
            name: name.to_owned(),
            domain: domain.map(str::to_owned),
            documents: 1,
            queries: 1,
            reused: false,
            figures: Figures::of([Some(bm25), dense, None], None, shown),
            regret: None,
            layers: None,
            candidate_layers_share: None,
            rerank_ms: None,
        }
    }

    #[test]
    fn many_sets_of_a_domain_weigh_as_much_as_one() {
        let mut report = SuiteReport {
            sets: vec![
                set("a/de", Some("a"), 0.2, Some(0.1), 0.3),
                set("a/th", Some("a"), 0.4, None, 0.5),
                set("b", Some("b"), 0.8, Some(0.9), 0.8),
                set("sum", None, 0.0, Some(0.0), 0.0),
            ],
            ..SuiteReport::default()
        };
        report.summarize();
        let mean = report.mean.expect("a mean");
        assert_eq!((mean.of, report.domains.len()), (2, 2));
        assert!((mean.figures.shown - 0.6).abs() < 1e-12, "{mean:?}");
        assert!((mean.figures.bm25.expect("all have it") - 0.55).abs() < 1e-12);
        // Of a leg that one set lacks there is no mean; the gain is over the better one of each set.
        assert_eq!(mean.figures.dense, None);
        assert!((mean.figures.gain - (0.1 - 0.1) / 2.0).abs() < 1e-12, "{mean:?}");
        let nothing = &mut SuiteReport::default();
        nothing.summarize();
        assert_eq!(nothing.mean, None);
    }
}
