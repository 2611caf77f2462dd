//! What a reranker with a deadline needs beside its model: shards, and what was measured of model and machine. Both are
//! derived, lie in the home under the model's fingerprint, and are made when they are first needed.

use std::{ops::ControlFlow, path::Path, time::Instant};

use riddle_grating::{
    Centroids, DEADLINE_PROFILE_VERSION, DeadlineProfile, ElasticEngine, ElasticFiles,
    ElasticOptions, LearnQuestion, Learned, MachineCost, ShardNumbers, ShardSummary, SliceOrdering,
    unlearned, write_shards,
};
use riddle_types::{Advice, Trouble};

use super::{calibration::fingerprint, card::RerankerCard};
use crate::{
    contract::{Error, RerankRequest, RerankSettings, Result},
    home::Config,
    stage,
};

/// Bytes of a model's weights up to which shards are made without being asked for: they take as much again, for a model
/// of a gigabyte that is a person's decision.
const MADE_UNASKED: u64 = 64 << 20;

/// A request, and how relevant each of its documents is; empty where nobody has said.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledRequest {
    /// The request.
    pub request: RerankRequest,
    /// In the order of its documents.
    pub relevant: Vec<f32>,
}

/// Shards that were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sharded {
    /// The file.
    pub file: std::path::PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// Shards in it.
    pub shards: usize,
}

/// How a model is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cutting {
    /// What its shards are made of: bytes in the product, numbers to do as the paper does.
    pub numbers: ShardNumbers,
    /// How dictionaries are found.
    pub centroids: Centroids,
}

impl Default for Cutting {
    fn default() -> Self {
        Cutting { numbers: ShardNumbers::Int8, centroids: Centroids::default() }
    }
}

fn files(config: &Config, fingerprint: &str, numbers: ShardNumbers) -> ElasticFiles {
    let dir = config.deadline_dir();
    let name = match numbers {
        ShardNumbers::Int8 => fingerprint.to_owned(),
        ShardNumbers::F32 => format!("{fingerprint}-f32"),
    };
    ElasticFiles {
        shards: dir.join(format!("{name}.shards")),
        profile: dir.join(format!("{name}.json")),
    }
}

/// The retrieval prior that a request's own cosines and keyword shares make for a model.
///
/// # Errors
/// When there is no such model.
pub fn request_prior(config: &Config, name: &str, request: &RerankRequest) -> Result<Vec<f32>> {
    let card = RerankerCard::read(&config.model_dir(name)?);
    Ok(request.prior(&card, &RerankSettings::default()).logits)
}

/// Opens a model for requests with a deadline with options of the caller's, for measurements; what is missing is made.
/// `numbers` says of which shards; `adjust` changes what is known of model and machine.
///
/// # Errors
/// When there is no such model, or it can not be cut.
pub fn open_elastic(
    config: &Config,
    name: &str,
    numbers: ShardNumbers,
    options: ElasticOptions,
    adjust: &dyn Fn(DeadlineProfile) -> DeadlineProfile,
) -> Result<ElasticEngine> {
    let dir = config.model_dir(name)?;
    let settings = RerankSettings { threads: Some(options.threads), ..RerankSettings::default() };
    let (known, _) = open_numbers(config, name, numbers, &settings)?;
    let files = files(config, &known.profile().fingerprint, numbers);
    let profile = adjust(known.profile().clone());
    let bad =
        |source: riddle_grating::Error| Error::BadModel { dir: dir.clone(), source: source.into() };
    ElasticEngine::open(&dir, &files.shards, profile, options).map_err(bad)
}

/// Makes a model's shards anew.
///
/// # Errors
/// When there is no such model, it can not be cut, or the file can not be written.
pub fn shard_model(
    config: &Config,
    name: &str,
    cutting: Cutting,
    progress: &mut dyn FnMut(usize),
) -> Result<Sharded> {
    let dir = config.model_dir(name)?;
    let fingerprint = fingerprint(&dir)?;
    let path = files(config, &fingerprint, cutting.numbers).shards;
    let ShardSummary { bytes, shards } = make(&dir, &path, &fingerprint, cutting, progress)?;
    Ok(Sharded { file: path, bytes, shards })
}

fn make(
    dir: &Path,
    path: &Path,
    fingerprint: &str,
    cutting: Cutting,
    progress: &mut dyn FnMut(usize),
) -> Result<ShardSummary> {
    let bad = |source: riddle_grating::Error| Error::BadModel {
        dir: dir.to_path_buf(),
        source: source.into(),
    };
    let io = |source| Error::Io { path: path.to_path_buf(), source };
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(io)?;
    let in_order = RerankerCard::read(dir).slices_in_order;
    let order = if in_order { SliceOrdering::Own } else { SliceOrdering::Magnitude };
    let Cutting { numbers, centroids } = cutting;
    write_shards(dir, (path, fingerprint), numbers, centroids, order, progress)
        .map_err(|error| bad(error.into()))
}

