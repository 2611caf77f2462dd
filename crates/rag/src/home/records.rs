//! What a person leafs through and sets: folders, the ledger, rules, history, settings.
//!
//! [`Records`] reads and writes small things beside a [`Library`](crate::Library) that is at work; SQLite lets
//! them take turns. What changes files' states for good still goes through the library.

use std::path::{Path, PathBuf};

use riddle_catalog::{
    BankAnswer, BankCounts, Catalog, ChunkRecord, FileId, FilePage, FileRecord, HistoryEntry,
    RootId,
};
use riddle_types::{ChunkId, FileState};
use riddle_watch::Pattern;
use serde::{Deserialize, Serialize};

use super::{
    config::Config,
    endpoints,
    settings::{REUSE_SETTING, configured_reranker, reuse_settings, wanted_sparse},
    status,
};
use crate::contract::{
    EndpointInfo, Error, IndexFreshness, KeyState, MeaningStatus, Result, ReuseSettings,
};

/// Setting: the rules, as JSON.
const RULES_SETTING: &str = "rules";

/// A pattern in the syntax of `.gitignore`, for one root or for all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The root's number; `None`: all.
    pub root: Option<i64>,
    /// The pattern.
    pub pattern: String,
}

/// What a rule would leave out of what is searched now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleEffect {
    /// Files.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
    /// Their chunks.
    pub chunks: u64,
    /// The first few.
    pub examples: Vec<PathBuf>,
}

/// A folder that is indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderStatus {
    /// Identity.
    pub id: RootId,
    /// The folder.
    pub path: PathBuf,
    /// Whether it is there now.
    pub present: bool,
    /// Whether its text never leaves this machine.
    pub confined: bool,
    /// Files per state.
    pub counts: Vec<(FileState, u64)>,
}

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

/// How full the bank of answers is, and what it was good for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AnswersStatus {
    /// What is in it.
    pub counts: BankCounts,
    /// Questions that were asked.
    pub asked: f64,
    /// Of these, answered because the model would have been asked the same.
    pub same: f64,
    /// Answered with what was written for another question, held against the files.
    pub checked: f64,
    /// Answered by nearness alone.
    pub instant: f64,
    /// Seconds that the model took for what was given again.
    pub seconds_saved: f64,
    /// Seconds that were spent while nobody waited.
    pub idle_seconds: f64,
}

/// The small things of a home. Any number at a time.
#[derive(Debug)]
pub struct Records {
    pub(super) config: Config,
    pub(super) catalog: Catalog,
}

impl Records {
    /// Opens a home, making it if needed.
    ///
    /// # Errors
    /// When the home can not be made or its catalog not be opened.
    pub fn open(config: Config) -> Result<Records> {
        std::fs::create_dir_all(&config.home)
            .map_err(|source| Error::Io { path: config.home.clone(), source })?;
        let catalog = Catalog::open(&config.catalog())?;
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
        config.catalog().is_file()
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

    /// The reranker that searches use; `None`: none was chosen to be used.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn reranker(&self) -> Result<Option<String>> {
        configured_reranker(&self.catalog)
    }

