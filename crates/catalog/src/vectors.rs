//! Vectors: which embedder made them, which one is searched, and the switch from one to another.

use std::collections::{HashMap, HashSet};

use riddle_types::ChunkId;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use crate::{
    Catalog, Embeds, Error, Result,
    withheld::{WITHHELD, count_withheld, withheld_among, withheld_files},
};

/// The embedder whose vectors are searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveEmbedder {
    /// Its identity.
    pub id: String,
    /// Length of its vectors.
    pub dimensions: usize,
}

/// Vectors handed over at once while reading them all: 512 vectors of 384 numbers are 768 KiB.
const PAGE: usize = 512;

/// Writes the vectors of one embedder, all of its length.
pub(crate) struct VectorWriter<'a> {
    transaction: &'a Transaction<'a>,
    embedder: &'a str,
    dimensions: usize,
    active: bool,
}

impl<'a> VectorWriter<'a> {
    pub(crate) fn new(transaction: &'a Transaction<'a>, embedder: &'a str) -> Result<Self> {
        let found: Option<(i64, bool)> = transaction
            .prepare_cached("SELECT dimensions, active FROM embedders WHERE id = ?1")?
            .query_row([embedder], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let (dimensions, active) =
            found.ok_or_else(|| Error::UnknownEmbedder { embedder: embedder.to_owned() })?;
        Ok(VectorWriter { transaction, embedder, dimensions: dimensions as usize, active })
    }

    pub(crate) fn put(&self, chunk: i64, vector: &[f32]) -> Result<()> {
        if vector.len() != self.dimensions {
            return Err(Error::WrongVector {
                embedder: self.embedder.to_owned(),
                expected: self.dimensions,
                found: vector.len(),
            });
        }
        let bytes: Vec<u8> = vector.iter().flat_map(|it| it.to_le_bytes()).collect();
        self.transaction
            .prepare_cached(
                "INSERT INTO vectors (embedder, chunk, vector) VALUES (?1, ?2, ?3)
                 ON CONFLICT (chunk, embedder) DO UPDATE SET vector = excluded.vector
                 WHERE vector <> excluded.vector",
            )?
            .execute(params![self.embedder, chunk, bytes])?;
        Ok(())
    }
}

fn to_vector(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|it| f32::from_le_bytes([it[0], it[1], it[2], it[3]])).collect()
}

/// `CROSS JOIN` keeps the planner from beginning with the vectors: without statistics it takes the few embedders
/// there are for a choice among them, and looked at every vector of the catalog for every new text.
const VECTOR_BY_TEXT: &str =
    "SELECT vectors.vector FROM chunks CROSS JOIN vectors ON vectors.chunk = chunks.id
     WHERE chunks.text_hash = ?1 AND vectors.embedder = ?2 LIMIT 1";

/// Passages of a file that come before those of other files which follow their own first ones.
///
/// `CROSS JOIN`: every passage that waits is looked at, off an index that holds no text.
const WITHOUT_VECTOR: &str = "SELECT chunks.id FROM chunks INDEXED BY chunks_by_turn
     CROSS JOIN files ON files.id = chunks.file
     WHERE chunks.turn < 2
     AND NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.embedder = ?1 AND vectors.chunk = chunks.id)";
