//! Who may read what of the home: by the rights that the files have now, and for what is known of them as they are now.
//!
//! Rights are not kept. A file is looked at whenever somebody is to be shown what stands in it, so a right that is
//! taken away holds at once. A file that has changed since it was read is nobody's until it is read again: its rights
//! are those of another text.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Instant,
};

use riddle_catalog::{Catalog, FileId, FilePlace};
use riddle_ingest::Access;
use riddle_types::{FileState, Reader, Rule};
use riddle_watch::Stamp;

use crate::contract::Result;

/// Files that somebody may read, by who that is, and when that was seen.
pub(crate) type Readable = Mutex<HashMap<Reader, (Instant, Arc<Vec<FilePlace>>)>>;

/// The rule of a file's passages, by its rights now.
pub(crate) fn rule_of(access: &mut Access, place: &FilePlace) -> Rule {
    if !is_what_was_read(place) {
        return Rule::Nobody;
    }
    access.rule(&place.root, &place.path)
}

/// Whether there is a file, and what is known of it is known of the file as it is now.
pub(crate) fn is_what_was_read(place: &FilePlace) -> bool {
    !place.is_virtual && place.state == FileState::Indexed && is_as_it_was(place)
}

/// Whether the file is the one that was read.
fn is_as_it_was(place: &FilePlace) -> bool {
    let Ok(metadata) = std::fs::symlink_metadata(&place.path) else { return false };
    let now = Stamp::of(&metadata);
    let inode = now.volume_id.map(|it| it.1);
    // Numbers of volumes are given anew when a disk is mounted.
    (now.size, now.modified_ns, inode) == (place.size, place.modified_ns, place.inode)
}

/// Decides for one reader, file by file, while one request is answered.
#[derive(Debug)]
pub(crate) struct Gate<'a> {
    catalog: &'a Catalog,
    reader: &'a Reader,
    access: Access,
    known: HashMap<FileId, bool>,
}

impl<'a> Gate<'a> {
    pub(crate) fn of(catalog: &'a Catalog, reader: &'a Reader) -> Gate<'a> {
        Gate { catalog, reader, access: Access::new(), known: HashMap::new() }
    }

    /// Whether the reader may read what is known of a file.
    pub(crate) fn admits(&mut self, file: FileId) -> Result<bool> {
        if let Some(known) = self.known.get(&file) {
            return Ok(*known);
        }
        let place = self.catalog.place_of(file)?;
        let admitted = place.is_some_and(|it| self.admits_to(&it));
        self.known.insert(file, admitted);
        Ok(admitted)
    }

    fn admits_to(&mut self, place: &FilePlace) -> bool {
        rule_of(&mut self.access, place).admits(self.reader)
    }
}

/// Every file whose passages the reader may read.
pub(crate) fn readable(catalog: &Catalog, reader: &Reader) -> Result<Vec<FilePlace>> {
    let mut gate = Gate::of(catalog, reader);
    let mut places = catalog.places()?;
    places.retain(|it| it.chunks > 0 && gate.admits_to(it));
    Ok(places)
}
