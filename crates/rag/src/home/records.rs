//! What a person leafs through and sets: folders, the ledger, rules, history, settings.
//!
//! [`Records`] reads and writes small things beside a [`Library`](crate::Library) that is at work; SQLite lets
//! them take turns. What changes files' states for good still goes through the library.

mod answers;
mod folders;
mod rules;

use std::path::{Path, PathBuf};

use riddle_catalog::{Catalog, ChunkRecord, FileId, FilePage, FileRecord};
use riddle_types::{ChunkId, FileKind, FileState};

pub(crate) use self::rules::rules;
pub use self::{
    answers::AnswersStatus,
    folders::FolderStatus,
    rules::{Rule, RuleEffect},
};
use super::{
    config::Config,
    endpoints,
    settings::{
        configured_reranker, keep_meaning_cpu, keep_meaning_on_battery, meaning_limits,
        reranker_here, wanted_sparse,
    },
    status,
};
use crate::contract::{
    EndpointInfo, Error, IndexFreshness, KeyState, MeaningLimits, MeaningStatus, Result,
};

/// Bytes on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexBytes {
    /// The catalog.
    pub catalog: u64,
    /// The keyword index.
    pub keyword: u64,
    /// The vector indexes.
    pub vector: u64,
    /// Indexes of weighed terms.
    pub terms: u64,
}

/// A passage with its file, if that is still inside the folder it was found in.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    /// The chunk.
    pub record: ChunkRecord,
    /// The file's size in bytes when it was indexed.
    pub bytes: u64,
}

/// The small things of a home. Any number at a time.
#[derive(Debug)]
pub struct Records {
    pub(super) config: Config,
    pub(crate) catalog: Catalog,
}

impl Records {
    /// Opens a home, making it if needed.
    ///
    /// # Errors
    /// When the home can not be made or its catalog not be opened.
    pub fn open(config: Config) -> Result<Records> {
        std::fs::create_dir_all(&config.home)
            .map_err(|source| Error::Io { path: config.home.clone(), source })?;
        let catalog = Catalog::open(config.catalog())?;
        Ok(Records { config, catalog })
    }

