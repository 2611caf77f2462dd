//! What a home is set to: names of settings in the catalog, and what they mean.

use riddle_catalog::Catalog;
use riddle_models::{DEFAULT_RERANKER, DEFAULT_SPARSE_ENCODER};

use super::config::DEFAULT_EMBEDDER;
use crate::contract::{MeaningLimits, Result, ReuseSettings, StageServer};

/// Setting: how answers that are already there are used, as JSON.
pub(crate) const REUSE_SETTING: &str = "reuse";

/// What the setting means; the defaults where another version has written it.
pub(crate) fn reuse_settings(catalog: &Catalog) -> Result<ReuseSettings> {
    let text = catalog.setting(REUSE_SETTING)?;
    Ok(text.and_then(|it| serde_json::from_str(&it).ok()).unwrap_or_default())
}

/// Setting: when the index was last brought up to date.
pub(crate) const AS_OF_SETTING: &str = "as_of";

/// Setting: name or directory of the reranker that searches use.
pub(crate) const RERANKER_SETTING: &str = "reranker";

/// Setting: name or directory of the reranker of this machine that was used before a server was.
const RERANKER_HERE: &str = "reranker_here";

/// Value of that setting for no reranker; without the setting it is [`DEFAULT_RERANKER`].
pub const NO_RERANKER: &str = "none";

/// What the setting means.
pub(crate) fn configured_reranker(catalog: &Catalog) -> Result<Option<String>> {
    Ok(match catalog.setting(RERANKER_SETTING)? {
        Some(name) if name == NO_RERANKER => None,
        Some(name) => Some(name),
        None => Some(DEFAULT_RERANKER.to_owned()),
    })
}

/// The model of this machine that ranks where a server does not: the one that is chosen, or was before a server.
pub(crate) fn reranker_here(catalog: &Catalog) -> Result<String> {
    let chosen = configured_reranker(catalog)?.filter(|it| StageServer::of(it).is_none());
    let before = || catalog.setting(RERANKER_HERE).transpose();
    let name = chosen.map(Ok).or_else(before).transpose()?;
    Ok(name.unwrap_or_else(|| DEFAULT_RERANKER.to_owned()))
}

/// Keeps what searches are reranked by; a server beside the model that was used before it.
pub(crate) fn keep_reranker(catalog: &Catalog, name: Option<&str>) -> Result<()> {
    if name.is_some_and(|it| StageServer::of(it).is_some()) {
        catalog.set_setting(RERANKER_HERE, Some(&reranker_here(catalog)?))?;
    }
    Ok(catalog.set_setting(RERANKER_SETTING, Some(name.unwrap_or(NO_RERANKER)))?)
}

/// Setting: name or directory of the embedder that new vectors are made with.
pub(crate) const EMBEDDER_SETTING: &str = "embedder";

/// Name or directory of the embedder that the home wants.
pub(crate) fn wanted_embedder(catalog: &Catalog) -> Result<String> {
    Ok(catalog.setting(EMBEDDER_SETTING)?.unwrap_or_else(|| DEFAULT_EMBEDDER.to_owned()))
}

/// Setting: numbers of a vector that are kept of what it makes; without the setting as many as the model says.
pub(crate) const EMBEDDER_NUMBERS: &str = "embedder.numbers";

/// What such a setting means.
pub(crate) fn numbers(catalog: &Catalog, setting: &str) -> Result<Option<usize>> {
    Ok(catalog.setting(setting)?.and_then(|it| it.parse().ok()))
}

/// Setting: bytes of memory that the embedder may take.
const EMBEDDER_MEMORY: &str = "embedder.memory";

/// What the setting means; `None` without it.
pub(crate) fn embedder_memory(catalog: &Catalog) -> Result<Option<u64>> {
    Ok(catalog.setting(EMBEDDER_MEMORY)?.and_then(|it| it.parse().ok()))
}

/// Keeps it.
pub(crate) fn keep_embedder_memory(catalog: &Catalog, bytes: Option<u64>) -> Result<()> {
    let text = bytes.map(|it| it.to_string());
    Ok(catalog.set_setting(EMBEDDER_MEMORY, text.as_deref())?)
}

/// Setting: name or directory of the sparse encoder that weighs terms.
pub(crate) const SPARSE_SETTING: &str = "sparse";

/// Value of that setting for no sparse encoder; without the setting it is [`DEFAULT_SPARSE_ENCODER`], where that is
/// installed.
pub(crate) const NO_SPARSE_ENCODER: &str = "none";