    /// Sets a setting; `None` removes it.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn set_setting(&self, key: &str, value: Option<&str>) -> Result<()> {
        Ok(self.catalog.set_setting(key, value)?)
    }

    /// The folders that are indexed, oldest first.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn folders(&self) -> Result<Vec<FolderStatus>> {
        let confined = self.catalog.confined()?;
        let roots = self.catalog.roots()?.into_iter().filter(|it| !it.is_virtual);
        roots
            .map(|root| {
                let counts = self.catalog.counts_of_root(root.id)?;
                Ok(FolderStatus {
                    id: root.id,
                    present: root.path.is_dir(),
                    confined: confined.iter().any(|it| root.path.starts_with(it)),
                    path: root.path,
                    counts,
                })
            })
            .collect()
    }

    /// Folders whose text never leaves this machine.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn confined(&self) -> Result<Vec<PathBuf>> {
        Ok(self.catalog.confined()?)
    }

    /// Marks a folder as one whose text never leaves this machine, with all below it, or takes the mark away; returns
    /// the folder with links followed. It holds from the next question on.
    ///
    /// # Errors
    /// A folder that is not there, or that stays marked because of one above it; when the catalog can not be written.
    pub fn confine(&self, path: &Path, confined: bool) -> Result<PathBuf> {
        let bad = |why: String| Error::BadRequest(format!("{}: {why}", path.display()).into());
        // A mark can be taken from a folder that is gone; one on a wrong name would protect nothing.
        let folder = match path.canonicalize() {
            Ok(folder) if folder.is_dir() => folder,
            Ok(_) => return Err(bad("it is a file: give the folder it is in".to_owned())),
            Err(_) if !confined && path.is_absolute() => path.to_path_buf(),
            Err(error) => return Err(bad(format!("{error}: give a folder that is there"))),
        };
        let above = self.catalog.confined()?;
        let above = above.iter().find(|it| folder != **it && folder.starts_with(it));
        if let (false, Some(above)) = (confined, above) {
            let why = format!("it lies in {}, which is marked: release that", above.display());
            return Err(bad(why));
        }
        self.catalog.confine(&folder, confined)?;
        Ok(folder)
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
            catalog: status::bytes_below(&self.config.catalog()),
            keyword: status::bytes_below(&self.config.keyword_index()),
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

    /// The rules in force, beside those that lie in the folders.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn rules(&self) -> Result<Vec<Rule>> {
        rules(&self.catalog)
    }

    /// Replaces the rules; the next scan obeys them.
    ///
    /// # Errors
    /// A pattern that is none; when the catalog can not be written.
    pub fn set_rules(&self, rules: &[Rule]) -> Result<()> {
        for rule in rules {
            Pattern::new(Path::new("/"), &rule.pattern)
                .map_err(|why| Error::BadRequest(format!("{:?}: {why}", rule.pattern).into()))?;
        }
        let text =
            serde_json::to_string(rules).map_err(|it| Error::BadRequest(it.to_string().into()))?;
        self.set_setting(RULES_SETTING, Some(&text))
    }

    /// The rule that leaves out one file.
    ///
    /// # Errors
    /// When the file is gone, or has a name that no pattern can hold.
    pub fn rule_for(&self, file: FileId) -> Result<Rule> {
        let Some((record, root, folder)) = self.catalog.file(file)? else {
            return Err(Error::BadRequest("the file is no longer in the ledger".into()));
        };
        let relative = record.path.strip_prefix(&folder).unwrap_or(&record.path);
        let pattern = Pattern::of_file(relative).ok_or_else(|| {
            Error::BadRequest("no rule can name this file: exclude its folder".into())
        })?;
        Ok(Rule { root: Some(root.0), pattern })
    }

    /// What a rule would leave out, of the files that are indexed now.
    ///
    /// # Errors
    /// A pattern that is none; when the catalog can not be read.
    pub fn effect_of(&self, rule: &Rule) -> Result<RuleEffect> {
        /// Enough to recognize what is meant.
        const EXAMPLES: usize = 8;
        let mut effect = RuleEffect::default();
        for folder in self.folders()? {
            if rule.root.is_some_and(|it| it != folder.id.0) {
                continue;
            }
            let pattern = Pattern::new(&folder.path, &rule.pattern)
                .map_err(|why| Error::BadRequest(why.into()))?;
            let page = FilePage {
                states: vec![FileState::Indexed, FileState::Pending],
                root: Some(folder.id),
                limit: usize::MAX >> 1,
                ..FilePage::default()
            };
            for file in self.catalog.file_page(&page)?.0 {
                if pattern.excludes(&file.path) {
                    effect.files += 1;
                    effect.bytes += file.bytes;
                    effect.chunks += file.chunks;
                    if effect.examples.len() < EXAMPLES {
                        effect.examples.push(file.path);
                    }
                }
            }
        }
        Ok(effect)
    }

    /// Keeps a question and its answer; returns its number.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn remember(&self, question: &str, answer: &str) -> Result<i64> {
        Ok(self.catalog.add_history("ask", question, answer)?)
    }

    /// Replaces a remembered answer.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn amend(&self, entry: i64, answer: &str) -> Result<()> {
        Ok(self.catalog.set_response(entry, answer)?)
    }

    /// Remembered questions that contain `part`, or whose answer does, newest first.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn remembered(&self, part: &str, limit: usize) -> Result<Vec<HistoryEntry>> {
        Ok(self.catalog.history_of("ask", part, limit)?)
    }

    /// Forgets one entry, or all, with the answers that were kept to be given again and what was foreseen from them.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn forget(&self, entry: Option<i64>) -> Result<()> {
        match entry {
            Some(id) => {
                if let Some(question) = self.catalog.history_query(id)? {
                    self.catalog.forget_question(&question)?;
                }
            }
            None => self.catalog.clear_answers(true)?,
        }
        Ok(self.catalog.delete_history(entry)?)
    }

    /// How answers that are already there are used.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn reuse(&self) -> Result<ReuseSettings> {
        reuse_settings(&self.catalog)
    }

    /// Sets how answers that are already there are used; what no longer fits is let go.
    ///
    /// # Errors
    /// A similarity that is none; when the catalog can not be written.
    pub fn set_reuse(&self, settings: &ReuseSettings) -> Result<()> {
        if !(0.0..=1.0).contains(&settings.threshold) {
            return Err(Error::BadRequest(
                format!("{} is no similarity: it is between 0 and 1", settings.threshold).into(),
            ));
        }
        let text = serde_json::to_string(settings)
            .map_err(|it| Error::BadRequest(it.to_string().into()))?;
        self.set_setting(REUSE_SETTING, Some(&text))?;
        self.catalog.limit_answers(settings.limit_bytes)?;
        Ok(())
    }

    /// Answers and questions without one, the latest first.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn kept_answers(&self, limit: usize) -> Result<Vec<BankAnswer>> {
        Ok(self.catalog.bank(limit)?)
    }

    /// How full the bank of answers is, and what it was good for.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn answers_status(&self) -> Result<AnswersStatus> {
        let figure = |name: &str| self.catalog.figure(name);
        Ok(AnswersStatus {
            counts: self.catalog.bank_counts()?,
            asked: figure("asked")?,
            same: figure("same")?,
            checked: figure("checked")?,
            instant: figure("instant")?,
            seconds_saved: figure("seconds_saved")?,
            idle_seconds: figure("idle_seconds")?,
        })
    }

    /// Forgets one kept answer with what was foreseen from its question.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn forget_answer(&self, answer: i64) -> Result<()> {
        Ok(self.catalog.forget_answers(&[answer])?)
    }

    /// Forgets all kept answers; with `of_people` those of questions that somebody has asked, and what was foreseen
    /// from them.
    ///
    /// # Errors
    /// When the catalog can not be written.
    pub fn clear_answers(&self, of_people: bool) -> Result<()> {
        Ok(self.catalog.clear_answers(of_people)?)
    }
}

