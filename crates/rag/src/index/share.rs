//! Writing a shared library: what this home has, and nothing of folders whose text never leaves this machine.

use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use riddle_catalog::{Catalog, ChunkRecord, FilePlace, FileRecord, HomeLock, Root};
use riddle_ingest::Access;
use riddle_milvus::{FileRow, Passage, Push, Pushed, Whole, Writer};
use riddle_retrieval::{IndexedChunk, Words};
use riddle_types::{Advice, ChunkId, Rule, TermWeights, Trouble};

use crate::{
    contract::{Error, PushReport, Result},
    home::{
        Config, access, libraries,
        originals::{self, Originals},
    },
    stage,
};

/// Raised when the rows of a file are made otherwise: every file is then written once more.
const ROWS: &[u8] = b"3";

/// How a shared library is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushOptions {
    /// Remove what other homes have written.
    pub take_over: bool,
    /// Delete what is there first; with another embedder there is no other way.
    pub anew: bool,
}

/// Makes a shared library equal to what this home has. `progress` is told how many files of how many have been looked
/// at; when `stop` is set the run ends after a file, and the next one goes on there.
///
/// # Errors
/// A library that is not known or can not be written; a home without vectors; when the catalog can not be read.
pub fn push_library(
    config: &Config,
    name: &str,
    options: PushOptions,
    progress: &mut dyn FnMut(u64, u64),
    stop: &AtomicBool,
) -> Result<PushReport> {
    let started = Instant::now();
    let _stage = stage::enter("push");
    // One run of a home at a time: its leases are its own.
    let _lock = HomeLock::acquire(&config.home.join("push"))?;
    let catalog = Catalog::open(config.catalog())?;
    let library = libraries::named(&catalog, name)?;
    let active = catalog.active_embedder()?.ok_or_else(|| {
        let what = "nothing here has a vector yet, and a shared library needs them";
        Error::BadRequest(Trouble::with(what, Advice::UpdateIndex))
    })?;
    let writer = Writer {
        owner: catalog.identity()?,
        machine: machine(),
        embedder: active.id,
        dimensions: active.dimensions,
        encoder: catalog.term_encoder()?.unwrap_or_default(),
        take_over: options.take_over,
        anew: options.anew,
    };
    let store = libraries::connect(config, &library)?;
    let kept = originals::open(config, &library)?;
    let mut push = store.begin(&writer)?;
    let kept = match kept.map(|it| Keeping::begin(it, push.writer())).transpose() {
        Ok(it) => it,
        Err(error) => {
            push.abandon();
            return Err(error);
        }
    };
    let mut source = Source::of(&catalog, &writer, push.encoder(), kept)?;
    let written = source.write(&mut push, progress, stop);
    let (done, interrupted) = match written {
        Ok(true) => (push.finish(std::mem::take(&mut source.whole))?, false),
        // What was written stays, and is true.
        Ok(false) => (push.abandon(), true),
        Err(error) => {
            push.abandon();
            return Err(error);
        }
    };
    let kept = match (source.kept, interrupted) {
        (Some(it), false) => Some(it.finish()?),
        (it, _) => it.map(|it| it.sent),
    };
    if !interrupted {
        libraries::note_push(&catalog, name, now())?;
    }
    Ok(report(name, done, (source.held_back, kept), interrupted, started))
}

/// What a run does with the store of the files.
struct Keeping {
    originals: Originals,
    /// Names of what is there.
    there: HashSet<String>,
    /// Names of what shall stay.
    seen: HashSet<String>,
    sent: u64,
}

impl Keeping {
    fn begin(originals: Originals, writer: &str) -> Result<Keeping> {
        let there = originals.of_writer(writer)?;
        Ok(Keeping { originals, there, seen: HashSet::new(), sent: 0 })
    }

    /// Keeps the file, if it is not kept in this state.
    fn keep(&mut self, key: &str, place: &FilePlace) -> Result<()> {
        let name = originals::name_of(key, place);
        // Documents from memory have no file, and one that has changed since it was read is another file by now.
        let kept = access::is_what_was_read(place)
            && (self.there.contains(&name) || self.send(&name, place)?);
        if kept {
            self.seen.insert(name);
        } else {
            // What there is of it fits what is written of it better than nothing.
            let former = format!("{key}/");
            self.seen.extend(self.there.iter().filter(|it| it.starts_with(&former)).cloned());
        }
        Ok(())
    }

