//! What the tops ask of the façade, and the plain data that they get back of the library and of the engine.
//!
//! The responses serialize to the shapes that `riddle … --json` promises; stage times and memory are
//! added by the tops, which own the measuring.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use riddle_grating::{Arithmetic, Guarantee, Meets, Mode};
use riddle_types::{FileState, Filter, MemoryPlan};
use serde::{Deserialize, Serialize};

use crate::{IndexFreshness, LocalLlm, RemoteLlm};

/// Candidates that each retriever proposes by default: 10 + 10, the setting of the GRATING paper (§6.3).
pub const DEFAULT_CANDIDATES: usize = 10;

/// Which reranker to use for a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum RerankChoice {
    /// The one the home is set to use; none means the fused order.
    #[default]
    Configured,
    /// None: the fused order.
    Off,
    /// This one, by name in the model store or by directory.
    Model(String),
}

/// What decides who is pruned.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Pruning {
    /// Nobody is.
    #[default]
    Never,
    /// Cluster pruning above this dispersion (σ/μ).
    Threshold(f32),
    /// Cluster pruning at the lowest threshold that kept this precision when the model was calibrated.
    Precision {
        /// Share of the full forward's results that are kept, 0…1.
        precision: f64,
        /// Which figure has to meet it.
        meets: Meets,
    },
    /// Pruning by distance from the boundary, with a stated error probability; needs a calibration too.
    ErrorProbability {
        /// The probability, 0…1.
        probability: f64,
        /// What it is the probability of.
        guarantee: Guarantee,
    },
}

impl Pruning {
    /// Whether it is looked up in a calibration, which is made for results of a certain size.
    pub(crate) fn is_calibrated(self) -> bool {
        matches!(self, Pruning::Precision { .. } | Pruning::ErrorProbability { .. })
    }
}

/// How the reranker runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RerankSettings {
    /// What pruning may change: nothing, the order inside the set, or only the losers.
    pub mode: Mode,
    /// Who decides; without effect in mode off, where what needs a calibration is refused.
    pub pruning: Pruning,
    /// Layers in memory at once; `None`: all.
    pub window: Option<usize>,
    /// Tokens computed at a time; `None`: the engine's default.
    pub micro_batch_tokens: Option<usize>,
    /// Share of the vocabulary whose embedding rows may be in memory, 0…1; `None`: the engine's default.
    pub embedding_rows: Option<f32>,
    /// Threads; `None`: the configuration's.
    pub threads: Option<usize>,
    /// Bytes that the process is to stay within while it reranks; what is not set above is planned from it.
    pub memory_budget: Option<u64>,
    /// Keeps hidden states on disk even without a budget that asks for it.
    pub hidden_on_disk: bool,
    /// Reads layers past the page cache; the model needs a store of its own.
    pub direct_io: bool,
    /// Computes whatever all candidates begin with for each of them, as the reference does.
    pub separate_prefixes: bool,
    /// Longest pair in tokens; `None`: what the model's reference implementation reads.
    pub max_tokens: Option<usize>,
    /// Numbers that products of f32, f16, bf16 and q4 weights multiply; int8 weights always multiply bytes.
    pub arithmetic: Arithmetic,
    /// What the model is told to judge by, where its template has a place for that.
    pub instruction: Option<String>,
    /// Logits per unit of cosine that the retrieval prior adds, for a model whose card has one; 0: the model
    /// alone; `None`: as the card says.
    pub prior_scale: Option<f32>,
}

/// A search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRequest {
    /// What the user typed.
    pub query: String,
    /// Hits wanted.
    pub k: usize,
    /// Conditions on the files.
    pub filter: Filter,
    /// Candidates from the keyword index.
    pub keyword_candidates: usize,
    /// Candidates from the vector index.
    pub vector_candidates: usize,
    /// Which reranker.
    pub rerank: RerankChoice,
    /// How it runs.
    pub rerank_settings: RerankSettings,
    /// Whether to keep the reranker's layer trace and the lists of every stage in the response.
    pub explain: bool,
}

impl SearchRequest {
    /// A search for `query` with default settings, 10 hits.
    pub fn new(query: impl Into<String>) -> Self {
        SearchRequest {
            query: query.into(),
            k: 10,
            filter: Filter::default(),
            keyword_candidates: DEFAULT_CANDIDATES,
            vector_candidates: DEFAULT_CANDIDATES,
            rerank: RerankChoice::Configured,
            rerank_settings: RerankSettings::default(),
            explain: false,
        }
    }
}

/// A question of the same thread, before the one that is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Earlier {
    /// The question as it was asked.
    pub question: String,
    /// What was answered.
    pub answer: Option<String>,
    /// Passages that the answer was written from, by chunk: none are known, and it is not sent to another machine.
    pub passages: Vec<u64>,
}

impl From<String> for Earlier {
    fn from(question: String) -> Earlier {
        Earlier { question, ..Earlier::default() }
    }
}

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub struct AskRequest {
    /// How to find the passages.
    pub search: SearchRequest,
    /// Passages handed to the generator.
    pub passages: usize,
    /// What was asked before in the same thread, oldest first: a question that leans on it is read in its light.
    pub earlier: Vec<Earlier>,
    /// The endpoint that answers, where `remote` is asked for.
    pub remote: Option<RemoteLlm>,
    /// How a model in this process runs, where `local:…` is asked for.
    pub local: LocalLlm,
    /// Refuses endpoints that are not on this machine, as [`Config::offline`](crate::Config) does.
    pub offline: bool,
}

