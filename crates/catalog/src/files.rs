//! The queue, and what reading a file brings back: one transaction for a batch of files.

use std::{collections::HashMap, path::PathBuf};

use riddle_types::{Chunk, FileKind, FileState};
use rusqlite::{OptionalExtension as _, Transaction, params};

use crate::{
    Catalog, Result, RootId,
    changes::{log_chunk, log_file},
    paths::{from_bytes, to_bytes},
    vectors::put_vector,
};

/// A file that was begun this often and never finished takes the program down: it is given up.
pub const MAX_ATTEMPTS: u32 = 3;

/// Identity of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub i64);

/// A file to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The file.
    pub file: FileId,
    /// Its root.
    pub root: RootId,
    /// Its absolute path.
    pub path: PathBuf,
    /// How often it was begun before.
    pub attempts: u32,
}

/// A chunk with the identity of its text.
#[derive(Debug, Clone, PartialEq)]
pub struct NewChunk {
    /// The chunk.
    pub chunk: Chunk,
    /// Hash of what an embedder sees of it.
    pub text_hash: [u8; 32],
    /// Its vector by the embedder given to the commit, if there is one.
    pub vector: Option<Vec<f32>>,
}

/// What reading a file brought back.
#[derive(Debug, Clone, PartialEq)]
pub struct FileOutcome {
    /// The file.
    pub file: FileId,
    /// Hash of its bytes.
    pub content_hash: Option<[u8; 32]>,
    /// Format family.
    pub kind: FileKind,
    /// New state.
    pub state: FileState,
    /// Why, for states other than indexed.
    pub reason: String,
    /// Title that the file states.
    pub title: Option<String>,
    /// ISO 639-1 code.
    pub language: Option<String>,
    /// What the parser skipped or guessed.
    pub warnings: Vec<String>,
    /// Size that was read.
    pub size: u64,
    /// Modification time before reading.
    pub modified_ns: i64,
    /// The chunks, in order.
    pub chunks: Vec<NewChunk>,
}

impl Catalog {
    /// The next files to read: those begun least often first, then the most recently modified, because
    /// people look for what they just worked on.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn next_jobs(&self, limit: usize) -> Result<Vec<Job>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT files.id, files.root, roots.path, files.path, jobs.attempts
             FROM jobs JOIN files ON files.id = jobs.file JOIN roots ON roots.id = files.root
             WHERE roots.virtual = 0
             ORDER BY jobs.attempts, files.modified_ns DESC, files.id LIMIT ?1",
        )?;
        let rows = statement.query_map([limit as i64], |row| {
            let (root, path): (Vec<u8>, Vec<u8>) = (row.get(2)?, row.get(3)?);
            Ok(Job {
                file: FileId(row.get(0)?),
                root: RootId(row.get(1)?),
                path: from_bytes(root).join(from_bytes(path)),
                attempts: row.get(4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Counts an attempt of each job, durably, before any of the files is opened. Returns the jobs to do;
    /// those begun [`MAX_ATTEMPTS`] times before are given up and recorded as failed.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn begin_jobs(&self, jobs: Vec<Job>) -> Result<Vec<Job>> {
        self.transaction(|transaction| {
            let (doomed, todo): (Vec<Job>, Vec<Job>) =
                jobs.into_iter().partition(|it| it.attempts >= MAX_ATTEMPTS);
            for job in &doomed {
                let reason =
                    format!("the program ended {MAX_ATTEMPTS} times while reading this file");
                transaction.execute(
                    "UPDATE files SET state = ?2, reason = ?3 WHERE id = ?1",
                    params![job.file.0, FileState::Failed.as_str(), reason],
                )?;
                log_file(transaction, job.file, true)?;
                transaction.execute("DELETE FROM chunks WHERE file = ?1", [job.file.0])?;
                transaction.execute("DELETE FROM jobs WHERE file = ?1", [job.file.0])?;
            }
            for job in &todo {
                transaction.execute(
                    "UPDATE jobs SET attempts = attempts + 1 WHERE file = ?1",
                    [job.file.0],
                )?;
            }
            Ok(todo)
        })
    }

    /// Takes back the attempt of jobs that were begun and not looked at: the run was stopped in good order.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn return_jobs(&self, files: &[FileId]) -> Result<()> {
        self.transaction(|transaction| {
            for file in files {
                transaction.execute(
                    "UPDATE jobs SET attempts = max(0, attempts - 1) WHERE file = ?1",
                    [file.0],
                )?;
            }
            Ok(())
        })
    }

    /// Files waiting in the queue.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn pending_jobs(&self) -> Result<u64> {
        let count: i64 =
            self.connection().query_row("SELECT count(*) FROM jobs", [], |row| row.get(0))?;
        Ok(count.cast_unsigned())
    }

    /// Writes what reading a batch of files brought back: all of it or nothing. Chunks whose text is as
    /// before keep their identity and vectors. `embedder` is whose vectors the chunks carry.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn commit_files(&self, outcomes: &[FileOutcome], embedder: Option<&str>) -> Result<()> {
        self.transaction(|transaction| {
            for outcome in outcomes {
                commit_file(transaction, outcome, embedder)?;
            }
            Ok(())
        })
    }

    /// Removes files that vanished between scan and reading.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn remove_files(&self, files: &[FileId]) -> Result<()> {
        self.transaction(|transaction| {
            for file in files {
                log_file(transaction, *file, true)?;
                transaction.execute("DELETE FROM files WHERE id = ?1", [file.0])?;
            }
            Ok(())
        })
    }

    /// Makes or finds the document `name` of a virtual root; its chunks are then committed as a file's.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn virtual_file(&self, root: RootId, name: &str) -> Result<FileId> {
        let connection = self.connection();
        let path = to_bytes(name.as_ref());
        let known = connection
            .prepare_cached("SELECT id FROM files WHERE root = ?1 AND path = ?2")?
            .query_row(params![root.0, path], |row| row.get(0))
            .optional()?;
        if let Some(id) = known {
            return Ok(FileId(id));
        }
        connection
            .prepare_cached("INSERT INTO files (root, path, size, modified_ns, state) VALUES (?1, ?2, 0, 0, ?3)")?
            .execute(params![root.0, path, FileState::Pending.as_str()])?;
        Ok(FileId(connection.last_insert_rowid()))
    }

    /// Puts every failed file back into the queue; returns how many.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn retry_failed(&self) -> Result<u64> {
        self.transaction(|transaction| {
            transaction.execute(
                "INSERT INTO jobs (file) SELECT id FROM files WHERE state = ?1
                 ON CONFLICT (file) DO UPDATE SET attempts = 0",
                [FileState::Failed.as_str()],
            )?;
            let count = transaction.execute(
                "UPDATE files SET state = ?2, reason = '' WHERE state = ?1",
                [FileState::Failed.as_str(), FileState::Pending.as_str()],
            )?;
            Ok(count as u64)
        })
    }
}

