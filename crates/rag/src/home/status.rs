//! The state of a home, in numbers.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use riddle_catalog::{
    ActiveEmbedder, Catalog, Embeds, FileOrder, FilePage, FileRecord, HomeLock, Root,
};

use super::{
    config::Config,
    embedding_server, indexes, libraries,
    presence::looked_at_every,
    settings::{
        AS_OF_SETTING, MEANING_RATE, MEANING_REST, WEIGHED_WITH, configured_reranker, scans_since,
        wanted_embedder,
    },
    tools::tools,
};
use crate::contract::{
    ChangedFile, FileStatus, IndexFreshness, LATELY_DAYS, LatelyStatus, MeaningStatus, ModelStatus,
    PictureStatus, Problem, Rest, Result, RootStatus, Status, StatusRequest,
};

/// Files per state.
pub(crate) fn states(catalog: &Catalog) -> Result<BTreeMap<&'static str, u64>> {
    Ok(catalog
        .counts_by_state()?
        .into_iter()
        .map(|(state, count)| (state.as_str(), count))
        .collect())
}

/// Files that are indexed, per kind.
fn kinds(catalog: &Catalog) -> Result<BTreeMap<&'static str, u64>> {
    let counts = catalog.counts_by_kind()?.into_iter();
    Ok(counts.map(|(kind, count)| (kind.as_str(), count)).collect())
}

/// When lately began, in seconds since 1970.
pub(super) fn lately_since() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    now.cast_signed() - i64::from(LATELY_DAYS) * 24 * 3600
}

/// Files that are new or have changed, with a list of them where one is asked for.
fn lately(catalog: &Catalog, listed: bool) -> Result<LatelyStatus> {
    let since = lately_since();
    let of = |it: FileRecord| ChangedFile {
        path: it.path.to_string_lossy().into_owned(),
        state: it.state,
        kind: it.kind.as_str().to_owned(),
        changed: it.changed.unwrap_or_default(),
    };
    let page = FilePage {
        changed_since: Some(since),
        order: FileOrder::Changed,
        descending: true,
        limit: usize::MAX >> 1,
        ..FilePage::default()
    };
    let newest =
        if listed { Some(catalog.file_page(&page)?.0.into_iter().map(of).collect()) } else { None };
    Ok(LatelyStatus { days: LATELY_DAYS, files: catalog.count_changed(since)?, newest })
}

/// How fresh the index is.
pub(crate) fn freshness(catalog: &Catalog) -> Result<IndexFreshness> {
    Ok(IndexFreshness {
        as_of: catalog.setting(AS_OF_SETTING)?.and_then(|it| it.parse().ok()),
        files_behind: catalog.pending_jobs()?,
    })
}

/// How many passages can be found by meaning; `None` before there is an embedder.
pub(crate) fn meaning(catalog: &Catalog) -> Result<Option<MeaningStatus>> {
    let Some(active) = catalog.active_embedder()? else { return Ok(None) };
    let words_alone = catalog.count_by_words_alone()?;
    let passages = catalog.chunk_count()?.saturating_sub(words_alone);
    let embeds = embedding_server::embeds(catalog)?;
    let kept_here = match embeds {
        Embeds::Here => 0,
        Embeds::Elsewhere => catalog.count_withheld(&active.id)?.min(passages),
    };
    let passages = passages - kept_here;
    let missing = catalog.count_without_vector(&active.id, embeds)?.min(passages);
    let rate: Option<f64> = catalog.setting(MEANING_RATE)?.and_then(|it| it.parse().ok());
    let rest = catalog.setting(MEANING_REST)?.and_then(|it| Rest::parse(&it));
    Ok(Some(MeaningStatus {
        passages,
        done: passages - missing,
        words_alone,
        kept_here,
        waiting: rest.filter(|_| missing > 0),
        seconds_left: rate.filter(|it| missing > 0 && *it > 0.0).map(|it| missing as f64 / it),
    }))
}

/// Seconds that a page takes on two cores, by measurement.
pub(crate) const SECONDS_A_PAGE: u64 = 3;

/// Pages that are pictures.
pub(crate) fn pictures(config: &Config, catalog: &Catalog) -> Result<PictureStatus> {
    let since = scans_since(catalog)?;
    let (waiting, read) = catalog.count_pictures(since.unwrap_or(i64::MIN))?;
    let installed = tools(config).reads_pictures();
    Ok(PictureStatus {
        read,
        waiting,
        seconds_left: waiting * SECONDS_A_PAGE,
        installed,
        off: since.is_none(),
    })
}

/// The sparse encoder whose weights of terms are searched, if it is installed.
fn sparse_encoder(config: &Config, catalog: &Catalog) -> Result<Option<String>> {
    let name = catalog.setting(WEIGHED_WITH)?;
    let installed = name.is_some_and(|it| config.model_dir(&it).is_ok());
    Ok(catalog.term_encoder()?.filter(|_| installed))
}

