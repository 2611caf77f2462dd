//! Rows of the collections: passages and files as columns of the protocol, and back.

use std::collections::HashMap;

use riddle_types::{FileKind, Location, TermWeights};

use crate::{
    fields::{self, LONGEST_KEY, LONGEST_PATH, LONGEST_TEXT, MOST_FOLDERS, key_of},
    proto::{
        Arrays, Bools, Column, FieldData, Floats, Longs, Scalar, Scalars, SparseVectors, Strings,
        Vector, Vectors, data_type,
    },
    tokens,
};

/// A passage as it is kept there.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    /// Identity: the file's key and the place in it. Where it is read, as it was written.
    pub id: String,
    /// The file's absolute path on the machine that wrote it.
    pub path: String,
    /// The folder that was indexed.
    pub root: String,
    /// Key of the rule by which it may be read. Read back where rights are looked at, else empty.
    pub readers: String,
    /// Format family.
    pub kind: FileKind,
    /// The file's modification time, in seconds since 1970.
    pub modified: i64,
    /// The title that the file states; may be empty.
    pub title: String,
    /// ISO 639-1 code of the file; may be empty.
    pub language: String,
    /// Position in the file.
    pub ordinal: u32,
    /// Headings above it.
    pub heading: String,
    /// The passage.
    pub text: String,
    /// Where it is in the file.
    pub location: Location,
    /// Terms of title, headings and text, as queries name them. Not read back.
    pub words: Vec<String>,
    /// Terms of the file's name. Not read back.
    pub names: Vec<String>,
    /// Its vector of length 1.
    pub vector: Option<Vec<f32>>,
    /// Its weights of terms.
    pub weights: Option<TermWeights>,
}

/// Which state of a file is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRow {
    /// Identity, by [`Push::key_of`](crate::Push::key_of).
    pub key: String,
    /// Hash over all that is kept of it.
    pub version: String,
    /// Its path.
    pub path: String,
    /// The folder that was indexed.
    pub root: String,
    /// Passages.
    pub passages: u64,
}

/// The key of a file by who writes it, and its path on that one's machine.
pub(crate) fn file_key(writer: &str, path: &str) -> String {
    format!("{writer}{}", key_of(path))
}

/// The key of the file that a passage of that identity is of.
pub(crate) fn file_of(id: &str) -> &str {
    id.rsplit_once('-').map_or(id, |it| it.0)
}

/// Keys of all folders above a file.
pub fn folder_keys(path: &str) -> Vec<String> {
    let separator = |c: char| c == '/' || c == '\\';
    let mut keys: Vec<String> = path
        .match_indices(separator)
        .map(|(at, _)| key_of(if at == 0 { &path[..1] } else { &path[..at] }))
        .collect();
    // The deepest are those that people name.
    let extra = keys.len().saturating_sub(MOST_FOLDERS);
    keys.drain(..extra);
    keys
}

