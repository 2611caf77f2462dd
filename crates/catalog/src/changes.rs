//! The change log that derived indexes follow, and the chunks it names.

use std::{collections::HashSet, path::PathBuf};

use riddle_types::{ChunkId, ChunkSet, FileKind, Filter, Location};
use rusqlite::{Row, Transaction, params};

use crate::{Catalog, Error, FileId, Result, paths::from_bytes, tags};

/// Chunks handed over at once while reading them all: about half a megabyte of text.
const PAGE: i64 = 512;

/// One entry of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Its place; grows, never reused.
    pub seq: u64,
    /// The chunk.
    pub chunk: ChunkId,
    /// Whether it is gone. Otherwise it is new, or something that is kept beside it changed (path, heading,
    /// date, title), or it got its vector or weights. The text that both are made of never changes: an index of
    /// them may pass over a chunk that it holds.
    pub removed: bool,
    /// What it got while it is otherwise as it was: nothing for any other index.
    pub only: Option<Derived>,
}

/// What is made of a chunk's text after it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Derived {
    /// Its vector.
    Vector,
    /// Its weights of terms.
    Terms,
}

/// A chunk with what is known about its file.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkRecord {
    /// Identity.
    pub id: ChunkId,
    /// Its file.
    pub file: FileId,
    /// The file's absolute path.
    pub path: PathBuf,
    /// Format family.
    pub kind: FileKind,
    /// The file's modification time, in seconds since 1970.
    pub modified: i64,
    /// The title that the file states.
    pub title: Option<String>,
    /// ISO 639-1 code of the file.
    pub language: Option<String>,
    /// Position in the file.
    pub ordinal: u32,
    /// Headings above it.
    pub heading: String,
    /// The passage.
    pub text: String,
    /// Where it is.
    pub location: Location,
    /// Other files with the very same passage, where somebody has looked for them.
    pub also_in: Vec<PathBuf>,
    /// Other files with a passage that says nearly the same, where somebody has looked for them.
    pub versions: Vec<PathBuf>,
}

/// Whether a file passes a filter, of whose tags others ask: its root's path, its own, its kind, and when it was
/// modified, from the second column on.
fn passes(filter: &Filter, row: &Row<'_>) -> rusqlite::Result<bool> {
    let (root, path): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(2)?);
    let kind: String = row.get(3)?;
    let modified = row.get::<_, i64>(4)?.div_euclid(1_000_000_000);
    let path = from_bytes(root).join(from_bytes(path));
    Ok((filter.folders.is_empty() || filter.folders.iter().any(|it| path.starts_with(it)))
        && !filter.except.iter().any(|it| path.starts_with(it))
        && (filter.kinds.is_empty() || filter.kinds.iter().any(|it| it.as_str() == kind))
        && filter.modified_from.is_none_or(|it| modified >= it)
        && filter.modified_until.is_none_or(|it| modified < it))
}

pub(crate) fn log_chunk(transaction: &Transaction<'_>, chunk: i64, removed: bool) -> Result<()> {
    transaction
        .prepare_cached("INSERT INTO changes (chunk, removed) VALUES (?1, ?2)")?
        .execute(params![chunk, removed])?;
    Ok(())
}

/// What `removed` is of a chunk that got its vector.
const GOT_VECTOR: i64 = 2;

/// What `removed` is of a chunk that got its weights of terms.
const GOT_TERMS: i64 = 3;

/// Logs that a chunk got its vector.
pub(crate) fn log_vector(transaction: &Transaction<'_>, chunk: i64) -> Result<()> {
    transaction
        .prepare_cached("INSERT INTO changes (chunk, removed) VALUES (?1, ?2)")?
        .execute(params![chunk, GOT_VECTOR])?;
    Ok(())
}

/// Logs that a chunk got its weights of terms.
pub(crate) fn log_terms(transaction: &Transaction<'_>, chunk: i64) -> Result<()> {
    transaction
        .prepare_cached("INSERT INTO changes (chunk, removed) VALUES (?1, ?2)")?
        .execute(params![chunk, GOT_TERMS])?;
    Ok(())
}

