//! Answers that were given or prepared: kept in the transactions of what they were written from.
//!
//! That no answer outlives a passage that it read is the schema's doing (triggers on the chunks), not of whoever
//! deletes: there is no moment in between, and no way to forget it. What a newcomer could have changed is found by
//! whoever follows the change log, and marked ([`Catalog::suspect_answers`]).

use rusqlite::{OptionalExtension as _, Row, Transaction, params};

use riddle_types::ChunkId;

use crate::{Catalog, Result, catalog::now};

/// Setting: place in the change log up to which newcomers were held against the answers.
const SEQ_SETTING: &str = "answers_seq";

/// Bytes that a row takes beside its texts and its vector.
const ROW_BYTES: u64 = 512;

/// Who has asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedBy {
    /// A person.
    User,
    /// Nobody yet: the question was made from passages.
    Knowledge,
    /// Nobody yet: the question was made from earlier ones.
    History,
}

impl AskedBy {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            AskedBy::User => "user",
            AskedBy::Knowledge => "knowledge",
            AskedBy::History => "history",
        }
    }

    fn parse(name: &str) -> AskedBy {
        match name {
            "knowledge" => AskedBy::Knowledge,
            "history" => AskedBy::History,
            _ => AskedBy::User,
        }
    }
}

/// Whether an answer may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerState {
    /// Nothing that is known speaks against it.
    Fresh,
    /// Something changed nearby since.
    Suspect,
    /// There is a question, and no answer.
    Pending,
}

impl AnswerState {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            AnswerState::Fresh => "fresh",
            AnswerState::Suspect => "suspect",
            AnswerState::Pending => "pending",
        }
    }

    fn parse(name: &str) -> AnswerState {
        match name {
            "fresh" => AnswerState::Fresh,
            "suspect" => AnswerState::Suspect,
            _ => AnswerState::Pending,
        }
    }
}

/// A passage that an answer was written from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadPassage {
    /// Its number in the prompt.
    pub place: u32,
    /// The chunk.
    pub chunk: ChunkId,
    /// BLAKE3 of its text.
    pub text_hash: [u8; 32],
    /// Whether the answer cites it.
    pub cited: bool,
}

/// A question with its answer, to be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAnswer {
    /// As it was understood.
    pub question: String,
    /// As it was typed.
    pub typed: String,
    /// Who has asked.
    pub by: AskedBy,
    /// Identity of all beside the question that decides an answer.
    pub setting: [u8; 32],
    /// Embedder and vector of the question.
    pub vector: Option<(String, Vec<f32>)>,
    /// What was written; `None`: nothing yet.
    pub answer: Option<NewWords>,
    /// Chunks that the question was made from.
    pub made_from: Vec<ChunkId>,
    /// Answers whose questions it was made from.
    pub parents: Vec<i64>,
    /// Place in the change log of the indexes that were searched.
    pub seq: u64,
}

/// What was written.
#[derive(Debug, Clone, PartialEq)]
pub struct NewWords {
    /// Identity of everything that the model was asked.
    pub prompt: [u8; 32],
    /// What the model wrote.
    pub text: String,
    /// What was shown of it.
    pub shown: String,
    /// The model has said that the passages hold no answer.
    pub negative: bool,
    /// Least similarity of a passage that was read.
    pub floor: Option<f32>,
    /// JSON.
    pub detail: String,
    /// What was read.
    pub passages: Vec<ReadPassage>,
}

/// A question of the bank, as it is compared with others.
#[derive(Debug, Clone, PartialEq)]
pub struct BankQuestion {
    /// Identity.
    pub id: i64,
    /// As it was understood.
    pub question: String,
    /// Its vector.
    pub vector: Vec<f32>,
    /// Least similarity of a passage that was read.
    pub floor: Option<f32>,
    /// Whether its answer may be given.
    pub state: AnswerState,
}

/// A question of the bank with all that is kept of it.
#[derive(Debug, Clone, PartialEq)]
pub struct BankAnswer {
    /// Identity.
    pub id: i64,
    /// As it was understood.
    pub question: String,
    /// As it was typed.
    pub typed: String,
    /// Who has asked.
    pub by: AskedBy,
    /// Identity of all beside the question.
    pub setting: [u8; 32],
    /// Whether it may be given.
    pub state: AnswerState,
    /// Identity of everything that the model was asked.
    pub prompt: Option<[u8; 32]>,
    /// What the model wrote.
    pub text: Option<String>,
    /// What was shown of it.
    pub shown: Option<String>,
    /// The model has said that the passages hold no answer.
    pub negative: bool,
    /// JSON.
    pub detail: String,
    /// When it was written, in seconds since 1970.
    pub made_at: i64,
    /// When it was last held against the files.
    pub checked_at: i64,
    /// How often it was given.
    pub uses: u64,
    /// What was read.
    pub passages: Vec<ReadPassage>,
}

