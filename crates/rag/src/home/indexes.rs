//! The search indexes as they lie in a home: how far each has followed the catalog, and the exact vectors beside them.

use std::sync::Arc;

use riddle_catalog::Catalog;
use riddle_retrieval::{KeywordReader, SparseReader, VectorReader, VectorSource};
use riddle_types::{ChunkId, StageError};

use super::config::Config;

/// Last change in the keyword index; `None` when it can not be used.
pub(crate) fn keyword_seq(config: &Config) -> Option<u64> {
    KeywordReader::open(config.keyword_index()).and_then(|it| it.applied_seq()).ok()
}

/// Last change in the vector index of an embedder; `None` when it can not be used.
pub(crate) fn vector_seq(config: &Config, embedder: &str) -> Option<u64> {
    VectorReader::open(config.vector_index(embedder), embedder, CatalogVectors::none())
        .map(|it| it.applied_seq())
        .ok()
}

/// Last change in the index of a sparse encoder; `None` when it can not be used.
pub(crate) fn sparse_seq(config: &Config, encoder: &str) -> Option<u64> {
    SparseReader::open(config.sparse_index(encoder), encoder).and_then(|it| it.applied_seq()).ok()
}

/// Exact vectors from the catalog.
pub(crate) struct CatalogVectors {
    catalog: Option<(Arc<Catalog>, String)>,
}

impl CatalogVectors {
    /// The vectors that `embedder` made.
    pub(crate) fn of(catalog: &Arc<Catalog>, embedder: &str) -> Arc<dyn VectorSource> {
        Arc::new(CatalogVectors { catalog: Some((Arc::clone(catalog), embedder.to_owned())) })
    }

    /// A source without vectors, for looking at an index without searching it.
    pub(crate) fn none() -> Arc<dyn VectorSource> {
        Arc::new(CatalogVectors { catalog: None })
    }
}

impl VectorSource for CatalogVectors {
    fn vectors(&self, chunks: &[ChunkId]) -> Result<Vec<(ChunkId, Vec<f32>)>, StageError> {
        match &self.catalog {
            Some((catalog, embedder)) => Ok(catalog.vectors_of(embedder, chunks)?),
            None => Ok(Vec::new()),
        }
    }
}
