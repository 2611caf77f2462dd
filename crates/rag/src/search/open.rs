//! Opening the engine of a reranker by name.

use std::path::PathBuf;

use riddle_grating::{Engine, EngineOptions};

use crate::{
    contract::{Error, RerankSettings, Result},
    home::Config,
};

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
