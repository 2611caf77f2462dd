//! The ledger: the state of every file, and checks of the whole.

use std::path::PathBuf;

use riddle_types::{Advice, FileKind, FileState, Trouble};
use rusqlite::{Row, params};

use crate::{Catalog, FileId, Result, paths::from_bytes};

/// One file of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRecord {
    /// Identity.
    pub id: FileId,
    /// Absolute path.
    pub path: PathBuf,
    /// Its state.
    pub state: FileState,
    /// Why, for states other than indexed; may be empty.
    pub reason: String,
    /// Format family.
    pub kind: FileKind,
    /// Size in bytes.
    pub bytes: u64,
    /// Modification time in seconds since 1970.
    pub modified: i64,
    /// Chunks in the catalog.
    pub chunks: u64,
    /// What the parser skipped or guessed.
    pub warnings: Vec<String>,
    /// When what it holds was last found to be new, in seconds since 1970; `None`: nothing was read of it yet.
    pub changed: Option<i64>,
}

/// What [`file_record`] reads.
pub(crate) const FILE_COLUMNS: &str =
    "files.id, roots.path, files.path, files.state, files.reason, files.kind, files.size,
    files.modified_ns, (SELECT count(*) FROM chunks WHERE chunks.file = files.id), files.warnings,
    files.changed_at";

/// Both are answered by an index alone.
const BY_KIND: &str = "SELECT kind, count(*) FROM files WHERE state = ?1 GROUP BY kind";
const CHANGED_SINCE: &str = "SELECT count(*) FROM files WHERE changed_at >= ?1";

impl Catalog {
    /// Files per state; states without files are left out.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn counts_by_state(&self) -> Result<Vec<(FileState, u64)>> {
        let connection = self.connection();
        let mut statement =
            connection.prepare_cached("SELECT state, count(*) FROM files GROUP BY state")?;
        let mut rows = statement.query([])?;
        let mut counts = Vec::new();
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            if let Some(state) = FileState::parse(&name) {
                counts.push((state, row.get::<_, i64>(1)?.cast_unsigned()));
            }
        }
        counts.sort_unstable();
        Ok(counts)
    }

    /// Files that are indexed, per kind; kinds without files are left out.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn counts_by_kind(&self) -> Result<Vec<(FileKind, u64)>> {
        self.kinds_in_state(FileState::Indexed)
    }

    /// Files in that state, per kind; kinds without files are left out.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn kinds_in_state(&self, state: FileState) -> Result<Vec<(FileKind, u64)>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(BY_KIND)?;
        let mut rows = statement.query([state.as_str()])?;
        let mut counts = Vec::new();
        while let Some(row) = rows.next()? {
            let name: String = row.get(0)?;
            let kind = FileKind::parse(&name).unwrap_or(FileKind::Other);
            counts.push((kind, row.get::<_, i64>(1)?.cast_unsigned()));
        }
        counts.sort_unstable();
        Ok(counts)
    }

    /// Files that were first read, or had changed when they were read again, at `since` or later, in seconds since
    /// 1970.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn count_changed(&self, since: i64) -> Result<u64> {
        let connection = self.connection();
        let count = connection
            .prepare_cached(CHANGED_SINCE)?
            .query_row([since], |row| row.get::<_, i64>(0))?;
        Ok(count.cast_unsigned())
    }

    /// The ledger by path, `limit` entries from `offset`, of one state or of all.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn files(
        &self,
        state: Option<FileState>,
        limit: usize,
        offset: usize,
    ) -> Result<Vec<FileRecord>> {
        self.files_named(state, "", limit, offset)
    }

    /// [`files`](Self::files) whose path below the root contains `part`; ASCII letters match in either case.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn files_named(
        &self,
        state: Option<FileState>,
        part: &str,
        limit: usize,
        offset: usize,
    ) -> Result<Vec<FileRecord>> {
        let connection = self.connection();
        // instr and not LIKE: `%` and `_` are letters in file names.
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {FILE_COLUMNS}
             FROM files JOIN roots ON roots.id = files.root
             WHERE (?1 IS NULL OR files.state = ?1) AND instr(lower(files.display), lower(?2)) > 0
             ORDER BY roots.path, files.path LIMIT ?3 OFFSET ?4"
        ))?;
        let rows = statement.query_map(
            params![
                state.map(FileState::as_str),
                part,
                i64::try_from(limit).unwrap_or(i64::MAX),
                i64::try_from(offset).unwrap_or(i64::MAX)
            ],
            file_record,
        )?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// A hash over (path, position, text) of every chunk, whatever their ids: two catalogs of the same
    /// files agree in it.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn fingerprint(&self) -> Result<String> {
        let connection = self.connection();
        let mut statement = connection.prepare(
            "SELECT files.path, chunks.ordinal, chunks.text_hash FROM chunks JOIN files ON files.id = chunks.file
             ORDER BY files.path, chunks.ordinal, chunks.text_hash",
        )?;
        let mut rows = statement.query([])?;
        let mut hasher = blake3::Hasher::new();
        while let Some(row) = rows.next()? {
            let (path, ordinal, text): (Vec<u8>, i64, Vec<u8>) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            hasher.update(&(path.len() as u64).to_le_bytes());
            hasher.update(&path);
            hasher.update(&ordinal.to_le_bytes());
            hasher.update(&text);
        }
        Ok(hasher.finalize().to_hex().to_string())
    }

    /// Problems of the database itself; empty is good.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn check(&self) -> Result<Vec<Trouble>> {
        let connection = self.connection();
        let mut problems = Vec::new();
        let mut statement = connection.prepare("PRAGMA quick_check(10)")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let line: String = row.get(0)?;
            if line != "ok" {
                problems.push(format!("catalog: {line}").into());
            }
        }
        for (sql, text, advice) in CHECKS {
            let count: i64 = connection.query_row(sql, [], |row| row.get(0))?;
            if count > 0 {
                let what = format!("catalog: {count} {text}");
                problems.push(Trouble { what, advice: advice.clone() });
            }
        }
        Ok(problems)
    }
}

