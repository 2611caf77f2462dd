//! What can go wrong with an evaluation, in words that say where and what to do.

use std::path::PathBuf;

use riddle_types::StageError;

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
    /// The request makes no sense.
    #[error("{0}")]
    BadOption(String),
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