    /// How many passages can be found by meaning; `None` before there is an embedder.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn meaning(&self) -> Result<Option<MeaningStatus>> {
        status::meaning(&self.catalog)
    }

    /// Whether there is anything to look at: opening a home makes it.
    pub fn is_there(config: &Config) -> bool {
        config.catalog().path().is_file()
    }

    /// A setting, if it was ever set.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn setting(&self, key: &str) -> Result<Option<String>> {
        Ok(self.catalog.setting(key)?)
    }

    /// What is known of an endpoint without asking it.
    ///
    /// # Errors
    /// What is not the address of one; when the catalog can not be read.
    pub fn endpoint(&self, address: &str) -> Result<EndpointInfo> {
        endpoints::info(&self.catalog, address)
    }

    /// Lets questions and passages be sent to this endpoint from now on, or no longer; returns its scheme, host and
    /// port.
    ///
    /// # Errors
    /// What is not the address of one; when the catalog can not be written.
    pub fn allow_endpoint(&self, address: &str, may: bool) -> Result<String> {
        endpoints::allow(&self.catalog, address, may)
    }

    /// Lets the whole home be sent to a server that embeds, but folders that never leave this machine; returns its
    /// scheme, host and port. [`allow_endpoint`](Self::allow_endpoint) takes that back.
    ///
    /// # Errors
    /// What is not the address of one; when the catalog can not be written.
    pub fn allow_embedder(&self, address: &str) -> Result<String> {
        endpoints::allow_embedder(&self.catalog, address)
    }

    /// The reranker that searches use; `None`: none was chosen to be used.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn reranker(&self) -> Result<Option<String>> {
        configured_reranker(&self.catalog)
    }

    /// The model of this machine that ranks where a server does not.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn reranker_here(&self) -> Result<String> {
        reranker_here(&self.catalog)
    }

    /// Sets a setting; `None` removes it.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn set_setting(&self, key: &str, value: Option<&str>) -> Result<()> {
        Ok(self.catalog.set_setting(key, value)?)
    }

    /// Keeps the key of an endpoint in the system's secret store.
    ///
    /// # Errors
    /// What is no address or no key; where there is no secret store, or it refuses.
    pub fn keep_key(&self, address: &str, key: &str) -> Result<()> {
        endpoints::keep_key(address, key)
    }

    /// Forgets the key of an endpoint; `false`: none was kept.
    ///
    /// # Errors
    /// As [`keep_key`](Self::keep_key).
    pub fn forget_key(&self, address: &str) -> Result<bool> {
        endpoints::forget_key(address)
    }

    /// What is known of the key of an endpoint, which itself is never told.
    ///
    /// # Errors
    /// What is no address.
    pub fn key_state(&self, address: &str) -> Result<KeyState> {
        endpoints::key_state(address)
    }

    /// Files per state.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn counts(&self) -> Result<Vec<(FileState, u64)>> {
        Ok(self.catalog.counts_by_state()?)
    }

    /// Files that are indexed, per kind.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn kinds(&self) -> Result<Vec<(FileKind, u64)>> {
        Ok(self.catalog.counts_by_kind()?)
    }

    /// Files that wait to be read, per kind.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn waiting_kinds(&self) -> Result<Vec<(FileKind, u64)>> {
        Ok(self.catalog.kinds_in_state(FileState::Pending)?)
    }

    /// Passages of tables that wait to be found by meaning, which all others come before. Every one that waits is
    /// looked at.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn waiting_tables(&self) -> Result<u64> {
        match self.catalog.active_embedder()? {
            Some(active) => Ok(self.catalog.count_late_without_vector(&active.id)?),
            None => Ok(0),
        }
    }

    /// Files that were first read lately, or had changed when they were read again.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn changed_lately(&self) -> Result<u64> {
        Ok(self.catalog.count_changed(status::lately_since())?)
    }

    /// When lately began, in seconds since 1970: what [`FilePage::changed_since`] is asked with.
    pub fn lately_since(&self) -> i64 {
        status::lately_since()
    }

    /// How much of the machine vectors may take beside a person's work.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn meaning_limits(&self) -> Result<MeaningLimits> {
        meaning_limits(&self.catalog)
    }

    /// How much of it they may take from now on; a percent out of range is the nearest in it. What is at work sees it
    /// when it begins anew.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn limit_meaning(&self, limits: MeaningLimits) -> Result<()> {
        keep_meaning_cpu(&self.catalog, limits.cpu)?;
        keep_meaning_on_battery(&self.catalog, limits.on_battery)
    }

    /// Chunks in the catalog.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn chunks(&self) -> Result<u64> {
        Ok(self.catalog.chunk_count()?)
    }

    /// How fresh the index is.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn freshness(&self) -> Result<IndexFreshness> {
        status::freshness(&self.catalog)
    }

    /// Bytes on disk.
    pub fn index_bytes(&self) -> IndexBytes {
        IndexBytes {
            catalog: status::bytes_below(self.config.catalog().path()),
            keyword: status::bytes_below(self.config.keyword_index().path()),
            vector: status::bytes_below(&self.config.home.join("vector")),
            terms: status::bytes_below(&self.config.home.join("terms")),
        }
    }

    /// Whether vectors are searched: the embedder's id.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn embedder(&self) -> Result<Option<String>> {
        Ok(self.catalog.active_embedder()?.map(|it| it.id))
    }

    /// Name or directory of the sparse encoder that the home wants; `None`: it wants none. It need not be installed.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn sparse_encoder(&self) -> Result<Option<String>> {
        wanted_sparse(&self.catalog)
    }

    /// A page of the ledger, and how many files there are on all its pages.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn ledger(&self, page: &FilePage) -> Result<(Vec<FileRecord>, u64)> {
        Ok(self.catalog.file_page(page)?)
    }

    /// A passage; `None` when it is gone.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn passage(&self, chunk: u64) -> Result<Option<Passage>> {
        let Some(record) = self.catalog.chunk_records(&[ChunkId(chunk)])?.pop() else {
            return Ok(None);
        };
        let bytes = self.catalog.file(record.file)?.map_or(0, |it| it.0.bytes);
        Ok(Some(Passage { record, bytes }))
    }

    /// The passages of the file that `chunk` is in, at most `limit` around it.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn passages_beside(&self, chunk: u64, limit: usize) -> Result<Vec<ChunkRecord>> {
        Ok(self.catalog.chunks_beside(ChunkId(chunk), limit)?)
    }

    /// The path of a file of the ledger, as [`safe_path`](Self::safe_path) gives it.
    ///
    /// # Errors
    /// As there.
    pub fn path_of(&self, file: FileId) -> Result<PathBuf> {
        let Some((record, _, root)) = self.catalog.file(file)? else {
            return Err(Error::BadRequest("the file is no longer in the ledger".into()));
        };
        inside(&root, &record.path)
    }

    /// The path of a chunk's file, links followed: it exists and lies below the root it was found in.
    ///
    /// # Errors
    /// When it is gone, or a link leads out of the root.
    pub fn safe_path(&self, chunk: &ChunkRecord) -> Result<PathBuf> {
        self.path_of(chunk.file)
    }
}

/// `path` with links followed, if it is there and below `root`.
pub(super) fn inside(root: &Path, path: &Path) -> Result<PathBuf> {
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| Error::Io { path, source }
    };
    let real = path.canonicalize().map_err(io(path))?;
    let root = root.canonicalize().map_err(io(root))?;
    if !real.starts_with(&root) || !real.is_file() {
        return Err(Error::BadRequest(
            format!("{} leads out of its folder now: it is not opened", path.display()).into(),
        ));
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn how_much_vectors_may_take_is_kept_and_kept_in_range() {
        let dir = tempfile::tempdir().expect("a folder");
        let records = Records::open(Config::new(dir.path().join("home"))).expect("a home");
        let limits = |cpu, on_battery| MeaningLimits { cpu, on_battery };
        assert_eq!(records.meaning_limits().expect("read"), limits(100, false));
        for (given, kept) in [(30, 30), (0, 1), (101, 100)] {
            for on_battery in [true, false] {
                records.limit_meaning(limits(given, on_battery)).expect("written");
                assert_eq!(records.meaning_limits().expect("read"), limits(kept, on_battery));
            }
        }
    }

    #[test]
    #[cfg(unix)]
    fn links_that_lead_out_are_not_followed() {
        let outside = tempfile::tempdir().expect("a folder");
        let root = tempfile::tempdir().expect("a folder");
        fs::write(outside.path().join("secret"), "x").expect("written");
        fs::write(root.path().join("note"), "x").expect("written");
        std::os::unix::fs::symlink(outside.path().join("secret"), root.path().join("link"))
            .expect("linked");
        assert!(inside(root.path(), &root.path().join("note")).is_ok());
        assert!(inside(root.path(), &root.path().join("link")).is_err());
        assert!(inside(root.path(), &root.path().join("../secret")).is_err());
        assert!(inside(root.path(), &root.path().join("gone")).is_err());
        assert!(inside(root.path(), root.path()).is_err(), "a folder is no file");
    }
}
