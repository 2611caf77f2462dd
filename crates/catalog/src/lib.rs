//! SQLite: the ground truth about roots, files, chunks, vectors and jobs.
//!
//! [`Catalog`] is one database file. Whatever the search indexes hold is derived from it: every change
//! of a chunk is written to a log ([`Change`]) in the same transaction, and an index remembers how far it
//! has followed. Losing an index costs time; losing the catalog costs a new reading of the files, never
//! the files. One transaction per batch of files: a crash leaves each file as it was or as it is.
//!
//! [`convert`] encrypts it, and takes that back.
//!
//! Not here: scanning folders, parsing, embedding, searching. [`HomeLock`] keeps a second writer out.

mod answers;
mod browse;
mod catalog;
mod changes;
mod commit;
mod error;
mod files;
mod ledger;
mod lock;
mod moved;
mod paths;
mod pictures;
mod places;
mod roots;
mod scan;
mod seal;
mod tags;
mod terms;
mod vectors;
mod withheld;

pub use answers::{
    Abstract, AnswerState, AskedBy, BankAnswer, BankCounts, BankQuestion, BankRead, BankWork,
    NewAnswer, NewWords, ReadPassage,
};
pub use browse::{FileOrder, FilePage};
pub use catalog::{Catalog, HistoryEntry};
pub use changes::{Change, ChunkRecord, Derived};
pub use error::{Error, Result};
pub use files::{FileId, FileOutcome, Job, MAX_ATTEMPTS, NewChunk};
pub use ledger::FileRecord;
pub use lock::HomeLock;
pub use moved::KnownFile;
pub use pictures::{SaidPictures, WaitingPicture};
pub use places::FilePlace;
pub use roots::{Root, RootId};
pub use scan::{Differences, ScanDelta};
pub use seal::{Form, convert, form};
pub use vectors::ActiveEmbedder;
pub use withheld::Embeds;
