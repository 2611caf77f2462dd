//! Choosing the reranker: it is opened first, and that is what this room does.

use super::rerank::open_reranker;
use crate::{
    contract::{RerankSettings, Result, StageServer},
    home::{endpoints::allowed_ranker, settings::reranker_here},
    index::Library,
};

impl Library {
    /// The reranker that searches use unless told otherwise, a model or a [server](StageServer); `None`: the fused
    /// order. A server is not asked now.
    ///
    /// # Errors
    /// When there is no such model or it can not be used; a server that passages may not be sent to.
    pub fn choose_reranker(&mut self, name: Option<&str>) -> Result<()> {
        match name.map(|it| (it, StageServer::of(it))) {
            Some((_, Some(server))) => {
                allowed_ranker(Some(self.catalog()), &server)?;
                return self.keep_reranker(Some(&server.name()));
            }
            Some((name, None)) => {
                open_reranker(self.config(), name, &RerankSettings::default(), 0)?;
            }
            None => {}
        }
        self.keep_reranker(name)
    }

    /// The model of this machine that ranks where a server does not.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn reranker_here(&self) -> Result<String> {
        reranker_here(self.catalog())
    }
}
