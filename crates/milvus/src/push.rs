//! Making a library equal to what a home has.
//!
//! File by file: its passages are written first, then those of its former state are deleted, and its row comes last. A
//! run that ends in between has written nothing that the next one would not write again, and all rows that are there
//! are true; so a push can be repeated, and goes on where it was. Files that are gone are deleted at the end. Rules are
//! written before the passages that name them, and deleted when no file has them any more.
//!
//! Any number of homes write a library, each its own files: their keys begin with the key of the home, so that no run
//! looks at what another home wrote, or deletes it. One run of a home holds the lease of its share, which is looked at
//! before every batch. Milvus has no *compare and set*: of two programs that write for one home, one may write a batch
//! beside the other before it stops. What a batch writes is true for its file, and the next run mends the rest.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{SystemTime, UNIX_EPOCH},
};

use riddle_types::Rule;

use crate::{
    Error, FileRow, Passage, Result, Store,
    about::{About, LEASE_SECONDS, SCHEMA, Share},
    fields,
    filter::{and, one_of},
    rows::{file_columns, file_key, file_of, passage_columns, passage_id, rule_columns},
    rules::{rule_key, written},
    schema::Part,
};

/// Bytes of a batch: far below the 64 MiB that Milvus takes.
const BYTES: usize = 8 << 20;

/// Files of a batch: their keys stand in one expression.
const FILES: usize = 500;

/// Bytes of a passage beside its texts and its vector.
const OVERHEAD: usize = 1 << 10;

/// Who writes, and with what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Writer {
    /// Identity of the home.
    pub owner: String,
    /// The machine, for people.
    pub machine: String,
    /// Identity of the embedder of all vectors.
    pub embedder: String,
    /// Numbers in a vector.
    pub dimensions: usize,
    /// Identity of the sparse encoder; empty: none.
    pub encoder: String,
    /// Remove what other homes have written.
    pub take_over: bool,
    /// Delete what is there first.
    pub anew: bool,
}

/// What a home has in all, when a run comes to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Whole {
    /// Passages by the language that their words are stemmed in.
    pub languages: BTreeMap<String, u64>,
    /// Passages.
    pub passages: u64,
    /// The folders that they are from.
    pub folders: Vec<String>,
    /// The object store that keeps the files.
    pub originals: Option<String>,
}

/// What a run has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Files that were written.
    pub written: u64,
    /// Files that were there already, in this state.
    pub unchanged: u64,
    /// Files that are gone, and were deleted there.
    pub deleted: u64,
    /// Passages that were written.
    pub passages: u64,
    /// Whether the last run was cut off, and this one went on.
    pub resumed: bool,
}

/// A run that writes.
#[derive(Debug)]
pub struct Push<'a> {
    store: &'a Store,
    share: Share,
    /// The home's key.
    writer: String,
    token: String,
    /// Identity of the sparse encoder of the library; empty: none is.
    encoder: String,
    /// Whether a run before may have left passages without files.
    broken_off: bool,
    dimensions: usize,
    /// What is there: versions by the keys of files.
    there: HashMap<String, String>,
    seen: HashSet<String>,
    /// Keys of the rules that are there, or wait to be.
    rules: HashSet<String>,
    /// Those that a file of this run has.
    rules_seen: HashSet<String>,
    /// Rules that wait, each under its key.
    rules_waiting: Vec<(String, String)>,
    /// Passages that wait, each with the version of its file.
    passages: Vec<(Passage, String)>,
    bytes: usize,
    /// Files whose passages have all been given.
    files: Vec<FileRow>,
    done: Pushed,
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX))
}

