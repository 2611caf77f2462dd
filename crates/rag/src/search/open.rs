//! Opening the engine of a reranker by name.

use std::{path::PathBuf, time::Instant};

use riddle_grating::{ElasticEngine, Engine, EngineOptions, Question, Run, Within};
use riddle_types::{LayerObserver, Prior, RerankOutcome};

use super::elastic;
use crate::{
    contract::{Error, RerankSettings, Result},
    home::{Config, is_encrypted},
};

/// What ranks: the whole model, or with a deadline what there is time for.
#[derive(Debug)]
pub(crate) enum Ranker {
    Whole(Box<Engine>),
    Elastic(Box<ElasticEngine>),
}

impl Ranker {
    /// Name of the model.
    pub(crate) fn model(&self) -> &str {
        match self {
            Ranker::Whole(engine) => riddle_types::Reranker::model(engine.as_ref()),
            Ranker::Elastic(engine) => engine.name(),
        }
    }

    pub(crate) fn num_layers(&self) -> u32 {
        match self {
            Ranker::Whole(engine) => engine.num_layers(),
            Ranker::Elastic(engine) => engine.num_layers(),
        }
    }

    pub(crate) fn resident_weight_bytes(&self) -> u64 {
        match self {
            Ranker::Whole(engine) => engine.resident_weight_bytes(),
            Ranker::Elastic(engine) => engine.resident_weight_bytes(),
        }
    }

    /// Says how much stays when it is let go.
    pub(crate) fn keep(&self, bytes: u64) {
        if let Ranker::Elastic(engine) = self {
            engine.keep(bytes);
        }
    }

    /// Lets go what need not stay; whether anything does.
    pub(crate) fn let_go(&self) -> bool {
        match self {
            Ranker::Whole(_) => false,
            Ranker::Elastic(engine) => {
                engine.let_go();
                engine.kept_bytes() > 0
            }
        }
    }

    /// Runs a request; only one with a deadline looks at the clock.
    pub(crate) fn run_as(
        &self,
        (how, within): (Run<'_>, Within),
        query: &str,
        candidates: &[&str],
        prior: Prior<'_>,
        top_k: usize,
        observer: &mut dyn LayerObserver,
    ) -> riddle_grating::Result<RerankOutcome> {
        match self {
            Ranker::Whole(engine) => engine.run_as(how, query, candidates, prior, top_k, observer),
            Ranker::Elastic(engine) => {
                engine.run(how, within, query, candidates, prior, top_k, observer)
            }
        }
    }

    /// Several requests in full.
    pub(crate) fn run_together(
        &self,
        requests: &[Question],
        observer: &mut dyn LayerObserver,
    ) -> riddle_grating::Result<Vec<RerankOutcome>> {
        let engine = match self {
            Ranker::Whole(engine) => return engine.run_together(requests, observer),
            Ranker::Elastic(engine) => engine,
        };
        let mut run = |it: &Question| {
            let texts: Vec<&str> = it.candidates.iter().map(String::as_str).collect();
            let within = Within::any_time();
            engine.run(Run::FULL, within, &it.query, &texts, Prior::NONE, it.top_k, observer)
        };
        requests.iter().map(&mut run).collect()
    }
}

/// Opens what ranks by these settings; and when what it needs was there, if that had to be made first.
pub(super) fn open_ranker(
    config: &Config,
    name: &str,
    settings: &RerankSettings,
) -> Result<(Ranker, Option<Instant>)> {
    if settings.deadline.is_some() {
        let (engine, prepared) = elastic::open(config, name, settings)?;
        return Ok((Ranker::Elastic(Box::new(engine)), prepared));
    }
    Ok((Ranker::Whole(Box::new(open_engine(config, name, settings)?)), None))
}

/// Opens the engine; who is pruned is said with each request.
pub(super) fn open_engine(
    config: &Config,
    name: &str,
    settings: &RerankSettings,
) -> Result<Engine> {
    let dir = config.model_dir(name)?;
    let embedding_rows = settings.embedding_rows;
    let options = EngineOptions {
        window: settings.window,
        micro_batch_tokens: settings.micro_batch_tokens,
        embedding_rows: embedding_rows.unwrap_or(EngineOptions::default().embedding_rows),
        threads: settings.threads.unwrap_or(config.threads),
        max_tokens: settings.max_tokens,
        memory_budget: settings.memory_budget,
        hidden_on_disk: settings.hidden_on_disk,
        // What a model knows of a text is as much as the text.
        memory_only: is_encrypted(config),
        spill_dir: spill_dir(config),
        direct_io: settings.direct_io,
        share_prefix: !settings.separate_prefixes,
        arithmetic: settings.arithmetic,
        instruction: settings.instruction.clone(),
        ..EngineOptions::default()
    };
    Engine::open(&dir, options).map_err(|error| match error {
        riddle_grating::Error::BadOption(why) => Error::BadRequest(why.into()),
        other => Error::BadModel { dir, source: other.into() },
    })
}

/// Where hidden states go when they do not fit: into the home, since the system's folder for temporary files
/// often lies in memory. Nothing is made there before the home itself is.
fn spill_dir(config: &Config) -> Option<PathBuf> {
    config.home.is_dir().then(|| config.home.clone())
}
