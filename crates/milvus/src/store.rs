//! One library on one server: made, searched leg by leg, read by identity.
//!
//! Searches are read at the consistency *bounded*: what was written in the last seconds may be missing. What a writer
//! reads is *strong*: all that was written before.

use std::collections::HashMap;

use prost::Message as _;
use riddle_types::TermWeights;

use crate::{
    Address, Error, Options, Passage, Result, Secret, Within,
    about::{About, LIBRARY, SCHEMA, Share, writer_key, writer_row},
    fields,
    filter::{and, one_of},
    proto::{
        BoolResponse, CollectionRequest, DSL_EXPRESSION, DeleteRequest, FieldData, MutationResult,
        PlaceholderGroup, PlaceholderValue, QueryRequest, QueryResults, SearchRequest,
        SearchResults, UpsertRequest, consistency, placeholder_type,
    },
    rows::{Table, file_key, floats, strings, weights_bytes},
    rpc::{DELETE, HAS_COLLECTION, QUERY, Rpc, SEARCH, UPSERT},
    schema::{Part, pair},
    tokens,
};

/// The words of a file's name count less than those of its text: as in the keyword index of a home.
const NAME_SHARE: f32 = 0.5;

/// Nodes of the graph that a search looks at, at least.
const LOOKED_AT: usize = 200;

/// Rows of a page: Milvus gives 16 384 at most.
const PAGE: usize = 2000;

/// Longest query as words, in bytes.
const LONGEST_QUERY: usize = 16_000;

/// Looks at a collection that somebody else is making, each after a pause.
pub(crate) const LOOKS: usize = 5;

/// A passage that a search has found.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// Its identity.
    pub id: String,
    /// Larger is better; comparable within one list alone.
    pub score: f32,
}

/// A library on a server. Any number of threads may use it.
#[derive(Debug)]
pub struct Store {
    pub(crate) rpc: Rpc,
    pub(crate) address: Address,
}

impl Store {
    /// Connects to the server. Whether the library is there is not asked.
    ///
    /// # Errors
    /// Where nobody answers, somebody else does, or the secret opens nothing.
    pub fn connect(address: &Address, secret: Option<&Secret>, options: Options) -> Result<Store> {
        Ok(Store { rpc: Rpc::connect(address, secret, options)?, address: address.clone() })
    }

    /// The key of a file by the key of who writes it, and its path on that one's machine.
    pub fn key_of(writer: &str, path: &str) -> String {
        file_key(writer, path)
    }

    /// Where it is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What the library says of itself; `None`: there is none.
    ///
    /// # Errors
    /// [`Error::Newer`] for one of a newer program; what the server reports.
    pub fn about(&self) -> Result<Option<About>> {
        if !self.has(Part::About)? {
            return Ok(None);
        }
        let rows = self.records()?;
        let rows = rows.iter().map(|it| (it.0.as_str(), it.1.as_str()));
        let about = About::of_rows(rows).map_err(|it| self.rpc.senseless(it))?;
        let Some(about) = about else { return Ok(None) };
        if about.schema > SCHEMA {
            return Err(Error::Newer {
                address: self.address.to_string(),
                found: about.schema,
                known: SCHEMA,
            });
        }
        Ok(Some(about))
    }

    /// Identities and texts of the records.
    fn records(&self) -> Result<Vec<(String, String)>> {
        let read = || {
            let mut rows = Vec::new();
            self.pages(Part::About, "", &[fields::ID, fields::RECORD], &mut |table| {
                let both = table.texts(fields::ID).zip(table.texts(fields::RECORD));
                let (ids, texts) = both.unwrap_or_default();
                rows.extend(ids.iter().cloned().zip(texts.iter().cloned()));
                Ok(())
            })?;
            Ok(rows)
        };
        // Somebody who makes the library makes the collection first, then its index, and in between it can not be read.
        for _ in 0..LOOKS {
            match read() {
                Err(Error::Server { .. }) => std::thread::sleep(self.rpc.options.pause),
                other => return other,
            }
        }
        read()
    }

    /// As [`about`](Self::about), of a library that has to be there; makes sure that it can be searched.
    ///
    /// # Errors
    /// [`Error::Absent`]; as there.
    pub fn open(&self) -> Result<About> {
        let about = self.about()?;
        let about = about.ok_or_else(|| Error::Absent { address: self.address.to_string() })?;
        self.load(Part::Passages)?;
        Ok(about)
    }

