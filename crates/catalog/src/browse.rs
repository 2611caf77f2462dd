//! What a person leafs through: pages of the ledger, a file's passages, the history.

use std::path::PathBuf;

use riddle_types::{ChunkId, FileKind, FileState};
use rusqlite::{OptionalExtension as _, params, types::Value};

use crate::{
    Catalog, ChunkRecord, FileId, FileRecord, HistoryEntry, Result, RootId,
    catalog::set_setting,
    changes::{CHUNK_COLUMNS, CHUNK_TABLES, chunk_record, log_file},
    ledger::{FILE_COLUMNS, file_record},
    paths::from_bytes,
};

/// What a page of the ledger is sorted by; files that are equal in it come by path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileOrder {
    /// Folder and name.
    #[default]
    Path,
    /// Name of the state.
    State,
    /// Size.
    Bytes,
    /// Modification time.
    Modified,
    /// Chunks in the catalog.
    Chunks,
    /// When what they hold was last found to be new.
    Changed,
}

/// A page of the ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilePage {
    /// States; empty: all.
    pub states: Vec<FileState>,
    /// Only below this root.
    pub root: Option<RootId>,
    /// Only those whose text was found to be new then or later, in seconds since 1970.
    pub changed_since: Option<i64>,
    /// Part of the path below the root; ASCII letters match in either case.
    pub part: String,
    /// Order.
    pub order: FileOrder,
    /// The other way round.
    pub descending: bool,
    /// Files before the page.
    pub offset: usize,
    /// Files on it at most.
    pub limit: usize,
}

impl FilePage {
    fn conditions(&self) -> (String, Vec<Value>) {
        let mut sql = "instr(lower(files.display), lower(?)) > 0".to_owned();
        let mut values = vec![Value::from(self.part.clone())];
        if let Some(root) = self.root {
            sql.push_str(" AND files.root = ?");
            values.push(Value::from(root.0));
        }
        if let Some(since) = self.changed_since {
            sql.push_str(" AND files.changed_at >= ?");
            values.push(Value::from(since));
        }
        if !self.states.is_empty() {
            let marks = vec!["?"; self.states.len()].join(", ");
            sql.push_str(&format!(" AND files.state IN ({marks})"));
            values.extend(self.states.iter().map(|it| Value::from(it.as_str().to_owned())));
        }
        (sql, values)
    }

    /// The query of the page's rows.
    fn rows(&self, conditions: &str) -> String {
        // Whether files come by an index is for SQLite to choose, but never by root where the newest are asked for.
        let join = if self.order == FileOrder::Changed { "CROSS JOIN" } else { "JOIN" };
        format!(
            "SELECT {FILE_COLUMNS} FROM files {join} roots ON roots.id = files.root
             WHERE {conditions} ORDER BY {} LIMIT ? OFFSET ?",
            self.order_by()
        )
    }

    fn order_by(&self) -> String {
        let way = if self.descending { "DESC" } else { "ASC" };
        let key = match self.order {
            FileOrder::Path => "",
            FileOrder::State => "files.state",
            FileOrder::Bytes => "files.size",
            FileOrder::Modified => "files.modified_ns",
            FileOrder::Chunks => "(SELECT count(*) FROM chunks WHERE chunks.file = files.id)",
            // By number and not by path: it is the index's own order, and no page is sorted.
            FileOrder::Changed => return format!("files.changed_at {way}, files.id {way}"),
        };
        match key {
            "" => format!("roots.path {way}, files.path {way}"),
            key => format!("{key} {way}, roots.path, files.path"),
        }
    }
}

