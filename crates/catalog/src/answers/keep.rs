//! Keeping an answer: only where every passage that it read is still there, word for word.

use rusqlite::{OptionalExtension as _, Transaction, params};

use riddle_types::ChunkId;

use super::{
    AnswerState, AskedBy, NewAnswer, NewWords,
    trust::{seq_of, set_seq},
};
use crate::{Catalog, Result, catalog::now};

impl Catalog {
    /// Keeps a question and its answer; another answer to the same question under the same setting is replaced. Returns
    /// its number, or `None` where a passage that was read has changed or gone meanwhile, and nothing was kept.
    ///
    /// An answer whose search has not seen all that newcomers were looked at for is kept as suspect.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn keep_answer(&self, new: &NewAnswer) -> Result<Option<i64>> {
        self.transaction(|transaction| {
            if let Some(words) = &new.answer
                && !all_there(transaction, words)?
            {
                return Ok(None);
            }
            let there = |chunk: &ChunkId| -> Result<bool> {
                let found = transaction
                    .prepare_cached("SELECT 1 FROM chunks WHERE id = ?1")?
                    .query_row([chunk.0.cast_signed()], |_| Ok(()))
                    .optional()?;
                Ok(found.is_some())
            };
            for chunk in &new.made_from {
                if !there(chunk)? {
                    return Ok(None);
                }
            }
            let is_first: bool =
                transaction
                    .query_row("SELECT NOT EXISTS (SELECT 1 FROM answers)", [], |row| row.get(0))?;
            let followed = match seq_of(transaction)? {
                Some(seq) if !is_first => seq,
                _ => {
                    set_seq(transaction, new.seq)?;
                    new.seq
                }
            };
            let state = match &new.answer {
                None => AnswerState::Pending,
                Some(_) if new.seq < followed => AnswerState::Suspect,
                Some(_) => AnswerState::Fresh,
            };
            let id = put(transaction, new, state)?;
            put_relations(transaction, id, new)?;
            Ok(Some(id))
        })
    }
}

/// Whether every passage that was read is still there, word for word.
fn all_there(transaction: &Transaction<'_>, words: &NewWords) -> Result<bool> {
    let mut statement = transaction.prepare_cached("SELECT text FROM chunks WHERE id = ?1")?;
    for passage in &words.passages {
        let text: Option<String> =
            statement.query_row([passage.chunk.0.cast_signed()], |row| row.get(0)).optional()?;
        if text.is_none_or(|it| blake3::hash(it.as_bytes()).as_bytes() != &passage.text_hash) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What another entry for the same question leaves behind.
struct Before {
    id: i64,
    by: AskedBy,
    uses: i64,
}

/// The entry for the same question under the same setting.
fn before(transaction: &Transaction<'_>, new: &NewAnswer) -> Result<Option<Before>> {
    let found = transaction
        .prepare_cached("SELECT id, kind, uses FROM answers WHERE setting = ?1 AND question = ?2")?
        .query_row(params![new.setting, new.question], |row| {
            let by: String = row.get(1)?;
            Ok(Before { id: row.get(0)?, by: AskedBy::parse(&by), uses: row.get(2)? })
        })
        .optional()?;
    Ok(found)
}

/// Writes the row, or over the one that there is for the same question; its number.
fn put(transaction: &Transaction<'_>, new: &NewAnswer, state: AnswerState) -> Result<i64> {
    let old = before(transaction, new)?;
    if let (Some(old), None) = (&old, &new.answer) {
        // A question alone takes no answer away; but somebody may have asked it now.
        if new.by == AskedBy::User {
            transaction.execute("UPDATE answers SET kind = 'user' WHERE id = ?1", [old.id])?;
        }
        return Ok(old.id);
    }
    // Whoever was asked once is no longer foreseen.
    let by = match &old {
        Some(old) if old.by == AskedBy::User => AskedBy::User,
        _ => new.by,
    };
    let (embedder, vector) = match &new.vector {
        Some((embedder, vector)) => {
            let bytes: Vec<u8> = vector.iter().flat_map(|it| it.to_le_bytes()).collect();
            (Some(embedder), Some(bytes))
        }
        None => (None, None),
    };
    let words = new.answer.as_ref();
    let at = now();
    transaction
        .prepare_cached(
            "INSERT INTO answers (question, typed, kind, setting, state, prompt, embedder, vector, floor, text, shown,
                                  negative, detail, seq, made_at, checked_at, used_at, uses)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?15, ?15, ?16)
             ON CONFLICT (setting, question) DO UPDATE SET
                 typed = ?2, kind = ?3, state = ?5, prompt = ?6, embedder = ?7, vector = ?8, floor = ?9, text = ?10,
                 shown = ?11, negative = ?12, detail = ?13, seq = ?14, made_at = ?15, checked_at = ?15, uses = ?16",
        )?
        .execute(params![
            new.question,
            new.typed,
            by.as_str(),
            new.setting,
            state.as_str(),
            words.map(|it| it.prompt),
            embedder,
            vector,
            words.and_then(|it| it.floor),
            words.map(|it| &it.text),
            words.map(|it| &it.shown),
            words.is_some_and(|it| it.negative),
            words.map_or("{}", |it| it.detail.as_str()),
            new.seq.cast_signed(),
            at,
            old.as_ref().map_or(0, |it| it.uses),
        ])?;
    let id = old.map_or_else(|| transaction.last_insert_rowid(), |it| it.id);
    transaction
        .prepare_cached("DELETE FROM answer_passages WHERE answer = ?1 AND place > 0")?
        .execute([id])?;
    Ok(id)
}

