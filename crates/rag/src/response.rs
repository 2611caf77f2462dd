//! What comes back of searches and questions.

use std::collections::BTreeMap;

use riddle_types::{GenerationStats, LayerEvent, Location, RankTrace};
use serde::Serialize;

use crate::Verdict;

/// Which order the hits are in; said plainly with every answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Order {
    /// Reciprocal rank fusion of keyword and vector ranks.
    Fused,
    /// Keyword ranks alone: there are no vectors to search.
    Keyword,
    /// A reranker's scores.
    Reranked {
        /// The reranker's name.
        model: String,
    },
}

/// One result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchHit {
    /// Place, from 1.
    pub rank: u32,
    /// The file, as text; names that are not UTF-8 are shown with replacement characters.
    pub path: String,
    /// The file's own title, else its name.
    pub title: String,
    /// Headings above the passage, joined by ` › `; empty if none.
    pub heading: String,
    /// The passage.
    pub text: String,
    /// Where in the file the passage is.
    pub location: Location,
    /// Score in the scale of the order shown: 0…1 when reranked, a sum of reciprocal ranks when fused.
    pub score: f32,
    /// How it came to its place.
    pub trace: RankTrace,
    /// The file's modification time, in seconds since 1970.
    pub modified: i64,
    /// Chunk number in the catalog.
    pub chunk: u64,
}

/// How fresh the index is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct IndexFreshness {
    /// When the index was last brought up to date, in seconds since 1970; `None` before the first time.
    pub as_of: Option<i64>,
    /// Files that are known to have changed and are not read yet.
    pub files_behind: u64,
}

/// The lists of each stage, best first, as chunk numbers: for explanations and evaluation.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StageLists {
    /// Keyword index.
    pub bm25: Vec<u64>,
    /// Vector index.
    pub dense: Vec<u64>,
    /// After fusion.
    pub fused: Vec<u64>,
    /// After the reranker.
    pub reranked: Vec<u64>,
    /// The reranker's layers; candidate indexes refer to `fused`.
    pub layers: Vec<LayerEvent>,
}

/// Results of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchResponse {
    /// The query as given.
    pub query: String,
    /// Results, best first.
    pub hits: Vec<SearchHit>,
    /// Which order they are in.
    pub order: Order,
    /// What the user should know: a blind retriever, an index that is behind, a reranker left off.
    pub notices: Vec<String>,
    /// How fresh the index is.
    pub index: IndexFreshness,
    /// Bytes of model weights in memory: embedder and reranker.
    pub resident_weight_bytes: u64,
    /// Candidate × layer forwards of the reranker that were computed, as a share of all; `None` without one.
    pub candidate_layers_share: Option<f64>,
    /// Layers the reranker ran; `None` without one.
    pub layers_run: Option<u32>,
    /// The stages' lists, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<StageLists>,
}

/// A source of an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Citation {
    /// Its number in the answer.
    pub n: u32,
    /// Chunk number in the catalog.
    pub chunk: u64,
    /// The file.
    pub path: String,
    /// Its title.
    pub title: String,
    /// Where in the file.
    pub location: Location,
    /// The words that were used, verbatim.
    pub quote: String,
}

/// A sentence of an answer, checked against the passages it cites.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Support {
    /// The sentence, without its citation mark.
    pub sentence: String,
    /// The passage that speaks most for it, of those it cites; `None` when it cites nothing that exists.
    pub citation: Option<u32>,
    /// All that it cites.
    pub citations: Vec<u32>,
    /// How sure it is that they say so, 0…1; 1 when one says it verbatim.
    pub score: f32,
    /// What that means.
    pub verdict: Verdict,
}

impl Support {
    /// A sentence of a passage: supported by that.
    pub(crate) fn quotation(sentence: String, passage: Option<u32>) -> Support {
        Support {
            sentence,
            citation: passage,
            citations: passage.into_iter().collect(),
            score: 1.0,
            verdict: Verdict::Supported,
        }
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AskResponse {
    /// The question as given.
    pub question: String,
    /// What was searched for and answered: the question, with what it takes up from earlier ones.
    pub searched_for: String,
    /// Whether a language model has put it so.
    pub rewritten: bool,
    /// The answer with citations as `[n]`; `None` when the files hold no evidence.
    pub answer: Option<String>,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The sources, in the order of their numbers.
    pub citations: Vec<Citation>,
    /// Each sentence checked.
    pub supported: Vec<Support>,
    /// What the files say themselves, where nothing of what a model wrote was found in them; their sources are among the
    /// citations.
    pub quotes: Vec<Support>,
    /// Passages that the answer was written from, by chunk.
    pub passages: Vec<u64>,
    /// Passages that were not handed on, because their folders never leave this machine.
    pub held_back: u64,
    /// How well the best sentence of the passages fits the question, 0…1.
    pub evidence: f32,
    /// Who wrote it: `extractive`, or the model.
    pub llm: String,
    /// Order of the passages it was written from.
    pub order: Order,
    /// What the user should know.
    pub notices: Vec<String>,
    /// How fresh the index is.
    pub index: IndexFreshness,
    /// Files that were not searched, by state: pending, failed, scans and so on.
    pub not_searched: BTreeMap<&'static str, u64>,
    /// Milliseconds until the first words were handed over.
    pub first_token_ms: f64,
    /// Tokens written, where a model counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<usize>,
    /// What a model was asked, word for word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// What a model in this process took for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<GenerationStats>,
    /// Bytes of model weights in memory.
    pub resident_weight_bytes: u64,
}
