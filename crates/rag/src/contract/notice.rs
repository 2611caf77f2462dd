//! What is told of a home, and of a question without an answer. What is told beside results is
//! [`Notice`](riddle_types::Notice).

use riddle_types::Trouble;
use serde::{Deserialize, Serialize};

/// What is wrong with a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Problem {
    /// The catalog is not what it should be.
    Catalog {
        /// In which way.
        trouble: Trouble,
    },
    /// The keyword index does not hold all that the catalog does.
    KeywordIndexBehind,
    /// The vector index does not.
    VectorIndexBehind,
    /// The index of weighed terms does not.
    TermIndexBehind,
    /// The keyword index stands where the catalog does and holds another number of passages.
    KeywordIndexDiffers {
        /// Passages in it.
        held: u64,
        /// Passages in the catalog.
        wanted: u64,
    },
    /// The vector index does.
    VectorIndexDiffers {
        /// Vectors in it.
        held: u64,
        /// Vectors in the catalog.
        wanted: u64,
    },
    /// The index of weighed terms does.
    TermIndexDiffers {
        /// Passages in it.
        held: u64,
        /// Passages in the catalog that have weights.
        wanted: u64,
    },
    /// A file of the keyword index is not what was written.
    KeywordIndexDamaged {
        /// Which, and in what way.
        why: String,
    },
    /// A file of the vector index is not.
    VectorIndexDamaged {
        /// Which, and in what way.
        why: String,
    },
    /// A file of the index of weighed terms is not.
    TermIndexDamaged {
        /// Which, and in what way.
        why: String,
    },
    /// Files that are known are no longer where they were.
    FilesGone {
        /// How many.
        files: u64,
    },
    /// Files that are known are no longer what was seen: another size, time or identity, or another verdict of a rule.
    FilesChanged {
        /// How many.
        files: u64,
    },
    /// Files that are new, or wait to be read since a run was interrupted.
    FilesUnread {
        /// How many.
        files: u64,
    },
    /// Passages wait for their vectors.
    VectorsMissing,
    /// No embedder is installed.
    NoEmbedder {
        /// The one that would be used.
        name: String,
    },
}

impl Problem {
    /// One of every kind, for tests of the words that are made of it.
    pub fn examples() -> Vec<Problem> {
        vec![
            Problem::Catalog { trouble: Trouble::from("catalog: rows belong to nothing") },
            Problem::KeywordIndexBehind,
            Problem::VectorIndexBehind,
            Problem::TermIndexBehind,
            Problem::KeywordIndexDiffers { held: 7, wanted: 9 },
            Problem::VectorIndexDiffers { held: 7, wanted: 9 },
            Problem::TermIndexDiffers { held: 7, wanted: 9 },
            Problem::KeywordIndexDamaged { why: "a.idx: it is not what was written".to_owned() },
            Problem::VectorIndexDamaged { why: "codes-0.bin is too short".to_owned() },
            Problem::TermIndexDamaged { why: "a.term: it is not what was written".to_owned() },
            Problem::FilesGone { files: 1 },
            Problem::FilesChanged { files: 2 },
            Problem::FilesUnread { files: 3 },
            Problem::VectorsMissing,
            Problem::NoEmbedder { name: "all-MiniLM-L6-v2".to_owned() },
        ]
    }
}

/// Why a question has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NoAnswer {
    /// Nothing in the files fits the question.
    Nothing,
    /// Nothing that may leave this machine does, and something that may not was found.
    NothingThatMayLeave,
    /// All that was found never leaves this machine, so the endpoint was not asked.
    AllHeldBack,
    /// It was stopped before the first word.
    Stopped,
    /// The model wrote nothing.
    ModelWroteNothing,
    /// The model says that the passages hold no answer.
    ModelFoundNothing,
}

impl NoAnswer {
    /// All of them.
    pub const ALL: [NoAnswer; 6] = [
        NoAnswer::Nothing,
        NoAnswer::NothingThatMayLeave,
        NoAnswer::AllHeldBack,
        NoAnswer::Stopped,
        NoAnswer::ModelWroteNothing,
        NoAnswer::ModelFoundNothing,
    ];
}
