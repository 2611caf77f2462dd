//! What was found for the desktop: a file once, by the number of its best passage.

use std::{collections::HashSet, path::PathBuf, process::Stdio};

use riddle_rag::{
    Config, SearchHit, SearchRequest,
    encryption::{self, Protection},
    rerank::RerankChoice,
};

use crate::library::Library;

/// Files that are shown: GNOME shows five, KDE some more.
const FILES: usize = 8;

/// Passages that they are taken from: a long file may have several of the best.
const PASSAGES: usize = 24;

/// Fewer letters name nothing: the desktop asks with every key.
const LETTERS: usize = 3;

/// Letters of a passage beside its file.
const EXCERPT: usize = 160;

/// Found files that are remembered: the desktop asks about those it was told last.
const REMEMBERED: usize = 256;

/// The library, and what was found last.
pub(super) struct Shelf {
    config: Config,
    library: Option<Library>,
    /// Whether the keyring was asked for the key: it may ask the person, and nobody wants that with every letter.
    asked_keyring: bool,
    found: Vec<SearchHit>,
}

/// A result as a desktop shows it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shown {
    /// Number of the passage.
    pub(super) id: u64,
    pub(super) title: String,
    pub(super) excerpt: String,
    pub(super) path: String,
}

impl Shelf {
    pub(super) fn new(config: Config) -> Shelf {
        Shelf { config, library: None, asked_keyring: false, found: Vec::new() }
    }

    /// Files for what was typed, best first. Nothing where there is nothing to search: a desktop has no place for why.
    pub(super) fn search(&mut self, typed: &str) -> Vec<Shown> {
        let typed = typed.trim();
        if typed.chars().count() < LETTERS {
            return Vec::new();
        }
        // Words and vectors alone: the next key is already on its way.
        let rerank = RerankChoice::Off;
        let request = SearchRequest { k: PASSAGES, rerank, ..SearchRequest::new(typed) };
        let Some(library) = self.library() else { return Vec::new() };
        let hits = match library.search(&request) {
            Ok(response) => files(response.hits),
            Err(error) => {
                tracing::info!(%error, "nothing is found for the desktop");
                Vec::new()
            }
        };
        let shown = hits.iter().map(Shown::of).collect();
        self.remember(hits);
        shown
    }

    /// What was said of a result before.
    pub(super) fn shown(&self, id: u64) -> Option<Shown> {
        self.found.iter().find(|it| it.chunk == id).map(Shown::of)
    }

    /// Opens the file of a result with the desktop's program for it. Nothing but a file of the library is opened.
    pub(super) fn open(&mut self, id: u64) {
        let Some(path) = self.path_of(id) else { return };
        let mut command = std::process::Command::new("xdg-open");
        command.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            // It ends when it has told the program: who waits for it holds up nobody.
            Ok(mut child) => {
                std::thread::spawn(move || child.wait());
            }
            Err(error) => tracing::warn!(%error, "xdg-open can not be started"),
        }
    }

    /// Of what was shown; a desktop may also choose what one before has shown, which has ended since.
    fn path_of(&mut self, id: u64) -> Option<PathBuf> {
        if let Some(hit) = self.found.iter().find(|it| it.chunk == id) {
            return Some(PathBuf::from(&hit.path));
        }
        self.library()?.file_of(id).ok().flatten()
    }

    fn library(&mut self) -> Option<&Library> {
        if self.library.is_none() {
            self.unlock();
            self.library = Library::of(self.config.clone(), false).ok();
        }
        self.library.as_ref()
    }

    /// Opens an encrypted home where the keyring keeps its key. Without it only the app, which is open, can answer.
    fn unlock(&mut self) {
        let is_locked =
            matches!(encryption::protection(&self.config), Ok(Protection::Locked { .. }));
        if !is_locked || std::mem::replace(&mut self.asked_keyring, true) {
            return;
        }
        if let Err(error) = encryption::unlock_from_keyring(&self.config) {
            tracing::warn!(%error, "the keyring's key does not open the home");
        }
    }

    fn remember(&mut self, hits: Vec<SearchHit>) {
        let new: HashSet<u64> = hits.iter().map(|it| it.chunk).collect();
        self.found.retain(|it| !new.contains(&it.chunk));
        self.found.extend(hits);
        let old = self.found.len().saturating_sub(REMEMBERED);
        self.found.drain(..old);
    }
}

/// The best passage of each file.
fn files(hits: Vec<SearchHit>) -> Vec<SearchHit> {
    let mut seen = HashSet::new();
    let mut best: Vec<SearchHit> =
        hits.into_iter().filter(|it| seen.insert(it.path.clone())).collect();
    best.truncate(FILES);
    best
}

impl Shown {
    fn of(hit: &SearchHit) -> Shown {
        let words: Vec<&str> = hit.text.split_whitespace().collect();
        let mut excerpt: String = words.join(" ").chars().take(EXCERPT).collect();
        excerpt.retain(|it| !it.is_control());
        let title: String = hit.title.chars().filter(|it| !it.is_control()).collect();
        Shown { id: hit.chunk, title, excerpt, path: hit.path.clone() }
    }
}

#[cfg(test)]
mod tests {
    use riddle_types::{Location, RankTrace};

    use super::*;

    fn hit(chunk: u64, path: &str) -> SearchHit {
        SearchHit {
            rank: 1,
            path: path.to_owned(),
            title: "The\u{7} boat".to_owned(),
            heading: String::new(),
            text: format!("The boat\n\tis blue. {}", "x".repeat(500)),
            location: Location::Line { start: 1, end: 2 },
            score: 0.5,
            trace: RankTrace::default(),
            modified: 0,
            chunk,
            also_in: Vec::new(),
            versions: Vec::new(),
            library: None,
            here: None,
            ocr_confidence: None,
        }
    }

    #[test]
    fn a_file_is_shown_once_and_what_is_old_is_forgotten() {
        let hits = (0..30).map(|it| hit(it, &format!("/files/{}.md", it / 2))).collect();
        let shown = files(hits);
        assert_eq!(
            shown.iter().map(|it| it.chunk).collect::<Vec<_>>(),
            [0, 2, 4, 6, 8, 10, 12, 14]
        );
        let mut shelf = Shelf::new(Config::new("/nowhere"));
        for round in 0..100 {
            shelf.remember((0..8).map(|it| hit(round * 4 + it, "/files/a.md")).collect());
            assert!(shelf.found.len() <= REMEMBERED);
        }
        assert!(shelf.shown(0).is_none() && shelf.shown(400).is_some());
    }

    #[test]
    fn what_is_shown_is_short_and_plain() {
        let shown = Shown::of(&hit(1, "/files/a.md"));
        assert_eq!(shown.title, "The boat");
        assert!(shown.excerpt.starts_with("The boat is blue. xx"), "{shown:?}");
        assert_eq!(shown.excerpt.chars().count(), EXCERPT);
    }
}
