// Long: an index, what it is asked, and both ways to ask it.
//! The keyword index: BM25 with positions over tantivy.

mod filters;

use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use riddle_seal::Place;
use riddle_types::{ChunkId, ChunkSet, Filter, Hit, Query as Asked, Retriever, StageError};
use tantivy::{
    Index, IndexReader, IndexWriter, TantivyDocument, Term,
    collector::{DocSetCollector, FilterCollector, TopDocs},
    directory::RamDirectory,
    query::{
        BooleanQuery, BoostQuery, DisjunctionMaxQuery, Occur, PhraseQuery, Query, RegexQuery,
        TermQuery, TermSetQuery,
    },
    schema::{Field, IndexRecordOption, STRING, Schema, TextFieldIndexing, TextOptions},
    tokenizer::{Language, PreTokenizedString, Token},
};

use crate::{
    Result,
    analyze::{Analyzer, Purpose, Term as Analyzed},
    chunk::{IndexedChunk, MOST_LANGUAGES, analyzed, split_path},
    language::{ISO_CODES, UNSTEMMED, code_of, stemmer_of},
    query,
    segments::{self, number},
};

/// Raised when fields or analysis change: an index of another version is built again.
const VERSION: &str = "2";

/// The file's name counts beside its text, less than a word of it: a name is a hint.
const NAME_BOOST: f32 = 0.5;

/// Memory for an index of one chunk: the least that tantivy takes.
const ALONE_BYTES: usize = 15_000_000;

/// A phrase that occurs as typed says more than its words.
const PHRASE_BOOST: f32 = 2.0;

#[derive(Debug, Clone, Copy)]
struct Fields {
    id: Field,
    /// Folded words, for phrases.
    exact: Field,
    /// Stems, for ranking.
    stem: Field,
    /// Words of the file's name.
    name: Field,
    /// Language that the stems are of.
    language: Field,
    kind: Field,
    modified: Field,
    /// Every folder above the file.
    folder: Field,
}

fn schema() -> (Schema, Fields) {
    let mut builder = Schema::builder();
    let text = |record| {
        TextOptions::default()
            .set_indexing_options(TextFieldIndexing::default().set_index_option(record))
    };
    let fields = Fields {
        id: builder.add_u64_field("id", number()),
        exact: builder.add_text_field("exact", text(IndexRecordOption::WithFreqsAndPositions)),
        stem: builder.add_text_field("stem", text(IndexRecordOption::WithFreqs)),
        name: builder.add_text_field("name", text(IndexRecordOption::WithFreqs)),
        language: builder.add_text_field("language", STRING),
        kind: builder.add_text_field("kind", STRING),
        modified: builder.add_i64_field("modified", number()),
        folder: builder.add_text_field("folder", STRING),
    };
    (builder.build(), fields)
}

/// Writes the keyword index.
pub struct KeywordWriter {
    dir: PathBuf,
    index: Index,
    writer: IndexWriter,
    fields: Fields,
    analyzer: Analyzer,
}

