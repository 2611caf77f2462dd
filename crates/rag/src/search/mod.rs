//! Searching: what the indexes find, and the order that a reranker puts it in.

mod allowed;
mod calibrate;
mod calibration;
mod card;
mod choose;
mod direct;
mod elastic;
mod embedded;
mod excerpt;
mod find;
mod fold;
mod language;
mod legs;
mod library;
mod merge;
mod open;
mod prune;
mod ranker;
mod readable;
mod reader;
mod remote;
mod replay;
mod rerank;
mod rights;
mod run;
mod settle;
mod shared;
mod tokens;
pub mod trial;
mod understood;

pub use calibrate::{Calibrated, CheckedPromise, calibrate, check_calibration};
pub use calibration::{calibration, fingerprint};
#[cfg(test)]
pub(crate) use card::Answers;
pub use direct::{Embedded, RerankAs};
pub use elastic::{
    Cutting, LabelledRequest, Sharded, elastic_profile, open_elastic, request_prior, shard_model,
};
pub use excerpt::{Marked, excerpt, marked};
pub(crate) use find::hit_of;
pub use find::{Found, FoundCandidate, KnownCandidate, Lengths};
pub use library::is_elsewhere;
pub(crate) use prune::Unpruned;
pub use reader::Assistant;
pub use replay::{ReplayDetail, replay_detail};
pub use rerank::{PriorReranker, RequestReranker, open_reranker, replay_trace};
pub use run::RerankRun;
pub use settle::Settled;
pub(crate) use understood::leaves_out;
