//! Writing what reading a file brought back: which chunks are kept, which are new, which are gone.

use std::collections::HashMap;

use riddle_types::{FileState, VectorTurn};
use rusqlite::{OptionalExtension as _, Transaction, params};

use crate::{
    FileId, FileOutcome, NewChunk, Result, catalog::now, changes::log_chunk, pictures,
    scan::identity, tags, vectors::VectorWriter,
};

/// Whether the file has a job that was not begun: a scan queued it after its reading began.
pub(crate) fn queued_again(transaction: &Transaction<'_>, file: FileId) -> Result<bool> {
    let found = transaction
        .prepare_cached("SELECT 1 FROM jobs WHERE file = ?1 AND attempts = 0")?
        .query_row([file.0], |_| Ok(()))
        .optional()?;
    Ok(found.is_some())
}

/// Writes one outcome.
pub(crate) fn commit_file(
    transaction: &Transaction<'_>,
    outcome: &FileOutcome,
    embedder: Option<&VectorWriter<'_>>,
) -> Result<()> {
    pictures::note(transaction, outcome)?;
    let Some(fields_changed) = commit_record(transaction, outcome)? else {
        // The file or its root was removed while it was read: there is nothing to write to.
        return Ok(());
    };
    let id = outcome.file.0;
    let fields_changed = tags::put(transaction, id, &outcome.tags)? || fields_changed;
    let mut old = old_chunks(transaction, id)?;
    let plan: Vec<(Option<OldChunk>, &NewChunk, String)> = outcome
        .chunks
        .iter()
        .map(|new| {
            let kept = old.get_mut(&new.text_hash).and_then(Vec::pop);
            (kept, new, json(&new.chunk.location))
        })
        .collect();
    for gone in old.into_values().flatten() {
        log_chunk(transaction, gone.id, true)?;
        transaction.prepare_cached("DELETE FROM chunks WHERE id = ?1")?.execute([gone.id])?;
    }
    let in_place = plan.iter().all(|(kept, new, _)| {
        kept.as_ref().is_none_or(|it| it.ordinal == i64::from(new.chunk.ordinal))
    });
    if !in_place {
        // Positions are unique in a file: all step aside before the first takes its new place.
        transaction
            .prepare_cached("UPDATE chunks SET ordinal = -1 - ordinal WHERE file = ?1")?
            .execute([id])?;
    }
    for (kept, new, location) in &plan {
        let chunk = match kept {
            Some(kept) => {
                let same = kept.same(new, location);
                if !same || !in_place {
                    update_chunk(transaction, kept.id, new, location)?;
                }
                if !same || fields_changed {
                    log_chunk(transaction, kept.id, false)?;
                }
                kept.id
            }
            None => insert_chunk(transaction, id, new, location)?,
        };
        if new.chunk.turn == VectorTurn::Never {
            transaction.prepare_cached("DELETE FROM vectors WHERE chunk = ?1")?.execute([chunk])?;
            transaction.prepare_cached("DELETE FROM terms WHERE chunk = ?1")?.execute([chunk])?;
        } else if let (Some(embedder), Some(vector)) = (embedder, &new.vector) {
            embedder.put(chunk, vector)?;
        }
    }
    Ok(())
}