const IN_TURN: &str = "ORDER BY chunks.turn, chunks.ordinal / 64, files.modified_ns DESC, chunks.file, chunks.ordinal LIMIT ?3";

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
    /// [`Error::WrongVector`] when it is known with another length; when the database can not be written.
    pub fn register_embedder(&self, id: &str, dimensions: usize) -> Result<()> {
        self.transaction(|transaction| {
            let known: Option<i64> = transaction
                .query_row("SELECT dimensions FROM embedders WHERE id = ?1", [id], |row| row.get(0))
                .optional()?;
            match known.map(|it| it as usize) {
                Some(expected) if expected != dimensions => {
                    Err(Error::WrongVector { embedder: id.to_owned(), expected, found: dimensions })
                }
                Some(_) => Ok(()),
                None => {
                    transaction.execute(
                        "INSERT INTO embedders (id, dimensions, active)
                         VALUES (?1, ?2, NOT EXISTS (SELECT 1 FROM embedders WHERE active = 1))",
                        params![id, dimensions as i64],
                    )?;
                    Ok(())
                }
            }
        })
    }

    /// Chunks that wait for a vector by `embedder`, in the order of use: prose before tables, the beginnings of files
    /// before what follows in long ones, what was changed lately before what was not. Those that never get one are left
    /// out.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn chunks_without_vector(
        &self,
        embedder: &str,
        embeds: Embeds,
        limit: usize,
    ) -> Result<Vec<ChunkId>> {
        let connection = self.connection();
        let files = withheld_files(&connection, embeds)?;
        let sql = match files {
            Some(_) => format!("{WITHOUT_VECTOR} AND chunks.id NOT IN ({WITHHELD}) {IN_TURN}"),
            // The number of parameters is the same.
            None => format!("{WITHOUT_VECTOR} AND ?2 IS NULL {IN_TURN}"),
        };
        let mut statement = connection.prepare_cached(&sql)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![embedder, files, limit], |row| {
            Ok(ChunkId(row.get::<_, i64>(0)?.cast_unsigned()))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Those of `chunks` that wait for a vector by `embedder`.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn without_vector_among(
        &self,
        embedder: &str,
        embeds: Embeds,
        chunks: &[ChunkId],
    ) -> Result<Vec<ChunkId>> {
        let connection = self.connection();
        let mut waits = connection.prepare_cached(
            "SELECT 1 FROM chunks WHERE id = ?2 AND turn < 2
             AND NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.embedder = ?1 AND vectors.chunk = chunks.id)",
        )?;
        let mut waiting = Vec::new();
        for chunk in chunks {
            if waits.exists(params![embedder, chunk.0.cast_signed()])? {
                waiting.push(*chunk);
            }
        }
        if embeds == Embeds::Elsewhere {
            let withheld = withheld_among(&connection, &waiting)?;
            waiting.retain(|it| !withheld.contains(it));
        }
        Ok(waiting)
    }

    /// How many chunks never get a vector: columns of numbers, which words alone find.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn count_by_words_alone(&self) -> Result<u64> {
        let count: i64 = self.connection().query_row(
            "SELECT count(*) FROM chunks WHERE turn = 2",
            [],
            |row| row.get(0),
        )?;
        Ok(count.cast_unsigned())
    }

    /// How many chunks wait for a vector by `embedder`.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn count_without_vector(&self, embedder: &str, embeds: Embeds) -> Result<u64> {
        count_without_vector(&self.connection(), embedder, embeds)
    }

    /// How many of the chunks that wait for a vector by `embedder` are of tables, which come after all others. Where
    /// another machine makes vectors, those that stay here are counted, too.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn count_late_without_vector(&self, embedder: &str) -> Result<u64> {
        let count: i64 = self
            .connection()
            .prepare_cached(
                "SELECT count(*) FROM chunks INDEXED BY chunks_by_turn WHERE turn = 1 AND NOT EXISTS
                 (SELECT 1 FROM vectors WHERE vectors.embedder = ?1 AND vectors.chunk = chunks.id)",
            )?
            .query_row([embedder], |row| row.get(0))?;
        Ok(count.cast_unsigned())
    }

    /// How many chunks have no vector by `embedder` and get none as long as it is on another machine, because their
    /// text never leaves this one.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn count_withheld(&self, embedder: &str) -> Result<u64> {
        count_withheld(&self.connection(), embedder)
    }

    /// Those of these chunks whose text stands, in them or in a copy, in a folder that never leaves this machine.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn withheld_among(&self, chunks: &[ChunkId]) -> Result<HashSet<ChunkId>> {
        withheld_among(&self.connection(), chunks)
    }

    /// Stores vectors; chunks that are gone meanwhile are passed over. If the embedder is active, the
    /// vector index is told by the log.
    ///
    /// # Errors
    /// [`Error::UnknownEmbedder`] and [`Error::WrongVector`]; when the database can not be written.
    pub fn put_vectors(&self, embedder: &str, vectors: &[(ChunkId, Vec<f32>)]) -> Result<()> {
        self.transaction(|transaction| {
            let writer = VectorWriter::new(transaction, embedder)?;
            for (chunk, vector) in vectors {
                let chunk = chunk.0.cast_signed();
                let there = transaction
                    .prepare_cached("SELECT 1 FROM chunks WHERE id = ?1")?
                    .query_row([chunk], |_| Ok(()))
                    .optional()?;
                if there.is_some() {
                    writer.put(chunk, vector)?;
                    if writer.active {
                        crate::changes::log_vector(transaction, chunk)?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Makes `embedder` the one that is searched and drops the vectors of all others, in one step.
    ///
    /// # Errors
    /// [`Error::Incomplete`] while chunks have no vector by it, [`Error::UnknownEmbedder`]; when the
    /// database can not be written.
    pub fn switch_embedder(&self, embedder: &str, embeds: Embeds) -> Result<()> {
        self.transaction(|transaction| {
            VectorWriter::new(transaction, embedder)?;
            let missing = count_without_vector(transaction, embedder, embeds)?;
            if missing > 0 {
                return Err(Error::Incomplete { embedder: embedder.to_owned(), missing });
            }
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
        let mut statement = connection.prepare_cached(VECTOR_BY_TEXT)?;
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

    /// Hands every vector of an embedder to `visit`, by ascending chunk. The catalog stays usable
    /// meanwhile, by `visit` too: it is read page by page, and the log tells what changed behind the reader
    /// (take [`last_seq`](Self::last_seq) before).
    ///
    /// # Errors
    /// When the database can not be read, or what `visit` returns.
    pub fn for_each_vector<E: From<Error>>(
        &self,
        embedder: &str,
        mut visit: impl FnMut(ChunkId, &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut last = -1;
        loop {
            let page = self.vector_page(embedder, last)?;
            let Some(end) = page.last() else { return Ok(()) };
            last = end.0;
            for (chunk, vector) in &page {
                visit(ChunkId(chunk.cast_unsigned()), vector)?;
            }
        }
    }

    fn vector_page(&self, embedder: &str, after: i64) -> Result<Vec<(i64, Vec<f32>)>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT chunk, vector FROM vectors WHERE embedder = ?1 AND chunk > ?2 ORDER BY chunk LIMIT ?3",
        )?;
        let rows = statement.query_map(params![embedder, after, PAGE as i64], |row| {
            let bytes: Vec<u8> = row.get(1)?;
            Ok((row.get(0)?, to_vector(&bytes)))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

fn count_without_vector(connection: &Connection, embedder: &str, embeds: Embeds) -> Result<u64> {
    // A vector goes with its chunk: the counts differ by the chunks that have none.
    let count: i64 = connection.query_row(
        "SELECT (SELECT count(*) FROM chunks) - (SELECT count(*) FROM chunks WHERE turn = 2)
                - (SELECT count(*) FROM vectors WHERE embedder = ?1)",
        [embedder],
        |row| row.get(0),
    )?;
    let withheld = match embeds {
        Embeds::Here => 0,
        Embeds::Elsewhere => count_withheld(connection, embedder)?,
    };
    Ok(count.max(0).cast_unsigned().saturating_sub(withheld))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which the planner looks at the tables of a statement.
    fn plan(catalog: &Catalog, sql: &str) -> Vec<String> {
        let connection = catalog.connection();
        let mut statement =
            connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("a statement");
        let rows = statement.query_map(params![[0u8; 32], "e"], |row| row.get(3)).expect("a plan");
        rows.collect::<Result<_, _>>().expect("text")
    }

    #[test]
    fn a_text_is_looked_up_by_its_hash_and_not_by_its_vector() {
        let home = tempfile::tempdir().expect("a folder");
        let catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("opens");
        let found = plan(&catalog, VECTOR_BY_TEXT);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("chunks_by_text (text_hash=?)"), "{found:?}");
        assert!(found[1].contains("vectors_of_chunk (chunk=? AND embedder=?)"), "{found:?}");
    }

    /// A page of 4 096 bytes holds two vectors of 384 numbers.
    #[test]
    fn vectors_take_little_more_than_their_numbers() {
        let home = tempfile::tempdir().expect("a folder");
        let catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("opens");
        let pages = || {
            let connection = catalog.connection();
            connection
                .query_row("PRAGMA page_count", [], |row| row.get::<_, i64>(0))
                .expect("a count")
        };
        let before = pages();
        catalog
            .register_embedder("an/embedder/with/a/long/name/256/mean/32b6d544", 384)
            .expect("known");
        {
            let connection = catalog.connection();
            connection.execute_batch("PRAGMA foreign_keys = OFF").expect("off");
            for chunk in 0..1_000 {
                connection
                    .execute(
                        "INSERT INTO vectors (embedder, chunk, vector) VALUES (?1, ?2, zeroblob(1536))",
                        params!["an/embedder/with/a/long/name/256/mean/32b6d544", chunk],
                    )
                    .expect("inserted");
            }
        }
        let grown = pages() - before;
        assert!(grown < 550, "{grown} pages for a thousand vectors");
    }
}
