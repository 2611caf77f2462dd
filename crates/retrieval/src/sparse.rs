//! The index of learned sparse vectors: an inverted index over tantivy in which the frequency of a term is its weight.
//!
//! SPLADE (Formal et al. 2021) gives a passage weights of terms, also of terms that it does not hold. Weights are bytes
//! here, so the sum of products over the terms of a query is exact, and it is computed for every passage that shares
//! one: list by list into a row of sums, which for some forty lists is a few passes over memory.

use std::{cmp::Reverse, collections::BinaryHeap, path::PathBuf};

use riddle_seal::Place;
use riddle_types::{
    ChunkId, ChunkSet, Filter, Hit, Query, Retriever, StageError, TERM_STEP, TermWeights,
};
use tantivy::{
    Index, IndexReader, IndexWriter, SegmentReader, TantivyDocument, TantivyError, Term,
    schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions},
    tokenizer::{Token, TokenStream, Tokenizer},
};

use crate::{Result, segments};

/// Raised when the fields change: an index of another version is built again.
const VERSION: u32 = 1;

/// Name of the tokenizer in the schema.
const REPEAT: &str = "repeat";

#[derive(Debug, Clone, Copy)]
struct Fields {
    id: Field,
    terms: Field,
}

fn schema() -> (Schema, Fields) {
    let mut builder = Schema::builder();
    let terms = TextFieldIndexing::default()
        .set_tokenizer(REPEAT)
        .set_index_option(IndexRecordOption::WithFreqs)
        .set_fieldnorms(false);
    let fields = Fields {
        id: builder.add_u64_field("id", segments::number()),
        terms: builder.add_text_field("terms", TextOptions::default().set_indexing_options(terms)),
    };
    (builder.build(), fields)
}

/// Version of an index of that encoder: weights of two are never in one.
fn version(encoder: &str) -> String {
    format!("{VERSION}:{encoder}")
}

/// Splits `term:weight term:weight …` into every term, as often as its weight says.
#[derive(Debug, Clone, Default)]
struct Repeat;

struct Repeated<'a> {
    rest: std::str::SplitAsciiWhitespace<'a>,
    token: Token,
    left: u8,
}

impl Tokenizer for Repeat {
    type TokenStream<'a> = Repeated<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Repeated<'a> {
        Repeated { rest: text.split_ascii_whitespace(), token: Token::default(), left: 0 }
    }
}

impl TokenStream for Repeated<'_> {
    fn advance(&mut self) -> bool {
        while self.left == 0 {
            let Some(next) = self.rest.next() else { return false };
            let Some((term, weight)) = next.split_once(':') else { continue };
            self.token.text.clear();
            self.token.text.push_str(term);
            self.left = weight.parse().unwrap_or(0);
        }
        self.left -= 1;
        self.token.position = self.token.position.wrapping_add(1);
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

fn equip(index: &Index) {
    index.tokenizers().register(REPEAT, Repeat);
}

/// Writes the index of one sparse encoder.
pub struct SparseWriter {
    dir: PathBuf,
    version: String,
    index: Index,
    writer: IndexWriter,
    fields: Fields,
}

impl std::fmt::Debug for SparseWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SparseWriter").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl SparseWriter {
    /// Opens the index in `dir`, or makes one, for weights by `encoder`.
    ///
    /// # Errors
    /// [`Error::Rebuild`](crate::Error::Rebuild) when it is of another version or of another encoder, or can not be
    /// opened, [`Error::Damaged`](crate::Error::Damaged) when it is damaged: all of it is read before it is written to.
    pub fn open(dir: impl Into<Place>, encoder: &str) -> Result<SparseWriter> {
        let (schema, fields) = schema();
        let dir = dir.into();
        let version = version(encoder);
        let index = segments::open_or_make(&dir, &schema, &version)?;
        equip(&index);
        let writer = segments::writer(&index, &dir)?;
        Ok(SparseWriter { dir: dir.path, version, index, writer, fields })
    }

    /// Last change that is committed; 0 for a new index.
    ///
    /// # Errors
    /// [`Error::Rebuild`](crate::Error::Rebuild) when the commit can not be read.
    pub fn applied_seq(&self) -> Result<u64> {
        segments::applied_seq(&self.index, &self.dir, &self.version)
    }

    /// Adds a chunk's weights, replacing what was there under its id.
    ///
    /// # Errors
    /// When tantivy can not write.
    pub fn upsert(&mut self, chunk: ChunkId, weights: &TermWeights) -> Result<()> {
        self.remove(chunk);
        let mut document = TantivyDocument::default();
        document.add_u64(self.fields.id, chunk.0);
        let words: Vec<String> =
            weights.terms().iter().map(|(term, weight)| format!("{term}:{weight}")).collect();
        document.add_text(self.fields.terms, words.join(" "));
        self.writer.add_document(document)?;
        Ok(())
    }

    /// Removes a chunk; one that is not there is fine.
    pub fn remove(&mut self, chunk: ChunkId) {
        self.writer.delete_term(Term::from_field_u64(self.fields.id, chunk.0));
    }

    /// Makes everything since the last commit visible, together with `seq`, at once.
    ///
    /// # Errors
    /// When tantivy can not write; what was committed before stays.
    pub fn commit(&mut self, seq: u64) -> Result<()> {
        let commit = || segments::commit(&mut self.writer, &self.version, seq);
        segments::guarded(&self.index, &self.dir, commit)
    }

    /// Waits for merges and lets go of the index.
    ///
    /// # Errors
    /// When a merge failed.
    pub fn close(self) -> Result<()> {
        Ok(self.writer.wait_merging_threads()?)
    }
}

