//! The passages of the home that a search may find, kept for the next one: who filters asks again with every letter,
//! and a million passages are not listed in a moment.

use std::sync::{Arc, Mutex, PoisonError};

use riddle_catalog::{Catalog, FilePlace};
use riddle_types::{ChunkSet, Filter};

use crate::contract::Result;

/// Sets that are kept: the filters of a few people and programs.
const MOST_KEPT: usize = 8;

/// What was listed lately, the latest last.
#[derive(Debug, Default)]
pub(super) struct Allowed(Mutex<Vec<Kept>>);

#[derive(Debug)]
struct Kept {
    filter: Filter,
    /// Files that the reader may read; `None`: all.
    files: Option<Arc<Vec<FilePlace>>>,
    /// How far the catalog was.
    seq: u64,
    chunks: Arc<ChunkSet>,
}

impl Allowed {
    /// The chunks that pass the filter, of these files alone where a reader may not read all.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub(super) fn chunks(
        &self,
        catalog: &Catalog,
        filter: &Filter,
        files: Option<Arc<Vec<FilePlace>>>,
    ) -> Result<Arc<ChunkSet>> {
        // Before they are listed: what changes meanwhile is newer than what is kept.
        let seq = catalog.last_seq()?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|it| it.seq == seq);
        let known = kept
            .iter()
            .position(|it| it.filter == *filter && are_same(it.files.as_deref(), files.as_deref()));
        if let Some(at) = known {
            let mut found = kept.remove(at);
            // The next look at the same files has this list.
            found.files = files;
            let chunks = Arc::clone(&found.chunks);
            kept.push(found);
            return Ok(chunks);
        }
        drop(kept);
        let ids = files.as_deref().map(|it| it.iter().map(|it| it.id).collect());
        let chunks = Arc::new(catalog.chunks_matching(filter, ids.as_ref())?);
        let new = Kept { filter: filter.clone(), files, seq, chunks: Arc::clone(&chunks) };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST_KEPT {
            kept.remove(0);
        }
        kept.push(new);
        Ok(chunks)
    }
}

fn are_same(a: Option<&Vec<FilePlace>>, b: Option<&Vec<FilePlace>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            std::ptr::eq(a, b) || a.iter().map(|it| it.id).eq(b.iter().map(|it| it.id))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::{iter, sync::atomic::AtomicBool};

    use riddle_types::FileKind;

    use super::*;
    use crate::{
        home::Config,
        index::{InputDocument, Library},
    };

    fn add(config: &Config, id: &str) {
        let text = format!("The zeppelin of {id} costs 640 euros.");
        let document = InputDocument { id: id.to_owned(), title: String::new(), text };
        Library::open(config.clone())
            .expect("opens")
            .add_documents("kept", &mut iter::once(document), &mut |_| {}, &AtomicBool::new(false))
            .expect("indexed");
    }

    fn all() -> Filter {
        Filter { except: vec!["/nowhere".to_owned()], ..Filter::default() }
    }

    #[test]
    fn a_list_is_kept_until_something_changes() {
        let dir = tempfile::tempdir().expect("a folder");
        let config = Config { threads: 1, ..Config::new(dir.path().to_path_buf()) };
        add(&config, "a");
        add(&config, "b");
        let catalog = Catalog::open_read_only(config.catalog()).expect("opens");
        let allowed = Allowed::default();
        let chunks = |filter: &Filter, files: Option<&[FilePlace]>| {
            let files = files.map(|it| Arc::new(it.to_vec()));
            allowed.chunks(&catalog, filter, files).expect("listed")
        };
        let places = catalog.places().expect("places");
        let first = chunks(&all(), None);
        assert_eq!(first.len(), 2);
        assert!(Arc::ptr_eq(&first, &chunks(&all(), None)));
        let pdf = Filter { kinds: vec![FileKind::Pdf], ..Filter::default() };
        assert!(chunks(&pdf, None).is_empty());
        let own = chunks(&all(), Some(&places[..1]));
        assert_eq!((own.len(), chunks(&all(), Some(&places[1..])).len()), (1, 1));
        assert_ne!(own, chunks(&all(), Some(&places[1..])));
        assert!(chunks(&all(), Some(&[])).is_empty());
        // Another look at the same files, and what was kept before.
        assert!(Arc::ptr_eq(&own, &chunks(&all(), Some(&places[..1]))));
        assert!(Arc::ptr_eq(&first, &chunks(&all(), None)));
        add(&config, "c");
        assert_eq!((chunks(&all(), None).len(), chunks(&all(), Some(&places[..1])).len()), (3, 1));
        assert_eq!(allowed.0.lock().expect("no panic").len(), 2, "what is out of date is gone");
    }

    #[test]
    fn no_more_are_kept_than_the_latest() {
        let dir = tempfile::tempdir().expect("a folder");
        let config = Config { threads: 1, ..Config::new(dir.path().to_path_buf()) };
        add(&config, "a");
        let catalog = Catalog::open_read_only(config.catalog()).expect("opens");
        let allowed = Allowed::default();
        let since = |time: i64| {
            let filter = Filter { modified_from: Some(time), ..Filter::default() };
            allowed.chunks(&catalog, &filter, None).expect("listed")
        };
        let first = since(-1);
        for time in -100..-80 {
            since(time);
            assert!(Arc::ptr_eq(&first, &since(-1)), "what is asked for stays");
        }
        assert_eq!(allowed.0.lock().expect("no panic").len(), MOST_KEPT);
    }
}