/// Text within the limit of a field.
fn within(text: &str, limit: usize) -> String {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// The identity of a passage, by its file's key.
pub(crate) fn passage_id(file: &str, ordinal: u32) -> String {
    format!("{file}-{ordinal}")
}

/// A sparse vector with nothing in it is refused by some versions: where none is known, one weight that no search looks
/// at, because what has no weights is not searched.
const NO_WEIGHTS: [(u32, f32); 1] = [(0, 1e-6)];

fn sparse_bytes(terms: impl IntoIterator<Item = (u32, f32)>) -> Vec<u8> {
    let pair = |(term, weight): (u32, f32)| {
        let ([a, b, c, d], [e, f, g, h]) = (term.to_le_bytes(), weight.to_le_bytes());
        [a, b, c, d, e, f, g, h]
    };
    terms.into_iter().flat_map(pair).collect()
}

/// Weights of terms as bytes of the protocol: pairs of a term and its steps.
pub(crate) fn weights_bytes(weights: &TermWeights) -> Vec<u8> {
    sparse_bytes(weights.terms().iter().map(|it| (it.0, f32::from(it.1))))
}

/// What [`weights_bytes`] wrote; what is no whole number of steps is rounded, what is none is passed over.
fn weights_of(bytes: &[u8]) -> TermWeights {
    let pair = |it: &[u8]| {
        let term = u32::from_le_bytes([it[0], it[1], it[2], it[3]]);
        let weight = f32::from_le_bytes([it[4], it[5], it[6], it[7]]);
        // `as` makes 0 of what is no number, and stops at 255.
        (term, weight.round() as u8)
    };
    TermWeights::of(bytes.chunks_exact(8).map(pair))
}

pub(crate) fn strings(name: &str, data: Vec<String>) -> FieldData {
    scalars(name, data_type::VARCHAR, Scalar::Strings(Strings { data }))
}

pub(crate) fn longs(name: &str, data: Vec<i64>) -> FieldData {
    scalars(name, data_type::INT64, Scalar::Longs(Longs { data }))
}

fn bools(name: &str, data: Vec<bool>) -> FieldData {
    scalars(name, data_type::BOOL, Scalar::Bools(Bools { data }))
}

fn scalars(name: &str, data_type: i32, data: Scalar) -> FieldData {
    let column = Some(Column::Scalars(Scalars { data: Some(data) }));
    FieldData { data_type, field_name: name.to_owned(), column }
}

pub(crate) fn floats(name: &str, dimensions: usize, data: Vec<f32>) -> FieldData {
    let data = Some(Vector::Floats(Floats { data }));
    let column = Some(Column::Vectors(Vectors { dimensions: dimensions as i64, data }));
    FieldData { data_type: data_type::FLOAT_VECTOR, field_name: name.to_owned(), column }
}

fn sparse(name: &str, rows: &[&Passage]) -> FieldData {
    let contents: Vec<Vec<u8>> = rows
        .iter()
        .map(|it| match it.weights.as_ref().filter(|it| !it.is_empty()) {
            Some(weights) => weights_bytes(weights),
            None => sparse_bytes(NO_WEIGHTS),
        })
        .collect();
    let largest = rows
        .iter()
        .filter_map(|it| Some(it.weights.as_ref()?.terms().last()?.0))
        .max()
        .unwrap_or(0);
    let dimensions = i64::from(largest) + 1;
    let data = Some(Vector::Sparse(SparseVectors { contents, dimensions }));
    let column = Some(Column::Vectors(Vectors { dimensions, data }));
    FieldData { data_type: data_type::SPARSE_VECTOR, field_name: name.to_owned(), column }
}

fn folders(rows: &[&Passage]) -> FieldData {
    let of = |it: &&Passage| Scalars {
        data: Some(Scalar::Strings(Strings { data: folder_keys(&it.path) })),
    };
    let data = rows.iter().map(of).collect();
    let arrays = Arrays { data, element_type: data_type::VARCHAR };
    scalars(fields::FOLDERS, data_type::ARRAY, Scalar::Arrays(arrays))
}

/// Passages as columns; each belongs to the state `version` of its file.
pub(crate) fn passage_columns(rows: &[(&Passage, &str)], dimensions: usize) -> Vec<FieldData> {
    let passages: Vec<&Passage> = rows.iter().map(|it| it.0).collect();
    let text = |name: &str, limit: usize, of: fn(&Passage) -> &str| {
        strings(name, passages.iter().map(|it| within(of(it), limit)).collect())
    };
    let words = |name: &str, of: fn(&Passage) -> &[String]| {
        strings(name, passages.iter().map(|it| tokens::joined(of(it), LONGEST_TEXT)).collect())
    };
    let long = |name: &str, of: fn(&Passage) -> i64| {
        longs(name, passages.iter().map(|it| of(it)).collect())
    };
    let location = |it: &&Passage| serde_json::to_string(&it.location).unwrap_or_default();
    let vector = |it: &&Passage| {
        it.vector
            .clone()
            .filter(|it| it.len() == dimensions)
            .unwrap_or_else(|| vec![0.0; dimensions])
    };
    let key = |it: &&Passage| file_of(&it.id).to_owned();
    vec![
        text(fields::ID, LONGEST_TEXT, |it| &it.id),
        strings(fields::FILE, passages.iter().map(key).collect()),
        strings(fields::VERSION, rows.iter().map(|it| it.1.to_owned()).collect()),
        strings(fields::ROOT, passages.iter().map(|it| key_of(&it.root)).collect()),
        text(fields::READERS, LONGEST_KEY, |it| &it.readers),
        folders(&passages),
        text(fields::PATH, LONGEST_PATH, |it| &it.path),
        text(fields::KIND, 64, |it| it.kind.as_str()),
        long(fields::MODIFIED, |it| it.modified),
        long(fields::ORDINAL, |it| i64::from(it.ordinal)),
        text(fields::TITLE, LONGEST_TEXT, |it| &it.title),
        text(fields::HEADING, LONGEST_TEXT, |it| &it.heading),
        text(fields::TEXT, LONGEST_TEXT, |it| &it.text),
        strings(fields::LOCATION, passages.iter().map(location).collect()),
        text(fields::LANGUAGE, 64, |it| &it.language),
        words(fields::WORDS, |it| &it.words),
        words(fields::NAMES, |it| &it.names),
        bools(fields::HAS_DENSE, passages.iter().map(|it| it.vector.is_some()).collect()),
        floats(fields::DENSE, dimensions, passages.iter().flat_map(vector).collect()),
        bools(fields::HAS_SPARSE, passages.iter().map(|it| has_weights(it)).collect()),
        sparse(fields::SPARSE, &passages),
    ]
}

fn has_weights(passage: &Passage) -> bool {
    passage.weights.as_ref().is_some_and(|it| !it.is_empty())
}

/// Rules as columns, each a key and what is kept under it.
pub(crate) fn rule_columns(rows: &[(String, String)]) -> Vec<FieldData> {
    vec![
        strings(fields::ID, rows.iter().map(|it| it.0.clone()).collect()),
        strings(fields::RECORD, rows.iter().map(|it| it.1.clone()).collect()),
        floats(fields::NOTHING, 2, vec![0.0; 2 * rows.len()]),
    ]
}

/// Files as columns.
pub(crate) fn file_columns(rows: &[FileRow]) -> Vec<FieldData> {
    let of = |name: &str, of: fn(&FileRow) -> String| strings(name, rows.iter().map(of).collect());
    vec![
        of(fields::ID, |it| it.key.clone()),
        of(fields::VERSION, |it| it.version.clone()),
        of(fields::ROOT, |it| key_of(&it.root)),
        of(fields::PATH, |it| within(&it.path, LONGEST_PATH)),
        longs(fields::PASSAGES, rows.iter().map(|it| it.passages.cast_signed()).collect()),
        floats(fields::NOTHING, 2, vec![0.0; 2 * rows.len()]),
    ]
}

/// Columns of an answer, by name.
pub(crate) struct Table<'a> {
    columns: HashMap<&'a str, &'a Column>,
    /// Rows.
    pub(crate) len: usize,
}