    /// The passages nearest to a vector of length 1, by cosine.
    ///
    /// # Errors
    /// What the server reports.
    pub fn nearest(&self, vector: &[f32], within: Within<'_>, limit: usize) -> Result<Vec<Scored>> {
        let bytes = vector.iter().flat_map(|it| it.to_le_bytes()).collect();
        let looked_at = LOOKED_AT.max(2 * limit);
        let leg = Leg {
            field: fields::DENSE,
            metric: "IP",
            params: format!("{{\"ef\": {looked_at}}}"),
            filter: and(&within.expression(), &format!("{} == true", fields::HAS_DENSE)),
            kind: placeholder_type::FLOAT_VECTOR,
            value: bytes,
        };
        self.search(leg, within, limit)
    }

    /// The passages with the most of these terms, by BM25; terms of the file's name count less.
    ///
    /// # Errors
    /// What the server reports.
    pub fn by_words(
        &self,
        terms: &[String],
        within: Within<'_>,
        limit: usize,
    ) -> Result<Vec<Scored>> {
        let text = tokens::joined(terms, LONGEST_QUERY);
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let leg = |field| Leg {
            field,
            metric: "BM25",
            params: "{}".to_owned(),
            filter: within.expression(),
            kind: placeholder_type::VARCHAR,
            value: text.clone().into_bytes(),
        };
        // Whoever is far down in one list may be up in the sum.
        let (words, names) = std::thread::scope(|scope| {
            let names = scope.spawn(|| self.search(leg(fields::NAMES_BM25), within, 2 * limit));
            let words = self.search(leg(fields::WORDS_BM25), within, 2 * limit);
            (words, names.join())
        });
        let names =
            names.unwrap_or_else(|_| Err(self.rpc.senseless("a search failed: this is a bug")));
        Ok(summed(words?, names?, limit))
    }

    /// The passages nearest by weights of terms.
    ///
    /// # Errors
    /// What the server reports.
    pub fn by_terms(
        &self,
        terms: &TermWeights,
        within: Within<'_>,
        limit: usize,
    ) -> Result<Vec<Scored>> {
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        let leg = Leg {
            field: fields::SPARSE,
            metric: "IP",
            params: "{}".to_owned(),
            filter: and(&within.expression(), &format!("{} == true", fields::HAS_SPARSE)),
            kind: placeholder_type::SPARSE_VECTOR,
            value: weights_bytes(terms),
        };
        self.search(leg, within, limit)
    }

    /// Passages by identity, in any order; those that are gone, or whose rule is none of `rules`, are left out.
    ///
    /// # Errors
    /// What the server reports.
    pub fn passages(&self, ids: &[&str], rules: Option<&[String]>) -> Result<Vec<Passage>> {
        let known = ids.iter().filter(|it| is_key(it));
        let ids: Vec<&str> = known.copied().collect();
        if ids.is_empty() || rules.is_some_and(<[String]>::is_empty) {
            return Ok(Vec::new());
        }
        let expr = one_of(fields::ID, &ids);
        let found = match rules {
            Some(rules) => {
                let expr = and(&expr, &one_of(fields::READERS, rules));
                self.query(Part::Passages, &expr, &fields::read_with_rules(), None, false)?
            }
            None => self.query(Part::Passages, &expr, &fields::READ, None, false)?,
        };
        let passages = self.table(&found)?.passages();
        passages.ok_or_else(|| self.rpc.senseless("a passage without all of its fields"))
    }

    /// The state of every file that the writer with that key has there, by the file's key.
    pub(crate) fn files_of(&self, writer: &str) -> Result<HashMap<String, String>> {
        let mut files = HashMap::new();
        let wanted = [fields::ID, fields::VERSION];
        self.pages(Part::Files, writer, &wanted, &mut |table| {
            let both = table.texts(fields::ID).zip(table.texts(fields::VERSION));
            let (keys, versions) = both.unwrap_or_default();
            files.extend(keys.iter().cloned().zip(versions.iter().cloned()));
            Ok(())
        })?;
        Ok(files)
    }

    /// Removes what one home has written, and its say in the library. If it writes at this moment it stops at its next
    /// batch, and may write anew whenever it likes.
    ///
    /// # Errors
    /// What the server reports.
    pub fn evict(&self, owner: &str) -> Result<()> {
        let key = writer_key(owner);
        // The record goes first: whoever still writes looks at it before every batch.
        self.delete(Part::About, one_of(fields::ID, [writer_row(&key)]))?;
        for part in [Part::Passages, Part::Files, Part::Rules] {
            self.load(part)?;
            self.delete(part, of_writer(&key, &key))?;
        }
        Ok(())
    }

    /// Writes what all writers have in common.
    pub(crate) fn write_about(&self, about: &About) -> Result<()> {
        self.write_record(LIBRARY.to_owned(), serde_json::to_string(about))
    }

    /// Writes what one home says of its share.
    pub(crate) fn write_share(&self, share: &Share) -> Result<()> {
        self.write_record(writer_row(&share.key()), serde_json::to_string(share))
    }