/// Writes the file's own row and takes the job out of the queue. Returns whether anything changed that the
/// keyword index holds beside each chunk; `None` if there is no such file.
// Long: one statement, and what it is given.
fn commit_record(transaction: &Transaction<'_>, outcome: &FileOutcome) -> Result<Option<bool>> {
    let id = outcome.file.0;
    let old = transaction
        .prepare_cached(
            "SELECT kind, title, language, modified_ns, size, indexed_ns FROM files WHERE id = ?1",
        )?
        .query_row([id], |row| {
            Ok(OldRecord {
                kind: row.get(0)?,
                title: row.get(1)?,
                language: row.get(2)?,
                modified_ns: row.get(3)?,
                size: row.get(4)?,
                indexed_ns: row.get(5)?,
            })
        })
        .optional()?;
    let Some(old) = old else { return Ok(None) };
    let again = queued_again(transaction, outcome.file)?;
    // What the scan saw after this reading is the newer truth, and what the next reading starts from.
    let (state, size, modified_ns, volume_id) = if again {
        (FileState::Pending, old.size, old.modified_ns, None)
    } else {
        (outcome.state, outcome.size.cast_signed(), outcome.modified_ns, outcome.volume_id)
    };
    let (volume, inode) = identity(volume_id);
    // A file that is only read again, by a newer parser or because somebody asked, has not changed.
    transaction
        .prepare_cached(
            "UPDATE files SET changed_at = CASE WHEN content_hash IS ?2 THEN changed_at ELSE ?14 END,
                              content_hash = ?2, kind = ?3, state = ?4, by_scan = 0, reason = ?5, title = ?6,
                              language = ?7, warnings = ?8, size = ?9, modified_ns = ?10, indexed_ns = ?11,
                              volume = coalesce(?12, volume), inode = coalesce(?13, inode)
             WHERE id = ?1",
        )?
        .execute(params![
            id,
            outcome.content_hash,
            outcome.kind.as_str(),
            state.as_str(),
            outcome.reason,
            outcome.title,
            outcome.language,
            json(&outcome.warnings),
            size,
            modified_ns,
            modified_ns,
            volume,
            inode,
            now()
        ])?;
    if !again {
        transaction.prepare_cached("DELETE FROM jobs WHERE file = ?1")?.execute([id])?;
    }
    Ok(Some(
        old.kind != outcome.kind.as_str()
            || old.title != outcome.title
            || old.language != outcome.language
            || old.indexed_ns != Some(modified_ns),
    ))
}

struct OldRecord {
    kind: String,
    title: Option<String>,
    language: Option<String>,
    modified_ns: i64,
    size: i64,
    indexed_ns: Option<i64>,
}

struct OldChunk {
    id: i64,
    ordinal: i64,
    text: String,
    heading: String,
    location: String,
    tokens: u32,
    turn: u8,
}

impl OldChunk {
    /// Whether everything but the position is as before.
    fn same(&self, new: &NewChunk, location: &str) -> bool {
        self.text == new.chunk.text
            && self.heading == new.chunk.heading
            && self.location == location
            && self.tokens == new.chunk.tokens
            && self.turn == new.chunk.turn.number()
    }
}

/// The file's chunks by the hash of their text, those of equal text from the last to the first.
fn old_chunks(
    transaction: &Transaction<'_>,
    file: i64,
) -> Result<HashMap<[u8; 32], Vec<OldChunk>>> {
    let mut statement = transaction.prepare_cached(
        "SELECT text_hash, id, ordinal, text, heading, location, tokens, turn FROM chunks WHERE file = ?1
         ORDER BY ordinal DESC",
    )?;
    let mut rows = statement.query([file])?;
    let mut old: HashMap<[u8; 32], Vec<OldChunk>> = HashMap::new();
    while let Some(row) = rows.next()? {
        let chunk = OldChunk {
            id: row.get(1)?,
            ordinal: row.get(2)?,
            text: row.get(3)?,
            heading: row.get(4)?,
            location: row.get(5)?,
            tokens: row.get(6)?,
            turn: row.get(7)?,
        };
        old.entry(row.get(0)?).or_default().push(chunk);
    }
    Ok(old)
}

fn update_chunk(
    transaction: &Transaction<'_>,
    id: i64,
    new: &NewChunk,
    location: &str,
) -> Result<()> {
    transaction
        .prepare_cached(
            "UPDATE chunks SET ordinal = ?2, text = ?3, heading = ?4, location = ?5, tokens = ?6, turn = ?7
             WHERE id = ?1",
        )?
        .execute(params![
            id,
            new.chunk.ordinal,
            new.chunk.text,
            new.chunk.heading,
            location,
            new.chunk.tokens,
            new.chunk.turn.number()
        ])?;
    Ok(())
}

fn insert_chunk(
    transaction: &Transaction<'_>,
    file: i64,
    new: &NewChunk,
    location: &str,
) -> Result<i64> {
    transaction
        .prepare_cached(
            "INSERT INTO chunks (file, ordinal, text, heading, location, tokens, text_hash, turn)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            file,
            new.chunk.ordinal,
            new.chunk.text,
            new.chunk.heading,
            location,
            new.chunk.tokens,
            new.text_hash,
            new.chunk.turn.number()
        ])?;
    let id = transaction.last_insert_rowid();
    log_chunk(transaction, id, false)?;
    Ok(id)
}

/// Plain data to JSON text.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("strings and numbers always serialize: this is a bug")
}