/// Writes what it was written and made from. Passages that were read have the places of their numbers, chunks that the
/// question was made from have places from 0 down.
fn put_relations(transaction: &Transaction<'_>, id: i64, new: &NewAnswer) -> Result<()> {
    let mut passage = transaction.prepare_cached(
        "INSERT OR IGNORE INTO answer_passages (answer, place, chunk, text_hash, cited) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for it in new.answer.iter().flat_map(|it| &it.passages) {
        let chunk = it.chunk.0.cast_signed();
        passage.execute(params![id, it.place, chunk, it.text_hash, it.cited])?;
    }
    for (chunk, place) in new.made_from.iter().zip(0_i64..) {
        let none: &[u8] = &[];
        passage.execute(params![id, -place, chunk.0.cast_signed(), none, false])?;
    }
    let mut parent = transaction
        .prepare_cached("INSERT OR IGNORE INTO answer_parents (answer, parent) VALUES (?1, ?2)")?;
    for it in &new.parents {
        parent.execute(params![id, it])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{
        AnswerState, NewAnswer,
        tests::{entry, open, state, words, write},
    };

    #[test]
    fn nothing_is_kept_from_a_passage_that_is_gone_meanwhile() {
        let (_home, catalog, root) = open();
        let a = write(&catalog, root, "a", "one");
        write(&catalog, root, "a", "two");
        let kept = catalog.keep_answer(&entry("What?", Some(words(&[(a, "one")]))));
        assert_eq!(kept.expect("written"), None);
    }

    #[test]
    fn an_answer_whose_search_missed_what_is_known_is_suspect() {
        let (_home, catalog, root) = open();
        let a = write(&catalog, root, "a", "one");
        let seen = |seq| NewAnswer { seq, ..entry("What?", Some(words(&[(a, "one")]))) };
        catalog.keep_answer(&NewAnswer { seq: 5, ..entry("First?", None) }).expect("kept");
        let id = catalog.keep_answer(&seen(5)).expect("written").expect("kept");
        assert_eq!(state(&catalog, id), Some((AnswerState::Fresh, true)));
        catalog.suspect_answers(&[], 9).expect("followed");
        assert_eq!(catalog.answers_seq().expect("readable"), Some(9));
        let again = catalog.keep_answer(&seen(8)).expect("written").expect("kept");
        assert_eq!((again, state(&catalog, id)), (id, Some((AnswerState::Suspect, true))));
    }
}
