//! What to evaluate, and how.

use std::path::PathBuf;

use riddle_rag::{
    Assistant, Config,
    models::DEFAULT_RERANKER,
    rerank::{Mode, RerankSettings},
};

use crate::{Error, Result, Stage};

/// What to evaluate, and how.
#[derive(Debug, Clone)]
pub struct EvalOptions {
    /// The dataset's folder.
    pub dataset: PathBuf,
    /// The user's home and models; the corpus gets a home of its own below it.
    pub config: Config,
    /// Embedder, by name or directory; `None`: the default one.
    pub embedder: Option<String>,
    /// Stages to measure; empty: all that the installed models allow.
    pub stages: Vec<Stage>,
    /// Rerank the candidates of `runs/NAME.trec` instead of searching.
    pub run: Option<String>,
    /// The run's scores are cosines, which a model with a retrieval prior is given.
    pub run_cosines: bool,
    /// Measure the order after every layer of the reranker, too; nobody is pruned then.
    pub layers: bool,
    /// Candidates of each retriever, or of the run; `None`: the default, or all of the run.
    pub candidates: Option<usize>,
    /// Results the reranker is asked for.
    pub top_k: usize,
    /// Reranker, by name or directory; `None`: the one the home is set to use.
    pub model: Option<String>,
    /// How it runs.
    pub settings: RerankSettings,
    /// Ask only the first queries.
    pub limit_queries: Option<usize>,
    /// Ask that many, evenly spread over all, instead of the first.
    pub spread_queries: bool,
    /// Index this folder instead of the dataset's texts: its documents are the folder's files, by their
    /// paths below it.
    pub files: Option<PathBuf>,
    /// Whether documents are their texts alone, as some published figures take them.
    pub ignore_titles: bool,
    /// Write the order of every stage into this folder, as runs in TREC format.
    pub save_runs: Option<PathBuf>,
}

impl EvalOptions {
    /// Everything as it is by default, without a dataset.
    pub fn new(config: Config) -> EvalOptions {
        EvalOptions {
            dataset: PathBuf::new(),
            config,
            embedder: None,
            stages: Vec::new(),
            run: None,
            run_cosines: false,
            layers: false,
            candidates: None,
            top_k: 10,
            model: None,
            settings: RerankSettings::default(),
            limit_queries: None,
            spread_queries: false,
            files: None,
            ignore_titles: false,
            save_runs: None,
        }
    }

    /// Layers are those of a full forward: whoever is left out of one has no score after it.
    pub(crate) fn check_layers(&self) -> Result<()> {
        let is_part = self.settings.mode != Mode::Off || self.settings.deadline.is_some();
        if self.layers && is_part { Err(Error::LayersOfAPart) } else { Ok(()) }
    }

    /// The reranker to use: the one asked for, else the one the user's home is set to; a home without an index has no
    /// settings and takes the default.
    pub(crate) fn reranker(&self) -> Option<String> {
        let chosen = || match Assistant::open(self.config.clone()) {
            Ok(assistant) => assistant.configured_reranker().ok()?,
            Err(_) => Some(DEFAULT_RERANKER.to_owned()),
        };
        self.model.clone().or_else(chosen)
    }
}
