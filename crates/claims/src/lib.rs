//! Is what an answer says in the passages it cites? [`Checker`] holds every sentence against them, while the answer is
//! being written ([`Live`]) or afterwards.
//!
//! An answer is cut into statements (a sentence, an item of a list, a row of a table), each with the numbers that it
//! cites. [`ClaimJudge`] counts what speaks for a statement and comes to a [`Verdict`]. [`Evidence`] weighs the
//! sentences of passages against a question; [`Extractive`] answers with the best of them, verbatim.
//!
//! Neighbors: `riddle-rag` finds the passages and has the answer written; the reranker and the embedder that judge come
//! in as traits of `riddle-types`. Deliberately absent: files, models, the catalog, and how an answer is shown.

mod checker;
mod extract;
mod judge;
mod markup;
mod sentences;
mod statements;
mod verdict;

pub use checker::{Checker, Live, Said, Told, clean_citations, renumbered};
pub use extract::{Evidence, Extractive, telling_words};
pub use judge::{ClaimJudge, ClaimPassage, nearest};
pub use markup::without_markup;
pub use sentences::sentences;
pub use verdict::{ClaimFeatures, Support, Verdict};
