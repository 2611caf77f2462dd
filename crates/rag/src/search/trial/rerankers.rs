//! Rerankers, and none, on what the home finds.

use std::time::{Duration, Instant};

use riddle_models::InstalledModel;
use riddle_types::{SilentObserver, Trouble};

use super::{
    FEWEST, OnTrial, Tried,
    held_out::{Asked, request},
    reading::read_by,
};
use crate::{
    contract::{RerankChoice, Result, SearchRequest},
    search::reader::Assistant,
};

/// The order in which it was found, which a reranker has to better.
pub(super) fn as_found(assistant: &Assistant, asked: &[Asked]) -> Result<Tried> {
    let ranks = asked.iter().map(|it| {
        let k = request(&it.question).k;
        it.reciprocal(&it.found.response(k, false).hits)
    });
    let in_use = assistant.configured_reranker()?.is_none();
    Ok(Tried { in_use, ..Tried::of(None, ranks.collect(), Vec::new()) })
}

/// `None` when `progress` stopped it.
pub(super) fn reranker(
    assistant: &Assistant,
    model: &InstalledModel,
    asked: &[Asked],
    time: Duration,
    progress: OnTrial<'_>,
) -> Result<Option<Tried>> {
    let mut ranks = Vec::with_capacity(asked.len());
    let mut times = Vec::with_capacity(asked.len());
    let mut bytes = 0;
    let mut trouble = None;
    let mut begun = Instant::now();
    for (number, it) in asked.iter().enumerate() {
        if progress(&model.name, number, asked.len()).is_break() {
            return Ok(None);
        }
        let rerank = RerankChoice::Model(model.name.clone());
        let request = SearchRequest { rerank, ..request(&it.question) };
        let started = Instant::now();
        match assistant.settle(&it.found, &request, &mut SilentObserver) {
            Ok(settled) => {
                ranks.push(it.reciprocal(&settled.response.hits));
                // A question in a language that it does not read is none of its time.
                if let Some(run) = settled.run {
                    times.push(started.elapsed());
                    bytes = run.stats.resident_weight_bytes;
                }
            }
            Err(error) => {
                trouble = Some(Trouble::of(&error));
                break;
            }
        }
        // Opening it is not its speed.
        if number == 0 {
            begun = Instant::now();
        }
        if begun.elapsed() > time && ranks.len() >= FEWEST {
            break;
        }
    }
    let in_use = assistant.configured_reranker()?.as_deref() == Some(model.name.as_str());
    let row = Tried::of(Some(model.name.clone()), ranks, times);
    let languages = read_by(model).unwrap_or_default();
    Ok(Some(Tried { in_use, bytes, languages, trouble, ..row }))
}
