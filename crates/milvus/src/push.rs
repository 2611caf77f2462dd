//! Making a library equal to what a home has.
//!
//! File by file: its passages are written first, then those of its former state are deleted, and its row comes last. A
//! run that ends in between has written nothing that the next one would not write again, and all rows that are there
//! are true; so a push can be repeated, and goes on where it was. Files that are gone are deleted at the end. Rules are
//! written before the passages that name them, and deleted when no file has them any more.
//!
//! One home owns a library, and one run holds its lease, which is looked at before every batch. Milvus has no *compare
//! and set*: who begins in the same moment as another may write one batch beside it before one of both stops. What a
//! batch writes is true for its file, and the next run mends the rest.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{SystemTime, UNIX_EPOCH},
};

use riddle_types::Rule;

use crate::{
    Error, FileRow, Passage, Result, Store,
    about::{About, LEASE_SECONDS, SCHEMA},
    fields,
    filter::{and, one_of},
    rows::{file_columns, file_key, passage_columns, rule_columns},
    rules::{rule_key, written},
    schema::Part,
};

/// Passages of a batch.
const ROWS: usize = 500;

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
    /// Write even where another home is the owner, or somebody holds the lease.
    pub take_over: bool,
    /// Delete what is there first.
    pub anew: bool,
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
    about: About,
    token: String,
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
    /// Begins a run: makes the library if there is none, and takes its lease. A lease of the same owner is taken at
    /// once: a home sees to it that it writes one library once at a time.
    ///
    /// # Errors
    /// [`Error::Owned`], [`Error::Busy`], [`Error::Embedder`]; what the server reports.
    pub fn begin(&self, writer: &Writer) -> Result<Push<'_>> {
        let found = self.about()?;
        let token = format!("{:032x}", fastrand::u128(..));
        let fresh = About {
            schema: SCHEMA,
            embedder: writer.embedder.clone(),
            dimensions: writer.dimensions,
            ..About::default()
        };
        let (mut about, resumed) = match found {
            Some(about) => {
                self.may_write(&about, writer, &token)?;
                if writer.anew {
                    self.create(writer.dimensions)?;
                    (fresh, false)
                } else {
                    let cut_off = !about.complete;
                    (about, cut_off)
                }
            }
            None => {
                self.create(writer.dimensions)?;
                (fresh, false)
            }
        };
        about.owner.clone_from(&writer.owner);
        about.machine.clone_from(&writer.machine);
        about.encoder.clone_from(&writer.encoder);
        about.lease.clone_from(&token);
        about.lease_until = now() + LEASE_SECONDS;
        about.complete = false;
        self.write_about(&about)?;
        let mut push = Push {
            store: self,
            about,
            token,
            dimensions: writer.dimensions,
            there: HashMap::new(),
            seen: HashSet::new(),
            rules: HashSet::new(),
            rules_seen: HashSet::new(),
            rules_waiting: Vec::new(),
            passages: Vec::new(),
            bytes: 0,
            files: Vec::new(),
            done: Pushed { resumed, ..Pushed::default() },
        };
        push.hold()?;
        push.there = self.files()?;
        push.rules = self.rule_keys()?;
        Ok(push)
    }

    fn rule_keys(&self) -> Result<HashSet<String>> {
        let mut keys = HashSet::new();
        self.pages(Part::Rules, &[fields::ID], &mut |table| {
            keys.extend(table.texts(fields::ID).unwrap_or_default().iter().cloned());
            Ok(())
        })?;
        Ok(keys)
    }

    fn may_write(&self, about: &About, writer: &Writer, token: &str) -> Result<()> {
        let address = self.address().to_string();
        if about.owner != writer.owner && !writer.take_over {
            return Err(Error::Owned { address, owner: about.machine.clone() });
        }
        let seconds = about.held_for(token, now());
        if seconds > 0 && about.owner != writer.owner && !writer.take_over {
            return Err(Error::Busy { address, writer: about.machine.clone(), seconds });
        }
        let alike = about.embedder == writer.embedder && about.dimensions == writer.dimensions;
        if !about.has_rules() && !writer.anew {
            return Err(Error::Older { address });
        }
        if !alike && !writer.anew {
            let (theirs, ours) = (about.embedder.clone(), writer.embedder.clone());
            return Err(Error::Embedder { address, theirs, ours });
        }
        Ok(())
    }
}

impl Push<'_> {
    /// Says by which rule a file of this run may be read; its key, which the file's passages carry.
    pub fn rule(&mut self, rule: &Rule) -> String {
        let key = rule_key(rule);
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
            if self.passages.len() >= ROWS || self.bytes >= BYTES {
                self.write_passages()?;
            }
        }
        self.files.push(file);
        if self.files.len() >= FILES {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what waits, deletes the files that are gone, and gives the lease back. `languages`: passages by the
    /// language that their words are stemmed in.
    ///
    /// # Errors
    /// [`Error::LeaseLost`]; what the server reports.
    pub fn finish(mut self, languages: BTreeMap<String, u64>, passages: u64) -> Result<Pushed> {
        self.flush()?;
        let gone: Vec<String> =
            self.there.keys().filter(|it| !self.seen.contains(*it)).cloned().collect();
        for keys in gone.chunks(FILES) {
            self.hold()?;
            self.store.delete(Part::Passages, one_of(fields::FILE, keys))?;
            self.store.delete(Part::Files, one_of(fields::ID, keys))?;
            self.done.deleted += keys.len() as u64;
        }
        if self.done.resumed {
            self.sweep()?;
        }
        self.drop_rules()?;
        self.hold()?;
        let about = &mut self.about;
        about.languages = languages;
        about.files = self.seen.len() as u64;
        about.passages = passages;
        about.pushed_at = Some(now());
        about.complete = true;
        about.lease.clear();
        self.store.write_about(about)?;
        Ok(self.done)
    }

    /// Gives the lease back without having come to the end, if that is possible; returns what has been written.
    pub fn abandon(mut self) -> Pushed {
        let held = self.hold();
        self.about.lease.clear();
        if let Err(error) = held.and_then(|()| self.store.write_about(&self.about)) {
            tracing::debug!(%error, "the lease stays until it ends");
        }
        self.done
    }

    /// Makes sure that the lease is still ours, and renews it in good time.
    fn hold(&mut self) -> Result<()> {
        let address = || self.store.address().to_string();
        let found = self.store.about()?;
        if found.is_none_or(|it| it.lease != self.token) {
            return Err(Error::LeaseLost { address: address() });
        }
        if self.about.lease_until - now() < LEASE_SECONDS / 2 {
            self.about.lease_until = now() + LEASE_SECONDS;
            self.store.write_about(&self.about)?;
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
        for rows in self.rules_waiting.chunks(ROWS) {
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
            if self.done.resumed { self.files.iter().collect() } else { again.collect() };
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
        store.pages(Part::Passages, &[fields::ID, fields::FILE], &mut |table| {
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
    /// Its identity by file and place.
    pub fn id_of(path: &str, ordinal: u32) -> String {
        crate::rows::passage_id(&file_key(path), ordinal)
    }
}