    fn write_record(&self, id: String, text: serde_json::Result<String>) -> Result<()> {
        let text = text.map_err(|it| self.rpc.senseless(it.to_string()))?;
        let columns = vec![
            strings(fields::ID, vec![id]),
            strings(fields::RECORD, vec![text]),
            floats(fields::NOTHING, 2, vec![0.0; 2]),
        ];
        self.upsert(Part::About, columns, 1)
    }

    /// Writes rows, each in the place of the one with its identity.
    pub(crate) fn upsert(&self, part: Part, columns: Vec<FieldData>, rows: usize) -> Result<()> {
        let request = UpsertRequest {
            db_name: self.address.database().to_owned(),
            collection_name: part.collection(self.address.library()),
            fields_data: columns,
            num_rows: u32::try_from(rows).unwrap_or(u32::MAX),
        };
        let done: MutationResult = self.rpc.call(UPSERT, &request)?;
        if !done.err_index.is_empty() {
            let why = format!("{} of {rows} rows were not written", done.err_index.len());
            return Err(self.rpc.senseless(why));
        }
        Ok(())
    }

    /// Deletes what the expression names.
    pub(crate) fn delete(&self, part: Part, expr: String) -> Result<()> {
        let request = DeleteRequest {
            db_name: self.address.database().to_owned(),
            collection_name: part.collection(self.address.library()),
            expr,
            consistency_level: consistency::STRONG,
        };
        let _: MutationResult = self.rpc.call(DELETE, &request)?;
        Ok(())
    }

    /// Hands the rows of a collection over whose identities begin with `prefix`, page by page, in the order of the
    /// identities.
    pub(crate) fn pages(
        &self,
        part: Part,
        prefix: &str,
        wanted: &[&str],
        visit: &mut dyn FnMut(&Table<'_>) -> Result<()>,
    ) -> Result<()> {
        self.load(part)?;
        let mut last = prefix.to_owned();
        loop {
            let expr = of_writer(prefix, &last);
            let found = self.query(part, &expr, wanted, Some(PAGE), true)?;
            let table = self.table(&found)?;
            let Some(end) = table.texts(fields::ID).and_then(|it| it.iter().max()) else {
                return Ok(());
            };
            // A server that gives the same page again would be asked for ever.
            if *end <= last || !is_key(end) {
                return Err(self.rpc.senseless("a page that does not follow the one before"));
            }
            last.clone_from(end);
            visit(&table)?;
            if table.len < PAGE {
                return Ok(());
            }
        }
    }

    pub(crate) fn collection(&self, part: Part) -> CollectionRequest {
        CollectionRequest {
            db_name: self.address.database().to_owned(),
            collection_name: part.collection(self.address.library()),
        }
    }

    pub(crate) fn has(&self, part: Part) -> Result<bool> {
        let answer: BoolResponse = self.rpc.call(HAS_COLLECTION, &self.collection(part))?;
        Ok(answer.value)
    }

    fn query(
        &self,
        part: Part,
        expr: &str,
        wanted: &[&str],
        page: Option<usize>,
        strong: bool,
    ) -> Result<QueryResults> {
        let (level, timestamp) = freshness(strong);
        let query_params = match page {
            // As the iterators of Milvus' own clients: rows come in the order of their identities.
            Some(limit) => vec![
                pair("limit", &limit.to_string()),
                pair("iterator", "True"),
                pair("reduce_stop_for_best", "True"),
            ],
            None => Vec::new(),
        };
        let request = QueryRequest {
            db_name: self.address.database().to_owned(),
            collection_name: part.collection(self.address.library()),
            expr: expr.to_owned(),
            output_fields: wanted.iter().map(|&it| it.to_owned()).collect(),
            guarantee_timestamp: timestamp,
            query_params,
            consistency_level: level,
        };
        self.rpc.call(QUERY, &request)
    }

    fn table<'a>(&self, found: &'a QueryResults) -> Result<Table<'a>> {
        let table = Table::of(&found.fields_data);
        table.ok_or_else(|| self.rpc.senseless("columns of different lengths"))
    }

    fn search(&self, leg: Leg, within: Within<'_>, limit: usize) -> Result<Vec<Scored>> {
        if limit == 0 || within.is_nothing() {
            return Ok(Vec::new());
        }
        let group = PlaceholderGroup {
            placeholders: vec![PlaceholderValue {
                tag: "$0".to_owned(),
                kind: leg.kind,
                values: vec![leg.value],
            }],
        };
        let (level, timestamp) = freshness(false);
        let request = SearchRequest {
            db_name: self.address.database().to_owned(),
            collection_name: Part::Passages.collection(self.address.library()),
            dsl: leg.filter,
            placeholder_group: group.encode_to_vec(),
            dsl_type: DSL_EXPRESSION,
            output_fields: Vec::new(),
            search_params: vec![
                pair("anns_field", leg.field),
                pair("topk", &limit.to_string()),
                pair("metric_type", leg.metric),
                pair("params", &leg.params),
                pair("round_decimal", "-1"),
            ],
            guarantee_timestamp: timestamp,
            nq: 1,
            consistency_level: level,
        };
        let found: SearchResults = self.rpc.call(SEARCH, &request)?;
        let Some(results) = found.results else { return Ok(Vec::new()) };
        let ids = results.ids.and_then(|it| it.strings).unwrap_or_default().data;
        if ids.len() != results.scores.len() {
            return Err(self.rpc.senseless("a list with other numbers of passages and scores"));
        }
        // One version of the server gives distances, which are smaller the better, in the place of BM25's scores.
        let sign = if leg.metric == "BM25" { f32::abs } else { |it| it };
        let scored = |(id, score): (String, f32)| Scored { id, score: sign(score) };
        let mut hits: Vec<Scored> = ids.into_iter().zip(results.scores).map(scored).collect();
        hits.retain(|it| it.score.is_finite());
        best_first(&mut hits, limit);
        Ok(hits)
    }
}