impl<'a> Table<'a> {
    /// `None` when the columns are not all of one length.
    pub(crate) fn of(columns: &'a [FieldData]) -> Option<Table<'a>> {
        let named = |it: &'a FieldData| Some((it.field_name.as_str(), it.column.as_ref()?));
        let columns: HashMap<&str, &Column> = columns.iter().filter_map(named).collect();
        let mut lengths = columns.values().filter_map(|it| length(it));
        let len = lengths.next().unwrap_or(0);
        lengths.all(|it| it == len).then_some(Table { columns, len })
    }

    /// The texts of a column; `None` when there is none of that name.
    pub(crate) fn texts(&self, name: &str) -> Option<&'a [String]> {
        match self.columns.get(name)? {
            Column::Scalars(Scalars { data: Some(Scalar::Strings(it)) }) => Some(&it.data),
            _ => None,
        }
    }

    fn numbers(&self, name: &str) -> Option<&'a [i64]> {
        match self.columns.get(name)? {
            Column::Scalars(Scalars { data: Some(Scalar::Longs(it)) }) => Some(&it.data),
            _ => None,
        }
    }

    fn switches(&self, name: &str) -> Option<&'a [bool]> {
        match self.columns.get(name)? {
            Column::Scalars(Scalars { data: Some(Scalar::Bools(it)) }) => Some(&it.data),
            _ => None,
        }
    }

    fn vectors(&self, name: &str) -> Option<(&'a [f32], usize)> {
        match self.columns.get(name)? {
            Column::Vectors(Vectors { dimensions, data: Some(Vector::Floats(it)) }) => {
                Some((&it.data, usize::try_from(*dimensions).ok()?))
            }
            _ => None,
        }
    }

    fn sparse(&self, name: &str) -> Option<&'a [Vec<u8>]> {
        match self.columns.get(name)? {
            Column::Vectors(Vectors { data: Some(Vector::Sparse(it)), .. }) => Some(&it.contents),
            _ => None,
        }
    }

    /// The rows as passages; `None` when a column is missing.
    pub(crate) fn passages(&self) -> Option<Vec<Passage>> {
        if self.len == 0 {
            return Some(Vec::new());
        }
        let text = |name| self.texts(name);
        let (ids, paths, kinds) = (text(fields::ID)?, text(fields::PATH)?, text(fields::KIND)?);
        let (titles, headings) = (text(fields::TITLE)?, text(fields::HEADING)?);
        let (texts, locations) = (text(fields::TEXT)?, text(fields::LOCATION)?);
        let languages = text(fields::LANGUAGE)?;
        let readers = text(fields::READERS);
        let (modified, ordinals) =
            (self.numbers(fields::MODIFIED)?, self.numbers(fields::ORDINAL)?);
        let has_dense = self.switches(fields::HAS_DENSE)?;
        let (dense, dimensions) = self.vectors(fields::DENSE)?;
        let weights = self.sparse(fields::SPARSE)?;
        let row = |at: usize| Passage {
            id: ids[at].clone(),
            path: paths[at].clone(),
            root: String::new(),
            readers: readers.map(|it| it[at].clone()).unwrap_or_default(),
            kind: FileKind::parse(&kinds[at]).unwrap_or(FileKind::Other),
            modified: modified[at],
            title: titles[at].clone(),
            language: languages[at].clone(),
            ordinal: u32::try_from(ordinals[at]).unwrap_or(0),
            heading: headings[at].clone(),
            text: texts[at].clone(),
            // A kind of place from a newer version is shown as the whole file.
            location: serde_json::from_str(&locations[at]).unwrap_or(Location::Whole),
            words: Vec::new(),
            names: Vec::new(),
            vector: has_dense[at].then(|| dense[at * dimensions..(at + 1) * dimensions].to_vec()),
            weights: Some(weights_of(&weights[at])).filter(|it| !it.is_empty()),
        };
        Some((0..self.len).map(row).collect())
    }
}

