//! What the tops and the façade say to each other: requests, responses, events, errors.
//!
//! Plain data. No other room is known here, and every other room knows this one.

mod error;
mod events;
mod llm;
mod notice;
mod report;
mod request;
mod response;
mod reuse;
mod server;
mod status;

pub use error::{Error, Result};
pub use events::{IndexEvent, Rest};
pub use llm::{
    EndpointInfo, KeyState, LLM_EXTRACTIVE, LLM_LOCAL, LLM_REMOTE, LocalDraft, LocalLlm, RemoteLlm,
};
pub use notice::{NoAnswer, Problem};
pub use report::{CheckReport, IndexReport, PushReport};
pub use request::{
    AskRequest, Audience, DEFAULT_CANDIDATES, DEFAULT_FUSED, Earlier, Libraries, Pruning,
    ReadScans, RerankChoice, RerankDocument, RerankRequest, RerankSettings, STANDARD_ERROR,
    SearchRequest, StatusRequest,
};
pub use response::{
    AskResponse, Citation, Order, Promise, RerankResponse, RerankResult, SearchHit, SearchResponse,
    StageLists,
};
pub use reuse::{Cached, REUSE_THRESHOLD, Reuse, ReuseGrade, ReuseSettings};
pub use server::{EmbedPrompts, RemoteStage, StageServer};
pub use status::{
    ChangedFile, FileStatus, IndexFreshness, LATELY_DAYS, LatelyStatus, LibraryInfo, LibraryStatus,
    LibraryWriter, MappedFolder, MeaningLimits, MeaningStatus, ModelStatus, PictureStatus, Reach,
    RootStatus, ScanSettings, Status,
};