impl Catalog {
    /// A page of the ledger, and how many files there are on all its pages.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn file_page(&self, page: &FilePage) -> Result<(Vec<FileRecord>, u64)> {
        let (conditions, mut values) = page.conditions();
        let rows = page.rows(&conditions);
        let connection = self.connection();
        let total: i64 = connection
            .prepare_cached(&format!("SELECT count(*) FROM files WHERE {conditions}"))?
            .query_row(rusqlite::params_from_iter(&values), |row| row.get(0))?;
        let mut statement = connection.prepare_cached(&rows)?;
        values.extend(
            [page.limit, page.offset].map(|it| Value::from(i64::try_from(it).unwrap_or(i64::MAX))),
        );
        let rows = statement.query_map(rusqlite::params_from_iter(&values), file_record)?;
        Ok((rows.collect::<Result<_, _>>()?, total.cast_unsigned()))
    }

    /// A file of the ledger with its root's folder; `None` when it is gone.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn file(&self, id: FileId) -> Result<Option<(FileRecord, RootId, PathBuf)>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {FILE_COLUMNS}, roots.id FROM files JOIN roots ON roots.id = files.root WHERE files.id = ?1"
        ))?;
        let found = statement.query_row([id.0], |row| {
            let root: Vec<u8> = row.get(1)?;
            Ok((file_record(row)?, RootId(row.get(11)?), from_bytes(root)))
        });
        Ok(found.optional()?)
    }

    /// Files per state below one root.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn counts_of_root(&self, root: RootId) -> Result<Vec<(FileState, u64)>> {
        let connection = self.connection();
        let mut statement = connection
            .prepare_cached("SELECT state, count(*) FROM files WHERE root = ?1 GROUP BY state")?;
        let rows = statement
            .query_map([root.0], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
        let mut counts = Vec::new();
        for row in rows {
            let (name, count) = row?;
            counts.extend(FileState::parse(&name).map(|it| (it, count.cast_unsigned())));
        }
        counts.sort_unstable();
        Ok(counts)
    }

    /// The chunks of the file that `chunk` is in, in reading order, at most `limit` around it.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn chunks_beside(&self, chunk: ChunkId, limit: usize) -> Result<Vec<ChunkRecord>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {CHUNK_COLUMNS} FROM {CHUNK_TABLES}
             WHERE chunks.file = (SELECT file FROM chunks WHERE id = ?1)
             AND chunks.ordinal >= (SELECT ordinal FROM chunks WHERE id = ?1) - ?2
             ORDER BY chunks.ordinal LIMIT ?3"
        ))?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows =
            statement.query_map(params![chunk.0.cast_signed(), limit / 2, limit], chunk_record)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// All chunks of a file, in reading order.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn chunks_of(&self, file: FileId) -> Result<Vec<ChunkRecord>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {CHUNK_COLUMNS} FROM {CHUNK_TABLES} WHERE chunks.file = ?1 ORDER BY chunks.ordinal"
        ))?;
        let rows = statement.query_map([file.0], chunk_record)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Puts these files into the queue, whatever their state; returns how many there were.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn retry_files(&self, files: &[FileId]) -> Result<u64> {
        self.transaction(|transaction| {
            let mut count = 0;
            for file in files {
                transaction
                    .prepare_cached(
                        "INSERT INTO jobs (file, modified_ns)
                         SELECT files.id, modified_ns FROM files JOIN roots ON roots.id = files.root
                         WHERE files.id = ?1 AND roots.virtual = 0 AND by_scan = 0
                         ON CONFLICT (file) DO UPDATE SET attempts = 0",
                    )?
                    .execute([file.0])?;
                count += transaction
                    .prepare_cached(
                        "UPDATE files SET state = ?2, by_scan = 0, reason = ''
                         WHERE id = ?1 AND id IN (SELECT file FROM jobs)",
                    )?
                    .execute(params![file.0, FileState::Pending.as_str()])?;
            }
            Ok(count as u64)
        })
    }

    /// Files of one kind, as they were read last.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn files_of_kind(&self, kind: FileKind) -> Result<Vec<FileId>> {
        let connection = self.connection();
        let mut statement =
            connection.prepare_cached("SELECT id FROM files WHERE kind = ?1 ORDER BY id")?;
        let rows = statement.query_map([kind.as_str()], |row| Ok(FileId(row.get(0)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Changes a setting that decides how these files are read: what was read of them is taken out, and they are put
    /// into the queue, all of it or nothing. A file that a scan's verdict keeps from being read stays as it is.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn read_anew(&self, files: &[FileId], key: &str, value: Option<&str>) -> Result<()> {
        self.transaction(|transaction| {
            set_setting(transaction, key, value)?;
            for file in files {
                let queued = transaction
                    .prepare_cached(
                        "INSERT INTO jobs (file, modified_ns)
                         SELECT files.id, modified_ns FROM files JOIN roots ON roots.id = files.root
                         WHERE files.id = ?1 AND roots.virtual = 0 AND by_scan = 0
                         ON CONFLICT (file) DO UPDATE SET attempts = 0",
                    )?
                    .execute([file.0])?;
                if queued == 0 {
                    continue;
                }
                log_file(transaction, *file, true)?;
                transaction.execute("DELETE FROM chunks WHERE file = ?1", [file.0])?;
                transaction
                    .prepare_cached(
                        "UPDATE files SET state = ?2, reason = '', title = NULL, language = NULL, warnings = '[]',
                                          content_hash = NULL WHERE id = ?1",
                    )?
                    .execute(params![file.0, FileState::Pending.as_str()])?;
            }
            Ok(())
        })
    }

    /// Entries of one kind whose question or response contains `part`, newest first. ASCII letters match in
    /// either case.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn history_of(&self, kind: &str, part: &str, limit: usize) -> Result<Vec<HistoryEntry>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT id, at, kind, query, response FROM history WHERE kind = ?1
             AND (instr(lower(query), lower(?2)) > 0 OR instr(lower(response), lower(?2)) > 0)
             ORDER BY id DESC LIMIT ?3",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![kind, part, limit], |row| {
            Ok(HistoryEntry {
                id: row.get(0)?,
                at: row.get(1)?,
                kind: row.get(2)?,
                query: row.get(3)?,
                response: row.get(4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Replaces the response of an entry.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn set_response(&self, id: i64, response: &str) -> Result<()> {
        self.connection()
            .execute("UPDATE history SET response = ?2 WHERE id = ?1", params![id, response])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_lately_is_read_off_its_index_and_not_sorted() {
        let home = tempfile::tempdir().expect("temp dir");
        let catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("open");
        let page = FilePage {
            changed_since: Some(7),
            order: FileOrder::Changed,
            descending: true,
            ..FilePage::default()
        };
        let (conditions, mut values) = page.conditions();
        let sql = format!("EXPLAIN QUERY PLAN {}", page.rows(&conditions));
        values.extend([Value::from(9), Value::from(0)]);
        let connection = catalog.connection();
        let mut statement = connection.prepare(&sql).expect("a query");
        let rows = statement.query_map(rusqlite::params_from_iter(&values), |row| row.get(3));
        let plan: Vec<String> =
            rows.expect("a plan").collect::<Result<_, _>>().expect("lines of text");
        let plan = plan.join("; ");
        assert!(plan.contains("files USING INDEX files_by_change (changed_at>?)"), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}
