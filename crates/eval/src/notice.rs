//! What the reader of figures should know of them. Sentences are made of it by the command line.

use std::path::PathBuf;

use riddle_types::Notice as Told;
use serde::Serialize;

/// What should be known beside figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Notice {
    /// What the assistant tells.
    Assistant {
        /// That.
        notice: Told,
    },
    /// The documents' titles are ignored.
    TitlesIgnored,
    /// Relevant documents are not in the corpus, and count as not found.
    RelevantAbsent {
        /// How many.
        documents: usize,
    },
    /// Queries without a relevant document are left out.
    QueriesUnjudged {
        /// How many.
        queries: usize,
    },
    /// Domains are given of sets that are not in the suite.
    DomainsUnknown {
        /// Names of the sets.
        sets: Vec<String>,
    },
    /// Stages that need vectors are left out, because no embedder is installed.
    NoVectors,
    /// Queries were not reranked, and count in fused order.
    NotReranked {
        /// How many.
        queries: usize,
    },
    /// Queries have no candidates in the run.
    NotInRun {
        /// How many.
        queries: usize,
        /// Name of the run.
        run: String,
    },
    /// Documents are not among the files.
    DocumentsAbsent {
        /// How many.
        absent: usize,
        /// Of how many.
        documents: usize,
        /// The folder of the files.
        folder: PathBuf,
    },
    /// Paragraphs of the questions are not in the dataset.
    ParagraphsUnknown {
        /// How many.
        paragraphs: usize,
    },
    /// Questions whose paragraph was not found are left out.
    ParagraphsNotFound {
        /// How many questions.
        questions: usize,
        /// Among how many passages was looked.
        passages: usize,
    },
}

impl Notice {
    /// One of every kind, for tests of the words that are made of it.
    pub fn examples() -> Vec<Notice> {
        vec![
            Notice::Assistant { notice: Told::NothingIndexedYet },
            Notice::TitlesIgnored,
            Notice::RelevantAbsent { documents: 1 },
            Notice::QueriesUnjudged { queries: 2 },
            Notice::DomainsUnknown { sets: vec!["mails".to_owned()] },
            Notice::NoVectors,
            Notice::NotReranked { queries: 3 },
            Notice::NotInRun { queries: 4, run: "bm25".to_owned() },
            Notice::DocumentsAbsent { absent: 1, documents: 5, folder: PathBuf::from("/files") },
            Notice::ParagraphsUnknown { paragraphs: 6 },
            Notice::ParagraphsNotFound { questions: 7, passages: 10 },
        ]
    }
}
