//! What can go wrong with an evaluation, in words that say where and what to do.

use std::path::PathBuf;

use riddle_types::{Advice, Advised, StageError, Trouble};

/// Result of an evaluation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of an evaluation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of the dataset can not be opened.
    #[error("{}: {source}: a dataset is a folder with corpus.jsonl[.gz], queries.jsonl and qrels/test.tsv", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line of the dataset is not what it should be.
    #[error("{}:{line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What is wrong, and what is expected.
        why: String,
    },
    /// The dataset as a whole makes no sense.
    #[error("{}: {why}", path.display())]
    Dataset {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// A number of results, candidates or queries is 0.
    #[error("the numbers of results, candidates and queries must be at least 1")]
    Zero,
    /// Cosines of a run without the run.
    #[error("that scores are cosines says something of a run, and no run is given")]
    CosinesWithoutRun,
    /// Layers are wanted of something else than the full forward.
    #[error("layers are measured by the full forward: without pruning, without a deadline")]
    LayersOfAPart,
    /// Texts and titles come from files, and something else is to decide about them.
    #[error("texts and titles are taken from files: there is no run of them, and titles count")]
    FilesAndMore,
    /// No reranker is chosen.
    #[error("no reranker is chosen")]
    NoReranker,
    /// Stages that need vectors, without an embedder.
    #[error("dense and rrf need vectors, and no embedder is installed")]
    NoVectors,
    /// A stage that needs weighed terms, without a sparse encoder.
    #[error("sparse needs weighed terms, and no sparse encoder is installed")]
    NoTerms,
    /// Other stages than the reranker, on the candidates of a run.
    #[error("a run gives the candidates: only the stage rerank can be measured with it")]
    OnlyRerank,
    /// The scores of a run are no cosines.
    #[error("the scores of {run} are not cosines, which lie between -1 and 1")]
    NotCosines {
        /// Name of the run.
        run: String,
    },
    /// A name that no run can have.
    #[error("{name:?} is not the name of a run: give NAME of runs/NAME.trec")]
    BadRunName {
        /// As given.
        name: String,
    },
    /// A folder that holds no datasets, or none that can be measured.
    #[error("{}: {why}", folder.display())]
    NotASuite {
        /// As given.
        folder: PathBuf,
        /// What is wrong, and what is expected.
        why: Trouble,
    },
    /// There is no folder of files.
    #[error("{}: there is no such folder", folder.display())]
    NoSuchFolder {
        /// As given.
        folder: PathBuf,
    },
    /// The folder holds other files.
    #[error("{}: no indexed file there has the path of a document, such as {example:?}", folder.display())]
    OtherFiles {
        /// As given.
        folder: PathBuf,
        /// Path of a document.
        example: String,
    },
    /// A file of the evaluation's own index.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The library or the assistant.
    #[error(transparent)]
    Rag(#[from] riddle_rag::Error),
    /// The reranker, on given candidates.
    #[error("reranking the candidates of query {query}: {source}")]
    Rerank {
        /// Id of the query.
        query: String,
        /// What the engine says.
        source: StageError,
    },
    /// The caller asked to stop.
    #[error("the evaluation was stopped: start it again, what was indexed is kept")]
    Stopped,
}

impl Advised for Error {
    fn advice(&self) -> Option<Advice> {
        match self {
            Error::Rag(error) => error.advice(),
            Error::Rerank { source, .. } => source.advice(),
            Error::NotASuite { why, .. } => why.advice.clone(),
            _ => None,
        }
    }
}
