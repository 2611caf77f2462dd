//! The language of a text, where it is long enough to tell.

/// Below this many letters a guess is as often wrong as right.
const SHORTEST: usize = 40;

/// ISO 639-1 code of the text's language.
pub(crate) fn detect(text: &str) -> Option<String> {
    // The beginning tells the language as well as the whole book.
    const LOOKED_AT: usize = 4000;
    let end = text.char_indices().nth(LOOKED_AT).map_or(text.len(), |(at, _)| at);
    let text = &text[..end];
    let wide = text.chars().filter(|it| u32::from(*it) > 0x2E80).count();
    // A character of Chinese or Japanese says as much as several letters.
    if text.chars().filter(|it| it.is_alphabetic()).count() + 4 * wide < SHORTEST {
        return None;
    }
    let detected = whichlang::detect_language(text).three_letter_code();
    riddle_types::language_code(detected).map(str::to_owned)
}