struct OldChunk {
    id: i64,
    heading: String,
    location: String,
}

fn commit_file(
    transaction: &Transaction<'_>,
    outcome: &FileOutcome,
    embedder: Option<&str>,
) -> Result<()> {
    let id = outcome.file.0;
    let updated = transaction
        .prepare_cached(
            "UPDATE files SET content_hash = ?2, kind = ?3, state = ?4, reason = ?5, title = ?6, language = ?7,
                              warnings = ?8, size = ?9, modified_ns = ?10 WHERE id = ?1",
        )?
        .execute(params![
            id,
            outcome.content_hash,
            outcome.kind.as_str(),
            outcome.state.as_str(),
            outcome.reason,
            outcome.title,
            outcome.language,
            json(&outcome.warnings),
            outcome.size.cast_signed(),
            outcome.modified_ns
        ])?;
    if updated == 0 {
        // The file or its root was removed while it was read: there is nothing to write to.
        return Ok(());
    }
    transaction.prepare_cached("DELETE FROM jobs WHERE file = ?1")?.execute([id])?;
    let mut old = old_chunks(transaction, id)?;
    // Ordinals are unique per file: move the old ones out of the way before chunks take new places.
    transaction
        .prepare_cached("UPDATE chunks SET ordinal = -1 - ordinal WHERE file = ?1")?
        .execute([id])?;
    for new in &outcome.chunks {
        let location = json(&new.chunk.location);
        let kept = old.get_mut(&new.text_hash).and_then(Vec::pop);
        let chunk_id = match kept {
            Some(kept) => {
                transaction
                    .prepare_cached(
                        "UPDATE chunks SET ordinal = ?2, text = ?3, heading = ?4, location = ?5, tokens = ?6 WHERE id = ?1",
                    )?
                    .execute(params![
                        kept.id,
                        new.chunk.ordinal,
                        new.chunk.text,
                        new.chunk.heading,
                        location,
                        new.chunk.tokens
                    ])?;
                if kept.heading != new.chunk.heading || kept.location != location {
                    log_chunk(transaction, kept.id, false)?;
                }
                kept.id
            }
            None => insert_chunk(transaction, id, new, &location)?,
        };
        if let (Some(embedder), Some(vector)) = (embedder, &new.vector) {
            put_vector(transaction, embedder, chunk_id, vector)?;
        }
    }
    for gone in old.into_values().flatten() {
        log_chunk(transaction, gone.id, true)?;
        transaction.prepare_cached("DELETE FROM chunks WHERE id = ?1")?.execute([gone.id])?;
    }
    Ok(())
}

fn old_chunks(
    transaction: &Transaction<'_>,
    file: i64,
) -> Result<HashMap<[u8; 32], Vec<OldChunk>>> {
    let mut statement = transaction.prepare_cached(
        "SELECT text_hash, id, heading, location FROM chunks WHERE file = ?1 ORDER BY ordinal DESC",
    )?;
    let mut rows = statement.query([file])?;
    let mut old: HashMap<[u8; 32], Vec<OldChunk>> = HashMap::new();
    while let Some(row) = rows.next()? {
        let chunk = OldChunk { id: row.get(1)?, heading: row.get(2)?, location: row.get(3)? };
        old.entry(row.get(0)?).or_default().push(chunk);
    }
    Ok(old)
}

fn insert_chunk(
    transaction: &Transaction<'_>,
    file: i64,
    new: &NewChunk,
    location: &str,
) -> Result<i64> {
    transaction
        .prepare_cached(
            "INSERT INTO chunks (file, ordinal, text, heading, location, tokens, text_hash)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            file,
            new.chunk.ordinal,
            new.chunk.text,
            new.chunk.heading,
            location,
            new.chunk.tokens,
            new.text_hash
        ])?;
    let id = transaction.last_insert_rowid();
    log_chunk(transaction, id, false)?;
    Ok(id)
}

/// Plain data to JSON text.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("strings and numbers always serialize: this is a bug")
}
