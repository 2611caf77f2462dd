//! Letting answers go: what somebody wants forgotten leaves the files, what is too much makes place.

use super::counts::BYTES;
use crate::{Catalog, Result};

impl Catalog {
    /// Forgets answers by number; their bytes are overwritten.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn forget_answers(&self, ids: &[i64]) -> Result<()> {
        self.transaction(|transaction| {
            for id in ids {
                transaction.prepare_cached("DELETE FROM answers WHERE id = ?1")?.execute([id])?;
            }
            Ok(())
        })?;
        self.wipe_log()
    }

    /// Forgets all answers, questions and sentences about passages; or, with `of_people`, only what people asked and
    /// what was foreseen from it. Their bytes are overwritten.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn clear_answers(&self, of_people: bool) -> Result<()> {
        self.transaction(|transaction| {
            if of_people {
                transaction.execute("DELETE FROM answers WHERE kind <> 'knowledge'", [])?;
            } else {
                transaction.execute("DELETE FROM answers", [])?;
                transaction.execute("DELETE FROM abstracts", [])?;
            }
            Ok(())
        })?;
        self.wipe_log()
    }

    /// Forgets the answers to a question, typed or understood so, with what was foreseen from it.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn forget_question(&self, question: &str) -> Result<()> {
        self.connection()
            .execute("DELETE FROM answers WHERE typed = ?1 OR question = ?1", [question.trim()])?;
        self.wipe_log()
    }

    /// Lets answers go until all take at most `limit` bytes: first foreseen ones that were never given, the oldest
    /// first, then other foreseen ones, then those of people, each by how often and when they were last given. What a
    /// person has asked never makes place for what nobody has. Returns how many went.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn limit_answers(&self, limit: u64) -> Result<u64> {
        let bytes = self.bank_counts()?.bytes;
        if bytes <= limit {
            return Ok(0);
        }
        self.transaction(|transaction| {
            let mut over = bytes - limit;
            let mut statement = transaction.prepare_cached(&format!(
                "SELECT id, {BYTES} FROM answers ORDER BY kind = 'user', uses, used_at, id"
            ))?;
            let mut rows = statement.query([])?;
            let mut gone = Vec::new();
            while over > 0
                && let Some(row) = rows.next()?
            {
                gone.push(row.get::<_, i64>(0)?);
                over = over.saturating_sub(row.get::<_, i64>(1)?.cast_unsigned());
            }
            for id in &gone {
                transaction.prepare_cached("DELETE FROM answers WHERE id = ?1")?.execute([id])?;
            }
            Ok(gone.len() as u64)
        })
    }

    /// Writes the log of the database into it and empties it: what was deleted is in no file any more. A reader that is
    /// at work keeps that from being done at once; the next one does it.
    fn wipe_log(&self) -> Result<()> {
        let connection = self.connection();
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{
        AnswerState, AskedBy, NewAnswer,
        tests::{entry, open, state, words, write},
    };

    #[test]
    fn what_nobody_asked_makes_place_first_and_a_question_alone_takes_no_answer() {
        let (_home, catalog, root) = open();
        let a = write(&catalog, root, "a", "one");
        let asked = catalog
            .keep_answer(&entry("Asked?", Some(words(&[(a, "one")]))))
            .expect("written")
            .expect("kept");
        let same = catalog.keep_answer(&entry("Asked?", None)).expect("written");
        assert_eq!((same, state(&catalog, asked)), (Some(asked), Some((AnswerState::Fresh, true))));
        for number in 0..20 {
            let foreseen =
                NewAnswer { by: AskedBy::Knowledge, ..entry(&format!("Foreseen {number}?"), None) };
            catalog.keep_answer(&foreseen).expect("kept");
        }
        let bytes = catalog.bank_counts().expect("readable").bytes;
        assert!(catalog.limit_answers(bytes / 4).expect("limited") > 10);
        assert!(catalog.bank_counts().expect("readable").bytes <= bytes / 4);
        assert!(state(&catalog, asked).is_some());
        catalog.limit_answers(0).expect("limited");
        assert_eq!(state(&catalog, asked), None);
    }

    #[test]
    fn a_forgotten_answer_is_in_no_file_any_more() {
        let (home, catalog, root) = open();
        let a = write(&catalog, root, "a", "one");
        catalog.keep_answer(&entry("Hidden?", Some(words(&[(a, "one")])))).expect("kept");
        let holds = || {
            std::fs::read_dir(home.path()).expect("listed").flatten().any(|file| {
                let bytes = std::fs::read(file.path()).expect("readable");
                bytes.windows(13).any(|it| it == b"secret answer")
            })
        };
        assert!(holds());
        catalog.forget_question("Hidden?").expect("forgotten");
        assert!(!holds());
        assert!(Path::new(home.path()).exists());
    }
}
