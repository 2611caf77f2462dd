//! Stages that a server does: it is sent a query and passages and says how well they fit, or makes vectors of texts.
//!
//! A search does not wait for a server as a person waits for an answer: everything has a budget, and what fails comes
//! back as an error at once, so that the caller can do the work itself. A server that fails again and again is left
//! alone for a while.

mod batches;
mod breaker;
mod call;
mod embed;
mod rerank;
mod scores;
mod vectors;

use std::time::Duration;

pub use call::StageCost;
pub use embed::{Embeddings, RemoteEmbedder};
pub use rerank::{RemoteReranker, Scored};

use crate::{Endpoint, Error, Result};

/// How a server is used for a stage.
#[derive(Clone, PartialEq, Eq)]
pub struct StageOptions {
    /// Name of the model there, where it wants one.
    pub model: Option<String>,
    /// Key, sent to the server and to no other host, and only encrypted or within this machine.
    pub key: Option<String>,
    /// Longest time to find and connect to it: a machine that is off must not cost a search its patience.
    pub connect_timeout: Duration,
    /// Time for a request of all passages, tries and pauses included.
    pub budget: Duration,
    /// Tries for each batch; at least 1.
    pub tries: u32,
    /// Pause before the second try, doubled for each further one, if the server asks for none.
    pub pause: Duration,
    /// Passages that are sent at a time; text-embeddings-inference takes 32 where nobody has told it otherwise.
    pub batch_texts: usize,
    /// Bytes of passages that are sent at a time; one that is longer goes alone.
    pub batch_bytes: usize,
    /// Failures in a row after which it is left alone.
    pub failures: u32,
    /// For how long.
    pub rest: Duration,
    /// Refuse all servers but those of this machine.
    pub offline: bool,
}

impl Default for StageOptions {
    fn default() -> StageOptions {
        StageOptions {
            model: None,
            key: None,
            connect_timeout: Duration::from_secs(2),
            budget: Duration::from_secs(10),
            tries: 3,
            pause: Duration::from_millis(200),
            batch_texts: 32,
            batch_bytes: 256 << 10,
            failures: 3,
            rest: Duration::from_secs(30),
            offline: false,
        }
    }
}

impl StageOptions {
    /// Whether that server may be asked, with this key.
    fn may_ask(&self, endpoint: &Endpoint) -> Result<()> {
        if self.key.is_some() && !endpoint.may_have_key() {
            return Err(Error::OpenKey { url: endpoint.shown.clone() });
        }
        if self.offline && !endpoint.is_local() {
            return Err(Error::Offline { url: endpoint.shown.clone() });
        }
        Ok(())
    }
}

impl std::fmt::Debug for StageOptions {
    /// Without the key: this ends up in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StageOptions")
            .field("model", &self.model)
            .field("key", &self.key.is_some())
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}
