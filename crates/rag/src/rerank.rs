//! Rerankers by name, and the engine alone.

use std::{collections::BTreeMap, time::Instant};

use riddle_grating::{Engine, EngineOptions};
use riddle_types::{LayerObserver, Reranker};

use crate::{
    Config, Error, RerankDocument, RerankRequest, RerankResponse, RerankResult, RerankSettings,
    Result, calibration,
};

/// Setting: name or directory of the reranker that searches use.
pub(crate) const RERANKER_SETTING: &str = "reranker";

/// Opens a reranker by name in the model store or by directory; `top_k` results will be asked for, which
/// matters to pruning that is calibrated and to nothing else.
///
/// # Errors
/// When there is no such model, it can not be used, a setting makes no sense, or the model is not calibrated
/// for what the settings ask.
pub fn open_reranker(
    config: &Config,
    name: &str,
    settings: &RerankSettings,
    top_k: usize,
) -> Result<Box<dyn Reranker>> {
    Ok(Box::new(open_engine(config, name, settings, top_k, false)?))
}

/// Opens the engine; `trace` asks for scores after every layer.
pub(crate) fn open_engine(
    config: &Config,
    name: &str,
    settings: &RerankSettings,
    top_k: usize,
    trace: bool,
) -> Result<Engine> {
    let dir = config.model_dir(name)?;
    let policy = calibration::policy(config, name, settings, top_k)?;
    let defaults = EngineOptions::default();
    let options = EngineOptions {
        mode: settings.mode,
        window: settings.window,
        micro_batch_tokens: settings.micro_batch_tokens,
        embedding_rows: settings.embedding_rows.unwrap_or(defaults.embedding_rows),
        threads: settings.threads.unwrap_or(config.threads),
        scores_every_layer: trace,
        ..defaults
    };
    Engine::with_policy(&dir, options, policy).map_err(|error| match error {
        riddle_grating::Error::BadOption(why) => Error::BadRequest(why),
        other => Error::BadModel { dir, source: Box::new(other) },
    })
}

/// The engine alone: a query and documents in, the best of them out.
///
/// # Errors
/// As [`open_reranker`], and what the run reports.
pub fn rerank(
    config: &Config,
    model: &str,
    settings: &RerankSettings,
    raw_scores: bool,
    request: &RerankRequest,
    observer: &mut dyn LayerObserver,
) -> Result<RerankResponse> {
    let started = Instant::now();
    let texts: Vec<&str> = request.documents.iter().map(|it| it.text()).collect();
    let top_n = request.top_n.unwrap_or(texts.len());
    let engine = open_engine(config, model, settings, top_n, true)?;
    let outcome = engine
        .rerank(&request.query, &texts, top_n, observer)
        .map_err(Error::stage("reranking"))?;
    let stats = outcome.stats;
    let results = outcome.ranked.iter().map(|ranked| RerankResult {
        index: ranked.index,
        id: request.documents[ranked.index].id().cloned(),
        relevance_score: if raw_scores { ranked.raw_score } else { ranked.score },
        decided_at_layer: ranked.decided_at_layer,
    });
    Ok(RerankResponse {
        model: engine.model().to_owned(),
        results: results.collect(),
        threshold: engine.threshold(),
        layers_run: stats.layers_run,
        timings_ms: BTreeMap::from([
            ("tokenize", stats.tokenize_ms),
            ("forward", stats.forward_ms),
            ("io_wait", stats.io_wait_ms),
            ("total", started.elapsed().as_secs_f64() * 1e3),
        ]),
        memory: BTreeMap::from([
            ("resident_weight_bytes", stats.resident_weight_bytes),
            ("scratch_bytes", stats.scratch_bytes),
        ]),
    })
}

impl RerankDocument {
    pub(crate) fn text(&self) -> &str {
        match self {
            RerankDocument::Text(text) | RerankDocument::Named { text, .. } => text,
        }
    }

    fn id(&self) -> Option<&serde_json::Value> {
        match self {
            RerankDocument::Text(_) => None,
            RerankDocument::Named { id, .. } => id.as_ref(),
        }
    }
}
