//! A chunk as it is indexed by words, and what its words are.

use riddle_types::{ChunkId, FileKind};

use crate::{
    analyze::{Analyzer, Purpose, Term},
    language::{code_of, stemmer_of},
};

/// Most languages whose stems a query is looked up in: the commonest of the library.
pub(crate) const MOST_LANGUAGES: usize = 6;

/// A chunk as the keyword index takes it.
#[derive(Debug, Clone, Copy)]
pub struct IndexedChunk<'a> {
    /// Identity.
    pub id: ChunkId,
    /// The file's absolute path as text.
    pub path: &'a str,
    /// Format family.
    pub kind: FileKind,
    /// Modification time of the file, in seconds since 1970.
    pub modified: i64,
    /// Title of the file; may be empty.
    pub title: &'a str,
    /// Headings above the chunk; may be empty.
    pub heading: &'a str,
    /// The passage.
    pub text: &'a str,
    /// ISO 639-1 code of the file.
    pub language: Option<&'a str>,
}

/// A text too short to tell is English, whose stemmer does little harm to others.
const USUAL: &str = "en";

/// The language that a chunk's words are stemmed in.
pub(crate) fn language_of(chunk: &IndexedChunk<'_>) -> &'static str {
    code_of(chunk.text, chunk.language).unwrap_or(USUAL)
}

/// What the index keeps of a chunk: terms of its text, those of the file's name, and the language of both.
pub(crate) fn analyzed(
    analyzer: &mut Analyzer,
    chunk: &IndexedChunk<'_>,
) -> (Vec<Term>, Vec<Term>, &'static str) {
    let all = [chunk.title, chunk.heading, chunk.text].join("\n");
    let code = language_of(chunk);
    let languages = [stemmer_of(code)];
    let terms = analyzer.terms(&all, &languages, Purpose::Index);
    let (_, name) = split_path(chunk.path);
    let names = analyzer.terms(name, &languages, Purpose::Index);
    (terms, names, code)
}

/// All folders above a file, each as a whole, and the file's name.
pub(crate) fn split_path(path: &str) -> (Vec<&str>, &str) {
    let is_separator = |c: char| c == '/' || c == std::path::MAIN_SEPARATOR;
    let mut folders: Vec<&str> =
        path.match_indices(is_separator).map(|(at, _)| &path[..at]).collect();
    if path.starts_with(is_separator) {
        folders[0] = &path[..1];
    }
    (folders, path.rsplit(is_separator).next().unwrap_or(path))
}