/// Everything about a home.
pub(crate) fn status(config: &Config, catalog: &Catalog, request: StatusRequest) -> Result<Status> {
    let confined = catalog.confined()?;
    let active = catalog.active_embedder()?;
    let reranker = configured_reranker(catalog)?;
    let wanted = wanted_embedder(catalog)?;
    let sparse_encoder = sparse_encoder(config, catalog)?;
    let weighed_with = catalog.setting(WEIGHED_WITH)?;
    let embeds = active.as_ref().map(|_| wanted.as_str());
    let weighs = sparse_encoder.as_ref().and(weighed_with.as_deref());
    let models = models(config, [embeds, weighs, reranker.as_deref()]);
    let mut problems = problems(config, catalog, active.as_ref(), &wanted)?;
    let mut fingerprint = None;
    if request.check {
        let troubles = catalog.check()?.into_iter();
        problems.splice(0..0, troubles.map(|trouble| Problem::Catalog { trouble }));
        fingerprint = Some(catalog.fingerprint()?);
    }
    Ok(Status {
        home: config.home.clone(),
        roots: roots(catalog, &confined)?,
        confined,
        states: states(catalog)?,
        kinds: kinds(catalog)?,
        lately: lately(catalog, request.lately)?,
        queue: catalog.pending_jobs()?,
        chunks: catalog.chunk_count()?,
        meaning: meaning(catalog)?,
        pictures: pictures(config, catalog)?,
        index_bytes: index_bytes(config),
        index: freshness(catalog)?,
        fingerprint,
        embedder: active.map(|it| it.id),
        embedding_server: embedding_server::origin(catalog)?,
        unweighed: match sparse_encoder {
            Some(_) => catalog.count_without_terms()?,
            None => 0,
        },
        sparse_encoder,
        reranker,
        libraries: libraries::known(catalog)?,
        models,
        problems,
        files: if request.files { Some(ledger(catalog)?) } else { None },
    })
}

/// The folders that are indexed; those at or below one of `confined` never leave this machine.
fn roots(catalog: &Catalog, confined: &[PathBuf]) -> Result<Vec<RootStatus>> {
    let of = |it: Root| RootStatus {
        present: it.is_virtual || it.path.is_dir(),
        last_scan: it.last_scan,
        confined: confined.iter().any(|folder| it.path.starts_with(folder)),
        looked_at_every: looked_at_every(&it.path),
        path: it.path,
    };
    Ok(catalog.roots()?.into_iter().map(of).collect())
}

/// The installed models; `searched_with` are the names of those that searches use.
fn models(config: &Config, searched_with: [Option<&str>; 3]) -> Vec<ModelStatus> {
    let installed = config.model_store().and_then(|store| Ok(store.list_all()?));
    installed
        .unwrap_or_default()
        .into_iter()
        .map(|it| ModelStatus {
            active: searched_with.contains(&Some(it.name.as_str())),
            kind: it.kind.to_string(),
            bytes: it.bytes,
            name: it.name,
        })
        .collect()
}

/// Bytes on disk, by what they are for.
fn index_bytes(config: &Config) -> BTreeMap<&'static str, u64> {
    let mut bytes = BTreeMap::from([
        ("catalog", bytes_below(config.catalog().path())),
        ("keyword", bytes_below(config.keyword_index().path())),
        ("vector", bytes_below(&config.home.join("vector"))),
    ]);
    let terms = bytes_below(&config.home.join("terms"));
    if terms > 0 {
        bytes.insert("terms", terms);
    }
    bytes
}

/// What is wrong.
fn problems(
    config: &Config,
    catalog: &Catalog,
    active: Option<&ActiveEmbedder>,
    wanted: &str,
) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    let last = catalog.last_seq()?;
    if catalog.chunk_count()? > 0 {
        if indexes::keyword_seq(config) != Some(last) {
            problems.push(Problem::KeywordIndexBehind);
        }
        match active {
            Some(active) if indexes::vector_seq(config, &active.id) != Some(last) => {
                problems.push(Problem::VectorIndexBehind);
            }
            // While somebody makes them there is nothing to be done about it: `meaning` counts them.
            Some(active)
                if catalog
                    .count_without_vector(&active.id, embedding_server::embeds(catalog)?)?
                    > 0
                    && !HomeLock::is_held(&config.home) =>
            {
                problems.push(Problem::VectorsMissing);
            }
            Some(_) => {}
            None => problems.push(Problem::NoEmbedder { name: wanted.to_owned() }),
        }
    }
    Ok(problems)
}

fn ledger(catalog: &Catalog) -> Result<Vec<FileStatus>> {
    let files = catalog.files(None, usize::MAX >> 1, 0)?;
    Ok(files
        .into_iter()
        .map(|it| FileStatus {
            path: it.path.to_string_lossy().into_owned(),
            state: it.state,
            reason: Some(it.reason).filter(|it| !it.is_empty()),
            kind: it.kind.as_str().to_owned(),
            bytes: it.bytes,
            chunks: it.chunks,
            warnings: it.warnings,
        })
        .collect())
}

pub(crate) fn bytes_below(path: &Path) -> u64 {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return 0 };
    if metadata.is_file() {
        return metadata.len();
    }
    std::fs::read_dir(path).into_iter().flatten().flatten().map(|it| bytes_below(&it.path())).sum()
}
