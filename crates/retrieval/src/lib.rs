//! The three search indexes and the fusion of their lists.
//!
//! [`KeywordWriter`]/[`KeywordReader`] are BM25 over tantivy, [`VectorWriter`]/[`VectorReader`] nearest
//! neighbors over int8 vectors (an exact scan while there are few, HNSW beyond), [`SparseWriter`]/[`SparseReader`]
//! learned weights of terms, in lists as words are. All are derived: they
//! follow a change log and remember the last number they have applied, atomically with their content.
//! When one can not be used, it says [`Error::Rebuild`]: delete the folder and follow the log from the
//! beginning. Readers work on the last committed state while a writer works on the next. [`fuse`] merges
//! ranked lists (reciprocal rank fusion). [`Highlighter`] finds the words of a query in a text.
//! [`Words`] are those that an index elsewhere is given to find the same.
//!
//! Not here: the texts and exact vectors themselves (they are in the catalog), embedding, reranking.

mod analyze;
mod chunk;
mod error;
mod fuse;
mod graph;
mod growing;
mod highlight;
mod keyword;
mod language;
mod mapped;
mod near;
mod part;
mod query;
mod remove;
mod sealed;
mod segments;
mod sparse;
mod store;
mod vector;
mod words;
mod writer;

pub use chunk::IndexedChunk;
pub use error::{Error, Result};
pub use fuse::{
    CosineScale, Evidence, Fused, RRF_K, RankedList, Scale, Trust, fuse, mean_of_known,
    order_by_score, shares,
};
pub use highlight::Highlighter;
pub use keyword::{KeywordHits, KeywordReader, KeywordWriter};
pub use language::{detect_language, is_in_another_language};
pub use near::{evidence_of_words, nearness};
pub use query::QueryMarks;
pub use remove::remove;
pub use sparse::{SparseReader, SparseWriter, sparse_score};
pub use vector::{GRAPH_FROM, VectorReader, VectorSource};
pub use words::{PassageWords, QueryWords, Words};
pub use writer::VectorWriter;
