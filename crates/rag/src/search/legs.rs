//! The lists that the home's indexes give: by words, by weighed terms, by meaning.

use std::sync::Arc;

use riddle_retrieval::KeywordHits;
use riddle_types::{ChunkSet, EmbedRole, Filter, Hit, Query, Retriever as _, TermWeights};

use super::{embedded::Embedded, reader::Assistant};
use crate::{
    contract::{Error, Result, SearchRequest},
    stage,
};

impl Assistant {
    pub(super) fn by_keyword(
        &self,
        query: &Query,
        (filter, within): (&Filter, Option<&Arc<ChunkSet>>),
        limit: usize,
    ) -> Result<KeywordHits> {
        let Some(reader) = &self.keyword else { return Ok(KeywordHits::default()) };
        let _stage = stage::enter("bm25");
        let found = reader.search_within(query, filter, within, limit);
        found.map_err(|error| Error::stage("keyword search")(error.into()))
    }

    /// The query's weights of terms; `None` where nobody weighs them.
    pub(super) fn weighed(&self, text: &str) -> Result<Option<TermWeights>> {
        let _stage = stage::enter("weigh");
        let Some(encoder) = self.weigher.get(&self.config)? else { return Ok(None) };
        let terms =
            encoder.encode(&[text], EmbedRole::Query).map_err(Error::stage("weighing terms"))?;
        Ok(terms.into_iter().next())
    }

    /// By weights of terms, and the weights of the query's; `None` where nobody weighs them.
    pub(super) fn by_terms(
        &self,
        query: &Query,
        filter: &Filter,
        limit: usize,
    ) -> Result<(Vec<Hit>, Option<TermWeights>)> {
        let Some(reader) = &self.sparse else { return Ok((Vec::new(), None)) };
        let Some(terms) = self.weighed(&query.text)? else { return Ok((Vec::new(), None)) };
        let _stage = stage::enter("terms");
        let query = Query { terms: Some(terms.clone()), ..query.clone() };
        let hits = reader.retrieve(&query, filter, limit).map_err(Error::stage("term search"))?;
        Ok((hits, Some(terms)))
    }

    pub(super) fn by_vector(
        &self,
        query: &Query,
        filter: &Filter,
        request: &SearchRequest,
        limit: usize,
    ) -> Result<(Vec<Hit>, Embedded)> {
        let Some(reader) = &self.vector else { return Ok((Vec::new(), Embedded::default())) };
        let embedded = self.embedded(&query.text, request)?;
        let Some((_, vector)) = &embedded.vector else { return Ok((Vec::new(), embedded)) };
        let _stage = stage::enter("vector");
        let query = Query { vector: Some(vector.clone()), ..query.clone() };
        let hits = reader.retrieve(&query, filter, limit).map_err(Error::stage("vector search"))?;
        Ok((hits, embedded))
    }
}