/// Logs every chunk of a file.
pub(crate) fn log_file(transaction: &Transaction<'_>, file: FileId, removed: bool) -> Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO changes (chunk, removed) SELECT id, ?2 FROM chunks WHERE file = ?1",
        )?
        .execute(params![file.0, removed])?;
    Ok(())
}

pub(crate) const CHUNK_COLUMNS: &str =
    "chunks.id, files.id, roots.path, files.path, files.kind, files.modified_ns, files.title,
    files.language, chunks.ordinal, chunks.heading, chunks.text, chunks.location";
/// Not those of a root that was removed and still holds files.
pub(crate) const CHUNK_TABLES: &str = "chunks JOIN files ON files.id = chunks.file JOIN roots ON roots.id = files.root AND roots.virtual < 2";

pub(crate) fn chunk_record(row: &Row<'_>) -> rusqlite::Result<ChunkRecord> {
    let (root, path): (Vec<u8>, Vec<u8>) = (row.get(2)?, row.get(3)?);
    let (kind, location): (String, String) = (row.get(4)?, row.get(11)?);
    Ok(ChunkRecord {
        id: ChunkId(row.get::<_, i64>(0)?.cast_unsigned()),
        file: FileId(row.get(1)?),
        path: from_bytes(root).join(from_bytes(path)),
        kind: FileKind::parse(&kind).unwrap_or(FileKind::Other),
        modified: row.get::<_, i64>(5)?.div_euclid(1_000_000_000),
        title: row.get(6)?,
        language: row.get(7)?,
        ordinal: row.get(8)?,
        heading: row.get(9)?,
        text: row.get(10)?,
        // A location kind from a newer version is shown as the whole file.
        location: serde_json::from_str(&location).unwrap_or(Location::Whole),
        also_in: Vec::new(),
        versions: Vec::new(),
    })
}

