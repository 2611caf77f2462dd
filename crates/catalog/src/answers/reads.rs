//! What the prompts of questions have left of keys and values, for whoever decides what is done when there is time.

use rusqlite::params;

use super::{AnswerState, AskedBy};
use crate::{Catalog, Result};

/// Keys and values of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BankRead {
    /// Name of the last part; whoever has it has those before it.
    pub leaf: [u8; 32],
    /// Bytes of all parts.
    pub bytes: u64,
}

/// A question of the bank, as whoever has time for it sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BankWork {
    /// Identity.
    pub id: i64,
    /// Who has asked.
    pub by: AskedBy,
    /// Whether there is an answer.
    pub state: AnswerState,
    /// What its prompt left when it was read last; `None`: it never was, or that could not be kept.
    pub read: Option<BankRead>,
}

impl Catalog {
    /// All questions under a setting, the most useful to be worked on first: those that people asked, then those whose
    /// answer something speaks against, then what was given most often, then the oldest.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn bank_work(&self, setting: &[u8; 32]) -> Result<Vec<BankWork>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(
            "SELECT id, kind, state, leaf, bytes FROM answers LEFT JOIN answer_reads ON answer = id WHERE setting = ?1
             ORDER BY kind = 'user' DESC, state = 'suspect' DESC, uses DESC, id",
        )?;
        let rows = statement.query_map([setting], |row| {
            let (by, state): (String, String) = (row.get(1)?, row.get(2)?);
            let (leaf, bytes): (Option<[u8; 32]>, Option<i64>) = (row.get(3)?, row.get(4)?);
            let read = leaf.zip(bytes);
            Ok(BankWork {
                id: row.get(0)?,
                by: AskedBy::parse(&by),
                state: AnswerState::parse(&state),
                read: read.map(|(leaf, bytes)| BankRead { leaf, bytes: bytes.cast_unsigned() }),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Notes what the prompt of a question has left, if the question is kept; `None`: nothing, and nothing is to be
    /// expected of reading it again.
    ///
    /// # Errors
    /// When the database can not be written.
    pub fn note_read(
        &self,
        setting: &[u8; 32],
        question: &str,
        read: Option<BankRead>,
    ) -> Result<()> {
        let connection = self.connection();
        match read {
            Some(BankRead { leaf, bytes }) => connection
                .prepare_cached(
                    "INSERT INTO answer_reads (answer, leaf, bytes)
                     SELECT id, ?3, ?4 FROM answers WHERE setting = ?1 AND question = ?2
                     ON CONFLICT (answer) DO UPDATE SET leaf = excluded.leaf, bytes = excluded.bytes",
                )?
                .execute(params![setting, question, leaf, bytes.cast_signed()])?,
            None => connection
                .prepare_cached(
                    "DELETE FROM answer_reads
                     WHERE answer IN (SELECT id FROM answers WHERE setting = ?1 AND question = ?2)",
                )?
                .execute(params![setting, question])?,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            NewAnswer,
            tests::{entry, open, words, write},
        },
        *,
    };

    #[test]
    fn what_a_question_has_left_is_known_as_long_as_the_question_is() {
        let (_home, catalog, root) = open();
        let a = write(&catalog, root, "a", "one");
        let keep = |it: &NewAnswer| catalog.keep_answer(it).expect("written").expect("kept");
        let foreseen = NewAnswer { by: AskedBy::Knowledge, ..entry("Foreseen?", None) };
        let foreseen = (keep(&foreseen), foreseen.setting);
        let asked = keep(&entry("Asked?", Some(words(&[(a, "one")]))));
        let work = || catalog.bank_work(&foreseen.1).expect("readable");
        let ids = |all: &[BankWork]| all.iter().map(|it| it.id).collect::<Vec<_>>();
        assert_eq!(ids(&work()), [asked, foreseen.0]);
        assert!(work().iter().all(|it| it.read.is_none()));
        let first = BankRead { leaf: [3; 32], bytes: 7 };
        let note = |question, read| {
            catalog.note_read(&foreseen.1, question, read).expect("written");
        };
        note("Foreseen?", Some(BankRead { leaf: [2; 32], bytes: 5 }));
        note("Foreseen?", Some(first));
        note("Nobody asked?", Some(first));
        assert_eq!(work()[1].read, Some(first));
        assert_eq!((work()[0].read, work()[1].state), (None, AnswerState::Pending));
        // Its words go with the passage, and what was read is elsewhere: whoever keeps that knows whether it is there.
        note("Asked?", Some(first));
        write(&catalog, root, "a", "two");
        assert_eq!((work()[0].read, work()[0].state), (Some(first), AnswerState::Pending));
        note("Asked?", None);
        assert_eq!(work()[0].read, None);
        catalog.forget_answers(&[foreseen.0]).expect("forgotten");
        assert_eq!(ids(&work()), [asked]);
        let left = catalog
            .connection()
            .query_row("SELECT count(*) FROM answer_reads", [], |row| row.get::<_, i64>(0));
        assert_eq!(left.expect("readable"), 0);
    }
}