impl std::fmt::Debug for KeywordWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeywordWriter").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl KeywordWriter {
    /// Opens the index in `dir`, or makes one.
    ///
    /// # Errors
    /// [`Error::Rebuild`] when it is of another version or can not be opened, [`Error::Damaged`] when it is damaged:
    /// all of it is read before it is written to.
    pub fn open(dir: impl Into<Place>) -> Result<KeywordWriter> {
        let (schema, fields) = schema();
        let dir = dir.into();
        let index = segments::open_or_make(&dir, &schema, VERSION)?;
        let writer = segments::writer(&index, &dir)?;
        Ok(KeywordWriter { dir: dir.path, index, writer, fields, analyzer: Analyzer::default() })
    }

    /// Last change that is committed; 0 for a new index.
    ///
    /// # Errors
    /// [`Error::Rebuild`] when the commit can not be read.
    pub fn applied_seq(&self) -> Result<u64> {
        segments::applied_seq(&self.index, &self.dir, VERSION)
    }

    /// Adds a chunk, replacing what was there under its id.
    ///
    /// # Errors
    /// When tantivy can not write.
    pub fn upsert(&mut self, chunk: &IndexedChunk<'_>) -> Result<()> {
        self.remove(chunk.id);
        self.writer.add_document(self.fields.document(&mut self.analyzer, chunk))?;
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
        let commit = || segments::commit(&mut self.writer, VERSION, seq);
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

impl Fields {
    /// A chunk as it is indexed.
    fn document(self, analyzer: &mut Analyzer, chunk: &IndexedChunk<'_>) -> TantivyDocument {
        let mut document = TantivyDocument::default();
        document.add_u64(self.id, chunk.id.0);
        let (terms, name, code) = analyzed(analyzer, chunk);
        document.add_text(self.language, code);
        document.add_pre_tokenized_text(self.exact, tokens(&terms, |it| Some(&it.exact)));
        document.add_pre_tokenized_text(self.stem, tokens(&terms, |it| it.stems.first()));
        document.add_pre_tokenized_text(self.name, tokens(&name, |it| it.stems.first()));
        for folder in split_path(chunk.path).0 {
            document.add_text(self.folder, folder);
        }
        document.add_text(self.kind, chunk.kind.as_str());
        document.add_i64(self.modified, chunk.modified);
        document
    }
}

fn tokens(terms: &[Analyzed], text: impl Fn(&Analyzed) -> Option<&String>) -> PreTokenizedString {
    let token = |it: &Analyzed| {
        let text = text(it)?.clone();
        Some(Token { position: it.position, text, position_length: 1, ..Token::default() })
    };
    let tokens = terms.iter().filter_map(token).collect();
    PreTokenizedString { text: String::new(), tokens }
}

/// What a keyword search has found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeywordHits {
    /// The best first.
    pub hits: Vec<Hit>,
    /// Whether what the query quotes stands nowhere together, so that its words were looked for.
    pub unquoted: bool,
}

/// Reads the keyword index as it was last committed.
pub struct KeywordReader {
    dir: PathBuf,
    index: Index,
    reader: IndexReader,
    fields: Fields,
    analyzer: Mutex<Analyzer>,
}

