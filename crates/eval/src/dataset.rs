//! Datasets in BEIR layout: a corpus, queries, judgments, and optionally runs of other systems.
//!
//! The files come from anywhere: every line is checked, and what is wrong is named by file and line.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;

use crate::{Error, Judgments, Notice, Result};

/// Longest line that is read. The longest documents of the BEIR collections have a few hundred KB; a
/// compressed file could otherwise unpack to one line as large as the memory.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// Most text of a file that is held in memory: five million passages of MS MARCO's length fit.
const MAX_FILE_BYTES: u64 = 4 << 30;

/// A document of the corpus.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Document {
    /// Its id in the judgments.
    #[serde(rename = "_id")]
    pub id: String,
    /// Title; may be empty.
    #[serde(default)]
    pub title: String,
    /// Text.
    pub text: String,
}

/// A query.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TestQuery {
    /// Its id in the judgments.
    #[serde(rename = "_id")]
    pub id: String,
    /// What is asked.
    pub text: String,
}

/// Corpus, queries and judgments of a dataset.
#[derive(Debug, Clone, Default)]
pub struct Dataset {
    /// Name of the dataset's folder.
    pub name: String,
    /// Its folder.
    pub dir: PathBuf,
    /// Documents in the order of the file.
    pub documents: Vec<Document>,
    /// Queries with at least one relevant document, in the order of the file.
    pub queries: Vec<TestQuery>,
    /// Judgments by query id.
    pub judgments: HashMap<String, Judgments>,
    /// What the reader should know about the figures.
    pub notices: Vec<Notice>,
}

impl Dataset {
    /// Reads the dataset in `dir`.
    ///
    /// # Errors
    /// The first file or line that is missing or is not what it should be.
    pub fn open(dir: &Path) -> Result<Dataset> {
        let documents: Vec<Document> = read_jsonl(&corpus_path(dir), |it: &Document| &it.id)?;
        let queries: Vec<TestQuery> =
            read_jsonl(&dir.join("queries.jsonl"), |it: &TestQuery| &it.id)?;
        let judgments = read_judgments(&dir.join("qrels").join("test.tsv"))?;
        let mut dataset = Dataset {
            name: dataset_name(dir),
            dir: dir.to_path_buf(),
            documents,
            queries,
            judgments,
            notices: Vec::new(),
        };
        dataset.reconcile()?;
        Ok(dataset)
    }

    /// Leaves the documents with their texts alone. The corpus has another
    /// [fingerprint](Self::corpus_fingerprint) then, and an index of its own.
    pub fn ignore_titles(&mut self) {
        for document in &mut self.documents {
            document.title.clear();
        }
        self.notices.push(Notice::TitlesIgnored);
    }

    /// Keeps at most `limit` queries: the first, or evenly spread over all.
    pub(crate) fn limit_queries(&mut self, limit: usize, spread: bool) {
        let all = self.queries.len();
        if spread && limit > 0 && limit < all {
            // The middle of each of `limit` equal parts.
            let kept: HashSet<usize> =
                (0..limit).map(|it| (2 * it + 1) * all / (2 * limit)).collect();
            let mut place = 0..;
            self.queries.retain(|_| place.next().is_some_and(|it| kept.contains(&it)));
        }
        self.queries.truncate(limit);
    }

    /// Keeps the queries that can be judged, and says what does not fit together.
    fn reconcile(&mut self) -> Result<()> {
        let relevant = |judgments: &Judgments| judgments.values().any(|&grade| grade > 0);
        let (documents, queries) = (self.documents.len(), self.queries.len());
        self.queries.retain(|it| self.judgments.get(&it.id).is_some_and(relevant));
        if documents == 0 || self.queries.is_empty() {
            let why = format!(
                "nothing to measure: {documents} documents, {queries} queries, {} of them with a relevant document in qrels/test.tsv",
                self.queries.len()
            );
            return Err(Error::Dataset { path: self.dir.clone(), why });
        }
        let known: HashSet<&str> = self.documents.iter().map(|it| it.id.as_str()).collect();
        let absent = self
            .queries
            .iter()
            .flat_map(|it| &self.judgments[&it.id])
            .filter(|(id, grade)| **grade > 0 && !known.contains(id.as_str()))
            .count();
        if absent > 0 {
            self.notices.push(Notice::RelevantAbsent { documents: absent });
        }
        let unjudged = queries - self.queries.len();
        if unjudged > 0 {
            self.notices.push(Notice::QueriesUnjudged { queries: unjudged });
        }
        Ok(())
    }