/// Measures this machine, and learns from questions what a model's shards are worth; without any, what was learned
/// before stays. `progress` sees how much is done, 0…1, and may stop.
///
/// # Errors
/// When there is no such model, it has no shards and can not be cut, or something can not be read or written.
pub fn elastic_profile(
    config: &Config,
    name: &str,
    numbers: ShardNumbers,
    requests: &[LabelledRequest],
    progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
) -> Result<DeadlineProfile> {
    let dir = config.model_dir(name)?;
    let fingerprint = fingerprint(&dir)?;
    let settings = RerankSettings::default();
    let what = Cut { dir: &dir, fingerprint: &fingerprint, numbers };
    let (engine, _) = open_or_make(config, what, &settings, Some(MachineCost::unknown()))?;
    let bad =
        |source: riddle_grating::Error| Error::BadModel { dir: dir.clone(), source: source.into() };
    let machine = engine.measure().map_err(bad)?;
    let card = RerankerCard::read(&dir);
    let question = |it: &LabelledRequest| LearnQuestion {
        query: it.request.query.clone(),
        candidates: it.request.documents.iter().map(|it| it.text().to_owned()).collect(),
        prior: it.request.prior(&card, &settings).logits,
        relevant: it.relevant.clone(),
    };
    let questions: Vec<LearnQuestion> = requests.iter().map(question).collect();
    let learned = if questions.is_empty() {
        engine.profile().learned.clone()
    } else {
        engine.learn(&questions, progress).map_err(bad)?
    };
    let profile = DeadlineProfile {
        version: DEADLINE_PROFILE_VERSION,
        fingerprint: fingerprint.clone(),
        machine,
        learned,
    };
    keep(&files(config, &fingerprint, numbers).profile, &profile)?;
    Ok(profile)
}

/// Opens a model for requests with a deadline. What is missing is made; then with the moment at which it was there.
pub(super) fn open(
    config: &Config,
    name: &str,
    settings: &RerankSettings,
) -> Result<(ElasticEngine, Option<Instant>)> {
    open_numbers(config, name, ShardNumbers::Int8, settings)
}

/// A model and the shards that are meant.
#[derive(Clone, Copy)]
struct Cut<'a> {
    dir: &'a Path,
    fingerprint: &'a str,
    numbers: ShardNumbers,
}

fn open_numbers(
    config: &Config,
    name: &str,
    numbers: ShardNumbers,
    settings: &RerankSettings,
) -> Result<(ElasticEngine, Option<Instant>)> {
    let mut prepared = None;
    let dir = config.model_dir(name)?;
    let fingerprint = fingerprint(&dir)?;
    let what = Cut { dir: &dir, fingerprint: &fingerprint, numbers };
    let known = read(&files(config, &fingerprint, numbers).profile, &fingerprint);
    if known.as_ref().is_none_or(|it| !it.machine.is_of_here()) {
        let _stage = stage::enter("prepare");
        let made = prepare(config, what, name).and_then(|()| {
            elastic_profile(config, name, numbers, &[], &mut |_| ControlFlow::Continue(()))
        });
        match made {
            Ok(_) => {}
            // What another machine takes is better than no plan, where nothing can be written.
            Err(error) if known.is_some() => tracing::warn!(%error, "this machine is not measured"),
            Err(error) => return Err(error),
        }
        prepared = Some(Instant::now());
    }
    let (engine, made) = open_or_make(config, what, settings, None)?;
    Ok((engine, made.or(prepared)))
}

/// Opens shards; where they are damaged, of an older version, or of weights that were there before, they are made anew,
/// once: then with the moment at which they were there.
fn open_or_make(
    config: &Config,
    what: Cut<'_>,
    settings: &RerankSettings,
    machine: Option<MachineCost>,
) -> Result<(ElasticEngine, Option<Instant>)> {
    match open_with(config, what, settings, machine.clone()) {
        Err(Error::BadModel { source, .. }) => {
            tracing::warn!(error = %source, "shards are made anew");
            let Cut { dir, fingerprint, numbers } = what;
            let path = files(config, fingerprint, numbers).shards;
            let cutting = Cutting { numbers, ..Cutting::default() };
            make(dir, &path, fingerprint, cutting, &mut |_| ())?;
            let engine = open_with(config, what, settings, machine)?;
            Ok((engine, Some(Instant::now())))
        }
        other => other.map(|it| (it, None)),
    }
}