impl Store {
    /// Begins a run: makes the library if there is none, and takes the lease of the home's share. A lease of the same
    /// home is taken at once: a home sees to it that it writes one library once at a time.
    ///
    /// # Errors
    /// [`Error::Older`], [`Error::Others`], [`Error::Embedder`]; what the server reports.
    pub fn begin(&self, writer: &Writer) -> Result<Push<'_>> {
        let mut about = self.record_for(writer)?;
        // Weights of two encoders are never compared: the first one's count as long as somebody else has some.
        let alone = about.writers.iter().all(|it| it.owner == writer.owner);
        if about.encoder != writer.encoder && (alone || about.encoder.is_empty()) {
            about.encoder.clone_from(&writer.encoder);
            self.write_about(&about)?;
        }
        let before = about.of(&writer.owner).cloned();
        let token = format!("{:032x}", fastrand::u128(..));
        let share = Share {
            owner: writer.owner.clone(),
            machine: writer.machine.clone(),
            lease: token.clone(),
            lease_until: now() + LEASE_SECONDS,
            complete: false,
            ..before.clone().unwrap_or_default()
        };
        self.write_share(&share)?;
        let mut push = Push {
            store: self,
            writer: share.key(),
            share,
            token,
            encoder: about.encoder,
            // Of a home without a record something may be left all the same.
            broken_off: before.as_ref().is_none_or(|it| !it.complete),
            dimensions: writer.dimensions,
            there: HashMap::new(),
            seen: HashSet::new(),
            rules: HashSet::new(),
            rules_seen: HashSet::new(),
            rules_waiting: Vec::new(),
            passages: Vec::new(),
            bytes: 0,
            files: Vec::new(),
            done: Pushed { resumed: before.is_some_and(|it| !it.complete), ..Pushed::default() },
        };
        push.hold()?;
        push.there = self.files_of(&push.writer)?;
        push.rules = self.rule_keys(&push.writer)?;
        Ok(push)
    }

    /// The record of the library that `writer` may write: of one that is made now if there is none.
    fn record_for(&self, writer: &Writer) -> Result<About> {
        let mut found = self.about()?;
        if let Some(about) = &found {
            self.may_write(about, writer)?;
        }
        if found.is_none() || writer.anew {
            if writer.anew {
                self.remove()?;
            }
            found = self.create(writer.dimensions)?;
            if let Some(about) = &found {
                self.may_write(about, &Writer { anew: false, ..writer.clone() })?;
            }
        }
        match found {
            Some(mut about) => {
                let (mine, others) =
                    about.writers.into_iter().partition(|it| it.owner == writer.owner);
                about.writers = mine;
                if writer.take_over {
                    others.iter().try_for_each(|it: &Share| self.evict(&it.owner))?;
                } else {
                    about.writers.extend(others);
                }
                Ok(about)
            }
            None => {
                let about = About {
                    schema: SCHEMA,
                    embedder: writer.embedder.clone(),
                    dimensions: writer.dimensions,
                    encoder: writer.encoder.clone(),
                    writers: Vec::new(),
                };
                self.write_about(&about)?;
                Ok(about)
            }
        }
    }

    fn rule_keys(&self, writer: &str) -> Result<HashSet<String>> {
        let mut keys = HashSet::new();
        self.pages(Part::Rules, writer, &[fields::ID], &mut |table| {
            keys.extend(table.texts(fields::ID).unwrap_or_default().iter().cloned());
            Ok(())
        })?;
        Ok(keys)
    }

    fn may_write(&self, about: &About, writer: &Writer) -> Result<()> {
        let address = self.address().to_string();
        let others: Vec<&str> = about
            .writers
            .iter()
            .filter(|it| it.owner != writer.owner)
            .map(|it| it.machine.as_str())
            .collect();
        // What others have written is removed by whoever says so alone.
        if writer.anew && !writer.take_over && !others.is_empty() {
            return Err(Error::Others { address, writers: others.join(", ") });
        }
        if !about.is_of_many() && !writer.anew {
            return Err(Error::Older { address });
        }
        let alike = about.embedder == writer.embedder && about.dimensions == writer.dimensions;
        if !alike && !writer.anew {
            let (theirs, ours) = (about.embedder.clone(), writer.embedder.clone());
            return Err(Error::Embedder { address, theirs, ours });
        }
        Ok(())
    }
}

