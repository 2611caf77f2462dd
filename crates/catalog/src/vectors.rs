//! Vectors: which embedder made them, which one is searched, and the switch from one to another.

use std::collections::HashMap;

use riddle_types::ChunkId;
use rusqlite::{OptionalExtension as _, Transaction, params};

use crate::{Catalog, Error, Result};

/// The embedder whose vectors are searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveEmbedder {
    /// Its identity.
    pub id: String,
    /// Length of its vectors.
    pub dimensions: usize,
}

pub(crate) fn put_vector(
    transaction: &Transaction<'_>,
    embedder: &str,
    chunk: i64,
    vector: &[f32],
) -> Result<()> {
    let bytes: Vec<u8> = vector.iter().flat_map(|it| it.to_le_bytes()).collect();
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO vectors (embedder, chunk, vector) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![embedder, chunk, bytes])?;
    Ok(())
}

fn to_vector(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|it| f32::from_le_bytes([it[0], it[1], it[2], it[3]])).collect()
}

impl Catalog {
    /// The embedder whose vectors are searched; `None` before the first.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn active_embedder(&self) -> Result<Option<ActiveEmbedder>> {
        let connection = self.connection();
        let found = connection
            .query_row("SELECT id, dimensions FROM embedders WHERE active = 1", [], |row| {
                Ok(ActiveEmbedder { id: row.get(0)?, dimensions: row.get::<_, i64>(1)? as usize })
            })
            .optional()?;
        Ok(found)
    }

    /// Makes an embedder known, so that vectors can be stored for it; the first one becomes active.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn register_embedder(&self, id: &str, dimensions: usize) -> Result<()> {
        let known = self
            .connection()
            .query_row("SELECT 1 FROM embedders WHERE id = ?1", [id], |_| Ok(()))
            .optional()?;
        if known.is_some() {
            return Ok(());
        }
        self.connection().execute(
            "INSERT INTO embedders (id, dimensions, active)
             VALUES (?1, ?2, NOT EXISTS (SELECT 1 FROM embedders WHERE active = 1))",
            params![id, dimensions as i64],
        )?;
        Ok(())
    }

    /// Chunks that have no vector by `embedder` yet, oldest first.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn chunks_without_vector(&self, embedder: &str, limit: usize) -> Result<Vec<ChunkId>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT id FROM chunks
             WHERE NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.embedder = ?1 AND vectors.chunk = chunks.id)
             ORDER BY id LIMIT ?2",
        )?;
        let rows = statement.query_map(params![embedder, limit as i64], |row| {
            Ok(ChunkId(row.get::<_, i64>(0)?.cast_unsigned()))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How many chunks have no vector by `embedder` yet.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn count_without_vector(&self, embedder: &str) -> Result<u64> {
        let count: i64 = self.connection().query_row(
            "SELECT (SELECT count(*) FROM chunks) - (SELECT count(*) FROM vectors WHERE embedder = ?1)",
            [embedder],
            |row| row.get(0),
        )?;
        Ok(count.max(0).cast_unsigned())
    }

    /// Stores vectors; chunks that are gone meanwhile are passed over. If the embedder is active, the
    /// vector index is told by the log.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn put_vectors(&self, embedder: &str, vectors: &[(ChunkId, Vec<f32>)]) -> Result<()> {
        self.transaction(|transaction| {
            let active: bool = transaction
                .query_row("SELECT active FROM embedders WHERE id = ?1", [embedder], |row| {
                    row.get(0)
                })
                .optional()?
                .unwrap_or(false);
            for (chunk, vector) in vectors {
                let chunk = chunk.0.cast_signed();
                let there = transaction
                    .prepare_cached("SELECT 1 FROM chunks WHERE id = ?1")?
                    .query_row([chunk], |_| Ok(()))
                    .optional()?;
                if there.is_some() {
                    put_vector(transaction, embedder, chunk, vector)?;
                    if active {
                        crate::changes::log_chunk(transaction, chunk, false)?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Makes `embedder` the one that is searched and drops the vectors of all others, in one step.
    ///
    /// # Errors
    /// [`Error::Incomplete`] while chunks have no vector by it.
    pub fn switch_embedder(&self, embedder: &str) -> Result<()> {
        let missing = self.count_without_vector(embedder)?;
        if missing > 0 {
            return Err(Error::Incomplete { embedder: embedder.to_owned(), missing });
        }
        self.transaction(|transaction| {
            transaction.execute("UPDATE embedders SET active = (id = ?1)", [embedder])?;
            transaction.execute("DELETE FROM embedders WHERE id <> ?1", [embedder])?;
            Ok(())
        })
    }

    /// Vectors by the hash of the text they were made from: copies and edited files need no new ones.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn vectors_by_text(
        &self,
        embedder: &str,
        hashes: &[[u8; 32]],
    ) -> Result<HashMap<[u8; 32], Vec<f32>>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT vectors.vector FROM chunks JOIN vectors ON vectors.chunk = chunks.id
             WHERE chunks.text_hash = ?1 AND vectors.embedder = ?2 LIMIT 1",
        )?;
        let mut found = HashMap::new();
        for hash in hashes {
            let bytes: Option<Vec<u8>> =
                statement.query_row(params![hash, embedder], |row| row.get(0)).optional()?;
            if let Some(bytes) = bytes {
                found.insert(*hash, to_vector(&bytes));
            }
        }
        Ok(found)
    }

    /// The vectors of those chunks; chunks without one are left out.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn vectors_of(
        &self,
        embedder: &str,
        chunks: &[ChunkId],
    ) -> Result<Vec<(ChunkId, Vec<f32>)>> {
        let connection = self.connection();
        let mut statement = connection
            .prepare_cached("SELECT vector FROM vectors WHERE embedder = ?1 AND chunk = ?2")?;
        let mut found = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let bytes: Option<Vec<u8>> = statement
                .query_row(params![embedder, chunk.0.cast_signed()], |row| row.get(0))
                .optional()?;
            if let Some(bytes) = bytes {
                found.push((*chunk, to_vector(&bytes)));
            }
        }
        Ok(found)
    }

    /// Hands every vector of an embedder to `visit`, by ascending chunk.
    ///
    /// # Errors
    /// When the database can not be read, or what `visit` returns.
    pub fn for_each_vector<E: From<Error>>(
        &self,
        embedder: &str,
        mut visit: impl FnMut(ChunkId, &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let connection = self.connection();
        let mut statement = connection
            .prepare_cached("SELECT chunk, vector FROM vectors WHERE embedder = ?1 ORDER BY chunk")
            .map_err(Error::from)?;
        let mut rows = statement.query([embedder]).map_err(Error::from)?;
        while let Some(row) = rows.next().map_err(Error::from)? {
            let chunk = ChunkId(row.get::<_, i64>(0).map_err(Error::from)?.cast_unsigned());
            let bytes: Vec<u8> = row.get(1).map_err(Error::from)?;
            visit(chunk, &to_vector(&bytes))?;
        }
        Ok(())
    }
}
