//! Who judges the sentences of an answer.

use std::sync::Arc;

use riddle_claims::ClaimJudge;
use riddle_models::DEFAULT_RERANKER;
use riddle_types::Reranker;

use crate::{
    contract::{Result, SearchHit, SearchRequest},
    search::{Assistant, Unpruned},
};

impl Assistant {
    /// What judges the sentences of an answer to `question` from these passages; without the reranker that the
    /// judgment was fitted for it says less, and the notice says why.
    ///
    /// # Errors
    /// When the catalog or the embedder can not be read.
    pub fn claim_judge(
        &self,
        request: &SearchRequest,
        question: &str,
        passages: &[SearchHit],
    ) -> Result<(ClaimJudge, Option<String>)> {
        let embedder = self.embedder.get(&self.config)?;
        match self.claim_reranker(request, question, passages) {
            Ok(reranker) => Ok((ClaimJudge::new(Some(reranker), embedder), None)),
            Err(why) => {
                let notice = format!(
                    "the answer's sentences are checked by their words and meaning alone: {why}"
                );
                Ok((ClaimJudge::new(None, embedder), Some(notice)))
            }
        }
    }

    /// The reranker for judging, or why there is none.
    fn claim_reranker(
        &self,
        request: &SearchRequest,
        question: &str,
        passages: &[SearchHit],
    ) -> Result<Arc<dyn Reranker>, String> {
        let opened = self.reranker(request).map_err(|error| error.to_string())?;
        let Some(opened) = opened else { return Err("no reranker is chosen".to_owned()) };
        if opened.name != DEFAULT_RERANKER {
            return Err(format!(
                "what its scores mean is known of {DEFAULT_RERANKER}, and {} is chosen",
                opened.engine.model()
            ));
        }
        let texts = passages.iter().map(|it| it.text.as_str());
        if let Some(language) = opened.card.foreign_language(question, texts) {
            return Err(format!(
                "{} was trained on {}, and this is in another language ({language})",
                opened.engine.model(),
                opened.card.languages.join(", ")
            ));
        }
        // Pruned scores are those of a layer on the way.
        Ok(Arc::new(Unpruned(opened)))
    }
}
