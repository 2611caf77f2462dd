//! Answers that were given or prepared: kept in the transactions of what they were written from.
//!
//! That no answer outlives a passage that it read is the schema's doing (triggers on the chunks), not of whoever
//! deletes: there is no moment in between, and no way to forget it. What a newcomer could have changed is found by
//! whoever follows the change log, and marked ([`crate::Catalog::suspect_answers`]).

mod abstracts;
mod counts;
mod forget;
mod keep;
mod read;
mod reads;
mod trust;

use riddle_types::ChunkId;

pub use self::{
    abstracts::Abstract,
    counts::BankCounts,
    reads::{BankRead, BankWork},
};

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

#[cfg(test)]
mod tests {
    use riddle_types::{Chunk, FileKind, FileState, Location};

    use super::*;
    use crate::{Catalog, FileOutcome, NewChunk, RootId};

    const SETTING: [u8; 32] = [1; 32];

    pub(super) fn open() -> (tempfile::TempDir, Catalog, RootId) {
        let home = tempfile::tempdir().expect("a folder");
        let catalog = Catalog::open(&home.path().join("catalog.sqlite")).expect("opens");
        let root = catalog.add_virtual_root("notes").expect("a root").id;
        (home, catalog, root)
    }

    pub(super) fn write(catalog: &Catalog, root: RootId, name: &str, text: &str) -> ChunkId {
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
            tags: Vec::new(),
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

    pub(super) fn words(passages: &[(ChunkId, &str)]) -> NewWords {
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

    pub(super) fn entry(question: &str, answer: Option<NewWords>) -> NewAnswer {
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

    pub(super) fn state(catalog: &Catalog, id: i64) -> Option<(AnswerState, bool)> {
        let found = catalog.bank_answer(id).expect("readable")?;
        Some((found.state, found.text.is_some() || found.shown.is_some()))
    }

    #[test]
    fn an_answer_loses_its_words_with_any_passage_that_it_read_however_that_goes() {
        type Take = fn(&Catalog, RootId);
        let ways: [(&str, Take); 4] = [
            ("rewritten", |catalog, root| {
                write(catalog, root, "b", "other words");
            }),
            ("emptied", |catalog, root| {
                write(catalog, root, "b", "");
            }),
            // By a cascade of the schema, of which no statement speaks.
            ("its root removed", |catalog, root| catalog.remove_root(root).expect("removed")),
            ("its root being removed", |catalog, root| {
                catalog.begin_removing(root).expect("begun");
            }),
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
    fn that_nothing_answers_holds_until_something_is_new() {
        let (_home, catalog, root) = open();
        let a = write(&catalog, root, "a", "one");
        let none = NewWords { negative: true, ..words(&[(a, "one")]) };
        let id = catalog.keep_answer(&entry("What?", Some(none))).expect("written").expect("kept");
        write(&catalog, root, "b", "two");
        assert_eq!(state(&catalog, id), None);
    }
}