/// Makes shards where there are none and nobody needs to be asked.
fn prepare(config: &Config, what: Cut<'_>, name: &str) -> Result<()> {
    let Cut { dir, fingerprint, numbers } = what;
    let path = files(config, fingerprint, numbers).shards;
    if path.exists() {
        return Ok(());
    }
    let large = weights_in(dir);
    // Nobody has shards of numbers made who has not asked for them.
    if large > MADE_UNASKED && numbers == ShardNumbers::Int8 {
        let what = format!(
            "{name} has no shards yet, which a deadline needs; they would take about {} MB",
            large.div_ceil(1_000_000)
        );
        return Err(Error::BadRequest(Trouble::with(what, Advice::ShardModel)));
    }
    let cutting = Cutting { numbers, ..Cutting::default() };
    make(dir, &path, fingerprint, cutting, &mut |_| ())?;
    Ok(())
}

/// Bytes of the files of a model.
fn weights_in(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries.filter_map(|it| Some(it.ok()?.metadata().ok()?.len())).sum()
}

fn open_with(
    config: &Config,
    what: Cut<'_>,
    settings: &RerankSettings,
    machine: Option<MachineCost>,
) -> Result<ElasticEngine> {
    let Cut { dir, fingerprint, numbers } = what;
    let bad = |source: riddle_grating::Error| Error::BadModel {
        dir: dir.to_path_buf(),
        source: source.into(),
    };
    let files = files(config, fingerprint, numbers);
    if !files.shards.exists() {
        prepare(config, what, &dir.to_string_lossy())?;
    }
    let kept = read(&files.profile, fingerprint);
    let defaults = ElasticOptions::default();
    let options = ElasticOptions {
        threads: settings.threads.unwrap_or(config.threads),
        max_tokens: settings.max_tokens,
        embedding_rows: settings.embedding_rows.unwrap_or(defaults.embedding_rows),
        micro_batch_tokens: settings.micro_batch_tokens.unwrap_or(defaults.micro_batch_tokens),
        keep_bytes: settings.preload_bytes,
        // What is measured is the disk and not its cache.
        direct_io: settings.direct_io || machine.is_some(),
        ..defaults
    };
    let profile = match (kept, machine) {
        (Some(kept), None) => kept,
        (kept, machine) => DeadlineProfile {
            version: DEADLINE_PROFILE_VERSION,
            fingerprint: fingerprint.to_owned(),
            machine: machine.unwrap_or_else(MachineCost::unknown),
            learned: kept.map_or_else(|| learned(fingerprint), |it| it.learned),
        },
    };
    let mut engine = ElasticEngine::open(dir, &files.shards, profile, options).map_err(bad)?;
    engine.fit_learned(unlearned);
    Ok(engine)
}

/// What came with the program of the model that does.
fn learned(fingerprint: &str) -> Learned {
    let known: std::collections::HashMap<String, Learned> =
        serde_json::from_str(include_str!("learned.json")).unwrap_or_default();
    known.get(fingerprint).cloned().unwrap_or_default()
}

/// The profile, if there is one of this version and model.
fn read(path: &Path, fingerprint: &str) -> Option<DeadlineProfile> {
    let profile: DeadlineProfile = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    let fits = profile.version == DEADLINE_PROFILE_VERSION && profile.fingerprint == fingerprint;
    fits.then_some(profile)
}

/// Writes beside and renames: a reader sees the old one or the new one.
fn keep(path: &Path, profile: &DeadlineProfile) -> Result<()> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(io)?;
    let text = serde_json::to_vec(profile).map_err(|error| io(error.into()))?;
    let beside = path.with_extension(format!("json.{}", std::process::id()));
    std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path)).map_err(|error| {
        let _ = std::fs::remove_file(&beside);
        io(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::calibration::BESIDE_MODEL;

    /// Both are looked up by these weights' fingerprint, and nothing else would say that they are another model's.
    #[test]
    fn what_comes_with_the_bundled_model_was_learned_of_its_weights() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/models/riddle-reranker");
        let fingerprint = fingerprint(&dir).expect("a fingerprint");
        let learned = learned(&fingerprint);
        assert!(learned.questions > 0, "nothing was learned of {fingerprint}");
        assert_eq!(learned.importance.len(), 4);
        let text = std::fs::read(dir.join(BESIDE_MODEL)).expect("a calibration");
        let calibration: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(calibration["fingerprint"], fingerprint.as_str());
    }
}
