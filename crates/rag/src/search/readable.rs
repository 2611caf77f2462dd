//! What somebody may read of the home, as a condition inside every search, and once more on what comes back.
//!
//! The files of the home are looked at a few times a minute at most; what a search gives then is looked at as it is at
//! that moment. So a right that was just given may be seen seconds later, and one that was taken away holds at once.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use riddle_catalog::{ChunkRecord, FilePlace};
use riddle_types::{ChunkId, FileKind, FileState, Hit, Reader};

use super::reader::Assistant;
use crate::{
    contract::{Audience, Reach, Result},
    home::{access, access::Gate},
};

/// How long what was seen of all files is taken as it was.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Readers whose files are remembered: a few programs ask in turns.
const MOST_KEPT: usize = 32;

impl Assistant {
    /// Files of the home whose passages the reader may read.
    pub(super) fn readable(&self, reader: &Reader) -> Result<Arc<Vec<FilePlace>>> {
        let kept = self.readable.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.get(reader).filter(|(at, _)| at.elapsed() < LOOK_AGAIN);
        if let Some((_, files)) = known {
            return Ok(Arc::clone(files));
        }
        drop(kept);
        self.readable_now(reader)
    }

    fn readable_now(&self, reader: &Reader) -> Result<Arc<Vec<FilePlace>>> {
        let at = Instant::now();
        let files = Arc::new(access::readable(&self.catalog, reader)?);
        let mut kept = self.readable.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(reader.clone(), (at, Arc::clone(&files)));
        Ok(files)
    }

    /// What there is at this moment for somebody else, of files that `sees` lets pass: of what this one may not read,
    /// nothing is counted. `None`: passages are for the person whose home it is.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn reach(
        &self,
        audience: &Audience,
        sees: &dyn Fn(&Path, FileKind) -> bool,
    ) -> Result<Option<Reach>> {
        let Some(reader) = &audience.reader else { return Ok(None) };
        let files = self.readable_now(reader)?;
        let mut reach = Reach::default();
        for file in self.open_to(audience, &files, sees)? {
            *reach.states.entry(FileState::Indexed.as_str()).or_default() += 1;
            reach.passages += file.chunks;
        }
        Ok(Some(reach))
    }

    /// Folders that are indexed and hold something for this audience, of files that `sees` lets pass, as they were a
    /// moment ago; each with whether its text never leaves this machine.
    ///
    /// # Errors
    /// When the catalog can not be read.
    pub fn roots_for(
        &self,
        audience: &Audience,
        sees: &dyn Fn(&Path, FileKind) -> bool,
    ) -> Result<Vec<(PathBuf, bool)>> {
        let confined = self.catalog.confined()?;
        let is_confined = |path: &Path| confined.iter().any(|it| path.starts_with(it));
        let roots = self.catalog.roots()?.into_iter().map(|it| it.path);
        let mut roots: Vec<(PathBuf, bool)> =
            roots.map(|it| (it.clone(), is_confined(&it))).collect();
        if let Some(reader) = &audience.reader {
            let files = self.readable(reader)?;
            let seen = self.open_to(audience, &files, sees)?;
            roots.retain(|(root, _)| seen.iter().any(|it| it.root == *root));
        }
        Ok(roots)
    }

    fn open_to<'a>(
        &self,
        audience: &Audience,
        files: &'a [FilePlace],
        sees: &dyn Fn(&Path, FileKind) -> bool,
    ) -> Result<Vec<&'a FilePlace>> {
        let confined = if audience.outward { self.catalog.confined()? } else { Vec::new() };
        let is_open = |it: &&FilePlace| {
            sees(&it.path, it.kind) && !confined.iter().any(|folder| it.path.starts_with(folder))
        };
        Ok(files.iter().filter(is_open).collect())
    }

    /// Leaves out what the reader may not read at this moment.
    pub(super) fn keep_readable(
        &self,
        reader: &Reader,
        records: &mut HashMap<ChunkId, ChunkRecord>,
    ) -> Result<()> {
        let mut gate = Gate::of(&self.catalog, reader);
        let mut refused = Vec::new();
        for (chunk, record) in records.iter() {
            if !gate.admits(record.file)? {
                refused.push(*chunk);
            }
        }
        for chunk in refused {
            records.remove(&chunk);
        }
        Ok(())
    }
}

/// A list without what is not known: nobody hears that it was found.
pub(super) fn known_only(list: &mut Vec<Hit>, records: &HashMap<ChunkId, ChunkRecord>) {
    list.retain(|it| records.contains_key(&it.chunk));
    for (hit, rank) in list.iter_mut().zip(1..) {
        hit.rank = rank;
    }
}
