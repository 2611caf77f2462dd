//! What an evaluation found, in the shape of `riddle eval --json`.

use std::{collections::BTreeMap, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Latency, Measures, Notice};

/// A stage whose list is measured, in the order of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The keyword index.
    Bm25,
    /// The vector index.
    Dense,
    /// The index of weighed terms.
    Sparse,
    /// All of them, fused.
    Rrf,
    /// The candidates of a given run, before the reranker.
    Run,
    /// After the reranker.
    Rerank,
}

impl Stage {
    /// The stages that can be asked for; [`Stage::Run`] comes with a run.
    pub const ALL: [Stage; 5] =
        [Stage::Bm25, Stage::Dense, Stage::Sparse, Stage::Rrf, Stage::Rerank];

    /// The name on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Bm25 => "bm25",
            Stage::Dense => "dense",
            Stage::Sparse => "sparse",
            Stage::Rrf => "rrf",
            Stage::Run => "run",
            Stage::Rerank => "rerank",
        }
    }
}

impl FromStr for Stage {
    type Err = String;

    fn from_str(name: &str) -> Result<Stage, String> {
        Stage::ALL.into_iter().find(|it| it.as_str() == name).ok_or_else(|| {
            format!("{name:?} is not a stage: use bm25, dense, sparse, rrf or rerank")
        })
    }
}

/// Quality and cost of one stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StageReport {
    /// Means over the queries.
    #[serde(flatten)]
    pub measures: Measures,
    /// From the query to this stage's list, the stages it needs included; `None` for given candidates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<Latency>,
    /// The reranker alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerank_ms: Option<Latency>,
    /// Mean number of layers the reranker ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers_run_mean: Option<f64>,
    /// Share of the candidate × layer forwards that were computed: 1.0 without pruning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate_layers_share: Option<f64>,
}

/// The index that the queries ran on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CorpusReport {
    /// Documents of the corpus.
    pub documents: u64,
    /// Chunks they were cut into.
    pub chunks: u64,
    /// Seconds that indexing took, when it was done.
    pub index_seconds: f64,
    /// The embedder; `None`: there are no vectors.
    pub embedder: Option<String>,
    /// The sparse encoder; `None`: no terms are weighed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparse_encoder: Option<String>,
    /// Whether the index was there from an earlier evaluation.
    #[serde(default)]
    pub reused: bool,
}

/// Everything an evaluation found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EvalReport {
    /// Name of the dataset.
    pub dataset: String,
    /// Queries that were asked.
    pub queries: usize,
    /// The stages, by name.
    pub stages: BTreeMap<Stage, StageReport>,
    /// The measures behind the means, question by question in the order of the dataset.
    #[serde(skip)]
    pub questions: BTreeMap<Stage, Vec<Measures>>,
    /// The order after every layer of the reranker, where that was asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub layers: BTreeMap<u32, Measures>,
    /// The index; `None` when candidates were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corpus: Option<CorpusReport>,
    /// The reranker, when one ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reranker: Option<String>,
    /// What the reader should know about the figures.
    pub notices: Vec<Notice>,
    /// Most bytes of model weights in memory.
    pub resident_weight_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_the_names_that_scripts_rely_on() {
        let report = EvalReport {
            dataset: "x".to_owned(),
            queries: 2,
            stages: BTreeMap::from([
                (
                    Stage::Bm25,
                    StageReport {
                        latency_ms: Some(Latency { p50: 1.0, p95: 2.0 }),
                        ..StageReport::default()
                    },
                ),
                (
                    Stage::Rerank,
                    StageReport {
                        layers_run_mean: Some(6.0),
                        candidate_layers_share: Some(1.0),
                        ..StageReport::default()
                    },
                ),
            ]),
            ..EvalReport::default()
        };
        let json = serde_json::to_value(&report).expect("plain data");
        let bm25 = &json["stages"]["bm25"];
        for name in ["ndcg@10", "mrr@10", "recall@10", "recall@100", "p@1", "p@5", "p@10"] {
            assert_eq!(bm25[name], 0.0, "{name}");
        }
        assert_eq!(bm25["latency_ms"]["p95"], 2.0);
        assert_eq!(bm25.get("layers_run_mean"), None);
        assert_eq!(json["stages"]["rerank"]["layers_run_mean"], 6.0);
        assert_eq!(json["stages"]["rerank"]["candidate_layers_share"], 1.0);
        assert_eq!((&json["dataset"], &json["queries"]), (&"x".into(), &2.into()));
    }

    #[test]
    fn stage_names_round_trip() {
        for stage in Stage::ALL {
            assert_eq!(stage.as_str().parse(), Ok(stage));
            assert_eq!(serde_json::to_value(stage).expect("a name"), stage.as_str());
        }
        assert!("run".parse::<Stage>().is_err(), "a run is given by --run");
    }
}