impl Push<'_> {
    /// The key of a file of this home, by its path here.
    pub fn key_of(&self, path: &str) -> String {
        file_key(&self.writer, path)
    }

    /// The key of the home: those of its files begin with it.
    pub fn writer(&self) -> &str {
        &self.writer
    }

    /// Identity of the sparse encoder whose weights the library has; empty: none are written.
    pub fn encoder(&self) -> &str {
        &self.encoder
    }

    /// Says by which rule a file of this run may be read; its key, which the file's passages carry.
    pub fn rule(&mut self, rule: &Rule) -> String {
        let key = rule_key(&self.writer, rule);
        self.rules_seen.insert(key.clone());
        if let Some(text) = written(rule)
            && self.rules.insert(key.clone())
        {
            self.rules_waiting.push((key.clone(), text));
        }
        key
    }

    /// Whether the file is there in this state; it then stays.
    pub fn is_there(&mut self, key: &str, version: &str) -> bool {
        let there = self.there.get(key).is_some_and(|it| it == version);
        if there && self.seen.insert(key.to_owned()) {
            self.done.unchanged += 1;
        }
        there
    }

    /// Writes a file, now or with the next batch.
    ///
    /// # Errors
    /// [`Error::LeaseLost`]; what the server reports.
    pub fn put(&mut self, file: FileRow, passages: Vec<Passage>) -> Result<()> {
        self.seen.insert(file.key.clone());
        for passage in passages {
            let words = passage.words.iter().chain(&passage.names).map(|it| it.len() + 1);
            self.bytes += OVERHEAD
                + passage.text.len()
                + passage.heading.len()
                + passage.title.len()
                + words.sum::<usize>()
                + 4 * self.dimensions;
            self.passages.push((passage, file.version.clone()));
            if self.passages.len() >= self.store.rpc.options.rows || self.bytes >= BYTES {
                self.write_passages()?;
            }
        }
        self.files.push(file);
        if self.files.len() >= FILES {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what waits, deletes the files that are gone, and gives the lease back.
    ///
    /// # Errors
    /// [`Error::LeaseLost`]; what the server reports.
    pub fn finish(mut self, whole: Whole) -> Result<Pushed> {
        self.flush()?;
        let gone: Vec<String> =
            self.there.keys().filter(|it| !self.seen.contains(*it)).cloned().collect();
        for keys in gone.chunks(FILES) {
            self.hold()?;
            self.store.delete(Part::Passages, one_of(fields::FILE, keys))?;
            self.store.delete(Part::Files, one_of(fields::ID, keys))?;
            self.done.deleted += keys.len() as u64;
        }
        if self.broken_off {
            self.sweep()?;
        }
        self.drop_rules()?;
        self.hold()?;
        let share = &mut self.share;
        share.languages = whole.languages;
        share.files = self.seen.len() as u64;
        share.passages = whole.passages;
        share.folders = whole.folders;
        share.originals = whole.originals;
        share.pushed_at = Some(now());
        share.complete = true;
        share.lease.clear();
        self.store.write_share(share)?;
        Ok(self.done)
    }

    /// Gives the lease back without having come to the end, if that is possible; returns what has been written.
    pub fn abandon(mut self) -> Pushed {
        let held = self.hold();
        self.share.lease.clear();
        if let Err(error) = held.and_then(|()| self.store.write_share(&self.share)) {
            tracing::debug!(%error, "the lease stays until it ends");
        }
        self.done
    }

    /// Makes sure that the lease is still ours, and renews it in good time.
    fn hold(&mut self) -> Result<()> {
        let found = self.store.about()?;
        if found.is_none_or(|it| it.of(&self.share.owner).is_none_or(|it| it.lease != self.token)) {
            return Err(Error::LeaseLost { address: self.store.address().to_string() });
        }
        if self.share.lease_until - now() < LEASE_SECONDS / 2 {
            self.share.lease_until = now() + LEASE_SECONDS;
            self.store.write_share(&self.share)?;
        }
        Ok(())
    }

    fn write_passages(&mut self) -> Result<()> {
        if self.passages.is_empty() {
            return Ok(());
        }
        self.hold()?;
        self.write_rules()?;
        let rows: Vec<(&Passage, &str)> =
            self.passages.iter().map(|(passage, version)| (passage, version.as_str())).collect();
        let columns = passage_columns(&rows, self.dimensions);
        self.store.upsert(Part::Passages, columns, rows.len())?;
        self.done.passages += self.passages.len() as u64;
        self.passages.clear();
        self.bytes = 0;
        Ok(())
    }

    fn write_rules(&mut self) -> Result<()> {
        for rows in self.rules_waiting.chunks(self.store.rpc.options.rows.max(1)) {
            self.store.upsert(Part::Rules, rule_columns(rows), rows.len())?;
        }
        self.rules_waiting.clear();
        Ok(())
    }

    /// Deletes the rules that no file has any more.
    fn drop_rules(&mut self) -> Result<()> {
        let unused: Vec<String> = self.rules.difference(&self.rules_seen).cloned().collect();
        for keys in unused.chunks(FILES) {
            self.hold()?;
            self.store.delete(Part::Rules, one_of(fields::ID, keys))?;
        }
        Ok(())
    }

    /// Writes all that waits: passages, then files, whose former passages go in between.
    fn flush(&mut self) -> Result<()> {
        self.write_passages()?;
        if self.files.is_empty() {
            return Ok(());
        }
        self.hold()?;
        let again = self.files.iter().filter(|it| self.there.contains_key(&it.key));
        // After a run that was cut off, a file without a row may have passages all the same.
        let again: Vec<&FileRow> =
            if self.broken_off { self.files.iter().collect() } else { again.collect() };
        if !again.is_empty() {
            let of = one_of(fields::FILE, again.iter().map(|it| &it.key));
            let now = one_of(fields::VERSION, again.iter().map(|it| &it.version));
            self.store.delete(Part::Passages, and(&of, &format!("not ({now})")))?;
        }
        self.store.upsert(Part::Files, file_columns(&self.files), self.files.len())?;
        self.done.written += self.files.len() as u64;
        self.files.clear();
        Ok(())
    }

    /// Deletes passages of files that nobody knows: a run that was cut off has written them, and their files are gone
    /// since.
    fn sweep(&mut self) -> Result<()> {
        let mut unknown: HashSet<String> = HashSet::new();
        let store = self.store;
        store.pages(Part::Passages, &self.writer, &[fields::ID, fields::FILE], &mut |table| {
            let files = table.texts(fields::FILE).unwrap_or_default();
            unknown.extend(files.iter().filter(|it| !self.seen.contains(*it)).cloned());
            Ok(())
        })?;
        let unknown: Vec<String> = unknown.into_iter().collect();
        for keys in unknown.chunks(FILES) {
            self.hold()?;
            store.delete(Part::Passages, one_of(fields::FILE, keys))?;
        }
        Ok(())
    }
}

impl Passage {
    /// Its identity, by the key of its file and its place in it.
    pub fn id_of(file: &str, ordinal: u32) -> String {
        passage_id(file, ordinal)
    }

    /// The key of its file.
    pub fn file(&self) -> &str {
        file_of(&self.id)
    }
}