/// One search of one field.
struct Leg {
    field: &'static str,
    metric: &'static str,
    params: String,
    filter: String,
    kind: i32,
    value: Vec<u8>,
}

/// Consistency of a read, and the time that stands for it.
fn freshness(strong: bool) -> (i32, u64) {
    if strong {
        (consistency::STRONG, 0)
    } else {
        (consistency::BOUNDED, consistency::BOUNDED_TIMESTAMP)
    }
}

/// Of equals the one whose identity comes first: the order is the same every time.
fn best_first(hits: &mut Vec<Scored>, limit: usize) {
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
    hits.truncate(limit);
}

/// The best by the sum of both scores.
fn summed(words: Vec<Scored>, names: Vec<Scored>, limit: usize) -> Vec<Scored> {
    let mut sums: HashMap<String, f32> = HashMap::new();
    for it in words {
        *sums.entry(it.id).or_default() += it.score;
    }
    for it in names {
        *sums.entry(it.id).or_default() += NAME_SHARE * it.score;
    }
    let mut hits: Vec<Scored> = sums.into_iter().map(|(id, score)| Scored { id, score }).collect();
    best_first(&mut hits, limit);
    hits
}

/// The rows of the writer with that key whose identities come after `last`; of all writers with an empty key.
fn of_writer(key: &str, last: &str) -> String {
    let after = format!("{} > \"{last}\"", fields::ID);
    // Whatever follows the key is a digit of a key or `-`, and all of them come before the `g`.
    let before =
        if key.is_empty() { String::new() } else { format!("{} < \"{key}g\"", fields::ID) };
    and(&after, &before)
}

/// Whether it may stand in an expression.
fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(pairs: &[(&str, f32)]) -> Vec<Scored> {
        pairs.iter().map(|&(id, score)| Scored { id: id.to_owned(), score }).collect()
    }

    #[test]
    fn words_of_the_name_count_half() {
        let sum = summed(list(&[("a", 3.0), ("b", 2.0)]), list(&[("b", 4.0), ("c", 1.0)]), 2);
        assert_eq!(sum, list(&[("b", 4.0), ("a", 3.0)]));
    }

    #[test]
    fn rows_of_a_writer_are_those_with_its_key() {
        assert_eq!(of_writer("", "07"), "id > \"07\"");
        assert_eq!(of_writer("0a", "0a7"), "id > \"0a7\" and id < \"0ag\"");
        let within = |id: &str| id > "0a" && id < "0ag";
        assert!(["0a0", "0a9f-12", "0aff-0"].into_iter().all(within));
        assert!(!["0b", "09f", "0a", "0"].into_iter().any(within));
    }

    #[test]
    fn what_could_change_an_expression_is_no_key() {
        assert!(is_key("0af-12"));
        for bad in ["", "a\"", "a b", "a\\", "ä"] {
            assert!(!is_key(bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_sum_is_the_definition(
            words in prop::collection::hash_map("[a-f]", 0.0f32..9.0, 0..6),
            names in prop::collection::hash_map("[a-f]", 0.0f32..9.0, 0..6),
        ) {
            let of = |it: &HashMap<String, f32>| -> Vec<Scored> {
                it.iter().map(|(id, &score)| Scored { id: id.clone(), score }).collect()
            };
            let sum = summed(of(&words), of(&names), 99);
            for it in &sum {
                let (word, name) = (words.get(&it.id), names.get(&it.id));
                let expected = word.unwrap_or(&0.0) + 0.5 * name.unwrap_or(&0.0);
                prop_assert!((it.score - expected).abs() < 1e-5);
            }
            prop_assert!(sum.is_sorted_by(|a, b| a.score >= b.score));
        }
    }
}