/// Reads the index as it was last committed.
pub struct SparseReader {
    dir: PathBuf,
    version: String,
    index: Index,
    reader: IndexReader,
    fields: Fields,
}

impl std::fmt::Debug for SparseReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SparseReader").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl SparseReader {
    /// Opens the index in `dir`, which must hold weights by `encoder`.
    ///
    /// # Errors
    /// [`Error::Rebuild`](crate::Error::Rebuild) when there is none, or it is damaged, of another version or of another
    /// encoder.
    pub fn open(dir: impl Into<Place>, encoder: &str) -> Result<SparseReader> {
        let (schema, fields) = schema();
        let dir = dir.into();
        let version = version(encoder);
        let index = segments::open(&dir, &schema, &version)?;
        equip(&index);
        let reader = segments::reader(&index, dir.path())?;
        Ok(SparseReader { dir: dir.path, version, index, reader, fields })
    }

    /// Reads all of the index in `dir`, and holds it against its sums. Opening does not.
    ///
    /// # Errors
    /// As [`open`](SparseReader::open), and [`Error::Damaged`](crate::Error::Damaged) for bytes that are not what was
    /// written.
    pub fn verify(dir: impl Into<Place>, encoder: &str) -> Result<()> {
        let dir = dir.into();
        let index = segments::open(&dir, &schema().0, &version(encoder))?;
        segments::verify(&index, dir.path())
    }

    /// Last change that is committed.
    ///
    /// # Errors
    /// [`Error::Rebuild`](crate::Error::Rebuild) when the commit can not be read.
    pub fn applied_seq(&self) -> Result<u64> {
        segments::applied_seq(&self.index, &self.dir, &self.version)
    }

    /// Number of chunks.
    pub fn len(&self) -> u64 {
        self.reader.searcher().num_docs()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `limit` chunks with the largest sum of products, of the allowed ones; those that share no term are none.
    ///
    /// # Errors
    /// When the index can not be read; [`Error::Damaged`](crate::Error::Damaged) when that is because it is damaged.
    pub fn search(
        &self,
        query: &TermWeights,
        allowed: Option<&ChunkSet>,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        if limit == 0 || query.is_empty() {
            return Ok(Vec::new());
        }
        segments::guarded(&self.index, &self.dir, || self.best(query, allowed, limit))
    }

    fn best(
        &self,
        query: &TermWeights,
        allowed: Option<&ChunkSet>,
        limit: usize,
    ) -> Result<Vec<Hit>> {
        // The smallest of the best on top; of equal sums the older chunk is better.
        let mut best: BinaryHeap<Reverse<(u32, Reverse<u64>)>> = BinaryHeap::new();
        for segment in self.reader.searcher().segment_readers() {
            let sums = self.sums(segment, query)?;
            let ids = segment.fast_fields().u64("id")?;
            for (sum, doc) in sums.into_iter().zip(0u32..) {
                let enough = best.len() < limit || best.peek().is_some_and(|it| sum >= it.0.0);
                if sum == 0 || !enough || segment.is_deleted(doc) {
                    continue;
                }
                let Some(id) = ids.first(doc) else { continue };
                if allowed.is_some_and(|it| !it.contains(ChunkId(id))) {
                    continue;
                }
                best.push(Reverse((sum, Reverse(id))));
                if best.len() > limit {
                    best.pop();
                }
            }
        }
        let hits = best.into_sorted_vec().into_iter().zip(1..);
        Ok(hits
            .map(|(Reverse((sum, Reverse(id))), rank)| Hit {
                chunk: ChunkId(id),
                score: sparse_score(sum),
                rank,
            })
            .collect())
    }

    /// The sum of products of every chunk of a segment.
    fn sums(&self, segment: &SegmentReader, query: &TermWeights) -> Result<Vec<u32>> {
        let lists = segment.inverted_index(self.fields.terms)?;
        let mut sums = vec![0u32; segment.max_doc() as usize];
        for (term, weight) in query.terms() {
            let term = Term::from_field_text(self.fields.terms, &term.to_string());
            let list = lists
                .read_block_postings(&term, IndexRecordOption::WithFreqs)
                .map_err(TantivyError::from)?;
            let Some(mut list) = list else { continue };
            while !list.docs().is_empty() {
                for (doc, of_chunk) in list.docs().iter().zip(list.freqs()) {
                    sums[*doc as usize] += u32::from(*weight) * of_chunk;
                }
                list.advance();
            }
        }
        Ok(sums)
    }
}