/// Name or directory of the sparse encoder that the home wants; `None`: it wants none.
pub(crate) fn wanted_sparse(catalog: &Catalog) -> Result<Option<String>> {
    Ok(match catalog.setting(SPARSE_SETTING)? {
        Some(name) if name == NO_SPARSE_ENCODER => None,
        Some(name) => Some(name),
        None => Some(DEFAULT_SPARSE_ENCODER.to_owned()),
    })
}

/// Setting: name or directory of the sparse encoder that the newest weights of terms were made with.
pub(crate) const WEIGHED_WITH: &str = "weighed_with";

/// Setting: what [`weights`](super::embedder::weights) said of it then.
pub(crate) const WEIGHED_WITH_WEIGHTS: &str = "weighed_with_weights";

/// Setting: percent of the processor that vectors may take beside a person's work.
const MEANING_CPU: &str = "meaning.cpu";

/// Percent that are taken unless told otherwise.
const STANDARD_CPU: u32 = 100;

/// Setting: MiB of the largest file that is read.
pub(crate) const LARGEST_FILE: &str = "files.largest_mib";

/// What the setting means, in bytes; `None` without it.
pub(crate) fn largest_file(catalog: &Catalog) -> Result<Option<u64>> {
    let mib = catalog.setting(LARGEST_FILE)?.and_then(|it| it.parse::<u64>().ok());
    Ok(mib.map(|it| it.clamp(1, u64::from(MOST_LARGEST_FILE)) << 20))
}

/// Largest value of the setting: a file is in the memory of this process and of its parser, which gets a gigabyte.
pub(crate) const MOST_LARGEST_FILE: u32 = 512;

/// Setting: vectors are made on battery, too.
const MEANING_ON_BATTERY: &str = "meaning.on_battery";

/// How much of the machine vectors may take beside a person's work.
pub(crate) fn meaning_limits(catalog: &Catalog) -> Result<MeaningLimits> {
    let cpu = catalog.setting(MEANING_CPU)?.and_then(|it| it.parse().ok());
    Ok(MeaningLimits {
        cpu: cpu.unwrap_or(STANDARD_CPU).clamp(1, 100),
        on_battery: catalog.setting(MEANING_ON_BATTERY)?.is_some(),
    })
}

/// Keeps the percent of the processor, 1 to 100.
pub(crate) fn keep_meaning_cpu(catalog: &Catalog, percent: u32) -> Result<()> {
    Ok(catalog.set_setting(MEANING_CPU, Some(&percent.clamp(1, 100).to_string()))?)
}

/// Keeps whether vectors are made on battery, too.
pub(crate) fn keep_meaning_on_battery(catalog: &Catalog, may: bool) -> Result<()> {
    Ok(catalog.set_setting(MEANING_ON_BATTERY, may.then_some("1"))?)
}

/// Setting: passages that got their vectors in a second, lately.
pub(crate) const MEANING_RATE: &str = "meaning.rate";

/// Setting: passages that got their weights of terms in a second, lately.
pub(crate) const WEIGHING_RATE: &str = "weighing.rate";

/// Setting: why vectors wait, while they do.
pub(crate) const MEANING_REST: &str = "meaning.rest";

/// Setting: which pages that are pictures are read; see [`ReadScans`].
pub(crate) const READ_SCANS: &str = "scans";

/// From when on pages count that are pictures, in seconds since 1970; `None`: none do.
pub(crate) fn scans_since(catalog: &Catalog) -> Result<Option<i64>> {
    Ok(match catalog.setting(READ_SCANS)?.as_deref() {
        None | Some("all") => Some(i64::MIN),
        Some(new) => new.strip_prefix("new ").and_then(|it| it.parse().ok()),
    })
}

/// Setting: `1` where a person has agreed that browsing history is read.
pub(crate) const READ_BROWSING: &str = "browsing";

/// Setting: what files were read with beside the program's own parsers, with spaces between.
pub(crate) const READ_WITH: &str = "read_with";

/// Stands among them where pictures in documents, archives and mails were looked for: earlier versions did not.
pub(crate) const PICTURES_IN_FILES: &str = "pictures-in-files";

/// Setting: name or directory of the embedder that the newest vectors were made with.
pub(crate) const EMBEDDED_WITH: &str = "embedded_with";

/// Setting: what [`weights`](super::embedder::weights) said of it then.
pub(crate) const EMBEDDED_WITH_WEIGHTS: &str = "embedded_with_weights";

/// Setting: what [`EMBEDDER_NUMBERS`] said then.
pub(crate) const EMBEDDED_WITH_NUMBERS: &str = "embedded_with.numbers";

/// Setting: its [`Embedder::id`](riddle_types::Embedder::id); while that is not the active one its introduction is
/// not finished.
pub(crate) const EMBEDDED_WITH_ID: &str = "embedded_with_id";