impl std::fmt::Debug for KeywordReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeywordReader").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl KeywordReader {
    /// Opens the index in `dir`.
    ///
    /// # Errors
    /// [`Error::Rebuild`] when there is none, or it is damaged or of another version.
    pub fn open(dir: impl Into<Place>) -> Result<KeywordReader> {
        let (schema, fields) = schema();
        let dir = dir.into();
        let index = segments::open(&dir, &schema, VERSION)?;
        let reader = segments::reader(&index, dir.path())?;
        Ok(KeywordReader { dir: dir.path, index, reader, fields, analyzer: Mutex::default() })
    }

    /// Reads all of the index in `dir`, and holds it against its sums. Opening does not.
    ///
    /// # Errors
    /// As [`open`](KeywordReader::open), and [`Error::Damaged`] for bytes that are not what was written.
    pub fn verify(dir: impl Into<Place>) -> Result<()> {
        let dir = dir.into();
        segments::verify(&segments::open(&dir, &schema().0, VERSION)?, dir.path())
    }

    /// Last change that is committed.
    ///
    /// # Errors
    /// [`Error::Rebuild`] when the commit can not be read.
    pub fn applied_seq(&self) -> Result<u64> {
        segments::applied_seq(&self.index, &self.dir, VERSION)
    }

    /// Looks at the latest commit from now on.
    ///
    /// # Errors
    /// When it can not be read.
    pub fn reload(&self) -> Result<()> {
        segments::guarded(&self.index, &self.dir, || Ok(self.reader.reload()?))
    }

    /// Number of chunks.
    pub fn len(&self) -> u64 {
        self.reader.searcher().num_docs()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// [`Retriever::retrieve`] with this crate's error type.
    ///
    /// # Errors
    /// When the index can not be read; [`Error::Damaged`] when that is because it is damaged.
    pub fn search(&self, asked: &Asked, filter: &Filter, limit: usize) -> Result<Vec<Hit>> {
        Ok(self.search_within(asked, filter, None, limit)?.hits)
    }

    /// [`search`](Self::search) among these chunks alone; `None`: all. For conditions that this index knows nothing of;
    /// every match is looked at, where without them the worse ones are passed over.
    ///
    /// # Errors
    /// When the index can not be read.
    pub fn search_within(
        &self,
        asked: &Asked,
        filter: &Filter,
        within: Option<&Arc<ChunkSet>>,
        limit: usize,
    ) -> Result<KeywordHits> {
        let found = || self.found(asked, filter, within, limit);
        segments::guarded(&self.index, &self.dir, found)
    }

    fn found(
        &self,
        asked: &Asked,
        filter: &Filter,
        within: Option<&Arc<ChunkSet>>,
        limit: usize,
    ) -> Result<KeywordHits> {
        let parsed = query::parse(&asked.text);
        let hits = self.found_as_written(asked, &parsed, (filter, within), limit)?;
        // Where what is quoted stands nowhere, passages with its words are better than none.
        match parsed.unquoted().filter(|_| hits.is_empty()) {
            Some(plain) => {
                let hits = self.found_as_written(asked, &plain, (filter, within), limit)?;
                Ok(KeywordHits { hits, unquoted: true })
            }
            None => Ok(KeywordHits { hits, unquoted: false }),
        }
    }

    fn found_as_written(
        &self,
        asked: &Asked,
        parsed: &query::Parsed,
        (filter, within): (&Filter, Option<&Arc<ChunkSet>>),
        limit: usize,
    ) -> Result<Vec<Hit>> {
        let Some(query) = self.query(asked, parsed, filter)?.filter(|_| limit > 0) else {
            return Ok(Vec::new());
        };
        let searcher = self.reader.searcher();
        let best = TopDocs::with_limit(limit).order_by_score();
        let found = match within {
            Some(within) => {
                let within = Arc::clone(within);
                let passes = move |id: u64| within.contains(ChunkId(id));
                searcher.search(&query, &FilterCollector::new("id".to_owned(), passes, best))?
            }
            None => searcher.search(&query, &best)?,
        };
        let mut hits = Vec::with_capacity(found.len());
        for ((score, address), rank) in found.into_iter().zip(1..) {
            let ids = searcher.segment_reader(address.segment_ord).fast_fields().u64("id")?;
            if let Some(id) = ids.first(address.doc_id) {
                hits.push(Hit { chunk: ChunkId(id), score, rank });
            }
        }
        Ok(hits)
    }

    /// What a chunk that is not in the index would score for a query; `None`: it would not be found. How rare words
    /// are, and how long passages, is what the index says.
    ///
    /// # Errors
    /// When the index can not be read.
    pub fn score_of(&self, asked: &Asked, chunk: &IndexedChunk<'_>) -> Result<Option<f32>> {
        segments::guarded(&self.index, &self.dir, || self.scored(asked, chunk))
    }

    fn scored(&self, asked: &Asked, chunk: &IndexedChunk<'_>) -> Result<Option<f32>> {
        let parsed = query::parse(&asked.text);
        let score = self.scored_as_written(asked, &parsed, chunk)?;
        let all = Filter::default();
        // Where what is quoted stands in another passage, its words are not asked for.
        if score.is_some() || !self.found_as_written(asked, &parsed, (&all, None), 1)?.is_empty() {
            return Ok(score);
        }
        let plain = parsed.unquoted();
        plain.map_or(Ok(None), |plain| self.scored_as_written(asked, &plain, chunk))
    }

    fn scored_as_written(
        &self,
        asked: &Asked,
        parsed: &query::Parsed,
        chunk: &IndexedChunk<'_>,
    ) -> Result<Option<f32>> {
        let Some(query) = self.query(asked, parsed, &Filter::default())? else { return Ok(None) };
        let document = {
            let mut analyzer = self.analyzer.lock().unwrap_or_else(PoisonError::into_inner);
            self.fields.document(&mut analyzer, chunk)
        };
        let builder = Index::builder().schema(self.index.schema());
        let mut writer =
            builder.single_segment_index_writer(RamDirectory::create(), ALONE_BYTES)?;
        writer.add_document(document)?;
        let alone = writer.finalize()?.reader()?.searcher();
        let best = TopDocs::with_limit(1).order_by_score();
        let all = self.reader.searcher();
        let found = alone.search_with_statistics_provider(&query, &best, &all)?;
        Ok(found.first().map(|it| it.0))
    }

    /// Those of `chunks` that hold something which the query excludes: who finds passages by other means asks this, so
    /// that `-winter` holds for them, too.
    ///
    /// # Errors
    /// When the index can not be read.
    pub fn excluded_of(&self, query: &str, chunks: &[ChunkId]) -> Result<HashSet<ChunkId>> {
        let parsed = query::parse(query);
        if parsed.excluded.is_empty() || chunks.is_empty() {
            return Ok(HashSet::new());
        }
        segments::guarded(&self.index, &self.dir, || self.holding(&parsed, chunks))
    }

    /// Those of `chunks` that hold what is excluded.
    fn holding(&self, parsed: &query::Parsed, chunks: &[ChunkId]) -> Result<HashSet<ChunkId>> {
        let mut analyzer = self.analyzer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut analyze = |text: &str| analyzer.terms(text, &[], Purpose::Query);
        let phrases = self.excluded(parsed, &mut analyze)?;
        let ids = chunks.iter().map(|it| Term::from_field_u64(self.fields.id, it.0));
        let both: Vec<(Occur, Box<dyn Query>)> = vec![
            (Occur::Must, Box::new(BooleanQuery::union(phrases))),
            (Occur::Must, Box::new(TermSetQuery::new(ids))),
        ];
        let searcher = self.reader.searcher();
        let mut held = HashSet::new();
        for address in searcher.search(&BooleanQuery::new(both), &DocSetCollector)? {
            let ids = searcher.segment_reader(address.segment_ord).fast_fields().u64("id")?;
            held.extend(ids.first(address.doc_id).map(ChunkId));
        }
        Ok(held)
    }

    /// What a query excludes, as queries.
    fn excluded(
        &self,
        parsed: &query::Parsed,
        analyze: &mut dyn FnMut(&str) -> Vec<Analyzed>,
    ) -> Result<Vec<Box<dyn Query>>> {
        let phrases = parsed.excluded.iter().map(|it| self.phrase(&analyze(it)));
        phrases.filter_map(Result::transpose).collect()
    }

    /// The languages to stem a query in: its own first, then those of the library, the commonest first. A
    /// few words do not tell their language, and `tekne` must find `tekneler` in a Turkish note.
    fn languages(&self, asked: &Asked) -> Result<Vec<Option<Language>>> {
        let searcher = self.reader.searcher();
        let mut common = Vec::new();
        for code in ISO_CODES.into_iter().chain([UNSTEMMED]) {
            let count = searcher.doc_freq(&Term::from_field_text(self.fields.language, code))?;
            if count > 0 {
                common.push((code, count));
            }
        }
        common.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let own = code_of(&asked.text, asked.language.as_deref());
        let codes = own.into_iter().chain(common.into_iter().map(|it| it.0));
        let mut languages = Vec::new();
        for language in codes.map(stemmer_of) {
            if !languages.contains(&language) {
                languages.push(language);
            }
        }
        languages.truncate(MOST_LANGUAGES);
        Ok(languages)
    }

    /// The tantivy query; `None` when nothing in it can match.
    fn query(
        &self,
        asked: &Asked,
        parsed: &query::Parsed,
        filter: &Filter,
    ) -> Result<Option<BooleanQuery>> {
        let languages = self.languages(asked)?;
        let mut analyzer = self.analyzer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut analyze = |text: &str| analyzer.terms(text, &languages, Purpose::Query);
        let words = analyze(&parsed.words);
        // Stop words count only when there is nothing else.
        let all = words.iter().all(|it| it.stop) && parsed.phrases.is_empty();
        let mut seen: Vec<&[String]> = Vec::new();
        let mut should: Vec<(Occur, Box<dyn Query>)> = Vec::new();
        for word in words.iter().filter(|it| all || !it.stop) {
            if seen.contains(&word.stems.as_slice()) {
                continue;
            }
            seen.push(&word.stems);
            should.push((Occur::Should, self.word(word, self.fields.stem)?));
            let name = BoostQuery::new(self.word(word, self.fields.name)?, NAME_BOOST);
            should.push((Occur::Should, Box::new(name)));
        }
        for glued in words.chunk_by(|_, next| next.glued || !next.whole) {
            if glued.iter().filter(|it| it.whole).count() > 1 {
                should.extend(self.phrase(glued)?.map(|it| (Occur::Should, it)));
            }
        }
        let mut clauses: Vec<(Occur, Box<dyn Query>)> = Vec::new();
        for phrase in &parsed.phrases {
            if let Some(phrase) = self.phrase(&analyze(phrase))? {
                clauses.push((Occur::Must, Box::new(BoostQuery::new(phrase, PHRASE_BOOST))));
            }
        }
        if should.is_empty() && clauses.is_empty() {
            return Ok(None);
        }
        // Beside a phrase that must occur, words only order.
        let occur = if clauses.is_empty() { Occur::Must } else { Occur::Should };
        if !should.is_empty() {
            clauses.push((occur, Box::new(BooleanQuery::new(should))));
        }
        for phrase in self.excluded(parsed, &mut analyze)? {
            clauses.push((Occur::MustNot, excluding(phrase)));
        }
        clauses.extend(self.filters(filter));
        Ok(Some(BooleanQuery::new(clauses)))
    }

    /// A word in any of its stems; it counts once, however many of them a chunk has.
    fn word(&self, word: &Analyzed, field: Field) -> Result<Box<dyn Query>> {
        if word.begins_pair {
            return self.pair_beginning(word, field);
        }
        let mut stems: Vec<Box<dyn Query>> =
            word.stems.iter().map(|stem| self.term(field, stem)).collect();
        Ok(match (stems.len(), stems.pop()) {
            (1, Some(only)) => only,
            (_, last) => {
                stems.extend(last);
                Box::new(DisjunctionMaxQuery::new(stems))
            }
        })
    }

    /// Pairs are indexed, so a lone character is looked for as the beginning of one.
    fn pair_beginning(&self, word: &Analyzed, field: Field) -> Result<Box<dyn Query>> {
        // Letters and marks only: nothing that a pattern would read as a sign.
        Ok(Box::new(RegexQuery::from_pattern(&format!("{}.*", word.exact), field)?))
    }

    fn term(&self, field: Field, text: &str) -> Box<dyn Query> {
        Box::new(TermQuery::new(Term::from_field_text(field, text), IndexRecordOption::WithFreqs))
    }

    /// Words in a row; parts of identifiers, which share a position, are left to the whole.
    fn phrase(&self, terms: &[Analyzed]) -> Result<Option<Box<dyn Query>>> {
        let whole: Vec<&Analyzed> = terms.iter().filter(|it| it.whole).collect();
        Ok(match whole.as_slice() {
            [] => None,
            [single] if single.begins_pair => Some(self.pair_beginning(single, self.fields.exact)?),
            [single] => Some(self.term(self.fields.exact, &single.exact)),
            several => {
                let place = |it: &&Analyzed| {
                    (it.position, Term::from_field_text(self.fields.exact, &it.exact))
                };
                let places = several.iter().map(place).collect();
                Some(Box::new(PhraseQuery::new_with_offset(places)))
            }
        })
    }
}

/// A phrase as the union of itself and itself, for use as an exclusion. tantivy 0.27 asks an excluded query about
/// passages that it has gone past already; a phrase's scorer must not be asked that, a union's may.
fn excluding(phrase: Box<dyn Query>) -> Box<dyn Query> {
    Box::new(BooleanQuery::union(vec![phrase.box_clone(), phrase]))
}

impl Retriever for KeywordReader {
    fn retrieve(
        &self,
        query: &Asked,
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<Hit>, StageError> {
        Ok(self.search(query, filter, limit)?)
    }
}
