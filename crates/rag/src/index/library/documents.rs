//! Documents from memory: a collection that is indexed as files are.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use riddle_catalog::{FileId, FileOutcome, NewChunk};
use riddle_types::{Chunk, FileKind, FileState};

use super::Library;
use crate::{
    contract::{IndexEvent, IndexReport, Result},
    home::settings::wanted_embedder,
    index::{pace::Pace, read::text_hash, text::whole},
};

/// A document from memory, for corpora that are not files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputDocument {
    /// Its name in the collection.
    pub id: String,
    /// Its title; may be empty.
    pub title: String,
    /// Its text: one passage, or several where it is longer than one.
    pub text: String,
}

impl Library {
    /// Indexes documents from memory as a collection. What is longer than some 320 tokens is cut into passages, as a
    /// file is: a model would read its beginning alone. Documents of an earlier call with the same id are replaced.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn add_documents(
        &mut self,
        collection: &str,
        documents: &mut dyn Iterator<Item = InputDocument>,
        observer: &mut dyn FnMut(IndexEvent<'_>),
        stop: &AtomicBool,
    ) -> Result<IndexReport> {
        /// Documents committed together.
        const BATCH: usize = 128;
        let started = Instant::now();
        let mut report = IndexReport::default();
        let root = self.catalog.add_virtual_root(collection)?;
        let wanted = wanted_embedder(&self.catalog)?;
        if self.embedder.is_none() {
            self.introduce(&wanted)?;
        }
        loop {
            let batch: Vec<InputDocument> = documents.take(BATCH).collect();
            if batch.is_empty() || stop.load(Ordering::Relaxed) {
                break;
            }
            let mut outcomes = batch
                .into_iter()
                .map(|document| {
                    let file = self.catalog.virtual_file(root.id, &document.id)?;
                    let chunks = self.pipeline(stop).passages(&document.text);
                    Ok(virtual_outcome(file, document, chunks))
                })
                .collect::<Result<Vec<_>>>()?;
            self.pipeline(stop).commit_outcomes(&mut outcomes, &mut report)?;
            observer(IndexEvent::Queued(report.read));
        }
        self.words(observer, stop, &mut report)?;
        self.meaning(&mut Pace::hurried(), &mut || false, observer, stop, &mut report)?;
        report.seconds = started.elapsed().as_secs_f64();
        Ok(report)
    }
}

/// A document as a file that was read; one that has a title alone is found by that.
fn virtual_outcome(file: FileId, document: InputDocument, mut chunks: Vec<Chunk>) -> FileOutcome {
    let title = Some(document.title).filter(|it| !it.is_empty());
    let size = document.text.len() as u64;
    if chunks.is_empty() && title.is_some() {
        chunks.push(whole(String::new()));
    }
    let new = |chunk: Chunk| NewChunk {
        text_hash: text_hash(title.as_deref(), &chunk),
        chunk,
        vector: None,
    };
    let chunks: Vec<NewChunk> = chunks.into_iter().map(new).collect();
    FileOutcome {
        file,
        content_hash: None,
        kind: FileKind::Text,
        state: if chunks.is_empty() { FileState::NoText } else { FileState::Indexed },
        reason: String::new(),
        title,
        language: None,
        tags: Vec::new(),
        warnings: Vec::new(),
        size,
        modified_ns: 0,
        volume_id: None,
        chunks,
        pictures: Vec::new(),
    }
}