    /// Sends a file; `false`: it could not be read, or is not the one that was read any more.
    fn send(&mut self, name: &str, place: &FilePlace) -> Result<bool> {
        if !self.originals.put(name, place)? {
            return Ok(false);
        }
        if !access::is_what_was_read(place) {
            self.originals.delete(name)?;
            return Ok(false);
        }
        self.sent += 1;
        Ok(true)
    }

    /// Deletes what is of no file any more; returns how many files were sent.
    fn finish(self) -> Result<u64> {
        for name in self.there.difference(&self.seen) {
            self.originals.delete(name)?;
        }
        Ok(self.sent)
    }
}

fn report(
    name: &str,
    done: Pushed,
    (held_back, originals): (u64, Option<u64>),
    interrupted: bool,
    started: Instant,
) -> PushReport {
    PushReport {
        library: name.to_owned(),
        written: done.written,
        unchanged: done.unchanged,
        deleted: done.deleted,
        held_back,
        originals,
        passages: done.passages,
        resumed: done.resumed,
        interrupted,
        seconds: started.elapsed().as_secs_f64(),
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX))
}

/// The name of this machine, for people.
fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { std::env::consts::OS.to_owned() } else { name.to_owned() }
}

/// What is read of the catalog.
struct Source<'a> {
    catalog: &'a Catalog,
    embedder: &'a str,
    /// Identity of the encoder whose weights are written; empty: none are.
    encoder: String,
    roots: Vec<Root>,
    confined: Vec<PathBuf>,
    access: Access,
    words: Words,
    whole: Whole,
    held_back: u64,
    /// The store that keeps the files, where the home knows one.
    kept: Option<Keeping>,
}

/// A chunk with what was made of it.
struct Made {
    record: ChunkRecord,
    vector: Option<Vec<f32>>,
    weights: Option<TermWeights>,
}

/// What all passages of a file have in common.
struct FileOf<'a> {
    key: &'a str,
    path: &'a str,
    root: &'a str,
    readers: &'a str,
}

