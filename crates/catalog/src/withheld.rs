//! Passages that never leave this machine, where vectors are made on another one: they get none, and do not wait.
//!
//! Which they are is worked out whenever it matters and kept nowhere: it follows from the marks on folders, from where
//! files lie and from what stands in them, and a list of it would be wrong after each of these has changed.

use std::{collections::HashSet, path::PathBuf};

use riddle_types::ChunkId;
use rusqlite::{Connection, params};

use crate::{Result, paths::from_bytes};

/// Where vectors are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Embeds {
    /// On this machine: every passage may have one.
    Here,
    /// On another one: not of a text that stands in a folder which never leaves this machine.
    Elsewhere,
}

/// Chunks of the files `?2`, a JSON array, and all others of the same text: a copy of a text is that text.
pub(crate) const WITHHELD: &str = "SELECT twins.id FROM json_each(?2) AS kept
     CROSS JOIN chunks AS held ON held.file = kept.value
     CROSS JOIN chunks AS twins ON twins.text_hash = held.text_hash";

/// Files in folders that never leave this machine, as a JSON array; `None`: there are none.
pub(crate) fn withheld_files(connection: &Connection, embeds: Embeds) -> Result<Option<String>> {
    if embeds == Embeds::Here {
        return Ok(None);
    }
    let marks = marks(connection)?;
    if marks.is_empty() {
        return Ok(None);
    }
    let mut roots = connection.prepare_cached("SELECT id, path FROM roots WHERE virtual = 0")?;
    let roots = roots
        .query_map([], |row| Ok((row.get::<_, i64>(0)?, from_bytes(row.get(1)?))))?
        .collect::<Result<Vec<(i64, PathBuf)>, _>>()?;
    let mut files = connection.prepare_cached("SELECT id, path FROM files WHERE root = ?1")?;
    let mut found = Vec::new();
    for (id, root) in roots {
        let whole = marks.iter().any(|it| root.starts_with(it));
        let parts: Vec<_> = marks.iter().filter_map(|it| it.strip_prefix(&root).ok()).collect();
        if !whole && parts.is_empty() {
            continue;
        }
        let mut rows = files.query([id])?;
        while let Some(row) = rows.next()? {
            let path = from_bytes(row.get(1)?);
            if whole || parts.iter().any(|it| path.starts_with(it)) {
                found.push(row.get::<_, i64>(0)?.to_string());
            }
        }
    }
    Ok(Some(format!("[{}]", found.join(","))).filter(|_| !found.is_empty()))
}

fn marks(connection: &Connection) -> Result<Vec<PathBuf>> {
    let mut statement = connection.prepare_cached("SELECT path FROM confined")?;
    let rows = statement.query_map([], |row| Ok(from_bytes(row.get(0)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(crate) fn count_withheld(connection: &Connection, embedder: &str) -> Result<u64> {
    let Some(files) = withheld_files(connection, Embeds::Elsewhere)? else { return Ok(0) };
    let count: i64 = connection.query_row(
        &format!(
            "SELECT count(*) FROM chunks WHERE turn < 2 AND id IN ({WITHHELD})
             AND NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.embedder = ?1 AND vectors.chunk = chunks.id)"
        ),
        params![embedder, files],
        |row| row.get(0),
    )?;
    Ok(count.cast_unsigned())
}

/// Those of these chunks whose text stands, in them or in a copy, in a marked folder.
pub(crate) fn withheld_among(
    connection: &Connection,
    chunks: &[ChunkId],
) -> Result<HashSet<ChunkId>> {
    let marks = marks(connection)?;
    let mut found = HashSet::new();
    if marks.is_empty() {
        return Ok(found);
    }
    let mut twins = connection.prepare_cached(
        "SELECT roots.path, files.path FROM chunks AS asked
         CROSS JOIN chunks AS twins ON twins.text_hash = asked.text_hash
         CROSS JOIN files ON files.id = twins.file CROSS JOIN roots ON roots.id = files.root
         WHERE asked.id = ?1",
    )?;
    for chunk in chunks {
        let mut rows = twins.query([chunk.0.cast_signed()])?;
        while let Some(row) = rows.next()? {
            let path = from_bytes(row.get(0)?).join(from_bytes(row.get(1)?));
            if marks.iter().any(|it| path.starts_with(it)) {
                found.insert(*chunk);
                break;
            }
        }
    }
    Ok(found)
}
