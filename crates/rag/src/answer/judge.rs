//! Who judges the sentences of an answer.

use std::sync::Arc;

use riddle_claims::ClaimJudge;
use riddle_models::DEFAULT_RERANKER;
use riddle_types::{NoJudge, Notice, Reranker, Trouble};

use crate::{
    contract::{Error, Result, SearchHit, SearchRequest},
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
    ) -> Result<(ClaimJudge, Option<Notice>)> {
        let embedder = self.embedder_here()?;
        match self.claim_reranker(request, question, passages) {
            Ok(reranker) => Ok((ClaimJudge::new(Some(reranker), embedder), None)),
            Err(why) => {
                let notice = Notice::CheckedWithoutReranker { why };
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
    ) -> Result<Arc<dyn Reranker>, NoJudge> {
        let failed = |error: Error| NoJudge::Failed { why: Trouble::of(&error) };
        let Some(opened) = self.reranker(request).map_err(failed)? else {
            return Err(NoJudge::NotChosen);
        };
        if opened.name != DEFAULT_RERANKER {
            return Err(NoJudge::OtherModel {
                known: DEFAULT_RERANKER.to_owned(),
                chosen: opened.engine.model().to_owned(),
            });
        }
        let texts = passages.iter().map(|it| it.text.as_str());
        if let Some(language) = opened.card.foreign_language(question, texts) {
            return Err(NoJudge::Language {
                model: opened.engine.model().to_owned(),
                languages: opened.card.languages.clone(),
                language,
            });
        }
        // Pruned scores are those of a layer on the way.
        Ok(Arc::new(Unpruned(opened)))
    }
}
