//! Tags that files give themselves.

use std::collections::{BTreeSet, HashSet};

use riddle_types::tag_name;
use rusqlite::{Connection, Transaction, params};

use crate::Result;

/// Writes a file's tags in the place of those before. Returns whether they are others.
pub(crate) fn put(transaction: &Transaction<'_>, file: i64, tags: &[String]) -> Result<bool> {
    let mut statement =
        transaction.prepare_cached("SELECT tag FROM file_tags WHERE file = ?1 ORDER BY tag")?;
    let old: BTreeSet<String> =
        statement.query_map([file], |row| row.get(0))?.collect::<std::result::Result<_, _>>()?;
    let new: BTreeSet<String> = tags.iter().filter_map(|it| tag_name(it)).collect();
    for gone in old.difference(&new) {
        transaction
            .prepare_cached("DELETE FROM file_tags WHERE file = ?1 AND tag = ?2")?
            .execute(params![file, gone])?;
    }
    for added in new.difference(&old) {
        transaction
            .prepare_cached("INSERT INTO file_tags (file, tag) VALUES (?1, ?2)")?
            .execute(params![file, added])?;
    }
    Ok(old != new)
}

/// Files with one of these tags, or with one below it; `None`: no tag is asked for.
pub(crate) fn files_with(connection: &Connection, tags: &[String]) -> Result<Option<HashSet<i64>>> {
    if tags.is_empty() {
        return Ok(None);
    }
    // All that begins with `boat/` lies between it and `boat0`: `0` is the character behind `/`.
    let mut statement = connection.prepare_cached(
        "SELECT file FROM file_tags WHERE tag = ?1 OR (tag > ?1 || '/' AND tag < ?1 || '0')",
    )?;
    let mut files = HashSet::new();
    for tag in tags.iter().filter_map(|it| tag_name(it)) {
        for file in statement.query_map([tag], |row| row.get(0))? {
            files.insert(file?);
        }
    }
    Ok(Some(files))
}
