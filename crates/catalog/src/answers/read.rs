//! Reading answers: by number, by prompt, and the lists that somebody chooses from.

use rusqlite::{OptionalExtension as _, Row, params};

use riddle_types::ChunkId;

use super::{AnswerState, AskedBy, BankAnswer, BankQuestion, ReadPassage};
use crate::{Catalog, Result};

/// What [`answer`] reads of a row, in this order.
const COLUMNS: &str =
    "id, question, typed, kind, setting, state, prompt, text, shown, negative, detail, made_at,
    checked_at, uses";

impl Catalog {
    /// The questions under a setting that have a vector by `embedder`, oldest first; of all settings where none is
    /// given.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn bank_questions(
        &self,
        setting: Option<&[u8; 32]>,
        embedder: &str,
    ) -> Result<Vec<BankQuestion>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT id, question, vector, floor, state FROM answers
             WHERE (?1 IS NULL OR setting = ?1) AND embedder = ?2 AND vector IS NOT NULL ORDER BY id",
        )?;
        let rows = statement.query_map(params![setting, embedder], |row| {
            let (vector, state): (Vec<u8>, String) = (row.get(2)?, row.get(4)?);
            Ok(BankQuestion {
                id: row.get(0)?,
                question: row.get(1)?,
                vector: to_vector(&vector),
                floor: row.get(3)?,
                state: AnswerState::parse(&state),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// An answer by its number.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn bank_answer(&self, id: i64) -> Result<Option<BankAnswer>> {
        self.one_answer("id = ?1", params![id])
    }

    /// The answer to exactly this prompt; only one that has words.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn answer_to_prompt(&self, prompt: &[u8; 32]) -> Result<Option<BankAnswer>> {
        self.one_answer(
            "prompt = ?1 AND text IS NOT NULL ORDER BY made_at DESC LIMIT 1",
            params![prompt],
        )
    }

    fn one_answer(
        &self,
        condition: &str,
        values: &[&dyn rusqlite::ToSql],
    ) -> Result<Option<BankAnswer>> {
        let connection = self.connection();
        let found = connection
            .prepare_cached(&format!("SELECT {COLUMNS} FROM answers WHERE {condition}"))?
            .query_row(values, answer)
            .optional()?;
        let Some(mut found) = found else { return Ok(None) };
        let mut statement = connection.prepare_cached(
            "SELECT place, chunk, text_hash, cited FROM answer_passages WHERE answer = ?1 AND place > 0 ORDER BY place",
        )?;
        let rows = statement.query_map([found.id], |row| {
            Ok(ReadPassage {
                place: row.get(0)?,
                chunk: ChunkId(row.get::<_, i64>(1)?.cast_unsigned()),
                text_hash: row.get(2)?,
                cited: row.get(3)?,
            })
        })?;
        found.passages = rows.collect::<Result<_, _>>()?;
        Ok(Some(found))
    }

    /// All answers and questions without one, the latest first, without their passages.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn bank(&self, limit: usize) -> Result<Vec<BankAnswer>> {
        self.bank_where("1 = 1 ORDER BY made_at DESC, id DESC", limit)
    }

    /// What people asked last, newest first.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn asked_last(&self, limit: usize) -> Result<Vec<BankAnswer>> {
        self.bank_where("kind = 'user' ORDER BY used_at DESC, id DESC", limit)
    }

    fn bank_where(&self, condition: &str, limit: usize) -> Result<Vec<BankAnswer>> {
        let connection = self.connection();
        let mut statement = connection
            .prepare_cached(&format!("SELECT {COLUMNS} FROM answers WHERE {condition} LIMIT ?1"))?;
        let rows = statement.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], answer)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// A row of [`COLUMNS`]; its passages are in another table.
fn answer(row: &Row<'_>) -> rusqlite::Result<BankAnswer> {
    let (by, state): (String, String) = (row.get(3)?, row.get(5)?);
    Ok(BankAnswer {
        id: row.get(0)?,
        question: row.get(1)?,
        typed: row.get(2)?,
        by: AskedBy::parse(&by),
        setting: row.get(4)?,
        state: AnswerState::parse(&state),
        prompt: row.get(6)?,
        text: row.get(7)?,
        shown: row.get(8)?,
        negative: row.get(9)?,
        detail: row.get(10)?,
        made_at: row.get(11)?,
        checked_at: row.get(12)?,
        uses: row.get::<_, i64>(13)?.cast_unsigned(),
        passages: Vec::new(),
    })
}

/// A vector of its bytes, as [`Catalog::keep_answer`] writes them.
fn to_vector(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|it| f32::from_le_bytes([it[0], it[1], it[2], it[3]])).collect()
}
