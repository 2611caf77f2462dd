//! The queue, and what reading a file brings back: one transaction for a batch of files.

use std::{collections::HashSet, path::PathBuf};

use riddle_types::{Chunk, FileKind, FileState};
use rusqlite::{OptionalExtension as _, Transaction, params};

use crate::{
    Catalog, Result, RootId,
    changes::log_file,
    commit::{commit_file, queued_again},
    paths::{from_bytes, to_bytes},
    vectors::VectorWriter,
};

/// A file that was begun this often and never finished takes the program down: it is given up.
///
/// Parsers run in processes of their own, so few files can do that, while a program is ended from outside
/// for many reasons. The number is high because being wrong loses a file, and patience costs little: what
/// was begun most often comes last, when everything else is read.
pub const MAX_ATTEMPTS: u32 = 8;

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
    /// Its path below the root.
    pub relative_path: PathBuf,
    /// Size in bytes, as scanned.
    pub size: u64,
    /// Modification time in nanoseconds since 1970, as scanned.
    pub modified_ns: i64,
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
    /// Tags that the file gives itself.
    pub tags: Vec<String>,
    /// What the parser skipped or guessed.
    pub warnings: Vec<String>,
    /// Size that was read.
    pub size: u64,
    /// Modification time before reading.
    pub modified_ns: i64,
    /// Identity of the file that was read: another may stand at its path by now than the scan saw. `None`
    /// leaves what the scan saw.
    pub volume_id: Option<(u64, u64)>,
    /// The chunks, in order.
    pub chunks: Vec<NewChunk>,
    /// Pages that are pictures, from 1, and numbers of pictures in the file.
    pub pictures: Vec<u32>,
}

