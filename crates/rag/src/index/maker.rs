//! What makes the vectors of passages: a model on this machine, or a server.

use std::sync::Arc;

use riddle_catalog::Embeds;
use riddle_types::Embedder;

use crate::home::embedding_server::EmbeddingServer;

/// What makes the vectors of passages.
#[derive(Clone)]
pub(crate) enum Maker {
    Here(Arc<dyn Embedder>),
    Server(Arc<EmbeddingServer>),
}

impl Maker {
    /// What it makes is compared only with what has the same identity.
    pub(crate) fn id(&self) -> &str {
        match self {
            Maker::Here(embedder) => embedder.id(),
            Maker::Server(server) => server.id(),
        }
    }

    pub(crate) fn dimensions(&self) -> usize {
        match self {
            Maker::Here(embedder) => embedder.dimensions(),
            Maker::Server(server) => server.dimensions(),
        }
    }

    /// Which passages it is given.
    pub(crate) fn embeds(&self) -> Embeds {
        match self {
            Maker::Here(_) => Embeds::Here,
            Maker::Server(server) => server.embeds(),
        }
    }

    /// Bytes of weights in memory now.
    pub(crate) fn resident_weight_bytes(&self) -> u64 {
        match self {
            Maker::Here(embedder) => embedder.resident_weight_bytes(),
            Maker::Server(_) => 0,
        }
    }
}
