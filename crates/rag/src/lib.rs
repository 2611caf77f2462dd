//! The façade: [`Library`] indexes, [`Assistant`] answers.
//!
//! Only this crate knows the order of the stages. Indexing: scan → read and parse (in child processes) →
//! chunk → embed → one catalog transaction per batch → the search indexes follow the catalog's log. A
//! question: keyword and vector retrieval side by side → reciprocal rank fusion → text from the catalog →
//! GRATING, if a reranker is chosen → hits, or an answer whose every sentence is checked against the
//! passage it cites. One [`Config`] in, plain data out; the tops draw it, print it, serve it.
//!
//! Inside, each room knows the ones before it: `contract` (requests, responses, events, errors), `home` (the folder
//! that holds all state), `index`, `search`, `answer`. What a search and an answer need is here at the root; what
//! serves one purpose more is in a module of its own: [`claims`], [`install`], [`llm`], [`models`], [`preview`],
//! [`records`], [`rerank`].
//!
//! Deliberately absent: Tauri, HTTP, the command line, reading the environment, and measuring: stages open
//! `tracing` spans with the target `riddle::stage`, and whoever wants the times listens.

mod answer;
mod contract;
mod home;
mod index;
mod search;
mod stage;

pub use answer::{AskEvent, CheckedClaim, Outgoing, same_terms};
/// Answers that are prepared while nobody waits.
pub mod prepare {
    pub use crate::answer::{
        Conversion, Fill, Idle, KeptQuestion, Limits, PrepareReport, Prepared, convert, fill,
        may_work,
    };
}

pub use contract::{
    AskRequest, AskResponse, Audience, Cached, Citation, DEFAULT_CANDIDATES, DEFAULT_FUSED,
    Earlier, EmbedPrompts, EndpointInfo, Error, FileStatus, IndexEvent, IndexFreshness,
    IndexReport, KeyState, LLM_EXTRACTIVE, LLM_LOCAL, LLM_REMOTE, Libraries, LibraryStatus,
    LocalDraft, LocalLlm, MeaningStatus, ModelStatus, NoAnswer, Order, PictureStatus, Problem,
    Promise, Pruning, REUSE_THRESHOLD, Reach, ReadScans, RemoteLlm, RemoteStage, RerankChoice,
    RerankSettings, Rest, Result, Reuse, ReuseGrade, ReuseSettings, RootStatus, STANDARD_ERROR,
    ScanSettings, SearchHit, SearchRequest, SearchResponse, StageLists, StageServer, Status,
    StatusRequest,
};
pub use home::{
    Config, DEFAULT_EMBEDDER, DEFAULT_MAX_FILE_BYTES, NO_RERANKER, Records, SharedEncoders,
};
pub use index::{InputDocument, Library};
/// Is what an answer says in the passages it cites? Sentences, features, verdicts.
pub use riddle_claims as claims;
pub use riddle_claims::{Support, Verdict};
pub use riddle_grating::{Arithmetic, Guarantee, Meets, Mode};
pub use riddle_ingest::{WorkerCommand, worker_main};
/// Language models: how they are chosen, run and measured.
pub use riddle_llm as llm;
/// The model store: pulling, importing, verifying, listing.
pub use riddle_models as models;
pub use search::{
    Assistant, Embedded, Found, FoundCandidate, KnownCandidate, Lengths, RerankAs, RerankRun,
    Settled,
};

/// Bringing models in, and their weights into our own store.
pub mod install {
    pub use riddle_embedding::{SupportedModel, supported as supported_onnx_embedders};
    pub use riddle_grating::{STORE_FILE, StorePrecision, WeightCount};

    pub use crate::home::{
        Converted, ModelElsewhere, convert_model, count_weights, import_model, pull_model,
        remove_model, verify_store,
    };
}

/// Which of the installed models is best for the files of a home.
pub use search::trial;

/// What models in this process have read of prompts, kept between questions.
pub mod prefixes {
    pub use riddle_cache::{DEFAULT_LIMIT, Freed, Limit, RootStatus, Status, Store};

    pub use crate::home::{PREFIX_BYTES_SETTING, clear_prefixes as clear, prefixes};
}

/// Whether a home is sound, and how it comes to another machine.
pub mod upkeep {
    pub use crate::{
        contract::CheckReport,
        home::{check, export_home, import_home},
    };
}

/// What of a file is shown beside a hit, and the words in it that were asked for.
pub mod preview {
    pub use riddle_claims::without_markup;
    pub use riddle_ingest::SeenLine;
    pub use riddle_retrieval::Highlighter;

    pub use crate::{
        home::{SeenOnPage, Shown, show},
        search::{Marked, excerpt, marked},
    };
}

/// Libraries that live elsewhere: named, written, looked at. They are searched as the home is.
pub mod shared {
    pub use riddle_milvus::{Error, Secret};

    pub use crate::{
        contract::{LibraryInfo, PushReport},
        index::{PushOptions, push_library},
    };
}

/// The ledger of files, folders, rules and questions: what [`Records`] reads and writes.
pub mod records {
    pub use riddle_catalog::{
        AnswerState, AskedBy, BankAnswer, BankCounts, ChunkRecord, FileId, FileOrder, FilePage,
        FileRecord, HistoryEntry, RootId,
    };

    pub use crate::home::{AnswersStatus, FolderStatus, IndexBytes, Passage, Rule, RuleEffect};
}

/// The reranking engine alone: requests, calibrations, recorded runs.
pub mod rerank {
    pub use riddle_grating::{
        Calibration, CalibrationOptions, Centroids, DeadlineProfile, ElasticEngine, ElasticOptions,
        FORCE_ISA, RatedDevice, Replay, Run, Trace, TraceRecorder, Within, chart, sigmoid,
    };

    pub use crate::{
        contract::{RerankDocument, RerankRequest, RerankResponse, RerankResult},
        search::{
            Calibrated, CheckedPromise, LabelledRequest, PriorReranker, ReplayDetail,
            RequestReranker, Sharded, calibrate, calibration, check_calibration, elastic_profile,
            fingerprint, open_elastic, open_reranker, replay_detail, replay_trace, request_prior,
            shard_model,
        },
    };
}
