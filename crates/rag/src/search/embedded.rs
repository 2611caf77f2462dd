//! The vector of what is searched for, by a model on this machine or by a server.

use riddle_types::{EmbedRole, Trouble};

use super::{
    merge::{Made, QueryVector},
    reader::Assistant,
};
use crate::{
    contract::{Error, RemoteStage, Result, SearchRequest},
    home::embedding_server::{EmbeddingServer, Unanswered},
    stage,
};

/// What an embedder made of a query.
#[derive(Default)]
pub(super) struct Embedded {
    pub(super) vector: Option<QueryVector>,
    /// What that took, where a server was asked.
    remote: Option<RemoteStage>,
    /// Why a server has made none.
    unembedded: Option<Trouble>,
}

impl Embedded {
    pub(super) fn put_into(self, made: &mut Made) {
        (made.vector, made.remote, made.unembedded) = (self.vector, self.remote, self.unembedded);
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
        Ok(Embedded { vector, ..Embedded::default() })
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
                Embedded { vector, remote, unembedded: None }
            }
            Err(Unanswered::Failed(why)) => {
                Embedded { unembedded: Some(why), ..Embedded::default() }
            }
            Err(Unanswered::Stopped) => Embedded::default(),
        }
    }
}
