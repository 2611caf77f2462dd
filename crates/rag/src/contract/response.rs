//! What comes back: plain data.
//!
//! The responses serialize to the shapes that `riddle … --json` promises, but for notices, reasons and problems: these
//! are put into words by the tops, which also add stage times and memory, because they own the measuring.

use std::{collections::BTreeMap, path::PathBuf};

use riddle_claims::Support;
use riddle_grating::Mode;
use riddle_types::{
    DeadlineReport, FileState, GenerationStats, LayerEvent, Location, MemoryPlan, Notice,
    RankTrace, Trouble,
};
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    events::Rest,
    notice::{NoAnswer, Problem},
    request::ReadScans,
    reuse::Cached,
};

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
    /// The shared library that it is from; `None`: the home. The path is then that of another machine, the chunk's number
    /// holds for this answer alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
}

/// How fresh the index is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexFreshness {
    /// When the index was last brought up to date, in seconds since 1970; `None` before the first time.
    pub as_of: Option<i64>,
    /// Files that are known to have changed and are not read yet.
    pub files_behind: u64,
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
    /// How well the best sentence of the passages fits the question, 0…1.
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
    /// Chunks whose terms were weighed in this run.
    #[serde(skip_serializing_if = "nothing")]
    pub weighed: u64,
    /// Pages that are pictures, read in this run.
    pub pictures: u64,
    /// Files per state, over all folders, after the run.
    pub states: BTreeMap<&'static str, u64>,
    /// Chunks in the catalog.
    pub chunks: u64,
    /// Folders that are missing or could not be read, with the reason; nothing below them was removed.
    pub unreachable: Vec<(PathBuf, String)>,
    /// What the user should know.
    pub notices: Vec<Notice>,
    /// Seconds the run took.
    pub seconds: f64,
    /// Whether the run was stopped before it was done; the rest waits in the queue.
    pub interrupted: bool,
    /// Most memory a parser's child process used.
    pub peak_parser_rss_bytes: u64,
    /// Bytes of the embedder's weights in memory.
    pub resident_weight_bytes: u64,
}

/// Pages that are pictures: of scans, and pictures themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PictureStatus {
    /// They are read.
    pub read: u64,
    /// They wait to be read, or would if they were to be.
    pub waiting: u64,
    /// They are not to be read.
    pub off: bool,
    /// Seconds that reading those that wait may take, from what is usual on two cores.
    pub seconds_left: u64,
    /// Whether what reads them is installed.
    pub installed: bool,
}

/// Which scans and pictures are read, and what reading the others would take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanSettings {
    /// Which.
    pub which: ReadScans,
    /// How far that is.
    pub pictures: PictureStatus,
    /// Pages that are not to be read.
    pub left_out: u64,
    /// Seconds that reading those may take.
    pub left_out_seconds: u64,
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

/// What a look at a whole home found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CheckReport {
    /// Files that are indexed.
    pub files: u64,
    /// Passages in the catalog.
    pub passages: u64,
    /// What is wrong; empty is good.
    pub problems: Vec<Problem>,
}

/// How many passages can be found by meaning; by words all can.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct MeaningStatus {
    /// Passages that are to be found by meaning.
    pub passages: u64,
    /// Those of them that are.
    pub done: u64,
    /// Passages that words alone find: columns of numbers.
    pub words_alone: u64,
    /// Why the others wait, if something holds them up.
    pub waiting: Option<Rest>,
    /// About how long the others take, going by the last ones; `None` when there are none, or nothing to go by.
    pub seconds_left: Option<f64>,
}

/// A shared library that is known here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LibraryStatus {
    /// Its name here.
    pub name: String,
    /// Where it is.
    pub address: String,
    /// When this home last wrote all of it, in seconds since 1970; `None`: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pushed_at: Option<i64>,
}

/// What the server of a shared library says of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LibraryInfo {
    /// What is known here.
    #[serde(flatten)]
    pub library: LibraryStatus,
    /// Files in it.
    pub files: u64,
    /// Passages in it.
    pub passages: u64,
    /// The embedder that it was written with; `None`: nothing is there yet.
    pub embedder: Option<String>,
    /// The machine that writes it.
    pub machine: Option<String>,
    /// When it was last written to its end, in seconds since 1970.
    pub written_at: Option<i64>,
    /// Whether somebody is writing it, or has broken off.
    pub unfinished: bool,
    /// Why nothing is known.
    #[serde(skip)]
    pub problem: Option<Trouble>,
}

/// What writing a shared library has done.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PushReport {
    /// Its name here.
    pub library: String,
    /// Files that were written.
    pub written: u64,
    /// Files that were there already, unchanged.
    pub unchanged: u64,
    /// Files that are gone here, and were deleted there.
    pub deleted: u64,
    /// Files that stay here, because their folders never leave this machine.
    pub held_back: u64,
    /// Passages that were written.
    pub passages: u64,
    /// Whether a run before had broken off, and this one went on.
    pub resumed: bool,
    /// Whether this run was stopped before its end.
    pub interrupted: bool,
    /// Seconds that it took.
    pub seconds: f64,
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
    /// How many of them can be found by meaning; `None` before there is an embedder.
    pub meaning: Option<MeaningStatus>,
    /// Pages that are pictures.
    pub pictures: PictureStatus,
    /// Bytes on disk: `catalog`, `keyword`, `vector`, and `terms` where terms are weighed.
    pub index_bytes: BTreeMap<&'static str, u64>,
    /// How fresh the index is.
    pub index: IndexFreshness,
    /// Hash over path, position and text of every chunk: two homes of the same files agree in it. Only where the
    /// catalog was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Embedder whose vectors are searched; `None` before there is one.
    pub embedder: Option<String>,
    /// Sparse encoder whose weights of terms are searched; `None` where there is none, or it is not installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparse_encoder: Option<String>,
    /// Passages that wait for their weights of terms.
    #[serde(skip_serializing_if = "nothing")]
    pub unweighed: u64,
    /// Reranker used by default; `None`: the fused order is shown.
    pub reranker: Option<String>,
    /// Shared libraries that are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<LibraryStatus>,
    /// Installed models.
    pub models: Vec<ModelStatus>,
    /// Problems found; empty is good.
    pub problems: Vec<Problem>,
    /// The ledger, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<FileStatus>>,
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
    /// What its pruning promises, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promise>,
    /// What became of the deadline, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DeadlineReport>,
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

fn nothing(count: &u64) -> bool {
    *count == 0
}
