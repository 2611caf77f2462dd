//! Names of the fields, what they may hold, and the keys that stand for texts.

pub(crate) const ID: &str = "id";
pub(crate) const FILE: &str = "file";
pub(crate) const VERSION: &str = "version";
pub(crate) const ROOT: &str = "root";
pub(crate) const FOLDERS: &str = "folders";
pub(crate) const PATH: &str = "path";
pub(crate) const KIND: &str = "kind";
pub(crate) const MODIFIED: &str = "modified";
pub(crate) const ORDINAL: &str = "ordinal";
pub(crate) const TITLE: &str = "title";
pub(crate) const HEADING: &str = "heading";
pub(crate) const TEXT: &str = "text";
pub(crate) const LOCATION: &str = "location";
pub(crate) const LANGUAGE: &str = "language";
pub(crate) const WORDS: &str = "words";
pub(crate) const NAMES: &str = "names";
pub(crate) const WORDS_BM25: &str = "words_bm25";
pub(crate) const NAMES_BM25: &str = "names_bm25";
pub(crate) const HAS_DENSE: &str = "has_dense";
pub(crate) const DENSE: &str = "dense";
pub(crate) const HAS_SPARSE: &str = "has_sparse";
pub(crate) const SPARSE: &str = "sparse";
pub(crate) const PASSAGES: &str = "passages";
pub(crate) const RECORD: &str = "record";
pub(crate) const NOTHING: &str = "nothing";
pub(crate) const READERS: &str = "readers";

/// What is read of a passage to show, fuse and rerank it.
pub(crate) const READ: [&str; 14] = [
    ID, FILE, PATH, KIND, MODIFIED, ORDINAL, TITLE, HEADING, TEXT, LOCATION, LANGUAGE, HAS_DENSE,
    DENSE, SPARSE,
];

/// The same, and by which rule it may be read: libraries of the first form have none.
pub(crate) fn read_with_rules() -> Vec<&'static str> {
    READ.into_iter().chain([READERS]).collect()
}

/// Longest text of a field in bytes: Milvus' own limit is 65 535.
pub(crate) const LONGEST_TEXT: usize = 65_000;

/// Longest key of ours.
pub(crate) const LONGEST_KEY: usize = 64;

/// Longest path that Linux knows.
pub(crate) const LONGEST_PATH: usize = 4096;

/// Most folders above a file that a filter can name.
pub(crate) const MOST_FOLDERS: usize = 64;

/// Bytes of a key before it is written in hexadecimal digits.
const KEY_BYTES: usize = 16;

/// The key of a text: 32 hexadecimal digits.
pub(crate) fn key_of(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..2 * KEY_BYTES].to_owned()
}
