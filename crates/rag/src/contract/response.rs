//! What a question gets back: hits, answers, scores. Plain data.
//!
//! The responses here, in `report` and in `status` serialize to the shapes that `riddle … --json` promises, but for
//! notices, reasons and problems: these are put into words by the tops, which also add stage times and memory, because
//! they own the measuring.

use std::collections::BTreeMap;

use riddle_claims::Support;
use riddle_grating::Mode;
use riddle_types::{
    DeadlineReport, FileState, GenerationStats, LayerEvent, Location, MemoryPlan, Notice, RankTrace,
};
use serde::{Deserialize, Deserializer, Serialize};

use super::{notice::NoAnswer, reuse::Cached, server::RemoteStage, status::IndexFreshness};

/// Which order the hits are in; said plainly with every answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Other files that hold the very same passage, which is shown once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_in: Vec<String>,
    /// Other files that hold nearly the same passage, with the same numbers and names: versions, of which the newest is
    /// shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
    /// The shared library that it is from; `None`: the home. The path is then that of another machine, the chunk's
    /// number holds for this answer alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// Where a file from elsewhere lies on this computer, by the folders that are mapped; whether it is there is not
    /// looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub here: Option<String>,
    /// How sure reading it from a picture was, 0 to 1: of a scan, a photograph of a page. `None`: it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ocr_confidence: Option<f32>,
}

impl SearchHit {
    /// Below this share readings are wrong in words that matter: it is said wherever the passage is shown.
    pub const LOW_CONFIDENCE: f32 = 0.9;

    /// How sure reading it was, where that is worth a warning.
    pub fn low_confidence(&self) -> Option<f32> {
        self.ocr_confidence.filter(|it| *it < SearchHit::LOW_CONFIDENCE)
    }
}

/// The lists of each stage, best first, as chunk numbers: for explanations and evaluation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StageLists {
    /// Keyword index.
    pub bm25: Vec<u64>,
    /// Vector index.
    pub dense: Vec<u64>,
    /// Index of weighed terms.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sparse: Vec<u64>,
    /// After fusion.
    pub fused: Vec<u64>,
    /// After the reranker.
    pub reranked: Vec<u64>,
    /// The reranker's layers; candidate indexes refer to `fused`.
    pub layers: Vec<LayerEvent>,
}

/// What a calibrated pruning promises of a result: on requests like those it was calibrated with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// What pruning may change.
    pub mode: Mode,
    /// Share of the results that are not those of the full forward, at most, on average over requests.
    pub error: f64,
    /// Size of the result.
    pub results: usize,
}

/// Results of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchResponse {
    /// The query as given.
    pub query: String,
    /// Results, best first.
    pub hits: Vec<SearchHit>,
    /// Which order they are in.
    pub order: Order,
    /// What the user should know: a blind retriever, an index that is behind, a reranker left off.
    pub notices: Vec<Notice>,
    /// How fresh the index is.
    pub index: IndexFreshness,
    /// Bytes of model weights in memory: embedder and reranker.
    pub resident_weight_bytes: u64,
    /// Candidate × layer forwards of the reranker that were computed, as a share of all; `None` without one.
    pub candidate_layers_share: Option<f64>,
    /// Layers the reranker ran; `None` without one.
    pub layers_run: Option<u32>,
    /// What its pruning promises; `None` where nobody was pruned, or by a threshold that promises nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promise>,
    /// What became of the reranker's deadline, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DeadlineReport>,
    /// What the server that embeds did of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedding: Option<RemoteStage>,
    /// What a server that ranks did of it; the other stages are this machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteStage>,
    /// The stages' lists, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<StageLists>,
}

/// A source of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// The shared library that it is from; `None`: the home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    pub reason: Option<NoAnswer>,
    /// The sources, in the order of their numbers.
    pub citations: Vec<Citation>,
    /// Each sentence checked.
    pub supported: Vec<Support>,
    /// What the files say themselves, where nothing of what a model wrote was found in them; their sources are among
    /// the citations.
    pub quotes: Vec<Support>,
    /// Passages that the answer was written from, by chunk.
    pub passages: Vec<u64>,
    /// Passages that were not handed on, because their folders never leave this machine.
    pub held_back: u64,
    /// How well the best sentence of the passages fits the question, 0…1. What the reranker says counts beside it where
    /// an answer is refused.
    pub evidence: f32,
    /// Who wrote it: `extractive`, or the model.
    pub llm: String,
    /// Order of the passages it was written from.
    pub order: Order,
    /// What the user should know.
    pub notices: Vec<Notice>,
    /// How fresh the index is.
    pub index: IndexFreshness,
    /// Files that were not searched, by state: pending, failed, scans and so on.
    #[serde(deserialize_with = "by_state")]
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
    /// Where it comes from, when it was there already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<Cached>,
    /// Bytes of model weights in memory.
    pub resident_weight_bytes: u64,
}

/// Numbers of files by the names of their states.
fn by_state<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<BTreeMap<&'static str, u64>, D::Error> {
    let named = BTreeMap::<String, u64>::deserialize(from)?;
    let number = |it: FileState| Some((it.as_str(), *named.get(it.as_str())?));
    Ok(FileState::ALL.into_iter().filter_map(number).collect())
}

/// One result of the engine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RerankResult {
    /// Index into the request's documents.
    pub index: usize,
    /// The caller's id, if given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<serde_json::Value>,
    /// 0…1, or the raw logit when asked for.
    pub relevance_score: f32,
    /// Layer after which its place was settled, from 1; 0 where a server says no layers.
    pub decided_at_layer: u32,
}

/// Response of the engine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RerankResponse {
    /// Model name.
    pub model: String,
    /// Results, best first.
    pub results: Vec<RerankResult>,
    /// Dispersion threshold of the pruning, given or calibrated; none without cluster pruning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f32>,
    /// What its pruning promises, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promise>,
    /// What became of the deadline, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DeadlineReport>,
    /// What a server did of it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteStage>,
    /// What the caller should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
    /// Layers that computed at least one candidate.
    pub layers_run: u32,
    /// How the run was fitted into memory.
    pub plan: MemoryPlan,
    /// Tokens at the beginning of all pairs that were computed once.
    pub shared_prefix_tokens: u64,
    /// Milliseconds: `tokenize`, `forward`, `io_wait`, `total`.
    pub timings_ms: BTreeMap<&'static str, f64>,
    /// Bytes: `resident_weight_bytes`, `scratch_bytes`; the tops add the process's peak.
    pub memory: BTreeMap<&'static str, u64>,
}
