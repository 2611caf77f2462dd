//! In which language somebody asks, and what that says of words, embedders and rerankers.

use riddle_models::embedder_languages;
use riddle_retrieval::detect_language;

use crate::home::embedder::encoder_name;

/// Passages whose language is looked at, the best first.
const PASSAGES_LOOKED_AT: usize = 5;

/// Fewest letters of a query that tell its language: below, names and loan words decide.
const LETTERS_OF_A_QUERY: usize = 30;

/// Whether an embedder of this identity reads all languages, as far as is known.
pub(super) fn reads_all(embedder: &str) -> bool {
    embedder_languages(encoder_name(embedder)).is_empty()
}

/// The language (ISO 639-1) that is none of `languages`, if there are any: that of the query, or of most of the first
/// passages.
pub(crate) fn foreign_language<'a>(
    languages: &[impl AsRef<str>],
    query: &str,
    passages: impl Iterator<Item = &'a str>,
) -> Option<String> {
    if languages.is_empty() {
        return None;
    }
    let foreign = |text: &str| {
        let language = detect_language(text)?;
        (!languages.iter().any(|it| it.as_ref() == language)).then_some(language)
    };
    if let Some(language) = language_of_query(query)
        && !languages.iter().any(|it| it.as_ref() == language)
    {
        return Some(language);
    }
    let passages: Vec<Option<String>> = passages.take(PASSAGES_LOOKED_AT).map(foreign).collect();
    let strange: Vec<&String> = passages.iter().flatten().collect();
    (2 * strange.len() > passages.len()).then(|| strange[0].clone())
}

/// The language (ISO 639-1) of a query that is long enough to tell it.
fn language_of_query(query: &str) -> Option<String> {
    let letters = query.chars().filter(|it| it.is_alphabetic()).count();
    let not_latin = query.chars().any(|it| it.is_alphabetic() && it > '\u{24f}');
    if letters >= LETTERS_OF_A_QUERY || not_latin { detect_language(query) } else { None }
}