impl Catalog {
    /// Changes after `seq`, oldest first, at most `limit`.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn changes_since(&self, seq: u64, limit: usize) -> Result<Vec<Change>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT seq, chunk, removed FROM changes WHERE seq > ?1 ORDER BY seq LIMIT ?2",
        )?;
        let rows = statement.query_map(params![seq.cast_signed(), limit as i64], |row| {
            let what: i64 = row.get(2)?;
            Ok(Change {
                seq: row.get::<_, i64>(0)?.cast_unsigned(),
                chunk: ChunkId(row.get::<_, i64>(1)?.cast_unsigned()),
                removed: what == 1,
                only: match what {
                    GOT_VECTOR => Some(Derived::Vector),
                    GOT_TERMS => Some(Derived::Terms),
                    _ => None,
                },
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Number of the last change; 0 before the first.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn last_seq(&self) -> Result<u64> {
        // AUTOINCREMENT keeps the number even when the log has been trimmed.
        let seq: Option<i64> = self.connection().query_row(
            "SELECT max(seq) FROM (SELECT seq FROM sqlite_sequence WHERE name = 'changes' UNION ALL SELECT 0 AS seq)",
            [],
            |row| row.get(0),
        )?;
        Ok(seq.unwrap_or(0).cast_unsigned())
    }

    /// Number of the oldest change that is still in the log; `None` when the log is empty.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn oldest_seq(&self) -> Result<Option<u64>> {
        let oldest: Option<i64> =
            self.connection().query_row("SELECT min(seq) FROM changes", [], |row| row.get(0))?;
        Ok(oldest.map(i64::cast_unsigned))
    }

    /// Whether an index that stands at `seq` can follow the log: nothing after it was trimmed away. An index
    /// of another catalog ([`identity`](Self::identity)) can not, whatever its number.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn can_follow(&self, seq: u64) -> Result<bool> {
        let last = self.last_seq()?;
        Ok(match self.oldest_seq()? {
            Some(oldest) => seq + 1 >= oldest && seq <= last,
            None => seq == last,
        })
    }

    /// Forgets changes up to `seq`, which every index has followed.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn trim_changes(&self, seq: u64) -> Result<()> {
        self.connection().execute("DELETE FROM changes WHERE seq <= ?1", [seq.cast_signed()])?;
        Ok(())
    }

    /// The chunks of those ids, in the order asked; ids that are gone are left out.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn chunk_records(&self, ids: &[ChunkId]) -> Result<Vec<ChunkRecord>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {CHUNK_COLUMNS} FROM {CHUNK_TABLES} WHERE chunks.id = ?1"
        ))?;
        let mut records = Vec::with_capacity(ids.len());
        for id in ids {
            let mut rows = statement.query([id.0.cast_signed()])?;
            if let Some(row) = rows.next()? {
                records.push(chunk_record(row)?);
            }
        }
        Ok(records)
    }

    /// Hands every chunk to `visit`, by ascending id: for building an index anew. The catalog stays usable
    /// meanwhile, by `visit` too: it is read page by page, and the log tells what changed behind the reader
    /// (take [`last_seq`](Self::last_seq) before).
    ///
    /// # Errors
    /// When the database can not be read, or what `visit` returns.
    pub fn for_each_chunk<E: From<Error>>(
        &self,
        mut visit: impl FnMut(ChunkRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut last = -1;
        loop {
            let page = self.chunk_page(last)?;
            let Some(end) = page.last() else { return Ok(()) };
            last = end.id.0.cast_signed();
            for record in page {
                visit(record)?;
            }
        }
    }

    fn chunk_page(&self, after: i64) -> Result<Vec<ChunkRecord>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {CHUNK_COLUMNS} FROM {CHUNK_TABLES} WHERE chunks.id > ?1 ORDER BY chunks.id LIMIT ?2"
        ))?;
        let rows = statement.query_map([after, PAGE], chunk_record)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Every chunk id, ascending.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn all_chunks(&self) -> Result<Vec<ChunkId>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT id FROM chunks WHERE file NOT IN
                 (SELECT files.id FROM roots JOIN files ON files.root = roots.id WHERE roots.virtual = 2)
             ORDER BY id",
        )?;
        let rows =
            statement.query_map([], |row| Ok(ChunkId(row.get::<_, i64>(0)?.cast_unsigned())))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Number of chunks.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn chunk_count(&self) -> Result<u64> {
        let count: i64 =
            self.connection().query_row("SELECT count(*) FROM chunks", [], |row| row.get(0))?;
        Ok(count.cast_unsigned())
    }

    /// The chunks whose files pass the filter and are among `files`, where those are named. Folders are compared by
    /// path components: `/a/b` does not take in `/a/bc`.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn chunks_matching(
        &self,
        filter: &Filter,
        files: Option<&HashSet<FileId>>,
    ) -> Result<ChunkSet> {
        let connection = self.connection();
        let tagged = tags::files_with(&connection, &filter.tags)?;
        let mut statement = connection.prepare_cached(
            "SELECT files.id, roots.path, files.path, files.kind, files.modified_ns
             FROM files JOIN roots ON roots.id = files.root",
        )?;
        // Numbers of a file's chunks mostly follow each other: then their ends say it all.
        let mut ends_of = connection
            .prepare_cached("SELECT min(id), max(id), count(*) FROM chunks WHERE file = ?1")?;
        let mut chunks_of = connection.prepare_cached("SELECT id FROM chunks WHERE file = ?1")?;
        let mut ranges = Vec::new();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let file: i64 = row.get(0)?;
            let is_tagged = tagged.as_ref().is_none_or(|it| it.contains(&file));
            let is_named = files.is_none_or(|it| it.contains(&FileId(file)));
            if !is_tagged || !is_named || !passes(filter, row)? {
                continue;
            }
            let ends = ends_of.query_row([file], |row| {
                Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?, row.get(2)?))
            })?;
            let (Some(first), Some(last), count): (_, _, i64) = ends else { continue };
            if last - first + 1 == count {
                ranges.push(first.cast_unsigned()..=last.cast_unsigned());
                continue;
            }
            for id in chunks_of.query_map([file], |row| row.get::<_, i64>(0))? {
                let id = id?.cast_unsigned();
                ranges.push(id..=id);
            }
        }
        Ok(ChunkSet::of_ranges(ranges))
    }
}