impl Catalog {
    /// The next files to read: those begun least often first, then the most recently modified, because
    /// people look for what they just worked on.
    ///
    /// A file that was begun before and not finished may be what ended the program: it comes alone, so that
    /// no other file is blamed with it.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn next_jobs(&self, limit: usize) -> Result<Vec<Job>> {
        self.next_jobs_besides(limit, &HashSet::new())
    }

    /// [`next_jobs`](Self::next_jobs) besides those that are being read already: for a pipeline that begins
    /// the next batch before the last one is committed.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn next_jobs_besides(&self, limit: usize, busy: &HashSet<FileId>) -> Result<Vec<Job>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT jobs.file, files.root, roots.path, files.path, jobs.attempts, files.size, files.modified_ns
             FROM jobs CROSS JOIN files ON files.id = jobs.file JOIN roots ON roots.id = files.root
             ORDER BY jobs.attempts, jobs.modified_ns DESC, jobs.file",
        )?;
        let mut rows = statement.query([])?;
        let mut jobs: Vec<Job> = Vec::new();
        while jobs.len() < limit
            && let Some(row) = rows.next()?
        {
            let file = FileId(row.get(0)?);
            let attempts: u32 = row.get(4)?;
            if busy.contains(&file) {
                continue;
            }
            if attempts > 0 && !jobs.is_empty() {
                break;
            }
            let (root, path): (Vec<u8>, Vec<u8>) = (row.get(2)?, row.get(3)?);
            let relative_path = from_bytes(path);
            jobs.push(Job {
                file,
                root: RootId(row.get(1)?),
                path: from_bytes(root).join(&relative_path),
                relative_path,
                size: row.get::<_, i64>(5)?.cast_unsigned(),
                modified_ns: row.get(6)?,
                attempts,
            });
            if attempts > 0 {
                break;
            }
        }
        Ok(jobs)
    }

    /// Counts an attempt of each job, durably, before any of the files is opened. Returns the jobs to do;
    /// those begun [`MAX_ATTEMPTS`] times before are given up and recorded as failed, so the answer can be
    /// empty while others wait.
    ///
    /// An attempt counts only if the process dies over it: what is begun and not committed, removed or
    /// returned when the catalog is dropped is taken back.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn begin_jobs(&self, jobs: Vec<Job>) -> Result<Vec<Job>> {
        let mut begun = self.begun();
        let todo = self.transaction(|transaction| {
            let (doomed, todo): (Vec<Job>, Vec<Job>) = jobs
                .into_iter()
                .partition(|it| it.attempts >= MAX_ATTEMPTS && !begun.contains(&it.file));
            for job in &doomed {
                give_up(transaction, job.file)?;
            }
            for job in &todo {
                // A second try of the process that survived the first is the same attempt.
                transaction
                    .prepare_cached(
                        "UPDATE jobs SET attempts = attempts + 1 WHERE file = ?1 AND (attempts = 0 OR NOT ?2)",
                    )?
                    .execute(params![job.file.0, begun.contains(&job.file)])?;
            }
            Ok(todo)
        })?;
        begun.extend(todo.iter().map(|it| it.file));
        Ok(todo)
    }

    /// Takes back the attempt of jobs that were begun and not looked at: the run was stopped in good order.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn return_jobs(&self, files: &[FileId]) -> Result<()> {
        self.transaction(|transaction| {
            for file in files {
                transaction
                    .prepare_cached(
                        "UPDATE jobs SET attempts = max(0, attempts - 1) WHERE file = ?1",
                    )?
                    .execute([file.0])?;
            }
            Ok(())
        })?;
        self.finished(files.iter().copied());
        Ok(())
    }

    fn finished(&self, files: impl Iterator<Item = FileId>) {
        let mut begun = self.begun();
        for file in files {
            begun.remove(&file);
        }
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
    /// A file that a scan queued again while it was read gets the chunks and stays queued; one that was
    /// removed meanwhile is passed over. Committing the same outcome twice changes nothing.
    ///
    /// # Errors
    /// [`UnknownEmbedder`](crate::Error::UnknownEmbedder) and [`WrongVector`](crate::Error::WrongVector) for vectors
    /// that do not belong here; when the database can not be written.
    pub fn commit_files(&self, outcomes: &[FileOutcome], embedder: Option<&str>) -> Result<()> {
        self.transaction(|transaction| {
            let writer = embedder.map(|it| VectorWriter::new(transaction, it)).transpose()?;
            for outcome in outcomes {
                commit_file(transaction, outcome, writer.as_ref())?;
            }
            Ok(())
        })?;
        self.finished(outcomes.iter().map(|it| it.file));
        Ok(())
    }

    /// Removes files that were begun and found to be gone. One that a scan has queued again since, for
    /// example under the path it moved to, stays.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn remove_files(&self, files: &[FileId]) -> Result<()> {
        self.transaction(|transaction| {
            for file in files {
                if !queued_again(transaction, *file)? {
                    log_file(transaction, *file, true)?;
                    transaction.execute("DELETE FROM files WHERE id = ?1", [file.0])?;
                }
            }
            Ok(())
        })?;
        self.finished(files.iter().copied());
        Ok(())
    }

    /// Makes or finds the document `name` of a virtual root; its chunks are then committed as a file's. Such
    /// documents are never queued and no scan touches them.
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
            .prepare_cached(
                "INSERT INTO files (root, path, display, size, modified_ns, state, by_scan)
                 VALUES (?1, ?2, ?3, 0, 0, ?4, 0)",
            )?
            .execute(params![root.0, path, name, FileState::Pending.as_str()])?;
        Ok(FileId(connection.last_insert_rowid()))
    }

    /// Puts every failed file back into the queue; returns how many.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn retry_failed(&self) -> Result<u64> {
        self.transaction(|transaction| {
            transaction.execute(
                "INSERT INTO jobs (file, modified_ns)
                 SELECT files.id, modified_ns FROM files JOIN roots ON roots.id = files.root
                 WHERE state = ?1 AND roots.virtual = 0
                 ON CONFLICT (file) DO UPDATE SET attempts = 0",
                [FileState::Failed.as_str()],
            )?;
            let count = transaction.execute(
                "UPDATE files SET state = ?2, by_scan = 0, reason = ''
                 WHERE state = ?1 AND id IN (SELECT file FROM jobs)",
                [FileState::Failed.as_str(), FileState::Pending.as_str()],
            )?;
            Ok(count as u64)
        })
    }
}

fn give_up(transaction: &Transaction<'_>, file: FileId) -> Result<()> {
    let reason = format!("the program ended {MAX_ATTEMPTS} times while reading this file");
    transaction.execute(
        "UPDATE files SET state = ?2, by_scan = 0, reason = ?3 WHERE id = ?1",
        params![file.0, FileState::Failed.as_str(), reason],
    )?;
    log_file(transaction, file, true)?;
    transaction.execute("DELETE FROM chunks WHERE file = ?1", [file.0])?;
    transaction.execute("DELETE FROM jobs WHERE file = ?1", [file.0])?;
    Ok(())
}