    /// The candidates that the run `name` (`runs/NAME.trec`) gives each query with their scores, best first: by
    /// score, equal scores in the order of the file.
    ///
    /// # Errors
    /// A missing file, a line that is not in TREC's six columns, or a document that the corpus lacks.
    pub fn run(&self, name: &str) -> Result<HashMap<String, Vec<(usize, f64)>>> {
        let path = self.dir.join("runs").join(format!("{name}.trec"));
        // A name is not a path: it must not lead out of the dataset.
        if name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
            return Err(Error::BadRunName { name: name.to_owned() });
        }
        let places: HashMap<&str, usize> =
            self.documents.iter().enumerate().map(|(place, it)| (it.id.as_str(), place)).collect();
        let mut scored: HashMap<String, Vec<(f64, usize)>> = HashMap::new();
        for_each_line(&path, |line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let &[query, _, document, _, score, ..] = columns.as_slice() else {
                return Err(format!(
                    "{} columns where TREC runs have six: query Q0 document rank score name",
                    columns.len()
                ));
            };
            let score: f64 =
                score.parse().map_err(|_| format!("score {score:?} is not a number"))?;
            if score.is_nan() {
                return Err("the score is not a number".to_owned());
            }
            let place = places
                .get(document)
                .ok_or_else(|| format!("document {document:?} is not in the corpus"))?;
            scored.entry(query.to_owned()).or_default().push((score, *place));
            Ok(())
        })?;
        let by_score = |mut list: Vec<(f64, usize)>| {
            // The sort is stable: equal scores keep the order of the file.
            list.sort_by(|a, b| b.0.total_cmp(&a.0));
            list.into_iter().map(|(score, place)| (place, score)).collect()
        };
        Ok(scored.into_iter().map(|(query, list)| (query, by_score(list))).collect())
    }

    /// Identity of the corpus: ids, titles and texts in order. The index of a corpus is found by it.
    pub fn corpus_fingerprint(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for document in &self.documents {
            for field in [&document.id, &document.title, &document.text] {
                // Lengths keep "ab" + "c" apart from "a" + "bc".
                hasher.update(&(field.len() as u64).to_le_bytes());
                hasher.update(field.as_bytes());
            }
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// The folder's own name, also for `.` and `dir/..`.
pub(crate) fn dataset_name(dir: &Path) -> String {
    let resolved = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    resolved
        .file_name()
        .map_or_else(|| "dataset".to_owned(), |it| it.to_string_lossy().into_owned())
}

fn corpus_path(dir: &Path) -> PathBuf {
    let plain = dir.join("corpus.jsonl");
    let packed = dir.join("corpus.jsonl.gz");
    if !plain.exists() && packed.exists() { packed } else { plain }
}

/// One JSON value per line, ids not empty and not repeated.
fn read_jsonl<T: for<'de> Deserialize<'de>>(path: &Path, id: fn(&T) -> &String) -> Result<Vec<T>> {
    let mut items: Vec<T> = Vec::new();
    let mut seen = HashSet::new();
    for_each_line(path, |line| {
        let item: T = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if id(&item).is_empty() {
            return Err("`_id` is empty".to_owned());
        }
        if !seen.insert(id(&item).clone()) {
            return Err(format!("`_id` {:?} is there a second time", id(&item)));
        }
        items.push(item);
        Ok(())
    })?;
    Ok(items)
}

fn read_judgments(path: &Path) -> Result<HashMap<String, Judgments>> {
    let mut judgments: HashMap<String, Judgments> = HashMap::new();
    let mut first = true;
    for_each_line(path, |line| {
        let is_first = std::mem::take(&mut first);
        let columns: Vec<&str> = line.split('\t').map(str::trim).collect();
        let &[query, document, grade] = columns.as_slice() else {
            return Err(format!(
                "{} columns where judgments have three, separated by tabs: query-id corpus-id score",
                columns.len()
            ));
        };
        let grade = match grade.parse::<i64>() {
            Ok(grade) => grade,
            // Only the header may have a word there.
            Err(_) if is_first => return Ok(()),
            Err(_) => return Err(format!("score {grade:?} is not a whole number")),
        };
        match judgments.entry(query.to_owned()).or_default().insert(document.to_owned(), grade) {
            Some(earlier) if earlier != grade => {
                Err(format!("document {document:?} was judged {earlier} for this query before"))
            }
            _ => Ok(()),
        }
    })?;
    Ok(judgments)
}

/// Calls `each` with every line that is not blank, without its line break.
fn for_each_line(path: &Path, mut each: impl FnMut(&str) -> Result<(), String>) -> Result<()> {
    let file =
        File::open(path).map_err(|source| Error::Open { path: path.to_path_buf(), source })?;
    let file = BufReader::new(file);
    let packed = path.extension().is_some_and(|it| it == "gz");
    let reader: Box<dyn Read> =
        if packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut reader = BufReader::new(reader.take(MAX_FILE_BYTES));
    let (mut number, mut total) = (0, 0);
    let mut line = Vec::new();
    loop {
        number += 1;
        let bad = |why: String| Error::Line { path: path.to_path_buf(), line: number, why };
        line.clear();
        let read =
            (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(|error| {
                bad(format!("{error}: the file is damaged or cut off, fetch it again"))
            })?;
        if read == 0 {
            return Ok(());
        }
        total += read as u64;
        if total == MAX_FILE_BYTES {
            return Err(bad(format!("the file holds more than {} GiB", MAX_FILE_BYTES >> 30)));
        }
        if read as u64 == MAX_LINE_BYTES {
            return Err(bad(format!("longer than {} MiB", MAX_LINE_BYTES >> 20)));
        }
        let text =
            std::str::from_utf8(&line).map_err(|error| bad(format!("not UTF-8: {error}")))?;
        // Some editors put a byte order mark before the first line.
        let text = text.strip_prefix('\u{feff}').filter(|_| number == 1).unwrap_or(text);
        let text = text.trim_end_matches(['\n', '\r']);
        if !text.trim().is_empty() {
            each(text).map_err(bad)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _};

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    const CORPUS: &str = "{\"_id\": \"a\", \"title\": \"Boat\", \"text\": \"A blue boat.\", \"metadata\": {}}\n\n{\"_id\": \"b\", \"text\": \"Bread.\"}\n";
    const QUERIES: &str =
        "{\"_id\": \"q\", \"text\": \"boat?\"}\r\n{\"_id\": \"unjudged\", \"text\": \"?\"}\n";
    const QRELS: &str = "query-id\tcorpus-id\tscore\nq\ta\t1\nq\tb\t0\nq\tgone\t2\n";

    fn dataset(corpus: &[u8], queries: &[u8], qrels: &[u8]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("temp dir");
        fs::create_dir_all(dir.path().join("qrels")).expect("mkdir");
        fs::create_dir_all(dir.path().join("runs")).expect("mkdir");
        fs::write(dir.path().join("corpus.jsonl"), corpus).expect("write");
        fs::write(dir.path().join("queries.jsonl"), queries).expect("write");
        fs::write(dir.path().join("qrels/test.tsv"), qrels).expect("write");
        dir
    }

    fn good() -> tempfile::TempDir {
        dataset(CORPUS.as_bytes(), QUERIES.as_bytes(), QRELS.as_bytes())
    }

    #[test]
    fn limited_queries_are_the_first_or_evenly_spread() {
        let query = |n: usize| TestQuery { id: n.to_string(), text: String::new() };
        let limited = |limit, spread| {
            let mut it = Dataset { queries: (0..10).map(query).collect(), ..Dataset::default() };
            it.limit_queries(limit, spread);
            it.queries.iter().map(|it| it.id.parse().expect("a number")).collect::<Vec<usize>>()
        };
        assert_eq!(limited(3, false), [0, 1, 2]);
        assert_eq!(limited(3, true), [1, 5, 8]);
        assert_eq!(limited(10, true), (0..10).collect::<Vec<_>>());
        assert_eq!(limited(usize::MAX, true).len(), 10);
        assert_eq!(limited(9, true).len(), 9);
    }

    fn packed(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).expect("to memory");
        encoder.finish().expect("to memory")
    }

    #[test]
    fn reads_the_layout() {
        let dir = good();
        let dataset = Dataset::open(dir.path()).expect("good");
        assert_eq!(dataset.documents.len(), 2);
        assert_eq!(dataset.documents[0].title, "Boat");
        assert_eq!(dataset.documents[1].title, "");
        assert_eq!(dataset.queries.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), ["q"]);
        assert_eq!(dataset.judgments["q"]["gone"], 2);
        assert_eq!(dataset.notices.len(), 2, "{:?}", dataset.notices);
    }

    #[test]
    fn a_packed_corpus_is_the_same_corpus() {
        let dir = good();
        let plain = Dataset::open(dir.path()).expect("good").corpus_fingerprint();
        fs::remove_file(dir.path().join("corpus.jsonl")).expect("remove");
        // Two members in one file, as `cat a.gz b.gz` makes them.
        let (head, tail) = CORPUS.split_once("\n\n").expect("two documents");
        let bytes = [packed(&format!("{head}\n")), packed(tail)].concat();
        fs::write(dir.path().join("corpus.jsonl.gz"), &bytes).expect("write");
        assert_eq!(Dataset::open(dir.path()).expect("good").corpus_fingerprint(), plain);

        fs::write(dir.path().join("corpus.jsonl.gz"), &bytes[..bytes.len() - 12]).expect("write");
        let error = Dataset::open(dir.path()).expect_err("cut off").to_string();
        assert!(error.contains("corpus.jsonl.gz:") && error.contains("cut off"), "{error}");
    }

    #[test]
    fn the_fingerprint_sees_every_field() {
        let of = |corpus: &str| {
            let dir = dataset(corpus.as_bytes(), QUERIES.as_bytes(), QRELS.as_bytes());
            Dataset::open(dir.path()).expect("good").corpus_fingerprint()
        };
        let plain = of(CORPUS);
        assert_eq!(plain, of(CORPUS));
        assert_ne!(plain, of(&CORPUS.replace("blue", "red")));
        assert_ne!(plain, of(&CORPUS.replace("Boat", "Ship")));
        assert_ne!(plain, of(&CORPUS.replace("\"b\"", "\"c\"")));
    }

    #[test]
    fn bad_lines_are_named() {
        /// Corpus, queries, judgments, and what the error says.
        type Case<'a> = (&'a [u8], &'a [u8], &'a [u8], &'a str);
        #[rustfmt::skip]
        let cases: &[Case<'_>] = &[
            (b"{\"_id\": \"a\", \"text\": \"x\"}\n{\"_id\"", QUERIES.as_bytes(), QRELS.as_bytes(), "corpus.jsonl:2: EOF"),
            (b"{\"text\": \"x\"}", QUERIES.as_bytes(), QRELS.as_bytes(), "corpus.jsonl:1: missing field `_id`"),
            (b"{\"_id\": \"\", \"text\": \"x\"}", QUERIES.as_bytes(), QRELS.as_bytes(), "corpus.jsonl:1: `_id` is empty"),
            (b"{\"_id\": \"a\", \"text\": \"x\"}\n{\"_id\": \"a\", \"text\": \"y\"}", QUERIES.as_bytes(), QRELS.as_bytes(), "corpus.jsonl:2: `_id` \"a\""),
            (b"{\"_id\": \"a\", \"text\": \"\xff\"}", QUERIES.as_bytes(), QRELS.as_bytes(), "corpus.jsonl:1: not UTF-8"),
            (b"{\"_id\": 7, \"text\": \"x\"}", QUERIES.as_bytes(), QRELS.as_bytes(), "corpus.jsonl:1: invalid type"),
            (CORPUS.as_bytes(), b"[]", QRELS.as_bytes(), "queries.jsonl:1: "),
            (CORPUS.as_bytes(), QUERIES.as_bytes(), b"query-id\tcorpus-id\tscore\nq\ta", "test.tsv:2: 2 columns"),
            (CORPUS.as_bytes(), QUERIES.as_bytes(), b"q\ta\t1\nq\tb\tgood", "test.tsv:2: score \"good\""),
            (CORPUS.as_bytes(), QUERIES.as_bytes(), b"q\ta\t1\nq\ta\t2", "test.tsv:2: document \"a\" was judged 1"),
            (CORPUS.as_bytes(), QUERIES.as_bytes(), b"other\ta\t1", "nothing to measure"),
            (b"", QUERIES.as_bytes(), QRELS.as_bytes(), "nothing to measure"),
        ];
        for (corpus, queries, qrels, want) in cases {
            let dir = dataset(corpus, queries, qrels);
            let error = Dataset::open(dir.path()).expect_err(want).to_string();
            assert!(error.contains(want), "{error:?} does not say {want:?}");
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        let line = vec![b'x'; usize::try_from(MAX_LINE_BYTES).expect("fits") + 1];
        let dir = dataset(&line, QUERIES.as_bytes(), QRELS.as_bytes());
        let error = Dataset::open(dir.path()).expect_err("too long").to_string();
        assert!(error.contains("corpus.jsonl:1: longer than 16 MiB"), "{error}");
    }

    #[test]
    fn a_missing_file_tells_the_layout() {
        let dir = good();
        fs::remove_file(dir.path().join("queries.jsonl")).expect("remove");
        let error = Dataset::open(dir.path()).expect_err("missing").to_string();
        assert!(error.contains("queries.jsonl") && error.contains("qrels/test.tsv"), "{error}");
    }

    #[test]
    fn runs_are_ordered_by_score_and_ties_keep_their_order() {
        let dir = good();
        let write = |text: &str| fs::write(dir.path().join("runs/x.trec"), text).expect("write");
        let dataset = Dataset::open(dir.path()).expect("good");
        let places = |dataset: &Dataset| -> Vec<usize> {
            dataset.run("x").expect("good")["q"].iter().map(|it| it.0).collect()
        };
        write("q Q0 a 1 0.5 x\nq Q0 b 2 0.9 x\n");
        assert_eq!(places(&dataset), [1, 0]);
        write("q Q0 b 1 0.5 x\nq Q0 a 2 0.5 x\n");
        assert_eq!(places(&dataset), [1, 0]);
        for (text, want) in [
            ("q Q0 a 1\n", "x.trec:1: 4 columns"),
            ("q Q0 a 1 NaN x\n", "x.trec:1: the score"),
            ("q Q0 a 1 1 x\nq Q0 zzz 2 1 x\n", "x.trec:2: document \"zzz\""),
        ] {
            write(text);
            let error = dataset.run("x").expect_err(want).to_string();
            assert!(error.contains(want), "{error:?} does not say {want:?}");
        }
        for name in ["../x", "", "missing", ".hidden"] {
            assert!(dataset.run(name).is_err(), "{name:?}");
        }
    }
}
