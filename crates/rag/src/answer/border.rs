//! What may leave this machine: the one place through which everything goes that is found in files and handed to
//! whoever writes an answer.
//!
//! A folder can be marked as one whose text never leaves this machine. Where the answer is written elsewhere, passages
//! of such folders are held back here, and so is every earlier answer that was written from one.

use std::path::PathBuf;

use riddle_catalog::Catalog;
use riddle_types::ChunkId;

use crate::contract::{Earlier, Result, SearchHit};

/// The border of this machine, as one question meets it.
pub(crate) struct Border<'a> {
    catalog: &'a Catalog,
    /// Folders whose text stays here; none where the answer is written on this machine, and everything passes.
    confined: Vec<PathBuf>,
}

/// What may be handed on.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// Best first.
    pub(crate) hits: Vec<SearchHit>,
    /// Hits that would have been among them.
    pub(crate) held_back: u64,
}

impl<'a> Border<'a> {
    /// `leaves`: what is handed on leaves this machine.
    pub(crate) fn of(catalog: &'a Catalog, leaves: bool) -> Result<Border<'a>> {
        let confined = if leaves { catalog.confined()? } else { Vec::new() };
        Ok(Border { catalog, confined })
    }

    /// The best `wanted` hits that may be handed on.
    pub(crate) fn pass(&self, hits: &[SearchHit], wanted: usize) -> Result<Passed> {
        let mut passed = Passed::default();
        for hit in hits {
            if passed.hits.len() == wanted {
                break;
            }
            // Marks are on folders of this home. What others share is theirs to share.
            if hit.library.is_none() && self.holds_back(hit.chunk)? {
                passed.held_back += 1;
            } else {
                passed.hits.push(hit.clone());
            }
        }
        Ok(passed)
    }

    /// What was said before, without answers that may not be handed on. An answer of which it is not known what it
    /// was written from is one of them.
    pub(crate) fn earlier(&self, earlier: &[Earlier]) -> Result<Vec<Earlier>> {
        let mut passed = Vec::with_capacity(earlier.len());
        for turn in earlier {
            let mut open = self.confined.is_empty() || !turn.passages.is_empty();
            for chunk in &turn.passages {
                open = open && !self.holds_back(*chunk)?;
            }
            passed.push(Earlier { answer: turn.answer.clone().filter(|_| open), ..turn.clone() });
        }
        Ok(passed)
    }

    /// Whether a passage stays here. One that is gone from the catalog does: nobody knows where it was.
    pub(crate) fn holds_back(&self, chunk: u64) -> Result<bool> {
        if self.confined.is_empty() {
            return Ok(false);
        }
        let record = self.catalog.chunk_records(&[ChunkId(chunk)])?.pop();
        Ok(record.is_none_or(|it| self.confined.iter().any(|folder| it.path.starts_with(folder))))
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::atomic::AtomicBool};

    use riddle_types::{Location, RankTrace};

    use super::*;
    use crate::{
        home::Config,
        index::{InputDocument, Library},
    };

    /// A catalog with a document in each of the folders, and its chunks in that order.
    fn catalog(folders: &[&str]) -> (tempfile::TempDir, Catalog, Vec<u64>) {
        let home = tempfile::tempdir().expect("a folder");
        let mut library = Library::open(Config::new(home.path())).expect("opens");
        for folder in folders {
            let text = format!("what is in {folder}");
            let document = InputDocument { id: "doc".to_owned(), title: String::new(), text };
            let mut documents = std::iter::once(document);
            library
                .add_documents(folder, &mut documents, &mut |_| {}, &AtomicBool::new(false))
                .expect("indexed");
        }
        drop(library);
        let catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("opens");
        let mut chunks: Vec<u64> =
            catalog.all_chunks().expect("chunks").into_iter().map(|it| it.0).collect();
        chunks.sort_unstable();
        (home, catalog, chunks)
    }

    fn hit(chunk: u64) -> SearchHit {
        SearchHit {
            rank: 1,
            path: "shown/otherwise".to_owned(),
            title: String::new(),
            heading: String::new(),
            text: String::new(),
            location: Location::Whole,
            score: 1.0,
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
    fn what_is_marked_passes_only_within_this_machine() {
        let (_home, catalog, chunks) = catalog(&["/a", "/a-b", "/a/c"]);
        catalog.confine(Path::new("/a"), true).expect("marked");
        let gone = 999;
        let hits: Vec<SearchHit> = chunks.iter().chain([&gone]).map(|it| hit(*it)).collect();
        let texts = |leaves| {
            let border = Border::of(&catalog, leaves).expect("a border");
            let passed = border.pass(&hits, 9).expect("passed");
            (passed.hits.len(), passed.held_back)
        };
        assert_eq!(texts(false), (4, 0));
        // `/a-b` only begins like `/a`; what nobody knows any more stays here.
        assert_eq!(texts(true), (1, 3));
        let shared = SearchHit { library: Some("team".to_owned()), ..hit(gone) };
        let border = Border::of(&catalog, true).expect("a border");
        assert_eq!(border.pass(&[shared], 9).expect("passed").hits.len(), 1);
        assert_eq!(border.pass(&hits, 0).expect("none wanted").held_back, 0);
    }

    #[test]
    fn answers_from_marked_folders_are_not_told_again_elsewhere() {
        let (_home, catalog, chunks) = catalog(&["/a", "/b"]);
        catalog.confine(Path::new("/a"), true).expect("marked");
        let turn = |passages: Vec<u64>| Earlier {
            question: "Who?".to_owned(),
            answer: Some("Nobody.".to_owned()),
            passages,
        };
        let earlier =
            [turn(vec![chunks[1]]), turn(chunks.clone()), turn(vec![999]), turn(Vec::new())];
        let answers = |leaves| -> Vec<bool> {
            let border = Border::of(&catalog, leaves).expect("a border");
            let passed = border.earlier(&earlier).expect("passed");
            passed.iter().map(|it| it.answer.is_some()).collect()
        };
        assert_eq!(answers(true), [true, false, false, false]);
        assert_eq!(answers(false), [true; 4]);
        catalog.confine(Path::new("/a"), false).expect("released");
        assert_eq!(answers(true), [true; 4]);
    }
}
