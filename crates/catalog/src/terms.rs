//! Weights of terms: which sparse encoder made them, and whose are missing.

use std::collections::HashMap;

use riddle_types::{ChunkId, TermWeights};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::{Catalog, Error, Result, changes::log_terms};

/// In the order in which vectors are made; see there.
const WITHOUT_TERMS: &str = "SELECT chunks.id FROM chunks INDEXED BY chunks_by_turn
     CROSS JOIN files ON files.id = chunks.file
     WHERE chunks.turn < 2 AND NOT EXISTS (SELECT 1 FROM terms WHERE terms.chunk = chunks.id)
     ORDER BY chunks.turn, chunks.ordinal / 64, files.modified_ns DESC, chunks.file, chunks.ordinal LIMIT ?1";

fn encoder(connection: &Connection) -> Result<Option<String>> {
    Ok(connection.query_row("SELECT id FROM term_encoder", [], |row| row.get(0)).optional()?)
}

impl Catalog {
    /// Identity of the sparse encoder whose weights are kept; `None` where there is none.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn term_encoder(&self) -> Result<Option<String>> {
        encoder(&self.connection())
    }

    /// Keeps weights of this encoder from now on. Those of another one go: two are never compared, and a search does
    /// without them until the new ones are made.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn use_term_encoder(&self, id: Option<&str>) -> Result<()> {
        self.transaction(|transaction| {
            if encoder(transaction)?.as_deref() == id {
                return Ok(());
            }
            transaction.execute("DELETE FROM terms", [])?;
            transaction.execute("DELETE FROM term_encoder", [])?;
            if let Some(id) = id {
                transaction.execute("INSERT INTO term_encoder (id) VALUES (?1)", [id])?;
            }
            Ok(())
        })
    }

    /// Chunks that wait for their weights of terms, in the order in which vectors are made. Those that never get a
    /// vector are left out.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn chunks_without_terms(&self, limit: usize) -> Result<Vec<ChunkId>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(WITHOUT_TERMS)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement
            .query_map([limit], |row| Ok(ChunkId(row.get::<_, i64>(0)?.cast_unsigned())))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How many chunks wait for their weights of terms.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn count_without_terms(&self) -> Result<u64> {
        // Weights go with their chunk: the counts differ by the chunks that have none.
        let count: i64 = self.connection().query_row(
            "SELECT (SELECT count(*) FROM chunks) - (SELECT count(*) FROM chunks WHERE turn = 2)
                    - (SELECT count(*) FROM terms)",
            [],
            |row| row.get(0),
        )?;
        Ok(count.max(0).cast_unsigned())
    }

    /// How many chunks have weights of terms.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn count_with_terms(&self) -> Result<u64> {
        let count: i64 =
            self.connection().query_row("SELECT count(*) FROM terms", [], |row| row.get(0))?;
        Ok(count.max(0).cast_unsigned())
    }

    /// Stores weights of terms and tells the index by the log; chunks that are gone meanwhile are passed over.
    ///
    /// # Errors
    /// [`Error::UnknownEmbedder`] when weights of another encoder are kept; when the database can not be written.
    pub fn put_terms(&self, id: &str, terms: &[(ChunkId, TermWeights)]) -> Result<()> {
        self.transaction(|transaction| {
            if encoder(transaction)?.as_deref() != Some(id) {
                return Err(Error::UnknownEmbedder { embedder: id.to_owned() });
            }
            for (chunk, weights) in terms {
                let chunk = chunk.0.cast_signed();
                let written = transaction
                    .prepare_cached(
                        "INSERT INTO terms (chunk, weights) SELECT id, ?2 FROM chunks WHERE id = ?1
                         ON CONFLICT (chunk) DO UPDATE SET weights = excluded.weights",
                    )?
                    .execute(params![chunk, weights.to_bytes()])?;
                if written > 0 {
                    log_terms(transaction, chunk)?;
                }
            }
            Ok(())
        })
    }

    /// Weights by the hash of the text they were made from: copies need no new ones.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn terms_by_text(&self, hashes: &[[u8; 32]]) -> Result<HashMap<[u8; 32], TermWeights>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT terms.weights FROM chunks CROSS JOIN terms ON terms.chunk = chunks.id
             WHERE chunks.text_hash = ?1 LIMIT 1",
        )?;
        let mut found = HashMap::new();
        for hash in hashes {
            let bytes: Option<Vec<u8>> =
                statement.query_row([hash], |row| row.get(0)).optional()?;
            if let Some(weights) = bytes.and_then(|it| TermWeights::from_bytes(&it)) {
                found.insert(*hash, weights);
            }
        }
        Ok(found)
    }

    /// The weights of those chunks; chunks without are left out.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn terms_of(&self, chunks: &[ChunkId]) -> Result<Vec<(ChunkId, TermWeights)>> {
        let connection = self.connection();
        let mut statement =
            connection.prepare_cached("SELECT weights FROM terms WHERE chunk = ?1")?;
        let mut found = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let bytes: Option<Vec<u8>> =
                statement.query_row([chunk.0.cast_signed()], |row| row.get(0)).optional()?;
            if let Some(weights) = bytes.and_then(|it| TermWeights::from_bytes(&it)) {
                found.push((*chunk, weights));
            }
        }
        Ok(found)
    }
}