impl<'a> Source<'a> {
    fn of(
        catalog: &'a Catalog,
        writer: &'a Writer,
        encoder: &str,
        kept: Option<Keeping>,
    ) -> Result<Source<'a>> {
        let originals = kept.as_ref().map(|it| it.originals.place());
        Ok(Source {
            catalog,
            embedder: &writer.embedder,
            // Weights of another encoder than the library's would be compared with those of its own.
            encoder: Some(encoder)
                .filter(|it| *it == writer.encoder)
                .unwrap_or_default()
                .to_owned(),
            roots: catalog.roots()?,
            confined: catalog.confined()?,
            access: Access::new(),
            words: Words::default(),
            whole: Whole { originals, ..Whole::default() },
            held_back: 0,
            kept,
        })
    }

    /// Gives every file to the push; `false`: it was stopped.
    fn write(
        &mut self,
        push: &mut Push<'_>,
        progress: &mut dyn FnMut(u64, u64),
        stop: &AtomicBool,
    ) -> Result<bool> {
        let mut files = self.catalog.files(None, usize::MAX >> 1, 0)?;
        files.retain(|it| it.chunks > 0);
        let all = files.len() as u64;
        for (file, done) in files.iter().zip(1..) {
            if stop.load(Ordering::SeqCst) {
                return Ok(false);
            }
            if self.confined.iter().any(|folder| file.path.starts_with(folder)) {
                self.held_back += 1;
            } else {
                self.write_file(push, file)?;
            }
            progress(done, all);
        }
        Ok(true)
    }

    fn write_file(&mut self, push: &mut Push<'_>, file: &FileRecord) -> Result<()> {
        let chunks = self.chunks(file)?;
        for it in &chunks {
            let language = Words::language_of(&indexed(&it.record, ""));
            *self.whole.languages.entry(language.to_owned()).or_default() += 1;
        }
        self.whole.passages += chunks.len() as u64;
        let path = file.path.to_string_lossy();
        let root = self.roots.iter().find(|it| file.path.starts_with(&it.path));
        let root = root.map(|it| it.path.to_string_lossy().into_owned()).unwrap_or_default();
        if !root.is_empty() && !self.whole.folders.contains(&root) {
            self.whole.folders.push(root.clone());
        }
        let place = self.catalog.place_of(file.id)?;
        let rule = place.as_ref().map(|it| access::rule_of(&mut self.access, it));
        let readers = push.rule(&rule.unwrap_or(Rule::Nobody));
        let (key, version) = (push.key_of(&path), self.version(&path, &readers, &chunks));
        // The file before what leads to it.
        if let (Some(kept), Some(place)) = (&mut self.kept, &place) {
            kept.keep(&key, place)?;
        }
        if push.is_there(&key, &version) {
            return Ok(());
        }
        let row = FileRow {
            key: key.clone(),
            version,
            path: path.clone().into_owned(),
            root: root.clone(),
            passages: chunks.len() as u64,
        };
        let of = FileOf { key: &key, path: &path, root: &root, readers: &readers };
        let passages = chunks.into_iter().map(|it| self.passage(it, &of)).collect();
        Ok(push.put(row, passages)?)
    }

    fn chunks(&self, file: &FileRecord) -> Result<Vec<Made>> {
        let records = self.catalog.chunks_of(file.id)?;
        let ids: Vec<ChunkId> = records.iter().map(|it| it.id).collect();
        let mut vectors: BTreeMap<ChunkId, Vec<f32>> =
            self.catalog.vectors_of(self.embedder, &ids)?.into_iter().collect();
        let mut weights: BTreeMap<ChunkId, TermWeights> = match self.encoder.is_empty() {
            true => BTreeMap::new(),
            false => self.catalog.terms_of(&ids)?.into_iter().collect(),
        };
        let made = |record: ChunkRecord| Made {
            vector: vectors.remove(&record.id),
            weights: weights.remove(&record.id),
            record,
        };
        Ok(records.into_iter().map(made).collect())
    }

    /// A hash over all that is kept of a file.
    fn version(&self, path: &str, readers: &str, chunks: &[Made]) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut add = |part: &[u8]| {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        };
        add(ROWS);
        for text in [self.embedder, &self.encoder, path, readers] {
            add(text.as_bytes());
        }
        for Made { record, vector, weights } in chunks {
            add(record.kind.as_str().as_bytes());
            add(&record.modified.to_le_bytes());
            add(record.title.as_deref().unwrap_or_default().as_bytes());
            add(record.language.as_deref().unwrap_or_default().as_bytes());
            add(record.heading.as_bytes());
            add(record.text.as_bytes());
            add(&serde_json::to_vec(&record.location).unwrap_or_default());
            // The text and the embedder make the vector.
            add(&[u8::from(vector.is_some())]);
            add(&weights.as_ref().map(TermWeights::to_bytes).unwrap_or_default());
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }

    fn passage(&mut self, made: Made, of: &FileOf<'_>) -> Passage {
        let path = of.path;
        let words = self.words.of_passage(&indexed(&made.record, path));
        let record = made.record;
        Passage {
            id: Passage::id_of(of.key, record.ordinal),
            path: path.to_owned(),
            root: of.root.to_owned(),
            readers: of.readers.to_owned(),
            kind: record.kind,
            modified: record.modified,
            title: record.title.unwrap_or_default(),
            language: record.language.unwrap_or_default(),
            ordinal: record.ordinal,
            heading: record.heading,
            text: record.text,
            location: record.location,
            words: words.words,
            names: words.names,
            vector: made.vector,
            weights: made.weights,
        }
    }
}

/// A chunk as the words of it are found.
pub(crate) fn indexed<'a>(record: &'a ChunkRecord, path: &'a str) -> IndexedChunk<'a> {
    IndexedChunk {
        id: record.id,
        path,
        kind: record.kind,
        modified: record.modified,
        title: record.title.as_deref().unwrap_or_default(),
        heading: &record.heading,
        text: &record.text,
        language: record.language.as_deref(),
    }
}