/// Rows of a column; `None` where it does not tell.
fn length(column: &Column) -> Option<usize> {
    match column {
        Column::Scalars(Scalars { data: Some(data) }) => Some(match data {
            Scalar::Bools(it) => it.data.len(),
            Scalar::Longs(it) => it.data.len(),
            Scalar::Strings(it) => it.data.len(),
            Scalar::Arrays(it) => it.data.len(),
        }),
        Column::Vectors(Vectors { dimensions, data: Some(Vector::Floats(it)) }) => {
            let dimensions = usize::try_from(*dimensions).ok().filter(|it| *it > 0)?;
            // A part of a vector makes another length than that of the others.
            Some(it.data.len().div_ceil(dimensions))
        }
        Column::Vectors(Vectors { data: Some(Vector::Sparse(it)), .. }) => Some(it.contents.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn passage(ordinal: u32, text: &str) -> Passage {
        Passage {
            id: passage_id(&file_key("0a", "/a/b.md"), ordinal),
            path: "/a/b.md".to_owned(),
            root: String::new(),
            readers: "r".to_owned(),
            kind: FileKind::Markdown,
            modified: -3,
            title: "T".to_owned(),
            language: "en".to_owned(),
            ordinal,
            heading: "H".to_owned(),
            text: text.to_owned(),
            location: Location::Line { start: 1, end: 2 },
            words: Vec::new(),
            names: Vec::new(),
            vector: Some(vec![0.6, 0.8]),
            weights: Some(TermWeights::of([(3, 7), (70_000, 255)])),
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut rows = vec![passage(0, "one"), passage(1, "two")];
        (rows[1].vector, rows[1].weights) = (None, None);
        let pairs: Vec<(&Passage, &str)> = rows.iter().map(|it| (it, "v")).collect();
        let columns = passage_columns(&pairs, 2);
        let table = Table::of(&columns).expect("columns of one length");
        assert_eq!(table.passages().expect("all columns"), rows);
    }

    #[test]
    fn columns_that_lie_are_no_table() {
        let columns = [strings("a", vec!["x".to_owned()]), longs("b", vec![1, 2])];
        assert!(Table::of(&columns).is_none());
        let part_of_one =
            [floats(fields::DENSE, 2, vec![0.0; 3]), strings("a", vec![String::new()])];
        assert!(Table::of(&part_of_one).is_none());
        let missing = [strings(fields::ID, vec!["x".to_owned()])];
        assert!(Table::of(&missing).expect("one column").passages().is_none());
        assert_eq!(Table::of(&[]).expect("nothing").passages(), Some(Vec::new()));
    }

    #[test]
    fn folders_are_found_by_their_names_as_a_whole() {
        let keys = folder_keys("/a/b/c.md");
        assert_eq!(keys, ["/", "/a", "/a/b"].map(key_of));
        assert_eq!(folder_keys("notes/x"), [key_of("notes")]);
        let deep = "/x".repeat(100);
        let keys = folder_keys(&deep);
        assert_eq!(keys.len(), MOST_FOLDERS);
        assert_eq!(keys.last(), Some(&key_of(&"/x".repeat(99))));
    }

    #[test]
    fn texts_end_at_a_letter() {
        assert_eq!((within("äöü", 3), within("äöü", 9)), ("ä".to_owned(), "äöü".to_owned()));
    }

    proptest! {
        #[test]
        fn weights_keep_every_step(terms in prop::collection::vec((any::<u32>(), 0u8..=255), 0..30)) {
            let weights = TermWeights::of(terms);
            prop_assert_eq!(weights_of(&weights_bytes(&weights)), weights);
        }

        #[test]
        fn any_bytes_are_weights(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let weights = weights_of(&bytes);
            prop_assert!(weights.terms().is_sorted_by(|a, b| a.0 < b.0));
        }
    }
}
