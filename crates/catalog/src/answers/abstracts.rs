//! Sentences about passages, from which questions are made that nobody has asked yet.

use rusqlite::params;

use riddle_types::ChunkId;

use crate::{Catalog, Result};

/// A sentence about a passage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abstract {
    /// The passage.
    pub chunk: ChunkId,
    /// The sentence.
    pub text: String,
}

impl Catalog {
    /// Chunks without a sentence about them, the latest first: what was written last is asked about first.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn chunks_without_abstract(&self, limit: usize) -> Result<Vec<ChunkId>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT id FROM chunks WHERE NOT EXISTS (SELECT 1 FROM abstracts WHERE chunk = chunks.id)
             ORDER BY id DESC LIMIT ?1",
        )?;
        let rows = statement
            .query_map([limit as i64], |row| Ok(ChunkId(row.get::<_, i64>(0)?.cast_unsigned())))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Keeps a sentence about a passage, unless that is gone.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn keep_abstract(&self, about: &Abstract) -> Result<()> {
        self.connection().execute(
            "INSERT INTO abstracts (chunk, text) SELECT id, ?2 FROM chunks WHERE id = ?1
             ON CONFLICT (chunk) DO UPDATE SET text = ?2",
            params![about.chunk.0.cast_signed(), about.text],
        )?;
        Ok(())
    }

    /// The sentences from which questions were made least often, the latest first.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn abstracts(&self, limit: usize) -> Result<Vec<Abstract>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT chunk, text FROM abstracts WHERE used = (SELECT min(used) FROM abstracts WHERE text <> '') AND text <> ''
             ORDER BY chunk DESC LIMIT ?1",
        )?;
        let rows = statement.query_map([limit as i64], |row| {
            Ok(Abstract {
                chunk: ChunkId(row.get::<_, i64>(0)?.cast_unsigned()),
                text: row.get(1)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How often questions were made from every sentence.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn abstract_rounds(&self) -> Result<u64> {
        let rounds: Option<i64> = self.connection().query_row(
            "SELECT min(used) FROM abstracts WHERE text <> ''",
            [],
            |row| row.get(0),
        )?;
        Ok(rounds.unwrap_or(0).cast_unsigned())
    }

    /// Questions were made from these.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn note_abstracts(&self, chunks: &[ChunkId]) -> Result<()> {
        self.transaction(|transaction| {
            for chunk in chunks {
                transaction
                    .prepare_cached("UPDATE abstracts SET used = used + 1 WHERE chunk = ?1")?
                    .execute([chunk.0.cast_signed()])?;
            }
            Ok(())
        })
    }
}