/// The rules that a home has.
pub(crate) fn rules(catalog: &Catalog) -> Result<Vec<Rule>> {
    let text = catalog.setting(RULES_SETTING)?.unwrap_or_else(|| "[]".to_owned());
    serde_json::from_str(&text)
        .map_err(|error| Error::BadRequest(format!("the rules can not be read: {error}").into()))
}

/// `path` with links followed, if it is there and below `root`.
fn inside(root: &Path, path: &Path) -> Result<PathBuf> {
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

    #[test]
    fn rules_that_are_none_are_refused() {
        let home = tempfile::tempdir().expect("a folder");
        let records = Records::open(Config::new(home.path())).expect("opens");
        let rule = |pattern: &str| Rule { root: None, pattern: pattern.to_owned() };
        assert!(records.set_rules(&[rule("*.log"), rule("a[")]).is_err());
        assert_eq!(records.rules().expect("rules"), []);
        records.set_rules(&[rule("*.log")]).expect("kept");
        assert_eq!(records.rules().expect("rules"), [rule("*.log")]);
    }
    #[test]
    fn marks_of_folders_are_where_the_folders_are() {
        let home = tempfile::tempdir().expect("a folder");
        let files = tempfile::tempdir().expect("a folder");
        let (outer, inner) = (files.path().join("a"), files.path().join("a/b"));
        fs::create_dir_all(&inner).expect("made");
        fs::write(outer.join("file"), "x").expect("written");
        let records = Records::open(Config::new(home.path())).expect("opens");
        assert!(records.confine(&outer.join("typo"), true).is_err(), "it would protect nothing");
        assert!(records.confine(&outer.join("file"), true).is_err());
        let marked = records.confine(&outer.join("b/.."), true).expect("marked");
        assert_eq!(marked, outer.canonicalize().expect("there"));
        assert_eq!(records.confined().expect("marks"), [marked.as_path()]);
        let error = records.confine(&inner, false).expect_err("a folder above is marked");
        assert!(error.to_string().contains("release that"), "{error}");
        fs::remove_dir_all(&outer).expect("removed");
        records.confine(&marked, false).expect("released although it is gone");
        assert!(records.confined().expect("marks").is_empty());
    }
}
