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
//! serves one purpose more is in a module of its own: [`claims`], [`encryption`], [`indexing`], [`install`], [`llm`],
//! [`models`], [`prefixes`], [`prepare`], [`preview`], [`records`], [`rerank`], [`reuse`], [`servers`], [`shared`],
//! [`status`], [`trial`], [`upkeep`], [`writer`].
//!
//! Deliberately absent: Tauri, HTTP, the command line, reading the environment, and measuring: stages open
//! `tracing` spans with the target `riddle::stage`, and whoever wants the times listens.

mod answer;
mod contract;
mod home;
mod index;
mod search;
mod stage;

pub use answer::{AskEvent, CheckedClaim, Outgoing};
pub use contract::{
    AskRequest, AskResponse, Audience, Citation, DEFAULT_CANDIDATES, DEFAULT_FUSED, Earlier, Error,
    Libraries, NoAnswer, Reach, Result, SearchHit, SearchRequest, SearchResponse, StageLists,
};
pub use home::{Config, DEFAULT_EMBEDDER, Records, SharedEncoders, resolved};
pub use index::Library;
/// Is what an answer says in the passages it cites? Sentences, features, verdicts.
pub use riddle_claims as claims;
pub use riddle_claims::{Support, Verdict};
/// Language models: how they are chosen, run and measured.
pub use riddle_llm as llm;
/// The model store: pulling, importing, verifying, listing.
pub use riddle_models as models;
/// Which of the installed models is best for the files of a home.
pub use search::trial;
pub use search::{
    Assistant, Embedded, Found, FoundCandidate, KnownCandidate, Lengths, Settled, is_elsewhere,
};

/// What indexing is given and reports, and the child that parses.
pub mod indexing {
    pub use riddle_ingest::{WorkerCommand, worker_main};

    pub use crate::{
        contract::{IndexEvent, IndexReport, MeaningLimits, ReadScans, ScanSettings},
        home::DEFAULT_MAX_FILE_BYTES,
        index::InputDocument,
    };
}

/// What there is of a home: files, vectors, models, and what is wrong with them.
pub mod status {
    pub use crate::contract::{
        ChangedFile, EndpointInfo, FileStatus, IndexFreshness, KeyState, LATELY_DAYS, LatelyStatus,
        LibraryStatus, MeaningStatus, ModelStatus, PictureStatus, Problem, Rest, RootStatus,
        Status, StatusRequest,
    };
}

/// Servers that do a stage in the place of this machine.
pub mod servers {
    pub use crate::contract::{EmbedPrompts, RemoteStage, StageServer};
}

/// Who writes an answer.
pub mod writer {
    pub use crate::contract::{
        LLM_EXTRACTIVE, LLM_LOCAL, LLM_REMOTE, LocalDraft, LocalLlm, RemoteLlm,
    };
}

/// Answers that are there already, and when they may be given again.
pub mod reuse {
    pub use crate::{
        answer::{NearQuestion, same_terms},
        contract::{Cached, REUSE_THRESHOLD, Reuse, ReuseGrade, ReuseSettings},
    };
}

/// Answers that are prepared while nobody waits.
pub mod prepare {
    pub use crate::answer::{Idle, PrepareReport, Prepared, may_work};
}

/// Bringing models in, and their weights into our own store.
pub mod install {
    pub use riddle_embedding::{SupportedModel, supported as supported_onnx_embedders};
    pub use riddle_grating::{STORE_FILE, StorePrecision, WeightCount};

    pub use crate::home::{
        Converted, Installed, ModelElsewhere, ModelSource, Nearness, Packing, choose_source,
        convert_model, count_weights, forget_token, import_model, keep_token, model_source,
        network, plan_model, pull_model, remove_model, token_state, verify_store,
    };
}

/// What models in this process have read of prompts, kept between questions.
pub mod prefixes {
    pub use riddle_cache::{DEFAULT_LIMIT, Freed, Limit, RootStatus, Status, Store};

    pub use crate::home::{
        PREFIX_BYTES_SETTING, clear_prefixes as clear, limit_prefixes as set_limit, prefixes,
    };
}

/// A home that is encrypted at rest.
pub mod encryption {
    pub use crate::home::{
        Protection, change_passphrase, decrypt, encrypt, forget_key, is_encrypted, protection,
        remember_key, unlock, unlock_from_keyring,
    };
}

/// Whether a home is sound, and how it comes to another machine.
pub mod upkeep {
    pub use crate::{
        contract::CheckReport,
        home::{Exported, check, export_home, import_home, is_export_encrypted},
    };
}

/// What of a file is shown beside a hit, and the words in it that were asked for.
pub mod preview {
    pub use riddle_claims::without_markup;
    pub use riddle_ingest::SeenLine;
    pub use riddle_retrieval::Highlighter;

    pub use crate::{
        home::{FilmAt, Grid, GridRow, SeenOnPage, Shown, show, shown_passages},
        search::{Marked, excerpt, marked},
    };
}

/// Libraries that live elsewhere: named, written, looked at. They are searched as the home is.
pub mod shared {
    pub use riddle_milvus::{Error, HomeSizing, Secret, ServerSizing, Sizing, Workload};

    pub use crate::{
        contract::{LibraryInfo, LibraryWriter, MappedFolder, PushReport},
        home::Fetched,
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

/// Reranking: how a search is told to, and the engine alone with its calibrations and recorded runs.
pub mod rerank {
    pub use riddle_grating::{
        Arithmetic, Calibration, CalibrationOptions, Centroids, DeadlineProfile, ElasticEngine,
        ElasticOptions, FORCE_ISA, Guarantee, Meets, Mode, RatedDevice, Replay, Run, ShardNumbers,
        Trace, TraceRecorder, Within, chart, sigmoid,
    };

    pub use crate::{
        contract::{
            Order, Promise, Pruning, RerankChoice, RerankDocument, RerankRequest, RerankResponse,
            RerankResult, RerankSettings, STANDARD_ERROR,
        },
        home::NO_RERANKER,
        search::{
            Calibrated, CheckedPromise, Cutting, LabelledRequest, PriorReranker, ReplayDetail,
            RequestReranker, RerankAs, RerankRun, Sharded, calibrate, calibration,
            check_calibration, elastic_profile, fingerprint, open_elastic, open_reranker,
            replay_detail, replay_trace, request_prior, shard_model,
        },
    };
}