/// A sentence about a passage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abstract {
    /// The passage.
    pub chunk: ChunkId,
    /// The sentence.
    pub text: String,
}

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

const COLUMNS: &str =
    "id, question, typed, kind, setting, state, prompt, text, shown, negative, detail, made_at,
    checked_at, uses";

/// Bytes of a row, about.
const BYTES: &str = "512 + length(question) + length(typed) + coalesce(length(vector), 0) + coalesce(length(text), 0)
    + coalesce(length(shown), 0) + length(detail)";

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

fn to_vector(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|it| f32::from_le_bytes([it[0], it[1], it[2], it[3]])).collect()
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

fn seq_of(transaction: &Transaction<'_>) -> Result<Option<u64>> {
    let text: Option<String> = transaction
        .query_row("SELECT value FROM settings WHERE key = ?1", [SEQ_SETTING], |row| row.get(0))
        .optional()?;
    Ok(text.and_then(|it| it.parse().ok()))
}

fn set_seq(transaction: &Transaction<'_>, seq: u64) -> Result<()> {
    transaction.execute(
        "INSERT INTO settings (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
        params![SEQ_SETTING, seq.to_string()],
    )?;
    Ok(())
}

/// What another entry for the same question leaves behind.
struct Before {
    id: i64,
    by: AskedBy,
    uses: i64,
}

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

    /// What is to be answered when there is time: questions of people first, then the oldest.
    ///
    /// # Errors
    /// When the database can not be read.
    pub fn unanswered(&self, setting: &[u8; 32], limit: usize) -> Result<Vec<BankAnswer>> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM answers WHERE setting = ?1 AND state <> 'fresh'
             ORDER BY kind = 'user' DESC, state = 'suspect' DESC, uses DESC, id LIMIT ?2"
        ))?;
        let rows = statement.query_map(params![setting, limit as i64], answer)?;
        Ok(rows.collect::<Result<_, _>>()?)
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

    /// Writes the log of the database into it and empties it: what was deleted is in no file any more. A reader that is
    /// at work keeps that from being done at once; the next one does it.
    fn wipe_log(&self) -> Result<()> {
        let connection = self.connection();
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use riddle_types::{Chunk, FileKind, FileState, Location};

    use super::*;
    use crate::{FileOutcome, NewChunk, RootId};

    const SETTING: [u8; 32] = [1; 32];

    fn open() -> (tempfile::TempDir, Catalog, RootId) {
        let home = tempfile::tempdir().expect("a folder");
        let catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("opens");
        let root = catalog.add_virtual_root("notes").expect("a root").id;
        (home, catalog, root)
    }

    fn write(catalog: &Catalog, root: RootId, name: &str, text: &str) -> ChunkId {
        let file = catalog.virtual_file(root, name).expect("a file");
        let chunks = if text.is_empty() {
            Vec::new()
        } else {
            let chunk = Chunk {
                ordinal: 0,
                text: text.to_owned(),
                heading: String::new(),
                location: Location::Whole,
                tokens: 1,
                turn: riddle_types::VectorTurn::default(),
            };
            let text_hash = *blake3::hash(text.as_bytes()).as_bytes();
            vec![NewChunk { chunk, text_hash, vector: None }]
        };
        let outcome = FileOutcome {
            file,
            content_hash: None,
            kind: FileKind::Text,
            state: FileState::Indexed,
            reason: String::new(),
            title: None,
            language: None,
            warnings: Vec::new(),
            size: 1,
            modified_ns: 0,
            pictures: Vec::new(),
            volume_id: None,
            chunks,
        };
        catalog.commit_files(&[outcome], None).expect("written");
        catalog.all_chunks().expect("readable").last().copied().unwrap_or(ChunkId(0))
    }

    fn words(passages: &[(ChunkId, &str)]) -> NewWords {
        let passage = |((chunk, text), place): (&(ChunkId, &str), u32)| ReadPassage {
            place,
            chunk: *chunk,
            text_hash: *blake3::hash(text.as_bytes()).as_bytes(),
            cited: true,
        };
        NewWords {
            prompt: [7; 32],
            text: "It is the secret answer. [1]".to_owned(),
            shown: "It is the secret answer. [1]".to_owned(),
            negative: false,
            floor: None,
            detail: "{}".to_owned(),
            passages: passages.iter().zip(1..).map(passage).collect(),
        }
    }

    fn entry(question: &str, answer: Option<NewWords>) -> NewAnswer {
        NewAnswer {
            question: question.to_owned(),
            typed: question.to_owned(),
            by: AskedBy::User,
            setting: SETTING,
            vector: Some(("e".to_owned(), vec![1.0, 0.0])),
            answer,
            made_from: Vec::new(),
            parents: Vec::new(),
            seq: 0,
        }
    }

    fn state(catalog: &Catalog, id: i64) -> Option<(AnswerState, bool)> {
        let found = catalog.bank_answer(id).expect("readable")?;
        Some((found.state, found.text.is_some() || found.shown.is_some()))
    }

    #[test]
    fn an_answer_loses_its_words_with_any_passage_that_it_read_however_that_goes() {
        type Take = fn(&Catalog, RootId);
        let ways: [(&str, Take); 3] = [
            ("rewritten", |catalog, root| {
                write(catalog, root, "b", "other words");
            }),
            ("emptied", |catalog, root| {
                write(catalog, root, "b", "");
            }),
            // By a cascade of the schema, of which no statement speaks.
            ("its root removed", |catalog, root| catalog.remove_root(root).expect("removed")),
        ];
        for (way, take) in ways {
            let (_home, catalog, root) = open();
            let (a, b) = (write(&catalog, root, "a", "one"), write(&catalog, root, "b", "two"));
            let id = catalog
                .keep_answer(&entry("What?", Some(words(&[(a, "one"), (b, "two")]))))
                .expect("written")
                .expect("kept");
            assert_eq!(state(&catalog, id), Some((AnswerState::Fresh, true)));
            assert!(catalog.answer_to_prompt(&[7; 32]).expect("readable").is_some());
            take(&catalog, root);
            assert_eq!(state(&catalog, id), Some((AnswerState::Pending, false)), "{way}");
            assert!(catalog.answer_to_prompt(&[7; 32]).expect("readable").is_none(), "{way}");
        }
    }

    #[test]
    fn what_was_foreseen_from_a_passage_or_a_question_goes_with_it() {
        let (_home, catalog, root) = open();
        let a = write(&catalog, root, "a", "one");
        catalog.keep_abstract(&Abstract { chunk: a, text: "About one.".to_owned() }).expect("kept");
        let from_passage =
            NewAnswer { by: AskedBy::Knowledge, made_from: vec![a], ..entry("From it?", None) };
        let foreseen = catalog.keep_answer(&from_passage).expect("written").expect("kept");
        let asked = catalog.keep_answer(&entry("Asked?", None)).expect("written").expect("kept");
        let from_question =
            NewAnswer { by: AskedBy::History, parents: vec![asked], ..entry("And then?", None) };
        let next = catalog.keep_answer(&from_question).expect("written").expect("kept");
        catalog.forget_question("Asked?").expect("forgotten");
        assert_eq!((state(&catalog, asked), state(&catalog, next)), (None, None));
        assert!(state(&catalog, foreseen).is_some());
        write(&catalog, root, "a", "");
        assert_eq!(state(&catalog, foreseen), None);
        assert_eq!(catalog.bank_counts().expect("readable").abstracts, 0);
    }

    #[test]
    fn nothing_is_kept_from_a_passage_that_is_gone_meanwhile() {
        let (_home, catalog, root) = open();
        let a = write(&catalog, root, "a", "one");
        write(&catalog, root, "a", "two");
        let kept = catalog.keep_answer(&entry("What?", Some(words(&[(a, "one")]))));
        assert_eq!(kept.expect("written"), None);
    }

    #[test]
    fn that_nothing_answers_holds_until_something_is_new() {
        let (_home, catalog, root) = open();
        let a = write(&catalog, root, "a", "one");
        let none = NewWords { negative: true, ..words(&[(a, "one")]) };
        let id = catalog.keep_answer(&entry("What?", Some(none))).expect("written").expect("kept");
        write(&catalog, root, "b", "two");
        assert_eq!(state(&catalog, id), None);
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