impl AskRequest {
    /// A question with default settings: answered from five passages.
    pub fn new(question: impl Into<String>) -> Self {
        AskRequest {
            search: SearchRequest::new(question),
            passages: 5,
            earlier: Vec::new(),
            remote: None,
            local: LocalLlm::default(),
            offline: false,
        }
    }
}

/// What `index` did.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct IndexReport {
    /// Files that were new.
    pub new: u64,
    /// Files that had changed.
    pub changed: u64,
    /// Files that had not.
    pub unchanged: u64,
    /// Files followed to another path.
    pub moved: u64,
    /// Files that were gone.
    pub removed: u64,
    /// Files read in this run.
    pub read: u64,
    /// Chunks embedded in this run; unchanged text keeps its vector.
    pub embedded: u64,
    /// Files per state, over all folders, after the run.
    pub states: BTreeMap<&'static str, u64>,
    /// Chunks in the catalog.
    pub chunks: u64,
    /// Folders that are missing or could not be read, with the reason; nothing below them was removed.
    pub unreachable: Vec<(PathBuf, String)>,
    /// What the user should know.
    pub notices: Vec<String>,
    /// Seconds the run took.
    pub seconds: f64,
    /// Whether the run was stopped before it was done; the rest waits in the queue.
    pub interrupted: bool,
    /// Most memory a parser's child process used.
    pub peak_parser_rss_bytes: u64,
    /// Bytes of the embedder's weights in memory.
    pub resident_weight_bytes: u64,
}

/// What happens while indexing, for progress displays.
#[derive(Debug, Clone, PartialEq)]
pub enum IndexEvent<'a> {
    /// A folder is being walked.
    Scanning(&'a Path),
    /// The queue's length is known.
    Queued(u64),
    /// A file has been dealt with.
    File {
        /// Which.
        path: &'a Path,
        /// Its new state.
        state: FileState,
        /// The reason, for states other than indexed.
        reason: &'a str,
    },
    /// Chunks are being embedded for a change of the embedder.
    Reembedding {
        /// Chunks done.
        done: u64,
        /// Chunks in all.
        total: u64,
    },
    /// The search indexes follow the catalog.
    Syncing,
    /// Everything is up to date; now watching (only with `watch`).
    Watching,
}

/// A root folder in the status.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RootStatus {
    /// The folder.
    pub path: PathBuf,
    /// Whether it is there now.
    pub present: bool,
    /// When it was last walked, in seconds since 1970.
    pub last_scan: Option<i64>,
    /// Whether its text never leaves this machine.
    pub confined: bool,
}

/// One file of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileStatus {
    /// The file.
    pub path: String,
    /// Its state.
    pub state: FileState,
    /// Why, for states other than indexed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Format family.
    pub kind: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Chunks in the catalog.
    pub chunks: u64,
    /// What the parser skipped or guessed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A model in the status.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelStatus {
    /// Name in the store.
    pub name: String,
    /// What it is: `embedder`, `reranker`, `llm`.
    pub kind: String,
    /// Bytes on disk.
    pub bytes: u64,
    /// Whether searches use it now.
    pub active: bool,
}

/// What [`Status`] is to tell beside what is known at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatusRequest {
    /// List every file.
    pub files: bool,
    /// Read the whole catalog and check it, which takes seconds in large libraries.
    pub check: bool,
}

/// State of everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Status {
    /// The home folder.
    pub home: PathBuf,
    /// Folders that are indexed.
    pub roots: Vec<RootStatus>,
    /// Folders whose text never leaves this machine, indexed or not, whole or as a part of one above.
    pub confined: Vec<PathBuf>,
    /// Files per state.
    pub states: BTreeMap<&'static str, u64>,
    /// Files waiting in the queue.
    pub queue: u64,
    /// Chunks in the catalog.
    pub chunks: u64,
    /// Bytes on disk: `catalog`, `keyword`, `vector`.
    pub index_bytes: BTreeMap<&'static str, u64>,
    /// How fresh the index is.
    pub index: IndexFreshness,
    /// Hash over path, position and text of every chunk: two homes of the same files agree in it. Only where the
    /// catalog was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Embedder whose vectors are searched; `None` before there is one.
    pub embedder: Option<String>,
    /// Reranker used by default; `None`: the fused order is shown.
    pub reranker: Option<String>,
    /// Installed models.
    pub models: Vec<ModelStatus>,
    /// Problems found, with what to do; empty is good.
    pub problems: Vec<String>,
    /// The ledger, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<FileStatus>>,
}

/// A document of the engine's request: text, or text with an id.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum RerankDocument {
    /// Plain text.
    Text(String),
    /// Text with the caller's id.
    Named {
        /// The caller's id, returned with the result.
        #[serde(default)]
        id: Option<serde_json::Value>,
        /// The text.
        text: String,
        /// Similarity of its vector to the query's, for a model with a retrieval prior.
        #[serde(default)]
        cosine: Option<f32>,
    },
}

/// The engine alone: request of `riddle rerank`, in the shape of the public `/rerank` APIs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RerankRequest {
    /// The query.
    pub query: String,
    /// The documents.
    pub documents: Vec<RerankDocument>,
    /// Results wanted; all by default.
    #[serde(default)]
    pub top_n: Option<usize>,
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
    /// Layer after which its place was settled, from 1.
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
