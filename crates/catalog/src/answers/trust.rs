//! Whether an answer may be given: newcomers make it suspect, and a look at the files proves it.
//!
//! Newcomers are found in the change log. The place up to which it was followed is a setting: it is written in the
//! transaction that marks the answers.

use rusqlite::{OptionalExtension as _, Transaction, params};

use crate::{Catalog, Result, catalog::now};

/// Setting: place in the change log up to which newcomers were held against the answers.
const SEQ_SETTING: &str = "answers_seq";

impl Catalog {
    /// An answer was given. `proved`: it was held against the files, so that nothing speaks against it any more;
    /// `asked`: a person has asked this very question, so that it is no longer foreseen.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn note_use(&self, id: i64, proved: bool, asked: bool) -> Result<()> {
        self.connection().execute(
            "UPDATE answers SET uses = uses + 1, used_at = ?2,
                 checked_at = CASE WHEN ?3 THEN ?2 ELSE checked_at END,
                 state = CASE WHEN ?3 AND text IS NOT NULL THEN 'fresh' ELSE state END,
                 kind = CASE WHEN ?4 THEN 'user' ELSE kind END
             WHERE id = ?1",
            params![id, now(), proved, asked],
        )?;
        Ok(())
    }

    /// Marks answers that something new speaks against, up to `seq` of the change log; those that are not known any
    /// more are passed over.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn suspect_answers(&self, ids: &[i64], seq: u64) -> Result<()> {
        self.transaction(|transaction| {
            let mut statement = transaction.prepare_cached(
                "UPDATE answers SET state = 'suspect' WHERE id = ?1 AND state = 'fresh'",
            )?;
            for id in ids {
                statement.execute([id])?;
            }
            set_seq(transaction, seq)
        })
    }

    /// Marks every answer: what has changed since is not known.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn suspect_all_answers(&self, seq: u64) -> Result<()> {
        self.transaction(|transaction| {
            transaction
                .execute("UPDATE answers SET state = 'suspect' WHERE state = 'fresh'", [])?;
            set_seq(transaction, seq)
        })
    }

    /// Place in the change log up to which newcomers were held against the answers; `None` without answers.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn answers_seq(&self) -> Result<Option<u64>> {
        let any: bool =
            self.connection()
                .query_row("SELECT EXISTS (SELECT 1 FROM answers)", [], |row| row.get(0))?;
        if !any {
            return Ok(None);
        }
        Ok(Some(self.setting(SEQ_SETTING)?.and_then(|it| it.parse().ok()).unwrap_or(0)))
    }
}

/// The same place, read in a transaction; `None` before it was ever set.
pub(super) fn seq_of(transaction: &Transaction<'_>) -> Result<Option<u64>> {
    let text: Option<String> = transaction
        .query_row("SELECT value FROM settings WHERE key = ?1", [SEQ_SETTING], |row| row.get(0))
        .optional()?;
    Ok(text.and_then(|it| it.parse().ok()))
}

/// Notes how far the change log was followed.
pub(super) fn set_seq(transaction: &Transaction<'_>, seq: u64) -> Result<()> {
    transaction.execute(
        "INSERT INTO settings (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
        params![SEQ_SETTING, seq.to_string()],
    )?;
    Ok(())
}
