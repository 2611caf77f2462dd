//! Folders, the ledger, rules.

use std::path::PathBuf;

use riddle_rag::{
    self as rag,
    records::{FileId, FileOrder, FilePage, RootId},
};

use super::Shell;
use crate::{
    convert::{clean, file_of_record, shown},
    dto::{
        Added, AppEvent, Failure, LedgerPage, LedgerQuery, LedgerRow, LedgerSort, LibraryState,
        MeaningLimits, Rule, RulePreview, Trouble, WhichScans,
    },
    failure::Reply,
};

/// Most rows of the ledger that are sent at once.
const MOST_ROWS: u32 = 1000;

impl Shell {
    pub(crate) fn library(&self) -> Reply<LibraryState> {
        self.indexer.doing().state(&self.context)
    }

    pub(crate) fn add_folders(&self, paths: &[PathBuf]) -> Reply<Vec<Added>> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let paths = paths.to_vec();
        self.indexer.ask(move |library| {
            let add = |path: PathBuf| Added {
                problem: library.add_root(&path).err().map(|it| Trouble::of(&it)),
                path: shown(&path),
            };
            Ok(paths.into_iter().map(add).collect())
        })
    }

    pub(crate) fn remove_folder(&self, folder: i64) -> Reply<()> {
        let folders = self.records.folders()?;
        let path = folders.into_iter().find(|it| it.id == RootId(folder)).map(|it| it.path);
        let path = path.ok_or_else(|| Failure::gone("this folder is no longer in the library"))?;
        self.indexer.ask(move |library| Ok(library.remove_root(&path)?))?;
        self.engine.refresh();
        Ok(())
    }

    /// Marks a folder as one whose text never leaves this computer, or takes the mark away.
    pub(crate) fn confine(&self, folder: i64, confined: bool) -> Reply<()> {
        let folders = self.records.folders()?;
        let path = folders.into_iter().find(|it| it.id == RootId(folder)).map(|it| it.path);
        let path = path.ok_or_else(|| Failure::gone("this folder is no longer in the library"))?;
        self.records.confine(&path, confined)?;
        self.tell(AppEvent::Library { state: self.library()? });
        Ok(())
    }

    pub(crate) fn rescan(&self) {
        self.indexer.post(|_| {});
    }

    pub(crate) fn rebuild(&self) -> Reply<()> {
        self.indexer.ask(|library| Ok(library.rebuild_indexes(&mut |_| {})?))?;
        self.engine.refresh();
        Ok(())
    }

    pub(crate) fn pause(&self, paused: bool) -> Reply<()> {
        self.indexer.pause(&self.records, paused)
    }

    pub(crate) fn ledger(&self, query: &LedgerQuery) -> Reply<LedgerPage> {
        let page = FilePage {
            states: query.states.iter().map(|&it| it.into()).collect(),
            root: query.folder.map(RootId),
            changed_since: query.lately.then(|| self.records.lately_since()),
            part: query.text.trim().to_owned(),
            order: match query.sort {
                LedgerSort::Path => FileOrder::Path,
                LedgerSort::State => FileOrder::State,
                LedgerSort::Bytes => FileOrder::Bytes,
                LedgerSort::Modified => FileOrder::Modified,
                LedgerSort::Passages => FileOrder::Chunks,
                LedgerSort::Changed => FileOrder::Changed,
            },
            descending: query.descending,
            offset: usize::try_from(query.offset).unwrap_or(usize::MAX),
            limit: query.limit.min(MOST_ROWS) as usize,
        };
        let (files, total) = self.records.ledger(&page)?;
        let row = |it: &rag::records::FileRecord| LedgerRow {
            id: it.id.0,
            file: file_of_record(it),
            state: it.state.into(),
            reason: clean(&it.reason),
            passages: it.chunks,
            warnings: it.warnings.iter().map(|it| clean(it)).collect(),
            changed: it.changed,
        };
        Ok(LedgerPage { total, offset: query.offset, rows: files.iter().map(row).collect() })
    }

    /// Which scans and pictures are read from now on; the indexer goes on with that.
    pub(crate) fn read_scans(&self, which: WhichScans) -> Reply<()> {
        self.records.read_scans(which.into())?;
        self.rescan();
        self.tell(AppEvent::Library { state: self.library()? });
        Ok(())
    }

    /// How much vectors may take beside a person's work from now on; the indexer goes on with that.
    pub(crate) fn limit_meaning(&self, limits: MeaningLimits) -> Reply<()> {
        self.records.limit_meaning(limits.into())?;
        self.rescan();
        self.tell(AppEvent::Library { state: self.library()? });
        Ok(())
    }

    /// Whether the pages that browsers remember are read from now on; the indexer goes on with that, and what was read
    /// answers no longer.
    pub(crate) fn read_browsing(&self, may: bool) -> Reply<()> {
        self.records.read_browsing(may)?;
        self.rescan();
        self.engine.refresh();
        self.tell(AppEvent::Library { state: self.library()? });
        Ok(())
    }

    pub(crate) fn retry(&self, files: &[i64]) -> Reply<u64> {
        let files: Vec<FileId> = files.iter().copied().map(FileId).collect();
        self.indexer.ask(move |library| {
            Ok(if files.is_empty() { library.retry_failed()? } else { library.retry(&files)? })
        })
    }

    pub(crate) fn exclude(&self, file: i64) -> Reply<Rule> {
        let rule = self.records.rule_for(FileId(file))?;
        let mut rules = self.records.rules()?;
        if !rules.contains(&rule) {
            rules.push(rule.clone());
            self.records.set_rules(&rules)?;
        }
        self.rescan();
        Ok(Rule { folder: rule.root, pattern: rule.pattern })
    }

    pub(crate) fn rules(&self) -> Reply<Vec<Rule>> {
        let rules = self.records.rules()?.into_iter();
        Ok(rules.map(|it| Rule { folder: it.root, pattern: it.pattern }).collect())
    }

    pub(crate) fn rule_preview(&self, rule: &Rule) -> Reply<RulePreview> {
        let rule = rag::records::Rule { root: rule.folder, pattern: rule.pattern.clone() };
        let effect = match self.records.effect_of(&rule) {
            Ok(effect) => effect,
            Err(rag::Error::BadRequest(why)) => {
                return Ok(RulePreview {
                    files: 0,
                    bytes: 0,
                    passages: 0,
                    examples: Vec::new(),
                    problem: Some(clean(&why.what)),
                });
            }
            Err(error) => return Err(error.into()),
        };
        Ok(RulePreview {
            files: effect.files,
            bytes: effect.bytes,
            passages: effect.chunks,
            examples: effect.examples.iter().map(|it| shown(it)).collect(),
            problem: None,
        })
    }

    pub(crate) fn set_rules(&self, rules: Vec<Rule>) -> Reply<()> {
        let rules: Vec<rag::records::Rule> = rules
            .into_iter()
            .map(|it| rag::records::Rule { root: it.folder, pattern: it.pattern })
            .collect();
        self.records.set_rules(&rules)?;
        self.rescan();
        Ok(())
    }
}