/// A sum of products of steps, as the model would say it.
pub fn sparse_score(sum: u32) -> f32 {
    sum as f32 * TERM_STEP * TERM_STEP
}

impl Retriever for SparseReader {
    fn retrieve(
        &self,
        query: &Query,
        _filter: &Filter,
        limit: usize,
    ) -> Result<Vec<Hit>, StageError> {
        let Some(terms) = &query.terms else { return Ok(Vec::new()) };
        Ok(self.search(terms, query.allowed.as_deref(), limit)?)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::Error;

    fn any_terms() -> impl Strategy<Value = TermWeights> {
        prop::collection::vec((0u32..40, 1u8..=255), 0..12).prop_map(TermWeights::of)
    }

    #[test]
    fn an_index_of_another_encoder_is_none() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut writer = SparseWriter::open(dir.path(), "one/256/ab:c").expect("opens");
        writer.upsert(ChunkId(3), &TermWeights::of([(7, 9)])).expect("written");
        writer.commit(12).expect("committed");
        writer.close().expect("closed");
        let reader = SparseReader::open(dir.path(), "one/256/ab:c").expect("opens");
        assert_eq!((reader.applied_seq().expect("readable"), reader.len()), (12, 1));
        let other = SparseReader::open(dir.path(), "two").err();
        assert!(matches!(other, Some(Error::Rebuild { .. })), "{other:?}");
        let missing = SparseReader::open(&dir.path().join("nothing"), "two").err();
        assert!(matches!(missing, Some(Error::Rebuild { .. })), "{missing:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Beside a naive twin: over several segments, replaced and removed chunks, filters and ties.
        #[test]
        fn the_best_sums_are_found(
            commits in prop::collection::vec(
                prop::collection::vec((0u64..30, prop::option::weighted(0.8, any_terms())), 0..25), 1..4),
            query in any_terms(),
            allowed in prop::option::of(prop::collection::vec(0u64..30, 0..20)),
            limit in 0usize..12,
        ) {
            let dir = tempfile::tempdir().expect("a folder");
            let mut twin: BTreeMap<u64, TermWeights> = BTreeMap::new();
            for (seq, commit) in (1..).zip(&commits) {
                let mut writer = SparseWriter::open(dir.path(), "e").expect("opens");
                for (chunk, weights) in commit {
                    match weights {
                        Some(weights) => {
                            writer.upsert(ChunkId(*chunk), weights).expect("written");
                            twin.insert(*chunk, weights.clone());
                        }
                        None => {
                            writer.remove(ChunkId(*chunk));
                            twin.remove(chunk);
                        }
                    }
                }
                writer.commit(seq).expect("committed");
                writer.close().expect("closed");
            }
            let allowed = allowed.map(|it| ChunkSet::new(it.into_iter().map(ChunkId).collect()));
            let mut expected: Vec<(u32, u64)> = twin
                .iter()
                .filter(|it| allowed.as_ref().is_none_or(|set| set.contains(ChunkId(*it.0))))
                .map(|(chunk, weights)| (query.dot(weights), *chunk))
                .filter(|it| it.0 > 0)
                .collect();
            expected.sort_by_key(|&(sum, chunk)| (Reverse(sum), chunk));
            expected.truncate(limit);
            let reader = SparseReader::open(dir.path(), "e").expect("opens");
            let found = reader.search(&query, allowed.as_ref(), limit).expect("searches");
            let found: Vec<(f32, u64)> = found.iter().map(|it| (it.score, it.chunk.0)).collect();
            let expected: Vec<(f32, u64)> =
                expected.into_iter().map(|(sum, chunk)| (sparse_score(sum), chunk)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