/// What must hold in every catalog: a query that counts the exceptions, what to say of them, and what can be done.
const CHECKS: &[(&str, &str, Option<Advice>)] = &[
    ("SELECT count(*) FROM pragma_foreign_key_check", "rows belong to nothing", None),
    (
        "SELECT count(*) FROM files WHERE state = 'pending' AND id NOT IN (SELECT file FROM jobs)
         AND root IN (SELECT id FROM roots WHERE virtual = 0)",
        "files wait and are not in the queue: touch them, or remove their folder and add it again",
        None,
    ),
    (
        "SELECT count(*) FROM jobs WHERE file NOT IN (SELECT id FROM files WHERE state = 'pending')",
        "files are in the queue and do not wait",
        Some(Advice::UpdateIndex),
    ),
    (
        "SELECT count(*) FROM files WHERE state = 'indexed' AND id NOT IN (SELECT file FROM chunks)",
        "files are marked as indexed and hold no text",
        None,
    ),
    (
        "SELECT count(*) FROM (SELECT 1 FROM chunks GROUP BY file
         HAVING min(ordinal) <> 0 OR max(ordinal) <> count(*) - 1)",
        "files have gaps between their chunks",
        None,
    ),
    (
        "SELECT count(*) FROM vectors JOIN embedders ON embedders.id = vectors.embedder
         WHERE length(vector) <> 4 * dimensions",
        "vectors have a wrong length",
        None,
    ),
    (
        "SELECT count(*) > 1 FROM embedders WHERE active = 1",
        "surplus embedder is marked as the one to search with",
        None,
    ),
];

pub(crate) fn file_record(row: &Row<'_>) -> rusqlite::Result<FileRecord> {
    let (root, path): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(2)?);
    let (state, kind, warnings): (String, String, String) = (row.get(3)?, row.get(5)?, row.get(9)?);
    Ok(FileRecord {
        id: FileId(row.get(0)?),
        path: from_bytes(root).join(from_bytes(path)),
        state: FileState::parse(&state).unwrap_or(FileState::Pending),
        reason: row.get(4)?,
        kind: FileKind::parse(&kind).unwrap_or(FileKind::Other),
        bytes: row.get::<_, i64>(6)?.cast_unsigned(),
        modified: row.get::<_, i64>(7)?.div_euclid(1_000_000_000),
        chunks: row.get::<_, i64>(8)?.cast_unsigned(),
        warnings: serde_json::from_str(&warnings).unwrap_or_default(),
        changed: row.get(10)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How SQLite answers a query.
    fn plan(catalog: &Catalog, sql: &str, value: &str) -> String {
        let connection = catalog.connection();
        let mut statement = connection
            .prepare(&format!("EXPLAIN QUERY PLAN {}", sql.replace("?1", value)))
            .expect("a query");
        let rows = statement.query_map([], |row| row.get::<_, String>(3)).expect("a plan");
        rows.map(|it| it.expect("a line")).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn counts_read_an_index_and_no_row() {
        let home = tempfile::tempdir().expect("temp dir");
        let catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("open");
        let by_kind = plan(&catalog, BY_KIND, "'indexed'");
        assert!(by_kind.contains("COVERING INDEX files_by_state (state=?)"), "{by_kind}");
        assert!(!by_kind.contains("TEMP B-TREE"), "{by_kind}");
        let changed = plan(&catalog, CHANGED_SINCE, "7");
        assert!(changed.contains("COVERING INDEX files_by_change (changed_at>?)"), "{changed}");
    }
}
