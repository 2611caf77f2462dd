//! How full the bank is, and the figures that its use adds up to.

use rusqlite::{OptionalExtension as _, params};

use super::AnswerState;
use crate::{Catalog, Result};

/// Bytes that a row takes beside its texts and its vector.
const ROW_BYTES: u64 = 512;

/// Bytes of a row, about.
pub(super) const BYTES: &str = "512 + length(question) + length(typed)
    + coalesce(length(vector), 0) + coalesce(length(text), 0) + coalesce(length(shown), 0)
    + length(detail)";

/// How full the bank is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BankCounts {
    /// Answers that may be given.
    pub fresh: u64,
    /// Answers that something speaks against.
    pub suspect: u64,
    /// Questions without an answer.
    pub pending: u64,
    /// Of all these, questions that nobody has asked yet.
    pub foreseen: u64,
    /// Sentences about passages.
    pub abstracts: u64,
    /// Bytes, about.
    pub bytes: u64,
}

impl Catalog {
    /// How full the bank is.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn bank_counts(&self) -> Result<BankCounts> {
        let connection = self.connection();
        let count = |sql: &str| -> Result<u64> {
            let count: Option<i64> =
                connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
            Ok(count.unwrap_or(0).cast_unsigned())
        };
        let of = |state: AnswerState| {
            count(&format!("SELECT count(*) FROM answers WHERE state = '{}'", state.as_str()))
        };
        let abstracts = count("SELECT count(*) FROM abstracts")?;
        let texts = count("SELECT sum(length(text)) FROM abstracts")?;
        let answers = count(&format!("SELECT sum({BYTES}) FROM answers"))?;
        let rows = count("SELECT count(*) FROM answer_passages")?;
        Ok(BankCounts {
            fresh: of(AnswerState::Fresh)?,
            suspect: of(AnswerState::Suspect)?,
            pending: of(AnswerState::Pending)?,
            foreseen: count("SELECT count(*) FROM answers WHERE kind <> 'user'")?,
            abstracts,
            bytes: answers + texts + rows * (ROW_BYTES / 8),
        })
    }

    /// Adds to a figure.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn add_figure(&self, name: &str, value: f64) -> Result<()> {
        self.connection().execute(
            "INSERT INTO answer_figures (name, value) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET value = value + ?2",
            params![name, value],
        )?;
        Ok(())
    }

    /// A figure; 0 before anything was added.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn figure(&self, name: &str) -> Result<f64> {
        let connection = self.connection();
        let value = connection
            .query_row("SELECT value FROM answer_figures WHERE name = ?1", [name], |row| row.get(0))
            .optional()?;
        Ok(value.unwrap_or(0.0))
    }
}
