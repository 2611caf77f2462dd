//! The façade: [`Library`] indexes, [`Assistant`] answers.
//!
//! Only this crate knows the order of the stages. Indexing: scan → read and parse (in child processes) →
//! chunk → embed → one catalog transaction per batch → the search indexes follow the catalog's log. A
//! question: keyword and vector retrieval side by side → reciprocal rank fusion → text from the catalog →
//! GRATING, if a reranker is chosen → hits, or an answer whose every sentence is checked against the
//! passage it cites. One [`Config`] in, plain data out; the tops draw it, print it, serve it.
//!
//! Deliberately absent: Tauri, HTTP, the command line, reading the environment, and measuring: stages open
//! `tracing` spans with the target `riddle::stage`, and whoever wants the times listens.

mod answer;
mod assistant;
mod border;
mod calibration;
mod card;
mod claims;
mod config;
mod derived;
mod embedder;
mod error;
mod excerpt;
mod extract;
mod follow_up;
mod foreground;
mod generator;
mod install;
mod library;
mod local;
mod markup;
mod outgoing;
mod pipeline;
mod preview;
mod read;
mod records;
mod replay;
mod request;
mod rerank;
mod response;
mod search;
mod sentences;
mod stage;
mod statements;
mod status;
mod text;
mod verdict;

pub use answer::{AskEvent, LLM_EXTRACTIVE, LLM_REMOTE};
pub use assistant::Assistant;
pub use calibration::{
    Calibrated, CheckedPromise, calibrate, calibration, check_calibration, fingerprint,
};
pub use config::{Config, DEFAULT_EMBEDDER, DEFAULT_MAX_FILE_BYTES};
pub use embedder::SharedEmbedders;
pub use error::{Error, Result};
pub use excerpt::{Marked, excerpt, marked};
pub use generator::{EndpointInfo, KeyState, RemoteLlm};
pub use install::{
    Converted, convert_model, count_weights, import_model, pull_model, verify_store,
};
pub use library::{InputDocument, Library};
pub use local::{LLM_LOCAL, LocalLlm};
pub use markup::without_markup;
pub use outgoing::Outgoing;
pub use preview::{Shown, show};
pub use records::{FolderStatus, IndexBytes, Passage, Records, Rule, RuleEffect};
pub use replay::{ReplayDetail, replay_detail};
pub use request::{
    AskRequest, DEFAULT_CANDIDATES, Earlier, FileStatus, IndexEvent, IndexReport, ModelStatus,
    Pruning, RerankChoice, RerankDocument, RerankRequest, RerankResponse, RerankResult,
    RerankSettings, RootStatus, SearchRequest, Status, StatusRequest,
};
pub use rerank::{NO_RERANKER, PriorReranker, RequestReranker, open_reranker, replay_trace};
pub use response::{
    AskResponse, Citation, IndexFreshness, Order, SearchHit, SearchResponse, StageLists, Support,
};
pub use riddle_catalog::{
    ChunkRecord, FileId, FileOrder, FilePage, FileRecord, HistoryEntry, RootId,
};
pub use riddle_embedding::{SupportedModel, supported as supported_onnx_embedders};
pub use riddle_grating::chart;
pub use riddle_grating::{
    Arithmetic, Calibration, CalibrationOptions, FORCE_ISA, Guarantee, Meets, Mode, Replay,
    STORE_FILE, StorePrecision, Trace, TraceRecorder, WeightCount,
};
pub use riddle_ingest::{WorkerCommand, worker_main};
/// Language models: how they are chosen, run and measured.
pub use riddle_llm as llm;
/// The model store: pulling, importing, verifying, listing.
pub use riddle_models as models;
pub use riddle_retrieval::Highlighter;
pub use search::{Found, FoundCandidate, NOTHING_YET, RerankRun, Settled};
pub use verdict::{ClaimFeatures, ClaimJudge, ClaimPassage, Verdict, nearest};
