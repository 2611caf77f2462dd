//! The vector of what is searched for, by a model on this machine or by a server.

use std::sync::PoisonError;

use riddle_types::{EmbedRole, Embedder, Trouble};

use super::{
    merge::{Made, QueryVector},
    reader::Assistant,
};
use crate::{
    contract::{Error, RemoteStage, Result, SearchRequest},
    home::{
        cosines::{self, CosineLevels},
        embedding_server::{EmbeddingServer, Unanswered},
    },
    stage,
};

/// What an embedder made of a query.
#[derive(Default)]
pub(super) struct Embedded {
    pub(super) vector: Option<QueryVector>,
    /// What its cosines say.
    levels: Option<CosineLevels>,
    /// What that took, where a server was asked.
    remote: Option<RemoteStage>,
    /// Why a server has made none.
    unembedded: Option<Trouble>,
}

impl Embedded {
    pub(super) fn put_into(self, made: &mut Made) {
        (made.vector, made.levels) = (self.vector, self.levels);
        (made.remote, made.unembedded) = (self.remote, self.unembedded);
    }
}

impl Assistant {
    /// The query's vector.
    pub(super) fn embedded(&self, text: &str, request: &SearchRequest) -> Result<Embedded> {
        if let Some(server) = &self.server {
            return Ok(self.embedded_at(server, text, request));
        }
        let _stage = stage::enter("embed");
        let Some(embedder) = self.embedder.get(&self.config)? else {
            return Ok(Embedded::default());
        };
        let vectors =
            embedder.embed(&[text], EmbedRole::Query).map_err(Error::stage("embedding"))?;
        let vector = vectors.into_iter().next().map(|it| (embedder.id().to_owned(), it));
        let levels = self.levels_of(&*embedder)?;
        Ok(Embedded { vector, levels, ..Embedded::default() })
    }

    /// What an embedder's cosines say; `None`: that is known, or can not be told.
    pub(super) fn levels_of(&self, embedder: &dyn Embedder) -> Result<Option<CosineLevels>> {
        let mut known = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, levels)) = known.as_ref().filter(|it| it.0 == embedder.id()) {
            return Ok(*levels);
        }
        let levels = cosines::of(&self.catalog, embedder, || self.bank())?;
        *known = Some((embedder.id().to_owned(), levels));
        Ok(levels)
    }

    /// By a server. Where it makes none words alone are searched. What nobody has asked for is sent nowhere.
    fn embedded_at(
        &self,
        server: &EmbeddingServer,
        text: &str,
        request: &SearchRequest,
    ) -> Embedded {
        if request.idle {
            return Embedded::default();
        }
        let _stage = stage::enter("embed_remote");
        match server.query(&self.config, &self.catalog, text, request.offline) {
            Ok((vector, remote)) => {
                let vector = Some((server.id().to_owned(), vector));
                // It is measured when it is chosen. One that was chosen before is not asked for that.
                let levels = cosines::known(&self.catalog, server.id()).unwrap_or_else(|error| {
                    tracing::warn!(%error, "how the server's cosines are read is not known");
                    None
                });
                let levels = levels.flatten();
                Embedded { vector, levels, remote, unembedded: None }
            }
            Err(Unanswered::Failed(why)) => {
                Embedded { unembedded: Some(why), ..Embedded::default() }
            }
            Err(Unanswered::Stopped) => Embedded::default(),
        }
    }
}
